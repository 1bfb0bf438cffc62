//! The protocol of one slot, over whatever holds it: global memory, or a model that tries every
//! interleaving.
//!
//! ```text
//!          claim               publish_entry             lock
//!   Free ---------> Reserved ----------------> Ready v ---------> Locked v
//!                                              |     ^               | ^
//!                                       remove |     +---------------+ | lock
//!                                              v    publish_value: v+1 |
//!                                          Removed v+1 ----------------+
//! ```
//!
//! **Where a key is.** A slot never becomes free again, a key never leaves its slot, and whoever
//! inserts a key takes the first free slot in the order of a search for it, which depends on the
//! key alone: from its home slot once around in that slot's block, and so on in each block behind
//! it. Two ranks that insert the same key inspect at the same slot: one of them claims it, and the
//! other one sees the key's fingerprint in a reserved slot and waits until it can compare the keys.
//! So a key is in one slot only, and every slot between its home slot and that one is taken for
//! ever. A key that was removed keeps its slot too, and is inserted there again; only a change of
//! phase or of capacity, which no operation meets, makes room of such slots. So it is where nothing
//! else is asked for; where slots of removed keys are [used again](reclaim), what is said here
//! holds of all that one operation sees.
//!
//! **Linearizability.** An insert of a new key takes effect when it publishes the slot. A search
//! that starts later finds it: no slot on its way is free, and it waits for a reserved slot with the key's fingerprint. A search that
//! does not find the key therefore has seen the slot before it was reserved, and takes effect at its beginning.
//! A value that is a word is only accessed by atomics on the word, and each operation takes effect with
//! its own. Any other value is written between `lock` and `publish_value`, and takes effect with the
//! latter; a reader has seen it whole if the state word is the same before and after, and ready.
//!
//! A removal takes effect when it changes the state, and the insert of a key that was removed when it locks the slot:
//! from then on nobody says that the key is absent, and who wants the value waits for it. An operation on a word that
//! found the slot ready, and comes to the word after a removal, takes effect just before that removal, since nobody
//! has seen more of the value than such operations; so a removal says whether the key was there, and not what was
//! its value. If it comes there after the key was inserted again, it takes effect on that value.
//!
//! **Why a word needs no version.** A version tells a reader that what he has read in several steps was there all at once. A word is read in
//! one, and nothing that is done to it depends on its state having been the same in between: an operation that found
//! the slot ready may come to the word later, as said above, and a removal or the insert of a key that was removed asks only that the slot
//! is ready or removed when its state changes. So where the state word has no room for versions, words lose nothing.
//!
//! **Why the slots of a block may be looked at together.** A search that reads all states of a block, in any order, learns which slots have the
//! key's fingerprint and a key, and looks at these one by one. If the key was published before the search began, its slot is one of them, or the
//! block has no free slot: no slot is free again, so a free one was free when the key was inserted, and the insert would
//! have taken that one rather than a slot in a block behind.
//!
//! **Why an atomic find of a word needs no atomic instruction on the direct path.** There the state, the key and the word are
//! three loads in this order, each whole, and each seen after the one before it (acquire), and those of state and word are in the
//! one order of all atomics on such words ([`word`](crate::word)). Over a network a get may be torn and orders nothing, so the state and the word are read by atomics.
//!
//! **Why an insert takes one atomic instruction on the direct path.** An insert that has returned must be seen by each search that begins
//! later, or two threads could each insert a key, look for the other's key, and both find nothing. A claim is an atomic instruction, and it and
//! the search's loads of states are sequentially consistent (to acquire and release would not be enough: `models/agreement.rs`). So other ranks see
//! the claim before its thread reads anything later, and who looks for the key and sees the claim waits until the slot is published. So that can be a plain store with release, which may stay in the processor's store buffer
//! for a while after the insert has returned.
//!
//! **What a value points to.** A long encoding lies in memory of its own, which is given back when the state has changed
//! from what it was with that value. Who reads it looks at the state again before he uses what he read.
//!
//! **What cannot hang.** No code of the user runs while a slot is reserved or locked, so none can panic
//! or wait there. A rank that dies there ends the job, and whoever waits for it gets that as an error.
#![expect(
    clippy::missing_errors_doc,
    reason = "all that fails is what the memory reports"
)]

pub mod local;
#[cfg(test)]
#[cfg(loom)]
mod models;
pub mod probe;
pub mod reclaim;
#[cfg(test)]
#[cfg(not(loom))]
mod scripted;
pub mod sections;
pub mod state;
pub mod value;

use self::state::{Fingerprint, SlotState, StateWord};

/// A slot's memory. Prices are those of one call.
pub trait SlotMemory: Copy {
    /// What fails of the memory.
    type Error;
    /// What fails of the heap, or of the memory.
    type Failure: From<Self::Error>;
    /// What a key is looked for by.
    type Key;
    /// What a slot holds of a key.
    type KeySlot: Copy;
    /// What a slot holds of a value.
    type Value: Copy;
    /// A value together with what it points to.
    type Loaded: Clone;
    /// Where keys and values point to.
    type Heap;

    /// Whether values may point to memory of their own.
    const HAS_HEAP: bool;

    /// Whether a value is one word, or nothing, and is accessed by the `_word` methods only; the others
    /// are for wide values.
    const IS_WORD: bool;

    /// Whether a step costs as good as nothing, so that a value is read when it is asked for, and not
    /// together with the key.
    const IS_LOCAL: bool;

    /// Whether the two are one slot.
    fn is_same(&self, other: &Self) -> bool;

    /// The state (A).
    fn load_state(&self) -> Result<StateWord, Self::Error>;

    /// Replaces the state by `new` if the slot is free, else returns what it is (A).
    fn reserve(&self, new: StateWord) -> Result<Result<(), StateWord>, Self::Error>;

    /// Replaces the state if it is `current`, else returns what it is (A).
    fn swap_state(
        &self,
        current: StateWord,
        new: StateWord,
    ) -> Result<Result<(), StateWord>, Self::Error>;

    /// Writes key and value to a slot that this thread has reserved, then the state: who sees the
    /// state sees them (W + A). An error is [given up](Self::give_up).
    fn publish_entry(
        &self,
        key: Self::KeySlot,
        value: Self::Value,
        state: StateWord,
    ) -> Result<(), Self::Error>;

    /// Writes the value, then the state, likewise. Who sees a part of the value also sees
    /// what this thread wrote to the state before (W + A). An error is [given up](Self::give_up).
    fn publish_value(&self, value: Self::Value, state: StateWord) -> Result<(), Self::Error>;

    /// Whether the key is `key` (R).
    fn has_key(&self, key: &Self::Key, heap: &Self::Heap) -> Result<bool, Self::Error>;

    /// If the key is `key`, the value as it is read together with it, maybe torn (R).
    fn entry_of(
        &self,
        key: &Self::Key,
        heap: &Self::Heap,
    ) -> Result<Option<Self::Value>, Self::Error>;

    /// The value, maybe torn (R).
    fn value(&self) -> Result<Self::Value, Self::Error>;

    /// The value as a word (A).
    fn load_word(&self) -> Result<Self::Value, Self::Error>;

    /// Replaces the value as a word (A).
    fn swap_word(&self, value: Self::Value) -> Result<(), Self::Error>;

    /// Replaces the value as a word if it is `current`, else returns what it is (A).
    fn compare_swap_word(
        &self,
        current: Self::Value,
        new: Self::Value,
    ) -> Result<Result<(), Self::Value>, Self::Error>;

    /// Whether the value points to memory of its own.
    fn is_outside(value: &Self::Value) -> bool;

    /// Fetches what the value points to (R), which may have been given back by now.
    fn fetch(value: Self::Value, heap: &Self::Heap) -> Result<Self::Loaded, Self::Error>;

    /// Gives back what the value points to, when it is no slot's any more.
    fn release(value: &Self::Value, heap: &Self::Heap) -> Result<(), Self::Failure>;

    /// Makes progress until `ready`.
    fn wait_until(
        &self,
        ready: &mut dyn FnMut() -> Result<bool, Self::Error>,
    ) -> Result<(), Self::Error>;

    /// What is returned for an error that leaves the slot reserved or locked, for which others wait.
    fn give_up(&self, error: Self::Error) -> Self::Error;
}

/// What the operation that comes here wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadValue {
    /// No: whether the key is there is enough.
    No,
    /// Yes, together with the key if that saves a round trip.
    Yes,
}

/// A slot that holds the key that was looked for.
#[derive(Clone, Copy, Debug)]
pub struct Held<V> {
    /// Ready, locked or removed.
    pub state: StateWord,
    /// Whether that is ready.
    is_ready: bool,
    /// A wide value, read after the state.
    value: Option<V>,
}

impl<V> Held<V> {
    /// In a slot that was seen ready with a key that has this fingerprint, without the value.
    #[inline]
    #[must_use]
    pub const fn ready(fingerprint: Fingerprint) -> Self {
        Self {
            state: StateWord::ready(fingerprint),
            is_ready: true,
            value: None,
        }
    }

    /// With a value that was read after the state, and maybe torn.
    pub fn new(state: StateWord, value: V) -> Self {
        Self {
            value: Some(value),
            ..Self::unread(state)
        }
    }

    /// Without the value.
    pub fn unread(state: StateWord) -> Self {
        Self {
            state,
            is_ready: state.state() == SlotState::Ready,
            value: None,
        }
    }
}

/// What a search is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Find the key, if it is there.
    Find,
    /// Find the slot of the key, even if the key was removed.
    FindEvenRemoved,
    /// A slot for the key, if need be a free one, which is reserved.
    Claim,
}

/// What a search meets in a slot.
#[derive(Clone, Copy, Debug)]
pub enum Inspected<V> {
    /// Nothing, and nothing behind it. A slot that was to be claimed is now reserved for the key,
    /// and must be published.
    Free,
    /// Nothing, but maybe something behind it.
    Vacant,
    /// Another key, or one that is not there.
    Other,
    /// The key.
    Held(Held<V>),
}

/// Looks for `key` in the slot (A, and R where the fingerprint agrees). Waits for a rank that may be about to publish the same key here.
#[inline(always)]
pub fn inspect<M: SlotMemory>(
    slot: &M,
    key: &M::Key,
    heap: &M::Heap,
    fingerprint: Fingerprint,
    read_value: ReadValue,
    intent: Intent,
) -> Result<Inspected<M::Value>, M::Error> {
    let is_find = intent == Intent::Find;
    let mut state = load_or_reserve(slot, fingerprint, intent)?;
    if state == StateWord::FREE {
        return Ok(Inspected::Free);
    }
    if is_find && !state.has(fingerprint) {
        return Ok(Inspected::Other);
    }
    if !state.is_published() {
        state = match wait_published(*slot, state, fingerprint, intent)? {
            Published::State(state) => state,
            Published::Free => return Ok(Inspected::Free),
            Published::Vacant => return Ok(Inspected::Vacant),
            Published::Other => return Ok(Inspected::Other),
        };
    }
    // Who looks for a key that was removed goes on: it is in no other slot.
    let is_passed = if is_find {
        state.state() == SlotState::Removed
    } else {
        !state.has(fingerprint)
    };
    if is_passed {
        return Ok(Inspected::Other);
    }
    let held = compare(slot, key, heap, state, read_value)?;
    Ok(held.map_or(Inspected::Other, Inspected::Held))
}

/// Compares the slot's key, which cannot change any more (R).
#[inline]
fn compare<M: SlotMemory>(
    slot: &M,
    key: &M::Key,
    heap: &M::Heap,
    state: StateWord,
    read_value: ReadValue,
) -> Result<Option<Held<M::Value>>, M::Error> {
    if M::IS_WORD || M::IS_LOCAL || read_value == ReadValue::No {
        return Ok(slot.has_key(key, heap)?.then(|| Held::unread(state)));
    }
    let value = slot.entry_of(key, heap)?;
    Ok(value.map(|value| Held::new(state, value)))
}

/// The state of a slot. A free one is taken, if it is to be claimed, and said to be free.
#[inline(always)]
fn load_or_reserve<M: SlotMemory>(
    slot: &M,
    fingerprint: Fingerprint,
    intent: Intent,
) -> Result<StateWord, M::Error> {
    if intent == Intent::Claim {
        let reserved = slot.reserve(StateWord::reserved(fingerprint))?;
        return Ok(reserved.err().unwrap_or(StateWord::FREE));
    }
    slot.load_state()
}

/// What becomes of a slot without a published key.
enum Published {
    /// It has one, in this state.
    State(StateWord),
    /// As [`Inspected`].
    Free,
    Vacant,
    Other,
}

/// Waits until a slot that is not published in `state`, and may be reserved for the key, is no
/// longer, and tells one that leaves to stay, unless the search only looks.
#[cold]
fn wait_published<M: SlotMemory>(
    slot: M,
    mut state: StateWord,
    fingerprint: Fingerprint,
    intent: Intent,
) -> Result<Published, M::Error> {
    while !state.is_published() {
        match state.state() {
            SlotState::Free => return Ok(Published::Free),
            SlotState::Vacant => return Ok(Published::Vacant),
            SlotState::Leaving if intent == Intent::Find => return Ok(Published::Other),
            SlotState::Reserved if !state.has(fingerprint) => return Ok(Published::Other),
            SlotState::Leaving => slot.swap_state(state, state.kept()).map(drop)?,
            _ => slot.wait_until(&mut || Ok(slot.load_state()? != state))?,
        }
        state = load_or_reserve(&slot, fingerprint, intent)?;
    }
    Ok(Published::State(state))
}
