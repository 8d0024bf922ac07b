//! Checks and normalizes a change before a store applies it, so that every store refuses and keeps the same.
//!
//! In come entries and texts of any origin. Out come entries whose vectors have the library's dimension and norm 1, with exactly one
//! for the whole recording and windows in order and within it; tags are sorted, and no text has a NUL.

use std::borrow::Cow;

use half::f16;

use crate::{AudioInfo, Entry, Error, Heard, Notes, Settings, Window};

/// How far the length of a vector may be from 1 when it is put. Rounding to 32 bits is far below, a forgotten division far above.
const UNIT: f64 = 1e-3;
/// How far a window may reach beyond the end of its recording, in seconds: times are rounded.
pub(crate) const OVERHANG: f64 = 1e-3;

/// A text as it is kept: a NUL becomes U+FFFD.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// A folder as it is kept: without a `/` at the end, unless it is the root of all.
pub(crate) fn folder(folder: &str) -> Cow<'_, str> {
    let folder = match folder.trim_end_matches('/') {
        "" => "/",
        rest => rest,
    };
    text(folder)
}

/// Tags as they are kept: sorted, each once.
pub(crate) fn tags(tags: &[String]) -> Vec<String> {
    let mut tags: Vec<String> = tags.iter().map(|tag| text(tag).into_owned()).collect();
    tags.sort_unstable();
    tags.dedup();
    tags
}

/// Notes as they are kept.
pub(crate) fn notes(notes: &Notes) -> Notes {
    Notes {
        captions: notes
            .captions
            .iter()
            .map(|caption| text(caption).into_owned())
            .collect(),
        tags: tags(&notes.tags),
    }
}

/// What is heard, as it is kept: each name once.
pub(crate) fn heard(heard: &[Heard]) -> Vec<Heard> {
    let mut kept: Vec<Heard> = Vec::new();
    for one in heard {
        let name = text(&one.name);
        if kept.iter().all(|other| other.name != name) {
            let (name, starts) = (name.into_owned(), one.starts.clone());
            kept.push(Heard { name, starts, ..*one });
        }
    }
    kept
}

/// What decoding told, as it is kept.
pub(crate) fn sound(sound: &AudioInfo) -> AudioInfo {
    let kept = |from: &str| text(from).into_owned();
    AudioInfo {
        seconds: sound.seconds,
        rate: sound.rate,
        channels: sound.channels,
        container: kept(&sound.container),
        codec: kept(&sound.codec),
        date: kept(&sound.date),
        metadata: sound
            .metadata
            .iter()
            .map(|(name, value)| (kept(name), kept(value)))
            .collect(),
        damage: sound.damage.as_deref().map(kept),
        heard: heard(&sound.heard),
        peaks: sound.peaks.clone(),
        fingerprint: sound.fingerprint.clone(),
    }
}

/// An entry's windows in the order in which they are kept, the whole recording first.
///
/// # Errors
/// If the entry contradicts itself or the settings.
pub(crate) fn windows<'a>(entry: &'a Entry, settings: &Settings) -> Result<Vec<&'a Window>, Error> {
    let path = || entry.path.clone();
    let seconds = entry.sound.seconds;
    if !(seconds.is_finite() && seconds >= 0.0) {
        return Err(Error::BadLength {
            path: path(),
            seconds,
        });
    }
    let mut kept: Vec<&Window> = entry.windows.iter().filter(|window| window.whole).collect();
    if kept.len() != 1 {
        return Err(Error::NotOneWhole {
            path: path(),
            got: kept.len(),
        });
    }
    kept.extend(entry.windows.iter().filter(|window| !window.whole));
    for window in &kept {
        let (start, end) = (window.start, window.end);
        if window.vector.len() != settings.dim {
            return Err(Error::Dimension {
                expected: settings.dim,
                got: window.vector.len(),
            });
        }
        // Whatever is not a number fails the comparison.
        if !(start >= 0.0 && end >= start && end <= seconds + OVERHANG) {
            return Err(Error::WindowOutside {
                path: path(),
                start,
                end,
                seconds,
            });
        }
        let norm = norm(&window.vector);
        if norm.is_nan() || (norm - 1.0).abs() > UNIT {
            return Err(Error::NotUnit {
                path: path(),
                start,
                norm,
            });
        }
    }
    for pair in kept.get(1..).unwrap_or_default().windows(2) {
        if let [before, after] = pair
            && after.start <= before.start
        {
            return Err(Error::WindowsOutOfOrder {
                path: path(),
                start: after.start,
                before: before.start,
            });
        }
    }
    Ok(kept)
}

/// A question's vector, of length 1.
///
/// # Errors
/// If it has another dimension than the library, is zero or is not finite.
pub(crate) fn question(query: &[f32], settings: &Settings) -> Result<Vec<f32>, Error> {
    if query.len() != settings.dim {
        return Err(Error::Dimension {
            expected: settings.dim,
            got: query.len(),
        });
    }
    unit(query).ok_or(Error::NoDirection)
}

/// A vector divided by its length; none if it is zero or not finite.
pub(crate) fn unit(vector: &[f32]) -> Option<Vec<f32>> {
    let norm = norm(vector);
    (norm.is_finite() && norm > 0.0).then(|| {
        vector
            .iter()
            .map(|&value| (f64::from(value) / norm) as f32)
            .collect()
    })
}

/// The Euclidean length.
pub(crate) fn norm(vector: &[f32]) -> f64 {
    vector
        .iter()
        .map(|&value| f64::from(value) * f64::from(value))
        .sum::<f64>()
        .sqrt()
}

/// A vector as it is kept: 16 bits a number, the low byte first.
pub(crate) fn bytes(vector: &[f32]) -> Vec<u8> {
    vector
        .iter()
        .flat_map(|&value| f16::from_f32(value).to_le_bytes())
        .collect()
}

/// The numbers of a vector as it is kept.
pub(crate) fn halves(bytes: &[u8]) -> impl ExactSizeIterator<Item = f16> {
    bytes
        .as_chunks::<2>()
        .0
        .iter()
        .map(|&pair| f16::from_le_bytes(pair))
}

/// Whether settings are those of a possible library.
///
/// # Errors
/// If they are not.
pub(crate) fn settings(settings: &Settings) -> Result<(), Error> {
    let Settings {
        dim,
        window_seconds,
        hop_seconds,
        ..
    } = *settings;
    let length = |seconds: f64| seconds.is_finite() && seconds > 0.0;
    if dim == 0 || !length(window_seconds) || !length(hop_seconds) {
        return Err(Error::BadSettings {
            dim,
            window_seconds,
            hop_seconds,
        });
    }
    Ok(())
}

/// Whether what is at hand fits a library.
///
/// # Errors
/// If it does not: [`Error::OtherModel`], [`Error::Dimension`], [`Error::OtherWindows`].
pub(crate) fn fits(ours: &Settings, theirs: &Settings) -> Result<(), Error> {
    if ours.fingerprint != theirs.fingerprint {
        return Err(Error::OtherModel {
            ours: ours.model.clone(),
            ours_fingerprint: ours.fingerprint.clone(),
            theirs: theirs.model.clone(),
            theirs_fingerprint: theirs.fingerprint.clone(),
        });
    }
    if ours.dim != theirs.dim {
        return Err(Error::Dimension {
            expected: ours.dim,
            got: theirs.dim,
        });
    }
    let same = |a: f64, b: f64| (a - b).abs() < 1e-9;
    if !same(ours.window_seconds, theirs.window_seconds) || !same(ours.hop_seconds, theirs.hop_seconds) {
        return Err(Error::OtherWindows {
            ours_window: ours.window_seconds,
            ours_hop: ours.hop_seconds,
            theirs_window: theirs.window_seconds,
            theirs_hop: theirs.hop_seconds,
        });
    }
    Ok(())
}
