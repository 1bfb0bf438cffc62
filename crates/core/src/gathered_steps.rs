//! Steps on near memory that are counted together.

use std::fmt;

use crate::stats::steps::{self, Steps};
use crate::world::World;

/// The steps on [near blocks](crate::rma::Counted) of several pieces of work, which are counted
/// together, for no operation; from [`World::gather_steps`].
pub struct GatheredSteps<'w> {
    world: &'w World,
    steps: Steps,
}

impl World {
    /// Gathers the steps on [near blocks](crate::rma::Counted) of several pieces of work, for
    /// example of the items of an iterator, and counts them together when the value is dropped, or
    /// when they are some million. So each piece pays a few additions.
    ///
    /// # Cost
    ///
    /// ℓ.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let mut steps = world.gather_steps();
    /// let squares = (0..10).map(|i| steps.of(|| i * i)); // looks at near blocks
    /// assert_eq!(squares.sum::<i32>(), 285);
    /// ```
    #[must_use = "the steps are counted when this is dropped"]
    #[inline]
    pub fn gather_steps(&self) -> GatheredSteps<'_> {
        GatheredSteps {
            world: self,
            steps: steps::NONE,
        }
    }
}

impl GatheredSteps<'_> {
    /// Runs `work`, and gathers its steps: a million at most.
    ///
    /// # Examples
    ///
    /// See [`World::gather_steps`].
    #[inline]
    pub fn of<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let (done, steps) = steps::of(work);
        self.steps = steps::sum(self.steps, steps);
        if steps::are_many(&self.steps) {
            count(self.world, self.steps);
            self.steps = steps::NONE;
        }
        done
    }
}

impl Drop for GatheredSteps<'_> {
    #[inline]
    fn drop(&mut self) {
        // The parent of a forked child counts them itself.
        if self.steps != steps::NONE && !self.world.is_forked() {
            // By value, so that the steps of a loop need not be in memory.
            count(self.world, self.steps);
        }
    }
}

/// Counts steps for the name of this handle.
#[cold]
#[inline(never)]
fn count(world: &World, steps: Steps) {
    if let Some(counting) = world.counting() {
        counting.count_steps(&steps, world.label());
    }
}

impl fmt::Debug for GatheredSteps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = self.steps.map(|word| steps::parts(word)[0]);
        write!(f, "GatheredSteps({numbers:?})")
    }
}
