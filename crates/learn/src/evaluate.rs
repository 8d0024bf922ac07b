//! How well a network retrieves: the vectors of a split, and both directions' metrics.

use hark_corpus::Dataset;
use hark_rank::Vectors;
use hark_rank::metrics::{self, Keyed, Options, Relevant, Report};

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

/// Judges vectors against the annotated pairs.
///
/// # Errors
/// If the vectors do not belong to the data set.
pub fn retrieval(data: &Dataset, embedded: &Embedded) -> Result<Retrieval, Error> {
    let clips = Vectors::new(&embedded.clips, embedded.dim)?;
    let captions = Vectors::new(&embedded.captions, embedded.dim)?;
    let clip_keys: Vec<u64> = data.clips.iter().map(|clip| metrics::id_key(&clip.id)).collect();
    let caption_keys = caption_keys(data);
    let (clips, captions) = (
        Keyed::new(clips, &clip_keys)?,
        Keyed::new(captions, &caption_keys)?,
    );
    let relevant = Relevant::new(data.pairs.iter().map(|pair| [pair.clip as u32]), data.clips.len())?;
    let watch = &hark_rank::unwatched;
    Ok(Retrieval {
        audio_to_text: metrics::evaluate(clips, captions, &relevant.reversed()?, Options::default(), watch)?,
        text_to_audio: metrics::evaluate(captions, clips, &relevant, Options::default(), watch)?,
    })
}

/// A key for each caption: its clip's name and its number among that clip's captions.
pub fn caption_keys(data: &Dataset) -> Vec<u64> {
    let mut counts = vec![0_usize; data.clips.len()];
    let keys = data.pairs.iter().map(|pair| {
        counts[pair.clip] += 1;
        metrics::id_key(&format!("{}#{}", data.clips[pair.clip].id, counts[pair.clip]))
    });
    keys.collect()
}
