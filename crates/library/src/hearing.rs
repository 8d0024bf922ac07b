//! What a model hears in recordings: names of classes of its tagger, or words of the library's vocabulary.
//!
//! Of each window the strongest names are kept. Words of a vocabulary are compared with the window's vector, so that a
//! library can get another vocabulary without decoding a recording again.

use std::collections::HashMap;

use hark_catalogue::Heard;
use hark_encode::model::ClipVector;
use hark_encode::{ClassScore, strongest};

use crate::error::Error;
use crate::model::ModelEmbedder;

/// Names that are kept of a recording.
const MAX_NAMES: usize = 30;
/// Words of a vocabulary that are kept of a window, and how near each is at least to the nearest.
const MAX_WORDS: usize = 3;
const NEAR: f32 = 0.9;

/// The words of a library, with their vectors.
pub(crate) struct Vocabulary {
    words: Vec<String>,
    vectors: Vec<Vec<f32>>,
}

impl Vocabulary {
    pub(crate) fn new(words: &[String], embedder: &ModelEmbedder) -> Result<Self, Error> {
        let texts: Vec<&str> = words.iter().map(String::as_str).collect();
        Ok(Self {
            vectors: embedder.embed_text(&texts)?,
            words: words.to_vec(),
        })
    }

    /// What is heard in windows, given where each begins and its vector.
    pub(crate) fn heard<'a>(&self, windows: impl Iterator<Item = (f64, &'a [f32])>) -> Vec<Heard> {
        gather(
            &self.words,
            windows.map(|(start, vector)| (start, self.nearest(vector))),
        )
    }

    fn nearest(&self, vector: &[f32]) -> Vec<ClassScore> {
        let scores = cosines(&self.vectors, vector);
        let best = scores.iter().copied().fold(0.0, f32::max);
        // Words that point away from the sound are no names for it.
        strongest(&scores, MAX_WORDS, (best * NEAR).max(f32::MIN_POSITIVE))
    }
}

/// What is heard in a recording that was just embedded: words of a vocabulary, or else classes of the model.
pub(crate) fn heard(clip: &ClipVector, vocabulary: Option<&Vocabulary>, labels: &[String]) -> Vec<Heard> {
    let windows = clip
        .windows
        .iter()
        .map(|window| (window.start, &window.vector[..], &window.classes));
    // A recording of one window has none beside the whole.
    let whole = (clip.windows.is_empty()).then_some((0.0, &clip.vector[..], &clip.classes));
    let windows = windows.chain(whole);
    match vocabulary {
        Some(vocabulary) => vocabulary.heard(windows.map(|(start, vector, _)| (start, vector))),
        None => gather(
            labels,
            windows.map(|(start, _, classes)| (start, classes.clone())),
        ),
    }
}

/// The cosine of each text's vector and a sound's; all have length 1.
pub(crate) fn cosines(texts: &[Vec<f32>], sound: &[f32]) -> Vec<f32> {
    let cosine = |text: &Vec<f32>| text.iter().zip(sound).map(|(a, b)| a * b).sum();
    texts.iter().map(cosine).collect()
}

/// One entry a name, the strongest first.
fn gather(names: &[String], windows: impl Iterator<Item = (f64, Vec<ClassScore>)>) -> Vec<Heard> {
    let mut heard: HashMap<usize, Heard> = HashMap::new();
    for (start, classes) in windows {
        for ClassScore { class, score } in classes {
            let one = heard.entry(class).or_insert_with(|| Heard {
                name: names[class].to_lowercase(),
                score: 0.0,
                starts: Vec::new(),
            });
            // More digits would say nothing, and take room in every answer.
            one.score = one.score.max((score * 1000.0).round() / 1000.0);
            one.starts.push(start);
        }
    }
    let mut heard: Vec<Heard> = heard.into_values().collect();
    heard.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.name.cmp(&b.name)));
    heard.truncate(MAX_NAMES);
    heard
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(heard: &[Heard]) -> Vec<(&str, f32, &[f64])> {
        heard
            .iter()
            .map(|heard| (heard.name.as_str(), heard.score, &heard.starts[..]))
            .collect()
    }

    #[test]
    fn a_name_has_its_best_score_and_all_its_windows() {
        let labels = ["Dog".to_owned(), "Rain".to_owned()];
        let score = |class, score| ClassScore { class, score };
        let windows = vec![
            (0.0, vec![score(1, 0.30004)]),
            (5.0, vec![score(0, 0.9), score(1, 0.5)]),
            (10.0, Vec::new()),
        ];
        let heard = gather(&labels, windows.into_iter());
        assert_eq!(
            names(&heard),
            [("dog", 0.9, &[5.0][..]), ("rain", 0.5, &[0.0, 5.0][..])]
        );
    }

    #[test]
    fn words_are_the_nearest_ones() {
        let vocabulary = Vocabulary {
            words: ["rain", "shower", "dog", "cat"].map(str::to_owned).to_vec(),
            vectors: vec![vec![1.0, 0.0], vec![0.96, 0.28], vec![0.0, 1.0], vec![-1.0, 0.0]],
        };
        let heard = vocabulary.heard([(0.0, &[1.0, 0.0][..]), (5.0, &[0.0, -1.0])].into_iter());
        assert_eq!(
            names(&heard),
            [("rain", 1.0, &[0.0][..]), ("shower", 0.96, &[0.0][..])]
        );
    }
}
