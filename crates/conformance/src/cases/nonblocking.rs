//! Operations in flight: waited for, awaited, dropped, forgotten, and with borrowed buffers.

use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, PoisonError};

use pgas_core::backend::AtomicOp;
use pgas_core::collective::op::Sum;
use pgas_core::{Event, Rank, Result, World};

use super::case;
use crate::Case;
use crate::support::{neighbour, random_values};
use pgas_testkit::rng_of;

pub(super) const CASES: &[Case] = &[
    case!(1, events_may_be_waited_for_in_any_order),
    case!(1, floods_are_waited_for_in_any_order),
    case!(1, a_put_vec_gives_its_vector_back),
    case!(1, events_can_be_awaited_and_joined),
    case!(1, puts_whose_events_are_dropped_complete_by_the_flush),
    case!(1, gets_whose_events_are_dropped_or_forgotten_do_no_harm),
    case!(1, a_rank_may_leave_with_dropped_operations_in_flight),
    case!(1, a_source_is_free_no_later_than_the_operation_is_complete),
    case!(
        1,
        an_event_that_was_tested_to_the_end_still_gives_its_result
    ),
    case!(1, non_blocking_atomics_each_happen_once),
    case!(1, a_scope_completes_its_transfers),
    case!(1, a_scope_completes_its_transfers_when_its_body_panics),
    case!(1, scopes_of_many_transfers_to_all_ranks),
];

fn events_may_be_waited_for_in_any_order(world: &World) -> Result<()> {
    const N: usize = 100;
    let array = world.alloc_symmetric::<u64>(N)?;
    let there = array.on(neighbour(world, 1));
    let mut rng = rng_of(world, 10);
    let values: Vec<u64> = random_values(&mut rng, N);
    let mut puts = Vec::new();
    for (i, value) in values.iter().enumerate() {
        puts.push(there.add(i).put_nb(world, *value)?);
    }
    rng.shuffle(&mut puts);
    for put in puts {
        put.wait()?;
    }
    let mut gets = Vec::new();
    for i in 0..N {
        gets.push((i, there.add(i).get_nb(world)?));
    }
    rng.shuffle(&mut gets);
    for (i, get) in gets {
        assert_eq!(get.wait()?, values[i]);
    }
    world.barrier()
}

/// Hundreds of operations of each kind at once, on words and on longer values. The waits are in
/// order, in reverse order, or for some of them only.
fn floods_are_waited_for_in_any_order(world: &World) -> Result<()> {
    const N: usize = 300;
    let words = world.alloc_symmetric::<u64>(N)?;
    let blocks = world.alloc_symmetric::<[u32; 5]>(N)?;
    let to = neighbour(world, 1);
    let (words, blocks) = (words.on(to), blocks.on(to));
    for order in 0..3 {
        let value = |i: usize| (order * N + i) as u64;
        let block = |i: usize| [u32::try_from(value(i)).expect("small"); 5];
        let mut puts = Vec::new();
        for i in 0..N {
            puts.push(words.add(i).put_nb(world, value(i))?);
            puts.push(blocks.add(i).put_nb(world, block(i))?);
        }
        in_order(order, puts).try_for_each(|put| put.wait())?;
        // Includes the dropped operations.
        world.flush(to)?;
        let begun = (0..N).map(|i| Ok((i, words.add(i).get_nb(world)?)));
        for (i, get) in in_order(order, begun.collect::<Result<Vec<_>>>()?) {
            assert_eq!(get.wait()?, value(i));
        }
        let begun = (0..N).map(|i| Ok((i, blocks.add(i).get_nb(world)?)));
        for (i, get) in in_order(order, begun.collect::<Result<Vec<_>>>()?) {
            assert_eq!(get.wait()?, block(i));
        }
        let swap = |i| words.add(i).compare_exchange_nb(world, value(i), 7);
        let begun = (0..N).map(|i| Ok((i, swap(i)?)));
        for (i, swap) in in_order(order, begun.collect::<Result<Vec<_>>>()?) {
            assert_eq!(swap.wait()?, Ok(value(i)));
        }
    }
    world.barrier()
}

/// The elements in order, in reverse order, or every third of them.
fn in_order<T: 'static>(order: usize, elements: Vec<T>) -> Box<dyn Iterator<Item = T>> {
    match order {
        0 => Box::new(elements.into_iter()),
        1 => Box::new(elements.into_iter().rev()),
        _ => Box::new(elements.into_iter().step_by(3)),
    }
}

fn a_put_vec_gives_its_vector_back(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u32>(1000)?;
    let there = array.on(neighbour(world, 1));
    let mut values: Vec<u32> = Vec::new();
    for n in [1000, 0, 1, 17] {
        values.resize(n, 3);
        values.fill(u32::try_from(n).expect("small"));
        let sent = values.clone();
        values = there.put_vec_nb(world, values)?.wait()?;
        assert_eq!(values, sent);
        assert_eq!(there.get_vec_nb(world, n)?.wait()?, sent);
    }
    world.barrier()
}

fn events_can_be_awaited_and_joined(world: &World) -> Result<()> {
    const N: usize = 40;
    let array = world.alloc_symmetric::<u64>(N)?;
    let there = array.on(neighbour(world, 1));
    let sum = world.block_on(async {
        there.put_nb(world, 1)?.await?;
        let begun: Result<Vec<Event<()>>> = (1..N)
            .map(|i| there.add(i).put_nb(world, i as u64 * 3))
            .collect();
        for event in begun? {
            event.await?;
        }
        let begun: Result<Vec<Event<u64>>> = (0..N).map(|i| there.add(i).get_nb(world)).collect();
        let mut sum = 0;
        for event in begun? {
            sum += event.await?;
        }
        Ok::<_, pgas_core::Error>(sum)
    })??;
    assert_eq!(sum, 1 + 3 * (N as u64 * (N as u64 - 1) / 2));
    world.barrier()
}

fn puts_whose_events_are_dropped_complete_by_the_flush(world: &World) -> Result<()> {
    const N: usize = 64;
    let array = world.alloc_symmetric::<[u64; 4]>(N)?;
    let there = array.on(neighbour(world, 1));
    for round in 0..4_u64 {
        for i in 0..N {
            drop(there.add(i).put_nb(world, [round * 100 + i as u64; 4])?);
        }
        world.flush(there.rank())?;
        let seen = there.get_vec(world, N)?;
        for (i, value) in seen.into_iter().enumerate() {
            assert_eq!(value, [round * 100 + i as u64; 4]);
        }
    }
    world.barrier()
}

fn gets_whose_events_are_dropped_or_forgotten_do_no_harm(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u64>(512)?;
    let there = array.on(neighbour(world, 1));
    for round in 0..50 {
        drop(there.get_vec_nb(world, 512)?);
        let mut tested = there.get_vec_nb(world, 100)?;
        tested.test()?;
        drop(tested);
        drop(there.fetch_op_nb(world, AtomicOp::Add, 1)?);
        // On every rank: a forgotten event that is not complete keeps its world alive, which must
        // be the same on all ranks.
        for rank in world.ranks() {
            forget(array.on(rank).get_nb(world)?);
        }
        if round % 10 == 0 {
            // If memory was freed too early, it would be allocated and overwritten here.
            let canary = vec![0x5a_u8; 4096];
            for _ in 0..8 {
                world.progress()?;
            }
            assert!(canary.iter().all(|byte| *byte == 0x5a));
        }
    }
    world.barrier()?;
    assert_eq!(array.here().atomic_load(world)?, 50);
    world.barrier()
}

/// Like `std::mem::forget`, but leak checkers still find the event.
fn forget(event: Event<u64>) {
    static FORGOTTEN: Mutex<Vec<Event<u64>>> = Mutex::new(Vec::new());
    let mut list = FORGOTTEN.lock().unwrap_or_else(PoisonError::into_inner);
    list.push(event);
}

fn a_rank_may_leave_with_dropped_operations_in_flight(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u64>(512)?;
    for rank in world.ranks() {
        drop(array.on(rank).get_vec_nb(world, 512)?);
        drop(array.on(rank).add(world.rank().index()).put_nb(world, 1)?);
    }
    Ok(())
}

fn a_source_is_free_no_later_than_the_operation_is_complete(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u64>(64)?;
    let there = array.on(neighbour(world, 1));
    for n in [1, 64] {
        let put = there.put_vec_nb(world, vec![5; n])?.at_source();
        let (mut values, mut whole) = put.wait()?;
        // What is under way is not changed any more, and the vector can go out again.
        assert_eq!(values, vec![5; n]);
        values.fill(6);
        while !whole.test()? {}
        assert_eq!(there.get_vec(world, n)?, vec![5; n]);
        let (values, whole) = there.put_vec_nb(world, values)?.at_source().wait()?;
        whole.wait()?;
        let (got, whole) = there.get_vec_nb(world, n)?.at_source().wait()?;
        assert_eq!(got, values);
        whole.wait()?;
        // Dropped at either stage.
        drop(there.put_vec_nb(world, vec![7; n])?.at_source());
        let (_, whole) = there.put_vec_nb(world, vec![7; n])?.at_source().wait()?;
        drop(whole);
        world.flush(there.rank())?;
        assert_eq!(there.get_vec(world, n)?, vec![7; n]);
    }
    let ((), whole) = there.put_nb(world, 8)?.at_source().wait()?;
    whole.wait()?;
    let add = there.fetch_op_nb(world, AtomicOp::Add, 1)?.at_source();
    let (former, whole) = add.wait()?;
    assert_eq!(former, 8);
    whole.wait()?;
    let sum = world.allreduce_nb(1_u32, Sum).at_source();
    let (sum, whole) = sum.wait()?;
    assert_eq!(sum, world.n_ranks());
    whole.wait()?;
    world.barrier()
}

fn an_event_that_was_tested_to_the_end_still_gives_its_result(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u64>(1)?;
    let there = array.on(neighbour(world, 1));
    there.put_nb(world, 5)?.wait()?;
    let mut get = there.get_nb(world)?;
    while !get.test()? {}
    assert!(get.test()?, "what is complete stays complete");
    assert_eq!(get.wait()?, 5);
    let mut get = there.get_nb(world)?;
    get.test()?;
    assert_eq!(world.block_on(get)??, 5);
    assert_eq!(Event::ready(8).wait()?, 8);
    world.barrier()
}

fn non_blocking_atomics_each_happen_once(world: &World) -> Result<()> {
    const N: u64 = 100;
    let n_ranks = world.n_ranks() as usize;
    let array = world.alloc_symmetric::<u64>(1 + n_ranks * 100)?;
    let counter = array.on(Rank::ZERO);
    let begun: Result<Vec<_>> = (0..N)
        .map(|_| counter.fetch_op_nb(world, AtomicOp::Add, 1))
        .collect();
    for event in begun? {
        let ticket = usize::try_from(event.wait()?).expect("small");
        // Each ticket was drawn once.
        let slot = array.on(Rank::ZERO).add(1 + ticket);
        assert_eq!(slot.fetch_add(world, 1)?, 0, "ticket {ticket}");
    }
    world.barrier()?;
    assert_eq!(counter.atomic_load(world)?, N * n_ranks as u64);
    world.barrier()
}

fn a_scope_completes_its_transfers(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u64>(100)?;
    let there = array.on(neighbour(world, 1));
    let mut rng = rng_of(world, 11);
    for _ in 0..20 {
        let values: Vec<u64> = random_values(&mut rng, 100);
        let (low, high) = values.split_at(rng.usize(..=100));
        let middle = low.len();
        let n = world.scope(|scope| {
            scope.put(there, low)?;
            scope.put(there.add(middle), high)?;
            Ok::<_, pgas_core::Error>(middle)
        })??;
        assert_eq!(n, middle);
        let mut seen = vec![0; 100];
        let (left, right) = seen.split_at_mut(middle);
        world.scope(|scope| {
            scope.get(there.add(middle), right)?;
            scope.get(there, left)
        })??;
        assert_eq!(seen, values);
    }
    world.barrier()
}

fn a_scope_completes_its_transfers_when_its_body_panics(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u64>(64)?;
    let there = array.on(neighbour(world, 1));
    there.put_slice(world, &[3; 64])?;
    world.flush(there.rank())?;
    let mut seen = [0; 64];
    let values = [4; 8];
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
        world.scope(|scope| {
            scope.get(there.add(8), &mut seen[8..])?;
            scope.put(there, &values)?;
            // Not `panic!`, which would print a message.
            panic::resume_unwind(Box::new("thrown on purpose"));
            #[expect(unreachable_code, reason = "gives the closure its type")]
            Ok::<_, pgas_core::Error>(())
        })
    }));
    let payload = outcome.expect_err("the panic comes through");
    assert_eq!(payload.downcast_ref(), Some(&"thrown on purpose"));
    assert_eq!(seen[8..], [3; 56]);
    assert_eq!(there.get_vec(world, 8)?, values);
    world.barrier()
}

fn scopes_of_many_transfers_to_all_ranks(world: &World) -> Result<()> {
    let n = world.n_ranks() as usize;
    let array = world.alloc_symmetric::<u64>(n * 8)?;
    let me = world.rank().index();
    let mine: Vec<Vec<u64>> = (0..n).map(|to| vec![(me * n + to) as u64; 8]).collect();
    world.scope(|scope| {
        for (rank, values) in world.ranks().zip(&mine) {
            scope.put(array.on(rank).add(me * 8), values)?;
        }
        Ok::<_, pgas_core::Error>(())
    })??;
    world.barrier()?;
    let mut all = vec![vec![0; n * 8]; n];
    world.scope(|scope| {
        for (rank, out) in world.ranks().zip(&mut all) {
            scope.get(array.on(rank), out)?;
        }
        Ok::<_, pgas_core::Error>(())
    })??;
    for (to, values) in all.into_iter().enumerate() {
        for (i, value) in values.into_iter().enumerate() {
            assert_eq!(value, (i / 8 * n + to) as u64);
        }
    }
    world.barrier()
}
