//! Compare-and-swap of 16 bytes: its model, contention, halves, and what is refused.

use pgas_am::{Here, RemoteCalls, WideAtomics, attach, quiet};
use pgas_core::atomics::has_wide_atomics;
use pgas_core::{Error, GlobalPtr, Rank, Result, World};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::case;
use crate::Case;
use crate::support::{assert_panics, neighbour};
use pgas_testkit::rng_of;

pub(super) const CASES: &[Case] = &[
    case!(1, wide_swaps_follow_the_model),
    case!(1, no_wide_swap_of_any_rank_is_lost_or_torn),
    case!(1, wide_swaps_and_atomics_on_halves_see_each_other),
    case!(1, wide_swaps_outside_of_segments_are_refused),
];

fn wide_swaps_follow_the_model(world: &World) -> Result<()> {
    if !has_wide_atomics() {
        return Ok(());
    }
    attach(world)?;
    let cells = world.alloc_symmetric::<u128>(3)?;
    let cell = cells.on(neighbour(world, 1)).add(1);
    let mut rng = rng_of(world, 128);
    // Values that differ in one half alone, or in one bit.
    let values = [0, 1, 1 << 64, (1 << 64) + 1, u128::MAX, u128::MAX - 1];
    let mut value = 0;
    for step in 0..200 {
        let (current, new) = (values[rng.usize(..6)], values[rng.usize(..6)]);
        let expected = if value == current {
            Ok(value)
        } else {
            Err(value)
        };
        let outcome = if step % 2 == 0 {
            cell.compare_exchange_wide(world, current, new)?
        } else {
            cell.compare_exchange_wide_nb(world, current, new)?.wait()?
        };
        assert_eq!(outcome, expected, "{current:#x} -> {new:#x}");
        if outcome.is_ok() {
            value = new;
        }
        assert_eq!(cell.load_wide(world)?, value);
    }
    world.barrier()?;
    let mut around = [1; 3];
    cells.here().get_slice(world, &mut around)?;
    assert_eq!([around[0], around[2]], [0, 0], "the neighbours");
    world.barrier()
}

/// Two numbers, of which the second one is three times the first one.
#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable)]
#[repr(C, align(16))]
struct Tripled {
    n: u64,
    tripled: u64,
}

fn no_wide_swap_of_any_rank_is_lost_or_torn(world: &World) -> Result<()> {
    if !has_wide_atomics() {
        return Ok(());
    }
    attach(world)?;
    let n_each = 100;
    let shared = world.alloc_symmetric::<Tripled>(1)?;
    let pair = shared.on(Rank::ZERO);
    let mut seen = pair.load_wide(world)?;
    for _ in 0..n_each {
        loop {
            assert_eq!(seen.tripled, 3 * seen.n, "a torn value");
            let n = seen.n + 1;
            let next = Tripled { n, tripled: 3 * n };
            match pair.compare_exchange_wide(world, seen, next)? {
                Ok(_) => break,
                Err(other) => seen = other,
            }
        }
    }
    world.barrier()?;
    let n = n_each * u64::from(world.n_ranks());
    assert_eq!(pair.load_wide(world)?, Tripled { n, tripled: 3 * n });
    world.barrier()
}

fn wide_swaps_and_atomics_on_halves_see_each_other(world: &World) -> Result<()> {
    if !has_wide_atomics() || !world.has_direct_atomics() {
        return Ok(());
    }
    attach(world)?;
    // Each swap of one rank lets those of all others fail once.
    let n_ranks = u128::from(world.n_ranks());
    let n_each = (2_000 / (n_ranks * n_ranks)).max(10);
    let shared = world.alloc_symmetric::<u128>(1)?;
    let word = shared.on(Rank::ZERO);
    let low: GlobalPtr<u64> = word.cast();
    for _ in 0..n_each {
        low.fetch_add(world, 1)?;
        let mut seen = word.load_wide(world)?;
        while let Err(other) = word.compare_exchange_wide(world, seen, seen + (1 << 64) + 1)? {
            seen = other;
        }
    }
    world.barrier()?;
    let n = n_each * n_ranks;
    assert_eq!(word.load_wide(world)?, (n << 64) + 2 * n);
    world.barrier()
}

fn wide_swaps_outside_of_segments_are_refused(world: &World) -> Result<()> {
    attach(world)?;
    let cell = world.alloc::<u128>(2)?;
    let uneven: GlobalPtr<u128> = cell.cast::<u64>().add(1).cast();
    assert_panics("is not aligned to the 16 bytes", || uneven.load_wide(world));
    assert_panics("null global pointer", || {
        GlobalPtr::<u128>::NULL.load_wide(world)
    });
    let next = neighbour(world, 1);
    let swapped = |(here, cell): (Here, GlobalPtr<u128>)| match cell.compare_exchange_wide(
        here.world(),
        0,
        5,
    ) {
        Ok(outcome) => outcome.is_ok(),
        Err(Error::InHandler { .. } | Error::NoWideAtomics) => false,
        Err(error) => panic!("{error}"),
    };
    let args = (Here::new(world), cell);
    let is_swapped = world.rpc(next, swapped, args)?.wait()?;
    quiet(world)?;
    // What a handler was refused has not been done.
    assert_eq!(cell.get(world)?, if is_swapped { 5 } else { 0 });
    world.barrier()
}
