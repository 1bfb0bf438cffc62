//! Transfers of many pieces, beside one operation of MPI with a type for all of them, and beside an
//! operation for each.

use zerocopy::IntoBytes as _;

use crate::pairs::{Sides, TARGET};
use crate::raw::{Pieces, RawWindow};

/// Pieces of a transfer, and the distance from one to the next.
const N_PIECES: usize = 64;
const DISTANCE: usize = 1024;

pub(crate) fn measure(sides: &Sides) {
    for n_words in [1, 8, 64] {
        strided(sides, n_words);
        indexed(sides, n_words);
    }
}

fn strided(sides: &Sides, n_words: usize) {
    use pgas_core::rma::Strides;
    let world = &sides.world;
    let what = format!("{N_PIECES} blocks of {} B", n_words * 8);
    let strides = Strides {
        extents: [N_PIECES, n_words],
        global: [DISTANCE, 1],
        local: [n_words, 1],
    };
    let mut values = vec![5_u64; N_PIECES * n_words];
    let source = values.clone();
    let mut put = || {
        let put = sides.ours.put_strided(world, &strides, &values);
        put.and_then(|()| world.flush(TARGET)).expect("a put");
    };
    let grid = Pieces::Grid(N_PIECES, n_words * 8, DISTANCE * 8);
    let as_one = |window: &RawWindow| {
        window.put_pieces(&grid, source.as_bytes());
        window.flush();
    };
    let name = format!("strided put of {what}, beside a type");
    sides.compare(&name, 1, as_one, &mut put);
    let one_by_one = |window: &RawWindow| {
        for (i, block) in source.chunks(n_words).enumerate() {
            window.put(i * DISTANCE * 8, block.as_bytes());
        }
        window.flush();
    };
    let name = format!("strided put of {what}, beside puts");
    sides.compare(&name, 1, one_by_one, &mut put);
    let mut into = values.clone();
    let as_one = |window: &RawWindow| {
        window.get_pieces(&grid, into.as_mut_bytes());
        window.flush_local();
    };
    let name = format!("strided get of {what}, beside a type");
    sides.compare(&name, 1, as_one, || {
        let got = sides.ours.get_strided(world, &strides, &mut values);
        got.expect("a get");
    });
}

fn indexed(sides: &Sides, n_words: usize) {
    let world = &sides.world;
    let what = format!("{N_PIECES} blocks of {} B", n_words * 8);
    // At no regular distances.
    let indices: Vec<usize> = (0..N_PIECES).map(|i| i * DISTANCE + i * i % 7).collect();
    let mut values = vec![5_u64; N_PIECES * n_words];
    let source = values.clone();
    let mut put = || {
        let put = world.put_indexed(sides.ours, &indices, n_words, &values);
        put.and_then(|()| world.flush(TARGET)).expect("a put");
    };
    let places = indices.iter().map(|index| index * 8).collect();
    let pieces = Pieces::At(places, n_words * 8);
    let as_one = |window: &RawWindow| {
        window.put_pieces(&pieces, source.as_bytes());
        window.flush();
    };
    let name = format!("indexed put of {what}, beside a type");
    sides.compare(&name, 1, as_one, &mut put);
    let one_by_one = |window: &RawWindow| {
        for (block, index) in source.chunks(n_words).zip(&indices) {
            window.put(index * 8, block.as_bytes());
        }
        window.flush();
    };
    let name = format!("indexed put of {what}, beside puts");
    sides.compare(&name, 1, one_by_one, &mut put);
    let mut into = values.clone();
    let as_one = |window: &RawWindow| {
        window.get_pieces(&pieces, into.as_mut_bytes());
        window.flush_local();
    };
    let name = format!("indexed get of {what}, beside a type");
    sides.compare(&name, 1, as_one, || {
        let got = world.get_indexed(sides.ours, &indices, n_words, &mut values);
        got.expect("a get");
    });
}
