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
//!
//! A study trains several runs, some of them at the same time ([`Trainings`]): memory, disk and hours are those of all of them.

mod data;
mod machine;
mod report;
mod steps;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hark_corpus::DatasetConfig;
use hark_encode::Compute;
use hark_encode::sentence::{CachedSentenceEncoder, SentenceModel};
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
/// The file by which the folder of a rehearsal is known; it is locked while one is at work.
const MARK: &str = ".hark-rehearsal";

/// What is rehearsed.
pub struct Rehearsal<'a> {
    /// The training. Its run's folder is not touched; `resume` means nothing.
    pub training: Training<'a>,
    /// All trainings that it stands for.
    pub trainings: Trainings,
    /// Why the recipe's device cannot be used, if it cannot; then `training.compute` is the CPU and no step is taken.
    pub device: Option<String>,
    /// Where memory and disk are asked for.
    pub machine: Machine<'a>,
}

/// The trainings that a rehearsal stands for, all like the one that is rehearsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trainings {
    /// How many.
    pub count: u64,
    /// How many at the same time; each has as many threads as the one that is rehearsed.
    pub at_a_time: u64,
    /// What a finished one leaves on the disk while others train.
    pub kept: Kept,
    /// Whether they begin although test recordings are missing.
    pub allow_missing: bool,
}

impl Trainings {
    /// One training alone.
    pub const ONE: Self = Self {
        count: 1,
        at_a_time: 1,
        kept: Kept::All,
        allow_missing: false,
    };
}

/// What a finished training leaves on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// The checkpoint, both models and the embeddings of its captions.
    All,
    /// The best model.
    Model,
    /// No weights.
    Nothing,
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
    /// How many of them train at the same time.
    pub at_a_time: u64,
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
#[derive(Debug)]
struct Scratch {
    folder: PathBuf,
    /// The first folder above it that was not there before.
    top: PathBuf,
    /// Keeps other rehearsals of the run out; a process that dies lets go of it.
    _lock: std::fs::File,
}

impl Scratch {
    /// The folder beside the run's.
    fn of(run: &Path) -> Result<PathBuf, Error> {
        // From its components, so that `runs/x/` is not taken for the folder `runs/x/.rehearsal`.
        let run: PathBuf = std::path::absolute(run)?.components().collect();
        let mut name = run.into_os_string();
        name.push(".rehearsal");
        Ok(PathBuf::from(name))
    }

    fn beside(run: &Path) -> Result<Self, Error> {
        let folder = Self::of(run)?;
        let mark = folder.join(MARK);
        let is_empty = |folder: &Path| Ok::<_, Error>(fs_err::read_dir(folder)?.next().is_none());
        if folder.exists() && !mark.is_file() && !(folder.is_dir() && is_empty(&folder)?) {
            return Err(Error::NotARehearsal { path: folder });
        }
        let missing = folder.ancestors().take_while(|folder| !folder.exists()).last();
        let top = missing.unwrap_or(&folder).to_owned();
        fs_err::create_dir_all(&folder)?;
        let lock = fs_err::File::create(&mark)?.into_file();
        match lock.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(Error::InUse { path: folder }),
            Err(std::fs::TryLockError::Error(error)) => return Err(error.into()),
        }
        // What one that was killed has left.
        for entry in fs_err::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs_err::remove_dir_all(entry.path())?;
            } else if entry.file_name() != MARK {
                fs_err::remove_file(entry.path())?;
            }
        }
        Ok(Self {
            folder,
            top,
            _lock: lock,
        })
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
/// If the recipe cannot be, or the folder beside the run's cannot be made; [`Error::InUse`] if another process rehearses the run;
/// [`Error::Cancelled`] if `on_event` asks to stop. What a training would lack or fail with is no error but a [`Finding`].
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
        trainings: trainings.count,
        at_a_time: trainings.at_a_time,
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
    let allow_missing = trainings.allow_missing;
    let looked = look_at_data(
        &training,
        allow_missing,
        &scratch.folder,
        &mut rehearsed,
        on_event,
    )?;
    let Some(splits) = looked else {
        return Ok(rehearsed);
    };
    let original = training.recipe.clone();
    let has_sides = find_weights(&mut training.recipe, training.models, &mut rehearsed)
        && fill_sides(&mut training, &mut rehearsed.findings);
    rehearsed.teacher = teacher(
        &mut training,
        &splits.train,
        &scratch.folder,
        &mut rehearsed.findings,
        on_event,
    )?;
    if has_sides && device.is_none() {
        let prepared = prepare(&mut training, &splits, &scratch.folder);
        let remedy = "make room, or fix what it names";
        if let Some(tokenizer) = or_finding(prepared, Kind::Training, remedy, &mut rehearsed.findings)? {
            let stage = steps::Stage {
                training: &training,
                tokenizer: tokenizer.as_deref(),
                folder: &scratch.folder,
                run: run_folder,
                machine,
                free_memory: rehearsed.free_memory,
                at_a_time: trainings.at_a_time,
                clips: clips_of_steps(&training.recipe, &splits),
                validated: VALIDATED.min(splits.validation.sample.len()),
            };
            let taken = steps::take(&stage, &mut rehearsed.findings, on_event);
            rehearsed.steps = or_finding(taken, Kind::Training, remedy, &mut rehearsed.findings)?.flatten();
        }
    }
    if let Some(steps) = &rehearsed.steps {
        let held = report::Held::of(training.cache, training.embeddings);
        let estimate = Estimate::of(&original, &rehearsed, steps, trainings, held);
        if let Some(estimate) = &estimate {
            let disks = report::Disks {
                run: run_folder,
                cache: training.cache,
                // What the rehearsal has written is gone when the trainings begin.
                passing: bytes_below(&scratch.folder).unwrap_or(0),
                machine,
            };
            estimate.check_disk(disks, &mut rehearsed.findings);
        }
        rehearsed.estimate = estimate;
    }
    Ok(rehearsed)
}

/// An error as a finding, so that the rehearsal goes on; a wish to stop stays an error.
fn or_finding<T>(
    result: Result<T, Error>,
    kind: Kind,
    remedy: &str,
    findings: &mut Vec<Finding>,
) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::Cancelled) => Err(Error::Cancelled),
        Err(error) => {
            findings.push(Finding {
                kind,
                what: files::explain(&error),
                remedy: remedy.to_owned(),
            });
            Ok(None)
        }
    }
}

/// Takes the sides from the model that the training starts from, if the recipe has none; says whether there are both then.
fn fill_sides(training: &mut Training<'_>, findings: &mut Vec<Finding>) -> bool {
    let Err(error) = network::fill_sides(&mut training.recipe, training.models.folder) else {
        return true;
    };
    // Together with the sides of that model, the recipe says something that cannot be.
    let is_recipe = matches!(error, Error::Option { .. });
    findings.push(Finding {
        kind: if is_recipe { Kind::Training } else { Kind::Weights },
        what: format!("training.init-from: {}", files::explain(&error)),
        remedy: if is_recipe {
            "change the recipe as it says; no step was tried".into()
        } else {
            "start from a model with both sides, such as the best/ of a run; no step was tried".into()
        },
    });
    false
}

/// Writes the small data and, where none comes with weights, a tokenizer.
fn prepare(training: &mut Training<'_>, splits: &Splits, folder: &Path) -> Result<Option<PathBuf>, Error> {
    training.recipe.data = small_data(&training.recipe, splits, folder)?;
    tokenizer(training, &splits.train, folder)
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

/// Looks at all splits; nothing if one can neither be read nor generated.
fn look_at_data(
    training: &Training<'_>,
    allow_missing: bool,
    folder: &Path,
    rehearsed: &mut Rehearsed,
    on_event: OnEvent<'_>,
) -> Result<Option<Splits>, Error> {
    let recipe = &training.recipe;
    let progress = preparing("sampled recordings", on_event);
    let making = preparing("generated clips", on_event);
    let data = &recipe.data;
    let look = |part, sets, sample, may_miss| Look {
        part,
        sets,
        sample,
        may_miss,
        strict: data.strict,
        threads: training.workers,
        progress: &progress,
    };
    // A clip has several captions, and a batch as many of one clip as of another.
    let needed = items(recipe);
    let mut one = |how: Look<'_>, clips: usize| -> Result<Option<Looked>, Error> {
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
        let looked = if found.is_some() {
            found
        } else {
            let how = Look {
                progress: &making,
                ..how
            };
            let folder = folder.join("generated");
            data::generated(recipe, how, clips, &folder, &mut rehearsed.findings)?
        };
        let report = looked.as_ref().map(|looked| looked.report.clone());
        rehearsed.splits.extend(report);
        Ok(looked)
    };
    let train = one(look("data.train", &data.train, needed.max(DECODED), 0), needed)?;
    let validation = one(look("data.validation", &data.validation, DECODED, 0), VALIDATED)?;
    if !data.test.is_empty() || recipe.soundscapes.is_some() {
        let may_miss = if allow_missing {
            usize::MAX
        } else {
            data.max_missing_test
        };
        one(look("data.test", &data.test, DECODED, may_miss), 1)?;
    }
    Ok(train
        .zip(validation)
        .map(|(train, validation)| Splits { train, validation }))
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

/// Embeds captions as the training will, into a cache that is thrown away. If the encoder cannot, the built-in one stands in.
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
    let (models, compute) = (training.models, training.compute);
    let embed = |name: &str| {
        let model = (models.sentence_encoder)(name)?;
        embed_captions(model, name, compute, train, folder, on_event)
    };
    let error = match embed(&objective.sentence_encoder) {
        Ok(report) => return Ok(Some(report)),
        Err(Error::Cancelled) => return Err(Error::Cancelled),
        Err(error) => error,
    };
    let name = &objective.sentence_encoder;
    let remedy = match error {
        Error::Encode(hark_encode::Error::DeviceBroke { .. }) => {
            "free memory of the device, or train on another --device".to_owned()
        }
        _ => format!("get it with hark models pull {name}"),
    };
    findings.push(Finding {
        kind: Kind::SentenceEncoder,
        what: files::explain(&error),
        remedy: format!("{remedy}; {BUILT_IN} stands in"),
    });
    BUILT_IN.clone_into(&mut objective.sentence_encoder);
    match embed(BUILT_IN) {
        Err(Error::Cancelled) => Err(Error::Cancelled),
        // That there is no encoder is told already.
        Err(_) => Ok(None),
        Ok(report) => Ok(Some(TeacherReport {
            stands_in: true,
            ..report
        })),
    }
}

/// Embeds the first captions, and says how long one takes.
fn embed_captions(
    model: SentenceModel,
    name: &str,
    compute: &Compute,
    train: &Looked,
    folder: &Path,
    on_event: OnEvent<'_>,
) -> Result<TeacherReport, Error> {
    let cache = folder.join("embeddings");
    let dim = model.dim();
    let mut encoder = CachedSentenceEncoder::open(model, Some(&cache), compute)?;
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
    Ok(TeacherReport {
        name: name.to_owned(),
        captions: captions.len(),
        caption_seconds: began.elapsed().as_secs_f64() / rest.len().max(1) as f64,
        dim,
        stands_in: false,
    })
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
