//! `hark data make-soundscapes`: generate a dataset whose ground truth is known.
//!
//! In: settings, as options or from a recipe; options win. Out: a folder in Clotho's layout. A partial folder is
//! completed, a complete one left as it is, and one with other settings refused.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args as ClapArgs, ValueEnum};
use hark_learn::recipe::Recipe;
use hark_soundscape::{Attribute, AudioFormat, Config, Generated, Recordings, Split, size_on_disk};
use serde_json::{Map, Value, json};

use crate::commands::inputs::ThreadArgs;
use crate::commands::train::generate_soundscapes;
use crate::output;

const EXAMPLES: &str = "Examples:
  hark data make-soundscapes scapes
  hark data make-soundscapes large --train 5000 --test 1000 --seconds 10
  hark data make-soundscapes same --recipe recipes/soundscape-quick.toml
  hark data make-soundscapes standin --like clotho
  hark data make-soundscapes mix --recordings esc50 --recordings-table esc50.csv

A clip is a scene of one to three events, synthesised or cut from recordings. Its captions describe \
part of the scene. Because every event is known, so is how true each caption is of each clip; see \
truth_SPLIT.csv. The same settings give the same files. If you stop the command, run it again to \
complete the folder.

--like clotho makes a stand-in for Clotho 2.1: 3,839, 1,045 and 1,045 clips of 15 to 30 s at 44.1 kHz with five \
captions each, captions and metadata in Clotho's files, and no ground truth. What takes Clotho takes the stand-in.";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Output folder; may hold the same soundscapes, complete or partial
    #[arg(value_name = "OUT")]
    folder: PathBuf,
    /// Start from the `[soundscapes]` settings of a recipe; options given here win
    #[arg(long, value_name = "FILE")]
    recipe: Option<PathBuf>,
    /// Start from the counts, lengths and files of a published dataset; options given here win
    #[arg(long, value_name = "DATASET", conflicts_with = "recipe")]
    like: Option<Like>,
    #[command(flatten)]
    scenes: SceneArgs,
    #[command(flatten)]
    recordings: RecordingArgs,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A dataset to stand in for.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Like {
    // Without a text of its own, the help stays a table.
    Clotho,
}

/// The settings, each absent unless it was typed. Their defaults are shown as the library has them.
#[derive(Debug, ClapArgs)]
struct SceneArgs {
    #[arg(long, value_name = "N", help = shown("Number of training clips", Config::default().train))]
    train: Option<usize>,
    #[arg(long, value_name = "N", help = shown("Number of validation clips", Config::default().validation))]
    validation: Option<usize>,
    #[arg(long, value_name = "N", help = shown("Number of test clips", Config::default().test))]
    test: Option<usize>,
    #[arg(long, value_name = "S", help = shown("Length of a clip in seconds, 1 to 60", Config::default().seconds))]
    seconds: Option<f64>,
    /// Draw lengths from --seconds to this many seconds, at most 60
    #[arg(long, value_name = "S")]
    max_seconds: Option<f64>,
    #[arg(long, value_name = "HZ", help = shown("Sample rate, 16000 to 48000", Config::default().rate))]
    rate: Option<u32>,
    #[arg(long, value_name = "N", help = shown("Number of event kinds, such as rain or a siren", Config::default().kinds))]
    kinds: Option<usize>,
    #[arg(long, value_name = "N", help = shown("Minimum events per scene", Config::default().min_events))]
    min_events: Option<usize>,
    #[arg(long, value_name = "N", help = shown("Maximum events per scene, at most 3", Config::default().max_events))]
    max_events: Option<usize>,
    #[arg(
        long,
        value_name = "LIST",
        value_parser = attributes,
        help = shown(
            "Attributes that captions mention: some of loudness,pace,pitch,count, or none",
            Attribute::list(&Config::default().attributes)
        )
    )]
    attributes: Option<Attributes>,
    #[arg(long, value_name = "N", help = shown("Captions per clip, at most 20", Config::default().captions))]
    captions: Option<usize>,
    #[arg(long, value_name = "SHARE", help = shown("How often to use rare wordings: 0 seldom, 1 as often as common ones", Config::default().rarity))]
    rarity: Option<f64>,
    #[arg(long, value_name = "SHARE", help = shown("Probability that a clip repeats an earlier scene, 0 to 1", Config::default().repeat))]
    repeat: Option<f64>,
    /// Write validation and test captions in phrases that training captions never use
    #[arg(long)]
    disjoint_wording: bool,
    #[arg(long, value_name = "NAME", value_parser = format_parser(), help = shown("Audio format of the clips", "flac"))]
    format: Option<AudioFormat>,
    /// Skip the ground truth of the training split, which grows with the square of its clips
    #[arg(long)]
    no_train_truth: bool,
    /// Skip all ground truth
    #[arg(long)]
    no_truth: bool,
    #[arg(long, value_name = "N", help = shown("Random seed", Config::default().seed))]
    seed: Option<u64>,
}

/// Labelled recordings to cut events from.
#[derive(Debug, ClapArgs)]
struct RecordingArgs {
    /// Cut events from the recordings in this folder instead of synthesising them
    #[arg(long, value_name = "DIR", requires = "recordings_table")]
    recordings: Option<PathBuf>,
    /// CSV file with the columns filename and category, relative to the folder
    #[arg(long, value_name = "FILE", requires = "recordings")]
    recordings_table: Option<PathBuf>,
    /// Folds of the table for training, such as 1,2,3 [default: all others]
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "recordings")]
    train_folds: Vec<u32>,
    /// Folds for validation [default: the last but one]
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "recordings")]
    validation_folds: Vec<u32>,
    /// Folds for test [default: the last]
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "recordings")]
    test_folds: Vec<u32>,
}

/// A newtype because the parser treats a plain `Vec` as an option given several times.
#[derive(Debug, Clone)]
struct Attributes(Vec<Attribute>);

pub fn run(args: &Args) -> Result<()> {
    let config = args.config()?;
    config.validate()?;
    let made = generate_soundscapes(&config, &args.folder, args.threads.count().get())?;
    let bytes = size_on_disk(&args.folder)?;
    if args.json {
        return output::print_json(&told(&args.folder, &config, &made, bytes));
    }
    output::print(&report(&args.folder, &config, &made, bytes))
}

impl Args {
    /// The settings: those of the recipe, or else the default ones, with what was typed.
    fn config(&self) -> Result<Config> {
        let mut config = match (&self.recipe, self.like) {
            (None, None) => Config::default(),
            (None, Some(Like::Clotho)) => Config::like_clotho(),
            (Some(path), _) => match Recipe::read(path, &[])?.soundscapes {
                Some(config) => config,
                None => bail!("{}: the recipe has no [soundscapes] table", path.display()),
            },
        };
        self.scenes.change(&mut config);
        if let (Some(folder), Some(table)) = (&self.recordings.recordings, &self.recordings.recordings_table)
        {
            config.recordings = Some(Recordings {
                folder: folder.clone(),
                table: table.clone(),
                train_folds: self.recordings.train_folds.clone(),
                validation_folds: self.recordings.validation_folds.clone(),
                test_folds: self.recordings.test_folds.clone(),
            });
        }
        Ok(config)
    }
}

impl SceneArgs {
    fn change(&self, config: &mut Config) {
        set(&mut config.train, self.train);
        set(&mut config.validation, self.validation);
        set(&mut config.test, self.test);
        set(&mut config.seconds, self.seconds);
        config.max_seconds = self.max_seconds.or(config.max_seconds);
        set(&mut config.rate, self.rate);
        set(&mut config.kinds, self.kinds);
        set(&mut config.min_events, self.min_events);
        set(&mut config.max_events, self.max_events);
        set(
            &mut config.attributes,
            self.attributes.clone().map(|Attributes(list)| list),
        );
        set(&mut config.captions, self.captions);
        set(&mut config.rarity, self.rarity);
        set(&mut config.repeat, self.repeat);
        set(&mut config.format, self.format);
        set(&mut config.seed, self.seed);
        config.disjoint_wording |= self.disjoint_wording;
        config.train_truth &= !self.no_train_truth;
        config.truth &= !self.no_truth;
    }
}

fn set<T>(place: &mut T, typed: Option<T>) {
    if let Some(typed) = typed {
        *place = typed;
    }
}

/// The help of an option, with its default as clap would show it.
fn shown(help: &str, default: impl Display) -> String {
    format!("{help} [default: {default}]")
}

fn format_parser() -> impl TypedValueParser<Value = AudioFormat> {
    PossibleValuesParser::new(["flac", "wav"]).map(|typed| match typed.as_str() {
        "wav" => AudioFormat::Wav,
        _ => AudioFormat::Flac,
    })
}

fn attributes(text: &str) -> Result<Attributes, String> {
    Attribute::read_list(text).map(Attributes)
}

fn told(folder: &Path, config: &Config, made: &Generated, bytes: u64) -> Value {
    let by_split = |numbers: [usize; 3]| {
        let entries = Split::ALL.into_iter().zip(numbers);
        entries
            .map(|(split, number)| (split.name().to_owned(), number.into()))
            .collect::<Map<String, Value>>()
    };
    json!({
        "folder": folder,
        "reused": made.reused,
        "made_now": made.rendered,
        "clips": by_split(made.clips),
        "captions": by_split(made.captions),
        "bytes": bytes,
        "settings": config,
    })
}

fn report(folder: &Path, config: &Config, made: &Generated, bytes: u64) -> String {
    let total: usize = made.clips.iter().sum();
    let how = match (made.reused, made.rendered) {
        (true, _) => "already complete".to_owned(),
        (false, rendered) if rendered == total => "generated".to_owned(),
        (false, rendered) => format!("completed, generated {}", output::counted(rendered, "clip")),
    };
    let mut text = format!(
        "{}: {how}; {} of {}{} s, {}\n",
        folder.display(),
        output::counted(total, "clip"),
        config.seconds,
        config
            .max_seconds
            .map_or_else(String::new, |longest| format!(" to {longest}")),
        size(bytes)
    );
    let parts = Split::ALL.into_iter().zip(made.clips).zip(made.captions);
    for ((split, clips), captions) in parts {
        let truth = if config.has_truth(split) {
            format!(", ground truth in {}", split.truth_file())
        } else {
            String::new()
        };
        text.push_str(&format!(
            "  {:<12}{:>14}, {:>18}{truth}\n",
            split.name(),
            output::counted(clips, "clip"),
            output::counted(captions, "caption")
        ));
    }
    text.push_str("\nNext:\n  hark train RECIPE");
    let parts = ["data.train", "data.validation", "data.test"];
    for (part, split) in parts.into_iter().zip(Split::ALL) {
        let value = format!(
            "[{{kind=\"clotho\",root={},split=\"{}\"}}]",
            Value::from(folder.display().to_string()),
            split.name()
        );
        text.push_str(&format!(" \\\n    --set {part}={}", quoted(&value)));
    }
    let folder = quoted(&folder.display().to_string());
    text.push_str(&format!("\n  hark data stats clotho {folder}\n"));
    text
}

/// In single quotes, for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn size(bytes: u64) -> String {
    let megabytes = bytes as f64 / 1e6;
    if megabytes < 1000.0 {
        format!("{megabytes:.1} MB")
    } else {
        format!("{:.1} GB", megabytes / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_any_name_survives_the_shell() {
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
