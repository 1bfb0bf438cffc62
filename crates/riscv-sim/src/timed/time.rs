//! Simulated time in picoseconds, and the clocks whose cycles it is counted in.

use std::ops::{Add, AddAssign, Sub};

use serde::Serialize;

/// A point in simulated time, or a span of it, in picoseconds: 2^64 of them are 213 days.
///
/// # Examples
/// ```
/// use pgas_riscv_sim::timed::time::{Clock, Time};
///
/// let core = Clock::from_mhz(2000);
/// assert_eq!(core.cycles(4), Time::from_ps(2000));
/// assert_eq!(core.next_edge(Time::from_ps(1)), core.cycles(1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Time(u64);

impl Time {
    /// The start of the simulation.
    pub const ZERO: Self = Self(0);

    /// Later than everything that happens.
    pub const NEVER: Self = Self(u64::MAX);

    /// `ps` picoseconds.
    #[must_use]
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// `ns` nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns * 1000)
    }

    /// The picoseconds.
    #[must_use]
    pub const fn ps(self) -> u64 {
        self.0
    }

    /// The time since `earlier`; zero if that is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// The time `span` later, which stays [`Time::NEVER`] where it would overflow.
    #[must_use]
    pub const fn saturating_add(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Add for Time {
    type Output = Self;

    fn add(self, span: Self) -> Self {
        Self(self.0 + span.0)
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, span: Self) {
        self.0 += span.0;
    }
}

impl Sub for Time {
    type Output = Self;

    fn sub(self, span: Self) -> Self {
        Self(self.0 - span.0)
    }
}

/// A clock that ticks first at time zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    mhz: u32,
    period: Time,
}

impl Clock {
    /// A clock of `mhz` megahertz, at least one.
    #[must_use]
    pub fn from_mhz(mhz: u32) -> Self {
        let mhz = mhz.max(1);
        Self {
            mhz,
            period: Time(1_000_000_u64.div_ceil(u64::from(mhz))),
        }
    }

    /// The length of one cycle, rounded up to a picosecond.
    #[must_use]
    pub const fn period(self) -> Time {
        self.period
    }

    /// The length of `n` cycles, rounded up once, so that 15 cycles of 1,200 MHz are exactly 12.5
    /// ns.
    #[must_use]
    pub fn cycles(self, n: u32) -> Time {
        Time((u64::from(n) * 1_000_000).div_ceil(u64::from(self.mhz)))
    }

    /// The first edge of this clock that is not before `at`.
    #[must_use]
    pub fn next_edge(self, at: Time) -> Time {
        Time(at.0.div_ceil(self.period.0) * self.period.0)
    }

    /// How many whole cycles fit into `span`.
    #[must_use]
    pub fn count(self, span: Time) -> u64 {
        span.0 / self.period.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_of_a_period_that_is_no_whole_number_are_rounded_once() {
        let dram = Clock::from_mhz(1200);
        assert_eq!(dram.period(), Time::from_ps(834));
        assert_eq!(dram.cycles(15), Time::from_ps(12_500));
        assert_eq!(dram.cycles(4), Time::from_ps(3334));
    }

    #[test]
    fn an_edge_is_its_own_next_edge() {
        let core = Clock::from_mhz(2000);
        for (at, edge) in [(0, 0), (1, 500), (500, 500), (501, 1000)] {
            assert_eq!(core.next_edge(Time::from_ps(at)), Time::from_ps(edge));
        }
    }

    #[test]
    fn spans_before_the_start_are_empty() {
        assert_eq!(Time::from_ns(1).since(Time::from_ns(2)), Time::ZERO);
        assert_eq!(Time::NEVER.saturating_add(Time::from_ns(1)), Time::NEVER);
    }
}
