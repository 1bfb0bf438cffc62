//! Every interleaving of sleeping and ringing, by loom: a lost wake-up leaves the sleeper blocked
//! for ever, which loom reports.

use loom::{sync::Arc, thread};

use super::futex_model::{DeafDoorbell, Doorbell};
use super::*;
use crate::machine::Portable;
use crate::{mailbox::Mailbox, sync::AtomicU64};

/// Longer than any run: under loom a sleep ends only by a wake-up.
const LONG: Duration = Duration::from_secs(3600);

#[test]
fn loom_no_wake_up_is_lost() {
    loom::model(|| {
        let shared = Arc::new((Doorbell::default(), AtomicU64::new(0)));
        let ringer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1.store(1, Relaxed);
                shared.0.ring();
            })
        };
        assert!(shared.0.sleep_until(|| shared.1.load(Relaxed) == 1, LONG));
        ringer.join().unwrap();
        assert_eq!(shared.0.n_sleepers.load(Relaxed), 0);
    });
}

#[test]
fn loom_an_owner_that_cannot_fence_for_others_is_woken_too() {
    loom::model(|| {
        let bell = DeafDoorbell::default();
        bell.refuse_light_fences();
        let shared = Arc::new((bell, AtomicU64::new(0)));
        let ringer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1.store(1, Relaxed);
                shared.0.ring();
            })
        };
        assert!(shared.0.sleep_until(|| shared.1.load(Relaxed) == 1, LONG));
        ringer.join().unwrap();
        assert_eq!(shared.0.n_sleepers(), 0);
    });
}

#[test]
fn loom_a_sleeper_that_waits_for_two_ringers_hears_both() {
    loom::model(|| {
        let shared = Arc::new((Doorbell::default(), [AtomicU64::new(0), AtomicU64::new(0)]));
        let ringers: Vec<_> = (0..2)
            .map(|ringer| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.1[ringer].store(1, Relaxed);
                    shared.0.ring();
                })
            })
            .collect();
        assert!(
            shared
                .0
                .sleep_until(|| shared.1.iter().all(|word| word.load(Relaxed) == 1), LONG)
        );
        for ringer in ringers {
            ringer.join().unwrap();
        }
    });
}

#[test]
fn loom_two_threads_of_a_rank_are_both_woken() {
    loom::model(|| {
        let shared = Arc::new((Doorbell::default(), AtomicU64::new(0)));
        let sleeper = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                assert!(shared.0.sleep_until(|| shared.1.load(Relaxed) == 1, LONG));
            })
        };
        let ringer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1.store(1, Relaxed);
                shared.0.ring();
            })
        };
        assert!(shared.0.sleep_until(|| shared.1.load(Relaxed) == 1, LONG));
        sleeper.join().unwrap();
        ringer.join().unwrap();
    });
}

/// A doorbell, and the words of the mailbox that it rings for.
fn mailbox_with_doorbell() -> Arc<(Doorbell, Vec<AtomicU64>)> {
    let words = (0..Mailbox::bytes(8) / 8).map(|_| AtomicU64::new(0));
    Arc::new((Doorbell::default(), words.collect()))
}

/// A thread that sends a message and rings; its value says whether it has taken the message back,
/// since the receiver has left.
fn send_and_ring(shared: &Arc<(Doorbell, Vec<AtomicU64>)>) -> thread::JoinHandle<bool> {
    let shared = Arc::clone(shared);
    thread::spawn(move || {
        let mailbox = Mailbox::attach(&shared.1, 8);
        let sent = mailbox.try_send_within::<Portable>(None, 0, 7, &[]);
        mailbox.ring(&shared.0, sent.unwrap(), true)
    })
}

#[test]
fn loom_a_sleeper_gets_the_message_that_it_was_rung_for() {
    loom::model(|| {
        let shared = mailbox_with_doorbell();
        let sender = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                for n in 0..2 {
                    Mailbox::attach(&shared.1, 8).try_send(0, n, &[]).unwrap();
                    shared.0.ring();
                }
            })
        };
        let mailbox = Mailbox::attach(&shared.1, 8);
        for n in 0..2 {
            assert!(shared.0.sleep_until(|| !mailbox.is_empty(), LONG));
            assert_eq!(
                mailbox.try_receive(&mut vec![]).unwrap().unwrap().handler,
                n
            );
        }
        sender.join().unwrap();
    });
}

#[test]
fn loom_a_message_to_who_leaves_is_served_or_comes_too_late_or_is_taken_back() {
    loom::model(|| {
        let shared = mailbox_with_doorbell();
        let sender = send_and_ring(&shared);
        let mailbox = Mailbox::attach(&shared.1, 8);
        let receive = || mailbox.try_receive(&mut vec![]).unwrap().is_some();
        let is_served = receive();
        let is_late = leave(&shared);
        let is_taken_back = sender.join().unwrap();
        check_that_it_has_one_end([is_served, is_late, is_taken_back]);
    });
}

/// Leaves, and returns whether the message came too late.
fn leave(shared: &(Doorbell, Vec<AtomicU64>)) -> bool {
    let mailbox = Mailbox::attach(&shared.1, 8);
    while !mailbox.close() {
        thread::yield_now();
    }
    shared.0.leave();
    let (end, mut is_late) = (mailbox.tail(), false);
    let mut receive_late = || {
        let none = || None;
        mailbox.receive_late::<Portable>(end, none, |envelope, _| {
            assert_eq!(envelope.handler, 7);
            is_late = true;
        })
    };
    while !receive_late().unwrap() {
        thread::yield_now();
    }
    is_late
}

fn check_that_it_has_one_end(ends: [bool; 3]) {
    let n_ends = ends.iter().filter(|is_it| **is_it).count();
    assert_eq!(n_ends, 1, "served, late, taken back: {ends:?}");
}

#[test]
fn loom_a_message_to_who_leaves_while_another_thread_receives_has_one_end() {
    loom::model(|| {
        let shared = mailbox_with_doorbell();
        let sender = send_and_ring(&shared);
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let mailbox = Mailbox::attach(&shared.1, 8);
                mailbox.try_receive(&mut vec![]).unwrap().is_some()
            })
        };
        let is_late = leave(&shared);
        let is_taken_back = sender.join().unwrap();
        let is_served = other.join().unwrap();
        check_that_it_has_one_end([is_served, is_late, is_taken_back]);
    });
}

#[test]
fn loom_a_message_that_was_served_before_its_receiver_left_is_not_told_to_be_lost() {
    loom::model(|| {
        let shared = mailbox_with_doorbell();
        let sender = send_and_ring(&shared);
        let mailbox = Mailbox::attach(&shared.1, 8);
        while mailbox.try_receive(&mut vec![]).unwrap().is_none() {
            thread::yield_now();
        }
        assert!(mailbox.close());
        shared.0.leave();
        assert!(!sender.join().unwrap());
    });
}
