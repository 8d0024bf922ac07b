//! Recordings to a matrix of embeddings.

use std::ops::ControlFlow;

use anyhow::{Result, bail};
use hark_encode::Error;
use hark_encode::embedding_file::{EmbedToFile, FileEvent, embed_to_file, table_of};
use hark_encode::model::AudioEncoder;
use hark_models::{EVERYDAY, Model};
use serde_json::json;

use super::Args;
use crate::home::Home;
use crate::library::tell_of_default;
use crate::{output, progress};

pub fn run(args: &Args) -> Result<()> {
    let name = args.model.model.as_deref().unwrap_or(EVERYDAY);
    if args.model.model.is_none() {
        tell_of_default();
    }
    let Model::Towers(files) = Home::find()?.models().open(name)? else {
        bail!("{name} is a sentence encoder: it embeds captions, not recordings");
    };
    let encoder = AudioEncoder::open(&files, &args.compute()?)?.with_clip(args.clip_seconds);
    let mut bar = progress::Recordings::new("embedding");
    let mut show = |event: FileEvent<'_>| match event {
        FileEvent::Done { done, total } => bar.show(done as u64, total as u64),
        other => {
            match other {
                FileEvent::Segment { seconds } => bar.heard(seconds),
                FileEvent::Damaged { path, damage } => {
                    bar.print(&format!("hark: warning: {}: {damage}", path.display()));
                }
                FileEvent::Failed { message } => bar.print(&format!("hark: {message}")),
                FileEvent::Done { .. } => {}
            }
            ControlFlow::Continue(())
        }
    };
    let asked = EmbedToFile {
        encoder: &encoder,
        model: &files,
        recordings: &args.recordings,
        whole: args.clip_seconds.is_none(),
        matrix: &args.output,
        resume: args.resume,
    };
    let embedded = embed_to_file(&asked, &mut show);
    bar.clear();
    let embedded = match embedded {
        Err(error @ Error::OtherEmbeddings { .. }) => bail!("{error}; delete it, or omit --resume"),
        embedded => embedded?,
    };
    let (rows, table) = (embedded.rows, table_of(&args.output));
    if args.json {
        let failed = embedded.failed.iter();
        let failed = failed.map(|(path, error)| json!({"path": path.display().to_string(), "error": error}));
        output::print_json(&json!({
            "output": args.output.display().to_string(), "table": table.display().to_string(), "rows": rows,
            "dim": encoder.dim(), "model": name, "failed": failed.collect::<Vec<_>>(),
        }))?;
    } else if rows > 0 {
        eprintln!(
            "{}: {} of dimension {}; rows are listed in {}",
            args.output.display(),
            output::counted(rows, "embedding"),
            encoder.dim(),
            table.display()
        );
    }
    if !embedded.failed.is_empty() {
        bail!(
            "cannot read {} of {}",
            output::group_digits(embedded.failed.len()),
            output::counted(args.recordings.len(), "recording")
        );
    }
    Ok(())
}
