//! A rank of a job: the rows, and how one is measured.

use std::time::Instant;

use pgas_core::{Config, Rank, Statistics, World};
use serde_json::{Value, json};

use crate::floor::Comm;
use crate::{containers, transfers};

/// What a line of figures begins with.
const MARK: &str = "figures: ";

/// The row that a rank told by this line, if it is one.
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

/// The two ranks, as this library and as the one below it know them.
pub(crate) struct Ranks {
    pub(crate) world: World,
    pub(crate) comm: Comm,
    wanted: Vec<String>,
    is_smoke_test: bool,
}

/// Measures all rows that are asked for.
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
    /// Whether a row with this name is asked for.
    pub(crate) fn are_asked_for(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|word| name.contains(word.as_str()))
    }

    /// Whether such a row is, and not just all of them.
    pub(crate) fn are_asked_for_by_name(&self, name: &str) -> bool {
        self.wanted.iter().any(|word| name.contains(word.as_str()))
    }

    /// How often something is done that is done `n` times unless the bench only shows that it runs.
    pub(crate) fn times(&self, n: usize) -> usize {
        if self.is_smoke_test { n.min(16) } else { n }
    }

    /// How many rounds there are, the first of which counts for nothing.
    pub(crate) fn n_rounds(&self) -> usize {
        if self.is_smoke_test { 2 } else { 8 }
    }

    /// Runs `floor` and `ours` on both ranks, in turn; each is given the number of the round, and
    /// does something `n` times. Rank 0 tells the medians.
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
        // The other rank may still need this one, which serves nobody inside the floor's barrier.
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

/// The one in the middle.
pub(crate) fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Tells the bench a row.
#[expect(clippy::print_stdout, reason = "the bench reads what is printed")]
pub(crate) fn tell_row(row: &Value) {
    println!("{MARK}{row}");
}

/// Whether the bench only shows that it runs.
pub(crate) fn is_smoke_test() -> bool {
    std::env::args().any(|word| word == "--test")
}
