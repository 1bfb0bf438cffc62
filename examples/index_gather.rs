//! The kernel *index gather* of bale in three styles: every rank reads random words of a table that
//! is distributed over all ranks.
//!
//! ```text
//! cargo run --release --example index_gather -- --ranks 2
//! cargo run --release --example index_gather -- --ranks 4 --accesses 100000 --json
//! ```
//!
//! | style | a read is |
//! |---|---|
//! | direct | a get of a word in the owner's segment |
//! | messages | a request, whose handler replies with the word |
//! | aggregated | one of many indices in a remote call, whose result is as many words |
//!
//! If all memory is local, as on one host, all styles run. Between hosts only the aggregated style
//! runs, unless `--styles` names others.
//!
//! Every word is compared with the expected content of the table.

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

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use kernel::{Measured, Options, Place};
use pgas::message::{Origin, Payload, ReplyHandler, RequestHandler, Token};
use pgas::prelude::*;
use pgas::{PgasFuture, quiet};
use way::Way;

/// Maximum number of indices in one remote call.
const BATCH: usize = 1000;
/// Maximum number of remote calls that a rank has in flight.
const WINDOW: usize = 16;

/// Reads random words of a distributed table, in three styles.
#[derive(Debug, Parser)]
#[command(name = "index_gather")]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let Arguments { options } = match arguments::parse("index_gather") {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    if let Err(line) = options.check_memory() {
        return memory::refuse("index_gather", &line);
    }
    support::start("index_gather", options.ranks, |world| run(world, &options))
}

/// Whether the results are right.
fn run(world: &World, options: &Options) -> support::Result<bool> {
    let places: Vec<Place> = options.places(world, world.rank()).collect();
    let table: Vec<u64> = (0..options.table)
        .map(|index| {
            value(Place {
                rank: world.rank(),
                index,
            })
        })
        .collect();
    let styles: [(&str, Style); 3] = [
        ("direct", direct),
        ("messages", messages),
        ("aggregated", aggregated),
    ];
    let mut all = Vec::new();
    let way = Way::of(world)?;
    let styles = styles.into_iter();
    for (style, run) in styles.filter(|(style, _)| options.runs(style, way)) {
        let (seconds, words) = run(world, options, &table, &places)?;
        let is_right = words
            .into_iter()
            .eq(places.iter().map(|place| value(*place)));
        all.push(Measured {
            style,
            seconds,
            verified: support::all(world, is_right)?,
        });
    }
    Ok(kernel::report(world, (options, way), "index_gather", &all)?)
}

/// The content of the table at `place`.
fn value(place: Place) -> u64 {
    support::mix(u64::from(place.rank.number()) << 32 | u64::from(place.index))
}

/// The elapsed seconds, and the words that were read. The argument is this rank's part of the
/// table.
type Style = fn(&World, &Options, &[u64], &[Place]) -> pgas::Result<(f64, Vec<u64>)>;

fn direct(
    world: &World,
    options: &Options,
    mine: &[u64],
    places: &[Place],
) -> pgas::Result<(f64, Vec<u64>)> {
    let table = world.alloc_symmetric::<u64>(mine.len())?;
    table.here().put_slice(world, mine)?;
    let mut words = vec![0; places.len()];
    let seconds = timing::seconds(world, || {
        kernel::each(world, options, "direct", places, |i, place| {
            words[i] = table.on(place.rank).add(place.index as usize).get(world)?;
            Ok(())
        })?;
        world.barrier()
    })?;
    Ok((seconds, words))
}

/// Requests the word of an index, for the access with this number.
struct Ask(Vec<u64>);

impl RequestHandler for Ask {
    type Args = (u32, u64);

    fn handle(&self, token: Token<'_>, args: Self::Args, _: Payload<'_>) -> pgas::Result<()> {
        let (index, access) = args;
        token.reply::<Answer>(&(self.0[index as usize], access))
    }
}

/// Receives the word of an access.
struct Answer(Arc<Vec<AtomicU64>>);

impl ReplyHandler for Answer {
    type Args = (u64, u64);

    fn handle(&self, _: Origin<'_>, args: Self::Args, _: Payload<'_>) -> pgas::Result<()> {
        let (word, access) = args;
        let access = usize::try_from(access).expect("one of this rank's accesses");
        self.0[access].store(word, Ordering::Relaxed);
        Ok(())
    }
}

fn messages(
    world: &World,
    options: &Options,
    mine: &[u64],
    places: &[Place],
) -> pgas::Result<(f64, Vec<u64>)> {
    let words: Arc<Vec<AtomicU64>> = Arc::new(places.iter().map(|_| AtomicU64::new(0)).collect());
    world.register(Ask(mine.to_vec()))?;
    world.register_reply(Answer(Arc::clone(&words)))?;
    let seconds = timing::seconds(world, || {
        kernel::each(world, options, "messages", places, |i, place| {
            world.request::<Ask>(place.rank, &(place.index, i as u64))
        })?;
        quiet(world)
    })?;
    let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
    Ok((seconds, words.iter().map(read).collect()))
}

type Table = DistObject<Vec<u64>>;

/// Collects indices by rank, and lets each rank look up many of them in one call.
struct Gatherer<'a> {
    world: &'a World,
    table: Table,
    /// For each rank, the collected indices and the numbers of their accesses.
    waiting: Vec<(Vec<u32>, Vec<usize>)>,
    in_flight: VecDeque<(PgasFuture<Vec<u64>>, Vec<usize>)>,
    words: Vec<u64>,
    batch: usize,
}

impl Gatherer<'_> {
    fn ask(&mut self, place: Place, access: usize) -> pgas::Result<()> {
        let (indices, accesses) = &mut self.waiting[place.rank.index()];
        indices.push(place.index);
        accesses.push(access);
        if indices.len() == self.batch {
            self.send(place.rank)?;
        }
        Ok(())
    }

    fn send(&mut self, to: Rank) -> pgas::Result<()> {
        let look_up = |table: Table, indices: &[u32]| -> Vec<u64> {
            indices.iter().map(|index| table[*index as usize]).collect()
        };
        let (indices, accesses) = &mut self.waiting[to.index()];
        let words = self
            .world
            .rpc_view(to, look_up, self.table.clone(), indices)?;
        indices.clear();
        self.in_flight.push_back((words, std::mem::take(accesses)));
        if self.in_flight.len() > WINDOW {
            self.take_oldest()?;
        }
        Ok(())
    }

    fn take_oldest(&mut self) -> pgas::Result<()> {
        if let Some((words, accesses)) = self.in_flight.pop_front() {
            for (access, word) in accesses.into_iter().zip(words.wait()?) {
                self.words[access] = word;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> pgas::Result<()> {
        for rank in self.world.ranks() {
            self.send(rank)?;
        }
        while !self.in_flight.is_empty() {
            self.take_oldest()?;
        }
        // Other ranks still call.
        self.world.barrier()
    }
}

fn aggregated(
    world: &World,
    options: &Options,
    mine: &[u64],
    places: &[Place],
) -> pgas::Result<(f64, Vec<u64>)> {
    let mut gatherer = Gatherer {
        world,
        table: DistObject::new(world, mine.to_vec())?,
        waiting: world.ranks().map(|_| Default::default()).collect(),
        in_flight: VecDeque::new(),
        words: vec![0; places.len()],
        // Eight bytes for each word of the answer, and the header.
        batch: BATCH.min((world.capabilities().max_medium - 256) / 8),
    };
    let seconds = timing::seconds(world, || {
        kernel::each(world, options, "aggregated", places, |i, place| {
            gatherer.ask(place, i)
        })?;
        gatherer.finish()
    })?;
    Ok((seconds, gatherer.words))
}
