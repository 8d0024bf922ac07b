//! The two logs of a run: `metrics.jsonl` and TensorBoard events.

use std::io::{BufWriter, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Epoch, Step};
use crate::Error;
use crate::metrics_log::MetricsLine;
use crate::run::{Run, State};
use crate::tensorboard::EventWriter;

/// The two logs of a run.
pub(super) struct Logs {
    metrics: BufWriter<fs_err::File>,
    events: EventWriter,
}

pub(super) fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

impl Logs {
    pub(super) fn open(run: &Run, state: &State) -> Result<Self, Error> {
        let metrics = BufWriter::new(run.metrics(state)?);
        let started = now();
        // Two processes may begin within one second, one after the other.
        let suffix = format!("{}.{}", state.batches, (started.fract() * 1e6) as u32);
        Ok(Self {
            metrics,
            events: EventWriter::create(&run.path(""), started, &suffix)?,
        })
    }

    pub(super) fn step(&mut self, step: &Step) -> Result<(), Error> {
        let line = MetricsLine::Step {
            epoch: step.epoch,
            batches: step.batches.0,
            loss: step.loss,
            rate: step.rate,
            norm: step.norm,
            seconds: step.took.as_secs_f64(),
            waited: step.waited.as_secs_f64(),
        };
        line.write(&mut self.metrics)?;
        let (at, time) = (step.batches.0 as i64, now());
        self.events.scalar("train/loss", step.loss as f32, at, time)?;
        self.events.scalar("train/rate", step.rate as f32, at, time)?;
        self.events.scalar("train/norm", step.norm as f32, at, time)?;
        self.events
            .scalar("train/waited", step.waited.as_secs_f32(), at, time)?;
        Ok(())
    }

    /// Writes out what is said so far: before a checkpoint, for what a checkpoint counts as done is not said again.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        self.metrics.flush()?;
        self.events.flush()?;
        Ok(())
    }

    pub(super) fn epoch(&mut self, epoch: &Epoch, batches: u64) -> Result<(), Error> {
        let (there, back) = (
            &epoch.validation.text_to_audio.mean,
            &epoch.validation.audio_to_text.mean,
        );
        let line = MetricsLine::Epoch {
            epoch: epoch.epoch,
            batches,
            loss: epoch.loss,
            validation_loss: epoch.validation_loss,
            best: epoch.best,
            text_to_audio: there.into(),
            audio_to_text: back.into(),
        };
        line.write(&mut self.metrics)?;
        let (at, time) = (batches as i64, now());
        self.events
            .scalar("epoch/train loss", epoch.loss as f32, at, time)?;
        self.events
            .scalar("validation/loss", epoch.validation_loss as f32, at, time)?;
        self.events.scalar(
            "validation/mAP@10 text to audio",
            there.average_precision as f32,
            at,
            time,
        )?;
        self.events.scalar(
            "validation/mAP@10 audio to text",
            back.average_precision as f32,
            at,
            time,
        )?;
        self.flush()
    }
}
