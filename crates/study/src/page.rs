//! The whole report of a study: one page of HTML that needs nothing beside itself, and the same in Markdown.
//!
//! The page holds its drawings and its style, loads nothing and runs no scripts. It follows the reader's
//! choice of light or dark, tables that are too wide scroll in their own box, and everything that comes from
//! the study is escaped.

use super::checkpoint_selection as kept;
use super::comparisons::{self, verdicts};
use super::escape;
use super::plots;
use super::results::{Method, Study};
use super::summary::{Direction, corpora, corpus_name};
use super::tables::{self, Kind, Table, counted, with_deviation};
use crate::Error;

/// More seeds or names than this are counted and not listed.
const LISTED: usize = 12;

const STYLE: &str = "\
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #fff; --rule: #c8c8c8; --quiet: #5a5a5a; --shade: #f3f3f1; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e6; --paper: #171717; --rule: #4a4a4a; --quiet: #a9a9a7; --shade: #242424; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem 1.25rem 3rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; }
h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid var(--rule); }
p, li { max-width: 46rem; }
h1, p, li, caption, figcaption { overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin: 1rem 0 1.6rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; }
caption { caption-side: top; text-align: left; padding-bottom: .5rem; color: var(--quiet);
  max-width: min(46rem, calc(100vw - 2.5rem)); }
th, td { padding: .25rem .6rem; text-align: right; white-space: nowrap; }
th[scope=row], td.text, th.text { text-align: left; }
.words :is(th, td.text) { min-width: 4.5rem; white-space: normal; }
.words :is(th, td) { padding: .25rem .45rem; }
thead th { border-bottom: 1px solid var(--rule); font-weight: 600; }
thead th[scope=colgroup] { text-align: center; }
tbody th { font-weight: normal; }
tbody tr { border-bottom: 1px solid var(--shade); }
tr.paper, tr.difference { color: var(--quiet); font-size: .86rem; }
tr.paper th, tr.difference th { padding-left: 1.8rem; }
tr.chance { border-top: 1px solid var(--rule); }
.edge { border-left: 1px solid var(--rule); }
td.best { font-weight: 700; }
td.long { white-space: normal; overflow-wrap: anywhere; text-align: left; }
p.note { color: var(--quiet); font-size: .92rem; }
figure { margin: 1rem 0; max-width: 56rem; }
.plot { padding: .5rem; background: #fff; border: 1px solid var(--rule); border-radius: 4px; overflow-x: auto; }
.plot svg { display: block; width: 100%; min-width: 34rem; height: auto; }
figcaption { margin-top: .4rem; color: var(--quiet); font-size: .92rem; }
details { margin: 1rem 0; }
summary { cursor: pointer; }
pre { overflow-x: auto; padding: .8rem; background: var(--shade); font-size: .85rem; }
:focus-visible { outline: 2px solid #0072B2; outline-offset: 2px; }
@media print {
  :root { --ink: #000; --paper: #fff; --rule: #999; --quiet: #333; --shade: #eee; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  table { font-size: 8pt; }
  th, td { padding: .15rem .35rem; }
  .scroll, .plot, pre { overflow: visible; }
  pre { white-space: pre-wrap; }
  .plot { border: 0; padding: 0; }
  .plot svg { min-width: 0; }
  figure { break-inside: avoid; }
  details::details-content { content-visibility: visible; }
  tr { break-inside: avoid; }
  h2 { break-after: avoid; }
}
";

/// The report as one page of HTML.
///
/// # Errors
///
/// [`Error::Plot`] where a drawing cannot be made.
pub fn html(study: &Study) -> Result<String, Error> {
    let title = escape::html(&heading(study));
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n<p>{}</p>\n",
        escape::html(&what_was_run(study))
    );
    out += "<h2>Findings</h2>\n";
    out += &html_verdicts(study);
    out += "<h2>Results</h2>\n";
    for table in tables::tables(study) {
        out += &html_table(&table);
    }
    for direction in directions(study) {
        let caption = format!("mAP@10, {}, of every run.", direction.title());
        out += &html_figure(&plots::methods(study, direction)?, &caption);
    }
    if !study.comparisons.is_empty() {
        out += "<h2>Tests</h2>\n";
        out += &html_tests(study);
    }
    out += "<h2>Training</h2>\n";
    out += &html_figure(&plots::curves(study)?, CURVES);
    let kept = kept::rows(study);
    if !kept.is_empty() {
        out += &html_rows("Epochs that were kept", kept::CAPTION, &kept::HEADER, 1, &kept);
    }
    out += "<h2>Recipe and provenance</h2>\n";
    out += &format!(
        "<details>\n<summary>The recipe, with all defaults filled in</summary>\n<pre tabindex=\"0\"><code>{}</code></pre>\n</details>\n",
        escape::html(&study.recipe)
    );
    out += &html_provenance(study);
    out += "</main>\n</body>\n</html>\n";
    Ok(out)
}

const CURVES: &str = "Learning curves. Losses of different objectives have different units: only their course can be compared.";

fn heading(study: &Study) -> String {
    format!(
        "{}: {} on {}",
        study.name,
        counted(study.methods.len(), "method"),
        study.data
    )
}

fn directions(study: &Study) -> Vec<Direction> {
    if study.one_direction {
        vec![Direction::TextToAudio]
    } else {
        vec![Direction::TextToAudio, Direction::AudioToText]
    }
}

/// Methods, seeds, corpora and runs in a paragraph.
fn what_was_run(study: &Study) -> String {
    let total: usize = study.methods.iter().map(|method| method.runs.len()).sum();
    let names: Vec<String> = study.methods.iter().map(|method| method.title.clone()).collect();
    let mut text = format!(
        "The study “{}” trained {} on {}{}.",
        study.name,
        counted(names.len(), "method"),
        study.data,
        listed(&names)
    );
    let runs = study.methods.iter().flat_map(|method| &method.runs);
    let mut seeds: Vec<u64> = runs.map(|run| run.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let seed_names: Vec<String> = seeds.iter().map(u64::to_string).collect();
    let corpora = corpora(study);
    let corpus_names: Vec<String> = corpora.iter().map(|corpus| corpus_name(*corpus)).collect();
    text += &format!(
        " There are {} with {}{}",
        counted(total, "run"),
        counted(seeds.len(), "training seed"),
        listed(&seed_names)
    );
    if corpora.iter().any(Option::is_some) {
        text += &format!(
            " on {}{}",
            counted(corpora.len(), "corpus"),
            listed(&corpus_names)
        );
    }
    text.push('.');
    if let Some((least, most)) = uneven(&study.methods) {
        text += &format!(" Not every method has as many runs: from {least} to {most}.");
    }
    text
}

/// The names in brackets, where there are some and not too many. A name may have a comma.
fn listed(names: &[String]) -> String {
    if names.is_empty() || names.len() > LISTED {
        return String::new();
    }
    let separator = if names.iter().any(|name| name.contains(',')) {
        "; "
    } else {
        ", "
    };
    format!(" ({})", names.join(separator))
}

fn uneven(methods: &[Method]) -> Option<(usize, usize)> {
    let counts = || methods.iter().map(|method| method.runs.len());
    let (least, most) = (counts().min()?, counts().max()?);
    (least != most).then_some((least, most))
}

fn html_verdicts(study: &Study) -> String {
    let sentences = verdicts(study);
    if sentences.is_empty() {
        return format!("<p>{}</p>\n", comparisons::NOTHING);
    }
    let items: String = sentences
        .iter()
        .map(|s| format!("<li>{}</li>\n", escape::html(s)))
        .collect();
    format!("<ul>\n{items}</ul>\n")
}

fn html_table(table: &Table) -> String {
    let directions = table.directions();
    let edges: Vec<usize> = directions
        .iter()
        .scan(0, |start, (_, count)| {
            let edge = *start;
            *start += count;
            Some(edge)
        })
        .collect();
    let edge = |at: usize| if edges.contains(&at) { "edge" } else { "" };
    let mut out = scroll_box(&format!("Table: {}", table.data));
    out += &format!(
        "<table>\n<caption>{}</caption>\n<colgroup></colgroup>\n",
        escape::html(&table.caption)
    );
    for (_, count) in &directions {
        out += &format!("<colgroup span=\"{count}\"></colgroup>\n");
    }
    out += "<thead>\n<tr><th scope=\"col\" rowspan=\"2\" class=\"text\">Method</th>";
    for (direction, count) in &directions {
        let title = direction.title();
        out += &format!("<th scope=\"colgroup\" colspan=\"{count}\" class=\"edge\">{title}</th>");
    }
    out += "</tr>\n<tr>";
    for (at, column) in table.columns.iter().enumerate() {
        out += &format!(
            "<th scope=\"col\"{}>{}</th>",
            class(&[edge(at)]),
            column.metric.title()
        );
    }
    out += "</tr>\n</thead>\n<tbody>\n";
    for row in &table.rows {
        let kind = match row.kind {
            Kind::Method => "",
            Kind::Paper => "paper",
            Kind::Difference => "difference",
            Kind::Chance => "chance",
        };
        out += &format!(
            "<tr{}><th scope=\"row\">{}</th>",
            class(&[kind]),
            escape::html(&row.title)
        );
        for (at, cell) in row.cells.iter().enumerate() {
            let class = class(&[edge(at), if cell.best { "best" } else { "" }]);
            out += &format!("<td{class}>{}</td>", escape::html(&with_deviation(cell, "±")));
        }
        out += "</tr>\n";
    }
    out += "</tbody>\n</table>\n</div>\n";
    if let Some(note) = &table.note {
        out += &format!("<p class=\"note\">{}</p>\n", escape::html(note));
    }
    out
}

/// A box that can be scrolled, with the keyboard too, and that says what it holds.
fn scroll_box(label: &str) -> String {
    format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">\n",
        escape::html(label)
    )
}

fn class(names: &[&str]) -> String {
    let names: Vec<&str> = names.iter().copied().filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        String::new()
    } else {
        format!(" class=\"{}\"", names.join(" "))
    }
}

fn html_tests(study: &Study) -> String {
    let header = comparisons::HEADER.map(|title| title.replace("d_z", "d<sub>z</sub>"));
    let rows = comparisons::rows(study);
    html_rows(
        "Tests between methods",
        comparisons::NOTE,
        &header,
        comparisons::TEXTS,
        &rows,
    )
}

/// A table of text; the first columns are words, the others figures. Titles are HTML, cells are not.
fn html_rows<const N: usize>(
    label: &str,
    caption: &str,
    header: &[impl AsRef<str>],
    texts: usize,
    rows: &[[String; N]],
) -> String {
    let text = |at: usize| class(&[if at < texts { "text" } else { "" }]);
    let mut out = scroll_box(label);
    out += &format!(
        "<table class=\"words\">\n<caption>{}</caption>\n<thead>\n<tr>",
        escape::html(caption)
    );
    for (at, title) in header.iter().enumerate() {
        out += &format!("<th scope=\"col\"{}>{}</th>", text(at), title.as_ref());
    }
    out += "</tr>\n</thead>\n<tbody>\n";
    for row in rows {
        out += "<tr>";
        for (at, cell) in row.iter().enumerate() {
            let cell = escape::html(cell);
            out += &match at {
                0 => format!("<th scope=\"row\">{cell}</th>"),
                _ => format!("<td{}>{cell}</td>", text(at)),
            };
        }
        out += "</tr>\n";
    }
    out += "</tbody>\n</table>\n</div>\n";
    out
}

fn html_figure(svg: &str, caption: &str) -> String {
    format!(
        "<figure>\n<div class=\"plot\" tabindex=\"0\">\n{}\n</div>\n<figcaption>{}</figcaption>\n</figure>\n",
        svg.trim_end(),
        escape::html(caption)
    )
}

fn html_provenance(study: &Study) -> String {
    if study.provenance.is_empty() {
        return String::new();
    }
    let mut out = scroll_box("Provenance");
    out += "<table>\n<caption>Versions and hashes of what the study was made with.</caption>\n\
            <thead>\n<tr><th scope=\"col\" class=\"text\">What</th><th scope=\"col\" class=\"text\">Value</th></tr>\n\
            </thead>\n<tbody>\n";
    for (what, value) in &study.provenance {
        let (what, value) = (escape::html(what), escape::html(value));
        out += &format!("<tr><th scope=\"row\">{what}</th><td class=\"long\">{value}</td></tr>\n");
    }
    out += "</tbody>\n</table>\n</div>\n";
    out
}

/// The report in Markdown, for a folder that holds `curves.svg`, `text-to-audio.svg` and, unless only one
/// direction is shown, `audio-to-text.svg`.
pub fn markdown_report(study: &Study) -> String {
    let mut out = format!(
        "# {}\n\n{}\n\n## Findings\n\n{}\n## Results\n\n{}\n",
        escape::markdown(&heading(study)),
        escape::markdown(&what_was_run(study)),
        comparisons::verdicts_markdown(study),
        tables::markdown(study)
    );
    for direction in directions(study) {
        let (title, slug) = (direction.title(), direction.name());
        out += &format!("![mAP@10, {title}, of every run]({slug}.svg)\n\n");
    }
    if !study.comparisons.is_empty() {
        out += &format!("## Tests\n\n{}\n", comparisons::table_markdown(study));
    }
    out += &format!(
        "## Training\n\n![Learning curves](curves.svg)\n\n{CURVES}\n\n{}\n",
        kept::markdown(study)
    );
    let fence = fence(&study.recipe);
    out += &format!("## Recipe\n\n{fence}toml\n{}\n{fence}\n", study.recipe.trim_end());
    if !study.provenance.is_empty() {
        out += "\n## Provenance\n\n| What | Value |\n|---|---|\n";
        for (what, value) in &study.provenance {
            out += &format!("| {} | {} |\n", escape::markdown(what), escape::markdown(value));
        }
    }
    out
}

/// A fence that no line of the text can close: longer than any of its rows of backticks.
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat((longest + 1).max(3))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::examples::{comparison, empty, large, method, run, test};
    use super::super::results::{Published, PublishedData};
    use super::*;

    const VOID: [&str; 3] = ["meta", "br", "hr"];

    /// Panics unless every tag is closed in its order, every attribute is quoted, and every ampersand begins
    /// an entity.
    pub(in super::super) fn assert_well_formed(html: &str) {
        let mut open: Vec<&str> = Vec::new();
        let mut rest = html.strip_prefix("<!DOCTYPE html>").expect("a document type");
        while let Some(start) = rest.find('<') {
            assert_text(&rest[..start]);
            let end = start + tag_length(&rest[start..]);
            let tag = &rest[start + 1..end - 1];
            rest = &rest[end..];
            let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
            assert!(
                name.chars().all(|c| c.is_ascii_alphanumeric()) && !name.is_empty(),
                "tag <{tag}>"
            );
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name), "closed out of order");
            } else if !tag.ends_with('/') && !VOID.contains(&name) {
                open.push(name);
            }
        }
        assert_text(rest);
        assert!(open.is_empty(), "left open: {open:?}");
    }

    /// To the `>` that is not inside quotes.
    fn tag_length(text: &str) -> usize {
        let mut quoted = false;
        for (at, c) in text.char_indices() {
            match c {
                '"' => quoted = !quoted,
                '>' if !quoted => return at + 1,
                '<' if at > 0 => panic!("a < inside a tag: {text:.80}"),
                _ => {}
            }
        }
        panic!("a tag without an end: {text:.80}");
    }

    fn assert_text(text: &str) {
        for after in text.split('&').skip(1) {
            let entity = after.split(';').next().unwrap();
            assert!(
                ["amp", "lt", "gt", "quot", "apos", "#39"].contains(&entity),
                "&{entity}"
            );
        }
    }

    #[test]
    fn the_check_of_forms_finds_what_is_wrong() {
        for wrong in [
            "<p>",
            "</p>",
            "<p><b></p></b>",
            "<p>a & b</p>",
            "<p a=\"<b>\"></p>",
            "<p",
            "<<p></p>",
        ] {
            let html = format!("<!DOCTYPE html>{wrong}");
            assert!(
                std::panic::catch_unwind(|| assert_well_formed(&html)).is_err(),
                "{wrong}"
            );
        }
        assert_well_formed("<!DOCTYPE html><p a=\"x > y\">a &amp; b<meta c=\"d\"></p>");
    }

    #[test]
    fn the_page_is_well_formed_and_loads_nothing() {
        let html = html(&large()).unwrap();
        assert_well_formed(&html);
        for outside in ["<script", "<link", "<img", "url(", "@import", " src=", " href="] {
            assert!(!html.contains(outside), "{outside}");
        }
        let addresses = html.matches("http").count();
        assert_eq!(
            addresses,
            html.matches("xmlns=\"http://www.w3.org/2000/svg\"").count()
        );
        assert_eq!(html.matches("<svg").count(), 3);
        // Three tables of results, the tests, the epochs that were kept, and the provenance.
        assert_eq!(html.matches("<caption>").count(), 6);
        assert!(html.contains("<td class=\"edge best\">29.9±0.3</td>"));
    }

    #[test]
    fn everything_from_the_study_is_escaped() {
        let bad = "<b>\"&";
        let mut compared = comparison(vec![test(bad, 0.1, None, 0.01), test("clips", 0.1, None, 0.01)]);
        (compared.first, compared.second) = (bad.to_owned(), bad.to_owned());
        (compared.direction, compared.metric) = (bad.to_owned(), bad.to_owned());
        let study = Study {
            name: bad.to_owned(),
            data: bad.to_owned(),
            methods: vec![method(bad, vec![run(Some(1), 1, 0.2), run(Some(2), 1, 0.2)])],
            comparisons: vec![compared],
            provenance: vec![(bad.to_owned(), bad.to_owned())],
            recipe: bad.to_owned(),
            ..empty()
        };
        let html = html(&study).unwrap();
        assert_well_formed(&html);
        assert!(!html.contains("<b>") && !html.contains("\"\"&"));
        // The eight places above, each at least once.
        assert!(html.matches("&lt;b&gt;&quot;&amp;").count() >= 8);
        let markdown = markdown_report(&study);
        // Only the recipe, which stands in a fence, has it as it is.
        assert_eq!(markdown.matches("<b>").count(), 1);
    }

    #[test]
    fn the_paragraph_says_what_was_run() {
        let expected = "The study “objectives” trained seven methods on soundscape-full (InfoNCE; ListNet audio; ListNet text; \
                        ListNet both; ListNet audio, minmax; ListNet audio, steep; Triplet, hardest negatives). There are \
                        70 runs with five training seeds (1, 2, 3, 4, 5) on two corpora (11, 12).";
        let mut study = large();
        assert_eq!(what_was_run(&study), expected);
        study.methods[3].runs.pop();
        assert!(what_was_run(&study).ends_with(" Not every method has as many runs: from 9 to 10."));
        let nothing =
            "The study “small” trained no methods on soundscapes. There are no runs with no training seeds.";
        assert_eq!(what_was_run(&empty()), nothing);
    }

    #[test]
    fn one_direction_leaves_out_the_other() {
        let mut study = large();
        for (one_direction, drawings) in [(false, 3), (true, 2)] {
            study.one_direction = one_direction;
            assert_eq!(html(&study).unwrap().matches("<svg").count(), drawings);
            let markdown = markdown_report(&study);
            assert_eq!(markdown.matches(".svg)").count(), drawings);
            assert_eq!(markdown.contains("](audio-to-text.svg)"), !one_direction);
        }
    }

    #[test]
    fn the_papers_rows_and_test_are_on_the_page() {
        let study = Study {
            published: Some(Published {
                data: PublishedData::Clotho,
                pretrained: true,
            }),
            one_direction: true,
            methods: vec![method("infonce", vec![run(None, 1, 0.352)])],
            comparisons: vec![comparison(vec![test("queries", 0.01, None, 0.01)])],
            ..empty()
        };
        let html = html(&study).unwrap();
        assert!(html.contains(
            "<tr class=\"paper\"><th scope=\"row\">the paper</th><td class=\"edge\">35.2±0.5</td>"
        ));
        assert!(html.contains(
            "<tr class=\"difference\"><th scope=\"row\">difference</th><td class=\"edge\">+0.0 SD</td>"
        ));
        assert!(html.contains("t(5224) = 2.438, p = 0.0148."));
    }

    #[test]
    fn a_recipe_cannot_close_its_fence() {
        assert_eq!(fence("a = 1"), "```");
        assert_eq!(fence("a = \"````\""), "`````");
    }
}
