//! The element types of atomics.

use super::Flag;
use crate::Pod;
use crate::backend::AtomicType;

/// A type with remote atomics: integers of 8 to 64 bits, `f32`, `f64`, and [`Flag`] for truth
/// values.
///
/// Sealed: a backend must know how to operate on it.
///
/// # Examples
///
/// ```
/// use pgas_core::atomics::{Atomic, AtomicBits, AtomicInteger, AtomicNumber};
/// use pgas_core::{GlobalPtr, Result, World};
///
/// fn exchange<T: Atomic>(world: &World, cell: GlobalPtr<T>, value: T) -> Result<T> {
///     cell.swap(world, value)
/// }
///
/// fn mark<T: AtomicBits>(world: &World, cell: GlobalPtr<T>, bits: T) -> Result<T> {
///     cell.fetch_or(world, bits)
/// }
///
/// fn raise<T: AtomicNumber>(world: &World, cell: GlobalPtr<T>, value: T) -> Result<T> {
///     cell.fetch_max(world, value)
/// }
///
/// fn count<T: AtomicInteger>(world: &World, cell: GlobalPtr<T>) -> Result<T> {
///     cell.fetch_inc(world)
/// }
///
/// # let world = pgas_core::backend::loopback::world();
/// let cell = world.alloc::<u32>(1)?;
/// let former = [exchange(&world, cell, 4)?, mark(&world, cell, 2)?, raise(&world, cell, 9)?];
/// assert_eq!(former, [0, 4, 6]);
/// assert_eq!((count(&world, cell)?, cell.get(&world)?), (9, 10));
/// assert_eq!(f32::from_bits(Atomic::to_bits(1.5_f32) as u32), 1.5);
/// assert_eq!(<u8 as Atomic>::from_bits(200), 200);
/// # Ok::<(), pgas_core::Error>(())
/// ```
pub trait Atomic: Pod + PartialEq + std::fmt::Debug + sealed::Sealed {
    /// The type's name in calls of a backend.
    const TYPE: AtomicType;
    /// Whether it is a float.
    const IS_FLOAT: bool;
    /// Whether it is a truth value, which has no sum.
    const IS_FLAG: bool = false;
    /// The value's bits, in the low bytes for shorter types.
    fn to_bits(self) -> u64;
    /// The value with these bits.
    fn from_bits(bits: u64) -> Self;
}

/// A type with bitwise atomics: the integers, and [`Flag`].
///
/// # Examples
///
/// See [`Atomic`].
pub trait AtomicBits: Atomic {}

/// A number with remote atomics: an [`AtomicInteger`], `f32` or `f64`.
///
/// # Examples
///
/// See [`Atomic`].
pub trait AtomicNumber: Atomic {
    /// The sum of two numbers, as atomics have it: that of integers wraps around.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::atomics::AtomicNumber;
    ///
    /// assert_eq!((255_u8.plus(3), 3_i64.plus(-5), i16::MAX.plus(1)), (2, -2, i16::MIN));
    /// assert_eq!(0.25_f64.plus(0.5), 0.75);
    /// ```
    #[must_use]
    fn plus(self, other: Self) -> Self;
}

/// An integer with remote atomics, of 8 to 64 bits.
///
/// # Examples
///
/// See [`Atomic`].
pub trait AtomicInteger: AtomicBits + AtomicNumber + Eq + Ord {
    /// One.
    const ONE: Self;
    /// The negative of this number, wrapping around: their sum is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::atomics::AtomicInteger;
    ///
    /// assert_eq!((u8::ONE.negated(), 3_i64.negated(), i16::MIN.negated()), (255, -3, i16::MIN));
    /// ```
    #[must_use]
    fn negated(self) -> Self;
}

#[expect(unnameable_types, reason = "sealed")]
mod sealed {
    pub trait Sealed {}
}

/// Types with atomics: a backend's name for the type, and conversions to and from bits.
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
    u8 U8 false, x: x.into(), bits: lowest(bits);
    i8 I8 false, x: x.cast_unsigned().into(), bits: lowest(bits).cast_signed();
    u16 U16 false, x: x.into(), bits: lower(bits);
    i16 I16 false, x: x.cast_unsigned().into(), bits: lower(bits).cast_signed();
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

impl sealed::Sealed for Flag {}

impl Atomic for Flag {
    const TYPE: AtomicType = AtomicType::U8;
    const IS_FLOAT: bool = false;
    const IS_FLAG: bool = true;

    #[inline]
    fn to_bits(self) -> u64 {
        self.byte().into()
    }

    #[inline]
    fn from_bits(bits: u64) -> Self {
        Self::of_byte(lowest(bits))
    }
}

impl AtomicBits for Flag {}

#[expect(clippy::cast_possible_truncation, reason = "takes the low byte")]
const fn lowest(bits: u64) -> u8 {
    bits as u8
}

#[expect(clippy::cast_possible_truncation, reason = "takes the low bytes")]
const fn lower(bits: u64) -> u16 {
    bits as u16
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "shorter types use the low half"
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
        impl AtomicBits for $t {}

        impl AtomicNumber for $t {
            #[inline]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        }

        impl AtomicInteger for $t {
            const ONE: Self = 1;

            #[inline]
            fn negated(self) -> Self {
                self.wrapping_neg()
            }
        }
    )* };
}

macro_rules! floats {
    ($($t:ident)*) => { $(
        impl AtomicNumber for $t {
            #[inline]
            fn plus(self, other: Self) -> Self {
                self + other
            }
        }
    )* };
}

floats! { f32 f64 }
integers! { u8 i8 u16 i16 u32 i32 u64 i64 usize isize }
