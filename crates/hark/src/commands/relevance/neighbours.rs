//! `hark relevance neighbours`: find captions of different clips that say the same thing.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use hark_corpus::CaptionSet;
use hark_nearest::exact;
use hark_relevance::neighbours::{self, false_negatives, similar_pairs};
use serde_json::json;

use crate::commands::inputs::{CaptionArgs, ModelArgs, similarity};
use crate::{output, progress};

const EXAMPLES: &str = "Examples:
  hark relevance neighbours --captions clotho_captions_development.csv
  hark relevance neighbours --captions train.csv -k 100 --output near.npz

Training on hard pairs treats every other clip of a batch as wrong for a caption. If the caption of \
another clip says the same thing, that clip is a likely false negative. The table shows how many to \
expect in a random batch, computed exactly over all pairs of captions of different clips.";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    captions: CaptionArgs,
    /// Minimum similarity at which two captions say the same thing
    #[arg(long, value_name = "H", default_value = "0.8", value_parser = similarity, allow_negative_numbers = true)]
    threshold: f32,
    /// Number of pairs to list, most similar first
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Batch size for the expected number of false negatives
    #[arg(long, value_name = "SIZE", default_value = "32")]
    batch: NonZeroUsize,
    /// Number of neighbours per caption, for --output [default: 100]
    #[arg(short, value_name = "K", requires = "output")]
    k: Option<NonZeroUsize>,
    /// Write the K nearest captions of every caption to a NumPy archive: `ids`, `similarities` and `starts`
    #[arg(long, short, value_name = "FILE.npz")]
    output: Option<PathBuf>,
    /// With --output: skip captions of the same clip
    #[arg(long, requires = "output")]
    other_clips: bool,
    #[command(flatten)]
    model: ModelArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<()> {
    if args
        .output
        .as_ref()
        .is_some_and(|path| path.extension().is_none_or(|extension| extension != "npz"))
    {
        bail!("--output: the file must end in .npz");
    }
    let batch = args.batch.get();
    let set = args.captions.read()?;
    let count = set.captions.len();
    if count < batch {
        bail!(
            "cannot draw a batch of {} from {}; lower --batch",
            args.batch,
            output::counted(count, "caption")
        );
    }
    let vectors = args.model.embed(&set.texts())?;
    let vectors = vectors.view();
    let clips: Vec<u32> = set.captions.iter().map(|caption| caption.clip as u32).collect();
    let threads = Some(args.model.threads.count());

    let bar = progress::items("comparing captions");
    let watch = |done, total| progress::show(&bar, done, total);
    let pairs = similar_pairs(vectors, &clips, args.threshold, args.limit, threads, &watch)?;
    let mut thresholds = vec![0.6, 0.7, 0.8, 0.9, args.threshold];
    thresholds.sort_by(f32::total_cmp);
    thresholds.dedup();
    let counted = false_negatives(vectors, &clips, &thresholds, threads, &watch)?;
    let expected = counted.expected_at_all(batch)?;
    if let Some(path) = &args.output {
        let options = exact::Options {
            groups: args.other_clips.then_some(&clips[..]),
            threads,
        };
        let k = args.k.map_or(100, NonZeroUsize::get);
        neighbours::save(path, &exact::neighbours(vectors, k, options, &watch)?)?;
    }
    bar.finish_and_clear();

    if args.json {
        let listed: Vec<_> = pairs
            .pairs
            .iter()
            .map(|pair| {
                let side = |row: u32| json!({"clip": clip(&set, row), "caption": text(&set, row)});
                json!({"similarity": pair.score, "first": side(pair.first), "second": side(pair.second)})
            })
            .collect();
        return output::print_json(&json!({
            "model": args.model.name(),
            "captions": count,
            "clips": set.clips.len(),
            "threshold": args.threshold,
            "pairs_above": pairs.total,
            "pairs": listed,
            "false_negatives": expected,
        }));
    }
    let mut report = format!(
        "{} with h >= {}",
        output::counted(pairs.total, "pair of captions of different clips"),
        args.threshold
    );
    report.push_str(if pairs.pairs.is_empty() {
        "\n"
    } else {
        ", most similar first:\n\n"
    });
    for pair in &pairs.pairs {
        report.push_str(&format!(
            "{:.3}  {}\n       {}\n",
            pair.score,
            text(&set, pair.first),
            text(&set, pair.second)
        ));
        report.push_str(&format!(
            "       [{}] [{}]\n",
            clip(&set, pair.first),
            clip(&set, pair.second)
        ));
    }
    report.push_str(&format!(
        "\nlikely false negatives in a random batch of {}:\n",
        args.batch
    ));
    report.push_str("h at least  pairs in a batch  captions with one\n");
    for row in &expected {
        let share = 100.0 * row.share_of_captions;
        report.push_str(&format!(
            "{:10.2}  {:16.3}  {share:16.2}%\n",
            row.threshold, row.pairs_per_batch
        ));
    }
    output::print(&report)
}

fn text(set: &CaptionSet, row: u32) -> &str {
    &set.captions[row as usize].text
}

fn clip(set: &CaptionSet, row: u32) -> &str {
    &set.clips[set.captions[row as usize].clip]
}
