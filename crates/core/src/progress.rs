//! Progress: within calls of the program, and by a thread of the library for programs that compute
//! for long between calls.

use std::any::Any;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{self, AssertUnwindSafe, Location};
use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::backend::{NeedsTarget, OpId, Stage};
use crate::error::{Error, Result};
use crate::handler::in_handler;
use crate::messages::{BATCH, BUSY_ROUNDS};
use crate::process::panic_text;
use crate::waits::{Awaited, is_part};
use crate::world::World;

/// Looks at memory of this rank for each round of progress.
const LOOKS: u32 = 16;

/// Rounds of progress in which a rank that is about to leave serves late messages.
const LAST_ROUNDS: u32 = 1 << 14;

/// While this guard lives, its thread runs the rank's handlers. From [`World::serve_here`].
#[derive(Debug)]
#[must_use = "the choice of this thread ends when this is dropped"]
pub struct Serving<'w> {
    world: &'w World,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.world.servers().dismiss();
        // Others may serve now.
        self.world.unpark();
    }
}

impl World {
    /// Sleeps until a message arrives for this rank, a barrier ends, another thread or rank
    /// [wakes](Self::unpark) it, or `at_most` is over. For a program's own loop around
    /// [`progress`](Self::progress). May return early. It misses an `unpark` that comes before it
    /// sleeps.
    ///
    /// A transport that cannot wake a sleeper is polled instead. A thread that runs no handlers
    /// ([`serve_here`](Self::serve_here)) sleeps until one that does has served something.
    ///
    /// # Cost
    ///
    /// Two system calls; with active messages also a search of up to 1,024 calls in flight for ranks
    /// that have left. A sleeper wakes some tens of microseconds after the message.
    pub fn park(&self, at_most: Duration) {
        let longest = self.layer_above().and_then(|layer| layer.longest_nap());
        let at_most = longest.map_or(at_most, |longest| longest.min(at_most));
        if !at_most.is_zero() {
            self.nap(at_most);
        }
    }

    /// Sleeps until there may be something for this thread to do.
    pub(crate) fn nap(&self, at_most: Duration) {
        if !self.has_work_before_sleep() {
            self.sleep(at_most);
        }
    }

    /// Whether the layer has found work for this thread, which was about to sleep. It may run code
    /// of the program.
    fn has_work_before_sleep(&self) -> bool {
        let layer = self.layer_above().filter(|_| !in_handler());
        self.servers().has_this_thread() && layer.is_some_and(|layer| layer.before_sleep(self))
    }

    fn sleep(&self, at_most: Duration) {
        if self.servers().has_this_thread() {
            self.backend().park(at_most);
        } else {
            // It may miss a wake-up.
            self.servers().sleep(at_most.min(self.longest_sleep()));
        }
    }

    /// Ends [`park`](Self::park) in the other threads of this rank.
    ///
    /// # Cost
    ///
    /// A fence and a load; a system call if somebody sleeps.
    pub fn unpark(&self) {
        self.backend().notify(self.rank());
        self.servers().wake();
    }

    /// From here on, until the guard is dropped, this rank's handlers run on this thread alone:
    /// remote functions, spawned tasks and actions chained to futures (UPC++'s master persona).
    /// With several guards they run on the threads of the guards. Without any, as at the start of a
    /// program, they run on every thread that makes progress.
    ///
    /// Data that handlers share with this thread may then be thread-local, and needs no lock
    /// against other threads. Other threads serve no messages any more, and what they wait for
    /// arrives only while a chosen thread makes [`progress`](Self::progress). The report of a long
    /// wait says so (`PGAS_STALL`). A thread that ends, even without dropping its guard, is no
    /// longer chosen. Operators of collectives, and wakers, still run on any thread.
    ///
    /// # Cost
    ///
    /// A lock. Later a round of progress takes a few instructions more on a chosen thread, and two
    /// locks on the other threads, which may wake [`longest_sleep`](Self::longest_sleep) late.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use std::thread;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let is_over = AtomicBool::new(false);
    /// thread::scope(|threads| {
    ///     threads.spawn(|| -> pgas_core::Result<()> {
    ///         let _handlers = world.serve_here();
    ///         while !is_over.load(Ordering::Acquire) {
    ///             if !world.progress()? {
    ///                 world.park(std::time::Duration::from_millis(1));
    ///             }
    ///         }
    ///         Ok(())
    ///     });
    ///     // What this thread waits for is served by the other one.
    ///     let met = world.barrier();
    ///     is_over.store(true, Ordering::Release);
    ///     world.unpark();
    ///     met
    /// })?;
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn serve_here(&self) -> Serving<'_> {
        self.servers().choose(Location::caller());
        Serving {
            world: self,
            _thread: PhantomData,
        }
    }

    /// Serves messages that have arrived and advances operations in flight, without waiting;
    /// returns whether there was any work. Every call that waits does this itself.
    ///
    /// In a handler only the transport works. What consists of several operations, such as a
    /// collective, a strided transfer or a put with a signal, goes on when the handler is over: chain
    /// to it instead of asking whether it is complete.
    ///
    /// # Errors
    ///
    /// Errors of the transport; the oldest error of a handler that no call has returned yet, such
    /// as a message for a handler that was not set; the failure of the job, if there was no work or
    /// much of it, so that a loop around this call ends with the job.
    pub fn progress(&self) -> Result<bool> {
        let worked = self.serve()?;
        self.first_untold()?;
        Ok(worked)
    }

    /// As [`progress`](Self::progress), but leaves the errors of handlers to later calls: for loops
    /// whose end must not be missed, since others wait for it.
    ///
    /// # Errors
    ///
    /// Errors of the transport; the failure of the job, if there was no work.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// while world.serve()? {}
    /// world.check_handlers()?; // none has failed
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    pub fn serve(&self) -> Result<bool> {
        let worked = self.advance()?;
        self.look_after(worked)
    }

    /// As [`serve`](Self::serve), with one look at the network, where that may take several: for
    /// loops that have work of their own.
    ///
    /// # Errors
    ///
    /// As [`serve`](Self::serve).
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// for _part in 0..10 {
    ///     // A part of the work, and then what others need of this rank.
    ///     world.serve_once()?;
    /// }
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    pub fn serve_once(&self) -> Result<bool> {
        let worked = self.advance_once()?;
        self.look_after(worked)
    }

    /// Looks after the job's health, if there was no work or much of it.
    fn look_after(&self, worked: bool) -> Result<bool> {
        if self.n_busy_after(worked).is_multiple_of(BUSY_ROUNDS) {
            self.backend().health()?;
        }
        Ok(worked)
    }

    /// The oldest error of a handler that no call of this rank has returned yet. Waits go on when a
    /// handler fails; [`progress`](Self::progress) returns the error, and so do calls of the
    /// program that begin with this one, and barriers when they are over. What is left is printed
    /// when the rank leaves the job.
    ///
    /// Returns nothing in a handler, in a part of a larger call ([`part_of`](crate::part_of)),
    /// whose other parts would be missing, and on a thread that runs no handlers
    /// ([`serve_here`](Self::serve_here)).
    ///
    /// # Errors
    ///
    /// That one.
    ///
    /// # Panics
    ///
    /// With the panic of a handler on the library's own thread, if that comes first.
    ///
    /// # Cost
    ///
    /// ℓ.
    #[inline]
    pub fn check_handlers(&self) -> Result<()> {
        if self.untold().has_some() && !is_part() {
            return self.first_untold();
        }
        Ok(())
    }

    /// As [`check_handlers`](Self::check_handlers), also in a part of a larger call.
    pub(crate) fn first_untold(&self) -> Result<()> {
        if !self.untold().has_some() || in_handler() || !self.servers().has_this_thread() {
            return Ok(());
        }
        self.untold().take().map_or(Ok(()), Err)
    }

    /// Leaves an error of a message to a call that [returns](Self::check_handlers) it.
    ///
    /// # Cost
    ///
    /// A lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// world.tell_later(pgas_core::Error::HasLeft);
    /// assert!(world.check_handlers().is_err() && world.check_handlers().is_ok());
    /// ```
    #[cold]
    pub fn tell_later(&self, error: Error) {
        self.untold().add(error);
    }

    /// [Serves](Self::serve) at every sixteenth call, where others reach this rank's
    /// memory only while it makes some, and unless this thread is in a handler. Containers call it
    /// after a look at memory of this rank, which needs nobody: a program that looks again and
    /// again, for what others are to bring, serves them so.
    ///
    /// # Errors
    ///
    /// As [`serve`](Self::serve).
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let inbox = world.alloc::<u64>(1)?;
    /// let mut looks = 0;
    /// while inbox.get(&world)? == 0 && looks < 100 {
    ///     world.look_around()?;
    ///     looks += 1;
    /// }
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    pub fn look_around(&self) -> Result<()> {
        let is_needed = self.capabilities().needs_target != NeedsTarget::NOTHING;
        // Relaxed: it only spreads the calls.
        let is_turn = || self.looks().fetch_add(1, Relaxed).is_multiple_of(LOOKS);
        if is_needed && !in_handler() && is_turn() {
            self.serve()?;
        }
        Ok(())
    }

    /// As [`serve`](Self::serve), for a loop that checks the job's health itself.
    pub(crate) fn advance(&self) -> Result<bool> {
        let worked = self.receive(BATCH)?;
        Ok(self.advance_rest()? || worked)
    }

    /// As [`advance`](Self::advance), with one look at the network.
    pub(crate) fn advance_once(&self) -> Result<bool> {
        let mut worked = self.receive(BATCH)?;
        if self.backend().progress_once()? {
            self.receive(BATCH)?;
            worked = true;
        }
        Ok(self.advance_own()? || worked)
    }

    /// Progress besides serving messages that had arrived before.
    pub(crate) fn advance_rest(&self) -> Result<bool> {
        let has_come = self.take_in()?;
        Ok(self.advance_own()? || has_come)
    }

    /// Lets the transport work, and serves the messages that it has taken in: their senders wait.
    #[inline]
    pub(crate) fn take_in(&self) -> Result<bool> {
        let worked = self.backend().progress()?;
        if worked {
            self.receive(BATCH)?;
        }
        Ok(worked)
    }

    /// Progress of this rank's own work; none in a handler, as it runs code of the program, and
    /// some transports wait in a test.
    pub(crate) fn advance_own(&self) -> Result<bool> {
        if in_handler() {
            return Ok(false);
        }
        let mut worked = self.advance_layer()?;
        worked |= self.tasks().advance();
        self.orphans().reap(|op| self.is_over(op));
        Ok(worked)
    }

    /// Keeps the buffers of an operation whose event was dropped until it is over.
    pub(crate) fn adopt(&self, op: OpId, buffers: Box<dyn Any + Send>) {
        // As in `advance_own`.
        let is_over = |op| !in_handler() && self.is_over(op);
        self.orphans().adopt(op, buffers, is_over);
    }

    /// Whether an operation whose event was dropped is over: a failed one is, too.
    pub(crate) fn is_over(&self, op: OpId) -> bool {
        self.backend().test(op, Stage::Operation).unwrap_or(true)
    }

    /// Runs `future` to its end on this thread, making progress meanwhile. What it does itself does
    /// not count as waiting (`PGAS_STATS`, `PGAS_TRACE`).
    ///
    /// After an error the future is dropped. Operations that it has begun go on without it: an atomic
    /// may change its word later, and its result is lost.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting, and the end of
    /// [`Config::timeout`](crate::Config::timeout); [`Error::InHandler`](crate::Error::InHandler) inside a
    /// handler.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let cell = world.alloc::<u64>(1)?;
    /// let sum = world.block_on(async {
    ///     cell.put_nb(&world, 40)?.await?;
    ///     Ok::<_, pgas_core::Error>(cell.get_nb(&world)?.await? + 2)
    /// })??;
    /// assert_eq!(sum, 42);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output> {
        let mut future = pin!(future);
        let mut cx = Context::from_waker(Waker::noop());
        let mut output = None;
        let awaited = Awaited {
            runs_program: true,
            ..Awaited::new("a future")
        };
        self.wait_until(&awaited, || {
            if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
                output = Some(value);
            }
            Ok(output.is_some())
        })?;
        match output {
            Some(output) => Ok(output),
            None => unreachable!("the wait ended because the future is ready"),
        }
    }

    /// Serves arrived messages, and sends those that the layer holds back, before the rank leaves.
    pub(crate) fn settle(&self) -> Result<()> {
        let mut waiting = self
            .own_wait("what this rank has to send before it leaves")
            .with_short_rounds();
        let mut n_rounds = 0_u32;
        loop {
            // Others may send for ever.
            while self.serve()? && n_rounds < LAST_ROUNDS {
                n_rounds += 1;
            }
            if self.is_idle() {
                return Ok(());
            }
            waiting.pause(&Vec::new)?;
        }
    }

    /// Starts the thread that makes progress; it uses this handle, which is not counted, and ends
    /// with the last counted one.
    pub(crate) fn start_progress_thread(self) -> Result<()> {
        let name = format!("progress of rank {}", self.rank());
        let handles = self.clone_uncounted();
        let run = move || {
            while let Some(round) = self.handles().begin_round() {
                let serve = || {
                    let served = self.serve();
                    let has_work = matches!(served, Ok(true)) || self.has_work_before_sleep();
                    (served, has_work)
                };
                let served = panic::catch_unwind(AssertUnwindSafe(serve));
                drop(round);
                match served {
                    // The program's own next call meets it, as it meets the end of a job.
                    Ok((Err(_), _)) if self.backend().health().is_err() => return,
                    Ok((_, true)) => {}
                    Ok((_, false)) => self.sleep(self.longest_sleep()),
                    Err(payload) => return self.end_by(payload),
                }
            }
        };
        handles.handles().start(name, run)
    }

    /// A panic on the progress thread is one of the rank: the others are told at once, and the
    /// program's next call resumes it.
    #[cold]
    fn end_by(&self, payload: Box<dyn Any + Send>) {
        let cause = format!("panicked: {}", panic_text(&*payload));
        // Another rank's failure may be recorded already; the next wait reports it.
        drop(self.backend().blame(self.rank(), &cause));
        self.untold().add_panic(payload);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::Instant;

    use super::*;
    use crate::backend::{HandlerId, Message, MessageClass, Sent};
    use crate::config::{Config, Progress};
    use crate::loopback;
    use crate::world::Layer;

    #[derive(Debug)]
    struct PanicsBeforeSleep;

    impl Layer for PanicsBeforeSleep {
        fn deliver(&self, _: &World, _: Message<'_>) -> Result<()> {
            Ok(())
        }

        fn advance(&self, _: &World) -> Result<bool> {
            Ok(false)
        }

        fn accepts_requests(&self) -> bool {
            true
        }

        fn before_sleep(&self, _: &World) -> bool {
            panic!("a waker of the program");
        }
    }

    #[test]
    fn progress_in_a_handler_runs_no_task() {
        const HANDLER: HandlerId = HandlerId(HandlerId::N_RESERVED);
        let world = loopback::world();
        let [is_inside, was_polled, is_over] = [const { AtomicBool::new(false) }; 3].map(Arc::new);
        let (inside, polled) = (Arc::clone(&is_inside), Arc::clone(&was_polled));
        let over = Arc::clone(&is_over);
        world.tasks().spawn(poll_fn(move |_| {
            polled.fetch_or(inside.load(Relaxed), Relaxed);
            if over.load(Relaxed) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        }));
        let over = Arc::clone(&is_over);
        world.set_handler(HANDLER, move |world, _| {
            is_inside.store(true, Relaxed);
            assert!(!world.progress().unwrap() && !world.serve_once().unwrap());
            is_inside.store(false, Relaxed);
            over.store(true, Relaxed);
        });
        let sent = world.try_send(world.rank(), MessageClass::Request, HANDLER, &[]);
        assert_eq!(sent.unwrap(), Sent::Accepted);
        world
            .wait_for("the handler and the task", || {
                Ok(is_over.load(Relaxed) && !world.tasks().has_some())
            })
            .unwrap();
        assert!(!was_polled.load(Relaxed));
    }

    #[test]
    fn a_panic_before_the_sleep_of_the_progress_thread_is_one_of_the_rank() {
        let config = Config {
            progress: Progress::Thread,
            ..Config::default()
        };
        let world = loopback::worlds(1, &config).unwrap().remove(0);
        world.attach(Box::new(PanicsBeforeSleep));
        let began = Instant::now();
        while world.backend().health().is_ok() && began.elapsed() < Duration::from_secs(60) {
            thread::yield_now();
        }
        let error = world.backend().health().unwrap_err().to_string();
        assert!(
            error.contains("panicked: a waker of the program"),
            "{error}"
        );
    }
}
