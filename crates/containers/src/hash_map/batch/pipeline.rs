//! Batches where slots lie behind a network: the reads of up to [`TOGETHER`] operations are in flight
//! at once, so that a round trip is paid for all of them.
//!
//! First all keys are located, which changes nothing; then the operations are begun in their order.
//! What was located stays right: a slot that holds a key holds it for ever. A key that was absent
//! then is inserted by the blocking operation, which looks again.

use pgas_core::atomics::{Atomic, AtomicInteger};
use pgas_core::backend::AtomicOp;
use pgas_core::{Event, GlobalPtr, Pod};

use super::super::Inserted;
use super::super::global::{GlobalSlot, of_word, to_word};
use super::super::hash::Hash;
use super::super::layout::{Layout, ValueKind};
use super::super::reach::{Far, STATE};
use super::super::slot::{self, Held, SlotMemory};
use super::super::state::{SlotState, StateWord};
use super::super::view::{Home, View};
use super::super::walk::Slots;
use super::Outcome;
use crate::{BatchError, Error, Result};

/// How many operations have their reads in flight at once.
const TOGETHER: usize = 64;

/// The search for one key.
struct Search<'a, 'k, K, V> {
    key: &'k K,
    home: Home<K, V, Far<'a>>,
    /// The slot that it has come to.
    slot: GlobalSlot<K, V, Far<'a>>,
    found: Option<Found>,
}

/// What a search has come to.
#[derive(Clone, Copy, Debug)]
enum Found {
    Absent,
    /// The slot where the search stands holds the key, and was ready or locked in this state.
    Held(StateWord),
}

/// An operation in flight that changes a value: its index in the batch, and its event.
struct InFlight<T: Send + 'static> {
    index: usize,
    event: Event<T>,
}

impl<'a, K: Pod, V: Pod> View<'a, K, V, Far<'a>> {
    /// Searches for all `keys` at once: in each round all searches that are not over look at one slot.
    fn locate<'k>(&self, keys: impl Iterator<Item = &'k K>) -> Result<Vec<Search<'a, 'k, K, V>>> {
        let begin = |key: &'k K| {
            let home = self.home(Hash::of(key));
            Search {
                key,
                home,
                slot: home.slot,
                found: None,
            }
        };
        let mut searches: Vec<_> = keys.map(begin).collect();
        while searches.iter().any(|search| search.found.is_none()) {
            self.look_once(&mut searches)?;
        }
        Ok(searches)
    }

    /// One round of [`locate`](Self::locate): all states, then the keys behind those whose fingerprint
    /// agrees.
    fn look_once(&self, searches: &mut [Search<'a, '_, K, V>]) -> Result<()> {
        let mut states = Vec::with_capacity(searches.len());
        for search in searches.iter_mut().filter(|search| search.found.is_none()) {
            let event = state_word(&search.slot).fetch_op_nb(self.all.world, AtomicOp::Load, 0)?;
            states.push((search, event));
        }
        let mut candidates = Vec::new();
        for (search, event) in states {
            let state = StateWord::from_bits(event.wait()?);
            match state.state() {
                SlotState::Free => search.found = Some(Found::Absent),
                SlotState::Ready | SlotState::Locked if state.has(search.home.fingerprint) => {
                    let key = key(&search.slot).get_nb(self.all.world)?;
                    candidates.push((search, state, key));
                }
                SlotState::Reserved | SlotState::Ready | SlotState::Locked => self.walk_on(search),
            }
        }
        for (search, state, key) in candidates {
            if key.wait()?.as_bytes() == search.key.as_bytes() {
                search.found = Some(Found::Held(state));
            } else {
                self.walk_on(search);
            }
        }
        Ok(())
    }

    fn walk_on(&self, search: &mut Search<'a, '_, K, V>) {
        search.slot = self.next(&search.slot);
        if search.slot.is_same(&search.home.slot) {
            search.found = Some(Found::Absent);
        }
    }

    pub(super) fn find_together(&self, keys: &[K], values: &mut [Option<V>]) -> Result<()> {
        let groups = keys.chunks(TOGETHER).zip(values.chunks_mut(TOGETHER));
        for (keys, values) in groups {
            let searches = self.locate(keys.iter())?;
            match Layout::<K, V>::KIND {
                ValueKind::Word4 => self.load_words::<u32>(&searches, values)?,
                ValueKind::Word8 => self.load_words::<u64>(&searches, values)?,
                ValueKind::Wide => self.load_wide(&searches, values)?,
                ValueKind::Nothing => {
                    for (search, value) in searches.iter().zip(values) {
                        let is_held = matches!(search.found, Some(Found::Held(_)));
                        *value = is_held.then(V::new_zeroed);
                    }
                }
            }
        }
        Ok(())
    }

    fn load_words<W: Atomic>(
        &self,
        searches: &[Search<'a, '_, K, V>],
        values: &mut [Option<V>],
    ) -> Result<()> {
        let mut in_flight = Vec::with_capacity(searches.len());
        for (index, search) in searches.iter().enumerate() {
            values[index] = None;
            if let Some(Found::Held(_)) = search.found {
                let word = value::<_, V, W>(&search.slot);
                let zero = W::from_bits(0);
                let event = word.fetch_op_nb(self.all.world, AtomicOp::Load, zero)?;
                in_flight.push((index, event));
            }
        }
        for (index, event) in in_flight {
            values[index] = Some(of_word(event.wait()?));
        }
        Ok(())
    }

    fn load_wide(&self, searches: &[Search<'a, '_, K, V>], values: &mut [Option<V>]) -> Result<()> {
        let mut in_flight = Vec::with_capacity(searches.len());
        for (index, search) in searches.iter().enumerate() {
            values[index] = None;
            if let Some(Found::Held(state)) = search.found {
                let value = value::<_, V, V>(&search.slot).get_nb(self.all.world)?;
                in_flight.push((index, state, value));
            }
        }
        for (index, state, value) in in_flight {
            let held = Held::new(state, value.wait()?);
            values[index] = Some(slot::load(&searches[index].slot, held)?);
        }
        Ok(())
    }

    pub(super) fn insert_together(&self, entries: &[(K, V)]) -> Outcome {
        match Layout::<K, V>::KIND {
            ValueKind::Word4 => self.insert_words::<u32>(entries),
            ValueKind::Word8 => self.insert_words::<u64>(entries),
            ValueKind::Nothing | ValueKind::Wide => self.in_groups(
                entries.len(),
                |i| &entries[i].0,
                |i, search, _: &mut Vec<InFlight<()>>| self.insert_located(search, &entries[i]),
            ),
        }
    }

    fn insert_words<W: Atomic>(&self, entries: &[(K, V)]) -> Outcome {
        let begin = |i: usize, search: &Search<'a, '_, K, V>, in_flight: &mut Vec<InFlight<W>>| {
            // Operations on one word have no order while they are in flight, and the last entry of a
            // key is to win.
            let is_same = |j: usize| entries[j].0.as_bytes() == search.key.as_bytes();
            if in_flight.iter().any(|earlier| is_same(earlier.index)) {
                complete(in_flight).map_err(|failed| failed.error)?;
            }
            let Some(Found::Held(_)) = search.found else {
                return self.insert_located(search, &entries[i]);
            };
            let word = value::<_, V, W>(&search.slot);
            let event = word.fetch_op_nb(self.all.world, AtomicOp::Swap, to_word(&entries[i].1))?;
            in_flight.push(InFlight { index: i, event });
            Ok(Inserted::Replaced)
        };
        self.in_groups(entries.len(), |i| &entries[i].0, begin)
    }

    /// Inserts by the blocking operations, from the slot that the search has found.
    fn insert_located(&self, search: &Search<'a, '_, K, V>, entry: &(K, V)) -> Result<Inserted> {
        if let Some(Found::Held(state)) = search.found {
            slot::store(&search.slot, Held::unread(state), entry.1)?;
            return Ok(Inserted::Replaced);
        }
        self.insert(search.home, &entry.0, entry.1)
    }

    /// Locates the keys group by group, begins the operations in their order, and completes them.
    fn in_groups<'k, T: Send + 'static>(
        &self,
        n: usize,
        key: impl Fn(usize) -> &'k K,
        mut begin: impl FnMut(usize, &Search<'a, 'k, K, V>, &mut Vec<InFlight<T>>) -> Result<Inserted>,
    ) -> Outcome {
        let mut n_new = 0;
        let mut result = Ok(());
        for start in (0..n).step_by(TOGETHER) {
            let indices = start..n.min(start + TOGETHER);
            let mut in_flight = Vec::with_capacity(TOGETHER);
            let failed = |done| move |error| BatchError { done, error };
            result = self
                .locate(indices.clone().map(&key))
                .map_err(failed(start))
                .and_then(|searches| {
                    for (i, search) in indices.zip(&searches) {
                        let inserted = begin(i, search, &mut in_flight).map_err(failed(i))?;
                        n_new += usize::from(inserted == Inserted::New);
                    }
                    Ok(())
                });
            // What was begun is completed whatever happened to the element behind it.
            result = complete(&mut in_flight).and(result);
            if result.is_err() {
                break;
            }
        }
        Outcome { n_new, result }
    }
}

impl<'a, K: Pod, V: AtomicInteger> View<'a, K, V, Far<'a>> {
    pub(super) fn add_together<'k>(
        &self,
        len: usize,
        key: impl Fn(usize) -> &'k K,
        n: impl Fn(usize) -> V,
    ) -> Outcome {
        let begin = |i: usize, search: &Search<'a, '_, K, V>, in_flight: &mut Vec<InFlight<V>>| {
            if let Some(Found::Held(_)) = search.found {
                let word = value::<_, V, V>(&search.slot);
                let event = word.fetch_op_nb(self.all.world, AtomicOp::Add, n(i))?;
                in_flight.push(InFlight { index: i, event });
                return Ok(Inserted::Replaced);
            }
            let former = self.add(search.home, search.key, n(i))?;
            Ok(former.map_or(Inserted::New, |_| Inserted::Replaced))
        };
        self.in_groups(len, key, begin)
    }
}

fn state_word<K: Pod, V: Pod>(slot: &GlobalSlot<K, V, Far<'_>>) -> GlobalPtr<u64> {
    slot.reach.part(STATE)
}

fn key<K: Pod, V: Pod>(slot: &GlobalSlot<K, V, Far<'_>>) -> GlobalPtr<K> {
    slot.reach.part(Layout::<K, V>::KEY)
}

/// The value, as what it is or as a word.
fn value<K: Pod, V: Pod, T>(slot: &GlobalSlot<K, V, Far<'_>>) -> GlobalPtr<T> {
    slot.reach.part(Layout::<K, V>::VALUE)
}

/// Waits for all operations, also after one of them failed, and reports the first that did.
fn complete<T: Send + 'static>(in_flight: &mut Vec<InFlight<T>>) -> Result<(), BatchError> {
    let mut outcome = Ok(());
    for InFlight { index, event, .. } in in_flight.drain(..) {
        let waited = event.wait().map_err(|error| BatchError {
            done: index,
            error: Error::from(error),
        });
        outcome = outcome.and(waited.map(|_| ()));
    }
    outcome
}
