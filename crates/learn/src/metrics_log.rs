//! `metrics.jsonl`: one line a step and one an epoch, written during a training and read by reports.
//!
//! The lines are JSON objects whose `kind` is `step` or `epoch`. A key that is missing or unknown is an error of the
//! reader: nothing becomes NaN.

use std::io::Write;
use std::path::Path;

use hark_metrics::MeanMetrics;
use serde::{Deserialize, Serialize};

use crate::Error;

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum MetricsLine {
    /// A step of the optimizer.
    Step {
        /// From 0.
        epoch: u64,
        /// Batches of the training that are done.
        batches: u64,
        /// Mean loss of the step's batches.
        loss: f64,
        /// The learning rate.
        rate: f64,
        /// Norm of all gradients, before clipping.
        norm: f64,
        /// Time of the step, in seconds.
        seconds: f64,
        /// Of which the trainer waited for data.
        waited: f64,
    },
    /// An epoch that was validated.
    Epoch {
        /// From 0.
        epoch: u64,
        /// Batches of the training that are done.
        batches: u64,
        /// Mean loss of the epoch's batches.
        loss: f64,
        /// Mean loss of the validation batches.
        validation_loss: f64,
        /// Whether it is the best so far.
        best: bool,
        /// Validation metrics of captions that look for clips.
        text_to_audio: LoggedMetrics,
        /// Validation metrics of clips that look for captions.
        audio_to_text: LoggedMetrics,
    },
}

/// The mean metrics of a direction, as logs and JSON output have them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct LoggedMetrics {
    pub map_10: f64,
    pub recall_1: f64,
    pub recall_5: f64,
    pub recall_10: f64,
    pub hit_1: f64,
    pub hit_5: f64,
    pub hit_10: f64,
    pub mrr: f64,
}

impl From<&MeanMetrics> for LoggedMetrics {
    fn from(means: &MeanMetrics) -> Self {
        let ([recall_1, recall_5, recall_10], [hit_1, hit_5, hit_10]) = (means.recall, means.hit);
        Self {
            map_10: means.average_precision,
            recall_1,
            recall_5,
            recall_10,
            hit_1,
            hit_5,
            hit_10,
            mrr: means.reciprocal_rank,
        }
    }
}

impl MetricsLine {
    /// Batches of the training that were done when the line was written.
    pub fn batches(&self) -> u64 {
        let (Self::Step { batches, .. } | Self::Epoch { batches, .. }) = self;
        *batches
    }

    /// Appends the line to a log.
    ///
    /// # Errors
    /// If the log cannot be written.
    pub fn write(&self, log: &mut impl Write) -> Result<(), Error> {
        // Through a value, whose keys are in alphabetical order.
        let line = serde_json::to_value(self).map_err(std::io::Error::from)?;
        Ok(writeln!(log, "{line}")?)
    }

    /// A line of a log.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(line: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(line)
    }
}

/// Reads the log of a run.
///
/// # Errors
/// [`Error::Damaged`] with the number of a line that is not one, or if the file cannot be read.
pub fn read(path: &Path) -> Result<Vec<MetricsLine>, Error> {
    let text = fs_err::read(path)?;
    let lines = text.split(|&byte| byte == b'\n').enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty()).map(|(nth, line)| {
        MetricsLine::parse(line).map_err(|error| Error::Damaged {
            path: path.to_owned(),
            what: format!("line {}: {error}", nth + 1),
        })
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> [MetricsLine; 2] {
        let metrics = LoggedMetrics::from(&MeanMetrics {
            average_precision: 0.1 + 0.2,
            recall: [0.1, 0.2, 0.3],
            hit: [0.4, 0.5, 0.6],
            reciprocal_rank: 1.0 / 3.0,
        });
        [
            MetricsLine::Step {
                epoch: 0,
                batches: 2,
                loss: 1.5,
                rate: 1e-3,
                norm: 2.0,
                seconds: 0.25,
                waited: 0.0,
            },
            MetricsLine::Epoch {
                epoch: 0,
                batches: 2,
                loss: 1.5,
                validation_loss: 1.25,
                best: true,
                text_to_audio: metrics,
                audio_to_text: metrics,
            },
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let mut bytes = Vec::new();
        for line in lines() {
            line.write(&mut bytes).unwrap();
        }
        fs_err::write(&path, &bytes).unwrap();
        assert_eq!(read(&path).unwrap(), lines());
        // The keys are those of logs that exist.
        let text = String::from_utf8(bytes).unwrap();
        assert!(
            text.starts_with(
                "{\"batches\":2,\"epoch\":0,\"kind\":\"step\",\"loss\":1.5,\"norm\":2.0,\"rate\":0.001,\"seconds\":0.25,\"waited\":0.0}\n"
            ),
            "{text}"
        );
        for (key, other) in [
            ("validation_loss", "loss_of_validation"),
            ("map_10", "map"),
            ("rate", "lr"),
        ] {
            fs_err::write(
                &path,
                text.replace(&format!("\"{key}\""), &format!("\"{other}\"")),
            )
            .unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains("metrics.jsonl: line "), "{error}");
        }
    }
}
