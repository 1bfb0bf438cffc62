//! Each operation of the network path beside the same loop on MPI, and that loop beside itself.

use std::cell::RefCell;
use std::hint::black_box;
use std::time::Instant;

use mpi::Threading;
use mpi::topology::Communicator as _;
use pgas_core::backend::{AtomicOp, AtomicsBy};
use pgas_core::{Config, GlobalPtr, Rank, Statistics, World};
use zerocopy::IntoBytes as _;

use crate::raw::RawWindow;
use crate::{AT_TARGET, is_smoke_test, is_wanted, median, pieces};

/// Words of each window.
const N_WORDS: usize = 1 << 23;
pub(crate) const TARGET: Rank = Rank::new(1);

/// What is measured, on each of the two ranks: two windows written straight on MPI, and ours.
pub(crate) struct Sides {
    pub(crate) world: World,
    raw: RawWindow,
    /// As `raw`. The two differ only by chance or by their place in memory.
    twin: RawWindow,
    pub(crate) ours: GlobalPtr<u64>,
}

/// Seconds of one round.
struct Round {
    raw: f64,
    twin: f64,
    ours: f64,
}

#[derive(Clone, Copy)]
enum Side {
    Raw,
    Twin,
    Ours,
}

/// Every order of the three, one per round: each follows each other one equally often.
const ORDERS: [[Side; 3]; 6] = [
    [Side::Raw, Side::Twin, Side::Ours],
    [Side::Ours, Side::Raw, Side::Twin],
    [Side::Twin, Side::Ours, Side::Raw],
    [Side::Ours, Side::Twin, Side::Raw],
    [Side::Raw, Side::Ours, Side::Twin],
    [Side::Twin, Side::Raw, Side::Ours],
];

impl Sides {
    /// Runs `raw` on both windows and `ours` in turn on rank 0, many times, while rank 1 waits in
    /// the barrier of the side that is measured, and prints the medians of the rounds' ratios: what
    /// disturbs a machine for longer than a moment disturbs all.
    pub(crate) fn compare(
        &self,
        name: &str,
        n_ops: usize,
        mut raw: impl FnMut(&RawWindow),
        mut ours: impl FnMut(),
    ) {
        if !is_wanted(name) {
            return;
        }
        let n_turns = if is_smoke_test() { 1 } else { 15 };
        let measures = self.world.rank() == Rank::ZERO;
        let time = |run: &mut dyn FnMut()| {
            let start = Instant::now();
            if measures {
                run();
            }
            start.elapsed().as_secs_f64()
        };
        let mut rounds = Vec::with_capacity(n_turns * ORDERS.len());
        for order in std::iter::repeat_n(ORDERS, n_turns).flatten() {
            let mut round = Round {
                raw: 0.0,
                twin: 0.0,
                ours: 0.0,
            };
            for side in order {
                match side {
                    Side::Raw => {
                        self.raw.barrier();
                        round.raw = time(&mut || raw(&self.raw));
                        self.raw.barrier();
                    }
                    Side::Twin => {
                        self.twin.barrier();
                        round.twin = time(&mut || raw(&self.twin));
                        self.twin.barrier();
                    }
                    Side::Ours => {
                        self.world.barrier().expect("the other rank lives");
                        round.ours = time(&mut ours);
                        self.world.barrier().expect("the other rank lives");
                    }
                }
            }
            rounds.push(round);
        }
        if measures {
            report(name, n_ops, &rounds);
        }
    }
}

/// Prints the medians of times of `n_ops` operations, that of our ratios to the floor, and that of
/// the floor's to itself.
fn report(name: &str, n_ops: usize, rounds: &[Round]) {
    let median = |of: fn(&Round) -> f64| median(rounds.iter().map(of));
    #[expect(clippy::cast_precision_loss, reason = "a count of operations")]
    let per_op = 1e9 / n_ops as f64;
    let (floor, ours) = (median(|r| r.raw) * per_op, median(|r| r.ours) * per_op);
    let (ratio, noise) = (median(|r| r.ours / r.raw), median(|r| r.twin / r.raw));
    println!(
        "paired {name}: floor {floor:.0} ns, pgas {ours:.0} ns, ratio {ratio:.3}, floor beside itself {noise:.3}"
    );
}

/// A rank of the job that compares.
pub(crate) fn measure() {
    let (universe, _) = mpi::initialize_with_threading(Threading::Serialized)
        .expect("the first in this process to start MPI");
    let comm = universe.world();
    assert_eq!(comm.size(), 2, "the bench is for two ranks");
    let mut config = Config::from_env().expect("usable settings");
    let at_target = std::env::args().any(|argument| argument == AT_TARGET);
    config.direct = at_target;
    config.statistics = Statistics::Off;
    config.segment_bytes = Some(256 << 20);
    let world = crate::raw::world_of(&comm, &config).expect("two ranks over MPI");
    let array = world
        .alloc_symmetric::<u64>(N_WORDS)
        .expect("64 MiB of 256");
    for at in (0..N_WORDS).step_by(512) {
        let page = [1_u64; 512];
        let put = array.here().add(at).put_slice(&world, &page);
        put.expect("a rank reaches itself");
    }
    world.barrier().expect("both ranks are here");
    let sides = Sides {
        raw: RawWindow::new(&comm, N_WORDS),
        twin: RawWindow::new(&comm, N_WORDS),
        ours: array.on(TARGET),
        world,
    };
    if at_target {
        assert_eq!(sides.world.capabilities().atomics, AtomicsBy::Cpu);
        let is_here = sides.world.is_direct(TARGET) && sides.world.rank() != TARGET;
        assert!(!is_here, "the ranks are on one host");
        atomics(&sides, &random_places());
    } else {
        words(&sides);
        pieces::measure(&sides);
        floods(&sides);
    }
    let Sides {
        world, raw, twin, ..
    } = sides;
    raw.free();
    twin.free();
    world.barrier().expect("both ranks are here");
}

/// Words all over the window.
fn random_places() -> Vec<usize> {
    let n_ops = if is_smoke_test() { 8 } else { 500 };
    (0..n_ops).map(|i| (i * 0x9e37_79b1) % N_WORDS).collect()
}

/// Latency of eight bytes at random places, one operation after the other.
fn words(sides: &Sides) {
    let world = &sides.world;
    let places = random_places();
    let n_ops = places.len();
    let each = |f: &mut dyn FnMut(usize)| places.iter().for_each(|&at| f(at));
    let value = 7_u64;
    sides.compare(
        "put of 8 B, source free",
        n_ops,
        |window| {
            each(&mut |at| {
                window.put(at * 8, value.as_bytes());
                window.flush_local();
            });
        },
        || each(&mut |at| sides.ours.add(at).put(world, value).expect("a put")),
    );
    sides.compare(
        "put of 8 B and flush",
        n_ops,
        |window| {
            each(&mut |at| {
                window.put(at * 8, value.as_bytes());
                window.flush();
            });
        },
        || {
            each(&mut |at| {
                sides.ours.add(at).put(world, value).expect("a put");
                world.flush(TARGET).expect("a flush");
            });
        },
    );
    sides.compare(
        "get of 8 B",
        n_ops,
        |window| {
            each(&mut |at| {
                let mut word = 0_u64;
                window.get(at * 8, word.as_mut_bytes());
                window.flush_local();
                black_box(word);
            });
        },
        || {
            each(&mut |at| {
                black_box(sides.ours.add(at).get(world).expect("a get"));
            });
        },
    );
    atomics(sides, &places);
}

fn atomics(sides: &Sides, places: &[usize]) {
    let world = &sides.world;
    let each = |f: &mut dyn FnMut(usize)| places.iter().for_each(|&at| f(at));
    sides.compare(
        "fetch_add",
        places.len(),
        |window| {
            each(&mut |at| {
                black_box(window.fetch_add(at * 8));
            });
        },
        || {
            each(&mut |at| {
                let former = sides.ours.add(at).fetch_add(world, 1);
                black_box(former.expect("an atomic"));
            });
        },
    );
    sides.compare(
        "add without a result",
        places.len(),
        |window| each(&mut |at| window.add(at * 8)),
        || {
            each(&mut |at| {
                let done = sides.ours.add(at).atomic_op(world, AtomicOp::Add, 1);
                done.expect("an atomic");
            });
        },
    );
    // One word for all. Each side reads its bits before it begins.
    sides.compare(
        "compare_exchange",
        places.len(),
        |window| {
            let mut found = window.fetch_add(0) + 1;
            each(&mut |_| found = window.compare_swap(0, found) + 1);
        },
        || {
            let mut found = sides.ours.fetch_add(world, 1).expect("an atomic") + 1;
            each(&mut |_| {
                let swapped = sides.ours.compare_exchange(world, found, found + 1);
                found = swapped
                    .expect("an atomic")
                    .expect("nobody else writes the word")
                    + 1;
            });
        },
    );
}

/// Many transfers at once, complete at the target at the end.
fn floods(sides: &Sides) {
    let world = &sides.world;
    for shift in [3, 6, 9, 12, 15, 18, 20, 22] {
        let bytes = 1_usize << shift;
        let n_ops = if is_smoke_test() {
            2
        } else {
            (1 << 24 >> shift).clamp(4, 64)
        };
        let n_words = bytes / 8;
        let source = vec![3_u64; n_words];
        let place = |i: usize| i * n_words % (N_WORDS - n_words);
        sides.compare(
            &format!("flood of {n_ops} puts of {bytes} B"),
            n_ops,
            |window| {
                (0..n_ops).for_each(|i| window.put(place(i) * 8, source.as_bytes()));
                window.flush();
            },
            || {
                let all = world.scope(|scope| {
                    (0..n_ops).try_for_each(|i| scope.put(sides.ours.add(place(i)), &source))
                });
                all.and_then(|done| done).expect("puts");
            },
        );
        let into = RefCell::new(vec![vec![0_u64; n_words]; n_ops]);
        sides.compare(
            &format!("flood of {n_ops} gets of {bytes} B"),
            n_ops,
            |window| {
                for (i, out) in into.borrow_mut().iter_mut().enumerate() {
                    window.get(place(i) * 8, out.as_mut_bytes());
                }
                window.flush_local();
            },
            || {
                let mut into = into.borrow_mut();
                let all = world.scope(|scope| {
                    let mut outs = into.iter_mut().enumerate();
                    outs.try_for_each(|(i, out)| scope.get(sides.ours.add(place(i)), out))
                });
                all.and_then(|done| done).expect("gets");
            },
        );
    }
}
