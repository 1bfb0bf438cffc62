//! Beyond the paper: hot spots on 6 to 1,024 nodes with requests merged and not, operations under
//! way at once, and what the parts that the model has as options change. The guests add to words
//! and need no results.

use pgas_riscv_sim::timed::config::TimedConfig;
use pgas_riscv_sim::workload::Variant;
use pgas_riscv_sim::workload::additions::{self, SPREADS, Spread};

use super::changes::{NONE, OPTIONS};
use super::figures::{small, texts};
use super::plan::Plan;
use super::runs::{Row, percent, shared};
use super::{NODES, Sizes};
use crate::cli::Trouble;
use crate::cli::plots::{self, Series, Titles};
use crate::cli::report::Figure;

/// Words of a node's array: 32 KiB, which the NIC's cache holds.
const N_WORDS: usize = 1 << 12;

/// Operations under way at once: as the paper's text has it, and as many as its simulator allows.
const OUTSTANDING: [u32; 2] = [1, 16];

/// As many as may be in a sweep.
const SWEPT: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// From so many nodes on, each adds a quarter as often to a hot spot: all come to it, one after the
/// other, while the others wait for the end.
const MANY_NODES: usize = 256;

/// Additions on some machine, and the same without any: the difference is what they take.
struct Additions {
    spread: Spread,
    n_nodes: usize,
    outstanding: u32,
    n_each: usize,
    job: usize,
    none: usize,
}

impl Additions {
    fn new(
        plan: &mut Plan,
        spread: Spread,
        (n_nodes, n_each, seed): (usize, usize, u64),
        config: &TimedConfig,
    ) -> Self {
        let mut add = |n_each| {
            let workload =
                shared(move || additions::workload(spread, n_nodes, n_each, N_WORDS, seed));
            plan.add(&workload, Variant::Hardware, Some(config))
        };
        Self {
            spread,
            n_nodes,
            outstanding: config.core.outstanding_remote,
            n_each,
            job: add(n_each),
            none: add(0),
        }
    }

    /// Cycles of one addition, of the node that takes the longest for its own.
    fn cycles(&self, rows: &[Row]) -> f64 {
        let cycles = rows[self.job].cycles.saturating_sub(rows[self.none].cycles);
        percent(cycles, self.n_each as u64) / 100.0
    }
}

/// All runs.
pub(super) struct Beyond {
    /// Each with requests for a line merged, and without.
    merging: Vec<[Additions; 2]>,
    outstanding: Vec<Additions>,
    /// By option and spread.
    options: Vec<(&'static str, Vec<Additions>)>,
}

impl Beyond {
    pub(super) fn new(plan: &mut Plan, sizes: &Sizes) -> Self {
        let (n_each, seed) = (sizes.n_additions, sizes.shape.seed);
        let mut merging = Vec::new();
        for spread in SPREADS {
            for outstanding in OUTSTANDING {
                for &n_nodes in sizes.n_adders {
                    let mut config = TimedConfig::default();
                    config.core.outstanding_remote = outstanding;
                    let is_long = n_nodes >= MANY_NODES && spread != Spread::Everywhere;
                    let n_each = n_each / if is_long { 4 } else { 1 };
                    let size = (n_nodes, n_each, seed);
                    let merged = Additions::new(plan, spread, size, &config);
                    config.nic.mshr_subentries = 1;
                    merging.push([merged, Additions::new(plan, spread, size, &config)]);
                }
            }
        }
        let mut outstanding = Vec::new();
        for spread in SPREADS {
            for n in SWEPT {
                let mut config = TimedConfig::default();
                config.core.outstanding_remote = n;
                outstanding.push(Additions::new(plan, spread, (NODES, n_each, seed), &config));
            }
        }
        let mut options = Vec::new();
        for change in [NONE].iter().chain(&OPTIONS) {
            let mut config = TimedConfig::default();
            config.core.outstanding_remote = OUTSTANDING[1];
            change.make(&mut config);
            let of = |spread| Additions::new(plan, spread, (NODES, n_each, seed), &config);
            options.push((change.name, SPREADS.map(of).into()));
        }
        Self {
            merging,
            outstanding,
            options,
        }
    }

    pub(super) fn figures(&self, rows: &[Row]) -> Result<Vec<Figure>, Trouble> {
        Ok(vec![
            self.hot_spots(rows)?,
            self.under_way(rows)?,
            self.model(rows),
        ])
    }

    fn hot_spots(&self, rows: &[Row]) -> Result<Figure, Trouble> {
        let mut table = Vec::new();
        for [merged, alone] in &self.merging {
            let (row, unmerged) = (&rows[merged.job], &rows[alone.job]);
            table.push(vec![
                merged.spread.name().to_owned(),
                merged.outstanding.to_string(),
                merged.n_nodes.to_string(),
                format!("{:.1}", merged.cycles(rows)),
                format!("{:.1}", alone.cycles(rows)),
                format!("{:.2} %", percent(row.nic_merged, row.nic_requests)),
                format!("{:.2} %", row.miss_percent()),
                format!("{:.2} %", unmerged.miss_percent()),
            ]);
        }
        let mut series = Vec::new();
        for spread in SPREADS {
            for (k, how) in ["merged", "one by one"].into_iter().enumerate() {
                let chosen = self.merging.iter().map(|pair| &pair[k]);
                let chosen =
                    chosen.filter(|it| it.spread == spread && it.outstanding == OUTSTANDING[1]);
                let point = |it: &Additions| (small(it.n_nodes).log2(), it.cycles(rows).log2());
                series.push(Series {
                    name: format!("{}, {how}", spread.name()),
                    points: chosen.map(point).collect(),
                });
            }
        }
        let titles = Titles {
            plot: "Cycles of an addition, 16 under way at once",
            x: "doublings of the nodes: 3 is 8, 10 is 1,024",
            y: "doublings of a cycle",
        };
        Ok(Figure {
            name: "hot-spots",
            title: "Beyond the paper: hot spots, and what merging requests in the MSHRs is worth"
                .to_owned(),
            columns: texts([
                "additions to",
                "under way at once",
                "nodes",
                "cycles of one, merged",
                "one by one",
                "merged",
                "misses",
                "misses, one by one",
            ]),
            rows: table,
            stated: Vec::new(),
            why:
                "Every node makes as many additions, whose results nobody needs. Merged, up to 64 \
                  requests wait for a line together; one by one, an entry of the MSHRs has one, \
                  and the next one waits in the NIC's input until the line is there, and all \
                  behind it. On many nodes a hot spot's own limits show, whatever it merges, times \
                  the nodes: to one word that of its last link, which a request of five flits \
                  takes for as many cycles, and to one node that of its memory, whose bus a line \
                  that is read and written back takes for 13."
                    .to_owned(),
            svg: Some(plots::points(titles, &series, &[], true)?),
        })
    }

    fn under_way(&self, rows: &[Row]) -> Result<Figure, Trouble> {
        let table = self.outstanding.iter().map(|it| {
            let row = &rows[it.job];
            vec![
                it.spread.name().to_owned(),
                it.outstanding.to_string(),
                format!("{:.1}", it.cycles(rows)),
                format!("{:.1} ns", row.latency_ns),
                format!("{:.2} %", percent(row.nic_merged, row.nic_requests)),
            ]
        });
        let series = SPREADS.map(|spread| {
            let chosen = self.outstanding.iter().filter(|it| it.spread == spread);
            let point = |it: &Additions| (f64::from(it.outstanding).log2(), it.cycles(rows));
            Series {
                name: spread.name().to_owned(),
                points: chosen.map(point).collect(),
            }
        });
        let titles = Titles {
            plot: "Cycles of an addition, 6 nodes",
            x: "doublings of the operations under way at once: 6 is 64",
            y: "cycles",
        };
        Ok(Figure {
            name: "outstanding",
            title: "Beyond the paper: atomics that a core may have under way".to_owned(),
            columns: texts([
                "additions to",
                "under way at once",
                "cycles of one",
                "mean round trip",
                "merged",
            ]),
            rows: table.collect(),
            stated: Vec::new(),
            why: "The paper is silent on how many operations a core may have under way. Its \
                  kernels use each result at once, so that there more of them change nothing; here \
                  nobody needs a result."
                .to_owned(),
            svg: Some(plots::points(titles, &series, &[], true)?),
        })
    }

    fn model(&self, rows: &[Row]) -> Figure {
        let table = self.options.iter().map(|(what, spreads)| {
            let cycles = spreads.iter().map(|it| format!("{:.1}", it.cycles(rows)));
            [(*what).to_owned()].into_iter().chain(cycles).collect()
        });
        Figure {
            name: "model",
            title: "Beyond the paper: what the model leaves out unless it is told".to_owned(),
            columns: texts([
                "option",
                "cycles of an addition everywhere",
                "to one node",
                "to one word",
            ]),
            rows: table.collect(),
            stated: Vec::new(),
            why: "Six nodes, 16 additions of each under way at once: where one part is busy the \
                  others wait for it. The paper's kernels, which have one operation under way, are \
                  in the table above."
                .to_owned(),
            svg: None,
        }
    }
}
