//! Files of PyTorch with changed bytes, and pickles of random instructions: an error or some tensors each, never a
//! panic.
//!
//! Run for longer with `BOLERO_RANDOM_TEST_TIME_MS=600000 cargo test --release -p hark-encode --test fuzz_torch`.

use std::fs::File;
use std::io::{Cursor, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use hark_torchfile::TorchFile;
use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// How long each of the targets runs where nothing else is said.
const TIME: Duration = Duration::from_secs(4);

/// Tensors of more elements are not read: a number repeated so often would only take time.
const MAX_ELEMENTS: usize = 1 << 20;

/// Instructions of pickles, with their arguments; each is whole, so that random ones in a row get somewhere.
#[rustfmt::skip]
const INSTRUCTIONS: [&[u8]; 56] = [
    b"(", b"(", b"(", b".", b"0", b"1", b"2", b"N", b"\x88", b"\x89", b"K\x00", b"K\x01", b"K\x04",
    b"M\xff\xff", b"J\xff\xff\xff\xff", b"I7\n", b"I01\n", b"L99999999999L\n",
    b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x8b\x00\x00\x00\x00", b"G\0\0\0\0\0\0\0\0", b"F1\n",
    b"X\x01\0\0\0w", b"\x8c\x010", b"\x8c\x07storage", b"\x8c\x03cpu", b"U\x01v", b"Vx\\u0041\n", b"C\x01a",
    b")", b"]", b"}", b"\x8f", b"\x85", b"\x86", b"\x87", b"t", b"l", b"d", b"\x91", b"a", b"e", b"s", b"u",
    b"\x90", b"b", b"\x81", b"R", b"R", b"Q", b"\x94", b"q\x00", b"h\x00", b"h\x01",
    b"ctorch\nFloatStorage\n", b"cos\nsystem\n",
];

/// Longer runs of instructions: classes and functions that are known, and a whole storage and tensor.
const PHRASES: [&[u8]; 8] = [
    b"ccollections\nOrderedDict\n)R",
    b"ctorch._utils\n_rebuild_tensor_v2\n",
    b"ctorch._utils\n_rebuild_tensor_v3\n",
    b"ctorch._utils\n_rebuild_parameter\n",
    b"ctorch._tensor\n_rebuild_from_type_v2\n",
    b"(\x8c\x07storagectorch\nFloatStorage\n\x8c\x010\x8c\x03cpuK\x04tQ",
    b"ctorch._utils\n_rebuild_tensor_v2\n((\x8c\x07storagectorch\nFloatStorage\n\x8c\x010\x8c\x03cpuK\x04tQ\
      K\x00K\x04\x85K\x01\x85\x89NtR",
    b"ctorch._utils\n_rebuild_tensor_v3\n((\x8c\x07storagectorch.storage\nUntypedStorage\n\x8c\x010\x8c\x03cpuK\x10tQ\
      K\x00K\x02K\x02\x86K\x02K\x01\x86\x89Nctorch\nfloat16\ntR",
];

/// The golden files; the checksums of the archives are set to 0, which means that there are none.
fn files() -> &'static [Vec<u8>] {
    static FILES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    FILES.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/torch");
        let mut paths: Vec<_> = fs_err::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        paths.retain(|path| path.extension().is_some_and(|e| e != "json"));
        paths.sort();
        let mut files: Vec<_> = paths.iter().map(|path| fs_err::read(path).unwrap()).collect();
        for bytes in &mut files {
            without_checksums(bytes);
        }
        files
    })
}

fn without_checksums(bytes: &mut [u8]) {
    for at in 0..bytes.len().saturating_sub(20) {
        if bytes[at..].starts_with(b"PK\x01\x02") {
            bytes[at + 16..at + 20].fill(0);
        }
    }
}

/// A file that is written over again and again: making it anew each time would take most of the time.
struct Place {
    path: PathBuf,
    file: File,
    _folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.pt");
        let file = File::create(&path).unwrap();
        Self {
            path,
            file,
            _folder: folder,
        }
    }

    fn write(&self, bytes: &[u8]) {
        (&self.file).rewind().unwrap();
        (&self.file).write_all(bytes).unwrap();
        self.file.set_len(bytes.len() as u64).unwrap();
    }
}

/// Opens the bytes as a file and reads all that can be read; the number of tensors.
fn read(bytes: &[u8], place: &Place) -> usize {
    place.write(bytes);
    let file = match TorchFile::open(&place.path) {
        Ok(file) => file,
        Err(error) => {
            assert!(error.to_string().len() < 2_000 + place.path.as_os_str().len());
            return 0;
        }
    };
    for (name, info) in file.tensors() {
        assert_eq!(info.elements(), info.shape.iter().product::<usize>());
        if info.elements() > MAX_ELEMENTS {
            continue;
        }
        if let Ok(numbers) = file.read_f32(name) {
            assert_eq!(numbers.len(), info.elements());
        }
    }
    file.tensors().len()
}

fn changed(which: u8, changes: &[(u16, u8)], cut: Option<u16>) -> Vec<u8> {
    let mut file = files()[usize::from(which) % files().len()].clone();
    for &(part, byte) in changes {
        let at = usize::from(part) % file.len();
        file[at] = byte;
    }
    if let Some(cut) = cut {
        file.truncate(usize::from(cut) % (file.len() + 1));
    }
    file
}

#[test]
fn a_few_changed_bytes() {
    let place = Place::new();
    bolero::check!()
        .with_type::<(u8, [(u16, u8); 4], u8, Option<u16>)>()
        .with_test_time(TIME)
        .for_each(|(which, changes, count, cut)| {
            let changes = &changes[..=usize::from(count % 4)];
            // Most files keep their end: an archive without it says nothing.
            let cut = cut.filter(|cut| cut % 8 == 0);
            read(&changed(*which, changes, cut), &place);
        });
}

/// One byte goes up or down by one, or has one of its bits turned: what a length or a place needs to lie.
#[test]
fn one_byte_a_little_off() {
    let place = Place::new();
    bolero::check!()
        .with_type::<(u8, u16, u8)>()
        .with_test_time(TIME)
        .for_each(|(which, at, how)| {
            let mut file = changed(*which, &[], None);
            let at = usize::from(*at) % file.len();
            file[at] = match how % 10 {
                8 => file[at].wrapping_add(1),
                9 => file[at].wrapping_sub(1),
                bit => file[at] ^ (1 << bit),
            };
            read(&file, &place);
        });
}

#[test]
fn pickles_of_random_instructions() {
    let place = Place::new();
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let all: Vec<&[u8]> = INSTRUCTIONS.iter().chain(&PHRASES).copied().collect();
    bolero::check!()
        .with_type::<(u8, [u8; 12], bool)>()
        .with_test_time(TIME)
        .for_each(|(count, codes, whole)| {
            let codes = &codes[..usize::from(*count) % 13];
            let random: Vec<u8> = codes
                .iter()
                .flat_map(|code| all[usize::from(*code) % all.len()])
                .copied()
                .collect();
            // Two values in the memo and on the stack, and a dictionary that has a tensor and is still open.
            let pickle = if *whole {
                [b"}q\x00]q\x01(", &random[..], b"."].concat()
            } else {
                [
                    b"}q\x00)q\x010(\x8c\x01w",
                    PHRASES[6],
                    b"\x8c\x01v",
                    &random[..],
                    b"u.",
                ]
                .concat()
            };
            let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
            for (name, content) in [("a/data.pkl", &pickle[..]), ("a/data/0", &[1; 16])] {
                zip.start_file(name, stored).unwrap();
                zip.write_all(content).unwrap();
            }
            read(&zip.finish().unwrap().into_inner(), &place);
        });
}

#[test]
fn the_unchanged_files_are_read() {
    let place = Place::new();
    let found = files().iter().filter(|bytes| read(bytes, &place) > 0).count();
    // All but the model that was saved as an object, and TorchScript.
    assert_eq!(found, files().len() - 2);
}
