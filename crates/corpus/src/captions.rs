//! The captions of one or several files, and the clips that they describe.

use std::collections::{HashMap, HashSet};
use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

use crate::error::Place;
use crate::input::{Limits, MAX_CAPTION_WORDS};
use crate::{Error, Format, format};

/// Captions and the clips (or images, or any items) that they describe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaptionSet {
    /// The ids of the clips, each once, in order of first appearance.
    pub clips: Vec<String>,
    /// The captions, in the order of the file. Each clip has at least one.
    pub captions: Vec<Caption>,
}

/// One caption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caption {
    /// The clip that it describes: an index into [`CaptionSet::clips`].
    pub clip: usize,
    /// What it says, without white space around it.
    pub text: String,
    /// The file that it comes from.
    pub path: Arc<Path>,
    /// The line, from 1, at which its row begins.
    pub line: u64,
}

impl CaptionSet {
    /// Reads a caption file.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("captions.txt");
    /// use hark_corpus::{CaptionSet, Format};
    ///
    /// fs_err::write(&path, "A dog barks\n\nRain falls on a tin roof\n")?;
    /// let set = CaptionSet::read(&path, &Format::Auto)?;
    /// assert_eq!(set.clips, ["1", "3"]);
    /// assert_eq!(set.texts(), ["A dog barks", "Rain falls on a tin roof"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Any [`Error`] but those of ratings and of [`CaptionSet::merge`]. Of a table, [`Error::Faults`] has all rows that are wrong;
    /// elsewhere the first fault ends the reading.
    pub fn read(path: &Path, format: &Format) -> Result<Self, Error> {
        let mut reader = open(path)?;
        Self::read_from(&mut reader, path, format)
    }

    /// Reads captions from any reader, such as standard input.
    ///
    /// Captions and errors call the reader `name`, whose extension counts as a file's would. Without an
    /// extension that is known, the first line tells what is coming.
    ///
    /// ```
    /// use std::path::Path;
    /// use hark_corpus::{CaptionSet, Format};
    ///
    /// let lines = concat!(
    ///     r#"{"sound": 7, "says": ["A dog barks", "Barking"]}"#, "\n",
    ///     r#"{"sound": 8, "says": "Rain"}"#, "\n",
    /// );
    /// let format = Format::Table { captions: vec!["says".into()], id: Some("sound".into()) };
    /// let set = CaptionSet::read_from(lines.as_bytes(), Path::new("standard input"), &format)?;
    /// assert_eq!(set.clips, ["7", "8"]);
    /// assert_eq!(set.captions_of(0).map(|caption| &*caption.text).collect::<Vec<_>>(), ["A dog barks", "Barking"]);
    /// # Ok::<(), hark_corpus::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`CaptionSet::read`].
    pub fn read_from(mut reader: impl BufRead, name: &Path, format: &Format) -> Result<Self, Error> {
        format::read(&mut reader, name, format, Limits::STATED)
    }

    /// Merges several sets into one, in their order.
    ///
    /// Clips of different sets are different clips, even under the same id: Clotho's splits share four file names,
    /// each for two clips of one recording with different captions. An id in more than one set therefore becomes
    /// `FILE:ID` in each of them. Other ids stay as they are.
    ///
    /// # Errors
    /// [`Error::MergedTwice`] if that does not tell the clips apart, as when the same file is given twice.
    pub fn merge(sets: impl IntoIterator<Item = Self>) -> Result<Self, Error> {
        let sets: Vec<Self> = sets.into_iter().collect();
        let mut holders: HashMap<String, usize> = HashMap::new();
        for id in sets.iter().flat_map(|set| &set.clips) {
            *holders.entry(id.clone()).or_default() += 1;
        }

        let mut merged = Self::default();
        let mut taken: HashSet<String> = HashSet::new();
        for set in sets {
            let before = merged.clips.len();
            let mut files: Vec<Option<Arc<Path>>> = vec![None; set.clips.len()];
            for caption in &set.captions {
                if let Some(file @ None) = files.get_mut(caption.clip) {
                    *file = Some(Arc::clone(&caption.path));
                }
            }
            for (id, file) in set.clips.into_iter().zip(files) {
                let path = file.unwrap_or_else(|| Path::new("").into());
                let shared = holders.get(&id).is_some_and(|&count| count > 1);
                let id = if shared {
                    format!("{}:{id}", path.display())
                } else {
                    id
                };
                if !taken.insert(id.clone()) {
                    return Err(Error::MergedTwice { path, id });
                }
                merged.clips.push(id);
            }
            let captions = set.captions.into_iter().map(|caption| Caption {
                clip: before + caption.clip,
                ..caption
            });
            merged.captions.extend(captions);
        }
        Ok(merged)
    }

    /// The text of every caption, in order.
    pub fn texts(&self) -> Vec<&str> {
        self.captions
            .iter()
            .map(|caption| caption.text.as_str())
            .collect()
    }

    /// The captions of one clip, in order. This scans all captions: for many clips, see
    /// [`CaptionSet::captions_by_clip`].
    pub fn captions_of(&self, clip: usize) -> impl Iterator<Item = &Caption> {
        self.captions.iter().filter(move |caption| caption.clip == clip)
    }

    /// For every clip, the indices of its captions.
    ///
    /// # Panics
    /// If a caption's clip, changed by the caller, is not an index into `clips`.
    pub fn captions_by_clip(&self) -> Vec<Vec<usize>> {
        let mut lists = vec![Vec::new(); self.clips.len()];
        for (index, caption) in self.captions.iter().enumerate() {
            lists[caption.clip].push(index);
        }
        lists
    }

    /// The index of a clip. It looks through all clips: for many ids, see [`CaptionSet::clip_index`].
    pub fn clip_by_id(&self, id: &str) -> Option<usize> {
        self.clips.iter().position(|clip| clip == id)
    }

    /// The index of every clip by its id.
    pub fn clip_index(&self) -> HashMap<&str, usize> {
        self.clips
            .iter()
            .enumerate()
            .map(|(index, id)| (id.as_str(), index))
            .collect()
    }
}

/// Opens a file of captions or ratings; one that its size alone rules out is refused before it is read.
///
/// # Errors
/// If the file cannot be opened, or is larger than [`crate::MAX_FILE_BYTES`].
pub fn open(path: &Path) -> Result<std::io::BufReader<fs_err::File>, Error> {
    let file = fs_err::File::open(path).map_err(Error::Open)?;
    let limit = Limits::STATED.file_bytes;
    if file.metadata().map_err(Error::Open)?.len() > limit {
        return Err(Error::TooLarge {
            path: path.into(),
            limit,
        });
    }
    Ok(std::io::BufReader::with_capacity(64 << 10, file))
}

/// A set that a reader is filling: clips get their numbers, captions are trimmed, and empty ones are refused.
pub(crate) struct Filling {
    set: CaptionSet,
    index: HashMap<String, usize>,
    path: Arc<Path>,
    limits: Limits,
    faults: Vec<Error>,
    more_faults: usize,
}

/// Faults of a file that are told one by one; further ones are counted.
const MAX_FAULTS: usize = 20;

impl Filling {
    pub(crate) fn new(path: Arc<Path>, limits: Limits) -> Self {
        Self {
            set: CaptionSet::default(),
            index: HashMap::new(),
            path,
            limits,
            faults: Vec::new(),
            more_faults: 0,
        }
    }

    /// Keeps what is wrong with a row, so that all faults of a file are told at once. The set is refused when it is finished.
    pub(crate) fn fault(&mut self, fault: Error) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(fault);
        } else {
            self.more_faults += 1;
        }
    }

    /// The clip with this id, new or not. Ids are kept as they are written, white space included: names of real
    /// Clotho files begin with a space. `column` is that of the id.
    pub(crate) fn clip(&mut self, id: &str, place: Place, column: &str) -> Result<usize, Error> {
        if let Some(&clip) = self.index.get(id) {
            return Ok(clip);
        }
        if id.trim().is_empty() {
            return Err(self.empty(place, column));
        }
        let clip = self.push_clip(id.to_owned());
        self.index.insert(id.to_owned(), clip);
        Ok(clip)
    }

    /// A clip that must not have been named before.
    pub(crate) fn new_clip(&mut self, id: &str, place: Place, column: &str) -> Result<usize, Error> {
        let before = self.set.clips.len();
        let clip = self.clip(id, place, column)?;
        if clip < before {
            let first = self
                .set
                .captions_of(clip)
                .next()
                .map_or(0, |caption| caption.line);
            let (path, id) = (Arc::clone(&self.path), id.to_owned());
            return Err(Error::DuplicateClip {
                path,
                id,
                first,
                second: place.line,
            });
        }
        Ok(clip)
    }

    /// A clip whose id is a number that the reader gives, and so is new.
    pub(crate) fn numbered_clip(&mut self, number: u64) -> usize {
        self.push_clip(number.to_string())
    }

    fn push_clip(&mut self, id: String) -> usize {
        self.set.clips.push(id);
        self.set.clips.len() - 1
    }

    /// Adds a caption, trimmed. `column` is that of the caption.
    pub(crate) fn caption(
        &mut self,
        clip: usize,
        text: &str,
        place: Place,
        column: &str,
    ) -> Result<(), Error> {
        let text = text.trim();
        if text.is_empty() {
            return Err(self.empty(place, column));
        }
        let words = text.split_whitespace().count();
        if words > MAX_CAPTION_WORDS {
            return Err(Error::CaptionTooLong {
                path: Arc::clone(&self.path),
                place,
                words,
                limit: MAX_CAPTION_WORDS,
            });
        }
        if self.set.captions.len() == self.limits.captions {
            return Err(Error::TooManyCaptions {
                path: Arc::clone(&self.path),
                limit: self.limits.captions,
            });
        }
        let (text, path) = (text.to_owned(), Arc::clone(&self.path));
        self.set.captions.push(Caption {
            clip,
            text,
            path,
            line: place.line,
        });
        Ok(())
    }

    pub(crate) fn empty(&self, place: Place, column: &str) -> Error {
        Error::Empty {
            path: Arc::clone(&self.path),
            place,
            column: column.to_owned(),
        }
    }

    pub(crate) fn finish(mut self) -> Result<CaptionSet, Error> {
        if self.faults.len() > 1 {
            return Err(Error::Faults {
                path: self.path,
                faults: self.faults,
                more: self.more_faults,
            });
        }
        if let Some(fault) = self.faults.pop() {
            return Err(fault);
        }
        if self.set.captions.is_empty() {
            return Err(Error::NoCaptions { path: self.path });
        }
        Ok(self.set)
    }
}
