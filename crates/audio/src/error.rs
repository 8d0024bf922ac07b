//! What can go wrong between a file's bytes and its samples.

use std::io;
use std::path::PathBuf;

/// Why a file gives no samples.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The content matches no known audio format.
    #[error("cannot decode {}: unknown format", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
    },
    /// The content is of a known format that nothing here decodes.
    #[error("cannot decode {}: {}", path.display(), foreign(format, ffmpeg.as_deref()))]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The format's name.
        format: &'static str,
        /// What ffmpeg says of it, if it was tried.
        ffmpeg: Option<String>,
    },
    /// The container is known, but its header is broken or says something that cannot be read.
    #[error("cannot read {}: broken {container} header: {what}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// The container, such as `wav`.
        container: String,
        /// What is wrong with it.
        what: String,
    },
    /// The file has no audio track.
    #[error("{} has no audio track", path.display())]
    NoAudio {
        /// The file.
        path: PathBuf,
    },
    /// The audio is coded in a way that cannot be decoded.
    #[error("cannot decode {}: codec `{codec}`: {what}", path.display())]
    Codec {
        /// The file.
        path: PathBuf,
        /// The coding, as far as it is known.
        codec: String,
        /// What is missing or wrong.
        what: String,
    },
    /// The sample rate is outside [`LOWEST_RATE`](crate::LOWEST_RATE)..=[`HIGHEST_RATE`](crate::HIGHEST_RATE).
    #[error("cannot read {}: sample rate {rate} Hz is outside 1000 to 768000 Hz", path.display())]
    Rate {
        /// The file.
        path: PathBuf,
        /// The rate of the header.
        rate: u32,
    },
    /// The number of channels is 0 or above [`MAX_CHANNELS`](crate::MAX_CHANNELS).
    #[error("cannot read {}: {channels} channels; supported are 1 to 64", path.display())]
    Channels {
        /// The file.
        path: PathBuf,
        /// The number in the header.
        channels: usize,
    },
    /// A sample of a floating-point file is not a number, or infinite.
    #[error("cannot read {}: the sample at {at_seconds:.6} s is not finite", path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// Where it stands.
        at_seconds: f64,
    },
    /// The header is right, but not one sample can be decoded.
    #[error("cannot decode {}: no samples: {what}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// The decoder panicked before it gave a sample. Symphonia does so on some damaged files; only that file is lost.
    #[error("cannot decode {}: the decoder failed", path.display())]
    Decoder {
        /// The file.
        path: PathBuf,
    },
    /// Reading was stopped from outside before the file's end.
    #[error("cancelled while reading {}", path.display())]
    Stopped {
        /// The file.
        path: PathBuf,
    },
    /// A rate to resample from or to is outside 1 kHz to 768 kHz.
    #[error("cannot resample from {from} Hz to {to} Hz: both must be within 1000 to 768000 Hz")]
    Resample {
        /// The rate of the input.
        from: u32,
        /// The rate that was asked for.
        to: u32,
    },
}

fn foreign(format: &str, ffmpeg: Option<&str>) -> String {
    match ffmpeg {
        None => format!("{format} is not supported without ffmpeg"),
        Some("") => format!("{format} is not supported, and ffmpeg finds no sound in it"),
        Some(complaint) => format!("{format} is not supported, and ffmpeg says: {complaint}"),
    }
}
