//! The figures, from what operations take.

use super::runs::{Cost, TimedCost};
use super::{ATOMICS, OPERATIONS, SCALED};
use crate::cli::Trouble;
use crate::cli::plots::{self, Series, Titles};
use crate::cli::report::Figure;

pub(super) fn figures(costs: &[Cost]) -> Result<Vec<Figure>, Trouble> {
    Ok(vec![
        counted(costs),
        timed(costs)?,
        scaling(costs, false)?,
        scaling(costs, true)?,
    ])
}

fn texts(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|&it| it.to_owned()).collect()
}

/// Those of an operation, by nodes and then in the order of [`ATOMICS`].
fn of<'a>(costs: &'a [Cost], operation: &str, is_timed: bool) -> Vec<&'a Cost> {
    let chosen = costs.iter();
    let chosen = chosen.filter(|it| it.operation == operation && it.timed.is_some() == is_timed);
    let mut chosen: Vec<_> = chosen.collect();
    let place = |it: &Cost| ATOMICS.iter().position(|atomics| *atomics == it.atomics);
    chosen.sort_by_key(|it| (it.nodes, place(it)));
    chosen
}

fn head(it: &Cost) -> Vec<String> {
    let Cost {
        operation,
        atomics,
        nodes,
        ..
    } = it;
    vec![
        (*operation).to_owned(),
        (*atomics).to_owned(),
        nodes.to_string(),
    ]
}

fn row(it: &Cost, figures: &[f64]) -> Vec<String> {
    let figures = figures.iter().map(|figure| format!("{figure:.2}"));
    head(it).into_iter().chain(figures).collect()
}

fn counted(costs: &[Cost]) -> Figure {
    let all = OPERATIONS.iter().flat_map(|it| of(costs, it, false));
    let rows = all.map(|it| {
        let figures = [
            it.instructions,
            it.remote_loads,
            it.remote_stores,
            it.remote_atomics,
            it.local_atomics,
        ];
        row(it, &figures)
    });
    Figure {
        name: "counted",
        title: "What an operation takes, counted without a clock".to_owned(),
        columns: texts(&[
            "operation",
            "atomics by",
            "nodes",
            "instructions",
            "remote loads",
            "remote stores",
            "remote atomics",
            "local atomics",
        ]),
        rows: rows.collect(),
        stated: Vec::new(),
        why: "Nodes that wait sleep, so that what they execute is work. Queues lie on the first \
              node, to which all others go; all else is spread over the nodes, so that of n nodes' \
              operations the n-th part is local, whose atomics the processor does itself where it \
              may."
            .to_owned(),
        svg: None,
    }
}

fn timed(costs: &[Cost]) -> Result<Figure, Trouble> {
    let all = || OPERATIONS.iter().flat_map(|it| of(costs, it, true));
    let rows = all().filter_map(|it| {
        let timed = it.timed?;
        let figures = [
            timed.cycles,
            timed.packets,
            timed.nic_requests,
            timed.nic_misses,
            timed.merged,
            timed.l1_misses,
            timed.l2_misses,
        ];
        Some(row(it, &figures))
    });
    let most = all().map(|it| it.nodes).max().unwrap_or(0);
    let series = ATOMICS.map(|atomics| {
        let chosen = all().filter(|it| it.nodes == most && it.atomics == atomics);
        Series {
            name: atomics.to_owned(),
            points: chosen.filter_map(cycles).collect(),
        }
    });
    let plot = format!("Cycles of an operation, {most} nodes");
    let titles = Titles {
        plot: &plot,
        x: "",
        y: "cycles",
    };
    Ok(Figure {
        name: "timed",
        title: "What an operation takes on the timed machine".to_owned(),
        columns: texts(&[
            "operation",
            "atomics by",
            "nodes",
            "cycles",
            "packets",
            "NIC requests",
            "NIC misses",
            "merged in MSHRs",
            "first-level misses",
            "second-level misses",
        ]),
        rows: rows.collect(),
        stated: Vec::new(),
        why: "Nodes look again and again while they wait. Packets count requests and answers. \
              Cycles are those of the node that takes the longest, with the barrier behind its \
              operations."
            .to_owned(),
        svg: Some(plots::bars(titles, &texts(&OPERATIONS), &series)?),
    })
}

fn cycles(it: &Cost) -> Option<f64> {
    it.timed.map(|TimedCost { cycles, .. }| cycles)
}

/// Programs whose nodes all do as much: with more nodes, what takes one of them longer?
fn scaling(costs: &[Cost], is_timed: bool) -> Result<Figure, Trouble> {
    let what = if is_timed { "cycles" } else { "instructions" };
    let figure = |it: &Cost| {
        if is_timed {
            cycles(it).unwrap_or(0.0)
        } else {
            it.instructions
        }
    };
    let mut rows = Vec::new();
    let mut series = Vec::new();
    for operation in SCALED {
        for atomics in &ATOMICS[..2] {
            let chosen = of(costs, operation, is_timed).into_iter();
            let chosen: Vec<_> = chosen.filter(|it| it.atomics == *atomics).collect();
            rows.extend(chosen.iter().map(|it| row(it, &[figure(it)])));
            let points = chosen.iter().map(|it| (doublings(it.nodes), figure(it)));
            series.push(Series {
                name: format!("{operation}, {atomics}"),
                points: points.collect(),
            });
        }
    }
    let titles = Titles {
        plot: &format!("Weak scaling: {what} of an operation"),
        x: "doublings of the nodes: 1 is 2, 10 is 1,024",
        y: what,
    };
    Ok(Figure {
        name: if is_timed { "scaling-timed" } else { "scaling" },
        title: format!("Weak scaling: {what} of an operation"),
        columns: texts(&["program", "atomics by", "nodes", what]),
        rows,
        stated: Vec::new(),
        why: "Every node does as many operations, whatever the number of nodes: a level line \
              scales. `histogram` adds to random words of all nodes, `insert` puts new keys into a \
              hash map, and of `sort` an operation is a key, which goes to the node of its range \
              by a distributor and is sorted there."
            .to_owned(),
        svg: Some(plots::points(titles, &series, &[], true)?),
    })
}

#[expect(clippy::cast_precision_loss, reason = "a number of nodes")]
fn doublings(n: usize) -> f64 {
    (n as f64).log2()
}
