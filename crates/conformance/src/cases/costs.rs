//! The cost counters, exact for known sequences.

use std::thread;
use std::time::Duration;

use pgas_core::atomics::{AtomicDomain, AtomicOps};
use pgas_core::backend::{AtomicOp, HandlerId, MessageClass, Sent, SignalUpdate};
use pgas_core::rma::{Fragment, Strides};
use pgas_core::{Costs, Event, GlobalPtr, Lock, Rank, Result, World};

use super::case;
use crate::Case;
use crate::support::{assert_panics, neighbour};

pub(super) const CASES: &[Case] = &[
    case!(1, each_transfer_counts_once_with_its_bytes),
    case!(1, each_transfer_of_pieces_in_flight_counts_them),
    case!(
        1,
        each_transfer_of_pieces_with_vectors_of_their_own_counts_them
    ),
    case!(1, each_atomic_counts_once_with_its_bytes),
    case!(1, each_way_to_write_an_atomic_costs_one),
    case!(1, each_atomic_that_is_begun_costs_one),
    case!(1, a_lock_that_nobody_has_costs_two_atomics_each_way),
    case!(
        2,
        a_lock_that_somebody_has_costs_an_atomic_more_and_one_to_give_up
    ),
    case!(1, costs_are_kept_for_each_peer),
    case!(1, a_barrier_counts_one_barrier),
    case!(1, a_wait_for_signals_only_looks_at_own_words),
    case!(2, a_wait_for_a_signal_costs_one_look_however_long_it_takes),
    case!(1, refused_operations_cost_nothing),
];

/// The cost of `body` on this rank.
fn costs_of(world: &World, body: impl FnOnce() -> Result<()>) -> Result<Costs> {
    let before = world.costs();
    body()?;
    Ok(world.costs() - before)
}

fn reads(reads: u64, bytes: u64) -> Costs {
    Costs {
        reads,
        bytes,
        ..Costs::default()
    }
}

fn writes(writes: u64, bytes: u64) -> Costs {
    Costs {
        writes,
        bytes,
        ..Costs::default()
    }
}

fn atomics(atomics: u64, bytes: u64) -> Costs {
    Costs {
        atomics,
        bytes,
        ..Costs::default()
    }
}

#[track_caller]
fn assert_costs(
    world: &World,
    what: &str,
    expected: Costs,
    body: impl FnOnce() -> Result<()>,
) -> Result<()> {
    assert_eq!(costs_of(world, body)?, expected, "{what}");
    Ok(())
}

fn each_transfer_counts_once_with_its_bytes(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u64>(64)?;
    let there = array.on(neighbour(world, 1));
    world.barrier()?;
    assert_costs(world, "get", reads(1, 8), || there.get(world).map(drop))?;
    assert_costs(world, "put", writes(1, 8), || there.put(world, 1))?;
    assert_costs(world, "get_slice", reads(1, 16), || {
        there.get_slice(world, &mut [0; 2])
    })?;
    assert_costs(world, "get_vec", reads(1, 80), || {
        there.get_vec(world, 10).map(drop)
    })?;
    assert_costs(world, "put_slice", writes(1, 24), || {
        there.put_slice(world, &[1; 3])
    })?;
    assert_costs(world, "get_nb", reads(1, 8), || {
        there.get_nb(world)?.wait().map(drop)
    })?;
    assert_costs(world, "put_nb", writes(1, 8), || {
        there.put_nb(world, 1)?.wait()
    })?;
    assert_costs(world, "get_vec_nb", reads(1, 16), || {
        there.get_vec_nb(world, 2)?.wait().map(drop)
    })?;
    assert_costs(world, "put_vec_nb", writes(1, 32), || {
        there.put_vec_nb(world, vec![1; 4])?.wait().map(drop)
    })?;
    assert_costs(world, "scope", reads(2, 24), || {
        let (mut a, mut b) = ([0], [0; 2]);
        world.scope(|scope| scope.get(there, &mut a).and(scope.get(there, &mut b)))?
    })?;
    let pieces = [2, 3].map(|len| Fragment { ptr: there, len });
    assert_costs(world, "fragments", reads(2, 40), || {
        world.get_fragments(&pieces, &mut [0; 5])
    })?;
    assert_costs(world, "put_fragments", writes(2, 40), || {
        world.put_fragments(&pieces, &[1; 5])
    })?;
    assert_costs(world, "get_indexed", reads(2, 32), || {
        world.get_indexed(there, &[0, 8], 2, &mut [0; 4])
    })?;
    assert_costs(world, "get_each", reads(2, 24), || {
        world.get_each(&mut [(there, &mut [0; 2]), (there.add(9), &mut [0])])
    })?;
    assert_costs(world, "indexed", writes(3, 48), || {
        world.put_indexed(there, &[0, 8, 16], 2, &[1; 6])
    })?;
    let grid = Strides {
        extents: [3, 2],
        global: [8, 1],
        local: [2, 1],
    };
    assert_costs(world, "strided", writes(1, 48), || {
        there.put_strided(world, &grid, &[1; 6])
    })?;
    assert_costs(world, "flush", Costs::default(), || world.flush_all())?;
    world.barrier()
}

fn each_transfer_of_pieces_in_flight_counts_them(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u64>(64)?;
    let there = array.on(neighbour(world, 1));
    let pieces = [2, 3].map(|len| Fragment { ptr: there, len });
    let grid = Strides {
        extents: [3, 2],
        global: [8, 1],
        local: [2, 1],
    };
    world.barrier()?;
    assert_costs(world, "strided_nb", writes(1, 48), || {
        there
            .put_strided_nb(world, &grid, vec![1; 6])?
            .wait()
            .map(drop)
    })?;
    assert_costs(world, "get_strided_nb", reads(1, 48), || {
        there
            .get_strided_nb(world, &grid, vec![0; 6])?
            .wait()
            .map(drop)
    })?;
    assert_costs(world, "put_fragments_nb", writes(2, 40), || {
        world
            .put_fragments_nb(&pieces, vec![1; 5])?
            .wait()
            .map(drop)
    })?;
    assert_costs(world, "get_indexed_nb", reads(2, 32), || {
        world.get_indexed_nb(there, &[0, 8], 2)?.wait().map(drop)
    })?;
    assert_costs(world, "fragments put in a scope", writes(2, 40), || {
        world.scope(|scope| scope.put_fragments(&pieces, &[1; 5]))?
    })?;
    assert_costs(world, "indexed in a scope", reads(2, 32), || {
        let mut out = [0; 4];
        world.scope(|scope| scope.get_indexed(there, &[0, 8], 2, &mut out))?
    })?;
    assert_costs(world, "indexed put in a scope", writes(2, 32), || {
        world.scope(|scope| scope.put_indexed(there, &[0, 8], 2, &[1; 4]))?
    })?;
    assert_costs(world, "strided in a scope", reads(1, 48), || {
        let mut out = [0; 6];
        world.scope(|scope| scope.get_strided(there, &grid, &mut out))?
    })?;
    assert_costs(world, "fragments_nb", reads(2, 40), || {
        world.get_fragments_nb(&pieces)?.wait().map(drop)
    })?;
    assert_costs(world, "indexed_nb", writes(3, 48), || {
        let put = world.put_indexed_nb(there, &[0, 8, 16], 2, vec![1; 6])?;
        put.at_source().wait()?.1.wait()
    })?;
    world.barrier()
}

fn each_transfer_of_pieces_with_vectors_of_their_own_counts_them(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u64>(16)?;
    let there = array.on(neighbour(world, 1));
    world.barrier()?;
    let pieces = [2, 3].map(|len| Fragment { ptr: there, len });
    assert_costs(world, "put_each_nb", writes(2, 24), || {
        let put = world.put_each_nb(vec![(there, vec![1, 2]), (there.add(9), vec![3])])?;
        put.wait().map(drop)
    })?;
    assert_costs(world, "get_each_nb", reads(2, 40), || {
        world.get_each_nb(&pieces)?.wait().map(drop)
    })?;
    assert_costs(world, "each", writes(2, 24), || {
        world.put_each(&[(there, &[1, 2]), (there.add(9), &[3])])
    })?;
    world.barrier()
}

fn each_atomic_counts_once_with_its_bytes(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u64>(16)?;
    let there = array.on(neighbour(world, 1));
    world.barrier()?;
    assert_costs(world, "fetch_add", atomics(1, 8), || {
        there.fetch_add(world, 1).map(drop)
    })?;
    assert_costs(world, "atomic_op", atomics(1, 8), || {
        there.atomic_op(world, AtomicOp::Add, 1)
    })?;
    assert_costs(world, "fetch_op_nb", atomics(1, 4), || {
        let half = there.cast::<u32>();
        half.fetch_op_nb(world, AtomicOp::Add, 1)?.wait().map(drop)
    })?;
    assert_costs(world, "atomic_op_nb", atomics(1, 8), || {
        there.atomic_op_nb(world, AtomicOp::Add, 1)?.wait()
    })?;
    assert_costs(world, "compare_exchange", atomics(1, 8), || {
        there.compare_exchange(world, 0, 0).map(drop)
    })?;
    let signalled = Costs {
        writes: 1,
        ..atomics(1, 24)
    };
    assert_costs(world, "put_signal", signalled, || {
        there.put_signal(world, &[1; 2], there.add(8), SignalUpdate::Add(1))
    })?;
    assert_costs(world, "put_signal_nb", signalled, || {
        let update = SignalUpdate::Add(1);
        let put = there.put_signal_nb(world, vec![1; 2], there.add(8), update)?;
        put.wait().map(drop)
    })?;
    let local = Costs {
        local: 1,
        ..Costs::default()
    };
    assert_costs(world, "count_local", local, || {
        world.count_local();
        Ok(())
    })?;
    world.barrier()
}

fn each_atomic_that_is_begun_costs_one(world: &World) -> Result<()> {
    type Begin = fn(GlobalPtr<u64>, &World) -> Result<Event<u64>>;
    let there = world.alloc_symmetric::<u64>(1)?.on(neighbour(world, 1));
    let one = atomics(1, 8);
    let begun: [Begin; 3] = [
        |word, world| word.atomic_load_nb(world),
        |word, world| word.fetch_add_nb(world, 1),
        |word, world| word.fetch_dec_nb(world),
    ];
    for begin in begun {
        let run = || begin(there, world)?.wait().map(drop);
        assert_costs(world, "a fetch that is begun", one, run)?;
    }
    assert_costs(world, "an update that is begun", one, || {
        there.atomic_xor_nb(world, 1)?.wait()
    })?;
    world.barrier()
}

fn a_wait_for_signals_only_looks_at_own_words(world: &World) -> Result<()> {
    let words = world.alloc_symmetric::<u64>(2)?;
    let [first, second] = [words.here(), words.here().add(1)];
    first.put_slice(world, &[0, 7])?;
    world.flush_all()?;
    let both = || vec![first, second];
    fn is_seven(n: u64) -> bool {
        n == 7
    }
    let waits: [&dyn Fn() -> Result<()>; 4] = [
        &|| second.wait_until(world, is_seven).map(drop),
        &|| second.wait_until_nb(world, is_seven).wait().map(drop),
        &|| {
            let found = world.wait_until_any(&both(), |_, n| is_seven(n))?;
            assert_eq!(found, (1, 7));
            Ok(())
        },
        &|| {
            let found = world.wait_until_any_nb(both(), |_, n| is_seven(n)).wait()?;
            assert_eq!(found, (1, 7));
            Ok(())
        },
    ];
    for (i, wait) in waits.into_iter().enumerate() {
        let costs = costs_of(world, wait)?;
        let n = if i < 2 { 1 } else { 2 };
        assert_eq!(costs, atomics(n, 8 * n), "wait {i} looks at {n} words");
    }
    world.barrier()
}

fn a_wait_for_a_signal_costs_one_look_however_long_it_takes(world: &World) -> Result<()> {
    let words = world.alloc_symmetric::<u64>(4)?;
    words.here().put_slice(world, &[0; 4])?;
    let lock = Lock::new(world, Rank::ZERO)?;
    let is_first = world.rank() == Rank::ZERO;
    let guard = is_first.then(|| lock.lock()).transpose()?;
    world.barrier()?;
    if is_first {
        for i in 0..3 {
            thread::sleep(Duration::from_millis(10));
            for rank in world.ranks().skip(1) {
                words.on(rank).add(i).atomic_store(world, 7)?;
                world.flush(rank)?;
            }
        }
        thread::sleep(Duration::from_millis(10));
        drop(guard);
    } else {
        let is_seven = |n: u64| n == 7;
        let [first, second, third, never] = [0, 1, 2, 3].map(|i| words.here().add(i));
        assert_costs(world, "a wait", atomics(1, 8), || {
            first.wait_until(world, is_seven).map(drop)
        })?;
        assert_costs(world, "an event", atomics(1, 8), || {
            second.wait_until_nb(world, is_seven).wait().map(drop)
        })?;
        assert_costs(world, "for one of two", atomics(2, 16), || {
            // The value may be there before the wait begins: a look at the other comes first.
            let either = [never, third];
            world.wait_until_any(&either, |_, n| is_seven(n)).map(drop)
        })?;
        let costs = costs_of(world, || lock.lock().map(drop))?;
        // Others may come to the queue while it gives the lock back.
        assert!(costs.atomics < 20, "{costs:?}");
    }
    world.barrier()
}

fn each_way_to_write_an_atomic_costs_one(world: &World) -> Result<()> {
    type Fetch = fn(GlobalPtr<u64>, &World) -> Result<u64>;
    type Update = fn(GlobalPtr<u64>, &World) -> Result<()>;
    let fetches: [Fetch; 10] = [
        |word, world| word.atomic_load(world),
        |word, world| word.swap(world, 1),
        |word, world| word.fetch_min(world, 1),
        |word, world| word.fetch_max(world, 1),
        |word, world| word.fetch_sub(world, 1),
        |word, world| word.fetch_inc(world),
        |word, world| word.fetch_dec(world),
        |word, world| word.fetch_and(world, 1),
        |word, world| word.fetch_or(world, 1),
        |word, world| word.fetch_xor(world, 1),
    ];
    let updates: [Update; 10] = [
        |word, world| word.atomic_store(world, 1),
        |word, world| word.atomic_add(world, 1),
        |word, world| word.atomic_min(world, 1),
        |word, world| word.atomic_max(world, 1),
        |word, world| word.atomic_sub(world, 1),
        |word, world| word.atomic_inc(world),
        |word, world| word.atomic_dec(world),
        |word, world| word.atomic_and(world, 1),
        |word, world| word.atomic_or(world, 1),
        |word, world| word.atomic_xor(world, 1),
    ];
    let there = world.alloc_symmetric::<u64>(1)?.on(neighbour(world, 1));
    let one = atomics(1, 8);
    for fetch in fetches {
        assert_costs(world, "a fetch", one, || fetch(there, world).map(drop))?;
    }
    for update in updates {
        assert_costs(world, "an update", one, || update(there, world))?;
    }
    let domain = AtomicDomain::<u64>::new(world, AtomicOps::ALL);
    assert_costs(world, "fetch_op", one, || {
        domain.fetch_op(there, AtomicOp::Add, 1).map(drop)
    })?;
    assert_costs(world, "atomic_op", one, || {
        domain.atomic_op(there, AtomicOp::Add, 1)
    })?;
    assert_costs(world, "atomic_op_nb", one, || {
        domain.atomic_op_nb(there, AtomicOp::Add, 1)?.wait()
    })?;
    assert_costs(world, "fetch_op_nb", one, || {
        domain
            .fetch_op_nb(there, AtomicOp::Add, 1)?
            .wait()
            .map(drop)
    })?;
    assert_costs(world, "compare_exchange", one, || {
        domain.compare_exchange(there, 0, 0).map(drop)
    })?;
    assert_costs(world, "compare_exchange_nb", one, || {
        domain.compare_exchange_nb(there, 0, 0)?.wait().map(drop)
    })?;
    assert_costs(world, "compare_exchange_nb", one, || {
        there.compare_exchange_nb(world, 0, 0)?.wait().map(drop)
    })?;
    world.barrier()
}

fn a_lock_that_nobody_has_costs_two_atomics_each_way(world: &World) -> Result<()> {
    let lock = Lock::new(world, Rank::ZERO)?;
    for rank in world.ranks() {
        if world.rank() == rank {
            assert_costs(world, "lock", atomics(4, 32), || lock.lock()?.unlock())?;
            assert_costs(world, "try_lock", atomics(4, 32), || {
                lock.try_lock().map(drop)
            })?;
            let limit = Duration::from_secs(9);
            let guard = lock.lock_within(limit)?.expect("nobody has it");
            assert_costs(world, "unlock", atomics(2, 16), || guard.unlock())?;
        }
        world.barrier()?;
    }
    Ok(())
}

fn a_lock_that_somebody_has_costs_an_atomic_more_and_one_to_give_up(world: &World) -> Result<()> {
    let lock = Lock::new(world, Rank::ZERO)?;
    let guard = if world.rank() == Rank::ZERO {
        Some(lock.lock()?)
    } else {
        None
    };
    world.barrier()?;
    if world.rank() == Rank::new(1) {
        assert_costs(world, "refused", atomics(3, 24), || {
            lock.try_lock().map(|guard| assert!(guard.is_none()))
        })?;
        // With one look at the own word, however often it looks.
        assert_costs(world, "given up", atomics(5, 40), || {
            let guard = lock.lock_within(Duration::from_millis(5))?;
            assert!(guard.is_none());
            Ok(())
        })?;
    }
    world.barrier()?;
    if let Some(guard) = guard {
        assert_costs(world, "given up", atomics(7, 56), || guard.unlock())?;
    }
    world.barrier()
}

fn costs_are_kept_for_each_peer(world: &World) -> Result<()> {
    const HANDLER: HandlerId = HandlerId(HandlerId::N_RESERVED);
    let array = world.alloc_symmetric::<u64>(1)?;
    world.set_handler(HANDLER, |_, _| {});
    world.barrier()?;
    let all = || {
        world
            .ranks()
            .map(|rank| world.costs_with(rank).unwrap_or_default())
    };
    let before: Vec<Costs> = all().collect();
    for rank in world.ranks() {
        for _ in 0..=rank.number() {
            array.on(rank).fetch_add(world, 1)?;
        }
        array.on(rank).get(world)?;
        let sent = world.try_send(rank, MessageClass::Request, HANDLER, &[b"12345"])?;
        assert_eq!(sent, Sent::Accepted, "an empty queue has room");
    }
    for ((rank, now), before) in world.ranks().zip(all()).zip(before) {
        let n = u64::from(rank.number()) + 1;
        let expected = Costs {
            reads: 1,
            atomics: n,
            messages: 1,
            bytes: 8 + 8 * n + 5,
            ..Costs::default()
        };
        assert_eq!(now - before, expected, "rank {rank}");
    }
    world.barrier()
}

fn a_barrier_counts_one_barrier(world: &World) -> Result<()> {
    let spent = costs_of(world, || {
        world.barrier()?;
        world.barrier()
    })?;
    assert_eq!(spent.barriers, 2);
    assert_eq!((spent.reads, spent.writes, spent.atomics), (0, 0, 0));
    Ok(())
}

fn refused_operations_cost_nothing(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<u64>(1)?;
    let crooked = array.on(neighbour(world, 1)).byte_add(1);
    let spent = costs_of(world, || {
        assert_panics("not aligned", || crooked.put(world, 1));
        assert_panics("not aligned", || crooked.fetch_add(world, 1));
        assert_panics("not aligned", || crooked.get_nb(world));
        Ok(())
    })?;
    assert_eq!(spent, Costs::default());
    world.barrier()
}
