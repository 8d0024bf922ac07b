//! What a dataset is made of, in numbers: captions, words, lengths, rates and formats.
//!
//! In: a [`Dataset`]. Out: [`TextStats`] from the captions alone, and [`AudioStats`] from the headers of the
//! recordings; one whose header does not tell its length is decoded. A recording that cannot be read is named and
//! counts in nothing else.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use serde::Serialize;

use super::{Dataset, Progress, Reason, Skipped};
use crate::Error;

/// How numbers are spread. Percentiles are values that occur: the smallest of which at least that share of all are no
/// greater. The median of an even count is the mean of the middle two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Spread {
    /// How many numbers; if 0, so is all else.
    pub count: usize,
    /// The least.
    pub min: f64,
    /// The 5th percentile.
    pub p5: f64,
    /// The 25th percentile.
    pub p25: f64,
    /// The middle.
    pub median: f64,
    /// The 75th percentile.
    pub p75: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
    /// The mean.
    pub mean: f64,
}

impl Spread {
    /// Of any numbers, in any order.
    pub fn of(mut numbers: Vec<f64>) -> Self {
        numbers.sort_unstable_by(f64::total_cmp);
        let count = numbers.len();
        let (Some(&min), Some(&max)) = (numbers.first(), numbers.last()) else {
            return Self::default();
        };
        let percentile = |percent: usize| {
            let index = (percent * count).div_ceil(100).max(1) - 1;
            numbers.get(index).copied().unwrap_or(max)
        };
        let middle = |index: usize| numbers.get(index).copied().unwrap_or(max);
        Self {
            count,
            min,
            p5: percentile(5),
            p25: percentile(25),
            median: f64::midpoint(middle((count - 1) / 2), middle(count / 2)),
            p75: percentile(75),
            p95: percentile(95),
            p99: percentile(99),
            max,
            mean: numbers.iter().sum::<f64>() / count as f64,
        }
    }
}

/// The captions of a dataset in numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TextStats {
    /// Recordings.
    pub clips: usize,
    /// Recordings with captions, one for each caption.
    pub pairs: usize,
    /// Captions per recording.
    pub captions_per_clip: Spread,
    /// Words per caption, parted by white space.
    pub words: Spread,
    /// Different words, in small letters and without the punctuation around them.
    pub vocabulary: usize,
    /// Captions whose exact text occurred before.
    pub repeated: usize,
    /// Texts of more than one recording: each is a query with more than one right answer.
    pub shared_between_clips: usize,
    /// The text of the most recordings, and of how many, if any is of more than one.
    pub most_shared: Option<(String, usize)>,
}

/// The recordings of a dataset in numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct AudioStats {
    /// Seconds per recording.
    pub seconds: Spread,
    /// Hours of all recordings together.
    pub hours: f64,
    /// How many recordings have each rate, in Hz.
    pub rates: BTreeMap<u32, usize>,
    /// How many recordings have each number of channels.
    pub channels: BTreeMap<usize, usize>,
    /// How many recordings have each container and coding, such as `wav (pcm 16-bit)`.
    pub formats: BTreeMap<String, usize>,
    /// Recordings that cannot be read.
    #[serde(skip)]
    pub unreadable: Vec<Skipped>,
}

impl Dataset {
    /// The captions in numbers.
    pub fn text_stats(&self) -> TextStats {
        let mut per_clip = vec![0_usize; self.clips.len()];
        let mut words = Vec::with_capacity(self.pairs.len());
        let mut vocabulary = HashSet::new();
        let mut clips_of: HashMap<&str, Vec<usize>> = HashMap::new();
        for pair in &self.pairs {
            if let Some(count) = per_clip.get_mut(pair.clip) {
                *count += 1;
            }
            words.push(pair.caption.split_whitespace().count() as f64);
            vocabulary.extend(pair.caption.split_whitespace().filter_map(bare_word));
            clips_of.entry(&pair.caption).or_default().push(pair.clip);
        }
        let distinct = clips_of.len();
        let mut shared = 0;
        let mut most_shared: Option<(String, usize)> = None;
        for (text, mut clips) in clips_of {
            clips.sort_unstable();
            clips.dedup();
            if clips.len() > 1 {
                shared += 1;
                // Of equally frequent texts the first of the alphabet, as the map's order differs from run to run.
                let better = most_shared
                    .as_ref()
                    .is_none_or(|(best, count)| (clips.len(), best.as_str()) > (*count, text));
                if better {
                    most_shared = Some((text.to_owned(), clips.len()));
                }
            }
        }
        TextStats {
            clips: self.clips.len(),
            pairs: self.pairs.len(),
            captions_per_clip: Spread::of(per_clip.into_iter().map(|count| count as f64).collect()),
            words: Spread::of(words),
            vocabulary: vocabulary.len(),
            repeated: self.pairs.len() - distinct,
            shared_between_clips: shared,
            most_shared,
        }
    }

    /// The recordings in numbers, from their headers, several at a time.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if `progress` says so.
    pub fn audio_stats(&self, threads: usize, progress: Progress<'_>) -> Result<AudioStats, Error> {
        let paths: Vec<&Path> = self.clips.iter().map(|clip| clip.path.as_path()).collect();
        let facts = hark_work::workers::map(&paths, threads, progress, |path| facts_of(path))?;
        let counts = self.captions_by_clip();
        let mut stats = AudioStats::default();
        let mut seconds = Vec::with_capacity(facts.len());
        for ((clip, facts), captions) in self.clips.iter().zip(facts).zip(counts) {
            match facts {
                Ok((info, length)) => {
                    seconds.push(length);
                    *stats.rates.entry(info.rate).or_default() += 1;
                    *stats.channels.entry(info.channels).or_default() += 1;
                    let format = format!("{} ({})", info.container, info.codec);
                    *stats.formats.entry(format).or_default() += 1;
                }
                Err(error) => stats.unreadable.push(Skipped {
                    id: clip.id.clone(),
                    path: Some(clip.path.clone()),
                    reason: Reason::Broken(error.to_string()),
                    captions: captions.len(),
                }),
            }
        }
        stats.hours = seconds.iter().sum::<f64>() / 3600.0;
        stats.seconds = Spread::of(seconds);
        Ok(stats)
    }
}

fn facts_of(path: &Path) -> Result<(hark_audio::Info, f64), hark_audio::Error> {
    let mut decoder = hark_audio::Decoder::open(path)?;
    let info = decoder.info().clone();
    if let Some(seconds) = info.seconds {
        return Ok((info, seconds));
    }
    while decoder.next_block()?.is_some() {}
    let seconds = decoder.samples_so_far() as f64 / f64::from(info.rate);
    Ok((info, seconds))
}

fn bare_word(word: &str) -> Option<String> {
    let bare = word.trim_matches(|letter: char| !letter.is_alphanumeric());
    (!bare.is_empty()).then(|| bare.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::{Clip, Pair};

    #[test]
    fn spreads_of_small_sets() {
        assert_eq!(Spread::of(Vec::new()), Spread::default());
        let one = Spread::of(vec![3.0]);
        assert_eq!(
            (one.count, one.min, one.p5, one.median, one.p99, one.max),
            (1, 3.0, 3.0, 3.0, 3.0, 3.0)
        );
        // 1 to 100: the p-th percentile is p itself.
        let all = Spread::of((1..=100).rev().map(f64::from).collect());
        assert_eq!(
            (all.p5, all.p25, all.p75, all.p95, all.p99),
            (5.0, 25.0, 75.0, 95.0, 99.0)
        );
        assert_eq!((all.median, all.mean, all.min, all.max), (50.5, 50.5, 1.0, 100.0));
    }

    #[test]
    fn words_and_repetitions() {
        let clip = |id: &str| Clip {
            id: id.into(),
            path: id.into(),
            set: 0,
        };
        let pair = |clip, caption: &str| Pair {
            clip,
            caption: caption.into(),
        };
        let data = Dataset {
            name: "x".into(),
            clips: vec![clip("a"), clip("b")],
            pairs: vec![
                pair(0, "Rain falls."),
                pair(0, "Rain falls."),
                pair(1, "Rain falls."),
                pair(1, "The rain - it FALLS"),
                pair(1, "rain falls."),
            ],
            left_out: Vec::new(),
        };
        let stats = data.text_stats();
        assert_eq!(
            (
                stats.clips,
                stats.pairs,
                stats.repeated,
                stats.shared_between_clips
            ),
            (2, 5, 2, 1)
        );
        assert_eq!(stats.most_shared, Some(("Rain falls.".into(), 2)));
        // rain, falls, the, it: the dash is no word to the vocabulary, and one to the length.
        assert_eq!((stats.vocabulary, stats.words.max), (4, 5.0));
        assert_eq!(
            (stats.captions_per_clip.min, stats.captions_per_clip.max),
            (2.0, 3.0)
        );
    }
}
