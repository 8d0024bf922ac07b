//! A dual encoder from a tagger and a sentence encoder, without any training.
//!
//! ```text
//! audio vector = the sum over classes of p(class) · v(name of the class), of length 1
//! text vector  = v(text)
//! ```
//!
//! p are the tagger's probabilities and v is the sentence encoder. The matrix of the names' vectors is the audio side's
//! projection, so that the result is an ordinary model.

use burn::tensor::TensorData;

use crate::card::{Card, Origin, SentenceCard, VERSION};
use crate::dual::{DualEncoder, Side};
use crate::model::{self, ModelFiles};
use crate::projection::Projection;
use crate::sentence::{SentenceEncoder, SentenceModel};
use crate::towers::mn::Output;
use crate::towers::{AudioConfig, AudioTower, Tower};
use crate::{Compute, Error};

/// What a bridge is made of.
#[derive(Debug)]
pub struct Bridge<'a> {
    /// A model whose audio tower has classes.
    pub tagger: &'a ModelFiles,
    /// The encoder of names and texts.
    pub sentence: SentenceModel,
    /// The names of the tagger's classes, in their order.
    pub labels: &'a [String],
    /// Whether the mean of the names' vectors is subtracted from the vectors of names and texts.
    pub centred: bool,
    /// Length of a segment; by default the tagger's.
    pub segment_seconds: Option<f64>,
}

/// A model that was made.
#[derive(Debug)]
pub struct Bridged {
    /// Its network.
    pub network: DualEncoder,
    /// Its card.
    pub card: Card,
}

/// Makes a dual encoder.
///
/// # Errors
/// [`Error::NoClasses`] if the tower is no tagger, [`Error::Sizes`] if it has another number of classes than there are
/// labels, and as [`AudioEncoder::open`](crate::model::AudioEncoder::open).
pub fn bridge(parts: Bridge<'_>, compute: &Compute) -> Result<Bridged, Error> {
    let Bridge {
        tagger,
        sentence,
        labels,
        centred,
        segment_seconds,
    } = parts;
    let card = tagger.card()?;
    let (Some(side), Some(mut audio)) = (model::load_audio(tagger, &card, compute.device())?, card.audio)
    else {
        return Err(Error::NoTower {
            path: tagger.path(""),
            what: "audio",
        });
    };
    let (AudioTower::Mn(tower), AudioConfig::Mn(config)) = (side.tower, &mut audio.side.network) else {
        return Err(Error::NoClasses {
            path: tagger.path(""),
        });
    };
    if config.classes == 0 {
        return Err(Error::NoClasses {
            path: tagger.path(""),
        });
    }
    if config.classes != labels.len() {
        return Err(Error::ClassCount {
            path: tagger.path(""),
            classes: config.classes,
            labels: labels.len(),
        });
    }
    let encoder = SentenceEncoder::load(sentence, compute)?;
    let names: Vec<&str> = labels.iter().map(String::as_str).collect();
    let embedded = encoder.embed(&names)?;
    let dim = encoder.dim();
    let mut matrix = embedded.as_slice().to_vec();
    let mut centre = Vec::new();
    if centred {
        centre = (0..dim)
            .map(|at| embedded.rows().map(|row| row[at]).sum::<f32>() / labels.len() as f32)
            .collect();
        for row in matrix.chunks_exact_mut(dim) {
            for (x, centre) in row.iter_mut().zip(&centre) {
                *x -= centre;
            }
        }
    }
    config.output = Output::Classes;
    let tower = tower.with_output(Output::Classes);
    let projection = Projection::of_matrix(TensorData::new(matrix, [tower.width(), dim]), compute.device());
    audio.side.projection = vec![dim];
    audio.labels = labels.to_vec();
    audio.segment_seconds = segment_seconds.unwrap_or(audio.segment_seconds);
    let mut origin = card.origin;
    origin.push(Origin {
        file: "names of classes".to_owned(),
        sha256: hash_of(labels),
        layout: "bridge".to_owned(),
    });
    let card = Card {
        version: VERSION,
        written_by: concat!("hark ", env!("CARGO_PKG_VERSION")).to_owned(),
        audio: Some(audio),
        text: None,
        sentence: Some(SentenceCard { centre }),
        origin,
        training_data: card.training_data,
        metrics: std::collections::BTreeMap::new(),
        licence: card.licence,
        warnings: card.warnings,
    };
    card.check().map_err(|what| Error::Config {
        path: tagger.path(model::CARD),
        what,
    })?;
    let side: Side<AudioTower> = Side {
        tower: AudioTower::Mn(tower),
        projection,
    };
    Ok(Bridged {
        network: DualEncoder {
            audio: Some(side),
            text: None,
        },
        card,
    })
}

fn hash_of(labels: &[String]) -> String {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    for label in labels {
        hash.update(label.as_bytes());
        hash.update(b"\n");
    }
    hark_work::files::hex(&hash.finalize())
}
