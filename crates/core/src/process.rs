//! Which job this process is in, and which rank this thread plays.
//!
//! A process joins one job, once: a second world over the same segment would hand out the same memory
//! again. Who asks again gets another handle on the world, as a library does whose caller has joined
//! already. With the last handle the process leaves for good.

use std::cell::RefCell;
use std::sync::Mutex;

use crate::config::names;
use crate::world::lock;
use crate::{Error, Rank, Result, WeakWorld, World};

/// The world of this process, once it has joined a job.
static OF_PROCESS: Mutex<Option<WeakWorld>> = Mutex::new(None);

thread_local! {
    /// The world of the rank that this thread plays, if ranks are threads.
    static OF_THREAD: RefCell<Option<WeakWorld>> = const { RefCell::new(None) };
}

/// The world of this process: made by `join` at the first call, another handle on it afterwards. On a
/// thread that is a rank ([`play`]) it is that rank's world, and `join` is not called.
///
/// A launcher's `init` is this around what joins the job. After a `join` that failed the next call tries
/// again.
///
/// # Cost
///
/// A lock, which is held while `join` runs.
///
/// # Errors
///
/// What `join` reports; [`Error::HasLeft`] once the last handle has been dropped.
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
/// assert!(matches!(left, Err(Error::HasLeft { .. })));
/// # Ok::<(), Error>(())
/// ```
pub fn join_once(join: impl FnOnce() -> Result<World>) -> Result<World> {
    let of_thread = OF_THREAD.with_borrow(Clone::clone);
    if let Some(world) = of_thread {
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

/// Runs `body` on this thread as the rank of `world`: [`join_once`] on it gives that world. For what runs
/// ranks as threads.
///
/// # Cost
///
/// l.
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
    /// Gives the thread back what it played before, also after a panic.
    struct Before(Option<WeakWorld>);
    impl Drop for Before {
        fn drop(&mut self) {
            OF_THREAD.set(self.0.take());
        }
    }
    let _before = Before(OF_THREAD.replace(Some(world.clone())));
    body()
}

fn another_handle(world: &WeakWorld, who: &'static str) -> Result<World> {
    world.upgrade_if_held().ok_or(Error::HasLeft { who })
}
