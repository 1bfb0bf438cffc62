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
//! it. Two ranks that insert the same key meet at the same slot: one of them claims it, and the
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
pub enum Wanted {
    /// Whether the key is there.
    Key,
    /// The value too.
    Value,
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
    /// The key, if it is there.
    Look,
    /// The slot of the key, also if it was removed.
    Hold,
    /// A slot for the key, if need be a free one, which is reserved.
    Claim,
}

/// What a search meets in a slot.
#[derive(Clone, Copy, Debug)]
pub enum Met<V> {
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
pub fn meet<M: SlotMemory>(
    slot: &M,
    key: &M::Key,
    heap: &M::Heap,
    fingerprint: Fingerprint,
    wanted: Wanted,
    intent: Intent,
) -> Result<Met<M::Value>, M::Error> {
    let looks = intent == Intent::Look;
    let mut state = seen(slot, fingerprint, intent)?;
    if state == StateWord::FREE {
        return Ok(Met::Free);
    }
    if looks && !state.has(fingerprint) {
        return Ok(Met::Other);
    }
    if !state.is_published() {
        state = match published(*slot, state, fingerprint, intent)? {
            Published::State(state) => state,
            Published::Free => return Ok(Met::Free),
            Published::Vacant => return Ok(Met::Vacant),
            Published::Other => return Ok(Met::Other),
        };
    }
    // Who looks for a key that was removed goes on: it is in no other slot.
    let is_passed = if looks {
        state.state() == SlotState::Removed
    } else {
        !state.has(fingerprint)
    };
    if is_passed {
        return Ok(Met::Other);
    }
    let held = compare(slot, key, heap, state, wanted)?;
    Ok(held.map_or(Met::Other, Met::Held))
}

/// Compares the slot's key, which cannot change any more (R).
#[inline]
fn compare<M: SlotMemory>(
    slot: &M,
    key: &M::Key,
    heap: &M::Heap,
    state: StateWord,
    wanted: Wanted,
) -> Result<Option<Held<M::Value>>, M::Error> {
    if M::IS_WORD || wanted == Wanted::Key {
        return Ok(slot.has_key(key, heap)?.then(|| Held::unread(state)));
    }
    let value = slot.entry_of(key, heap)?;
    Ok(value.map(|value| Held::new(state, value)))
}

/// The state of a slot. A free one is taken, if it is to be claimed, and said to be free.
#[inline(always)]
fn seen<M: SlotMemory>(
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
    /// As [`Met`].
    Free,
    Vacant,
    Other,
}

/// Waits until a slot that is not published in `state`, and may be reserved for the key, is no
/// longer, and tells one that leaves to stay, unless the search only looks.
#[cold]
fn published<M: SlotMemory>(
    slot: M,
    mut state: StateWord,
    fingerprint: Fingerprint,
    intent: Intent,
) -> Result<Published, M::Error> {
    while !state.is_published() {
        match state.state() {
            SlotState::Free => return Ok(Published::Free),
            SlotState::Vacant => return Ok(Published::Vacant),
            SlotState::Leaving if intent == Intent::Look => return Ok(Published::Other),
            SlotState::Reserved if !state.has(fingerprint) => return Ok(Published::Other),
            SlotState::Leaving => slot.swap_state(state, state.kept()).map(drop)?,
            _ => slot.wait_until(&mut || Ok(slot.load_state()? != state))?,
        }
        state = seen(&slot, fingerprint, intent)?;
    }
    Ok(Published::State(state))
}

/// Whether the slot, whose key is the one looked for, has a value: its state, ready or removed. Waits for a rank that writes
/// it (A each time).
#[inline]
fn settled<M: SlotMemory>(slot: &M, state: StateWord) -> Result<StateWord, M::Error> {
    if state.state() == SlotState::Ready {
        return Ok(state);
    }
    settle(*slot)
}

#[cold]
fn settle<M: SlotMemory>(slot: M) -> Result<StateWord, M::Error> {
    let mut state = slot.load_state()?;
    if state.state() == SlotState::Locked {
        slot.wait_until(&mut || {
            state = slot.load_state()?;
            Ok(state.state() != SlotState::Locked)
        })?;
    }
    Ok(state)
}

/// Whether there is a word to work on; waits for a rank that is about to write it.
#[inline]
pub fn has_word<M: SlotMemory>(slot: &M, held: Held<M::Value>) -> Result<bool, M::Error> {
    debug_assert!(M::IS_WORD, "others are locked to be overwritten too");
    Ok(held.is_ready || settle(*slot)?.state() == SlotState::Ready)
}

/// The value of a slot that holds the key (A for a word; A for a wide value that was read with the key,
/// and A + R more each time that a writer comes in between), `None` if it was removed.
#[inline]
pub fn load<M: SlotMemory>(
    slot: &M,
    heap: &M::Heap,
    held: Held<M::Value>,
) -> Result<Option<M::Loaded>, M::Error> {
    if !M::IS_WORD {
        return Ok(load_wide(slot, heap, held)?.map(|whole| whole.loaded));
    }
    if !has_word(slot, held)? {
        return Ok(None);
    }
    M::fetch(slot.load_word()?, heap).map(Some)
}

/// A value that was read whole.
struct Whole<M: SlotMemory> {
    /// In which the slot was ready with it, if it is wide.
    state: StateWord,
    value: M::Value,
    loaded: M::Loaded,
}

impl<M: SlotMemory> Whole<M> {
    /// A word, which is always whole.
    #[inline]
    fn of_word(state: StateWord, value: M::Value, heap: &M::Heap) -> Result<Self, M::Error> {
        let loaded = M::fetch(value, heap)?;
        Ok(Self {
            state,
            value,
            loaded,
        })
    }
}

/// A wide value, `None` if it was removed.
#[inline]
fn load_wide<M: SlotMemory>(
    slot: &M,
    heap: &M::Heap,
    held: Held<M::Value>,
) -> Result<Option<Whole<M>>, M::Error> {
    if let Some(value) = held.value
        && held.is_ready
        && let Some(whole) = if_still(slot, heap, held.state, value)?
    {
        return Ok(Some(whole));
    }
    load_wide_again(*slot, heap)
}

/// The value that was read after the state, if that has not changed, with what it points to.
#[inline]
fn if_still<M: SlotMemory>(
    slot: &M,
    heap: &M::Heap,
    state: StateWord,
    value: M::Value,
) -> Result<Option<Whole<M>>, M::Error> {
    // Before a pointer is followed it must have been read whole.
    if slot.load_state()? != state {
        return Ok(None);
    }
    let loaded = M::fetch(value, heap)?;
    let is_still = !M::HAS_HEAP || !M::is_outside(&value) || slot.load_state()? == state;
    Ok(is_still.then_some(Whole {
        state,
        value,
        loaded,
    }))
}

#[cold]
fn load_wide_again<M: SlotMemory>(slot: M, heap: &M::Heap) -> Result<Option<Whole<M>>, M::Error> {
    let mut whole = None;
    slot.wait_until(&mut || {
        let state = slot.load_state()?;
        match state.state() {
            // Who has no section open may come to a slot that has lost its key.
            SlotState::Removed | SlotState::Leaving | SlotState::Vacant | SlotState::Free => {
                return Ok(true);
            }
            SlotState::Ready => whole = if_still(&slot, heap, state, slot.value()?)?,
            SlotState::Reserved | SlotState::Locked => {}
        }
        Ok(whole.is_some())
    })?;
    Ok(whole)
}

/// Overwrites the value of a slot that holds the key (A for a word; 2A + W for a wide value), and says whether it had one.
/// A key that was removed gets it anew (3A for a word).
#[inline]
pub fn store<M: SlotMemory>(
    slot: &M,
    heap: &M::Heap,
    held: Held<M::Value>,
    value: M::Value,
) -> Result<bool, M::Failure> {
    if M::IS_WORD && held.is_ready {
        slot.swap_word(value)?;
        return Ok(true);
    }
    if M::IS_WORD {
        return Ok(store_word_again(*slot, value)?);
    }
    let locked = lock(slot, held.state)?;
    let was_there = !locked.is_gone();
    let mut former = None;
    if M::HAS_HEAP && was_there {
        // What was read in the state that was locked was whole.
        former = held.value.filter(|_| locked == held.state.locked());
        if former.is_none() || !held.is_ready {
            former = Some(slot.value().map_err(|error| slot.give_up(error))?);
        }
    }
    slot.publish_value(value, locked.overwritten())?;
    if let Some(former) = former {
        M::release(&former, heap)?;
    }
    Ok(was_there)
}

#[cold]
fn store_word_again<M: SlotMemory>(slot: M, value: M::Value) -> Result<bool, M::Error> {
    loop {
        let state = settle(slot)?;
        if state.state() == SlotState::Ready {
            slot.swap_word(value)?;
            return Ok(true);
        }
        if revive(&slot, state, value)? {
            return Ok(false);
        }
    }
}

/// Gives a value to a key that was removed, unless another rank was faster (A; 3A for a word, 2A + W for
/// a wide value).
fn revive<M: SlotMemory>(slot: &M, state: StateWord, value: M::Value) -> Result<bool, M::Error> {
    let locked = state.locked();
    if !matches!(state.state(), SlotState::Removed | SlotState::Leaving)
        || slot.swap_state(state, locked)?.is_err()
    {
        return Ok(false);
    }
    if M::IS_WORD {
        let unlock = || slot.swap_state(locked, locked.overwritten());
        let unlocked = slot.swap_word(value).and_then(|()| unlock());
        let unlocked = unlocked.map_err(|error| slot.give_up(error))?;
        debug_assert!(unlocked.is_ok(), "nobody changes a locked slot");
    } else {
        slot.publish_value(value, locked.overwritten())?;
    }
    Ok(true)
}

/// As `revive`, if the key is removed now; else how it is held.
#[cold]
pub fn insert_again<M: SlotMemory>(
    slot: M,
    value: M::Value,
) -> Result<Result<(), Held<M::Value>>, M::Error> {
    let state = settle(slot)?;
    Ok(if revive(&slot, state, value)? {
        Ok(())
    } else {
        Err(Held::unread(slot.load_state()?))
    })
}

/// Locks a slot that was ready, locked or removed in `state`, and returns its locked state.
#[inline]
fn lock<M: SlotMemory>(slot: &M, state: StateWord) -> Result<StateWord, M::Error> {
    if state.state() != SlotState::Locked && slot.swap_state(state, state.locked())?.is_ok() {
        return Ok(state.locked());
    }
    lock_again(*slot)
}

#[cold]
fn lock_again<M: SlotMemory>(slot: M) -> Result<StateWord, M::Error> {
    let mut locked = StateWord::FREE;
    slot.wait_until(&mut || {
        let state = slot.load_state()?;
        locked = state.locked();
        Ok(state.state() != SlotState::Locked && slot.swap_state(state, locked)?.is_ok())
    })?;
    Ok(locked)
}

/// Replaces the value by `f` of it, and returns the former one (2A for a word; 3A + W for a wide
/// value that was read with the key), or `None` if the key was removed. `f` runs while nothing is locked, and again
/// when another rank was faster.
#[inline]
pub fn update<M: SlotMemory>(
    slot: &M,
    heap: &M::Heap,
    held: Held<M::Value>,
    mut f: impl FnMut(M::Loaded) -> Result<M::Value, M::Failure>,
) -> Result<Option<M::Loaded>, M::Failure> {
    let mut now = if !M::IS_WORD {
        load_wide(slot, heap, held)?
    } else if has_word(slot, held)? {
        Some(Whole::of_word(held.state, slot.load_word()?, heap)?)
    } else {
        None
    };
    for _ in 0..ATTEMPTS {
        let Some(there) = now else { return Ok(None) };
        match replace(slot, heap, there, &mut f)? {
            Ok(former) => return Ok(Some(former)),
            Err(again) => now = again,
        }
    }
    replace_at_last(*slot, heap, now, f)
}

/// As [`update`] of a word that is there, once: nothing if another rank was faster.
#[inline]
pub fn update_once<M: SlotMemory>(
    slot: &M,
    heap: &M::Heap,
    held: Held<M::Value>,
    mut f: impl FnMut(M::Loaded) -> Result<M::Value, M::Failure>,
) -> Result<Option<M::Loaded>, M::Failure> {
    let there = Whole::of_word(held.state, slot.load_word()?, heap)?;
    Ok(replace(slot, heap, there, &mut f)?.ok())
}

/// How often something is tried that fails only if another thread has changed the slot meanwhile, before each
/// further attempt is a look of a wait.
const ATTEMPTS: u32 = 1 << 16;

/// A value in whose place another one was put, or what was there instead of it.
type Replaced<M> = Result<<M as SlotMemory>::Loaded, Option<Whole<M>>>;

/// Puts `f` of a value in its place.
#[inline]
fn replace<M: SlotMemory>(
    slot: &M,
    heap: &M::Heap,
    there: Whole<M>,
    f: &mut impl FnMut(M::Loaded) -> Result<M::Value, M::Failure>,
) -> Result<Replaced<M>, M::Failure> {
    let value = f(there.loaded.clone())?;
    let state = there.state;
    if M::IS_WORD {
        return Ok(match slot.compare_swap_word(there.value, value)? {
            Ok(()) => Ok(there.loaded),
            Err(now) => Err(Some(Whole::of_word(state, now, heap)?)),
        });
    }
    if slot.swap_state(state, state.locked())?.is_ok() {
        slot.publish_value(value, state.overwritten())?;
        M::release(&there.value, heap)?;
        return Ok(Ok(there.loaded));
    }
    M::release(&value, heap)?;
    Ok(Err(load_wide_again(*slot, heap)?))
}

/// As [`update`], when that was tried in vain for long. A function of the user that changes the slot itself makes each
/// attempt fail, and then that is reported, and ended, as every wait is.
#[cold]
fn replace_at_last<M: SlotMemory>(
    slot: M,
    heap: &M::Heap,
    mut now: Option<Whole<M>>,
    mut f: impl FnMut(M::Loaded) -> Result<M::Value, M::Failure>,
) -> Result<Option<M::Loaded>, M::Failure> {
    loop {
        let mut done = None;
        slot.wait_until(&mut || {
            done = match now.take().map(|there| replace(&slot, heap, there, &mut f)) {
                None => Some(Ok(None)),
                Some(Ok(Ok(former))) => Some(Ok(Some(former))),
                Some(Err(error)) => Some(Err(error)),
                Some(Ok(Err(again))) => {
                    now = again;
                    None
                }
            };
            Ok(done.is_some())
        })?;
        if let Some(done) = done {
            return done;
        }
    }
}

/// Takes the value away from the key, and says whether it had one (A; R more for a value that may point to memory of its
/// own, unless it was read with the key; 2A + R for each time that another rank was faster).
pub fn remove<M: SlotMemory>(
    slot: &M,
    heap: &M::Heap,
    held: Held<M::Value>,
) -> Result<bool, M::Failure> {
    let mut held = held;
    loop {
        let state = settled(slot, held.state)?;
        if state.state() != SlotState::Ready {
            return Ok(false);
        }
        let mut former = held.value.filter(|_| state == held.state);
        if M::HAS_HEAP && former.is_none() {
            former = Some(slot.value()?);
        }
        if slot.swap_state(state, state.removed())?.is_ok() {
            // The state was the same all the time, so the value was read whole.
            if let (true, Some(former)) = (M::HAS_HEAP, former) {
                M::release(&former, heap)?;
            }
            return Ok(true);
        }
        held = Held::unread(slot.load_state()?);
    }
}
