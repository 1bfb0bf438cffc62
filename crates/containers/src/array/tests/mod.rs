//! Tests of the arrays over every transport that needs nothing installed.

mod halo;
mod parts;
mod refused;
mod scattered;
mod whole;

use pgas_core::backend::loopback;
use pgas_core::{Pod, Rank, World, as_handler};
use proptest::prelude::*;

use super::*;
use crate::testing::{
    Random, asked, everywhere, everywhere_counted, panic_in_round, price, refused_without_a_loss,
    served_counted, told_apart,
};

fn hosted(world: &World, len: usize) -> Array<u64> {
    Array::new(world, Rank::ZERO, len, &7).unwrap()
}

fn dealt(world: &World, len: usize, distribution: Distribution) -> DArray<u64> {
    DArray::new(world, len, distribution, &7).unwrap()
}

#[test]
fn plain_elements_cost_a_write_and_a_read_and_others_are_locked_by_their_version() {
    everywhere_counted(1, |world| {
        let plain = hosted(&world, 100);
        assert_eq!(price(&world, || plain.put(3, &1).unwrap()), (0, 1, 0));
        assert_eq!(price(&world, || plain.get(3).unwrap()), (1, 0, 0));
        assert_eq!(
            price(&world, || plain.put_slice(3, &[1; 90]).unwrap()),
            (0, 1, 0)
        );
        assert_eq!(price(&world, || plain.get_range(3..90).unwrap()), (1, 0, 0));
        let names = Array::new(&world, Rank::ZERO, 10, &String::new()).unwrap();
        let (short, long) = ("short".to_owned(), "long".repeat(50));
        assert_eq!(price(&world, || names.put(3, &short).unwrap()), (1, 1, 3));
        assert_eq!(price(&world, || names.get(3).unwrap()), (1, 0, 2));
        assert_eq!(price(&world, || names.get(4).unwrap()), (0, 0, 1));
        names.put(3, &long).unwrap();
        assert_eq!(price(&world, || names.get(3).unwrap()), (2, 0, 3));
    });
}

#[test]
fn many_elements_of_a_distributed_array_cost_one_transfer_for_each_rank() {
    everywhere_counted(3, |world| {
        for distribution in [
            Distribution::Cyclic,
            Distribution::BlockCyclic(4),
            Distribution::Block,
        ] {
            let array = dealt(&world, 90, distribution);
            assert_eq!(
                price(&world, || array.put_slice(0, &[1; 90]).unwrap()),
                (0, 3, 0)
            );
            assert_eq!(price(&world, || array.get_range(1..89).unwrap()), (3, 0, 0));
            assert_eq!(price(&world, || array.get_range(5..6).unwrap()), (1, 0, 0));
            assert_eq!(price(&world, || array.put(7, &1).unwrap()), (0, 1, 0));
            world.barrier().unwrap();
        }
    });
}

#[test]
fn a_block_of_a_matrix_costs_one_transfer_for_each_tile() {
    everywhere_counted(1, |world| {
        let matrix = DMatrix::new(&world, [20, 30], [8, 8], 0_u32).unwrap();
        let values = [1; 12 * 10];
        assert_eq!(
            price(&world, || matrix.put_block(4..16, 4..14, &values).unwrap()),
            (0, 4, 0)
        );
        assert_eq!(
            price(&world, || matrix.get_block(4..16, 4..14).unwrap()),
            (4, 0, 0)
        );
        assert_eq!(price(&world, || matrix.get(1, 1).unwrap()), (1, 0, 0));
        assert_eq!(price(&world, || matrix.put(1, 1, 1).unwrap()), (0, 1, 0));
        assert_eq!(matrix.get_block(3..3, 0..30).unwrap(), []);
    });
}

#[test]
fn what_one_rank_writes_all_read() {
    everywhere(3, |world| {
        let me = world.rank().number();
        let hosted = Array::new(&world, Rank::new(1), 9, &(0_u32, String::new())).unwrap();
        let text = |i: usize| "text ".repeat(i * 5);
        for i in 0..3 {
            let i = 3 * i + me as usize;
            hosted.put(i, &(me, text(i))).unwrap();
        }
        for distribution in [
            Distribution::Block,
            Distribution::Cyclic,
            Distribution::BlockCyclic(7),
        ] {
            let array = dealt(&world, 50, distribution);
            assert!((0..50).all(|i| array.get(i).unwrap() == 7));
            world.barrier().unwrap();
            for i in array.local_elements() {
                assert_eq!(array.rank_of(i), world.rank());
                array.put(i, &(i as u64)).unwrap();
            }
            world.barrier().unwrap();
            assert_eq!(
                array.get_range(0..50).unwrap(),
                (0..50).collect::<Vec<u64>>()
            );
            world.barrier().unwrap();
            array.ptr(49).fetch_add(&world, 1).unwrap();
            world.barrier().unwrap();
            assert_eq!(array.get(49).unwrap(), 52);
            world.barrier().unwrap();
        }
        for i in 0..9 {
            assert_eq!(
                hosted.get(i).unwrap(),
                (u32::try_from(i % 3).unwrap(), text(i))
            );
        }
        world.barrier().unwrap();
    });
}

#[test]
fn elements_with_long_encodings_are_seen_whole_while_they_are_overwritten_and_leave_no_memory_behind()
 {
    everywhere(3, |world| {
        let array = DArray::new(&world, 4, Distribution::Cyclic, &vec![0_u64]).unwrap();
        let mut random = Random(world.rank().number().into());
        let mut used = 0;
        for round in 0..300 {
            let i = random.index(4);
            if random.below(2) == 0 {
                let n = 1 + random.index(40);
                array.put(i, &vec![random.next(); n]).unwrap();
            } else {
                let value = array.get(i).unwrap();
                assert!(value.iter().all(|word| *word == value[0]), "torn");
            }
            if round == 200 {
                used = world.local_heap_use().used;
            }
        }
        // Blocks of each size may be in flight: at most one for each element and each rank.
        assert!(world.local_heap_use().used <= used + 16 * 512);
        drop(array);
        world.barrier().unwrap();
        world.reclaim().unwrap();
        assert_eq!(world.local_heap_use().used, 0);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn blocks_of_a_matrix_are_those_of_a_plain_one(
        shape in prop::array::uniform2(1_usize..20),
        tile in prop::array::uniform2(1_usize..9),
        at in prop::array::uniform2(0_usize..20),
        size in prop::array::uniform2(0_usize..20),
    ) {
        let world = loopback::world();
        let matrix = DMatrix::new(&world, shape, tile, 9_u32).unwrap();
        let mut model = vec![vec![9; shape[1]]; shape[0]];
        let range = |dim: usize| {
            let start = at[dim].min(shape[dim]);
            start..(start + size[dim]).min(shape[dim])
        };
        let (rows, columns) = (range(0), range(1));
        let n = rows.len() * columns.len();
        let values: Vec<u32> = (100..).take(n).collect();
        matrix.put_block(rows.clone(), columns.clone(), &values).unwrap();
        world.flush_all().unwrap();
        let mut next = values.iter();
        for row in &mut model[rows.clone()] {
            for element in &mut row[columns.clone()] {
                *element = *next.next().unwrap();
            }
        }
        prop_assert_eq!(matrix.get_block(rows, columns).unwrap(), values);
        let all = matrix.get_block(0..shape[0], 0..shape[1]).unwrap();
        prop_assert_eq!(all, model.concat());
    }

    #[test]
    fn ranges_of_a_distributed_array_are_those_of_a_vector(
        len in 1_usize..100,
        block in 1_usize..9,
        start in 0_usize..100,
        n in 0_usize..100,
    ) {
        let check = |world: World| {
            let array = dealt(&world, len, Distribution::BlockCyclic(block));
            let start = start.min(len);
            let end = (start + n).min(len);
            let values: Vec<u64> = (1000..).take(end - start).collect();
            if world.rank() == Rank::ZERO {
                array.put_slice(start, &values).unwrap();
            }
            world.barrier().unwrap();
            let mut model = vec![7; len];
            model[start..end].copy_from_slice(&values);
            let ours = array.get_range(0..len).unwrap();
            world.barrier().unwrap();
            (ours, model)
        };
        for (ours, model) in loopback::run(3, check) {
            prop_assert_eq!(ours, model);
        }
    }
}

#[test]
fn a_put_that_may_not_wait_for_an_element_gives_up_its_value() {
    everywhere(1, |world| {
        let names = Array::new(&world, Rank::ZERO, 10, &String::new()).unwrap();
        let version = names.version(3);
        // As another rank does that writes the element.
        version.fetch_add(&world, 1).unwrap();
        let long = "long ".repeat(40);
        refused_without_a_loss(&world, || names.put(3, &long));
        refused_without_a_loss(&world, || names.get(3));
        version.fetch_add(&world, u64::MAX).unwrap();
        // Nothing has to be waited for.
        as_handler(|| names.put(3, &long)).unwrap();
        assert_eq!(as_handler(|| names.get(3)).unwrap(), long);
        assert_eq!(names.get(3).unwrap(), long);
    });
}

#[test]
fn a_put_whose_wait_ends_by_a_panic_gives_up_its_value() {
    loopback::run(1, |world| {
        pgas_am::attach(&world).unwrap();
        let names = Array::new(&world, Rank::ZERO, 10, &String::new()).unwrap();
        names.version(3).fetch_add(&world, 1).unwrap();
        let long = "long ".repeat(40);
        let mut used = None;
        for _ in 0..4 {
            panic_in_round(&world, 3);
            let put = std::panic::AssertUnwindSafe(|| names.put(3, &long));
            std::panic::catch_unwind(put).unwrap_err();
            let now = world.local_heap_use().used;
            assert_eq!(*used.get_or_insert(now), now);
        }
    });
}
