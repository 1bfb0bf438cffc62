//! The contract of a transport: segments, one-sided operations, atomics, messages, liveness, in
//! bytes.
//!
//! On the path of an operation this file comes after [`GlobalPtr`](crate::GlobalPtr), which has
//! checked rank, bounds and alignment, and before one backend's `rma.rs`, where the bytes move. For
//! peers that are [mapped](Backend::mapped) into this process the backend is not used: core loads
//! and stores their memory itself (the direct path).
//!
//! How the backends carry out the main operations:
//!
//! | here | MPI-3 RMA | libfabric RDM | shared memory |
//! |---|---|---|---|
//! | [`put_nb`](Backend::put_nb) | `MPI_Put`, `MPI_Rput` | `fi_write` | a copy |
//! | stage [`Operation`](Stage::Operation) | `MPI_Win_flush` | `FI_DELIVERY_COMPLETE` | at once |
//! | [`fetch_atomic`](Backend::fetch_atomic) | a message to the word's rank | the same | a CPU atomic |
//! | [`put_strided`](Backend::put_strided) | a datatype | a list of `fi_write` | a loop |
//! | [`try_send`](Backend::try_send) | `MPI_Isend` and credits | `fi_send` and credits | a mailbox |
//! | [`prepare`](Backend::prepare) | `Elsewhere` | a registered send buffer | a buffer that both ranks see |
//! | [`barrier_begin`](Backend::barrier_begin) | `MPI_Ibarrier` | `None`: core's own | a counter |
//! | [`collectives`](Backend::collectives) | `MPI_Iallreduce`, ... | `None`: core's own | `None` |
//! | [`health`](Backend::health) | the host's memory, sockets between hosts | the same | a word, file locks |

#![expect(unsafe_code, reason = "the contract of a transport is on raw bytes")]

use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use crate::stats::Board;
use crate::{Error, Rank, Result};

mod call;
mod capabilities;
pub(crate) mod collectives;
mod message;
mod operand;
mod operation;
mod pass_on;
mod timed;

pub use call::{AtomicCall, AtomicOp, AtomicType, Shape, SignalUpdate, SwapCall};
pub use capabilities::{AtomicsBy, Capabilities, NeedsTarget};
pub(crate) use collectives::Flying;
pub use collectives::{Collective, Elements, Group, IntegerType};
pub use message::{HandlerId, Message, MessageClass, Offer, Place, Sent};
pub use operand::{Atomic, Call, Copied, Former, Get, GetGrid, Operand, Put, PutGrid};
pub use operation::{OpId, RemoteAddr, Stage};
pub(crate) use timed::TimedBackend;

/// The reference transport: ranks as threads of one process, as unkind as the contract allows.
///
/// No segment is mapped, so every access goes through the backend: a segment is plain memory behind
/// a lock. Where the contract leaves a choice, the transport takes the one that is worst for the
/// caller, always in the same way. Non-blocking operations take several calls of progress. Puts to
/// other ranks are visible at their target only after a flush. Operations in flight overtake each
/// other, and so do messages. Queues are short. So a program that is correct here does not depend
/// on the habits of one transport.
///
/// # Examples
///
/// ```
/// use pgas_core::backend::loopback;
///
/// assert_eq!(loopback::run(3, |world| world.rank().number() * 2), [0, 2, 4]);
/// ```
pub mod loopback {
    // The module is above the world, which it makes.
    pub use crate::loopback::{
        Loopback, Options, SEGMENT_BYTES, job, run, run_over, run_with, world, worlds, worlds_over,
    };
}

/// The right to send messages to the handlers of a [`Layer`](crate::Layer), [`HandlerId::LAYER`].
///
/// Such messages may name functions to call, so no other code may send them.
#[derive(Clone, Copy, Debug)]
pub struct LayerKey(());

impl LayerKey {
    /// Makes the key.
    ///
    /// # Safety
    ///
    /// With the key only messages are sent that the layers of the other ranks of the job expect.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

/// A world barrier that this rank has entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierTicket(pub u64);

/// The minimum alignment of segments, in bytes.
pub(crate) const SEGMENT_ALIGN: usize = 4096;

/// A transport, as one rank sees it.
///
/// All methods may be called by several threads at once. None waits for another rank, except for
/// back-pressure of the network itself inside a blocking one-sided call; core's wait loops call
/// [`progress`](Self::progress), [`poll`](Self::poll), [`park`](Self::park) and
/// [`health`](Self::health) in between.
///
/// # Safety
///
/// Core hands out safe functions that rest on these promises:
///
/// 1. Every rank has a segment of [`segment_bytes`](Self::segment_bytes) bytes, aligned to at least
///    4,096, which exists until the last handle on the backend is dropped; so do the mappings that
///    [`mapped`](Self::mapped) returns, and they are readable and writable.
/// 2. A one-sided operation touches no other bytes than those that its [`Operand`] names, reads its
///    source only until stage [`Source`](Stage::Source) and writes its result only until stage
///    [`Operation`](Stage::Operation) has been reported. Operands are handed on only to
///    transports of the same ranks and segments, whose reports are waited for.
/// 3. After [`flush`](Self::flush) or [`flush_all`](Self::flush_all) returns, earlier puts and
///    atomics of this rank are visible to every later operation of any rank that learns of it.
/// 4. Atomics are atomic with respect to each other whatever their types and operations, and
///    coherent with CPU atomics where [`Capabilities::atomics`] says so.
/// 5. A message is delivered to its target's sink once, whole, and to nobody else.
/// 6. A [`Place`] that [`prepare`](Self::prepare) offers is readable and writable, holds
///    initialized bytes, and is nobody else's until it is committed or given back, for as long as a
///    handle on the backend lives.
/// 7. All ranks run the same program file where [`Capabilities::starts_one_program`] says so.
pub unsafe trait Backend: fmt::Debug + Send + Sync {
    /// The transport's name: `"smp"`, `"mpi"`.
    fn name(&self) -> &'static str;

    /// This process's rank.
    fn rank(&self) -> Rank;

    /// The number of ranks of the job.
    fn n_ranks(&self) -> u32;

    /// The capabilities of the transport.
    fn capabilities(&self) -> &Capabilities;

    /// The size of every rank's segment in bytes.
    fn segment_bytes(&self) -> u64;

    /// The smallest range of ranks outside of which no segment is mapped into this process.
    fn mapped_ranks(&self) -> Range<u32>;

    /// The address at which the segment of `rank` is mapped into this process, if it is.
    fn mapped(&self, rank: Rank) -> Option<NonNull<u8>>;

    /// The distance in bytes between the segments of neighbours in
    /// [`mapped_ranks`](Self::mapped_ranks), if all of them lie in one mapping, so that the first
    /// one's pointer reaches the others. Accesses are then a little faster.
    fn mapped_stride(&self) -> Option<usize> {
        None
    }

    /// Copies bytes to a segment. On return the source may be reused; the target has the bytes
    /// after [`flush`](Self::flush).
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    fn put(&self, put: Put) -> Result<()>;

    /// Copies bytes from a segment; they are there on return. Not atomic: a concurrent put may be
    /// seen in part.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    fn get(&self, get: Get) -> Result<()>;

    /// Begins a put, whose source is the transport's until [`test`](Self::test) reports
    /// [`Stage::Source`].
    ///
    /// # Errors
    ///
    /// Errors of the transport; then nothing was begun.
    fn put_nb(&self, put: Put) -> Result<OpId>;

    /// Begins a get, whose destination is the transport's until [`test`](Self::test) reports
    /// [`Stage::Operation`].
    ///
    /// # Errors
    ///
    /// Errors of the transport; then nothing was begun.
    fn get_nb(&self, get: Get) -> Result<OpId>;

    /// Puts many fragments; complete as [`put`](Self::put) is.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then any of the fragments may have been written.
    fn put_fragments(&self, fragments: &[Put]) -> Result<()>;

    /// Gets many fragments; they are there on return.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then any of the fragments may have been read.
    fn get_fragments(&self, fragments: &[Get]) -> Result<()>;

    /// Puts a grid of blocks; complete as [`put`](Self::put) is.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then any of the blocks may have been written.
    fn put_strided(&self, grid: PutGrid<'_>) -> Result<()>;

    /// Gets a grid of blocks; they are there on return.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then any of the blocks may have been read.
    fn get_strided(&self, grid: GetGrid<'_>) -> Result<()>;

    /// Puts bytes, then performs `signal` on a word of the same rank: a rank that sees the signal
    /// sees the bytes. The source may be reused on return.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then the signal was not updated.
    fn put_signal(&self, put: Put, signal: Atomic) -> Result<()>;

    /// Performs an atomic without a result; complete at the target after [`flush`](Self::flush).
    ///
    /// # Errors
    ///
    /// Errors of the transport; then it was not performed.
    fn atomic(&self, atomic: Atomic) -> Result<()>;

    /// Performs an atomic and returns the former bits.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    fn fetch_atomic(&self, atomic: Atomic) -> Result<u64>;

    /// Replaces the word if its bits are the expected ones, and returns the former bits.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    fn compare_swap(&self, swap: Atomic<SwapCall>) -> Result<u64>;

    /// Begins an atomic that writes the former bits to `former`, which is the transport's until
    /// [`test`](Self::test) reports [`Stage::Operation`].
    ///
    /// # Errors
    ///
    /// Errors of the transport; then nothing was begun.
    fn fetch_atomic_nb(&self, atomic: Atomic, former: Former) -> Result<OpId>;

    /// Begins a compare-and-swap that writes the former bits to `former`, as
    /// [`fetch_atomic_nb`](Self::fetch_atomic_nb) does.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then nothing was begun.
    fn compare_swap_nb(&self, swap: Atomic<SwapCall>, former: Former) -> Result<OpId>;

    /// Whether `op` has reached `stage`. Makes no promise of progress; call
    /// [`progress`](Self::progress) for that. Does not wait, except for what the transport cannot tell
    /// of otherwise, as MPI of transfers without requests.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then the operation is over, and its id is no longer valid. A
    /// transport that does not know whether it is over says `false`, and fails the job.
    fn test(&self, op: OpId, stage: Stage) -> Result<bool>;

    /// Returns when all earlier operations of this rank on `rank` are complete there.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    fn flush(&self, rank: Rank) -> Result<()>;

    /// Returns when all earlier operations of this rank are complete at their targets.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    fn flush_all(&self) -> Result<()>;

    /// Enters a barrier over the job, or `None` where the transport has none of its own and core's
    /// dissemination barrier is to be used. A rank has at most one barrier open.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    fn barrier_begin(&self) -> Result<Option<BarrierTicket>> {
        Ok(None)
    }

    /// Whether all ranks have entered the barrier.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    ///
    /// # Panics
    ///
    /// Where the transport has no barrier, so that there is no ticket.
    fn barrier_test(&self, ticket: BarrierTicket) -> Result<bool> {
        unreachable!("no barrier was begun, so there is no {ticket:?}")
    }

    /// Some of the ranks that have not entered the barrier, as far as this rank can tell.
    fn barrier_missing(&self, ticket: BarrierTicket) -> Vec<Rank> {
        let _ = ticket;
        Vec::new()
    }

    /// The collectives of all ranks in their order, or `None` where the transport has none of its
    /// own and core's are to be used; the same answer on every rank. Core asks once.
    fn collectives(&self) -> Option<Arc<dyn Group>> {
        None
    }

    /// Offers a message whose payload is the concatenation of `parts`.
    ///
    /// Payloads up to [`Capabilities::max_short`] bytes are cheapest.
    ///
    /// # Errors
    ///
    /// [`Error::MessageTooLong`] for a payload over [`Capabilities::max_medium`]; what the
    /// transport reports. [`Error::RankFailed`] if the target has [left](Self::leave) and has not
    /// taken the message. A message that the target has served never gets this error.
    fn try_send(
        &self,
        to: Rank,
        class: MessageClass,
        handler: HandlerId,
        parts: &[&[u8]],
    ) -> Result<Sent>;

    /// Offers memory of the transport for `len` bytes of payload of a message to `to`. The caller
    /// may hold it for any time, and delays no other rank or thread by that. The number of such
    /// places is limited.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    fn prepare(&self, to: Rank, len: usize) -> Result<Offer<Place>> {
        let _ = (to, len);
        Ok(Offer::Elsewhere)
    }

    /// Offers a message whose payload is `opening` followed by the first `place.len` bytes of
    /// `place`, which may be less than were asked for. Once the message is accepted, the place
    /// belongs to the transport again; after back-pressure it stays the caller's.
    ///
    /// # Errors
    ///
    /// As [`try_send`](Self::try_send); the place is the transport's again, too, since a target
    /// that is leaving may be reading it.
    ///
    /// # Safety
    ///
    /// `place` comes from [`prepare`](Self::prepare) of this backend for messages to `to`, and was
    /// neither taken by this method, with success or an error, nor given back since. Nobody
    /// accesses its memory during the call, nor after it but after back-pressure.
    unsafe fn try_commit(
        &self,
        to: Rank,
        class: MessageClass,
        handler: HandlerId,
        place: Place,
        opening: &[u8],
    ) -> Result<Sent> {
        // SAFETY: the caller promises that the place was offered, has that many bytes, and that
        // nobody writes to it meanwhile.
        let payload = unsafe { std::slice::from_raw_parts(place.start.as_ptr(), place.len) };
        self.try_send(to, class, handler, &[opening, payload])
    }

    /// Takes a place back from which nothing is to be sent.
    ///
    /// # Safety
    ///
    /// `place` comes from [`prepare`](Self::prepare) of this backend for messages to `to`, and was
    /// neither accepted nor given back since. Nobody accesses its memory any more.
    unsafe fn give_back(&self, to: Rank, place: Place) {
        let _ = (to, place);
    }

    /// The number of messages of `class` of up to [`Capabilities::max_short`] bytes that
    /// [`try_send`](Self::try_send) would take for `to` now, as far as this rank can tell; zero
    /// means back-pressure. Other ranks may take that room at any time, or free some.
    fn n_credits(&self, to: Rank, class: MessageClass) -> u64;

    /// Passes up to `limit` received messages of `class` to `sink` and returns their number.
    ///
    /// Only one thread of a rank receives at a time; another one returns 0. The sink must not poll.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    fn poll(
        &self,
        class: MessageClass,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
    ) -> Result<usize>;

    /// Passes up to `limit` received messages of each class to `sink`, replies first, or replies
    /// alone, and returns their number. Every round of every wait calls this, so a transport that
    /// can poll for both classes at once does.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    fn poll_all(
        &self,
        with_requests: bool,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
    ) -> Result<usize> {
        let n_replies = self.poll(MessageClass::Reply, limit, sink)?;
        if !with_requests {
            return Ok(n_replies);
        }
        Ok(n_replies + self.poll(MessageClass::Request, limit, sink)?)
    }

    /// Does the work that the transport needs of this process, without waiting, and says whether
    /// there was any.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    fn progress(&self) -> Result<bool>;

    /// As [`progress`](Self::progress), with one look at the network, where that may take several:
    /// for a caller that has other work to do.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    fn progress_once(&self) -> Result<bool> {
        self.progress()
    }

    /// Waits up to `at_most` for an event: a message, the end of a barrier, a signal, a failure.
    /// May return early for no reason.
    fn park(&self, at_most: Duration);

    /// Whether [`park`](Self::park) returns as soon as another rank has written to this rank's
    /// segment, also if that was since the last call of `park`. A waiting rank then parks at once,
    /// since polling would find nothing new, and no thread looks after its handlers.
    fn parks_until_written(&self) -> bool {
        false
    }

    /// Wakes `rank` if it is [parked](Self::park), after a store that it may be waiting for.
    fn notify(&self, rank: Rank);

    /// The number of the host's ranks for each processor that they may use, rounded up; one if each
    /// rank has a processor of its own. It may change until all ranks have joined.
    fn ranks_per_processor(&self) -> u32;

    /// Whether the host runs more ranks than it has processors. A waiting rank then does not spin,
    /// since it would take time from the rank that it waits for.
    #[inline]
    fn is_oversubscribed(&self) -> bool {
        self.ranks_per_processor() > 1
    }

    /// An error if the job has failed. Every loop that waits asks once a round, so it must cost
    /// about as much as a load.
    ///
    /// # Errors
    ///
    /// [`Error::RankFailed`] with the failed rank and the cause.
    fn health(&self) -> Result<()>;

    /// Whether `rank` has left the job, and a sink has handled every message that it sent to this
    /// rank: no more will come from it. A wait asks this about the rank that it waits for.
    fn has_left(&self, rank: Rank) -> bool;

    /// Whether `rank` has joined the job, as far as the transport can tell, for reports of long
    /// waits. Where ranks begin together, all have.
    fn has_joined(&self, _rank: Rank) -> bool {
        true
    }

    /// Records that `rank` has failed, unless a failure is recorded already:
    /// [`health`](Self::health) returns it on every rank, and the job's supervisor names it.
    /// `cause` is read after "rank 3". Returns the recorded failure, which may be an earlier one.
    fn blame(&self, rank: Rank, cause: &str) -> Error;

    /// Returns the memory of a range of this rank's segment to the system, if possible. `true`
    /// means that the range now reads as zero. Not possible if the memory is registered with a
    /// network, which would not see the fresh pages.
    fn discard(&self, offset: u64, bytes: u64) -> bool {
        let _ = (offset, bytes);
        false
    }

    /// Ends the whole job: every rank sees the message, and the job's exit code is `code`.
    fn abort(&self, code: i32, message: &str) -> !;

    /// The words in which `rank` publishes its activity, [`Board::bytes`] or more, in memory that
    /// outlives the rank and that other ranks of its host read. `None` if the transport has no such
    /// memory, or `rank` is on another host.
    fn board(&self, rank: Rank) -> Option<Board> {
        let _ = rank;
        None
    }

    /// Called when the last handle on the world is dropped in good order. On a rank that is a
    /// thread it is called before that, too, if the rank has handles when its part is over. Passes
    /// messages that came too late to be served to `late`. No message is lost silently if its
    /// sender [has to learn of it](HandlerId::is_heard_of): either `late` gets it, or
    /// [`try_send`](Self::try_send) returns [`Error::RankFailed`] to its sender.
    fn leave(&self, late: &mut dyn FnMut(Message<'_>));
}
