//! With `PGAS_PROGRESS=thread` a rank that computes without library calls still serves the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use pgas::backend::{HandlerId, MessageClass, Sent};
use pgas::config::Progress;
use pgas::{Config, Rank, World};

use crate::jobs::{WATCHED, assert_well, start};
use crate::trial;

const QUESTION: HandlerId = HandlerId(HandlerId::N_RESERVED);
const ANSWER: HandlerId = HandlerId(HandlerId::N_RESERVED + 1);

/// The time limit of the computing rank's wait for its messages.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("progress_thread::processes", || {
            for way in WATCHED {
                assert_well(&start(way, 2, &["compute"], &[("PGAS_PROGRESS", "thread")]).end());
            }
        }),
        trial("progress_thread::threads", || {
            let mut config = Config::default();
            config.progress = Progress::Thread;
            pgas::threads_with(2, &config, |world| compute(&world)).unwrap();
        }),
    ]
}

/// Rank 0 sends requests, and rank 1 answers although it makes no call until it has received two.
pub(crate) fn compute(world: &World) {
    let asked = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicBool::new(false));
    let (set_asked, set_answered) = (Arc::clone(&asked), Arc::clone(&answered));
    world.set_handler(QUESTION, move |world, message| {
        if message.payload == [2] {
            set_asked.store(true, Ordering::Release);
        }
        let sent = world.try_send(message.from, MessageClass::Reply, ANSWER, &[]);
        assert_eq!(sent.unwrap(), Sent::Accepted);
    });
    world.set_handler(ANSWER, move |_, _| {
        set_answered.store(true, Ordering::Release);
    });
    world.barrier().unwrap();
    if world.rank() == Rank::ZERO {
        for question in [1, 2] {
            let sent = world.try_send(
                Rank::new(1),
                MessageClass::Request,
                QUESTION,
                &[&[question]],
            );
            assert_eq!(sent.unwrap(), Sent::Accepted);
            let is_answered = || Ok(answered.swap(false, Ordering::Acquire));
            world.wait_for("an answer", is_answered).unwrap();
        }
    } else {
        let began = Instant::now();
        while !asked.load(Ordering::Acquire) {
            assert!(
                began.elapsed() < PATIENCE,
                "nothing is served while this rank computes"
            );
            std::hint::spin_loop();
        }
    }
    world.barrier().unwrap();
}
