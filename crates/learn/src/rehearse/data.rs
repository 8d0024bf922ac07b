//! The data of a rehearsal: what is there, a sample of it, and generated clips in place of what is not.

use std::path::{Path, PathBuf};
use std::time::Instant;

use hark_audio::Decoder;
use hark_corpus::{Check, Dataset, DatasetConfig, Error as CorpusError};
use hark_soundscape as soundscape;
use hark_work::files;
use hark_work::progress::{Progress, counted, no_progress};
use hark_work::workers::map;
use serde::Serialize;

use super::{Finding, Kind};
use crate::Error;
use crate::recipe::Recipe;

/// Of AudioCaps and WavCaps, one in so many recordings may have disappeared: 20 %.
const MOST_VANISHED: usize = 5;

/// One split of the recipe.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SplitReport {
    /// Its key: `data.train`, `data.validation` or `data.test`.
    pub part: &'static str,
    /// Clips that are there, or that the published dataset has; nothing if neither is known.
    pub clips: Option<usize>,
    /// Captions, likewise.
    pub captions: Option<usize>,
    /// Clips that were decoded to their end.
    pub decoded: usize,
    /// Their length, on average.
    pub mean_seconds: f64,
    /// How long decoding one took.
    pub decode_seconds: f64,
    /// Whether generated clips stand in for it.
    pub generated: bool,
}

/// A split and the clips of it that the rehearsal uses.
pub(super) struct Looked {
    pub(super) report: SplitReport,
    pub(super) data: Dataset,
    /// Clips that decode.
    pub(super) sample: Vec<usize>,
}

/// How a split is looked at.
#[derive(Clone, Copy)]
pub(super) struct Look<'a> {
    pub(super) part: &'static str,
    pub(super) sets: &'a [DatasetConfig],
    /// Clips to decode.
    pub(super) sample: usize,
    /// Recordings that may be missing.
    pub(super) may_miss: usize,
    /// Whether the training refuses any that is missing.
    pub(super) strict: bool,
    pub(super) threads: usize,
    pub(super) progress: Progress<'a>,
}

/// Looks at a split; nothing if it cannot be trained on as it is.
pub(super) fn look(how: Look<'_>, findings: &mut Vec<Finding>) -> Result<Option<Looked>, Error> {
    let mut loaded = Vec::new();
    for set in how.sets {
        match load(how, set) {
            Ok((data, missing)) => {
                findings.extend(missing);
                loaded.push(data);
            }
            Err(finding) => findings.push(finding),
        }
    }
    if loaded.len() < how.sets.len() || loaded.is_empty() {
        return Ok(None);
    }
    let data = Dataset::merge(loaded);
    let began = Instant::now();
    // Evenly over the whole set.
    let count = how.sample.min(data.clips.len());
    let chosen: Vec<usize> = (0..count).map(|nth| nth * data.clips.len() / count).collect();
    let paths: Vec<&Path> = chosen
        .iter()
        .map(|&clip| data.clips[clip].path.as_path())
        .collect();
    let decoded = map(&paths, how.threads, how.progress, |path| seconds_of(path));
    let decoded = decoded.map_err(|_| Error::Cancelled)?;
    let took = began.elapsed().as_secs_f64();
    let mut sample = Vec::new();
    let mut seconds = 0.0;
    let mut broken = Vec::new();
    for ((clip, path), decoded) in chosen.into_iter().zip(paths).zip(decoded) {
        match decoded {
            Ok(length) => {
                sample.push(clip);
                seconds += length;
            }
            Err(reason) => broken.push((path.to_owned(), reason)),
        }
    }
    if let Some((path, reason)) = broken.first() {
        findings.push(Finding {
            kind: Kind::Recording,
            what: format!(
                "{}: {} of {} cannot be decoded; the first is {}: {reason}",
                how.part,
                broken.len(),
                counted(count, "sampled recording"),
                path.display()
            ),
            remedy: "get these recordings again or remove them; hark data check --decode names all that are broken".into(),
        });
    }
    if sample.is_empty() {
        return Ok(None);
    }
    Ok(Some(Looked {
        report: SplitReport {
            part: how.part,
            clips: Some(data.clips.len()),
            captions: Some(data.pairs.len()),
            decoded: count,
            mean_seconds: seconds / sample.len() as f64,
            decode_seconds: took / count as f64,
            generated: false,
        },
        data,
        sample,
    }))
}

/// A set, with what is missing of it; or why it cannot be used.
fn load(how: Look<'_>, set: &DatasetConfig) -> Result<(Dataset, Option<Finding>), Finding> {
    let part = how.part;
    let cannot = |what: String, remedy: String| Finding {
        kind: Kind::Dataset,
        what: format!("{part}: {}: {what}", set.name()),
        remedy,
    };
    let kept = "check it with hark data check, or name another folder with --set";
    if let Some(name) = set.unregistered() {
        return Err(cannot(
            format!("no dataset is called `{name}`"),
            format!(
                "get it with hark data pull {name} FOLDER, or name a folder that is there with hark data add {name} FOLDER"
            ),
        ));
    }
    let failed = |error: &CorpusError| cannot(files::explain(error), kept.into());
    let state = set.completeness().map_err(|error| failed(&error))?;
    if state.caption_files.is_empty() || state.found == 0 {
        return Err(cannot(state.advice.join("; "), kept.into()));
    }
    let data = set
        .load(Check::Presence, 1, &no_progress)
        .map_err(|error| failed(&error))?;
    let missing = (state.missing.len() > may_miss(how, set, state.expected)).then(|| {
        let first = state.missing.first().and_then(|left| left.path.as_ref());
        Finding {
            kind: Kind::Recording,
            what: format!(
                "{part}: {}: {} of {} missing{}",
                set.name(),
                state.missing.len(),
                counted(state.expected, "recording"),
                first.map_or_else(String::new, |path| format!("; the first is {}", path.display()))
            ),
            remedy: "get them; hark data check --missing FILE lists them all".into(),
        }
    });
    Ok((data, missing))
}

/// How many recordings of a set may be missing.
fn may_miss(how: Look<'_>, set: &DatasetConfig, expected: usize) -> usize {
    if how.strict {
        return 0;
    }
    // Clips of these disappear from their sources: everybody trains without some.
    let vanish = matches!(
        set,
        DatasetConfig::Audiocaps { .. } | DatasetConfig::Wavcaps { .. }
    ) && how.part != "data.test";
    if vanish {
        how.may_miss.max(expected / MOST_VANISHED)
    } else {
        how.may_miss
    }
}

/// Decodes a recording to its end, and says how long it is.
fn seconds_of(path: &Path) -> Result<f64, String> {
    let told = |error: hark_audio::Error| files::explain(&error);
    let mut decoder = Decoder::open(path).map_err(told)?;
    while decoder.next_block().map_err(told)?.is_some() {}
    if let Some(damage) = decoder.damage() {
        return Err(damage.to_string());
    }
    Ok(decoder.samples_so_far() as f64 / f64::from(decoder.info().rate))
}

/// Clips and captions of a published split.
pub(super) fn published(sets: &[DatasetConfig]) -> Option<(usize, usize)> {
    if sets.is_empty() {
        return None;
    }
    let count = |set: &DatasetConfig| match set {
        DatasetConfig::Clotho { split, .. } => match split.as_str() {
            "development" => Some((3839, 19_195)),
            "validation" | "evaluation" => Some((1045, 5225)),
            _ => None,
        },
        DatasetConfig::Audiocaps { split, .. } => match split.as_str() {
            "train" => Some((49_838, 49_838)),
            "val" => Some((495, 2475)),
            "test" => Some((975, 4875)),
            _ => None,
        },
        DatasetConfig::Wavcaps { sources, .. } if sources.is_empty() => Some((401_195, 401_195)),
        _ => None,
    };
    sets.iter().map(count).try_fold((0, 0), |sum, counts| {
        let counts = counts?;
        Some((sum.0 + counts.0, sum.1 + counts.1))
    })
}

/// How long the clips of a set are, from and to.
fn lengths(recipe: &Recipe, sets: &[DatasetConfig]) -> (f64, f64) {
    match sets.first() {
        Some(DatasetConfig::Clotho { .. }) => (15.0, 30.0),
        Some(DatasetConfig::Audiocaps { .. }) => (10.0, 10.0),
        Some(DatasetConfig::Wavcaps { .. }) => (5.0, 60.0),
        _ => {
            let clip = recipe.audio.as_ref().map(|audio| audio.clip);
            let seconds = match clip {
                Some(hark_encode::card::ClipLength::Fixed { seconds }) => seconds.clamp(1.0, 60.0),
                _ => 10.0,
            };
            (seconds, seconds)
        }
    }
}

/// Generates the clips of a split that the recipe asks for, or clips that stand in for it: `clips` of them, as long as the
/// recordings are. Nothing, with a finding, if that cannot be.
pub(super) fn generated(
    recipe: &Recipe,
    how: Look<'_>,
    clips: usize,
    folder: &Path,
    findings: &mut Vec<Finding>,
) -> Result<Option<Looked>, Error> {
    let clips = clips.clamp(1, soundscape::MAX_CLIPS);
    let asked = recipe.soundscapes.as_ref().filter(|_| how.sets.is_empty());
    let mut config = None;
    if let Some(asked) = asked {
        let root = folder.join(how.part);
        let (split, made) = generate(asked, how, clips, &root)?;
        match made {
            Ok(()) => config = Some(DatasetConfig::Clotho { root, split }),
            Err(error) => {
                let finding = Finding {
                    kind: Kind::Dataset,
                    what: format!("soundscapes: {}", files::explain(&error)),
                    remedy: "fix the recipe's [soundscapes] section; other clips stand in".into(),
                };
                // All three splits say the same.
                if !findings.contains(&finding) {
                    findings.push(finding);
                }
            }
        }
    }
    let stands_in = config.is_none();
    let set = if let Some(set) = config {
        set
    } else {
        let (shortest, longest) = asked.map_or_else(
            || lengths(recipe, how.sets),
            |asked| (asked.seconds, asked.max_seconds.unwrap_or(asked.seconds)),
        );
        let (shortest, longest) = (shortest.clamp(1.0, 60.0), longest.clamp(1.0, 60.0));
        let like = soundscape::Config {
            seconds: shortest,
            max_seconds: (longest > shortest).then_some(longest),
            ..soundscape::Config::like_clotho()
        };
        let root = folder.join(format!("{}-stand-in", how.part));
        let (split, made) = generate(&like, how, clips, &root)?;
        if let Err(error) = made {
            findings.push(Finding {
                kind: Kind::Dataset,
                what: format!("{}: cannot generate clips: {}", how.part, files::explain(&error)),
                remedy: "fix what it names, or provide the dataset; no step was tried".into(),
            });
            return Ok(None);
        }
        DatasetConfig::Clotho { root, split }
    };
    let look_at = Look {
        sets: std::slice::from_ref(&set),
        ..how
    };
    let Some(mut looked) = look(look_at, findings)? else {
        return Ok(None);
    };
    let counts = match asked {
        Some(asked) => {
            let whole = match how.part {
                "data.train" => asked.train,
                "data.validation" => asked.validation,
                _ => asked.test,
            };
            Some((whole, whole * asked.captions))
        }
        None => published(how.sets),
    };
    looked.report.generated = stands_in;
    looked.report.clips = counts.map(|(clips, _)| clips);
    looked.report.captions = counts.map(|(_, captions)| captions);
    Ok(Some(looked))
}

/// Generates one split with so many clips; gives its name, and why it could not be generated if it could not.
fn generate(
    config: &soundscape::Config,
    how: Look<'_>,
    clips: usize,
    folder: &Path,
) -> Result<(String, Result<(), soundscape::Error>), Error> {
    let mut config = config.clone();
    // Only this split is used; a set has all three.
    (config.train, config.validation, config.test) = (1, 1, 1);
    let (split, count) = match how.part {
        "data.train" => ("development", &mut config.train),
        "data.validation" => ("validation", &mut config.validation),
        _ => ("evaluation", &mut config.test),
    };
    *count = clips;
    config.truth = false;
    match soundscape::generate(&config, folder, how.threads, how.progress) {
        Err(soundscape::Error::Cancelled) => Err(Error::Cancelled),
        made => Ok((split.to_owned(), made.map(|_| ()))),
    }
}

/// Writes pairs as a table, which trains as any dataset does.
pub(super) fn table(looked: &Looked, pairs: &[usize], path: PathBuf) -> Result<DatasetConfig, Error> {
    files::replace_file(&path, |file| {
        let mut table = csv::Writer::from_writer(file);
        table.write_record(["path", "caption"])?;
        for &pair in pairs {
            let pair = &looked.data.pairs[pair];
            let path = std::path::absolute(&looked.data.clips[pair.clip].path)?;
            table.write_record([path.to_string_lossy().as_ref(), &pair.caption])?;
        }
        table.flush()
    })?;
    Ok(DatasetConfig::Table {
        file: path,
        audio_folder: None,
        path_column: Some("path".into()),
        caption_columns: vec!["caption".into()],
    })
}

impl Looked {
    /// So many pairs of the sample, different clips first.
    pub(super) fn pairs(&self, wanted: usize) -> Vec<usize> {
        let captions = self.data.captions_by_clip();
        let most = self
            .sample
            .iter()
            .map(|&clip| captions[clip].len())
            .max()
            .unwrap_or(0);
        let rounds = (0..most).flat_map(|nth| {
            let captions = &captions;
            self.sample
                .iter()
                .filter_map(move |&clip| captions[clip].get(nth).copied())
        });
        rounds.take(wanted).collect()
    }

    /// All pairs of the first clips of the sample.
    pub(super) fn pairs_of(&self, clips: usize) -> Vec<usize> {
        let captions = self.data.captions_by_clip();
        self.sample
            .iter()
            .take(clips)
            .flat_map(|&clip| captions[clip].clone())
            .collect()
    }
}
