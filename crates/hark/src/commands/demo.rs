//! `hark demo`: the whole story on soundscapes, with nothing but this program.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args as ClapArgs;
use hark_catalogue::{Query, SqliteStore, Store, search};
use hark_encode::Compute;
use hark_encode::model::TextEncoder;
use hark_evaluate::Truth as Scenes;
use hark_learn::metrics_log::LoggedMetrics;
use hark_learn::objective::ObjectiveKind;
use hark_learn::recipe::Recipe;
use hark_learn::run;
use hark_learn::trainer::SplitResult;
use hark_library::{IndexOptions, Library, LibraryModel, OpenOptions, Setup};
use hark_metrics::significance::{PairedTest, paired_t_test};
use hark_metrics::{GradedReport, Report};
use hark_soundscape::{Split, Truth};
use serde_json::json;

use super::index::IndexDisplay;
use super::inputs::ThreadArgs;
use super::train::{Training, generate_soundscapes};
use crate::home::Home;
use crate::{output, progress};

const EXAMPLES: &str = "Examples:
  hark demo
  hark demo --folder /tmp/hark-demo --json

Makes soundscapes (short recordings whose truth is known), trains the same small dual encoder on them twice,
with hard pairs (InfoNCE) and with graded relevance (ListNet, lists over clips), compares the two on clips
that neither has heard, indexes these clips as a library and puts three queries to it. Nothing is downloaded. All that it makes is in one
folder; run it again and what is there is used.";

/// The recipe, as it stands in the repository.
const RECIPE: &str = include_str!("../../../../recipes/soundscape-quick.toml");
const METHODS: [ObjectiveKind; 2] = [ObjectiveKind::Infonce, ObjectiveKind::ListnetAudio];
/// Hits that are shown for a query.
const HITS: usize = 3;

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where everything goes
    #[arg(long, value_name = "DIR", default_value = "hark-demo")]
    folder: PathBuf,
    /// Change a key of the recipe, such as training.epochs=3; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One method's results.
struct Method {
    name: ObjectiveKind,
    run: PathBuf,
    judged: SplitResult,
    graded: GradedReport,
    took: Duration,
}

pub fn run(args: &Args) -> Result<()> {
    let home = Home::find()?;
    let recipe = Recipe::parse(RECIPE, Path::new("recipes/soundscape-quick.toml"), &args.set)?;
    if args
        .set
        .iter()
        .any(|change| change.trim_start().starts_with("objective.name"))
    {
        bail!("the demo trains with two objectives of its own; hark train takes any");
    }
    let config = recipe
        .soundscapes
        .clone()
        .context("the recipe makes no soundscapes")?;
    let threads = args.threads.count().get();
    fs_err::create_dir_all(&args.folder)?;
    eprintln!("everything is made in {}", args.folder.display());

    let begun = Instant::now();
    let sounds = args.folder.join("soundscapes");
    let made = generate_soundscapes(&config, &sounds, threads)?;
    eprintln!(
        "1. {} soundscapes of {} s with {} captions, {}: {}",
        output::group_digits(made.clips.iter().sum::<usize>()),
        config.seconds,
        output::group_digits(made.captions.iter().sum::<usize>()),
        if made.reused { "made before" } else { "made now" },
        seconds(begun.elapsed()),
    );
    let truth = Truth::read(&sounds, Split::Test)?;

    let mut methods = Vec::new();
    for (nth, name) in METHODS.into_iter().enumerate() {
        let mut recipe = recipe.clone().with_soundscapes_at(&sounds);
        recipe.objective.name = name;
        let run = args.folder.join(name.to_string());
        let begun = Instant::now();
        let before = run.join(run::REPORT).exists();
        let training = Training {
            recipe,
            run: &run,
            resume: run.join(run::RECIPE).exists(),
            workers: threads,
            threads,
            label: &name.to_string(),
            cache: args.folder.join("cache"),
        };
        let outcome = training.run(&home)?;
        let judged = outcome.test.context("the recipe has no test split")?;
        let took = begun.elapsed();
        eprintln!(
            "{}. {} {} on {} clips, {} epochs, best {}: {}",
            nth + 2,
            if before { "trained before:" } else { "trained" },
            title(name),
            output::group_digits(made.clips[0]),
            outcome.recipe.training.epochs,
            outcome.best.epoch + 1,
            seconds(took),
        );
        methods.push(Method {
            name,
            graded: Scenes::of_scenes(&truth, &judged.data)?.graded(&judged.data, &judged.embedded)?,
            run,
            judged,
            took,
        });
    }

    let test = paired_t_test(&average_precisions(&methods[1]), &average_precisions(&methods[0]))?;
    let begun = Instant::now();
    let library = library(args, &home, &methods[1], threads)?;
    eprintln!(
        "{}. a library of {} test clips, indexed with the graded model: {}",
        METHODS.len() + 2,
        output::group_digits(library.store().overview()?.files),
        seconds(begun.elapsed())
    );
    let answers = answers(&methods[1], &truth, &**library.store(), threads)?;
    if args.json {
        return output::print_json(&json!({
            "folder": args.folder,
            "methods": methods.iter().map(as_json).collect::<Vec<_>>(),
            "paired_t_test": {
                "t": test.t, "degrees_of_freedom": test.degrees_of_freedom, "p": test.p,
                "mean_difference": test.mean_difference, "interval_95": [test.interval_95.0, test.interval_95.1],
            },
            "queries": answers.iter().map(Answer::json).collect::<Vec<_>>(),
        }));
    }
    let mut text = table(&methods);
    text.push_str(&verdict(&test));
    for answer in &answers {
        text.push_str(&answer.text());
    }
    write!(
        text,
        "\nThe models are {} and {}. Search sounds with one, in a browser too:\n  hark index {} --model {}\n  hark search 'a dog barks'\n  hark serve\n",
        methods[0].run.join(run::BEST).display(),
        methods[1].run.join(run::BEST).display(),
        sounds.display(),
        methods[1].run.join(run::BEST).display(),
    )?;
    output::print(&text)
}

fn seconds(time: Duration) -> String {
    format!("{:.0} s", time.as_secs_f64())
}

fn title(name: ObjectiveKind) -> &'static str {
    match name {
        ObjectiveKind::Infonce => "InfoNCE (hard pairs)",
        _ => "ListNet audio (graded)",
    }
}

fn average_precisions(method: &Method) -> Vec<f64> {
    let queries = &method.judged.retrieval.text_to_audio.queries;
    queries.iter().map(|query| query.average_precision).collect()
}

fn table(methods: &[Method]) -> String {
    let mut text = String::from("\nOn test clips, whose scenes neither model has heard, in percent:\n\n");
    let titles = [
        "mAP@10", "R@1", "R@5", "R@10", "nDCG@10", "mAP@10", "R@1", "R@5", "R@10",
    ];
    let titles: String = titles.iter().map(|title| format!("{title:>8}")).collect();
    text.push_str(&format!(
        "{:25}{:>40}{:>32}\n{:25}{titles}\n",
        "", "text to audio", "audio to text", ""
    ));
    let row = |name: &str, there: [f64; 5], back: [f64; 4]| {
        let values = there.into_iter().chain(back);
        let values: String = values.map(|value| format!("{:>8.1}", 100.0 * value)).collect();
        format!("{name:<25}{values}\n")
    };
    let row_of =
        |name: &str, there: &hark_metrics::MeanMetrics, ndcg: f64, back: &hark_metrics::MeanMetrics| {
            let [r1, r5, r10] = there.recall;
            let [b1, b5, b10] = back.recall;
            row(
                name,
                [there.average_precision, r1, r5, r10, ndcg],
                [back.average_precision, b1, b5, b10],
            )
        };
    for method in methods {
        let (there, back) = directions(method);
        text.push_str(&row_of(
            title(method.name),
            &there.mean,
            method.graded.mean,
            &back.mean,
        ));
    }
    if let Some(method) = methods.first() {
        let (there, back) = directions(method);
        text.push_str(&row_of(
            "chance",
            &there.chance,
            method.graded.chance,
            &back.chance,
        ));
    }
    text
}

fn directions(method: &Method) -> (&Report, &Report) {
    let retrieval = &method.judged.retrieval;
    (&retrieval.text_to_audio, &retrieval.audio_to_text)
}

fn verdict(test: &PairedTest) -> String {
    let points = |value: f64| format!("{:+.1}", 100.0 * value);
    let which = if test.p >= 0.05 {
        "no significant difference between the two"
    } else if test.mean_difference > 0.0 {
        "graded relevance is better"
    } else {
        "hard pairs are better"
    };
    format!(
        "\nText to audio, mAP@10, ListNet audio against InfoNCE over {} queries: {} points (95% interval {} to {}),\n\
         paired t({}) = {:.3}, p = {:.2e}: {which}. One training each: `seed` changes the figures.\n",
        test.n,
        points(test.mean_difference),
        points(test.interval_95.0),
        points(test.interval_95.1),
        test.degrees_of_freedom,
        test.t,
        test.p,
    )
}

/// A query and what was found for it.
struct Answer {
    query: String,
    hits: Vec<Found>,
    /// Clips of which everything that the query says is true.
    fitting: usize,
}

struct Found {
    clip: String,
    score: f32,
    relevance: f32,
    caption: String,
}

impl Answer {
    fn text(&self) -> String {
        let mut text = format!(
            "\n\"{}\" is fully true of {} test clips. Found:\n",
            self.query,
            output::group_digits(self.fitting)
        );
        for hit in &self.hits {
            text.push_str(&format!(
                "  {:.3}  {}  true relevance {:.2}: \"{}\"\n",
                hit.score, hit.clip, hit.relevance, hit.caption
            ));
        }
        text
    }

    fn json(&self) -> serde_json::Value {
        let hits = self.hits.iter().map(|hit| {
            json!({"clip": hit.clip, "score": hit.score, "true_relevance": hit.relevance, "caption": hit.caption})
        });
        json!({"query": self.query, "fully_relevant_clips": self.fitting, "hits": hits.collect::<Vec<_>>()})
    }
}

/// The test clips as a library, as `hark index` makes it.
fn library(args: &Args, home: &Home, method: &Method, threads: usize) -> Result<Library> {
    let folder = args.folder.join("library");
    let best = method.run.join(run::BEST).display().to_string();
    let model = LibraryModel::find(&home.models(), &best)?;
    // A library of an earlier training is replaced.
    if SqliteStore::open(&folder).is_ok_and(|store| store.settings().fingerprint != model.fingerprint) {
        SqliteStore::remove(&folder)?;
    }
    let clips = method
        .judged
        .data
        .clips
        .first()
        .and_then(|clip| clip.path.parent())
        .context("no test clips")?;
    let setup = Setup {
        open: OpenOptions {
            model: Some(best),
            compute: Compute::cpu(threads),
            cancelled: Some(progress::stopped),
        },
        folders: vec![clips.to_owned()],
        ..Setup::default()
    };
    let library = Library::open_to_index(folder, &home.models(), &setup)?;
    let display = IndexDisplay::default();
    let indexed = library.index(&IndexOptions::default(), &|event| display.show(&event));
    display.clear();
    indexed?;
    Ok(library)
}

/// Three captions of the test split as queries, embedded by the model as it lies on disk, and put to the library.
fn answers(method: &Method, truth: &Truth, library: &dyn Store, threads: usize) -> Result<Vec<Answer>> {
    let data = &method.judged.data;
    let encoder = TextEncoder::open(&method.run.join(run::BEST), &Compute::cpu(threads))?;
    let queries: Vec<usize> = [1, 3, 5].iter().map(|part| data.pairs.len() * part / 6).collect();
    let texts: Vec<&str> = queries
        .iter()
        .map(|&query| data.pairs[query].caption.as_str())
        .collect();
    let vectors = encoder.embed(&texts, &hark_work::progress::no_progress)?;
    let name = |nth: usize| data.clips[nth].path.file_name().and_then(|name| name.to_str());
    let clips: HashMap<&str, usize> = (0..data.clips.len())
        .filter_map(|nth| Some((name(nth)?, nth)))
        .collect();
    let mut answers = Vec::new();
    for (&query, vector) in queries.iter().zip(vectors.rows()) {
        let query_of = Query {
            vector: Some(vector.to_vec()),
            per_file: 1,
            limit: HITS,
            ..Query::default()
        };
        let hits = search(library, &query_of)?.into_iter().filter_map(|hit| {
            let clip = *clips.get(hit.file.path.rsplit('/').next()?)?;
            Some(Found {
                clip: data.clips[clip].id.clone(),
                score: hit.meaning.unwrap_or_default(),
                relevance: truth.relevance(query, clip),
                caption: data.captions_of(clip).next().unwrap_or_default().to_owned(),
            })
        });
        answers.push(Answer {
            query: data.pairs[query].caption.clone(),
            hits: hits.collect(),
            fitting: truth.fully_relevant(query).count(),
        });
    }
    Ok(answers)
}

fn as_json(method: &Method) -> serde_json::Value {
    let (there, back) = directions(method);
    json!({
        "method": method.name.to_string(), "model": method.run.join(run::BEST), "seconds": method.took.as_secs_f64(),
        "text_to_audio": LoggedMetrics::from(&there.mean), "audio_to_text": LoggedMetrics::from(&back.mean),
        "ndcg_10_text_to_audio": method.graded.mean,
        "chance": {"text_to_audio": LoggedMetrics::from(&there.chance), "audio_to_text": LoggedMetrics::from(&back.chance)},
    })
}
