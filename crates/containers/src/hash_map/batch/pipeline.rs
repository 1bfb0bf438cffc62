//! Batches where slots lie behind a network: the reads of up to [`TOGETHER`] operations are in flight
//! at once, so that a round trip is paid for all of them.
//!
//! First all keys are located, which changes nothing; then the operations are begun in their order.
//! What was located stays right: a slot that holds a key holds it for ever. A key that was absent
//! then is inserted by the blocking operation, which looks again.

use pgas_core::atomics::{Atomic, AtomicInteger};
use pgas_core::backend::AtomicOp;
use pgas_core::{Event, GlobalPtr, Pod};

use super::super::global::{of_word, to_word};
use super::super::layout::{Layout, ValueKind};
use super::super::slot::{self, Held};
use super::super::state::{SlotState, StateWord};
use super::super::walk::Slots;
use super::super::{HashMap, Home, Inserted};
use crate::{BatchError, Error, Result};

/// How many operations have their reads in flight at once.
const TOGETHER: usize = 64;

/// The search for one key.
struct Search<'k, K> {
    key: &'k K,
    home: Home,
    /// The slot that it has come to.
    at: GlobalPtr<u8>,
    found: Option<Found>,
}

/// What a search has come to.
#[derive(Clone, Copy, Debug)]
enum Found {
    Absent,
    /// The slot where the search stands holds the key, and was ready or locked in this state.
    Held(StateWord),
}

/// An operation in flight that changes a slot, or reads it: its index, slot and event.
struct InFlight<T: Send + 'static> {
    index: usize,
    at: GlobalPtr<u8>,
    event: Event<T>,
}

impl<K: Pod, V: Pod> HashMap<K, V> {
    /// Searches for all `keys` at once: in each round all searches that are not over look at one slot.
    fn locate<'k>(&self, keys: impl Iterator<Item = &'k K>) -> Result<Vec<Search<'k, K>>> {
        let begin = |key: &'k K| {
            let home = self.home(key);
            Search {
                key,
                home,
                at: home.at,
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
    fn look_once(&self, searches: &mut [Search<'_, K>]) -> Result<()> {
        let mut states = Vec::with_capacity(searches.len());
        for search in searches.iter_mut().filter(|search| search.found.is_none()) {
            let state = self.slot(search.at).state();
            let event = state.fetch_op_nb(self.world(), AtomicOp::Load, 0)?;
            states.push((search, event));
        }
        let mut candidates = Vec::new();
        for (search, event) in states {
            let state = StateWord::from_bits(event.wait()?);
            match state.state() {
                SlotState::Free => search.found = Some(Found::Absent),
                SlotState::Ready | SlotState::Locked if state.has(search.home.fingerprint) => {
                    let key = self.slot(search.at).key().get_nb(self.world())?;
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

    fn walk_on(&self, search: &mut Search<'_, K>) {
        search.at = self.ring.next(search.at);
        if search.at == search.home.at {
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
                ValueKind::Nothing | ValueKind::Wide => self.load_others(&searches, values)?,
            }
        }
        Ok(())
    }

    fn load_words<W: Atomic>(
        &self,
        searches: &[Search<'_, K>],
        values: &mut [Option<V>],
    ) -> Result<()> {
        let mut in_flight = Vec::with_capacity(searches.len());
        for (index, search) in searches.iter().enumerate() {
            values[index] = None;
            if let Some(Found::Held(_)) = search.found {
                let word = self.slot(search.at).value_as::<W>();
                let zero = W::from_bits(0);
                let event = word.fetch_op_nb(self.world(), AtomicOp::Load, zero)?;
                in_flight.push((index, event));
            }
        }
        for (index, event) in in_flight {
            values[index] = Some(of_word(event.wait()?));
        }
        Ok(())
    }

    fn load_others(&self, searches: &[Search<'_, K>], values: &mut [Option<V>]) -> Result<()> {
        let mut in_flight = Vec::with_capacity(searches.len());
        for (index, search) in searches.iter().enumerate() {
            values[index] = None;
            if let Some(Found::Held(state)) = search.found {
                let value = self.slot(search.at).value_as::<V>().get_nb(self.world())?;
                in_flight.push((index, state, value));
            }
        }
        for (index, state, value) in in_flight {
            let slot = self.slot(searches[index].at);
            let held = Held::new(state, value.wait()?);
            values[index] = Some(slot::load(&slot, held)?);
        }
        Ok(())
    }

    pub(super) fn insert_together(&self, entries: &[(K, V)]) -> Result<usize, BatchError> {
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

    fn insert_words<W: Atomic>(&self, entries: &[(K, V)]) -> Result<usize, BatchError> {
        let begin = |i: usize, search: &Search<'_, K>, in_flight: &mut Vec<InFlight<W>>| {
            let at = search.at;
            let Some(Found::Held(_)) = search.found else {
                return self.insert_located(search, &entries[i]);
            };
            // Two swaps of one word in flight have no order, and the last entry is to win.
            if in_flight.iter().any(|earlier| earlier.at == at) {
                complete(in_flight).map_err(|failed| failed.error)?;
            }
            let word = self.slot(at).value_as::<W>();
            let event = word.fetch_op_nb(self.world(), AtomicOp::Swap, to_word(&entries[i].1))?;
            in_flight.push(InFlight {
                index: i,
                at,
                event,
            });
            Ok(Inserted::Replaced)
        };
        self.in_groups(entries.len(), |i| &entries[i].0, begin)
    }

    /// Inserts by the blocking operations, from the slot that the search has found.
    fn insert_located(&self, search: &Search<'_, K>, entry: &(K, V)) -> Result<Inserted> {
        if let Some(Found::Held(state)) = search.found {
            slot::store(&self.slot(search.at), Held::unread(state), entry.1)?;
            return Ok(Inserted::Replaced);
        }
        self.insert_from(search.home, &entry.0, entry.1)
    }

    /// Locates the keys group by group, begins the operations in their order, and completes them.
    /// Returns how many keys were new, and counts them.
    fn in_groups<'k, T: Send + 'static>(
        &self,
        n: usize,
        key: impl Fn(usize) -> &'k K,
        mut begin: impl FnMut(usize, &Search<'k, K>, &mut Vec<InFlight<T>>) -> Result<Inserted>,
    ) -> Result<usize, BatchError> {
        let mut n_new = 0;
        let mut done = 0;
        let mut outcome = Ok(());
        while done < n && outcome.is_ok() {
            let end = n.min(done + TOGETHER);
            let mut in_flight = Vec::with_capacity(TOGETHER);
            outcome = self
                .locate((done..end).map(&key))
                .map_err(|error| BatchError { done, error })
                .and_then(|searches| {
                    for (index, search) in (done..end).zip(&searches) {
                        let inserted = begin(index, search, &mut in_flight)
                            .map_err(|error| BatchError { done: index, error })?;
                        n_new += usize::from(inserted == Inserted::New);
                    }
                    Ok(())
                });
            // What was begun is completed whatever happened to the element behind it.
            let completed = complete(&mut in_flight);
            outcome = completed.and(outcome);
            done = end;
        }
        self.count_new(n_new as u64);
        outcome.map(|()| n_new)
    }
}

impl<K: Pod, V: AtomicInteger> HashMap<K, V> {
    pub(super) fn add_together<'k>(
        &self,
        len: usize,
        key: impl Fn(usize) -> &'k K,
        n: impl Fn(usize) -> V,
    ) -> Result<usize, BatchError> {
        let begin = |i: usize, search: &Search<'k, K>, in_flight: &mut Vec<InFlight<V>>| {
            let at = search.at;
            if let Some(Found::Held(_)) = search.found {
                let word = self.slot(at).value_as::<V>();
                let event = word.fetch_op_nb(self.world(), AtomicOp::Add, n(i))?;
                in_flight.push(InFlight {
                    index: i,
                    at,
                    event,
                });
                return Ok(Inserted::Replaced);
            }
            let former = self.add_from(search.home, search.key, n(i))?;
            Ok(former.map_or(Inserted::New, |_| Inserted::Replaced))
        };
        self.in_groups(len, key, begin)
    }
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
