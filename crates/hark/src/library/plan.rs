//! What an indexing has to do: what is on disk now, against what is known.

use std::collections::{HashMap, HashSet};

use hark_catalogue::{Failure, IndexedFile};

use super::walk::{Scan, ScannedFile};

/// What there is to do.
#[derive(Debug, Default)]
pub struct Plan {
    /// Files to read: new ones, and those that look different; with what is known of their path.
    pub look: Vec<(ScannedFile, Option<IndexedFile>)>,
    /// Known files that are not there any more. A new file with the same bytes is one of them that has moved.
    pub gone: Vec<IndexedFile>,
    /// Failures whose files are not there any more.
    pub forgotten: Vec<String>,
    /// Files that look as they did.
    pub unchanged: usize,
    /// Failures whose files look as they did.
    pub still_failing: Vec<Failure>,
}

/// A part of all files, for several machines that share the work: those whose paths fall on `nth` of `parts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which part, from 0.
    pub nth: u32,
    /// How many there are.
    pub parts: u32,
}

impl Shard {
    /// All files.
    pub const ALL: Self = Self { nth: 0, parts: 1 };

    /// Whether a path is in this part. Paths are spread by a checksum, the same on every machine.
    pub fn has(self, path: &str) -> bool {
        self.parts <= 1 || crc32fast::hash(path.as_bytes()) % self.parts == self.nth
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    /// `2/4`, counted from 1.
    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text
            .split_once('/')
            .and_then(|(nth, parts)| Some((nth.parse::<u32>().ok()?, parts.parse::<u32>().ok()?)));
        match parsed {
            Some((nth, parts)) if nth >= 1 && nth <= parts => Ok(Self { nth: nth - 1, parts }),
            _ => Err("give a part as 1/4: the first of four".to_owned()),
        }
    }
}

/// Whether `path` is the folder, or in it.
pub fn is_within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder.trim_end_matches('/'))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Compares what was found below `roots` with what is known.
pub fn plan(
    known: Vec<IndexedFile>,
    failures: Vec<Failure>,
    walked: Scan,
    roots: &[String],
    part: Shard,
) -> Plan {
    let mut plan = Plan::default();
    // Of what could not be looked at, nothing is known to be gone.
    let is_seen = |path: &str| {
        part.has(path)
            && roots.iter().any(|root| is_within(path, root))
            && !walked.unseen.iter().any(|(unseen, _)| is_within(path, unseen))
    };
    let found: HashSet<&str> = walked.found.iter().map(|found| found.path.as_str()).collect();
    let mut by_path = HashMap::new();
    for file in known {
        if found.contains(file.path.as_str()) {
            by_path.insert(file.path.clone(), file);
        } else if is_seen(&file.path) {
            plan.gone.push(file);
        }
    }
    let mut failed = HashMap::new();
    for failure in failures {
        if found.contains(failure.path.as_str()) {
            failed.insert(failure.path.clone(), failure);
        } else if is_seen(&failure.path) {
            plan.forgotten.push(failure.path);
        }
    }
    for file in walked.found {
        if !part.has(&file.path) {
            continue;
        }
        let before = by_path.remove(&file.path);
        if before.as_ref().is_some_and(|known| known.stat == file.stat) {
            plan.unchanged += 1;
        } else if let Some(failure) = failed.remove(&file.path).filter(|it| it.stat == file.stat) {
            plan.still_failing.push(failure);
        } else {
            plan.look.push((file, before));
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_catalogue::Stat;

    fn stat(modified: i64) -> Stat {
        Stat { size: 7, modified }
    }

    fn known(id: i64, path: &str) -> IndexedFile {
        IndexedFile {
            id,
            path: path.to_owned(),
            stat: stat(1),
            content: format!("content {id}"),
        }
    }

    fn found(path: &str, modified: i64) -> ScannedFile {
        ScannedFile {
            path: path.to_owned(),
            stat: stat(modified),
        }
    }

    fn failure(path: &str) -> Failure {
        Failure {
            path: path.to_owned(),
            stat: stat(1),
            message: "no sound".to_owned(),
        }
    }

    #[test]
    fn only_what_changed_is_read() {
        let walked = Scan {
            found: vec![
                found("/a/bad", 1),
                found("/a/better", 2),
                found("/a/changed", 2),
                found("/a/new", 1),
                found("/a/same", 1),
            ],
            unseen: vec![("/a/locked".to_owned(), "permission denied".to_owned())],
        };
        let before = vec![
            known(1, "/a/same"),
            known(2, "/a/changed"),
            known(3, "/a/gone"),
            known(4, "/a/locked/inside"),
            known(5, "/b/elsewhere"),
            known(6, "/a/lockedout"),
        ];
        let failures = vec![failure("/a/bad"), failure("/a/better"), failure("/a/away")];
        let plan = plan(before, failures, walked, &["/a".to_owned()], Shard::ALL);
        let look: Vec<_> = plan
            .look
            .iter()
            .map(|(file, before)| (file.path.as_str(), before.as_ref().map(|known| known.id)))
            .collect();
        assert_eq!(
            look,
            [("/a/better", None), ("/a/changed", Some(2)), ("/a/new", None)]
        );
        let gone: Vec<i64> = plan.gone.iter().map(|known| known.id).collect();
        assert_eq!(gone, [3, 6]);
        assert_eq!(plan.forgotten, ["/a/away"]);
        assert_eq!((plan.unchanged, plan.still_failing.len()), (1, 1));
    }

    #[test]
    fn parts_share_all_files_and_leave_others_alone() {
        assert_eq!("2/4".parse(), Ok(Shard { nth: 1, parts: 4 }));
        for wrong in ["0/4", "5/4", "4", "a/b", "1/0"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
        let paths: Vec<String> = (0..100).map(|nth| format!("/a/{nth}.wav")).collect();
        let mut seen = 0;
        for nth in 0..3 {
            let part = Shard { nth, parts: 3 };
            let walked = Scan {
                found: paths.iter().map(|path| found(path, 1)).collect(),
                unseen: Vec::new(),
            };
            let before = vec![known(1, "/a/gone")];
            let plan = plan(before, Vec::new(), walked, &["/a".to_owned()], part);
            seen += plan.look.len();
            assert!(plan.look.len() > 15);
            assert_eq!(plan.gone.len(), usize::from(part.has("/a/gone")));
        }
        assert_eq!(seen, 100);
    }

    #[test]
    fn a_folder_holds_what_is_in_it() {
        assert!(is_within("/a/b", "/a"));
        assert!(is_within("/a/b", "/a/"));
        assert!(is_within("/a", "/a"));
        assert!(is_within("/a/b", "/"));
        assert!(!is_within("/ab", "/a"));
    }
}
