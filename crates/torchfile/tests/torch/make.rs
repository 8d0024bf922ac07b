//! Pickles and archives, made by hand.

use std::io::{Cursor, Write};
use std::path::PathBuf;

use hark_torchfile::Error;
use hark_torchfile::TorchFile;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Writes bytes to a file of their own and opens it.
pub fn open(bytes: &[u8]) -> Result<TorchFile, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("file.pt");
    fs_err::write(&path, bytes).unwrap();
    TorchFile::open(&path)
}

/// Opens the file and reads every tensor that can be; a refusal's message.
pub fn refused(bytes: &[u8]) -> String {
    let error = open(bytes)
        .and_then(|file| {
            let names: Vec<&String> = file.tensors().keys().collect();
            names
                .into_iter()
                .try_for_each(|name| file.read_f32(name).map(drop))
        })
        .unwrap_err();
    assert!(!matches!(error, Error::Io(_)), "{error}");
    error.to_string()
}

/// A zip archive of these entries, stored as they are.
pub fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let entries: Vec<_> = entries
        .iter()
        .map(|(n, b)| (*n, *b, CompressionMethod::Stored))
        .collect();
    packed_archive(&entries)
}

pub fn packed_archive(entries: &[(&str, &[u8], CompressionMethod)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes, method) in entries {
        let options = SimpleFileOptions::default().compression_method(*method);
        zip.start_file(*name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// An archive with a pickle of these instructions and one storage `0` of four numbers.
pub fn with_pickle(instructions: &[u8]) -> Vec<u8> {
    archive(&[("a/data.pkl", instructions), ("a/data/0", &[0; 16])])
}

/// The four bytes of a length, lowest first.
pub fn text(text: &str) -> Vec<u8> {
    let mut out = vec![b'X'];
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
    out
}

pub fn int(n: i64) -> Vec<u8> {
    [&[0x8a, 8][..], &n.to_le_bytes()].concat()
}

pub fn tuple(items: &[Vec<u8>]) -> Vec<u8> {
    [b"(".to_vec(), items.concat(), b"t".to_vec()].concat()
}

pub fn ints(numbers: &[i64]) -> Vec<u8> {
    tuple(&numbers.iter().map(|n| int(*n)).collect::<Vec<_>>())
}

pub fn global(module: &str, name: &str) -> Vec<u8> {
    format!("c{module}\n{name}\n").into_bytes()
}

pub fn call(module: &str, name: &str, arguments: &[Vec<u8>]) -> Vec<u8> {
    [global(module, name), tuple(arguments), b"R".to_vec()].concat()
}

pub fn storage(class: &str, key: &str, count: i64) -> Vec<u8> {
    let parts = [
        text("storage"),
        global("torch", class),
        text(key),
        text("cpu"),
        int(count),
    ];
    [tuple(&parts), b"Q".to_vec()].concat()
}

/// A tensor of the storage `0`, which has `count` elements.
pub fn tensor(count: i64, offset: i64, shape: &[i64], strides: &[i64]) -> Vec<u8> {
    tensor_of(
        storage("FloatStorage", "0", count),
        offset,
        ints(shape),
        ints(strides),
    )
}

pub fn tensor_of(storage: Vec<u8>, offset: i64, shape: Vec<u8>, strides: Vec<u8>) -> Vec<u8> {
    let hooks = call("collections", "OrderedDict", &[]);
    let arguments = [storage, int(offset), shape, strides, vec![0x89], hooks];
    call("torch._utils", "_rebuild_tensor_v2", &arguments)
}

/// A whole pickle of a dictionary.
pub fn dict(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut out = b"\x80\x02}(".to_vec();
    for (key, value) in entries {
        out.extend(text(key));
        out.extend(value);
    }
    out.extend(b"u.");
    out
}

/// A whole file of the older layout, with one storage of four numbers.
pub fn stream(object: &[u8], keys: &[&str], storages: &[u8]) -> Vec<u8> {
    let machine = [b"}".to_vec(), text("little_endian"), vec![0x88], b"s.".to_vec()].concat();
    let listed = [
        b"](".to_vec(),
        keys.iter().flat_map(|k| text(k)).collect(),
        b"e.".to_vec(),
    ]
    .concat();
    [MAGIC, b"M\xe9\x03.", &machine, object, &listed, storages].concat()
}

/// The number that the older layout begins with, as a pickle.
pub const MAGIC: &[u8] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
