//! One rank's view of the job: who it is, its segment, and the way to the others.
//!
//! On the path of an operation this file comes first: a launcher's backend becomes a [`World`], the
//! world's [`segment`] gives out a [`GlobalPtr`], and [`rma`](crate::rma) or
//! [`atomics`](crate::atomics) follow it, directly where the peer's segment is mapped and through the
//! [`Backend`] elsewhere.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use crate::backend::{AtomicsBy, Backend, Capabilities};
use crate::collective::Wire;
use crate::config::Progress;
use crate::cost::{CostKind, Counting};
use crate::engine::{BATCH, Engine, in_handler};
use crate::event::Orphans;
use crate::progress::ProgressThread;
use crate::raw::map::{EvenMap, SegmentMap};
use crate::running::Running;
use crate::segment::{self, Heap, SymmetricHeap};
use crate::stall::Watch;
use crate::team;
use crate::wait::Awaited;
use crate::{Config, Costs, Error, GlobalPtr, Rank, Result};

/// Rounds of yielding, for a rank that has to wait before it can leave, and its naps after these.
const LEAVING_YIELDS: u32 = 400;
const LEAVING_NAP: Duration = Duration::from_millis(1);
/// Rounds of progress in which a rank that is about to leave serves what still comes.
const LAST_ROUNDS: u32 = 1 << 14;

/// One rank's handle on the job.
///
/// It is cheap to clone and may be used by any thread of the rank. When the last clone is dropped
/// the rank leaves the job.
pub struct World {
    inner: Arc<Inner>,
    /// Whether this is a handle of the program, and not the progress thread's.
    is_counted: bool,
}

/// A handle that does not keep the rank in the job: for what may outlive the program's interest in it, such
/// as a future that is never waited for.
#[derive(Clone, Debug)]
pub struct WeakWorld {
    inner: Weak<Inner>,
}

impl WeakWorld {
    /// The world, unless the rank has left the job.
    #[must_use]
    pub fn upgrade(&self) -> Option<World> {
        let inner = self.inner.upgrade()?;
        inner.progress.count_handle();
        Some(World {
            inner,
            is_counted: true,
        })
    }

    /// The world, if the program has a handle on it still.
    pub(crate) fn upgrade_if_held(&self) -> Option<World> {
        let inner = self.inner.upgrade()?;
        let is_counted = inner.progress.count_handle_if_held();
        is_counted.then(|| World { inner, is_counted })
    }
}

#[derive(Debug)]
struct Inner {
    /// What most accesses look at: what the two maps below say of segments in one mapping, or nothing
    /// while operations are counted, so that an access pays for counting only when it is on.
    fast_memory: EvenMap,
    fast_words: EvenMap,
    /// Whose segments are read and written directly, and whose words are changed by this CPU. The
    /// two differ where the network's atomics are not coherent with the CPU's.
    memory: SegmentMap,
    words: SegmentMap,
    segment_bytes: u64,
    counting: Option<Arc<Counting>>,
    rank: Rank,
    n_ranks: u32,
    local: Mutex<Heap>,
    symmetric: Mutex<SymmetricHeap>,
    engine: Engine,
    orphans: Orphans,
    wire: Arc<Wire>,
    team: Arc<team::Shared>,
    /// Teams that this rank was asked to name.
    n_teams: AtomicU64,
    progress: ProgressThread,
    watch: Arc<Watch>,
    running: Arc<Running>,
    config: Config,
    /// What the backend says of itself, which every message asks for.
    capabilities: Capabilities,
    backend: Arc<dyn Backend>,
}

impl World {
    /// The world over `backend`; the facade's `init` and a backend's launcher call this.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] if the segment is smaller than [`segment::MIN_SEGMENT_BYTES`] or larger
    /// than a [`GlobalPtr`](crate::GlobalPtr) can address.
    pub fn new(backend: Arc<dyn Backend>, config: Config) -> Result<Self> {
        let segment_bytes = backend.segment_bytes();
        if !(segment::MIN_SEGMENT_BYTES..=1 << 40).contains(&segment_bytes) {
            let reason = "a segment has 64K to 1T bytes";
            return Err(Error::setting(
                "PGAS_SEGMENT",
                segment_bytes.to_string(),
                reason,
            ));
        }
        let (memory, words) = maps(&*backend, &config);
        let (symmetric, local) = segment::heap_ranges(segment_bytes);
        let counting = Counting::new(config.statistics, backend.n_ranks());
        let fast = |map: &SegmentMap| {
            let is_used = counting.is_none() && map.base(backend.rank()).is_some();
            if is_used {
                EvenMap::of(&*backend)
            } else {
                EvenMap::empty()
            }
        };
        let wire = Wire::new(&backend, counting.as_ref(), &config);
        let team = team::Shared::world(&*backend);
        let watch = Arc::<Watch>::default();
        let inner = Inner {
            fast_memory: fast(&memory),
            fast_words: fast(&words),
            memory,
            words,
            segment_bytes,
            counting,
            rank: backend.rank(),
            n_ranks: backend.n_ranks(),
            local: Mutex::new(Heap::new("local", local)),
            symmetric: Mutex::new(SymmetricHeap::new(Heap::new("symmetric", symmetric))),
            engine: Engine::default(),
            orphans: Orphans::default(),
            wire: Arc::new(wire),
            team: Arc::new(team),
            n_teams: AtomicU64::new(0),
            progress: ProgressThread::default(),
            running: Running::new(&backend, &config, &watch),
            watch,
            config,
            capabilities: backend.capabilities().clone(),
            backend,
        };
        let inner = Arc::new(inner);
        let world = Self {
            inner,
            is_counted: true,
        };
        world.inner.progress.count_handle();
        if world.config().progress == Progress::Thread {
            let inner = Arc::clone(&world.inner);
            world.inner.progress.start(Self {
                inner,
                is_counted: false,
            })?;
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

    /// The job's settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// What the transport can do, and what it needs of its ranks.
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

    /// Whether loads and stores of this process reach the memory of `rank` without the backend.
    #[must_use]
    pub fn is_direct(&self, rank: Rank) -> bool {
        self.inner.memory.base(rank).is_some()
    }

    /// Whether this world's atomics are CPU atomics (else they all go through the backend).
    #[must_use]
    pub fn has_direct_atomics(&self) -> bool {
        self.inner.words.base(self.rank()).is_some()
    }

    /// The size of every rank's segment in bytes.
    #[must_use]
    #[inline]
    pub fn segment_bytes(&self) -> u64 {
        self.inner.segment_bytes
    }

    /// Waits until every rank has come here, with all their earlier puts and atomics complete: a
    /// [`flush_all`](Self::flush_all), then a meeting. (MPI's and UPC++'s barriers do not flush.)
    ///
    /// # Cost
    ///
    /// B. Collective over the world.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting; [`Error::InHandler`] inside a handler, where the rank does not
    /// enter the barrier.
    #[track_caller]
    pub fn barrier(&self) -> Result<()> {
        if in_handler() {
            return Err(Error::InHandler { what: "a barrier" });
        }
        self.count(CostKind::Barrier, None, 1, 0);
        self.flush_for_all()?;
        if self.config().check {
            return self.team().meet();
        }
        let begun = self.backend().barrier_begin();
        let Some(ticket) = self.or_all_fail("a barrier", begun)? else {
            return self.team().meet();
        };
        let missing = || self.backend().barrier_missing(ticket);
        let awaited = Awaited {
            what: "a barrier",
            number: Some(ticket.0),
            missing: &missing,
        };
        let waited = match self.backend().barrier_test(ticket) {
            // Who comes last does not wait, and serves the others all the same.
            Ok(true) => self.advance().map(drop),
            Ok(false) => self.wait_until(&awaited, || self.backend().barrier_test(ticket)),
            Err(error) => Err(error),
        };
        self.or_all_fail("a barrier", waited)
    }

    /// The flush of a barrier, for which the others wait.
    pub(crate) fn flush_for_all(&self) -> Result<()> {
        self.or_all_fail("the flush of a barrier", self.flush_all())
    }

    /// The outcome of a part of a collective; an error fails the job, since the others wait for this rank.
    fn or_all_fail<T>(&self, what: &'static str, outcome: Result<T>) -> Result<T> {
        outcome.map_err(|error| self.give_up(what, error))
    }

    /// What this rank returns for an `error` in `what` that leaves work undone which other ranks
    /// wait for: the failure of the job, by which they are told. For who builds on one-sided
    /// operations, once others may depend on this rank, such as when it has taken a lock; before
    /// that an error can be returned as it is.
    ///
    /// Returns `error`; ranks that wait, and this one when it waits again, get
    /// [`RankFailed`](crate::Error::RankFailed), which has its text.
    ///
    /// # Cost
    ///
    /// What the transport does to end a job.
    #[cold]
    #[must_use]
    pub fn give_up(&self, what: &str, error: Error) -> Error {
        self.inner.wire.give_up(what, error)
    }

    /// Waits until this rank's earlier puts and atomics on `rank` are complete there.
    ///
    /// # Cost
    ///
    /// A fence on a direct peer, a round trip elsewhere. One-sided.
    ///
    /// # Errors
    ///
    /// What the transport reports.
    #[inline]
    pub fn flush(&self, rank: Rank) -> Result<()> {
        self.backend().flush(rank)
    }

    /// Waits until all of this rank's earlier puts and atomics are complete at their targets.
    ///
    /// # Cost
    ///
    /// A fence over shared memory, a round trip elsewhere. One-sided.
    ///
    /// # Errors
    ///
    /// What the transport reports.
    #[inline]
    pub fn flush_all(&self) -> Result<()> {
        self.backend().flush_all()
    }

    /// Serves what has arrived and advances what is in flight, without waiting; says whether there
    /// was any. Every call that waits does this itself.
    ///
    /// # Errors
    ///
    /// What the transport reports, or a message for a handler that nobody registered; the failure of the
    /// job when there was nothing to do, so that a loop around this call does not outlive it.
    pub fn progress(&self) -> Result<bool> {
        let worked = self.advance()?;
        if !worked {
            self.backend().health()?;
        }
        Ok(worked)
    }

    /// As [`progress`](Self::progress), for a loop that looks at the job's health itself.
    pub(crate) fn advance(&self) -> Result<bool> {
        let worked = self.inner.engine.receive(self, BATCH)?;
        Ok(self.advance_rest()? || worked)
    }

    /// What there is to do besides serving messages.
    pub(crate) fn advance_rest(&self) -> Result<bool> {
        let mut worked = self.backend().progress()?;
        worked |= self.inner.engine.advance_layer(self)?;
        worked |= self.inner.engine.tasks.advance();
        self.inner.orphans.reap(|op| {
            // An operation that failed is over too, and nobody is left to tell.
            self.backend()
                .test(op, crate::backend::Stage::Operation)
                .unwrap_or(true)
        });
        Ok(worked)
    }

    /// Serves what has come, and sends what the layer has kept, before the rank leaves.
    fn settle(&self) -> Result<()> {
        let mut waiting = self.own_wait("room for what this rank has to send before it leaves");
        let mut n_rounds = 0_u32;
        loop {
            // Others may send for ever.
            while self.progress()? && n_rounds < LAST_ROUNDS {
                n_rounds += 1;
            }
            if self.engine().is_idle() {
                return Ok(());
            }
            waiting.pause(&Vec::new)?;
        }
    }

    /// A handle that does not keep this rank in the job.
    #[must_use]
    pub fn downgrade(&self) -> WeakWorld {
        WeakWorld {
            inner: Arc::downgrade(&self.inner),
        }
    }

    /// Whether `rank` has left the job, and all that it ever sent to this rank was served.
    #[must_use]
    pub fn has_left(&self, rank: Rank) -> bool {
        self.backend().has_left(rank)
    }

    /// Runs `future` to its end on this thread, making progress meanwhile.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
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
        self.wait_until(&Awaited::new("a future"), || {
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

    /// Ends the whole job at once: `message` is printed, every rank dies, the job's exit code is
    /// `code`.
    pub fn abort(&self, code: i32, message: &str) -> ! {
        self.backend().abort(code, message)
    }

    /// What this rank has done so far; all zero unless [`Config::statistics`] asks for counting.
    #[must_use]
    pub fn costs(&self) -> Costs {
        self.inner
            .counting
            .as_ref()
            .map_or_else(Costs::default, |counting| counting.total())
    }

    /// What this rank has done so far on `peer`, if [`Statistics::PerPeer`](crate::Statistics) is on.
    #[must_use]
    pub fn costs_with(&self, peer: Rank) -> Option<Costs> {
        self.inner.counting.as_ref()?.peer(peer)
    }

    /// Counts an operation that is local by contract (ℓ).
    #[inline]
    pub fn count_local(&self) {
        self.count(CostKind::Local, None, 1, 0);
    }

    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "one predictable branch when nothing is counted"
    )]
    pub(crate) fn count(&self, kind: CostKind, peer: Option<Rank>, n: u64, bytes: usize) {
        if let Some(counting) = &self.inner.counting {
            counting.add(kind, peer, n, bytes as u64);
        }
    }

    #[inline]
    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.inner.backend
    }

    /// Where the `n` elements at `ptr` are, if they lie within a segment, are aligned, and can be read
    /// and written without further ado; else the slow way finds out what is the matter.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "all of a direct access besides the access"
    )]
    pub(crate) fn direct<T>(&self, ptr: GlobalPtr<T>, n: usize) -> Option<NonNull<u8>> {
        self.inner.fast_memory.place(ptr, n)
    }

    /// As [`direct`](Self::direct), for a word that is changed by CPU atomics.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "all of a direct access besides the access"
    )]
    pub(crate) fn direct_word<T>(&self, ptr: GlobalPtr<T>) -> Option<NonNull<u8>> {
        self.inner.fast_words.place(ptr, 1)
    }

    /// As [`direct_word`](Self::direct_word), for a block with words and other parts.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "all of a direct access besides the access"
    )]
    pub(crate) fn direct_block(
        &self,
        ptr: GlobalPtr<u8>,
        bytes: usize,
        align: usize,
    ) -> Option<NonNull<u8>> {
        // A rank whose words are changed by this CPU is also read and written by it.
        self.inner.fast_words.block(ptr, bytes, align)
    }

    /// The segments that are read and written directly.
    #[inline]
    pub(crate) fn memory(&self) -> &SegmentMap {
        &self.inner.memory
    }

    /// The segments whose words are changed by CPU atomics.
    #[inline]
    pub(crate) fn words(&self) -> &SegmentMap {
        &self.inner.words
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    pub(crate) fn progress_thread(&self) -> &ProgressThread {
        &self.inner.progress
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.inner.watch
    }

    pub(crate) fn running(&self) -> &Arc<Running> {
        &self.inner.running
    }

    pub(crate) fn orphans(&self) -> &Orphans {
        &self.inner.orphans
    }

    pub(crate) fn wire(&self) -> &Arc<Wire> {
        &self.inner.wire
    }

    pub(crate) fn team_shared(&self) -> &Arc<team::Shared> {
        &self.inner.team
    }

    /// A number, from 1, for a team whose first member is this rank.
    pub(crate) fn next_team(&self) -> u64 {
        // A count: it orders nothing.
        self.inner.n_teams.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn symmetric_heap(&self) -> MutexGuard<'_, SymmetricHeap> {
        lock(&self.inner.symmetric)
    }

    pub(crate) fn local_heap(&self) -> MutexGuard<'_, Heap> {
        lock(&self.inner.local)
    }
}

/// Locks; a panic elsewhere while the lock was held left its data consistent, since every critical
/// section of the crate either completes its change or makes none.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which segments are accessed directly, and on which of them CPU atomics are right: one word must
/// never have two kinds of executors.
fn maps(backend: &dyn Backend, config: &Config) -> (SegmentMap, SegmentMap) {
    if !config.direct {
        return (SegmentMap::empty(), SegmentMap::empty());
    }
    let memory = SegmentMap::of(backend);
    let by_cpu = backend.capabilities().atomics == AtomicsBy::Cpu;
    let words = if by_cpu || memory.covers(backend.n_ranks()) {
        SegmentMap::of(backend)
    } else {
        SegmentMap::empty()
    };
    (memory, words)
}

impl Clone for World {
    #[inline]
    fn clone(&self) -> Self {
        self.inner.progress.count_handle();
        Self {
            inner: Arc::clone(&self.inner),
            is_counted: true,
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if self.is_counted {
            if self.inner.progress.is_last() && !thread::panicking() && !in_handler() {
                // What the job's failure leaves undone is nobody's any more.
                drop(self.settle());
            }
            let backend = self.backend();
            self.inner
                .progress
                .drop_handle(|| backend.notify(self.rank()));
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

impl Drop for Inner {
    /// Waits for collectives and operations whose events were dropped, then leaves the job; a rank that
    /// panics does not leave in good order, and its death is reported as such.
    fn drop(&mut self) {
        let is_over = |op| {
            self.backend
                .test(op, crate::backend::Stage::Operation)
                .unwrap_or(true)
        };
        let mut rounds = 0_u32;
        while self.orphans.len() > 0 || self.engine.tasks.has_some() && !thread::panicking() {
            let step = self
                .backend
                .health()
                .and_then(|()| self.backend.progress())
                .and_then(|_| {
                    self.wire
                        .receive(&mut |message| self.engine.refuse(&message))
                });
            if step.is_err() {
                self.orphans.leak();
                return;
            }
            self.engine.tasks.advance();
            self.orphans.reap(is_over);
            rounds = rounds.saturating_add(1);
            if rounds < LEAVING_YIELDS {
                thread::yield_now();
            } else {
                self.backend.park(LEAVING_NAP);
            }
        }
        if !thread::panicking() {
            self.backend
                .leave(&mut |message| self.engine.refuse(&message));
            self.engine.end(self.backend.rank());
        }
    }
}
