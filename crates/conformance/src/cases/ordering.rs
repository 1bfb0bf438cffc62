//! The ordering guarantees of flush, barrier and atomics.

use pgas_core::{Rank, Result, World};

use super::case;
use crate::Case;
use crate::support::{neighbour, random_values};
use pgas_testkit::{rng, rng_of};

pub(super) const CASES: &[Case] = &[
    case!(1, put_then_flush_is_visible_to_the_target),
    case!(1, a_flush_completes_what_is_in_flight_too),
    case!(1, a_flush_of_one_rank_completes_operations_on_it),
    case!(2, who_sees_the_flag_sees_the_data_flushed_before),
    case!(3, who_sees_the_flag_sees_data_on_a_third_rank),
    case!(2, who_sees_an_atomics_result_sees_what_its_author_flushed),
    case!(1, a_barrier_separates_phases),
    case!(1, nobody_leaves_a_barrier_before_everybody_came),
    case!(1, a_barrier_flushes_every_kind_of_operation),
];

fn put_then_flush_is_visible_to_the_target(world: &World) -> Result<()> {
    let cells = world.alloc_symmetric::<u64>(2)?;
    let there = cells.on(neighbour(world, 1));
    for round in 1..=100 {
        there.put(world, round)?;
        world.flush(there.rank())?;
        // The other word only signals that the flush is over.
        there.add(1).atomic_store(world, round)?;
        world.flush(there.rank())?;
        cells
            .here()
            .add(1)
            .wait_until(world, |seen| seen >= round)?;
        assert!(cells.here().get(world)? >= round);
    }
    world.barrier()
}

fn a_flush_completes_what_is_in_flight_too(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u64>(50)?;
    let there = array.on(neighbour(world, 1));
    for round in 0..20 {
        let begun: Result<Vec<_>> = (0..50)
            .map(|i| there.add(i).put_nb(world, round + i as u64))
            .collect();
        let events = begun?;
        world.flush_all()?;
        for (i, seen) in there.get_vec(world, 50)?.into_iter().enumerate() {
            assert_eq!(seen, round + i as u64);
        }
        for event in events {
            event.wait()?;
        }
    }
    world.barrier()
}

fn a_flush_of_one_rank_completes_operations_on_it(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u64>(world.n_ranks() as usize)?;
    let counts = world.alloc_symmetric::<u64>(world.n_ranks() as usize)?;
    let me = world.rank().index();
    for round in 1..=20 {
        for rank in world.ranks() {
            array.on(rank).add(me).put(world, round)?;
            counts.on(rank).add(me).atomic_add(world, 1)?;
        }
        for rank in world.ranks() {
            world.flush(rank)?;
            assert_eq!(array.on(rank).add(me).get(world)?, round);
            assert_eq!(counts.on(rank).add(me).get(world)?, round);
        }
    }
    world.barrier()
}

/// Message passing: data, flush, flag; the flag's reader must see the data.
fn who_sees_the_flag_sees_the_data_flushed_before(world: &World) -> Result<()> {
    const ROUNDS: u64 = 200;
    const WORDS: usize = 24;
    let data = world.alloc_symmetric::<u64>(WORDS)?;
    let flag = world.alloc_symmetric::<u64>(1)?;
    let done = world.alloc_symmetric::<u64>(1)?;
    let (next, previous) = (neighbour(world, 1), neighbour(world, world.n_ranks() - 1));
    for round in 1..=ROUNDS {
        data.on(next).put_slice(world, &[round; WORDS])?;
        if round % 3 == 0 {
            data.on(next).add(5).put_nb(world, round)?.wait()?;
        }
        world.flush(next)?;
        flag.on(next).atomic_store(world, round)?;
        world.flush(next)?;
        flag.here().wait_until(world, |seen| seen == round)?;
        assert_eq!(data.here().get_vec(world, WORDS)?, [round; WORDS]);
        // Only now may the writer continue.
        done.on(previous).atomic_store(world, round)?;
        world.flush(previous)?;
        done.here().wait_until(world, |seen| seen == round)?;
    }
    world.barrier()
}

fn who_sees_the_flag_sees_data_on_a_third_rank(world: &World) -> Result<()> {
    const ROUNDS: u64 = 100;
    let data = world.alloc_symmetric::<[u64; 3]>(world.n_ranks() as usize)?;
    let flag = world.alloc_symmetric::<u64>(1)?;
    let (me, next) = (world.rank().index(), neighbour(world, 1));
    let previous = neighbour(world, world.n_ranks() - 1);
    // Each rank's data is two ranks further on. The rank in between gets the signal and reads it.
    for round in 1..=ROUNDS {
        let mine = data.on(neighbour(world, 2)).add(me);
        mine.put(world, [round; 3])?;
        world.flush(mine.rank())?;
        flag.on(next).fetch_add(world, 1)?;
        flag.here().wait_until(world, |seen| seen >= round)?;
        let its = data.on(next).add(previous.index());
        let seen = its.get(world)?;
        assert!(
            seen[0] >= round && seen[2] >= round,
            "{seen:?} in round {round}"
        );
    }
    world.barrier()
}

/// Tickets from a counter: the holder of ticket `i` reads the data that the holder of `i - 1` has
/// flushed.
fn who_sees_an_atomics_result_sees_what_its_author_flushed(world: &World) -> Result<()> {
    const TICKETS: u64 = 60;
    let n = u64::from(world.n_ranks()) * TICKETS;
    let counter = world.alloc_symmetric::<u64>(1)?;
    let log = world.alloc_symmetric::<u64>(usize::try_from(n).expect("small"))?;
    let home = |ticket: u64| {
        let rank = ticket % u64::from(world.n_ranks());
        let rank = Rank::new(u32::try_from(rank).expect("below the number of ranks"));
        log.on(rank).add(usize::try_from(ticket).expect("small"))
    };
    for _ in 0..TICKETS {
        // The holder of a ticket has read the counter, and writes the next entry before it
        // increments it.
        let mut ticket = counter.on(Rank::ZERO).atomic_load(world)?;
        loop {
            let entry = home(ticket);
            if entry
                .compare_exchange(world, 0, u64::from(world.rank().number()) + 1)?
                .is_err()
            {
                ticket = counter.on(Rank::ZERO).atomic_load(world)?;
                if ticket < n && home(ticket).atomic_load(world)? != 0 {
                    world.progress()?;
                    std::thread::yield_now();
                }
                continue;
            }
            let mut before = 0;
            while before < ticket {
                assert_ne!(
                    home(before).get(world)?,
                    0,
                    "entry {before} before {ticket}"
                );
                before += 7;
            }
            counter.on(Rank::ZERO).fetch_add(world, 1)?;
            break;
        }
    }
    world.barrier()?;
    assert_eq!(counter.on(Rank::ZERO).atomic_load(world)?, n);
    world.barrier()
}

fn a_barrier_separates_phases(world: &World) -> Result<()> {
    const ROUNDS: u64 = 150;
    let n = world.n_ranks() as usize;
    let slots = world.alloc_symmetric::<u64>(n)?;
    let me = world.rank().index();
    let mut shared = rng(30);
    let mut own = rng_of(world, 31);
    for round in 1..=ROUNDS {
        // Every rank writes into every rank's slot, in its own order and form.
        let mut targets: Vec<Rank> = world.ranks().collect();
        own.shuffle(&mut targets);
        for target in targets {
            let slot = slots.on(target).add(me);
            match own.u8(..4) {
                0 => slot.put(world, round)?,
                1 => slot.atomic_store(world, round)?,
                2 => drop(slot.put_nb(world, round)?),
                _ => slot.put_slice(world, &[round])?,
            }
        }
        world.barrier()?;
        let reader = Rank::new(shared.u32(..world.n_ranks()));
        assert_eq!(slots.here().get_vec(world, n)?, vec![round; n]);
        assert_eq!(slots.on(reader).get_vec(world, n)?, vec![round; n]);
        world.barrier()?;
    }
    Ok(())
}

fn nobody_leaves_a_barrier_before_everybody_came(world: &World) -> Result<()> {
    let arrivals = world.alloc_symmetric::<u64>(1)?;
    let n = u64::from(world.n_ranks());
    let mut own = rng_of(world, 32);
    for round in 0..100 {
        for _ in 0..own.u32(..200) {
            std::hint::spin_loop();
        }
        if own.u8(..8) == 0 {
            std::thread::yield_now();
        }
        arrivals.on(Rank::ZERO).fetch_add(world, 1)?;
        world.barrier()?;
        let seen = arrivals.on(Rank::ZERO).atomic_load(world)?;
        assert!(
            seen >= (round + 1) * n,
            "{seen} arrivals after barrier {round}"
        );
        // A rank that was two barriers ahead would show here.
        assert!(
            seen <= (round + 2) * n,
            "{seen} arrivals after barrier {round}"
        );
    }
    world.barrier()
}

fn a_barrier_flushes_every_kind_of_operation(world: &World) -> Result<()> {
    const N: usize = 6;
    let array = world.alloc_symmetric::<u64>(N * 8)?;
    let there = array.on(neighbour(world, 1));
    let mut rng = rng_of(world, 33);
    for round in 0..20 {
        let values: Vec<u64> = random_values(&mut rng, N);
        let part = |i: usize| there.add(i * 8);
        part(0).put(world, values[0])?;
        part(1).put_slice(world, &values[1..2])?;
        drop(part(2).put_nb(world, values[2])?);
        part(3).atomic_store(world, values[3])?;
        world.put_indexed(part(4), &[0], 1, &values[4..5])?;
        part(5).put_signal(
            world,
            &values[5..],
            part(5).add(1),
            pgas_core::backend::SignalUpdate::Add(1),
        )?;
        world.barrier()?;
        for (i, value) in values.iter().enumerate() {
            assert_eq!(part(i).get(world)?, *value, "part {i} in round {round}");
        }
        assert_eq!(part(5).add(1).get(world)?, round + 1);
        world.barrier()?;
    }
    Ok(())
}
