//! Made-up studies for the tests.

use super::results::{Comparison, DirectionMetrics, Method, Point, RunFigures, Study, Test};

/// A run whose recalls follow from its mAP@10 by fixed steps.
pub(crate) fn run(corpus: Option<u64>, seed: u64, map: f64) -> RunFigures {
    let figures = |map: f64| DirectionMetrics {
        map,
        recall: [map - 0.1, map + 0.1, map + 0.2],
    };
    RunFigures {
        corpus,
        seed,
        best_epoch: 2,
        text_to_audio: figures(map),
        audio_to_text: figures(map / 2.0),
        ndcg: None,
        ndcg_chance: None,
        curve: Vec::new(),
    }
}

/// A method that is titled as it is named.
pub(crate) fn method(name: &str, runs: Vec<RunFigures>) -> Method {
    Method {
        name: name.to_owned(),
        title: name.to_owned(),
        runs,
    }
}

/// A study without methods.
pub(crate) fn empty() -> Study {
    let chance = |map| DirectionMetrics {
        map,
        recall: [0.001, 0.005, 0.01],
    };
    Study {
        name: "small".to_owned(),
        data: "soundscapes".to_owned(),
        published: None,
        one_direction: false,
        methods: Vec::new(),
        chance: (chance(0.003), chance(0.002), None),
        remarks: Vec::new(),
        comparisons: Vec::new(),
        provenance: Vec::new(),
        recipe: String::new(),
    }
}

/// ListNet audio against InfoNCE.
pub(crate) fn comparison(tests: Vec<Test>) -> Comparison {
    Comparison {
        first: "ListNet audio".to_owned(),
        second: "InfoNCE".to_owned(),
        direction: "text to audio".to_owned(),
        metric: "mAP@10".to_owned(),
        tests,
    }
}

/// A test over nine pairs, whose p is half of that after Holm.
pub(crate) fn test(over: &str, difference: f64, interval: Option<(f64, f64)>, holm: f64) -> Test {
    Test {
        over: over.to_owned(),
        pairs: 9,
        difference,
        interval,
        t: Some((3.25, 8)),
        effect: Some(3.25 / 3.0),
        p: holm / 2.0,
        holm,
    }
}

/// Numbers in [0, 1) that look random and are the same everywhere (a linear congruence).
fn noise(state: &mut u64) -> f64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 40) as f64 / (1_u64 << 24) as f64
}

/// Seven methods, five seeds and two corpora, with curves, graded truth and tests.
pub(crate) fn large() -> Study {
    const METHODS: [(&str, &str, f64); 7] = [
        ("infonce", "InfoNCE", 0.262),
        ("listnet-audio", "ListNet audio", 0.291),
        ("listnet-text", "ListNet text", 0.255),
        ("listnet-both", "ListNet both", 0.284),
        ("listnet-audio-minmax", "ListNet audio, minmax", 0.279),
        ("listnet-audio-steep", "ListNet audio, steep", 0.27),
        ("triplet", "Triplet, hardest negatives", 0.22),
    ];
    let mut state = 7;
    let mut study = empty();
    (study.name, study.data) = ("objectives".to_owned(), "soundscape-full".to_owned());
    study.chance.2 = Some(0.031);
    for (name, title, level) in METHODS {
        let mut runs = Vec::new();
        for corpus in [11, 12] {
            for seed in 1..=5 {
                let end = level + 0.02 * (corpus as f64 - 11.0) + 0.012 * (noise(&mut state) - 0.5);
                let mut run = run(Some(corpus), seed, end);
                run.ndcg = Some(end + 0.15);
                run.curve = (1..=20)
                    .map(|epoch| large_point(epoch, end, &mut state))
                    .collect();
                run.best_epoch = 17;
                runs.push(run);
            }
        }
        study.methods.push(Method {
            name: name.to_owned(),
            title: title.to_owned(),
            runs,
        });
    }
    for (_, title, level) in &METHODS[1..] {
        let difference = level - METHODS[0].2;
        let interval = Some((difference - 0.01, difference + 0.01));
        let holm = if difference.abs() > 0.01 { 3.1e-8 } else { 0.21 };
        let tests = ["clips", "queries", "permutation over clips", "seeds"];
        study.comparisons.push(Comparison {
            first: (*title).to_owned(),
            ..comparison(tests.map(|over| test(over, difference, interval, holm)).into())
        });
    }
    study.provenance = [
        ("program", "hark 0.4.0 (1b2c3d4)"),
        (
            "data",
            "soundscape-full, sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        ),
    ]
    .map(|(what, value)| (what.to_owned(), value.to_owned()))
    .into();
    study.recipe =
        "[train]\nepochs = 20\nbatch = 32\n\n[objective]\ntau = 0.05 # <as in the paper>\n".to_owned();
    study
}

fn large_point(epoch: u64, end: f64, state: &mut u64) -> Point {
    let progress = 1.0 - (-(epoch as f64) / 5.0).exp();
    Point {
        epoch,
        loss: 3.4 * (1.05 - 2.4 * end * progress) + 0.03 * noise(state),
        validation_loss: 3.5 * (1.05 - 1.7 * end * progress) + 0.05 * noise(state) + 0.004 * epoch as f64,
        map: end * progress + 0.008 * (noise(state) - 0.5),
    }
}
