//! Batches where slots lie behind a network: the reads of up to [`TOGETHER`] operations are in flight
//! at once, so that a round trip is paid for all of them.
//!
//! First all keys are located, which changes nothing; then the operations are begun in their order.
//! What was located stays right: a slot that holds a key holds it for ever. A key that was absent
//! then is inserted by the blocking operation, which looks again.

use pgas_core::Event;
use pgas_core::atomics::{Atomic, AtomicInteger};
use pgas_core::backend::AtomicOp;
use pgas_lockfree::slots::probe::Slots as _;
use pgas_lockfree::slots::state::{SlotState, StateWord};
use pgas_lockfree::slots::{self, Held, Intent, Met, SlotMemory as _, Wanted};

use super::super::slot::layout::{Blocks as _, ValueKind};
use super::super::slot::remote::Remote;
use super::super::slot::{GlobalSlot, LayoutOf, of_word, to_word};
use super::super::view::{Home, Inserted, Step, View};
use super::Outcome;
use crate::object::{self, KeyHasher, KeyOf, Object, Plain, Repr, SlotOf};
use crate::{BatchError, Error, Result};

/// How many operations have their reads in flight at once.
const TOGETHER: usize = 64;

/// A slot of a map.
type RemoteSlot<'a, K, V> = GlobalSlot<K, V, Remote<'a>>;

/// The search for one key.
struct Search<'a, K: Object, V> {
    key: KeyOf<K>,
    home: Home<K, V, Remote<'a>>,
    /// The slot that it has come to.
    slot: RemoteSlot<'a, K, V>,
    found: Option<Found>,
}

/// What a search has come to.
#[derive(Clone, Copy, Debug)]
enum Found {
    Absent,
    /// The slot where the search stands holds the key, and was ready or locked in this state.
    Held(StateWord),
}

/// An operation in flight that changes a value: its index in the batch, its slot, and its event.
type InFlight<'a, K, V, T> = (usize, RemoteSlot<'a, K, V>, Event<T>);

impl<K: Object, V> Search<'_, K, V> {
    /// Whether it has found a slot that was ready, so that nothing is left to do but to the value.
    fn is_ready(&self) -> bool {
        matches!(self.found, Some(Found::Held(state)) if state.state() == SlotState::Ready)
    }
}

impl<'a, K: Object, V: Object, S: KeyHasher> View<'a, K, V, S, Remote<'a>> {
    /// A search for a key.
    fn begin(&self, key: &K) -> Result<Search<'a, K, V>> {
        let key = object::key(key)?;
        let home = self.home(self.hash(&key));
        Ok(Search {
            key,
            home,
            slot: home.slot,
            found: None,
        })
    }

    /// Ends all `searches` at once: in each round all that are not over look at one slot.
    fn locate(&self, mut searches: Vec<Search<'a, K, V>>) -> Result<Vec<Search<'a, K, V>>> {
        while searches.iter().any(|search| search.found.is_none()) {
            if LayoutOf::<K, V>::IS_PACKED {
                self.look_once::<u32>(&mut searches)?;
            } else {
                self.look_once::<u64>(&mut searches)?;
            }
        }
        Ok(searches)
    }

    /// One round of [`locate`](Self::locate): all states, then the keys behind those whose fingerprint
    /// agrees.
    fn look_once<W: StateBits>(&self, searches: &mut [Search<'a, K, V>]) -> Result<()> {
        let mut states = Vec::with_capacity(searches.len());
        for search in searches.iter_mut().filter(|search| search.found.is_none()) {
            let word = search.slot.state_word::<W>();
            let event = word.fetch_op_nb(self.world, AtomicOp::Load, W::from_bits(0))?;
            states.push((search, event));
        }
        let mut candidates = Vec::new();
        for (search, event) in states {
            let state = event.wait()?.state();
            match state.state() {
                SlotState::Free => search.found = Some(Found::Absent),
                SlotState::Ready | SlotState::Locked if state.has(search.home.fingerprint) => {
                    let key = search.slot.key_pointer().get_nb(self.world)?;
                    candidates.push((search, state, key));
                }
                SlotState::Reserved if state.has(search.home.fingerprint) => {
                    self.wait_for(search)?;
                }
                SlotState::Reserved | SlotState::Ready | SlotState::Locked | SlotState::Removed => {
                    self.walk_on(search);
                }
            }
        }
        for (search, state, key) in candidates {
            if <K::Repr as Repr<K>>::has_key(&key.wait()?, &search.key, self.heap)? {
                search.found = Some(Found::Held(state));
            } else {
                self.walk_on(search);
            }
        }
        Ok(())
    }

    /// Goes on with a search that has come to a slot where another rank is about to publish what may be its key.
    #[cold]
    fn wait_for(&self, search: &mut Search<'a, K, V>) -> Result<()> {
        let (slot, fingerprint) = (&search.slot, search.home.fingerprint);
        let (wanted, intent) = (Wanted::Key, Intent::Look);
        match slots::meet(slot, &search.key, self.heap, fingerprint, wanted, intent)? {
            Met::Held(held) => search.found = Some(Found::Held(held.state)),
            Met::Free | Met::Other => self.walk_on(search),
        }
        Ok(())
    }

    fn walk_on(&self, search: &mut Search<'a, K, V>) {
        search.slot = self.next(&search.slot);
        if search.slot.is_same(&search.home.slot) {
            search.found = Some(Found::Absent);
        }
    }

    pub(super) fn find_together(&self, keys: &[K], values: &mut [Option<V>]) -> Result<()> {
        let groups = keys.chunks(TOGETHER).zip(values.chunks_mut(TOGETHER));
        for (keys, values) in groups {
            let searches = keys.iter().map(|key| self.begin(key));
            let searches = self.locate(searches.collect::<Result<_>>()?)?;
            match LayoutOf::<K, V>::KIND {
                ValueKind::Word4 => self.load_words::<u32>(&searches, values)?,
                ValueKind::Word8 => self.load_words::<u64>(&searches, values)?,
                ValueKind::Wide => self.load_all(
                    &searches,
                    values,
                    |slot| slot.value_pointer::<SlotOf<V>>().get_nb(self.world),
                    |slot, state, value| self.value_held(slot, Held::new(state, value)),
                )?,
                ValueKind::Nothing => {
                    for (search, value) in searches.iter().zip(values) {
                        *value = self.load_found(search)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// By a blocking operation.
    fn load_found(&self, search: &Search<'a, K, V>) -> Result<Option<V>> {
        let Some(Found::Held(state)) = search.found else {
            return Ok(None);
        };
        self.value_held(&search.slot, Held::unread(state))
    }

    fn load_words<W: Atomic>(
        &self,
        searches: &[Search<'a, K, V>],
        values: &mut [Option<V>],
    ) -> Result<()> {
        let load = |slot: &RemoteSlot<'a, K, V>| {
            let word = slot.value_pointer::<W>();
            word.fetch_op_nb(self.world, AtomicOp::Load, W::from_bits(0))
        };
        self.load_all(searches, values, load, |_, _, word| {
            let word = of_word::<W, SlotOf<V>>(word);
            object::from_slot::<V>(word, self.heap).map(Some)
        })
    }

    /// Loads the values that searches have found: where the slot was ready, `begin` begins that,
    /// for all of them, and `end` makes a value of what it has read after the state.
    fn load_all<T: Send + 'static>(
        &self,
        searches: &[Search<'a, K, V>],
        values: &mut [Option<V>],
        begin: impl Fn(&RemoteSlot<'a, K, V>) -> pgas_core::Result<Event<T>>,
        end: impl Fn(&RemoteSlot<'a, K, V>, StateWord, T) -> Result<Option<V>>,
    ) -> Result<()> {
        let mut in_flight = Vec::with_capacity(searches.len());
        for (index, search) in searches.iter().enumerate() {
            match search.found {
                Some(Found::Held(state)) if search.is_ready() => {
                    in_flight.push((index, state, begin(&search.slot)?));
                }
                _ => values[index] = self.load_found(search)?,
            }
        }
        for (index, state, event) in in_flight {
            values[index] = end(&searches[index].slot, state, event.wait()?)?;
        }
        Ok(())
    }

    pub(super) fn insert_together(&self, entries: &[(K, V)]) -> Outcome {
        match LayoutOf::<K, V>::KIND {
            ValueKind::Word4 => self.insert_words::<u32>(entries),
            ValueKind::Word8 => self.insert_words::<u64>(entries),
            ValueKind::Nothing | ValueKind::Wide => self.in_groups(
                entries.len(),
                |i| &entries[i].0,
                |i, search, _: &mut Vec<InFlight<'a, K, V, ()>>| {
                    self.insert_located(search, &entries[i])
                },
            ),
        }
    }

    fn insert_words<W: Atomic>(&self, entries: &[(K, V)]) -> Outcome {
        let begin = |i: usize, search: &Search<'a, K, V>, in_flight: &mut Vec<_>| {
            // Operations on one word have no order while they are in flight, and the last entry of
            // a key is to win.
            let is_same = |(_, slot, _): &InFlight<'a, K, V, W>| slot.is_same(&search.slot);
            if in_flight.iter().any(is_same) {
                complete(in_flight).map_err(|failed| failed.error)?;
            }
            if !search.is_ready() {
                return self.insert_located(search, &entries[i]);
            }
            let new = to_word(&object::to_slot(&entries[i].1, self.heap)?);
            let word = search.slot.value_pointer::<W>();
            let event = word.fetch_op_nb(self.world, AtomicOp::Swap, new)?;
            in_flight.push((i, search.slot, event));
            Ok(Inserted::Replaced)
        };
        self.in_groups(entries.len(), |i| &entries[i].0, begin)
    }

    /// Inserts by the blocking operations, from the slot that the search has found.
    fn insert_located(&self, search: &Search<'a, K, V>, entry: &(K, V)) -> Result<Inserted> {
        let value = object::to_slot(&entry.1, self.heap)?;
        if let Some(Found::Held(state)) = search.found {
            let held = Held::unread(state);
            let was_there = slots::store(&search.slot, self.heap, held, value)?;
            return Ok(Inserted::over(was_there));
        }
        self.insert(self.hash(&search.key), &search.key, value)
    }

    /// Locates the keys group by group, begins the operations in their order, and completes them.
    fn in_groups<'k, T: Send + 'static>(
        &self,
        n: usize,
        key: impl Fn(usize) -> &'k K,
        mut begin: impl FnMut(
            usize,
            &Search<'a, K, V>,
            &mut Vec<InFlight<'a, K, V, T>>,
        ) -> Result<Inserted>,
    ) -> Outcome {
        let mut n_new = 0;
        let mut result = Ok(());
        for start in (0..n).step_by(TOGETHER) {
            let indices = start..n.min(start + TOGETHER);
            let mut in_flight = Vec::with_capacity(TOGETHER);
            let failed = |done| move |error| BatchError { done, error };
            // Those before a key that cannot be written are carried out.
            let mut refused = Ok(());
            let searches = indices.clone().map_while(|i| {
                let search = self.begin(key(i)).map_err(failed(i));
                search.map_err(|error| refused = Err(error)).ok()
            });
            let searches = searches.collect();
            result = self
                .locate(searches)
                .map_err(failed(start))
                .and_then(|searches| {
                    for (i, search) in indices.zip(&searches) {
                        let inserted = begin(i, search, &mut in_flight).map_err(failed(i))?;
                        n_new += usize::from(inserted == Inserted::New);
                    }
                    refused
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

/// While nobody changes anything: a block is read at once.
impl<'a, K: Object, V: Object, S: KeyHasher> View<'a, K, V, S, Remote<'a>> {
    pub(super) fn find_read_only(&self, keys: &[K], values: &mut [Option<V>]) -> Result<()> {
        for (keys, values) in keys.chunks(TOGETHER).zip(values.chunks_mut(TOGETHER)) {
            let begin = |(key, value)| Ok((self.begin(key)?, value));
            let searches = keys.iter().zip(values).map(begin);
            let mut searches = searches.collect::<Result<Vec<_>>>()?;
            while !searches.is_empty() {
                let mut in_flight = Vec::with_capacity(searches.len());
                for (search, value) in searches.drain(..) {
                    let event = search.slot.see_nb()?;
                    in_flight.push((search, value, event));
                }
                for (mut search, value, event) in in_flight {
                    let seen = event.wait()?;
                    match self.step(search.slot, &seen, &search.home, &search.key)? {
                        Step::Onward(slot) => {
                            search.slot = slot;
                            searches.push((search, value));
                        }
                        step => {
                            let found = step.value();
                            let found = found.map(|slot| object::from_slot::<V>(slot, self.heap));
                            *value = found.transpose()?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl<'a, K, V, S> View<'a, K, V, S, Remote<'a>>
where
    K: Object,
    V: AtomicInteger + Object<Repr = Plain>,
    S: KeyHasher,
{
    pub(super) fn add_together<'k>(
        &self,
        len: usize,
        key: impl Fn(usize) -> &'k K,
        n: impl Fn(usize) -> V,
    ) -> Outcome {
        let begin = |i: usize, search: &Search<'a, K, V>, in_flight: &mut Vec<_>| {
            if search.is_ready() {
                let word = search.slot.value_pointer::<V>();
                let event = word.fetch_op_nb(self.world, AtomicOp::Add, n(i))?;
                in_flight.push((i, search.slot, event));
                return Ok(Inserted::Replaced);
            }
            let former = self.add(self.hash(&search.key), &search.key, n(i))?;
            Ok(Inserted::over(former.is_some()))
        };
        self.in_groups(len, key, begin)
    }
}

/// A state word as it is in memory.
trait StateBits: Atomic {
    fn state(self) -> StateWord;
}

impl StateBits for u64 {
    fn state(self) -> StateWord {
        StateWord::from_bits(self)
    }
}

impl StateBits for u32 {
    fn state(self) -> StateWord {
        StateWord::from_narrow(self)
    }
}

/// Waits for all operations, also after one of them failed, and reports the first that did.
fn complete<K, V, T: Send + 'static>(
    in_flight: &mut Vec<InFlight<'_, K, V, T>>,
) -> Result<(), BatchError> {
    let mut outcome = Ok(());
    for (index, _, event) in in_flight.drain(..) {
        let waited = event.wait().map_err(|error| BatchError {
            done: index,
            error: Error::from(error),
        });
        outcome = outcome.and(waited.map(drop));
    }
    outcome
}
