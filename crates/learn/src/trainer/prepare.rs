//! From a recipe to a training that can begin: data, tokenizer, targets, network, and the state that it goes on from.

use std::path::Path;

use burn::module::Module;
use hark_corpus::{AudioCache, Check, Dataset};
use hark_encode::card::Card;
use hark_encode::dual::DualEncoder;
use hark_encode::tokenize::Tokenizer;
use hark_encode::towers::Tower;
use hark_encode::{Arithmetic, Compute, DeviceName, model, weights_file};
use hark_nearest::Vectors;
use hark_relevance::RelevanceFunction;
use hark_work::files::hex;
use hark_work::random::{Random, key};
use sha2::{Digest, Sha256};

use super::learner::targets;
use super::order::{Purpose, batches_per_epoch, order};
use super::{OnEvent, TrainEvent, TrainOptions, Trainer};
use crate::Error;
use crate::caption_embeddings::{CaptionEmbeddings, Embed};
use crate::clips::Clips;
use crate::network::{self, FindModel, is_part};
use crate::objective::{Objective, ObjectiveKind};
use crate::optimizer::AdamW;
use crate::recipe::Recipe;
use crate::run::{self, LeftOut, RECIPE, Run, State};
use crate::split::{Frozen, Split};

/// Batches from which the mass of `smooth` is estimated.
const SAMPLED_BATCHES: usize = 64;

impl Trainer {
    pub(super) fn prepare(setup: TrainOptions<'_>, run: Run, on_event: OnEvent<'_>) -> Result<Self, Error> {
        let TrainOptions {
            mut recipe,
            resume,
            cache,
            workers,
            compute,
            find,
            tokenizer: given,
            embed,
            written_by,
            unchecked,
            ..
        } = setup;
        recipe.check()?;
        network::fill_sides(&mut recipe, find)?;
        let (train, validation, test) = load_splits(&recipe, workers, on_event)?;
        let data_hash = hash_of([&train, &validation]);
        let has_checkpoint = check_data(&run, &data_hash)?;
        if resume {
            let resolved = Recipe::read_resolved(&run.path(RECIPE), &[])?;
            recipe.objective.take_resolved(&resolved.objective);
        }
        let batches_per_epoch = batches_per_epoch(&recipe, &train)?;

        let captions: Vec<&str> = train.pairs.iter().map(|pair| pair.caption.as_str()).collect();
        let stored = Some(run.path(run::TOKENIZER)).filter(|path| resume && path.exists());
        let tokenizer = network::tokenizer(&mut recipe, &captions, stored.as_deref().or(given), find)?;
        run.write(run::TOKENIZER, tokenizer.as_bytes())?;
        let name = format!("{} ({})", train.name, recipe.name);
        // A training that goes on may have outlived the models that it began with; its own card has what theirs said.
        let own = Some(run.path(run::BEST).join(model::CARD)).filter(|path| resume && path.exists());
        let before = match own {
            Some(own) => vec![Card::read(&own)?],
            None => network::cards_before(&recipe, find)?,
        };
        let mut card = network::card(&recipe, name, written_by, &before)?;
        let unchecked = Some(recipe.training.device).filter(|_| unchecked && !compute.is_cpu());
        let unchecked = warn_of_device(&mut card, &run, unchecked)?;
        let (objective, teachers) = teachers(&mut recipe, &run, &train, &validation, embed)?;
        if resume {
            check_recipe(&run, &recipe)?;
        }

        let freeze = recipe.training.freeze.clone();
        let mut optimizer = AdamW::new(recipe.training.optimizer);
        let begun = has_checkpoint.then_some(&run);
        let (network, state) = network_and_state(&recipe, &card, begun, &mut optimizer, find, compute)?;
        let state = State {
            data: data_hash,
            unchecked,
            ..state
        };
        let clips = front_end(&recipe, &card, cache)?;
        check_reach(&network, &clips, &card)?;
        let Some(text_card) = &card.text else {
            return Err(Error::NoSide);
        };
        let vocabulary = network.text.as_ref().map_or(0, |side| side.tower.max_input()[0]);
        let parsed = Tokenizer::parse(&tokenizer, text_card.max_tokens, vocabulary)?;
        let split = |data| Split::new(data, &parsed, text_card);
        let (mut train, mut validation) = (split(train)?, split(validation)?);
        let mut test = test.map(split).transpose()?;

        if !resume {
            // What was resolved is part of the recipe that the run is known by.
            run.write(RECIPE, recipe.to_toml()?.as_bytes())?;
        }
        let named = [("train", Some(&train)), ("validation", Some(&validation))];
        write_left_out(&run, &[named[0], named[1], ("test", test.as_ref())])?;

        let kept = cache.filter(|_| recipe.data.cache_gigabytes > 0.0);
        let features = kept.map(|folder| folder.join("features"));
        let frozen = Frozen {
            audio: is_part("audio.tower", &freeze),
            text: is_part("text.tower", &freeze),
            clips: &clips,
            folder: features.as_deref(),
            compute,
        };
        let what = "features of frozen towers";
        let splits = [Some(&mut train), Some(&mut validation), test.as_mut()];
        for split in splits.into_iter().flatten() {
            split.freeze(&network, &card, &frozen, &|done, total| {
                on_event(TrainEvent::Preparing { what, done, total })
            })?;
        }

        Ok(Self {
            network: weights_file::freeze(network.train(), &|name| is_part(name, &freeze)),
            recipe,
            run,
            card,
            tokenizer,
            objective,
            clips,
            workers: workers.max(1),
            compute: compute.clone(),
            train,
            validation,
            test,
            train_teacher: teachers.0,
            validation_teacher: teachers.1,
            optimizer,
            state,
            batches_per_epoch,
        })
    }
}

/// The network and where the training stands: at its beginning, or as a checkpoint has it, with the optimizer's moments.
fn network_and_state(
    recipe: &Recipe,
    card: &Card,
    begun: Option<&Run>,
    optimizer: &mut AdamW,
    find: FindModel<'_>,
    compute: &Compute,
) -> Result<(DualEncoder, State), Error> {
    let training = &recipe.training;
    let arithmetic = training.precision.on(training.device, compute)?;
    let (mut network, state) = match begun {
        Some(run) => {
            let network = network::random(recipe, card, compute.device())?;
            run.load(
                network,
                optimizer,
                &|name| !is_part(name, &training.freeze),
                compute,
            )?
        }
        None => (
            network::start(recipe, card, find, compute.device())?,
            State::beginning(""),
        ),
    };
    network.set_arithmetic(arithmetic);
    let scale = state.loss_scale.unwrap_or_default();
    let state = State {
        loss_scale: (arithmetic == Arithmetic::F16).then_some(scale),
        ..state
    };
    Ok((network, state))
}

/// Adds a warning to the card of a model that was trained, now or before, on a device that was not compared with the CPU, and returns
/// that device.
fn warn_of_device(
    card: &mut Card,
    run: &Run,
    unchecked: Option<DeviceName>,
) -> Result<Option<DeviceName>, Error> {
    let before = run.state()?.and_then(|state| state.unchecked);
    let unchecked = unchecked.or(before);
    let warning = unchecked.map(|device| format!("trained on {device}, which was not compared with the CPU"));
    if let Some(warning) = warning.filter(|warning| !card.warnings.contains(warning)) {
        card.warnings.push(warning);
    }
    Ok(unchecked)
}

/// Whether there is a checkpoint; if so, it must be of these data.
fn check_data(run: &Run, data: &str) -> Result<bool, Error> {
    match run.state()? {
        Some(state) if state.data != data => Err(Error::OtherData {
            path: run.path(run::CHECKPOINT),
        }),
        state => Ok(state.is_some()),
    }
}

/// The three splits; the last one may be absent.
fn load_splits(
    recipe: &Recipe,
    threads: usize,
    on_event: OnEvent<'_>,
) -> Result<(Dataset, Dataset, Option<Dataset>), Error> {
    let data = &recipe.data;
    let load = |sets: &[_], split, check| load_split(recipe, sets, split, check, threads, on_event);
    // A frozen tower sees every clip before the first step.
    let is_frozen = is_part("audio.tower", &recipe.training.freeze);
    let check = if is_frozen { Check::Decodes } else { data.check };
    let mut train = load(&data.train, "train", check)?;
    if data.shuffle_captions {
        shuffle_captions(&mut train, recipe.seed);
    }
    // Validation and test must come out the same every time: what cannot be decoded is left out before.
    let validation = load(&data.validation, "validation", Check::Decodes)?;
    let test = match data.test.as_slice() {
        [] => None,
        sets => Some(load(sets, "test", Check::Decodes)?),
    };
    Ok((train, validation, test))
}

/// The teacher's vectors of the captions that are trained and validated with.
type Teachers = (Option<CaptionEmbeddings>, Option<CaptionEmbeddings>);

/// The objective, with what it needs from the sentence encoder.
fn teachers(
    recipe: &mut Recipe,
    run: &Run,
    train: &Dataset,
    validation: &Dataset,
    embed: Embed<'_>,
) -> Result<(Objective, Teachers), Error> {
    let encoder = recipe.objective.sentence_encoder.clone();
    let mut teacher = |name: &str, data: &Dataset| {
        let captions: Vec<&str> = data.pairs.iter().map(|pair| pair.caption.as_str()).collect();
        CaptionEmbeddings::open(&run.path(name), &captions, &encoder, embed)
    };
    let mut of_train = None;
    if recipe.objective.needs_teacher() {
        of_train = Some(teacher("captions-train.f16", train)?);
    }
    let objective = resolve_objective(recipe, train, of_train.as_mut())?;
    if !objective.is_graded() {
        return Ok((objective, (None, None)));
    }
    let of_validation = teacher("captions-validation.f16", validation)?;
    Ok((objective, (of_train, Some(of_validation))))
}

/// What turns recordings into log-mels, with the cache of decoded ones.
fn front_end(recipe: &Recipe, card: &Card, cache: Option<&Path>) -> Result<Clips, Error> {
    let (Some(audio), Some(card)) = (&recipe.audio, &card.audio) else {
        return Err(Error::NoSide);
    };
    let rate = card.front_end.rate;
    let gigabytes = recipe.data.cache_gigabytes;
    let cache = match cache.filter(|_| gigabytes > 0.0) {
        Some(folder) => AudioCache::open(&folder.join("audio"), rate, (gigabytes * 1e9) as u64)?,
        None => AudioCache::without(rate),
    };
    Clips::new(
        card,
        audio.jitter,
        audio.masking,
        cache.with_format(recipe.data.cache),
        recipe.data.longest_seconds,
    )
}

fn load_split(
    recipe: &Recipe,
    sets: &[hark_corpus::DatasetConfig],
    split: &'static str,
    check: Check,
    threads: usize,
    on_event: OnEvent<'_>,
) -> Result<Dataset, Error> {
    if sets.is_empty() {
        return Err(Error::NoData { split });
    }
    if let Some(name) = sets.iter().find_map(hark_corpus::DatasetConfig::unregistered) {
        let name = name.to_owned();
        return Err(hark_corpus::Error::NotRegistered { name }.into());
    }
    let data = Dataset::load_all(sets, check, threads, &|done, total| {
        on_event(TrainEvent::Preparing {
            what: "recordings",
            done,
            total,
        })
    })
    .map_err(|error| match error {
        hark_corpus::Error::Cancelled => Error::Cancelled,
        other => other.into(),
    })?;
    let broken = |left: &&hark_corpus::Skipped| !matches!(left.reason, hark_corpus::Reason::Excluded);
    if let Some(first) = data.left_out.iter().find(broken).filter(|_| recipe.data.strict) {
        return Err(Error::Strict {
            split,
            count: data.left_out.iter().filter(broken).count(),
            first: format!("{}: {}", first.id, first.reason),
        });
    }
    Ok(data)
}

/// Gives captions to other clips: as many as each clip had.
fn shuffle_captions(data: &mut Dataset, seed: u64) {
    let mut clips: Vec<usize> = data.pairs.iter().map(|pair| pair.clip).collect();
    Random::new(key(&[seed, Purpose::Shuffled as u64])).shuffle(&mut clips);
    for (pair, clip) in data.pairs.iter_mut().zip(clips) {
        pair.clip = clip;
    }
}

/// A hash over the pairs that are trained and validated with, in their order.
fn hash_of(splits: [&Dataset; 2]) -> String {
    let mut hash = Sha256::new();
    let pairs = splits
        .iter()
        .flat_map(|data| data.pairs.iter().map(move |pair| (data, pair)));
    for (data, pair) in pairs {
        hash.update(data.clips[pair.clip].id.as_bytes());
        hash.update([0]);
        hash.update(pair.caption.as_bytes());
        hash.update([0]);
    }
    hex(&hash.finalize()[..16])
}

/// Finds out what the objective leaves open, and writes it into the recipe.
fn resolve_objective(
    recipe: &mut Recipe,
    data: &Dataset,
    teacher: Option<&mut CaptionEmbeddings>,
) -> Result<Objective, Error> {
    let mut function = recipe.objective.relevance_function()?;
    let Some(teacher) = teacher else {
        return Ok(recipe
            .objective
            .objective(function, recipe.objective.smoothing.unwrap_or(0.0)));
    };
    if function.needs_range() {
        let all = teacher.read(0..teacher.len())?;
        let texts: Vec<&str> = data.pairs.iter().map(|pair| pair.caption.as_str()).collect();
        let vectors = Vectors::new(&all, teacher.dim())?;
        function = function.resolved(vectors, &texts, None, &hark_work::progress::no_progress)?;
        recipe.objective.relevance_function = function.to_string();
    }
    if recipe.objective.name == ObjectiveKind::Smooth && recipe.objective.smoothing.is_none() {
        recipe.objective.smoothing = Some(spread_mass(recipe, function, data, teacher)?);
    }
    Ok(recipe
        .objective
        .objective(function, recipe.objective.smoothing.unwrap_or(0.0)))
}

/// The mass that ListNet's targets have beside the annotated clip, on average over some batches.
fn spread_mass(
    recipe: &Recipe,
    function: RelevanceFunction,
    data: &Dataset,
    teacher: &mut CaptionEmbeddings,
) -> Result<f32, Error> {
    let mut graded = recipe.objective.clone();
    graded.name = ObjectiveKind::ListnetAudio;
    let graded = graded.objective(function, 0.0);
    let (mut spread, mut lists) = (0.0, 0.0);
    let order = order(recipe, data, 0);
    for pairs in order.chunks_exact(recipe.training.batch).take(SAMPLED_BATCHES) {
        let clips: Vec<u32> = pairs.iter().map(|&pair| data.pairs[pair].clip as u32).collect();
        let targets = targets(&graded, &clips, pairs, Some(teacher))?;
        for (list, clip) in targets.chunks_exact(clips.len()).zip(&clips) {
            let others = list.iter().zip(&clips).filter(|(_, other)| *other != clip);
            spread += others.map(|(p, _)| f64::from(*p)).sum::<f64>();
            lists += 1.0;
        }
    }
    Ok((spread / f64::max(lists, 1.0)) as f32)
}

/// That segments and captions fit the towers.
fn check_reach(network: &DualEncoder, clips: &Clips, card: &Card) -> Result<(), Error> {
    let (mels, frames) = clips.shape();
    if let Some([most_mels, most_frames]) = network.audio.as_ref().map(|side| side.tower.max_input())
        && (mels != most_mels || frames > most_frames)
    {
        return Err(hark_encode::Error::InputShape {
            what: "log-mels of audio.front-end and audio.segment-seconds",
            expected: vec![most_mels, most_frames],
            got: vec![mels, frames],
        }
        .into());
    }
    let tokens = network.text.as_ref().map_or(0, |side| side.tower.max_input()[1]);
    let asked = card.text.as_ref().map_or(0, |card| card.max_tokens);
    if asked > tokens {
        return Err(Error::Option {
            option: "text.max-tokens",
            value: asked.to_string(),
            allowed: format!("at most {tokens}, the positions of the text tower"),
        });
    }
    Ok(())
}

/// That a training goes on with the recipe that it began with.
fn check_recipe(run: &Run, recipe: &Recipe) -> Result<(), Error> {
    let path = run.path(RECIPE);
    let differences = differences(&Recipe::read_resolved(&path, &[])?, recipe)?;
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::OtherRecipe { path, differences })
}

/// Keys in which the identities of two recipes differ.
fn differences(began: &Recipe, now: &Recipe) -> Result<Vec<String>, Error> {
    fn leaves(prefix: &str, value: &toml::Value, out: &mut std::collections::BTreeMap<String, String>) {
        match value {
            toml::Value::Table(table) => {
                for (key, value) in table {
                    let key = if prefix.is_empty() {
                        key.clone()
                    } else {
                        format!("{prefix}.{key}")
                    };
                    leaves(&key, value, out);
                }
            }
            other => {
                out.insert(prefix.to_owned(), other.to_string());
            }
        }
    }
    let flat = |recipe: &Recipe| {
        let table: toml::Table =
            toml::from_str(&recipe.identity().to_toml()?).map_err(|e| Error::Recipe {
                path: RECIPE.into(),
                what: e.to_string(),
            })?;
        let mut out = std::collections::BTreeMap::new();
        leaves("", &toml::Value::Table(table), &mut out);
        Ok::<_, Error>(out)
    };
    let (began, now) = (flat(began)?, flat(now)?);
    let keys: std::collections::BTreeSet<&String> = began.keys().chain(now.keys()).collect();
    let shown = |value: Option<&String>| value.map_or("nothing".to_owned(), Clone::clone);
    Ok(keys
        .into_iter()
        .filter(|key| began.get(*key) != now.get(*key))
        .map(|key| {
            format!(
                "{key} was {} and is {}",
                shown(began.get(key)),
                shown(now.get(key))
            )
        })
        .collect())
}

/// Names the recordings that a training goes on without.
fn write_left_out(run: &Run, splits: &[(&str, Option<&Split>)]) -> Result<(), Error> {
    let of_split = |(name, split): &(&str, Option<&Split>)| {
        let left_out = split.iter().flat_map(|split| &split.data.left_out);
        let lines = left_out.map(|left| LeftOut {
            split: (*name).to_owned(),
            clip: left.id.clone(),
            captions: left.captions,
            reason: left.reason.to_string(),
        });
        lines.collect::<Vec<_>>()
    };
    run.write_left_out(&splits.iter().flat_map(of_split).collect::<Vec<_>>())
}
