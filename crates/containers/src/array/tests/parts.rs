//! Arrays whose elements come from all ranks.

use super::*;
use crate::Error;

/// The elements that member `rank` gives in a round.
fn given(rank: u64, round: u64) -> Vec<u64> {
    (0..(5 * rank + 3 * round) % 11)
        .map(|i| 1000 * rank + 100 * round + i)
        .collect()
}

#[test]
fn elements_of_all_ranks_are_in_the_order_of_the_ranks_and_further_ones_behind_them() {
    everywhere(3, |world| {
        for distribution in [
            Distribution::Block,
            Distribution::Cyclic,
            Distribution::BlockCyclic(4),
        ] {
            let me = u64::from(world.rank().number());
            let mut model: Vec<u64> = (0..3).flat_map(|rank| given(rank, 1)).collect();
            let mut array = DArray::from_iter(&world, distribution, given(me, 1)).unwrap();
            for round in 2..5 {
                let all = array.get_range(0..array.len()).unwrap();
                assert_eq!(all, model);
                assert_eq!(array.local_elements().len(), array.local_len());
                world.barrier().unwrap();
                // Earlier puts of others are not lost.
                let next = (world.rank().index() + 1) % 3;
                array.put(next, &round).unwrap();
                model[..3].fill(round);
                array.extend(given(me, round)).unwrap();
                model.extend((0..3).flat_map(|rank| given(rank, round)));
            }
            assert_eq!(array.len(), model.len());
            let other = dealt(&world, model.len(), distribution);
            assert!((0..model.len()).all(|i| array.rank_of(i) == other.rank_of(i)));
            assert_eq!(array.get_range(0..model.len()).unwrap(), model);
            world.barrier().unwrap();
            let nothing = DArray::<u64>::from_iter(&world, distribution, []).unwrap();
            assert!(nothing.is_empty());
        }
        let none = DArray::from_iter(&world, Distribution::BlockCyclic(0), [1_u32]);
        assert!(matches!(none, Err(Error::Argument(_))));
    });
}

#[test]
fn an_array_that_has_no_room_to_be_extended_is_as_it_was() {
    everywhere(2, |world| {
        let mut array = DArray::from_iter(&world, Distribution::Block, [1_u8, 2]).unwrap();
        let refused = array.extend(vec![0; 20 << 20]);
        assert!(matches!(refused, Err(Error::Exhausted(_))), "{refused:?}");
        assert_eq!(array.get_range(0..4).unwrap(), [1, 2, 1, 2]);
        array.extend([3]).unwrap();
        assert_eq!(array.get_range(0..6).unwrap(), [1, 2, 1, 2, 3, 3]);
        world.barrier().unwrap();
    });
}

#[test]
fn elements_that_ranks_give_cost_a_write_for_each_rank_that_holds_some_of_them() {
    everywhere_counted(3, |world| {
        let part = if world.rank() == Rank::ZERO { 70 } else { 10 };
        let before = world.costs();
        let array = DArray::from_iter(&world, Distribution::Block, vec![7_u64; part]).unwrap();
        let costs = world.costs() - before;
        // Blocks of thirty: the elements of rank 0 are on all, those of the others on rank 2.
        let n = if part == 70 { 3 } else { 1 };
        assert_eq!((costs.reads, costs.writes, costs.atomics), (0, n, 0));
        assert_eq!(array.len(), 90);
        world.barrier().unwrap();
    });
}
