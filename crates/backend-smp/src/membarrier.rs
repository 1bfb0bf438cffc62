//! Linux only: asymmetric fences. The rare side issues `membarrier(2)`, the frequent side only a
//! compiler fence. `membarrier_portable.rs` replaces it on other systems.
//!
//! A rank that publishes something and then checks for sleepers needs a full fence in between, tens
//! of nanoseconds at every message. A rank that goes to sleep has time. So the sleeper makes the
//! system run a full fence on every processor that runs a process of the job ([`heavy`], Linux's
//! `membarrier`). This acts as a fence at every point of those processes' programs. The other side
//! only keeps the compiler from reordering its two accesses ([`light`]).
//!
//! The process on the light side must have registered ([`register`]), or `light` is a full fence,
//! too. The process on the heavy side must be allowed to make the call. [`register`] returns
//! whether it is; if not, the rank [announces it](crate::doorbell::Doorbell::refuse_light_fences).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

use rustix::thread::{MembarrierCommand, membarrier};

/// Whether this process may use light fences.
static IS_REGISTERED: AtomicBool = AtomicBool::new(false);

/// Registers this process for asymmetric fences, once. Returns whether the system allows it.
pub(crate) fn register() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let is_registered = membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok()
            && membarrier(MembarrierCommand::GlobalExpedited).is_ok();
        // Relaxed: a thread that does not see it yet uses a full fence, which is always right.
        IS_REGISTERED.store(is_registered, Ordering::Relaxed);
        is_registered
    })
}

/// The frequent side: a compiler fence, or a full fence if the process is not registered.
#[inline]
pub(crate) fn light() {
    if IS_REGISTERED.load(Ordering::Relaxed) {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// The rare side: orders as a full fence, and turns every `light` of other threads into one.
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
