//! `hark demo`: soundscapes, two trainings, their comparison, a library and three queries.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use hark_learn::objective::ObjectiveKind;
use hark_learn::recipe::Recipe;
use hark_learn::run;
use hark_learn::trainer::OnEvent;
use hark_library::OpenOptions;
use hark_metrics::significance::PairedTest;
use hark_metrics::{MeanMetrics, Report};
use hark_study::demo::{self, DemoAnswer, DemoEvent, DemoRun};
use hark_study::{TrainRequest, Trainer};
use indicatif::ProgressBar;
use serde_json::json;

use super::index::IndexDisplay;
use super::inputs::ThreadArgs;
use super::train;
use crate::home::Home;
use crate::{output, progress};

const EXAMPLES: &str = "Examples:
  hark demo
  hark demo --folder /tmp/hark-demo --json

Generates soundscapes (short recordings whose ground truth is known), trains the same small dual encoder on them \
twice, with hard pairs (InfoNCE) and with graded relevance (ListNet, lists over clips), compares the two on clips \
that neither has heard, indexes these clips as a library and runs three queries. Nothing is downloaded. Everything \
is written to one folder; a second run reuses what is there.";

/// The recipe, as it stands in the repository.
const RECIPE: &str = include_str!("../../../../recipes/soundscape-quick.toml");

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Output folder
    #[arg(long, value_name = "DIR", default_value = "hark-demo")]
    folder: PathBuf,
    /// Override a key of the recipe, such as training.epochs=3 (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let home = Home::find()?;
    let recipe = Recipe::parse(RECIPE, Path::new("recipes/soundscape-quick.toml"), &args.set)?;
    if args
        .set
        .iter()
        .any(|change| change.trim_start().starts_with("objective.name"))
    {
        bail!("the demo trains two fixed objectives; use hark train for others");
    }
    let threads = args.threads.count().get();
    eprintln!("writing to {}", args.folder.display());
    let trainer = Trainer {
        cache: args.folder.join("cache"),
        ..train::trainer(&home)
    };
    let train = |request: TrainRequest<'_>, _: OnEvent<'_>| {
        let label = request.recipe.objective.name.to_string();
        train::shown(&trainer, request, &label)
    };
    let bar = progress::items("generating soundscapes");
    let demo = demo::train_and_compare(&recipe, &args.folder, threads, &train, &|event| {
        show(&bar, &event)
    });
    bar.finish_and_clear();
    let demo = demo?;
    let (methods, test) = (&demo.runs, &demo.test);

    let begun = Instant::now();
    let options = OpenOptions {
        model: None,
        compute: args.threads.compute(),
        cancelled: Some(progress::stopped),
    };
    let display = IndexDisplay::default();
    let library = demo.index(&args.folder, &home.models(), options, &|event| {
        display.show(&event)
    });
    display.clear();
    let library = library?;
    eprintln!(
        "{}. a library of {} test clips, indexed with the graded model: {}",
        demo::OBJECTIVES.len() + 2,
        output::group_digits(library.store().overview()?.files),
        seconds(begun.elapsed())
    );
    let answers = demo.ask(&library, &args.threads.compute())?;
    if args.json {
        return output::print_json(&json!({
            "folder": args.folder,
            "methods": methods.iter().map(DemoRun::summary).collect::<Vec<_>>(),
            "paired_t_test": {
                "t": test.t, "degrees_of_freedom": test.degrees_of_freedom, "p": test.p,
                "mean_difference": test.mean_difference, "interval_95": [test.interval_95.0, test.interval_95.1],
            },
            "queries": answers,
        }));
    }
    let mut text = table(methods);
    text.push_str(&verdict(test));
    for answer in &answers {
        text.push_str(&answer_text(answer));
    }
    write!(
        text,
        "\nThe models are {} and {}; they know generated sounds alone. Index these with one:\n  hark index {} --name demo --model {}\n\nSearch your own recordings with the built-in model, in a browser too:\n  hark index ~/Sounds\n  hark search 'rain on a roof'\n  hark serve\n",
        methods[0].run.join(run::BEST).display(),
        methods[1].run.join(run::BEST).display(),
        demo.soundscapes.display(),
        methods[1].run.join(run::BEST).display(),
    )?;
    output::print(&text)
}

/// A line for each step, and a bar on a terminal.
fn show(bar: &ProgressBar, event: &DemoEvent<'_>) -> ControlFlow<()> {
    match event {
        DemoEvent::Generating { done, total } => return progress::show(bar, *done, *total),
        DemoEvent::Generated {
            config,
            generated,
            took,
        } => {
            bar.finish_and_clear();
            eprintln!(
                "1. {} of {} s with {}, {}: {}",
                output::counted(generated.clips.iter().sum::<usize>(), "soundscape"),
                config.seconds,
                output::counted(generated.captions.iter().sum::<usize>(), "caption"),
                if generated.reused {
                    "made before"
                } else {
                    "made now"
                },
                seconds(*took),
            );
        }
        DemoEvent::Trained { run, clips } => {
            let place = demo::OBJECTIVES.iter().position(|name| *name == run.objective);
            eprintln!(
                "{}. {} {} on {}, {}, best {}: {}",
                place.unwrap_or_default() + 2,
                if run.reused { "trained before:" } else { "trained" },
                title(run.objective),
                output::counted(*clips, "clip"),
                output::counted(run.epochs, "epoch"),
                run.best_epoch,
                seconds(run.took),
            );
        }
    }
    if progress::stopped() {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
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

fn table(methods: &[DemoRun]) -> String {
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
    let row_of = |name: &str, there: &MeanMetrics, ndcg: f64, back: &MeanMetrics| {
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
            title(method.objective),
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

fn directions(method: &DemoRun) -> (&Report, &Report) {
    let retrieval = &method.test.retrieval;
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

fn answer_text(answer: &DemoAnswer) -> String {
    let mut text = format!(
        "\n\"{}\" is fully true of {} test clips. Found:\n",
        answer.query,
        output::group_digits(answer.fully_relevant)
    );
    for hit in &answer.hits {
        text.push_str(&format!(
            "  {:.3}  {}  true relevance {:.2}: \"{}\"\n",
            hit.score, hit.clip, hit.relevance, hit.caption
        ));
    }
    text
}
