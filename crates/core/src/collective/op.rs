//! The operators of reductions and scans.

use std::fmt;

use super::OpKind;
use crate::raw::word::{greater, lesser};

/// An associative operator: `combine(combine(a, b), c)` equals `combine(a, combine(b, c))`.
///
/// It need not be commutative: it is applied to the values of neighbours, in the order of a team's
/// members. It must give the same result on every rank. Closures `Fn(T, T) -> T` are operators
/// (their arguments' types must be written out), and so are [`Sum`], [`Product`], [`Min`], [`Max`],
/// [`BitAnd`], [`BitOr`], [`BitXor`], [`And`] and [`Or`].
///
/// It runs as handlers do: a wait in it returns [`Error::InHandler`](crate::Error::InHandler). If
/// it panics the job fails, even if the program catches the panic, since the others would wait for
/// this rank for ever.
///
/// # Examples
///
/// ```
/// use pgas_core::collective::{ReduceOp, op};
///
/// assert_eq!(op::Sum.combine(40, 2), 42);
/// assert_eq!((|a: u64, b: u64| a.max(b)).combine(40, 2), 40);
/// assert_eq!((op::BitAnd.combine(6, 3), op::BitOr.combine(6, 3)), (2, 7));
/// assert_eq!((op::BitXor.combine(6, 3), op::And.combine(6, 0)), (5, 0));
/// assert_eq!((op::Sum.alone(5), op::Or.alone(5)), (5, 1));
/// assert!(ReduceOp::<u64>::kind(&op::Sum).is_some()); // a transport may have its own sum
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no operator on `{T}`",
    note = "use one of `pgas_core::collective::op`, or a closure `|a: T, b: T| ...` with its types \
            written out"
)]
pub trait ReduceOp<T> {
    /// Combines the value of some members, `before`, with that of the members after them, `after`.
    fn combine(&self, before: T, after: T) -> T;

    /// The combination of `value` alone, such as on a team of one: `value` itself, but 0 or 1 for
    /// [`And`] and [`Or`]. Every value is replaced by it before it is combined with others.
    fn alone(&self, value: T) -> T {
        value
    }

    /// The built-in operator that this is; `None` for an operator of the program's own.
    fn kind(&self) -> Option<OpKind> {
        None
    }
}

impl<T, F: Fn(T, T) -> T> ReduceOp<T> for F {
    #[inline]
    fn combine(&self, before: T, after: T) -> T {
        self(before, after)
    }
}

/// Adds; integers wrap around.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum;
/// Multiplies; integers wrap around.
#[derive(Clone, Copy, Debug, Default)]
pub struct Product;
/// The smaller value; for floats a number is smaller than NaN, as for atomics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Min;
/// The larger value; for floats a number is larger than NaN, as for atomics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Max;
/// Bitwise and.
#[derive(Clone, Copy, Debug, Default)]
pub struct BitAnd;
/// Bitwise or.
#[derive(Clone, Copy, Debug, Default)]
pub struct BitOr;
/// Bitwise exclusive or.
#[derive(Clone, Copy, Debug, Default)]
pub struct BitXor;
/// 1 if both values are other than 0, else 0; of a `bool`, whether both are `true`.
///
/// A `bool` is no element of global memory, since not every byte is one. It goes by the
/// collectives over values: `world.allreduce_values(is_done, op::And)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct And;
/// 1 if one of the values is other than 0, else 0; of a `bool`, whether one is `true`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Or;

/// A number that [`Sum`], [`Product`], [`Min`] and [`Max`] combine: the primitive integers and
/// floats.
///
/// # Examples
///
/// ```
/// use pgas_core::collective::op::Number;
///
/// assert_eq!((250_u8.sum(10), 16_u8.product(17)), (4, 16));
/// assert_eq!((2.5_f64.smaller(1.0), 2.5_f64.larger(f64::NAN)), (1.0, 2.5));
/// ```
pub trait Number: Copy + fmt::Debug + sealed::Sealed {
    /// `self + other`, wrapping around.
    #[must_use]
    fn sum(self, other: Self) -> Self;
    /// `self * other`, wrapping around.
    #[must_use]
    fn product(self, other: Self) -> Self;
    /// The smaller one.
    #[must_use]
    fn smaller(self, other: Self) -> Self;
    /// The larger one.
    #[must_use]
    fn larger(self, other: Self) -> Self;
}

/// A number that [`BitAnd`], [`BitOr`], [`BitXor`], [`And`] and [`Or`] combine: the primitive
/// integers.
///
/// # Examples
///
/// ```
/// use pgas_core::collective::op::{BitOr, Integer};
/// use pgas_core::{Result, World};
///
/// /// The flags that some rank has.
/// fn of_any<T: Integer + pgas_core::Pod>(world: &World, flags: T) -> Result<T> {
///     world.allreduce(flags, BitOr)
/// }
///
/// # let world = pgas_core::backend::loopback::world();
/// assert_eq!(of_any(&world, 0b101_u8)?, 0b101);
/// # Ok::<(), pgas_core::Error>(())
/// ```
pub trait Integer:
    Number
    + std::ops::BitAnd<Output = Self>
    + std::ops::BitOr<Output = Self>
    + std::ops::BitXor<Output = Self>
    + From<bool>
    + PartialEq
{
}

#[expect(unnameable_types, reason = "sealed")]
mod sealed {
    pub trait Sealed {}
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Integer for $ty {}
        impl Number for $ty {
            #[inline]
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline]
            fn product(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline]
            fn smaller(self, other: Self) -> Self {
                self.min(other)
            }
            #[inline]
            fn larger(self, other: Self) -> Self {
                self.max(other)
            }
        }
    )*};
}

macro_rules! floats {
    ($($ty:ty)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Number for $ty {
            #[inline]
            fn sum(self, other: Self) -> Self {
                self + other
            }
            #[inline]
            fn product(self, other: Self) -> Self {
                self * other
            }
            #[inline]
            fn smaller(self, other: Self) -> Self {
                lesser(self, other)
            }
            #[inline]
            fn larger(self, other: Self) -> Self {
                greater(self, other)
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);
floats!(f32 f64);

impl<T: Number> ReduceOp<T> for Sum {
    #[inline]
    fn combine(&self, before: T, after: T) -> T {
        before.sum(after)
    }
    fn kind(&self) -> Option<OpKind> {
        Some(OpKind::Sum)
    }
}

impl<T: Number> ReduceOp<T> for Product {
    #[inline]
    fn combine(&self, before: T, after: T) -> T {
        before.product(after)
    }
    fn kind(&self) -> Option<OpKind> {
        Some(OpKind::Product)
    }
}

impl<T: Number> ReduceOp<T> for Min {
    #[inline]
    fn combine(&self, before: T, after: T) -> T {
        before.smaller(after)
    }
    fn kind(&self) -> Option<OpKind> {
        Some(OpKind::Min)
    }
}

impl<T: Number> ReduceOp<T> for Max {
    #[inline]
    fn combine(&self, before: T, after: T) -> T {
        before.larger(after)
    }
    fn kind(&self) -> Option<OpKind> {
        Some(OpKind::Max)
    }
}

impl<T: Integer> ReduceOp<T> for BitAnd {
    #[inline]
    fn combine(&self, before: T, after: T) -> T {
        before & after
    }
    fn kind(&self) -> Option<OpKind> {
        Some(OpKind::BitAnd)
    }
}

impl<T: Integer> ReduceOp<T> for BitOr {
    #[inline]
    fn combine(&self, before: T, after: T) -> T {
        before | after
    }
    fn kind(&self) -> Option<OpKind> {
        Some(OpKind::BitOr)
    }
}

impl<T: Integer> ReduceOp<T> for BitXor {
    #[inline]
    fn combine(&self, before: T, after: T) -> T {
        before ^ after
    }
    fn kind(&self) -> Option<OpKind> {
        Some(OpKind::BitXor)
    }
}

impl<T: Integer> ReduceOp<T> for And {
    #[inline]
    fn combine(&self, before: T, after: T) -> T {
        let no = T::from(false);
        T::from(before != no && after != no)
    }
    #[inline]
    fn alone(&self, value: T) -> T {
        T::from(value != T::from(false))
    }
    fn kind(&self) -> Option<OpKind> {
        Some(OpKind::And)
    }
}

impl<T: Integer> ReduceOp<T> for Or {
    #[inline]
    fn combine(&self, before: T, after: T) -> T {
        let no = T::from(false);
        T::from(before != no || after != no)
    }
    #[inline]
    fn alone(&self, value: T) -> T {
        T::from(value != T::from(false))
    }
    fn kind(&self) -> Option<OpKind> {
        Some(OpKind::Or)
    }
}

impl ReduceOp<bool> for And {
    #[inline]
    fn combine(&self, before: bool, after: bool) -> bool {
        before && after
    }
}

impl ReduceOp<bool> for Or {
    #[inline]
    fn combine(&self, before: bool, after: bool) -> bool {
        before || after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply<T>(op: &impl ReduceOp<T>, a: T, b: T) -> T {
        op.combine(a, b)
    }

    #[test]
    fn integers_wrap_around_in_sums_and_products() {
        assert_eq!(apply(&Sum, u8::MAX, 2), 1);
        assert_eq!(apply(&Product, i64::MAX, 2), -2);
    }

    #[test]
    fn a_number_wins_over_nan() {
        assert_eq!(apply(&Min, f64::NAN, 1.0).to_bits(), 1.0_f64.to_bits());
        assert_eq!(apply(&Max, 1.0, f32::NAN).to_bits(), 1.0_f32.to_bits());
        assert!(apply(&Sum, 1.0, f64::NAN).is_nan());
    }

    /// On some processors the standard library's `min` and `max` return NaN.
    #[test]
    fn a_number_wins_over_a_signaling_nan() {
        let nan = f64::from_bits(0x7ff0_0000_0000_0001);
        let all = [
            nan.smaller(1.0),
            1.0.smaller(nan),
            nan.larger(1.0),
            1.0.larger(nan),
        ];
        assert!(all.iter().all(|bits| bits.to_bits() == 1.0_f64.to_bits()));
        let nan = f32::from_bits(0x7f80_0001);
        let all = [
            nan.smaller(1.0),
            1.0.smaller(nan),
            nan.larger(1.0),
            1.0.larger(nan),
        ];
        assert!(all.iter().all(|bits| bits.to_bits() == 1.0_f32.to_bits()));
    }

    #[test]
    fn bits_and_truth_are_different_things() {
        assert_eq!(apply(&BitAnd, 0b0110_u8, 0b1001), 0);
        assert_eq!(apply(&And, 0b0110_u8, 0b1001), 1);
        assert_eq!(apply(&BitOr, 4_i32, 2), 6);
        assert_eq!(apply(&Or, 4_i32, 2), 1);
        assert_eq!(apply(&Or, 0_i32, 0), 0);
        assert!(apply(&And, true, true) && !apply(&And, true, false));
        assert!(apply(&Or, false, true) && !apply(&Or, false, false));
        assert_eq!(apply(&BitXor, 6_u128, 3), 5);
    }

    #[test]
    fn operators_of_ones_own_have_no_kind() {
        assert_eq!(ReduceOp::<u64>::kind(&Max), Some(OpKind::Max));
        assert_eq!((|a: u64, _: u64| a).kind(), None);
    }
}
