//! How well a network retrieves: the vectors of a split, and both directions' metrics.

use hark_corpus::Dataset;
use hark_metrics::{self as metrics, Options, Relevant, Report, Ties, WithIds};
use hark_nearest::Vectors;

use crate::Error;

/// Vectors of a split's clips and captions.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedded {
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

/// Judges vectors against the annotated pairs, with cuts at 10 and equal scores in the order of hashes.
///
/// # Errors
/// If the vectors do not belong to the data set.
pub fn retrieval(data: &Dataset, embedded: &Embedded) -> Result<Retrieval, Error> {
    retrieval_with(data, embedded, Options::default())
}

/// The same with other options. [`Ties::Keys`] orders equal scores by descending names.
///
/// # Errors
/// As [`retrieval`].
pub fn retrieval_with(data: &Dataset, embedded: &Embedded, options: Options) -> Result<Retrieval, Error> {
    let clips = Vectors::new(&embedded.clips, embedded.dim)?;
    let captions = Vectors::new(&embedded.captions, embedded.dim)?;
    let (clip_keys, caption_keys) = match options.ties {
        Ties::Hashed { .. } => (clip_keys(data), caption_keys(data)),
        Ties::Keys => {
            let ids: Vec<&str> = data.clips.iter().map(|clip| clip.id.as_str()).collect();
            (metrics::name_keys(&ids), metrics::name_keys(&caption_ids(data)))
        }
    };
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

/// The name of each caption: its clip's, and its number among that clip's captions.
pub fn caption_ids(data: &Dataset) -> Vec<String> {
    let mut counts = vec![0_usize; data.clips.len()];
    let ids = data.pairs.iter().map(|pair| {
        counts[pair.clip] += 1;
        format!("{}#{}", data.clips[pair.clip].id, counts[pair.clip])
    });
    ids.collect()
}

/// A key for each caption, of its name.
pub fn caption_keys(data: &Dataset) -> Vec<u64> {
    caption_ids(data).iter().map(|id| metrics::tie_key(id)).collect()
}

/// A key for each clip, of its name.
pub fn clip_keys(data: &Dataset) -> Vec<u64> {
    data.clips.iter().map(|clip| metrics::tie_key(&clip.id)).collect()
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
        let embedded = Embedded {
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
