//! What a run answered, query by query: the file that `hark eval` and `hark reproduce` write and `hark compare` reads.
//!
//! One CSV file for each direction:
//! `direction,by,graded_by,query,clip,relevant,rank,ap_10,r_1,r_5,r_10,hit_1,hit_5,hit_10,rr,ndcg_10,text`. The first
//! three columns are the same in all rows: the direction, the source of the relevant items ([`Kind::relevance`]) and the
//! source of nDCG's gains ([`Kind::gains`]). `clip` is the cluster of the query (five captions of one clip are not five
//! independent queries), `relevant` the number of relevant items, `rank` the rank of the first one (0 where the list
//! holds none). `ndcg_10` is empty where relevance is not graded. The number after `ap_` is the cutoff. Numbers survive
//! a round trip to the last bit. Refused on reading: other columns, numbers out of range, duplicate queries, rows of
//! different kinds, a file without queries.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use hark_metrics::{QueryMetrics, RECALL_CUTS, Report};
use hark_work::files::write_with;
use serde::Serialize;

use crate::Error;

/// Which side is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Captions are queries, clips are items.
    TextToAudio,
    /// Clips are queries, captions are items.
    AudioToText,
}

impl Direction {
    /// In the order of reports.
    pub const ALL: [Self; 2] = [Self::TextToAudio, Self::AudioToText];

    /// As people read it: `text to audio`.
    pub fn title(self) -> &'static str {
        match self {
            Self::TextToAudio => "text to audio",
            Self::AudioToText => "audio to text",
        }
    }

    /// As files, keys and options have it: `text-to-audio`.
    pub fn name(self) -> &'static str {
        match self {
            Self::TextToAudio => "text-to-audio",
            Self::AudioToText => "audio-to-text",
        }
    }

    /// The file of its scored queries.
    pub fn file(self) -> String {
        format!("{}.csv", self.name())
    }
}

impl FromStr for Direction {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.into_iter().find(|direction| direction.name() == text);
        found.ok_or_else(|| UnknownName::new(text, Self::ALL.map(Self::name)))
    }
}

/// A figure of every query that methods are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Average precision within the cutoff.
    Ap,
    /// Recall among the first 1.
    R1,
    /// Recall among the first 5.
    R5,
    /// Recall among the first 10.
    R10,
    /// Reciprocal rank of the first relevant item.
    Rr,
    /// nDCG on graded relevance.
    Ndcg,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Ap, Self::R1, Self::R5, Self::R10, Self::Rr, Self::Ndcg];

    /// As options have it: `ap`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ap => "ap",
            Self::R1 => "r1",
            Self::R5 => "r5",
            Self::R10 => "r10",
            Self::Rr => "rr",
            Self::Ndcg => "ndcg",
        }
    }

    /// The name of its mean, with the cutoff: `mAP@10`.
    pub fn title(self, cut: usize) -> String {
        match self {
            Self::Ap => format!("mAP@{cut}"),
            Self::R1 => "R@1".into(),
            Self::R5 => "R@5".into(),
            Self::R10 => "R@10".into(),
            Self::Rr => "MRR".into(),
            Self::Ndcg => format!("nDCG@{cut}"),
        }
    }
}

impl FromStr for Metric {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.into_iter().find(|metric| metric.name() == text);
        found.ok_or_else(|| UnknownName::new(text, Self::ALL.map(Self::name)))
    }
}

/// A name that is none of the known ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    got: String,
    known: Vec<&'static str>,
}

impl UnknownName {
    fn new(got: &str, known: impl IntoIterator<Item = &'static str>) -> Self {
        Self {
            got: got.to_owned(),
            known: known.into_iter().collect(),
        }
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown name {:?}; there are: {}",
            self.got,
            self.known.join(", ")
        )
    }
}

impl std::error::Error for UnknownName {}

/// One query and how it was answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredQuery {
    /// Of a caption `CLIP#NUMBER`, of a clip its id.
    pub id: String,
    /// The clip that the query belongs to.
    pub clip: String,
    /// The caption; empty for runs of other systems.
    pub text: String,
    /// How many items are relevant.
    pub relevant: usize,
    /// Its metrics.
    pub found: QueryMetrics,
    /// Only where relevance is graded.
    pub ndcg: Option<f64>,
}

impl ScoredQuery {
    /// One of its figures; nDCG only where relevance is graded.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        Some(match metric {
            Metric::Ap => self.found.average_precision,
            Metric::R1 => self.found.recall[0],
            Metric::R5 => self.found.recall[1],
            Metric::R10 => self.found.recall[2],
            Metric::Rr => self.found.reciprocal_rank,
            Metric::Ndcg => return self.ndcg,
        })
    }
}

/// All queries of a run in one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredQueries {
    /// What was judged, and by what.
    pub kind: Kind,
    /// The k of AP@k and nDCG@k.
    pub cut: usize,
    /// In the order of the split.
    pub queries: Vec<ScoredQuery>,
    /// The seed of the run, where its folder tells it. It is not part of the file.
    pub seed: Option<u64>,
}

/// What was judged, and by what. Only figures of one kind can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Which side was searched.
    pub direction: Direction,
    /// The source of the relevant items; the column `by`.
    pub relevance: String,
    /// The source of nDCG's gains, empty where there are none; the column `graded_by`.
    pub gains: String,
}

/// The source of the relevant items where no other is named.
pub const PAIRS: &str = "annotated pairs";

/// A query without its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryInfo {
    /// As in [`ScoredQuery::id`].
    pub id: String,
    /// The clip that the query belongs to.
    pub clip: String,
    /// The caption, or a clip's first caption.
    pub text: String,
}

#[derive(Debug, Serialize)]
struct Line<'a> {
    direction: &'a str,
    by: &'a str,
    graded_by: &'a str,
    query: &'a str,
    clip: &'a str,
    relevant: usize,
    rank: u32,
    ap: f64,
    recall: [f64; 3],
    hit: [u8; 3],
    rr: f64,
    ndcg: Option<f64>,
    text: &'a str,
}

const FIRST: [&str; 7] = [
    "direction",
    "by",
    "graded_by",
    "query",
    "clip",
    "relevant",
    "rank",
];
const MIDDLE: [&str; 7] = ["r_1", "r_5", "r_10", "hit_1", "hit_5", "hit_10", "rr"];

impl ScoredQueries {
    /// Queries with their figures, in the order of the report.
    pub fn new(
        kind: Kind,
        queries: Vec<QueryInfo>,
        relevant: impl Iterator<Item = usize>,
        report: &Report,
        ndcg: Option<&[f64]>,
    ) -> Self {
        let queries = queries.into_iter().zip(relevant).zip(&report.queries).enumerate();
        let queries = queries.map(|(nth, ((query, relevant), found))| ScoredQuery {
            id: query.id,
            clip: query.clip,
            text: query.text,
            relevant,
            found: *found,
            ndcg: ndcg.and_then(|all| all.get(nth).copied()),
        });
        Self {
            kind,
            cut: report.cut,
            queries: queries.collect(),
            seed: None,
        }
    }

    /// One figure of every query.
    ///
    /// # Errors
    /// [`Error::NotGraded`] if a query has no nDCG and that is what was asked for.
    pub fn values(&self, metric: Metric) -> Result<Vec<f64>, Error> {
        let values: Option<Vec<f64>> = self.queries.iter().map(|query| query.value(metric)).collect();
        values.ok_or(Error::NotGraded)
    }

    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        write_with(path, |file| {
            let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(file);
            let (ap, ndcg) = (format!("ap_{}", self.cut), format!("ndcg_{}", self.cut));
            let header = FIRST.into_iter().chain([ap.as_str()]).chain(MIDDLE);
            writer.write_record(header.chain([ndcg.as_str(), "text"]))?;
            for query in &self.queries {
                writer.serialize(Line {
                    direction: self.kind.direction.name(),
                    by: &self.kind.relevance,
                    graded_by: &self.kind.gains,
                    query: &query.id,
                    clip: &query.clip,
                    relevant: query.relevant,
                    rank: query.found.first_rank,
                    ap: query.found.average_precision,
                    recall: query.found.recall,
                    hit: query.found.hit.map(u8::from),
                    rr: query.found.reciprocal_rank,
                    ndcg: query.ndcg,
                    text: &query.text,
                })?;
            }
            writer.flush()
        })?;
        Ok(())
    }

    /// Reads the file. Its run's seed is that of its folder, `seed-N`.
    ///
    /// # Errors
    /// [`Error::Malformed`], or if it cannot be read.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let mut scores = Self::parse(path)?;
        let folder = path
            .parent()
            .and_then(Path::file_name)
            .and_then(|name| name.to_str());
        scores.seed = folder.and_then(|name| name.strip_prefix("seed-")?.parse().ok());
        Ok(scores)
    }

    fn parse(path: &Path) -> Result<Self, Error> {
        let malformed = |line: Option<u64>, what: String| Error::Malformed {
            path: path.to_owned(),
            line,
            what: format!("not a file of scored queries: {what}"),
        };
        let mut reader = csv::Reader::from_reader(fs_err::File::open(path)?);
        let header = reader
            .headers()
            .map_err(|error| malformed(None, error.to_string()))?;
        let header = header.clone();
        let column = |nth: usize| header.get(nth).unwrap_or_default();
        let cut = column(AP)
            .strip_prefix("ap_")
            .and_then(|cut| cut.parse::<usize>().ok());
        let cut = cut.filter(|&cut| cut > 0);
        let is_ours = FIRST.iter().enumerate().all(|(nth, name)| column(nth) == *name)
            && MIDDLE
                .iter()
                .enumerate()
                .all(|(nth, name)| column(nth + AP + 1) == *name)
            && column(NDCG).starts_with("ndcg_")
            && column(TEXT) == "text"
            && header.len() == TEXT + 1;
        let Some(cut) = cut.filter(|_| is_ours) else {
            let columns = header.iter().collect::<Vec<_>>().join(",");
            return Err(malformed(None, format!("its columns are {columns:?}")));
        };
        let (mut kind, mut queries): (Option<Kind>, Vec<ScoredQuery>) = (None, Vec::new());
        let mut seen = HashSet::new();
        for record in reader.records() {
            let record = record.map_err(|error| malformed(None, error.to_string()))?;
            let line = record.position().map(csv::Position::line);
            let own = parse_kind(&record).map_err(|what| malformed(line, what))?;
            if kind.get_or_insert_with(|| own.clone()) != &own {
                return Err(malformed(
                    line,
                    "another direction or truth than the lines before".into(),
                ));
            }
            let query = parse_line(&record).map_err(|what| malformed(line, what))?;
            if !seen.insert(query.id.clone()) {
                return Err(malformed(line, format!("duplicate query {:?}", query.id)));
            }
            queries.push(query);
        }
        let kind = kind.ok_or_else(|| malformed(None, "it has no queries".into()))?;
        Ok(Self {
            kind,
            cut,
            queries,
            seed: None,
        })
    }
}

/// Places of columns: the first ones, then AP, the others, nDCG and the caption.
const AP: usize = FIRST.len();
const NDCG: usize = AP + MIDDLE.len() + 1;
const TEXT: usize = NDCG + 1;

fn parse_kind(record: &csv::StringRecord) -> Result<Kind, String> {
    let text = |nth: usize| record.get(nth).unwrap_or_default();
    Ok(Kind {
        direction: text(0).parse().map_err(|error| format!("direction: {error}"))?,
        relevance: text(1).to_owned(),
        gains: text(2).to_owned(),
    })
}

fn parse_line(record: &csv::StringRecord) -> Result<ScoredQuery, String> {
    let text = |nth: usize| record.get(nth).unwrap_or_default();
    let share = |nth: usize| match text(nth).parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok(value),
        Ok(value) => Err(format!("{value} is not between 0 and 1")),
        Err(error) => Err(format!("{:?}: {error}", text(nth))),
    };
    let hit = |nth: usize| match text(nth) {
        "0" => Ok(false),
        "1" => Ok(true),
        other => Err(format!("hit is {other:?}, not 0 or 1")),
    };
    let ndcg = match text(NDCG) {
        "" => None,
        _ => Some(share(NDCG)?),
    };
    Ok(ScoredQuery {
        id: text(3).to_owned(),
        clip: text(4).to_owned(),
        relevant: text(5).parse().map_err(|error| format!("relevant: {error}"))?,
        found: QueryMetrics {
            first_rank: text(6).parse().map_err(|error| format!("rank: {error}"))?,
            average_precision: share(AP)?,
            recall: [share(AP + 1)?, share(AP + 2)?, share(AP + 3)?],
            hit: [hit(AP + 4)?, hit(AP + 5)?, hit(AP + 6)?],
            reciprocal_rank: share(AP + 7)?,
        },
        ndcg,
        text: text(TEXT).to_owned(),
    })
}

// The columns above are spelt out.
const _: () = assert!(RECALL_CUTS[0] == 1 && RECALL_CUTS[1] == 5 && RECALL_CUTS[2] == 10);

#[cfg(test)]
mod tests {
    use super::*;

    fn scores() -> ScoredQueries {
        let query = |id: &str, rank: u32, ndcg| ScoredQuery {
            id: id.into(),
            clip: "rain, \"heavy\".wav".into(),
            text: "Rain,\nfalling".into(),
            relevant: 3,
            found: QueryMetrics {
                first_rank: rank,
                average_precision: 1.0 / 3.0,
                recall: [0.0, 1.0 / 3.0, 2.0 / 3.0],
                hit: [false, true, true],
                reciprocal_rank: 1.0 / f64::from(rank),
            },
            ndcg,
        };
        ScoredQueries {
            kind: Kind {
                direction: Direction::TextToAudio,
                relevance: PAIRS.into(),
                gains: "the scenes".into(),
            },
            cut: 10,
            seed: Some(7),
            queries: vec![query("a#1", 3, Some(0.1 + 0.2)), query("a#2", 7, None)],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        fs_err::create_dir(folder.path().join("seed-7")).unwrap();
        let path = folder.path().join("seed-7/text-to-audio.csv");
        scores().write(&path).unwrap();
        assert_eq!(ScoredQueries::read(&path).unwrap(), scores());
        assert!(scores().values(Metric::Ndcg).is_err());
        assert_eq!(scores().values(Metric::R10).unwrap(), [2.0 / 3.0; 2]);
    }

    #[test]
    fn what_is_no_such_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scores.csv");
        scores().write(&path).unwrap();
        let whole = fs_err::read_to_string(&path).unwrap();
        let header = whole.lines().next().unwrap().to_owned() + "\n";
        let kind = "text-to-audio,annotated pairs,,";
        let row = format!("{kind}a,b,1,1,1,1,1,1,1,1,1,1,,x\n");
        for (content, expected) in [
            ("query,score\na,1\n".to_owned(), "its columns are"),
            (header.clone(), "no queries"),
            (format!("{header}{row}{row}"), "duplicate query"),
            (
                format!("{header}{kind}a,b,1,1,NaN,1,1,1,1,1,1,1,,x\n"),
                "not between 0 and 1",
            ),
            (format!("{header}{kind}a,b,1,-1,1,1,1,1,1,1,1,1,,x\n"), "rank"),
            (
                format!("{header}{kind}a,b,1,1,1,1,1,1,x,1,1,1,,x\n"),
                "hit is \"x\"",
            ),
            (
                format!("{header}up,p,,a,b,1,1,1,1,1,1,1,1,1,1,,x\n"),
                "direction: unknown name",
            ),
            (
                format!("{header}{row}audio-to-text,p,,c,b,1,1,1,1,1,1,1,1,1,1,,x\n"),
                "another direction",
            ),
            (format!("{header}a,b\n"), "line"),
        ] {
            fs_err::write(&path, content).unwrap();
            let error = ScoredQueries::read(&path).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
