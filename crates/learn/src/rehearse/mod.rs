//! A rehearsal: everything that a training needs is looked at, and some of it done at its real size, before days of computing.
//!
//! In: a training, and what the machine has left. Out: a [`Rehearsed`]: what was measured, what the whole will take, and all that
//! is missing, not only the first of it. Recordings are there and a sample decodes; captions are embedded by the sentence
//! encoder; three steps are taken with whole batches by the trainer itself ([`crate::trainer`]), over a table of sampled
//! clips; the checkpoint is written, read back and gone on from; a small split is validated. Where data are missing, generated
//! clips of the right lengths stand in; where weights are missing, random ones of the real sizes. All files are below one folder
//! beside the run's, which is removed.
//!
//! Memory is found by going up: the first step takes the batch through the towers in chunks of 2 pairs, the second in chunks of 4,
//! and what the recipe's own chunk will take follows. If that is more than is free, the largest chunk that fits is named and
//! tried instead. On other devices than the CPU the memory of the device is not seen: a step that does not fit fails there.

mod data;
mod machine;
mod report;
mod steps;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hark_corpus::DatasetConfig;
use hark_encode::sentence::CachedSentenceEncoder;
use hark_encode::tokenize::Kind as TokenizerKind;
use hark_work::files;
use hark_work::progress::Progress;
use serde::Serialize;

pub use self::data::SplitReport;
use self::data::{Look, Looked};
pub use self::machine::Machine;
pub use self::report::Estimate;
pub use self::steps::StepsReport;
use crate::recipe::{EpochOver, Recipe};
use crate::train::{Models, Training};
use crate::trainer::{OnEvent, TrainEvent};
use crate::{Error, network};

/// Steps that are taken.
const STEPS: usize = 3;
/// Captions that the sentence encoder embeds.
const CAPTIONS: usize = 200;
/// Of these, the first ones: their time is that of reading the encoder.
const WARM_UP: usize = 8;
/// Clips of the validation.
const VALIDATED: usize = 16;
/// Clips of the other splits that are decoded at least.
const DECODED: usize = 32;
/// What stands in where the sentence encoder is missing.
const BUILT_IN: &str = "caption-static";
/// The file by which the folder of a rehearsal is known.
const MARK: &str = ".hark-rehearsal";

/// What is rehearsed.
pub struct Rehearsal<'a> {
    /// The training. Its run's folder is not touched; `resume` means nothing.
    pub training: Training<'a>,
    /// Trainings like this one, one after the other, of which each keeps a model.
    pub trainings: u64,
    /// Why the recipe's device cannot be used, if it cannot; then `training.compute` is the CPU and no step is taken.
    pub device: Option<String>,
    /// Where memory and disk are asked for.
    pub machine: Machine<'a>,
}

/// What kind of thing is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A dataset or its captions.
    Dataset,
    /// Recordings that are not there or do not decode.
    Recording,
    /// Weights that the recipe starts from.
    Weights,
    /// The sentence encoder.
    SentenceEncoder,
    /// The device.
    Device,
    /// Memory.
    Memory,
    /// Room on a disk.
    Disk,
    /// The training itself failed.
    Training,
}

/// Something that is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What kind of thing.
    pub kind: Kind,
    /// What was found, in words.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

/// The sentence encoder at work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TeacherReport {
    /// Its name.
    pub name: String,
    /// Captions that were embedded.
    pub captions: usize,
    /// How long one took, once the encoder was read.
    pub caption_seconds: f64,
    /// Numbers of an embedding.
    pub dim: usize,
    /// Whether the built-in encoder stands in for it.
    pub stands_in: bool,
}

/// What a rehearsal has found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rehearsed {
    /// The recipe's name.
    pub recipe: String,
    /// The device.
    pub device: String,
    /// Threads that compute.
    pub threads: usize,
    /// Trainings of the whole.
    pub trainings: u64,
    /// All that is missing.
    pub findings: Vec<Finding>,
    /// The splits.
    pub splits: Vec<SplitReport>,
    /// Models for which random weights stand in.
    pub random_weights: Vec<String>,
    /// The sentence encoder, if the objective needs one.
    pub teacher: Option<TeacherReport>,
    /// Bytes of memory that were free at the beginning.
    pub free_memory: Option<u64>,
    /// The steps, if they could be taken.
    pub steps: Option<StepsReport>,
    /// What the whole will take.
    pub estimate: Option<Estimate>,
}

impl Rehearsed {
    /// Whether nothing is missing.
    pub fn is_ready(&self) -> bool {
        self.findings.is_empty()
    }
}

/// The folder of a rehearsal, and with it all that it has made, until this is dropped.
struct Scratch {
    folder: PathBuf,
    /// The first folder above it that was not there before.
    top: PathBuf,
}

impl Scratch {
    fn beside(run: &Path) -> Result<Self, Error> {
        let mut name = std::path::absolute(run)?.into_os_string();
        name.push(".rehearsal");
        let folder = PathBuf::from(name);
        if folder.exists() {
            // One that was killed has left it.
            if !folder.join(MARK).is_file() {
                return Err(Error::NotARehearsal { path: folder });
            }
            fs_err::remove_dir_all(&folder)?;
        }
        let missing = folder.ancestors().take_while(|folder| !folder.exists()).last();
        let top = missing.unwrap_or(&folder).to_owned();
        fs_err::create_dir_all(&folder)?;
        let scratch = Self { folder, top };
        files::write(&scratch.folder.join(MARK), b"")?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed stays; there is nobody to tell.
        let _ = std::fs::remove_dir_all(&self.folder);
        for folder in self.folder.ancestors().skip(1) {
            // A folder that another process has put something into stays as well.
            if !folder.starts_with(&self.top) || std::fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }
}

/// Rehearses a training.
///
/// # Errors
/// If the recipe cannot be, or the folder beside the run's cannot be written; [`Error::Cancelled`] if `on_event` asks to stop.
/// What a training would lack is no error but a [`Finding`].
pub fn rehearse(rehearsal: Rehearsal<'_>, on_event: OnEvent<'_>) -> Result<Rehearsed, Error> {
    let Rehearsal {
        mut training,
        trainings,
        device,
        machine,
    } = rehearsal;
    training.recipe.study = None;
    training.recipe.check()?;
    let scratch = Scratch::beside(training.run)?;
    let run_folder = training.run;
    let mut rehearsed = Rehearsed {
        recipe: training.recipe.name.clone(),
        device: training.recipe.training.device.to_string(),
        threads: training.compute.threads(),
        trainings,
        findings: Vec::new(),
        splits: Vec::new(),
        random_weights: Vec::new(),
        teacher: None,
        free_memory: (machine.free_memory)(),
        steps: None,
        estimate: None,
    };
    rehearsed.findings.extend(device.as_ref().map(|what| Finding {
        kind: Kind::Device,
        what: what.clone(),
        remedy: "hark devices lists what can be used here".into(),
    }));
    let splits = look_at_data(&training, &scratch.folder, &mut rehearsed, on_event)?;
    let original = training.recipe.clone();
    let has_sides = find_weights(&mut training.recipe, training.models, &mut rehearsed);
    rehearsed.teacher = teacher(
        &mut training,
        &splits.train,
        &scratch.folder,
        &mut rehearsed.findings,
        on_event,
    )?;
    let is_known = has_sides && network::fill_sides(&mut training.recipe, training.models.folder).is_ok();
    if is_known && device.is_none() {
        training.recipe.data = small_data(&training.recipe, &splits, &scratch.folder)?;
        let stored = tokenizer(&training, &splits.train, &scratch.folder)?;
        let stage = steps::Stage {
            training: &training,
            tokenizer: stored.as_deref(),
            folder: &scratch.folder,
            run: run_folder,
            machine,
            free_memory: rehearsed.free_memory,
            at_a_time: 1,
            clips: clips_of_steps(&training.recipe, &splits),
            validated: VALIDATED.min(splits.validation.sample.len()),
        };
        rehearsed.steps = steps::take(&stage, &mut rehearsed.findings, on_event)?;
    }
    if let Some(steps) = &rehearsed.steps {
        let estimate = Estimate::of(&original, &rehearsed, steps);
        if let Some(estimate) = &estimate {
            estimate.check_disk(run_folder, training.cache, machine, &mut rehearsed.findings);
        }
        rehearsed.estimate = estimate;
    }
    Ok(rehearsed)
}

/// Bytes of all files below a folder; 0 if there is none.
fn bytes_below(folder: &Path) -> Result<u64, Error> {
    let mut bytes = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        if !folder.is_dir() {
            continue;
        }
        for entry in fs_err::read_dir(folder)? {
            let entry = entry?;
            let about = entry.metadata()?;
            if about.is_dir() {
                folders.push(entry.path());
            } else {
                bytes += about.len();
            }
        }
    }
    Ok(bytes)
}

/// What the splits of the rehearsal are taken from.
struct Splits {
    train: Looked,
    validation: Looked,
}

/// Pairs or clips of the steps that are taken.
fn items(recipe: &Recipe) -> usize {
    let training = &recipe.training;
    STEPS
        .saturating_mul(training.batch)
        .saturating_mul(training.gradient_accumulation as usize)
}

/// Clips that steps and validation read.
fn clips_of_steps(recipe: &Recipe, splits: &Splits) -> usize {
    let pairs = splits.train.pairs(items(recipe));
    let clips: std::collections::HashSet<usize> = pairs
        .iter()
        .map(|&pair| splits.train.data.pairs[pair].clip)
        .collect();
    clips.len() + VALIDATED.min(splits.validation.sample.len())
}

fn preparing<'a>(
    what: &'static str,
    on_event: OnEvent<'a>,
) -> impl Fn(u64, u64) -> ControlFlow<()> + Sync + 'a {
    move |done, total| on_event(TrainEvent::Preparing { what, done, total })
}

fn look_at_data(
    training: &Training<'_>,
    folder: &Path,
    rehearsed: &mut Rehearsed,
    on_event: OnEvent<'_>,
) -> Result<Splits, Error> {
    let recipe = &training.recipe;
    let progress = preparing("sampled recordings", on_event);
    let making = preparing("generated clips", on_event);
    let data = &recipe.data;
    let look = |part, sets, sample, may_miss| Look {
        part,
        sets,
        sample,
        may_miss,
        threads: training.workers,
        progress: &progress,
    };
    // A clip has several captions, and a batch as many of one clip as of another.
    let needed = items(recipe);
    let mut one = |how: Look<'_>, clips: usize| -> Result<Looked, Error> {
        let found = if how.sets.is_empty() {
            if recipe.soundscapes.is_none() {
                rehearsed.findings.push(Finding {
                    kind: Kind::Dataset,
                    what: format!("{}: the recipe names no dataset", how.part),
                    remedy: "add one to the recipe, or a [soundscapes] section".into(),
                });
            }
            None
        } else {
            data::look(how, &mut rehearsed.findings)?
        };
        let looked = if let Some(looked) = found {
            looked
        } else {
            let how = Look {
                progress: &making,
                ..how
            };
            data::generated(recipe, how, clips, &folder.join("generated"))?
        };
        rehearsed.splits.push(looked.report.clone());
        Ok(looked)
    };
    let train = one(look("data.train", &data.train, needed.max(DECODED), 0), needed)?;
    let validation = one(look("data.validation", &data.validation, DECODED, 0), VALIDATED)?;
    if !data.test.is_empty() || recipe.soundscapes.is_some() {
        one(look("data.test", &data.test, DECODED, data.max_missing_test), 1)?;
    }
    Ok(Splits { train, validation })
}

/// Takes names of weights that are not there out of the recipe. Says whether the sizes of both sides are known.
fn find_weights(recipe: &mut Recipe, models: Models<'_>, rehearsed: &mut Rehearsed) -> bool {
    let mut missing = |key: &str, name: &mut Option<String>| {
        let Some(wanted) = name.clone() else {
            return false;
        };
        let Err(error) = (models.folder)(&wanted) else {
            return false;
        };
        rehearsed.findings.push(Finding {
            kind: Kind::Weights,
            what: format!("{key}: {}", files::explain(&error)),
            remedy: format!(
                "get them with hark models pull {wanted} if they are published, or else with \
                 hark models import FILE --name {wanted}; random weights of the same sizes stand in"
            ),
        });
        rehearsed.random_weights.push(wanted);
        *name = None;
        true
    };
    if let Some(audio) = &mut recipe.audio {
        missing("audio.weights", &mut audio.weights);
    }
    if let Some(text) = &mut recipe.text {
        missing("text.weights", &mut text.weights);
    }
    if missing("training.init-from", &mut recipe.training.init_from) {
        recipe.training.reinitialize.clear();
    }
    recipe.training.init_from.is_some() || recipe.audio.is_some()
}

/// Embeds captions as the training will, into a cache that is thrown away.
fn teacher(
    training: &mut Training<'_>,
    train: &Looked,
    folder: &Path,
    findings: &mut Vec<Finding>,
    on_event: OnEvent<'_>,
) -> Result<Option<TeacherReport>, Error> {
    let objective = &mut training.recipe.objective;
    if !objective.needs_teacher() {
        return Ok(None);
    }
    let opened = (training.models.sentence_encoder)(&objective.sentence_encoder);
    let (model, stands_in) = match opened {
        Ok(model) => (model, false),
        Err(error) => {
            let name = &objective.sentence_encoder;
            findings.push(Finding {
                kind: Kind::SentenceEncoder,
                what: files::explain(&error),
                remedy: format!("get it with hark models pull {name}; {BUILT_IN} stands in"),
            });
            BUILT_IN.clone_into(&mut objective.sentence_encoder);
            ((training.models.sentence_encoder)(BUILT_IN)?, true)
        }
    };
    let cache = folder.join("embeddings");
    let dim = model.dim();
    let mut encoder = CachedSentenceEncoder::open(model, Some(&cache), training.compute)?;
    let pairs = &train.data.pairs;
    let captions: Vec<&str> = pairs
        .iter()
        .take(CAPTIONS)
        .map(|pair| pair.caption.as_str())
        .collect();
    let (first, rest) = captions.split_at(WARM_UP.min(captions.len() / 2));
    let progress: Progress<'_> = &preparing("captions", on_event);
    let mut embed = |captions: &[&str]| match encoder.embed(captions, progress) {
        Ok(_) => Ok(()),
        Err(hark_encode::Error::Cancelled) => Err(Error::Cancelled),
        Err(other) => Err(other.into()),
    };
    embed(first)?;
    let began = Instant::now();
    embed(rest)?;
    Ok(Some(TeacherReport {
        name: objective.sentence_encoder.clone(),
        captions: captions.len(),
        caption_seconds: began.elapsed().as_secs_f64() / rest.len().max(1) as f64,
        dim,
        stands_in,
    }))
}

/// The recipe's data, with tables of the sample for train and validation.
fn small_data(recipe: &Recipe, splits: &Splits, folder: &Path) -> Result<crate::recipe::Data, Error> {
    let wanted = items(recipe);
    let train = match recipe.training.epoch_over {
        EpochOver::Pairs => splits.train.pairs(wanted),
        EpochOver::Clips => splits.train.pairs(wanted.min(splits.train.sample.len())),
    };
    let table = |looked, pairs: &[usize], name: &str| -> Result<Vec<DatasetConfig>, Error> {
        Ok(vec![data::table(looked, pairs, folder.join(name))?])
    };
    let validation = splits.validation.pairs_of(VALIDATED);
    Ok(crate::recipe::Data {
        train: table(&splits.train, &train, "train.csv")?,
        validation: table(&splits.validation, &validation, "validation.csv")?,
        test: Vec::new(),
        strict: false,
        shuffle_captions: false,
        ..recipe.data.clone()
    })
}

/// A tokenizer where none comes with weights, trained on all captions: the sizes of the network are then the real ones.
fn tokenizer(training: &Training<'_>, train: &Looked, folder: &Path) -> Result<Option<PathBuf>, Error> {
    let mut recipe = training.recipe.clone();
    let is_fresh = network::is_part("text.tower", &recipe.training.reinitialize);
    let has_start = recipe.training.init_from.is_some() && !is_fresh;
    let Some(text) = recipe
        .text
        .as_mut()
        .filter(|text| text.weights.is_none() && !has_start)
    else {
        return Ok(None);
    };
    text.train_tokenizer.get_or_insert(TokenizerKind::Bpe);
    let captions: Vec<&str> = train
        .data
        .pairs
        .iter()
        .map(|pair| pair.caption.as_str())
        .collect();
    let tokenizer = network::tokenizer(&mut recipe, &captions, None, training.models.folder)?;
    let path = folder.join("tokenizer.json");
    files::write(&path, tokenizer.as_bytes())?;
    Ok(Some(path))
}

#[cfg(test)]
mod tests;
