//! Atomics that are begun, by name.

use super::{Atomic, AtomicBits, AtomicInteger};
use crate::backend::AtomicOp;
use crate::{Event, GlobalPtr, Result, World};

/// Methods that begin one operation each. All have the same costs, errors and panics.
macro_rules! begun {
    ($($(#[$doc:meta])* $name:ident($($value:ident)?) -> $out:ty = $by:ident($op:ident, $operand:expr);)*) => {$(
        $(#[$doc])*
        ///
        /// # Cost
        ///
        /// A; no allocation on a direct peer. One-sided. Complete with the event.
        ///
        /// # Errors
        ///
        /// Errors of the transport; then nothing was begun.
        ///
        /// # Panics
        ///
        /// As [`fetch_op`](Self::fetch_op).
        #[inline]
        #[track_caller]
        pub fn $name(self, world: &World $(, $value: T)?) -> Result<Event<$out>> {
            self.$by(world, AtomicOp::$op, $operand)
        }
    )*};
}

/// Atomics that are begun, by name: each has an event, also one without a result.
///
/// # Examples
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
    begun! {
        /// Begins an [`atomic_load`](Self::atomic_load).
        atomic_load_nb() -> T = fetch_op_nb(Load, T::from_bits(0));
        /// Begins an [`atomic_store`](Self::atomic_store).
        atomic_store_nb(value) -> () = atomic_op_nb(Swap, value);
        /// Begins a [`swap`](Self::swap).
        swap_nb(value) -> T = fetch_op_nb(Swap, value);
        /// Begins a [`fetch_add`](Self::fetch_add).
        fetch_add_nb(value) -> T = fetch_op_nb(Add, value);
        /// Begins a [`fetch_min`](Self::fetch_min).
        fetch_min_nb(value) -> T = fetch_op_nb(Min, value);
        /// Begins a [`fetch_max`](Self::fetch_max).
        fetch_max_nb(value) -> T = fetch_op_nb(Max, value);
        /// Begins an [`atomic_add`](Self::atomic_add).
        atomic_add_nb(value) -> () = atomic_op_nb(Add, value);
        /// Begins an [`atomic_min`](Self::atomic_min).
        atomic_min_nb(value) -> () = atomic_op_nb(Min, value);
        /// Begins an [`atomic_max`](Self::atomic_max).
        atomic_max_nb(value) -> () = atomic_op_nb(Max, value);
    }
}

/// Those that only integers have.
///
/// # Examples
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
    begun! {
        /// Begins a [`fetch_sub`](Self::fetch_sub).
        fetch_sub_nb(value) -> T = fetch_op_nb(Add, value.negated());
        /// Begins a [`fetch_inc`](Self::fetch_inc).
        fetch_inc_nb() -> T = fetch_op_nb(Add, T::ONE);
        /// Begins a [`fetch_dec`](Self::fetch_dec).
        fetch_dec_nb() -> T = fetch_op_nb(Add, T::ONE.negated());
        /// Begins an [`atomic_sub`](Self::atomic_sub).
        atomic_sub_nb(value) -> () = atomic_op_nb(Add, value.negated());
        /// Begins an [`atomic_inc`](Self::atomic_inc).
        atomic_inc_nb() -> () = atomic_op_nb(Add, T::ONE);
        /// Begins an [`atomic_dec`](Self::atomic_dec).
        atomic_dec_nb() -> () = atomic_op_nb(Add, T::ONE.negated());
    }
}

/// Those on bits, which integers and a [`Flag`](super::Flag) have.
///
/// # Examples
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
    begun! {
        /// Begins a [`fetch_and`](Self::fetch_and).
        fetch_and_nb(value) -> T = fetch_op_nb(And, value);
        /// Begins a [`fetch_or`](Self::fetch_or).
        fetch_or_nb(value) -> T = fetch_op_nb(Or, value);
        /// Begins a [`fetch_xor`](Self::fetch_xor).
        fetch_xor_nb(value) -> T = fetch_op_nb(Xor, value);
        /// Begins an [`atomic_and`](Self::atomic_and).
        atomic_and_nb(value) -> () = atomic_op_nb(And, value);
        /// Begins an [`atomic_or`](Self::atomic_or).
        atomic_or_nb(value) -> () = atomic_op_nb(Or, value);
        /// Begins an [`atomic_xor`](Self::atomic_xor).
        atomic_xor_nb(value) -> () = atomic_op_nb(Xor, value);
    }
}
