//! The state word of a slot: its state, a part of the key's hash, and the version of its value.

const FINGERPRINT_SHIFT: u32 = 48;
const GONE_SHIFT: u32 = 47;
/// Set if the slot's key has no value. Also tells vacant from free, and leaving from reserved.
const GONE: u64 = 1 << GONE_SHIFT;
const VERSION_MASK: u64 = GONE - 1;
const STATE_SHIFT: u32 = 62;
/// The first bit of the upper half, which a narrow word keeps.
const NARROW_SHIFT: u32 = 32;

/// 14 bits of a key's hash in the state word. They let a search pass nearly every slot of another
/// key without reading that key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The bits of a hash that are the fingerprint.
    pub const MASK: u64 = (1 << 14) - 1;

    /// The fingerprint of a key with this hash.
    #[must_use]
    #[inline]
    pub const fn of(hash: u64) -> Self {
        Self(hash & Self::MASK)
    }

    /// The bits of the fingerprint.
    #[must_use]
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// The offset and width of a state word in its block.
#[derive(Clone, Copy, Debug)]
pub struct StateAt {
    /// The offset in bytes from the block's start.
    pub offset: usize,
    /// Whether the word has four bytes instead of eight.
    pub is_narrow: bool,
}

/// The state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// Empty, and no key whose probe passes here lies behind it: a probe ends here.
    Free,
    /// Empty, but a key may lie behind it. The next new key whose probe comes here takes it.
    Vacant,
    /// Claimed by a rank for a key with this fingerprint. The rank is writing key and value.
    Reserved,
    /// Key and value are readable.
    Ready,
    /// A rank is writing the value of the key: over a present one, or for a removed key.
    Locked,
    /// The key was removed and has no value. An insert of the key reuses the slot.
    Removed,
    /// The key was removed, and a rank waits until no operation works here any more, to reclaim the
    /// slot. An insert tells the slot to stay before it passes.
    Leaving,
}

/// A slot's state (2 bits), the fingerprint of its key (14 bits), whether the value is gone (1 bit)
/// and the version of its value (47 bits, wrapping around), in one word. The word of a free slot is
/// zero, so zeroed memory is an empty table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateWord(u64);

impl StateWord {
    /// The word of a free slot.
    pub const FREE: Self = Self(0);

    /// The word of a vacant slot.
    pub const VACANT: Self = Self(GONE);

    /// The word with these bits.
    #[must_use]
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits of the word.
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

    /// The upper half of the word: state and fingerprint without the version. Slots whose values
    /// are only accessed by atomics need no version and keep this half. Two states of such a slot
    /// that differ in the version alone are one.
    #[must_use]
    #[inline]
    pub const fn narrow(self) -> u32 {
        (self.0 >> NARROW_SHIFT) as u32
    }

    /// The narrow word of every slot that has a key with this fingerprint, once the bits
    /// [`UNWRITTEN`](Self::UNWRITTEN) are set in it. Free and vacant slots have it, too, if no bit
    /// of the fingerprint is set.
    #[must_use]
    #[inline]
    pub const fn written(fingerprint: Fingerprint) -> u32 {
        Self::ready(fingerprint).narrow() | Self::UNWRITTEN
    }

    /// The bits of a narrow word that are not the fingerprint.
    pub const UNWRITTEN: u32 = Self(3 << STATE_SHIFT | GONE).narrow();

    /// The word of a slot that is reserved for a key.
    #[must_use]
    #[inline]
    pub const fn reserved(fingerprint: Fingerprint) -> Self {
        Self((1 << STATE_SHIFT) | fingerprint.bits() << FINGERPRINT_SHIFT)
    }

    /// The word of a ready slot whose value was written once.
    #[must_use]
    #[inline]
    pub const fn ready(fingerprint: Fingerprint) -> Self {
        Self((2 << STATE_SHIFT) | fingerprint.bits() << FINGERPRINT_SHIFT)
    }

    /// The state of the slot.
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

    /// Whether the slot has a readable key, present or removed.
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

    /// Whether a rank is writing the slot's value, of a key with this fingerprint.
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

    /// The word of a ready or removed slot while its value is written.
    #[must_use]
    #[inline]
    pub const fn locked(self) -> Self {
        Self(self.0 | (3 << STATE_SHIFT))
    }

    /// The word of a ready or locked slot after its value was written: ready, with the next
    /// version.
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

    /// The word of a removed slot while a rank waits to reclaim it.
    #[must_use]
    #[inline]
    pub const fn leaving(self) -> Self {
        Self(self.0 ^ (3 << STATE_SHIFT))
    }

    /// The word of a leaving slot that was told to stay: removed.
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
