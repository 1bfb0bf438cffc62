//! Chains, joins and promises of futures: long ones, many, concurrent ones, and dropped ones.

mod leaving;
mod long;
mod panics;
mod promises;

use std::sync::atomic::{AtomicU64, Ordering};

use pgas_am::{Completes, Promise, RemoteCalls, quiet, when_all};
use pgas_core::backend::loopback;
use pgas_core::collective::op::Sum;
use pgas_core::{Rank, World};

/// Runs `body` on `n` ranks.
fn ranks<R: Send>(n: u32, body: impl Fn(&World) -> pgas_am::Result<R> + Sync) -> Vec<R> {
    crate::ranks(n, |world| {
        let result = body(&world)?;
        world.barrier()?;
        Ok(result)
    })
}

fn alone() -> World {
    let world = loopback::world();
    pgas_am::attach(&world).unwrap();
    world
}

#[test]
fn what_is_chained_to_a_pending_collective_runs() {
    ranks(3, |world| {
        for round in 0..100_u64 {
            // The others begin theirs later, so that this one is pending.
            if world.rank() != Rank::ZERO {
                world.rpc(Rank::ZERO, |x: u64| x, round)?.wait()?;
            }
            let sum = || world.team().allreduce_nb(round, Sum);
            let chained = sum().then(|sum| sum + 1);
            let joined = when_all((sum(), sum())).then(|(a, b)| a + b);
            let promise = Promise::new(world)?;
            sum().fulfils(&promise);
            let barrier = world.barrier_nb();
            let met = barrier.then(|()| "met");
            assert_eq!(chained.wait()?, 3 * round + 1);
            assert_eq!(joined.wait()?, 6 * round);
            promise.finalize().wait()?;
            assert_eq!(met.wait()?, "met");
        }
        Ok(())
    });
}

#[test]
fn a_complete_collective_may_be_taken_where_nothing_may_wait() {
    ranks(2, |world| {
        let mut event = world.team().allreduce_nb(1_u64, Sum);
        while !event.test()? {}
        assert_eq!(pgas_core::as_handler(|| event.wait())?, 2);
        let event = world.team().allreduce_nb(1_u64, Sum);
        world.barrier()?;
        world.progress()?;
        assert_eq!(pgas_core::as_handler(|| event.wait())?, 2);
        Ok(())
    });
}

#[test]
fn the_condition_of_a_wait_for_a_signal_runs_as_a_handler() {
    ranks(1, |world| {
        let word = world.alloc::<u64>(1)?;
        let seen = word.wait_until_nb(world, |n| n == 1 && pgas_core::in_handler());
        let seen = seen.then(|n| n + 1);
        word.put(world, 1)?;
        assert_eq!(seen.wait()?, 2);
        assert_eq!(
            word.wait_until_nb(world, |_| pgas_core::in_handler())
                .wait()?,
            1
        );
        Ok(())
    });
}

#[test]
fn an_action_may_fulfil_make_and_drop_futures() {
    ranks(1, |world| {
        let first = Promise::<u64>::of_value(world)?;
        let second = Promise::<u64>::of_value(world)?;
        let (fulfils, again) = (second.clone(), first.clone());
        let chained = first.future().then(move |x| {
            let inner = again.future().then(move |y| x + y);
            let dropped = again.future();
            drop(dropped);
            fulfils.fulfil_with(x);
            inner
        });
        let followed = second.future().then(|x| x + 1);
        first.fulfil_with(7);
        assert_eq!(chained.wait()?.wait()?, 14);
        assert_eq!(followed.wait()?, 8);
        Ok(())
    });
}

#[test]
fn quiet_does_not_wait_for_futures_that_only_the_program_can_fulfil() {
    ranks(2, |world| {
        let promise = Promise::new(world)?;
        let joined = when_all((promise.future(), promise.future())).then(|_| 1);
        let half = world.team().split(Some(world.rank().number()), 0)?.unwrap();
        let sum = world.team().allreduce_nb(1_u64, Sum).future();
        let alone = half.barrier_nb().then(|()| 2);
        let sum = sum.then(|x| x);
        quiet(world)?;
        promise.fulfil(1);
        assert_eq!(joined.wait()?, 1);
        assert_eq!(alone.wait()?, 2);
        assert_eq!(sum.wait()?, 2);
        Ok(())
    });
}

/// An action may send as a handler may, and `quiet` waits for what it has sent.
#[test]
fn quiet_waits_for_what_actions_of_joined_calls_have_sent() {
    static N_RUN: AtomicU64 = AtomicU64::new(0);
    ranks(3, |world| {
        for round in 1..=50 {
            let next = Rank::new((world.rank().number() + 1) % 3);
            let call = || world.rpc(next, |x: u64| x, 1);
            let weak = world.downgrade();
            drop(when_all((call()?, call()?, call()?)).then(move |_| {
                let world = weak.upgrade().unwrap();
                world
                    .rpc_ff(next, |()| _ = N_RUN.fetch_add(1, Ordering::Relaxed), ())
                    .unwrap();
            }));
            quiet(world)?;
            assert_eq!(N_RUN.load(Ordering::Relaxed), 3 * round);
            world.barrier()?;
        }
        Ok(())
    });
}
