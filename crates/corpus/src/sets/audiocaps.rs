//! AudioCaps on disk: `SPLIT.csv`, and recordings that every downloader names in its own way.
//!
//! A clip's id is `youtube_id` and `start_time`, joined by `_`. Its file is looked for under that name, then under
//! the `audiocap_id` of any of its captions, then under `youtube_id`, then under `Y` and `youtube_id`, each with any
//! audio extension.

use std::path::Path;
use std::sync::Arc;

use super::listing::Listing;
use super::{Audio, Gathered, Wanted, need_caption_file, need_folder};
use crate::captions::{Filling, open};
use crate::delimited::Rows;
use crate::input::{Input, Limits};
use crate::{CaptionSet, Error};

const LAYOUT: &str = "AudioCaps' folder holds train.csv, val.csv and test.csv, and the recordings in audio/SPLIT, \
                      SPLIT, audio or beside the CSV files";

pub(super) fn gather(root: &Path, split: &str, audio: Option<&Path>) -> Result<Gathered, Error> {
    need_folder(root, LAYOUT)?;
    let file = root.join(format!("{split}.csv"));
    need_caption_file(&file, LAYOUT)?;
    if let Some(audio) = audio {
        need_folder(
            audio,
            "this is the folder of AudioCaps' recordings that was named",
        )?;
    }
    let (set, names) = read(&file)?;
    let searched = match audio {
        Some(audio) => vec![audio.join(split), audio.to_owned()],
        None => vec![
            root.join("audio").join(split),
            root.join(split),
            root.join("audio"),
            root.to_owned(),
        ],
    };
    let listing = Listing::flat(searched.iter().map(AsRef::as_ref))?;
    let wanted = set.clips.into_iter().zip(names).map(|(id, names)| {
        let found = names.candidates(&id).find_map(|name| listing.find(&name));
        let expected = || {
            searched
                .first()
                .map_or(root, |folder| folder)
                .join(format!("{id}.wav"))
        };
        let audio = found.map_or_else(|| Audio::Missing(expected()), Audio::Found);
        Wanted { id, audio }
    });
    let wanted = wanted.collect();
    Ok(Gathered::new((file, set.captions), wanted, (searched, listing)))
}

/// The names that a clip's file may have.
struct Names {
    youtube_id: String,
    audiocap_ids: Vec<String>,
}

impl Names {
    fn candidates(&self, id: &str) -> impl Iterator<Item = String> {
        let by_caption = self.audiocap_ids.iter().cloned();
        let by_video = [self.youtube_id.clone(), format!("Y{}", self.youtube_id)];
        std::iter::once(id.to_owned()).chain(by_caption).chain(by_video)
    }
}

/// The captions, and for every clip the parts of its names, which the caption reader does not keep.
fn read(file: &Path) -> Result<(CaptionSet, Vec<Names>), Error> {
    let (path, limits): (Arc<Path>, _) = (file.into(), Limits::STATED);
    let mut reader = open(file)?;
    let input = Input::new(&mut reader, Arc::clone(&path), limits);
    let mut set = Filling::new(Arc::clone(&path), limits);
    let mut rows = Rows::open(input, b',')?.ok_or(Error::NoCaptions { path })?;
    let [video, start, caption] =
        ["youtube_id", "start_time", "caption"].map(|name| rows.column(name).map(|column| (column, name)));
    let (video, start, caption) = (video?, start?, caption?);
    // Copies of the dataset often come without the numbers of the captions.
    let number = rows.column("audiocap_id").ok();
    let mut names: Vec<Names> = Vec::new();
    while let Some(row) = rows.next_row()? {
        for (column, name) in [video, start] {
            if row.get(column).trim().is_empty() {
                return Err(set.empty(row.place(), name));
            }
        }
        let youtube_id = row.get(video.0);
        let clip = set.clip(
            &format!("{youtube_id}_{}", row.get(start.0)),
            row.place(),
            video.1,
        )?;
        set.caption(clip, row.get(caption.0), row.place(), caption.1)?;
        if clip == names.len() {
            names.push(Names {
                youtube_id: youtube_id.to_owned(),
                audiocap_ids: Vec::new(),
            });
        }
        let number = number
            .map(|column| row.get(column).trim())
            .filter(|text| !text.is_empty());
        if let (Some(names), Some(number)) = (names.get_mut(clip), number) {
            names.audiocap_ids.push(number.to_owned());
        }
    }
    Ok((set.finish()?, names))
}
