//! The identities of ranks, and several threads on one rank.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use pgas_core::stats::Unit;
use pgas_core::{Rank, Result, World};

use super::case;
use crate::Case;
use crate::support::neighbour;

pub(super) const CASES: &[Case] = &[
    case!(1, every_rank_has_a_number_and_knows_the_size_of_the_job),
    case!(1, capabilities_and_sizes_are_the_same_on_every_rank),
    case!(1, threads_of_a_rank_share_its_world),
    case!(1, names_spans_and_works_change_nothing_else),
    case!(1, a_rank_that_waits_says_for_what),
];

fn every_rank_has_a_number_and_knows_the_size_of_the_job(world: &World) -> Result<()> {
    let seen = world.alloc_symmetric::<u64>(world.n_ranks() as usize)?;
    let me = world.rank();
    assert!(me.number() < world.n_ranks());
    let mark = u64::from(world.n_ranks()) << 32 | u64::from(me.number());
    for rank in world.ranks() {
        seen.on(rank).add(me.index()).put(world, mark)?;
    }
    let (after, before) = (world.rank_after(me), world.rank_before(me));
    assert_eq!(after, neighbour(world, 1));
    assert_eq!(
        (world.rank_before(after), world.rank_after(before)),
        (me, me)
    );
    world.barrier()?;
    let expected: Vec<u64> = (0..u64::from(world.n_ranks()))
        .map(|rank| u64::from(world.n_ranks()) << 32 | rank)
        .collect();
    assert_eq!(seen.here().get_vec(world, expected.len())?, expected);
    world.barrier()
}

fn capabilities_and_sizes_are_the_same_on_every_rank(world: &World) -> Result<()> {
    let facts = |world: &World| {
        let capabilities = world.capabilities();
        [
            world.segment_bytes(),
            capabilities.max_short as u64,
            capabilities.max_medium as u64,
            capabilities.max_transfer,
            u64::from(world.has_direct_atomics()),
            u64::from(capabilities.starts_one_program),
        ]
    };
    let mine = facts(world);
    assert!(!world.backend_name().is_empty());
    assert!(mine[2] >= 512, "max_medium is at least 512");
    assert!(mine[1] <= mine[2], "a short message is a medium one too");
    assert!(mine[3] > 0);
    let shown = world.alloc_symmetric::<[u64; 6]>(1)?;
    shown.here().put(world, mine)?;
    world.barrier()?;
    for rank in world.ranks() {
        assert_eq!(shown.on(rank).get(world)?, mine, "rank {rank}");
    }
    world.barrier()
}

fn threads_of_a_rank_share_its_world(world: &World) -> Result<()> {
    const ROUNDS: u64 = 100;
    const THREADS: u64 = 3;
    let counter = world.alloc_symmetric::<u64>(1)?;
    let cells = world.alloc_symmetric::<u64>(4)?;
    let target = neighbour(world, 1);
    let outcomes: Vec<Result<()>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (counter, cells) = (&counter, &cells);
                scope.spawn(move || {
                    let cell = cells.on(target).add(usize::try_from(thread).expect("3"));
                    for round in 0..ROUNDS {
                        counter.on(Rank::ZERO).fetch_add(world, 1)?;
                        cell.put_nb(world, round)?.wait()?;
                        assert_eq!(cell.get_nb(world)?.wait()?, round);
                    }
                    Ok(())
                })
            })
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().expect("no panic");
        threads.into_iter().map(join).collect()
    });
    outcomes.into_iter().collect::<Result<()>>()?;
    world.barrier()?;
    let total = counter.on(Rank::ZERO).atomic_load(world)?;
    assert_eq!(total, u64::from(world.n_ranks()) * THREADS * ROUNDS);
    world.barrier()
}

fn names_spans_and_works_change_nothing_else(world: &World) -> Result<()> {
    let named = world.named("cells of a case");
    assert_eq!(
        (named.rank(), named.n_ranks()),
        (world.rank(), world.n_ranks())
    );
    let cells = named.alloc_symmetric::<u64>(8)?;
    let there = cells.on(neighbour(world, 1));
    let told = Arc::new(AtomicU64::new(0));
    let most = Arc::clone(&told);
    world.on_work(move |work| {
        most.fetch_max(work.done, Ordering::Relaxed);
    });
    let before = world.costs();
    {
        let _span = world.span("writing");
        let work = world.work("writing cells", 8, Unit::Elements);
        let mut phase = world.phase("cells", 7, "first half");
        for i in 0..8 {
            if i == 4 {
                phase.change("second half");
            }
            there.add(i).put(&named, i as u64)?;
            work.add(1);
        }
    }
    let costs = world.costs() - before;
    assert_eq!((costs.writes, costs.bytes), (8, 64), "{costs}");
    world.barrier()?;
    // Other ranks' work is seen where boards are.
    let total = 8 * u64::from(world.n_ranks());
    assert!(told.load(Ordering::Relaxed) <= total);
    assert!(cells.here().get_vec(world, 8)?.into_iter().eq(0..8));
    world.on_work(|_| ());
    world.barrier()
}

fn a_rank_that_waits_says_for_what(world: &World) -> Result<()> {
    assert!(world.long_waits().contains("waits for nothing"));
    let flag = world.alloc::<u64>(1)?;
    let limit = crate::WAIT_LIMIT;
    thread::scope(|scope| {
        let set = scope.spawn(move || {
            let began = std::time::Instant::now();
            // A wait is noted when it has taken some time.
            let mut text = world.long_waits();
            while !text.contains("for a signal") && began.elapsed() < limit / 2 {
                thread::sleep(Duration::from_millis(1));
                text = world.long_waits();
            }
            flag.atomic_store(world, 1)?;
            world.flush(flag.rank())?;
            Ok(text)
        });
        flag.wait_until(world, |seen| seen == 1)?;
        let text: Result<String> = set.join().expect("no panic");
        let text = text?;
        assert!(text.contains(file!()), "{text}");
        Ok::<(), pgas_core::Error>(())
    })?;
    world.free(flag);
    world.barrier()
}
