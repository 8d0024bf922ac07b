//! `hark data`: whether data sets are complete, what they hold, and soundscapes where there is none.

mod check;
mod make_soundscapes;
mod sets;
mod stats;

use anyhow::Result;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Whether data sets are complete, and what to do if not
    Check(check::Args),
    /// What data sets hold: captions, words, hours, formats, likely false negatives
    Stats(stats::Args),
    /// Make a data set whose truth is known, in Clotho's layout
    MakeSoundscapes(make_soundscapes::Args),
}

pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Check(args) => check::run(&args),
        Command::Stats(args) => stats::run(&args),
        Command::MakeSoundscapes(args) => make_soundscapes::run(&args),
    }
}
