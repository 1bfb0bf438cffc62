//! Where the bytes move: the backend over shared memory.
//!
//! This file is last on the path of an operation. Most operations never reach it, because core
//! accesses mapped segments itself. The others (with `PGAS_DIRECT=0`, and in generic code) use the
//! same loads, stores, copies and CPU atomics here, each complete when it returns.
#![expect(
    unsafe_code,
    reason = "accesses segments on addresses that core has checked"
)]

use std::ops::Range;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use pgas_core::backend::{
    Atomic, Backend, BarrierTicket, Capabilities, Former, Get, GetGrid, HandlerId, Message,
    MessageClass, Offer, OpId, Operand, Place, Put, PutGrid, RemoteAddr, Sent, Stage, SwapCall,
};
use pgas_core::raw::{copy, word};
use pgas_core::stats::Board;
use pgas_core::{Error, Rank, Result};
use pgas_lockfree::roster::Membership;

use crate::member::Member;

impl Member {
    /// The address that `at` names, if it lies in a segment of the job.
    #[inline]
    fn place(&self, at: RemoteAddr) -> *mut u8 {
        let base = self.job().segment(at.rank.number());
        let offset = usize::try_from(at.offset).expect("below the size of a mapped segment");
        base.as_ptr().wrapping_add(offset)
    }
}

// SAFETY: 1. segments are parts of the job's mapping, which is aligned to 4 KiB and lives as long
// as the job that every `Member` holds. 2. Operations are plain copies and atomics on exactly the
// bytes named, complete on return. 3. `flush` is a full fence behind stores to coherent memory. 4.
// Atomics are CPU atomics. 5. A mailbox delivers each message once, whole, to its owner.
unsafe impl Backend for Member {
    fn name(&self) -> &'static str {
        "smp"
    }

    fn rank(&self) -> Rank {
        Rank::new(self.number())
    }

    fn n_ranks(&self) -> u32 {
        self.job().layout().n_ranks
    }

    fn capabilities(&self) -> &Capabilities {
        Self::CAPABILITIES
    }

    fn segment_bytes(&self) -> u64 {
        self.job().layout().segment_bytes
    }

    fn mapped_ranks(&self) -> Range<u32> {
        0..self.n_ranks()
    }

    fn mapped(&self, rank: Rank) -> Option<NonNull<u8>> {
        (rank.number() < self.n_ranks()).then(|| self.job().segment(rank.number()))
    }

    fn mapped_stride(&self) -> Option<usize> {
        usize::try_from(self.segment_bytes()).ok()
    }

    fn board(&self, rank: Rank) -> Option<Board> {
        self.job().board(rank.number())
    }

    fn put(&self, put: Put) -> Result<()> {
        let place = self.place(put.dst());
        // SAFETY: the maker of the put promised that `put.len()` bytes from its place on lie in a
        // segment, which is mapped there, and that as many are readable at its source, which nobody
        // writes meanwhile. There are no references into segments, so the source is not in one.
        unsafe { copy::to_shared(place, put.src(), put.len()) };
        Ok(())
    }

    fn get(&self, get: Get) -> Result<()> {
        let place = self.place(get.src());
        // SAFETY: the maker of the get promised that `get.len()` bytes from its place on lie in a
        // segment, which is mapped there, and that as many are writable at its destination, which
        // is no part of a segment and which nobody else accesses meanwhile.
        unsafe { copy::from_shared(get.dst(), place, get.len()) };
        Ok(())
    }

    fn put_nb(&self, put: Put) -> Result<OpId> {
        self.put(put)?;
        self.flush_all()?;
        Ok(OpId::DONE)
    }

    fn get_nb(&self, get: Get) -> Result<OpId> {
        self.get(get)?;
        Ok(OpId::DONE)
    }

    fn put_fragments(&self, fragments: &[Put]) -> Result<()> {
        fragments.iter().try_for_each(|piece| self.put(*piece))
    }

    fn get_fragments(&self, fragments: &[Get]) -> Result<()> {
        fragments.iter().try_for_each(|piece| self.get(*piece))
    }

    fn put_strided(&self, grid: PutGrid<'_>) -> Result<()> {
        grid.for_each(|block| self.put(block))
    }

    fn get_strided(&self, grid: GetGrid<'_>) -> Result<()> {
        grid.for_each(|block| self.get(block))
    }

    fn put_signal(&self, put: Put, signal: Atomic) -> Result<()> {
        self.put(put)?;
        // The release of the update below covers the copy, whatever instructions that used.
        fence(Ordering::Release);
        self.fetch_atomic(signal)?;
        self.notify(signal.rank());
        Ok(())
    }

    fn atomic(&self, atomic: Atomic) -> Result<()> {
        self.fetch_atomic(atomic).map(drop)
    }

    fn fetch_atomic(&self, atomic: Atomic) -> Result<u64> {
        let place = self.place(atomic.target());
        // SAFETY: the maker of the operand promised a word in a segment, which is mapped there,
        // aligned for the call's type. Segments are only accessed atomically.
        Ok(unsafe { word::fetch(place, atomic.call()) })
    }

    fn compare_swap(&self, swap: Atomic<SwapCall>) -> Result<u64> {
        let place = self.place(swap.target());
        // SAFETY: as in `fetch_atomic`.
        let swapped = unsafe { word::compare_swap(place, swap.call()) };
        Ok(swapped.unwrap_or_else(|former| former))
    }

    fn fetch_atomic_nb(&self, atomic: Atomic, former: Former) -> Result<OpId> {
        former.set(self.fetch_atomic(atomic)?);
        Ok(OpId::DONE)
    }

    fn compare_swap_nb(&self, swap: Atomic<SwapCall>, former: Former) -> Result<OpId> {
        former.set(self.compare_swap(swap)?);
        Ok(OpId::DONE)
    }

    fn test(&self, _op: OpId, _stage: Stage) -> Result<bool> {
        Ok(true)
    }

    #[inline]
    fn flush(&self, _rank: Rank) -> Result<()> {
        fence(Ordering::SeqCst);
        Ok(())
    }

    #[inline]
    fn flush_all(&self) -> Result<()> {
        fence(Ordering::SeqCst);
        Ok(())
    }

    fn barrier_begin(&self) -> Result<Option<BarrierTicket>> {
        self.arrive().map(Some)
    }

    fn barrier_test(&self, ticket: BarrierTicket) -> Result<bool> {
        Ok(self.is_complete(ticket))
    }

    fn barrier_missing(&self, ticket: BarrierTicket) -> Vec<Rank> {
        self.missing(ticket)
    }

    fn try_send(
        &self,
        to: Rank,
        class: MessageClass,
        handler: HandlerId,
        parts: &[&[u8]],
    ) -> Result<Sent> {
        self.send(to.number(), class, handler, parts)
    }

    fn prepare(&self, to: Rank, len: usize) -> Result<Offer<Place>> {
        self.offer(to, len)
    }

    unsafe fn try_commit(
        &self,
        to: Rank,
        class: MessageClass,
        handler: HandlerId,
        place: Place,
        opening: &[u8],
    ) -> Result<Sent> {
        let of = (class, handler);
        if let Some(sent) = self.send_from(place, to.number(), of, opening)? {
            return Ok(sent);
        }
        // SAFETY: the caller promises that the place was offered for `place.len` bytes, and that
        // nobody writes to it meanwhile.
        let payload = unsafe { slice::from_raw_parts(place.start.as_ptr(), place.len) };
        let sent = self.send(to.number(), class, handler, &[opening, payload]);
        if !matches!(sent, Ok(Sent::BackPressure)) {
            // The payload was copied, or is not needed.
            self.take_back(place.id);
        }
        sent
    }

    unsafe fn give_back(&self, _to: Rank, place: Place) {
        self.take_back(place.id);
    }

    fn n_credits(&self, to: Rank, class: MessageClass) -> u64 {
        Self::n_credits(self, to.number(), class)
    }

    fn poll(
        &self,
        class: MessageClass,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
    ) -> Result<usize> {
        self.receive(class, limit, sink)
    }

    fn poll_all(
        &self,
        with_requests: bool,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
    ) -> Result<usize> {
        let n_replies = self.receive(MessageClass::Reply, limit, sink)?;
        if !with_requests {
            return Ok(n_replies);
        }
        Ok(n_replies + self.receive(MessageClass::Request, limit, sink)?)
    }

    fn progress(&self) -> Result<bool> {
        Ok(false)
    }

    fn park(&self, at_most: Duration) {
        self.sleep(at_most);
    }

    fn notify(&self, rank: Rank) {
        self.job().control().bell(rank.number()).ring();
    }

    fn ranks_per_processor(&self) -> u32 {
        self.ranks_per_core()
    }

    fn health(&self) -> Result<()> {
        self.check_health()
    }

    fn has_left(&self, rank: Rank) -> bool {
        self.is_gone(rank.number())
    }

    fn has_joined(&self, rank: Rank) -> bool {
        self.job().control().membership(rank.number()) != Membership::Absent
    }

    fn blame(&self, rank: Rank, cause: &str) -> Error {
        self.record_failure(rank, cause)
    }

    fn discard(&self, offset: u64, bytes: u64) -> bool {
        self.job().discard(self.number(), offset, bytes)
    }

    fn abort(&self, code: i32, message: &str) -> ! {
        self.end_job(self.rank(), code, message)
    }

    fn leave(&self, late: &mut dyn FnMut(Message<'_>)) {
        self.mark_left(late);
    }
}
