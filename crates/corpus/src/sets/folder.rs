//! A folder of recordings, each beside a `.txt` file of the same name: every line that is not blank is a caption.
//!
//! Folders within it are walked too. A clip's id is its path from the root without extension, with `/` between the
//! folders. A `.txt` file without recording beside it counts as a recording that is missing; one without captions is
//! passed over, and so is a recording without `.txt`. Refused: text that is not UTF-8.

use std::path::Path;

use super::listing::Listing;
use super::{Audio, Gathered, Wanted, need_folder};
use crate::{CaptionSet, Error, Format};

const LAYOUT: &str =
    "the folder holds recordings and, beside each, a .txt file of the same name with one caption per line";

pub(super) fn gather(root: &Path) -> Result<Gathered, Error> {
    need_folder(root, LAYOUT)?;
    let mut gathered = Gathered {
        searched: vec![root.to_owned()],
        listing: Listing::deep(root)?,
        ..Gathered::default()
    };
    // The sorted list keeps the files of a folder together, so one folder's list at a time is enough.
    let mut here: Option<(&Path, Listing)> = None;
    let texts = Listing::texts(root)?;
    for text in &texts {
        let set = match CaptionSet::read(text, &Format::Text) {
            Ok(set) => set,
            Err(Error::NoCaptions { .. }) => continue,
            Err(error) => return Err(error),
        };
        let folder = super::parent_of(text);
        let listing = match here.take() {
            Some((listed, listing)) if listed == folder => listing,
            _ => Listing::flat([folder])?,
        };
        let stem = text
            .file_stem()
            .map(|stem| stem.to_string_lossy())
            .unwrap_or_default();
        let audio = listing
            .find(&stem)
            .map_or_else(|| Audio::Missing(text.with_extension("wav")), Audio::Found);
        here = Some((folder, listing));
        let wanted = gathered.wanted.len();
        gathered.wanted.push(Wanted {
            id: id_of(root, text),
            audio,
        });
        let captions = set.captions.into_iter().map(|caption| (wanted, caption.text));
        gathered.captions.extend(captions);
        gathered.caption_files.push(text.clone());
    }
    if gathered.wanted.is_empty() {
        return Err(Error::NoCaptions { path: root.into() });
    }
    Ok(gathered)
}

fn id_of(root: &Path, text: &Path) -> String {
    let below = text.strip_prefix(root).unwrap_or(text).with_extension("");
    let parts: Vec<String> = below
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    parts.join("/")
}
