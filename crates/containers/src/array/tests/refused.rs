//! Arguments that are refused, and calls of ranks that do not fit together.

use super::*;
use crate::testing::told_of_a_panic;

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
        Ok(one.into_local().map(drop)?)
    });
}

#[test]
fn a_panic_in_the_comparison_of_two_values_fails_the_job() {
    let over = loopback::Options::default();
    told_of_a_panic("a comparison", (&over, true), |world, alone| {
        let array = dealt(world, 50, Distribution::Block);
        alone(Box::new(|| drop(array.fill(3))));
    });
}

/// The memory is there on rank 0 alone.
#[test]
fn an_array_whose_local_phase_does_not_begin_is_as_it_was() {
    everywhere(2, |world| {
        let array = dealt(&world, 10, Distribution::Block);
        let n = [1, usize::MAX / 8][world.rank().index()];
        let taken = local::take_out(&world.team(), "a test", (array.local_place(0), n));
        let error = taken.unwrap_err();
        assert!(matches!(
            error,
            crate::Error::Argument(_) | crate::Error::Elsewhere(_)
        ));
        let matrix = DMatrix::new(&world, [4, 4], [2, 2], 7_u64).unwrap();
        let refused = as_handler(|| (array.into_local(), matrix.into_local()));
        let (Err(array), Err(matrix)) = refused else {
            panic!("a handler cannot wait");
        };
        assert!(matches!(array.error, crate::Error::InHandler { .. }));
        assert_eq!(array.container.get(9).unwrap(), 7);
        assert_eq!(array.container.into_local().unwrap()[0], 7);
        assert_eq!(matrix.container.get(3, 3).unwrap(), 7);
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
