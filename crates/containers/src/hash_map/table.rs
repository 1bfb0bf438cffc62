//! The slots of a map over all ranks, without its phase.

use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread;

use pgas_am::DistObject;
use pgas_core::collective::op::{Min, Sum};
use pgas_core::rma::{Block, NearArray};
use pgas_core::{InPhase, Symmetric, Team, World, in_handler};

use super::counts::Counts;
use super::hash::Ring;
use super::phase::{Atomic, Phase as _};
use super::reuse::Sections;
use super::shard::{Served, Shards};
use super::slot::local::{Facts, Known, LocalArray};
use super::slot::remote::{Remote, Steps};
use super::slot::{LayoutOf, RareOf};
use super::view::{LocalView, RareView, Shape, View};
use crate::error::{agree, give_up};
use crate::object::{Heap, KeyHasher, Object};
use crate::{Error, Result};

/// What a rank waits for before it changes all slots.
const IN_FLIGHT: &str = "operations in flight of a hash map";

/// What a rank computes for the others to compare.
const HASHER: &str = "the hasher of a hash map";

/// Evaluates `$body` with the map's slots in `$view`. If all slots are local, the view has its own
/// type, which makes every step an instruction or two. Otherwise the body runs out of line: by the
/// same steps, which are counted; in a section if slots are reused; or by operations on global
/// pointers.
macro_rules! dispatch_locality {
    ($table:expr, |$view:ident| $body:expr) => {
        if let Some(all) = &$table.local {
            let $view = $table.view_local(all);
            $body
        } else {
            $crate::hash_map::view::out_of_line(move || {
                if let Some(all) = &$table.counted {
                    let world = $table.world();
                    let $view = $table.view_counted(all, false);
                    world.count_steps(|| $body)
                } else if let Some(reused) = &$table.reused {
                    let _section = reused.sections.open();
                    let $view = $table.view_local(&reused.all);
                    $body
                } else {
                    let $view = $table.view_remote();
                    $body
                }
            })
        }
    };
}
pub(super) use dispatch_locality;

/// As [`dispatch_locality`], for work of this rank on its own slots while no other rank accesses
/// them. Where any slots are local, these are.
macro_rules! dispatch_own_slots {
    ($table:expr, |$view:ident| $body:expr) => {{
        let shards = &*$table.shards;
        if let Some($view) = shards.own() {
            $body
        } else {
            $crate::hash_map::view::out_of_line(move || {
                if let Some($view) = shards.near(shards.world().rank(), true) {
                    return shards.world().count_steps(|| $body);
                }
                let copy = $crate::hash_map::slot::copied::BlockCopy::default();
                let $view = shards.own_copied(&copy);
                $body
            })
        }
    }};
}
pub(super) use dispatch_own_slots;

/// A map without its phase.
pub(super) struct Table<K: Object, V: Object, S> {
    pub(super) shape: Shape<K, V, S>,
    /// All slots, if this process reaches them by loads and stores and slots are not reused.
    pub(super) local: Option<NearArray<LayoutOf<K, V>>>,
    /// As `local`, where operations are counted.
    pub(super) counted: Option<NearArray<RareOf<K, V>>>,
    /// The shards of all ranks, as this process reaches them.
    pub(super) shards: Arc<Shards<K, V, S>>,
    pub(super) common: Arc<Common<K, V, S>>,
    /// Those of operations that were performed at once.
    pub(super) counts: Counts,
    /// All slots, if this process reaches them by loads and stores and slots are reused.
    pub(super) reused: Option<Arc<Reused<LayoutOf<K, V>>>>,
    /// In traces.
    pub(super) phase: InPhase,
}

/// What a map shares with its operations in flight. Each has a reference until it is over.
pub(super) struct Common<K: Object, V: Object, S> {
    /// The memory of the slots.
    memory: Symmetric<u8>,
    /// The shards as an object that requests of other ranks name, if ranks serve requests.
    pub(super) served: Option<Served<K, V, S>>,
    pub(super) shape: Shape<K, V, S>,
    /// As [`Table::reused`].
    pub(super) reused: OnceLock<Arc<Reused<LayoutOf<K, V>>>>,
    /// Those of operations that were in flight.
    pub(super) counts: Counts,
}

/// The slots of a map that reuses the slots of removed keys.
pub(super) struct Reused<L> {
    pub(super) all: NearArray<L>,
    pub(super) sections: Arc<Sections>,
}

impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// Allocates the slots and their heap. Collective.
    #[track_caller]
    pub(super) fn new(team: &Team, capacity: usize, hasher: Arc<S>) -> Result<Self> {
        agree(team, "the capacity of a hash map", capacity as u64)?;
        let hash = {
            // The others wait for it.
            let _step = team.world().in_step(HASHER);
            hasher.hash(b"pgas")
        };
        agree(team, HASHER, hash)?;
        if capacity == 0 {
            return Err(Error::NoCapacity);
        }
        let heap = Heap::of::<(K, V)>(team)?;
        let mut this = Self::with_heap(team, capacity, hasher, Arc::new(heap))?;
        this.phase = team
            .world()
            .phase("hash map", this.identity(), Atomic::NAME);
        Ok(this)
    }

    /// Allocates the slots. Collective.
    #[track_caller]
    pub(super) fn with_heap(
        team: &Team,
        capacity: usize,
        hasher: Arc<S>,
        heap: Arc<Heap>,
    ) -> Result<Self> {
        let n_ranks = team.n_ranks() as usize;
        let ring = Ring::new(n_ranks, capacity.div_ceil(n_ranks));
        let (align, stride) = (LayoutOf::<K, V>::ALIGN, LayoutOf::<K, V>::BYTES);
        let bytes = ring.n_blocks().saturating_mul(stride);
        let memory = team.alloc_symmetric::<u8>(bytes.saturating_add(align - 1))?;
        let start = memory.here().offset_bytes().next_multiple_of(align as u64);
        let shape = Shape {
            team: team.clone(),
            ring,
            start,
            heap,
            hasher,
        };
        let local = team.near_array(start, shape.ring.n_blocks());
        let is_counting = team.world().is_counting();
        let counted = || team.near_array(start, shape.ring.n_blocks());
        let counted = is_counting.then(counted).flatten();
        let shards = Arc::new(Shards::new(&shape));
        // All ranks agree on this, even if one of them reaches all slots itself.
        let is_served = Self::FITS_MESSAGE && team.world().capabilities().ranks_serve_atomics();
        let served = is_served.then(|| DistObject::new(team, Arc::clone(&shards)));
        // Without messages, operations are one-sided.
        let served = served.and_then(|served| served.ok());
        let common = Common {
            memory,
            served,
            shape: shape.clone(),
            reused: OnceLock::new(),
            counts: Counts::default(),
        };
        Ok(Self {
            local,
            counted,
            shards,
            common: Arc::new(common),
            counts: Counts::default(),
            reused: None,
            shape,
            phase: InPhase::default(),
        })
    }

    /// Whether this process reaches all slots by loads and stores.
    pub(super) fn is_local(&self) -> bool {
        self.local.is_some() || self.counted.is_some() || self.reused.is_some()
    }

    /// A number that identifies this map, the same on all ranks.
    pub(super) fn identity(&self) -> u64 {
        self.common.memory.member(0).to_bits()
    }

    /// A view of all slots by loads and stores, for the line of the program that calls this.
    #[inline]
    #[track_caller]
    pub(super) fn view_local<'a>(
        &'a self,
        all: &'a NearArray<LayoutOf<K, V>>,
    ) -> LocalView<'a, K, V, S> {
        self.shape.view(LocalArray::new(all, Known))
    }

    /// As [`view_local`](Self::view_local), where operations are counted. If it `is_still`, no rank
    /// writes.
    #[inline]
    #[track_caller]
    pub(super) fn view_counted<'a>(
        &'a self,
        all: &'a NearArray<RareOf<K, V>>,
        is_still: bool,
    ) -> RareView<'a, K, V, S> {
        let kind = Facts {
            is_shard: false,
            is_still,
            is_counted: true,
        };
        self.shape.view(LocalArray::new(all, kind))
    }

    /// A view of all slots by operations on global pointers.
    pub(super) fn view_remote(&self) -> View<'_, K, V, S, Remote<'_>> {
        self.shape.view_remote(None, Steps::Blocking)
    }
}

/// Reuse of the slots of removed keys.
impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// Enables slot reuse if every rank reaches all slots directly. Collective.
    #[track_caller]
    pub(super) fn reuse_slots(&mut self) -> Result<()> {
        let team = self.team().clone();
        if self.reused.is_some() {
            return Ok(());
        }
        // From here on operations are in sections.
        self.end_flights_for_all()?;
        let sections = Sections::new(&team)?;
        let can = u64::from(sections.is_some() && self.local.is_some());
        // The allreduce also waits for earlier operations of all ranks.
        if team.allreduce(can, Min)? == 1
            && let Some(sections) = sections
        {
            self.reuse_with(Arc::new(sections));
        }
        Ok(())
    }

    /// Enables slot reuse with sections taken over from another table.
    pub(super) fn reuse_with(&mut self, sections: Arc<Sections>) {
        sections.begin();
        if let Some(all) = self.local.take() {
            let reused = Arc::new(Reused { all, sections });
            self.reused = Some(Arc::clone(self.common.reused.get_or_init(|| reused)));
        }
    }
}

impl<K: Object, V: Object, S> Table<K, V, S> {
    #[inline]
    pub(super) fn world(&self) -> &World {
        self.shape.world()
    }

    pub(super) fn team(&self) -> &Team {
        &self.shape.team
    }

    /// The heap for encodings that are longer than their slots.
    #[inline]
    pub(super) fn heap(&self) -> &Heap {
        &self.shape.heap
    }

    /// Waits until no operation of this rank is in flight.
    #[track_caller]
    pub(super) fn end_flights(&self) -> Result<()> {
        let are_over = || Arc::strong_count(&self.common) == 1;
        if !are_over() {
            self.world().wait_for(IN_FLIGHT, || Ok(are_over()))?;
        }
        // Acquire: pairs with the release of a reference by the end of an operation.
        fence(Ordering::Acquire);
        Ok(())
    }

    /// As [`end_flights`](Self::end_flights), within a collective call, in which others wait for
    /// this rank. In a handler it is refused, and nothing has happened.
    #[track_caller]
    pub(super) fn end_flights_for_all(&self) -> Result<()> {
        pgas_core::refuse_in_handler(IN_FLIGHT)?;
        // Handlers and chained actions run meanwhile, and may panic.
        let _step = self.world().in_step(IN_FLIGHT);
        self.end_flights_or_job()
    }

    /// As [`end_flights`](Self::end_flights). If the wait fails, so does the job.
    #[track_caller]
    fn end_flights_or_job(&self) -> Result<()> {
        let ended = self.end_flights();
        ended.map_err(|error| give_up(self.world(), IN_FLIGHT, error))
    }

    /// The keys that this rank has inserted, less those that it has removed: over all ranks the
    /// number of keys.
    pub(super) fn n_counted(&self) -> u64 {
        let [keys, _] = self.counts.sums(&self.common.counts);
        // A rank that has removed more keys than it has inserted has a negative count.
        u64::try_from(keys.cast_signed()).unwrap_or(0)
    }

    /// The number of keys, and of keys removed since the slots were allocated. Exact if no rank
    /// inserts or removes meanwhile. Collective.
    #[track_caller]
    pub(super) fn n_keys(&self) -> Result<[u64; 2]> {
        let mut sums = self.counts.sums(&self.common.counts);
        if let Some(reused) = &self.reused {
            sums[1] = sums[1].wrapping_sub(reused.sections.n_emptied());
        }
        let add = |a: u64, b: u64| a.wrapping_add(b);
        self.team().allreduce_slice(&mut sums, add)?;
        Ok(sums)
    }
}

impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// The number of slots that keys take, also removed ones. It is counted only where keys and
    /// removals together say that there may be too many: a key that comes and goes takes one slot.
    /// Collective.
    #[track_caller]
    pub(super) fn n_taken(&self, [n_keys, n_removed]: [u64; 2]) -> Result<u64> {
        let at_most = n_keys.saturating_add(n_removed);
        if n_removed == 0 || at_most <= self.shape.ring.capacity() / 4 * 3 {
            return Ok(at_most);
        }
        let team = self.team();
        let own = dispatch_locality!(self, |view| view.local_taken(team.rank()));
        let own = team.all_succeeded("a count of taken slots", own)?;
        team.allreduce(own, Sum)
    }
}

/// Waits for operations in flight.
impl<K: Object, V: Object, S> Drop for Table<K, V, S> {
    fn drop(&mut self) {
        if !in_handler() && !thread::panicking() && !self.world().is_forked() {
            // After a failure of the job nobody uses the memory. If a time limit ends the wait, the
            // operations would keep this rank in the job, and nobody would make progress.
            drop(self.end_flights_or_job());
        }
    }
}
