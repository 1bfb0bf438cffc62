//! The direct path under MPI beside the shared-memory backend: the same program, the same launcher,
//! in turn.

use std::hint::black_box;
use std::io::Write as _;
use std::time::Instant;

use pgas_core::config::BackendKind;
use pgas_core::{Config, GlobalPtr, Rank, World};

use crate::{ALONE, CONTAINERS, is_smoke_test, mpirun, report};

/// Words that are accessed at random: 256 MiB.
const N_WORDS: usize = 1 << 25;
const N_OPS: usize = 4096;

/// Runs jobs over shared memory and over MPI in turn, and prints the ratios of what they report.
pub(crate) fn compare_with_smp() {
    println!("\nThe direct path: the shared-memory backend beside MPI's");
    let n_jobs = if is_smoke_test() { 1 } else { 7 };
    for (name, pairs) in Job::OneSided.in_turn(n_jobs, "1") {
        report(&name, N_OPS, &pairs);
    }
}

/// What the ranks of a job measure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Job {
    OneSided,
    Containers,
}

/// By name, pairs of seconds: over shared memory, and over MPI.
type Figures = Vec<(String, Vec<(f64, f64)>)>;

impl Job {
    /// Runs this many jobs over shared memory, with the direct path, and over MPI, with it or
    /// without it, in turn.
    pub(crate) fn in_turn(self, n_jobs: usize, direct: &str) -> Figures {
        let mut figures = Figures::new();
        for _ in 0..n_jobs {
            let (smp, mpi) = (self.run("smp", "1"), self.run("mpi", direct));
            for ((name, floor), (_, ours)) in smp.into_iter().zip(mpi) {
                match figures.iter_mut().find(|(other, _)| *other == name) {
                    Some((_, pairs)) => pairs.push((floor, ours)),
                    None => figures.push((name, vec![(floor, ours)])),
                }
            }
        }
        figures
    }

    /// What rank 0 of one job measures: names and seconds.
    fn run(self, backend: &str, direct: &str) -> Vec<(String, f64)> {
        let mut command = mpirun();
        command.arg(match self {
            Self::OneSided => ALONE,
            Self::Containers => CONTAINERS,
        });
        command.args(is_smoke_test().then_some("--test"));
        command
            .env("PGAS_BACKEND", backend)
            .env("PGAS_DIRECT", direct);
        let output = command.output().expect("the launcher is installed");
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let figure = |line: &str| {
            let (name, seconds) = line.split_once('=')?;
            Some((name.to_owned(), seconds.parse().ok()?))
        };
        let figures: Vec<_> = text.lines().filter_map(figure).collect();
        assert!(!figures.is_empty(), "{text}");
        figures
    }
}

/// The world of a job's rank, over the backend that the environment names.
pub(crate) fn world() -> World {
    let config = Config::from_env().expect("usable settings");
    let world = if config.backend == Some(BackendKind::Smp) {
        pgas_smp::init(&config)
    } else {
        pgas_mpi::init(&config)
    };
    world.expect("two ranks of one host")
}

/// A rank of such a job.
pub(crate) fn measure_alone() {
    let world = world();
    let n_words = if is_smoke_test() { 1 << 16 } else { N_WORDS };
    let array = world.alloc_symmetric::<u64>(n_words).expect("256 MiB");
    for at in (0..n_words).step_by(512) {
        let page = [1_u64; 512];
        let put = array.here().add(at).put_slice(&world, &page);
        put.expect("a rank reaches itself");
    }
    world.barrier().expect("both ranks are here");
    let places: Vec<usize> = (0..N_OPS).map(|i| (i * 0x9e37_79b1) % n_words).collect();
    if world.rank() == Rank::ZERO {
        one_sided(&world, array.on(Rank::new(1)), &places);
    }
    world.barrier().expect("both ranks are here");
    let barriers =
        median(|| (0..N_OPS).for_each(|_| world.barrier().expect("both ranks are here")));
    if world.rank() == Rank::ZERO {
        tell("barrier", barriers);
    }
    world.barrier().expect("both ranks are here");
}

fn one_sided(world: &World, peer: GlobalPtr<u64>, places: &[usize]) {
    let each = |f: &mut dyn FnMut(usize)| places.iter().for_each(|&at| f(at));
    let get = median(|| {
        each(&mut |at| {
            black_box(peer.add(at).get(world).expect("a load"));
        });
    });
    tell("get of 8 B", get);
    let put = median(|| each(&mut |at| peer.add(at).put(world, 7).expect("a store")));
    tell("put of 8 B", put);
    let add = median(|| {
        each(&mut |at| {
            black_box(peer.add(at).fetch_add(world, 1).expect("a CPU atomic"));
        });
    });
    tell("fetch_add", add);
    let swap = median(|| {
        each(&mut |at| {
            let swapped = peer.add(at).compare_exchange(world, 7, 8);
            let _ = black_box(swapped.expect("a CPU atomic"));
        });
    });
    tell("compare_exchange", swap);
}

/// The median of many runs, in seconds.
fn median(mut run: impl FnMut()) -> f64 {
    let n_runs = if is_smoke_test() { 1 } else { 101 };
    let mut times: Vec<f64> = (0..n_runs)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[n_runs / 2]
}

pub(crate) fn tell(name: &str, seconds: f64) {
    let line = format!("{name}={seconds}\n");
    let told = std::io::stdout().write_all(line.as_bytes());
    told.expect("the bench reads what is printed");
}
