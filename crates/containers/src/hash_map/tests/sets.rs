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

#[test]
fn a_set_is_a_subset_if_all_ranks_find_their_keys_in_the_other_one() {
    everywhere(3, |world| {
        let set = || HashSet::<u64>::with_capacity(&world, 6000).unwrap();
        let (sixes, twos, empty) = (set(), set(), set());
        let threes = HashSet::with_hasher(&world, 9000, SeededHasher::new(5)).unwrap();
        put(&sixes, 6);
        put(&twos, 2);
        put(&threes, 3);
        let threes = threes.into_find_phase().unwrap();
        assert!(sixes.is_subset(&twos).unwrap() && sixes.is_subset(&threes).unwrap());
        assert!(!twos.is_subset(&threes).unwrap() && !threes.is_subset(&twos).unwrap());
        assert!(!twos.is_subset(&sixes).unwrap());
        assert!(empty.is_subset(&twos).unwrap() && !twos.is_subset(&empty).unwrap());
        assert!(twos.is_subset(&twos).unwrap() && empty.is_subset(&empty).unwrap());
        // One key on one rank is enough.
        if world.rank().number() == 1 {
            assert!(sixes.insert(&7).unwrap());
        }
        assert!(!sixes.is_subset(&twos).unwrap());
    });
}

#[test]
fn the_keys_of_a_rank_are_counted_visited_and_drained() {
    everywhere(2, |world| {
        let set = HashSet::<u64>::with_capacity(&world, 3000).unwrap();
        let all = put(&set, 4);
        let mut here = BTreeSet::new();
        set.for_each_local(|key| assert!(here.insert(key))).unwrap();
        assert_eq!(set.local_len().unwrap(), here.len() as u64);
        assert_eq!(sum(&world, here.len()), all.len());
        let me = world.rank().number();
        let by_number: BTreeSet<u64> = set.keys_on(me).map(Result::unwrap).collect();
        assert_eq!(by_number, here);
        let mut set = set.into_local_phase().unwrap();
        let drained: BTreeSet<u64> = set.local_drain().map(Result::unwrap).collect();
        assert_eq!(drained, here);
        assert_eq!(set.local_len().unwrap(), 0);
        assert!(set.is_empty().unwrap());
    });
}

#[test]
#[should_panic(expected = "entries on member 7 of a team with 1 ranks were asked for")]
fn entries_of_a_member_that_is_not_there_are_not_looked_for() {
    let world = loopback::world();
    let team = world.team().split(Some(1), 0).unwrap().unwrap();
    let set = HashSet::<u64>::with_capacity(&team, 9).unwrap();
    drop(set.keys_on(7));
}
