//! A lock of all ranks or of a team: a queue of ranks, each of which polls a word of its own.
//!
//! It is the lock of Mellor-Crummey and Scott (MCS; Algorithms for Scalable Synchronization on
//! Shared-Memory Multiprocessors, ACM TOCS 9(1), 1991), with a time limit added. The home has the
//! number of the last rank in the queue. Each rank has a node of two words: the rank behind it, and
//! its [`state`]. Ranks are numbered from one, and zero is nobody.
//!
//! A rank that gives up leaves its node in the queue. A release that reaches this node takes it
//! out, and goes on to the next one. If the rank comes again before that, it has its former place.

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::global_ptr::GlobalPtr;
use crate::handler::{in_handler, refuse_in_handler};
use crate::rank::Rank;
use crate::symmetric::Symmetric;
use crate::team::{AsTeam, Member as _, Team};
use crate::thread_number;
use crate::waits::{Awaited, part_of_at};
use crate::world::World;

/// Names of waits, for errors.
const MAKING: &str = "the making of a lock";
const THE_LOCK: &str = "a lock";
const OWN_LOCK: &str = "a lock that the handler's own thread has, or waits for,";
const RELEASE: &str = "the release of a lock";
const FORMER_PLACE: &str = "a former place in the queue of a lock, which a release takes out";

/// The states of a rank's node.
mod state {
    /// Not in the queue.
    pub(super) const OUT: u64 = 0;
    /// In the queue, or about to enter it; or the holder, if the queue was empty.
    pub(super) const WAITING: u64 = 1;
    /// The holder.
    pub(super) const GRANTED: u64 = 2;
    /// In the queue, and not waiting any more.
    pub(super) const GIVEN_UP: u64 = 3;
    /// Being taken out of the queue.
    pub(super) const PASSING: u64 = 4;
}
use state::{GIVEN_UP, GRANTED, OUT, PASSING, WAITING};

/// The words of each rank: the last of the queue, which only the home uses, and the node's.
const LAST: usize = 0;
const NEXT: usize = 1;
const STATE: usize = 2;
const N_WORDS: usize = 3;

/// A lock that one thread of one rank holds at a time, for all ranks or for the members of a team.
/// Ranks get it in the order in which they came.
///
/// The next holder sees what the previous one wrote before it released the lock. A rank that dies
/// ends the job, whether it holds the lock or not, so no rank waits for ever. A guard that is
/// leaked keeps the lock until the rank drops its `Lock`.
///
/// A single atomic is faster where it is enough. So there is no type for a team's counter: it is
/// one element of the team's memory at any member, which begins at 0. With `let counter =
/// team.alloc_symmetric::<u64>(1)?` and `let n = counter.member(home)`, `n.fetch_add(&world, 1)?`
/// takes the next number, `n.atomic_load(&world)?` reads it, and `n.swap(&world, 0)?` begins again.
///
/// # Examples
///
/// ```
/// use pgas_core::{Config, Lock, Rank, backend::loopback};
///
/// loopback::run_with(3, &Config::default(), |world| -> pgas_core::Result<()> {
///     let lock = Lock::new(&world, Rank::ZERO)?;
///     let pair = world.alloc_symmetric::<[u64; 2]>(1)?;
///     let pair = pair.on(Rank::ZERO);
///     {
///         let _guard = lock.lock()?;
///         let [n, sum] = pair.get(&world)?;
///         pair.put(&world, [n + 1, sum + n])?;
///     } // the next rank gets the lock, and sees the pair
///     world.barrier()?;
///     assert_eq!(pair.get(&world)?, [3, 0 + 1 + 2]);
///     world.barrier()
/// });
/// ```
///
/// With a limit, or without a wait:
///
/// ```
/// use std::time::Duration;
/// use pgas_core::{Lock, Rank};
///
/// # let world = pgas_core::backend::loopback::world();
/// let lock = Lock::new(&world, Rank::ZERO)?; // collective
/// let guard = lock.lock_within(Duration::from_secs(9))?.expect("nobody has it");
/// guard.unlock()?; // as dropping it, but returns errors
/// assert!(lock.try_lock()?.is_some());
/// assert_eq!(lock.world().n_ranks(), lock.team().n_ranks());
/// # Ok::<(), pgas_core::Error>(())
/// ```
pub struct Lock {
    words: Symmetric<u64>,
    home: Rank,
    /// The number of this rank's thread that holds the lock or waits for it; 0 for none.
    thread: AtomicU64,
}

/// This thread holds the lock while this lives.
#[derive(Debug)]
#[must_use = "the lock is given back when this is dropped"]
pub struct LockGuard<'a> {
    lock: &'a Lock,
    is_released: bool,
    /// The line of the program that has asked for the lock, for waits of the drop.
    at: &'static Location<'static>,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl Lock {
    /// A lock that nobody holds, for all ranks or the members of a team. Each request for it
    /// performs an atomic at `home`, so give locks in frequent use different homes.
    ///
    /// # Cost
    ///
    /// That of [`World::alloc_symmetric`], B, and 3A on this rank's own memory. Collective over the
    /// team.
    ///
    /// # Errors
    ///
    /// As [`World::alloc_symmetric`].
    ///
    /// # Panics
    ///
    /// If there is no rank or member `home`.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::{Config, Lock, backend::loopback};
    ///
    /// loopback::run_with(5, &Config::default(), |world| -> pgas_core::Result<()> {
    ///     let parity = world.rank().number() % 2;
    ///     let team = world.team().split(Some(parity), 0)?.expect("a colour");
    ///     let lock = Lock::new(&team, 0)?; // one lock for each team, at its first member
    ///     let words = team.alloc_symmetric::<u64>(2)?;
    ///     let (sum, counter) = (words.member(1), words.member(0).add(1));
    ///     {
    ///         let _guard = lock.lock()?;
    ///         sum.put(&world, sum.get(&world)? + 1)?;
    ///     }
    ///     counter.fetch_add(&world, 1)?; // one atomic needs no lock
    ///     team.barrier()?;
    ///     assert_eq!(sum.get(&world)?, u64::from(team.n_ranks()));
    ///     assert_eq!(counter.atomic_load(&world)?, u64::from(team.n_ranks()));
    ///     world.barrier()
    /// });
    /// ```
    #[track_caller]
    pub fn new<G: AsTeam>(on: &G, home: G::Member) -> Result<Self> {
        let team = on.as_team();
        let world = team.world();
        if team.is_world() {
            world.assert_rank(Rank::new(home.number()));
        }
        let home = team.world_rank(home.number());
        refuse_in_handler(MAKING)?;
        let _waits = crate::part_of(MAKING);
        team.agree("the home of a lock", u64::from(home.number()))?;
        let words = team.alloc_symmetric::<u64>(N_WORDS)?;
        for word in 0..N_WORDS {
            // The others meet this rank after it.
            let swapped = words.here().add(word).swap(world, 0);
            swapped.map_err(|error| world.give_up(MAKING, error))?;
        }
        team.barrier_within()?;
        Ok(Self {
            words,
            home,
            thread: AtomicU64::new(0),
        })
    }

    /// The world of the ranks that share the lock.
    #[must_use]
    pub fn world(&self) -> &World {
        self.words.world()
    }

    /// The team whose members share the lock; the team of all ranks for a lock on the world.
    #[must_use]
    pub fn team(&self) -> &Team {
        self.words.team()
    }

    /// Waits until this thread has the lock.
    ///
    /// # Cost
    ///
    /// 2A if nobody holds it, one of them on this rank's own memory. Else 4A, one of
    /// them for polling a word in this rank's own memory, however often. One-sided.
    ///
    /// # Errors
    ///
    /// Errors of the transport, or the failure of the job while waiting; [`Error::InHandler`]
    /// inside a handler. This thread does not have the lock then, and others may get it. An error
    /// after which nobody could get it any more fails the job: an atomic on the queue that failed,
    /// or a lock that was granted when the wait had failed, and could not be given back.
    ///
    /// # Panics
    ///
    /// If this thread has it already.
    #[track_caller]
    pub fn lock(&self) -> Result<LockGuard<'_>> {
        let guard = self.lock_until(None)?;
        Ok(guard.expect("a wait without a limit ends with the lock"))
    }

    /// As [`lock`](Self::lock), but gives up after `at_most`, whatever it waits for: the lock,
    /// another thread of this rank, or a release that takes out the place that this rank had given
    /// up.
    ///
    /// A rank that has given up keeps its place in the queue until its turn comes, and no rank
    /// waits for it then.
    ///
    /// # Cost
    ///
    /// As [`lock`](Self::lock), and A to give up. One-sided.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Panics
    ///
    /// As [`lock`](Self::lock).
    #[track_caller]
    pub fn lock_within(&self, at_most: Duration) -> Result<Option<LockGuard<'_>>> {
        self.lock_until(Instant::now().checked_add(at_most))
    }

    /// Takes the lock if nobody holds it. Does not wait.
    ///
    /// # Cost
    ///
    /// 2A, one of them on this rank's own memory; one more there if another rank holds it.
    /// One-sided.
    ///
    /// # Errors
    ///
    /// Errors of the transport; [`Error::InHandler`] inside a handler.
    ///
    /// # Panics
    ///
    /// As [`lock`](Self::lock).
    #[track_caller]
    pub fn try_lock(&self) -> Result<Option<LockGuard<'_>>> {
        self.refuse_handlers()?;
        let Some(thread) = self.take_for_thread() else {
            return Ok(None);
        };
        let world = self.world();
        if self
            .own(STATE)
            .compare_exchange(world, OUT, WAITING)?
            .is_err()
        {
            return Ok(None);
        }
        let entered = || -> Result<bool> {
            let is_free = self.last().compare_exchange(world, 0, self.me())?.is_ok();
            if !is_free {
                self.own(STATE).swap(world, OUT)?;
            }
            Ok(is_free)
        };
        let is_free = entered().map_err(|error| self.give_up(error))?;
        // No closure: it would stand for the program's line.
        Ok(if is_free {
            Some(self.guard(thread))
        } else {
            None
        })
    }

    #[track_caller]
    fn lock_until(&self, deadline: Option<Instant>) -> Result<Option<LockGuard<'_>>> {
        self.refuse_handlers()?;
        let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let mut thread = self.take_for_thread();
        if thread.is_none() {
            let what = "a lock that another thread of this rank has";
            self.world().wait_for(what, || {
                thread = self.take_for_thread();
                Ok(thread.is_some() || is_late())
            })?;
        }
        let Some(thread) = thread else {
            return Ok(None);
        };
        // Handlers run in the waits, and may panic. Others would wait for this rank for ever.
        let _step = self.world().in_step(THE_LOCK);
        let has_it = match self.enter(&is_late)? {
            Entered::TooLate => false,
            Entered::Behind(0) => true,
            Entered::Behind(before) => self.wait(rank_of(before), &is_late)?,
            Entered::Again => self.wait(None, &is_late)?,
        };
        // No closure: it would stand for the program's line.
        Ok(if has_it {
            Some(self.guard(thread))
        } else {
            None
        })
    }

    /// Goes to the end of the queue, unless it is too late by the time that a release has taken
    /// this rank's former place out.
    #[track_caller]
    fn enter(&self, is_late: &dyn Fn() -> bool) -> Result<Entered> {
        let (world, state) = (self.world(), self.own(STATE));
        loop {
            match state.compare_exchange(world, OUT, WAITING)? {
                Ok(_) => break,
                Err(GIVEN_UP) => {
                    if state.compare_exchange(world, GIVEN_UP, WAITING)?.is_ok() {
                        return Ok(Entered::Again);
                    }
                }
                Err(_) => {
                    let (mut is_out, mut is_first) = (false, true);
                    world.wait_for(FORMER_PLACE, || {
                        is_out = state.look(world, mem::take(&mut is_first))? == OUT;
                        Ok(is_out || is_late())
                    })?;
                    if !is_out {
                        return Ok(Entered::TooLate);
                    }
                }
            }
        }
        let entered = || -> Result<u64> {
            let before = self.last().swap(world, self.me())?;
            if let Some(rank) = rank_of(before) {
                self.word(rank, NEXT).swap(world, self.me())?;
                world.backend().notify(rank);
            }
            Ok(before)
        };
        let entered = entered().map(Entered::Behind);
        entered.map_err(|error| self.give_up(error))
    }

    /// The failure of the job, since others wait for this rank.
    #[cold]
    fn give_up(&self, error: Error) -> Error {
        self.world().give_up(THE_LOCK, error)
    }

    /// Waits for the lock in the queue, behind rank `before` if it is known; `false` if it was
    /// given up.
    #[track_caller]
    fn wait(&self, before: Option<Rank>, is_late: &dyn Fn() -> bool) -> Result<bool> {
        let (world, state) = (self.world(), self.own(STATE));
        let missing = || before.into_iter().collect();
        let awaited = Awaited {
            what: THE_LOCK,
            call: None,
            missing: &missing,
            runs_program: false,
        };
        let (mut has_it, mut is_first) = (false, true);
        let waited = world.wait_until(&awaited, || {
            has_it = state.look(world, mem::take(&mut is_first))? == GRANTED;
            Ok(has_it || is_late())
        });
        if has_it {
            return Ok(true);
        }
        self.end_wait(waited)
    }

    /// Gives the place in the queue up after a wait, unless the lock was granted at the last
    /// moment. Then it is kept, or given back if the wait has failed. Returns whether it is kept.
    #[track_caller]
    fn end_wait(&self, waited: Result<()>) -> Result<bool> {
        let given_up = self
            .own(STATE)
            .compare_exchange(self.world(), WAITING, GIVEN_UP);
        match given_up.map_err(|error| self.give_up(error))? {
            Ok(_) => waited.map(|()| false),
            Err(_) if waited.is_ok() => Ok(true),
            Err(_) => {
                // What is not given back stays taken for ever.
                let released = self.release();
                released.map_err(|error| self.give_up(error))?;
                waited.map(|()| false)
            }
        }
    }

    /// Gives the lock to the next rank that waits, or to nobody.
    #[track_caller]
    fn release(&self) -> Result<()> {
        let world = self.world();
        let _step = world.in_step(THE_LOCK);
        world.flush_all()?;
        let mut from = world.rank();
        loop {
            let Some(next) = self.take_out(from)? else {
                return Ok(());
            };
            let state = self.word(next, STATE);
            loop {
                if state.compare_exchange(world, WAITING, GRANTED)?.is_ok() {
                    world.backend().notify(next);
                    return Ok(());
                }
                // Fails if the rank has come again between the two, and waits.
                if state.compare_exchange(world, GIVEN_UP, PASSING)?.is_ok() {
                    break;
                }
            }
            from = next;
        }
    }

    /// Takes the node of `rank`, which is the first one, out of the queue, and returns the rank
    /// behind it.
    #[track_caller]
    fn take_out(&self, rank: Rank) -> Result<Option<Rank>> {
        let (world, number) = (self.world(), number_of(rank));
        let mut next = 0;
        if self.last().compare_exchange(world, number, 0)?.is_err() {
            let link = self.word(rank, NEXT);
            next = link.swap(world, 0)?;
            if next == 0 {
                let what = "the rank that comes next in the queue of a lock";
                let mut is_first = true;
                world.wait_for(
                    what,
                    || Ok(link.look(world, mem::take(&mut is_first))? != 0),
                )?;
                next = link.swap(world, 0)?;
            }
        }
        self.word(rank, STATE).swap(world, OUT)?;
        world.backend().notify(rank);
        Ok(rank_of(next))
    }

    fn refuse_handlers(&self) -> Result<()> {
        if !in_handler() {
            return Ok(());
        }
        let holder = self.thread.load(Ordering::Relaxed);
        let is_own = holder != 0 && holder == thread_number::known();
        let what = if is_own { OWN_LOCK } else { THE_LOCK };
        Err(Error::InHandler { what })
    }

    /// Makes this thread the only one of its rank that may ask for the lock, if no other one is.
    #[track_caller]
    fn take_for_thread(&self) -> Option<OfThread<'_>> {
        let number = thread_number::get();
        // Acquire: pairs with the release in the drop of `OfThread`, to see what the last thread
        // did.
        let taken = self
            .thread
            .compare_exchange(0, number, Ordering::Acquire, Ordering::Relaxed);
        assert!(taken != Err(number), "this thread has the lock already");
        taken.ok().map(|_| OfThread(&self.thread))
    }

    #[track_caller]
    fn guard(&self, thread: OfThread<'_>) -> LockGuard<'_> {
        // The guard frees it.
        thread.keep();
        LockGuard {
            lock: self,
            is_released: false,
            at: Location::caller(),
            _thread: PhantomData,
        }
    }

    fn word(&self, rank: Rank, word: usize) -> GlobalPtr<u64> {
        self.words.on(rank).add(word)
    }

    fn own(&self, word: usize) -> GlobalPtr<u64> {
        self.words.here().add(word)
    }

    fn last(&self) -> GlobalPtr<u64> {
        self.word(self.home, LAST)
    }

    fn me(&self) -> u64 {
        number_of(self.world().rank())
    }
}

fn number_of(rank: Rank) -> u64 {
    u64::from(rank.number()) + 1
}

fn rank_of(number: u64) -> Option<Rank> {
    let index = number.checked_sub(1)?;
    Some(Rank::new(
        u32::try_from(index).expect("the number of a rank"),
    ))
}

/// How a rank has come into the queue.
enum Entered {
    /// At its end, behind the rank of this number; nobody's if the queue was empty.
    Behind(u64),
    /// By a place that it had given up.
    Again,
    /// Not at all: it was too late.
    TooLate,
}

/// This thread is the only one of its rank that may ask for the lock, until this is dropped.
struct OfThread<'a>(&'a AtomicU64);

impl OfThread<'_> {
    #[expect(clippy::mem_forget, reason = "somebody else does what its drop would")]
    fn keep(self) {
        mem::forget(self);
    }
}

impl Drop for OfThread<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

impl LockGuard<'_> {
    /// Releases the lock, as dropping the guard does, but returns errors. (An error in the drop is
    /// the failure of the job.)
    ///
    /// # Cost
    ///
    /// [`flush_all`](World::flush_all), and 2A if nobody waits, 4A if somebody does; 5A more for
    /// each rank that has given up its place. One-sided.
    ///
    /// # Errors
    ///
    /// Errors of the transport, or the failure of the job. The lock may then stay taken for ever,
    /// so the error fails the job.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::{Lock, Rank};
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let lock = Lock::new(&world, Rank::ZERO)?;
    /// let cell = world.alloc::<u64>(1)?;
    /// let guard = lock.lock()?;
    /// let n = cell.get(&world)?;
    /// cell.put(&world, n + 1)?; // complete before the next rank has the lock
    /// guard.unlock()?;
    /// assert_eq!(cell.get(&world)?, 1);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn unlock(mut self) -> Result<()> {
        self.is_released = true;
        let _thread = OfThread(&self.lock.thread);
        let released = self.lock.release();
        released.map_err(|error| self.lock.give_up(error))
    }
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        if self.is_released || self.lock.world().is_forked() {
            return;
        }
        let _thread = OfThread(&self.lock.thread);
        let _waits = part_of_at(RELEASE, self.at);
        if let Err(error) = self.lock.release() {
            // The next wait on any rank returns it.
            drop(self.lock.world().give_up(RELEASE, error));
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // No guard lives, but a leaked one still has the lock.
        if *self.thread.get_mut() == 0 || self.world().is_forked() {
            return;
        }
        if let Err(error) = self.release() {
            drop(self.world().give_up(RELEASE, error));
        }
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lock(home {})", self.home)
    }
}

#[cfg(test)]
mod tests;
