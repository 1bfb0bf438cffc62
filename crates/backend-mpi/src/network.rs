//! A rank of a job that communicates over MPI: of several hosts, or of one with the direct path off.
//!
//! What every other file of the network path works on, and the contract's methods, each in a line or two: the
//! work is in [`rma`](crate::rma), [`atomics`](crate::atomics), [`mailbox`](crate::mailbox) and
//! [`farewell`](crate::farewell).
#![expect(unsafe_code, reason = "implements the contract on raw bytes")]

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pgas_core::backend::{
    AtomicCall, AtomicsBy, Backend, BarrierTicket, Capabilities, GetFragment, Group, HandlerId,
    Message, MessageClass, NeedsTarget, OpId, PutFragment, RemoteAddr, Sent, Shape, SignalUpdate,
    Stage, SwapCall,
};
use pgas_core::{Config, Error, Rank, Result};
use pgas_smp::Member;

use crate::atomics;
use crate::barrier::Barrier;
use crate::collectives::Collectives;
use crate::host::Host;
use crate::mailbox::{Arrived, MAX_MEDIUM, MAX_SHORT, Post};
use crate::note::Note;
use crate::ops::Ops;
use crate::session::Session;
use crate::sys::{self, Mode, Mpi, Window};

/// The longest single transfer, in bytes: MPI counts in `int`.
pub(crate) const MAX_TRANSFER: u64 = 1 << 30;
/// Rounds of waiting for an answer between two looks at the job's health, and before the first yield.
const ROUNDS_A_LOOK: u32 = 64;
const SPINS: u32 = 200;

/// One rank of a job over MPI.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) session: Session,
    pub(crate) host: Host,
    /// This host's memory: all segments of its ranks, their mailboxes, and who of them lives. Behind an `Arc`,
    /// as the state, so that it can be left to MPI when a job ends in disorder.
    pub(crate) member: Arc<Member>,
    /// Whether ranks of this host use its memory.
    pub(crate) is_direct: bool,
    /// Whether atomics are executed at their target by its CPU, and not by MPI.
    pub(crate) at_target: bool,
    capabilities: Capabilities,
    pub(crate) window: Window,
    /// Whether this rank waits outside of MPI: there are more ranks on the host than processors, and this MPI
    /// does not yield while it waits.
    pub(crate) is_polite: bool,
    /// Whether MPI compares unsigned integers as such.
    pub(crate) compares_unsigned: bool,
    pub(crate) collectives: Collectives,
    /// Whether there may be operations that a flush has to complete.
    pub(crate) is_dirty: AtomicBool,
    pub(crate) state: Arc<Mutex<State>>,
    /// Messages that have come, of each class, so that a look costs no lock.
    n_arrived: [AtomicUsize; 2],
    receiving: [Mutex<()>; 2],
    failure: OnceLock<(Rank, String)>,
}

/// What changes while the rank runs.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) post: Post,
    pub(crate) ops: Ops,
    pub(crate) barrier: Barrier,
    /// The barrier that ends the job.
    pub(crate) farewell: Barrier,
    /// Whom this rank last asked whether it has left, and when.
    pub(crate) asked: Option<(Rank, Instant)>,
    /// Questions to others that are not answered yet.
    pub(crate) n_unanswered: u32,
    /// Whether this rank has left the job.
    pub(crate) has_left: bool,
    /// Whether all ranks have, and nothing is on its way.
    pub(crate) is_over: bool,
}

impl State {
    /// Asks `rank` whether it has left, and how many barriers it has entered.
    pub(crate) fn ask(&mut self, mpi: &Mpi, rank: u32) -> Result<()> {
        self.post.tell(mpi, rank, &Note::Ask, Mode::Plain)?;
        self.n_unanswered += 1;
        Ok(())
    }
}

impl Network {
    /// Opens the window; collective.
    pub(crate) fn new(
        session: Session,
        member: Member,
        host: Host,
        collectives: Collectives,
        config: &Config,
    ) -> Result<Self> {
        let at_target = config.direct;
        let (window, state) = {
            let mpi = sys::enter()?;
            let window = open(&mpi, &session, &member, &host);
            let comm = sys::comm_dup(&mpi, session.comm())?;
            let state = State {
                post: Post::new(&mpi, comm)?,
                ops: Ops::default(),
                barrier: Barrier::new(sys::comm_dup(&mpi, session.comm())?),
                farewell: Barrier::new(sys::comm_dup(&mpi, session.comm())?),
                asked: None,
                n_unanswered: 0,
                has_left: false,
                is_over: false,
            };
            (window, state)
        };
        let window = session.agree(window)?;
        let is_open_mpi = sys::library_version(&sys::enter()?)?.starts_with("Open MPI");
        let is_polite = member.is_oversubscribed() && !is_open_mpi;
        let compares_unsigned = atomics::compares_unsigned(&window, &member, &host, &session)?;
        let capabilities = Capabilities {
            atomics: if at_target {
                AtomicsBy::Cpu
            } else {
                AtomicsBy::Network
            },
            // Some components of Open MPI need the target for less; nothing says which one has a window.
            needs_target: NeedsTarget::EVERYTHING,
            max_short: MAX_SHORT,
            max_medium: MAX_MEDIUM,
            max_transfer: MAX_TRANSFER,
        };
        Ok(Self {
            session,
            host,
            member: Arc::new(member),
            is_direct: config.direct,
            at_target,
            capabilities,
            window,
            is_polite,
            compares_unsigned,
            collectives,
            is_dirty: AtomicBool::new(false),
            state: Arc::new(Mutex::new(state)),
            n_arrived: [const { AtomicUsize::new(0) }; 2],
            receiving: [const { Mutex::new(()) }; 2],
            failure: OnceLock::new(),
        })
    }

    /// The place of `rank` on this host, if the two use its memory.
    #[inline]
    pub(crate) fn near(&self, rank: Rank) -> Option<u32> {
        if self.is_direct {
            self.host.index_of(rank.number())
        } else {
            None
        }
    }

    /// As [`near`](Self::near), for a place in a segment.
    #[inline]
    pub(crate) fn near_place(&self, at: RemoteAddr) -> Option<RemoteAddr> {
        let rank = Rank::new(self.near(at.rank)?);
        Some(RemoteAddr { rank, ..at })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // A panic of the library while it held the lock ends the job.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves all that has come, and says whether there was anything.
    pub(crate) fn pump(&self, state: &mut State, mpi: &Mpi) -> Result<bool> {
        let mut worked = false;
        while let Some(arrived) = state.post.next(mpi)? {
            worked = true;
            if let Arrived::Note(from, note) = arrived {
                self.heed(state, mpi, from, note)?;
            }
        }
        for (class, n) in [MessageClass::Request, MessageClass::Reply]
            .into_iter()
            .zip(&self.n_arrived)
        {
            // Relaxed: a hint; who takes a message holds the lock.
            n.store(state.post.n_arrived(class), Ordering::Relaxed);
        }
        self.watch_barrier(state, mpi)?;
        Ok(worked)
    }

    fn heed(&self, state: &mut State, mpi: &Mpi, from: u32, note: Note) -> Result<()> {
        match note {
            // The post has read them.
            Note::Credits(_) | Note::Bye { .. } => {}
            Note::Ask => {
                let barriers = state.barrier.n_entered();
                let answer = if state.has_left {
                    let sent = state.post.sent_to(from);
                    Note::Left { sent, barriers }
                } else {
                    Note::Here { barriers }
                };
                state.post.tell(mpi, from, &answer, Mode::Plain)?;
            }
            Note::Here { barriers } => {
                state.n_unanswered = state.n_unanswered.saturating_sub(1);
                state.barrier.answered(from, barriers);
            }
            Note::Left { barriers, .. } => {
                state.n_unanswered = state.n_unanswered.saturating_sub(1);
                state.barrier.answered(from, barriers);
                if state.barrier.is_missing(barriers) {
                    let cause = "has left the job while others wait for it in a barrier";
                    self.fail(state, mpi, Rank::new(from), cause)?;
                }
            }
            Note::Failed { rank, cause } => {
                drop(self.failure.set((Rank::new(rank), cause)));
            }
            Note::Execute { id, offset, order } => {
                // SAFETY: the sender's core has checked that the word is aligned and in a segment.
                let bits = unsafe { self.execute(offset, order) };
                state
                    .post
                    .tell(mpi, from, &Note::Former { id, bits }, Mode::Plain)?;
            }
            Note::Former { id, bits } => state.ops.answered(from, OpId(id), bits),
        }
        Ok(())
    }

    /// Records a failure and tells everybody, if it is the first one that this rank knows of.
    pub(crate) fn fail(&self, state: &mut State, mpi: &Mpi, rank: Rank, cause: &str) -> Result<()> {
        if self.failure.set((rank, cause.to_owned())).is_err() {
            return Ok(());
        }
        let note = Note::Failed {
            rank: rank.number(),
            cause: cause.to_owned(),
        };
        let others = (0..self.session.n_ranks()).filter(|other| *other != self.session.rank());
        for other in others {
            state.post.tell(mpi, other, &note, Mode::Plain)?;
        }
        Ok(())
    }

    /// Serves what comes until `ready`, as a call of the contract that waits for the network.
    pub(crate) fn wait(
        &self,
        mut ready: impl FnMut(&mut State, &Mpi) -> Result<bool>,
    ) -> Result<()> {
        let mut round = 0_u32;
        loop {
            {
                let mut state = self.state();
                let mpi = sys::enter()?;
                if ready(&mut state, &mpi)? {
                    return Ok(());
                }
                self.pump(&mut state, &mpi)?;
                if ready(&mut state, &mpi)? {
                    return Ok(());
                }
            }
            round = round.wrapping_add(1);
            if round.is_multiple_of(ROUNDS_A_LOOK) {
                self.health()?;
            }
            if round > SPINS || self.member.is_oversubscribed() {
                thread::yield_now();
            }
        }
    }

    fn receive(
        &self,
        class: MessageClass,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
    ) -> Result<usize> {
        let mut n = 0;
        if self.is_direct {
            let mut translated = |message: Message<'_>| {
                let from = Rank::new(self.host.rank_of(message.from.number()));
                sink(Message { from, ..message });
            };
            n = self.member.poll(class, limit, &mut translated)?;
        }
        let hint = &self.n_arrived[class as usize];
        if hint.load(Ordering::Relaxed) == 0 {
            return Ok(n);
        }
        let Ok(_receiving) = self.receiving[class as usize].try_lock() else {
            return Ok(n);
        };
        let mut served = None;
        loop {
            let mut state = self.state();
            if let Some(letter) = served.take() {
                let mpi = sys::enter()?;
                state.post.finish(&mpi, class, letter, true)?;
                hint.store(state.post.n_arrived(class), Ordering::Relaxed);
            }
            if n >= limit {
                return Ok(n);
            }
            let Some(letter) = state.post.take(class) else {
                return Ok(n);
            };
            drop(state);
            sink(Message {
                from: Rank::new(letter.from),
                class,
                handler: letter.handler(),
                payload: letter.payload(),
            });
            n += 1;
            served = Some(letter);
        }
    }

    fn first_failure(&self) -> Option<Error> {
        let (rank, cause) = self.failure.get()?;
        Some(Error::rank_failed(*rank, cause.clone()))
    }
}

/// The window over this rank's segment.
fn open(mpi: &Mpi, session: &Session, member: &Member, host: &Host) -> Result<Window> {
    let base = member.mapped(Rank::new(host.index()));
    let base = base.expect("a rank's own segment is mapped").as_ptr();
    // SAFETY: the segment is mapped while the member lives, which outlives the window or is never dropped.
    let window = unsafe { sys::win_create(mpi, session.comm(), base, member.segment_bytes()) };
    let mut window = window.map_err(|error| {
        let text = format!(
            "{error} (with Open MPI: windows need OMPI_MCA_osc=sm,pt2pt and a thread level of at most \
             MPI_THREAD_SERIALIZED, or OMPI_MCA_osc=rdma on a network that has it)"
        );
        Error::backend("MPI_Win_create", 0, text)
    })?;
    if sys::win_is_unified(mpi, &window)? {
        return Ok(window);
    }
    sys::win_free(mpi, &mut window)?;
    let text = "this MPI has windows of the separate memory model only (MPI_WIN_SEPARATE); pgas needs the \
                unified one";
    Err(Error::backend("MPI_Win_get_attr", 0, text))
}

// SAFETY: 1. segments are parts of the member's mapping, aligned to 4 KiB, which lives as long as the member.
// 2. An operation names its bytes to MPI, and reports its stages after MPI's own completion; atomics at the
// target change one word. 3. `flush` is `MPI_Win_flush` and the answers of atomics at the target, in the unified
// model. 4. Atomics are all MPI's, or all a CPU's, for the whole job. 5. MPI delivers a message once and whole.
unsafe impl Backend for Network {
    fn name(&self) -> &'static str {
        "mpi"
    }

    fn rank(&self) -> Rank {
        Rank::new(self.session.rank())
    }

    fn n_ranks(&self) -> u32 {
        self.session.n_ranks()
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn segment_bytes(&self) -> u64 {
        self.member.segment_bytes()
    }

    fn mapped_ranks(&self) -> Range<u32> {
        self.host.span()
    }

    fn mapped(&self, rank: Rank) -> Option<NonNull<u8>> {
        let index = self.host.index_of(rank.number())?;
        self.member.mapped(Rank::new(index))
    }

    fn mapped_stride(&self) -> Option<usize> {
        if self.host.is_even() {
            self.member.mapped_stride()
        } else {
            None
        }
    }

    unsafe fn put(&self, dst: RemoteAddr, src: *const u8, len: usize) -> Result<()> {
        // SAFETY: the caller's promises are the same.
        unsafe { self.put_bytes(dst, src, len) }
    }

    unsafe fn get(&self, src: RemoteAddr, dst: *mut u8, len: usize) -> Result<()> {
        // SAFETY: the caller's promises are the same.
        unsafe { self.get_bytes(src, dst, len) }
    }

    unsafe fn put_nb(&self, dst: RemoteAddr, src: *const u8, len: usize) -> Result<OpId> {
        // SAFETY: the caller's promises are the same.
        unsafe { self.begin_put(dst, src, len) }
    }

    unsafe fn get_nb(&self, src: RemoteAddr, dst: *mut u8, len: usize) -> Result<OpId> {
        // SAFETY: the caller's promises are the same.
        unsafe { self.begin_get(src, dst, len) }
    }

    unsafe fn put_fragments(&self, fragments: &[PutFragment]) -> Result<()> {
        // SAFETY: the caller's promises are the same.
        unsafe { self.scatter(fragments) }
    }

    unsafe fn get_fragments(&self, fragments: &[GetFragment]) -> Result<()> {
        // SAFETY: the caller's promises are the same.
        unsafe { self.gather(fragments) }
    }

    unsafe fn put_strided(&self, dst: RemoteAddr, src: *const u8, shape: &Shape) -> Result<()> {
        // SAFETY: the caller's promises are the same.
        unsafe { self.put_blocks(dst, src, shape) }
    }

    unsafe fn get_strided(&self, src: RemoteAddr, dst: *mut u8, shape: &Shape) -> Result<()> {
        // SAFETY: the caller's promises are the same.
        unsafe { self.get_blocks(src, dst, shape) }
    }

    unsafe fn put_signal(
        &self,
        dst: RemoteAddr,
        src: *const u8,
        len: usize,
        signal: RemoteAddr,
        update: SignalUpdate,
    ) -> Result<()> {
        if let Some((near, near_signal)) = self.near_place(dst).zip(self.near_place(signal)) {
            // SAFETY: the caller's promises are the same.
            return unsafe { self.member.put_signal(near, src, len, near_signal, update) };
        }
        // SAFETY: the caller's promises are the same.
        unsafe { self.put_bytes(dst, src, len) }?;
        self.flush_rank(dst.rank)?;
        // SAFETY: the caller promises an aligned word in a segment.
        unsafe { self.update(signal, atomics::call_of(update)) }
    }

    unsafe fn atomic(&self, target: RemoteAddr, call: AtomicCall) -> Result<()> {
        // SAFETY: the caller's promises are the same.
        unsafe { self.update(target, call) }
    }

    unsafe fn fetch_atomic(&self, target: RemoteAddr, call: AtomicCall) -> Result<u64> {
        // SAFETY: the caller's promises are the same.
        unsafe { self.fetch(target, call) }
    }

    unsafe fn compare_swap(&self, target: RemoteAddr, call: SwapCall) -> Result<u64> {
        // SAFETY: the caller's promises are the same.
        unsafe { self.swap(target, call) }
    }

    unsafe fn fetch_atomic_nb(
        &self,
        target: RemoteAddr,
        call: AtomicCall,
        result: *mut u64,
    ) -> Result<OpId> {
        // SAFETY: the caller's promises are the same.
        unsafe { self.begin_fetch(target, call, result) }
    }

    unsafe fn compare_swap_nb(
        &self,
        target: RemoteAddr,
        call: SwapCall,
        result: *mut u64,
    ) -> Result<OpId> {
        // SAFETY: the caller's promises are the same.
        unsafe { self.begin_swap(target, call, result) }
    }

    fn test(&self, op: OpId, stage: Stage) -> Result<bool> {
        if op == OpId::DONE {
            return Ok(true);
        }
        self.has_reached(op, stage)
    }

    fn flush(&self, rank: Rank) -> Result<()> {
        self.flush_rank(rank)
    }

    fn flush_all(&self) -> Result<()> {
        self.flush_ranks()
    }

    fn barrier_begin(&self) -> Result<Option<BarrierTicket>> {
        let mut state = self.state();
        let mpi = sys::enter()?;
        state.barrier.enter(&mpi).map(Some)
    }

    fn barrier_test(&self, ticket: BarrierTicket) -> Result<bool> {
        let mut state = self.state();
        let mpi = sys::enter()?;
        state.barrier.test(&mpi, ticket)
    }

    fn barrier_missing(&self, ticket: BarrierTicket) -> Vec<Rank> {
        self.find_missing(ticket)
    }

    fn collectives(&self) -> Option<Arc<dyn Group>> {
        self.collectives.world()
    }

    fn try_send(
        &self,
        to: Rank,
        class: MessageClass,
        handler: HandlerId,
        parts: &[&[u8]],
    ) -> Result<Sent> {
        let bytes = parts
            .iter()
            .fold(0_usize, |sum, part| sum.saturating_add(part.len()));
        if bytes > MAX_MEDIUM {
            return Err(Error::MessageTooLong {
                bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
                limit: u32::try_from(MAX_MEDIUM).unwrap_or(u32::MAX),
            });
        }
        if let Some(index) = self.near(to) {
            return self
                .member
                .try_send(Rank::new(index), class, handler, parts);
        }
        let mut state = self.state();
        let mpi = sys::enter()?;
        state.post.send(&mpi, to.number(), class, handler, parts)
    }

    fn poll(
        &self,
        class: MessageClass,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
    ) -> Result<usize> {
        self.receive(class, limit, sink)
    }

    fn progress(&self) -> Result<bool> {
        let mut state = self.state();
        let mpi = sys::enter()?;
        self.pump(&mut state, &mpi)
    }

    /// Keeps looking: nobody can wake a process that does not call MPI, and others may wait for it to do so.
    fn park(&self, at_most: Duration) {
        let (began, at_most) = (Instant::now(), self.collectives.nap(at_most));
        while matches!(self.progress(), Ok(false))
            && self.health().is_ok()
            && began.elapsed() < at_most
        {
            thread::yield_now();
        }
    }

    fn notify(&self, rank: Rank) {
        if let Some(index) = self.near(rank) {
            self.member.notify(Rank::new(index));
        }
    }

    fn is_oversubscribed(&self) -> bool {
        self.member.is_oversubscribed()
    }

    fn health(&self) -> Result<()> {
        if let Some(error) = self.first_failure() {
            return Err(error);
        }
        let Err(error) = self.member.health() else {
            return Ok(());
        };
        match error {
            Error::RankFailed(failure) => {
                let rank = Rank::new(self.host.rank_of(failure.rank.number()));
                Err(self.blame(rank, &failure.cause))
            }
            other => Err(other),
        }
    }

    fn has_left(&self, rank: Rank) -> bool {
        self.is_gone(rank)
    }

    fn blame(&self, rank: Rank, cause: &str) -> Error {
        if self.failure.get().is_none() {
            let mut state = self.state();
            let told = sys::enter().and_then(|mpi| self.fail(&mut state, &mpi, rank, cause));
            // Who cannot be told is told by the launcher.
            drop(told);
        }
        self.first_failure()
            .unwrap_or_else(|| Error::rank_failed(rank, cause))
    }

    /// Does nothing: a network may have the memory registered, and would not see fresh pages.
    fn discard(&self, _offset: u64, _bytes: u64) -> bool {
        false
    }

    fn abort(&self, code: i32, message: &str) -> ! {
        self.session
            .abort(code, &format!("ended the job: {message}"))
    }

    fn leave(&self) {
        // A failure is reported by who was failed, and ends the waiting.
        drop(self.bid_farewell());
    }
}
