//! Operations that are run again after each step.

use super::super::op::OnKey;
use super::super::operations::{Find, GetOrInsert};
use super::super::slot::layout::Blocks as _;
use super::super::slot::replayed::Journal;
use super::in_flight::Value;
use super::*;
use crate::{Error, Result};

/// Performs `O` by steps in flight. Also returns the most steps that a run has taken.
fn perform<V: Value, O: OnKey<u64, V, Given: Copy>>(
    map: &HashMap<u64, V>,
    is_read_only: bool,
    key: u64,
    given: O::Given,
) -> (Result<O::Outcome>, usize) {
    let shape = &map.table.shape;
    let journal = Journal::new(&shape.heap, is_read_only);
    let hash = shape.hash(&key);
    let mut most = 0;
    loop {
        let done = shape.replay(&journal, |view| {
            let done = O::perform(&view, hash, &key, given);
            most = most.max(journal.record().n_taken());
            done
        });
        if let Some(done) = done {
            return (done, most);
        }
        shape.world().progress().unwrap();
    }
}

/// Else the time of a long probe grows with the square of its length.
#[test]
fn a_run_does_not_take_the_steps_of_passed_blocks_again() {
    fn check<V: Value>(world: &World) {
        let map = map::<u64, V>(world, 500);
        let n = map.capacity();
        let me = u64::from(world.rank().number());
        for key in (0..n).filter(|key| key % u64::from(world.n_ranks()) == me) {
            map.insert(&key, V::of(key)).unwrap();
        }
        world.barrier().unwrap();
        // What was merged, the states of a block, two keys with the fingerprint, and a value.
        let few = LayoutOf::<u64, V>::SLOTS + 4;
        for is_read_only in [false, true] {
            for key in [0, 1, 250, 499, n, n + 1] {
                let (found, most) = perform::<V, Find<Atomic>>(&map, is_read_only, key, ());
                assert_eq!(found.unwrap(), (key < n).then(|| V::of(key)));
                assert!(most <= few, "{most} steps, and {few} are enough");
            }
        }
        let value = crate::object::to_slot(&V::of(7), map.table.heap()).unwrap();
        let (inserted, most) = perform::<V, GetOrInsert>(&map, false, n, value);
        assert!(matches!(inserted, Err(Error::Full { capacity }) if capacity == n));
        assert!(most <= few, "{most} steps, and {few} are enough");
        world.barrier().unwrap();
    }
    for n_ranks in [1, 3] {
        loopback::run(n_ranks, |world| {
            check::<u64>(&world);
            check::<[u64; 5]>(&world);
        });
    }
}
