//! The figures of the paper, for studies of the same data.
//!
//! Table II (trained on the data set alone), Table III (pretrained, text to audio only), the row of the
//! min-max relevance on Clotho, and the t-tests of ListNet audio against InfoNCE. In percent, as printed:
//! mean and sample SD of five runs, in the order mAP@10, R@1, R@5, R@10.

use super::results::{Published, PublishedData};

/// Mean and SD of mAP@10, R@1, R@5 and R@10.
pub type Row = [(f64, f64); 4];

/// What the paper prints of one method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PublishedFigures {
    /// Text to audio.
    pub text_to_audio: Row,
    /// Audio to text, which only Table II has.
    pub audio_to_text: Option<Row>,
}

/// A paired t-test of the paper, over queries: ListNet audio against InfoNCE, mAP@10, text to audio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PublishedTest {
    /// t.
    pub t: f64,
    /// Its degrees of freedom.
    pub freedom: usize,
    /// What the paper says of p.
    pub p: &'static str,
}

/// The paper's row of a method: `infonce`, `listnet-audio`, `listnet-text`, `listnet-both` or
/// `listnet-audio-minmax`, where its table has one. The function of its tables is the logistic one.
pub fn figures(table: Published, method: &str) -> Option<PublishedFigures> {
    let method = method.strip_suffix("-logistic").unwrap_or(method);
    let (text_to_audio, audio_to_text) = match (table.data, table.pretrained) {
        (PublishedData::AudioCaps, false) => audiocaps(method)?,
        (PublishedData::Clotho, false) => clotho(method)?,
        (PublishedData::AudioCaps, true) => (audiocaps_pretrained(method)?, None),
        (PublishedData::Clotho, true) => (clotho_pretrained(method)?, None),
    };
    Some(PublishedFigures {
        text_to_audio,
        audio_to_text,
    })
}

/// The paper's t-test on the data of a table.
pub fn t_test(table: Published) -> PublishedTest {
    let (t, freedom, p) = match (table.data, table.pretrained) {
        (PublishedData::AudioCaps, false) => (0.532, 4699, "p > 0.05"),
        (PublishedData::Clotho, false) => (11.658, 5224, "p < 0.001"),
        (PublishedData::AudioCaps, true) => (2.601, 4699, "p = 0.0093"),
        (PublishedData::Clotho, true) => (2.438, 5224, "p = 0.0148"),
    };
    PublishedTest { t, freedom, p }
}

fn audiocaps(method: &str) -> Option<(Row, Option<Row>)> {
    Some(match method {
        "infonce" => (
            [(54.5, 0.5), (39.6, 0.7), (75.4, 0.4), (86.9, 0.2)],
            Some([(37.0, 0.5), (9.7, 0.2), (38.0, 0.7), (54.4, 0.5)]),
        ),
        "listnet-audio" => (
            [(55.0, 0.3), (39.9, 0.3), (76.1, 0.5), (87.6, 0.4)],
            Some([(31.4, 0.1), (8.5, 0.2), (32.5, 0.3), (48.7, 0.2)]),
        ),
        "listnet-text" => (
            [(48.7, 0.3), (33.7, 0.5), (69.5, 0.2), (82.8, 0.4)],
            Some([(37.8, 0.2), (10.0, 0.2), (38.6, 0.3), (54.8, 0.4)]),
        ),
        "listnet-both" => (
            [(54.7, 0.1), (39.8, 0.2), (75.4, 0.4), (87.0, 0.3)],
            Some([(37.4, 0.4), (9.9, 0.1), (38.1, 0.4), (55.0, 0.5)]),
        ),
        _ => return None,
    })
}

fn clotho(method: &str) -> Option<(Row, Option<Row>)> {
    Some(match method {
        "infonce" => (
            [(28.2, 0.5), (16.9, 0.5), (43.3, 0.3), (57.7, 0.7)],
            Some([(15.1, 0.3), (4.3, 0.2), (17.0, 0.3), (26.9, 0.4)]),
        ),
        "listnet-audio" => (
            [(30.4, 0.1), (19.0, 0.1), (45.9, 0.3), (60.1, 0.5)],
            Some([(16.0, 0.2), (4.3, 0.1), (17.8, 0.3), (27.9, 0.2)]),
        ),
        "listnet-text" => (
            [(28.5, 0.4), (17.3, 0.4), (43.6, 0.3), (58.3, 0.2)],
            Some([(16.5, 0.3), (4.4, 0.2), (18.7, 0.2), (28.8, 0.4)]),
        ),
        "listnet-both" => (
            [(29.6, 0.1), (18.0, 0.1), (45.3, 0.2), (59.4, 0.3)],
            Some([(16.0, 0.2), (4.4, 0.1), (17.9, 0.1), (28.0, 0.4)]),
        ),
        // Not in Table II: the paper's text gives it, and only for text to audio.
        "listnet-audio-minmax" => ([(29.0, 0.6), (17.7, 0.5), (44.4, 0.6), (58.6, 0.3)], None),
        _ => return None,
    })
}

fn audiocaps_pretrained(method: &str) -> Option<Row> {
    match method {
        "infonce" => Some([(55.5, 0.2), (40.8, 0.3), (76.0, 0.3), (87.4, 0.2)]),
        "listnet-audio" => Some([(56.5, 0.4), (41.9, 0.5), (76.8, 0.2), (87.9, 0.4)]),
        _ => None,
    }
}

fn clotho_pretrained(method: &str) -> Option<Row> {
    match method {
        "infonce" => Some([(35.2, 0.5), (23.2, 0.5), (51.4, 0.6), (65.6, 0.3)]),
        "listnet-audio" => Some([(36.2, 0.3), (24.1, 0.5), (52.6, 0.3), (66.1, 0.6)]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METHODS: [&str; 5] = [
        "infonce",
        "listnet-audio",
        "listnet-text",
        "listnet-both",
        "listnet-audio-minmax",
    ];

    fn table(data: PublishedData, pretrained: bool) -> Published {
        Published { data, pretrained }
    }

    /// A slip of the pen shows as a recall that falls with k, an R@1 of five captions above 20, or an
    /// SD that no row of the paper has.
    #[test]
    fn the_tables_are_plausible_and_as_many_as_in_the_paper() {
        let mut rows = 0;
        for data in [PublishedData::AudioCaps, PublishedData::Clotho] {
            for pretrained in [false, true] {
                for method in METHODS {
                    let Some(figures) = figures(table(data, pretrained), method) else {
                        continue;
                    };
                    rows += 1;
                    let text = figures.text_to_audio;
                    assert!(text[1].0 < text[0].0 && text[0].0 < text[2].0 && text[2].0 < text[3].0);
                    assert!(!(pretrained && figures.audio_to_text.is_some()));
                    for (mean, deviation) in text.iter().chain(figures.audio_to_text.iter().flatten()) {
                        assert!((4.3..=87.9).contains(mean) && (0.1..=0.7).contains(deviation));
                    }
                    if let Some(audio) = figures.audio_to_text {
                        assert!(audio[1].0 <= 20.0 && audio[1].0 < audio[2].0 && audio[2].0 < audio[3].0);
                    }
                }
            }
        }
        assert_eq!(rows, 13);
        let clotho = table(PublishedData::Clotho, false);
        assert_eq!(
            figures(clotho, "listnet-audio-logistic"),
            figures(clotho, "listnet-audio")
        );
        assert_eq!(figures(table(PublishedData::Clotho, false), "random"), None);
    }

    #[test]
    fn tests_have_one_pair_for_each_query() {
        assert_eq!(t_test(table(PublishedData::Clotho, true)).p, "p = 0.0148");
        assert_eq!(t_test(table(PublishedData::Clotho, false)).freedom + 1, 5 * 1045);
        assert_eq!(
            t_test(table(PublishedData::AudioCaps, false)).freedom + 1,
            5 * 940
        );
    }
}
