//! Places at which a file of packets can be entered.
//!
//! In: the first frame of each packet and its place in the file, in order. Out: some of them, at nearly equal distances. A
//! file of any length keeps no more than [`MAX_POINTS`], so that the points of a dataset fit into memory: 1 KiB each
//! for the longest of its recordings.

/// More points are thinned out to half of them.
const MAX_POINTS: usize = 64;

/// Frames between two points, at first: 2 s at 32 kHz, which are gone through in far less time than they are decoded.
const DISTANCE: u64 = 1 << 16;

/// Where packets begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Points {
    /// How many frames there are.
    pub frames: u64,
    /// A packet's first frame, and its place.
    kept: Vec<(u64, u64)>,
    distance: u64,
}

impl Points {
    pub(crate) fn new() -> Self {
        Self {
            frames: 0,
            kept: Vec::new(),
            distance: DISTANCE,
        }
    }

    /// Takes a packet that begins with `frame`.
    pub(crate) fn push(&mut self, frame: u64, place: u64) {
        let due = |(last, _): &(u64, u64)| frame >= last.saturating_add(self.distance);
        if !self.kept.last().is_none_or(due) {
            return;
        }
        if self.kept.len() == MAX_POINTS {
            let mut keep = false;
            self.kept.retain(|_| {
                keep = !keep;
                keep
            });
            self.distance = self.distance.saturating_mul(2);
            self.push(frame, place);
            return;
        }
        self.kept.push((frame, place));
    }

    /// The last point at or before a frame.
    pub(crate) fn before(&self, frame: u64) -> Option<(u64, u64)> {
        let after = self.kept.partition_point(|&(first, _)| first <= frame);
        self.kept.get(after.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_few_and_evenly_spread() {
        for packets in [1, 10, 500, 5000, 123_456] {
            let mut points = Points::new();
            for packet in 0..packets {
                points.push(4096 * packet, 1000 * packet);
            }
            assert!(points.kept.len() <= MAX_POINTS);
            assert!(
                points.kept.len() as u64 >= (packets / 17).min(MAX_POINTS as u64 / 2 - 1),
                "{} of {packets}",
                points.kept.len()
            );
            for frame in [0, 1, 4095, 4096, 4096 * packets / 3, 4096 * packets] {
                let (first, place) = points.before(frame).unwrap();
                assert!(first <= frame && first % 4096 == 0 && place == first / 4096 * 1000);
                let passed = frame - first;
                assert!(
                    passed <= 4 * DISTANCE.max(4096 * packets / MAX_POINTS as u64),
                    "{passed} of {packets}"
                );
            }
        }
        assert_eq!(Points::new().before(5), None);
    }
}
