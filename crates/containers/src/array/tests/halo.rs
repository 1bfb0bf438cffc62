//! Tiles with rims.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::Duration;

use pgas_am::RemoteCalls as _;
use pgas_core::{Config, Statistics};

use super::*;
use crate::testing::told_of_a_panic;

/// Each element becomes a number made of all elements at most `width` away, four times.
fn check_stencil(
    world: &World,
    shape: [usize; 2],
    tile: [usize; 2],
    width: usize,
    outside: Option<u32>,
) {
    let [height, breadth] = shape;
    let matrix = DMatrix::new(world, shape, tile, 1).unwrap();
    let mut model = vec![1_u32; height * breadth];
    pgas_am::attach(world).unwrap();
    let halo = outside.map(|outside| Halo::new(&matrix, width, outside));
    let mut halo = halo
        .unwrap_or_else(|| Halo::periodic(&matrix, width))
        .unwrap();
    for step in 0..4 {
        if step % 2 == 0 {
            halo.exchange().unwrap();
        } else {
            let exchange = halo.exchange_nb().unwrap();
            // The elements of the tiles themselves are there before the exchange ends.
            for tile in exchange.tiles() {
                for (i, row) in tile.rows().enumerate() {
                    let own = &model[row * breadth..][tile.columns()];
                    assert_eq!(&tile.row(i + width)[width..][..own.len()], own);
                }
            }
            exchange.wait().unwrap();
        }
        halo.update(|old, new| {
            for (i, row) in new.rows().enumerate() {
                for j in 0..new.columns().len() {
                    // All elements at most `width` away, along rows and columns.
                    let box_of = (i..=i + 2 * width).flat_map(|i| &old.row(i)[j..=j + 2 * width]);
                    let sum = box_of.fold(0_u32, |sum, x| sum.wrapping_mul(3).wrapping_add(*x));
                    new.row_mut(row)[j] = sum;
                }
            }
        })
        .unwrap();
        let at = |row: isize, column: isize| {
            let within = |x: isize, n: usize| x.rem_euclid(n.cast_signed());
            let inside = [within(row, height), within(column, breadth)];
            let [i, j] = inside.map(isize::cast_unsigned);
            let there = model[i * breadth + j];
            outside.filter(|_| inside != [row, column]).unwrap_or(there)
        };
        let span = -width.cast_signed()..=width.cast_signed();
        let all = (0..height.cast_signed())
            .flat_map(|row| (0..breadth.cast_signed()).map(move |column| (row, column)));
        let next = all.map(|(row, column)| {
            let around = span
                .clone()
                .flat_map(|down| span.clone().map(move |along| (down, along)));
            around.fold(0_u32, |sum, (down, along)| {
                sum.wrapping_mul(3)
                    .wrapping_add(at(row + down, column + along))
            })
        });
        model = next.collect();
    }
    world.barrier().unwrap();
    assert_eq!(matrix.get_block(0..height, 0..breadth).unwrap(), model);
    halo.exchange().unwrap();
    assert!(halo.tiles().all(|tile| {
        (0..tile.rows().len() + 2 * width)
            .all(|i| tile.row(i).len() == tile.columns().len() + 2 * width)
    }));
    world.barrier().unwrap();
}

#[test]
fn a_stencil_over_tiles_with_rims_is_that_over_a_plain_matrix() {
    everywhere(3, |world| {
        for (shape, tile, width) in [
            ([20, 30], [8, 8], 1),
            ([20, 30], [5, 30], 2),
            ([7, 9], [2, 3], 3),
            ([1, 1], [4, 4], 2),
            ([0, 4], [2, 2], 1),
            ([6, 5], [3, 2], 0),
            ([9, 9], [1, 1], 1),
        ] {
            check_stencil(&world, shape, tile, width, Some(5));
            check_stencil(&world, shape, tile, width, None);
        }
        let matrix = DMatrix::new(&world, [4, 4], [2, 2], 0_u64).unwrap();
        let too_wide = Halo::new(&matrix, usize::MAX / 4, 0);
        assert!(matches!(
            too_wide,
            Err(crate::Error::Argument(_) | crate::Error::Elsewhere(_))
        ));
        world.barrier().unwrap();
    });
}

/// The cost of `body`: reads, writes, atomics and barriers, and the bytes of all of them.
fn paid(world: &World, body: impl FnOnce()) -> ([u64; 4], u64) {
    let before = world.costs();
    body();
    let costs = world.costs() - before;
    let counts = [costs.reads, costs.writes, costs.atomics, costs.barriers];
    (counts, costs.bytes)
}

#[test]
fn an_exchange_of_rims_costs_one_read_for_each_tile_that_they_have_elements_of() {
    everywhere_counted(2, |world| {
        pgas_am::attach(&world).unwrap();
        // Four by four tiles, of which each rank has eight.
        let matrix = DMatrix::new(&world, [32, 32], [8, 8], 1_u64).unwrap();
        let mut halo = Halo::new(&matrix, 1, 0).unwrap();
        let with_rims = |at: usize| if at == 0 || at == 24 { 9 } else { 10 };
        let (mut n_tiles, mut n_elements) = (0, 0);
        for (rows, columns) in matrix.local_tiles() {
            let [rows, columns] = [rows.start, columns.start];
            let near = |at: usize| if at == 0 || at == 24 { 2 } else { 3 };
            n_tiles += near(rows) * near(columns);
            n_elements += with_rims(rows) * with_rims(columns);
        }
        let (counts, n_bytes) = paid(&world, || halo.exchange().unwrap());
        assert_eq!(counts, [n_tiles, 0, 0, 1]);
        // And those of the messages by which the ranks agree that all have read.
        assert!((0..200).contains(&(n_bytes - 8 * n_elements)), "{n_bytes}");
        let (counts, _) = paid(&world, || halo.exchange_nb().unwrap().wait().unwrap());
        assert_eq!(counts[1..3], [0, 0]);
        let update = |old: HaloTile<'_, u64>, new: &mut TileMut<'_, u64>| {
            for (i, row) in new.rows().enumerate() {
                new.row_mut(row).copy_from_slice(&old.row(i + 1)[1..9]);
            }
        };
        let (counts, n_bytes) = paid(&world, || halo.update(update).unwrap());
        assert_eq!((counts, n_bytes), ([0, 8, 0, 0], 8 * 8 * 64));
        world.barrier().unwrap();
    });
}

#[test]
fn a_panic_in_the_wait_for_an_exchange_fails_the_job() {
    let over = loopback::Options::default();
    told_of_a_panic("an exchange of rims", (&over, false), |world, alone| {
        let matrix = DMatrix::new(world, [6, 6], [2, 2], 0_u64).unwrap();
        let mut halo = Halo::new(&matrix, 1, 0).unwrap();
        if world.rank() == Rank::ZERO {
            let exchange = halo.exchange_nb().unwrap();
            alone(Box::new(|| drop(exchange.wait())));
        } else {
            alone(Box::new(|| {}));
        }
    });
}

#[test]
fn a_panic_in_the_wait_for_the_rims_of_others_fails_the_job() {
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    config.timeout = Some(Duration::from_secs(5));
    config.check = Some(false);
    config.statistics = Statistics::Total;
    pgas_testkit::weak::run(2, &config, 7, |world| {
        pgas_am::attach(&world).unwrap();
        let matrix = DMatrix::new(&world, [8, 8], [2, 2], 0_u64).unwrap();
        let mut halo = Halo::new(&matrix, 1, 0).unwrap();
        let told = if world.rank() == Rank::ZERO {
            let (of_action, before) = (world.clone(), world.costs().reads);
            let begun = poll_fn(move |_| match of_action.costs().reads > before {
                true => Poll::Ready(Ok(())),
                false => Poll::Pending,
            });
            drop(world.spawn(begun).then(|()| panic!("on purpose")));
            catch_unwind(AssertUnwindSafe(|| halo.exchange())).unwrap_err();
            world.barrier()
        } else {
            halo.exchange().and_then(|()| world.barrier())
        };
        let told = told.unwrap_err().to_string();
        assert!(
            told.contains("rank 0 panicked in an exchange of rims"),
            "{told}"
        );
    });
}

#[test]
fn an_exchange_whose_wait_a_handler_is_refused_is_dropped() {
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    config.timeout = Some(Duration::from_secs(5));
    loopback::run_with(2, &config, |world| {
        pgas_am::attach(&world).unwrap();
        let matrix = DMatrix::new(&world, [6, 6], [2, 2], 0_u64).unwrap();
        let mut halo = Halo::new(&matrix, 1, 0).unwrap();
        let exchange = halo.exchange_nb().unwrap();
        let told = if world.rank() == Rank::ZERO {
            let refused = as_handler(|| exchange.wait());
            assert!(matches!(refused, Err(crate::Error::InHandler { .. })));
            world.barrier()
        } else {
            exchange.wait()
        };
        let told = told.unwrap_err().to_string();
        assert!(told.contains("rank 0 has dropped its exchange"), "{told}");
    });
}

/// They would wait for ever.
#[test]
fn ranks_that_wait_for_an_exchange_are_told_that_another_one_was_dropped() {
    for panics in [false, true] {
        others_are_told(panics);
    }
}

fn others_are_told(panics: bool) {
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    config.timeout = Some(Duration::from_secs(30));
    // Otherwise they find out when they compare their calls.
    config.check = Some(false);
    let body = |world: World| {
        pgas_am::attach(&world).unwrap();
        let matrix = DMatrix::new(&world, [6, 6], [2, 2], 0_u64).unwrap();
        let mut halo = Halo::new(&matrix, 1, 0).unwrap();
        let exchange = halo.exchange_nb().unwrap();
        let outcome = if world.rank() == Rank::ZERO {
            let end = || {
                let _exchange = exchange;
                assert!(!panics, "as it should");
            };
            assert_eq!(catch_unwind(AssertUnwindSafe(end)).is_err(), panics);
            world.barrier()
        } else {
            exchange.wait()
        };
        let told = outcome.unwrap_err().to_string();
        let how = if panics {
            "panicked before the end of"
        } else {
            "has dropped"
        };
        assert!(
            told.contains(&format!("rank 0 {how} its exchange")),
            "{told}"
        );
    };
    pgas_smp::threads_with(3, &config, body).unwrap();
    loopback::run_with(3, &config, body);
}
