//! Tests of what wakes a rank that sleeps.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use pgas_core::Rank;
use pgas_core::backend::{Backend as _, HandlerId, MessageClass, Offer, Sent};
use pgas_testkit::Deadline;

use crate::layout::Layout;
use crate::member::Member;
use crate::segment::Job;

const REQUEST: MessageClass = MessageClass::Request;
const HANDLER: HandlerId = HandlerId(HandlerId::N_RESERVED);

fn members() -> [Member; 2] {
    let job = Job::anonymous(Layout {
        n_ranks: 2,
        segment_bytes: 1 << 20,
    });
    let job = Arc::new(job.unwrap());
    [0, 1].map(|rank| Member::thread(Arc::clone(&job), rank))
}

/// Whether a thread of this process waits in the kernel.
fn is_asleep(thread: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
    stat.is_ok_and(|stat| {
        stat.rsplit(") ")
            .next()
            .is_some_and(|it| it.starts_with('S'))
    })
}

/// Rank 1 does `before`, and sleeps for longer than any test takes; `event` of rank 0 has to wake
/// it.
fn wakes(before: impl Fn(&Member), event: impl Fn(&Member)) {
    let _deadline = Deadline::new("a rank that is to be woken", Duration::from_secs(120));
    let [waker, sleeper] = members();
    before(&sleeper);
    let (tell, told) = mpsc::channel();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get())
                .unwrap();
            // A sleeper may wake for no reason.
            while !is_over.load(Relaxed) {
                sleeper.sleep(Duration::from_secs(3600));
            }
        });
        let thread = told.recv().unwrap();
        let bell = waker.job().control().bell(1);
        while bell.n_sleepers() == 0 || !is_asleep(thread) {
            thread::yield_now();
        }
        is_over.store(true, Relaxed);
        event(&waker);
    });
}

#[test]
fn a_message_wakes_its_target() {
    wakes(
        |_| (),
        |waker| {
            let sent = waker.send(1, REQUEST, HANDLER, &[&[1; 8]]);
            assert_eq!(sent.unwrap(), Sent::Accepted);
        },
    );
}

#[test]
fn a_message_that_was_filled_in_place_wakes_its_target() {
    wakes(
        |_| (),
        |waker| {
            let Offer::InPlace(place) = waker.offer(Rank::new(1), 1000).unwrap() else {
                panic!("a buffer is free");
            };
            let sent = waker.send_from(place, 1, (REQUEST, HANDLER), &[1; 8]);
            assert_eq!(sent.unwrap(), Some(Sent::Accepted));
        },
    );
}

#[test]
fn who_comes_last_to_a_barrier_wakes_the_others() {
    let arrive = |member: &Member| {
        member.arrive().unwrap();
    };
    wakes(arrive, arrive);
}

#[test]
fn a_failure_wakes_everybody() {
    wakes(
        |_| (),
        |waker| drop(waker.record_failure(Rank::ZERO, "on purpose")),
    );
}

#[test]
fn a_rank_that_leaves_wakes_the_others() {
    wakes(|_| (), |waker| waker.mark_left(&mut |_| ()));
}

#[test]
fn whoever_is_notified_wakes() {
    wakes(|_| (), |waker| waker.notify(Rank::new(1)));
}
