//! A seed in, recordings with captions and their ground truth out.
//!
//! In: a [`Config`]. Out: a folder in Clotho's layout, which any system can be trained and tested on:
//!
//! | file | content |
//! |---|---|
//! | `clotho_captions_{development,validation,evaluation}.csv` | `file_name,caption_1,...`, one row per clip |
//! | `{development,validation,evaluation}/NAME.flac` | the clips, one channel of 16 bits |
//! | `scenes_SPLIT.jsonl` | the events of every clip (kind, attributes, start, end, level) and what each caption says |
//! | `truth_SPLIT.csv` | `file_name,caption,candidate,relevance`: the relevance of every clip to every caption, if above 0 |
//! | `clotho_metadata_SPLIT.csv` | if asked for: Clotho's columns, with the kinds as keywords |
//! | `soundscape.json` | the settings and their hash; written last |
//!
//! A scene is one to three events of different kinds, synthesised or cut from labelled recordings, in one of eight
//! orders in time, each event with a loudness and, by its kind, a pace, a pitch or a count. A caption describes a part
//! of it. The relevance of a caption to a clip is the share of what the caption says that is true of the clip: every
//! mentioned event has weight 2 for its kind and 1 for each attribute that is said of it, every relation in time
//! that is said weight 1, and
//!
//! ```text
//!              sum over said events e in the clip of (2 + sum over said attributes a of agree(a, e)) + held relations
//! relevance = ----------------------------------------------------------------------------------------------------
//!              sum over said events e of (2 + number of said attributes of e)                        + said relations
//! ```
//!
//! where an attribute agrees by its distance on its scale: `1 - |said - true| / length`, with quiet, neither and loud
//! (slow, neither and fast; low, neither and high) at 0, 1, 2 and the counts once, twice, three times and more at 0,
//! 1, 2, 3. A relation (before, after, overlap) holds if both its events are in the clip in that order. So
//! relevance is 1 exactly if all that is said is true, 0 exactly if no kind that is said sounds, and a clip's own
//! captions have 1. "And" alone claims that both events occur, not in which order.
//!
//! No description of a scene occurs in two splits. The same settings give the same bytes on any number of threads
//! (on one machine and build: sines and exponentials come from the system's library).
//!
//! Refused: settings out of range, a folder that holds something else, recordings that cannot serve every split. A
//! partial folder is completed, a complete one left as it is.

mod caption;
mod config;
mod error;
mod folder;
mod kind;
mod recordings;
mod relevance;
mod scene;
mod set;
mod signal;
mod sounds;
mod truth;

use std::path::{Path, PathBuf};

use hark_work::files::hex;
use hark_work::progress::{Progress, report};
use hark_work::random::{Random, key};
use rayon::prelude::*;
use serde::Serialize;
use sha2::{Digest, Sha256};

pub use config::{Attribute, AudioFormat, Config, MAX_CLIPS, MAX_PAIRS, Recordings};
pub use relevance::SaidRelation;
pub use scene::{Attributes, Count, Loudness, Pace, Pitch, Relation};
pub use truth::Truth;

pub use error::Error;
use folder::{Folder, GENERATOR, Manifest};
use kind::Kind;
use recordings::Library;
use scene::{Plan, Sounding};
use set::{Clip, Scenes};

/// A part of the dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Split {
    /// `development` on disk.
    Train,
    /// `validation` on disk.
    Validation,
    /// `evaluation` on disk.
    Test,
}

impl Split {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Train, Self::Validation, Self::Test];

    /// The name on disk, which is Clotho's.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "development",
            Self::Validation => "validation",
            Self::Test => "evaluation",
        }
    }

    /// The name of the file of captions.
    pub fn captions_file(self) -> String {
        format!("clotho_captions_{}.csv", self.name())
    }

    /// The name of the file of relevances.
    pub fn truth_file(self) -> String {
        format!("truth_{}.csv", self.name())
    }

    /// The name of the file of metadata.
    pub fn metadata_file(self) -> String {
        format!("clotho_metadata_{}.csv", self.name())
    }

    /// The name of the file of scenes.
    pub fn scenes_file(self) -> String {
        format!("scenes_{}.jsonl", self.name())
    }
}

/// What [`generate`] has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// Clips of each split, in the order of [`Split::ALL`].
    pub clips: [usize; 3],
    /// Captions of each split.
    pub captions: [usize; 3],
    /// The folder was complete before.
    pub reused: bool,
    /// Clips that this call rendered; the others were there.
    pub rendered: usize,
}

/// More threads than this never help.
const MAX_THREADS: usize = 256;

/// What every clip of a set is made with.
struct Studio<'a> {
    config: &'a Config,
    kinds: Vec<Kind>,
    library: Option<Library>,
}

/// Random numbers of different purposes must not be the same numbers.
#[derive(Clone, Copy)]
enum Purpose {
    Plan = 1,
    Words = 2,
    Sound = 3,
    Floor = 4,
    Length = 5,
}

impl Studio<'_> {
    fn random(&self, split: Split, clip: usize, purpose: Purpose, event: usize) -> Random {
        Random::new(key(&[
            self.config.seed,
            split as u64,
            clip as u64,
            purpose as u64,
            event as u64,
        ]))
    }
}

/// The folder below `place` that belongs to these settings: different settings never share one.
///
/// # Errors
/// [`Error::Settings`] if a path in the settings is not UTF-8.
pub fn folder_for(config: &Config, place: &Path) -> Result<PathBuf, Error> {
    let settings = serde_json::to_vec(config).map_err(Error::Settings)?;
    Ok(place.join(&hex(&Sha256::digest(&settings))[..16]))
}

/// The bytes of all files of a generated dataset.
///
/// # Errors
/// [`Error::Open`] if a folder cannot be listed.
pub fn size_on_disk(folder: &Path) -> Result<u64, Error> {
    let mut bytes = 0;
    let below = Split::ALL.map(|split| folder.join(split.name()));
    for folder in below.iter().map(PathBuf::as_path).chain([folder]) {
        for entry in fs_err::read_dir(folder).map_err(Error::Open)? {
            let metadata = entry.and_then(|entry| entry.metadata()).map_err(Error::Open)?;
            if metadata.is_file() {
                bytes += metadata.len();
            }
        }
    }
    Ok(bytes)
}

/// Generates the dataset in a folder, on `threads` threads (0: one for each core).
///
/// `progress` counts clips. If it cancels, the next call completes the folder; a complete folder is left as it is.
///
/// ```
/// use hark_soundscape::{Config, Split, Truth, generate};
/// use hark_work::progress::no_progress;
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// let config = Config { train: 4, validation: 2, test: 2, seconds: 1.0, ..Config::default() };
/// let generated = generate(&config, folder, 1, &no_progress)?;
/// assert_eq!(generated.captions, [20, 10, 10]);
/// let truth = Truth::read(folder, Split::Test)?;
/// assert_eq!(truth.relevance(7, 1), 1.0); // The third caption of the second clip, and that clip.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Setting`] and [`Error::TooFewScenes`] for settings that make no set,
/// [`Error::OtherSettings`] and [`Error::FolderNotEmpty`] for the folder, [`Error::Write`], [`Error::Cancelled`],
/// and, with recordings, what can be wrong with their table, [`Error::NoRecording`], [`Error::Recording`] and
/// [`Error::SilentRecording`].
pub fn generate(
    config: &Config,
    folder: &Path,
    threads: usize,
    progress: Progress<'_>,
) -> Result<Generated, Error> {
    config.validate()?;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.min(MAX_THREADS))
        .build()
        .map_err(Error::Threads)?;
    let mut studio = Studio::open(config)?;
    let manifest = Manifest::new(config, studio.hash()?);
    let folder = Folder::look(folder, &manifest)?;
    let mut made = Generated {
        clips: Split::ALL.map(|split| config.clips(split)),
        captions: Split::ALL.map(|split| config.clips(split) * config.captions),
        reused: folder.is_whole() && file_names(config).all(|name| folder.has(&name)),
        rendered: 0,
    };
    if made.reused {
        return Ok(made);
    }
    if let Some(library) = &mut studio.library {
        pool.install(|| library.measure())?;
    }
    let scenes = Scenes::draw(&studio)?;
    folder.begin(&manifest)?;
    let total = scenes.clips().count();
    let missing: Vec<(Split, &Clip)> = scenes
        .clips()
        .filter(|(split, clip)| !folder.has(&clip_path(*split, &clip.name)))
        .collect();
    for split in Split::ALL {
        folder.create_below(split.name())?;
    }
    report(progress, total - missing.len(), total)?;
    // In groups, because only one thread may report; large enough that threads seldom wait for each other.
    for group in missing.chunks(8 * pool.current_num_threads()) {
        pool.install(|| {
            group
                .par_iter()
                .try_for_each(|(split, clip)| studio.write_clip(*split, clip, &folder))
        })?;
        made.rendered += group.len();
        report(progress, total - missing.len() + made.rendered, total)?;
    }
    for split in Split::ALL {
        scenes.write_tables(split, &studio, &folder)?;
    }
    folder.finish(&manifest)?;
    Ok(made)
}

fn clip_name(config: &Config, split: Split, number: usize) -> String {
    format!("{}_{number:05}.{}", split.name(), config.format.extension())
}

/// The path of a clip within the folder.
fn clip_path(split: Split, name: &str) -> String {
    format!("{}/{name}", split.name())
}

/// All files of a dataset except its manifest.
fn file_names(config: &Config) -> impl Iterator<Item = String> {
    Split::ALL.into_iter().flat_map(move |split| {
        let tables = [split.captions_file(), split.scenes_file()];
        let truth = config.has_truth(split).then(|| split.truth_file());
        let metadata = config.metadata.then(|| split.metadata_file());
        let clips =
            (0..config.clips(split)).map(move |number| clip_path(split, &clip_name(config, split, number)));
        tables.into_iter().chain(truth).chain(metadata).chain(clips)
    })
}

/// What a dataset depends on: two datasets with the same hash are the same.
#[derive(Serialize)]
struct Identity<'a> {
    generator: u32,
    config: Config,
    recordings: Option<&'a str>,
}

impl<'a> Studio<'a> {
    fn open(config: &'a Config) -> Result<Self, Error> {
        let (kinds, library) = match &config.recordings {
            None => (kind::synthesised(config.kinds), None),
            Some(wish) => {
                let (library, categories) = Library::read(wish, config)?;
                let kinds = categories.iter().map(|name| kind::recorded(name)).collect();
                (kinds, Some(library))
            }
        };
        Ok(Self {
            config,
            kinds,
            library,
        })
    }

    /// Recordings count by their names and sizes, not by where they are.
    fn hash(&self) -> Result<String, Error> {
        let mut config = self.config.clone();
        if let Some(recordings) = &mut config.recordings {
            recordings.folder = "".into();
        }
        let identity = Identity {
            generator: GENERATOR,
            config,
            recordings: self.library.as_ref().map(|library| library.identity.as_str()),
        };
        let identity = serde_json::to_vec(&identity).map_err(Error::Settings)?;
        Ok(hex(&Sha256::digest(&identity)))
    }

    fn write_clip(&self, split: Split, clip: &Clip, folder: &Folder) -> Result<(), Error> {
        let samples = self.samples(split, clip)?;
        let rate = self.config.rate;
        let bytes = match self.config.format {
            // A rate that was accepted can be written: wav is here for the compiler, not for any clip.
            AudioFormat::Flac => {
                hark_audio::encode_flac(&samples, rate).unwrap_or_else(|| wav(&samples, rate))
            }
            AudioFormat::Wav => wav(&samples, rate),
        };
        folder.write(&clip_path(split, &clip.name), |out| out.write_all(&bytes))
    }

    /// The sound of a clip.
    fn samples(&self, split: Split, clip: &Clip) -> Result<Vec<i16>, Error> {
        let rate = f64::from(self.config.rate);
        let length = (clip.seconds * rate).round() as usize;
        let Plan { events, floor } = &clip.plan;
        let mut random = self.random(split, clip.number, Purpose::Floor, 0);
        let mut mix = signal::noise(length, &mut random);
        signal::low_pass(&mut mix, rate, scene::between(&mut random, (1500.0, 9000.0)));
        let effective = (mix.iter().map(|x| x * x).sum::<f64>() / length.max(1) as f64).sqrt();
        let gain = 10_f64.powf(floor / 20.0) / effective.max(1e-9);
        for sample in &mut mix {
            *sample *= gain;
        }
        for (number, (event, described)) in events.iter().zip(&clip.description.events).enumerate() {
            let random = self.random(split, clip.number, Purpose::Sound, number);
            let samples = self.event(event, described.kind, random)?;
            signal::add(
                &mut mix,
                rate,
                event.start,
                &samples,
                10_f64.powf(event.level / 20.0),
            );
        }
        // Levels are planned to stay below full scale; the bound only keeps a rounding from wrapping.
        Ok(mix
            .iter()
            .map(|sample| (sample * 32_767.0).round().clamp(-32_767.0, 32_767.0) as i16)
            .collect())
    }

    fn event(&self, event: &Sounding, kind: usize, random: Random) -> Result<Vec<f64>, Error> {
        let synthesis = self.kinds.get(kind).and_then(|kind| kind.synthesis);
        match (synthesis, event.cut, &self.library) {
            (Some(synthesis), ..) => Ok(sounds::render(synthesis.sound, event, self.config.rate, random)),
            (None, Some((recording, from)), Some(library)) => {
                let rate = f64::from(self.config.rate);
                let seconds = event.end - event.start;
                let mut samples = library.cut(recording, from, (seconds * rate).round() as usize)?;
                signal::shape(&mut samples, rate, |time| signal::hill(time, seconds, 0.01));
                signal::to_full_scale(&mut samples);
                Ok(samples)
            }
            _ => Ok(Vec::new()),
        }
    }
}

/// A WAV file of one channel with 16 bits a sample.
fn wav(samples: &[i16], rate: u32) -> Vec<u8> {
    let bytes = 2 * samples.len() as u32;
    let mut out = Vec::with_capacity(44 + bytes as usize);
    out.extend_from_slice(b"RIFF");
    out.extend_from_slice(&(36 + bytes).to_le_bytes());
    out.extend_from_slice(b"WAVEfmt ");
    out.extend_from_slice(&16_u32.to_le_bytes());
    out.extend_from_slice(&1_u16.to_le_bytes()); // Plain samples.
    out.extend_from_slice(&1_u16.to_le_bytes()); // One channel.
    out.extend_from_slice(&rate.to_le_bytes());
    out.extend_from_slice(&(2 * rate).to_le_bytes());
    out.extend_from_slice(&2_u16.to_le_bytes());
    out.extend_from_slice(&16_u16.to_le_bytes());
    out.extend_from_slice(b"data");
    out.extend_from_slice(&bytes.to_le_bytes());
    for sample in samples {
        out.extend_from_slice(&sample.to_le_bytes());
    }
    out
}

#[cfg(test)]
mod tests;
