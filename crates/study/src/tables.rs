//! The tables of a study, as Markdown, LaTeX and CSV.
//!
//! In: a study. Out: the form of the paper's Table II (a row for each method; mAP@10, R@1, R@5 and R@10 of
//! both directions), or of Table III where only text to audio is shown, in percent, mean ± sample SD, the
//! best mean of each column in bold (all that print the same are best), and chance in the last row. nDCG@10,
//! which the paper does not have, follows R@10 of text to audio where runs have it. With several corpora the
//! first table is over all of them and is followed by one for each. How means are formed over corpora:
//! [`super::summary`].
//!
//! Where the study repeats a table of the paper, Markdown (and the page) show the published row and the
//! difference in SDs below each method; the LaTeX table is meant to stand beside the paper's and leaves them
//! out.
//!
//! The CSV is for programs: a line for each method, corpus, direction and metric, in percent with four
//! decimals.

use super::escape;
use super::results::{Method, Study};
use super::summary::{
    Column, Direction, Metric, Summary, all_columns, columns, corpora, corpus_name, difference_in_deviations,
    summarise,
};

/// What a row of a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A method of the study.
    Method,
    /// What the paper prints for the method above.
    Paper,
    /// The difference between the two rows above.
    Difference,
    /// What chance reaches.
    Chance,
}

/// A figure, ready to be printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The mean with one decimal, a difference in SDs, or a dash where there is none.
    pub value: String,
    /// The SD with one decimal.
    pub deviation: Option<String>,
    /// Whether no method has a higher mean.
    pub best: bool,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What it is.
    pub kind: Kind,
    /// Its first cell.
    pub title: String,
    /// A cell for each column.
    pub cells: Vec<Cell>,
}

/// A table, before it is put into a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// How to read the rows of the paper, where there are such.
    pub note: Option<String>,
    /// The data set, with its corpus where the table is of one of several.
    pub data: String,
    /// The end of its label: empty, or `-corpus-7`.
    suffix: String,
    /// The columns after the first.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<Row>,
}

impl Table {
    /// The directions with their numbers of columns.
    pub fn directions(&self) -> Vec<(Direction, usize)> {
        let of = |direction| self.columns.iter().filter(|c| c.direction == direction).count();
        [Direction::TextToAudio, Direction::AudioToText]
            .map(|direction| (direction, of(direction)))
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .collect()
    }
}

/// Every table of a study.
pub fn tables(study: &Study) -> Vec<Table> {
    let corpora = corpora(study);
    let mut tables = vec![table(study, Scope::All(&corpora))];
    if corpora.len() > 1 {
        tables.extend(corpora.iter().map(|corpus| table(study, Scope::One(corpus))));
    }
    tables
}

/// What a table is over.
#[derive(Clone, Copy)]
enum Scope<'a> {
    /// All corpora of the study, of which there may be one only.
    All(&'a [Option<u64>]),
    /// One corpus of several.
    One(&'a Option<u64>),
}

impl<'a> Scope<'a> {
    fn corpora(self) -> &'a [Option<u64>] {
        match self {
            Self::All(corpora) => corpora,
            Self::One(corpus) => std::slice::from_ref(corpus),
        }
    }

    fn data(self, study: &Study) -> String {
        match self {
            Self::All(_) => study.data.clone(),
            Self::One(corpus) => format!("{}, corpus {}", study.data, corpus_name(*corpus)),
        }
    }
}

/// What chance reaches on some corpora. Only nDCG's depends on more than the sizes of a split.
fn chance_of(study: &Study, column: Column, corpora: &[Option<u64>]) -> Option<f64> {
    let runs = study.methods.iter().flat_map(|method| &method.runs);
    let here = runs.filter(|run| corpora.contains(&run.corpus));
    let chances: Vec<f64> = here.filter_map(|run| run.ndcg_chance).collect();
    if column.metric == Metric::Ndcg && !chances.is_empty() {
        return Some(chances.iter().sum::<f64>() / chances.len() as f64);
    }
    column.chance(study)
}

fn table(study: &Study, scope: Scope<'_>) -> Table {
    let corpora = scope.corpora();
    let columns = columns(study);
    let summaries: Vec<Vec<Option<Summary>>> = study
        .methods
        .iter()
        .map(|method| {
            columns
                .iter()
                .map(|column| summarise(method, corpora, *column))
                .collect()
        })
        .collect();
    let best: Vec<Option<String>> = (0..columns.len())
        .map(|at| best_as_printed(summaries.iter().filter_map(|row| row[at].as_ref())))
        .collect();
    let mut rows = Vec::new();
    for (method, row) in study.methods.iter().zip(&summaries) {
        let cells = row
            .iter()
            .zip(&best)
            .map(|(summary, best)| cell(summary.as_ref(), best.as_deref()));
        rows.push(Row {
            kind: Kind::Method,
            title: method.title.clone(),
            cells: cells.collect(),
        });
        if matches!(scope, Scope::All(_)) {
            rows.extend(published_rows(study, method, &columns, row));
        }
    }
    let chance = columns
        .iter()
        .map(|column| plain(chance_of(study, *column, corpora).map(percent)));
    rows.push(Row {
        kind: Kind::Chance,
        title: "Chance".to_owned(),
        cells: chance.collect(),
    });
    let compared = rows.iter().any(|row| row.kind == Kind::Paper);
    Table {
        caption: caption(study, scope),
        note: compared.then(|| note().to_owned()),
        data: scope.data(study),
        suffix: match scope {
            Scope::All(_) => String::new(),
            Scope::One(corpus) => format!("-corpus-{}", corpus_name(*corpus)),
        },
        columns,
        rows,
    }
}

fn published_rows(study: &Study, method: &Method, columns: &[Column], ours: &[Option<Summary>]) -> Vec<Row> {
    let published: Vec<_> = columns
        .iter()
        .map(|column| column.published(study, method))
        .collect();
    if published.iter().all(Option::is_none) {
        return Vec::new();
    }
    let theirs = published.iter().map(|figure| match figure {
        Some((mean, deviation)) => Cell {
            deviation: Some(format!("{deviation:.1}")),
            ..plain(Some(*mean))
        },
        None => plain(None),
    });
    let apart = ours
        .iter()
        .zip(&published)
        .map(|(ours, theirs)| match (ours, theirs) {
            (Some(ours), Some(theirs)) => Cell {
                value: deviations(difference_in_deviations(ours, *theirs)),
                deviation: None,
                best: false,
            },
            _ => plain(None),
        });
    let row = |kind, title: &str, cells| Row {
        kind,
        title: title.to_owned(),
        cells,
    };
    vec![
        row(Kind::Paper, "the paper", theirs.collect()),
        row(Kind::Difference, "difference", apart.collect()),
    ]
}

/// The highest mean of a column as it is printed.
fn best_as_printed<'a>(column: impl Iterator<Item = &'a Summary>) -> Option<String> {
    let finite = column.map(|summary| summary.mean).filter(|mean| mean.is_finite());
    finite.reduce(f64::max).map(|mean| one_decimal(percent(mean)))
}

fn cell(summary: Option<&Summary>, best: Option<&str>) -> Cell {
    let cell = plain(summary.map(|summary| percent(summary.mean)));
    Cell {
        best: best == Some(cell.value.as_str()),
        deviation: summary
            .and_then(|summary| summary.deviation)
            .map(|sd| one_decimal(percent(sd))),
        ..cell
    }
}

fn plain(percent: Option<f64>) -> Cell {
    Cell {
        value: percent.map_or_else(|| "–".to_owned(), one_decimal),
        deviation: None,
        best: false,
    }
}

fn percent(fraction: f64) -> f64 {
    100.0 * fraction
}

fn one_decimal(value: f64) -> String {
    fixed(value, 1)
}

/// A number with so many decimals, never as a negative zero, and `n/a` where it is not finite.
pub(super) fn fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "n/a".to_owned();
    }
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(size) if size.chars().all(|c| matches!(c, '0' | '.')) => size.to_owned(),
        _ => text,
    }
}

/// A difference with its sign: `+0.3 SD`.
fn deviations(value: f64) -> String {
    let number = one_decimal(value);
    if !value.is_finite() {
        number
    } else if number.starts_with('-') {
        format!("{number} SD")
    } else {
        format!("+{number} SD")
    }
}

fn caption(study: &Study, scope: Scope<'_>) -> String {
    let corpora = scope.corpora();
    let mut of = scope.data(study);
    if corpora.len() > 1 {
        of += &format!(" over {}", counted(corpora.len(), "corpus"));
    }
    let runs = runs_of_methods(study, corpora);
    let how = if corpora.len() > 1 {
        format!(
            "mean over corpora of the mean over runs ± SD within corpora (the root of the mean of the sample variances \
             of each corpus), {runs} per method"
        )
    } else if runs == "one run" {
        "one run of each method, so without SD".to_owned()
    } else {
        format!("mean ± sample SD over {runs}")
    };
    format!("Retrieval on {of}, in percent: {how}. The best mean of each column is bold.")
}

fn note() -> &'static str {
    "“The paper” is the published mean ± SD of five runs. The difference is ours minus the paper's, divided by the root of the \
     sum of both squared SDs; for a single run, by the paper's SD."
}

/// How many runs each method has: `five runs`, or `3 to 5 runs (InfoNCE 5; ListNet audio 3)`.
fn runs_of_methods(study: &Study, corpora: &[Option<u64>]) -> String {
    let count = |method: &Method| {
        method
            .runs
            .iter()
            .filter(|run| corpora.contains(&run.corpus))
            .count()
    };
    let counts: Vec<usize> = study.methods.iter().map(count).collect();
    let (low, high) = (counts.iter().min().copied(), counts.iter().max().copied());
    match (low, high) {
        (Some(low), Some(high)) if low != high => {
            let each = study.methods.iter().zip(&counts);
            let each: Vec<_> = each
                .map(|(method, count)| format!("{} {count}", method.title))
                .collect();
            format!("{low} to {high} runs ({})", each.join("; "))
        }
        _ => counted(high.unwrap_or(0), "run"),
    }
}

/// A number and what is counted, small numbers in words: `five runs`, `12 runs`, `two corpora`.
pub(super) fn counted(count: usize, what: &str) -> String {
    const WORDS: [&str; 11] = [
        "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    ];
    let number = WORDS
        .get(count)
        .map_or_else(|| count.to_string(), |word| (*word).to_owned());
    match (count, what) {
        (1, _) => format!("{number} {what}"),
        (_, "corpus") => format!("{number} corpora"),
        _ => format!("{number} {what}s"),
    }
}

/// The tables in Markdown, each below its caption.
pub fn markdown(study: &Study) -> String {
    tables(study)
        .iter()
        .map(markdown_table)
        .collect::<Vec<_>>()
        .join("\n")
}

fn markdown_table(table: &Table) -> String {
    let mut out = format!("{}\n\n", escape::markdown(&table.caption));
    let mut header = "| Method |".to_owned();
    let mut before = None;
    for column in &table.columns {
        // Markdown has no cells over several columns: the first of a direction names it.
        if before != Some(column.direction) {
            header += &format!(" {}:", column.direction.title());
        }
        before = Some(column.direction);
        header += &format!(" {} |", column.metric.title());
    }
    out += &header;
    out += &format!("\n|---|{}\n", "--:|".repeat(table.columns.len()));
    for row in &table.rows {
        out += &format!("| {} |", escape::markdown(&row.title));
        for cell in &row.cells {
            let text = with_deviation(cell, "±");
            out += &if cell.best {
                format!(" **{text}** |")
            } else {
                format!(" {text} |")
            };
        }
        out.push('\n');
    }
    if let Some(note) = &table.note {
        out += &format!("\n{}\n", escape::markdown(note));
    }
    out
}

/// `30.4±0.1`, with the sign of the format.
pub(super) fn with_deviation(cell: &Cell, sign: &str) -> String {
    match &cell.deviation {
        Some(deviation) => format!("{}{sign}{deviation}", cell.value),
        None => cell.value.clone(),
    }
}

/// The tables in LaTeX: complete environments that need the package `multirow`, and no other.
pub fn latex(study: &Study) -> String {
    let label = label(&study.name);
    let tables = tables(study);
    let tables = tables
        .iter()
        .map(|table| latex_table(table, &label, study.one_direction));
    tables.collect::<Vec<_>>().join("\n")
}

fn latex_table(table: &Table, label: &str, one_direction: bool) -> String {
    // One direction fits into a column of text, as the paper's Table III does.
    let environment = if one_direction { "table" } else { "table*" };
    let directions = table.directions();
    let layout: String = directions
        .iter()
        .map(|(_, count)| format!("|{}", "c".repeat(*count)))
        .collect();
    let last = 2 + table.columns.len();
    let mut out = format!(
        "\\begin{{{environment}}}[!t]\n    \\caption{{{}}}\n    \\label{{tab:{label}{}}}\n    \
         \\setlength{{\\tabcolsep}}{{3pt}}\n    \\renewcommand{{\\arraystretch}}{{1.2}}\n    \\centering\n    \
         \\begin{{tabular}}{{l|l{layout}}}\n        \\hline\n",
        escape::latex(&table.caption),
        table.suffix,
    );
    out += "        \\multirow{2}{*}{Dataset} & \\multirow{2}{*}{Method}";
    for (at, (direction, count)) in directions.iter().enumerate() {
        let rule = if at + 1 < directions.len() { "|" } else { "" };
        let title = match direction {
            Direction::TextToAudio => "Text-Based Audio Retrieval",
            Direction::AudioToText => "Audio-Based Text Retrieval",
        };
        out += &format!(" & \\multicolumn{{{count}}}{{c{rule}}}{{{title}}}");
    }
    let metrics: String = table
        .columns
        .iter()
        .map(|c| format!(" & {}", c.metric.title()))
        .collect();
    out += &format!(" \\\\\n        \\cline{{3-{last}}}\n         & {metrics} \\\\\n        \\hline\n");
    let rows = table
        .rows
        .iter()
        .filter(|row| matches!(row.kind, Kind::Method | Kind::Chance));
    let rows: Vec<_> = rows.collect();
    for (at, row) in rows.iter().enumerate() {
        if row.kind == Kind::Chance && at > 0 {
            out += &format!("        \\cline{{2-{last}}}\n");
        }
        let data = if at == 0 {
            format!(
                "\\multirow{{{}}}{{*}}{{{}}}",
                rows.len(),
                escape::latex(&table.data)
            )
        } else {
            String::new()
        };
        out += &format!("        {data} & {}", latex_method(&row.title));
        for cell in &row.cells {
            let bold = if cell.best { "\\bfseries " } else { "" };
            out += &format!(" & {bold}{}", with_deviation(cell, "$\\pm$").replace('–', "--"));
        }
        out += " \\\\\n";
    }
    out += &format!("        \\hline\n    \\end{{tabular}}\n\\end{{{environment}}}\n");
    out
}

/// `ListNet audio, minmax` as the paper writes it: what follows ListNet as a subscript, a variant as it is.
fn latex_method(title: &str) -> String {
    let Some(rest) = title.strip_prefix("ListNet ") else {
        return escape::latex(title);
    };
    let end = rest.find([' ', ',']).unwrap_or(rest.len());
    let (subscript, variant) = rest.split_at(end);
    format!(
        "ListNet\\textsubscript{{{}}}{}",
        escape::latex(subscript),
        escape::latex(variant)
    )
}

/// A name as a label: what LaTeX or a reader could stumble over becomes a hyphen.
fn label(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    name.chars().map(plain).collect()
}

/// Every figure of the tables, a line for each method, corpus, direction and metric.
///
/// Means and SDs are in percent with four decimals. The corpus is `all` for the figures over all corpora,
/// which are always there; the others are there where a study has several. Fields without a value are empty;
/// a mean that is not a number is `NaN`. The last lines are those of `chance`, with no runs.
pub fn csv(study: &Study) -> String {
    let mut out =
        "method,corpus,direction,metric,runs,mean,sd,published_mean,published_sd,difference_in_sd\n"
            .to_owned();
    let (columns, corpora) = (columns(study), corpora(study));
    for method in &study.methods {
        for column in &columns {
            let pooled = summarise(method, &corpora, *column);
            out += &csv_line(
                &method.name,
                "all",
                *column,
                pooled,
                column.published(study, method),
            );
        }
        if corpora.len() < 2 {
            continue;
        }
        for corpus in &corpora {
            for column in &columns {
                let summary = summarise(method, &[*corpus], *column);
                out += &csv_line(&method.name, &corpus_name(*corpus), *column, summary, None);
            }
        }
    }
    for column in &columns {
        let chance = column.chance(study).map(|mean| Summary {
            runs: 0,
            mean,
            deviation: None,
        });
        out += &csv_line("chance", "all", *column, chance, None);
    }
    out
}

fn csv_line(
    method: &str,
    corpus: &str,
    column: Column,
    summary: Option<Summary>,
    published: Option<(f64, f64)>,
) -> String {
    let apart = summary
        .zip(published)
        .map(|(ours, theirs)| difference_in_deviations(&ours, theirs));
    let fields = [
        escape::csv(method),
        corpus.to_owned(),
        column.direction.name().to_owned(),
        column.metric.title().to_owned(),
        summary.map_or(0, |summary| summary.runs).to_string(),
        four_decimals(summary.map(|summary| percent(summary.mean))),
        four_decimals(summary.and_then(|summary| summary.deviation).map(percent)),
        four_decimals(published.map(|(mean, _)| mean)),
        four_decimals(published.map(|(_, deviation)| deviation)),
        four_decimals(apart),
    ];
    fields.join(",") + "\n"
}

/// Every run of a study, a line for each, with the figures of both directions in percent with four decimals.
/// The corpus is empty where the data have none; a figure that is not a number is `NaN`.
pub fn runs_csv(study: &Study) -> String {
    let columns = all_columns(study);
    let mut out = "method,corpus,seed,best_epoch,epochs".to_owned();
    for column in &columns {
        out += &format!(",{} {}", column.direction.name(), column.metric.title());
    }
    out.push('\n');
    for method in &study.methods {
        for run in &method.runs {
            let corpus = run.corpus.map_or_else(String::new, |seed| seed.to_string());
            let (seed, kept, epochs) = (run.seed, run.best_epoch, run.curve.len());
            out += &format!("{},{corpus},{seed},{kept},{epochs}", escape::csv(&method.name));
            for column in &columns {
                out += &format!(",{}", four_decimals(column.of(run).map(percent)));
            }
            out.push('\n');
        }
    }
    out
}

fn four_decimals(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.4}"))
}

#[cfg(test)]
mod tests {
    use super::super::examples::{empty, method, run};
    use super::super::results::{Published, PublishedData};
    use super::*;

    fn titled(name: &str, title: &str, maps: &[f64]) -> Method {
        let runs = maps
            .iter()
            .zip(1..)
            .map(|(map, seed)| run(None, seed, *map))
            .collect();
        Method {
            title: title.to_owned(),
            ..method(name, runs)
        }
    }

    fn clotho() -> Study {
        Study {
            data: "Clotho".to_owned(),
            published: Some(Published {
                data: PublishedData::Clotho,
                pretrained: false,
            }),
            methods: vec![
                titled("infonce", "InfoNCE", &[0.27, 0.28, 0.29]),
                titled("listnet-audio", "ListNet audio", &[0.30, 0.31, 0.32]),
            ],
            ..empty()
        }
    }

    /// SDs are 1.0 and, where the example halves its figures, 0.5. The first difference: (28.0 - 28.2) /
    /// sqrt(1.0^2 + 0.5^2) = -0.18; the last: (35.5 - 27.9) / sqrt(0.5^2 + 0.2^2) = 14.11.
    /// Scenes differ between corpora, and with them what chance reaches of nDCG.
    #[test]
    fn chance_of_ndcg_is_that_of_the_corpus() {
        let mut study = empty();
        let with = |corpus, chance| {
            let mut run = run(Some(corpus), 1, 0.2);
            (run.ndcg, run.ndcg_chance) = (Some(0.5), Some(chance));
            run
        };
        study.methods = vec![method("infonce", vec![with(1, 0.1), with(2, 0.3)])];
        let of = |corpora: &[Option<u64>]| {
            let column = Column {
                direction: Direction::TextToAudio,
                metric: Metric::Ndcg,
            };
            chance_of(&study, column, corpora).unwrap()
        };
        for (corpora, expected) in [
            (&[Some(1)][..], 0.1),
            (&[Some(2)], 0.3),
            (&[Some(1), Some(2)], 0.2),
        ] {
            assert!((of(corpora) - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn markdown_with_the_papers_rows_is_exact() {
        let expected = "\
Retrieval on Clotho, in percent: mean ± sample SD over three runs. The best mean of each column is bold.

| Method | text to audio: mAP@10 | R@1 | R@5 | R@10 | audio to text: mAP@10 | R@1 | R@5 | R@10 |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
| InfoNCE | 28.0±1.0 | 18.0±1.0 | 38.0±1.0 | 48.0±1.0 | 14.0±0.5 | 4.0±0.5 | 24.0±0.5 | 34.0±0.5 |
| the paper | 28.2±0.5 | 16.9±0.5 | 43.3±0.3 | 57.7±0.7 | 15.1±0.3 | 4.3±0.2 | 17.0±0.3 | 26.9±0.4 |
| difference | -0.2 SD | +1.0 SD | -5.1 SD | -7.9 SD | -1.9 SD | -0.6 SD | +12.0 SD | +11.1 SD |
| ListNet audio | **31.0±1.0** | **21.0±1.0** | **41.0±1.0** | **51.0±1.0** | **15.5±0.5** | **5.5±0.5** | **25.5±0.5** | **35.5±0.5** |
| the paper | 30.4±0.1 | 19.0±0.1 | 45.9±0.3 | 60.1±0.5 | 16.0±0.2 | 4.3±0.1 | 17.8±0.3 | 27.9±0.2 |
| difference | +0.6 SD | +2.0 SD | -4.7 SD | -8.1 SD | -0.9 SD | +2.4 SD | +13.2 SD | +14.1 SD |
| Chance | 0.3 | 0.1 | 0.5 | 1.0 | 0.2 | 0.1 | 0.5 | 1.0 |
";
        let got = markdown(&clotho());
        assert_eq!(got.strip_suffix(&format!("\n{}\n", note())), Some(expected));
    }

    /// 28.5 against 28.5±0.4, and 18.5 against 17.3±0.4.
    #[test]
    fn one_run_has_no_deviation_and_is_measured_in_the_papers() {
        let study = Study {
            one_direction: true,
            methods: vec![titled("listnet-text", "ListNet text", &[0.285])],
            ..clotho()
        };
        let got = markdown(&study);
        assert!(got.contains("in percent: one run of each method, so without SD."));
        assert!(
            got.contains("| ListNet text | **28.5** | **18.5** | **38.5** | **48.5** |\n"),
            "{got}"
        );
        assert!(
            got.contains("| difference | +0.0 SD | +3.0 SD | -17.0 SD | -49.0 SD |\n"),
            "{got}"
        );
        let expected = "listnet-text,all,text-to-audio,R@1,1,18.5000,,17.3000,0.4000,3.0000\n";
        assert!(csv(&study).contains(expected));
    }

    /// Corpus 1: 20 and 22 (mean 21, variance 2); corpus 2: 30 and 36 (mean 33, variance 18). All: mean 27,
    /// SD sqrt(10).
    fn two_corpora() -> Study {
        let runs = [(1, 0.20), (1, 0.22), (2, 0.30), (2, 0.36)];
        let runs = runs.map(|(corpus, map)| run(Some(corpus), 7, map));
        Study {
            one_direction: true,
            methods: vec![method("a, \"b\"", runs.into()), method("none", Vec::new())],
            ..empty()
        }
    }

    #[test]
    fn several_corpora_are_pooled_and_then_shown_one_by_one() {
        let expected = "\
Retrieval on soundscapes over two corpora, in percent: mean over corpora of the mean over runs ± SD within corpora (the \
root of the mean of the sample variances of each corpus), 0 to 4 runs (a, \"b\" 4; none 0) per method. The best mean \
of each column is bold.

| Method | text to audio: mAP@10 | R@1 | R@5 | R@10 |
|---|--:|--:|--:|--:|
| a, \"b\" | **27.0±3.2** | **17.0±3.2** | **37.0±3.2** | **47.0±3.2** |
| none | – | – | – | – |
| Chance | 0.3 | 0.1 | 0.5 | 1.0 |

Retrieval on soundscapes, corpus 1, in percent: mean ± sample SD over 0 to 2 runs (a, \"b\" 2; none 0). The best mean of \
each column is bold.

| Method | text to audio: mAP@10 | R@1 | R@5 | R@10 |
|---|--:|--:|--:|--:|
| a, \"b\" | **21.0±1.4** | **11.0±1.4** | **31.0±1.4** | **41.0±1.4** |
| none | – | – | – | – |
| Chance | 0.3 | 0.1 | 0.5 | 1.0 |

Retrieval on soundscapes, corpus 2, in percent: mean ± sample SD over 0 to 2 runs (a, \"b\" 2; none 0). The best mean of \
each column is bold.

| Method | text to audio: mAP@10 | R@1 | R@5 | R@10 |
|---|--:|--:|--:|--:|
| a, \"b\" | **33.0±4.2** | **23.0±4.2** | **43.0±4.2** | **53.0±4.2** |
| none | – | – | – | – |
| Chance | 0.3 | 0.1 | 0.5 | 1.0 |
";
        assert_eq!(markdown(&two_corpora()), expected);
    }

    #[test]
    fn csv_is_exact() {
        let expected = "\
method,corpus,direction,metric,runs,mean,sd,published_mean,published_sd,difference_in_sd
\"a, \"\"b\"\"\",all,text-to-audio,mAP@10,4,27.0000,3.1623,,,
\"a, \"\"b\"\"\",all,text-to-audio,R@1,4,17.0000,3.1623,,,
\"a, \"\"b\"\"\",all,text-to-audio,R@5,4,37.0000,3.1623,,,
\"a, \"\"b\"\"\",all,text-to-audio,R@10,4,47.0000,3.1623,,,
\"a, \"\"b\"\"\",1,text-to-audio,mAP@10,2,21.0000,1.4142,,,
\"a, \"\"b\"\"\",1,text-to-audio,R@1,2,11.0000,1.4142,,,
\"a, \"\"b\"\"\",1,text-to-audio,R@5,2,31.0000,1.4142,,,
\"a, \"\"b\"\"\",1,text-to-audio,R@10,2,41.0000,1.4142,,,
\"a, \"\"b\"\"\",2,text-to-audio,mAP@10,2,33.0000,4.2426,,,
\"a, \"\"b\"\"\",2,text-to-audio,R@1,2,23.0000,4.2426,,,
\"a, \"\"b\"\"\",2,text-to-audio,R@5,2,43.0000,4.2426,,,
\"a, \"\"b\"\"\",2,text-to-audio,R@10,2,53.0000,4.2426,,,
chance,all,text-to-audio,mAP@10,0,0.3000,,,,
chance,all,text-to-audio,R@1,0,0.1000,,,,
chance,all,text-to-audio,R@5,0,0.5000,,,,
chance,all,text-to-audio,R@10,0,1.0000,,,,
";
        let mut study = two_corpora();
        study.methods.pop();
        assert_eq!(csv(&study), expected);
    }

    #[test]
    fn every_run_has_its_line() {
        let mut study = two_corpora();
        let runs = &mut study.methods[0].runs;
        runs.truncate(2);
        (runs[0].ndcg, runs[1].corpus, runs[1].text_to_audio.map) = (Some(0.5), None, f64::NAN);
        let expected = "\
method,corpus,seed,best_epoch,epochs,text-to-audio mAP@10,text-to-audio R@1,text-to-audio R@5,text-to-audio R@10,\
text-to-audio nDCG@10,audio-to-text mAP@10,audio-to-text R@1,audio-to-text R@5,audio-to-text R@10
\"a, \"\"b\"\"\",1,7,2,0,20.0000,10.0000,30.0000,40.0000,50.0000,10.0000,0.0000,20.0000,30.0000
\"a, \"\"b\"\"\",,7,2,0,NaN,12.0000,32.0000,42.0000,,11.0000,1.0000,21.0000,31.0000
";
        assert_eq!(runs_csv(&study), expected);
    }

    #[test]
    fn latex_is_exact() {
        let mut study = Study {
            name: "Small & 1st".to_owned(),
            data: "sound_scapes".to_owned(),
            published: None,
            methods: vec![
                titled("infonce", "InfoNCE 50%", &[0.27, 0.29]),
                titled("listnet-audio", "ListNet audio, x_1", &[0.31]),
            ],
            ..clotho()
        };
        study.methods[1].runs[0].ndcg = Some(0.4);
        let expected = r"\begin{table*}[!t]
    \caption{Retrieval on sound\_scapes, in percent: mean $\pm$ sample SD over 1 to 2 runs (InfoNCE 50\% 2; ListNet audio, x\_1 1). The best mean of each column is bold.}
    \label{tab:small---1st}
    \setlength{\tabcolsep}{3pt}
    \renewcommand{\arraystretch}{1.2}
    \centering
    \begin{tabular}{l|l|ccccc|cccc}
        \hline
        \multirow{2}{*}{Dataset} & \multirow{2}{*}{Method} & \multicolumn{5}{c|}{Text-Based Audio Retrieval} & \multicolumn{4}{c}{Audio-Based Text Retrieval} \\
        \cline{3-11}
         &  & mAP@10 & R@1 & R@5 & R@10 & nDCG@10 & mAP@10 & R@1 & R@5 & R@10 \\
        \hline
        \multirow{3}{*}{sound\_scapes} & InfoNCE 50\% & 28.0$\pm$1.4 & 18.0$\pm$1.4 & 38.0$\pm$1.4 & 48.0$\pm$1.4 & -- & 14.0$\pm$0.7 & 4.0$\pm$0.7 & 24.0$\pm$0.7 & 34.0$\pm$0.7 \\
         & ListNet\textsubscript{audio}, x\_1 & \bfseries 31.0 & \bfseries 21.0 & \bfseries 41.0 & \bfseries 51.0 & \bfseries 40.0 & \bfseries 15.5 & \bfseries 5.5 & \bfseries 25.5 & \bfseries 35.5 \\
        \cline{2-11}
         & Chance & 0.3 & 0.1 & 0.5 & 1.0 & -- & 0.2 & 0.1 & 0.5 & 1.0 \\
        \hline
    \end{tabular}
\end{table*}
";
        assert_eq!(latex(&study), expected);
        study.one_direction = true;
        let narrow = latex(&study);
        assert!(narrow.starts_with("\\begin{table}[!t]") && narrow.ends_with("\\end{table}\n"));
        assert!(
            narrow.contains("{l|l|ccccc}") && narrow.contains("{5}{c}{Text-Based Audio Retrieval} \\\\\n")
        );
        assert!(!narrow.contains("Audio-Based"));
    }

    #[test]
    fn all_that_print_the_same_best_mean_are_bold() {
        let mut study = clotho();
        study.published = None;
        study.methods = vec![
            titled("a", "a", &[0.2804]),
            titled("b", "b", &[0.2796]),
            titled("c", "c", &[0.2794]),
            titled("d", "d", &[f64::NAN]),
        ];
        let got = markdown(&study);
        let best = got.lines().filter(|line| line.contains("| **28.0** |"));
        assert_eq!(best.count(), 2);
        assert!(
            got.contains("| c | 27.9 |") && got.contains("| d | n/a |"),
            "{got}"
        );
    }

    #[test]
    fn rounding_never_leaves_a_negative_zero() {
        let cases = [
            (-0.04, 1, "0.0"),
            (-0.06, 1, "-0.1"),
            (-0.0, 2, "0.00"),
            (-10.0, 0, "-10"),
        ];
        for (value, decimals, expected) in cases {
            assert_eq!(fixed(value, decimals), expected);
        }
        assert_eq!(deviations(-0.01), "+0.0 SD");
        assert_eq!(deviations(f64::NAN), "n/a");
    }
}
