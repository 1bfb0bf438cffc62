//! Waits for a rank that works on a part of a container.

use pgas_core::{Result, World};

/// Waits for `what` until `ready`. What is ready at once is no wait, and nothing that a handler is
/// refused.
pub(crate) fn until(
    world: &World,
    what: &'static str,
    ready: &mut dyn FnMut() -> Result<bool>,
) -> Result<()> {
    if ready()? {
        return Ok(());
    }
    world.wait_for(what, ready)
}
