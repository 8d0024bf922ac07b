//! `hark index`: recordings into a library.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args as ClapArgs;
use hark_audio::Fingerprint;
use hark_catalogue::{AudioInfo, Store, duplicates};
use hark_encode::model::AudioEncoder;
use serde_json::json;

use super::inputs::ThreadArgs;
use crate::home::Home;
use crate::library::indexing::{Indexing, Outcome};
use crate::library::notes::NoteArgs;
use crate::library::plan::Shard;
use crate::library::watch::Watch;
use crate::library::{LibraryArgs, LibraryModel};
use crate::{output, progress};

const EXAMPLES: &str = "Examples:
  hark index ~/Sounds --model my-model
  hark index                                   (looks again at the folders that the library has)
  hark index ~/Field --tags tags.csv --captions captions.csv --watch
  hark index --duplicates                      (recordings that are there twice, in whatever format)
  hark index --check
  hark index /mnt/archive --store postgres://me@server/sounds --part 1/4   (one of four machines)

Files whose length and time of change are the same cost no more than a look. A file that was renamed or
moved is recognised by its content and is not embedded again; one that is gone is dropped from the library,
but not those of a folder that cannot be reached. You may stop the command at any moment: it goes on from there.";

#[allow(clippy::struct_excessive_bools, reason = "each is an option of the command")]
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Folders with recordings; they are remembered [default: those that the library has]
    #[arg(value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    #[command(flatten)]
    library: LibraryArgs,
    /// The model: a name of `hark models list`, or a model folder [default: the one that the library was made with]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Seconds from one window of a long recording to the next [default: as long as a window, which is what the model hears at once]
    #[arg(long, value_name = "SECONDS")]
    hop: Option<f64>,
    #[command(flatten)]
    notes: NoteArgs,
    /// Stay, and index what changes
    #[arg(long)]
    watch: bool,
    /// Index only one of several equal parts of the files, such as 1/4: for machines that share a server
    #[arg(long, value_name = "K/N")]
    part: Option<Shard>,
    /// Drop everything that the library has, and index its folders again
    #[arg(long)]
    anew: bool,
    /// Take a folder from the library, with its recordings
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["folders", "watch", "anew"])]
    forget: Vec<PathBuf>,
    /// Look for contradictions in the library, and change nothing
    #[arg(long, conflicts_with_all = ["folders", "watch", "anew", "forget"])]
    check: bool,
    /// Print all that the library knows as text, and change nothing
    #[arg(long, conflicts_with_all = ["folders", "watch", "anew", "forget", "check"])]
    dump: bool,
    /// List recordings that are there more than once, in whatever format, and change nothing
    #[arg(long, conflicts_with_all = ["folders", "watch", "anew", "forget", "check", "dump"])]
    duplicates: bool,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let home = Home::find()?;
    let threads = args.threads.count().get();
    // Files are read side by side. It can be set but once, and nothing before this has.
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build_global()?;
    if args.check {
        return check(args, &home);
    }
    if args.dump {
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        hark_catalogue::dump(&*args.library.open(&home, threads)?, &mut out)?;
        return Ok(std::io::Write::flush(&mut out)?);
    }
    if args.duplicates {
        let store = args.library.open(&home, threads)?;
        let groups = find_duplicates(&*store)?;
        return show_duplicates(args, &groups);
    }
    index(args, &home)
}

fn check(args: &Args, home: &Home) -> Result<()> {
    let store = args.library.open(home, args.threads.count().get())?;
    let faults = store.check()?;
    if args.json {
        output::print_json(&json!({"library": args.library.name, "faults": faults}))?;
    } else {
        let seen = store.overview()?;
        for fault in &faults {
            output::print(&format!("{}\n", output::sanitize(fault)))?;
        }
        eprintln!(
            "{}: {} recordings, {} windows, {} faults",
            args.library.name,
            output::group_digits(seen.files),
            output::group_digits(seen.windows),
            output::group_digits(faults.len())
        );
    }
    ensure!(
        faults.is_empty(),
        "the library has faults; `hark index --anew` makes it from nothing (if it cannot be read, with its folders and --model)"
    );
    Ok(())
}

fn index(args: &Args, home: &Home) -> Result<()> {
    let place = args.library.place(home)?;
    let threads = args.threads.count().get();
    let before = match place.open(threads) {
        Err(error) if args.anew && error.is_of_library() => {
            eprintln!("hark: warning: {error}; it is made from nothing");
            None
        }
        opened => opened?.map(|store| store.settings().clone()),
    };
    let notes = args.notes.read()?;
    let folders = args
        .folders
        .iter()
        .map(|folder| root(folder))
        .collect::<Result<Vec<_>>>()?;
    let named = args.model.as_deref();
    let model = match (named, &before) {
        (Some(name), _) => LibraryModel::find(home, name)?,
        (None, Some(settings)) => LibraryModel::of(home, settings, None)?,
        (None, None) => bail!(
            "a new library needs a model: give --model (see hark models list; hark demo trains a small one)"
        ),
    };
    ensure!(
        before.is_some() || !folders.is_empty(),
        "the library {} is not there yet: name the folders that it shall have",
        args.library.name
    );
    // The window is what the model hears at once; that is asked of the model itself, unless the library knows.
    let loaded = OnceCell::new();
    let listener = || -> Result<&AudioEncoder> {
        if loaded.get().is_none() {
            let _ = loaded.set(model.audio(&args.threads.compute())?);
        }
        loaded.get().context("no audio encoder")
    };
    let fits = before.as_ref().filter(|settings| {
        let same_hop = |hop: f64| (hop - settings.hop_seconds).abs() < 1e-9;
        settings.fingerprint == model.fingerprint && args.hop.is_none_or(same_hop)
    });
    let settings = if let Some(settings) = fits {
        settings.clone()
    } else {
        let encoder = listener()?;
        let window = encoder.segment_seconds();
        let (hop, least) = (args.hop.unwrap_or(window), window / 10.0);
        ensure!(
            (least..=window).contains(&hop),
            "windows of this model are {window} s long: --hop takes {least} to {window}"
        );
        model.settings(encoder, hop)
    };
    if args.anew {
        place.renew(&settings)?;
    }
    let (store, _lock) = place.open_or_create(&settings, threads)?;
    for folder in &folders {
        store.add_root(folder)?;
    }
    for folder in &args.forget {
        let folder = forgotten(folder)?;
        let roots = store.roots()?;
        ensure!(
            roots.contains(&folder),
            "{folder} is not a folder of the library, which has: {}",
            roots.join(", ")
        );
        store.remove_root(&folder)?;
    }
    let indexing = Indexing {
        store: &*store,
        listener: &listener,
        notes: notes.as_ref(),
        part: args.part.unwrap_or(Shard::ALL),
        copies: place.has_one_writer(),
    };
    if args.watch {
        return watch(args, &indexing, &*store);
    }
    once(args, &indexing, &*store)
}

/// A folder of the library as it is kept there; it may be gone from the disk.
fn forgotten(folder: &Path) -> Result<String> {
    let folder = fs_err::canonicalize(folder).or_else(|_| std::path::absolute(folder))?;
    Ok(folder.to_string_lossy().trim_end_matches('/').to_owned())
}

/// The folder as the library keeps it.
fn root(folder: &Path) -> Result<String> {
    let folder = fs_err::canonicalize(folder)?;
    ensure!(folder.is_dir(), "{}: not a folder", folder.display());
    match folder.to_str() {
        Some(path) => Ok(path.to_owned()),
        None => bail!("{}: its name is not Unicode", folder.display()),
    }
}

fn watch(args: &Args, indexing: &Indexing<'_>, store: &dyn Store) -> Result<()> {
    let roots = store.roots()?;
    // Before the first look: what changes meanwhile is seen by the second.
    let watch = Watch::new(&roots, &|message| eprintln!("hark: warning: {message}"))?;
    loop {
        // A pass that cannot be made, or files that cannot be read, are no reason to look no more.
        match once(args, indexing, store) {
            Err(error) if progress::stopped() => return Err(error),
            Err(error) => eprintln!("hark: {error:#}"),
            Ok(()) => {}
        }
        eprintln!("watching {}; Ctrl-C ends it", roots.join(", "));
        if !watch.wait(&progress::stopped) {
            return Ok(());
        }
    }
}

/// One pass over all folders, and what it came to.
fn once(args: &Args, indexing: &Indexing<'_>, store: &dyn Store) -> Result<()> {
    let outcome = indexing.run()?;
    let bar = progress::items("making search fast");
    let tidied = store.optimize(&mut |done, total| progress::show(&bar, done, total));
    bar.finish_and_clear();
    tidied?;
    report(args, store, &outcome)?;
    ensure!(
        outcome.failed.is_empty(),
        "{} of the files could not be read; the others are in the library",
        output::group_digits(outcome.failed.len())
    );
    Ok(())
}

fn report(args: &Args, store: &dyn Store, outcome: &Outcome) -> Result<()> {
    let seen = store.overview()?;
    // All are compared with all: not for nothing.
    let twice = if outcome.new + outcome.changed > 0 {
        find_duplicates(store)?
    } else {
        Vec::new()
    };
    if args.json {
        return output::print_json(&json!({
            "library": args.library.name, "model": store.settings().model, "recordings": seen.files, "windows": seen.windows,
            "seconds": seen.seconds, "folders": seen.roots, "outcome": outcome, "duplicates": twice.len(),
        }));
    }
    for (what, list) in [
        ("could not be looked at, and stays as it was", &outcome.unseen),
        ("could be read only in part", &outcome.damaged),
    ] {
        for (path, why) in list {
            eprintln!(
                "hark: warning: {} {what}: {}",
                output::sanitize(path),
                output::sanitize(why)
            );
        }
    }
    for path in &outcome.restless {
        eprintln!(
            "hark: warning: {} changed while it was read; the next run takes it",
            output::sanitize(path)
        );
    }
    for failure in outcome.failed.iter().chain(&outcome.still_failing) {
        eprintln!("hark: {}", output::sanitize(&failure.message));
    }
    let parts = [
        ("new", outcome.new),
        ("changed", outcome.changed),
        ("moved", outcome.moved),
        ("removed", outcome.removed),
        ("unchanged", outcome.unchanged),
        ("with other notes", outcome.annotated),
        ("unreadable", outcome.failed.len() + outcome.still_failing.len()),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| format!("{} {what}", output::group_digits(*count)))
        .collect();
    eprintln!(
        "{}: {} recordings, {}, {} windows; {}",
        args.library.name,
        output::group_digits(seen.files),
        length(seen.seconds),
        output::group_digits(seen.windows),
        if parts.is_empty() {
            "nothing found".to_owned()
        } else {
            parts.join(", ")
        }
    );
    if !twice.is_empty() {
        eprintln!(
            "recordings that are there more than once: {}; hark index --duplicates lists them",
            output::group_digits(twice.len())
        );
    }
    Ok(())
}

/// Hours, minutes and seconds, as people read them.
pub fn length(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 {
        format!("{} h {minutes:02} min", output::group_digits(hours))
    } else {
        format!("{minutes} min {seconds:02} s")
    }
}

fn find_duplicates(store: &dyn Store) -> Result<Vec<Vec<String>>> {
    let heard = |sound: &AudioInfo| Fingerprint::from_bytes(&sound.fingerprint).ok();
    let same_recording =
        |a: &Fingerprint, b: &Fingerprint| !progress::stopped() && hark_audio::same_recording(a, b);
    Ok(duplicates(store, &heard, &same_recording)?)
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
    eprintln!(
        "recordings that are there more than once: {}",
        output::group_digits(groups.len())
    );
    Ok(())
}
