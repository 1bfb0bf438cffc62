//! The delivery of calls: from handlers, to ranks that never wait for long, to dropped objects, and
//! at the end of a rank.

use std::future::poll_fn;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use pgas_am::{
    ActiveMessages, Aggregator, Completes, DistObject, Error, Here, Origin, Payload, PgasFuture,
    RemoteCalls,
};
use pgas_am::{ReplyHandler, RequestHandler, Token, quiet};
use pgas_core::backend::{HandlerId, MessageClass, Offer};
use pgas_core::collective::op::Sum;
use pgas_core::{Config, GlobalPtr, Rank, World};
use pgas_testkit::{Deadline, weak};

use crate::{LIMIT, ranks};

const ONE: Rank = Rank::new(1);

/// Waits, without progress, until another thread says so.
fn until(said: &AtomicBool) {
    while !said.load(Ordering::Acquire) {
        thread::yield_now();
    }
}

/// A rank alone never waits for others in any collective.
#[test]
fn a_rank_that_need_not_wait_serves_all_the_same() {
    type Meet = fn(&World) -> pgas_am::Result<()>;
    let calls: [(&str, Meet); 6] = [
        ("barrier", |world| world.barrier()),
        ("team barrier", |world| world.team().barrier()),
        ("broadcast", |world| world.broadcast(Rank::ZERO, ())),
        ("allreduce", |world| Ok(_ = world.allreduce(1, Sum)?)),
        ("barrier_nb", |world| world.barrier_nb().wait()),
        ("allgather", |world| {
            assert_eq!(world.allgather(&[1])?, [1]);
            Ok(())
        }),
    ];
    for (name, meet) in calls {
        ranks(1, |world| {
            let mut call = world.rpc(Rank::ZERO, |x: u64| x, 1)?;
            for _ in 0..3 {
                meet(&world)?;
            }
            assert!(call.is_ready(), "{name}");
            Ok(())
        });
    }
}

#[test]
fn a_rank_that_comes_last_to_every_barrier_serves_the_others() {
    // Rank 0's own handle, for rank 1 to see that it waits.
    let others = Mutex::new(None::<World>);
    let is_shown = AtomicBool::new(false);
    ranks(2, |world| {
        if world.rank() == ONE {
            until(&is_shown);
            let waits = || {
                let other = others.lock().unwrap();
                other.as_ref().unwrap().long_waits().contains("a barrier")
            };
            for _ in 0..3 {
                while !waits() {
                    thread::yield_now();
                }
                world.barrier()?;
            }
            *others.lock().unwrap() = None;
            return world.barrier();
        }
        *others.lock().unwrap() = Some(world.clone());
        is_shown.store(true, Ordering::Release);
        let mut call = world.rpc(ONE, |x: u64| x, 1)?;
        for _ in 0..3 {
            world.barrier()?;
        }
        assert!(call.is_ready(), "unanswered after three barriers");
        world.barrier()
    });
}

#[test]
fn a_handler_may_make_very_many_calls_and_long_ones() {
    static N_RUN: AtomicU64 = AtomicU64::new(0);
    static N_BYTES: AtomicU64 = AtomicU64::new(0);
    const MANY: u64 = 100_000;
    #[expect(clippy::needless_pass_by_value, reason = "arguments are values")]
    fn count(bytes: Vec<u8>) -> usize {
        N_BYTES.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        bytes.len()
    }
    fn many((here, to): (Here, Rank)) -> u64 {
        for _ in 0..MANY {
            let run = |()| _ = N_RUN.fetch_add(1, Ordering::Relaxed);
            here.world().rpc_ff(to, run, ()).unwrap();
        }
        for i in 0..20 {
            let bytes = vec![7; 100_000 * i];
            drop(here.world().rpc(to, count, bytes).unwrap());
        }
        MANY
    }
    ranks(3, |world| {
        let here = || Here::new(&world);
        // To another rank, to itself, and from all to all at once.
        let next = Rank::new((world.rank().number() + 1) % 3);
        let own = world.rpc(next, many, (here(), world.rank()))?;
        let other = world.rpc(next, many, (here(), next))?;
        let third = Rank::new((world.rank().number() + 2) % 3);
        let third = world.rpc(next, many, (here(), third))?;
        assert_eq!(own.wait()? + other.wait()? + third.wait()?, 3 * MANY);
        quiet(&world)?;
        assert_eq!(N_RUN.load(Ordering::Relaxed), 9 * MANY);
        assert_eq!(N_BYTES.load(Ordering::Relaxed), 9 * 190 * 100_000);
        world.barrier()
    });
}

#[test]
fn what_a_handler_sends_beyond_the_limit_is_refused_and_the_rest_arrives() {
    static N_BYTES: AtomicU64 = AtomicU64::new(0);
    const LONG: usize = 1 << 24;
    fn send((here, to): (Here, Rank)) -> (u64, String) {
        let count = |bytes: Vec<u8>| _ = N_BYTES.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        for n_sent in 0.. {
            if let Err(error) = here.world().rpc_ff(to, count, vec![1; LONG]) {
                assert!(matches!(error, Error::BackPressure { .. }), "{error}");
                return (n_sent, error.to_string());
            }
            assert!(n_sent < 100, "nothing is kept without bound");
        }
        unreachable!()
    }
    ranks(2, |world| {
        if world.rank() == Rank::ZERO {
            let args = (Here::new(&world), Rank::ZERO);
            let (n_sent, error) = world.rpc(Rank::ZERO, send, args)?.wait()?;
            assert!(error.contains("rank 0"), "{error}");
            assert!(n_sent >= 10, "{n_sent}");
            quiet(&world)?;
            assert_eq!(N_BYTES.load(Ordering::Relaxed), n_sent * LONG as u64);
            // There is room again.
            let args = (Here::new(&world), ONE);
            assert!(world.rpc(ONE, send, args)?.wait()?.0 >= 10);
        } else {
            quiet(&world)?;
        }
        quiet(&world)
    });
}

type Object = DistObject<AtomicU64>;

#[test]
fn all_ranks_hear_of_calls_to_an_object_that_was_dropped() {
    ranks(3, |world| {
        let add = |(object, x): (Object, u64)| _ = object.fetch_add(x, Ordering::Relaxed);
        let dropped = Object::new(&world.team(), AtomicU64::new(0))?;
        let kept = Object::new(&world.team(), AtomicU64::new(0))?;
        let mut dropped = Some(dropped);
        if world.rank() == ONE {
            dropped = None;
        }
        world.barrier()?;
        if let Some(object) = &dropped {
            for x in 1..=5 {
                world.rpc_ff(ONE, add, (object.clone(), x))?;
                world.rpc_ff(ONE, add, (kept.clone(), x))?;
            }
        }
        // The next call of rank 1 is independent of them.
        for _ in 0..3 {
            world.barrier()?;
            world.allreduce(1, Sum)?;
            assert_eq!(world.rpc(ONE, |x: u64| x, 1)?.wait()?, 1);
        }
        let Err(Error::Undelivered(lost)) = quiet(&world) else {
            panic!("ten calls were lost");
        };
        assert_eq!((lost.n, lost.rank), (10, ONE));
        assert!(lost.reason.contains("was dropped"), "{lost}");
        // The error comes once, and everything else was done.
        quiet(&world)?;
        if world.rank() == ONE {
            assert_eq!(kept.load(Ordering::Relaxed), 30);
        }
        // A caller that awaits an answer gets the error.
        if let Some(object) = &dropped {
            let call = world.rpc(ONE, |_: Object| 1, object.clone())?;
            assert!(matches!(call.wait(), Err(Error::Remote(_))));
        }
        quiet(&world)
    });
}

#[test]
fn a_message_that_nobody_handles_is_told_to_all_ranks_by_quiet() {
    struct Unknown;
    impl RequestHandler for Unknown {
        type Args = u64;
        fn handle(&self, _: Token<'_>, _: u64, _: Payload<'_>) -> pgas_am::Result<()> {
            Ok(())
        }
    }
    ranks(2, |world| {
        let is_zero = world.rank() == Rank::ZERO;
        if is_zero {
            world.request::<Unknown>(ONE, &7)?;
        }
        // Not before: outside of quiet it is the error of the call that receives it.
        let Err(Error::Undelivered(lost)) = quiet(&world) else {
            panic!("nobody has registered the handler");
        };
        assert_eq!((lost.n, lost.rank), (1, ONE));
        assert!(lost.reason.contains("not registered"), "{lost}");
        world.barrier()
    });
}

#[test]
fn a_rank_serves_what_has_come_before_it_leaves() {
    static N_RUN: AtomicU64 = AtomicU64::new(0);
    const EACH: u64 = 1000;
    let is_sent = AtomicBool::new(false);
    ranks(2, |world| {
        if world.rank() == ONE {
            until(&is_sent);
            return Ok(());
        }
        let run = |()| _ = N_RUN.fetch_add(1, Ordering::Relaxed);
        let calls: Vec<_> = (0..EACH)
            .map(|x| {
                world.rpc_ff(ONE, run, ())?;
                world.rpc(ONE, |x: u64| x, x)
            })
            .take(400)
            .collect::<pgas_am::Result<_>>()?;
        is_sent.store(true, Ordering::Release);
        let answers = pgas_am::when_all(calls).wait()?;
        assert!(answers.into_iter().eq(0..400));
        assert_eq!(N_RUN.load(Ordering::Relaxed), 400);
        Ok(())
    });
}

/// Handlers have sent more than there is room for when their rank leaves.
#[test]
fn a_rank_sends_what_its_handlers_have_sent_before_it_leaves() {
    static N_RUN: AtomicU64 = AtomicU64::new(0);
    const MANY: u64 = 50_000;
    #[expect(clippy::needless_pass_by_value, reason = "arguments are values")]
    fn many(here: Here) {
        for _ in 0..MANY {
            let run = |()| _ = N_RUN.fetch_add(1, Ordering::Relaxed);
            here.world().rpc_ff(ONE, run, ()).unwrap();
        }
    }
    ranks(2, |world| {
        if world.rank() == Rank::ZERO {
            return world.rpc(Rank::ZERO, many, Here::new(&world))?.wait();
        }
        let all = || Ok(N_RUN.load(Ordering::Relaxed) == MANY);
        world.wait_for("all calls", all)
    });
}

#[test]
fn who_sends_to_a_rank_that_has_left_is_told() {
    ranks(2, |world| {
        if world.rank() == ONE {
            return Ok(());
        }
        while !world.has_left(ONE) {
            world.progress()?;
        }
        let error = world.rpc_ff(ONE, drop::<u64>, 1).unwrap_err();
        assert!(error.to_string().contains("rank 1 has left"), "{error}");
        let error = world.try_rpc_ff(ONE, drop::<u64>, &1).unwrap_err();
        assert!(error.to_string().contains("rank 1 has left"), "{error}");
        let long = vec![1_u8; 100_000];
        let error = world.rpc_ff(ONE, drop::<Vec<u8>>, long).unwrap_err();
        assert!(error.to_string().contains("rank 1 has left"), "{error}");
        let call = world.rpc(ONE, |x: u64| x, 1)?;
        let error = call.wait().unwrap_err();
        assert!(error.to_string().contains("unanswered"), "{error}");
        Ok(())
    });
}

#[test]
fn no_program_sends_to_the_handlers_of_the_library() {
    ranks(1, |world| {
        for id in 0..HandlerId::N_RESERVED {
            for class in [MessageClass::Request, MessageClass::Reply] {
                let send = || world.try_send(Rank::ZERO, class, HandlerId(id), &[&[0; 40]]);
                let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(send));
                assert!(refused.is_err(), "handler {id}");
                let commit = || {
                    let Offer::InPlace(place) = world.prepare_in_place(Rank::ZERO, 100).unwrap()
                    else {
                        panic!("a buffer is free");
                    };
                    place.try_commit(class, HandlerId(id), &[0; 40], 100)
                };
                let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(commit));
                assert!(refused.is_err(), "handler {id}, in place");
            }
        }
        quiet(&world)
    });
}

#[test]
fn a_handler_that_panics_leaves_quiet_in_step() {
    ranks(1, |world| {
        world.rpc_ff(Rank::ZERO, |()| panic!("on purpose"), ())?;
        let progress = || world.progress();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(progress));
        assert!(panicked.is_err());
        quiet(&world)
    });
}

/// A request is served once, with its reply, whatever its handler does after that.
#[test]
fn a_handler_that_panics_after_its_reply_leaves_quiet_in_step() {
    struct Ask;
    struct Answer;
    impl RequestHandler for Ask {
        type Args = bool;
        fn handle(&self, token: Token<'_>, replies: bool, _: Payload<'_>) -> pgas_am::Result<()> {
            if replies {
                token.reply::<Answer>(&())?;
            }
            panic!("on purpose");
        }
    }
    impl ReplyHandler for Answer {
        type Args = ();
        fn handle(&self, _: Origin<'_>, (): (), _: Payload<'_>) -> pgas_am::Result<()> {
            Ok(())
        }
    }
    ranks(1, |world| {
        world.register(Ask)?;
        world.register_reply(Answer)?;
        for replies in [false, true] {
            world.request::<Ask>(Rank::ZERO, &replies)?;
            let progress = || world.progress();
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(progress));
            assert!(panicked.is_err());
            quiet(&world)?;
        }
        Ok(())
    });
}

/// The others are in the next round, and this rank's next collective would be taken for that.
#[test]
fn a_quiet_that_a_time_limit_ends_fails_the_job() {
    let _deadline = Deadline::new("a quiet of limited time", LIMIT);
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    config.timeout = Some(Duration::from_secs(1));
    let ended = pgas_smp::threads_with(3, &config, |world| {
        pgas_am::attach(&world).unwrap();
        let never = world.spawn(std::future::pending::<pgas_am::Result<()>>());
        quiet(&world).unwrap_err();
        let error = world.barrier().unwrap_err().to_string();
        drop(never);
        error
    });
    for error in ended.unwrap() {
        let told = "failed in the end of all asynchronous work: rank ";
        assert!(error.contains(told), "{error}");
    }
}

/// They may be carried out later, and nobody would have their results.
#[test]
fn a_panic_in_the_wait_for_what_changes_memory_fails_the_job() {
    type Wait = fn(&World, GlobalPtr<u64>);
    let atomic: Wait = |world, word| drop(word.fetch_inc_nb(world).unwrap().wait());
    let operation: Wait = |world, _| {
        let never = world.spawn(std::future::pending::<pgas_am::Result<()>>());
        drop(never.or_fail_at_limit().wait());
    };
    // It says so within the wait.
    let chain: Wait = |world, _| {
        let never = world.spawn(std::future::pending::<pgas_am::Result<()>>());
        let soon = world.spawn(std::future::ready(Ok(())));
        drop(
            soon.and_then(|()| never.or_fail_at_limit())
                .then(drop)
                .wait(),
        );
    };
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    config.timeout = Some(Duration::from_secs(5));
    for (wait, what) in [
        (atomic, "an atomic, which may be carried out later"),
        (operation, "an operation in flight, whose result is lost"),
        (chain, "an operation in flight, whose result is lost"),
    ] {
        let [is_idle, has_ended] = [(); 2].map(|()| AtomicBool::new(false));
        // The atomic is late.
        weak::run_held(2, &config, 1000, |world| {
            pgas_am::attach(&world).unwrap();
            let words = world.alloc_symmetric::<u64>(1).unwrap();
            world.barrier().unwrap();
            if world.rank() == ONE {
                is_idle.store(true, Ordering::Release);
                until(&has_ended);
            } else {
                let idle = || Ok(is_idle.load(Ordering::Acquire));
                world.wait_for("the other rank", idle).unwrap();
                let mut rounds = 0..3;
                let later = world.spawn(poll_fn(move |_| match rounds.next() {
                    None => Poll::Ready(Ok(())),
                    Some(_) => Poll::Pending,
                }));
                drop(later.then(|()| panic!("on purpose")));
                let waited = || wait(&world, words.on(ONE));
                let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(waited));
                has_ended.store(true, Ordering::Release);
                assert!(waited.is_err());
            }
            let told = world.barrier().unwrap_err().to_string();
            assert!(
                told.contains(&format!("rank 0 panicked in {what}")),
                "{told}"
            );
        });
    }
}

/// Over a network on which a transfer may be in flight for long.
#[test]
fn quiet_waits_for_what_follows_transfers() {
    static N_RUN: AtomicU64 = AtomicU64::new(0);
    let _deadline = Deadline::new("what follows transfers", LIMIT);
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    for seed in 0..50 {
        N_RUN.store(0, Ordering::Relaxed);
        weak::run(2, &config, seed, |world| {
            pgas_am::attach(&world).unwrap();
            let cells = world.alloc_symmetric::<u64>(1).unwrap();
            let other = Rank::new(1 - world.rank().number());
            let run = |()| _ = N_RUN.fetch_add(1, Ordering::Relaxed);
            let here = world.clone();
            let read = cells.on(other).get_nb(&world).unwrap();
            let read = read.future();
            let sent = read.then(move |_| here.rpc_ff(other, run, ()).unwrap());
            quiet(&world).unwrap();
            assert_eq!(N_RUN.load(Ordering::Relaxed), 2, "seed {seed}");
            sent.wait().unwrap();
            world.barrier().unwrap();
        });
    }
}

/// Over a network on which a transfer is in flight while a rank sends a hundred messages. A round
/// of `quiet` sends some, and `quiet` ends after two equal rounds if nothing is in flight.
#[test]
fn quiet_waits_for_what_follows_transfers_that_take_long() {
    static N_RUN: AtomicU64 = AtomicU64::new(0);
    let _deadline = Deadline::new("what follows slow transfers", LIMIT);
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    weak::run_held(2, &config, 100, |world| {
        pgas_am::attach(&world).unwrap();
        let cells = world.alloc_symmetric::<u64>(1).unwrap();
        let other = Rank::new(1 - world.rank().number());
        let run = |()| _ = N_RUN.fetch_add(1, Ordering::Relaxed);
        let here = world.clone();
        let read = cells.on(other).get_nb(&world).unwrap();
        let read = read.future();
        let mut sent = read.then(move |_| here.rpc_ff(other, run, ()).unwrap());
        assert!(!sent.is_ready(), "the transfer is under way");
        quiet(&world).unwrap();
        assert_eq!(N_RUN.load(Ordering::Relaxed), 2);
        sent.wait().unwrap();
        world.barrier().unwrap();
    });
}

/// A call that came before the object that it names was built.
#[test]
#[cfg_attr(miri, ignore = "waits for a time")]
fn a_function_that_runs_late_and_does_not_return_is_reported() {
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    let _deadline = Deadline::new("a function that does not return", LIMIT);
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    // Longer than the set-up takes on a busy machine.
    config.stall = Some(Duration::from_secs(2));
    config.stall_ends = true;
    let errors = pgas_smp::threads_with(2, &config, |world| {
        pgas_am::attach(&world).unwrap();
        let me = world.rank();
        let linger = |(object, here): (Object, Here)| {
            object.store(here.world().rank().number().into(), Ordering::Relaxed);
            until(&IS_OVER);
        };
        if me == Rank::ZERO {
            let object = Object::new(&world.team(), AtomicU64::new(0)).unwrap();
            let call = world.rpc(ONE, linger, (object, Here::new(&world))).unwrap();
            world.barrier().unwrap();
            // A wait would be reported, too.
            let failed = loop {
                if let Err(failed) = world.progress() {
                    break failed;
                }
                thread::yield_now();
            };
            IS_OVER.store(true, Ordering::Release);
            drop(call);
            failed.to_string()
        } else {
            world.barrier().unwrap();
            // The call is here, and waits.
            let _object = Object::new(&world.team(), AtomicU64::new(0)).unwrap();
            world.barrier().unwrap_err().to_string()
        }
    });
    for error in errors.unwrap() {
        assert!(error.contains("has run a handler for"), "{error}");
    }
}

/// A call that is not answered, because its target has not built the object that it names.
#[test]
fn a_quiet_that_does_not_end_is_reported() {
    let _deadline = Deadline::new("a quiet that does not end", LIMIT);
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    config.stall = Some(Duration::from_millis(300));
    config.stall_ends = true;
    let errors = pgas_smp::threads_with(2, &config, |world| {
        pgas_am::attach(&world).unwrap();
        let mut call = None::<PgasFuture<u64>>;
        if world.rank() == Rank::ZERO {
            let object = Object::new(&world.team(), AtomicU64::new(0)).unwrap();
            let load = |object: Object| object.load(Ordering::Relaxed);
            call = Some(world.rpc(ONE, load, object).unwrap());
        }
        let error = quiet(&world).unwrap_err();
        drop(call);
        error.to_string()
    });
    for error in errors.unwrap() {
        assert!(error.contains("has waited"), "{error}");
    }
}

/// An item, or the arguments, take more than the buffers of an aggregator.
#[test]
fn an_aggregator_sends_all_that_a_message_carries() {
    const LONG: usize = 9000;
    static N_BYTES: AtomicU64 = AtomicU64::new(0);
    fn count(n: usize) {
        N_BYTES.fetch_add(n as u64, Ordering::Relaxed);
    }
    ranks(2, |world| {
        assert!(world.capabilities().max_medium > LONG);
        let next = Rank::new(1 - world.rank().number());
        let long = |(): (), items: &[[u8; LONG]]| count(items.as_flattened().len());
        let mut sender = Aggregator::new(&world, long, ())?;
        (0..3).try_for_each(|_| sender.push(next, [1; LONG]))?;
        sender.finish()?;
        let beside = |_: Vec<u8>, items: &[u8]| count(items.len());
        let mut sender = Aggregator::new(&world, beside, vec![1; LONG])?;
        (0..LONG).try_for_each(|_| sender.push(next, 1))?;
        sender.finish()
    });
    assert_eq!(N_BYTES.load(Ordering::Relaxed), 2 * 4 * LONG as u64);
}
