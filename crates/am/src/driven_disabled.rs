//! The state of a rank's driver in builds without drivers: nothing.

use std::sync::Arc;
use std::task::Waker;

use pgas_core::World;

/// A task that awaits a value, and would have to be woken when a driver ends.
pub(crate) trait Sleeper: Send + Sync {
    /// The waker of the task, if one waits.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "there is no driver that could end")
    )]
    fn take_waker(&self) -> Option<Waker>;
}

#[derive(Debug, Default)]
pub(crate) struct Driven {}

#[expect(clippy::unused_self, reason = "the same items as with a driver")]
impl Driven {
    pub(crate) fn is_driven(&self) -> bool {
        false
    }

    pub(crate) fn is_driven_still(&self) -> bool {
        false
    }

    pub(crate) fn wake_after_progress(&self, _: &World, _: &Waker) -> bool {
        false
    }

    pub(crate) fn remember(&self, _: &Arc<dyn Sleeper>) {}
}
