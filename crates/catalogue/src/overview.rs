//! Counts the files in each folder directly below the roots.

use std::collections::BTreeMap;

use crate::Count;
use crate::filter::folder_contains;

/// Values of one kind that an overview has at most.
pub(crate) const MAX: usize = 500;

/// The roots and the folders right below them, each with the files that it holds at any depth: at most 500, by name.
pub(crate) fn folders<'a>(roots: &[String], paths: impl Iterator<Item = &'a str>) -> Vec<Count> {
    let mut counts: BTreeMap<String, u64> = roots.iter().map(|root| (root.clone(), 0)).collect();
    let mut add = |folder: &str| match counts.get_mut(folder) {
        Some(count) => *count += 1,
        None => _ = counts.insert(folder.to_owned(), 1),
    };
    for path in paths {
        // Of two roots, one right below the other, the lower one is also a folder of the upper one: it counts once.
        let mut of_path: Vec<&str> = Vec::new();
        for root in roots.iter().filter(|root| folder_contains(root, path)) {
            of_path.push(root);
            let above = root.trim_end_matches('/').len() + 1;
            if let Some(end) = path.get(above..).and_then(|below| below.find('/'))
                && let Some(folder) = path.get(..above + end)
            {
                of_path.push(folder);
            }
        }
        of_path.sort_unstable();
        of_path.dedup();
        of_path.into_iter().for_each(&mut add);
    }
    counts
        .into_iter()
        .take(MAX)
        .map(|(value, files)| Count { value, files })
        .collect()
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
            [("/a", 4), ("/a/", 1), ("/a/b", 2), ("/a/b/c", 1), ("/ab", 1)]
        );
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
