//! The search for a key: a probe of one line of slots after the other while all is as it nearly
//! always is, and else slot by slot.
//!
//! Both go the same way and take the same steps of the [protocol](super), the probe fewer of them:
//! a slot that it ends at is ready with the key, or free. Whatever else it meets, a slot that
//! another rank writes, a key that was removed, one with the fingerprint of another, a line without
//! all its slots, it leaves to the [probe_slots], which begins again.

use super::state::{Fingerprint, StateWord};
use super::{Held, Inspected, Intent, ReadValue, SlotMemory};
use crate::memory::{FourWords, Memory};
use crate::slots;

/// The ring of slots.
pub trait Slots: Copy {
    /// One of them.
    type Slot: SlotMemory;

    /// The slot behind `slot`. As many steps as there are slots lead back to the first one.
    fn next(&self, slot: &Self::Slot) -> Self::Slot;

    /// Whether a search that began at `home` has been at all slots when it comes to `slot`.
    fn is_wrapped(&self, slot: &Self::Slot, home: &Self::Slot) -> bool {
        slot.is_same(home)
    }

    /// Whether there are slots behind the last one that these do not lead to, so that who has been at
    /// all of them does not know whether a key is there.
    fn is_shard(&self) -> bool {
        false
    }

    /// Where keys and values point to.
    fn heap(&self) -> &<Self::Slot as SlotMemory>::Heap;
}

/// A ring whose slots lie in lines, the states of which are read together.
pub trait Lines: Slots {
    /// A line that has all its slots.
    type Line;

    /// Four states as they were read.
    type Four: FourWords;

    /// The states of all slots of the line (A each, in any order).
    fn states(&self, line: &Self::Line) -> States<Self::Four>;

    /// Slot `index` of the line.
    fn line_slot(&self, line: &Self::Line, index: usize) -> Self::Slot;

    /// The first one on the way of the search of those slots of the line that are set in `free`, of
    /// which there are some.
    fn first_in_probe_order(&self, line: &Self::Line, free: u32) -> usize;

    /// The line behind it, if that has all its slots.
    fn next_line(&self, line: Self::Line) -> Option<Self::Line>;
}

type KeyOf<S> = <<S as Slots>::Slot as SlotMemory>::Key;
type ErrorOf<S> = <<S as Slots>::Slot as SlotMemory>::Error;
type HeldOf<S> = Held<<<S as Slots>::Slot as SlotMemory>::Value>;

/// Where the search for a key begins.
#[derive(Clone, Copy, Debug)]
pub struct Home<S> {
    /// The slot that it begins at.
    pub slot: S,
    /// That of the key.
    pub fingerprint: Fingerprint,
}

/// What the search for a key comes to.
#[derive(Debug)]
pub enum ProbeResult<S: SlotMemory> {
    /// The slot that holds the key.
    Found(S, Held<S::Value>),
    /// The key is absent, and this is the first free slot on the way to it. A search that claims
    /// has reserved it for the key, and it must be published.
    Free(S),
    /// The key is absent, and all slots hold other keys.
    Absent,
}

/// What the probe for a key comes to.
#[derive(Debug)]
pub enum LineProbeResult<T, S> {
    /// What is made of the slot that holds the key.
    Found(T),
    /// As [`ProbeResult::Free`].
    Free(S),
}

/// The place of a key, and what `found` makes of a slot that holds it, from the line on where the
/// search for it begins; or nothing if only the [probe_slots] can tell, as `found` may find, too.
#[inline(always)]
pub fn probe<S: Lines, T, E: From<ErrorOf<S>>>(
    slots: &S,
    line: Option<S::Line>,
    (fingerprint, key, intent): (Fingerprint, &KeyOf<S>, Intent),
    found: impl FnOnce(S::Slot, HeldOf<S>) -> Result<Option<T>, E>,
) -> Result<Option<LineProbeResult<T, S::Slot>>, E> {
    let mut next = line;
    while let Some(line) = next {
        let states = slots.states(&line);
        // Who is_find nearly always finds the key, and who claims often nothing: each asks first what
        // tells most.
        let is_find = intent == Intent::Find;
        let candidates = if is_find {
            states.ready(fingerprint)
        } else {
            states.written_or_free(fingerprint)
        };
        if candidates != 0 {
            let slot = slots.line_slot(&line, candidates.trailing_zeros() as usize);
            let is_ready = is_find || slot.load_state()?.is_ready_with(fingerprint);
            if is_ready && slot.has_key(key, slots.heap())? {
                let made = found(slot, Held::ready(fingerprint))?;
                return Ok(made.map(LineProbeResult::Found));
            }
            return Ok(None);
        }
        if is_find && states.written_or_free(fingerprint) != 0 {
            return Ok(None);
        }
        // Who claims takes the first slot without a published key, or has the probe_slots do so if it is
        // reserved, vacant or leaving: none of these must be passed.
        let open = if is_find {
            states.free()
        } else {
            states.unpublished()
        };
        if open != 0 {
            let slot = slots.line_slot(&line, slots.first_in_probe_order(&line, open));
            let reserved = StateWord::reserved(fingerprint);
            if is_find || slot.swap_state(StateWord::FREE, reserved)?.is_ok() {
                return Ok(Some(LineProbeResult::Free(slot)));
            }
            return Ok(None);
        }
        next = slots.next_line(line);
    }
    Ok(None)
}

/// The place of a key, slot by slot.
#[inline(always)]
pub fn probe_slots<S: Slots>(
    slots: &S,
    home: Home<S::Slot>,
    key: &KeyOf<S>,
    read_value: ReadValue,
    intent: Intent,
) -> Result<ProbeResult<S::Slot>, ErrorOf<S>> {
    let mut slot = home.slot;
    loop {
        match slots::inspect(
            &slot,
            key,
            slots.heap(),
            home.fingerprint,
            read_value,
            intent,
        )? {
            Inspected::Free => return Ok(ProbeResult::Free(slot)),
            Inspected::Held(held) => return Ok(ProbeResult::Found(slot, held)),
            Inspected::Vacant if intent == Intent::Claim => {
                if let Some(place) = claim_vacant(*slots, slot, home, key, read_value)? {
                    return Ok(place);
                }
                slot = home.slot;
                continue;
            }
            Inspected::Vacant | Inspected::Other => slot = slots.next(&slot),
        }
        if slots.is_wrapped(&slot, &home.slot) {
            return Ok(ProbeResult::Absent);
        }
    }
}

/// The place of a key that is to be there, if the first empty slot on the way to it is `first`,
/// which is vacant: that one, if the key is not behind it. Another insert of the key that has
/// passed it has ended since ([why](super::reclaim)). Nothing if another rank has taken it.
#[cold]
#[inline(never)]
fn claim_vacant<S: Slots>(
    slots: S,
    first: S::Slot,
    home: Home<S::Slot>,
    key: &KeyOf<S>,
    read_value: ReadValue,
) -> Result<Option<ProbeResult<S::Slot>>, ErrorOf<S>> {
    let (heap, fingerprint) = (slots.heap(), home.fingerprint);
    let mut slot = slots.next(&first);
    let mut may_be_behind = slots.is_shard();
    while !slots.is_wrapped(&slot, &home.slot) {
        match slots::inspect(
            &slot,
            key,
            heap,
            fingerprint,
            read_value,
            Intent::FindEvenRemoved,
        )? {
            Inspected::Held(held) => return Ok(Some(ProbeResult::Found(slot, held))),
            Inspected::Free => {
                may_be_behind = false;
                break;
            }
            Inspected::Vacant | Inspected::Other => slot = slots.next(&slot),
        }
    }
    if may_be_behind {
        return Ok(Some(ProbeResult::Absent));
    }
    let reserved = StateWord::reserved(fingerprint);
    let is_claimed = first.swap_state(StateWord::VACANT, reserved)?.is_ok();
    Ok(is_claimed.then_some(ProbeResult::Free(first)))
}

/// The states that are read together.
const LANES: usize = 4;

/// The most slots in one line: as many as [`States`] holds states of.
pub const MOST: usize = 2 * LANES;

/// The narrow state words of a line's slots, as they were read together. Sets of slots have a bit
/// for each slot, the lowest one for the first.
#[derive(Clone, Copy, Debug)]
pub struct States<F> {
    first: F,
    /// If there are more than four.
    others: Option<F>,
    /// A bit for each that there is.
    mask: u32,
}

impl<F: FourWords> States<F> {
    /// Those of the `n` slots of a line that begins with them, read in any order.
    #[inline]
    pub fn load<M: Memory<Four = F>>(line: &M, n: usize) -> Self {
        let others = (n > LANES).then(|| line.load_four(4 * LANES));
        Self::new(n, line.load_four(0), others)
    }

    /// Those of `n` slots, eight at most.
    #[must_use]
    #[inline]
    pub const fn new(n: usize, first: F, others: Option<F>) -> Self {
        let mask = (1 << n) - 1;
        Self {
            first,
            others,
            mask,
        }
    }

    /// Which of them are `wanted` once the bits of `ignored` are set in them.
    #[inline]
    fn matching(self, ignored: u32, wanted: u32) -> u32 {
        let first = self.first.matching(ignored, wanted);
        let others = self.others.map(|words| words.matching(ignored, wanted));
        (first | others.unwrap_or(0) << LANES) & self.mask
    }

    /// The slots that are ready, and have the fingerprint.
    #[must_use]
    #[inline]
    pub fn ready(self, fingerprint: Fingerprint) -> u32 {
        self.matching(0, StateWord::ready(fingerprint).narrow())
    }

    /// The slots that have a key, and it; and free and vacant ones, if no bit of the fingerprint is
    /// set.
    #[must_use]
    #[inline]
    pub fn written_or_free(self, fingerprint: Fingerprint) -> u32 {
        self.matching(StateWord::UNWRITTEN, StateWord::written(fingerprint))
    }

    /// The slots without a key that is published, whether it is there now or was removed.
    #[must_use]
    #[inline]
    pub fn unpublished(self) -> u32 {
        let others = self.others.map(FourWords::highest);
        !(self.first.highest() | others.unwrap_or(0) << LANES) & self.mask
    }

    /// The free slots.
    #[must_use]
    #[inline]
    pub fn free(self) -> u32 {
        self.matching(0, StateWord::FREE.narrow())
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Every kind of state, of a key with the fingerprint and of one without, in every place beside
    /// each of the others.
    #[test]
    fn states_tell_the_slots_that_may_hold_the_key_and_those_that_are_free() {
        check([0x1555, 0x1554].map(Fingerprint::of));
        check([0, 0x2000].map(Fingerprint::of));
        check([0x2000, 0].map(Fingerprint::of));
    }

    fn check([mine, other]: [Fingerprint; 2]) {
        let states = |fingerprint| {
            let ready = StateWord::ready(fingerprint);
            let gone = ready.removed();
            [ready, ready.locked(), gone, gone.locked()]
        };
        let mut all = vec![StateWord::FREE, StateWord::VACANT];
        all.push(StateWord::reserved(other));
        all.push(StateWord::ready(other).removed().leaving());
        let n_unpublished = all.len();
        all.extend(states(other));
        let n_others = all.len();
        all.extend(states(mine));
        let n_published = all.len();
        all.push(StateWord::reserved(mine));
        all.push(StateWord::ready(mine).removed().leaving());
        let set = |is_in: &dyn Fn(usize) -> bool| (0..8).map(|k| u32::from(is_in(k)) << k).sum();
        for i in 0..all.len() {
            for j in 0..all.len() {
                for shift in 0..8 {
                    let mut chosen = [i, j, i, i, j, j, i, j];
                    chosen.rotate_left(shift);
                    let words: [u32; 8] = chosen.map(|i| all[i].narrow());
                    let [a, b, c, d, e, f, g, h] = words;
                    let (low, high) = ([a, b, c, d], [e, f, g, h]);
                    let states = States::new(8, low, Some(high));
                    let sets = [
                        states.ready(mine),
                        states.written_or_free(mine),
                        states.free(),
                        states.unpublished(),
                    ];
                    let is_published = |k: usize| (n_unpublished..n_published).contains(&chosen[k]);
                    let is_free = |k: usize| chosen[k] == 0;
                    let is_mine = |k: usize| chosen[k] >= n_others;
                    let or_free = mine.bits() == 0;
                    let is_empty = |k: usize| chosen[k] <= 1;
                    let expected: [u32; 4] = [
                        set(&|k| chosen[k] == n_others),
                        set(&|k| is_mine(k) || or_free && is_empty(k)),
                        set(&is_free),
                        set(&|k| !is_published(k)),
                    ];
                    assert_eq!(sets, expected);
                    let few = States::new(3, low, None);
                    let first = [
                        few.ready(mine),
                        few.written_or_free(mine),
                        few.free(),
                        few.unpublished(),
                    ];
                    assert_eq!(first, expected.map(|set| set & 7));
                }
            }
        }
    }
}
