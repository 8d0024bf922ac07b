//! `hark relevance agree`: correlation of similarity and of relevance with human ratings.

use anyhow::Result;
use clap::Args as ClapArgs;
use hark_relevance::RelevanceFunction;
use hark_relevance::agreement::{pearson, spearman};
use hark_relevance::ratings::Observation;
use serde::Serialize;
use serde_json::json;

use super::rated::RatedArgs;
use crate::output;

const EXAMPLES: &str = "Example:
  hark relevance agree --captions captions.csv --ratings ratings.csv --model all-mpnet-base-v2

Spearman's coefficients of h and of g differ only where the function makes ties: they look at
order alone.";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    rated: RatedArgs,
    /// The relevance function
    #[arg(long, short, value_name = "FUNCTION", default_value = "logistic")]
    function: RelevanceFunction,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Agreement {
    ratings: String,
    observations: usize,
    spearman_similarity: f64,
    pearson_similarity: f64,
    spearman_relevance: f64,
    pearson_relevance: f64,
}

pub fn run(args: &Args) -> Result<()> {
    if args.function == RelevanceFunction::Binary || args.function.needs_range() {
        anyhow::bail!(
            "{}: a function of similarity alone is needed here (minmax with lo and hi)",
            args.function
        );
    }
    let files = args.rated.observe()?;
    let mut rows = Vec::new();
    for file in &files {
        rows.push(measure(
            file.path.display().to_string(),
            &file.observations,
            &args.function,
        )?);
    }
    if files.len() > 1 {
        let all: Vec<Observation> = files
            .iter()
            .flat_map(|file| file.observations.iter().copied())
            .collect();
        rows.push(measure("all".to_owned(), &all, &args.function)?);
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
    for row in rows {
        text.push_str(&format!(
            "{:>12}  {:>8.4}  {:>7.4}  {:>8.4}  {:>7.4}  {}\n",
            output::group_digits(row.observations),
            row.spearman_similarity,
            row.pearson_similarity,
            row.spearman_relevance,
            row.pearson_relevance,
            row.ratings
        ));
    }
    output::print(&text)
}

fn measure(ratings: String, observations: &[Observation], function: &RelevanceFunction) -> Result<Agreement> {
    let rating: Vec<f64> = observations.iter().map(|o| o.rating).collect();
    let h: Vec<f64> = observations.iter().map(|o| o.similarity).collect();
    let g = h
        .iter()
        .map(|&h| function.apply(h, false))
        .collect::<Result<Vec<f64>, _>>()?;
    Ok(Agreement {
        ratings,
        observations: observations.len(),
        spearman_similarity: spearman(&h, &rating)?,
        pearson_similarity: pearson(&h, &rating)?,
        spearman_relevance: spearman(&g, &rating)?,
        pearson_relevance: pearson(&g, &rating)?,
    })
}
