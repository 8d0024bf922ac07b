//! What an evaluation leaves on disk: the report, scored queries, TREC files, and the challenge's predictions.

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::Result;
use hark_evaluate::retrieval::caption_ids;
use hark_metrics::trec;
use hark_metrics::{Lists, WithIds, lists};
use hark_nearest::Vectors;

use super::collection::Collection;
use super::{Args, Evaluation, keys, options, show};
use crate::output;

/// Items of each query in a run file: enough for every metric that is usual.
const LISTED: usize = 1000;
/// Clips that the challenge asks for.
const PREDICTED: usize = 10;

pub(super) fn write(
    folder: &Path,
    args: &Args,
    evaluation: &Evaluation,
    collection: Option<&Collection>,
) -> Result<()> {
    output::write_whole(&folder.join("report.json"), |file| {
        Ok(serde_json::to_writer_pretty(
            file,
            &show::as_json(args, evaluation),
        )?)
    })?;
    for judgement in &evaluation.judgements {
        judgement.scores.write(&folder.join(&judgement.file))?;
    }
    match collection {
        Some(collection) => write_lists(folder, args, collection),
        None => Ok(()),
    }
}

/// Run and qrels files of both directions, and the predictions.
fn write_lists(folder: &Path, args: &Args, collection: &Collection) -> Result<()> {
    let (data, embedded) = (&collection.data, &collection.embedded);
    let clip_names: Vec<String> = data.clips.iter().map(|clip| clip.id.clone()).collect();
    let caption_names = caption_ids(data);
    let clip_ids: Vec<&str> = clip_names.iter().map(String::as_str).collect();
    let caption_ids: Vec<&str> = caption_names.iter().map(String::as_str).collect();
    // In the order that was judged.
    let (clip_keys, caption_keys) = (keys(&clip_names, args.ties), keys(&caption_names, args.ties));
    let clips = WithIds::new(Vectors::new(&embedded.clips, embedded.dim)?, &clip_keys)?;
    let captions = WithIds::new(Vectors::new(&embedded.captions, embedded.dim)?, &caption_keys)?;
    let most = NonZeroUsize::new(LISTED).unwrap_or(NonZeroUsize::MIN);
    let options = options(args);
    let watch = &hark_work::progress::no_progress;
    let found = lists(captions, clips, most, options, watch)?;
    write_run(
        &folder.join("text-to-audio.run.trec"),
        &caption_ids,
        &clip_ids,
        &found,
    )?;
    let relevant = data.pairs.iter().map(|pair| vec![clip_ids[pair.clip]]);
    write_qrels(&folder.join("text-to-audio.qrels.trec"), &caption_ids, relevant)?;
    output::write_whole(&folder.join("predictions.csv"), |file| {
        let mut writer = csv::Writer::from_writer(file);
        let places = PREDICTED.min(data.clips.len());
        let names = (1..=places).map(|rank| format!("fname_{rank}"));
        writer.write_record(std::iter::once("caption".to_owned()).chain(names))?;
        for (query, pair) in data.pairs.iter().enumerate() {
            let best = found
                .of(query)
                .take(places)
                .map(|(clip, _)| clip_ids[clip as usize]);
            writer.write_record(std::iter::once(pair.caption.as_str()).chain(best))?;
        }
        writer.flush()?;
        Ok(())
    })?;
    let found = lists(clips, captions, most, options, watch)?;
    write_run(
        &folder.join("audio-to-text.run.trec"),
        &clip_ids,
        &caption_ids,
        &found,
    )?;
    let relevant = data.captions_by_clip();
    let relevant = relevant
        .iter()
        .map(|captions| captions.iter().map(|&caption| caption_ids[caption]).collect());
    write_qrels(&folder.join("audio-to-text.qrels.trec"), &clip_ids, relevant)
}

fn write_run(path: &Path, queries: &[&str], items: &[&str], found: &Lists) -> Result<()> {
    output::write_whole(path, |file| {
        for (nth, query) in queries.iter().enumerate() {
            let list = found.of(nth).map(|(item, score)| (items[item as usize], score));
            trec::write_run(file as &mut dyn Write, query, list, "hark")?;
        }
        Ok(())
    })
}

fn write_qrels<'a>(
    path: &Path,
    queries: &[&str],
    relevant: impl Iterator<Item = Vec<&'a str>>,
) -> Result<()> {
    output::write_whole(path, |file| {
        for (query, relevant) in queries.iter().zip(relevant) {
            let list = relevant.into_iter().map(|item| (item, 1.0));
            trec::write_qrels(file as &mut dyn Write, query, list)?;
        }
        Ok(())
    })
}
