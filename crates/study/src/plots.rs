//! A study's drawings, as SVG text.
//!
//! In: a study. Out: the learning curves of its methods, and the figures of every run as dots. The same study
//! gives the same bytes. Values that are not finite, or so large that no axis could show them, are not drawn;
//! a study without any gives empty axes that say so.
//!
//! Colours are those of Okabe and Ito without yellow, which is too faint on white: people who see few colours
//! can tell them apart. From the eighth method on they come again, with marks on the lines.

use std::error::Error as StdError;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::escape;

mod curves;
mod dots;
mod fit;

pub use curves::curves;
pub use dots::methods;
pub use fit::fit;

type Drawn<T = ()> = Result<T, Box<dyn StdError + Send + Sync>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// The library places everything on whole units: two for each pixel keep curves smooth.
const SCALE: i32 = 2;
const WIDTH: i32 = 840;
const MARGIN: i32 = 16;
const TEXT: i32 = 13;
const LEGEND_ROW: i32 = 20;
/// Longer names are cut in a drawing; its description has them whole.
const MAX_NAME: usize = 40;
/// No mAP or relative loss that means anything is larger.
const LARGEST: f64 = 1e6;

const COLOURS: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x56, 0xB4, 0xE9),
    RGBColor(0x00, 0x00, 0x00),
];
const GREY: RGBColor = RGBColor(0x59, 0x59, 0x59);
const FAINT: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);

fn drawable(value: f64) -> bool {
    value.abs() <= LARGEST
}

/// An axis that holds all values with a little room, and is never narrower than `least`.
fn axis(values: impl Iterator<Item = f64>, least: f64) -> Range<f64> {
    let (low, high) = values
        .filter(|value| drawable(*value))
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
    if low > high {
        return 0.0..1.0;
    }
    let missing = (least - (high - low)).max(0.0);
    let room = 0.05 * (high - low) + missing / 2.0;
    low - room..high + room
}

/// As many decimals as ticks on such an axis need.
fn decimals(axis: &Range<f64>) -> usize {
    let magnitude = (axis.end - axis.start).log10().floor();
    (1.0 - magnitude).clamp(0.0, 6.0) as usize
}

fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

fn px(pixels: i32) -> i32 {
    pixels * SCALE
}

fn stroke(pixels: f64) -> u32 {
    (pixels * f64::from(SCALE)).round() as u32
}

fn canvas(svg: &mut String, height: i32) -> Drawn<Area<'_>> {
    let size = (px(WIDTH).unsigned_abs(), px(height).unsigned_abs());
    let root = SVGBackend::with_string(svg, size).into_drawing_area();
    root.fill(&WHITE)?;
    Ok(root)
}

fn font(pixels: i32, colour: RGBColor) -> TextStyle<'static> {
    // The library divides sizes by 1.24 when it writes them.
    ("sans-serif", 1.24 * f64::from(px(pixels)))
        .into_font()
        .color(&colour)
}

fn write(area: &Area<'_>, text: &str, at: (i32, i32), side: HPos, colour: RGBColor) -> Drawn {
    let style = font(TEXT, colour).pos(Pos::new(side, VPos::Center));
    area.draw(&Text::new(escape::one_line(text), at, style))?;
    Ok(())
}

fn say_if_empty(area: &Area<'_>, is_empty: bool, what: &str) -> Drawn {
    if is_empty {
        let (width, height) = area.dim_in_pixel();
        write(
            area,
            what,
            (width as i32 / 2, height as i32 / 2),
            HPos::Center,
            GREY,
        )?;
    }
    Ok(())
}

/// In pixels. Fonts are those of the reader: this is the width in a wide one.
fn text_width(text: &str) -> i32 {
    (text.chars().count() as f64 * 0.6 * f64::from(TEXT)).ceil() as i32
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= MAX_NAME {
        return name.to_owned();
    }
    name.chars().take(MAX_NAME - 1).chain(['…']).collect()
}

fn legend_columns(longest: i32) -> i32 {
    ((WIDTH - 2 * MARGIN) / (longest + 50)).max(1)
}

fn legend_height(entries: usize, columns: i32) -> i32 {
    LEGEND_ROW * ((entries as i32 + columns - 1) / columns) + 8
}

/// Where the sign of an entry begins, in units of the drawing.
fn legend_place(at: usize, columns: i32) -> (i32, i32) {
    let (column, row) = (at as i32 % columns, at as i32 / columns);
    let width = (WIDTH - 2 * MARGIN) / columns;
    (px(MARGIN + column * width), px(MARGIN + row * LEGEND_ROW))
}

/// The drawing with a head of our own: in pixels, and with words for those who do not see it.
fn labelled(svg: &str, height: i32, title: &str, description: &str) -> String {
    let body = svg.split_once('>').map_or("", |(_, body)| body);
    let (title, description) = (escape::html(title), escape::html(description));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {} {}\" role=\"img\" \
         aria-label=\"{title}\"><title>{title}</title><desc>{description}</desc>{body}",
        px(WIDTH),
        px(height),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::examples::{empty, large, method, run};
    use super::super::results::{DirectionMetrics, Method, Point, RunFigures, Study};
    use super::super::summary::Direction;
    use super::super::{comparisons, page, tables};
    use super::*;

    fn all(study: &Study) -> [String; 3] {
        [
            curves(study).unwrap(),
            methods(study, Direction::TextToAudio).unwrap(),
            methods(study, Direction::AudioToText).unwrap(),
        ]
    }

    #[test]
    fn drawings_are_the_same_each_time_and_name_every_method() {
        let study = large();
        assert_eq!(all(&study), all(&study));
        for svg in all(&study) {
            assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
            for method in &study.methods {
                let drawn = format!(">\n{}\n</text>", method.title);
                assert!(svg.contains(&drawn), "{} is not drawn", method.title);
            }
        }
    }

    /// Seven methods: as many mean lines in the upper panel and as many validation lines in the lower, seven
    /// bands, and a dot for each of 70 runs.
    #[test]
    fn everything_is_drawn_once() {
        let study = large();
        let [curves, dots, _] = all(&study);
        let thick = curves
            .lines()
            .filter(|l| l.starts_with("<polyline") && l.contains("stroke-width=\"4\""));
        assert_eq!(thick.count(), 14);
        assert_eq!(curves.matches("<polygon").count(), 7);
        // The legend has a dot for each of the two corpora.
        assert_eq!(dots.matches("<circle").count(), 70 + 2);
    }

    #[test]
    fn chance_is_a_line_where_the_axis_reaches_it() {
        let mut study = large();
        let dashes = |study: &Study| {
            methods(study, Direction::TextToAudio)
                .unwrap()
                .matches("stroke=\"#595959\"")
                .count()
        };
        let without = dashes(&study);
        study.chance.0.map = 0.25;
        assert!(dashes(&study) > without + 10);
        assert!(
            methods(&study, Direction::TextToAudio)
                .unwrap()
                .contains("chance 25.0\n")
        );
    }

    #[test]
    fn names_are_escaped_and_long_ones_are_whole_in_the_description() {
        let name = format!("<b>\"&{}", "x".repeat(80));
        let study = Study {
            methods: vec![method(&name, vec![run(None, 1, 0.3)])],
            ..empty()
        };
        for svg in all(&study) {
            assert!(!svg.contains("<b>") && svg.contains("&lt;b&gt;&quot;&amp;x"));
            assert!(svg.contains(&"x".repeat(80)) && svg.contains("x…"));
        }
    }

    #[test]
    fn an_eighth_method_has_marks_because_its_colour_comes_again() {
        let mut study = large();
        assert_eq!(curves(&study).unwrap().matches("<circle").count(), 0);
        let mut eighth = study.methods[0].clone();
        eighth.title = "eighth".to_owned();
        study.methods.push(eighth);
        // Ten marks on each of its two lines of twenty epochs, and one in the legend.
        assert_eq!(curves(&study).unwrap().matches("<circle").count(), 21);
    }

    #[test]
    fn axes_hold_their_values_and_are_never_empty() {
        assert_eq!(axis([].into_iter(), 1.0), 0.0..1.0);
        assert_eq!(axis([f64::NAN, f64::INFINITY, 1e300].into_iter(), 1.0), 0.0..1.0);
        assert_eq!(axis([3.0, 3.0].into_iter(), 1.0), 2.5..3.5);
        assert_eq!(axis([0.0, 20.0].into_iter(), 1.0), -1.0..21.0);
        assert_eq!(
            [0.0..30.0, 0.0..5.0, 0.0..0.5].map(|axis| decimals(&axis)),
            [0, 1, 2]
        );
    }

    /// Any number that can be written, most often a plausible one.
    fn number() -> impl Strategy<Value = f64> {
        prop_oneof![
            4 => 0.0..1.0_f64,
            1 => prop::num::f64::ANY,
            1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, 0.0, -0.0, 1.0, f64::MAX, f64::MIN_POSITIVE]),
        ]
    }

    fn figures() -> impl Strategy<Value = DirectionMetrics> {
        (number(), [number(), number(), number()]).prop_map(|(map, recall)| DirectionMetrics { map, recall })
    }

    fn any_run() -> impl Strategy<Value = RunFigures> {
        let epoch = prop_oneof![4 => 0..6_u64, 1 => any::<u64>()];
        let point =
            (epoch, number(), number(), number()).prop_map(|(epoch, loss, validation_loss, map)| Point {
                epoch,
                loss,
                validation_loss,
                map,
            });
        let curve = prop::collection::vec(point, 0..5);
        let corpus = prop::option::of(0..20_u64);
        (corpus, figures(), figures(), prop::option::of(number()), curve).prop_map(
            |(corpus, text_to_audio, audio_to_text, ndcg, curve)| RunFigures {
                corpus,
                seed: 1,
                best_epoch: 0,
                text_to_audio,
                audio_to_text,
                ndcg,
                ndcg_chance: ndcg,
                curve,
            },
        )
    }

    fn any_study() -> impl Strategy<Value = Study> {
        let runs = prop::collection::vec(any_run(), 0..4);
        let methods = prop::collection::vec((".{0,50}", runs), 0..10);
        (
            methods,
            (figures(), figures(), prop::option::of(number())),
            any::<bool>(),
            ".*",
        )
            .prop_map(|(methods, chance, one_direction, text)| Study {
                name: text.clone(),
                recipe: text,
                methods: methods
                    .into_iter()
                    .map(|(title, runs)| Method {
                        title,
                        ..method("infonce", runs)
                    })
                    .collect(),
                chance,
                remarks: Vec::new(),
                one_direction,
                ..empty()
            })
    }

    proptest! {
        /// Whatever a study holds, every report of it is made, and its drawings stay within their frame.
        #[test]
        fn no_study_is_too_strange(study in any_study()) {
            for svg in all(&study) {
                prop_assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
                prop_assert!(svg.ends_with("</svg>\n"));
            }
            let html = page::html(&study).unwrap();
            page::tests::assert_well_formed(&html);
            prop_assert!(tables::markdown(&study).contains("| Chance |"));
            let latex = tables::latex(&study);
            prop_assert_eq!(latex.matches("begin{tabular}").count(), latex.matches("end{tabular}").count());
            let runs: usize = study.methods.iter().map(|method| method.runs.len()).sum();
            prop_assert_eq!(tables::runs_csv(&study).lines().count(), 1 + runs);
            prop_assert!(comparisons::tests_markdown(&study).contains("No methods"));
            prop_assert!(page::markdown_report(&study).contains("## Recipe"));
        }
    }
}
