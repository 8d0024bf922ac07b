//! What the demuxers of this crate, for FLAC, Ogg, Matroska and MP4, tell about the audio track and hand out.

use std::io;

use symphonia::core::audio::Channels;
use symphonia::core::codecs::audio::well_known::{CODEC_ID_MP1, CODEC_ID_MP2, CODEC_ID_MP3};
use symphonia::core::codecs::audio::{AudioCodecId, AudioCodecParameters};

use crate::metadata::Metadata;
use crate::pcm::Layout;
use crate::points::Points;

/// Why there is no decoder.
pub(crate) enum Refusal {
    Read(io::Error),
    Unknown,
    Header { container: String, what: String },
    NoAudio,
    Codec { codec: String, what: String },
    Channels(usize),
    BrokeDown,
}

/// The audio track of a file.
pub(crate) struct Heard {
    pub container: &'static str,
    pub coding: Coded,
    /// Frames before the first one that is to be heard, where the container says so.
    pub drop: Option<u64>,
    /// How many frames are to be heard, where the container says exactly that.
    pub keep: Option<u64>,
    /// The length that the file declares.
    pub seconds: Option<f64>,
    pub metadata: Metadata,
}

/// How the track is coded.
pub(crate) enum Coded {
    /// By a codec that symphonia or ropus decodes.
    Packets(Box<AudioCodecParameters>),
    /// Uncompressed, at this rate.
    Linear(Layout, u32),
}

/// One step through the track.
#[derive(Debug, PartialEq)]
pub(crate) enum Unit {
    /// A packet; `trim` are the nanoseconds of padding at its end.
    Packet {
        data: Vec<u8>,
        trim: u64,
    },
    /// Another stream begins, for which [`Demux::parameters`] are the decoder's.
    Next,
    /// So many frames of the stream, by the container's count, end with the packets so far.
    At(u64),
    /// So many frames of the stream, by the container's count, are to be heard; what follows is padding.
    Until(u64),
    /// Something between packets makes no sense and was passed over.
    Gap(String),
    /// Nothing more can be read, and that is a fault.
    Broken(String),
    End,
}

/// A container whose packets are read here.
pub(crate) trait Demux: Send + Sync {
    fn next(&mut self) -> io::Result<Unit>;

    /// Goes through the rest of the packets without decoding them; `None` if their lengths cannot be told that way, or if
    /// anything is wrong with them.
    fn walk(&mut self) -> io::Result<Option<Points>> {
        Ok(None)
    }

    /// Moves to the packet that holds a frame, in a file of which [`Demux::walk`] made the points; returns the packet's first
    /// frame. `None` if the file is another one now.
    fn enter(&mut self, _points: &Points, _frame: u64) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// What the decoder is to be made for after [`Unit::Next`].
    fn parameters(&self) -> Option<AudioCodecParameters> {
        None
    }
}

pub(crate) const CUT: &str = "the file ends before the stream does";

pub(crate) fn header_fault(container: &str, what: impl Into<String>) -> Refusal {
    Refusal::Header {
        container: container.to_owned(),
        what: what.into(),
    }
}

pub(crate) fn unsupported(codec: impl Into<String>) -> Refusal {
    Refusal::Codec {
        codec: codec.into(),
        what: "not supported".to_owned(),
    }
}

/// Parameters for a decoder. Rates and channels that are not set are left open.
pub(crate) fn parameters(
    codec: AudioCodecId,
    rate: u32,
    channels: usize,
    extra: Option<&[u8]>,
) -> AudioCodecParameters {
    let mut parameters = AudioCodecParameters::new();
    parameters.for_codec(codec);
    if rate > 0 {
        parameters.with_sample_rate(rate);
    }
    if channels > 0 {
        parameters.with_channels(Channels::Discrete(u16::try_from(channels).unwrap_or(u16::MAX)));
    }
    if let Some(extra) = extra.filter(|extra| !extra.is_empty()) {
        parameters.with_extra_data(extra.into());
    }
    parameters
}

/// The codec, rate and channels of an MPEG audio frame (ISO/IEC 11172-3, 2.4.1.3).
pub(crate) fn mpeg_frame(bytes: &[u8]) -> Option<(AudioCodecId, u32, usize)> {
    let &[a, b, c, d] = bytes.first_chunk::<4>()?;
    let synced = a == 0xff && b & 0xe0 == 0xe0;
    let version = b >> 3 & 3;
    let codec = match b >> 1 & 3 {
        1 => CODEC_ID_MP3,
        2 => CODEC_ID_MP2,
        3 => CODEC_ID_MP1,
        _ => return None,
    };
    let rate = [44_100, 48_000, 32_000].get(usize::from(c >> 2 & 3))?;
    let halved = match version {
        3 => 0,
        2 => 1,
        0 => 2,
        _ => return None,
    };
    let channels = if d >> 6 == 3 { 1 } else { 2 };
    synced.then_some((codec, rate >> halved, channels))
}

/// The stream information of FLAC, which is what its decoder wants, out of `fLaC` and metadata blocks.
pub(crate) fn flac_stream_info(blocks: &[u8]) -> Option<&[u8]> {
    let blocks = blocks.strip_prefix(b"fLaC").unwrap_or(blocks);
    let (head, body) = blocks.split_first_chunk::<4>()?;
    // Its highest bit says whether it is the last block.
    matches!(head[0], 0 | 0x80).then(|| body.get(..34))?
}
