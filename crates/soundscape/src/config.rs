//! The settings of generated soundscapes, and which are refused.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Split;
use super::kind::SYNTHESISED;
use crate::Error;

/// The most clips of one split.
pub const MAX_CLIPS: usize = 100_000;
/// The most pairs of a caption and a clip of one split whose truth is written: 2^27.
pub const MAX_PAIRS: usize = 1 << 27;

/// A property of an event that captions speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attribute {
    /// Quiet or loud.
    Loudness,
    /// Slow or fast, for kinds that repeat themselves.
    Pace,
    /// Low or high, for kinds with a tone.
    Pitch,
    /// Once, twice, three times or more often, for kinds that come in single sounds.
    Count,
}

impl Attribute {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Loudness, Self::Pace, Self::Pitch, Self::Count];

    /// The name in a recipe.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loudness => "loudness",
            Self::Pace => "pace",
            Self::Pitch => "pitch",
            Self::Count => "count",
        }
    }

    /// The attribute of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|attribute| attribute.name() == name)
    }

    /// The attributes of a list such as `pace,pitch`; `none` for no attributes.
    ///
    /// # Errors
    /// What is wrong with the list, in words.
    pub fn read_list(text: &str) -> Result<Vec<Self>, String> {
        if text == "none" {
            return Ok(Vec::new());
        }
        let mut list = Vec::new();
        for name in text.split(',').map(str::trim) {
            let Some(attribute) = Self::named(name) else {
                let names = Self::ALL.map(Self::name).join(", ");
                return Err(format!(
                    "`{name}` is none of {names}; for no attributes, say none"
                ));
            };
            if list.contains(&attribute) {
                return Err(format!("`{name}` is given twice"));
            }
            list.push(attribute);
        }
        Ok(list)
    }

    /// Attributes as [`Attribute::read_list`] reads them, in the order of [`Attribute::ALL`].
    pub fn list(attributes: &[Self]) -> String {
        let named = Self::ALL
            .into_iter()
            .filter(|attribute| attributes.contains(attribute));
        named.map(Self::name).collect::<Vec<_>>().join(",")
    }
}

/// How the clips are stored, with 16 bits a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AudioFormat {
    /// Compressed without loss.
    Flac,
    /// As it is.
    Wav,
}

impl AudioFormat {
    pub(super) fn extension(self) -> &'static str {
        match self {
            Self::Flac => "flac",
            Self::Wav => "wav",
        }
    }
}

/// Labelled recordings that events are cut from.
///
/// The table is a CSV file with the columns `filename` (or `file_name`) and `category`, and `fold` if there is one;
/// without that column the fold is the part before the first `-` of a name such as `1-100032-A-0.flac`, if all
/// names begin with a number. Recordings of one fold never occur in two splits, with one exception: where no folds
/// are named here and there are fewer than four, validation shares those of training. The rule without named folds:
/// the last fold is for test, of four and more the last but one for validation, the others for training. Where
/// nothing tells folds, every category is parted by a hash of the names, three fifths, one fifth and one fifth.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Recordings {
    /// The folder of the recordings.
    pub folder: PathBuf,
    /// The table, relative to the folder.
    pub table: PathBuf,
    /// The folds of training.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub train_folds: Vec<u32>,
    /// The folds of validation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub validation_folds: Vec<u32>,
    /// The folds of test.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub test_folds: Vec<u32>,
}

/// What to generate. The default is a dataset of medium size: 600, 100 and 200 clips of four seconds, twenty kinds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[allow(clippy::struct_excessive_bools)] // keys of a file that stand beside each other, not states
pub struct Config {
    /// The random seed.
    pub seed: u64,
    /// Clips for training.
    pub train: usize,
    /// Clips for validation.
    pub validation: usize,
    /// Clips for test.
    pub test: usize,
    /// The length of a clip, 1 to 60.
    pub seconds: f64,
    /// The longest clip: with it, lengths are drawn evenly from `seconds` to this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<f64>,
    /// Samples per second, 16,000 to 48,000.
    pub rate: u32,
    /// How many kinds of events there are: the first of the built-in list, or, with recordings, at most this many
    /// categories in alphabetical order.
    pub kinds: usize,
    /// The fewest events of a scene.
    pub min_events: usize,
    /// The most events of a scene, at most 3.
    pub max_events: usize,
    /// What captions may say of an event. Recordings have loudness only.
    pub attributes: Vec<Attribute>,
    /// Captions of a clip.
    pub captions: usize,
    /// How rare words are chosen: 0 mostly the most common wording, 1 every wording equally often.
    pub rarity: f64,
    /// The probability that a clip realises a description that an earlier clip of its split has: how often different
    /// clips deserve the same words.
    pub repeat: f64,
    /// Captions of validation and test use phrases and sentence patterns that those of training never use, and no
    /// text that stands there.
    pub disjoint_wording: bool,
    /// How clips are stored.
    pub format: AudioFormat,
    /// Write the truth of training too. It grows with the square of the clips.
    pub train_truth: bool,
    /// Write the truth at all.
    #[serde(skip_serializing_if = "is_true")]
    pub truth: bool,
    /// Write `clotho_metadata_SPLIT.csv`, with Clotho's columns.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub metadata: bool,
    /// Cut events from recordings instead of synthesising them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recordings: Option<Recordings>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 1,
            train: 600,
            validation: 100,
            test: 200,
            seconds: 4.0,
            max_seconds: None,
            rate: 32_000,
            kinds: 20,
            min_events: 1,
            max_events: 3,
            attributes: Attribute::ALL.to_vec(),
            captions: 5,
            rarity: 0.3,
            repeat: 0.2,
            disjoint_wording: false,
            format: AudioFormat::Flac,
            train_truth: true,
            truth: true,
            metadata: false,
            recordings: None,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_true(value: &bool) -> bool {
    *value
}

impl Config {
    /// A stand-in for Clotho 2.1: as many clips and captions, as long and at the same rate, of all kinds, with metadata and
    /// without truth.
    pub fn like_clotho() -> Self {
        Self {
            train: 3839,
            validation: 1045,
            test: 1045,
            seconds: 15.0,
            max_seconds: Some(30.0),
            rate: 44_100,
            kinds: SYNTHESISED.len(),
            truth: false,
            metadata: true,
            ..Self::default()
        }
    }

    /// Whether a set can be made of this.
    ///
    /// # Errors
    /// [`Error::Setting`], with the first setting that is out of its range.
    pub fn validate(&self) -> Result<(), Error> {
        within("train", self.train, 1, MAX_CLIPS)?;
        within("validation", self.validation, 1, MAX_CLIPS)?;
        within("test", self.test, 1, MAX_CLIPS)?;
        within("seconds", self.seconds, 1.0, 60.0)?;
        within(
            "max-seconds",
            self.max_seconds.unwrap_or(60.0),
            self.seconds,
            60.0,
        )?;
        within("rate", self.rate as usize, 16_000, 48_000)?;
        within("max-events", self.max_events, 1, 3)?;
        within("min-events", self.min_events, 1, self.max_events)?;
        let most_kinds = if self.recordings.is_some() {
            usize::MAX
        } else {
            SYNTHESISED.len()
        };
        within("kinds", self.kinds, self.max_events, most_kinds)?;
        within("captions", self.captions, 1, 20)?;
        within("rarity", self.rarity, 0.0, 1.0)?;
        within("repeat", self.repeat, 0.0, 1.0)?;
        for (name, split) in [
            ("train", Split::Train),
            ("validation", Split::Validation),
            ("test", Split::Test),
        ] {
            let most = (MAX_PAIRS / self.captions).isqrt();
            if self.has_truth(split) && self.clips(split) > most {
                let hint = match split {
                    Split::Train => ", or more with `train-truth` false",
                    _ => "",
                };
                return Err(Error::Setting {
                    name,
                    got: self.clips(split).to_string(),
                    expected: format!("1 to {most} with {} captions a clip{hint}", self.captions),
                });
            }
        }
        Ok(())
    }

    /// The number of clips of a split.
    pub fn clips(&self, split: Split) -> usize {
        match split {
            Split::Train => self.train,
            Split::Validation => self.validation,
            Split::Test => self.test,
        }
    }

    /// Whether the truth of a split is written.
    pub fn has_truth(&self, split: Split) -> bool {
        self.truth && (split != Split::Train || self.train_truth)
    }

    /// The length of a clip whose place between the shortest and the longest is `share`, from 0 to 1.
    pub(super) fn length(&self, share: f64) -> f64 {
        self.max_seconds.map_or(self.seconds, |longest| {
            self.seconds + share * (longest - self.seconds)
        })
    }

    pub(super) fn uses(&self, attribute: Attribute) -> bool {
        self.attributes.contains(&attribute)
    }
}

fn within<T: Copy + PartialOrd + std::fmt::Display>(
    name: &'static str,
    got: T,
    least: T,
    most: T,
) -> Result<(), Error> {
    if (&least..=&most).contains(&&got) {
        return Ok(());
    }
    Err(Error::Setting {
        name,
        got: got.to_string(),
        expected: format!("{least} to {most}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Config)) -> String {
        let mut config = Config::default();
        change(&mut config);
        config.validate().unwrap_err().to_string()
    }

    #[test]
    fn attributes_are_read_and_listed() {
        let all = Attribute::read_list("count,loudness, pitch,pace").unwrap();
        assert_eq!(Attribute::list(&all), "loudness,pace,pitch,count");
        assert!(Attribute::read_list("none").unwrap().is_empty());
        for bad in ["", "volume", "pace,pace", "pace,"] {
            assert!(Attribute::read_list(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_default_is_accepted_and_comes_back_from_json() {
        let config = Config::default();
        config.validate().unwrap();
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<Config>(&text).unwrap(), config);
        assert_eq!(serde_json::from_str::<Config>("{}").unwrap(), config);
        assert!(serde_json::from_str::<Config>(r#"{"sed": 3}"#).is_err());
    }

    #[test]
    fn hostile_settings_are_refused_by_name() {
        assert!(refused(|c| c.train = 0).contains("`train` is 0"));
        assert!(refused(|c| c.test = usize::MAX).contains("`test`"));
        assert!(refused(|c| c.validation = 50_000).contains("`validation`"));
        assert!(refused(|c| c.train = 50_000).contains("train-truth"));
        assert!(refused(|c| c.kinds = 1000).contains("`kinds` is 1000"));
        assert!(refused(|c| c.kinds = 0).contains("`kinds` is 0"));
        assert!(refused(|c| c.kinds = 2).contains("`kinds` is 2"));
        for seconds in [f64::NAN, f64::INFINITY, -4.0, 0.0, 1e300] {
            assert!(refused(|c| c.seconds = seconds).contains("`seconds`"));
        }
        for longest in [f64::NAN, 3.9, 60.1] {
            assert!(refused(|c| c.max_seconds = Some(longest)).contains("`max-seconds`"));
        }
        assert!(refused(|c| c.rate = 0).contains("`rate`"));
        assert!(refused(|c| c.rate = u32::MAX).contains("`rate`"));
        assert!(refused(|c| c.min_events = 0).contains("`min-events`"));
        assert!(refused(|c| c.min_events = 4).contains("`min-events`"));
        assert!(refused(|c| c.max_events = 4).contains("`max-events`"));
        assert!(refused(|c| c.captions = 0).contains("`captions`"));
        assert!(refused(|c| c.captions = usize::MAX).contains("`captions`"));
        for share in [f64::NAN, -0.1, 1.1] {
            assert!(refused(|c| c.rarity = share).contains("`rarity`"));
            assert!(refused(|c| c.repeat = share).contains("`repeat`"));
        }
    }

    #[test]
    fn a_large_training_set_is_accepted_without_its_truth() {
        let config = Config {
            train: MAX_CLIPS,
            train_truth: false,
            ..Config::default()
        };
        config.validate().unwrap();
        Config::like_clotho().validate().unwrap();
    }

    /// The folder of a set is named by a hash of its settings: a key that was added later must not change it.
    #[test]
    fn settings_that_are_not_used_are_not_written() {
        let text = serde_json::to_string(&Config::default()).unwrap();
        for key in ["max-seconds", "\"truth\"", "metadata"] {
            assert!(!text.contains(key), "{text}");
        }
    }
}
