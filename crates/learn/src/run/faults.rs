//! What a training could not use: recordings that it went on without, and the batch that broke it. Each file's writer and
//! reader share one type, so that a renamed key breaks a test.

use std::path::{Path, PathBuf};

use hark_work::files;
use serde::{Deserialize, Serialize};

use super::Run;
use crate::Error;

/// Recordings that the training went on without.
pub const LEFT_OUT: &str = "left-out.csv";
/// The batch whose loss was not finite.
pub const BROKEN_BATCH: &str = "broken-batch.json";

/// A line of [`LEFT_OUT`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// `train`, `validation` or `test`.
    pub split: String,
    /// The clip's id.
    pub clip: String,
    /// How many captions left with it.
    pub captions: usize,
    /// What is wrong with it.
    pub reason: String,
}

/// What a batch was made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrokenBatch {
    /// [`BrokenBatch::FORMAT`].
    pub format: String,
    /// Its number, from 0.
    pub batch: u64,
    /// The recipe's seed.
    pub seed: u64,
    /// Its clips and captions.
    pub pairs: Vec<BrokenPair>,
    /// `[pairs, pairs]`, row by row; `None` is not finite.
    pub targets: Vec<Option<f32>>,
}

/// A pair of the batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrokenPair {
    /// Its place in the training split.
    pub pair: usize,
    /// The clip's id.
    pub clip: String,
    /// The recording.
    pub path: PathBuf,
    /// The caption.
    pub caption: String,
    /// Its token ids.
    pub tokens: Vec<u32>,
    /// The least and the largest log-mel of the whole batch; none if features were learned from.
    pub log_mel_range_of_batch: Option<[Option<f32>; 2]>,
}

impl BrokenBatch {
    /// The version of the file.
    pub const FORMAT: &str = "hark batch 1";

    /// Reads the file of a run.
    ///
    /// # Errors
    /// [`Error::Damaged`], or if it cannot be read.
    pub fn read(run: &Path) -> Result<Self, Error> {
        let path = run.join(BROKEN_BATCH);
        let batch: Result<Self, _> = serde_json::from_str(&fs_err::read_to_string(&path)?);
        let wrong = match batch {
            Ok(batch) if batch.format == Self::FORMAT => return Ok(batch),
            Ok(other) => format!("the format is {:?}, not {:?}", other.format, Self::FORMAT),
            Err(error) => error.to_string(),
        };
        Err(Error::Damaged { path, what: wrong })
    }
}

impl LeftOut {
    /// Reads the file of a run.
    ///
    /// # Errors
    /// [`Error::Damaged`], or if it cannot be read.
    pub fn read(run: &Path) -> Result<Vec<Self>, Error> {
        let path = run.join(LEFT_OUT);
        let lines = csv::Reader::from_reader(fs_err::File::open(&path)?).into_deserialize();
        lines.collect::<Result<_, _>>().map_err(|error| Error::Damaged {
            path,
            what: error.to_string(),
        })
    }
}

impl Run {
    /// Writes [`LEFT_OUT`], with its header even if no recording is left out.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_left_out(&self, lines: &[LeftOut]) -> Result<(), Error> {
        files::write_with(&self.path(LEFT_OUT), |file| {
            let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(file);
            writer.write_record(["split", "clip", "captions", "reason"])?;
            for line in lines {
                writer.serialize(line)?;
            }
            writer.flush()
        })?;
        Ok(())
    }

    /// Writes [`BROKEN_BATCH`] and returns its path.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_broken_batch(&self, batch: &BrokenBatch) -> Result<PathBuf, Error> {
        let path = self.path(BROKEN_BATCH);
        files::write_with(&path, |file| Ok(serde_json::to_writer_pretty(file, batch)?))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_other_keys_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::at(folder.path()).unwrap();
        run.write_left_out(&[]).unwrap();
        assert_eq!(LeftOut::read(folder.path()).unwrap(), []);
        let left_out = LeftOut {
            split: "train".into(),
            clip: "a, \"b\".wav".into(),
            captions: 5,
            reason: "cannot decode it\nat all".into(),
        };
        run.write_left_out(std::slice::from_ref(&left_out)).unwrap();
        assert_eq!(LeftOut::read(folder.path()).unwrap(), [left_out]);
        let path = folder.path().join(LEFT_OUT);
        let text = fs_err::read_to_string(&path).unwrap();
        fs_err::write(&path, text.replacen("captions", "count", 1)).unwrap();
        assert!(matches!(LeftOut::read(folder.path()), Err(Error::Damaged { .. })));

        let batch = BrokenBatch {
            format: BrokenBatch::FORMAT.into(),
            batch: 7,
            seed: 1,
            pairs: vec![BrokenPair {
                pair: 3,
                clip: "a".into(),
                path: "a.wav".into(),
                caption: "rain".into(),
                tokens: vec![0, 5],
                log_mel_range_of_batch: Some([Some(-1.5), None]),
            }],
            targets: vec![Some(1.0), None],
        };
        let path = run.write_broken_batch(&batch).unwrap();
        assert_eq!(BrokenBatch::read(folder.path()).unwrap(), batch);
        let text = fs_err::read_to_string(&path).unwrap();
        for (old, new) in [("\"seed\"", "\"random\""), ("batch 1", "batch 2")] {
            fs_err::write(&path, text.replacen(old, new, 1)).unwrap();
            assert!(matches!(
                BrokenBatch::read(folder.path()),
                Err(Error::Damaged { .. })
            ));
        }
    }
}
