//! Vectors of texts that were asked for lately: who types a query asks for it again with each filter.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::{EmbedError, Embedder};

/// Vectors of the texts that were used last, at most a number of them.
pub(crate) struct Vectors {
    most: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// A text's vector, and when it was last used, counted in uses.
    vectors: HashMap<String, (u64, Vec<f32>)>,
    uses: u64,
}

impl Vectors {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            kept: Mutex::default(),
        }
    }

    /// The vectors of some texts, in their order. Those that are not kept are made at one go.
    pub(crate) fn of(&self, ears: &dyn Embedder, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut found: Vec<Option<Vec<f32>>> = texts.iter().map(|text| self.look_up(text)).collect();
        let missing: Vec<usize> = (0..texts.len()).filter(|&i| found[i].is_none()).collect();
        if !missing.is_empty() {
            let asked: Vec<&str> = missing.iter().map(|&i| texts[i]).collect();
            let made = ears.text(&asked)?;
            for (&i, vector) in missing.iter().zip(made) {
                self.keep(texts[i], vector.clone());
                found[i] = Some(vector);
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    fn look_up(&self, text: &str) -> Option<Vec<f32>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.uses += 1;
        let uses = kept.uses;
        let (used, vector) = kept.vectors.get_mut(text)?;
        *used = uses;
        Some(vector.clone())
    }

    fn keep(&self, text: &str, vector: Vec<f32>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.uses += 1;
        let uses = kept.uses;
        kept.vectors.insert(text.to_owned(), (uses, vector));
        if kept.vectors.len() > self.most {
            let oldest = kept.vectors.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(oldest) = oldest.map(|(text, _)| text.clone()) {
                kept.vectors.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Makes a vector of a text's length, and writes down what it was asked.
    struct Counting(Mutex<Vec<Vec<String>>>);

    impl Embedder for Counting {
        fn text(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
            let asked = texts.iter().map(|&t| t.to_owned()).collect();
            self.0.lock().unwrap().push(asked);
            Ok(texts.iter().map(|t| vec![t.len() as f32]).collect())
        }

        fn sound(&self, _: &Path) -> Result<Vec<f32>, EmbedError> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn each_text_once_as_long_as_it_is_kept() {
        let ears = Counting(Mutex::default());
        let vectors = Vectors::new(2);
        assert_eq!(vectors.of(&ears, &["a", "bb"]).unwrap(), [[1.0], [2.0]]);
        assert_eq!(vectors.of(&ears, &["bb", "a"]).unwrap(), [[2.0], [1.0]]);
        // `bb` was used before `a`: it makes room.
        assert_eq!(vectors.of(&ears, &["ccc", "a"]).unwrap(), [[3.0], [1.0]]);
        assert_eq!(vectors.of(&ears, &["a"]).unwrap(), [[1.0]]);
        assert_eq!(vectors.of(&ears, &["bb"]).unwrap(), [[2.0]]);
        let asked = ears.0.lock().unwrap();
        assert_eq!(*asked, [vec!["a", "bb"], vec!["ccc"], vec!["bb"]]);
        assert_eq!(vectors.kept.lock().unwrap().vectors.len(), 2);
    }
}
