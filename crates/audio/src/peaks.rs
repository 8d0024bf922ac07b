//! The outline of a waveform for a display of fixed width.
//!
//! In: samples in blocks, of a length that nobody knows beforehand. Out: the lowest and the highest sample of each
//! column, and the true duration. Memory is bounded: when the buckets are full, neighbours are merged pair by pair,
//! so that between `N` and `2 N` of them remain, where `N` is four times the number of columns. A column's border
//! may therefore lie up to a quarter of a column beside its exact place.

/// Buckets per column that are kept at least, once there are that many samples.
const BUCKETS_PER_COLUMN: usize = 4;

/// Gathers the peaks of one signal.
#[derive(Clone, Debug)]
pub struct Peaks {
    columns: usize,
    rate: u32,
    buckets: Vec<(f32, f32)>,
    /// Samples that a full bucket holds, and that the last one holds so far.
    size: u64,
    filled: u64,
    samples: u64,
}

impl Peaks {
    /// For a display of `columns`, of which there is at least one, and samples at `rate` Hz.
    pub fn new(columns: usize, rate: u32) -> Self {
        Self {
            columns: columns.max(1),
            rate: rate.max(1),
            buckets: Vec::new(),
            size: 1,
            filled: 1,
            samples: 0,
        }
    }

    /// Takes the next samples.
    pub fn push(&mut self, block: &[f32]) {
        self.samples += block.len() as u64;
        let mut rest = block;
        while !rest.is_empty() {
            if self.filled == self.size {
                self.open_bucket();
            }
            let room = usize::try_from(self.size - self.filled).unwrap_or(usize::MAX);
            let (now, after) = rest.split_at(room.min(rest.len()));
            if let Some(last) = self.buckets.last_mut() {
                *last = now
                    .iter()
                    .fold(*last, |(low, high), &s| (low.min(s), high.max(s)));
            }
            self.filled += now.len() as u64;
            rest = after;
        }
    }

    /// Begins a bucket; when there is no room, merges all pairs first, after which the buckets hold twice as much.
    fn open_bucket(&mut self) {
        if self.buckets.len() == 2 * BUCKETS_PER_COLUMN * self.columns {
            for i in 0..self.buckets.len() / 2 {
                let ((a, b), (c, d)) = (self.buckets[2 * i], self.buckets[2 * i + 1]);
                self.buckets[i] = (a.min(c), b.max(d));
            }
            self.buckets.truncate(self.buckets.len() / 2);
            self.size *= 2;
        }
        self.buckets.push((f32::INFINITY, f32::NEG_INFINITY));
        self.filled = 0;
    }

    /// The duration of all samples so far.
    pub fn seconds(&self) -> f64 {
        self.samples as f64 / f64::from(self.rate)
    }

    /// The lowest and highest sample of each column; as many pairs as there are columns. With fewer samples than
    /// columns, neighbouring columns share one; without any, all are zero.
    pub fn columns(&self) -> Vec<(f32, f32)> {
        if self.samples == 0 {
            return vec![(0.0, 0.0); self.columns];
        }
        (0..self.columns).map(|column| self.column(column)).collect()
    }

    fn column(&self, column: usize) -> (f32, f32) {
        let border = |c: usize| (c as u128 * u128::from(self.samples) / self.columns as u128) as u64;
        let (start, end) = (border(column), border(column + 1));
        let first = (start / self.size) as usize;
        let last = (end.max(start + 1) - 1) / self.size;
        let buckets = self.buckets.get(first..=last as usize).unwrap_or_default();
        buckets
            .iter()
            .fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), b| {
                (low.min(b.0), high.max(b.1))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_and_little() {
        let mut peaks = Peaks::new(3, 10);
        assert_eq!(peaks.columns(), [(0.0, 0.0); 3]);
        peaks.push(&[0.5]);
        assert_eq!(peaks.columns(), [(0.5, 0.5); 3]);
        assert!((peaks.seconds() - 0.1).abs() < 1e-12);
        peaks.push(&[-0.5, 0.25]);
        assert_eq!(peaks.columns(), [(0.5, 0.5), (-0.5, -0.5), (0.25, 0.25)]);
    }

    fn extremes(signal: &[f32]) -> (f32, f32) {
        signal
            .iter()
            .fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &s| {
                (low.min(s), high.max(s))
            })
    }

    fn bits((low, high): (f32, f32)) -> (u32, u32) {
        (low.to_bits(), high.to_bits())
    }

    proptest! {
        /// Every column lies between the exact one and the exact one widened by a bucket on each side.
        #[test]
        fn against_the_whole_signal(
            signal in prop::collection::vec(-1.0_f32..1.0, 1..3000),
            columns in 1_usize..20,
            cut in 1_usize..500,
        ) {
            let mut peaks = Peaks::new(columns, 100);
            for block in signal.chunks(cut) {
                peaks.push(block);
            }
            let most = 2 * BUCKETS_PER_COLUMN * columns;
            prop_assert!(peaks.buckets.len() <= most);
            prop_assert!(signal.len() < most || peaks.buckets.len() >= most / 2);
            let found = peaks.columns();
            prop_assert_eq!(found.len(), columns);
            for (c, &(low, high)) in found.iter().enumerate() {
                let start = c * signal.len() / columns;
                let end = ((c + 1) * signal.len() / columns).max(start + 1);
                let size = peaks.size as usize;
                let wide = &signal[start / size * size..(end.div_ceil(size) * size).min(signal.len())];
                prop_assert_eq!(bits((low, high)), bits(extremes(wide)));
            }
            let ends: Vec<f32> = found.iter().flat_map(|p| [p.0, p.1]).collect();
            prop_assert_eq!(bits(extremes(&ends)), bits(extremes(&signal)));
        }
    }
}
