//! Arrays, matrices and filters.

use pgas_containers::array::Distribution;
use pgas_containers::{Array, BloomFilter, DArray, DMatrix, WideBloomFilter};

use super::*;

const LEN: usize = 5;

#[test]
fn arrays_are_their_models_after_each_refusal() {
    let op = (0..LEN, text());
    with_many(op, |world, ops| {
        let initial = Picky::long("initial");
        let hosted = Array::new(world, Rank::new(1), LEN, &initial).unwrap();
        let spread = DArray::new(world, LEN, Distribution::Cyclic, &initial).unwrap();
        let mut model = vec![initial; LEN];
        for (i, text) in ops.iter().filter(|_| is_first(world)) {
            let put = [hosted.put(*i, text), spread.put(*i, text)];
            assert_eq!(put[0].is_ok(), put[1].is_ok());
            for put in put {
                match put {
                    Ok(()) => model[*i] = text.clone(),
                    Err(error) => assert_reason(&error, text, None, false),
                }
            }
            for (i, text) in model.iter().enumerate() {
                assert_got(hosted.get(i).map(Some), Some(text));
                assert_got(spread.get(i).map(Some), Some(text));
            }
        }
    });
}

/// Of a matrix only its constructor can be refused.
#[test]
fn a_matrix_that_is_refused_leaves_the_others_as_they_are() {
    let size = || prop::sample::select(vec![0_usize, 1, 3, 1 << 40]);
    let op = ([size(), size()], [size(), size()]);
    with_many(op, |world, ops| {
        let matrix = DMatrix::new(world, [4, 3], [2, 2], 7_u64).unwrap();
        let before = crate::unchanged::common::used(world);
        for (shape, tile) in ops {
            if shape.iter().chain(tile).all(|n| *n > 0 && *n < 10) {
                continue;
            }
            // Shapes without elements are matrices too.
            drop(DMatrix::new(world, *shape, *tile, 1_u64));
            assert_eq!(crate::unchanged::common::used(world), before);
            assert_eq!(matrix.get_block(0..4, 0..3).unwrap(), [7; 12]);
        }
    });
}

#[test]
fn a_filter_holds_what_it_held_after_each_refusal() {
    with_many(text(), |world, ops| {
        let small = BloomFilter::<Picky>::with_rate(world, 10, 0.01).unwrap();
        let wide = WideBloomFilter::<Picky>::with_rate(world, 10, 0.01).unwrap();
        let held = || -> Vec<[bool; 2]> {
            let texts = ops.iter().filter(|text| is_written(text));
            let held = texts.map(|text| [small.contains(text), wide.contains(text)]);
            held.map(|held| held.map(Result::unwrap)).collect()
        };
        for text in ops.iter().filter(|_| is_first(world)) {
            let before = held();
            let inserted = [small.insert(text), wide.insert(text)];
            if is_written(text) {
                assert!(inserted.iter().all(Result::is_ok), "{inserted:?}");
                assert!(small.contains(text).unwrap() && wide.contains(text).unwrap());
            } else {
                assert!(inserted.iter().all(Result::is_err), "{inserted:?}");
                assert_eq!(held(), before);
            }
        }
    });
}
