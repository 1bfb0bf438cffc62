//! Fragments, indexed blocks and strided boxes, compared with plain loops.

use std::fmt::Debug;

use fastrand::Rng;
use pgas_core::rma::{Fragment, Strides};
use pgas_core::{Pod, Result, World};

use super::case;
use crate::Case;
use crate::model::indices;
use crate::support::{neighbour, random_values};
use pgas_testkit::rng_of;

pub(super) const CASES: &[Case] = &[
    case!(1, strided_transfers_move_what_loops_would),
    case!(1, strided_transfers_without_dimensions_or_elements),
    case!(1, strided_gets_may_read_elements_more_than_once),
    case!(1, strided_transfers_of_long_blocks),
    case!(1, fragments_on_all_ranks_move_what_loops_would),
    case!(1, fragments_of_nothing_move_nothing),
    case!(1, indexed_blocks_move_what_loops_would),
    case!(1, long_lists_of_words_may_name_a_word_twice),
    case!(1, a_transposition_by_strides),
];

/// Elements of the arrays of these cases.
const ROOM: usize = 600;

fn strided_transfers_move_what_loops_would(world: &World) -> Result<()> {
    let mut rng = rng_of(world, 20);
    boxes::<u8, 1>(world, &mut rng)?;
    boxes::<u8, 3>(world, &mut rng)?;
    boxes::<u32, 2>(world, &mut rng)?;
    boxes::<u64, 3>(world, &mut rng)?;
    boxes::<[u8; 3], 2>(world, &mut rng)?;
    boxes::<[u32; 3], 2>(world, &mut rng)?;
    boxes::<u16, 4>(world, &mut rng)
}

fn boxes<T: Pod + PartialEq + Debug, const N: usize>(world: &World, rng: &mut Rng) -> Result<()> {
    let array = world.alloc_symmetric::<T>(ROOM)?;
    let there = array.on(neighbour(world, 1));
    let mut model = vec![T::new_zeroed(); ROOM];
    for _ in 0..30 {
        let strides = random_strides::<N>(rng);
        let places = indices(&strides);
        let span = |place: fn(&(usize, usize)) -> usize| places.iter().map(place).max();
        let start = rng.usize(..ROOM - span(|p| p.0).unwrap_or(0));
        let n_local = span(|p| p.1).unwrap_or(0) + 1;

        let values: Vec<T> = random_values(rng, n_local);
        there.add(start).put_strided(world, &strides, &values)?;
        world.flush(there.rank())?;
        for (global, local) in &places {
            model[start + global] = values[*local];
        }
        assert_eq!(there.get_vec(world, ROOM)?, model, "put of {strides:?}");

        let background: Vec<T> = random_values(rng, n_local);
        let (mut out, mut expected) = (background.clone(), background);
        there.add(start).get_strided(world, &strides, &mut out)?;
        for (global, local) in &places {
            expected[*local] = model[start + global];
        }
        assert_eq!(out, expected, "get of {strides:?}");

        // The same in flight: both at once, by an event and in a scope.
        let values: Vec<T> = random_values(rng, n_local);
        for (global, local) in &places {
            model[start + global] = values[*local];
            expected[*local] = values[*local];
        }
        if rng.bool() {
            let put = there.add(start).put_strided_nb(world, &strides, values)?;
            drop(put.wait()?);
            let get = there.add(start).get_strided_nb(world, &strides, out)?;
            out = get.wait()?;
        } else {
            let (first, out) = (there.add(start), &mut out);
            world.scope(|scope| scope.put_strided(first, &strides, &values))??;
            world.scope(|scope| scope.get_strided(first, &strides, out))??;
        }
        assert_eq!(there.get_vec(world, ROOM)?, model, "in flight: {strides:?}");
        assert_eq!(out, expected, "in flight: {strides:?}");
    }
    world.barrier()
}

/// A box that fits into `ROOM` elements, and in which no element of either side occurs twice. Each
/// side has its own order of dimensions.
fn random_strides<const N: usize>(rng: &mut Rng) -> Strides<N> {
    let most = [0, 24, 7, 4, 3][N];
    let extents: [usize; N] = std::array::from_fn(|_| rng.usize(1..=most));
    let mut nested = || {
        let mut order: [usize; N] = std::array::from_fn(|dim| N - 1 - dim);
        if rng.bool() {
            rng.shuffle(&mut order);
        }
        let mut strides = [0; N];
        let mut distance = if rng.bool() { 1 } else { rng.usize(1..=2) };
        for dim in order {
            strides[dim] = distance;
            distance *= extents[dim];
            if rng.bool() {
                distance += rng.usize(..=2);
            }
        }
        strides
    };
    let (global, local) = (nested(), nested());
    Strides {
        extents,
        global,
        local,
    }
}

fn strided_transfers_without_dimensions_or_elements(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u64>(4)?;
    let there = array.on(neighbour(world, 1));
    let point = Strides {
        extents: [],
        global: [],
        local: [],
    };
    there.add(1).put_strided(world, &point, &[9])?;
    let nothing = Strides {
        extents: [4, 0],
        global: [usize::MAX, 1],
        local: [1, 1],
    };
    there.put_strided(world, &nothing, &[])?;
    there.get_strided(world, &nothing, &mut [])?;
    world.flush(there.rank())?;
    let mut out = [0];
    there.add(1).get_strided(world, &point, &mut out)?;
    assert_eq!(out, [9]);
    assert_eq!(there.get_vec(world, 4)?, [0, 9, 0, 0]);
    world.barrier()
}

fn strided_gets_may_read_elements_more_than_once(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u32>(8)?;
    let there = array.on(neighbour(world, 1));
    there.put_slice(world, &[10, 11, 12, 13, 14, 15, 16, 17])?;
    world.flush(there.rank())?;
    // A sliding window of three elements, and one element many times.
    let windows = Strides {
        extents: [4, 3],
        global: [1, 1],
        local: [3, 1],
    };
    let mut out = [0; 12];
    there.get_strided(world, &windows, &mut out)?;
    assert_eq!(out, [10, 11, 12, 11, 12, 13, 12, 13, 14, 13, 14, 15]);
    let same = Strides {
        extents: [5],
        global: [0],
        local: [1],
    };
    let mut out = [0; 5];
    there.add(7).get_strided(world, &same, &mut out)?;
    assert_eq!(out, [17; 5]);
    world.barrier()
}

/// A box whose blocks are longer than the longest transfer of some transports.
fn strided_transfers_of_long_blocks(world: &World) -> Result<()> {
    const LONG: usize = (1 << 20) + 8;
    let array = world.alloc_symmetric::<u8>(3 * LONG)?;
    let there = array.on(neighbour(world, 1));
    let mut rng = rng_of(world, 21);
    let values: Vec<u8> = random_values(&mut rng, 2 * LONG);
    let rows = Strides {
        extents: [2, LONG],
        global: [LONG + 16, 1],
        local: [LONG, 1],
    };
    there.put_strided(world, &rows, &values)?;
    world.flush(there.rank())?;
    let mut out = vec![0; 2 * LONG];
    there.get_strided(world, &rows, &mut out)?;
    assert!(out == values);
    let pieces = [
        Fragment {
            ptr: there.add(LONG + 16),
            len: LONG,
        },
        Fragment {
            ptr: there,
            len: LONG,
        },
    ];
    world.get_fragments(&pieces, &mut out)?;
    assert!(out[..LONG] == values[LONG..] && out[LONG..] == values[..LONG]);
    world.barrier()
}

/// The fragments of one rank are in its own lane of every rank's array.
fn fragments_on_all_ranks_move_what_loops_would(world: &World) -> Result<()> {
    const LANE: usize = 64;
    let n = world.n_ranks() as usize;
    let array = world.alloc_symmetric::<[u8; 3]>(n * LANE)?;
    let mut rng = rng_of(world, 22);
    let mut model = vec![vec![[0_u8; 3]; LANE]; n];
    for round in 0..20 {
        let mut cuts: Vec<(usize, usize, usize)> = Vec::new();
        for rank in 0..n {
            let mut at = 0;
            while at < LANE {
                let len = rng.usize(..=9).min(LANE - at);
                if rng.bool() {
                    cuts.push((rank, at, len));
                }
                at += len + rng.usize(..=3);
            }
        }
        rng.shuffle(&mut cuts);
        let fragments: Vec<_> = cuts
            .iter()
            .map(|(rank, at, len)| Fragment {
                ptr: lane(&array, world, *rank, LANE).add(*at),
                len: *len,
            })
            .collect();
        let total = cuts.iter().map(|cut| cut.2).sum();
        let mut values: Vec<[u8; 3]> = random_values(&mut rng, total);
        match round % 5 {
            0 => world.put_fragments(&fragments, &values)?,
            1 => world.put_each(&slices(&fragments, &values))?,
            2 => values = world.put_fragments_nb(&fragments, values)?.wait()?,
            3 => {
                let pieces = slices(&fragments, &values).into_iter();
                let owned = pieces.map(|(ptr, piece)| (ptr, piece.to_vec()));
                values = world.put_each_nb(owned.collect())?.wait()?.concat();
            }
            _ => world.scope(|scope| scope.put_fragments(&fragments, &values))??,
        }
        world.flush_all()?;
        let mut rest = &values[..];
        for (rank, at, len) in &cuts {
            let (these, others) = rest.split_at(*len);
            model[*rank][*at..at + len].copy_from_slice(these);
            rest = others;
        }
        for (rank, expected) in model.iter().enumerate() {
            let seen = lane(&array, world, rank, LANE).get_vec(world, LANE)?;
            assert_eq!(seen, *expected, "rank {rank}");
        }
        let out = read_by(world, round % 6, &fragments, total)?;
        assert_eq!(out, values);
    }
    world.barrier()
}

/// The elements of the fragments, by one of six ways.
fn read_by(
    world: &World,
    way: usize,
    fragments: &[Fragment<[u8; 3]>],
    total: usize,
) -> Result<Vec<[u8; 3]>> {
    let mut out = vec![[0; 3]; total];
    match way {
        0 | 1 => world.get_fragments(fragments, &mut out)?,
        2 => {
            let mut rest = &mut out[..];
            let pieces = fragments.iter().map(|piece| {
                let (these, others) = std::mem::take(&mut rest).split_at_mut(piece.len);
                rest = others;
                (piece.ptr, these)
            });
            world.get_each(&mut pieces.collect::<Vec<_>>())?;
        }
        3 => out = world.get_fragments_nb(fragments)?.wait()?,
        4 => {
            let pieces = world.get_each_nb(fragments)?.wait()?;
            assert!(
                pieces
                    .iter()
                    .map(Vec::len)
                    .eq(fragments.iter().map(|piece| piece.len))
            );
            out = pieces.concat();
        }
        _ => {
            let out = &mut out[..];
            world.scope(|scope| scope.get_fragments(fragments, out))??;
        }
    }
    Ok(out)
}

/// The fragments with what goes to each.
fn slices<'a, T>(
    fragments: &[Fragment<T>],
    mut values: &'a [T],
) -> Vec<(pgas_core::GlobalPtr<T>, &'a [T])> {
    let pieces = fragments.iter().map(|piece| {
        let (these, others) = values.split_at(piece.len);
        values = others;
        (piece.ptr, these)
    });
    pieces.collect()
}

/// The lane of this rank in the array of another.
fn lane<T: Pod>(
    array: &pgas_core::Symmetric<T>,
    world: &World,
    rank: usize,
    len: usize,
) -> pgas_core::GlobalPtr<T> {
    let rank = world.ranks().nth(rank).expect("a rank of the job");
    array.on(rank).add(world.rank().index() * len)
}

fn fragments_of_nothing_move_nothing(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u64>(2)?;
    let there = array.on(neighbour(world, 1));
    world.put_fragments::<u64>(&[], &[])?;
    world.get_fragments::<u64>(&[], &mut [])?;
    let empty = Fragment { ptr: there, len: 0 };
    world.put_fragments(&[empty, empty], &[])?;
    let one = Fragment { ptr: there, len: 1 };
    world.put_fragments(&[empty, one, empty], &[4])?;
    world.flush_all()?;
    let mut out = [0; 2];
    world.get_fragments(&[one, empty, one], &mut out)?;
    assert_eq!(out, [4, 4]);
    world.put_indexed(there, &[], 3, &[])?;
    world.put_indexed(there, &[0, 1], 0, &[])?;
    world.barrier()
}

fn indexed_blocks_move_what_loops_would(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u32>(ROOM)?;
    let there = array.on(neighbour(world, 1));
    let mut rng = rng_of(world, 23);
    let mut model = vec![0; ROOM];
    for _ in 0..40 {
        let block = rng.usize(1..=8);
        let mut slots: Vec<usize> = (0..ROOM / block).map(|slot| slot * block).collect();
        rng.shuffle(&mut slots);
        slots.truncate(rng.usize(..=20));
        let values: Vec<u32> = random_values(&mut rng, slots.len() * block);
        world.put_indexed(there, &slots, block, &values)?;
        world.flush(there.rank())?;
        for (slot, value) in slots.iter().zip(values.chunks(block)) {
            model[*slot..slot + block].copy_from_slice(value);
        }
        assert_eq!(there.get_vec(world, ROOM)?, model);
        let mut out = vec![0; values.len()];
        world.get_indexed(there, &slots, block, &mut out)?;
        assert_eq!(out, values);
        let begun = world.get_indexed_nb(there, &slots, block)?;
        assert_eq!(begun.wait()?, values);
        let turned: Vec<u32> = values.iter().rev().copied().collect();
        world.scope(|scope| scope.put_indexed(there, &slots, block, &turned))??;
        world.scope(|scope| scope.get_indexed(there, &slots, block, &mut out))??;
        assert_eq!(out, turned);
        for (slot, value) in slots.iter().zip(turned.chunks(block)) {
            model[*slot..slot + block].copy_from_slice(value);
        }
    }
    world.barrier()
}

fn long_lists_of_words_may_name_a_word_twice(world: &World) -> Result<()> {
    const N: usize = 600;
    let array = world.alloc_symmetric::<u64>(3 * N)?;
    let there = array.on(neighbour(world, 1));
    let places: Vec<usize> = (0..N).rev().map(|i| 3 * i).collect();
    let values: Vec<u64> = (1..=N as u64).collect();
    world.put_indexed(there, &places, 1, &values)?;
    world.flush(there.rank())?;
    let twice = [&places[..], &places[..]].concat();
    let mut out = vec![0; 2 * N];
    world.get_indexed(there, &twice, 1, &mut out)?;
    assert_eq!(out, [&values[..], &values[..]].concat());
    let all = there.get_vec(world, 3 * N)?;
    for (i, triple) in all.chunks(3).enumerate() {
        assert_eq!(*triple, [(N - i) as u64, 0, 0]);
    }
    world.barrier()
}

fn a_transposition_by_strides(world: &World) -> Result<()> {
    let (rows, columns) = (5, 7);
    let array = world.alloc_symmetric::<u64>(rows * columns)?;
    let there = array.on(neighbour(world, 1));
    let matrix: Vec<u64> = (0..35).collect();
    let transposed = Strides {
        extents: [rows, columns],
        global: [1, rows],
        local: [columns, 1],
    };
    there.put_strided(world, &transposed, &matrix)?;
    world.barrier()?;
    let seen = array.here().get_vec(world, 35)?;
    for row in 0..rows {
        for column in 0..columns {
            assert_eq!(seen[column * rows + row], matrix[row * columns + column]);
        }
    }
    world.barrier()
}
