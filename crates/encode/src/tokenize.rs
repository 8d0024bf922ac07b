//! Text to token ids, by a model's own `tokenizer.json`, or by `vocab.json` and `merges.txt` as RoBERTa was published.
//!
//! In: text of any length. Out: ids with the model's special tokens around them, cut to the model's length. Refused: a
//! tokenizer file that does not parse, and one that makes ids which the model has no vector for.

use std::path::{Path, PathBuf};

use tokenizers::models::bpe::BPE;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::processors::roberta::RobertaProcessing;
use tokenizers::{AddedToken, Model, PostProcessor, TruncationParams, TruncationStrategy};

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
        let bytes = fs_err::read(path)?;
        let inner = tokenizers::Tokenizer::from_bytes(bytes).map_err(failed(path))?;
        Self::new(inner, path, max_tokens, rows)
    }

    fn new(
        mut inner: tokenizers::Tokenizer,
        path: &Path,
        max_tokens: usize,
        rows: usize,
    ) -> Result<Self, Error> {
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
        inner.with_truncation(Some(truncation)).map_err(failed(path))?;
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
        let encodings = self
            .inner
            .encode_batch_fast(texts.to_vec(), true)
            .map_err(failed(&self.path))?;
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

/// Reads the tokenizer of a folder as the text of a `tokenizer.json`, after seeing that it fits a model that reads
/// `max_tokens` tokens and has vectors for `rows` of them.
///
/// # Errors
/// If the folder has neither `tokenizer.json` nor `vocab.json` and `merges.txt`, or they do not fit.
pub fn read_folder(folder: &Path, max_tokens: usize, rows: usize) -> Result<String, Error> {
    let file = folder.join("tokenizer.json");
    if file.is_file() {
        Tokenizer::open(&file, max_tokens, rows)?;
        return Ok(fs_err::read_to_string(&file)?);
    }
    let (vocabulary, merges) = (folder.join("vocab.json"), folder.join("merges.txt"));
    if !vocabulary.is_file() {
        return Err(Error::MissingFile { path: file });
    }
    if !merges.is_file() {
        return Err(Error::MissingFile { path: merges });
    }
    let tokenizer = byte_level(&vocabulary, &merges)?;
    let text = tokenizer.to_string(true).map_err(failed(&vocabulary))?;
    Tokenizer::new(tokenizer, &vocabulary, max_tokens, rows)?;
    Ok(text)
}

/// RoBERTa's tokenizer: byte-level byte pair encoding, with `<s>` and `</s>` around a text.
fn byte_level(vocabulary: &Path, merges: &Path) -> Result<tokenizers::Tokenizer, Error> {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let model = BPE::from_file(&path(vocabulary), &path(merges))
        .build()
        .map_err(failed(vocabulary))?;
    let id = |token: &str| {
        model.token_to_id(token).ok_or_else(|| Error::Tokenizer {
            path: vocabulary.to_owned(),
            what: format!("it has no token {token}, which RoBERTa's has"),
        })
    };
    let (start, end) = (("<s>", id("<s>")?), ("</s>", id("</s>")?));
    for token in ["<pad>", "<unk>", "<mask>"] {
        id(token)?;
    }
    let mut tokenizer = tokenizers::Tokenizer::new(model);
    let special = ["<s>", "<pad>", "</s>", "<unk>"].map(|token| AddedToken::from(token, true));
    tokenizer.add_special_tokens(&special);
    // The mask takes the blank before it with it.
    let mask = AddedToken::from("<mask>", true).lstrip(true);
    tokenizer.add_special_tokens(&[mask]);
    tokenizer
        .with_pre_tokenizer(Some(ByteLevel::default().add_prefix_space(false)))
        .with_decoder(Some(ByteLevel::default()));
    let around = RobertaProcessing::new((end.0.to_owned(), end.1), (start.0.to_owned(), start.1));
    tokenizer.with_post_processor(Some(around.add_prefix_space(false)));
    Ok(tokenizer)
}

fn failed(path: &Path) -> impl Fn(tokenizers::Error) -> Error {
    move |e| Error::Tokenizer {
        path: path.to_owned(),
        what: e.to_string(),
    }
}
