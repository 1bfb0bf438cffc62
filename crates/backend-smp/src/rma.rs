//! Where the bytes move: the backend over shared memory.
//!
//! On the path of an operation this file comes last. Most operations never reach it, because core
//! accesses mapped segments itself; what does (with `PGAS_DIRECT=0`, and in generic code) is done here
//! by the same loads, stores, copies and CPU atomics, each complete when it returns.
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
    AtomicCall, AtomicOp, AtomicType, Backend, BarrierTicket, Capabilities, GetFragment, HandlerId,
    Message, MessageClass, Offer, OpId, Place, PutFragment, RemoteAddr, Sent, Shape, SignalUpdate,
    Stage, SwapCall,
};
use pgas_core::raw::{copy, word};
use pgas_core::{Error, Rank, Result};

use crate::member::Member;

impl Member {
    /// The address that `at` names.
    ///
    /// # Safety
    ///
    /// `at` lies in a segment of the job.
    #[inline]
    unsafe fn place(&self, at: RemoteAddr) -> *mut u8 {
        let base = self.job().segment(at.rank.number());
        let offset = usize::try_from(at.offset).expect("below the size of a mapped segment");
        // SAFETY: the caller promises that the offset lies in the segment, which is mapped at `base`.
        unsafe { base.as_ptr().add(offset) }
    }
}

// SAFETY: 1. segments are parts of the job's mapping, which is aligned to 4 KiB and lives as long as
// the job that every `Member` holds. 2. Operations are plain copies and atomics on exactly the bytes
// named, complete on return. 3. `flush` is a full fence behind stores to coherent memory. 4. Atomics are
// CPU atomics. 5. A mailbox delivers each message once, whole, to its owner.
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

    unsafe fn put(&self, dst: RemoteAddr, src: *const u8, len: usize) -> Result<()> {
        // SAFETY: the caller promises that `dst` lies in a segment.
        let place = unsafe { self.place(dst) };
        // SAFETY: the caller promises `len` bytes on both sides; `src` is no segment memory.
        unsafe { copy::to_shared(place, src, len) };
        Ok(())
    }

    unsafe fn get(&self, src: RemoteAddr, dst: *mut u8, len: usize) -> Result<()> {
        // SAFETY: the caller promises that `src` lies in a segment.
        let place = unsafe { self.place(src) };
        // SAFETY: the caller promises `len` bytes on both sides; `dst` is no segment memory.
        unsafe { copy::from_shared(dst, place, len) };
        Ok(())
    }

    unsafe fn put_nb(&self, dst: RemoteAddr, src: *const u8, len: usize) -> Result<OpId> {
        // SAFETY: `put` asks for the same bytes, and only until it returns.
        unsafe { self.put(dst, src, len) }?;
        self.flush_all()?;
        Ok(OpId::DONE)
    }

    unsafe fn get_nb(&self, src: RemoteAddr, dst: *mut u8, len: usize) -> Result<OpId> {
        // SAFETY: `get` asks for the same bytes, and only until it returns.
        unsafe { self.get(src, dst, len) }?;
        Ok(OpId::DONE)
    }

    unsafe fn put_fragments(&self, fragments: &[PutFragment]) -> Result<()> {
        fragments.iter().try_for_each(|piece| {
            // SAFETY: the caller promises each fragment.
            unsafe { self.put(piece.dst, piece.src, piece.len) }
        })
    }

    unsafe fn get_fragments(&self, fragments: &[GetFragment]) -> Result<()> {
        fragments.iter().try_for_each(|piece| {
            // SAFETY: the caller promises each fragment.
            unsafe { self.get(piece.src, piece.dst, piece.len) }
        })
    }

    unsafe fn put_strided(&self, dst: RemoteAddr, src: *const u8, shape: &Shape) -> Result<()> {
        // SAFETY: the caller promises that the first block lies in a segment.
        let place = unsafe { self.place(dst) };
        shape.for_each_block(|remote, local| {
            // SAFETY: the caller promises every block of the shape, so also its place in the segment.
            let to = unsafe { place.offset(remote) };
            // SAFETY: and its place in local memory, readable from `src` on.
            let from = unsafe { src.offset(local) };
            // SAFETY: a whole block is promised on both sides; `src` is no segment memory.
            unsafe { copy::to_shared(to, from, shape.block_bytes) };
            Ok(())
        })
    }

    unsafe fn get_strided(&self, src: RemoteAddr, dst: *mut u8, shape: &Shape) -> Result<()> {
        // SAFETY: the caller promises that the first block lies in a segment.
        let place = unsafe { self.place(src) };
        shape.for_each_block(|remote, local| {
            // SAFETY: the caller promises every block of the shape, so also its place in the segment.
            let from = unsafe { place.offset(remote) };
            // SAFETY: and its place in local memory, writable from `dst` on.
            let to = unsafe { dst.offset(local) };
            // SAFETY: a whole block is promised on both sides; `dst` is no segment memory.
            unsafe { copy::from_shared(to, from, shape.block_bytes) };
            Ok(())
        })
    }

    unsafe fn put_signal(
        &self,
        dst: RemoteAddr,
        src: *const u8,
        len: usize,
        signal: RemoteAddr,
        update: SignalUpdate,
    ) -> Result<()> {
        // SAFETY: `put` asks for the range in a segment and the source that the caller promises.
        unsafe { self.put(dst, src, len) }?;
        // The release of the update below covers the copy, whatever instructions that used.
        fence(Ordering::Release);
        let (op, operand) = match update {
            SignalUpdate::Set(value) => (AtomicOp::Swap, value),
            SignalUpdate::Add(value) => (AtomicOp::Add, value),
        };
        // SAFETY: the caller promises an aligned word in a segment.
        unsafe {
            self.fetch_atomic(
                signal,
                AtomicCall {
                    op,
                    ty: AtomicType::U64,
                    operand,
                },
            )
        }?;
        self.notify(signal.rank);
        Ok(())
    }

    unsafe fn atomic(&self, target: RemoteAddr, call: AtomicCall) -> Result<()> {
        // SAFETY: `fetch_atomic` asks for an aligned word in a segment, as this method does.
        unsafe { self.fetch_atomic(target, call) }.map(|_| ())
    }

    unsafe fn fetch_atomic(&self, target: RemoteAddr, call: AtomicCall) -> Result<u64> {
        // SAFETY: the caller promises that the word lies in a segment.
        let place = unsafe { self.place(target) };
        // SAFETY: the caller promises its alignment; segments are only accessed atomically.
        Ok(unsafe { word::fetch(place, call) })
    }

    unsafe fn compare_swap(&self, target: RemoteAddr, call: SwapCall) -> Result<u64> {
        // SAFETY: the caller promises that the word lies in a segment.
        let place = unsafe { self.place(target) };
        // SAFETY: the caller promises its alignment; segments are only accessed atomically.
        let swapped = unsafe { word::compare_swap(place, call) };
        Ok(swapped.unwrap_or_else(|former| former))
    }

    unsafe fn fetch_atomic_nb(
        &self,
        target: RemoteAddr,
        call: AtomicCall,
        result: *mut u64,
    ) -> Result<OpId> {
        // SAFETY: `fetch_atomic` asks for an aligned word in a segment, which the caller promises
        // besides the result's place.
        let former = unsafe { self.fetch_atomic(target, call) }?;
        // SAFETY: the caller promises that `result` may be written.
        unsafe { result.write(former) };
        Ok(OpId::DONE)
    }

    unsafe fn compare_swap_nb(
        &self,
        target: RemoteAddr,
        call: SwapCall,
        result: *mut u64,
    ) -> Result<OpId> {
        // SAFETY: `compare_swap` asks for an aligned word in a segment, which the caller promises
        // besides the result's place.
        let former = unsafe { self.compare_swap(target, call) }?;
        // SAFETY: the caller promises that `result` may be written.
        unsafe { result.write(former) };
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

    fn prepare(&self, _to: Rank, len: usize) -> Result<Offer<Place>> {
        self.offer(len)
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
        // SAFETY: the caller promises that the place was offered for so many bytes, and that nobody writes to it meanwhile.
        let payload = unsafe { slice::from_raw_parts(place.start.as_ptr(), place.len) };
        let sent = self.send(to.number(), class, handler, &[opening, payload]);
        if !matches!(sent, Ok(Sent::BackPressure)) {
            // It was copied, or nobody wants it.
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

    fn is_oversubscribed(&self) -> bool {
        self.has_too_few_cores()
    }

    fn health(&self) -> Result<()> {
        self.check_health()
    }

    fn has_left(&self, rank: Rank) -> bool {
        self.is_gone(rank.number())
    }

    fn blame(&self, rank: Rank, cause: &str) -> Error {
        self.record_failure(rank, cause)
    }

    fn discard(&self, offset: u64, bytes: u64) -> bool {
        self.job().discard(self.number(), offset, bytes)
    }

    fn abort(&self, code: i32, message: &str) -> ! {
        self.end_job(code, message)
    }

    fn leave(&self, late: &mut dyn FnMut(Message<'_>)) {
        self.mark_left(late);
    }
}
