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
use super::super::view::{Home, Inserted, View};
use super::Outcome;
use crate::object::{self, KeyHasher, KeyOf, Object, Plain, Repr, SlotOf};
use crate::{BatchError, Error, Result};

/// How many operations have their reads in flight at once.
const TOGETHER: usize = 64;

/// A slot of a map.
type RemoteSlot<'a, K, V> = GlobalSlot<K, V, Remote<'a>>;

/// The search for one key.
pub(super) struct Search<'a, K: Object, V: Object> {
    pub(super) key: KeyOf<K>,
    home: Home<K, V, Remote<'a>>,
    /// The slot that it has come to.
    pub(super) slot: RemoteSlot<'a, K, V>,
    found: Option<Found<SlotOf<V>>>,
}

/// What becomes of an error at element `i`.
fn failed(i: usize) -> impl Fn(Error) -> BatchError {
    move |error| BatchError { done: i, error }
}

/// What a search has come to.
#[derive(Clone, Copy, Debug)]
enum Found<V> {
    Absent,
    /// The slot where the search stands holds the key.
    Held(Held<V>),
}

impl<K: Object, V: Object> Search<'_, K, V> {
    /// What the slot held, if the key was there.
    pub(super) fn held(&self) -> Option<Held<SlotOf<V>>> {
        match self.found {
            Some(Found::Held(held)) => Some(held),
            Some(Found::Absent) | None => None,
        }
    }

    /// Whether the value is a word of a slot that was ready, so that one atomic is all that is left
    /// to do.
    fn has_word(&self) -> bool {
        let is_word = matches!(LayoutOf::<K, V>::KIND, ValueKind::Word4 | ValueKind::Word8);
        let is_ready = |held: Held<_>| held.state.state() == SlotState::Ready;
        is_word && matches!(self.found, Some(Found::Held(held)) if is_ready(held))
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
                self.look_once(&mut searches, StateWord::from_narrow)?;
            } else {
                self.look_once(&mut searches, StateWord::from_bits)?;
            }
        }
        Ok(searches)
    }

    /// One round of [`locate`](Self::locate): all states, each a `W` in memory, then the keys behind
    /// those whose fingerprint agrees.
    fn look_once<W: Atomic>(
        &self,
        searches: &mut [Search<'a, K, V>],
        state_of: impl Fn(W) -> StateWord,
    ) -> Result<()> {
        let mut states = Vec::with_capacity(searches.len());
        for search in searches.iter_mut().filter(|search| search.found.is_none()) {
            let word = search.slot.state_word::<W>();
            let event = word.fetch_op_nb(&self.shape.world, AtomicOp::Load, W::from_bits(0))?;
            states.push((search, event));
        }
        let mut candidates = Vec::new();
        for (search, event) in states {
            let state = state_of(event.wait()?);
            match state.state() {
                SlotState::Free => search.found = Some(Found::Absent),
                SlotState::Ready | SlotState::Locked if state.has(search.home.fingerprint) => {
                    let entry = search.slot.entry_nb()?;
                    candidates.push((search, state, entry));
                }
                SlotState::Reserved if state.has(search.home.fingerprint) => {
                    self.wait_for(search)?;
                }
                SlotState::Vacant
                | SlotState::Reserved
                | SlotState::Ready
                | SlotState::Locked
                | SlotState::Removed
                | SlotState::Leaving => self.walk_on(search),
            }
        }
        for (search, state, entry) in candidates {
            let (key, value) = entry.wait()?.parts();
            if <K::Repr as Repr<K>>::has_key(&key, &search.key, self.heap())? {
                search.found = Some(Found::Held(Held::new(state, value)));
            } else {
                self.walk_on(search);
            }
        }
        Ok(())
    }

    /// Goes on with a search that has come to a slot where another rank is about to publish what may
    /// be its key.
    #[cold]
    fn wait_for(&self, search: &mut Search<'a, K, V>) -> Result<()> {
        let (slot, fingerprint) = (&search.slot, search.home.fingerprint);
        let (wanted, intent) = (Wanted::Value, Intent::Look);
        match slots::meet(slot, &search.key, self.heap(), fingerprint, wanted, intent)? {
            Met::Held(held) => search.found = Some(Found::Held(held)),
            Met::Free | Met::Vacant | Met::Other => self.walk_on(search),
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
        match LayoutOf::<K, V>::KIND {
            ValueKind::Word4 => self.find_by::<u32>(keys, values),
            _ => self.find_by::<u64>(keys, values),
        }
    }

    fn find_by<W: Atomic>(&self, keys: &[K], values: &mut [Option<V>]) -> Result<()> {
        let load = (AtomicOp::Load, |_| Ok(W::from_bits(0)));
        let key = |i: usize| &keys[i];
        let found = self.in_groups(keys.len(), key, &load, |i, search, word| {
            values[i] = match (word, search.found) {
                (Some(word), _) => Some(object::from_slot::<V>(of_word(word), self.heap())?),
                (None, Some(Found::Held(held))) => self.value_held(&search.slot, held)?,
                (None, Some(Found::Absent) | None) => None,
            };
            Ok(Inserted::Replaced)
        });
        Ok(found.result?)
    }

    pub(super) fn insert_together(&self, entries: &[(K, V)]) -> Outcome {
        match LayoutOf::<K, V>::KIND {
            ValueKind::Word4 => self.insert_by::<u32>(entries),
            _ => self.insert_by::<u64>(entries),
        }
    }

    fn insert_by<W: Atomic>(&self, entries: &[(K, V)]) -> Outcome {
        let value = |i: usize| object::to_slot(&entries[i].1, self.heap());
        let swap = (AtomicOp::Swap, |i| Ok(to_word::<W, _>(&value(i)?)));
        let key = |i: usize| &entries[i].0;
        self.in_groups(entries.len(), key, &swap, |i, search, former| {
            if former.is_some() {
                return Ok(Inserted::Replaced);
            }
            if let Some(Found::Held(held)) = search.found {
                let was_there = slots::store(&search.slot, self.heap(), held, value(i)?)?;
                return Ok(Inserted::over(was_there));
            }
            self.insert(self.hash(&search.key), &search.key, value(i)?)
        })
    }

    /// Locates the keys group by group, and carries out an operation for each of them.
    fn in_groups<'k, W: Atomic>(
        &self,
        n: usize,
        key: impl Fn(usize) -> &'k K,
        op: &(AtomicOp, impl Fn(usize) -> Result<W>),
        mut end: impl FnMut(usize, &Search<'a, K, V>, Option<W>) -> Result<Inserted>,
    ) -> Outcome {
        let mut n_new = 0;
        let result = self.groups(n, key, |start, searches| {
            self.carry_out(searches, start, op, |k, word| {
                let ended = word.and_then(|word| end(start + k, &searches[k], word));
                let inserted = ended.map_err(failed(start + k))?;
                n_new += usize::from(inserted == Inserted::New);
                Ok(())
            })
        });
        Outcome { n_new, result }
    }

    /// Locates the keys group by group, and calls `end` with each in its turn.
    pub(super) fn each_located<'k>(
        &self,
        n: usize,
        key: impl Fn(usize) -> &'k K,
        mut end: impl FnMut(usize, &Search<'a, K, V>) -> Result<()>,
    ) -> Result<(), BatchError> {
        self.groups(n, key, |start, searches| {
            let mut numbered = (start..).zip(searches);
            numbered.try_for_each(|(i, search)| end(i, search).map_err(failed(i)))
        })
    }

    /// Locates the keys group by group; `end` gets each group with the number of its first one.
    fn groups<'k>(
        &self,
        n: usize,
        key: impl Fn(usize) -> &'k K,
        mut end: impl FnMut(usize, &[Search<'a, K, V>]) -> Result<(), BatchError>,
    ) -> Result<(), BatchError> {
        for start in (0..n).step_by(TOGETHER) {
            // Those before a key that cannot be written are carried out.
            let mut refused = Ok(());
            let searches = (start..n.min(start + TOGETHER)).map_while(|i| {
                let search = self.begin(key(i)).map_err(failed(i));
                search.map_err(|error| refused = Err(error)).ok()
            });
            let searches = searches.collect();
            let located = self.locate(searches).map_err(failed(start));
            located.and_then(|searches| end(start, &searches))?;
            refused?;
        }
        Ok(())
    }

    /// Carries out the operations of a group, the first of which is number `start` of the batch, in
    /// their order: those on words are in flight together, and go to `end` with the former words; the
    /// others are for `end` to do.
    fn carry_out<W: Atomic>(
        &self,
        searches: &[Search<'a, K, V>],
        start: usize,
        (op, operand): &(AtomicOp, impl Fn(usize) -> Result<W>),
        mut end: impl FnMut(usize, Result<Option<W>>) -> Result<(), BatchError>,
    ) -> Result<(), BatchError> {
        let mut in_flight = Vec::with_capacity(searches.len());
        let mut outcome = Ok(());
        for (k, search) in searches.iter().enumerate() {
            // Operations on one word have no order while they are in flight, and the last entry of a
            // key is to win.
            let is_same = |(other, _): &(usize, _)| searches[*other].slot.is_same(&search.slot);
            if *op == AtomicOp::Swap && in_flight.iter().any(is_same) {
                outcome = complete(&mut in_flight, &mut end);
            }
            if outcome.is_ok() && search.has_word() {
                let word = search.slot.value_pointer::<W>();
                let begin = |operand| Ok(word.fetch_op_nb(&self.shape.world, *op, operand)?);
                match operand(start + k).and_then(begin) {
                    Ok(event) => in_flight.push((k, event)),
                    Err(error) => outcome = end(k, Err(error)),
                }
            } else if outcome.is_ok() {
                outcome = end(k, Ok(None));
            }
            if outcome.is_err() {
                break;
            }
        }
        // What was begun is completed whatever happened to the element behind it.
        complete(&mut in_flight, &mut end).and(outcome)
    }
}

/// Waits for all operations, also after one of them failed, and reports the first that did.
fn complete<W: Atomic>(
    in_flight: &mut Vec<(usize, Event<W>)>,
    end: &mut impl FnMut(usize, Result<Option<W>>) -> Result<(), BatchError>,
) -> Result<(), BatchError> {
    let mut outcome = Ok(());
    for (k, event) in in_flight.drain(..) {
        let former = event.wait().map(Some).map_err(Error::from);
        outcome = outcome.and(end(k, former));
    }
    outcome
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
                    match self.step(&mut search.slot, &seen, &search.home, &search.key)? {
                        None => searches.push((search, value)),
                        Some(step) => {
                            let found = step.value();
                            let found = found.map(|slot| object::from_slot::<V>(slot, self.heap()));
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
        let add = (AtomicOp::Add, |i| Ok(n(i)));
        self.in_groups(len, key, &add, |i, search, former| {
            let was_there = match former {
                Some(_) => true,
                None => {
                    let former = self.add(self.hash(&search.key), &search.key, n(i))?;
                    former.is_some()
                }
            };
            Ok(Inserted::over(was_there))
        })
    }
}
