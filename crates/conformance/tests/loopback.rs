//! The suite over the reference transport. Here the reference itself is tested least: a failing
//! case is usually wrong itself, or core is. It runs again with the transport's own collectives,
//! and with a transport of short transfers, to test core's side of both.

use std::process::ExitCode;

use pgas_conformance::runner::{Suite, over_threads};
use pgas_core::backend::loopback::{self, Options};

/// Not a divisor of anything, so transfers are cut in the middle of elements and blocks.
const SHORT_TRANSFER: u64 = 1009;

fn main() -> ExitCode {
    let plain = Options::default();
    let collectives = Options::default().with_collectives();
    let short = Options::default().with_max_transfer(SHORT_TRANSFER);
    let kinds = [
        ("loopback", plain, &[1, 2, 3, 4, 7][..]),
        ("loopback_with_collectives", collectives, &[1, 2, 3, 4, 7]),
        ("loopback_of_short_transfers", short, &[2, 3]),
    ];
    let mut suite = Suite::new();
    for (name, options, sizes) in kinds {
        suite = suite.over(name, sizes, move |case, n_ranks| {
            over_threads(case, |config| {
                loopback::worlds_over(&options, n_ranks, config)
            })
        });
    }
    suite.main()
}
