//! The learning rate of each step: a linear warm-up, half a cosine down, then constant.
//!
//! With e = epoch + b / steps_per_epoch, epochs counted from 0 and batches b from 1:
//!
//! ```text
//! e < warmup-epochs:                   lr · e / warmup-epochs
//! warmup-epochs ≤ e < decay-epochs:    min-lr + (lr - min-lr) (1 + cos(π (e - warmup-epochs) / (decay-epochs - warmup-epochs))) / 2
//! decay-epochs ≤ e:                    min-lr
//! ```

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::recipe::wrong;

/// The schedule; the default is the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Schedule {
    /// The learning rate at the end of the warm-up, the highest.
    pub lr: f64,
    /// The rate at the end of the decay, and from there on.
    pub min_lr: f64,
    /// Epochs of linear increase from 0 to `lr`.
    pub warmup_epochs: f64,
    /// The epoch at which `min-lr` is reached, counted from the beginning of the training.
    pub decay_epochs: f64,
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            lr: 2e-5,
            min_lr: 1e-7,
            warmup_epochs: 1.0,
            decay_epochs: 20.0,
        }
    }
}

impl Schedule {
    /// The rate of a step, counted from 0.
    pub fn rate(&self, step: u64, steps_per_epoch: u64) -> f64 {
        let steps_per_epoch = steps_per_epoch.max(1);
        let (epoch, batch) = (step / steps_per_epoch, step % steps_per_epoch + 1);
        let e = epoch as f64 + batch as f64 / steps_per_epoch as f64;
        let Self {
            lr,
            min_lr,
            warmup_epochs,
            decay_epochs,
        } = *self;
        if e < warmup_epochs {
            lr * e / warmup_epochs
        } else if e < decay_epochs {
            let way = (e - warmup_epochs) / (decay_epochs - warmup_epochs);
            min_lr + (lr - min_lr) * (1.0 + (std::f64::consts::PI * way).cos()) / 2.0
        } else {
            min_lr
        }
    }

    /// That the numbers make a schedule.
    ///
    /// # Errors
    /// Which of them does not, and what it may be.
    pub fn check(&self) -> Result<(), Error> {
        if !(self.lr.is_finite() && self.lr >= 0.0) {
            return wrong("training.schedule.lr", self.lr, "a number from 0");
        }
        if !(self.min_lr.is_finite() && self.min_lr >= 0.0) {
            return wrong("training.schedule.min-lr", self.min_lr, "a number from 0");
        }
        if !(self.warmup_epochs.is_finite() && self.warmup_epochs >= 0.0) {
            return wrong(
                "training.schedule.warmup-epochs",
                self.warmup_epochs,
                "a number of epochs from 0",
            );
        }
        if !(self.decay_epochs.is_finite() && self.decay_epochs >= self.warmup_epochs) {
            return wrong(
                "training.schedule.decay-epochs",
                self.decay_epochs,
                "a number of epochs, at least warmup-epochs",
            );
        }
        Ok(())
    }
}
