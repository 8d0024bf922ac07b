//! The network that a training starts from, and the card that says what it is.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use hark_encode::card::{self, AudioCard, Card, TextCard};
use hark_encode::checkpoint::Checkpoint;
use hark_encode::dual::{DualEncoder, SideConfig};
use hark_encode::model::{self, TOKENIZER, WEIGHTS};
use hark_encode::tokenize;
use hark_encode::towers::TextConfig;
use hark_encode::weights::RandomInit;
use hark_encode::weights_file;

use crate::Error;
use crate::recipe::{Audio, Recipe, Text};

/// Finds a model's folder by the name that a recipe gives it.
pub type FindModel<'a> = &'a dyn Fn(&str) -> Result<PathBuf, Error>;

/// The card of what a recipe trains on these data. What the models said that it takes weights from (`before`) is said again:
/// their origin, their training data, their terms.
///
/// # Errors
/// If a side is missing, which [`fill_sides`] sees to.
pub fn card(recipe: &Recipe, data: String, written_by: &str, before: &[Card]) -> Result<Card, Error> {
    let mut training_data: Vec<String> = before
        .iter()
        .flat_map(|card| card.training_data.clone())
        .collect();
    training_data.push(data);
    training_data.dedup();
    let licences: std::collections::BTreeSet<String> =
        before.iter().filter_map(|card| card.licence.clone()).collect();
    let (Some(audio), Some(text)) = (&recipe.audio, &recipe.text) else {
        return Err(Error::Option {
            option: "audio",
            value: "not there".into(),
            allowed: "there, or taken from training.init-from".into(),
        });
    };
    Ok(Card {
        version: card::VERSION,
        written_by: written_by.to_owned(),
        audio: Some(AudioCard {
            side: SideConfig {
                network: audio.network.clone(),
                projection: audio.projection.clone(),
            },
            front_end: audio.front_end.clone(),
            segment_seconds: audio.segment_seconds,
            clip: audio.clip,
            labels: Vec::new(),
        }),
        text: Some(text_card(text)),
        sentence: None,
        origin: before.iter().flat_map(|card| card.origin.clone()).collect(),
        training_data,
        metrics: std::collections::BTreeMap::new(),
        // Terms of what it was made from bind what was made.
        warnings: before.iter().flat_map(|card| card.warnings.clone()).collect(),
        licence: (!licences.is_empty()).then(|| licences.into_iter().collect::<Vec<_>>().join(" and ")),
    })
}

/// The cards of the models that a training takes weights from.
///
/// # Errors
/// If one of them cannot be found or read.
pub fn cards_before(recipe: &Recipe, find: FindModel<'_>) -> Result<Vec<Card>, Error> {
    let audio = recipe.audio.as_ref().and_then(|audio| audio.weights.as_ref());
    let text = recipe.text.as_ref().and_then(|text| text.weights.as_ref());
    let from = [recipe.training.init_from.as_ref(), audio, text];
    from.into_iter()
        .flatten()
        .map(|from| Ok(Card::read(&find(from)?.join(model::CARD))?))
        .collect()
}

/// Takes the sides that a recipe does not name from the model that it starts from.
///
/// # Errors
/// If that model has no card, or only one side.
pub fn fill_sides(recipe: &mut Recipe, find: FindModel<'_>) -> Result<(), Error> {
    let (Some(init), None) = (&recipe.training.init_from, &recipe.audio) else {
        return Ok(());
    };
    let folder = find(init)?;
    let card = Card::read(&folder.join(model::CARD))?;
    let missing = |what| hark_encode::Error::NoTower {
        path: folder.clone(),
        what,
    };
    let audio = card.audio.ok_or_else(|| missing("audio"))?;
    let text = card.text.ok_or_else(|| missing("text"))?;
    recipe.audio = Some(Audio {
        weights: None,
        network: audio.side.network,
        projection: audio.side.projection,
        front_end: audio.front_end,
        segment_seconds: audio.segment_seconds,
        clip: audio.clip,
        jitter: false,
        masking: None,
    });
    recipe.text = Some(Text {
        weights: None,
        network: text.side.network,
        projection: text.side.projection,
        max_tokens: text.max_tokens,
        strip_punctuation: text.strip_punctuation,
        lower_case: text.lower_case,
        train_tokenizer: None,
    });
    recipe.check()
}

/// The text of the tokenizer: that of the model which the text side starts from, or one that is trained on the captions. The
/// recipe's vocabulary becomes its size where the tower is made for it. A training that goes on has kept it in a file.
///
/// # Errors
/// [`Error::NoTokenizer`], or if the tokenizer cannot be trained or read.
pub fn tokenizer(
    recipe: &mut Recipe,
    captions: &[&str],
    kept: Option<&Path>,
    find: FindModel<'_>,
) -> Result<String, Error> {
    let Some(text) = &mut recipe.text else {
        return Err(Error::NoTokenizer);
    };
    let prepare = text_card(text);
    let vocabulary = match &mut text.network {
        TextConfig::Roberta(config) => &mut config.vocabulary,
        TextConfig::Sentence(config) => &mut config.vocabulary,
    };
    let is_fresh = is_part("text.tower", &recipe.training.reinitialize);
    // Weights know tokens by their numbers: with the weights comes the tokenizer.
    let init = recipe.training.init_from.as_ref().filter(|_| !is_fresh);
    let given = match (kept, text.weights.as_ref().or(init)) {
        (Some(kept), _) => Some(kept.to_owned()),
        (None, Some(from)) => Some(find(from)?.join(TOKENIZER)),
        (None, None) => None,
    };
    if let Some(given) = given {
        let tokenizer = fs_err::read_to_string(given)?;
        if text.train_tokenizer.is_some() {
            *vocabulary = tokenize::vocabulary_size(&tokenizer)?;
        }
        return Ok(tokenizer);
    }
    let kind = text.train_tokenizer.ok_or(Error::NoTokenizer)?;
    let prepared: Vec<String> = captions.iter().map(|caption| prepare.prepare(caption)).collect();
    let prepared: Vec<&str> = prepared.iter().map(String::as_str).collect();
    let tokenizer = tokenize::train(&prepared, kind, *vocabulary)?;
    *vocabulary = tokenize::vocabulary_size(&tokenizer)?;
    Ok(tokenizer)
}

/// The text side's part of the card.
fn text_card(text: &Text) -> TextCard {
    TextCard {
        side: SideConfig {
            network: text.network.clone(),
            projection: text.projection.clone(),
        },
        max_tokens: text.max_tokens,
        strip_punctuation: text.strip_punctuation,
        lower_case: text.lower_case,
    }
}

/// Whether a parameter belongs to one of the parts, which are named by the beginnings of their parameters' names.
pub fn is_part(name: &str, parts: &[String]) -> bool {
    parts.iter().any(|part| {
        name.strip_prefix(part.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// The network of a card with the weights that the recipe starts from.
///
/// # Errors
/// If a model cannot be read or does not have the weights.
pub fn start(
    recipe: &Recipe,
    card: &Card,
    find: FindModel<'_>,
    device: &Device,
) -> Result<DualEncoder, Error> {
    let mut network = random(recipe, card, device)?;
    let weights =
        |side: &str, from: Option<&String>| from.map(|from| (format!("{side}.tower."), from.clone()));
    let mut given: Vec<(String, String)> = Vec::new();
    given.extend(
        recipe
            .training
            .init_from
            .as_ref()
            .map(|from| (String::new(), from.clone())),
    );
    given.extend(weights(
        "audio",
        recipe.audio.as_ref().and_then(|audio| audio.weights.as_ref()),
    ));
    given.extend(weights(
        "text",
        recipe.text.as_ref().and_then(|text| text.weights.as_ref()),
    ));
    for (prefix, from) in given {
        let file = weights_of(&find(&from)?)?;
        let given = |name: &str| name.starts_with(&prefix) && !is_part(name, &recipe.training.reinitialize);
        network = weights_file::update_some(network, &given, &mut |name, shape, _| file.take(name, shape))?;
        check_all_taken(&file, &prefix, &recipe.training.reinitialize)?;
    }
    Ok(network)
}

/// The network of a card with random weights.
///
/// # Errors
/// If its sizes are impossible, or the recipe names parts that it does not have.
pub fn random(recipe: &Recipe, card: &Card, device: &Device) -> Result<DualEncoder, Error> {
    let audio = card.audio.as_ref().map(|card| &card.side);
    let text = card.text.as_ref().map(|card| &card.side);
    let network = DualEncoder::build(audio, text, &RandomInit(recipe.seed), device)?;
    check_parts(recipe, &network)?;
    Ok(network)
}

fn weights_of(folder: &Path) -> Result<Checkpoint, Error> {
    Ok(Checkpoint::open(&folder.join(WEIGHTS))?)
}

/// That nothing of a model is left over but what the recipe does not want of it: a deeper network than the recipe's would
/// otherwise lose its last layers without a word.
fn check_all_taken(file: &Checkpoint, prefix: &str, fresh: &[String]) -> Result<(), Error> {
    let left = file.untaken();
    let left = left.filter(|name| name.starts_with(prefix) && !is_part(name, fresh));
    let names: Vec<String> = left.map(ToOwned::to_owned).collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(hark_encode::Error::UnexpectedTensors {
        path: file.path().to_owned(),
        names,
    }
    .into())
}

/// That every part which a recipe names exists: a misspelt one would be ignored.
fn check_parts(recipe: &Recipe, network: &DualEncoder) -> Result<(), Error> {
    let names: Vec<String> = weights_file::parameters(network)
        .into_iter()
        .map(|stored| stored.name)
        .collect();
    let training = &recipe.training;
    let named = training.freeze.iter().map(|part| ("training.freeze", part));
    let named = named.chain(
        training
            .reinitialize
            .iter()
            .map(|part| ("training.reinitialize", part)),
    );
    for (option, part) in named.chain(
        training
            .lr_multipliers
            .keys()
            .map(|part| ("training.lr-multipliers", part)),
    ) {
        if !names.iter().any(|name| is_part(name, std::slice::from_ref(part))) {
            return Err(Error::Option {
                option,
                value: part.clone(),
                allowed: "the beginning of parameters' names, such as audio, audio.tower, text.projection or audio.tower.transformer.blocks.0".into(),
            });
        }
    }
    if names.iter().all(|name| is_part(name, &training.freeze)) {
        return Err(Error::Option {
            option: "training.freeze",
            value: training.freeze.join(", "),
            allowed: "less than everything".into(),
        });
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Two towers of a few numbers each.
    const TINY: &str = r#"
name = "tiny"
[audio]
network = { tower = "cnn", mels = 128, channels = [2], width = 3 }
projection = [4]
segment-seconds = 0.2
clip = { length = "true" }
[text]
network = { tower = "roberta", vocabulary = 9, positions = 8, width = 4, hidden = 6, layers = 2, heads = 2, epsilon = 1e-5, types = 1, dropout = 0.1, attention-dropout = 0.1 }
projection = [5, 4]
max-tokens = 6
train-tokenizer = "words"
"#;

    pub(crate) fn recipe(set: &[&str]) -> Recipe {
        let set: Vec<String> = set.iter().map(ToString::to_string).collect();
        Recipe::parse(TINY, Path::new("tiny.toml"), &set).unwrap()
    }

    pub(crate) fn tiny_card(recipe: &Recipe) -> Card {
        card(recipe, String::new(), "a test", &[]).unwrap()
    }

    fn nowhere(name: &str) -> Result<PathBuf, Error> {
        panic!("{name} was asked for");
    }

    /// The network that a recipe starts with where it names no models.
    pub(crate) fn tiny(recipe: &Recipe) -> DualEncoder {
        start(
            recipe,
            &tiny_card(recipe),
            &nowhere,
            hark_encode::Compute::cpu(1).device(),
        )
        .unwrap()
    }

    /// Names and numbers of all parameters.
    pub(crate) fn all(network: &DualEncoder) -> Vec<(String, Vec<f32>)> {
        let stored = weights_file::parameters(network).into_iter();
        stored.map(|stored| (stored.name, (stored.numbers)())).collect()
    }

    /// Writes a model of this recipe of which no tensor is as a fresh one, and gives its parameters.
    fn model(folder: &Path, recipe: &Recipe) -> Vec<(String, Vec<f32>)> {
        let shifted = weights_file::update_tensors(tiny(recipe), &mut |_, numbers| Ok(numbers + 2.0));
        let network = shifted.unwrap();
        model::save(folder, &tiny_card(recipe), &network, Some("{}")).unwrap();
        all(&network)
    }

    fn begin(recipe: &Recipe, folder: &Path) -> Result<Vec<(String, Vec<f32>)>, String> {
        let find = |_: &str| Ok(folder.to_owned());
        let network = start(
            recipe,
            &tiny_card(recipe),
            &find,
            hark_encode::Compute::cpu(1).device(),
        );
        network.map(|network| all(&network)).map_err(|e| e.to_string())
    }

    #[test]
    fn a_part_is_the_beginning_of_a_name_up_to_a_dot() {
        let parts = |parts: &[&str]| -> Vec<String> { parts.iter().map(ToString::to_string).collect() };
        let name = "audio.tower.stages.1.weight";
        for part in ["audio", "audio.tower", "audio.tower.stages.1", name] {
            assert!(is_part(name, &parts(&["text", part])), "{part}");
        }
        for part in [
            "",
            "aud",
            "audio.",
            "audio.tow",
            "tower",
            "audio.tower.stages.10",
            "audio.tower.stages.1.weight.x",
        ] {
            assert!(!is_part(name, &parts(&["text", part])), "{part}");
        }
        assert!(!is_part(
            "audio.tower.stages.10.weight",
            &parts(&["audio.tower.stages.1"])
        ));
        assert!(!is_part(name, &[]));
    }

    #[test]
    fn a_part_that_the_network_does_not_have_is_refused() {
        for (set, option) in [
            ("training.freeze=[\"text\", \"audio.tover\"]", "training.freeze"),
            ("training.reinitialize=[\"audio.tover\"]", "training.reinitialize"),
            (
                "training.lr-multipliers={ \"audio.tover\" = 0.5 }",
                "training.lr-multipliers",
            ),
        ] {
            let recipe = recipe(&[set]);
            let error = begin(&recipe, Path::new("")).unwrap_err();
            assert!(error.contains("audio.tover") && error.contains(option), "{error}");
        }
        let everything = recipe(&["training.freeze=[\"text\", \"audio\"]"]);
        let error = begin(&everything, Path::new("")).unwrap_err();
        assert!(error.contains("less than everything"), "{error}");
        let known = recipe(&["training.freeze=[\"text\", \"audio.projection\"]"]);
        assert!(begin(&known, Path::new("")).is_ok());
    }

    #[test]
    fn the_same_seed_gives_the_same_network_and_another_another() {
        assert_eq!(all(&tiny(&recipe(&[]))), all(&tiny(&recipe(&["seed=1"]))));
        assert_ne!(all(&tiny(&recipe(&[]))), all(&tiny(&recipe(&["seed=2"]))));
    }

    #[test]
    fn a_training_takes_over_a_model_but_for_its_fresh_parts() {
        let folder = tempfile::tempdir().unwrap();
        let saved = model(folder.path(), &recipe(&[]));
        let from = "training.init-from=model";
        assert_eq!(begin(&recipe(&[from, "seed=2"]), folder.path()).unwrap(), saved);

        let fresh = recipe(&[
            from,
            "seed=2",
            "training.reinitialize=[\"text.projection\", \"audio.tower.stages.0\"]",
        ]);
        let anew = all(&tiny(&recipe(&["seed=2"])));
        let mut fresh_ones = 0;
        for ((got, saved), anew) in begin(&fresh, folder.path())
            .unwrap()
            .iter()
            .zip(&saved)
            .zip(&anew)
        {
            let is_fresh = is_part(&got.0, &fresh.training.reinitialize);
            assert_eq!(got, if is_fresh { anew } else { saved });
            assert_ne!(saved.1, anew.1, "{}", got.0);
            fresh_ones += usize::from(is_fresh);
        }
        // Two linear layers and a convolution.
        assert_eq!(fresh_ones, 6);
    }

    #[test]
    fn a_side_takes_over_the_tower_of_a_model_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let saved = model(folder.path(), &recipe(&[]));
        let anew = all(&tiny(&recipe(&["seed=2"])));
        for (set, prefix) in [
            ("audio.weights=model", "audio.tower."),
            ("text.weights=model", "text.tower."),
        ] {
            let got = begin(&recipe(&[set, "seed=2"]), folder.path()).unwrap();
            for ((got, saved), anew) in got.iter().zip(&saved).zip(&anew) {
                assert_eq!(got, if got.0.starts_with(prefix) { saved } else { anew });
            }
        }
    }

    #[test]
    fn a_model_of_another_architecture_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        model(folder.path(), &recipe(&[]));
        let file = folder.path().join(WEIGHTS).display().to_string();
        for (set, expected) in [
            // Wider, deeper, shallower.
            ("text.network.hidden=7", "has shape"),
            ("audio.network.channels=[2, 2]", "stages.1"),
            ("text.network.layers=3", "blocks.2"),
            ("text.network.layers=1", "blocks.1"),
            ("audio.projection=[4, 4]", "audio.projection.layers.1"),
        ] {
            let other = recipe(&["training.init-from=model", set]);
            let error = begin(&other, folder.path()).unwrap_err();
            assert!(
                error.contains(&file) && error.contains(expected),
                "{set}: {error}"
            );
        }
        let other = recipe(&["text.weights=model", "text.network.layers=1"]);
        let error = begin(&other, folder.path()).unwrap_err();
        assert!(error.contains("blocks.1"), "{error}");
        // Other projections are no hindrance where only towers are taken, or where they are to be fresh.
        let other = recipe(&["text.weights=model", "text.projection=[4]"]);
        assert!(begin(&other, folder.path()).is_ok());
        let other = recipe(&[
            "training.init-from=model",
            "text.projection=[4]",
            "training.reinitialize=[\"text.projection\"]",
        ]);
        assert!(begin(&other, folder.path()).is_ok());
    }

    #[test]
    fn sides_that_a_recipe_leaves_out_are_those_of_its_model() {
        let folder = tempfile::tempdir().unwrap();
        let whole = recipe(&[]);
        let saved = model(folder.path(), &whole);
        let text = "name = \"on\"\n[training]\ninit-from = \"model\"\n";
        let mut recipe = Recipe::parse(text, Path::new("on.toml"), &[]).unwrap();
        assert!(card(&recipe, String::new(), "", &[]).is_err());
        fill_sides(&mut recipe, &|_| Ok(folder.path().to_owned())).unwrap();
        let (card, expected) = (tiny_card(&recipe), tiny_card(&whole));
        assert_eq!((card.audio, card.text), (expected.audio, expected.text));
        assert_eq!(begin(&recipe, folder.path()).unwrap(), saved);
        let found = tokenizer(&mut recipe, &[], None, &|_| Ok(folder.path().to_owned()));
        assert_eq!(found.unwrap(), "{}");
    }

    #[test]
    fn a_trained_tokenizer_sets_the_vocabulary() {
        let mut recipe = recipe(&[]);
        tokenizer(&mut recipe, &["a dog", "a cat", "a dog"], None, &nowhere).unwrap();
        let TextConfig::Roberta(config) = recipe.text.unwrap().network else {
            panic!("another tower");
        };
        // Four special tokens and three words.
        assert_eq!(config.vocabulary, 7);
    }

    #[test]
    fn a_text_side_without_a_tokenizer_is_refused() {
        let mut recipe = recipe(&[]);
        if let Some(text) = &mut recipe.text {
            text.train_tokenizer = None;
        }
        let found = tokenizer(&mut recipe, &["a dog"], None, &nowhere);
        assert!(matches!(found, Err(Error::NoTokenizer)));
    }
}
