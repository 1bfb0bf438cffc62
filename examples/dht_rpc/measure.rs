//! Latencies and rates of a table.

use std::time::Instant;

use pgas::{Rank, World};

use crate::support;
use crate::tables::Table;
use crate::timing;
use crate::values::Values;

/// Maximum number of operations whose latency is measured.
const N_LATENCIES: usize = 1000;

/// The operations of every table.
pub(crate) struct Work {
    pub(crate) values: Values,
    /// Keys of each rank for the rates. At most as many are used for the latencies.
    pub(crate) n_keys: usize,
}

/// The measurements of one table.
pub(crate) struct Row {
    pub(crate) size: usize,
    pub(crate) table: &'static str,
    /// In microseconds.
    pub(crate) insert_latency: f64,
    pub(crate) find_latency: f64,
    /// In operations a second and rank.
    pub(crate) insert_rate: f64,
    pub(crate) find_rate: f64,
    pub(crate) verified: bool,
}

/// Fills `table` and reads it. Collective.
pub(crate) fn measure<T: Table>(world: &World, work: &Work, table: &T) -> pgas::Result<Row> {
    let values = &work.values;
    // The keys for the latencies, and this rank's own keys for the rates.
    let n_latencies = work.n_keys.min(N_LATENCIES);
    let few: Vec<u64> = (0..n_latencies as u64).collect();
    // A rank has 24 bits, and a table may multiply a key by four.
    let first = 1 << 58 | u64::from(world.rank().number()) << 32;
    let many: Vec<u64> = (first..).take(work.n_keys).collect();
    let mut is_right = true;

    // Rates come first: they touch the memory for the first time, which takes longest.
    let insert_seconds = timing::seconds(world, || {
        table.insert_all(&many, values)?;
        world.barrier()
    })?;
    let find_seconds = timing::seconds(world, || {
        is_right &= table.finds_all(&many, values)?;
        world.barrier()
    })?;
    let insert_latency = alone(world, &few, |key| table.insert(key, values.get(key)))?;
    let find_latency = alone(world, &few, |key| {
        is_right &= table.finds(key, values.get(key))?;
        Ok(())
    })?;
    let absent = first - 1;
    is_right &= !table.finds(absent, values.get(absent))?;
    #[expect(clippy::cast_precision_loss, reason = "a rate needs few digits")]
    let rate = |seconds: f64| many.len() as f64 / seconds.max(1e-9);
    Ok(Row {
        size: values.size(),
        table: T::NAME,
        insert_latency,
        find_latency,
        insert_rate: rate(insert_seconds),
        find_rate: rate(find_seconds),
        verified: support::all(world, is_right)?,
    })
}

/// Microseconds of one call of `body`. Rank 0 alone calls it with each of `keys` while the others
/// serve.
fn alone(
    world: &World,
    keys: &[u64],
    mut body: impl FnMut(u64) -> pgas::Result<()>,
) -> pgas::Result<f64> {
    world.barrier()?;
    let start = Instant::now();
    if world.rank() == Rank::ZERO {
        keys.iter().try_for_each(|key| body(*key))?;
    }
    #[expect(clippy::cast_precision_loss, reason = "a latency needs few digits")]
    let each = start.elapsed().as_secs_f64() * 1e6 / keys.len().max(1) as f64;
    world.barrier()?;
    world.broadcast(Rank::ZERO, each)
}
