//! Clotho's captions: `file_name,caption_1,...,caption_5`, one row per clip.
//!
//! The clip's id is its file name, as it is written. There may be any number of `caption_N` columns, taken in the
//! order of the file, and other columns, which are not read. Refused: a file name that occurs twice.

use crate::Error;
use crate::captions::Filling;
use crate::delimited::Rows;

const FILE_NAME: &str = "file_name";
const CAPTION_PREFIX: &str = "caption_";

pub(crate) fn matches<S: AsRef<str>>(columns: &[S]) -> bool {
    columns.iter().any(|name| name.as_ref() == FILE_NAME)
        && columns.iter().any(|name| is_caption(name.as_ref()))
}

fn is_caption(name: &str) -> bool {
    name.strip_prefix(CAPTION_PREFIX)
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

pub(crate) fn read(mut rows: Rows<'_>, set: &mut Filling) -> Result<(), Error> {
    let file_name = rows.column(FILE_NAME)?;
    let names: Vec<String> = rows
        .columns()
        .iter()
        .filter(|name| is_caption(name))
        .cloned()
        .collect();
    if names.is_empty() {
        rows.column("caption_1")?;
    }
    let captions = names
        .iter()
        .map(|name| rows.column(name))
        .collect::<Result<Vec<_>, _>>()?;
    while let Some(row) = rows.next_row()? {
        let clip = set.new_clip(row.get(file_name), row.place(), FILE_NAME)?;
        for (&column, name) in captions.iter().zip(&names) {
            set.caption(clip, row.get(column), row.place(), name)?;
        }
    }
    Ok(())
}
