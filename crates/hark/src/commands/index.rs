//! `hark index`: adds recordings to a library and keeps it up to date.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args as ClapArgs;
use hark_encode::read_labels;
use hark_library::{
    IndexEvent, IndexOptions, IndexReport, Library, LibraryLocation, OpenOptions, Outcome, Setup, Shard,
    more_than_once,
};
use indicatif::ProgressBar;
use serde_json::json;

use super::inputs::ComputeArgs;
use super::renamed::{Renamed, renamed_to};
use crate::home::Home;
use crate::library::{LibraryArgs, NoteArgs, tell_of_everyday};
use crate::{output, progress};

const EXAMPLES: &str = "Examples:
  hark index ~/Sounds
  hark index                   (updates the folders that the library has)
  hark index ~/Sounds --name better --model my-model
  hark index --vocabulary words.txt
  hark index ~/Field --tags tags.csv --captions captions.csv --watch
  hark index --duplicates      (lists recordings that exist twice, in any format)
  hark index --check
  hark index --list            (the libraries of this machine)
  hark index /mnt/archive --store postgres://me@server/sounds --shard 1/4

Files with unchanged size and modification time are skipped. A file that was renamed or moved is recognised \
by its content and not embedded again. Files that are gone are removed from the library, except those of a \
folder that cannot be read. The command can be interrupted at any time; run it again to continue. Links are \
followed, once. The exit code is 1 if a file cannot be decoded, in this run or since an earlier one.

Environment:
  HARK_FFMPEG  program for other formats (WMA, Monkey's Audio, WavPack, AC-3, ...); empty for none \
[default: ffmpeg, if it is on the PATH]";

#[allow(clippy::struct_excessive_bools, reason = "each is an option of the command")]
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Folders with recordings, which the library remembers [default: the library's folders]
    #[arg(value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    #[command(flatten)]
    library: LibraryArgs,
    /// Model: a name of `hark models list`, or a model folder [default: the library's model; for a new one everyday, built in]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Distance between the windows of a long recording, in seconds [default: the length of a window]
    #[arg(long, value_name = "SECONDS")]
    hop: Option<f64>,
    #[command(flatten)]
    notes: NoteArgs,
    /// Words to tag recordings by what is heard, one a line; the library remembers them [default: the model's classes]
    #[arg(long, value_name = "FILE")]
    vocabulary: Option<PathBuf>,
    /// Keep running, and index what changes
    #[arg(long)]
    watch: bool,
    /// Index only the K-th of N shares of the files, such as 1/4, for machines that share a server
    #[arg(long, value_name = "K/N")]
    shard: Option<Shard>,
    /// Drop everything but the library's folders, and index them again
    #[arg(long)]
    rebuild: bool,
    /// Remove a folder and its recordings from the library (repeatable)
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["folders", "watch", "rebuild"])]
    remove_folder: Vec<PathBuf>,
    /// Check the library for inconsistencies; changes nothing
    #[arg(long, conflicts_with_all = ["folders", "watch", "rebuild", "remove_folder"])]
    check: bool,
    /// Print the whole library as text; changes nothing
    #[arg(long, conflicts_with_all = ["folders", "watch", "rebuild", "remove_folder", "check"])]
    dump: bool,
    /// List recordings that exist more than once, in any format; changes nothing
    #[arg(long, conflicts_with_all = ["folders", "watch", "rebuild", "remove_folder", "check", "dump"])]
    duplicates: bool,
    /// List the libraries of this machine; changes nothing
    #[arg(long, conflicts_with_all = ["folders", "watch", "rebuild", "remove_folder", "check", "dump", "duplicates"])]
    list: bool,
    /// Delete the library of this name; its recordings stay
    #[arg(long, value_name = "NAME", conflicts_with_all = ["folders", "watch", "rebuild", "remove_folder", "check", "dump", "duplicates", "list", "name"])]
    delete: Option<String>,
    #[arg(long = "part", hide = true, num_args = 0..=1, default_missing_value = "", value_parser = renamed_to("--shard"))]
    _part: Option<Renamed>,
    #[arg(long = "anew", hide = true, num_args = 0..=1, default_missing_value = "", value_parser = renamed_to("--rebuild"))]
    _anew: Option<Renamed>,
    #[arg(long = "forget", hide = true, num_args = 0..=1, default_missing_value = "", value_parser = renamed_to("--remove-folder"))]
    _forget: Option<Renamed>,
    #[command(flatten)]
    compute: ComputeArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let home = Home::find()?;
    let open = OpenOptions {
        model: args.model.clone(),
        compute: args.compute.compute()?,
        cancelled: Some(progress::stopped),
    };
    if args.list {
        return list(args, &home);
    }
    if let Some(name) = &args.delete {
        let library = LibraryArgs {
            name: name.clone(),
            store: args.library.store.clone(),
        };
        ensure!(
            library.location(&home)?.delete()?,
            "library {name} does not exist"
        );
        eprintln!("{name}: deleted; its recordings are where they were");
        return Ok(());
    }
    if args.check {
        return check(args, &args.library.open(&home, &open)?);
    }
    if args.dump {
        let library = args.library.open(&home, &open)?;
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        hark_catalogue::dump(&**library.store(), &mut out)?;
        return Ok(std::io::Write::flush(&mut out)?);
    }
    if args.duplicates {
        let library = args.library.open(&home, &open)?;
        return show_duplicates(args, &library.duplicates(&|| !progress::stopped())?);
    }
    let setup = Setup {
        open,
        hop_seconds: args.hop,
        folders: args.folders.clone(),
        remove_folders: args.remove_folder.clone(),
        rebuild: args.rebuild,
    };
    let notes = args.notes.read()?;
    let vocabulary = args.vocabulary.as_deref().map(read_labels).transpose()?;
    let library = Library::open_to_index(args.library.location(&home)?, &home.models(), &setup)?;
    if let Some(error) = library.unreadable() {
        eprintln!(
            "hark: warning: {}; the library is rebuilt",
            output::explain(error)
        );
    }
    tell_of_everyday(args.model.is_none(), &library);
    let options = IndexOptions {
        vocabulary: vocabulary.as_deref(),
        notes: notes.as_ref(),
        shard: args.shard.unwrap_or_default(),
    };
    if args.watch {
        return watch(args, &library, &options);
    }
    let display = IndexDisplay::default();
    let outcome = library.index(&options, &|event| display.show(&event));
    display.clear();
    report(args, &library, &outcome?)
}

fn check(args: &Args, library: &Library) -> Result<()> {
    let faults = library.store().check()?;
    if args.json {
        output::print_json(&json!({"library": args.library.name, "faults": faults}))?;
    } else {
        let seen = library.store().overview()?;
        for fault in &faults {
            output::print(&format!("{}\n", output::sanitize(fault)))?;
        }
        eprintln!(
            "{}: {}, {}, {}",
            args.library.name,
            output::counted(seen.files, "recording"),
            output::counted(seen.windows, "window"),
            output::counted(faults.len(), "fault")
        );
    }
    ensure!(
        faults.is_empty(),
        "the library has faults; rebuild it with hark index --rebuild (if it cannot be read, name its folders and --model)"
    );
    Ok(())
}

/// The libraries of this machine, each with what is in it.
fn list(args: &Args, home: &Home) -> Result<()> {
    let folder = home.libraries();
    let libraries = LibraryLocation::list_in(&folder);
    if args.json {
        return output::print_json(&json!({"folder": folder, "libraries": libraries}));
    }
    let mut text = String::new();
    for library in &libraries {
        text.push_str(&format!("{}\n", output::sanitize(&library.to_string())));
    }
    text.push_str(&format!("\nfolder: {}\n", folder.display()));
    output::print(&text)
}

/// Indexes again whenever something changes, until Ctrl-C.
fn watch(args: &Args, library: &Library, options: &IndexOptions<'_>) -> Result<()> {
    let display = IndexDisplay::default();
    let ended = library.watch(options, &|event| {
        match &event {
            IndexEvent::NotWatched { folder, reason } => {
                eprintln!("hark: warning: cannot watch {folder}, it is scanned every minute: {reason}");
            }
            IndexEvent::Indexed { outcome } => {
                display.clear();
                let reported = match outcome {
                    Ok(outcome) => report(args, library, outcome),
                    Err(error) => Err(anyhow::Error::msg(output::explain(*error))),
                };
                if let Err(error) = reported {
                    output::tell(error.as_ref());
                }
            }
            IndexEvent::Watching { folders } => {
                eprintln!("watching {}; press Ctrl-C to stop", folders.join(", "));
            }
            _ => {}
        }
        display.show(&event)
    });
    display.clear();
    Ok(ended?)
}

/// The bar of an indexing.
#[derive(Default)]
pub struct IndexDisplay(Mutex<Option<(Stage, ProgressBar, Instant)>>);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    Scanning,
    Indexing,
    Tagging,
    Optimizing,
}

impl IndexDisplay {
    /// Shows an event; breaks after Ctrl-C.
    pub fn show(&self, event: &IndexEvent<'_>) -> ControlFlow<()> {
        match event {
            IndexEvent::Scanning { files } => self.bar(Stage::Scanning, |bar, _| {
                bar.set_message(output::counted(*files, "file"));
            }),
            IndexEvent::Indexing { done, total, seconds } => self.bar(Stage::Indexing, |bar, begun| {
                bar.set_length(*total as u64);
                bar.set_position(*done as u64);
                let rate = seconds / begun.elapsed().as_secs_f64().max(1e-3);
                bar.set_message(progress::speed(rate));
            }),
            IndexEvent::Tagging { done, total } => self.bar(Stage::Tagging, |bar, _| {
                bar.set_length(*total as u64);
                bar.set_position(*done as u64);
            }),
            IndexEvent::Optimizing { done, total } => self.bar(Stage::Optimizing, |bar, _| {
                bar.set_length(*total);
                bar.set_position(*done);
            }),
            _ => {}
        }
        if progress::stopped() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn bar(&self, stage: Stage, update: impl FnOnce(&ProgressBar, Instant)) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.as_ref().is_none_or(|(current, ..)| *current != stage) {
            if let Some((_, bar, _)) = shown.take() {
                bar.finish_and_clear();
            }
            let bar = match stage {
                Stage::Scanning => progress::spinner("looking for recordings"),
                Stage::Indexing => progress::recordings("indexing"),
                Stage::Tagging => progress::items("tagging"),
                Stage::Optimizing => progress::items("making search fast"),
            };
            *shown = Some((stage, bar, Instant::now()));
        }
        if let Some((_, bar, begun)) = &*shown {
            update(bar, *begun);
        }
    }

    /// Removes the bar.
    pub fn clear(&self) {
        let shown = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((_, bar, _)) = shown {
            bar.finish_and_clear();
        }
    }
}

/// Prints what an indexing did. Files that cannot be decoded are an error, after all others are in the library, whether they
/// were found by this run or by an earlier one.
fn report(args: &Args, library: &Library, outcome: &Outcome) -> Result<()> {
    let report = IndexReport::new(&args.library.name, library, outcome, &|| !progress::stopped())?;
    if args.json {
        output::print_json(&report)?;
    } else {
        for line in report.warnings().iter().chain(&report.summary()) {
            eprintln!("{}", output::sanitize(line));
        }
    }
    ensure!(
        report.unreadable() == 0,
        "cannot read {}; the others are in the library",
        output::counted(report.unreadable(), "file")
    );
    Ok(())
}

fn show_duplicates(args: &Args, groups: &[Vec<String>]) -> Result<()> {
    if args.json {
        return output::print_json(&groups);
    }
    for group in groups {
        for path in group {
            output::print(&format!("{}\n", output::sanitize(path)))?;
        }
        output::print("\n")?;
    }
    eprintln!("{}", more_than_once(groups.len()));
    Ok(())
}
