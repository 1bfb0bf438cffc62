//! Linux only: a futex, the word that a [`Doorbell`](super::Doorbell) sleeps on.
//! `futex_portable.rs` replaces it on other systems.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use pgas_lockfree::doorbell::Bell;
use rustix::io::Errno;
use rustix::thread::{Timespec, futex};

use crate::membarrier;

/// A 32-bit word in memory that several processes map.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Futex(AtomicU32);

impl Bell for Futex {
    #[inline]
    fn word(&self) -> &AtomicU32 {
        &self.0
    }

    fn wait(&self, expected: u32, timeout: Option<Duration>) {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        // Not private: ringers may be other processes.
        let slept = futex::wait(&self.0, futex::Flags::empty(), expected, timeout.as_ref());
        // Woken, or the word has changed: the caller checks its condition itself.
        let is_expected = matches!(
            slept,
            Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT)
        );
        debug_assert!(is_expected, "futex wait: {slept:?}");
    }

    fn wake_all(&self) {
        let woken = futex::wake(&self.0, futex::Flags::empty(), i32::MAX.cast_unsigned());
        debug_assert!(woken.is_ok(), "futex wake: {woken:?}");
    }

    #[inline]
    fn light_fence() {
        membarrier::light();
    }

    fn heavy_fence() {
        membarrier::heavy();
    }
}
