//! Ratings against caption similarity, with the fitted relevance function.

use hark_relevance::RelevanceFunction;
use hark_relevance::fit::BetaFit;
use hark_relevance::ratings::Observation;
use plotters::prelude::*;

use super::Drawn;
use crate::Error;

/// Points per line: fine enough that a curve looks smooth at the drawing's size.
const CURVE_STEPS: usize = 200;
const BINS: usize = 20;

/// Plots ratings against similarity, with their means in bins of similarity, the fitted curve and the paper's, as SVG.
///
/// # Errors
/// [`Error::Plot`] if the fit is no relevance function, or the plotting library fails.
pub fn fit(observations: &[Observation], fit: &BetaFit) -> Result<String, Error> {
    let lowest = observations.iter().map(|o| o.similarity).fold(0.0, f64::min);
    let mut svg = String::new();
    let drawn = fit
        .function()
        .map_err(Into::into)
        .and_then(|fitted| draw(&mut svg, observations, lowest, &fitted));
    drawn.map_err(|source| Error::Plot {
        plot: "the fit",
        source,
    })?;
    Ok(svg)
}

fn draw(svg: &mut String, observations: &[Observation], lowest: f64, fitted: &RelevanceFunction) -> Drawn {
    let area = SVGBackend::with_string(svg, (820, 560)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(54)
        .build_cartesian_2d((lowest - 0.02)..1.02, -0.03..1.03)?;
    chart
        .configure_mesh()
        .x_desc("similarity h")
        .y_desc("rating, relevance g")
        .light_line_style(WHITE)
        .draw()?;
    let points = observations
        .iter()
        .map(|o| Circle::new((o.similarity, o.rating), 2, BLACK.mix(0.08).filled()));
    chart.draw_series(points)?;

    let means = bin_means(observations, lowest);
    chart
        .draw_series(
            means
                .into_iter()
                .map(|(h, mean)| Circle::new((h, mean), 5, BLACK.stroke_width(2))),
        )?
        .label("mean rating")
        .legend(|(x, y)| Circle::new((x + 10, y), 5, BLACK.stroke_width(2)));
    // The paper's curve lies under the fitted one, and is wide enough to be seen where they agree.
    let curves = [
        (
            &RelevanceFunction::default(),
            BLUE.mix(0.35).stroke_width(7),
            "paper",
        ),
        (fitted, RED.stroke_width(2), "fitted"),
    ];
    for (function, style, name) in curves {
        let at = |step: usize| lowest + (1.0 - lowest) * step as f64 / CURVE_STEPS as f64;
        let curve = (0..=CURVE_STEPS)
            .map(at)
            .map(|h| Ok((h, function.apply(h, false)?)));
        let curve = curve.collect::<Result<Vec<_>, hark_relevance::Error>>()?;
        chart
            .draw_series(LineSeries::new(curve, style))?
            .label(format!("{name}: {}", formula(function)))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    area.present()?;
    Ok(())
}

fn formula(function: &RelevanceFunction) -> String {
    match function {
        RelevanceFunction::Logistic { intercept, slope } => {
            format!("1 / (1 + exp({:.2} - {slope:.2} h))", -intercept)
        }
        other => other.to_string(),
    }
}

/// Mean similarity and mean rating of each bin that holds a fair number of ratings.
fn bin_means(observations: &[Observation], lowest: f64) -> Vec<(f64, f64)> {
    let mut bins = [(0_usize, 0.0, 0.0); BINS];
    for o in observations {
        let bin = ((o.similarity - lowest) / (1.0 - lowest) * BINS as f64) as usize;
        let (count, h, rating) = &mut bins[bin.min(BINS - 1)];
        *count += 1;
        *h += o.similarity;
        *rating += o.rating;
    }
    let fair = bins.into_iter().filter(|(count, ..)| *count >= 5);
    fair.map(|(count, h, rating)| (h / count as f64, rating / count as f64))
        .collect()
}
