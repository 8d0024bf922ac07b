//! What a run answered, query by query: the file that `hark eval` and `hark reproduce` write and `hark compare` reads.
//!
//! One CSV file for each direction:
//! `direction,by,graded_by,query,clip,relevant,rank,ap_10,r_1,r_5,r_10,hit_1,hit_5,hit_10,rr,ndcg_10,text`. The first three are the
//! same in all rows: which way, what told the relevant items, and what told the gains of nDCG. `clip` is
//! what queries are clustered by (five captions of one clip are not five independent queries), `relevant` the number of
//! relevant items, `rank` that of the first one (0 where a list holds none), `ndcg_10` is empty where relevance is not graded.
//! The number after `ap_` is the cut. Numbers are written so that they are read back to the last bit. Refused on reading: other
//! columns, numbers out of range, a query that stands twice, rows of different kinds, a file without queries.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use hark_metrics::{QueryMetrics, RECALL_CUTS, Report};
use serde::Serialize;

use crate::output;

/// Which way is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Direction {
    /// Captions look for clips
    TextToAudio,
    /// Clips look for captions
    AudioToText,
}

impl Direction {
    pub const ALL: [Self; 2] = [Self::TextToAudio, Self::AudioToText];

    /// As people read it.
    pub fn title(self) -> &'static str {
        match self {
            Self::TextToAudio => "text to audio",
            Self::AudioToText => "audio to text",
        }
    }

    /// As files and keys have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::TextToAudio => "text-to-audio",
            Self::AudioToText => "audio-to-text",
        }
    }

    /// The file of its queries.
    pub fn file(self) -> String {
        format!("{}.csv", self.name())
    }
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Metric {
    /// Average precision within the cut
    Ap,
    /// Share of the relevant items in the first 1
    R1,
    /// Share of the relevant items in the first 5
    R5,
    /// Share of the relevant items in the first 10
    R10,
    /// Reciprocal rank of the first relevant item
    Rr,
    /// nDCG on graded relevance
    Ndcg,
}

impl Metric {
    /// The name of its mean, with the cut.
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

/// One query and how it was answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    pub id: String,
    pub clip: String,
    pub text: String,
    pub relevant: usize,
    pub found: QueryMetrics,
    pub ndcg: Option<f64>,
}

impl Query {
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
pub struct Scores {
    pub kind: Kind,
    pub cut: usize,
    pub queries: Vec<Query>,
    /// The seed of the run, where its folder tells it. It is not part of the file.
    pub seed: Option<u64>,
}

/// What was judged, and by what. Only figures of one kind can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    pub direction: Direction,
    /// What told the relevant items.
    pub by: String,
    /// What told the gains of nDCG; empty where there are none.
    pub graded_by: String,
}

/// What the relevant items are told by where nothing else is said.
pub const PAIRS: &str = "annotated pairs";

/// A query's names: its id, its cluster and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub id: String,
    pub clip: String,
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

impl Scores {
    /// Queries with their figures, in the order of the report.
    pub fn new(
        kind: Kind,
        names: Vec<Named>,
        relevant: impl Iterator<Item = usize>,
        report: &Report,
        ndcg: Option<&[f64]>,
    ) -> Self {
        let queries = names.into_iter().zip(relevant).zip(&report.queries).enumerate();
        let queries = queries.map(|(nth, ((named, relevant), found))| Query {
            id: named.id,
            clip: named.clip,
            text: named.text,
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
    pub fn values(&self, metric: Metric) -> Result<Vec<f64>> {
        let values: Option<Vec<f64>> = self.queries.iter().map(|query| query.value(metric)).collect();
        values.context("these queries have no nDCG: their relevance is not graded")
    }

    /// Writes the file, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        output::write_whole(path, |file| {
            let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(file);
            let (ap, ndcg) = (format!("ap_{}", self.cut), format!("ndcg_{}", self.cut));
            let header = FIRST.into_iter().chain([ap.as_str()]).chain(MIDDLE);
            writer.write_record(header.chain([ndcg.as_str(), "text"]))?;
            for query in &self.queries {
                writer.serialize(Line {
                    direction: self.kind.direction.name(),
                    by: &self.kind.by,
                    graded_by: &self.kind.graded_by,
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
            writer.flush()?;
            Ok(())
        })
    }

    /// Reads the file. Its run's seed is that of its folder, `seed-N`.
    pub fn read(path: &Path) -> Result<Self> {
        let mut scores =
            Self::parse(path).with_context(|| format!("{}: not a file of scored queries", path.display()))?;
        let folder = path
            .parent()
            .and_then(Path::file_name)
            .and_then(|name| name.to_str());
        scores.seed = folder.and_then(|name| name.strip_prefix("seed-")?.parse().ok());
        Ok(scores)
    }

    fn parse(path: &Path) -> Result<Self> {
        let mut reader = csv::Reader::from_reader(fs_err::File::open(path)?);
        let header = reader.headers()?.clone();
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
            bail!(
                "its columns are {:?}",
                header.iter().collect::<Vec<_>>().join(",")
            );
        };
        let (mut kind, mut queries): (Option<Kind>, Vec<Query>) = (None, Vec::new());
        let mut seen = HashSet::new();
        for record in reader.records() {
            let record = record?;
            let line = record.position().map_or(0, csv::Position::line);
            let own = parse_kind(&record).with_context(|| format!("line {line}"))?;
            if kind.get_or_insert_with(|| own.clone()) != &own {
                bail!("line {line}: another direction or truth than the lines before");
            }
            let query = parse_line(&record).with_context(|| format!("line {line}"))?;
            ensure!(
                seen.insert(query.id.clone()),
                "line {line}: the query {:?} stands there twice",
                query.id
            );
            queries.push(query);
        }
        let kind = kind.context("it has no queries")?;
        Ok(Self {
            kind,
            cut,
            queries,
            seed: None,
        })
    }
}

/// Places of columns: the first ones, then AP, the others, nDCG and the words.
const AP: usize = FIRST.len();
const NDCG: usize = AP + MIDDLE.len() + 1;
const TEXT: usize = NDCG + 1;

fn parse_kind(record: &csv::StringRecord) -> Result<Kind> {
    let text = |nth: usize| record.get(nth).unwrap_or_default();
    let direction = Direction::ALL
        .into_iter()
        .find(|direction| direction.name() == text(0));
    Ok(Kind {
        direction: direction.with_context(|| format!("no direction is called {:?}", text(0)))?,
        by: text(1).to_owned(),
        graded_by: text(2).to_owned(),
    })
}

fn parse_line(record: &csv::StringRecord) -> Result<Query> {
    let text = |nth: usize| record.get(nth).unwrap_or_default();
    let number = |nth: usize| -> Result<f64> {
        let value: f64 = text(nth).parse().with_context(|| format!("{:?}", text(nth)))?;
        ensure!((0.0..=1.0).contains(&value), "{value} is not between 0 and 1");
        Ok(value)
    };
    let hit = |nth: usize| match text(nth) {
        "0" => Ok(false),
        "1" => Ok(true),
        other => bail!("hit is {other:?}, not 0 or 1"),
    };
    let ndcg = match text(NDCG) {
        "" => None,
        _ => Some(number(NDCG)?),
    };
    Ok(Query {
        id: text(3).to_owned(),
        clip: text(4).to_owned(),
        relevant: text(5).parse().context("relevant")?,
        found: QueryMetrics {
            first_rank: text(6).parse().context("rank")?,
            average_precision: number(AP)?,
            recall: [number(AP + 1)?, number(AP + 2)?, number(AP + 3)?],
            hit: [hit(AP + 4)?, hit(AP + 5)?, hit(AP + 6)?],
            reciprocal_rank: number(AP + 7)?,
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

    fn scores() -> Scores {
        let query = |id: &str, rank: u32, ndcg| Query {
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
        Scores {
            kind: Kind {
                direction: Direction::TextToAudio,
                by: PAIRS.into(),
                graded_by: "the scenes".into(),
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
        assert_eq!(Scores::read(&path).unwrap(), scores());
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
            (format!("{header}{row}{row}"), "stands there twice"),
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
                "no direction is called",
            ),
            (
                format!("{header}{row}audio-to-text,p,,c,b,1,1,1,1,1,1,1,1,1,1,,x\n"),
                "another direction",
            ),
            (format!("{header}a,b\n"), "line"),
        ] {
            fs_err::write(&path, content).unwrap();
            let error = format!("{:#}", Scores::read(&path).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}
