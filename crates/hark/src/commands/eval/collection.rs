//! What is evaluated: clips, captions and their vectors, from a model or from files.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail, ensure};
use hark_corpus::{Check, Clip, Dataset, DatasetConfig, Pair};
use hark_encode::model::{AudioEncoder, TextEncoder};
use hark_encode::model_key;
use hark_evaluate::{CaptionInput, ClipInput, SplitEmbeddings, SplitEvent, embed_split};
use hark_learn::recipe::Recipe;
use hark_learn::run;
use hark_models::Model;
use hark_nearest::npy;
use hark_work::files::hex;
use indicatif::ProgressBar;
use sha2::{Digest, Sha256};

use super::Args;
use crate::commands::train::with_soundscapes;
use crate::home::Home;
use crate::{output, progress};

/// A split with its vectors.
pub struct Collection {
    /// What it is of.
    pub title: String,
    /// Where it lies; nowhere for vectors alone.
    pub sets: Vec<DatasetConfig>,
    pub data: Dataset,
    pub embedded: SplitEmbeddings,
}

impl Collection {
    /// Embeds a split with a model, or takes the vectors of the last time.
    pub fn of_model(args: &Args, home: &Home, name: &str) -> Result<Self> {
        let Model::Towers(folder) = find(home, name)? else {
            bail!("{name} is a sentence encoder: it has no audio tower to evaluate");
        };
        let threads = args.threads.count().get();
        let sets = sets(args, home, &folder, threads)?;
        let bar = progress::items("looking at recordings");
        let loaded = Dataset::load_all(&sets, Check::Opens, threads, &|done, total| {
            progress::show(&bar, done, total)
        });
        bar.finish_and_clear();
        let mut data = loaded?;
        if !args.allow_missing {
            refuse_missing(&data)?;
        }
        let embedded = embed(args, home, &folder, &mut data)?;
        Ok(Self {
            title: format!("{name} on {}", data.name),
            sets,
            data,
            embedded,
        })
    }

    /// Vectors from files; captions and clips from a caption file, or as many captions for each clip.
    pub fn of_vectors(args: &Args, clips: &Path, captions: &Path) -> Result<Self> {
        let (clip_rows, caption_rows) = (npy::read(clips)?, npy::read(captions)?);
        let (clip_count, caption_count) = (clip_rows.len(), caption_rows.len());
        ensure!(
            clip_rows.dim() == caption_rows.dim(),
            "{} has vectors of {}, {} of {}: both must come from one model",
            clips.display(),
            clip_rows.dim(),
            captions.display(),
            caption_rows.dim()
        );
        let promised = args
            .captions_per_clip
            .map(|each| clip_count.saturating_mul(each.get()));
        if let Some(promised) = promised.filter(|&promised| promised != caption_count) {
            bail!(
                "the vectors are of {clip_count} clips and {caption_count} captions; --captions-per-clip would make {promised} captions"
            );
        }
        let data = match (&args.captions, args.captions_per_clip) {
            (Some(file), _) => {
                let set = args.columns.read(file)?;
                Dataset {
                    name: file.display().to_string(),
                    clips: set.clips.into_iter().map(named).collect(),
                    pairs: set
                        .captions
                        .into_iter()
                        .map(|caption| pair(caption.clip, caption.text))
                        .collect(),
                    left_out: Vec::new(),
                }
            }
            (None, Some(each)) => Dataset {
                name: "vectors".into(),
                clips: (0..clip_count).map(|nth| named(format!("clip-{nth}"))).collect(),
                pairs: (0..clip_count * each.get())
                    .map(|nth| pair(nth / each.get(), String::new()))
                    .collect(),
                left_out: Vec::new(),
            },
            (None, None) => {
                bail!("--vectors needs --captions FILE or --captions-per-clip N: whose captions are these?")
            }
        };
        ensure!(
            (clip_count, caption_count) == (data.clips.len(), data.pairs.len()),
            "the vectors are of {clip_count} clips and {caption_count} captions, {} has {} and {}",
            data.name,
            data.clips.len(),
            data.pairs.len()
        );
        Ok(Self {
            title: format!("{} and {}", clips.display(), captions.display()),
            sets: Vec::new(),
            data,
            embedded: SplitEmbeddings {
                dim: clip_rows.dim(),
                clips: clip_rows.into_vec(),
                captions: caption_rows.into_vec(),
            },
        })
    }
}

fn named(id: String) -> Clip {
    Clip {
        id,
        path: PathBuf::new(),
        set: 0,
    }
}

fn pair(clip: usize, caption: String) -> Pair {
    Pair { clip, caption }
}

/// A model by name, or a run's best one.
fn find(home: &Home, name: &str) -> Result<Model> {
    let best = Path::new(name).join(run::BEST);
    if hark_encode::model::is_model(&best) {
        return Ok(Model::Towers(best));
    }
    Ok(home.models().open(name)?)
}

/// The sets that `--data` and `--split` name; without them, the test split of the model's own run.
fn sets(args: &Args, home: &Home, model: &Path, threads: usize) -> Result<Vec<DatasetConfig>> {
    let Some(data) = &args.data else {
        let recipe = model
            .parent()
            .map(|run| run.join(run::RECIPE))
            .filter(|path| path.is_file());
        let recipe = recipe.context("give --data: which recordings and captions? (KIND:PATH or a recipe)")?;
        let recipe = (Recipe::read_resolved(&recipe)?, recipe.as_path());
        return of_recipe(recipe, args.split.as_deref(), home, threads);
    };
    if let Some((kind, path)) = data
        .split_once(':')
        .filter(|(kind, _)| kind.chars().all(char::is_alphanumeric))
    {
        let (root, split) = (PathBuf::from(path), args.split.clone());
        return Ok(vec![match kind {
            "clotho" => DatasetConfig::Clotho {
                root,
                split: split.unwrap_or_else(|| "evaluation".into()),
            },
            "audiocaps" => DatasetConfig::Audiocaps {
                root,
                split: split.unwrap_or_else(|| "test".into()),
                audio: None,
            },
            "table" | "folder" if split.is_some() => bail!("--split is for clotho, audiocaps and recipes"),
            "table" => DatasetConfig::Table {
                file: root,
                audio_folder: None,
                path_column: None,
                caption_columns: Vec::new(),
            },
            "folder" => DatasetConfig::Folder { root },
            other => {
                bail!("--data {other}:…: there are clotho, audiocaps, table and folder, or a recipe's file")
            }
        }]);
    }
    let path = Path::new(data);
    // The recipe of a run may be older than a key's name.
    let recipe = if path.file_name().is_some_and(|name| name == run::RECIPE) {
        Recipe::read_resolved(path)?
    } else {
        Recipe::read(path, &[])?
    };
    of_recipe((recipe, path), args.split.as_deref(), home, threads)
}

/// The sets of one split of a recipe; soundscapes are made if need be.
fn of_recipe(
    (recipe, path): (Recipe, &Path),
    split: Option<&str>,
    home: &Home,
    threads: usize,
) -> Result<Vec<DatasetConfig>> {
    let names_sets = |recipe: &Recipe| !recipe.data.test.is_empty();
    // A run's own recipe has its soundscapes named already.
    let recipe = if names_sets(&recipe) {
        recipe
    } else {
        with_soundscapes(recipe, &home.soundscapes(), threads)?
    };
    let sets = match split.unwrap_or("test") {
        "train" => recipe.data.train,
        "validation" => recipe.data.validation,
        "test" => recipe.data.test,
        other => bail!("--split {other}: a recipe has train, validation and test"),
    };
    ensure!(!sets.is_empty(), "{} has no such split", path.display());
    Ok(sets)
}

/// Figures over fewer clips are not those of the split.
fn refuse_missing(data: &Dataset) -> Result<()> {
    let Some(first) = data.left_out.first() else {
        return Ok(());
    };
    bail!(
        "{} of {} recordings of {} cannot be used, the first being {} ({}): figures over fewer clips are not comparable. \
         hark data check says more; --allow-missing evaluates what is there",
        output::group_digits(data.left_out.len()),
        output::group_digits(data.left_out.len() + data.clips.len()),
        data.name,
        output::sanitize(&first.id),
        output::sanitize(&first.reason.to_string())
    )
}

/// Vectors of a split, from the last time if nothing has changed since.
fn embed(args: &Args, home: &Home, folder: &Path, data: &mut Dataset) -> Result<SplitEmbeddings> {
    let compute = args.threads.compute();
    let key = key(folder, data)?;
    let place = |what: &str| home.evaluations().join(format!("{key}-{what}.npy"));
    let (clip_file, caption_file) = (place("clips"), place("captions"));
    if !args.no_cache && clip_file.exists() && caption_file.exists() {
        let (clips, captions) = (npy::read(&clip_file)?, npy::read(&caption_file)?);
        if (clips.len(), captions.len()) == (data.clips.len(), data.pairs.len()) {
            return Ok(SplitEmbeddings {
                dim: clips.dim(),
                clips: clips.into_vec(),
                captions: captions.into_vec(),
            });
        }
    }
    let (audio, text) = (
        AudioEncoder::open(folder, &compute)?,
        TextEncoder::open(folder, &compute)?,
    );
    let display = Mutex::new(Display::default());
    let on_event = |event: SplitEvent<'_>| {
        let mut display = display.lock().unwrap_or_else(PoisonError::into_inner);
        display.show(&event)
    };
    let found = embed_split(
        &audio,
        ClipInput::Files,
        CaptionInput::Words(&text),
        data,
        &on_event,
    );
    display
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .clear();
    let found = found?;
    let (is_whole, dim) = (found.is_complete(), audio.dim());
    let embedded = if args.allow_missing {
        found.take_found(data)?
    } else {
        found
            .complete(data)
            .map_err(|error| anyhow!("{error}; --allow-missing evaluates the others"))?
    };
    if is_whole && !args.no_cache {
        // A cache that cannot be written costs time, not results.
        let written = fs_err::create_dir_all(home.evaluations())
            .map_err(Into::into)
            .and_then(|()| {
                let write = |path: &Path, numbers: &[f32]| {
                    output::write_whole(path, |file| Ok(npy::write(file, dim, numbers)?))
                };
                write(&clip_file, &embedded.clips).and_then(|()| write(&caption_file, &embedded.captions))
            });
        if let Err(error) = written {
            eprintln!("hark: warning: the vectors could not be kept for next time: {error:#}");
        }
    }
    Ok(embedded)
}

/// A name that changes with the model and with anything about the split.
fn key(folder: &Path, data: &Dataset) -> Result<String> {
    let mut hash = Sha256::new();
    hash.update(concat!("hark evaluation 1, ", env!("CARGO_PKG_VERSION"), "\0"));
    hash.update(model_key::folder_hash(folder)?);
    for clip in &data.clips {
        let file = fs_err::metadata(&clip.path)?;
        hash.update(clip.path.as_os_str().as_encoded_bytes());
        hash.update(format!("\0{} {:?}\0", file.len(), file.modified().ok()));
    }
    for pair in &data.pairs {
        hash.update(format!("{}\0{}\0", pair.clip, pair.caption));
    }
    Ok(hex(&hash.finalize()[..16]))
}

/// Progress bars: one for captions, then one for recordings.
#[derive(Default)]
struct Display {
    captions: Option<ProgressBar>,
    recordings: Option<progress::Recordings>,
    clips: (u64, u64),
}

impl Display {
    fn show(&mut self, event: &SplitEvent<'_>) -> ControlFlow<()> {
        if let SplitEvent::Captions { done, total } = *event {
            let bar = self
                .captions
                .get_or_insert_with(|| progress::items("embedding captions"));
            return progress::show(bar, done, total);
        }
        if let Some(bar) = self.captions.take() {
            bar.finish_and_clear();
        }
        let recordings = self
            .recordings
            .get_or_insert_with(|| progress::Recordings::new("embedding"));
        match *event {
            SplitEvent::Segment { seconds } => recordings.heard(seconds),
            SplitEvent::Clip { done, total, failed } => {
                self.clips = (done, total);
                if let Some((clip, error)) = failed {
                    recordings.print(&format!("hark: {}: {error}", clip.path.display()));
                }
            }
            SplitEvent::Captions { .. } => {}
        }
        recordings.show(self.clips.0, self.clips.1)
    }

    fn clear(self) {
        if let Some(bar) = self.captions {
            bar.finish_and_clear();
        }
        if let Some(recordings) = self.recordings {
            recordings.clear();
        }
    }
}
