//! Runs judged: vectors of a split in, the figures of every query out.

pub mod scores;
pub mod slices;
pub mod truth;
pub mod versus;

use hark_corpus::Dataset;
use hark_learn::evaluate::{Retrieval, caption_ids};
use hark_metrics::GradedReport;

use self::scores::{Direction, Kind, Named, PAIRS, Scores};

/// The captions of a split as queries.
pub fn caption_names(data: &Dataset) -> Vec<Named> {
    let named = data.pairs.iter().zip(caption_ids(data));
    let named = named.map(|(pair, id)| Named {
        id,
        clip: data.clips[pair.clip].id.clone(),
        text: pair.caption.clone(),
    });
    named.collect()
}

/// The clips of a split as queries; what a clip says is its first caption.
pub fn clip_names(data: &Dataset) -> Vec<Named> {
    let captions = data.captions_by_clip();
    let named = data.clips.iter().zip(captions).map(|(clip, captions)| Named {
        id: clip.id.clone(),
        clip: clip.id.clone(),
        text: captions
            .first()
            .map_or_else(String::new, |&pair| data.pairs[pair].caption.clone()),
    });
    named.collect()
}

/// The queries of both directions, judged by the annotated pairs; text to audio also by graded truth, if there is one, with its name.
pub fn scored(data: &Dataset, retrieval: &Retrieval, graded: Option<(&GradedReport, &str)>) -> [Scores; 2] {
    let captions = data.captions_by_clip();
    let kind = |direction, graded_by: &str| Kind {
        direction,
        by: PAIRS.into(),
        graded_by: graded_by.to_owned(),
    };
    [
        Scores::new(
            kind(Direction::TextToAudio, graded.map_or("", |(_, name)| name)),
            caption_names(data),
            std::iter::repeat_n(1, data.pairs.len()),
            &retrieval.text_to_audio,
            graded.map(|(graded, _)| graded.queries.as_slice()),
        ),
        Scores::new(
            kind(Direction::AudioToText, ""),
            clip_names(data),
            captions.iter().map(Vec::len),
            &retrieval.audio_to_text,
            None,
        ),
    ]
}
