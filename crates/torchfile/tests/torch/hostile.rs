//! Archives and streams that are cut short, contradict themselves or play tricks.

use std::path::Path;

use hark_torchfile::Error;
use hark_torchfile::TorchFile;
use zip::CompressionMethod;

use super::golden;
use super::make::{
    MAGIC, archive, dict, ints, open, packed_archive, refused, storage, stream, tensor, tensor_of, text,
    with_pickle,
};

fn good_pickle() -> Vec<u8> {
    dict(&[("w", tensor(4, 0, &[4], &[1]))])
}

fn numbers() -> Vec<u8> {
    [1.0_f32, 2.0, 3.0, 4.0]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect()
}

/// The numbers of every tensor of floating point.
fn read_tensors(file: &TorchFile) -> Result<Vec<Vec<f32>>, Error> {
    let floats = file.tensors().iter().filter(|(_, info)| info.dtype.is_float());
    floats.map(|(name, _)| file.read_f32(name)).collect()
}

fn read_file(path: &Path) -> Result<Vec<Vec<f32>>, Error> {
    read_tensors(&TorchFile::open(path)?)
}

fn read_all(bytes: &[u8]) -> Result<Vec<Vec<f32>>, Error> {
    read_tensors(&open(bytes)?)
}

#[test]
fn a_file_cut_at_any_byte_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["plain.pt", "plain_legacy.pt", "protocol4.pt"] {
        let path = folder.path().join(name);
        fs_err::copy(golden::folder().join(name), &path).unwrap();
        assert!(read_file(&path).is_ok());
        // The file gets shorter by a byte each time.
        let file = fs_err::OpenOptions::new().write(true).open(&path).unwrap();
        for end in (0..file.metadata().unwrap().len()).rev() {
            file.set_len(end).unwrap();
            let error = read_file(&path).expect_err(name);
            assert!(!matches!(error, Error::Io(_)), "{name} cut at {end}: {error}");
        }
    }
}

#[test]
fn a_changed_byte_of_a_number_is_noticed_in_an_archive() {
    let bytes = fs_err::read(golden::folder().join("plain.pt")).unwrap();
    let weight = TorchFile::open(&golden::folder().join("plain.pt"))
        .unwrap()
        .read_f32("linear.weight")
        .unwrap();
    let pattern: Vec<u8> = weight.iter().flat_map(|x| x.to_le_bytes()).collect();
    let at = bytes.windows(pattern.len()).position(|w| w == pattern).unwrap();
    for nth in 0..pattern.len() {
        let mut changed = bytes.clone();
        changed[at + nth] ^= 1;
        assert!(refused(&changed).contains("checksum"));
    }
}

#[test]
fn files_of_other_kinds_are_refused_for_what_they_are() {
    let mut tar = vec![0_u8; 1024];
    tar[257..262].copy_from_slice(b"ustar");
    assert!(refused(&tar).contains("tar"));
    for bytes in [
        &b""[..],
        b"\x80",
        b"GGUF\x03",
        b"{\"a\": 1}",
        b"\x93NUMPY\x01\0",
        b"\x80\x02K\x01.",
    ] {
        assert!(
            refused(bytes).contains("truncated or damaged PyTorch file"),
            "{bytes:?}"
        );
    }
    assert!(refused(b"PK").contains("truncated or damaged PyTorch file"));
    assert!(refused(&archive(&[])).contains("without a data.pkl"));
    assert!(refused(&archive(&[("model.npy", b"x")])).contains("without a data.pkl"));
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(TorchFile::open(folder.path()), Err(Error::Io(_))));
    assert!(matches!(
        TorchFile::open(&folder.path().join("none")),
        Err(Error::Io(_))
    ));
}

#[test]
fn folders_of_an_archive_may_have_any_one_name() {
    let pickle = good_pickle();
    for name in ["archive", "a b", "модель", "..", "C:", ""] {
        let (pkl, data) = (format!("{name}/data.pkl"), format!("{name}/data/0"));
        let bytes = archive(&[(&pkl, &pickle), (&data, &numbers())]);
        assert_eq!(read_all(&bytes).unwrap(), [[1.0, 2.0, 3.0, 4.0]], "{name}");
    }
    let two = archive(&[
        ("a/data.pkl", &pickle),
        ("b/data.pkl", &pickle),
        ("a/data/0", &numbers()),
    ]);
    assert!(refused(&two).contains("more than one"));
    let deep = archive(&[("a/b/data.pkl", &pickle), ("a/b/data/0", &numbers())]);
    assert!(refused(&deep).contains("without a data.pkl"));
    let bare = archive(&[("data.pkl", &pickle), ("data/0", &numbers())]);
    assert!(refused(&bare).contains("without a data.pkl"));
}

#[test]
fn keys_are_compared_and_never_followed() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    fs_err::write(&secret, numbers()).unwrap();
    for key in [
        secret.to_str().unwrap(),
        "../../../etc/passwd",
        "0/",
        "./0",
        "00",
        "",
        "0\0",
    ] {
        let of_key = tensor_of(storage("FloatStorage", key, 4), 0, ints(&[4]), ints(&[1]));
        let message = refused(&with_pickle(&dict(&[("w", of_key)])));
        assert!(message.contains("is not there"), "{message}");
    }
    // A storage may have such a name, as long as the archive has it too.
    let of_key = tensor_of(storage("FloatStorage", "../x", 4), 0, ints(&[4]), ints(&[1]));
    let bytes = archive(&[
        ("a/data.pkl", &dict(&[("w", of_key)])),
        ("a/data/../x", &numbers()),
    ]);
    assert_eq!(read_all(&bytes).unwrap(), [[1.0, 2.0, 3.0, 4.0]]);
}

#[test]
fn two_entries_of_one_name_are_refused() {
    let mut bytes = archive(&[
        ("a/data.pkl", &good_pickle()),
        ("a/data/0", &numbers()),
        ("a/data/1", &[0; 16]),
    ]);
    assert!(read_all(&bytes).is_ok());
    while let Some(at) = bytes.windows(8).position(|w| w == b"a/data/1") {
        bytes[at + 7] = b'0';
    }
    assert!(refused(&bytes).contains("same name"));
}

#[test]
fn a_storage_of_another_length_is_refused() {
    for length in [0, 4, 15, 17, 32] {
        let bytes = archive(&[("a/data.pkl", &good_pickle()), ("a/data/0", &vec![0; length])]);
        assert!(refused(&bytes).contains("its pickle says 16"), "{length}");
    }
}

#[test]
fn byte_order_and_torchscript_are_looked_at() {
    let with = |name: &str, content: &[u8]| {
        archive(&[
            ("a/data.pkl", &good_pickle()),
            ("a/data/0", &numbers()),
            (name, content),
        ])
    };
    assert!(read_all(&with("a/byteorder", b"little")).is_ok());
    assert!(refused(&with("a/byteorder", b"big")).contains("byte order"));
    assert!(refused(&with("a/byteorder", &[b'l'; 1000])).contains("byteorder"));
    assert!(refused(&with("a/constants.pkl", b"")).contains("TorchScript"));
}

#[test]
fn compressed_entries_are_read_within_limits() {
    let deflated = CompressionMethod::Deflated;
    let part = dict(&[("w", tensor(4, 1, &[2], &[2]))]);
    let bytes = packed_archive(&[
        ("a/data.pkl", &part, deflated),
        ("a/data/0", &numbers(), deflated),
    ]);
    assert_eq!(read_all(&bytes).unwrap(), [[2.0, 4.0]]);

    // A kilobyte that unpacks to a megabyte is a storage like any other, and a pickle has its limit.
    let wide = dict(&[("w", tensor(1 << 18, 0, &[1 << 18], &[1]))]);
    let stored = CompressionMethod::Stored;
    let bytes = packed_archive(&[
        ("a/data.pkl", &wide, stored),
        ("a/data/0", &vec![0; 1 << 20], deflated),
    ]);
    assert!(bytes.len() < 4_000);
    assert_eq!(read_all(&bytes).unwrap(), [vec![0.0; 1 << 18]]);
    let bytes = packed_archive(&[("a/data.pkl", &vec![b'N'; 65 << 20], deflated)]);
    assert!(refused(&bytes).contains("compressed entry `a/data.pkl`"));
}

/// Where the central directory has the lengths of an entry.
fn lengths_of(bytes: &[u8], name: &[u8]) -> usize {
    let header = |at: &usize| bytes[at - 46..].starts_with(b"PK\x01\x02");
    let names = bytes
        .windows(name.len())
        .enumerate()
        .filter(|(at, w)| *w == name && *at >= 46);
    names.map(|(at, _)| at).find(header).unwrap() - 46 + 20
}

#[test]
fn lengths_that_an_archive_invents_are_refused() {
    let deflated = CompressionMethod::Deflated;
    for method in [CompressionMethod::Stored, deflated] {
        for claimed in [12_u32, 15, 17, 20, 0, 1 << 20, 1 << 30, u32::MAX - 3] {
            let count = i64::from(claimed / 4);
            let claim = dict(&[("w", tensor(count, 0, &[count], &[1]))]);
            let mut bytes = packed_archive(&[
                ("a/data.pkl", &claim, CompressionMethod::Stored),
                ("a/data/0", &numbers(), method),
            ]);
            let at = lengths_of(&bytes, b"a/data/0");
            bytes[at + 4..at + 8].copy_from_slice(&claimed.to_le_bytes());
            refused(&bytes);
            bytes[at..at + 4].copy_from_slice(&claimed.to_le_bytes());
            refused(&bytes);
        }
    }
}

#[test]
fn a_packed_storage_that_is_shorter_than_it_says_is_refused() {
    let whole = dict(&[("w", tensor(1 << 20, 0, &[1 << 20], &[1]))]);
    let mut bytes = packed_archive(&[
        ("a/data.pkl", &whole, CompressionMethod::Stored),
        ("a/data/0", &numbers(), CompressionMethod::Deflated),
    ]);
    let at = lengths_of(&bytes, b"a/data/0");
    bytes[at + 4..at + 8].copy_from_slice(&(4_u32 << 20).to_le_bytes());
    refused(&bytes);
}

/// An archive of nothing but a list of entries, `count` of them, each with a name of 60 000 bytes.
fn only_a_directory(count: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    for nth in 0..count {
        bytes.extend(b"PK\x01\x02\x14\x00\x14\x00");
        bytes.extend([0; 20]);
        bytes.extend(60_000_u16.to_le_bytes());
        bytes.extend([0; 16]);
        bytes.extend(format!("{nth:060000}").into_bytes());
    }
    let length = bytes.len() as u32;
    bytes.extend(b"PK\x05\x06\x00\x00\x00\x00");
    bytes.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    bytes.extend([length.to_le_bytes(), [0; 4]].concat());
    bytes.extend([0; 2]);
    bytes
}

#[test]
fn a_directory_has_a_limit() {
    assert!(refused(&only_a_directory(3)).contains("without a data.pkl"));
    assert!(refused(&only_a_directory(1_200)).contains("the directory of its archive is too long"));
}

#[test]
fn an_encrypted_entry_is_refused() {
    let mut bytes = archive(&[("a/data.pkl", &good_pickle()), ("a/data/0", &numbers())]);
    let at = lengths_of(&bytes, b"a/data/0");
    bytes[at - 12] |= 1;
    refused(&bytes);
}

#[test]
fn streams_made_by_hand_are_read_and_refused() {
    let count = 4_u64.to_le_bytes();
    let storages = [&count[..], &numbers()].concat();
    let good = stream(&good_pickle(), &["0"], &storages);
    assert_eq!(read_all(&good).unwrap(), [[1.0, 2.0, 3.0, 4.0]]);
    // PyTorch does not look behind the last storage either.
    assert!(read_all(&[&good[..], b"more"].concat()).is_ok());

    let two = dict(&[
        ("w", tensor(4, 0, &[4], &[1])),
        (
            "v",
            tensor_of(storage("HalfStorage", "0", 4), 0, ints(&[4]), ints(&[1])),
        ),
    ]);
    for (bytes, what) in [
        (stream(&good_pickle(), &["1"], &storages), "of no tensor"),
        (stream(&good_pickle(), &[], &storages), "is not there"),
        (
            stream(&good_pickle(), &["0", "0"], &[&storages[..], &storages].concat()),
            "is there twice",
        ),
        (
            stream(
                &good_pickle(),
                &["0"],
                &[&5_u64.to_le_bytes()[..], &numbers(), &[0; 4]].concat(),
            ),
            "another size",
        ),
        (
            stream(
                &good_pickle(),
                &["0"],
                &[&u64::MAX.to_le_bytes()[..], &numbers()].concat(),
            ),
            "another size",
        ),
        (stream(&two, &["0"], &storages), "in two ways"),
        ([MAGIC, b"M\xea\x03."].concat(), "version"),
        ([MAGIC, b"M\xe9\x03.", b"}."].concat(), "what machine"),
        (
            [MAGIC, b"M\xe9\x03.", b"}", &text("little_endian")[..], b"\x89s."].concat(),
            "byte order",
        ),
        ([MAGIC, MAGIC].concat(), "version"),
    ] {
        let message = refused(&bytes);
        assert!(message.contains(what), "{message}");
    }
    let endless = dict(&[("w", tensor(i64::MAX, 0, &[4], &[1]))]);
    let storages = [&i64::MAX.to_le_bytes()[..], &numbers()].concat();
    assert!(refused(&stream(&endless, &["0"], &storages)).contains("cut short"));
    let machine = [b"}".to_vec(), text("little_endian"), vec![0x88], b"s.".to_vec()].concat();
    let no_keys = [MAGIC, b"M\xe9\x03.", &machine, &good_pickle(), b"N."].concat();
    assert!(refused(&no_keys).contains("no list of storages"));
}
