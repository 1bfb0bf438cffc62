//! The state word of a slot: what is in it, a part of the key's hash, and how often its value changed.

const FINGERPRINT_SHIFT: u32 = 48;
const GONE_SHIFT: u32 = 47;
/// Whether the slot's key has no value; of a slot that nobody reads the key of, that it had one.
const GONE: u64 = 1 << GONE_SHIFT;
const VERSION_MASK: u64 = GONE - 1;
const STATE_SHIFT: u32 = 62;
/// Where the half of the word begins that a narrow one has.
const NARROW_SHIFT: u32 = 32;

/// 14 bits of a key's hash that stand in the slot's state word, so that nearly every slot of another
/// key is passed without reading its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The bits that are taken of a hash.
    pub const MASK: u64 = (1 << 14) - 1;

    /// That of a key with this hash.
    #[must_use]
    #[inline]
    pub const fn of(hash: u64) -> Self {
        Self(hash & Self::MASK)
    }

    /// It.
    #[must_use]
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// Where a state word is in its block, and how wide it is.
#[derive(Clone, Copy, Debug)]
pub struct StateAt {
    /// In bytes from the block's start.
    pub offset: usize,
    /// Four bytes instead of eight.
    pub is_narrow: bool,
}

/// What is in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// Nothing, and no key lies behind it whose search comes here: a probe ends here.
    Free,
    /// Nothing, but a key may lie behind it. The next new key that comes here takes it.
    Vacant,
    /// A rank has taken it for a key with this fingerprint, and writes key and value now.
    Reserved,
    /// Key and value, both readable.
    Ready,
    /// The key, and a value that a rank writes now: over one that was there, or for a key that was removed.
    Locked,
    /// The key, which was removed, so that there is no value; who inserts it again does so here.
    Removed,
    /// A key that was removed, and a rank that waits until nobody works here any more. Who inserts
    /// a key tells it to stay before he passes.
    Leaving,
}

/// A slot's state (2 bits), the fingerprint of its key (14 bits), whether the value is gone (1 bit) and the version of
/// its value (47 bits, wrapping around), in one word. The word of a free slot is zero, so zeroed memory is an empty table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateWord(u64);

impl StateWord {
    /// That of a free slot.
    pub const FREE: Self = Self(0);

    /// That of a vacant slot.
    pub const VACANT: Self = Self(GONE);

    /// The word with these bits.
    #[must_use]
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Its bits.
    #[must_use]
    #[inline]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The word of a slot whose state is [narrow](Self::narrow).
    #[must_use]
    #[inline]
    pub const fn from_narrow(bits: u32) -> Self {
        Self((bits as u64) << NARROW_SHIFT)
    }

    /// What a slot keeps whose value has no version, since it is only accessed by atomics: the upper half, which tells the state
    /// and has the fingerprint. Two states of such a slot that differ in the version alone are one.
    #[must_use]
    #[inline]
    pub const fn narrow(self) -> u32 {
        (self.0 >> NARROW_SHIFT) as u32
    }

    /// The narrow word of every slot with this fingerprint that has a key, and of the free and the
    /// vacant one if no bit of the fingerprint is set, once the bits [`UNWRITTEN`](Self::UNWRITTEN)
    /// are set in it.
    #[must_use]
    #[inline]
    pub const fn written(fingerprint: Fingerprint) -> u32 {
        Self::ready(fingerprint).narrow() | Self::UNWRITTEN
    }

    /// The bits of a narrow word that say nothing of the fingerprint.
    pub const UNWRITTEN: u32 = Self(3 << STATE_SHIFT | GONE).narrow();

    /// A slot that is taken for a key.
    #[must_use]
    #[inline]
    pub const fn reserved(fingerprint: Fingerprint) -> Self {
        Self((1 << STATE_SHIFT) | fingerprint.bits() << FINGERPRINT_SHIFT)
    }

    /// A slot whose value was written once.
    #[must_use]
    #[inline]
    pub const fn ready(fingerprint: Fingerprint) -> Self {
        Self((2 << STATE_SHIFT) | fingerprint.bits() << FINGERPRINT_SHIFT)
    }

    /// What is in the slot.
    #[must_use]
    #[inline]
    pub const fn state(self) -> SlotState {
        match self.0 >> STATE_SHIFT {
            0 if self.0 & GONE != 0 => SlotState::Vacant,
            0 => SlotState::Free,
            1 if self.0 & GONE != 0 => SlotState::Leaving,
            1 => SlotState::Reserved,
            2 if self.0 & GONE != 0 => SlotState::Removed,
            2 => SlotState::Ready,
            _ => SlotState::Locked,
        }
    }

    /// Whether the slot has a key that all may read, whether that is there or was removed.
    #[must_use]
    #[inline]
    pub const fn is_published(self) -> bool {
        self.0 >> (STATE_SHIFT + 1) != 0
    }

    /// Whether the slot's key has this fingerprint, if it has a key.
    #[must_use]
    #[inline]
    pub const fn has(self, fingerprint: Fingerprint) -> bool {
        (self.0 >> FINGERPRINT_SHIFT) & Fingerprint::MASK == fingerprint.bits()
    }

    /// Whether the slot is ready with a key that has this fingerprint.
    #[must_use]
    #[inline]
    pub const fn is_ready_with(self, fingerprint: Fingerprint) -> bool {
        self.0 >> GONE_SHIFT == Self::ready(fingerprint).0 >> GONE_SHIFT
    }

    /// Whether a rank writes the slot's value now, of a key with this fingerprint.
    #[must_use]
    #[inline]
    pub const fn is_locked_with(self, fingerprint: Fingerprint) -> bool {
        self.0 >> FINGERPRINT_SHIFT == Self::ready(fingerprint).locked().0 >> FINGERPRINT_SHIFT
    }

    /// Whether the key has no value, or had none when the slot was locked.
    #[must_use]
    #[inline]
    pub const fn is_gone(self) -> bool {
        self.0 & GONE != 0
    }

    /// A ready or removed slot's word while its value is written.
    #[must_use]
    #[inline]
    pub const fn locked(self) -> Self {
        Self(self.0 | (3 << STATE_SHIFT))
    }

    /// The word of a ready or locked slot after its value was written: ready, with the next version.
    #[must_use]
    #[inline]
    pub const fn overwritten(self) -> Self {
        let key = self.0 & (Fingerprint::MASK << FINGERPRINT_SHIFT);
        let version = (self.0 + 1) & VERSION_MASK;
        Self((2 << STATE_SHIFT) | key | version)
    }

    /// The word of a ready slot after its key was removed.
    #[must_use]
    #[inline]
    pub const fn removed(self) -> Self {
        Self(self.overwritten().0 | GONE)
    }

    /// The word of a removed slot while a rank waits until nobody works on it.
    #[must_use]
    #[inline]
    pub const fn leaving(self) -> Self {
        Self(self.0 ^ (3 << STATE_SHIFT))
    }

    /// The word of a leaving slot that keeps its key after all: removed.
    #[must_use]
    #[inline]
    pub const fn kept(self) -> Self {
        Self(self.0 ^ (3 << STATE_SHIFT))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_told_apart_and_keeps_the_fingerprint() {
        for bits in [0, 1, 0x1555, Fingerprint::MASK] {
            let fingerprint = Fingerprint::of(bits);
            let other = Fingerprint::of(bits ^ 0x2000);
            let ready = StateWord::ready(fingerprint);
            let words = [
                (StateWord::reserved(fingerprint), SlotState::Reserved),
                (ready, SlotState::Ready),
                (ready.locked(), SlotState::Locked),
                (ready.locked().overwritten(), SlotState::Ready),
                (ready.removed(), SlotState::Removed),
                (ready.removed().locked(), SlotState::Locked),
                (ready.removed().locked().overwritten(), SlotState::Ready),
                (ready.removed().leaving(), SlotState::Leaving),
                (ready.removed().leaving().locked(), SlotState::Locked),
                (ready.removed().leaving().kept(), SlotState::Removed),
            ];
            for (word, state) in words {
                assert_eq!(word.state(), state);
                let is_published = !matches!(state, SlotState::Reserved | SlotState::Leaving);
                assert_eq!(word.is_published(), is_published);
                assert!(word.has(fingerprint) && !word.has(other), "{word:?}");
                assert_ne!(word, StateWord::FREE);
                assert_eq!(word.is_ready_with(fingerprint), state == SlotState::Ready);
                assert_eq!(word.is_locked_with(fingerprint), state == SlotState::Locked);
                assert!(!word.is_ready_with(other) && !word.is_locked_with(other));
                let is_reserved = state == SlotState::Reserved;
                assert_eq!(word == StateWord::reserved(fingerprint), is_reserved);
                assert!(!StateWord::FREE.is_ready_with(fingerprint));
            }
            assert_ne!(ready, ready.locked().overwritten(), "a new version");
            let again = ready.removed().locked().overwritten();
            assert!(again != ready && !again.is_gone(), "another version");
        }
        assert_eq!(StateWord::FREE.state(), SlotState::Free);
        assert_eq!(StateWord::VACANT.state(), SlotState::Vacant);
        assert!(!StateWord::FREE.is_published() && !StateWord::VACANT.is_published());
    }

    #[test]
    fn a_narrow_word_keeps_all_but_the_version() {
        for bits in [0, 1, 0x1555, Fingerprint::MASK] {
            let fingerprint = Fingerprint::of(bits);
            let other = Fingerprint::of(bits ^ 0x2000);
            let ready = StateWord::ready(fingerprint);
            let written = |word: StateWord| word.narrow() | StateWord::UNWRITTEN;
            let words = [
                StateWord::reserved(fingerprint),
                ready,
                ready.locked(),
                ready.removed(),
                ready.removed().locked(),
                ready.removed().locked().overwritten(),
                ready.removed().leaving(),
            ];
            for word in words {
                let narrow = StateWord::from_narrow(word.narrow());
                assert_eq!(narrow.state(), word.state());
                assert_eq!(narrow.is_gone(), word.is_gone());
                assert!(narrow.has(fingerprint) && !narrow.has(other));
                assert_eq!(written(word), StateWord::written(fingerprint));
                assert_ne!(written(word), StateWord::written(other));
            }
            for word in [StateWord::FREE, StateWord::reserved(fingerprint)] {
                assert_eq!(StateWord::from_narrow(word.narrow()), word);
            }
            let free = written(StateWord::FREE);
            assert_eq!(free == StateWord::written(fingerprint), bits == 0);
            let again = StateWord::from_narrow(ready.removed().locked().overwritten().narrow());
            assert_eq!(again, ready, "no version");
        }
    }

    #[test]
    fn a_version_that_wraps_around_leaves_state_and_fingerprint_alone() {
        let fingerprint = Fingerprint::of(0x2aaa);
        let last = StateWord::from_bits(StateWord::ready(fingerprint).to_bits() | VERSION_MASK);
        assert_eq!(last.locked().overwritten(), StateWord::ready(fingerprint));
    }
}
