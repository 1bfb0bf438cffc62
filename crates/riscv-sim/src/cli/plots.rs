//! Plots as SVG texts.

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::cli::Trouble;

/// The drawing area, in pixels.
const SIZE: (u32, u32) = (860, 420);

const COLOURS: [RGBColor; 6] = [
    RGBColor(31, 119, 180),
    RGBColor(214, 109, 14),
    RGBColor(44, 140, 44),
    RGBColor(190, 40, 40),
    RGBColor(120, 90, 170),
    RGBColor(90, 90, 90),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// What a plot is called, and its axes.
#[derive(Clone, Copy)]
pub(super) struct Titles<'a> {
    pub(super) plot: &'a str,
    pub(super) x: &'a str,
    pub(super) y: &'a str,
}

/// A named row of points or bars.
pub(super) struct Series<P> {
    pub(super) name: String,
    pub(super) points: Vec<P>,
}

fn most(values: impl Iterator<Item = f64>) -> f64 {
    let most = values.fold(0.0, f64::max);
    if most > 0.0 { most * 1.08 } else { 1.0 }
}

fn drawn(draw: impl FnOnce(&Area<'_>) -> Result<(), Trouble>) -> Result<String, Trouble> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        draw(&area)?;
        area.present()?;
    }
    Ok(svg)
}

/// Bars in groups, one series a colour.
pub(super) fn bars(
    titles: Titles<'_>,
    groups: &[String],
    series: &[Series<f64>],
) -> Result<String, Trouble> {
    let top = most(series.iter().flat_map(|it| it.points.iter().copied()));
    // Above the bars there is room for their names.
    let top = if series.len() > 1 { 1.45 * top } else { top };
    drawn(|area| {
        let n = count(groups.len());
        let mut chart = ChartBuilder::on(area)
            .caption(titles.plot, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(30)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..n, -0.07 * top..top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(0)
            .x_desc(titles.x)
            .y_desc(titles.y)
            .draw()?;
        let width = 0.8 / count(series.len());
        for (k, it) in series.iter().enumerate() {
            let colour = COLOURS[k % COLOURS.len()];
            let bar = |(group, value): (usize, &f64)| {
                let left = count(group) + 0.1 + width * count(k);
                Rectangle::new([(left, 0.0), (left + width, *value)], colour.filled())
            };
            chart
                .draw_series(it.points.iter().enumerate().map(bar))?
                .label(it.name.as_str())
                .legend(move |(x, y)| {
                    Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled())
                });
        }
        let label = |(group, name): (usize, &String)| {
            let place = (count(group) + 0.1, -0.02 * top);
            Text::new(name.clone(), place, ("sans-serif", 11))
        };
        chart.draw_series(groups.iter().enumerate().map(label))?;
        if series.len() > 1 {
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperRight)
                .background_style(WHITE.mix(0.85))
                .border_style(BLACK)
                .draw()?;
        }
        Ok(())
    })
}

/// Lines through points, or points alone; and level lines with their names.
pub(super) fn points(
    titles: Titles<'_>,
    series: &[Series<(f64, f64)>],
    levels: &[(&str, f64)],
    joined: bool,
) -> Result<String, Trouble> {
    let all = || series.iter().flat_map(|it| it.points.iter());
    let right = most(all().map(|point| point.0));
    let levels_top = levels.iter().map(|level| level.1);
    let top = most(all().map(|point| point.1).chain(levels_top));
    drawn(|area| {
        let mut chart = ChartBuilder::on(area)
            .caption(titles.plot, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..right, 0.0..top)?;
        chart
            .configure_mesh()
            .x_desc(titles.x)
            .y_desc(titles.y)
            .draw()?;
        for (k, it) in series.iter().enumerate() {
            let colour = COLOURS[k % COLOURS.len()];
            let radius = if joined { 3 } else { 1 };
            let dots = it.points.iter();
            chart.draw_series(dots.map(|at| Circle::new(*at, radius, colour.filled())))?;
            if joined {
                let line = LineSeries::new(it.points.iter().copied(), &colour);
                chart
                    .draw_series(line)?
                    .label(it.name.as_str())
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], colour));
            }
        }
        for (name, level) in levels {
            let ends = [(0.0, *level), (right, *level)];
            chart.draw_series(LineSeries::new(ends, &BLACK.mix(0.5)))?;
            let text = Text::new(
                (*name).to_owned(),
                (right * 0.78, *level),
                ("sans-serif", 11),
            );
            chart.draw_series([text])?;
        }
        if joined {
            chart
                .configure_series_labels()
                .background_style(WHITE.mix(0.85))
                .border_style(BLACK)
                .draw()?;
        }
        Ok(())
    })
}

#[expect(clippy::cast_precision_loss, reason = "a handful of bars")]
const fn count(n: usize) -> f64 {
    n as f64
}
