//! `hark relevance agree`: correlate similarity and relevance with human ratings.

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use hark_relevance::agreement::Agreement;
use hark_relevance::ratings::Observation;
use hark_relevance::{Error, RelevanceFunction};
use serde::Serialize;
use serde_json::json;

use super::rated::RatedArgs;
use crate::output;

const EXAMPLES: &str = "Example:
  hark relevance agree --captions captions.csv --ratings ratings.csv

Spearman's coefficient depends on order alone: those of h and g differ only where the function \
creates ties.";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    rated: RatedArgs,
    /// Relevance function
    #[arg(long, short, value_name = "FUNCTION", default_value = "logistic")]
    function: RelevanceFunction,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Row {
    ratings: String,
    #[serde(flatten)]
    agreement: Agreement,
}

pub fn run(args: &Args) -> Result<()> {
    // Fails for a function that similarity alone does not decide, before anything is embedded.
    if args.function == RelevanceFunction::Binary {
        bail!(Error::NeedsClips);
    }
    args.function.apply(0.0, false)?;
    let files = args.rated.observe()?;
    let row = |ratings: String, observations: &[Observation]| -> Result<Row> {
        let agreement = Agreement::of(observations, &args.function)?;
        Ok(Row { ratings, agreement })
    };
    let names = args.rated.ratings.iter().map(|path| path.display().to_string());
    let mut rows = names
        .zip(&files)
        .map(|(name, observations)| row(name, observations))
        .collect::<Result<Vec<_>>>()?;
    if files.len() > 1 {
        rows.push(row("all".to_owned(), &files.concat())?);
    }
    if args.json {
        return output::print_json(&json!({
            "model": args.rated.model.name(),
            "function": args.function,
            "aggregate": args.rated.aggregate.to_string(),
            "agreement": rows,
        }));
    }
    let mut text = format!("{:>12}  {:^18}  {:^18}\n", "", "similarity h", "relevance g");
    text.push_str("observations  Spearman  Pearson  Spearman  Pearson  ratings\n");
    for Row { ratings, agreement } in rows {
        text.push_str(&format!(
            "{:>12}  {:>8.4}  {:>7.4}  {:>8.4}  {:>7.4}  {ratings}\n",
            output::group_digits(agreement.observations),
            agreement.spearman_similarity,
            agreement.pearson_similarity,
            agreement.spearman_relevance,
            agreement.pearson_relevance,
        ));
    }
    output::print(&text)
}
