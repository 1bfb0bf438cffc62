//! Active messages and remote calls between two ranks, compared with bare ping-pong messages and a
//! bare ring.
//!
//! The floor of a round trip is a ring in each direction, with one sender, one receiver and 56
//! bytes a message. A single cache line that both ranks write is faster, but carries no messages;
//! it is printed for comparison.
//!
//! Rank 1 runs the tasks that rank 0 orders. Between orders it waits, and serves messages.
#![expect(unsafe_code, reason = "the floors are loops on raw words")]

mod support;

use std::cell::Cell;
use std::hint;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use criterion::{BenchmarkId, Criterion};
use pgas::message::{Origin, Payload, ReplyHandler, RequestHandler, Token};
use pgas::{ActiveMessages, GlobalPtr, PgasFuture, Rank, RemoteCalls, Symmetric, World, when_all};

/// Words on each rank: order, count, length, the line of the ping-pong, the ring of received
/// messages, and the ring of long payloads.
const WORDS: usize = BLOCKS + N_BLOCKS * BLOCK_WORDS;
const ORDER: usize = 0;
const LEN: usize = ORDER + support::ORDER_WORDS;
const LINE: usize = 32;
const RING_HEAD: usize = 48;
const RING: usize = 64;
const RING_SLOTS: usize = 1024;
const SLOT_WORDS: usize = 8;
const BLOCK_HEAD: usize = 56;
const BLOCKS: usize = RING + RING_SLOTS * SLOT_WORDS;
const N_BLOCKS: usize = 8;
/// The publication word, in its own cache line, and a payload.
const BLOCK_WORDS: usize = SLOT_WORDS + 2048;

const PEER: Rank = Rank::new(1);

/// The tasks of rank 1.
#[derive(Clone, Copy)]
enum Task {
    BareLine = 1,
    BareRing,
    BarePingPong,
    BareBlocks,
    Stop,
}

struct Ping;
impl RequestHandler for Ping {
    type Args = u64;
    fn handle(&self, token: Token<'_>, x: u64, _: Payload<'_>) -> pgas_am::Result<()> {
        token.reply::<Pong>(&(x + 1))
    }
}

struct Pong(Arc<AtomicU64>);
impl ReplyHandler for Pong {
    type Args = u64;
    fn handle(&self, _: Origin<'_>, _: u64, _: Payload<'_>) -> pgas_am::Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// A message of a flood. The last one is answered.
struct Flood(AtomicU64);
impl RequestHandler for Flood {
    type Args = (u64, [u64; 4]);
    fn handle(
        &self,
        token: Token<'_>,
        (is_last, words): Self::Args,
        _: Payload<'_>,
    ) -> pgas_am::Result<()> {
        self.0.fetch_add(words[0], Ordering::Relaxed);
        if is_last == 1 {
            token.reply::<Pong>(&0)?;
        }
        Ok(())
    }
}

/// A message with a payload, which the handler reads. The last one is answered.
struct Block;
impl RequestHandler for Block {
    type Args = u64;
    fn handle(&self, token: Token<'_>, is_last: u64, payload: Payload<'_>) -> pgas_am::Result<()> {
        let Payload::Medium(bytes) = payload else {
            return Ok(());
        };
        hint::black_box(sum_of(bytes));
        if is_last == 1 {
            token.reply::<Pong>(&0)?;
        }
        Ok(())
    }
}

/// The work of a receiver on a payload: the sum of its words.
fn sum_of(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks();
    let words = words.iter().map(|word| u64::from_ne_bytes(*word));
    words.fold(0, u64::wrapping_add)
}

struct Bench<'a> {
    world: &'a World,
    words: Symmetric<u64>,
    n_pongs: Arc<AtomicU64>,
    /// The ring of each rank, for the floors.
    rings: [&'a [AtomicU64]; 2],
    /// The number of messages that have passed through it.
    ring_tickets: [Cell<u64>; 2],
}

fn main() {
    support::two_ranks(
        |world, criterion| Bench::new(world).measure(criterion),
        |world| Bench::new(world).serve(),
    );
}

impl<'a> Bench<'a> {
    fn new(world: &'a World) -> Self {
        let words = world
            .alloc_symmetric::<u64>(WORDS)
            .expect("memory for some words");
        let n_pongs = Arc::new(AtomicU64::new(0));
        world.register(Ping).expect("attached");
        world
            .register_reply(Pong(Arc::clone(&n_pongs)))
            .expect("attached");
        world.register(Flood(AtomicU64::new(0))).expect("attached");
        world.register(Block).expect("attached");
        world.barrier().expect("two ranks");
        let rings = [0, 1].map(|rank| {
            let ring = words.on(Rank::new(rank)).add(RING);
            let at = ring.local(world).expect("ranks of one host are direct");
            // SAFETY: the words are mapped and aligned as long as `words` lives, which lives as
            // long as the slices, and accessed atomically only.
            unsafe { slice::from_raw_parts(at.as_ptr().cast::<AtomicU64>(), BLOCKS - RING) }
        });
        Self {
            world,
            words,
            rings,
            n_pongs,
            ring_tickets: [const { Cell::new(0) }; 2],
        }
    }

    fn word(&self, rank: u32, index: usize) -> GlobalPtr<u64> {
        self.words.on(Rank::new(rank)).add(index)
    }

    /// The same word, for the floors.
    fn bare(&self, rank: u32, index: usize) -> &AtomicU64 {
        let at = self
            .word(rank, index)
            .local(self.world)
            .expect("ranks of one host are direct");
        // SAFETY: the word is mapped and aligned as long as `words` lives, and accessed atomically
        // only.
        unsafe { AtomicU64::from_ptr(at.as_ptr()) }
    }

    fn measure(&self, criterion: &mut Criterion) {
        const N: u64 = 500;
        const MANY: u64 = 5_000;
        self.pair(criterion, "am_round_trip", N, Task::BarePingPong, |n| {
            self.pings(n);
        });
        self.pair(criterion, "rpc_round_trip", N, Task::BarePingPong, |n| {
            self.calls(n);
        });
        let line = |n| self.together(Task::BareLine, n);
        self.pair(criterion, "bare_line", N, Task::BarePingPong, line);
        self.pair(criterion, "rpc_of_a_string", N, Task::BarePingPong, |n| {
            self.strings(n);
        });
        self.pair(criterion, "am_one_way", MANY, Task::BareRing, |n| {
            self.flood(n);
        });
        self.pair(criterion, "rpc_ff_one_way", MANY, Task::BareRing, |n| {
            self.flood_of_calls(n);
        });
        let most = self.world.max_medium::<Block>(PEER, &0);
        for len in [1024, most.expect("a number can be written")] {
            self.payloads(len);
        }
        support::paired(
            "when_all_of_1000_rpcs_beside_1000_rpcs",
            1000,
            || self.calls(1000),
            || self.joined(1000),
        );
        support::paired(
            "when_all_of_1000_ready_futures_beside_one_rpc_each",
            1000,
            || self.calls(1000),
            || self.ready(1000),
        );
        self.order(Task::Stop, 0);
    }

    /// Copied and in-place payloads, compared with bare copies into a ring.
    fn payloads(&self, len: usize) {
        const N: u64 = 500;
        const N_OPS: usize = 500;
        let source = vec![7; len];
        let bare = || {
            let word = self.word(1, LEN);
            word.put(self.world, len as u64).expect("direct");
            self.together(Task::BareBlocks, N);
        };
        let copied = |n| self.send_blocks(n, |is_last| self.copy(&source, is_last));
        let in_place = |n| self.send_blocks(n, |is_last| self.fill_in_place(&source, is_last));
        let name = |what: &str| format!("{what}_of_{len}_bytes");
        support::paired(&name("copied_payload"), N_OPS, bare, || copied(N));
        support::paired(&name("prepared_payload"), N_OPS, bare, || in_place(N));
        let name = name("prepared_beside_copied_payload");
        support::paired(&name, N_OPS, || copied(N), || in_place(N));
        let one_by_one = |send: &dyn Fn(u64)| (0..N).for_each(|_| send(1));
        let name = format!("{name}_there_and_an_answer_back");
        support::paired(
            &name,
            N_OPS,
            || one_by_one(&copied),
            || one_by_one(&in_place),
        );
    }

    fn send_blocks(&self, n: u64, send: impl Fn(u64)) {
        let before = self.n_pongs.load(Ordering::Relaxed);
        (1..=n).for_each(|i| send(u64::from(i == n)));
        self.await_pongs(before + 1);
    }

    fn copy(&self, source: &[u8], is_last: u64) {
        let sent = self.world.request_medium::<Block>(PEER, &is_last, source);
        sent.expect("two ranks");
    }

    fn fill_in_place(&self, source: &[u8], is_last: u64) {
        let mut buffer = self.world.prepare(PEER, source.len()).expect("two ranks");
        buffer.copy_from_slice(source);
        let sent = buffer.commit::<Block>(&is_last, source.len());
        sent.expect("two ranks");
    }

    /// Compares `ours` with a floor in which both ranks take part.
    fn pair(&self, criterion: &mut Criterion, name: &str, n: u64, floor: Task, ours: impl Fn(u64)) {
        let n_ops = usize::try_from(n).expect("small");
        support::paired(name, n_ops, || self.together(floor, n), || ours(n));
        let mut group = criterion.benchmark_group("messages");
        let time = |run: &dyn Fn(u64), n: u64| {
            let start = std::time::Instant::now();
            run(n);
            start.elapsed()
        };
        group.bench_function(BenchmarkId::new(name, "bare"), |bencher| {
            bencher.iter_custom(|n| time(&|n| self.together(floor, n), n));
        });
        group.bench_function(BenchmarkId::new(name, "pgas"), |bencher| {
            bencher.iter_custom(|n| time(&ours, n));
        });
        group.finish();
    }

    fn together(&self, task: Task, n: u64) {
        self.order(task, n);
        self.run(task, n);
    }

    fn order(&self, task: Task, n: u64) {
        support::give_order(self.world, self.word(1, ORDER), task as u64, n);
    }

    fn serve(&self) {
        loop {
            let (task, n) = support::take_order(self.world, self.word(1, ORDER));
            match task {
                1 => self.run(Task::BareLine, n),
                2 => self.run(Task::BareRing, n),
                3 => self.run(Task::BarePingPong, n),
                4 => self.run(Task::BareBlocks, n),
                _ => return,
            }
        }
    }

    fn run(&self, task: Task, n: u64) {
        let is_first = self.world.rank() == Rank::ZERO;
        match task {
            Task::BareLine => self.bare_ping_pong(n, is_first),
            Task::BareRing if is_first => self.fill_ring(n),
            Task::BareRing => self.empty_ring(n),
            Task::BarePingPong => self.ring_ping_pong(n, is_first),
            Task::BareBlocks => self.bare_blocks(n, is_first),
            Task::Stop => {}
        }
    }

    /// The floor: payloads are copied into a ring of rank 1, and read in place.
    fn bare_blocks(&self, n: u64, is_first: bool) {
        let len = self.word(1, LEN).get(self.world).expect("direct");
        let len = usize::try_from(len).expect("64 bits");
        let source = vec![7_u8; len];
        let head = self.bare(1, BLOCK_HEAD);
        let first = head.load(Ordering::Acquire);
        for ticket in first..first + n {
            let index = usize::try_from(ticket).expect("64 bits") % N_BLOCKS;
            let published = self.bare(1, BLOCKS + index * BLOCK_WORDS);
            let payload = self.bare(1, BLOCKS + index * BLOCK_WORDS + SLOT_WORDS);
            let payload = payload.as_ptr().cast::<u8>();
            if is_first {
                while ticket - head.load(Ordering::Acquire) >= N_BLOCKS as u64 {}
                // SAFETY: so much room lies there, and the receiver, which has passed what was
                // there, does not read before the publication.
                unsafe { payload.copy_from_nonoverlapping(source.as_ptr(), len) };
                published.store(ticket + 1, Ordering::Release);
            } else {
                while published.load(Ordering::Acquire) != ticket + 1 {}
                // SAFETY: so much was written before the publication, and nobody writes there
                // before `head` has passed it.
                hint::black_box(sum_of(unsafe { slice::from_raw_parts(payload, len) }));
                head.store(ticket + 1, Ordering::Release);
            }
        }
        while is_first && head.load(Ordering::Acquire) != first + n {
            hint::spin_loop();
        }
    }

    fn bare_ping_pong(&self, n: u64, is_first: bool) {
        let line = self.bare(0, LINE);
        let (wait_for, then) = if is_first { (0, 1) } else { (1, 0) };
        for _ in 0..n {
            while line.load(Ordering::Acquire) != wait_for {
                hint::spin_loop();
            }
            line.store(then, Ordering::Release);
        }
        while is_first && line.load(Ordering::Acquire) != 0 {
            hint::spin_loop();
        }
    }

    /// A slot of the ring of messages to `rank`.
    #[inline]
    fn slot(&self, rank: usize, ticket: u64) -> &[AtomicU64; SLOT_WORDS] {
        let index = usize::try_from(ticket).expect("64 bits") % RING_SLOTS;
        let (slots, _) = self.rings[rank].as_chunks();
        &slots[index]
    }

    #[inline]
    fn fill_slot(&self, rank: usize, ticket: u64) {
        let [published, payload @ ..] = self.slot(rank, ticket);
        for word in payload {
            word.store(ticket, Ordering::Relaxed);
        }
        published.store(ticket + 1, Ordering::Release);
    }

    /// Waits for the message with `ticket`, and returns the sum of its words. It spins without a
    /// pause instruction, which takes as long as a message.
    #[inline]
    fn await_slot(&self, rank: usize, ticket: u64) -> u64 {
        let [published, payload @ ..] = self.slot(rank, ticket);
        while published.load(Ordering::Acquire) != ticket + 1 {}
        let words = payload.iter().map(|word| word.load(Ordering::Relaxed));
        words.fold(0, u64::wrapping_add)
    }

    /// Sends a message to rank 1 and one back, repeatedly. Neither ring can fill up, so there is no
    /// check for room.
    fn ring_ping_pong(&self, n: u64, is_first: bool) {
        let firsts = self.ring_tickets.each_ref().map(Cell::get);
        for i in 0..n {
            let [back, there] = firsts.map(|first| first + i);
            if is_first {
                self.fill_slot(1, there);
                hint::black_box(self.await_slot(0, back));
            } else {
                hint::black_box(self.await_slot(1, there));
                self.fill_slot(0, back);
            }
        }
        self.bare(1, RING_HEAD)
            .store(firsts[1] + n, Ordering::Release);
        for (ticket, first) in self.ring_tickets.iter().zip(firsts) {
            ticket.set(first + n);
        }
    }

    /// A ring of one sender and one receiver, 56 bytes a message.
    fn fill_ring(&self, n: u64) {
        let head = self.bare(1, RING_HEAD);
        let (first, mut known_head) = (self.ring_tickets[1].get(), head.load(Ordering::Acquire));
        for ticket in first..first + n {
            while ticket - known_head >= RING_SLOTS as u64 {
                known_head = head.load(Ordering::Acquire);
            }
            self.fill_slot(1, ticket);
        }
        self.ring_tickets[1].set(first + n);
        while head.load(Ordering::Acquire) != first + n {
            hint::spin_loop();
        }
    }

    fn empty_ring(&self, n: u64) {
        let head = self.bare(1, RING_HEAD);
        let first = self.ring_tickets[1].get();
        let mut sum = 0_u64;
        for ticket in first..first + n {
            sum = sum.wrapping_add(self.await_slot(1, ticket));
            if ticket % 64 == 63 {
                head.store(ticket + 1, Ordering::Release);
            }
        }
        hint::black_box(sum);
        head.store(first + n, Ordering::Release);
        self.ring_tickets[1].set(first + n);
    }

    fn await_pongs(&self, n: u64) {
        let pongs = &self.n_pongs;
        self.world
            .wait_for("pongs", || Ok(pongs.load(Ordering::Relaxed) >= n))
            .expect("an answer");
    }

    fn pings(&self, n: u64) {
        let before = self.n_pongs.load(Ordering::Relaxed);
        for i in 1..=n {
            self.world.request::<Ping>(PEER, &i).expect("two ranks");
            self.await_pongs(before + i);
        }
    }

    fn flood(&self, n: u64) {
        let before = self.n_pongs.load(Ordering::Relaxed);
        for i in 1..=n {
            let args = (u64::from(i == n), [i; 4]);
            self.world.request::<Flood>(PEER, &args).expect("two ranks");
        }
        self.await_pongs(before + 1);
    }

    fn flood_of_calls(&self, n: u64) {
        for i in 1..n {
            self.world
                .rpc_ff(PEER, |x: u64| assert!(hint::black_box(x) > 0), i)
                .expect("two ranks");
        }
        self.calls(1);
    }

    fn call(&self, i: u64) -> PgasFuture<u64> {
        let call = self.world.rpc(PEER, |x: u64| x + 1, i);
        call.expect("two ranks")
    }

    fn calls(&self, n: u64) {
        for i in 0..n {
            assert_eq!(self.call(i).wait().expect("an answer"), i + 1);
        }
    }

    fn strings(&self, n: u64) {
        for i in 0..n {
            let length = |text: String| text.len();
            let call = self.world.rpc(PEER, length, i.to_string());
            call.expect("two ranks").wait().expect("an answer");
        }
    }

    fn joined(&self, n: u64) {
        let calls = (0..n).map(|i| self.call(i)).collect::<Vec<_>>();
        when_all(calls).wait().expect("answers");
    }

    fn ready(&self, n: u64) {
        let values = (0..n).map(PgasFuture::ready).collect::<Vec<_>>();
        hint::black_box(when_all(values).wait().expect("values"));
    }
}
