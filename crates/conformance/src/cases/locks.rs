//! Locks of all ranks: one holder at a time, limits of waits, refusals.

use std::thread;
use std::time::Duration;

use pgas_core::collective::op::Sum;
use pgas_core::{Error, GlobalPtr, Lock, Rank, Result, Symmetric, World, as_handler};

use super::case;
use crate::Case;
use crate::support::assert_panics;
use pgas_testkit::rng_of;

pub(super) const CASES: &[Case] = &[
    case!(1, holders_of_a_lock_exclude_each_other),
    case!(1, who_gives_up_a_lock_holds_nobody_up),
    case!(1, a_lock_may_be_given_up_at_any_time),
    case!(1, threads_of_a_rank_take_a_lock_in_turn),
    case!(1, a_lock_is_refused_where_nothing_may_wait),
    case!(2, a_guard_that_was_leaked_ends_with_the_lock),
];

/// What only the holder of a lock does: a sum in two words, read and written again.
fn add_under_the_lock(world: &World, pair: GlobalPtr<[u64; 2]>) -> Result<()> {
    let [n, twice] = pair.get(world)?;
    assert_eq!(twice, 2 * n, "somebody else was in between");
    pair.put(world, [n + 1, twice + 2])
}

/// Of the last rank, which is not the lock's home.
fn last(world: &World, pairs: &Symmetric<[u64; 2]>) -> GlobalPtr<[u64; 2]> {
    pairs.on(Rank::new(world.n_ranks() - 1))
}

fn holders_of_a_lock_exclude_each_other(world: &World) -> Result<()> {
    const ROUNDS: u64 = 30;
    let lock = Lock::new(world, Rank::new(world.n_ranks() / 2))?;
    let pairs = world.alloc_symmetric(1)?;
    let pair = last(world, &pairs);
    for round in 0..ROUNDS {
        let guard = lock.lock()?;
        add_under_the_lock(world, pair)?;
        if round % 2 == 0 {
            guard.unlock()?;
        }
    }
    world.barrier()?;
    assert_eq!(pair.get(world)?[0], ROUNDS * u64::from(world.n_ranks()));
    world.barrier()?;
    members_exclude_each_other(world)
}

/// Two teams, each with a lock of its own, which its members take as often as those of no other.
fn members_exclude_each_other(world: &World) -> Result<()> {
    let me = world.rank().number();
    let team = world.team().split(Some(me % 2), world.n_ranks() - me)?;
    let team = team.expect("a colour");
    let lock = Lock::new(&team, team.n_ranks() / 2)?;
    assert_eq!(lock.team().n_ranks(), team.n_ranks());
    let pairs = team.alloc_symmetric(1)?;
    let (pair, rounds) = (pairs.member(0), u64::from(10 + me % 2));
    for _ in 0..rounds {
        let guard = lock.lock()?;
        add_under_the_lock(world, pair)?;
        guard.unlock()?;
    }
    team.barrier()?;
    assert_eq!(pair.get(world)?[0], rounds * u64::from(team.n_ranks()));
    world.barrier()
}

/// Rank 0 has the lock while all others give up; then their places are passed over, and taken up
/// again.
fn who_gives_up_a_lock_holds_nobody_up(world: &World) -> Result<()> {
    let lock = Lock::new(world, Rank::ZERO)?;
    let pairs = world.alloc_symmetric(1)?;
    let pair = last(world, &pairs);
    for round in 0..3_u32 {
        let holder = Rank::new(round % world.n_ranks());
        let guard = (world.rank() == holder).then(|| lock.lock()).transpose()?;
        world.barrier()?;
        if world.rank() != holder {
            assert!(lock.try_lock()?.is_none());
            assert!(lock.lock_within(Duration::from_micros(100))?.is_none());
            assert!(
                lock.try_lock()?.is_none(),
                "its place is in the queue still"
            );
        }
        world.barrier()?;
        drop(guard);
        if round == 1 {
            world.barrier()?;
        }
        // Some take up their places, others come to the end.
        if world.rank().number() % 2 == round % 2 {
            let _guard = lock.lock()?;
            add_under_the_lock(world, pair)?;
        }
        world.barrier()?;
        let guard = lock.lock_within(Duration::from_secs(60))?;
        assert!(guard.is_some(), "nobody keeps it for long");
        add_under_the_lock(world, pair)?;
        drop(guard);
        world.barrier()?;
    }
    world.barrier()
}

fn a_lock_may_be_given_up_at_any_time(world: &World) -> Result<()> {
    let lock = Lock::new(world, Rank::ZERO)?;
    let pairs = world.alloc_symmetric(1)?;
    let pair = last(world, &pairs);
    let mut rng = rng_of(world, 90);
    let mut n_taken = 0_u64;
    for _ in 0..60 {
        let guard = match rng.u8(..4) {
            0 => Some(lock.lock()?),
            1 => lock.try_lock()?,
            _ => lock.lock_within(Duration::from_micros(rng.u64(..300)))?,
        };
        if guard.is_some() {
            add_under_the_lock(world, pair)?;
            n_taken += 1;
        }
    }
    let all = world.allreduce(n_taken, Sum)?;
    let guard = lock.lock()?;
    assert_eq!(pair.get(world)?, [all, 2 * all]);
    drop(guard);
    world.barrier()
}

fn threads_of_a_rank_take_a_lock_in_turn(world: &World) -> Result<()> {
    let lock = Lock::new(world, Rank::ZERO)?;
    let pairs = world.alloc_symmetric(1)?;
    let pair = last(world, &pairs);
    let take = || -> Result<()> {
        for _ in 0..10 {
            let _guard = lock.lock()?;
            add_under_the_lock(world, pair)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let other = scope.spawn(take);
        take()?;
        other.join().expect("the other thread does not panic")
    })?;
    world.barrier()?;
    assert_eq!(pair.get(world)?[0], 20 * u64::from(world.n_ranks()));
    world.barrier()
}

fn a_lock_is_refused_where_nothing_may_wait(world: &World) -> Result<()> {
    let lock = Lock::new(world, Rank::ZERO)?;
    let refused = as_handler(|| lock.lock().map(drop));
    assert!(
        matches!(refused, Err(Error::InHandler { .. })),
        "{refused:?}"
    );
    let refused = as_handler(|| lock.try_lock().map(drop));
    assert!(
        matches!(refused, Err(Error::InHandler { .. })),
        "{refused:?}"
    );
    let guard = lock.lock()?;
    assert_panics("this thread has the lock already", || lock.lock());
    let refused = as_handler(|| lock.lock().map(drop)).expect_err("it would wait for itself");
    let text = refused.to_string();
    assert!(
        text.contains("a lock that the handler's own thread has"),
        "{text}"
    );
    drop(guard);
    drop(lock.lock()?);
    world.barrier()
}

fn a_guard_that_was_leaked_ends_with_the_lock(world: &World) -> Result<()> {
    let pairs = world.alloc_symmetric(1)?;
    let lock = Lock::new(world, Rank::new(world.n_ranks() - 1))?;
    let leaks = world.rank() == Rank::ZERO;
    if leaks {
        let guard = lock.lock()?;
        add_under_the_lock(world, last(world, &pairs))?;
        #[expect(clippy::mem_forget, reason = "a guard that is leaked")]
        std::mem::forget(guard);
    }
    world.barrier()?;
    if leaks {
        drop(lock);
    } else {
        let _guard = lock.lock()?;
        add_under_the_lock(world, last(world, &pairs))?;
    }
    world.barrier()?;
    let [n, _] = last(world, &pairs).get(world)?;
    assert_eq!(n, u64::from(world.n_ranks()));
    world.barrier()
}
