//! Zero-shot classification: the texts that fit a recording best, by any dual encoder.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::path::PathBuf;

use hark_encode::model::EmbedEvent;
use hark_encode::{ClassScore, strongest};
use hark_work::files::explain;
use hark_work::progress::counted;
use serde::Serialize;

use crate::annotations::Annotations;
use crate::error::Error;
use crate::hearing::cosines;
use crate::model::ModelEmbedder;

/// Where the name goes in a template.
const PLACE: &str = "{}";

/// What is to be classified, and how.
#[derive(Debug, Clone, Copy)]
pub struct Classify<'a> {
    /// The recordings.
    pub recordings: &'a [PathBuf],
    /// The texts to choose from.
    pub texts: &'a [String],
    /// Sentences with `{}` in place of a text, such as `the sound of {}`; a text's vector is the mean over them. Empty for
    /// the texts as they are.
    pub templates: &'a [String],
    /// Tags of recordings, of which the first that is a text is the right one. Case does not count, and `_` is a space.
    pub truth: Option<&'a Annotations>,
    /// Texts that are told of a recording.
    pub limit: usize,
}

/// What a classification is doing.
#[derive(Debug, Clone, Copy)]
pub enum ClassifyEvent<'a> {
    /// Embedding texts.
    Texts {
        /// Finished texts.
        done: u64,
        /// All texts.
        total: u64,
    },
    /// Embedding recordings.
    Recordings {
        /// Finished recordings.
        done: usize,
        /// All recordings.
        total: usize,
    },
    /// A part of a recording is embedded.
    Segment {
        /// Its length.
        seconds: f64,
    },
    /// A recording cannot be read.
    Failed {
        /// What is wrong with it, and which it is.
        message: &'a str,
    },
}

/// The result. Serializes to what `hark classify --json` prints.
#[derive(Debug, Default, Serialize)]
pub struct Classified {
    /// Recordings in the order in which they were given, without those that cannot be read.
    pub recordings: Vec<ClassifiedRecording>,
    /// How good the first texts are, where the right ones are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<Accuracy>,
    /// Recordings that cannot be read, and why.
    pub failed: Vec<(String, String)>,
}

/// One recording.
#[derive(Debug, Serialize)]
pub struct ClassifiedRecording {
    /// Its path.
    pub recording: String,
    /// The right text, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truth: Option<String>,
    /// The best texts, the best first.
    pub texts: Vec<ScoredText>,
}

/// A text and how well it fits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoredText {
    /// The text.
    pub text: String,
    /// The cosine of its vector and the recording's.
    pub score: f32,
}

/// Shares of recordings whose right text was found.
#[derive(Debug, Serialize)]
pub struct Accuracy {
    /// Recordings whose right text is known.
    pub recordings: usize,
    /// As the best text.
    pub first: f64,
    /// Among the five best.
    pub among_five: f64,
    /// By guessing.
    pub chance: f64,
    /// As the best text, for the recordings of each text.
    pub by_text: BTreeMap<String, f64>,
}

impl Classified {
    /// That all recordings could be read.
    ///
    /// # Errors
    /// [`Error::Unread`] if some could not.
    pub fn check(&self) -> Result<(), Error> {
        let (failed, all) = (self.failed.len(), self.failed.len() + self.recordings.len());
        if failed == 0 {
            return Ok(());
        }
        Err(Error::Unread { failed, all })
    }
}

impl std::fmt::Display for Accuracy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "accuracy {:.3} (chance {:.3}), right among the best five {:.3}, of {} with a known label",
            self.first,
            self.chance,
            self.among_five,
            counted(self.recordings, "recording")
        )
    }
}

/// Finds the best texts for recordings. Recordings that cannot be read are told, and the others go on.
///
/// # Errors
/// [`Error::BadTemplate`], [`Error::UnknownTruth`], if the model fails, or [`Error::Cancelled`] if `on_event` asks for it.
pub fn classify(
    embedder: &ModelEmbedder,
    asked: &Classify<'_>,
    on_event: &(dyn Fn(ClassifyEvent<'_>) -> ControlFlow<()> + Sync),
) -> Result<Classified, Error> {
    let truths = truths(asked)?;
    // A model without an audio tower fails before thousands of texts are embedded.
    let encoder = embedder.audio_encoder()?;
    let vectors = text_vectors(embedder, asked, on_event)?;
    let mut best: Vec<Option<Vec<ClassScore>>> = vec![None; asked.recordings.len()];
    let mut failed = Vec::new();
    let mut done = 0;
    encoder.embed_windows(
        asked.recordings,
        encoder.segment_seconds(),
        &mut |event| match event {
            EmbedEvent::Segment { seconds } => on_event(ClassifyEvent::Segment { seconds }),
            EmbedEvent::Recording { file, result } => {
                done += 1;
                match result {
                    Ok(clip) => {
                        let scores = cosines(&vectors, &clip.vector);
                        best[file] = Some(strongest(&scores, asked.limit.max(5), f32::NEG_INFINITY));
                    }
                    Err(error) => {
                        let message = explain(&error);
                        let told = on_event(ClassifyEvent::Failed { message: &message });
                        failed.push((asked.recordings[file].display().to_string(), message));
                        if told.is_break() {
                            return told;
                        }
                    }
                }
                on_event(ClassifyEvent::Recordings {
                    done,
                    total: asked.recordings.len(),
                })
            }
        },
    )?;
    Ok(report(asked, &truths, best, failed))
}

/// The place of the right text of each recording among the texts.
fn truths(asked: &Classify<'_>) -> Result<Vec<Option<usize>>, Error> {
    let places: HashMap<String, usize> = (asked.texts.iter().enumerate())
        .map(|(place, text)| (plain(text), place))
        .collect();
    let place = |path: &PathBuf| {
        let path = path.display().to_string();
        let tags = asked.truth.and_then(|truth| truth.find(&path));
        let tags = tags.map(|notes| &notes.tags[..]).unwrap_or_default();
        match tags.iter().find_map(|tag| places.get(&plain(tag))) {
            None if !tags.is_empty() => Err(Error::UnknownTruth {
                truth: tags.join(", "),
                recording: path,
            }),
            place => Ok(place.copied()),
        }
    };
    asked.recordings.iter().map(place).collect()
}

/// A name as names are compared.
fn plain(name: &str) -> String {
    name.to_lowercase().replace('_', " ")
}

/// A vector of length 1 for each text: the mean over the templates.
fn text_vectors(
    embedder: &ModelEmbedder,
    asked: &Classify<'_>,
    on_event: &(dyn Fn(ClassifyEvent<'_>) -> ControlFlow<()> + Sync),
) -> Result<Vec<Vec<f32>>, Error> {
    if let Some(template) = asked.templates.iter().find(|template| !template.contains(PLACE)) {
        return Err(Error::BadTemplate {
            template: template.clone(),
        });
    }
    let as_they_are = [PLACE.to_owned()];
    let templates = if asked.templates.is_empty() {
        &as_they_are
    } else {
        asked.templates
    };
    let encoder = embedder.text_encoder()?;
    let total = (templates.len() * asked.texts.len()) as u64;
    let mut sums = vec![vec![0.0; encoder.dim()]; asked.texts.len()];
    for (nth, template) in templates.iter().enumerate() {
        let filled: Vec<String> = (asked.texts.iter())
            .map(|text| template.replace(PLACE, &text.replace('_', " ")))
            .collect();
        let filled: Vec<&str> = filled.iter().map(String::as_str).collect();
        let before = (nth * asked.texts.len()) as u64;
        let embedded = encoder.embed(&filled, &|done, _| {
            on_event(ClassifyEvent::Texts {
                done: before + done,
                total,
            })
        })?;
        for (sum, row) in sums.iter_mut().zip(embedded.rows()) {
            for (sum, x) in sum.iter_mut().zip(row) {
                *sum += x;
            }
        }
    }
    for sum in &mut sums {
        let norm = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
        for x in sum {
            *x /= norm.max(f32::MIN_POSITIVE);
        }
    }
    Ok(sums)
}

fn report(
    asked: &Classify<'_>,
    truths: &[Option<usize>],
    best: Vec<Option<Vec<ClassScore>>>,
    failed: Vec<(String, String)>,
) -> Classified {
    let mut recordings = Vec::new();
    let (mut known, mut first, mut among_five) = (0, 0, 0);
    let mut by_text: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for ((path, truth), best) in asked.recordings.iter().zip(truths).zip(best) {
        let Some(best) = best else { continue };
        if let Some(truth) = *truth {
            let place = best.iter().position(|text| text.class == truth);
            known += 1;
            among_five += usize::from(place.is_some_and(|place| place < 5));
            first += usize::from(place == Some(0));
            let (right, all) = by_text.entry(asked.texts[truth].clone()).or_default();
            *right += usize::from(place == Some(0));
            *all += 1;
        }
        recordings.push(ClassifiedRecording {
            recording: path.display().to_string(),
            truth: truth.map(|truth| asked.texts[truth].clone()),
            texts: (best.iter().take(asked.limit))
                .map(|text| ScoredText {
                    text: asked.texts[text.class].clone(),
                    score: text.score,
                })
                .collect(),
        });
    }
    let share = |count: usize, all: usize| count as f64 / all as f64;
    Classified {
        recordings,
        accuracy: (known > 0).then(|| Accuracy {
            recordings: known,
            first: share(first, known),
            among_five: share(among_five, known),
            chance: 1.0 / asked.texts.len() as f64,
            by_text: (by_text.into_iter())
                .map(|(text, (right, all))| (text, share(right, all)))
                .collect(),
        }),
        failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accuracy_counts_recordings_whose_text_is_known() {
        let recordings = ["a.wav", "b.wav", "c.wav", "d.wav"].map(PathBuf::from);
        let texts = ["rain", "guard dog", "cat"].map(str::to_owned);
        let table = |text: &str| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("truth.csv");
            fs_err::write(&path, text).unwrap();
            let mut annotations = Annotations::default();
            annotations.read_tags(&path, &[]).unwrap();
            annotations
        };
        let truth = table("file,category\na.wav,rain\nb.wav,guard_dog\nd.wav,Guard_Dog\n");
        let asked = Classify {
            recordings: &recordings,
            texts: &texts,
            templates: &[],
            truth: Some(&truth),
            limit: 1,
        };
        let truths = truths(&asked).unwrap();
        assert_eq!(truths, [Some(0), Some(1), None, Some(1)]);
        let ranked = |classes: [usize; 3]| {
            let scored = classes.map(|class| ClassScore { class, score: 0.5 });
            Some(scored.to_vec())
        };
        let best = vec![ranked([0, 1, 2]), ranked([2, 1, 0]), ranked([0, 1, 2]), None];
        let report = report(&asked, &truths, best, Vec::new());
        assert_eq!(report.recordings.len(), 3);
        assert_eq!(report.recordings[1].texts[0].text, "cat");
        let accuracy = report.accuracy.unwrap();
        assert_eq!(accuracy.recordings, 2);
        assert!((accuracy.first - 0.5).abs() < 1e-9 && (accuracy.among_five - 1.0).abs() < 1e-9);
        assert!(accuracy.by_text["guard dog"].abs() < 1e-9);

        let wrong = table("file,category\na.wav,snow\n");
        let error = super::truths(&Classify {
            truth: Some(&wrong),
            ..asked
        });
        let error = error.unwrap_err().to_string();
        assert!(error.contains("snow") && error.contains("a.wav"), "{error}");
    }
}
