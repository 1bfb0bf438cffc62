//! A shard: the slots of a map that one rank holds, as a ring of their own.
//!
//! Shards of this host's ranks, this one included, are accessed by loads and stores, wherever the
//! other shards are.

use std::sync::Arc;

use pgas_am::DistObject;
use pgas_core::rma::{Block, NearArray};
use pgas_core::{GlobalPtr, Rank, World};

use super::slot::copied::BlockCopy;
use super::slot::local::{Local, LocalArray};
use super::slot::remote::{Remote, Steps};
use super::slot::{CountedOf, LayoutOf};
use super::view::{Shape, View};
use crate::object::{Heap, KeyHasher, Object};

/// The shards of a map, as this process reaches them.
pub(super) struct Shards<K: Object, V: Object, S> {
    /// The shape of any one shard.
    shape: Shape<K, V, S>,
    /// The first rank of this host.
    first: u32,
    /// The shards of this host's ranks, if they are reached by loads and stores.
    pub(super) local: Box<[NearArray<LayoutOf<K, V>>]>,
    /// As `local`, where operations are counted.
    pub(super) counted: Box<[NearArray<CountedOf<K, V>>]>,
}

/// A view of a shard by loads and stores, in blocks of type `L`. If `IS_STILL`, no other rank
/// writes to it.
pub(super) type ShardView<'a, K, V, S, L, const IS_STILL: bool = false> =
    View<'a, K, V, S, Local<'a, L, true, IS_STILL>>;

/// Evaluates `$body` with a view of the shard of `$rank` in `$view`, if this process reaches it by
/// loads and stores. Where operations are counted, its steps are.
macro_rules! dispatch_shard {
    ($shards:expr, $rank:expr, |$view:ident| $body:expr) => {{
        let (shards, rank) = (&*$shards, $rank);
        if let Some($view) = shards.view::<_, false>(&shards.local, rank) {
            Some($body)
        } else if let Some($view) = shards.view::<_, false>(&shards.counted, rank) {
            Some(shards.world().count_steps(|| $body))
        } else {
            None
        }
    }};
}
pub(super) use dispatch_shard;

/// A map's shards on all ranks, for requests.
pub(super) type Served<K, V, S> = DistObject<Arc<Shards<K, V, S>>>;

impl<K: Object, V: Object, S: KeyHasher> Shards<K, V, S> {
    pub(super) fn new(whole: &Shape<K, V, S>) -> Self {
        let first = whole.world().near_ranks().next().map_or(0, Rank::number);
        Self {
            shape: whole.shard(),
            first,
            local: runs(whole),
            counted: runs(whole),
        }
    }

    pub(super) fn world(&self) -> &World {
        self.shape.world()
    }

    pub(super) fn heap(&self) -> &Heap {
        &self.shape.heap
    }

    /// A view of `rank`'s shard by loads and stores, if it is among `runs`.
    #[inline]
    #[track_caller]
    pub(super) fn view<'a, L: Block, const IS_STILL: bool>(
        &'a self,
        runs: &'a [NearArray<L>],
        rank: Rank,
    ) -> Option<ShardView<'a, K, V, S, L, IS_STILL>> {
        let run = runs.get(self.index(rank))?;
        Some(self.shape.view(LocalArray::new(run)))
    }

    /// A view of this rank's shard in the local phase, if it is among `runs`.
    #[inline]
    #[track_caller]
    pub(super) fn own<'a, L: Block>(
        &'a self,
        runs: &'a [NearArray<L>],
    ) -> Option<ShardView<'a, K, V, S, L, true>> {
        self.view(runs, self.world().rank())
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
        let n_near = self.local.len().max(self.counted.len());
        self.index(rank) < n_near || rank == self.world().rank()
    }
}

/// The blocks of the shards of this host's ranks, if all of them are near.
fn runs<K: Object, V: Object, S, B: Block>(whole: &Shape<K, V, S>) -> Box<[NearArray<B>]> {
    let run = |rank| {
        let start = GlobalPtr::new(rank, whole.start);
        whole.world().near_run(start, whole.ring.n_blocks())
    };
    let runs = whole.world().near_ranks().map(run);
    runs.collect::<Option<_>>().unwrap_or_default()
}
