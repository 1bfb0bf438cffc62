//! Queues with one rank, or with several ranks in turn.

use std::collections::VecDeque;

use pgas_core::backend::loopback;
use pgas_core::{Config, Statistics};
use proptest::prelude::*;

use super::*;
use crate::Error;
use crate::testing::{Unlucky, assert_names_panic};

#[test]
fn elements_come_out_in_the_order_in_which_they_went_in() {
    everywhere(1, |world| {
        for first in FIRST_TICKETS {
            let queue = CircularQueue::starting_at(&world, Rank::ZERO, 3, first).unwrap();
            for round in 0..10_u64 {
                assert_eq!(queue.pop().unwrap(), None);
                queue.push(round).unwrap();
                queue.push_slice(&[round + 1, round + 2]).unwrap();
                assert_eq!(queue.len().unwrap(), 3);
                assert!(matches!(queue.push(9), Err(PushError::Full(9))));
                assert!(matches!(queue.push_slice(&[9]), Err(PushError::Full(()))));
                assert_eq!(queue.pop().unwrap(), Some(round));
                assert!(matches!(
                    queue.push_slice(&[8, 9]),
                    Err(PushError::Full(()))
                ));
                assert_eq!(queue.pop_many(10).unwrap(), [round + 1, round + 2]);
                assert!(queue.is_empty().unwrap());
            }
        }
    });
}

#[test]
fn a_push_of_more_than_the_capacity_is_refused_and_one_of_nothing_is_done() {
    everywhere(1, |world| {
        let queue = queue::<u16>(&world, 4);
        assert!(matches!(
            queue.push_slice(&[0; 5]),
            Err(PushError::Full(()))
        ));
        queue.push_slice(&[]).unwrap();
        assert_eq!(queue.pop_many(0).unwrap(), []);
        queue.push_slice(&[1, 2, 3, 4]).unwrap();
        let mut out = [0; 3];
        assert_eq!(queue.pop_slice(&mut out).unwrap(), 3);
        assert_eq!((out, queue.pop_slice(&mut []).unwrap()), ([1, 2, 3], 0));
        assert_eq!(queue.pop_slice(&mut out).unwrap(), 1);
        assert_eq!(out, [4, 2, 3]);
    });
}

#[test]
fn elements_of_any_type_come_out_as_they_went_in_and_leave_no_memory_behind() {
    everywhere(2, |world| {
        let queue = queue::<(u32, String, [u8; 3])>(&world, 8);
        let element = |i: u32| (i, "x".repeat(i as usize * 20), [7; 3]);
        let mut used = 0;
        for round in 0..5 {
            if world.rank() == Rank::ZERO {
                for i in 0..8 {
                    queue.push(element(i)).unwrap();
                }
                let refused = queue.push(element(9));
                assert!(matches!(refused, Err(PushError::Full(value)) if value == element(9)));
                assert!(queue.push_slice(&[element(9), element(8)]).is_err());
            }
            world.barrier().unwrap();
            if world.rank() != Rank::ZERO {
                assert_eq!(queue.pop().unwrap(), Some(element(0)));
                let rest: Vec<_> = (1..8).map(element).collect();
                assert_eq!(queue.pop_many(100).unwrap(), rest);
            }
            world.barrier().unwrap();
            let now = world.local_heap_use().used;
            assert!(round == 0 || now == used, "{used} to {now} bytes");
            used = now;
        }
        drop(queue);
        world.barrier().unwrap();
        world.reclaim().unwrap();
        assert_eq!(world.local_heap_use().used, 0);
    });
}

#[test]
fn elements_without_bytes_and_with_much_alignment_are_elements_too() {
    everywhere(1, |world| {
        let units = queue::<()>(&world, 3);
        units.push(()).unwrap();
        units.push_slice(&[(), ()]).unwrap();
        assert_eq!(units.pop_many(9).unwrap().len(), 3);
        assert_eq!(units.pop().unwrap(), None);
        let wide = queue::<u128>(&world, 3);
        wide.push_slice(&[1, u128::MAX]).unwrap();
        assert_eq!(wide.pop_many(9).unwrap(), [1, u128::MAX]);
        let bytes = queue::<[u8; 3]>(&world, 3);
        bytes.push(*b"abc").unwrap();
        assert_eq!(bytes.pop().unwrap(), Some(*b"abc"));
    });
}

#[test]
fn every_phase_goes_on_where_the_former_one_ended() {
    everywhere(3, |world| {
        for first in FIRST_TICKETS {
            let queue = CircularQueue::starting_at(&world, Rank::new(1), 6, first).unwrap();
            let n = u64::from(world.n_ranks());
            queue.push(1_u64).unwrap();
            let queue = queue.into_push_phase().unwrap();
            queue.push_slice(&[1]).unwrap();
            world.barrier().unwrap();
            assert!(matches!(queue.push(9), Err(PushError::Full(9))));
            assert!(matches!(queue.push_slice(&[9]), Err(PushError::Full(()))));
            let queue = queue.into_pop_phase().unwrap();
            assert_eq!(queue.len().unwrap(), 6);
            world.barrier().unwrap();
            assert_eq!(queue.pop().unwrap(), Some(1));
            let mut queue = queue.into_local_phase().unwrap();
            if world.rank() == queue.host() {
                assert_eq!(queue.local_len(), 3);
                assert_eq!(queue.local_pop().unwrap(), Some(1));
                queue.local_push(2).unwrap();
                for i in 0..3 {
                    queue.local_push(i).unwrap();
                }
                assert!(matches!(queue.local_push(9), Err(PushError::Full(9))));
                assert_eq!(queue.local_pop().unwrap(), Some(1));
            }
            let queue = queue.into_push_pop_phase().unwrap();
            assert_eq!(queue.len().unwrap(), 5);
            world.barrier().unwrap();
            let mine = queue.pop().unwrap().unwrap();
            queue.push(100).unwrap();
            let sum = world.allreduce(mine, |a: u64, b| a + b).unwrap();
            assert_eq!((sum, n), (3, 3), "1, 2 and 0");
            assert_eq!(queue.len().unwrap(), 5);
            world.barrier().unwrap();
        }
    });
}

#[test]
fn a_fast_queue_goes_round_its_ring_in_phases() {
    everywhere(2, |world| {
        for first in FIRST_TICKETS {
            let mut queue = FastQueue::starting_at(&world, Rank::new(1), 5, first).unwrap();
            for round in 0..7_u64 {
                if world.rank() == Rank::ZERO {
                    queue.push_slice(&[round, round + 1, round + 2]).unwrap();
                    queue.push(round + 3).unwrap();
                    assert!(matches!(
                        queue.push_slice(&[9, 9]),
                        Err(PushError::Full(()))
                    ));
                }
                let pops = queue.into_pop_phase().unwrap();
                if world.rank() == Rank::ZERO {
                    let mut out = [0; 9];
                    assert_eq!(pops.pop().unwrap(), Some(round));
                    assert_eq!(pops.pop_many(2).unwrap(), [round + 1, round + 2]);
                    assert_eq!(pops.pop_slice(&mut out).unwrap(), 1);
                    assert_eq!((out[0], pops.pop().unwrap()), (round + 3, None));
                }
                queue = pops.into_push_phase().unwrap();
            }
        }
    });
}

#[test]
fn a_local_phase_empties_and_fills_a_queue_of_many_chunks() {
    everywhere(2, |world| {
        let queue = FastQueue::starting_at(&world, Rank::ZERO, 1000, u64::MAX - 500).unwrap();
        if world.rank() != Rank::ZERO {
            let values: Vec<u32> = (0..1000).collect();
            queue.push_slice(&values).unwrap();
        }
        let mut queue = queue.into_local_phase().unwrap();
        if world.rank() == Rank::ZERO {
            for i in 0..700 {
                assert_eq!(queue.local_pop().unwrap(), Some(i));
            }
            for i in 1000..1100 {
                queue.local_push(i).unwrap();
            }
        }
        // Elements that were read ahead but not popped are still there.
        let queue = queue.into_pop_phase().unwrap();
        if world.rank() == Rank::ZERO {
            assert_eq!(
                queue.pop_many(2000).unwrap(),
                (700..1100).collect::<Vec<u32>>()
            );
        }
        world.barrier().unwrap();
    });
}

#[test]
fn a_queue_that_moves_or_changes_its_capacity_keeps_its_elements_and_works_on() {
    everywhere(3, |world| {
        for first in FIRST_TICKETS {
            let mut queue = CircularQueue::starting_at(&world, Rank::ZERO, 5, first).unwrap();
            let last = world.rank() == Rank::new(2);
            let mut next = 0_u64;
            if last {
                queue.push_slice(&[90, 91]).unwrap();
                assert_eq!(queue.pop_many(2).unwrap(), [90, 91]);
                queue.push_slice(&[0, 1, 2, 3]).unwrap();
                next = 4;
            }
            queue.migrate(Rank::new(1)).unwrap();
            assert_eq!((queue.host(), queue.capacity()), (Rank::new(1), 5));
            queue.resize(9).unwrap();
            let error = queue.resize(3).unwrap_err();
            let text = error.to_string();
            assert!(
                text.contains("4 elements") && text.contains("capacity of 3"),
                "{text}"
            );
            assert_eq!((queue.capacity(), queue.len().unwrap()), (9, 4));
            world.barrier().unwrap();
            if last {
                while queue.push(next).is_ok() {
                    next += 1;
                }
                assert_eq!(next, 9);
                for i in 0..9 {
                    assert_eq!(queue.pop().unwrap(), Some(i));
                }
                assert_eq!(queue.pop().unwrap(), None);
            }
            queue.migrate(Rank::new(2)).unwrap();
            queue.resize(1).unwrap();
            if last {
                queue.push(5).unwrap();
                assert!(queue.push(6).is_err());
            }
            let mut queue = queue.into_local_phase().unwrap();
            queue.resize(2).unwrap();
            if last {
                queue.local_push(6).unwrap();
                assert_eq!(queue.local_pop().unwrap(), Some(5));
            }
            queue.migrate(Rank::ZERO).unwrap();
            if world.rank() == Rank::ZERO {
                assert_eq!(
                    (queue.local_pop().unwrap(), queue.local_len()),
                    (Some(6), 0)
                );
            }
        }
        world.barrier().unwrap();
        world.reclaim().unwrap();
        assert_eq!(world.local_heap_use().used, 0, "former blocks are freed");
    });
}

#[test]
fn bad_arguments_are_errors_on_every_rank_that_name_the_values() {
    everywhere(2, |world| {
        let text = |error: Error| error.to_string();
        let host = Rank::ZERO;
        let error = CircularQueue::<u8>::with_capacity(&world, host, 0).unwrap_err();
        assert!(text(error).contains("capacity was to be 0"));
        let error = FastQueue::<u8>::with_capacity(&world, host, 1 << 40).unwrap_err();
        assert!(text(error).contains("1099511627776"));
        let error = FastQueue::<u8>::with_capacity(&world, Rank::new(7), 5).unwrap_err();
        assert!(text(error).contains("rank 7 of a job with 2 ranks"));
        let mine = 10 + world.rank().index();
        let error = FastQueue::<u8>::with_capacity(&world, host, mine).unwrap_err();
        assert!(text(error).contains("rank 0 has 10, rank 1 has 11"));
        let error = CircularQueue::<u8>::with_capacity(&world, world.rank(), 5).unwrap_err();
        assert!(text(error).contains("host of a queue: rank 0 has 0, rank 1 has 1"));
        let error = FastQueue::<[u64; 64]>::with_capacity(&world, host, 1 << 20).unwrap_err();
        let expected = if world.rank() == host {
            "PGAS_SEGMENT"
        } else {
            "failed on rank 0"
        };
        assert!(text(error).contains(expected));
        // A failure leaves nothing behind that disturbs the next call.
        queue::<u8>(&world, 5).push(1).unwrap();
        world.barrier().unwrap();
    });
}

#[test]
fn ranks_that_go_into_different_phases_are_told_who_does() {
    let mut config = Config::default();
    config.check = Some(true);
    loopback::run_with(2, &config, |world| {
        let queue = queue::<u8>(&world, 5);
        let error = if world.rank() == Rank::ZERO {
            queue.into_pop_phase().map(drop).unwrap_err()
        } else {
            queue.into_push_phase().map(drop).unwrap_err()
        };
        let text = error.to_string();
        let named = [
            "the next phase of a queue: rank 0 has \"pop\" at ",
            "rank 1 has \"push\" at ",
        ];
        assert!(named.iter().all(|part| text.contains(part)), "{text}");
    });
}

#[test]
#[should_panic(expected = "only the host uses a queue")]
fn another_rank_than_the_host_is_refused_in_the_local_phase() {
    loopback::run(2, |world| {
        let mut queue = queue::<u8>(&world, 5).into_local_phase().unwrap();
        if world.rank() != Rank::ZERO {
            drop(queue.local_pop());
        }
    });
}

#[test]
fn local_operations_ask_no_other_rank() {
    let mut config = Config::default();
    config.statistics = Statistics::PerPeer;
    loopback::run_with(2, &config, |world| {
        let mut queue = fast::<u64>(&world, 1000).into_local_phase().unwrap();
        if world.rank() == Rank::ZERO {
            let (before, other) = (world.costs(), world.costs_with(Rank::new(1)));
            for i in 0..512 {
                queue.local_push(i).unwrap();
            }
            for i in 0..512 {
                assert_eq!(queue.local_pop().unwrap(), Some(i));
            }
            let costs = world.costs() - before;
            assert_eq!((costs.reads, costs.writes, costs.atomics), (2, 512, 0));
            assert_eq!(costs.local, 1024);
            assert_eq!(world.costs_with(Rank::new(1)), other);
        }
        world.barrier().unwrap();
    });
}

#[derive(Clone, Debug)]
enum Op {
    Push(u64),
    PushSlice(Vec<u64>),
    Pop,
    PopMany(usize),
    Resize(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => any::<u64>().prop_map(Op::Push),
        3 => prop::collection::vec(any::<u64>(), 0..9).prop_map(Op::PushSlice),
        6 => Just(Op::Pop),
        3 => (0_usize..9).prop_map(Op::PopMany),
        1 => (1_usize..20).prop_map(Op::Resize),
    ]
}

fn behaves_as_a_deque(capacity: usize, first: u64, ops: &[Op]) -> Result<(), TestCaseError> {
    let world = loopback::world();
    let mut queue = CircularQueue::starting_at(&world, Rank::ZERO, capacity, first).unwrap();
    let mut capacity = capacity;
    let mut model = VecDeque::new();
    for op in ops {
        match op {
            Op::Push(value) => {
                let pushed = queue.push(*value).is_ok();
                prop_assert_eq!(pushed, model.len() < capacity);
                model.extend(pushed.then_some(*value));
            }
            Op::PushSlice(values) => {
                let pushed = queue.push_slice(values).is_ok();
                prop_assert_eq!(pushed, model.len() + values.len() <= capacity);
                if pushed {
                    model.extend(values);
                }
            }
            Op::Pop => prop_assert_eq!(queue.pop().unwrap(), model.pop_front()),
            Op::PopMany(n) => {
                let n = (*n).min(model.len());
                let expected: Vec<u64> = model.drain(..n).collect();
                prop_assert_eq!(queue.pop_many(n).unwrap(), expected);
            }
            Op::Resize(new) => {
                let resized = queue.resize(*new).is_ok();
                prop_assert_eq!(resized, model.len() <= *new);
                capacity = if resized { *new } else { capacity };
            }
        }
        prop_assert_eq!(queue.len().unwrap(), model.len());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn a_queue_behaves_as_a_deque_with_a_limit(
        capacity in 1_usize..12,
        first in prop::sample::select(FIRST_TICKETS.to_vec()),
        ops in prop::collection::vec(op(), 0..80),
    ) {
        behaves_as_a_deque(capacity, first, &ops)?;
    }
}

/// Elements go one by one, so each ticket is taken without a read of the other side's counter.
#[test]
fn single_elements_go_through_a_queue_whose_tickets_wrap_around() {
    everywhere(1, |world| {
        for first in u64::MAX - 9..=u64::MAX {
            let queue = CircularQueue::<u64>::starting_at(&world, Rank::ZERO, 4, first).unwrap();
            for i in 0..20 {
                queue.push(i).unwrap();
                assert_eq!(queue.pop().unwrap(), Some(i), "from {first}");
            }
        }
    });
}

#[test]
fn an_element_whose_codec_panics_costs_no_other_one() {
    everywhere(1, |world| {
        let numbers = || [12, 13, 14, 15].map(Unlucky);
        let queue = queue::<Unlucky>(&world, 8);
        for number in numbers() {
            let pushed = queue.push(number.clone());
            assert_eq!(pushed.is_err(), number == Unlucky(13));
        }
        assert!(queue.push_slice(&numbers()).is_err(), "none of them");
        assert_eq!(queue.len().unwrap(), 3);
        let popped = queue.pop_many(9).unwrap_err();
        assert_eq!(
            (popped.taken, popped.lost.n),
            (vec![Unlucky(12), Unlucky(15)], 1)
        );
        assert_names_panic(&popped.lost.first, "unlucky to read");
        queue.push(Unlucky(14)).unwrap();
        assert_names_panic(&queue.pop().unwrap_err(), "unlucky to read");
        assert_eq!(queue.pop().unwrap(), None);
        drop(queue);
        world.reclaim().unwrap();
        assert_eq!(
            world.local_heap_use().used,
            0,
            "all memory outside of slots"
        );
    });
}
