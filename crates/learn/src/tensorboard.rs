//! Scalars into an event file that TensorBoard reads.
//!
//! In: a folder, and scalars with tag, step and wall time. Out: one file `events.out.tfevents.SECONDS.hark.SUFFIX`. The wall
//! time, in seconds since 1970, is always an argument: nothing here reads a clock. Refused are a wall time that no file name
//! can carry, a suffix that is not part of a file name, and a file that is already there.
//!
//! The file is a sequence of TFRecord records, all numbers little-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | length n of the message |
//! | 4 | masked CRC-32C of these 8 bytes |
//! | n | the message |
//! | 4 | masked CRC-32C of the message |
//!
//! where masked(c) = (c rotated right by 15) + 0xA282EAD8 modulo 2^32. Messages are protocol buffers, of which only this
//! is used:
//!
//! ```text
//! Event   { double wall_time = 1; int64 step = 2; oneof { string file_version = 3; Summary summary = 5; } }
//! Summary { repeated Value value = 1; }
//! Value   { string tag = 1; float simple_value = 2; }
//! ```
//!
//! It is written here because this is all that hark needs of the format: a protocol buffer library would generate code
//! for one message of three fields.
//!
//! The first event has the file version `brain.Event:2`; every other one has a summary of one value. A file that ends
//! within a record, as after a crash, is read up to there.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// What the first event of every file says.
const FILE_VERSION: &str = "brain.Event:2";

/// Wall times from here on have no whole seconds of their own in 64 bits.
const LATEST: f64 = 9_007_199_254_740_992.0;

/// One event file that is being written. What has not been flushed is written when it is dropped, but an error is then
/// lost: call [`EventWriter::flush`] at the end.
#[derive(Debug)]
pub struct EventWriter {
    path: PathBuf,
    file: BufWriter<File>,
}

impl EventWriter {
    /// Begins a file in a folder that exists. With an empty `suffix` the name ends in `hark`; a run that writes several
    /// files, or may begin twice within a second, tells them apart by it. TensorBoard reads the files of a folder in the
    /// order of their names.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] for a wall time that is negative, not finite or beyond 2^53, and for a suffix with
    /// other characters than ASCII letters, digits, `-`, `_` and `.`; [`io::ErrorKind::AlreadyExists`] when there is such a
    /// file; and what the file system says. All name the path.
    pub fn create(folder: &Path, wall_time: f64, suffix: &str) -> io::Result<Self> {
        let path = folder.join(file_name(wall_time, suffix)?);
        let file = File::create_new(&path).map_err(|error| at(&path, &error))?;
        let mut writer = Self {
            path,
            file: BufWriter::new(file),
        };
        writer.record(&version_event(wall_time))?;
        writer.flush()?;
        Ok(writer)
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds one point to the curve `tag`. Values that are not finite are written as they are: TensorBoard marks them.
    ///
    /// # Errors
    ///
    /// What the file system says, with the path.
    pub fn scalar(&mut self, tag: &str, value: f32, step: i64, wall_time: f64) -> io::Result<()> {
        self.record(&scalar_event(tag, value, step, wall_time))
    }

    /// Hands everything to the operating system, so that a TensorBoard that watches the folder sees it.
    ///
    /// # Errors
    ///
    /// What the file system says, with the path.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(|error| at(&self.path, &error))
    }

    fn record(&mut self, message: &[u8]) -> io::Result<()> {
        self.file
            .write_all(&framed(message))
            .map_err(|error| at(&self.path, &error))
    }
}

/// The same error with the path in its message.
fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn file_name(wall_time: f64, suffix: &str) -> io::Result<String> {
    let refused = |message: String| Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    if !(0.0..LATEST).contains(&wall_time) {
        return refused(format!("an event file cannot begin at the wall time {wall_time}"));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !suffix.chars().all(plain) {
        return refused(format!(
            "`{suffix}` cannot end the name of an event file: only letters, digits, `-`, `_` and `.` can"
        ));
    }
    let dot = if suffix.is_empty() { "" } else { "." };
    // Ten digits, so that the order of names is that of times.
    Ok(format!(
        "events.out.tfevents.{:010}.hark{dot}{suffix}",
        wall_time as u64
    ))
}

// ---------------------------------------------------------------- messages

/// The wire types that occur.
const VARINT: u64 = 0;
const EIGHT_BYTES: u64 = 1;
const COUNTED: u64 = 2;
const FOUR_BYTES: u64 = 5;

fn version_event(wall_time: f64) -> Vec<u8> {
    let mut event = Vec::new();
    put_time(&mut event, wall_time);
    put_bytes(&mut event, 3, FILE_VERSION.as_bytes());
    event
}

fn scalar_event(tag: &str, value: f32, step: i64, wall_time: f64) -> Vec<u8> {
    let mut point = Vec::new();
    put_bytes(&mut point, 1, tag.as_bytes());
    put_key(&mut point, 2, FOUR_BYTES);
    point.extend(value.to_le_bytes());
    let mut summary = Vec::new();
    put_bytes(&mut summary, 1, &point);

    let mut event = Vec::new();
    put_time(&mut event, wall_time);
    // Fields that are zero are left out, as protocol buffers do; a value within a `oneof`, as above, is not.
    if step != 0 {
        put_key(&mut event, 2, VARINT);
        put_varint(&mut event, step as u64);
    }
    put_bytes(&mut event, 5, &summary);
    event
}

fn put_time(to: &mut Vec<u8>, wall_time: f64) {
    if wall_time.to_bits() != 0 {
        put_key(to, 1, EIGHT_BYTES);
        to.extend(wall_time.to_le_bytes());
    }
}

fn put_bytes(to: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_key(to, field, COUNTED);
    put_varint(to, bytes.len() as u64);
    to.extend(bytes);
}

fn put_key(to: &mut Vec<u8>, field: u64, wire_type: u64) {
    put_varint(to, field << 3 | wire_type);
}

/// Seven bits to a byte, lowest first; the top bit says that more follow.
fn put_varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

// ---------------------------------------------------------------- records

fn framed(message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(message.len() + 16);
    record.extend(length);
    record.extend(masked(crc32c(&length)).to_le_bytes());
    record.extend(message);
    record.extend(masked(crc32c(message)).to_le_bytes());
    record
}

/// A checksum of data that holds checksums is weak; this makes the stored ones look different.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xA282_EAD8)
}

/// The remainder of every byte, for the Castagnoli polynomial with its bits reversed.
const REMAINDERS: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = divided(byte as u32, 8);
        byte += 1;
    }
    table
};

/// What is left of `rest` after `bits` steps of the division.
const fn divided(mut rest: u32, bits: u32) -> u32 {
    let mut done = 0;
    while done < bits {
        rest = if rest & 1 == 1 {
            rest >> 1 ^ 0x82F6_3B78
        } else {
            rest >> 1
        };
        done += 1;
    }
    rest
}

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |rest: u32, &byte| {
        REMAINDERS[usize::from(rest as u8 ^ byte)] ^ rest >> 8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a record as `golden/tensorboard_events.py` prints them.
    fn bytes(hex: &str) -> Vec<u8> {
        hex.as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    /// CRC-32C bit by bit, without the table.
    fn naive_crc32c(bytes: &[u8]) -> u32 {
        !bytes
            .iter()
            .fold(!0, |rest: u32, &byte| divided(rest ^ u32::from(byte), 8))
    }

    #[test]
    fn crc32c_gives_the_published_check_values() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        // Three more of RFC 3720, appendix B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc32c(&(0..32).collect::<Vec<u8>>()), 0x46DD_794E);
        assert_eq!(crc32c(b""), 0);
    }

    #[test]
    fn the_table_agrees_with_the_division() {
        let bytes: Vec<u8> = (0..2000_u32).map(|n| ((n * n * 31) >> 3) as u8).collect();
        for length in [1, 2, 7, 255, 2000] {
            assert_eq!(
                crc32c(&bytes[..length]),
                naive_crc32c(&bytes[..length]),
                "{length}"
            );
        }
    }

    #[test]
    fn records_equal_those_of_the_tensorboard_package() {
        let check = |message: &[u8], expected: &str| assert_eq!(framed(message), bytes(expected));
        check(
            &version_event(1_700_000_000.25),
            "1800000000000000a37f4b220900001040fc54d9411a0d627261696e2e4576656e743a32338d2fe9",
        );
        check(
            &scalar_event("train/loss", 1.25, 300, 1_700_000_001.5),
            "2100000000000000017becf60900006040fc54d94110ac022a130a110a0a747261696e2f6c6f7373150000a03fc63fc817",
        );
        // Step zero is left out, the value zero is not.
        check(
            &scalar_event("x", 0.0, 0, 1_700_000_001.5),
            "1500000000000000d6ab6b2b0900006040fc54d9412a0a0a080a0178150000000017c19925",
        );
        check(
            &scalar_event("r", f32::NAN, -1, 0.0),
            "1700000000000000e7cef81e10ffffffffffffffffff012a0a0a080a0172150000c07f140206dd",
        );
    }

    #[test]
    fn varints_break_at_seven_bits() {
        for (value, expected) in [
            (0, &[0][..]),
            (127, &[127]),
            (128, &[0x80, 1]),
            (16_383, &[0xFF, 0x7F]),
            (16_384, &[0x80, 0x80, 1]),
        ] {
            let mut found = Vec::new();
            put_varint(&mut found, value);
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_file_is_its_records_one_after_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = EventWriter::create(folder.path(), 1_700_000_000.25, "").unwrap();
        assert_eq!(
            writer.path(),
            folder.path().join("events.out.tfevents.1700000000.hark")
        );
        // The version stands there before anything is flushed, so that a reader knows the file from its beginning.
        let version = framed(&version_event(1_700_000_000.25));
        assert_eq!(std::fs::read(writer.path()).unwrap(), version);
        let long = "a/".repeat(200);
        writer.scalar(&long, -0.5, 1, 1_700_000_001.0).unwrap();
        writer
            .scalar("ünï", f32::INFINITY, i64::MAX, 1_700_000_002.0)
            .unwrap();
        writer.flush().unwrap();
        let expected = [
            version,
            framed(&scalar_event(&long, -0.5, 1, 1_700_000_001.0)),
            framed(&scalar_event("ünï", f32::INFINITY, i64::MAX, 1_700_000_002.0)),
        ]
        .concat();
        assert_eq!(std::fs::read(writer.path()).unwrap(), expected);
    }

    #[test]
    fn dropping_the_writer_writes_what_was_left() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = EventWriter::create(folder.path(), 3.0, "rank-1").unwrap();
        let path = folder.path().join("events.out.tfevents.0000000003.hark.rank-1");
        let before = std::fs::read(&path).unwrap().len();
        writer.scalar("loss", 1.0, 1, 4.0).unwrap();
        drop(writer);
        let record = framed(&scalar_event("loss", 1.0, 1, 4.0));
        assert_eq!(std::fs::read(&path).unwrap()[before..], record);
    }

    #[test]
    fn what_cannot_be_a_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let kind =
            |folder: &Path, time, suffix: &str| EventWriter::create(folder, time, suffix).unwrap_err().kind();
        for time in [-1.0, f64::NAN, f64::INFINITY, 1e16] {
            assert_eq!(
                kind(folder.path(), time, ""),
                io::ErrorKind::InvalidInput,
                "{time}"
            );
        }
        for suffix in ["../up", "a b", "a\0", "\\", "ü"] {
            assert_eq!(
                kind(folder.path(), 1.0, suffix),
                io::ErrorKind::InvalidInput,
                "{suffix}"
            );
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

        let gone = folder.path().join("gone");
        let error = EventWriter::create(&gone, 1.0, "").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("gone"), "{error}");
    }

    #[test]
    fn a_file_that_is_there_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = EventWriter::create(folder.path(), 1.0, "").unwrap();
        first.scalar("loss", 1.0, 1, 1.0).unwrap();
        first.flush().unwrap();
        let kept = std::fs::read(first.path()).unwrap();
        let error = EventWriter::create(folder.path(), 1.9, "").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(first.path()).unwrap(), kept);
        EventWriter::create(folder.path(), 1.9, "second").unwrap();
    }
}
