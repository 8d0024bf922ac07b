//! A run on disk: one folder that holds everything about one training.
//!
//! ```text
//! recipe.toml              the recipe, resolved
//! checkpoint.safetensors   all that is needed to go on: model, moments, state; replaced as a whole
//! best/, last/             models: card.json, model.safetensors, tokenizer.json
//! captions-*.f16           the teacher's vectors
//! tokenizer.json           text to tokens
//! metrics.jsonl            one line a step and one an epoch
//! events.out.tfevents.*    the same for TensorBoard
//! left-out.csv             recordings that were left out when the training began
//! report.md                what came out
//! broken-batch.json        the batch whose loss was not finite, if there was one
//! ```
//!
//! Every file is written beside its place and renamed, so that a crash leaves the old one or the new one. The checkpoint is
//! one file: model, optimizer and state cannot belong to different steps. What the logs say beyond the last checkpoint is
//! cut off when a training is resumed, as those steps are done again.

mod faults;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use hark_encode::card::Card;
use hark_encode::checkpoint::Checkpoint;
use hark_encode::dual::DualEncoder;
use hark_encode::weights_file::{self, NamedTensor};
use hark_encode::{Compute, DeviceName, model};
use hark_work::files::{self, replace_file};
use serde::{Deserialize, Serialize};

pub use self::faults::{BROKEN_BATCH, BrokenBatch, BrokenPair, LEFT_OUT, LeftOut};
use crate::Error;
use crate::loss_scale::LossScale;
use crate::metrics_log::MetricsLine;
use crate::optimizer::{AdamW, Moments, Values};

/// The resolved recipe.
pub const RECIPE: &str = "recipe.toml";
/// All that is needed to go on.
pub const CHECKPOINT: &str = "checkpoint.safetensors";
/// Text to tokens.
pub const TOKENIZER: &str = "tokenizer.json";
/// One line a step and one an epoch.
pub const METRICS: &str = "metrics.jsonl";
/// The model of the best epoch.
pub const BEST: &str = "best";
/// The model of the last epoch.
pub const LAST: &str = "last";
/// What came out.
pub const REPORT: &str = "report.md";

/// The one key in the checkpoint's header, by which it is known; its value is the [`State`]. With one key the same training
/// always writes the same bytes.
const FORMAT: &str = "hark checkpoint 1";

/// Where a training stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct State {
    /// Batches that have been learned from.
    pub batches: u64,
    /// Epochs that have been validated: a training may stop between the last batch of one and its validation.
    pub epochs: u64,
    /// Steps of the optimizer.
    pub updates: u64,
    /// Sum of the losses of this epoch's batches.
    pub loss_sum: f64,
    /// Parameters that have moments: a file that has lost some is not taken.
    pub moments: usize,
    /// The best epoch so far.
    pub best: Option<Best>,
    /// A hash over the pairs that are learned from, in their order.
    pub data: String,
    /// What losses are multiplied by, where products are made of 16-bit numbers of small range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_scale: Option<LossScale>,
    /// A device that the training has used without comparing it with the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unchecked: Option<DeviceName>,
}

impl State {
    /// Of a training on these data that has done nothing yet.
    pub fn beginning(data: &str) -> Self {
        Self {
            batches: 0,
            epochs: 0,
            updates: 0,
            loss_sum: 0.0,
            moments: 0,
            best: None,
            data: data.to_owned(),
            loss_scale: None,
            unchecked: None,
        }
    }
}

/// The best epoch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Best {
    /// From 0.
    pub epoch: u64,
    /// Of the validation.
    pub loss: f64,
    /// Of the validation, text to audio.
    pub map: f64,
}

/// A run's folder.
#[derive(Debug, Clone)]
pub struct Run {
    folder: PathBuf,
}

impl Run {
    /// The run in this folder, which is made if need be.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn at(folder: &Path) -> Result<Self, Error> {
        fs_err::create_dir_all(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// The path of a file of the run.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Whether a training has begun here.
    pub fn has_begun(&self) -> bool {
        self.path(RECIPE).exists() || self.path(CHECKPOINT).exists()
    }

    /// Keeps other processes out for as long as the file is open; a process that dies lets go of it. What a killed process
    /// has left half written is removed.
    ///
    /// # Errors
    /// [`Error::InUse`] if another one trains here.
    pub fn lock(&self) -> Result<std::fs::File, Error> {
        let file = fs_err::File::create(self.path(".lock"))?.into_file();
        match file.try_lock() {
            Ok(()) => {
                self.remove_temporary()?;
                Ok(file)
            }
            Err(std::fs::TryLockError::WouldBlock) => Err(Error::InUse {
                path: self.folder.clone(),
            }),
            Err(std::fs::TryLockError::Error(error)) => Err(error.into()),
        }
    }

    fn remove_temporary(&self) -> Result<(), Error> {
        for folder in ["", BEST, LAST].map(|name| self.path(name)) {
            if !folder.is_dir() {
                continue;
            }
            for entry in fs_err::read_dir(folder)? {
                let entry = entry?;
                if files::is_temporary(&entry.file_name()) {
                    fs_err::remove_file(entry.path())?;
                }
            }
        }
        Ok(())
    }

    /// Writes a file as a whole.
    ///
    /// # Errors
    /// If it cannot be written; what was there before is still there.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        Ok(files::write(&self.path(name), content)?)
    }

    /// Saves all that is needed to go on.
    ///
    /// # Errors
    /// If it cannot be written; the last checkpoint is intact then.
    pub fn save(&self, network: &DualEncoder, optimizer: &AdamW, state: &State) -> Result<(), Error> {
        let mut stored: Vec<NamedTensor<'_>> = weights_file::parameters(network)
            .into_iter()
            .map(|stored| NamedTensor {
                name: format!("model.{}", stored.name),
                ..stored
            })
            .collect();
        for (name, moments) in &optimizer.moments {
            for (kind, numbers) in [("first", &moments.first), ("second", &moments.second)] {
                stored.push(NamedTensor {
                    name: format!("{kind}.{name}"),
                    shape: vec![numbers.len()],
                    numbers: Box::new(|| numbers.to_vec()),
                });
            }
        }
        let state = State {
            moments: optimizer.moments.len(),
            ..state.clone()
        };
        let state = serde_json::to_string(&state).map_err(|source| hark_encode::Error::Json {
            path: self.path(CHECKPOINT),
            source,
        })?;
        write_tensors(&self.path(CHECKPOINT), |path| {
            weights_file::write(&stored, &[(FORMAT, &state)], path)
        })
    }

    /// Where the training stands, if it has saved anything.
    ///
    /// # Errors
    /// If the checkpoint is damaged or of another version.
    pub fn state(&self) -> Result<Option<State>, Error> {
        if !self.path(CHECKPOINT).exists() {
            return Ok(None);
        }
        Ok(Some(self.open()?.1))
    }

    fn open(&self) -> Result<(Checkpoint, State), Error> {
        let path = self.path(CHECKPOINT);
        let file = Checkpoint::open(&path)?;
        let damaged = |what: String| Error::Damaged {
            path: path.clone(),
            what,
        };
        let state = file
            .header(FORMAT)
            .ok_or_else(|| damaged(format!("no checkpoint of a training ({FORMAT})")))?;
        let state = serde_json::from_str(state).map_err(|e| damaged(e.to_string()))?;
        Ok((file, state))
    }

    /// Reads the checkpoint into a network and an optimizer of the same make.
    ///
    /// # Errors
    /// [`Error::OtherNetwork`] if a tensor is missing, of another shape, or not this network's; if the file is damaged.
    pub fn load(
        &self,
        network: DualEncoder,
        optimizer: &mut AdamW,
        trained: &dyn Fn(&str) -> bool,
        compute: &Compute,
    ) -> Result<(DualEncoder, State), Error> {
        let (file, state) = self.open()?;
        let other = |cause: hark_encode::Error| Error::OtherNetwork {
            path: self.path(CHECKPOINT),
            cause: Box::new(cause),
        };
        let mut moments = BTreeMap::new();
        let network = weights_file::update(network, &mut |name, shape, _| {
            let numbers = file.take(&format!("model.{name}"), shape)?;
            let size = [numbers.len()];
            // A parameter that had no part in any loss has no moments; how many have is checked below.
            let has_moments = trained(name) && state.updates > 0 && file.contains(&format!("first.{name}"));
            if has_moments {
                let first = Values::on(file.take(&format!("first.{name}"), &size)?, compute);
                let second = Values::on(file.take(&format!("second.{name}"), &size)?, compute);
                moments.insert(name.to_owned(), Moments { first, second });
            }
            Ok(numbers)
        })
        .map_err(other)?;
        if state.moments != moments.len() {
            return Err(Error::Damaged {
                path: self.path(CHECKPOINT),
                what: format!(
                    "it should have moments of {} parameters, and has those of {} that the network trains",
                    state.moments,
                    moments.len()
                ),
            });
        }
        file.finish(&[]).map_err(other)?;
        optimizer.moments = moments;
        optimizer.steps = state.updates;
        Ok((network, state))
    }

    /// Writes a model folder of the run. Its files are replaced one by one, the weights first: card and tokenizer are the
    /// same during a training.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn save_model(
        &self,
        name: &str,
        card: &Card,
        network: &DualEncoder,
        tokenizer: &str,
    ) -> Result<(), Error> {
        let folder = self.path(name);
        fs_err::create_dir_all(&folder)?;
        let card_text = serde_json::to_string_pretty(card).map_err(|source| hark_encode::Error::Json {
            path: folder.join(model::CARD),
            source,
        })?;
        write_tensors(&folder.join(model::WEIGHTS), |path| {
            weights_file::save(network, path)
        })?;
        files::write(&folder.join(model::TOKENIZER), tokenizer.as_bytes())?;
        Ok(files::write(
            &folder.join(model::CARD),
            format!("{card_text}\n").as_bytes(),
        )?)
    }

    /// The metrics file to append to, without what it says beyond this state.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn metrics(&self, state: &State) -> Result<fs_err::File, Error> {
        let is_past = |line: &MetricsLine| {
            let is_validated = match line {
                MetricsLine::Step { .. } => true,
                MetricsLine::Epoch { epoch, .. } => *epoch < state.epochs,
            };
            line.batches() <= state.batches && is_validated
        };
        let path = self.path(METRICS);
        if path.exists() {
            let mut kept = Vec::new();
            // Bytes, as a crash may leave what is no text.
            for line in BufReader::new(fs_err::File::open(&path)?).split(b'\n') {
                let line = line?;
                // A line that was cut off by a crash does not parse; all before it were written before it.
                if !MetricsLine::parse(&line).is_ok_and(|line| is_past(&line)) {
                    break;
                }
                kept.extend([line.as_slice(), b"\n"].concat());
            }
            self.write(METRICS, &kept)?;
        }
        Ok(fs_err::OpenOptions::new().create(true).append(true).open(path)?)
    }
}

/// Replaces a file of tensors as a whole.
pub(crate) fn write_tensors(
    path: &Path,
    write: impl FnOnce(&Path) -> Result<(), hark_encode::Error>,
) -> Result<(), Error> {
    replace_file(path, |file| {
        let temporary = file.get_ref().path();
        write(temporary).map_err(|error| {
            // The error names the temporary file, which nobody knows.
            let reason = error.to_string();
            let named = reason.replace(&temporary.display().to_string(), &path.display().to_string());
            Error::Io(std::io::Error::other(format!("cannot write {named}")))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    use crate::metrics_log::LoggedMetrics;
    use hark_metrics::MeanMetrics;

    use crate::network::tests::{all, recipe, tiny, tiny_card};
    use crate::optimizer::{AdamWConfig, Gradients};

    fn state() -> State {
        State {
            moments: trained().1.moments.len(),
            batches: 7,
            epochs: 1,
            updates: 2,
            loss_sum: 0.1 + 0.2,
            best: Some(Best {
                epoch: 1,
                loss: 1.0 / 3.0,
                map: 0.25,
            }),
            data: "ab".into(),
            loss_scale: None,
            unchecked: None,
        }
    }

    /// A network after two steps in which everything was trained but the text tower.
    fn trained() -> (DualEncoder, AdamW) {
        let mut network = tiny(&recipe(&[]));
        let mut optimizer = AdamW::new(AdamWConfig::default());
        for step in 1..=2 {
            let parameters = weights_file::parameters(&network).into_iter();
            let gradients: Gradients = parameters
                .filter(|stored| is_trained(&stored.name))
                .map(|stored| {
                    let gradient = |x: f32| (x + 0.1).sin() / 3.0 * step as f32;
                    (
                        stored.name,
                        (stored.numbers)().into_iter().map(gradient).collect::<Vec<f32>>(),
                    )
                })
                .collect();
            network = optimizer.step(network, &gradients, 1.0, &|_| 0.01).unwrap();
        }
        (network, optimizer)
    }

    fn is_trained(name: &str) -> bool {
        !name.starts_with("text.tower.")
    }

    fn saved(folder: &Path) -> Run {
        let run = Run::at(folder).unwrap();
        let (network, optimizer) = trained();
        run.save(&network, &optimizer, &state()).unwrap();
        run
    }

    fn load(run: &Run, set: &[&str]) -> Result<(DualEncoder, AdamW, State), Error> {
        let mut optimizer = AdamW::new(AdamWConfig::default());
        let (network, state) = run.load(tiny(&recipe(set)), &mut optimizer, &is_trained, &Compute::cpu(1))?;
        Ok((network, optimizer, state))
    }

    /// Bits, so that nothing counts as equal that is not.
    fn bits(network: &DualEncoder) -> Vec<(String, Vec<u32>)> {
        let all = all(network).into_iter();
        all.map(|(name, numbers)| (name, numbers.into_iter().map(f32::to_bits).collect()))
            .collect()
    }

    #[test]
    fn what_is_loaded_is_what_was_saved() {
        let folder = tempfile::tempdir().unwrap();
        let run = saved(folder.path());
        let (network, optimizer) = trained();
        // Into a network of other numbers.
        let (got, got_optimizer, got_state) = load(&run, &["seed=5"]).unwrap();
        assert_eq!(bits(&got), bits(&network));
        assert_eq!(got_optimizer, optimizer);
        assert_eq!(got_optimizer.steps, 2);
        assert!(got_optimizer.moments.keys().all(|name| is_trained(name)));
        assert_eq!(got_state, state());
        assert_eq!(run.state().unwrap(), Some(state()));
        assert!(run.has_begun());
        assert_eq!(fs_err::read_dir(run.path("")).unwrap().count(), 1);
        // And saved again it is the same file.
        let first = fs_err::read(run.path(CHECKPOINT)).unwrap();
        run.save(&got, &got_optimizer, &got_state).unwrap();
        assert!(fs_err::read(run.path(CHECKPOINT)).unwrap() == first);
    }

    #[test]
    fn a_run_is_one_processs_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::at(folder.path()).unwrap();
        let held = run.lock().unwrap();
        assert!(matches!(run.lock(), Err(Error::InUse { .. })));
        drop(held);
        run.lock().unwrap();
    }

    #[test]
    fn a_run_without_a_checkpoint_has_no_state() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::at(&folder.path().join("a/b")).unwrap();
        assert!(!run.has_begun());
        assert_eq!(run.state().unwrap(), None);
    }

    /// Writes the checkpoint again, with changes to its tensors.
    fn tamper(run: &Run, change: &dyn Fn(&mut Vec<NamedTensor>)) {
        let path = run.path(CHECKPOINT);
        let file = Checkpoint::open(&path).unwrap();
        let state = file.header(FORMAT).unwrap().to_owned();
        let mut tensors: Vec<NamedTensor> = file
            .names()
            .map(|name| {
                let shape = file.shape(name).unwrap().to_vec();
                let numbers = file.take(name, &shape).unwrap();
                NamedTensor {
                    name: name.to_owned(),
                    shape,
                    numbers: Box::new(move || numbers.clone()),
                }
            })
            .collect();
        change(&mut tensors);
        weights_file::write(&tensors, &[(FORMAT, &state)], &path).unwrap();
    }

    #[test]
    fn a_checkpoint_that_is_not_this_networks_is_refused() {
        const PARAMETER: &str = "audio.tower.gather.weight";
        type Change<'a> = &'a dyn Fn(&mut Vec<NamedTensor>);
        fn without(prefix: &'static str) -> impl Fn(&mut Vec<NamedTensor>) {
            move |tensors| tensors.retain(|stored| stored.name != format!("{prefix}.{PARAMETER}"))
        }
        fn flat(prefix: &'static str) -> impl Fn(&mut Vec<NamedTensor>) {
            move |tensors| {
                for stored in tensors {
                    if stored.name == format!("{prefix}.{PARAMETER}") {
                        stored.shape = vec![1, stored.shape.iter().product()];
                    }
                }
            }
        }
        fn more(name: &'static str) -> impl Fn(&mut Vec<NamedTensor>) {
            move |tensors| {
                tensors.push(NamedTensor {
                    name: name.to_owned(),
                    shape: vec![1],
                    numbers: Box::new(|| vec![0.0]),
                });
            }
        }
        let changes: [(&str, Change<'_>); 9] = [
            ("model.audio.tower.gather.weight", &without("model")),
            ("moments of", &without("first")),
            ("second.audio.tower.gather.weight", &without("second")),
            ("model.audio.tower.gather.weight", &flat("model")),
            ("first.audio.tower.gather.weight", &flat("first")),
            ("model.video", &more("model.video")),
            ("first.video", &more("first.video")),
            // Of a parameter that is not trained.
            (
                "first.text.tower.norm.weight",
                &more("first.text.tower.norm.weight"),
            ),
            ("other", &more("other")),
        ];
        let folder = tempfile::tempdir().unwrap();
        for (expected, change) in changes {
            let run = saved(folder.path());
            tamper(&run, change);
            let error = load(&run, &[]).unwrap_err();
            assert!(matches!(
                error,
                Error::OtherNetwork { .. } | Error::Damaged { .. }
            ));
            let error = error.to_string();
            let path = run.path(CHECKPOINT).display().to_string();
            assert!(
                error.contains(&path) && error.contains(expected),
                "{expected}: {error}"
            );
        }
        // The writing itself changes nothing.
        let run = saved(folder.path());
        tamper(&run, &|_| ());
        assert_eq!(bits(&load(&run, &[]).unwrap().0), bits(&trained().0));

        for set in [
            "text.network.hidden=7",
            "text.network.layers=1",
            "text.network.layers=3",
            "audio.network.channels=[3]",
        ] {
            let error = load(&run, &[set]).unwrap_err();
            assert!(matches!(error, Error::OtherNetwork { .. }), "{set}: {error}");
        }
    }

    #[test]
    fn a_checkpoint_that_is_cut_off_or_something_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let run = saved(folder.path());
        let path = run.path(CHECKPOINT);
        let whole = fs_err::read(&path).unwrap();
        let refuse = |bytes: &[u8]| {
            fs_err::write(&path, bytes).unwrap();
            let named = path.display().to_string();
            for error in [load(&run, &[]).unwrap_err(), run.state().unwrap_err()] {
                let error = error.to_string();
                assert!(error.contains(&named), "{error}");
            }
        };
        for length in [0, 4, 8, 100, whole.len() / 2, whole.len() - 1] {
            refuse(&whole[..length]);
        }
        let replaced = |from: &str, to: &str| {
            let at = whole
                .windows(from.len())
                .position(|found| found == from.as_bytes())
                .unwrap();
            let mut bytes = whole.clone();
            bytes[at..][..to.len()].copy_from_slice(to.as_bytes());
            bytes
        };
        refuse(&replaced("hark checkpoint 1", "hark checkpoint 2"));
        refuse(&replaced("updates", "updatez"));
        // A model is no checkpoint.
        weights_file::save(&trained().0, &path).unwrap();
        let error = load(&run, &[]).unwrap_err().to_string();
        assert!(error.contains("no checkpoint of a training"), "{error}");
    }

    /// Half of a checkpoint, of a process that was killed, is in no one's way and gone with the next training.
    #[test]
    fn what_a_killed_process_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let run = saved(folder.path());
        let left = run.path(".hark-left");
        fs_err::write(&left, "half").unwrap();
        assert_eq!(load(&run, &[]).unwrap().2, state());
        let lock = run.lock().unwrap();
        assert!(!left.exists() && run.path(CHECKPOINT).exists());
        assert!(matches!(run.lock(), Err(Error::InUse { .. })));
        drop(lock);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::at(folder.path()).unwrap();
        fs_err::create_dir(run.path(REPORT)).unwrap();
        let error = run.write(REPORT, b"new").unwrap_err().to_string();
        assert!(error.contains(REPORT), "{error}");
    }

    #[test]
    fn a_model_that_is_saved_can_be_opened() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::at(folder.path()).unwrap();
        let card = tiny_card(&recipe(&[]));
        // The second replaces the first.
        run.save_model(BEST, &card, &tiny(&recipe(&["seed=3"])), "{}")
            .unwrap();
        run.save_model(BEST, &card, &trained().0, "{ }").unwrap();
        let best = run.path(BEST);
        assert_eq!(Card::read(&best.join(model::CARD)).unwrap(), card);
        assert_eq!(fs_err::read(best.join(model::TOKENIZER)).unwrap(), b"{ }");
        let file = Checkpoint::open(&best.join(model::WEIGHTS)).unwrap();
        let network = weights_file::load(tiny(&recipe(&[])), file, &[]).unwrap();
        assert_eq!(bits(&network), bits(&trained().0));
        assert!(model::AudioEncoder::open(&best, &hark_encode::Compute::cpu(1)).is_ok());
    }

    #[test]
    fn metrics_beyond_the_checkpoint_are_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::at(folder.path()).unwrap();
        let written = |line: MetricsLine| {
            let mut bytes = Vec::new();
            line.write(&mut bytes).unwrap();
            bytes
        };
        let line = |batches: u64| {
            written(MetricsLine::Step {
                epoch: 0,
                batches,
                loss: 1.0,
                rate: 0.1,
                norm: 2.0,
                seconds: 0.5,
                waited: 0.25,
            })
        };
        let lines = |from: &[u64]| {
            from.iter()
                .flat_map(|&batches| line(batches))
                .collect::<Vec<u8>>()
        };
        let after = |before: &[u8], batches| {
            fs_err::write(run.path(METRICS), before).unwrap();
            let state = State {
                batches,
                ..State::beginning("")
            };
            let mut file = run.metrics(&state).unwrap();
            file.write_all(&line(99)).unwrap();
            let found = fs_err::read(run.path(METRICS)).unwrap();
            found.strip_suffix(line(99).as_slice()).unwrap().to_vec()
        };
        // A step and the epoch that it ends have the same number.
        let all = lines(&[1, 2, 2, 3, 4]);
        assert_eq!(after(&all, 2), lines(&[1, 2, 2]));
        assert_eq!(after(&all, 4), all);
        assert_eq!(after(&all, 0), b"");
        assert_eq!(after(b"", 3), b"");
        // The validation of an epoch comes after its last batch.
        let metrics = LoggedMetrics::from(&MeanMetrics::default());
        let epoch = written(MetricsLine::Epoch {
            epoch: 0,
            batches: 2,
            loss: 1.0,
            validation_loss: 1.5,
            best: true,
            text_to_audio: metrics,
            audio_to_text: metrics,
        });
        let with_epoch = [lines(&[1, 2]), epoch, lines(&[3])].concat();
        assert_eq!(after(&with_epoch, 2), lines(&[1, 2]));
        // Cut off within a line, within a letter, or followed by what a crash left.
        assert_eq!(after(&all[..all.len() - 3], 9), lines(&[1, 2, 2, 3]));
        assert_eq!(
            after(&[&all, "{\"a\":\"ö".as_bytes()].concat()[..all.len() + 7], 9),
            all
        );
        assert_eq!(
            after(&[&all[..], &[0, 0, 255, 254, b'\n'], &line(5)].concat(), 9),
            all
        );
        // The last line is whole but for its end.
        assert_eq!(after(&all[..all.len() - 1], 9), all);

        fs_err::remove_file(run.path(METRICS)).unwrap();
        run.metrics(&State::beginning(""))
            .unwrap()
            .write_all(b"x")
            .unwrap();
        assert_eq!(fs_err::read(run.path(METRICS)).unwrap(), b"x");
    }
}
