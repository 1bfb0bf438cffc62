//! The size and the error rate of a blocked Bloom filter.
//!
//! Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters" (2007): the number
//! of items in a block is Poisson distributed, and a block with many errs much more often than one
//! with few. Unlike there, the number of bits that items have set in a block is not taken as its
//! mean but by its distribution, which makes a difference for blocks as small as a word.

use std::collections::VecDeque;
use std::iter;
use std::sync::{Mutex, PoisonError};

/// The most bits that an item sets.
const MOST_BITS: u32 = 16;

/// A probability that is neglected.
const NOTHING: f64 = 1e-18;

/// A filter's shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    /// Bits that one item sets. Some of them may coincide.
    pub(super) n_bits: u32,
    pub(super) n_blocks: u64,
    /// The probability that an absent item is found, once the expected number of items is there.
    pub(super) rate: f64,
}

/// The input of a shape: the bits of a block, the number of items, and the bits of the rate.
type Wish = (usize, u64, u64);

/// The last inputs and their shapes. Programs make many filters alike, one for each batch, and all
/// ranks that are threads of a process make the same one; a computation takes milliseconds.
static LAST: Mutex<VecDeque<(Wish, Option<Shape>)>> = Mutex::new(VecDeque::new());

/// The number of remembered shapes.
const REMEMBERED: usize = 8;

/// The smallest filter with blocks of `width` bits that has `rate` with `n` items, if there is one.
/// The rate includes absent items with the hash of a present one, which set the same bits.
pub(super) fn shape(width: usize, n: u64, rate: f64) -> Option<Shape> {
    let wish = (width, n, rate.to_bits());
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, shape)) = last.iter().find(|(other, _)| *other == wish) {
        return *shape;
    }
    let shape = compute(width, n, rate);
    last.truncate(REMEMBERED - 1);
    last.push_front((wish, shape));
    shape
}

/// The probability that an absent item has the hash, of 64 bits, of one of `n` others.
fn same_hash(n: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a probability")]
    let n = n as f64;
    n / 2_f64.powi(64)
}

fn compute(width: usize, n: u64, wanted: f64) -> Option<Shape> {
    let same_hash = same_hash(n);
    let rate = wanted - same_hash;
    let mut best: Option<Shape> = None;
    for n_bits in 1..=MOST_BITS {
        let errors = errors_by_items(width, n_bits, rate);
        let Some(load) = largest_load(&errors, rate) else {
            continue;
        };
        let n_blocks = blocks(n, load);
        // The number of blocks falls with the bits an item up to a minimum, and rises behind it.
        if best.is_some_and(|best| best.n_blocks < n_blocks) {
            break;
        }
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let load = n as f64 / n_blocks as f64;
        best = Some(Shape {
            n_bits,
            n_blocks,
            rate: (rate_at(&errors, load) + same_hash).min(wanted),
        });
    }
    best
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive number of blocks, one more or less of which does not matter"
)]
fn blocks(n: u64, load: f64) -> u64 {
    ((n as f64 / load).ceil() as u64).max(1)
}

/// The probability that an absent item is found in a block with 0, 1, 2, ... items. The list ends
/// where nearly all are found, or where a larger number of items is improbable in any filter with
/// `rate`.
fn errors_by_items(width: usize, n_bits: u32, rate: f64) -> Vec<f64> {
    // The probability of each number of set bits.
    let mut set = vec![0.0; width + 1];
    set[0] = 1.0;
    // All others have no probability to speak of.
    let (mut lowest, mut highest) = (0, 0);
    let mut errors: Vec<f64> = vec![0.0];
    // Few blocks have twice the number of items at which the rate is exceeded.
    let mut end = 4 * width;
    #[expect(clippy::cast_precision_loss, reason = "at most 512")]
    let fraction = |bits: usize| bits as f64 / width as f64;
    while errors.len() < end {
        for _ in 0..n_bits {
            highest = (highest + 1).min(width);
            for bits in (lowest.max(1)..=highest).rev() {
                set[bits] = set[bits] * fraction(bits) + set[bits - 1] * (1.0 - fraction(bits - 1));
            }
            set[0] = 0.0;
            while set[lowest] < NOTHING {
                // As if there were one more: a block with more bits errs more often.
                set[lowest + 1] += set[lowest];
                set[lowest] = 0.0;
                lowest += 1;
            }
        }
        let found = |bits: usize| set[bits] * fraction(bits).powi(n_bits.cast_signed());
        let error = (lowest..=highest).map(found).sum();
        if error > rate {
            end = end.min(2 * errors.len() + 40);
        }
        errors.push(error);
    }
    errors
}

/// The rate if blocks have `load` items on average.
fn rate_at(errors: &[f64], load: f64) -> f64 {
    let mut probability = (-load).exp();
    let mut sum = 0.0;
    // Blocks with more items than that find everything. Their probabilities are summed up: the
    // difference of 1 and the others has an error that is larger than a low rate.
    let all = errors.iter().copied().chain(iter::repeat(1.0));
    for (i, error) in all.enumerate().skip(1) {
        #[expect(clippy::cast_precision_loss, reason = "a number of items in a block")]
        let items = i as f64;
        probability *= load / items;
        sum += probability * error;
        let is_rest = i >= errors.len() && items > 2.0 * load;
        if is_rest && probability <= sum * f64::EPSILON {
            break;
        }
    }
    sum
}

/// The largest number of items a block with which the rate is kept.
fn largest_load(errors: &[f64], rate: f64) -> Option<f64> {
    const SMALLEST: f64 = 1e-6;
    if rate_at(errors, SMALLEST) > rate {
        return None;
    }
    let (mut low, mut high) = (SMALLEST, 300.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if rate_at(errors, middle) <= rate {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_with_one_item_of_one_bit_finds_as_many_as_it_has_bits() {
        let errors = errors_by_items(64, 1, 0.5);
        assert!((errors[1] - 1.0 / 64.0).abs() < 1e-12);
        // Two bits, which are the same with probability 1/64.
        let two = 1.0 / 64.0 / 64.0 + 63.0 / 64.0 * 2.0 / 64.0;
        assert!((errors[2] - two).abs() < 1e-12);
    }

    #[test]
    fn shapes_keep_the_rate_and_waste_little() {
        for (width, rate, most_bits_an_item) in [
            (64, 0.1, 6.5),
            (64, 0.01, 16.0),
            (512, 0.01, 11.0),
            (512, 0.0001, 24.0),
        ] {
            let shape = shape(width, 1 << 20, rate).unwrap();
            assert!(shape.rate <= rate && shape.rate > 0.98 * rate, "{shape:?}");
            #[expect(clippy::cast_precision_loss, reason = "a ratio")]
            let bits = (shape.n_blocks * width as u64) as f64 / f64::from(1 << 20);
            assert!(
                bits < most_bits_an_item,
                "{bits} bits an item for {rate} at {width}"
            );
        }
    }

    #[test]
    fn low_rates_are_kept_too_and_take_more_memory_than_higher_ones() {
        for (width, n) in [(64, 1), (64, 1000), (512, 1), (512, 100), (512, 100_000)] {
            let (mut former, mut lowest) = (0, 1.0);
            for rate in (1..=50).map(|i| 0.3_f64.powi(i)) {
                let Some(shape) = compute(width, n, rate) else {
                    break;
                };
                assert!(shape.rate <= rate, "{rate:e} of {n} at {width}: {shape:?}");
                assert!(shape.n_blocks >= former, "{rate:e} of {n} at {width}");
                if shape.n_blocks > 1000 {
                    assert!(shape.rate > 0.9 * rate, "{rate:e}: {shape:?}");
                }
                (former, lowest) = (shape.n_blocks, rate);
            }
            let wanted = if width == 64 {
                1e-14
            } else {
                4.0 * same_hash(n)
            };
            assert!(lowest < wanted, "{lowest:e} is the lowest at {width}");
        }
    }

    #[test]
    fn no_filter_has_a_lower_rate_than_its_hashes() {
        assert_eq!(compute(512, 1_000_000_000, 1e-12), None);
        let shape = compute(512, 1_000_000_000, 1e-10).unwrap();
        assert!(shape.rate > same_hash(1_000_000_000) && shape.rate <= 1e-10);
    }

    #[test]
    fn what_was_computed_last_is_no_answer_to_another_wish() {
        for (width, n, rate) in [
            (64, 1000, 0.1),
            (64, 1000, 0.1),
            (64, 1000, 0.05),
            (64, 2000, 0.05),
            (512, 2000, 0.05),
            (64, 1, 1e-12),
            (64, 1, 1e-12),
        ] {
            assert_eq!(shape(width, n, rate), compute(width, n, rate));
        }
    }

    #[test]
    fn wider_blocks_need_less_memory_for_the_same_rate() {
        let (word, line) = (shape(64, 1 << 20, 0.001), shape(512, 1 << 20, 0.001));
        assert!(line.unwrap().n_blocks * 8 < word.unwrap().n_blocks);
    }
}
