//! Reading runs and judgements.

use std::collections::HashMap;
use std::io::{BufRead, Read};
use std::path::Path;
use std::sync::Arc;

use crate::Error;

/// The longest line that is read, in bytes.
const LINE_LIMIT: usize = 64 << 10;

/// What a system ranked: for each query some items with their scores.
#[derive(Debug, Clone)]
pub struct Run(pub(super) Table<f32>);

/// What is relevant: for each query some items with their gains.
#[derive(Debug, Clone)]
pub struct Qrels(pub(super) Table<f64>);

impl Run {
    /// Reads lines `query Q0 item rank score tag`. The second, fourth and sixth field are ignored, but must be
    /// there. The lines of a query need not be adjacent. `name` is what errors call the file.
    ///
    /// ```
    /// use std::path::Path;
    ///
    /// let run = hark_metrics::trec::Run::read("q1 Q0 d7 1 0.5 hark\n".as_bytes(), Path::new("run.txt"))?;
    /// assert_eq!((run.queries(), run.items()), (1, 1));
    /// # Ok::<(), hark_metrics::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::FileRead`], [`Error::LineTooLong`], [`Error::LineNotUtf8`], [`Error::LineFields`],
    /// [`Error::LineNumber`], [`Error::LineDuplicate`], [`Error::NoEntries`], and [`hark_nearest::Error::TooManyRows`] for more
    /// ids than 32 bits can number.
    pub fn read(reader: impl BufRead, name: &Path) -> Result<Self, Error> {
        let layout = Layout {
            fields: "query, Q0, item, rank, score, tag",
            value: "score",
            number: 6,
            at: 4,
        };
        // Through 64 bits, as trec_eval reads: a direct conversion would round once instead of twice.
        let score = |text: &str| Some(text.parse::<f64>().ok()? as f32).filter(|score| score.is_finite());
        read(reader, name, layout, score).map(Self)
    }

    /// Number of queries.
    pub fn queries(&self) -> usize {
        self.0.queries.list.len()
    }

    /// Number of different items.
    pub fn items(&self) -> usize {
        self.0.items.list.len()
    }
}

impl Qrels {
    /// Reads lines `query 0 item gain`. The second field is ignored, but must be there. A gain is a whole or a
    /// decimal number, and an item with a gain of 0 or less is not relevant. `name` is what errors call the file.
    ///
    /// # Errors
    ///
    /// As [`Run::read`].
    pub fn read(reader: impl BufRead, name: &Path) -> Result<Self, Error> {
        let layout = Layout {
            fields: "query, 0, item, gain",
            value: "gain",
            number: 4,
            at: 3,
        };
        let gain = |text: &str| text.parse::<f64>().ok().filter(|gain| gain.is_finite());
        read(reader, name, layout, gain).map(Self)
    }

    /// Number of queries, with a relevant item or without.
    pub fn queries(&self) -> usize {
        self.0.queries.list.len()
    }

    /// Number of different items, relevant or not.
    pub fn items(&self) -> usize {
        self.0.items.list.len()
    }
}

/// For each query some items, each with a value.
#[derive(Debug, Clone)]
pub(super) struct Table<T> {
    pub(super) queries: Names,
    pub(super) items: Names,
    /// For each query its items, ascending by number.
    pub(super) lists: Vec<Vec<(u32, T)>>,
}

/// Ids, numbered in the order in which they first occur.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    pub(super) list: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
}

impl Names {
    pub(super) fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    fn number_or_new(&mut self, name: &str) -> Result<u32, Error> {
        if let Some(number) = self.number(name) {
            return Ok(number);
        }
        let limit = u32::MAX as usize;
        let number = u32::try_from(self.list.len()).map_err(|_| hark_nearest::Error::TooManyRows {
            rows: self.list.len(),
            limit,
        })?;
        let name: Arc<str> = name.into();
        self.list.push(name.clone());
        self.numbers.insert(name, number);
        Ok(number)
    }
}

/// Where a format has what.
#[derive(Clone, Copy)]
struct Layout {
    fields: &'static str,
    /// What the number is.
    value: &'static str,
    /// Fields in a line.
    number: usize,
    /// The field with the number; the first is the query and the third the item.
    at: usize,
}

/// What `isspace` takes for white space: unlike Rust's own list it has the vertical tab.
fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r')
}

struct Entry<T> {
    item: u32,
    value: T,
    line: u64,
}

fn read<T: Copy>(
    mut reader: impl BufRead,
    name: &Path,
    layout: Layout,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Table<T>, Error> {
    let path = || name.to_path_buf();
    let (mut queries, mut items) = (Names::default(), Names::default());
    let mut lists = Vec::<Vec<Entry<T>>>::new();
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        let mut bounded = reader.by_ref().take(LINE_LIMIT as u64 + 1);
        let read = bounded.read_until(b'\n', &mut bytes);
        if read.map_err(|error| Error::FileRead {
            path: path(),
            reason: error.to_string(),
        })? == 0
        {
            break;
        }
        if bytes.strip_suffix(b"\n").unwrap_or(&bytes).len() > LINE_LIMIT {
            return Err(Error::LineTooLong {
                path: path(),
                line,
                limit: LINE_LIMIT,
            });
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| Error::LineNotUtf8 { path: path(), line })?;
        let mut fields = [""; 6];
        let mut number = 0;
        for field in text.split(is_space).filter(|field| !field.is_empty()) {
            if let Some(place) = fields.get_mut(number) {
                *place = field;
            }
            number += 1;
        }
        if number == 0 {
            continue;
        }
        if number != layout.number {
            return Err(Error::LineFields {
                path: path(),
                line,
                expected: layout.number,
                fields: layout.fields,
                got: number,
            });
        }
        let value = parse(fields[layout.at]).ok_or_else(|| Error::LineNumber {
            path: path(),
            line,
            what: layout.value,
            got: fields[layout.at].to_owned(),
        })?;
        let query = queries.number_or_new(fields[0])? as usize;
        let item = items.number_or_new(fields[2])?;
        if query == lists.len() {
            lists.push(Vec::new());
        }
        lists[query].push(Entry { item, value, line });
    }
    if lists.is_empty() {
        return Err(Error::NoEntries { path: path() });
    }
    let mut table = Table {
        lists: Vec::with_capacity(lists.len()),
        queries,
        items,
    };
    let mut first = None;
    for (query, mut list) in lists.into_iter().enumerate() {
        list.sort_unstable_by_key(|entry| (entry.item, entry.line));
        for pair in list.windows(2) {
            if pair[0].item == pair[1].item && first.is_none_or(|(line, _, _)| pair[1].line < line) {
                first = Some((pair[1].line, query, pair[1].item));
            }
        }
        table
            .lists
            .push(list.into_iter().map(|entry| (entry.item, entry.value)).collect());
    }
    match first {
        None => Ok(table),
        Some((line, query, item)) => Err(Error::LineDuplicate {
            path: path(),
            line,
            query: table.queries.list[query].to_string(),
            item: table.items.list[item as usize].to_string(),
        }),
    }
}
