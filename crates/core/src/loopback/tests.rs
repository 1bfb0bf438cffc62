//! The behaviour that the reference transport adds to the contract: delays, disorder, failures
//! without a hang.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;

use super::*;
use crate::{Config, GlobalPtr, World};

fn elsewhere(world: &World) -> GlobalPtr<u64> {
    let next = (world.rank().number() + 1) % world.n_ranks();
    GlobalPtr::new(Rank::new(next), 4096)
}

#[test]
fn a_put_elsewhere_is_visible_after_a_flush_and_not_before() {
    run(2, |world| {
        if world.rank() == Rank::ZERO {
            let cell = elsewhere(&world);
            cell.put(&world, 5).unwrap();
            assert_eq!(cell.get(&world).unwrap(), 0);
            world.flush(cell.rank()).unwrap();
            assert_eq!(cell.get(&world).unwrap(), 5);
        }
    });
}

#[test]
fn a_source_is_free_before_the_operation_is_complete() {
    let world = world();
    let cell = world.alloc::<u64>(1).unwrap();
    let put = cell.put_vec_nb(&world, vec![9]).unwrap();
    let (mut values, whole) = put.at_source().wait().unwrap();
    assert_eq!(cell.get(&world).unwrap(), 0, "it is not at the target yet");
    values[0] = 7;
    whole.wait().unwrap();
    assert_eq!(cell.get(&world).unwrap(), 9);
}

#[test]
fn the_source_of_an_atomic_is_free_when_it_is_complete_with_a_result_or_without() {
    let world = world();
    let cell = world.alloc::<u64>(1).unwrap();
    let mut without = cell.atomic_add_nb(&world, 1).unwrap().at_source();
    let mut with = cell.fetch_add_nb(&world, 1).unwrap().at_source();
    assert!(!without.is_complete().unwrap() && !with.is_complete().unwrap());
    assert!(without.fails_at_limit() && with.fails_at_limit());
    let ((), mut whole) = without.wait().unwrap();
    assert!(whole.is_complete().unwrap());
    let (_, mut whole) = with.wait().unwrap();
    assert!(whole.is_complete().unwrap());
    assert_eq!(cell.get(&world).unwrap(), 2);
}

#[test]
fn later_operations_overtake_earlier_ones() {
    let world = world();
    let cell = world.alloc::<u64>(3).unwrap();
    let events: Vec<_> = (0..6)
        .map(|i| {
            cell.add(i % 3)
                .fetch_op_nb(&world, crate::backend::AtomicOp::Add, 1)
        })
        .map(Result::unwrap)
        .collect();
    let mut order = Vec::new();
    let mut events: Vec<_> = events.into_iter().enumerate().collect();
    while !events.is_empty() {
        events.retain_mut(|(i, event)| {
            let done = event.test().unwrap();
            if done {
                order.push(*i);
            }
            !done
        });
    }
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
    assert_ne!(order, sorted);
}

#[test]
fn a_full_queue_pushes_back_and_has_room_after_a_poll() {
    let ranks = job(2, 1 << 16, &Options::default());
    let send = || {
        ranks[0]
            .try_send(
                Rank::new(1),
                MessageClass::Request,
                HandlerId(20),
                &[b"a", b"b"],
            )
            .unwrap()
    };
    let mut sent = 0;
    while send() == Sent::Accepted {
        sent += 1;
    }
    assert!(sent > 1);
    let mut payloads = Vec::new();
    let mut sink = |message: Message<'_>| payloads.push(message.payload.to_vec());
    assert_eq!(ranks[1].poll(MessageClass::Reply, 9, &mut sink).unwrap(), 0);
    assert_eq!(
        ranks[1].poll(MessageClass::Request, 1, &mut sink).unwrap(),
        1
    );
    assert_eq!(payloads, [b"ab"]);
    assert_eq!(send(), Sent::Accepted);
    assert_eq!(send(), Sent::BackPressure);
}

#[test]
fn a_panic_on_one_rank_fails_the_waits_of_the_others_and_comes_out_of_run() {
    let panic = catch_unwind(AssertUnwindSafe(|| {
        run(3, |world| {
            if world.rank() == Rank::new(1) {
                panic!("the first cause");
            }
            let cell = world.alloc::<u64>(1).unwrap();
            let error = cell.wait_until(&world, |value| value == 1).unwrap_err();
            let Error::RankFailed(failure) = &error else {
                panic!("{error}");
            };
            assert_eq!(failure.rank, Rank::new(1), "{error}");
        })
    }))
    .unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"the first cause"));
}

#[test]
fn a_handler_that_panics_while_its_rank_leaves_fails_the_waits_of_the_others() {
    const PANICS: HandlerId = HandlerId(100);
    // Otherwise the waits would not end.
    let config = Config {
        timeout: Some(Duration::from_secs(20)),
        ..Config::default()
    };
    let has_sent = Barrier::new(2);
    let told = Mutex::new(String::new());
    let body = |world: World| {
        if world.rank() == Rank::ZERO {
            world.set_handler(PANICS, |_, _| panic!("over a last word"));
            has_sent.wait();
            // The result is a handle, so it leaves with one.
            return Some(world);
        }
        let sent = world.try_send(Rank::ZERO, MessageClass::Request, PANICS, &[]);
        assert_eq!(sent.unwrap(), Sent::Accepted);
        has_sent.wait();
        *told.lock().unwrap() = world.barrier().unwrap_err().to_string();
        None
    };
    let run = || run_with(2, &config, body);
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    let told = told.lock().unwrap();
    assert!(told.contains("rank 0 panicked: over a last word"), "{told}");
}

#[test]
fn a_failure_ends_the_wait_of_a_rank_that_has_waited_for_long() {
    let waits = Mutex::new(None::<World>);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        run(2, |world| {
            if world.rank() == Rank::ZERO {
                let has_waited = || {
                    let other = lock(&waits);
                    let other = other.as_ref();
                    other.is_some_and(|other| other.long_waits().contains("a signal"))
                };
                while !has_waited() {
                    thread::yield_now();
                }
                drop(lock(&waits).take());
                panic!("the first cause");
            }
            *lock(&waits) = Some(world.clone());
            let cell = world.alloc::<u64>(1).unwrap();
            let error = cell.wait_until(&world, |value| value == 1).unwrap_err();
            assert!(matches!(error, Error::RankFailed(_)), "{error}");
        })
    }));
    let panic = outcome.unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"the first cause"));
}

/// Each round takes a millisecond, as on a machine where other programs run whenever a rank yields.
#[test]
fn a_wait_is_noted_by_time_and_not_by_rounds() {
    /// Far fewer rounds than those of spinning and yielding together.
    const MOST_ROUNDS: usize = 400;
    let long = Duration::from_millis(1);
    let world = &world();
    let mut n_rounds = 0;
    let ready = || {
        thread::sleep(long);
        n_rounds += 1;
        Ok(n_rounds > MOST_ROUNDS || world.long_waits().contains("what is late"))
    };
    world.wait_for("what is late", ready).unwrap();
    assert!(n_rounds < MOST_ROUNDS, "{n_rounds}");
    let mut own = world.own_wait("a loop of one's own");
    let mut n_rounds = 0;
    while !world.long_waits().contains("a loop of one's own") {
        assert!(n_rounds < 20, "{n_rounds}");
        own.pause(&Vec::new).unwrap();
        n_rounds += 1;
    }
}

/// As if a rank is the last to arrive in a barrier, and then exits without leaving the job.
#[test]
fn what_came_before_the_job_failed_ends_a_wait_well() {
    let world = &world();
    let mut has_failed = false;
    let mut ready_after = |n_looks: u32, n: &mut u32| {
        if *n == n_looks && !has_failed {
            has_failed = true;
            drop(world.backend().blame(Rank::ZERO, "failed after it"));
        }
        *n += 1;
        *n > n_looks + 1
    };
    let mut n = 0;
    world
        .wait_for("what has come", || Ok(ready_after(1000, &mut n)))
        .unwrap();
    let mut waiting = world.own_wait("what has come");
    let mut n = 0;
    while !ready_after(0, &mut n) {
        waiting.pause(&Vec::new).unwrap();
    }
    // A second pause reports the failure, and so does a wait for what never comes.
    waiting.pause(&Vec::new).unwrap_err();
    let error = world.wait_for("nothing", || Ok(false)).unwrap_err();
    assert!(matches!(error, Error::RankFailed(_)), "{error}");
}

/// It has begun a collective that the other rank never calls.
#[test]
fn a_rank_that_cannot_leave_in_time_fails_the_job() {
    let config = Config {
        timeout: Some(Duration::from_millis(100)),
        ..Config::default()
    };
    let mut worlds = worlds(2, &config).unwrap();
    let (other, leaving) = (worlds.pop().unwrap(), worlds.pop().unwrap());
    drop(leaving.barrier_nb());
    drop(leaving);
    let error = other.barrier().unwrap_err().to_string();
    let told = "rank 0 failed in leaving the job: rank 0 waited ";
    assert!(error.contains(told), "{error}");
}

/// Its handler sends it another message whenever one comes.
#[test]
fn a_rank_that_is_never_without_work_hears_of_failures_and_of_limits() {
    let keep_busy = |world: &World| {
        let id = HandlerId(HandlerId::N_RESERVED);
        let send = move |world: &World| {
            let sent = world.try_send(world.rank(), MessageClass::Request, id, &[]);
            assert_eq!(sent.unwrap(), Sent::Accepted);
        };
        world.set_handler(id, move |world, _| send(world));
        send(world);
        let cell = world.alloc::<u64>(1).unwrap();
        cell.wait_until(world, |value| value == 1).unwrap_err()
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        run(2, |world| {
            if world.rank() == Rank::ZERO {
                panic!("the first cause");
            }
            let error = keep_busy(&world);
            assert!(matches!(error, Error::RankFailed(_)), "{error}");
        })
    }));
    let panic = outcome.unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"the first cause"));
    let config = Config {
        timeout: Some(Duration::from_millis(100)),
        ..Config::default()
    };
    run_with(1, &config, |world| {
        let error = keep_busy(&world);
        assert!(matches!(error, Error::Timeout(_)), "{error}");
    });
}

#[test]
fn an_abort_is_seen_by_the_others_with_code_and_message() {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        run(2, |world| {
            if world.rank() == Rank::ZERO {
                world.abort(3, "enough");
            }
            let cell = world.alloc::<u64>(1).unwrap();
            let error = cell.wait_until(&world, |value| value == 1).unwrap_err();
            assert_eq!(
                error.to_string(),
                "rank 0 aborted the job with code 3: enough"
            );
        })
    }));
    let panic = outcome.unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert_eq!(text, "rank 0 aborted the job with code 3: enough");
}

/// The system keeps eight bits of a code.
#[test]
fn no_code_of_an_abort_is_that_of_success() {
    for code in [0, 256, -512] {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            run(1, |world| world.abort(code, "enough"))
        }));
        let panic = outcome.err().unwrap();
        let text = panic.downcast_ref::<String>().unwrap();
        assert_eq!(text, "rank 0 aborted the job with code 1: enough");
    }
}

#[test]
fn a_rank_that_leaves_while_others_wait_for_it_is_named() {
    let outcomes = run(3, |world| {
        if world.rank() == Rank::new(1) {
            return None;
        }
        Some(world.barrier().unwrap_err().to_string())
    });
    let text = "rank 1 has left the job while others wait for it in a barrier";
    assert_eq!(outcomes, [Some(text.into()), None, Some(text.into())]);
}

#[test]
fn a_wait_longer_than_the_configured_limit_is_an_error_that_says_what_for() {
    let config = Config {
        timeout: Some(Duration::from_millis(100)),
        ..Config::default()
    };
    let outcomes = run_with(2, &config, |world| {
        let word = world.alloc::<u64>(1).unwrap();
        let error = word.wait_until(&world, |value| value == 1).unwrap_err();
        assert!(matches!(error, Error::Timeout(_)), "{error}");
        error.to_string()
    });
    assert!(outcomes[1].starts_with("rank 1 waited "), "{}", outcomes[1]);
    assert!(outcomes[1].ends_with(" for a signal"), "{}", outcomes[1]);
}

#[test]
fn what_a_rank_sent_before_it_left_is_received_by_those_that_wait_for_it() {
    let sums = run(4, |world| {
        // The fastest rank leaves with the last of these handles. The others may then still wait.
        let sums = [1, 10].map(|n| world.team().allreduce_nb(n, |a: u64, b: u64| a + b));
        drop(world);
        sums.map(|sum| sum.wait().unwrap())
    });
    assert_eq!(sums, [[4, 40]; 4]);
}

#[test]
fn a_rank_that_left_is_named_by_a_collective_in_flight_and_by_its_full_mailbox() {
    let outcomes = run(3, |world| {
        let leaver = Rank::new(1);
        if world.rank() == leaver {
            return None;
        }
        let sum = world.team().allreduce_nb(1, |a: u64, b: u64| a + b);
        let in_flight = sum.wait().unwrap_err().to_string();
        let offer = || {
            world.try_send(
                leaver,
                MessageClass::Request,
                HandlerId(HandlerId::N_RESERVED),
                &[],
            )
        };
        let full = loop {
            match offer() {
                Ok(_) => {}
                Err(error) => break error.to_string(),
            }
        };
        Some([in_flight, full])
    });
    for [in_flight, full] in outcomes.into_iter().flatten() {
        let expected = "rank 1 has left the job while others wait for it in an allreduce";
        assert_eq!(in_flight, expected);
        assert!(full.starts_with("rank 1 has left the job"), "{full}");
    }
}

#[test]
fn a_rank_that_leaves_since_the_job_has_failed_has_not_left_in_good_order() {
    let (failed, left) = (Barrier::new(3), Barrier::new(3));
    let outcomes = run(3, |world| {
        let backend = world.backend();
        if world.rank() == Rank::new(2) {
            drop(backend.blame(world.rank(), "was killed"));
        }
        failed.wait();
        if world.rank() == Rank::new(1) {
            drop(world);
            left.wait();
            return None;
        }
        left.wait();
        assert!(backend.has_left(Rank::new(1)) && !world.has_left(Rank::new(1)));
        let full = world.check_after_refusal(Rank::new(1));
        Some(full.unwrap_err().to_string())
    });
    let why = Some("rank 2 was killed".to_owned());
    assert_eq!(outcomes, [why.clone(), None, why]);
}

#[test]
fn a_message_that_was_served_is_not_told_to_be_lost_when_its_receiver_leaves_at_once() {
    let ranks = job(2, 1 << 16, &Options::default());
    let (first, second) = (&ranks[0], &ranks[1]);
    let receiver = second.job.member(second.rank);
    // The sender will stop at the bell, after the message is in the mailbox.
    let rung = lock(&receiver.bell.rung);
    thread::scope(|scope| {
        let (class, handler) = (MessageClass::Request, HandlerId(HandlerId::N_RESERVED));
        let sender = scope.spawn(move || first.try_send(second.rank, class, handler, &[b"once"]));
        while second.poll(class, 1, &mut |_| {}).unwrap() == 0 {
            thread::yield_now();
        }
        scope.spawn(|| second.leave(&mut |_| panic!("it was served")));
        while !receiver.has_left.load(Ordering::Acquire) {
            thread::yield_now();
        }
        drop(rung);
        assert_eq!(sender.join().unwrap().unwrap(), Sent::Accepted);
        let late = first.try_send(second.rank, class, handler, &[]);
        let late = late.unwrap_err().to_string();
        assert!(late.contains("has left the job"), "{late}");
        // Of a job that has failed, it says why.
        let failed = second.blame(second.rank, "ended early").to_string();
        let late = first.try_send(second.rank, class, handler, &[]);
        assert_eq!(late.unwrap_err().to_string(), failed);
        assert_eq!(receiver.mailbox.n_free(class), 16, "both were taken back");
    });
}

#[test]
fn groups_are_freed_with_their_teams() {
    let ranks = job(4, 1 << 16, &Options::default().with_collectives());
    let shared = Arc::clone(&ranks[0].job);
    let n_groups = || shared.n_groups.load(Ordering::Relaxed);
    threads::run_job(ranks, &Config::default(), &|world| {
        let team = world.team();
        for _ in 0..3 {
            let half = team.split(Some(team.rank() / 2), 0).unwrap().unwrap();
            assert_eq!(half.allgather(&[world.rank()]).unwrap().len(), 2);
            let nobody = half.split(None, 0).unwrap();
            assert!(nobody.is_none());
            let alone = half.split(Some(half.rank()), 0).unwrap().unwrap();
            assert_eq!(alone.allgather(&[7]).unwrap(), [7]);
            drop((half, alone));
            team.barrier().unwrap();
            assert_eq!(n_groups(), 4, "those of the world");
            team.barrier().unwrap();
        }
    });
    assert_eq!(n_groups(), 0);
}

#[test]
fn a_question_about_a_rank_that_is_not_there_is_refused_with_its_number() {
    let world = world();
    let stranger = Rank::new(7);
    let questions: [(&str, &dyn Fn()); 5] = [
        ("flush", &|| drop(world.flush(stranger))),
        ("is_direct", &|| _ = world.is_direct(stranger)),
        ("has_left", &|| _ = world.has_left(stranger)),
        ("costs_with", &|| _ = world.costs_with(stranger)),
        ("n_credits", &|| {
            _ = world.n_credits(stranger, MessageClass::Request);
        }),
    ];
    for (name, ask) in questions {
        let refusal = catch_unwind(AssertUnwindSafe(ask)).unwrap_err();
        let text = refusal.downcast_ref::<String>().unwrap();
        assert_eq!(
            text, "rank 7 was named, but the job has ranks 0 to 0",
            "{name}"
        );
    }
}
