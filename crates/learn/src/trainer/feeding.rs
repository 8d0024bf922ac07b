//! How the trainer was fed: the time that it waited for data, and where recordings came from.

use std::fmt;

use hark_corpus::CacheStats;
use hark_work::progress::group_digits;

use crate::Error;
use crate::metrics_log::{self, MetricsLine};
use crate::run::{METRICS, Run};

/// How the trainer was fed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Feeding {
    /// Seconds of all steps, also of those before a stop.
    pub seconds: f64,
    /// Of which the trainer waited for data.
    pub waited: f64,
    /// Where recordings came from since the training was last started or resumed.
    pub recordings: CacheStats,
}

impl Feeding {
    pub(super) fn of(run: &Run, recordings: CacheStats) -> Result<Self, Error> {
        let mut feeding = Self {
            recordings,
            ..Self::default()
        };
        for line in metrics_log::read(&run.path(METRICS))? {
            if let MetricsLine::Step { seconds, waited, .. } = line {
                feeding.seconds += seconds;
                feeding.waited += waited;
            }
        }
        Ok(feeding)
    }
}

/// One line.
impl fmt::Display for Feeding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = 100.0 * self.waited / self.seconds.max(1e-9);
        write!(
            f,
            "waited for data {share:.1} % of {:.0} s in training",
            self.seconds
        )?;
        let CacheStats {
            hits,
            misses,
            sought,
            not_kept,
            ..
        } = self.recordings;
        if hits + misses + sought > 0 {
            let [hits, misses, sought] = [hits, misses, sought].map(group_digits);
            write!(
                f,
                "; recordings: {hits} from the cache, {misses} decoded, {sought} sought"
            )?;
        }
        if not_kept > 0 {
            let not_kept = group_digits(not_kept);
            write!(f, ", {not_kept} found no room (data.cache-gigabytes)")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_all_steps_counts() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::at(folder.path()).unwrap();
        let mut log = Vec::new();
        for (seconds, waited) in [(2.0, 0.5), (8.0, 0.0)] {
            let line = MetricsLine::Step {
                epoch: 0,
                batches: 1,
                loss: 1.0,
                rate: 1.0,
                norm: 1.0,
                seconds,
                waited,
            };
            line.write(&mut log).unwrap();
        }
        fs_err::write(run.path(METRICS), log).unwrap();
        let mut feeding = Feeding::of(&run, CacheStats::default()).unwrap();
        assert_eq!((feeding.seconds, feeding.waited), (10.0, 0.5));
        assert_eq!(feeding.to_string(), "waited for data 5.0 % of 10 s in training");
        feeding.recordings.hits = 1200;
        feeding.recordings.not_kept = 3;
        assert_eq!(
            feeding.to_string(),
            "waited for data 5.0 % of 10 s in training; recordings: 1,200 from the cache, 0 decoded, 0 sought, 3 found no room \
             (data.cache-gigabytes)"
        );
    }
}
