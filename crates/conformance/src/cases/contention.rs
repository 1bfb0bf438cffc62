//! Atomics of all ranks on the same words: no update is lost or applied twice.

use std::thread;

use pgas_core::backend::AtomicOp;
use pgas_core::{GlobalPtr, Rank, Result, World};

use super::case;
use crate::Case;
use crate::support::neighbour;
use pgas_testkit::{rng, rng_of};

pub(super) const CASES: &[Case] = &[
    case!(1, concurrent_adds_add_up_on_every_rank),
    case!(1, concurrent_fetching_adds_give_every_number_once),
    case!(1, concurrent_adds_without_result_add_up),
    case!(1, concurrent_increments_and_decrements_cancel),
    case!(1, concurrent_exclusive_ors_leave_the_parity),
    case!(1, concurrent_bits_are_set_and_cleared_independently),
    case!(1, concurrent_compare_exchange_loops_lose_nothing),
    case!(1, concurrent_adds_of_floats_add_up),
    case!(1, concurrent_minima_and_maxima_find_the_extremes),
    case!(1, different_operations_on_one_word_do_not_interfere),
    case!(1, neighbouring_halves_of_a_word_do_not_interfere),
    case!(1, swaps_pass_every_value_on_exactly_once),
    case!(1, a_lock_made_of_atomics_excludes),
    case!(1, own_words_are_not_special),
];

fn n_ranks(world: &World) -> u64 {
    u64::from(world.n_ranks())
}

fn me(world: &World) -> u64 {
    u64::from(world.rank().number())
}

fn concurrent_adds_add_up_on_every_rank(world: &World) -> Result<()> {
    const ROUNDS: u64 = 200;
    let cells = world.alloc_symmetric::<u64>(1)?;
    for _ in 0..ROUNDS {
        for rank in world.ranks() {
            cells.on(rank).fetch_add(world, me(world) + 1)?;
        }
    }
    world.barrier()?;
    let sum: u64 = (1..=n_ranks(world)).sum();
    for rank in world.ranks() {
        assert_eq!(cells.on(rank).atomic_load(world)?, ROUNDS * sum);
    }
    world.barrier()
}

fn concurrent_fetching_adds_give_every_number_once(world: &World) -> Result<()> {
    const EACH: usize = 300;
    let n = world.n_ranks() as usize;
    let counter = world.alloc_symmetric::<u64>(1)?;
    let taken = world.alloc_symmetric::<u32>(n * EACH)?;
    let mut last = None;
    for _ in 0..EACH {
        let number = counter.on(Rank::ZERO).fetch_add(world, 1)?;
        assert!(last.is_none_or(|last| last < number), "numbers grow");
        last = Some(number);
        let slot = taken
            .on(Rank::ZERO)
            .add(usize::try_from(number).expect("small"));
        slot.atomic_op(world, AtomicOp::Add, 1)?;
    }
    world.barrier()?;
    let seen = taken.on(Rank::ZERO).get_vec(world, n * EACH)?;
    assert!(seen.iter().all(|times| *times == 1), "{seen:?}");
    world.barrier()
}

fn concurrent_adds_without_result_add_up(world: &World) -> Result<()> {
    const ROUNDS: u64 = 300;
    let cells = world.alloc_symmetric::<u32>(2)?;
    for round in 0..ROUNDS {
        for rank in world.ranks() {
            cells.on(rank).atomic_op(world, AtomicOp::Add, 3)?;
        }
        if round % 64 == me(world) {
            world.flush_all()?;
        }
        let word = cells.on(neighbour(world, 1)).add(1);
        drop(word.fetch_op_nb(world, AtomicOp::Add, 1)?);
    }
    world.barrier()?;
    for rank in world.ranks() {
        let total = u64::from(cells.on(rank).atomic_load(world)?);
        assert_eq!(total, 3 * ROUNDS * n_ranks(world));
        let total = u64::from(cells.on(rank).add(1).atomic_load(world)?);
        assert_eq!(total, ROUNDS);
    }
    world.barrier()
}

fn concurrent_increments_and_decrements_cancel(world: &World) -> Result<()> {
    const EACH: usize = 250;
    let cell = world.alloc_symmetric::<i32>(1)?;
    let word = cell.on(Rank::ZERO);
    let mut rng = rng_of(world, 60);
    let mut balance = 0_i64;
    for _ in 0..EACH {
        if rng.bool() {
            word.fetch_inc(world)?;
            balance += 1;
        } else {
            word.fetch_dec(world)?;
            balance -= 1;
        }
    }
    let sum = world.alloc_symmetric::<i64>(1)?;
    sum.on(Rank::ZERO).fetch_add(world, balance)?;
    world.barrier()?;
    let expected = sum.on(Rank::ZERO).atomic_load(world)?;
    assert_eq!(i64::from(word.atomic_load(world)?), expected);
    world.barrier()
}

fn concurrent_exclusive_ors_leave_the_parity(world: &World) -> Result<()> {
    const EACH: usize = 200;
    let cell = world.alloc_symmetric::<u64>(1)?;
    let word = cell.on(Rank::new(world.n_ranks() / 2));
    let mut expected = 0;
    let mut shared = rng(61);
    for _ in 0..EACH {
        // Every rank draws every rank's numbers, and uses its own.
        for rank in world.ranks() {
            let bits = shared.u64(..);
            expected ^= bits;
            if rank == world.rank() {
                word.fetch_xor(world, bits)?;
            }
        }
    }
    world.barrier()?;
    assert_eq!(word.atomic_load(world)?, expected);
    world.barrier()
}

fn concurrent_bits_are_set_and_cleared_independently(world: &World) -> Result<()> {
    let cell = world.alloc_symmetric::<u32>(1)?;
    let word = cell.on(Rank::ZERO);
    let bit = 1 << (world.rank().number() % 32);
    for _ in 0..300 {
        assert_eq!(
            word.fetch_or(world, bit)? & bit,
            0,
            "nobody else sets this bit"
        );
        assert_eq!(
            word.fetch_and(world, !bit)? & bit,
            bit,
            "nobody else clears it"
        );
    }
    word.atomic_op(world, AtomicOp::Or, bit)?;
    world.barrier()?;
    let all = (0..world.n_ranks().min(32)).fold(0, |bits, rank| bits | 1 << rank);
    assert_eq!(word.atomic_load(world)?, all);
    world.barrier()
}

fn concurrent_compare_exchange_loops_lose_nothing(world: &World) -> Result<()> {
    const EACH: u64 = 100;
    let cell = world.alloc_symmetric::<u64>(1)?;
    let word = cell.on(Rank::new(world.n_ranks() - 1));
    for _ in 0..EACH {
        let mut seen = word.atomic_load(world)?;
        // Not an addition: a mix that only a complete chain of updates produces.
        while let Err(now) = word.compare_exchange(world, seen, seen + 3)? {
            assert_ne!(now, seen);
            seen = now;
        }
    }
    world.barrier()?;
    assert_eq!(word.atomic_load(world)?, 3 * EACH * n_ranks(world));
    world.barrier()
}

fn concurrent_adds_of_floats_add_up(world: &World) -> Result<()> {
    const EACH: u32 = 200;
    let doubles = world.alloc_symmetric::<f64>(1)?;
    let singles = world.alloc_symmetric::<f32>(1)?;
    for i in 0..EACH {
        // Whole numbers, whose sums are exact in any order.
        doubles.on(Rank::ZERO).fetch_add(world, f64::from(i))?;
        singles
            .on(Rank::ZERO)
            .atomic_op(world, AtomicOp::Add, 0.5)?;
    }
    world.barrier()?;
    let n = f64::from(world.n_ranks());
    let sum = f64::from(EACH * (EACH - 1) / 2) * n;
    let seen = doubles.on(Rank::ZERO).atomic_load(world)?;
    assert_eq!(seen.to_bits(), sum.to_bits());
    let seen = f64::from(singles.on(Rank::ZERO).atomic_load(world)?);
    assert_eq!(seen.to_bits(), (f64::from(EACH) * n / 2.0).to_bits());
    world.barrier()
}

fn concurrent_minima_and_maxima_find_the_extremes(world: &World) -> Result<()> {
    let low = world.alloc_symmetric::<i64>(1)?;
    let high = world.alloc_symmetric::<f64>(1)?;
    low.here().swap(world, i64::MAX)?;
    high.here().swap(world, f64::NAN)?;
    world.barrier()?;
    let mut shared = rng(62);
    let (mut least, mut most) = (i64::MAX, f64::NEG_INFINITY);
    for _ in 0..100 {
        for rank in world.ranks() {
            let (a, b) = (shared.i64(..), shared.f64() - 0.5);
            (least, most) = (least.min(a), most.max(b));
            if rank == world.rank() {
                for target in world.ranks() {
                    low.on(target).fetch_min(world, a)?;
                    high.on(target).atomic_op(world, AtomicOp::Max, b)?;
                }
            }
        }
    }
    world.barrier()?;
    assert_eq!(low.here().atomic_load(world)?, least);
    assert_eq!(high.here().atomic_load(world)?.to_bits(), most.to_bits());
    world.barrier()
}

/// One word with additions in the low half, a bit of each rank above it, and compare-and-swap at
/// the top.
fn different_operations_on_one_word_do_not_interfere(world: &World) -> Result<()> {
    const EACH: u64 = 120;
    let cell = world.alloc_symmetric::<u64>(1)?;
    let word = cell.on(Rank::ZERO);
    let own_bit = 1 << (32 + me(world) % 16);
    for round in 0..EACH {
        match (round + me(world)) % 5 {
            0 => drop(word.fetch_add(world, 1)?),
            1 => word.atomic_op(world, AtomicOp::Add, 1)?,
            2 => drop(word.fetch_op_nb(world, AtomicOp::Add, 1)?),
            3 => drop(word.cast::<i64>().fetch_add(world, 1)?),
            _ => {
                word.fetch_op_nb(world, AtomicOp::Add, 1)?.wait()?;
            }
        }
        if round % 2 == 0 {
            word.fetch_or(world, own_bit)?;
        } else {
            word.fetch_and(world, !own_bit)?;
        }
        word.fetch_xor(world, own_bit)?;
        let mut seen = word.atomic_load(world)?;
        while let Err(now) = word.compare_exchange(world, seen, seen + (1 << 50))? {
            seen = now;
        }
        word.fetch_max(world, 0)?;
        word.fetch_min(world, u64::MAX)?;
    }
    world.barrier()?;
    let seen = word.atomic_load(world)?;
    assert_eq!(seen & 0xffff_ffff, EACH * n_ranks(world), "additions");
    assert_eq!(seen >> 50, EACH * n_ranks(world), "compare-and-swaps");
    // The last round cleared each bit, then flipped it.
    let bits = (0..n_ranks(world)).fold(0, |bits, rank| bits | 1 << (32 + rank % 16));
    assert_eq!(seen & 0xffff << 32, bits);
    world.barrier()
}

fn neighbouring_halves_of_a_word_do_not_interfere(world: &World) -> Result<()> {
    const EACH: u32 = 300;
    let halves = world.alloc_symmetric::<u32>(2)?;
    let half = (world.rank().number() % 2) as usize;
    let word = halves.on(Rank::ZERO).add(half);
    for i in 0..EACH {
        if i % 2 == 0 {
            word.fetch_add(world, 0x1_0001)?;
        } else {
            word.atomic_op(world, AtomicOp::Add, 0x1_0001)?;
        }
    }
    world.barrier()?;
    for half in 0..2 {
        let authors = (world.n_ranks() + 1 - half) / 2;
        let word = halves.on(Rank::ZERO).add(half as usize);
        let expected = 0x1_0001_u32.wrapping_mul(EACH * authors);
        assert_eq!(word.atomic_load(world)?, expected, "half {half}");
    }
    world.barrier()
}

fn swaps_pass_every_value_on_exactly_once(world: &World) -> Result<()> {
    const EACH: u64 = 150;
    let cell = world.alloc_symmetric::<u64>(1)?;
    let balance = world.alloc_symmetric::<u64>(1)?;
    let word = cell.on(Rank::ZERO);
    let mut sum = 0_u64;
    for i in 1..=EACH {
        let mine = me(world) * EACH + i;
        sum = sum.wrapping_add(mine).wrapping_sub(word.swap(world, mine)?);
    }
    balance.on(Rank::ZERO).fetch_add(world, sum)?;
    world.barrier()?;
    // Values that were put in and not taken out are in the cell.
    assert_eq!(
        balance.on(Rank::ZERO).atomic_load(world)?,
        word.atomic_load(world)?
    );
    world.barrier()
}

fn a_lock_made_of_atomics_excludes(world: &World) -> Result<()> {
    const EACH: u64 = 25;
    let lock = world.alloc_symmetric::<u32>(1)?;
    let guarded = world.alloc_symmetric::<[u64; 3]>(1)?;
    let (lock, guarded) = (
        lock.on(Rank::ZERO),
        guarded.on(Rank::new(world.n_ranks() - 1)),
    );
    for _ in 0..EACH {
        acquire(world, lock)?;
        let [a, b, c] = guarded.get(world)?;
        assert!(a == b && b == c, "{:?}", [a, b, c]);
        guarded.put(world, [a + 1; 3])?;
        world.flush(guarded.rank())?;
        lock.atomic_store(world, 0)?;
        world.flush(lock.rank())?;
    }
    world.barrier()?;
    assert_eq!(guarded.get(world)?, [EACH * n_ranks(world); 3]);
    world.barrier()
}

fn acquire(world: &World, lock: GlobalPtr<u32>) -> Result<()> {
    while lock.compare_exchange(world, 0, 1)?.is_err() {
        world.progress()?;
        thread::yield_now();
    }
    Ok(())
}

/// A rank's atomics on its own word, by every method, concurrently with those of all other ranks.
fn own_words_are_not_special(world: &World) -> Result<()> {
    const EACH: u64 = 200;
    let cells = world.alloc_symmetric::<u64>(1)?;
    let (here, there) = (cells.here(), cells.on(neighbour(world, 1)));
    for _ in 0..EACH {
        here.fetch_add(world, 1)?;
        there.atomic_op(world, AtomicOp::Add, 1)?;
        let mut seen = here.atomic_load(world)?;
        while let Err(now) = here.compare_exchange(world, seen, seen + 1)? {
            seen = now;
        }
        there.fetch_add(world, 1)?;
    }
    world.barrier()?;
    assert_eq!(here.atomic_load(world)?, 4 * EACH);
    world.barrier()
}
