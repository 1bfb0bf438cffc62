//! Collectives that the transport performs, mixed with those that this crate performs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::over;
use crate::backend::loopback::{self, Options, run_over};
use crate::backend::{HandlerId, MessageClass, Sent};
use crate::collective::call::WINDOW;
use crate::collective::op;
use crate::config::Progress;
use crate::waits::Awaited;
use crate::{Config, Error, Event, Rank, Result, Team, World};

fn native() -> Options {
    Options::default().with_collectives()
}

/// Several windows of collectives of both kinds, more and more of them in flight.
fn many(team: &Team) -> Result<()> {
    let n = team.n_ranks();
    let (mut sums, mut lists) = (Vec::new(), Vec::new());
    for i in 0..3 * u32::try_from(WINDOW).expect("a small number") {
        // The transport performs the first and the last. This crate performs the others: the sum
        // for its operator, the list for its length.
        sums.push((i * n, team.allreduce_nb(i, op::Sum)));
        sums.push((i * n, team.allreduce_nb(i, |a: u32, b: u32| a + b)));
        lists.push((vec![i; 3 * n as usize], team.allgather_nb(vec![i; 3])));
        lists.push((vec![i; 2 * n as usize], team.allgather_nb(vec![i; 2])));
        if i % 5 == 0 {
            assert_eq!(
                team.scan_exclusive(1, 9, op::Sum)?,
                [9, team.rank()][usize::from(team.rank() > 0)]
            );
        }
        if i % 7 == team.rank() {
            // Each member waits for some of them here, other members for other ones.
            let (expected, event) = sums.swap_remove(0);
            assert_eq!(event.wait()?, expected);
        }
    }
    for (expected, event) in sums {
        assert_eq!(event.wait()?, expected);
    }
    for (expected, event) in lists {
        assert_eq!(event.wait()?, expected);
    }
    Ok(())
}

#[test]
fn collectives_of_both_kinds_in_flight_keep_their_order() {
    // With a comparison of arguments a call may begin later than the one after it; and a progress
    // thread may finish the comparison while a caller drives another call.
    for (check, progress) in [
        (false, Progress::Poll),
        (true, Progress::Poll),
        (true, Progress::Thread),
    ] {
        let config = Config {
            check: Some(check),
            progress,
            ..Config::default()
        };
        over(&native(), 3, &config, |world| {
            let team = world.team();
            let odd = team.split(Some(team.rank() % 2), 0)?;
            many(&team)?;
            odd.map_or(Ok(()), |odd| many(&odd))
        });
    }
}

#[test]
fn reduced_floats_are_never_the_transports() {
    let bits = run_over(&native(), 4, &Config::default(), |world| {
        let team = world.team();
        let mine = [1e16_f64, 1.0, -1e16, 1.0][world.rank().index()];
        let sums: Vec<f64> = (0..3)
            .map(|_| team.allreduce(mine, op::Sum))
            .collect::<Result<_>>()
            .unwrap();
        sums[0].to_bits() + u64::from(sums != [sums[0]; 3])
    });
    let by_messages = loopback::run(4, |world| {
        let mine = [1e16_f64, 1.0, -1e16, 1.0][world.rank().index()];
        world.allreduce(mine, op::Sum).unwrap().to_bits()
    });
    assert_eq!(bits, by_messages);
}

#[test]
fn a_member_that_left_before_it_began_is_named() {
    let both_have_the_sum = std::sync::Barrier::new(2);
    let outcomes = run_over(&native(), 3, &Config::default(), |world| {
        let team = world.team();
        // The sum is complete on all ranks, although rank 1 leaves.
        let sum = team.allreduce_nb(1_u64, op::Sum);
        if world.rank() == Rank::new(1) {
            drop(sum);
            return None;
        }
        assert_eq!(sum.wait().unwrap(), 3);
        // The allgather below fails the whole job. The other rank must have the sum before.
        both_have_the_sum.wait();
        let list = team.allgather_nb(vec![1_u8]).wait();
        let again = team.broadcast(0, 1);
        Some([
            list.unwrap_err().to_string(),
            again.unwrap_err().to_string(),
        ])
    });
    for [list, again] in outcomes.into_iter().flatten() {
        let expected = "rank 1 has left the job while others wait for it in an allgather";
        assert_eq!(list, expected);
        assert_eq!(again, expected);
    }
}

#[test]
fn a_call_that_is_given_up_before_it_began_does_not_let_others_begin_in_its_place() {
    let config = Config {
        check: Some(true),
        timeout: Some(Duration::from_millis(50)),
        ..Config::default()
    };
    let texts = run_over(&native(), 2, &config, |world| {
        let team = world.team();
        if team.rank() == 1 {
            // Not a wait of the library, which would time out too.
            return [told_that_rank_0_failed(&world), String::new()];
        }
        // The comparison of the arguments waits for the other rank in vain.
        let late = team.allreduce(1, op::Sum).unwrap_err().to_string();
        let next = team.broadcast_nb(0, 1).wait().unwrap_err().to_string();
        [late, next]
    });
    let [late, next] = &texts[0];
    assert!(late.contains("for an allreduce"), "{late}");
    assert!(
        next.contains("rank 0 failed in an allreduce: ") || next.contains("out of step"),
        "{next}"
    );
}

/// A panic of a handler in the wait for the comparison of the arguments fails the job.
#[test]
fn a_call_that_a_panic_ends_before_it_began_does_not_let_others_begin_in_its_place() {
    let config = Config {
        check: Some(true),
        timeout: Some(Duration::from_secs(20)),
        ..Config::default()
    };
    let has_panicked = AtomicBool::new(false);
    run_over(&native(), 2, &config, |world| {
        let id = HandlerId(HandlerId::N_RESERVED);
        let team = world.team();
        if team.rank() == 1 {
            let sent = world.try_send(Rank::ZERO, MessageClass::Request, id, &[]);
            assert_eq!(sent.unwrap(), Sent::Accepted);
            while !has_panicked.load(Ordering::Acquire) {
                thread::yield_now();
            }
            let _sum = team.allreduce_nb(1, op::Sum);
            let _next = team.broadcast_nb(0, 1);
            let told = told_of_a_failure(&world);
            assert!(told.contains("rank 0 panicked in an allreduce"), "{told}");
            return;
        }
        world.set_handler(id, |_, _| panic!("on purpose"));
        let sum = || team.allreduce(1, op::Sum);
        assert!(catch_unwind(AssertUnwindSafe(sum)).is_err());
        has_panicked.store(true, Ordering::Release);
        let next = team.broadcast(0, 1).unwrap_err().to_string();
        assert!(next.contains("rank 0 panicked in an allreduce"), "{next}");
    });
}

/// Waits until this rank is told that a collective has failed on rank 0.
fn told_that_rank_0_failed(world: &World) -> String {
    let error = told_of_a_failure(world);
    assert!(
        error.starts_with("rank 0 failed in an allreduce: "),
        "{error}"
    );
    error
}

fn told_of_a_failure(world: &World) -> String {
    loop {
        if let Err(error) = world.progress() {
            return error.to_string();
        }
    }
}

#[test]
fn a_wait_that_ends_early_leaves_the_buffers_to_the_transport() {
    let config = Config {
        timeout: Some(Duration::from_millis(50)),
        ..Config::default()
    };
    run_over(&native(), 2, &config, |world| {
        let team = world.team();
        let mut values = [5_u64; 100];
        if team.rank() == 1 {
            told_that_rank_0_failed(&world);
            // The transport may still read the values of rank 0, whose memory is valid.
            let result = team.allreduce_slice(&mut values, op::Sum);
            assert_eq!(values, [if result.is_ok() { 10 } else { 5 }; 100]);
            return;
        }
        let error = team.allreduce_slice(&mut values, op::Sum).unwrap_err();
        assert!(matches!(error, Error::Timeout(_)), "{error}");
        assert_eq!(values, [5; 100]);
    });
}

#[test]
fn an_event_is_complete_only_when_the_transport_says_so() {
    over(&native(), 2, &Config::default(), |world| {
        let flag = world.alloc_symmetric::<u64>(1)?;
        let team = world.team();
        if team.rank() == 0 {
            let mut events: Vec<Event<u32>> =
                (0..3).map(|i| team.allreduce_nb(i, op::Max)).collect();
            for _ in 0..100 {
                for event in &mut events {
                    assert!(!event.test()?);
                }
            }
            flag.on(Rank::new(1)).put(&world, 1)?;
            world.flush_all()?;
            for (i, event) in (10..13).zip(events).rev() {
                assert_eq!(event.wait()?, i);
            }
            Ok(())
        } else {
            let awaited = Awaited::new("the flag");
            world.wait_until(&awaited, || Ok(flag.here().get(&world)? == 1))?;
            for i in 10_u32..13 {
                assert_eq!(team.allreduce(i, op::Max)?, i);
            }
            Ok(())
        }
    });
}
