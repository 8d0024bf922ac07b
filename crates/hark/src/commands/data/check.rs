//! `hark data check`: check that datasets are complete.
//!
//! A dataset that cannot be read at all is reported as incomplete, and the next one is checked. The report goes to
//! stdout; the exit code is 1 if anything is missing or broken.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use hark_corpus::{Check, CheckedSet, Skipped};
use serde_json::{Value, json};

use super::sets::{Asked, SetArgs};
use crate::commands::inputs::ThreadArgs;
use crate::output::{self, sanitize};
use crate::progress;

const EXAMPLES: &str = "Examples:
  hark data check clotho /data/clotho
  hark data check audiocaps /data/audiocaps --split train --missing missing.txt
  hark data check wavcaps /data/wavcaps --exclude-clotho /data/clotho --decode
  hark data check table pairs.csv --audio /data/sounds --caption-column text
  hark data check --recipe recipes/soundscape-quick.toml

Every recording is opened, or with --decode decoded to its end. The exit code is 0 if every dataset \
is complete, and 1 if anything is missing or broken. With --recipe, some training recordings are decoded \
to estimate the cache's size and the time that decoding takes.";

/// How many recordings the report names.
const NAMED: usize = 5;

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    sets: SetArgs,
    /// Decode every recording to the end
    #[arg(long)]
    decode: bool,
    /// Write the expected path of each missing recording to a file, one per line
    #[arg(long, value_name = "FILE")]
    missing: Option<PathBuf>,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A checked set and what the report calls it.
pub struct Checked {
    pub title: String,
    pub part: Option<&'static str>,
    pub set: CheckedSet,
}

pub fn run(args: &Args) -> Result<()> {
    let asked = args.sets.asked()?;
    if let Some(path) = &args.missing {
        output::check_writable(path)?;
    }
    let depth = if args.decode { Check::Decodes } else { Check::Opens };
    let threads = args.threads.count().get();
    let checked = asked
        .iter()
        .map(|set| check(set, depth, threads))
        .collect::<Result<Vec<_>>>()?;
    let cost = args.sets.reading_cost()?;
    if let Some(path) = &args.missing {
        write_missing(path, &checked)?;
    }
    let incomplete = checked
        .iter()
        .filter(|checked| !checked.set.is_complete())
        .count();
    if args.json {
        let sets: Vec<Value> = checked.iter().map(told).collect();
        let mut report = json!({"complete": incomplete == 0, "check": depth, "sets": sets});
        if let Some(cost) = cost {
            report["reading"] = json!(cost);
        }
        output::print_json(&report)?;
    } else {
        let mut reports: Vec<String> = checked.iter().map(|set| report(set, depth)).collect();
        reports.extend(cost.map(|cost| cost.to_string()));
        output::print(&reports.join("\n"))?;
    }
    match (incomplete, checked.as_slice()) {
        (0, _) => Ok(()),
        (_, [one]) => bail!("{} is not complete", one.title),
        (_, all) => bail!("{incomplete} of {} datasets are not complete", all.len()),
    }
}

fn check(asked: &Asked, depth: Check, threads: usize) -> Result<Checked> {
    let bar = progress::items(match depth {
        Check::Decodes => "decoding recordings",
        _ => "opening recordings",
    });
    let set = asked
        .config
        .check(depth, threads, &|done, total| progress::show(&bar, done, total));
    bar.finish_and_clear();
    let mut set = set?;
    if set.state.caption_files.is_empty() {
        set.state.advice.extend(asked.remedy.clone());
    }
    Ok(Checked {
        title: asked.title(),
        part: asked.part,
        set,
    })
}

fn write_missing(path: &Path, checked: &[Checked]) -> Result<()> {
    let missing = checked.iter().flat_map(|checked| &checked.set.state.missing);
    let lines = missing.filter_map(|left| left.path.as_ref());
    output::write_whole(path, |file| {
        use std::io::Write as _;
        for line in lines {
            writeln!(file, "{}", line.display())?;
        }
        Ok(())
    })
}

pub fn told(Checked { part, set, .. }: &Checked) -> Value {
    let state = &set.state;
    let left_out = |left: &Skipped| json!({"id": left.id, "path": left.path, "captions": left.captions});
    let missing: Vec<Value> = state.missing.iter().map(left_out).collect();
    let broken = set.broken.iter().map(|left| {
        let mut value = left_out(left);
        value["reason"] = left.reason.to_string().into();
        value
    });
    json!({
        "name": state.name,
        "part": part,
        "complete": set.is_complete(),
        "caption_files": state.caption_files,
        "captions": state.captions,
        "expected": state.expected,
        "found": state.found,
        "excluded": state.excluded,
        "missing": missing,
        "broken": broken.collect::<Vec<_>>(),
        "without_captions": state.extra,
        "without_captions_examples": state.extra_examples,
        "searched": state.searched,
        "advice": state.advice,
    })
}

pub fn report(Checked { title, set, .. }: &Checked, depth: Check) -> String {
    let state = &set.state;
    let verdict = if set.is_complete() {
        "complete"
    } else {
        "not complete"
    };
    let mut text = format!("{}: {verdict}\n", sanitize(title));
    if !state.caption_files.is_empty() {
        let mut line = |what: &str, number: usize, more: &str| {
            text.push_str(&format!(
                "  {what:<22}{:>9}{more}\n",
                output::group_digits(number)
            ));
        };
        let captions = match state.caption_files.as_slice() {
            [one] => format!(" in {}", sanitize(&one.display().to_string())),
            files => format!(" in {} files", output::group_digits(files.len())),
        };
        line("captions", state.captions, &captions);
        line("recordings expected", state.expected, "");
        line("  found", state.found, "");
        let ids = |left_out: &[Skipped]| {
            let ids = left_out.iter().map(|left| left.id.clone());
            examples(&ids.take(NAMED).collect::<Vec<_>>(), left_out.len())
        };
        line("  missing", state.missing.len(), &ids(&state.missing));
        let looked = match depth {
            Check::Decodes => "",
            _ if state.found == 0 => "",
            _ => " (only opened; use --decode to read them to the end)",
        };
        let named = if set.broken.is_empty() {
            looked.to_owned()
        } else {
            ids(&set.broken)
        };
        line("  broken", set.broken.len(), &named);
        if state.excluded > 0 {
            line("excluded", state.excluded, "");
        }
        if state.extra > 0 {
            let names = state.extra_examples.iter().map(|path| path.display().to_string());
            line(
                "files without captions",
                state.extra,
                &examples(&names.collect::<Vec<_>>(), state.extra),
            );
        }
    }
    for advice in &state.advice {
        text.push_str(&format!("  - {}\n", sanitize(advice)));
    }
    text
}

/// The first names of a list, in brackets.
fn examples(names: &[String], all: usize) -> String {
    if names.is_empty() {
        return String::new();
    }
    let more = if all > names.len() { ", ..." } else { "" };
    format!(" ({}{more})", sanitize(&names.join(", ")))
}
