//! With `PGAS_PROGRESS=thread` a rank that computes without library calls still serves the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use pgas::backend::{HandlerId, MessageClass, Sent};
use pgas::config::Progress;
use pgas::{Config, Rank, Symmetric, World};

use crate::jobs::{WATCHED, assert_well, start};
use crate::trial;

const QUESTION: HandlerId = HandlerId(HandlerId::N_RESERVED);
const ANSWER: HandlerId = HandlerId(HandlerId::N_RESERVED + 1);

/// The time limit of the computing rank's wait for its messages.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a handler has a handle; a rank takes far less to drop its own.
const HELD: Duration = Duration::from_millis(300);

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
        trial(
            "progress_thread::a_rank_leaves_while_it_runs_a_handler",
            || {
                for way in WATCHED {
                    let job = start(way, 2, &["leave_meanwhile"], &[("PGAS_PROGRESS", "thread")]);
                    assert_well(&job.end());
                }
            },
        ),
        trial("progress_thread::a_panic_on_it_is_one_of_the_rank", || {
            for way in WATCHED {
                let job = start(way, 2, &["panic_meanwhile"], &[("PGAS_PROGRESS", "thread")]);
                let ended = job.end();
                assert_eq!(ended.code(), 101, "{ended:?}");
                assert!(ended.stderr.contains("rank 1 "), "{ended:?}");
                assert!(ended.stderr.contains(CAUSE), "{ended:?}");
            }
        }),
        trial("progress_thread::an_error_on_it_is_told", || {
            for way in WATCHED {
                let job = start(way, 2, &["stray_meanwhile"], &[("PGAS_PROGRESS", "thread")]);
                assert_well(&job.end());
            }
        }),
    ]
}

const CAUSE: &str = "a handler on purpose";

/// A handler of rank 1 panics while its program computes. Rank 0 hears of it at once, and rank 1 by
/// its next call.
pub(crate) fn panic_meanwhile(world: &World) {
    world.set_handler(QUESTION, |_, _| panic!("{CAUSE}"));
    let words = meet(world);
    let word = words.on(Rank::new(1));
    if world.rank() == Rank::ZERO {
        ask_once(world, QUESTION);
        let error = world.barrier().unwrap_err().to_string();
        assert!(error.contains("rank 1") && error.contains(CAUSE), "{error}");
        word.put(world, 2).unwrap();
    } else {
        compute_until(|| word.get(world).unwrap() == 2);
        let _resumes = world.barrier();
        unreachable!("the panic of the handler goes on");
    }
}

/// A handler of rank 1 has a handle on the world, for some time, when the program drops its last.
pub(crate) fn leave_meanwhile(world: &World) {
    let holds = Arc::new(AtomicBool::new(false));
    let set_holds = Arc::clone(&holds);
    world.set_handler(QUESTION, move |world, _| {
        let own = world.clone();
        set_holds.store(true, Ordering::Release);
        std::thread::sleep(HELD);
        drop(own);
    });
    let _word = meet(world);
    if world.rank() == Rank::ZERO {
        ask_once(world, QUESTION);
        let has_left = || Ok(world.has_left(Rank::new(1)));
        world.wait_for("the end of rank 1", has_left).unwrap();
    } else {
        compute_until(|| holds.load(Ordering::Acquire));
    }
}

/// A message for nobody comes while rank 1 computes: its next call says so, and the thread serves
/// on.
pub(crate) fn stray_meanwhile(world: &World) {
    let answered = Arc::new(AtomicBool::new(false));
    let set_answered = Arc::clone(&answered);
    world.set_handler(ANSWER, move |_, _| {
        set_answered.store(true, Ordering::Release);
    });
    let _word = meet(world);
    if world.rank() == Rank::ZERO {
        ask_once(world, QUESTION);
    } else {
        let mut told = None;
        compute_until(|| {
            told = world.progress().err();
            told.is_some()
        });
        let told = told.unwrap().to_string();
        assert!(told.contains("which nobody set"), "{told}");
    }
    world.barrier().unwrap();
    if world.rank() == Rank::ZERO {
        ask_once(world, ANSWER);
    } else {
        compute_until(|| answered.load(Ordering::Acquire));
    }
    world.barrier().unwrap();
}

/// Returns when rank 1 is in no call any more, which would meet what rank 0 sends next: it says so
/// in the returned word of its memory.
fn meet(world: &World) -> Symmetric<u64> {
    let words = world.alloc_symmetric::<u64>(1).unwrap();
    let word = words.on(Rank::new(1));
    world.barrier().unwrap();
    if world.rank() == Rank::ZERO {
        compute_until(|| word.get(world).unwrap() == 1);
    } else {
        word.put(world, 1).unwrap();
    }
    words
}

fn ask_once(world: &World, handler: HandlerId) {
    let sent = world.try_send(Rank::new(1), MessageClass::Request, handler, &[]);
    assert_eq!(sent.unwrap(), Sent::Accepted);
}

fn compute_until(mut is_over: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_over() {
        assert!(
            began.elapsed() < PATIENCE,
            "nothing is served while this rank computes"
        );
        std::hint::spin_loop();
    }
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
        compute_until(|| asked.load(Ordering::Acquire));
    }
    world.barrier().unwrap();
}
