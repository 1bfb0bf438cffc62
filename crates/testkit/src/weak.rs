//! A transport that is as weak as the contract allows, around another one. Puts are late,
//! fragmented and out of order, gets are torn, and atomics that nobody waits for yet are late, too.
//!
//! A seed determines the order of the fragments, so many seeds test many orders. The guarantees of
//! the contract hold: a flush completes everything, a signal comes after its data, and atomics are
//! atomic. A container that passes its tests over this transport depends on nothing else.
//!
//! ```
//! use pgas_core::{Config, Rank};
//!
//! pgas_testkit::weak::run(2, &Config::default(), 7, |world| {
//!     let cell = world.alloc_symmetric::<[u64; 8]>(1).unwrap();
//!     cell.on(Rank::ZERO).put(&world, [1; 8]).unwrap();
//!     world.barrier().unwrap(); // before this, any of the words may be there or not
//!     assert_eq!(cell.on(Rank::ZERO).get(&world).unwrap(), [1; 8]);
//!     world.barrier().unwrap();
//! });
//! ```
#![expect(
    unsafe_code,
    reason = "passes the contract's calls on, later and in pieces"
)]

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use fastrand::Rng;
use pgas_core::backend::{
    Atomic, Backend, Copied, Former, Get, GetGrid, HandlerId, Message, MessageClass, OpId, Operand,
    Place, Put, PutGrid, Sent, Stage, SwapCall, loopback,
};
use pgas_core::{Config, Rank, Result, World};

use crate::ranks::run_ranks;

/// Ids of this transport's own operations; the inner one's stay below.
const OWN: u64 = 1 << 63;

/// The maximum length of a fragment in bytes. Those of long transfers are longer.
const PIECE: usize = 24;
/// The maximum number of fragments of a transfer.
const MOST_PIECES: usize = 12;

/// A transport whose operations are torn, late and out of order.
pub struct Weak {
    inner: Arc<dyn Backend>,
    state: Mutex<State>,
}

struct State {
    random: Rng,
    late: Vec<Late>,
    /// The number of fragments that are left of each non-blocking operation.
    left: HashMap<u64, usize>,
    next_id: u64,
    /// The number of messages that this rank sends before late operations run without a flush.
    n_held: u64,
}

/// A late operation.
enum Late {
    Write {
        put: Copied,
        of: Option<u64>,
    },
    Read {
        get: Get,
        of: u64,
    },
    Atomic(Atomic),
    Fetch {
        atomic: Atomic,
        former: Former,
        of: u64,
    },
    Swap {
        swap: Atomic<SwapCall>,
        former: Former,
        of: u64,
    },
    Signal {
        put: Copied,
        signal: Atomic,
    },
}

impl Late {
    fn rank(&self) -> Rank {
        match self {
            Self::Write { put, .. } | Self::Signal { put, .. } => put.dst().rank,
            Self::Read { get, .. } => get.rank(),
            Self::Atomic(atomic) | Self::Fetch { atomic, .. } => atomic.rank(),
            Self::Swap { swap, .. } => swap.rank(),
        }
    }
}

/// The fragments of a transfer of `len` bytes, in a random order.
fn pieces(random: &mut Rng, len: usize) -> Vec<Range<usize>> {
    let longest = PIECE.max(len.div_ceil(MOST_PIECES) * 2);
    let mut pieces = Vec::new();
    let mut start = 0;
    while start < len {
        let end = (start + random.usize(1..=longest)).min(len);
        pieces.push(start..end);
        start = end;
    }
    random.shuffle(&mut pieces);
    pieces
}

impl Weak {
    /// Wraps `inner`. `seed` determines the orders.
    #[must_use]
    pub fn new(inner: Arc<dyn Backend>, seed: u64) -> Self {
        let rank = u64::from(inner.rank().number());
        let state = State {
            random: Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ rank),
            late: Vec::new(),
            left: HashMap::new(),
            next_id: OWN,
            n_held: 0,
        };
        Self {
            inner,
            state: Mutex::new(state),
        }
    }

    /// Runs no late operation without a flush until this rank has sent this many messages.
    #[must_use]
    pub fn held_for(self, n_messages: u64) -> Self {
        self.state().n_held = n_messages;
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent whenever something can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one of the late operations.
    fn perform(&self, state: &mut State, late: Late) -> Result<()> {
        match late {
            Late::Write { put, of } => {
                put.lend(|put| self.inner.put(put))?;
                state.finish(of);
            }
            Late::Read { get, of } => {
                self.inner.get(get)?;
                state.finish(Some(of));
            }
            Late::Atomic(atomic) => self.inner.atomic(atomic)?,
            Late::Fetch { atomic, former, of } => {
                former.set(self.inner.fetch_atomic(atomic)?);
                state.finish(Some(of));
            }
            Late::Swap { swap, former, of } => {
                former.set(self.inner.compare_swap(swap)?);
                state.finish(Some(of));
            }
            Late::Signal { put, signal } => {
                for piece in pieces(&mut state.random, put.len()) {
                    put.lend(|put| self.inner.put(put.part(piece.start, piece.len())))?;
                }
                self.inner.flush(signal.rank())?;
                self.inner.fetch_atomic(signal)?;
                self.inner.notify(signal.rank());
            }
        }
        Ok(())
    }

    /// Sometimes runs some of the late operations. Returns whether there were any.
    fn perform_some(&self, state: &mut State) -> Result<bool> {
        let mut worked = false;
        while state.n_held == 0 && !state.late.is_empty() && state.random.u8(..4) == 0 {
            let i = state.random.usize(..state.late.len());
            let late = state.late.swap_remove(i);
            self.perform(state, late)?;
            worked = true;
        }
        Ok(worked)
    }

    /// Runs all late operations on `rank`, or on all ranks, in a random order.
    fn perform_all(&self, rank: Option<Rank>) -> Result<()> {
        let mut state = self.state();
        let is_meant = |late: &Late| rank.is_none_or(|rank| late.rank() == rank);
        let all = std::mem::take(&mut state.late);
        let (mut meant, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(is_meant);
        state.late = kept;
        state.random.shuffle(&mut meant);
        for late in meant {
            self.perform(&mut state, late)?;
        }
        Ok(())
    }

    /// Sometimes yields to other threads.
    fn dawdle(&self) {
        let sleeps = self.state().random.u8(..8) == 0;
        if sleeps {
            thread::yield_now();
        }
    }

    /// Puts bytes later, in fragments.
    fn put_later(&self, put: Put, of: Option<u64>) {
        let mut state = self.state();
        for piece in pieces(&mut state.random, put.len()) {
            let put = Copied::of(&put.part(piece.start, piece.len()));
            state.late.push(Late::Write { put, of });
            if let Some(of) = of {
                *state.left.entry(of).or_default() += 1;
            }
        }
    }

    /// Begins a new operation, all of which is one late one.
    fn later(&self, late: impl FnOnce(u64) -> Late) -> OpId {
        let id = self.begin();
        let mut state = self.state();
        state.late.push(late(id));
        state.left.insert(id, 1);
        OpId(id)
    }

    fn count_message(&self) {
        let mut state = self.state();
        state.n_held = state.n_held.saturating_sub(1);
    }

    /// A new operation, which ends with its last fragment.
    fn begin(&self) -> u64 {
        let mut state = self.state();
        state.next_id += 1;
        let id = state.next_id;
        state.left.insert(id, 0);
        id
    }
}

impl State {
    fn finish(&mut self, of: Option<u64>) {
        if let Some(left) = of.and_then(|of| self.left.get_mut(&of)) {
            *left -= 1;
        }
    }
}

impl fmt::Debug for Weak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Weak({:?})", self.inner)
    }
}

// SAFETY: 1. The segments are the inner transport's. 2. Fragments are parts of the operands.
// Sources are copied at once; destinations are written until the last fragment is performed, which
// `test` waits for. 3. A flush performs the late operations on the rank, and then the inner
// transport's flush. 4. and 5. are the inner transport's.
unsafe impl Backend for Weak {
    fn name(&self) -> &'static str {
        "weak"
    }

    pgas_core::pass_on! {
        inner:
        rank, n_ranks, capabilities, segment_bytes, barrier_begin, barrier_test, barrier_missing,
        prepare, n_credits, poll, park, notify, ranks_per_processor, health, has_left, blame,
        discard
    }

    fn mapped_ranks(&self) -> Range<u32> {
        0..0
    }

    fn mapped(&self, _: Rank) -> Option<NonNull<u8>> {
        None
    }

    fn put(&self, put: Put) -> Result<()> {
        self.put_later(put, None);
        self.perform_some(&mut self.state()).map(drop)
    }

    fn get(&self, get: Get) -> Result<()> {
        let order = pieces(&mut self.state().random, get.len());
        for piece in order {
            self.inner.get(get.part(piece.start, piece.len()))?;
            self.dawdle();
        }
        Ok(())
    }

    fn put_nb(&self, put: Put) -> Result<OpId> {
        let id = self.begin();
        self.put_later(put, Some(id));
        Ok(OpId(id))
    }

    fn get_nb(&self, get: Get) -> Result<OpId> {
        let id = self.begin();
        let mut state = self.state();
        for piece in pieces(&mut state.random, get.len()) {
            let get = get.part(piece.start, piece.len());
            state.late.push(Late::Read { get, of: id });
            *state.left.entry(id).or_default() += 1;
        }
        Ok(OpId(id))
    }

    fn put_fragments(&self, fragments: &[Put]) -> Result<()> {
        for put in fragments {
            self.put_later(*put, None);
        }
        Ok(())
    }

    fn get_fragments(&self, fragments: &[Get]) -> Result<()> {
        fragments.iter().try_for_each(|get| self.get(*get))
    }

    fn put_strided(&self, grid: PutGrid<'_>) -> Result<()> {
        grid.for_each(|put| {
            self.put_later(put, None);
            Ok(())
        })
    }

    fn get_strided(&self, grid: GetGrid<'_>) -> Result<()> {
        grid.for_each(|get| self.get(get))
    }

    fn put_signal(&self, put: Put, signal: Atomic) -> Result<()> {
        let put = Copied::of(&put);
        let mut state = self.state();
        state.late.push(Late::Signal { put, signal });
        self.perform_some(&mut state).map(drop)
    }

    fn atomic(&self, atomic: Atomic) -> Result<()> {
        let mut state = self.state();
        state.late.push(Late::Atomic(atomic));
        self.perform_some(&mut state).map(drop)
    }

    fn fetch_atomic(&self, atomic: Atomic) -> Result<u64> {
        self.dawdle();
        self.inner.fetch_atomic(atomic)
    }

    fn compare_swap(&self, swap: Atomic<SwapCall>) -> Result<u64> {
        self.dawdle();
        self.inner.compare_swap(swap)
    }

    fn fetch_atomic_nb(&self, atomic: Atomic, former: Former) -> Result<OpId> {
        Ok(self.later(|of| Late::Fetch { atomic, former, of }))
    }

    fn compare_swap_nb(&self, swap: Atomic<SwapCall>, former: Former) -> Result<OpId> {
        Ok(self.later(|of| Late::Swap { swap, former, of }))
    }

    fn test(&self, op: OpId, stage: Stage) -> Result<bool> {
        if op.0 < OWN {
            return self.inner.test(op, stage);
        }
        if stage == Stage::Source {
            return Ok(true);
        }
        let mut state = self.state();
        self.perform_some(&mut state)?;
        if state.left.get(&op.0).is_some_and(|&left| left > 0) {
            return Ok(false);
        }
        state.left.remove(&op.0);
        // The fragments of a put are at their target now, not only in flight.
        self.inner.flush_all()?;
        Ok(true)
    }

    fn flush(&self, rank: Rank) -> Result<()> {
        self.perform_all(Some(rank))?;
        self.inner.flush(rank)
    }

    fn flush_all(&self) -> Result<()> {
        self.perform_all(None)?;
        self.inner.flush_all()
    }

    fn try_send(
        &self,
        to: Rank,
        class: MessageClass,
        handler: HandlerId,
        parts: &[&[u8]],
    ) -> Result<Sent> {
        self.count_message();
        self.inner.try_send(to, class, handler, parts)
    }

    unsafe fn try_commit(
        &self,
        to: Rank,
        class: MessageClass,
        handler: HandlerId,
        place: Place,
        opening: &[u8],
    ) -> Result<Sent> {
        self.count_message();
        // SAFETY: the caller promises that the place came from `prepare` for this rank and is his,
        // and `prepare` above gives what the inner transport offers.
        unsafe { self.inner.try_commit(to, class, handler, place, opening) }
    }

    unsafe fn give_back(&self, to: Rank, place: Place) {
        // SAFETY: as for `try_commit`.
        unsafe { self.inner.give_back(to, place) }
    }

    fn progress(&self) -> Result<bool> {
        let worked = self.perform_some(&mut self.state())?;
        Ok(self.inner.progress()? || worked)
    }

    fn abort(&self, code: i32, message: &str) -> ! {
        self.inner.abort(code, message)
    }

    fn leave(&self, late: &mut dyn FnMut(Message<'_>)) {
        // An error cannot be reported here.
        drop(self.perform_all(None));
        self.inner.leave(late);
    }
}

/// The worlds of a new job over the reference transport, which `weaken` weakens further.
fn worlds_over(
    options: &loopback::Options,
    n_ranks: u32,
    config: &Config,
    weaken: impl Fn(Arc<dyn Backend>) -> Weak,
) -> Result<Vec<World>> {
    let segment_bytes = config.segment_bytes.unwrap_or(loopback::SEGMENT_BYTES);
    loopback::job(n_ranks, segment_bytes, options)
        .into_iter()
        .map(|inner| World::new(Arc::new(weaken(Arc::new(inner))), config.clone()))
        .collect()
}

/// The worlds of a new job over the reference transport, weakened further.
///
/// # Errors
///
/// A segment of the configured size cannot be used.
pub fn worlds(n_ranks: u32, config: &Config, seed: u64) -> Result<Vec<World>> {
    let options = loopback::Options::default();
    worlds_over(&options, n_ranks, config, |inner| Weak::new(inner, seed))
}

/// Runs `body` as each rank of a new job, in threads.
///
/// # Panics
///
/// If a rank panics, with the panic of the first rank that did not panic because of another one; if
/// a segment of the configured size cannot be used, or the system has no thread for a rank.
pub fn run(n_ranks: u32, config: &Config, seed: u64, body: impl Fn(World) + Sync) {
    let worlds = worlds(n_ranks, config, seed).expect("a usable segment");
    run_ranks(worlds, &body);
}

/// Like [`run`], around a reference transport of this kind.
///
/// # Panics
///
/// As [`run`].
pub fn run_over(
    options: &loopback::Options,
    n_ranks: u32,
    config: &Config,
    seed: u64,
    body: impl Fn(World) + Sync,
) {
    let weak = |inner| Weak::new(inner, seed);
    let worlds = worlds_over(options, n_ranks, config, weak).expect("a usable segment");
    run_ranks(worlds, &body);
}

/// Like [`run`], but a rank runs no late operation without a flush until it has sent `n_messages`.
///
/// # Panics
///
/// As [`run`].
pub fn run_held(n_ranks: u32, config: &Config, n_messages: u64, body: impl Fn(World) + Sync) {
    let held = |inner| Weak::new(inner, 1).held_for(n_messages);
    let options = loopback::Options::default();
    let worlds = worlds_over(&options, n_ranks, config, held).expect("a usable segment");
    run_ranks(worlds, &body);
}
