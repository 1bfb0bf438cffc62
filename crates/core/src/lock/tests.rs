//! What errors, limits and lines of the program do to a lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::{fs, thread};

use super::*;
use crate::backend::{HandlerId, MessageClass, Sent, loopback};
use crate::{Config, Statistics};

/// The rank would get the lock, and never give it back.
#[test]
fn a_panic_of_a_handler_while_a_rank_waits_for_a_lock_fails_the_job() {
    const ID: HandlerId = HandlerId(900);
    let config = in_limits_of(Duration::from_secs(20));
    let has_panicked = AtomicBool::new(false);
    let told = loopback::run_with(3, &config, |world| {
        world.set_handler(ID, |_, _| panic!("on purpose"));
        let lock = Lock::new(&world, Rank::ZERO).unwrap();
        let is_holder = world.rank() == Rank::ZERO;
        let guard = is_holder.then(|| lock.lock().unwrap());
        world.barrier().unwrap();
        if world.rank() == Rank::new(1) {
            let waits = AssertUnwindSafe(|| lock.lock().map(drop));
            let panicked = catch_unwind(waits).unwrap_err();
            assert_eq!(panicked.downcast_ref(), Some(&"on purpose"));
            has_panicked.store(true, Ordering::Release);
        } else if is_holder {
            // Rank 1 waits in the queue.
            let waits = || Ok(lock.last().atomic_load(&world)? != lock.me());
            world.wait_for("the other rank", waits).unwrap();
            let to = Rank::new(1);
            let sent = world.try_send(to, MessageClass::Request, ID, &[]);
            assert_eq!(sent.unwrap(), Sent::Accepted);
            while !has_panicked.load(Ordering::Acquire) {
                thread::yield_now();
            }
            drop(guard);
        } else {
            // Or rank 0 would take it for rank 1, which may not be in the queue yet.
            while !has_panicked.load(Ordering::Acquire) {
                thread::yield_now();
            }
        }
        // Whoever asks behind it.
        loop {
            if let Err(error) = lock.lock().map(drop).and_then(|()| world.barrier()) {
                return error.to_string();
            }
        }
    });
    for text in told {
        assert!(text.contains("rank 1 panicked in a lock"), "{text}");
    }
}

fn in_limits_of(timeout: Duration) -> Config {
    Config {
        timeout: Some(timeout),
        ..Config::default()
    }
}

/// The other rank, which comes next, has entered the queue by half, and holds the release up.
#[test]
#[cfg_attr(
    miri,
    ignore = "the limit holds for the other waits, too, which take Miri longer"
)]
fn a_lock_that_a_failed_wait_got_and_cannot_give_back_fails_the_job() {
    let config = in_limits_of(Duration::from_secs(2));
    let has_ended = AtomicBool::new(false);
    let told = loopback::run_with(2, &config, |world| {
        let lock = Lock::new(&world, Rank::ZERO).unwrap();
        if world.rank() == Rank::ZERO {
            lock.own(STATE).swap(&world, GRANTED).unwrap();
            lock.last().swap(&world, number_of(Rank::new(1))).unwrap();
            let failed = world.wait_for("a test", || Ok(false));
            let error = lock.end_wait(failed).unwrap_err().to_string();
            assert!(error.contains("the rank that comes next"), "{error}");
            has_ended.store(true, Ordering::Release);
        } else {
            while !has_ended.load(Ordering::Acquire) {
                thread::yield_now();
            }
        }
        world.barrier().unwrap_err().to_string()
    });
    for text in told {
        assert!(text.contains("rank 0 failed in a lock"), "{text}");
    }
}

#[test]
fn a_lock_that_a_failed_wait_got_is_given_back() {
    let config = in_limits_of(Duration::from_millis(200));
    let world = loopback::worlds(1, &config).unwrap().swap_remove(0);
    let lock = Lock::new(&world, Rank::ZERO).unwrap();
    lock.own(STATE).swap(&world, GRANTED).unwrap();
    lock.last().swap(&world, lock.me()).unwrap();
    let failed = world.wait_for("a test", || Ok(false));
    let error = lock.end_wait(failed).unwrap_err().to_string();
    assert!(error.contains("a test"), "{error}");
    assert!(lock.try_lock().unwrap().is_some());
}

/// A release that takes the rank's node out of the queue may wait itself.
#[test]
fn a_limit_holds_while_the_former_place_is_taken_out() {
    let config = in_limits_of(Duration::from_secs(20));
    let world = loopback::worlds(1, &config).unwrap().swap_remove(0);
    let lock = Lock::new(&world, Rank::ZERO).unwrap();
    lock.own(STATE).swap(&world, PASSING).unwrap();
    let got = lock.lock_within(Duration::from_millis(10)).unwrap();
    assert!(got.is_none());
    lock.own(STATE).swap(&world, OUT).unwrap();
    assert!(lock.lock_within(Duration::ZERO).unwrap().is_some());
}

#[test]
fn a_guard_knows_the_line_that_asked_for_the_lock_in_each_way() {
    let world = loopback::world();
    let lock = Lock::new(&world, Rank::ZERO).unwrap();
    let line = line!();
    assert_eq!(lock.lock().unwrap().at.line(), line + 1);
    let guard = lock.lock_within(Duration::ZERO).unwrap().unwrap();
    assert_eq!(guard.at.line(), line + 2);
    drop(guard);
    let guard = lock.try_lock().unwrap().unwrap();
    assert_eq!(guard.at.line(), line + 5);
}

/// A rank waits in the drop of a guard if the next one has entered the queue by half.
#[test]
fn a_drop_that_waits_does_so_at_the_line_that_asked_for_the_lock() {
    let file = std::env::temp_dir().join(format!("pgas-lock-{}.json", std::process::id()));
    let config = Config {
        statistics: Statistics::Total,
        statistics_file: Some(file.display().to_string()),
        ..Config::default()
    };
    let line = loopback::run_with(2, &config, |world| -> Result<u32> {
        let lock = Lock::new(&world, Rank::ZERO)?;
        let is_holder = world.rank() == Rank::ZERO;
        let guard = is_holder.then(|| lock.lock()).transpose()?;
        let line = line!() - 1;
        world.barrier()?;
        if is_holder {
            world.wait_for("the other rank", || {
                Ok(lock.last().atomic_load(&world)? != lock.me())
            })?;
            drop(guard);
        } else {
            lock.own(STATE).swap(&world, WAITING)?;
            lock.last().swap(&world, lock.me())?;
            thread::sleep(Duration::from_millis(20));
            lock.word(Rank::ZERO, NEXT).swap(&world, lock.me())?;
            let state = lock.own(STATE);
            state.wait_until(&world, |state| state == GRANTED)?;
            lock.release()?;
        }
        world.barrier()?;
        Ok(line)
    });
    let line = line[0].as_ref().expect("both ranks end");
    let text = fs::read_to_string(&file).expect("the figures");
    fs::remove_file(&file).expect("the file is this test's");
    let wait = text
        .split('{')
        .find(|part| part.contains("comes next in the queue"));
    let wait = wait.unwrap_or_else(|| panic!("no such wait: {text}"));
    assert!(
        wait.contains(&format!("\"line\":{line},")),
        "{line}: {wait}"
    );
}
