//! What each method costs, in R, W and A, as its documentation says.

use super::*;

#[test]
fn a_push_costs_two_atomics_and_a_write_and_a_pop_two_atomics_and_a_read() {
    everywhere_counted(1, |world| {
        let queue = queue::<u64>(&world, 4);
        for _ in 0..3 {
            assert_eq!(price(&world, || queue.push(1).unwrap()), (0, 1, 2));
        }
        // How far the pushes have come is looked up once for all that are there.
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
