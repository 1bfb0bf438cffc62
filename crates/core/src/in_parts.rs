//! Operations of containers that are in flight, in the statistics.

use std::fmt;
use std::sync::Arc;

use crate::stats::{Counting, Operation};
use crate::world::World;

/// An operation of a container that goes on while the rank does other things, in the statistics;
/// from [`World::performs_in_parts`]. It is counted when it [ends](Self::end).
#[must_use = "the operation is counted when it ends"]
pub struct PerformingInParts {
    counted: Option<Box<Counted>>,
}

struct Counted {
    counting: Arc<Counting>,
    /// The number of the world's name, or 0.
    label: u16,
    operation: &'static Operation,
    n: u64,
    /// Atomics, reads, writes and messages so far; `None` if a part was on another thread.
    paid: Option<[u64; 4]>,
}

impl World {
    /// As [`performs`](Self::performs), for an operation that is in flight: its price is that of
    /// its [parts](PerformingInParts::part), in whatever calls they run, and of no other operation.
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
    /// let (top, slots) = (world.alloc::<u64>(1)?, world.alloc::<u64>(10)?);
    /// let mut performing = world.performs_in_parts(&PUSH, 1);
    /// let slot = performing.part(|| top.fetch_add(&world, 1))?;
    /// // The program does other things, and then goes on.
    /// performing.part(|| slots.add(slot as usize).put(&world, 7))?;
    /// performing.end(0);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[inline]
    pub fn performs_in_parts(&self, operation: &'static Operation, n: usize) -> PerformingInParts {
        let counted = |counting| Counted {
            counting,
            label: self.label(),
            operation,
            n: n as u64,
            paid: Some([0; 4]),
        };
        PerformingInParts {
            counted: self.shared_counting().map(|all| Box::new(counted(all))),
        }
    }
}

impl PerformingInParts {
    /// Runs `work`, a part of the operation.
    ///
    /// # Examples
    ///
    /// See [`World::performs_in_parts`].
    #[inline]
    pub fn part<R>(&mut self, work: impl FnOnce() -> R) -> R {
        match &mut self.counted {
            Some(counted) => counted.part(work),
            None => work(),
        }
    }

    /// Ends the operation, which has not succeeded on `n_missed` of the elements.
    ///
    /// # Examples
    ///
    /// See [`World::performs_in_parts`].
    #[inline]
    pub fn end(self, n_missed: usize) {
        if let Some(counted) = self.counted {
            counted.end(n_missed as u64);
        }
    }
}

impl Counted {
    #[cold]
    fn part<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let part = self.counting.part(self.label);
        let done = work();
        let paid = part.map(|part| part.end());
        self.paid = self.paid.zip(paid).map(|(mut sum, paid)| {
            for (sum, n) in sum.iter_mut().zip(paid) {
                *sum = sum.wrapping_add(n);
            }
            sum
        });
        done
    }

    #[cold]
    fn end(&self, n_missed: u64) {
        let numbers = (self.n, n_missed);
        self.counting
            .performed_in_parts(self.operation, numbers, self.paid);
    }
}

impl fmt::Debug for PerformingInParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self
            .counted
            .as_ref()
            .map(|counted| counted.operation.name());
        f.debug_tuple("PerformingInParts").field(&name).finish()
    }
}
