//! What is executed: atomics, remote stores, and the instructions that hardware saves.

use super::{least, mean, mean_of_calls, most, reduction_of, series, small, stated, texts};
use crate::cli::Trouble;
use crate::cli::paper::plan::{Compared, Experiments};
use crate::cli::paper::runs::{Row, name, percent};
use crate::cli::paper::{BASELINE, CALLS, SOFTWARE, Sizes};
use crate::cli::plots::{self, Series, Titles};
use crate::cli::report::Figure;

/// The share of atomics among instructions, in per cent.
fn share(row: &Row) -> f64 {
    percent(row.atomics, row.instructions)
}

/// And among loads, stores and atomics.
fn share_of_accesses(row: &Row) -> f64 {
    percent(row.atomics, row.memory_accesses)
}

fn atomics_table(experiments: &Experiments, rows: &[Row]) -> Vec<Vec<String>> {
    let kernels = experiments.gap.iter().zip(&experiments.alone);
    let line = |(it, alone): (&Compared, &usize)| {
        let alone = &rows[*alone];
        vec![
            it.name.clone(),
            alone.atomics.to_string(),
            alone.instructions.to_string(),
            format!("{:.2} %", share(alone)),
            format!("{:.2} %", share(&rows[it.hardware])),
            format!("{:.2} %", share_of_accesses(alone)),
        ]
    };
    kernels.map(line).collect()
}

pub(super) fn atomics(experiments: &Experiments, rows: &[Row]) -> Result<Figure, Trouble> {
    let alone = || experiments.alone.iter().map(|job| &rows[*job]);
    let shares: Vec<f64> = alone().map(share).collect();
    let spread = experiments.gap.iter().map(|it| share(&rows[it.hardware]));
    let spread: Vec<f64> = spread.collect();
    let accesses: Vec<f64> = alone().map(share_of_accesses).collect();
    let all = shares.iter().chain(&spread).chain(&accesses);
    let band: Vec<f64> = all.copied().collect();
    let short = |it: &Compared| {
        it.name
            .replace(" Kronecker", " K")
            .replace(" uniform", " u")
    };
    let groups: Vec<_> = experiments.gap.iter().map(short).collect();
    let titles = Titles {
        plot: "Atomics among instructions (K Kronecker, u uniform)",
        x: "",
        y: "%",
    };
    let series = [Series {
        name: String::new(),
        points: shares.clone(),
    }];
    Ok(Figure {
        name: "figure-1",
        title: "Figure 1: atomics among the instructions of GAP kernels".to_owned(),
        columns: texts([
            "kernel and graph",
            "atomics",
            "instructions",
            "share",
            "share on 6 nodes, which wait",
            "share of loads, stores and atomics",
        ]),
        rows: atomics_table(experiments, rows),
        stated: vec![stated("average", 17.46, mean(&shares), &band, "%")],
        why: "The kernels are ours, since GAP's are not distributed: vertices push to their \
              neighbours, an atomic an edge, in a loop of 10 to 15 instructions, which bounds the \
              share. GAP's own programs, counted instruction by instruction, have 0.01 to 2.42 %. \
              The paper does not say whose kernels it counted. Counts are of one node, which waits \
              for nobody; on six nodes what they execute while they wait at barriers is counted as \
              well. Of memory accesses alone atomics are several times as many. The band is from \
              the least to the most of all three."
            .to_owned(),
        svg: Some(plots::bars(titles, &groups, &series)?),
    })
}

pub(super) fn stores(
    experiments: &Experiments,
    rows: &[Row],
    sizes: &Sizes,
) -> Result<Figure, Trouble> {
    let mut table = Vec::new();
    let mut ours = Vec::new();
    for &(n_nodes, job) in &experiments.stores {
        // The barriers' stores, by which the last node lets all go, belong to nobody's data.
        let n_stores = rows[job].remote_stores - n_nodes as u64;
        let share = percent(n_stores, sizes.n_stores as u64);
        let expected = 100.0 - percent(1, n_nodes as u64);
        table.push(vec![
            n_nodes.to_string(),
            n_stores.to_string(),
            format!("{share:.2} %"),
            format!("{expected:.2} %"),
        ]);
        ours.push(share);
    }
    let titles = Titles {
        plot: "Remote stores of a[b[i]] = c[i]",
        x: "nodes",
        y: "%",
    };
    let nodes = experiments.stores.iter();
    let points = nodes.zip(&ours).map(|((n, _), share)| (small(*n), *share));
    let series = [Series {
        name: "remote".to_owned(),
        points: points.collect(),
    }];
    let last = ours.last().copied().unwrap_or(0.0);
    let sampled = [last - 0.5, last + 0.5];
    Ok(Figure {
        name: "figure-2",
        title: "Figure 2: remote requests of a scatter with random indices".to_owned(),
        columns: texts(["nodes", "remote stores", "share", "1 - 1/n"]),
        rows: table,
        stated: vec![stated("64 nodes", 98.44, last, &sampled, "%")],
        why: "The paper's curve is 1 - 1/n; ours is drawn at random and lies about it as a sample \
              does: the band is half a per cent to either side."
            .to_owned(),
        svg: Some(plots::points(titles, &series, &[], true)?),
    })
}

/// What the instruction saves of the initiator's path of an operation, in per cent.
fn saved_of_path(experiments: &Experiments, rows: &[Row], software: usize) -> f64 {
    let first = &experiments.circustent[0];
    let (ours, theirs) = (&rows[first.hardware], &rows[first.software[software]]);
    100.0 - percent(ours.path, theirs.path)
}

fn reduction_table(experiments: &Experiments, rows: &[Row]) -> Vec<Vec<String>> {
    let first = &experiments.circustent[0];
    let path = |software: usize| rows[first.software[software]].path.to_string();
    let mut table = Vec::new();
    for (k, variant) in SOFTWARE.iter().enumerate() {
        let per_kernel = experiments.circustent.iter();
        let reductions: Vec<f64> = per_kernel.map(|it| reduction_of(it, k, rows)).collect();
        let saved = [
            saved_of_path(experiments, rows, k),
            mean(&reductions),
            least(&reductions),
            most(&reductions),
        ];
        let head = [name(*variant).to_owned(), path(k)];
        let saved = saved.map(|saved| format!("{saved:.2} %"));
        table.push(head.into_iter().chain(saved).collect());
    }
    let within_calls = mean_of_calls(experiments, rows, reduction_of);
    for (k, saved) in within_calls.into_iter().enumerate() {
        let ((call, software), (_, job)) = (CALLS[k], first.calls[k]);
        table.push(vec![
            format!("{}, beside {}", name(call), name(software)),
            rows[job].path.to_string(),
            String::new(),
            format!("{saved:.2} %"),
            String::new(),
            String::new(),
        ]);
    }
    table
}

pub(super) fn reduction(experiments: &Experiments, rows: &[Row]) -> Result<Figure, Trouble> {
    let band = |k: usize| {
        let saved = experiments.circustent.iter();
        mean(
            &saved
                .map(|it| reduction_of(it, k, rows))
                .collect::<Vec<_>>(),
        )
    };
    let mut band: Vec<f64> = (0..SOFTWARE.len()).map(band).collect();
    let groups: Vec<_> = experiments
        .circustent
        .iter()
        .map(|it| it.name.clone())
        .collect();
    let groups: Vec<_> = groups
        .iter()
        .map(|it| it.replace(" add", "+").replace(" cas", "="))
        .collect();
    let series = series(experiments, rows, reduction_of);
    let titles = Titles {
        plot: "Instructions saved (+ additions, = compare-and-swap)",
        x: "",
        y: "%",
    };
    let ours = band[BASELINE];
    band.extend((0..SOFTWARE.len()).map(|k| saved_of_path(experiments, rows, k)));
    band.extend(mean_of_calls(experiments, rows, reduction_of));
    Ok(Figure {
        name: "figure-8",
        title: "Figures 3 and 8: instructions of a remote operation".to_owned(),
        columns: texts([
            "software path",
            "instructions of an operation (hardware: 2)",
            "saved of an operation",
            "saved of a kernel, average",
            "least",
            "most",
        ]),
        rows: reduction_table(experiments, rows),
        stated: vec![
            stated("average, padded to 354", 89.71, ours, &band, "%"),
            stated("xBGAS at IPDPS 2021, average", 69.26, ours, &band, "%"),
        ],
        why: "Kernels' counts contain what the initiator executes while it polls for the \
              completion, and the kernel's own loop around the operation. 89.71 % is close to what \
              comes out when the first call of a cold Open MPI (2,803 instructions) is compared \
              with an unoptimised xbrtime call (282), and not when instructions of steady loops \
              are; 71 % when OpenSHMEM's steady 354 are compared with xbrtime's optimised 102. We \
              compare the bare two instructions, and in the last rows the same within calls of \
              these lengths, and of a put's (126 beside 218): so the paper's average and that of \
              2021 lie in the band."
            .to_owned(),
        svg: Some(plots::bars(titles, &groups, &series)?),
    })
}
