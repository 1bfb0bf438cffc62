//! Tests of the arrays over every transport that needs nothing installed.

mod halo;
mod parts;

use pgas_core::backend::loopback;
use pgas_core::{Pod, Rank, World};
use proptest::prelude::*;

use super::*;
use crate::testing::{
    Random, asked, everywhere, everywhere_counted, price, refused_without_a_loss, served_counted,
    told_apart,
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

#[test]
fn an_element_that_is_not_there_is_refused() {
    let refused = |f: &dyn Fn(&World)| {
        let world = loopback::world();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f(&world)));
        pgas_testkit::panic_text(&*result.unwrap_err()).to_owned()
    };
    let text = refused(&|world| drop(hosted(world, 10).get(10)));
    assert!(text.contains("element 10 of an array of 10"), "{text}");
    let text = refused(&|world| drop(hosted(world, 10).get_range(5..11)));
    assert!(text.contains("5..11 of an array of 10"), "{text}");
    let text = refused(&|world| drop(dealt(world, 0, Distribution::Block).put(0, &1)));
    assert!(text.contains("element 0 of an array of 0"), "{text}");
    let text = refused(&|world| drop(dealt(world, 10, Distribution::Cyclic).put_slice(9, &[1; 2])));
    assert!(text.contains("9..11 of an array of 10"), "{text}");
    let end = usize::MAX as u128 + 2;
    let beyond = format!("{}..{end} of an array of 10", usize::MAX);
    let block = |world: &World| dealt(world, 10, Distribution::Block);
    let text = refused(&|world| drop(block(world).put_slice(usize::MAX, &[1; 2])));
    assert!(text.contains(&beyond), "{text}");
    let text = refused(&|world| drop(hosted(world, 10).put_slice(usize::MAX, &[1; 2])));
    assert!(text.contains(&beyond), "{text}");
    let matrix = |world: &World| DMatrix::new(world, [3, 4], [2, 2], 0_u8).unwrap();
    let text = refused(&|world| drop(matrix(world).get(3, 0)));
    assert!(text.contains("(3, 0) of a matrix of [3, 4]"), "{text}");
    let text = refused(&|world| drop(matrix(world).get_block(0..3, 2..5)));
    assert!(text.contains("2..5 of a matrix"), "{text}");
    let text = refused(&|world| drop(matrix(world).get_block(0..usize::MAX, 0..2)));
    assert!(text.contains("of a matrix of [3, 4]"), "{text}");
    let text = refused(&|world| drop(matrix(world).put_block(0..usize::MAX, 0..2, &[])));
    assert!(text.contains("of a matrix of [3, 4]"), "{text}");
    let no_columns = DMatrix::new(&loopback::world(), [usize::MAX, 0], [1, 1], 0_u8).unwrap();
    let block = no_columns.get_block(0..usize::MAX, 0..0);
    assert_eq!(block.unwrap(), [], "at once");
}

#[test]
fn a_matrix_of_any_shape_is_refused_when_it_is_made_or_serves() {
    const EXTENTS: [usize; 7] = [0, 1, 3, 1 << 16, 1 << 32, usize::MAX / 2, usize::MAX];
    let pairs = || EXTENTS.into_iter().flat_map(|a| EXTENTS.map(|b| [a, b]));
    fn try_one<T: Pod + Default>(world: &World, shape: [usize; 2], tile: [usize; 2]) -> bool {
        let matrix = match DMatrix::new(world, shape, tile, T::default()) {
            Ok(matrix) => matrix,
            Err(crate::Error::Argument(_)) => return false,
            Err(error) => {
                let is_exhausted = matches!(error, crate::Error::Exhausted { .. });
                assert!(is_exhausted, "{shape:?} in tiles of {tile:?}: {error}");
                return false;
            }
        };
        assert!(
            matrix
                .local_tiles()
                .next()
                .is_none_or(|(rows, _)| rows.end <= shape[0])
        );
        if let [Some(row), Some(column)] = shape.map(|n| n.checked_sub(1)) {
            let _: T = matrix.get(row, column).unwrap();
        }
        let n_tiles = shape[0].div_ceil(tile[0]) * shape[1].div_ceil(tile[1]);
        if n_tiles <= 16 {
            assert_eq!(matrix.into_local().unwrap().tiles().count(), n_tiles);
        }
        true
    }
    let world = loopback::world();
    let (mut served, mut refused) = (0, 0);
    for (shape, tile) in pairs().flat_map(|shape| pairs().map(move |tile| (shape, tile))) {
        for is_served in [
            try_one::<()>(&world, shape, tile),
            try_one::<u8>(&world, shape, tile),
        ] {
            *if is_served { &mut served } else { &mut refused } += 1;
        }
    }
    assert!(served > 100 && refused > 100, "{served} and {refused}");
}

#[test]
fn bad_arguments_are_errors_on_every_rank_that_name_the_values() {
    everywhere(2, |world| {
        let text = |error: crate::Error| error.to_string();
        let mine = 10 + world.rank().index();
        let error = Array::new(&world, Rank::ZERO, mine, &0_u8).unwrap_err();
        assert!(text(error).contains("rank 0 has 10, rank 1 has 11"));
        let error = Array::new(&world, Rank::new(9), 1, &0_u8).unwrap_err();
        assert!(text(error).contains("rank 9 of a job with 2 ranks"));
        let error = DArray::new(&world, 9, Distribution::BlockCyclic(0), &0_u8).unwrap_err();
        assert!(text(error).contains("blocks of 0 elements"));
        let error = DMatrix::new(&world, [9, 9], [3, 0], 0_u8).unwrap_err();
        assert!(text(error).contains("[3, 0]"));
        let error = DArray::new(&world, 1 << 40, Distribution::Block, &0_u64).unwrap_err();
        assert!(text(error).contains("PGAS_SEGMENT"));
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

const EVERY: [Distribution; 5] = [
    Distribution::Block,
    Distribution::Cyclic,
    Distribution::BlockCyclic(3),
    Distribution::BlockCyclic(5000),
    Distribution::BlockCyclic(usize::MAX),
];

#[test]
fn operations_on_all_elements_are_those_of_a_vector() {
    everywhere(3, |world| {
        // No elements, fewer than ranks, some, and more than private memory holds at a time.
        let lens: &[usize] = if cfg!(miri) {
            &[0, 2, 20]
        } else {
            &[0, 1, 2, 20, 10_007]
        };
        for (&len, distribution) in lens.iter().flat_map(|len| EVERY.map(|way| (len, way))) {
            let value = |i: usize| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7;
            let mut model: Vec<u64> = (0..len).map(value).collect();
            let array = DArray::from_fn(&world, len, distribution, value).unwrap();
            let all = || array.get_range(0..len).unwrap();
            assert_eq!(all(), model);
            assert_eq!(array.max().unwrap(), model.iter().max().copied());
            assert_eq!(array.min().unwrap(), model.iter().min().copied());
            let sum = |model: &[u64]| model.iter().fold(0_u64, |a, b| a.wrapping_add(*b));
            assert_eq!(array.sum().unwrap(), sum(&model));
            let squares: Vec<u64> = model.iter().map(|x| x.wrapping_mul(*x)).collect();
            assert_eq!(array.dot(&array).unwrap(), sum(&squares));
            if distribution == Distribution::Block {
                let last = |_: u64, after: u64| after;
                assert_eq!(array.reduce(last).unwrap(), model.last().copied());
            }
            let n = array.fold_local(0, |n, i, x| {
                assert_eq!(x, model[i]);
                n + 1
            });
            assert_eq!(n.unwrap(), array.local_elements().len());
            world.barrier().unwrap();
            array.map_local(|i, x| x ^ i as u64).unwrap();
            world.barrier().unwrap();
            model
                .iter_mut()
                .enumerate()
                .for_each(|(i, x)| *x ^= i as u64);
            assert_eq!(all(), model);
            array.fill(3).unwrap();
            assert_eq!(all(), vec![3; len]);
            world.barrier().unwrap();
        }
        let [a, b] = [1, 2].map(|block| dealt(&world, 10, Distribution::BlockCyclic(block)));
        let differ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| a.dot(&b)));
        assert!(differ.is_err(), "they are dealt out in different ways");
        world.barrier().unwrap();
        let reversed = world.team().reorder(9 - world.rank().number()).unwrap();
        let by = Distribution::BlockCyclic(1);
        let [c, d] = [(); 2].map(|()| DArray::new(&reversed, 10, by, &7).unwrap());
        assert_eq!(c.dot(&d).unwrap(), 490);
        let differ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| a.dot(&c)));
        assert_eq!(differ.is_err(), world.n_ranks() > 1);
        world.barrier().unwrap();
    });
}

#[test]
fn in_the_local_phase_elements_are_slices_and_come_back() {
    everywhere(3, |world| {
        for (len, distribution) in [0, 1, 2, 23, 90]
            .iter()
            .flat_map(|len| EVERY.map(|way| (*len, way)))
        {
            // Three bytes, of which a word is no multiple.
            let value = |i: usize| [i, i / 7, 5].map(|x| u8::try_from(x).unwrap());
            let array = DArray::from_fn(&world, len, distribution, value).unwrap();
            let own: Vec<usize> = array.local_elements().collect();
            let mut local = array.into_local().unwrap();
            assert_eq!((local.len(), local.global_len()), (own.len(), len));
            assert!(local.indexed().all(|(i, x)| *x == value(i)));
            assert!(local.indexed().map(|(i, _)| i).eq(own.iter().copied()));
            assert!((0..own.len()).all(|place| local.index_of(place) == own[place]));
            for (i, x) in local.indexed_mut() {
                x[2] = u8::try_from(i).unwrap();
            }
            let mut seen = Vec::new();
            for (indices, block) in local.blocks_mut() {
                assert_eq!(indices.len(), block.len());
                for (i, x) in indices.zip(block) {
                    assert_eq!(usize::from(x[2]), i);
                    x[0] = u8::try_from(world.rank().number()).unwrap();
                    seen.push(i);
                }
            }
            assert_eq!(seen, own);
            let array = local.into_shared().unwrap();
            for (i, x) in array.get_range(0..len).unwrap().into_iter().enumerate() {
                let by = u8::try_from(array.rank_of(i).number()).unwrap();
                assert_eq!(x, [by, value(i)[1], u8::try_from(i).unwrap()]);
            }
            world.barrier().unwrap();
        }
    });
}

#[test]
fn in_the_local_phase_rows_of_tiles_are_slices_and_come_back() {
    everywhere(3, |world| {
        for shape in [[20, 30], [1, 1], [0, 5], [8, 8], [7, 33]] {
            let matrix = DMatrix::new(&world, shape, [8, 8], 0_u32).unwrap();
            let mut local = matrix.into_local().unwrap();
            assert_eq!(local.shape(), shape);
            for mut tile in local.tiles_mut() {
                for row in tile.rows() {
                    let columns = tile.columns();
                    for (column, x) in columns.zip(tile.row_mut(row)) {
                        assert_eq!(
                            std::mem::replace(x, u32::try_from(row * 100 + column).unwrap()),
                            0
                        );
                    }
                }
            }
            let n: usize = local
                .tiles()
                .map(|tile| tile.rows().map(|row| tile.row(row).len()).sum::<usize>())
                .sum();
            assert_eq!(
                world
                    .team()
                    .allreduce(n as u64, pgas_core::collective::op::Sum)
                    .unwrap(),
                (shape[0] * shape[1]) as u64
            );
            let matrix = local.into_shared().unwrap();
            let all = matrix.get_block(0..shape[0], 0..shape[1]).unwrap();
            let model =
                (0..shape[0]).flat_map(|row| (0..shape[1]).map(move |column| row * 100 + column));
            assert!(all.iter().map(|x| *x as usize).eq(model));
            world.barrier().unwrap();
        }
    });
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
fn operations_on_all_elements_cost_nothing_between_ranks_but_their_collectives() {
    everywhere_counted(3, |world| {
        let array = dealt(&world, 90, Distribution::Block);
        // One transfer of its own memory, whatever the number of elements.
        assert_eq!(
            price(&world, || array.map_local(|_, x| x + 1).unwrap()),
            (1, 1, 0)
        );
        assert_eq!(
            price(&world, || array.fold_local(0, |a, _, x| a + x).unwrap()),
            (1, 0, 0)
        );
        assert_eq!(
            price(&world, || array.swap_many(&[(1, 2), (80, 3)]).unwrap()),
            (0, 0, 2)
        );
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

/// Tiles at the edges are smaller than their memory.
#[test]
fn a_matrix_is_computed_with_as_a_whole() {
    everywhere(3, |world| {
        for (shape, tile) in [
            ([20, 30], [8, 8]),
            ([7, 9], [2, 3]),
            ([1, 1], [4, 4]),
            ([0, 4], [2, 2]),
            ([70, 80], [64, 64]),
            ([90, 3], [1, 1]),
        ] {
            let [height, width] = shape;
            let of = |row: usize, column: usize| (1000 * row + column) as u64;
            let matrix = DMatrix::from_fn(&world, shape, tile, of).unwrap();
            let all = || (0..height).flat_map(|row| (0..width).map(move |column| of(row, column)));
            assert!(
                matrix
                    .get_block(0..height, 0..width)
                    .unwrap()
                    .into_iter()
                    .eq(all())
            );
            assert_eq!(matrix.sum().unwrap(), all().sum::<u64>());
            assert_eq!(matrix.min().unwrap(), all().min());
            assert_eq!(matrix.max().unwrap(), all().max());
            let or = |a: u64, b| a | b;
            assert_eq!(matrix.reduce(or).unwrap(), all().reduce(or));
            let mut seen = Vec::new();
            matrix
                .fold_local((), |(), row, column, value| {
                    assert_eq!(value, of(row, column));
                    seen.push((row, column));
                })
                .unwrap();
            let of_tiles = matrix.local_tiles().flat_map(|(rows, columns)| {
                rows.flat_map(move |row| columns.clone().map(move |column| (row, column)))
            });
            assert!(of_tiles.eq(seen));
            world.barrier().unwrap();
            let plus = |row: usize, column: usize, x: u64| x + (row + column) as u64;
            matrix.map_local(plus).unwrap();
            let sum = all().sum::<u64>()
                + (0..height * width)
                    .map(|i| (i / width + i % width) as u64)
                    .sum::<u64>();
            assert_eq!(matrix.sum().unwrap(), sum);
            matrix.fill(3).unwrap();
            assert_eq!(matrix.sum().unwrap(), 3 * (height * width) as u64);
        }
        let hosted = hosted(&world, 5000);
        hosted.fill(8).unwrap();
        assert_eq!(hosted.get_range(0..5000).unwrap(), [8; 5000]);
        world.barrier().unwrap();
    });
}

#[cfg(feature = "rayon")]
#[test]
fn threads_share_the_elements_of_the_local_phase() {
    use rayon::prelude::*;

    everywhere(2, |world| {
        let array = dealt(&world, 5000, Distribution::BlockCyclic(7));
        let mut local = array.into_local().unwrap();
        assert_eq!(local.team().n_ranks(), 2);
        local.par_indexed_mut().for_each(|(i, x)| *x = i as u64);
        let array = local.into_shared().unwrap();
        assert!(array.get_range(0..5000).unwrap().into_iter().eq(0..5000));
        let matrix = DMatrix::new(&world, [33, 20], [8, 8], 0_u64).unwrap();
        let mut local = matrix.into_local().unwrap();
        assert_eq!(local.team().n_ranks(), 2);
        local.par_tiles_mut().for_each(|mut tile| {
            for row in tile.rows() {
                tile.row_mut(row).fill(row as u64);
            }
        });
        let matrix = local.into_shared().unwrap();
        assert_eq!(matrix.sum().unwrap(), 20 * (0..33).sum::<u64>());
    });
}

#[test]
fn methods_of_different_arrays_are_told_apart() {
    told_apart("the object of a fill of an array", |world| {
        let arrays = [(); 2].map(|()| dealt(&world, 50, Distribution::Block));
        arrays[world.rank().index()].fill(3)
    });
    let what = "the object of the beginning of the local phase of a matrix";
    told_apart(what, |world| {
        let matrix = || DMatrix::new(&world, [4, 4], [2, 2], 0_u64).unwrap();
        let mut matrices = Vec::from([matrix(), matrix()]);
        let one = matrices.swap_remove(world.rank().index());
        one.into_local().map(drop)
    });
}

#[test]
fn ranks_that_fill_arrays_with_different_values_are_told() {
    let what = "the value that fills an array";
    let own = |world: &World| u64::from(world.rank().number());
    told_apart(what, |world| {
        DArray::new(&world, 50, Distribution::Block, &own(&world).to_string()).map(drop)
    });
    told_apart(what, |world| {
        Array::new(&world, Rank::ZERO, 50, &own(&world)).map(drop)
    });
    told_apart(what, |world| {
        DMatrix::new(&world, [4, 4], [2, 2], own(&world)).map(drop)
    });
    told_apart(what, |world| {
        dealt(&world, 50, Distribution::Block).fill(own(&world))
    });
    told_apart(what, |world| hosted(&world, 50).fill(own(&world)));
    told_apart(what, |world| {
        let matrix = DMatrix::new(&world, [4, 4], [2, 2], 0).unwrap();
        matrix.fill(own(&world))
    });
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
        version.fetch_add(&world, u64::MAX).unwrap();
        names.put(3, &long).unwrap();
        assert_eq!(names.get(3).unwrap(), long);
    });
}
