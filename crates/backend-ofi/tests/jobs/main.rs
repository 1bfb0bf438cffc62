//! Whole jobs over libfabric: how they end when a rank fails, in every kind of wait, and what bad
//! input gets.
//!
//! Started by cargo, the binary starts itself as ranks that play one of the [`PARTS`].

mod executors;
#[path = "../../../backend-mpi/tests/support/figures.rs"]
mod figures;
mod in_place;
mod letters;
mod limits;
mod soak;
#[path = "../strict/mod.rs"]
mod strict;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::mem::ManuallyDrop;
use std::process::{Command, ExitCode};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use pgas_core::backend::AtomicOp;
use pgas_core::config::launch::Launcher;
use pgas_core::{Config, Error, GlobalPtr, Rank, Result, World};
use pgas_testkit::fault::{Fault, STALL, assert_blamed, assert_known, give_up};
use pgas_testkit::job::{self, Ended, PART, Part};
use pgas_testkit::{Deadline, setting};

use figures::Figures;

/// The maximum time of a test.
const LIMIT: Duration = Duration::from_secs(100);

/// The faults that are tested unless all are asked for.
const FAULTS: &[Fault] = &[
    Fault::Panic,
    Fault::Exit(0),
    Fault::AbortJob,
    Fault::Kill,
    Fault::Stop,
    Fault::Leave,
];

const PARTS: &[(&str, Part)] = &[
    ("fail", fail),
    ("start", start),
    ("differ", differ),
    ("overflow", overflow),
    ("forget", forget),
    ("soak", soak::play),
    ("count", count),
    ("refused_put", limits::put_and_go_on),
    ("give_up", limits::give_up),
    ("leave_late", limits::leave_late),
    ("take_room", limits::take_room),
    ("meet", limits::meet),
    ("in_place", in_place::play),
    ("letters", letters::play),
    ("in_parts", letters::play_in_parts),
    ("absent", absent),
    ("executors", executors::play),
];

/// What the others do when rank 1 fails.
const WAITS: &[&str] = &["barrier", "get", "put", "fetch_add"];

#[rustfmt::skip]
const TESTS: &[(&str, fn())] = &[
    ("a_library_that_cannot_be_loaded_is_named_with_its_package_on_every_rank", library_missing),
    ("a_provider_that_there_is_none_of_is_named_with_those_that_there_are", provider_unknown),
    ("a_provider_that_lacks_what_is_needed_is_named_with_what_it_lacks", provider_unsuitable),
    ("ranks_with_different_providers_are_refused", providers_differ),
    ("ranks_with_different_executors_of_atomics_are_refused", executors::other_settings),
    ("the_provider_executes_all_atomics_of_a_job_or_none", executors::decided_alike),
    ("atomics_on_own_words_have_the_executor_of_all_others", executors::own_words),
    ("a_provider_executes_atomics_after_a_trial", executors::tried),
    ("a_provider_that_cannot_execute_atomics_is_refused_with_what_it_lacks", executors::refused),
    ("any_number_of_transfers_is_in_flight", many_in_flight),
    ("the_statistics_and_traces_of_all_ranks_are_written", figures_written),
    ("memory_with_a_name_does_not_outlive_the_ranks_that_have_it", nothing_left),
    ("payloads_are_filled_in_buffers_of_the_network", in_place::test),
    ("messages_share_receive_buffers_where_the_provider_has_that", letters::test),
    ("messages_that_come_in_parts_and_out_of_order_all_arrive", letters::in_parts),
    ("a_rank_that_does_not_join_is_named_by_those_that_wait", absent_named),
    ("more_than_may_be_registered_is_refused_on_every_rank", limits::too_much_at_the_start),
    ("a_transfer_that_cannot_be_registered_is_an_error_and_the_job_goes_on", limits::too_much_later),
    ("messages_go_on_where_no_more_buffers_can_be_registered", limits::no_more_buffers),
    ("a_rank_that_gives_up_takes_its_memory_back_first", limits::memory_taken_back),
    ("who_finds_no_room_is_told_whose_operations_take_it", limits::who_takes_the_room),
    ("a_rank_whose_operations_do_not_end_leaves_at_the_limit", limits::late_leave),
    ("the_job_ends_if_the_last_words_of_a_rank_cannot_be_sent", limits::last_words),
    ("a_launcher_by_which_ranks_cannot_meet_is_refused_with_those_by_which_they_can", no_meeting),
];

fn main() -> ExitCode {
    if job::has_played(PARTS) {
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let mut trials = Vec::new();
    let is_all = setting("PGAS_TEST_ALL", 0) != 0;
    for fault in Fault::ALL {
        if !is_all && !FAULTS.contains(&fault) {
            continue;
        }
        let name = format!("a_rank_that_fails_ends_the_job::barrier::{}", fault.name());
        trials.push(trial(name, move || ends_by(fault, "barrier", "target")));
    }
    for wait in &WAITS[1..] {
        let name = format!("a_rank_that_fails_ends_the_job::{wait}::kill");
        trials.push(trial(name, move || ends_by(Fault::Kill, wait, "target")));
    }
    // `tcp;ofi_rxm` never completes an atomic on a rank that has ended.
    let name = "a_rank_that_fails_ends_the_job::atomic_of_the_provider::kill".to_owned();
    let ends = || ends_by(Fault::Kill, "fetch_add", "provider");
    trials.push(trial(name, ends));
    for &(name, body) in TESTS {
        trials.push(trial(name.to_owned(), body));
    }
    let name = "what_ranks_hold_does_not_grow".to_owned();
    trials.push(trial_within(soak::limit(), name, soak::test));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(name: String, body: impl FnOnce() + Send + 'static) -> Trial {
    trial_within(LIMIT, name, body)
}

fn trial_within(limit: Duration, name: String, body: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name.clone(), move || {
        let _deadline = Deadline::new(name, limit);
        body();
        Ok(())
    })
}

/// Ranks that play `part`, over TCP unless a setting says otherwise.
fn ranks(n_ranks: u32, part: &str, what: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args([PART, part, what])
        .env("PGAS_RANKS", n_ranks.to_string())
        .env("PGAS_SEGMENT", "1M")
        .env("PGAS_DIRECT", "0")
        .env("PGAS_OFI_PROVIDER", "tcp;ofi_rxm");
    command
}

fn run(command: Command) -> Ended {
    job::start(command).end()
}

fn joined() -> Result<World> {
    pgas_ofi::init(&Config::from_env().expect("settings that mean something"))
}

fn world() -> World {
    joined().expect("a rank of the job")
}

fn ends_by(fault: Fault, wait: &str, executor: &str) {
    let mut command = ranks(3, "fail", &format!("{}/{wait}", fault.name()));
    command
        .env(STALL.0, STALL.1)
        .env("PGAS_OFI_ATOMICS", executor);
    let ended = run(command);
    assert_blamed(&ended, fault, 1);
    // A rank that aborts or leaves the job says so itself. The others may be ended before they do.
    if !matches!(fault, Fault::AbortJob | Fault::Leave | Fault::Stop) {
        assert_known(&ended, 1, 2);
    }
}

/// Over TCP, and by loads and stores.
fn figures_written() {
    for (direct, place) in [("0", "remote"), ("1", "near")] {
        let mut command = ranks(3, "count", "");
        command.env("PGAS_DIRECT", direct);
        let figures = Figures::of(&mut command, env!("CARGO_TARGET_TMPDIR"));
        let ended = run(command);
        assert_eq!(ended.code(), 0, "{ended:?}");
        figures.check(3, place);
    }
}

fn count(_: &str) {
    figures::play(&world());
}

/// Ranks of several hosts that cannot meet get an error: none waits, and none becomes a job of its
/// own.
fn no_meeting() {
    const SLURM: &[(&str, &str)] = &[
        ("SLURM_JOB_ID", "1"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_PROCID", "0"),
        ("SLURM_STEP_NUM_TASKS", "4"),
        ("SLURM_STEP_TASKS_PER_NODE", "2(x2)"),
        ("SLURM_NODEID", "0"),
    ];
    const OPEN_MPI: &[(&str, &str)] = &[
        ("OMPI_COMM_WORLD_RANK", "0"),
        ("OMPI_COMM_WORLD_SIZE", "4"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
        ("PMIX_NAMESPACE", "1"),
    ];
    const PMIX: &[(&str, &str)] = &[("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "1")];
    for (variables, told) in [
        (
            SLURM,
            "the latter is spoken by `srun --mpi=pmi2`, `mpiexec.hydra` and `pgas-run --hosts`",
        ),
        (
            OPEN_MPI,
            "the latter is spoken by `mpiexec.hydra` and `pgas-run --hosts`",
        ),
        (
            PMIX,
            "the latter is spoken by `mpiexec.hydra` and `pgas-run --hosts`",
        ),
    ] {
        let mut command = ranks(1, "start", "");
        command
            .env_remove("PGAS_RANKS")
            .envs(variables.iter().copied());
        let ended = run(command);
        assert_ne!(ended.code(), 0, "{ended:?}");
        let all = format!("{}{}", ended.stdout, ended.stderr);
        assert!(all.contains(told), "{told}: {ended:?}");
    }
}

/// The names of the provider `shm`'s files that exist now.
fn named_memory() -> BTreeSet<OsString> {
    let entries = fs::read_dir("/dev/shm").expect("shared memory of the system");
    let names = entries.flatten().map(|entry| entry.file_name());
    names
        .filter(|name| name.to_string_lossy().contains(':'))
        .collect()
}

/// The provider's files are removed however the ranks end. Files of other jobs may exist meanwhile.
fn nothing_left() {
    for (how, code) in [("forget", 0), ("kill", 137)] {
        let mut command = ranks(2, "forget", how);
        command.env("PGAS_OFI_PROVIDER", "shm");
        let ended = run(command);
        assert_eq!(ended.code(), code, "{ended:?}");
        let left = named_memory();
        let pids: Vec<&str> = ended
            .stdout
            .lines()
            .filter_map(|line| line.strip_prefix("pid "))
            .collect();
        assert_eq!(pids.len(), 2, "{ended:?}");
        for pid in pids {
            let is_left = left
                .iter()
                .any(|name| name.to_string_lossy().starts_with(&format!("{pid}:")));
            assert!(!is_left, "{how}: {left:?}");
        }
    }
}

/// Ends without leaving: keeps a handle for ever, or is killed.
fn forget(how: &str) {
    let world = world();
    let words = world.alloc_symmetric::<u64>(1).expect("room");
    let there = words.on(Rank::new(1 - world.rank().number()));
    let has_file = named_memory().iter().any(|name| {
        let name = name.to_string_lossy();
        name.starts_with(&format!("{}:", std::process::id()))
    });
    assert!(
        has_file,
        "the provider has memory with a name: {:?}",
        named_memory()
    );
    job::say(&format!("pid {}", std::process::id()));
    world.barrier().expect("all are here");
    if how == "kill" {
        if world.rank().number() == 1 {
            Fault::Kill.strike(world);
        }
        while world.barrier().is_ok() {}
        return;
    }
    let event = there.get_nb(&world).expect("a get that begins");
    let _never_given_back = ManuallyDrop::new(event);
}

fn fail(how: &str) {
    let (fault, wait) = how.split_once('/').expect("two words");
    let fault = Fault::named(fault).expect("the name of a fault");
    let world = world();
    let words = world.alloc_symmetric::<u64>(1).expect("room");
    world.barrier().expect("all are here");
    let there = words.on(Rank::new(1));
    if world.rank().number() == 1 {
        // It has a handle to the world, too.
        drop(words);
        fault.strike(world);
    }
    loop {
        if let Err(error) = once(&world, wait, there) {
            give_up(world.rank(), &error);
        }
    }
}

fn once(world: &World, wait: &str, there: GlobalPtr<u64>) -> Result<(), Error> {
    match wait {
        "barrier" => world.barrier(),
        "get" => there.get(world).map(drop),
        "put" => {
            there.put(world, 7)?;
            world.flush(Rank::new(1))
        }
        _ => there.fetch_add(world, 1).map(drop),
    }
}

/// Joins the job, and prints why if it is refused.
fn start(_: &str) {
    if let Err(error) = joined() {
        job::say(&format!("refused: {error}"));
        job::exit(1);
    }
}

fn assert_refused(ended: &Ended, texts: &[&str]) {
    assert_ne!(ended.code(), 0, "{ended:?}");
    let lines: Vec<&str> = ended
        .stdout
        .lines()
        .filter(|line| line.contains("refused: "))
        .collect();
    assert!(!lines.is_empty(), "{ended:?}");
    for line in &lines {
        for text in texts {
            assert!(line.contains(text), "{text} in {line}");
        }
    }
    assert!(ended.left.is_empty(), "{ended:?}");
}

fn library_missing() {
    let folder = std::env::temp_dir().join(format!("pgas-no-fabric-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("libfabric.so.1"), "no library").expect("a file");
    let mut command = ranks(2, "start", "");
    command.env("LD_LIBRARY_PATH", &folder);
    let ended = run(command);
    fs::remove_dir_all(&folder).expect("the folder");
    assert_refused(
        &ended,
        &["libfabric.so.1", "Debian: libfabric1", "PGAS_BACKEND=smp"],
    );
}

fn provider_unknown() {
    let mut command = ranks(2, "start", "");
    command.env("PGAS_OFI_PROVIDER", "carrier_pigeon");
    let ended = run(command);
    assert_refused(&ended, &["PGAS_OFI_PROVIDER=carrier_pigeon", "tcp;ofi_rxm"]);
}

/// `FI_RMA` and `FI_MSG` are bits 2 and 1.
fn provider_unsuitable() {
    for (bits, what) in [
        ("4", "it lacks one-sided transfers (FI_RMA); "),
        (
            "6",
            "it lacks messages (FI_MSG), one-sided transfers (FI_RMA); ",
        ),
    ] {
        let mut command = ranks(2, "start", "");
        command.env("FI_STRICT_LACKS", bits);
        strict::choose(&mut command);
        let told = ["PGAS_OFI_PROVIDER=strict", what, "suitable are "];
        assert_refused(&run(command), &told);
    }
    for unfit in ["1", "2"] {
        let mut command = ranks(2, "start", "");
        command.env("FI_STRICT_UNFIT", unfit);
        strict::choose(&mut command);
        let what = "it lacks endpoints with all of that and ordered messages; ";
        let told = ["PGAS_OFI_PROVIDER=strict", what, "suitable are "];
        assert_refused(&run(command), &told);
    }
    // Libfabric has only one that is never chosen by itself.
    let mut command = ranks(2, "start", "");
    command
        .env_remove("PGAS_OFI_PROVIDER")
        .env("FI_PROVIDER", "udp");
    let told = [
        "none of cxi, ",
        "udp lacks reliable endpoints (FI_EP_RDM), one-sided",
    ];
    assert_refused(&run(command), &told);
}

fn providers_differ() {
    let ended = run(ranks(2, "differ", ""));
    assert_refused(&ended, &["PGAS_OFI_PROVIDER", "rank 1 has shm"]);
}

fn differ(_: &str) {
    let mut config = Config::from_env().expect("settings that mean something");
    if is_rank_one(&config) {
        config.ofi_provider = Some("shm".to_owned());
    }
    if let Err(error) = pgas_ofi::init(&config) {
        job::say(&format!("refused: {error}"));
        job::exit(1);
    }
}

fn is_rank_one(config: &Config) -> bool {
    matches!(config.launcher, Launcher::Own { rank: 1, .. })
}

/// Ranks of one host whose provider is not opened yet.
fn absent_named() {
    let mut command = ranks(3, "absent", "");
    command.env("PGAS_TIMEOUT", "0.5");
    let ended = run(command);
    assert_ne!(ended.code(), 0, "{ended:?}");
    // One of the two may hear of the other's error first.
    let told = "the addresses of the other ranks; missing: rank 1";
    assert!(ended.stdout.contains(told), "{ended:?}");
    assert!(ended.left.is_empty(), "{ended:?}");
}

/// Rank 1 stays away until the job has ended.
fn absent(_: &str) {
    let config = Config::from_env().expect("settings that mean something");
    if is_rank_one(&config) {
        std::thread::sleep(Duration::from_secs(20));
    }
    start("");
}

fn many_in_flight() {
    for executor in ["target", "provider"] {
        let mut command = ranks(2, "overflow", "");
        command.env("PGAS_OFI_ATOMICS", executor);
        let ended = run(command);
        assert_eq!(ended.code(), 0, "{executor}: {ended:?}");
    }
}

/// More puts, gets and atomics in flight than the table of operations has places. They are waited
/// for in the reverse order.
fn overflow(_: &str) {
    const N: usize = 10_000;
    let world = world();
    let words = world.alloc_symmetric::<u64>(N).expect("room");
    world.barrier().expect("all are here");
    let other = Rank::new(1 - world.rank().number());
    let there = |index: usize| words.on(other).add(index);
    let own = u64::from(world.rank().number() + 1) << 32;
    let puts: Vec<_> = (0..N)
        .map(|index| {
            there(index)
                .put_nb(&world, own + index as u64)
                .expect("begun")
        })
        .collect();
    for put in puts.into_iter().rev() {
        put.wait().expect("a put");
    }
    let gets: Vec<_> = (0..N)
        .map(|index| there(index).get_nb(&world).expect("begun"))
        .collect();
    for (index, get) in gets.into_iter().enumerate().rev() {
        assert_eq!(get.wait().expect("a get"), own + index as u64);
    }
    let adds: Vec<_> = (0..N)
        .map(|index| {
            there(index)
                .fetch_op_nb(&world, AtomicOp::Add, 1)
                .expect("begun")
        })
        .collect();
    for (index, add) in adds.into_iter().enumerate().rev() {
        assert_eq!(add.wait().expect("an atomic"), own + index as u64);
    }
    world.barrier().expect("all have checked");
}
