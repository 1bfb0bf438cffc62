//! The contract's methods, each in a line or two: the work is in [`rma`](crate::rma),
//! [`atomics`](crate::atomics), [`mailbox`](crate::mailbox), [`serve`](crate::serve) and
//! [`shutdown`](crate::shutdown).
#![expect(unsafe_code, reason = "implements the contract on raw bytes")]

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pgas_core::backend::{
    Atomic, Backend, BarrierTicket, Capabilities, Former, Get, GetGrid, Group, HandlerId, Message,
    MessageClass, Offer, OpId, Operand, Place, Put, PutGrid, Sent, Stage, SwapCall,
};
use pgas_core::stats::Board;
use pgas_core::{Error, Rank, Result};

use crate::mailbox::MAX_MEDIUM;
use crate::network::Network;
use crate::sys;

/// Polls in a call of progress: some microseconds.
const MAX_POLLS: u32 = 16;
/// In a barrier, the number of short polls in the time of a full one, and the share of short polls
/// that also check for messages.
const SHORT_POLLS_PER_POLL: u32 = 2;
const POLLS_PER_PUMP: u32 = 8;

impl Network {
    /// Polls for work up to `n_polls` times; in a barrier, for the time that this takes. Returns
    /// whether there was any.
    fn poll(&self, n_polls: u32) -> Result<bool> {
        let mut state = self.state();
        let mpi = sys::enter()?;
        let is_in_barrier = state.barrier.is_open();
        let n_polls = match (self.is_crowded(), is_in_barrier) {
            (true, _) => 1,
            (false, true) => n_polls * SHORT_POLLS_PER_POLL,
            (false, false) => n_polls,
        };
        for look in 0..n_polls {
            let worked = if look.is_multiple_of(POLLS_PER_PUMP) || !is_in_barrier {
                self.pump(&mut state, &mpi)?
            } else {
                state.barrier.glance(&mpi)?
            };
            if worked {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Sends messages that wait for others to go with, before a wait inside of MPI.
    #[inline]
    fn send_kept(&self) -> Result<()> {
        if !self.has_kept.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut state = self.state();
        let mpi = sys::enter()?;
        self.has_kept.store(false, Ordering::Relaxed);
        state.post.send_open(&mpi)
    }

    /// The operand as the member of the shared-memory backend has it, if its rank is on this host.
    #[inline(never)]
    pub(crate) fn beside<O: Operand>(&self, operand: O) -> Option<O> {
        let rank = Rank::new(self.host.index_of(operand.rank().number())?);
        // SAFETY: the member's segments are those of the ranks of this host, and the segment of a
        // rank is that of the member with the rank's index on it.
        Some(unsafe { operand.named(rank) })
    }
}

// SAFETY: 1. segments are parts of the member's mapping, aligned to 4 KiB, which lives as long as
// the member.
// 2. An operation names its bytes to MPI, and reports its stages after MPI's own completion;
//    atomics at the
// target change one word. 3. `flush` is `MPI_Win_flush` and the answers of atomics at the target,
// in the unified model. 4. Atomics are all MPI's, or all a CPU's, for the whole job. 5. MPI
// delivers a message once and whole.
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

    fn board(&self, rank: Rank) -> Option<Board> {
        let index = self.host.index_of(rank.number())?;
        self.member.board(Rank::new(index))
    }

    fn mapped_stride(&self) -> Option<usize> {
        if self.host.is_even() {
            self.member.mapped_stride()
        } else {
            None
        }
    }

    #[inline]
    fn put(&self, put: Put) -> Result<()> {
        self.put_bytes(&put)
    }

    #[inline]
    fn get(&self, get: Get) -> Result<()> {
        self.get_bytes(&get)
    }

    fn put_nb(&self, put: Put) -> Result<OpId> {
        self.begin_put(&put)
    }

    fn get_nb(&self, get: Get) -> Result<OpId> {
        self.begin_get(&get)
    }

    fn put_fragments(&self, fragments: &[Put]) -> Result<()> {
        self.scatter(fragments)
    }

    fn get_fragments(&self, fragments: &[Get]) -> Result<()> {
        self.gather(fragments)
    }

    fn put_strided(&self, grid: PutGrid<'_>) -> Result<()> {
        self.put_blocks(grid)
    }

    fn get_strided(&self, grid: GetGrid<'_>) -> Result<()> {
        self.get_blocks(grid)
    }

    fn put_signal(&self, put: Put, signal: Atomic) -> Result<()> {
        if let Some((local, local_signal)) = self.on_this_host(put).zip(self.on_this_host(signal)) {
            return self.member.put_signal(local, local_signal);
        }
        self.put_bytes(&put)?;
        self.flush(put.rank())?;
        self.update(signal)
    }

    fn atomic(&self, atomic: Atomic) -> Result<()> {
        self.update(atomic)
    }

    fn fetch_atomic(&self, atomic: Atomic) -> Result<u64> {
        self.fetch(atomic)
    }

    fn compare_swap(&self, swap: Atomic<SwapCall>) -> Result<u64> {
        self.swap(swap)
    }

    fn fetch_atomic_nb(&self, atomic: Atomic, former: Former) -> Result<OpId> {
        self.begin_fetch(atomic, former)
    }

    fn compare_swap_nb(&self, swap: Atomic<SwapCall>, former: Former) -> Result<OpId> {
        self.begin_swap(swap, former)
    }

    fn test(&self, op: OpId, stage: Stage) -> Result<bool> {
        if op == OpId::DONE {
            return Ok(true);
        }
        self.has_reached(op, stage)
    }

    fn flush(&self, rank: Rank) -> Result<()> {
        self.send_kept()?;
        self.flush_rank(rank)
    }

    fn flush_all(&self) -> Result<()> {
        self.send_kept()?;
        self.flush_ranks()
    }

    fn barrier_begin(&self) -> Result<Option<BarrierTicket>> {
        self.health()?;
        let mut state = self.state();
        let mpi = sys::enter()?;
        state.post.send_open(&mpi)?;
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
            return Err(Error::too_long(to, bytes, MAX_MEDIUM));
        }
        if let Some(index) = self.member_index(to) {
            return self
                .member
                .try_send(Rank::new(index), class, handler, parts);
        }
        let mut state = self.state();
        let mpi = sys::enter()?;
        let sent = state.post.send(&mpi, to.number(), class, handler, parts);
        // Relaxed: what this thread keeps, it sees.
        self.has_kept
            .store(state.post.peers.has_open(), Ordering::Relaxed);
        sent
    }

    fn prepare(&self, to: Rank, len: usize) -> Result<Offer<Place>> {
        match self.member_index(to) {
            Some(index) => self.member.prepare(Rank::new(index), len),
            None => Ok(Offer::Elsewhere),
        }
    }

    unsafe fn try_commit(
        &self,
        to: Rank,
        class: MessageClass,
        handler: HandlerId,
        place: Place,
        opening: &[u8],
    ) -> Result<Sent> {
        let to = Rank::new(
            self.member_index(to)
                .expect("what was offered is for a rank of this host"),
        );
        // SAFETY: the caller promises that the place came from `prepare` for this rank and is his,
        // and `prepare` above is the member's for ranks of this host: so it is his there, for the
        // rank with that index.
        unsafe { self.member.try_commit(to, class, handler, place, opening) }
    }

    unsafe fn give_back(&self, to: Rank, place: Place) {
        if let Some(index) = self.member_index(to) {
            // SAFETY: as for `try_commit`.
            unsafe { self.member.give_back(Rank::new(index), place) }
        }
    }

    fn n_credits(&self, to: Rank, class: MessageClass) -> u64 {
        match self.member_index(to) {
            Some(index) => self.member.n_credits(Rank::new(index), class),
            None => self.state().post.peers.n_credits(to.number(), class),
        }
    }

    fn poll(
        &self,
        class: MessageClass,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
    ) -> Result<usize> {
        self.receive(class, limit, sink)
    }

    /// Polls several times if no other rank needs the processor: a poll serves what other ranks put
    /// and get here, and is short beside the way to it. In a barrier most polls are short ones,
    /// which serve as much in half the time.
    fn progress(&self) -> Result<bool> {
        self.poll(MAX_POLLS)
    }

    /// Polls, except for naps: no other rank can wake a process that does not call MPI, and others
    /// may wait for its calls. The naps are short, since the caller may wait for an operation of
    /// its own, which this does not see.
    fn park(&self, at_most: Duration) {
        let is_crowded = self.is_crowded();
        self.parking.park(at_most, is_crowded, |is_short| {
            let worked = self.poll(if is_short { 1 } else { MAX_POLLS });
            !matches!(worked, Ok(false))
        });
        if is_crowded {
            self.member.check_other_ranks();
        }
    }

    fn notify(&self, rank: Rank) {
        if let Some(index) = self.member_index(rank) {
            self.member.notify(Rank::new(index));
        }
    }

    fn is_oversubscribed(&self) -> bool {
        self.member.is_oversubscribed()
    }

    fn health(&self) -> Result<()> {
        if let Some(error) = self.first_failure() {
            self.try_to_tell_failure();
            return Err(error);
        }
        let Err(error) = self.member.health() else {
            return Ok(());
        };
        match error {
            Error::RankFailed(failure) => {
                let rank = Rank::new(self.host.failed_rank(failure.rank.number()));
                Err(self.blame(rank, &failure.cause))
            }
            other => Err(other),
        }
    }

    fn has_left(&self, rank: Rank) -> bool {
        self.is_gone(rank)
    }

    fn blame(&self, rank: Rank, cause: &str) -> Error {
        self.fail_without_waiting(rank, cause);
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

    fn leave(&self, late: &mut dyn FnMut(Message<'_>)) {
        // The failed rank reports a failure, which ends the wait; so does the limit of a wait.
        if let Err(error) = self.shut_down(late)
            && self.health().is_ok()
        {
            drop(self.blame(self.rank(), &format!("could not leave: {error}")));
        }
    }
}
