//! Atomics with a stated set of operations.

use std::marker::PhantomData;
use std::ops::BitOr;

use super::Atomic;
use crate::backend::AtomicOp;
use crate::{Event, GlobalPtr, Result, World};

/// A set of [`AtomicOp`]s, and whether compare-and-swap belongs to it.
///
/// # Examples
///
/// ```
/// use pgas_core::atomics::AtomicOps;
/// use pgas_core::backend::AtomicOp;
///
/// let ops = AtomicOps::from(AtomicOp::Add) | AtomicOps::COMPARE_SWAP;
/// assert!(ops.contains(AtomicOp::Add.into()) && !ops.contains(AtomicOps::ALL));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicOps(u16);

impl AtomicOps {
    /// Compare-and-swap.
    pub const COMPARE_SWAP: Self = Self(1 << 15);
    /// Every operation.
    pub const ALL: Self = Self(u16::MAX);

    /// Whether all of `other` belongs to the set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl From<AtomicOp> for AtomicOps {
    fn from(op: AtomicOp) -> Self {
        Self(1 << op as u16)
    }
}

impl BitOr for AtomicOps {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Atomics on words of type `T` with a stated set of operations (GASNet-EX and UPC++
/// `atomic_domain`).
///
/// Elsewhere the set decides who executes the atomics of a domain. Here the world has one executor
/// for all atomics, so domains may share words with each other and with the plain methods of
/// [`GlobalPtr`]. An operation outside of the set panics. So a domain documents, and checks, which
/// operations a program performs on its words.
///
/// # Examples
///
/// ```
/// use pgas_core::atomics::{AtomicDomain, AtomicOps};
/// use pgas_core::backend::AtomicOp;
/// # let world = pgas_core::backend::loopback::world();
/// let ops = AtomicOps::from(AtomicOp::Add) | AtomicOp::Load.into() | AtomicOps::COMPARE_SWAP;
/// let counters = AtomicDomain::<u64>::new(&world, ops);
/// assert_eq!(counters.ops(), ops);
/// let cell = world.alloc::<u64>(1)?;
/// assert_eq!(counters.fetch_op(cell, AtomicOp::Add, 5)?, 0);
/// counters.atomic_op(cell, AtomicOp::Add, 2)?; // complete with a flush
/// world.flush(cell.rank())?;
/// assert_eq!(counters.fetch_op_nb(cell, AtomicOp::Load, 0)?.wait()?, 7);
/// counters.atomic_op_nb(cell, AtomicOp::Add, 0)?.wait()?; // complete with its event
/// assert_eq!(counters.compare_exchange(cell, 7, 1)?, Ok(7));
/// assert_eq!(counters.compare_exchange_nb(cell, 7, 2)?.wait()?, Err(1));
/// # Ok::<(), pgas_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AtomicDomain<T> {
    world: World,
    ops: AtomicOps,
    element: PhantomData<fn() -> T>,
}

impl<T: Atomic> AtomicDomain<T> {
    /// The domain of `ops` on words of type `T`.
    ///
    /// # Cost
    ///
    /// ℓ. Not collective.
    #[must_use]
    pub fn new(world: &World, ops: AtomicOps) -> Self {
        Self {
            world: world.clone(),
            ops,
            element: PhantomData,
        }
    }

    /// The operations of the domain.
    #[must_use]
    pub fn ops(&self) -> AtomicOps {
        self.ops
    }

    /// As [`GlobalPtr::fetch_op`].
    ///
    /// # Cost
    ///
    /// A. One-sided. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// If `op` is not in the domain's set; as [`GlobalPtr::fetch_op`].
    #[inline]
    #[track_caller]
    pub fn fetch_op(&self, ptr: GlobalPtr<T>, op: AtomicOp, operand: T) -> Result<T> {
        self.check(op.into());
        ptr.fetch_op(&self.world, op, operand)
    }

    /// As [`GlobalPtr::atomic_op`].
    ///
    /// # Cost
    ///
    /// A. One-sided. Complete at the target after [`flush`](World::flush).
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// If `op` is not in the domain's set; as [`GlobalPtr::fetch_op`].
    #[inline]
    #[track_caller]
    pub fn atomic_op(&self, ptr: GlobalPtr<T>, op: AtomicOp, operand: T) -> Result<()> {
        self.check(op.into());
        ptr.atomic_op(&self.world, op, operand)
    }

    /// As [`GlobalPtr::fetch_op_nb`].
    ///
    /// # Cost
    ///
    /// A. One-sided. Complete with the event.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// If `op` is not in the domain's set; as [`GlobalPtr::fetch_op`].
    #[inline]
    #[track_caller]
    pub fn fetch_op_nb(&self, ptr: GlobalPtr<T>, op: AtomicOp, operand: T) -> Result<Event<T>> {
        self.check(op.into());
        ptr.fetch_op_nb(&self.world, op, operand)
    }

    /// As [`GlobalPtr::atomic_op_nb`].
    ///
    /// # Cost
    ///
    /// A. One-sided. Complete with the event.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// If `op` is not in the domain's set; as [`GlobalPtr::fetch_op`].
    #[inline]
    #[track_caller]
    pub fn atomic_op_nb(&self, ptr: GlobalPtr<T>, op: AtomicOp, operand: T) -> Result<Event<()>> {
        self.check(op.into());
        ptr.atomic_op_nb(&self.world, op, operand)
    }

    /// As [`GlobalPtr::compare_exchange`].
    ///
    /// # Cost
    ///
    /// A. One-sided. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// If compare-and-swap is not in the domain's set; as [`GlobalPtr::compare_exchange`].
    #[inline]
    #[track_caller]
    pub fn compare_exchange(&self, ptr: GlobalPtr<T>, current: T, new: T) -> Result<Result<T, T>> {
        self.check(AtomicOps::COMPARE_SWAP);
        ptr.compare_exchange(&self.world, current, new)
    }

    /// As [`GlobalPtr::compare_exchange_nb`].
    ///
    /// # Cost
    ///
    /// A. One-sided. Complete with the event.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// If compare-and-swap is not in the domain's set; as [`GlobalPtr::compare_exchange`].
    #[inline]
    #[track_caller]
    pub fn compare_exchange_nb(
        &self,
        ptr: GlobalPtr<T>,
        current: T,
        new: T,
    ) -> Result<Event<Result<T, T>>> {
        self.check(AtomicOps::COMPARE_SWAP);
        ptr.compare_exchange_nb(&self.world, current, new)
    }

    #[inline]
    #[track_caller]
    fn check(&self, op: AtomicOps) {
        assert!(
            self.ops.contains(op),
            "an operation outside of the atomic domain's set {:?}",
            self.ops
        );
    }
}
