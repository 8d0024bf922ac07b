//! The recipes of the repository: each is whole, says nothing unknown, and survives being written.

use std::path::Path;

use hark_encode::towers::passt::PasstConfig;
use hark_encode::towers::roberta::RobertaConfig;
use hark_encode::towers::{AudioConfig, TextConfig};
use hark_learn::recipe::Recipe;
use hark_learn::schedule::Schedule;

fn recipes() -> Vec<(String, Recipe)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
    let mut recipes: Vec<(String, Recipe)> = fs_err::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, Recipe::read(&path, &[]).unwrap())
        })
        .collect();
    recipes.sort_by(|a, b| a.0.cmp(&b.0));
    recipes
}

#[test]
fn every_recipe_is_read_and_named_as_its_file() {
    let recipes = recipes();
    let names: Vec<&str> = recipes.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "audiocaps",
        "audiocaps-finetune",
        "clotho",
        "clotho-finetune",
        "esc10",
        "finetune-own",
        "pretrain",
        "soundscape-full",
        "soundscape-large",
        "soundscape-quick",
    ];
    assert_eq!(names, expected);
    for (name, recipe) in &recipes {
        assert_eq!(name, &recipe.name);
        let written = recipe.to_toml().unwrap();
        assert_eq!(recipe, &Recipe::parse(&written, Path::new(name), &[]).unwrap());
    }
}

/// What the paper and its authors' configuration say.
#[test]
fn the_papers_recipes_have_the_papers_numbers() {
    for (name, recipe) in recipes() {
        let paper = ["audiocaps", "clotho", "pretrain"]
            .iter()
            .any(|set| name.starts_with(set));
        if !paper {
            continue;
        }
        let (audio, text) = (recipe.audio.unwrap(), recipe.text.unwrap());
        assert_eq!(audio.network, AudioConfig::Passt(PasstConfig::small()), "{name}");
        assert_eq!(
            text.network,
            TextConfig::Roberta(RobertaConfig::large()),
            "{name}"
        );
        assert_eq!(
            (audio.projection, text.projection),
            (vec![1024, 1024], vec![1024, 1024])
        );
        assert_eq!(audio.front_end, hark_audio::MelConfig::default());
        assert!(audio.jitter && audio.masking.is_none());
        assert_eq!((recipe.training.batch, recipe.training.epochs), (32, 25));
        assert_eq!(recipe.training.schedule, Schedule::default());
        assert!((recipe.objective.tau - 0.05).abs() < 1e-9 && (recipe.objective.omega - 0.05).abs() < 1e-9);
        assert_eq!(recipe.objective.sentence_encoder, "all-mpnet-base-v2");
        assert_eq!(
            recipe.training.init_from.is_some(),
            name.ends_with("-finetune"),
            "{name}"
        );
    }
}
