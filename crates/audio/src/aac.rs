//! AAC beyond what symphonia decodes: more than two channels, HE-AAC, Main, LTP and frames of 960 samples, by syom.
//!
//! In: the decoder's configuration (ISO/IEC 14496-3, 1.6.2.1) and access units. Out: the mean of all channels. Plain AAC-LC
//! of one or two channels stays with symphonia. Low rates are decoded for some packets first: only the packets tell
//! whether they carry the upper band of HE-AAC.

use syom::{DecodeOptions, Decoder};

/// Packets that are decoded to learn the rate and the channels.
pub(crate) const AHEAD: usize = 4;

/// The highest rate of a core whose upper band may follow without a word in the header.
const HIGHEST_CORE: u32 = 24_000;

const RATES: [u32; 13] = [
    96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350,
];

pub(crate) struct Aac {
    config: Vec<u8>,
    decoder: Decoder,
    pub rate: u32,
    pub channels: usize,
    name: &'static str,
}

/// The beginning of a configuration.
struct Start {
    object: u8,
    rate: u32,
    channels: u8,
    /// Frames of 960 samples.
    short: bool,
    /// A mark of HE-AAC follows.
    extended: bool,
}

impl Start {
    fn parse(config: &[u8]) -> Option<Self> {
        let all = config
            .iter()
            .take(8)
            .fold(0_u64, |bits, &b| bits << 8 | u64::from(b));
        let mut left = 8 * config.len().min(8);
        let mut take = |count: usize| {
            left = left.checked_sub(count)?;
            Some(all >> left & ((1 << count) - 1))
        };
        let mut object = take(5)?;
        if object == 31 {
            object = 32 + take(6)?;
        }
        let rate = match take(4)? {
            15 => take(24)? as u32,
            index => *RATES.get(index as usize)?,
        };
        let channels = take(4)? as u8;
        let short = take(1).unwrap_or(0) == 1;
        let extended = config.windows(2).any(|w| w[0] == 0x56 && w[1] & 0xe0 == 0xe0);
        Some(Self {
            object: object as u8,
            rate,
            channels,
            short,
            extended,
        })
    }

    /// True if symphonia decodes it, as far as it is told.
    fn is_simple(&self) -> bool {
        self.object == 2 && matches!(self.channels, 1 | 2) && !self.short
    }
}

/// True if the first packets have to be seen before a decoder is chosen.
pub(crate) fn is_open(config: &[u8]) -> bool {
    Start::parse(config)
        .is_some_and(|start| !start.is_simple() || start.extended || start.rate <= HIGHEST_CORE)
}

/// The configuration without the mark of a core coder whose delay does not follow, which some writers set.
pub(crate) fn mended(config: &[u8]) -> Vec<u8> {
    let mut config = config.to_vec();
    if let [first, second] = config.as_mut_slice()
        && (1..=4).contains(&(*first >> 3))
        && *second & 2 != 0
    {
        *second &= !2;
    }
    config
}

/// The configuration of the lower band alone of HE-AAC, as AAC-LC of one or two channels.
pub(crate) fn lower_band(config: &[u8]) -> Option<[u8; 2]> {
    let start = Start::parse(config)?;
    let index = RATES.iter().position(|&rate| rate == start.rate)? as u8;
    let plain = matches!(start.object, 5 | 29) && matches!(start.channels, 1 | 2);
    plain.then_some([2 << 3 | index >> 1, index << 7 | start.channels << 3])
}

/// MP3 within MP4 by an old draft, which has the number of HE-AAC v2 (ISO/IEC 14496-3, W6132, annex YYYY).
fn is_mp3_on_4(config: &[u8]) -> bool {
    let bytes = |at| config.get(at).copied().map_or(0, u32::from);
    let bits = bytes(0) << 24 | bytes(1) << 16 | bytes(2) << 8 | bytes(3);
    let after = bits << 13;
    bits >> 27 == 29 && after >> 29 & 3 != 0 && after & 0x1f80_0000 == 0
}

/// What a configuration names that nothing here decodes.
pub(crate) fn foreign(config: &[u8]) -> Option<&'static str> {
    if is_mp3_on_4(config) {
        return Some("mp3on4");
    }
    Some(match Start::parse(config)?.object {
        8 => "celp",
        9 => "hvxc",
        12..=16 => "mpeg-4 synthesis",
        22 => "bsac",
        32..=34 => "mpeg audio in mp4",
        35 => "dst",
        36 => "mpeg-4 als",
        37 | 38 => "mpeg-4 sls",
        39 => "aac-eld",
        42 => "xhe-aac",
        _ => return None,
    })
}

/// The configuration that the first ADTS header of a file says (ISO/IEC 13818-7, 6.2).
pub(crate) fn of_adts(head: &[u8]) -> Option<[u8; 2]> {
    let &[a, b, c, d] = head.first_chunk::<4>()?;
    if a != 0xff || b & 0xf6 != 0xf0 {
        return None;
    }
    // Files that are marked as SSR are AAC-LC: no encoder of the other is known.
    let object = match (c >> 6) + 1 {
        3 => 2,
        object => object,
    };
    let (index, channels) = (c >> 2 & 15, (c & 1) << 2 | d >> 6);
    Some([object << 3 | index >> 1, index << 7 | channels << 3])
}

impl Aac {
    /// A decoder, if these packets need one that symphonia is not. An error if there is none: what is wrong with the packets.
    pub(crate) fn new<'a>(
        config: &[u8],
        packets: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Option<Self>, String> {
        let Some(start) = Start::parse(config) else {
            return Ok(None);
        };
        let open =
            || Decoder::from_asc(config, DecodeOptions::unbounded()).map_err(|fault| fault.to_string());
        let mut found = None;
        let mut first = None;
        let mut probe = match open() {
            Ok(probe) => probe,
            Err(_) if start.is_simple() => return Ok(None),
            Err(fault) => return Err(fault),
        };
        for packet in packets {
            let done = probe.decode_au(packet, |frame| {
                let shape = (frame.sample_rate, frame.planar.len());
                found = found.max(Some(shape).filter(|&(_, channels)| channels > 0));
                Ok(())
            });
            if let Err(fault) = done {
                first.get_or_insert(fault.to_string());
                probe = open()?;
            }
        }
        let Some((rate, channels)) = found else {
            return match first.filter(|_| !start.is_simple()) {
                Some(fault) => Err(fault),
                None => Ok(None),
            };
        };
        let upper = rate > start.rate;
        if start.is_simple() && !upper {
            return Ok(None);
        }
        let name = match (start.object, upper) {
            (29, _) => "he-aac v2",
            (_, true) if usize::from(start.channels) < channels => "he-aac v2",
            (5, _) | (_, true) => "he-aac",
            (1, _) => "aac main",
            (4, _) => "aac ltp",
            _ => "aac",
        };
        Ok(Some(Self {
            config: config.to_vec(),
            decoder: open()?,
            rate,
            channels,
            name,
        }))
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Appends the mean of all channels. After a fault the decoder starts afresh.
    pub(crate) fn decode(&mut self, packet: &[u8], out: &mut Vec<f32>) -> Result<(), String> {
        let rate = self.rate;
        let mut other = None;
        let done = self.decoder.decode_au(packet, |frame| {
            if frame.sample_rate == rate {
                mix(frame.planar, out);
            } else {
                other = Some(frame.sample_rate);
            }
            Ok(())
        });
        match (done, other) {
            (Ok(()), None) => Ok(()),
            (Ok(()), Some(other)) => Err(format!("a packet of {other} Hz among those of {rate} Hz")),
            (Err(fault), _) => {
                if let Ok(decoder) = Decoder::from_asc(&self.config, DecodeOptions::unbounded()) {
                    self.decoder = decoder;
                }
                Err(format!("aac: {fault}"))
            }
        }
    }
}

fn mix(planes: &[&[f32]], out: &mut Vec<f32>) {
    let Some(first) = planes.first() else { return };
    let count = planes.len() as f64;
    out.extend((0..first.len()).map(|i| {
        let sum: f64 = planes
            .iter()
            .filter_map(|plane| plane.get(i))
            .map(|&s| f64::from(s))
            .sum();
        (sum / count) as f32
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_told_apart() {
        assert!(!is_open(&[0x12, 0x10]), "LC, 44.1 kHz, stereo");
        assert!(is_open(&[0x11, 0xb0]), "LC, 48 kHz, 5.1");
        assert!(is_open(&[0x0a, 0x10]), "Main");
        assert!(is_open(&[0x13, 0x90]), "LC, 22.05 kHz: the upper band may follow");
        assert!(is_open(&[0x11, 0x90, 0x56, 0xe5, 0x00]), "marked");
        assert!(is_open(&[0x12, 0x14]), "960 samples");
        assert_eq!(foreign(&[0xf9, 0x48, 0x40]), Some("xhe-aac"));
        assert_eq!(foreign(&[0x12, 0x10]), None);
        assert_eq!(foreign(&[0xe8, 0x35]), Some("mp3on4"));
        assert_eq!(foreign(&[0xeb, 0x8a, 0x08, 0x00]), None, "HE-AAC v2");
        assert_eq!(mended(&[0x12, 0x12]), [0x12, 0x10]);
        assert_eq!(mended(&[0x12, 0x12, 0, 0]), [0x12, 0x12, 0, 0]);
        assert_eq!(lower_band(&[0x2b, 0x8a, 0x08, 0x00]), Some([0x13, 0x88]));
        assert_eq!(lower_band(&[0x12, 0x10]), None);
        assert_eq!(of_adts(&[0xff, 0xf1, 0x50, 0x80]), Some([0x12, 0x10]));
        for length in 0..2 {
            assert!(!is_open(&[0x11, 0xb0][..length]));
        }
    }
}
