//! Compressed files: symphonia's demuxers and decoders, the demuxers of this crate for Matroska and MP4, and ropus for
//! Opus.
//!
//! In: a source of any format that is known by its content. Out: the decoded packets of the first audio
//! track, mixed to one channel, without the encoder's run-up and padding where the container tells them. A packet
//! that cannot be decoded is skipped. A stream that is followed by another one (chained Ogg) goes on as long as the
//! rate stays the same.
//!
//! Symphonia has checks that panic on some damaged files: sums that overflow in builds with overflow checks, and
//! assertions. They lie deep within the decoding of single packets, where no look at the header could foresee them.
//! Every call into a demuxer or decoder therefore goes through [`shielded`], after which the file is at its end. The
//! files that showed this are in `tests/hostile.rs`. The panic's message still appears where the program's panic hook
//! puts it.

use std::cell::Cell;
use std::io::{self, SeekFrom};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use symphonia::core::audio::conv::IntoSample;
use symphonia::core::audio::sample::Sample;
use symphonia::core::audio::{Audio, AudioBuffer, GenericAudioBufferRef};
use symphonia::core::codecs::audio::well_known::{
    CODEC_ID_AAC, CODEC_ID_ALAC, CODEC_ID_FLAC, CODEC_ID_MP1, CODEC_ID_MP2, CODEC_ID_MP3, CODEC_ID_OPUS,
};
use symphonia::core::codecs::audio::{
    AudioCodecId, AudioCodecParameters, AudioDecoder, AudioDecoderOptions, CODEC_ID_NULL_AUDIO,
};
use symphonia::core::common::Limit;
use symphonia::core::errors::Error as Fault;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, FormatReader, Track, TrackType};
use symphonia::core::io::{MediaSourceStream, MediaSourceStreamOptions};
use symphonia::core::meta::MetadataOptions;
use symphonia::core::packet::Packet;
use symphonia::core::units::{Duration, Timestamp};

use crate::matroska::{self, Matroska};
use crate::metadata::{MAX_TEXT_BYTES, Metadata};
use crate::mp4::{self, Mp4};
use crate::opus::{self, Head, Opus};
use crate::pcm::{Layout, MAX_CHANNELS, Step};
use crate::source::{Budget, MAX_BYTES_PER_PACKET, MAX_BYTES_TO_OPEN, Metered, Places, Source, read_bounded};
use crate::track::{CUT, Coded, Demux, Heard, Refusal, Unit};
use crate::{id3, ogg};

/// Pictures in tags are not wanted, but symphonia reads them; larger ones are passed over.
const LARGEST_PICTURE: usize = 16 << 20;

/// A codec that claims more samples per packet than this, over all channels, is not believed: decoders reserve the
/// space beforehand. The largest real value is FLAC's 65535 frames of 8 channels.
const MAX_SAMPLES_PER_PACKET: u64 = 1 << 22;

/// Runs a call into a decoder made by others; `None` if it panicked. What it worked on must not be used again, only
/// dropped, which is why it may be handed in as it is.
fn shielded<T>(call: impl FnOnce() -> T) -> Option<T> {
    SHIELDED.set(true);
    let result = catch_unwind(AssertUnwindSafe(call)).ok();
    SHIELDED.set(false);
    result
}

thread_local! {
    static SHIELDED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in a decoder made by others, whose panics are caught and become errors: for a program's
/// panic hook, which has nothing to tell then.
pub fn in_decoder() -> bool {
    SHIELDED.get()
}

enum Coder {
    Symphonia(Box<dyn AudioDecoder>),
    Opus(Box<Opus>),
    Linear(Layout),
}

/// Who takes the file apart.
enum Container {
    Symphonia(Box<dyn FormatReader>),
    Own(Box<dyn Demux>),
}

/// The packets of one file's audio track.
pub(crate) struct Packets {
    format: Container,
    budget: Budget,
    track: u32,
    coder: Coder,
    rate: u32,
    /// Frames of the encoder's run-up that are still to be dropped.
    drop: u64,
    /// Frames that may still be given, where the container says where the padding begins.
    keep: Option<u64>,
    /// The encoder's padding of an MP3 file, in frames after the run-up. Sound may follow it: of a second file that
    /// was joined to the first.
    padding: Range<u64>,
    /// Frames of the track that have gone by, those that were left out included; counted for `padding` only.
    passed: u64,
    /// An Ogg file does not end where its last page does.
    cut_ogg: bool,
    mixed: Vec<f32>,
}

/// What the container says of the track.
pub(crate) struct About {
    pub container: &'static str,
    pub codec: String,
    pub rate: u32,
    pub channels: usize,
    /// The length that the file declares, without run-up and padding.
    pub seconds: Option<f64>,
    /// Frames that must be there for the file to be whole, where only the declared length tells.
    pub expected: Option<u64>,
    pub metadata: Metadata,
}

impl Packets {
    /// Finds the format by content and prepares the decoder.
    pub(crate) fn open(mut source: Box<dyn Source>, length: u64) -> Result<(Self, About), Refusal> {
        let budget = Budget::default();
        source.seek(SeekFrom::Start(0)).map_err(Refusal::Read)?;
        let head = read_bounded(&mut source, 12, 12).map_err(Refusal::Read)?;
        let opened = shielded(|| {
            if matroska::is_matroska(&head) {
                let (format, heard) = Matroska::open(Places::new(source, length))?;
                return Self::open_own(Box::new(format), heard, budget.clone());
            }
            if mp4::is_mp4(&head) {
                let (format, heard) = Mp4::open(Places::new(source, length))?;
                return Self::open_own(Box::new(format), heard, budget.clone());
            }
            Self::open_unshielded(source, length, budget.clone())
        });
        match budget.take_fault() {
            Some(fault) => Err(Refusal::Read(fault)),
            None => opened.unwrap_or(Err(Refusal::BrokeDown)),
        }
    }

    /// As [`Packets::open`], for a file that has been taken apart already.
    pub(crate) fn open_demux(format: Box<dyn Demux>, heard: Heard) -> Result<(Self, About), Refusal> {
        let opened = shielded(|| Self::open_own(format, heard, Budget::default()));
        opened.unwrap_or(Err(Refusal::BrokeDown))
    }

    fn open_own(format: Box<dyn Demux>, heard: Heard, budget: Budget) -> Result<(Self, About), Refusal> {
        let (coder, rate, channels, stated) = match heard.coding {
            Coded::Packets(parameters) => {
                let coder = make_coder(&parameters)?;
                let (rate, channels) = coder.shape(&parameters);
                (coder, rate, channels, parameters.sample_rate.unwrap_or(rate))
            }
            Coded::Linear(layout, rate) => (Coder::Linear(layout), rate, layout.channels, rate),
        };
        // The container may count at twice the rate of the decoder, which does not reconstruct the upper band of HE-AAC.
        let scaled = |frames: u64| {
            let frames = u128::from(frames) * u128::from(rate) / u128::from(stated.max(1));
            u64::try_from(frames).unwrap_or(u64::MAX)
        };
        let pre_skip = match &coder {
            Coder::Opus(opus) => opus.pre_skip(),
            _ => 0,
        };
        let about = About {
            container: heard.container,
            codec: coder.name(),
            rate,
            channels,
            seconds: heard.seconds,
            expected: None,
            metadata: heard.metadata,
        };
        let packets = Self {
            format: Container::Own(format),
            budget,
            track: 0,
            coder,
            rate,
            drop: heard.drop.map_or(pre_skip, scaled),
            keep: heard.keep.map(scaled),
            padding: 0..0,
            passed: 0,
            cut_ogg: false,
            mixed: Vec::new(),
        };
        Ok((packets, about))
    }

    fn open_unshielded(
        mut source: Box<dyn Source>,
        length: u64,
        budget: Budget,
    ) -> Result<(Self, About), Refusal> {
        let cut_ogg = ogg::is_cut(&mut source, length).map_err(Refusal::Read)?;
        source.seek(SeekFrom::Start(0)).map_err(Refusal::Read)?;
        budget.set(MAX_BYTES_TO_OPEN);
        let metered = Box::new(Metered::new(source, length, budget.clone()));
        let stream = MediaSourceStream::new(metered, MediaSourceStreamOptions::default());
        let texts = MetadataOptions::default()
            .limit_tag_bytes(Limit::Maximum(MAX_TEXT_BYTES))
            .limit_visual_bytes(Limit::Maximum(LARGEST_PICTURE));
        let mut format = id3::probe()
            .probe(&Hint::new(), stream, FormatOptions::default(), texts)
            .map_err(refuse_format)?;
        let container = container_name(format.format_info().short_name);
        let mut metadata = Metadata::default();
        while let Some(revision) = format.metadata().pop() {
            metadata.take_revision(&revision);
        }
        if let Some(revision) = format.metadata().current() {
            metadata.take_revision(revision);
        }
        let track = format
            .default_track(TrackType::Audio)
            .ok_or(Refusal::NoAudio)?
            .clone();
        let parameters = audio_parameters(&track).ok_or(Refusal::NoAudio)?;
        let coder = make_coder(parameters)?;
        let (rate, channels) = coder.shape(parameters);
        let drop = run_up(&coder, &track);
        let counted =
            declared_frames(&track, parameters.codec, drop).filter(|_| !is_guess(&track, container));
        let padding = counted
            .filter(|_| is_mpeg(parameters.codec))
            .map_or(0..0, |frames| {
                frames..frames.saturating_add(u64::from(track.padding.unwrap_or(0)))
            });
        let keep =
            counted.filter(|_| has_hidden_padding(parameters.codec) && !counts_otherwise(&track, rate));
        let slack = slack(&track, parameters, rate);
        let about = About {
            container,
            codec: coder.name(),
            rate,
            channels,
            seconds: counted.map(|frames| frames as f64 / f64::from(rate)),
            expected: counted
                .zip(slack)
                .map(|(frames, slack)| frames.saturating_sub(slack)),
            metadata,
        };
        let track = track.id;
        Ok((
            Self {
                format: Container::Symphonia(format),
                budget,
                track,
                coder,
                rate,
                drop,
                keep,
                padding,
                passed: 0,
                cut_ogg,
                mixed: Vec::new(),
            },
            about,
        ))
    }

    /// Appends the next packet's samples to `out`; some packets have none. Demuxers take a source that cannot
    /// be read for one that ends or is damaged, and so the source itself is asked.
    pub(crate) fn next(&mut self, out: &mut Vec<f32>) -> io::Result<Step> {
        let step = shielded(|| self.next_unshielded(out));
        match self.budget.take_fault() {
            Some(fault) => Err(fault),
            None => step.unwrap_or(Ok(Step::BrokeDown)),
        }
    }

    fn next_unshielded(&mut self, out: &mut Vec<f32>) -> io::Result<Step> {
        match &mut self.format {
            Container::Own(format) => {
                let unit = format.next()?;
                Ok(self.take_unit(unit, out))
            }
            Container::Symphonia(_) => Ok(self.next_of_symphonia(out)),
        }
    }

    fn take_unit(&mut self, unit: Unit, out: &mut Vec<f32>) -> Step {
        let (data, trim) = match unit {
            Unit::Packet { data, trim } => (data, trim),
            Unit::Gap(what) => return Step::Skipped(what),
            Unit::Broken(what) => return Step::Broken(what),
            Unit::End => return self.end(),
        };
        self.mixed.clear();
        let packet = Packet::new(self.track, Timestamp::ZERO, Duration::ZERO, data);
        if let Err(step) = self.decode(&packet) {
            return step;
        }
        let padding = u128::from(trim) * u128::from(self.rate) / 1_000_000_000;
        let kept = self
            .mixed
            .len()
            .saturating_sub(usize::try_from(padding).unwrap_or(usize::MAX));
        self.mixed.truncate(kept);
        self.hand_out(out);
        Step::Samples
    }

    fn next_of_symphonia(&mut self, out: &mut Vec<f32>) -> Step {
        self.budget.set(MAX_BYTES_PER_PACKET);
        let Container::Symphonia(format) = &mut self.format else {
            return Step::End;
        };
        let packet = match format.next_packet() {
            Ok(Some(packet)) => packet,
            Ok(None) => return self.end(),
            Err(Fault::ResetRequired) => return self.start_again(),
            Err(Fault::IoError(e)) if e.kind() == io::ErrorKind::UnexpectedEof => {
                return Step::Broken(CUT.to_owned());
            }
            Err(e) => return Step::Broken(format!("the container is damaged: {}", describe(&e))),
        };
        if packet.track_id != self.track {
            return Step::Samples;
        }
        self.mixed.clear();
        if let Err(step) = self.decode(&packet) {
            self.passed = self.passed.saturating_add(packet.dur.get());
            return step;
        }
        self.hand_out(out);
        Step::Samples
    }

    /// Decodes into `self.mixed`.
    fn decode(&mut self, packet: &Packet) -> Result<(), Step> {
        match &mut self.coder {
            Coder::Opus(opus) => {
                opus.decode(&packet.data, &mut self.mixed)
                    .map_err(Step::Skipped)?;
                let padding = usize::try_from(packet.trim_end.get()).unwrap_or(usize::MAX);
                self.mixed.truncate(self.mixed.len().saturating_sub(padding));
            }
            Coder::Linear(layout) => layout.mix(&packet.data, &mut self.mixed),
            Coder::Symphonia(decoder) => match decoder.decode(packet) {
                Ok(buffer) if buffer.spec().rate() != self.rate => {
                    let rate = buffer.spec().rate();
                    return Err(Step::Broken(format!(
                        "the sample rate changes from {} to {rate} Hz",
                        self.rate
                    )));
                }
                Ok(buffer) => mix(&buffer, &mut self.mixed),
                Err(Fault::DecodeError(what)) => return Err(Step::Skipped(what.to_owned())),
                Err(Fault::IoError(_)) => return Err(Step::Skipped("a packet is cut short".to_owned())),
                Err(Fault::ResetRequired) => {
                    decoder.reset();
                    return Err(Step::Skipped("the decoder had to start afresh".to_owned()));
                }
                Err(e) => return Err(Step::Broken(describe(&e))),
            },
        }
        if !all_finite(&self.mixed) {
            return Err(Step::Skipped(
                "a packet decodes to numbers that are not finite".to_owned(),
            ));
        }
        Ok(())
    }

    /// Moves `self.mixed` to `out`, without the run-up and the padding.
    fn hand_out(&mut self, out: &mut Vec<f32>) {
        let dropped = self
            .mixed
            .len()
            .min(usize::try_from(self.drop).unwrap_or(usize::MAX));
        self.drop -= dropped as u64;
        let mut kept = &self.mixed[dropped..];
        if !self.padding.is_empty() {
            self.mixed.drain(..dropped);
            let end = self.passed + self.mixed.len() as u64;
            let at = |frame: u64| (frame.clamp(self.passed, end) - self.passed) as usize;
            let padding = at(self.padding.start)..at(self.padding.end);
            self.mixed.drain(padding);
            self.passed = end;
            kept = &self.mixed;
        }
        if let Some(keep) = &mut self.keep {
            kept = &kept[..kept.len().min(usize::try_from(*keep).unwrap_or(usize::MAX))];
            *keep -= kept.len() as u64;
        }
        out.extend_from_slice(kept);
    }

    /// The regular end. FLAC files carry a checksum of all samples.
    fn end(&mut self) -> Step {
        let verified = match &mut self.coder {
            Coder::Symphonia(decoder) => decoder.finalize().verify_ok,
            Coder::Opus(_) | Coder::Linear(_) => None,
        };
        match verified {
            Some(false) => Step::Broken("the samples do not fit the file's own checksum".to_owned()),
            _ if self.cut_ogg => Step::Broken(CUT.to_owned()),
            _ => Step::End,
        }
    }

    /// Another stream begins in the same file.
    fn start_again(&mut self) -> Step {
        let next = match &self.format {
            Container::Symphonia(format) => format.default_track(TrackType::Audio).cloned(),
            Container::Own(_) => None,
        };
        let Some(track) = next else {
            return Step::Broken("the next stream of the file has no audio".to_owned());
        };
        let Some(Ok(coder)) = audio_parameters(&track).map(make_coder) else {
            return Step::Broken("the next stream of the file cannot be decoded".to_owned());
        };
        let rate = audio_parameters(&track).map_or(0, |p| coder.shape(p).0);
        if rate != self.rate {
            return Step::Broken(format!("the sample rate changes from {} to {rate} Hz", self.rate));
        }
        self.drop = run_up(&coder, &track);
        self.keep = None;
        self.padding = 0..0;
        self.coder = coder;
        self.track = track.id;
        Step::Samples
    }
}

impl Coder {
    fn name(&self) -> String {
        match self {
            Self::Opus(_) => "opus".to_owned(),
            Self::Linear(layout) => layout.coding.name(),
            Self::Symphonia(decoder) => decoder.codec_info().short_name.to_owned(),
        }
    }

    /// The rate and the channels. The decoder knows them better than the container.
    fn shape(&self, container: &AudioCodecParameters) -> (u32, usize) {
        match self {
            Self::Opus(opus) => (opus::RATE, opus.channels()),
            Self::Linear(layout) => (container.sample_rate.unwrap_or(0), layout.channels),
            Self::Symphonia(decoder) => {
                let own = decoder.codec_params();
                let rate = own.sample_rate.or(container.sample_rate).unwrap_or(0);
                let channels = own.channels.as_ref().or(container.channels.as_ref());
                (rate, channels.map_or(0, symphonia::core::audio::Channels::count))
            }
        }
    }
}

fn audio_parameters(track: &Track) -> Option<&AudioCodecParameters> {
    track
        .codec_params
        .as_ref()?
        .audio()
        .filter(|p| p.codec != CODEC_ID_NULL_AUDIO)
}

fn make_coder(parameters: &AudioCodecParameters) -> Result<Coder, Refusal> {
    let channels = parameters
        .channels
        .as_ref()
        .map_or(1, symphonia::core::audio::Channels::count);
    if channels > MAX_CHANNELS {
        return Err(Refusal::Channels(channels));
    }
    let codec_name = || {
        symphonia::default::get_codecs()
            .get_audio_decoder(parameters.codec)
            .map(|c| c.codec.info.short_name)
    };
    let refuse = |what: String| Refusal::Codec {
        codec: codec_name().unwrap_or("unknown").to_owned(),
        what,
    };
    if parameters.codec == CODEC_ID_OPUS {
        let refuse = |what| Refusal::Codec {
            codec: "opus".to_owned(),
            what,
        };
        let head = Head::parse(parameters.extra_data.as_deref().unwrap_or_default()).map_err(refuse)?;
        return Opus::new(head).map(Box::new).map(Coder::Opus).map_err(refuse);
    }
    let most = parameters
        .max_frames_per_packet
        .unwrap_or(0)
        .saturating_mul(channels as u64);
    if most > MAX_SAMPLES_PER_PACKET {
        return Err(refuse(format!("it claims {most} samples per packet")));
    }
    // Only FLAC has anything to verify; elsewhere this asks for nothing. Symphonia takes what follows the declared
    // length of an MP3 file for padding, even where that length is a guess or another file follows.
    let options = AudioDecoderOptions::default()
        .verify(true)
        .gapless(!is_mpeg(parameters.codec));
    let decoder = symphonia::default::get_codecs().make_audio_decoder(parameters, &options);
    decoder.map(Coder::Symphonia).map_err(|e| refuse(describe(&e)))
}

/// Frames before the first one that is to be heard. Vorbis packets are trimmed by symphonia itself.
fn run_up(coder: &Coder, track: &Track) -> u64 {
    match coder {
        Coder::Opus(opus) => opus.pre_skip(),
        Coder::Symphonia(decoder) => match decoder.codec_params().codec {
            codec if is_mpeg(codec) || has_hidden_padding(codec) => u64::from(track.delay.unwrap_or(0)),
            _ => 0,
        },
        Coder::Linear(_) => 0,
    }
}

/// Codecs whose run-up and padding stand in the container only, and are left there by symphonia.
fn has_hidden_padding(codec: AudioCodecId) -> bool {
    codec == CODEC_ID_AAC || codec == CODEC_ID_ALAC
}

/// True if the track counts in other units than frames, so that its length is only rounded.
fn counts_otherwise(track: &Track, rate: u32) -> bool {
    track
        .time_base
        .is_none_or(|base| base.numer.get() != 1 || base.denom.get() != rate)
}

/// The length that the container declares. Ogg Opus counts the run-up.
fn declared_frames(track: &Track, codec: AudioCodecId, drop: u64) -> Option<u64> {
    let counted = track.num_frames?;
    Some(if codec == CODEC_ID_OPUS {
        counted.saturating_sub(drop)
    } else {
        counted
    })
}

fn is_mpeg(codec: AudioCodecId) -> bool {
    [CODEC_ID_MP1, CODEC_ID_MP2, CODEC_ID_MP3].contains(&codec)
}

/// True if the length is reckoned from the file's size and the bit rate of some frames: MP3 without the encoder's own
/// count, and bare AAC.
fn is_guess(track: &Track, container: &str) -> bool {
    match container {
        "mp3" => track.delay.is_none(),
        "aac" => true,
        _ => false,
    }
}

/// How many frames may be missing at the end without anything being amiss.
fn slack(track: &Track, parameters: &AudioCodecParameters, rate: u32) -> Option<u64> {
    let codec = parameters.codec;
    match codec {
        CODEC_ID_FLAC => Some(0),
        // Some writers count the last packet as a full one.
        CODEC_ID_ALAC => Some(parameters.max_frames_per_packet.unwrap_or(4096)),
        CODEC_ID_AAC if counts_otherwise(track, rate) => None,
        _ => Some(u64::from(rate / 20)),
    }
}

/// The mean of all planes, summed in `f64`.
fn mix(buffer: &GenericAudioBufferRef<'_>, out: &mut Vec<f32>) {
    match buffer {
        GenericAudioBufferRef::U8(b) => mix_planes(b, out),
        GenericAudioBufferRef::U16(b) => mix_planes(b, out),
        GenericAudioBufferRef::U24(b) => mix_planes(b, out),
        GenericAudioBufferRef::U32(b) => mix_planes(b, out),
        GenericAudioBufferRef::S8(b) => mix_planes(b, out),
        GenericAudioBufferRef::S16(b) => mix_planes(b, out),
        GenericAudioBufferRef::S24(b) => mix_planes(b, out),
        GenericAudioBufferRef::S32(b) => mix_planes(b, out),
        GenericAudioBufferRef::F32(b) => mix_planes(b, out),
        GenericAudioBufferRef::F64(b) => mix_planes(b, out),
    }
}

fn mix_planes<S: Sample + IntoSample<f64>>(buffer: &AudioBuffer<S>, out: &mut Vec<f32>) {
    let planes: Vec<&[S]> = (0..buffer.num_planes()).filter_map(|i| buffer.plane(i)).collect();
    let wide = |s: S| IntoSample::<f64>::into_sample(s);
    // Nearly all files have one or two channels. Without a loop within the loop several frames are done at
    // once.
    match planes.as_slice() {
        [only] => out.extend(only.iter().map(|&s| wide(s) as f32)),
        [left, right] => {
            let pairs = left.iter().zip(*right);
            out.extend(pairs.map(|(&l, &r)| (0.5 * (wide(l) + wide(r))) as f32));
        }
        planes => {
            let count = planes.len().max(1) as f64;
            out.extend((0..buffer.frames()).map(|i| {
                let sum: f64 = planes.iter().filter_map(|p| p.get(i)).map(|&s| wide(s)).sum();
                (sum / count) as f32
            }));
        }
    }
}

/// Looks at all samples even if the first is amiss: without a way out in between, many are done at once.
fn all_finite(samples: &[f32]) -> bool {
    let bad = samples.iter().map(|s| u32::from(!s.is_finite()));
    bad.fold(0, |any, this| any | this) == 0
}

fn refuse_format(error: Fault) -> Refusal {
    match error {
        Fault::Unsupported(what) if what.starts_with("core (probe)") => Refusal::Unknown,
        Fault::IoError(e) if e.kind() == io::ErrorKind::UnexpectedEof => Refusal::Header {
            container: "sound".to_owned(),
            what: "the file ends within it".to_owned(),
        },
        e => Refusal::Header {
            container: "sound".to_owned(),
            what: describe(&e),
        },
    }
}

fn describe(error: &Fault) -> String {
    match error {
        Fault::IoError(e) => e.to_string(),
        Fault::DecodeError(what) | Fault::Unsupported(what) | Fault::LimitError(what) => (*what).to_owned(),
        e => e.to_string(),
    }
}

/// Symphonia's short names, where there is a better known one.
fn container_name(short: &'static str) -> &'static str {
    match short {
        "wave" => "wav",
        "mp1" | "mp2" | "mp3" | "mpa" => "mp3",
        short => short,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use symphonia::core::audio::{AudioMut as _, AudioSpec, Channels};

    /// Against the mean by its formula; the order of the sum is the same, and so are all bits.
    #[test]
    fn one_two_and_more_planes_give_the_mean() {
        for planes in [1_usize, 2, 3, 6] {
            let spec = AudioSpec::new(48_000, Channels::Discrete(planes as u16));
            let mut buffer = AudioBuffer::<i32>::new(spec, 100);
            buffer.render_uninit(Some(37));
            let value = |plane: usize, i: usize| (i as i32 * 50_000_003).wrapping_mul(3 + plane as i32);
            for plane in 0..planes {
                for (i, sample) in buffer.plane_mut(plane).unwrap().iter_mut().enumerate() {
                    *sample = value(plane, i);
                }
            }
            let mut found = Vec::new();
            mix_planes(&buffer, &mut found);
            let wanted: Vec<f32> = (0..37)
                .map(|i| {
                    let sum: f64 = (0..planes)
                        .map(|p| f64::from(value(p, i)) / 2_147_483_648.0)
                        .sum();
                    (sum / planes as f64) as f32
                })
                .collect();
            assert_eq!(found, wanted, "{planes} planes");
        }
    }

    #[test]
    fn one_number_that_is_not_finite_is_found_at_every_place() {
        let mut samples = [0.5_f32; 67];
        assert!(all_finite(&samples) && all_finite(&[]));
        for at in 0..samples.len() {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                samples[at] = bad;
                assert!(!all_finite(&samples), "{at} {bad}");
                samples[at] = f32::MAX;
            }
        }
        assert!(all_finite(&samples));
    }
}
