//! Global pointers in global memory: linked structures across ranks.

use std::collections::HashSet;

use pgas_core::{GlobalPtr, Rank, Result, World};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::case;
use crate::Case;
use crate::support::{assert_panics, neighbour};
use pgas_testkit::rng;

pub(super) const CASES: &[Case] = &[
    case!(1, a_pointer_means_the_same_on_every_rank),
    case!(1, a_linked_list_across_ranks_can_be_walked_by_all),
    case!(1, concurrent_pushes_onto_one_stack_lose_no_node),
    case!(1, zeroed_memory_holds_null_pointers),
    case!(1, arithmetic_follows_the_elements),
];

/// A node that any rank may follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Node {
    next: GlobalPtr<Self>,
    value: u64,
}

fn a_pointer_means_the_same_on_every_rank(world: &World) -> Result<()> {
    let shown = world.alloc_symmetric::<GlobalPtr<u64>>(world.n_ranks() as usize)?;
    let mine = world.alloc::<u64>(3)?;
    mine.add(2)
        .put(world, u64::from(world.rank().number()) + 100)?;
    for rank in world.ranks() {
        shown.on(rank).add(world.rank().index()).put(world, mine)?;
    }
    world.barrier()?;
    for rank in world.ranks() {
        let its = shown.here().add(rank.index()).get(world)?;
        assert_eq!(its.rank(), rank);
        assert_eq!(its.add(2).get(world)?, u64::from(rank.number()) + 100);
    }
    world.barrier()?;
    world.free(mine);
    Ok(())
}

/// Nodes in a random order over all ranks. Each rank links its own nodes.
fn a_linked_list_across_ranks_can_be_walked_by_all(world: &World) -> Result<()> {
    const EACH: usize = 30;
    let n = world.n_ranks() as usize;
    let nodes = world.alloc_symmetric::<Node>(EACH)?;
    let mut order: Vec<GlobalPtr<Node>> = world
        .ranks()
        .flat_map(|rank| (0..EACH).map(move |i| (rank, i)))
        .map(|(rank, i)| nodes.on(rank).add(i))
        .collect();
    rng(70).shuffle(&mut order);
    for (i, place) in order.iter().enumerate() {
        if place.rank() == world.rank() {
            let next = order.get(i + 1).copied().unwrap_or(GlobalPtr::NULL);
            let value = i as u64;
            place.put(world, Node { next, value })?;
        }
    }
    world.barrier()?;
    let (mut at, mut count) = (order[0], 0);
    while !at.is_null() {
        let node = at.get(world)?;
        assert_eq!(node.value, count);
        count += 1;
        at = node.next;
    }
    assert_eq!(count, (EACH * n) as u64);
    world.barrier()
}

/// A Treiber stack whose nodes are in the memory of the ranks that made them.
fn concurrent_pushes_onto_one_stack_lose_no_node(world: &World) -> Result<()> {
    const EACH: u64 = 40;
    let top = world.alloc_symmetric::<u64>(1)?;
    let top = top.on(Rank::ZERO);
    for i in 0..EACH {
        let value = u64::from(world.rank().number()) * EACH + i;
        let place = world.alloc::<Node>(1)?;
        let mut bits = top.atomic_load(world)?;
        loop {
            let next = GlobalPtr::from_bits(bits);
            place.put(world, Node { next, value })?;
            world.flush(place.rank())?;
            match top.compare_exchange(world, bits, place.to_bits())? {
                Ok(_) => break,
                Err(now) => bits = now,
            }
        }
    }
    world.barrier()?;
    let mut at = GlobalPtr::<Node>::from_bits(top.atomic_load(world)?);
    let mut seen = HashSet::new();
    while !at.is_null() {
        let node = at.get(world)?;
        assert!(seen.insert(node.value), "node {} twice", node.value);
        at = node.next;
    }
    assert_eq!(seen.len() as u64, EACH * u64::from(world.n_ranks()));
    world.barrier()
}

fn zeroed_memory_holds_null_pointers(world: &World) -> Result<()> {
    let nodes = world.alloc_symmetric::<Node>(4)?;
    let seen = nodes.on(neighbour(world, 1)).get_vec(world, 4)?;
    assert!(seen.iter().all(|node| node.next.is_null()));
    world.barrier()
}

fn arithmetic_follows_the_elements(world: &World) -> Result<()> {
    let array = world.alloc_symmetric::<[u8; 5]>(20)?;
    let there = array.on(neighbour(world, 1));
    for i in 0..20 {
        there
            .add(i)
            .put(world, [u8::try_from(i).expect("small"); 5])?;
    }
    world.flush(there.rank())?;
    let bytes = there.cast::<u8>().get_vec(world, 100)?;
    for (i, byte) in bytes.into_iter().enumerate() {
        assert_eq!(usize::from(byte), i / 5);
    }
    assert_eq!(there.add(13).offset_from(there.add(4)), 9);
    assert_eq!(there.add(4).offset_from(there.add(13)), -9);
    assert_eq!(there.add(3), there.byte_add(15));
    assert!(there < there.add(1));
    assert_eq!(there.add(13).sub(9), there.add(4));
    assert_eq!(there.add(4).byte_sub(7).byte_add(2), there.add(3));
    let offset = usize::try_from(there.offset_bytes()).expect("a segment is smaller");
    assert_panics("below the start of the segment", || {
        there.byte_sub(offset as u64 + 1)
    });
    assert_panics("below the start of the segment", || there.sub(offset));
    world.barrier()
}
