//! What an evaluation leaves in a folder: `report.json` with its typed reader, scored queries, run and qrels files in
//! TREC's formats, and predictions as the retrieval challenge asks for them.

use std::num::NonZeroUsize;
use std::path::Path;

use hark_metrics::{Lists, MeanMetrics, Options, Ties, WithIds, lists, trec};
use hark_nearest::Vectors;
use hark_work::files::write_with;
use hark_work::progress::no_progress;
use serde::{Deserialize, Serialize};

use crate::collection::Collection;
use crate::judge::{Evaluation, Judgement};
use crate::retrieval::{caption_ids, clip_ids, keys};
use crate::slices::SLICES;
use crate::{Direction, Error, ScoredQuery};

/// The report's file.
pub const REPORT: &str = "report.json";
/// The challenge's predictions.
pub const PREDICTIONS: &str = "predictions.csv";
/// Items of each query in a run file: enough for every usual metric.
const LISTED: NonZeroUsize = NonZeroUsize::new(1000).unwrap();
/// Clips that the challenge asks for.
const PREDICTED: usize = 10;
const FORMAT: &str = "hark evaluation 1";

/// An evaluation as `hark eval --json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/evaluation.md says what the keys mean")]
pub struct EvaluationReport {
    pub format: String,
    pub of: String,
    pub clips: usize,
    pub captions: usize,
    pub ties: String,
    pub model: Option<String>,
    pub data: Option<String>,
    pub split: Option<String>,
    pub judgements: Vec<JudgementReport>,
}

/// One direction by one truth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct JudgementReport {
    pub direction: String,
    pub by: String,
    pub cut: usize,
    pub queries: usize,
    pub left_out: usize,
    pub mean: MeansReport,
    pub chance: MeansReport,
    /// `None` if nothing relevant was found for half of the queries: JSON has no infinity.
    pub median_rank: Option<f64>,
    /// By what queries say; `None` where queries have no words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<Vec<SliceReport>>,
}

/// Means over queries, as fractions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct MeansReport {
    pub map: f64,
    pub mrr: f64,
    pub ndcg: Option<f64>,
    pub recall_1: f64,
    pub recall_5: f64,
    pub recall_10: f64,
    pub hit_1: f64,
    pub hit_5: f64,
    pub hit_10: f64,
}

/// Queries that have something in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct SliceReport {
    pub by: String,
    pub name: String,
    pub queries: usize,
    pub map: Option<f64>,
    pub recall_10: Option<f64>,
}

impl EvaluationReport {
    /// The report of an evaluation; `model`, `data` and `split` are for the caller to add.
    pub fn new(evaluation: &Evaluation, ties: Ties) -> Self {
        Self {
            format: FORMAT.into(),
            of: evaluation.title.clone(),
            clips: evaluation.clips,
            captions: evaluation.captions,
            ties: match ties {
                Ties::Hashed { .. } => "hash".into(),
                Ties::Keys => "trec".into(),
            },
            model: None,
            data: None,
            split: None,
            judgements: evaluation.judgements.iter().map(JudgementReport::new).collect(),
        }
    }

    /// Reads the file that [`Evaluation::write`] wrote.
    ///
    /// # Errors
    /// [`Error::Malformed`], or if it cannot be read.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let malformed = |what: String| Error::Malformed {
            path: path.to_owned(),
            line: None,
            what,
        };
        let report: Self = serde_json::from_str(&fs_err::read_to_string(path)?)
            .map_err(|error| malformed(error.to_string()))?;
        if report.format != FORMAT {
            return Err(malformed(format!(
                "the format is {:?}, not {FORMAT:?}",
                report.format
            )));
        }
        Ok(report)
    }
}

impl JudgementReport {
    fn new(judgement: &Judgement) -> Self {
        let (graded, scores) = (judgement.graded.as_ref(), &judgement.scores);
        // Queries of stored vectors and of other systems' runs may be without words.
        let has_words = scores.kind.direction == Direction::TextToAudio
            && scores.queries.iter().any(|query| !query.text.is_empty());
        Self {
            direction: scores.kind.direction.name().into(),
            by: scores.kind.relevance.clone(),
            cut: judgement.report.cut,
            queries: scores.queries.len(),
            left_out: judgement.left_out,
            mean: MeansReport::new(&judgement.report.mean, graded.map(|graded| graded.mean)),
            chance: MeansReport::new(&judgement.report.chance, graded.map(|graded| graded.chance)),
            median_rank: Some(judgement.report.median_rank).filter(|rank| rank.is_finite()),
            slices: has_words.then(|| SliceReport::all(&scores.queries)),
        }
    }
}

impl MeansReport {
    fn new(means: &MeanMetrics, ndcg: Option<f64>) -> Self {
        let ([recall_1, recall_5, recall_10], [hit_1, hit_5, hit_10]) = (means.recall, means.hit);
        Self {
            map: means.average_precision,
            mrr: means.reciprocal_rank,
            ndcg,
            recall_1,
            recall_5,
            recall_10,
            hit_1,
            hit_5,
            hit_10,
        }
    }
}

impl SliceReport {
    fn all(queries: &[ScoredQuery]) -> Vec<Self> {
        let slices = SLICES.iter().map(|slice| {
            let queries = queries.iter().filter(|query| slice.has(&query.text));
            let queries: Vec<&ScoredQuery> = queries.collect();
            let mean = |value: fn(&ScoredQuery) -> f64| {
                let sum: f64 = queries.iter().map(|query| value(query)).sum();
                (!queries.is_empty()).then(|| sum / queries.len() as f64)
            };
            Self {
                by: slice.by.into(),
                name: slice.name.into(),
                queries: queries.len(),
                map: mean(|query| query.found.average_precision),
                recall_10: mean(|query| query.found.recall[2]),
            }
        });
        slices.collect()
    }
}

impl Evaluation {
    /// Writes the report and the scored queries; with the collection, also runs and qrels of both directions and the
    /// predictions, in the order that was judged.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(
        &self,
        folder: &Path,
        report: &EvaluationReport,
        collection: Option<(&Collection, Options)>,
    ) -> Result<(), Error> {
        fs_err::create_dir_all(folder)?;
        write_with(&folder.join(REPORT), |file| {
            Ok(serde_json::to_writer_pretty(file, report)?)
        })?;
        for judgement in &self.judgements {
            judgement.scores.write(&folder.join(&judgement.file))?;
        }
        match collection {
            Some((collection, options)) => write_lists(folder, collection, options),
            None => Ok(()),
        }
    }
}

fn write_lists(folder: &Path, collection: &Collection, options: Options) -> Result<(), Error> {
    let (data, embedded) = (&collection.data, &collection.embedded);
    let (clips, captions) = (clip_ids(data), caption_ids(data));
    let captions: Vec<&str> = captions.iter().map(String::as_str).collect();
    let (clip_keys, caption_keys) = (keys(&clips, options.ties), keys(&captions, options.ties));
    let clip_rows = WithIds::new(Vectors::new(&embedded.clips, embedded.dim)?, &clip_keys)?;
    let caption_rows = WithIds::new(Vectors::new(&embedded.captions, embedded.dim)?, &caption_keys)?;
    let file = |direction: Direction, what: &str| folder.join(format!("{}.{what}.trec", direction.name()));

    let found = lists(caption_rows, clip_rows, LISTED, options, &no_progress)?;
    let direction = Direction::TextToAudio;
    write_run(&file(direction, "run"), &captions, &clips, &found)?;
    let relevant = data.pairs.iter().map(|pair| vec![clips[pair.clip]]);
    write_qrels(&file(direction, "qrels"), &captions, relevant)?;
    write_with(&folder.join(PREDICTIONS), |file| {
        let mut writer = csv::Writer::from_writer(file);
        let places = PREDICTED.min(data.clips.len());
        let names = (1..=places).map(|rank| format!("fname_{rank}"));
        writer.write_record(std::iter::once("caption".to_owned()).chain(names))?;
        for (query, pair) in data.pairs.iter().enumerate() {
            let best = found.of(query).take(places).map(|(clip, _)| clips[clip as usize]);
            writer.write_record(std::iter::once(pair.caption.as_str()).chain(best))?;
        }
        writer.flush()
    })?;

    let found = lists(clip_rows, caption_rows, LISTED, options, &no_progress)?;
    let direction = Direction::AudioToText;
    write_run(&file(direction, "run"), &clips, &captions, &found)?;
    let relevant = data.captions_by_clip();
    let relevant = relevant
        .iter()
        .map(|of_clip| of_clip.iter().map(|&nth| captions[nth]).collect());
    write_qrels(&file(direction, "qrels"), &clips, relevant)
}

fn write_run(path: &Path, queries: &[&str], items: &[&str], found: &Lists) -> Result<(), Error> {
    Ok(write_with(path, |file| {
        for (nth, query) in queries.iter().enumerate() {
            let list = found.of(nth).map(|(item, score)| (items[item as usize], score));
            trec::write_run(file, query, list, "hark")?;
        }
        Ok(())
    })?)
}

fn write_qrels<'a>(
    path: &Path,
    queries: &[&str],
    relevant: impl Iterator<Item = Vec<&'a str>>,
) -> Result<(), Error> {
    Ok(write_with(path, |file| {
        for (query, relevant) in queries.iter().zip(relevant) {
            trec::write_qrels(file, query, relevant.into_iter().map(|item| (item, 1.0)))?;
        }
        Ok(())
    })?)
}
