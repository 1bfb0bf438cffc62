//! Tests of the protocol on a slot that another rank changes at a chosen moment, and whose reads
//! can be made to fail. Its values point to heap memory.

use std::cell::{Cell, RefCell};

use super::state::{Fingerprint, StateWord};
use super::value::{load, remove, store, take};
use super::{Held, SlotMemory};

/// The result of a read of released memory.
const GARBAGE: u64 = u64::MAX;

/// A change by another rank: the state and the value that it leaves.
type Change = (StateWord, u64);

struct Script {
    state: Cell<StateWord>,
    /// The value; `None` if a read of it fails.
    value: Cell<Option<u64>>,
    /// The change that is made during a fetch of heap memory.
    at_fetch: Cell<Option<Change>>,
    /// The change that is made during a wait.
    at_wait: Cell<Option<Change>>,
    released: RefCell<Vec<u64>>,
    n_given_up: Cell<u32>,
}

impl Script {
    fn new(state: StateWord, value: Option<u64>) -> Self {
        Self {
            state: Cell::new(state),
            value: Cell::new(value),
            at_fetch: Cell::new(None),
            at_wait: Cell::new(None),
            released: RefCell::default(),
            n_given_up: Cell::new(0),
        }
    }

    /// Applies the change, if there is one. Returns whether there was one.
    fn change(&self, change: &Cell<Option<Change>>) -> bool {
        let Some((state, value)) = change.take() else {
            return false;
        };
        self.state.set(state);
        self.value.set(Some(value));
        true
    }
}

#[derive(Clone, Copy)]
struct Slot<'a, const IS_WORD: bool = false>(&'a Script);

impl<const IS_WORD: bool> SlotMemory for Slot<'_, IS_WORD> {
    type Error = &'static str;
    type Failure = &'static str;
    type Key = ();
    type KeySlot = ();
    type Value = u64;
    type Loaded = u64;
    type Heap = Script;

    const HAS_HEAP: bool = true;
    const IS_WORD: bool = IS_WORD;
    const IS_LOCAL: bool = false;

    fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }

    fn load_state(&self) -> Result<StateWord, Self::Error> {
        Ok(self.0.state.get())
    }

    fn reserve(&self, new: StateWord) -> Result<Result<(), StateWord>, Self::Error> {
        self.swap_state(StateWord::FREE, new)
    }

    fn swap_state(
        &self,
        current: StateWord,
        new: StateWord,
    ) -> Result<Result<(), StateWord>, Self::Error> {
        let state = self.0.state.get();
        if state != current {
            return Ok(Err(state));
        }
        self.0.state.set(new);
        Ok(Ok(()))
    }

    fn publish_entry(&self, (): (), value: u64, state: StateWord) -> Result<(), Self::Error> {
        self.publish_value(value, state)
    }

    fn publish_value(&self, value: u64, state: StateWord) -> Result<(), Self::Error> {
        self.0.value.set(Some(value));
        self.0.state.set(state);
        Ok(())
    }

    fn has_key(&self, (): &(), _: &Script) -> Result<bool, Self::Error> {
        Ok(true)
    }

    fn entry_of(&self, (): &(), _: &Script) -> Result<Option<u64>, Self::Error> {
        self.value().map(Some)
    }

    fn value(&self) -> Result<u64, Self::Error> {
        self.0.value.get().ok_or("the value cannot be read")
    }

    fn load_word(&self) -> Result<u64, Self::Error> {
        self.value()
    }

    fn swap_word(&self, _: u64) -> Result<(), Self::Error> {
        unreachable!("values are wide")
    }

    fn compare_swap_word(&self, _: u64, _: u64) -> Result<Result<(), u64>, Self::Error> {
        unreachable!("values are wide")
    }

    fn is_outside(_: &u64) -> bool {
        true
    }

    fn fetch(value: u64, heap: &Script) -> Result<u64, Self::Error> {
        Ok(if heap.change(&heap.at_fetch) {
            GARBAGE
        } else {
            value
        })
    }

    fn release(value: &u64, heap: &Script) {
        heap.released.borrow_mut().push(*value);
    }

    fn wait_until(
        &self,
        ready: &mut dyn FnMut() -> Result<bool, Self::Error>,
    ) -> Result<(), Self::Error> {
        while !ready()? {
            assert!(self.0.change(&self.0.at_wait), "nobody ends the wait");
        }
        Ok(())
    }

    fn give_up(&self, error: Self::Error) -> Self::Error {
        self.0.n_given_up.set(self.0.n_given_up.get() + 1);
        error
    }
}

fn ready() -> StateWord {
    StateWord::ready(Fingerprint::of(7))
}

#[test]
fn what_was_given_back_while_it_was_fetched_is_not_used() {
    let script = Script::new(ready(), Some(1));
    script.at_fetch.set(Some((ready().overwritten(), 2)));
    let loaded = load(&Slot::<false>(&script), &script, Held::new(ready(), 1));
    assert_eq!(loaded, Ok(Some(2)));
    // The same after a removal.
    let script = Script::new(ready(), Some(1));
    script.at_fetch.set(Some((ready().removed(), 1)));
    let loaded = load(&Slot::<false>(&script), &script, Held::new(ready(), 1));
    assert_eq!(loaded, Ok(None));
}

#[test]
fn what_is_given_back_for_a_key_that_is_removed_is_what_it_had_last() {
    // The value was read while another rank was writing the next one.
    let script = Script::new(ready().locked(), Some(1));
    script.at_wait.set(Some((ready().overwritten(), 2)));
    let held = Held::new(ready().locked(), 1);
    assert_eq!(remove(&Slot::<false>(&script), &script, held), Ok(true));
    assert_eq!(*script.released.borrow(), [2]);
}

#[test]
fn what_is_given_back_for_a_value_that_is_overwritten_is_what_was_there_last() {
    // The value was read before another rank wrote the next one.
    let script = Script::new(ready().overwritten(), Some(2));
    let held = Held::new(ready(), 1);
    assert_eq!(store(&Slot::<false>(&script), &script, held, 3), Ok(true));
    assert_eq!(*script.released.borrow(), [2]);
}

#[test]
fn who_cannot_read_what_a_locked_slot_has_gives_it_up() {
    let script = Script::new(ready(), None);
    let stored = store(&Slot::<false>(&script), &script, Held::unread(ready()), 3);
    assert_eq!(stored, Err("the value cannot be read"));
    assert_eq!(script.n_given_up.get(), 1);
    assert_eq!(script.state.get(), ready().locked());
}

#[test]
fn who_takes_a_value_leaves_a_slot_alone_that_is_locked_again() {
    // The slot was locked when the key was found, is ready, and then locked for the next value.
    let locked = ready().removed().locked();
    let script = Script::new(ready(), Some(1));
    script.at_fetch.set(Some((locked, 1)));
    script.at_wait.set(Some((ready(), 2)));
    let slot = Slot::<true>(&script);
    let taken = take(&slot, &script, Held::unread(locked), Ok);
    assert_eq!(taken, Ok(Some(2)));
    assert_eq!(script.state.get(), ready().removed());
}
