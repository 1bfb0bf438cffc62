//! Whole jobs over MPI: how they end when a rank fails, what bad input gets, one word hammered from all sides,
//! and worlds of communicators of a program that has started MPI itself.
//!
//! Started by cargo, the binary starts itself under the launcher of the MPI that it was built with, as ranks that
//! play one of the [`PARTS`].

mod support;

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use mpi::Threading;
use mpi::traits::{Communicator, CommunicatorCollectives};
use pgas_containers::HashMap;
use pgas_core::config::Progress;
use pgas_core::{Config, Error, Rank, World};
use pgas_testkit::Deadline;
use pgas_testkit::fault::{Fault, STALL, give_up};
use pgas_testkit::job::{self, Ended, eventually};
use support::{is_open_mpi, launcher, mpirun};

/// The argument by which the binary runs as a rank; the part follows.
const PART: &str = "--part";
/// What a test may take at most.
const LIMIT: Duration = Duration::from_secs(100);
/// What the end of a job may take under a foreign launcher, on a busy machine.
const END: Duration = Duration::from_secs(20);

type Part = fn(&str);

const PARTS: &[(&str, Part)] = &[
    ("fail", fail),
    ("wait", wait),
    ("start", start),
    ("hammer", hammer),
    ("pay", pay),
    ("attach", attach),
    ("one_thread", one_thread),
    ("return_early", return_early),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name, rest @ ..] = &args[..]
        && flag == PART
    {
        let (_, part) = PARTS
            .iter()
            .find(|(other, _)| other == name)
            .expect("a part");
        part(rest.first().map_or("", String::as_str));
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let mut trials = Vec::new();
    for direct in ["1", "0"] {
        let way = if direct == "1" { "direct" } else { "window" };
        for fault in Fault::ALL {
            let name = format!("{way}::a_rank_that_fails_ends_the_job::{}", fault.name());
            trials.push(trial(name, move || ends_by(fault, direct)));
        }
        let mut add = |name: &str, body: fn(&str)| {
            trials.push(trial(format!("{way}::{name}"), move || body(direct)));
        };
        add("a_killed_launcher_leaves_nothing_behind", launcher_killed);
        add("a_rank_that_returns_early_ends_the_job", returned_early);
        add("segments_of_different_sizes_are_refused", sizes_differ);
        add("a_segment_that_cannot_be_is_refused", size_refused);
        add("nothing_is_lost_when_all_ranks_hammer_one_word", hammered);
        add(
            "a_program_that_has_started_mpi_makes_worlds_of_it",
            attached,
        );
        add(
            "a_program_for_one_thread_uses_the_world_from_that_thread",
            attached_by_one,
        );
    }
    if !is_open_mpi() {
        let name = "hosts::nothing_is_lost_when_two_hosts_hammer_one_word";
        trials.push(trial(name.to_owned(), hammered_from_two_hosts));
    }
    let name = "window::an_operation_makes_the_calls_that_its_price_says";
    trials.push(trial(name.to_owned(), prices));
    trials.push(trial(
        "ways_that_differ_are_refused".to_owned(),
        ways_differ,
    ));
    trials.push(trial(
        "the_other_mpis_launcher_is_named".to_owned(),
        other_launcher,
    ));
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

#[track_caller]
fn assert_refused(ended: &Ended, n_ranks: usize, text: &str) {
    assert_ne!(ended.code(), 0, "{ended:?}");
    let told = ended.stdout.matches(text).count();
    assert_eq!(told, n_ranks, "every rank says {text:?}: {ended:?}");
    assert_nothing_left(ended);
}

fn world() -> World {
    let config = Config::from_env().expect("settings that mean something");
    pgas_mpi::init(&config).expect("a rank of the job")
}

// How jobs end.

fn ends_by(fault: Fault, direct: &str) {
    let mut command = ranks(3, "fail", fault.name(), direct);
    command.env(STALL.0, STALL.1);
    let ended = run(command);
    assert!(ended.took < END, "{ended:?}");
    assert_nothing_left(&ended);
    // MPICH's launcher takes a rank that exits with 0 for one that has done its part.
    assert!(ended.code() != 0 || fault == Fault::Exit(0), "{ended:?}");
    let (stdout, stderr) = (&ended.stdout, &ended.stderr);
    match fault {
        Fault::Panic => assert!(stderr.contains("pgas: rank 1 panicked"), "{ended:?}"),
        Fault::AbortJob => {
            let text = "pgas: rank 1 ended the job: no way on";
            assert!(stderr.contains(text), "{ended:?}");
            assert_eq!(ended.code(), 5, "{ended:?}");
        }
        Fault::Leave => {
            let text = "rank 1 has left the job while others wait for it in a barrier";
            assert!(stdout.contains(text), "{ended:?}");
        }
        Fault::Stop => {
            let text = "rank 1 has been stopped for 1s";
            assert!(stdout.contains(text), "{ended:?}");
        }
        // These are the launcher's to tell.
        Fault::Exit(_) | Fault::Abort | Fault::Kill | Fault::Segfault => {}
    }
}

fn fail(fault: &str) {
    let fault = Fault::ALL.into_iter().find(|other| other.name() == fault);
    let fault = fault.expect("the name of a fault");
    let world = world();
    world.barrier().expect("all are here");
    if world.rank().number() == 1 {
        fault.strike(world);
    }
    if let Err(error) = world.barrier() {
        give_up(world.rank(), &error);
    }
}

fn launcher_killed(direct: &str) {
    let mut job = job::start(ranks(2, "wait", "", direct));
    job.lines(2);
    let processes = job.processes();
    assert!(processes.len() >= 3, "{processes:?}");
    job.signal(rustix::process::Signal::KILL);
    eventually("the ranks end with their launcher", || {
        let left = job.processes();
        left.iter().all(|pid| job::state_of(*pid) == Some('Z'))
    });
    let ended = job.end();
    assert_nothing_left(&ended);
}

/// Waits for ever, as a rank whose others compute for long.
fn wait(_: &str) {
    let world = world();
    job::say("here");
    let error = world.wait_for("nothing", || Ok(false));
    drop(error);
}

fn returned_early(direct: &str) {
    let ended = run(ranks(3, "return_early", "", direct));
    assert!(ended.took < END, "{ended:?}");
    assert_ne!(ended.code(), 0, "{ended:?}");
    // Who is heard before the launcher ends all is up to chance.
    let texts = [
        "rank 2 gives up",
        "rank 2 has left the job while others wait",
    ];
    let is_told = texts.iter().any(|text| ended.stdout.contains(text));
    assert!(is_told, "{ended:?}");
    assert_nothing_left(&ended);
}

/// A `main` that returns an error on one rank: the world is dropped first.
fn return_early(_: &str) {
    let world = world();
    let rank = world.rank();
    if rank.number() == 2 {
        drop(world);
        job::say("rank 2 gives up");
        job::exit(1);
    }
    if let Err(error) = world.barrier() {
        give_up(rank, &error);
    }
}

// Bad input.

/// Starts, and says what is wrong.
fn start(_: &str) {
    let made = Config::from_env().and_then(|config| pgas_mpi::init(&config));
    if let Err(error) = made {
        let text = error.to_string();
        assert_eq!(text.lines().count(), 1, "one line: {text}");
        job::say(&text);
        // A launcher ends all as soon as one has: let each be heard.
        std::thread::sleep(Duration::from_secs(1));
        job::exit(3);
    }
}

fn sizes_differ(direct: &str) {
    let mut command = mpirun_with_each("PGAS_SEGMENT", &["1M", "2M"], &[PART, "start"]);
    command.env("PGAS_DIRECT", direct);
    let text = "all ranks must have the same, but rank 0 has 1048576 and rank 1 has 2097152";
    assert_refused(&run(command), 2, text);
}

fn size_refused(direct: &str) {
    let mut command = mpirun(2);
    command
        .args([PART, "start"])
        .env("PGAS_SEGMENT", "2T")
        .env("PGAS_DIRECT", direct);
    assert_refused(
        &run(command),
        2,
        "PGAS_SEGMENT=2199023255552: a segment has",
    );
}

fn ways_differ() {
    let mut command = mpirun_with_each("PGAS_DIRECT", &["1", "0"], &[PART, "start"]);
    command.env("PGAS_SEGMENT", "1M");
    let text = "all ranks must have the same, but rank 0 has 1 and rank 1 has 0";
    assert_refused(&run(command), 2, text);
}

fn other_launcher() {
    let mut command = if is_open_mpi() {
        Command::new("mpiexec.hydra")
    } else {
        let mut command = Command::new("mpirun.openmpi");
        command.args(["--allow-run-as-root", "--oversubscribe"]);
        command
    };
    command.args(["-n", "2"]);
    command.arg(std::env::current_exe().expect("this program"));
    command.args([PART, "start"]).env("PGAS_SEGMENT", "1M");
    let library = pgas_mpi::library().expect("a name");
    let text = format!("this program was built with {library}, and ");
    assert_refused(&run(command), 2, &text);
}

// Atomics from all sides.

fn hammered(direct: &str) {
    assert_well(&run(ranks(4, "hammer", "1000", direct)));
}

/// MPICH can take the ranks with odd numbers for those of another host. Then half of the atomics are the CPU's own,
/// and the other half come by message.
fn hammered_from_two_hosts() {
    let mut command = ranks(4, "hammer", "100", "1");
    command.env("MPIR_CVAR_ODD_EVEN_CLIQUES", "1");
    assert_well(&run(command));
}

/// All ranks change the same two words of rank 0 at once, by operations that differ in kind and in form: what one
/// form adds, another one must not lose.
fn hammer(n_added: &str) {
    let n_added: u64 = n_added.parse().expect("a number");
    let world = world();
    let words = world.alloc_symmetric::<u64>(2).expect("two words");
    let (sum, bits) = (words.on(Rank::ZERO), words.on(Rank::ZERO).offset(1));
    let own = 1_u64 << world.rank().number();
    world.barrier().expect("all are here");
    hammer_words(&world, sum, bits, own, n_added).expect("atomics that work");
    world.barrier().expect("all are here");
    let total = sum.atomic_load(&world).expect("a load");
    assert_eq!(total, 5 * n_added * u64::from(world.n_ranks()));
    let left = bits.atomic_load(&world).expect("a load");
    assert_eq!(left, (1 << world.n_ranks()) - 1);
}

fn hammer_words(
    world: &World,
    sum: pgas_core::GlobalPtr<u64>,
    bits: pgas_core::GlobalPtr<u64>,
    own: u64,
    n_added: u64,
) -> pgas_core::Result<()> {
    use pgas_core::backend::AtomicOp;
    for _ in 0..n_added {
        sum.fetch_add(world, 1)?;
        sum.atomic_op(world, AtomicOp::Add, 1)?;
        sum.fetch_op_nb(world, AtomicOp::Add, 1)?.wait()?;
        sum.cast::<i64>().fetch_add(world, 1)?;
        let mut seen = sum.atomic_load(world)?;
        while let Err(now) = sum.compare_exchange(world, seen, seen + 1)? {
            seen = now;
        }
        bits.fetch_xor(world, own)?;
        bits.fetch_and(world, !own)?;
        let former = bits.fetch_or(world, own)?;
        assert_eq!(former & own, 0, "nobody else sets this bit");
    }
    Ok(())
}

// Prices.

fn prices() {
    let mut command = ranks(2, "pay", "", "0");
    command.env("PGAS_STATS", "1");
    assert_well(&run(command));
}

/// Counts the calls of MPI that operations of a hash map make: one for each R, W and A, which its methods'
/// prices are stated and tested in, one that completes it here, and two more that complete a put and its signal.
fn pay(_: &str) {
    let world = world();
    let map = HashMap::<u64, u64>::with_capacity(&world, 1 << 10).expect("a map");
    if world.rank() == Rank::ZERO {
        let price = |what: &str, operation: &dyn Fn(u64)| {
            let (costs, calls) = (world.costs(), calls());
            (0..200).for_each(operation);
            let paid = |name: &str| calls_of(name) - calls.get(name).copied().unwrap_or(0);
            let paid_for = |names: &[&str]| names.iter().map(|name| paid(name)).sum::<u64>();
            let now = world.costs();
            let (r, w, a) = (
                now.reads - costs.reads,
                now.writes - costs.writes,
                now.atomics - costs.atomics,
            );
            assert!(a >= 200, "{what} is not free: {a}");
            assert_eq!(paid_for(&["MPI_Get", "MPI_Rget"]), r, "{what}");
            assert_eq!(paid_for(&["MPI_Put", "MPI_Rput"]), w, "{what}");
            let atomics = [
                "MPI_Fetch_and_op",
                "MPI_Compare_and_swap",
                "MPI_Accumulate",
                "MPI_Rget_accumulate",
            ];
            assert_eq!(paid_for(&atomics), a, "{what}");
            assert!(paid("MPI_Win_flush_local") <= r + w + a, "{what}");
            // A put is complete before its signal is, and that before the method returns.
            assert!(paid("MPI_Win_flush") <= 2 * w, "{what}");
            let others = [
                "MPI_Win_flush_all",
                "MPI_Win_flush_local_all",
                "MPI_Ibarrier",
            ];
            assert_eq!(paid_for(&others), 0, "{what}");
        };
        price("insert", &|key| {
            map.insert(&key, key).expect("room");
        });
        price("find", &|key| {
            assert_eq!(map.find(&key).expect("no error"), Some(key));
        });
        price("fetch_add", &|key| {
            map.fetch_add(&key, 1).expect("room");
        });
        price("find of nothing", &|key| {
            assert_eq!(map.find(&(key + 1000)).expect("no error"), None);
        });
    }
    world.barrier().expect("all are here");
}

fn calls() -> BTreeMap<&'static str, u64> {
    pgas_mpi::calls().collect()
}

fn calls_of(name: &str) -> u64 {
    calls().get(name).copied().expect("the name of a call")
}

// Programs that have started MPI themselves.

fn attached(direct: &str) {
    let mut command = ranks(4, "attach", "", direct);
    // As `init` would have told Open MPI.
    command.env("OMPI_MCA_osc", "sm,pt2pt");
    assert_well(&run(command));
}

/// Worlds of a part of the processes, in another order, side by side and one after another.
fn attach(_: &str) {
    let (universe, _) = mpi::initialize_with_threading(Threading::Serialized).expect("MPI");
    let all = universe.world();
    let config = Config::from_env().expect("settings that mean something");
    let (rank, n_ranks) = (all.rank(), all.size());
    for round in 0..3 {
        let color = mpi::topology::Color::with_value((rank + round) % 2);
        let half = all
            .split_by_color_with_key(color, n_ranks - rank)
            .expect("a part");
        let world = pgas_mpi::init_on(&half, &config).expect("a world of a half");
        let whole = pgas_mpi::init_on(&all, &config).expect("a world of all");
        assert_eq!(world.rank().number().cast_signed(), half.rank());
        assert_eq!(world.n_ranks() * 2, whole.n_ranks());
        let sum: u64 = whole.allreduce(1, |a, b| a + b).expect("a sum");
        assert_eq!(sum, u64::from(whole.n_ranks()));
        let cell = world.alloc_symmetric::<u64>(1).expect("a word");
        cell.on(Rank::ZERO).fetch_add(&world, 1).expect("an atomic");
        world.barrier().expect("all are here");
        let n = cell.on(Rank::ZERO).get(&world).expect("a get");
        assert_eq!(n, u64::from(world.n_ranks()));
    }
    all.barrier();
}

fn attached_by_one(direct: &str) {
    let mut command = ranks(2, "one_thread", "", direct);
    command.env("OMPI_MCA_osc", "sm,pt2pt");
    assert_well(&run(command));
}

/// With `MPI_THREAD_FUNNELED` other threads get an error, and there is no progress thread.
fn one_thread(_: &str) {
    let (universe, level) = mpi::initialize_with_threading(Threading::Funneled).expect("MPI");
    assert_eq!(level, Threading::Funneled);
    let mut config = Config::from_env().expect("settings that mean something");
    config.progress = Progress::Thread;
    let error = pgas_mpi::init_on(&universe.world(), &config).expect_err("no thread for it");
    assert!(matches!(error, Error::Setting(_)), "{error}");
    config.progress = Progress::Poll;
    let world = pgas_mpi::init_on(&universe.world(), &config).expect("a world");
    world.barrier().expect("all are here");
    let elsewhere = std::thread::spawn(pgas_mpi::library).join();
    let elsewhere = elsewhere.expect("an error, not a panic");
    assert!(elsewhere.is_err(), "another thread");
    world.barrier().expect("all are here");
}
