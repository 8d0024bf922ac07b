//! Models with towers: imported from what the reference software wrote (`golden/towers_tiny.py`), saved, opened again,
//! embedded with; and what is wrong with a checkpoint is said.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use hark_encode::card::{AudioCard, Card, ClipLength};
use hark_encode::checkpoint::Checkpoint;
use hark_encode::dual::{DualEncoder, SideConfig};
use hark_encode::import::{Imported, Options, import};
use hark_encode::model::{self, AudioEncoder, ClipVector, EmbedEvent, TextEncoder};
use hark_encode::tokenize::{self, Tokenizer};
use hark_encode::towers::passt::PasstConfig;
use hark_encode::towers::{AudioConfig, TextConfig};
use hark_encode::weights::RandomInit;
use hark_encode::{Compute, DualModel};
use serde::Deserialize;
use tempfile::TempDir;

/// As in the unit tests: outputs of small towers within 1e-5 of the reference.
const TOLERANCE: f32 = 1e-5;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn tiny() -> Options {
    Options {
        audio_heads: Some(2),
        text_heads: Some(2),
        segment_seconds: Some(1.0),
        ..Options::default()
    }
}

fn imported(file: &str) -> Imported {
    import(
        &golden("towers").join(file),
        Some(&golden("towers/tokenizer-json")),
        &tiny(),
        &Compute::cpu(1),
    )
    .unwrap()
}

fn saved(imported: &Imported) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    model::save(
        folder.path(),
        &imported.card,
        &imported.network,
        imported.tokenizer.as_deref(),
    )
    .unwrap();
    folder
}

fn expected(file: &str, name: &str) -> Vec<f32> {
    let file = Checkpoint::open(&golden("towers").join(file)).unwrap();
    let shape = file.shape(name).unwrap().to_vec();
    file.take(name, &shape).unwrap()
}

fn captions(of: &str) -> Vec<String> {
    let file = fs_err::read(golden("towers/towers.json")).unwrap();
    let file: serde_json::Value = serde_json::from_slice(&file).unwrap();
    serde_json::from_value(file[of]["captions"].clone()).unwrap()
}

/// With weights in memory and with weights on disk, which give the same to the bit.
fn embed_texts(folder: &Path, texts: &[String]) -> Vec<f32> {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let [memory, disk] = [Compute::cpu(2), Compute::cpu(2).with_weights_on_disk()].map(|compute| {
        let encoder = TextEncoder::open(folder, &compute).unwrap();
        let embedded = encoder.embed(&texts, &hark_work::progress::no_progress);
        embedded.unwrap().into_vec()
    });
    assert!(memory == disk);
    memory
}

fn embed_files(encoder: &AudioEncoder, paths: &[PathBuf]) -> Vec<Result<ClipVector, String>> {
    let mut results = BTreeMap::new();
    encoder
        .embed_files(paths, &mut |told| {
            let EmbedEvent::Recording { file: nth, result } = told else {
                return ControlFlow::Continue(());
            };
            let twice = results.insert(nth, result.map_err(|e| e.to_string()));
            assert!(twice.is_none(), "{nth} came twice");
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(results.len(), paths.len());
    results.into_values().collect()
}

fn unit(vector: &[f32]) -> Vec<f32> {
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.iter().map(|x| x / norm).collect()
}

#[track_caller]
fn assert_near(ours: &[f32], theirs: &[f32], what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let worst = ours
        .iter()
        .zip(theirs)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max);
    assert!(worst <= TOLERANCE, "{what}: off by {worst}");
}

/// Noise that begins with a low number's seed; 16-bit mono WAV at 32 kHz.
fn write_wav(path: &Path, samples: usize, seed: u64) {
    let mut random = hark_work::random::Random::new(seed);
    let bytes = samples as u32 * 2;
    let mut file = Vec::new();
    file.extend(b"RIFF");
    file.extend((36 + bytes).to_le_bytes());
    file.extend(b"WAVEfmt ");
    file.extend(16_u32.to_le_bytes());
    file.extend([1_u16, 1].map(u16::to_le_bytes).concat());
    file.extend([32_000_u32, 64_000].map(u32::to_le_bytes).concat());
    file.extend([2_u16, 16].map(u16::to_le_bytes).concat());
    file.extend(b"data");
    file.extend(bytes.to_le_bytes());
    for _ in 0..samples {
        file.extend(((random.signed() * 9000.0) as i16).to_le_bytes());
    }
    fs_err::write(path, file).unwrap();
}

#[test]
fn a_saved_model_embeds_texts_as_the_reference() {
    for (file, of, values) in [
        ("authors.pt", "authors", "expected.safetensors"),
        ("winner.ckpt", "winner", "winner.safetensors"),
    ] {
        let imported = imported(file);
        let folder = saved(&imported);
        assert_eq!(
            Card::read(&folder.path().join(model::CARD)).unwrap(),
            imported.card
        );
        let ours = embed_texts(folder.path(), &captions(of));
        assert_near(&ours, &expected(values, "text_embeddings"), file);
    }
}

/// Whatever happens to the file of a model whose weights are read as they are used, there is an error or the right vectors.
#[test]
fn weights_on_disk_that_vanish_are_an_error() {
    let folder = saved(&imported("authors.pt"));
    let weights = folder.path().join(model::WEIGHTS);
    let open = || TextEncoder::open(folder.path(), &Compute::cpu(2).with_weights_on_disk()).unwrap();
    let embed = |encoder: &TextEncoder| encoder.embed(&["rain"], &hark_work::progress::no_progress);
    let before = embed(&open()).unwrap().into_vec();

    // An encoder keeps the file that it has opened, and replacing files replaces names.
    let encoder = open();
    let bytes = fs_err::read(&weights).unwrap();
    hark_work::files::replace_file(&weights, |file| std::io::Write::write_all(file, b"another model"))
        .unwrap();
    assert!(embed(&encoder).unwrap().into_vec() == before);

    fs_err::write(&weights, &bytes).unwrap();
    let encoder = open();
    let file = fs_err::OpenOptions::new().write(true).open(&weights).unwrap();
    file.set_len(bytes.len() as u64 / 2).unwrap();
    let error = embed(&encoder).unwrap_err().to_string();
    assert!(error.contains(model::WEIGHTS), "{error}");
}

/// The winner's system lower-cases captions and strips their punctuation before it tokenizes them.
#[test]
fn the_winners_captions_are_prepared_from_text() {
    let imported = imported("winner.ckpt");
    let TextConfig::Roberta(network) = &imported.card.text.as_ref().unwrap().side.network else {
        panic!("the text tower is a RoBERTa");
    };
    assert!((network.dropout - 0.2).abs() < 1e-6 && (network.attention_dropout - 0.2).abs() < 1e-6);
    let typed = ["A dog barks, while rain is falling.", "WATER is running!"].map(str::to_owned);
    let ours = embed_texts(saved(&imported).path(), &typed);
    assert_near(
        &ours,
        &expected("winner.safetensors", "text_embeddings"),
        "typed captions",
    );
}

#[test]
fn roberta_folders_give_the_references_features() {
    for folder in ["towers/hf-roberta", "towers/hf-roberta-lm"] {
        let imported = import(&golden(folder), None, &tiny(), &Compute::cpu(1)).unwrap();
        let saved = saved(&imported);
        let ours = embed_texts(saved.path(), &captions("authors"));
        assert_near(&ours, &expected("expected.safetensors", "text_features"), folder);
        let error = AudioEncoder::open(saved.path(), &Compute::cpu(1))
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("no audio tower"), "{error}");
    }
}

#[test]
fn a_passt_state_dict_is_an_audio_tower_alone() {
    let imported = imported("passt.pt");
    assert!(imported.card.text.is_none() && imported.tokenizer.is_none());
    let folder = saved(&imported);
    let encoder = AudioEncoder::open(folder.path(), &Compute::cpu(1)).unwrap();
    assert_eq!(encoder.dim(), 16);
    let error = TextEncoder::open(folder.path(), &Compute::cpu(1))
        .unwrap_err()
        .to_string();
    assert!(error.contains("no text tower"), "{error}");
}

#[test]
fn a_dual_model_keeps_failures_by_path_and_rows_by_id() {
    let folder = saved(&imported("authors.pt"));
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let paths = [path("a.wav"), path("text.wav"), path("b.wav"), path("none.wav")];
    write_wav(&paths[0], 32_000, 1);
    fs_err::write(&paths[1], "no sound at all").unwrap();
    write_wav(&paths[2], 48_000, 2);
    let model = DualModel::open(folder.path(), &Compute::cpu(2)).unwrap();
    let clips = model.embed_files(&paths).unwrap();
    let name = |path: &PathBuf| path.display().to_string();
    assert_eq!(clips.ids(), [name(&paths[0]), name(&paths[2])]);
    let failed: Vec<&str> = clips
        .failures()
        .iter()
        .map(|failure| failure.id.as_str())
        .collect();
    assert_eq!(failed, [name(&paths[1]), name(&paths[3])]);
    assert!(clips.failures()[1].error.to_string().contains("none.wav"));
    for (row, path) in [(0, &paths[0]), (1, &paths[2])] {
        let alone = embed_files(model.audio(), std::slice::from_ref(path));
        assert_eq!(clips.row(row), alone[0].as_ref().unwrap().vector);
    }
    let texts = ["rain".to_owned(), "a dog barks".to_owned()];
    let both = model.embed_texts(&["rain", "a dog barks"]).unwrap();
    assert_eq!(both.as_slice(), embed_texts(folder.path(), &texts));
    assert_eq!(model.embed_text("a dog barks").unwrap().row(0), both.row(1));
    assert_eq!((both.dim(), clips.dim()), (model.dim(), model.dim()));
    assert_eq!(model.embed_files(&[] as &[PathBuf]).unwrap().len(), 0);

    let stopped = model.embed_files_with(&paths, &|_, _| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(hark_encode::Error::Cancelled)));
}

#[test]
fn towers_that_share_no_space_are_no_dual_model() {
    let mut imported = imported("authors.pt");
    imported.card.audio.as_mut().unwrap().side.projection.clear();
    imported.card.text.as_mut().unwrap().side.projection.clear();
    let (audio, text) = (&imported.card.audio, &imported.card.text);
    imported.network = DualEncoder::build(
        audio.as_ref().map(|card| &card.side),
        text.as_ref().map(|card| &card.side),
        &RandomInit(1),
        Compute::cpu(1).device(),
    )
    .unwrap();
    let folder = saved(&imported);
    let error = DualModel::open(folder.path(), &Compute::cpu(1)).err().unwrap();
    assert!(error.to_string().contains("common space"), "{error}");
}

#[test]
fn a_recordings_vector_depends_on_the_recording_alone() {
    let folder = saved(&imported("authors.pt"));
    let place = tempfile::tempdir().unwrap();
    // 2.5 s, 1 s, 0.3 s and 7.1 s.
    let lengths = [80_000, 32_000, 9_600, 227_200];
    let mut paths: Vec<PathBuf> = (0..4)
        .map(|nth| place.path().join(format!("{nth}.WAV")))
        .collect();
    for (nth, path) in paths.iter().enumerate() {
        write_wav(path, lengths[nth], 5 + nth as u64);
    }
    paths.insert(2, place.path().join("none.wav"));
    fs_err::write(place.path().join("text.wav"), "no sound at all").unwrap();
    paths.push(place.path().join("text.wav"));
    let encoder = |threads| {
        AudioEncoder::open(folder.path(), &Compute::cpu(threads))
            .unwrap()
            .with_clip(Some(ClipLength::Full))
    };
    let together = embed_files(&encoder(2), &paths);
    assert!(together[2].as_ref().unwrap_err().contains("none.wav"));
    assert!(together[5].as_ref().unwrap_err().contains("text.wav"));
    let good: Vec<usize> = vec![0, 1, 3, 4];
    for (&nth, segments) in good.iter().zip([3, 1, 1, 8]) {
        let clip = together[nth].as_ref().unwrap();
        assert_eq!(clip.segments, segments);
        let norm: f32 = clip.vector.iter().map(|x| x * x).sum();
        assert!((norm - 1.0).abs() < 1e-5);
        // To the last bit, whatever else is embedded and on however many threads.
        let alone = embed_files(&encoder(1), std::slice::from_ref(&paths[nth]));
        assert_eq!(alone[0].as_ref().unwrap(), clip);
    }
    assert_ne!(
        together[0].as_ref().unwrap().vector,
        together[1].as_ref().unwrap().vector
    );
}

#[test]
fn embedding_stops_in_the_midst_of_a_recording() {
    let folder = saved(&imported("authors.pt"));
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("long.wav");
    write_wav(&path, 32_000 * 60, 1);
    let encoder = AudioEncoder::open(folder.path(), &Compute::cpu(2))
        .unwrap()
        .with_clip(Some(ClipLength::Full));
    let mut segments = 0;
    let outcome = encoder.embed_files(&[path], &mut |told| {
        assert!(matches!(told, EmbedEvent::Segment { .. }), "{told:?}");
        segments += 1;
        if segments == 3 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert!(matches!(outcome, Err(hark_encode::Error::Cancelled)));
    assert_eq!(segments, 3);
}

#[test]
fn padded_clips_count_silence_and_are_cropped() {
    let folder = saved(&imported("authors.pt"));
    let place = tempfile::tempdir().unwrap();
    let (long, short) = (place.path().join("long.wav"), place.path().join("short.wav"));
    // The same seed: the long one begins as the short one.
    write_wav(&long, 96_000, 3);
    write_wav(&short, 32_000, 3);
    let embed = |clip, path: &PathBuf| {
        let encoder = AudioEncoder::open(folder.path(), &Compute::cpu(2))
            .unwrap()
            .with_clip(Some(clip));
        embed_files(&encoder, std::slice::from_ref(path))
            .remove(0)
            .unwrap()
    };
    let padded = |seconds, path| embed(ClipLength::Fixed { seconds }, path);
    assert_eq!(padded(4.0, &short).segments, 4);
    assert_eq!(padded(1.0, &long).vector, embed(ClipLength::Full, &short).vector);
    assert_ne!(padded(4.0, &short).vector, embed(ClipLength::Full, &short).vector);
    let card = Card::read(&folder.path().join(model::CARD)).unwrap();
    assert_eq!(card.audio.unwrap().clip, ClipLength::Fixed { seconds: 30.0 });
}

/// A window's vector is that of a recording that holds nothing else; the whole's is what embedding it gives.
#[test]
fn windows_are_recordings_of_their_own() {
    let folder = saved(&imported("authors.pt"));
    let encoder = AudioEncoder::open(folder.path(), &Compute::cpu(2))
        .unwrap()
        .with_clip(Some(ClipLength::Full));
    let size = encoder.segment_samples();
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("long.wav");
    write_wav(&path, size * 2 + size / 2, 11);
    let bytes = fs_err::read(&path).unwrap();
    let mut found = None;
    encoder
        .embed_windows(
            std::slice::from_ref(&path),
            encoder.segment_seconds() / 2.0,
            &mut |told| {
                if let EmbedEvent::Recording { result, .. } = told {
                    found = Some(result.unwrap());
                }
                ControlFlow::Continue(())
            },
        )
        .unwrap();
    let found = found.unwrap();
    let whole = embed_files(&encoder, std::slice::from_ref(&path))
        .remove(0)
        .unwrap();
    assert_eq!(
        (&found.vector, found.segments, found.seconds),
        (&whole.vector, whole.segments, whole.seconds)
    );
    assert_eq!(whole.windows, []);
    let hop = size / 2;
    assert_eq!(found.windows.len(), 4);
    for (nth, window) in found.windows.iter().enumerate() {
        let rate = f64::from(encoder.rate());
        let ends = [nth * hop, nth * hop + size].map(|sample| sample as f64 / rate);
        assert!((window.start - ends[0]).abs() < 1e-9 && (window.end - ends[1]).abs() < 1e-9);
        let part = place.path().join("part.wav");
        write_wav(&part, size, 11);
        let mut alone = fs_err::read(&part).unwrap();
        alone[44..].copy_from_slice(&bytes[44 + 2 * nth * hop..][..2 * size]);
        fs_err::write(&part, alone).unwrap();
        let alone = embed_files(&encoder, &[part]).remove(0).unwrap();
        assert_eq!(alone.vector, window.vector, "window {nth}");
    }
}

/// The tower alone gives features as they are: the mean over segments of sound and of silence, by hand.
#[test]
fn a_clips_features_are_the_mean_of_its_segments() {
    let folder = saved(&imported("passt.pt"));
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("sound.wav");
    write_wav(&path, 48_000, 3);
    let encoder = AudioEncoder::open(folder.path(), &Compute::cpu(2))
        .unwrap()
        .with_clip(Some(ClipLength::Fixed { seconds: 4.0 }));
    let clip = embed_files(&encoder, std::slice::from_ref(&path))
        .remove(0)
        .unwrap();
    assert_eq!((clip.segments, clip.seconds), (4, 1.5));
    let samples = hark_audio::read(&path, 32_000, None).unwrap().samples;
    let segments = [&samples[..32_000], &samples[32_000..], &[], &[]]
        .map(|samples| encoder.segment_features(samples.to_vec()).unwrap());
    assert_ne!(segments[0], segments[2]);
    let mean: Vec<f32> = (0..encoder.dim())
        .map(|at| segments.iter().map(|segment| segment[at]).sum::<f32>() / 4.0)
        .collect();
    assert_near(&clip.vector, &mean, "the mean of four segments");
}

#[test]
fn a_short_tail_does_not_count_beside_others() {
    let folder = saved(&imported("passt.pt"));
    let place = tempfile::tempdir().unwrap();
    let encoder = AudioEncoder::open(folder.path(), &Compute::cpu(1))
        .unwrap()
        .with_clip(Some(ClipLength::Full));
    // A segment is a second here: a twentieth is 1,600 samples.
    for (samples, segments) in [(33_599, 1), (33_600, 2), (1_000, 1)] {
        let path = place.path().join("tail.wav");
        write_wav(&path, samples, 3);
        let clip = embed_files(&encoder, &[path]).remove(0).unwrap();
        assert_eq!(clip.segments, segments, "{samples}");
        assert!((clip.seconds - samples as f64 / 32_000.0).abs() < 1e-9);
    }
}

#[test]
fn a_text_is_prepared_as_the_card_says() {
    let mut card = imported("winner.ckpt").card.text.unwrap();
    assert_eq!(
        card.prepare(" A dog's bark, loud - and near . "),
        "a dogs bark loud  and near"
    );
    card.strip_punctuation = false;
    assert_eq!(card.prepare("\tA DOG. "), "a dog.");
}

/// The last line of the promise that a tower is one module and one line: a sentence encoder behind any audio tower.
#[test]
fn a_sentence_encoder_is_a_text_tower() {
    #[derive(Deserialize)]
    struct Expected {
        cases: Vec<Case>,
    }
    #[derive(Deserialize)]
    struct Case {
        text: String,
        embedding: Vec<f32>,
    }
    for name in ["mpnet-tiny", "bert-tiny", "bert-tiny-cls"] {
        let alone = import(&golden(name), None, &Options::default(), &Compute::cpu(1)).unwrap();
        let folder = saved(&alone);
        let file = fs_err::read(golden(name).join("expected.json")).unwrap();
        let cases = serde_json::from_slice::<Expected>(&file).unwrap().cases;
        let texts: Vec<String> = cases.iter().map(|case| case.text.clone()).collect();
        let features = embed_texts(folder.path(), &texts);
        let width = features.len() / texts.len();
        for (case, features) in cases.iter().zip(features.chunks_exact(width)) {
            // One of the three folders ends without a norm of its own.
            assert_near(&unit(features), &unit(&case.embedding), &case.text);
        }
        // And in a dual encoder, with projections of its own.
        let mut card = alone.card.clone();
        let text = card.text.as_mut().unwrap();
        text.side.projection = vec![20, 8];
        let audio = SideConfig {
            network: AudioConfig::Passt(PasstConfig {
                width: 32,
                hidden: 64,
                layers: 1,
                heads: 2,
                ..PasstConfig::small()
            }),
            projection: vec![8],
        };
        let network = DualEncoder::build(
            Some(&audio),
            Some(&text.side),
            &RandomInit(1),
            Compute::cpu(1).device(),
        )
        .unwrap();
        card.audio = Some(AudioCard {
            labels: Vec::new(),
            side: audio,
            front_end: hark_audio::MelConfig::default(),
            segment_seconds: 10.0,
            clip: ClipLength::Full,
        });
        let both = tempfile::tempdir().unwrap();
        model::save(both.path(), &card, &network, alone.tokenizer.as_deref()).unwrap();
        let vectors = embed_texts(both.path(), &texts[..2]);
        assert_eq!(vectors.len(), 16);
        assert_eq!(
            AudioEncoder::open(both.path(), &Compute::cpu(1)).unwrap().dim(),
            8
        );
    }
}

#[test]
fn the_tokenizer_equals_robertas_both_ways() {
    #[derive(Deserialize)]
    struct Expected {
        vocabulary: usize,
        max_tokens: usize,
        cases: Vec<Case>,
    }
    #[derive(Deserialize)]
    struct Case {
        name: String,
        text: String,
        ids: Vec<u32>,
        ids_cut: Vec<u32>,
    }
    let file = fs_err::read(golden("towers/expected.json")).unwrap();
    let expected: Expected = serde_json::from_slice(&file).unwrap();
    assert!(expected.cases.len() >= 40);
    for way in ["tokenizer-json", "vocab-merges"] {
        let text = tokenize::read_folder(
            &golden("towers").join(way),
            expected.max_tokens,
            expected.vocabulary,
        )
        .unwrap();
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("tokenizer.json");
        fs_err::write(&path, text).unwrap();
        let whole = Tokenizer::open(&path, 100_000, expected.vocabulary).unwrap();
        let cut = Tokenizer::open(&path, expected.max_tokens, expected.vocabulary).unwrap();
        for case in &expected.cases {
            assert_eq!(
                whole.encode(&[&case.text]).unwrap()[0].ids,
                case.ids,
                "{way}: {}",
                case.name
            );
            let tokens = cut.encode(&[&case.text]).unwrap().remove(0);
            assert_eq!(tokens.ids, case.ids_cut, "{way}: {}, cut", case.name);
            assert_eq!(tokens.cut, case.ids.len() > expected.max_tokens, "{}", case.name);
        }
    }
}

/// A copy of the authors' checkpoint as safetensors, changed by `edit`.
fn edited(edit: impl FnOnce(&mut BTreeMap<String, (Vec<usize>, Vec<f32>)>)) -> (TempDir, PathBuf) {
    let file = Checkpoint::open(&golden("towers/authors.pt")).unwrap();
    let mut tensors = BTreeMap::new();
    for name in file.names().filter(|name| !name.ends_with("position_ids")) {
        let shape = file.shape(name).unwrap().to_vec();
        tensors.insert(name.to_owned(), (shape.clone(), file.take(name, &shape).unwrap()));
    }
    edit(&mut tensors);
    let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
        .into_iter()
        .map(|(name, (shape, numbers))| {
            (
                name,
                shape,
                numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
            )
        })
        .collect();
    let views = bytes.iter().map(|(name, shape, bytes)| {
        let view =
            safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.clone(), bytes).unwrap();
        (name, view)
    });
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("edited.safetensors");
    safetensors::serialize_to_file(views, None, &path).unwrap();
    (place, path)
}

#[test]
fn missing_misshapen_and_unknown_tensors_are_all_listed() {
    let tokenizer = golden("towers/tokenizer-json");
    let (_place, whole) = edited(|_| {});
    import(&whole, Some(&tokenizer), &tiny(), &Compute::cpu(1)).unwrap();
    let (_place, path) = edited(|tensors| {
        for missing in [
            "audio_proj.0.bias",
            "text_encoder.encoder.layer.1.output.dense.bias",
        ] {
            tensors.remove(missing).unwrap();
        }
        tensors
            .insert(
                "audio_encoder.model.net.norm.bias".to_owned(),
                (vec![15], vec![0.0; 15]),
            )
            .unwrap();
        for unknown in ["audio_encoder.model.net.blocks.1.gamma", "extra"] {
            tensors.insert(unknown.to_owned(), (vec![1], vec![0.0]));
        }
    });
    let error = import(&path, Some(&tokenizer), &tiny(), &Compute::cpu(1))
        .unwrap_err()
        .to_string();
    for said in [
        "2 tensors missing",
        "`audio_proj.0.bias`",
        "`text_encoder.encoder.layer.1.output.dense.bias`",
        "1 tensor of another shape",
        "audio_encoder.model.net.norm.bias [15] instead of [16]",
        "2 tensors that no part of the model uses",
        "`audio_encoder.model.net.blocks.1.gamma`",
        "`extra`",
        "edited.safetensors",
    ] {
        assert!(error.contains(said), "{said:?} is not in: {error}");
    }
}

#[test]
fn what_a_file_cannot_tell_is_asked_for() {
    let path = golden("towers/authors.pt");
    let tokenizer = golden("towers/tokenizer-json");
    let without = |options: Options, tokenizer: Option<&Path>, said: &str| {
        let error = import(&path, tokenizer, &options, &Compute::cpu(1))
            .unwrap_err()
            .to_string();
        assert!(error.contains(said), "{error}");
    };
    without(Options::default(), Some(&tokenizer), "--audio-heads");
    without(
        Options {
            text_heads: None,
            ..tiny()
        },
        Some(&tokenizer),
        "--text-heads",
    );
    without(tiny(), None, "needs a tokenizer");
    without(
        Options {
            audio_heads: Some(3),
            ..tiny()
        },
        Some(&tokenizer),
        "width 16 does not divide into 3 heads",
    );
    without(
        Options {
            segment_seconds: Some(2.0),
            ..tiny()
        },
        Some(&tokenizer),
        "[128, 200], the network takes at most [128, 127]",
    );
    without(
        Options {
            segment_seconds: Some(f64::NAN),
            ..tiny()
        },
        Some(&tokenizer),
        "segments of NaN s",
    );
    without(
        Options {
            stride: Some(12),
            ..tiny()
        },
        Some(&tokenizer),
        "of another shape",
    );
    let (_place, path) = edited(|tensors| tensors.retain(|name, _| name.starts_with("audio_proj")));
    let error = import(&path, None, &tiny(), &Compute::cpu(1))
        .unwrap_err()
        .to_string();
    assert!(error.contains("without a tower that is known"), "{error}");
}

#[test]
fn bert_is_not_taken_for_roberta() {
    let (_place, path) = edited(|tensors| {
        let name = "text_encoder.embeddings.token_type_embeddings.weight".to_owned();
        tensors.insert(name, (vec![2, 16], vec![0.0; 32])).unwrap();
    });
    let error = import(
        &path,
        Some(&golden("towers/tokenizer-json")),
        &tiny(),
        &Compute::cpu(1),
    )
    .unwrap_err()
    .to_string();
    assert!(error.contains("2 token types"), "{error}");
}

#[test]
fn a_damaged_model_folder_is_refused() {
    let whole = saved(&imported("authors.pt"));
    let check = |edit: &dyn Fn(&Path), said: &str| {
        let copy = tempfile::tempdir().unwrap();
        for file in [model::CARD, model::WEIGHTS, model::TOKENIZER] {
            fs_err::copy(whole.path().join(file), copy.path().join(file)).unwrap();
        }
        edit(copy.path());
        let error = TextEncoder::open(copy.path(), &Compute::cpu(1))
            .unwrap_err()
            .to_string();
        assert!(error.contains(said), "{said:?} is not in: {error}");
    };
    let card = |from: &'static str, to: &'static str| {
        move |folder: &Path| {
            let path = folder.join(model::CARD);
            let text = fs_err::read_to_string(&path).unwrap();
            assert!(text.contains(from), "{text}");
            fs_err::write(&path, text.replace(from, to)).unwrap();
        }
    };
    check(&card("\"version\": 1", "\"version\": 2"), "a card of version 2");
    check(&card("\"licence\"", "\"lizenz\""), "unknown field `lizenz`");
    check(&card("\"tower\": \"roberta\"", "\"tower\": \"gpt\""), "gpt");
    check(&card("\"layers\": 2", "\"layers\": 3"), "is missing");
    check(&card("\"max-tokens\": 32", "\"max-tokens\": 39"), "39 tokens");
    check(&card("\"heads\": 2", "\"heads\": 5"), "does not divide");
    check(
        &card("\"hidden\": 32", "\"hidden\": 1000000"),
        "larger than its weights",
    );
    check(
        &|folder| {
            let path = folder.join(model::WEIGHTS);
            let bytes = fs_err::read(&path).unwrap();
            fs_err::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        },
        "truncated or damaged safetensors file",
    );
    check(
        &|folder| fs_err::remove_file(folder.join(model::TOKENIZER)).unwrap(),
        "tokenizer.json",
    );
    check(
        &|folder| fs_err::remove_file(folder.join(model::WEIGHTS)).unwrap(),
        "model.safetensors",
    );
}

/// One decoding gives the summary and the vectors that two give, to the bit, for every format.
#[test]
fn a_summary_on_the_way_changes_nothing() {
    let folder = saved(&imported("authors.pt"));
    let encoder = AudioEncoder::open(folder.path(), &Compute::cpu(2)).unwrap();
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../audio/tests/files");
    let mut paths: Vec<PathBuf> = fs_err::read_dir(files)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(paths.len() > 20, "{paths:?}");
    let hop = encoder.segment_seconds() / 2.0;
    let gather = |clips: &mut BTreeMap<usize, ClipVector>, event| {
        if let EmbedEvent::Recording { file, result } = event {
            clips.insert(file, result.unwrap());
        }
        ControlFlow::Continue(())
    };
    let (mut once, mut twice) = (BTreeMap::new(), BTreeMap::new());
    encoder
        .embed_and_summarize(&paths, hop, &mut |event| gather(&mut once, event))
        .unwrap();
    encoder
        .embed_windows(&paths, hop, &mut |event| gather(&mut twice, event))
        .unwrap();
    assert_eq!((once.len(), twice.len()), (paths.len(), paths.len()));
    for (file, mut clip) in once {
        let summary = hark_audio::summarize(&paths[file], &|| true).unwrap();
        assert_eq!(
            clip.summary.take().as_deref(),
            Some(&summary),
            "{:?}",
            paths[file]
        );
        assert_eq!(clip, twice[&file], "{:?}", paths[file]);
    }
}
