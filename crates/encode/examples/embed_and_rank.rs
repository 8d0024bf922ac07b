//! Embeds recordings and ranks them for a text.
//!
//! ```text
//! cargo run --release -p hark-encode --example embed_and_rank -- MODEL_FOLDER "rain on a roof" *.wav
//! ```
//!
//! MODEL_FOLDER is a folder with `card.json`: the `best` folder of a run of `hark train`, or a model that
//! `hark models import` made.

use std::path::{Path, PathBuf};

use hark_encode::{Compute, DualModel};
use hark_nearest as nearest;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(folder), Some(query)) = (arguments.next(), arguments.next()) else {
        return Err("usage: embed_and_rank MODEL_FOLDER QUERY FILES...".into());
    };
    let query = query.to_string_lossy();
    let paths: Vec<PathBuf> = arguments.map(PathBuf::from).collect();

    let model = DualModel::open(Path::new(&folder), &Compute::cpu(2))?;
    let clips = model.embed_files(&paths)?;
    let hits = nearest::top_k(model.embed_text(&query)?.row(0), clips.view(), 10)?;

    for hit in hits {
        println!("{:.3}  {}", hit.score, clips.id(hit.row).unwrap_or_default());
    }
    for failure in clips.failures() {
        eprintln!("skipped: {}", failure.error);
    }
    Ok(())
}
