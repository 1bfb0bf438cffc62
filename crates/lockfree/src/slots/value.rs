//! Operations on the value of a slot that holds the key: load, store, reinsert after a removal,
//! update, remove, take. They follow the [protocol](super).

use super::state::{SlotState, StateWord};
use super::{Held, SlotMemory};

/// Waits while another rank writes the value (A each time). Returns the state, ready or removed.
#[inline]
fn wait_unlocked<M: SlotMemory>(slot: &M, state: StateWord) -> Result<StateWord, M::Error> {
    if state.state() == SlotState::Ready {
        return Ok(state);
    }
    wait_unlocked_slow(*slot)
}

#[cold]
fn wait_unlocked_slow<M: SlotMemory>(slot: M) -> Result<StateWord, M::Error> {
    let mut state = slot.load_state()?;
    if state.state() == SlotState::Locked {
        slot.wait_until(&mut || {
            state = slot.load_state()?;
            Ok(state.state() != SlotState::Locked)
        })?;
    }
    Ok(state)
}

/// Whether the slot has a word to work on. Waits for a rank that is about to write it.
#[inline]
pub fn has_word<M: SlotMemory>(slot: &M, held: Held<M::Value>) -> Result<bool, M::Error> {
    debug_assert!(M::IS_WORD, "others are locked to be overwritten too");
    Ok(held.is_ready || wait_unlocked_slow(*slot)?.state() == SlotState::Ready)
}

/// Reads the value of a slot that holds the key; `None` if it was removed. Costs A for a word.
/// Costs A for a wide value that was read with the key, and A + R more each time that a writer
/// intervenes.
#[inline]
pub fn load<M: SlotMemory>(
    slot: &M,
    heap: &M::Heap,
    held: Held<M::Value>,
) -> Result<Option<M::Loaded>, M::Error> {
    Ok(load_snapshot(slot, heap, held)?.map(|snapshot| snapshot.loaded))
}

#[inline]
fn load_snapshot<M: SlotMemory>(
    slot: &M,
    heap: &M::Heap,
    held: Held<M::Value>,
) -> Result<Option<Snapshot<M>>, M::Error> {
    if !M::IS_WORD {
        return load_wide(slot, heap, held);
    }
    // Without a version a state that was locked may be locked again.
    let state = if held.is_ready {
        held.state
    } else {
        wait_unlocked_slow(*slot)?
    };
    if state.state() != SlotState::Ready {
        return Ok(None);
    }
    Snapshot::of_word(state, slot.load_word()?, heap).map(Some)
}

/// A value that was read whole.
struct Snapshot<M: SlotMemory> {
    /// The ready state of the slot with this value, if the value is wide.
    state: StateWord,
    value: M::Value,
    loaded: M::Loaded,
}

impl<M: SlotMemory> Snapshot<M> {
    /// A snapshot of a word, which is always whole.
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

/// Reads a wide value; `None` if it was removed.
#[inline]
fn load_wide<M: SlotMemory>(
    slot: &M,
    heap: &M::Heap,
    held: Held<M::Value>,
) -> Result<Option<Snapshot<M>>, M::Error> {
    if held.is_ready && (M::IS_LOCAL || held.value.is_some()) {
        let value = held.value.map_or_else(|| slot.value(), Ok)?;
        if let Some(snapshot) = validate(slot, heap, held.state, value)? {
            return Ok(Some(snapshot));
        }
    }
    retry_load_wide(*slot, heap)
}

/// Returns the value with its heap memory if the state is unchanged. The value was read after the
/// state.
#[inline]
fn validate<M: SlotMemory>(
    slot: &M,
    heap: &M::Heap,
    state: StateWord,
    value: M::Value,
) -> Result<Option<Snapshot<M>>, M::Error> {
    // The value must be whole before its pointer is followed.
    if slot.load_state()? != state {
        return Ok(None);
    }
    let loaded = M::fetch(value, heap)?;
    let is_valid = !M::HAS_HEAP || !M::is_outside(&value) || slot.load_state()? == state;
    Ok(is_valid.then_some(Snapshot {
        state,
        value,
        loaded,
    }))
}

#[cold]
fn retry_load_wide<M: SlotMemory>(
    slot: M,
    heap: &M::Heap,
) -> Result<Option<Snapshot<M>>, M::Error> {
    let mut snapshot = None;
    slot.wait_until(&mut || {
        let state = slot.load_state()?;
        match state.state() {
            // Outside of a section the slot may have lost its key.
            SlotState::Removed | SlotState::Leaving | SlotState::Vacant | SlotState::Free => {
                return Ok(true);
            }
            SlotState::Ready => snapshot = validate(&slot, heap, state, slot.value()?)?,
            SlotState::Reserved | SlotState::Locked => {}
        }
        Ok(snapshot.is_some())
    })?;
    Ok(snapshot)
}

/// Overwrites the value of a slot that holds the key (A for a word; 2A + W for a wide value).
/// Returns whether it had a value. A removed key gets a new one (3A for a word).
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
        return Ok(store_word_slow(*slot, value)?);
    }
    let locked = lock(slot, held.state)?;
    let was_there = !locked.is_gone();
    let mut former = None;
    if M::HAS_HEAP && was_there {
        // A value is whole if it was read in the state that was then locked.
        former = held.value.filter(|_| locked == held.state.locked());
        if former.is_none() || !held.is_ready {
            former = Some(slot.value().map_err(|error| slot.give_up(error))?);
        }
    }
    slot.publish_value(value, locked.overwritten())?;
    if let Some(former) = former {
        M::release(&former, heap);
    }
    Ok(was_there)
}

#[cold]
fn store_word_slow<M: SlotMemory>(slot: M, value: M::Value) -> Result<bool, M::Error> {
    loop {
        let state = wait_unlocked_slow(slot)?;
        if state.state() == SlotState::Ready {
            slot.swap_word(value)?;
            return Ok(true);
        }
        if reinsert(&slot, state, value)? {
            return Ok(false);
        }
    }
}

/// Gives a value to a removed key, unless another rank does so first (A; 3A for a word, 2A + W for
/// a wide value). Returns whether it did.
fn reinsert<M: SlotMemory>(slot: &M, state: StateWord, value: M::Value) -> Result<bool, M::Error> {
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

/// As `reinsert`, if the key is removed now. Otherwise returns how it is held.
#[cold]
pub fn reinsert_if_removed<M: SlotMemory>(
    slot: M,
    value: M::Value,
) -> Result<Result<(), Held<M::Value>>, M::Error> {
    let state = wait_unlocked_slow(slot)?;
    Ok(if reinsert(&slot, state, value)? {
        Ok(())
    } else {
        Err(Held::unread(slot.load_state()?))
    })
}

/// Locks a slot whose `state` was ready, locked or removed. Returns its locked state.
#[inline]
fn lock<M: SlotMemory>(slot: &M, state: StateWord) -> Result<StateWord, M::Error> {
    if state.state() != SlotState::Locked && slot.swap_state(state, state.locked())?.is_ok() {
        return Ok(state.locked());
    }
    retry_lock(*slot)
}

#[cold]
fn retry_lock<M: SlotMemory>(slot: M) -> Result<StateWord, M::Error> {
    let mut locked = StateWord::FREE;
    slot.wait_until(&mut || {
        let state = slot.load_state()?;
        locked = state.locked();
        Ok(state.state() != SlotState::Locked && slot.swap_state(state, locked)?.is_ok())
    })?;
    Ok(locked)
}

/// Replaces the value by `f` of it and returns the former one; `None` if the key was removed (2A
/// for a word; 3A + W for a wide value that was read with the key). `f` runs while nothing is
/// locked, and runs again if another rank changed the value meanwhile.
#[inline]
pub fn update<M: SlotMemory>(
    slot: &M,
    heap: &M::Heap,
    held: Held<M::Value>,
    mut f: impl FnMut(M::Loaded) -> Result<M::Value, M::Failure>,
) -> Result<Option<M::Loaded>, M::Failure> {
    let mut now = load_snapshot(slot, heap, held)?;
    for _ in 0..ATTEMPTS {
        let Some(there) = now else { return Ok(None) };
        match replace(slot, heap, there, &mut f)? {
            Ok(former) => return Ok(Some(former)),
            Err(again) => now = again,
        }
    }
    replace_in_wait(*slot, heap, now, &mut f)
}

/// As [`update`], for a word that is present, in one attempt. `None` if another rank changed it
/// meanwhile.
#[inline]
pub fn update_once<M: SlotMemory>(
    slot: &M,
    heap: &M::Heap,
    held: Held<M::Value>,
    mut f: impl FnMut(M::Loaded) -> Result<M::Value, M::Failure>,
) -> Result<Option<M::Loaded>, M::Failure> {
    let there = Snapshot::of_word(held.state, slot.load_word()?, heap)?;
    Ok(replace(slot, heap, there, &mut f)?.ok())
}

/// Attempts that fail only if another thread has changed the slot, before each further attempt is a
/// step of a wait, which watches the job's health.
const ATTEMPTS: u32 = 1 << 16;

/// The former value, or the current one if the replacement failed.
type Replaced<M> = Result<<M as SlotMemory>::Loaded, Option<Snapshot<M>>>;

/// Replaces the value `there` by `f` of it.
#[inline]
fn replace<M: SlotMemory>(
    slot: &M,
    heap: &M::Heap,
    there: Snapshot<M>,
    f: &mut impl FnMut(M::Loaded) -> Result<M::Value, M::Failure>,
) -> Result<Replaced<M>, M::Failure> {
    let value = f(there.loaded.clone())?;
    exchange(slot, heap, there, value)
}

/// Replaces the value `there` by `value`. A function of its own, since it is long, and the same for
/// every `f` above.
#[inline]
fn exchange<M: SlotMemory>(
    slot: &M,
    heap: &M::Heap,
    there: Snapshot<M>,
    value: M::Value,
) -> Result<Replaced<M>, M::Failure> {
    let state = there.state;
    if M::IS_WORD {
        return Ok(match slot.compare_swap_word(there.value, value)? {
            Ok(()) => Ok(there.loaded),
            Err(now) => Err(Some(Snapshot::of_word(state, now, heap)?)),
        });
    }
    if slot.swap_state(state, state.locked())?.is_ok() {
        slot.publish_value(value, state.overwritten())?;
        M::release(&there.value, heap);
        return Ok(Ok(there.loaded));
    }
    M::release(&value, heap);
    Ok(Err(retry_load_wide(*slot, heap)?))
}

/// As [`update`], after many failed attempts. A function of the user that changes the slot itself
/// makes each attempt fail. Such a loop is reported, and ended, as every wait is.
#[cold]
fn replace_in_wait<M: SlotMemory>(
    slot: M,
    heap: &M::Heap,
    mut now: Option<Snapshot<M>>,
    mut f: &mut dyn FnMut(M::Loaded) -> Result<M::Value, M::Failure>,
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

/// Removes the key and returns whether it was present. Costs A, and R more for a value that may
/// point to heap memory, unless it was read with the key. Costs 2A + R more each time that another
/// rank changed the slot.
#[inline]
pub fn remove<M: SlotMemory>(
    slot: &M,
    heap: &M::Heap,
    held: Held<M::Value>,
) -> Result<bool, M::Failure> {
    let mut held = held;
    loop {
        let state = wait_unlocked(slot, held.state)?;
        if state.state() != SlotState::Ready {
            return Ok(false);
        }
        let mut former = held.value.filter(|_| state == held.state);
        if M::HAS_HEAP && former.is_none() {
            former = Some(slot.value()?);
        }
        if slot.swap_state(state, state.removed())?.is_ok() {
            // The state was the same before and after, so the value was read whole.
            if let (true, Some(former)) = (M::HAS_HEAP, former) {
                M::release(&former, heap);
            }
            return Ok(true);
        }
        held = Held::unread(slot.load_state()?);
    }
}

/// Removes the key and returns `read` of its value; `None` if the key was removed before. Costs 2A
/// for a wide value that was read with the key, and 2A + R more each time that another rank changed
/// it. If `read` fails, the value stays. No rank may change a word meanwhile: atomics on a word
/// ignore the state.
#[inline]
pub fn take<M: SlotMemory, T>(
    slot: &M,
    heap: &M::Heap,
    held: Held<M::Value>,
    mut read: impl FnMut(M::Loaded) -> Result<T, M::Failure>,
) -> Result<Option<T>, M::Failure> {
    let mut now = load_snapshot(slot, heap, held)?;
    while let Some(there) = now {
        let value = read(there.loaded)?;
        if slot.swap_state(there.state, there.state.removed())?.is_ok() {
            M::release(&there.value, heap);
            return Ok(Some(value));
        }
        now = retry_load_wide(*slot, heap)?;
    }
    Ok(None)
}
