//! A file that is not complete yet: its bytes in `NAME.part`, and in `NAME.part.from` which file of the server it is.

use std::path::{Path, PathBuf};

use hark_work::files;

use crate::Error;

/// The first line of `NAME.part.from`.
const VERSION: &str = "hark-part 1";

/// What tells one version of a server's file from another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) length: Option<u64>,
    pub(crate) tag: Option<String>,
}

impl Origin {
    /// Whether these may be the same file. With a checksum to come, only lengths are compared: some servers give the same
    /// file several tags.
    pub(crate) fn may_be(&self, other: &Self, has_checksum: bool) -> bool {
        fn agree<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
            one.is_none() || other.is_none() || one == other
        }
        agree(self.length.as_ref(), other.length.as_ref())
            && (has_checksum || agree(self.tag.as_ref(), other.tag.as_ref()))
    }
}

pub(crate) struct Part {
    pub(crate) path: PathBuf,
    from: PathBuf,
}

impl Part {
    pub(crate) fn of(target: &Path) -> Self {
        Self {
            path: target.with_added_extension("part"),
            from: target.with_added_extension("part.from"),
        }
    }

    /// What was begun; nothing is known of a part without the note.
    pub(crate) fn origin(&self) -> Origin {
        let text = fs_err::read_to_string(&self.from).unwrap_or_default();
        let mut lines = text.lines();
        if lines.next() != Some(VERSION) {
            return Origin::default();
        }
        Origin {
            length: lines.next().and_then(|line| line.parse().ok()),
            tag: lines.next().filter(|line| !line.is_empty()).map(str::to_owned),
        }
    }

    /// Notes what is begun, before its first byte is written.
    pub(crate) fn begin(&self, origin: &Origin) -> Result<(), Error> {
        let length = origin.length.map(|length| length.to_string()).unwrap_or_default();
        let text = format!(
            "{VERSION}\n{length}\n{}\n",
            origin.tag.as_deref().unwrap_or_default()
        );
        let written = files::write(&self.from, text.as_bytes());
        written.map_err(|source| Error::writing(&self.from, source))
    }

    /// The part is complete: it takes its name.
    pub(crate) fn finish(&self, target: &Path) -> Result<(), Error> {
        fs_err::rename(&self.path, target)?;
        drop(fs_err::remove_file(&self.from));
        Ok(())
    }

    pub(crate) fn remove(&self) -> Result<(), Error> {
        for path in [&self.path, &self.from] {
            if path.exists() {
                fs_err::remove_file(path)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_begun_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let part = Part::of(&folder.path().join("a.7z"));
        assert_eq!(part.origin(), Origin::default());
        let origin = Origin {
            length: Some(7),
            tag: Some("\"abc\"".to_owned()),
        };
        for origin in [origin, Origin::default()] {
            part.begin(&origin).unwrap();
            assert_eq!(part.origin(), origin);
        }
        fs_err::write(folder.path().join("a.7z.part.from"), "hark-part 2\n7\n").unwrap();
        assert_eq!(part.origin(), Origin::default());
    }

    #[test]
    fn another_file_is_known_by_its_length_and_its_tag() {
        let origin = |length, tag: &str| Origin {
            length: Some(length),
            tag: Some(tag.to_owned()),
        };
        assert!(origin(7, "a").may_be(&origin(7, "a"), false));
        assert!(origin(7, "a").may_be(&Origin::default(), false));
        assert!(!origin(7, "a").may_be(&origin(7, "b"), false));
        assert!(origin(7, "a").may_be(&origin(7, "b"), true));
        assert!(!origin(7, "a").may_be(&origin(8, "a"), true));
    }
}
