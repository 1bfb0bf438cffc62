//! The ISx integer sort: every rank makes random keys, sends each to the rank of its key range, and
//! sorts the received keys (Hanebutte and Hemstad, "ISx: A Scalable Integer Sort for Co-design in
//! the Exascale Era", 2015).
//!
//! ```text
//! cargo run --release --example isx -- --ranks 2
//! cargo run --release --example isx -- --ranks 4 --keys-per-rank 1000000 --json
//! ```
//!
//! The keys go through a `Distributor`, which aggregates them, through inboxes in shared memory or
//! by messages. There is no barrier between sending and sorting, and a rank that sends waits only for
//! room in an inbox. Weak scaling: the work of a rank does not depend on the
//! number of ranks.

#[path = "support/arguments.rs"]
mod arguments;
#[path = "support/memory.rs"]
mod memory;
#[path = "support/progress.rs"]
mod progress;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use pgas::collective::op::{Max, Sum};
use pgas::{Distributor, Rank, World};
use progress::progress_bar;

/// Keys are less than 2 to this power.
const KEY_BITS: u32 = 28;
/// Capacity of an inbox, in keys.
const INBOX: usize = 1 << 20;
/// Keys between two steps of the progress bar.
const STEP: usize = 1 << 18;

/// Sorts random integers over many ranks.
#[derive(Debug, Parser)]
#[command(name = "isx")]
struct Options {
    /// Number of keys of each rank
    #[arg(long, value_name = "N", default_value_t = 1 << 24)]
    keys_per_rank: usize,
    /// Start N ranks, if nothing else has started several
    #[arg(long, value_name = "N", value_parser = arguments::ranks())]
    ranks: Option<u32>,
    /// Seed of the keys
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one line of JSON instead of text
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let options: Options = match arguments::parse("isx") {
        Ok(options) => options,
        Err(code) => return code,
    };
    // The original keys, the received keys, the sorted keys, and the keys in flight.
    if let Err(line) = memory::check::<[u32; 4]>(options.keys_per_rank, "--keys-per-rank") {
        return memory::refuse("isx", &line);
    }
    let world = match arguments::join("isx", options.ranks) {
        Ok(world) => world,
        Err(code) => return code,
    };
    match run(&world, &options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => arguments::fail("isx", Some(&world), &*error, &error.to_string()),
    }
}

/// The key ranges of the ranks, in the order of ranks.
struct Ranges {
    /// Size of one rank's range.
    width: u32,
}

impl Ranges {
    fn new(world: &World) -> Self {
        let width = (1_u32 << KEY_BITS).div_ceil(world.n_ranks());
        Self { width }
    }

    fn rank_of(&self, key: u32) -> Rank {
        Rank::new(key / self.width)
    }
}

/// Whether the result is right.
fn run(world: &World, options: &Options) -> Result<bool, Box<dyn Error>> {
    let ranges = Ranges::new(world);
    world.barrier()?;
    let start = Instant::now();
    let keys = make_keys(world, options);

    let exchange = Instant::now();
    let mut mine = redistribute(world, &ranges, &keys, !options.json)?;
    let seconds_exchange = exchange.elapsed().as_secs_f64();

    let sort = Instant::now();
    radix_sort(
        &mut mine,
        world.rank().number() * ranges.width,
        ranges.width,
    );
    let seconds_sort = sort.elapsed().as_secs_f64();
    world.barrier()?;
    let seconds = [
        start.elapsed().as_secs_f64(),
        seconds_exchange,
        seconds_sort,
    ];

    let verified = verify(world, &ranges, &keys, &mine)?;
    let mut slowest = [0.0; 3];
    for (slowest, seconds) in slowest.iter_mut().zip(seconds) {
        *slowest = world.allreduce(seconds, Max)?;
    }
    if world.rank() == Rank::ZERO {
        report(world, options, slowest, verified)
            .map_err(|error| format!("standard output: {error}"))?;
    }
    Ok(verified)
}

/// The random keys of this rank (SplitMix64).
fn make_keys(world: &World, options: &Options) -> Vec<u32> {
    let n = options.keys_per_rank;
    let mut keys = Vec::with_capacity(n);
    let mut state = options.seed ^ (u64::from(world.rank().number()) << 40);
    let key = |_| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from(z >> (64 - KEY_BITS)).expect("28 bits")
    };
    keys.extend((0..n).map(key));
    keys
}

/// Sends every key to the rank of its range, and returns the keys of this rank's range.
fn redistribute(
    world: &World,
    ranges: &Ranges,
    keys: &[u32],
    show: bool,
) -> pgas::Result<Vec<u32>> {
    let mut distributor = Distributor::with_capacity(world, INBOX)?;
    let bar = progress_bar(world, "exchange", keys.len() as u64, show);
    for step in keys.chunks(STEP) {
        for &key in step {
            distributor.send(ranges.rank_of(key), key)?;
        }
        bar.inc(step.len() as u64);
    }
    Ok(distributor.finish()?)
}

/// Sorts keys in the range of `width` numbers from `low` on, digit by digit from the lowest one.
fn radix_sort(keys: &mut Vec<u32>, low: u32, width: u32) {
    const PASSES: u32 = 3;
    let bits = (u32::BITS - (width - 1).leading_zeros())
        .max(PASSES)
        .div_ceil(PASSES);
    let digit = |key: u32, pass: u32| (((key - low) >> (pass * bits)) & ((1 << bits) - 1)) as usize;
    let mut passes: Vec<_> = (0..PASSES)
        .map(|pass| (pass, vec![0_usize; 1 << bits]))
        .collect();
    for &key in keys.iter() {
        for (pass, counts) in &mut passes {
            counts[digit(key, *pass)] += 1;
        }
    }
    let mut sorted = vec![0; keys.len()];
    for (pass, mut places) in passes {
        let mut next = 0;
        for place in &mut places {
            (*place, next) = (next, next + *place);
        }
        for &key in keys.iter() {
            let place = &mut places[digit(key, pass)];
            sorted[*place] = key;
            *place += 1;
        }
        std::mem::swap(keys, &mut sorted);
    }
}

/// Whether all keys are present, on the right rank, and in order.
fn verify(world: &World, ranges: &Ranges, made: &[u32], sorted: &[u32]) -> pgas::Result<bool> {
    let sum = |keys: &[u32]| {
        keys.iter()
            .fold(0_u64, |sum, &key| sum.wrapping_add(u64::from(key).pow(2)))
    };
    let n_made = world.allreduce(made.len() as u64, Sum)?;
    let n_sorted = world.allreduce(sorted.len() as u64, Sum)?;
    let sum_made = world.allreduce(sum(made), Sum)?;
    let sum_sorted = world.allreduce(sum(sorted), Sum)?;
    let in_range = |key: &u32| ranges.rank_of(*key) == world.rank();
    let is_right = sorted.is_sorted() && sorted.iter().all(in_range);
    let n_wrong = world.allreduce(u64::from(!is_right), Sum)?;
    Ok((n_made, sum_made, n_wrong) == (n_sorted, sum_sorted, 0))
}

fn report(
    world: &World,
    options: &Options,
    [total, exchange, sort]: [f64; 3],
    verified: bool,
) -> io::Result<()> {
    let (ranks, keys) = (world.n_ranks(), options.keys_per_rank);
    let line = if options.json {
        serde_json::json!({
            "ranks": ranks,
            "way": "aggregated",
            "keys_per_rank": keys,
            "seconds_total": total,
            "seconds_exchange": exchange,
            "seconds_sort": sort,
            "verified": verified,
        })
        .to_string()
    } else {
        let verdict = if verified { "in order" } else { "WRONG" };
        format!(
            "{ranks} ranks, {keys} keys each, aggregated: {total:.3} s (exchange {exchange:.3} s, sort {sort:.3} s), {verdict}"
        )
    };
    writeln!(io::stdout(), "{line}")
}
