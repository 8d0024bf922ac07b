//! Where a test runs: a home and a working folder of its own, a small golden model, a small rated data set.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub fn model() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../encode/tests/golden/mpnet-tiny");
    folder.display().to_string()
}

/// A place of its own for each test: home and working folder.
pub struct Place(pub tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs_err::write(self.path(name), content).unwrap();
        name.to_owned()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        self.command_through(&[], args)
    }

    /// The program with its arguments, as those of another program if `through` has one.
    fn command_through(&self, through: &[&str], args: &[&str]) -> Command {
        let line = [through, &[env!("CARGO_BIN_EXE_hark")], args].concat();
        let mut command = Command::new(line[0]);
        command
            .args(&line[1..])
            .current_dir(self.0.path())
            .env("HARK_HOME", self.path("home"))
            .stdin(Stdio::null());
        // No test reaches for the network, nor for programs that some machines have.
        command
            .env("HARK_FFMPEG", "")
            .env("HF_ENDPOINT", "http://127.0.0.1:9")
            .env("PIP_NO_INDEX", "1")
            .env_remove("PIP_FIND_LINKS");
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// As [`Self::run`], but bound by the permissions of files, which root is otherwise above.
    #[cfg(unix)]
    pub fn run_bound_by_permissions(&self, args: &[&str]) -> Output {
        use std::os::unix::fs::PermissionsExt;
        let locked = self.path("locked");
        fs_err::write(&locked, "").unwrap();
        fs_err::set_permissions(&locked, PermissionsExt::from_mode(0o000)).unwrap();
        let through: &[&str] = if fs_err::File::open(&locked).is_ok() {
            // Of util-linux: without the two powers to read what may not be read.
            &["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
        } else {
            &[]
        };
        fs_err::remove_file(&locked).unwrap();
        self.command_through(through, args).output().unwrap()
    }

    /// Stdout of a run that must succeed.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    pub fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(args)).unwrap()
    }

    /// Stderr of a run that must fail as a failure (not as wrong usage), saying nothing on stdout.
    pub fn fails(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {message}");
        assert!(output.stdout.is_empty(), "{args:?}: {}", text(&output.stdout));
        assert!(!message.contains("panicked"), "{message}");
        message
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub const RATINGS_HEADER: &str = "query,query_file,candidate_file,group,rating\n";

/// Five clips of two captions each, and ratings that grow with likeness.
pub fn rated_set(place: &Place) -> (String, String) {
    let captions = "file_name,caption_1,caption_2\n\
        a.wav,a cat is crying,a cat cries\n\
        b.wav,a cat is crying and a person speaks,cat and person\n\
        c.wav,heavy rain falls on a roof,rain is falling\n\
        d.wav,an engine is running,a car engine runs\n\
        e.wav,birds sing in a tree,many birds are singing\n";
    let mut ratings = RATINGS_HEADER.to_owned();
    for (nth, clip) in ["a.wav", "b.wav", "c.wav", "d.wav", "e.wav"].iter().enumerate() {
        ratings.push_str(&format!(
            "a cat is crying,a.wav,{clip},C15,{}\n",
            [97, 60, 8, 21, 3][nth]
        ));
        ratings.push_str(&format!(
            "rain is falling,c.wav,{clip},C15,{}\n",
            [12, 5, 92, 30, 17][nth]
        ));
    }
    (
        place.write("captions.csv", captions),
        place.write("ratings.csv", ratings),
    )
}

/// A WAV file of one channel of 16 bits.
pub fn wav(rate: u32, samples: &[i16]) -> Vec<u8> {
    let bytes = 2 * samples.len() as u32;
    let mut wav = b"RIFF".to_vec();
    wav.extend((36 + bytes).to_le_bytes());
    wav.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    wav.extend(rate.to_le_bytes());
    wav.extend((2 * rate).to_le_bytes());
    wav.extend(b"\x02\0\x10\0data");
    wav.extend(bytes.to_le_bytes());
    wav.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
    wav
}
