//! Three steps of the real trainer, a checkpoint that is gone on from, and a validation.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use hark_work::files;
use hark_work::progress::counted;
use hark_work::workers::lock;
use serde::Serialize;

use super::machine::{Machine, Peak, watched};
use super::report::gigabytes;
use super::{Finding, Kind, bytes_below};
use crate::Error;
use crate::recipe::{self, Recipe};
use crate::run::{BEST, CHECKPOINT};
use crate::train::{Training, train};
use crate::trainer::{OnEvent, Step, TrainEvent};

/// Bytes of memory that a trained number takes at least: itself, its gradient, two moments.
const BYTES_TRAINED: u64 = 16;
/// Bytes of its two moments, which a training has from the end of its first step.
const BYTES_MOMENTS: u64 = 8;
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
    /// The recipe's own chunk, or the whole batch.
    pub recipe_chunk: usize,
    /// Seconds of each step.
    pub seconds: Vec<f64>,
    /// The share of the last step in which the trainer waited for recordings.
    pub waited: f64,
    /// Numbers that are trained.
    pub parameters: usize,
    /// Bytes of memory that the process took at most beyond what it had before.
    pub peak_memory: Option<u64>,
    /// Bytes that steps of the recipe's own chunk take.
    pub needed_memory: Option<u64>,
    /// Whether these were measured; else the recipe's own chunk was not tried, and they follow from the last one that was.
    pub memory_is_measured: bool,
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
    /// Trainings at the same time, which share the memory.
    pub(super) at_a_time: u64,
    /// Clips that are read.
    pub(super) clips: usize,
    /// Clips that are validated.
    pub(super) validated: usize,
}

impl Stage<'_> {
    /// What is free for each training of those at the same time.
    fn free_for_each(&self) -> Option<u64> {
        self.free_memory.map(|free| free / self.at_a_time.max(1))
    }
}

/// What was seen of a training.
#[derive(Default)]
struct Seen {
    ready: Option<Instant>,
    parameters: usize,
    steps: Vec<Step>,
    last_step: Option<Instant>,
    /// The most memory of this leg's steps, without what reading and writing checkpoints takes.
    step_peak: Option<u64>,
    validation_seconds: f64,
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
        training: &recipe.training,
        own,
        parameters: 0,
        last: None,
    };
    let mut chunk = if is_seen && can_chunk(recipe) {
        own.min(FIRST_CHUNKS[0])
    } else {
        own
    };
    let free = stage.free_for_each();
    let seen = Mutex::new(Seen::default());
    let mut peak: Option<u64> = None;
    let (mut save_seconds, mut resume_seconds) = (0.0, 0.0);
    let mut is_memory_told = false;
    let mut tried = chunk;
    for leg in 0.. {
        let goes_up = is_seen && chunk < own && !is_memory_told;
        let steps_before = lock(&seen).steps.len();
        let stop_after = (leg == 0 || goes_up).then_some(steps_before + 1);
        // What the last leg kept for its next step is of no use to this one.
        hark_kernels::release_memory();
        let began = Instant::now();
        lock(&seen).ready = None;
        let (result, most) = watched(stage.machine, |peak| {
            one_leg(stage, (chunk, leg), stop_after, (&seen, peak), on_event)
        });
        peak = peak.max(most);
        let mut seen = lock(&seen);
        if let (true, Some(ready)) = (leg > 0, seen.ready) {
            resume_seconds = ready.duration_since(began).as_secs_f64();
        }
        memory.parameters = seen.parameters as u64;
        // Of few data, the last leg may have had no step left to take.
        if seen.steps.len() > steps_before {
            tried = chunk;
            let bytes = seen.step_peak.zip(before).filter(|_| is_seen);
            memory.last = bytes.map(|(most, before)| Point {
                chunk,
                bytes: most.saturating_sub(before),
                has_moments: leg > 0,
            });
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
                findings.push(failed(error, recipe, own));
                return Ok(None);
            }
            Ok(()) => break,
        }
        if goes_up {
            let next = memory.next(free);
            is_memory_told = next.is_smaller;
            chunk = next.chunk;
        }
    }
    let seen = seen
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let peak_memory = peak.zip(before).map(|(peak, before)| peak.saturating_sub(before));
    let needed_memory = memory.needed(peak_memory);
    if let (Some(needed), Some(free)) = (needed_memory, free)
        && needed > free
    {
        findings.push(memory.finding(needed, free, stage.at_a_time));
    }
    let run = stage.folder.join("run");
    let last = seen.steps.last();
    let took = last.map_or(0.0, |step| step.took.as_secs_f64());
    Ok(Some(StepsReport {
        pairs: batch,
        chunk: tried,
        recipe_chunk: own,
        seconds: seen.steps.iter().map(|step| step.took.as_secs_f64()).collect(),
        waited: last.map_or(0.0, |step| step.waited.as_secs_f64()) / took.max(1e-9),
        parameters: seen.parameters,
        peak_memory,
        needed_memory,
        memory_is_measured: memory.is_measured(),
        save_seconds,
        resume_seconds,
        checkpoint_bytes: fs_err::metadata(run.join(CHECKPOINT))?.len(),
        model_bytes: bytes_below(&run.join(BEST))?,
        validated: stage.validated,
        validation_seconds: seen.validation_seconds / stage.validated.max(1) as f64,
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
    (chunk, leg): (usize, usize),
    stop_after: Option<usize>,
    (seen, peak): (&Mutex<Seen>, &Peak<'_>),
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
        match event {
            TrainEvent::Ready { .. } => peak.begin(),
            TrainEvent::Step(_) => lock(seen).step_peak = peak.of_part(),
            _ => {}
        }
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
                self.step_peak = None;
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
                self.validating(Instant::now());
                false
            }
            TrainEvent::Epoch(_) | TrainEvent::Preparing { .. } | TrainEvent::Skipped { .. } => false,
        }
    }

    /// A clip of the validation is done. Captions come before clips and have no events: the validation began with the end of the
    /// last step, or when a leg without steps was ready. What is saved after it is not part of it.
    fn validating(&mut self, now: Instant) {
        let began = self.ready.max(self.last_step).unwrap_or(now);
        self.validation_seconds = now.duration_since(began).as_secs_f64();
    }
}

/// What the number of parameters alone tells, before anything that large is tried.
fn refused(parameters: u64, stage: &Stage<'_>) -> Option<Finding> {
    let least = parameters * BYTES_TRAINED;
    if let Some(free) = stage
        .free_for_each()
        .filter(|&free| stage.training.compute.is_cpu() && free < least)
    {
        return Some(Finding {
            kind: Kind::Memory,
            what: format!(
                "weights, gradients and moments alone need {}, and {} of memory is free{}; no step was tried",
                gigabytes(least),
                gigabytes(free),
                for_each(stage.at_a_time)
            ),
            remedy: format!(
                "free memory, take a larger machine, {}or freeze a tower with training.freeze",
                fewer_jobs(stage.at_a_time)
            ),
        });
    }
    let needed = parameters * BYTES_ON_DISK * stage.at_a_time.max(1);
    let free = (stage.machine.free_disk)(stage.run)?;
    (free < needed).then(|| Finding {
        kind: Kind::Disk,
        what: format!(
            "{} {}; {} has {} free; no step was tried",
            match stage.at_a_time {
                0 | 1 => "a run that replaces its checkpoint needs".to_owned(),
                several => format!("{several} runs at a time that replace their checkpoints need"),
            },
            gigabytes(needed),
            stage.run.display(),
            gigabytes(free)
        ),
        remedy: "make room, or name another folder with --run (hark reproduce: --folder)".into(),
    })
}

/// Said of free memory where trainings share it.
fn for_each(at_a_time: u64) -> String {
    match at_a_time {
        0 | 1 => String::new(),
        several => format!(" for each of {several} trainings at a time"),
    }
}

fn fewer_jobs(at_a_time: u64) -> &'static str {
    if at_a_time > 1 { "lower --jobs, " } else { "" }
}

fn failed(error: Error, recipe: &Recipe, chunk: usize) -> Finding {
    // The run of a rehearsal is thrown away: there is no checkpoint to continue from.
    let error = match error {
        Error::DeviceBroke {
            device,
            breakdown,
            what,
            ..
        } => Error::DeviceBroke {
            device,
            breakdown,
            what,
            saved: None,
        },
        other => other,
    };
    let is_device = matches!(error, Error::DeviceBroke { .. });
    Finding {
        kind: if matches!(error, Error::DeviceFailed { .. }) {
            Kind::Device
        } else {
            Kind::Training
        },
        what: files::explain(&error),
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
            "the training would fail with the same error; fix what it names".into()
        },
    }
}

/// Memory by the pairs of a chunk: so many bytes for each trained number, and more for each pair.
///
/// The bytes of a number differ from step to step: the first step gets its moments when it ends, the others have them from
/// their beginning, and a batch in chunks holds one set of gradients more than a whole one. A line through two steps would
/// take that difference for the memory of pairs. So what a pair takes follows from the last step alone.
struct Memory<'a> {
    training: &'a recipe::Training,
    /// The recipe's chunk.
    own: usize,
    /// Numbers that are trained.
    parameters: u64,
    /// The last chunk that was tried.
    last: Option<Point>,
}

/// A chunk that was tried.
#[derive(Clone, Copy)]
struct Point {
    chunk: usize,
    /// What its step took.
    bytes: u64,
    /// Whether the optimizer had its moments already.
    has_moments: bool,
}

/// What to try next.
#[derive(Debug, PartialEq)]
struct Next {
    chunk: usize,
    /// Whether it is not the recipe's, which does not fit.
    is_smaller: bool,
}

impl Memory<'_> {
    /// What trained numbers take in a step of this chunk, whatever its pairs: themselves, the sum of their gradients, their
    /// moments; one more set of gradients, of the chunk that is added to the sum, and one of earlier batches of the step.
    fn fixed(&self, chunk: usize, has_moments: bool) -> u64 {
        let training = self.training;
        // With blocks computed again, a chunk's gradients are added block by block.
        let of_chunk = chunk < training.batch && !training.gradient_checkpointing;
        let of_batches = training.gradient_accumulation > 1;
        let moments = if has_moments { BYTES_MOMENTS } else { 0 };
        let bytes =
            BYTES_TRAINED - BYTES_MOMENTS + moments + 4 * (u64::from(of_chunk) + u64::from(of_batches));
        self.parameters * bytes
    }

    /// What a chunk takes, from the last point alone.
    fn at(&self, chunk: usize) -> Option<u64> {
        let point = self.last?;
        let pairs = point
            .bytes
            .saturating_sub(self.fixed(point.chunk, point.has_moments));
        let each = pairs / point.chunk.max(1) as u64;
        Some(self.fixed(chunk, true) + each * chunk as u64)
    }

    /// Whether the recipe's own chunk was tried, with everything that a step takes.
    fn is_measured(&self) -> bool {
        self.last
            .is_some_and(|point| point.chunk == self.own && point.has_moments)
    }

    /// What a training takes: the most that was seen, or more if the steps of the recipe's own chunk, which was not tried, do.
    fn needed(&self, peak: Option<u64>) -> Option<u64> {
        self.last?;
        if self.is_measured() {
            peak
        } else {
            peak.max(self.at(self.own))
        }
    }

    fn fits(&self, chunk: usize, free: u64) -> bool {
        self.at(chunk).is_none_or(|needed| needed <= free)
    }

    fn next(&self, free: Option<u64>) -> Next {
        let tried = self.last.map_or(0, |point| point.chunk);
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

    fn finding(&self, needed: u64, free: u64, at_a_time: u64) -> Finding {
        let less = match self
            .fitting(free)
            .and_then(|chunk| Some((chunk, self.at(chunk)?)))
        {
            Some((chunk, needed)) => {
                format!("--set training.chunk={chunk} takes about {}", gigabytes(needed))
            }
            None => format!(
                "no chunk fits; free memory, {}or take a larger machine",
                fewer_jobs(at_a_time)
            ),
        };
        let recompute = if self.training.gradient_checkpointing {
            ""
        } else {
            "; --set training.gradient-checkpointing=true takes less, too"
        };
        Finding {
            kind: Kind::Memory,
            what: format!(
                "chunks of {} need {} of memory; {} is free{}",
                counted(self.own, "pair"),
                gigabytes(needed),
                gigabytes(free),
                for_each(at_a_time)
            ),
            remedy: format!("{less}{recompute}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const GB: u64 = 1_000_000_000;

    /// Half a billion numbers, a batch of 32 pairs: eleven GB whatever the pairs, in chunks, from the second step.
    fn memory(recipe: &Recipe, own: usize, last: (usize, u64), has_moments: bool) -> Memory<'_> {
        Memory {
            training: &recipe.training,
            own,
            parameters: GB / 2,
            last: Some(Point {
                chunk: last.0,
                bytes: last.1,
                has_moments,
            }),
        }
    }

    fn recipe(set: &[&str]) -> Recipe {
        let own = ["training.batch=32", "training.gradient-accumulation=1"];
        let set = [own.as_slice(), set].concat();
        crate::network::tests::recipe(&set)
    }

    /// The first step has no moments while it goes forward and back, and each of the others has them: 4 bytes more for each number
    /// are no memory of pairs. Two pairs take one gigabyte here.
    #[test]
    fn the_memory_of_a_chunk_follows_from_the_last_step_alone() {
        let recipe = recipe(&[]);
        assert_eq!(memory(&recipe, 32, (2, 7 * GB), false).at(4), Some(12 * GB));
        let resumed = memory(&recipe, 16, (4, 12 * GB), true);
        assert_eq!(resumed.at(4), Some(12 * GB));
        assert_eq!(resumed.at(16), Some(18 * GB));
        // A whole batch has no gradients of chunks: two gigabytes less.
        assert_eq!(resumed.at(32), Some(24 * GB));
    }

    #[test]
    fn gradients_that_are_held_are_counted() {
        let fixed =
            |set: &[&str], chunk| memory(&recipe(set), 32, (2, 0), true).fixed(chunk, true) / (GB / 2);
        assert_eq!(fixed(&[], 32), 16);
        assert_eq!(fixed(&[], 4), 20);
        assert_eq!(fixed(&["training.gradient-accumulation=2"], 4), 24);
        assert_eq!(fixed(&["training.gradient-checkpointing=true"], 4), 16);
        assert_eq!(memory(&recipe(&[]), 32, (2, 0), false).fixed(4, false), 6 * GB);
    }

    #[test]
    fn memory_goes_up_only_as_far_as_it_fits() {
        let at = |chunk, is_smaller| Next { chunk, is_smaller };
        let recipe = recipe(&[]);
        let one = memory(&recipe, 32, (2, 7 * GB), false);
        assert_eq!(one.next(Some(30 * GB)), at(4, false));
        assert_eq!(one.next(None), at(4, false));
        // Four pairs would not fit: nothing larger is tried.
        assert_eq!(one.next(Some(11 * GB)), at(2, true));
        let two = memory(&recipe, 32, (4, 12 * GB), true);
        assert_eq!(two.next(Some(30 * GB)), at(32, false));
        assert_eq!(two.next(Some(15 * GB)), at(8, true));
        assert_eq!(two.next(None), at(32, false));
        assert_eq!(
            memory(&recipe, 3, (2, 7 * GB), false).next(Some(12 * GB)),
            at(3, false)
        );
    }

    /// Without a step of the recipe's own chunk, or with the first step alone, what it takes is computed.
    #[test]
    fn only_what_was_tried_is_measured() {
        let recipe = recipe(&[]);
        let tried = memory(&recipe, 32, (32, 24 * GB), true);
        assert!(tried.is_measured());
        assert_eq!(tried.needed(Some(25 * GB)), Some(25 * GB));
        // Reading the checkpoint took more than the steps; large chunks take more than that.
        let small = memory(&recipe, 32, (4, 12 * GB), true);
        assert_eq!(small.needed(Some(13 * GB)), Some(24 * GB));
        assert_eq!(small.needed(Some(30 * GB)), Some(30 * GB));
        assert!(!memory(&recipe, 32, (4, 12 * GB), true).is_measured());
        assert!(!memory(&recipe, 2, (2, 7 * GB), false).is_measured());
    }

    #[test]
    fn the_chunk_that_fits_is_named() {
        let recipe = recipe(&[]);
        let two = memory(&recipe, 32, (4, 12 * GB), true);
        let finding = two.finding(24 * GB, 15 * GB, 1);
        assert_eq!(
            finding.what,
            "chunks of 32 pairs need 24.0 GB of memory; 15.0 GB is free"
        );
        assert!(
            finding.remedy.contains("training.chunk=8 takes about 14.0 GB"),
            "{finding:?}"
        );
        let none = two.finding(24 * GB, GB, 4);
        assert!(
            none.what
                .ends_with("1.0 GB is free for each of 4 trainings at a time"),
            "{none:?}"
        );
        assert!(
            none.remedy.contains("no chunk fits") && none.remedy.contains("--jobs"),
            "{none:?}"
        );
    }

    /// Captions are embedded before the first clip tells of itself.
    #[test]
    fn a_validation_begins_where_the_last_step_ends() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut seen = Seen {
            ready: Some(start),
            last_step: Some(after(10)),
            ..Seen::default()
        };
        seen.validating(after(17));
        seen.validating(after(18));
        assert!((seen.validation_seconds - 8.0).abs() < 1e-9);
        // A leg that had no step left.
        seen.ready = Some(after(15));
        seen.validating(after(18));
        assert!((seen.validation_seconds - 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_device_that_breaks_down_is_told_without_a_checkpoint_to_continue_from() {
        let broke = Error::DeviceBroke {
            device: hark_encode::DeviceName::Cuda(0),
            breakdown: hark_encode::Breakdown::Memory,
            what: "no block of 2 GB is left".into(),
            saved: Some(2),
        };
        assert!(broke.to_string().contains("--resume"));
        let finding = failed(broke, &recipe(&[]), 32);
        assert_eq!(finding.what, "cuda:0 ran out of memory: no block of 2 GB is left");
        assert!(finding.remedy.contains("training.chunk=16"), "{finding:?}");
    }
}
