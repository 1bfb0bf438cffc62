//! The contract's methods, each in a line or two: the work is in [`rma`](crate::rma),
//! [`atomics`](crate::atomics), [`mailbox`](crate::mailbox), [`serve`](crate::serve) and
//! [`shutdown`](crate::shutdown).
#![expect(unsafe_code, reason = "implements the contract on raw bytes")]

use std::ops::Range;
use std::ptr::NonNull;
use std::time::Duration;

use pgas_core::backend::{
    Atomic, Backend, BarrierTicket, Capabilities, Former, Get, GetGrid, HandlerId, Message,
    MessageClass, Offer, OpId, Operand, Place, Put, PutGrid, Sent, Stage, SwapCall,
};
use pgas_core::stats::Board;
use pgas_core::{Error, Rank, Result};
use pgas_network::atomics::Remote;

use crate::mailbox::MAX_MEDIUM;
use crate::network::{Network, State};

/// Polls in a call of progress: some microseconds.
const MAX_POLLS: u32 = 8;

impl Network {
    /// Polls for work up to `n_polls` times, and returns whether there was any.
    fn poll(&self, n_polls: u32) -> Result<bool> {
        let mut state = self.state();
        let n_polls = if self.is_crowded() { 1 } else { n_polls };
        for _ in 0..n_polls {
            if self.pump(&mut state)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The operand as the member of the shared-memory backend has it, of the rank that is the
    /// host's `index`-th.
    #[inline]
    pub(crate) fn beside<O: Operand>(&self, operand: O, index: u32) -> O {
        // SAFETY: the member's segments are those of the ranks of this host, and the segment of a
        // rank is that of the member with the rank's index on it, which `member_index` gives.
        unsafe { operand.named(Rank::new(index)) }
    }
}

// SAFETY: 1. segments are parts of the member's mapping, aligned to 4 KiB, which lives as long as
// the member.
// 2. An operation names its bytes to libfabric, and is reported after libfabric's own completion,
// or when the endpoint is closed; atomics at the target change one word.
// 3. Writes are complete when they are delivered, and atomics when they are answered, which `flush`
// waits for.
// 4. Atomics are all a CPU's, of the rank that has the word, or of one that has it mapped.
// 5. Endpoints are reliable: libfabric delivers a message once and whole.
unsafe impl Backend for Network {
    fn name(&self) -> &'static str {
        "ofi"
    }

    fn rank(&self) -> Rank {
        Rank::new(self.rank)
    }

    fn n_ranks(&self) -> u32 {
        self.segments.n_ranks()
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

    fn put(&self, put: Put) -> Result<()> {
        self.put_bytes(&put)
    }

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
        self.put_each(fragments.iter().copied())
    }

    fn get_fragments(&self, fragments: &[Get]) -> Result<()> {
        self.get_each(fragments.iter().copied())
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
        self.atomic(signal)
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
        Ok(self.has_reached(op, stage))
    }

    fn flush(&self, rank: Rank) -> Result<()> {
        self.flush_rank(rank)
    }

    fn flush_all(&self) -> Result<()> {
        self.flush_ranks()
    }

    fn barrier_begin(&self) -> Result<Option<BarrierTicket>> {
        Ok(None)
    }

    fn barrier_test(&self, ticket: BarrierTicket) -> Result<bool> {
        unreachable!("no barrier was begun, so there is no {ticket:?}")
    }

    fn barrier_missing(&self, _: BarrierTicket) -> Vec<Rank> {
        Vec::new()
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
            let to = Rank::new(index);
            return self.member.try_send(to, class, handler, parts);
        }
        let mut state = self.state();
        let State { post, endpoint, .. } = &mut *state;
        let network = (endpoint, &self.segments);
        post.send(network, to.number(), class, handler, parts)
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
    /// and get here, and is short beside the way to it.
    fn progress(&self) -> Result<bool> {
        self.poll(MAX_POLLS)
    }

    /// Polls, except for naps: no other rank can wake a process that does not call libfabric, and
    /// others may wait for its calls. The naps are short, since the caller may wait for an
    /// operation of its own, which this does not see.
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
        self.check_health()
    }

    fn has_left(&self, rank: Rank) -> bool {
        self.is_gone(rank)
    }

    fn blame(&self, rank: Rank, cause: &str) -> Error {
        self.fail(rank, cause);
        self.first_failure()
            .unwrap_or_else(|| Error::rank_failed(rank, cause))
    }

    /// Does nothing: a network may have the memory registered, and would not see fresh pages.
    fn discard(&self, _offset: u64, _bytes: u64) -> bool {
        false
    }

    fn abort(&self, code: i32, message: &str) -> ! {
        self.member.abort(code, message)
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
