//! `result.json`: what a study keeps of one training. The file exists exactly if the training is done and scored.

use std::path::Path;

use hark_evaluate::DirectionMetrics;
use hark_work::files;
use serde::{Deserialize, Deserializer, Serialize};

use crate::Error;

/// The file in a run's folder.
pub const RESULT: &str = "result.json";
pub(crate) const FORMAT: &str = "hark result 1";

/// What is kept of one training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Version of the file.
    pub(crate) format: String,
    /// The recipe's name of it.
    pub objective: String,
    /// Seed of the soundscapes, if the recipe generates them.
    #[serde(deserialize_with = "required")]
    pub corpus: Option<u64>,
    /// Seed of the training.
    pub seed: u64,
    /// From 1.
    pub best_epoch: u64,
    /// Of the best epoch on the test split.
    pub text_to_audio: DirectionMetrics,
    /// Of the best epoch on the test split.
    pub audio_to_text: DirectionMetrics,
    /// Text to audio, if the truth is graded.
    #[serde(deserialize_with = "required")]
    pub ndcg_10: Option<f64>,
    /// Expected figures of a random ranking.
    pub chance_text_to_audio: DirectionMetrics,
    /// Expected figures of a random ranking.
    pub chance_audio_to_text: DirectionMetrics,
    /// Expected figure of a random ranking, if the truth is graded.
    #[serde(deserialize_with = "required")]
    pub chance_ndcg_10: Option<f64>,
    /// Hash of the training and validation pairs.
    pub training_data: String,
    /// Hash of the test split's ids and captions.
    pub test_data: String,
    /// Of the test split.
    pub clips: usize,
    /// Of the test split.
    pub captions: usize,
    /// Program and version.
    pub made_by: String,
    /// Models that the training started from: what, and fingerprint.
    pub models: Vec<(String, String)>,
    /// Recordings of the test split that could not be used.
    pub left_out: usize,
}

/// A value or null, and not a missing key, which serde would take for null.
fn required<'de, T: Deserialize<'de>, D: Deserializer<'de>>(value: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(value)
}

impl RunResult {
    /// The result of a run, if it is done.
    ///
    /// # Errors
    /// [`Error::Result`] and [`Error::ResultFormat`] if the file is not one that this version wrote.
    pub fn read(run: &Path) -> Result<Option<Self>, Error> {
        let path = run.join(RESULT);
        if !path.exists() {
            return Ok(None);
        }
        let bytes = fs_err::read(&path)?;
        let result: Self = serde_json::from_slice(&bytes).map_err(|source| Error::Result {
            path: path.clone(),
            source,
        })?;
        if result.format != FORMAT {
            return Err(Error::ResultFormat {
                path,
                found: result.format,
                expected: FORMAT,
            });
        }
        Ok(Some(result))
    }

    /// Writes the result into the run's folder, complete or not at all.
    pub(crate) fn write(&self, run: &Path) -> Result<(), Error> {
        let path = run.join(RESULT);
        let text = serde_json::to_vec_pretty(self).map_err(|source| Error::Result {
            path: path.clone(),
            source,
        })?;
        Ok(files::write(&path, &text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_a_renamed_key_is_an_error() {
        let metrics = DirectionMetrics {
            map: 0.1 + 0.2,
            recall: [0.1, 0.2, 0.3],
        };
        let result = RunResult {
            format: FORMAT.to_owned(),
            objective: "infonce".to_owned(),
            corpus: Some(1),
            seed: 2,
            best_epoch: 3,
            text_to_audio: metrics,
            audio_to_text: metrics,
            ndcg_10: None,
            chance_text_to_audio: metrics,
            chance_audio_to_text: metrics,
            chance_ndcg_10: Some(0.25),
            training_data: "a".to_owned(),
            test_data: "b".to_owned(),
            clips: 4,
            captions: 20,
            made_by: "hark".to_owned(),
            models: vec![("weights x".to_owned(), "c".to_owned())],
            left_out: 0,
        };
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(RunResult::read(folder.path()).unwrap(), None);
        result.write(folder.path()).unwrap();
        assert_eq!(RunResult::read(folder.path()).unwrap(), Some(result));
        let path = folder.path().join(RESULT);
        let text = fs_err::read_to_string(&path).unwrap();
        for key in ["best_epoch", "map_10", "recall_5", "test_data", "ndcg_10"] {
            fs_err::write(&path, text.replace(&format!("\"{key}\""), "\"other\"")).unwrap();
            let error = RunResult::read(folder.path()).unwrap_err();
            assert!(matches!(error, Error::Result { .. }), "{key}: {error}");
        }
        fs_err::write(&path, text.replace(FORMAT, "hark result 2")).unwrap();
        let error = RunResult::read(folder.path()).unwrap_err();
        assert!(matches!(error, Error::ResultFormat { .. }), "{error}");
    }
}
