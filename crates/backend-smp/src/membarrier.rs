//! Linux only: fences of which one side pays for both. `membarrier_portable.rs` stands in for it elsewhere.
//!
//! Who publishes something and then looks whether somebody sleeps needs a full fence in between, tens of nanoseconds at every message. Who goes to
//! sleep is in no hurry. So the sleeper has the system run a full fence on every processor that runs a process of the job ([`heavy`],
//! Linux's `membarrier`), which makes a fence of every point of those processes' programs, and the other side only keeps the
//! compiler from moving its two accesses past each other ([`light`]).
//!
//! This needs that the process on the light side has asked for it ([`register`]), else `light` is a full fence too; and that the heavy side may
//! make the call, which [`register`] tells: who may not [says so](crate::doorbell::Doorbell::refuse_light_fences).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

use rustix::thread::{MembarrierCommand, membarrier};

/// Whether this process may use light fences.
static IS_REGISTERED: AtomicBool = AtomicBool::new(false);

/// Asks the system to let this process take part, and says whether it does. Once a process.
pub(crate) fn register() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let is_registered = membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok()
            && membarrier(MembarrierCommand::GlobalExpedited).is_ok();
        // Relaxed: who does not see it yet fences fully, which is always right.
        IS_REGISTERED.store(is_registered, Ordering::Relaxed);
        is_registered
    })
}

/// The side that is in a hurry.
#[inline]
pub(crate) fn light() {
    if IS_REGISTERED.load(Ordering::Relaxed) {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// The side that is not: orders as a full fence does, and makes one of every `light` elsewhere.
pub(crate) fn heavy() {
    fence(Ordering::SeqCst);
    if IS_REGISTERED.load(Ordering::Relaxed) {
        let done = membarrier(MembarrierCommand::GlobalExpedited);
        debug_assert!(done.is_ok(), "membarrier worked before");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_asked_may_use_light_fences_from_then_on() {
        let may = register();
        assert_eq!(register(), may, "the answer stays the same");
        assert_eq!(IS_REGISTERED.load(Ordering::Relaxed), may);
        light();
        heavy();
    }
}
