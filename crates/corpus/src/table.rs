//! Any CSV, TSV or JSON Lines table: the columns that the caller names, or else the usual ones ([`columns`]).
//!
//! In: one or several caption columns and, if there is one, the column of the clip's id. Rows with the same id are
//! captions of the same clip. Without an id column each row is its own clip, whose id is the number of the row, from
//! 1, header and blank lines not counted. In JSON Lines a caption may be text or a list of text, an id text or a
//! whole number. Refused: a row without one of the columns, or with an empty one; all such rows are told at once.

use std::sync::Arc;

use crate::Error;
use crate::captions::Filling;
use crate::columns;
use crate::delimited::Rows;
use crate::error::Place;
use crate::input::Input;
use crate::json::{Fields, Object};

pub(crate) fn read_rows(
    mut rows: Rows<'_>,
    captions: &[String],
    id: Option<&str>,
    set: &mut Filling,
) -> Result<(), Error> {
    let usual = usual(captions, id, rows.columns()).ok_or_else(|| Error::UnknownColumns {
        path: Arc::clone(rows.path()),
        found: rows.columns().to_vec(),
    })?;
    let (captions, id) = (&usual.0, usual.1.as_deref());
    let columns = captions
        .iter()
        .map(|name| rows.column(name))
        .collect::<Result<Vec<_>, _>>()?;
    let id = id
        .map(|name| rows.column(name).map(|column| (column, name)))
        .transpose()?;
    let mut number = 0;
    loop {
        number += 1;
        let row = match rows.next_row() {
            Ok(Some(row)) => row,
            Ok(None) => return Ok(()),
            Err(fault @ Error::Ragged { .. }) => {
                set.fault(fault);
                continue;
            }
            // Nothing can be read after it.
            Err(fault) => {
                set.fault(fault);
                return Ok(());
            }
        };
        let clip = match id {
            Some((column, name)) => set.clip(row.get(column), row.place(), name),
            None => Ok(set.numbered_clip(number)),
        };
        // Captions are looked at even if their clip has no name.
        let clip = clip.unwrap_or_else(|fault| {
            set.fault(fault);
            0
        });
        for (&column, name) in columns.iter().zip(captions) {
            if let Err(fault) = set.caption(clip, row.get(column), row.place(), name) {
                refuse(set, fault)?;
            }
        }
    }
}

/// Keeps a fault of a row; one of the file as a whole ends the reading.
fn refuse(set: &mut Filling, fault: Error) -> Result<(), Error> {
    if matches!(fault, Error::TooManyCaptions { .. }) {
        return Err(fault);
    }
    set.fault(fault);
    Ok(())
}

/// The columns that are named; where none are, the usual ones. `None` if captions are in none of them.
fn usual(captions: &[String], id: Option<&str>, columns: &[String]) -> Option<(Vec<String>, Option<String>)> {
    if !captions.is_empty() {
        return Some((captions.to_vec(), id.map(str::to_owned)));
    }
    let places = columns::caption_columns(columns);
    let captions: Vec<String> = places.iter().map(|&place| columns[place].clone()).collect();
    let file = columns::file_column(columns).filter(|place| !places.contains(place));
    (!captions.is_empty()).then(|| (captions, file.map(|place| columns[place].clone())))
}

pub(crate) fn read_json_lines(
    mut input: Input<'_>,
    captions: &[String],
    id: Option<&str>,
    set: &mut Filling,
) -> Result<(), Error> {
    let path = Arc::clone(input.path());
    let mut text = String::new();
    let mut number = 0;
    let mut known = None;
    while let Some(line) = input.next_line(&mut text)? {
        if text.trim().is_empty() {
            continue;
        }
        number += 1;
        let fields: Fields = match serde_json::from_str(&text) {
            Ok(fields) => fields,
            Err(error) => {
                set.fault(Error::from_json(&path, line - 1, error));
                continue;
            }
        };
        if known.is_none() {
            let keys: Vec<String> = fields.keys().cloned().collect();
            known = usual(captions, id, &keys);
        }
        let Some((captions, id)) = &known else {
            return Err(Error::UnknownColumns {
                path,
                found: fields.into_keys().collect(),
            });
        };
        let place = Place::line(line);
        let object = Object {
            fields: &fields,
            path: &path,
            place,
        };
        if let Err(fault) = read_object(&object, captions, id.as_deref(), number, set) {
            refuse(set, fault)?;
        }
    }
    Ok(())
}

fn read_object(
    object: &Object<'_>,
    captions: &[String],
    id: Option<&str>,
    number: u64,
    set: &mut Filling,
) -> Result<(), Error> {
    let clip = match id {
        Some(name) => set.clip(object.id(name)?, object.place, name)?,
        None => set.numbered_clip(number),
    };
    for name in captions {
        for caption in object.captions(name)? {
            set.caption(clip, caption, object.place, name)?;
        }
    }
    Ok(())
}
