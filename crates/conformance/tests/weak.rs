//! The suite over the weak network: it is as weak as the contract allows, and no weaker.

use std::process::ExitCode;

use pgas_conformance::runner::{Suite, over_threads};
use pgas_testkit::weak;

fn main() -> ExitCode {
    Suite::new()
        .over("weak", &[1, 3], |case, n_ranks| {
            over_threads(case, |config| weak::worlds(n_ranks, config, 1))
        })
        .main()
}
