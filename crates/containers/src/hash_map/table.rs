//! The slots of a map over all ranks, whatever the phase is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pgas_core::rma::{Block as _, NearArray};
use pgas_core::{Symmetric, World};
use thread_local::ThreadLocal;

use super::global::LayoutOf;
use super::hash::Ring;
use super::reach::{Far, FarArray, Near};
use super::view::View;
use crate::error::{agree, agree_on_capacity};
use crate::object::{Heap, KeyHasher, Object};
use crate::{Error, Result};

/// Evaluates `$body` with the map's slots in `$view`: by their own type where they are all near, which makes
/// every step an instruction or two, and by the general one elsewhere.
///
/// With a type `$v` in front of `$body`, the general one is a function of its own, and so is the other one if values of `$v` are large:
/// without optimization all copies of a value in one function have places of their own on the stack. Both are, in one, where there
/// is a [short way](super::quick) that is nearly always enough.
macro_rules! over_slots {
    ($table:expr, |$view:ident| for $v:ty: $body:expr) => {
        if $table.has_quick_way() {
            $crate::hash_map::table::apart(move || {
                $crate::hash_map::table::over_slots!($table, |$view| $body)
            })
        } else if let Some(all) = &$table.near {
            let $view = $table.view_near(all);
            $crate::hash_map::table::apart_if_large!($v, $body)
        } else {
            let $view = $table.view_far();
            $crate::hash_map::table::apart(move || $body)
        }
    };
    ($table:expr, |$view:ident| $body:expr) => {
        if let Some(all) = &$table.near {
            let $view = $table.view_near(all);
            $body
        } else {
            let $view = $table.view_far();
            $body
        }
    };
}
pub(super) use over_slots;

/// Calls `body`, whose code is not part of the caller's.
#[inline(never)]
pub(super) fn apart<R>(body: impl FnOnce() -> R) -> R {
    body()
}

/// Bytes of values of which a hundred copies are nothing on a stack.
pub(super) const LARGE: usize = 1 << 12;

/// Evaluates `$body`, in a function of its own if values of type `$v` are large. A macro, since a closure of small values would not
/// be inlined everywhere.
macro_rules! apart_if_large {
    ($v:ty, $body:expr) => {
        if const { size_of::<$v>() > $crate::hash_map::table::LARGE } {
            $crate::hash_map::table::apart(move || $body)
        } else {
            $body
        }
    };
}
pub(super) use apart_if_large;

/// A map's slots, near all of them.
pub(super) type NearView<'a, K, V, S> = View<'a, K, V, S, Near<'a, LayoutOf<K, V>>>;

/// A map without its phase.
pub(super) struct Table<K: Object, V: Object, S> {
    pub(super) slots: Symmetric<u8>,
    /// The offset of the first block of every rank.
    pub(super) start: u64,
    pub(super) ring: Ring<LayoutOf<K, V>>,
    /// All slots, if this process reaches them by its own instructions.
    pub(super) near: Option<NearArray<LayoutOf<K, V>>>,
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
            near: world.near_array(start, ring.n_blocks()),
            slots,
            start,
            ring,
            heap,
            hasher,
            n_new: ThreadLocal::new(),
        })
    }

    /// The slots, near all of them.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a few copies")]
    pub(super) fn view_near<'a>(
        &'a self,
        all: &'a NearArray<LayoutOf<K, V>>,
    ) -> NearView<'a, K, V, S> {
        View::new(all, &self.ring, &self.heap, &self.hasher)
    }

    /// Whether there is a [short way](super::quick) where slots are near. A constant.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a constant")]
    pub(super) const fn has_quick_way(&self) -> bool {
        NearView::<'_, K, V, S>::IS_QUICK
    }

    /// The slots, if there is a [short way](super::quick) to them.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a test")]
    pub(super) fn view_quick(&self) -> Option<NearView<'_, K, V, S>> {
        let all = self.near.as_ref()?;
        self.has_quick_way().then(|| self.view_near(all))
    }

    /// The slots, wherever they are.
    pub(super) fn view_far(&self) -> View<'_, K, V, S, Far<'_>> {
        let (world, start) = (self.world(), self.start);
        let stride = LayoutOf::<K, V>::BYTES;
        let all = FarArray {
            world,
            start,
            stride,
        };
        View::new(all, &self.ring, &self.heap, &self.hasher)
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
