//! How long a waiting rank sleeps between two looks at what it waits for.

use std::time::Duration;

use crate::world::World;

/// The longest sleep for each rank that shares the processor. A look takes some 10 µs of a
/// processor, with its switches, so waiting ranks together take about a twentieth of one, however
/// many they are.
const PER_RANK: Duration = Duration::from_micros(200);
/// The bounds of the longest sleep.
const BOUNDS: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(100)];
/// A wait's sleeps begin with this part of the longest one, and double.
const FIRST_PART: u32 = 40;

impl World {
    /// The longest sleep of a waiting rank between two looks: 2 ms, and more if the ranks of its
    /// host are more than ten for each processor. Messages, signals and barriers wake a sleeper;
    /// this only bounds how late it sees a plain put, or the end of an operation of a network that
    /// wakes nobody.
    ///
    /// # Cost
    ///
    /// ℓ.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// while !world.progress()? {
    ///     world.park(world.longest_sleep());
    /// #   break;
    /// }
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[must_use]
    pub fn longest_sleep(&self) -> Duration {
        longest(self.backend().ranks_per_processor())
    }

    /// The first sleep of a wait.
    pub(crate) fn first_sleep(&self) -> Duration {
        self.longest_sleep() / FIRST_PART
    }
}

fn longest(ranks_per_processor: u32) -> Duration {
    let [least, most] = BOUNDS;
    PER_RANK
        .saturating_mul(ranks_per_processor)
        .clamp(least, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_ranks_share_a_processor_the_longer_they_sleep_within_bounds() {
        let ms = Duration::from_millis;
        for (n_ranks, sleep) in [
            (0, 2),
            (1, 2),
            (10, 2),
            (20, 4),
            (500, 100),
            (u32::MAX, 100),
        ] {
            assert_eq!(longest(n_ranks), ms(sleep), "{n_ranks} ranks");
        }
    }
}
