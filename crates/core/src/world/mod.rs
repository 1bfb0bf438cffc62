//! One rank's view of the job: its number, its segment, and its access to the other ranks.
//!
//! On the path of an operation this file comes first: a launcher's backend becomes a [`World`], the
//! world's [`segment`] gives out a [`GlobalPtr`], and [`rma`](crate::rma) or
//! [`atomics`](crate::atomics) follow it, directly where the peer's segment is mapped and through
//! the [`Backend`] elsewhere.

mod counting;
mod end;
mod memory;
#[cfg(test)]
mod near_tests;
mod reach;

use std::any::Any;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError, Weak};
use std::task::Waker;
use std::time::Duration;

use crate::backend::{Backend, Capabilities, Message, TimedBackend};
use crate::config::{Config, Progress};
use crate::error::Result;
use crate::full::FullMailboxes;
use crate::handler::Handlers;
use crate::handles::{Counted, Handles};
use crate::locks::lock;
use crate::lookout;
use crate::members::{Shared, Teams};
use crate::orphans::Orphans;
use crate::rank::Rank;
use crate::raw::map::{EvenMap, SegmentMap};
use crate::refused::Refused;
use crate::running::Running;
use crate::segment::{self, Heap};
use crate::serving::Servers;
use crate::spares::Spares;
use crate::stats::{Counting, FirstSet, Now, Opening, Purpose, Works};
use crate::tasks::Tasks;
use crate::trace::{Trace, Wanted};
use crate::untold::Untold;
use crate::waits::Watch;
use crate::wire::Wire;
use reach::{direct_ranks, fast_map, maps};

/// A crate above core that extends every world, such as active messages: it has messages of its own
/// ([`HandlerId::LAYER`](crate::backend::HandlerId::LAYER)), and works whenever the rank makes
/// progress. See [`World::attach`].
///
/// # Examples
///
/// None: `pgas-am` is the layer of programs.
pub trait Layer: Any + fmt::Debug + Send + Sync {
    /// Takes a message for one of the layer's handlers. It may send, but not wait: a wait inside of
    /// it returns [`Error::InHandler`](crate::Error::InHandler).
    ///
    /// # Errors
    ///
    /// The reason why the message cannot be used; the call that made progress returns it.
    fn deliver(&self, world: &World, message: Message<'_>) -> Result<()>;

    /// Does pending work, without waiting, and says whether there was any. Every
    /// [`World::progress`] calls it, so it must cost little when there is none.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    fn advance(&self, world: &World) -> Result<bool>;

    /// Whether requests may be served now. A layer says no while answers of its own wait for room
    /// at their targets. So it never has more of such answers than one batch of requests causes.
    fn accepts_requests(&self) -> bool;

    /// Does the work that other threads of the rank have left for this one, without waiting, and
    /// says whether there was any. Called instead of [`advance`](Self::advance) on a thread that
    /// runs no handlers ([`World::serve_here`]).
    fn advance_thread(&self, world: &World) -> bool {
        let _ = world;
        false
    }

    /// The longest time that this thread may sleep at once, if other threads may leave work for it:
    /// such work does not always wake a sleeper. Zero if there is some now.
    fn longest_nap(&self) -> Option<Duration> {
        None
    }

    /// Called on a thread that runs handlers and is about to sleep. Looks for what nobody announces,
    /// and says whether there was any: then the thread does not sleep.
    fn before_sleep(&self, world: &World) -> bool {
        let _ = world;
        false
    }

    /// The object that the running handler works on, for the report of a handler that does not
    /// return.
    fn running(&self) -> Option<String> {
        None
    }

    /// Whether the layer has sent all that it has to send, also when operations in flight are
    /// complete. The rank stays in the job until then.
    fn is_idle(&self) -> bool {
        true
    }

    /// Records a message that arrived too late: the rank was leaving, and served no messages any
    /// more.
    fn refuse(&self, message: &Message<'_>) {
        let _ = message;
    }

    /// Called when the rank has left while the program has handles on its world: no message comes
    /// any more. Not called for a rank that leaves with the last handle.
    fn left(&self) {}

    /// Called when the rank has left, in good order.
    fn end(&self) {}

    /// Drops what is left when the program has dropped its last handle, such as a wait for a signal
    /// that never comes, or an action on an answer: it may hold the world, which would stay.
    fn forget_tasks(&self) {}

    /// Keeps the waker of a task that waits for an operation, and says whether the layer will wake
    /// it after the next progress. If not, the task asks to be polled again at once.
    fn wake_after_progress(&self, world: &World, waker: &Waker) -> bool {
        let _ = (world, waker);
        false
    }
}

/// The function that a message runs at its target.
type Handler = dyn Fn(&World, Message<'_>) + Send + Sync;

/// One rank's handle on the job.
///
/// It is cheap to clone and may be used by any thread of the rank. When the last clone is dropped
/// the rank leaves the job.
///
/// # Examples
///
/// The properties of a job:
///
/// ```
/// # let world = pgas_core::backend::loopback::world();
/// assert!(world.ranks().eq([world.rank()])); // the one rank of this example
/// assert_eq!(world.backend_name(), "loopback");
/// assert!(world.capabilities().max_medium > 0 && world.segment_bytes() > 0);
/// assert!(world.config().direct && !world.has_left(world.rank()));
/// let weak = world.downgrade(); // does not keep the rank in the job
/// assert!(weak.upgrade().is_some());
/// let direct = world.ranks().filter(|rank| world.is_direct(*rank)).count();
/// assert_eq!((direct, world.has_direct_atomics()), (0, false)); // as over a network
/// ```
///
/// Pieces of memory, and its use:
///
/// ```
/// use pgas_core::rma::Fragment;
///
/// # let world = pgas_core::backend::loopback::world();
/// let array = world.alloc::<u64>(12)?;
/// let pieces = [Fragment { ptr: array, len: 1 }, Fragment { ptr: array.add(4), len: 2 }];
/// world.put_fragments(&pieces, &[1, 2, 3])?;
/// world.put_indexed(array, &[8, 10], 2, &[4, 5, 6, 7])?;
/// world.flush(world.rank())?; // complete there; `flush_all` is for all ranks
/// let (mut a, mut b) = ([0; 3], [0; 4]);
/// world.get_fragments(&pieces, &mut a)?;
/// world.get_indexed(array, &[8, 10], 2, &mut b)?;
/// assert_eq!((a, b), ([1, 2, 3], [4, 5, 6, 7]));
/// let heap = world.local_heap_use();
/// assert!(heap.used >= 96 && heap.used + heap.free == heap.capacity);
/// let page = world.alloc_symmetric_aligned::<u8>(10, 4096)?; // collective
/// assert_eq!(page.here().offset_bytes() % 4096, 0);
/// assert!(world.symmetric_heap_use().used >= 10);
/// drop(page);
/// world.reclaim()?; // collective
/// world.flush_all()?;
/// # Ok::<(), pgas_core::Error>(())
/// ```
///
/// Operations are counted where statistics are on:
///
/// ```
/// use pgas_core::{Config, Statistics, backend::loopback};
///
/// let mut config = Config::default();
/// config.statistics = Statistics::Total;
/// loopback::run_with(1, &config, |world| {
///     let cell = world.alloc::<u64>(1)?;
///     let before = world.costs();
///     cell.put(&world, 7)?;
///     cell.fetch_add(&world, 1)?;
///     let costs = world.costs() - before;
///     assert_eq!((costs.writes, costs.atomics, costs.bytes), (1, 1, 16));
///     assert!(world.is_counting() && world.costs_with(world.rank()).is_none()); // not of each peer
///     let mut looks = 0;
///     world.wait_for("three looks", || {
///         looks += 1;
///         Ok(looks == 3)
///     })
/// })
/// # .into_iter().for_each(|result| result.unwrap());
/// ```
pub struct World {
    inner: Arc<Inner>,
    /// What this handle counts as. One that is not counted is the progress thread's, or that of a
    /// dropped event.
    counted: Counted,
    /// What its operations are counted for.
    purpose: Purpose,
}

/// A handle that does not keep the rank in the job, for values that may outlive the program's
/// interest in it, such as a future that is never waited for.
#[derive(Clone, Debug)]
pub struct WeakWorld {
    inner: Weak<Inner>,
}

impl WeakWorld {
    /// The world, unless the rank has left the job.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let weak = world.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// drop(world);
    /// assert!(weak.upgrade().is_none());
    /// ```
    #[must_use]
    pub fn upgrade(&self) -> Option<World> {
        let inner = self.inner.upgrade()?;
        Some(World {
            counted: inner.handles.count_handle(),
            purpose: inner.purpose,
            inner,
        })
    }

    /// The world, if the program has a handle on it still.
    pub(crate) fn upgrade_if_held(&self) -> Option<World> {
        let inner = self.inner.upgrade()?;
        Some(World {
            counted: inner.handles.count_handle_if_held()?,
            purpose: inner.purpose,
            inner,
        })
    }
}

/// The layer above the core.
#[derive(Debug, Default)]
struct Above {
    layer: OnceLock<Arc<dyn Layer>>,
    /// Held by the thread that attaches the layer.
    attaching: Mutex<()>,
}

#[derive(Debug)]
struct Inner {
    /// The maps of the fast path: as the two maps below, for segments in one mapping.
    fast_memory: EvenMap,
    fast_words: EvenMap,
    /// Counters of near operations on single values.
    first_set: FirstSet,
    /// What operations are counted for without a name.
    purpose: Purpose,
    /// Whose segments are read and written directly, and whose words are changed by this CPU. The
    /// two differ where the network's atomics are not coherent with the CPU's.
    memory: SegmentMap,
    words: SegmentMap,
    segment_bytes: u64,
    counting: Option<Arc<Counting>>,
    trace: Option<Arc<Trace>>,
    /// Whether one of the two is there.
    is_observed: bool,
    /// Kept while operations are observed.
    full: FullMailboxes,
    rank: Rank,
    n_ranks: u32,
    local: Mutex<Heap>,
    symmetric: Mutex<Heap>,
    spares: Spares,
    handlers: Handlers<Handler>,
    servers: Servers,
    above: Above,
    /// Collectives in flight.
    tasks: Tasks,
    /// Shared with each put in flight that a signal follows, of those since the last reclaim.
    signals: Mutex<Arc<()>>,
    orphans: Orphans,
    refused: Refused,
    untold: Untold,
    wire: Arc<Wire>,
    members: Arc<Shared>,
    teams: Teams,
    /// Teams that this rank was asked to name.
    n_teams: AtomicU64,
    /// Calls of [`World::look_around`].
    n_looks: AtomicU32,
    /// Calls of [`World::serve`] in a row that have found work.
    n_busy: AtomicU32,
    handles: Handles,
    watch: Arc<Watch>,
    /// This rank's activity and its long work, where a watcher of the job reads them.
    told: (Now, Works),
    running: Arc<Running>,
    config: Config,
    /// A copy of the backend's capabilities: every message needs them.
    capabilities: Capabilities,
    backend: Arc<dyn Backend>,
}

impl World {
    /// The world over `backend`; the facade's `init` and a backend's launcher call this.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`](crate::Error::Setting) if the segment is smaller than
    /// [`segment::MIN_SEGMENT_BYTES`] or larger than a [`GlobalPtr`](crate::GlobalPtr) can address,
    /// or if the path of the [statistics](Config::statistics_file) is too long.
    pub fn new(backend: Arc<dyn Backend>, config: Config) -> Result<Self> {
        let segment_bytes = backend.segment_bytes();
        segment::check_size(segment_bytes)?;
        let direct = direct_ranks(&*backend, &config);
        let (memory, words) = maps(&*backend, direct.clone());
        let (symmetric, local) = segment::heap_ranges(segment_bytes);
        let (counting, trace) = observers(&*backend, &config)?;
        let backend = timed(backend, counting.as_ref());
        let (counts, is_observed) = (counting.as_ref(), counting.is_some() || trace.is_some());
        let fast = |map: &SegmentMap| fast_map(&*backend, map, direct.clone(), counts.is_some());
        let wire = Wire::new(&backend, (counts, trace.as_ref()), (&config, &direct));
        let watch = Arc::<Watch>::default();
        let inner = Arc::new(Inner {
            fast_memory: fast(&memory),
            fast_words: fast(&words),
            first_set: counts.map_or_else(FirstSet::unread, |counting| counting.first_set()),
            purpose: counts.map_or(Purpose::NOTHING, |counting| counting.purpose()),
            memory,
            words,
            segment_bytes,
            is_observed,
            full: FullMailboxes::of(&*backend, is_observed),
            counting,
            trace,
            rank: backend.rank(),
            n_ranks: backend.n_ranks(),
            local: Mutex::new(Heap::new("local", local)),
            symmetric: Mutex::new(Heap::new("symmetric", symmetric)),
            spares: Spares::default(),
            handlers: Handlers::default(),
            servers: Servers::default(),
            above: Above::default(),
            tasks: Tasks::default(),
            signals: Mutex::default(),
            orphans: Orphans::default(),
            refused: Refused::default(),
            untold: Untold::default(),
            wire: Arc::new(wire),
            members: Arc::new(Shared::world(&*backend)),
            teams: Teams::default(),
            n_teams: AtomicU64::new(0),
            n_looks: AtomicU32::new(0),
            n_busy: AtomicU32::new(0),
            handles: Handles::default(),
            running: Running::new(&backend, &config, &watch),
            watch,
            told: told(&*backend),
            config,
            capabilities: backend.capabilities().clone(),
            backend,
        });
        let world = Self {
            counted: inner.handles.count_handle(),
            purpose: inner.purpose,
            inner,
        };
        if world.config().progress == Progress::Thread {
            world.clone_uncounted().start_progress_thread()?;
        }
        Ok(world)
    }

    /// This process's rank.
    #[must_use]
    #[inline]
    pub fn rank(&self) -> Rank {
        self.inner.rank
    }

    /// The number of ranks of the job.
    #[must_use]
    #[inline]
    pub fn n_ranks(&self) -> u32 {
        self.inner.n_ranks
    }

    /// All ranks, in order.
    pub fn ranks(&self) -> impl ExactSizeIterator<Item = Rank> + Clone + use<> {
        (0..self.inner.n_ranks).map(Rank::new)
    }

    /// The rank after `rank`; after the last comes the first.
    ///
    /// # Panics
    ///
    /// If `rank` is no rank of the job.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pgas_core::{Config, Rank, backend::loopback};
    /// loopback::run_with(3, &Config::default(), |world| {
    ///     let next = world.rank_after(world.rank());
    ///     assert_eq!(world.rank_before(next), world.rank());
    ///     assert_eq!(world.rank_after(Rank::new(2)), Rank::ZERO);
    /// });
    /// ```
    #[must_use]
    #[track_caller]
    pub fn rank_after(&self, rank: Rank) -> Rank {
        self.assert_rank(rank);
        Rank::new((rank.number() + 1) % self.n_ranks())
    }

    /// The rank before `rank`; before the first comes the last.
    ///
    /// # Panics
    ///
    /// If `rank` is no rank of the job.
    #[must_use]
    #[track_caller]
    pub fn rank_before(&self, rank: Rank) -> Rank {
        self.assert_rank(rank);
        Rank::new(rank.number().checked_sub(1).unwrap_or(self.n_ranks() - 1))
    }

    /// Panics unless `rank` is a rank of the job.
    ///
    /// # Panics
    ///
    /// If the job has no such rank, with the number and those that there are.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::Rank;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// world.assert_rank(Rank::ZERO);
    /// ```
    #[inline]
    #[track_caller]
    pub fn assert_rank(&self, rank: Rank) {
        if rank.number() >= self.inner.n_ranks {
            no_such_rank(rank, self.inner.n_ranks - 1);
        }
    }

    /// The job's settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// The number of calls of [`look_around`](Self::look_around).
    pub(crate) fn looks(&self) -> &AtomicU32 {
        &self.inner.n_looks
    }

    /// Calls of [`serve`](Self::serve) in a row that have found work, after one that has `worked` or
    /// not.
    pub(crate) fn n_busy_after(&self, worked: bool) -> u32 {
        // Relaxed, and not exact: it only spreads checks.
        let before = self.inner.n_busy.load(Ordering::Relaxed);
        let n_busy = if worked { before.wrapping_add(1) } else { 0 };
        if n_busy != before {
            self.inner.n_busy.store(n_busy, Ordering::Relaxed);
        }
        n_busy
    }

    /// The abilities of the transport and its demands on ranks.
    #[must_use]
    #[inline]
    pub fn capabilities(&self) -> &Capabilities {
        &self.inner.capabilities
    }

    /// The transport's name.
    #[must_use]
    pub fn backend_name(&self) -> &'static str {
        self.inner.backend.name()
    }

    /// The size of every rank's segment in bytes.
    #[must_use]
    #[inline]
    pub fn segment_bytes(&self) -> u64 {
        self.inner.segment_bytes
    }

    /// A handle that does not keep this rank in the job.
    #[must_use]
    pub fn downgrade(&self) -> WeakWorld {
        WeakWorld {
            inner: Arc::downgrade(&self.inner),
        }
    }

    /// Whether `rank` has left the job in good order, and every message that it sent to this rank
    /// has been served. No rank has left a job in good order that has failed.
    ///
    /// # Panics
    ///
    /// If the job has no such rank.
    #[must_use]
    #[track_caller]
    pub fn has_left(&self, rank: Rank) -> bool {
        self.assert_rank(rank);
        // In this order: a rank may leave because the job has failed.
        self.backend().has_left(rank) && self.backend().health().is_ok()
    }

    /// Ends the whole job at once: prints `message`, ends every rank, and makes `code` the job's
    /// exit code. The system keeps the lowest eight bits of a code; if these are 0, which would be
    /// success, the code is 1.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # let world = pgas_core::backend::loopback::world();
    /// let Ok(input) = std::fs::read("reads.fastq") else {
    ///     world.abort(2, "there is no reads.fastq");
    /// };
    /// ```
    pub fn abort(&self, code: i32, message: &str) -> ! {
        if let Some(trace) = self.trace() {
            trace.flush();
        }
        self.tell_statistics(Some(&format!("rank {} ended it: {message}", self.rank())));
        let is_success = code & 0xff == 0;
        self.backend()
            .abort(if is_success { 1 } else { code }, message)
    }

    #[inline]
    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.inner.backend
    }

    /// The backend, for values that may outlive the world.
    pub(crate) fn shared_backend(&self) -> Arc<dyn Backend> {
        Arc::clone(&self.inner.backend)
    }

    /// The handlers of messages.
    pub(crate) fn handlers(&self) -> &Handlers<Handler> {
        &self.inner.handlers
    }

    /// The layer that was attached.
    #[inline]
    pub(crate) fn layer_above(&self) -> Option<&Arc<dyn Layer>> {
        self.inner.above.layer.get()
    }

    /// To be held by a thread that attaches a layer, if it takes more than [`attach`](Self::attach)
    /// to do so; `None` while another thread holds it. That one may wait for what only this thread
    /// serves ([`serve_here`](Self::serve_here)), so this one makes progress until it has it.
    ///
    /// # Cost
    ///
    /// A lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let mut attaching = None;
    /// world.wait_for("another thread that attaches", || {
    ///     attaching = world.try_attaching();
    ///     Ok(attaching.is_some())
    /// })?;
    /// // Ask the other ranks, and then attach the layer.
    /// drop(attaching);
    /// # Ok::<(), pgas_core::Error>(())
    /// ```
    pub fn try_attaching(&self) -> Option<MutexGuard<'_, ()>> {
        match self.inner.above.attaching.try_lock() {
            Ok(held) => Some(held),
            Err(TryLockError::Poisoned(panicked)) => Some(panicked.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Attaches the layer, and says whether it is the first one.
    pub(crate) fn set_layer(&self, layer: Arc<dyn Layer>) -> bool {
        self.inner.above.layer.set(layer).is_ok()
    }

    /// The number of this handle's name in the statistics, or 0.
    #[inline]
    pub(crate) fn label(&self) -> u16 {
        self.purpose.label()
    }

    /// The counters, if operations are counted.
    #[inline]
    pub(crate) fn counting(&self) -> Option<&Counting> {
        self.inner.counting.as_deref()
    }

    /// As [`trace`](Self::trace), for values that may outlive this handle.
    pub(crate) fn shared_trace(&self) -> Option<&Arc<Trace>> {
        self.inner.trace.as_ref()
    }

    /// As [`counting`](Self::counting), to keep.
    pub(crate) fn shared_counting(&self) -> Option<Arc<Counting>> {
        self.inner.counting.clone()
    }

    /// Whether operations are counted or traced.
    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        self.inner.is_observed
    }

    /// The trace, if operations are traced.
    #[inline]
    pub(crate) fn trace(&self) -> Option<&Trace> {
        self.inner.trace.as_deref()
    }

    /// Collectives in flight.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.inner.tasks
    }

    /// For a put that a signal follows, which keeps it until the signal is at its target.
    pub(crate) fn begin_signal(&self) -> Arc<()> {
        Arc::clone(&lock(&self.inner.signals))
    }

    /// What the puts in flight share that a signal follows. Later ones share another one.
    pub(crate) fn take_signals(&self) -> Arc<()> {
        mem::take(&mut *lock(&self.inner.signals))
    }

    /// A handle that keeps the world alive, but not the rank in the job.
    pub(crate) fn clone_uncounted(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            counted: Counted::Not,
            purpose: self.purpose,
        }
    }

    pub(crate) fn handles(&self) -> &Handles {
        &self.inner.handles
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.inner.watch
    }

    /// This rank's activity, where a watcher of the job reads it.
    pub(crate) fn now(&self) -> &Now {
        &self.inner.told.0
    }

    /// Long work of this rank's.
    pub(crate) fn works(&self) -> &Works {
        &self.inner.told.1
    }

    pub(crate) fn running(&self) -> &Arc<Running> {
        &self.inner.running
    }

    /// The threads that run this rank's handlers.
    #[inline]
    pub(crate) fn servers(&self) -> &Servers {
        &self.inner.servers
    }

    /// Errors of served messages that no call has returned yet.
    #[inline]
    pub(crate) fn untold(&self) -> &Untold {
        &self.inner.untold
    }

    pub(crate) fn orphans(&self) -> &Orphans {
        &self.inner.orphans
    }

    pub(crate) fn wire(&self) -> &Arc<Wire> {
        &self.inner.wire
    }

    pub(crate) fn members(&self) -> &Arc<Shared> {
        &self.inner.members
    }

    pub(crate) fn teams(&self) -> &Teams {
        &self.inner.teams
    }

    /// A number, from 1, for a team whose first member is this rank.
    pub(crate) fn next_team(&self) -> u64 {
        // A count: it orders nothing.
        self.inner.n_teams.fetch_add(1, Ordering::Relaxed) + 1
    }
}

type Observers = (Option<Arc<Counting>>, Option<Arc<Trace>>);

/// The counters and the trace that the settings ask for.
fn observers(backend: &dyn Backend, config: &Config) -> Result<Observers> {
    config.check_statistics_file()?;
    let opening = Opening {
        statistics: config.statistics,
        rank: backend.rank(),
        n_ranks: backend.n_ranks(),
        segment_bytes: backend.segment_bytes(),
        table: config.statistics_table,
        latencies: config.statistics_latencies,
        file: config.statistics_file.as_deref(),
    };
    let counting = Counting::new(&opening, || backend.board(backend.rank()));
    let trace = config.trace.as_deref().and_then(|directory| {
        let wanted = Wanted {
            directory,
            bytes: config.trace_bytes,
            rank: backend.rank(),
            n_ranks: backend.n_ranks(),
        };
        let trace = Arc::new(Trace::begin(wanted)?);
        // A rank that parks until it is written to is a simulated node, which has one thread.
        if !backend.parks_until_written() {
            lookout::look_after(&trace);
        }
        Some(trace)
    });
    Ok((counting, trace))
}

/// The backend, or a wrapper that times its operations if the settings ask for it.
fn timed(backend: Arc<dyn Backend>, counting: Option<&Arc<Counting>>) -> Arc<dyn Backend> {
    match counting.filter(|counting| counting.is_timing()) {
        Some(counting) => Arc::new(TimedBackend::new(backend, Arc::clone(counting))),
        None => backend,
    }
}

/// The places where this rank publishes its activity and its long work.
fn told(backend: &dyn Backend) -> (Now, Works) {
    let rank = backend.rank();
    let now = Now::begin(backend.board(rank), rank, backend.n_ranks());
    (now, Works::default())
}

#[cold]
#[track_caller]
fn no_such_rank(rank: Rank, last: u32) -> ! {
    panic!("rank {rank} was named, but the job has ranks 0 to {last}");
}

impl Clone for World {
    #[inline]
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            counted: self.inner.handles.count_handle(),
            purpose: self.purpose,
        }
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "World(rank {} of {}, {})",
            self.inner.rank,
            self.inner.n_ranks,
            self.inner.backend.name()
        )
    }
}
