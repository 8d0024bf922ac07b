//! Which datasets a name, a recipe or the run of a model means.

use std::path::Path;

use hark_audio::MelConfig;
use hark_corpus::{Check, Dataset, DatasetConfig, Reading, ReadingCost, Registry};
use hark_encode::card::ClipLength;
use hark_soundscape as soundscape;
use hark_work::progress::{Progress, no_progress};

use crate::recipe::{Recipe, wrong};
use crate::{Error, run};

/// A dataset of a recipe.
#[derive(Debug, Clone, PartialEq)]
pub struct RecipeSet {
    /// Its key: `data.train`, `data.validation` or `data.test`.
    pub part: &'static str,
    /// Its layout and folder.
    pub config: DatasetConfig,
    /// Whether a training generates it.
    pub is_generated: bool,
}

/// Where datasets are looked for.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// Soundscapes that recipes ask for are generated below this folder.
    pub soundscapes: &'a Path,
    /// Datasets by name.
    pub datasets: &'a Registry,
}

/// All datasets of a recipe, with soundscapes where a training generates them.
///
/// # Errors
/// [`Error::Recipe`] if it names none, and if its soundscapes cannot be made.
pub fn of_recipe(path: &Path, places: Places<'_>) -> Result<Vec<RecipeSet>, Error> {
    let mut recipe = Recipe::read(path, &[])?.with_datasets(places.datasets);
    let absent = recipe.data.parts().map(|(_, sets)| sets.is_empty());
    let config = recipe.soundscapes.clone();
    if let Some(config) = &config {
        recipe = recipe.with_soundscapes_at(&soundscape::folder_for(config, places.soundscapes)?);
    }
    let sets = recipe
        .data
        .parts()
        .into_iter()
        .zip(absent)
        .flat_map(|((part, sets), absent)| {
            let is_generated = absent && config.is_some();
            sets.iter().map(move |config| RecipeSet {
                part,
                config: config.clone(),
                is_generated,
            })
        });
    let sets: Vec<RecipeSet> = sets.collect();
    if sets.is_empty() {
        return Err(Error::Recipe {
            path: path.to_owned(),
            what: "the recipe names no datasets; add [soundscapes], or data.train, data.validation and data.test".into(),
        });
    }
    Ok(sets)
}

/// What reading the training recordings of a recipe takes; `None` if none of them is there.
///
/// # Errors
/// As [`of_recipe`]; [`Error::Cancelled`].
pub fn reading_cost(
    path: &Path,
    places: Places<'_>,
    progress: Progress<'_>,
) -> Result<Option<ReadingCost>, Error> {
    let recipe = Recipe::read(path, &[])?;
    let sets = of_recipe(path, places)?.into_iter();
    let sets: Vec<DatasetConfig> = sets
        .filter(|set| set.part == "data.train")
        .map(|set| set.config)
        .collect();
    // What is wrong with a set, checking it has told.
    let loaded: Vec<Dataset> = sets
        .iter()
        .filter_map(|set| set.load(Check::Presence, 1, &no_progress).ok())
        .collect();
    let paths: Vec<&Path> = loaded
        .iter()
        .flat_map(|data| data.clips.iter().map(|clip| clip.path.as_path()))
        .collect();
    if paths.is_empty() {
        return Ok(None);
    }
    // The audio side of a model that a training starts from is known only when it is opened.
    let (rate, clip) = recipe.audio.map_or_else(
        || (MelConfig::default().rate, ClipLength::Full),
        |audio| (audio.front_end.rate, audio.clip),
    );
    let reading = Reading {
        rate,
        longest_seconds: recipe.data.longest_seconds,
        crop_seconds: match clip {
            ClipLength::Fixed { seconds } => Some(seconds),
            ClipLength::Full | ClipLength::Begun | ClipLength::Unpadded => None,
        },
    };
    Ok(Some(reading.cost(&paths, progress)?))
}

/// The datasets that are evaluated: `KIND:PATH`, the name of a registered dataset, or a recipe's file, and a split of it. Without
/// `data`, those of the run that the model's folder belongs to. Soundscapes are generated if they are not there yet.
///
/// # Errors
/// If nothing says which datasets, there is no such split, or soundscapes cannot be made; [`Error::Cancelled`].
pub fn evaluated(
    data: Option<&str>,
    split: Option<&str>,
    model: Option<&Path>,
    (places, threads): (Places<'_>, usize),
    progress: Progress<'_>,
) -> Result<Vec<DatasetConfig>, Error> {
    let path = if let Some(data) = data {
        if let Some(config) = places.datasets.named(data, split)? {
            return Ok(vec![config]);
        }
        Path::new(data).to_owned()
    } else {
        let run = model.and_then(Path::parent);
        let recipe = run.map(|folder| folder.join(run::RECIPE));
        let recipe = recipe.filter(|path| path.is_file());
        recipe.ok_or_else(|| Error::NoDataNamed {
            model: model.map(Path::to_owned).unwrap_or_default(),
        })?
    };
    // The recipe of a run may be older than a key's name.
    let is_of_run = path.file_name().is_some_and(|name| name == run::RECIPE);
    let recipe = match Recipe::read(&path, &[]) {
        Err(Error::RenamedKeys { .. }) if is_of_run => Recipe::read_resolved(&path, &[])?,
        _ if data.is_none() => Recipe::read_resolved(&path, &[])?,
        read => read?,
    };
    let recipe = recipe.with_datasets(places.datasets);
    // A run's own recipe has its soundscapes named already.
    let recipe = if recipe.data.test.is_empty() {
        recipe.with_generated_soundscapes(places.soundscapes, threads, progress)?
    } else {
        recipe
    };
    let name = split.unwrap_or("test");
    let part = recipe
        .data
        .parts()
        .into_iter()
        .find(|(part, _)| part.strip_prefix("data.") == Some(name));
    let Some((part, sets)) = part else {
        return wrong("split", name, "train, validation or test for a recipe");
    };
    if sets.is_empty() {
        return Err(Error::Recipe {
            path,
            what: {
                let there = recipe
                    .data
                    .parts()
                    .into_iter()
                    .filter(|(_, sets)| !sets.is_empty());
                let there: Vec<&str> = there.filter_map(|(part, _)| part.strip_prefix("data.")).collect();
                format!(
                    "it names no datasets for {part}; it has splits for: {}",
                    there.join(", ")
                )
            },
        });
    }
    if let Some(name) = sets.iter().find_map(DatasetConfig::unregistered) {
        let name = name.to_owned();
        return Err(hark_corpus::Error::NotRegistered { name }.into());
    }
    Ok(sets.to_vec())
}
