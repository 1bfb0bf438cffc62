//! Elements by index: many at once, and their atomics.

use super::*;

#[test]
fn scattered_elements_are_those_that_were_written_and_sums_are_exact() {
    everywhere(3, |world| {
        let n_ranks = world.ranks().len();
        let mut random = Random(world.rank().index() as u64);
        let len = 40 * n_ranks;
        let own = |i: usize| (world.rank().index() + n_ranks * i) as u64;
        for distribution in [Distribution::Block, Distribution::BlockCyclic(4)] {
            let array = dealt(&world, len, distribution);
            let pair = Array::new(&world, Rank::new(1), len, &[0_u16; 3]).unwrap();
            let mut mine: Vec<_> = (0..40).map(|i| usize::try_from(own(i)).unwrap()).collect();
            for i in (1..mine.len()).rev() {
                mine.swap(i, random.index(i + 1));
            }
            let values: Vec<_> = mine.iter().map(|&i| (i, 1000 * i as u64)).collect();
            array.put_many(&values).unwrap();
            let narrow = |i: usize| [u16::try_from(i).unwrap(); 3];
            let pairs: Vec<_> = mine.iter().map(|&i| (i, narrow(i))).collect();
            pair.put_many(&pairs).unwrap();
            world.flush_all().unwrap();
            // After a flush the value is found, in whatever way it was written.
            for (i, value) in values {
                assert_eq!(array.get(i).unwrap(), value);
            }
            world.barrier().unwrap();
            // Elements of any rank, some of them twice.
            let all: Vec<_> = (0..2 * len).map(|_| random.index(len)).collect();
            let expected: Vec<_> = all.iter().map(|&i| 1000 * i as u64).collect();
            assert_eq!(array.get_many(&all).unwrap(), expected);
            let expected: Vec<_> = all.iter().map(|&i| narrow(i)).collect();
            assert_eq!(pair.get_many(&all).unwrap(), expected);
            assert_eq!(array.get_many(&[]).unwrap(), []);
            world.barrier().unwrap();
            let each: Vec<_> = (0..len).chain(0..len).collect();
            array.add_many(&each, 3).unwrap();
            world.barrier().unwrap();
            let sum = 6 * n_ranks as u64;
            let expected: Vec<_> = (0..len).map(|i| 1000 * i as u64 + sum).collect();
            assert_eq!(array.get_many(&each[..len]).unwrap(), expected);
            world.barrier().unwrap();
        }
    });
}

#[test]
fn scattered_elements_cost_one_operation_each_or_a_few_messages() {
    everywhere_counted(1, |world| {
        let array = dealt(&world, 100, Distribution::Cyclic);
        let many: Vec<_> = (0..100).rev().collect();
        let values: Vec<_> = many.iter().map(|&i| (i, 5)).collect();
        assert_eq!(
            price(&world, || array.get_many(&many).unwrap()),
            (100, 0, 0)
        );
        assert_eq!(
            price(&world, || array.put_many(&values).unwrap()),
            (0, 100, 0)
        );
        assert_eq!(
            price(&world, || array.add_many(&many, 1).unwrap()),
            (0, 0, 100)
        );
    });
    served_counted(|world| {
        let array = Array::new(&world, Rank::new(1), 1000, &7_u64).unwrap();
        if world.rank() == Rank::ZERO {
            let many: Vec<_> = (0..1000).rev().collect();
            let values: Vec<_> = many.iter().map(|&i| (i, i as u64)).collect();
            let limit = 16_000_u64.div_ceil(world.capabilities().max_medium as u64 - 100);
            let n = asked(&world, || array.put_many(&values).unwrap());
            assert!((1..=limit).contains(&n), "{n} messages");
            let n = asked(&world, || array.add_many(&many, 1).unwrap());
            assert!((1..=limit).contains(&n), "{n} messages");
            let n = asked(&world, || {
                let expected: Vec<u64> = (1..=1000).rev().collect();
                assert_eq!(array.get_many(&many).unwrap(), expected);
            });
            assert!((1..=limit).contains(&n), "{n} messages");
        }
        world.barrier().unwrap();
    });
}

#[test]
fn scattered_elements_of_a_rank_that_has_dropped_its_handle_are_reached_one_sidedly() {
    served_counted(|world| {
        let array = Array::new(&world, Rank::new(1), 9, &0_u32).unwrap();
        let array = (world.rank() == Rank::ZERO).then_some(array);
        world.barrier().unwrap();
        if let Some(array) = array {
            array.put_many(&[(8, 80), (2, 20)]).unwrap();
            world.flush_all().unwrap();
            array.add_many(&[2, 8, 2], 1).unwrap();
            world.flush_all().unwrap();
            assert_eq!(array.get_many(&[2, 0, 8]).unwrap(), [22, 0, 81]);
        }
        world.barrier().unwrap();
    });
}

#[test]
#[should_panic(expected = "element 100 of an array of 100")]
fn scattered_elements_beyond_the_end_are_refused() {
    let world = loopback::world();
    let array = dealt(&world, 100, Distribution::Block);
    array.put_many(&[(3, 1), (100, 1)]).unwrap();
}

#[test]
fn elements_that_are_swapped_are_each_given_once() {
    everywhere(3, |world| {
        let array = DArray::new(&world, 50, Distribution::Cyclic, &u32::MAX).unwrap();
        let hosted = Array::new(&world, Rank::new(1), 50, &u64::MAX).unwrap();
        // Every rank swaps its numbers into the same elements. Each number is returned once, or is
        // there at the end.
        let me = world.rank().number();
        let mut random = Random(me.into());
        let given: Vec<(usize, u32)> = (0..200).map(|i| (random.index(50), 200 * me + i)).collect();
        let former = array.swap_many(&given).unwrap();
        let wide: Vec<_> = given
            .iter()
            .map(|(i, value)| (*i, u64::from(*value)))
            .collect();
        let former_wide = hosted.swap_many(&wide).unwrap();
        world.barrier().unwrap();
        for (former, last) in [
            (former, array.get_range(0..50).unwrap()),
            (
                former_wide
                    .into_iter()
                    .map(|x| u32::try_from(x).unwrap_or(u32::MAX))
                    .collect(),
                hosted
                    .get_range(0..50)
                    .unwrap()
                    .into_iter()
                    .map(|x| u32::try_from(x).unwrap_or(u32::MAX))
                    .collect(),
            ),
        ] {
            let mut all = world.allgather_varying(&former).unwrap().concat();
            all.extend(last);
            all.retain(|value| *value != u32::MAX);
            all.sort_unstable();
            assert!(all.into_iter().eq(0..600));
        }
        world.barrier().unwrap();
    });
}

#[test]
fn atomics_on_scattered_elements_return_what_was_there_before() {
    everywhere(3, |world| {
        let n_ranks = world.ranks().len();
        let array = dealt(&world, 4 * n_ranks, Distribution::Cyclic);
        let hosted = hosted(&world, 4 * n_ranks);
        let mine = |i: usize| (4 * world.rank().index() + i + 1) % (4 * n_ranks);
        let given = |values: [u64; 4]| std::array::from_fn::<_, 4, _>(|i| (mine(i), values[i]));
        macro_rules! check_all {
            ($array:ident) => {
                $array.add_each(&given([1, 2, 3, 4])).unwrap();
                $array.add_each(&given([1, 0, 0, u64::MAX])).unwrap();
                world.flush_all().unwrap();
                let former = $array.fetch_add_many(&given([1; 4]));
                assert_eq!(former.unwrap(), [9, 9, 10, 10]);
                let former = $array.fetch_max_many(&given([0, 90, 11, 20]));
                assert_eq!(former.unwrap(), [10, 10, 11, 11]);
                let former = $array.fetch_min_many(&given([90, 5, 0, 30]));
                assert_eq!(former.unwrap(), [10, 90, 11, 20]);
                let former = $array.swap_many(&given([1, 2, 3, 4]));
                assert_eq!(former.unwrap(), [10, 5, 0, 20]);
                let values = [(mine(0), 1, 7), (mine(1), 1, 7), (mine(2), 3, 0)];
                let exchanged = $array.compare_exchange_many(&values).unwrap();
                assert_eq!(exchanged, [Ok(1), Err(2), Ok(3)]);
                let now = $array.get_many(&[0, 1, 2, 3].map(mine)).unwrap();
                assert_eq!(now, [7, 2, 0, 4]);
            };
        }
        check_all!(array);
        check_all!(hosted);
        world.barrier().unwrap();
    });
}

/// Quarters, whose sums are exact in any order.
#[test]
fn floats_by_index_are_added_to_and_compared_as_numbers() {
    everywhere(3, |world| {
        let sums = DArray::new(&world, 50, Distribution::Cyclic, &0.0_f64).unwrap();
        let hosted = Array::new(&world, Rank::new(1), 50, &0.0_f32).unwrap();
        let all: Vec<usize> = (0..50).chain(0..50).collect();
        let each: Vec<_> = (0..50).map(|i| (i, -0.25)).collect();
        sums.add_many(&all, 0.5).unwrap();
        sums.add_each(&each).unwrap();
        hosted.add_many(&all, 0.75).unwrap();
        world.barrier().unwrap();
        assert_eq!(sums.get_range(0..50).unwrap(), [2.25; 50]);
        assert_eq!(hosted.get_range(0..50).unwrap(), [4.5; 50]);
        world.barrier().unwrap();
        let former = sums.fetch_add_many(&each).unwrap();
        assert!(former.iter().all(|was| (1.75..=2.25).contains(was)));
        world.barrier().unwrap();
        assert_eq!(sums.sum().unwrap(), 75.0);
        let rank = world.rank().number() as usize;
        let mine: [(usize, f64); 2] = [(3 * rank, f64::NAN), (3 * rank + 1, -4.0)];
        assert_eq!(sums.fetch_max_many(&mine).unwrap(), [1.5; 2]);
        assert_eq!(sums.fetch_min_many(&mine).unwrap(), [1.5; 2]);
        let now = sums.get_many(&[3 * rank, 3 * rank + 1]).unwrap();
        assert_eq!(now, [1.5, -4.0]);
        world.barrier().unwrap();
    });
}

#[test]
fn an_element_that_all_compare_and_exchange_goes_to_one_of_them() {
    everywhere(3, |world| {
        let claims = dealt(&world, 30, Distribution::Block);
        let me = 100 + u64::from(world.rank().number());
        let mine: Vec<_> = (0..30).map(|i| (i, 7, me)).collect();
        let outcomes = claims.compare_exchange_many(&mine).unwrap();
        world.barrier().unwrap();
        let there = claims.get_range(0..30).unwrap();
        for (outcome, there) in outcomes.into_iter().zip(there) {
            assert_eq!(outcome, if there == me { Ok(7) } else { Err(there) });
        }
        world.barrier().unwrap();
    });
}

#[test]
fn atomics_on_scattered_elements_cost_one_atomic_each() {
    everywhere_counted(1, |world| {
        let array = dealt(&world, 9, Distribution::Block);
        let two = [(1, 5), (8, 6)];
        assert_eq!(price(&world, || array.add_each(&two).unwrap()), (0, 0, 2));
        assert_eq!(price(&world, || array.swap_many(&two).unwrap()), (0, 0, 2));
        let fetch_add = || array.fetch_add_many(&two).unwrap();
        assert_eq!(price(&world, fetch_add), (0, 0, 2));
        let fetch_max = || array.fetch_max_many(&two).unwrap();
        assert_eq!(price(&world, fetch_max), (0, 0, 2));
        let fetch_min = || array.fetch_min_many(&two).unwrap();
        assert_eq!(price(&world, fetch_min), (0, 0, 2));
        let exchange = || {
            array
                .compare_exchange_many(&[(1, 5, 7), (8, 0, 1)])
                .unwrap()
        };
        assert_eq!(price(&world, exchange), (0, 0, 2));
    });
    served_counted(|world| {
        let array = dealt(&world, 8, Distribution::Block);
        let all: Vec<_> = (0..8).map(|i| (i, 1_u64)).collect();
        world.barrier().unwrap();
        if world.rank() == Rank::ZERO {
            let before = world.costs().messages;
            array.fetch_add_many(&all[4..]).unwrap();
            assert_eq!(world.costs().messages - before, 1, "one message for all");
        }
        world.barrier().unwrap();
    });
}
