//! Which collectives are used, MPI's or core's, and how a wait inside of MPI's ends if a rank has
//! left. The conformance suite tests their results.

mod support;

use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use pgas_core::collective::op;
use pgas_core::{Config, Rank, Result, World};
use pgas_testkit::conversation::{Job, serve};
use support::mpirun;

const LIMIT: Duration = Duration::from_secs(60);
/// The argument by which the binary runs as a rank that does what it is told, or one that waits for
/// a rank that leaves early, one of these.
const RANK: &str = "--rank";
const LEAVING: [&str; 2] = ["--leaving=0", "--leaving=1"];

/// A setting of the job.
type Setting = (&'static str, &'static str);
const NETWORK: Setting = ("PGAS_DIRECT", "0");
const DIRECT: Setting = ("PGAS_DIRECT", "1");
/// Ranks with odd numbers are on another host, over MPICH.
const HOSTS: Setting = ("MPIR_CVAR_ODD_EVEN_CLIQUES", "1");

/// What each rank does.
type Check = fn(&World) -> Result<()>;

const CHECKS: &[(&str, Setting, Check)] = &[
    ("each_call_is_one_of_mpi", NETWORK, each_call_is_one_of_mpi),
    (
        "what_mpi_computes_otherwise_is_cores",
        NETWORK,
        what_mpi_computes_otherwise_is_cores,
    ),
    (
        "on_one_host_the_long_ones_that_are_faster_are_mpis",
        DIRECT,
        on_one_host_the_long_ones_that_are_faster_are_mpis,
    ),
];

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(RANK) => {
            obey();
            return ExitCode::SUCCESS;
        }
        Some(argument) => {
            if let Some(rank) = (0..).zip(LEAVING).find(|(_, text)| *text == argument) {
                wait_for_one_that_left(Rank::new(rank.0));
                return ExitCode::SUCCESS;
            }
        }
        None => {}
    }
    let mut arguments = Arguments::from_args();
    // The ranks of one job have the machine's processors for themselves.
    arguments.test_threads = Some(1);
    let mut trials = Vec::new();
    for n_ranks in [2, 3] {
        for &(name, setting, _) in CHECKS {
            trials.push(Trial::test(format!("{name}::{n_ranks}"), move || {
                let mut job = start(RANK, n_ranks, setting);
                job.ask(name, LIMIT).map_err(Failed::from)
            }));
        }
    }
    for setting in [NETWORK, DIRECT, HOSTS] {
        // Over hosts rank 0 waits for the figures of the others, which wait for it.
        for (rank, argument) in LEAVING.iter().enumerate() {
            let (name, value) = setting;
            let name = format!("a_rank_that_left_before_it_began_is_named::{name}={value}::{rank}");
            let expected =
                format!("rank {rank} has left the job while others wait for it in an allgather");
            trials.push(Trial::test(name, move || {
                match start(argument, 3, setting).ask("nothing", LIMIT) {
                    Err(error) if error.contains(&expected) => Ok(()),
                    outcome => Err(format!("not {expected:?}, but {outcome:?}").into()),
                }
            }));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn start(argument: &str, n_ranks: u32, (name, value): Setting) -> Job {
    let mut command = mpirun(n_ranks);
    command
        .arg(argument)
        .env(name, value)
        .env("PGAS_SEGMENT", "1M")
        .env("PGAS_STATS", "1");
    Job::start(command)
}

fn join() -> World {
    let settings = Config::from_env().expect("the launcher's settings");
    pgas_mpi::init(&settings).expect("a rank of the job")
}

fn obey() {
    let world = join();
    let told_by_rank_zero = |line: String| {
        let mut bytes = [0_u8; 120];
        bytes[..line.len()].copy_from_slice(line.as_bytes());
        let told = world.broadcast(Rank::ZERO, bytes).expect("all are here");
        let text = String::from_utf8_lossy(&told);
        text.trim_end_matches('\0').to_owned()
    };
    serve(world.rank() == Rank::ZERO, told_by_rank_zero, |name| {
        let check = CHECKS.iter().find(|(other, ..)| *other == name);
        let (.., check) = check.expect("a check of this test");
        check(&world).expect("the check's operations succeed");
    });
}

/// The rank `leaver` leaves. The others wait for it in a collective that is MPI's even on one host.
fn wait_for_one_that_left(leaver: Rank) {
    let world = join();
    let block = vec![1_u8; 40_000];
    world.allgather(&block).expect("all are here");
    if world.rank() != leaver
        && let Err(error) = world.allgather(&block)
    {
        panic!("{error}");
    }
}

/// How often MPI's `name` is called meanwhile.
fn calls_of(name: &str, body: impl FnOnce() -> Result<()>) -> u64 {
    let count = || {
        let found = pgas_mpi::calls().find(|(other, _)| *other == name);
        found.expect("a call that is counted").1
    };
    let before = count();
    body().expect("the collective succeeds");
    count() - before
}

fn each_call_is_one_of_mpi(world: &World) -> Result<()> {
    let team = world.team().split(Some(7), 0)?.expect("a colour");
    let (me, n) = (team.rank(), team.n_ranks());
    let everybody: Vec<u32> = (0..n).collect();
    let once = |name: &str, body: &dyn Fn() -> Result<()>| {
        assert_eq!(calls_of(name, body), 1, "{name}");
    };
    once("MPI_Ibarrier", &|| team.barrier());
    once("MPI_Ibcast", &|| {
        assert_eq!(team.broadcast(n - 1, me)?, n - 1);
        Ok(())
    });
    once("MPI_Ireduce", &|| {
        let least = team.reduce(0, -i64::from(me), op::Min)?;
        assert_eq!(least, (me == 0).then_some(-i64::from(n - 1)));
        Ok(())
    });
    once("MPI_Iallreduce", &|| {
        let sum = team.allreduce_nb(0x8000_0001_u32, op::Sum).wait()?;
        assert_eq!(sum, 0x8000_0001_u32.wrapping_mul(n));
        Ok(())
    });
    once("MPI_Igather", &|| {
        let all = team.gather(n - 1, &[me])?;
        assert_eq!(all, (me == n - 1).then(|| everybody.clone()));
        Ok(())
    });
    once("MPI_Iallgather", &|| {
        assert_eq!(team.allgather(&[me])?, everybody);
        Ok(())
    });
    once("MPI_Ialltoall", &|| {
        assert_eq!(team.all_to_all(&everybody)?, vec![me; n as usize]);
        Ok(())
    });
    once("MPI_Iscan", &|| {
        assert_eq!(team.scan_inclusive(1_u32, op::Sum)?, me + 1);
        Ok(())
    });
    once("MPI_Iexscan", &|| {
        let before = team.scan_exclusive(1, 40, op::Sum)?;
        assert_eq!(before, if me == 0 { 40 } else { me });
        Ok(())
    });
    // The communicator is freed with the last handle.
    let n_freed = calls_of("MPI_Comm_free", || {
        drop(team);
        Ok(())
    });
    assert_eq!(n_freed, 1);
    world.barrier()
}

fn what_mpi_computes_otherwise_is_cores(world: &World) -> Result<()> {
    let team = world.team();
    let n_calls = calls_of("MPI_Iallreduce", || {
        team.allreduce(0.5, op::Sum)?;
        team.allreduce(1, |a: u32, b: u32| a ^ b)?;
        // Open MPI does not wrap these around.
        assert_eq!(
            team.allreduce(128_u8, op::Sum)?,
            if team.n_ranks() == 2 { 0 } else { 128 }
        );
        team.allreduce(1_u128, op::Max).map(drop)
    });
    assert_eq!(n_calls, 0);
    let n_calls = calls_of("MPI_Iscan", || team.scan_inclusive(0.5, op::Max).map(drop));
    assert_eq!(n_calls, 0);
    world.barrier()
}

fn on_one_host_the_long_ones_that_are_faster_are_mpis(world: &World) -> Result<()> {
    let team = world.team();
    let (me, n) = (team.rank(), team.n_ranks());
    for (len, is_long) in [(1, 0), ((32 << 10) - 1, 0), (32 << 10, 1), (300_000, 1)] {
        let block = |member: u32| vec![u8::try_from(member).expect("few") + 1; len];
        let mine = block(me);
        let all: Vec<u8> = (0..n).flat_map(block).collect();
        let n_calls = calls_of("MPI_Ibcast", || {
            assert!(team.broadcast_slice_nb(1, mine.clone()).wait()? == block(1));
            Ok(())
        });
        assert_eq!(n_calls, is_long, "a broadcast of {len} bytes");
        let n_calls = calls_of("MPI_Igather", || {
            assert!(team.gather(1, &mine)? == (me == 1).then(|| all.clone()));
            Ok(())
        });
        assert_eq!(n_calls, is_long, "a gather of {len} bytes");
        let n_calls = calls_of("MPI_Iallgather", || {
            assert!(team.allgather(&mine)? == all);
            Ok(())
        });
        assert_eq!(n_calls, is_long, "an allgather of {len} bytes");
        let n_calls = calls_of("MPI_Ialltoall", || {
            assert!(team.all_to_all(&mine.repeat(n as usize))? == all);
            Ok(())
        });
        let is_very_long = u64::from(len >= 256 << 10);
        assert_eq!(n_calls, is_very_long, "an all-to-all of {len} bytes");
        let n_calls = calls_of("MPI_Iallreduce", || {
            let mut most = mine.clone();
            team.allreduce_slice(&mut most, op::Max)?;
            assert!(most == block(n - 1));
            Ok(())
        });
        assert_eq!(n_calls, 0, "an allreduce of {len} bytes");
    }
    world.barrier()
}
