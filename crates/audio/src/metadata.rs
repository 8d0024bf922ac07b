//! The words that a file carries about itself.
//!
//! In: tags of any container as symphonia reads them, and the chunks `LIST INFO`, `bext` (EBU Tech 3285) and
//! `iXML` of WAV files. Out: [`Metadata`], every text bounded, trimmed and free of zero bytes; and from it, flat names with
//! their texts ([`Metadata::fields`]) and the day of the recording ([`Metadata::day`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use symphonia::core::meta::{MetadataRevision, RawValue, StandardTag, Tag};

use crate::chunks::within;
use crate::ixml;

/// The longest text of one field: 64 KiB. Longer ones are cut; nobody writes a title as long.
pub const MAX_TEXT_BYTES: usize = 64 << 10;

/// The longest `iXML` document that is kept: 1 MiB. A longer one is left out, since half of a document is of no use.
pub const MAX_IXML_BYTES: usize = 1 << 20;

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

/// The year of the oldest recording of sound there is: a date before it is none.
const FIRST_YEAR: i16 = 1857;

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
    /// Everything that the file says of itself, by flat names: `title`, `artist`, `description`, `comment`, `date`; those of
    /// the Broadcast WAV chunk as `bext.description`, `bext.originator`, `bext.originator_reference`, `bext.date` and
    /// `bext.time`; and the leaves of the `iXML` document, as `ixml.scene`, `ixml.keywords` or
    /// `ixml.location.location_name`. Names without a text are left out.
    pub fn fields(&self) -> BTreeMap<String, String> {
        let bext = self.bext.as_ref();
        let own = [
            ("title", self.title.as_ref()),
            ("artist", self.artist.as_ref()),
            ("description", self.description.as_ref()),
            ("comment", self.comment.as_ref()),
            ("date", self.date.as_ref()),
            ("bext.description", bext.map(|bext| &bext.description)),
            ("bext.originator", bext.map(|bext| &bext.originator)),
            (
                "bext.originator_reference",
                bext.map(|bext| &bext.originator_reference),
            ),
            ("bext.date", bext.map(|bext| &bext.date)),
            ("bext.time", bext.map(|bext| &bext.time)),
        ];
        let own = own.into_iter().filter_map(|(name, text)| {
            Some((name.to_owned(), text.filter(|text| !text.is_empty())?.clone()))
        });
        let leaves = self.ixml.as_deref().map(ixml::leaves).unwrap_or_default();
        own.chain(
            leaves
                .into_iter()
                .map(|(name, text)| (format!("ixml.{name}"), text)),
        )
        .collect()
    }

    /// The day of the recording, as `2026-11-15`; `None` if the file does not say it.
    ///
    /// The first of `date`, `bext.date` and the date that `iXML` repeats from there which names a day wins. Understood are year, month
    /// and day in this order, with one of `-`, `:`, `/`, `.`, `_` or a space between, or eight digits without; a time may
    /// follow. Where none names a day, a month or a year alone stands for its first day: it is nearer to the truth than the
    /// day on which the file was copied. Days that no calendar has, years before 1857, in which sound was first recorded, and
    /// spellings that begin with the day or the month, which cannot be told apart, are passed over.
    pub fn day(&self) -> Option<String> {
        let repeated = self.ixml.as_deref().map(ixml::leaves).unwrap_or_default();
        let dates = [
            self.date.as_deref(),
            self.bext.as_ref().map(|bext| bext.date.as_str()),
            repeated.get("bext.bwf_origination_date").map(String::as_str),
        ];
        let dates: Vec<Date> = dates.into_iter().flatten().filter_map(Date::parse).collect();
        let date = dates.iter().find(|date| date.names_day).or(dates.first())?;
        Some(date.first.to_string())
    }

    /// Takes the fields of a `LIST` chunk of the form `INFO`; other lists have none.
    pub(crate) fn take_list(&mut self, body: &[u8], big_endian: bool) {
        let Some((b"INFO", items)) = body.split_first_chunk::<4>() else {
            return;
        };
        for (name, text) in within(items, big_endian) {
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

    /// Takes from `other` what is not there.
    pub(crate) fn fill_from(&mut self, other: Self) {
        keep_first(&mut self.title, other.title);
        keep_first(&mut self.artist, other.artist);
        keep_first(&mut self.description, other.description);
        keep_first(&mut self.comment, other.comment);
        keep_first(&mut self.date, other.date);
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

/// A date that the calendar has.
struct Date {
    /// The day, or the first day of the month or the year that alone is known.
    first: jiff::civil::Date,
    names_day: bool,
}

impl Date {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (year, month, day) = match digits {
            4 => Self::with_separators(text)?,
            // A time of day may follow without anything between.
            8 | 12 | 14 => (
                number(text, 0..4)?,
                Some(number(text, 4..6)?),
                Some(number(text, 6..8)?),
            ),
            _ => return None,
        };
        if year < FIRST_YEAR {
            return None;
        }
        // jiff knows the calendar. A month or a year alone is taken as its first day.
        let first = jiff::civil::Date::new(year, month.unwrap_or(1), day.unwrap_or(1)).ok()?;
        Some(Self {
            first,
            names_day: day.is_some(),
        })
    }

    /// Year, month and day of `2026-11-15`, of `2026-11` or of `2026`.
    fn with_separators(text: &str) -> Option<(i16, Option<i8>, Option<i8>)> {
        let year = number(text, 0..4)?;
        let mut rest = text.get(4..)?.chars();
        let Some(separator) = rest.next() else {
            return Some((year, None, None));
        };
        if !"-:/._ ".contains(separator) {
            return None;
        }
        let (month, after) = one_or_two_digits(rest.as_str())?;
        let Some(day) = after.strip_prefix(separator) else {
            return after.is_empty().then_some((year, Some(month), None));
        };
        let (day, after) = one_or_two_digits(day)?;
        let ended = !after.starts_with(|c: char| c.is_ascii_digit());
        ended.then_some((year, Some(month), Some(day)))
    }
}

/// The number that is written at these bytes, all of which are digits.
fn number<N: std::str::FromStr>(text: &str, range: std::ops::Range<usize>) -> Option<N> {
    text.get(range)?.parse().ok()
}

/// A number of one or two digits, and what follows it.
fn one_or_two_digits(text: &str) -> Option<(i8, &str)> {
    let digits = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    Some((number(text, 0..digits)?, text.get(digits..)?))
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
/// Takes the texts of a Vorbis comment (of FLAC, Vorbis and Opus): a vendor, a count and texts of the form `NAME=value`, each
/// after its length. What is cut short or too long is left out.
pub(crate) fn vorbis_comments(block: &[u8], metadata: &mut Metadata) {
    fn part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (part, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        *rest = after;
        Some(part)
    }
    let mut rest = block;
    if part(&mut rest).is_none() || rest.len() < 4 {
        return;
    }
    rest = &rest[4..];
    let mut later = Metadata::default();
    while let Some(comment) = part(&mut rest) {
        let Some(equals) = comment.iter().position(|&byte| byte == b'=') else {
            continue;
        };
        let (name, text) = (&comment[..equals], &comment[equals + 1..]);
        let field = match name.to_ascii_uppercase().as_slice() {
            b"TITLE" => &mut metadata.title,
            b"ARTIST" => &mut metadata.artist,
            b"DESCRIPTION" => &mut metadata.description,
            b"COMMENT" => &mut metadata.comment,
            b"DATE" | b"YEAR" | b"ORIGINALDATE" => &mut metadata.date,
            b"ALBUMARTIST" | b"ALBUM ARTIST" => &mut later.artist,
            b"COMMENTS" | b"SUMMARY" => &mut later.comment,
            _ => continue,
        };
        keep_first(field, clean(text));
    }
    metadata.fill_from(later);
}

pub(crate) fn keep_first(field: &mut Option<String>, text: Option<String>) {
    if field.is_none() {
        *field = text;
    }
}

/// Text up to its first zero byte, without white space around it; `None` if nothing is left. Bytes that are not
/// UTF-8 are replaced, since these chunks do not say which code page they are in.
pub(crate) fn clean(bytes: &[u8]) -> Option<String> {
    let bytes = &bytes[..bytes.len().min(MAX_TEXT_BYTES)];
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]);
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
            clean(&vec![b'x'; MAX_TEXT_BYTES + 5]).map(|t| t.len()),
            Some(MAX_TEXT_BYTES)
        );
    }

    #[test]
    fn a_list_keeps_the_first_of_each() {
        let mut metadata = Metadata::default();
        metadata.take_list(b"INFOINAM\x02\0\0\0oneINAM\x01\0\0\0x", false);
        assert_eq!(metadata.title.as_deref(), Some("on"));
        metadata.take_list(b"adtlINAM\x02\0\0\0xx", false);
        assert_eq!(metadata.title.as_deref(), Some("on"));
    }

    #[test]
    fn fields_have_flat_names_and_leave_out_what_is_empty() {
        let metadata = Metadata {
            title: Some("Rain".to_owned()),
            date: Some("2026".to_owned()),
            bext: Some(Bext {
                description: "Heavy rain".to_owned(),
                date: "2026-11-15".to_owned(),
                ..Bext::default()
            }),
            ixml: Some("<BWFXML><SCENE>12</SCENE><USER><KEYWORDS>wet</KEYWORDS></USER></BWFXML>".to_owned()),
            ..Metadata::default()
        };
        let fields = metadata.fields();
        let found: Vec<_> = fields
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .collect();
        let expected = [
            ("bext.date", "2026-11-15"),
            ("bext.description", "Heavy rain"),
            ("date", "2026"),
            ("ixml.keywords", "wet"),
            ("ixml.scene", "12"),
            ("title", "Rain"),
        ];
        assert_eq!(found, expected);
        // The year alone stands first, but the other names a day.
        assert_eq!(metadata.day().as_deref(), Some("2026-11-15"));
        assert!(Metadata::default().fields().is_empty());
        assert_eq!(Metadata::default().day(), None);
    }

    fn day(date: &str) -> Option<String> {
        Metadata {
            date: Some(date.to_owned()),
            ..Metadata::default()
        }
        .day()
    }

    #[test]
    fn the_usual_spellings_of_a_day() {
        for date in [
            "2026-11-15",
            "2026:11:15",
            "2026/11/15",
            "2026.11.15",
            "2026_11_15",
            "2026 11 15",
            "20261115",
            "20261115T070809",
            "20261115070809",
            "2026-11-15T07:08:09Z",
            "2026-11-15T07:08:09.123+02:00",
            " 2026-11-15 07:08:09 ",
        ] {
            assert_eq!(day(date).as_deref(), Some("2026-11-15"), "{date}");
        }
        assert_eq!(day("2026-1-5").as_deref(), Some("2026-01-05"));
        assert_eq!(day("2026-11").as_deref(), Some("2026-11-01"));
        assert_eq!(day("2026").as_deref(), Some("2026-01-01"));
        assert_eq!(day("2024-02-29").as_deref(), Some("2024-02-29"));
        assert_eq!(day("2000-02-29").as_deref(), Some("2000-02-29"));
    }

    #[test]
    fn days_that_cannot_be() {
        for date in [
            "",
            "0000-00-00",
            "2026-00-10",
            "2026-13-01",
            "2026-11-31",
            "2026-02-29",
            "2026-02-31",
            "20260231",
            "1900-02-29",
            "2026-11-00",
            "2026-11-155",
            "2026-11:15",
            "2026-11-",
            "2026-",
            "2026x",
            "1856-12-31",
            "15.11.2026",
            "11/15/2026",
            "202611",
            "202611155",
            "+026-11-15",
            "2026-+1-15",
            "\u{662}\u{660}\u{662}\u{666}",
            "2026\u{2013}11\u{2013}15",
            "last summer",
        ] {
            assert_eq!(day(date), None, "{date}");
        }
    }

    #[test]
    fn what_broadcast_and_ixml_say_stands_in() {
        let mut metadata = Metadata {
            date: Some("unknown".to_owned()),
            ixml: Some(
                "<BWFXML><BEXT><BWF_ORIGINATION_DATE>2020-03-04</BWF_ORIGINATION_DATE></BEXT></BWFXML>"
                    .to_owned(),
            ),
            ..Metadata::default()
        };
        assert_eq!(metadata.day().as_deref(), Some("2020-03-04"));
        metadata.bext = Some(Bext {
            date: "2021:05:06".to_owned(),
            ..Bext::default()
        });
        assert_eq!(metadata.day().as_deref(), Some("2021-05-06"));
    }

    proptest! {
        #[test]
        fn any_text_gives_a_whole_day_or_none(date in "\\PC*|[0-9]{0,9}[-:/. T]?[0-9]{0,3}[-:/. T]?[0-9]{0,3}.?") {
            if let Some(day) = day(&date) {
                prop_assert_eq!(day.len(), 10, "{}", date);
                prop_assert_eq!(super::Date::parse(&day).is_some_and(|date| date.names_day), true);
            }
        }

        /// Every day of a calendar is read from each of the spellings.
        #[test]
        fn days_come_back(year in FIRST_YEAR..=9999, month in 1_u32..=12, day_of in 1_u32..=31) {
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let days = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            let possible = day_of <= days[month as usize - 1];
            let expected = possible.then(|| format!("{year:04}-{month:02}-{day_of:02}"));
            prop_assert_eq!(day(&format!("{year:04}-{month:02}-{day_of:02}T12:00")), expected.clone());
            prop_assert_eq!(day(&format!("{year:04}{month:02}{day_of:02}")), expected);
        }
    }
}
