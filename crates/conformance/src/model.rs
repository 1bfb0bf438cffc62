//! Sequential models: the results of operations without concurrency, written as plainly as
//! possible.

use pgas_core::atomics::{Atomic, AtomicInteger};
use pgas_core::backend::AtomicOp;
use pgas_core::rma::Strides;

/// A type of atomics, and the meaning of its operations.
pub(crate) trait ModelAtomic: Atomic {
    /// The value of the word after `op` with `operand`, if it was `self` before.
    #[must_use]
    fn after(self, op: AtomicOp, operand: Self) -> Self;

    /// Whether a result may be right although its bits differ: another NaN, another zero.
    #[must_use]
    fn is_like(self, other: Self) -> bool;

    /// Values at which implementations tend to be wrong.
    #[must_use]
    fn edges() -> Vec<Self>;

    /// The operations that the type has, besides compare-and-swap.
    #[must_use]
    fn ops() -> &'static [AtomicOp];
}

const INTEGER_OPS: &[AtomicOp] = &[
    AtomicOp::Load,
    AtomicOp::Swap,
    AtomicOp::Add,
    AtomicOp::And,
    AtomicOp::Or,
    AtomicOp::Xor,
    AtomicOp::Min,
    AtomicOp::Max,
];

const FLOAT_OPS: &[AtomicOp] = &[
    AtomicOp::Load,
    AtomicOp::Swap,
    AtomicOp::Add,
    AtomicOp::Min,
    AtomicOp::Max,
];

macro_rules! integer {
    ($ty:ty) => {
        impl ModelAtomic for $ty {
            fn after(self, op: AtomicOp, operand: Self) -> Self {
                match op {
                    AtomicOp::Load => self,
                    AtomicOp::Swap => operand,
                    AtomicOp::Add => self.wrapping_add(operand),
                    AtomicOp::And => self & operand,
                    AtomicOp::Or => self | operand,
                    AtomicOp::Xor => self ^ operand,
                    AtomicOp::Min => Ord::min(self, operand),
                    AtomicOp::Max => Ord::max(self, operand),
                }
            }

            fn is_like(self, other: Self) -> bool {
                self == other
            }

            fn edges() -> Vec<Self> {
                let one: Self = 1;
                let top = Self::MAX / 2 + 1;
                vec![0, one, one.wrapping_neg(), Self::MIN, Self::MAX, top, 0x55]
            }

            fn ops() -> &'static [AtomicOp] {
                INTEGER_OPS
            }
        }
    };
}
integer!(u8);
integer!(i8);
integer!(u16);
integer!(i16);
integer!(u32);
integer!(i32);
integer!(u64);
integer!(i64);
integer!(usize);
integer!(isize);

macro_rules! float {
    ($ty:ty) => {
        impl ModelAtomic for $ty {
            fn after(self, op: AtomicOp, operand: Self) -> Self {
                match op {
                    AtomicOp::Load => self,
                    AtomicOp::Swap => operand,
                    AtomicOp::Add => self + operand,
                    // A number takes precedence over NaN.
                    AtomicOp::Min if self.is_nan() || operand < self => operand,
                    AtomicOp::Max if self.is_nan() || operand > self => operand,
                    AtomicOp::Min | AtomicOp::Max => self,
                    AtomicOp::And | AtomicOp::Or | AtomicOp::Xor => {
                        unreachable!("not an operation on floats")
                    }
                }
            }

            fn is_like(self, other: Self) -> bool {
                self == other || (self.is_nan() && other.is_nan())
            }

            fn edges() -> Vec<Self> {
                vec![
                    0.0,
                    -0.0,
                    1.5,
                    -2.25,
                    Self::MAX,
                    Self::MIN,
                    Self::MIN_POSITIVE,
                    Self::INFINITY,
                    Self::NEG_INFINITY,
                    Self::NAN,
                ]
            }

            fn ops() -> &'static [AtomicOp] {
                FLOAT_OPS
            }
        }
    };
}
float!(f32);
float!(f64);

/// The integer types.
pub(crate) trait ModelInteger: ModelAtomic + AtomicInteger {}

impl<T: ModelAtomic + AtomicInteger> ModelInteger for T {}

/// The index in global and in local memory of each element of a box. The last dimension runs
/// fastest.
#[must_use]
pub(crate) fn indices<const N: usize>(strides: &Strides<N>) -> Vec<(usize, usize)> {
    let mut all = vec![(0, 0)];
    for dim in 0..N {
        let mut finer = Vec::new();
        for (global, local) in all {
            for i in 0..strides.extents[dim] {
                finer.push((
                    global + i * strides.global[dim],
                    local + i * strides.local[dim],
                ));
            }
        }
        all = finer;
    }
    all
}
