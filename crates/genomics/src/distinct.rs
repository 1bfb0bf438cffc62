//! An estimate of the number of distinct k-mers, without storing them.

use std::ops::RangeInclusive;

use crate::Kmer;

/// Bits of the hash that choose a register: the registers stay in a first-level cache, and the
/// standard error is 0.8 %.
const INDEX_BITS: u32 = 14;

/// The other bits of the hash, which give a register's run of zeros.
const VALUE_BITS: u32 = 64 - INDEX_BITS;

/// An estimate of the number of distinct k-mers, always in 16 KiB.
///
/// This is `HyperLogLog` \[1\] with the estimator of Ertl \[2\], which works for any number of
/// k-mers. A register holds the longest run of zeros in the hashes that selected it. So the sketch
/// of some data is the maximum of the sketches of its parts, register by register: on many ranks,
/// one reduction.
///
/// 1. Flajolet, Fusy, Gandouet, Meunier: `HyperLogLog`, the analysis of a near-optimal cardinality
///    estimation algorithm. 2007.
/// 2. Ertl: New cardinality estimation algorithms for `HyperLogLog` sketches. arXiv 1702.01284,
///    2017. Algorithm 6.
///
/// # Examples
/// ```
/// use pgas_genomics::{DistinctSketch, Kmer};
///
/// let mut sketch = DistinctSketch::new();
/// for word in 0..300_000 {
///     sketch.add(Kmer::from_word(word % 100_000));
/// }
/// assert!((97_000..103_000).contains(&sketch.estimate()));
///
/// let mut other_rank = DistinctSketch::new();
/// other_rank.add(Kmer::from_word(5));
/// for (mine, other) in sketch.registers_mut().iter_mut().zip(other_rank.registers_mut()) {
///     *mine = (*mine).max(*other);
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistinctSketch {
    registers: Box<[u8; 1 << INDEX_BITS]>,
}

impl Default for DistinctSketch {
    fn default() -> Self {
        Self::new()
    }
}

impl DistinctSketch {
    /// A sketch of no k-mers.
    #[must_use]
    pub fn new() -> Self {
        Self {
            registers: Box::new([0; 1 << INDEX_BITS]),
        }
    }

    /// Adds a k-mer.
    ///
    /// # Cost
    /// Two multiplications, and a write that gets rarer with each k-mer.
    #[inline]
    pub fn add(&mut self, kmer: Kmer) {
        let hash = mix(kmer.word());
        let register = &mut self.registers[(hash >> VALUE_BITS) as usize];
        // The bit below the value's bits limits the run of zeros.
        let rest = hash << INDEX_BITS | 1 << (INDEX_BITS - 1);
        let value = rest.leading_zeros().to_le_bytes()[0] + 1;
        if value > *register {
            *register = value;
        }
    }

    /// The registers, to be combined with those of other parts of the data by their maximum.
    #[must_use]
    pub fn registers_mut(&mut self) -> &mut [u8] {
        &mut self.registers[..]
    }

    /// The estimated number of distinct k-mers.
    #[must_use]
    pub fn estimate(&self) -> u64 {
        const N_REGISTERS: f64 = (1_u64 << INDEX_BITS) as f64;
        let mut n_with_value = [0_u32; VALUE_BITS as usize + 2];
        for register in &self.registers[..] {
            n_with_value[usize::from(*register).min(VALUE_BITS as usize + 1)] += 1;
        }
        let n_full = f64::from(n_with_value[VALUE_BITS as usize + 1]);
        let mut z = N_REGISTERS * tau(1.0 - n_full / N_REGISTERS);
        for n in n_with_value[1..=VALUE_BITS as usize].iter().rev() {
            z = 0.5 * (z + f64::from(*n));
        }
        z += N_REGISTERS * sigma(f64::from(n_with_value[0]) / N_REGISTERS);
        let estimate = N_REGISTERS * N_REGISTERS / (2.0 * std::f64::consts::LN_2 * z);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, and all there can be are 2^64, at which the conversion stops"
        )]
        let rounded = estimate.round() as u64;
        rounded
    }

    /// The range of the true number with a probability of 0.9999: the estimate, plus or minus four
    /// standard deviations.
    #[must_use]
    pub fn bounds(&self) -> RangeInclusive<u64> {
        let estimate = self.estimate();
        // Each is 1.04 of the square root of the number of registers, 0.81 %.
        let margin = estimate / 30 + 4;
        estimate.saturating_sub(margin)..=estimate.saturating_add(margin)
    }
}

/// Spreads a k-mer over all bits, by the finalizer of `MurmurHash3`.
#[inline]
const fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let word = (word ^ word >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ word >> 33
}

/// Corrects for unused registers. Infinite if all are unused, which makes the estimate 0.
fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z <= before {
            return z;
        }
    }
}

/// Corrects for registers at their maximum.
fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z >= before {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketch_of(words: impl Iterator<Item = u64>) -> DistinctSketch {
        let mut sketch = DistinctSketch::new();
        words.for_each(|word| sketch.add(Kmer::from_word(word)));
        sketch
    }

    #[test]
    fn none_are_none_and_few_are_exact_within_one() {
        assert_eq!(DistinctSketch::new().estimate(), 0);
        for n in [1_u64, 2, 10, 50] {
            let estimate = sketch_of((0..n).chain(0..n)).estimate();
            assert!(estimate.abs_diff(n) <= 1, "{n}: {estimate}");
        }
    }

    #[test]
    fn the_bounds_hold_at_every_size_and_are_within_seven_percent() {
        for n in [1000_u64, 16_384, 40_000, 100_000, 1_000_000] {
            for step in [1, 4, 0x9e37_79b9_7f4a_7c15] {
                let bounds = sketch_of((0..n).map(|i| i.wrapping_mul(step))).bounds();
                assert!(bounds.contains(&n), "{n} by {step}: {bounds:?}");
                assert!(bounds.end() - bounds.start() < n / 14 + 10, "{bounds:?}");
            }
        }
    }

    #[test]
    fn the_larger_registers_are_those_of_the_whole() {
        let mut whole = sketch_of(0..5000);
        let mut other = sketch_of(4000..9000);
        let pairs = whole.registers_mut().iter_mut().zip(other.registers_mut());
        pairs.for_each(|(mine, other)| *mine = (*mine).max(*other));
        assert_eq!(whole, sketch_of(0..9000));
    }

    #[test]
    fn registers_at_their_limit_do_not_overflow() {
        let mut sketch = DistinctSketch::new();
        sketch.registers_mut().fill(VALUE_BITS.to_le_bytes()[0] + 1);
        assert_eq!(sketch.estimate(), u64::MAX);
    }
}
