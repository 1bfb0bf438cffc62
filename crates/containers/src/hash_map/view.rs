//! A view of a map's slots, or of one shard, with one way of access.

use std::marker::PhantomData;
use std::sync::Arc;

use pgas_core::rma::{Block as _, FourWords, Share};
use pgas_core::{Rank, Team, World};
use pgas_lockfree::slots::SlotMemory as _;
use pgas_lockfree::slots::probe::{self, Lines, Slots, States};

use super::hash::{self, Hash, Ring};
use super::slot::layout::{Blocks as _, LINE};
use super::slot::local::{Facts, Local, Whole};
use super::slot::remote::{Remote, RemoteArray, Steps};
use super::slot::{Access, GlobalSlot, LayoutOf, RareOf};
use crate::Error;
use crate::object::{Heap, KeyHasher, KeyOf, Object};

/// Calls `body` out of line, so that its code does not bloat the caller.
#[inline(never)]
pub(super) fn out_of_line<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// The shape of a map or of one shard, common to all ways of access.
pub(super) struct Shape<K: Object, V: Object, S> {
    pub(super) team: Team,
    pub(super) ring: Ring<LayoutOf<K, V>>,
    /// The offset of the first block in every rank's segment.
    pub(super) start: u64,
    pub(super) heap: Arc<Heap>,
    pub(super) hasher: Arc<S>,
}

impl<K: Object, V: Object, S> Clone for Shape<K, V, S> {
    fn clone(&self) -> Self {
        self.with_ring(self.ring)
    }
}

impl<K: Object, V: Object, S> Shape<K, V, S> {
    fn with_ring(&self, ring: Ring<LayoutOf<K, V>>) -> Self {
        Self {
            team: self.team.clone(),
            ring,
            start: self.start,
            heap: Arc::clone(&self.heap),
            hasher: Arc::clone(&self.hasher),
        }
    }

    #[inline]
    pub(super) fn world(&self) -> &World {
        self.team.world()
    }

    /// The rank of the home slot of a key with this hash.
    #[inline]
    pub(super) fn home_rank(&self, hash: Hash) -> Rank {
        self.team.world_rank(self.ring.home(hash).member())
    }

    // Inlined, as `Hash::of`.
    #[inline(always)]
    pub(super) fn hash(&self, key: &KeyOf<K>) -> Hash
    where
        S: KeyHasher,
    {
        Hash::of::<K>(key, &*self.hasher)
    }

    /// The shape of one rank's shard. It is the same for all ranks.
    pub(super) fn shard(&self) -> Self {
        self.with_ring(self.ring.shard())
    }

    /// A view with access `R`.
    pub(super) fn view<'a, R: Access<'a>>(&'a self, all: R::All) -> View<'a, K, V, S, R> {
        let slot = PhantomData;
        View {
            all,
            shape: self,
            slot,
        }
    }

    /// A view by `steps` on global pointers, of the slots of all ranks or of one rank's `shard`.
    pub(super) fn view_remote<'a>(
        &'a self,
        shard: Option<Rank>,
        steps: Steps<'a>,
    ) -> View<'a, K, V, S, Remote<'a>> {
        self.view(RemoteArray {
            team: &self.team,
            shard,
            start: self.start,
            stride: LayoutOf::<K, V>::BYTES,
            steps,
        })
    }
}

/// The slots of a map or shard, with access `R`.
pub(super) struct View<'a, K: Object, V: Object, S, R: Access<'a>> {
    pub(super) all: R::All,
    pub(super) shape: &'a Shape<K, V, S>,
    slot: PhantomData<GlobalSlot<K, V, R>>,
}

impl<'a, K: Object, V: Object, S, R: Access<'a>> Clone for View<'a, K, V, S, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<'a, K: Object, V: Object, S, R: Access<'a>> Copy for View<'a, K, V, S, R> {}

/// A view of local slots in blocks of type `L`, of which `M` is known.
pub(super) type ViewOf<'a, K, V, S, L, M> = View<'a, K, V, S, Local<'a, L, M>>;

/// A view of all slots of a map, all local.
pub(super) type LocalView<'a, K, V, S> = ViewOf<'a, K, V, S, LayoutOf<K, V>, Whole>;

/// A view of local slots by [rare](super::slot::local::Kind) ways of access.
pub(super) type RareView<'a, K, V, S> = ViewOf<'a, K, V, S, RareOf<K, V>, Facts>;

/// A cache line of slots.
pub(super) type LineOf<'a, R> = Share<'a, <R as Access<'a>>::Block>;

/// The start of a probe for a key.
pub(super) type Home<K, V, R> = probe::Home<GlobalSlot<K, V, R>>;

impl<'a, K: Object, V: Object, S, R: Access<'a>> Slots for View<'a, K, V, S, R> {
    type Slot = GlobalSlot<K, V, R>;

    #[inline]
    fn next(&self, slot: &GlobalSlot<K, V, R>) -> GlobalSlot<K, V, R> {
        let former = slot.position();
        let next = self.slot(self.shape.ring.next(former));
        if R::is_still(self.all) && !next.position().is_same_block(former) {
            next.access.note_block();
        }
        next
    }

    #[inline]
    fn is_wrapped(&self, slot: &GlobalSlot<K, V, R>, home: &GlobalSlot<K, V, R>) -> bool {
        let is_wrapped = || slot.position().block < home.position().block;
        // The first block of a shard follows its last one.
        slot.is_same(home) || self.is_shard() && is_wrapped()
    }

    #[inline]
    fn begin(&self, home: &GlobalSlot<K, V, R>) -> GlobalSlot<K, V, R> {
        match R::n_passed(self.all) {
            0 => *home,
            n => self.slot(self.shape.ring.blocks_on(home.position(), n)),
        }
    }

    #[inline]
    fn pass(&self, home: &GlobalSlot<K, V, R>, slot: &GlobalSlot<K, V, R>) {
        let (home, slot) = (home.position(), slot.position());
        R::pass(self.all, || self.shape.ring.n_blocks_to(home, slot));
    }

    /// Whether others hold further slots. The shard of one rank alone is the whole ring.
    #[inline]
    fn is_shard(&self) -> bool {
        R::is_shard(self.all) && self.shape.team.n_ranks() > 1
    }

    #[inline]
    fn heap(&self) -> &Heap {
        View::heap(self)
    }
}

impl<'a, K: Object, V: Object, S, R: Access<'a>> Lines for View<'a, K, V, S, R> {
    type Line = LineOf<'a, R>;
    type Four = FourWords;

    #[inline]
    fn states(&self, line: &LineOf<'a, R>) -> States<FourWords> {
        States::load(&line.block, LayoutOf::<K, V>::SLOTS)
    }

    #[inline]
    fn line_slot(&self, line: &LineOf<'a, R>, index: usize) -> GlobalSlot<K, V, R> {
        let position = hash::Position::begin(line.rank, line.index).with_index(index);
        GlobalSlot::new(R::in_block(self.all, position, line.block))
    }

    #[inline]
    fn first_in_probe_order(&self, line: &LineOf<'a, R>, free: u32) -> usize {
        hash::first_in_probe_order::<LayoutOf<K, V>>(free, line.rest)
    }

    #[inline]
    fn next_line(&self, line: LineOf<'a, R>) -> Option<LineOf<'a, R>> {
        let index = line.index + 1;
        if index >= self.shape.ring.n_whole_blocks() {
            return None;
        }
        let block = R::local_array(self.all)?.block(line.rank, index);
        R::note_line(self.all, &block);
        Some(Share {
            index,
            block,
            ..line
        })
    }
}

impl<'a, K: Object, V: Object, S, R: Access<'a>> View<'a, K, V, S, R> {
    /// The heap for encodings that are longer than their slots.
    #[inline]
    pub(super) fn heap(&self) -> &'a Heap {
        R::heap(self.all).unwrap_or(&self.shape.heap)
    }

    #[inline]
    pub(super) fn slot(&self, position: hash::Position) -> GlobalSlot<K, V, R> {
        GlobalSlot::new(R::new(self.all, position))
    }
}

impl<'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>> View<'a, K, V, S, R> {
    /// Whether the states of a line are loaded together. This costs as much as the load of one
    /// state.
    pub(super) const HAS_LINES: bool = R::IS_LOCAL && LayoutOf::<K, V>::IS_PACKED;

    #[inline]
    pub(super) fn hash(&self, key: &KeyOf<K>) -> Hash {
        self.shape.hash(key)
    }

    /// The hash that chooses the home slot within this view.
    #[inline]
    pub(super) fn of_view(&self, hash: Hash) -> Hash {
        if R::is_shard(self.all) {
            hash.of_rank(self.shape.team.n_ranks() as usize)
        } else {
            hash
        }
    }

    #[inline]
    pub(super) fn home(&self, hash: Hash) -> Home<K, V, R> {
        let slot = self.slot(self.shape.ring.home(self.of_view(hash)));
        slot.access.note_block();
        let fingerprint = hash.fingerprint();
        Home { slot, fingerprint }
    }

    /// The home line of a key with this hash, if it has all its slots.
    #[inline]
    pub(super) fn home_line(&self, hash: Hash) -> Option<LineOf<'a, R>> {
        let line = R::local_array(self.all)?.share(self.of_view(hash).bits());
        (line.index < self.shape.ring.n_whole_blocks()).then_some(line)
    }

    /// Prefetches the cache lines where the probe begins.
    #[inline]
    pub(super) fn prefetch(&self, hash: Hash) {
        let Some(all) = R::local_array(self.all) else {
            return;
        };
        let block = all.share(self.of_view(hash).bits()).block;
        block.prefetch(0);
        // Slots whose size does not divide a cache line may lie in two. The next line also has the
        // slots at which the probe continues. This saves a tenth to a quarter of the time of a
        // batch at half load.
        let len = LayoutOf::<K, V>::BYTES;
        if !LINE.is_multiple_of(len) {
            block.prefetch(LINE.max(len - 1));
        }
    }

    #[cold]
    pub(super) fn full(&self) -> Error {
        Error::Full {
            capacity: self.shape.ring.capacity(),
        }
    }
}
