//! What the ranks of the jobs do.

use std::collections::BTreeSet;
use std::fs;
use std::process::ExitCode;

use pgas_conformance::{Case, SUITE, case_named};
use pgas_core::{Config, Rank, Result, World};
use pgas_testkit::fault::{Fault, give_up};
use pgas_testkit::job::say;

use crate::waits;
use crate::worlds::Worlds;

/// What rank 0 prints before a rank fails.
pub(crate) const ALL_ARE_HERE: &str = "all ranks are here";

/// Plays the part that `words` name.
pub(crate) fn play(words: &[String]) -> ExitCode {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let played = match words[..] {
        ["look-around"] => look_around(),
        ["suite"] => run_cases(SUITE.iter()),
        ["suite", ..] => run_cases(
            words[1..]
                .iter()
                .map(|name| case_named(name).expect("a case")),
        ),
        ["wait", kind, how] => waits::take_part(kind, how),
        ["handler"] => waits::be_stuck_in_a_handler(),
        ["stop", rank] => stop(rank.parse().expect("a rank")),
        ["fail", fault, rank] => fail(fault, rank.parse().expect("a rank")),
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

pub(crate) fn join() -> Result<World> {
    pgas_mpi::init(&Config::from_env()?)
}

/// Says which host this is, whose files are in its memory, and whose segments are mapped.
fn look_around() -> Result<()> {
    let world = join()?;
    let me = world.rank();
    fs::write(format!("/dev/shm/rank {me}"), "").expect("a file in this host's memory");
    world.barrier()?;
    let files = fs::read_dir("/dev/shm").expect("this host's memory");
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    let near: BTreeSet<u32> = names
        .filter_map(|name| name.strip_prefix("rank ")?.parse().ok())
        .collect();
    let ranks = (0..world.n_ranks()).map(Rank::new);
    let direct: Vec<_> = ranks
        .filter(|rank| world.is_direct(*rank))
        .map(Rank::number)
        .collect();
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy();
    let near: Vec<_> = near.into_iter().collect();
    say(&format!(
        "rank {me} on {host} near {near:?} direct {direct:?}"
    ));
    world.barrier()
}

/// Runs cases one after the other.
fn run_cases(cases: impl Iterator<Item = &'static Case>) -> Result<()> {
    // MPI ends with this world, so this world is the last one to end.
    let outer = join()?;
    let mut worlds = Worlds::new(&outer, Config::from_env()?);
    let mut n_cases = 0;
    for case in cases.filter(|case| case.min_ranks <= outer.n_ranks()) {
        if outer.rank() == Rank::ZERO {
            say(&format!("case {}", case.name));
        }
        worlds.run(case)?;
        n_cases += 1;
    }
    if outer.rank() == Rank::ZERO {
        say(&format!("{n_cases} cases passed"));
    }
    Ok(())
}

/// One rank is stopped before a barrier.
fn stop(rank: u32) -> Result<()> {
    let world = join()?;
    world.barrier()?;
    if world.rank().number() == rank {
        Fault::Stop.strike(world);
    }
    if let Err(error) = world.barrier() {
        give_up(world.rank(), &error);
    }
    Ok(())
}

/// One rank fails while the others wait for it.
fn fail(fault: &str, rank: u32) -> Result<()> {
    let world = join()?;
    let word = world.alloc_symmetric::<u64>(1)?;
    word.on(Rank::ZERO).fetch_add(&world, 1)?;
    world.barrier()?;
    if world.rank() == Rank::ZERO {
        say(ALL_ARE_HERE);
    }
    world.barrier()?;
    if world.rank().number() == rank {
        Fault::named(fault).expect("a fault").strike(world);
    }
    word.here().wait_until(&world, |value| value == u64::MAX)?;
    Ok(())
}
