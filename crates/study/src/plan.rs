//! What a study trains: variants of a recipe by seeds and corpora, each run with a folder of its own.

use std::path::{Path, PathBuf};

use hark_corpus::Registry;
use hark_learn::objective::ObjectiveKind;
use hark_learn::recipe::{Recipe, Study};

use crate::Error;

/// One row of the table: the recipe with some keys changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// In folders: `listnet-audio-minmax`.
    pub name: String,
    /// In tables.
    pub title: String,
    /// As `--set` takes them.
    pub changes: Vec<String>,
    /// What it is trained with.
    pub objective: ObjectiveKind,
}

/// One training.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its row in [`Plan::variants`].
    pub variant: usize,
    /// The seed of the soundscapes, where the recipe makes them.
    pub corpus: Option<u64>,
    /// The seed of the training.
    pub seed: u64,
    /// The run's folder.
    pub folder: PathBuf,
}

/// What a caller sets instead of the recipe's `study` table. Empty lists and none leave it as it is.
#[derive(Debug, Clone, Default)]
pub struct StudyOverrides {
    /// Objectives to compare.
    pub methods: Vec<ObjectiveKind>,
    /// Compare graded methods with these relevance functions instead.
    pub functions: Vec<String>,
    /// Compare graded methods with these temperatures of the targets instead.
    pub omegas: Vec<f32>,
    /// Trainings of each method.
    pub seeds: Option<u64>,
    /// Soundscapes of how many seeds.
    pub corpora: Option<u64>,
}

/// All trainings of a study.
#[derive(Debug)]
pub struct Plan {
    /// The recipe's text, and the changes that hold for all.
    text: String,
    path: PathBuf,
    set: Vec<String>,
    datasets: Registry,
    /// The recipe with those changes, and with the folders of the datasets that it names.
    pub base: Recipe,
    /// The rows of the table.
    pub variants: Vec<Variant>,
    /// In the order in which they are trained.
    pub jobs: Vec<Job>,
    /// What is compared: `methods`, `functions` or `omega`.
    pub kind: &'static str,
    /// Where everything goes.
    pub folder: PathBuf,
}

impl Plan {
    /// Reads the recipe with `set` (as `key=value`) applied and its datasets found in `datasets`, and lays out the runs
    /// below `folder`, by default `studies/NAME`. Nothing is written.
    ///
    /// # Errors
    /// [`Error::Learn`] if the recipe, or that of one of the runs, is wrong; others if it makes no study.
    pub fn new(
        path: &Path,
        set: &[String],
        overrides: &StudyOverrides,
        datasets: &Registry,
        folder: Option<&Path>,
    ) -> Result<Self, Error> {
        let text = fs_err::read_to_string(path)?;
        for key in ["seed", "objective.name", "soundscapes.seed"] {
            let is_set = |change: &&String| change.split('=').next().is_some_and(|name| name.trim() == key);
            if set.iter().any(|change| is_set(&change)) {
                return Err(Error::VariedKey { key });
            }
        }
        let base = Recipe::parse(&text, path, set)?.with_datasets(datasets);
        let mut study = base.study.clone().unwrap_or_default();
        study.seeds = overrides.seeds.unwrap_or(study.seeds);
        study.corpora = overrides.corpora.unwrap_or(study.corpora);
        let data = &base.data;
        let named = [&data.train, &data.validation, &data.test]
            .iter()
            .any(|sets| !sets.is_empty());
        let without = base.soundscapes.is_none() && overrides.corpora.is_some_and(|count| count > 1);
        if without || base.soundscapes.is_some() && named && study.corpora > 1 {
            return Err(Error::Corpora {
                recipe: path.to_owned(),
            });
        }
        let (kind, variants) = variants(&base, &study, overrides)?;
        study.check()?;
        let default = match kind {
            "methods" => base.name.clone(),
            kind => format!("{}-{kind}", base.name),
        };
        let folder = folder.map_or_else(|| Path::new("studies").join(default), Path::to_owned);
        let corpora: Vec<u64> = base.soundscapes.iter().flat_map(|_| 1..=study.corpora).collect();
        let mut jobs = Vec::new();
        // Every seed over all methods before the next: what is done at any time can be compared.
        for seed in 1..=study.seeds {
            let places: Vec<Option<u64>> = match corpora.as_slice() {
                [] => vec![None],
                seeds => seeds.iter().copied().map(Some).collect(),
            };
            for corpus in places {
                for (variant, described) in variants.iter().enumerate() {
                    let mut run = folder.join(&described.name);
                    if let Some(corpus) = corpus {
                        run.push(format!("corpus-{corpus}"));
                    }
                    run.push(format!("seed-{seed}"));
                    jobs.push(Job {
                        variant,
                        corpus,
                        seed,
                        folder: run,
                    });
                }
            }
        }
        let plan = Self {
            text,
            path: path.to_owned(),
            set: set.to_vec(),
            datasets: datasets.clone(),
            base,
            variants,
            jobs,
            kind,
            folder,
        };
        for job in &plan.jobs {
            plan.recipe(job)?;
        }
        Ok(plan)
    }

    /// What the study is known by: its recipe, resolved, without its `study` table, as what is repeated may grow, and without what
    /// may change while a training goes on.
    ///
    /// # Errors
    /// [`Error::Learn`] if it cannot be written as TOML.
    pub fn recipe_text(&self) -> Result<String, Error> {
        identity_text(&self.base)
    }

    /// The recipe of one run.
    ///
    /// # Errors
    /// [`Error::Learn`] if it is wrong.
    pub fn recipe(&self, job: &Job) -> Result<Recipe, Error> {
        let mut set = self.set.clone();
        set.extend(self.variants[job.variant].changes.iter().cloned());
        set.push(format!("seed={}", job.seed));
        set.extend(job.corpus.map(|seed| format!("soundscapes.seed={seed}")));
        let mut recipe = Recipe::parse(&self.text, &self.path, &set)?.with_datasets(&self.datasets);
        recipe.study = None;
        Ok(recipe)
    }

    /// The row that others are compared with: the one that is named, else InfoNCE or the recipe's own variant.
    ///
    /// # Errors
    /// [`Error::UnknownBaseline`].
    pub fn baseline(&self, name: Option<&str>) -> Result<usize, Error> {
        let position = |name: &str| self.variants.iter().position(|variant| variant.name == name);
        if let Some(name) = name {
            return position(name).ok_or_else(|| Error::UnknownBaseline {
                name: name.to_owned(),
                known: self.variants.iter().map(|variant| variant.name.clone()).collect(),
            });
        }
        let own = |variant: &Variant| {
            let recipe = Recipe::parse(
                &self.text,
                &self.path,
                &[self.set.as_slice(), &variant.changes].concat(),
            );
            recipe.is_ok_and(|recipe| {
                recipe.objective.relevance_function == self.base.objective.relevance_function
                    && recipe.objective.omega.to_bits() == self.base.objective.omega.to_bits()
            })
        };
        Ok(match self.kind {
            "methods" => position("infonce").unwrap_or(0),
            _ => self.variants.iter().position(own).unwrap_or(0),
        })
    }

    /// Which rows are compared: all with the baseline, and graded methods with the controls that share their direction.
    pub fn comparisons(&self, baseline: usize) -> Vec<(usize, usize)> {
        let mut pairs: Vec<(usize, usize)> = (0..self.variants.len())
            .filter(|&row| row != baseline)
            .map(|row| (row, baseline))
            .collect();
        if self.kind == "methods" {
            let find =
                |name: ObjectiveKind| self.variants.iter().position(|variant| variant.objective == name);
            for (graded, control) in [
                (ObjectiveKind::ListnetAudio, ObjectiveKind::InfonceAudio),
                (ObjectiveKind::ListnetAudio, ObjectiveKind::Smooth),
                (ObjectiveKind::ListnetText, ObjectiveKind::InfonceText),
            ] {
                if let (Some(graded), Some(control)) = (find(graded), find(control)) {
                    let known =
                        |&(a, b): &(usize, usize)| (a, b) == (graded, control) || (b, a) == (graded, control);
                    if !pairs.iter().any(known) {
                        pairs.push((graded, control));
                    }
                }
            }
        }
        pairs
    }
}

/// The rows of the table.
fn variants(
    base: &Recipe,
    study: &Study,
    overrides: &StudyOverrides,
) -> Result<(&'static str, Vec<Variant>), Error> {
    let asked = [!overrides.functions.is_empty(), !overrides.omegas.is_empty()];
    if asked[0] && asked[1] {
        return Err(Error::TwoStudies);
    }
    let objective = base.objective.name;
    let of_graded = |kind: &'static str, values: Vec<(String, String, String)>| {
        let methods = match overrides.methods.as_slice() {
            [] if objective.is_graded() => vec![objective],
            [] => vec![ObjectiveKind::ListnetAudio],
            named => named.to_vec(),
        };
        if let Some(name) = methods.iter().find(|name| !name.is_graded()) {
            return Err(Error::NotGraded {
                method: name.to_string(),
            });
        }
        let mut variants = Vec::new();
        for method in methods {
            for (name, title, change) in &values {
                variants.push(Variant {
                    name: format!("{method}-{name}"),
                    title: format!("{}, {title}", method.title()),
                    changes: vec![format!("objective.name={method}"), change.clone()],
                    objective: method,
                });
            }
        }
        Ok((kind, variants))
    };
    let (kind, variants) = if asked[0] {
        let values = overrides.functions.iter().map(|function| {
            let name = function.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
            (
                name,
                format!("f = {function}"),
                format!("objective.relevance-function=\"{function}\""),
            )
        });
        of_graded("functions", values.collect())?
    } else if asked[1] {
        let values = overrides.omegas.iter().map(|omega| {
            (
                format!("omega-{omega}"),
                format!("omega = {omega}"),
                format!("objective.omega={omega:?}"),
            )
        });
        of_graded("omega", values.collect())?
    } else {
        let methods = if overrides.methods.is_empty() {
            &study.methods
        } else {
            &overrides.methods
        };
        let variants = methods.iter().map(|method| Variant {
            name: method.to_string(),
            title: method.title().to_owned(),
            changes: vec![format!("objective.name={method}")],
            objective: *method,
        });
        ("methods", variants.collect())
    };
    for (nth, variant) in variants.iter().enumerate() {
        if variants[..nth].iter().any(|other| other.name == variant.name) {
            return Err(Error::Twice {
                name: variant.name.clone(),
            });
        }
    }
    Ok((kind, variants))
}

/// The identity of a study's recipe as TOML.
pub(crate) fn identity_text(recipe: &Recipe) -> Result<String, Error> {
    let mut recipe = recipe.identity();
    recipe.study = None;
    Ok(recipe.to_toml()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TINY: &str = include_str!("../../hark/tests/recipes/tiny.toml");

    fn plan(set: &[&str], overrides: &StudyOverrides) -> Result<Plan, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tiny.toml");
        fs_err::write(&path, TINY).unwrap();
        let set: Vec<String> = set.iter().map(|&change| change.to_owned()).collect();
        Plan::new(&path, &set, overrides, &Registry::default(), None)
    }

    #[test]
    fn every_method_seed_and_corpus_has_a_folder() {
        let overrides = StudyOverrides {
            methods: vec![ObjectiveKind::Smooth, ObjectiveKind::Infonce],
            seeds: Some(3),
            corpora: Some(2),
            ..StudyOverrides::default()
        };
        let plan = plan(&[], &overrides).unwrap();
        assert_eq!(plan.jobs.len(), 12);
        assert_eq!(plan.jobs[3].folder, plan.folder.join("infonce/corpus-2/seed-1"));
        assert_eq!(plan.baseline(None).unwrap(), 1);
        assert_eq!(plan.comparisons(1), [(0, 1)]);
        let recipe = plan.recipe(&plan.jobs[3]).unwrap();
        assert_eq!((recipe.objective.name, recipe.seed), (ObjectiveKind::Infonce, 1));
        assert_eq!(recipe.soundscapes.unwrap().seed, 2);
        assert!(
            plan.baseline(Some("other"))
                .unwrap_err()
                .to_string()
                .contains("smooth, infonce")
        );
    }

    #[test]
    fn functions_and_omegas_are_variants_of_graded_methods() {
        let overrides = StudyOverrides {
            functions: vec!["minmax".into(), "logistic".into(), "threshold:at=0.6".into()],
            ..StudyOverrides::default()
        };
        let functions = plan(&[], &overrides).unwrap();
        assert!(functions.folder.ends_with("tiny-functions"));
        let names: Vec<&str> = functions
            .variants
            .iter()
            .map(|variant| variant.name.as_str())
            .collect();
        assert_eq!(
            names,
            [
                "listnet-both-minmax",
                "listnet-both-logistic",
                "listnet-both-threshold-at-0-6"
            ]
        );
        assert_eq!(functions.baseline(None).unwrap(), 1);
        assert_eq!(
            functions
                .recipe(&functions.jobs[2])
                .unwrap()
                .objective
                .relevance_function,
            "threshold:at=0.6"
        );
        let overrides = StudyOverrides {
            omegas: vec![0.1, 0.05],
            ..StudyOverrides::default()
        };
        let omegas = plan(&[], &overrides).unwrap();
        assert_eq!(omegas.baseline(None).unwrap(), 1);
        assert_eq!(
            omegas.recipe(&omegas.jobs[0]).unwrap().objective.omega.to_bits(),
            0.1_f32.to_bits()
        );
    }

    #[test]
    fn what_makes_no_study_is_refused() {
        let fails = |set: &[&str], overrides: &StudyOverrides| plan(set, overrides).unwrap_err().to_string();
        let overrides = StudyOverrides::default();
        assert!(fails(&["seed=3"], &overrides).contains("--seeds"));
        assert!(fails(&["objective.name=smooth"], &overrides).contains("--methods"));
        let both = StudyOverrides {
            functions: vec!["minmax".into()],
            omegas: vec![0.1],
            ..StudyOverrides::default()
        };
        assert!(fails(&[], &both).contains("one after the other"));
        let hard = StudyOverrides {
            methods: vec![ObjectiveKind::Infonce],
            omegas: vec![0.1],
            ..StudyOverrides::default()
        };
        assert!(fails(&[], &hard).contains("no graded targets"));
        let none = StudyOverrides {
            seeds: Some(0),
            ..StudyOverrides::default()
        };
        assert!(fails(&[], &none).contains("study.seeds"));
        let twice = StudyOverrides {
            methods: vec![ObjectiveKind::Smooth, ObjectiveKind::Smooth],
            ..StudyOverrides::default()
        };
        assert!(fails(&[], &twice).contains("twice"));
    }
}
