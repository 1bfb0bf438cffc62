//! Queues of both kinds in each phase, and filters: many elements at once. Of one type of elements,
//! since every backend compiles them.

use pgas_containers::queue::PushError;
use pgas_containers::{BloomFilter, CircularQueue, FastQueue};
use pgas_core::collective::op::Sum;
use pgas_core::{Rank, Result, World};

use super::case;
use crate::Case;

pub(super) const CASES: &[Case] = &[
    case!(
        1,
        elements_that_all_ranks_push_are_popped_once_while_others_push
    ),
    case!(1, what_is_pushed_in_one_phase_is_popped_in_the_next_one),
    case!(1, the_host_has_the_queue_to_itself_in_the_local_phase),
    case!(1, items_of_all_ranks_are_in_a_filter_until_it_is_cleared),
    case!(1, elements_of_many_parts_come_back_as_they_were),
];

/// Elements of each rank.
const EACH: u64 = 24;

/// All elements of all ranks: those of rank `r` from `1000 * r` on.
fn assert_all_popped_once(world: &World, mine: &[u64]) -> Result<()> {
    let mut sums = [mine.len() as u64, mine.iter().sum()];
    world.allreduce_slice(&mut sums, Sum)?;
    let n = u64::from(world.n_ranks());
    let all = (0..n).flat_map(|rank| (0..EACH).map(move |i| 1000 * rank + i));
    assert_eq!(sums, [n * EACH, all.sum()]);
    // Those of one rank come in its order.
    for rank in 0..n {
        let of_rank = mine.iter().filter(|x| *x / 1000 == rank);
        assert!(of_rank.is_sorted());
    }
    Ok(())
}

fn elements_that_all_ranks_push_are_popped_once_while_others_push(world: &World) -> Result<()> {
    let host = Rank::from_index(world.ranks().len() / 2);
    let queue = CircularQueue::<u64>::with_capacity(world, host, 16)?;
    let first = 1000 * u64::from(world.rank().number());
    let (mut next, mut popped) = (0, Vec::new());
    // Each rank pops as many as it pushes, so the small ring always has room again.
    while next < EACH || (popped.len() as u64) < EACH {
        let some: Vec<u64> = (next..EACH.min(next + 3)).map(|i| first + i).collect();
        match queue.push_slice(&some) {
            Ok(()) => next += some.len() as u64,
            Err(PushError::Full(())) => {}
            Err(PushError::Failed(error)) => return Err(error),
        }
        let most = usize::try_from(EACH).expect("small") - popped.len();
        popped.extend(
            queue
                .pop_many(most.min(4))
                .map_err(pgas_core::Error::from)?,
        );
        let mut one = [0];
        if popped.len() < usize::try_from(EACH).expect("small") && queue.pop_slice(&mut one)? == 1 {
            popped.push(one[0]);
        }
    }
    world.barrier()?;
    assert_eq!(queue.pop()?, None);
    assert_all_popped_once(world, &popped)?;
    world.barrier()
}

fn what_is_pushed_in_one_phase_is_popped_in_the_next_one(world: &World) -> Result<()> {
    let n = world.ranks().len();
    let first = 1000 * u64::from(world.rank().number());
    let capacity = usize::try_from(EACH).expect("small") * n;
    let mut queue = FastQueue::<u64>::with_capacity(world, Rank::ZERO, capacity)?;
    for _ in 0..3 {
        let half: Vec<u64> = (0..EACH / 2).map(|i| first + i).collect();
        queue.push_slice(&half).map_err(pgas_core::Error::from)?;
        for i in EACH / 2..EACH {
            queue.push(first + i).map_err(pgas_core::Error::from)?;
        }
        let popping = queue.into_pop_phase()?;
        let mut popped = Vec::new();
        loop {
            let some = popping.pop_many(5).map_err(pgas_core::Error::from)?;
            if some.is_empty() {
                break;
            }
            popped.extend(some);
        }
        assert_eq!(popping.pop_slice(&mut [0; 3])?, 0);
        assert_all_popped_once(world, &popped)?;
        queue = popping.into_push_phase()?;
    }
    // A full queue gives the value back, and one that was resized takes it.
    let circular = CircularQueue::<u64>::with_capacity(world, Rank::ZERO, 2)?;
    let mut circular = circular.into_push_phase()?;
    if world.rank() == Rank::ZERO {
        circular
            .push_slice(&[1, 2])
            .map_err(pgas_core::Error::from)?;
        let refused = circular.push(3).expect_err("it has room for two");
        assert_eq!(refused.full()?, 3);
    }
    circular.resize(4)?;
    let circular = circular.into_push_pop_phase()?;
    assert_eq!(circular.len()?, 2);
    world.barrier()
}

fn the_host_has_the_queue_to_itself_in_the_local_phase(world: &World) -> Result<()> {
    let host = Rank::from_index(world.ranks().len() - 1);
    let queue = CircularQueue::<u64>::with_capacity(world, host, 100)?;
    queue
        .push(world.rank().number().into())
        .map_err(pgas_core::Error::from)?;
    let mut local = queue.into_local_phase()?;
    if world.rank() == host {
        let n = world.ranks().len();
        assert_eq!(local.local_len(), n);
        let mut sum = 0;
        for _ in 0..n {
            sum += local.local_pop()?.expect("as many as were pushed");
        }
        assert_eq!(sum, (0..n as u64).sum());
        assert_eq!(local.local_pop()?, None);
        for i in 0..10 {
            local.local_push(i).map_err(pgas_core::Error::from)?;
        }
    }
    let queue = local.into_push_pop_phase()?;
    assert_eq!(queue.len()?, 10);
    world.barrier()?;
    let mut taken = 0;
    while queue.pop()?.is_some() {
        taken += 1;
    }
    assert_eq!(world.allreduce(taken, Sum)?, 10);
    world.barrier()
}

fn items_of_all_ranks_are_in_a_filter_until_it_is_cleared(world: &World) -> Result<()> {
    let n = u64::from(world.n_ranks());
    let filter = BloomFilter::<u64>::with_rate(world, 400, 0.0001)?;
    assert!(filter.rate() <= 0.0001 && filter.n_bits() > 0 && filter.bytes() > 0);
    let of_rank = |rank: u64| -> Vec<u64> { (0..20).map(|i| 1000 * rank + i).collect() };
    let mine = of_rank(world.rank().number().into());
    for _ in 0..2 {
        let inserted = filter.insert_many(&mine)?;
        assert!(inserted.iter().any(|seemed_there| !seemed_there));
        assert!(filter.insert_many(&mine)?.into_iter().all(|there| there));
        world.barrier()?;
        for rank in 0..n {
            assert!(
                filter
                    .contains_many(&of_rank(rank))?
                    .into_iter()
                    .all(|there| there)
            );
        }
        let others: Vec<u64> = (0..50).map(|i| 1_000_000 + i).collect();
        let seem_there = filter
            .contains_many(&others)?
            .into_iter()
            .filter(|there| *there);
        assert!(seem_there.count() < 5);
        filter.clear()?;
        assert!(filter.contains_many(&mine)?.into_iter().all(|there| !there));
        world.barrier()?;
    }
    Ok(())
}

/// An element with an array of tuples, and with names of ranks.
type Parts = (Rank, u8, [(u64, String); 2], bool);

fn elements_of_many_parts_come_back_as_they_were(world: &World) -> Result<()> {
    let of = |rank: Rank, i: u8| -> Parts {
        let text = |n: u8| (n.into(), "text".repeat(usize::from(n)));
        (rank, i, [text(i), text(20 + i)], i.is_multiple_of(2))
    };
    let n_elements = 6 * world.ranks().len();
    let queue = FastQueue::<Parts>::with_capacity(world, Rank::ZERO, n_elements)?;
    for i in 0..6 {
        queue.push(of(world.rank(), i))?;
    }
    let queue = queue.into_pop_phase()?;
    let mut n_popped = 0_u64;
    while let Some(element) = queue.pop()? {
        assert_eq!(element, of(element.0, element.1));
        n_popped += 1;
    }
    assert_eq!(world.allreduce(n_popped, Sum)?, n_elements as u64);
    world.barrier()
}
