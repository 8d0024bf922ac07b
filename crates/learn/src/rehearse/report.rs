//! What a rehearsal tells: the hours and bytes of the whole, and the text for people.
//!
//! A study of 20 trainings, 2 at a time, takes the hours of 10 one after the other and the disk of 2 at work beside what 18
//! finished ones have kept.

use std::fmt;
use std::path::Path;

use hark_work::progress::{counted, group_digits};
use serde::Serialize;

use super::{Finding, Kept, Kind, Machine, Rehearsed, SplitReport, StepsReport, Trainings, bytes_below};
use crate::recipe::{EpochOver, Recipe};

/// What the trainings will take.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// Steps of one training.
    pub steps: u64,
    /// Hours of one training.
    pub hours: f64,
    /// Hours of all.
    pub all_hours: f64,
    /// Bytes of all runs at most: of those at work, and what the others have kept.
    pub run_bytes: u64,
    /// Bytes of decoded recordings, features and caption embeddings that are kept for other runs.
    pub cache_bytes: u64,
    /// How many of these are there already, as far as the size of the cache tells.
    pub cached_bytes: u64,
}

/// Bytes that the caches hold already.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Held {
    /// Decoded recordings and features.
    audio: u64,
    /// Embeddings of captions.
    embeddings: u64,
}

impl Held {
    pub(super) fn of(cache: Option<&Path>, embeddings: Option<&Path>) -> Self {
        // What cannot be read is as good as not there.
        let held = |folder: Option<&Path>| folder.map_or(0, |folder| bytes_below(folder).unwrap_or(0));
        Self {
            audio: held(cache),
            embeddings: held(embeddings),
        }
    }
}

/// The disks that the trainings write to.
#[derive(Clone, Copy)]
pub(super) struct Disks<'a> {
    pub(super) run: &'a Path,
    pub(super) cache: Option<&'a Path>,
    /// Bytes beside the run that the rehearsal removes when it ends.
    pub(super) passing: u64,
    pub(super) machine: Machine<'a>,
}

impl Estimate {
    /// From what was measured; nothing if the size of a split is not known.
    pub(super) fn of(
        recipe: &Recipe,
        rehearsed: &Rehearsed,
        measured: &StepsReport,
        trainings: Trainings,
        held: Held,
    ) -> Option<Self> {
        let split = |part: &str| rehearsed.splits.iter().find(|split| split.part == part);
        let train = split("data.train")?;
        let validation = split("data.validation")?;
        let training = &recipe.training;
        let items = match training.epoch_over {
            EpochOver::Pairs => train.captions?,
            EpochOver::Clips => train.clips?,
        };
        let steps_per_epoch = (items / training.batch) as u64 / training.gradient_accumulation;
        let steps = steps_per_epoch * training.epochs;
        let evaluated = |split: &SplitReport| {
            let clips = split.clips? as f64;
            Some((clips * split.decode_seconds, clips * measured.validation_seconds))
        };
        let (validation_decoded, validated) = evaluated(validation)?;
        let (test_decoded, tested) = match split("data.test") {
            Some(test) => evaluated(test)?,
            None => (0.0, 0.0),
        };
        let captions = (train.captions? + validation.captions?) as f64;
        let teacher = rehearsed.teacher.as_ref();
        let embedding = teacher.map_or(0.0, |teacher| captions * teacher.caption_seconds);
        let step = measured.seconds.last()?;
        let epoch = steps_per_epoch as f64 * step + validated + 2.0 * measured.save_seconds;
        // Beside the end of an epoch, a checkpoint is saved every few minutes.
        let saves = 1.0 + measured.save_seconds / (60.0 * training.checkpoint_minutes);
        let once = validation_decoded + test_decoded + tested;
        let seconds = once + training.epochs as f64 * epoch * saves;
        let at_work = trainings.at_a_time.clamp(1, trainings.count.max(1));
        let rounds = trainings.count.div_ceil(at_work) as f64;
        let dim = teacher.map_or(0, |teacher| teacher.dim) as f64;
        let model = measured.model_bytes;
        let caption_bytes = (captions * dim * 2.0) as u64;
        let kept = match trainings.kept {
            Kept::All => measured.checkpoint_bytes + 2 * model + caption_bytes,
            Kept::Model => model,
            Kept::Nothing => 0,
        };
        let clips: usize = rehearsed.splits.iter().filter_map(|split| split.clips).sum();
        let audio =
            (clips as f64 * measured.cache_bytes as f64).min(recipe.data.cache_gigabytes * 1e9) as u64;
        let embeddings = (captions * dim * 4.0) as u64;
        Some(Self {
            steps,
            hours: (seconds + embedding) / 3600.0,
            // Captions are embedded once for all.
            all_hours: (rounds * seconds + embedding) / 3600.0,
            // While a checkpoint and a model are replaced, the old ones are there too.
            run_bytes: at_work * (2 * measured.checkpoint_bytes + 3 * model + caption_bytes)
                + (trainings.count.saturating_sub(at_work)) * kept,
            cache_bytes: audio + embeddings,
            cached_bytes: audio.min(held.audio) + embeddings.min(held.embeddings),
        })
    }

    /// Compares with what is free, on one disk or two.
    pub(super) fn check_disk(&self, disks: Disks<'_>, findings: &mut Vec<Finding>) {
        let Disks {
            run,
            cache,
            passing,
            machine,
        } = disks;
        let free_for_runs = (machine.free_disk)(run);
        let free_for_cache = cache.and_then(|cache| (machine.free_disk)(cache));
        let cache_bytes = self.cache_bytes - self.cached_bytes;
        let freed = free_for_runs.map(|free| free.saturating_add(passing));
        let mut needs = vec![(run, self.run_bytes, freed, "runs")];
        match cache {
            // Two folders with the same bytes free are on one disk.
            Some(_) if free_for_cache == free_for_runs => needs[0].1 += cache_bytes,
            Some(cache) => needs.push((cache, cache_bytes, free_for_cache, "cache")),
            None => {}
        }
        for (folder, needed, free, what) in needs {
            if let Some(free) = free.filter(|&free| free < needed) {
                findings.push(Finding {
                    kind: Kind::Disk,
                    what: format!(
                        "{what} will need {}; {} has {} free",
                        gigabytes(needed),
                        folder.display(),
                        gigabytes(free)
                    ),
                    remedy: if what == "cache" {
                        "make room, or set data.cache-gigabytes lower".into()
                    } else {
                        "make room, set data.cache-gigabytes lower, or name another folder with --run (hark reproduce: --folder)".into()
                    },
                });
            }
        }
    }
}

/// Bytes for people.
pub(super) fn gigabytes(bytes: u64) -> String {
    let megabytes = bytes as f64 / 1e6;
    if megabytes < 100.0 {
        format!("{megabytes:.1} MB")
    } else {
        format!("{:.1} GB", megabytes / 1e3)
    }
}

fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 1.0 => format!("{:.0} ms", 1e3 * seconds),
        seconds if seconds < 100.0 => format!("{seconds:.1} s"),
        seconds if seconds < 6000.0 => format!("{:.0} min", seconds / 60.0),
        seconds if seconds < 360_000.0 => format!("{:.1} h", seconds / 3600.0),
        seconds => format!("{:.0} days", seconds / 86_400.0),
    }
}

impl fmt::Display for Rehearsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = counted(self.threads, "thread");
        writeln!(f, "rehearsal of {} on {}, {threads}\n", self.recipe, self.device)?;
        for split in &self.splits {
            let known = |number: Option<usize>| number.map_or_else(|| "?".to_owned(), group_digits);
            write!(
                f,
                "{:<16}  {} clips, {} captions; {} ",
                split.part,
                known(split.clips),
                known(split.captions),
                split.decoded
            )?;
            let how = if split.generated {
                "generated instead and decoded"
            } else {
                "decoded"
            };
            writeln!(
                f,
                "{how}, {:.1} s long on average, {} each",
                split.mean_seconds,
                duration(split.decode_seconds)
            )?;
        }
        for name in &self.random_weights {
            writeln!(f, "weights           random, in place of {name}")?;
        }
        if let Some(teacher) = &self.teacher {
            let name = if teacher.stands_in {
                format!("{} (stands in)", teacher.name)
            } else {
                teacher.name.clone()
            };
            let each = duration(teacher.caption_seconds);
            writeln!(
                f,
                "sentence encoder  {name}: {}, {each} each",
                counted(teacher.captions, "caption")
            )?;
        }
        if let Some(steps) = &self.steps {
            steps.fmt(f)?;
        }
        if let Some(free) = self.free_memory {
            writeln!(f, "free memory       {}", gigabytes(free))?;
        }
        match &self.estimate {
            Some(estimate) => estimate.tell(f, self.trainings, self.at_a_time)?,
            None if self.steps.is_some() => {
                writeln!(f, "estimate          unknown: the size of a split is not known")?;
            }
            None => {}
        }
        if self.is_ready() {
            return writeln!(f, "\nready");
        }
        writeln!(f, "\nmissing:")?;
        for (number, finding) in (1..).zip(&self.findings) {
            writeln!(f, "{number:>3}. {}\n     {}", finding.what, finding.remedy)?;
        }
        Ok(())
    }
}

impl StepsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds: Vec<String> = self.seconds.iter().map(|&seconds| duration(seconds)).collect();
        writeln!(
            f,
            "steps             {} of {}, the last in chunks of {}: {}; {:.0} % of the last waiting for recordings",
            self.seconds.len(),
            counted(self.pairs, "pair"),
            self.chunk,
            seconds.join(", "),
            100.0 * self.waited
        )?;
        writeln!(
            f,
            "checkpoint        {}, written in {}, read back and resumed in {}",
            gigabytes(self.checkpoint_bytes),
            duration(self.save_seconds),
            duration(self.resume_seconds)
        )?;
        writeln!(
            f,
            "validation        {}, {} each",
            counted(self.validated, "clip"),
            duration(self.validation_seconds)
        )?;
        if let (Some(peak), Some(needed)) = (self.peak_memory, self.needed_memory) {
            let (peak, needed) = (gigabytes(peak), gigabytes(needed));
            if self.memory_is_measured {
                writeln!(
                    f,
                    "memory            {peak} at most; the recipe's steps need {needed}"
                )?;
            } else {
                let own = counted(self.recipe_chunk, "pair");
                writeln!(
                    f,
                    "memory            {peak} at most; the recipe's chunks of {own} need about {needed} (not tried)"
                )?;
            }
        }
        Ok(())
    }
}

impl Estimate {
    fn tell(&self, f: &mut fmt::Formatter<'_>, trainings: u64, at_a_time: u64) -> fmt::Result {
        write!(
            f,
            "estimate          {} steps, {}",
            group_digits(self.steps),
            duration(3600.0 * self.hours)
        )?;
        if trainings > 1 {
            let how = match at_a_time {
                0 | 1 => "one after the other".to_owned(),
                several => format!("{several} at a time"),
            };
            write!(
                f,
                "; {trainings} trainings {how}: {}",
                duration(3600.0 * self.all_hours)
            )?;
        }
        write!(
            f,
            "\ndisk              runs {}, cache {}",
            gigabytes(self.run_bytes),
            gigabytes(self.cache_bytes)
        )?;
        if self.cached_bytes > 0 {
            write!(f, " ({} of it exists)", gigabytes(self.cached_bytes))?;
        }
        writeln!(f)
    }
}
