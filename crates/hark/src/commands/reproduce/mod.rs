//! `hark reproduce`: a recipe, methods and seeds in; tables, tests, curves and a page out.

mod gather;
mod plan;
mod work;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use hark_learn::objective::ObjectiveKind;
use hark_learn::recipe::Recipe;
use hark_learn::run::Run;
use serde_json::json;

use self::plan::{Plan, Wishes};
use self::work::{Keep, Spread};
use super::inputs::ThreadArgs;
use super::train::with_soundscapes;
use crate::home::Home;
use crate::{output, progress};
use hark_evaluate::Direction;
use hark_study::{Study, comparisons, page, plots, tables};

const EXAMPLES: &str = "Examples:
  hark reproduce recipes/soundscape-full.toml
  hark reproduce recipes/clotho.toml --folder studies/clotho
  hark reproduce recipes/clotho.toml --methods infonce,listnet-audio --seeds 3
  hark reproduce recipes/soundscape-full.toml --functions logistic,minmax,steep --seeds 3
  hark reproduce recipes/soundscape-full.toml --omega 0.02,0.05,0.1,0.2 --seeds 3

Every training is a run in FOLDER/METHOD[/corpus-N]/seed-N. Stop it at any moment, even by kill -9: the same
command goes on and ends with the same tables. Raise --seeds, --corpora or --methods later, and only what
is new is trained. In FOLDER: report.html (everything), report.md, table.md, table.tex, table.csv, runs.csv,
tests.md, curves.svg, text-to-audio.svg, audio-to-text.svg, study.toml. Where the data are Clotho or AudioCaps
the paper's figures stand beside these. hark compare takes the methods' folders for any other question.";

/// What a study was begun with.
const STUDY: &str = "study.toml";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The recipe, a TOML file; its table `study` says what is repeated
    recipe: PathBuf,
    /// The objectives, separated by commas [default: of the recipe, else the paper's four]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    methods: Vec<ObjectiveKind>,
    /// Instead: graded methods with these relevance functions, separated by commas
    #[arg(long, value_name = "FUNCTIONS", value_delimiter = ',')]
    functions: Vec<String>,
    /// Instead: graded methods with these temperatures of the targets, separated by commas
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    omega: Vec<f32>,
    /// Trainings of each method [default: of the recipe, else 5]
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Soundscapes of so many seeds [default: of the recipe, else 1]
    #[arg(long, alias = "corpus-seeds", value_name = "N")]
    corpora: Option<u64>,
    /// Trainings side by side [default: one for each thread where both towers begin from nothing, else 1]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// The method that others are compared with [default: infonce, or the recipe's own function and omega]
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// Where everything goes [default: studies/NAME]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Change a key of the recipe, such as training.epochs=3; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Go on although test recordings are missing; figures over fewer clips are not comparable
    #[arg(long)]
    allow_missing: bool,
    /// What stays of a training when it is done
    #[arg(long, value_name = "WHAT", default_value = "best")]
    keep: Keep,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let home = Home::find()?;
    let wishes = Wishes {
        methods: args.methods.clone(),
        functions: args.functions.clone(),
        omegas: args.omega.clone(),
        seeds: args.seeds,
        corpora: args.corpora,
    };
    let (plan, folder) = Plan::new(&args.recipe, &args.set, &wishes, args.folder.as_deref())?;
    let baseline = plan.baseline(args.baseline.as_deref())?;
    // A recipe that one of the trainings could not have is told before the first begins.
    for job in &plan.jobs {
        plan.recipe(job)?;
    }
    let _lock = Run::at(&folder)?.lock()?;
    begin(&folder, &plan.base)?;
    if !args.allow_missing {
        refuse_missing(&plan)?;
    }
    let threads = args.threads.count().get();
    for job in plan.jobs.iter().filter(|job| job.seed == 1 && job.variant == 0) {
        with_soundscapes(plan.recipe(job)?, &home.soundscapes(), threads)?;
    }
    let jobs = args
        .jobs
        .map_or_else(|| default_jobs(&plan, threads), NonZeroUsize::get);
    let jobs = jobs.min(plan.jobs.len());
    let spread = Spread {
        jobs,
        threads_each: (threads / jobs).max(1),
        keep: args.keep,
    };
    work::run(&plan, &home, spread)?;
    if progress::stopped() {
        bail!("stopped; the same command goes on");
    }
    let study = gather::study(&plan, baseline)?;
    write(&folder, &study)?;
    if args.json {
        return output::print_json(&as_json(&folder, &study));
    }
    output::print(&format!(
        "{}\n{}",
        tables::markdown(&study),
        comparisons::tests_markdown(&study)
    ))?;
    eprintln!("the whole report is {}", folder.join("report.html").display());
    Ok(())
}

/// Large towers take the memory of one training and all threads.
fn default_jobs(plan: &Plan, threads: usize) -> usize {
    let recipe = &plan.base;
    let begins_from_nothing = recipe.training.init_from.is_none()
        && recipe.audio.as_ref().is_some_and(|side| side.weights.is_none())
        && recipe.text.as_ref().is_some_and(|side| side.weights.is_none());
    if begins_from_nothing { threads } else { 1 }
}

/// That the test recordings are there, before anything is trained.
fn refuse_missing(plan: &Plan) -> Result<()> {
    for set in &plan.base.data.test {
        let state = set.completeness()?;
        if state.found < state.expected {
            bail!(
                "{} of {} recordings of {} are missing: figures over fewer clips are not comparable. hark data check says more; \
                 --allow-missing goes on without them",
                output::group_digits(state.expected - state.found),
                output::group_digits(state.expected),
                set.name()
            );
        }
    }
    Ok(())
}

/// Marks the folder as this recipe's study; that of another recipe is refused.
fn begin(folder: &Path, recipe: &Recipe) -> Result<()> {
    let mut recipe = recipe.clone();
    recipe.study = None;
    let text = recipe.to_toml()?;
    let path = folder.join(STUDY);
    if !path.exists() {
        return output::write_whole(&path, |file| {
            Ok(std::io::Write::write_all(file, text.as_bytes())?)
        });
    }
    if fs_err::read_to_string(&path)? != text {
        bail!(
            "{} is a study of another recipe (its {STUDY} differs from {} with these changes); choose another --folder",
            folder.display(),
            recipe.name
        );
    }
    Ok(())
}

/// Writes all that the study is shown by.
fn write(folder: &Path, study: &Study) -> Result<()> {
    let files = [
        ("table.md", tables::markdown(study)),
        ("table.tex", tables::latex(study)),
        ("table.csv", tables::csv(study)),
        ("runs.csv", tables::runs_csv(study)),
        ("tests.md", comparisons::tests_markdown(study)),
        ("curves.svg", plots::curves(study)?),
        (
            "text-to-audio.svg",
            plots::methods(study, Direction::TextToAudio)?,
        ),
        (
            "audio-to-text.svg",
            plots::methods(study, Direction::AudioToText)?,
        ),
        ("report.md", page::markdown_report(study)),
        ("report.html", page::html(study)?),
    ];
    for (name, content) in files {
        output::write_whole(&folder.join(name), |file| {
            Ok(std::io::Write::write_all(file, content.as_bytes())?)
        })?;
    }
    Ok(())
}

fn as_json(folder: &Path, study: &Study) -> serde_json::Value {
    let figures = |figures: &hark_study::results::DirectionMetrics| json!({"map_10": figures.map, "recall_1": figures.recall[0], "recall_5": figures.recall[1], "recall_10": figures.recall[2]});
    let methods = study.methods.iter().map(|method| {
        let runs = method.runs.iter().map(|run| {
            json!({
                "corpus": run.corpus, "seed": run.seed, "best_epoch": run.best_epoch, "ndcg_10": run.ndcg,
                "text_to_audio": figures(&run.text_to_audio), "audio_to_text": figures(&run.audio_to_text),
            })
        });
        json!({"method": method.name, "title": method.title, "runs": runs.collect::<Vec<_>>()})
    });
    let comparisons = study.comparisons.iter().map(|comparison| {
        json!({
            "first": comparison.first, "second": comparison.second, "direction": comparison.direction,
            "metric": comparison.metric, "tests": comparison.tests,
        })
    });
    json!({
        "folder": folder, "report": folder.join("report.html"), "data": study.data,
        "methods": methods.collect::<Vec<_>>(), "comparisons": comparisons.collect::<Vec<_>>(),
        "provenance": study.provenance.iter().map(|(what, value)| json!({"what": what, "value": value})).collect::<Vec<_>>(),
    })
}
