//! The search for a key. The fast path probes one cache line of slots after the other; the fallback
//! probes slot by slot.
//!
//! Both visit the slots in the same order and take the same steps of the [protocol](super). The
//! line probe takes fewer of them: it ends only at a slot that is ready with the key, or free. It
//! falls back on anything unusual: a slot that another rank is writing, a removed key, another key
//! with the same fingerprint, a line without all its slots. The fallback, [`probe_slots`], begins
//! again.

use super::state::{Fingerprint, StateWord};
use super::{Held, Inspected, Intent, ReadValue, SlotMemory};
use crate::memory::{FourWords, Memory};
use crate::slots;

/// The ring of slots.
pub trait Slots: Copy {
    /// A slot of the ring.
    type Slot: SlotMemory;

    /// The slot behind `slot`. After as many steps as there are slots it is the first one again.
    fn next(&self, slot: &Self::Slot) -> Self::Slot;

    /// Whether a probe from `home` that reaches `slot` has visited all slots.
    fn is_wrapped(&self, slot: &Self::Slot, home: &Self::Slot) -> bool {
        slot.is_same(home)
    }

    /// Where the probe from `home` begins: at `home`, or where the same probe has come to before, if
    /// it is run again.
    fn begin(&self, home: &Self::Slot) -> Self::Slot {
        *home
    }

    /// Notes that the probe from `home` has passed the slots up to `slot`, which is the next one:
    /// none of them holds the key, and no claim may take one.
    fn pass(&self, _home: &Self::Slot, _slot: &Self::Slot) {}

    /// Whether these slots are a shard of a larger ring. Then a probe that has visited all of them
    /// does not know whether a key is present.
    fn is_shard(&self) -> bool {
        false
    }

    /// The heap that keys and values point to.
    fn heap(&self) -> &<Self::Slot as SlotMemory>::Heap;
}

/// A ring whose slots are packed in cache lines, so that the states of a line are read together.
pub trait Lines: Slots {
    /// A line that has all its slots.
    type Line;

    /// Four states, as read from memory.
    type Four: FourWords;

    /// The states of all slots of the line (A each, in any order).
    fn states(&self, line: &Self::Line) -> States<Self::Four>;

    /// Slot `index` of the line.
    fn line_slot(&self, line: &Self::Line, index: usize) -> Self::Slot;

    /// The first slot, in probe order, of those set in `free`, which is not empty.
    fn first_in_probe_order(&self, line: &Self::Line, free: u32) -> usize;

    /// The next line, if it has all its slots.
    fn next_line(&self, line: Self::Line) -> Option<Self::Line>;
}

type KeyOf<S> = <<S as Slots>::Slot as SlotMemory>::Key;
type ErrorOf<S> = <<S as Slots>::Slot as SlotMemory>::Error;
type HeldOf<S> = Held<<<S as Slots>::Slot as SlotMemory>::Value>;

/// The start of a probe for a key.
#[derive(Clone, Copy, Debug)]
pub struct Home<S> {
    /// The home slot.
    pub slot: S,
    /// The fingerprint of the key.
    pub fingerprint: Fingerprint,
}

/// The result of a probe for a key.
#[derive(Debug)]
pub enum ProbeResult<S: SlotMemory> {
    /// The slot that holds the key.
    Found(S, Held<S::Value>),
    /// The key is absent, and this is the first free slot of the probe. A probe that claims has
    /// reserved it for the key, and the caller must publish it.
    Free(S),
    /// The key is absent, and all slots hold other keys.
    Absent,
}

/// The result of a line probe for a key.
#[derive(Debug)]
pub enum LineProbeResult<T, S> {
    /// The result of `found` on the slot that holds the key.
    Found(T),
    /// As [`ProbeResult::Free`].
    Free(S),
}

/// Probes lines for a key, from `line` on, and calls `found` on the slot that holds it. Returns
/// `None` if only [`probe_slots`] can decide; `found` may return that, too.
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
        // A find nearly always finds the key, and a claim often does not: each first asks for the
        // more likely case.
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
        // A claim takes the first slot without a published key. If that is reserved, vacant or
        // leaving, the fallback decides: no claim may pass such a slot.
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

/// Probes for a key slot by slot.
#[inline(always)]
pub fn probe_slots<S: Slots>(
    slots: &S,
    home: Home<S::Slot>,
    key: &KeyOf<S>,
    read_value: ReadValue,
    intent: Intent,
) -> Result<ProbeResult<S::Slot>, ErrorOf<S>> {
    let mut slot = slots.begin(&home.slot);
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
        slots.pass(&home.slot, &slot);
    }
}

/// Claims a slot for a key if the first empty slot of the probe is `first`, which is vacant. Takes
/// it unless the key lies behind it. Another insert of the key that has passed `first` has ended
/// since ([why](super::reclaim)). Returns `None` if another rank has taken `first`.
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

/// States that are read together.
const LANES: usize = 4;

/// The maximum number of slots in a line: the number of states that [`States`] holds.
pub const MOST: usize = 2 * LANES;

/// The narrow state words of a line's slots, read together. In a set of slots, bit `i` stands for
/// slot `i`.
#[derive(Clone, Copy, Debug)]
pub struct States<F> {
    first: F,
    /// The states of the slots from the fifth on.
    others: Option<F>,
    /// The set of all slots.
    mask: u32,
}

impl<F: FourWords> States<F> {
    /// Loads the states of the `n` slots of a line that begins with them, in any order.
    #[inline]
    pub fn load<M: Memory<Four = F>>(line: &M, n: usize) -> Self {
        let others = (n > LANES).then(|| line.load_four(4 * LANES));
        Self::new(n, line.load_four(0), others)
    }

    /// The states of `n` slots, eight at most.
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

    /// The slots whose state is `wanted` once the bits of `ignored` are set in it.
    #[inline]
    fn matching(self, ignored: u32, wanted: u32) -> u32 {
        let first = self.first.matching(ignored, wanted);
        let others = self.others.map(|words| words.matching(ignored, wanted));
        (first | others.unwrap_or(0) << LANES) & self.mask
    }

    /// The ready slots with this fingerprint.
    #[must_use]
    #[inline]
    pub fn ready(self, fingerprint: Fingerprint) -> u32 {
        self.matching(0, StateWord::ready(fingerprint).narrow())
    }

    /// The slots that have a key with this fingerprint, and also free and vacant slots if no bit of
    /// the fingerprint is set.
    #[must_use]
    #[inline]
    pub fn written_or_free(self, fingerprint: Fingerprint) -> u32 {
        self.matching(StateWord::UNWRITTEN, StateWord::written(fingerprint))
    }

    /// The slots without a published key. The key of a published slot may be present or removed.
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
