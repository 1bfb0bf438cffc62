//! Arrays and matrices: elements anywhere, as wholes, in local phases, and tiles with rims. Of one
//! type of elements, since every backend compiles them.

use pgas_containers::array::{Distribution, Halo};
use pgas_containers::{Array, DArray, DMatrix};
use pgas_core::collective::op::Sum;
use pgas_core::{Rank, Result, World};
use rayon::prelude::*;

use super::case;
use crate::Case;

pub(super) const CASES: &[Case] = &[
    case!(1, scattered_elements_are_written_swapped_and_read),
    case!(1, elements_go_to_the_rank_that_claims_them_first),
    case!(1, arrays_are_computed_with_as_wholes),
    case!(1, matrices_are_computed_with_as_wholes),
    case!(
        1,
        products_of_matrices_are_those_of_the_elements_in_the_same_places
    ),
    case!(1, arrays_grow_by_what_the_ranks_give),
    case!(1, each_rank_has_its_elements_as_a_slice_in_the_local_phase),
    case!(1, boxes_of_a_matrix_are_written_and_read_across_tiles),
    case!(1, rims_are_fetched_while_the_rank_goes_on),
    case!(1, rims_of_a_torus_are_those_of_the_opposite_edges),
];

const DISTRIBUTIONS: [Distribution; 3] = [
    Distribution::Block,
    Distribution::Cyclic,
    Distribution::BlockCyclic(3),
];

fn scattered_elements_are_written_swapped_and_read(world: &World) -> Result<()> {
    let (n, me) = (world.ranks().len(), world.rank().index());
    for distribution in DISTRIBUTIONS {
        let array = DArray::new(world, 30 * n, distribution, &0_u64)?;
        let hosted = Array::new(world, Rank::from_index(n / 2), 30 * n, &0_u64)?;
        let mine: Vec<(usize, u64)> = (0..30).map(|i| (n * i + me, i as u64 + 1)).collect();
        array.put_many(&mine)?;
        hosted.put_many(&mine)?;
        world.barrier()?;
        let next = (0..30).map(|i| n * i + (me + 1) % n);
        let next: Vec<(usize, u64)> = next.map(|i| (i, 7)).collect();
        let former: Vec<u64> = (1..=30).collect();
        assert_eq!(array.swap_many(&next)?, former);
        assert_eq!(hosted.swap_many(&next)?, former);
        world.barrier()?;
        let all: Vec<usize> = (0..30 * n).rev().collect();
        assert_eq!(array.get_many(&all)?, vec![7; all.len()]);
        assert_eq!(hosted.get_many(&all)?, vec![7; all.len()]);
        world.barrier()?;
        hosted.add_many(&[3, 3], 1)?;
        world.barrier()?;
        assert_eq!(hosted.get(3)?, 7 + 2 * n as u64);
        assert_eq!(hosted.ptr(4).get(world)?, 7);
        assert_eq!(array.ptr(5).rank(), array.rank_of(5));
        array.put(n * 4 + me, &(100 + me as u64))?;
        hosted.put_slice(n * 10 + 2 * me, &[me as u64; 2])?;
        world.barrier()?;
        let put: Vec<u64> = (100..100 + n as u64).collect();
        assert_eq!(array.get_range(4 * n..5 * n)?, put);
        let pairs: Vec<u64> = (0..2 * n as u64).map(|i| i / 2).collect();
        assert_eq!(hosted.get_range(10 * n..12 * n)?, pairs);
        world.barrier()?;
    }
    Ok(())
}

fn elements_go_to_the_rank_that_claims_them_first(world: &World) -> Result<()> {
    let (n, me) = (u64::from(world.n_ranks()), u64::from(world.rank().number()));
    let len = 20 * world.ranks().len();
    for distribution in DISTRIBUTIONS {
        let array = DArray::new(world, len, distribution, &0_u64)?;
        let hosted = Array::new(world, Rank::ZERO, len, &0_u64)?;
        let claims: Vec<(usize, u64, u64)> = (0..len).map(|i| (i, 0, me + 1)).collect();
        let ones: Vec<(usize, u64)> = (0..len).map(|i| (i, 1)).collect();
        let claimed = [
            array.compare_exchange_many(&claims)?,
            hosted.compare_exchange_many(&claims)?,
        ];
        let n_claimed = claimed
            .iter()
            .flatten()
            .filter(|claim| claim.is_ok())
            .count();
        let of_all = world.allreduce(n_claimed, Sum)?;
        assert_eq!(of_all, 2 * len, "each element was claimed once");
        for (array, claimed) in [array.get_range(0..len)?, hosted.get_range(0..len)?]
            .into_iter()
            .zip(claimed)
        {
            for (owner, claim) in array.into_iter().zip(claimed) {
                assert_eq!(claim, if owner == me + 1 { Ok(0) } else { Err(owner) });
            }
        }
        world.barrier()?;
        array.fill(0)?;
        hosted.fill(0)?;
        let sums = [array.fetch_add_many(&ones)?, hosted.fetch_add_many(&ones)?];
        // Others may have added twice.
        assert!(sums.iter().flatten().all(|former| *former < 2 * n));
        array.add_each(&ones)?;
        hosted.add_each(&ones)?;
        world.barrier()?;
        assert_eq!(array.get_many(&[0, len - 1])?, [2 * n; 2]);
        assert_eq!(hosted.get_range(0..len)?, vec![2 * n; len]);
        world.barrier()?;
        let mine: Vec<(usize, u64)> = (0..len).map(|i| (i, 100 + me)).collect();
        array.fetch_max_many(&mine)?;
        hosted.fetch_min_many(&mine)?;
        world.barrier()?;
        assert_eq!(array.get_range(0..len)?, vec![99 + n; len]);
        assert_eq!(hosted.get_range(0..len)?, vec![(2 * n).min(100); len]);
        world.barrier()?;
    }
    Ok(())
}

fn matrices_are_computed_with_as_wholes(world: &World) -> Result<()> {
    let n = world.ranks().len();
    let of = |row: usize, column: usize| (100 * row + column) as u64;
    let matrix = DMatrix::from_fn(world, [3 * n, 10], [2, 4], of)?;
    let all = || (0..3 * n).flat_map(|row| (0..10).map(move |column| of(row, column)));
    assert_eq!(
        matrix.get_block(0..3 * n, 0..10)?,
        all().collect::<Vec<_>>()
    );
    let sum: u64 = all().sum();
    assert_eq!(matrix.sum()?, sum);
    assert_eq!((matrix.min()?, matrix.max()?), (Some(0), all().max()));
    let squares: u64 = all().map(|value| value * value).sum();
    assert_eq!(matrix.dot(&matrix)?, squares);
    let here = matrix.fold_local(0, |so_far, row, column, value| {
        assert_eq!(value, of(row, column));
        so_far + value
    })?;
    assert_eq!(world.allreduce(here, Sum)?, sum);
    matrix.map_local(|_, _, value| 2 * value)?;
    assert_eq!(matrix.reduce(Sum)?, Some(2 * sum));
    matrix.fill(7)?;
    assert_eq!(matrix.get(3 * n - 1, 9)?, 7);
    assert_eq!(matrix.sum()?, 7 * 30 * n as u64);
    assert_eq!(matrix.dot(&matrix)?, 49 * 30 * n as u64);
    let mut local = matrix.into_local()?;
    local.par_tiles_mut().for_each(|mut tile| {
        for row in tile.rows() {
            tile.row_mut(row).fill(row as u64);
        }
    });
    let matrix = local.into_shared()?;
    assert_eq!(matrix.sum()?, 10 * (0..3 * n as u64).sum::<u64>());
    world.barrier()
}

fn products_of_matrices_are_those_of_the_elements_in_the_same_places(world: &World) -> Result<()> {
    let n = world.ranks().len();
    let first = |row: usize, column: usize| (100 * row + column) as u64;
    let second = |row: usize, column: usize| (row * row + 7 * column + 3) as u64;
    // Also of ranks in another order, and with tiles that reach far beyond the edges.
    let reversed = world.reorder(world.n_ranks() - world.rank().number())?;
    for team in [world.team(), reversed] {
        for (shape, tile) in [([3 * n, 10], [2, 4]), ([70, 80], [64, 64])] {
            let x = DMatrix::from_fn(&team, shape, tile, first)?;
            let y = DMatrix::from_fn(&team, shape, tile, second)?;
            let [rows, columns] = shape.map(|length| 0..length);
            let products: u64 = rows
                .flat_map(|i| columns.clone().map(move |j| first(i, j) * second(i, j)))
                .sum();
            assert_eq!((x.dot(&y)?, y.dot(&x)?), (products, products));
        }
    }
    world.barrier()
}

fn arrays_are_computed_with_as_wholes(world: &World) -> Result<()> {
    let len = 40 * world.ranks().len() + 5;
    for distribution in DISTRIBUTIONS {
        let x = DArray::from_fn(world, len, distribution, |i| i as u64)?;
        let y = DArray::new(world, len, distribution, &2_u64)?;
        let sum: u64 = (0..len as u64).sum();
        assert_eq!(x.dot(&y)?, 2 * sum);
        let z = DArray::from_fn(world, len, distribution, |i| (i * i + 3) as u64)?;
        let products: u64 = (0..len as u64).map(|i| i * (i * i + 3)).sum();
        assert_eq!((x.dot(&z)?, z.dot(&x)?), (products, products));
        let here: Vec<usize> = x.local_elements().collect();
        let seen = x.fold_local(Vec::new(), |mut seen, i, value| {
            assert_eq!(value, i as u64);
            seen.push(i);
            seen
        })?;
        assert_eq!(seen, here);
        x.map_local(|i, value| value + 10 * i as u64)?;
        assert_eq!(x.sum()?, 11 * sum);
        assert_eq!((x.min()?, x.max()?), (Some(0), Some(11 * (len as u64 - 1))));
        assert_eq!(x.reduce(|a: u64, b| a | b)?.map(|all| all > 0), Some(true));
        world.barrier()?;
    }
    Ok(())
}

fn arrays_grow_by_what_the_ranks_give(world: &World) -> Result<()> {
    let me = world.rank().index();
    for distribution in DISTRIBUTIONS {
        // Rank i gives i elements, and then one more.
        let given = |rank: usize, n: usize| (0..n).map(move |i| (100 * rank + i) as u64);
        let mut array = DArray::from_iter(world, distribution, given(me, me))?;
        let first: Vec<u64> = world
            .ranks()
            .flat_map(|r| given(r.index(), r.index()))
            .collect();
        assert_eq!(array.len(), first.len());
        assert_eq!(array.get_range(0..first.len())?, first);
        array.extend(given(me, 2))?;
        let more = world.ranks().flat_map(|rank| given(rank.index(), 2));
        let all: Vec<u64> = first.into_iter().chain(more).collect();
        assert_eq!(array.get_range(0..all.len())?, all);
        world.barrier()?;
    }
    Ok(())
}

fn each_rank_has_its_elements_as_a_slice_in_the_local_phase(world: &World) -> Result<()> {
    let len = 25 * world.ranks().len() + 3;
    for distribution in DISTRIBUTIONS {
        let array = DArray::from_fn(world, len, distribution, |i| i as u64)?;
        let mut local = array.into_local()?;
        assert_eq!(local.global_len(), len);
        let places = (0..local.len()).map(|place| local.index_of(place));
        assert!(places.eq(local.indexed().map(|(i, _)| i)));
        assert!(local.indexed().all(|(i, value)| *value == i as u64));
        for (indices, block) in local.blocks_mut() {
            for (i, value) in indices.zip(block) {
                assert_eq!(*value, i as u64);
                *value = (len - i) as u64;
            }
        }
        local.par_indexed_mut().for_each(|(i, value)| {
            assert_eq!(*value, (len - i) as u64);
            *value *= 2;
        });
        let array = local.into_shared()?;
        let all = (0..len).map(|i| 2 * (len - i) as u64).collect::<Vec<_>>();
        assert_eq!(array.get_range(0..len)?, all);
        world.barrier()?;
    }
    let matrix = DMatrix::new(world, [7, 9], [3, 4], 1_u64)?;
    let mut local = matrix.into_local()?;
    assert_eq!(local.shape(), [7, 9]);
    for mut tile in local.tiles_mut() {
        let (rows, columns) = (tile.rows(), tile.columns());
        for row in rows {
            for (column, x) in columns.clone().zip(tile.row_mut(row)) {
                *x = (10 * row + column) as u64;
            }
            assert_eq!(tile.row(row)[0], (10 * row + columns.start) as u64);
        }
    }
    for tile in local.tiles() {
        for (row, first) in tile.rows().map(|row| (row, tile.columns().start)) {
            assert_eq!(tile.row(row)[0], (10 * row + first) as u64);
        }
    }
    let rows = local
        .tiles()
        .map(|tile| tile.rows().len() * tile.columns().len());
    let n_here = rows.sum::<usize>() as u64;
    assert_eq!(world.allreduce(n_here, Sum)?, 7 * 9);
    let matrix = local.into_shared()?;
    for (row, column) in [(0, 0), (6, 8), (3, 4), (2, 3)] {
        assert_eq!(matrix.get(row, column)?, (10 * row + column) as u64);
    }
    world.barrier()
}

fn boxes_of_a_matrix_are_written_and_read_across_tiles(world: &World) -> Result<()> {
    let n = world.ranks().len();
    let matrix = DMatrix::new(world, [3 * n, 10], [2, 4], 0_u64)?;
    assert_eq!((matrix.shape(), matrix.tile_shape()), ([3 * n, 10], [2, 4]));
    let tiles = matrix
        .local_tiles()
        .map(|(rows, columns)| rows.len() * columns.len());
    let n_here = tiles.sum::<usize>() as u64;
    assert_eq!(world.allreduce(n_here, Sum)?, 30 * n as u64);
    // Each rank has three rows, but for their first and last columns.
    let rows = 3 * world.rank().index()..3 * world.rank().index() + 3;
    let of = |row: usize, column: usize| (100 * row + column) as u64;
    let values = |rows: std::ops::Range<usize>| -> Vec<u64> {
        rows.flat_map(|row| (1..9).map(move |column| of(row, column)))
            .collect()
    };
    matrix.put_block(rows.clone(), 1..9, &values(rows))?;
    world.barrier()?;
    assert_eq!(matrix.get_block(0..3 * n, 1..9)?, values(0..3 * n));
    assert_eq!(matrix.get_block(1..2, 0..2)?, [0, of(1, 1)]);
    assert_eq!(matrix.ptr(2, 5).get(world)?, of(2, 5));
    world.barrier()
}

fn rims_are_fetched_while_the_rank_goes_on(world: &World) -> Result<()> {
    pgas_am::attach(world)?;
    let n = world.ranks().len();
    let matrix = DMatrix::new(world, [2 * n, 6], [2, 3], 0_u64)?;
    for (rows, columns) in matrix.local_tiles() {
        for row in rows {
            for column in columns.clone() {
                matrix.put(row, column, (10 * row + column) as u64)?;
            }
        }
    }
    let mut halo = Halo::new(&matrix, 1, 9999)?;
    let exchange = halo.exchange_nb()?;
    let own = |row: &[u64]| row[1..4].iter().sum::<u64>();
    let tiles = exchange
        .tiles()
        .map(|tile| own(tile.row(1)) + own(tile.row(2)));
    let inner: u64 = tiles.sum();
    exchange.wait()?;
    let all = (0..2 * n).flat_map(|row| (0..6).map(move |column| (10 * row + column) as u64));
    assert_eq!(world.allreduce(inner, Sum)?, all.sum());
    for tile in halo.tiles() {
        let (rows, columns) = (tile.rows(), tile.columns());
        for i in 0..rows.len() + 2 {
            for j in 0..columns.len() + 2 {
                // The element in the place of the rim, if the matrix has it.
                let at = (rows.start + i)
                    .checked_sub(1)
                    .zip((columns.start + j).checked_sub(1));
                let inside = at.filter(|(row, column)| *row < 2 * n && *column < 6);
                let expected = inside.map_or(9999, |(row, column)| (10 * row + column) as u64);
                assert_eq!(tile.row(i)[j], expected, "{at:?}");
            }
        }
    }
    world.barrier()
}

fn rims_of_a_torus_are_those_of_the_opposite_edges(world: &World) -> Result<()> {
    let (height, breadth) = (2 * world.ranks().len(), 5);
    let of = |row: usize, column: usize| (100 * row + column) as u64;
    let matrix = DMatrix::from_fn(world, [height, breadth], [2, 3], of)?;
    let mut halo = Halo::periodic(&matrix, 2)?;
    for _ in 0..2 {
        halo.exchange()?;
        for tile in halo.tiles() {
            for i in 0..tile.rows().len() + 4 {
                for j in 0..tile.columns().len() + 4 {
                    let row = (tile.rows().start + 2 * height - 2 + i) % height;
                    let column = (tile.columns().start + 2 * breadth - 2 + j) % breadth;
                    assert_eq!(tile.row(i)[j], of(row, column), "{i}, {j} of {tile:?}");
                }
            }
        }
        halo.update(|_, _| ())?;
    }
    world.barrier()
}
