//! The slots of a map over all ranks, whatever the phase is.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pgas_core::rma::{Block as _, NearArray};
use pgas_core::{Symmetric, World};
use thread_local::ThreadLocal;

use super::hash::Ring;
use super::slot::local::Local;
use super::slot::remote::{Remote, RemoteArray};
use super::slot::{Access, LayoutOf};
use super::view::{Inserted, View};
use crate::error::{agree, agree_on_capacity};
use crate::object::{self, Heap, KeyHasher, Object};
use crate::{Error, Result};

/// Evaluates `$body` with the map's slots in `$view`: by their own type where they are all local,
/// which makes every step an instruction or two, and by the general one elsewhere, out of line.
macro_rules! over_slots {
    ($table:expr, |$view:ident| $body:expr) => {
        if let Some(all) = &$table.local {
            let $view = $table.view_local(all);
            $body
        } else {
            let $view = $table.view_remote();
            $crate::hash_map::view::out_of_line(move || $body)
        }
    };
}
pub(super) use over_slots;

/// A map's slots, local all of them.
pub(super) type LocalView<'a, K, V, S> = View<'a, K, V, S, Local<'a, LayoutOf<K, V>>>;

/// A map without its phase.
pub(super) struct Table<K: Object, V: Object, S> {
    pub(super) slots: Symmetric<u8>,
    /// The offset of the first block of every rank.
    pub(super) start: u64,
    pub(super) ring: Ring<LayoutOf<K, V>>,
    /// All slots, if this process reaches them by its own instructions.
    pub(super) local: Option<NearArray<LayoutOf<K, V>>>,
    pub(super) heap: Arc<Heap>,
    pub(super) hasher: Arc<S>,
    n_new: ThreadLocal<Counter>,
}

/// What one thread of this rank has counted. Only that thread writes it, so that counting takes no atomic instruction: one for
/// every insert would be a tenth of its time.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Counter {
    /// The keys that it has inserted minus those that it has removed, modulo 2^64.
    keys: AtomicU64,
    /// Those that it has removed, of which some may have been inserted again.
    removed: AtomicU64,
}

/// Adds to a word that no other thread writes.
#[inline]
fn add(word: &AtomicU64, n: u64) {
    // Counts only; nothing is ordered by them.
    word.store(
        word.load(Ordering::Relaxed).wrapping_add(n),
        Ordering::Relaxed,
    );
}

impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// Collective.
    pub(super) fn new(world: &World, capacity: usize, hasher: S) -> Result<Self> {
        agree_on_capacity(world, capacity as u64)?;
        agree(world, "the hasher of a hash map", hasher.hash(b"pgas"))?;
        if capacity == 0 {
            return Err(Error::NoCapacity);
        }
        let heap = Heap::of::<(K, V)>(world)?;
        Self::with_heap(world, capacity, Arc::new(hasher), Arc::new(heap))
    }

    /// Collective.
    pub(super) fn with_heap(
        world: &World,
        capacity: usize,
        hasher: Arc<S>,
        heap: Arc<Heap>,
    ) -> Result<Self> {
        let n_ranks = world.ranks().len();
        let ring = Ring::new(n_ranks, capacity.div_ceil(n_ranks));
        let (align, stride) = (LayoutOf::<K, V>::ALIGN, LayoutOf::<K, V>::BYTES);
        let bytes = ring.n_blocks().saturating_mul(stride);
        let slots = world.alloc_symmetric::<u8>(bytes.saturating_add(align - 1))?;
        let start = slots.here().offset_bytes().next_multiple_of(align as u64);
        Ok(Self {
            local: world.near_array(start, ring.n_blocks()),
            slots,
            start,
            ring,
            heap,
            hasher,
            n_new: ThreadLocal::new(),
        })
    }

    /// The slots, local all of them.
    pub(super) fn view_local<'a>(
        &'a self,
        all: &'a NearArray<LayoutOf<K, V>>,
    ) -> LocalView<'a, K, V, S> {
        self.view(all)
    }

    /// The slots, wherever they are.
    pub(super) fn view_remote(&self) -> View<'_, K, V, S, Remote<'_>> {
        let (world, start) = (self.world(), self.start);
        let stride = LayoutOf::<K, V>::BYTES;
        self.view(RemoteArray {
            world,
            start,
            stride,
        })
    }

    fn view<'a, R: Access<'a>>(&'a self, all: R::All) -> View<'a, K, V, S, R> {
        View {
            all,
            world: self.world(),
            ring: &self.ring,
            heap: &self.heap,
            hasher: &self.hasher,
            slot: PhantomData,
        }
    }
}

/// The operations, whatever the phase is.
impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// As [`HashMap::find`](super::HashMap::find), while others may change what is there, unless
    /// `is_read_only`.
    #[inline(always)]
    pub(super) fn find(&self, key: &K, is_read_only: bool) -> Result<Option<V>> {
        let key = object::key(key)?;
        over_slots!(self, |view| {
            let hash = view.hash(&key);
            if is_read_only && self.local.is_none() {
                let value = view.seek(hash, &key)?;
                value
                    .map(|value| object::from_slot::<V>(value, view.heap))
                    .transpose()
            } else {
                view.find(hash, &key)
            }
        })
    }

    /// As [`find`](Self::find): whether there is something.
    #[inline(always)]
    pub(super) fn contains(&self, key: &K, is_read_only: bool) -> Result<bool> {
        let key = object::key(key)?;
        over_slots!(self, |view| {
            let hash = view.hash(&key);
            if is_read_only && self.local.is_none() {
                Ok(view.seek(hash, &key)?.is_some())
            } else {
                view.contains(hash, &key)
            }
        })
    }

    /// As [`HashMap::insert`](super::HashMap::insert).
    #[inline(always)]
    pub(super) fn insert(&self, key: &K, value: &V) -> Result<Inserted> {
        let key = object::key(key)?;
        let value = object::to_slot(value, &self.heap)?;
        let inserted = over_slots!(self, |view| view.insert(view.hash(&key), &key, value))?;
        self.count_new(u64::from(inserted == Inserted::New));
        Ok(inserted)
    }

    /// The value that is there, if it was there before; else `value` is.
    #[inline(always)]
    pub(super) fn get_or_insert(&self, key: &K, value: &V) -> Result<Option<V>> {
        let key = object::key(key)?;
        let value = object::to_slot(value, &self.heap)?;
        let there = over_slots!(self, |view| {
            view.get_or_insert(view.hash(&key), &key, value)
        })?;
        self.count_new(u64::from(there.is_none()));
        Ok(there)
    }

    /// As [`HashMap::upsert`](super::HashMap::upsert), by functions that may fail, whose failure
    /// changes nothing: `insert` says whether it has inserted the key.
    pub(super) fn upsert(
        &self,
        key: &K,
        insert: &mut dyn FnMut() -> Result<bool>,
        combine: &mut dyn FnMut(V) -> Result<V>,
    ) -> Result<Option<V>> {
        let sought = object::key(key)?;
        loop {
            let (sought, combine) = (&sought, &mut *combine);
            let former = over_slots!(self, |view| view.update(view.hash(sought), sought, combine))?;
            if former.is_some() || insert()? {
                return Ok(former);
            }
        }
    }

    /// Whether `key` was absent, and now has `value`.
    pub(super) fn is_inserted(&self, key: &K, value: &V) -> Result<bool> {
        Ok(self.get_or_insert(key, value)?.is_none())
    }
}

impl<K: Object, V: Object, S> Table<K, V, S> {
    #[inline]
    pub(super) fn world(&self) -> &World {
        self.slots.world()
    }

    #[inline]
    pub(super) fn count_new(&self, n: u64) {
        if n > 0 {
            add(&self.n_new.get_or_default().keys, n);
        }
    }

    pub(super) fn count_removed(&self, n: u64) {
        if n > 0 {
            let counter = self.n_new.get_or_default();
            add(&counter.keys, n.wrapping_neg());
            add(&counter.removed, n);
        }
    }

    /// How many keys there are, and how many were removed since the slots were made, exact if nobody inserts or removes
    /// meanwhile. Collective.
    pub(super) fn counts(&self) -> Result<[u64; 2]> {
        // Only sums: what was inserted before is ordered before by whatever told this rank of it.
        let mut sums = [0_u64; 2];
        for counter in &self.n_new {
            for (sum, count) in sums.iter_mut().zip([&counter.keys, &counter.removed]) {
                *sum = sum.wrapping_add(count.load(Ordering::Relaxed));
            }
        }
        let add = |a: u64, b: u64| a.wrapping_add(b);
        self.world().team().allreduce_slice(&mut sums, add)?;
        Ok(sums)
    }
}
