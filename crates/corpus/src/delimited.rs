//! CSV and TSV files as a header and rows: the one home of the CSV parser (RFC 4180, plus TSV and any line ends).
//!
//! In: checked text. Out: the names of the columns and, row by row, the fields with the line at which the row begins.
//! Refused: rows whose length differs from the header's, and a quoted field that the file ends in. Blank lines are
//! skipped.

use std::io::{BufRead, Chain, Read};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use csv::StringRecord;

use crate::Error;
use crate::error::Place;
use crate::input::{Input, Limits, Meter};

pub use crate::captions::open;

/// The parser takes the end of the file for a closing quote, and so would make one caption of all the rows after an
/// open quote. Text has no NUL byte ([`Input`] sees to that), so one that follows the text tells the two ends apart:
/// it comes back as a row of its own, or within the field that is still open.
const AFTER_THE_TEXT: &str = "\0";
const END: &[u8] = b"\n\0";

/// The rows of a file with a header.
pub struct Rows<'a> {
    parser: csv::Reader<Chain<Input<'a>, &'static [u8]>>,
    meter: Rc<Meter>,
    path: Arc<Path>,
    header_line: u64,
    columns: Vec<String>,
    fields: StringRecord,
}

/// One row.
pub struct Row<'r> {
    fields: &'r StringRecord,
    /// The line at which it begins.
    pub line: u64,
}

impl Row<'_> {
    /// A field by the index of its column. Rows are as long as the header, so an index that
    /// [`Rows::column`] gave always holds.
    pub fn get(&self, column: usize) -> &str {
        self.fields.get(column).unwrap_or_default()
    }

    /// The position of the row, for errors.
    pub fn place(&self) -> Place {
        Place::line(self.line)
    }
}

impl<'a> Rows<'a> {
    /// Reads the header of a file within the stated limits. `None` if the file is empty.
    ///
    /// # Errors
    /// If the file cannot be read as a table.
    pub fn read(reader: &'a mut dyn BufRead, path: &Arc<Path>, delimiter: u8) -> Result<Option<Self>, Error> {
        Self::open(Input::new(reader, Arc::clone(path), Limits::STATED), delimiter)
    }

    /// Read the header. `None` if the file is empty.
    pub(crate) fn open(input: Input<'a>, delimiter: u8) -> Result<Option<Self>, Error> {
        input.keep_lines();
        let (meter, path) = (input.meter(), Arc::clone(input.path()));
        let parser = csv::ReaderBuilder::new()
            .delimiter(delimiter)
            .has_headers(false)
            // Lengths are checked here, where the line is known.
            .flexible(true)
            .from_reader(input.chain(END));
        let mut rows = Self {
            parser,
            meter,
            path,
            header_line: 1,
            columns: Vec::new(),
            fields: StringRecord::new(),
        };
        let Some(line) = rows.advance()? else {
            return Ok(None);
        };
        rows.header_line = line;
        rows.columns = rows.fields.iter().map(|name| name.trim().to_owned()).collect();
        Ok(Some(rows))
    }

    pub(crate) fn path(&self) -> &Arc<Path> {
        &self.path
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The index of a column.
    ///
    /// # Errors
    /// If there is none of that name, or several.
    pub fn column(&self, name: &str) -> Result<usize, Error> {
        let mut found = self
            .columns
            .iter()
            .enumerate()
            .filter(|(_, column)| *column == name);
        match (found.next(), found.next()) {
            (Some((index, _)), None) => Ok(index),
            (None, _) => Err(Error::MissingColumn {
                path: Arc::clone(&self.path),
                place: Place::line(self.header_line),
                column: name.to_owned(),
                found: self.columns.clone(),
            }),
            _ => Err(Error::AmbiguousColumn {
                path: Arc::clone(&self.path),
                column: name.to_owned(),
            }),
        }
    }

    /// The next row, or `None` at the end.
    ///
    /// # Errors
    /// If the row is damaged, or not as long as the header.
    pub fn next_row(&mut self) -> Result<Option<Row<'_>>, Error> {
        let Some(line) = self.advance()? else {
            return Ok(None);
        };
        let (expected, got) = (self.columns.len(), self.fields.len());
        if got != expected {
            return Err(Error::Ragged {
                path: Arc::clone(&self.path),
                line,
                expected,
                got,
            });
        }
        Ok(Some(Row {
            fields: &self.fields,
            line,
        }))
    }

    /// Read the next record into `fields`; gives the line at which it begins.
    fn advance(&mut self) -> Result<Option<u64>, Error> {
        self.meter.begin_record();
        let more = self
            .parser
            .read_record(&mut self.fields)
            .map_err(|error| Error::from_csv(&self.path, error))?;
        // The parser's own line is that of the byte after the last record, which is the line feed of a CRLF, or a
        // blank line, or this record.
        let offset = self.fields.position().map_or(0, csv::Position::byte);
        let line = self.meter.line_of_text_at(offset);
        if !more || (self.fields.len() == 1 && &self.fields[0] == AFTER_THE_TEXT) {
            return Ok(None);
        }
        if self
            .fields
            .iter()
            .next_back()
            .is_some_and(|field| field.ends_with(AFTER_THE_TEXT))
        {
            return Err(Error::UnclosedQuote {
                path: Arc::clone(&self.path),
                line,
            });
        }
        Ok(Some(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Limits;

    /// Lines and fields of all rows.
    fn rows(file: &str, limits: Limits) -> Result<Vec<(u64, Vec<String>)>, Error> {
        let mut bytes = file.as_bytes();
        let input = Input::new(&mut bytes, Path::new("x.csv").into(), limits);
        let mut rows = Rows::open(input, b',')?.expect("a header");
        let mut out = Vec::new();
        while let Some(row) = rows.next_row()? {
            out.push((row.line, row.fields.iter().map(str::to_owned).collect()));
        }
        Ok(out)
    }

    fn lines(file: &str) -> Vec<u64> {
        rows(file, Limits::STATED)
            .unwrap()
            .into_iter()
            .map(|(line, _)| line)
            .collect()
    }

    #[test]
    fn lines_are_those_at_which_rows_begin() {
        for end in ["\n", "\r\n"] {
            // Quoted fields of two and three lines, a blank line within a field, blank lines between rows.
            let file = "id,text\n1,one\n2,\"two\nlines\"\n3,\"three\n\nlines\"\n\n\n4,four\n5,five"
                .replace('\n', end);
            assert_eq!(lines(&file), [2, 3, 5, 10, 11], "line end {end:?}");
        }
    }

    #[test]
    fn lines_hold_where_the_buffers_of_the_parser_end() {
        // Row lengths around the parser's 8 KiB buffer and around a piece, so that the buffer ends before, within and
        // after a CRLF.
        for length in (8185..8196).chain(65_525..65_545) {
            let file = format!("id,text\r\n1,{}\r\n\r\n2,b\r\n", "x".repeat(length));
            assert_eq!(lines(&file), [2, 4], "length {length}");
        }
    }

    #[test]
    fn an_open_quote_is_refused_and_a_closed_one_at_the_end_is_not() {
        for file in [
            "id,text\n1,\"one\n2,two\n",
            "id,text\n1,\"one",
            "id,text\n1,\"one\"\"",
            "id,text\n1,\"",
        ] {
            let error = rows(file, Limits::STATED).unwrap_err();
            assert!(
                matches!(error, Error::UnclosedQuote { line: 2, .. }),
                "{file:?}: {error}"
            );
        }
        for (file, text) in [
            ("id,text\n1,\"one\"", "one"),
            ("id,text\n1,\"one\n\"", "one\n"),
            ("id,text\n1,\"\"\"\"", "\""),
        ] {
            let expected = vec![(2, vec!["1".to_owned(), text.to_owned()])];
            assert_eq!(rows(file, Limits::STATED).unwrap(), expected, "{file:?}");
        }
    }

    #[test]
    fn a_row_of_many_lines_counts_as_one_record() {
        let limits = Limits {
            record_bytes: 40,
            ..Limits::STATED
        };
        let many_rows = "id,text\n".to_owned() + &"1,short\n".repeat(20);
        assert_eq!(rows(&many_rows, limits).unwrap().len(), 20);
        let one_row = format!("id,text\n1,\"{}\"\n", "short\n".repeat(20));
        let error = rows(&one_row, limits).unwrap_err();
        assert!(matches!(error, Error::RecordTooLong { limit: 40, .. }), "{error}");
    }
}
