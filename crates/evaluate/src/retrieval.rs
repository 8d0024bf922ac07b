//! Embeddings of a split in, the metrics of both directions out.

use hark_corpus::Dataset;
use hark_metrics::{self as metrics, GradedReport, MeanMetrics, Options, Relevant, Report, Ties, WithIds};
use hark_nearest::Vectors;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::scored::{Direction, Kind, PAIRS, QueryInfo, ScoredQueries};

/// The embeddings of a split's clips and captions.
#[derive(Debug, Clone, PartialEq)]
pub struct SplitEmbeddings {
    /// `[clips, dim]`.
    pub clips: Vec<f32>,
    /// `[captions, dim]`, in the order of the pairs.
    pub captions: Vec<f32>,
    /// Length of a vector.
    pub dim: usize,
}

/// Both directions.
#[derive(Debug, Clone)]
pub struct Retrieval {
    /// Each caption is a query, its clip is relevant.
    pub text_to_audio: Report,
    /// Each clip is a query, its captions are relevant.
    pub audio_to_text: Report,
}

/// The four figures of a direction in the paper's tables, as fractions. On disk they are the keys `map_10`, `recall_1`,
/// `recall_5` and `recall_10`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredMetrics", into = "StoredMetrics")]
pub struct DirectionMetrics {
    /// mAP@10.
    pub map: f64,
    /// R@1, R@5, R@10.
    pub recall: [f64; 3],
}

#[derive(Serialize, Deserialize)]
struct StoredMetrics {
    map_10: f64,
    recall_1: f64,
    recall_5: f64,
    recall_10: f64,
}

impl From<StoredMetrics> for DirectionMetrics {
    fn from(stored: StoredMetrics) -> Self {
        Self {
            map: stored.map_10,
            recall: [stored.recall_1, stored.recall_5, stored.recall_10],
        }
    }
}

impl From<DirectionMetrics> for StoredMetrics {
    fn from(metrics: DirectionMetrics) -> Self {
        let [recall_1, recall_5, recall_10] = metrics.recall;
        Self {
            map_10: metrics.map,
            recall_1,
            recall_5,
            recall_10,
        }
    }
}

impl From<&MeanMetrics> for DirectionMetrics {
    fn from(means: &MeanMetrics) -> Self {
        Self {
            map: means.average_precision,
            recall: means.recall,
        }
    }
}

/// Scores embeddings against the annotated pairs, with a cutoff of 10 and equal scores ordered by hashes of names.
///
/// # Errors
/// If the embeddings do not belong to the dataset.
pub fn retrieval(data: &Dataset, embedded: &SplitEmbeddings) -> Result<Retrieval, Error> {
    retrieval_with(data, embedded, Options::default())
}

/// The same with other options. [`Ties::Keys`] orders equal scores by descending names.
///
/// # Errors
/// As [`retrieval`].
pub fn retrieval_with(
    data: &Dataset,
    embedded: &SplitEmbeddings,
    options: Options,
) -> Result<Retrieval, Error> {
    let clips = Vectors::new(&embedded.clips, embedded.dim)?;
    let captions = Vectors::new(&embedded.captions, embedded.dim)?;
    let clip_keys = keys(&clip_ids(data), options.ties);
    let caption_keys = keys(&caption_ids(data), options.ties);
    let (clips, captions) = (
        WithIds::new(clips, &clip_keys)?,
        WithIds::new(captions, &caption_keys)?,
    );
    let relevant = Relevant::new(data.pairs.iter().map(|pair| [pair.clip as u32]), data.clips.len())?;
    let watch = &hark_work::progress::no_progress;
    Ok(Retrieval {
        audio_to_text: metrics::evaluate(clips, captions, &relevant.reversed()?, options, watch)?,
        text_to_audio: metrics::evaluate(captions, clips, &relevant, options, watch)?,
    })
}

/// The captions of a split as queries.
pub fn caption_queries(data: &Dataset) -> Vec<QueryInfo> {
    let captions = data.pairs.iter().zip(caption_ids(data));
    let captions = captions.map(|(pair, id)| QueryInfo {
        id,
        clip: data.clips[pair.clip].id.clone(),
        text: pair.caption.clone(),
    });
    captions.collect()
}

/// The clips of a split as queries; a clip's text is its first caption.
pub fn clip_queries(data: &Dataset) -> Vec<QueryInfo> {
    let captions = data.captions_by_clip();
    let clips = data.clips.iter().zip(captions).map(|(clip, captions)| QueryInfo {
        id: clip.id.clone(),
        clip: clip.id.clone(),
        text: captions
            .first()
            .map_or_else(String::new, |&pair| data.pairs[pair].caption.clone()),
    });
    clips.collect()
}

/// The queries of both directions, judged by the annotated pairs; text to audio also by graded truth, if there is one,
/// with its name.
pub fn scored_queries(
    data: &Dataset,
    retrieval: &Retrieval,
    graded: Option<(&GradedReport, &str)>,
) -> [ScoredQueries; 2] {
    let captions = data.captions_by_clip();
    let kind = |direction, gains: &str| Kind {
        direction,
        relevance: PAIRS.into(),
        gains: gains.to_owned(),
    };
    [
        ScoredQueries::new(
            kind(Direction::TextToAudio, graded.map_or("", |(_, name)| name)),
            caption_queries(data),
            std::iter::repeat_n(1, data.pairs.len()),
            &retrieval.text_to_audio,
            graded.map(|(graded, _)| graded.queries.as_slice()),
        ),
        ScoredQueries::new(
            kind(Direction::AudioToText, ""),
            clip_queries(data),
            captions.iter().map(Vec::len),
            &retrieval.audio_to_text,
            None,
        ),
    ]
}

/// The name of each caption: its clip's, and its number among that clip's captions.
pub fn caption_ids(data: &Dataset) -> Vec<String> {
    let mut counts = vec![0_usize; data.clips.len()];
    let ids = data.pairs.iter().map(|pair| {
        counts[pair.clip] += 1;
        format!("{}#{}", data.clips[pair.clip].id, counts[pair.clip])
    });
    ids.collect()
}

/// The name of each clip.
pub fn clip_ids(data: &Dataset) -> Vec<&str> {
    data.clips.iter().map(|clip| clip.id.as_str()).collect()
}

/// Keys that order items with equal scores.
pub fn keys<S: AsRef<str>>(ids: &[S], ties: Ties) -> Vec<u64> {
    match ties {
        Ties::Hashed { .. } => ids.iter().map(|id| metrics::tie_key(id.as_ref())).collect(),
        Ties::Keys => metrics::name_keys(ids),
    }
}

#[cfg(test)]
mod tests {
    use hark_corpus::{Clip, Pair};

    use super::*;

    /// Where all scores are equal, names decide: the last in the alphabet first, as in trec_eval.
    #[test]
    fn equal_scores_are_ordered_by_names_where_asked() {
        let clip = |id: &str| Clip {
            id: id.into(),
            path: id.into(),
            set: 0,
        };
        let pair = |clip| Pair {
            clip,
            caption: "rain".into(),
        };
        let data = Dataset {
            name: "names".into(),
            clips: vec![clip("b"), clip("c"), clip("a")],
            pairs: vec![pair(0), pair(1), pair(2), pair(0)],
            left_out: Vec::new(),
        };
        assert_eq!(caption_ids(&data), ["b#1", "c#1", "a#1", "b#2"]);
        let embedded = SplitEmbeddings {
            clips: vec![1.0; 3],
            captions: vec![1.0; 4],
            dim: 1,
        };
        let options = Options {
            ties: Ties::Keys,
            ..Options::default()
        };
        let found = retrieval_with(&data, &embedded, options).unwrap();
        let ranks = |report: &Report| {
            report
                .queries
                .iter()
                .map(|query| query.first_rank)
                .collect::<Vec<_>>()
        };
        assert_eq!(ranks(&found.text_to_audio), [2, 1, 3, 2]);
        assert_eq!(ranks(&found.audio_to_text), [2, 1, 4]);
    }
}
