//! The element types of atomics.

use crate::Pod;
use crate::backend::AtomicType;

/// A type with remote atomics: `u32`, `i32`, `u64`, `i64`, `f32`, `f64`.
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

/// An integer with remote atomics: `u32`, `i32`, `u64`, `i64`.
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
    impl Sealed for u32 {}
    impl Sealed for i32 {}
    impl Sealed for u64 {}
    impl Sealed for i64 {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "four-byte types use the low half"
)]
const fn low(bits: u64) -> u32 {
    bits as u32
}

impl Atomic for u32 {
    const TYPE: AtomicType = AtomicType::U32;
    const IS_FLOAT: bool = false;
    #[inline]
    fn to_bits(self) -> u64 {
        self.into()
    }
    #[inline]
    fn from_bits(bits: u64) -> Self {
        low(bits)
    }
}

impl Atomic for i32 {
    const TYPE: AtomicType = AtomicType::I32;
    const IS_FLOAT: bool = false;
    #[inline]
    fn to_bits(self) -> u64 {
        self.cast_unsigned().into()
    }
    #[inline]
    fn from_bits(bits: u64) -> Self {
        low(bits).cast_signed()
    }
}

impl Atomic for u64 {
    const TYPE: AtomicType = AtomicType::U64;
    const IS_FLOAT: bool = false;
    #[inline]
    fn to_bits(self) -> u64 {
        self
    }
    #[inline]
    fn from_bits(bits: u64) -> Self {
        bits
    }
}

impl Atomic for i64 {
    const TYPE: AtomicType = AtomicType::I64;
    const IS_FLOAT: bool = false;
    #[inline]
    fn to_bits(self) -> u64 {
        self.cast_unsigned()
    }
    #[inline]
    fn from_bits(bits: u64) -> Self {
        bits.cast_signed()
    }
}

impl Atomic for f32 {
    const TYPE: AtomicType = AtomicType::F32;
    const IS_FLOAT: bool = true;
    #[inline]
    fn to_bits(self) -> u64 {
        Self::to_bits(self).into()
    }
    #[inline]
    fn from_bits(bits: u64) -> Self {
        Self::from_bits(low(bits))
    }
}

impl Atomic for f64 {
    const TYPE: AtomicType = AtomicType::F64;
    const IS_FLOAT: bool = true;
    #[inline]
    fn to_bits(self) -> u64 {
        Self::to_bits(self)
    }
    #[inline]
    fn from_bits(bits: u64) -> Self {
        Self::from_bits(bits)
    }
}

impl AtomicInteger for u32 {
    const ONE: Self = 1;
    #[inline]
    fn negated(self) -> Self {
        self.wrapping_neg()
    }
}

impl AtomicInteger for i32 {
    const ONE: Self = 1;
    #[inline]
    fn negated(self) -> Self {
        self.wrapping_neg()
    }
}

impl AtomicInteger for u64 {
    const ONE: Self = 1;
    #[inline]
    fn negated(self) -> Self {
        self.wrapping_neg()
    }
}

impl AtomicInteger for i64 {
    const ONE: Self = 1;
    #[inline]
    fn negated(self) -> Self {
        self.wrapping_neg()
    }
}
