//! The handles of a program on a world, and the thread that ends with the last of them.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use crate::error::{Error, Result};
use crate::locks::lock;

thread_local! {
    /// The address of the [`Handles`] whose round this thread runs, or 0.
    static RUNS: Cell<usize> = const { Cell::new(0) };
}

/// What a handle counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// It does not keep the rank in the job.
    Not,
    /// A handle of the program.
    Program,
    /// Lent to what the progress thread runs, such as a handler, since the round with this number.
    /// Most are dropped in that round. One that is kept counts as the program's from the next round
    /// on.
    Lent(u16),
}

/// The handles that keep a world's progress thread going, and the thread.
///
/// The thread has a handle on the world itself, which is not counted. The thread ends with the last
/// counted handle, so a thread of the program always leaves the world. Handles that the thread lends
/// to handlers come and go: a thread of the program that drops the last handle but for those waits
/// until the round of progress is over, and then knows which are kept.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    counts: AtomicU64,
    is_over: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Held by the thread for each round.
    round: Mutex<()>,
    /// Taken before `round`: the thread would take that again at once.
    gate: Mutex<()>,
}

/// The counts of [`Handles`], which change together: all handles in the lower half, then the lent
/// ones among them, and the number of the round in the highest 16 bits. That number changes only if
/// lent handles are kept, so that those of former rounds have other numbers.
#[derive(Clone, Copy)]
struct Counts(u64);

impl Counts {
    const ONE: u64 = 1;
    const LENT: u64 = 1 << 32;
    const ROUND: u64 = 1 << 48;

    fn n(self) -> u64 {
        self.0 % Self::LENT
    }

    fn n_lent(self) -> u64 {
        self.0 % Self::ROUND / Self::LENT
    }

    fn round(self) -> u16 {
        // 16 bits are left.
        (self.0 / Self::ROUND) as u16
    }

    fn n_of_program(self) -> u64 {
        self.n().saturating_sub(self.n_lent())
    }

    /// One more, and what it counts as. When very many are lent, more count as the program's.
    fn lend(self) -> (u64, Counted) {
        if self.n_lent() == Self::ROUND / Self::LENT - 1 {
            return (self.0 + Self::ONE, Counted::Program);
        }
        let lent = self.0 + Self::ONE + Self::LENT;
        (lent, Counted::Lent(self.round()))
    }

    fn is_lent(self, handle: Counted) -> bool {
        handle == Counted::Lent(self.round()) && self.n_lent() > 0
    }

    /// One less, if `is_enough` of all handles and the program's that are left.
    fn without(self, handle: Counted, is_enough: impl Fn(u64, u64) -> bool) -> Option<u64> {
        let n_lent = u64::from(self.is_lent(handle));
        let fewer = (self.n() > 0).then(|| self.0 - Self::ONE - n_lent * Self::LENT)?;
        let fewer = Self(fewer);
        is_enough(fewer.n(), fewer.n_of_program()).then_some(fewer.0)
    }

    /// After a round: what is still lent is kept.
    fn after_round(self) -> Option<u64> {
        let n_lent = self.n_lent();
        let kept = self.0.wrapping_add(Self::ROUND) - n_lent * Self::LENT;
        (n_lent > 0).then_some(kept)
    }
}

/// A round of the progress thread. What is lent in it and not dropped when this is, is kept.
pub(crate) struct Round<'a> {
    handles: &'a Handles,
    _held: MutexGuard<'a, ()>,
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        RUNS.set(0);
        let kept = |counts| Counts(counts).after_round();
        // Relaxed: who needs it to be exact takes the lock of the round. None, if all were dropped.
        let _ = (self.handles.counts).fetch_update(Ordering::Relaxed, Ordering::Relaxed, kept);
    }
}

impl Handles {
    /// Whether this thread is the progress thread, in a round.
    #[inline]
    fn is_in_round(&self) -> bool {
        RUNS.get() == ptr::from_ref(self).addr()
    }

    /// Counts a new handle.
    #[inline]
    pub(crate) fn count_handle(&self) -> Counted {
        if self.is_in_round() {
            return self.lend();
        }
        // Relaxed: a thread that makes a handle has one, so the count cannot reach zero meanwhile.
        self.counts.fetch_add(Counts::ONE, Ordering::Relaxed);
        Counted::Program
    }

    #[cold]
    fn lend(&self) -> Counted {
        let mut lent = Counted::Program;
        let more = |counts| {
            let more;
            (more, lent) = Counts(counts).lend();
            Some(more)
        };
        // Relaxed, as in `count_handle`. It cannot fail.
        let _ = (self.counts).fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        lent
    }

    /// Counts a new handle, if the program still has one. Without any the rank is leaving.
    pub(crate) fn count_handle_if_held(&self) -> Option<Counted> {
        let (lends, mut counted) = (self.is_in_round(), Counted::Program);
        let more = |counts| {
            let mut more = counts + Counts::ONE;
            if lends {
                (more, counted) = Counts(counts).lend();
            }
            (Counts(counts).n() > 0).then_some(more)
        };
        // Relaxed, as in `count_handle`.
        let held = (self.counts).fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        held.is_ok().then_some(counted)
    }

    /// Whether the handle of this thread is the last one, but for those that are lent.
    pub(crate) fn is_last(&self) -> bool {
        Counts(self.counts.load(Ordering::Relaxed)).n_of_program() <= 1
    }

    /// Uncounts a handle, unless it is the last one. Of handles that are dropped at the same time
    /// one finds that it is the last. Waits for the end of a round that has lent the others.
    pub(crate) fn drop_unless_last(&self, handle: Counted) -> bool {
        self.drop_beside_others(handle) || !self.is_in_round() && self.drop_between_rounds(handle)
    }

    /// Uncounts a handle, if there are others, which are not only lent. Takes no lock.
    pub(crate) fn drop_beside_others(&self, handle: Counted) -> bool {
        let counts_lent = self.is_in_round();
        let others = |n, n_of_program| (if counts_lent { n } else { n_of_program }) > 0;
        self.drop_if(handle, others)
    }

    #[cold]
    fn drop_between_rounds(&self, handle: Counted) -> bool {
        let _between = self.between_rounds();
        self.drop_if(handle, |n, _| n > 0)
    }

    fn drop_if(&self, handle: Counted, is_enough: impl Fn(u64, u64) -> bool) -> bool {
        let fewer = |counts| Counts(counts).without(handle, &is_enough);
        // AcqRel, and acquire: what the other handles did comes before the end.
        let dropped = (self.counts).fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer);
        dropped.is_ok()
    }

    /// Uncounts the last handle, and ends the thread with it; `wake` ends its nap. Does nothing,
    /// and returns false, if there are others again.
    pub(crate) fn drop_last(&self, handle: Counted, wake: impl FnOnce()) -> bool {
        let between = self.between_rounds();
        let dropped = self.drop_if(handle, |n, _| n == 0);
        if dropped {
            // Release: pairs with the acquire in `is_over`. The thread begins no round any more.
            self.is_over.store(true, Ordering::Release);
        }
        drop(between);
        if dropped {
            self.end_thread(wake);
        }
        dropped
    }

    /// Keeps the thread from beginning a round, when the one that it runs is over. Nothing on the
    /// thread itself.
    fn between_rounds(&self) -> Option<[MutexGuard<'_, ()>; 2]> {
        // In this order.
        (!self.is_in_round()).then(|| [&self.gate, &self.round].map(lock))
    }

    /// Begins a round of the progress thread, on that. `None` if no counted handle is left.
    pub(crate) fn begin_round(&self) -> Option<Round<'_>> {
        drop(lock(&self.gate));
        let held = lock(&self.round);
        if self.is_over() {
            return None;
        }
        RUNS.set(ptr::from_ref(self).addr());
        Some(Round {
            handles: self,
            _held: held,
        })
    }

    fn end_thread(&self, wake: impl FnOnce()) {
        let Some(thread) = lock(&self.thread).take() else {
            return;
        };
        wake();
        // A handler may have dropped the last handle, on the thread itself, which then ends by
        // itself.
        if thread.thread().id() != thread::current().id() {
            // The thread catches panics of handlers.
            drop(thread.join());
        }
    }

    /// Starts the thread, which runs `body` until that ends.
    pub(crate) fn start(&self, name: String, body: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = thread::Builder::new().name(name).spawn(body);
        *lock(&self.thread) = Some(thread.map_err(|error| Error::os("pthread_create", error))?);
        Ok(())
    }

    /// Whether no counted handle is left.
    fn is_over(&self) -> bool {
        // Acquire: pairs with the release in `drop_last`.
        self.is_over.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    const PROGRAM: Counted = Counted::Program;

    #[test]
    fn of_handles_that_are_dropped_at_once_one_is_the_last() {
        for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
            let handles = Handles::default();
            let n_last = AtomicUsize::new(0);
            for _ in 0..3 {
                assert_eq!(handles.count_handle(), PROGRAM);
            }
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        if !handles.drop_unless_last(PROGRAM) {
                            n_last.fetch_add(1, Ordering::Relaxed);
                            assert!(handles.is_last() && handles.drop_last(PROGRAM, || ()));
                        }
                    });
                }
            });
            assert_eq!(n_last.into_inner(), 1);
            assert!(handles.count_handle_if_held().is_none());
        }
    }

    #[test]
    fn a_last_handle_that_finds_another_one_is_no_longer_the_last() {
        let handles = Handles::default();
        handles.count_handle();
        assert!(!handles.drop_unless_last(PROGRAM));
        assert!(handles.count_handle_if_held().is_some());
        assert!(!handles.drop_last(PROGRAM, || ()));
        assert!(handles.drop_unless_last(PROGRAM));
        assert!(handles.drop_last(PROGRAM, || ()));
    }

    #[test]
    fn a_handle_that_a_round_keeps_counts_as_the_programs_from_the_next_round_on() {
        let handles = Handles::default();
        handles.count_handle();
        let (came, kept) = {
            let _round = handles.begin_round().unwrap();
            (handles.count_handle(), handles.count_handle())
        };
        assert_eq!((came, kept), (Counted::Lent(0), Counted::Lent(0)));
        let round = handles.begin_round().unwrap();
        let lent = handles.count_handle();
        assert_eq!(lent, Counted::Lent(1));
        // Two are left of the round before, beside the program's.
        assert!(handles.drop_unless_last(came) && !handles.is_last());
        assert!(handles.drop_unless_last(lent) && !handles.is_last());
        drop(round);
        assert!(handles.drop_unless_last(PROGRAM) && handles.is_last());
        assert!(!handles.drop_unless_last(kept) && handles.drop_last(kept, || ()));
        assert!(handles.begin_round().is_none());
    }

    #[test]
    fn a_handle_that_a_round_asks_for_is_lent_if_the_program_has_one() {
        let handles = Handles::default();
        {
            let _round = handles.begin_round().unwrap();
            assert_eq!(handles.count_handle_if_held(), None);
        }
        handles.count_handle();
        let asked_for = {
            let _round = handles.begin_round().unwrap();
            handles.count_handle_if_held()
        };
        assert_eq!(asked_for, Some(Counted::Lent(0)));
        assert!(handles.drop_unless_last(PROGRAM) && handles.drop_last(PROGRAM, || ()));
    }

    #[test]
    fn very_many_lent_handles_count_as_the_programs() {
        let handles = Handles::default();
        let _round = handles.begin_round().unwrap();
        let lent: Vec<_> = (0..70_000).map(|_| handles.count_handle()).collect();
        let n_lent = lent.iter().filter(|handle| **handle != PROGRAM).count();
        assert_eq!(n_lent, 65_535);
        let (last, others) = lent.split_last().unwrap();
        for handle in others {
            assert!(handles.drop_unless_last(*handle));
        }
        assert!(!handles.drop_unless_last(*last) && handles.drop_last(*last, || ()));
        let counts = Counts(handles.counts.load(Ordering::Relaxed));
        assert_eq!((counts.n(), counts.n_lent()), (0, 0));
    }
}
