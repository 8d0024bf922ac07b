//! A seeded source of random numbers that stays the same in every version of every dependency: SplitMix64
//! (Steele, Lea and Flood 2014).

/// Random numbers from a seed.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0. The bias of the multiplication is below 2^-32 for sizes that fit memory.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// A number from -1 to 1.
    pub(crate) fn signed(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
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
    fn a_shuffle_keeps_everything() {
        let mut items: Vec<usize> = (0..100).collect();
        Random::new(7).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
