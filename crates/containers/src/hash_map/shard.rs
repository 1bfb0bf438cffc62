//! A shard: the slots of a map that one rank holds, as a ring of their own.
//!
//! Shards of this host's ranks, this one included, are accessed by loads and stores, wherever the
//! other shards are.

use std::sync::Arc;

use pgas_am::DistObject;
use pgas_core::rma::NearArray;
use pgas_core::{GlobalPtr, Rank};

use super::slot::LayoutOf;
use super::slot::copied::{BlockCopy, Copied};
use super::slot::local::{Local, LocalArray};
use super::slot::remote::Remote;
use super::view::{Shape, View};
use crate::object::{KeyHasher, Object};

/// The shards of a map, as this process reaches them.
pub(super) struct Shards<K: Object, V: Object, S> {
    /// The shape of any one shard.
    shape: Shape<K, V, S>,
    /// The first rank of this host.
    first: u32,
    local: Box<[NearArray<LayoutOf<K, V>>]>,
}

/// A view of a shard by loads and stores.
pub(super) type LocalShardView<'a, K, V, S> = View<'a, K, V, S, Local<'a, LayoutOf<K, V>, true>>;

/// A view of this rank's shard in the local phase.
pub(super) type OwnView<'a, K, V, S> = View<'a, K, V, S, Local<'a, LayoutOf<K, V>, true, true>>;

/// A map's shards on all ranks, for requests.
pub(super) type Served<K, V, S> = DistObject<Arc<Shards<K, V, S>>>;

impl<K: Object, V: Object, S: KeyHasher> Shards<K, V, S> {
    pub(super) fn new(whole: &Shape<K, V, S>) -> Self {
        let ranks = whole.world().near_ranks();
        let first = ranks.clone().next().map_or(0, Rank::number);
        let n_blocks = whole.ring.n_blocks();
        let local = ranks.map(|rank| {
            let start = GlobalPtr::new(rank, whole.start);
            whole.world().near_run(start, n_blocks)
        });
        Self {
            shape: whole.shard(),
            first,
            local: local.collect::<Option<_>>().unwrap_or_default(),
        }
    }

    /// A view of `rank`'s shard by loads and stores, if this process reaches it so.
    #[inline]
    #[track_caller]
    pub(super) fn local(&self, rank: Rank) -> Option<LocalShardView<'_, K, V, S>> {
        Some(self.shape.view(LocalArray::new(self.run(rank)?)))
    }

    #[inline]
    fn run(&self, rank: Rank) -> Option<&NearArray<LayoutOf<K, V>>> {
        let index = rank.number().wrapping_sub(self.first);
        self.local.get(index as usize)
    }

    /// A view of this rank's shard in the local phase, by loads and stores.
    #[inline]
    #[track_caller]
    pub(super) fn own(&self) -> Option<OwnView<'_, K, V, S>> {
        let own = self.run(self.shape.world().rank())?;
        Some(self.shape.view(LocalArray::new(own)))
    }

    /// A view of this rank's shard in the local phase, by operations on global pointers.
    pub(super) fn own_copied<'a>(
        &'a self,
        copy: &'a BlockCopy,
    ) -> View<'a, K, V, S, Copied<'a, true>> {
        self.shape.view_copied(self.shape.world().rank(), copy)
    }

    /// A view of `rank`'s shard by operations on global pointers.
    pub(super) fn remote(&self, rank: Rank) -> View<'_, K, V, S, Remote<'_, true>> {
        self.shape.view_remote(rank)
    }

    /// Whether this process works on `rank`'s shard without a message.
    pub(super) fn is_here(&self, rank: Rank) -> bool {
        self.local(rank).is_some() || rank == self.shape.world().rank()
    }
}
