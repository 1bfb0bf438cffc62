//! The network path: ranks on two and three hosts that share no memory, started by the launcher of
//! the MPI library that this is built with.

mod jobs;
mod parts;
mod waits;
#[path = "../support/wanted.rs"]
mod wanted;
#[path = "../support/worlds.rs"]
mod worlds;

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use pgas_test_hosts::{Conditions, Link, Mapping, are_wanted};

use crate::jobs::Shape;

/// The argument by which the binary is a rank. The next arguments name what the rank does.
const PART: &str = "--part";

/// 2 ms, 1 ms more or less, and every hundredth frame gets lost.
const BAD: Link = Link::Bad(Conditions {
    delay: Duration::from_millis(2),
    jitter: Duration::from_millis(1),
    loss_percent: 1.0,
    seed: 20,
});

const SHAPES: [Shape; 4] = [
    Shape::new(2, 1, Mapping::Slot),
    Shape::new(2, 2, Mapping::Slot),
    Shape::new(2, 2, Mapping::Node),
    Shape::new(3, 1, Mapping::Slot),
];

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    if let Some((first, words)) = args.split_first()
        && first == PART
    {
        return parts::play(words);
    }
    let mut args = Arguments::from_args();
    // One test at a time, since the hosts share the machine's processors.
    args.test_threads = Some(1);
    let trials = if are_wanted() { trials() } else { Vec::new() };
    libtest_mimic::run(&args, trials).exit_code()
}

fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut add = |name: String, run: Box<dyn FnOnce() + Send>| {
        trials.push(Trial::test(name, move || {
            run();
            Ok(())
        }));
    };
    for shape in SHAPES {
        let name = format!("hosts_share_no_memory::{shape}");
        add(name, Box::new(move || jobs::share_no_memory(shape)));
    }
    for (shape, direct) in [
        (SHAPES[0], "1"),
        (SHAPES[1], "0"),
        (SHAPES[2], "1"),
        (SHAPES[3], "1"),
    ] {
        let name = format!("suite::{shape}::direct_{direct}");
        let run = move || jobs::pass_the_suite(shape, Link::Clean, direct);
        add(name, Box::new(run));
    }
    let name = format!("suite_over_a_bad_link::{}", SHAPES[0]);
    let run = || jobs::pass_the_suite(SHAPES[0], BAD, "1");
    add(name, Box::new(run));
    for fault in jobs::FAULTS {
        for on_host in [0, 1] {
            let name = format!("faults::{}_on_host_{on_host}", fault.name());
            add(name, Box::new(move || jobs::end_after(fault, on_host)));
        }
    }
    add(
        "faults::stop_beside_another_rank".to_owned(),
        Box::new(jobs::end_after_a_stop_beside_another),
    );
    add(
        "faults::stop_alone_on_a_host".to_owned(),
        Box::new(jobs::end_after_a_stop_alone),
    );
    add(
        "faults::killed_launcher".to_owned(),
        Box::new(jobs::end_with_the_launcher),
    );
    add_waits(&mut add);
    trials
}

/// Waits for ranks of other hosts, and how they end.
fn add_waits(add: &mut dyn FnMut(String, Box<dyn FnOnce() + Send>)) {
    for kind in waits::KINDS.iter().filter(|kind| kind.is_wanted()) {
        let name = format!("waits::end_when_a_host_is_cut_off::{}", kind.name());
        add(name, Box::new(|| waits::end_after_a_cut(kind)));
        let name = format!("waits::end_at_their_limit::{}", kind.name());
        add(name, Box::new(|| waits::end_at_the_limit(kind)));
    }
    add(
        "waits::end_when_two_hosts_are_cut_off_from_each_other".to_owned(),
        Box::new(waits::end_after_a_cut_between_two),
    );
    add(
        "waits::end_in_a_handler_that_waits_inside_of_mpi".to_owned(),
        Box::new(waits::end_in_a_handler),
    );
    add(
        "waits::are_reported_and_go_on::a_rank_is_stopped".to_owned(),
        Box::new(waits::go_on_after_a_stop),
    );
}
