//! A model's card: everything about a model but its numbers, as `card.json` beside `model.safetensors`.
//!
//! Unknown keys are errors, so that a model of a later version is refused instead of misread.

use std::collections::BTreeMap;
use std::path::Path;

use hark_audio::MelConfig;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::dual::SideConfig;
use crate::hugging_face::read_file;
use crate::towers::{AudioConfig, TextConfig};

/// The version of the form that this program writes, and the only one that it reads.
pub const VERSION: u32 = 1;

/// The card.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Card {
    /// Version of the form, [`VERSION`].
    pub version: u32,
    /// The program that wrote it.
    pub written_by: String,
    /// How recordings become vectors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audio: Option<AudioCard>,
    /// How texts become vectors, by a tower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<TextCard>,
    /// How texts become vectors, by a sentence encoder of its own folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentence: Option<SentenceCard>,
    /// Files that the model was made from.
    #[serde(default)]
    pub origin: Vec<Origin>,
    /// What it was trained on, as far as it is known.
    #[serde(default)]
    pub training_data: Vec<String>,
    /// Measured results, by name.
    #[serde(default)]
    pub metrics: BTreeMap<String, f64>,
    /// Terms under which the model may be used; none if they are not stated.
    #[serde(default)]
    pub licence: Option<String>,
    /// What a user of the model should know of how it was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The audio side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct AudioCard {
    /// Tower and projection.
    pub side: SideConfig<AudioConfig>,
    /// Waveform to log-mel.
    pub front_end: MelConfig,
    /// A clip is cut into segments of this length.
    pub segment_seconds: f64,
    /// Which of its segments count.
    pub clip: ClipLength,
    /// Names of the tower's classes, where its output begins with their probabilities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

impl ClipLength {
    /// How many samples of a clip count, where that is fixed; at least 1.
    pub fn samples(self, rate: u32) -> Option<usize> {
        match self {
            Self::Full | Self::Begun | Self::Unpadded => None,
            Self::Fixed { seconds } => Some(((seconds * f64::from(rate)).round() as usize).max(1)),
        }
    }
}

/// Which segments of a clip are averaged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", tag = "length")]
pub enum ClipLength {
    /// Those that hold some of its sound. The last one is padded with silence; one that holds less than a twentieth of a
    /// segment does not count beside others, as decoders leave clips of 10.03 s where 10 were meant.
    #[serde(rename = "true")]
    Full,
    /// The same segments, and the last one counts however little of the clip's sound it holds, as in the system of the 2024
    /// challenge's winner.
    #[serde(rename = "begun")]
    Begun,
    /// The same segments, and the last one is as long as its sound: for networks that hear any length. Segments count by
    /// their length.
    Unpadded,
    /// Those of a fixed length: shorter clips are padded with silence, which counts, and longer ones cropped.
    #[serde(rename = "padded")]
    Fixed {
        /// The length.
        seconds: f64,
    },
}

/// `full`, or a number of seconds.
impl std::str::FromStr for ClipLength {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "full" {
            return Ok(Self::Full);
        }
        match text.parse::<f64>() {
            Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Self::Fixed { seconds }),
            _ => Err("expected `full`, or a number of seconds from 0.1 to 3600".to_owned()),
        }
    }
}

impl std::fmt::Display for ClipLength {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full => f.write_str("true length"),
            Self::Begun => f.write_str("true length, every segment begun"),
            Self::Unpadded => f.write_str("true length, no padding"),
            Self::Fixed { seconds } => write!(f, "padded or cropped to {seconds} s"),
        }
    }
}

/// The text side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TextCard {
    /// Tower and projection.
    pub side: SideConfig<TextConfig>,
    /// At how many tokens a text is cut.
    pub max_tokens: usize,
    /// Whether ASCII punctuation is taken out of a text.
    #[serde(default)]
    pub strip_punctuation: bool,
    /// Whether a text is turned to lower case.
    #[serde(default)]
    pub lower_case: bool,
}

/// The text side of a model whose texts a sentence encoder embeds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SentenceCard {
    /// Subtracted from the encoder's vectors; empty for nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub centre: Vec<f32>,
}

impl TextCard {
    /// The text as the tokenizer sees it.
    pub fn prepare(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if self.strip_punctuation {
            text.retain(|letter| !letter.is_ascii_punctuation());
        }
        if self.lower_case {
            text = text.to_lowercase();
        }
        // Last: a full stop that stood alone leaves a blank, which would be a token.
        text.trim().to_owned()
    }
}

/// A file that a model was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Origin {
    /// Its name, without the folder.
    pub file: String,
    /// Its SHA-256.
    pub sha256: String,
    /// How its tensors were named.
    pub layout: String,
}

impl Card {
    /// Reads a card.
    ///
    /// # Errors
    /// If it is missing, malformed, or of another version.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Self::parse(&read_file(path)?, path)
    }

    /// Reads a card from its text. `path` is what errors name.
    pub(crate) fn parse(text: &[u8], path: &Path) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let json = |source| Error::Json {
            path: path.to_owned(),
            source,
        };
        // The version first: a later card has fields that this program does not know, and the error should say why.
        let Version { version } = serde_json::from_slice(text).map_err(json)?;
        if version != VERSION {
            return Err(Error::Unsupported {
                path: path.to_owned(),
                what: format!("a card of version {version}"),
                supported: "version 1",
            });
        }
        let card: Self = serde_json::from_slice(text).map_err(json)?;
        card.check().map_err(|what| Error::Config {
            path: path.to_owned(),
            what,
        })?;
        Ok(card)
    }

    /// That the card says nothing impossible.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.audio.is_none() && self.text.is_none() && self.sentence.is_none() {
            return Err("neither an audio nor a text side".to_owned());
        }
        if self.text.is_some() && self.sentence.is_some() {
            return Err("two text sides".to_owned());
        }
        if let Some(audio) = &self.audio {
            // An hour is far above any model, and bounds what a segment takes in memory.
            let within = |seconds: f64| (0.05..=3600.0).contains(&seconds);
            if !within(audio.segment_seconds) {
                return Err(format!("segments of {} s", audio.segment_seconds));
            }
            if let ClipLength::Fixed { seconds } = audio.clip
                && !within(seconds)
            {
                return Err(format!("clips of {seconds} s"));
            }
        }
        if let Some(text) = &self.text
            && !(3..=1 << 20).contains(&text.max_tokens)
        {
            return Err(format!("texts of at most {} tokens", text.max_tokens));
        }
        if let (Some(audio), Some(text)) = (&self.audio, &self.text) {
            let (a, t) = (audio.side.projection.last(), text.side.projection.last());
            if a != t {
                return Err(format!(
                    "the projections end in different widths: audio {a:?}, text {t:?}"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clip_lengths_are_written_as_cards_have_always_had_them() {
        for (clip, json) in [
            (ClipLength::Full, r#"{"length":"true"}"#),
            (ClipLength::Begun, r#"{"length":"begun"}"#),
            (ClipLength::Unpadded, r#"{"length":"unpadded"}"#),
            (
                ClipLength::Fixed { seconds: 30.0 },
                r#"{"length":"padded","seconds":30.0}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&clip).unwrap(), json);
            assert_eq!(serde_json::from_str::<ClipLength>(json).unwrap(), clip);
        }
    }
}
