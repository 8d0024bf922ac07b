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
//! A folder that asks for something hark does not run is refused by the name of what it asks for.

use std::path::{Path, PathBuf};

use fs_err::File;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Error;
use crate::checkpoint::Checkpoint;
use crate::tokenize::Tokenizer;

/// The model family, by the name that `config.json` gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// BERT: learned positions, token types.
    Bert,
    /// MPNet: learned positions behind a padding offset, and relative positions added to the attention scores.
    Mpnet,
}

/// How the vectors of a text's tokens become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// The first token's.
    First,
}

/// The transformer's sizes; the names are those of `config.json`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Config {
    pub(super) hidden_size: usize,
    pub(super) intermediate_size: usize,
    pub(super) num_hidden_layers: usize,
    pub(super) num_attention_heads: usize,
    pub(super) vocab_size: usize,
    pub(super) max_position_embeddings: usize,
    pub(super) layer_norm_eps: f64,
    #[serde(default = "default_buckets")]
    pub(super) relative_attention_num_buckets: usize,
    #[serde(default = "default_types")]
    pub(super) type_vocab_size: usize,
    model_type: String,
    hidden_act: String,
    #[serde(default = "default_position_type")]
    position_embedding_type: String,
    #[serde(default)]
    is_decoder: bool,
}

fn default_buckets() -> usize {
    32
}
fn default_types() -> usize {
    2
}
fn default_position_type() -> String {
    "absolute".to_owned()
}

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
    family: Family,
    pooling: Pooling,
    lower_case: bool,
    max_tokens: usize,
    pub(super) config: Config,
}

impl SentenceFolder {
    /// Reads the folder's configuration.
    ///
    /// # Errors
    /// If a file is missing or malformed, or asks for something unsupported, by its name.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let config_path = path.join("config.json");
        let config: Config = read_json(&config_path)?;
        let unsupported = |path: &Path, what: String, supported| Error::Unsupported {
            path: path.to_owned(),
            what,
            supported,
        };
        let family = match config.model_type.as_str() {
            "bert" => Family::Bert,
            "mpnet" => Family::Mpnet,
            other => {
                return Err(unsupported(
                    &config_path,
                    format!("model type `{other}`"),
                    "bert, mpnet",
                ));
            }
        };
        if config.hidden_act != "gelu" {
            return Err(unsupported(
                &config_path,
                format!("activation `{}`", config.hidden_act),
                "gelu",
            ));
        }
        if config.position_embedding_type != "absolute" {
            let what = format!("position embedding `{}`", config.position_embedding_type);
            return Err(unsupported(&config_path, what, "absolute"));
        }
        if config.is_decoder {
            return Err(unsupported(&config_path, "a decoder".to_owned(), "encoders"));
        }
        config.check(&config_path)?;
        // Sizes decide how much is allocated: they must be those of the weights before anything is.
        let weights = path.join("model.safetensors");
        if !weights.is_file() {
            return Err(Error::MissingFile { path: weights });
        }
        let file = Checkpoint::open(&weights)?;
        let words = format!("{}embeddings.word_embeddings.weight", super::model::prefix(&file));
        file.check(&words, &[config.vocab_size, config.hidden_size])?;

        let modules_path = path.join("modules.json");
        let modules: Vec<ModuleEntry> = read_json(&modules_path)?;
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
        let pooling = pooling.ok_or_else(|| Error::Config {
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
        let max_tokens = asked.min(config.positions(family));
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
            family,
            pooling,
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
        self.family
    }

    /// How token vectors become one.
    pub fn pooling(&self) -> Pooling {
        self.pooling
    }

    /// Length of a caption's vector.
    pub fn dim(&self) -> usize {
        self.config.hidden_size
    }

    /// Number of transformer blocks.
    pub fn layers(&self) -> usize {
        self.config.num_hidden_layers
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
        Tokenizer::open(&self.tokenizer_path(), self.max_tokens, self.config.vocab_size)
    }

    /// Whether texts are turned to lower case before the tokenizer sees them.
    pub(super) fn lower_case(&self) -> bool {
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
        let sizes = [
            c.hidden_size,
            c.intermediate_size,
            c.num_hidden_layers,
            c.num_attention_heads,
            self.max_tokens,
        ];
        for size in sizes {
            all.update((size as u64).to_le_bytes());
        }
        all.update(c.layer_norm_eps.to_le_bytes());
        all.update([self.family as u8, self.pooling as u8, u8::from(self.lower_case)]);
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

impl Config {
    fn check(&self, path: &Path) -> Result<(), Error> {
        let wrong = |what: String| {
            Err(Error::Config {
                path: path.to_owned(),
                what,
            })
        };
        let sizes = [
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("vocab_size", self.vocab_size),
            ("max_position_embeddings", self.max_position_embeddings),
            (
                "relative_attention_num_buckets",
                self.relative_attention_num_buckets,
            ),
            ("type_vocab_size", self.type_vocab_size),
        ];
        for (name, size) in sizes {
            // Far above any model that exists, and small enough that products of two fit a machine word.
            if size == 0 || size > 1 << 24 {
                return wrong(format!("{name} is {size}"));
            }
        }
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            let (width, heads) = (self.hidden_size, self.num_attention_heads);
            return wrong(format!("hidden_size {width} does not divide into {heads} heads"));
        }
        if !self.relative_attention_num_buckets.is_multiple_of(4) {
            let buckets = self.relative_attention_num_buckets;
            return wrong(format!(
                "relative_attention_num_buckets is {buckets}, not a multiple of 4"
            ));
        }
        if !(self.layer_norm_eps > 0.0 && self.layer_norm_eps < 1.0) {
            return wrong(format!("layer_norm_eps is {}", self.layer_norm_eps));
        }
        Ok(())
    }

    /// How many tokens have a position vector.
    fn positions(&self, family: Family) -> usize {
        match family {
            Family::Bert => self.max_position_embeddings,
            Family::Mpnet => self
                .max_position_embeddings
                .saturating_sub(super::mpnet::POSITION_OFFSET),
        }
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

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    if !path.is_file() {
        return Err(Error::MissingFile {
            path: path.to_owned(),
        });
    }
    let bytes = fs_err::read(path)?;
    serde_json::from_slice(&bytes).map_err(|source| Error::Json {
        path: path.to_owned(),
        source,
    })
}

fn read_optional<T: DeserializeOwned + Default>(path: &Path) -> Result<T, Error> {
    if path.is_file() {
        read_json(path)
    } else {
        Ok(T::default())
    }
}
