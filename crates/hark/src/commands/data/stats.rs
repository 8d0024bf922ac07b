//! `hark data stats`: summarize datasets.
//!
//! One row per measure, one column per dataset. Only the headers of recordings are read; a sentence encoder compares
//! captions to estimate how often a training batch holds a likely false negative.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use hark_corpus::{AudioStats, Check, Dataset, Error, SkippedCounts, Spread, TextStats};
use hark_relevance::neighbours::{Expected, expected_false_negatives};
use serde_json::{Value, json};

use super::sets::{Asked, SetArgs};
use crate::commands::inputs::{ModelArgs, similarity};
use crate::output::{self, sanitize};
use crate::progress;

const EXAMPLES: &str = "Examples:
  hark data stats clotho /data/clotho --split development
  hark data stats wavcaps /data/wavcaps --no-audio --no-similarity
  hark data stats table pairs.csv --batch 128 --threshold 0.8 --json
  hark data stats --recipe recipes/soundscape-quick.toml

Training on hard pairs treats every other clip of a batch as wrong for a caption. If the caption of \
another clip says nearly the same, that clip is a likely false negative. The table shows the share \
of captions with one in a random batch, computed exactly over all pairs of captions. To list the \
pairs, run hark relevance neighbours.";

/// How many unreadable recordings are named.
const NAMED: usize = 5;

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    sets: SetArgs,
    /// Do not open recordings: no lengths, sample rates or formats
    #[arg(long)]
    no_audio: bool,
    /// Do not compare captions: no false negatives
    #[arg(long, conflicts_with_all = ["batch", "threshold", "model", "no_cache"])]
    no_similarity: bool,
    /// Batch size for the expected number of false negatives
    #[arg(long, value_name = "SIZE", default_value = "32")]
    batch: NonZeroUsize,
    /// Minimum similarity at which the captions of two clips count as a false negative
    #[arg(long, value_name = "H", default_value = "0.7", value_parser = similarity, allow_negative_numbers = true)]
    threshold: f32,
    #[command(flatten)]
    model: ModelArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One set in numbers.
struct Counted {
    title: String,
    part: Option<&'static str>,
    name: String,
    left_out: SkippedCounts,
    text: TextStats,
    audio: Option<AudioStats>,
    /// Not there if captions are not compared, or are fewer than a batch.
    false_negatives: Option<Expected>,
}

pub fn run(args: &Args) -> Result<()> {
    let asked = args.sets.asked()?;
    let sets = load(&asked)?;
    let false_negatives = count_false_negatives(args, &sets)?;
    let counted = sets
        .iter()
        .zip(false_negatives)
        .map(|((asked, data), false_negatives)| {
            Ok(Counted {
                title: asked.title(),
                part: asked.part,
                name: data.name.clone(),
                left_out: data.left_out_counts(),
                text: data.text_stats(),
                audio: audio(args, data)?,
                false_negatives,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    warn(&counted);
    if args.json {
        let sets: Vec<Value> = counted.iter().map(told).collect();
        let model = (!args.no_similarity).then(|| args.model.name());
        return output::print_json(&json!({"model": model, "sets": sets}));
    }
    output::print(&report(args, &counted))
}

/// The sets that are there. A split that nobody named may be absent, unless all are.
fn load(asked: &[Asked]) -> Result<Vec<(&Asked, Dataset)>> {
    let mut sets = Vec::new();
    let mut absent = Vec::new();
    for set in asked {
        // Listing folders is too quick for a bar.
        let loaded = set
            .config
            .load(Check::Presence, 1, &hark_work::progress::no_progress);
        match loaded {
            Ok(data) => sets.push((set, data)),
            Err(error @ Error::NoCaptionFile { .. }) if !set.by_name => absent.push(error),
            Err(error) => {
                let what = match (&error, &set.remedy) {
                    (Error::NoSetFolder { .. }, Some(remedy)) => format!("{}: {remedy}", set.title()),
                    _ => set.title(),
                };
                return Err(error).context(what);
            }
        }
    }
    for error in absent {
        if sets.is_empty() {
            return Err(error.into());
        }
        eprintln!("hark: warning: skipping a split: {}", output::explain(&error));
    }
    Ok(sets)
}

fn audio(args: &Args, data: &Dataset) -> Result<Option<AudioStats>> {
    if args.no_audio {
        return Ok(None);
    }
    let bar = progress::items("reading recordings");
    let watch = |done, total| progress::show(&bar, done, total);
    let stats = data.audio_stats(args.model.threads.count().get(), &watch);
    bar.finish_and_clear();
    Ok(Some(stats?))
}

/// For each set what to expect of a batch of it. All captions are embedded at once, so that the model is opened once.
fn count_false_negatives(args: &Args, sets: &[(&Asked, Dataset)]) -> Result<Vec<Option<Expected>>> {
    if args.no_similarity {
        return Ok(vec![None; sets.len()]);
    }
    let pairs = sets.iter().flat_map(|(_, data)| &data.pairs);
    let captions: Vec<&str> = pairs.map(|pair| pair.caption.as_str()).collect();
    let embedded = args.model.embed(&captions)?;
    let bar = progress::items("comparing captions");
    let expected = expected_false_negatives(
        embedded.view(),
        &sets
            .iter()
            .map(|(_, data)| data.clips_of_pairs())
            .collect::<Vec<_>>(),
        (args.threshold, args.batch.get()),
        Some(args.model.threads.count()),
        &|done, total| progress::show(&bar, done, total),
    );
    bar.finish_and_clear();
    Ok(expected?)
}

fn warn(counted: &[Counted]) {
    for set in counted {
        let Some(audio) = &set.audio else { continue };
        for left in audio.unreadable.iter().take(NAMED) {
            eprintln!(
                "hark: warning: {}: {}: {}",
                set.title,
                sanitize(&left.id),
                sanitize(&left.reason.to_string())
            );
        }
        if audio.unreadable.len() > NAMED {
            let more = output::counted(audio.unreadable.len() - NAMED, "recording");
            eprintln!("hark: warning: {}: cannot read {more} more", set.title);
        }
    }
}

fn told(set: &Counted) -> Value {
    let unreadable = set.audio.as_ref().map(|audio| {
        let unreadable = audio.unreadable.iter();
        unreadable
            .map(|left| json!({"id": left.id, "path": left.path, "reason": left.reason.to_string()}))
            .collect::<Vec<_>>()
    });
    json!({
        "name": set.name,
        "part": set.part,
        "missing": set.left_out.missing,
        "excluded": set.left_out.excluded,
        "text": set.text,
        "audio": set.audio,
        "unreadable": unreadable,
        "false_negatives": set.false_negatives,
    })
}

fn report(args: &Args, counted: &[Counted]) -> String {
    let mut table = Table::new(counted);
    table.row("clips", |set| output::group_digits(set.text.clips));
    if counted.iter().any(|set| set.left_out.missing > 0) {
        table.row("missing", |set| output::group_digits(set.left_out.missing));
    }
    if counted.iter().any(|set| set.left_out.excluded > 0) {
        table.row("excluded", |set| output::group_digits(set.left_out.excluded));
    }
    table.row("captions", |set| output::group_digits(set.text.pairs));
    table.row("captions per clip", |set| range(&set.text.captions_per_clip, 0));
    table.row("words per caption", |set| range(&set.text.words, 0));
    table.row("  median", |set| format!("{:.1}", set.text.words.median));
    table.row("  mean", |set| format!("{:.1}", set.text.words.mean));
    table.row("different words", |set| output::group_digits(set.text.vocabulary));
    table.row("repeated captions", |set| output::group_digits(set.text.repeated));
    table.row("captions of several clips", |set| {
        output::group_digits(set.text.shared_between_clips)
    });
    if !args.no_audio {
        audio_rows(&mut table, counted);
    }
    if !args.no_similarity {
        table.row("likely false negatives", |set| {
            set.false_negatives.map_or_else(
                || "-".to_owned(),
                |expected| format!("{:.2}%", 100.0 * expected.share_of_captions),
            )
        });
        table.row("  pairs in a batch", |set| {
            set.false_negatives.map_or_else(
                || "-".to_owned(),
                |expected| format!("{:.3}", expected.pairs_per_batch),
            )
        });
    }
    let mut text = table.text;
    text.push_str(&notes(args, counted));
    text
}

fn audio_rows(table: &mut Table<'_>, counted: &[Counted]) {
    let of = |set: &Counted, tell: &dyn Fn(&AudioStats) -> String| {
        set.audio.as_ref().map_or_else(|| "-".to_owned(), tell)
    };
    table.row("hours", |set| of(set, &|audio| format!("{:.2}", audio.hours)));
    table.row("seconds per clip", |set| {
        of(set, &|audio| range(&audio.seconds, 1))
    });
    table.row("  median", |set| {
        of(set, &|audio| format!("{:.1}", audio.seconds.median))
    });
    table.row("  mean", |set| {
        of(set, &|audio| format!("{:.1}", audio.seconds.mean))
    });
    let audios = || counted.iter().filter_map(|set| set.audio.as_ref());
    let number = |count: Option<&usize>| output::group_digits(count.copied().unwrap_or(0));
    let rates: BTreeSet<u32> = audios().flat_map(|audio| audio.rates.keys().copied()).collect();
    for rate in rates {
        let label = format!("clips of {} Hz", output::group_digits(rate));
        table.row(&label, |set| of(set, &|audio| number(audio.rates.get(&rate))));
    }
    let channels: BTreeSet<usize> = audios()
        .flat_map(|audio| audio.channels.keys().copied())
        .collect();
    for count in channels {
        let label = format!("  {count} channel{}", if count == 1 { "" } else { "s" });
        table.row(&label, |set| of(set, &|audio| number(audio.channels.get(&count))));
    }
    let formats: BTreeSet<&String> = audios().flat_map(|audio| audio.formats.keys()).collect();
    for format in formats {
        table.row(&format!("  {format}"), |set| {
            of(set, &|audio| number(audio.formats.get(format)))
        });
    }
    if audios().any(|audio| !audio.unreadable.is_empty()) {
        table.row("unreadable", |set| {
            of(set, &|audio| output::group_digits(audio.unreadable.len()))
        });
    }
}

/// What the table has no room for.
fn notes(args: &Args, counted: &[Counted]) -> String {
    let mut text = String::new();
    for set in counted {
        if let Some((caption, clips)) = &set.text.most_shared {
            text.push_str(&format!(
                "{}: {} clips share \"{}\"\n",
                sanitize(&set.title),
                output::group_digits(*clips),
                sanitize(caption)
            ));
        }
    }
    if !args.no_similarity {
        text.push_str(&format!(
            "likely false negatives: captions with a caption of another clip at h >= {} in a random batch of {}, by {}\n",
            args.threshold,
            args.batch,
            args.model.name()
        ));
        if counted.iter().any(|set| set.false_negatives.is_none()) {
            text.push_str(&format!(
                "-: too few captions for a batch of {}; lower --batch\n",
                args.batch
            ));
        }
    }
    if text.is_empty() {
        return text;
    }
    format!("\n{text}")
}

/// `1 to 5`, or `5` where there is nothing between.
fn range(spread: &Spread, digits: usize) -> String {
    let (min, max) = (
        format!("{:.digits$}", spread.min),
        format!("{:.digits$}", spread.max),
    );
    if min == max {
        min
    } else {
        format!("{min} to {max}")
    }
}

/// Text in columns: labels on the left, one column per dataset.
struct Table<'a> {
    sets: &'a [Counted],
    text: String,
}

/// The width of labels: that of `wav (pcm 16-bit)` and the like.
const LABEL: usize = 26;
/// The least width of a column.
const COLUMN: usize = 14;

impl<'a> Table<'a> {
    fn new(sets: &'a [Counted]) -> Self {
        let mut table = Self {
            sets,
            text: String::new(),
        };
        table.row("", |set| sanitize(&set.title));
        table
    }

    fn row(&mut self, label: &str, cell: impl Fn(&Counted) -> String) {
        let mut line = format!("{label:<LABEL$}");
        for set in self.sets {
            let width = set.title.chars().count().max(COLUMN);
            line.push_str(&format!("  {:>width$}", cell(set)));
        }
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
}
