//! The suite over the reference transport, where the reference is what is tested least: a case that
//! fails here is usually wrong itself, or core is.

use std::process::ExitCode;

use pgas_core::backend::loopback;
use pgas_testkit::runner::{Suite, over_threads};

fn main() -> ExitCode {
    Suite::new()
        .over("loopback", &[1, 2, 3, 4, 7], |case, n_ranks| {
            over_threads(case, |config| loopback::worlds(n_ranks, config))
        })
        .main()
}
