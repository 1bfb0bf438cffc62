//! The contract's methods, each in a line or two: the work is in [`rma`](crate::rma),
//! [`atomics`](crate::atomics), [`mailbox`](crate::mailbox), [`serve`](crate::serve) and
//! [`shutdown`](crate::shutdown).
#![expect(unsafe_code, reason = "implements the contract on raw bytes")]

use std::slice;
use std::time::Duration;

use pgas_core::backend::{
    Atomic, Backend, Capabilities, Former, Get, GetGrid, HandlerId, Message, MessageClass, Offer,
    OpId, Operand, Place, Put, PutGrid, Sent, Stage, SwapCall,
};
use pgas_core::{Error, Rank, Result};
use pgas_network::atomics::{Orders as _, Remote};

use crate::network::{Network, State};
use crate::outbox::{MAX_MEDIUM, goes_in_place};

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
}

/// Checks that a message may have a payload of `len` bytes.
fn check_length(to: Rank, len: usize) -> Result<()> {
    if len > MAX_MEDIUM {
        return Err(Error::too_long(to, len, MAX_MEDIUM));
    }
    Ok(())
}

// SAFETY: 1. segments are parts of the member's mapping, aligned to 4 KiB, which lives as long as
// the member.
// 2. An operation names its bytes to libfabric, and is reported after libfabric's own completion,
// or when the endpoint is closed; atomics change one word.
// 3. Writes are complete when they are delivered, and atomics when they are answered, which `flush`
// waits for.
// 4. All atomics of a job have one executor: a CPU that has the word in its memory, or the provider
// (`executor.rs`).
// 5. Endpoints are reliable: libfabric delivers a message once and whole.
// 6. A place is part of a send buffer, which is not used for anything else until it is taken back,
// and lives as long as the state.
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

    pgas_core::pass_on! {
        neighbours:
        segment_bytes, mapped_ranks, mapped, board, mapped_stride, notify,
        ranks_per_processor,
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
        if let Some((local, local_signal)) = self.on_this_host(put).zip(self.nearby(signal)) {
            return self.member().put_signal(local, local_signal);
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
        let State { post, endpoint, .. } = &mut *state;
        let network = (endpoint, &self.segments);
        post.send(network, to.number(), class, handler, parts)
    }

    fn prepare(&self, to: Rank, len: usize) -> Result<Offer<Place>> {
        if self.neighbours.reached(to).is_some() {
            return self.neighbours.prepare(to, len);
        }
        let mut state = self.state();
        let State { post, endpoint, .. } = &mut *state;
        post.offer(endpoint, len)
    }

    unsafe fn try_commit(
        &self,
        to: Rank,
        class: MessageClass,
        handler: HandlerId,
        place: Place,
        opening: &[u8],
    ) -> Result<Sent> {
        if self.neighbours.reached(to).is_some() {
            // SAFETY: as the caller promises.
            return unsafe { (self.neighbours).try_commit(to, class, handler, place, opening) };
        }
        let mut state = self.state();
        let State { post, endpoint, .. } = &mut *state;
        let network = (endpoint, &self.segments);
        if goes_in_place(opening, &place) {
            return post.send_place(network, to.number(), (class, handler), &place, opening);
        }
        // SAFETY: the caller promises that the place was offered for `place.len` bytes, and that
        // nobody writes to it meanwhile.
        let payload = unsafe { slice::from_raw_parts(place.start.as_ptr(), place.len) };
        let sent = check_length(to, opening.len() + place.len)
            .and_then(|()| post.send(network, to.number(), class, handler, &[opening, payload]));
        if !matches!(sent, Ok(Sent::BackPressure)) {
            // The payload was copied, or is not needed.
            post.take_back(&place);
        }
        sent
    }

    unsafe fn give_back(&self, to: Rank, place: Place) {
        if self.neighbours.reached(to).is_some() {
            // SAFETY: as the caller promises.
            return unsafe { self.neighbours.give_back(to, place) };
        }
        self.state().post.take_back(&place);
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
    /// and get here, and is short beside the way to it.
    fn progress(&self) -> Result<bool> {
        self.poll(MAX_POLLS)
    }

    fn progress_once(&self) -> Result<bool> {
        self.poll(1)
    }

    /// Polls, except for naps: no other rank can wake a process that does not call libfabric, and
    /// others may wait for its calls. The naps are short, since the caller may wait for an
    /// operation of its own, which this does not see.
    fn park(&self, at_most: Duration) {
        let is_crowded = self.is_crowded();
        self.parking
            .park(at_most, is_crowded, MAX_POLLS, |n| self.poll(n));
        if is_crowded {
            self.member().check_other_ranks();
        }
    }

    fn health(&self) -> Result<()> {
        self.check_health()
    }

    fn has_left(&self, rank: Rank) -> bool {
        self.is_gone(rank)
    }

    fn blame(&self, rank: Rank, cause: &str) -> Error {
        self.fail(rank, cause);
        self.failure
            .error()
            .unwrap_or_else(|| Error::rank_failed(rank, cause))
    }

    fn abort(&self, code: i32, message: &str) -> ! {
        self.member().end_job(self.rank(), code, message)
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
