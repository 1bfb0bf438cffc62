//! One-sided reads and writes: put and get of values and slices, blocking and non-blocking.
//!
//! On the path of an operation this file comes after [`GlobalPtr`] and before the
//! [`Backend`](crate::backend::Backend). If the peer's segment is mapped, it is loaded from and
//! stored to here, without the backend.
//!
//! Completion, for all forms:
//!
//! - A get's result is there when it returns, and later operations come after it.
//! - A put returns when its source may be reused; it is complete at the target after
//!   [`World::flush`] or [`World::barrier`], or when its [`Event`] is complete. For a non-blocking
//!   put that owns its source, [`Event::at_source`] tells when that may be reused.
//! - Nothing orders two operations that are in flight together, not even on the same bytes.
//! - A concurrent access may see a value in part, unless the value is a word of an
//!   [atomic type](crate::atomics) and all access it by atomics.

mod checked;
mod cut;
mod fragments;
mod near;
mod parts;
#[cfg(test)]
mod properties;
mod scope;
mod signal;
mod strided;
mod words;

pub use fragments::Fragment;
pub use near::{Block, Counted, MaybeCounted, Near, NearArray, Share};
pub use scope::Scope;
pub use strided::Strides;
pub use words::FourWords;

use std::ptr::NonNull;

use crate::cost::CostKind;
use crate::pod::zeroed_vec;
use crate::raw::copy;
use crate::{Event, GlobalPtr, Pod, Result, World};

impl<T: Pod> GlobalPtr<T> {
    /// Reads the value.
    ///
    /// # Cost
    ///
    /// R; a load on a direct peer. One-sided.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// If the pointer is null, misaligned or outside of a segment.
    #[inline]
    #[track_caller]
    pub fn get(self, world: &World) -> Result<T> {
        if let Some(place) = world.direct_one(CostKind::Read, self) {
            return Ok(place.load());
        }
        self.get_one_indirectly(world)
    }

    /// Writes a value.
    ///
    /// # Cost
    ///
    /// W; a store on a direct peer. One-sided. Complete locally on return, at the target after
    /// [`flush`](World::flush).
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// If the pointer is null, misaligned or outside of a segment.
    #[inline]
    #[track_caller]
    pub fn put(self, world: &World, value: T) -> Result<()> {
        if let Some(place) = world.direct_one(CostKind::Write, self) {
            place.store(value);
            return Ok(());
        }
        self.put_one_indirectly(world, value)
    }

    /// Reads `out.len()` elements into `out`.
    ///
    /// # Cost
    ///
    /// R. One-sided.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then `out` may have been written in part.
    ///
    /// # Panics
    ///
    /// If the pointer is null, misaligned or not all elements lie within the segment.
    #[inline]
    #[track_caller]
    pub fn get_slice(self, world: &World, out: &mut [T]) -> Result<()> {
        if let Some(src) = world.direct(self, out.len()) {
            src.copy_to(out);
            return Ok(());
        }
        self.get_indirectly(world, out)
    }

    /// Reads `n` elements.
    ///
    /// # Cost
    ///
    /// R. One-sided.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// As [`get_slice`](Self::get_slice).
    #[track_caller]
    pub fn get_vec(self, world: &World, n: usize) -> Result<Vec<T>> {
        world.checked(self, n);
        let mut out = zeroed_vec(n);
        self.get_slice(world, &mut out)?;
        Ok(out)
    }

    /// Writes the elements of `values`.
    ///
    /// # Cost
    ///
    /// W. One-sided. Complete locally on return, at the target after [`flush`](World::flush).
    ///
    /// # Errors
    ///
    /// Errors of the transport; then a part may have been written.
    ///
    /// # Panics
    ///
    /// If the pointer is null, misaligned or not all elements fit within the segment.
    #[inline]
    #[track_caller]
    pub fn put_slice(self, world: &World, values: &[T]) -> Result<()> {
        if let Some(dst) = world.direct(self, values.len()) {
            dst.copy_from(values);
            return Ok(());
        }
        self.put_indirectly(world, values)
    }

    /// A get that is counted by more than one counter, or not direct.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn get_one_indirectly(self, world: &World) -> Result<T> {
        if let Some(place) = world.counted(CostKind::Read, self, 1) {
            return Ok(place.load());
        }
        let mut value = [T::new_zeroed()];
        self.get_indirectly(world, &mut value)?;
        Ok(value[0])
    }

    /// A put that is counted by more than one counter, or not direct.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn put_one_indirectly(self, world: &World, value: T) -> Result<()> {
        if let Some(place) = world.counted(CostKind::Write, self, 1) {
            place.store(value);
            return Ok(());
        }
        self.put_indirectly(world, &[value])
    }

    /// A get that is refused, counted, or left to the backend.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn get_indirectly(self, world: &World, out: &mut [T]) -> Result<()> {
        if let Some(src) = world.counted(CostKind::Read, self, out.len()) {
            src.copy_to(out);
            return Ok(());
        }
        let from = world.checked(self, out.len());
        world.count(CostKind::Read, Some(from.rank()), 1, size_of_val(out));
        match from.mapped(world) {
            Some(src) => src.copy_to(out),
            None => from.get(world, out)?,
        }
        Ok(())
    }

    /// A put that is refused, counted, or left to the backend.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn put_indirectly(self, world: &World, values: &[T]) -> Result<()> {
        if let Some(dst) = world.counted(CostKind::Write, self, values.len()) {
            dst.copy_from(values);
            return Ok(());
        }
        let to = world.checked(self, values.len());
        world.count(CostKind::Write, Some(to.rank()), 1, size_of_val(values));
        match to.mapped(world) {
            Some(dst) => dst.copy_from(values),
            None => to.put(world, values)?,
        }
        Ok(())
    }

    /// Begins to read the value.
    ///
    /// # Cost
    ///
    /// R; no allocation on a direct peer. One-sided.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// As [`get`](Self::get).
    #[inline]
    #[track_caller]
    pub fn get_nb(self, world: &World) -> Result<Event<T>> {
        let from = world.checked(self, 1);
        if world.memory().base(from.rank()).is_some() {
            return self.get(world).map(Event::ready);
        }
        world.count(CostKind::Read, Some(from.rank()), 1, size_of::<T>());
        from.begin_get_one(world)
    }

    /// Begins to read `n` elements.
    ///
    /// # Cost
    ///
    /// R. One-sided.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// As [`get_slice`](Self::get_slice).
    #[track_caller]
    pub fn get_vec_nb(self, world: &World, n: usize) -> Result<Event<Vec<T>>> {
        let from = world.checked(self, n);
        if world.memory().base(from.rank()).is_some() {
            return self.get_vec(world, n).map(Event::ready);
        }
        world.count(CostKind::Read, Some(from.rank()), 1, size_of::<T>() * n);
        if is_long::<T>(world, n) {
            return parts::begin_gets(world, &[from], zeroed_vec(n));
        }
        from.begin_get(world, |values| values)
    }

    /// Begins to write a value. The event is complete when the value is at the target.
    ///
    /// # Cost
    ///
    /// W; no allocation on a direct peer. One-sided.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// As [`put`](Self::put).
    #[inline]
    #[track_caller]
    pub fn put_nb(self, world: &World, value: T) -> Result<Event<()>> {
        let to = world.checked(self, 1);
        if world.memory().base(to.rank()).is_some() {
            self.put(world, value)?;
            world.flush(to.rank())?;
            return Ok(Event::ready(()));
        }
        world.count(CostKind::Write, Some(to.rank()), 1, size_of::<T>());
        to.begin_put_one(world, &value)
    }

    /// Begins to write the elements of `values`. The event is complete when they are at the target,
    /// and gives the vector back.
    ///
    /// # Cost
    ///
    /// W. One-sided.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// As [`put_slice`](Self::put_slice).
    #[track_caller]
    pub fn put_vec_nb(self, world: &World, values: Vec<T>) -> Result<Event<Vec<T>>> {
        let to = world.checked(self, values.len());
        if world.memory().base(to.rank()).is_some() {
            self.put_slice(world, &values)?;
            world.flush(to.rank())?;
            return Ok(Event::ready(values));
        }
        world.count(CostKind::Write, Some(to.rank()), 1, size_of_val(&*values));
        if is_long::<T>(world, values.len()) {
            return parts::begin_puts(world, &[to], values, None);
        }
        to.begin_put(world, values, |values| values)
    }

    /// The address at which this process has the object mapped, if it has (UPC++'s `local`).
    ///
    /// Other ranks may access the memory at any time. So access it through the pointer only
    /// atomically, or while the program makes sure that no other rank writes it.
    ///
    /// # Cost
    ///
    /// ℓ.
    ///
    /// # Panics
    ///
    /// As [`get`](Self::get).
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let cell = world.alloc::<u64>(1)?;
    /// cell.prefetch(&world); // it is accessed soon
    /// assert_eq!(cell.local(&world).is_some(), world.is_direct(cell.rank()));
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn local(self, world: &World) -> Option<NonNull<T>> {
        let mapped = world.checked(self, 1).mapped(world)?;
        Some(mapped.address())
    }

    /// Asks the memory system to fetch the pointer's cache line for a later access. Does nothing if
    /// the memory is not mapped, or if the pointer is invalid.
    ///
    /// # Cost
    ///
    /// ℓ.
    #[inline]
    pub fn prefetch(self, world: &World) {
        let at = self.addr();
        if at.offset < world.segment_bytes()
            && let Some(place) = world.memory().place(at)
        {
            copy::prefetch(place.as_ptr());
        }
    }
}

/// Whether `n` elements are more than the backend takes in one piece.
pub(crate) fn is_long<T>(world: &World, n: usize) -> bool {
    (size_of::<T>() * n) as u64 > world.capabilities().max_transfer
}
