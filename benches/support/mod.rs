//! Common parts of the benches: a job of two ranks, in which rank 0 measures.

#![allow(dead_code, reason = "each bench uses a part")]

use std::time::{Duration, Instant};

use criterion::Criterion;
use pgas::backend::SignalUpdate;
use pgas::config::launch::Launcher;
use pgas::{Config, GlobalPtr, Rank, World};

/// Starts two ranks as processes. Runs `measure` on rank 0, and `serve` on rank 1 meanwhile.
pub(crate) fn two_ranks(measure: impl FnOnce(&World, &mut Criterion), serve: impl FnOnce(&World)) {
    let mut config = Config::from_env().expect("usable settings");
    if matches!(config.launcher, Launcher::Single) {
        config.launcher = Launcher::SelfLaunch { n_ranks: 2 };
    }
    let world = pgas::init_with(&config).expect("a job of two ranks");
    assert_eq!(world.n_ranks(), 2, "the benches are for two ranks");
    if world.rank() == Rank::ZERO {
        let mut criterion = Criterion::default()
            .sample_size(20)
            .warm_up_time(Duration::from_millis(500))
            .measurement_time(Duration::from_secs(2))
            .configure_from_args();
        measure(&world, &mut criterion);
        criterion.final_summary();
    } else {
        serve(&world);
    }
    world.barrier().expect("the other rank ends too");
}

/// Words of rank 1 for an order: the task and, in another cache line, the number of repetitions.
pub(crate) const ORDER_WORDS: usize = COUNT + 1;
const COUNT: usize = 8;

/// Orders rank 1 to run `task` `n` times. `order` is the first of its [`ORDER_WORDS`].
pub(crate) fn give_order(world: &World, order: GlobalPtr<u64>, task: u64, n: u64) {
    order.add(COUNT).put(world, n).expect("direct");
    order
        .put_signal(world, &[], order, SignalUpdate::Set(task))
        .expect("direct");
}

/// Waits for an order and takes it: the task, which is not 0, and the number of repetitions.
pub(crate) fn take_order(world: &World, order: GlobalPtr<u64>) -> (u64, u64) {
    let task = order.wait_until(world, |task| task != 0).expect("an order");
    order.atomic_store(world, 0).expect("direct");
    let n = order.add(COUNT).get(world).expect("direct");
    (task, n)
}

/// Runs `floor` and `ours` in turn, many times, and prints the median of the ratios of their times.
/// A disturbance of the machine that lasts longer than a moment affects both.
pub(crate) fn paired(name: &str, n_ops: usize, mut floor: impl FnMut(), mut ours: impl FnMut()) {
    let n_rounds = if is_smoke_test() { 1 } else { 201 };
    let time = |run: &mut dyn FnMut()| {
        let start = Instant::now();
        run();
        #[expect(clippy::cast_precision_loss, reason = "a count of operations")]
        let per_op = 1e9 / n_ops as f64;
        start.elapsed().as_secs_f64() * per_op
    };
    let mut rounds: Vec<(f64, f64)> = (0..n_rounds)
        .map(|_| (time(&mut floor), time(&mut ours)))
        .collect();
    let mut median = |of: fn(&(f64, f64)) -> f64| {
        rounds.sort_by(|a, b| of(a).total_cmp(&of(b)));
        of(&rounds[n_rounds / 2])
    };
    let (floor, ours) = (median(|r| r.0), median(|r| r.1));
    let ratio = median(|r| r.1 / r.0);
    report(name, floor, ours, ratio);
    // On a shared machine the fastest rounds are the undisturbed ones.
    let best = |of: fn(&(f64, f64)) -> f64| rounds.iter().map(of).fold(f64::MAX, f64::min);
    let (floor, ours) = (best(|r| r.0), best(|r| r.1));
    report(
        &format!("{name}, fastest rounds"),
        floor,
        ours,
        ours / floor,
    );
}

/// Prints a result and its floor, in nanoseconds an operation.
#[expect(clippy::print_stdout, reason = "a bench reports")]
pub(crate) fn report(name: &str, floor: f64, ours: f64, ratio: f64) {
    println!("paired {name}: floor {floor:.2} ns, pgas {ours:.2} ns, ratio {ratio:.3}");
}

/// The processor time of this thread in seconds, from the system, so that other load on the machine
/// counts as little as possible. If the system does not report it, the time since the first call.
pub(crate) fn time_on_processor() -> f64 {
    // The system updates its figure when a thread yields.
    std::thread::yield_now();
    let figures = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = figures.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let since = || START.get_or_init(Instant::now).elapsed().as_secs_f64();
    nanoseconds.map_or_else(since, |n| n / 1e9)
}

/// Whether the benches only show that they run (`cargo bench -- --test`).
pub(crate) fn is_smoke_test() -> bool {
    std::env::args().any(|arg| arg == "--test")
}
