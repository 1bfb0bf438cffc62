//! Strided and fragmented transfers against plain loops, for random boxes.

use proptest::prelude::*;

use super::{Fragment, Strides};
use crate::backend::loopback;
use crate::{GlobalPtr, World};

/// The indices in global and in local memory of each element, the last dimension running fastest.
fn indices<const N: usize>(strides: &Strides<N>) -> Vec<(usize, usize)> {
    let mut all = vec![(0_usize, 0_usize)];
    for dim in 0..N {
        let extend = |(global, local): &(usize, usize)| {
            let (global, local) = (*global, *local);
            let places = move |i: usize| {
                (
                    global + i * strides.global[dim],
                    local + i * strides.local[dim],
                )
            };
            (0..strides.extents[dim]).map(places)
        };
        all = all.iter().flat_map(extend).collect();
    }
    all
}

/// Any box: overlapping, with steps of nothing, with dimensions of one element and of none.
fn any_strides<const N: usize>() -> impl Strategy<Value = Strides<N>> {
    let extent = prop_oneof![1 => Just(0_usize), 3 => Just(1), 8 => 2_usize..5];
    let fields = (
        prop::collection::vec(extent, N),
        prop::collection::vec(0_usize..7, N),
        prop::collection::vec(0_usize..7, N),
        any::<u8>(),
    );
    fields.prop_map(|(extents, global, local, dense)| {
        let array = |values: Vec<usize>| <[usize; N]>::try_from(values).unwrap();
        let mut strides = Strides {
            extents: array(extents),
            global: array(global),
            local: array(local),
        };
        // Dense on one or both sides in half of the cases, so that folding happens.
        let mut distance = 1;
        for dim in (0..N).rev() {
            if dense & 1 == 1 {
                strides.global[dim] = distance;
            }
            if dense & 2 == 2 {
                strides.local[dim] = distance;
            }
            distance *= strides.extents[dim].max(1);
        }
        strides
    })
}

/// The bytes that a folded shape moves, in order, as pairs of distances.
fn bytes_of<const N: usize>(strides: &Strides<N>, element: usize) -> Vec<(isize, isize)> {
    let shape = strides.shape(element);
    let mut bytes = Vec::new();
    shape
        .for_each_block(|remote, local| {
            let block = 0..shape.block_bytes.cast_signed();
            bytes.extend(block.map(|i| (remote + i, local + i)));
            Ok::<_, ()>(())
        })
        .unwrap();
    bytes
}

fn naive_bytes<const N: usize>(strides: &Strides<N>, element: usize) -> Vec<(isize, isize)> {
    let mut bytes = Vec::new();
    for (global, local) in indices(strides) {
        for i in 0..element {
            let place = |index: usize| (index * element + i).cast_signed();
            bytes.push((place(global), place(local)));
        }
    }
    bytes
}

fn check_box<const N: usize>(strides: &Strides<N>, element: usize) -> Result<(), TestCaseError> {
    let places = indices(strides);
    let last = |side: fn(&(usize, usize)) -> usize| places.iter().map(side).max();
    let span = |last: Option<usize>| last.map_or(0, |last| last + 1);
    prop_assert_eq!(strides.span(&strides.global), Some(span(last(|p| p.0))));
    prop_assert_eq!(strides.span(&strides.local), Some(span(last(|p| p.1))));
    if !places.is_empty() {
        prop_assert_eq!(bytes_of(strides, element), naive_bytes(strides, element));
    }
    get_as_loops_would(strides, &places)
}

thread_local! {
    /// One world a test thread, with an array of distinct values.
    static ARRAY: (World, GlobalPtr<u32>) = {
        let world = loopback::world();
        let array = world.alloc(512).unwrap();
        array.put_slice(&world, &(0..512).collect::<Vec<u32>>()).unwrap();
        (world, array)
    };
}

fn get_as_loops_would<const N: usize>(
    strides: &Strides<N>,
    places: &[(usize, usize)],
) -> Result<(), TestCaseError> {
    ARRAY.with(|(world, array)| {
        let mut out = [u32::MAX; 512];
        let mut expected = out;
        array.get_strided(world, strides, &mut out).unwrap();
        // Where places overlap locally, the order of blocks is the transport's; the reference's is
        // this.
        for (global, local) in places {
            expected[*local] = u32::try_from(*global).unwrap();
        }
        prop_assert_eq!(out, expected);
        Ok(())
    })
}

proptest! {
    #[test]
    fn boxes_of_one_dimension_fold_to_the_same_bytes(strides in any_strides::<1>(), element in 1_usize..5) {
        check_box(&strides, element)?;
    }

    #[test]
    fn boxes_of_two_dimensions_fold_to_the_same_bytes(strides in any_strides::<2>(), element in 1_usize..5) {
        check_box(&strides, element)?;
    }

    #[test]
    fn boxes_of_four_dimensions_fold_to_the_same_bytes(strides in any_strides::<4>(), element in 1_usize..5) {
        check_box(&strides, element)?;
    }

    #[test]
    fn fragments_are_the_concatenation_of_slices(
        cuts in prop::collection::vec((0_usize..400, 0_usize..30), 0..20),
    ) {
        ARRAY.with(|(world, array)| {
            let fragments: Vec<_> = cuts
                .iter()
                .map(|(start, len)| Fragment { ptr: array.add(*start), len: *len })
                .collect();
            let mut expected = Vec::new();
            for (start, len) in &cuts {
                expected.extend((*start..start + len).map(|i| u32::try_from(i).unwrap()));
            }
            let mut out = vec![0; expected.len()];
            world.get_fragments(&fragments, &mut out).unwrap();
            prop_assert_eq!(out, expected);
            Ok(())
        })?;
    }
}

#[test]
fn the_step_of_a_dimension_of_one_element_does_not_matter() {
    let strides = Strides {
        extents: [1, 4, 1],
        global: [usize::MAX, 2, usize::MAX / 2],
        local: [usize::MAX, 1, 3],
    };
    assert_eq!(bytes_of(&strides, 8).len(), 32);
    ARRAY.with(|(world, array)| {
        let mut out = [0; 4];
        array.get_strided(world, &strides, &mut out).unwrap();
        assert_eq!(out, [0, 2, 4, 6]);
    });
}

#[test]
fn a_dense_box_is_one_block() {
    let strides = Strides {
        extents: [3, 1, 4],
        global: [4, 999, 1],
        local: [4, 5, 1],
    };
    let shape = strides.shape(8);
    assert_eq!((shape.block_bytes, shape.extents.len()), (96, 0));
}
