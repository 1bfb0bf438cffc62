//! Ten thousand remote calls in flight, each awaited by a task of tokio.
//!
//! ```text
//! cargo run --release --features tokio --example tokio_rpcs -- --ranks 2
//! cargo run --release --features tokio --example tokio_rpcs -- --ranks 4 --calls 100000 --json
//! ```
//!
//! Each rank has its own runtime and a `Driver`, which makes progress for its tasks and wakes them.
//!
//! - First, rank 0 requests an object that the other ranks have not created yet. So all its calls
//!   are in flight at once until they do.
//!
//! - Then every rank calls every rank as fast as it can. Tasks also await a transfer, an atomic and
//!   a collective.
//!
//! - At the end the ranks idle for a while, which measures the cost of an idle driver.

#[path = "support/arguments.rs"]
mod arguments;
#[path = "support/memory.rs"]
mod memory;
#[path = "support/mod.rs"]
mod support;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use pgas::Driver;
use pgas::collective::op::{Max, Sum};
use pgas::prelude::*;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime;

/// Calls that wait for an object which is not there are bounded by the library, at four times as
/// many.
const HELD: usize = 1 << 14;

/// Awaits many remote calls at once.
#[derive(Debug, Parser)]
#[command(name = "tokio_rpcs")]
struct Options {
    /// Calls of each rank, each in its own task
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    calls: usize,
    /// Threads of each rank that run tasks
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Idle time at the end, in milliseconds
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(..=3_600_000))]
    idle: u64,
    /// Start N ranks, if nothing else has started several
    #[arg(long, value_name = "N", value_parser = arguments::ranks())]
    ranks: Option<u32>,
    /// Print one line of JSON instead of text
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let options: Options = match arguments::parse("tokio_rpcs") {
        Ok(options) => options,
        Err(code) => return code,
    };
    // There are as many tasks as calls.
    if let Err(line) = memory::check::<[u64; 64]>(options.calls, "--calls") {
        return memory::refuse("tokio_rpcs", &line);
    }
    support::start("tokio_rpcs", options.ranks, |world| run(world, &options))
}

/// Whether all results were right.
fn run(world: &World, options: &Options) -> support::Result<bool> {
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(usize::from(options.threads))
        .build()
        .map_err(|error| pgas::Error::Argument(format!("--threads: {error}").into()))?;
    let measured = runtime.block_on(tasks(world, options))?;
    report(world, options, &measured)
}

/// The measurements of a rank.
struct Measured {
    seconds: f64,
    /// Calls of rank 0 that were in flight at once, before the first answer.
    n_in_flight: usize,
    /// The share of one processor that an idle rank used.
    idle_load: f64,
    is_right: bool,
}

async fn tasks(world: &World, options: &Options) -> pgas::Result<Measured> {
    let driver = Driver::start(world)?;
    let (n_in_flight, held_right) = hold(world, options).await?;
    world.barrier_nb().await?;
    let start = Instant::now();
    let calls_right = call(world, options).await?;
    // Serve the other ranks' calls until all are answered.
    world.barrier_nb().await?;
    let seconds = start.elapsed().as_secs_f64();
    let is_right = one_sided(world).await? && held_right && calls_right;
    let idle_load = idle_load(Duration::from_millis(options.idle));
    world.barrier_nb().await?;
    driver.stop().await?;
    Ok(Measured {
        seconds,
        n_in_flight,
        idle_load,
        is_right,
    })
}

/// Rank 0 requests an object from the others, which create it only after rank 0 has made all its
/// calls. Returns the number of calls that were in flight then, and whether all answers were right.
async fn hold(world: &World, options: &Options) -> pgas::Result<(usize, bool)> {
    let team = world.team();
    let number = u64::from(world.rank().number());
    if world.rank() != Rank::ZERO {
        team.barrier_nb().await?;
        // The waiting calls are answered now. The object lives until the second barrier.
        let _object = DistObject::new(&team, number)?;
        team.barrier_nb().await?;
        return Ok((0, true));
    }
    let object = DistObject::new(&team, number)?;
    let n_calls = if world.n_ranks() > 1 {
        options.calls.min(HELD)
    } else {
        0
    };
    let n_answered = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::with_capacity(n_calls);
    for (i, to) in (0..n_calls).zip(world.ranks().skip(1).cycle()) {
        let add = |(object, i): (DistObject<u64>, u64)| *object + i;
        let answer = world.rpc(to, add, (object.clone(), i as u64))?;
        let n_answered = Arc::clone(&n_answered);
        tasks.push(tokio::spawn(async move {
            let answer = answer.await;
            n_answered.fetch_add(1, Ordering::Relaxed);
            Ok::<_, pgas::Error>(answer? == u64::from(to.number()) + i as u64)
        }));
    }
    let n_in_flight = n_calls - n_answered.load(Ordering::Relaxed);
    team.barrier_nb().await?;
    let mut is_right = n_in_flight == n_calls;
    for task in tasks {
        is_right &= task.await.expect("the task does not panic")?;
    }
    team.barrier_nb().await?;
    Ok((n_in_flight, is_right))
}

/// Calls all ranks in turn, each call in its own task. Returns whether all answers were right.
async fn call(world: &World, options: &Options) -> pgas::Result<bool> {
    let mut tasks = Vec::with_capacity(options.calls);
    let bar = support::progress_bar(world, "calls", options.calls as u64, !options.json);
    for (i, to) in (0..options.calls as u64).zip(world.ranks().cycle()) {
        let answer = world.rpc(to, support::mix, i)?;
        tasks.push(tokio::spawn(async move {
            answer.await.map(|answer| answer == support::mix(i))
        }));
    }
    let mut is_right = true;
    for task in tasks {
        is_right &= task.await.expect("the task does not panic")?;
        bar.inc(1);
    }
    Ok(is_right)
}

/// Awaits a put, an atomic, a get and a reduction. Returns whether their results are right.
async fn one_sided(world: &World) -> pgas::Result<bool> {
    let rank = u64::from(world.rank().number());
    let n_ranks = u64::from(world.n_ranks());
    let word = world.alloc::<u64>(1)?;
    word.put_nb(world, rank)?.await?;
    let former = word
        .fetch_op_nb(world, pgas::backend::AtomicOp::Add, 1)?
        .await?;
    let now = word.get_nb(world)?.await?;
    let sum = world.allreduce_nb(now, Sum).await?;
    Ok(former == rank && now == rank + 1 && sum == n_ranks * (n_ranks + 1) / 2)
}

/// The share of a processor that this process uses while its tasks idle for `time`.
fn idle_load(time: Duration) -> f64 {
    let used = || Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default();
    let (before, start) = (used(), Instant::now());
    // Blocks a thread of the runtime, which has no other task.
    std::thread::sleep(time);
    (used() - before).as_secs_f64() / start.elapsed().as_secs_f64().max(1e-9)
}

/// Prints the result. Returns whether it is right on all ranks.
fn report(world: &World, options: &Options, measured: &Measured) -> support::Result<bool> {
    let seconds = world.allreduce(measured.seconds, Max)?;
    let idle_load = world.allreduce(measured.idle_load, Max)?;
    let in_flight = world.allreduce(measured.n_in_flight as u64, Max)?;
    let verified = support::all(world, measured.is_right)?;
    let (ranks, calls) = (world.n_ranks(), options.calls);
    #[expect(clippy::cast_precision_loss, reason = "a rate needs few digits")]
    let rate = calls as f64 / seconds.max(1e-9) / 1e6;
    if options.json {
        let line = serde_json::json!({
            "ranks": ranks,
            "calls_per_rank": calls,
            "in_flight": in_flight,
            "seconds": seconds,
            "million_per_second_and_rank": rate,
            "idle_load": idle_load,
            "verified": verified,
        });
        support::print(world, line)?;
        return Ok(verified);
    }
    let verdict = if verified { "right" } else { "WRONG" };
    let idle = 100.0 * idle_load;
    let text = format!(
        "{ranks} ranks, {calls} calls each, {in_flight} of rank 0 in flight at once; all: {seconds:.4} s, {rate:.2} million/s and rank\n\
         with nothing to do a rank takes {idle:.2}% of a processor\nresults: {verdict}"
    );
    support::print(world, text)?;
    Ok(verified)
}
