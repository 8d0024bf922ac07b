//! Means and deviations of a study's figures.
//!
//! In: runs. Out: for each column of the tables the mean and the SD of a method's runs, as fractions.
//!
//! Within one corpus these are the mean and the sample SD (divisor n - 1). Over several corpora the mean is
//! the mean over corpora of the mean over runs, so that a corpus with more runs does not weigh more, and the
//! SD is that within corpora: the root of the mean of the sample variances of each corpus that has at least
//! two runs. How far the corpora lie apart is not in it. A figure that is not a number makes the mean NaN.

use hark_metrics::significance::mean_and_deviation;

use super::published::{self, PublishedFigures};
use super::results::{DirectionMetrics, Method, RunFigures, Study};
pub use hark_evaluate::Direction;

impl RunFigures {
    /// The figures of a direction.
    pub fn in_direction(&self, direction: Direction) -> &DirectionMetrics {
        match direction {
            Direction::TextToAudio => &self.text_to_audio,
            Direction::AudioToText => &self.audio_to_text,
        }
    }
}

impl Study {
    /// The expected figures of a random ranking in a direction.
    pub fn chance_in(&self, direction: Direction) -> &DirectionMetrics {
        match direction {
            Direction::TextToAudio => &self.chance.0,
            Direction::AudioToText => &self.chance.1,
        }
    }
}

/// A figure of a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// mAP@10.
    Map,
    /// R@1.
    Recall1,
    /// R@5.
    Recall5,
    /// R@10.
    Recall10,
    /// nDCG@10, which only text to audio has.
    Ndcg,
}

impl Metric {
    /// As tables name it: `mAP@10`.
    pub fn title(self) -> &'static str {
        match self {
            Self::Map => "mAP@10",
            Self::Recall1 => "R@1",
            Self::Recall5 => "R@5",
            Self::Recall10 => "R@10",
            Self::Ndcg => "nDCG@10",
        }
    }

    fn of(self, figures: &DirectionMetrics, ndcg: Option<f64>) -> Option<f64> {
        match self {
            Self::Map => Some(figures.map),
            Self::Recall1 => Some(figures.recall[0]),
            Self::Recall5 => Some(figures.recall[1]),
            Self::Recall10 => Some(figures.recall[2]),
            Self::Ndcg => ndcg,
        }
    }
}

/// A column of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Of which direction.
    pub direction: Direction,
    /// Which figure.
    pub metric: Metric,
}

impl Column {
    /// A run's figure.
    pub fn of(self, run: &RunFigures) -> Option<f64> {
        self.metric.of(run.in_direction(self.direction), run.ndcg)
    }

    /// What chance reaches.
    pub fn chance(self, study: &Study) -> Option<f64> {
        self.metric.of(study.chance_in(self.direction), study.chance.2)
    }

    /// The published mean and SD, in percent.
    pub fn published(self, study: &Study, method: &Method) -> Option<(f64, f64)> {
        let PublishedFigures {
            text_to_audio,
            audio_to_text,
        } = published::figures(study.published?, &method.name)?;
        let row = match self.direction {
            Direction::TextToAudio => text_to_audio,
            Direction::AudioToText => audio_to_text?,
        };
        match self.metric {
            Metric::Map => Some(row[0]),
            Metric::Recall1 => Some(row[1]),
            Metric::Recall5 => Some(row[2]),
            Metric::Recall10 => Some(row[3]),
            Metric::Ndcg => None,
        }
    }
}

/// The columns of a study's tables, in their order.
pub fn columns(study: &Study) -> Vec<Column> {
    let mut columns = all_columns(study);
    columns.retain(|column| !study.one_direction || column.direction == Direction::TextToAudio);
    columns
}

/// The columns of both directions, whether tables show both or not.
pub fn all_columns(study: &Study) -> Vec<Column> {
    let four = [Metric::Map, Metric::Recall1, Metric::Recall5, Metric::Recall10];
    let of = |direction| move |metric| Column { direction, metric };
    let mut columns: Vec<Column> = four.map(of(Direction::TextToAudio)).into();
    if has_ndcg(study) {
        columns.push(of(Direction::TextToAudio)(Metric::Ndcg));
    }
    columns.extend(four.map(of(Direction::AudioToText)));
    columns
}

/// Whether any run was measured against graded truth.
fn has_ndcg(study: &Study) -> bool {
    study
        .methods
        .iter()
        .flat_map(|method| &method.runs)
        .any(|run| run.ndcg.is_some())
}

/// The distinct corpora of all runs, in the order of their seeds.
pub fn corpora(study: &Study) -> Vec<Option<u64>> {
    let runs = study.methods.iter().flat_map(|method| &method.runs);
    let mut corpora: Vec<_> = runs.map(|run| run.corpus).collect();
    corpora.sort_unstable();
    corpora.dedup();
    corpora
}

/// A corpus as tables name it: its seed.
pub fn corpus_name(corpus: Option<u64>) -> String {
    corpus.map_or_else(|| "none".to_owned(), |seed| seed.to_string())
}

/// Mean and SD of some runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// How many runs have the figure.
    pub runs: usize,
    /// As a fraction; NaN where a run's figure is not finite.
    pub mean: f64,
    /// As a fraction; none where no corpus has two runs, or where the mean is NaN.
    pub deviation: Option<f64>,
}

/// Mean and SD of a method's runs on the given corpora; none where it has no such figure there.
pub fn summarise(method: &Method, corpora: &[Option<u64>], column: Column) -> Option<Summary> {
    let within: Vec<Summary> = corpora
        .iter()
        .filter_map(|corpus| {
            let runs = method.runs.iter().filter(|run| run.corpus == *corpus);
            one_corpus(&runs.filter_map(|run| column.of(run)).collect::<Vec<_>>())
        })
        .collect();
    if within.is_empty() {
        return None;
    }
    let means = within.iter().map(|summary| summary.mean);
    let mean = means.sum::<f64>() / within.len() as f64;
    let variances: Vec<f64> = within
        .iter()
        .filter_map(|s| s.deviation)
        .map(|sd| sd * sd)
        .collect();
    let deviation = (!variances.is_empty() && mean.is_finite())
        .then(|| (variances.iter().sum::<f64>() / variances.len() as f64).sqrt());
    Some(Summary {
        runs: within.iter().map(|summary| summary.runs).sum(),
        mean,
        deviation,
    })
}

fn one_corpus(values: &[f64]) -> Option<Summary> {
    let first = *values.first()?;
    let (mean, deviation) = match spread(values) {
        Some((mean, deviation)) => (mean, Some(deviation)),
        None if values.len() == 1 && first.is_finite() => (first, None),
        None => (f64::NAN, None),
    };
    Some(Summary {
        runs: values.len(),
        mean,
        deviation,
    })
}

/// Mean and sample standard deviation; none below two values, or where one is not finite.
fn spread(values: &[f64]) -> Option<(f64, f64)> {
    mean_and_deviation(values).ok()
}

/// How far a summary lies from the published mean, in SDs: `(ours - theirs) / sqrt(ours_sd^2 + theirs_sd^2)`,
/// or over their SD alone where ours has none.
pub fn difference_in_deviations(ours: &Summary, (mean, deviation): (f64, f64)) -> f64 {
    let own = 100.0 * ours.deviation.unwrap_or(0.0);
    (100.0 * ours.mean - mean) / own.hypot(deviation)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::examples::{method, run};
    use super::*;

    const MAP: Column = Column {
        direction: Direction::TextToAudio,
        metric: Metric::Map,
    };

    /// Corpus 1: 0.1, 0.2, 0.3 (mean 0.2, variance 0.01); corpus 2: 0.5, 0.7 (mean 0.6, variance 0.02);
    /// corpus 3: 0.1 alone. Mean (0.2 + 0.6 + 0.1) / 3 = 0.3, SD sqrt(0.03 / 2).
    #[test]
    fn corpora_weigh_the_same_and_only_spread_within_them_counts() {
        let runs = [(1, 0.1), (1, 0.2), (1, 0.3), (2, 0.5), (2, 0.7), (3, 0.1)];
        let method = method("m", runs.map(|(corpus, map)| run(Some(corpus), 0, map)).into());
        let all = summarise(&method, &[Some(1), Some(2), Some(3)], MAP).unwrap();
        assert_eq!(all.runs, 6);
        assert!((all.mean - 0.3).abs() < 1e-15);
        assert!((all.deviation.unwrap() - 0.015_f64.sqrt()).abs() < 1e-15);
        let alone = summarise(&method, &[Some(3)], MAP).unwrap();
        assert_eq!((alone.mean, alone.deviation), (0.1, None));
        assert_eq!(summarise(&method, &[None], MAP), None);
    }

    #[test]
    fn a_run_that_failed_is_not_left_out_of_the_mean() {
        for bad in [f64::NAN, f64::INFINITY] {
            let method = method("m", vec![run(None, 0, 0.1), run(None, 1, bad), run(None, 2, 0.2)]);
            let summary = summarise(&method, &[None], MAP).unwrap();
            assert!(summary.mean.is_nan() && summary.deviation.is_none() && summary.runs == 3);
        }
    }

    #[test]
    fn equal_values_have_no_deviation() {
        assert_eq!(spread(&[0.1; 7]), Some((0.1, 0.0)));
        assert_eq!(spread(&[0.1]), None);
    }

    #[test]
    fn differences_are_in_deviations_of_both_or_of_the_paper() {
        let ours = |deviation| Summary {
            runs: 5,
            mean: 0.31,
            deviation,
        };
        // 0.6 points apart, with SDs of 0.3 and 0.4 points: 0.6 / 0.5.
        assert!((difference_in_deviations(&ours(Some(0.003)), (30.4, 0.4)) - 1.2).abs() < 1e-12);
        assert!((difference_in_deviations(&ours(None), (30.4, 0.4)) - 1.5).abs() < 1e-12);
    }

    proptest! {
        /// Against the textbook's two other formulas: mean as a plain sum, variance over all pairs.
        #[test]
        fn spread_is_that_of_the_pairs(values in prop::collection::vec(0.0..1.0_f64, 2..9)) {
            let (mean, deviation) = spread(&values).unwrap();
            let n = values.len() as f64;
            let pairs: f64 = values.iter().flat_map(|a| values.iter().map(move |b| (a - b) * (a - b))).sum();
            // Values of at most 1: sums of at most 81 terms err by less than 1e-13.
            prop_assert!((mean - values.iter().sum::<f64>() / n).abs() < 1e-13);
            prop_assert!((deviation * deviation - pairs / (2.0 * n * (n - 1.0))).abs() < 1e-13);
        }
    }
}
