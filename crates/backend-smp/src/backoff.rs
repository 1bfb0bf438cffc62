//! How long to spin, to yield, and when to sleep, while waiting for another rank.
//!
//! Spinning is the fastest where every rank has a core (a hand-over costs a cache line), and ruinous where two share one (it lasts until the
//! scheduler's slice is over, milliseconds). Yielding hands a shared core over within microseconds, and the doorbell costs
//! nobody anything however long the wait. So: spin briefly if there are cores enough, yield for a while, then sleep.

use std::{
    hint, thread,
    time::{Duration, Instant},
};

/// Pauses before the first yield: some microseconds, many times the round trip of a short message.
const N_SPINS: u32 = 200;
/// How long to yield before sleeping: several times what waking a sleeper costs.
const YIELD_TIME: Duration = Duration::from_micros(150);
/// Yields before sleeping, at least: one of them can take long when another rank computes.
const MIN_YIELDS: u32 = 4;

/// What a step of [`Backoff`] did, or asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It paused for some nanoseconds.
    Spin,
    /// It offered the core to others.
    Yield,
    /// Nothing was done: the caller should sleep on its [`Doorbell`](crate::doorbell::Doorbell).
    Sleep,
}

/// The patience of one wait; made anew, or [reset](Self::reset), whenever there was something to do.
#[derive(Clone, Debug)]
pub struct Backoff {
    n_spins_left: u32,
    n_yields: u32,
    yields_since: Option<Instant>,
    oversubscribed: bool,
}

impl Backoff {
    /// Starts a wait; `oversubscribed` says that there are more ranks than cores (see [`usable_cores`]), and leaves the spinning out.
    #[must_use]
    pub fn new(oversubscribed: bool) -> Self {
        let n_spins_left = if oversubscribed { 0 } else { N_SPINS };
        Self {
            n_spins_left,
            n_yields: 0,
            yields_since: None,
            oversubscribed,
        }
    }

    /// Spins or yields once, or tells the caller to sleep. To be called after each look that found nothing.
    #[inline]
    pub fn step(&mut self) -> Step {
        if self.n_spins_left > 0 {
            self.n_spins_left -= 1;
            hint::spin_loop();
            return Step::Spin;
        }
        let since = *self.yields_since.get_or_insert_with(Instant::now);
        if self.n_yields >= MIN_YIELDS && since.elapsed() >= YIELD_TIME {
            return Step::Sleep;
        }
        self.n_yields += 1;
        thread::yield_now();
        Step::Yield
    }

    /// Starts over, after something was found.
    #[inline]
    pub fn reset(&mut self) {
        *self = Self::new(self.oversubscribed);
    }
}

/// Cores that this process may use: its affinity mask, and the limit of its control group if that is lower.
///
/// # Cost
/// System calls and reads of small files: ask once.
#[must_use]
pub fn usable_cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn steps(mut backoff: Backoff) -> Vec<Step> {
        let mut steps = vec![];
        while steps.last() != Some(&Step::Sleep) {
            steps.push(backoff.step());
        }
        steps
    }

    #[test]
    fn a_wait_spins_then_yields_then_sleeps() {
        let steps = steps(Backoff::new(false));
        let n_spins = steps.iter().take_while(|step| **step == Step::Spin).count();
        let n_yields = steps[n_spins..]
            .iter()
            .take_while(|step| **step == Step::Yield)
            .count();
        assert_eq!(n_spins, N_SPINS as usize);
        assert!(n_yields >= MIN_YIELDS as usize, "{n_yields} yields");
        assert_eq!(steps.len(), n_spins + n_yields + 1);
    }

    #[test]
    fn an_oversubscribed_wait_never_spins() {
        assert!(!steps(Backoff::new(true)).contains(&Step::Spin));
    }

    #[test]
    fn yielding_lasts_for_its_time_however_fast_a_yield_is() {
        let start = Instant::now();
        steps(Backoff::new(true));
        assert!(start.elapsed() >= YIELD_TIME);
    }

    #[test]
    fn a_reset_wait_starts_over() {
        let mut backoff = Backoff::new(false);
        while backoff.step() != Step::Sleep {}
        backoff.reset();
        assert_eq!(backoff.step(), Step::Spin);
    }

    #[test]
    fn there_is_a_core_to_run_on() {
        assert!(usable_cores() >= 1);
    }
}
