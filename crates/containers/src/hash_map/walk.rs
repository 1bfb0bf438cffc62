//! Walking over the ring of slots until the key is found, or a place for it.

use pgas_core::Result;

use super::hash::Fingerprint;
use super::slot::{self, Claim, Held, Look, SlotMemory, Wanted};

/// The ring of slots.
pub(super) trait Slots {
    /// One of them.
    type Slot: SlotMemory;

    /// The slot behind `slot`. As many steps as there are slots lead back to the first one.
    fn next(&self, slot: &Self::Slot) -> Self::Slot;

    /// Where keys and values point to.
    fn heap(&self) -> &<Self::Slot as SlotMemory>::Heap;
}

type KeyOf<S> = <<S as Slots>::Slot as SlotMemory>::Key;
type HeldOf<S> = Held<<<S as Slots>::Slot as SlotMemory>::Value>;

/// Where the search for a key begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home<S> {
    pub(super) slot: S,
    pub(super) fingerprint: Fingerprint,
}

/// The slot that holds `key`, if one does.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the whole of a lookup")]
pub(super) fn look<S: Slots>(
    slots: &S,
    home: Home<S::Slot>,
    key: &KeyOf<S>,
    wanted: Wanted,
) -> Result<Option<(S::Slot, HeldOf<S>)>> {
    let mut slot = home.slot;
    loop {
        match slot::look(&slot, key, slots.heap(), home.fingerprint, wanted)? {
            Look::Free => return Ok(None),
            Look::Held(held) => return Ok(Some((slot, held))),
            Look::Other => slot = slots.next(&slot),
        }
        if slot.is_same(&home.slot) {
            return Ok(None);
        }
    }
}

/// The slot for a key that is to be there.
pub(super) enum Place<S, H> {
    /// It holds the key.
    Held(S, H),
    /// It is reserved for the key, and must be published.
    New(S),
    /// There is none: all slots hold other keys.
    Full,
}

/// The slot that holds `key`, or else the first free one, reserved for it.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the hot part of an insert")]
pub(super) fn claim<S: Slots>(
    slots: &S,
    home: Home<S::Slot>,
    key: &KeyOf<S>,
    wanted: Wanted,
) -> Result<Place<S::Slot, HeldOf<S>>> {
    let mut slot = home.slot;
    loop {
        match slot::claim(&slot, key, slots.heap(), home.fingerprint, wanted)? {
            Claim::New => return Ok(Place::New(slot)),
            Claim::Held(held) => return Ok(Place::Held(slot, held)),
            Claim::Other => slot = slots.next(&slot),
        }
        if slot.is_same(&home.slot) {
            return Ok(Place::Full);
        }
    }
}
