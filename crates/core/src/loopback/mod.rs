//! The reference transport: ranks as threads of one process, written for clarity, and as unkind as
//! the contract allows.
//!
//! Nothing here shares code with the direct path's copies and CPU atomics.
#![expect(unsafe_code, reason = "implements the contract, which is on raw bytes")]

mod flight;
mod group;
mod job;
mod mailbox;
mod segment;
mod threads;

pub use threads::{run, run_over, run_with, world, worlds, worlds_over};

use std::num::NonZero;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use crate::backend::{
    Atomic, AtomicsBy, Backend, Capabilities, Former, Get, GetGrid, Group, HandlerId, Message,
    MessageClass, NeedsTarget, OpId, Operand, Put, PutGrid, Sent, Stage, SwapCall,
};
use crate::locks::lock;
use crate::{Error, Rank, Result};

use flight::{Flight, Operation};
use group::Everybody;
use job::{Job, Member};
use mailbox::{Bell, Mailbox};
use segment::Segment;

/// The default size of a segment in bytes. It uses no memory until touched.
pub const SEGMENT_BYTES: u64 = 16 << 20;

/// Options of the loopback transport.
///
/// # Examples
///
/// A library's own test over transports that differ:
///
/// ```
/// use pgas_core::Config;
/// use pgas_core::backend::loopback::{self, Options};
///
/// let plain = Options::default();
/// let other = plain.clone().with_max_transfer(64).with_collectives().with_served_atomics();
/// for options in [plain, other] {
///     let sums = loopback::run_over(&options, 3, &Config::default(), |world| {
///         world.allreduce(world.rank().number(), |a, b| a + b)
///     });
///     assert!(sums.into_iter().all(|sum| sum.is_ok_and(|sum| sum == 3)));
///     assert_eq!(loopback::worlds_over(&options, 2, &Config::default())?.len(), 2);
/// }
/// # Ok::<(), pgas_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The longest single put or get that it takes, in bytes; core cuts longer transfers into
    /// pieces.
    pub max_transfer: u64,
    /// Whether it has collectives of its own, which replace most of core's.
    pub collectives: bool,
    /// Whether it says that ranks [serve atomics](Capabilities::ranks_serve_atomics). Libraries
    /// that then use messages instead of atomics do so here, too.
    pub serves_atomics: bool,
}

impl Default for Options {
    /// Transfers of up to 1 MiB, no collectives, and atomics by the network.
    fn default() -> Self {
        Self {
            max_transfer: 1 << 20,
            collectives: false,
            serves_atomics: false,
        }
    }
}

impl Options {
    /// These options with another longest transfer, in bytes.
    #[must_use]
    pub fn with_max_transfer(self, max_transfer: u64) -> Self {
        Self {
            max_transfer,
            ..self
        }
    }

    /// These options with collectives of the transport's own.
    #[must_use]
    pub fn with_collectives(self) -> Self {
        Self {
            collectives: true,
            ..self
        }
    }

    /// These options with atomics that ranks are said to serve.
    #[must_use]
    pub fn with_served_atomics(self) -> Self {
        Self {
            serves_atomics: true,
            ..self
        }
    }

    fn capabilities(&self) -> Capabilities {
        // No segment is mapped, so that no CPU has a way of its own to a word.
        let atomics = if self.serves_atomics {
            AtomicsBy::Cpu
        } else {
            AtomicsBy::Network
        };
        Capabilities {
            atomics,
            needs_target: NeedsTarget {
                atomics: self.serves_atomics,
                ..NeedsTarget::NOTHING
            },
            max_short: 48,
            max_medium: 4096,
            max_transfer: self.max_transfer,
            starts_one_program: false,
        }
    }
}

/// One rank of a job that lives in this process.
#[derive(Debug)]
pub struct Loopback {
    rank: Rank,
    job: Arc<Job>,
    flight: Mutex<Flight>,
    /// The group of all ranks, if the job has collectives of its own.
    everybody: Option<Everybody>,
}

/// The ranks of a new job, in order, each with a segment of `segment_bytes`.
///
/// # Panics
///
/// If there are no ranks, or more than a process can hold.
#[must_use]
pub fn job(n_ranks: u32, segment_bytes: u64, options: &Options) -> Vec<Loopback> {
    assert_ne!(n_ranks, 0, "a job has at least one rank");
    let member = |_| Member {
        segment: Segment::new(segment_bytes),
        mailbox: Mailbox::default(),
        bell: Bell::default(),
        has_left: AtomicBool::new(false),
    };
    let job = Arc::new(Job {
        ranks: (0..n_ranks).map(member).collect(),
        segment_bytes,
        capabilities: options.capabilities(),
        n_groups: AtomicUsize::new(0),
        failure: OnceLock::new(),
    });
    let everybody = options.collectives.then(|| Everybody::new(n_ranks));
    (0..n_ranks)
        .map(|rank| Loopback {
            rank: Rank::new(rank),
            job: Arc::clone(&job),
            flight: Mutex::default(),
            everybody: everybody.clone(),
        })
        .collect()
}

impl Loopback {
    /// Begins an operation that is complete locally on return. It is performed at once on this
    /// rank's own segment, and on others' in progress or at a flush.
    fn begin_unobserved(&self, target: Rank, operation: Operation) {
        if target == self.rank {
            self.job.perform(operation);
        } else {
            lock(&self.flight).begin_unobserved(operation);
        }
    }

    fn check_length(&self, len: usize) {
        assert!(
            len as u64 <= self.job.capabilities.max_transfer,
            "core cuts transfers to max_transfer, this one has {len} bytes"
        );
    }
}

// SAFETY: 1. segments live in the job, which every rank's handle keeps alive, and none is mapped.
// 2. `flight` reads a source only until it reports it as free, and writes a result only until it
// reports the operation. 3. `flush` performs everything in flight. 4. Atomics hold the segment's
// lock.
// 5. A message is moved out of its target's queue under that queue's lock.
unsafe impl Backend for Loopback {
    fn name(&self) -> &'static str {
        "loopback"
    }

    fn rank(&self) -> Rank {
        self.rank
    }

    fn n_ranks(&self) -> u32 {
        u32::try_from(self.job.ranks.len()).expect("made from a u32")
    }

    fn capabilities(&self) -> &Capabilities {
        &self.job.capabilities
    }

    fn segment_bytes(&self) -> u64 {
        self.job.segment_bytes
    }

    fn mapped_ranks(&self) -> Range<u32> {
        0..0
    }

    fn mapped(&self, _: Rank) -> Option<NonNull<u8>> {
        None
    }

    fn put(&self, put: Put) -> Result<()> {
        self.check_length(put.len());
        let write = Operation::Write(vec![(put.dst(), put.to_vec())]);
        self.begin_unobserved(put.rank(), write);
        Ok(())
    }

    fn get(&self, get: Get) -> Result<()> {
        self.check_length(get.len());
        self.job.member(get.rank()).segment.read_to(&get);
        Ok(())
    }

    fn put_nb(&self, put: Put) -> Result<OpId> {
        self.check_length(put.len());
        Ok(lock(&self.flight).begin(Operation::WriteLater(put)))
    }

    fn get_nb(&self, get: Get) -> Result<OpId> {
        self.check_length(get.len());
        Ok(lock(&self.flight).begin(Operation::ReadLater(get)))
    }

    fn put_fragments(&self, fragments: &[Put]) -> Result<()> {
        self.check_length(fragments.iter().map(Put::len).sum());
        for put in fragments {
            let write = Operation::Write(vec![(put.dst(), put.to_vec())]);
            self.begin_unobserved(put.rank(), write);
        }
        Ok(())
    }

    fn get_fragments(&self, fragments: &[Get]) -> Result<()> {
        self.check_length(fragments.iter().map(Get::len).sum());
        for get in fragments {
            self.job.member(get.rank()).segment.read_to(get);
        }
        Ok(())
    }

    fn put_strided(&self, grid: PutGrid<'_>) -> Result<()> {
        self.check_length(grid.shape().bytes());
        let mut blocks = Vec::new();
        grid.for_each(|put| {
            blocks.push((put.dst(), put.to_vec()));
            Ok::<_, Error>(())
        })?;
        self.begin_unobserved(grid.rank(), Operation::Write(blocks));
        Ok(())
    }

    fn get_strided(&self, grid: GetGrid<'_>) -> Result<()> {
        self.check_length(grid.shape().bytes());
        let segment = &self.job.member(grid.rank()).segment;
        grid.for_each(|get| {
            segment.read_to(&get);
            Ok(())
        })
    }

    fn put_signal(&self, put: Put, signal: Atomic) -> Result<()> {
        self.check_length(put.len());
        let write = Operation::WriteSignal {
            dst: put.dst(),
            bytes: put.to_vec(),
            signal,
        };
        self.begin_unobserved(put.rank(), write);
        Ok(())
    }

    fn atomic(&self, atomic: Atomic) -> Result<()> {
        self.begin_unobserved(atomic.rank(), Operation::Update(atomic));
        Ok(())
    }

    fn fetch_atomic(&self, atomic: Atomic) -> Result<u64> {
        Ok(self.job.member(atomic.rank()).segment.fetch(&atomic))
    }

    fn compare_swap(&self, swap: Atomic<SwapCall>) -> Result<u64> {
        Ok(self.job.member(swap.rank()).segment.compare_swap(&swap))
    }

    fn fetch_atomic_nb(&self, atomic: Atomic, former: Former) -> Result<OpId> {
        Ok(lock(&self.flight).begin(Operation::FetchLater(atomic, former)))
    }

    fn compare_swap_nb(&self, swap: Atomic<SwapCall>, former: Former) -> Result<OpId> {
        Ok(lock(&self.flight).begin(Operation::SwapLater(swap, former)))
    }

    fn test(&self, op: OpId, stage: Stage) -> Result<bool> {
        Ok(lock(&self.flight).test(op, stage))
    }

    fn flush(&self, rank: Rank) -> Result<()> {
        lock(&self.flight).flush(Some(rank), |operation| self.job.perform(operation));
        Ok(())
    }

    fn flush_all(&self) -> Result<()> {
        lock(&self.flight).flush(None, |operation| self.job.perform(operation));
        Ok(())
    }

    fn collectives(&self) -> Option<Arc<dyn Group>> {
        let everybody = self.everybody.as_ref()?;
        Some(Arc::new(everybody.group(self.rank, &self.job)))
    }

    fn try_send(
        &self,
        to: Rank,
        class: MessageClass,
        handler: HandlerId,
        parts: &[&[u8]],
    ) -> Result<Sent> {
        let payload = parts.concat();
        let longest = self.job.capabilities.max_medium;
        if payload.len() > longest {
            return Err(Error::too_long(to, payload.len(), longest));
        }
        let target = self.job.member(to);
        let Some(number) = target.mailbox.offer(class, self.rank, handler, payload) else {
            return Ok(Sent::BackPressure);
        };
        target.bell.ring();
        // Pairs with `leave`, which checks the mailbox, under its lock, after it has set the flag.
        // A message that was taken was served, or its refusal is reported by the rank that refused
        // it.
        let has_left = target.has_left.load(Ordering::Acquire);
        if has_left && handler.is_heard_of() && target.mailbox.withdraw(class, number) {
            // Why the job failed says more than that the rank has left for it.
            self.health()?;
            return Err(Error::rank_failed(to, "has left the job"));
        }
        Ok(Sent::Accepted)
    }

    fn n_credits(&self, to: Rank, class: MessageClass) -> u64 {
        self.job.member(to).mailbox.n_free(class)
    }

    fn poll(
        &self,
        class: MessageClass,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
    ) -> Result<usize> {
        let mailbox = &self.job.member(self.rank).mailbox;
        let (received, freed) = mailbox.receive(class, limit, sink);
        if freed {
            self.job.wake_all();
        }
        Ok(received)
    }

    fn progress(&self) -> Result<bool> {
        Ok(lock(&self.flight).advance(|operation| self.job.perform(operation)))
    }

    fn park(&self, at_most: Duration) {
        self.job.member(self.rank).bell.wait(at_most);
    }

    fn notify(&self, rank: Rank) {
        self.job.member(rank).bell.ring();
    }

    fn ranks_per_processor(&self) -> u32 {
        /// The processors that this process may use. The question costs several system calls.
        static USABLE: OnceLock<u32> = OnceLock::new();
        let ask = || thread::available_parallelism().map_or(1, NonZero::get);
        let n_usable = *USABLE.get_or_init(|| u32::try_from(ask()).unwrap_or(u32::MAX));
        self.n_ranks().div_ceil(n_usable)
    }

    fn health(&self) -> Result<()> {
        match self.job.failure.get() {
            None => Ok(()),
            Some(failure) => Err(Box::new(failure.clone()).into()),
        }
    }

    fn has_left(&self, rank: Rank) -> bool {
        // Acquire: pairs with the release in `leave`; what the rank sent before is in the mailbox.
        self.job.member(rank).has_left.load(Ordering::Acquire)
            && self.job.member(self.rank).mailbox.is_drained()
    }

    fn blame(&self, rank: Rank, cause: &str) -> Error {
        self.job.fail(rank, cause.to_owned());
        let failure = self.job.failure.get().expect("it was set before or above");
        Box::new(failure.clone()).into()
    }

    fn discard(&self, offset: u64, bytes: u64) -> bool {
        self.job.member(self.rank).segment.zero(offset, bytes);
        true
    }

    /// Fails the job and panics: a thread cannot end its process without ending the tests in it.
    fn abort(&self, code: i32, message: &str) -> ! {
        let cause = format!("aborted the job with code {code}: {message}");
        self.job.fail(self.rank, cause.clone());
        panic!("rank {} {cause}", self.rank);
    }

    fn leave(&self, late: &mut dyn FnMut(Message<'_>)) {
        lock(&self.flight).flush(None, |operation| self.job.perform(operation));
        // Release: pairs with the acquire in `has_left`.
        let member = self.job.member(self.rank);
        member.has_left.store(true, Ordering::Release);
        for class in [MessageClass::Request, MessageClass::Reply] {
            member.mailbox.receive(class, usize::MAX, late);
        }
        self.job.wake_all();
    }
}

impl Drop for Loopback {
    /// A rank whose panic unwinds through its last handle has died.
    fn drop(&mut self) {
        if thread::panicking() {
            self.job.fail(self.rank, "panicked".into());
        }
    }
}

#[cfg(test)]
mod tests;
