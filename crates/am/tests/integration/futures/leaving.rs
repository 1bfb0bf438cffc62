//! What is in flight when its rank leaves the job.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use pgas_am::{Completes, Error, PgasFuture, Promise, RemoteCalls, quiet, when_all, when_any};
use pgas_core::backend::loopback;
use pgas_core::collective::op::Sum;
use pgas_core::rma::Fragment;
use pgas_core::{Config, GlobalPtr, Rank, World};
use pgas_testkit::Deadline;

use super::{alone, ranks};
use crate::LIMIT;

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

/// The answer never comes, and its callback has an event, which has the world.
#[test]
fn what_is_joined_with_a_call_that_is_not_answered_keeps_no_rank() {
    let has_left = AtomicBool::new(false);
    let _deadline = Deadline::new("a rank that leaves", LIMIT);
    let ended = pgas_smp::threads_with(2, &Config::default(), |world| {
        pgas_am::attach(&world).unwrap();
        world.barrier().unwrap();
        if world.rank() == Rank::new(1) {
            // It serves nothing.
            drop(world.allreduce_nb(1_u64, Sum));
            while !has_left.load(Ordering::Acquire) {
                thread::yield_now();
            }
            return true;
        }
        let call = || world.rpc(Rank::new(1), |()| (), ()).unwrap();
        let sum = world.allreduce_nb(1_u64, Sum);
        drop(when_all((call(), sum)).then(drop));
        let word = world.alloc::<u64>(1).unwrap();
        let never = word.wait_until_nb(&world, |_| false);
        let first = when_all(vec![call().then(|()| 1), never.future()]);
        drop(first.shared());
        let weak = world.downgrade();
        drop(world);
        let is_gone = weak.upgrade().is_none();
        has_left.store(true, Ordering::Release);
        is_gone
    });
    assert_eq!(ended.unwrap(), [true; 2]);
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

/// The first of joined promises ends when the rank has left, the others never do.
#[test]
fn what_follows_joined_promises_ends_with_the_first_one_once_the_rank_has_left() {
    let ways: [fn(Promise<u64>); 3] = [
        |promise| promise.fulfil_with(1),
        |promise| promise.fail(Error::NotAttached),
        drop,
    ];
    for (way, end) in ways.into_iter().enumerate() {
        for in_tuple in [true, false] {
            let world = alone();
            let first = Promise::of_value(&world).unwrap();
            let others = [(); 2].map(|()| Promise::<u64>::of_value(&world).unwrap());
            let all = [&first, &others[0], &others[1]].map(Promise::future);
            let chained = if in_tuple {
                let [a, b, c] = all;
                when_all((a, b, c)).then(drop)
            } else {
                when_all(Vec::from(all)).then(drop)
            };
            drop(world);
            end(first);
            let error = chained.wait().unwrap_err();
            match way {
                0 => assert!(matches!(error, Error::HasLeft), "{error:?}"),
                1 => assert!(matches!(error, Error::NotAttached), "{error:?}"),
                _ => assert!(matches!(error, Error::BrokenPromise), "{error:?}"),
            }
        }
    }
}

/// Who asks for a value that nobody has given need not ask for ever.
#[test]
fn a_future_that_is_asked_once_its_rank_has_left_has_an_error() {
    let world = alone();
    let promise = Promise::<u64>::of_value(&world).unwrap();
    let later = promise.future().shared();
    let mut of_unit = [
        promise.future().then(drop),
        later.then(drop),
        promise.future().and_then(PgasFuture::ready).then(drop),
        when_all((promise.future(), promise.future())).then(drop),
        when_any([promise.future(), promise.future()]).then(drop),
    ];
    let mut plain = promise.future();
    let mut both = when_all((promise.future(), &later));
    let mut each = when_all(vec![promise.future(), later.future()]);
    assert!(!plain.test().unwrap() && !both.test().unwrap() && !each.test().unwrap());
    assert!(!later.is_ready());
    assert!(of_unit.iter_mut().all(|future| !future.is_ready()));
    drop(world);
    assert!(plain.test().unwrap() && both.test().unwrap() && each.test().unwrap());
    assert!(later.is_ready());
    assert!(of_unit.iter_mut().all(PgasFuture::is_ready));
    assert!(matches!(plain.wait(), Err(Error::HasLeft)));
    assert!(matches!(both.wait(), Err(Error::HasLeft)));
    assert!(matches!(each.wait(), Err(Error::HasLeft)));
    assert!(matches!(later.wait(), Err(Error::HasLeft)));
    for future in of_unit {
        let error = future.wait().unwrap_err();
        let is_named = matches!(error, Error::HasLeft | Error::BrokenPromise);
        assert!(is_named, "{error:?}");
    }
    // Nobody waits for what comes now; whoever comes now gets it.
    promise.fulfil_with(1);
    assert_eq!(promise.future().wait().unwrap(), 1);
}
