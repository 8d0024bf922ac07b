//! One split of the data as the network reads it: tokens of its captions, log-mels of its clips, or, where a tower stays as it
//! is, the features that it gives.

use std::ops::ControlFlow;
use std::path::Path;

use burn::tensor::{Device, Tensor, TensorData};
use hark_corpus::Dataset;
use hark_encode::card::{Card, TextCard};
use hark_encode::checkpoint::Checkpoint;
use hark_encode::dual::DualEncoder;
use hark_encode::tokenize::Tokenizer;
use hark_encode::towers::TokenBatch;
use hark_encode::weights_file::{self, NamedTensor};
use hark_evaluate::SplitEmbeddings;
use hark_work::progress::Progress;
use sha2::{Digest, Sha256};

use crate::Error;
use crate::clips::Clips;
use crate::run::write_beside;
use hark_work::workers;

/// Clips or captions that go through a tower at a time where no batch says otherwise.
const AT_A_TIME: usize = 32;

/// One split.
pub struct Split {
    /// Its clips and captions.
    pub data: Dataset,
    /// Tokens of each pair's caption.
    pub tokens: Vec<Vec<u32>>,
    /// How many captions were longer than the model reads.
    pub cut: usize,
    /// Features of the clips, where the audio tower is frozen.
    pub audio: Option<Features>,
    /// Features of the captions, where the text tower is frozen.
    pub text: Option<Features>,
}

/// What a tower gives for each item.
#[derive(Debug, Clone, PartialEq)]
pub struct Features {
    /// `[items, width]`.
    pub values: Vec<f32>,
    /// Length of a row.
    pub width: usize,
}

impl Features {
    /// Those of these items.
    #[must_use]
    pub fn rows(&self, items: impl IntoIterator<Item = usize>) -> Self {
        let rows = items
            .into_iter()
            .map(|item| &self.values[item * self.width..][..self.width]);
        Self {
            values: rows.flatten().copied().collect(),
            width: self.width,
        }
    }

    /// As a tensor `[items, width]` outside of any training.
    fn tensor(self, device: &Device) -> Tensor<2> {
        let shape = [self.values.len() / self.width.max(1), self.width];
        Tensor::from_data(TensorData::new(self.values, shape), device)
    }
}

/// Numbers out of a tensor.
pub(crate) fn numbers<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>, Error> {
    let numbers = tensor.into_data().try_into_vec::<f32>();
    numbers.map_err(|_| {
        Error::Encode(hark_encode::Error::InputShape {
            what: "32-bit numbers",
            expected: vec![],
            got: vec![],
        })
    })
}

impl Split {
    /// A split of nothing.
    pub(crate) fn empty() -> Self {
        let data = Dataset {
            name: String::new(),
            clips: Vec::new(),
            pairs: Vec::new(),
            left_out: Vec::new(),
        };
        Self {
            data,
            tokens: Vec::new(),
            cut: 0,
            audio: None,
            text: None,
        }
    }

    /// Tokens of a data set's captions.
    ///
    /// # Errors
    /// If the tokenizer cannot take a caption.
    pub fn new(data: Dataset, tokenizer: &Tokenizer, card: &TextCard) -> Result<Self, Error> {
        let prepared: Vec<String> = data
            .pairs
            .iter()
            .map(|pair| card.prepare(&pair.caption))
            .collect();
        let prepared: Vec<&str> = prepared.iter().map(String::as_str).collect();
        let tokens = tokenizer.encode(&prepared)?;
        Ok(Self {
            cut: tokens.iter().filter(|tokens| tokens.cut).count(),
            tokens: tokens.into_iter().map(|tokens| tokens.ids).collect(),
            data,
            audio: None,
            text: None,
        })
    }

    /// The tokens of some pairs, padded to the longest.
    ///
    /// # Errors
    /// If there are none.
    pub fn token_batch(&self, pairs: &[usize]) -> Result<TokenBatch, Error> {
        Ok(TokenBatch::new(
            pairs.iter().map(|&pair| self.tokens[pair].as_slice()),
        )?)
    }

    /// Vectors of all clips and captions, from a network that is not learning.
    ///
    /// # Errors
    /// If a recording cannot be read, or `progress` asks to stop.
    pub fn embed(
        &self,
        network: &DualEncoder,
        clips: &Clips,
        workers: usize,
        progress: Progress<'_>,
    ) -> Result<SplitEmbeddings, Error> {
        let (Some(audio), Some(text), Some(device)) = (&network.audio, &network.text, network.device())
        else {
            return Err(Error::NoSide);
        };
        let device = device.without_autodiff();
        let mut embedded = SplitEmbeddings {
            clips: Vec::new(),
            captions: Vec::new(),
            dim: 1,
        };
        if let Some(features) = &self.audio {
            embedded.clips = numbers(audio.project(features.clone().tensor(&device)))?;
        } else {
            self.each_clips(clips, workers, &mut |mels, done| {
                let vectors = audio.forward(&mels.0, &mels.1, None)?;
                embedded.clips.extend(numbers(vectors)?);
                Ok(hark_work::progress::report(
                    progress,
                    done,
                    self.data.clips.len(),
                )?)
            })?;
        }
        let pairs: Vec<usize> = (0..self.data.pairs.len()).collect();
        for pairs in pairs.chunks(AT_A_TIME) {
            let vectors = match &self.text {
                Some(features) => text.project(features.rows(pairs.iter().copied()).tensor(&device)),
                None => text.forward(&self.token_batch(pairs)?, None)?,
            };
            embedded.dim = vectors.dims()[1];
            embedded.captions.extend(numbers(vectors)?);
        }
        Ok(embedded)
    }

    /// Log-mels of all clips, some at a time.
    fn each_clips(
        &self,
        clips: &Clips,
        workers: usize,
        take: &mut dyn FnMut((hark_encode::towers::MelBatch, Vec<usize>), usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let count = self.data.clips.len();
        let batches = count.div_ceil(AT_A_TIME) as u64;
        let make = |number: u64| {
            let first = number as usize * AT_A_TIME;
            let some = &self.data.clips[first..count.min(first + AT_A_TIME)];
            let segments = some.iter().map(|clip| clips.segments(&clip.path, None));
            clips.batch(&segments.collect::<Result<Vec<_>, _>>()?)
        };
        let flow = workers::in_order(0..batches, workers, workers + 1, &make, &mut |number, mels, _| {
            let done = count.min((number as usize + 1) * AT_A_TIME);
            match mels.and_then(|mels| take(mels, done)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            }
        });
        match flow {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }

    /// Computes what frozen towers give, once: from here on only what stands behind them is computed.
    ///
    /// # Errors
    /// If a recording cannot be read, or `progress` asks to stop.
    pub fn freeze(
        &mut self,
        network: &DualEncoder,
        card: &Card,
        frozen: &Frozen<'_>,
        progress: Progress<'_>,
    ) -> Result<(), Error> {
        let &Frozen {
            clips,
            folder,
            workers,
            ..
        } = frozen;
        if let Some(side) = network.audio.as_ref().filter(|_| frozen.audio) {
            let path = folder.map(|folder| folder.join(self.name_of_features(network, card, clips, true)));
            let count = self.data.clips.len();
            let features = stored(path.as_deref(), count, &mut || {
                let mut values = Vec::new();
                self.each_clips(clips, workers, &mut |mels, done| {
                    values.extend(numbers(side.features(&mels.0, &mels.1, None)?)?);
                    Ok(hark_work::progress::report(progress, done, count)?)
                })?;
                Ok(values)
            })?;
            self.audio = Some(features);
        }
        if let Some(side) = network.text.as_ref().filter(|_| frozen.text) {
            let path = folder.map(|folder| folder.join(self.name_of_features(network, card, clips, false)));
            let count = self.data.pairs.len();
            let pairs: Vec<usize> = (0..count).collect();
            let features = stored(path.as_deref(), count, &mut || {
                let mut values = Vec::new();
                for (nth, pairs) in pairs.chunks(AT_A_TIME).enumerate() {
                    let batch = self.token_batch(pairs)?;
                    let features = hark_encode::towers::Tower::forward(&side.tower, &batch, None)?;
                    values.extend(numbers(features)?);
                    hark_work::progress::report(progress, count.min((nth + 1) * AT_A_TIME), count)?;
                }
                Ok(values)
            })?;
            self.text = Some(features);
        }
        Ok(())
    }

    /// A name that changes with anything that features depend on.
    fn name_of_features(&self, network: &DualEncoder, card: &Card, clips: &Clips, audio: bool) -> String {
        let mut hash = Sha256::new();
        hash.update(format!("{} {}\0", FORMAT.1, clips.longest_seconds()));
        let prefix = if audio { "audio.tower." } else { "text.tower." };
        for stored in weights_file::parameters(network) {
            if stored.name.starts_with(prefix) {
                hash.update(stored.name.as_bytes());
                for number in (stored.numbers)() {
                    hash.update(number.to_le_bytes());
                }
            }
        }
        if audio {
            let said = card.audio.as_ref().map(|card| {
                let network = serde_json::to_string(&card.side.network).unwrap_or_default();
                format!(
                    "{network} {:?} {} {:?}",
                    card.front_end, card.segment_seconds, card.clip
                )
            });
            hash.update(said.unwrap_or_default());
            for clip in &self.data.clips {
                hash.update(clip.path.as_os_str().as_encoded_bytes());
                let file = fs_err::metadata(&clip.path).ok();
                let modified = file.as_ref().and_then(|file| file.modified().ok());
                hash.update(format!("\0{:?} {modified:?}\0", file.map(|file| file.len())));
            }
        } else {
            let said = card.text.as_ref().map(|card| &card.side.network);
            hash.update(serde_json::to_string(&said).unwrap_or_default());
            for tokens in &self.tokens {
                hash.update((tokens.len() as u64).to_le_bytes());
                for token in tokens {
                    hash.update(token.to_le_bytes());
                }
            }
        }
        let hash: String = hash.finalize()[..16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("{}{hash}.safetensors", if audio { "audio-" } else { "text-" })
    }
}

/// Which towers stay as they are, and what their features are computed with.
pub struct Frozen<'a> {
    /// The audio tower.
    pub audio: bool,
    /// The text tower.
    pub text: bool,
    /// Recordings to log-mels.
    pub clips: &'a Clips,
    /// Where features are kept for other runs, under names that say what they are of.
    pub folder: Option<&'a Path>,
    /// Threads that read recordings.
    pub workers: usize,
}

const FEATURES: &str = "features";
const FORMAT: (&str, &str) = ("format", "hark features 1");

/// Features from a file, or computed and written there. A file that cannot be written is done without.
fn stored(
    path: Option<&Path>,
    items: usize,
    compute: &mut dyn FnMut() -> Result<Vec<f32>, Error>,
) -> Result<Features, Error> {
    if let Some(features) = path.and_then(|path| read(path, items)) {
        return Ok(features);
    }
    let values = compute()?;
    let features = Features {
        width: values.len() / items.max(1),
        values,
    };
    if let Some(path) = path {
        let tensor = NamedTensor {
            name: FEATURES.into(),
            shape: vec![items, features.width],
            numbers: Box::new(|| features.values.clone()),
        };
        // Keeping them is a convenience: a full disk must not end a training that has them in memory.
        let _ = path.parent().map(fs_err::create_dir_all);
        let _ = write_beside(path, &|path| {
            Ok(weights_file::write(
                std::slice::from_ref(&tensor),
                &[FORMAT],
                path,
            )?)
        });
    }
    Ok(features)
}

/// Features out of a file; none if it is not there or not what it should be.
fn read(path: &Path, items: usize) -> Option<Features> {
    let file = Checkpoint::open(path).ok()?;
    let shape = file.shape(FEATURES).ok()?.to_vec();
    if file.header(FORMAT.0) != Some(FORMAT.1) || shape.len() != 2 || shape[0] != items {
        return None;
    }
    let values = file.take(FEATURES, &shape).ok()?;
    Some(Features {
        values,
        width: shape[1],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clips::tests::{clips, record};
    use crate::network::tests::{recipe, tiny, tiny_card};
    use hark_corpus::{Clip, Pair};
    use hark_encode::card;

    /// Which towers are frozen: audio, text.
    const BOTH: (bool, bool) = (true, true);

    /// Three recordings, the last with two captions.
    fn split(folder: &Path) -> Split {
        let clip = |nth: usize| {
            let path = folder.join(format!("{nth}.wav"));
            record(&path, 7000 * (nth + 1), nth as u64);
            Clip {
                id: nth.to_string(),
                path,
                set: 0,
            }
        };
        let pair = |clip| Pair {
            clip,
            caption: String::new(),
        };
        Split {
            data: Dataset {
                clips: (0..3).map(clip).collect(),
                pairs: [0, 1, 2, 2].map(pair).to_vec(),
                ..Split::empty().data
            },
            tokens: vec![vec![0, 4, 2], vec![0, 5, 6, 2], vec![0, 2], vec![0, 8, 7, 5, 2]],
            ..Split::empty()
        }
    }

    /// Freezes what `which` says and tells whether anything was computed.
    fn freeze(split: &mut Split, set: &[&str], which: (bool, bool), features: Option<&Path>) -> bool {
        let recipe = recipe(set);
        let (network, card) = (tiny(&recipe), tiny_card(&recipe));
        let clips = clips(card::ClipLength::Full);
        let computed = std::sync::atomic::AtomicBool::new(false);
        let progress = &|_, _| {
            computed.store(true, std::sync::atomic::Ordering::Relaxed);
            ControlFlow::Continue(())
        };
        let frozen = Frozen {
            audio: which.0,
            text: which.1,
            clips: &clips,
            folder: features,
            workers: 2,
        };
        split.freeze(&network, &card, &frozen, progress).unwrap();
        computed.into_inner()
    }

    fn files(folder: &Path) -> Vec<std::path::PathBuf> {
        let entries = fs_err::read_dir(folder).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    #[test]
    fn features_of_frozen_towers_give_the_same_vectors() {
        let folder = tempfile::tempdir().unwrap();
        let mut split = split(folder.path());
        let (network, clips) = (tiny(&recipe(&[])), clips(card::ClipLength::Full));
        let embed = |split: &Split| {
            let go_on = &hark_work::progress::no_progress;
            split.embed(&network, &clips, 2, go_on).unwrap()
        };
        let whole = embed(&split);
        assert_eq!((whole.clips.len(), whole.captions.len(), whole.dim), (12, 16, 4));
        assert!(freeze(&mut split, &[], BOTH, None));
        assert_eq!(split.audio.as_ref().map(|features| features.width), Some(3));
        assert_eq!(split.text.as_ref().map(|features| features.width), Some(4));
        assert_eq!(embed(&split), whole);
    }

    #[test]
    fn features_are_kept_and_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("features");
        let mut first = split(folder.path());
        assert!(freeze(&mut first, &[], BOTH, Some(&kept)));
        assert_eq!(files(&kept).len(), 2);
        let mut second = split_again(&first);
        assert!(!freeze(&mut second, &[], BOTH, Some(&kept)));
        assert_eq!((&second.audio, &second.text), (&first.audio, &first.text));
    }

    /// The same clips and captions without features. The recordings are not written anew: their times would change.
    fn split_again(split: &Split) -> Split {
        Split {
            data: split.data.clone(),
            tokens: split.tokens.clone(),
            ..Split::empty()
        }
    }

    #[test]
    fn features_that_are_damaged_are_computed_anew() {
        type Damage<'a> = &'a dyn Fn(&[u8]) -> Vec<u8>;

        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("features");
        let mut first = split(folder.path());
        freeze(&mut first, &[], BOTH, Some(&kept));
        let whole: Vec<Vec<u8>> = files(&kept)
            .iter()
            .map(|path| fs_err::read(path).unwrap())
            .collect();
        let damages: [Damage<'_>; 4] = [
            &|_| Vec::new(),
            &|bytes| bytes[..bytes.len() - 1].to_vec(),
            &|bytes| bytes[..40].to_vec(),
            &|bytes| {
                // Another version.
                let text = b"hark features 1";
                let at = bytes.windows(text.len()).position(|found| found == text).unwrap();
                let mut bytes = bytes.to_vec();
                bytes[at + text.len() - 1] = b'2';
                bytes
            },
        ];
        for damage in damages {
            for (path, whole) in files(&kept).iter().zip(&whole) {
                fs_err::write(path, damage(whole)).unwrap();
            }
            let mut second = split_again(&first);
            assert!(freeze(&mut second, &[], BOTH, Some(&kept)));
            assert_eq!((&second.audio, &second.text), (&first.audio, &first.text));
            for (path, whole) in files(&kept).iter().zip(&whole) {
                assert!(
                    &fs_err::read(path).unwrap() == whole,
                    "{} is not whole",
                    path.display()
                );
            }
        }
    }

    #[test]
    fn features_of_something_else_are_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("features");
        let mut first = split(folder.path());
        freeze(&mut first, &[], BOTH, Some(&kept));
        let only = |audio: bool| (audio, !audio);
        // Other weights; the same weights in another network; other texts; a recording that has changed.
        for (audio, set) in [
            (true, "seed=2"),
            (false, "seed=2"),
            (false, "text.network.heads=1"),
            (false, "text.network.epsilon=0.1"),
        ] {
            let mut second = split_again(&first);
            assert!(freeze(&mut second, &[set], only(audio), Some(&kept)), "{set}");
            if audio {
                assert_ne!(second.audio, first.audio, "{set}");
            } else {
                assert_ne!(second.text, first.text, "{set}");
            }
        }
        let mut second = split_again(&first);
        second.tokens[0] = vec![0, 5, 2];
        assert!(freeze(&mut second, &[], only(false), Some(&kept)));
        let mut second = split_again(&first);
        record(&second.data.clips[0].path, 6500, 8);
        assert!(freeze(&mut second, &[], only(true), Some(&kept)));
        assert_ne!(second.audio, first.audio);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_done_without() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("no folder");
        fs_err::write(&file, "").unwrap();
        let mut split = split(folder.path());
        assert!(freeze(&mut split, &[], BOTH, Some(&file)));
        assert!(split.audio.is_some() && split.text.is_some());
    }

    #[test]
    fn a_wish_to_stop_is_heard() {
        let folder = tempfile::tempdir().unwrap();
        let mut split = split(folder.path());
        let recipe = recipe(&[]);
        let (network, card) = (tiny(&recipe), tiny_card(&recipe));
        let clips = clips(card::ClipLength::Full);
        let stop = &mut |_, _| ControlFlow::Break(());
        let stopped = split.embed(&network, &clips, 1, stop);
        assert!(matches!(stopped, Err(Error::Cancelled)));
        for audio in [true, false] {
            let frozen = Frozen {
                audio,
                text: true,
                clips: &clips,
                folder: None,
                workers: 1,
            };
            let stopped = split.freeze(&network, &card, &frozen, stop);
            assert!(matches!(stopped, Err(Error::Cancelled)));
        }
    }
}
