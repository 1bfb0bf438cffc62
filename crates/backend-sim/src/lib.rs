//! Ranks as nodes of the simulated machine of `pgas-riscv-sim`: a program for
//! `riscv64gc-unknown-linux-gnu`, run by `rae run --nodes N --segment MIB`, reaches other ranks'
//! memory by the remote loads, stores and atomics of its processor.
//!
//! Programs use the crate `pgas` with feature `sim`, and choose this backend by `PGAS_BACKEND=sim`. In a
//! checkout of the repository `cargo xtask sim -n 4 --example kmer_count` builds an example for the
//! simulated machine and runs it.
//!
//! A rank learns its number, how many there are, and where its segment lies from the extended
//! registers e10 to e13. Segments lie at the same address on all nodes. The first bytes of each are
//! this backend's: messages and what ranks tell of themselves.
//!
//! A rank has one thread, its own memory is mapped and the others' is not. Atomics are done by the
//! network interface of the node that has the word, coherently with that node's processor.
//!
//! # Floors
//! | floor | modules |
//! |---|---|
//! | the transport | `lib` |
//! | messages | `mailbox` |
//! | bytes and words | `rma`, `atomics` |
//! | layout, instructions | `segment`, `sys` |
#![cfg(all(target_arch = "riscv64", target_os = "linux"))]
#![expect(unsafe_code, reason = "implements the contract, which is on raw bytes")]
#![expect(
    clippy::cast_possible_truncation,
    reason = "the one processor has 64 bits, and what is cut is known to fit or is the low part that is meant"
)]

mod atomics;
mod mailbox;
mod rma;
mod segment;
mod sys;

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pgas_core::backend::{
    Atomic, AtomicsBy, Backend, BarrierTicket, Capabilities, Former, Get, GetGrid, HandlerId,
    Message, MessageClass, NeedsTarget, OpId, Put, PutGrid, RemoteAddr, Sent, Stage, SwapCall,
};
use pgas_core::{Config, Error, Rank, Result, World};

use mailbox::Mailboxes;
use segment::{CAUSE_BYTES, Layout, MOST_PAYLOAD};
use sys::Remote;

/// How long a rank that leaves waits for the rest of a message at a time.
const LEAVING_NAP: Duration = Duration::from_micros(50);

static CAPABILITIES: Capabilities = Capabilities {
    atomics: AtomicsBy::Cpu,
    needs_target: NeedsTarget::NOTHING,
    max_short: 64,
    max_medium: MOST_PAYLOAD,
    max_transfer: 1 << 30,
};

/// One rank.
#[derive(Debug)]
pub struct Node {
    rank: u32,
    n_ranks: u32,
    /// Where core's part of every segment starts.
    base: u64,
    segment_bytes: u64,
    mailbox: Mailboxes,
    /// How often others had written to this rank's memory when it last woke, as the simulator counts.
    n_written: AtomicU64,
    /// The failure of the job, as it was first seen here.
    failure: OnceLock<(u32, String)>,
}

/// The world of this process.
///
/// # Errors
/// If no simulator gave the process a segment; what [`World::new`] gives.
pub fn init(config: &Config) -> Result<World> {
    World::new(Arc::new(Node::attach()?), config.clone())
}

impl Node {
    /// This process's rank.
    ///
    /// # Errors
    /// If no simulator gave it a segment, or one in which nothing is left for core.
    pub fn attach() -> Result<Self> {
        let start = sys::start();
        let (rank, n_ranks) = (start.rank as u32, start.n_ranks as u32);
        let own = Layout::new(n_ranks).bytes();
        if start.segment_bytes <= own {
            let bytes = start.segment_bytes;
            let cause = format!(
                "a segment of {bytes} bytes, of which {own} are for messages (rae run --segment MIB)"
            );
            return Err(Error::rank_failed(Rank::new(rank), cause));
        }
        Ok(Self {
            rank,
            n_ranks,
            base: start.segment + own,
            segment_bytes: start.segment_bytes - own,
            mailbox: Mailboxes::new(rank, n_ranks, start.segment),
            n_written: AtomicU64::new(0),
            failure: OnceLock::new(),
        })
    }

    fn remote(&self, at: RemoteAddr) -> Remote {
        Remote::new(at.rank.number(), self.base + at.offset)
    }

    fn failed(&self) -> Option<Error> {
        let found = || {
            let number = self.mailbox.own(Layout::failure()).load(Ordering::Acquire);
            let rank = u32::try_from(number.checked_sub(1)?).ok()?;
            let len = self
                .mailbox
                .own(Layout::failure() + 8)
                .load(Ordering::Relaxed);
            let words = (0..CAUSE_BYTES / 8).map(|k| {
                let word = self.mailbox.own(Layout::cause() + 8 * k);
                word.load(Ordering::Relaxed).to_le_bytes()
            });
            let bytes: Vec<u8> = words.flatten().take(len as usize).collect();
            Some((rank, String::from_utf8_lossy(&bytes).into_owned()))
        };
        if self.failure.get().is_none() {
            // Another one may have set it meanwhile, with the same.
            let _same = self.failure.set(found()?);
        }
        let (rank, cause) = self.failure.get()?;
        Some(Error::rank_failed(Rank::new(*rank), cause.clone()))
    }

    fn put_bytes(&self, put: &Put) {
        // SAFETY: who made the put promised that the source is readable and the place in the segment.
        unsafe { rma::put(self.remote(put.dst()), put.src(), put.len()) };
    }

    fn get_bytes(&self, get: &Get) {
        // SAFETY: who made the get promised that the destination is writable and the place in the segment.
        unsafe { rma::get(self.remote(get.src()), get.dst(), get.len()) };
    }

    fn fetch(&self, atomic: &Atomic) -> u64 {
        // SAFETY: who made the operand promised that the word lies in the segment, aligned.
        unsafe { atomics::fetch(self.remote(atomic.target()), atomic.call()) }
    }

    fn swap(&self, swap: &Atomic<SwapCall>) -> u64 {
        // SAFETY: as above.
        unsafe { atomics::compare_swap(self.remote(swap.target()), swap.call()) }
    }
}

// SAFETY: 1. the simulator gives every node a segment of the same size at the same page, for as
// long as the process lives; the own one is mapped. 2. every operation is done, as far as this
// process's memory goes, when its call returns. 3. `fence` waits for all remote operations. 4. a
// remote atomic is one instruction, which the network interface executes coherently with its node's
// processor. 5. a slot is reserved by one sender and handed out once, in order, by its receiver. 6.
// no place is offered.
unsafe impl Backend for Node {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn rank(&self) -> Rank {
        Rank::new(self.rank)
    }

    fn n_ranks(&self) -> u32 {
        self.n_ranks
    }

    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    fn mapped_ranks(&self) -> Range<u32> {
        self.rank..self.rank + 1
    }

    fn mapped(&self, rank: Rank) -> Option<NonNull<u8>> {
        if rank.number() != self.rank {
            return None;
        }
        NonNull::new(std::ptr::with_exposed_provenance_mut(self.base as usize))
    }

    fn put(&self, put: Put) -> Result<()> {
        self.put_bytes(&put);
        Ok(())
    }

    fn get(&self, get: Get) -> Result<()> {
        self.get_bytes(&get);
        Ok(())
    }

    fn put_nb(&self, put: Put) -> Result<OpId> {
        self.put_bytes(&put);
        sys::fence();
        Ok(OpId::DONE)
    }

    fn get_nb(&self, get: Get) -> Result<OpId> {
        self.get_bytes(&get);
        Ok(OpId::DONE)
    }

    fn put_fragments(&self, fragments: &[Put]) -> Result<()> {
        fragments.iter().for_each(|put| self.put_bytes(put));
        Ok(())
    }

    fn get_fragments(&self, fragments: &[Get]) -> Result<()> {
        fragments.iter().for_each(|get| self.get_bytes(get));
        Ok(())
    }

    fn put_strided(&self, grid: PutGrid<'_>) -> Result<()> {
        grid.for_each(|put| {
            self.put_bytes(&put);
            Ok(())
        })
    }

    fn get_strided(&self, grid: GetGrid<'_>) -> Result<()> {
        grid.for_each(|get| {
            self.get_bytes(&get);
            Ok(())
        })
    }

    fn put_signal(&self, put: Put, signal: Atomic) -> Result<()> {
        self.put_bytes(&put);
        sys::fence();
        self.fetch(&signal);
        Ok(())
    }

    fn atomic(&self, atomic: Atomic) -> Result<()> {
        self.fetch(&atomic);
        Ok(())
    }

    fn fetch_atomic(&self, atomic: Atomic) -> Result<u64> {
        Ok(self.fetch(&atomic))
    }

    fn compare_swap(&self, swap: Atomic<SwapCall>) -> Result<u64> {
        Ok(self.swap(&swap))
    }

    fn fetch_atomic_nb(&self, atomic: Atomic, former: Former) -> Result<OpId> {
        former.set(self.fetch(&atomic));
        Ok(OpId::DONE)
    }

    fn compare_swap_nb(&self, swap: Atomic<SwapCall>, former: Former) -> Result<OpId> {
        former.set(self.swap(&swap));
        Ok(OpId::DONE)
    }

    fn test(&self, op: OpId, _: Stage) -> Result<bool> {
        debug_assert_eq!(op, OpId::DONE, "everything is done when it has begun");
        Ok(true)
    }

    fn flush(&self, _: Rank) -> Result<()> {
        sys::fence();
        Ok(())
    }

    fn flush_all(&self) -> Result<()> {
        sys::fence();
        Ok(())
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
        let len = parts.iter().map(|part| part.len()).sum();
        if len > MOST_PAYLOAD {
            return Err(Error::too_long(to, len, MOST_PAYLOAD));
        }
        let gone = || {
            let left = self.mailbox.own(Layout::left(to.number()));
            left.load(Ordering::Acquire) != 0
        };
        if gone() && handler.is_heard_of() {
            return Err(Error::rank_failed(to, "has left the job"));
        }
        let Some(number) = self.mailbox.offer(to, class, handler, parts) else {
            return Ok(Sent::BackPressure);
        };
        // Whoever leaves says so first and then takes what is there: one of the two sees the other.
        if gone() && handler.is_heard_of() && !self.mailbox.was_taken(to, class, number) {
            return Err(Error::rank_failed(to, "has left the job"));
        }
        Ok(Sent::Accepted)
    }

    fn n_credits(&self, to: Rank, class: MessageClass) -> u64 {
        self.mailbox.n_free(to, class)
    }

    fn poll(
        &self,
        class: MessageClass,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
    ) -> Result<usize> {
        self.mailbox.receive(class, limit, sink)
    }

    fn progress(&self) -> Result<bool> {
        Ok(false)
    }

    fn park(&self, at_most: Duration) {
        let ns = u64::try_from(at_most.as_nanos()).unwrap_or(u64::MAX);
        // Relaxed: a rank has one thread.
        let seen = self.n_written.load(Ordering::Relaxed);
        self.n_written
            .store(sys::await_writes(seen, ns), Ordering::Relaxed);
    }

    fn parks_until_written(&self) -> bool {
        true
    }

    fn notify(&self, _: Rank) {}

    fn is_oversubscribed(&self) -> bool {
        false
    }

    fn health(&self) -> Result<()> {
        self.failed().map_or(Ok(()), Err)
    }

    fn has_left(&self, rank: Rank) -> bool {
        let left = self.mailbox.own(Layout::left(rank.number()));
        left.load(Ordering::Acquire) != 0 && self.mailbox.are_drained()
    }

    fn blame(&self, rank: Rank, cause: &str) -> Error {
        if let Some(error) = self.failed() {
            return error;
        }
        let mut bytes = cause.as_bytes().to_vec();
        bytes.truncate(CAUSE_BYTES as usize);
        for peer in 0..self.n_ranks {
            self.mailbox.tell_bytes(peer, Layout::cause(), &bytes);
            let len = bytes.len() as u64;
            self.mailbox.tell(peer, Layout::failure() + 8, len);
            sys::fence();
            let number = u64::from(rank.number()) + 1;
            self.mailbox.tell(peer, Layout::failure(), number);
        }
        sys::fence();
        self.failed()
            .unwrap_or_else(|| Error::rank_failed(rank, cause))
    }

    fn discard(&self, offset: u64, bytes: u64) -> bool {
        let start = std::ptr::with_exposed_provenance_mut::<u8>((self.base + offset) as usize);
        // SAFETY: core names a range of the own segment that nobody uses.
        unsafe { start.write_bytes(0, bytes as usize) };
        true
    }

    #[expect(clippy::disallowed_methods, reason = "this is how the job ends")]
    fn abort(&self, code: i32, message: &str) -> ! {
        let cause = format!("aborted the job with code {code}: {message}");
        let _told = self.blame(Rank::new(self.rank), &cause);
        std::process::exit(code)
    }

    fn leave(&self, late: &mut dyn FnMut(Message<'_>)) {
        sys::fence();
        for peer in 0..self.n_ranks {
            self.mailbox.tell(peer, Layout::left(self.rank), 1);
        }
        sys::fence();
        for class in [MessageClass::Request, MessageClass::Reply] {
            // Behind a message that is on its way into its slots may be others that were accepted.
            while !self.mailbox.is_empty(class) && self.failed().is_none() {
                let received = self.mailbox.receive(class, usize::MAX, late);
                match received {
                    Ok(0) => self.park(LEAVING_NAP),
                    Ok(_) => {}
                    Err(_) => break,
                }
            }
        }
        sys::fence();
    }
}
