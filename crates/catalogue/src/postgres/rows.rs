//! Conversions between rows and entries.

use std::error::Error as StdError;

use half::f16;
use postgres::Row;
use postgres::types::{FromSql, IsNull, ToSql, Type, private::BytesMut, to_sql_checked};

use super::pool::Failed;
use crate::{Error, Failure, File, IndexedFile, Stat, Window, WindowHit};

/// A vector on its way to or from pgvector's `halfvec`: the count and a zero as 16-bit integers, then the numbers, all with the
/// high byte first.
#[derive(Debug)]
pub(super) struct Half(pub Vec<f32>);

impl ToSql for Half {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        out.extend_from_slice(&u16::try_from(self.0.len())?.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        for &value in &self.0 {
            out.extend_from_slice(&f16::from_f32(value).to_be_bytes());
        }
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        kind.name() == "halfvec"
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Half {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        let (head, numbers) = raw.split_at_checked(4).ok_or("a vector without a head")?;
        let values: Vec<f32> = numbers
            .as_chunks::<2>()
            .0
            .iter()
            .map(|&pair| f16::from_be_bytes(pair).to_f32())
            .collect();
        if head[..2] != u16::try_from(values.len())?.to_be_bytes() {
            return Err("a vector that is not as long as it says".into());
        }
        Ok(Self(values))
    }

    fn accepts(kind: &Type) -> bool {
        kind.name() == "halfvec"
    }
}

/// Two columns from `at` on.
fn stat(row: &Row, at: usize) -> Result<Stat, postgres::Error> {
    // Sizes are kept bit by bit: a file system may report any 64 bits.
    Ok(Stat {
        size: row.try_get::<_, i64>(at)? as u64,
        modified: row.try_get(at + 1)?,
    })
}

pub(super) fn known(row: &Row) -> Result<IndexedFile, postgres::Error> {
    Ok(IndexedFile {
        id: row.try_get(0)?,
        path: row.try_get(1)?,
        stat: stat(row, 2)?,
        content: row.try_get(4)?,
    })
}

pub(super) fn failure(row: &Row) -> Result<Failure, postgres::Error> {
    Ok(Failure {
        path: row.try_get(0)?,
        stat: stat(row, 1)?,
        message: row.try_get(3)?,
    })
}

/// A file, with the name of the library for a message about what cannot be read.
pub(super) fn file(row: &Row, place: &str) -> Result<File, Failed> {
    let path: String = row.try_get(1)?;
    let damaged = |_| Error::Damaged {
        place: place.to_owned(),
        fault: format!("the description of {path}"),
    };
    let mut sound: crate::AudioInfo = serde_json::from_str(row.try_get(5)?).map_err(damaged)?;
    let notes = serde_json::from_str(row.try_get(6)?).map_err(damaged)?;
    sound.peaks = row.try_get(7)?;
    sound.fingerprint = row.try_get(8)?;
    Ok(File {
        id: row.try_get(0)?,
        path,
        stat: stat(row, 2)?,
        content: row.try_get(4)?,
        sound,
        notes,
    })
}

pub(super) fn window(row: &Row) -> Result<Window, postgres::Error> {
    Ok(Window {
        start: row.try_get(0)?,
        end: row.try_get(1)?,
        whole: row.try_get(2)?,
        vector: row.try_get::<_, Half>(3)?.0,
    })
}

pub(super) fn near(row: &Row) -> Result<WindowHit, postgres::Error> {
    Ok(WindowHit {
        file: row.try_get(0)?,
        start: row.try_get(1)?,
        end: row.try_get(2)?,
        whole: row.try_get(3)?,
        score: row.try_get(4)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_survive_the_wire_and_torn_ones_are_refused() -> Result<(), Box<dyn StdError + Sync + Send>> {
        let values = vec![0.5, -1.0, 0.0, 65504.0, 6.0e-8];
        let mut wire = BytesMut::new();
        Half(values.clone()).to_sql(&Type::BYTEA, &mut wire)?;
        let halves: Vec<f32> = values
            .iter()
            .map(|&value| f16::from_f32(value).to_f32())
            .collect();
        assert_eq!(Half::from_sql(&Type::BYTEA, &wire)?.0, halves);
        assert_eq!(&wire[..6], [0, 5, 0, 0, 0x38, 0x00]);
        for end in [0, 3, wire.len() - 2] {
            assert!(Half::from_sql(&Type::BYTEA, &wire[..end]).is_err(), "{end} bytes");
        }
        Ok(())
    }
}
