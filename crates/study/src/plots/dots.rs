//! Dot plots: the mAP@10 of every run, method by method.

use std::ops::Range;

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::super::results::{Method, Study};
use super::super::summary::{Column, Direction, Metric, corpora, corpus_name, summarise};
use super::super::tables::fixed;
use super::{
    Area, COLOURS, Chart, Drawn, FAINT, GREY, MARGIN, TEXT, WIDTH, axis, canvas, colour, decimals, drawable,
    font, labelled, legend_columns, legend_height, legend_place, px, say_if_empty, shortened, stroke,
    text_width, write,
};
use crate::Error;

/// The mAP@10 of every run in one direction: a row for each method, a dot for each run in the colour of its
/// corpus, and above the dots their mean with a bar of one SD to either side. Chance is a dashed line where
/// the axis reaches it.
///
/// # Errors
///
/// [`Error::Plot`].
pub fn methods(study: &Study, direction: Direction) -> Result<String, Error> {
    let layout = Dots::new(study, direction);
    let mut svg = String::new();
    draw_methods(&mut svg, study, &layout).map_err(|source| Error::Plot {
        plot: "the figures of every run",
        source,
    })?;
    let title = format!("mAP@10, {}, of every run of {}", direction.title(), study.name);
    let each = study
        .methods
        .iter()
        .map(|method| format!("{} {}", method.title, layout.figure(method)));
    let description = format!("Mean mAP@10 in percent: {}.", each.collect::<Vec<_>>().join("; "));
    Ok(labelled(&svg, layout.height, &title, &description))
}

/// What a dot plot shows and where.
struct Dots {
    column: Column,
    corpora: Vec<Option<u64>>,
    chance: f64,
    x: Range<f64>,
    names: i32,
    columns: i32,
    legend: i32,
    row: i32,
    height: i32,
}

impl Dots {
    /// From the middle of the bar to the first lane of dots, and from lane to lane.
    const LANE: i32 = 10;
    const HEADING: i32 = 26;
    const AXIS: i32 = 44;
    /// For the means at the right.
    const FIGURES: i32 = 84;

    fn new(study: &Study, direction: Direction) -> Self {
        let column = Column {
            direction,
            metric: Metric::Map,
        };
        let corpora = corpora(study);
        let chance = 100.0 * study.chance_in(direction).map;
        let longest = study
            .methods
            .iter()
            .map(|method| text_width(&shortened(&method.title)))
            .max();
        let mut layout = Self {
            column,
            chance,
            x: 0.0..1.0,
            names: longest.unwrap_or(0) + 12,
            columns: 1,
            legend: 0,
            row: 26 + Self::LANE * corpora.len().max(1) as i32,
            height: 0,
            corpora,
        };
        let values = study.methods.iter().flat_map(|method| layout.values(method));
        layout.x = axis(values, 0.5);
        let entries = layout.legend_entries();
        let longest = entries.iter().map(|entry| text_width(entry)).max();
        layout.columns = legend_columns(longest.unwrap_or(0));
        layout.legend = legend_height(entries.len(), layout.columns);
        let rows = layout.row * study.methods.len().max(1) as i32;
        layout.height = MARGIN + layout.legend + Self::HEADING + rows + Self::AXIS;
        layout
    }

    /// Every run and the ends of the bar, in percent.
    fn values(&self, method: &Method) -> Vec<f64> {
        let runs = method.runs.iter().filter_map(|run| self.column.of(run));
        let mut values: Vec<f64> = runs.map(|value| 100.0 * value).collect();
        if let Some((mean, deviation)) = self.mean(method) {
            values.extend([mean - deviation, mean + deviation]);
        }
        values
    }

    /// Mean and SD in percent, where the mean is a number; no SD is an SD of 0.
    fn mean(&self, method: &Method) -> Option<(f64, f64)> {
        let summary = summarise(method, &self.corpora, self.column)?;
        let mean = 100.0 * summary.mean;
        drawable(mean).then(|| (mean, 100.0 * summary.deviation.unwrap_or(0.0)))
    }

    fn figure(&self, method: &Method) -> String {
        match summarise(method, &self.corpora, self.column) {
            None => "has no runs".to_owned(),
            Some(summary) if !summary.mean.is_finite() => "n/a".to_owned(),
            Some(summary) => match summary.deviation {
                Some(deviation) => format!("{:.1}±{:.1}", 100.0 * summary.mean, 100.0 * deviation),
                None => format!("{:.1}", 100.0 * summary.mean),
            },
        }
    }

    fn legend_entries(&self) -> Vec<String> {
        let mut entries = vec!["mean ± SD".to_owned(), self.chance_entry()];
        if self.corpora.len() > 1 {
            entries.extend(
                self.corpora
                    .iter()
                    .map(|corpus| format!("corpus {}", corpus_name(*corpus))),
            );
        } else {
            entries.push("one run".to_owned());
        }
        entries
    }

    fn chance_entry(&self) -> String {
        if self.chance_is_shown() {
            format!("chance {:.1}", self.chance)
        } else if self.chance.is_finite() {
            format!("chance {:.1} (off the axis)", self.chance)
        } else {
            "chance n/a".to_owned()
        }
    }

    fn chance_is_shown(&self) -> bool {
        self.x.contains(&self.chance)
    }
}

fn draw_methods(svg: &mut String, study: &Study, layout: &Dots) -> Drawn {
    let root = canvas(svg, layout.height)?;
    draw_dots_legend(&root, layout)?;
    let heading = match layout.corpora.len() {
        0 | 1 => format!(
            "mAP@10, {}, in percent: every run",
            layout.column.direction.title()
        ),
        _ => format!(
            "mAP@10, {}, in percent: every run, by corpus; SD within corpora",
            layout.column.direction.title()
        ),
    };
    let top = MARGIN + layout.legend;
    write(&root, &heading, (px(MARGIN), px(top + 10)), HPos::Left, BLACK)?;
    let rows = f64::from(layout.row * study.methods.len().max(1) as i32);
    let decimals = decimals(&layout.x);
    let mut chart = ChartBuilder::on(&root)
        .margin_top(px(top + Dots::HEADING))
        .margin_left(px(MARGIN + layout.names))
        .margin_right(px(Dots::FIGURES))
        .margin_bottom(px(4))
        .x_label_area_size(px(Dots::AXIS - 4))
        .build_cartesian_2d(layout.x.clone(), rows..0.0)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(FAINT.stroke_width(stroke(1.0)))
        .axis_style(GREY.stroke_width(stroke(1.0)))
        .label_style(font(12, GREY))
        .axis_desc_style(font(TEXT, BLACK))
        .x_labels(9)
        .x_label_formatter(&|value| fixed(*value, decimals))
        .x_desc("mAP@10 (percent)")
        .draw()?;
    if layout.chance_is_shown() {
        let line = [(layout.chance, 0.0), (layout.chance, rows)];
        let style = GREY.stroke_width(stroke(1.5));
        chart.draw_series(DashedLineSeries::new(line, px(6), px(4), style))?;
    }
    for (index, method) in study.methods.iter().enumerate() {
        draw_row(&root, &mut chart, layout, method, index)?;
    }
    say_if_empty(&root, study.methods.is_empty(), "no methods")?;
    root.present()?;
    Ok(())
}

fn draw_row(root: &Area<'_>, chart: &mut Chart<'_>, layout: &Dots, method: &Method, index: usize) -> Drawn {
    let top = f64::from(layout.row * index as i32);
    let bar = top + 14.0;
    let line = |from: (f64, f64), to: (f64, f64), width| {
        PathElement::new(vec![from, to], BLACK.stroke_width(stroke(width)))
    };
    if index > 0 {
        let style = FAINT.stroke_width(stroke(1.0));
        chart.draw_series([PathElement::new(
            vec![(layout.x.start, top), (layout.x.end, top)],
            style,
        )])?;
    }
    if let Some((mean, deviation)) = layout.mean(method) {
        let (low, high) = (mean - deviation, mean + deviation);
        let mut lines = vec![line((mean, bar - 7.0), (mean, bar + 7.0), 2.5)];
        if deviation > 0.0 {
            lines.push(line((low, bar), (high, bar), 1.5));
            lines.push(line((low, bar - 4.0), (low, bar + 4.0), 1.5));
            lines.push(line((high, bar - 4.0), (high, bar + 4.0), 1.5));
        }
        chart.draw_series(lines)?;
    }
    for run in &method.runs {
        let lane = layout
            .corpora
            .iter()
            .position(|corpus| *corpus == run.corpus)
            .unwrap_or(0);
        let y = bar + 4.0 + f64::from(Dots::LANE * (lane as i32 + 1));
        let values = layout.column.of(run).map(|value| 100.0 * value);
        let values = values.filter(|value| drawable(*value));
        chart.draw_series(values.map(|value| Circle::new((value, y), px(4), dot(lane))))?;
    }
    let middle = chart
        .backend_coord(&(layout.x.start, top + f64::from(layout.row) / 2.0))
        .1;
    let name = shortened(&method.title);
    write(
        root,
        &name,
        (px(MARGIN + layout.names - 10), middle),
        HPos::Right,
        BLACK,
    )?;
    let figure = layout.figure(method);
    write(
        root,
        &figure,
        (px(WIDTH - Dots::FIGURES + 8), middle),
        HPos::Left,
        BLACK,
    )
}

fn draw_dots_legend(root: &Area<'_>, layout: &Dots) -> Drawn {
    for (at, entry) in layout.legend_entries().iter().enumerate() {
        let (x, y) = legend_place(at, layout.columns);
        let (middle, end) = (x + px(13), x + px(26));
        match at {
            0 => {
                root.draw(&PathElement::new(
                    [(x, y), (end, y)],
                    BLACK.stroke_width(stroke(1.5)),
                ))?;
                let mean = [(middle, y - px(7)), (middle, y + px(7))];
                root.draw(&PathElement::new(mean, BLACK.stroke_width(stroke(2.5))))?;
            }
            1 => {
                let line = [(middle, y - px(8)), (middle, y + px(8))];
                let style = GREY.stroke_width(stroke(1.5));
                root.draw(&DashedPathElement::new(line, px(4), px(2), style))?;
            }
            _ => root.draw(&Circle::new((middle, y), px(4), dot(at - 2)))?,
        }
        write(root, entry, (x + px(34), y), HPos::Left, BLACK)?;
    }
    Ok(())
}

/// Filled for the first seven corpora, hollow for the next seven.
fn dot(lane: usize) -> ShapeStyle {
    if (lane / COLOURS.len()).is_multiple_of(2) {
        colour(lane).mix(0.75).filled()
    } else {
        colour(lane).stroke_width(stroke(1.5))
    }
}
