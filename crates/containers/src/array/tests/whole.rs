//! Operations on all elements, and the local phase.

use super::*;

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
            let any = array.reduce(pgas_core::collective::op::Or).unwrap();
            assert_eq!(any, (len > 0).then_some(1));
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
            let n = (height * width) as u64;
            assert_eq!(matrix.sum().unwrap(), 3 * n);
            let ones = DMatrix::from_fn(&world, shape, tile, |_, _| 1).unwrap();
            assert_eq!(matrix.dot(&ones).unwrap(), 3 * n);
            assert_eq!(matrix.dot(&matrix).unwrap(), 9 * n);
        }
        let [a, b] = [2, 3].map(|side| DMatrix::new(&world, [6, 6], [side, 2], 1_u64).unwrap());
        let differ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| a.dot(&b)));
        assert!(differ.is_err(), "their tiles differ");
        let hosted = hosted(&world, 5000);
        hosted.fill(8).unwrap();
        assert_eq!(hosted.get_range(0..5000).unwrap(), [8; 5000]);
        world.barrier().unwrap();
    });
}

/// Contents of which each product is another one.
fn first(row: usize, column: usize) -> u64 {
    (1000 * row + column) as u64
}

fn second(row: usize, column: usize) -> u64 {
    (row * row + 7 * column + 3) as u64
}

/// Teams of all ranks, in order and reversed.
fn both_orders(world: &World) -> [Team; 2] {
    let reversed = world.reorder(9 - world.rank().number()).unwrap();
    [world.team(), reversed]
}

/// Teams of some ranks: no rank's first one has the members of its second one, if there are others.
fn some_ranks(world: &World) -> [Team; 2] {
    [1, 2].map(|alone| {
        let colour = u32::from(world.rank().number() == alone);
        world.split(Some(colour), 0).unwrap().unwrap()
    })
}

fn is_refused<T>(f: impl FnOnce() -> Result<T>) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err()
}

#[test]
fn a_product_of_arrays_is_that_of_the_elements_with_the_same_index() {
    everywhere(3, |world| {
        // The last has several chunks on each rank.
        let lens: &[usize] = if cfg!(miri) {
            &[0, 20]
        } else {
            &[0, 1, 20, 30_011]
        };
        let pairs = |len| (0..len).map(|i| first(i, 0).wrapping_mul(second(i, 1)));
        for team in both_orders(&world) {
            for (&len, by) in lens.iter().flat_map(|len| EVERY.map(|way| (len, way))) {
                let x = DArray::from_fn(&team, len, by, |i| first(i, 0)).unwrap();
                let y = DArray::from_fn(&team, len, by, |i| second(i, 1)).unwrap();
                let sum = pairs(len).fold(0_u64, u64::wrapping_add);
                assert_eq!(x.dot(&y).unwrap(), sum, "{len} elements, {by:?}");
                assert_eq!(y.dot(&x).unwrap(), sum, "{len} elements, {by:?}");
            }
        }
        let n = world.n_ranks();
        for teams in [both_orders(&world), some_ranks(&world)] {
            let [x, y] = teams.map(|team| DArray::new(&team, 20, EVERY[1], &1_u64).unwrap());
            assert_eq!(is_refused(|| x.dot(&y)), n > 1, "the members differ");
        }
        let [x, y] = [20, 21].map(|len| dealt(&world, len, Distribution::Cyclic));
        assert!(is_refused(|| x.dot(&y)), "the lengths differ");
        world.barrier().unwrap();
    });
}

#[test]
fn a_product_with_an_array_of_another_world_is_refused() {
    let [world, other] = [loopback::world(), loopback::world()];
    let [x, y] = [&world, &other].map(|world| DArray::new(world, 9, EVERY[0], &1_u64).unwrap());
    assert!(is_refused(|| x.dot(&y)));
    let [x, y] = [&world, &other].map(|world| DMatrix::new(world, [3, 3], [2, 2], 1_u64).unwrap());
    assert!(is_refused(|| x.dot(&y)));
}

#[test]
fn a_product_of_matrices_is_that_of_the_elements_in_the_same_row_and_column() {
    everywhere(3, |world| {
        // A rank has several chunks of the last, and places without an element in each.
        let shapes: &[_] = if cfg!(miri) {
            &[([7, 9], [2, 3])]
        } else {
            &[
                ([7, 9], [2, 3]),
                ([0, 4], [2, 2]),
                ([5, 5], [9, 9]),
                ([70, 80], [64, 64]),
            ]
        };
        for team in both_orders(&world) {
            for &([height, width], tile) in shapes {
                let x = DMatrix::from_fn(&team, [height, width], tile, first).unwrap();
                let y = DMatrix::from_fn(&team, [height, width], tile, second).unwrap();
                let at = (0..height).flat_map(|row| (0..width).map(move |column| (row, column)));
                let sum: u64 = at.map(|(i, j)| first(i, j) * second(i, j)).sum();
                assert_eq!(x.dot(&y).unwrap(), sum, "{height} by {width} in {tile:?}");
                assert_eq!(y.dot(&x).unwrap(), sum, "{height} by {width} in {tile:?}");
            }
        }
        let n = world.n_ranks();
        for teams in [both_orders(&world), some_ranks(&world)] {
            let [x, y] = teams.map(|team| DMatrix::new(&team, [6, 6], [3, 2], 1_u64).unwrap());
            assert_eq!(is_refused(|| x.dot(&y)), n > 1, "the members differ");
        }
        let shapes = [[4, 9], [9, 4], [4, 8]];
        let [x, others @ ..] = shapes.map(|it| DMatrix::new(&world, it, [3, 3], 1_u64).unwrap());
        for y in others {
            assert!(is_refused(|| x.dot(&y)), "the shapes differ");
        }
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
