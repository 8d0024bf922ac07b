//! An evaluation as a table, and its progress.

use std::ops::ControlFlow;
use std::sync::Mutex;

use hark_evaluate::report::{EvaluationReport, JudgementReport, MeansReport, SliceReport};
use hark_evaluate::{Direction, SplitEvent};
use hark_work::workers::lock;
use indicatif::ProgressBar;

use crate::{output, progress};

pub(super) fn table(report: &EvaluationReport) -> String {
    let mut text = format!("{}\n", report.of);
    if report.clips > 0 {
        text.push_str(&format!("{}, ", output::counted(report.clips, "clip")));
    }
    let what = if report.clips > 0 { "caption" } else { "query" };
    text.push_str(&format!(
        "{}; in percent\n",
        output::counted(report.captions, what)
    ));
    let mut by = "";
    for judgement in &report.judgements {
        if judgement.by != by {
            by = &judgement.by;
            text.push_str(&format!("\nby {by}\n{}", header(judgement)));
        }
        let median = judgement.median_rank.unwrap_or(f64::INFINITY);
        let direction = judgement.direction.parse().map_or("", Direction::title);
        text.push_str(&row(direction, &judgement.mean, &format!("{median:.1}")));
        text.push_str(&row("  chance", &judgement.chance, ""));
        if judgement.left_out > 0 {
            let left_out = output::counted(judgement.left_out, "query without a relevant item");
            text.push_str(&format!("  left out: {left_out}\n"));
        }
    }
    let first = report.judgements.first();
    if let Some((judgement, slices)) = first.and_then(|first| Some((first, first.slices.as_ref()?))) {
        text.push_str(&slice_table(judgement.cut, slices));
    }
    text
}

fn header(judgement: &JudgementReport) -> String {
    let cut = judgement.cut;
    let mut text = format!("{:24}{:>9}", "", format!("mAP@{cut}"));
    for name in ["R@1", "R@5", "R@10", "hit@1", "hit@5", "hit@10", "MRR"] {
        text.push_str(&format!("{name:>8}"));
    }
    if judgement.mean.ndcg.is_some() {
        text.push_str(&format!("{:>9}", format!("nDCG@{cut}")));
    }
    format!("{text}{:>13}\n", "median rank")
}

fn row(name: &str, means: &MeansReport, median: &str) -> String {
    let mut text = format!("{name:<24}{:>9.1}", 100.0 * means.map);
    let (recall, hit) = (
        [means.recall_1, means.recall_5, means.recall_10],
        [means.hit_1, means.hit_5, means.hit_10],
    );
    for value in recall.into_iter().chain(hit).chain([means.mrr]) {
        text.push_str(&format!("{:>8.1}", 100.0 * value));
    }
    if let Some(ndcg) = means.ndcg {
        text.push_str(&format!("{:>9.1}", 100.0 * ndcg));
    }
    text.push_str(&format!("{median:>13}"));
    format!("{}\n", text.trim_end())
}

fn slice_table(cut: usize, slices: &[SliceReport]) -> String {
    let percent =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{:.1}", 100.0 * value));
    let line = |name: &str, [queries, map, recall]: [String; 3]| {
        format!("{name:<40}{queries:>9}{map:>9}{recall:>8}\n")
    };
    let titles = ["queries".to_owned(), format!("mAP@{cut}"), "R@10".to_owned()];
    let mut text = format!("\n{}", line("text to audio by what queries say:", titles));
    for slice in slices {
        let cells = [
            output::group_digits(slice.queries),
            percent(slice.map),
            percent(slice.recall_10),
        ];
        text.push_str(&line(&format!("  {}: {}", slice.by, slice.name), cells));
    }
    text
}

/// Progress of embedding a split: captions, then recordings.
#[derive(Default)]
pub(super) struct Display {
    shown: Mutex<Shown>,
}

#[derive(Default)]
struct Shown {
    items: Option<(&'static str, ProgressBar)>,
    recordings: Option<progress::Recordings>,
    clips: (u64, u64),
}

impl Display {
    pub fn show(&self, event: &SplitEvent<'_>) -> ControlFlow<()> {
        let mut shown = lock(&self.shown);
        match *event {
            SplitEvent::Opened { done, total } => shown.items("looking at recordings", done, total),
            SplitEvent::Captions { done, total } => shown.items("embedding captions", done, total),
            SplitEvent::Segment { seconds } => {
                shown.recordings().heard(seconds);
                shown.clips()
            }
            SplitEvent::Clip { done, total, failed } => {
                shown.clips = (done, total);
                if let Some((_, error)) = failed {
                    shown
                        .recordings()
                        .print(&format!("hark: {}", output::explain(error)));
                }
                shown.clips()
            }
            SplitEvent::NotCached(error) => {
                shown.clear();
                eprintln!(
                    "hark: warning: cannot cache the embeddings: {}",
                    output::explain(error)
                );
                ControlFlow::Continue(())
            }
        }
    }

    pub fn clear(&self) {
        lock(&self.shown).clear();
    }
}

impl Shown {
    fn items(&mut self, what: &'static str, done: u64, total: u64) -> ControlFlow<()> {
        if self.items.as_ref().is_none_or(|(shown, _)| *shown != what) {
            self.clear();
        }
        let (_, bar) = self.items.get_or_insert_with(|| (what, progress::items(what)));
        progress::show(bar, done, total)
    }

    fn recordings(&mut self) -> &mut progress::Recordings {
        if let Some((_, bar)) = self.items.take() {
            bar.finish_and_clear();
        }
        self.recordings
            .get_or_insert_with(|| progress::Recordings::new("embedding"))
    }

    fn clips(&mut self) -> ControlFlow<()> {
        let (done, total) = self.clips;
        self.recordings().show(done, total)
    }

    fn clear(&mut self) {
        if let Some((_, bar)) = self.items.take() {
            bar.finish_and_clear();
        }
        if let Some(recordings) = self.recordings.take() {
            recordings.clear();
        }
    }
}
