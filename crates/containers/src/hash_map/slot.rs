//! The protocol of one slot, over whatever holds it: global memory, or a model that tries every
//! interleaving.
//!
//! ```text
//!          claim               publish_entry             lock
//!   Free ---------> Reserved ----------------> Ready v ---------> Locked v
//!                                                ^                    |
//!                                                +--------------------+
//!                                                 publish_value: v + 1
//! ```
//!
//! **Where a key is.** A slot never becomes free again, a key never leaves its slot, and whoever inserts
//! a key takes the first free slot after the key's home slot. Two ranks that insert the same key meet
//! at the same slot: one of them claims it, and the other one sees the key's fingerprint in a reserved
//! slot and waits until it can compare the keys. So a key is in one slot only, and every slot between its
//! home slot and that one is taken for ever.
//!
//! **Linearizability.** An insert of a new key takes effect when it publishes the slot. A search
//! that starts later finds it: no slot on its way is free. A search that does not find the key therefore
//! began before that, and takes effect at its beginning; it may pass reserved slots without waiting.
//! A value that is a word is only accessed by atomics on the word, and each operation takes effect with
//! its own. Any other value is written between `lock` and `publish_value`, and takes effect with the
//! latter; a reader has seen it whole if the state word is the same before and after, and ready.
//!
//! **What cannot hang.** No code of the user runs while a slot is reserved or locked, so none can panic
//! or wait there. A rank that dies there ends the job, and whoever waits for it gets that as an error.

use pgas_core::Result;

use super::hash::Fingerprint;
use super::state::{SlotState, StateWord};

/// A slot's memory. Prices are those of one call.
pub(super) trait SlotMemory: Copy {
    type Key;
    type Value: Copy;

    /// Whether a value is one word, or nothing, and is accessed by the `_word` methods only; the others
    /// are for wide values.
    const IS_WORD: bool;

    /// Whether the two are one slot.
    fn is_same(&self, other: &Self) -> bool;

    /// The state (A).
    fn load_state(&self) -> Result<StateWord>;

    /// Replaces the state by `new` if the slot is free, else returns what it is (A).
    fn reserve(&self, new: StateWord) -> Result<Result<(), StateWord>>;

    /// Replaces the state if it is `current`, else returns what it is (A).
    fn swap_state(&self, current: StateWord, new: StateWord) -> Result<Result<(), StateWord>>;

    /// Writes key and value, then the state: who sees the state sees them. All of it is done on
    /// return (W + A).
    fn publish_entry(&self, key: &Self::Key, value: Self::Value, state: StateWord) -> Result<()>;

    /// Writes the value, then the state, likewise. Who sees a part of the value also sees
    /// what this thread wrote to the state before (W + A).
    fn publish_value(&self, value: Self::Value, state: StateWord) -> Result<()>;

    /// Whether the key is `key` (R).
    fn has_key(&self, key: &Self::Key) -> Result<bool>;

    /// If the key is `key`, the value as it is read together with it, maybe torn (R).
    fn entry_of(&self, key: &Self::Key) -> Result<Option<Self::Value>>;

    /// The value, maybe torn (R).
    fn value(&self) -> Result<Self::Value>;

    /// The value as a word (A).
    fn load_word(&self) -> Result<Self::Value>;

    /// Replaces the value as a word (A).
    fn swap_word(&self, value: Self::Value) -> Result<()>;

    /// Replaces the value as a word if it is `current`, else returns what it is (A).
    fn compare_swap_word(
        &self,
        current: Self::Value,
        new: Self::Value,
    ) -> Result<Result<(), Self::Value>>;

    /// Makes progress until `ready`.
    fn wait_until(&self, ready: &mut dyn FnMut() -> Result<bool>) -> Result<()>;
}

/// What the operation that comes here wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Whether the key is there.
    Key,
    /// The value too.
    Value,
}

/// A slot that holds the key that was looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held<V> {
    /// Ready or locked.
    state: StateWord,
    /// A wide value, read after the state.
    value: Option<V>,
}

impl<V> Held<V> {
    /// With a value that was read after the state, and maybe torn.
    pub(super) fn new(state: StateWord, value: V) -> Self {
        let value = Some(value);
        Self { state, value }
    }

    /// Without the value.
    pub(super) fn unread(state: StateWord) -> Self {
        Self { state, value: None }
    }
}

/// What a search finds in a slot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Look<V> {
    /// Nothing, and nothing behind it.
    Free,
    /// Another key, or one that is not there yet.
    Other,
    /// The key.
    Held(Held<V>),
}

/// What an insert finds in a slot, or makes of it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Claim<V> {
    /// The slot was free and is now reserved for the key; it must be published.
    New,
    /// Another key.
    Other,
    /// The key.
    Held(Held<V>),
}

/// Looks for `key` in the slot (A, and R where the fingerprint agrees).
#[inline(always)]
#[expect(clippy::inline_always, reason = "the whole of a lookup")]
pub(super) fn look<M: SlotMemory>(
    slot: &M,
    key: &M::Key,
    fingerprint: Fingerprint,
    wanted: Wanted,
) -> Result<Look<M::Value>> {
    let state = slot.load_state()?;
    match state.state() {
        SlotState::Free => Ok(Look::Free),
        SlotState::Reserved => Ok(Look::Other),
        SlotState::Ready | SlotState::Locked if !state.has(fingerprint) => Ok(Look::Other),
        SlotState::Ready | SlotState::Locked => {
            let held = compare(slot, key, state, wanted)?;
            Ok(held.map_or(Look::Other, Look::Held))
        }
    }
}

/// What there is in a slot whose value is a word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Glance<V> {
    pub(super) is_held: bool,
    pub(super) is_free: bool,
    /// That of the key, if it is held.
    pub(super) value: V,
}

/// [`look`] and [`load`] in one for values that are words, without a branch: key and value are read whatever the
/// state is, and count if it says that they are there (2A + R). The state comes first, so who sees it
/// ready sees both.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a few instructions")]
pub(super) fn glance<M: SlotMemory>(
    slot: &M,
    key: &M::Key,
    fingerprint: Fingerprint,
) -> Result<Glance<M::Value>> {
    debug_assert!(M::IS_WORD, "a wide value may be torn");
    let state = slot.load_state()?;
    let (is_key, value) = (slot.has_key(key)?, slot.load_word()?);
    Ok(Glance {
        is_held: state.is_readable_with(fingerprint) & is_key,
        is_free: state == StateWord::FREE,
        value,
    })
}

/// Takes the slot for `key` if it is free (A, and R where the fingerprint agrees). Waits for a rank that
/// may be about to publish the same key here.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the hot part of an insert")]
pub(super) fn claim<M: SlotMemory>(
    slot: &M,
    key: &M::Key,
    fingerprint: Fingerprint,
    wanted: Wanted,
) -> Result<Claim<M::Value>> {
    let reserved = StateWord::reserved(fingerprint);
    let Err(mut state) = slot.reserve(reserved)? else {
        return Ok(Claim::New);
    };
    if !state.has(fingerprint) {
        return Ok(Claim::Other);
    }
    if state.state() == SlotState::Reserved {
        state = published(*slot)?;
    }
    let held = compare(slot, key, state, wanted)?;
    Ok(held.map_or(Claim::Other, Claim::Held))
}

/// Compares the slot's key, which cannot change any more (R).
#[inline(always)]
#[expect(clippy::inline_always, reason = "a few compares")]
fn compare<M: SlotMemory>(
    slot: &M,
    key: &M::Key,
    state: StateWord,
    wanted: Wanted,
) -> Result<Option<Held<M::Value>>> {
    if M::IS_WORD || wanted == Wanted::Key {
        return Ok(slot.has_key(key)?.then(|| Held::unread(state)));
    }
    let value = slot.entry_of(key)?;
    Ok(value.map(|value| Held::new(state, value)))
}

/// Waits until the slot is no longer reserved, and returns its state.
#[cold]
fn published<M: SlotMemory>(slot: M) -> Result<StateWord> {
    let mut state = StateWord::FREE;
    slot.wait_until(&mut || {
        state = slot.load_state()?;
        Ok(state.state() != SlotState::Reserved)
    })?;
    Ok(state)
}

/// The value of a slot that holds the key (A for a word; A for a wide value that was read with the key,
/// and A + R more each time that a writer comes in between).
#[inline]
pub(super) fn load<M: SlotMemory>(slot: &M, held: Held<M::Value>) -> Result<M::Value> {
    if M::IS_WORD {
        return slot.load_word();
    }
    load_wide(slot, held).map(|(_, value)| value)
}

/// A wide value, whole, and the state in which the slot was ready with it.
#[inline]
fn load_wide<M: SlotMemory>(slot: &M, held: Held<M::Value>) -> Result<(StateWord, M::Value)> {
    if let Some(value) = held.value
        && held.state.state() == SlotState::Ready
        && slot.load_state()? == held.state
    {
        return Ok((held.state, value));
    }
    load_wide_again(*slot)
}

#[cold]
fn load_wide_again<M: SlotMemory>(slot: M) -> Result<(StateWord, M::Value)> {
    let mut whole = None;
    slot.wait_until(&mut || {
        let state = slot.load_state()?;
        if state.state() == SlotState::Ready {
            let value = slot.value()?;
            whole = (slot.load_state()? == state).then_some((state, value));
        }
        Ok(whole.is_some())
    })?;
    Ok(whole.expect("the wait ended because the value was read whole"))
}

/// Overwrites the value of a slot that holds the key (A for a word; 2A + W for a wide value).
#[inline]
pub(super) fn store<M: SlotMemory>(slot: &M, held: Held<M::Value>, value: M::Value) -> Result<()> {
    if M::IS_WORD {
        return slot.swap_word(value);
    }
    let state = lock(slot, held.state)?;
    slot.publish_value(value, state.overwritten())
}

/// Locks a slot that was ready or locked in `state`, and returns its locked state.
#[inline]
fn lock<M: SlotMemory>(slot: &M, state: StateWord) -> Result<StateWord> {
    if state.state() == SlotState::Ready && slot.swap_state(state, state.locked())?.is_ok() {
        return Ok(state.locked());
    }
    lock_again(*slot)
}

#[cold]
fn lock_again<M: SlotMemory>(slot: M) -> Result<StateWord> {
    let mut locked = StateWord::FREE;
    slot.wait_until(&mut || {
        let state = slot.load_state()?;
        locked = state.locked();
        Ok(state.state() == SlotState::Ready && slot.swap_state(state, locked)?.is_ok())
    })?;
    Ok(locked)
}

/// Replaces the value by `f` of it, and returns the former one (2A for a word; 3A + W for a wide
/// value that was read with the key). `f` runs while nothing is locked, and again when another
/// rank was faster.
#[inline]
pub(super) fn update<M: SlotMemory>(
    slot: &M,
    held: Held<M::Value>,
    mut f: impl FnMut(M::Value) -> M::Value,
) -> Result<M::Value> {
    if M::IS_WORD {
        let mut former = slot.load_word()?;
        while let Err(now) = slot.compare_swap_word(former, f(former))? {
            former = now;
        }
        return Ok(former);
    }
    let (mut state, mut former) = load_wide(slot, held)?;
    loop {
        let value = f(former);
        if slot.swap_state(state, state.locked())?.is_ok() {
            slot.publish_value(value, state.overwritten())?;
            return Ok(former);
        }
        (state, former) = load_wide_again(*slot)?;
    }
}
