//! A Sentence-Transformers folder: what its configuration files say, checked before any weight is read.
//!
//! ```text
//! config.json                 the transformer (a Hugging Face configuration)
//! modules.json                what stands behind it: pooling, normalisation
//! 1_Pooling/config.json       how token vectors become one
//! sentence_bert_config.json   at how many tokens text is cut
//! tokenizer.json              text to ids
//! model.safetensors           weights
//! ```
//!
//! A folder that needs something hark does not support is refused, with the name of what it needs.

use std::path::{Path, PathBuf};

use fs_err::File;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::Error;
use crate::checkpoint::Checkpoint;
use crate::hugging_face::{self, read_json, read_optional};
use crate::tokenize::Tokenizer;
use crate::towers::bert::{BertConfig, Family, Pooling};

#[derive(Deserialize)]
struct ModuleEntry {
    path: String,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize, Default)]
struct LengthConfig {
    max_seq_length: Option<usize>,
    #[serde(default)]
    do_lower_case: bool,
}

#[derive(Deserialize, Default)]
struct TokenizerConfig {
    /// A number, at times one as large as 1e30 for "no limit".
    model_max_length: Option<f64>,
}

/// A folder whose configuration has been read and found to be one that hark runs.
#[derive(Debug, Clone)]
pub struct SentenceFolder {
    path: PathBuf,
    lower_case: bool,
    max_tokens: usize,
    config: BertConfig,
}

impl SentenceFolder {
    /// Reads the folder's configuration.
    ///
    /// # Errors
    /// If a file is missing or malformed, or asks for something unsupported, by its name.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut config = hugging_face::read_config(&path.join("config.json"))?;
        // Sizes decide how much is allocated: they must be those of the weights before anything is.
        let weights = path.join("model.safetensors");
        if !weights.is_file() {
            return Err(Error::MissingFile { path: weights });
        }
        let file = Checkpoint::open(&weights)?;
        let words = format!("{}embeddings.word_embeddings.weight", hugging_face::prefix(&file));
        file.check(&words, &[config.vocabulary, config.width])?;

        let modules_path = path.join("modules.json");
        let modules: Vec<ModuleEntry> = read_json(&modules_path)?;
        let unsupported = |path: &Path, what: String, supported| Error::Unsupported {
            path: path.to_owned(),
            what,
            supported,
        };
        let mut pooling = None;
        for module in &modules {
            match module.kind.rsplit('.').next().unwrap_or_default() {
                "Transformer" | "Normalize" => {}
                "Pooling" => pooling = Some(read_pooling(&path.join(&module.path).join("config.json"))?),
                other => {
                    let supported = "Transformer, Pooling, Normalize";
                    return Err(unsupported(&modules_path, format!("module `{other}`"), supported));
                }
            }
        }
        config.pooling = pooling.ok_or_else(|| Error::Config {
            path: modules_path,
            what: "no Pooling module: this is not a sentence encoder".to_owned(),
        })?;

        let length: LengthConfig = read_optional(&path.join("sentence_bert_config.json"))?;
        let tokenizer: TokenizerConfig = read_optional(&path.join("tokenizer_config.json"))?;
        let from_tokenizer = tokenizer
            .model_max_length
            .filter(|&n| (1.0..1e9).contains(&n))
            .map(|n| n as usize);
        let asked = length.max_seq_length.or(from_tokenizer).unwrap_or(usize::MAX);
        let max_tokens = asked.min(config.max_tokens());
        if max_tokens < 3 {
            let what =
                format!("texts of at most {max_tokens} tokens leave no room between the special tokens");
            return Err(Error::Config {
                path: path.join("sentence_bert_config.json"),
                what,
            });
        }
        Ok(Self {
            path: path.to_owned(),
            lower_case: length.do_lower_case,
            max_tokens,
            config,
        })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The model family.
    pub fn family(&self) -> Family {
        self.config.family
    }

    /// How token vectors become one.
    pub fn pooling(&self) -> Pooling {
        self.config.pooling
    }

    /// Length of a caption's vector.
    pub fn dim(&self) -> usize {
        self.config.width
    }

    /// Number of transformer blocks.
    pub fn layers(&self) -> usize {
        self.config.layers
    }

    /// Number of tokens at which a text is cut.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// The folder's tokenizer, set up for its model.
    ///
    /// # Errors
    /// If the file is missing, malformed, or does not fit the model.
    pub fn tokenizer(&self) -> Result<Tokenizer, Error> {
        Tokenizer::open(&self.tokenizer_path(), self.max_tokens, self.config.vocabulary)
    }

    /// The network's sizes, pooling included.
    pub fn config(&self) -> &BertConfig {
        &self.config
    }

    /// Whether texts are turned to lower case before the tokenizer sees them.
    pub fn lower_case(&self) -> bool {
        self.lower_case
    }

    pub(super) fn weights_path(&self) -> PathBuf {
        self.path.join("model.safetensors")
    }

    pub(super) fn tokenizer_path(&self) -> PathBuf {
        self.path.join("tokenizer.json")
    }

    /// A SHA-256 over everything that decides what vector a text gets: weights, tokenizer, configuration.
    ///
    /// Two folders with the same fingerprint give the same vectors; the embedding cache is keyed by it.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn fingerprint(&self) -> Result<[u8; 32], Error> {
        let mut all = Sha256::new();
        all.update(b"hark sentence encoder 1");
        let c = &self.config;
        let sizes = [c.width, c.hidden, c.layers, c.heads, self.max_tokens];
        for size in sizes {
            all.update((size as u64).to_le_bytes());
        }
        all.update(c.epsilon.to_le_bytes());
        all.update([c.family as u8, c.pooling as u8, u8::from(self.lower_case)]);
        for path in [self.tokenizer_path(), self.weights_path()] {
            if !path.is_file() {
                return Err(Error::MissingFile { path });
            }
            let mut one = Sha256::new();
            std::io::copy(&mut File::open(&path)?, &mut one)?;
            all.update(one.finalize());
        }
        Ok(all.finalize().into())
    }
}

fn read_pooling(path: &Path) -> Result<Pooling, Error> {
    let config: serde_json::Map<String, serde_json::Value> = read_json(path)?;
    // Newer folders name the mode in one field, older ones have a flag for each.
    let mut modes: Vec<&str> = Vec::new();
    for (name, value) in &config {
        match (name.as_str(), value) {
            ("pooling_mode", serde_json::Value::String(mode)) => modes.push(mode),
            (name, serde_json::Value::Bool(true)) => modes.extend(name.strip_prefix("pooling_mode_")),
            _ => {}
        }
    }
    match modes.as_slice() {
        ["mean_tokens" | "mean"] => Ok(Pooling::Mean),
        ["cls_token" | "cls"] => Ok(Pooling::First),
        other => Err(Error::Unsupported {
            path: path.to_owned(),
            what: format!("pooling by `{}`", other.join("` and `")),
            supported: "mean_tokens, cls_token",
        }),
    }
}
