//! `hark search`: finds recordings of a library.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, ensure};
use clap::Args as ClapArgs;
use hark_catalogue::{Answer, Filter, Hit, Mode, Note, Question, parse_day, parse_time};
use hark_library::OpenOptions;
use serde::Serialize;

use super::inputs::ComputeArgs;
use crate::home::Home;
use crate::library::{LibraryArgs, tell_of_everyday};
use crate::{output, progress};

const EXAMPLES: &str = "Examples:
  hark search rain on a tin roof
  hark search 'a dog barks -speech' --max-seconds 10
  hark search --audio clip.wav              (sounds like this recording)
  hark search --like roof.wav --at 1:30     (like a moment of an indexed recording)
  hark search --words take 12               (names, folders, tags; needs no model)
  hark search thunder --folder ~/Sounds/Weather --m3u > thunder.m3u

In names, captions and other text, 'thund*' matches words that begin so, and '\"rain on a roof\"' these words in \
this order. A minus excludes a word or several: 'rain -wind -\"human voice\"'. Quote the whole query, or put -- before \
the first minus: hark search rain -- -wind. The option --not does the same.

The query is matched against the sound of each recording and against its name, folders, tags, captions and \
metadata; recordings that match both come first. There is no threshold: the best hits are listed, however good they \
are. Scores are sums of reciprocal ranks, or cosine similarities with --meaning, --audio and --like.";

#[allow(clippy::struct_excessive_bools, reason = "each is an option of the command")]
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Words that describe the sound; with --audio or --like, what to add to it
    #[arg(value_name = "WORDS", required_unless_present_any = ["audio", "like", "exclude"])]
    query: Vec<String>,
    /// Find recordings that sound like this one, which need not be in the library
    #[arg(long, value_name = "FILE")]
    audio: Option<PathBuf>,
    /// Find recordings that sound like this one of the library
    #[arg(long, value_name = "FILE")]
    like: Option<PathBuf>,
    /// With --like, the moment to match, such as 35 or 1:30 [default: whole recording]
    #[arg(long, value_name = "TIME", requires = "like", value_parser = parse_time)]
    at: Option<f64>,
    /// Exclude these sounds or words (repeatable)
    #[arg(long = "not", value_name = "WORDS")]
    exclude: Vec<String>,
    /// Match the words against names, folders, tags, captions and metadata only
    #[arg(long, conflicts_with = "meaning")]
    words: bool,
    /// Match the words against the sound only
    #[arg(long)]
    meaning: bool,
    #[command(flatten)]
    filter: FilterArgs,
    /// List every matching moment of a recording, not only its best
    #[arg(long)]
    all_moments: bool,
    /// Skip the first hits
    #[arg(long, value_name = "N", default_value = "0")]
    offset: usize,
    /// Maximum number of hits
    #[arg(short = 'n', long, value_name = "N", default_value = "10")]
    limit: std::num::NonZeroUsize,
    #[command(flatten)]
    library: LibraryArgs,
    /// The library's model, if it has moved: a name or a folder
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    #[command(flatten)]
    compute: ComputeArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print an M3U playlist; a moment of a recording starts at its offset
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    m3u: bool,
}

/// Which recordings are searched.
#[derive(Debug, ClapArgs)]
pub struct FilterArgs {
    /// Only recordings in this folder (repeatable)
    #[arg(long, value_name = "FOLDER")]
    folder: Vec<PathBuf>,
    /// Only recordings with this tag; with several, those that have all (repeatable)
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Minimum length, such as 5 or 1:30
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    min_seconds: Option<f64>,
    /// Maximum length
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    max_seconds: Option<f64>,
    /// Minimum sample rate
    #[arg(long, value_name = "HERTZ")]
    min_rate: Option<u32>,
    /// Maximum sample rate
    #[arg(long, value_name = "HERTZ")]
    max_rate: Option<u32>,
    /// Only this format: a container or codec, such as wav, flac, opus or pcm (repeatable)
    #[arg(long, value_name = "FORMAT")]
    format: Vec<String>,
    /// Only this number of channels (repeatable)
    #[arg(long, value_name = "N")]
    channels: Vec<u32>,
    /// Only recordings made on this day or later; files without a date count by their modification time
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = parse_day)]
    after: Option<String>,
    /// Only recordings made on this day or earlier
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = parse_day)]
    before: Option<String>,
}

impl FilterArgs {
    fn filter(&self) -> Result<Filter> {
        Ok(Filter {
            folders: self
                .folder
                .iter()
                .map(|folder| indexed_path(folder))
                .collect::<Result<_>>()?,
            tags: self.tag.clone(),
            min_seconds: self.min_seconds,
            max_seconds: self.max_seconds,
            min_rate: self.min_rate,
            max_rate: self.max_rate,
            formats: self.format.clone(),
            channels: self.channels.clone(),
            after: self.after.clone(),
            before: self.before.clone(),
        })
    }
}

/// A path as the library has it: absolute, links followed. What is gone from this disk may still be in the library.
fn indexed_path(path: &Path) -> Result<String> {
    let absolute = fs_err::canonicalize(path).or_else(|_| std::path::absolute(path))?;
    let name = absolute.into_os_string().into_string();
    name.map_err(|name| anyhow!("{}: the path is not Unicode", name.display()))
}

impl Args {
    fn question(&self) -> Result<Question> {
        let mut question = Question::text(&self.query.join(" "))
            .mode(match (self.words, self.meaning) {
                (true, _) => Mode::Words,
                (_, true) => Mode::Meaning,
                _ => Mode::Fused,
            })
            .filter(self.filter.filter()?)
            .all_moments(self.all_moments)
            .offset(self.offset)
            .limit(self.limit.get());
        for text in &self.exclude {
            question = question.without(text);
        }
        if let Some(path) = &self.audio {
            question = question.audio(path);
        }
        if let Some(path) = &self.like {
            question = question.like(indexed_path(path)?, self.at);
        }
        ensure!(
            question.ranks() || !question.exclusions().is_empty(),
            "the query is empty"
        );
        Ok(question)
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    library: &'a str,
    hits: &'a [Hit],
    notes: Vec<String>,
}

pub fn run(args: &Args) -> Result<()> {
    let question = args.question()?;
    let home = Home::find()?;
    let options = OpenOptions {
        model: args.model.clone(),
        // This process embeds one query.
        compute: args.compute.compute()?.with_weights_on_disk(),
        cancelled: Some(progress::stopped),
    };
    let library = args.library.open(&home, &options)?;
    tell_of_everyday(args.model.is_none() && !args.words, &library);
    let Answer { hits, notes, .. } = library.ask(&question)?;
    let notes: Vec<String> = notes.iter().map(Note::to_string).collect();
    if !args.json {
        for note in &notes {
            eprintln!("hark: note: {}", output::sanitize(note));
        }
    }
    if args.json {
        output::print_json(&Report {
            library: &args.library.name,
            hits: &hits,
            notes,
        })
    } else if args.csv {
        output::print(&hark_catalogue::export::csv(&hits))
    } else if args.m3u {
        output::print(&hark_catalogue::export::m3u(&hits))
    } else {
        show(&hits)
    }
}

fn show(hits: &[Hit]) -> Result<()> {
    if hits.is_empty() {
        eprintln!("no recording matches");
    }
    let mut text = String::new();
    for hit in hits {
        let moment = match (hit.start, hit.end) {
            (Some(start), Some(end)) => format!("{}–{}", clock(start), clock(end)),
            _ => clock(hit.file.sound.seconds),
        };
        text.push_str(&format!(
            "{:>3}  {:.4}  {moment:>13}  {}\n",
            hit.rank,
            hit.score,
            output::sanitize(&hit.file.path)
        ));
    }
    output::print(&text)
}

/// `1:02:03`, `2:03`.
fn clock(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_on_a_clock() {
        assert_eq!(clock(0.4), "0:00");
        assert_eq!(clock(125.0), "2:05");
        assert_eq!(clock(3723.0), "1:02:03");
    }
}
