//! Operations of containers, in the statistics.

use std::fmt;

use crate::cost::CostKind;
use crate::error::Result;
use crate::global_ptr::GlobalPtr;
use crate::pod::Pod;
use crate::stats::steps::{self, Steps};
use crate::stats::{Counting, Operation, Paid};
use crate::world::World;

/// An operation of a container, in the statistics, which ends when this is dropped; from
/// [`World::performs`].
#[must_use = "the operation ends when this is dropped"]
pub struct Performing<'w> {
    /// Boxed, so that the value is one word for operations that are not counted.
    counted: Option<Box<Counted<'w>>>,
}

struct Counted<'w> {
    counting: &'w Counting,
    /// The number of the world's name, or 0.
    label: u16,
    /// The price paid before it began, if that is known.
    before: Option<Paid>,
    /// What this thread had noted before it began, which is of another operation.
    noted: Steps,
    operation: &'static Operation,
    n: u64,
    missed: u64,
}

impl World {
    /// Counts `operation` on `n` elements, which this rank performs until the value is dropped. The
    /// statistics (`PGAS_STATS`) have a line for each operation, with the price that it has paid
    /// beside the documented one.
    ///
    /// The price of an operation within another one counts for the inner one only. Prices are
    /// measured on the rank's first thread; operations of other threads are only counted.
    ///
    /// # Cost
    ///
    /// ℓ; nothing but a branch without statistics.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::stats::{Operation, Price};
    /// use pgas_core::{GlobalPtr, Result, World};
    ///
    /// static PUSH: Operation =
    ///     Operation::new("Stack::push", &[Price::new("", [1, 0, 1])], "met a full stack");
    ///
    /// fn push(world: &World, top: GlobalPtr<u64>, slots: GlobalPtr<u64>, value: u64) -> Result<()> {
    ///     let _performs = world.performs(&PUSH, 1);
    ///     let slot = top.fetch_add(world, 1)?;
    ///     slots.add(slot as usize).put(world, value)
    /// }
    /// # let world = pgas_core::backend::loopback::world();
    /// # push(&world, world.alloc(1)?, world.alloc(10)?, 7)?;
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[inline]
    pub fn performs(&self, operation: &'static Operation, n: usize) -> Performing<'_> {
        Performing {
            counted: self
                .counting()
                .map(|counting| Counted::begin((counting, self.label()), operation, n)),
        }
    }

    /// Runs `work`, which performs `operation` on `n` elements by steps on [near
    /// blocks](crate::rma::Counted) alone. As [`performs`](Self::performs), for less. `missed` says
    /// on how many of the elements it did not succeed.
    ///
    /// # Cost
    ///
    /// ℓ, some forty instructions with statistics.
    ///
    /// # Examples
    ///
    /// See [`Counted`](crate::rma::Counted).
    #[inline]
    pub fn perform_near<R>(
        &self,
        operation: &'static Operation,
        n: usize,
        work: impl FnOnce() -> R,
        missed: impl FnOnce(&R) -> usize,
    ) -> R {
        let (done, steps) = steps::of(work);
        if let Some(counting) = self.counting() {
            let numbers = (n as u64, missed(&done) as u64);
            counting.performed_near(operation, numbers, &steps, self.label());
        }
        done
    }

    /// Runs `work`, and counts its steps on [near blocks](crate::rma::Counted) for no operation.
    ///
    /// # Cost
    ///
    /// ℓ.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let cell = world.alloc::<u64>(1)?;
    /// // Operations on pointers are counted anyway; steps on counted blocks in `work` are, too.
    /// world.count_steps(|| cell.put(&world, 7))?;
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[inline]
    pub fn count_steps<R>(&self, work: impl FnOnce() -> R) -> R {
        let done = work();
        if let Some(counting) = self.counting() {
            counting.count_noted(self.label());
        }
        done
    }

    /// Whether this rank counts its operations (`PGAS_STATS`).
    ///
    /// # Cost
    ///
    /// ℓ.
    #[must_use]
    #[inline]
    pub fn is_counting(&self) -> bool {
        self.counting().is_some()
    }

    /// Records that the container of `operation` has `used` of `room` places in use. The statistics
    /// (`PGAS_STATS`) have the average and the maximum.
    ///
    /// # Cost
    ///
    /// ℓ; nothing but a branch without statistics.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::stats::{Operation, Price};
    ///
    /// static PUSH: Operation =
    ///     Operation::new("Stack::push", &[Price::new("", [1, 0, 1])], "met a full stack");
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let (used, room) = (10, 10);
    /// world.fills(&PUSH, used, room);
    /// if used == room {
    ///     world.performs(&PUSH, 1).miss(1);
    /// }
    /// ```
    #[inline]
    pub fn fills(&self, operation: &'static Operation, used: u64, room: u64) {
        if let Some(counting) = self.counting() {
            counting.filled(operation, used, room);
        }
    }
}

/// Gets and puts that are whole operations of a container.
impl<T: Pod> GlobalPtr<T> {
    /// As [`get`](Self::get), counted as [`performs`](World::performs) says. The price of the
    /// operation is this get.
    ///
    /// # Cost
    ///
    /// R, as [`get`](Self::get).
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    ///
    /// # Panics
    ///
    /// As [`get`](Self::get).
    ///
    /// # Examples
    ///
    /// See [`put_as`](Self::put_as).
    #[inline]
    #[track_caller]
    pub fn get_as(self, world: &World, operation: &'static Operation) -> Result<T> {
        if let Some(place) = world.direct(self, 1) {
            return Ok(place.load());
        }
        self.get_as_indirectly(world, operation)
    }

    /// As [`put`](Self::put), counted as [`performs`](World::performs) says. The price of the
    /// operation is this put.
    ///
    /// # Cost
    ///
    /// W, as [`put`](Self::put).
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    ///
    /// # Panics
    ///
    /// As [`put`](Self::put).
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::stats::{Operation, Price};
    ///
    /// static SET: Operation = Operation::new("Cell::set", &[Price::new("", [0, 0, 1])], "");
    /// static READ: Operation = Operation::new("Cell::read", &[Price::new("", [0, 1, 0])], "");
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let cell = world.alloc::<u64>(1)?;
    /// cell.put_as(&world, 7, &SET)?;
    /// assert_eq!(cell.get_as(&world, &READ)?, 7);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn put_as(self, world: &World, value: T, operation: &'static Operation) -> Result<()> {
        if let Some(place) = world.direct(self, 1) {
            place.store(value);
            return Ok(());
        }
        self.put_as_indirectly(world, value, operation)
    }

    /// As [`get_slice`](Self::get_slice), counted as [`performs`](World::performs) says.
    ///
    /// # Cost
    ///
    /// R, as [`get_slice`](Self::get_slice).
    ///
    /// # Errors
    ///
    /// As [`get_slice`](Self::get_slice).
    ///
    /// # Panics
    ///
    /// As [`get_slice`](Self::get_slice).
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::stats::{Operation, Price};
    ///
    /// static READ: Operation = Operation::new("Table::read", &[Price::new("", [0, 1, 0])], "");
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let (table, mut out) = (world.alloc::<u64>(10)?, [7; 3]);
    /// table.get_slice_as(&world, &mut out, &READ)?;
    /// assert_eq!(out, [0; 3]);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn get_slice_as(
        self,
        world: &World,
        out: &mut [T],
        operation: &'static Operation,
    ) -> Result<()> {
        if let Some(src) = world.direct(self, out.len()) {
            src.copy_to(out);
            return Ok(());
        }
        self.get_slice_as_indirectly(world, out, operation)
    }

    /// As [`put_slice`](Self::put_slice), counted as [`performs`](World::performs) says.
    ///
    /// # Cost
    ///
    /// W, as [`put_slice`](Self::put_slice).
    ///
    /// # Errors
    ///
    /// As [`put_slice`](Self::put_slice).
    ///
    /// # Panics
    ///
    /// As [`put_slice`](Self::put_slice).
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::stats::{Operation, Price};
    ///
    /// static WRITE: Operation = Operation::new("Table::write", &[Price::new("", [0, 0, 1])], "");
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let table = world.alloc::<u64>(10)?;
    /// table.put_slice_as(&world, &[7; 3], &WRITE)?;
    /// assert_eq!(table.get_vec(&world, 4)?, [7, 7, 7, 0]);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn put_slice_as(
        self,
        world: &World,
        values: &[T],
        operation: &'static Operation,
    ) -> Result<()> {
        if let Some(dst) = world.direct(self, values.len()) {
            dst.copy_from(values);
            return Ok(());
        }
        self.put_slice_as_indirectly(world, values, operation)
    }

    // While operations are counted, no access is direct.

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn get_slice_as_indirectly(
        self,
        world: &World,
        out: &mut [T],
        operation: &'static Operation,
    ) -> Result<()> {
        let _performing = world.performs(operation, 1);
        self.get_slice(world, out)
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn put_slice_as_indirectly(
        self,
        world: &World,
        values: &[T],
        operation: &'static Operation,
    ) -> Result<()> {
        let _performing = world.performs(operation, 1);
        self.put_slice(world, values)
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn get_as_indirectly(self, world: &World, operation: &'static Operation) -> Result<T> {
        if let Some(counting) = world.counting() {
            counting.performed_single(operation, CostKind::Read);
        }
        self.get(world)
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn put_as_indirectly(
        self,
        world: &World,
        value: T,
        operation: &'static Operation,
    ) -> Result<()> {
        if let Some(counting) = world.counting() {
            counting.performed_single(operation, CostKind::Write);
        }
        self.put(world, value)
    }
}

impl<'w> Counted<'w> {
    #[cold]
    #[inline(never)]
    fn begin(
        (counting, label): (&'w Counting, u16),
        operation: &'static Operation,
        n: usize,
    ) -> Box<Self> {
        Box::new(Self {
            counting,
            label,
            before: counting.performs(),
            noted: steps::take(),
            operation,
            n: n as u64,
            missed: 0,
        })
    }
}

impl Drop for Counted<'_> {
    #[cold]
    fn drop(&mut self) {
        self.counting.count_noted(self.label);
        let numbers = (self.n, self.missed);
        self.counting
            .performed(self.operation, numbers, self.before);
        steps::put_back(self.noted);
    }
}

impl Performing<'_> {
    /// Records that the operation did not succeed on `n` of the elements, for example a push to a
    /// full queue, or a search for an absent key.
    ///
    /// # Examples
    ///
    /// See [`World::fills`].
    #[inline]
    pub fn miss(&mut self, n: usize) {
        if let Some(counted) = &mut self.counted {
            counted.missed = n as u64;
        }
    }
}

impl fmt::Debug for Performing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self
            .counted
            .as_ref()
            .map(|counted| counted.operation.name());
        f.debug_tuple("Performing").field(&name).finish()
    }
}
