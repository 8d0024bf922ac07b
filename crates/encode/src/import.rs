//! Checkpoints of other programs: which layout a file has, what sizes its tensors tell, and the network they make.
//!
//! | what | recognised by |
//! |---|---|
//! | the training checkpoints of the graded-relevance paper's authors | `audio_proj.` and `text_proj.` |
//! | the Lightning checkpoints of the 2024 challenge's winner | `project_audio.` and `project_sentence.` |
//! | a PaSST state dict | `time_new_pos_embed`, and no projection |
//! | an MN of EfficientAT | `features.16.0.weight` |
//! | a Hugging Face folder of RoBERTa | `config.json` |
//! | a Sentence-Transformers folder | `modules.json` |
//!
//! Sizes are read off the tensors' shapes. What cannot be: the number of attention heads, which in every published model is
//! the width divided by 64; the stride of the patches where several give the same grid; the norms' epsilon, which is that
//! of the published models. A tensor that is
//! missing, misshapen or unknown is an error that names all of them.

use std::cell::RefCell;
use std::path::Path;

use burn::tensor::Device;
use hark_audio::MelConfig;

use crate::card::{AudioCard, Card, ClipLength, Origin, TextCard, VERSION};
use crate::checkpoint::Checkpoint;
use crate::dual::{DualEncoder, Side, SideConfig};
use crate::hugging_face;
use crate::model::AudioEncoder;
use crate::model_key::file_sha256;
use crate::sentence::SentenceFolder;
use crate::tokenize;
use crate::towers::bert::Family;
use crate::towers::mn::MnConfig;
use crate::towers::passt::{PasstConfig, Patchout};
use crate::towers::roberta::RobertaConfig;
use crate::towers::{AudioConfig, AudioTower, TextConfig, TextTower, Tower};
use crate::weights::{Init, TensorSource, Weights, ZeroInit};
use crate::{Compute, Error};

/// What a file cannot tell of itself.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Heads of the audio tower.
    pub audio_heads: Option<usize>,
    /// Heads of the text tower.
    pub text_heads: Option<usize>,
    /// Stride of the audio tower's patches.
    pub stride: Option<usize>,
    /// Which segments of a clip count; by default as the layout's own program does.
    pub clip: Option<ClipLength>,
    /// Length of a segment in seconds; by default the most that the tower hears at once.
    pub segment_seconds: Option<f64>,
    /// At how many tokens texts are cut; by default as the layout's own program does.
    pub max_tokens: Option<usize>,
    /// Terms of use, for the card.
    pub licence: Option<String>,
    /// What the model was trained on, for the card.
    pub training_data: Vec<String>,
}

/// A model that was read from elsewhere.
#[derive(Debug)]
pub struct Imported {
    /// Its network.
    pub network: DualEncoder,
    /// Its card.
    pub card: Card,
    /// Its tokenizer, as the text of a `tokenizer.json`.
    pub tokenizer: Option<String>,
    /// Tensors of the file that no tower uses, known as such.
    pub unused: Vec<String>,
}

/// How a program names the parts of its checkpoints.
struct Layout {
    name: &'static str,
    audio_projection: Option<&'static str>,
    text_projection: Option<&'static str>,
    /// Known and unused, by the beginnings of their names; those of the towers are added.
    unused: &'static [&'static str],
    clip: ClipLength,
    strip_punctuation: bool,
    lower_case: bool,
    max_tokens: Option<usize>,
    dropout: f32,
}

const AUTHORS: Layout = Layout {
    name: "the authors' training checkpoint",
    audio_projection: Some("audio_proj."),
    text_projection: Some("text_proj."),
    unused: &["audio_encoder.model.device_proxy"],
    clip: ClipLength::Fixed { seconds: 30.0 },
    strip_punctuation: false,
    lower_case: false,
    max_tokens: Some(32),
    dropout: 0.2,
};

const WINNER: Layout = Layout {
    name: "the 2024 challenge winner's Lightning checkpoint",
    audio_projection: Some("project_audio."),
    text_projection: Some("project_sentence."),
    unused: &[
        "tau",
        "timing_tau",
        "audio_token",
        "posencode.",
        "audio_output_projection.",
    ],
    clip: ClipLength::Begun,
    strip_punctuation: true,
    lower_case: true,
    max_tokens: Some(32),
    dropout: 0.2,
};

const TOWERS_ALONE: Layout = Layout {
    name: "towers without projections",
    audio_projection: None,
    text_projection: None,
    unused: &["device_proxy"],
    clip: ClipLength::Full,
    strip_punctuation: false,
    lower_case: false,
    max_tokens: None,
    dropout: 0.1,
};

/// Reads a checkpoint file or a model folder of another program. `tokenizer` is a folder with a `tokenizer.json`, or with
/// `vocab.json` and `merges.txt`; a model folder brings its own.
///
/// # Errors
/// If the layout is not known, or tensors are missing, misshapen or unknown, or the tokenizer is missing or does not fit.
pub fn import(
    path: &Path,
    tokenizer: Option<&Path>,
    options: &Options,
    compute: &Compute,
) -> Result<Imported, Error> {
    if path.is_dir() {
        folder(path, tokenizer, options, compute.device())
    } else {
        file(path, tokenizer, options, compute)
    }
}

fn folder(
    path: &Path,
    tokenizer: Option<&Path>,
    options: &Options,
    device: &Device,
) -> Result<Imported, Error> {
    let (network, max_tokens, lower_case, layout) = if path.join("modules.json").is_file() {
        let folder = SentenceFolder::open(path)?;
        let config = TextConfig::Sentence(folder.config().clone());
        (
            config,
            folder.max_tokens(),
            folder.lower_case(),
            "a Sentence-Transformers folder",
        )
    } else {
        let config_path = path.join("config.json");
        let config = hugging_face::read_config(&config_path)?;
        if config.family != Family::Roberta {
            return Err(Error::Unsupported {
                path: config_path,
                what: format!("a {:?} without a pooling of its own", config.family),
                supported: "RoBERTa folders, Sentence-Transformers folders",
            });
        }
        let roberta = RobertaConfig {
            vocabulary: config.vocabulary,
            positions: config.positions,
            width: config.width,
            hidden: config.hidden,
            layers: config.layers,
            heads: config.heads,
            epsilon: config.epsilon,
            types: config.types,
            dropout: config.dropout,
            attention_dropout: config.attention_dropout,
        };
        let tokens = config.max_tokens();
        (
            TextConfig::Roberta(roberta),
            tokens,
            false,
            "a Hugging Face folder",
        )
    };
    let weights = ["model.safetensors", "pytorch_model.bin"]
        .map(|name| path.join(name))
        .into_iter()
        .find(|path| path.is_file())
        .ok_or_else(|| Error::MissingFile {
            path: path.join("model.safetensors"),
        })?;
    let side = SideConfig {
        network,
        projection: Vec::new(),
    };
    let file = Checkpoint::open(&weights)?;
    let prefix = hugging_face::prefix(&file);
    let unused = hugging_face::unused(prefix);
    let unused: Vec<&str> = unused.iter().map(String::as_str).collect();
    let build = |weights: &dyn Weights| {
        let source = TensorSource::new(weights, prefix, device);
        Side::<TextTower>::build(&side, &source, &source)
    };
    compare(&file, &unused, &|weights| build(weights).map(|_| ()))?;
    let text = build(&file)?;
    let left: Vec<String> = file.untaken().map(ToOwned::to_owned).collect();
    file.finish(&unused)?;
    let [vocabulary, _] = text.tower.max_input();
    let text_card = TextCard {
        side,
        max_tokens: options.max_tokens.unwrap_or(max_tokens).min(max_tokens),
        strip_punctuation: false,
        lower_case,
    };
    let tokenizer = tokenize::read_folder(tokenizer.unwrap_or(path), text_card.max_tokens, vocabulary)?;
    let network = DualEncoder {
        audio: None,
        text: Some(text),
    };
    let card = card(None, Some(text_card), &weights, layout, options)?;
    Ok(Imported {
        network,
        card,
        tokenizer: Some(tokenizer),
        unused: left,
    })
}

fn file(
    path: &Path,
    tokenizer: Option<&Path>,
    options: &Options,
    compute: &Compute,
) -> Result<Imported, Error> {
    let device = compute.device();
    let file = Checkpoint::open(path)?;
    let parts = Parts::of(&file, options)?;
    let unused = parts.unused(&file);
    let unused: Vec<&str> = unused.iter().map(String::as_str).collect();
    compare(&file, &unused, &|weights| {
        parts.build(weights, device).map(|_| ())
    })?;
    let network = parts.build(&file, device)?;
    let left: Vec<String> = file.untaken().map(ToOwned::to_owned).collect();
    file.finish(&unused)?;

    let layout = parts.layout;
    let audio = parts.audio.map(|(_, side)| AudioCard {
        front_end: MelConfig::default(),
        segment_seconds: options
            .segment_seconds
            .unwrap_or_else(|| segment_seconds(&side.network)),
        side,
        clip: options.clip.unwrap_or(layout.clip),
        labels: Vec::new(),
    });
    let text = parts.text.map(|(_, config, projection)| {
        let max_input = config.network().max_tokens();
        TextCard {
            max_tokens: options
                .max_tokens
                .or(layout.max_tokens)
                .unwrap_or(max_input)
                .min(max_input),
            side: SideConfig {
                network: TextConfig::Roberta(config),
                projection,
            },
            strip_punctuation: layout.strip_punctuation,
            lower_case: layout.lower_case,
        }
    });
    let tokenizer = match (&text, tokenizer) {
        (None, _) => None,
        (Some(card), Some(folder)) => {
            let [vocabulary, _] = network
                .text
                .as_ref()
                .map_or([0; 2], |side| side.tower.max_input());
            Some(tokenize::read_folder(folder, card.max_tokens, vocabulary)?)
        }
        (Some(_), None) => {
            return Err(Error::NoTokenizer {
                path: path.to_owned(),
            });
        }
    };
    let card = card(audio, text, path, layout.name, options)?;
    if let (Some(side), Some(card)) = (&network.audio, &card.audio) {
        // That front end and tower fit each other shows here, not when the model is first used.
        AudioEncoder::new(side.clone(), card.clone(), compute)?;
    }
    Ok(Imported {
        network,
        card,
        tokenizer,
        unused: left,
    })
}

/// What a file holds: each tower's prefix, and the sizes that its tensors tell.
struct Parts {
    layout: Layout,
    audio: Option<(String, SideConfig<AudioConfig>)>,
    text: Option<(String, RobertaConfig, Vec<usize>)>,
}

impl Parts {
    fn of(file: &Checkpoint, options: &Options) -> Result<Self, Error> {
        let has = |prefix: &str| file.names().any(|name| name.starts_with(prefix));
        let layout = [AUTHORS, WINNER]
            .into_iter()
            .find(|layout| {
                let projections = [layout.audio_projection, layout.text_projection];
                projections.into_iter().flatten().all(has)
            })
            .unwrap_or(TOWERS_ALONE);
        let prefix_of = |ending: &str| {
            let prefix = file.names().find_map(|name| name.strip_suffix(ending));
            prefix.map(ToOwned::to_owned)
        };
        let mut parts = Self {
            audio: None,
            text: None,
            layout,
        };
        if let Some(prefix) = prefix_of("time_new_pos_embed") {
            let side = SideConfig {
                network: AudioConfig::Passt(passt_sizes(file, &prefix, options)?),
                projection: projection_widths(file, parts.layout.audio_projection),
            };
            parts.audio = Some((prefix, side));
        }
        if let Some(prefix) = prefix_of(MN_LAST).filter(|_| parts.audio.is_none()) {
            let side = SideConfig {
                network: AudioConfig::Mn(mn_sizes(file, &prefix)?),
                projection: projection_widths(file, parts.layout.audio_projection),
            };
            parts.layout.clip = ClipLength::Unpadded;
            parts.audio = Some((prefix, side));
        }
        if let Some(prefix) = prefix_of("embeddings.word_embeddings.weight") {
            let config = roberta_sizes(file, &prefix, options, parts.layout.dropout)?;
            let projection = projection_widths(file, parts.layout.text_projection);
            parts.text = Some((prefix, config, projection));
        }
        if parts.audio.is_none() && parts.text.is_none() {
            return Err(Error::Unsupported {
                path: file.path().to_owned(),
                what: format!(
                    "a checkpoint of {} tensors without a tower that is known",
                    file.names().count()
                ),
                supported: "PaSST, MN, RoBERTa, the dual encoders of the paper's authors and of the 2024 challenge's winner",
            });
        }
        Ok(parts)
    }

    /// Known and unused tensors, by the beginnings of their names.
    fn unused(&self, file: &Checkpoint) -> Vec<String> {
        let mut unused: Vec<String> = self.layout.unused.iter().map(ToString::to_string).collect();
        match &self.audio {
            Some((at, side)) if matches!(side.network, AudioConfig::Passt(_)) => {
                unused.extend([format!("{at}head."), format!("{at}head_dist.")]);
            }
            Some((_, side)) if matches!(side.network, AudioConfig::Mn(_)) => {
                let counters = file.names().filter(|name| name.ends_with(".num_batches_tracked"));
                unused.extend(counters.map(ToOwned::to_owned));
            }
            _ => {}
        }
        if let Some((at, ..)) = &self.text {
            unused.extend([
                format!("{at}embeddings.position_ids"),
                format!("{at}pooler."),
                "lm_head.".to_owned(),
            ]);
        }
        unused
    }

    fn build(&self, weights: &dyn Weights, device: &Device) -> Result<DualEncoder, Error> {
        let at = |prefix: &str| TensorSource::new(weights, prefix, device);
        let projection = |prefix: Option<&str>| at(prefix.unwrap_or_default());
        let audio = self
            .audio
            .as_ref()
            .map(|(prefix, side)| {
                Side::<AudioTower>::build(side, &at(prefix), &projection(self.layout.audio_projection))
            })
            .transpose()?;
        let text = self
            .text
            .as_ref()
            .map(|(prefix, config, widths)| {
                let side = SideConfig {
                    network: TextConfig::Roberta(config.clone()),
                    projection: widths.clone(),
                };
                Side::<TextTower>::build(&side, &at(prefix), &projection(self.layout.text_projection))
            })
            .transpose()?;
        Ok(DualEncoder { audio, text })
    }
}

fn card(
    audio: Option<AudioCard>,
    text: Option<TextCard>,
    file: &Path,
    layout: &str,
    options: &Options,
) -> Result<Card, Error> {
    let card = Card {
        version: VERSION,
        written_by: concat!("hark ", env!("CARGO_PKG_VERSION")).to_owned(),
        audio,
        text,
        sentence: None,
        origin: vec![Origin {
            file: file
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            sha256: file_sha256(file)?,
            layout: layout.to_owned(),
        }],
        training_data: options.training_data.clone(),
        metrics: std::collections::BTreeMap::new(),
        licence: options.licence.clone(),
        warnings: Vec::new(),
    };
    card.check().map_err(|what| Error::Config {
        path: file.to_owned(),
        what,
    })?;
    Ok(card)
}

/// The longest segment of whole seconds that the tower's time table reaches: 10 s for most, 20 and 30 for some.
fn segment_seconds(config: &AudioConfig) -> f64 {
    let AudioConfig::Passt(config) = config else {
        return 10.0;
    };
    let mel = MelConfig::default();
    let max_input = (config.max_frames() * mel.hop) as f64 / f64::from(mel.rate);
    if max_input < 1.0 {
        max_input
    } else {
        max_input.floor()
    }
}

/// A size of a tensor, for a configuration that is then checked as a whole.
fn size(file: &Checkpoint, name: &str, dimension: usize) -> Result<usize, Error> {
    let shape = file.shape(name)?;
    shape.get(dimension).copied().ok_or_else(|| Error::Config {
        path: file.path().to_owned(),
        what: format!("tensor `{name}` has shape {shape:?}"),
    })
}

/// How many parts `PREFIX 0 ENDING`, `PREFIX 1 ENDING`, ... there are.
fn count(file: &Checkpoint, name: impl Fn(usize) -> String) -> usize {
    // There cannot be more of them than tensors.
    (0..file.names().count())
        .take_while(|&nth| file.contains(&name(nth)))
        .count()
}

fn heads(file: &Checkpoint, width: usize, given: Option<usize>, option: &str) -> Result<usize, Error> {
    /// Width of a head in every published model of these families.
    const HEAD: usize = 64;
    match given {
        Some(heads) => Ok(heads),
        None if width.is_multiple_of(HEAD) => Ok(width / HEAD),
        None => Err(Error::Config {
            path: file.path().to_owned(),
            what: format!(
                "a tower {width} wide, which is no multiple of {HEAD}: how many heads it has is not in the file; give {option}"
            ),
        }),
    }
}

fn passt_sizes(file: &Checkpoint, at: &str, options: &Options) -> Result<PasstConfig, Error> {
    let size = |name: &str, dimension| size(file, &format!("{at}{name}"), dimension);
    let width = size("time_new_pos_embed", 1)?;
    let rows = size("freq_new_pos_embed", 2)?;
    let patch = size("patch_embed.proj.weight", 2)?;
    let mels = MelConfig::default().mels;
    let config = |stride| PasstConfig {
        mels,
        patch,
        stride,
        ..PasstConfig::small()
    };
    // The strides of the published variants, the most usual first.
    let fits = |stride: &usize| patch <= mels && config(*stride).rows() == rows;
    let stride = match options.stride {
        Some(stride) if stride > 0 => stride,
        _ => [16, 10, 12, 14, 20]
            .into_iter()
            .find(fits)
            .ok_or_else(|| Error::Config {
                path: file.path().to_owned(),
                what: format!(
                    "{rows} rows of patches of {patch}: no stride that is known gives that; give --stride"
                ),
            })?,
    };
    let layers = count(file, |nth| format!("{at}blocks.{nth}.norm1.weight"));
    Ok(PasstConfig {
        columns: size("time_new_pos_embed", 3)?,
        width,
        hidden: size("blocks.0.mlp.fc1.weight", 0)?,
        layers,
        heads: heads(file, width, options.audio_heads, "--audio-heads")?,
        patchout: if width == PasstConfig::small().width {
            PasstConfig::small().patchout
        } else {
            Patchout::default()
        },
        ..config(stride)
    })
}

/// The convolution behind the blocks, which all MN have.
const MN_LAST: &str = "features.16.0.weight";

/// Every size of an MN shows in the shapes of its tensors.
fn mn_sizes(file: &Checkpoint, at: &str) -> Result<MnConfig, Error> {
    let size = |name: &str| size(file, &format!("{at}{name}"), 0);
    let blocks = (1..=15).map(|nth| {
        // A block ends with a convolution; the depthwise one has one input for each channel.
        let name = |part: usize| format!("features.{nth}.block.{part}.0.weight");
        let layers: Vec<String> = (0..4)
            .map(name)
            .filter(|name| file.contains(&format!("{at}{name}")))
            .collect();
        let (Some(first), Some(last)) = (layers.first(), layers.last()) else {
            return Err(Error::Config {
                path: file.path().to_owned(),
                what: format!("an MN without a block {nth}"),
            });
        };
        Ok([size(first)?, size(last)?])
    });
    let has_classes = file.contains(&format!("{at}classifier.5.weight"));
    let of_classes = |name: &str| if has_classes { size(name) } else { Ok(0) };
    Ok(MnConfig {
        stem: size("features.0.0.weight")?,
        blocks: blocks.collect::<Result<_, _>>()?,
        last: size(MN_LAST)?,
        hidden: of_classes("classifier.2.weight")?,
        classes: of_classes("classifier.5.weight")?,
        ..MnConfig::of_width(1.0)
    })
}

fn roberta_sizes(
    file: &Checkpoint,
    at: &str,
    options: &Options,
    dropout: f32,
) -> Result<RobertaConfig, Error> {
    let size = |name: &str, dimension| size(file, &format!("{at}{name}"), dimension);
    let width = size("embeddings.word_embeddings.weight", 1)?;
    let types = size("embeddings.token_type_embeddings.weight", 0)?;
    if types != 1 {
        // BERT has the same names, but counts positions and divides by deviations in another way.
        return Err(Error::Unsupported {
            path: file.path().to_owned(),
            what: format!("a text tower with {types} token types, as BERT has"),
            supported: "RoBERTa, which has one",
        });
    }
    Ok(RobertaConfig {
        vocabulary: size("embeddings.word_embeddings.weight", 0)?,
        positions: size("embeddings.position_embeddings.weight", 0)?,
        width,
        hidden: size("encoder.layer.0.intermediate.dense.weight", 0)?,
        layers: count(file, |nth| {
            format!("{at}encoder.layer.{nth}.attention.self.query.weight")
        }),
        heads: heads(file, width, options.text_heads, "--text-heads")?,
        epsilon: 1e-5,
        types,
        dropout,
        attention_dropout: dropout,
    })
}

/// Widths of the layers `PREFIX 0`, `PREFIX 2`, ...
fn projection_widths(file: &Checkpoint, prefix: Option<&str>) -> Vec<usize> {
    let Some(prefix) = prefix else {
        return Vec::new();
    };
    (0..)
        .map_while(|nth| {
            let shape = file.shape(&format!("{prefix}{}.weight", 2 * nth)).ok()?;
            shape.first().copied()
        })
        .collect()
}

/// Notes what a network asks for, and gives it zeros.
struct Wanted {
    tensors: RefCell<Vec<(String, Vec<usize>)>>,
    blank: ZeroInit,
}

impl Weights for Wanted {
    fn numbers(&self, name: &str, shape: &[usize], start: Init) -> Result<Vec<f32>, Error> {
        self.tensors.borrow_mut().push((name.to_owned(), shape.to_vec()));
        self.blank.numbers(name, shape, start)
    }

    fn is_blank(&self, name: &str, shape: &[usize]) -> Result<bool, Error> {
        self.tensors.borrow_mut().push((name.to_owned(), shape.to_vec()));
        self.blank.is_blank(name, shape)
    }
}

/// That the file has what the network asks for, in shape, and nothing else: all faults at once.
fn compare(
    file: &Checkpoint,
    unused: &[&str],
    build: &dyn Fn(&dyn Weights) -> Result<(), Error>,
) -> Result<(), Error> {
    /// Room for tensors that are missing or of another shape.
    const SLACK: usize = 1 << 24;
    let wanted = Wanted {
        tensors: RefCell::default(),
        blank: ZeroInit::within(file.parameters().saturating_add(SLACK)),
    };
    let built = build(&wanted);
    let wanted = wanted.tensors.into_inner();
    let mut missing = Vec::new();
    let mut misshapen = Vec::new();
    for (name, shape) in &wanted {
        match file.shape(name) {
            Err(_) => missing.push(name.clone()),
            Ok(got) if got != shape.as_slice() => {
                misshapen.push(format!("{name} {got:?} instead of {shape:?}"));
            }
            Ok(_) => {}
        }
    }
    let mut unexpected: Vec<String> = file
        .names()
        .filter(|name| {
            !unused.iter().any(|prefix| name.starts_with(prefix))
                && !wanted.iter().any(|(wanted, _)| wanted == name)
        })
        .map(ToOwned::to_owned)
        .collect();
    if built.is_err() {
        // Sizes that contradict each other end the asking, and what was not asked for is then no fault of the file.
        unexpected.clear();
    }
    if missing.is_empty() && misshapen.is_empty() && unexpected.is_empty() {
        return built;
    }
    Err(Error::Mismatch {
        path: file.path().to_owned(),
        missing,
        misshapen,
        unexpected,
    })
}
