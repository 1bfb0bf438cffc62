//! The doorbell on the real system call.

use std::{
    panic,
    sync::atomic::{
        AtomicU64,
        Ordering::{Relaxed, Release},
    },
    thread,
    time::{Duration, Instant},
};

use pgas_lockfree::doorbell::Bell;

use super::*;

/// Long enough to be a failure, short enough to be noticed.
const DEADLINE: Duration = Duration::from_secs(60);

fn n_rings(bell: &Doorbell) -> u32 {
    bell.bell().word().load(Relaxed)
}

#[test]
fn a_doorbell_fills_one_cache_line() {
    assert_eq!((size_of::<Doorbell>(), align_of::<Doorbell>()), (64, 64));
}

#[test]
fn who_is_ready_does_not_sleep() {
    let bell = Doorbell::default();
    assert!(bell.sleep_until(|| true, DEADLINE));
    assert!(bell.sleep_until(|| true, Duration::MAX));
    assert!(bell.sleep_until(|| true, Duration::ZERO));
}

#[test]
fn an_unrung_sleeper_wakes_at_its_timeout() {
    let bell = Doorbell::default();
    let timeout = Duration::from_millis(20);
    let start = Instant::now();
    assert!(!bell.sleep_until(|| false, timeout));
    assert!(start.elapsed() >= timeout);
    assert_eq!(bell.n_sleepers(), 0);
}

#[test]
fn ringing_without_a_sleeper_makes_no_system_call() {
    let bell = Doorbell::default();
    bell.ring();
    assert_eq!(n_rings(&bell), 0, "the word changes only for sleepers");
}

#[test]
fn an_owner_that_cannot_fence_for_others_is_heard_of_and_woken() {
    let bell = Doorbell::default();
    bell.refuse_light_fences();
    bell.ring();
    assert_eq!(n_rings(&bell), 0, "nobody sleeps");
    let go = AtomicU64::new(0);
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| bell.sleep_until(|| go.load(Relaxed) == 1, DEADLINE));
        while bell.n_sleepers() == 0 {
            thread::yield_now();
        }
        go.store(1, Release);
        bell.ring();
        assert!(sleeper.join().unwrap());
    });
    assert_eq!(bell.n_sleepers(), 0);
}

#[test]
fn a_panic_of_ready_leaves_no_sleeper_behind() {
    let bell = Doorbell::default();
    let sleep = panic::AssertUnwindSafe(|| bell.sleep_until(|| panic!("poisoned"), DEADLINE));
    assert!(panic::catch_unwind(sleep).is_err());
    assert_eq!(bell.n_sleepers(), 0);
}

#[test]
fn every_ring_between_two_ranks_is_heard() {
    const N_TURNS: u64 = 3_000;
    let bells = [Doorbell::default(), Doorbell::default()];
    let turn = AtomicU64::new(0);
    thread::scope(|scope| {
        for me in 0..2_u64 {
            let (own, other) = if me == 0 {
                (&bells[0], &bells[1])
            } else {
                (&bells[1], &bells[0])
            };
            let turn = &turn;
            scope.spawn(move || {
                for n in (me..N_TURNS).step_by(2) {
                    assert!(
                        own.sleep_until(|| turn.load(Relaxed) == n, DEADLINE),
                        "turn {n} was lost"
                    );
                    turn.store(n + 1, Release);
                    other.ring();
                }
            });
        }
    });
    assert_eq!(turn.into_inner(), N_TURNS);
}

#[test]
fn one_ring_wakes_every_thread_that_sleeps() {
    let bell = Doorbell::default();
    let go = AtomicU64::new(0);
    thread::scope(|scope| {
        let sleepers: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| bell.sleep_until(|| go.load(Relaxed) == 1, DEADLINE)))
            .collect();
        while bell.n_sleepers() < 3 {
            thread::yield_now();
        }
        let start = Instant::now();
        go.store(1, Release);
        bell.ring();
        for sleeper in sleepers {
            assert!(sleeper.join().unwrap());
        }
        assert!(start.elapsed() < DEADLINE / 2, "one has slept on");
    });
}
