//! Our side of every speed figure: each subcommand does one piece of work, times it and prints one JSON document.
//!
//! `bench/compare` runs this program and its peers in turns and reports ratios. Figures of one run alone say more about
//! the machine than about hark.
//!
//! It is a program of its own, so that `hark` does not carry the training step of a model of 440 million weights and
//! other code that only a benchmark calls.

mod audio;
mod captions;
mod fingerprints;
mod flops;
mod kernels;
mod library;
mod measured;
mod peak;
mod scoring;
mod search;
mod step;
mod texts;
mod towers;
mod vectors;

use std::num::NonZeroUsize;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "hark-bench", version, about = "Time hark's own work, as JSON")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Find the exact nearest neighbours of every row of a matrix
    Neighbours(vectors::Args),
    /// Embed captions; loading the model is not counted
    Encode(captions::Args),
    /// Decode recordings, resample them and compute log-mels, as PaSST's front end does
    Mel(audio::Args),
    /// Compute PaSST-S features of 10 s clips; log-mels and loading are not counted
    Passt(towers::PasstArgs),
    /// Compute MN class probabilities of 10 s clips; log-mels and loading are not counted
    Mn(towers::MnArgs),
    /// Compute RoBERTa features of texts; tokens and loading are not counted
    Roberta(texts::Args),
    /// Rank and score both directions: every caption against all clips, every clip against all captions
    Scoring(scoring::Args),
    /// Train both towers of a model, step by step
    Step(step::Args),
    /// Measure the processor's arithmetic peak with fused multiply-adds on registers
    Peak(peak::Args),
    /// Search vectors, approximately or exactly
    #[command(subcommand)]
    Search(search::Command),
    /// Make a large library of generated files, and search it from a fresh process
    #[command(subcommand)]
    Library(library::Command),
    /// Compare the fingerprints of recordings and their variants
    #[command(after_help = "Example:\n  hark-bench fingerprints")]
    Fingerprints,
}

/// How many threads.
#[derive(Debug, Args)]
struct ThreadArgs {
    /// Threads to compute with [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

impl ThreadArgs {
    fn count(&self) -> NonZeroUsize {
        self.threads
            .or_else(|| std::thread::available_parallelism().ok())
            .unwrap_or(NonZeroUsize::MIN)
    }
}

fn main() -> ExitCode {
    // As `hark` does.
    hark_encode::keep_memory();
    let measured = match Cli::parse().command {
        Command::Neighbours(args) => vectors::neighbours(&args),
        Command::Encode(args) => captions::encode(&args),
        Command::Mel(args) => audio::mel(&args),
        Command::Passt(args) => towers::passt(&args),
        Command::Mn(args) => towers::mn(&args),
        Command::Scoring(args) => scoring::score(&args),
        Command::Roberta(args) => texts::roberta(&args),
        Command::Step(args) => step::step(&args),
        Command::Peak(args) => Ok(peak::peak(&args)),
        Command::Search(command) => search::run(&command),
        Command::Library(command) => library::run(&command),
        Command::Fingerprints => fingerprints::compare(),
    };
    match measured {
        Ok(measured) => {
            println!("{measured:#}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("hark-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A figure of `/proc/self/status` in bytes, such as `VmHWM` (peak memory); nothing where the system has no such file.
fn memory(figure: &str) -> Option<u64> {
    let status = fs_err::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(figure))?;
    let kilobytes: u64 = line
        .trim_start_matches(':')
        .trim()
        .strip_suffix("kB")?
        .trim()
        .parse()
        .ok()?;
    Some(kilobytes * 1024)
}

/// What every subcommand returns.
type Measured = Result<serde_json::Value>;

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// The commands that have no subcommands.
    fn leaves(command: &clap::Command) -> Vec<&clap::Command> {
        if command.has_subcommands() {
            command.get_subcommands().flat_map(leaves).collect()
        } else {
            vec![command]
        }
    }

    #[test]
    fn every_command_has_an_example_that_parses() {
        let cli = Cli::command();
        cli.clone().debug_assert();
        for command in leaves(&cli) {
            let help = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            let example = help.lines().find(|line| line.contains("hark-bench"));
            let example = example.unwrap_or_else(|| panic!("{} has no example", command.get_name()));
            assert!(example.contains(command.get_name()), "{example}");
            Cli::try_parse_from(example.split_whitespace())
                .unwrap_or_else(|error| panic!("{example}: {error}"));
        }
    }

    #[test]
    fn scoring_prints_what_the_row_reads() {
        let folder = std::env::temp_dir().join(format!("hark-bench-scoring-{}", std::process::id()));
        fs_err::create_dir_all(&folder).unwrap();
        let path = folder.join("vectors.npy");
        let file = fs_err::File::create(&path).unwrap();
        hark_nearest::npy::write(file, 2, &[1.0_f32, 0.0, 0.0, 1.0]).unwrap();
        let path = path.display().to_string();
        let args = [
            "hark-bench",
            "scoring",
            "--clips",
            &path,
            "--captions",
            &path,
            "--repeat",
            "2",
        ];
        let Command::Scoring(args) = Cli::parse_from(args).command else {
            panic!("another command")
        };
        let measured = scoring::score(&args).unwrap();
        assert_eq!(measured["text_to_audio"]["map_10"], 1.0);
        assert_eq!(measured["seconds"].as_array().unwrap().len(), 2);
        let args = ["hark-bench", "neighbours", "--vectors", &path, "--k", "1"];
        let Command::Neighbours(args) = Cli::parse_from(args).command else {
            panic!("another command")
        };
        let measured = vectors::neighbours(&args).unwrap();
        assert_eq!(
            (measured["count"].as_u64(), measured["k"].as_u64()),
            (Some(2), Some(1))
        );
        fs_err::remove_dir_all(&folder).unwrap();
    }
}
