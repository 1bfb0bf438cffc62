//! The steps of an operation on near memory: reads, writes and atomics by this process's own
//! instructions.
//!
//! A thread notes its steps in memory of its own, each by one addition to a word with the number of
//! steps and their bytes, and adds all of them to the rank's counters when the operation ends, or
//! some thousand of a batch.

use std::cell::Cell;

use super::counters::{N_PAID, STEPS};
use super::counting::Counting;
use crate::cost::CostKind;

/// Steps of each kind: their number in the lower bits, their bytes in the upper ones.
pub(crate) type Steps = [u64; 3];

/// The bits of a number. Nobody notes so many steps, 268 million, before they are counted: whole
/// scans of a rank's memory are.
const N_BITS: u32 = 28;

/// Whether so many steps have to be counted before further ones are added.
#[inline]
pub(crate) fn are_many(steps: &Steps) -> bool {
    const MANY: u64 = 1 << (N_BITS - 1);
    steps.iter().any(|word| word & MANY > 0)
}

/// None.
pub(crate) const NONE: Steps = [0; 3];

thread_local! {
    /// The steps of this thread that no counter has yet.
    static NOTED: [Cell<u64>; 3] = const { [const { Cell::new(0) }; 3] };
}

/// The number of steps in a word, and their bytes.
#[inline]
pub(crate) fn parts(word: u64) -> [u64; 2] {
    [word & ((1 << N_BITS) - 1), word >> N_BITS]
}

/// Notes a read, write or atomic of `bytes` bytes.
#[inline(always)]
#[expect(clippy::inline_always, reason = "an addition")]
pub(crate) fn note(kind: CostKind, bytes: usize) {
    let step = (bytes as u64) << N_BITS | 1;
    with_noted(|noted| {
        let noted = &noted[kind as usize];
        noted.set(noted.get().wrapping_add(step));
    });
}

/// Calls `work` with what this thread has noted. Nothing has to be dropped when the thread ends, so
/// that is always there.
#[inline(always)]
#[expect(clippy::inline_always, reason = "an address")]
fn with_noted<R: Default>(work: impl FnOnce(&[Cell<u64>; 3]) -> R) -> R {
    // Unlike `with`, `try_with` is compiled into its callers, wherever they are.
    NOTED.try_with(work).unwrap_or_default()
}

/// Takes what was noted, and notes `others` in its place.
#[inline]
fn replace(others: Steps) -> Steps {
    with_noted(|noted| std::array::from_fn(|i| noted[i].replace(others[i])))
}

/// Takes what was noted.
#[inline]
pub(crate) fn take() -> Steps {
    replace(NONE)
}

/// Runs `work`, and returns its steps with its result. Those noted before stay noted.
#[inline]
pub(crate) fn of<R>(work: impl FnOnce() -> R) -> (R, Steps) {
    let before = Before(take());
    let done = work();
    let steps = take();
    drop(before);
    (done, steps)
}

/// What was noted before some work; it takes its place again, also if the work panics.
struct Before(Steps);

impl Drop for Before {
    #[inline]
    fn drop(&mut self) {
        replace(self.0);
    }
}

/// Adds what was noted before to what is noted now.
#[inline]
pub(crate) fn put_back(before: Steps) {
    let now = take();
    replace(sum(now, before));
}

#[inline]
pub(crate) fn sum(some: Steps, others: Steps) -> Steps {
    std::array::from_fn(|i| some[i].wrapping_add(others[i]))
}

/// What so many steps have paid, in the order of rows: atomics, reads, writes and messages.
pub(super) fn paid(steps: &Steps) -> [u64; N_PAID] {
    let [reads, writes, atomics] = steps.map(|word| parts(word)[0]);
    [atomics, reads, writes, 0]
}

impl Counting {
    /// Counts the steps that this thread has noted, for the name with this number, or 0.
    pub(crate) fn count_noted(&self, label: u16) {
        let steps = take();
        if steps != NONE {
            self.count_steps(&steps, label);
        }
    }

    pub(crate) fn count_steps(&self, steps: &Steps, label: u16) {
        for (kind, word) in STEPS.into_iter().zip(steps) {
            let [n, bytes] = parts(*word);
            if n > 0 {
                self.add(kind, (true, label), None, n, bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn work_that_panics_leaves_what_was_noted_before_and_nothing_of_its_own() {
        note(CostKind::Read, 8);
        let work = || {
            note(CostKind::Write, 8);
            panic!("on purpose");
        };
        assert!(catch_unwind(AssertUnwindSafe(|| of(work))).is_err());
        assert_eq!(take().map(|word| parts(word)[0]), [1, 0, 0]);
    }
}
