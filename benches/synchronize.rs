//! Barriers, signals and messages between two ranks, each compared with bare cache lines that move
//! back and forth.
//!
//! Rank 0 tells rank 1 what to do and how often, so that neither rank waits for a missing partner.
//!
//! And what the comparison of calls adds to collectives, which is on by default in builds with
//! debug assertions: jobs of two threads, with and without it in turn.
#![expect(unsafe_code, reason = "the floor is a loop on raw pointers")]

mod support;

use std::cell::Cell;
use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use criterion::{BenchmarkId, Criterion};
use pgas::backend::{HandlerId, MessageClass, Sent, SignalUpdate};
use pgas::collective::op::Sum;
use pgas::{Config, GlobalPtr, Rank, Symmetric, World};

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
        |world, criterion| {
            Bench::new(world).measure(criterion);
            measure_comparisons();
        },
        |world| Bench::new(world).serve(),
    );
}

/// Collectives without and with the comparison of calls (`PGAS_CHECK=1`), as floor and ours.
fn measure_comparisons() {
    type Call = fn(&World) -> pgas::Result<()>;
    let calls: [(&str, Call); 3] = [
        ("barrier", World::barrier),
        ("broadcast", |world| {
            world.broadcast(Rank::ZERO, 7_u64).map(drop)
        }),
        ("allreduce", |world| world.allreduce(7_u64, Sum).map(drop)),
    ];
    let (n_rounds, n) = if support::is_smoke_test() {
        (1, 10)
    } else {
        (101, 20_000)
    };
    for (name, call) in calls {
        let mut ratios = Vec::new();
        let (mut without, mut with) = (f64::MAX, f64::MAX);
        for _ in 0..n_rounds {
            let pair = [false, true].map(|check| time_among_threads(check, n, call));
            ratios.push(pair[1] / pair[0]);
            (without, with) = (without.min(pair[0]), with.min(pair[1]));
        }
        ratios.sort_by(f64::total_cmp);
        let name = format!("{name}, calls compared; fastest rounds, median ratio");
        support::report(&name, without, with, ratios[n_rounds / 2]);
    }
}

/// The time of a call in nanoseconds, of `n` calls of two threads.
fn time_among_threads(check: bool, n: u32, call: fn(&World) -> pgas::Result<()>) -> f64 {
    let mut config = Config::default();
    config.check = Some(check);
    let times = pgas::threads_with(2, &config, |world| {
        world.barrier().expect("two ranks");
        let start = Instant::now();
        (0..n).for_each(|_| call(&world).expect("two ranks"));
        start.elapsed().as_secs_f64() * 1e9 / f64::from(n)
    });
    times.expect("two threads")[0]
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
                        let start = Instant::now();
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
