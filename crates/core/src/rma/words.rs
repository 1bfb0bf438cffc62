//! Compares several words at once.

use crate::raw::copy::{self, Sixteen};

/// Four words of four bytes that were loaded by one instruction.
///
/// A container with such words side by side finds the relevant ones with one load and a few
/// instructions.
///
/// # Examples
///
/// ```
/// use pgas_core::rma::FourWords;
/// use zerocopy::transmute;
///
/// let read: [u64; 2] = transmute!([0x105_u32, 7, 5, 0x205]);
/// let words = FourWords::from(read);
/// assert_eq!(words.matching(0, 5), 0b0100);
/// assert_eq!(words.matching(0x300, 0x305), 0b1101);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FourWords(pub(super) Sixteen);

impl From<[u64; 2]> for FourWords {
    /// The words in the order of memory.
    #[inline(always)]
    fn from(words: [u64; 2]) -> Self {
        Self(copy::sixteen_of(words))
    }
}

impl FourWords {
    /// Compares the words, with the bits of `ignored` set, to `wanted`. Returns a bit for each
    /// equal word, the lowest bit for the first word in memory.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a few instructions")]
    pub fn matching(self, ignored: u32, wanted: u32) -> u32 {
        copy::matching(self.0, ignored, wanted)
    }

    /// The set of words whose highest bit is set.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "an instruction")]
    pub fn highest(self) -> u32 {
        copy::highest(self.0)
    }
}

impl pgas_lockfree::memory::FourWords for FourWords {
    #[inline(always)]
    fn matching(self, ignored: u32, wanted: u32) -> u32 {
        self.matching(ignored, wanted)
    }

    #[inline(always)]
    fn highest(self) -> u32 {
        self.highest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The word of eight bytes that two of four make in memory.
    fn in_memory(first: u32, second: u32) -> u64 {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&first.to_ne_bytes());
        bytes[4..].copy_from_slice(&second.to_ne_bytes());
        u64::from_ne_bytes(bytes)
    }

    #[test]
    fn each_word_is_compared_in_its_place() {
        let words = [0, 1, 0x8000_0000, 0x8000_0001, 0xffff_ffff_u32];
        // Miri takes a thousand times as long.
        for i in (0..5_usize.pow(4)).step_by(if cfg!(miri) { 101 } else { 1 }) {
            let four = [1, 5, 25, 125].map(|power| words[i / power % 5]);
            let both = [in_memory(four[0], four[1]), in_memory(four[2], four[3])];
            let highest = (0..4).map(|k| (four[k] >> 31) << k).sum::<u32>();
            assert_eq!(FourWords::from(both).highest(), highest);
            assert_eq!(copy::highest_one_by_one(both), highest);
            for ignored in words {
                for wanted in words {
                    let expected = (0..4)
                        .map(|k| u32::from(four[k] | ignored == wanted) << k)
                        .sum::<u32>();
                    assert_eq!(FourWords::from(both).matching(ignored, wanted), expected);
                    assert_eq!(copy::matching_one_by_one(both, ignored, wanted), expected);
                }
            }
        }
    }
}
