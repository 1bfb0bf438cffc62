//! Walking over the ring of slots until the key is found, or a place for it.

use pgas_core::Result;

use super::hash::Fingerprint;
use super::slot::{self, Claim, Held, Look, SlotMemory, Wanted};

/// The ring of slots.
pub(super) trait Slots {
    /// Which slot.
    type At: Copy + Eq;
    type Slot<'a>: SlotMemory
    where
        Self: 'a;

    fn slot(&self, at: Self::At) -> Self::Slot<'_>;

    /// The slot behind `at`. As many steps as there are slots lead back to the first one.
    fn next(&self, at: Self::At) -> Self::At;
}

type KeyOf<'a, S> = <<S as Slots>::Slot<'a> as SlotMemory>::Key;
type HeldOf<'a, S> = Held<<<S as Slots>::Slot<'a> as SlotMemory>::Value>;

/// Where the search for a key begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home<At> {
    pub(super) at: At,
    pub(super) fingerprint: Fingerprint,
}

/// The slot that holds `key`, if one does.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the whole of a lookup")]
pub(super) fn look<'a, S: Slots>(
    slots: &'a S,
    home: Home<S::At>,
    key: &KeyOf<'a, S>,
    wanted: Wanted,
) -> Result<Option<(S::Slot<'a>, HeldOf<'a, S>)>> {
    let mut at = home.at;
    loop {
        let slot = slots.slot(at);
        match slot::look(&slot, key, home.fingerprint, wanted)? {
            Look::Free => return Ok(None),
            Look::Held(held) => return Ok(Some((slot, held))),
            Look::Other => at = slots.next(at),
        }
        if at == home.at {
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
pub(super) fn claim<'a, S: Slots>(
    slots: &'a S,
    home: Home<S::At>,
    key: &KeyOf<'a, S>,
    wanted: Wanted,
) -> Result<Place<S::Slot<'a>, HeldOf<'a, S>>> {
    let mut at = home.at;
    loop {
        let slot = slots.slot(at);
        match slot::claim(&slot, key, home.fingerprint, wanted)? {
            Claim::New => return Ok(Place::New(slot)),
            Claim::Held(held) => return Ok(Place::Held(slot, held)),
            Claim::Other => at = slots.next(at),
        }
        if at == home.at {
            return Ok(Place::Full);
        }
    }
}
