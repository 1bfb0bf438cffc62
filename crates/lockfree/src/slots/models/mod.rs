//! The protocol of the slots under loom, which tries every interleaving and every value that a weak
//! load may return. The steps on memory are those of [`local`], as for slots in memory of a
//! process.

#![expect(clippy::unwrap_used, reason = "nothing of a model fails")]

mod agreement;
mod lines;
mod reuse;
mod slots;

use std::convert::Infallible;
use std::ptr;
use std::sync::Arc as StdArc;

use loom::sync::Arc;
use loom::thread;

use super::probe::{self, Home, ProbeResult, Slots};
use super::state::{Fingerprint, StateAt, StateWord};
use super::{Intent, ReadValue, SlotMemory, local};
use crate::memory::{self, Memory, Part};
use crate::slots::value as slot;
use crate::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::word;

/// The maximum number of slots of a table.
const MOST: usize = 4;

/// The offset of the first slot's key. Its value, of one or two words, is behind it.
const KEY: usize = 64;
const VALUE: usize = KEY + 8;
const STRIDE: usize = 24;

/// A block of slots with narrow states, or of one slot with a wide one.
struct Block {
    narrow: [AtomicU32; MOST],
    wide: AtomicU64,
    /// Of each slot the key and the value.
    entries: Vec<[AtomicU64; 3]>,
}

impl Block {
    fn new(n: usize) -> Self {
        Self {
            narrow: [(); MOST].map(|()| AtomicU32::new(0)),
            wide: AtomicU64::new(0),
            entries: (0..n)
                .map(|_| [(); 3].map(|()| AtomicU64::new(0)))
                .collect(),
        }
    }
}

impl Memory for &Block {
    type Four = [u32; 4];

    fn word32(&self, offset: usize) -> &AtomicU32 {
        &self.narrow[offset / 4]
    }

    fn word64(&self, offset: usize) -> &AtomicU64 {
        let Some(at) = offset.checked_sub(KEY) else {
            return &self.wide;
        };
        &self.entries[at / STRIDE][at % STRIDE / 8]
    }

    /// The last one first, since no order is promised.
    fn load_four(&self, offset: usize) -> [u32; 4] {
        let mut four = [0; 4];
        for i in (0..MOST).rev() {
            four[i] = word::load(self.word32(offset + 4 * i));
        }
        four
    }
}

impl<const N: usize> Part<[u64; N]> for &Block {
    fn read(&self, offset: usize) -> [u64; N] {
        std::array::from_fn(|i| self.word64(offset + 8 * i).load(Relaxed))
    }

    fn write(&self, offset: usize, value: [u64; N]) {
        for (i, half) in value.into_iter().enumerate() {
            self.word64(offset + 8 * i).store(half, Relaxed);
        }
    }
}

/// Slots whose values are words, or wide, which a reader may see torn.
struct Table<const IS_WORD: bool> {
    /// One block with all slots if they are packed, else one block for each slot.
    blocks: Vec<Block>,
    n: usize,
    /// Whether state words are narrow and the slots of a table are one block.
    is_packed: bool,
    /// The threads' sections.
    sections: [AtomicU64; 2],
    n_emptied: AtomicU64,
}

impl<const IS_WORD: bool> Table<IS_WORD> {
    fn new(n: usize, is_packed: bool) -> Arc<Self> {
        let blocks = if is_packed {
            vec![Block::new(n)]
        } else {
            (0..n).map(|_| Block::new(1)).collect()
        };
        Arc::new(Self {
            blocks,
            n,
            is_packed,
            sections: [(); 2].map(|()| AtomicU64::new(0)),
            n_emptied: AtomicU64::new(0),
        })
    }

    fn slot(&self, index: usize) -> Slot<'_, IS_WORD> {
        let (block, in_block) = if self.is_packed {
            (0, index)
        } else {
            (index, 0)
        };
        Slot {
            block: &self.blocks[block],
            index,
            in_block,
            is_packed: self.is_packed,
        }
    }

    /// Whether the slot was never used.
    fn is_free(&self, index: usize) -> bool {
        self.slot(index).load_state().unwrap() == StateWord::FREE
    }
}

impl<'a, const IS_WORD: bool> Slots for &'a Table<IS_WORD> {
    type Slot = Slot<'a, IS_WORD>;

    fn next(&self, slot: &Slot<'a, IS_WORD>) -> Slot<'a, IS_WORD> {
        self.slot((slot.index + 1) % self.n)
    }

    fn heap(&self) -> &() {
        &()
    }
}

#[derive(Clone, Copy)]
struct Slot<'a, const IS_WORD: bool> {
    block: &'a Block,
    /// The index in the table.
    index: usize,
    in_block: usize,
    is_packed: bool,
}

impl<const IS_WORD: bool> Slot<'_, IS_WORD> {
    fn at(&self) -> StateAt {
        StateAt {
            offset: 4 * self.in_block,
            is_narrow: self.is_packed,
        }
    }

    fn key(&self) -> usize {
        KEY + STRIDE * self.in_block
    }

    fn value_at(&self) -> usize {
        VALUE + STRIDE * self.in_block
    }
}

impl<const IS_WORD: bool> SlotMemory for Slot<'_, IS_WORD> {
    type Error = Infallible;
    type Failure = Infallible;
    type Key = u64;
    type KeySlot = u64;
    type Value = [u64; 2];
    type Loaded = [u64; 2];
    type Heap = ();

    const HAS_HEAP: bool = false;

    const IS_WORD: bool = IS_WORD;

    // As over a network. A later read is the read of a retry.
    const IS_LOCAL: bool = false;

    fn is_same(&self, other: &Self) -> bool {
        ptr::eq(self.block, other.block) && self.in_block == other.in_block
    }

    fn load_state(&self) -> Result<StateWord, Infallible> {
        Ok(local::load_state(&self.block, self.at()))
    }

    fn reserve(&self, new: StateWord) -> Result<Result<(), StateWord>, Infallible> {
        Ok(local::reserve(&self.block, self.at(), new))
    }

    fn swap_state(
        &self,
        current: StateWord,
        new: StateWord,
    ) -> Result<Result<(), StateWord>, Infallible> {
        Ok(local::swap_state(&self.block, self.at(), current, new))
    }

    fn publish_entry(
        &self,
        key: u64,
        [a, b]: [u64; 2],
        state: StateWord,
    ) -> Result<(), Infallible> {
        let entry = [key, a, b];
        local::publish_claimed(&self.block, self.key(), entry, self.at(), state);
        Ok(())
    }

    fn publish_value(&self, value: [u64; 2], state: StateWord) -> Result<(), Infallible> {
        local::publish(&self.block, self.value_at(), value, self.at(), state);
        Ok(())
    }

    fn has_key(&self, key: &u64, (): &()) -> Result<bool, Infallible> {
        let [there]: [u64; 1] = memory::load(&self.block, self.key());
        Ok(there == *key)
    }

    fn entry_of(&self, key: &u64, (): &()) -> Result<Option<[u64; 2]>, Infallible> {
        let [there, a, b] = memory::load(&self.block, self.key());
        Ok((there == *key).then_some([a, b]))
    }

    fn value(&self) -> Result<[u64; 2], Infallible> {
        Ok(memory::load(&self.block, self.value_at()))
    }

    fn load_word(&self) -> Result<[u64; 2], Infallible> {
        let word = (&self.block).word64(self.value_at());
        Ok([word::load(word), 0])
    }

    fn swap_word(&self, value: [u64; 2]) -> Result<(), Infallible> {
        word::swap((&self.block).word64(self.value_at()), value[0]);
        Ok(())
    }

    fn compare_swap_word(
        &self,
        current: [u64; 2],
        new: [u64; 2],
    ) -> Result<Result<(), [u64; 2]>, Infallible> {
        let word = (&self.block).word64(self.value_at());
        let swapped = word::compare_exchange(word, current[0], new[0]);
        Ok(swapped.map(|_| ()).map_err(|now| [now, 0]))
    }

    fn is_outside(_: &[u64; 2]) -> bool {
        false
    }

    fn fetch(value: [u64; 2], (): &()) -> Result<[u64; 2], Infallible> {
        Ok(value)
    }

    fn release(_: &[u64; 2], (): &()) {}

    fn wait_until(
        &self,
        ready: &mut dyn FnMut() -> Result<bool, Infallible>,
    ) -> Result<(), Infallible> {
        while !ready()? {
            thread::yield_now();
        }
        Ok(())
    }

    fn give_up(&self, error: Infallible) -> Infallible {
        error
    }
}

/// All keys have the same home; those of one hundred have the same fingerprint.
fn home<const W: bool>(table: &Table<W>, key: u64) -> Home<Slot<'_, W>> {
    Home {
        slot: table.slot(0),
        fingerprint: Fingerprint::of(key / 100),
    }
}

fn claim<const W: bool>(table: &Table<W>, key: u64) -> ProbeResult<Slot<'_, W>> {
    let (home, read_value) = (home(table, key), ReadValue::No);
    probe::probe_slots(&table, home, &key, read_value, Intent::Claim).unwrap()
}

fn look<const W: bool>(table: &Table<W>, key: u64) -> ProbeResult<Slot<'_, W>> {
    let (home, read_value) = (home(table, key), ReadValue::Yes);
    probe::probe_slots(&table, home, &key, read_value, Intent::Find).unwrap()
}

/// As an insert of a map: whether the key was new, or nothing on a full table.
fn insert<const W: bool>(table: &Table<W>, key: u64, value: [u64; 2]) -> Option<bool> {
    insert_at(table, claim(table, key), key, value)
}

fn insert_at<const W: bool>(
    table: &Table<W>,
    place: ProbeResult<Slot<'_, W>>,
    key: u64,
    value: [u64; 2],
) -> Option<bool> {
    match place {
        ProbeResult::Free(slot) => {
            let state = StateWord::ready(home(table, key).fingerprint);
            slot.publish_entry(key, value, state).unwrap();
            Some(true)
        }
        ProbeResult::Found(slot, held) => Some(!slot::store(&slot, &(), held, value).unwrap()),
        ProbeResult::Absent => None,
    }
}

/// As a find of a map.
fn find<const W: bool>(table: &Table<W>, key: u64) -> Option<[u64; 2]> {
    find_at(look(table, key))
}

fn find_at<const W: bool>(place: ProbeResult<Slot<'_, W>>) -> Option<[u64; 2]> {
    match place {
        ProbeResult::Found(slot, held) => slot::load(&slot, &(), held).unwrap(),
        ProbeResult::Free(_) | ProbeResult::Absent => None,
    }
}

/// As an update of a map.
fn add_one<const W: bool>(table: &Table<W>, key: u64) {
    let ProbeResult::Found(slot, held) = look(table, key) else {
        panic!("the key is there");
    };
    slot::update(&slot, &(), held, |[a, b]| {
        assert!(W || a == b, "a torn value reaches the caller");
        Ok([a + 1, if W { 0 } else { b + 1 }])
    })
    .unwrap();
}

/// As a removal of a map.
fn remove<const W: bool>(table: &Table<W>, key: u64) -> bool {
    match look(table, key) {
        ProbeResult::Found(slot, held) => slot::remove(&slot, &(), held).unwrap(),
        ProbeResult::Free(_) | ProbeResult::Absent => false,
    }
}

/// As a removal that returns the value.
fn take<const W: bool>(table: &Table<W>, key: u64) -> Option<[u64; 2]> {
    match look(table, key) {
        ProbeResult::Found(slot, held) => slot::take(&slot, &(), held, Ok).unwrap(),
        ProbeResult::Free(_) | ProbeResult::Absent => None,
    }
}

/// Runs the two as threads on a table with `n` slots, and `end` on what they leave. Words are run
/// with both widths of state words.
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
