//! All scenes of a set with their captions, and the tables that tell of them.
//!
//! In: the settings. Out: for every split its clips, each with a description, a plan and captions; then the files of
//! captions, scenes and truth. Refused: settings under which some split would have no scene.

use std::collections::HashSet;

use hark_work::random::{Random, key};
use serde::Serialize;

use super::caption::{self, Caption, CaptionWriter, Wording};
use super::folder::Folder;
use super::relevance::SaidRelation;
use super::scene::{self, Attributes, Description, Plan};
use super::truth::Truth;
use super::{Purpose, Split, Studio, clip_name};
use crate::Error;

/// So often a new scene is looked for before one that is there already is taken, as it must be where there are few.
const TRIES: usize = 400;
/// How often a caption that the clip, or training, already has is drawn again.
const WORDINGS: usize = 40;

/// One clip.
#[derive(Debug)]
pub(super) struct Clip {
    pub(super) number: usize,
    pub(super) name: String,
    pub(super) seconds: f64,
    pub(super) description: Description,
    pub(super) plan: Plan,
    pub(super) captions: Vec<Caption>,
}

/// All clips of a set.
pub(super) struct Scenes {
    splits: [Vec<Clip>; 3],
}

impl Scenes {
    pub(super) fn draw(studio: &Studio) -> Result<Self, Error> {
        let mut texts = HashSet::new();
        let config = studio.config;
        // Training comes first, as the others may have to keep clear of its texts.
        let train = clips(studio, Split::Train, config.train, &mut texts)?;
        let validation = clips(studio, Split::Validation, config.validation, &mut texts)?;
        let test = clips(studio, Split::Test, config.test, &mut texts)?;
        Ok(Self {
            splits: [train, validation, test],
        })
    }

    pub(super) fn of(&self, split: Split) -> &[Clip] {
        &self.splits[split as usize]
    }

    pub(super) fn clips(&self) -> impl Iterator<Item = (Split, &Clip)> {
        Split::ALL
            .into_iter()
            .flat_map(|split| self.of(split).iter().map(move |clip| (split, clip)))
    }

    pub(super) fn truth(&self, split: Split) -> Truth {
        let clips = self.of(split);
        let descriptions: Vec<&Description> = clips.iter().map(|clip| &clip.description).collect();
        let said = clips
            .iter()
            .flat_map(|clip| clip.captions.iter().map(|caption| &caption.said));
        Truth::compute(said, &descriptions)
    }

    pub(super) fn write_tables(&self, split: Split, studio: &Studio, folder: &Folder) -> Result<(), Error> {
        let clips = self.of(split);
        folder.write(&split.captions_file(), |out| {
            let mut table = csv::Writer::from_writer(out);
            let header = (1..=studio.config.captions).map(|number| format!("caption_{number}"));
            table.write_record(std::iter::once("file_name".to_owned()).chain(header))?;
            for clip in clips {
                let texts = clip.captions.iter().map(|caption| caption.text.as_str());
                table.write_record(std::iter::once(clip.name.as_str()).chain(texts))?;
            }
            table.flush()
        })?;
        folder.write(&split.scenes_file(), |out| {
            for clip in clips {
                serde_json::to_writer(&mut *out, &told(clip, studio))?;
                out.write_all(b"\n")?;
            }
            Ok(())
        })?;
        if studio.config.metadata {
            folder.write(&split.metadata_file(), |out| {
                write_metadata(split, clips, studio, out)
            })?;
        }
        if studio.config.has_truth(split) {
            let names: Vec<String> = clips.iter().map(|clip| clip.name.clone()).collect();
            let truth = self.truth(split);
            folder.write(&split.truth_file(), |out| truth.write(&names, out))?;
        }
        Ok(())
    }
}

/// Beyond every id of FreeSound: what leaves out the clips of Clotho leaves out no other recording.
const FIRST_ID: u64 = 9_000_000_000;
/// Between the ids of two splits.
const STANDS_APART: u64 = 1_000_000;

/// Clotho's columns.
fn write_metadata(
    split: Split,
    clips: &[Clip],
    studio: &Studio,
    out: &mut dyn std::io::Write,
) -> std::io::Result<()> {
    let mut table = csv::Writer::from_writer(out);
    table.write_record([
        "file_name",
        "keywords",
        "sound_id",
        "sound_link",
        "start_end_samples",
        "manufacturer",
        "license",
    ])?;
    for clip in clips {
        let kinds = clip.description.events.iter();
        let kinds = kinds.filter_map(|event| studio.kinds.get(event.kind));
        let keywords: Vec<&str> = kinds.map(|kind| kind.name.as_str()).collect();
        let samples = (clip.seconds * f64::from(studio.config.rate)).round();
        table.write_record([
            clip.name.as_str(),
            &keywords.join(";"),
            &(FIRST_ID + STANDS_APART * split as u64 + clip.number as u64).to_string(),
            "Not found",
            &format!("[0, {samples}]"),
            "hark",
            "https://creativecommons.org/publicdomain/zero/1.0/",
        ])?;
    }
    table.flush()
}

fn clips(
    studio: &Studio,
    split: Split,
    number: usize,
    train_texts: &mut HashSet<String>,
) -> Result<Vec<Clip>, Error> {
    let descriptions = descriptions(studio, split, number)?;
    let config = studio.config;
    let speaker = CaptionWriter {
        wording: match (config.disjoint_wording, split) {
            (false, _) => Wording::All,
            (true, Split::Train) => Wording::Open,
            (true, _) => Wording::Held,
        },
        rarity: config.rarity,
    };
    let mut clips = Vec::with_capacity(number);
    for (number, description) in descriptions.into_iter().enumerate() {
        let library = studio.library.as_ref().map(|library| (library, split));
        let seconds = config.length(studio.random(split, number, Purpose::Length, 0).unit());
        let mut random = studio.random(split, number, Purpose::Plan, 0);
        let plan = scene::plan(&description, seconds, &studio.kinds, library, &mut random);
        let mut random = studio.random(split, number, Purpose::Words, 0);
        let mut captions: Vec<Caption> = Vec::with_capacity(config.captions);
        while captions.len() < config.captions {
            let mut drawn = caption::caption(&description, &studio.kinds, speaker, &mut random);
            for _ in 0..WORDINGS {
                let known = captions.iter().any(|caption| caption.text == drawn.text)
                    || (config.disjoint_wording
                        && split != Split::Train
                        && train_texts.contains(&drawn.text));
                if !known {
                    break;
                }
                drawn = caption::caption(&description, &studio.kinds, speaker, &mut random);
            }
            if config.disjoint_wording && split == Split::Train {
                train_texts.insert(drawn.text.clone());
            }
            captions.push(drawn);
        }
        clips.push(Clip {
            number,
            name: clip_name(config, split, number),
            seconds,
            description,
            plan,
            captions,
        });
    }
    Ok(clips)
}

/// The descriptions of a split's clips. They belong to this split alone ([`Description::split`]).
fn descriptions(studio: &Studio, split: Split, number: usize) -> Result<Vec<Description>, Error> {
    let config = studio.config;
    let mut random = Random::new(key(&[config.seed, split as u64, 0x7363_656e_6573]));
    let mut different: Vec<Description> = Vec::new();
    let mut known = HashSet::new();
    let mut out = Vec::with_capacity(number);
    while out.len() < number {
        let repeated = !different.is_empty() && random.unit() < config.repeat;
        let fresh = if repeated {
            None
        } else {
            (0..TRIES)
                .map(|_| scene::draw(config, &studio.kinds, &mut random))
                .find(|drawn| drawn.split(config.seed) == split && !known.contains(drawn))
        };
        let next = match fresh {
            Some(fresh) => {
                known.insert(fresh.clone());
                different.push(fresh.clone());
                fresh
            }
            None if different.is_empty() => {
                return Err(Error::TooFewScenes { split: split.name() });
            }
            None => different[random.below(different.len())].clone(),
        };
        out.push(next);
    }
    Ok(out)
}

#[derive(Serialize)]
struct ToldClip<'a> {
    file_name: &'a str,
    noise_floor_dbfs: f64,
    events: Vec<ToldEvent<'a>>,
    captions: Vec<ToldCaption<'a>>,
}

#[derive(Serialize)]
struct ToldEvent<'a> {
    kind: &'a str,
    #[serde(flatten)]
    attributes: Attributes,
    start: f64,
    end: f64,
    peak_dbfs: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    recording: Option<String>,
}

#[derive(Serialize)]
struct ToldCaption<'a> {
    text: &'a str,
    events: Vec<ToldSaid<'a>>,
    relations: &'a [SaidRelation],
}

#[derive(Serialize)]
struct ToldSaid<'a> {
    kind: &'a str,
    #[serde(flatten)]
    attributes: Attributes,
}

/// Rounded to thousandths, which is what a reader can use.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

fn told<'a>(clip: &'a Clip, studio: &'a Studio) -> ToldClip<'a> {
    let name = |kind: usize| studio.kinds.get(kind).map_or("", |kind| kind.name.as_str());
    let events = clip.plan.events.iter().zip(&clip.description.events);
    ToldClip {
        file_name: &clip.name,
        noise_floor_dbfs: rounded(clip.plan.floor),
        events: events
            .map(|(event, described)| ToldEvent {
                kind: name(described.kind),
                attributes: described.attributes,
                start: rounded(event.start),
                end: rounded(event.end),
                peak_dbfs: rounded(event.level),
                recording: event
                    .cut
                    .and_then(|(recording, _)| studio.library.as_ref()?.name(recording)),
            })
            .collect(),
        captions: clip
            .captions
            .iter()
            .map(|caption| ToldCaption {
                text: &caption.text,
                events: caption
                    .said
                    .events
                    .iter()
                    .map(|said| ToldSaid {
                        kind: name(said.kind),
                        attributes: said.attributes,
                    })
                    .collect(),
                relations: &caption.said.relations,
            })
            .collect(),
    }
}
