//! What happens with a batch: loss, gradients, and, when enough of them have come together, a step.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use hark_encode::dropout;
use hark_encode::dual::DualEncoder;
use hark_encode::towers::MelBatch;
use hark_nearest::Vectors;
use hark_work::random::key;

use super::logs::Logs;
use super::order::Purpose;
use super::{OnEvent, Step, TrainEvent};
use crate::Error;
use crate::caption_embeddings::CaptionEmbeddings;
use crate::clips::Clips;
use crate::network::is_part;
use crate::objective::Objective;
use crate::optimizer::{AdamW, Gradients, clip_factor};
use crate::recipe::Recipe;
use crate::run::{BrokenBatch, BrokenPair, Run, State};
use crate::split::Split;
use crate::step::{self, AudioInput, TextInput};

/// What a worker makes for a batch.
pub(super) struct Batch {
    pub(super) pairs: Vec<usize>,
    pub(super) mels: Option<(MelBatch, Vec<usize>)>,
    pub(super) broken: Vec<(usize, String)>,
}

/// What a batch changes.
pub(super) struct Learner<'a> {
    pub(super) recipe: &'a Recipe,
    pub(super) objective: &'a Objective,
    pub(super) train: &'a Split,
    pub(super) teacher: Option<&'a mut CaptionEmbeddings>,
    pub(super) network: &'a mut DualEncoder,
    pub(super) optimizer: &'a mut AdamW,
    pub(super) state: &'a mut State,
    pub(super) run: &'a Run,
    pub(super) batches_per_epoch: u64,
    pub(super) total: u64,
    /// Of the batches since the last step.
    pub(super) sum: Sum,
    pub(super) waited: Duration,
    pub(super) since: Instant,
    pub(super) saved: Instant,
}

/// What has come together since the last step of the optimizer.
#[derive(Debug, Default)]
pub(super) struct Sum {
    gradients: Gradients,
    /// Their norm, where it is known.
    norm: Option<f64>,
    loss: f64,
    /// A batch's gradients were lost because its loss was scaled too much: the step is skipped as a whole.
    overflowed: bool,
}

impl Sum {
    /// Adds a batch: its loss, its gradients and their norm.
    fn add(&mut self, loss: f64, gradients: Option<(Gradients, f64)>) {
        self.loss += loss;
        match gradients {
            Some(_) if self.overflowed => {}
            Some((gradients, norm)) => {
                // The norm of a sum is another one.
                self.norm = self.gradients.is_empty().then_some(norm);
                self.gradients.add(gradients);
            }
            None => {
                self.overflowed = true;
                self.gradients = Gradients::new();
            }
        }
    }
}

impl Learner<'_> {
    pub(super) fn take(
        &mut self,
        number: u64,
        batch: Result<Batch, Error>,
        waited: Duration,
        logs: &mut Logs,
        on_event: OnEvent<'_>,
    ) -> Result<(), Error> {
        let batch = batch?;
        self.waited += waited;
        for (clip, reason) in &batch.broken {
            let clip = &self.train.data.clips[*clip].id;
            if self.recipe.data.strict {
                return Err(Error::Strict {
                    split: "train",
                    count: 1,
                    first: format!("{clip}: {reason}"),
                });
            }
            // A wish to stop is heard at the next step, where the state can be saved.
            let _ = on_event(TrainEvent::Skipped { clip, reason });
        }
        // A batch of one pair, where all others cannot be read, has nothing to compare.
        if batch.pairs.len() >= 2 {
            let (loss, gradients) = self.gradients(number, &batch)?;
            self.sum.add(loss, gradients);
            self.state.loss_sum += loss;
        }
        self.state.batches = number + 1;
        let is_step = (number + 1).is_multiple_of(self.recipe.training.gradient_accumulation);
        if !is_step {
            return Ok(());
        }
        let sum = std::mem::take(&mut self.sum);
        if sum.overflowed || sum.gradients.is_empty() {
            return Ok(());
        }
        let step = self.step(&sum)?;
        logs.step(&step)?;
        let flow = on_event(TrainEvent::Step(step));
        let steps = self.recipe.training.checkpoint_steps;
        let is_end = self.state.batches.is_multiple_of(self.batches_per_epoch);
        // The end of an epoch saves itself; before a validation that may take long, what has come together is saved too.
        let due = steps.is_some_and(|steps| self.state.updates.is_multiple_of(steps) && !is_end)
            || self.saved.elapsed().as_secs_f64() >= self.recipe.training.checkpoint_minutes * 60.0;
        if flow.is_break() || due {
            logs.flush()?;
            self.run.save(self.network, self.optimizer, self.state)?;
            self.saved = Instant::now();
        }
        if flow.is_break() {
            return Err(Error::Cancelled);
        }
        self.since = Instant::now();
        Ok(())
    }

    /// One step of the optimizer.
    fn step(&mut self, sum: &Sum) -> Result<Step, Error> {
        let training = &self.recipe.training;
        // Of the mean over the batches.
        let share = 1.0 / training.gradient_accumulation as f32 / self.loss_scale();
        let norm = sum.norm.unwrap_or_else(|| sum.gradients.norm()) * f64::from(share);
        let scale = share * training.max_grad_norm.map_or(1.0, |most| clip_factor(norm, most));
        let per_epoch = self.batches_per_epoch / training.gradient_accumulation;
        let rate = training.schedule.rate(self.state.updates, per_epoch);
        let rates = &training.lr_multipliers;
        let rate_of = |name: &str| {
            // The most particular of the parts that a parameter belongs to.
            let own = rates
                .iter()
                .filter(|(part, _)| is_part(name, std::slice::from_ref(part)));
            rate * own
                .max_by_key(|(part, _)| part.len())
                .map_or(1.0, |(_, factor)| *factor)
        };
        let network = std::mem::replace(
            self.network,
            DualEncoder {
                audio: None,
                text: None,
            },
        );
        *self.network = self.optimizer.step(network, &sum.gradients, scale, &rate_of)?;
        self.state.updates += 1;
        if let Some(scale) = &mut self.state.loss_scale {
            scale.held();
        }
        let step = Step {
            epoch: (self.state.batches - 1) / self.batches_per_epoch,
            batches: (self.state.batches, self.total),
            loss: sum.loss / training.gradient_accumulation as f64,
            rate,
            norm,
            took: self.since.elapsed(),
            waited: self.waited,
        };
        self.waited = Duration::ZERO;
        Ok(step)
    }

    fn loss_scale(&self) -> f32 {
        self.state.loss_scale.map_or(1.0, |scale| scale.factor)
    }

    /// The loss of a batch, its gradients and their norm; no gradients if the loss was scaled too much for them, in which case its
    /// scale is less now.
    fn gradients(&mut self, number: u64, batch: &Batch) -> Result<(f64, Option<(Gradients, f64)>), Error> {
        let pairs = &batch.pairs;
        let clip = |&pair: &usize| self.train.data.pairs[pair].clip;
        let clips: Vec<u32> = pairs.iter().map(|pair| clip(pair) as u32).collect();
        let targets = targets(self.objective, &clips, pairs, self.teacher.as_deref_mut())?;
        let training = dropout::Training::new(
            key(&[self.recipe.seed, Purpose::Masks as u64, number]),
            pairs.iter().map(|&pair| pair as u64).collect(),
        );
        let audio = match (&self.train.audio, &batch.mels) {
            (Some(features), _) => AudioInput::Features(features.rows(pairs.iter().map(clip))),
            (None, Some((mels, segments))) => AudioInput::LogMels { mels, segments },
            (None, None) => return Err(Error::EmptyClip),
        };
        let text = match &self.train.text {
            Some(features) => TextInput::Features(features.rows(pairs.iter().copied())),
            None => TextInput::Tokens(self.train.token_batch(pairs)?),
        };
        let options = step::Options {
            chunk: self.recipe.training.chunk,
            gradient_checkpointing: self.recipe.training.gradient_checkpointing,
            loss_scale: self.state.loss_scale.map(|scale| scale.factor),
        };
        let found = step::gradients(
            self.network,
            self.objective,
            &audio,
            &text,
            &targets,
            Some(&training),
            &options,
        )?;
        // One number that is not finite makes the norm so.
        let (loss, norm) = found.loss_and_norm();
        if loss.is_finite() && norm.is_finite() {
            return Ok((f64::from(loss), Some((found.gradients, norm))));
        }
        if let Some(scale) = &mut self.state.loss_scale
            && loss.is_finite()
            && scale.overflowed()
        {
            return Ok((f64::from(loss), None));
        }
        Err(Error::NotFinite {
            batch: number,
            loss,
            saved: self.save_batch(number, batch, &targets)?,
        })
    }

    /// Keeps what a batch that broke the training was made of.
    fn save_batch(&self, number: u64, batch: &Batch, targets: &[f32]) -> Result<PathBuf, Error> {
        let range = batch.mels.as_ref().map(|(mels, _)| {
            let values = (0..mels.len()).flat_map(|nth| mels.segment(nth)).copied();
            let (low, high) = values.fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), x| {
                (low.min(x), high.max(x))
            });
            [low, high].map(finite)
        });
        let data = &self.train.data;
        let pairs = batch.pairs.iter().map(|&pair| {
            let clip = &data.clips[data.pairs[pair].clip];
            BrokenPair {
                pair,
                clip: clip.id.clone(),
                path: clip.path.clone(),
                caption: data.pairs[pair].caption.clone(),
                tokens: self.train.tokens[pair].ids.clone(),
                log_mel_range_of_batch: range,
            }
        });
        let batch = BrokenBatch {
            format: BrokenBatch::FORMAT.to_owned(),
            batch: number,
            seed: self.recipe.seed,
            pairs: pairs.collect(),
            targets: targets.iter().copied().map(finite).collect(),
        };
        self.run.write_broken_batch(&batch)
    }
}

/// JSON has neither NaN nor infinity.
fn finite(number: f32) -> Option<f32> {
    Some(number).filter(|number| number.is_finite())
}

/// P of a batch.
pub(super) fn targets(
    objective: &Objective,
    clips: &[u32],
    pairs: &[usize],
    teacher: Option<&mut CaptionEmbeddings>,
) -> Result<Vec<f32>, Error> {
    match teacher {
        Some(teacher) if objective.is_graded() => {
            let vectors = teacher.read(pairs.iter().copied())?;
            objective.targets(clips, Some(Vectors::new(&vectors, teacher.dim())?))
        }
        _ => objective.targets(clips, None),
    }
}

/// The log-mels of a batch; clips that cannot be read are left out, with their pairs.
pub(super) fn make_batch(
    train: &Split,
    clips: &Clips,
    pairs: &[usize],
    seed: &dyn Fn(usize) -> u64,
) -> Result<Batch, Error> {
    if train.audio.is_some() {
        return Ok(Batch {
            pairs: pairs.to_vec(),
            mels: None,
            broken: Vec::new(),
        });
    }
    let mut batch = Batch {
        pairs: Vec::with_capacity(pairs.len()),
        mels: None,
        broken: Vec::new(),
    };
    let mut segments = Vec::with_capacity(pairs.len());
    for &pair in pairs {
        let clip = train.data.pairs[pair].clip;
        match clips.segments(&train.data.clips[clip].path, Some(seed(pair))) {
            Ok(read) => {
                batch.pairs.push(pair);
                segments.push(read);
            }
            Err(error) => batch.broken.push((clip, error.to_string())),
        }
    }
    if !segments.is_empty() {
        batch.mels = Some(clips.batch(&segments)?);
    }
    Ok(batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gradients and their norm.
    fn gradients(numbers: &[f32]) -> (Gradients, f64) {
        let gradients = Gradients::from_iter([("a".to_owned(), numbers.to_vec())]);
        let norm = gradients.norm();
        (gradients, norm)
    }

    #[test]
    fn batches_add_up_to_a_step() {
        let mut sum = Sum::default();
        sum.add(1.0, Some(gradients(&[3.0, 4.0])));
        assert_eq!(sum.norm, Some(5.0));
        sum.add(2.0, Some(gradients(&[0.0, -4.0])));
        assert_eq!((sum.norm, sum.gradients.norm(), sum.loss), (None, 3.0, 3.0));
        assert!(!sum.overflowed);
    }

    /// Wherever among its batches one overflows, nothing is left of a step, and the next one begins with nothing.
    #[test]
    fn a_batch_that_overflows_takes_the_step_with_it() {
        for overflowing in 0..3 {
            let mut sum = Sum::default();
            for nth in 0..3 {
                sum.add(1.0, (nth != overflowing).then(|| gradients(&[1.0])));
            }
            assert!(sum.overflowed && sum.gradients.is_empty(), "{overflowing}");
            let after = std::mem::take(&mut sum);
            assert_eq!((after.loss, sum.loss, sum.overflowed), (3.0, 0.0, false));
        }
    }
}
