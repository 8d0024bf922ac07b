//! File bytes in, waveform and log-mel out.
//!
//! What comes in is a sound file of any common kind, told by its content and never by its name: WAV (also RF64,
//! BW64 and Broadcast WAV), AIFF, CAF, FLAC, MP3, Ogg Vorbis, Opus, AAC and Apple Lossless in MP4, Matroska.
//! What goes out is one channel of `f32` samples, at the file's own rate ([`Decoder`]) or at a wished one
//! ([`Stream`], [`read`]), block after block, so that a file of many hours needs no more memory than a short one.
//!
//! A waveform at 32 kHz becomes a log-mel as PaSST's front end computes it ([`MelSpectrogram`]).
//!
//! For a library of recordings, one pass gives the outline of a waveform and a fingerprint by which the same recording is
//! recognised in other formats ([`summarize()`], [`Fingerprint`]).
//!
//! Files that nothing here decodes go to the program `ffmpeg`, if there is one ([`Fallback`]).
//!
//! A file that is damaged after its beginning gives what can be read and says where it broke ([`Damage`]). A file
//! that gives nothing is an [`Error`].

mod aac;
mod adpcm;
mod aiff;
mod au;
pub mod augment;
mod blocks;
mod caf;
mod caf_packets;
mod chunks;
mod decode;
mod error;
mod extensions;
mod ffmpeg;
mod fingerprint;
mod flac;
mod flac_decode;
mod flac_encode;
mod flac_frame;
mod foreign;
mod id3;
mod ixml;
mod kernels;
mod matroska;
pub mod mel;
mod metadata;
mod mix;
mod mp4;
mod mp4_entry;
mod mp4_tables;
mod ogg;
mod opus;
mod packets;
mod pcm;
mod peaks;
mod points;
mod quicktime;
mod range;
mod resample;
mod sound;
mod source;
mod spectra;
mod stream;
mod summary;
mod track;
mod vorbis;
mod w64;
mod wav;
mod wave_format;
mod window;

pub use decode::{Damage, Decoder, Info, MAX_EMPTY_PACKETS, probe};
pub use error::Error;
pub use extensions::{
    AUDIO_EXTENSIONS, FFMPEG_EXTENSIONS, HEADER_BYTES, has_audio_extension, has_ffmpeg_extension,
    looks_like_audio,
};
pub use ffmpeg::Fallback;
pub use fingerprint::{
    DELAY, Fingerprint, FingerprintError, Fingerprinter, LENGTHS, LIMIT, distance, same_recording,
};
pub use flac_encode::encode_flac;
pub use mel::{LogMel, MelConfig, MelError, MelSpectrogram};
pub use metadata::{Bext, MAX_IXML_BYTES, MAX_TEXT_BYTES, Metadata};
pub use packets::in_decoder;
pub use pcm::{HIGHEST_RATE, LOWEST_RATE, MAX_CHANNELS};
pub use peaks::Peaks;
pub use range::{SeekIndex, read_range};
pub use resample::Resampler;
pub use source::{MAX_BYTES_PER_PACKET, MAX_BYTES_TO_OPEN, Source};
pub use stream::{Stream, Waveform, read};
pub use summary::{AudioSummary, COLUMNS, Summarizer, summarize};
