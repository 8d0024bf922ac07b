//! Compressed files: symphonia's demuxers and decoders, the demuxers of this crate for FLAC, Ogg, Matroska and MP4, its decoder
//! of FLAC, and ropus for Opus.
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

mod seek;

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, SeekFrom};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use symphonia::core::codecs::audio::well_known::{
    CODEC_ID_AAC, CODEC_ID_ALAC, CODEC_ID_FLAC, CODEC_ID_MP1, CODEC_ID_MP2, CODEC_ID_MP3, CODEC_ID_OPUS,
    CODEC_ID_VORBIS,
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

use crate::aac::{self, Aac};
use crate::flac::{self, Flac};
use crate::flac_decode::FlacDecoder;
use crate::id3;
use crate::matroska::{self, Matroska};
use crate::metadata::{MAX_TEXT_BYTES, Metadata};
use crate::mix::{all_finite, exceeds, mix};
use crate::mp4::{self, Mp4};
use crate::ogg::{self, Ogg};
use crate::opus::{self, Head, Opus};
use crate::pcm::{Layout, MAX_CHANNELS, Step};
use crate::resample::Resampler;
use crate::sound::Sound;
use crate::source::{Budget, MAX_BYTES_PER_PACKET, MAX_BYTES_TO_OPEN, Metered, Places, Source, read_bounded};
use crate::track::{CUT, Coded, Demux, Heard, Refusal, Unit, mpeg_frame, parameters, unsupported};
use crate::vorbis;

/// Pictures in tags are not wanted, but symphonia reads them; larger ones are passed over.
const LARGEST_PICTURE: usize = 16 << 20;

/// A codec that claims more samples per packet than this, over all channels, is not believed: decoders reserve the
/// space beforehand. The largest real value is FLAC's 65535 frames of 8 channels.
const MAX_SAMPLES_PER_PACKET: u64 = 1 << 22;

/// So many frames of MPEG audio of another layer or rate are no accident.
const ENOUGH_FRAMES: usize = 4;

const NO_UPPER_BAND: &str = "the upper band of HE-AAC cannot be decoded and is left out";

const NO_SOUND: &str = "bytes between the frames are no sound";

/// No sound is louder than this, full scale being 1: 18 dB are far more than encoders overshoot.
const MAX_LEVEL: f32 = 8.0;

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
    Aac(Box<Aac>),
    Flac(Box<FlacDecoder>),
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
    /// The rate of what is given.
    rate: u32,
    /// The rate of the stream that is being decoded.
    stream_rate: u32,
    /// Frames of the encoder's run-up that are still to be dropped.
    drop: u64,
    /// Frames that may still be given, where the container says where the padding begins.
    keep: Option<u64>,
    /// The encoder's padding of an MP3 file, in frames after the run-up. Sound may follow it: of a second file that
    /// was joined to the first.
    padding: Range<u64>,
    /// Frames of the track that have gone by, those that were left out included; counted for `padding` only.
    passed: u64,
    /// Frames of the stream that were decoded, the run-up included.
    count: u64,
    /// What the container counts at the first of them, where it counts: not zero if the beginning is missing.
    origin: Option<i64>,
    /// Where the padding begins, in frames that were decoded.
    until: Option<u64>,
    /// Brings streams of another rate than the first one's to that one's.
    resampler: Option<Resampler>,
    /// The codec, rate and channels of the last frame of MPEG audio.
    mpeg: Option<(AudioCodecId, u32, usize)>,
    /// Packets of MPEG audio unlike those before them, kept back.
    held: Vec<Packet>,
    /// Packets that come before those of the container.
    queue: VecDeque<Packet>,
    /// The queue needs another decoder.
    changed: bool,
    /// What the resampler of a stream that has ended still held.
    tail: Vec<f32>,
    /// What follows the tail, or what is to be said first.
    after_tail: Option<Step>,
    /// Packets that were read to choose a decoder.
    ahead: VecDeque<Unit>,
    mixed: Vec<f32>,
    /// Whether the packet that was decoded last is louder than [`MAX_LEVEL`].
    loud: bool,
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

/// What a file has.
pub(crate) enum Opened {
    Packets(Box<Packets>, Box<About>),
    /// Sound whose packets the container does not tell: it is read as that of plain files is. With the number of frames that
    /// the container counts.
    Sound(Box<dyn Source>, Box<Sound>, Option<u64>),
}

impl From<(Packets, About)> for Opened {
    fn from((packets, about): (Packets, About)) -> Self {
        Self::Packets(Box::new(packets), Box::new(about))
    }
}

impl Packets {
    /// Finds the format by content and prepares the decoder.
    pub(crate) fn open(mut source: Box<dyn Source>, length: u64) -> Result<Opened, Refusal> {
        let budget = Budget::default();
        source.seek(SeekFrom::Start(0)).map_err(Refusal::Read)?;
        let head = read_bounded(&mut source, 12, 12).map_err(Refusal::Read)?;
        let own = |format, heard| Self::open_own(format, heard, budget.clone()).map(Opened::from);
        let opened = shielded(|| {
            if matroska::is_matroska(&head) {
                let (format, heard) = Matroska::open(Places::new(source, length))?;
                return own(Box::new(format), heard);
            }
            if mp4::is_mp4(&head) {
                return match Mp4::open(Places::new(source, length))? {
                    mp4::Opened::Packets(format, heard) => own(format, *heard),
                    mp4::Opened::Sound(source, sound, frames) => Ok(Opened::Sound(source, sound, frames)),
                };
            }
            let mut source = Places::new(source, length);
            if let Some(at) = flac::start(&mut source).map_err(Refusal::Read)? {
                let (format, heard) = Flac::open(source, at)?;
                return own(Box::new(format), heard);
            }
            if let Some(at) = ogg::start(&mut source).map_err(Refusal::Read)? {
                let (format, heard) = Ogg::open(source, at)?;
                return own(Box::new(format), heard);
            }
            Self::open_unshielded(source.into_inner(), length, budget.clone(), aac::of_adts(&head))
                .map(Opened::from)
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

    fn open_own(mut format: Box<dyn Demux>, heard: Heard, budget: Budget) -> Result<(Self, About), Refusal> {
        let mut ahead = VecDeque::new();
        let mut note = None;
        let (coder, rate, channels, stated) = match heard.coding {
            Coded::Packets(parameters) => {
                if open_config(&parameters).is_some() {
                    while ahead.len() < aac::AHEAD
                        && !matches!(ahead.back(), Some(Unit::Broken(_) | Unit::End))
                    {
                        ahead.push_back(format.next().map_err(Refusal::Read)?);
                    }
                }
                let (coder, said) = choose_coder(&parameters, &ahead)?;
                note = said;
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
            stream_rate: rate,
            drop: heard.drop.map_or(pre_skip, scaled),
            keep: heard.keep.map(scaled),
            padding: 0..0,
            passed: 0,
            count: 0,
            origin: None,
            until: None,
            resampler: None,
            mpeg: None,
            held: Vec::new(),
            queue: VecDeque::new(),
            changed: false,
            tail: Vec::new(),
            after_tail: note,
            ahead,
            mixed: Vec::new(),
            loud: false,
        };
        Ok((packets, about))
    }

    fn open_unshielded(
        mut source: Box<dyn Source>,
        length: u64,
        budget: Budget,
        adts: Option<[u8; 2]>,
    ) -> Result<(Self, About), Refusal> {
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
        let mut parameters = audio_parameters(&track).ok_or(Refusal::NoAudio)?.clone();
        let mut ahead = VecDeque::new();
        if container == "aac"
            && let Some(config) = adts.filter(|config| aac::is_open(config))
        {
            parameters.with_extra_data(config.into());
            while ahead.len() < aac::AHEAD && !matches!(ahead.back(), Some(Unit::Broken(_))) {
                ahead.push_back(match format.next_packet() {
                    Ok(Some(packet)) => Unit::Packet {
                        data: packet.data.into(),
                        trim: 0,
                    },
                    Ok(None) => break,
                    Err(fault) => Unit::Broken(describe_container(&fault)),
                });
            }
        }
        let parameters = &parameters;
        let (coder, note) = choose_coder(parameters, &ahead)?;
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
                stream_rate: rate,
                drop,
                keep,
                padding,
                passed: 0,
                count: 0,
                origin: None,
                until: None,
                resampler: None,
                mpeg: None,
                held: Vec::new(),
                queue: VecDeque::new(),
                changed: false,
                tail: Vec::new(),
                after_tail: note,
                ahead,
                mixed: Vec::new(),
                loud: false,
            },
            about,
        ))
    }

    /// Appends the next packet's samples to `out`; some packets have none. Demuxers take a source that cannot
    /// be read for one that ends or is damaged, and so the source itself is asked.
    pub(crate) fn next(&mut self, out: &mut Vec<f32>) -> io::Result<Step> {
        if let Some(step) = self.after_tail.take() {
            return Ok(step);
        }
        let step = shielded(|| self.next_unshielded(out));
        let step = match self.budget.take_fault() {
            Some(fault) => return Err(fault),
            None => step.unwrap_or(Ok(Step::BrokeDown))?,
        };
        if matches!(step, Step::End | Step::Broken(_) | Step::BrokeDown) && self.resampler.is_some() {
            self.finish_resampling();
            out.append(&mut self.tail);
            self.after_tail = Some(step);
            return Ok(Step::Samples);
        }
        Ok(step)
    }

    /// The stream that follows has this rate; the first one's rate is kept for all.
    fn change_rate(&mut self, rate: u32) -> Result<(), Step> {
        if rate == self.stream_rate {
            return Ok(());
        }
        self.finish_resampling();
        if rate != self.rate {
            let resampler = Resampler::new(rate, self.rate).map_err(|_| {
                Step::Broken(format!("the sample rate changes from {} to {rate} Hz", self.rate))
            })?;
            self.resampler = Some(resampler);
        }
        self.stream_rate = rate;
        Ok(())
    }

    fn finish_resampling(&mut self) {
        if let Some(mut resampler) = self.resampler.take() {
            resampler.finish(&mut self.tail);
        }
    }

    /// The decoder of the stream that begins now.
    fn next_decoder(&mut self, parameters: Option<&AudioCodecParameters>) -> Result<(), Step> {
        let Some(parameters) = parameters else {
            return Err(Step::Broken(
                "the next stream of the file has no audio".to_owned(),
            ));
        };
        let Ok(coder) = make_coder(parameters) else {
            return Err(Step::Broken(
                "the next stream of the file cannot be decoded".to_owned(),
            ));
        };
        let (rate, _) = coder.shape(parameters);
        self.change_rate(rate)?;
        self.coder = coder;
        Ok(())
    }

    fn next_unshielded(&mut self, out: &mut Vec<f32>) -> io::Result<Step> {
        if let Some(unit) = self.ahead.pop_front() {
            return Ok(self.take_unit(unit, out));
        }
        match &mut self.format {
            Container::Own(format) => {
                let mut unit = format.next()?;
                while let Unit::At(_) | Unit::Until(_) = unit {
                    self.take_count(&unit);
                    let Container::Own(format) = &mut self.format else {
                        return Ok(Step::End);
                    };
                    unit = format.next()?;
                }
                Ok(self.take_unit(unit, out))
            }
            Container::Symphonia(_) => Ok(self.next_of_symphonia(out)),
        }
    }

    /// Takes what the container counts. Pages after a stream's last one are heard all the same.
    fn take_count(&mut self, unit: &Unit) {
        match unit {
            Unit::At(counted) => {
                let origin = counted.cast_signed().saturating_sub(self.count.cast_signed());
                self.origin.get_or_insert(origin);
                self.until = None;
            }
            Unit::Until(counted) => {
                let end = counted.cast_signed().saturating_sub(self.origin.unwrap_or(0));
                self.until = u64::try_from(end).ok();
            }
            _ => {}
        }
    }

    fn take_unit(&mut self, unit: Unit, out: &mut Vec<f32>) -> Step {
        let (data, trim) = match unit {
            Unit::Packet { data, trim } => (data, trim),
            Unit::Next => return self.next_own(),
            Unit::At(_) | Unit::Until(_) => return Step::Samples,
            Unit::Gap(what) => {
                // The frames that are missing are counted with the next page.
                self.origin = None;
                return Step::Skipped(what);
            }
            Unit::Broken(what) => return Step::Broken(what),
            Unit::End => return self.end(),
        };
        self.mixed.clear();
        let packet = Packet::new(self.track, Timestamp::ZERO, Duration::ZERO, data);
        if let Err(step) = self.decode(&packet) {
            return step;
        }
        let padding = u128::from(trim) * u128::from(self.stream_rate) / 1_000_000_000;
        let kept = self
            .mixed
            .len()
            .saturating_sub(usize::try_from(padding).unwrap_or(usize::MAX));
        self.mixed.truncate(kept);
        self.give(out)
    }

    fn next_own(&mut self) -> Step {
        let Container::Own(format) = &self.format else {
            return Step::End;
        };
        let parameters = format.parameters();
        if let Err(step) = self.next_decoder(parameters.as_ref()) {
            return step;
        }
        self.drop = match &self.coder {
            Coder::Opus(opus) => opus.pre_skip(),
            _ => 0,
        };
        self.keep = None;
        (self.count, self.origin, self.until) = (0, None, None);
        Step::Samples
    }

    fn next_of_symphonia(&mut self, out: &mut Vec<f32>) -> Step {
        self.budget.set(MAX_BYTES_PER_PACKET);
        let Container::Symphonia(format) = &mut self.format else {
            return Step::End;
        };
        let packet = match self
            .queue
            .pop_front()
            .map_or_else(|| format.next_packet(), |p| Ok(Some(p)))
        {
            Ok(Some(packet)) => packet,
            Ok(None) if !self.held.is_empty() => {
                self.held.clear();
                self.after_tail = Some(self.end());
                return Step::Skipped(NO_SOUND.to_owned());
            }
            Ok(None) => return self.end(),
            Err(Fault::ResetRequired) => return self.start_again(),
            Err(e) => return Step::Broken(describe_container(&e)),
        };
        if packet.track_id != self.track {
            return Step::Samples;
        }
        let packet = match self.hold(packet) {
            Ok(packet) => packet,
            Err(step) => return step,
        };
        self.mixed.clear();
        if let Err(step) = self.decode(&packet) {
            self.passed = self.passed.saturating_add(packet.dur.get());
            return step;
        }
        self.give(out)
    }

    /// Keeps packets of MPEG audio of another layer or rate back until there are some: a few may be bytes that only look like
    /// frames, many are another file that was joined.
    fn hold(&mut self, packet: Packet) -> Result<Packet, Step> {
        let kind = |packet: &Packet| mpeg_frame(&packet.data).map(|(codec, rate, _)| (codec, rate));
        let now = self.mpeg.map(|(codec, rate, _)| (codec, rate));
        let this = kind(&packet);
        if now.is_none() || this.is_none() || this == now {
            if self.held.is_empty() {
                return Ok(packet);
            }
            self.held.clear();
            self.queue.push_front(packet);
            return Err(Step::Skipped(NO_SOUND.to_owned()));
        }
        let same = self.held.last().is_none_or(|held| kind(held) == this);
        if !same {
            self.held.clear();
        }
        self.held.push(packet);
        if self.held.len() == ENOUGH_FRAMES {
            self.mpeg = None;
            self.changed = true;
            self.queue.extend(self.held.drain(..));
        }
        Err(if same {
            Step::Samples
        } else {
            Step::Skipped(NO_SOUND.to_owned())
        })
    }

    /// MPEG audio may change its layer, rate and channels with every frame; symphonia's decoder may not.
    fn follow_mpeg(&mut self, packet: &Packet) -> Result<(), Step> {
        let Coder::Symphonia(decoder) = &self.coder else {
            return Ok(());
        };
        if !is_mpeg(decoder.codec_params().codec) {
            return Ok(());
        }
        let Some(frame) = mpeg_frame(&packet.data) else {
            return Ok(());
        };
        let before = self.mpeg.replace(frame);
        if std::mem::take(&mut self.changed) || before.is_some_and(|before| before != frame) {
            let (codec, rate, channels) = frame;
            self.next_decoder(Some(&parameters(codec, rate, channels, None)))?;
        }
        Ok(())
    }

    /// Decodes into `self.mixed`.
    fn decode(&mut self, packet: &Packet) -> Result<(), Step> {
        self.follow_mpeg(packet)?;
        match &mut self.coder {
            Coder::Opus(opus) => {
                opus.decode(&packet.data, &mut self.mixed)
                    .map_err(Step::Skipped)?;
                let padding = usize::try_from(packet.trim_end.get()).unwrap_or(usize::MAX);
                self.mixed.truncate(self.mixed.len().saturating_sub(padding));
            }
            Coder::Flac(flac) => flac
                .decode(&packet.data, &mut self.mixed)
                .map_err(Step::Skipped)?,
            Coder::Linear(layout) => layout.mix(&packet.data, &mut self.mixed),
            Coder::Aac(aac) => aac.decode(&packet.data, &mut self.mixed).map_err(Step::Skipped)?,
            Coder::Symphonia(decoder) => match decoder.decode(packet) {
                Ok(buffer) => {
                    let rate = buffer.spec().rate();
                    mix(&buffer, &mut self.mixed);
                    self.change_rate(rate)?;
                }
                Err(Fault::DecodeError(_)) => {
                    let codec = decoder.codec_info().short_name;
                    return Err(Step::Skipped(format!("a packet of {codec} cannot be decoded")));
                }
                Err(Fault::IoError(_)) => return Err(Step::Skipped("a packet is cut short".to_owned())),
                Err(Fault::ResetRequired) => {
                    decoder.reset();
                    return Err(Step::Skipped("the decoder had to start afresh".to_owned()));
                }
                Err(e) => return Err(Step::Broken(describe(&e))),
            },
        }
        // One look at the samples is enough for nearly all packets.
        self.loud = exceeds(&self.mixed, MAX_LEVEL);
        if self.loud && !all_finite(&self.mixed) {
            return Err(Step::Skipped(
                "a packet decodes to numbers that are not finite".to_owned(),
            ));
        }
        Ok(())
    }

    /// Hands out what was decoded. Decoders give absurd levels for damaged packets and for rare features that they get wrong.
    fn give(&mut self, out: &mut Vec<f32>) -> Step {
        let flawed = !matches!(self.coder, Coder::Linear(_)) && self.loud;
        if flawed {
            for sample in &mut self.mixed {
                *sample = sample.clamp(-1.0, 1.0);
            }
        }
        self.hand_out(out);
        if flawed {
            return Step::Flawed(
                "the sound decodes to more than eight times full scale and is clipped".to_owned(),
            );
        }
        Step::Samples
    }

    /// Moves `self.mixed` to `out`, without the run-up and the padding.
    fn hand_out(&mut self, out: &mut Vec<f32>) {
        let decoded = self.mixed.len() as u64;
        if let Some(until) = self.until {
            let left = until.saturating_sub(self.count);
            self.mixed.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        }
        self.count = self.count.saturating_add(decoded);
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
        out.append(&mut self.tail);
        match &mut self.resampler {
            // Nearly all packets: nothing has to be copied.
            None if out.is_empty() && kept.len() == self.mixed.len() => std::mem::swap(out, &mut self.mixed),
            None => out.extend_from_slice(kept),
            Some(resampler) => resampler.push(kept, out),
        }
    }

    /// The regular end. FLAC files carry a checksum of all samples.
    fn end(&mut self) -> Step {
        let verified = match &mut self.coder {
            Coder::Flac(flac) => flac.is_right(),
            Coder::Symphonia(_) | Coder::Opus(_) | Coder::Aac(_) | Coder::Linear(_) => None,
        };
        match verified {
            Some(false) => Step::Broken("the samples do not fit the file's own checksum".to_owned()),
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
        if let Err(step) = self.next_decoder(audio_parameters(&track)) {
            return step;
        }
        self.drop = run_up(&self.coder, &track);
        self.keep = None;
        self.padding = 0..0;
        self.track = track.id;
        Step::Samples
    }
}

impl Coder {
    fn name(&self) -> String {
        match self {
            Self::Opus(_) => "opus".to_owned(),
            Self::Flac(_) => "flac".to_owned(),
            Self::Linear(layout) => layout.coding.name(),
            Self::Aac(aac) => aac.name().to_owned(),
            Self::Symphonia(decoder) => decoder.codec_info().short_name.to_owned(),
        }
    }

    /// The rate and the channels. The decoder knows them better than the container.
    fn shape(&self, container: &AudioCodecParameters) -> (u32, usize) {
        match self {
            Self::Opus(opus) => (opus::RATE, opus.channels()),
            Self::Flac(flac) => (flac.rate(), flac.channels()),
            Self::Linear(layout) => (container.sample_rate.unwrap_or(0), layout.channels),
            Self::Aac(aac) => (aac.rate, aac.channels),
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

/// The configuration of an AAC track whose decoder depends on its first packets.
fn open_config(parameters: &AudioCodecParameters) -> Option<&[u8]> {
    let config = parameters.extra_data.as_deref()?;
    (parameters.codec == CODEC_ID_AAC && aac::is_open(config)).then_some(config)
}

/// As [`make_coder`], with a look at the first packets of AAC, and what is to be said before them.
fn choose_coder(
    parameters: &AudioCodecParameters,
    ahead: &VecDeque<Unit>,
) -> Result<(Coder, Option<Step>), Refusal> {
    let plain = |parameters| make_coder(parameters).map(|coder| (coder, None));
    let Some(config) = open_config(parameters) else {
        return plain(parameters);
    };
    if let Some(codec) = aac::foreign(config) {
        return Err(unsupported(codec));
    }
    let packets = ahead.iter().filter_map(|unit| match unit {
        Unit::Packet { data, .. } => Some(data.as_slice()),
        _ => None,
    });
    match Aac::new(config, packets) {
        Ok(Some(aac)) => Ok((Coder::Aac(Box::new(aac)), None)),
        Ok(None) => plain(parameters),
        Err(what) => {
            let codec = "aac".to_owned();
            let lower = aac::lower_band(config).ok_or(Refusal::Codec { codec, what })?;
            let mut lower_band = parameters.clone();
            lower_band.with_extra_data(lower.into());
            lower_band.sample_rate = None;
            make_coder(&lower_band).map(|coder| (coder, Some(Step::Flawed(NO_UPPER_BAND.to_owned()))))
        }
    }
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
    let extra = parameters.extra_data.as_deref().unwrap_or_default();
    if parameters.codec == CODEC_ID_FLAC
        && let Some(flac) = flac::decoder(extra)
    {
        return Ok(Coder::Flac(Box::new(flac)));
    }
    if parameters.codec == CODEC_ID_VORBIS && channels > 8 {
        return Err(refuse(format!("{channels} channels are not supported")));
    }
    let most = parameters
        .max_frames_per_packet
        .unwrap_or(0)
        .saturating_mul(channels as u64);
    if most > MAX_SAMPLES_PER_PACKET {
        return Err(refuse(format!("it claims {most} samples per packet")));
    }
    // Symphonia takes what follows the declared length of an MP3 file for padding, even where that length is a guess or
    // another file follows.
    let options = AudioDecoderOptions::default().gapless(!is_mpeg(parameters.codec));
    let ordered = vorbis::with_reversed_coupling(parameters, channels);
    let parameters = ordered.as_ref().unwrap_or(parameters);
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
        Coder::Aac(_) | Coder::Flac(_) | Coder::Linear(_) => 0,
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

fn refuse_format(error: Fault) -> Refusal {
    match error {
        Fault::Unsupported(what) if what.starts_with("core (probe)") => Refusal::Unknown,
        Fault::IoError(e) if e.kind() == io::ErrorKind::UnexpectedEof => Refusal::Header {
            container: "audio".to_owned(),
            what: "there is no whole frame of sound".to_owned(),
        },
        e => Refusal::Header {
            container: "audio".to_owned(),
            what: describe(&e),
        },
    }
}

/// Why a demuxer gives no further packet.
fn describe_container(error: &Fault) -> String {
    match error {
        Fault::IoError(e) if e.kind() == io::ErrorKind::UnexpectedEof => CUT.to_owned(),
        _ => "the container is damaged".to_owned(),
    }
}

fn describe(error: &Fault) -> String {
    match error {
        Fault::IoError(e) => e.to_string(),
        // These texts begin with the name of a part of symphonia.
        Fault::DecodeError(what) | Fault::Unsupported(what) | Fault::LimitError(what) => {
            what.split_once(": ").map_or(*what, |(_, what)| what).to_owned()
        }
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
