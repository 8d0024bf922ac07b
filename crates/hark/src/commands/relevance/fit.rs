//! `hark relevance fit`: fit the logistic function to human ratings.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args as ClapArgs;
use hark_relevance::RelevanceFunction;
use hark_relevance::fit::{BetaFit, FitOptions, beta_regression};
use hark_relevance::ratings::{Bound, Observation};
use hark_study::plots;
use serde_json::json;

use super::rated::RatedArgs;
use crate::output;

const EXAMPLES: &str = "Examples:
  hark relevance fit --captions captions.csv --ratings ratings.csv
  hark relevance fit --captions dev.csv --ratings dev_ratings.csv \\
      --captions val.csv --ratings val_ratings.csv --plot fit.svg --json

Ratings are divided by 100, moved off 0 and 1 by --bound, and modelled as beta-distributed with \
mean 1 / (1 + exp(-(intercept + slope h))) and one precision. The fit is by maximum likelihood.";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    rated: RatedArgs,
    /// How to move ratings off 0 and 1: a number b clips to [b, 1 - b], `squeeze` is (y (n - 1) + 0.5) / n
    #[arg(long, value_name = "BOUND", default_value = "0.001")]
    bound: Bound,
    /// Plot the ratings, the fitted curve and the paper's curve
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let raw: Vec<Observation> = args.rated.observe()?.concat();
    let fit = beta_regression(&args.bound.apply(&raw)?, FitOptions::default())?;
    if let Some(path) = &args.plot {
        let drawing = plots::fit(&raw, &fit)?;
        output::write_whole(path, |file| {
            Ok(std::io::Write::write_all(file, drawing.as_bytes())?)
        })?;
    }
    if args.json {
        return output::print_json(&json!({
            "intercept": fit.intercept,
            "slope": fit.slope,
            "log_precision": fit.log_precision,
            "standard_errors": {
                "intercept": fit.standard_errors[0],
                "slope": fit.standard_errors[1],
                "log_precision": fit.standard_errors[2],
            },
            "covariance": fit.covariance,
            "log_likelihood": fit.log_likelihood,
            "observations": fit.observations,
            "converged": true,
            "iterations": fit.iterations,
            "gradient_norm": fit.gradient_norm,
            "model": args.rated.model.name(),
            "aggregate": args.rated.aggregate.to_string(),
            "bound": args.bound.to_string(),
            "function": fit.function().ok(),
        }));
    }
    output::print(&report(&fit)?)
}

fn report(fit: &BetaFit) -> Result<String> {
    let rows = [
        ("intercept", fit.intercept, fit.standard_errors[0]),
        ("slope", fit.slope, fit.standard_errors[1]),
        ("log precision", fit.log_precision, fit.standard_errors[2]),
    ];
    let mut text = "                estimate  standard error        z\n".to_owned();
    for (name, estimate, error) in rows {
        text.push_str(&format!(
            "{name:14}  {estimate:8.4}  {error:14.4}  {:7.1}\n",
            estimate / error
        ));
    }
    text.push_str(&format!(
        "\nlog-likelihood {:.3}, {}\nconverged in {}, gradient {:.1e}\n\n",
        fit.log_likelihood,
        output::counted(fit.observations, "observation"),
        output::counted(fit.iterations, "step"),
        fit.gradient_norm
    ));
    let RelevanceFunction::Logistic { intercept, slope } = fit.function()? else {
        unreachable!("a fit is logistic")
    };
    text.push_str(&format!(
        "g = 1 / (1 + exp({:.3} - {slope:.3} h))\n\nin the [objective] of a recipe:\n",
        -intercept
    ));
    let function = format!("logistic:intercept={intercept:.4},slope={slope:.4}");
    text.push_str(&format!(
        "relevance-function = \"{function}\"\non a command line:\n--function {function}\n"
    ));
    Ok(text)
}
