//! Datasets as named on the command line: a kind and a path with options, or a recipe.
//!
//! Out: the datasets, each with its key in the recipe if it has one. An option that does not belong to the kind is
//! refused as bad usage, with the kinds that it belongs to.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Args, ValueEnum};
use hark_corpus::{DatasetConfig, Error, Exclusion, ReadingCost, WavcapsSource};
use hark_learn::sets::{self, Places};

use crate::home::Home;
use crate::progress;

const CLOTHO_SPLITS: [&str; 3] = ["development", "validation", "evaluation"];
const AUDIOCAPS_SPLITS: [&str; 3] = ["train", "val", "test"];

/// The known layouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A folder with clotho_captions_SPLIT.csv, and the recordings in SPLIT
    Clotho,
    /// A folder with SPLIT.csv, and the recordings in audio/SPLIT
    Audiocaps,
    /// A folder with json_files/SOURCE/*.json, and the recordings below audio/SOURCE
    Wavcaps,
    /// A CSV, TSV or JSON Lines file with a column of paths and one or more of captions
    Table,
    /// A folder of recordings, each beside a .txt file with one caption per line
    Folder,
}

/// Which datasets.
#[derive(Debug, Args)]
pub struct SetArgs {
    /// Kind of dataset
    #[arg(value_enum, required_unless_present = "recipe")]
    kind: Option<Kind>,
    /// Folder of the dataset; for a table, the file [default: the one that is registered under the kind's name]
    path: Option<PathBuf>,
    /// Use all datasets of a recipe instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kind", "path", "splits", "audio", "sources", "exclude", "exclude_clotho", "exclude_audioset", "path_column", "caption_columns"])]
    recipe: Option<PathBuf>,
    /// clotho, audiocaps: only this split (repeatable) [default: all three]
    #[arg(long = "split", value_name = "NAME")]
    splits: Vec<String>,
    /// audiocaps, table: folder of the recordings, if elsewhere
    #[arg(long, value_name = "DIR")]
    audio: Option<PathBuf>,
    /// wavcaps: only this source (repeatable) [default: all that have captions]
    #[arg(long = "source", value_name = "NAME", value_parser = source_parser(), ignore_case = true)]
    sources: Vec<WavcapsSource>,
    /// wavcaps: exclude the FreeSound ids in this CSV list
    #[arg(long, value_name = "LIST.csv", conflicts_with = "exclude_clotho")]
    exclude: Option<PathBuf>,
    /// wavcaps: exclude the recordings of Clotho, whose metadata is in this folder
    #[arg(long, value_name = "DIR")]
    exclude_clotho: Option<PathBuf>,
    /// wavcaps: exclude the AudioSet clips in this CSV list of YouTube ids, such as AudioCaps' test.csv
    #[arg(long, value_name = "LIST.csv")]
    exclude_audioset: Option<PathBuf>,
    /// table: column of paths [default: path, file, file_name or similar]
    #[arg(long, value_name = "NAME")]
    path_column: Option<String>,
    /// table: column of captions (repeatable) [default: caption, captions, text, all caption_N or similar]
    #[arg(long = "caption-column", value_name = "NAME")]
    caption_columns: Vec<String>,
}

/// A dataset to look at.
#[derive(Debug)]
pub struct Asked {
    /// Its key in the recipe, such as `data.train`.
    pub part: Option<&'static str>,
    /// Its layout and folder.
    pub config: DatasetConfig,
    /// Whether the user named it: splits that were not named may be absent.
    pub by_name: bool,
    /// How to get the dataset, if hark itself generates it.
    pub remedy: Option<String>,
}

impl Asked {
    /// What messages call it: `data.train: clotho-development`.
    pub fn title(&self) -> String {
        match self.part {
            Some(part) => format!("{part}: {}", self.config.name()),
            None => self.config.name(),
        }
    }
}

impl SetArgs {
    /// What reading takes in a training by the recipe, if there is one and its recordings are there.
    pub fn reading_cost(&self) -> Result<Option<ReadingCost>> {
        let Some(recipe) = &self.recipe else {
            return Ok(None);
        };
        let bar = progress::items("decoding a sample");
        let show = |done, total| progress::show(&bar, done, total);
        let home = Home::find()?;
        let places = Places {
            soundscapes: &home.soundscapes(),
            datasets: &home.datasets()?,
        };
        let cost = sets::reading_cost(recipe, places, &show);
        bar.finish_and_clear();
        Ok(cost?)
    }

    /// The sets, in the order in which they are reported.
    pub fn asked(&self) -> Result<Vec<Asked>> {
        match (self.kind, &self.path, &self.recipe) {
            (_, _, Some(recipe)) => of_recipe(recipe),
            (Some(kind), path, None) => {
                self.check_options(kind)?;
                let path = match path {
                    Some(path) => path.clone(),
                    None => registered(kind)?,
                };
                let by_name = !self.splits.is_empty() || !matches!(kind, Kind::Clotho | Kind::Audiocaps);
                let asked = |config| Asked {
                    part: None,
                    config,
                    by_name,
                    remedy: None,
                };
                Ok(self.configs(kind, &path).into_iter().map(asked).collect())
            }
            // The parser has asked for a recipe, or a kind and a path.
            _ => bail!("no dataset is named"),
        }
    }

    fn check_options(&self, kind: Kind) -> Result<()> {
        use Kind::{Audiocaps, Clotho, Table, Wavcaps};
        let options: [(&str, bool, &[Kind]); 8] = [
            ("--split", !self.splits.is_empty(), &[Clotho, Audiocaps]),
            ("--audio", self.audio.is_some(), &[Audiocaps, Table]),
            ("--source", !self.sources.is_empty(), &[Wavcaps]),
            ("--exclude", self.exclude.is_some(), &[Wavcaps]),
            ("--exclude-clotho", self.exclude_clotho.is_some(), &[Wavcaps]),
            ("--exclude-audioset", self.exclude_audioset.is_some(), &[Wavcaps]),
            ("--path-column", self.path_column.is_some(), &[Table]),
            ("--caption-column", !self.caption_columns.is_empty(), &[Table]),
        ];
        for (option, given, kinds) in options {
            if given && !kinds.contains(&kind) {
                let kinds: Vec<String> = kinds.iter().map(|kind| name(*kind)).collect();
                let message = format!(
                    "{option} belongs to {}, not to {}\n",
                    kinds.join(" and "),
                    name(kind)
                );
                return Err(clap::Error::raw(ErrorKind::ArgumentConflict, message).into());
            }
        }
        Ok(())
    }

    fn configs(&self, kind: Kind, path: &Path) -> Vec<DatasetConfig> {
        let root = path.to_owned();
        let splits = |all: [&str; 3]| match self.splits.as_slice() {
            [] => all.map(str::to_owned).to_vec(),
            named => named.to_vec(),
        };
        match kind {
            Kind::Clotho => splits(CLOTHO_SPLITS)
                .into_iter()
                .map(|split| DatasetConfig::Clotho {
                    root: root.clone(),
                    split,
                })
                .collect(),
            Kind::Audiocaps => splits(AUDIOCAPS_SPLITS)
                .into_iter()
                .map(|split| DatasetConfig::Audiocaps {
                    root: root.clone(),
                    split,
                    audio: self.audio.clone(),
                })
                .collect(),
            Kind::Wavcaps => {
                let list = self.exclude.clone().map(Exclusion::List);
                let clotho = self.exclude_clotho.clone().map(Exclusion::Clotho);
                vec![DatasetConfig::Wavcaps {
                    root,
                    sources: self.sources.clone(),
                    exclude: list.or(clotho),
                    exclude_audioset: self.exclude_audioset.clone(),
                }]
            }
            Kind::Table => vec![DatasetConfig::Table {
                file: root,
                audio_folder: self.audio.clone(),
                path_column: self.path_column.clone(),
                caption_columns: self.caption_columns.clone(),
            }],
            Kind::Folder => vec![DatasetConfig::Folder { root }],
        }
    }
}

/// The folder of the dataset that is registered under the name of its kind.
fn registered(kind: Kind) -> Result<PathBuf> {
    let (name, datasets) = (name(kind), Home::find()?.datasets()?);
    match (datasets.folder(&name), kind) {
        (Some(folder), _) => Ok(folder.to_owned()),
        (None, Kind::Table | Kind::Folder) => Err(clap::Error::raw(
            ErrorKind::MissingRequiredArgument,
            format!("a {name} needs its PATH\n"),
        )
        .into()),
        (None, _) => Err(Error::NotRegistered { name }.into()),
    }
}

fn name(kind: Kind) -> String {
    kind.to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

fn source_parser() -> impl TypedValueParser<Value = WavcapsSource> {
    PossibleValuesParser::new(WavcapsSource::ALL.map(WavcapsSource::folder)).map(|typed| {
        let named = |source: &WavcapsSource| source.folder().eq_ignore_ascii_case(&typed);
        // Only names of the list come here.
        WavcapsSource::ALL
            .into_iter()
            .find(named)
            .unwrap_or(WavcapsSource::FreeSound)
    })
}

/// The sets of a recipe; soundscapes are looked for where `hark train` makes them.
fn of_recipe(path: &Path) -> Result<Vec<Asked>> {
    let remedy = format!(
        "these soundscapes are generated when hark train {} starts",
        path.display()
    );
    let home = Home::find()?;
    let places = Places {
        soundscapes: &home.soundscapes(),
        datasets: &home.datasets()?,
    };
    let sets = sets::of_recipe(path, places)?;
    let not_registered = |name: &str| {
        Error::NotRegistered {
            name: name.to_owned(),
        }
        .to_string()
    };
    let asked = sets.into_iter().map(|set| Asked {
        part: Some(set.part),
        remedy: match set.config.unregistered() {
            Some(name) => Some(not_registered(name)),
            None => set.is_generated.then(|| remedy.clone()),
        },
        config: set.config,
        by_name: true,
    });
    Ok(asked.collect())
}
