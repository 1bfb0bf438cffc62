//! The protocol of the slots under loom, which tries every interleaving and every value that a relaxed
//! load may return: `RUSTFLAGS='--cfg loom' LOOM_MAX_PREEMPTIONS=2 CARGO_TARGET_DIR=target/loom cargo test
//! --release -p pgas-containers --lib loom`.

#![expect(clippy::unwrap_used, reason = "a failed operation fails the model")]

mod blocks;
mod slots;

use std::ptr;
use std::sync::Arc as StdArc;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;
use pgas_core::Result;

use super::hash::Fingerprint;
use super::slot::{self, Held, SlotMemory, Wanted};
use super::state::StateWord;
use super::walk::{self, Home, Place, Slots};

/// A slot with a key and a value of two words, which a reader may see torn, or of one.
struct Memory {
    state: AtomicU64,
    key: AtomicU64,
    value: [AtomicU64; 2],
}

/// Slots whose values are words, or wide.
struct Table<const IS_WORD: bool> {
    slots: Vec<Memory>,
    /// Whether state words are narrow and the slots of a table are one block.
    is_packed: bool,
}

impl<const IS_WORD: bool> Table<IS_WORD> {
    fn new(n: usize, is_packed: bool) -> Arc<Self> {
        let free = || Memory {
            state: AtomicU64::new(0),
            key: AtomicU64::new(0),
            value: [AtomicU64::new(0), AtomicU64::new(0)],
        };
        Arc::new(Self {
            slots: (0..n).map(|_| free()).collect(),
            is_packed,
        })
    }

    fn slot(&self, index: usize) -> Slot<'_, IS_WORD> {
        Slot {
            memory: &self.slots[index],
            is_packed: self.is_packed,
        }
    }
}

impl<'a, const IS_WORD: bool> Slots for &'a Table<IS_WORD> {
    type Slot = Slot<'a, IS_WORD>;

    fn next(&self, slot: &Slot<'a, IS_WORD>) -> Slot<'a, IS_WORD> {
        let at = |memory: &Memory| ptr::eq(memory, slot.memory);
        let at = self.slots.iter().position(at);
        let at = at.expect("a slot of this table");
        self.slot((at + 1) % self.slots.len())
    }

    fn heap(&self) -> &() {
        &()
    }
}

/// The same orderings as those of a slot in directly addressable memory.
#[derive(Clone, Copy)]
struct Slot<'a, const IS_WORD: bool> {
    memory: &'a Memory,
    is_packed: bool,
}

impl<const IS_WORD: bool> Slot<'_, IS_WORD> {
    /// A state as it is in memory.
    fn bits(&self, state: StateWord) -> u64 {
        if self.is_packed {
            return state.narrow().into();
        }
        state.to_bits()
    }

    fn state(&self, bits: u64) -> StateWord {
        if self.is_packed {
            return StateWord::from_narrow(u32::try_from(bits).unwrap());
        }
        StateWord::from_bits(bits)
    }

    fn publish(&self, value: [u64; 2], state: StateWord) {
        fence(Ordering::Release);
        for (word, half) in self.memory.value.iter().zip(value) {
            word.store(half, Ordering::Relaxed);
        }
        fence(Ordering::Release);
        let bits = self.bits(state);
        self.memory.state.swap(bits, Ordering::AcqRel);
    }
}

impl<const IS_WORD: bool> SlotMemory for Slot<'_, IS_WORD> {
    type Key = u64;
    type KeySlot = u64;
    type Value = [u64; 2];
    type Loaded = [u64; 2];
    type Heap = ();

    const HAS_HEAP: bool = false;

    const IS_WORD: bool = IS_WORD;

    fn is_same(&self, other: &Self) -> bool {
        ptr::eq(self.memory, other.memory)
    }

    fn load_state(&self) -> Result<StateWord> {
        Ok(self.state(self.memory.state.load(Ordering::Acquire)))
    }

    fn reserve(&self, new: StateWord) -> Result<Result<(), StateWord>> {
        match self.load_state()? {
            StateWord::FREE => self.swap_state(StateWord::FREE, new),
            seen => Ok(Err(seen)),
        }
    }

    fn swap_state(&self, current: StateWord, new: StateWord) -> Result<Result<(), StateWord>> {
        let swapped = self.memory.state.compare_exchange(
            self.bits(current),
            self.bits(new),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        Ok(swapped.map(|_| ()).map_err(|bits| self.state(bits)))
    }

    fn publish_entry(&self, key: u64, value: [u64; 2], state: StateWord) -> Result<()> {
        self.memory.key.store(key, Ordering::Relaxed);
        for (word, half) in self.memory.value.iter().zip(value) {
            word.store(half, Ordering::Relaxed);
        }
        fence(Ordering::Release);
        let bits = self.bits(state);
        self.memory.state.store(bits, Ordering::Relaxed);
        Ok(())
    }

    fn publish_value(&self, value: [u64; 2], state: StateWord) -> Result<()> {
        self.publish(value, state);
        Ok(())
    }

    fn has_key(&self, key: &u64, (): &()) -> Result<bool> {
        Ok(self.memory.key.load(Ordering::Acquire) == *key)
    }

    fn entry_of(&self, key: &u64, (): &()) -> Result<Option<[u64; 2]>> {
        let there = self.memory.key.load(Ordering::Relaxed);
        let value = self.value()?;
        Ok((there == *key).then_some(value))
    }

    fn value(&self) -> Result<[u64; 2]> {
        let value = [0, 1].map(|i: usize| self.memory.value[i].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        Ok(value)
    }

    fn load_word(&self) -> Result<[u64; 2]> {
        Ok([self.memory.value[0].load(Ordering::Acquire), 0])
    }

    fn swap_word(&self, value: [u64; 2]) -> Result<()> {
        self.memory.value[0].swap(value[0], Ordering::AcqRel);
        Ok(())
    }

    fn compare_swap_word(&self, current: [u64; 2], new: [u64; 2]) -> Result<Result<(), [u64; 2]>> {
        let swapped = self.memory.value[0].compare_exchange(
            current[0],
            new[0],
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        Ok(swapped.map(|_| ()).map_err(|now| [now, 0]))
    }

    fn is_outside(_: &[u64; 2]) -> bool {
        false
    }

    fn fetch(value: [u64; 2], (): &()) -> Result<[u64; 2]> {
        Ok(value)
    }

    fn release(_: &[u64; 2], (): &()) -> crate::Result<()> {
        Ok(())
    }

    fn wait_until(&self, ready: &mut dyn FnMut() -> Result<bool>) -> Result<()> {
        while !ready()? {
            thread::yield_now();
        }
        Ok(())
    }
}

/// All keys have the same home; those of one hundred have the same fingerprint.
fn home<const W: bool>(table: &Table<W>, key: u64) -> Home<Slot<'_, W>> {
    Home {
        slot: table.slot(0),
        fingerprint: Fingerprint::of(key / 100),
    }
}

/// As [`HashMap::insert`](super::HashMap::insert): whether the key was new, or nothing on a full table.
fn insert<const W: bool>(table: &Table<W>, key: u64, value: [u64; 2]) -> Option<bool> {
    let place = walk::claim(&table, home(table, key), &key, Wanted::Key).unwrap();
    inserted::<W>(table, place, key, value)
}

fn inserted<const W: bool>(
    table: &Table<W>,
    place: Place<Slot<'_, W>, Held<[u64; 2]>>,
    key: u64,
    value: [u64; 2],
) -> Option<bool> {
    match place {
        Place::New(slot) => {
            let state = StateWord::ready(home(table, key).fingerprint);
            slot.publish_entry(key, value, state).unwrap();
            Some(true)
        }
        Place::Held(slot, held) => Some(!slot::store(&slot, &(), held, value).unwrap()),
        Place::Full => None,
    }
}

/// As [`HashMap::find`](super::HashMap::find).
fn find<const W: bool>(table: &Table<W>, key: u64) -> Option<[u64; 2]> {
    let found: Option<(Slot<'_, W>, Held<_>)> =
        walk::look(&table, home(table, key), &key, Wanted::Value).unwrap();
    found.and_then(|(slot, held)| slot::load(&slot, &(), held).unwrap())
}

/// As a batch of finds: without a branch at each slot, and on to the next one.
fn find_by_glances(table: &Table<true>, key: u64) -> Option<[u64; 2]> {
    let home = home(table, key);
    let mut slot = home.slot;
    loop {
        let there = slot::glance(&slot, &key, &(), home.fingerprint).unwrap();
        if there.is_unsure {
            return find(table, key);
        }
        if there.is_held {
            return Some(there.value);
        }
        slot = (&table).next(&slot);
        if there.is_free || slot.is_same(&home.slot) {
            return None;
        }
    }
}

/// As [`HashMap::update`](super::HashMap::update).
fn add_one<const W: bool>(table: &Table<W>, key: u64) {
    let (slot, held) = walk::look(&table, home(table, key), &key, Wanted::Value)
        .unwrap()
        .expect("the key is there");
    slot::update(&slot, &(), held, |[a, b]| {
        assert!(W || a == b, "a torn value reaches the caller");
        Ok([a + 1, if W { 0 } else { b + 1 }])
    })
    .unwrap();
}

/// As [`HashMap::remove`](super::HashMap::remove).
fn remove<const W: bool>(table: &Table<W>, key: u64) -> bool {
    let found = walk::look(&table, home(table, key), &key, Wanted::Value).unwrap();
    found.is_some_and(|(slot, held)| slot::remove(&slot, &(), held).unwrap())
}

/// Runs the two as threads on a table with `n` slots, and `end` on what they leave. Words are run with both widths of state words.
fn race<const W: bool, A: 'static, B: 'static>(
    n: usize,
    before: impl Fn(&Table<W>) + Sync + Send + 'static,
    a: impl Fn(&Table<W>) -> A + Sync + Send + 'static,
    b: impl Fn(&Table<W>) -> B + Sync + Send + 'static,
    end: impl Fn(&Table<W>, A, B) + Sync + Send + 'static,
) {
    let (before, end) = (StdArc::new(before), StdArc::new(end));
    let (a, b) = (StdArc::new(a), StdArc::new(b));
    for is_packed in [false, true] {
        if is_packed && !W {
            continue;
        }
        let (before, end) = (StdArc::clone(&before), StdArc::clone(&end));
        let (a, b) = (StdArc::clone(&a), StdArc::clone(&b));
        loom::model(move || {
            let table = Table::<W>::new(n, is_packed);
            before(&table);
            let first = {
                let (table, a) = (Arc::clone(&table), StdArc::clone(&a));
                thread::spawn(move || a(&table))
            };
            let second = b(&table);
            let first = first.join().unwrap();
            end(&table, first, second);
        });
    }
}
