//! Finished runs → one [`Study`]: figures, curves, tests, and where everything came from.

use std::path::Path;

use hark_corpus::DatasetConfig;
use hark_evaluate::{Comparison, Direction, DirectionMetrics, Metric, ScoredQueries, compare};
use hark_learn::metrics_log::{self, MetricsLine};
use hark_learn::run;
use hark_work::files::hex;
use sha2::{Digest, Sha256};

use crate::Error;
use crate::plan::{Job, Plan};
use crate::results::{Method, Point, Published, PublishedData, RunFigures, Study};
use crate::run_result::RunResult;
use crate::runner::Program;
use hark_work::progress::group_digits;

/// Reads the results of all runs of a plan, and compares its methods with the baseline, a row of the plan.
///
/// # Errors
/// [`Error::NoResult`] if a run is not finished, [`Error::Mixed`] if data or models changed between runs.
pub fn collect(plan: &Plan, baseline: usize, program: &Program) -> Result<Study, Error> {
    let mut runs: Vec<Vec<(&Job, RunResult)>> = vec![Vec::new(); plan.variants.len()];
    for job in &plan.jobs {
        let result = RunResult::read(&job.folder)?.ok_or_else(|| Error::NoResult {
            run: job.folder.clone(),
        })?;
        runs[job.variant].push((job, result));
    }
    for of_variant in &mut runs {
        of_variant.sort_by_key(|(job, _)| (job.corpus, job.seed));
    }
    check_same(&runs)?;
    let mut methods = Vec::new();
    for (variant, of_variant) in plan.variants.iter().zip(&runs) {
        let figures = of_variant.iter().map(|(job, result)| figures(job, result));
        methods.push(Method {
            name: variant.name.clone(),
            title: variant.title.clone(),
            runs: figures.collect::<Result<_, _>>()?,
        });
    }
    let chance = chance(runs.first().map_or(&[], Vec::as_slice));
    let (published, remarks) = published(plan, &runs);
    Ok(Study {
        name: plan.base.name.clone(),
        data: data_name(plan),
        published,
        one_direction: published.is_some_and(|published| published.pretrained),
        methods,
        chance,
        remarks,
        comparisons: comparisons(plan, &runs, baseline)?,
        provenance: provenance(plan, &runs, program)?,
        recipe: plan.recipe_text()?,
    })
}

/// What chance reaches, over the corpora: sizes are the same, but not what is relevant.
fn chance(runs: &[(&Job, RunResult)]) -> (DirectionMetrics, DirectionMetrics, Option<f64>) {
    let mean = |value: &dyn Fn(&RunResult) -> f64| {
        runs.iter().map(|(_, result)| value(result)).sum::<f64>() / runs.len() as f64
    };
    let figures = |of: fn(&RunResult) -> DirectionMetrics| DirectionMetrics {
        map: mean(&|result| of(result).map),
        recall: [0, 1, 2].map(|nth| mean(&|result| of(result).recall[nth])),
    };
    let graded = runs.iter().all(|(_, result)| result.chance_ndcg_10.is_some());
    (
        figures(|result| result.chance_text_to_audio),
        figures(|result| result.chance_audio_to_text),
        graded.then(|| mean(&|result| result.chance_ndcg_10.unwrap_or(f64::NAN))),
    )
}

fn figures(job: &Job, result: &RunResult) -> Result<RunFigures, Error> {
    Ok(RunFigures {
        corpus: job.corpus,
        seed: job.seed,
        best_epoch: result.best_epoch,
        text_to_audio: result.text_to_audio,
        audio_to_text: result.audio_to_text,
        ndcg: result.ndcg_10,
        ndcg_chance: result.chance_ndcg_10,
        curve: curve(&job.folder.join(run::METRICS))?,
    })
}

/// The epochs of a run's log.
fn curve(path: &Path) -> Result<Vec<Point>, Error> {
    let lines = metrics_log::read(path)?.into_iter();
    let points = lines.filter_map(|line| match line {
        MetricsLine::Step { .. } => None,
        MetricsLine::Epoch {
            epoch,
            loss,
            validation_loss,
            text_to_audio,
            ..
        } => Some(Point {
            epoch: epoch + 1,
            loss,
            validation_loss,
            map: text_to_audio.map_10,
        }),
    });
    Ok(points.collect())
}

/// The tests between rows. Text to audio by mAP@10 and, where truth is graded, nDCG@10; audio to text by mAP@10.
fn comparisons(
    plan: &Plan,
    runs: &[Vec<(&Job, RunResult)>],
    baseline: usize,
) -> Result<Vec<Comparison>, Error> {
    let mut comparisons = Vec::new();
    let graded = runs.iter().flatten().all(|(_, result)| result.ndcg_10.is_some());
    for direction in Direction::ALL {
        let methods = plan.variants.iter().zip(runs).map(|(variant, runs)| {
            let read = |(job, _): &(&Job, RunResult)| ScoredQueries::read(&job.folder.join(direction.file()));
            Ok(compare::Method {
                name: variant.title.clone(),
                runs: runs.iter().map(read).collect::<Result<_, _>>()?,
            })
        });
        let methods = methods.collect::<Result<Vec<_>, Error>>()?;
        let mut metrics = vec![Metric::Ap];
        if graded && direction == Direction::TextToAudio {
            metrics.push(Metric::Ndcg);
        }
        for metric in metrics {
            let found = compare::compare(&methods, &plan.comparisons(baseline), metric)?;
            comparisons.extend(found.into_iter().map(|(comparison, _)| comparison));
        }
    }
    Ok(comparisons)
}

/// That all trainings of a corpus were on the same data, and all of a variant with the same models.
fn check_same(runs: &[Vec<(&Job, RunResult)>]) -> Result<(), Error> {
    let mut data: Vec<(&Job, &RunResult)> = Vec::new();
    for of_variant in runs {
        for (job, result) in of_variant {
            let same = |known: &&(&Job, &RunResult)| known.0.corpus == job.corpus;
            let mut differs = None;
            if let Some((other, known)) = data.iter().find(same) {
                let is_same =
                    known.training_data == result.training_data && known.test_data == result.test_data;
                differs = (!is_same).then_some((*other, "data"));
            } else {
                data.push((*job, result));
            }
            let (first, known) = &of_variant[0];
            let differs = differs.or_else(|| (known.models != result.models).then_some((*first, "models")));
            if let Some((other, what)) = differs {
                return Err(Error::Mixed {
                    first: other.folder.clone(),
                    second: job.folder.clone(),
                    what,
                });
            }
        }
    }
    Ok(())
}

/// The paper's figures for the data set, and what to know where the test split is not the paper's.
fn published(plan: &Plan, runs: &[Vec<(&Job, RunResult)>]) -> (Option<Published>, Vec<String>) {
    let [test] = plan.base.data.test.as_slice() else {
        return (None, Vec::new());
    };
    let (data, root, expected) = match test {
        DatasetConfig::Clotho { root, split } if split == "evaluation" => {
            (PublishedData::Clotho, root, (1045, 5225))
        }
        DatasetConfig::Audiocaps { root, split, .. } if split == "test" => {
            (PublishedData::AudioCaps, root, (940, 4700))
        }
        _ => return (None, Vec::new()),
    };
    // Soundscapes lie in Clotho's layout.
    if root.join(SOUNDSCAPES).exists() {
        return (None, Vec::new());
    }
    let mut remarks = Vec::new();
    if let Some((_, result)) = runs.first().and_then(|runs| runs.first())
        && (result.clips, result.captions) != expected
    {
        remarks.push(format!(
            "The test split here has {} clips and {} captions, the paper's has {} and {}: figures are not comparable.",
            group_digits(result.clips),
            group_digits(result.captions),
            group_digits(expected.0),
            group_digits(expected.1)
        ));
    }
    let published = Published {
        data,
        pretrained: plan.base.training.init_from.is_some(),
    };
    (Some(published), remarks)
}

/// The file by which a folder is known as soundscapes.
const SOUNDSCAPES: &str = "soundscape.json";

fn data_name(plan: &Plan) -> String {
    match plan.base.data.test.as_slice() {
        [] => plan.base.name.clone(),
        [DatasetConfig::Clotho { split, .. }] if split == "evaluation" => "Clotho".into(),
        [DatasetConfig::Audiocaps { split, .. }] if split == "test" => "AudioCaps".into(),
        sets => sets.iter().map(DatasetConfig::name).collect::<Vec<_>>().join("+"),
    }
}

/// Versions and hashes of program, data and weights.
fn provenance(
    plan: &Plan,
    runs: &[Vec<(&Job, RunResult)>],
    program: &Program,
) -> Result<Vec<(String, String)>, Error> {
    let mut known: Vec<(String, String)> = Vec::new();
    let mut add = |what: String, value: String| {
        if !known.iter().any(|(other, _)| *other == what) {
            known.push((what, value));
        }
    };
    let mut made_by: Vec<&str> = runs
        .iter()
        .flatten()
        .map(|(_, result)| result.made_by.as_str())
        .collect();
    made_by.sort_unstable();
    made_by.dedup();
    add("trained by".into(), made_by.join(", "));
    add("reported by".into(), program.name.clone());
    add(
        "the reporting program, SHA-256".into(),
        sha256(&fs_err::read(&program.executable)?),
    );
    add("built for".into(), program.platform.clone());
    add("recipe, SHA-256".into(), sha256(plan.recipe_text()?.as_bytes()));
    for (job, result) in runs.iter().flatten() {
        let which = job
            .corpus
            .map_or_else(String::new, |corpus| format!(" of corpus {corpus}"));
        add(
            format!("training and validation captions{which}, SHA-256 (first half)"),
            result.training_data.clone(),
        );
        add(format!("test captions{which}, SHA-256"), result.test_data.clone());
        if result.left_out > 0 {
            add(
                format!("test recordings{which} left out"),
                result.left_out.to_string(),
            );
        }
        for (what, print) in &result.models {
            add(format!("{what}, fingerprint"), print.clone());
        }
    }
    Ok(known)
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}
