//! A split with its embeddings, or another system's run, in; its metrics by every truth that was asked for out.

use std::path::Path;

use hark_metrics::{
    GradedReport, Options, Relevant, Report, WithIds, evaluate as rank, evaluate_graded, trec,
};
use hark_nearest::Vectors;
use hark_work::progress::no_progress;

use crate::collection::Collection;
use crate::retrieval::{caption_queries, clip_queries, keys, retrieval_with, scored_queries};
use crate::scored::{PAIRS, QueryInfo};
use crate::{Direction, Error, Kind, ScoredQueries, Truth, TruthSource};

/// How to judge.
#[derive(Debug, Clone, Copy)]
pub struct JudgeOptions {
    /// The cutoff, and the order of equal scores.
    pub metrics: Options,
    /// The least gain of a relevant item; nDCG uses the gains themselves.
    pub relevance_threshold: f64,
    /// Rank only the clips that were judged for a query.
    pub judged_only: bool,
    /// Leave out queries without a relevant item instead of refusing them.
    pub skip_unjudged: bool,
}

impl Default for JudgeOptions {
    fn default() -> Self {
        Self {
            metrics: Options::default(),
            relevance_threshold: 0.5,
            judged_only: false,
            skip_unjudged: false,
        }
    }
}

/// One direction, judged by one truth.
#[derive(Debug, Clone)]
pub struct Judgement {
    /// Direction, truth, and the metrics of each query.
    pub scores: ScoredQueries,
    /// The name of their file.
    pub file: String,
    /// The metrics of all queries.
    pub report: Report,
    /// nDCG, where relevance is graded.
    pub graded: Option<GradedReport>,
    /// Queries that were left out because nothing is relevant to them.
    pub left_out: usize,
}

/// What an evaluation found.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// What was evaluated.
    pub title: String,
    /// Clips of the split; 0 for another system's run.
    pub clips: usize,
    /// Captions of the split, or queries of the run.
    pub captions: usize,
    /// Both directions by the annotated pairs, then by each other truth; one direction for a run.
    pub judgements: Vec<Judgement>,
}

/// Judges embeddings by the annotated pairs and by other truths.
///
/// # Errors
/// [`Error::SameName`] for two truths of one name, [`Error::NothingRelevant`] unless such queries are skipped, and if
/// embeddings or truths do not belong to the split.
pub fn judge(
    collection: &Collection,
    truths: &[(TruthSource, Truth)],
    options: &JudgeOptions,
) -> Result<Evaluation, Error> {
    let data = &collection.data;
    let found = retrieval_with(data, &collection.embedded, options.metrics)?;
    let [there, back] = scored_queries(data, &found, None);
    let by_pairs = |scores: ScoredQueries, report: Report| Judgement {
        file: scores.kind.direction.file(),
        scores,
        report,
        graded: None,
        left_out: 0,
    };
    let mut judgements = vec![
        by_pairs(there, found.text_to_audio),
        by_pairs(back, found.audio_to_text),
    ];
    for (nth, (source, truth)) in truths.iter().enumerate() {
        let name = source.name();
        if truths[..nth].iter().any(|(other, _)| other.name() == name) {
            return Err(Error::SameName { name });
        }
        let judge = Judge {
            collection,
            source,
            options,
        };
        judgements.extend(judge.by(truth)?);
    }
    Ok(Evaluation {
        title: collection.title.clone(),
        clips: data.clips.len(),
        captions: data.pairs.len(),
        judgements,
    })
}

/// Gains of items for one query.
type Gains = [(u32, f64)];

/// One truth other than the pairs.
struct Judge<'a> {
    collection: &'a Collection,
    source: &'a TruthSource,
    options: &'a JudgeOptions,
}

impl Judge<'_> {
    /// Both directions; audio to text only where every pair is judged, because files judge clips for captions.
    fn by(&self, truth: &Truth) -> Result<Vec<Judgement>, Error> {
        let kept = self.judged(truth)?;
        let left_out = truth.captions.len() - kept.len();
        if self.options.judged_only {
            return Ok(vec![self.among_judged(&kept, left_out)?]);
        }
        let mut judgements = vec![self.direction(Direction::TextToAudio, &kept, left_out)?];
        if self.source.is_complete() {
            // The same gains, from the clips' side. Clips that no caption is relevant to are no queries.
            let clips = self.collection.data.clips.len();
            let mut gains: Vec<Vec<(u32, f64)>> = vec![Vec::new(); clips];
            for (caption, of_caption) in truth.captions.iter().zip(&truth.gains) {
                for &(clip, gain) in of_caption {
                    gains[clip as usize].push((*caption as u32, gain));
                }
            }
            let queries = gains.iter().map(Vec::as_slice).enumerate();
            let queries: Vec<(usize, &Gains)> = queries
                .filter(|(_, gains)| !self.relevant(gains).is_empty())
                .collect();
            judgements.push(self.direction(Direction::AudioToText, &queries, clips - queries.len())?);
        }
        Ok(judgements)
    }

    /// The captions that something is relevant to, with their gains.
    fn judged<'a>(&self, truth: &'a Truth) -> Result<Vec<(usize, &'a Gains)>, Error> {
        let mut kept = Vec::new();
        for (&caption, gains) in truth.captions.iter().zip(&truth.gains) {
            if !self.relevant(gains).is_empty() {
                kept.push((caption, gains.as_slice()));
            } else if !self.options.skip_unjudged {
                let query = caption_queries(&self.collection.data).swap_remove(caption);
                return Err(Error::NothingRelevant {
                    truth: self.source.to_string(),
                    id: query.id,
                    text: query.text,
                    threshold: self.options.relevance_threshold,
                });
            }
        }
        if kept.is_empty() {
            return Err(Error::NoQueries {
                truth: self.source.to_string(),
            });
        }
        Ok(kept)
    }

    /// The items with a gain that counts as relevant.
    fn relevant(&self, gains: &Gains) -> Vec<u32> {
        let relevant = gains
            .iter()
            .filter(|&&(_, gain)| gain >= self.options.relevance_threshold);
        relevant.map(|&(item, _)| item).collect()
    }

    /// Some queries of a split against all items of the other kind.
    fn direction(
        &self,
        direction: Direction,
        queries: &[(usize, &Gains)],
        left_out: usize,
    ) -> Result<Judgement, Error> {
        let (data, embedded) = (&self.collection.data, &self.collection.embedded);
        let (dim, options) = (embedded.dim, self.options.metrics);
        let clips = (clip_queries(data), &embedded.clips);
        let captions = (caption_queries(data), &embedded.captions);
        let ((names, query_rows), (items, item_rows)) = match direction {
            Direction::TextToAudio => (captions, clips),
            Direction::AudioToText => (clips, captions),
        };
        let rows = queries
            .iter()
            .flat_map(|&(row, _)| &query_rows[row * dim..][..dim]);
        let rows: Vec<f32> = rows.copied().collect();
        let names: Vec<QueryInfo> = queries.iter().map(|&(row, _)| names[row].clone()).collect();
        let ids: Vec<&str> = names.iter().map(|name| name.id.as_str()).collect();
        let item_ids: Vec<&str> = items.iter().map(|item| item.id.as_str()).collect();
        let (query_keys, item_keys) = (keys(&ids, options.ties), keys(&item_ids, options.ties));
        let asked = WithIds::new(Vectors::new(&rows, dim)?, &query_keys)?;
        let items = WithIds::new(Vectors::new(item_rows, dim)?, &item_keys)?;
        let lists = queries.iter().map(|(_, gains)| self.relevant(gains));
        let lists = Relevant::new(lists, item_ids.len())?;
        let report = rank(asked, items, &lists, options, &no_progress)?;
        let of_query = |query: usize, out: &mut Vec<(u32, f64)>| out.extend(queries[query].1);
        let graded = evaluate_graded(asked, items, &of_query, options, &no_progress)?;
        let by = self.source.to_string();
        Ok(self.judgement(
            (direction, by, self.source.name()),
            names,
            queries,
            (report, graded),
            left_out,
        ))
    }

    /// Ranks for each query only the clips that were judged for it: each is an evaluation of its own, with its own chance.
    fn among_judged(&self, kept: &[(usize, &Gains)], left_out: usize) -> Result<Judgement, Error> {
        let is_rest = |&(_, gains): &(usize, &Gains)| self.relevant(gains).len() < gains.len();
        if self.source.is_complete() || !kept.iter().any(is_rest) {
            return Err(Error::NothingIrrelevant {
                truth: self.source.to_string(),
            });
        }
        let (data, embedded) = (&self.collection.data, &self.collection.embedded);
        let (dim, options) = (embedded.dim, self.options.metrics);
        let names = caption_queries(data);
        let names: Vec<QueryInfo> = kept.iter().map(|(caption, _)| names[*caption].clone()).collect();
        let (mut reports, mut graded) = (Vec::new(), Vec::new());
        for ((caption, gains), named) in kept.iter().zip(&names) {
            let judged = gains.iter().map(|&(clip, _)| clip as usize);
            let ids: Vec<&str> = judged.clone().map(|clip| data.clips[clip].id.as_str()).collect();
            let rows = judged.flat_map(|clip| &embedded.clips[clip * dim..][..dim]);
            let rows: Vec<f32> = rows.copied().collect();
            let clip_keys = keys(&ids, options.ties);
            let clips = WithIds::new(Vectors::new(&rows, dim)?, &clip_keys)?;
            let query_key = [hark_metrics::tie_key(&named.id)];
            let row = Vectors::new(&embedded.captions[caption * dim..][..dim], dim)?;
            let query = WithIds::new(row, &query_key)?;
            let places = (0..).zip(gains.iter()).map(|(place, &(_, gain))| (place, gain));
            let places: Vec<(u32, f64)> = places.collect();
            let relevant = Relevant::new([self.relevant(&places)], places.len())?;
            reports.push(rank(query, clips, &relevant, options, &no_progress)?);
            let of_query = |_: usize, out: &mut Vec<(u32, f64)>| out.extend(&places);
            graded.push(evaluate_graded(query, clips, &of_query, options, &no_progress)?);
        }
        let found = (Report::joined(reports)?, GradedReport::joined(graded)?);
        let by = format!("{}, judged clips only", self.source);
        let name = format!("{}.judged", self.source.name());
        Ok(self.judgement((Direction::TextToAudio, by, name), names, kept, found, left_out))
    }

    /// What was found, with the direction, the truth, and the truth's part of the file name.
    fn judgement(
        &self,
        (direction, by, name): (Direction, String, String),
        names: Vec<QueryInfo>,
        queries: &[(usize, &Gains)],
        (report, graded): (Report, GradedReport),
        left_out: usize,
    ) -> Judgement {
        let kind = Kind {
            direction,
            relevance: format!("{by}, relevant from {}", self.options.relevance_threshold),
            gains: by,
        };
        let sizes = queries.iter().map(|(_, gains)| self.relevant(gains).len());
        Judgement {
            scores: ScoredQueries::new(kind, names, sizes, &report, Some(&graded.queries)),
            file: format!("{}.{name}.csv", direction.name()),
            report,
            graded: Some(graded),
            left_out,
        }
    }
}

/// Judges a run of any system by a qrels file, both in TREC's formats. `items` is the size of the collection, for chance
/// levels; without it, the items that either file names are counted.
///
/// # Errors
/// If a file cannot be read, or the two do not fit together.
pub fn judge_run(
    run: &Path,
    qrels: &Path,
    direction: Direction,
    items: Option<usize>,
    options: &JudgeOptions,
) -> Result<Evaluation, Error> {
    let open = |path: &Path| fs_err::File::open(path).map(std::io::BufReader::new);
    let found = trec::Run::read(open(run)?, run)?;
    let truth = trec::Qrels::read(open(qrels)?, qrels)?;
    let trec_options = trec::Options {
        cut: options.metrics.cut,
        ties: options.metrics.ties,
        items,
        partial: options.skip_unjudged,
    };
    let scored = trec::evaluate(&found, &truth, trec_options).map_err(|source| Error::Run {
        run: run.to_owned(),
        qrels: qrels.to_owned(),
        source: Box::new(source),
    })?;
    // Names that hark has written are read back as they were; one rule for the whole file.
    let is_ours = |id: &String| trec::escape(&trec::unescape(id)) == *id;
    let is_ours = scored.queries.iter().all(is_ours);
    let names = scored.queries.iter().map(|id| {
        let id = if is_ours {
            trec::unescape(id).into_owned()
        } else {
            id.clone()
        };
        QueryInfo {
            // Captions of one clip are named after it.
            clip: match id.rsplit_once('#') {
                Some((clip, number)) if number.parse::<u64>().is_ok() => clip.to_owned(),
                _ => id.clone(),
            },
            text: String::new(),
            id,
        }
    });
    let by = qrels.display().to_string();
    let kind = Kind {
        direction,
        // Judgements without grades are what pairs are.
        relevance: if scored.is_graded {
            by.clone()
        } else {
            PAIRS.to_owned()
        },
        gains: by,
    };
    let relevant = scored.relevant.iter().copied();
    let ndcg = Some(scored.graded.queries.as_slice());
    Ok(Evaluation {
        title: format!("{} by {}", run.display(), qrels.display()),
        clips: 0,
        captions: scored.queries.len(),
        judgements: vec![Judgement {
            scores: ScoredQueries::new(kind, names.collect(), relevant, &scored.report, ndcg),
            file: direction.file(),
            report: scored.report,
            graded: Some(scored.graded),
            left_out: scored.left_out,
        }],
    })
}
