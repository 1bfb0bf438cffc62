//! The protocol of one slot, generic over its memory: global memory, or a model that tries every
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
//! **A key is in one slot only.** A slot never becomes free again, and a key never leaves its slot.
//! An insert takes the first free slot in probe order. This order depends on the key alone: from
//! its home slot once around in that slot's block, and so on in each block behind it. So two ranks
//! that insert the same key meet at the same slot. One of them claims it; the other sees the key's
//! fingerprint in a reserved slot and waits until it can compare the keys. Every slot between the
//! home slot and the key's slot stays taken for ever. A removed key keeps its slot, too, and is
//! inserted there again. Only a change of phase or of capacity, which no operation overlaps, frees
//! such slots. If slots are [reused](reclaim), all this holds for what one operation sees.
//!
//! **Linearizability.** The insert of a new key takes effect when it publishes the slot. A later
//! search finds the key: no slot on its way is free, and it waits for a reserved slot with the
//! key's fingerprint. So a search that does not find the key has seen the slot before it was
//! reserved, and takes effect at its beginning. A value that is a word is only accessed by atomics
//! on the word, and each operation takes effect with its own atomic. Any other value is written
//! between `lock` and `publish_value`, and the write takes effect with the latter. A reader has
//! read it whole if the state word is ready, and the same before and after.
//!
//! A removal takes effect when it changes the state. The insert of a removed key takes effect when
//! it locks the slot: from then on no operation reports the key as absent, and one that needs the
//! value waits for it. An operation on a word may find the slot ready and reach the word after a
//! removal. Then it takes effect just before that removal, since only such operations have seen
//! more of the value. For this reason a removal reports whether the key was present, and not its
//! value. If the operation reaches the word after the key was inserted again, it takes effect on
//! the new value.
//!
//! **Why a word needs no version.** A version tells a reader that what it has read in several steps
//! was in memory at one time. A word is read atomically, and no operation on it depends on the
//! state having been the same in between. An operation that found the slot ready may reach the word
//! later, as said above. A removal, or the insert of a removed key, only requires that the slot is
//! ready or removed when its state changes. So words lose nothing if the state word has no room for
//! versions.
//!
//! **Why the states of a block may be read together.** A search that reads all states of a block,
//! in any order, learns which slots have the key's fingerprint and a key, and examines these one by
//! one. If the key was published before the search began, its slot is one of them, or the block has
//! no free slot: a slot never becomes free again, so a free slot was free when the key was
//! inserted, and the insert would have taken it rather than a slot in a later block.
//!
//! **Why an atomic find of a word needs no atomic instruction on the direct path.** There the
//! state, the key and the word are three loads in this order. Each is whole and is ordered after
//! the one before it (acquire). The loads of state and word are in the single order of all atomics
//! on such words ([`word`](crate::word)). Over a network a get may be torn and orders nothing, so
//! the state and the word are read by atomics.
//!
//! **Why an insert takes one atomic instruction on the direct path.** Each search that begins after
//! an insert has returned must see the insert. Otherwise two threads could each insert a key, look
//! for the other's key, and both find nothing. A claim is an atomic instruction. The claim and the
//! search's loads of states are sequentially consistent; acquire and release would not be enough
//! (`models/agreement.rs`). So other ranks see the claim before its thread reads anything later,
//! and a search for the key that sees the claim waits until the slot is published. Therefore the
//! publishing store can be a plain store with release. It may stay in the processor's store buffer
//! for a while after the insert has returned.
//!
//! **Heap memory of a value.** A long encoding lies in heap memory. It is released after the state
//! has changed from what it was with that value. A reader checks the state again before it uses
//! what it has read from there.
//!
//! **No operation hangs.** No code of the user runs while a slot is reserved or locked, so none can
//! panic or wait there. The death of a rank that holds a slot ends the job, and ranks that wait for
//! it get an error.
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

/// The memory of a slot. Costs are for one call.
pub trait SlotMemory: Copy {
    /// An error of the memory.
    type Error;
    /// An error of the heap or of the memory.
    type Failure: From<Self::Error>;
    /// The form of a key that a search compares.
    type Key;
    /// The encoded key in a slot.
    type KeySlot: Copy;
    /// The encoded value in a slot.
    type Value: Copy;
    /// A value with its heap memory.
    type Loaded: Clone;
    /// The heap that keys and values point to.
    type Heap;

    /// Whether values may point to heap memory.
    const HAS_HEAP: bool;

    /// Whether a value is one word or nothing. Then it is accessed by the `_word` methods only; the
    /// other methods are for wide values.
    const IS_WORD: bool;

    /// Whether the memory is local. Then a value is read when it is needed, and not together with
    /// the key.
    const IS_LOCAL: bool;

    /// Whether both are the same slot.
    fn is_same(&self, other: &Self) -> bool;

    /// Reads the state (A).
    fn load_state(&self) -> Result<StateWord, Self::Error>;

    /// Replaces the state by `new` if the slot is free, else returns what it is (A).
    fn reserve(&self, new: StateWord) -> Result<Result<(), StateWord>, Self::Error>;

    /// Replaces the state if it is `current`, else returns what it is (A).
    fn swap_state(
        &self,
        current: StateWord,
        new: StateWord,
    ) -> Result<Result<(), StateWord>, Self::Error>;

    /// Writes key and value to a slot that this thread has reserved, then the state. A rank that
    /// sees the state sees both (W + A). An error is [given up](Self::give_up).
    fn publish_entry(
        &self,
        key: Self::KeySlot,
        value: Self::Value,
        state: StateWord,
    ) -> Result<(), Self::Error>;

    /// Writes the value to a slot that this thread has locked, then the state. A rank that sees the
    /// state sees the value. A rank that sees a part of the value also sees what this thread wrote
    /// to the state before (W + A). An error is [given up](Self::give_up).
    fn publish_value(&self, value: Self::Value, state: StateWord) -> Result<(), Self::Error>;

    /// Whether the slot's key is `key` (R).
    fn has_key(&self, key: &Self::Key, heap: &Self::Heap) -> Result<bool, Self::Error>;

    /// If the slot's key is `key`, the value, which is read together with it and may be torn (R).
    fn entry_of(
        &self,
        key: &Self::Key,
        heap: &Self::Heap,
    ) -> Result<Option<Self::Value>, Self::Error>;

    /// Reads the value, which may be torn (R).
    fn value(&self) -> Result<Self::Value, Self::Error>;

    /// Reads the value as a word (A).
    fn load_word(&self) -> Result<Self::Value, Self::Error>;

    /// Replaces the value as a word (A).
    fn swap_word(&self, value: Self::Value) -> Result<(), Self::Error>;

    /// Replaces the value as a word if it is `current`, else returns what it is (A).
    fn compare_swap_word(
        &self,
        current: Self::Value,
        new: Self::Value,
    ) -> Result<Result<(), Self::Value>, Self::Error>;

    /// Whether the value points to heap memory.
    fn is_outside(value: &Self::Value) -> bool;

    /// Fetches the heap memory of the value (R), which may have been released by now.
    fn fetch(value: Self::Value, heap: &Self::Heap) -> Result<Self::Loaded, Self::Error>;

    /// Releases the heap memory of a value that no slot holds any more. Has no error, which would
    /// say that the operation was not done that has taken the value out.
    fn release(value: &Self::Value, heap: &Self::Heap);

    /// Makes progress until `ready`.
    fn wait_until(
        &self,
        ready: &mut dyn FnMut() -> Result<bool, Self::Error>,
    ) -> Result<(), Self::Error>;

    /// The error to return if an error leaves the slot reserved or locked, for which other ranks
    /// wait.
    fn give_up(&self, error: Self::Error) -> Self::Error;
}

/// Whether a search reads the value.
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
    /// The state: ready, locked or removed.
    pub state: StateWord,
    /// Whether the state is ready.
    is_ready: bool,
    /// A wide value that was read after the state.
    value: Option<V>,
}

impl<V> Held<V> {
    /// A slot that was seen ready with a key of this fingerprint. The value is not read.
    #[inline]
    #[must_use]
    pub const fn ready(fingerprint: Fingerprint) -> Self {
        Self {
            state: StateWord::ready(fingerprint),
            is_ready: true,
            value: None,
        }
    }

    /// A slot whose value was read after the state, and may be torn.
    pub fn new(state: StateWord, value: V) -> Self {
        Self {
            value: Some(value),
            ..Self::unread(state)
        }
    }

    /// A slot whose value is not read.
    pub fn unread(state: StateWord) -> Self {
        Self {
            state,
            is_ready: state.state() == SlotState::Ready,
            value: None,
        }
    }
}

/// The intent of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Find the key, if it is there.
    Find,
    /// Find the slot of the key, even if the key was removed.
    FindEvenRemoved,
    /// Find the slot of the key, or reserve a free one.
    Claim,
}

/// What a search finds in a slot.
#[derive(Clone, Copy, Debug)]
pub enum Inspected<V> {
    /// The slot is free, so the search ends. If it was to be claimed, it is now reserved for the
    /// key, and the caller must publish it.
    Free,
    /// The slot is empty, but the key may lie behind it.
    Vacant,
    /// The slot holds another key, or a removed one.
    Other,
    /// The slot holds the key.
    Held(Held<V>),
}

/// Examines the slot for `key` (A, and R if the fingerprint agrees). Waits for a rank that may be
/// about to publish the same key here.
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
    // A find passes the slot of a removed key. Its key is in no other slot.
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

/// Compares the slot's key, which cannot change any more, with `key` (R).
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

/// Reads the state of a slot. A claim reserves a free slot, and is told that it was free.
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

/// The result of waiting for a slot without a published key.
enum Published {
    /// The key is published, in this state.
    State(StateWord),
    /// As [`Inspected::Free`].
    Free,
    Vacant,
    Other,
}

/// Waits until a slot that may be reserved for the key is published. Tells a leaving slot to stay,
/// unless the search is a find.
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
