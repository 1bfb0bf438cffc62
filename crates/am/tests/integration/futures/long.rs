//! Long chains and deep joins, on a small stack.

use std::thread;

use pgas_am::{Error, PgasFuture, Promise, RemoteCalls, quiet, when_all};
use pgas_core::World;
use pgas_testkit::Deadline;

use super::alone;
use crate::LIMIT;

/// The links of a long chain.
const LONG: u64 = if cfg!(debug_assertions) {
    200_000
} else {
    1_000_000
};

/// Runs `body` on a thread whose stack is no larger than that of a small thread pool's.
fn on_a_small_stack(body: impl FnOnce() + Send) {
    let _deadline = Deadline::new(thread::current().name().unwrap_or("a test"), LIMIT);
    thread::scope(|scope| {
        let small = thread::Builder::new().stack_size(256 << 10);
        small.spawn_scoped(scope, body).unwrap().join().unwrap();
    });
}

#[test]
fn long_chains_of_operations_are_completed_and_dropped_on_a_small_stack() {
    /// Asks `n` times, each time when the answer before is there, and counts on the way back.
    fn count(world: &World, n: u64) -> PgasFuture<u64> {
        let answer = world.rpc(world.rank(), |n: u64| n, n).unwrap();
        let world = world.clone();
        answer.and_then(move |n| match n {
            0 => PgasFuture::ready(0),
            n => count(&world, n - 1).then(|x| x + 1),
        })
    }
    on_a_small_stack(|| {
        let world = alone();
        assert_eq!(count(&world, LONG / 10).wait().unwrap(), LONG / 10);
        drop(count(&world, LONG / 10));
        quiet(&world).unwrap();

        let chain = |mut future: PgasFuture<u64>| {
            for _ in 0..LONG {
                future = future.and_then(|x| PgasFuture::ready(x + 1));
            }
            future
        };
        let promise = Promise::<u64>::of_value(&world).unwrap();
        let long = chain(promise.future());
        promise.fulfil_with(0);
        assert_eq!(long.wait().unwrap(), LONG);
        let promise = Promise::<u64>::of_value(&world).unwrap();
        let long = chain(promise.future()).shared();
        drop(promise);
        for _ in 0..2 {
            assert!(matches!(long.wait(), Err(Error::BrokenPromise)));
        }
        let promise = Promise::<u64>::of_value(&world).unwrap();
        drop(chain(promise.future()));
        drop(promise);

        // The operation of each action is complete only later.
        let promises: Vec<_> = (0..LONG)
            .map(|_| Promise::<u64>::of_value(&world).unwrap())
            .collect();
        let mut long = PgasFuture::ready(0_u64);
        for promise in &promises {
            let next = promise.future();
            long = long.and_then(move |x| next.then(move |y| x + y));
        }
        for promise in promises.iter().rev() {
            promise.fulfil_with(1);
        }
        assert_eq!(long.wait().unwrap(), LONG);
    });
}

#[test]
fn long_chains_are_built_completed_and_dropped_on_a_small_stack() {
    on_a_small_stack(|| {
        let world = alone();
        let chain = |mut future: PgasFuture<u64>| {
            for _ in 0..LONG {
                future = future.then(|x| x + 1);
            }
            future
        };
        let promise = Promise::<u64>::of_value(&world).unwrap();
        let long = chain(promise.future());
        promise.fulfil_with(0);
        assert_eq!(long.wait().unwrap(), LONG);

        let call = world.rpc(world.rank(), |x: u64| x, 0).unwrap();
        assert_eq!(chain(call).wait().unwrap(), LONG);

        // The source is dropped, then the end is, then both.
        let promise = Promise::<u64>::of_value(&world).unwrap();
        let long = chain(promise.future());
        drop(promise);
        assert!(matches!(long.wait(), Err(Error::BrokenPromise)));
        let promise = Promise::<u64>::of_value(&world).unwrap();
        drop(chain(promise.future()));
        promise.fulfil_with(0);
        let promise = Promise::<u64>::of_value(&world).unwrap();
        drop(chain(promise.future()));
        drop(promise);
    });
}

#[test]
fn a_long_chain_is_dropped_with_its_world() {
    on_a_small_stack(|| {
        let world = alone();
        let promise = Promise::<u64>::of_value(&world).unwrap();
        let mut future = promise.future();
        let mut call = world.rpc(world.rank(), |x: u64| x, 0).unwrap();
        for _ in 0..LONG {
            future = future.then(|x| x + 1);
            call = call.then(|x| x + 1);
        }
        // The rank answers its own call before it leaves.
        drop(world);
        assert_eq!(call.wait().unwrap(), LONG);
        promise.fulfil_with(0);
        drop(future);
    });
}

#[test]
fn deeply_nested_joins_are_built_completed_and_dropped_on_a_small_stack() {
    on_a_small_stack(|| {
        let world = alone();
        let nest = |promise: &Promise<u64>| {
            let mut future = promise.future();
            for _ in 0..LONG / 4 {
                let pair = when_all((future, PgasFuture::ready(1)));
                future = when_all(vec![pair.then(|(a, b)| a + b)]).then(|sum| sum[0]);
            }
            future
        };
        let promise = Promise::of_value(&world).unwrap();
        let future = nest(&promise);
        promise.fulfil_with(0);
        assert_eq!(future.wait().unwrap(), LONG / 4);
        let promise = Promise::of_value(&world).unwrap();
        drop(nest(&promise));
        drop(promise);
        let promise = Promise::of_value(&world).unwrap();
        let future = nest(&promise);
        drop(promise);
        assert!(future.wait().is_err());
    });
}

/// A tree of joins without an action between them; the type of each join differs.
#[test]
fn joins_of_joins_alone_are_dropped_and_waited_for_on_a_small_stack() {
    fn as_unit(future: PgasFuture<Vec<()>>) -> PgasFuture<()> {
        future.then(drop)
    }
    on_a_small_stack(|| {
        let world = alone();
        let promise = Promise::new(&world).unwrap();
        let mut future = promise.future();
        for _ in 0..LONG / 4 {
            future = as_unit(when_all(vec![future, promise.future()]));
        }
        promise.fulfil(1);
        future.wait().unwrap();
    });
}

/// Each link is fulfilled by the action of the link before it.
#[test]
fn promises_that_fulfil_each_other_run_on_a_small_stack() {
    on_a_small_stack(|| {
        let world = alone();
        let first = Promise::<u64>::of_value(&world).unwrap();
        let mut last = first.clone();
        for _ in 0..LONG {
            let next = Promise::of_value(&world).unwrap();
            let fulfils = next.clone();
            drop(last.future().then(move |x| fulfils.fulfil_with(x + 1)));
            last = next;
        }
        let end = last.future();
        drop(last);
        first.fulfil_with(0);
        assert_eq!(end.wait().unwrap(), LONG);
    });
}
