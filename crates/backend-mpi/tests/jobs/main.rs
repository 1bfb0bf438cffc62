//! Whole jobs over MPI: how they end when a rank fails, what bad input gets, one word hammered from
//! all sides, very long transfers, and worlds of communicators of a program that has started MPI
//! itself.
//!
//! Started by cargo, the binary starts itself under the launcher of the MPI that it was built with,
//! as ranks that play one of the [`PARTS`].

mod attached;
mod codes;
mod faults;
#[path = "../support/figures.rs"]
mod figures;
mod floods;
mod hints;
mod input;
mod long;
mod lost;
mod served;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/wanted.rs"]
mod wanted;
mod words;
mod written;

use std::process::{Command, ExitCode};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use pgas_core::{Config, World};
use pgas_testkit::Deadline;
use pgas_testkit::fault::Fault;
use pgas_testkit::job::{self, Ended, PART, Part, eventually};
use support::{is_open_mpi, launcher, mpirun};

/// The maximum time of a test.
const LIMIT: Duration = Duration::from_secs(100);
/// The maximum time that a job takes to end under a foreign launcher, on a busy machine.
const END: Duration = Duration::from_secs(60);

const PARTS: &[(&str, Part)] = &[
    ("fail", faults::fail),
    ("wait", faults::wait),
    ("leave_the_silent", faults::leave_the_silent),
    ("return_early", faults::return_early),
    ("leave_often", faults::leave_often),
    ("call_who_leaves", lost::call_who_leaves),
    ("call_and_leave", lost::call_and_leave),
    ("come_or_stop", faults::come_or_stop),
    ("start", input::start),
    ("start_beside", input::start_beside),
    ("refuse", input::refuse),
    ("create", hints::create),
    ("create_often", hints::create_often),
    ("transfer", long::transfer),
    ("flood", floods::flood),
    ("put_first", floods::put_first),
    ("hammer", words::hammer),
    ("pay", words::pay),
    ("lose", codes::lose),
    ("err", codes::err),
    ("compute", served::compute),
    ("count", written::count),
    ("choose", served::choose),
    ("attach", attached::attach),
    ("twice", attached::twice),
    ("one_thread", attached::one_thread),
    ("serialized", attached::serialized),
    ("many_threads", attached::many_threads),
    ("need", attached::need),
];

/// The tests that run with the direct path and without.
#[rustfmt::skip]
const TESTS: &[(&str, Part)] = &[
    ("a_killed_launcher_leaves_nothing_behind", faults::launcher_killed),
    ("a_rank_that_returns_early_ends_the_job", faults::returned_early),
    ("a_rank_that_leaves_others_waiting_says_why_the_job_ends", faults::told_by_who_left),
    ("ranks_that_leave_early_disturb_no_later_world", faults::left_often),
    ("segments_of_different_sizes_are_refused", input::sizes_differ),
    ("a_segment_that_cannot_be_is_refused", input::size_refused),
    ("nothing_is_lost_when_all_ranks_hammer_one_word", words::hammered),
    ("an_operation_needs_the_target_if_it_says_so", attached::target_needed),
    ("a_thread_serves_a_rank_that_computes", served::by_a_thread),
    ("the_statistics_and_traces_of_all_ranks_are_written", written::written),
    ("a_program_that_has_started_mpi_makes_worlds_of_it", attached::attached),
    ("a_process_joins_once_and_who_asks_again_gets_the_same_world", attached::joined_twice),
    ("a_program_for_one_thread_uses_the_world_from_that_thread", attached::attached_by_one),
    ("a_program_for_one_thread_at_a_time_promises_to_keep_out_of_mpi", attached::attached_by_one_at_a_time),
    ("a_program_for_many_threads_uses_the_world_from_all", attached::attached_by_many),
];

#[rustfmt::skip]
const TESTS_OF_ONE_WAY: &[(&str, fn())] = &[
    ("window::an_operation_makes_the_calls_that_its_price_says", words::prices),
    ("window::an_error_has_the_calls_name_and_mpis_text", codes::reported),
    ("window::an_error_that_mpi_tells_once_fails_the_job", codes::told_once),
    ("window::mpi_takes_the_hints_about_its_window", hints::taken),
    ("window::mpi_is_asked_once_for_its_settings", hints::asked_once),
    ("window::an_mpi_with_the_separate_memory_model_is_refused", input::separate_model_refused),
    ("any_number_of_operations_is_in_flight_and_waited_for_in_any_order", floods::flooded),
    ("window::the_first_puts_of_a_job_arrive_whole", floods::first_puts),
    ("a_rank_that_does_not_start_ends_the_job_at_the_limit", faults::start_limited),
    ("the_environment_is_left_alone_where_another_thread_may_read_it", input::environment_left),
    ("ways_that_differ_are_refused", input::ways_differ),
    ("the_other_mpis_launcher_is_named", input::other_launcher),
    ("ranks_that_mpi_has_not_started_are_refused", input::ranks_wanted),
    ("a_build_that_finds_no_mpi_names_packages_to_install", input::no_library_found),
];

fn main() -> ExitCode {
    if job::has_played(PARTS) {
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let mut trials = Vec::new();
    for direct in ["1", "0"] {
        let way = if direct == "1" { "direct" } else { "window" };
        for fault in Fault::ALL {
            let name = format!("{way}::a_rank_that_fails_ends_the_job::{}", fault.name());
            trials.push(trial(name, move || faults::ends_by(fault, direct)));
        }
        for &(name, body) in TESTS {
            trials.push(trial(format!("{way}::{name}"), move || body(direct)));
        }
    }
    if !is_open_mpi() {
        let name = "hosts::nothing_is_lost_when_two_hosts_hammer_one_word";
        trials.push(trial(name.to_owned(), words::hammered_from_two_hosts));
        let name = "hosts::each_call_to_a_rank_that_leaves_is_served_or_told_of";
        trials.push(trial(name.to_owned(), lost::told));
        let name = "hosts::each_call_of_a_rank_that_leaves_at_once_is_served_or_told_of";
        trials.push(trial(name.to_owned(), lost::told_at_once));
    }
    if is_open_mpi() {
        let name = "window::the_users_choice_of_a_component_is_kept";
        trials.push(trial(name.to_owned(), served::by_a_choice));
    }
    if long::is_wanted() {
        let name = "window::a_transfer_beyond_2_gib_arrives_whole";
        trials.push(trial(name.to_owned(), long::transferred));
    }
    for &(name, body) in TESTS_OF_ONE_WAY {
        trials.push(trial(name.to_owned(), body));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(name: String, body: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name.clone(), move || {
        let _deadline = Deadline::new(name, LIMIT);
        body();
        Ok(())
    })
}

/// Ranks that play `part`.
fn ranks(n_ranks: u32, part: &str, what: &str, direct: &str) -> Command {
    let mut command = mpirun(n_ranks);
    command
        .args([PART, part, what])
        .env("PGAS_SEGMENT", "1M")
        .env("PGAS_DIRECT", direct);
    command
}

/// As [`mpirun`], with one rank for each value of a variable.
fn mpirun_with_each(variable: &str, values: &[&str], args: &[&str]) -> Command {
    let mut command = launcher();
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            command.arg(":");
        }
        command.args(["-n", "1"]);
        if is_open_mpi() {
            command.args(["-x", &format!("{variable}={value}")]);
        } else {
            command.args(["-env", variable, value]);
        }
        command.arg(std::env::current_exe().expect("this program"));
        command.args(args);
    }
    command
}

fn run(command: Command) -> Ended {
    job::start(command).end()
}

/// A launcher may end a moment before its ranks.
fn assert_nothing_left(ended: &Ended) {
    eventually("the ranks end with their launcher", || {
        let mut states = ended.left.iter().map(|pid| job::state_of(*pid));
        states.all(|state| state.is_none_or(|state| state == 'Z'))
    });
}

#[track_caller]
fn assert_well(ended: &Ended) {
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_nothing_left(ended);
}

fn world() -> World {
    let config = Config::from_env().expect("settings that mean something");
    pgas_mpi::init(&config).expect("a rank of the job")
}
