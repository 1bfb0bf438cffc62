//! Queues over two ranks: pushes and pops in every phase, on one queue and on one queue for each
//! rank, one at a time and in batches.
//!
//! Both ranks do the same, and rank 0 reports medians of rounds that all ranks begin together. The
//! floors are loops over a rank's own memory, with the atomics that any such queue needs: one to
//! take a ticket, and a plain store to publish.

mod support;

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use pgas::queue::PushPop;
use pgas::{CircularQueue, FastQueue, Rank, World};

fn main() {
    support::two_ranks(|world, _| all(world, true), |world| all(world, false));
}

/// Elements that each rank pushes in one round.
fn n_elements() -> usize {
    if support::is_smoke_test() {
        1 << 10
    } else {
        1 << 20
    }
}

const N_ROUNDS: usize = 7;

/// The state of a rank.
struct Bench<'a> {
    world: &'a World,
    n: usize,
    reports: bool,
}

impl Bench<'_> {
    /// The median of rounds of `run`, in nanoseconds an element, on this rank.
    fn median(&self, mut run: impl FnMut()) -> f64 {
        let mut times: Vec<f64> = (0..N_ROUNDS).map(|_| once(self, &mut run)).collect();
        middle(&mut times)
    }

    fn report(&self, name: &str, floor: f64, ours: f64) {
        if self.reports {
            support::report(name, floor, ours, ours / floor);
        }
    }

    fn neighbour(&self) -> Rank {
        Rank::new((self.world.rank().number() + 1) % self.world.n_ranks())
    }
}

fn all(world: &World, reports: bool) {
    let bench = Bench {
        world,
        n: n_elements(),
        reports,
    };
    let floor = floors(&bench);
    a_queue_a_rank(&bench, &floor);
    fast_queue_a_rank(&bench, &floor);
    one_queue(&bench, &floor);
    vectors(&bench);
}

/// Nanoseconds an element of the bare loops.
struct Floor {
    push: f64,
    pop: f64,
    /// One word that both ranks add to.
    contended: f64,
}

fn floors(bench: &Bench<'_>) -> Floor {
    let words: Vec<AtomicU64> = (0..bench.n.next_power_of_two())
        .map(|i| AtomicU64::new(i as u64))
        .collect();
    let (tail, published) = (AtomicU64::new(0), AtomicU64::new(0));
    let push = bench.median(|| {
        for _ in 0..bench.n {
            let ticket = tail.fetch_add(1, Ordering::AcqRel);
            words[slot(ticket, words.len())].store(ticket, Ordering::Relaxed);
            published.store(ticket + 1, Ordering::Release);
        }
    });
    let pop = bench.median(|| {
        for _ in 0..bench.n {
            let ticket = tail.fetch_add(1, Ordering::AcqRel);
            black_box(words[slot(ticket, words.len())].load(Ordering::Relaxed));
            published.store(ticket + 1, Ordering::Release);
        }
    });
    let counter = bench.world.alloc_symmetric::<u64>(1).expect("one word");
    let contended = bench.median(|| {
        for _ in 0..bench.n {
            counter
                .on(Rank::ZERO)
                .fetch_add(bench.world, 1)
                .expect("direct");
        }
    });
    Floor {
        push,
        pop,
        contended,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "an index")]
fn slot(ticket: u64, len: usize) -> usize {
    ticket as usize & (len - 1)
}

/// Each rank pushes to and pops from the queue on its neighbour, which no other rank uses.
fn a_queue_a_rank(bench: &Bench<'_>, floor: &Floor) {
    let mine = |host: u32| {
        let host = Rank::new(host);
        CircularQueue::<u64>::with_capacity(bench.world, host, bench.n).expect("memory")
    };
    let mut queues: Vec<_> = (0..bench.world.n_ranks()).map(mine).collect();
    let host = bench.neighbour().index();
    let (mut pushes, mut pops) = (Vec::new(), Vec::new());
    for _ in 0..N_ROUNDS {
        let queue = &queues[host];
        pushes.push(once(bench, || push_all(bench, queue)));
        pops.push(once(bench, || pop_all(bench, queue)));
    }
    bench.report(
        "queue a rank, push, both phases at once",
        floor.push,
        middle(&mut pushes),
    );
    bench.report(
        "queue a rank, pop, both phases at once",
        floor.pop,
        middle(&mut pops),
    );

    let (mut pushes, mut pops) = (Vec::new(), Vec::new());
    for _ in 0..N_ROUNDS {
        let phased = queues
            .into_iter()
            .map(|queue| queue.into_push_phase().expect("a phase"));
        let phased: Vec<_> = phased.collect();
        pushes.push(once(bench, || {
            for i in 0..bench.n as u64 {
                phased[host].push(i).expect("room");
            }
        }));
        let phased = phased
            .into_iter()
            .map(|queue| queue.into_pop_phase().expect("a phase"));
        let phased: Vec<_> = phased.collect();
        pops.push(once(bench, || {
            for _ in 0..bench.n {
                black_box(phased[host].pop().expect("direct"));
            }
        }));
        let next = phased
            .into_iter()
            .map(|queue| queue.into_push_pop_phase().expect("a phase"));
        queues = next.collect();
    }
    bench.report("queue a rank, push phase", floor.push, middle(&mut pushes));
    bench.report("queue a rank, pop phase", floor.pop, middle(&mut pops));
}

fn fast_queue_a_rank(bench: &Bench<'_>, floor: &Floor) {
    let mine = |host: u32| {
        let host = Rank::new(host);
        FastQueue::<u64>::with_capacity(bench.world, host, bench.n).expect("memory")
    };
    let mut queues: Vec<_> = (0..bench.world.n_ranks()).map(mine).collect();
    let (here, host) = (bench.world.rank().index(), bench.neighbour().index());
    let (mut pushes, mut pops) = (Vec::new(), Vec::new());
    for _ in 0..N_ROUNDS {
        pushes.push(once(bench, || {
            for i in 0..bench.n as u64 {
                queues[host].push(i).expect("room");
            }
        }));
        let local = queues
            .into_iter()
            .map(|queue| queue.into_local_phase().expect("a phase"));
        let mut local: Vec<_> = local.collect();
        pops.push(once(bench, || {
            for _ in 0..bench.n {
                black_box(local[here].local_pop().expect("direct"));
            }
        }));
        let next = local
            .into_iter()
            .map(|queue| queue.into_push_phase().expect("a phase"));
        queues = next.collect();
    }
    bench.report("fast queue a rank, push", floor.push, middle(&mut pushes));
    bench.report("fast queue a rank, local_pop", floor.pop, middle(&mut pops));
}

fn one_queue(bench: &Bench<'_>, floor: &Floor) {
    let capacity = 2 * bench.n;
    let queue = CircularQueue::<u64>::with_capacity(bench.world, Rank::ZERO, capacity);
    let queue = queue.expect("memory");
    let (mut pushes, mut pops) = (Vec::new(), Vec::new());
    for _ in 0..N_ROUNDS {
        pushes.push(once(bench, || push_all(bench, &queue)));
        pops.push(once(bench, || pop_all(bench, &queue)));
    }
    bench.report("one queue, all push", floor.contended, middle(&mut pushes));
    bench.report("one queue, all pop", floor.contended, middle(&mut pops));
    let both = bench.median(|| {
        for i in 0..bench.n as u64 {
            queue.push(i).expect("room");
            while queue.pop().expect("direct").is_none() {}
        }
    });
    bench.report(
        "one queue, a push and a pop in turn by all",
        floor.contended,
        both,
    );
    let apart = bench.median(|| {
        if bench.world.rank() == Rank::ZERO {
            push_all(bench, &queue);
        } else {
            pop_all(bench, &queue);
        }
    });
    bench.report(
        "one queue, one rank pushes and one pops",
        floor.contended,
        apart,
    );
}

fn push_all(bench: &Bench<'_>, queue: &CircularQueue<u64, PushPop>) {
    for i in 0..bench.n as u64 {
        queue.push(i).expect("room");
    }
}

fn pop_all(bench: &Bench<'_>, queue: &CircularQueue<u64, PushPop>) {
    for _ in 0..bench.n {
        while black_box(queue.pop().expect("direct")).is_none() {}
    }
}

fn vectors(bench: &Bench<'_>) {
    let n_ranks = bench.world.n_ranks();
    let queues: Vec<_> = (0..n_ranks)
        .map(|host| {
            let host = Rank::new(host);
            CircularQueue::<u64>::with_capacity(bench.world, host, bench.n).expect("memory")
        })
        .collect();
    let queue = &queues[bench.neighbour().index()];
    for len in [64, 1024, 65_536] {
        let len = len.min(bench.n);
        let values: Vec<u64> = (0..len as u64).collect();
        let mut out = vec![0; len];
        let mut target = vec![0_u64; bench.n];
        let copy = bench.median(|| {
            for chunk in target.chunks_exact_mut(len) {
                chunk.copy_from_slice(black_box(&values));
            }
        });
        let (mut pushes, mut pops) = (Vec::new(), Vec::new());
        for _ in 0..N_ROUNDS {
            pushes.push(once(bench, || {
                for _ in 0..bench.n / len {
                    queue.push_slice(&values).expect("room");
                }
            }));
            pops.push(once(bench, || {
                for _ in 0..bench.n / len {
                    black_box(queue.pop_slice(&mut out).expect("direct"));
                }
            }));
        }
        let name = |what| format!("{what} of {len} elements beside memcpy, each element");
        bench.report(&name("push_slice"), copy, middle(&mut pushes));
        bench.report(&name("pop_slice"), copy, middle(&mut pops));
    }
}

/// One round of `run` after a barrier, in nanoseconds an element.
fn once(bench: &Bench<'_>, run: impl FnOnce()) -> f64 {
    bench.world.barrier().expect("the other rank comes");
    let start = support::time_on_processor();
    run();
    #[expect(clippy::cast_precision_loss, reason = "a count of elements")]
    let per_element = 1e9 / bench.n as f64;
    (support::time_on_processor() - start) * per_element
}

fn middle(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
