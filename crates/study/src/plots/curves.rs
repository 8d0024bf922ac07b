//! Learning curves: validation mAP@10, and losses relative to their first epoch.

use std::collections::BTreeMap;
use std::ops::Range;

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::super::results::{Method, Point, Study};
use super::super::tables::fixed;
use super::{
    Area, COLOURS, Chart, Drawn, FAINT, GREY, MARGIN, TEXT, axis, canvas, colour, decimals, drawable, font,
    labelled, legend_columns, legend_height, legend_place, px, say_if_empty, shortened, stroke, text_width,
    write,
};
use crate::Error;

/// The height of one of the two panels.
const PANEL: i32 = 320;
/// How many marks a line has at most.
const MARKS: usize = 12;

/// The learning curves. Above, mAP@10 (text to audio) on the validation split by epoch: for each method the
/// mean over the runs that reached the epoch, in a band from the lowest to the highest run. Below, training
/// loss (dashed) and validation loss (solid), each run relative to its own first epoch: losses of different
/// objectives have different units, and only their course can be compared.
///
/// # Errors
///
/// [`Error::Plot`].
pub fn curves(study: &Study) -> Result<String, Error> {
    let longest = study
        .methods
        .iter()
        .map(legend_name)
        .map(|name| text_width(&name))
        .max();
    let columns = legend_columns(longest.unwrap_or(0));
    let legend = legend_height(study.methods.len(), columns);
    let height = MARGIN + legend + 2 * PANEL;
    let mut svg = String::new();
    draw_curves(&mut svg, study, (columns, legend, height)).map_err(|source| Error::Plot {
        plot: "the learning curves",
        source,
    })?;
    let title = format!("Learning curves of {}", study.name);
    Ok(labelled(&svg, height, &title, &curves_description(study)))
}

fn draw_curves(svg: &mut String, study: &Study, (columns, legend, height): (i32, i32, i32)) -> Drawn {
    let root = canvas(svg, height)?;
    for (at, method) in study.methods.iter().enumerate() {
        let (x, y) = legend_place(at, columns);
        let line = colour(at).stroke_width(stroke(2.5));
        root.draw(&PathElement::new([(x, y), (x + px(26), y)], line))?;
        mark(&root, at, (x + px(13), y))?;
        write(&root, &legend_name(method), (x + px(34), y), HPos::Left, BLACK)?;
    }
    let (_, below) = root.split_vertically(px(MARGIN + legend));
    let (above, below) = below.split_vertically(px(PANEL));
    draw_maps(&above, study)?;
    draw_losses(&below, study)?;
    root.present()?;
    Ok(())
}

fn draw_maps(area: &Area<'_>, study: &Study) -> Drawn {
    let series: Vec<Vec<At>> = study
        .methods
        .iter()
        .map(|method| over_runs(method, |_, point| 100.0 * point.map))
        .collect();
    let shown = series.iter().flatten().flat_map(|at| [at.low, at.high]);
    let y = axis(shown, 1.0);
    let heading =
        "Validation mAP@10, text to audio, in percent (line: mean over runs; band: lowest to highest run)";
    let mut chart = epochs_chart(area, heading, epochs(study), y)?;
    for (index, series) in series.iter().enumerate() {
        draw_band(&mut chart, series, index)?;
    }
    for (index, series) in series.iter().enumerate() {
        draw_mean(area, &mut chart, series, index, false)?;
    }
    say_if_empty(area, series.iter().all(Vec::is_empty), "no curves")
}

fn draw_losses(area: &Area<'_>, study: &Study) -> Drawn {
    type Loss = fn(&Point) -> f64;
    let relative = |loss: Loss| -> Vec<Vec<At>> {
        let of = |method| over_runs(method, |first: &Point, point: &Point| loss(point) / loss(first));
        study.methods.iter().map(of).collect()
    };
    let training = relative(|point| point.loss);
    let validation = relative(|point| point.validation_loss);
    let shown = training.iter().chain(&validation).flatten().map(|at| at.mean);
    let y = axis(shown, 0.1);
    let heading = "Loss relative to the first epoch, mean over runs (solid: validation; dashed: training)";
    let mut chart = epochs_chart(area, heading, epochs(study), y)?;
    for (index, (training, validation)) in training.iter().zip(&validation).enumerate() {
        draw_mean(area, &mut chart, training, index, true)?;
        draw_mean(area, &mut chart, validation, index, false)?;
    }
    say_if_empty(
        area,
        training.iter().chain(&validation).all(Vec::is_empty),
        "no curves",
    )
}

/// What a curve shows at an epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
struct At {
    epoch: f64,
    mean: f64,
    low: f64,
    high: f64,
}

/// The mean and the extremes over a method's runs of a value, which is made from a run's first point and one
/// of its points.
fn over_runs(method: &Method, value: impl Fn(&Point, &Point) -> f64) -> Vec<At> {
    let mut epochs: BTreeMap<u64, (usize, At)> = BTreeMap::new();
    for run in &method.runs {
        let Some(first) = run.curve.iter().min_by_key(|point| point.epoch) else {
            continue;
        };
        for point in &run.curve {
            let (epoch, value) = (point.epoch as f64, value(first, point));
            if !drawable(value) {
                continue;
            }
            let nothing = At {
                epoch,
                mean: 0.0,
                low: f64::INFINITY,
                high: f64::NEG_INFINITY,
            };
            let (count, at) = epochs.entry(point.epoch).or_insert((0, nothing));
            *count += 1;
            // The sum, until all runs are in.
            at.mean += value;
            at.low = at.low.min(value);
            at.high = at.high.max(value);
        }
    }
    let mean = |(count, at): (usize, At)| At {
        mean: at.mean / count as f64,
        ..at
    };
    epochs.into_values().map(mean).collect()
}

/// From the first to the last epoch of all curves.
fn epochs(study: &Study) -> Range<f64> {
    let runs = study.methods.iter().flat_map(|method| &method.runs);
    let epochs = runs.flat_map(|run| &run.curve).map(|point| point.epoch);
    let (low, high) = epochs.fold((u64::MAX, 0), |(low, high), epoch| {
        (low.min(epoch), high.max(epoch))
    });
    match (low, high) {
        (low, high) if low > high => 0.5..1.5,
        // Beyond 2^53 neighbouring epochs are the same number, and an axis needs two.
        (low, high) if low == high => (low as f64) * 0.99 - 0.5..(high as f64) * 1.01 + 0.5,
        (low, high) => low as f64..high as f64,
    }
}

fn epochs_chart<'a>(area: &Area<'a>, heading: &str, x: Range<f64>, y: Range<f64>) -> Drawn<Chart<'a>> {
    write(area, heading, (px(MARGIN), px(14)), HPos::Left, BLACK)?;
    let ticks = (x.end - x.start).min(11.0) as usize + 1;
    let decimals = decimals(&y);
    let mut chart = ChartBuilder::on(area)
        .margin_top(px(30))
        .margin_right(px(MARGIN + 8))
        .margin_left(px(MARGIN))
        .margin_bottom(px(6))
        .x_label_area_size(px(40))
        .y_label_area_size(px(48))
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(FAINT.stroke_width(stroke(1.0)))
        .axis_style(GREY.stroke_width(stroke(1.0)))
        .label_style(font(12, GREY))
        .axis_desc_style(font(TEXT, BLACK))
        .x_labels(ticks)
        .y_labels(7)
        .x_label_formatter(&|epoch| whole(*epoch))
        .y_label_formatter(&|value| fixed(*value, decimals))
        .x_desc("epoch")
        .draw()?;
    Ok(chart)
}

/// Epochs are whole: a tick between two of them stays without a number.
fn whole(value: f64) -> String {
    if (value - value.round()).abs() < 1e-6 {
        format!("{value:.0}")
    } else {
        String::new()
    }
}

fn draw_band(chart: &mut Chart<'_>, series: &[At], index: usize) -> Drawn {
    if series.iter().all(|at| at.low >= at.high) || series.len() < 2 {
        return Ok(());
    }
    let upper = series.iter().map(|at| (at.epoch, at.high));
    let lower = series.iter().rev().map(|at| (at.epoch, at.low));
    let outline: Vec<_> = upper.chain(lower).collect();
    chart.draw_series([Polygon::new(outline, colour(index).mix(0.13))])?;
    Ok(())
}

fn draw_mean(area: &Area<'_>, chart: &mut Chart<'_>, series: &[At], index: usize, dashed: bool) -> Drawn {
    let points: Vec<_> = series.iter().map(|at| (at.epoch, at.mean)).collect();
    let style = colour(index).stroke_width(stroke(if dashed { 1.5 } else { 2.0 }));
    if let [alone] = points[..] {
        // A line through one point would not be seen.
        let style = if dashed {
            colour(index).stroke_width(stroke(1.5))
        } else {
            colour(index).filled()
        };
        chart.draw_series([Circle::new(alone, px(4), style)])?;
    } else if dashed {
        chart.draw_series(DashedLineSeries::new(points.iter().copied(), px(6), px(4), style))?;
    } else {
        chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
        let every = points.len().div_ceil(MARKS).max(1);
        for point in points.iter().skip(every / 2).step_by(every) {
            // The chart knows its place in the whole drawing, the area counts from its own corner.
            let (x, y) = chart.backend_coord(point);
            let (left, top) = area.get_base_pixel();
            mark(area, index, (x - left, y - top))?;
        }
    }
    Ok(())
}

/// The mark of a method: none for the first seven, a shape for each further seven.
fn mark(area: &Area<'_>, index: usize, at: (i32, i32)) -> Drawn {
    let style = colour(index);
    match index / COLOURS.len() {
        0 => {}
        1 => area.draw(&Circle::new(at, px(3), style.filled()))?,
        2 => area.draw(&TriangleMarker::new(at, px(4), style.filled()))?,
        _ => area.draw(&Cross::new(at, px(3), style.stroke_width(stroke(1.5))))?,
    }
    Ok(())
}

fn curves_description(study: &Study) -> String {
    let last = |method: &Method| {
        let series = over_runs(method, |_, point| 100.0 * point.map);
        match series.last() {
            Some(at) => format!("{} {:.1} at epoch {}", method.title, at.mean, at.epoch),
            None => format!("{} has no curve", method.title),
        }
    };
    let each: Vec<_> = study.methods.iter().map(last).collect();
    format!(
        "Mean validation mAP@10, text to audio, in percent: {}.",
        each.join("; ")
    )
}

fn legend_name(method: &Method) -> String {
    let name = shortened(&method.title);
    let drawn = method.runs.iter().any(|run| !run.curve.is_empty());
    if drawn { name } else { format!("{name} (no curve)") }
}
