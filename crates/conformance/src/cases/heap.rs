//! The two heaps: exhaustion, reuse, zeroing, and symmetric offsets.

use pgas_core::{Error, GlobalPtr, Result, Symmetric, World};

use super::{case, case_alone};
use crate::Case;
use crate::support::{assert_panics, neighbour};
use pgas_testkit::{rng, rng_of};

pub(super) const CASES: &[Case] = &[
    case_alone!(
        1,
        an_exhausted_local_heap_says_what_was_asked_and_what_is_left
    ),
    case_alone!(1, an_exhausted_symmetric_heap_is_an_error_on_every_rank),
    case_alone!(1, freed_memory_is_used_again),
    case_alone!(1, reused_memory_is_zeroed),
    case_alone!(1, reused_symmetric_memory_is_zeroed_before_anybody_reads_it),
    case_alone!(1, a_symmetric_allocation_has_one_offset_everywhere),
    case_alone!(1, symmetric_memory_is_reused_only_when_all_have_dropped_it),
    case_alone!(1, random_allocations_never_overlap),
    case_alone!(1, local_allocations_need_no_other_rank),
    case_alone!(1, an_allocation_of_nothing_has_a_place_of_its_own),
    case_alone!(1, memory_is_aligned_as_it_was_asked_for),
];

fn an_exhausted_local_heap_says_what_was_asked_and_what_is_left(world: &World) -> Result<()> {
    let before = world.local_heap_use();
    assert_eq!(before.used + before.free, before.capacity);
    let keep = world.alloc::<u8>(1000)?;
    let n = usize::try_from(before.capacity).expect("a small segment");
    let error = world
        .alloc::<u8>(n)
        .expect_err("no room for all of it again");
    let Error::Exhausted(what) = &error else {
        panic!("{error}");
    };
    assert_eq!(what.rank, world.rank());
    assert_eq!(what.heap, "local");
    assert_eq!(what.requested, before.capacity);
    assert_eq!(what.capacity, before.capacity);
    assert_eq!(what.free, world.local_heap_use().free);
    assert_eq!(what.largest, world.local_heap_use().largest);
    let text = error.to_string();
    for part in ["local heap", &n.to_string(), "PGAS_SEGMENT"] {
        assert!(text.contains(part), "{part:?} is missing in {text:?}");
    }
    assert!(world.alloc::<u64>(usize::MAX).is_err());
    assert!(world.alloc::<[u64; 100]>(usize::MAX / 8).is_err());
    // A failed request takes nothing, and the largest free block can be allocated.
    let all = world.alloc::<u8>(usize::try_from(what.largest).expect("small"))?;
    world.free(all);
    world.free(keep);
    assert_eq!(world.local_heap_use(), before);
    world.barrier()
}

fn an_exhausted_symmetric_heap_is_an_error_on_every_rank(world: &World) -> Result<()> {
    let capacity = usize::try_from(world.symmetric_heap_use().capacity).expect("small");
    let keep = world.alloc_symmetric::<u8>(capacity / 2)?;
    for n in [capacity, capacity / 2 + 1, usize::MAX] {
        let error = world.alloc_symmetric::<u8>(n).expect_err("no room");
        let Error::Exhausted(what) = &error else {
            panic!("{error}");
        };
        assert_eq!((what.rank, what.heap), (world.rank(), "symmetric"));
    }
    // The ranks still agree.
    let small = world.alloc_symmetric::<u64>(8)?;
    small.on(neighbour(world, 1)).put(world, 5)?;
    world.barrier()?;
    assert_eq!(small.here().get(world)?, 5);
    drop(keep);
    world.reclaim()?;
    let large = world.alloc_symmetric::<u8>(capacity / 2)?;
    assert_eq!(large.len(), capacity / 2);
    world.barrier()
}

fn freed_memory_is_used_again(world: &World) -> Result<()> {
    let before = world.local_heap_use();
    let n = usize::try_from(before.capacity / 3).expect("small");
    for _ in 0..20 {
        let a = world.alloc::<u8>(n)?;
        let b = world.alloc::<u8>(n)?;
        assert!(world.local_heap_use().used >= 2 * n as u64);
        world.free(a);
        world.free(b);
    }
    assert_eq!(world.local_heap_use(), before);
    world.barrier()
}

fn reused_memory_is_zeroed(world: &World) -> Result<()> {
    for n in [1, 8, 1000, 500_000] {
        let first = world.alloc::<u64>(n)?;
        assert_eq!(first.get_vec(world, n)?, vec![0; n]);
        first.put_slice(world, &vec![u64::MAX; n])?;
        world.flush(world.rank())?;
        world.free(first);
        let second = world.alloc::<u64>(n)?;
        assert_eq!(second, first, "the memory is the same");
        assert_eq!(second.get_vec(world, n)?, vec![0; n]);
        world.free(second);
    }
    world.barrier()
}

fn reused_symmetric_memory_is_zeroed_before_anybody_reads_it(world: &World) -> Result<()> {
    const N: usize = 3000;
    for round in 0..10 {
        let array = world.alloc_symmetric::<u64>(N)?;
        let there = array.on(neighbour(world, 1));
        assert_eq!(there.get_vec(world, N)?, vec![0; N], "round {round}");
        world.barrier()?;
        there.put_slice(world, &vec![round + 1; N])?;
        world.barrier()?;
        drop(array);
    }
    Ok(())
}

/// Checks that all ranks have the same offset.
fn assert_agreed(world: &World, board: &Symmetric<u64>, offset: u64) -> Result<()> {
    board.here().put(world, offset)?;
    world.barrier()?;
    let there = board.on(neighbour(world, 1));
    assert_eq!(there.get(world)?, offset);
    world.barrier()
}

fn a_symmetric_allocation_has_one_offset_everywhere(world: &World) -> Result<()> {
    let board = world.alloc_symmetric::<u64>(1)?;
    // Local allocations, different on each rank, do not matter.
    let mut own = rng_of(world, 80);
    let mut shared = rng(81);
    let mut live = Vec::new();
    let mut locals = Vec::new();
    for _ in 0..40 {
        locals.push(world.alloc::<u8>(own.usize(..5000))?);
        let array = world.alloc_symmetric::<u16>(shared.usize(..20_000))?;
        assert_agreed(world, &board, array.here().offset_bytes())?;
        live.push(array);
        // Each rank drops its handles in its own order.
        if live.len() > 6 {
            drop(live.swap_remove(own.usize(..live.len())));
        }
    }
    for local in locals {
        world.free(local);
    }
    world.barrier()
}

fn symmetric_memory_is_reused_only_when_all_have_dropped_it(world: &World) -> Result<()> {
    let before = world.symmetric_heap_use().used;
    let first = world.alloc_symmetric::<u64>(100)?;
    let place = first.here();
    let last = world.rank().number() + 1 == world.n_ranks();
    first.here().put(world, 77)?;
    world.barrier()?;
    let kept = last.then_some(first);
    world.reclaim()?;
    let second = world.alloc_symmetric::<u64>(100)?;
    assert_ne!(second.here(), place, "one rank still has it");
    assert_eq!(place.get(world)?, 77);
    world.barrier()?;
    drop((kept, second));
    world.reclaim()?;
    assert_eq!(world.symmetric_heap_use().used, before);
    let third = world.alloc_symmetric::<u64>(100)?;
    assert_eq!(third.here(), place);
    world.barrier()
}

fn random_allocations_never_overlap(world: &World) -> Result<()> {
    let mut own = rng_of(world, 82);
    let mut live: Vec<(GlobalPtr<u8>, usize, u8)> = Vec::new();
    for round in 0..300_u32 {
        if live.len() > 30 || (own.bool() && !live.is_empty()) {
            let (ptr, n, mark) = live.swap_remove(own.usize(..live.len()));
            assert_eq!(ptr.get_vec(world, n)?, vec![mark; n]);
            world.free(ptr);
        } else {
            let n = own.usize(..3000);
            let mark = u8::try_from(round % 255).expect("below 255") + 1;
            let ptr = world.alloc::<u8>(n)?;
            ptr.put_slice(world, &vec![mark; n])?;
            live.push((ptr, n, mark));
        }
        world.flush(world.rank())?;
    }
    for (ptr, n, mark) in live {
        assert_eq!(ptr.get_vec(world, n)?, vec![mark; n]);
        world.free(ptr);
    }
    assert_eq!(world.local_heap_use().used, 0);
    world.barrier()
}

fn local_allocations_need_no_other_rank(world: &World) -> Result<()> {
    if world.rank().number() == 0 {
        for _ in 0..100 {
            let cell = world.alloc::<u64>(10)?;
            cell.put(world, 1)?;
            world.free(cell);
        }
    }
    world.barrier()
}

fn an_allocation_of_nothing_has_a_place_of_its_own(world: &World) -> Result<()> {
    let (a, b) = (world.alloc::<u64>(0)?, world.alloc::<u64>(0)?);
    assert_ne!(a, b);
    assert!(!a.is_null());
    world.free(a);
    world.free(b);
    let array = world.alloc_symmetric::<u64>(0)?;
    assert!(array.is_empty());
    let other = world.alloc_symmetric::<u64>(0)?;
    assert_ne!(array.here(), other.here());
    world.barrier()
}

fn memory_is_aligned_as_it_was_asked_for(world: &World) -> Result<()> {
    let before = world.local_heap_use();
    let mut kept = Vec::new();
    for align in [1, 8, 64, 512, 4096] {
        // Something small between two of them.
        kept.push(world.alloc::<u8>(3)?);
        let local = world.alloc_aligned::<u8>(100, align)?;
        assert_eq!(local.offset_bytes() % align as u64, 0);
        kept.push(local);
        let symmetric = world.alloc_symmetric_aligned::<u8>(100, align)?;
        for rank in world.ranks() {
            assert_eq!(symmetric.on(rank).offset_bytes() % align as u64, 0);
        }
        // At least as the type is.
        let words = world.alloc_aligned::<u64>(5, align)?;
        assert_eq!(words.offset_bytes() % 8, 0);
        words.put_slice(world, &[align as u64; 5])?;
        world.flush(words.rank())?;
        assert_eq!(words.get_vec(world, 5)?, [align as u64; 5]);
        world.free(words);
        world.barrier()?;
    }
    assert_panics("no power of two", || world.alloc_aligned::<u8>(1, 24));
    // Below the alignment of the type, too.
    assert_panics("no power of two", || world.alloc_aligned::<u64>(1, 3));
    assert_panics("no power of two", || world.alloc_aligned::<u64>(1, 0));
    assert_panics("no power of two", || world.alloc_aligned::<u8>(1, 8192));
    for ptr in kept {
        world.free(ptr);
    }
    assert_eq!(world.local_heap_use(), before);
    world.barrier()
}
