//! `hark data`: check datasets, describe them, and generate soundscapes.

mod check;
mod make_soundscapes;
mod sets;
mod stats;

use anyhow::Result;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check that datasets are complete, and say what to do if not
    Check(check::Args),
    /// Summarize datasets: captions, words, hours, formats, likely false negatives
    Stats(stats::Args),
    /// Generate a dataset with known ground truth, in Clotho's layout
    MakeSoundscapes(make_soundscapes::Args),
}

pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Check(args) => check::run(&args),
        Command::Stats(args) => stats::run(&args),
        Command::MakeSoundscapes(args) => make_soundscapes::run(&args),
    }
}
