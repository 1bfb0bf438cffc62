//! The conformance suite over libfabric: over TCP, over its shared memory, over a provider that
//! demands what network cards demand, and with the direct path.

mod strict;

use std::process::{Command, ExitCode};

use pgas_conformance::runner::Suite;
use pgas_conformance::{Case, serve};
use pgas_core::Config;
use pgas_testkit::setting;

/// A way to run the cases.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Way {
    name: &'static str,
    n_ranks: u32,
    /// One in so many cases runs, unless all are asked for.
    share: usize,
    settings: &'static [(&'static str, &'static str)],
    /// What the names of the cases contain, one of these.
    about: &'static [&'static str],
}

/// All cases.
const ALL: &[&str] = &[""];
/// Cases on atomics.
const ATOMICS: &[&str] = &[
    "atomic",
    "concurrent",
    "exchange",
    "integers",
    "own_words",
    "swap",
];
/// Cases on what uses atomics: signals, locks and containers. Over TCP the cases above take long.
#[rustfmt::skip]
const USERS: &[&str] = &[
    "elements", "filter", "flag", "items", "keys", "lock", "map", "neighbouring", "queue", "sets",
    "signal", "swap", "values",
];

const TCP: &[(&str, &str)] = &[("PGAS_DIRECT", "0"), ("PGAS_OFI_PROVIDER", "tcp;ofi_rxm")];
const SHM: &[(&str, &str)] = &[("PGAS_DIRECT", "0"), ("PGAS_OFI_PROVIDER", "shm")];
const STRICT: &[(&str, &str)] = &[("PGAS_DIRECT", "0"), ("FI_STRICT_AGAIN", "3")];
/// With atomics by the provider.
const TCP_ATOMICS: &[(&str, &str)] = &[TCP[0], TCP[1], ("PGAS_OFI_ATOMICS", "provider")];
const SHM_ATOMICS: &[(&str, &str)] = &[SHM[0], SHM[1], ("PGAS_OFI_ATOMICS", "provider")];
/// With compare-and-swap alone, in which other atomics are.
const STRICT_SWAPS: &[(&str, &str)] = &[
    ("PGAS_DIRECT", "0"),
    ("PGAS_OFI_ATOMICS", "provider"),
    ("FI_STRICT_ATOMICS", "2"),
    ("FI_STRICT_AGAIN", "5"),
];
/// Without receives of many messages, which all others have.
const STRICT_ONE: &[(&str, &str)] = &[("PGAS_DIRECT", "0"), ("FI_STRICT_MANY", "0")];

/// The share of cases with a job of their own is smaller by this factor, since the start of a job
/// takes longer than a case.
const ALONE: usize = 4;

/// With two ranks over TCP and over shared memory, each way runs the cases that the other one
/// leaves out.
#[rustfmt::skip]
const WAYS: &[Way] = &[
    Way { name: "tcp", n_ranks: 1, share: 8, settings: TCP, about: ALL },
    Way { name: "tcp", n_ranks: 2, share: 2, settings: TCP, about: ALL },
    Way { name: "tcp", n_ranks: 3, share: 8, settings: TCP, about: ALL },
    Way { name: "tcp", n_ranks: 4, share: 16, settings: TCP, about: ALL },
    Way { name: "tcp", n_ranks: 7, share: 32, settings: TCP, about: ALL },
    Way { name: "shm", n_ranks: 3, share: 32, settings: SHM, about: ALL },
    Way { name: "shm", n_ranks: 2, share: 2, settings: SHM, about: ALL },
    Way { name: "shm", n_ranks: 1, share: 64, settings: SHM, about: ALL },
    Way { name: "shm", n_ranks: 4, share: 64, settings: SHM, about: ALL },
    Way { name: "shm", n_ranks: 7, share: 64, settings: SHM, about: ALL },
    Way { name: "direct", n_ranks: 3, share: 16, settings: &[], about: ALL },
    Way { name: strict::STRICT, n_ranks: 2, share: 16, settings: STRICT, about: ALL },
    Way { name: strict::STRICT, n_ranks: 3, share: 32, settings: STRICT_ONE, about: ALL },
    Way { name: "tcp_atomics", n_ranks: 2, share: 4, settings: TCP_ATOMICS, about: USERS },
    Way { name: "tcp_atomics", n_ranks: 3, share: 16, settings: TCP_ATOMICS, about: USERS },
    Way { name: "shm_atomics", n_ranks: 2, share: 3, settings: SHM_ATOMICS, about: ATOMICS },
    Way { name: "shm_atomics", n_ranks: 3, share: 16, settings: SHM_ATOMICS, about: ATOMICS },
    Way { name: "strict_atomics", n_ranks: 2, share: 16, settings: STRICT_SWAPS, about: USERS },
];

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(RANK) {
        let settings = Config::from_env().expect("the launcher's settings");
        serve(&pgas_ofi::init(&settings).expect("a rank of the job"));
        return ExitCode::SUCCESS;
    }
    let mut suite = Suite::new().one_by_one();
    for (shift, way) in WAYS.iter().enumerate() {
        let share_of = |case: &Case| match (is_all(), case.alone) {
            (true, _) => 1,
            (false, false) => way.share,
            (false, true) => ALONE * way.share,
        };
        let is_chosen = |i: usize, case: &Case| {
            let is_about = way.about.iter().any(|what| case.name.contains(what));
            is_about && (i + shift).is_multiple_of(share_of(case))
        };
        suite = suite.over_jobs(way.name, way.n_ranks, is_chosen, || ranks(*way));
    }
    suite.main()
}

/// Whether tests that take long are to run, too.
fn is_all() -> bool {
    setting("PGAS_TEST_ALL", 0) != 0
}

/// The argument by which the binary runs as a rank.
const RANK: &str = "--rank";

/// Starts this binary, which starts the ranks of a job.
fn ranks(way: Way) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg(RANK).envs(way.settings.iter().copied());
    if way.name.starts_with(strict::STRICT) {
        strict::choose(&mut command);
    }
    command
}
