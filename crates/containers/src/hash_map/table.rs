//! The slots of a map over all ranks, whatever the phase is.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pgas_am::DistObject;
use pgas_core::atomics::AtomicInteger;
use pgas_core::rma::{Block as _, NearArray};
use pgas_core::{Rank, Symmetric, World};
use thread_local::ThreadLocal;

use super::hash::Ring;
use super::part::{Parts, Served};
use super::slot::local::Local;
use super::slot::remote::{Remote, RemoteArray};
use super::slot::{Access, LayoutOf};
use super::view::{Inserted, View, out_of_line};
use crate::error::{agree, agree_on_capacity};
use crate::object::{self, Heap, KeyHasher, KeyOf, Object, Plain};
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

/// As [`over_slots`], for what this rank does to its own slots alone: those are local, whatever the
/// others are, unless operations are counted.
macro_rules! over_own_slots {
    ($table:expr, |$view:ident| $body:expr) => {
        if let Some(all) = &$table.local {
            let $view = $table.view_local(all);
            $body
        } else if let Some($view) = $table.view_own() {
            $crate::hash_map::view::out_of_line(move || $body)
        } else {
            let $view = $table.view_remote();
            $crate::hash_map::view::out_of_line(move || $body)
        }
    };
}
pub(super) use over_own_slots;

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
    /// Else: what each rank has of them, as this one and its neighbours reach it.
    pub(super) parts: Option<Arc<Parts<K, V, S>>>,
    /// The parts, for others to name them, where ranks serve requests.
    pub(super) served: Option<Served<K, V, S>>,
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
        let local = world.near_array(start, ring.n_blocks());
        let parts = local.is_none().then(|| {
            let parts = Parts::new(world, (&ring, start), &heap, &hasher);
            Arc::new(parts)
        });
        // The same on all ranks, also where one alone reaches all slots.
        let is_served = Self::TRAVELS && world.capabilities().ranks_serve_atomics();
        let served = is_served.then(|| {
            let parts = parts.as_ref().map(Arc::clone);
            let new = || Arc::new(Parts::new(world, (&ring, start), &heap, &hasher));
            DistObject::new(&world.team(), parts.unwrap_or_else(new))
        });
        Ok(Self {
            local,
            parts,
            // Without messages there is the one-sided way.
            served: served.and_then(|served| served.ok()),
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
            first: Rank::ZERO,
            start,
            stride,
        })
    }

    /// The slots of this rank, if they are local and not all are.
    pub(super) fn view_own(&self) -> Option<LocalView<'_, K, V, S>> {
        self.parts.as_ref()?.near(self.world().rank())
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
        match &self.local {
            Some(all) => {
                let view = self.view_local(all);
                view.find(view.hash(&key), &key)
            }
            None => out_of_line(move || self.find_far(&key, is_read_only)),
        }
    }

    /// As [`find`](Self::find): whether there is something.
    #[inline(always)]
    pub(super) fn contains(&self, key: &K, is_read_only: bool) -> Result<bool> {
        let key = object::key(key)?;
        match &self.local {
            Some(all) => {
                let view = self.view_local(all);
                view.contains(view.hash(&key), &key)
            }
            None => out_of_line(move || self.contains_far(&key, is_read_only)),
        }
    }

    /// As [`HashMap::insert`](super::HashMap::insert).
    #[inline(always)]
    pub(super) fn insert(&self, key: &K, value: &V) -> Result<Inserted> {
        let key = object::key(key)?;
        let value = object::to_slot(value, &self.heap)?;
        let inserted = match &self.local {
            Some(all) => {
                let view = self.view_local(all);
                view.insert(view.hash(&key), &key, value)
            }
            None => out_of_line(move || self.insert_far(&key, value)),
        }?;
        self.count_new(u64::from(inserted == Inserted::New));
        Ok(inserted)
    }

    /// The value that is there, if it was there before; else `value` is.
    #[inline(always)]
    pub(super) fn get_or_insert(&self, key: &K, value: &V) -> Result<Option<V>> {
        let key = object::key(key)?;
        let value = object::to_slot(value, &self.heap)?;
        let there = match &self.local {
            Some(all) => {
                let view = self.view_local(all);
                view.get_or_insert(view.hash(&key), &key, value)
            }
            None => out_of_line(move || self.get_or_insert_far(&key, value)),
        }?;
        self.count_new(u64::from(there.is_none()));
        Ok(there)
    }

    /// As [`HashMap::remove`](super::HashMap::remove).
    pub(super) fn remove(&self, key: &K) -> Result<bool> {
        let key = object::key(key)?;
        let removed = match &self.local {
            Some(all) => {
                let view = self.view_local(all);
                view.remove(view.hash(&key), &key)
            }
            None => out_of_line(move || self.remove_far(&key)),
        }?;
        self.count_removed(u64::from(removed));
        Ok(removed)
    }

    /// As [`HashMap::update`](super::HashMap::update), by a function that may fail, whose failure
    /// changes nothing.
    #[inline(always)]
    pub(super) fn update(&self, key: KeyOf<K>, f: impl FnMut(V) -> Result<V>) -> Result<Option<V>> {
        match &self.local {
            Some(all) => {
                let view = self.view_local(all);
                view.update(view.hash(&key), &key, f)
            }
            None => out_of_line(move || self.update_far(&key, f)),
        }
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
            let former = self.update(sought.clone(), &mut *combine)?;
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

impl<K, V, S> Table<K, V, S>
where
    K: Object,
    V: AtomicInteger + Object<Repr = Plain>,
    S: KeyHasher,
{
    /// As [`HashMap::fetch_add`](super::HashMap::fetch_add): the former value, if there was one.
    #[inline(always)]
    pub(super) fn add(&self, key: &K, n: V) -> Result<Option<V>> {
        let key = object::key(key)?;
        let former = match &self.local {
            Some(all) => {
                let view = self.view_local(all);
                view.add(view.hash(&key), &key, n)
            }
            None => out_of_line(move || self.add_far(&key, n)),
        }?;
        self.count_new(u64::from(former.is_none()));
        Ok(former)
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
