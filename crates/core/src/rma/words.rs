//! Comparing several words at once, as they were read from shared memory.
#![cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(
        unsafe_code,
        reason = "calls instructions that every x86-64 processor has"
    )
)]

use crate::raw::copy::Sixteen;

/// Four words of four bytes, as they were read together.
///
/// A container that keeps such words side by side learns with one load and a few instructions which of them to look at.
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
    /// Words as they are in memory.
    #[inline(always)]
    fn from(words: [u64; 2]) -> Self {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            // SAFETY: SSE2 is a part of x86-64.
            Self(unsafe { in_register(words) })
        }
        #[cfg(any(not(target_arch = "x86_64"), miri))]
        Self(words)
    }
}

impl FourWords {
    /// Which of the words are `wanted` once the bits of `ignored` are set in them: a bit for each word, the lowest one for the first in
    /// memory.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a few instructions")]
    pub fn matching(self, ignored: u32, wanted: u32) -> u32 {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            // SAFETY: SSE2 is a part of x86-64.
            unsafe { match_in_register(self.0, ignored, wanted) }
        }
        #[cfg(any(not(target_arch = "x86_64"), miri))]
        match_one_by_one(self.0, ignored, wanted)
    }
}

impl pgas_lockfree::memory::FourWords for FourWords {
    #[inline(always)]
    fn matching(self, ignored: u32, wanted: u32) -> u32 {
        self.matching(ignored, wanted)
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "sse2")]
#[inline]
fn in_register([low, high]: [u64; 2]) -> Sixteen {
    std::arch::x86_64::_mm_set_epi64x(high.cast_signed(), low.cast_signed())
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "sse2")]
#[inline]
fn match_in_register(words: Sixteen, ignored: u32, wanted: u32) -> u32 {
    use std::arch::x86_64::{
        _mm_castsi128_ps, _mm_cmpeq_epi32, _mm_movemask_ps, _mm_or_si128, _mm_set1_epi32,
    };
    let words = _mm_or_si128(words, _mm_set1_epi32(ignored.cast_signed()));
    let equal = _mm_cmpeq_epi32(words, _mm_set1_epi32(wanted.cast_signed()));
    _mm_movemask_ps(_mm_castsi128_ps(equal)).cast_unsigned()
}

/// The same on any processor.
#[cfg(any(test, not(target_arch = "x86_64"), miri))]
fn match_one_by_one(words: [u64; 2], ignored: u32, wanted: u32) -> u32 {
    let words = words.map(|pair| {
        let [a, b, c, d, e, f, g, h] = pair.to_ne_bytes();
        [[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes)
    });
    let mut matches = 0;
    for (i, word) in words.into_iter().flatten().enumerate() {
        matches |= u32::from(word | ignored == wanted) << i;
    }
    matches
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
            for ignored in words {
                for wanted in words {
                    let expected = (0..4)
                        .map(|k| u32::from(four[k] | ignored == wanted) << k)
                        .sum::<u32>();
                    let both = [in_memory(four[0], four[1]), in_memory(four[2], four[3])];
                    assert_eq!(FourWords::from(both).matching(ignored, wanted), expected);
                    assert_eq!(match_one_by_one(both, ignored, wanted), expected);
                }
            }
        }
    }
}
