//! Time measurement on all ranks.

use std::time::Instant;

use pgas::World;
use pgas::collective::op::Max;

/// The seconds that `body` takes on the slowest rank. Collective.
pub(crate) fn seconds(world: &World, body: impl FnOnce() -> pgas::Result<()>) -> pgas::Result<f64> {
    world.barrier()?;
    let start = Instant::now();
    body()?;
    world.allreduce(start.elapsed().as_secs_f64(), Max)
}
