//! `hark eval`: a model and a split, stored vectors, or another system's results in; metrics out.

mod show;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use clap::Args as ClapArgs;
use hark_evaluate::{
    CaptionOwners, Collection, Direction, Error, Evaluation, EvaluationReport, JudgeOptions, ModelOnSplit,
    Truth, TruthSource, judge, judge_run,
};
use hark_learn::sets::{self, Places};
use hark_metrics::{Options, Ties};
use hark_models::Model;

use super::inputs::{ColumnArgs, DeviceArgs, ModelArgs, ThreadArgs, direction};
use super::renamed::{Renamed, renamed_to};
use crate::home::{Home, with_tilde};
use crate::{output, progress};

const EXAMPLES: &str = "Examples:
  hark eval runs/clotho                  (its own test split)
  hark eval runs/clotho --data clotho:data/clotho --split evaluation -o results
  hark eval my-model --data clotho         (registered: hark data list)
  hark eval my-model --data audiocaps:data/audiocaps --json
  hark eval runs/soundscape-full-infonce-1 --truth scenes --truth computed
  hark eval my-model --data clotho:data/clotho --split validation \\
      --truth clotho_ratings_validation.csv --judged-only
  hark eval my-model --data clotho:data/clotho --truth multiple.csv --cutoff 16
  hark eval --vectors clips.npy captions.npy --captions captions.csv
  hark eval --run system.trec --qrels truth.trec --ties trec

Every caption of the split is a query for clips, and every clip a query for captions. R@k is the share of the \
relevant items among the first k, as in the paper; hit@k is 1 if any relevant item is among them, which others \
often call recall. Ties are ordered by a hash of the names, not by position. -o DIR writes report.json, scored \
queries for hark compare (text-to-audio.csv, audio-to-text.csv, and one of each for every --truth), TREC run files \
(the first 1,000 items) and qrels of both directions, and predictions.csv in the format of the retrieval challenge \
(each caption with its ten best clips).";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Args {
    /// Model: folder of a run or of a model, or a name from `hark models list`
    #[arg(required_unless_present_any = ["vectors", "run"], conflicts_with_all = ["vectors", "run"])]
    model: Option<String>,
    /// Dataset: clotho:DIR, audiocaps:DIR, table:FILE, folder:DIR, a name from `hark data list`, or a recipe [default: that of the model's run]
    #[arg(long, value_name = "DATASET", conflicts_with_all = ["vectors", "run"])]
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
    #[command(flatten)]
    device: DeviceArgs,
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

pub fn run(args: &Args) -> Result<()> {
    if let Some(folder) = &args.output {
        fs_err::create_dir_all(folder)?;
    }
    let home = Home::find()?;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(args.threads.count().get())
        .build()?;
    let (evaluation, collection) = pool.install(|| evaluate(args, &home))?;
    let options = options(args).metrics;
    let report = EvaluationReport {
        model: args.model.clone(),
        data: args.data.clone(),
        split: args.split.clone(),
        ..EvaluationReport::new(&evaluation, options.ties)
    };
    if let Some(folder) = &args.output {
        let lists = collection.as_ref().map(|collection| (collection, options));
        pool.install(|| evaluation.write(folder, &report, lists))?;
    }
    if args.json {
        return output::print_json(&report);
    }
    output::print(&show::table(&report))
}

fn evaluate(args: &Args, home: &Home) -> Result<(Evaluation, Option<Collection>)> {
    let options = options(args);
    if let (Some(run), Some(qrels)) = (&args.run, &args.qrels) {
        return Ok((judge_run(run, qrels, args.direction, args.items, &options)?, None));
    }
    let collection = match (args.vectors.as_deref(), &args.model) {
        (Some([clips, captions]), _) => Collection::read(clips, captions, owners(args)?)?,
        (_, Some(model)) => embed(args, home, model)?,
        _ => bail!("nothing to evaluate: give a model, --vectors or --run"),
    };
    let truths = args
        .truth
        .iter()
        .map(|source| Ok((source.clone(), truth(args, &collection, source)?)));
    let truths = truths.collect::<Result<Vec<_>>>()?;
    match judge(&collection, &truths, &options) {
        Err(error @ Error::NothingRelevant { .. }) => bail!("{error}; --skip-unjudged skips such queries"),
        Err(error @ Error::NothingIrrelevant { .. }) => bail!("{error}; omit --judged-only"),
        judged => Ok((judged?, Some(collection))),
    }
}

fn options(args: &Args) -> JudgeOptions {
    JudgeOptions {
        metrics: Options {
            cut: args.cutoff,
            threads: None,
            ties: match args.ties {
                TieOrder::Hash => Ties::default(),
                TieOrder::Trec => Ties::Keys,
            },
        },
        relevance_threshold: args.relevance_threshold,
        judged_only: args.judged_only,
        skip_unjudged: args.skip_unjudged,
    }
}

fn owners(args: &Args) -> Result<CaptionOwners> {
    match (&args.captions, args.captions_per_clip) {
        (Some(file), _) => Ok(CaptionOwners::File(args.columns.read(file)?, file.clone())),
        (None, Some(each)) => Ok(CaptionOwners::PerClip(each)),
        (None, None) => {
            bail!("--vectors needs --captions FILE or --captions-per-clip N, to match captions with clips")
        }
    }
}

fn embed(args: &Args, home: &Home, name: &str) -> Result<Collection> {
    let Model::Towers(model) = home.models().open(name)? else {
        bail!("{name} is a sentence encoder: it has no audio tower to evaluate");
    };
    let compute = args.device.compute(&args.threads)?;
    let bar = progress::items("generating soundscapes");
    let (soundscapes, watch) = (home.soundscapes(), |done, total| {
        progress::show(&bar, done, total)
    });
    let places = Places {
        soundscapes: &soundscapes,
        datasets: &home.datasets()?,
    };
    let data = args.data.as_deref().map(with_tilde);
    let (split, threads) = (args.split.as_deref(), compute.threads());
    let sets = sets::evaluated(data.as_deref(), split, model.folder(), (places, threads), &watch);
    bar.finish_and_clear();
    let sets = match sets {
        Err(error @ hark_learn::Error::NoDataNamed { .. }) => {
            bail!("{error}; name one with --data")
        }
        sets => sets?,
    };
    let cache = home.evaluations();
    let asked = ModelOnSplit {
        name,
        model: &model,
        sets: &sets,
        allow_missing: args.allow_missing,
        cache: (!args.no_cache).then_some(cache.as_path()),
        compute: &compute,
    };
    let display = show::Display::default();
    let embedded = Collection::embed(&asked, &|event| display.show(&event));
    display.clear();
    embedded.map_err(|error| match error {
        Error::NotComplete { .. } | Error::Unreadable { .. } => {
            anyhow!("{error}. hark data check says more; --allow-missing evaluates what is there")
        }
        other => other.into(),
    })
}

fn truth(args: &Args, collection: &Collection, source: &TruthSource) -> Result<Truth> {
    let data = &collection.data;
    Ok(match source {
        TruthSource::Scenes => Truth::scenes(&collection.sets, data)?,
        TruthSource::File(path) => Truth::file(path, data)?,
        TruthSource::Computed(function) => {
            let texts: Vec<&str> = data.pairs.iter().map(|pair| pair.caption.as_str()).collect();
            let model = ModelArgs {
                model: args.sentence_encoder.clone(),
                no_cache: args.no_cache,
                threads: ThreadArgs {
                    threads: args.threads.threads,
                },
            };
            Truth::computed(
                data,
                model.embed_as("--sentence-encoder", &texts)?.view(),
                function,
            )?
        }
    })
}
