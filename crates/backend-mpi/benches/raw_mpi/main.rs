//! Every operation of the network path beside the same loop written straight on MPI, and the direct path beside the
//! shared-memory backend: ratios of runs in turn.
//!
//! `cargo bench -p pgas-mpi` starts this program again under the launcher of its MPI library, with two ranks: rank 0
//! measures, and rank 1 waits in a barrier, MPI's own or ours, since most windows need their target inside of MPI. Both
//! sides use windows of the same kind (`MPI_Win_create`) and of the same component. Latency and flood bandwidth are
//! those of figure 6 and table 1 of the GASNet-EX paper (Bonachea, Hargrove: GASNet-EX, LCPC 2018).
#![expect(clippy::print_stdout, reason = "a bench reports")]

mod containers;
mod raw;
mod shared;

use std::hint::black_box;
use std::process::{Command, ExitCode};
use std::time::Instant;

use mpi::Threading;
use mpi::topology::Communicator as _;
use pgas_core::{Config, GlobalPtr, Rank, Statistics, World};
use raw::RawWindow;
use zerocopy::IntoBytes as _;

/// The argument by which the program measures; without it, it starts itself under the launcher.
const PAIRS: &str = "--pairs-of-ranks";
/// The argument by which a rank measures the direct path alone.
const ALONE: &str = "--direct-path";

/// The argument by which a rank measures containers.
const CONTAINERS: &str = "--containers";

/// Words of each window.
const N_WORDS: usize = 1 << 23;
const TARGET: Rank = Rank::new(1);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    if has(PAIRS) {
        measure_pairs();
        return ExitCode::SUCCESS;
    }
    if has(ALONE) {
        shared::measure_alone();
        return ExitCode::SUCCESS;
    }
    if has(CONTAINERS) {
        containers::measure();
        return ExitCode::SUCCESS;
    }
    let tcp: &[(&str, &str)] = &[
        ("OMPI_MCA_btl", "self,tcp"),
        ("OMPI_MCA_btl_tcp_if_include", "lo"),
        ("UCX_TLS", "tcp,self"),
        ("MPIR_CVAR_NOLOCAL", "1"),
    ];
    for (name, settings) in [("shared memory below MPI", &[][..]), ("TCP below MPI", tcp)] {
        println!("\n{}, {name}: raw MPI beside PGAS_DIRECT=0", library());
        let mut command = mpirun();
        command.arg(PAIRS).args(std::env::args().skip(1));
        command.env("OMPI_MCA_osc", "sm,pt2pt");
        command.envs(settings.iter().copied());
        let status = command.status().expect("the launcher is installed");
        assert!(status.success(), "the ranks failed: {status}");
    }
    shared::compare_with_smp();
    containers::compare_with_smp();
    ExitCode::SUCCESS
}

fn library() -> String {
    pgas_mpi::library().expect("the library says what it is")
}

/// This program under the launcher of its library, with two ranks.
fn mpirun() -> Command {
    let mut command = if library().starts_with("Open MPI") {
        let mut command = Command::new("mpirun.openmpi");
        command.args(["--allow-run-as-root", "--oversubscribe"]);
        command
    } else {
        Command::new("mpiexec.hydra")
    };
    command.args(["-n", "2"]);
    command.arg(std::env::current_exe().expect("this program"));
    command
}

/// Whether the bench only shows that it runs (`cargo bench -- --test`).
fn is_smoke_test() -> bool {
    std::env::args().any(|argument| argument == "--test")
}

/// Whether `name` contains one of the words that the bench was started with, if there are any.
fn is_wanted(name: &str) -> bool {
    let mut words = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .peekable();
    words.peek().is_none() || words.any(|word| name.contains(&word))
}

/// The two sides, on each of the two ranks.
struct Pair {
    world: World,
    window: RawWindow,
    ours: GlobalPtr<u64>,
}

impl Pair {
    /// Runs `raw` and `ours` in turn on rank 0, many times, while rank 1 waits in the barrier of the side that is
    /// measured, and prints the median of the ratios: what disturbs a machine for longer than a moment disturbs both.
    fn compare(&self, name: &str, n_ops: usize, mut raw: impl FnMut(), mut ours: impl FnMut()) {
        if !is_wanted(name) {
            return;
        }
        let n_rounds = if is_smoke_test() { 1 } else { 41 };
        let measures = self.world.rank() == Rank::ZERO;
        let mut rounds = Vec::with_capacity(n_rounds);
        for _ in 0..n_rounds {
            self.window.barrier();
            let floor = if measures { time(&mut raw) } else { 0.0 };
            self.window.barrier();
            self.world.barrier().expect("the other rank lives");
            let here = if measures { time(&mut ours) } else { 0.0 };
            self.world.barrier().expect("the other rank lives");
            rounds.push((floor, here));
        }
        if measures {
            report(name, n_ops, &mut rounds);
        }
    }
}

fn time(run: &mut dyn FnMut()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64()
}

/// Prints the medians of times of `n_ops` operations, that of their ratios, and the ratio of the shortest times, which
/// a busy machine disturbs least.
fn report(name: &str, n_ops: usize, rounds: &mut [(f64, f64)]) {
    let mut median = |of: fn(&(f64, f64)) -> f64| {
        rounds.sort_by(|a, b| of(a).total_cmp(&of(b)));
        of(&rounds[rounds.len() / 2])
    };
    #[expect(clippy::cast_precision_loss, reason = "a count of operations")]
    let per_op = 1e9 / n_ops as f64;
    let (floor, ours) = (median(|r| r.0) * per_op, median(|r| r.1) * per_op);
    let ratio = median(|r| r.1 / r.0);
    let shortest = |of: fn(&(f64, f64)) -> f64| rounds.iter().map(of).fold(f64::INFINITY, f64::min);
    let best = shortest(|r| r.1) / shortest(|r| r.0);
    println!(
        "paired {name}: floor {floor:.0} ns, pgas {ours:.0} ns, ratio {ratio:.3}, of the shortest {best:.3}"
    );
}

fn measure_pairs() {
    let (universe, _) = mpi::initialize_with_threading(Threading::Serialized)
        .expect("the first in this process to start MPI");
    let comm = universe.world();
    assert_eq!(comm.size(), 2, "the bench is for two ranks");
    let mut config = Config::from_env().expect("usable settings");
    config.direct = false;
    config.statistics = Statistics::Off;
    config.segment_bytes = Some(256 << 20);
    let world = pgas_mpi::init_on(&comm, &config).expect("two ranks over MPI");
    let array = world
        .alloc_symmetric::<u64>(N_WORDS)
        .expect("64 MiB of 256");
    for at in (0..N_WORDS).step_by(512) {
        let page = [1_u64; 512];
        let put = array.here().offset(at).put_slice(&world, &page);
        put.expect("a rank reaches itself");
    }
    world.barrier().expect("both ranks are here");
    let pair = Pair {
        window: RawWindow::new(&comm, N_WORDS),
        ours: array.on(TARGET),
        world,
    };
    words(&pair);
    floods(&pair);
    pair.window.free();
    pair.world.barrier().expect("both ranks are here");
}

/// Latency of eight bytes at random places, one operation after the other.
fn words(pair: &Pair) {
    let (world, window) = (&pair.world, &pair.window);
    let n_ops = if is_smoke_test() { 8 } else { 500 };
    let places: Vec<usize> = (0..n_ops).map(|i| (i * 0x9e37_79b1) % N_WORDS).collect();
    let each = |f: &mut dyn FnMut(usize)| places.iter().for_each(|&at| f(at));
    let value = 7_u64;
    pair.compare(
        "put of 8 B, source free",
        n_ops,
        || {
            each(&mut |at| {
                window.put(at * 8, value.as_bytes());
                window.flush_local();
            });
        },
        || each(&mut |at| pair.ours.offset(at).put(world, value).expect("a put")),
    );
    pair.compare(
        "put of 8 B and flush",
        n_ops,
        || {
            each(&mut |at| {
                window.put(at * 8, value.as_bytes());
                window.flush();
            });
        },
        || {
            each(&mut |at| {
                pair.ours.offset(at).put(world, value).expect("a put");
                world.flush(TARGET).expect("a flush");
            });
        },
    );
    pair.compare(
        "get of 8 B",
        n_ops,
        || {
            each(&mut |at| {
                let mut word = 0_u64;
                window.get(at * 8, word.as_mut_bytes());
                window.flush_local();
                black_box(word);
            });
        },
        || {
            each(&mut |at| {
                black_box(pair.ours.offset(at).get(world).expect("a get"));
            });
        },
    );
    atomics(pair, &places);
}

fn atomics(pair: &Pair, places: &[usize]) {
    let (world, window) = (&pair.world, &pair.window);
    let each = |f: &mut dyn FnMut(usize)| places.iter().for_each(|&at| f(at));
    pair.compare(
        "fetch_add",
        places.len(),
        || {
            each(&mut |at| {
                black_box(window.fetch_add(at * 8));
            });
        },
        || {
            each(&mut |at| {
                let former = pair.ours.offset(at).fetch_add(world, 1);
                black_box(former.expect("an atomic"));
            });
        },
    );
    let (mut raw, mut ours) = (1_u64, 1_u64);
    window_and_ours_start_at(pair, 0, 1);
    pair.compare(
        "compare_exchange",
        places.len(),
        || each(&mut |_| raw = window.compare_swap(0, raw) + 1),
        || {
            each(&mut |_| {
                let swapped = pair.ours.compare_exchange(world, ours, ours + 1);
                ours = swapped
                    .expect("an atomic")
                    .map_or_else(|found| found, |former| former + 1);
            });
        },
    );
}

/// Sets the word at `at` of both sides.
fn window_and_ours_start_at(pair: &Pair, at: usize, value: u64) {
    if pair.world.rank() == Rank::ZERO {
        pair.window.put(at * 8, value.as_bytes());
        pair.window.flush();
        let ours = pair.ours.offset(at);
        ours.put(&pair.world, value).expect("a put");
        pair.world.flush(TARGET).expect("a flush");
    }
}

/// Many transfers at once, complete at the target at the end.
fn floods(pair: &Pair) {
    let (world, window) = (&pair.world, &pair.window);
    for shift in [3, 6, 9, 12, 15, 18, 20, 22] {
        let bytes = 1_usize << shift;
        let n_ops = if is_smoke_test() {
            2
        } else {
            (1 << 24 >> shift).clamp(4, 64)
        };
        let n_words = bytes / 8;
        let source = vec![3_u64; n_words];
        let source_bytes = vec![3_u8; bytes];
        let place = |i: usize| i * n_words % (N_WORDS - n_words);
        pair.compare(
            &format!("flood of {n_ops} puts of {bytes} B"),
            n_ops,
            || {
                (0..n_ops).for_each(|i| window.put(place(i) * 8, &source_bytes));
                window.flush();
            },
            || {
                let all = world.scope(|scope| {
                    (0..n_ops).try_for_each(|i| scope.put(pair.ours.offset(place(i)), &source))
                });
                all.and_then(|done| done).expect("puts");
            },
        );
        let mut into: Vec<Vec<u64>> = vec![vec![0; n_words]; n_ops];
        let mut raw_into: Vec<Vec<u8>> = vec![vec![0; bytes]; n_ops];
        pair.compare(
            &format!("flood of {n_ops} gets of {bytes} B"),
            n_ops,
            || {
                for (i, out) in raw_into.iter_mut().enumerate() {
                    window.get(place(i) * 8, out);
                }
                window.flush_local();
            },
            || {
                let all = world.scope(|scope| {
                    let mut outs = into.iter_mut().enumerate();
                    outs.try_for_each(|(i, out)| scope.get(pair.ours.offset(place(i)), out))
                });
                all.and_then(|done| done).expect("gets");
            },
        );
    }
}
