//! The kernel *histogram* of bale in three styles: every rank increments random words of a table
//! that is distributed over all ranks.
//!
//! ```text
//! cargo run --release --example histogram -- --ranks 2
//! cargo run --release --example histogram -- --ranks 4 --accesses 100000 --json
//! ```
//!
//! | style | an addition is |
//! |---|---|
//! | direct | a remote atomic on a word in the owner's segment |
//! | messages | an active message, whose handler adds to the owner's private memory |
//! | aggregated | an item of an `Aggregator`, which sends many in one message |
//!
//! If all memory is local, as on one host, all styles run. Between hosts only the aggregated style
//! runs, unless `--styles` names others.
//!
//! Each style is checked by weighted sums: each word has a weight, and the sum over the table must
//! equal the sum over all accesses. So an addition to a wrong word is found, and the work does not
//! grow with the number of ranks.

#[path = "support/arguments.rs"]
mod arguments;
#[path = "support/kernel.rs"]
mod kernel;
#[path = "support/memory.rs"]
mod memory;
#[path = "support/mod.rs"]
mod support;
#[path = "support/timing.rs"]
mod timing;
#[path = "support/way.rs"]
mod way;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use kernel::{Measured, Options, Place};
use pgas::backend::AtomicOp;
use pgas::collective::op::Sum;
use pgas::message::{Payload, RequestHandler, Token};
use pgas::prelude::*;
use pgas::{Aggregator, quiet};
use way::Way;

/// Adds to random words of a distributed table, in three styles.
#[derive(Debug, Parser)]
#[command(name = "histogram")]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let Arguments { options } = match arguments::parse("histogram") {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    if let Err(line) = options.check_memory() {
        return memory::refuse("histogram", &line);
    }
    support::start("histogram", options.ranks, |world| run(world, &options))
}

/// Whether the results are right.
fn run(world: &World, options: &Options) -> support::Result<bool> {
    let places: Vec<Place> = options.places(world, world.rank()).collect();
    let expected = world.allreduce(additions(options, &places), Sum)?;
    let styles: [(&str, Style); 3] = [
        ("direct", direct),
        ("messages", messages),
        ("aggregated", aggregated),
    ];
    let mut all = Vec::new();
    let way = Way::of(world)?;
    let styles = styles.into_iter();
    for (style, run) in styles.filter(|(style, _)| options.runs(style, way)) {
        let (seconds, counts) = run(world, options, &places)?;
        let sum = weighed(options, world.rank(), &counts);
        let is_right = world.allreduce(sum, Sum)? == expected;
        all.push(Measured {
            style,
            seconds,
            verified: support::all(world, is_right)?,
        });
    }
    Ok(kernel::report(world, (options, way), "histogram", &all)?)
}

/// The elapsed seconds, and this rank's part of the table.
type Style = fn(&World, &Options, &[Place]) -> pgas::Result<(f64, Vec<u64>)>;

/// The weight of each word of the table.
fn weight(options: &Options, rank: Rank, index: u32) -> u64 {
    let word = u64::from(rank.number()) * u64::from(options.table) + u64::from(index);
    support::mix(!word)
}

/// The sum of the weights of the accessed words.
fn additions(options: &Options, places: &[Place]) -> u64 {
    let weights = places
        .iter()
        .map(|place| weight(options, place.rank, place.index));
    weights.fold(0, u64::wrapping_add)
}

/// The same sum, computed from a rank's part of the table.
fn weighed(options: &Options, rank: Rank, counts: &[u64]) -> u64 {
    let counts = (0..).zip(counts);
    let weights = counts.map(|(index, n)| weight(options, rank, index).wrapping_mul(*n));
    weights.fold(0, u64::wrapping_add)
}

fn direct(world: &World, options: &Options, places: &[Place]) -> pgas::Result<(f64, Vec<u64>)> {
    let n = options.table as usize;
    let table = world.alloc_symmetric::<u64>(n)?;
    let seconds = timing::seconds(world, || {
        kernel::each(world, options, "direct", places, |_, place| {
            let word = table.on(place.rank).add(place.index as usize);
            word.atomic_op(world, AtomicOp::Add, 1)
        })?;
        world.barrier() // completes the atomics
    })?;
    Ok((seconds, table.here().get_vec(world, n)?))
}

/// Words that only their own rank accesses.
fn private(options: &Options) -> Vec<AtomicU64> {
    (0..options.table).map(|_| AtomicU64::new(0)).collect()
}

fn values(words: &[AtomicU64]) -> Vec<u64> {
    let value = |word: &AtomicU64| word.load(Ordering::Relaxed);
    words.iter().map(value).collect()
}

/// The handler of the style *messages*: its argument is the word to add to.
struct Add(Arc<Vec<AtomicU64>>);

impl RequestHandler for Add {
    type Args = u32;

    fn handle(&self, _: Token<'_>, index: u32, _: Payload<'_>) -> pgas::Result<()> {
        self.0[index as usize].fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn messages(world: &World, options: &Options, places: &[Place]) -> pgas::Result<(f64, Vec<u64>)> {
    let counts = Arc::new(private(options));
    world.register(Add(Arc::clone(&counts)))?;
    let seconds = timing::seconds(world, || {
        kernel::each(world, options, "messages", places, |_, place| {
            world.request::<Add>(place.rank, &place.index)
        })?;
        quiet(world)
    })?;
    Ok((seconds, values(&counts)))
}

fn aggregated(world: &World, options: &Options, places: &[Place]) -> pgas::Result<(f64, Vec<u64>)> {
    let counts = DistObject::new(world, private(options))?;
    let add = |counts: DistObject<Vec<AtomicU64>>, indices: &[u32]| {
        for index in indices {
            counts[*index as usize].fetch_add(1, Ordering::Relaxed);
        }
    };
    let mut sender = Aggregator::new(world, add, counts.clone())?;
    let seconds = timing::seconds(world, || {
        kernel::each(world, options, "aggregated", places, |_, place| {
            sender.push(place.rank, place.index)
        })?;
        sender.finish()
    })?;
    Ok((seconds, values(&counts)))
}
