//! Single words that all ranks may access: what each access orders.
//!
//! All of them are sequentially consistent. Two ranks that each write one word and then read the
//! other one's must not both find what was there before, or two inserts could miss each other, and
//! accesses that acquire and release alone do not promise that. It costs nothing on x86-64, where
//! each atomic instruction orders as much and loads are plain ones, and on AArch64 loads that wait
//! for the releasing stores of their own thread.

use crate::sync::{
    AtomicU32, AtomicU64,
    Ordering::{self, Relaxed, SeqCst},
};

/// An atomic word of four or eight bytes.
pub trait Word {
    /// What it holds.
    type Bits: Copy + PartialEq;

    /// Reads it.
    fn load(&self, order: Ordering) -> Self::Bits;

    /// Writes it.
    fn store(&self, bits: Self::Bits, order: Ordering);

    /// Replaces it if it is `current`.
    ///
    /// # Errors
    /// What it is, if it is not.
    fn compare_exchange(
        &self,
        current: Self::Bits,
        new: Self::Bits,
        order: Ordering,
        of_failure: Ordering,
    ) -> Result<Self::Bits, Self::Bits>;

    /// Replaces it, and returns what it was.
    fn swap(&self, bits: Self::Bits, order: Ordering) -> Self::Bits;

    /// Adds to it, wrapping around, and returns what it was.
    fn fetch_add(&self, bits: Self::Bits, order: Ordering) -> Self::Bits;

    /// Leaves the bits that are set in both, and returns what it was.
    fn fetch_and(&self, bits: Self::Bits, order: Ordering) -> Self::Bits;

    /// Sets bits, and returns what it was.
    fn fetch_or(&self, bits: Self::Bits, order: Ordering) -> Self::Bits;

    /// Turns bits over, and returns what it was.
    fn fetch_xor(&self, bits: Self::Bits, order: Ordering) -> Self::Bits;

    /// Leaves the smaller one, and returns what it was.
    fn fetch_min(&self, bits: Self::Bits, order: Ordering) -> Self::Bits;

    /// Leaves the larger one, and returns what it was.
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

/// Replaces a word if it is `current`, and returns what it was.
///
/// # Errors
/// What it is, if it is not `current`.
#[inline(always)]
pub fn compare_exchange<W: Word>(
    word: &W,
    current: W::Bits,
    new: W::Bits,
) -> Result<W::Bits, W::Bits> {
    word.compare_exchange(current, new, SeqCst, SeqCst)
}

/// Replaces a word, and returns what it was.
#[inline(always)]
pub fn swap<W: Word>(word: &W, bits: W::Bits) -> W::Bits {
    word.swap(bits, SeqCst)
}

/// Adds to a word, wrapping around, and returns what it was.
#[inline(always)]
pub fn add<W: Word>(word: &W, bits: W::Bits) -> W::Bits {
    word.fetch_add(bits, SeqCst)
}

/// Leaves the bits of a word that are set in both, and returns what it was.
#[inline(always)]
pub fn and<W: Word>(word: &W, bits: W::Bits) -> W::Bits {
    word.fetch_and(bits, SeqCst)
}

/// Sets bits of a word, and returns what it was.
#[inline(always)]
pub fn or<W: Word>(word: &W, bits: W::Bits) -> W::Bits {
    word.fetch_or(bits, SeqCst)
}

/// Turns bits of a word over, and returns what it was.
#[inline(always)]
pub fn xor<W: Word>(word: &W, bits: W::Bits) -> W::Bits {
    word.fetch_xor(bits, SeqCst)
}

/// Leaves the smaller one of a word and `bits`, and returns what it was.
#[inline(always)]
pub fn min<W: Word>(word: &W, bits: W::Bits) -> W::Bits {
    word.fetch_min(bits, SeqCst)
}

/// Leaves the larger one of a word and `bits`, and returns what it was.
#[inline(always)]
pub fn max<W: Word>(word: &W, bits: W::Bits) -> W::Bits {
    word.fetch_max(bits, SeqCst)
}

/// Replaces a word by `f` of it, and returns what it was. `f` runs again when another one was
/// faster.
#[inline]
pub fn update<W: Word>(word: &W, f: impl Fn(W::Bits) -> W::Bits) -> W::Bits {
    // Relaxed: only a guess.
    let mut seen = word.load(Relaxed);
    loop {
        match compare_exchange(word, seen, f(seen)) {
            Ok(former) => return former,
            Err(now) => seen = now,
        }
    }
}
