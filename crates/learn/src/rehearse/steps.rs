//! Three steps of the real trainer, a checkpoint that is gone on from, and a validation.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use hark_work::files;
use hark_work::progress::counted;
use hark_work::workers::lock;
use serde::Serialize;

use super::machine::{Machine, watched};
use super::report::gigabytes;
use super::{Finding, Kind};
use crate::Error;
use crate::recipe::Recipe;
use crate::run::{BEST, CHECKPOINT};
use crate::train::{Training, train};
use crate::trainer::{OnEvent, Step, TrainEvent};

/// Bytes of memory that a trained number takes at least: itself, its gradient, two moments.
const BYTES_TRAINED: u64 = 16;
/// Bytes of a run for each number: two checkpoints while one is replaced, of the number and two moments, and three models.
const BYTES_ON_DISK: u64 = 2 * 12 + 3 * 4;
/// Pairs of the first step's chunks, and of the second's.
const FIRST_CHUNKS: [usize; 2] = [2, 4];

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepsReport {
    /// Pairs of a batch.
    pub pairs: usize,
    /// Pairs that went through the towers at a time in the last step.
    pub chunk: usize,
    /// Seconds of each step.
    pub seconds: Vec<f64>,
    /// The share of the last step in which the trainer waited for recordings.
    pub waited: f64,
    /// Numbers that are trained.
    pub parameters: usize,
    /// Bytes of memory that the process took at most beyond what it had before.
    pub peak_memory: Option<u64>,
    /// Bytes that steps of the recipe's own chunk take: measured, or computed where they were not tried.
    pub needed_memory: Option<u64>,
    /// How long writing the checkpoint took.
    pub save_seconds: f64,
    /// How long it took from starting again to the next step.
    pub resume_seconds: f64,
    /// Bytes of the checkpoint.
    pub checkpoint_bytes: u64,
    /// Bytes of a model.
    pub model_bytes: u64,
    /// Clips of the validation.
    pub validated: usize,
    /// Seconds of one of them, with its captions.
    pub validation_seconds: f64,
    /// Bytes of the cache of decoded recordings and features for each clip.
    pub cache_bytes: u64,
}

/// What the steps are taken with.
pub(super) struct Stage<'a> {
    /// With the small data.
    pub(super) training: &'a Training<'a>,
    pub(super) tokenizer: Option<&'a Path>,
    /// For everything that is written.
    pub(super) folder: &'a Path,
    /// The real run's.
    pub(super) run: &'a Path,
    pub(super) machine: Machine<'a>,
    pub(super) free_memory: Option<u64>,
    /// Clips that are read.
    pub(super) clips: usize,
    /// Clips that are validated.
    pub(super) validated: usize,
}

/// What was seen of a training.
#[derive(Default)]
struct Seen {
    ready: Option<Instant>,
    parameters: usize,
    steps: Vec<Step>,
    last_step: Option<Instant>,
    validation: Option<(Instant, f64)>,
    refused: Option<Finding>,
    cancelled: bool,
}

/// Takes the steps; nothing if that cannot be, with a finding.
pub(super) fn take(
    stage: &Stage<'_>,
    findings: &mut Vec<Finding>,
    on_event: OnEvent<'_>,
) -> Result<Option<StepsReport>, Error> {
    let recipe = &stage.training.recipe;
    let batch = recipe.training.batch;
    let own = recipe.training.chunk.unwrap_or(batch).min(batch);
    let before = (stage.machine.used_memory)();
    let is_seen = before.is_some() && stage.training.compute.is_cpu();
    let mut memory = Memory {
        own,
        floor: 0,
        points: Vec::new(),
    };
    let mut chunk = if is_seen && can_chunk(recipe) {
        own.min(FIRST_CHUNKS[0])
    } else {
        own
    };
    let seen = Mutex::new(Seen::default());
    let mut peak: Option<u64> = None;
    let (mut save_seconds, mut resume_seconds) = (0.0, 0.0);
    let mut is_memory_told = false;
    for leg in 0.. {
        let goes_up = is_seen && chunk < own && !is_memory_told;
        let stop_after = (leg == 0 || goes_up).then(|| lock(&seen).steps.len() + 1);
        // What the last leg kept for its next step is of no use to this one.
        hark_kernels::release_memory();
        let began = Instant::now();
        lock(&seen).ready = None;
        let (result, most) = watched(stage.machine, || {
            one_leg(stage, chunk, leg, stop_after, &seen, on_event)
        });
        peak = peak.max(most);
        let mut seen = lock(&seen);
        if let (true, Some(ready)) = (leg > 0, seen.ready) {
            resume_seconds = ready.duration_since(began).as_secs_f64();
        }
        match result {
            Err(Error::Cancelled) if seen.cancelled => return Err(Error::Cancelled),
            Err(Error::Cancelled) => {
                if let Some(refused) = seen.refused.take() {
                    findings.push(refused);
                    return Ok(None);
                }
                save_seconds = seen.last_step.map_or(0.0, |at| at.elapsed().as_secs_f64());
            }
            Err(error) => {
                findings.push(failed(&error, recipe, own));
                return Ok(None);
            }
            Ok(()) => break,
        }
        memory.floor = seen.parameters as u64 * BYTES_TRAINED;
        if let (Some(most), Some(before)) = (most, before) {
            memory.points.push((chunk, most.saturating_sub(before)));
        }
        if goes_up {
            let next = memory.next(stage.free_memory);
            is_memory_told = next.is_smaller;
            chunk = next.chunk;
        }
    }
    let seen = seen
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let peak_memory = peak.zip(before).map(|(peak, before)| peak.saturating_sub(before));
    let needed_memory = if chunk == own { peak_memory } else { memory.at(own) }.filter(|_| is_seen);
    if let (Some(needed), Some(free)) = (needed_memory, stage.free_memory)
        && needed > free
    {
        findings.push(memory.finding(recipe, needed, free));
    }
    let run = stage.folder.join("run");
    let last = seen.steps.last();
    let took = last.map_or(0.0, |step| step.took.as_secs_f64());
    Ok(Some(StepsReport {
        pairs: batch,
        chunk,
        seconds: seen.steps.iter().map(|step| step.took.as_secs_f64()).collect(),
        waited: last.map_or(0.0, |step| step.waited.as_secs_f64()) / took.max(1e-9),
        parameters: seen.parameters,
        peak_memory,
        needed_memory,
        save_seconds,
        resume_seconds,
        checkpoint_bytes: fs_err::metadata(run.join(CHECKPOINT))?.len(),
        model_bytes: bytes_below(&run.join(BEST))?,
        validated: stage.validated,
        validation_seconds: seen.validation.map_or(0.0, |(_, seconds)| seconds)
            / stage.validated.max(1) as f64,
        cache_bytes: bytes_below(&stage.folder.join("cache"))? / stage.clips.max(1) as u64,
    }))
}

/// Whether batches of the recipe can go through the towers in chunks.
fn can_chunk(recipe: &Recipe) -> bool {
    let mut chunked = recipe.clone();
    chunked.training.chunk = Some(FIRST_CHUNKS[0]);
    chunked.check().is_ok()
}

/// Trains on from where the last leg stopped, and stops once so many steps are taken in all.
fn one_leg(
    stage: &Stage<'_>,
    chunk: usize,
    leg: usize,
    stop_after: Option<usize>,
    seen: &Mutex<Seen>,
    on_event: OnEvent<'_>,
) -> Result<(), Error> {
    let mut recipe = stage.training.recipe.clone();
    let is_whole = recipe.training.chunk.is_none() && chunk == recipe.training.batch;
    recipe.training.chunk = (!is_whole).then_some(chunk);
    recipe.training.epochs = 1;
    recipe.training.checkpoint_steps = None;
    recipe.training.checkpoint_minutes = 1e9;
    let run = stage.folder.join("run");
    let cache = stage.folder.join("cache");
    let embeddings = stage.folder.join("embeddings");
    let training = Training {
        recipe,
        run: &run,
        resume: leg > 0,
        tokenizer: stage.tokenizer,
        cache: stage.training.cache.map(|_| cache.as_path()),
        embeddings: Some(&embeddings),
        // It was compared before the first leg.
        unchecked: stage.training.unchecked || leg > 0,
        ..stage.training.clone()
    };
    let watch = |event: TrainEvent<'_>| {
        let stops = lock(seen).note(&event, stage, stop_after);
        let is_cancelled = on_event(event).is_break();
        lock(seen).cancelled |= is_cancelled;
        if stops || is_cancelled {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    train(training, &watch).map(|_| ())
}

impl Seen {
    /// Takes note of an event, and says whether the training is to stop.
    fn note(&mut self, event: &TrainEvent<'_>, stage: &Stage<'_>, stop_after: Option<usize>) -> bool {
        match event {
            TrainEvent::Ready { parameters, .. } => {
                self.ready = Some(Instant::now());
                self.parameters = *parameters;
                self.refused = refused(*parameters as u64, stage);
                self.refused.is_some()
            }
            TrainEvent::Step(step) => {
                self.steps.push(*step);
                self.last_step = Some(Instant::now());
                stop_after.is_some_and(|steps| self.steps.len() >= steps)
            }
            TrainEvent::Validating { .. } => {
                self.validation.get_or_insert((Instant::now(), 0.0));
                false
            }
            TrainEvent::Epoch(_) => {
                if let Some((began, seconds)) = &mut self.validation {
                    *seconds = began.elapsed().as_secs_f64();
                }
                false
            }
            TrainEvent::Preparing { .. } | TrainEvent::Skipped { .. } => false,
        }
    }
}

/// What the number of parameters alone tells, before anything that large is tried.
fn refused(parameters: u64, stage: &Stage<'_>) -> Option<Finding> {
    let least = parameters * BYTES_TRAINED;
    if let Some(free) = stage
        .free_memory
        .filter(|&free| stage.training.compute.is_cpu() && free < least)
    {
        return Some(Finding {
            kind: Kind::Memory,
            what: format!(
                "{} of memory are free, and weights, gradients and moments alone take {}; no step was tried",
                gigabytes(free),
                gigabytes(least)
            ),
            remedy: "free memory, take a larger machine, or freeze a tower with training.freeze".into(),
        });
    }
    let (needed, free) = (parameters * BYTES_ON_DISK, (stage.machine.free_disk)(stage.run)?);
    (free < needed).then(|| Finding {
        kind: Kind::Disk,
        what: format!(
            "{} are free below {}, and a run takes {} while it replaces its checkpoint; no step was tried",
            gigabytes(free),
            stage.run.display(),
            gigabytes(needed)
        ),
        remedy: "make room, or name another folder with --run (hark reproduce: --folder)".into(),
    })
}

fn failed(error: &Error, recipe: &Recipe, chunk: usize) -> Finding {
    let is_device = matches!(error, Error::DeviceBroke { .. });
    Finding {
        kind: if matches!(error, Error::DeviceFailed { .. }) {
            Kind::Device
        } else {
            Kind::Training
        },
        what: files::explain(error),
        remedy: if is_device {
            format!(
                "if its memory was full, set training.chunk={}{}",
                (chunk / 2).max(1),
                if recipe.training.gradient_checkpointing {
                    ""
                } else {
                    " or training.gradient-checkpointing=true"
                }
            )
        } else {
            "the training would end here as well; change what it names".into()
        },
    }
}

/// Memory by the pairs of a chunk.
struct Memory {
    /// The recipe's chunk.
    own: usize,
    /// What it takes without any pair.
    floor: u64,
    /// Chunks that were tried, and what they took.
    points: Vec<(usize, u64)>,
}

/// What to try next.
#[derive(Debug, PartialEq)]
struct Next {
    chunk: usize,
    /// Whether it is not the recipe's, which does not fit.
    is_smaller: bool,
}

impl Memory {
    /// What a chunk takes, on the line through what was measured; through the floor and one point, while there is one.
    fn at(&self, chunk: usize) -> Option<u64> {
        let (&(first, least), &(last, most)) = (self.points.first()?, self.points.last()?);
        let (fixed, each) = if first == last {
            (
                self.floor.min(least),
                least.saturating_sub(self.floor) / first.max(1) as u64,
            )
        } else {
            let each = most.saturating_sub(least) / (last - first) as u64;
            (least.saturating_sub(each * first as u64), each)
        };
        Some(fixed + each * chunk as u64)
    }

    fn fits(&self, chunk: usize, free: u64) -> bool {
        self.at(chunk).is_none_or(|needed| needed <= free)
    }

    fn next(&self, free: Option<u64>) -> Next {
        let tried = self.points.last().map_or(0, |point| point.0);
        if tried < FIRST_CHUNKS[1]
            && FIRST_CHUNKS[1] < self.own
            && free.is_none_or(|free| self.fits(FIRST_CHUNKS[1], free))
        {
            return Next {
                chunk: FIRST_CHUNKS[1],
                is_smaller: false,
            };
        }
        match free {
            Some(free) if !self.fits(self.own, free) => Next {
                chunk: self.fitting(free).unwrap_or(tried).max(1),
                is_smaller: true,
            },
            _ => Next {
                chunk: self.own,
                is_smaller: false,
            },
        }
    }

    /// The largest power of two below the recipe's chunk that fits.
    fn fitting(&self, free: u64) -> Option<usize> {
        let chunks = (0..usize::BITS - 1)
            .map(|power| 1 << power)
            .take_while(|&chunk| chunk < self.own);
        chunks.filter(|&chunk| self.fits(chunk, free)).last()
    }

    fn finding(&self, recipe: &Recipe, needed: u64, free: u64) -> Finding {
        let less = match self
            .fitting(free)
            .and_then(|chunk| Some((chunk, self.at(chunk)?)))
        {
            Some((chunk, needed)) => {
                format!("--set training.chunk={chunk} takes about {}", gigabytes(needed))
            }
            None => "no chunk fits; free memory, or take a larger machine".to_owned(),
        };
        let recompute = if recipe.training.gradient_checkpointing {
            ""
        } else {
            "; --set training.gradient-checkpointing=true takes less, too"
        };
        Finding {
            kind: Kind::Memory,
            what: format!(
                "steps with chunks of {} take {} of memory, and {} are free",
                counted(self.own, "pair"),
                gigabytes(needed),
                gigabytes(free)
            ),
            remedy: format!("{less}{recompute}"),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    fn memory(own: usize, points: &[(usize, u64)]) -> Memory {
        Memory {
            own,
            floor: 7 * GB,
            points: points.to_vec(),
        }
    }

    #[test]
    fn memory_goes_up_only_as_far_as_it_fits() {
        let at = |chunk, is_smaller| Next { chunk, is_smaller };
        // Two pairs take one gigabyte.
        let one = memory(32, &[(2, 8 * GB)]);
        assert_eq!(one.at(4), Some(9 * GB));
        assert_eq!(one.next(Some(30 * GB)), at(4, false));
        assert_eq!(one.next(None), at(4, false));
        // Four pairs would not fit: nothing larger is tried.
        assert_eq!(one.next(Some(8 * GB)), at(2, true));
        let two = memory(32, &[(2, 8 * GB), (4, 9 * GB)]);
        assert_eq!(two.at(32), Some(23 * GB));
        assert_eq!(two.next(Some(30 * GB)), at(32, false));
        assert_eq!(two.next(Some(12 * GB)), at(8, true));
        assert_eq!(two.next(None), at(32, false));
        assert_eq!(memory(3, &[(2, 8 * GB)]).next(Some(9 * GB)), at(3, false));
    }

    #[test]
    fn the_chunk_that_fits_is_named() {
        let recipe = crate::network::tests::recipe(&[]);
        let finding = memory(32, &[(2, 8 * GB), (4, 9 * GB)]).finding(&recipe, 23 * GB, 12 * GB);
        assert!(
            finding.what.contains("23.0 GB") && finding.what.contains("12.0 GB"),
            "{finding:?}"
        );
        assert!(
            finding.remedy.contains("training.chunk=8 takes about 11.0 GB"),
            "{finding:?}"
        );
        let none = memory(32, &[(2, 8 * GB)]).finding(&recipe, 23 * GB, GB);
        assert!(none.remedy.contains("no chunk fits"), "{none:?}");
    }
}
