//! `hark eval`: a model and a split, stored vectors, or another system's results in; metrics out.

mod collection;
mod files;
mod show;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args as ClapArgs;
use hark_evaluate::retrieval::{caption_ids, caption_queries, clip_queries, retrieval_with, scored_queries};
use hark_evaluate::scored::{PAIRS, QueryInfo};
use hark_evaluate::{Direction, Kind, ScoredQueries, Truth, TruthSource};
use hark_metrics::trec;
use hark_metrics::{
    self as metrics, GradedReport, Options, Relevant, Report, Ties, WithIds, evaluate, evaluate_graded,
};
use hark_nearest::Vectors;

use self::collection::Collection;
use super::inputs::{ColumnArgs, ModelArgs, ThreadArgs, direction};
use super::renamed::{Renamed, renamed_to};
use crate::home::Home;

const EXAMPLES: &str = "Examples:
  hark eval runs/clotho-listnet-audio-1                             its own test split
  hark eval runs/clotho-listnet-audio-1 --data clotho:data/clotho --split evaluation -o results
  hark eval my-model --data audiocaps:data/audiocaps --json
  hark eval runs/soundscape-full-infonce-1 --truth scenes --truth computed
  hark eval my-model --data clotho:data/clotho --split validation --truth clotho_ratings_validation.csv --judged-only
  hark eval my-model --data clotho:data/clotho --truth multiple.csv --cutoff 16
  hark eval --vectors clips.npy captions.npy --captions clotho_captions_evaluation.csv
  hark eval --run system.trec --qrels truth.trec --ties trec

Every caption of the split is a query for clips, and every clip a query for captions. R@k is the share of the
relevant items among the first k, as in the paper; hit@k is 1 if any relevant item is among them, which others
often call recall. Ties are ordered by a hash of the names, not by position. -o DIR writes report.json, scored
queries for hark compare (text-to-audio.csv, audio-to-text.csv, and one of each for every --truth), TREC run files
(the first 1,000 items) and qrels of both directions, and predictions.csv in the format of the retrieval challenge
(each caption with its ten best clips).";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Args {
    /// Model: folder of a run or of a model, or a name from `hark models list`
    #[arg(required_unless_present_any = ["vectors", "run"], conflicts_with_all = ["vectors", "run"])]
    model: Option<String>,
    /// Dataset: clotho:DIR, audiocaps:DIR, table:FILE, folder:DIR, or a recipe [default: that of the model's run]
    #[arg(long, value_name = "KIND:PATH", conflicts_with_all = ["vectors", "run"])]
    data: Option<String>,
    /// Split of the dataset [default: evaluation for Clotho, test for AudioCaps and recipes]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["vectors", "run"])]
    split: Option<String>,
    /// Evaluate stored embeddings of clips and captions instead of a model (NumPy matrices)
    #[arg(long, num_args = 2, value_names = ["CLIPS.npy", "CAPTIONS.npy"])]
    vectors: Option<Vec<PathBuf>>,
    /// Captions of --vectors, in the order of the rows; clips are in order of first appearance
    #[arg(long, value_name = "FILE", requires = "vectors")]
    captions: Option<PathBuf>,
    #[command(flatten)]
    columns: ColumnArgs,
    /// Captions per clip of --vectors; captions of one clip are consecutive
    #[arg(long, value_name = "N", requires = "vectors", conflicts_with = "captions")]
    captions_per_clip: Option<NonZeroUsize>,
    /// Evaluate the results of any system instead of a model (TREC run file)
    #[arg(long, value_name = "FILE", requires = "qrels", conflicts_with = "vectors")]
    run: Option<PathBuf>,
    /// Relevance judgements for --run (TREC qrels file)
    #[arg(long, value_name = "FILE", requires = "run")]
    qrels: Option<PathBuf>,
    /// Direction of the queries of --run
    #[arg(long, value_name = "WAY", default_value = "text-to-audio", value_parser = direction(), requires = "run")]
    direction: Direction,
    /// Collection size of --run, for chance levels [default: items named in either file]
    #[arg(long, value_name = "N", requires = "run")]
    items: Option<usize>,
    /// Also score against graded relevance: `scenes` (soundscapes), `computed` or computed:FUNCTION (caption similarity), or a CSV file of ratings or annotations (repeatable)
    #[arg(long, value_name = "SOURCE", conflicts_with = "run")]
    truth: Vec<TruthSource>,
    /// With --truth: minimum gain of a relevant item; nDCG uses the gains themselves
    #[arg(long, value_name = "GAIN", default_value_t = 0.5, value_parser = gain, requires = "truth")]
    relevance_threshold: f64,
    /// With --truth: rank only the clips judged for the query
    #[arg(long, requires = "truth")]
    judged_only: bool,
    /// Skip queries without relevant items or results, like trec_eval [default: error]
    #[arg(long)]
    skip_unjudged: bool,
    /// Sentence encoder for --truth computed [default: caption-static, built in]
    #[arg(long, value_name = "NAME", requires = "truth")]
    sentence_encoder: Option<String>,
    /// The k of mAP@k and nDCG@k
    #[arg(long, value_name = "K", default_value = "10")]
    cutoff: NonZeroUsize,
    #[arg(long = "at", hide = true, num_args = 0..=1, default_missing_value = "", value_parser = renamed_to("--cutoff"))]
    _at: Option<Renamed>,
    #[arg(long = "relevant-from", hide = true, num_args = 0..=1, default_missing_value = "", value_parser = renamed_to("--relevance-threshold"))]
    _relevant_from: Option<Renamed>,
    #[arg(long = "partial", hide = true, num_args = 0..=1, default_missing_value = "", value_parser = renamed_to("--skip-unjudged"))]
    _partial: Option<Renamed>,
    /// Order of ties: by a hash of the names, or by descending id as trec_eval does
    #[arg(long, value_name = "HOW", default_value = "hash")]
    ties: TieOrder,
    /// Skip missing or unreadable recordings [default: error]
    #[arg(long, conflicts_with_all = ["vectors", "run"])]
    allow_missing: bool,
    /// Neither read nor write cached embeddings
    #[arg(long)]
    no_cache: bool,
    /// Folder for the report, scored queries, TREC files and predictions
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TieOrder {
    /// By a hash of the query's and the item's name
    Hash,
    /// As trec_eval: the item whose id is later in the alphabet first
    Trec,
}

fn gain(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(gain) if gain > 0.0 && gain <= 1.0 => Ok(gain),
        _ => Err("a gain is a number above 0 and at most 1".to_owned()),
    }
}

/// One direction, judged by one truth.
struct Judgement {
    /// Which way, and by what.
    scores: ScoredQueries,
    /// The file of its scored queries.
    file: String,
    report: Report,
    graded: Option<GradedReport>,
    /// Queries that were left out, having no relevant item.
    left_out: usize,
}

/// What an evaluation found.
struct Evaluation {
    title: String,
    clips: usize,
    captions: usize,
    judgements: Vec<Judgement>,
}

pub fn run(args: &Args) -> Result<()> {
    if let Some(folder) = &args.output {
        fs_err::create_dir_all(folder)?;
    }
    let home = Home::find()?;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(args.threads.count().get())
        .build()?;
    pool.install(|| {
        let (evaluation, collection) = evaluation(args, &home)?;
        if let Some(folder) = &args.output {
            files::write(folder, args, &evaluation, collection.as_ref())?;
        }
        show::print(args, &evaluation)
    })
}

fn evaluation(args: &Args, home: &Home) -> Result<(Evaluation, Option<Collection>)> {
    if let (Some(run), Some(qrels)) = (&args.run, &args.qrels) {
        return Ok((of_run(args, run, qrels)?, None));
    }
    let collection = match (args.vectors.as_deref(), &args.model) {
        (Some([clips, captions]), _) => Collection::of_vectors(args, clips, captions)?,
        (_, Some(model)) => Collection::of_model(args, home, model)?,
        _ => bail!("nothing to evaluate: give a model, --vectors or --run"),
    };
    let data = &collection.data;
    let retrieval = retrieval_with(data, &collection.embedded, options(args))?;
    let [there, back] = scored_queries(data, &retrieval, None);
    let of_pairs = |scores: ScoredQueries, report: Report| Judgement {
        file: scores.kind.direction.file(),
        scores,
        report,
        graded: None,
        left_out: 0,
    };
    let mut judgements = vec![
        of_pairs(there, retrieval.text_to_audio),
        of_pairs(back, retrieval.audio_to_text),
    ];
    for (nth, source) in args.truth.iter().enumerate() {
        if args.truth[..nth]
            .iter()
            .any(|other| other.name() == source.name())
        {
            bail!(
                "two --truth are called {}: their scored queries would be one file",
                source.name()
            );
        }
        let truth = truth(args, &collection, source)?;
        judgements.extend(judge(args, &collection, &truth, source)?);
    }
    let evaluation = Evaluation {
        title: collection.title.clone(),
        clips: data.clips.len(),
        captions: data.pairs.len(),
        judgements,
    };
    Ok((evaluation, Some(collection)))
}

fn options(args: &Args) -> Options {
    Options {
        cut: args.cutoff,
        threads: None,
        ties: match args.ties {
            TieOrder::Hash => Ties::default(),
            TieOrder::Trec => Ties::Keys,
        },
    }
}

fn truth(args: &Args, collection: &Collection, source: &TruthSource) -> Result<Truth> {
    let data = &collection.data;
    match source {
        TruthSource::Scenes => Ok(Truth::scenes(&collection.sets, data)?),
        TruthSource::File(path) => Ok(Truth::file(path, data)?),
        TruthSource::Computed(function) => {
            let texts: Vec<&str> = data.pairs.iter().map(|pair| pair.caption.as_str()).collect();
            let model = ModelArgs {
                model: args.sentence_encoder.clone(),
                no_cache: args.no_cache,
                threads: ThreadArgs {
                    threads: args.threads.threads,
                },
            };
            let vectors = model.embed(&texts)?;
            Ok(Truth::computed(data, vectors.view(), function)?)
        }
    }
}

/// The items with a gain that counts as relevant.
fn relevant(gains: &[(u32, f64)], from: f64) -> Vec<u32> {
    let relevant = gains.iter().filter(|&&(_, gain)| gain >= from);
    relevant.map(|&(item, _)| item).collect()
}

/// Both directions judged by a truth; from audio to text only where every pair was judged, as files judge clips for captions.
fn judge(
    args: &Args,
    collection: &Collection,
    truth: &Truth,
    source: &TruthSource,
) -> Result<Vec<Judgement>> {
    let data = &collection.data;
    let names = caption_queries(data);
    let mut kept = Vec::new();
    for (caption, gains) in truth.captions.iter().zip(&truth.gains) {
        if !relevant(gains, args.relevance_threshold).is_empty() {
            kept.push((*caption, gains.as_slice()));
        } else if !args.skip_unjudged {
            bail!(
                "{source}: the query {:?} ({:?}) has no clip with a gain of {} or more; --skip-unjudged skips such queries",
                names[*caption].id,
                names[*caption].text,
                args.relevance_threshold
            );
        }
    }
    ensure!(!kept.is_empty(), "{source}: no query has a relevant clip");
    let left_out = truth.captions.len() - kept.len();
    let names: Vec<QueryInfo> = kept.iter().map(|(caption, _)| names[*caption].clone()).collect();
    if args.judged_only {
        let is_rest = |(_, gains): &(usize, &[(u32, f64)])| {
            gains.iter().any(|&(_, gain)| gain < args.relevance_threshold)
        };
        ensure!(
            !source.is_complete() && kept.iter().any(is_rest),
            "{source}: --judged-only needs clips that were judged and found not relevant"
        );
        let (report, graded) = among_judged(args, collection, &kept, &names)?;
        let by = format!("{source}, judged clips only");
        return Ok(vec![judgement(
            args,
            (Direction::TextToAudio, by, format!("{}.judged", source.name())),
            (names, kept.iter().map(|(_, gains)| *gains)),
            (report, graded),
            left_out,
        )]);
    }
    let queries: Vec<usize> = kept.iter().map(|(caption, _)| *caption).collect();
    let lists: Vec<&[(u32, f64)]> = kept.iter().map(|(_, gains)| *gains).collect();
    let found = evaluate_gains(args, collection, Direction::TextToAudio, &queries, &lists)?;
    let titled = |direction| (direction, source.to_string(), source.name());
    let mut judgements = vec![judgement(
        args,
        titled(Direction::TextToAudio),
        (names, lists.into_iter()),
        found,
        left_out,
    )];
    if source.is_complete() {
        // The same gains, read from the clips' side. Clips that no caption is relevant to are no queries.
        let mut gains: Vec<Vec<(u32, f64)>> = vec![Vec::new(); data.clips.len()];
        for (caption, of_caption) in truth.captions.iter().zip(&truth.gains) {
            for &(clip, gain) in of_caption {
                gains[clip as usize].push((*caption as u32, gain));
            }
        }
        let is_query = |&clip: &usize| !relevant(&gains[clip], args.relevance_threshold).is_empty();
        let queries: Vec<usize> = (0..data.clips.len()).filter(is_query).collect();
        let lists: Vec<&[(u32, f64)]> = queries.iter().map(|&clip| gains[clip].as_slice()).collect();
        let all = clip_queries(data);
        let names = queries.iter().map(|&clip| all[clip].clone()).collect();
        let found = evaluate_gains(args, collection, Direction::AudioToText, &queries, &lists)?;
        let left_out = data.clips.len() - queries.len();
        let titled = titled(Direction::AudioToText);
        judgements.push(judgement(
            args,
            titled,
            (names, lists.into_iter()),
            found,
            left_out,
        ));
    }
    Ok(judgements)
}

/// A judgement by another truth than the pairs: which way, by what and the name of that; queries with their gains; what was found.
fn judgement<'a>(
    args: &Args,
    (direction, by, name): (Direction, String, String),
    (names, gains): (Vec<QueryInfo>, impl Iterator<Item = &'a [(u32, f64)]>),
    (report, graded): (Report, GradedReport),
    left_out: usize,
) -> Judgement {
    let kind = Kind {
        direction,
        relevance: format!("{by}, relevant from {}", args.relevance_threshold),
        gains: by,
    };
    let sizes = gains.map(|gains| relevant(gains, args.relevance_threshold).len());
    Judgement {
        scores: ScoredQueries::new(kind, names, sizes, &report, Some(&graded.queries)),
        file: format!("{}.{name}.csv", direction.name()),
        report,
        graded: Some(graded),
        left_out,
    }
}

/// Some queries of a split against all items of the other kind.
fn evaluate_gains(
    args: &Args,
    collection: &Collection,
    direction: Direction,
    queries: &[usize],
    gains: &[&[(u32, f64)]],
) -> Result<(Report, GradedReport)> {
    let (data, embedded) = (&collection.data, &collection.embedded);
    let dim = embedded.dim;
    let clips: Vec<String> = data.clips.iter().map(|clip| clip.id.clone()).collect();
    let clips = (clips, &embedded.clips);
    let captions = (caption_ids(data), &embedded.captions);
    let ((query_ids, query_rows), (item_ids, item_rows)) = match direction {
        Direction::TextToAudio => (captions, clips),
        Direction::AudioToText => (clips, captions),
    };
    let rows: Vec<f32> = queries
        .iter()
        .flat_map(|&row| &query_rows[row * dim..][..dim])
        .copied()
        .collect();
    let ids: Vec<String> = queries.iter().map(|&row| query_ids[row].clone()).collect();
    let (query_keys, item_keys) = (keys(&ids, args.ties), keys(&item_ids, args.ties));
    let asked = WithIds::new(Vectors::new(&rows, dim)?, &query_keys)?;
    let items = WithIds::new(Vectors::new(item_rows, dim)?, &item_keys)?;
    let lists = gains
        .iter()
        .map(|gains| relevant(gains, args.relevance_threshold));
    let lists = Relevant::new(lists, item_ids.len())?;
    let watch = &hark_work::progress::no_progress;
    let report = evaluate(asked, items, &lists, options(args), watch)?;
    let of_query = |query: usize, out: &mut Vec<(u32, f64)>| out.extend(gains[query]);
    Ok((
        report,
        evaluate_graded(asked, items, &of_query, options(args), watch)?,
    ))
}

/// Ranks for each query only the clips that were judged for it: each is an evaluation of its own, with its own chance.
fn among_judged(
    args: &Args,
    collection: &Collection,
    kept: &[(usize, &[(u32, f64)])],
    names: &[QueryInfo],
) -> Result<(Report, GradedReport)> {
    let (data, embedded) = (&collection.data, &collection.embedded);
    let dim = embedded.dim;
    let (mut reports, mut graded) = (Vec::new(), Vec::new());
    for ((caption, gains), named) in kept.iter().zip(names) {
        let judged = gains.iter().map(|&(clip, _)| clip as usize);
        let ids: Vec<String> = judged.clone().map(|clip| data.clips[clip].id.clone()).collect();
        let rows: Vec<f32> = judged
            .flat_map(|clip| &embedded.clips[clip * dim..][..dim])
            .copied()
            .collect();
        let clip_keys = keys(&ids, args.ties);
        let clips = WithIds::new(Vectors::new(&rows, dim)?, &clip_keys)?;
        let query_key = [metrics::tie_key(&named.id)];
        let query = WithIds::new(
            Vectors::new(&embedded.captions[caption * dim..][..dim], dim)?,
            &query_key,
        )?;
        let places = (0..).zip(gains.iter()).map(|(place, &(_, gain))| (place, gain));
        let places: Vec<(u32, f64)> = places.collect();
        let relevant = Relevant::new([relevant(&places, args.relevance_threshold)], places.len())?;
        let watch = &hark_work::progress::no_progress;
        reports.push(evaluate(query, clips, &relevant, options(args), watch)?);
        let of_query = |_: usize, out: &mut Vec<(u32, f64)>| out.extend(&places);
        graded.push(evaluate_graded(query, clips, &of_query, options(args), watch)?);
    }
    Ok((Report::joined(reports)?, GradedReport::joined(graded)?))
}

/// Any system's results.
fn of_run(args: &Args, run: &Path, qrels: &Path) -> Result<Evaluation> {
    let open = |path: &Path| -> Result<std::io::BufReader<fs_err::File>> {
        Ok(std::io::BufReader::new(fs_err::File::open(path)?))
    };
    let (found, truth) = (
        trec::Run::read(open(run)?, run)?,
        trec::Qrels::read(open(qrels)?, qrels)?,
    );
    let scored = trec::evaluate(
        &found,
        &truth,
        trec::Options {
            cut: args.cutoff,
            ties: options(args).ties,
            items: args.items,
            partial: args.skip_unjudged,
        },
    )
    .with_context(|| format!("{} against {}", run.display(), qrels.display()))?;
    // Names that hark has written are read back as they were; one rule for the whole file.
    let is_ours = scored
        .queries
        .iter()
        .all(|id| trec::escape(&trec::unescape(id)) == *id);
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
        direction: args.direction,
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
            file: args.direction.file(),
            report: scored.report,
            graded: Some(scored.graded),
            left_out: scored.left_out,
        }],
    })
}

/// Keys for the order of equal scores.
fn keys(ids: &[String], ties: TieOrder) -> Vec<u64> {
    match ties {
        TieOrder::Hash => ids.iter().map(|id| metrics::tie_key(id)).collect(),
        TieOrder::Trec => metrics::name_keys(ids),
    }
}
