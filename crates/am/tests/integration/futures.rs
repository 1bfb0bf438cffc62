//! Chains, joins and promises of futures: long ones, many, concurrent ones, and dropped ones.

use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use pgas_am::{
    Completes, Error, LocalCalls, PgasFuture, Promise, RemoteCalls, quiet, when_all, when_any,
};
use pgas_core::backend::loopback;
use pgas_core::collective::op::Sum;
use pgas_core::rma::Fragment;
use pgas_core::{Config, GlobalPtr, Rank, World};
use pgas_testkit::Deadline;

/// The maximum time of a test; far more than any needs.
const LIMIT: Duration = Duration::from_secs(120);
/// The links of a long chain.
const LONG: u64 = if cfg!(debug_assertions) {
    200_000
} else {
    1_000_000
};

/// Runs `body` on `n` ranks.
fn ranks<R: Send>(n: u32, body: impl Fn(&World) -> pgas_am::Result<R> + Sync) -> Vec<R> {
    let _deadline = Deadline::new(thread::current().name().unwrap_or("a test"), LIMIT);
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    config.timeout = Some(LIMIT / 3);
    let ended = pgas_smp::threads_with(n, &config, |world| {
        pgas_am::attach(&world).unwrap();
        let result = body(&world).unwrap();
        world.barrier().unwrap();
        result
    });
    ended.unwrap()
}

/// Runs `body` on a thread whose stack is no larger than that of a small thread pool's.
fn on_a_small_stack(body: impl FnOnce() + Send) {
    let _deadline = Deadline::new(thread::current().name().unwrap_or("a test"), LIMIT);
    thread::scope(|scope| {
        let small = thread::Builder::new().stack_size(256 << 10);
        small.spawn_scoped(scope, body).unwrap().join().unwrap();
    });
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
fn every_future_of_a_promise_gets_the_value_and_runs_its_action() {
    ranks(1, |world| {
        let promise = Promise::of_value(world)?;
        let n_runs = Arc::new(AtomicU64::new(0));
        let early: Vec<_> = (0..5)
            .map(|i| {
                let n_runs = Arc::clone(&n_runs);
                promise.future().then(move |text: String| {
                    n_runs.fetch_add(1, Ordering::Relaxed);
                    format!("{text} {i}")
                })
            })
            .collect();
        let plain = promise.future();
        promise.fulfil_with("value".to_owned());
        let late = promise.future();
        for (i, future) in early.into_iter().enumerate() {
            assert_eq!(future.wait()?, format!("value {i}"));
        }
        assert_eq!(n_runs.load(Ordering::Relaxed), 5);
        assert_eq!(plain.wait()?, "value");
        assert_eq!(late.wait()?, "value");

        let counted = Promise::new(world)?;
        let futures: Vec<_> = (0..3).map(|_| counted.future()).collect();
        world.rpc(world.rank(), |x: u64| x, 1)?.fulfils(&counted);
        let last = counted.finalize();
        when_all(futures).wait()?;
        last.wait()
    });
}

#[test]
fn every_future_of_a_promise_hears_that_it_was_broken_or_failed() {
    ranks(1, |world| {
        let promise = Promise::new(world)?;
        let futures: Vec<_> = (0..3).map(|_| promise.future().then(|()| 1)).collect();
        let mut plain = promise.future();
        drop(promise);
        assert!(plain.is_ready());
        assert!(matches!(plain.wait(), Err(Error::BrokenPromise)));
        for future in futures {
            assert!(matches!(future.wait(), Err(Error::BrokenPromise)));
        }
        let promise = Promise::new(world)?;
        let futures: Vec<_> = (0..3).map(|_| promise.future()).collect();
        world
            .rpc(world.rank(), |x: u64| 1 / x, 0)?
            .fulfils(&promise);
        let last = promise.finalize();
        for future in futures.into_iter().chain([last]) {
            let text = future.wait().unwrap_err().to_string();
            assert!(text.contains("divide by zero"), "{text}");
        }
        Ok(())
    });
}

#[test]
fn a_promise_that_has_failed_stays_so_whoever_fulfils_it() {
    ranks(1, |world| {
        let promise = Promise::new(world)?;
        promise.require(1);
        promise.fail(Error::HasLeft);
        let other = promise.clone();
        other.fulfil(1);
        assert!(matches!(promise.finalize().wait(), Err(Error::HasLeft)));
        let mut late = other.future();
        assert!(late.is_ready());
        assert!(matches!(late.wait(), Err(Error::HasLeft)));
        let promise = Promise::of_value(world)?;
        promise.fail(Error::HasLeft);
        promise.fulfil_with(7);
        let mut late = promise.future();
        assert!(late.is_ready());
        assert!(matches!(late.wait(), Err(Error::HasLeft)));
        Ok(())
    });
}

/// Gives a value where nobody else has: when its action is dropped.
struct Otherwise(Promise<u64>);

impl Drop for Otherwise {
    fn drop(&mut self) {
        self.0.fulfil_with(0);
    }
}

#[test]
fn a_value_that_comes_while_a_promise_fails_is_too_late() {
    ranks(1, |world| {
        let promise = Promise::<u64>::of_value(world)?;
        let otherwise = Otherwise(promise.clone());
        let sum = promise.future().then(move |x| {
            let _kept = &otherwise;
            x + 1
        });
        promise.fail(Error::HasLeft);
        assert!(matches!(sum.wait(), Err(Error::HasLeft)));
        for _ in 0..300 {
            let promise = Promise::<u64>::of_value(world)?;
            let future = promise.future();
            thread::scope(|scope| {
                scope.spawn(|| promise.fail(Error::HasLeft));
                promise.fulfil_with(1);
            });
            assert!(matches!(future.wait(), Ok(1) | Err(Error::HasLeft)));
        }
        Ok(())
    });
}

/// A task that holds the world would keep the rank in the job for ever.
#[test]
fn a_chained_wait_for_a_signal_that_never_comes_keeps_no_rank() {
    for any in [false, true] {
        let world = loopback::world();
        pgas_am::attach(&world).unwrap();
        let word = world.alloc::<u64>(1).unwrap();
        let never = word.wait_until_nb(&world, |n| n == 1);
        if any {
            drop(when_any([
                never.future(),
                word.wait_until_nb(&world, |_| false).future(),
            ]));
        } else {
            drop(never.then(|_| ()));
        }
        world.progress().unwrap();
        let weak = world.downgrade();
        drop(world);
        assert!(weak.upgrade().is_none());
    }
}

/// Signals that never come, in whatever they are joined, and at the source.
#[test]
fn waits_for_signals_that_never_come_keep_no_rank_in_whatever_they_are() {
    let ways: [fn(&World, GlobalPtr<u64>); 4] = [
        |world, word| {
            let joined = |n| {
                let never = || word.wait_until_nb(world, move |seen| seen == n);
                when_all((never(), never()))
            };
            drop(when_any([joined(1), joined(2)]));
        },
        |world, word| {
            let never = (0..3).map(|_| word.wait_until_nb(world, |_| false));
            drop(when_all(never.collect::<Vec<_>>()).then(drop));
        },
        |world, word| drop(word.wait_until_nb(world, |_| false).at_source().then(drop)),
        |world, word| {
            let never = word.wait_until_nb(world, |_| false).future().shared();
            drop(when_any([never.future(), never.then(|n| n + 1)]));
        },
    ];
    for leave in ways {
        let world = alone();
        let word = world.alloc::<u64>(1).unwrap();
        leave(&world, word);
        world.progress().unwrap();
        let weak = world.downgrade();
        drop(world);
        assert!(weak.upgrade().is_none());
    }
}

/// The program drops the future of a chain and then its last handle, while the transfer is in
/// flight: the action runs before the rank leaves, and the rank leaves.
#[test]
fn what_follows_transfers_in_flight_is_done_before_the_rank_leaves() {
    type Chain = fn(&World, GlobalPtr<u64>) -> PgasFuture<()>;
    static N_RUN: AtomicU64 = AtomicU64::new(0);
    let chains: [Chain; 6] = [
        |world, cell| cell.put_nb(world, 5).future(),
        |world, cell| cell.get_vec_nb(world, 3).then(drop),
        |world, cell| cell.fetch_add_nb(world, 5).then(drop),
        |world, cell| {
            let piece = |at| Fragment {
                ptr: cell.add(at),
                len: 1,
            };
            world.get_fragments_nb(&[piece(0), piece(2)]).then(drop)
        },
        |world, cell| {
            let put = cell.put_vec_nb(world, vec![1, 2, 3]).unwrap();
            put.at_source().and_then(|(_, whole)| whole)
        },
        |world, cell| {
            let puts = [0, 1, 2].map(|at| cell.add(at).put_nb(world, 5));
            when_all(puts.into_iter().collect::<Vec<_>>()).then(drop)
        },
    ];
    for (n, chain) in (1..).zip(chains) {
        let world = alone();
        let cell = world.alloc::<u64>(3).unwrap();
        let mut chained = chain(&world, cell);
        assert!(!chained.is_ready(), "chain {n} is in flight");
        drop(chained.then(|()| _ = N_RUN.fetch_add(1, Ordering::Relaxed)));
        let weak = world.downgrade();
        drop(world);
        assert!(weak.upgrade().is_none(), "chain {n} keeps the rank");
        assert_eq!(N_RUN.load(Ordering::Relaxed), n, "chain {n} was cut off");
    }
}

/// The program has dropped all handles but that of an event.
#[test]
fn what_follows_the_event_with_the_last_handle_is_done_too() {
    static N_RUN: AtomicU64 = AtomicU64::new(0);
    for any in [false, true] {
        let world = alone();
        let put = world.alloc::<u64>(1).unwrap().put_nb(&world, 5).unwrap();
        let weak = world.downgrade();
        drop(world);
        if any {
            drop(when_any([put]));
        } else {
            drop(put.then(|()| _ = N_RUN.fetch_add(1, Ordering::Relaxed)));
        }
        assert!(weak.upgrade().is_none());
    }
    assert_eq!(N_RUN.load(Ordering::Relaxed), 1);
}

/// The same of collectives, for which other ranks wait. The ranks are no threads of a job, which
/// would take care of handles that are left.
#[test]
fn a_chained_collective_is_carried_out_before_the_rank_leaves() {
    let _deadline = Deadline::new("a chained collective", LIMIT);
    let mut config = Config::default();
    config.timeout = Some(LIMIT / 3);
    static SUM: AtomicU64 = AtomicU64::new(0);
    let is_begun = AtomicBool::new(false);
    thread::scope(|scope| {
        for world in loopback::worlds(2, &config).unwrap() {
            let is_begun = &is_begun;
            scope.spawn(move || {
                pgas_am::attach(&world).unwrap();
                if world.rank() == Rank::ZERO {
                    while !is_begun.load(Ordering::Acquire) {
                        thread::yield_now();
                    }
                    assert_eq!(world.allreduce(2_u64, Sum).unwrap(), 5);
                    return;
                }
                let sum = world.allreduce_nb(3_u64, Sum);
                drop(sum.then(|sum| SUM.store(sum, Ordering::Relaxed)));
                is_begun.store(true, Ordering::Release);
                let weak = world.downgrade();
                drop(world);
                assert!(weak.upgrade().is_none());
                assert_eq!(SUM.load(Ordering::Relaxed), 5);
            });
        }
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
fn a_shared_future_that_says_that_it_is_ready_is() {
    ranks(1, |world| {
        let promise = Promise::<u64>::of_value(world)?;
        let shared = promise.future().shared();
        let other = shared.clone();
        let seen = shared.clone().then(move |_| {
            let is_ready = other.is_ready();
            let has_value = other.clone().future().is_ready();
            (is_ready, has_value, other.wait().is_ok())
        });
        promise.fulfil_with(5);
        let (is_ready, has_value, was_there) = seen.wait()?;
        assert_eq!((has_value, was_there), (is_ready, is_ready));
        assert!(shared.is_ready() && shared.wait()? == 5);
        Ok(())
    });
}

/// One thread clones the value while others look at it, in handlers, too.
#[test]
fn a_shared_future_that_is_ready_stays_ready_while_its_value_is_cloned() {
    struct Slow(Arc<[AtomicBool; 3]>);
    impl Clone for Slow {
        fn clone(&self) -> Self {
            let [is_slow, is_cloned, may_end] = &*self.0;
            is_cloned.store(is_slow.load(Ordering::Acquire), Ordering::Release);
            while is_slow.load(Ordering::Acquire) && !may_end.load(Ordering::Acquire) {
                thread::yield_now();
            }
            Self(Arc::clone(&self.0))
        }
    }
    ranks(1, |world| {
        let flags = Arc::new([const { AtomicBool::new(false) }; 3]);
        let promise = Promise::of_value(world)?;
        let shared = promise.future().shared();
        promise.fulfil_with(Slow(Arc::clone(&flags)));
        let [is_slow, is_cloned, may_end] = &*flags;
        is_slow.store(true, Ordering::Release);
        thread::scope(|scope| {
            let other = shared.clone();
            let cloning = scope.spawn(move || other.future().is_ready());
            while !is_cloned.load(Ordering::Acquire) {
                thread::yield_now();
            }
            let is_ready = shared.is_ready();
            let ending = scope.spawn(|| {
                thread::sleep(Duration::from_millis(20));
                may_end.store(true, Ordering::Release);
            });
            let waited = pgas_core::as_handler(|| shared.wait());
            ending.join().unwrap();
            assert!(cloning.join().unwrap() && is_ready && waited.is_ok());
        });
        Ok(())
    });
}

/// The action holds the last handle on another promise, or on the promise whose future it follows.
#[test]
fn actions_that_are_dropped_unrun_may_end_promises() {
    ranks(1, |world| {
        let promise = Promise::<u64>::of_value(world)?;
        let other = Promise::<u64>::of_value(world)?;
        let followed = other.future();
        drop(promise.future().then(move |x| other.fulfil_with(x)));
        let second = promise.future().then(|x| x + 1);
        drop(promise);
        assert!(matches!(followed.wait(), Err(Error::BrokenPromise)));
        assert!(matches!(second.wait(), Err(Error::BrokenPromise)));
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
fn an_action_that_panics_keeps_no_other_from_running() {
    ranks(1, |world| {
        let promise = Promise::new(world)?;
        let n_runs = Arc::new(AtomicU64::new(0));
        let count = || {
            let n_runs = Arc::clone(&n_runs);
            move |()| _ = n_runs.fetch_add(1, Ordering::Relaxed)
        };
        let before = promise.future().then(count());
        let panics = promise.future().then(|()| {
            if true {
                panic!("on purpose")
            }
        });
        let follows = panics.then(|()| ());
        let after = promise.future().then(count());
        let end = || promise.fulfil(1);
        let payload = panic::catch_unwind(AssertUnwindSafe(end)).unwrap_err();
        assert_eq!(*payload.downcast::<&str>().unwrap(), "on purpose");
        assert!(matches!(follows.wait(), Err(Error::BrokenPromise)));
        before.wait()?;
        after.wait()?;
        assert_eq!(n_runs.load(Ordering::Relaxed), 2);
        // None of these is nested in the one that panicked, or in each other.
        for n in 3..1000 {
            let promise = Promise::new(world)?;
            let counts = promise.future().then(count());
            promise.fulfil(1);
            assert_eq!(n_runs.load(Ordering::Relaxed), n);
            counts.wait()?;
        }
        Ok(())
    });
}

#[test]
fn an_action_that_panics_in_progress_keeps_no_other_from_running() {
    let is_chained = AtomicBool::new(false);
    ranks(2, |world| {
        let sum = || world.team().allreduce_nb(1_u64, Sum);
        if world.rank() == Rank::new(1) {
            while !is_chained.load(Ordering::Acquire) {
                thread::yield_now();
            }
            let sums = [sum(), sum(), sum(), sum()];
            return when_all(Vec::from(sums)).wait().map(drop);
        }
        let before = sum().then(|x| x);
        let panics = sum().then(|_| {
            if true {
                panic!("on purpose")
            }
        });
        let follows = panics.then(|()| ());
        let after: [PgasFuture<u64>; 2] = [sum().then(|x| x), sum().then(|x| x)];
        is_chained.store(true, Ordering::Release);
        let progress = || {
            let mut n_panics = 0;
            let mut follows = follows;
            while !follows.is_ready() {
                let progress = || world.progress().unwrap();
                n_panics += u32::from(panic::catch_unwind(AssertUnwindSafe(progress)).is_err());
            }
            n_panics
        };
        assert_eq!(progress(), 1);
        assert_eq!(before.wait()?, 2);
        assert_eq!(when_all(Vec::from(after)).wait()?, [2, 2]);
        Ok(())
    });
}

/// What a panic carries that panics again each time it is dropped.
struct Stubborn;

impl Drop for Stubborn {
    fn drop(&mut self) {
        panic::panic_any(Self);
    }
}

#[test]
fn a_panic_that_panics_again_when_it_is_dropped_ends_what_it_was_in_alone() {
    fn refuse(_: u64) -> u64 {
        panic::panic_any(Stubborn)
    }
    fn is_panic<T>(result: &Result<T, Error>) -> bool {
        matches!(result, Err(Error::RemotePanic(_)))
    }
    ranks(2, |world| {
        let other = Rank::new(1 - world.rank().number());
        assert!(is_panic(&world.rpc(other, refuse, 1)?.wait()));
        let task = async { Ok::<u64, Error>(refuse(1)) };
        assert!(is_panic(&world.spawn(task).wait()));
        let here = world.this_thread()?;
        assert!(is_panic(&world.local_call(&here, || refuse(1))?.wait()));
        // The first one of several actions is the program's to drop, the others are not.
        let promise = Promise::new(world)?;
        let _first = promise.future().then(|()| {
            if true {
                panic!("on purpose")
            }
        });
        let others = [(); 2].map(|()| promise.future().then(|()| refuse(1)));
        let end = || promise.fulfil(1);
        let payload = panic::catch_unwind(AssertUnwindSafe(end)).unwrap_err();
        assert_eq!(*payload.downcast::<&str>().unwrap(), "on purpose");
        for other in others {
            assert!(matches!(other.wait(), Err(Error::BrokenPromise)));
        }
        world.barrier()
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
fn a_task_goes_on_without_who_spawned_it_and_ends_with_the_rank() {
    ranks(2, |world| {
        let (told, left) = (Promise::of_value(world)?, Promise::<()>::new(world)?);
        let (same, answer) = (world.clone(), told.clone());
        drop(world.spawn(async move {
            for _ in 0..100 {
                same.rpc(Rank::new(1), |x: u64| x, 1)?.await?;
            }
            answer.fulfil_with(100_u64);
            Ok(())
        }));
        assert_eq!(told.future().wait()?, 100);
        // A dropped task, whose promise is then broken, does not hold up `quiet`.
        let never = left.future();
        let task = world.spawn(never);
        drop(task);
        drop(left);
        quiet(world)
    });
    let world = alone();
    let promise = Promise::<u64>::of_value(&world).unwrap();
    let future = promise.future();
    let task = world.spawn(future);
    drop(world);
    assert!(matches!(
        task.wait(),
        Err(Error::HasLeft | Error::BrokenPromise)
    ));
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

/// A waker whose last handle ends a promise.
#[test]
fn wakers_are_dropped_where_nothing_is_locked() {
    struct Ends(#[expect(dead_code, reason = "it is dropped")] Promise);
    impl std::task::Wake for Ends {
        fn wake(self: Arc<Self>) {}
    }
    ranks(1, |world| {
        let promise = Promise::new(world)?;
        let mut future = promise.future();
        let waker = Arc::new(Ends(promise)).into();
        let mut cx = std::task::Context::from_waker(&waker);
        assert!(Pin::new(&mut future).poll(&mut cx).is_pending());
        drop(waker);
        let followed = future.then(|()| ());
        assert!(matches!(followed.wait(), Err(Error::BrokenPromise)));
        Ok(())
    });
}

#[test]
fn a_promise_whose_value_panics_when_it_is_cloned_is_broken_and_says_so() {
    struct Fragile(bool);
    impl Clone for Fragile {
        fn clone(&self) -> Self {
            assert!(!self.0, "not to be cloned");
            Self(self.0)
        }
    }
    let world = loopback::world();
    pgas_am::attach(&world).unwrap();
    let promise = Promise::of_value(&world).unwrap();
    promise.fulfil_with(Fragile(true));
    let first = panic::catch_unwind(AssertUnwindSafe(|| promise.future()));
    assert!(first.is_err(), "the clone panics");
    let second = promise.future().wait();
    assert!(matches!(second, Err(Error::BrokenPromise)));
}
