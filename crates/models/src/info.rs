//! What is known of a model without running it: size, layout, origin.

use std::path::PathBuf;

use fs_err as fs;
use hark_encode::card::Card as TowersCard;
use hark_encode::checkpoint::Checkpoint;
use hark_encode::model::ModelFiles;
use hark_encode::sentence::{
    Card as StaticCard, Family, Pooling, SentenceFolder, SentenceModel, StaticEncoder,
};
use hark_work::files::hex;
use serde::Serialize;

use crate::error::Error;
use crate::pull::{CARD, Card};
use crate::store::Model;

/// A description of a model. Serializes to the JSON that `hark models info --json` prints.
#[derive(Debug, Serialize)]
#[serde(tag = "kind")]
#[allow(missing_docs)] // the fields are those of the JSON
pub enum ModelInfo {
    /// A table of vectors for words and pieces of words.
    #[serde(rename = "static encoder")]
    Static {
        dim: usize,
        units: usize,
        fingerprint: String,
        card: Box<StaticCard>,
    },
    /// A transformer that embeds captions.
    #[serde(rename = "sentence encoder")]
    Sentence {
        path: PathBuf,
        family: Family,
        layers: usize,
        dim: usize,
        pooling: Pooling,
        max_tokens: usize,
        parameters: usize,
        weights_bytes: u64,
        fingerprint: String,
        /// `None` for a folder that was not downloaded by hark.
        card: Option<Card>,
    },
    /// An audio tower, a text tower or both.
    #[serde(rename = "towers")]
    Towers {
        path: PathBuf,
        parameters: usize,
        audio_parameters: usize,
        text_parameters: usize,
        weights_bytes: u64,
        card: Box<TowersCard>,
    },
}

impl ModelInfo {
    pub(crate) fn of(model: &Model) -> Result<Self, Error> {
        match model {
            Model::Sentence(SentenceModel::Static(encoder)) => Ok(static_encoder(encoder)),
            Model::Sentence(SentenceModel::Transformer(folder)) => sentence_encoder(folder),
            Model::Towers(files) => towers(files),
        }
    }
}

fn static_encoder(encoder: &StaticEncoder) -> ModelInfo {
    ModelInfo::Static {
        dim: encoder.dim(),
        units: encoder.units(),
        fingerprint: hex(&encoder.fingerprint()),
        card: Box::new(encoder.card().clone()),
    }
}

fn sentence_encoder(folder: &SentenceFolder) -> Result<ModelInfo, Error> {
    let path = folder.path();
    let weights = path.join("model.safetensors");
    let card_path = path.join(CARD);
    let card = match fs::read(&card_path) {
        Ok(bytes) => Some(serde_json::from_slice(&bytes).map_err(|source| Error::Card {
            path: card_path,
            source,
        })?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    Ok(ModelInfo::Sentence {
        path: path.to_owned(),
        family: folder.family(),
        layers: folder.layers(),
        dim: folder.dim(),
        pooling: folder.pooling(),
        max_tokens: folder.max_tokens(),
        parameters: Checkpoint::open(&weights)?.parameters(),
        weights_bytes: fs::metadata(&weights)?.len(),
        fingerprint: hex(&folder.fingerprint()?),
        card,
    })
}

fn towers(files: &ModelFiles) -> Result<ModelInfo, Error> {
    let file = files.weights()?;
    let part = |prefix: &str| {
        file.names()
            .filter(|name| name.starts_with(prefix))
            .filter_map(|name| file.shape(name).ok())
            .map(|shape| shape.iter().product::<usize>())
            .sum()
    };
    Ok(ModelInfo::Towers {
        path: files.path(""),
        parameters: file.parameters(),
        audio_parameters: part("audio."),
        text_parameters: part("text."),
        weights_bytes: files.weights_bytes()?,
        card: Box::new(files.card()?),
    })
}
