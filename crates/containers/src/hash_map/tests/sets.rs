//! Operations on two sets, against the sets of std.

use std::collections::BTreeSet;

use super::*;
use crate::HashSet;
use crate::hash_map::SeededHasher;

/// The numbers that each rank puts, more than a batch of a rank.
fn put<S: crate::object::KeyHasher>(set: &HashSet<u64, Atomic, S>, step: u64) -> BTreeSet<u64> {
    let world = set.world();
    let (me, n) = (u64::from(world.rank().number()), u64::from(world.n_ranks()));
    let all = (0..4000).filter(|key| key % step == 0);
    set.extend(all.clone().filter(|key| key / step % n == me))
        .unwrap();
    world.barrier().unwrap();
    all.collect()
}

/// The keys of a set on all ranks.
fn all_of(set: &HashSet<u64>) -> BTreeSet<u64> {
    let world = set.world();
    world.barrier().unwrap();
    let all = world.ranks().flat_map(|rank| set.keys_on(rank));
    let all: BTreeSet<u64> = all.collect::<Result<_, _>>().unwrap();
    assert_eq!(all.len() as u64, set.len().unwrap());
    all
}

/// Over all ranks.
fn sum(world: &World, n: usize) -> usize {
    world.allreduce(n, |a: usize, b| a + b).unwrap()
}

#[test]
fn unions_intersections_and_differences_are_those_of_std() {
    for n_ranks in [1, 3] {
        everywhere(n_ranks, |world| {
            let set = || HashSet::<u64>::with_capacity(&world, 6000).unwrap();
            let (twos, changed) = (set(), set());
            // A set of another size, with its keys in other slots.
            let threes = HashSet::with_hasher(&world, 9000, SeededHasher::new(5)).unwrap();
            let (of_two, of_three) = (put(&twos, 2), put(&threes, 3));

            let n_new = changed.union_with(&twos).unwrap();
            assert_eq!(sum(&world, n_new), of_two.len());
            let n_new = changed.union_with(&threes).unwrap();
            let union: BTreeSet<_> = of_two.union(&of_three).copied().collect();
            assert_eq!(sum(&world, n_new), union.len() - of_two.len());
            assert_eq!(all_of(&changed), union);

            // A set in another phase.
            let threes = threes.into_find_phase().unwrap();
            let n_gone = changed.intersect_with(&threes).unwrap();
            assert_eq!(sum(&world, n_gone), union.len() - of_three.len());
            assert_eq!(all_of(&changed), of_three);

            let n_gone = changed.difference_with(&twos).unwrap();
            let odd: BTreeSet<_> = of_three.difference(&of_two).copied().collect();
            assert_eq!(sum(&world, n_gone), of_three.len() - odd.len());
            assert_eq!(all_of(&changed), odd);

            // A set and itself.
            assert_eq!(changed.union_with(&changed).unwrap(), 0);
            assert_eq!(changed.intersect_with(&changed).unwrap(), 0);
            assert_eq!(all_of(&changed), odd);
            let n_gone = changed.difference_with(&changed).unwrap();
            assert_eq!(sum(&world, n_gone), odd.len());
            assert!(changed.is_empty().unwrap());
            // Removed keys come back.
            changed.union_with(&twos).unwrap();
            assert_eq!(all_of(&changed), of_two);
        });
    }
}

#[test]
fn the_local_part_of_a_set_is_asked_changed_and_gone_through() {
    everywhere(3, |world| {
        let set = HashSet::<u64>::with_capacity(&world, 6000).unwrap();
        let all = put(&set, 5);
        let mut set = set.into_local_phase().unwrap();
        let here: BTreeSet<u64> = (&set).into_iter().collect::<Result<_, _>>().unwrap();
        assert_eq!(sum(&world, here.len()), all.len());
        assert!(
            all.iter()
                .all(|key| set.local_contains(key).unwrap() == here.contains(key))
        );
        let n_gone = set.local_retain(|key| key % 2 == 0).unwrap();
        let even: BTreeSet<u64> = here.iter().copied().filter(|key| key % 2 == 0).collect();
        assert_eq!(n_gone, (here.len() - even.len()) as u64);
        for key in &all {
            assert_eq!(set.local_remove(key).unwrap(), even.contains(key));
        }
        assert!(set.is_empty().unwrap());
    });
}
