//! hark finds sounds by words, and words for sounds. This is the program: `main` lists all that it does.

mod commands;
mod home;
mod library;
mod output;
mod progress;
mod usage;

use std::io;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

/// Find sounds by words: graded relevance between audio captions and clips.
#[derive(Debug, Parser)]
#[command(name = "hark", version, propagate_version = true, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The whole story on soundscapes: make them, train, compare, search
    Demo(commands::demo::Args),
    /// Compute caption similarity and graded relevance
    #[command(subcommand)]
    Relevance(commands::relevance::Command),
    /// Embed recordings or texts, to a NumPy file
    Embed(commands::embed::Args),
    /// Check, summarize and generate datasets
    #[command(subcommand)]
    Data(commands::data::Command),
    /// Train a model as a recipe says
    Train(commands::train::Args),
    /// How well a model, stored vectors or another system's results retrieve
    Eval(commands::eval::Args),
    /// Whether two methods differ: tests over queries, clips and seeds
    Compare(commands::compare::Args),
    /// Repeat a recipe with several methods and seeds: tables, tests, curves
    Reproduce(commands::reproduce::Args),
    /// Add recordings to a library and keep it up to date
    Index(Box<commands::index::Args>),
    /// Find recordings of a library by words, or by a sound
    Search(Box<commands::search::Args>),
    /// Rank captions for a recording
    Describe(commands::describe::Args),
    /// A library over HTTP, with a page to search and listen
    Serve(commands::serve::Args),
    /// List, download, import and describe models
    #[command(subcommand)]
    Models(commands::models::Command),
    /// Print a script that completes commands and options in a shell
    Completions(commands::completions::Args),
    /// Write manual pages
    Man(commands::man::Args),
}

/// The exit code for options that cannot be meant, as the parser has it.
const BAD_USAGE: u8 = 2;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == usage::CHECK) {
        return usage::check(arguments);
    }
    let cli = Cli::parse();
    quiet_decoders();
    if let Err(error) = progress::stop_on_interrupt() {
        eprintln!("hark: warning: Ctrl-C will stop without cleaning up: {error}");
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
        Command::Describe(args) => commands::describe::run(&args),
        Command::Serve(args) => commands::serve::run(&args),
        Command::Models(command) => commands::models::run(command),
        Command::Completions(args) => commands::completions::run(&args, Cli::command()),
        Command::Man(args) => commands::man::run(&args, Cli::command()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of our output has seen enough (`hark ... | head`).
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(_) if progress::stopped() => {
            eprintln!(
                "hark: stopped; what was computed is kept, and the same command (with --resume, if it has that) goes on from there"
            );
            ExitCode::from(progress::INTERRUPTED)
        }
        // Options that parse one by one and do not fit together.
        Err(error) if error.is::<clap::Error>() => {
            eprint!("{error}");
            ExitCode::from(BAD_USAGE)
        }
        Err(error) => {
            eprintln!("hark: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A decoder that breaks down on a damaged recording is reported as an error of that recording; the panic behind it is
/// nothing that a user should read.
fn quiet_decoders() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !hark_audio::in_decoder() {
            tell(info);
        }
    }));
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
