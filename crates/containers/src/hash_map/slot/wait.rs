//! Waits for a rank that works on a slot.

use pgas_core::{Result, World};

/// What an operation waits for.
const AWAITED: &str = "another rank to finish writing an entry of a hash map";

/// Waits until `ready`. What is ready at once is no wait, and nothing that a handler is refused.
pub(super) fn until(world: &World, ready: &mut dyn FnMut() -> Result<bool>) -> Result<()> {
    if ready()? {
        return Ok(());
    }
    world.wait_for(AWAITED, ready)
}
