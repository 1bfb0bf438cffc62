//! Setting active messages up on a world, if all of its ranks run the same program.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use pgas_core::{Rank, World};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::identity::{Names, Program, mix};
use crate::panics;
use crate::state::{Am, Attached};
use pgas_core::{Error, MixedBinaries, Result};

/// Sets active messages up on `world`: from here on it receives them. The facade's `init` and
/// `threads` do this.
///
/// The ranks compare their programs: messages name functions by their addresses in the program, so
/// all ranks must run the same file. They skip this where the transport
/// [starts one program](pgas_core::backend::Capabilities::starts_one_program).
///
/// # Cost
///
/// An allreduce of a word, and an allgather of two words a rank. To compare, each process reads its
/// code once. Collective over the world. A second call does nothing; on another thread it waits for
/// the end of the first one.
///
/// # Errors
///
/// On all ranks: [`Error::MixedBinaries`] if a rank runs another program; [`Error::Backend`] if a
/// rank cannot read its own program. The failure of the job while waiting. A second call returns
/// the same error.
///
/// # Examples
///
/// ```
/// use pgas_am::RemoteCalls;
///
/// let world = pgas_core::backend::loopback::world();
/// pgas_am::attach(&world)?;
/// assert_eq!(world.rpc(world.rank(), |x: u64| x + 1, 41)?.wait()?, 42);
/// # Ok::<(), pgas_am::Error>(())
/// ```
#[track_caller]
pub fn attach(world: &World) -> Result<()> {
    attach_as(world, Program::own())
}

/// Whether this rank was [attached](attach()).
///
/// # Cost
///
/// ℓ.
///
/// # Examples
///
/// ```
/// let world = pgas_core::backend::loopback::world();
/// assert!(!pgas_am::is_attached(&world));
/// pgas_am::attach(&world)?;
/// assert!(pgas_am::is_attached(&world));
/// # Ok::<(), pgas_am::Error>(())
/// ```
#[must_use]
pub fn is_attached(world: &World) -> bool {
    crate::state::am(world).is_ok()
}

/// Attaches a rank that runs `program`, if it could find that out.
#[track_caller]
fn attach_as(world: &World, program: Result<&'static Program>) -> Result<()> {
    let known = || world.layer::<Attached>()?.0.names.get();
    // No call is run before the names are known, so none comes here while its thread has the lock.
    let mut attaching = None;
    if known().is_none() {
        world.wait_for("another thread that attaches this rank", || {
            attaching = world.try_attaching();
            Ok(attaching.is_some())
        })?;
    }
    if let Some(names) = known() {
        return names.as_ref().map(drop).map_err(Error::clone);
    }
    let program = program.and_then(|program| Ok((program, build_of(world, program)?)));
    let (program, build) = world
        .team()
        .all_succeeded("looking at the program", program)?;
    panics::note_where_they_are();
    let am = Arc::new(Am::new(world));
    am.handle.give_to(&am);
    // Before the ranks compare, since the first ones that have send calls.
    world.attach(Box::new(Attached(Arc::clone(&am))));
    let names = agree(world, program, build);
    let outcome = names.as_ref().map(|_| ()).map_err(Error::clone);
    let is_first = am.names.set(names).is_ok();
    debug_assert!(is_first, "only this call sets it");
    drop(attaching);
    outcome
}

/// What stands for the build where the transport starts one program: nothing has to be told apart.
const ONE_PROGRAM: u64 = 0;

/// The build of this rank's program, as the ranks compare it.
fn build_of(world: &World, program: &Program) -> Result<u64> {
    if world.capabilities().starts_one_program {
        return Ok(ONE_PROGRAM);
    }
    program.build()
}

/// The description of a rank's program, which the ranks exchange.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Introduction {
    build: u64,
    /// A random number: its share of the secret that tags are made of.
    secret: u64,
}

/// Compares the programs of all ranks, and agrees on a secret.
#[track_caller]
fn agree(world: &World, program: &'static Program, build: u64) -> Result<Names> {
    let own = Introduction {
        build,
        secret: RandomState::new().build_hasher().finish(),
    };
    let all = world.allgather(&[own])?;
    compare(world.rank(), &all)?;
    let secret = all.iter().fold(0, |sum, other| mix(sum ^ other.secret));
    Ok(Names::new(program, build, secret))
}

/// An error if another rank runs another program.
fn compare(rank: Rank, all: &[Introduction]) -> Result<()> {
    let number = |i: usize| Rank::new(u32::try_from(i).expect("ranks have 24 bits"));
    let own = all[rank.index()].build;
    let Some(other) = all.iter().position(|other| other.build != own) else {
        return Ok(());
    };
    Err(Error::from(Box::new(MixedBinaries {
        rank_a: rank,
        build_a: own,
        rank_b: number(other),
        build_b: all[other].build,
    })))
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, mpsc};
    use std::thread;
    use std::time::Duration;

    use pgas_core::Config;
    use pgas_core::backend::loopback;

    use super::*;
    use crate::RemoteCalls as _;
    use crate::identity::READ;

    #[test]
    fn threads_of_a_rank_that_attach_at_once_wait_for_the_one_that_does() {
        const N_THREADS: usize = 4;
        let mut config = Config::default();
        config.check = Some(true);
        config.timeout = Some(Duration::from_secs(30));
        let worlds = loopback::worlds(2, &config).unwrap();
        let begin = Barrier::new(N_THREADS + 1);
        thread::scope(|scope| {
            for _ in 0..N_THREADS {
                scope.spawn(|| {
                    begin.wait();
                    attach(&worlds[0]).unwrap();
                    assert!(is_attached(&worlds[0]));
                });
            }
            begin.wait();
            // The others are within by then, if nothing keeps them out.
            thread::sleep(Duration::from_millis(50));
            attach(&worlds[1]).unwrap();
        });
        thread::scope(|scope| {
            scope.spawn(|| worlds[1].barrier().unwrap());
            let answer = worlds[0].rpc(Rank::new(1), |x: u64| x + 1, 41).unwrap();
            assert_eq!(answer.wait().unwrap(), 42);
            worlds[0].barrier().unwrap();
        });
        thread::scope(|scope| {
            worlds
                .into_iter()
                .for_each(|world| drop(scope.spawn(|| drop(world))));
        });
    }

    #[test]
    fn a_thread_that_waits_for_another_one_to_attach_serves_it() {
        let mut config = Config::default();
        config.timeout = Some(Duration::from_secs(30));
        let worlds = loopback::worlds(2, &config).unwrap();
        let (other, (begins, begun)) = (&worlds[1], mpsc::channel());
        thread::scope(|scope| {
            scope.spawn(|| {
                let world = &worlds[0];
                let _chosen = world.serve_here();
                let has_begun = || Ok(is_attached(world));
                world.wait_for("the other thread", has_begun).unwrap();
                begins.send(()).unwrap();
                attach(world).unwrap();
            });
            scope.spawn(move || {
                let program = Program::own().unwrap();
                let looked: Result<()> = Ok(());
                other.team().all_succeeded("", looked).unwrap();
                // The first thread of the other rank compares its program, and the chosen one waits
                // for that.
                begun.recv().unwrap();
                let build = build_of(other, program).unwrap();
                agree(other, program, build).unwrap();
            });
            attach(&worlds[0]).unwrap();
        });
    }

    #[test]
    fn another_program_is_an_error_that_names_both_builds() {
        let all = |builds: [u64; 3]| builds.map(|build| Introduction { build, secret: 1 });
        assert!(compare(Rank::new(1), &all([7, 7, 7])).is_ok());
        let error = compare(Rank::new(1), &all([7, 7, 9])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("rank 1") && text.contains("rank 2"), "{text}");
        assert!(text.contains("0000000000000009"), "{text}");
    }

    #[test]
    fn what_keeps_a_rank_from_attaching_is_told_to_all() {
        let errors = loopback::run(3, |world| {
            let program = if world.rank() == Rank::new(1) {
                Err(Error::backend(READ, 13, "Permission denied"))
            } else {
                Program::own()
            };
            let error = attach_as(&world, program).unwrap_err();
            let call = crate::RemoteCalls::rpc(&world, Rank::ZERO, |x: u64| x, 1);
            assert!(matches!(call, Err(Error::NotAttached)));
            // The ranks are still in step, and may try again.
            attach(&world).unwrap();
            error.to_string()
        });
        for error in errors {
            assert!(error.contains("code 13"), "{error}");
        }
    }
}
