//! A recording becomes FLAC of one channel at 32 kHz with 16 bits, which is what training hears of it: decoded here, resampled
//! and cut to a length.

use std::path::Path;

use hark_audio::{Source, Stream};

/// The rate at which models hear.
const RATE: u32 = 32_000;

/// The file, or `None` for a recording that is damaged, empty or of unknown format: it is better kept as it is.
pub(crate) fn flac(source: Box<dyn Source>, name: &Path, seconds: f64) -> Option<Vec<u8>> {
    let most = (seconds * f64::from(RATE)).round() as usize;
    let mut stream = Stream::from_source(source, name, RATE).ok()?;
    let mut samples: Vec<i16> = Vec::new();
    while samples.len() < most
        && let Some(block) = stream.next_block().ok()?
    {
        let left = (most - samples.len()).min(block.len());
        let scaled = block[..left].iter().map(|sample| (sample * 32_768.0).round());
        samples.extend(scaled.map(|sample| sample.clamp(-32_768.0, 32_767.0) as i16));
    }
    if samples.is_empty() || stream.damage().is_some() {
        return None;
    }
    hark_audio::encode_flac(&samples, RATE)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// A WAV file of a ramp.
    fn wav(rate: u32, channels: u16, frames: u32) -> Vec<u8> {
        let data: Vec<u8> = (0..frames)
            .flat_map(|frame| (0..channels).flat_map(move |_| ((frame % 997) as i16 * 30).to_le_bytes()))
            .collect();
        let mut out = b"RIFF".to_vec();
        out.extend((36 + data.len() as u32).to_le_bytes());
        out.extend(b"WAVEfmt ");
        out.extend(16_u32.to_le_bytes());
        out.extend(1_u16.to_le_bytes());
        out.extend(channels.to_le_bytes());
        out.extend(rate.to_le_bytes());
        out.extend((rate * u32::from(channels) * 2).to_le_bytes());
        out.extend((channels * 2).to_le_bytes());
        out.extend(16_u16.to_le_bytes());
        out.extend(b"data");
        out.extend((data.len() as u32).to_le_bytes());
        out.extend(data);
        out
    }

    fn converted(bytes: Vec<u8>, seconds: f64) -> Option<(Vec<f32>, hark_audio::Info)> {
        let bytes = flac(Box::new(Cursor::new(bytes)), Path::new("x.wav"), seconds)?;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.flac");
        fs_err::write(&path, bytes).unwrap();
        let sound = hark_audio::read(&path, RATE, None).unwrap();
        Some((sound.samples, sound.info))
    }

    #[test]
    fn samples_that_need_no_change_get_none() {
        let (samples, info) = converted(wav(RATE, 1, 40_000), 600.0).unwrap();
        let expected: Vec<f32> = (0..40_000)
            .map(|frame| f32::from((frame % 997) as i16 * 30) / 32_768.0)
            .collect();
        assert_eq!(samples, expected);
        assert_eq!(
            (info.container.as_str(), info.rate, info.channels),
            ("flac", RATE, 1)
        );
    }

    #[test]
    fn other_rates_and_channels_become_one_at_32_khz_and_long_ones_are_cut() {
        let (samples, info) = converted(wav(44_100, 2, 88_200), 600.0).unwrap();
        assert_eq!((samples.len(), info.rate, info.channels), (64_000, RATE, 1));
        let (samples, _) = converted(wav(44_100, 2, 88_200), 0.5).unwrap();
        assert_eq!(samples.len(), 16_000);
    }

    #[test]
    fn what_does_not_decode_is_not_converted() {
        assert!(converted(b"RIFF and no more".to_vec(), 600.0).is_none());
        let mut cut = wav(RATE, 1, 40_000);
        cut.truncate(50_000);
        assert!(converted(cut, 600.0).is_none());
    }
}
