//! What a loss is multiplied by before its gradient is taken, where products are made of 16-bit numbers of small range (f16).
//!
//! Gradients below 6e-8 are zero in f16. A scaled loss lifts them, and AdamW's step takes the factor out again. A step whose
//! gradients are no longer finite is skipped and the scale halved; after 2000 steps without one it is doubled, as
//! PyTorch's `GradScaler` does.

use serde::{Deserialize, Serialize};

/// Steps without an overflow after which the scale is doubled.
const PATIENCE: u32 = 2000;
const START: f32 = 65_536.0;
const LARGEST: f32 = 16_777_216.0;

/// The scale and how long it has held.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LossScale {
    /// The factor.
    pub factor: f32,
    /// Steps since it changed.
    pub steps: u32,
}

impl Default for LossScale {
    fn default() -> Self {
        Self {
            factor: START,
            steps: 0,
        }
    }
}

impl LossScale {
    /// After gradients that are not finite. False if the scale cannot be lowered any more: the fault is not the range.
    pub fn overflowed(&mut self) -> bool {
        let lower = self.factor > 1.0;
        self.factor = (self.factor / 2.0).max(1.0);
        self.steps = 0;
        lower
    }

    /// After a step.
    pub fn held(&mut self) {
        self.steps += 1;
        if self.steps >= PATIENCE {
            self.factor = (self.factor * 2.0).min(LARGEST);
            self.steps = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_falls_with_every_overflow_and_rises_after_many_steps() {
        let mut scale = LossScale::default();
        assert!(scale.overflowed());
        assert_eq!(scale.factor.to_bits(), (START / 2.0).to_bits());
        for _ in 0..PATIENCE {
            scale.held();
        }
        assert_eq!(scale.factor.to_bits(), START.to_bits());
        while scale.overflowed() {}
        assert_eq!(scale.factor.to_bits(), 1.0_f32.to_bits());
        for _ in 0..100 * PATIENCE {
            scale.held();
        }
        assert_eq!(scale.factor.to_bits(), LARGEST.to_bits());
    }
}
