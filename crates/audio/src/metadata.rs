//! The words that a file carries about itself.
//!
//! In: tags of any container as symphonia reads them, and the chunks `LIST INFO`, `bext` (EBU Tech 3285) and
//! `iXML` of WAV files. Out: [`Metadata`], every text bounded, trimmed and free of zero bytes.

use serde::{Deserialize, Serialize};
use symphonia::core::meta::{MetadataRevision, RawValue, StandardTag, Tag};

use crate::chunks::within;

/// The longest text of one field: 64 KiB. Longer ones are cut; nobody writes a title as long.
pub const LONGEST_TEXT: usize = 64 << 10;

/// The longest `iXML` document that is kept: 1 MiB. A longer one is left out, since half of a document is of no use.
pub const LONGEST_IXML: usize = 1 << 20;

/// What a file says about itself. Absent and empty fields are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// The name of the recording.
    pub title: Option<String>,
    /// Who made it.
    pub artist: Option<String>,
    /// What is to be heard.
    pub description: Option<String>,
    /// Remarks.
    pub comment: Option<String>,
    /// When it was made, as the file writes it.
    pub date: Option<String>,
    /// The Broadcast WAV chunk.
    pub bext: Option<Bext>,
    /// The `iXML` chunk, as it stands.
    pub ixml: Option<String>,
}

/// The text fields of the `bext` chunk of a Broadcast WAV file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bext {
    /// What is to be heard.
    pub description: String,
    /// Who or which device made it.
    pub originator: String,
    /// The originator's own number for it.
    pub originator_reference: String,
    /// `yyyy-mm-dd`, as written.
    pub date: String,
    /// `hh:mm:ss`, as written.
    pub time: String,
}

/// The texts of a `bext` chunk, whose first 338 bytes hold fields of fixed sizes.
const BEXT_TEXTS: [usize; 5] = [256, 32, 32, 10, 8];

impl Bext {
    /// A chunk that is too short for its fixed fields is no `bext` chunk.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let mut rest = body;
        let mut field = |size: usize| {
            let (text, after) = rest.split_at_checked(size)?;
            rest = after;
            Some(clean(text).unwrap_or_default())
        };
        let [description, originator, originator_reference, date, time] = BEXT_TEXTS.map(&mut field);
        Some(Self {
            description: description?,
            originator: originator?,
            originator_reference: originator_reference?,
            date: date?,
            time: time?,
        })
    }
}

impl Metadata {
    /// Takes the fields of a `LIST` chunk of the form `INFO`; other lists have none.
    pub(crate) fn take_list(&mut self, body: &[u8]) {
        let Some((b"INFO", items)) = body.split_first_chunk::<4>() else {
            return;
        };
        for (name, text) in within(items) {
            let field = match &name {
                b"INAM" => &mut self.title,
                b"IART" => &mut self.artist,
                b"ISBJ" => &mut self.description,
                b"ICMT" => &mut self.comment,
                b"ICRD" => &mut self.date,
                _ => continue,
            };
            keep_first(field, clean(text));
        }
    }

    /// Takes the tags of one revision as symphonia has read them. A field that is already there stays.
    pub(crate) fn take_revision(&mut self, revision: &MetadataRevision) {
        let of_tracks = revision.per_track.iter().flat_map(|t| &t.metadata.tags);
        let tags = || revision.media.tags.iter().chain(of_tracks.clone());
        for (tag, standard) in tags().filter_map(|tag| tag.std.as_ref().map(|standard| (tag, standard))) {
            let field = match standard {
                StandardTag::TrackTitle(_) => &mut self.title,
                StandardTag::Artist(_) => &mut self.artist,
                StandardTag::Description(_) => &mut self.description,
                StandardTag::Comment(_) => &mut self.comment,
                StandardTag::RecordingDate(_)
                | StandardTag::ReleaseDate(_)
                | StandardTag::RecordingYear(_)
                | StandardTag::ReleaseYear(_) => &mut self.date,
                _ => continue,
            };
            keep_first(field, text_of(tag));
        }
        // What is less exact, or has a name of its own, stands in only where nothing better is.
        for tag in tags() {
            let field = match (&tag.std, own_name(tag).as_str()) {
                (Some(StandardTag::AlbumArtist(_)), _) => &mut self.artist,
                (None, "description") => &mut self.description,
                (None, "comment") => &mut self.comment,
                (None, "date") => &mut self.date,
                _ => continue,
            };
            keep_first(field, text_of(tag));
        }
    }
}

/// The value of a tag, if it is a text or a number.
fn text_of(tag: &Tag) -> Option<String> {
    match &tag.raw.value {
        RawValue::String(text) => clean(text.as_bytes()),
        RawValue::StringList(texts) => clean(texts.first()?.as_bytes()),
        RawValue::UnsignedInt(number) => Some(number.to_string()),
        RawValue::SignedInt(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The name of a tag that is outside the standard: Matroska writes `ALBUM@DATE`, ID3 the name beside the value.
fn own_name(tag: &Tag) -> String {
    let beside = tag
        .raw
        .sub_fields
        .iter()
        .flatten()
        .find(|f| f.field.eq_ignore_ascii_case("description"));
    let name = match beside.map(|f| &f.value) {
        Some(RawValue::String(name)) => name.as_str(),
        _ => tag.raw.key.rsplit('@').next().unwrap_or_default(),
    };
    name.to_ascii_lowercase()
}

/// Sets a field that is still empty.
pub(crate) fn keep_first(field: &mut Option<String>, text: Option<String>) {
    if field.is_none() {
        *field = text;
    }
}

/// Text up to its first zero byte, without white space around it; `None` if nothing is left. Bytes that are not
/// UTF-8 are replaced, since these chunks do not say which code page they are in.
pub(crate) fn clean(bytes: &[u8]) -> Option<String> {
    let bytes = &bytes[..bytes.len().min(LONGEST_TEXT)];
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]);
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bext_needs_all_its_fixed_fields() {
        let mut body = vec![0; 602];
        body[..4].copy_from_slice(b"rain");
        body[256..260].copy_from_slice(b"H4n ");
        body[320..330].copy_from_slice(b"2024-05-06");
        body[330..338].copy_from_slice(b"07:08:09");
        let bext = Bext::parse(&body).unwrap();
        assert_eq!(
            (bext.description.as_str(), bext.originator.as_str()),
            ("rain", "H4n")
        );
        assert_eq!(
            (bext.date.as_str(), bext.time.as_str()),
            ("2024-05-06", "07:08:09")
        );
        assert_eq!(Bext::parse(&body[..337]), None);
    }

    #[test]
    fn texts_are_bounded_and_clean() {
        assert_eq!(clean(b"  a\xffb \0 rest").as_deref(), Some("a\u{fffd}b"));
        assert_eq!(clean(b" \0"), None);
        assert_eq!(
            clean(&vec![b'x'; LONGEST_TEXT + 5]).map(|t| t.len()),
            Some(LONGEST_TEXT)
        );
    }

    #[test]
    fn a_list_keeps_the_first_of_each() {
        let mut metadata = Metadata::default();
        metadata.take_list(b"INFOINAM\x02\0\0\0oneINAM\x01\0\0\0x");
        assert_eq!(metadata.title.as_deref(), Some("on"));
        metadata.take_list(b"adtlINAM\x02\0\0\0xx");
        assert_eq!(metadata.title.as_deref(), Some("on"));
    }
}
