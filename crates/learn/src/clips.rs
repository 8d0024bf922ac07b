//! Recordings to the log-mels that the network reads.
//!
//! In: a file and, in training, a seed. The recording is cropped or padded to the length that the recipe asks for, cut into
//! segments, each padded with silence to its length, and each segment becomes a log-mel. In training the crop, the
//! edges of the mel bands and the masks are drawn from the seed; elsewhere the crop is the start and nothing is drawn.
//!
//! A crop of a long recording is decoded alone where the format allows ([`AudioCache::crop`]).
//!
//! Where nothing is drawn, a clip's log-mels are the same in every epoch and kept in memory, up to a bound.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hark_audio::augment::{Masking, jitter, mask};
use hark_audio::{LogMel, MelSpectrogram};
use hark_corpus::AudioCache;
use hark_encode::card::{AudioCard, ClipLength};
use hark_encode::segment_ranges;
use hark_encode::towers::MelBatch;
use hark_work::random::{Random, key};

use crate::Error;
use crate::recipe::wrong;

/// Numbers of log-mels that are kept in memory: 1 GiB of them.
const KEPT: usize = 1 << 28;

/// The log-mels of one clip.
#[derive(Debug, Clone, PartialEq)]
pub struct Segments {
    /// How many there are.
    pub count: usize,
    /// `[count, mels, frames]`.
    pub values: Vec<f32>,
}

/// By the file, and whether it was for training, where a longer recording is cropped at random.
type Kept = HashMap<(PathBuf, bool), Arc<Segments>>;

/// What turns recordings into log-mels.
pub struct Clips {
    mel: MelSpectrogram,
    segment: usize,
    clip: ClipLength,
    jitter: bool,
    masking: Option<Masking>,
    cache: AudioCache,
    longest_seconds: f64,
    kept: Mutex<Kept>,
    kept_numbers: AtomicUsize,
}

impl Clips {
    /// A front end as the card says, with what training draws at random.
    ///
    /// # Errors
    /// If the front end is impossible.
    pub fn new(
        card: &AudioCard,
        jitter: bool,
        masking: Option<Masking>,
        cache: AudioCache,
        longest_seconds: f64,
    ) -> Result<Self, Error> {
        let mel = MelSpectrogram::new(card.front_end.clone()).map_err(hark_encode::Error::from)?;
        let rate = f64::from(card.front_end.rate);
        let segment = (card.segment_seconds * rate).round() as usize;
        if segment < mel.needed() {
            let least = format!("at least {} s for this front end", mel.needed() as f64 / rate);
            return wrong("audio.segment-seconds", card.segment_seconds, &least);
        }
        Ok(Self {
            segment,
            clip: card.clip,
            jitter,
            masking,
            cache: cache.with_max_seconds(longest_seconds),
            longest_seconds,
            mel,
            kept: Mutex::new(HashMap::new()),
            kept_numbers: AtomicUsize::new(0),
        })
    }

    /// How much of a recording is read at most.
    pub fn longest_seconds(&self) -> f64 {
        self.longest_seconds
    }

    /// Mel bands and frames of a segment.
    pub fn shape(&self) -> (usize, usize) {
        (self.mel.config().mels, self.mel.frames(self.segment))
    }

    /// What the cache of decoded recordings has done.
    pub fn cache(&self) -> &AudioCache {
        &self.cache
    }

    /// The log-mels of a recording; with a seed, as training sees them.
    ///
    /// # Errors
    /// If the recording cannot be read.
    pub fn segments(&self, path: &Path, seed: Option<u64>) -> Result<Arc<Segments>, Error> {
        let crop = seed;
        let seed = seed.filter(|_| self.jitter || self.masking.is_some());
        if seed.is_none() {
            // What is kept was not cropped at random, or it would not be there.
            if let Some(kept) = self.kept().get(&(path.to_owned(), crop.is_some())) {
                return Ok(Arc::clone(kept));
            }
        }
        let (samples, cropped) = self.samples(path, crop)?;
        let segments = Arc::new(self.log_mels(&samples, seed)?);
        let size = segments.values.len();
        if seed.is_none() && !cropped && self.has_room(size) {
            let key = (path.to_owned(), crop.is_some());
            self.kept().insert(key, Arc::clone(&segments));
        }
        Ok(segments)
    }

    /// Whether so many numbers more can be kept; if so, their room is taken.
    fn has_room(&self, size: usize) -> bool {
        let take = |kept: usize| Some(kept + size).filter(|&kept| kept <= KEPT);
        self.kept_numbers
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The samples that count, and whether the crop was drawn. Of a long recording, no more than the crop is decoded where its
    /// format allows.
    fn samples(&self, path: &Path, seed: Option<u64>) -> Result<(Vec<f32>, bool), Error> {
        let Some(wanted) = self.clip.samples(self.mel.config().rate) else {
            return Ok((self.cache.read(path)?.samples()?, false));
        };
        let draw = |seed: u64| move |places: usize| Random::new(key(&[seed, 1])).below(places);
        let place = seed.map(draw);
        let place = place.as_ref().map(|place| place as &dyn Fn(usize) -> usize);
        let crop = self.cache.crop(path, wanted, place)?;
        Ok((crop.samples, crop.is_drawn))
    }

    fn log_mels(&self, samples: &[f32], seed: Option<u64>) -> Result<Segments, Error> {
        let mut segments = Segments {
            count: 0,
            values: Vec::new(),
        };
        let rate = self.mel.config().rate;
        for range in segment_ranges(self.clip, rate, self.segment, samples.len()) {
            let mut piece = samples[range].to_vec();
            piece.resize(self.segment, 0.0);
            let mel = self.log_mel(&piece, seed.map(|seed| key(&[seed, 2, segments.count as u64])))?;
            segments.values.extend_from_slice(&mel.values);
            segments.count += 1;
        }
        if segments.count == 0 {
            return Err(Error::EmptyClip);
        }
        Ok(segments)
    }

    fn log_mel(&self, samples: &[f32], seed: Option<u64>) -> Result<LogMel, Error> {
        let failed = hark_encode::Error::from;
        let Some(seed) = seed else {
            return Ok(self.mel.compute(samples).map_err(failed)?);
        };
        let mut mel = if self.jitter {
            let (low, high) = jitter(seed);
            self.mel.compute_with_edges(samples, low, high).map_err(failed)?
        } else {
            self.mel.compute(samples).map_err(failed)?
        };
        if let Some(masking) = self.masking {
            mask(&mut mel, masking, seed);
        }
        Ok(mel)
    }

    /// The log-mels of a recording as they are outside of training, segment by segment.
    ///
    /// # Errors
    /// If the recording cannot be read.
    pub fn each_segment(&self, path: &Path) -> Result<Vec<MelBatch>, Error> {
        let (mels, frames) = self.shape();
        let segments = self.segments(path, None)?;
        let each = segments.values.chunks_exact(mels * frames);
        each.map(|segment| Ok(MelBatch::new(segment.to_vec(), mels, frames)?))
            .collect()
    }

    /// One batch out of the log-mels of several clips, and how many segments each has.
    ///
    /// # Errors
    /// If there are no clips.
    pub fn batch(&self, clips: &[Arc<Segments>]) -> Result<(MelBatch, Vec<usize>), Error> {
        let (mels, frames) = self.shape();
        let values = clips.iter().flat_map(|clip| &clip.values).copied().collect();
        let counts = clips.iter().map(|clip| clip.count).collect();
        Ok((MelBatch::new(values, mels, frames)?, counts))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use hark_audio::MelConfig;
    use hark_corpus::CacheFormat;
    use hark_encode::Compute;
    use hark_encode::dual::{DualEncoder, SideConfig};
    use hark_encode::model::{AudioEncoder, EmbedEvent};
    use hark_encode::towers::AudioConfig;
    use hark_encode::towers::cnn::CnnConfig;
    use hark_encode::weights::RandomInit;
    use std::ops::ControlFlow;

    const RATE: usize = 32_000;
    /// Samples of a segment.
    const SEGMENT: usize = RATE / 5;
    /// An end of less than this part of a segment does not count.
    const SHORT_TAIL: usize = 20;

    /// Writes a recording of 16 bits, one channel and 32 kHz, and says what a decoder makes of it.
    pub(crate) fn record(path: &Path, samples: usize, seed: u64) -> Vec<f32> {
        let mut random = Random::new(key(&[seed]));
        let samples: Vec<i16> = (0..samples)
            .map(|at| {
                let tone = (at as f64 * 0.02 * (1 + seed) as f64).sin();
                (8000.0 * tone + 2000.0 * random.signed()) as i16
            })
            .collect();
        let bytes = 2 * samples.len() as u32;
        let mut file = b"RIFF".to_vec();
        file.extend((36 + bytes).to_le_bytes());
        file.extend(b"WAVEfmt ");
        file.extend(16_u32.to_le_bytes());
        file.extend([1_u16, 1].map(u16::to_le_bytes).concat());
        file.extend([RATE as u32, 2 * RATE as u32].map(u32::to_le_bytes).concat());
        file.extend([2_u16, 16].map(u16::to_le_bytes).concat());
        file.extend(b"data");
        file.extend(bytes.to_le_bytes());
        file.extend(samples.iter().flat_map(|x| x.to_le_bytes()));
        fs_err::write(path, file).unwrap();
        samples.into_iter().map(|x| f32::from(x) / 32_768.0).collect()
    }

    pub(crate) fn card(clip: ClipLength) -> AudioCard {
        AudioCard {
            labels: Vec::new(),
            side: SideConfig {
                network: AudioConfig::Cnn(CnnConfig {
                    mels: 128,
                    channels: vec![2],
                    width: 3,
                }),
                projection: vec![4],
            },
            front_end: MelConfig::default(),
            segment_seconds: 0.2,
            clip,
        }
    }

    pub(crate) fn clips(clip: ClipLength) -> Clips {
        clips_with(clip, false, None)
    }

    fn clips_with(clip: ClipLength, jitter: bool, masking: Option<Masking>) -> Clips {
        let cache = AudioCache::without(RATE as u32);
        Clips::new(&card(clip), jitter, masking, cache, 60.0).unwrap()
    }

    fn encoder(clip: ClipLength) -> AudioEncoder {
        let card = card(clip);
        let network =
            DualEncoder::build(Some(&card.side), None, &RandomInit(1), Compute::cpu(1).device()).unwrap();
        AudioEncoder::new(network.audio.unwrap(), card, &Compute::cpu(1)).unwrap()
    }

    /// Log-mels of segments, as the encoder computes them.
    fn log_mels(segments: &[Vec<f32>]) -> Vec<f32> {
        let encoder = encoder(ClipLength::Full);
        let mels = segments.iter().map(|samples| {
            assert_eq!(samples.len(), SEGMENT);
            encoder.log_mel(samples).unwrap().segment(0).to_vec()
        });
        mels.collect::<Vec<_>>().concat()
    }

    /// Samples, and silence up to a whole segment.
    fn padded(samples: &[f32]) -> Vec<f32> {
        let mut samples = samples.to_vec();
        samples.resize(SEGMENT, 0.0);
        samples
    }

    /// How many segments the encoder takes of a recording.
    fn segments_embedded(path: &Path, clip: ClipLength) -> usize {
        let mut count = 0;
        let deliver = &mut |told: EmbedEvent| {
            if let EmbedEvent::Recording { result, .. } = told {
                count = result.unwrap().segments;
            }
            ControlFlow::Continue(())
        };
        encoder(clip).embed_files(&[path.to_owned()], deliver).unwrap();
        count
    }

    #[test]
    fn a_clip_of_true_length_has_the_segments_that_it_fills() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wav");
        let short = SEGMENT / SHORT_TAIL;
        for (samples, count) in [
            (1, 1),
            (short - 1, 1),
            (SEGMENT, 1),
            (SEGMENT + short - 1, 1),
            (SEGMENT + short, 2),
            (3 * SEGMENT - 1, 3),
        ] {
            let recorded = record(&path, samples, 3);
            let segments = clips(ClipLength::Full).segments(&path, None).unwrap();
            assert_eq!(segments.count, count, "{samples} samples");
            let pieces: Vec<Vec<f32>> = recorded.chunks(SEGMENT).take(count).map(padded).collect();
            assert_eq!(segments.values, log_mels(&pieces), "{samples} samples");
            assert_eq!(
                segments_embedded(&path, ClipLength::Full),
                count,
                "{samples} samples"
            );
        }
    }

    #[test]
    fn a_padded_clip_has_the_segments_of_its_fixed_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wav");
        // Two segments and a half.
        let clip = ClipLength::Fixed { seconds: 0.5 };
        for samples in [100, 2 * SEGMENT, RATE / 2] {
            let mut recorded = record(&path, samples, 4);
            recorded.resize(3 * SEGMENT, 0.0);
            let pieces: Vec<Vec<f32>> = recorded.chunks(SEGMENT).map(padded).collect();
            // A seed has nothing to draw.
            for seed in [None, Some(9)] {
                let segments = clips(clip).segments(&path, seed).unwrap();
                assert_eq!(segments.count, 3);
                assert_eq!(segments.values, log_mels(&pieces), "{samples} samples");
            }
            assert_eq!(segments_embedded(&path, clip), 3);
        }
    }

    #[test]
    fn a_long_clip_is_cropped_at_its_start_and_in_training_at_random() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wav");
        let recorded = record(&path, 4 * SEGMENT, 5);
        let clips = clips(ClipLength::Fixed { seconds: 0.2 });
        let first = clips.segments(&path, None).unwrap();
        assert_eq!(
            (first.count, &first.values),
            (1, &log_mels(&[padded(&recorded[..SEGMENT])]))
        );

        let seeded = |seed| clips.segments(&path, Some(seed)).unwrap();
        let mut found = std::collections::BTreeSet::new();
        for seed in 0..4 {
            let drawn = seeded(seed);
            assert_eq!(drawn, seeded(seed));
            let start = Random::new(key(&[seed, 1])).below(3 * SEGMENT + 1);
            assert_eq!(drawn.values, log_mels(&[recorded[start..][..SEGMENT].to_vec()]));
            found.insert(start);
        }
        assert_eq!(found.len(), 4, "all crops are at the same place");
        // Having drawn crops, the clip outside of training is the same.
        assert_eq!(clips.segments(&path, None).unwrap(), first);
    }

    #[test]
    fn crops_are_the_same_with_the_cache_and_without() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wav");
        // A crop of a fifth of it is entered, one of two thirds is cut out of what is kept.
        record(&path, 5 * SEGMENT, 5);
        for seconds in [0.2, 0.7] {
            let clip = ClipLength::Fixed { seconds };
            for format in CacheFormat::ALL {
                let kept = folder.path().join(format!("{seconds}-{format:?}"));
                let with = |cache: AudioCache| {
                    Clips::new(&card(clip), true, None, cache.with_format(format), 60.0).unwrap()
                };
                let cached = with(AudioCache::open(&kept, RATE as u32, 1 << 30).unwrap());
                let plain = with(AudioCache::without(RATE as u32));
                for seed in [None, Some(1), Some(2), Some(1)] {
                    let segments = cached.segments(&path, seed).unwrap();
                    assert_eq!(
                        segments,
                        plain.segments(&path, seed).unwrap(),
                        "{format:?} {seed:?}"
                    );
                }
                let stats = cached.cache().stats();
                assert_eq!(stats.sought > 0, seconds < 0.5, "{stats:?}");
            }
        }
    }

    #[test]
    fn what_training_draws_follows_from_the_seed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wav");
        record(&path, 2 * SEGMENT, 6);
        let masking = Some(Masking {
            time: 12,
            frequency: 40,
        });
        for (jitter, masking) in [(true, None), (false, masking), (true, masking)] {
            let clips = clips_with(ClipLength::Full, jitter, masking);
            let plain = clips.segments(&path, None).unwrap();
            let one = clips.segments(&path, Some(1)).unwrap();
            assert_eq!(clips.segments(&path, Some(1)).unwrap(), one);
            assert_eq!(
                clips_with(ClipLength::Full, jitter, masking)
                    .segments(&path, Some(1))
                    .unwrap(),
                one
            );
            assert_ne!(clips.segments(&path, Some(2)).unwrap(), one);
            assert_ne!(one, plain);
            assert_eq!(one.count, 2);
            assert_eq!(
                plain,
                self::clips(ClipLength::Full).segments(&path, None).unwrap()
            );
        }
    }

    #[test]
    fn what_is_kept_in_memory_is_what_was_computed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wav");
        record(&path, 2 * SEGMENT, 7);
        let clips = clips(ClipLength::Full);
        let first = clips.segments(&path, None).unwrap();
        let in_training = clips.segments(&path, Some(1)).unwrap();
        // Without the file only memory can answer.
        fs_err::remove_file(&path).unwrap();
        assert_eq!(clips.segments(&path, None).unwrap(), first);
        assert_eq!(clips.segments(&path, Some(2)).unwrap(), in_training);
        assert_eq!(first, in_training);
        let anew = self::clips(ClipLength::Full).segments(&path, None);
        assert!(matches!(anew, Err(Error::Corpus(_))));
    }

    #[test]
    fn what_was_drawn_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wav");
        record(&path, 2 * SEGMENT, 7);
        let cropped = clips(ClipLength::Fixed { seconds: 0.2 });
        let jittered = clips_with(ClipLength::Full, true, None);
        for clips in [&cropped, &jittered] {
            clips.segments(&path, Some(1)).unwrap();
            assert_eq!(clips.kept().len(), 0);
        }
    }

    #[test]
    fn a_batch_is_its_clips_one_after_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let paths = [1, 2].map(|nth| folder.path().join(format!("{nth}.wav")));
        record(&paths[0], SEGMENT, 1);
        record(&paths[1], 2 * SEGMENT, 2);
        let clips = clips(ClipLength::Full);
        let segments = paths.each_ref().map(|path| clips.segments(path, None).unwrap());
        let (batch, counts) = clips.batch(&segments).unwrap();
        assert_eq!(counts, [1, 2]);
        assert_eq!(
            (batch.len(), batch.mels(), batch.frames()),
            (3, 128, clips.shape().1)
        );
        assert_eq!(batch.segment(0), segments[0].values);
        assert_eq!([batch.segment(1), batch.segment(2)].concat(), segments[1].values);
        assert!(clips.batch(&[]).is_err());
    }

    #[test]
    fn a_recording_without_sound_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wav");
        record(&path, 0, 1);
        for clip in [ClipLength::Full, ClipLength::Fixed { seconds: 0.2 }] {
            assert!(clips(clip).segments(&path, None).is_err());
        }
        fs_err::write(&path, "no recording").unwrap();
        assert!(clips(ClipLength::Full).segments(&path, None).is_err());
    }
}
