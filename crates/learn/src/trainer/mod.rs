//! The training: a recipe and data in, a run's folder with models out.
//!
//! Everything random is a function of the recipe's seed and of coordinates (epoch, batch, example, layer); nothing is drawn
//! from a generator that has a state. What is needed to go on after a stop is therefore the weights, the optimizer's
//! moments and some counters, all in one file ([`crate::run`]); a training that was stopped and resumed at any moment
//! ends with the same bytes as one that was not.

mod feeding;
mod learner;
mod logs;
mod order;
mod prepare;

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use burn::module::Module;
use hark_corpus::Dataset;
use hark_encode::card::Card;
use hark_encode::checkpoint::Checkpoint;
use hark_encode::dual::DualEncoder;
use hark_encode::{Compute, model, weights_file};
use hark_work::random::{Random, key};

pub use self::feeding::Feeding;
use self::learner::{Learner, Sum, make_batch, targets};
use self::logs::Logs;
use self::order::{Purpose, order};
use crate::caption_embeddings::CaptionEmbeddings;
use crate::clips::Clips;
use crate::network::{FindModel, is_part};
use crate::objective::Objective;
use crate::optimizer::AdamW;
use crate::recipe::{Recipe, SelectBy};
use crate::run::{self, BEST, Best, LAST, Run, State};
use crate::split::{Encoders, Split};
use crate::{Error, report};
use hark_evaluate::retrieval::{Retrieval, SplitEmbeddings, retrieval};
use hark_work::workers;

/// Batches that wait for the trainer at most: each may hold minutes of log-mels.
const MAX_AHEAD: usize = 8;

/// What a training needs from where it runs.
pub struct TrainOptions<'a> {
    /// The recipe, with its data sets named.
    pub recipe: Recipe,
    /// The run's folder.
    pub run: &'a Path,
    /// Whether to go on with a training that has begun there.
    pub resume: bool,
    /// Where decoded recordings and features are kept between runs; none keeps nothing.
    pub cache: Option<&'a Path>,
    /// Threads that read recordings ahead of the trainer.
    pub workers: usize,
    /// The device that the network is trained on.
    pub compute: &'a Compute,
    /// Finds models by name.
    pub find: FindModel<'a>,
    /// A tokenizer's file, instead of the one that comes with the text tower's weights or is trained.
    pub tokenizer: Option<&'a Path>,
    /// The sentence encoder's unit vectors of captions.
    pub embed: crate::caption_embeddings::Embed<'a>,
    /// What is written into the card as the program's name.
    pub written_by: &'a str,
    /// Whether the device was not compared with the CPU; the card says so.
    pub unchecked: bool,
}

/// What a training tells while it goes on.
#[derive(Debug, Clone)]
pub enum TrainEvent<'a> {
    /// Something before the first step is being done.
    Preparing {
        /// What.
        what: &'static str,
        /// How much of it is done.
        done: u64,
        /// How much there is.
        total: u64,
    },
    /// All is ready.
    Ready {
        /// Clips and captions to learn from.
        clips: usize,
        /// See `clips`.
        captions: usize,
        /// Recordings that were left out.
        left_out: usize,
        /// Numbers that are learned.
        parameters: usize,
        /// Batches of the whole training, and of those how many are done.
        batches: (u64, u64),
    },
    /// A recording could not be read in training; its pair was left out of the batch.
    Skipped {
        /// Its id.
        clip: &'a str,
        /// Why.
        reason: &'a str,
    },
    /// A step of the optimizer is done.
    Step(Step),
    /// The validation split is being embedded.
    Validating {
        /// Clips that are done.
        done: u64,
        /// Clips that there are.
        total: u64,
    },
    /// An epoch is done and was validated.
    Epoch(&'a Epoch),
}

/// One step of the optimizer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// From 0.
    pub epoch: u64,
    /// Batches done, and of how many.
    pub batches: (u64, u64),
    /// Mean loss of the step's batches.
    pub loss: f64,
    /// The learning rate.
    pub rate: f64,
    /// Norm of all gradients, before clipping.
    pub norm: f64,
    /// Time of the step.
    pub took: Duration,
    /// Of which the trainer waited for data.
    pub waited: Duration,
}

/// One epoch.
#[derive(Debug, Clone)]
pub struct Epoch {
    /// From 0.
    pub epoch: u64,
    /// Mean loss of its batches.
    pub loss: f64,
    /// Mean loss of the validation batches.
    pub validation_loss: f64,
    /// Both directions on the validation split.
    pub validation: Retrieval,
    /// Whether it is the best so far.
    pub best: bool,
}

/// What came out.
#[derive(Debug)]
pub struct TrainResult {
    /// The resolved recipe.
    pub recipe: Recipe,
    /// The best epoch.
    pub best: Best,
    /// Of the best model on the test split, if there is one, with its vectors.
    pub test: Option<SplitResult>,
    /// How the trainer was fed.
    pub feeding: Feeding,
}

/// A split that was embedded and judged.
#[derive(Debug)]
pub struct SplitResult {
    /// Its clips and captions.
    pub data: Dataset,
    /// Their vectors.
    pub embedded: SplitEmbeddings,
    /// Both directions.
    pub retrieval: Retrieval,
}

/// Called with each event of a training; `Break` stops it after its state has been saved.
pub type OnEvent<'a> = &'a (dyn Fn(TrainEvent<'_>) -> ControlFlow<()> + Sync);

/// Trains as the recipe says.
///
/// # Errors
/// If the recipe, the data or the run's folder cannot be used; if the loss is not finite; [`Error::Cancelled`] if `on_event`
/// asks to stop, after the state has been saved.
pub fn train(mut setup: TrainOptions<'_>, on_event: OnEvent<'_>) -> Result<TrainResult, Error> {
    // A run is one training, whatever study it is part of.
    setup.recipe.study = None;
    let run = Run::at(setup.run)?;
    let _lock = run.lock()?;
    if setup.resume && !run.has_begun() {
        return Err(Error::NoRun {
            path: setup.run.to_owned(),
        });
    }
    if !setup.resume && run.has_begun() {
        return Err(Error::RunExists {
            path: setup.run.to_owned(),
        });
    }
    let mut trainer = Trainer::prepare(setup, run, on_event)?;
    trainer.run(on_event)?;
    trainer.finish(on_event)
}

fn diverged(epoch: u64, loss: f64) -> Error {
    Error::Diverged {
        epoch: epoch as usize + 1,
        loss: loss as f32,
    }
}

struct Trainer {
    recipe: Recipe,
    run: Run,
    card: Card,
    tokenizer: String,
    objective: Objective,
    clips: Clips,
    workers: usize,
    compute: Compute,
    train: Split,
    validation: Split,
    test: Option<Split>,
    train_teacher: Option<CaptionEmbeddings>,
    validation_teacher: Option<CaptionEmbeddings>,
    network: DualEncoder,
    optimizer: AdamW,
    state: State,
    batches_per_epoch: u64,
}

impl Trainer {
    fn total(&self) -> u64 {
        self.batches_per_epoch * self.recipe.training.epochs
    }

    fn run(&mut self, on_event: OnEvent<'_>) -> Result<(), Error> {
        let trained = weights_file::parameters(&self.network);
        let freeze = &self.recipe.training.freeze;
        let trained = trained.iter().filter(|stored| !is_part(&stored.name, freeze));
        let ready = TrainEvent::Ready {
            clips: self.train.data.clips.len(),
            captions: self.train.data.pairs.len(),
            left_out: self.train.data.left_out.len(),
            parameters: trained.map(|stored| stored.shape.iter().product::<usize>()).sum(),
            batches: (self.state.batches, self.total()),
        };
        if on_event(ready).is_break() {
            return Err(Error::Cancelled);
        }
        let epochs = self.recipe.training.epochs;
        if self.state.epochs == epochs {
            return Ok(());
        }
        let mut logs = Logs::open(&self.run, &self.state)?;
        while self.state.epochs < epochs {
            self.epoch(&mut logs, on_event)?;
        }
        Ok(())
    }

    /// The rest of the epoch that the training stands in.
    fn epoch(&mut self, logs: &mut Logs, on_event: OnEvent<'_>) -> Result<(), Error> {
        let epoch = self.state.epochs;
        let end = (epoch + 1) * self.batches_per_epoch;
        // A stop between the last batch of an epoch and its validation leaves nothing but the validation.
        if self.state.batches < end {
            self.batches(epoch, end, logs, on_event)?;
            // Over the whole epoch, also that part of it which came before a stop.
            if self.state.loss_sum == 0.0 {
                return Err(Error::NothingRead { epoch: epoch + 1 });
            }
        }
        let done = match self.validate(epoch, on_event) {
            Err(Error::Cancelled) => {
                logs.flush()?;
                self.save()?;
                return Err(Error::Cancelled);
            }
            done => done?,
        };
        logs.epoch(&done, self.state.batches)?;
        self.state.loss_sum = 0.0;
        self.state.epochs = epoch + 1;
        if done.best {
            self.state.best = Some(Best {
                epoch,
                loss: done.validation_loss,
                map: done.validation.text_to_audio.mean.average_precision,
            });
            let model = self.network.clone().valid();
            self.run.save_model(BEST, &self.card, &model, &self.tokenizer)?;
        }
        self.save()?;
        if on_event(TrainEvent::Epoch(&done)).is_break() {
            return Err(Error::Cancelled);
        }
        Ok(())
    }

    fn batches(&mut self, epoch: u64, end: u64, logs: &mut Logs, on_event: OnEvent<'_>) -> Result<(), Error> {
        let first = self.state.batches;
        let order = order(&self.recipe, &self.train.data, epoch);
        // What the workers read is apart from what the trainer changes.
        let train = std::mem::replace(&mut self.train, Split::empty());
        let clips = &self.clips;
        let (seed, size) = (self.recipe.seed, self.recipe.training.batch);
        let epoch_start = epoch * self.batches_per_epoch;
        let make = |number: u64| {
            let at = (number - epoch_start) as usize * size;
            make_batch(&train, clips, &order[at..at + size], &|pair| {
                key(&[seed, Purpose::Example as u64, epoch, pair as u64])
            })
        };
        let result = {
            let mut learner = Learner {
                recipe: &self.recipe,
                objective: &self.objective,
                train: &train,
                teacher: self.train_teacher.as_mut(),
                network: &mut self.network,
                optimizer: &mut self.optimizer,
                state: &mut self.state,
                run: &self.run,
                batches_per_epoch: self.batches_per_epoch,
                total: self.batches_per_epoch * self.recipe.training.epochs,
                sum: Sum::default(),
                waited: Duration::ZERO,
                since: Instant::now(),
                saved: Instant::now(),
            };
            workers::in_order(
                first..end,
                self.workers,
                (self.workers + 2).min(MAX_AHEAD),
                &make,
                &mut |number, batch, waited| match learner.take(number, batch, waited, logs, on_event) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => ControlFlow::Break(error),
                },
            )
        };
        self.train = train;
        match result {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }

    fn save(&self) -> Result<(), Error> {
        self.run.save(&self.network, &self.optimizer, &self.state)
    }

    /// The mean objective over batches in a fixed order, and retrieval, on the validation split.
    fn validate(&mut self, epoch: u64, on_event: OnEvent<'_>) -> Result<Epoch, Error> {
        let network = self.network.clone().valid();
        let split = &self.validation;
        let encoders = Encoders::new(&network, &self.card, &self.compute)?;
        let embedded = split.embed(&encoders, &self.clips, &|done, total| {
            on_event(TrainEvent::Validating { done, total })
        });
        let embedded = embedded.map_err(|error| match error {
            // Weights that are not numbers give vectors without a direction.
            Error::Encode(hark_encode::Error::NoDirection { .. }) => diverged(epoch, f64::NAN),
            other => other,
        })?;
        let mut pairs: Vec<usize> = (0..split.data.pairs.len()).collect();
        Random::new(key(&[self.recipe.seed, Purpose::Validation as u64])).shuffle(&mut pairs);
        let dim = embedded.dim;
        let (mut sum, mut count) = (0.0, 0);
        for pairs in pairs.chunks(self.recipe.training.batch) {
            let clips: Vec<u32> = pairs
                .iter()
                .map(|&pair| split.data.pairs[pair].clip as u32)
                .collect();
            let targets = targets(&self.objective, &clips, pairs, self.validation_teacher.as_mut())?;
            let rows = |all: &[f32], rows: &mut dyn Iterator<Item = usize>| -> Vec<f32> {
                rows.flat_map(|row| all[row * dim..][..dim].to_vec()).collect()
            };
            let text = rows(&embedded.captions, &mut pairs.iter().copied());
            let audio = rows(&embedded.clips, &mut clips.iter().map(|&clip| clip as usize));
            sum += self.objective.value(&text, &audio, dim, &targets);
            count += 1;
        }
        let validation_loss = sum / f64::from(count.max(1));
        if !validation_loss.is_finite() {
            return Err(diverged(epoch, validation_loss));
        }
        let validation = retrieval(&split.data, &embedded)?;
        let map = validation.text_to_audio.mean.average_precision;
        let best = match (self.recipe.training.select_by, &self.state.best) {
            (_, None) | (SelectBy::Last, _) => true,
            (SelectBy::Loss, Some(best)) => validation_loss <= best.loss,
            (SelectBy::Map, Some(best)) => map >= best.map,
        };
        Ok(Epoch {
            epoch,
            loss: self.state.loss_sum / self.batches_per_epoch as f64,
            validation_loss,
            validation,
            best,
        })
    }

    /// The last model, the best one's results, the report.
    fn finish(mut self, on_event: OnEvent<'_>) -> Result<TrainResult, Error> {
        let best = self.state.best.ok_or(Error::NoRun {
            path: self.run.path(""),
        })?;
        let last = self.network.clone().valid();
        self.run.save_model(LAST, &self.card, &last, &self.tokenizer)?;
        let file = Checkpoint::open(&self.run.path(BEST).join(model::WEIGHTS))?;
        let network = weights_file::load(last, file, &[])?;
        let test = match self.test.take() {
            Some(split) => {
                let encoders = Encoders::new(&network, &self.card, &self.compute)?;
                let embedded = split.embed(&encoders, &self.clips, &|done, total| {
                    on_event(TrainEvent::Preparing {
                        what: "test clips",
                        done,
                        total,
                    })
                })?;
                let retrieval = retrieval(&split.data, &embedded)?;
                Some(SplitResult {
                    data: split.data,
                    embedded,
                    retrieval,
                })
            }
            None => None,
        };
        let mut card = self.card.clone();
        card.metrics.insert("validation-loss".into(), best.loss);
        card.metrics
            .insert("validation-map-10-text-to-audio".into(), best.map);
        if let Some(test) = &test {
            let means = [
                ("text-to-audio", &test.retrieval.text_to_audio.mean),
                ("audio-to-text", &test.retrieval.audio_to_text.mean),
            ];
            for (direction, mean) in means {
                card.metrics
                    .insert(format!("test-map-10-{direction}"), mean.average_precision);
            }
        }
        self.run.save_model(BEST, &card, &network, &self.tokenizer)?;
        let text = report::markdown(&self.recipe, &best, test.as_ref());
        self.run.write(run::REPORT, text.as_bytes())?;
        let feeding = Feeding::of(&self.run, self.clips.cache().stats())?;
        Ok(TrainResult {
            recipe: self.recipe,
            best,
            test,
            feeding,
        })
    }
}
