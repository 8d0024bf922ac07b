//! The learning rate of each step: a linear warm-up, half a cosine down, then constant.
//!
//! With e = epoch + b / steps_per_epoch, epochs counted from 0 and batches b from 1:
//!
//! ```text
//! e < warm-up:         peak · e / warm-up
//! warm-up ≤ e < end:   floor + (peak - floor) (1 + cos(π (e - warm-up) / (end - warm-up))) / 2
//! end ≤ e:             floor
//! ```

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::recipe::wrong;

/// The schedule; the default is the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Schedule {
    /// The highest rate.
    pub peak: f64,
    /// The last rate.
    pub floor: f64,
    /// Epochs until the highest.
    pub warm_up: f64,
    /// The epoch at which the last is reached.
    pub end: f64,
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            peak: 2e-5,
            floor: 1e-7,
            warm_up: 1.0,
            end: 20.0,
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
            peak,
            floor,
            warm_up,
            end,
        } = *self;
        if e < warm_up {
            peak * e / warm_up
        } else if e < end {
            let way = (e - warm_up) / (end - warm_up);
            floor + (peak - floor) * (1.0 + (std::f64::consts::PI * way).cos()) / 2.0
        } else {
            floor
        }
    }

    /// That the numbers make a schedule.
    ///
    /// # Errors
    /// Which of them does not, and what it may be.
    pub fn check(&self) -> Result<(), Error> {
        if !(self.peak.is_finite() && self.peak >= 0.0) {
            return wrong("training.schedule.peak", self.peak, "a number from 0");
        }
        if !(self.floor.is_finite() && self.floor >= 0.0) {
            return wrong("training.schedule.floor", self.floor, "a number from 0");
        }
        if !(self.warm_up.is_finite() && self.warm_up >= 0.0) {
            return wrong(
                "training.schedule.warm-up",
                self.warm_up,
                "a number of epochs from 0",
            );
        }
        if !(self.end.is_finite() && self.end >= self.warm_up) {
            return wrong(
                "training.schedule.end",
                self.end,
                "a number of epochs, not before warm-up",
            );
        }
        Ok(())
    }
}
