//! Batches on slots behind a network: the reads of up to [`GROUP`] operations are in flight
//! together, so that they share one round trip.
//!
//! First all keys are located, which changes nothing. Then the operations begin in their order. A
//! location stays valid: a slot that holds a key holds it for ever. A key that was absent is
//! inserted by the blocking operation, which searches again.

use pgas_core::atomics::Atomic;
use pgas_core::backend::AtomicOp;
use pgas_core::{Event, Rank};
use pgas_lockfree::slots::probe::Slots as _;
use pgas_lockfree::slots::state::{SlotState, StateWord};
use pgas_lockfree::slots::{self, Held, Inspected, Intent, ReadValue, SlotMemory as _};

use super::super::op::{Effect, FoundSlot, OnKey};
use super::super::outcome::Outcome as _;
use super::super::slot::copied::{BlockCopy, Copied};
use super::super::slot::layout::{Blocks as _, ValueKind};
use super::super::slot::remote::Remote;
use super::super::slot::{Access, GlobalSlot, LayoutOf, of_word, to_word};
use super::super::view::{Home, View};
use crate::object::{KeyHasher, KeyOf, Object, Repr, SlotOf};
use crate::{BatchError, Error, Result};

/// Operations whose reads are in flight together.
const GROUP: usize = 64;

/// A slot that is accessed by operations on global pointers.
type RemoteSlot<'a, K, V> = GlobalSlot<K, V, Remote<'a>>;

/// The search for one key.
struct Search<'a, K: Object, V: Object> {
    key: KeyOf<K>,
    home: Home<K, V, Remote<'a>>,
    /// The slot that the search has reached.
    slot: RemoteSlot<'a, K, V>,
    /// A copy of that slot's block, used while no rank writes.
    copy: BlockCopy,
    found: Option<SearchResult<SlotOf<V>>>,
}

/// Makes the batch's error of an error at element `i`.
fn failed(i: usize) -> impl Fn(Error) -> BatchError {
    move |error| BatchError { done: i, error }
}

/// The result of a search.
#[derive(Clone, Copy, Debug)]
enum SearchResult<V> {
    Absent,
    /// The slot that the search has reached holds the key.
    Held(Held<V>),
}

impl<K: Object, V: Object> Search<'_, K, V> {
    /// Whether the value is a word and its slot was ready, so that one atomic completes the
    /// operation.
    fn has_word(&self) -> bool {
        let is_word = matches!(LayoutOf::<K, V>::KIND, ValueKind::Word4 | ValueKind::Word8);
        let is_ready = |held: Held<_>| held.state.state() == SlotState::Ready;
        is_word && matches!(self.found, Some(SearchResult::Held(held)) if is_ready(held))
    }
}

impl<'a, K: Object, V: Object, S: KeyHasher> View<'a, K, V, S, Remote<'a>> {
    /// Begins the search for a key.
    fn begin(&self, key: KeyOf<K>) -> Search<'a, K, V> {
        let home = self.home(self.hash(&key));
        Search {
            key,
            home,
            slot: home.slot,
            copy: BlockCopy::default(),
            found: None,
        }
    }

    /// Completes all `searches` together. In each round every unfinished search examines one slot.
    fn locate(&self, searches: &mut [Search<'a, K, V>]) -> Result<()> {
        while searches.iter().any(|search| search.found.is_none()) {
            if LayoutOf::<K, V>::IS_PACKED {
                self.locate_round(searches, StateWord::from_narrow)?;
            } else {
                self.locate_round(searches, StateWord::from_bits)?;
            }
        }
        Ok(())
    }

    /// One round of [`locate`](Self::locate). Reads all states, each a `W` in memory, then the
    /// entries whose fingerprint agrees.
    fn locate_round<W: Atomic>(
        &self,
        searches: &mut [Search<'a, K, V>],
        state_of: impl Fn(W) -> StateWord,
    ) -> Result<()> {
        let mut states = Vec::with_capacity(searches.len());
        for search in searches.iter_mut().filter(|search| search.found.is_none()) {
            let word = search.slot.state_word::<W>();
            let event = word.fetch_op_nb(self.shape.world(), AtomicOp::Load, W::from_bits(0))?;
            states.push((search, event));
        }
        let mut candidates = Vec::new();
        for (search, event) in states {
            let state = state_of(event.wait()?);
            match state.state() {
                SlotState::Free => search.found = Some(SearchResult::Absent),
                SlotState::Ready | SlotState::Locked if state.has(search.home.fingerprint) => {
                    let entry = search.slot.entry_nb()?;
                    candidates.push((search, state, entry));
                }
                SlotState::Reserved if state.has(search.home.fingerprint) => {
                    // Another rank is writing what may be the key: wait for it.
                    search.found = inspect_slot(self, search)?;
                    self.advance(search);
                }
                SlotState::Vacant
                | SlotState::Reserved
                | SlotState::Ready
                | SlotState::Locked
                | SlotState::Removed
                | SlotState::Leaving => self.advance(search),
            }
        }
        for (search, state, entry) in candidates {
            let (key, value) = entry.wait()?.parts();
            if <K::Repr as Repr<K>>::has_key(&key, &search.key, self.heap())? {
                search.found = Some(SearchResult::Held(Held::new(state, value)));
            } else {
                self.advance(search);
            }
        }
        Ok(())
    }

    /// Moves an unfinished search on to the next slot.
    fn advance(&self, search: &mut Search<'a, K, V>) {
        if search.found.is_some() {
            return;
        }
        search.slot = self.next(&search.slot);
        if search.slot.is_same(&search.home.slot) {
            search.found = Some(SearchResult::Absent);
        }
    }

    /// As [`locate`](Self::locate), while no rank writes: one read fetches a whole block.
    fn locate_read_only(&self, searches: &mut [Search<'a, K, V>]) -> Result<()> {
        let is_open = |search: &&mut Search<'a, K, V>| search.found.is_none();
        loop {
            let open = searches.iter_mut().filter(is_open);
            let begun = open.map(|search| Ok((search.slot.block_nb()?, search)));
            let in_flight = begun.collect::<Result<Vec<_>>>()?;
            if in_flight.is_empty() {
                return Ok(());
            }
            for (event, search) in in_flight {
                let position = search.slot.position();
                search.copy = BlockCopy::new(&search.slot.access, event.wait()?);
                while search.found.is_none() && search.slot.position().is_same_block(position) {
                    search.found = inspect_slot(&self.copied(&search.copy), search)?;
                    self.advance(search);
                }
            }
        }
    }

    /// A view of the slots through a copy of a block.
    fn copied<'c>(&'c self, copy: &'c BlockCopy) -> View<'c, K, V, S, Copied<'c, false>> {
        self.shape.view_copied(Rank::ZERO, copy)
    }

    /// Performs `O` on the keys of `elements`, group by group. `take` receives each result.
    pub(super) fn perform_grouped<'k, O: OnKey<K, V>, E>(
        &self,
        elements: &'k [E],
        key: impl Fn(&'k E) -> Result<KeyOf<K>> + Copy,
        given: impl Fn(&'k E) -> Result<O::Given> + Copy,
        take: &mut impl FnMut(usize, O::Outcome) -> Result<()>,
        n_changed: &mut usize,
    ) -> Result<(), BatchError> {
        for (group, start) in elements.chunks(GROUP).zip((0..).step_by(GROUP)) {
            // The operations before a key that cannot be encoded are performed.
            let mut refused = Ok(());
            let searches = (start..).zip(group).map_while(|(i, element)| {
                let search = key(element).map(|key| self.begin(key)).map_err(failed(i));
                search.map_err(|error| refused = Err(error)).ok()
            });
            let mut searches: Vec<_> = searches.collect();
            let located = if O::IS_READ_ONLY {
                self.locate_read_only(&mut searches)
            } else {
                self.locate(&mut searches)
            };
            located.map_err(failed(start))?;
            let of_group = |k: usize| given(&group[k]);
            match LayoutOf::<K, V>::KIND {
                ValueKind::Word4 => {
                    self.perform_located::<O, u32>(&searches, start, of_group, take, n_changed)?;
                }
                _ => self.perform_located::<O, u64>(&searches, start, of_group, take, n_changed)?,
            }
            refused?;
        }
        Ok(())
    }

    /// Performs `O` on a group of located keys, in their order. The group's first key has index
    /// `start` in the batch. Atomics on words are in flight together.
    fn perform_located<O: OnKey<K, V>, W: Atomic>(
        &self,
        searches: &[Search<'a, K, V>],
        start: usize,
        given: impl Fn(usize) -> Result<O::Given> + Copy,
        take: &mut impl FnMut(usize, O::Outcome) -> Result<()>,
        n_changed: &mut usize,
    ) -> Result<(), BatchError> {
        let mut end = |k: usize, word: Result<Option<W>>| {
            let done = match word {
                Ok(Some(word)) => O::Outcome::of_value(of_word(word), self.heap()),
                Ok(None) => given(k).and_then(|given| self.finish::<O>(&searches[k], given)),
                Err(error) => Err(error),
            };
            let taken = done.and_then(|done| {
                *n_changed += usize::from(O::is_change(&done));
                take(start + k, done)
            });
            taken.map_err(failed(start + k))
        };
        let mut in_flight = Vec::with_capacity(searches.len());
        let mut outcome = Ok(());
        for (k, search) in searches.iter().enumerate() {
            // Operations in flight on one word are not ordered, but the last entry of a key has to
            // win.
            let is_same = |(other, _): &(usize, _)| searches[*other].slot.is_same(&search.slot);
            if O::IS_ORDERED && in_flight.iter().any(is_same) {
                outcome = complete(&mut in_flight, &mut end);
            }
            if outcome.is_err() {
                break;
            }
            outcome = match O::WORD.filter(|_| !O::IS_READ_ONLY && search.has_word()) {
                Some(op) => {
                    let word = search.slot.value_pointer::<W>();
                    let begun = given(k).and_then(|given| {
                        let operand = to_word(&O::value(&given));
                        word.fetch_op_nb(self.shape.world(), op, operand)
                    });
                    match begun {
                        Ok(event) => {
                            in_flight.push((k, event));
                            Ok(())
                        }
                        Err(error) => end(k, Err(error)),
                    }
                }
                None => end(k, Ok(None)),
            };
            if outcome.is_err() {
                break;
            }
        }
        // Complete what is in flight even if a later element failed.
        complete(&mut in_flight, &mut end).and(outcome)
    }

    /// Performs `O` on a located key.
    fn finish<O: OnKey<K, V>>(
        &self,
        search: &Search<'a, K, V>,
        mut given: O::Given,
    ) -> Result<O::Outcome> {
        let done = match search.found {
            Some(SearchResult::Held(held)) if O::IS_READ_ONLY => {
                let view = self.copied(&search.copy);
                O::held(
                    FoundSlot::new(&view, view.slot(search.slot.position()), held),
                    &mut given,
                )?
            }
            Some(SearchResult::Held(held)) => {
                O::held(FoundSlot::new(self, search.slot, held), &mut given)?
            }
            Some(SearchResult::Absent) | None => None,
        };
        match done {
            Some(done) => Ok(done),
            None if O::EFFECT == Effect::Claim => {
                O::perform(self, self.hash(&search.key), &search.key, given)
            }
            None => Ok(O::Outcome::default()),
        }
    }
}

/// Examines the slot that a search has reached, through `view`. `None` if the search has to go on.
fn inspect_slot<'a, K: Object, V: Object, S: KeyHasher, R: Access<'a>>(
    view: &View<'a, K, V, S, R>,
    search: &Search<'_, K, V>,
) -> Result<Option<SearchResult<SlotOf<V>>>> {
    let (slot, fingerprint) = (view.slot(search.slot.position()), search.home.fingerprint);
    let (read_value, intent) = (ReadValue::Yes, Intent::Find);
    let met = slots::inspect(
        &slot,
        &search.key,
        view.heap(),
        fingerprint,
        read_value,
        intent,
    )?;
    Ok(match met {
        Inspected::Held(held) => Some(SearchResult::Held(held)),
        Inspected::Free => Some(SearchResult::Absent),
        Inspected::Vacant | Inspected::Other => None,
    })
}

/// Waits for all operations in flight, even after a failure, and returns the first failure.
fn complete<W: Atomic>(
    in_flight: &mut Vec<(usize, Event<W>)>,
    end: &mut impl FnMut(usize, Result<Option<W>>) -> Result<(), BatchError>,
) -> Result<(), BatchError> {
    let mut outcome = Ok(());
    for (k, event) in in_flight.drain(..) {
        let former = event.wait().map(Some);
        outcome = outcome.and(end(k, former));
    }
    outcome
}
