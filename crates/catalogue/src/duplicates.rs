//! Files with the same bytes or the same sound.
//!
//! Files with equal bytes are duplicates. Other files are compared if their lengths differ by at most 0.2 s, more than the padding
//! of MP3 and AAC encoders; the caller decides from their fingerprints whether two sound alike. The relation is transitive.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use crate::{AudioInfo, Error, Store};

/// How much the lengths of files that sound alike may differ, in seconds, with room for rounding.
const APART: f64 = 0.2 + 1e-9;

/// Groups of files that are the same or sound alike, as paths, sorted.
///
/// `heard` makes of a file's sound, once, what `same_recording` compares; a file of which it makes nothing is alike to none. Of files with the
/// same bytes one is compared, and files that are known to belong together are not compared with each other.
///
/// # Errors
/// If the store cannot be read.
pub fn duplicates<T>(
    store: &dyn Store,
    heard: &dyn Fn(&AudioInfo) -> Option<T>,
    same_recording: &dyn Fn(&T, &T) -> bool,
) -> Result<Vec<Vec<String>>, Error> {
    let mut paths: Vec<String> = Vec::new();
    let mut groups = Groups::default();
    let mut of_content: HashMap<String, usize> = HashMap::new();
    let mut different: Vec<(usize, f64, T)> = Vec::new();
    store.for_each_file(&mut |file| {
        let number = groups.add();
        paths.push(file.path);
        if let Some(&first) = of_content.get(&file.content) {
            groups.join(first, number);
        } else {
            of_content.insert(file.content, number);
            let seconds = file.sound.seconds;
            different.extend(heard(&file.sound).map(|sound| (number, seconds, sound)));
        }
        ControlFlow::Continue(())
    })?;
    different.sort_by(|a, b| a.1.total_cmp(&b.1));
    for (place, (number, seconds, sound)) in different.iter().enumerate() {
        let longer = different.iter().skip(place + 1);
        for (other, _, with) in longer.take_while(|(_, longer, _)| longer - seconds <= APART) {
            if groups.of(*number) != groups.of(*other) && same_recording(sound, with) {
                groups.join(*number, *other);
            }
        }
    }
    let mut members: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (number, path) in paths.into_iter().enumerate() {
        members.entry(groups.of(number)).or_default().push(path);
    }
    let mut members: Vec<Vec<String>> = members
        .into_values()
        .filter(|members| members.len() > 1)
        .collect();
    for members in &mut members {
        members.sort_unstable();
    }
    members.sort_unstable();
    Ok(members)
}

/// Which of some numbers belong together: each points to another of its group, the last one to itself.
#[derive(Default)]
struct Groups {
    parent: Vec<usize>,
}

impl Groups {
    /// A new number, in a group of its own.
    fn add(&mut self) -> usize {
        self.parent.push(self.parent.len());
        self.parent.len() - 1
    }

    /// The number that stands for the group of one.
    fn of(&mut self, number: usize) -> usize {
        let mut at = number;
        while self.parent[at] != at {
            // Each step halves the way for those who come later.
            self.parent[at] = self.parent[self.parent[at]];
            at = self.parent[at];
        }
        at
    }

    /// Makes two groups one.
    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.of(a), self.of(b));
        self.parent[a.max(b)] = a.min(b);
    }
}
