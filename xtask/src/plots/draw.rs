//! Pictures as SVG texts.

use anyhow::{Result, anyhow, ensure};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::tables::{Line, Range};

const WIDTH: u32 = 900;
/// The column of the rows' names.
const NAMES: u32 = 345;
/// Above the plot and below it.
const TITLE: u32 = 40;
const AXIS: u32 = 34;

/// The height of a row of keys, and of what is below them.
const KEYS: u32 = 16;
const BELOW_KEYS: u32 = 6;

const COLOURS: [RGBColor; 6] = [
    RGBColor(31, 119, 180),
    RGBColor(214, 109, 14),
    RGBColor(44, 140, 44),
    RGBColor(120, 90, 170),
    RGBColor(150, 60, 60),
    RGBColor(90, 90, 90),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A series of bars: its name, and a range for each row that has one.
pub(super) type Bars = (&'static str, Vec<Option<Range>>);

fn drawn(height: u32, draw: impl FnOnce(&Area<'_>) -> Result<()>) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE).map_err(told)?;
        draw(&area)?;
        area.present().map_err(told)?;
    }
    Ok(svg + "\n")
}

/// What the crate of the plots reports is not for other threads.
fn told(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("{error}")
}

/// Horizontal bars from 1 to each ratio, by their logarithms; what several runs gave is a thin
/// line.
pub(super) fn ratios(title: &str, names: &[String], series: &[Bars]) -> Result<String> {
    let all = || series.iter().flat_map(|(_, bars)| bars.iter().flatten());
    let least = all().fold(0.8, |least, range| f64::min(least, range.least));
    let most = all().fold(1.25, |most, range| f64::max(most, range.most));
    let (left, right) = (least * 0.85, most * 1.6);
    let steps = (-5..=5).map(|power| 2_f64.powi(power));
    let steps = steps.filter(|step| (left..right).contains(step)).collect();
    let x = (left..right).log_scale().with_key_points(steps);
    let picture = Picture {
        title,
        names,
        keys: series.iter().map(|(name, _)| *name).collect(),
    };
    let bars: Vec<Vec<Option<Range>>> = series.iter().map(|(_, bars)| bars.clone()).collect();
    picture.bars(x, "ratio to the floor, by logarithms", (1.0, &bars))
}

/// Horizontal bars from 0 to each number.
pub(super) fn values(
    title: &str,
    unit: &str,
    names: &[String],
    values: &[Range],
) -> Result<String> {
    let most = values
        .iter()
        .fold(0.0, |most, range| f64::max(most, range.most));
    let picture = Picture {
        title,
        names,
        keys: vec![""],
    };
    let bars = vec![values.iter().copied().map(Some).collect()];
    picture.bars(0.0..most * 1.15, unit, (0.0, &bars))
}

/// A plot with a row for each name, and a colour for each key.
struct Picture<'a> {
    title: &'a str,
    names: &'a [String],
    keys: Vec<&'a str>,
}

impl Picture<'_> {
    fn row_height(&self) -> u32 {
        8 + 14 * small(self.keys.len())
    }

    fn bars<X>(
        &self,
        x: X,
        unit: &str,
        (from, bars): (f64, &[Vec<Option<Range>>]),
    ) -> Result<String>
    where
        X: plotters::coord::ranged1d::AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
    {
        let n_rows = small(self.names.len());
        let keys = self.keys_height();
        let height = TITLE + keys + n_rows * self.row_height() + AXIS;
        drawn(height, |area| {
            let mut chart = ChartBuilder::on(area)
                .margin_top(TITLE + keys)
                .margin_right(10)
                .set_label_area_size(LabelAreaPosition::Left, NAMES)
                .set_label_area_size(LabelAreaPosition::Bottom, AXIS)
                .build_cartesian_2d(x, f64::from(n_rows)..0.0)
                .map_err(told)?;
            let mut mesh = chart.configure_mesh();
            mesh.disable_y_mesh().y_labels(0).x_desc(unit).x_labels(8);
            mesh.x_label_formatter(&|x| format!("{x}"));
            mesh.light_line_style(WHITE.mix(0.0));
            mesh.draw().map_err(told)?;
            let share = 0.8 / f64::from(small(self.keys.len()));
            for (k, (bars, colour)) in bars.iter().zip(COLOURS).enumerate() {
                for (row, range) in bars.iter().enumerate() {
                    let Some(range) = range else { continue };
                    let top = f64::from(small(row)) + 0.1 + share * f64::from(small(k));
                    let middle = (range.least * range.most).sqrt();
                    let bar = [(from, top + 0.04), (middle, top + share - 0.04)];
                    let bar = Rectangle::new(bar, colour.filled());
                    chart.draw_series([bar]).map_err(told)?;
                    let center = top + share / 2.0;
                    let ends = [(range.least, center), (range.most, center)];
                    let line = PathElement::new(ends, BLACK.stroke_width(1));
                    chart.draw_series([line]).map_err(told)?;
                    let place = (range.most.max(middle).max(from), center);
                    let (x, y) = chart.backend_coord(&place);
                    area.draw(&Text::new(shown(*range), (x + 5, y), font(11, HPos::Left)))
                        .map_err(told)?;
                }
            }
            let level = [(from, 0.0), (from, f64::from(n_rows))];
            let level = PathElement::new(level, BLACK.stroke_width(1));
            chart.draw_series([level]).map_err(told)?;
            for (row, name) in self.names.iter().enumerate() {
                let (_, y) = chart.backend_coord(&(from.max(0.9), f64::from(small(row)) + 0.5));
                let place = (i32::try_from(NAMES)? - 8, y);
                area.draw(&Text::new(name.as_str(), place, font(12, HPos::Right)))
                    .map_err(told)?;
            }
            self.heading(area)
        })
    }

    /// The title, and which colour is what.
    fn heading(&self, area: &Area<'_>) -> Result<()> {
        area.draw(&Text::new(self.title, (12, 20), font(16, HPos::Left)))
            .map_err(told)?;
        if self.keys.len() < 2 {
            return Ok(());
        }
        ensure!(
            self.keys.len() <= COLOURS.len(),
            "{} has more rows than there are colours",
            self.title
        );
        for ((key, (x, y)), colour) in self.keys.iter().zip(self.places()).zip(COLOURS) {
            area.draw(&Rectangle::new(
                [(x, y - 6), (x + 12, y + 6)],
                colour.filled(),
            ))
            .map_err(told)?;
            area.draw(&Text::new(*key, (x + 18, y), font(12, HPos::Left)))
                .map_err(told)?;
        }
        Ok(())
    }

    /// Where the keys stand: in as many rows as they need.
    fn places(&self) -> Vec<(i32, i32)> {
        let (mut x, mut y) = (12, 42);
        let place = |key: &&str| {
            let width = 40 + 7 * pixels(small(key.len()));
            if x > 12 && x + width > pixels(WIDTH) {
                (x, y) = (12, y + pixels(KEYS));
            }
            let place = (x, y);
            x += width;
            place
        };
        self.keys.iter().map(place).collect()
    }

    fn keys_height(&self) -> u32 {
        if self.keys.len() < 2 {
            return 0;
        }
        let mut rows: Vec<i32> = self.places().iter().map(|(_, y)| *y).collect();
        rows.dedup();
        KEYS * small(rows.len()) + BELOW_KEYS
    }
}

/// Lines over a logarithmic axis.
pub(super) fn lines(title: &str, (x_name, y_name): (&str, &str), lines: &[Line]) -> Result<String> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let right = points().fold(2.0, |most, point| f64::max(most, point.0));
    let left = points().fold(right, |least, point| f64::min(least, point.0));
    let top = points().fold(0.0, |most, point| f64::max(most, point.1));
    let bottom = points().fold(top, |least, point| f64::min(least, point.1));
    let picture = Picture {
        title,
        names: &[],
        keys: lines.iter().map(|(name, _)| name.as_str()).collect(),
    };
    let xs: Vec<f64> = lines
        .iter()
        .flat_map(|(_, points)| points)
        .map(|p| p.0)
        .collect();
    drawn(318 + picture.keys_height(), |area| {
        let mut builder = ChartBuilder::on(area);
        builder
            .margin_top(TITLE + picture.keys_height())
            .margin_right(40)
            .margin_left(10);
        builder.set_label_area_size(LabelAreaPosition::Left, 70);
        builder.set_label_area_size(LabelAreaPosition::Bottom, AXIS + 10);
        let x = (left..right)
            .log_scale()
            .base(2.0)
            .with_key_points(xs.clone());
        let y = (bottom * 0.8..top * 1.25).log_scale();
        let mut chart = builder.build_cartesian_2d(x, y).map_err(told)?;
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(x_name)
            .y_desc(y_name)
            .x_label_formatter(&|x| amount(*x));
        mesh.y_label_formatter(&|y| amount(*y))
            .light_line_style(WHITE.mix(0.0));
        mesh.draw().map_err(told)?;
        for ((_, points), colour) in lines.iter().zip(COLOURS) {
            let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2));
            chart.draw_series(line.point_size(3)).map_err(told)?;
        }
        picture.heading(area)
    })
}

/// A power of two in few letters, or the number.
fn amount(number: f64) -> String {
    let (kibi, mebi) = (1024.0, 1024.0 * 1024.0);
    if number >= mebi {
        format!("{} Mi", number / mebi)
    } else if number >= kibi && number % kibi == 0.0 {
        format!("{} Ki", number / kibi)
    } else {
        format!("{}", (number * 1000.0).round() / 1000.0)
    }
}

fn shown(Range { least, most }: Range) -> String {
    // As the tables do.
    let text = |number: f64| {
        if number < 2.0 {
            format!("{number:.2}")
        } else {
            format!("{number}")
        }
    };
    let (least, most) = (text(least), text(most));
    if least == most {
        least
    } else {
        format!("{least} to {most}")
    }
}

fn font(size: i32, side: HPos) -> TextStyle<'static> {
    let style = ("sans-serif", size).into_font().color(&BLACK);
    style.pos(Pos::new(side, VPos::Center))
}

/// A length as places count it.
fn pixels(n: u32) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
