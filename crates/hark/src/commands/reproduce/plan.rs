//! What is to be trained: variants of a recipe by seeds and corpora, each with a folder of its own.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use hark_learn::objective::ObjectiveKind;
use hark_learn::recipe::{Recipe, Study};

/// One row of the table: the recipe with some keys changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// In folders: `listnet-audio-minmax`.
    pub name: String,
    /// In tables.
    pub title: String,
    /// As `--set` takes them.
    pub changes: Vec<String>,
    /// The objective.
    pub objective: ObjectiveKind,
}

/// One training.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its row.
    pub variant: usize,
    /// The seed of the soundscapes, where the recipe makes them.
    pub corpus: Option<u64>,
    /// The seed of the training.
    pub seed: u64,
    /// Its run.
    pub folder: PathBuf,
}

/// What the user asked for beside the recipe.
#[derive(Debug, Clone, Default)]
pub struct Wishes {
    pub methods: Vec<ObjectiveKind>,
    pub functions: Vec<String>,
    pub omegas: Vec<f32>,
    pub seeds: Option<u64>,
    pub corpora: Option<u64>,
}

/// All trainings of a study.
#[derive(Debug)]
pub struct Plan {
    /// The recipe's text, and the changes that hold for all.
    text: String,
    path: PathBuf,
    set: Vec<String>,
    /// The recipe with those changes.
    pub base: Recipe,
    pub variants: Vec<Variant>,
    pub jobs: Vec<Job>,
    /// What the study is of: `functions`, `omega`, or the methods themselves.
    pub kind: &'static str,
}

impl Plan {
    /// Reads the recipe and lays out the trainings below `folder`, which is made from the recipe's name where none is given.
    pub fn new(
        path: &Path,
        set: &[String],
        wishes: &Wishes,
        folder: Option<&Path>,
    ) -> Result<(Self, PathBuf)> {
        let text = fs_err::read_to_string(path)?;
        for key in ["seed", "objective.name", "soundscapes.seed"] {
            let is_set = |change: &&String| change.split('=').next().is_some_and(|name| name.trim() == key);
            if set.iter().any(|change| is_set(&change)) {
                bail!("{key} is what a study varies: see --methods, --seeds and --corpora");
            }
        }
        let base = Recipe::parse(&text, path, set)?;
        let mut study = base.study.clone().unwrap_or_default();
        study.seeds = wishes.seeds.unwrap_or(study.seeds);
        study.corpora = wishes.corpora.unwrap_or(study.corpora);
        if base.soundscapes.is_none() && wishes.corpora.is_some_and(|count| count > 1) {
            bail!(
                "--corpora is for recipes that make soundscapes; {} names its data",
                path.display()
            );
        }
        let data = &base.data;
        let named = [&data.train, &data.validation, &data.test]
            .iter()
            .any(|sets| !sets.is_empty());
        if base.soundscapes.is_some() && named && study.corpora > 1 {
            bail!(
                "{} makes soundscapes and names data as well: with several corpora all would have to be soundscapes",
                path.display()
            );
        }
        let (kind, variants) = variants(&base, &study, wishes)?;
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
            base,
            variants,
            jobs,
            kind,
        };
        Ok((plan, folder))
    }

    /// The recipe of one training.
    pub fn recipe(&self, job: &Job) -> Result<Recipe> {
        let mut set = self.set.clone();
        set.extend(self.variants[job.variant].changes.iter().cloned());
        set.push(format!("seed={}", job.seed));
        set.extend(job.corpus.map(|seed| format!("soundscapes.seed={seed}")));
        let mut recipe = Recipe::parse(&self.text, &self.path, &set)?;
        recipe.study = None;
        Ok(recipe)
    }

    /// The row that others are compared with: InfoNCE, or the variant that the recipe has itself.
    pub fn baseline(&self, wished: Option<&str>) -> Result<usize> {
        let position = |name: &str| self.variants.iter().position(|variant| variant.name == name);
        if let Some(name) = wished {
            let names: Vec<&str> = self
                .variants
                .iter()
                .map(|variant| variant.name.as_str())
                .collect();
            return position(name)
                .with_context(|| format!("--baseline {name}: there are {}", names.join(", ")));
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
fn variants(base: &Recipe, study: &Study, wishes: &Wishes) -> Result<(&'static str, Vec<Variant>)> {
    let asked = [!wishes.functions.is_empty(), !wishes.omegas.is_empty()];
    ensure!(
        !(asked[0] && asked[1]),
        "--functions and --omega are two studies: run them one after the other"
    );
    let objective = base.objective.name;
    let of_graded = |kind: &'static str, values: Vec<(String, String, String)>| {
        let methods = match wishes.methods.as_slice() {
            [] if objective.is_graded() => vec![objective],
            [] => vec![ObjectiveKind::ListnetAudio],
            named => named.to_vec(),
        };
        if let Some(name) = methods.iter().find(|name| !name.is_graded()) {
            bail!("{name} has no graded targets: --functions and --omega change nothing about it");
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
        let values = wishes.functions.iter().map(|function| {
            let name = function.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
            (
                name,
                format!("f = {function}"),
                format!("objective.relevance-function=\"{function}\""),
            )
        });
        of_graded("functions", values.collect())?
    } else if asked[1] {
        let values = wishes.omegas.iter().map(|omega| {
            (
                format!("omega-{omega}"),
                format!("omega = {omega}"),
                format!("objective.omega={omega:?}"),
            )
        });
        of_graded("omega", values.collect())?
    } else {
        let methods = if wishes.methods.is_empty() {
            &study.methods
        } else {
            &wishes.methods
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
            bail!("{} is asked for twice", variant.name);
        }
    }
    Ok((kind, variants))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TINY: &str = include_str!("../../../tests/recipes/tiny.toml");

    fn plan(set: &[&str], wishes: &Wishes) -> Result<(Plan, PathBuf)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tiny.toml");
        fs_err::write(&path, TINY).unwrap();
        let set: Vec<String> = set.iter().map(|&change| change.to_owned()).collect();
        Plan::new(&path, &set, wishes, None)
    }

    #[test]
    fn every_method_seed_and_corpus_has_a_folder() {
        let wishes = Wishes {
            methods: vec![ObjectiveKind::Smooth, ObjectiveKind::Infonce],
            seeds: Some(3),
            corpora: Some(2),
            ..Wishes::default()
        };
        let (plan, folder) = plan(&[], &wishes).unwrap();
        assert_eq!(plan.jobs.len(), 12);
        assert_eq!(plan.jobs[3].folder, folder.join("infonce/corpus-2/seed-1"));
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
        let wishes = Wishes {
            functions: vec!["minmax".into(), "logistic".into(), "threshold:at=0.6".into()],
            ..Wishes::default()
        };
        let (functions, folder) = plan(&[], &wishes).unwrap();
        assert!(folder.ends_with("tiny-functions"));
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
        let wishes = Wishes {
            omegas: vec![0.1, 0.05],
            ..Wishes::default()
        };
        let (omegas, _) = plan(&[], &wishes).unwrap();
        assert_eq!(omegas.baseline(None).unwrap(), 1);
        assert_eq!(
            omegas.recipe(&omegas.jobs[0]).unwrap().objective.omega.to_bits(),
            0.1_f32.to_bits()
        );
    }

    #[test]
    fn what_makes_no_study_is_refused() {
        let fails = |set: &[&str], wishes: &Wishes| plan(set, wishes).unwrap_err().to_string();
        let wishes = Wishes::default();
        assert!(fails(&["seed=3"], &wishes).contains("--seeds"));
        assert!(fails(&["objective.name=smooth"], &wishes).contains("--methods"));
        let both = Wishes {
            functions: vec!["minmax".into()],
            omegas: vec![0.1],
            ..Wishes::default()
        };
        assert!(fails(&[], &both).contains("one after the other"));
        let hard = Wishes {
            methods: vec![ObjectiveKind::Infonce],
            omegas: vec![0.1],
            ..Wishes::default()
        };
        assert!(fails(&[], &hard).contains("no graded targets"));
        let none = Wishes {
            seeds: Some(0),
            ..Wishes::default()
        };
        assert!(fails(&[], &none).contains("study.seeds"));
        let twice = Wishes {
            methods: vec![ObjectiveKind::Smooth, ObjectiveKind::Smooth],
            ..Wishes::default()
        };
        assert!(fails(&[], &twice).contains("twice"));
    }
}
