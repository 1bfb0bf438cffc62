//! Which operations are counted as those of near memory.
#![expect(unsafe_code, reason = "passes the contract's calls on")]

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::backend::{Backend, loopback};
use crate::cost::CostKind;
use crate::{Config, Rank, Statistics, World};

const SEGMENT_BYTES: usize = 1 << 20;

/// A transport that maps one segment of two, and performs atomics itself.
#[derive(Debug)]
struct HalfMapped {
    inner: loopback::Loopback,
    memory: NonNull<u8>,
}

// SAFETY: the memory is never freed, and nothing in this test is bound to a thread.
unsafe impl Send for HalfMapped {}
// SAFETY: as for `Send`.
unsafe impl Sync for HalfMapped {}

// SAFETY: every call is the inner transport's with the same arguments, but for the maps. The mapped
// memory is as long as a segment, and lives for ever.
unsafe impl Backend for HalfMapped {
    crate::pass_on! {
        inner:
        name, progress, health, test, poll, abort, leave, rank, n_ranks, capabilities,
        segment_bytes, board, flush, flush_all, barrier_begin, barrier_test, barrier_missing,
        try_send, prepare, try_commit, give_back, n_credits, park, notify, ranks_per_processor,
        has_left, has_joined, blame, discard
    }
    crate::pass_on_one_sided!(inner);

    fn mapped_ranks(&self) -> Range<u32> {
        0..1
    }

    fn mapped(&self, rank: Rank) -> Option<NonNull<u8>> {
        (rank == Rank::ZERO).then_some(self.memory)
    }
}

#[test]
fn atomics_by_the_network_on_memory_that_is_mapped_are_not_near() {
    let options = loopback::Options::default();
    let inner = loopback::job(2, SEGMENT_BYTES as u64, &options).remove(0);
    let memory = Box::leak(vec![0_u64; SEGMENT_BYTES / 8].into_boxed_slice());
    let memory = NonNull::from(memory).cast();
    let config = Config {
        statistics: Statistics::Total,
        ..Config::default()
    };
    let world = World::new(Arc::new(HalfMapped { inner, memory }), config).unwrap();
    let word = world.alloc::<u64>(1).unwrap();
    word.fetch_add(&world, 1).unwrap();
    word.put(&world, 1).unwrap();
    let n = |kind| [true, false].map(|is_near| world.counting().unwrap().n(kind, is_near));
    assert_eq!(n(CostKind::Atomic), [0, 1]);
    assert_eq!(n(CostKind::Write), [1, 0]);
}
