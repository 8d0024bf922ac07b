//! Clotho on disk: `clotho_captions_SPLIT.csv`, and the recordings of each split in a separate folder.
//!
//! A clip's id is its file name as the caption file writes it. The archives of the dataset unpack to `SPLIT`; their
//! names are `clotho_audio_SPLIT`, which becomes a folder of its own in many unpackers.

use std::path::Path;

use super::listing::Listing;
use super::{Audio, Gathered, Wanted, need_caption_file, need_folder};
use crate::{CaptionSet, Error, Format};

const LAYOUT: &str = "Clotho's folder holds clotho_captions_SPLIT.csv and a folder SPLIT with the recordings, for each of the splits \
     development, validation and evaluation";

pub(super) fn gather(root: &Path, split: &str) -> Result<Gathered, Error> {
    need_folder(root, LAYOUT)?;
    let file = root.join(format!("clotho_captions_{split}.csv"));
    need_caption_file(&file, LAYOUT)?;
    let set = CaptionSet::read(&file, &Format::Clotho)?;
    let unpacked = root.join(format!("clotho_audio_{split}"));
    let searched = vec![
        root.join(split),
        root.join("audio").join(split),
        unpacked.join(split),
        unpacked,
    ];
    let listing = Listing::flat(searched.iter().map(AsRef::as_ref))?;
    let wanted = set.clips.into_iter().map(|id| {
        let audio = listing
            .find(&id)
            .map_or_else(|| Audio::Missing(root.join(split).join(&id)), Audio::Found);
        Wanted { id, audio }
    });
    let wanted = wanted.collect();
    Ok(Gathered::new((file, set.captions), wanted, (searched, listing)))
}
