//! The contract's methods, each in a line or two: the work is in [`rma`](crate::rma),
//! [`atomics`](crate::atomics), [`mailbox`](crate::mailbox), [`serve`](crate::serve) and
//! [`shutdown`](crate::shutdown).
#![expect(unsafe_code, reason = "implements the contract on raw bytes")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pgas_core::backend::{
    Atomic, Backend, BarrierTicket, Capabilities, Former, Get, GetGrid, Group, HandlerId, Message,
    MessageClass, OpId, Operand, Put, PutGrid, Sent, Stage, SwapCall,
};
use pgas_core::{Error, Rank, Result};
use pgas_network::atomics::{Orders as _, Remote};

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
}

// SAFETY: 1. segments are parts of the member's mapping, aligned to 4 KiB, which lives as long as
// the member.
// 2. An operation names its bytes to MPI, and reports its stages after MPI's own completion;
// atomics at the target change one word.
// 3. `flush` is `MPI_Win_flush` and the answers of atomics at the target, in the unified model.
// 4. All atomics are executed by a CPU that has the word in its memory.
// 5. MPI delivers a message once and whole.
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

    pgas_core::pass_on! {
        neighbours:
        segment_bytes, mapped_ranks, mapped, board, mapped_stride, prepare, try_commit, give_back,
        notify, ranks_per_processor,
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
            return self.member().put_signal(local, local_signal);
        }
        self.put_bytes(&put)?;
        self.flush(put.rank())?;
        self.send_order(Remote::Fetch(signal))
    }

    fn atomic(&self, atomic: Atomic) -> Result<()> {
        self.send_order(Remote::Fetch(atomic))
    }

    fn fetch_atomic(&self, atomic: Atomic) -> Result<u64> {
        self.order(Remote::Fetch(atomic))
    }

    fn compare_swap(&self, swap: Atomic<SwapCall>) -> Result<u64> {
        self.order(Remote::Swap(swap))
    }

    fn fetch_atomic_nb(&self, atomic: Atomic, former: Former) -> Result<OpId> {
        self.begin_order(Remote::Fetch(atomic), former)
    }

    fn compare_swap_nb(&self, swap: Atomic<SwapCall>, former: Former) -> Result<OpId> {
        self.begin_order(Remote::Swap(swap), former)
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
        let kind = (class, handler);
        if let Some(sent) = self.neighbours.try_send(to, kind, parts, MAX_MEDIUM)? {
            return Ok(sent);
        }
        let mut state = self.state();
        let mpi = sys::enter()?;
        let sent = state.post.send(&mpi, to.number(), class, handler, parts);
        // Relaxed: what this thread keeps, it sees.
        self.has_kept
            .store(state.post.peers.has_open(), Ordering::Relaxed);
        sent
    }

    fn n_credits(&self, to: Rank, class: MessageClass) -> u64 {
        match self.neighbours.reached(to) {
            Some(to) => self.member().n_credits(to, class),
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

    fn progress_once(&self) -> Result<bool> {
        self.poll(1)
    }

    /// Polls, except for naps: no other rank can wake a process that does not call MPI, and others
    /// may wait for its calls. The naps are short, since the caller may wait for an operation of
    /// its own, which this does not see.
    fn park(&self, at_most: Duration) {
        let is_crowded = self.is_crowded();
        self.parking
            .park(at_most, is_crowded, MAX_POLLS, |n| self.poll(n));
        if is_crowded {
            self.member().check_other_ranks();
        }
    }

    fn health(&self) -> Result<()> {
        self.try_to_tell_failure();
        self.failure
            .check(&self.neighbours, |rank, cause| self.blame(rank, cause))
    }

    fn has_left(&self, rank: Rank) -> bool {
        self.is_gone(rank)
    }

    fn blame(&self, rank: Rank, cause: &str) -> Error {
        self.fail_without_waiting(rank, cause);
        self.failure
            .error()
            .unwrap_or_else(|| Error::rank_failed(rank, cause))
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
