//! An embedder that remembers the vectors of recent texts: a person who changes a filter or turns a page asks for the same text
//! again.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use hark_catalogue::{EmbedError, Embedder};

/// Keeps the vectors of the texts that were used last.
pub(crate) struct CachedEmbedder {
    embedder: Arc<dyn Embedder>,
    capacity: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// A text's vector, and when it was last used, counted in uses.
    vectors: HashMap<String, (u64, Vec<f32>)>,
    uses: u64,
}

impl Embedder for CachedEmbedder {
    /// Texts whose vectors are not kept are embedded in one batch.
    fn embed_text(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut found: Vec<Option<Vec<f32>>> = texts.iter().map(|text| self.look_up(text)).collect();
        let missing: Vec<usize> = (0..texts.len()).filter(|&i| found[i].is_none()).collect();
        if !missing.is_empty() {
            let asked: Vec<&str> = missing.iter().map(|&i| texts[i]).collect();
            let made = self.embedder.embed_text(&asked)?;
            for (&i, vector) in missing.iter().zip(made) {
                self.keep(texts[i], vector.clone());
                found[i] = Some(vector);
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    fn knows(&self, text: &str) -> Result<bool, EmbedError> {
        self.embedder.knows(text)
    }

    fn embed_audio(&self, recording: &Path) -> Result<Vec<f32>, EmbedError> {
        self.embedder.embed_audio(recording)
    }
}

impl CachedEmbedder {
    pub(crate) fn new(embedder: Arc<dyn Embedder>, capacity: usize) -> Self {
        Self {
            embedder,
            capacity,
            kept: Mutex::default(),
        }
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
        if kept.vectors.len() > self.capacity {
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

    /// Makes a vector of a text's length, and writes down what it was asked.
    struct Counting(Mutex<Vec<Vec<String>>>);

    impl Embedder for Counting {
        fn embed_text(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
            let asked = texts.iter().map(|&t| t.to_owned()).collect();
            self.0.lock().unwrap().push(asked);
            Ok(texts.iter().map(|t| vec![t.len() as f32]).collect())
        }

        fn embed_audio(&self, _: &Path) -> Result<Vec<f32>, EmbedError> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn each_text_once_as_long_as_it_is_kept() {
        let counting = Arc::new(Counting(Mutex::default()));
        let cached = CachedEmbedder::new(Arc::clone(&counting) as _, 2);
        assert_eq!(cached.embed_text(&["a", "bb"]).unwrap(), [[1.0], [2.0]]);
        assert_eq!(cached.embed_text(&["bb", "a"]).unwrap(), [[2.0], [1.0]]);
        // `bb` was used before `a`: it makes room.
        assert_eq!(cached.embed_text(&["ccc", "a"]).unwrap(), [[3.0], [1.0]]);
        assert_eq!(cached.embed_text(&["a"]).unwrap(), [[1.0]]);
        assert_eq!(cached.embed_text(&["bb"]).unwrap(), [[2.0]]);
        let asked = counting.0.lock().unwrap();
        assert_eq!(*asked, [vec!["a", "bb"], vec!["ccc"], vec!["bb"]]);
        assert_eq!(cached.kept.lock().unwrap().vectors.len(), 2);
    }
}
