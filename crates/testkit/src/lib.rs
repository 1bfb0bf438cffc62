//! The conformance suite that every backend passes, and what its tests need: sequential models, a
//! runner, deadlines, bounds on how soon a job ends, random numbers that are the same in every run, jobs of processes, and the ways in
//! which a rank fails.
//!
//! A case is a function that every rank of a job runs. It says what the library promises, in terms
//! of the public interface only, so that one suite serves threads, processes, real networks and the
//! [reference transport](pgas_core::backend::loopback). A rank that finds something wrong panics or
//! returns an error; the others' waits then fail, and none hangs.
//!
//! A backend's test, `harness = false`, is a [`runner::Suite`]:
//!
//! ```no_run
//! use pgas_core::backend::loopback;
//! use pgas_testkit::runner::{Suite, over_threads};
//!
//! fn main() -> std::process::ExitCode {
//!     Suite::new()
//!         .over("loopback", &[1, 2, 3, 4, 7], |case, n_ranks| {
//!             over_threads(case, |config| loopback::worlds(n_ranks, config))
//!         })
//!         .main()
//! }
//! ```
//!
//! Where ranks are processes, the closure starts the test's own binary as each rank, and such a
//! process runs the [`case_named`] by its arguments instead of building a suite.

mod cases;
pub mod conversation;
mod deadline;
mod example;
pub mod extremes;
pub mod fault;
pub mod faulty;
pub mod job;
pub mod kills;
pub mod linearizability;
pub mod model;
mod random;
pub mod runner;
mod setting;
pub mod soon;
mod support;
pub mod weak;

pub use cases::SUITE;
pub use deadline::Deadline;
pub use example::{example, examples_are_optimized};
pub use pgas_core::process::panic_text;
pub use random::{rng, rng_of};
pub use setting::setting;

use std::time::Duration;

use pgas_core::{Config, Result, Statistics, World};

/// The size of each rank's segment in the suite's jobs, in bytes.
pub const SEGMENT_BYTES: u64 = 16 << 20;

/// How long a wait of a case may take. Generous: many ranks share few processors.
pub const WAIT_LIMIT: Duration = Duration::from_secs(40);

/// One claim about the library, checked by all ranks of a job together.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The claim.
    pub name: &'static str,
    /// The smallest job in which it means something.
    pub min_ranks: u32,
    /// Whether collectives compare their arguments across ranks (`PGAS_CHECK=1`).
    pub check: bool,
    /// Whether the case needs a world in which nothing has happened: it registers handlers, counts
    /// what the heap holds, or leaves an error behind.
    pub alone: bool,
    /// What each rank does.
    pub run: fn(&World) -> Result<()>,
}

impl Case {
    /// The settings that the case needs, in addition to those of `base`: where its own say something,
    /// they win.
    #[must_use]
    pub fn config(&self, mut base: Config) -> Config {
        base.segment_bytes = Some(SEGMENT_BYTES);
        base.statistics = Statistics::PerPeer;
        base.check = self.check;
        base.timeout = Some(WAIT_LIMIT);
        base
    }
}

/// The case with this name.
#[must_use]
pub fn case_named(name: &str) -> Option<&'static Case> {
    SUITE.iter().find(|case| case.name == name)
}
