//! Who serves a rank's memory: a thread while the rank computes, and the component of Open MPI that
//! the user has chosen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pgas_core::backend::{AtomicsBy, HandlerId, MessageClass, Sent};
use pgas_core::{Rank, World};
use pgas_testkit::job::eventually;

use crate::words::hammer_in;
use crate::{assert_well, ranks, run, world};

const OVER: HandlerId = HandlerId(HandlerId::N_RESERVED);

pub(crate) fn by_a_thread(direct: &str) {
    let mut command = ranks(2, "compute", "", direct);
    command.env("PGAS_PROGRESS", "thread");
    assert_well(&run(command));
}

/// Rank 1 makes no call until rank 0's operations on it are complete, which it learns from a
/// message.
pub(crate) fn compute(_: &str) {
    let world = world();
    let is_over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_over);
    world.set_handler(OVER, move |_, _| told.store(true, Ordering::Release));
    let words = world.alloc_symmetric::<u64>(1).expect("a word");
    world.barrier().expect("all are here");
    if world.rank() == Rank::ZERO {
        let word = words.on(Rank::new(1));
        word.put(&world, 5).expect("a put");
        world.flush(word.rank()).expect("a flush");
        assert_eq!(word.fetch_add(&world, 1).expect("an atomic"), 5);
        let swapped = word.compare_exchange(&world, 6, 7).expect("an atomic");
        assert_eq!(swapped, Ok(6));
        assert_eq!(word.get(&world).expect("a get"), 7);
        let sent = world.try_send(word.rank(), MessageClass::Request, OVER, &[]);
        assert_eq!(sent.expect("a message"), Sent::Accepted);
    } else {
        eventually("this rank is served", || is_over.load(Ordering::Acquire));
    }
    world.barrier().expect("all are here");
}

/// With Open MPI's `rdma`, which this library would not choose, the world's capabilities are those
/// that `rdma` is known to have.
pub(crate) fn by_a_choice() {
    let mut command = ranks(3, "choose", "", "0");
    command.env("OMPI_MCA_osc", "rdma");
    assert_well(&run(command));
}

pub(crate) fn choose(_: &str) {
    let world: World = world();
    let capabilities = world.capabilities();
    assert_eq!(capabilities.atomics, AtomicsBy::Cpu);
    assert!(!capabilities.needs_target.put && !capabilities.needs_target.get);
    assert!(capabilities.needs_target.atomics);
    hammer_in(&world, 50);
}
