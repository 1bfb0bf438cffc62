//! Tests of what a forked child of a rank drops: the parent has it still.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use pgas_core::backend::{HandlerId, MessageClass, Offer, Sent};
use pgas_core::config::Progress;
use pgas_core::stats::Unit;
use pgas_core::{Config, Error, InPlace, Lock, Rank, World};
use pgas_testkit::drop_in_child;

use crate::attach::join;
use crate::observer::Observer;
use crate::segment::create_job;

fn config() -> Config {
    let mut config = Config::default();
    config.segment_bytes = Some(pgas_core::segment::MIN_SEGMENT_BYTES);
    // A test that fails is not to hang.
    config.timeout = Some(Duration::from_secs(30));
    config
}

fn world(config: &Config) -> World {
    join(create_job(1, config).unwrap(), 0, config).unwrap()
}

#[test]
fn a_forked_child_that_drops_the_world_does_not_leave_in_the_place_of_its_parent() {
    let config = config();
    let memory = create_job(1, &config).unwrap();
    let observer = Observer::new(&memory).unwrap();
    let world = drop_in_child(join(memory, 0, &config).unwrap());
    let has_left = || observer.look().unwrap()[0].has_left;
    assert!(!has_left());
    drop(world);
    assert!(has_left());
}

#[test]
fn a_forked_child_that_drops_the_world_does_not_wait_for_a_thread_of_its_parent() {
    const HOLDS: HandlerId = HandlerId(HandlerId::N_RESERVED);
    let mut config = config();
    config.progress = Progress::Thread;
    let world = world(&config);
    let ((runs, running), (end, ends)) = (mpsc::channel(), mpsc::channel());
    let ends = Mutex::new(ends);
    world.set_handler(HOLDS, move |_, _| {
        runs.send(()).unwrap();
        ends.lock().unwrap().recv().unwrap();
    });
    let sent = world.try_send(world.rank(), MessageClass::Request, HOLDS, &[]);
    assert_eq!(sent.unwrap(), Sent::Accepted);
    running.recv().unwrap();
    let world = drop_in_child(world);
    end.send(()).unwrap();
    drop(world);
}

#[test]
fn a_lock_whose_guard_a_forked_child_drops_stays_with_the_parent() {
    let world = world(&config());
    let lock = Lock::new(&world, Rank::ZERO).unwrap();
    drop_in_child(lock.lock().unwrap()).unlock().unwrap();
    // A child that leaks the guard drops the lock.
    let _leaked = ManuallyDrop::new(lock.lock().unwrap());
    let lock = drop_in_child(lock);
    drop(lock);
    // It has left the lock in good order.
    while world.progress().unwrap() {}
}

#[test]
fn memory_for_a_message_that_a_forked_child_drops_has_no_second_owner() {
    let world = world(&config());
    let prepare = |_| match world.prepare_in_place(world.rank(), 4096).unwrap() {
        Offer::InPlace(place) => Some(place),
        Offer::BackPressure | Offer::Elsewhere => None,
    };
    let first = drop_in_child(prepare(0).unwrap());
    let others: Vec<InPlace<'_>> = (1..64).map_while(prepare).collect();
    let has_both = others.iter().any(|other| other.as_ptr() == first.as_ptr());
    assert!(!others.is_empty() && !has_both);
}

/// A part of a collective that ends in the drop.
struct Fails<'w>(&'w World);

impl Drop for Fails<'_> {
    fn drop(&mut self) {
        let panics = || {
            let _step = self.0.in_step("a part of the test");
            // Without a message, whose printing another thread of the parent may have locked.
            resume_unwind(Box::new("caught by the test"));
        };
        if self.0.is_forked() {
            assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
            drop(self.0.give_up("a part of the test", Error::HasLeft));
        }
    }
}

#[test]
fn what_fails_in_a_forked_child_does_not_fail_the_job() {
    let world = world(&config());
    let _fails = drop_in_child(Fails(&world));
    world.barrier().unwrap();
    // With one rank a barrier does not wait.
    while world.progress().unwrap() {}
}

#[test]
fn work_that_a_forked_child_drops_goes_on() {
    let config = config();
    let memory = create_job(1, &config).unwrap();
    let observer = Observer::new(&memory).unwrap();
    let world = join(memory, 0, &config).unwrap();
    let is_over = || {
        let live = observer.look().unwrap()[0].live.clone().unwrap();
        live.work.unwrap().is_over
    };
    let work = drop_in_child(world.work("long", 7, Unit::Bytes));
    assert!(!is_over());
    drop(work);
    assert!(is_over());
}
