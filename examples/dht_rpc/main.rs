//! UPC++'s distributed hash table by remote calls, compared with the one-sided `HashMap` (Bachan et
//! al., "UPC++: A High-Performance Communication Framework for Asynchronous Computation", 2019,
//! section IV-C).
//!
//! ```text
//! cargo run --release --example dht_rpc -- --ranks 2
//! cargo run --release --example dht_rpc -- --ranks 4 --sizes 8,4096 --json
//! ```
//!
//! | table | an insert is | a find is |
//! |---|---|---|
//! | `rpc` | a call that carries the value | a call that returns it |
//! | `landing zone` | a call that makes a place in the owner's segment, then a put | a call that returns the place, then a get |
//! | `one-sided` | two atomics and a put | two atomics and a get |
//!
//! Long values differ by table. `rpc` sends a value that is longer than a message in fragments, one
//! call each. `one-sided` has a fixed value type, so a value of 65,536 bytes takes four keys. The
//! landing zone transfers all values as a whole.
//!
//! Latencies are those of rank 0, which runs one operation after the other while the others serve.
//! Rates are those of all ranks at once, with up to 64 operations in flight; one-sided operations
//! of up to 4,096 bytes are batched. Every value that is found is compared with the inserted one.

#[path = "../support/arguments.rs"]
mod arguments;
mod measure;
#[path = "../support/memory.rs"]
mod memory;
mod report;
#[path = "../support/mod.rs"]
mod support;
mod tables;
#[path = "../support/timing.rs"]
mod timing;
mod values;

use std::process::ExitCode;

use clap::Parser;
use pgas::World;

use measure::{Row, Work, measure};
use tables::{LandingZone, OneSided, Rpc, Table};
use values::Values;

/// The possible sizes of values. The one-sided table needs them at compile time.
const SIZES: [&str; 6] = ["8", "64", "512", "4096", "16384", "65536"];

/// Compares distributed hash tables for several value sizes.
#[derive(Debug, Parser)]
#[command(name = "dht_rpc")]
struct Options {
    /// Bytes of a value
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = SIZES, default_values = SIZES)]
    sizes: Vec<String>,
    /// Maximum number of keys that each rank inserts
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    keys: usize,
    /// Maximum megabytes of values that each rank inserts
    #[arg(long, value_name = "N", default_value_t = 16)]
    megabytes: usize,
    /// Start N ranks, if nothing else has started several
    #[arg(long, value_name = "N", value_parser = arguments::ranks())]
    ranks: Option<u32>,
    /// Print one line of JSON instead of a table
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let options: Options = match arguments::parse("dht_rpc") {
        Ok(options) => options,
        Err(code) => return code,
    };
    if let Err(line) = options.check_memory() {
        return memory::refuse("dht_rpc", &line);
    }
    support::start("dht_rpc", options.ranks, |world| run(world, &options))
}

impl Options {
    fn sizes(&self) -> impl Iterator<Item = usize> {
        let sizes = self.sizes.iter();
        sizes.map(|size| size.parse().expect("one of those that are offered"))
    }

    /// Keys of each rank, if a value has `size` bytes.
    fn n_keys(&self, size: usize) -> usize {
        self.keys.min(self.megabytes.saturating_mul(1 << 20) / size)
    }

    /// Checks that there is enough memory, before the ranks start. Returns the error message if
    /// there is not.
    fn check_memory(&self) -> Result<(), String> {
        let larger = |size| self.n_keys(size).saturating_mul(size + 64);
        let most = self.sizes().map(larger).max().unwrap_or(0);
        let (keys, megabytes) = (self.keys, self.megabytes);
        memory::check::<u8>(
            most,
            &format!("--keys {keys} --megabytes {megabytes}: bytes"),
        )
    }
}

/// Whether everything was found again.
fn run(world: &World, options: &Options) -> support::Result<bool> {
    let mut rows = Vec::new();
    let bar = support::progress_bar(
        world,
        "tables",
        (3 * options.sizes.len()) as u64,
        !options.json,
    );
    for size in options.sizes() {
        let more = match size {
            8 => of_size::<8>(world, options, size)?,
            64 => of_size::<64>(world, options, size)?,
            512 => of_size::<512>(world, options, size)?,
            4096 => of_size::<4096>(world, options, size)?,
            _ => of_size::<16384>(world, options, size)?,
        };
        rows.extend(more);
        bar.inc(3);
    }
    Ok(report::report(world, options.json, &rows)?)
}

/// Measures all tables with values of `size` bytes. The one-sided table stores them in chunks of
/// `N`.
fn of_size<const N: usize>(
    world: &World,
    options: &Options,
    size: usize,
) -> pgas::Result<[Row; 3]> {
    let work = Work {
        values: Values::of(size),
        n_keys: options.n_keys(size),
    };
    let n_all = work.n_keys * (world.n_ranks() as usize + 1);
    Ok([
        row(world, &work, Rpc::new(world, size)?)?,
        row(world, &work, LandingZone::new(world, size)?)?,
        row(world, &work, OneSided::<N>::new(world, n_all, size)?)?,
    ])
}

fn row<T: Table>(world: &World, work: &Work, table: T) -> pgas::Result<Row> {
    let row = measure(world, work, &table)?;
    table.end()?;
    Ok(row)
}
