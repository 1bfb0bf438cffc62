//! The cost of each method in R, W and A, as its documentation says.

use super::*;
use crate::queue::access::Request;
use crate::queue::ring::Ring;
use crate::queue::ticket::Tickets;

#[test]
fn a_push_costs_two_atomics_and_a_write_and_a_pop_two_atomics_and_a_read() {
    everywhere_counted(1, |world| {
        let queue = queue::<u64>(&world, 4);
        for _ in 0..3 {
            assert_eq!(price(&world, || queue.push(1).unwrap()), (0, 1, 2));
        }
        // The number of pushes is read once for all elements that are there.
        assert_eq!(price(&world, || queue.pop().unwrap()), (1, 0, 3));
        assert_eq!(price(&world, || queue.pop().unwrap()), (1, 0, 2));
        assert_eq!(price(&world, || queue.pop().unwrap()), (1, 0, 2));
        assert_eq!(price(&world, || queue.pop().unwrap()), (0, 0, 2));
    });
}

#[test]
fn a_turn_of_the_ring_costs_one_more_atomic_and_a_full_queue_two() {
    everywhere_counted(1, |world| {
        let queue = queue::<u64>(&world, 4);
        for _ in 0..4 {
            queue.push(1).unwrap();
        }
        assert_eq!(price(&world, || queue.push(1).is_err()), (0, 0, 2));
        assert_eq!(price(&world, || queue.pop_many(4).unwrap()), (1, 0, 4));
        assert_eq!(price(&world, || queue.push(1).unwrap()), (0, 1, 3));
        for _ in 0..3 {
            assert_eq!(price(&world, || queue.push(1).unwrap()), (0, 1, 2));
        }
        assert_eq!(price(&world, || queue.len().unwrap()), (0, 0, 2));
    });
}

#[test]
fn work_behind_unfinished_work_costs_three_more_atomics() {
    everywhere_counted(1, |world| {
        let queue = queue::<u64>(&world, 4);
        // As if another rank was faster: what this one has seen is from before the first push.
        let write = |ring: &Ring<u64>, tickets: Tickets| {
            assert_eq!(price(&world, || queue.push(2).unwrap()), (0, 1, 3 + 3));
            ring.write(tickets.first, 1)
        };
        queue.ring().perform(Request::push(1, true), write).unwrap();
        queue.push(3).unwrap();
        // The same, and A for the number of pushes.
        let read = |ring: &Ring<u64>, tickets: Tickets| {
            assert_eq!(price(&world, || queue.pop().unwrap()), (1, 0, 4 + 3));
            ring.read(tickets.first).map(drop)
        };
        queue.ring().perform(Request::pop(1, true), read).unwrap();
        assert_eq!(queue.pop_many(9).unwrap(), [3]);
    });
}

#[test]
fn many_elements_cost_as_many_atomics_as_one() {
    everywhere_counted(1, |world| {
        let queue = queue::<u64>(&world, 100);
        assert_eq!(
            price(&world, || queue.push_slice(&[1; 70]).unwrap()),
            (0, 1, 2)
        );
        assert_eq!(price(&world, || queue.pop_many(70).unwrap()), (1, 0, 4));
        let mut out = [0; 100];
        queue.push_slice(&[1; 50]).unwrap();
        assert_eq!(price(&world, || queue.pop_many(30).unwrap()), (1, 0, 4));
        assert_eq!(price(&world, || queue.pop_many(20).unwrap()), (1, 0, 2));
        // The ring has 128 slots: these go on at the first one.
        assert_eq!(
            price(&world, || queue.push_slice(&[1; 90]).unwrap()),
            (0, 2, 3)
        );
        assert_eq!(
            price(&world, || queue.pop_slice(&mut out).unwrap()),
            (2, 0, 4)
        );
        assert_eq!(
            price(&world, || queue.push_slice(&[1; 200]).is_err()),
            (0, 0, 0)
        );
    });
}

#[test]
fn in_a_phase_of_their_own_pushes_and_pops_cost_one_atomic_less() {
    everywhere_counted(1, |world| {
        let pushes = queue::<u64>(&world, 4).into_push_phase().unwrap();
        assert_eq!(price(&world, || pushes.push(1).unwrap()), (0, 1, 1));
        assert_eq!(
            price(&world, || pushes.push_slice(&[1; 3]).unwrap()),
            (0, 1, 1)
        );
        assert_eq!(price(&world, || pushes.push(1).is_err()), (0, 0, 0));
        let pops = pushes.into_pop_phase().unwrap();
        assert_eq!(price(&world, || pops.pop().unwrap()), (1, 0, 1));
        assert_eq!(price(&world, || pops.pop_many(4).unwrap()), (1, 0, 1));
        assert_eq!(price(&world, || pops.pop().unwrap()), (0, 0, 0));

        let pushes = fast::<u64>(&world, 4);
        assert_eq!(price(&world, || pushes.push(1).unwrap()), (0, 1, 1));
        assert_eq!(
            price(&world, || pushes.push_slice(&[1; 3]).unwrap()),
            (0, 1, 1)
        );
        let pops = pushes.into_pop_phase().unwrap();
        assert_eq!(price(&world, || pops.pop().unwrap()), (1, 0, 1));
        let mut out = [0; 9];
        assert_eq!(
            price(&world, || pops.pop_slice(&mut out).unwrap()),
            (1, 0, 1)
        );
    });
}

#[test]
fn what_collectives_cost_in_barriers() {
    everywhere_counted(1, |world| {
        let barriers = |f: &mut dyn FnMut()| {
            let before = world.costs();
            f();
            (world.costs() - before).barriers
        };
        let mut queue = queue::<u64>(&world, 4);
        assert_eq!(barriers(&mut || queue.resize(9).unwrap()), 3);
        assert_eq!(barriers(&mut || queue.migrate(Rank::ZERO).unwrap()), 3);
        let mut moved = Some(queue);
        let mut into = || drop(moved.take().unwrap().into_pop_phase().unwrap());
        assert_eq!(barriers(&mut into), 2);
    });
}

#[test]
fn an_element_with_a_long_encoding_costs_one_write_and_one_read_more() {
    everywhere_counted(1, |world| {
        let queue = queue::<String>(&world, 4);
        let (short, long) = ("x".repeat(10), "x".repeat(100));
        assert_eq!(
            price(&world, || queue.push(short.clone()).unwrap()),
            (0, 1, 2)
        );
        // And A, to see whether another rank has given memory back.
        assert_eq!(
            price(&world, || queue.push(long.clone()).unwrap()),
            (0, 2, 3)
        );
        queue.pop().unwrap();
        assert_eq!(price(&world, || queue.pop().unwrap()), (2, 0, 2));
    });
}

/// Asserts the messages that rank 0 sends in `f`, while rank 1 serves them.
#[track_caller]
fn asks(world: &World, n: u64, f: impl FnOnce()) {
    if world.rank() == Rank::ZERO {
        assert_eq!(asked(world, f), n, "messages");
    }
    world.barrier().unwrap();
}

#[test]
fn where_ranks_serve_each_other_a_push_or_pop_of_any_length_is_one_message_in_each_phase() {
    served_counted(|world| {
        let host = Rank::new(1);
        let queue = CircularQueue::with_capacity(&world, host, 6).unwrap();
        let mut out = [0; 9];
        asks(&world, 1, || queue.push(1_u64).unwrap());
        asks(&world, 1, || queue.push_slice(&[2, 3, 4, 5, 6]).unwrap());
        asks(&world, 1, || {
            assert!(matches!(queue.push(7), Err(PushError::Full(7))));
        });
        asks(&world, 1, || assert!(queue.push_slice(&[7, 8]).is_err()));
        asks(&world, 0, || assert!(queue.push_slice(&[7; 7]).is_err()));
        asks(&world, 1, || assert_eq!(queue.pop().unwrap(), Some(1)));
        asks(&world, 1, || {
            assert_eq!(queue.pop_many(2).unwrap(), [2, 3]);
        });
        asks(&world, 1, || {
            assert_eq!(queue.pop_slice(&mut out).unwrap(), 3);
        });
        asks(&world, 1, || assert_eq!(queue.pop().unwrap(), None));
        let queue = queue.into_push_phase().unwrap();
        asks(&world, 1, || queue.push(1).unwrap());
        asks(&world, 1, || queue.push_slice(&[2, 3, 4, 5, 6]).unwrap());
        asks(&world, 1, || assert!(queue.push(7).is_err()));
        let queue = queue.into_pop_phase().unwrap();
        asks(&world, 1, || assert_eq!(queue.pop().unwrap(), Some(1)));
        asks(&world, 1, || {
            assert_eq!(queue.pop_many(9).unwrap(), [2, 3, 4, 5, 6]);
        });
        asks(&world, 1, || assert_eq!(queue.pop().unwrap(), None));

        // The serving rank moves with the queue, and operations of the host itself are no messages.
        let mut queue = queue.into_push_pop_phase().unwrap();
        asks(&world, 1, || queue.push(1).unwrap());
        queue.migrate(Rank::ZERO).unwrap();
        if world.rank() == Rank::ZERO {
            assert_eq!(price(&world, || queue.push(2).unwrap()), (0, 1, 2));
        }
        world.barrier().unwrap();
        if world.rank() == host {
            let both = || assert_eq!(queue.pop_many(9).unwrap(), [1, 2]);
            assert_eq!(asked(&world, both), 1);
        }
        world.barrier().unwrap();
    });
}
