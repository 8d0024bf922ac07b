//! `hark data add` and `hark data list`: datasets by name.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args as ClapArgs;
use hark_corpus::registry;
use serde_json::{Map, Value, json};

use crate::home::Home;
use crate::output;

const EXAMPLES: &str = "Examples:
  hark data add clotho ~/data/clotho
  hark data add standin scapes
  hark reproduce recipes/clotho.toml --rehearse

Recipes and commands then find the dataset by its name: root = \"clotho\" in a recipe, --data clotho, and \
hark data check clotho. A name that was given before moves to the new folder.";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Name: clotho, audiocaps and wavcaps are those that the recipes ask for
    name: String,
    /// Folder of the dataset
    folder: PathBuf,
}

const LIST_EXAMPLES: &str = "Examples:
  hark data list
  hark data list --json";

#[derive(Debug, ClapArgs)]
#[command(after_help = LIST_EXAMPLES)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<()> {
    registry::register(Home::find()?.data(), &args.name, &args.folder)?;
    eprintln!("{} is now {}", args.name, args.folder.display());
    Ok(())
}

pub fn list(args: &ListArgs) -> Result<()> {
    let datasets = Home::find()?.datasets()?;
    if args.json {
        let told = |(name, folder): (&str, &Path)| (name.to_owned(), json!(folder));
        return output::print_json(&datasets.iter().map(told).collect::<Map<String, Value>>());
    }
    let line = |(name, folder): (&str, &Path)| {
        format!("{name:<16} {}\n", output::sanitize(&folder.display().to_string()))
    };
    output::print(&datasets.iter().map(line).collect::<String>())
}
