//! Accesses to single words that all ranks share, and their memory ordering.
//!
//! All accesses are sequentially consistent. If two ranks each write one word and then read the
//! other one, at least one must see the other's write, or two inserts could miss each other.
//! Acquire and release alone do not promise that. On x86-64 it costs nothing: each atomic
//! instruction orders as much, and loads are plain ones. On AArch64 loads wait for the releasing
//! stores of their own thread.

use crate::sync::{
    AtomicU32, AtomicU64,
    Ordering::{self, Relaxed, SeqCst},
};

/// An atomic word of four or eight bytes.
pub trait Word {
    /// The value of the word.
    type Bits: Copy + PartialEq;

    /// Reads the word.
    fn load(&self, order: Ordering) -> Self::Bits;

    /// Writes the word.
    fn store(&self, bits: Self::Bits, order: Ordering);

    /// Replaces the word if it is `current`.
    ///
    /// # Errors
    /// The current value, if it is not `current`.
    fn compare_exchange(
        &self,
        current: Self::Bits,
        new: Self::Bits,
        order: Ordering,
        of_failure: Ordering,
    ) -> Result<Self::Bits, Self::Bits>;

    /// Replaces the word, and returns the former value.
    fn swap(&self, bits: Self::Bits, order: Ordering) -> Self::Bits;

    /// Adds to the word, wrapping around, and returns the former value.
    fn fetch_add(&self, bits: Self::Bits, order: Ordering) -> Self::Bits;

    /// Keeps the bits that are set in both, and returns the former value.
    fn fetch_and(&self, bits: Self::Bits, order: Ordering) -> Self::Bits;

    /// Sets bits, and returns the former value.
    fn fetch_or(&self, bits: Self::Bits, order: Ordering) -> Self::Bits;

    /// Flips bits, and returns the former value.
    fn fetch_xor(&self, bits: Self::Bits, order: Ordering) -> Self::Bits;

    /// Keeps the smaller value, and returns the former one.
    fn fetch_min(&self, bits: Self::Bits, order: Ordering) -> Self::Bits;

    /// Keeps the larger value, and returns the former one.
    fn fetch_max(&self, bits: Self::Bits, order: Ordering) -> Self::Bits;
}

macro_rules! word {
    ($word:ident, $bits:ty) => {
        impl Word for $word {
            type Bits = $bits;

            #[inline(always)]
            #[track_caller]
            fn load(&self, order: Ordering) -> $bits {
                self.load(order)
            }

            #[inline(always)]
            #[track_caller]
            fn store(&self, bits: $bits, order: Ordering) {
                self.store(bits, order);
            }

            #[inline(always)]
            #[track_caller]
            fn compare_exchange(
                &self,
                current: $bits,
                new: $bits,
                order: Ordering,
                of_failure: Ordering,
            ) -> Result<$bits, $bits> {
                self.compare_exchange(current, new, order, of_failure)
            }

            word!(swap fetch_add fetch_and fetch_or fetch_xor fetch_min fetch_max: $bits);
        }
    };
    ($($update:ident)* => $bits:ty) => {
        $(
            #[inline]
            #[track_caller]
            fn $update(&self, bits: $bits, order: Ordering) -> $bits {
                (**self).$update(bits, order)
            }
        )*
    };
    ($($update:ident)*: $bits:ty) => {
        $(
            #[inline(always)]
            #[track_caller]
            fn $update(&self, bits: $bits, order: Ordering) -> $bits {
                self.$update(bits, order)
            }
        )*
    };
}

impl<W: Word> Word for &W {
    type Bits = W::Bits;

    #[inline]
    #[track_caller]
    fn load(&self, order: Ordering) -> W::Bits {
        (**self).load(order)
    }

    #[inline]
    #[track_caller]
    fn store(&self, bits: W::Bits, order: Ordering) {
        (**self).store(bits, order);
    }

    #[inline]
    #[track_caller]
    fn compare_exchange(
        &self,
        current: W::Bits,
        new: W::Bits,
        order: Ordering,
        of_failure: Ordering,
    ) -> Result<W::Bits, W::Bits> {
        (**self).compare_exchange(current, new, order, of_failure)
    }

    word!(swap fetch_add fetch_and fetch_or fetch_xor fetch_min fetch_max => W::Bits);
}

word!(AtomicU32, u32);
word!(AtomicU64, u64);

/// Reads a word.
#[inline(always)]
pub fn load<W: Word>(word: &W) -> W::Bits {
    word.load(SeqCst)
}

/// Replaces a word if it is `current`, and returns the former value.
///
/// # Errors
/// The current value, if it is not `current`.
#[inline(always)]
pub fn compare_exchange<W: Word>(
    word: &W,
    current: W::Bits,
    new: W::Bits,
) -> Result<W::Bits, W::Bits> {
    word.compare_exchange(current, new, SeqCst, SeqCst)
}

/// Replaces a word, and returns the former value.
#[inline(always)]
pub fn swap<W: Word>(word: &W, bits: W::Bits) -> W::Bits {
    word.swap(bits, SeqCst)
}

/// Adds to a word, wrapping around, and returns the former value.
#[inline(always)]
pub fn add<W: Word>(word: &W, bits: W::Bits) -> W::Bits {
    word.fetch_add(bits, SeqCst)
}

/// Keeps the bits of a word that are set in `bits`, and returns the former value.
#[inline(always)]
pub fn and<W: Word>(word: &W, bits: W::Bits) -> W::Bits {
    word.fetch_and(bits, SeqCst)
}

/// Sets bits of a word, and returns the former value.
#[inline(always)]
pub fn or<W: Word>(word: &W, bits: W::Bits) -> W::Bits {
    word.fetch_or(bits, SeqCst)
}

/// Flips bits of a word, and returns the former value.
#[inline(always)]
pub fn xor<W: Word>(word: &W, bits: W::Bits) -> W::Bits {
    word.fetch_xor(bits, SeqCst)
}

/// Replaces a word by `bits` if that is smaller, and returns the former value.
#[inline(always)]
pub fn min<W: Word>(word: &W, bits: W::Bits) -> W::Bits {
    word.fetch_min(bits, SeqCst)
}

/// Replaces a word by `bits` if that is larger, and returns the former value.
#[inline(always)]
pub fn max<W: Word>(word: &W, bits: W::Bits) -> W::Bits {
    word.fetch_max(bits, SeqCst)
}

/// Replaces a word by `f` of it, and returns the former value. `f` runs again if another thread
/// changed the word meanwhile.
#[inline]
pub fn update<W: Word>(word: &W, f: impl Fn(W::Bits) -> W::Bits) -> W::Bits {
    // Relaxed: only a first guess.
    let mut seen = word.load(Relaxed);
    loop {
        match compare_exchange(word, seen, f(seen)) {
            Ok(former) => return former,
            Err(now) => seen = now,
        }
    }
}
