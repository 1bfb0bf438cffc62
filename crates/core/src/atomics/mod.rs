//! Remote atomics on integers, floats and truth values.
//!
//! All operations on one word are atomic with respect to each other, whatever their kind. On
//! directly mapped memory they are CPU atomics. A word must never have two kinds of executors. So
//! if the network's atomics are not coherent with those, every atomic of the job goes through the
//! backend, even those on a rank's own words ([`World::has_direct_atomics`] tells).
//!
//! Integers of 8 and 16 bits, and a [`Flag`], change by compare-and-swap of the aligned four bytes
//! around them, by the same executor. So they are atomic also with respect to atomics on their
//! neighbours and on the whole word. A plain put to one of these four bytes is not ordered with them.
//! Where a network executes the atomics ([`World::has_direct_atomics`] is false), it may be lost if
//! an atomic on another of the bytes is performed meanwhile.
//!
//! Elements of 16 bytes have a compare-and-swap of their own, which the crate `pgas-am` has: their
//! owner performs it where their memory is not mapped, since networks have none.
//!
//! An atomic with a result is complete when it returns, and orders memory accesses: a rank that
//! sees its effect also sees what the rank that performed it had flushed before. An atomic without
//! a result is complete after a flush.

mod by_name;
mod domain;
mod flag;
mod types;
mod wide;

pub use domain::{AtomicDomain, AtomicOps};
pub use flag::Flag;
pub use types::{Atomic, AtomicBits, AtomicInteger, AtomicNumber};
pub use wide::has_wide_atomics;

use crate::backend::{AtomicCall, AtomicOp, SwapCall};
use crate::cost::CostKind;
use crate::{Event, GlobalPtr, Result, World};

impl<T: Atomic> GlobalPtr<T> {
    /// Performs `op` with `operand` and returns the former value.
    ///
    /// # Cost
    ///
    /// A. One-sided. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then it was not performed. After [`Error::Timeout`](crate::Error)
    /// it may be performed later, so the job fails, too.
    ///
    /// # Panics
    ///
    /// If the pointer is null, misaligned or outside of a segment; if `op` is bitwise and `T` a
    /// float, or `op` is [`AtomicOp::Add`] and `T` a [`Flag`].
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "op is a constant in most callers")]
    #[track_caller]
    pub fn fetch_op(self, world: &World, op: AtomicOp, operand: T) -> Result<T> {
        if let Some(place) = world.direct_word(self) {
            return Ok(T::from_bits(place.fetch(call(op, operand))));
        }
        self.fetch_op_indirectly(world, op, operand)
    }

    /// The slow path: panics for a bad pointer, counts the atomic, or passes it to the backend.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn fetch_op_indirectly(self, world: &World, op: AtomicOp, operand: T) -> Result<T> {
        if let Some(place) = world.counted_word(self) {
            return Ok(T::from_bits(place.fetch(call(op, operand))));
        }
        let word = world.checked(self, 1);
        world.count(CostKind::Atomic, Some(word.rank()), 1, size_of::<T>());
        Ok(T::from_bits(word.fetch(world, call(op, operand))?))
    }

    /// Performs `op` with `operand`, without a result.
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
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "op is a constant in most callers")]
    #[track_caller]
    pub fn atomic_op(self, world: &World, op: AtomicOp, operand: T) -> Result<()> {
        let word = world.checked(self, 1);
        if world.words().base(word.rank()).is_some() {
            return self.fetch_op(world, op, operand).map(|_| ());
        }
        world.count(CostKind::Atomic, Some(word.rank()), 1, size_of::<T>());
        world.backend().atomic(word.atomic(call(op, operand)))
    }

    /// Begins an atomic whose event gives the former value.
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
    pub fn fetch_op_nb(self, world: &World, op: AtomicOp, operand: T) -> Result<Event<T>> {
        let word = world.checked(self, 1);
        if world.words().base(word.rank()).is_some() {
            return self.fetch_op(world, op, operand).map(Event::ready);
        }
        world.count(CostKind::Atomic, Some(word.rank()), 1, size_of::<T>());
        let atomic = word.atomic(call(op, operand));
        let begin = |former| world.backend().fetch_atomic_nb(atomic, former);
        let event = world.begin_atomic(0, begin, |[former, _]| T::from_bits(former))?;
        Ok(if op == AtomicOp::Load {
            event
        } else {
            event.of_change()
        })
    }

    /// Begins an atomic without a result. Its event is complete when the word is changed at the
    /// target, as after a [`flush`](World::flush).
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
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::backend::AtomicOp;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let cell = world.alloc::<u64>(1)?;
    /// let add = cell.atomic_op_nb(&world, AtomicOp::Add, 7)?;
    /// add.wait()?; // changed at the target, without a flush
    /// assert_eq!(cell.fetch_op_nb(&world, AtomicOp::Add, 1)?.wait()?, 7);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn atomic_op_nb(self, world: &World, op: AtomicOp, operand: T) -> Result<Event<()>> {
        let word = world.checked(self, 1);
        if world.words().base(word.rank()).is_some() {
            return self.fetch_op(world, op, operand).map(|_| Event::ready(()));
        }
        world.count(CostKind::Atomic, Some(word.rank()), 1, size_of::<T>());
        let atomic = word.atomic(call(op, operand));
        // Only an answer tells that the word is changed, and a flush would wait for all others.
        let begin = |former| world.backend().fetch_atomic_nb(atomic, former);
        let event = world.begin_atomic(0, begin, |_| ())?;
        Ok(event.of_change())
    }

    /// Replaces the value by `new` if it equals `current`. The inner result has the former value:
    /// `Ok` if it was replaced, else `Err`. Floats are compared by their bits.
    ///
    /// # Cost
    ///
    /// A. One-sided. Complete at the target on return.
    ///
    /// # Errors
    ///
    /// Errors of the transport (the outer result); then it was not replaced. After a time limit as
    /// [`fetch_op`](Self::fetch_op).
    ///
    /// # Panics
    ///
    /// As [`fetch_op`](Self::fetch_op).
    #[inline]
    #[track_caller]
    pub fn compare_exchange(self, world: &World, current: T, new: T) -> Result<Result<T, T>> {
        let call = swap_call(current, new);
        let swapped = if let Some(place) = world.direct_word(self) {
            place.compare_swap(call)
        } else {
            let former = self.compare_swap_indirectly(world, call)?;
            if former == call.expected {
                Ok(former)
            } else {
                Err(former)
            }
        };
        Ok(swapped.map(T::from_bits).map_err(T::from_bits))
    }

    /// The slow path: panics for a bad pointer, counts the swap, or passes it to the backend.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn compare_swap_indirectly(self, world: &World, call: SwapCall) -> Result<u64> {
        let word = world.checked(self, 1);
        world.count(CostKind::Atomic, Some(word.rank()), 1, size_of::<T>());
        match word.words(world) {
            Some(place) => Ok(place.compare_swap(call).unwrap_or_else(|former| former)),
            None => world.backend().compare_swap(word.atomic(call)),
        }
    }

    /// Begins a [`compare_exchange`](Self::compare_exchange).
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
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let cell = world.alloc::<u64>(1)?;
    /// assert_eq!(cell.compare_exchange_nb(&world, 0, 7)?.wait()?, Ok(0));
    /// assert_eq!(cell.compare_exchange_nb(&world, 0, 9)?.wait()?, Err(7));
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn compare_exchange_nb(
        self,
        world: &World,
        current: T,
        new: T,
    ) -> Result<Event<Result<T, T>>> {
        let word = world.checked(self, 1);
        if world.words().base(word.rank()).is_some() {
            return self.compare_exchange(world, current, new).map(Event::ready);
        }
        world.count(CostKind::Atomic, Some(word.rank()), 1, size_of::<T>());
        let call = swap_call(current, new);
        let swap = word.atomic(call);
        let begin = |former| world.backend().compare_swap_nb(swap, former);
        let event = world.begin_atomic(call.expected, begin, |[former, expected]| {
            let value = T::from_bits(former);
            if former == expected {
                Ok(value)
            } else {
                Err(value)
            }
        })?;
        Ok(event.of_change())
    }

    /// Reads the value atomically.
    ///
    /// A loop that reads a word of this rank until another rank changes it must make
    /// [`progress`](World::progress), as [`wait_for`](World::wait_for) does: over a network others
    /// may need it to reach the word.
    ///
    /// # Cost
    ///
    /// A. One-sided.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// As [`fetch_op`](Self::fetch_op).
    #[inline]
    #[track_caller]
    pub fn atomic_load(self, world: &World) -> Result<T> {
        self.fetch_op(world, AtomicOp::Load, T::from_bits(0))
    }

    /// As [`atomic_load`](Self::atomic_load), for a wait that looks at a word of this rank again and
    /// again: only its first look counts.
    #[inline]
    #[track_caller]
    pub(crate) fn look(self, world: &World, is_first: bool) -> Result<T> {
        if is_first {
            return self.atomic_load(world);
        }
        let load = call(AtomicOp::Load, T::from_bits(0));
        if let Some(place) = world.uncounted_word(self) {
            return Ok(T::from_bits(place.fetch(load)));
        }
        let word = world.checked(self, 1);
        Ok(T::from_bits(word.fetch(world, load)?))
    }
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "the check is on constants")]
#[track_caller]
pub(crate) fn call<T: Atomic>(op: AtomicOp, operand: T) -> AtomicCall {
    assert!(
        !(T::IS_FLOAT && matches!(op, AtomicOp::And | AtomicOp::Or | AtomicOp::Xor)),
        "{op:?} is not an operation on floats"
    );
    assert!(
        !(T::IS_FLAG && matches!(op, AtomicOp::Add)),
        "{op:?} is not an operation on truth values"
    );
    AtomicCall {
        op,
        ty: T::TYPE,
        operand: operand.to_bits(),
    }
}

#[inline]
pub(crate) fn swap_call<T: Atomic>(current: T, new: T) -> SwapCall {
    SwapCall {
        ty: T::TYPE,
        expected: current.to_bits(),
        desired: new.to_bits(),
    }
}
