//! The command line of hark: `main` lists all commands.

#![allow(
    unreachable_pub,
    reason = "a program has no API: `pub` says what other modules use"
)]

mod commands;
mod home;
mod library;
mod output;
mod progress;
mod usage;

use std::io;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

/// Find sounds by words: train, evaluate and search with text-to-audio retrieval models.
#[derive(Debug, Parser)]
#[command(name = "hark", version, propagate_version = true, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Generate soundscapes, train two models, compare and search with them
    Demo(commands::demo::Args),
    /// Compute caption similarity and graded relevance
    #[command(subcommand)]
    Relevance(commands::relevance::Command),
    /// Embed recordings or texts, to a NumPy file
    Embed(commands::embed::Args),
    /// Download, check, summarize and generate datasets
    #[command(subcommand)]
    Data(commands::data::Command),
    /// Train a model from a recipe
    Train(commands::train::Args),
    /// Score a model, stored embeddings or another system's results
    Eval(commands::eval::Args),
    /// Test whether two methods differ, over queries, clips and seeds
    Compare(commands::compare::Args),
    /// Train a recipe with several methods and seeds; report tables, tests and curves
    Reproduce(commands::reproduce::Args),
    /// Add recordings to a library and keep it up to date
    Index(Box<commands::index::Args>),
    /// Search a library by text or by example
    Search(Box<commands::search::Args>),
    /// Name recordings by labels of your own
    Classify(commands::classify::Args),
    /// Rank captions for a recording
    Describe(commands::describe::Args),
    /// Serve a library over HTTP, with a page to search and listen
    Serve(commands::serve::Args),
    /// List, download, import and describe models
    #[command(subcommand)]
    Models(commands::models::Command),
    /// List devices, and compare one with the CPU
    Devices(commands::devices::Args),
    /// Print a shell completion script
    Completions(commands::completions::Args),
    /// Write manual pages
    Man(commands::man::Args),
}

/// The exit code for invalid combinations of options, as clap has it.
const BAD_USAGE: u8 = 2;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == usage::CHECK) {
        return usage::check(arguments);
    }
    let cli = usage::parse();
    quiet_panics();
    hark_audio::Fallback::named(std::env::var_os("HARK_FFMPEG")).set_default();
    if let Err(error) = progress::stop_on_interrupt() {
        eprintln!("hark: warning: Ctrl-C will stop without cleaning up: {error}");
    }
    if !matches!(cli.command, Command::Serve(_)) {
        hark_encode::keep_memory();
    }
    let result = match cli.command {
        Command::Demo(args) => commands::demo::run(&args),
        Command::Relevance(command) => commands::relevance::run(command),
        Command::Embed(args) => commands::embed::run(&args),
        Command::Data(command) => commands::data::run(command),
        Command::Train(args) => commands::train::run(&args),
        Command::Eval(args) => commands::eval::run(&args),
        Command::Compare(args) => commands::compare::run(&args),
        Command::Reproduce(args) => commands::reproduce::run(&args),
        Command::Index(args) => commands::index::run(&args),
        Command::Search(args) => commands::search::run(&args),
        Command::Classify(args) => commands::classify::run(&args),
        Command::Describe(args) => commands::describe::run(&args),
        Command::Serve(args) => commands::serve::run(&args),
        Command::Models(command) => commands::models::run(command),
        Command::Devices(args) => commands::devices::run(&args),
        Command::Completions(args) => commands::completions::run(&args, Cli::command()),
        Command::Man(args) => commands::man::run(&args, Cli::command()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of our output has seen enough (`hark ... | head`).
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(_) if progress::stopped() => {
            eprintln!(
                "hark: interrupted; finished work is saved. Run the command again (with --resume, where it has that option) to continue"
            );
            ExitCode::from(progress::INTERRUPTED)
        }
        // Options that parse one by one and do not fit together.
        Err(error) if error.is::<clap::Error>() => {
            usage::tell(&error);
            ExitCode::from(BAD_USAGE)
        }
        Err(error) => {
            output::tell(error.as_ref());
            ExitCode::FAILURE
        }
    }
}

/// A decoder that breaks down on a damaged recording is reported as an error of that recording, and a device that breaks down as an
/// error of the command; the panic behind it is nothing that a user should read.
fn quiet_panics() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !hark_audio::in_decoder() && !hark_encode::is_expected(info.payload()) {
            tell(info);
        }
    }));
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
