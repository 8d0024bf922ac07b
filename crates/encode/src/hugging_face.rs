//! Model folders of Hugging Face's form: `config.json` to the sizes of a network of the BERT family, and where its tensors are.
//!
//! A configuration that needs something hark does not support is refused, with the name of what it needs.

use std::path::Path;

use burn::tensor::Device;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::Error;
use crate::checkpoint::Checkpoint;
use crate::towers::bert::{BertConfig, Family, Pooling};
use crate::weights::TensorSource;

/// The names are those of `config.json`.
#[derive(Deserialize)]
struct Config {
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    vocab_size: usize,
    max_position_embeddings: usize,
    layer_norm_eps: f64,
    #[serde(default = "default_buckets")]
    relative_attention_num_buckets: usize,
    #[serde(default = "default_types")]
    type_vocab_size: usize,
    #[serde(default = "default_dropout")]
    hidden_dropout_prob: f32,
    #[serde(default = "default_dropout")]
    attention_probs_dropout_prob: f32,
    model_type: String,
    hidden_act: String,
    #[serde(default = "default_position_type")]
    position_embedding_type: String,
    #[serde(default)]
    is_decoder: bool,
    pad_token_id: Option<i64>,
}

fn default_buckets() -> usize {
    32
}
fn default_types() -> usize {
    2
}
fn default_dropout() -> f32 {
    0.1
}
fn default_position_type() -> String {
    "absolute".to_owned()
}

/// Reads a `config.json`; pooling, of which it does not speak, is by the first token.
pub(crate) fn read_config(path: &Path) -> Result<BertConfig, Error> {
    let config: Config = read_json(path)?;
    let unsupported = |what: String, supported| Error::Unsupported {
        path: path.to_owned(),
        what,
        supported,
    };
    let family = match config.model_type.as_str() {
        "bert" => Family::Bert,
        "mpnet" => Family::Mpnet,
        "roberta" => Family::Roberta,
        other => {
            return Err(unsupported(
                format!("model type `{other}`"),
                "bert, mpnet, roberta",
            ));
        }
    };
    if config.hidden_act != "gelu" {
        return Err(unsupported(format!("activation `{}`", config.hidden_act), "gelu"));
    }
    if config.position_embedding_type != "absolute" {
        let what = format!("position embedding `{}`", config.position_embedding_type);
        return Err(unsupported(what, "absolute"));
    }
    if config.is_decoder {
        return Err(unsupported("a decoder".to_owned(), "encoders"));
    }
    if let (Family::Roberta, Some(padding)) = (family, config.pad_token_id.filter(|&id| id != 1)) {
        return Err(unsupported(format!("padding id {padding}"), "1"));
    }
    let config = BertConfig {
        family,
        vocabulary: config.vocab_size,
        positions: config.max_position_embeddings,
        width: config.hidden_size,
        hidden: config.intermediate_size,
        layers: config.num_hidden_layers,
        heads: config.num_attention_heads,
        epsilon: config.layer_norm_eps,
        types: config.type_vocab_size,
        buckets: (family == Family::Mpnet).then_some(config.relative_attention_num_buckets),
        pooling: Pooling::First,
        dropout: config.hidden_dropout_prob,
        attention_dropout: config.attention_probs_dropout_prob,
    };
    config.check().map_err(|what| Error::Config {
        path: path.to_owned(),
        what,
    })?;
    Ok(config)
}

/// What stands before the encoder's tensors: a model saved with a task's head on top has the family's name there.
pub(crate) fn prefix(file: &Checkpoint) -> &'static str {
    let has_words = |prefix: &&str| file.contains(&format!("{prefix}embeddings.word_embeddings.weight"));
    ["", "bert.", "mpnet.", "roberta."]
        .into_iter()
        .find(has_words)
        .unwrap_or("")
}

/// Builds something from a folder's weights, and sees to it that nothing in the file was overlooked.
pub(crate) fn load<T>(
    weights: &Path,
    device: &Device,
    build: impl FnOnce(&TensorSource<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let file = Checkpoint::open(weights)?;
    let prefix = prefix(&file);
    let built = build(&TensorSource::new(&file, prefix, device))?;
    let unused = unused(prefix);
    file.finish(&unused.each_ref().map(String::as_str))?;
    Ok(built)
}

/// Tensors that are known and of no use to an encoder, by the beginnings of their names.
pub(crate) fn unused(prefix: &str) -> [String; 4] {
    [
        format!("{prefix}pooler."),
        format!("{prefix}embeddings.position_ids"),
        "cls.".to_owned(),
        "lm_head.".to_owned(),
    ]
}

pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    if !path.is_file() {
        return Err(Error::MissingFile {
            path: path.to_owned(),
        });
    }
    Ok(fs_err::read(path)?)
}

pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    serde_json::from_slice(&read_file(path)?).map_err(|source| Error::Json {
        path: path.to_owned(),
        source,
    })
}

pub(crate) fn read_optional<T: DeserializeOwned + Default>(path: &Path) -> Result<T, Error> {
    if path.is_file() {
        read_json(path)
    } else {
        Ok(T::default())
    }
}
