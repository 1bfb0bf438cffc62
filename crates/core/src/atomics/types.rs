//! The element types of atomics.

use crate::Pod;
use crate::backend::AtomicType;

/// A type with remote atomics: `u32`, `i32`, `u64`, `i64`, `usize`, `isize`, `f32`, `f64`.
///
/// Sealed: a backend must know how to operate on it.
pub trait Atomic: Pod + PartialEq + std::fmt::Debug + sealed::Sealed {
    /// Its name in a backend's calls.
    const TYPE: AtomicType;
    /// Whether it is a float.
    const IS_FLOAT: bool;
    /// Its bits, in the low half for four-byte types.
    fn to_bits(self) -> u64;
    /// The value with these bits.
    fn from_bits(bits: u64) -> Self;
}

/// An integer with remote atomics: `u32`, `i32`, `u64`, `i64`, `usize`, `isize`.
pub trait AtomicInteger: Atomic + Eq + Ord {
    /// One.
    const ONE: Self;
    /// The number that adds up to zero with this one, wrapping around.
    #[must_use]
    fn negated(self) -> Self;
}

#[expect(unnameable_types, reason = "sealed")]
mod sealed {
    pub trait Sealed {}
}

/// Types with atomics: what a backend calls them, their bits, and the value with these.
macro_rules! atomics {
    ($($t:ident $type:ident $is_float:literal, $value:ident: $to:expr, $bits:ident: $from:expr;)*) => { $(
        impl sealed::Sealed for $t {}

        impl Atomic for $t {
            const TYPE: AtomicType = AtomicType::$type;
            const IS_FLOAT: bool = $is_float;

            #[inline]
            fn to_bits(self) -> u64 {
                let $value = self;
                $to
            }

            #[inline]
            fn from_bits($bits: u64) -> Self {
                $from
            }
        }
    )* };
}

#[rustfmt::skip]
atomics! {
    u32 U32 false, x: x.into(), bits: low(bits);
    i32 I32 false, x: x.cast_unsigned().into(), bits: low(bits).cast_signed();
    u64 U64 false, x: x, bits: bits;
    i64 I64 false, x: x.cast_unsigned(), bits: bits.cast_signed();
    // All processors of the library have addresses of 64 bits.
    usize U64 false, x: x as u64, bits: whole(bits);
    isize I64 false, x: x.cast_unsigned() as u64, bits: whole(bits).cast_signed();
    f32 F32 true, x: f32::to_bits(x).into(), bits: f32::from_bits(low(bits));
    f64 F64 true, x: f64::to_bits(x), bits: f64::from_bits(bits);
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "four-byte types use the low half"
)]
const fn low(bits: u64) -> u32 {
    bits as u32
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "addresses have 64 bits, which is checked where the crate begins"
)]
const fn whole(bits: u64) -> usize {
    bits as usize
}

macro_rules! integers {
    ($($t:ident)*) => { $(
        impl AtomicInteger for $t {
            const ONE: Self = 1;

            #[inline]
            fn negated(self) -> Self {
                self.wrapping_neg()
            }
        }
    )* };
}

integers! { u32 i32 u64 i64 usize isize }
