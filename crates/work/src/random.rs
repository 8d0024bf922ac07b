//! Seeded random numbers that are the same with every version of every dependency: SplitMix64 (Steele, Lea and Flood
//! 2014).
//!
//! Two forms: [`Random`] is a sequence; [`key`] and [`uniform`] look a number up by its coordinates. The masks of
//! training use the second form: a mask depends on the seed, the example, the layer and the position in the tensor,
//! never on what was drawn before, so a run that was stopped and resumed gets the same masks.
//!
//! ```
//! use hark_work::random::{Random, key, uniform};
//!
//! let mut items = [1, 2, 3, 4, 5];
//! Random::new(7).shuffle(&mut items);
//! let (seed, layer, position) = (7, 3, 21);
//! let keep = uniform(key(&[seed, layer]), position) < 0.9;
//! # let _ = keep;
//! ```

/// What a SplitMix64 state grows by.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// One step of SplitMix64: a well-mixed number for every number.
pub fn mix(number: u64) -> u64 {
    finish(number.wrapping_add(STEP))
}

/// SplitMix64's output function, a bijection that maps 0 to 0.
pub fn finish(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Combines several numbers into one. Their order matters.
pub fn key(parts: &[u64]) -> u64 {
    parts.iter().fold(0, |key, &part| mix(key ^ part))
}

/// The number at `index` under a key, in [0, 1), with 24 random bits.
pub fn uniform(key: u64, index: u64) -> f32 {
    (mix(key.wrapping_add(index)) >> 40) as f32 / (1_u32 << 24) as f32
}

/// Random numbers from a seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Starts the sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits. (Not an iterator: it never ends.)
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        let number = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        number
    }

    /// The same sequence from `count` numbers of 64 bits further on.
    #[must_use]
    pub fn ahead(&self, count: u64) -> Self {
        Self(self.0.wrapping_add(count.wrapping_mul(STEP)))
    }

    /// A number below `end`, which must not be 0. The bias of the multiplication is below 2^-32 for sizes that fit memory.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number from -1 to 1.
    pub fn signed(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    /// A number of the standard normal distribution, by the method of Box and Muller.
    pub fn normal(&mut self) -> f64 {
        // From (0, 1], as the logarithm of 0 has no value.
        let radius = 1.0 - self.unit();
        let angle = self.unit();
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }

    /// Puts the items into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (2..=items.len()).rev() {
            items.swap(end - 1, self.below(end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers that the authors' C code gives for the seed 1234567.
    #[test]
    fn the_numbers_are_splitmix64s() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn a_sequence_can_be_entered_anywhere() {
        let mut random = Random::new(99);
        let mut ahead = random.ahead(5);
        for _ in 0..5 {
            random.next();
        }
        assert_eq!(random.next(), ahead.next());
    }

    #[test]
    fn normal_numbers_have_mean_0_and_variance_1() {
        let mut random = Random::new(5);
        let numbers: Vec<f64> = (0..20_000).map(|_| random.normal()).collect();
        let mean = numbers.iter().sum::<f64>() / 20_000.0;
        let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 20_000.0;
        // Four standard errors of each.
        assert!(
            mean.abs() < 0.029 && (variance - 1.0).abs() < 0.04,
            "{mean}, {variance}"
        );
    }

    #[test]
    fn a_key_depends_on_the_order_of_its_parts() {
        assert_ne!(key(&[1, 2]), key(&[2, 1]));
        assert_eq!(key(&[7]), mix(7));
    }

    #[test]
    fn a_shuffle_keeps_everything() {
        let mut items: Vec<usize> = (0..100).collect();
        Random::new(7).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
