//! A small library on disk, a store of it in memory, embedder that know a few words, a real server on a free port, and a client that
//! sends any bytes.
#![allow(dead_code)] // Each test file uses another part.

use hark_work::progress::Progress;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use hark_catalogue::{
    AudioInfo, Change, Count, EmbedError, Embedder, Entry, Error, Failure, File, Filter, IndexedFile, Notes,
    Overview, Settings, Stat, Store, TextHit, TextQuery, Window, WindowHit,
};
use hark_serve::{Options, serve};

/// What the embedder know; a text's vector counts these.
pub const WORDS: [&str; 8] = ["rain", "thunder", "dog", "door", "wind", "car", "bird", "voice"];

/// No answer takes as long: a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_mins(1);

/// A library in memory.
pub struct Memory {
    pub settings: Settings,
    pub roots: Vec<String>,
    pub entries: Mutex<BTreeMap<i64, Entry>>,
    pub failures: Vec<Failure>,
    pub broken: AtomicBool,
}

impl Memory {
    fn each_entry<T>(&self, take: impl FnOnce(&BTreeMap<i64, Entry>) -> T) -> Result<T, Error> {
        if self.broken.load(Ordering::SeqCst) {
            let path = PathBuf::from("library");
            let source = std::io::Error::other("it is broken");
            return Err(Error::Io { path, source });
        }
        Ok(take(&self.entries.lock().unwrap()))
    }

    fn passing(&self, filter: &Filter) -> Result<Vec<(i64, Entry)>, Error> {
        self.each_entry(|entries| {
            let all = entries.iter().filter(|(id, e)| filter.matches(&file(**id, e)));
            let mut all: Vec<(i64, Entry)> = all.map(|(id, e)| (*id, e.clone())).collect();
            all.sort_by(|a, b| a.1.path.cmp(&b.1.path));
            all
        })
    }
}

fn file(id: i64, entry: &Entry) -> File {
    File {
        id,
        path: entry.path.clone(),
        stat: entry.stat,
        content: entry.content.clone(),
        sound: entry.sound.clone(),
        notes: entry.notes.clone(),
    }
}

fn words_of(text: &str) -> Vec<String> {
    let words = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|w| !w.is_empty());
    words.map(str::to_lowercase).collect()
}

impl Store for Memory {
    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn vocabulary(&self) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    fn set_vocabulary(&self, _: &[String]) -> Result<(), Error> {
        Ok(())
    }

    fn roots(&self) -> Result<Vec<String>, Error> {
        self.each_entry(|_| self.roots.clone())
    }

    fn add_root(&self, _: &str) -> Result<(), Error> {
        unreachable!("a server changes nothing")
    }

    fn remove_root(&self, _: &str) -> Result<(), Error> {
        unreachable!("a server changes nothing")
    }

    fn known(&self) -> Result<Vec<IndexedFile>, Error> {
        unreachable!("a server does not index")
    }

    fn failures(&self) -> Result<Vec<Failure>, Error> {
        self.each_entry(|_| self.failures.clone())
    }

    fn apply(&self, _: &[Change]) -> Result<(), Error> {
        unreachable!("a server changes nothing")
    }

    fn search_vector(&self, query: &[f32], k: usize, filter: &Filter) -> Result<Vec<WindowHit>, Error> {
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
        let norm = dot(query, query).sqrt();
        let mut near: Vec<WindowHit> = Vec::new();
        for (id, entry) in self.passing(filter)? {
            near.extend(entry.windows.iter().map(|w| WindowHit {
                file: id,
                start: w.start,
                end: w.end,
                whole: w.whole,
                score: dot(&w.vector, query) / norm,
            }));
        }
        near.sort_by(|a, b| b.score.total_cmp(&a.score));
        near.truncate(k);
        Ok(near)
    }

    fn search_text(&self, query: &TextQuery<'_>, k: usize, filter: &Filter) -> Result<Vec<TextHit>, Error> {
        let asked = words_of(query.text);
        let avoided: Vec<String> = query.exclude.iter().flat_map(|w| words_of(w)).collect();
        let mut matches = Vec::new();
        for (id, entry) in self.passing(filter)? {
            let all = format!(
                "{} {} {}",
                entry.path,
                entry.notes.tags.join(" "),
                entry.notes.captions.join(" ")
            );
            let has = words_of(&all);
            let found = asked.iter().filter(|w| has.contains(w)).count();
            if found > 0 && !avoided.iter().any(|w| has.contains(w)) {
                let share = found as f64 / asked.len() as f64;
                let score = share;
                matches.push(TextHit {
                    file: id,
                    score,
                    share,
                });
            }
        }
        matches.sort_by(|a, b| b.score.total_cmp(&a.score));
        matches.truncate(k);
        Ok(matches)
    }

    fn browse(&self, filter: &Filter, skip: usize, limit: usize) -> Result<Vec<i64>, Error> {
        let all = self.passing(filter)?;
        Ok(all.into_iter().map(|(id, _)| id).skip(skip).take(limit).collect())
    }

    fn files(&self, ids: &[i64]) -> Result<Vec<File>, Error> {
        self.each_entry(|entries| {
            ids.iter()
                .filter_map(|id| Some(file(*id, entries.get(id)?)))
                .collect()
        })
    }

    fn find(&self, path: &str) -> Result<Option<File>, Error> {
        self.each_entry(|entries| {
            entries
                .iter()
                .find(|(_, e)| e.path == path)
                .map(|(id, e)| file(*id, e))
        })
    }

    fn windows(&self, file: i64) -> Result<Vec<Window>, Error> {
        self.each_entry(|entries| entries.get(&file).map_or_else(Vec::new, |e| e.windows.clone()))
    }

    fn overview(&self) -> Result<Overview, Error> {
        self.each_entry(|entries| Overview {
            files: entries.len() as u64,
            windows: entries.values().map(|e| e.windows.len() as u64).sum(),
            seconds: entries.values().map(|e| e.sound.seconds).sum(),
            failures: self.failures.len() as u64,
            roots: self.roots.clone(),
            folders: self
                .roots
                .iter()
                .map(|r| Count {
                    value: r.clone(),
                    files: entries.len() as u64,
                })
                .collect(),
            tags: vec![Count {
                value: "weather".into(),
                files: 1,
            }],
            rates: vec![Count {
                value: "8000".into(),
                files: 2,
            }],
            formats: vec![Count {
                value: "wav".into(),
                files: 2,
            }],
            channels: vec![Count {
                value: "1".into(),
                files: 2,
            }],
        })
    }

    fn for_each_entry(&self, _: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<(), Error> {
        unreachable!("a server does not read everything")
    }

    fn for_each_file(&self, _: &mut dyn FnMut(File) -> ControlFlow<()>) -> Result<(), Error> {
        unreachable!("a server does not read everything")
    }

    fn optimize(&self, _: Progress<'_>) -> Result<(), Error> {
        unreachable!("a server changes nothing")
    }

    fn check(&self) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }
}

/// Ears that know some words, write down what they were asked, and can be held.
#[derive(Default)]
pub struct Few {
    pub asked: Mutex<Vec<String>>,
    pub sounds: AtomicUsize,
    held: Mutex<bool>,
    freed: Condvar,
}

impl Few {
    /// From now on, nobody gets an answer.
    pub fn hold(&self) {
        *self.held.lock().unwrap() = true;
    }

    /// Everybody does again.
    pub fn free(&self) {
        *self.held.lock().unwrap() = false;
        self.freed.notify_all();
    }

    fn wait(&self) {
        let held = self.held.lock().unwrap();
        drop(self.freed.wait_while(held, |held| *held).unwrap());
    }
}

/// The vector of a text: how often each known word is in it, and a little of a direction that all share.
pub fn vector(text: &str) -> Vec<f32> {
    let words = words_of(text);
    let mut counts: Vec<f32> = WORDS
        .iter()
        .map(|known| words.iter().filter(|w| w == known).count() as f32)
        .collect();
    counts.push(0.1);
    let norm = counts.iter().map(|x| x * x).sum::<f32>().sqrt();
    counts.iter().map(|x| x / norm).collect()
}

impl Embedder for Few {
    fn embed_text(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.wait();
        self.asked
            .lock()
            .unwrap()
            .extend(texts.iter().map(|&t| t.to_owned()));
        if texts.contains(&"breakdown") {
            let source = Box::new(std::io::Error::other("out of memory"));
            return Err(EmbedError::Model { source });
        }
        assert!(!texts.contains(&"panic"), "this is a test of a panic");
        Ok(texts.iter().map(|t| vector(t)).collect())
    }

    fn embed_audio(&self, recording: &Path) -> Result<Vec<f32>, EmbedError> {
        self.wait();
        assert!(recording.exists());
        self.sounds.fetch_add(1, Ordering::SeqCst);
        Ok(vector("rain"))
    }
}

/// Bytes of a WAV file: one channel, 16 bits, 8 kHz.
pub fn wav(samples: &[i16]) -> Vec<u8> {
    let mut bytes = b"RIFF".to_vec();
    bytes.extend((36 + 2 * samples.len() as u32).to_le_bytes());
    bytes.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    bytes.extend(8000_u32.to_le_bytes());
    bytes.extend(16000_u32.to_le_bytes());
    bytes.extend(b"\x02\0\x10\0data");
    bytes.extend((2 * samples.len() as u32).to_le_bytes());
    bytes.extend(samples.iter().flat_map(|s| s.to_le_bytes()));
    bytes
}

/// A tone that is never the same for long.
pub fn samples(count: usize) -> Vec<i16> {
    (0..count).map(|i| ((i * i) % 20011) as i16 - 10000).collect()
}

/// Files of the decoder's own tests.
pub fn decoder_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../audio/tests/files")
        .join(name)
}

/// What is known of a file, as indexing would find it.
pub fn entry(path: &Path, text: &str, tags: &[&str]) -> Entry {
    let mut decoder = hark_audio::Decoder::open(path).unwrap();
    while decoder.next_block().unwrap().is_some() {}
    let info = decoder.info().clone();
    let seconds = decoder.samples_so_far() as f64 / f64::from(info.rate);
    let whole = Window {
        start: 0.0,
        end: seconds,
        whole: true,
        vector: vector(text),
    };
    let mut windows = vec![whole];
    if seconds > 10.0 {
        for start in [0.0, 5.0] {
            let vector = vector(if start > 0.0 { text } else { "voice" });
            windows.push(Window {
                start,
                end: start + 10.0,
                whole: false,
                vector,
            });
        }
    }
    let bytes = fs::read(path).unwrap();
    let sum = bytes
        .iter()
        .fold(7_u64, |sum, b| sum.wrapping_mul(31).wrapping_add(u64::from(*b)));
    Entry {
        path: path.to_str().unwrap().to_owned(),
        stat: Stat {
            size: bytes.len() as u64,
            modified: 1_790_000_000_000_000_000,
        },
        content: format!("{sum:064x}"),
        sound: AudioInfo {
            seconds,
            rate: info.rate,
            channels: info.channels as u32,
            container: info.container,
            codec: info.codec,
            date: "2026-11-15".into(),
            metadata: BTreeMap::from([("title".to_owned(), "A title".to_owned())]),
            damage: None,
            heard: Vec::new(),
            peaks: vec![0x81, 0x7f, 0, 1],
            fingerprint: Vec::new(),
        },
        notes: Notes {
            captions: if text.is_empty() {
                Vec::new()
            } else {
                vec![text.to_owned()]
            },
            tags: tags.iter().map(|t| (*t).to_owned()).collect(),
        },
        windows,
    }
}

/// A library, a server of it, and its client.
pub struct World {
    pub folder: tempfile::TempDir,
    pub store: Arc<Memory>,
    pub embedder: Arc<Few>,
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), hark_serve::Error>>>,
}

/// The number of files in a new world.
pub const FILES: i64 = 6;

impl World {
    /// 1: long rain. 2: a dog. 3: thunder in FLAC. 4: a door in MP3. 5: wind in AIFF. 6: a name that is hard to write.
    pub fn new(options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("library");
        fs::create_dir_all(root.join("weather")).unwrap();
        fs::create_dir_all(folder.path().join("uploads")).unwrap();
        let at = |name: &str| root.join(name);
        fs::write(at("weather/rain.wav"), wav(&samples(96_000))).unwrap();
        fs::write(at("dog.wav"), wav(&samples(20_001))).unwrap();
        fs::copy(decoder_file("mono-16.flac"), at("weather/thunder.flac")).unwrap();
        fs::copy(decoder_file("mono.mp3"), at("door.mp3")).unwrap();
        fs::copy(decoder_file("stereo-24.aiff"), at("weather/wind.aiff")).unwrap();
        fs::write(at("=\"Vögel\", 1 & 2 <b>.wav"), wav(&samples(800))).unwrap();
        let entries = [
            entry(&at("weather/rain.wav"), "rain falls", &["weather", "water"]),
            entry(&at("dog.wav"), "a dog barks", &["animal"]),
            entry(&at("weather/thunder.flac"), "thunder and rain", &["weather"]),
            entry(&at("door.mp3"), "=a door, \"shut\"", &[]),
            entry(&at("weather/wind.aiff"), "wind", &["weather"]),
            entry(&at("=\"Vögel\", 1 & 2 <b>.wav"), "bird", &["-animal"]),
        ];
        let store = Arc::new(Memory {
            settings: Settings {
                model: "test".into(),
                fingerprint: "0".into(),
                dim: WORDS.len() + 1,
                window_seconds: 10.0,
                hop_seconds: 5.0,
            },
            roots: vec![root.to_str().unwrap().to_owned()],
            failures: vec![Failure {
                path: root.join("<b>.wav").to_str().unwrap().to_owned(),
                stat: Stat { size: 3, modified: 0 },
                message: "unknown format".into(),
            }],
            entries: Mutex::new((1..).zip(entries).collect()),
            broken: AtomicBool::new(false),
        });
        Self::with(folder, store, options)
    }

    fn with(folder: tempfile::TempDir, store: Arc<Memory>, mut options: Options) -> Self {
        options.address = SocketAddr::from(([127, 0, 0, 1], 0));
        options.temporary = Some(folder.path().join("uploads"));
        let embedder = Arc::new(Few::default());
        let stop = Arc::new(AtomicBool::new(false));
        let (told, ready) = mpsc::channel();
        let thread = std::thread::spawn({
            let (store, embedder, stop) = (Arc::clone(&store), Arc::clone(&embedder), Arc::clone(&stop));
            move || {
                let stop = move || stop.load(Ordering::SeqCst);
                serve(
                    store,
                    embedder,
                    options,
                    &mut |address| told.send(address).unwrap(),
                    &stop,
                )
            }
        });
        let address = ready.recv_timeout(PATIENCE).expect("the server does not start");
        Self {
            folder,
            store,
            embedder,
            address,
            stop,
            thread: Some(thread),
        }
    }

    /// The path of a file of the library.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("library").join(name)
    }

    /// Adds file 7, a long one, and gives its bytes. What is known of it is not decoded, which would take a while.
    pub fn add_long(&self, count: usize) -> Vec<u8> {
        let bytes = wav(&samples(count));
        let path = self.path("long.wav");
        fs::write(&path, &bytes).unwrap();
        let mut entries = self.store.entries.lock().unwrap();
        let mut long = entries[&2].clone();
        path.to_str().unwrap().clone_into(&mut long.path);
        long.content = "7".repeat(64);
        long.stat.size = bytes.len() as u64;
        long.sound.seconds = count as f64 / 8000.0;
        entries.insert(7, long);
        bytes
    }

    /// What lies in the folder of uploads.
    pub fn uploads(&self) -> usize {
        fs::read_dir(self.folder.path().join("uploads")).unwrap().count()
    }

    pub fn connect(&self) -> Client {
        Client::new(self.address)
    }

    /// One request on a connection of its own.
    pub fn get(&self, target: &str) -> Answer {
        self.connect().get(target)
    }

    pub fn ask(&self, method: &str, target: &str, headers: &str, body: &[u8]) -> Answer {
        let mut client = self.connect();
        client.send_request(method, target, headers, body);
        client.answer(method)
    }

    /// Ends the server and tells how it ended.
    pub fn end(&mut self) -> Result<(), hark_serve::Error> {
        self.stop.store(true, Ordering::SeqCst);
        self.embedder.free();
        self.thread
            .take()
            .map_or(Ok(()), |thread| thread.join().expect("the server broke down"))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let ended = self.end();
        if !std::thread::panicking() {
            ended.expect("the server ended with an error");
        }
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("no JSON: {}", String::from_utf8_lossy(&self.body)))
    }

    /// The sentence of an error.
    pub fn error(&self) -> String {
        self.json()["error"]
            .as_str()
            .unwrap_or_else(|| panic!("no sentence: {self:?}"))
            .to_owned()
    }

    /// The names of the files that were found.
    pub fn names(&self) -> Vec<String> {
        assert_eq!(self.status, 200, "{}", String::from_utf8_lossy(&self.body));
        let json = self.json();
        let hits = json["hits"].as_array().unwrap();
        hits.iter()
            .map(|h| h["file"]["name"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// A connection.
pub struct Client {
    pub stream: TcpStream,
    host: String,
    buffer: Vec<u8>,
}

impl Client {
    pub fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self {
            stream,
            host: format!("localhost:{}", address.port()),
            buffer: Vec::new(),
        }
    }

    pub fn get(&mut self, target: &str) -> Answer {
        self.send_request("GET", target, "", b"");
        self.answer("GET")
    }

    /// `headers` are whole lines with their ends.
    pub fn send_request(&mut self, method: &str, target: &str, headers: &str, body: &[u8]) {
        let host = if headers
            .lines()
            .any(|line| line.to_lowercase().starts_with("host:"))
        {
            String::new()
        } else {
            format!("Host: {}\r\n", self.host)
        };
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        let head = format!("{method} {target} HTTP/1.1\r\n{host}{length}{headers}\r\n");
        self.send(head.as_bytes());
        self.send(body);
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).unwrap();
    }

    pub fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    fn more(&mut self) -> usize {
        let mut block = vec![0; 64 << 10];
        let got = match self.stream.read(&mut block) {
            Ok(got) => got,
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(e) => panic!("no answer: {e}"),
        };
        self.buffer.extend_from_slice(&block[..got]);
        got
    }

    /// The next answer; `None` if the connection ends before it.
    pub fn next_answer(&mut self, method: &str) -> Option<Answer> {
        let end = loop {
            if let Some(end) = self.buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                break end;
            }
            if self.more() == 0 {
                return None;
            }
        };
        let head = String::from_utf8(self.buffer[..end].to_vec()).unwrap();
        self.buffer.drain(..end + 4);
        let mut lines = head.split("\r\n");
        let status: u16 = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(':').unwrap())
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        let mut answer = Answer {
            status,
            headers,
            body: Vec::new(),
        };
        assert_eq!(
            answer.header("transfer-encoding"),
            None,
            "every answer says how long it is"
        );
        if method != "HEAD" && status != 304 {
            let length: usize = answer
                .header("content-length")
                .expect("a length")
                .parse()
                .unwrap();
            while self.buffer.len() < length {
                assert!(
                    self.more() > 0,
                    "the answer broke off after {} of {length} bytes",
                    self.buffer.len()
                );
            }
            answer.body = self.buffer.drain(..length).collect();
        }
        Some(answer)
    }

    pub fn answer(&mut self, method: &str) -> Answer {
        self.next_answer(method)
            .expect("the connection ended without an answer")
    }

    /// Whether the server ends the connection, with nothing more to say.
    pub fn ends(&mut self) -> bool {
        self.buffer.is_empty() && self.more() == 0
    }
}

/// Text as it stands in a URL.
pub fn coded(text: &str) -> String {
    text.bytes().map(|b| format!("%{b:02X}")).collect()
}
