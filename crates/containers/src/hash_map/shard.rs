//! A shard: the slots of a map that one rank holds, as a ring of their own.
//!
//! Shards of this host's ranks, this one included, are accessed by loads and stores, wherever the
//! other shards are.

use std::sync::Arc;

use pgas_am::DistObject;
use pgas_core::rma::NearArray;
use pgas_core::{GlobalPtr, Rank, World};

use super::slot::copied::BlockCopy;
use super::slot::local::{Facts, Known, LocalArray, Own, Shared};
use super::slot::remote::{Remote, Steps};
use super::slot::{LayoutOf, RareOf};
use super::view::{RareView, Shape, View, ViewOf};
use crate::object::{Heap, KeyHasher, Object};

/// A view of this rank's shard in the local phase.
type OwnView<'a, K, V, S> = ViewOf<'a, K, V, S, LayoutOf<K, V>, Own>;

/// A view of this rank's shard in another phase.
type SharedView<'a, K, V, S> = ViewOf<'a, K, V, S, LayoutOf<K, V>, Shared>;

/// The shards of a map, as this process reaches them.
pub(super) struct Shards<K: Object, V: Object, S> {
    /// The shape of any one shard.
    shape: Shape<K, V, S>,
    /// The first rank of this host.
    first: u32,
    /// The shard of this rank, if it is reached by loads and stores and nothing is counted.
    own: Option<NearArray<LayoutOf<K, V>>>,
    /// The shards of this host's ranks, if they are reached by loads and stores.
    near: Box<[NearArray<RareOf<K, V>>]>,
}

/// A map's shards on all ranks, for requests.
pub(super) type Served<K, V, S> = DistObject<Arc<Shards<K, V, S>>>;

impl<K: Object, V: Object, S: KeyHasher> Shards<K, V, S> {
    pub(super) fn new(whole: &Shape<K, V, S>) -> Self {
        let (world, n_blocks) = (whole.world(), whole.ring.n_blocks());
        let start = |rank| GlobalPtr::new(rank, whole.start);
        let near = world.near_ranks();
        let near = near.map(|rank| world.near_run(start(rank), n_blocks));
        Self {
            shape: whole.shard(),
            first: world.near_ranks().next().map_or(0, Rank::number),
            own: world.near_run(start(world.rank()), n_blocks),
            near: near.collect::<Option<_>>().unwrap_or_default(),
        }
    }

    pub(super) fn world(&self) -> &World {
        self.shape.world()
    }

    pub(super) fn heap(&self) -> &Heap {
        &self.shape.heap
    }

    /// A view of `rank`'s shard by loads and stores, if that is near. If it `is_still`, no other
    /// rank writes to it.
    #[inline]
    #[track_caller]
    pub(super) fn near(&self, rank: Rank, is_still: bool) -> Option<RareView<'_, K, V, S>> {
        let run = self.near.get(self.index(rank))?;
        let kind = Facts {
            is_shard: true,
            is_still,
            is_counted: self.world().is_counting(),
        };
        Some(self.shape.view(LocalArray::new(run, kind)))
    }

    /// Calls `f` with a view of `rank`'s shard, if this process reaches it by loads and stores. Where
    /// operations are counted, its steps are.
    #[inline]
    #[track_caller]
    pub(super) fn with_near<T>(
        &self,
        rank: Rank,
        f: impl FnOnce(RareView<'_, K, V, S>) -> T,
    ) -> Option<T> {
        let view = self.near(rank, false)?;
        Some(self.world().count_steps(|| f(view)))
    }

    /// A view of this rank's shard in the local phase by loads and stores, while nothing is
    /// counted.
    #[inline]
    #[track_caller]
    pub(super) fn own(&self) -> Option<OwnView<'_, K, V, S>> {
        let run = self.own.as_ref()?;
        Some(self.shape.view(LocalArray::new(run, Known)))
    }

    /// As [`own`](Self::own), in another phase.
    #[inline]
    #[track_caller]
    pub(super) fn shared(&self) -> Option<SharedView<'_, K, V, S>> {
        let run = self.own.as_ref()?;
        Some(self.shape.view(LocalArray::new(run, Known)))
    }

    #[inline]
    fn index(&self, rank: Rank) -> usize {
        rank.number().wrapping_sub(self.first) as usize
    }

    /// A view of this rank's shard in the local phase, by operations on global pointers.
    pub(super) fn own_copied<'a>(&'a self, copy: &'a BlockCopy) -> View<'a, K, V, S, Remote<'a>> {
        let own = self.world().rank();
        self.shape.view_remote(Some(own), Steps::Copied(copy))
    }

    /// A view of `rank`'s shard by operations on global pointers.
    pub(super) fn remote(&self, rank: Rank) -> View<'_, K, V, S, Remote<'_>> {
        self.shape.view_remote(Some(rank), Steps::Blocking)
    }

    /// Whether this process works on `rank`'s shard without a message.
    pub(super) fn is_here(&self, rank: Rank) -> bool {
        self.index(rank) < self.near.len() || rank == self.world().rank()
    }
}
