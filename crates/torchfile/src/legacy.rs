//! The stream that `torch.save` wrote before version 1.6, and still writes when asked to.
//!
//! Five pickles follow each other: a number that marks the format, the format's version, what machine wrote it, the
//! object itself, and the list of the storages' keys. Then come the storages in the order of the list, each with the
//! number of its elements in eight bytes in front.

use std::collections::HashMap;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use fs_err::File;

use super::container::{pickle_error, read_error};
use super::pickle::{self, PickleError};
use super::value::{Pickle, Value, shortened};
use super::{damaged, unsupported};
use crate::Error;

/// The number that the stream begins with.
const MAGIC: i128 = 0x1950_a86a_20f9_469c_fc6c;
/// The one version of the stream.
const VERSION: i128 = 1001;

/// Reads the five pickles and finds where each storage begins.
pub(super) fn read(
    path: &Path,
    file: &mut BufReader<File>,
    length: u64,
) -> Result<(HashMap<String, u64>, Pickle), Error> {
    check_magic(path, file)?;
    let mut next = || pickle::read(file).map_err(|e| pickle_error(path, e));
    check_version(path, &next()?)?;
    check_machine(path, &next()?)?;
    let object = next()?;
    let keys = next()?;
    let places = places(path, file, length, &object, &keys)?;
    Ok((places, object))
}

fn check_magic(path: &Path, file: &mut BufReader<File>) -> Result<(), Error> {
    match pickle::read(file) {
        Ok(pickle) if is_integer(&pickle, MAGIC) => Ok(()),
        Err(PickleError::Io(error)) => Err(error.into()),
        _ => {
            let what = "it is no zip archive, and does not begin with the number that torch.save writes";
            Err(damaged(path, what.into()))
        }
    }
}

fn check_version(path: &Path, pickle: &Pickle) -> Result<(), Error> {
    if !is_integer(pickle, VERSION) {
        return Err(unsupported(path, "this version of the older format".into()));
    }
    Ok(())
}

fn check_machine(path: &Path, pickle: &Pickle) -> Result<(), Error> {
    let little = pickle
        .entry(pickle.root(), "little_endian")
        .map(|id| pickle.get(id));
    match little {
        Some(Value::Bool(true)) => Ok(()),
        Some(Value::Bool(false)) => Err(unsupported(
            path,
            "a file of a machine with another byte order".into(),
        )),
        _ => Err(damaged(path, "it does not say what machine wrote it".into())),
    }
}

fn is_integer(pickle: &Pickle, wanted: i128) -> bool {
    matches!(pickle.get(pickle.root()), Value::Int(n) if *n == wanted)
}

/// Goes through the storages behind the pickles, from one to the next.
fn places(
    path: &Path,
    file: &mut BufReader<File>,
    length: u64,
    object: &Pickle,
    keys: &Pickle,
) -> Result<HashMap<String, u64>, Error> {
    let bad = |what: &str, key: &str| damaged(path, format!("the storage `{}` {what}", shortened(key)));
    let mut named = HashMap::new();
    for storage in object.storages() {
        let key = object.text(storage.key).unwrap_or_default();
        let described = (storage.count, storage.dtype.size());
        if named
            .insert(key, described)
            .is_some_and(|before| before != described)
        {
            return Err(bad("is described in two ways", key));
        }
    }
    let Some(keys_in_order) = keys.items(keys.root()) else {
        return Err(damaged(path, "it has no list of storages".into()));
    };
    let mut places = HashMap::new();
    let mut at = file.stream_position()?;
    for id in keys_in_order {
        let key = keys.text(*id).unwrap_or_default();
        let Some((count, size)) = named.get(key) else {
            return Err(bad("is of no tensor that is understood", key));
        };
        let mut stated = [0_u8; 8];
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(&mut stated).map_err(|e| read_error(path, e))?;
        if u64::from_le_bytes(stated) != *count {
            return Err(bad("has another size than its pickle says", key));
        }
        let start = at.saturating_add(8);
        at = start.saturating_add(count.saturating_mul(*size));
        if at > length {
            return Err(bad("is cut short", key));
        }
        if places.insert(key.to_owned(), start).is_some() {
            return Err(bad("is there twice", key));
        }
    }
    Ok(places)
}
