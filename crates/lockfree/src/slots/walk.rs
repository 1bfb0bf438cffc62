//! Walking over the ring of slots until the key is found, or a place for it.

use super::scan::Scan;
use super::state::{Fingerprint, StateWord};
use super::{Claim, Held, Look, SlotMemory, Wanted};
use crate::slots;

/// The ring of slots.
pub trait Slots {
    /// One of them.
    type Slot: SlotMemory;

    /// The slot behind `slot`. As many steps as there are slots lead back to the first one.
    fn next(&self, slot: &Self::Slot) -> Self::Slot;

    /// Where keys and values point to.
    fn heap(&self) -> &<Self::Slot as SlotMemory>::Heap;
}

/// A ring whose slots lie in blocks that are looked at as a whole.
pub trait SlotsInBlocks: Slots {
    /// The states of all slots of the block that `slot` is in (A each, in any order).
    fn scan(&self, slot: &Self::Slot, fingerprint: Fingerprint) -> Result<Scan, ErrorOf<Self>>;

    /// How many slots there are in the block that `slot` is in; what a scan says of others means nothing.
    fn n_slots(&self, slot: &Self::Slot) -> usize;

    /// The number of `slot` in its block.
    fn index(&self, slot: &Self::Slot) -> usize;

    /// Slot `index` of the block that `slot` is in.
    fn of_block(&self, slot: &Self::Slot, index: usize) -> Self::Slot;

    /// A slot of the block behind that of `slot`. As many steps as there are blocks lead back to the first one.
    fn next_block(&self, slot: &Self::Slot) -> Self::Slot;

    /// Whether the two are in one block.
    fn is_same_block(&self, a: &Self::Slot, b: &Self::Slot) -> bool;
}

type KeyOf<S> = <<S as Slots>::Slot as SlotMemory>::Key;
type ErrorOf<S> = <<S as Slots>::Slot as SlotMemory>::Error;
type HeldOf<S> = Held<<<S as Slots>::Slot as SlotMemory>::Value>;

/// A slot that holds the key, and what is known of it.
pub type Holding<S> = (<S as Slots>::Slot, HeldOf<S>);

/// Where the search for a key begins.
#[derive(Clone, Copy, Debug)]
pub struct Home<S> {
    /// The slot that it begins at.
    pub slot: S,
    /// That of the key.
    pub fingerprint: Fingerprint,
}

/// The slot that holds `key`, if one does.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the whole of a lookup")]
pub fn look<S: Slots>(
    slots: &S,
    home: Home<S::Slot>,
    key: &KeyOf<S>,
    wanted: Wanted,
) -> Result<Option<Holding<S>>, ErrorOf<S>> {
    let mut slot = home.slot;
    loop {
        match slots::look(&slot, key, slots.heap(), home.fingerprint, wanted)? {
            Look::Free => return Ok(None),
            Look::Held(held) => return Ok(Some((slot, held))),
            Look::Other => slot = slots.next(&slot),
        }
        if slot.is_same(&home.slot) {
            return Ok(None);
        }
    }
}

/// What `seek` finds in one of the slots that may hold the key, block by block.
///
/// A key is in the first block from its home on that had a free slot when it was inserted, or in one before that; it is
/// written there, if its insert returned before the search began. So nothing that is looked for is behind a block with a free slot.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the whole of a lookup")]
pub fn seek<S: SlotsInBlocks, T, E: From<ErrorOf<S>>>(
    slots: &S,
    home: Home<S::Slot>,
    mut seek: impl FnMut(S::Slot) -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    let mut block = home.slot;
    loop {
        let scan = slots.scan(&block, home.fingerprint)?;
        for index in scan.candidates() {
            if let Some(found) = seek(slots.of_block(&block, index))? {
                return Ok(Some(found));
            }
        }
        if scan.is_open(|| slots.n_slots(&block)) {
            return Ok(None);
        }
        block = slots.next_block(&block);
        if slots.is_same_block(&block, &home.slot) {
            return Ok(None);
        }
    }
}

/// As [`look`], block by block, for values that are words.
///
/// A slot that was seen ready is not looked at again: its state was read before its key and its value are, and has no version.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the whole of a lookup")]
pub fn look_in_blocks<S: SlotsInBlocks>(
    slots: &S,
    home: Home<S::Slot>,
    key: &KeyOf<S>,
    wanted: Wanted,
) -> Result<Option<Holding<S>>, ErrorOf<S>> {
    let mut block = home.slot;
    loop {
        let scan = slots.scan(&block, home.fingerprint)?;
        for index in scan.ready() {
            let slot = slots.of_block(&block, index);
            if slot.has_key(key, slots.heap())? {
                let state = StateWord::ready(home.fingerprint);
                return Ok(Some((slot, Held::unread(state))));
            }
        }
        for index in scan.unready() {
            let slot = slots.of_block(&block, index);
            let look = slots::look(&slot, key, slots.heap(), home.fingerprint, wanted)?;
            if let Look::Held(held) = look {
                return Ok(Some((slot, held)));
            }
        }
        if scan.is_open(|| slots.n_slots(&block)) {
            return Ok(None);
        }
        block = slots.next_block(&block);
        if slots.is_same_block(&block, &home.slot) {
            return Ok(None);
        }
    }
}

/// The slot for a key that is to be there.
#[derive(Debug)]
pub enum Place<S, H> {
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
pub fn claim<S: Slots>(
    slots: &S,
    home: Home<S::Slot>,
    key: &KeyOf<S>,
    wanted: Wanted,
) -> Result<Place<S::Slot, HeldOf<S>>, ErrorOf<S>> {
    let mut slot = home.slot;
    loop {
        match slots::claim(&slot, key, slots.heap(), home.fingerprint, wanted)? {
            Claim::New => return Ok(Place::New(slot)),
            Claim::Held(held) => return Ok(Place::Held(slot, held)),
            Claim::Other => slot = slots.next(&slot),
        }
        if slot.is_same(&home.slot) {
            return Ok(Place::Full);
        }
    }
}

/// As [`claim`], block by block.
///
/// A slot that was seen taken by a key with another fingerprint never holds this key, so only those with its fingerprint are looked at, also
/// reserved ones, and then the first slot that was free. Should that be taken by now, the search goes on slot by slot.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the hot part of an insert")]
pub fn claim_in_blocks<S: SlotsInBlocks>(
    slots: &S,
    home: Home<S::Slot>,
    key: &KeyOf<S>,
    wanted: Wanted,
) -> Result<Place<S::Slot, HeldOf<S>>, ErrorOf<S>> {
    let mut block = home.slot;
    loop {
        let scan = slots.scan(&block, home.fingerprint)?;
        for index in scan.ready() {
            let slot = slots.of_block(&block, index);
            if slot.has_key(key, slots.heap())? {
                let state = StateWord::ready(home.fingerprint);
                return Ok(Place::Held(slot, Held::unread(state)));
            }
        }
        for index in scan.unready() {
            let slot = slots.of_block(&block, index);
            let claim = slots::claim(&slot, key, slots.heap(), home.fingerprint, wanted)?;
            if let Claim::Held(held) = claim {
                return Ok(Place::Held(slot, held));
            }
        }
        let there = scan.first(slots.n_slots(&block));
        if let Some(index) = there.first_free_from(slots.index(&block)) {
            let slot = slots.of_block(&block, index);
            return claim(slots, Home { slot, ..home }, key, wanted);
        }
        block = slots.next_block(&block);
        if slots.is_same_block(&block, &home.slot) {
            return Ok(Place::Full);
        }
    }
}
