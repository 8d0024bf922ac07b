//! `hark relevance`: captions to graded relevance, and human ratings to the function between them.

mod agree;
mod compute;
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
    /// Moved to `hark models distil`
    #[command(hide = true)]
    Distil(Moved),
}

/// The arguments of a command that has moved: any.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Moved {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<String>,
}

pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Similarity(args) => similarity::run(&args),
        Command::Compute(args) => compute::run(&args),
        Command::Fit(args) => fit::run(&args),
        Command::Agree(args) => agree::run(&args),
        Command::Neighbours(args) => neighbours::run(&args),
        Command::Distil(_) => Err(clap::Command::new("hark")
            .error(
                clap::error::ErrorKind::InvalidSubcommand,
                "`hark relevance distil` is now `hark models distil`",
            )
            .into()),
    }
}
