//! Atomics without a result, by name.

use super::{Atomic, AtomicBits, AtomicInteger};
use crate::backend::AtomicOp;
use crate::{GlobalPtr, Result, World};

/// Atomics without a result, which a network need not answer.
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
impl<T: Atomic> GlobalPtr<T> {
    /// Adds (integers wrap around), without a result.
    ///
    /// # Cost
    ///
    /// A. One-sided. Complete at the target after [`flush`](World::flush).
    ///
    /// # Errors
    ///
    /// Errors of the transport; then it was not performed.
    ///
    /// # Panics
    ///
    /// As [`fetch_op`](Self::fetch_op).
    #[inline]
    #[track_caller]
    pub fn atomic_add(self, world: &World, value: T) -> Result<()> {
        self.atomic_op(world, AtomicOp::Add, value)
    }

    /// Keeps the smaller value, without a result. A number is smaller than NaN.
    ///
    /// # Cost
    ///
    /// A. One-sided. Complete at the target after [`flush`](World::flush).
    ///
    /// # Errors
    ///
    /// Errors of the transport; then it was not performed.
    ///
    /// # Panics
    ///
    /// As [`fetch_op`](Self::fetch_op).
    #[inline]
    #[track_caller]
    pub fn atomic_min(self, world: &World, value: T) -> Result<()> {
        self.atomic_op(world, AtomicOp::Min, value)
    }

    /// Keeps the larger value, without a result. A number is larger than NaN.
    ///
    /// # Cost
    ///
    /// A. One-sided. Complete at the target after [`flush`](World::flush).
    ///
    /// # Errors
    ///
    /// Errors of the transport; then it was not performed.
    ///
    /// # Panics
    ///
    /// As [`fetch_op`](Self::fetch_op).
    #[inline]
    #[track_caller]
    pub fn atomic_max(self, world: &World, value: T) -> Result<()> {
        self.atomic_op(world, AtomicOp::Max, value)
    }
}

/// Atomics without a result that only integers have.
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
impl<T: AtomicInteger> GlobalPtr<T> {
    /// Subtracts, wrapping around, without a result.
    ///
    /// # Cost
    ///
    /// A. One-sided. Complete at the target after [`flush`](World::flush).
    ///
    /// # Errors
    ///
    /// Errors of the transport; then it was not performed.
    ///
    /// # Panics
    ///
    /// As [`fetch_op`](Self::fetch_op).
    #[inline]
    #[track_caller]
    pub fn atomic_sub(self, world: &World, value: T) -> Result<()> {
        self.atomic_op(world, AtomicOp::Add, value.negated())
    }

    /// Adds one, wrapping around, without a result.
    ///
    /// # Cost
    ///
    /// A. One-sided. Complete at the target after [`flush`](World::flush).
    ///
    /// # Errors
    ///
    /// Errors of the transport; then it was not performed.
    ///
    /// # Panics
    ///
    /// As [`fetch_op`](Self::fetch_op).
    #[inline]
    #[track_caller]
    pub fn atomic_inc(self, world: &World) -> Result<()> {
        self.atomic_op(world, AtomicOp::Add, T::ONE)
    }

    /// Subtracts one, wrapping around, without a result.
    ///
    /// # Cost
    ///
    /// A. One-sided. Complete at the target after [`flush`](World::flush).
    ///
    /// # Errors
    ///
    /// Errors of the transport; then it was not performed.
    ///
    /// # Panics
    ///
    /// As [`fetch_op`](Self::fetch_op).
    #[inline]
    #[track_caller]
    pub fn atomic_dec(self, world: &World) -> Result<()> {
        self.atomic_op(world, AtomicOp::Add, T::ONE.negated())
    }
}

/// Operations on bits without a result.
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
impl<T: AtomicBits> GlobalPtr<T> {
    /// Bitwise and, without a result.
    ///
    /// # Cost
    ///
    /// A. One-sided. Complete at the target after [`flush`](World::flush).
    ///
    /// # Errors
    ///
    /// Errors of the transport; then it was not performed.
    ///
    /// # Panics
    ///
    /// As [`fetch_op`](Self::fetch_op).
    #[inline]
    #[track_caller]
    pub fn atomic_and(self, world: &World, value: T) -> Result<()> {
        self.atomic_op(world, AtomicOp::And, value)
    }

    /// Bitwise or, without a result.
    ///
    /// # Cost
    ///
    /// A. One-sided. Complete at the target after [`flush`](World::flush).
    ///
    /// # Errors
    ///
    /// Errors of the transport; then it was not performed.
    ///
    /// # Panics
    ///
    /// As [`fetch_op`](Self::fetch_op).
    #[inline]
    #[track_caller]
    pub fn atomic_or(self, world: &World, value: T) -> Result<()> {
        self.atomic_op(world, AtomicOp::Or, value)
    }

    /// Bitwise exclusive or, without a result.
    ///
    /// # Cost
    ///
    /// A. One-sided. Complete at the target after [`flush`](World::flush).
    ///
    /// # Errors
    ///
    /// Errors of the transport; then it was not performed.
    ///
    /// # Panics
    ///
    /// As [`fetch_op`](Self::fetch_op).
    #[inline]
    #[track_caller]
    pub fn atomic_xor(self, world: &World, value: T) -> Result<()> {
        self.atomic_op(world, AtomicOp::Xor, value)
    }
}
