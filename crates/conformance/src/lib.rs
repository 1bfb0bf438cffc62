//! The conformance suite for all backends, its sequential models, and its runner.
//!
//! A case is a function that every rank of a job runs. It checks a promise of the library by the
//! public interface only, so that one suite serves threads, processes, real networks and the
//! [reference transport](pgas_core::backend::loopback). A rank that finds an error panics or
//! returns it. The waits of the others then fail, so none hangs.
//!
//! A backend's test, `harness = false`, is a [`runner::Suite`]:
//!
//! ```no_run
//! use pgas_core::backend::loopback;
//! use pgas_conformance::runner::{Suite, over_threads};
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
//! If ranks are processes, [`Suite::over_jobs`](runner::Suite::over_jobs) starts the test's own
//! binary as each rank. Such a process [`serve`]s instead of building a suite.

mod cases;
mod jobs;
mod model;
pub mod runner;
mod support;

pub use cases::SUITE;
pub use jobs::{serve, serve_with};

use std::time::Duration;

use pgas_core::{Config, Result, Statistics, World};

/// The size of each rank's segment in the suite's jobs, in bytes.
pub const SEGMENT_BYTES: u64 = 16 << 20;

/// The time limit of a wait in a case. It is generous, since many ranks share few processors.
pub const WAIT_LIMIT: Duration = Duration::from_secs(40);

/// One claim about the library, checked by all ranks of a job together.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The claim.
    pub name: &'static str,
    /// The smallest job in which it has a meaning.
    pub min_ranks: u32,
    /// Whether collectives compare their arguments across ranks (`PGAS_CHECK=1`).
    pub check: bool,
    /// Whether the case needs a new world: it registers handlers, counts the content of the heap,
    /// or leaves an error behind.
    pub alone: bool,
    /// The code of each rank.
    pub run: fn(&World) -> Result<()>,
}

impl Case {
    /// The settings of `base` with the additional settings of the case, which take precedence.
    #[must_use]
    pub fn config(&self, mut base: Config) -> Config {
        base.segment_bytes = Some(SEGMENT_BYTES);
        base.statistics = Statistics::PerPeer;
        base.check = Some(self.check);
        base.timeout = Some(WAIT_LIMIT);
        base
    }
}

/// The case with this name.
#[must_use]
pub fn case_named(name: &str) -> Option<&'static Case> {
    SUITE.iter().find(|case| case.name == name)
}
