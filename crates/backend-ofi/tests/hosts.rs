//! Ranks on hosts that share no memory, over TCP, started by `pgas-run` and by the launchers of
//! MPICH and Open MPI, without any MPI in the program.

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use pgas_conformance::SUITE;
use pgas_core::{Config, GlobalPtr, Rank, Result, World};
use pgas_test_hosts::{Hosts, Launcher, Link, Mpirun, Running, are_wanted};
use pgas_testkit::fault::{Fault, give_up};
use pgas_testkit::job::say;
use pgas_testkit::{Deadline, setting};

/// The argument by which the binary is a rank. The next arguments name what the rank does.
const PART: &str = "--part";
/// What rank 0 prints before something fails.
const ALL_ARE_HERE: &str = "all ranks are here";
/// The maximum time of a job: far more than any needs, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);
/// The maximum time from a failure to the end of the job, on a busy machine.
const END_OF_JOB: Duration = Duration::from_secs(60);

/// Cases of every kind of operation. They run unless all cases are asked for.
const OF_EVERY_KIND: &[&str] = &[
    "long_transfers_arrive_whole",
    "slices_of_structs_round_trip",
    "events_may_be_waited_for_in_any_order",
    "fragments_on_all_ranks_move_what_loops_would",
    "strided_transfers_of_long_blocks",
    "put_then_flush_is_visible_to_the_target",
    "a_barrier_separates_phases",
    "who_sees_the_signal_sees_the_data",
    "swaps_pass_every_value_on_exactly_once",
    "a_linked_list_across_ranks_can_be_walked_by_all",
    "messages_of_every_size_arrive_whole",
    "a_broadcast_from_every_root_reaches_all",
    "an_all_to_all_of_varying_lengths_transposes",
];

/// Some of these, for launchers that differ only in the way in which ranks meet.
const A_FEW: &[&str] = &[
    "long_transfers_arrive_whole",
    "messages_of_every_size_arrive_whole",
    "swaps_pass_every_value_on_exactly_once",
];

/// Cases on words that ranks of the same host and of another one change, while puts and gets within
/// a host are loads and stores.
const ON_WORDS: &[&str] = &[
    "atomics_and_flushed_puts_see_each_other",
    "concurrent_compare_exchange_loops_lose_nothing",
    "own_words_are_not_special",
    "long_data_arrives_before_its_signal",
    "a_waiting_rank_is_woken_by_a_plain_atomic_too",
    "a_barrier_flushes_every_kind_of_operation",
    "a_flush_of_one_rank_completes_operations_on_it",
    "values_in_flight_of_all_ranks_are_found_and_removed_once",
    "elements_of_many_parts_come_back_as_they_were",
    "items_of_all_ranks_are_in_a_filter_until_it_is_cleared",
];

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    if let Some((first, words)) = args.split_first()
        && first == PART
    {
        return play(words);
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
    let is_all = setting("PGAS_TEST_ALL", 0) != 0;
    let shapes: &[(u32, u32)] = if is_all {
        &[(2, 2), (2, 1), (3, 1)]
    } else {
        &[(2, 2)]
    };
    for &(n_hosts, per_host) in shapes {
        let name = format!("suite::{n_hosts}_hosts_of_{per_host}");
        let pass = move || pass_the_suite((n_hosts, per_host), Launcher::Mpich, "suite");
        add(name, Box::new(pass));
    }
    let pass = || pass_the_suite((2, 2), Launcher::OpenMpi, "a_few");
    add("open_mpi::suite".to_owned(), Box::new(pass));
    let end = || end_after(Fault::Kill, Launcher::OpenMpi);
    add("open_mpi::kill".to_owned(), Box::new(end));
    let faults: &[Fault] = if is_all {
        &[Fault::Kill, Fault::Panic, Fault::AbortJob]
    } else {
        &[Fault::Kill]
    };
    for &fault in faults {
        let name = format!("faults::{}", fault.name());
        add(name, Box::new(move || end_after(fault, Launcher::Mpich)));
    }
    add(
        "a_host_that_is_cut_off_is_named".to_owned(),
        Box::new(end_after_a_cut),
    );
    add("pgas_run::suite".to_owned(), Box::new(pass_the_suite_alone));
    let name = "pgas_run::atomics_by_the_provider".to_owned();
    add(name, Box::new(leave_atomics_to_the_provider));
    add(
        "pgas_run::faults".to_owned(),
        Box::new(end_alone_after_faults),
    );
    add("pgas_run::watched".to_owned(), Box::new(watch_a_late_rank));
    add("pgas_run::cut".to_owned(), Box::new(end_alone_after_a_cut));
    add(
        "pgas_run::cut_of_silent_ranks".to_owned(),
        Box::new(end_silent_ranks_after_a_cut),
    );
    add(
        "pgas_run::host_killed".to_owned(),
        Box::new(end_alone_after_the_end_of_a_host),
    );
    trials
}

fn mpirun(hosts: &Hosts, launcher: Launcher, per_host: u32) -> Mpirun<'_> {
    hosts
        .mpirun(launcher)
        .per_host(per_host)
        .env("PGAS_SEGMENT", "16M")
        .env("PGAS_TIMEOUT", "60")
        .env("PGAS_OFI_PROVIDER", "tcp;ofi_rxm")
}

fn ranks(mpirun: &Mpirun<'_>, words: &[&str]) -> Command {
    let mut command = mpirun.command(env::current_exe().expect("this program"));
    command.arg(PART).args(words);
    command
}

/// The same with this project's launcher, on two hosts of two ranks each.
fn pgas_run(hosts: &Hosts, options: &[&str], words: &[&str]) -> Command {
    let own = env::current_exe().expect("this program");
    let folder = own
        .parent()
        .and_then(Path::parent)
        .expect("target/debug/deps");
    let mut command = hosts.command(0, folder.join("pgas-run"));
    let names: Vec<String> = (0..hosts.n_hosts())
        .map(|host| format!("{}:2", Hosts::name(host)))
        .collect();
    command
        .args(["--hosts", &names.join(","), "--agent", Hosts::AGENT_PATH])
        .args(["-e", "PGAS_SEGMENT=16M", "-e", "PGAS_TIMEOUT=60"])
        .args(["-e", "PGAS_OFI_PROVIDER=tcp;ofi_rxm"])
        .args(options)
        .arg(&own)
        .arg(PART)
        .args(words);
    command
}

fn hosts(n_hosts: u32) -> Hosts {
    Hosts::new(n_hosts, Link::Clean).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn assert_nothing_left(hosts: &Hosts) {
    let left = hosts.left_after(END_OF_JOB);
    assert!(left.is_empty(), "left on the hosts: {left:?}");
}

fn pass_the_suite((n_hosts, per_host): (u32, u32), launcher: Launcher, part: &str) {
    let _deadline = Deadline::new("the suite between hosts", LIMIT);
    let hosts = hosts(n_hosts);
    let mpirun = mpirun(&hosts, launcher, per_host);
    let ended = hosts.run(ranks(&mpirun, &[part]), LIMIT);
    assert!(ended.in_time && ended.status.success(), "{ended:#?}");
    assert!(ended.stdout.contains(" cases passed"), "{ended:#?}");
    assert_nothing_left(&hosts);
}

/// A rank that fails ends the job, and the others do not wait for it.
fn end_after(fault: Fault, launcher: Launcher) {
    let _deadline = Deadline::new("the end after a fault", LIMIT);
    let hosts = hosts(2);
    let mpirun = mpirun(&hosts, launcher, 2);
    let mut running = hosts.start(ranks(&mpirun, &["fail", fault.name()]));
    let are_here = running.has_printed(ALL_ARE_HERE, LIMIT);
    let ended = running.end(END_OF_JOB);
    // The job may have ended before the launcher has passed rank 0's line on.
    let has_struck = ended.stdout.contains("struck at");
    assert!(are_here || has_struck, "it did not begin: {ended:#?}");
    assert!(ended.in_time, "it goes on: {ended:#?}");
    assert!(!ended.status.success(), "{ended:#?}");
    assert_nothing_left(&hosts);
}

fn end_after_a_cut() {
    let _deadline = Deadline::new("the end after a cut", LIMIT);
    let hosts = hosts(2);
    let mpirun = mpirun(&hosts, Launcher::Mpich, 1).env("PGAS_SILENCE", "3");
    let mut running = hosts.start(ranks(&mpirun, &["fail", "nobody"]));
    assert!(
        running.has_printed(ALL_ARE_HERE, LIMIT),
        "{:#?}",
        running.end(END_OF_JOB)
    );
    hosts.cut(1);
    let is_named = running.has_printed("rank 0 waited: rank 1 is on host node1", END_OF_JOB);
    hosts.mend(1);
    // The launcher waits for its agent on the other host.
    hosts.kill_all();
    let ended = running.end(END_OF_JOB);
    assert!(is_named, "{ended:#?}");
}

fn pass_the_suite_alone() {
    let _deadline = Deadline::new("the suite between hosts", LIMIT);
    let hosts = hosts(2);
    let ended = hosts.run(pgas_run(&hosts, &["--prefix"], &["suite"]), LIMIT);
    assert!(ended.in_time && ended.status.success(), "{ended:#?}");
    assert!(ended.stdout.starts_with("[0] "), "{ended:#?}");
    assert!(ended.stdout.contains(" cases passed"), "{ended:#?}");
    assert_nothing_left(&hosts);
}

/// All atomics go through the provider, those within a host, too.
fn leave_atomics_to_the_provider() {
    let _deadline = Deadline::new("atomics by the provider", LIMIT);
    let hosts = hosts(2);
    let options = ["-e", "PGAS_OFI_ATOMICS=provider"];
    let ended = hosts.run(pgas_run(&hosts, &options, &["words"]), LIMIT);
    assert!(ended.in_time && ended.status.success(), "{ended:#?}");
    let told = " cases passed, with atomics by Network";
    assert!(ended.stdout.contains(told), "{ended:#?}");
    assert_nothing_left(&hosts);
}

/// The launcher shows the ranks of both hosts, and whom they wait for across them.
fn watch_a_late_rank() {
    let _deadline = Deadline::new("the view of a job over hosts", LIMIT);
    let hosts = hosts(2);
    let options = ["--watch=0.3", "-e", "PGAS_STATS=1"];
    let ended = hosts.run(pgas_run(&hosts, &options, &["late"]), LIMIT);
    assert!(ended.in_time && ended.status.success(), "{ended:#?}");
    let is_told = |parts: &[&str]| {
        let has_all = |line: &&str| parts.iter().all(|part| line.contains(part));
        assert!(
            ended.stderr.lines().any(|line| has_all(&line)),
            "{parts:?}: {ended:#?}"
        );
    };
    is_told(&[
        "pgas: ",
        ": 4 ranks of ",
        " on 2 hosts: ",
        "3 wait",
        "operations/s",
    ]);
    // In the barrier's rounds rank 2 waits for rank 0, which waits for the other host's rank 3.
    for (rank, missing) in [(0, 3), (1, 3), (2, 0)] {
        let [rank, missing] = [
            format!("rank {rank} waits "),
            format!("of rank {missing}, at "),
        ];
        is_told(&[&rank, " for a barrier, ", &missing]);
    }
    is_told(&["rank 3 sleeps; 2 ranks have waited for it, for up to "]);
    assert_nothing_left(&hosts);
}

/// Starts a job under this project's launcher, in which `fault` strikes the last rank.
fn failing<'hosts>(hosts: &'hosts Hosts, options: &[&str], fault: &str) -> Running<'hosts> {
    let mut running = hosts.start(pgas_run(hosts, options, &["fail", fault]));
    if !running.has_printed(ALL_ARE_HERE, LIMIT) && fault == "nobody" {
        panic!("{:#?}", running.end(END_OF_JOB));
    }
    running
}

/// Asserts that the job ends by itself, with the launcher's line about it.
#[track_caller]
fn assert_ends(running: Running<'_>, line: &str) {
    let ended = running.end(END_OF_JOB);
    assert!(ended.in_time && !ended.status.success(), "{ended:#?}");
    assert!(ended.stderr.contains(line), "{line}: {ended:#?}");
}

/// Asserts that a job of four ranks that has failed has left one table, with the figures of all.
#[track_caller]
fn assert_has_figures(stderr: &str) {
    let is_heading = |line: &&str| line.starts_with("pgas: statistics of ");
    let headings: Vec<&str> = stderr.lines().filter(is_heading).collect();
    let [heading] = headings[..] else {
        panic!("{headings:?}: {stderr}");
    };
    let begin = "pgas: statistics of 4 ranks, ";
    assert!(
        heading.starts_with(begin) && heading.contains("; host node1: rank 3 "),
        "{stderr}"
    );
    assert!(!stderr.contains("have told nothing"), "{stderr}");
    assert!(stderr.contains("hosts.rs:"), "waits by line: {stderr}");
}

/// The job's line and exit code are those of the rank that has failed, although ranks of the other
/// host, which fail because of it, may end before.
fn end_alone_after_faults() {
    let _deadline = Deadline::new("the end after faults", LIMIT);
    let hosts = hosts(2);
    for fault in [
        Fault::Panic,
        Fault::Exit(0),
        Fault::Exit(3),
        Fault::AbortJob,
        Fault::Kill,
    ] {
        let counted = ["-e", "PGAS_STATS=1"];
        let ended = failing(&hosts, &counted, fault.name()).end(END_OF_JOB);
        assert!(ended.in_time, "{fault:?}: {ended:#?}");
        assert_has_figures(&ended.stderr);
        assert_eq!(
            ended.status.code(),
            Some(fault.code()),
            "{fault:?}: {ended:#?}"
        );
        let is_line = |line: &str| {
            line.starts_with("pgas: host node1: rank 3 (pid ") && line.contains(fault.verdict())
        };
        assert!(ended.stderr.lines().any(is_line), "{fault:?}: {ended:#?}");
        let of_abort = "pgas: rank 3 ended the job: ";
        let has_aborted = fault == Fault::AbortJob;
        assert_eq!(ended.stderr.contains(of_abort), has_aborted, "{ended:#?}");
    }
    assert_nothing_left(&hosts);
}

/// Each part of a job that is cut in two ends by itself.
fn end_alone_after_a_cut() {
    let _deadline = Deadline::new("the end after a cut", LIMIT);
    let hosts = hosts(2);
    let running = failing(&hosts, &["-e", "PGAS_SILENCE=3"], "nobody");
    hosts.cut(1);
    let ended = running.end(END_OF_JOB);
    assert!(ended.in_time && !ended.status.success(), "{ended:#?}");
    // The launcher notices that the host is silent, unless the ranks here or the rest of the agent
    // are faster to say so.
    let lines = [
        "pgas: host node1: nothing was heard of it for 3 s (PGAS_SILENCE)",
        "pgas: host node1: its agent has ended early",
        "pgas: host node0: rank ",
    ];
    let is_told = lines.iter().any(|line| ended.stderr.contains(line));
    assert!(is_told, "{ended:#?}");
    assert_nothing_left(&hosts);
}

/// Ranks that say nothing to each other notice nothing: their launcher does.
fn end_silent_ranks_after_a_cut() {
    let _deadline = Deadline::new("the end after a cut", LIMIT);
    let hosts = hosts(2);
    let command = pgas_run(&hosts, &["-e", "PGAS_SILENCE=3"], &["sleep"]);
    let mut running = hosts.start(command);
    let are_here = running.has_printed("1\n", LIMIT) && running.has_printed("3\n", LIMIT);
    hosts.cut(1);
    let ended = running.end(END_OF_JOB);
    assert!(
        are_here && ended.in_time && !ended.status.success(),
        "{ended:#?}"
    );
    // The agent of these tests outlives the cut. It ends when the other host, too, has heard
    // nothing for long.
    let lines = [
        "pgas: host node1: nothing was heard of it for 3 s (PGAS_SILENCE)",
        "pgas: host node1: its agent has ended early",
    ];
    assert!(
        lines.iter().any(|line| ended.stderr.contains(line)),
        "{ended:#?}"
    );
    assert_nothing_left(&hosts);
}

fn end_alone_after_the_end_of_a_host() {
    let _deadline = Deadline::new("the end after that of a host", LIMIT);
    let hosts = hosts(2);
    let running = failing(&hosts, &[], "nobody");
    hosts.kill_all_on(1);
    assert_ends(running, "pgas: host node1: its agent ");
    assert_nothing_left(&hosts);
}

/// Plays the part that `words` name.
fn play(words: &[String]) -> ExitCode {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let played = match words[..] {
        ["suite"] => run_cases(OF_EVERY_KIND),
        ["a_few"] => run_cases(A_FEW),
        ["words"] => run_cases(ON_WORDS),
        ["late"] => be_late(),
        ["fail", fault] => fail(Fault::named(fault)),
        ["sleep"] => {
            say(&setting("PMI_RANK", 0).to_string());
            std::thread::sleep(LIMIT);
            Ok(())
        }
        _ => panic!("nobody plays {words:?}"),
    };
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn join() -> Result<World> {
    pgas_ofi::init(&Config::from_env()?)
}

/// Runs the cases that can share a world: those of `wanted`, or all of them if all are asked for.
fn run_cases(wanted: &[&str]) -> Result<()> {
    let world = join()?;
    let is_all = setting("PGAS_TEST_ALL", 0) != 0;
    let mut n_cases = 0;
    for case in SUITE.iter().filter(|case| !case.alone && !case.check) {
        let is_wanted = is_all || wanted.contains(&case.name);
        if is_wanted && case.min_ranks <= world.n_ranks() {
            if let Err(error) = (case.run)(&world) {
                world.abort(1, &format!("fails in {}: {error}", case.name));
            }
            n_cases += 1;
        }
    }
    world.barrier()?;
    if world.rank().number() == 0 {
        let executor = world.capabilities().atomics;
        say(&format!(
            "{n_cases} cases passed, with atomics by {executor:?}"
        ));
    }
    Ok(())
}

/// The last rank comes late, and the others wait for it.
fn be_late() -> Result<()> {
    let world = join()?;
    world.barrier()?;
    if world.rank() == Rank::new(world.n_ranks() - 1) {
        std::thread::sleep(Duration::from_secs(4));
    }
    world.barrier()
}

/// The last rank fails, or no rank does, and the others go on.
fn fail(fault: Option<Fault>) -> Result<()> {
    let world = join()?;
    let words = world.alloc_symmetric::<u64>(1)?;
    let last = Rank::new(world.n_ranks() - 1);
    let there: GlobalPtr<u64> = words.on(last);
    world.barrier()?;
    if world.rank().number() == 0 {
        say(ALL_ARE_HERE);
    }
    if let Some(fault) = fault
        && world.rank() == last
    {
        drop(words);
        fault.strike(world);
    }
    loop {
        if let Err(error) = world.barrier().and_then(|()| there.fetch_add(&world, 1)) {
            give_up(world.rank(), &error);
        }
    }
}
