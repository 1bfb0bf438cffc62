//! The job of this process, and the rank of this thread.
//!
//! A process joins one job, once: a second world over the same segment would allocate the same
//! memory again. A second request, for example of a library whose caller has joined already, gets
//! another handle on the world. With the last handle the process leaves for good.

use std::any::Any;
use std::cell::RefCell;
use std::convert::Infallible;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::thread;

use crate::config::{Config, names};
use crate::forked::Process;
use crate::locks::lock;
use crate::{Error, Rank, Result, WeakWorld, World};

/// The world of this process, once it has joined a job.
static OF_PROCESS: Mutex<Option<WeakWorld>> = Mutex::new(None);

thread_local! {
    /// The world of the rank that this thread is, if ranks are threads.
    static OF_THREAD: RefCell<Option<WeakWorld>> = const { RefCell::new(None) };
}

/// The world of this process: made by `join` at the first call, another handle on it afterwards. On
/// a thread that is a rank ([`play`]) it is that rank's world, and `join` is not called.
///
/// A backend's `init` calls it with the function that joins the job. After a failed `join` the next
/// call tries again.
///
/// # Cost
///
/// A lock, which is held while `join` runs.
///
/// # Errors
///
/// Errors of `join`; [`Error::CannotRejoin`] once the last handle has been dropped.
///
/// # Examples
///
/// ```
/// use pgas_core::{Error, backend::loopback, process};
///
/// let world = process::join_once(|| Ok(loopback::world()))?;
/// let again = process::join_once(|| unreachable!("it has joined"))?;
/// let cell = world.alloc::<u64>(1)?;
/// cell.put(&again, 7)?;
/// drop((world, again));
/// let left = process::join_once(|| Ok(loopback::world()));
/// assert!(matches!(left, Err(Error::CannotRejoin { .. })));
/// # Ok::<(), Error>(())
/// ```
pub fn join_once(join: impl FnOnce() -> Result<World>) -> Result<World> {
    // A thread that is ending is no rank any more.
    let of_thread = OF_THREAD.try_with(|world| world.borrow().clone());
    if let Ok(Some(world)) = of_thread {
        return another_handle(&world, "thread");
    }
    let mut of_process = lock(&OF_PROCESS);
    if let Some(world) = &*of_process {
        return another_handle(world, "process");
    }
    let world = join()?;
    *of_process = Some(world.downgrade());
    if world.rank() == Rank::ZERO {
        names::warn_of_unknown();
    }
    Ok(world)
}

/// Runs `body` on this thread as the rank of `world`: in it [`join_once`] returns that world. For
/// backends that run ranks as threads.
///
/// # Cost
///
/// ℓ.
///
/// # Examples
///
/// ```
/// use pgas_core::{backend::loopback, process};
///
/// let world = loopback::world();
/// let same = process::play(&world.downgrade(), || process::join_once(|| unreachable!()))?;
/// assert_eq!(same.rank(), world.rank());
/// # Ok::<(), pgas_core::Error>(())
/// ```
pub fn play<R>(world: &WeakWorld, body: impl FnOnce() -> R) -> R {
    /// Restores the former rank of the thread on drop, also after a panic.
    struct Before(Option<WeakWorld>);
    impl Drop for Before {
        fn drop(&mut self) {
            OF_THREAD.set(self.0.take());
        }
    }
    let _before = Before(OF_THREAD.replace(Some(world.clone())));
    body()
}

/// Runs `body` as the rank of each world, each on a thread of its own, and returns the results in
/// the order of the worlds. For backends that run ranks as threads.
///
/// When `body` returns, its rank leaves the job, also if there are handles on its world still.
///
/// `failed` is called at once on the thread of a rank that panics, with the text of the panic,
/// since other ranks may wait for this one. When all threads have ended, `is_cause` tells which
/// panic caused the others.
///
/// # Cost
///
/// A thread for each rank.
///
/// # Panics
///
/// With the panic of a rank: the first one for which `is_cause` is true, or else the first one. If
/// the system refuses a thread.
///
/// # Examples
///
/// ```
/// use pgas_core::{Config, backend::loopback, process};
///
/// let worlds = loopback::worlds(3, &Config::default())?;
/// let body = |world: pgas_core::World| world.rank().number() * 2;
/// assert_eq!(process::play_all(worlds, &body, &|_, _| {}, &|_, _| true), [0, 2, 4]);
/// # Ok::<(), pgas_core::Error>(())
/// ```
pub fn play_all<R: Send>(
    worlds: Vec<World>,
    body: &(dyn Fn(World) -> R + Sync),
    failed: &(dyn Fn(Rank, &str) + Sync),
    is_cause: &dyn Fn(Rank, &str) -> bool,
) -> Vec<R> {
    let results: Vec<Mutex<Option<R>>> = worlds.iter().map(|_| Mutex::new(None)).collect();
    let run = |world: World| {
        let slot = &results[world.rank().index()];
        let result = body(world);
        *lock(slot) = Some(result);
    };
    if let Some(cause) = play_each(worlds, &run, failed, is_cause) {
        panic::resume_unwind(cause);
    }
    let result = |slot: Mutex<Option<R>>| slot.into_inner().ok().flatten();
    let results = results.into_iter().map(result);
    results
        .map(|result| result.expect("a rank that does not panic has a result"))
        .collect()
}

type Panic = Box<dyn Any + Send>;

/// As [`play_all`]. One function for all kinds of results and bodies: threads are long to compile.
fn play_each(
    worlds: Vec<World>,
    run: &(dyn Fn(World) + Sync),
    failed: &(dyn Fn(Rank, &str) + Sync),
    is_cause: &dyn Fn(Rank, &str) -> bool,
) -> Option<Panic> {
    let own = Process::this();
    let play_one = |world: World| {
        let (rank, as_rank) = (world.rank(), world.downgrade());
        let run_and_leave = || {
            run(world);
            // Its result may have a handle, and is returned when the others have ended, too.
            if let Some(world) = as_rank.upgrade_if_held()
                && !own.is_forked()
            {
                world.leave_held();
            }
        };
        // A handler may panic also while the rank leaves.
        let end = panic::catch_unwind(AssertUnwindSafe(|| play(&as_rank, run_and_leave)));
        end.inspect_err(|panic| {
            // A child that was forked from the rank is none.
            if !own.is_forked() {
                failed(rank, panic_text(&**panic));
            }
        })
    };
    let stack_bytes = Config::stack_bytes();
    let ends: Vec<(Rank, thread::Result<()>)> = thread::scope(|scope| {
        let start = |world: World| {
            let rank = world.rank();
            let thread = thread::Builder::new().name(format!("rank {rank}"));
            let thread = thread.stack_size(stack_bytes);
            let started = thread.spawn_scoped(scope, || play_one(world));
            let refused = |error| {
                let text = format!("the system gives rank {rank} no thread: {error}");
                // The others wait for that rank.
                failed(rank, &text);
                panic_with(&text)
            };
            (rank, started.map_err(refused))
        };
        let running: Vec<_> = worlds.into_iter().map(start).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, thread::Result<()>>| thread.join();
        let join =
            |(rank, started): (_, Result<_, _>)| (rank, started.and_then(join).and_then(|end| end));
        running.into_iter().map(join).collect()
    });
    let panics = ends
        .into_iter()
        .filter_map(|(rank, end)| Some((rank, end.err()?)));
    let mut panics: Vec<(Rank, Panic)> = panics.collect();
    let cause = panics
        .iter()
        .position(|(rank, panic)| is_cause(*rank, panic_text(&**panic)));
    (!panics.is_empty()).then(|| panics.swap_remove(cause.unwrap_or(0)).1)
}

/// A panic with `text`, which is reported as one.
#[cold]
fn panic_with(text: &str) -> Panic {
    match panic::catch_unwind(|| -> Infallible { panic!("{text}") }) {
        Ok(never) => match never {},
        Err(panic) => panic,
    }
}

/// The text of a panic.
#[must_use]
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("with a value that is no text")
}

/// Drops what a panic was caught with. A drop that panics itself must not end the rank that has
/// caught the first one.
pub fn discard_panic(panic: Box<dyn Any + Send>) {
    let dropped = panic::catch_unwind(AssertUnwindSafe(|| drop(panic)));
    // The drop of what that one carries may panic, too.
    let _leaked = ManuallyDrop::new(dropped);
}

fn another_handle(world: &WeakWorld, who: &'static str) -> Result<World> {
    world.upgrade_if_held().ok_or(Error::CannotRejoin { who })
}
