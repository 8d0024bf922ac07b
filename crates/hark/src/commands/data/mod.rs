//! `hark data`: download datasets, check, describe and name them, and generate soundscapes.

mod add;
mod check;
mod make_soundscapes;
mod pull;
mod sets;
mod stats;

use anyhow::Result;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Download a dataset, unpack it and check it
    Pull(pull::Args),
    /// Check that datasets are complete, and say what to do if not
    Check(check::Args),
    /// Summarize datasets: captions, words, hours, formats, likely false negatives
    Stats(stats::Args),
    /// Give a dataset that is on disk a name for recipes and commands
    Add(add::Args),
    /// List the datasets that have a name
    List(add::ListArgs),
    /// Generate a dataset with known ground truth, in Clotho's layout
    MakeSoundscapes(make_soundscapes::Args),
}

pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Pull(args) => pull::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Stats(args) => stats::run(&args),
        Command::Add(args) => add::run(&args),
        Command::List(args) => add::list(&args),
        Command::MakeSoundscapes(args) => make_soundscapes::run(&args),
    }
}
