//! The true relevance of every caption to every clip of a split, written and read.
//!
//! The file: CSV with the columns `file_name,caption,candidate,relevance`, where a caption is named by its clip and
//! its number from 1, rows in the order of the captions and then of the clips, without those of relevance 0, and four
//! decimals. Refused on reading: names and captions that the split does not have, a pair that occurs twice, numbers
//! outside 0 to 1, and a clip whose own caption is not entirely true of it.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use super::Split;
use super::config::MAX_PAIRS;
use super::relevance::{Claims, relevance};
use super::scene::Description;
use hark_corpus::delimited::{Rows, open};
use hark_corpus::{CaptionSet, Format};

use crate::Error;

/// Relevances are stored as multiples of 1 / this, the precision of the file's decimals.
const PARTS: f64 = 10_000.0;
const COLUMNS: [&str; 4] = ["file_name", "caption", "candidate", "relevance"];

/// The truth of one split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truth {
    captions: usize,
    clips: usize,
    /// For every caption, its relevance to every clip.
    parts: Vec<u16>,
}

impl Truth {
    /// Read the truth of a split from a folder that [`generate`](super::generate) has filled. Captions and clips have the
    /// numbers that [`CaptionSet::read`] gives them for the split's caption file.
    ///
    /// # Errors
    /// [`Error::Row`] and [`Error::OwnCaption`], and what can be wrong with any CSV file.
    pub fn read(folder: &Path, split: Split) -> Result<Self, Error> {
        let set = CaptionSet::read(&folder.join(split.captions_file()), &Format::Clotho)?;
        let path = folder.join(split.truth_file());
        Self::read_file(&path, &set)
    }

    fn read_file(path: &Path, set: &CaptionSet) -> Result<Self, Error> {
        let mut reader = open(path)?;
        let path: Arc<Path> = path.into();
        let (clips, captions) = (set.clips.len(), set.captions.len());
        if clips.saturating_mul(captions) > MAX_PAIRS {
            return Err(hark_corpus::Error::TooManyCaptions {
                path,
                limit: MAX_PAIRS / clips.max(1),
            }
            .into());
        }
        let mut truth = Self {
            captions,
            clips,
            parts: vec![0; captions * clips],
        };
        let index = set.clip_index();
        let own = set.captions_by_clip();
        if let Some(mut rows) = Rows::read(&mut reader, &path, b',')? {
            let mut columns = [0; COLUMNS.len()];
            for (column, name) in columns.iter_mut().zip(COLUMNS) {
                *column = rows.column(name)?;
            }
            while let Some(row) = rows.next_row()? {
                let [file_name, number, candidate, relevance] = columns.map(|column| row.get(column));
                let wrong = |column: &'static str, got: &str, expected: &'static str| Error::Row {
                    path: Arc::clone(&path),
                    line: row.line,
                    column,
                    got: got.to_owned(),
                    expected,
                };
                let clip = |column: &'static str, name: &str| {
                    index
                        .get(name)
                        .copied()
                        .ok_or_else(|| wrong(column, name, "a clip of the split's captions"))
                };
                let of_clip = own
                    .get(clip(COLUMNS[0], file_name)?)
                    .map(Vec::as_slice)
                    .unwrap_or_default();
                let caption = number
                    .parse::<usize>()
                    .ok()
                    .and_then(|number| of_clip.get(number.checked_sub(1)?).copied())
                    .ok_or_else(|| {
                        wrong(
                            COLUMNS[1],
                            number,
                            "the number of one of the clip's captions, from 1",
                        )
                    })?;
                let candidate = clip(COLUMNS[2], candidate)?;
                let part = parsed(relevance)
                    .ok_or_else(|| wrong(COLUMNS[3], relevance, "a number above 0 and not above 1"))?;
                let entry = &mut truth.parts[caption * clips + candidate];
                if *entry != 0 {
                    return Err(wrong(
                        COLUMNS[2],
                        row.get(columns[2]),
                        "each caption and candidate once",
                    ));
                }
                *entry = part;
            }
        }
        for (number, caption) in set.captions.iter().enumerate() {
            if f64::from(truth.parts[number * clips + caption.clip]) < PARTS {
                return Err(Error::OwnCaption {
                    path,
                    clip: set.clips[caption.clip].clone(),
                });
            }
        }
        Ok(truth)
    }

    /// From scenes; the numbers are those that a file would keep.
    pub(super) fn compute<'a>(said: impl Iterator<Item = &'a Claims>, clips: &[&Description]) -> Self {
        let mut parts = Vec::new();
        let mut captions = 0;
        for said in said {
            captions += 1;
            parts.extend(
                clips
                    .iter()
                    .map(|clip| (relevance(said, clip) * PARTS).round() as u16),
            );
        }
        Self {
            captions,
            clips: clips.len(),
            parts,
        }
    }

    /// Captions of the split.
    pub fn captions(&self) -> usize {
        self.captions
    }

    /// Clips of the split.
    pub fn clips(&self) -> usize {
        self.clips
    }

    /// The relevance of a caption to a clip, from 0 to 1; 0 where there is no such caption or clip.
    pub fn relevance(&self, caption: usize, clip: usize) -> f32 {
        self.row(caption).get(clip).map_or(0.0, |&part| value(part))
    }

    /// The relevance of a caption to every clip; nothing where there is no such caption.
    pub fn of_caption(&self, caption: usize) -> impl Iterator<Item = f32> {
        self.row(caption).iter().map(|&part| value(part))
    }

    /// The clips of which all is true that a caption says.
    pub fn fully_relevant(&self, caption: usize) -> impl Iterator<Item = usize> {
        self.row(caption)
            .iter()
            .enumerate()
            .filter(|&(_, &part)| f64::from(part) >= PARTS)
            .map(|(clip, _)| clip)
    }

    fn row(&self, caption: usize) -> &[u16] {
        let start = caption.saturating_mul(self.clips);
        self.parts
            .get(start..start.saturating_add(self.clips))
            .unwrap_or_default()
    }

    /// Write as CSV. `names` are those of the clips; every clip has the same number of captions.
    pub(super) fn write(&self, names: &[String], out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(out, "{}", COLUMNS.join(","))?;
        let each = self.captions / self.clips.max(1);
        for caption in 0..self.captions {
            let own = names.get(caption / each.max(1)).map_or("", String::as_str);
            for (&part, name) in self.row(caption).iter().zip(names).filter(|&(&part, _)| part > 0) {
                let (whole, decimals) = (part / PARTS as u16, part % PARTS as u16);
                writeln!(out, "{own},{},{name},{whole}.{decimals:04}", caption % each + 1)?;
            }
        }
        Ok(())
    }
}

fn value(part: u16) -> f32 {
    (f64::from(part) / PARTS) as f32
}

fn parsed(text: &str) -> Option<u16> {
    let value: f64 = text.trim().parse().ok()?;
    let part = (value * PARTS).round();
    (value > 0.0 && value <= 1.0 && part >= 1.0).then_some(part as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(captions: &str, truth: &str) -> Result<Truth, Error> {
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join("clotho_captions_evaluation.csv"), captions).unwrap();
        fs_err::write(folder.path().join("truth_evaluation.csv"), truth).unwrap();
        Truth::read(folder.path(), Split::Test)
    }

    const CAPTIONS: &str = "file_name,caption_1,caption_2\na.flac,One.,Two.\nb.flac,Three.,Four.\n";
    const HEADER: &str = "file_name,caption,candidate,relevance\n";
    const OWN: &str =
        "a.flac,1,a.flac,1.0000\na.flac,2,a.flac,1\nb.flac,1,b.flac,1.0000\nb.flac,2,b.flac,1.0000\n";

    #[test]
    fn numbers_stand_in_their_places() {
        let truth = read(CAPTIONS, &format!("{HEADER}{OWN}a.flac,2,b.flac,0.6667\n")).unwrap();
        assert_eq!((truth.captions(), truth.clips()), (4, 2));
        let all: Vec<f32> = (0..4).flat_map(|caption| truth.of_caption(caption)).collect();
        assert_eq!(all, [1.0, 0.0, 1.0, 0.6667, 0.0, 1.0, 0.0, 1.0]);
        assert_eq!(truth.fully_relevant(1).collect::<Vec<_>>(), [0]);
        assert!(truth.relevance(4, 0) == 0.0 && truth.relevance(usize::MAX, 1) == 0.0);
    }

    #[test]
    fn malformed_files_are_refused() {
        for (row, expected) in [
            ("c.flac,1,a.flac,0.5\n", "\"c.flac\""),
            ("a.flac,1,c.flac,0.5\n", "\"c.flac\""),
            ("a.flac,3,b.flac,0.5\n", "captions, from 1"),
            ("a.flac,0,b.flac,0.5\n", "captions, from 1"),
            ("a.flac,x,b.flac,0.5\n", "captions, from 1"),
            ("a.flac,1,b.flac,0\n", "above 0"),
            ("a.flac,1,b.flac,1.5\n", "not above 1"),
            ("a.flac,1,b.flac,NaN\n", "not above 1"),
            ("a.flac,1,b.flac,-1\n", "above 0"),
            ("a.flac,1,b.flac\n", "3 fields"),
            ("a.flac,1,a.flac,1\n", "once"),
        ] {
            let error = read(CAPTIONS, &format!("{HEADER}{OWN}{row}"))
                .unwrap_err()
                .to_string();
            assert!(
                error.contains(expected) && error.contains("line 6"),
                "{row}: {error}"
            );
        }
        let error = read(CAPTIONS, HEADER).unwrap_err();
        assert!(matches!(error, Error::OwnCaption { .. }), "{error}");
        let error = read(CAPTIONS, "").unwrap_err();
        assert!(matches!(error, Error::OwnCaption { .. }), "{error}");
        let error = read(CAPTIONS, "file_name,caption,relevance\n").unwrap_err();
        assert!(
            matches!(error, Error::Corpus(hark_corpus::Error::MissingColumn { .. })),
            "{error}"
        );
        let half = OWN.replacen("1.0000", "0.9000", 1);
        assert!(read(CAPTIONS, &format!("{HEADER}{half}")).is_err());
    }
}
