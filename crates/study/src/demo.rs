//! The smallest study, and a search with its result: one recipe on generated soundscapes, trained once with hard pairs and once with graded relevance.
//!
//! One training of each shows what a comparison looks like, not which objective is better: that takes seeds, as in
//! [`crate::run`]. What a folder holds from an earlier call is used again.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hark_catalogue::{Query, SqliteStore, Store as _, search};
use hark_encode::Compute;
use hark_encode::model::TextEncoder;
use hark_evaluate::Truth;
use hark_learn::metrics_log::LoggedMetrics;
use hark_learn::objective::ObjectiveKind;
use hark_learn::recipe::Recipe;
use hark_learn::run;
use hark_learn::trainer::SplitResult;
use hark_library::{IndexOptions, Library, LibraryModel, OnIndexEvent, OpenOptions, Setup};
use hark_metrics::GradedReport;
use hark_metrics::significance::{PairedTest, paired_t_test};
use hark_models::ModelStore;
use hark_soundscape::{self as soundscape, Config, Generated, Split};
use hark_work::progress::no_progress;
use serde::Serialize;
use serde_json::json;

use crate::Error;
use crate::runner::{Train, TrainRequest};

/// Hard pairs, then graded relevance.
pub const OBJECTIVES: [ObjectiveKind; 2] = [ObjectiveKind::Infonce, ObjectiveKind::ListnetAudio];

/// One objective's run.
#[derive(Debug)]
pub struct DemoRun {
    /// What it was trained with.
    pub objective: ObjectiveKind,
    /// The run's folder.
    pub run: PathBuf,
    /// The best model on the test split.
    pub test: SplitResult,
    /// nDCG, text to audio, against the scenes.
    pub graded: GradedReport,
    /// Epochs of the training.
    pub epochs: u64,
    /// From 1.
    pub best_epoch: u64,
    /// Whether it was trained by an earlier call.
    pub reused: bool,
    /// How long it took.
    pub took: Duration,
}

impl DemoRun {
    /// What `hark demo --json` prints of it.
    pub fn summary(&self) -> serde_json::Value {
        let retrieval = &self.test.retrieval;
        let (there, back) = (&retrieval.text_to_audio, &retrieval.audio_to_text);
        let metrics = LoggedMetrics::from;
        json!({
            "method": self.objective.to_string(), "model": self.run.join(run::BEST), "seconds": self.took.as_secs_f64(),
            "text_to_audio": metrics(&there.mean), "audio_to_text": metrics(&back.mean),
            "ndcg_10_text_to_audio": self.graded.mean,
            "chance": {"text_to_audio": metrics(&there.chance), "audio_to_text": metrics(&back.chance)},
        })
    }

    fn average_precisions(&self) -> Vec<f64> {
        let queries = &self.test.retrieval.text_to_audio.queries;
        queries.iter().map(|query| query.average_precision).collect()
    }
}

/// What happens meanwhile.
#[derive(Debug, Clone, Copy)]
pub enum DemoEvent<'a> {
    /// Soundscapes are being generated.
    Generating {
        /// Recordings.
        done: u64,
        /// Recordings of all splits.
        total: u64,
    },
    /// They are there.
    Generated {
        /// Their settings.
        config: &'a Config,
        /// How many.
        generated: &'a Generated,
        /// How long it took.
        took: Duration,
    },
    /// A training is done.
    Trained {
        /// The training.
        run: &'a DemoRun,
        /// Clips to learn from.
        clips: usize,
    },
}

/// Two trainings and their comparison.
#[derive(Debug)]
pub struct Demo {
    /// Where the soundscapes are.
    pub soundscapes: PathBuf,
    /// What the test clips really sound like.
    pub truth: soundscape::Truth,
    /// In the order of [`OBJECTIVES`].
    pub runs: [DemoRun; 2],
    /// Average precision of every caption: graded relevance minus hard pairs.
    pub test: PairedTest,
}

/// Generates soundscapes, trains both objectives on them and compares them on the test split, all in `folder`.
///
/// # Errors
/// [`Error::NoSoundscapes`] if the recipe generates none; [`Error::Cancelled`] if the callback asked to stop.
pub fn train_and_compare(
    recipe: &Recipe,
    folder: &Path,
    threads: usize,
    train: Train<'_>,
    on_event: &(dyn Fn(DemoEvent<'_>) -> ControlFlow<()> + Sync),
) -> Result<Demo, Error> {
    let tell = |event: DemoEvent<'_>| match on_event(event) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Cancelled),
    };
    let config = recipe.soundscapes.clone().ok_or(Error::NoSoundscapes)?;
    fs_err::create_dir_all(folder)?;
    let begun = Instant::now();
    let soundscapes = folder.join("soundscapes");
    let generated = soundscape::generate(&config, &soundscapes, threads, &|done, total| {
        on_event(DemoEvent::Generating { done, total })
    })
    .map_err(|error| match error {
        soundscape::Error::Cancelled => Error::Cancelled,
        other => other.into(),
    })?;
    tell(DemoEvent::Generated {
        config: &config,
        generated: &generated,
        took: begun.elapsed(),
    })?;
    let truth = soundscape::Truth::read(&soundscapes, Split::Test)?;
    let one = |objective: ObjectiveKind| -> Result<DemoRun, Error> {
        let mut recipe = recipe.clone().with_soundscapes_at(&soundscapes);
        recipe.objective.name = objective;
        let run = folder.join(objective.to_string());
        let begun = Instant::now();
        let reused = run.join(run::REPORT).exists();
        let request = TrainRequest {
            recipe,
            run: &run,
            resume: run.join(run::RECIPE).exists(),
            threads,
            workers: threads,
            unchecked: false,
        };
        let trained = train(request, &|_| ControlFlow::Continue(())).map_err(|error| match error {
            hark_learn::Error::Cancelled => Error::Cancelled,
            other => other.into(),
        })?;
        let test = trained.test.ok_or(Error::NoTestSplit)?;
        let took = begun.elapsed();
        let done = DemoRun {
            objective,
            graded: Truth::of_scenes(&truth, &test.data)?.graded(&test.data, &test.embedded)?,
            run,
            test,
            epochs: trained.recipe.training.epochs,
            best_epoch: trained.best.epoch + 1,
            reused,
            took,
        };
        tell(DemoEvent::Trained {
            run: &done,
            clips: generated.clips[0],
        })?;
        Ok(done)
    };
    let runs = [one(OBJECTIVES[0])?, one(OBJECTIVES[1])?];
    let test = paired_t_test(&runs[1].average_precisions(), &runs[0].average_precisions())?;
    Ok(Demo {
        soundscapes,
        truth,
        runs,
        test,
    })
}

/// Hits that are listed for a query.
const HITS: usize = 3;

/// A query that was put to the test clips as a library. Serializes to what `hark demo --json` prints.
#[derive(Debug, Serialize)]
pub struct DemoAnswer {
    /// The query: a caption of the test split.
    pub query: String,
    /// Clips of which everything that the query says is true.
    #[serde(rename = "fully_relevant_clips")]
    pub fully_relevant: usize,
    /// The best clips, best first.
    pub hits: Vec<DemoHit>,
}

/// A clip that was found.
#[derive(Debug, Serialize)]
pub struct DemoHit {
    /// Its id.
    pub clip: String,
    /// Its cosine similarity to the query.
    pub score: f32,
    /// How far the query is true of it.
    #[serde(rename = "true_relevance")]
    pub relevance: f32,
    /// Its first caption.
    pub caption: String,
}

impl Demo {
    /// The test clips as a library below `folder`, as `hark index` makes it, with the model of graded relevance.
    ///
    /// # Errors
    /// If the clips cannot be indexed; the error says whether that was cancelled.
    pub fn index(
        &self,
        folder: &Path,
        models: &ModelStore,
        options: OpenOptions,
        on_event: OnIndexEvent<'_>,
    ) -> Result<Library, Error> {
        let folder = folder.join("library");
        let best = self.runs[1].run.join(run::BEST).display().to_string();
        let model = LibraryModel::find(models, &best)?;
        // A library of an earlier training is replaced.
        if SqliteStore::open(&folder).is_ok_and(|store| store.settings().fingerprint != model.fingerprint) {
            SqliteStore::remove(&folder).map_err(hark_library::Error::from)?;
        }
        let first = self.runs[1].test.data.clips.first();
        let clips = first
            .and_then(|clip| clip.path.parent())
            .ok_or(Error::NoTestSplit)?;
        let setup = Setup {
            open: OpenOptions {
                model: Some(best),
                ..options
            },
            folders: vec![clips.to_owned()],
            ..Setup::default()
        };
        let library = Library::open_to_index(folder, models, &setup)?;
        library.index(&IndexOptions::default(), on_event)?;
        Ok(library)
    }

    /// Three captions of the test split as queries, embedded by the model as it lies on disk.
    ///
    /// # Errors
    /// If the model or the library cannot be read.
    pub fn ask(&self, library: &Library, compute: &Compute) -> Result<Vec<DemoAnswer>, Error> {
        let data = &self.runs[1].test.data;
        let encoder = TextEncoder::open(&self.runs[1].run.join(run::BEST), compute)?;
        let queries = [1, 3, 5].map(|part| data.pairs.len() * part / 6);
        let texts = queries.map(|query| data.pairs[query].caption.as_str());
        let vectors = encoder.embed(&texts, &no_progress)?;
        let name = |nth: usize| data.clips[nth].path.file_name().and_then(|name| name.to_str());
        let clips: HashMap<&str, usize> = (0..data.clips.len())
            .filter_map(|nth| Some((name(nth)?, nth)))
            .collect();
        let mut answers = Vec::new();
        for (query, vector) in queries.into_iter().zip(vectors.rows()) {
            let asked = Query {
                vector: Some(vector.to_vec()),
                per_file: 1,
                limit: HITS,
                ..Query::default()
            };
            let hits = search(&**library.store(), &asked).map_err(hark_library::Error::from)?;
            let hits = hits.into_iter().filter_map(|hit| {
                let clip = *clips.get(hit.file.path.rsplit('/').next()?)?;
                Some(DemoHit {
                    clip: data.clips[clip].id.clone(),
                    score: hit.similarity.unwrap_or_default(),
                    relevance: self.truth.relevance(query, clip),
                    caption: data.captions_of(clip).next().unwrap_or_default().to_owned(),
                })
            });
            answers.push(DemoAnswer {
                query: data.pairs[query].caption.clone(),
                fully_relevant: self.truth.fully_relevant(query).count(),
                hits: hits.collect(),
            });
        }
        Ok(answers)
    }
}
