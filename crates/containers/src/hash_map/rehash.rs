//! A map's first slots, and those to which its entries move: more of them, or without those of
//! removed keys.

use std::marker::PhantomData;
use std::mem;
use std::sync::Arc;

use pgas_core::stats::Unit;
use pgas_core::{Team, Work, part_of_object};
use pgas_lockfree::slots::probe::{self, ProbeResult};
use pgas_lockfree::slots::state::{SlotState, StateWord};
use pgas_lockfree::slots::{Intent, ReadValue, SlotMemory as _};

use super::HashMap;
use super::phase::{Atomic, Phase};
use super::slot::Access;
use super::table::{Table, dispatch_locality, dispatch_own_slots};
use super::view::View;
use crate::error::agree;
use crate::object::{self, KeyHasher, Object, Repr};
use crate::{Error, Result, prices};

impl<K: Object, V: Object, S: KeyHasher> HashMap<K, V, Atomic, S> {
    /// As [`with_hasher`](Self::with_hasher), with a hasher that others have, too.
    #[track_caller]
    pub(crate) fn with_shared_hasher(team: &Team, capacity: usize, hasher: Arc<S>) -> Result<Self> {
        Ok(Self {
            table: Table::new(team, capacity, hasher)?,
            phase: PhantomData,
        })
    }
}

impl<K: Object, V: Object, P: Phase, S: KeyHasher> HashMap<K, V, P, S> {
    /// Gives the map room for `capacity` keys. Its entries stay.
    ///
    /// # Cost
    ///
    /// 2B + 4 allreduces, and on each rank ℓ a slot and 2A + W an entry. Collective over the team.
    ///
    /// # Errors
    ///
    /// On every rank, with the map as it was: those of [`with_capacity`](HashMap::with_capacity),
    /// and [`Error::Argument`] if there are more keys than the new capacity, or if the hasher has
    /// given one key two hashes, so that the map has it twice.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::{Error, HashMap};
    /// # let world = pgas_core::backend::loopback::world();
    /// let mut map = HashMap::<u8, u64>::with_capacity(&world, 1)?;
    /// map.insert(&1, 10)?;
    /// assert!(matches!(map.insert(&2, 20), Err(Error::Full { .. })));
    /// map.resize(2)?;
    /// map.insert(&2, 20)?;
    /// assert_eq!(map.find(&1)?, Some(10));
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn resize(&mut self, capacity: usize) -> Result<()> {
        let _waits = part_of_object("a resize of a hash map", self.table.identity());
        let new = self.slots_for(capacity)?;
        self.table.move_to(new)
    }

    /// Free slots for `capacity` keys, to which the entries can move. Collective.
    #[track_caller]
    pub(super) fn slots_for(&self, capacity: usize) -> Result<Table<K, V, S>> {
        agree(self.team(), "the capacity of a hash map", capacity as u64)?;
        self.table.end_flights_for_all()?;
        if capacity == 0 {
            return Err(Error::NoCapacity);
        }
        // The allreduce also waits for operations of other ranks.
        let [n_keys, _] = self.table.n_keys()?;
        if n_keys > capacity as u64 {
            let text = format!("a hash map with {n_keys} keys was to get a capacity of {capacity}");
            return Err(Error::Argument(text.into()));
        }
        self.table.with_slots(capacity)
    }

    /// Removes all entries of all ranks. Operations that any rank began before its call are
    /// complete, and later ones find an empty map. All slots are free again, and so is the heap
    /// memory of the entries.
    ///
    /// # Cost
    ///
    /// 2B + an allreduce. If keys or values may be longer than their slots, an allreduce more, ℓ a
    /// slot, and for each longer one ℓ on the rank that wrote it, 2A + W on others. Collective over
    /// the team.
    ///
    /// # Errors
    ///
    /// On every rank [`Exhausted`](pgas_core::Error::Exhausted), with the map as it was, if the
    /// symmetric heap has no room for new slots beside the old ones; the failure of the job while
    /// waiting. Errors of the transport: then the map is empty all the same, and some of its memory
    /// is lost until it is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_containers::HashMap;
    /// # let world = pgas_core::backend::loopback::world();
    /// let mut map = HashMap::<String, u64>::with_capacity(&world, 2)?;
    /// map.insert_many(&[("one", 1), ("two", 2)])?;
    /// map.clear()?; // collective
    /// assert!(map.is_empty()?);
    /// assert_eq!(map.insert_many(&[("three", 3), ("four", 4)])?, 2);
    /// # Ok::<(), pgas_containers::Error>(())
    /// ```
    #[track_caller]
    pub fn clear(&mut self) -> Result<()> {
        let _waits = part_of_object("a clear of a hash map", self.table.identity());
        let new = self.table.empty_slots()?;
        self.table.clear_into(new)
    }

    #[track_caller]
    pub(super) fn into_phase<N: Phase>(mut self) -> Result<HashMap<K, V, N, S>> {
        self.begin_phase::<N>()?;
        Ok(self.in_phase())
    }

    /// Begins a phase for all ranks. Then the map is to be taken as [`in_phase`](Self::in_phase).
    #[track_caller]
    pub(super) fn begin_phase<N: Phase>(&mut self) -> Result<()> {
        let what = "a change of the phase of a hash map";
        let _waits = part_of_object(what, self.table.identity());
        let team = self.team().clone();
        team.agree_on(
            "the next phase of a hash map",
            super::phase::NAMES,
            N::NUMBER,
        )?;
        self.table.end_flights_for_all()?;
        team.barrier_within()?;
        let [n_keys, n_removed] = self.table.n_keys()?;
        let n_taken = self.table.n_taken([n_keys, n_removed])?;
        let capacity = self.capacity();
        self.world()
            .fills(&prices::HASH_MAP_INSERT, n_taken, capacity);
        if capacity < MANY {
            if n_removed > 0 {
                self.try_rehash(capacity)?;
            }
        } else if n_taken > capacity / 4 * 3 {
            self.make_room(n_keys)?;
        }
        team.barrier_within()?;
        self.table.phase.change(N::NAME);
        Ok(())
    }

    /// The map in the phase that has begun.
    pub(super) fn in_phase<N: Phase>(self) -> HashMap<K, V, N, S> {
        HashMap {
            table: self.table,
            phase: PhantomData,
        }
    }

    /// Gives the map slots for twice its keys, but at least its present capacity; slots of removed
    /// keys become free. Without memory the map stays as it is.
    pub(super) fn make_room(&mut self, n_keys: u64) -> Result<()> {
        self.try_rehash(self.capacity().max(n_keys.saturating_mul(2)))
    }

    #[track_caller]
    fn try_rehash(&mut self, capacity: u64) -> Result<()> {
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
        match self.table.with_slots(capacity) {
            // Of a team only the members without memory get the first one.
            Err(Error::Exhausted(_) | Error::Elsewhere(_)) => Ok(()),
            made => self.table.move_to(made?),
        }
    }
}

/// Maps below this capacity never grow by themselves; their size was chosen deliberately.
const MANY: u64 = 64;

impl<K: Object, V: Object, S: KeyHasher> Table<K, V, S> {
    /// A table with `capacity` free slots, and the same heap. Its memory is zero on all ranks on
    /// return, and no rank returns before all have called. Collective.
    #[track_caller]
    fn with_slots(&self, capacity: usize) -> Result<Self> {
        let (hasher, heap) = (Arc::clone(&self.shape.hasher), Arc::clone(&self.shape.heap));
        Self::with_heap(self.team(), capacity, hasher, heap)
    }

    /// Moves all entries to the slots of `new`. Collective.
    #[track_caller]
    pub(super) fn move_to(&mut self, new: Self) -> Result<()> {
        let team = self.team().clone();
        let (from, to) = (&*self, &new);
        let n_slots = from.shape.ring.local_capacity() as u64;
        let world = team.world();
        let move_all = || {
            let work = world.work("resizing a hash map", n_slots, Unit::Elements);
            dispatch_own_slots!(from, |from| dispatch_locality!(to, |to| move_all(
                &from, &to, &work
            )))
        };
        // If one rank fails, all keep the old slots.
        let what = "moving the entries of a hash map";
        new.counts.count_new(team.all_try(what, move_all)?);
        team.barrier_within()?;
        let former = self.replace(new);
        if object::has_heap::<K>() {
            // The map is complete. Memory that cannot be released is lost until the map is dropped.
            let is_removed = |state| state == SlotState::Removed;
            drop(dispatch_own_slots!(former, |from| release_entries(
                &from, is_removed
            )));
        }
        Ok(())
    }

    /// As many slots, which are free. When the call returns, operations that other ranks began
    /// before are complete. Collective.
    #[track_caller]
    pub(super) fn empty_slots(&self) -> Result<Self> {
        self.end_flights_for_all()?;
        let capacity = usize::try_from(self.shape.ring.capacity()).unwrap_or(usize::MAX);
        self.with_slots(capacity)
    }

    /// Forgets all entries, and goes on with the free slots of `new`. Collective.
    #[track_caller]
    pub(super) fn clear_into(&mut self, new: Self) -> Result<()> {
        let team = self.team().clone();
        team.barrier_within()?;
        let former = self.replace(new);
        if !object::has_heap::<(K, V)>() {
            return Ok(());
        }
        let forgotten = dispatch_own_slots!(former, |from| release_entries(&from, |_| true));
        let what = "giving back the entries of a hash map";
        team.all_succeeded(what, forgotten)
    }

    /// Replaces the slots and returns the former ones.
    fn replace(&mut self, new: Self) -> Self {
        let mut former = mem::replace(self, new);
        mem::swap(&mut self.phase, &mut former.phase);
        if let Some(reused) = &former.reused {
            self.reuse_with(Arc::clone(&reused.sections));
        }
        former
    }
}

/// Releases the heap memory of abandoned slots whose state `is_given_up`: that of keys, and of
/// values that are present. Goes on after a failure and returns the first one.
fn release_entries<'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>>(
    from: &View<'a, K, V, S, R>,
    is_given_up: impl Fn(SlotState) -> bool,
) -> Result<()> {
    let mut outcome = Ok(());
    for slot in from.all() {
        let release_entries = || -> Result<()> {
            let state = slot.load_state()?.state();
            if !is_given_up(state) || !matches!(state, SlotState::Ready | SlotState::Removed) {
                return Ok(());
            }
            let (key, value) = slot.entry()?;
            let of_key = object::release::<K>(&key, from.heap());
            if state == SlotState::Ready {
                object::release::<V>(&value, from.heap())?;
            }
            of_key
        };
        outcome = outcome.and(release_entries());
    }
    outcome
}

/// Moves the entries of this rank and returns their number.
fn move_all<'a, 'b, K, V, S, A, B>(
    from: &View<'a, K, V, S, A>,
    to: &View<'b, K, V, S, B>,
    work: &Work<'_>,
) -> Result<u64>
where
    K: Object,
    V: Object,
    S: KeyHasher,
    A: Access<'a>,
    B: Access<'b>,
{
    let mut n = 0;
    for slot in from.all() {
        work.add(1);
        if slot.load_state()?.state() != SlotState::Ready {
            continue;
        }
        let (key, value) = slot.entry()?;
        let seek = <K::Repr as Repr<K>>::load(key, from.heap())?;
        let hash = to.hash(&seek);
        let home = to.home(hash);
        let slot = match probe::probe_slots(to, home, &seek, ReadValue::No, Intent::Claim)? {
            ProbeResult::Free(slot) => slot,
            ProbeResult::Found(..) => return Err(hashed_twice()),
            ProbeResult::Absent => return Err(to.full()),
        };
        slot.publish_entry(key, value, StateWord::ready(hash.fingerprint()))?;
        n += 1;
    }
    Ok(n)
}

/// The error of a map with two entries of one key.
#[cold]
fn hashed_twice() -> Error {
    let text = "a hash map has two entries of one key: its hasher has given the key two hashes";
    Error::Argument(text.into())
}
