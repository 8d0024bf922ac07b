//! Text to token ids, by a model's own `tokenizer.json`, or by `vocab.json` and `merges.txt` as RoBERTa was published.
//!
//! In: text of any length. Out: ids with the model's special tokens around them, cut to the model's length. Refused: a
//! tokenizer file that does not parse, and one that makes ids which the model has no vector for.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::models::wordlevel::{WordLevel, WordLevelTrainer};
use tokenizers::models::{ModelWrapper, TrainerWrapper};
use tokenizers::normalizers::utils::Lowercase;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::whitespace::Whitespace;
use tokenizers::processors::roberta::RobertaProcessing;
use tokenizers::{AddedToken, Model, PostProcessor, TruncationParams, TruncationStrategy};

use crate::Error;

/// Letters of a piece by which a word is known.
const MIN_LETTERS: usize = 3;

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
    /// The text of a `tokenizer.json`, as [`Tokenizer::open`] reads it from a file.
    ///
    /// # Errors
    /// As [`Tokenizer::open`].
    pub fn parse(text: &str, max_tokens: usize, rows: usize) -> Result<Self, Error> {
        let path = Path::new("tokenizer.json");
        let inner = text.parse::<tokenizers::Tokenizer>().map_err(failed(path))?;
        Self::new(inner, path, max_tokens, rows)
    }

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

    /// Whether the vocabulary has a word of a text. A word counts if it is one token, or if one of its pieces has at least three
    /// letters or digits; a tokenizer that can spell anything spells what it does not know in shorter ones. The token for the
    /// unknown, special tokens and punctuation do not count.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn knows(&self, text: &str) -> Result<bool, Error> {
        let encoding = self.inner.encode(text, false).map_err(failed(&self.path))?;
        let unknown = self.unknown().and_then(|token| self.inner.token_to_id(&token));
        let words = encoding.get_word_ids();
        let pieces = encoding.get_ids().iter().zip(encoding.get_offsets()).zip(words);
        Ok(pieces.enumerate().any(|(nth, ((&id, &(start, end)), word))| {
            let letters = text.get(start..end).unwrap_or_default();
            let letters = letters.chars().filter(|letter| letter.is_alphanumeric()).count();
            let is_part = |other: Option<usize>| other.and_then(|other| words.get(other)) == Some(word);
            let is_word = word.is_some() && !is_part(nth.checked_sub(1)) && !is_part(nth.checked_add(1));
            Some(id) != unknown && (letters >= MIN_LETTERS || (letters > 0 && is_word))
        }))
    }

    /// The token for what the vocabulary does not have, if there is one.
    fn unknown(&self) -> Option<String> {
        match self.inner.get_model() {
            ModelWrapper::BPE(model) => model.get_unk_token().clone(),
            ModelWrapper::WordPiece(model) => Some(model.unk_token.clone()),
            ModelWrapper::WordLevel(model) => Some(model.unk_token.clone()),
            // It falls back to bytes or to its own token, of no letters.
            ModelWrapper::Unigram(_) => None,
        }
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

/// What the tokens of a tokenizer that is trained here are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Whole words; what was not among the captions is one unknown token.
    Words,
    /// Pieces of words by byte pair encoding: any text has tokens of its own.
    Bpe,
}

/// Makes a tokenizer of at most `size` tokens from captions, as the text of a `tokenizer.json`: lower case, `<s>` and `</s>`
/// around a text, ids 0 to 3 for `<s>`, `<pad>`, `</s>` and `<unk>` as in RoBERTa. The same captions give the same text.
///
/// # Errors
/// [`Error::Sizes`] if the size leaves no room for tokens of captions, or what the tokenizer's library says.
pub fn train(captions: &[&str], kind: Kind, size: usize) -> Result<String, Error> {
    const SPECIAL: [&str; 4] = ["<s>", "<pad>", "</s>", "<unk>"];
    // A byte pair encoding begins with all 256 bytes.
    let least = match kind {
        Kind::Words => SPECIAL.len() + 1,
        Kind::Bpe => SPECIAL.len() + 256,
    };
    if size < least || size > 1 << 20 {
        return Err(Error::Sizes {
            tower: "tokenizer",
            what: format!("{size} tokens; at least {least} are needed, and at most 2^20 possible"),
        });
    }
    let failed = failed(Path::new("tokenizer"));
    let special: Vec<AddedToken> = SPECIAL
        .iter()
        .map(|&token| AddedToken::from(token, true))
        .collect();
    let (mut tokenizer, mut trainer): (_, TrainerWrapper) = match kind {
        Kind::Words => {
            let model = WordLevel::builder().unk_token("<unk>".into()).build();
            let mut tokenizer = tokenizers::Tokenizer::new(model.map_err(&failed)?);
            tokenizer.with_pre_tokenizer(Some(Whitespace {}));
            let mut trainer = WordLevelTrainer::default();
            trainer.vocab_size = size;
            trainer.show_progress = false;
            trainer.special_tokens = special;
            (tokenizer, trainer.into())
        }
        Kind::Bpe => {
            let mut tokenizer = tokenizers::Tokenizer::new(BPE::default());
            tokenizer
                .with_pre_tokenizer(Some(ByteLevel::default().add_prefix_space(true)))
                .with_decoder(Some(ByteLevel::default()));
            let trainer = BpeTrainer::builder()
                .vocab_size(size)
                .show_progress(false)
                .special_tokens(special)
                .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
                .build();
            (tokenizer, trainer.into())
        }
    };
    tokenizer.with_normalizer(Some(Lowercase));
    tokenizer.train(&mut trainer, captions.iter()).map_err(&failed)?;
    let around = |token: usize| (SPECIAL[token].to_owned(), token as u32);
    let around = RobertaProcessing::new(around(2), around(0)).trim_offsets(false);
    tokenizer.with_post_processor(Some(around.add_prefix_space(kind == Kind::Bpe)));
    tokenizer.to_string(true).map_err(&failed)
}

/// How many tokens the text of a `tokenizer.json` knows.
///
/// # Errors
/// [`Error::Tokenizer`] if it does not parse.
pub fn vocabulary_size(text: &str) -> Result<usize, Error> {
    let tokenizer = text.parse::<tokenizers::Tokenizer>();
    Ok(tokenizer
        .map_err(failed(Path::new("tokenizer")))?
        .get_vocab_size(true))
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

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTIONS: [&str; 4] = [
        "A dog barks twice.",
        "Rain falls, a dog barks",
        "Rain on a roof",
        "a bell rings while rain falls",
    ];

    fn ids(text: &str, caption: &str) -> Vec<u32> {
        let tokenizer = Tokenizer::parse(text, 16, 400).unwrap();
        tokenizer.encode(&[caption]).unwrap().remove(0).ids
    }

    #[test]
    fn words_have_ids_by_how_often_they_occur() {
        let text = train(&CAPTIONS, Kind::Words, 100).unwrap();
        assert_eq!(text, train(&CAPTIONS, Kind::Words, 100).unwrap());
        // "a" four times, then "rain" three times; an unknown word is token 3.
        assert_eq!(ids(&text, "Rain a zebra"), [0, 5, 4, 3, 2]);
        assert_eq!(
            vocabulary_size(&train(&CAPTIONS, Kind::Words, 6).unwrap()).unwrap(),
            6
        );
    }

    #[test]
    fn byte_pairs_leave_nothing_unknown() {
        let text = train(&CAPTIONS, Kind::Bpe, 300).unwrap();
        assert_eq!(text, train(&CAPTIONS, Kind::Bpe, 300).unwrap());
        let zebra = ids(&text, "zebra ünder");
        assert!(
            !zebra.contains(&3) && zebra[0] == 0 && zebra.last() == Some(&2),
            "{zebra:?}"
        );
        assert!(ids(&text, "Rain").len() < ids(&text, "rnai").len());
        assert_eq!(ids(&text, "RAIN"), ids(&text, "rain"));
    }

    #[test]
    fn words_are_known_by_tokens_that_tell_something() {
        let words = train(&CAPTIONS, Kind::Words, 100).unwrap();
        let words = Tokenizer::parse(&words, 16, 400).unwrap();
        for (text, known) in [
            ("a zebra", true),
            ("zebra", false),
            ("?!", false),
            ("", false),
            ("Rain!", true),
        ] {
            assert_eq!(words.knows(text).unwrap(), known, "{text:?}");
        }
        // "ox" is no token, and is spelled by its letters; so is every part of "zzxqy".
        let pieces = train(&CAPTIONS, Kind::Bpe, 300).unwrap();
        let pieces = Tokenizer::parse(&pieces, 16, 400).unwrap();
        for (text, known) in [
            ("rain", true),
            ("zzxqy", false),
            ("ox", false),
            ("zzxqy rain", true),
            ("犬", false),
            ("?! ...", false),
            ("a", true),
        ] {
            assert_eq!(pieces.knows(text).unwrap(), known, "{text:?}");
        }
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        assert!(train(&CAPTIONS, Kind::Words, 4).is_err());
        assert!(train(&CAPTIONS, Kind::Bpe, 259).is_err());
    }
}
