//! `hark data check`: what data sets have and lack.
//!
//! A set that cannot be read at all is reported as incomplete like any other, and the next one is looked at. The report
//! goes to stdout; the exit code is 1 if anything is missing or broken.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use hark_corpus::{Check, Completeness, Error, Reason, Skipped};
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

Every recording is opened; with --decode each is decoded to its end. The exit code is 0 if every
set is complete, and 1 if something is missing or broken.";

/// So many recordings are named in the report.
const NAMED: usize = 5;

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    sets: SetArgs,
    /// Decode every recording to its end
    #[arg(long)]
    decode: bool,
    /// Write where each missing recording should lie, one path a line
    #[arg(long, value_name = "FILE")]
    missing: Option<PathBuf>,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is known of one set.
struct Checked {
    title: String,
    part: Option<&'static str>,
    state: Completeness,
    broken: Vec<Skipped>,
}

impl Checked {
    fn is_complete(&self) -> bool {
        self.state.is_complete() && self.broken.is_empty()
    }
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
    if let Some(path) = &args.missing {
        write_missing(path, &checked)?;
    }
    let incomplete = checked.iter().filter(|set| !set.is_complete()).count();
    if args.json {
        let sets: Vec<Value> = checked.iter().map(told).collect();
        output::print_json(&json!({"complete": incomplete == 0, "check": depth, "sets": sets}))?;
    } else {
        let reports: Vec<String> = checked.iter().map(|set| report(set, depth)).collect();
        output::print(&reports.join("\n"))?;
    }
    match (incomplete, checked.as_slice()) {
        (0, _) => Ok(()),
        (_, [one]) => bail!("{} is not complete", one.title),
        (_, all) => bail!("{incomplete} of {} data sets are not complete", all.len()),
    }
}

fn check(asked: &Asked, depth: Check, threads: usize) -> Result<Checked> {
    let mut checked = Checked {
        title: asked.title(),
        part: asked.part,
        state: Completeness::default(),
        broken: Vec::new(),
    };
    match asked.config.completeness() {
        Ok(state) => checked.state = state,
        Err(error) => {
            checked.state.name = asked.config.name();
            checked.state.advice = vec![format!("{:#}", anyhow::Error::from(error))];
        }
    }
    if checked.state.caption_files.is_empty() {
        checked.state.advice.extend(asked.remedy.clone());
    }
    if checked.state.found > 0 {
        checked.broken = broken(asked, depth, threads)?;
        if let Some(first) = checked.broken.first() {
            let advice = format!(
                "{} of {} recordings cannot be decoded: get them again, or remove them ({}: {})",
                checked.broken.len(),
                checked.state.found,
                sanitize(&first.id),
                sanitize(&first.reason.to_string())
            );
            checked.state.advice.push(advice);
        }
    }
    Ok(checked)
}

/// The recordings that are there and of no use.
fn broken(asked: &Asked, depth: Check, threads: usize) -> Result<Vec<Skipped>> {
    let bar = progress::items(match depth {
        Check::Decodes => "decoding recordings",
        _ => "opening recordings",
    });
    let mut watch = |done, total| progress::show(&bar, done as u64, total as u64);
    let loaded = asked.config.load(depth, threads, &mut watch);
    bar.finish_and_clear();
    match loaded {
        Ok(data) => {
            let is_broken = |left: &Skipped| matches!(left.reason, Reason::Broken(_));
            Ok(data.left_out.into_iter().filter(is_broken).collect())
        }
        // None is left. Which they were, only the files that are there still tell.
        Err(Error::NoClips { .. }) => all_found(asked),
        Err(error) => Err(error.into()),
    }
}

fn all_found(asked: &Asked) -> Result<Vec<Skipped>> {
    let data = asked
        .config
        .load(Check::Presence, 1, &hark_work::progress::no_progress)?;
    let captions = data.captions_by_clip();
    let clips = data.clips.into_iter().zip(captions);
    let left_out = clips.map(|(clip, captions)| Skipped {
        id: clip.id,
        path: Some(clip.path),
        reason: Reason::Broken("not one recording of the set can be decoded".to_owned()),
        captions: captions.len(),
    });
    Ok(left_out.collect())
}

fn write_missing(path: &Path, checked: &[Checked]) -> Result<()> {
    let missing = checked.iter().flat_map(|set| &set.state.missing);
    let lines = missing.filter_map(|left| left.path.as_ref());
    output::write_whole(path, |file| {
        use std::io::Write as _;
        for line in lines {
            writeln!(file, "{}", line.display())?;
        }
        Ok(())
    })
}

fn told(set: &Checked) -> Value {
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
        "part": set.part,
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

fn report(set: &Checked, depth: Check) -> String {
    let state = &set.state;
    let verdict = if set.is_complete() {
        "complete"
    } else {
        "not complete"
    };
    let mut text = format!("{}: {verdict}\n", sanitize(&set.title));
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
            _ => " (opened only: --decode reads them to their end)",
        };
        let named = if set.broken.is_empty() {
            looked.to_owned()
        } else {
            ids(&set.broken)
        };
        line("  broken", set.broken.len(), &named);
        if state.excluded > 0 {
            line("left out", state.excluded, " on purpose");
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
