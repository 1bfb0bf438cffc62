//! Barriers, signals and messages between two ranks, each compared with bare cache lines that move
//! back and forth.
//!
//! Rank 0 tells rank 1 what to do and how often, so that neither rank waits for a missing partner.
#![expect(unsafe_code, reason = "the floor is a loop on raw pointers")]

mod support;

use std::cell::Cell;
use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use criterion::{BenchmarkId, Criterion};
use pgas::backend::{HandlerId, MessageClass, Sent, SignalUpdate};
use pgas::{GlobalPtr, Rank, Symmetric, World};

const PING: HandlerId = HandlerId(HandlerId::N_RESERVED);
/// Words on each rank: order, count, signal, and the floor's two lines.
const WORDS: usize = 64;
const ORDER: usize = 0;
const SIGNAL: usize = 16;
const LINE: usize = 32;
const ARRIVALS: usize = 48;

/// The tasks of rank 1.
#[derive(Clone, Copy)]
enum Task {
    BareLine = 1,
    BareBarrier,
    Barrier,
    Signal,
    Message,
    Stop,
}

struct Bench<'a> {
    world: &'a World,
    words: Symmetric<u64>,
    /// Pings that the handler has received. One may arrive while this rank still waits for orders.
    n_pings: Arc<AtomicU64>,
    n_taken: Cell<u64>,
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
            .alloc_symmetric(WORDS)
            .expect("memory for a few words");
        let n_pings = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&n_pings);
        world.set_handler(PING, move |_, _| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        Self {
            world,
            words,
            n_pings,
            n_taken: Cell::new(0),
        }
    }

    fn word(&self, rank: u32, index: usize) -> GlobalPtr<u64> {
        self.words.on(Rank::new(rank)).add(index)
    }

    /// The same word, for the floor.
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
        let mut group = criterion.benchmark_group("synchronize");
        for (name, floor, ours) in [
            ("barrier", Task::BareBarrier, Task::Barrier),
            ("signal_round_trip", Task::BareLine, Task::Signal),
            ("message_round_trip", Task::BareLine, Task::Message),
        ] {
            const N: u32 = 2000;
            support::paired(
                name,
                N as usize,
                || self.together(floor, N.into()),
                || self.together(ours, N.into()),
            );
            for (label, task) in [("bare", floor), ("pgas", ours)] {
                group.bench_function(BenchmarkId::new(name, label), |bencher| {
                    bencher.iter_custom(|n| {
                        let start = std::time::Instant::now();
                        self.together(task, n);
                        start.elapsed()
                    });
                });
            }
        }
        group.finish();
        self.order(Task::Stop, 0);
    }

    /// Runs `task` `n` times on both ranks.
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
                2 => self.run(Task::BareBarrier, n),
                3 => self.run(Task::Barrier, n),
                4 => self.run(Task::Signal, n),
                5 => self.run(Task::Message, n),
                _ => return,
            }
        }
    }

    fn run(&self, task: Task, n: u64) {
        let is_first = self.world.rank() == Rank::ZERO;
        match task {
            Task::BareLine => self.bare_ping_pong(n, is_first),
            Task::BareBarrier => self.bare_barrier(n),
            Task::Barrier => (0..n).for_each(|_| self.world.barrier().expect("two ranks")),
            Task::Signal => self.signals(n, is_first),
            Task::Message => self.messages(n, is_first),
            Task::Stop => {}
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

    fn bare_barrier(&self, n: u64) {
        let arrivals = self.bare(0, ARRIVALS);
        for _ in 0..n {
            let epoch = arrivals.fetch_add(1, Ordering::AcqRel) / 2;
            while arrivals.load(Ordering::Acquire) / 2 <= epoch {
                hint::spin_loop();
            }
        }
    }

    fn signals(&self, n: u64, is_first: bool) {
        let peer = u32::from(is_first);
        let own = self.word(1 - peer, SIGNAL);
        let theirs = self.word(peer, SIGNAL);
        let send = || {
            let data = theirs.add(1);
            data.put_signal(self.world, &[7], theirs, SignalUpdate::Set(1))
                .expect("direct");
        };
        let receive = || {
            own.wait_until(self.world, |value| value == 1)
                .expect("a signal");
            own.atomic_store(self.world, 0).expect("direct");
        };
        for _ in 0..n {
            if is_first {
                send();
                receive();
            } else {
                receive();
                send();
            }
        }
    }

    fn messages(&self, n: u64, is_first: bool) {
        let peer = Rank::new(u32::from(is_first));
        let send = || {
            let payload = [[7_u8; 32].as_slice()];
            while self
                .world
                .try_send(peer, MessageClass::Request, PING, &payload)
                .expect("smp")
                == Sent::BackPressure
            {}
        };
        let mut taken = self.n_taken.get();
        let mut receive = || {
            while self.n_pings.load(Ordering::Relaxed) == taken {
                self.world.progress().expect("a message");
            }
            taken += 1;
        };
        for _ in 0..n {
            if is_first {
                send();
                receive();
            } else {
                receive();
                send();
            }
        }
        self.n_taken.set(taken);
    }
}
