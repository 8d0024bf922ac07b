//! Counts the files in each folder of the library.

use std::collections::{BTreeMap, BTreeSet};

use crate::Count;
use crate::filter::{codec_family, folder_contains};

/// Values of one kind that an overview has at most.
pub(crate) const MAX: usize = 500;
/// Folders that an overview has at most.
const MAX_FOLDERS: usize = 5_000;

/// The roots and all folders below them, each with the files that it holds at any depth. A folder comes before those in it, and
/// these before the next one beside it. There are at most 5,000: of more, those nearest to the roots.
pub(crate) fn folders<'a>(roots: &[String], paths: impl Iterator<Item = &'a str>) -> Vec<Count> {
    counted(roots, paths.map(|path| (path, 1)))
}

/// As [`folders`], of paths that stand for several files each.
pub(crate) fn counted<'a>(roots: &[String], paths: impl Iterator<Item = (&'a str, u64)>) -> Vec<Count> {
    // Keys with NUL for `/`, which sorts before all that a name can have: `a/b` comes before `a-b`.
    let key = |folder: &str| folder.trim_end_matches('/').replace('/', "\0");
    let mut counts: BTreeMap<String, (usize, Count)> = BTreeMap::new();
    let mut add = |folder: &str, depth: usize, files: u64| {
        let value = || Count {
            value: folder.to_owned(),
            files: 0,
        };
        let (least, count) = counts.entry(key(folder)).or_insert_with(|| (depth, value()));
        *least = depth.min(*least);
        count.files += files;
    };
    for root in roots {
        add(root, 0, 0);
    }
    for (path, files) in paths {
        // Of two roots, one below the other, the lower one is also a folder of the upper one: it counts once.
        let mut of_path: Vec<(&str, usize)> = Vec::new();
        for root in roots.iter().filter(|root| folder_contains(root, path)) {
            of_path.push((root, 0));
            let above = root.trim_end_matches('/').len() + 1;
            let below = path.get(above..).unwrap_or_default();
            let ends = below.match_indices('/').map(|(end, _)| above + end);
            of_path.extend(
                (1..)
                    .zip(ends)
                    .filter_map(|(depth, end)| Some((path.get(..end)?, depth))),
            );
        }
        of_path.sort_unstable();
        of_path.dedup_by_key(|(folder, _)| folder.trim_end_matches('/'));
        for (folder, depth) in of_path {
            add(folder, depth, files);
        }
    }
    let mut depths: Vec<usize> = counts.values().map(|(depth, _)| *depth).collect();
    depths.sort_unstable();
    let deepest = depths.get(MAX_FOLDERS).copied().unwrap_or(usize::MAX);
    let nearest = counts
        .into_values()
        .filter(|(depth, _)| *depth < deepest || deepest == 0);
    nearest.map(|(_, count)| count).take(MAX_FOLDERS).collect()
}

/// Counts files by format and channels.
#[derive(Debug, Default)]
pub(crate) struct Sounds {
    formats: BTreeMap<String, u64>,
    channels: BTreeMap<i64, u64>,
}

impl Sounds {
    /// Adds files of one container, codec and number of channels. Each name that they go by counts once.
    pub(crate) fn add(&mut self, container: &str, codec: &str, channels: i64, files: u64) {
        let names: BTreeSet<&str> = [container, codec, codec_family(codec)].into();
        for name in names {
            *self.formats.entry(name.to_owned()).or_default() += files;
        }
        *self.channels.entry(channels).or_default() += files;
    }

    pub(crate) fn formats(&self) -> Vec<Count> {
        counts(&self.formats)
    }

    pub(crate) fn channels(&self) -> Vec<Count> {
        counts(&self.channels)
    }
}

fn counts<T: ToString>(of: &BTreeMap<T, u64>) -> Vec<Count> {
    let count = |(value, &files): (&T, &u64)| Count {
        value: value.to_string(),
        files,
    };
    of.iter().map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_roots_count_once() {
        let roots = ["/a".to_owned(), "/a/b".to_owned(), "/ab".to_owned()];
        let paths = [
            "/a/1.wav",
            "/a/b/2.wav",
            "/a/b/c/d/3.wav",
            "/ab/4.wav",
            "/a//5.wav",
        ];
        let counts = folders(&roots, paths.into_iter());
        let counts: Vec<_> = counts
            .iter()
            .map(|count| (count.value.as_str(), count.files))
            .collect();
        assert_eq!(
            counts,
            [("/a", 4), ("/a/b", 2), ("/a/b/c", 1), ("/a/b/c/d", 1), ("/ab", 1)]
        );
    }

    #[test]
    fn folders_come_as_a_tree() {
        let paths = [
            "/s/a b/c/1.wav",
            "/s/a-b/2.wav",
            "/s/a/x/3.wav",
            "/s/a/4.wav",
            "/s/5.wav",
        ];
        let counts = folders(&["/s".to_owned()], paths.into_iter());
        let counts: Vec<_> = counts
            .iter()
            .map(|count| (count.value.as_str(), count.files))
            .collect();
        assert_eq!(
            counts,
            [
                ("/s", 5),
                ("/s/a", 2),
                ("/s/a/x", 1),
                ("/s/a b", 1),
                ("/s/a b/c", 1),
                ("/s/a-b", 1)
            ]
        );
    }

    #[test]
    fn of_too_many_folders_the_upper_ones_are_kept() {
        let paths: Vec<String> = (0..3000).map(|nth| format!("/s/{nth}/deep/x.wav")).collect();
        let counts = folders(&["/s".to_owned()], paths.iter().map(String::as_str));
        assert_eq!(counts.len(), 3001);
        assert!(counts.iter().all(|count| !count.value.ends_with("deep")));
    }

    #[test]
    fn the_root_of_all_is_a_root() {
        let counts = folders(&["/".to_owned()], ["/x/1.wav", "/2.wav"].into_iter());
        let counts: Vec<_> = counts
            .iter()
            .map(|count| (count.value.as_str(), count.files))
            .collect();
        assert_eq!(counts, [("/", 2), ("/x", 1)]);
    }
}
