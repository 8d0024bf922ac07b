//! `hark relevance`: captions to graded relevance, and human ratings to the function between them.

mod agree;
mod compute;
mod distil;
mod fit;
mod neighbours;
mod rated;
mod similarity;

use anyhow::Result;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compare the first caption with the others: similarity and relevance
    Similarity(similarity::Args),
    /// Write relevance between all captions of a dataset to a file
    Compute(compute::Args),
    /// Fit the logistic function to human ratings by beta regression
    Fit(fit::Args),
    /// Correlate similarity and relevance with human ratings
    Agree(agree::Args),
    /// Find captions of different clips that say the same thing
    Neighbours(neighbours::Args),
    /// A small, fast encoder from a sentence encoder
    Distil(distil::Args),
}

pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Similarity(args) => similarity::run(&args),
        Command::Compute(args) => compute::run(&args),
        Command::Fit(args) => fit::run(&args),
        Command::Agree(args) => agree::run(&args),
        Command::Neighbours(args) => neighbours::run(&args),
        Command::Distil(args) => distil::run(&args),
    }
}
