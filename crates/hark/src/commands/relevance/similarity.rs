//! `hark relevance similarity`: compare the first caption with the others.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use hark_relevance::{RelevanceFunction, similarity};
use serde_json::json;

use crate::commands::inputs::{ColumnArgs, ModelArgs, gather};
use crate::output;

const EXAMPLES: &str = "Examples:
  hark relevance similarity 'a cat is crying' 'a cat meows' 'rain on a roof'
  hark relevance similarity 'a cat is crying' --captions captions.csv --json
  printf 'rain\\nheavy rain\\na train\\n' | hark relevance similarity --captions -";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Captions; the first is compared with all others
    #[arg(value_name = "CAPTION")]
    texts: Vec<String>,
    /// File with more captions, `-` for stdin (repeatable)
    #[arg(long = "captions", value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    columns: ColumnArgs,
    /// Relevance function
    #[arg(long, short, value_name = "FUNCTION", default_value = "logistic")]
    function: RelevanceFunction,
    #[command(flatten)]
    model: ModelArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let captions = gather(&args.texts, &args.files, &args.columns)?;
    let captions: Vec<&str> = captions.iter().map(String::as_str).collect();
    if captions.len() < 2 {
        bail!("{} caption given; a comparison needs two or more", captions.len());
    }
    if let Some(nth) = captions.iter().position(|caption| caption.trim().is_empty()) {
        bail!("caption {} is empty", nth + 1);
    }
    if args.function.needs_range() {
        bail!(
            "{}: a few captions have no range; give one, as in minmax:lo=-0.1,hi=1",
            args.function
        );
    }
    let vectors = args.model.embed(&captions)?;
    let vectors = vectors.view();
    let mut similarities = similarity::row(vectors.row(0), vectors)?;
    // A caption equals itself, whatever the last bit of the product says.
    similarities[0] = 1.0;
    let relevances = similarities
        .iter()
        .enumerate()
        .map(|(nth, &h)| args.function.apply(f64::from(h), nth == 0))
        .collect::<Result<Vec<f64>, _>>()?;
    if args.json {
        return output::print_json(&json!({
            "model": args.model.name(),
            "function": args.function,
            "captions": captions,
            "similarities": similarities,
            "relevances": relevances,
        }));
    }
    let mut text = "similarity  relevance  caption\n".to_owned();
    for ((h, g), caption) in similarities.iter().zip(&relevances).zip(&captions) {
        text.push_str(&format!("{h:10.3}  {g:9.3}  {caption}\n"));
    }
    output::print(&text)
}
