//! Calls to other threads of the same rank.
//!
//! A thread that takes calls has a queue, which its handles share. It runs the queued calls
//! whenever it makes progress. When the thread ends the queue is closed, and the calls in it fail.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use pgas_core::process::discard_panic;
use pgas_core::{Error, Result, World, as_handler, in_handler};

use crate::future::PgasFuture;
use crate::future::task::{Setter, pending};
use crate::panics::panicked;
use crate::state::{Am, Handle, am};

/// The maximum number of calls that wait for one thread.
const MOST: usize = 1 << 16;

/// A call; it gets the reason if it is not run.
type Call = Box<dyn FnOnce(Result<()>) + Send>;

/// A handle on a thread of this rank, to which other threads hand calls; from
/// [`LocalCalls::this_thread`].
///
/// It may be sent to any thread of the process, and does not keep its thread alive.
#[derive(Clone)]
pub struct ThreadHandle(Arc<Queue>);

impl fmt::Debug for ThreadHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ThreadHandle({:?})", self.0.name)
    }
}

/// The calls that wait for a thread.
struct Queue {
    name: Box<str>,
    /// The rank of the thread.
    rank: Handle,
    /// The calls that wait for any thread of that rank.
    n_queued: Arc<AtomicUsize>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: VecDeque<Call>,
    /// The thread has ended.
    is_closed: bool,
}

thread_local! {
    /// The queues of this thread, one for each rank for which it takes calls.
    static OWN: Own = const { Own(RefCell::new(Vec::new())) };
}

/// Closes the queues of a thread when it ends.
struct Own(RefCell<Vec<Arc<Queue>>>);

impl Drop for Own {
    fn drop(&mut self) {
        for queue in self.0.take() {
            queue.close();
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the call that `make` makes, if there is room.
    fn push(&self, make: impl FnOnce() -> Call) -> Result<bool> {
        let mut state = self.lock();
        if state.is_closed {
            drop(state);
            return Err(self.ended());
        }
        let has_room = state.calls.len() < MOST;
        if has_room {
            state.calls.push_back(make());
            self.n_queued.fetch_add(1, Ordering::Relaxed);
        }
        Ok(has_room)
    }

    fn pop(&self) -> Option<Call> {
        let call = self.lock().calls.pop_front()?;
        self.n_queued.fetch_sub(1, Ordering::Relaxed);
        Some(call)
    }

    /// Runs the calls that are there now, each under the rules for handlers.
    fn run(&self) -> bool {
        let n_calls = self.lock().calls.len();
        let has_some = n_calls > 0;
        for _ in 0..n_calls {
            let Some(call) = self.pop() else { break };
            as_handler(|| call(Ok(())));
        }
        has_some
    }

    fn close(&self) {
        self.lock().is_closed = true;
        while let Some(call) = self.pop() {
            // The thread ends: a panic in the drop of a value has no place to go.
            let told = catch_unwind(AssertUnwindSafe(|| call(Err(self.ended()))));
            told.unwrap_or_else(discard_panic);
        }
    }

    #[cold]
    fn ended(&self) -> Error {
        let name = self.name.clone();
        Error::ThreadEnded { name }
    }

    #[cold]
    fn full(&self) -> Error {
        let n_calls = u32::try_from(MOST).expect("a small number");
        let name = self.name.clone();
        Error::ThreadFull { name, n_calls }
    }
}

impl Am {
    /// The queue of this thread, if it has one.
    fn own_queue(&self) -> Option<Arc<Queue>> {
        let find = |own: &Own| {
            let queues = own.0.borrow();
            queues
                .iter()
                .find(|queue| queue.rank == self.handle)
                .cloned()
        };
        // A thread that is ending has none any more.
        OWN.try_with(find).ok().flatten()
    }

    /// Runs calls that other threads have left for this one, and says whether there were any.
    #[inline]
    pub(crate) fn run_local_calls(&self, world: &World) -> bool {
        // Relaxed: a hint; a thread that adds a call wakes this one.
        self.n_local_calls.load(Ordering::Relaxed) > 0 && self.run_own_calls(world)
    }

    #[cold]
    fn run_own_calls(&self, world: &World) -> bool {
        let queue = self.own_queue();
        queue.is_some_and(|queue| world.run_watched(|| queue.run()))
    }

    /// Whether other threads leave calls for this one, and whether some are there.
    pub(crate) fn takes_local_calls(&self) -> Option<bool> {
        let queue = self.own_queue()?;
        Some(!queue.lock().calls.is_empty())
    }
}

/// Calls among the threads of a rank; in the prelude.
///
/// Calls of *other ranks* run on the threads that
/// [`World::serve_here`](pgas_core::World::serve_here) chooses.
pub trait LocalCalls: Borrow<World> {
    /// A handle on this thread. From here on other threads may hand it calls, which it runs when it
    /// makes progress.
    ///
    /// # Cost
    ///
    /// ℓ, with an allocation the first time.
    ///
    /// # Errors
    ///
    /// [`Error::NotAttached`].
    fn this_thread(&self) -> Result<ThreadHandle> {
        let world: &World = self.borrow();
        let am = am(world)?;
        if let Some(queue) = am.own_queue() {
            return Ok(ThreadHandle(queue));
        }
        let queue = Arc::new(Queue {
            name: thread::current().name().unwrap_or("without a name").into(),
            rank: am.handle,
            n_queued: Arc::clone(&am.n_local_calls),
            state: Mutex::default(),
        });
        let has_left = |queue: &mut Arc<Queue>| queue.rank.get().is_none();
        let old = OWN.try_with(|own| {
            let mut queues = own.0.borrow_mut();
            let old: Vec<_> = queues.extract_if(.., has_left).collect();
            queues.push(Arc::clone(&queue));
            old
        });
        // A thread that is ending takes no calls.
        let closed = old.unwrap_or_else(|_| vec![Arc::clone(&queue)]);
        closed.iter().for_each(|queue| queue.close());
        Ok(ThreadHandle(queue))
    }

    /// Runs `call` on another thread of this rank, and returns a future of its value (UPC++'s `lpc`
    /// to a persona).
    ///
    /// It runs when that thread makes progress, in the order of the calls, under the rules for
    /// handlers: a wait in it returns [`Error::InHandler`]. If it panics, the future has
    /// [`Error::RemotePanic`] of this rank. If the thread ends first, the future has
    /// [`Error::ThreadEnded`]. [`quiet`](crate::quiet) waits for the call. A thread may call
    /// itself.
    ///
    /// At most 65,536 calls wait for a thread. Then the caller waits for room, and runs its own
    /// calls meanwhile.
    ///
    /// Progress: user level while there is no room, else none.
    ///
    /// # Cost
    ///
    /// ℓ, with two allocations, and a system call if a thread of the rank sleeps.
    ///
    /// # Errors
    ///
    /// [`Error::ThreadEnded`]; [`Error::ThreadFull`] inside a handler, which may not wait for room;
    /// the failure of the job while waiting; [`Error::NotAttached`].
    ///
    /// # Panics
    ///
    /// If `thread` belongs to another rank. (Ranks that are threads of one process can exchange
    /// handles.)
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::thread;
    ///
    /// use pgas_am::LocalCalls;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// # pgas_am::attach(&world)?;
    /// let (give, take) = mpsc::channel();
    /// let worker = thread::spawn({
    ///     let world = world.clone();
    ///     move || -> pgas_am::Result<u32> {
    ///         drop(give.send(world.this_thread()?));
    ///         let mut n_rounds = 0;
    ///         while n_rounds == 0 {
    ///             n_rounds += u32::from(world.progress()?); // runs this thread's calls
    ///         }
    ///         Ok(n_rounds)
    ///     }
    /// });
    /// let worker_thread = take.recv().expect("the worker lives");
    /// let name = world.local_call(&worker_thread, || thread::current().id())?;
    /// assert_eq!(name.wait()?, worker.thread().id());
    /// assert_eq!(worker.join().expect("no panic")?, 1);
    /// # Ok::<(), pgas_am::Error>(())
    /// ```
    #[track_caller]
    fn local_call<R: Send + 'static>(
        &self,
        thread: &ThreadHandle,
        call: impl FnOnce() -> R + Send + 'static,
    ) -> Result<PgasFuture<R>> {
        let world: &World = self.borrow();
        let (am, ThreadHandle(queue)) = (am(world)?, thread);
        assert!(
            queue.rank == am.handle,
            "{thread:?} is no thread of rank {}",
            world.rank()
        );
        let (future, value) = pending(am);
        let mut unmade = Some((call, value, am.transfers.begin()));
        let rank = world.rank();
        let mut push = || {
            queue.push(|| {
                let (call, value, running) = unmade.take().expect("made once");
                boxed(move |told| {
                    run(told, rank, call, value);
                    // The call counts as unfinished until the actions on its value have run.
                    drop(running);
                })
            })
        };
        if !push()? {
            if in_handler() {
                return Err(queue.full());
            }
            world.wait_for("room for a call of another thread of this rank", push)?;
        }
        world.unpark();
        Ok(future)
    }
}

// The methods above have the world by its `Borrow` of itself.
impl LocalCalls for World {}

fn boxed(call: impl FnOnce(Result<()>) + Send + 'static) -> Call {
    Box::new(call)
}

/// Runs a call, unless it was `told` not to, and sets its value.
fn run<R: Send + 'static>(
    told: Result<()>,
    rank: pgas_core::Rank,
    call: impl FnOnce() -> R,
    value: Setter<R>,
) {
    let result = match told {
        // The call's captures are dropped before its value is visible.
        Err(error) => {
            drop(call);
            Err(error)
        }
        Ok(()) => catch_unwind(AssertUnwindSafe(call)).map_err(|payload| panicked(rank, payload)),
    };
    value.set(result);
}

#[cfg(test)]
mod tests {
    use std::mem::ManuallyDrop;
    use std::sync::mpsc;

    use pgas_core::backend::loopback;

    use super::*;
    use crate::RemoteCalls;

    fn world() -> World {
        let world = loopback::world();
        crate::attach(&world).unwrap();
        world
    }

    #[test]
    fn a_thread_that_ends_fails_what_waits_for_it_and_what_comes_later() {
        let world = world();
        let (give, take) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let ending = thread::Builder::new().name("short".into()).spawn({
            let world = world.clone();
            move || {
                give.send(world.this_thread().unwrap()).unwrap();
                // It never makes progress.
                ends.recv().unwrap();
            }
        });
        let short = take.recv().unwrap();
        let kept = Arc::new(());
        let (held, value) = (Arc::clone(&kept), Arc::clone(&kept));
        let queued = world.local_call(&short, move || drop(held)).unwrap();
        let chained = world.local_call(&short, move || value).unwrap();
        let chained = chained.then(|_| ());
        end.send(()).unwrap();
        ending.unwrap().join().unwrap();
        for waited in [queued.wait(), chained.wait()] {
            let Err(Error::ThreadEnded { name }) = waited else {
                panic!("{waited:?}");
            };
            assert_eq!(&*name, "short");
        }
        assert_eq!(Arc::strong_count(&kept), 1);
        let late = world.local_call(&short, || ());
        assert!(matches!(late, Err(Error::ThreadEnded { .. })));
        crate::quiet(&world).unwrap();
    }

    #[test]
    fn a_full_queue_makes_room_by_its_own_thread_and_refuses_handlers() {
        let world = world();
        let here = world.this_thread().unwrap();
        for _ in 0..MOST {
            drop(world.local_call(&here, || ()).unwrap());
        }
        let refused = as_handler(|| world.local_call(&here, || ()));
        let Err(Error::ThreadFull { n_calls, .. }) = refused else {
            panic!("{:?}", refused.map(drop));
        };
        assert_eq!(n_calls, 1 << 16);
        // Waits for room, which its own progress makes.
        let last = world.local_call(&here, || 7).unwrap();
        assert_eq!(last.wait().unwrap(), 7);
        crate::quiet(&world).unwrap();
        assert_eq!(here.0.n_queued.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_panic_is_the_value_and_the_calls_behind_it_run() {
        let world = world();
        let here = world.this_thread().unwrap();
        let broken = world.local_call(&here, || -> u32 { panic!("on purpose") });
        let waits = {
            let world = world.clone();
            world.clone().local_call(&here, move || world.barrier())
        };
        let behind = world.local_call(&here, || 3).unwrap();
        let Err(Error::RemotePanic(panic)) = broken.unwrap().wait() else {
            panic!("it panicked");
        };
        assert!(panic.message == "on purpose" && panic.location.contains(file!()));
        let waited = waits.unwrap().wait().unwrap();
        assert!(matches!(waited, Err(Error::InHandler { .. })));
        assert_eq!(behind.wait().unwrap(), 3);
    }

    #[test]
    #[should_panic(expected = "is no thread of rank 0")]
    fn a_thread_of_another_rank_is_refused() {
        let (one, other) = (world(), world());
        let here = one.this_thread().unwrap();
        drop(other.local_call(&here, || ()));
    }

    #[test]
    fn only_chosen_threads_run_handlers_and_a_choice_ends_with_its_thread() {
        let world = world();
        let (started, starts) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let chosen = thread::spawn({
            let world = world.clone();
            move || {
                // Never dropped, as in a program with a mistake.
                let _forgotten = ManuallyDrop::new(world.serve_here());
                started.send(thread::current().id()).unwrap();
                while ends.try_recv().is_err() {
                    world.progress().unwrap();
                }
            }
        });
        let server = starts.recv().unwrap();
        let here = thread::current().id();
        let whose = || world.spawn(async { Ok(thread::current().id()) });
        // A task runs where handlers do; a local call where it was sent to.
        assert_eq!(whose().wait().unwrap(), server);
        let own = world.this_thread().unwrap();
        let called = world.local_call(&own, || thread::current().id()).unwrap();
        assert_eq!(called.wait().unwrap(), here);
        assert_eq!(
            world
                .rpc(world.rank(), |x: u64| x + 1, 1)
                .unwrap()
                .wait()
                .unwrap(),
            2
        );
        end.send(()).unwrap();
        chosen.join().unwrap();
        assert_eq!(whose().wait().unwrap(), here);
    }
}
