//! The figures, from what the runs counted, by subject.

mod caches;
mod instructions;
mod time;

use super::plan::{Compared, Experiments};
use super::runs::{Row, name, percent};
use super::{CALLS, SOFTWARE, Sizes};
use crate::cli::Trouble;
use crate::cli::plots::Series;
use crate::cli::report::{Figure, Stated};

pub(super) fn figures(
    experiments: &Experiments,
    rows: &[Row],
    sizes: &Sizes,
) -> Result<Vec<Figure>, Trouble> {
    let mut figures = vec![
        instructions::atomics(experiments, rows)?,
        instructions::stores(experiments, rows, sizes)?,
        instructions::reduction(experiments, rows)?,
        time::gain(experiments, rows)?,
        caches::scatter(sizes)?,
        caches::misses(experiments, rows, sizes)?,
        time::latency(experiments, rows)?,
        time::sensitivity(experiments, rows),
    ];
    figures.extend(experiments.beyond.figures(rows)?);
    Ok(figures)
}

#[expect(clippy::cast_precision_loss, reason = "a handful of numbers")]
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

pub(super) fn texts<const N: usize>(columns: [&str; N]) -> Vec<String> {
    columns.map(str::to_owned).into()
}

fn stated(what: &str, paper: f64, ours: f64, band: &[f64], unit: &'static str) -> Stated {
    Stated {
        what: what.to_owned(),
        paper,
        ours,
        least: least(band).min(ours),
        most: most(band).max(ours),
        unit,
    }
}

/// The share of the time that hardware saves, in per cent.
fn gain_of(it: &Compared, software: usize, rows: &[Row]) -> f64 {
    100.0 - percent(rows[it.hardware].cycles, rows[it.software[software]].cycles)
}

fn reduction_of(it: &Compared, software: usize, rows: &[Row]) -> f64 {
    let (ours, theirs) = (&rows[it.hardware], &rows[it.software[software]]);
    100.0 - percent(ours.instructions, theirs.instructions)
}

/// The mean over kernels of what the hardware saves within a call, beside software as long as that
/// of [`CALLS`].
fn mean_of_calls(
    experiments: &Experiments,
    rows: &[Row],
    of: impl Fn(&Compared, usize, &[Row]) -> f64,
) -> [f64; CALLS.len()] {
    std::array::from_fn(|k| {
        let saved = experiments.circustent.iter().map(|it| {
            let (hardware, software) = it.calls[k];
            let called = Compared {
                name: String::new(),
                hardware,
                software: vec![software],
                calls: Vec::new(),
            };
            of(&called, 0, rows)
        });
        mean(&saved.collect::<Vec<_>>())
    })
}

#[expect(clippy::cast_precision_loss, reason = "numbers of nodes and of steps")]
pub(super) const fn small(n: usize) -> f64 {
    n as f64
}

/// Some figure of each kernel of CircusTent, a series a software path.
fn series(
    experiments: &Experiments,
    rows: &[Row],
    of: impl Fn(&Compared, usize, &[Row]) -> f64,
) -> Vec<Series<f64>> {
    let one = |(k, variant): (usize, &pgas_riscv_sim::workload::Variant)| Series {
        name: name(*variant).to_owned(),
        points: experiments
            .circustent
            .iter()
            .map(|it| of(it, k, rows))
            .collect(),
    };
    SOFTWARE.iter().enumerate().map(one).collect()
}
