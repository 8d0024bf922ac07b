//! What there is to index: the files on disk, compared with the index entries.

use std::collections::{HashMap, HashSet};

use hark_catalogue::{Failure, IndexedFile, folder_contains};

use crate::scan::{Scan, ScannedFile};

/// What there is to do.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// New files, and files whose size or modification time changed, with the entry of their path.
    pub(crate) to_read: Vec<(ScannedFile, Option<IndexedFile>)>,
    /// Entries whose files are gone. A new file with the same bytes is one of them that was moved.
    pub(crate) gone: Vec<IndexedFile>,
    /// Paths of failures whose files are gone.
    pub(crate) gone_failures: Vec<String>,
    /// Files of the same size and modification time.
    pub(crate) unchanged: usize,
    /// Failures whose files have the same size and modification time.
    pub(crate) still_failing: Vec<Failure>,
}

/// A share of all files, for machines that index one library together. The default is all files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Counted from 0.
    index: u32,
    count: u32,
}

impl Default for Shard {
    fn default() -> Self {
        Self::ALL
    }
}

impl Shard {
    /// All files.
    pub const ALL: Self = Self { index: 0, count: 1 };

    /// Whether a path is in this shard. Paths are distributed by a checksum, which is the same on every machine.
    pub(crate) fn contains(self, path: &str) -> bool {
        self.count <= 1 || crc32fast::hash(path.as_bytes()) % self.count == self.index
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    /// `2/4`, counted from 1.
    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text
            .split_once('/')
            .and_then(|(nth, count)| Some((nth.parse::<u32>().ok()?, count.parse::<u32>().ok()?)));
        match parsed {
            Some((nth, count)) if nth >= 1 && nth <= count => Ok(Self {
                index: nth - 1,
                count,
            }),
            _ => Err("a shard is written K/N, such as 1/4 for the first of four".to_owned()),
        }
    }
}

/// Whether `path` is the folder, or in it.
pub(crate) fn is_within(path: &str, folder: &str) -> bool {
    path == folder.trim_end_matches('/') || folder_contains(folder, path)
}

/// Compares a scan of the folders `roots` with the index.
pub(crate) fn plan(
    known: Vec<IndexedFile>,
    failures: Vec<Failure>,
    scan: Scan,
    roots: &[String],
    shard: Shard,
) -> Plan {
    let mut plan = Plan::default();
    // Nothing in a folder that could not be read is known to be gone.
    let was_scanned = |path: &str| {
        shard.contains(path)
            && roots.iter().any(|root| is_within(path, root))
            && !scan.unreadable.iter().any(|(folder, _)| is_within(path, folder))
    };
    let found: HashSet<&str> = scan.files.iter().map(|file| file.path.as_str()).collect();
    let mut by_path = HashMap::new();
    for file in known {
        if found.contains(file.path.as_str()) {
            by_path.insert(file.path.clone(), file);
        } else if was_scanned(&file.path) {
            plan.gone.push(file);
        }
    }
    let mut failed = HashMap::new();
    for failure in failures {
        if found.contains(failure.path.as_str()) {
            failed.insert(failure.path.clone(), failure);
        } else if was_scanned(&failure.path) {
            plan.gone_failures.push(failure.path);
        }
    }
    for file in scan.files {
        if !shard.contains(&file.path) {
            continue;
        }
        let before = by_path.remove(&file.path);
        if before.as_ref().is_some_and(|known| known.stat == file.stat) {
            plan.unchanged += 1;
        } else if let Some(failure) = failed.remove(&file.path).filter(|it| it.stat == file.stat) {
            plan.still_failing.push(failure);
        } else {
            plan.to_read.push((file, before));
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
        let scan = Scan {
            files: vec![
                found("/a/bad", 1),
                found("/a/better", 2),
                found("/a/changed", 2),
                found("/a/new", 1),
                found("/a/same", 1),
            ],
            unreadable: vec![("/a/locked".to_owned(), "permission denied".to_owned())],
            skipped: Vec::new(),
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
        let plan = plan(before, failures, scan, &["/a".to_owned()], Shard::ALL);
        let to_read: Vec<_> = plan
            .to_read
            .iter()
            .map(|(file, before)| (file.path.as_str(), before.as_ref().map(|known| known.id)))
            .collect();
        assert_eq!(
            to_read,
            [("/a/better", None), ("/a/changed", Some(2)), ("/a/new", None)]
        );
        let gone: Vec<i64> = plan.gone.iter().map(|known| known.id).collect();
        assert_eq!(gone, [3, 6]);
        assert_eq!(plan.gone_failures, ["/a/away"]);
        assert_eq!((plan.unchanged, plan.still_failing.len()), (1, 1));
    }

    #[test]
    fn shards_share_all_files_and_leave_others_alone() {
        assert_eq!("2/4".parse(), Ok(Shard { index: 1, count: 4 }));
        for wrong in ["0/4", "5/4", "4", "a/b", "1/0"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
        let paths: Vec<String> = (0..100).map(|nth| format!("/a/{nth}.wav")).collect();
        let mut seen = 0;
        for index in 0..3 {
            let shard = Shard { index, count: 3 };
            let scan = Scan {
                files: paths.iter().map(|path| found(path, 1)).collect(),
                unreadable: Vec::new(),
                skipped: Vec::new(),
            };
            let before = vec![known(1, "/a/gone")];
            let plan = plan(before, Vec::new(), scan, &["/a".to_owned()], shard);
            seen += plan.to_read.len();
            assert!(plan.to_read.len() > 15);
            assert_eq!(plan.gone.len(), usize::from(shard.contains("/a/gone")));
        }
        assert_eq!(seen, 100);
    }

    #[test]
    fn a_folder_contains_itself_and_what_is_below_it() {
        assert!(is_within("/a/b", "/a"));
        assert!(is_within("/a/b", "/a/"));
        assert!(is_within("/a", "/a"));
        assert!(is_within("/a/b", "/"));
        assert!(!is_within("/ab", "/a"));
    }
}
