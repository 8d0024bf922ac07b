//! `hark classify`: names recordings by labels that no model was trained on.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args as ClapArgs;
use hark_encode::read_labels;
use hark_library::{Annotations, Classify};

use super::describe::{rank, show};
use super::inputs::ComputeArgs;
use crate::output;

const EXAMPLES: &str = "Examples:
  hark classify *.wav --labels words.txt
  hark classify *.wav --labels words.txt --template 'the sound of {}'
  hark classify esc50/*.wav --truth esc50.csv --json

The labels file has one label per line, or is a CSV file with a column label, name, category or display_name. Each \
label is embedded as text and compared with each recording. With --truth, a CSV file with a column such as \
`file` and one such as `label` or `category`, the accuracy is shown too; its labels are used if there is no --labels.";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Recordings to classify
    #[arg(value_name = "RECORDING", required = true)]
    recordings: Vec<PathBuf>,
    /// File of labels
    #[arg(long, value_name = "FILE", required_unless_present = "truth")]
    labels: Option<PathBuf>,
    /// Sentence with {} in place of the label; with several, their embeddings are averaged (repeatable)
    #[arg(long = "template", value_name = "TEXT")]
    templates: Vec<String>,
    /// CSV file with the right label of each recording
    #[arg(long, value_name = "FILE.csv")]
    truth: Option<PathBuf>,
    /// Column of the right labels
    #[arg(long, value_name = "NAME", requires = "truth")]
    truth_column: Vec<String>,
    /// Model: a name of `hark models list`, or a model folder [default: everyday, built in]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Number of labels to show for a recording
    #[arg(short = 'n', long, value_name = "N", default_value = "1")]
    limit: usize,
    #[command(flatten)]
    compute: ComputeArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let mut truth = Annotations::default();
    if let Some(path) = &args.truth {
        truth.read_tags(path, &args.truth_column)?;
    }
    let labels = match &args.labels {
        Some(path) => read_labels(path)?,
        None => truth.tags(),
    };
    ensure!(!labels.is_empty(), "no labels in the file of --truth");
    let asked = Classify {
        recordings: &args.recordings,
        texts: &labels,
        templates: &args.templates,
        truth: args.truth.is_some().then_some(&truth),
        limit: args.limit,
    };
    let classified = rank(&asked, args.model.as_deref(), &args.compute)?;
    if args.json {
        output::print_json(&classified)?;
    } else {
        show(&classified)?;
    }
    classified.check()?;
    Ok(())
}
