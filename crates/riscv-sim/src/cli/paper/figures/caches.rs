//! Where requests go, and what the NIC's cache has of it.

use pgas_riscv_sim::timed::config::LinePolicy;
use pgas_riscv_sim::workload::circustent::{self, Atomic, Kernel, Shape};

use super::{mean, stated, texts};
use crate::cli::Trouble;
use crate::cli::paper::Sizes;
use crate::cli::paper::plan::{Cached, Experiments};
use crate::cli::paper::runs::Row;
use crate::cli::plots::{self, Series, Titles};
use crate::cli::report::Figure;

pub(super) fn scatter(sizes: &Sizes) -> Result<Figure, Trouble> {
    let shape = Shape {
        n_iterations: 10_000,
        ..sizes.shape
    };
    // Two of SCATTER's three operations a round go to ARRAY, and the second one of these to a
    // random word.
    let words = circustent::sequence(Kernel::Scatter, Atomic::Cas, &shape, shape.n_nodes - 1);
    let words: Vec<u64> = words.into_iter().skip(1).step_by(2).collect();
    let lines: std::collections::BTreeSet<_> = words.iter().map(|word| word / 8).collect();
    let same = words
        .windows(2)
        .filter(|pair| pair[0] / 8 == pair[1] / 8)
        .count();
    let points = (0_u32..).zip(&words).map(|(k, &word)| {
        let offset = u32::try_from(8 * word).unwrap_or(u32::MAX);
        (f64::from(k), f64::from(offset) / 1024.0)
    });
    let series = [Series {
        name: String::new(),
        points: points.step_by(5).collect(),
    }];
    let titles = Titles {
        plot: "Compare-and-swap to node 0 in SCATTER (every fifth)",
        x: "request",
        y: "KiB from the array's start",
    };
    let facts = [
        ("requests", words.len()),
        ("lines of 64 bytes among them", lines.len()),
        ("requests to the line of the one before", same),
    ];
    Ok(Figure {
        name: "figure-9",
        title: "Figure 9: where 10,000 requests of SCATTER go".to_owned(),
        columns: texts(["", ""]),
        rows: facts
            .map(|(what, n)| vec![what.to_owned(), n.to_string()])
            .into(),
        stated: Vec::new(),
        why: "The paper shows that the addresses are sparse, and has no number. The sequence is \
              that of the sequential run, which a node's requests follow."
            .to_owned(),
        svg: Some(plots::points(titles, &series, &[], false)?),
    })
}

pub(super) fn misses(
    experiments: &Experiments,
    rows: &[Row],
    sizes: &Sizes,
) -> Result<Figure, Trouble> {
    let all = || experiments.caches.iter();
    let misses = |it: &Cached| it.share(rows, |row| row.nic_misses);
    let table = all().map(|it| {
        vec![
            it.kernel.name().to_owned(),
            policy_name(it.policy).to_owned(),
            format!("{} KiB", it.n_words * 8 / 1024),
            format!("{:.2} %", misses(it)),
            format!("{:.2} %", it.share(rows, |row| row.nic_merged)),
        ]
    });
    let of = |regular: bool, policy: LinePolicy| -> Vec<f64> {
        let chosen = all().filter(|it| it.kernel.is_regular() == regular && it.policy == policy);
        chosen.map(misses).collect()
    };
    let both = |regular| {
        let retained = of(regular, LinePolicy::Retain);
        let mut band = of(regular, LinePolicy::InvalidateWhenIdle);
        let ours = mean(&band);
        band.extend(retained);
        (ours, band)
    };
    let ((irregular, wide), (regular, narrow)) = (both(false), both(true));
    let groups = sizes.kernels.iter().map(|it| it.name().to_owned());
    let groups: Vec<_> = groups.collect();
    let policies = [LinePolicy::InvalidateWhenIdle, LinePolicy::Retain];
    let series = policies.map(|policy| {
        let chosen = all().filter(|it| it.policy == policy && it.n_words == 1 << 16);
        Series {
            name: policy_name(policy).to_owned(),
            points: chosen.map(misses).collect(),
        }
    });
    let titles = Titles {
        plot: "Misses of the NIC's cache, arrays of 512 KiB",
        x: "",
        y: "%",
    };
    Ok(Figure {
        name: "figure-10",
        title: "Figure 10: misses of the NIC's cache".to_owned(),
        columns: texts(["kernel", "idle lines", "array", "misses", "merged"]),
        rows: table.collect(),
        stated: vec![
            stated("irregular, average", 85.05, irregular, &wide, "%"),
            stated("regular, average", 0.11, regular, &narrow, "%"),
        ],
        why: "Here is what the paper's text says: idle lines are invalidated, and a core has one \
              operation under way, so that hardly anything is found. 0.11 % needs lines that are \
              kept, and an array that fits the cache and is walked often: one pass over words of 8 \
              bytes in lines of 64 misses 12.5 %, and merging 64 requests a line 1.56 %. Requests \
              are those of the rounds alone; a line that is kept is missed once, and that is the \
              less of all the longer a run is. The band is from the least to the most of kernels, \
              policies and sizes of arrays."
            .to_owned(),
        svg: Some(plots::bars(titles, &groups, &series)?),
    })
}

const fn policy_name(policy: LinePolicy) -> &'static str {
    match policy {
        LinePolicy::InvalidateWhenIdle => "invalidated",
        LinePolicy::Retain => "kept",
    }
}
