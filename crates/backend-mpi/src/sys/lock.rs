//! The lock around MPI, which costs a process with one thread no atomic instruction.
//!
//! Such an instruction waits until all earlier stores have left the processor. With shared memory
//! below MPI these include the puts into other ranks' memory: two such instructions make a put of a
//! word a tenth slower. So the first thread owns the lock, and takes it by plain stores and loads,
//! until another thread comes. That one revokes it for good: it makes every thread of the process
//! pass a barrier by `membarrier(2)`, and waits until the first one is outside. From then on all
//! threads take a mutex.

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use rustix::thread::{MembarrierCommand, membarrier};

/// No thread has come yet.
const NOBODY: usize = 0;
/// All threads take the mutex.
const EVERYBODY: usize = 1;

/// The lock. There is one for the process: with more of them the barriers would cost more than they
/// save.
#[derive(Debug)]
pub(super) struct Lock {
    /// [`NOBODY`], [`EVERYBODY`], or the token of the thread that needs no mutex.
    owner: AtomicUsize,
    /// How often the owner has entered or left without the mutex: odd while it is inside. No other
    /// thread writes it, since the owner may be about to: it finds only afterwards that the lock is
    /// another one's.
    n_turns: AtomicU64,
    mutex: Mutex<()>,
    /// How often threads have entered or left by the mutex. Only the one that holds it writes this.
    n_turns_by_mutex: AtomicU64,
    /// Whether the thread inside came by the mutex; only that one writes this.
    by_mutex: AtomicBool,
}

thread_local! {
    /// The mutex's guard while this thread is inside by it. Never dropped here, so that a thread
    /// that is ending can enter, too.
    static HELD: Cell<Option<ManuallyDrop<MutexGuard<'static, ()>>>> = const { Cell::new(None) };
}

/// The proof that this thread holds the lock. It stays with the thread, as a mutex's guard does.
///
/// It is one word, which is passed in a register. A guard with a further byte would be written to
/// memory in two parts and read back as one, and such a load waits until all earlier stores have
/// left the processor, as an atomic instruction does.
#[derive(Debug)]
pub(super) struct Guard {
    lock: &'static Lock,
    this_thread: PhantomData<*const ()>,
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        // Relaxed: this thread has written it last, or one that was inside before.
        if self.lock.by_mutex.load(Ordering::Relaxed) {
            self.lock.release();
        } else {
            turn(&self.lock.n_turns, Ordering::Release);
        }
    }
}

impl Lock {
    pub(super) const fn new() -> Self {
        Self {
            owner: AtomicUsize::new(NOBODY),
            n_turns: AtomicU64::new(0),
            mutex: Mutex::new(()),
            n_turns_by_mutex: AtomicU64::new(0),
            by_mutex: AtomicBool::new(false),
        }
    }

    /// The number of the stay of the thread that is inside, if one is; no other stay has it.
    #[inline]
    pub(super) fn stay(&self) -> Option<u64> {
        // Relaxed: a thread outside only watches whether the sum changes over seconds. It is wrong
        // for a moment while an owner finds that the lock is another one's.
        let by_mutex = self.n_turns_by_mutex.load(Ordering::Relaxed);
        let n_turns = self.n_turns.load(Ordering::Relaxed) + by_mutex;
        (n_turns & 1 == 1).then_some(n_turns)
    }

    /// The proof for a thread that is inside.
    #[inline]
    fn guard(&'static self) -> Guard {
        Guard {
            lock: self,
            this_thread: PhantomData,
        }
    }

    /// Waits until no other thread is inside. Not reentrant.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a few plain loads and stores")]
    pub(super) fn lock(&'static self) -> Guard {
        let me = token();
        // Relaxed: a thread reads its own token only after it has written it.
        if self.owner.load(Ordering::Relaxed) == me {
            // Acquire: pairs with the release at the end of a thread whose token this one was
            // given.
            let n_turns = self.n_turns.load(Ordering::Acquire);
            debug_assert!(n_turns & 1 == 0, "not reentrant");
            self.n_turns.store(n_turns + 1, Ordering::Relaxed);
            // The store comes before the load for the revoking thread, by its `membarrier`, which
            // acts as a fence of this thread.
            compiler_fence(Ordering::SeqCst);
            if self.owner.load(Ordering::Relaxed) == me {
                return self.guard();
            }
            turn(&self.n_turns, Ordering::Release);
        }
        self.lock_mutex(me)
    }

    #[inline(never)]
    #[cold]
    fn lock_mutex(&'static self, me: usize) -> Guard {
        // The mutex guards nothing that a panic could leave half done.
        let guard = self.mutex.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: written under the mutex only.
        match self.owner.load(Ordering::Relaxed) {
            EVERYBODY => {}
            // This one is inside by the mutex; the next time it needs none.
            NOBODY => self.owner.store(first_owner(me), Ordering::Relaxed),
            // The owner found another thread that tried, and has given up.
            owner if owner == me => {}
            _ => {
                self.revoke();
                while self.is_inside() {
                    thread::yield_now();
                }
            }
        }
        self.hold(guard)
    }

    /// Takes the lock, if no thread is inside now. It never waits.
    #[cold]
    pub(super) fn try_lock(&'static self) -> Option<Guard> {
        let guard = match self.mutex.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        // Relaxed: written under the mutex only.
        let owner = self.owner.load(Ordering::Relaxed);
        if owner != NOBODY && owner != EVERYBODY && owner != token() {
            self.revoke();
        }
        if self.is_inside() {
            // Restore the owner: it is outside before it checks again.
            self.owner.store(owner, Ordering::Relaxed);
            return None;
        }
        Some(self.hold(guard))
    }

    /// Enters by the mutex of `guard`.
    fn hold(&'static self, guard: MutexGuard<'static, ()>) -> Guard {
        turn(&self.n_turns_by_mutex, Ordering::Relaxed);
        self.by_mutex.store(true, Ordering::Relaxed);
        HELD.set(Some(ManuallyDrop::new(guard)));
        self.guard()
    }

    /// Ends a stay that came by the mutex.
    #[cold]
    #[inline(never)]
    fn release(&self) {
        self.by_mutex.store(false, Ordering::Relaxed);
        // Relaxed: the mutex orders what was done inside.
        turn(&self.n_turns_by_mutex, Ordering::Relaxed);
        drop(HELD.take().map(ManuallyDrop::into_inner));
    }

    /// Takes the lock away from its owner, which may still be inside. Called under the mutex.
    #[cold]
    fn revoke(&self) {
        self.owner.store(EVERYBODY, Ordering::SeqCst);
        let passed = membarrier(MembarrierCommand::PrivateExpedited);
        passed.expect("the process has registered for it");
    }

    /// Whether the owner is inside. The caller holds the mutex, and has taken the lock away from its
    /// owner, or found none. An owner has either stored before the barrier that it is inside, or
    /// reads after the barrier that it no longer owns the lock.
    fn is_inside(&self) -> bool {
        // Acquire: pairs with the release at the end of a stay.
        self.n_turns.load(Ordering::Acquire) & 1 == 1
    }
}

/// Records that this thread, which alone writes `n_turns`, enters or leaves. Release, when an owner
/// leaves: pairs with the acquire of the next thread inside.
#[inline]
fn turn(n_turns: &AtomicU64, ordering: Ordering) {
    n_turns.store(n_turns.load(Ordering::Relaxed) + 1, ordering);
}

/// A number that no other living thread has.
#[inline]
fn token() -> usize {
    thread_local! {
        // As wide as a word, so that the address is none of the constants.
        static HERE: u64 = const { 0 };
    }
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

/// The thread's token, if the system has the barrier by which the lock can be taken away from it.
fn first_owner(me: usize) -> usize {
    let registered = membarrier(MembarrierCommand::RegisterPrivateExpedited);
    registered.map_or(EVERYBODY, |()| me)
}

#[cfg(test)]
mod tests {
    use std::hint;
    use std::sync::Barrier;
    use std::time::Duration;

    use rustix::thread::{CpuSet, sched_setaffinity};

    use super::*;

    /// A counter that only the holder of the lock increments, in two steps. Concurrent increments
    /// would be lost.
    #[derive(Debug, Default)]
    struct Count(AtomicU64);

    impl Count {
        fn up(&self) {
            let number = self.0.load(Ordering::Relaxed);
            hint::spin_loop();
            self.0.store(number + 1, Ordering::Relaxed);
        }
    }

    fn new_lock() -> &'static Lock {
        Box::leak(Box::new(Lock::new()))
    }

    fn count_up(lock: &'static Lock, count: &Count) {
        let _inside = lock.lock();
        count.up();
    }

    #[test]
    fn nothing_is_lost_when_the_lock_is_taken_away_from_its_first_thread() {
        const TURNS: u64 = 2000;
        for n_others in 1..4 {
            let (lock, count) = (new_lock(), Count::default());
            count_up(lock, &count);
            let start = Barrier::new(n_others + 1);
            thread::scope(|threads| {
                for _ in 0..n_others {
                    threads.spawn(|| {
                        start.wait();
                        (0..TURNS).for_each(|_| count_up(lock, &count));
                    });
                }
                start.wait();
                (0..TURNS).for_each(|_| count_up(lock, &count));
            });
            let n_threads = n_others as u64 + 1;
            assert_eq!(count.0.into_inner(), n_threads * TURNS + 1);
        }
    }

    /// Both threads have one processor, so that the other one comes while the first one was
    /// interrupted at some step of its way in, and that goes on while the other one is inside.
    #[test]
    fn nobody_is_inside_after_the_lock_was_taken_away() {
        let one_processor = || {
            let mut set = CpuSet::new();
            set.set(0);
            // Elsewhere the test shows less.
            sched_setaffinity(None, &set).ok();
        };
        let (begun, ended) = (AtomicU64::new(0), AtomicU64::new(0));
        let locks: Vec<_> = (0..100).map(|_| new_lock()).collect();
        let first = || {
            one_processor();
            for (round, lock) in (1..).zip(&locks) {
                drop(lock.lock());
                begun.store(round, Ordering::Release);
                while ended.load(Ordering::Acquire) < round {
                    drop(lock.lock());
                }
            }
        };
        let other = || {
            one_processor();
            for (round, lock) in (1..).zip(&locks) {
                while begun.load(Ordering::Acquire) < round {
                    thread::yield_now();
                }
                let inside = lock.lock();
                thread::sleep(Duration::from_micros(100));
                drop(inside);
                ended.store(round, Ordering::Release);
            }
        };
        thread::scope(|threads| [threads.spawn(first), threads.spawn(other)].map(drop));
        for lock in locks {
            assert_eq!(lock.stay(), None);
            assert!(lock.try_lock().is_some());
        }
    }

    #[test]
    fn who_only_tries_comes_in_between_and_takes_nothing_from_others() {
        const TURNS: u64 = 2000;
        let (lock, count) = (new_lock(), Count::default());
        count_up(lock, &count);
        let is_over = AtomicBool::new(false);
        let n_tried = thread::scope(|threads| {
            let tries = threads.spawn(|| {
                let mut n_tried = 0;
                while !is_over.load(Ordering::Relaxed) {
                    if let Some(_inside) = lock.try_lock() {
                        count.up();
                        n_tried += 1;
                    }
                }
                n_tried
            });
            (0..TURNS).for_each(|_| count_up(lock, &count));
            is_over.store(true, Ordering::Relaxed);
            tries.join().expect("it panics nowhere")
        });
        assert_eq!(count.0.into_inner(), TURNS + 1 + n_tried);
    }

    #[test]
    fn who_tries_while_another_thread_is_inside_leaves_the_lock_as_it_was() {
        let lock = new_lock();
        let mut first = lock.lock();
        for _ in 0..2 {
            // The first time it came by the mutex, the second time not.
            thread::scope(|threads| {
                threads.spawn(|| assert!(lock.try_lock().is_none()));
            });
            assert!(lock.try_lock().is_none(), "nor does the same thread");
            drop(first);
            first = lock.lock();
        }
        if lock.owner.load(Ordering::Relaxed) == token() {
            assert!(lock.mutex.try_lock().is_ok(), "it needs none again");
        }
        drop(first);
        thread::scope(|threads| {
            threads.spawn(|| assert!(lock.try_lock().is_some()));
        });
        assert_eq!(lock.stay(), None);
    }

    #[test]
    fn a_thread_that_ends_takes_the_lock_when_its_own_data_is_gone() {
        struct AtEnd(Cell<Option<&'static Lock>>);
        impl Drop for AtEnd {
            fn drop(&mut self) {
                drop(self.0.take().map(Lock::lock));
            }
        }
        thread_local! {
            static AT_END: AtEnd = const { AtEnd(Cell::new(None)) };
        }
        let lock = new_lock();
        drop(lock.lock());
        let other = thread::spawn(|| {
            // The first data of a thread is dropped last.
            AT_END.with(|at_end| at_end.0.set(Some(lock)));
            drop(lock.lock());
        });
        other.join().expect("it panics nowhere");
        let n_turns = [&lock.n_turns, &lock.n_turns_by_mutex].map(|n| n.load(Ordering::Relaxed));
        assert_eq!(n_turns, [0, 6], "three stays");
        assert!(lock.mutex.try_lock().is_ok());
    }

    #[test]
    fn the_first_thread_takes_no_mutex_until_another_one_comes() {
        let lock = new_lock();
        drop(lock.lock());
        if lock.owner.load(Ordering::Relaxed) != token() {
            assert!(membarrier(MembarrierCommand::RegisterPrivateExpedited).is_err());
            return;
        }
        let inside = lock.lock();
        assert!(lock.stay().is_some());
        assert!(lock.mutex.try_lock().is_ok());
        drop(inside);
        thread::scope(|threads| {
            threads.spawn(|| drop(lock.lock()));
        });
        let inside = lock.lock();
        assert!(lock.mutex.try_lock().is_err());
        drop(inside);
    }

    #[test]
    fn each_stay_has_a_number_of_its_own_by_whichever_way_it_came() {
        let lock = new_lock();
        let mut seen = Vec::new();
        for round in 0..6 {
            assert_eq!(lock.stay(), None);
            let inside = lock.lock();
            seen.push(lock.stay().expect("a thread is inside"));
            assert_eq!(lock.stay(), seen.last().copied());
            drop(inside);
            if round == 3 {
                // From here on all take the mutex.
                thread::scope(|threads| {
                    threads.spawn(|| drop(lock.lock()));
                });
            }
        }
        assert_eq!(lock.stay(), None);
        seen.dedup();
        assert_eq!(seen.len(), 6);
    }
}
