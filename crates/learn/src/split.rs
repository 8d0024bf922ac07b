//! One split of the data as the network reads it: tokens of its captions, log-mels of its clips, or, where a tower stays as it
//! is, the features that it gives.

use std::ops::ControlFlow;
use std::path::Path;

use burn::tensor::Tensor;
use hark_corpus::{CacheFormat, Dataset};
use hark_encode::Compute;
use hark_encode::card::{Card, TextCard};
use hark_encode::checkpoint::Checkpoint;
use hark_encode::dual::{DualEncoder, Side};
use hark_encode::model::AudioEncoder;
use hark_encode::model_key::tower_hash;
use hark_encode::tokenize::{Tokenizer, Tokens};
use hark_encode::towers::{TextTower, TokenBatch};
use hark_encode::weights_file::{self, NamedTensor};
use hark_evaluate::{CaptionInput, ClipInput, SplitEmbeddings, SplitEvent, embed_split};
use hark_work::files::hex;
use hark_work::progress::Progress;
use sha2::{Digest, Sha256};

use crate::Error;
use crate::clips::Clips;
use crate::run::write_tensors;

/// One split.
pub struct Split {
    /// Its clips and captions.
    pub data: Dataset,
    /// Tokens of each pair's caption.
    pub tokens: Vec<Tokens>,
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
        Ok(Self {
            tokens: tokenizer.encode(&prepared)?,
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
            pairs.iter().map(|&pair| self.tokens[pair].ids.as_slice()),
        )?)
    }

    /// Embeddings of all clips and captions, from a network that is not learning.
    ///
    /// # Errors
    /// If a recording cannot be read, or `progress` asks to stop.
    pub fn embed(
        &self,
        encoders: &Encoders,
        clips: &Clips,
        progress: Progress<'_>,
    ) -> Result<SplitEmbeddings, Error> {
        let Encoders { audio, text, compute } = encoders;
        let log_mels = |clip: usize| Ok(clips.each_segment(&self.data.clips[clip].path)?);
        let clip_input = match &self.audio {
            Some(features) => ClipInput::Features(&features.values),
            None => ClipInput::LogMels(&log_mels),
        };
        let caption_input = match &self.text {
            Some(features) => CaptionInput::Features(text, &features.values, compute),
            None => CaptionInput::Tokens(text, &self.tokens, compute),
        };
        let on_event = |event: SplitEvent<'_>| match event {
            SplitEvent::Clip { done, total, .. } => progress(done, total),
            _ => ControlFlow::Continue(()),
        };
        let found = embed_split(audio, clip_input, caption_input, &self.data, &on_event)?;
        Ok(found.complete(&self.data)?)
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
            compute,
            ..
        } = frozen;
        let encoders = Encoders::new(network, card, compute)?;
        if frozen.audio {
            let path = folder.map(|folder| folder.join(self.name_of_features(network, card, clips, true)));
            let count = self.data.clips.len();
            let features = stored(path.as_deref(), count, &mut || {
                let mut rows = vec![Vec::new(); count];
                let mut done = 0;
                let log_mels = |clip: usize| clips.each_segment(&self.data.clips[clip].path);
                encoders
                    .audio
                    .clip_features(count, &log_mels, &mut |clip, features| {
                        rows[clip] = features;
                        done += 1;
                        Ok(hark_work::progress::report(progress, done, count)?)
                    })?;
                Ok(rows.concat())
            })?;
            self.audio = Some(features);
        }
        if frozen.text {
            let path = folder.map(|folder| folder.join(self.name_of_features(network, card, clips, false)));
            let features = stored(path.as_deref(), self.tokens.len(), &mut || {
                let features = encoders.text.token_features(&self.tokens, compute, progress);
                features.map_err(|error| match error {
                    hark_encode::Error::Cancelled => Error::Cancelled,
                    other => other.into(),
                })
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
        hash.update(tower_hash(network, prefix));
        if audio {
            let said = card.audio.as_ref().map(|card| {
                let network = serde_json::to_string(&card.side.network).unwrap_or_default();
                format!(
                    "{network} {:?} {} {:?}",
                    card.front_end, card.segment_seconds, card.clip
                )
            });
            hash.update(said.unwrap_or_default());
            // Formats that round samples give other features.
            let format = clips.cache().format();
            if format != CacheFormat::F32 {
                hash.update(format!("\0{format:?}\0"));
            }
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
                hash.update((tokens.ids.len() as u64).to_le_bytes());
                for token in &tokens.ids {
                    hash.update(token.to_le_bytes());
                }
            }
        }
        let hash = hex(&hash.finalize()[..16]);
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
    /// Where they are computed.
    pub compute: &'a Compute,
}

/// Both sides of a network that is not learning, ready to embed.
pub struct Encoders {
    audio: AudioEncoder,
    text: Side<TextTower>,
    compute: Compute,
}

impl Encoders {
    /// Those of a network, which stays as it is.
    ///
    /// # Errors
    /// [`Error::NoSide`], or if the front end does not fit the audio tower.
    pub fn new(network: &DualEncoder, card: &Card, compute: &Compute) -> Result<Self, Error> {
        let (Some(audio), Some(text), Some(card)) = (&network.audio, &network.text, &card.audio) else {
            return Err(Error::NoSide);
        };
        Ok(Self {
            audio: AudioEncoder::new(audio.clone(), card.clone(), compute)?,
            text: text.clone(),
            compute: compute.clone(),
        })
    }
}

const FEATURES: &str = "features";
// Of another version since features are averaged in 64 bits and captions are not padded.
const FORMAT: (&str, &str) = ("format", "hark features 2");

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
        let _ = write_tensors(path, |path| {
            weights_file::write(std::slice::from_ref(&tensor), &[FORMAT], path)
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

    fn tokens(ids: Vec<u32>) -> Tokens {
        Tokens { ids, cut: false }
    }

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
            tokens: [vec![0, 4, 2], vec![0, 5, 6, 2], vec![0, 2], vec![0, 8, 7, 5, 2]]
                .map(tokens)
                .to_vec(),
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
            compute: &Compute::cpu(2),
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
        let recipe = recipe(&[]);
        let encoders = Encoders::new(&tiny(&recipe), &tiny_card(&recipe), &Compute::cpu(2)).unwrap();
        let clips = clips(card::ClipLength::Full);
        let embed = |split: &Split| {
            let go_on = &hark_work::progress::no_progress;
            split.embed(&encoders, &clips, go_on).unwrap()
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
                let text = b"hark features 2";
                let at = bytes.windows(text.len()).position(|found| found == text).unwrap();
                let mut bytes = bytes.to_vec();
                bytes[at + text.len() - 1] = b'1';
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
        second.tokens[0] = tokens(vec![0, 5, 2]);
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
        let encoders = Encoders::new(&network, &card, &Compute::cpu(1)).unwrap();
        let stopped = split.embed(&encoders, &clips, stop);
        assert!(matches!(stopped, Err(Error::Cancelled)));
        for audio in [true, false] {
            let frozen = Frozen {
                audio,
                text: true,
                clips: &clips,
                folder: None,
                compute: &Compute::cpu(1),
            };
            let stopped = split.freeze(&network, &card, &frozen, stop);
            assert!(matches!(stopped, Err(Error::Cancelled)));
        }
    }
}
