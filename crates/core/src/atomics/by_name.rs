//! Atomics by name: [`GlobalPtr::fetch_op`] and its siblings with one operation each.

use super::{Atomic, AtomicBits, AtomicInteger};
use crate::backend::AtomicOp;
use crate::{Event, GlobalPtr, Result, World};

/// Methods that call `$by` with one operation each. A macro writes their sections on costs, errors
/// and panics, which are the same for all.
macro_rules! by_name {
    (
        $by:ident -> $result:ty, $cost:literal, $errors:literal:
        $($(#[$doc:meta])* $name:ident($($value:ident)?) = $op:ident, $operand:expr;)*
    ) => {$(
        $(#[$doc])*
        ///
        /// # Cost
        ///
        #[doc = $cost]
        ///
        /// # Errors
        ///
        #[doc = $errors]
        ///
        /// # Panics
        ///
        /// As [`fetch_op`](Self::fetch_op).
        #[inline]
        #[track_caller]
        pub fn $name(self, world: &World $(, $value: T)?) -> Result<$result> {
            self.$by(world, AtomicOp::$op, $operand)
        }
    )*};
    // The sections of operations with a result, without one, and begun.
    (fetch_op: $($methods:tt)*) => { by_name! {
        fetch_op -> T, " A. One-sided. Complete at the target on return.",
        " Errors of the transport.":
        $($methods)*
    } };
    (atomic_op: $($methods:tt)*) => { by_name! {
        atomic_op -> (),
        " A. One-sided. Complete at the target after [`flush`](World::flush).",
        " Errors of the transport; then it was not performed.":
        $($methods)*
    } };
    (fetch_op_nb: $($methods:tt)*) => { by_name! {
        fetch_op_nb -> Event<T>,
        " A; no allocation on a direct peer. One-sided. Complete with the event.",
        " Errors of the transport; then nothing was begun.":
        $($methods)*
    } };
    (atomic_op_nb: $($methods:tt)*) => { by_name! {
        atomic_op_nb -> Event<()>,
        " A; no allocation on a direct peer. One-sided. Complete with the event.",
        " Errors of the transport; then nothing was begun.":
        $($methods)*
    } };
}

/// Atomics by name: those with a result, which is the former value; those without one, which a
/// network need not answer; and those that are begun. Each of the last has an event, also one
/// without a result.
///
/// # Examples
///
/// ```
/// # let world = pgas_core::backend::loopback::world();
/// let cells = world.alloc::<i64>(3)?;
/// cells.atomic_add(&world, 5)?;
/// cells.add(1).atomic_sub(&world, 5)?;
/// cells.add(2).atomic_max(&world, 5)?;
/// world.flush_all()?;
/// assert_eq!(cells.get_vec(&world, 3)?, [5, -5, 5]);
/// # Ok::<(), pgas_core::Error>(())
/// ```
///
/// ```
/// # let world = pgas_core::backend::loopback::world();
/// let cells = world.alloc::<u64>(2)?;
/// cells.atomic_store_nb(&world, 5)?.wait()?;
/// let adds: Vec<_> = (0..10).map(|_| cells.fetch_add_nb(&world, 1)).collect(); // all in flight
/// let mut former = adds.into_iter().map(|add| add?.wait()).collect::<Result<Vec<_>, _>>()?;
/// former.sort_unstable(); // they were performed in any order
/// assert!(former.into_iter().eq(5..15));
/// cells.atomic_max_nb(&world, 40)?.wait()?;
/// assert_eq!(cells.atomic_load_nb(&world)?.wait()?, 40);
/// # Ok::<(), pgas_core::Error>(())
/// ```
impl<T: Atomic> GlobalPtr<T> {
    by_name! { fetch_op:
        /// Replaces the value and returns the former one.
        swap(value) = Swap, value;
        /// Adds (integers wrap around) and returns the former value.
        fetch_add(value) = Add, value;
        /// Keeps the smaller value and returns the former one. A number is smaller than NaN.
        fetch_min(value) = Min, value;
        /// Keeps the larger value and returns the former one. A number is larger than NaN.
        fetch_max(value) = Max, value;
    }

    by_name! { atomic_op:
        /// Writes the value atomically.
        atomic_store(value) = Swap, value;
        /// Adds (integers wrap around), without a result.
        atomic_add(value) = Add, value;
        /// Keeps the smaller value, without a result. A number is smaller than NaN.
        atomic_min(value) = Min, value;
        /// Keeps the larger value, without a result. A number is larger than NaN.
        atomic_max(value) = Max, value;
    }

    by_name! { fetch_op_nb:
        /// Begins an [`atomic_load`](Self::atomic_load).
        atomic_load_nb() = Load, T::from_bits(0);
        /// Begins a [`swap`](Self::swap).
        swap_nb(value) = Swap, value;
        /// Begins a [`fetch_add`](Self::fetch_add).
        fetch_add_nb(value) = Add, value;
        /// Begins a [`fetch_min`](Self::fetch_min).
        fetch_min_nb(value) = Min, value;
        /// Begins a [`fetch_max`](Self::fetch_max).
        fetch_max_nb(value) = Max, value;
    }

    by_name! { atomic_op_nb:
        /// Begins an [`atomic_store`](Self::atomic_store).
        atomic_store_nb(value) = Swap, value;
        /// Begins an [`atomic_add`](Self::atomic_add).
        atomic_add_nb(value) = Add, value;
        /// Begins an [`atomic_min`](Self::atomic_min).
        atomic_min_nb(value) = Min, value;
        /// Begins an [`atomic_max`](Self::atomic_max).
        atomic_max_nb(value) = Max, value;
    }
}

/// Atomics by name that only integers have.
///
/// # Examples
///
/// ```
/// # let world = pgas_core::backend::loopback::world();
/// let cells = world.alloc::<u32>(2)?;
/// cells.put_slice(&world, &[6; 2])?;
/// cells.atomic_inc(&world)?;
/// cells.add(1).atomic_dec(&world)?;
/// world.flush_all()?;
/// assert_eq!(cells.get_vec(&world, 2)?, [7, 5]);
/// # Ok::<(), pgas_core::Error>(())
/// ```
///
/// ```
/// # let world = pgas_core::backend::loopback::world();
/// let cell = world.alloc::<i32>(1)?;
/// cell.atomic_inc_nb(&world)?.wait()?;
/// assert_eq!(cell.fetch_sub_nb(&world, 5)?.wait()?, 1);
/// assert_eq!(cell.fetch_dec_nb(&world)?.wait()?, -4);
/// # Ok::<(), pgas_core::Error>(())
/// ```
impl<T: AtomicInteger> GlobalPtr<T> {
    by_name! { fetch_op:
        /// Subtracts, wrapping around, and returns the former value.
        fetch_sub(value) = Add, value.negated();
        /// Adds one, wrapping around, and returns the former value.
        fetch_inc() = Add, T::ONE;
        /// Subtracts one, wrapping around, and returns the former value.
        fetch_dec() = Add, T::ONE.negated();
    }

    by_name! { atomic_op:
        /// Subtracts, wrapping around, without a result.
        atomic_sub(value) = Add, value.negated();
        /// Adds one, wrapping around, without a result.
        atomic_inc() = Add, T::ONE;
        /// Subtracts one, wrapping around, without a result.
        atomic_dec() = Add, T::ONE.negated();
    }

    by_name! { fetch_op_nb:
        /// Begins a [`fetch_sub`](Self::fetch_sub).
        fetch_sub_nb(value) = Add, value.negated();
        /// Begins a [`fetch_inc`](Self::fetch_inc).
        fetch_inc_nb() = Add, T::ONE;
        /// Begins a [`fetch_dec`](Self::fetch_dec).
        fetch_dec_nb() = Add, T::ONE.negated();
    }

    by_name! { atomic_op_nb:
        /// Begins an [`atomic_sub`](Self::atomic_sub).
        atomic_sub_nb(value) = Add, value.negated();
        /// Begins an [`atomic_inc`](Self::atomic_inc).
        atomic_inc_nb() = Add, T::ONE;
        /// Begins an [`atomic_dec`](Self::atomic_dec).
        atomic_dec_nb() = Add, T::ONE.negated();
    }
}

/// Atomics by name on bits, which integers and a [`Flag`](super::Flag) have.
///
/// # Examples
///
/// ```
/// # let world = pgas_core::backend::loopback::world();
/// let cells = world.alloc::<u8>(3)?;
/// cells.put_slice(&world, &[6; 3])?;
/// cells.atomic_and(&world, 3)?;
/// cells.add(1).atomic_or(&world, 1)?;
/// cells.add(2).atomic_xor(&world, 2)?;
/// world.flush_all()?;
/// assert_eq!(cells.get_vec(&world, 3)?, [2, 7, 4]);
/// # Ok::<(), pgas_core::Error>(())
/// ```
///
/// ```
/// # let world = pgas_core::backend::loopback::world();
/// let cell = world.alloc::<u8>(1)?;
/// cell.atomic_or_nb(&world, 0b110)?.wait()?;
/// assert_eq!(cell.fetch_and_nb(&world, 0b011)?.wait()?, 0b110);
/// assert_eq!(cell.fetch_xor_nb(&world, 0b111)?.wait()?, 0b010);
/// # Ok::<(), pgas_core::Error>(())
/// ```
impl<T: AtomicBits> GlobalPtr<T> {
    by_name! { fetch_op:
        /// Bitwise and; returns the former value.
        fetch_and(value) = And, value;
        /// Bitwise or; returns the former value.
        fetch_or(value) = Or, value;
        /// Bitwise exclusive or; returns the former value.
        fetch_xor(value) = Xor, value;
    }

    by_name! { atomic_op:
        /// Bitwise and, without a result.
        atomic_and(value) = And, value;
        /// Bitwise or, without a result.
        atomic_or(value) = Or, value;
        /// Bitwise exclusive or, without a result.
        atomic_xor(value) = Xor, value;
    }

    by_name! { fetch_op_nb:
        /// Begins a [`fetch_and`](Self::fetch_and).
        fetch_and_nb(value) = And, value;
        /// Begins a [`fetch_or`](Self::fetch_or).
        fetch_or_nb(value) = Or, value;
        /// Begins a [`fetch_xor`](Self::fetch_xor).
        fetch_xor_nb(value) = Xor, value;
    }

    by_name! { atomic_op_nb:
        /// Begins an [`atomic_and`](Self::atomic_and).
        atomic_and_nb(value) = And, value;
        /// Begins an [`atomic_or`](Self::atomic_or).
        atomic_or_nb(value) = Or, value;
        /// Begins an [`atomic_xor`](Self::atomic_xor).
        atomic_xor_nb(value) = Xor, value;
    }
}
