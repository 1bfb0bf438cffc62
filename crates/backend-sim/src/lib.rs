//! Ranks as nodes of the simulated machine of `pgas-riscv-sim`: a program for
//! `riscv64gc-unknown-linux-gnu`, run by `rae run --nodes N --segment MIB`, reaches other ranks'
//! memory by the remote loads, stores and atomics of its processor.
//!
//! Programs use the crate `pgas` with feature `sim`, and choose this backend by `PGAS_BACKEND=sim`.
//! In a checkout of the repository `cargo xtask sim -n 4 --example kmer_count` builds an example
//! for the simulated machine and runs it.
//!
//! A rank learns its number, how many there are, and where its segment lies from the extended
//! registers e10 to e13. Segments lie at the same address on all nodes. The first bytes of each are
//! this backend's: messages and what ranks tell of themselves.
//!
//! A rank has one thread, its own memory is mapped and the others' is not. Atomics are done by the
//! network interface of the node that has the word, coherently with that node's processor; for
//! comparison also by software (`Atomics::Software`).
//!
//! # Floors
//! | floor | modules |
//! |---|---|
//! | the transport | `lib` |
//! | atomics by the target's processor | `software` |
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
mod software;
mod sys;

use std::ops::Range;
use std::ptr::NonNull;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pgas_core::backend::{
    Atomic, AtomicsBy, Backend, Capabilities, Former, Get, GetGrid, HandlerId, Message,
    MessageClass, NeedsTarget, OpId, Put, PutGrid, RemoteAddr, Sent, Stage, SwapCall,
};
use pgas_core::raw::word;
use pgas_core::{Config, Error, Rank, Result, World};
use pgas_network::note::Order;

use mailbox::Mailboxes;
use segment::{CAUSE_BYTES, Layout, MOST_PAYLOAD, PAGE};
use software::Orders;
use sys::Remote;

/// How long a rank that leaves waits for the rest of a message at a time.
const LEAVING_NAP: Duration = Duration::from_micros(50);

/// How atomics on other ranks' words are done.
///
/// All but the first are there to be compared with it. Messages find their room by the hardware's
/// atomics whatever this is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Atomics {
    /// By an instruction, which the network interface of the word's node executes.
    #[default]
    Hardware,
    /// By an order in the memory of the word's rank, whose processor executes it when it calls into
    /// the library, and an answer. Containers are not told, and do what they do with hardware.
    Software,
    /// As [`Software`](Self::Software), and containers are told: where several atomics belong
    /// together, they send them as one message.
    Messages,
}

/// How this backend does what it can do in several ways; the same on every rank.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Atomics on other ranks' words.
    pub atomics: Atomics,
    /// A rank that waits looks again and again. Otherwise it sleeps in the simulator until it is
    /// written to, which costs the host nothing, and on the timed machine wakes up to 200 cycles
    /// late.
    pub spins: bool,
}

impl FromStr for Atomics {
    type Err = Error;

    /// Reads `hardware`, `software` or `messages`.
    fn from_str(name: &str) -> Result<Self> {
        match name {
            "hardware" => Ok(Self::Hardware),
            "software" => Ok(Self::Software),
            "messages" => Ok(Self::Messages),
            _ => Err(Error::Argument(
                format!("no way to do atomics is called {name:?}").into(),
            )),
        }
    }
}

impl Atomics {
    const fn capabilities(self) -> Capabilities {
        Capabilities {
            atomics: AtomicsBy::Cpu,
            needs_target: NeedsTarget {
                atomics: matches!(self, Self::Messages),
                ..NeedsTarget::NOTHING
            },
            max_short: 64,
            max_medium: MOST_PAYLOAD,
            max_transfer: 1 << 30,
            // The simulator loads one file for all of its nodes.
            starts_one_program: true,
        }
    }
}

/// One rank.
#[derive(Debug)]
pub struct Node {
    rank: u32,
    n_ranks: u32,
    /// Where core's part of every segment starts.
    base: u64,
    segment_bytes: u64,
    mailbox: Mailboxes,
    capabilities: Capabilities,
    /// Atomics by software.
    orders: Option<Orders>,
    spins: bool,
    /// How often others had written to this rank's memory when it last woke, as the simulator
    /// counts.
    n_written: AtomicU64,
    /// The failure of the job, as it was first seen here.
    failure: OnceLock<(u32, String)>,
}

/// The world of this process.
///
/// # Errors
/// If no simulator gave the process a segment; what [`World::new`] gives.
pub fn init(config: &Config) -> Result<World> {
    init_with(config, Options::default())
}

/// As [`init`], with atomics and waits as told.
///
/// # Errors
/// As [`init`].
pub fn init_with(config: &Config, options: Options) -> Result<World> {
    World::new(Arc::new(Node::attach_with(options)?), config.clone())
}

/// Says that this process is in its region of interest from now on, or no longer: what the
/// simulator counts there it counts apart.
pub fn mark_region(is_inside: bool) {
    sys::mark_region(is_inside);
}

impl Node {
    /// This process's rank.
    ///
    /// # Errors
    /// If no simulator gave it a segment, or one in which nothing is left for core.
    pub fn attach() -> Result<Self> {
        Self::attach_with(Options::default())
    }

    /// As [`attach`](Self::attach), with atomics and waits as told.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    pub fn attach_with(options: Options) -> Result<Self> {
        let start = sys::start();
        let (rank, n_ranks) = (start.rank as u32, start.n_ranks as u32);
        let messages = Layout::new(n_ranks).bytes();
        let orders =
            (options.atomics != Atomics::Hardware).then(|| Orders::new(rank, n_ranks, messages));
        let own = match orders {
            Some(_) => messages + Orders::bytes(n_ranks).next_multiple_of(PAGE),
            None => messages,
        };
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
            capabilities: options.atomics.capabilities(),
            orders,
            spins: options.spins,
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
        // SAFETY: who made the put promised that the source is readable and the place in the
        // segment.
        unsafe { rma::put(self.remote(put.dst()), put.src(), put.len()) };
    }

    fn get_bytes(&self, get: &Get) {
        // SAFETY: who made the get promised that the destination is writable and the place in the
        // segment.
        unsafe { rma::get(self.remote(get.src()), get.dst(), get.len()) };
    }

    fn fetch(&self, atomic: &Atomic) -> Result<u64> {
        let (at, call) = (atomic.target(), atomic.call());
        match &self.orders {
            // SAFETY: who made the operand promised that the word lies in the segment, aligned.
            None => Ok(unsafe { atomics::fetch(self.remote(at), call) }),
            Some(_) if at.rank.number() == self.rank => {
                // SAFETY: the same promise, and the own segment is mapped.
                Ok(unsafe { word::fetch(self.own(at.offset), call) })
            }
            Some(orders) => self.order(orders, at, Order::Fetch(call)),
        }
    }

    fn swap(&self, swap: &Atomic<SwapCall>) -> Result<u64> {
        let (at, call) = (swap.target(), swap.call());
        match &self.orders {
            // SAFETY: as for a fetch.
            None => Ok(unsafe { atomics::compare_swap(self.remote(at), call) }),
            Some(_) if at.rank.number() == self.rank => {
                // SAFETY: as for a fetch.
                let found = unsafe { word::compare_swap(self.own(at.offset), call) };
                Ok(found.unwrap_or_else(|found| found))
            }
            Some(orders) => self.order(orders, at, Order::Swap(call)),
        }
    }

    /// A place of core's part of the own segment.
    fn own(&self, offset: u64) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut((self.base + offset) as usize)
    }

    fn said_farewell(&self, rank: Rank) -> bool {
        let left = self.mailbox.own(Layout::left(rank.number()));
        left.load(Ordering::Acquire) != 0
    }

    /// Sleeps until something was written to this rank since it last woke, at most so long.
    fn nap(&self, ns: u64) {
        if self.spins {
            return;
        }
        // Relaxed: a rank has one thread.
        let seen = self.n_written.load(Ordering::Relaxed);
        self.n_written
            .store(sys::await_writes(seen, ns), Ordering::Relaxed);
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
        &self.capabilities
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
        NonNull::new(self.own(0))
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
        self.fetch(&signal).map(drop)
    }

    fn atomic(&self, atomic: Atomic) -> Result<()> {
        self.fetch(&atomic).map(drop)
    }

    fn fetch_atomic(&self, atomic: Atomic) -> Result<u64> {
        self.fetch(&atomic)
    }

    fn compare_swap(&self, swap: Atomic<SwapCall>) -> Result<u64> {
        self.swap(&swap)
    }

    fn fetch_atomic_nb(&self, atomic: Atomic, former: Former) -> Result<OpId> {
        former.set(self.fetch(&atomic)?);
        Ok(OpId::DONE)
    }

    fn compare_swap_nb(&self, swap: Atomic<SwapCall>, former: Former) -> Result<OpId> {
        former.set(self.swap(&swap)?);
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
        let gone = || self.said_farewell(to);
        if gone() && handler.is_heard_of() {
            return Err(Error::rank_failed(to, "has left the job"));
        }
        let Some(posted) = self.mailbox.offer(to, class, handler, parts) else {
            return Ok(Sent::BackPressure);
        };
        // Whoever leaves says so first and then takes what is there: one of the two sees the other.
        if gone() && handler.is_heard_of() && self.mailbox.withdraw(to, class, posted) {
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
        let orders = self.orders.as_ref();
        orders.map_or(Ok(false), |orders| self.serve(orders))
    }

    fn park(&self, at_most: Duration) {
        self.nap(u64::try_from(at_most.as_nanos()).unwrap_or(u64::MAX));
    }

    fn parks_until_written(&self) -> bool {
        !self.spins
    }

    fn notify(&self, _: Rank) {}

    fn ranks_per_processor(&self) -> u32 {
        1
    }

    fn health(&self) -> Result<()> {
        self.failed().map_or(Ok(()), Err)
    }

    fn has_left(&self, rank: Rank) -> bool {
        self.said_farewell(rank) && self.mailbox.are_drained()
    }

    fn blame(&self, rank: Rank, cause: &str) -> Error {
        if let Some(error) = self.failed() {
            return error;
        }
        let mut end = cause.len().min(CAUSE_BYTES as usize);
        while !cause.is_char_boundary(end) {
            end -= 1;
        }
        let bytes = cause.as_bytes()[..end].to_vec();
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
        let start = self.own(offset);
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
        let classes = [MessageClass::Request, MessageClass::Reply];
        for class in classes {
            while !self.mailbox.close(class) && self.failed().is_none() {
                self.park(LEAVING_NAP);
            }
        }
        sys::fence();
        for peer in 0..self.n_ranks {
            self.mailbox.tell(peer, Layout::left(self.rank), 1);
        }
        sys::fence();
        for class in classes {
            let end = self.mailbox.tail(class);
            // Behind a message that is on its way into its slots may be others that were accepted.
            while !self.mailbox.receive_late(class, end, late) && self.failed().is_none() {
                self.park(LEAVING_NAP);
            }
        }
        if let Some(orders) = &self.orders {
            self.serve_to_the_end(orders);
        }
        sys::fence();
    }
}
