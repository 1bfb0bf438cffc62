//! The measurement of rows, by the ranks of a job.

use std::time::Instant;

use pgas_core::{Config, Rank, Statistics, World};
use serde_json::{Value, json};

use crate::floor::Comm;
use crate::{containers, transfers};

/// The prefix of a line with figures.
const MARK: &str = "figures: ";

/// The row in this line of a rank's output, if there is one.
pub(crate) fn row_of(line: &str) -> Option<Value> {
    serde_json::from_str(line.strip_prefix(MARK)?).ok()
}

/// The settings of a rank.
pub(crate) fn settings() -> Config {
    let mut config = Config::from_env().expect("usable settings");
    config.statistics = Statistics::Off;
    config.segment_bytes = Some(512 << 20);
    config
}

/// The two ranks, as handles of this library and of the library below it.
pub(crate) struct Ranks {
    pub(crate) world: World,
    pub(crate) comm: Comm,
    wanted: Vec<String>,
    is_smoke_test: bool,
}

/// Measures all requested rows.
pub(crate) fn measure(world: World, comm: Comm) {
    assert_eq!(world.n_ranks(), 2, "the bench is for two ranks");
    pgas_am::attach(&world).expect("once for a world");
    assert!(!world.is_direct(other(&world)), "the ranks are on one host");
    let words = || std::env::args().skip(1);
    let ranks = Ranks {
        world,
        comm,
        wanted: words().filter(|word| !word.starts_with("--")).collect(),
        is_smoke_test: is_smoke_test(),
    };
    transfers::measure(&ranks);
    containers::measure(&ranks);
    ranks.world.barrier().expect("the other rank lives");
}

/// The other one of the two ranks.
pub(crate) fn other(world: &World) -> Rank {
    Rank::new(1 - world.rank().number())
}

impl Ranks {
    /// Whether a row with this name was requested.
    pub(crate) fn are_asked_for(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|word| name.contains(word.as_str()))
    }

    /// Whether such a row was requested by name.
    pub(crate) fn are_asked_for_by_name(&self, name: &str) -> bool {
        self.wanted.iter().any(|word| name.contains(word.as_str()))
    }

    /// The repetitions of an operation: `n`, or few if the bench only shows that it runs.
    pub(crate) fn times(&self, n: usize) -> usize {
        if self.is_smoke_test { n.min(16) } else { n }
    }

    /// The number of rounds. The first one does not count.
    pub(crate) fn n_rounds(&self) -> usize {
        if self.is_smoke_test { 2 } else { 8 }
    }

    /// Runs `floor` and `ours` on both ranks, in turn. Each gets the number of the round, and does
    /// something `n` times. Rank 0 reports the medians.
    pub(crate) fn compare(
        &self,
        name: &str,
        n: usize,
        mut floor: impl FnMut(usize),
        mut ours: impl FnMut(usize),
    ) {
        if !self.are_asked_for(name) {
            return;
        }
        // The other rank may still need this one, which serves nobody inside of the floor's
        // barrier.
        self.world.barrier().expect("the other rank lives");
        let mut rounds = Vec::new();
        for round in 0..self.n_rounds() {
            let mut time_floor = || {
                self.comm.barrier();
                let start = Instant::now();
                floor(round);
                self.comm.barrier();
                start.elapsed().as_secs_f64()
            };
            let mut time_ours = || {
                self.world.barrier().expect("the other rank lives");
                let start = Instant::now();
                ours(round);
                self.world.barrier().expect("the other rank lives");
                start.elapsed().as_secs_f64()
            };
            let pair = if round % 2 == 0 {
                let floor = time_floor();
                (floor, time_ours())
            } else {
                let ours = time_ours();
                (time_floor(), ours)
            };
            if round > 0 {
                rounds.push(pair);
            }
        }
        if self.world.rank() == Rank::ZERO {
            tell(name, n, &rounds);
        }
    }
}

fn tell(name: &str, n: usize, rounds: &[(f64, f64)]) {
    let median = |of: fn(&(f64, f64)) -> f64| median(rounds.iter().map(of).collect());
    #[expect(clippy::cast_precision_loss, reason = "a count of operations")]
    let each = 1e9 / n as f64;
    tell_row(&json!({
        "name": name,
        "n": n,
        "floor_ns": median(|round| round.0) * each,
        "pgas_ns": median(|round| round.1) * each,
        "ratio": median(|round| round.1 / round.0),
    }));
}

/// The median.
pub(crate) fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Reports a row to the bench.
#[expect(clippy::print_stdout, reason = "the bench reads what is printed")]
pub(crate) fn tell_row(row: &Value) {
    println!("{MARK}{row}");
}

/// Whether the bench only shows that it runs.
pub(crate) fn is_smoke_test() -> bool {
    std::env::args().any(|word| word == "--test")
}
