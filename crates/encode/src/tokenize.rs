//! Text to token ids, by a model's own `tokenizer.json`.
//!
//! In: text of any length. Out: ids with the model's special tokens around them, cut to the model's length. Refused: a
//! tokenizer file that does not parse, and one that makes ids which the model has no vector for.

use std::path::{Path, PathBuf};

use tokenizers::{PostProcessor, TruncationParams, TruncationStrategy};

use crate::Error;

/// A tokenizer that is set up for one model.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    path: PathBuf,
    inner: tokenizers::Tokenizer,
    max_tokens: usize,
    rows: usize,
}

/// The tokens of one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    /// Ids, special tokens included; never empty.
    pub ids: Vec<u32>,
    /// Whether the text was longer than the model reads, so that its end is not in `ids`.
    pub cut: bool,
}

impl Tokenizer {
    /// Reads a `tokenizer.json` for a model that reads at most `max_tokens` tokens and has vectors for `rows` of them.
    ///
    /// Padding and truncation that the file itself asks for are replaced by the model's.
    ///
    /// # Errors
    /// [`Error::Tokenizer`] if the file does not parse, [`Error::TokenizerMismatch`] if it does not fit the model.
    pub fn open(path: &Path, max_tokens: usize, rows: usize) -> Result<Self, Error> {
        if !path.is_file() {
            return Err(Error::MissingFile {
                path: path.to_owned(),
            });
        }
        let failed = |e: tokenizers::Error| Error::Tokenizer {
            path: path.to_owned(),
            what: e.to_string(),
        };
        let bytes = fs_err::read(path)?;
        let mut inner = tokenizers::Tokenizer::from_bytes(bytes).map_err(failed)?;
        let largest = inner.get_vocab(true).into_values().max().unwrap_or(0);
        if largest as usize >= rows {
            return Err(Error::TokenizerMismatch {
                path: path.to_owned(),
                largest,
                rows,
            });
        }
        let added = inner
            .get_post_processor()
            .map_or(0, |processor| processor.added_tokens(false));
        if added >= max_tokens {
            let what =
                format!("it adds {added} special tokens, and the model reads {max_tokens} tokens in all");
            return Err(Error::Tokenizer {
                path: path.to_owned(),
                what,
            });
        }
        inner.with_padding(None);
        let truncation = TruncationParams {
            max_length: max_tokens,
            strategy: TruncationStrategy::LongestFirst,
            ..TruncationParams::default()
        };
        inner.with_truncation(Some(truncation)).map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            inner,
            max_tokens,
            rows,
        })
    }

    /// The number of tokens at which texts are cut.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// All tokens, in the order of their ids.
    pub fn vocabulary(&self) -> Vec<String> {
        let mut tokens: Vec<(u32, String)> = self
            .inner
            .get_vocab(true)
            .into_iter()
            .map(|(token, id)| (id, token))
            .collect();
        tokens.sort_unstable();
        tokens.into_iter().map(|(_, token)| token).collect()
    }

    /// Tokens of each text, computed in parallel on the caller's thread pool.
    ///
    /// # Errors
    /// [`Error::Tokenizer`] if the tokenizer has no token for a part of the text and none for the unknown.
    pub fn encode(&self, texts: &[&str]) -> Result<Vec<Tokens>, Error> {
        let failed = |e: tokenizers::Error| Error::Tokenizer {
            path: self.path.clone(),
            what: e.to_string(),
        };
        let encodings = self
            .inner
            .encode_batch_fast(texts.to_vec(), true)
            .map_err(failed)?;
        let tokens = encodings.into_iter().map(|encoding| {
            let ids = encoding.get_ids().to_vec();
            if ids.is_empty() {
                let what = "it adds no special tokens, so that an empty text has no tokens at all".to_owned();
                return Err(Error::Tokenizer {
                    path: self.path.clone(),
                    what,
                });
            }
            // The vocabulary was checked when the file was read; special tokens have their ids from elsewhere in it.
            if let Some(&largest) = ids.iter().max().filter(|&&id| id as usize >= self.rows) {
                return Err(Error::TokenizerMismatch {
                    path: self.path.clone(),
                    largest,
                    rows: self.rows,
                });
            }
            Ok(Tokens {
                ids,
                cut: !encoding.get_overflowing().is_empty(),
            })
        });
        tokens.collect()
    }
}
