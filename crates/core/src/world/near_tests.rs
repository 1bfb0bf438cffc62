//! Which operations are counted as those of near memory.
#![expect(unsafe_code, reason = "passes the contract's calls on")]

use std::future::Future as _;
use std::ops::Range;
use std::pin::pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, Waker};

use crate::backend::{Backend, HandlerId, MessageClass, Sent, loopback};
use crate::cost::CostKind;
use crate::wire::Header;
use crate::{Config, Rank, Statistics, World};

const SEGMENT_BYTES: usize = 1 << 20;

/// A transport that maps one segment of two, and performs atomics itself.
#[derive(Debug)]
struct HalfMapped {
    inner: loopback::Loopback,
    memory: Box<[AtomicU64]>,
}

// SAFETY: every call is the inner transport's with the same arguments, but for the maps. The mapped
// memory is as long as a segment, and lives as long as this.
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
        (rank == Rank::ZERO).then(|| NonNull::from(&*self.memory).cast())
    }
}

/// The first rank of two, which counts.
fn counting(direct: bool) -> World {
    let options = loopback::Options::default();
    let inner = loopback::job(2, SEGMENT_BYTES as u64, &options).remove(0);
    let memory = (0..SEGMENT_BYTES / 8).map(|_| AtomicU64::new(0)).collect();
    let config = Config {
        statistics: Statistics::Total,
        direct,
        ..Config::default()
    };
    World::new(Arc::new(HalfMapped { inner, memory }), config).unwrap()
}

/// The numbers of near and of remote operations of a kind.
fn n(world: &World, kind: CostKind) -> [u64; 2] {
    let counting = world.counting().unwrap();
    [true, false].map(|is_near| counting.n(kind, is_near))
}

#[test]
fn messages_of_collectives_are_near_where_others_are() {
    for (direct, expected) in [(true, [2, 0]), (false, [0, 2])] {
        let world = counting(direct);
        let header = Header {
            team: 0,
            number: 0,
            total: 0,
            offset: 0,
            phase: 0,
            algorithm: 0,
            round: 0,
        };
        let mut send = pin!(world.wire().send(Rank::ZERO, "a test", &header, &[]));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(send.as_mut().poll(&mut cx), Poll::Ready(Ok(()))));
        let (class, id) = (MessageClass::Request, HandlerId(100));
        world.set_handler(id, |_, _| {});
        let sent = world.try_send(Rank::ZERO, class, id, &[]);
        assert_eq!(sent.unwrap(), Sent::Accepted);
        assert_eq!(n(&world, CostKind::Message), expected);
    }
}

#[test]
fn atomics_by_the_network_on_memory_that_is_mapped_are_not_near() {
    let world = counting(true);
    let word = world.alloc::<u64>(1).unwrap();
    word.fetch_add(&world, 1).unwrap();
    word.put(&world, 1).unwrap();
    assert_eq!(n(&world, CostKind::Atomic), [0, 1]);
    assert_eq!(n(&world, CostKind::Write), [1, 0]);
}
