//! The state word of a slot: what is in it, a part of the key's hash, and how often its value changed.

use super::hash::Fingerprint;

const VERSION_BITS: u32 = 48;
const VERSION_MASK: u64 = (1 << VERSION_BITS) - 1;
const STATE_SHIFT: u32 = 62;

/// What is in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotState {
    /// Nothing, and nothing ever was: a probe ends here.
    Free,
    /// A rank has taken it for a key with this fingerprint, and writes key and value now.
    Reserved,
    /// Key and value, both readable. The key stays for ever.
    Ready,
    /// The key, and a value that a rank overwrites now.
    Locked,
}

/// A slot's state (2 bits), the fingerprint of its key (14 bits) and the version of its value (48 bits,
/// wrapping around), in one word. The word of a free slot is zero, so zeroed memory is an empty table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StateWord(u64);

impl StateWord {
    pub(super) const FREE: Self = Self(0);

    #[inline]
    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline]
    pub(super) const fn to_bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(super) const fn reserved(fingerprint: Fingerprint) -> Self {
        Self((1 << STATE_SHIFT) | fingerprint.bits() << VERSION_BITS)
    }

    /// A slot whose value was written once.
    #[inline]
    pub(super) const fn ready(fingerprint: Fingerprint) -> Self {
        Self((2 << STATE_SHIFT) | fingerprint.bits() << VERSION_BITS)
    }

    #[inline]
    pub(super) const fn state(self) -> SlotState {
        match self.0 >> STATE_SHIFT {
            0 => SlotState::Free,
            1 => SlotState::Reserved,
            2 => SlotState::Ready,
            _ => SlotState::Locked,
        }
    }

    /// Whether the slot's key has this fingerprint, if it has a key.
    #[inline]
    pub(super) const fn has(self, fingerprint: Fingerprint) -> bool {
        (self.0 >> VERSION_BITS) & Fingerprint::MASK == fingerprint.bits()
    }

    /// Whether the slot has a key that may be read, with this fingerprint: it is ready or locked.
    #[inline]
    pub(super) const fn is_readable_with(self, fingerprint: Fingerprint) -> bool {
        let any = Self::ready(fingerprint).locked();
        self.0 >> VERSION_BITS | 1 << (STATE_SHIFT - VERSION_BITS) == any.0 >> VERSION_BITS
    }

    /// A ready slot's word while its value is overwritten.
    #[inline]
    pub(super) const fn locked(self) -> Self {
        Self(self.0 | (3 << STATE_SHIFT))
    }

    /// The word of a ready or locked slot after its value was overwritten: ready, with the next version.
    #[inline]
    pub(super) const fn overwritten(self) -> Self {
        let key = self.0 & (Fingerprint::MASK << VERSION_BITS);
        let version = (self.0 + 1) & VERSION_MASK;
        Self((2 << STATE_SHIFT) | key | version)
    }
}

#[cfg(test)]
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
            ];
            for (word, state) in words {
                assert_eq!(word.state(), state);
                assert!(word.has(fingerprint) && !word.has(other), "{word:?}");
                assert_ne!(word, StateWord::FREE);
                let is_readable = matches!(state, SlotState::Ready | SlotState::Locked);
                assert_eq!(word.is_readable_with(fingerprint), is_readable);
                assert!(!word.is_readable_with(other));
                assert!(!StateWord::FREE.is_readable_with(fingerprint));
            }
            assert_ne!(ready, ready.locked().overwritten(), "a new version");
        }
        assert_eq!(StateWord::FREE.state(), SlotState::Free);
    }

    #[test]
    fn a_version_that_wraps_around_leaves_state_and_fingerprint_alone() {
        let fingerprint = Fingerprint::of(0x2aaa);
        let last = StateWord::from_bits(StateWord::ready(fingerprint).to_bits() | VERSION_MASK);
        assert_eq!(last.locked().overwritten(), StateWord::ready(fingerprint));
    }
}
