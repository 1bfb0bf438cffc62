//! The bridge to tokio: a task that makes progress concurrently with the program's tasks.

use std::fmt;
use std::future;
use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pgas_core::{WeakWorld, World, notice};
use tokio::task::{AbortHandle, JoinHandle, spawn_blocking};

use crate::state::{Am, am};
use pgas_core::Result;

/// What the job fails in, if the driver does.
const DRIVING: &str = "the driver of its tasks";
/// Rounds without work before the first yield, and before the first sleep: together about a tenth
/// of a millisecond.
const SPINS: u32 = 100;
const YIELDS: u32 = 300;
/// The first sleep while a task waits for an event that no message announces.
const FIRST_NAP: Duration = Duration::from_micros(50);
/// The sleep while no task waits for such an event. Messages end it.
const IDLE_NAP: Duration = Duration::from_millis(10);

/// Makes progress for a rank whose program consists of tokio tasks, so that they can await
/// operations in flight.
///
/// While it lives, [`PgasFuture`](crate::PgasFuture)s and [`Event`](pgas_core::Event)s wake the
/// task that awaits them when they may be ready, instead of asking to be polled again at once. The
/// driver runs on one of tokio's threads for blocking work, and serves the messages of other ranks
/// there. Handlers and remote functions run on this thread, or on another thread that makes
/// progress: one that awaits or waits.
///
/// Calls that wait, such as `barrier` or `PgasFuture::wait`, block their worker thread: await the
/// non-blocking forms instead. Sending waits only while the target has no room.
///
/// A rank has at most one driver at a time. It holds a handle on the world: the rank stays in the
/// job until the driver has ended. A dropped driver ends soon, as does one whose runtime is
/// dropped; [`stop`](Self::stop) waits for its end. Futures that are awaited then go on without it.
///
/// # Cost
///
/// A thread. It polls while there is work and for a tenth of a millisecond after that, then sleeps
/// until a message arrives. A message to a sleeping driver takes some tens of microseconds longer.
/// Asleep it checks the job's health a hundred times a second, which takes 0.2 to 0.4 % of a
/// processor. A transport that cannot wake it (MPI between hosts) is polled instead, and the thread
/// is always busy.
///
/// # Examples
///
/// ```
/// use pgas_am::{Driver, RemoteCalls};
///
/// # let world = pgas_core::backend::loopback::world();
/// # pgas_am::attach(&world)?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// let sum = runtime.block_on(async {
///     let driver = Driver::start(&world)?;
///     let word = world.alloc::<u64>(1)?;
///     let two = world.rpc(world.rank(), |x: u64| x + 1, 1)?.await?;
///     word.atomic_add_nb(&world, two)?.await?;
///     let own = word.get_nb(&world)?.await?;
///     let all = world.allreduce_nb(own, pgas_core::collective::op::Sum).await?;
///     driver.stop().await?;
///     Ok::<_, pgas_am::Error>(all)
/// })?;
/// assert_eq!(sum, 2);
/// # Ok::<(), pgas_am::Error>(())
/// ```
#[must_use = "a driver that is dropped ends"]
pub struct Driver {
    /// `None` once `stop` waits for its end.
    task: Option<JoinHandle<Result<()>>>,
    /// A task of the runtime that holds an [`EndWithRuntime`].
    sentinel: AbortHandle,
    is_over: Arc<AtomicBool>,
    world: World,
}

/// Ends the driver when the runtime is dropped: it drops its tasks, and then waits for its threads
/// for blocking work, of which the driver has one.
struct EndWithRuntime {
    is_over: Arc<AtomicBool>,
    /// Does not keep the rank in the job: an aborted task may live for as long as its runtime.
    world: WeakWorld,
}

impl Drop for EndWithRuntime {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `drive`.
        let was_over = self.is_over.swap(true, Ordering::Release);
        if !was_over && let Some(world) = self.world.upgrade() {
            world.unpark();
        }
    }
}

impl Driver {
    /// Starts the driver of this rank. Not collective: other ranks may have none.
    ///
    /// # Errors
    ///
    /// [`Error::NotAttached`](pgas_core::Error::NotAttached).
    ///
    /// # Panics
    ///
    /// If the rank has a driver already, or if the caller is not inside a tokio runtime.
    #[track_caller]
    pub fn start(world: &World) -> Result<Self> {
        let am = Arc::clone(am(world)?);
        assert!(am.driven.begin(), "rank {} has a driver", world.rank());
        let end = End(am);
        let is_over = Arc::new(AtomicBool::new(false));
        let (world_of_task, is_over_of_task) = (world.clone(), Arc::clone(&is_over));
        let task = spawn_blocking(move || drive(&world_of_task, &end.0, &is_over_of_task));
        let end_with_runtime = EndWithRuntime {
            is_over: Arc::clone(&is_over),
            world: world.downgrade(),
        };
        let sentinel = tokio::spawn(async move {
            let _dropped_with_this_task = end_with_runtime;
            future::pending::<()>().await;
        });
        Ok(Self {
            task: Some(task),
            sentinel: sentinel.abort_handle(),
            is_over,
            world: world.clone(),
        })
    }

    /// Ends the driver, and waits for its end.
    ///
    /// # Errors
    ///
    /// The failure of the job, if that has ended the driver before; else the first error of a
    /// handler, each of which was printed when it came.
    ///
    /// # Panics
    ///
    /// If a handler panicked on its thread. That has failed the job.
    pub async fn stop(mut self) -> Result<()> {
        self.end();
        let Some(task) = self.task.take() else {
            return Ok(());
        };
        match task.await {
            Ok(result) => result,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime ends.
            Err(_) => Ok(()),
        }
    }

    fn end(&self) {
        // Release: pairs with the acquire in `drive`.
        self.is_over.store(true, Ordering::Release);
        self.world.unpark();
        self.sentinel.abort();
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Driver(rank {})", self.world.rank())
    }
}

/// A guard that records the end of a driver, even by a panic.
struct End(Arc<Am>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.driven.end(&self.0.pending);
    }
}

/// The driver's loop.
fn drive(world: &World, am: &Am, is_over: &AtomicBool) -> Result<()> {
    let mut n_idle = 0_u32;
    let mut nap = FIRST_NAP;
    let mut failed = Ok(());
    // Nobody else may serve the other ranks: a panic fails the job, as does an error of the
    // transport.
    let _step = world.in_step(DRIVING);
    // Acquire: pairs with the releases in `Driver::end` and in the drop of `EndWithRuntime`.
    while !is_over.load(Ordering::Acquire) {
        let worked = world.serve();
        let worked = worked.map_err(|error| world.give_up(DRIVING, error))?;
        if let Err(error) = world.check_handlers() {
            notice::tell(&format_args!("rank {}: {error}", world.rank()));
            failed = failed.and(Err(error));
            continue;
        }
        if worked {
            am.driven.wake_pollers();
            (n_idle, nap) = (0, FIRST_NAP);
            continue;
        }
        n_idle = n_idle.saturating_add(1);
        if n_idle <= SPINS {
            hint::spin_loop();
        } else if n_idle <= SPINS + YIELDS {
            thread::yield_now();
        } else if am.driven.wake_pollers() {
            // Poll again after the sleep: another thread, or a network that announces nothing, may
            // have completed what the tasks wait for.
            world.park(nap);
            nap = (nap * 2).min(world.longest_sleep());
        } else {
            world.park(IDLE_NAP.max(world.longest_sleep()));
        }
    }
    failed
}
