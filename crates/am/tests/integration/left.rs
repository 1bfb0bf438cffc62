//! Calls to a rank that has left the job in good order.

use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, TryRecvError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use pgas_am::{Error, Here, PgasFuture, Promise, RemoteCalls, when_all};
use pgas_core::backend::loopback;
use pgas_core::collective::op::Sum;
use pgas_core::{Config, Rank, World};

/// The maximum time of a future; far more than any needs.
const LIMIT: Duration = Duration::from_secs(30);

const GONE: Rank = Rank::new(1);

/// Runs `body` on rank 0 when rank 1, which serves nothing, has left; rank 2 stays and answers.
fn when_rank_1_has_left(body: impl Fn(&World) + Sync) {
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    let ended = pgas_smp::threads_with(3, &config, |world| {
        pgas_am::attach(&world).unwrap();
        match world.rank().number() {
            0 => {
                let began = Instant::now();
                while !world.has_left(GONE) {
                    world.progress().unwrap();
                    assert!(began.elapsed() < LIMIT, "rank 1 leaves");
                }
                body(&world);
                world.rpc(Rank::new(2), stop, true).unwrap().wait().unwrap();
            }
            1 => {}
            _ => {
                let is_over = || Ok(IS_OVER.take());
                world.wait_for("the end", is_over).unwrap();
            }
        }
    });
    assert_eq!(ended.unwrap().len(), 3);
}

thread_local! {
    static IS_OVER: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

fn stop(is_over: bool) {
    IS_OVER.set(is_over);
}

fn call(world: &World, to: u32) -> PgasFuture<u64> {
    world.rpc(Rank::new(to), |x: u64| x + 1, 1).unwrap()
}

/// Rank 1 leaves without the answers to its calls, which are more than its mailbox takes. What rank
/// 0 keeps of them is lost then, and does not keep others' requests waiting.
#[test]
fn answers_to_a_rank_that_has_left_keep_nobody_waiting() {
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    config.timeout = Some(LIMIT);
    for (n_calls, n_bytes) in [(100, 16_000), (20, 300_000)] {
        let ended = pgas_smp::threads_with(3, &config, |world| {
            pgas_am::attach(&world).unwrap();
            match world.rank().number() {
                0 => {
                    // Serves nothing until rank 1 has sent its calls, and has most likely left.
                    thread::sleep(Duration::from_millis(300));
                    let is_over = || Ok(IS_OVER.take());
                    world.wait_for("the end", is_over).unwrap();
                }
                1 => {
                    for _ in 0..n_calls {
                        drop(world.rpc(Rank::ZERO, |n| vec![0_u8; n], n_bytes).unwrap());
                    }
                }
                _ => {
                    world.rpc(Rank::ZERO, stop, true).unwrap().wait().unwrap();
                }
            }
        });
        assert_eq!(ended.unwrap().len(), 3);
    }
}

/// Polls as an executor without a driver does.
fn poll_to_the_end<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    let began = Instant::now();
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return value;
        }
        assert!(began.elapsed() < LIMIT, "nothing hangs");
    }
}

#[track_caller]
fn assert_names_the_rank<T: std::fmt::Debug>(result: pgas_am::Result<T>) {
    let text = result.unwrap_err().to_string();
    assert!(text.contains("rank 1"), "{text}");
    assert!(text.contains("a remote call unanswered"), "{text}");
}

#[test]
fn who_awaits_a_call_to_a_rank_that_has_left_gets_an_error_that_names_it() {
    when_rank_1_has_left(|world| {
        assert_names_the_rank(poll_to_the_end(call(world, 1)));
        assert_names_the_rank(poll_to_the_end(call(world, 1)));
        assert_eq!(poll_to_the_end(call(world, 2)).unwrap(), 2);
        assert_names_the_rank(call(world, 1).wait());
    });
}

/// Runs `body` with calls to rank 1, which has taken them, and has left without their values.
fn with_unanswered_calls(n_calls: usize, body: impl Fn(&World, Vec<PgasFuture<u64>>) + Sync) {
    thread_local! {
        static N_SERVED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }
    let never = |here: Here| {
        N_SERVED.set(N_SERVED.get() + 1);
        let promise = ManuallyDrop::new(Promise::<u64>::of_value(here.world()).unwrap());
        promise.future()
    };
    let ended = pgas_smp::threads_with(2, &Config::default(), |world| {
        pgas_am::attach(&world).unwrap();
        if world.rank() == GONE {
            let has_served = || Ok(N_SERVED.get() == n_calls);
            world.wait_for("the calls", has_served).unwrap();
            return;
        }
        let here = Here::new(&world);
        let calls = (0..n_calls).map(|_| world.rpc(GONE, never, here.clone()).unwrap());
        let calls = calls.collect();
        // Without progress.
        while !world.has_left(GONE) {
            thread::yield_now();
        }
        body(&world, calls);
    });
    assert_eq!(ended.unwrap().len(), 2);
}

/// Rounds of progress are as far apart as the sleeps of a wait, so only a few may pass.
#[test]
fn a_wait_for_a_rank_that_has_left_ends_within_a_few_rounds() {
    static N_ROUNDS: AtomicU32 = AtomicU32::new(0);
    with_unanswered_calls(1, |world, mut calls| {
        // A task is polled in each round.
        let counts = world.spawn(std::future::poll_fn(|_| {
            N_ROUNDS.fetch_add(1, Ordering::Relaxed);
            Poll::<pgas_am::Result<()>>::Pending
        }));
        assert_names_the_rank(calls.remove(0).wait());
        let n_rounds = N_ROUNDS.load(Ordering::Relaxed);
        assert!(n_rounds < 100, "{n_rounds} rounds");
        drop(counts);
    });
}

#[test]
fn a_thread_that_is_about_to_sleep_tells_who_awaits_calls_to_a_rank_that_has_left() {
    with_unanswered_calls(200, |world, mut calls| {
        let mut plain = calls.split_off(100);
        let mut chained: Vec<_> = calls.into_iter().map(|call| call.then(|x| x + 1)).collect();
        // It makes no progress.
        world.park(Duration::from_millis(1));
        for future in plain.iter_mut().chain(&mut chained) {
            assert!(future.is_ready());
        }
    });
}

#[test]
fn a_loop_that_asks_whether_a_call_is_ready_ends_too() {
    when_rank_1_has_left(|world| {
        let mut future = call(world, 1);
        let began = Instant::now();
        while !future.is_ready() {
            world.progress().unwrap();
            assert!(began.elapsed() < LIMIT, "nothing hangs");
        }
        assert_names_the_rank(future.wait());
    });
}

#[test]
fn joined_and_chained_calls_and_promises_get_the_error_too() {
    when_rank_1_has_left(|world| {
        let calls = vec![call(world, 2), call(world, 1), call(world, 2)];
        assert_names_the_rank(when_all(calls).wait());
        assert_names_the_rank(call(world, 1).then(|x| x + 1).wait());
        let both = when_all((call(world, 1), call(world, 2))).then(|(x, y)| x + y);
        assert_names_the_rank(poll_to_the_end(both));
        let promise = Promise::new(world).unwrap();
        call(world, 1).fulfils(&promise);
        assert_names_the_rank(promise.future().wait());
    });
}

/// Calls to rank 2 among calls to rank 1, of which one was dropped.
#[test]
fn the_calls_to_other_ranks_are_answered() {
    when_rank_1_has_left(|world| {
        let lost: Vec<_> = (0..100).map(|_| call(world, 1)).collect();
        let others: Vec<_> = (0..100).map(|_| call(world, 2)).collect();
        drop(call(world, 1));
        for future in lost {
            assert_names_the_rank(poll_to_the_end(future));
        }
        assert_eq!(when_all(others).wait().unwrap(), [2; 100]);
    });
}

/// What a rank does with a handle on its world when its part is over.
type Keep = fn(World) -> Option<World>;

/// A wait of another rank.
type Await = fn(&World) -> pgas_core::Result<()>;

#[test]
fn a_rank_whose_part_is_over_has_left_although_there_are_handles_on_its_world() {
    static KEPT: Mutex<Vec<World>> = Mutex::new(Vec::new());
    const WAYS: [Keep; 3] = [
        Some,
        |world| {
            let _kept = ManuallyDrop::new(world);
            None
        },
        |world| {
            KEPT.lock().unwrap().push(world);
            None
        },
    ];
    const WAITS: [Await; 3] = [
        World::barrier,
        |world| world.allreduce(1_u64, Sum).map(drop),
        // Until it has left, it may serve what comes.
        |world| loop {
            call(world, 1).wait()?;
        },
    ];
    for (way, wait) in WAYS
        .into_iter()
        .flat_map(|way| WAITS.map(|wait| (way, wait)))
    {
        let part = |world: World| {
            pgas_am::attach(&world).unwrap();
            let cell = world.alloc::<u64>(1).unwrap();
            cell.put(&world, 7).unwrap();
            world.barrier().unwrap();
            if world.rank() == GONE {
                return way(world).map(|world| (world, cell));
            }
            let text = wait(&world).unwrap_err().to_string();
            assert!(text.contains("rank 1") && text.contains("left"), "{text}");
            None
        };
        let mut config = Config::default();
        config.segment_bytes = Some(1 << 20);
        let over_threads = pgas_smp::threads_with(2, &config, part).unwrap();
        let over_loopback = loopback::run_with(2, &config, part);
        for (world, cell) in over_threads.into_iter().chain(over_loopback).flatten() {
            assert_eq!(cell.get(&world).unwrap(), 7, "memory stays");
        }
    }
}

/// A thread of rank 0 goes on when that rank's part is over. Rank 1 answers none of the `early`
/// calls before that, and serves the `late` ones.
#[test]
fn a_thread_whose_rank_has_left_gets_no_answers_and_does_not_wait_for_them() {
    fn assert_has_left<T: std::fmt::Debug>(result: pgas_am::Result<T>) {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::HasLeft), "{error}");
    }

    fn late(world: &World) {
        assert_has_left(call(world, 1).wait());
        assert!(call(world, 1).is_ready());
        assert_has_left(call(world, 1).then(|x| x + 1).wait());
        assert_has_left(poll_to_the_end(call(world, 1)));
        assert_has_left(when_all((call(world, 1), call(world, 0))).wait());
    }

    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    config.timeout = Some(LIMIT);
    for is_over_threads in [true, false] {
        let (serves, begins) = mpsc::channel::<()>();
        let (begins, stray) = (Mutex::new(begins), Mutex::new(None));
        let serves = Mutex::new(Some(serves));
        let part = |world: World| {
            pgas_am::attach(&world).unwrap();
            if world.rank() == GONE {
                let begins = begins.lock().unwrap();
                begins.recv().unwrap();
                let is_over = || Ok(begins.try_recv() == Err(TryRecvError::Disconnected));
                return world.wait_for("the end of the thread", is_over).unwrap();
            }
            let early = [(); 4].map(|()| call(&world, 1));
            let serves = serves.lock().unwrap().take().unwrap();
            let goes_on = move || {
                let [plain, chained, first, polled] = early;
                let (chained, joined) = (
                    chained.then(|x| x + 1),
                    when_all((first, PgasFuture::ready(2))),
                );
                assert_has_left(plain.wait());
                assert_has_left(chained.wait());
                assert_has_left(joined.wait());
                assert_has_left(poll_to_the_end(polled));
                late(&world);
                serves.send(()).unwrap();
                (0..100).for_each(|_| late(&world));
            };
            *stray.lock().unwrap() = Some(thread::spawn(goes_on));
        };
        if is_over_threads {
            pgas_smp::threads_with(2, &config, part).unwrap();
        } else {
            loopback::run_with(2, &config, part);
        }
        let stray = stray.into_inner().unwrap().unwrap();
        stray.join().unwrap();
    }
}
