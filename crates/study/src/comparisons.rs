//! The tests between methods: a verdict in words for each comparison, and a table of every test.
//!
//! The verdict goes by the paired test over clips, because captions of the same clip are not independent of
//! each other; where there is none, by that over queries. It is significant below 0.05 after Holm's
//! correction. Differences are in points of percent, first method minus second.

use super::escape;
use super::published;
use super::results::{Comparison, Study, Test};
use super::tables::fixed;

const LEVEL: f64 = 0.05;

/// What the columns of [`rows`] hold.
pub const HEADER: [&str; 10] = [
    "Methods",
    "Direction",
    "Metric",
    "Over",
    "Difference (points)",
    "95% interval",
    "t(df)",
    "d_z",
    "p",
    "p (Holm)",
];

/// The tests in Markdown: the verdicts as a list, then the table.
pub fn tests_markdown(study: &Study) -> String {
    if study.comparisons.is_empty() {
        return verdicts_markdown(study);
    }
    format!("{}\n{}", verdicts_markdown(study), table_markdown(study))
}

/// The verdicts as a list in Markdown.
pub(super) fn verdicts_markdown(study: &Study) -> String {
    let sentences = verdicts(study);
    if sentences.is_empty() {
        return format!("{NOTHING}\n");
    }
    let items = sentences
        .iter()
        .map(|sentence| format!("- {}\n", escape::markdown(sentence)));
    items.collect()
}

/// The table of tests in Markdown.
pub(super) fn table_markdown(study: &Study) -> String {
    let mut out = format!("| {} |\n", HEADER.map(escape::markdown).join(" | "));
    out += &format!(
        "|{}{}\n",
        "---|".repeat(TEXTS),
        "--:|".repeat(HEADER.len() - TEXTS)
    );
    for row in rows(study) {
        out += &format!("| {} |\n", row.map(|cell| escape::markdown(&cell)).join(" | "));
    }
    out += &format!("\n{NOTE}\n");
    out
}

/// What is said where there are no tests.
pub(super) const NOTHING: &str = "No methods were compared.";

/// How many of the first columns are words.
pub(super) const TEXTS: usize = 4;

/// How the table of tests is read.
pub const NOTE: &str = "Differences are in points of percent, first method minus second. Every p is two-sided. Intervals are those \
of each test alone; the p after Holm allows for all comparisons of the same kind of test.";

/// Remarks, one sentence for each comparison, and one for what the paper found on the same data.
pub fn verdicts(study: &Study) -> Vec<String> {
    let mut sentences: Vec<String> = study.remarks.clone();
    sentences.extend(study.comparisons.iter().map(verdict));
    if let (Some(table), false) = (study.published, study.comparisons.is_empty()) {
        let test = published::t_test(table);
        sentences.push(format!(
            "The paper, for ListNet audio against InfoNCE (text to audio, mAP@10, over queries): t({}) = {:.3}, {}.",
            test.freedom, test.t, test.p
        ));
    }
    sentences
}

/// What a comparison shows, in one sentence.
pub fn verdict(comparison: &Comparison) -> String {
    let Comparison {
        first,
        second,
        direction,
        metric,
        tests,
    } = comparison;
    let about = format!("{}, {metric}", capitalised(direction));
    let over = |what: &str| tests.iter().find(|test| test.over == what);
    let Some(test) = over("clips").or_else(|| over("queries")) else {
        return format!("{about}: {first} and {second} were not tested over clips or queries.");
    };
    if !(test.difference.is_finite() && test.holm.is_finite()) {
        return format!("{about}: the test between {first} and {second} has no result.");
    }
    let pairs = format!("{} {}", test.pairs, test.over);
    // A single comparison has nothing to be corrected for.
    let corrected = if test.holm.to_bits() == test.p.to_bits() {
        ""
    } else {
        ", Holm"
    };
    let p = format!("{}{corrected}", p_equation(test.holm));
    if test.holm >= LEVEL || test.difference == 0.0 {
        let evidence = evidence(test.difference, test.interval, test.difference, &p);
        return format!(
            "{about}: no significant difference between {first} and {second} ({evidence}; {pairs})."
        );
    }
    // Said as a size: for a worse method the interval is turned round with the difference.
    let (word, size, interval) = if test.difference > 0.0 {
        ("better", test.difference, test.interval)
    } else {
        let turned = test.interval.map(|(low, high)| (-high, -low));
        ("worse", -test.difference, turned)
    };
    let by = in_words(size, size);
    let evidence = within(interval, size).map_or_else(|| p.clone(), |text| format!("{text}; {p}"));
    format!("{about}: {first} is {word} than {second} by {by} points ({evidence}; {pairs}).")
}

fn evidence(difference: f64, interval: Option<(f64, f64)>, scale: f64, p: &str) -> String {
    let mut parts = vec![format!("{} points", in_words(difference, scale))];
    parts.extend(within(interval, scale));
    parts.push(p.to_owned());
    parts.join("; ")
}

fn within(interval: Option<(f64, f64)>, scale: f64) -> Option<String> {
    let (low, high) = interval.filter(|(low, high)| low.is_finite() && high.is_finite())?;
    Some(format!(
        "95% interval {} to {}",
        in_words(low, scale),
        in_words(high, scale)
    ))
}

/// Points with one decimal, or with two where the difference would else be told as 0.0.
fn in_words(fraction: f64, scale: f64) -> String {
    points(fraction, if (100.0 * scale).abs() < 0.1 { 2 } else { 1 })
}

fn points(fraction: f64, decimals: usize) -> String {
    fixed(100.0 * fraction, decimals)
}

/// The table of tests, row by row, as plain text.
pub fn rows(study: &Study) -> Vec<[String; HEADER.len()]> {
    let each = |comparison: &Comparison| -> Vec<_> {
        comparison
            .tests
            .iter()
            .map(|test| row(comparison, test))
            .collect()
    };
    study.comparisons.iter().flat_map(each).collect()
}

fn row(comparison: &Comparison, test: &Test) -> [String; HEADER.len()] {
    let number = |value: f64, decimals: usize| {
        if value.is_nan() {
            "n/a".to_owned()
        } else {
            format!("{value:.decimals$}")
        }
    };
    let dash = || "–".to_owned();
    [
        format!("{} − {}", comparison.first, comparison.second),
        comparison.direction.clone(),
        comparison.metric.clone(),
        format!("{} ({})", test.over, test.pairs),
        points(test.difference, 2),
        test.interval.map_or_else(dash, |(low, high)| {
            format!("{} to {}", points(low, 2), points(high, 2))
        }),
        test.t
            .map_or_else(dash, |(t, freedom)| format!("t({freedom}) = {}", number(t, 3))),
        test.effect.map_or_else(dash, |effect| number(effect, 3)),
        p_value(test.p),
        p_value(test.holm),
    ]
}

/// `0.0148`, `9.5e-7`, `<1e-300`.
pub fn p_value(p: f64) -> String {
    if !p.is_finite() {
        "n/a".to_owned()
    } else if p < 1e-300 {
        "<1e-300".to_owned()
    } else if p < 1e-3 {
        format!("{p:.1e}")
    } else {
        format!("{p:.4}")
    }
}

fn p_equation(p: f64) -> String {
    let value = p_value(p);
    match value.strip_prefix('<') {
        Some(bound) => format!("p < {bound}"),
        None => format!("p = {value}"),
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::super::examples::{comparison, empty, test};
    use super::super::results::{Published, PublishedData};
    use super::*;

    #[test]
    fn p_values_are_written_as_papers_write_them() {
        let cases = [
            (0.0148, "0.0148"),
            (9.5e-7, "9.5e-7"),
            (0.0, "<1e-300"),
            (1e-301, "<1e-300"),
            (2e-300, "2.0e-300"),
            (1.0, "1.0000"),
            (0.00099, "9.9e-4"),
            (0.001, "0.0010"),
            (f64::NAN, "n/a"),
        ];
        for (p, expected) in cases {
            assert_eq!(p_value(p), expected);
        }
        assert_eq!(p_equation(0.0), "p < 1e-300");
    }

    #[test]
    fn verdicts_say_better_worse_or_neither() {
        let clips = |difference, interval, holm| comparison(vec![test("clips", difference, interval, holm)]);
        let cases = [
            (
                clips(0.013, Some((0.005, 0.021)), 0.0012),
                "ListNet audio is better than InfoNCE by 1.3 points (95% interval 0.5 to 2.1; p = 0.0012, Holm; 9 clips).",
            ),
            (
                clips(-0.013, Some((-0.021, -0.005)), 0.0012),
                "ListNet audio is worse than InfoNCE by 1.3 points (95% interval 0.5 to 2.1; p = 0.0012, Holm; 9 clips).",
            ),
            (
                clips(-0.0001, Some((-0.004, 0.003)), 0.05),
                "no significant difference between ListNet audio and InfoNCE (-0.01 points; 95% interval -0.40 to \
                 0.30; p = 0.0500, Holm; 9 clips).",
            ),
            (
                clips(0.013, None, 1e-310),
                "ListNet audio is better than InfoNCE by 1.3 points (p < 1e-300, Holm; 9 clips).",
            ),
            (
                clips(f64::NAN, None, 0.01),
                "the test between ListNet audio and InfoNCE has no result.",
            ),
            (
                comparison(vec![test("seeds", 0.1, None, 0.01)]),
                "ListNet audio and InfoNCE were not tested over clips or queries.",
            ),
        ];
        for (comparison, expected) in cases {
            assert_eq!(verdict(&comparison), format!("Text to audio, mAP@10: {expected}"));
        }
    }

    #[test]
    fn clips_are_believed_before_queries() {
        let queries = test("queries", 0.01, None, 1e-9);
        let clips = test("clips", 0.01, None, 0.2);
        assert!(verdict(&comparison(vec![queries.clone(), clips])).contains("no significant"));
        assert!(verdict(&comparison(vec![queries])).contains("is better"));
    }

    #[test]
    fn the_table_of_tests_is_exact() {
        let mut study = empty();
        study.published = Some(Published {
            data: PublishedData::Clotho,
            pretrained: false,
        });
        let mut permutation = test("permutation over clips", 0.013, None, 0.002);
        (permutation.t, permutation.effect) = (None, None);
        study.comparisons = vec![comparison(vec![
            test("clips", 0.013, Some((0.005, 0.021)), 9.5e-7),
            permutation,
        ])];
        let expected = "\
- Text to audio, mAP@10: ListNet audio is better than InfoNCE by 1.3 points (95% interval 0.5 to 2.1; p = 9.5e-7, Holm; 9 clips).
- The paper, for ListNet audio against InfoNCE (text to audio, mAP@10, over queries): t(5224) = 11.658, p < 0.001.

| Methods | Direction | Metric | Over | Difference (points) | 95% interval | t(df) | d\\_z | p | p (Holm) |
|---|---|---|---|--:|--:|--:|--:|--:|--:|
| ListNet audio − InfoNCE | text to audio | mAP@10 | clips (9) | 1.30 | 0.50 to 2.10 | t(8) = 3.250 | 1.083 | 4.8e-7 | 9.5e-7 |
| ListNet audio − InfoNCE | text to audio | mAP@10 | permutation over clips (9) | 1.30 | – | – | – | 0.0010 | 0.0020 |
";
        let got = tests_markdown(&study);
        assert_eq!(got.strip_suffix(&format!("\n{NOTE}\n")), Some(expected));
        assert_eq!(tests_markdown(&empty()), "No methods were compared.\n");
    }
}
