//! The part of a map's slots that one rank has, as a ring of its own.
//!
//! Ranks of this host, this one among them, are reached by instructions, whatever the others are.

use std::marker::PhantomData;
use std::sync::Arc;

use pgas_am::DistObject;
use pgas_core::rma::{Block as _, NearArray};
use pgas_core::{Rank, World};

use super::hash::Ring;
use super::slot::local::Local;
use super::slot::remote::{Remote, RemoteArray};
use super::slot::{Access, LayoutOf};
use super::view::View;
use crate::object::{Heap, KeyHasher, Object};

/// The parts of a map's slots that a rank works on.
pub(super) struct Parts<K: Object, V: Object, S> {
    world: World,
    /// Of any one rank.
    ring: Ring<LayoutOf<K, V>>,
    start: u64,
    /// The first rank of this host, and what this process reaches of it and those behind it.
    first: u32,
    near: Box<[NearArray<LayoutOf<K, V>>]>,
    heap: Arc<Heap>,
    hasher: Arc<S>,
}

/// A part that this process reaches by its own instructions.
type NearView<'a, K, V, S> = View<'a, K, V, S, Local<'a, LayoutOf<K, V>>>;

/// A map's parts on all ranks.
pub(super) type Served<K, V, S> = DistObject<Arc<Parts<K, V, S>>>;

impl<K: Object, V: Object, S: KeyHasher> Parts<K, V, S> {
    /// Of a map whose slots are not all local.
    pub(super) fn new(
        world: &World,
        (ring, start): (&Ring<LayoutOf<K, V>>, u64),
        heap: &Arc<Heap>,
        hasher: &Arc<S>,
    ) -> Self {
        let ranks = world.near_ranks();
        let first = ranks.clone().next().map_or(0, Rank::number);
        let near = ranks.map(|rank| world.near_part(rank, start, ring.n_blocks()));
        Self {
            world: world.clone(),
            ring: ring.part(),
            start,
            first,
            near: near.collect::<Option<_>>().unwrap_or_default(),
            heap: Arc::clone(heap),
            hasher: Arc::clone(hasher),
        }
    }

    /// What `rank` has, if this process reaches it by its own instructions.
    #[inline]
    pub(super) fn near(&self, rank: Rank) -> Option<NearView<'_, K, V, S>> {
        let index = rank.number().wrapping_sub(self.first);
        let part = self.near.get(index as usize)?;
        Some(self.view(part))
    }

    /// What `rank` has, by operations on global pointers.
    pub(super) fn part(&self, rank: Rank) -> View<'_, K, V, S, Remote<'_>> {
        self.view(RemoteArray {
            world: &self.world,
            first: rank,
            start: self.start,
            stride: LayoutOf::<K, V>::BYTES,
        })
    }

    /// Whether this process works on what `rank` has without asking it.
    pub(super) fn is_here(&self, rank: Rank) -> bool {
        self.near(rank).is_some() || rank == self.world.rank()
    }

    #[inline]
    fn view<'a, R: Access<'a>>(&'a self, all: R::All) -> View<'a, K, V, S, R> {
        View {
            all,
            world: &self.world,
            ring: &self.ring,
            heap: &self.heap,
            hasher: &self.hasher,
            slot: PhantomData,
        }
    }
}
