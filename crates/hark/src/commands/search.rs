//! `hark search`: the recordings of a library that answer best.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args as ClapArgs;
use hark_catalogue::{Filter, Hit, NEGATIVE_WEIGHT, Query, Store, combine_queries, search};
use serde::Serialize;

use super::inputs::ThreadArgs;
use crate::home::Home;
use crate::library::{LibraryArgs, LibraryModel, ModelEmbedder};
use crate::output;

const EXAMPLES: &str = "Examples:
  hark search rain on a tin roof
  hark search 'a dog barks' --not speech --max-seconds 10
  hark search --audio clip.wav                 (sounds like a recording of yours)
  hark search --like ~/Sounds/Rain/roof.wav --at 35   (like the moment at 35 s of a recording in the library)
  hark search --words 'take 12'                (names, folders, tags, captions; no model needed)
  hark search thunder --folder ~/Sounds/Weather --m3u > thunder.m3u

Words are looked for in names, folders, tags, captions and metadata, and what is meant is looked for in the
sound; a recording that both find stands first. There is no threshold: the best come first, however good
they are. Scores are sums of reciprocal ranks, or cosines with --meaning, --audio and --like.";

#[allow(clippy::struct_excessive_bools, reason = "each is an option of the command")]
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What you look for
    #[arg(value_name = "WORDS", required_unless_present_any = ["audio", "like"])]
    words_given: Vec<String>,
    /// Sounds like this recording, which need not be in the library
    #[arg(long, value_name = "FILE", conflicts_with = "words_given")]
    audio: Option<PathBuf>,
    /// Sounds like this recording of the library
    #[arg(long, value_name = "FILE", conflicts_with_all = ["words_given", "audio"])]
    like: Option<PathBuf>,
    /// The second of that recording that is meant; without it, all of it
    #[arg(long, value_name = "SECONDS", requires = "like")]
    at: Option<f64>,
    /// What shall not be heard or named; may be given several times
    #[arg(long = "not", value_name = "WORDS")]
    without: Vec<String>,
    /// Look for the words only
    #[arg(long, conflicts_with_all = ["meaning", "audio", "like"])]
    words: bool,
    /// Look for the meaning only
    #[arg(long)]
    meaning: bool,
    #[command(flatten)]
    filter: FilterArgs,
    /// Show every moment of a long recording that fits, not only its best
    #[arg(long)]
    all_moments: bool,
    /// How many to show
    #[arg(short = 'n', long, value_name = "N", default_value = "10")]
    limit: std::num::NonZeroUsize,
    #[command(flatten)]
    library: LibraryArgs,
    /// Where the library's model is, if it is elsewhere now
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print a playlist, in which a hit within a recording begins at its time
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    m3u: bool,
}

/// Which recordings are looked at.
#[derive(Debug, ClapArgs)]
pub struct FilterArgs {
    /// Only in this folder; may be given several times
    #[arg(long, value_name = "FOLDER")]
    folder: Vec<PathBuf>,
    /// Only with this tag; may be given several times
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Only as long as this, or longer
    #[arg(long, value_name = "SECONDS")]
    min_seconds: Option<f64>,
    /// Only as long as this, or shorter
    #[arg(long, value_name = "SECONDS")]
    max_seconds: Option<f64>,
    /// Only with so many samples a second, or more
    #[arg(long, value_name = "HERTZ")]
    min_rate: Option<u32>,
    /// Only with so many samples a second, or fewer
    #[arg(long, value_name = "HERTZ")]
    max_rate: Option<u32>,
    /// Only recorded on this day or later
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = day)]
    after: Option<String>,
    /// Only recorded on this day or earlier
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = day)]
    before: Option<String>,
}

fn day(text: &str) -> Result<String, String> {
    let parts: Vec<&str> = text.split('-').collect();
    let numbers = [(4, 9999), (2, 12), (2, 31)];
    let fits = parts.len() == 3
        && parts.iter().zip(numbers).all(|(part, (digits, most))| {
            part.len() == digits
                && part.bytes().all(|b| b.is_ascii_digit())
                && part
                    .parse::<u32>()
                    .is_ok_and(|number| (1..=most).contains(&number))
        });
    if fits {
        Ok(text.to_owned())
    } else {
        Err("give a day as 2026-11-15".to_owned())
    }
}

impl FilterArgs {
    fn filter(&self) -> Result<Filter> {
        let folders = self.folder.iter().map(|folder| {
            // A folder that is gone from this disk may still be one of the library's.
            let folder = fs_err::canonicalize(folder).or_else(|_| std::path::absolute(folder))?;
            folder
                .into_os_string()
                .into_string()
                .map_err(|name| anyhow::anyhow!("{}: its name is not Unicode", name.display()))
        });
        Ok(Filter {
            folders: folders.collect::<Result<_>>()?,
            tags: self.tag.clone(),
            min_seconds: self.min_seconds,
            max_seconds: self.max_seconds,
            min_rate: self.min_rate,
            max_rate: self.max_rate,
            after: self.after.clone(),
            before: self.before.clone(),
        })
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Answer<'a> {
    library: &'a str,
    hits: &'a [Hit],
}

pub fn run(args: &Args) -> Result<()> {
    let home = Home::find()?;
    let words = args.words_given.join(" ");
    ensure!(
        args.audio.is_some() || args.like.is_some() || !words.trim().is_empty(),
        "nothing to look for"
    );
    let store = args.library.open(&home, args.threads.count().get())?;
    let mut query = Query {
        without: args.without.clone(),
        filter: args.filter.filter()?,
        per_file: if args.all_moments { usize::MAX } else { 1 },
        limit: args.limit.get(),
        ..Query::default()
    };
    if args.words {
        query.words = Some(words);
    } else {
        let wanted = wanted(args, &home, &*store, &words, &mut query)?;
        query.vector = Some(wanted);
        // What is like a sound has no words, and what must not be named is all that words could say of it.
        query.words = (!args.meaning && args.audio.is_none() && args.like.is_none()).then_some(words);
    }
    let hits = search(&*store, &query)?;
    if args.json {
        output::print_json(&Answer {
            library: &args.library.name,
            hits: &hits,
        })
    } else if args.csv {
        output::print(&hark_catalogue::export::csv(&hits))
    } else if args.m3u {
        output::print(&hark_catalogue::export::m3u(&hits))
    } else {
        show(&hits)
    }
}

/// The vector of what is wanted, less what is not.
fn wanted(args: &Args, home: &Home, store: &dyn Store, words: &str, query: &mut Query) -> Result<Vec<f32>> {
    let ears = || -> Result<ModelEmbedder> {
        let model = LibraryModel::of(home, store.settings(), args.model.as_deref())?;
        Ok(ModelEmbedder::new(model, args.threads.compute()))
    };
    let mut texts: Vec<&str> = args.without.iter().map(String::as_str).collect();
    let mut loaded = None;
    let wanted = if let Some(path) = &args.audio {
        let ears = loaded.insert(ears()?);
        ears.hear(path)?
    } else if let Some(path) = &args.like {
        let (id, vector) = of_library(store, path, args.at)?;
        query.except = Some(id);
        vector
    } else {
        texts.push(words);
        Vec::new()
    };
    if texts.is_empty() {
        return Ok(wanted);
    }
    let ears = match loaded {
        Some(ears) => ears,
        None => ears()?,
    };
    let mut avoided = ears.read(&texts)?;
    let wanted = if wanted.is_empty() {
        avoided.pop().context("no vector for the words")?
    } else {
        wanted
    };
    combine_queries(&[wanted], &avoided, NEGATIVE_WEIGHT)
        .context("what is wanted is what is not wanted: nothing remains")
}

/// A recording of the library and its vector, or that of the moment `at`.
fn of_library(store: &dyn Store, path: &Path, at: Option<f64>) -> Result<(i64, Vec<f32>)> {
    let absolute = fs_err::canonicalize(path).or_else(|_| std::path::absolute(path))?;
    let name = absolute.to_string_lossy();
    let Some(file) = store.find(&name)? else {
        bail!("{name} is not in the library; --audio takes any recording");
    };
    let windows = store.windows(file.id)?;
    let window = match at {
        Some(at) => windows
            .iter()
            .filter(|window| !window.whole && window.start <= at && at < window.end)
            // Of windows that overlap, the one whose middle is nearest.
            .min_by(|a, b| {
                let off =
                    |window: &&hark_catalogue::Window| (f64::midpoint(window.start, window.end) - at).abs();
                off(a).total_cmp(&off(b))
            })
            .or_else(|| windows.iter().find(|window| window.whole && at < window.end))
            .with_context(|| format!("{name} is {} long", super::index::length(file.sound.seconds)))?,
        None => windows
            .iter()
            .find(|window| window.whole)
            .with_context(|| format!("{name}: the library has no vector of it; see hark index --check"))?,
    };
    Ok((file.id, window.vector.clone()))
}

fn show(hits: &[Hit]) -> Result<()> {
    if hits.is_empty() {
        eprintln!("nothing found: the library has no such recordings");
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

    #[test]
    fn days_are_days() {
        assert!(day("2026-11-15").is_ok());
        for wrong in [
            "2026-13-01",
            "15.11.2026",
            "2026-1-1",
            "2026-11",
            "2026-11-32",
            "+026-11-11",
        ] {
            assert!(day(wrong).is_err(), "{wrong}");
        }
    }
}
