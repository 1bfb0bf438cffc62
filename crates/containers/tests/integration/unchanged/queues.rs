//! Queues and distributors.

use pgas_containers::queue::PushError;
use pgas_containers::{CircularQueue, Distributor, Error, FastQueue};
use pgas_core::Rank;

use super::common::{Picky, everywhere, used};

const SEGMENT: u64 = 4 << 20;

macro_rules! local_phase_survives {
    ($queue:ident) => {
        everywhere(2, SEGMENT, |world| {
            let queue = $queue::<u64>::with_capacity(&world, Rank::ZERO, 8).unwrap();
            if world.rank() == Rank::ZERO {
                queue.push_slice(&[1, 2, 3, 4]).unwrap();
            }
            let mut queue = queue.into_local_phase().unwrap();
            let is_host = world.rank() == Rank::ZERO;
            if is_host {
                assert_eq!(queue.local_pop().unwrap(), Some(1));
                assert_eq!(queue.local_pop().unwrap(), Some(2));
                for value in 5..=8 {
                    queue.local_push(value).unwrap();
                }
            }
            // Too small for the present elements, too small for any, too large for the memory,
            // different on the ranks, and a host that does not exist.
            for capacity in [1, 0, 1 << 31, 1 << 20, usize::MAX] {
                queue.resize(capacity).unwrap_err();
                if is_host {
                    assert_eq!((queue.local_len(), queue.capacity()), (6, 8));
                }
            }
            let mine = 20 + world.rank().index();
            let differ = queue.resize(mine).unwrap_err();
            assert!(matches!(differ, Error::Mismatch(_)), "{differ}");
            let nowhere = queue.migrate(Rank::new(99)).unwrap_err();
            assert!(matches!(nowhere, Error::Argument(_)), "{nowhere}");
            if is_host {
                let all = std::iter::from_fn(|| queue.local_pop().unwrap());
                assert_eq!(all.collect::<Vec<_>>(), [3, 4, 5, 6, 7, 8]);
                queue.local_push(9).unwrap();
            }
            queue.migrate(Rank::new(1)).unwrap();
            if world.rank() == Rank::new(1) {
                assert_eq!(queue.local_pop().unwrap(), Some(9));
                assert_eq!(queue.local_pop().unwrap(), None);
            }
            world.barrier().unwrap();
        });
    };
}

#[test]
fn a_queue_in_its_local_phase_is_the_same_after_a_refused_resize_or_migration() {
    local_phase_survives!(CircularQueue);
    local_phase_survives!(FastQueue);
}

#[test]
fn a_queue_that_all_use_is_the_same_after_a_refused_resize_or_migration() {
    everywhere(2, SEGMENT, |world| {
        let mut queue = CircularQueue::<u64>::with_capacity(&world, Rank::new(1), 8).unwrap();
        if world.rank() == Rank::ZERO {
            queue.push_slice(&[1, 2, 3]).unwrap();
        }
        let before = used(&world);
        for capacity in [2, 0, 1 << 31, 1 << 20, usize::MAX] {
            queue.resize(capacity).unwrap_err();
        }
        queue.migrate(Rank::new(2)).unwrap_err();
        assert_eq!(used(&world), before);
        if world.rank() == Rank::ZERO {
            assert_eq!(queue.pop_many(9).unwrap(), [1, 2, 3]);
        }
        world.barrier().unwrap();
    });
}

#[test]
fn one_element_that_cannot_be_read_costs_no_other_one() {
    everywhere(2, SEGMENT, |world| {
        let texts = [
            Picky::long("one"),
            Picky::of("!r"),
            Picky::of("two"),
            Picky::long("!r"),
            Picky::long("three"),
        ];
        let good = [Picky::long("one"), Picky::of("two"), Picky::long("three")];
        let before = used(&world);
        let queue = CircularQueue::<Picky>::with_capacity(&world, Rank::ZERO, 8).unwrap();
        if world.rank() == Rank::new(1) {
            queue.push_slice(&texts).unwrap();
            let refused = queue.pop_many(9).unwrap_err();
            assert_eq!((&refused.taken[..], refused.lost.n), (&good[..], 2));
            assert!(matches!(refused.lost.first, Error::Codec(_)), "{refused}");
            assert_eq!(queue.pop().unwrap(), None);
            // Nor does one that cannot be written.
            let bad = [Picky::long("four"), Picky::of("!w")];
            let refused = queue.push_slice(&bad).unwrap_err();
            assert!(matches!(refused, PushError::Failed(Error::Codec(_))));
            assert_eq!(queue.pop().unwrap(), None);
        }
        let mut distributor = Distributor::<Picky>::with_capacity(&world, 4).unwrap();
        let error = distributor.send(Rank::ZERO, Picky::of("!w")).unwrap_err();
        assert!(matches!(error, Error::Codec(_)));
        for text in &texts {
            distributor.send(Rank::ZERO, text.clone()).unwrap();
        }
        let received = distributor.finish();
        if world.rank() == Rank::ZERO {
            let refused = received.unwrap_err();
            assert_eq!((refused.taken.len(), refused.lost.n), (6, 4));
            assert!(refused.taken.iter().all(|text| good.contains(text)));
        } else {
            assert_eq!(received.unwrap(), []);
        }
        drop(queue);
        assert_eq!(used(&world), before);
    });
}

#[test]
fn what_is_popped_and_cannot_be_read_leaves_no_memory_behind() {
    everywhere(1, SEGMENT, |world| {
        let queue = FastQueue::<Picky>::with_capacity(&world, Rank::ZERO, 64).unwrap();
        let mut queue = queue.into_local_phase().unwrap();
        let mut most = 0;
        for round in 0..200 {
            let n = 30 + round % 7;
            for i in 0..n {
                let text = if i == 3 { "!r" } else { "text" };
                queue.local_push(Picky::long(text)).unwrap();
            }
            let mut pops = queue.into_pop_phase().unwrap();
            let refused = pops.pop_many(64).unwrap_err();
            assert_eq!((refused.taken.len(), refused.lost.n), (n - 1, 1));
            assert_eq!(pops.len().unwrap(), 0);
            pops.resize(64).unwrap();
            queue = pops.into_local_phase().unwrap();
            most = most.max(world.local_heap_use().used);
        }
        assert!(most < 100_000, "{most} bytes for 36 texts and a queue");
    });
}
