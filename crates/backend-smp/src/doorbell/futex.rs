//! Linux only: the word that a [`Doorbell`](super::Doorbell) sleeps on, a futex. `futex_portable.rs` stands in for it elsewhere.
#![expect(unsafe_code, reason = "the futex system call takes addresses")]

use std::{io, ptr, time::Duration};

use std::sync::atomic::AtomicU32;

use pgas_lockfree::doorbell::Bell;

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
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(timeout.subsec_nanos().cast_signed()),
        });
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        let word = self.0.as_ptr();
        // SAFETY: FUTEX_WAIT reads an aligned u32 at `word`, which the reference guarantees, and a timespec at `timeout`,
        // which is null (no limit) or points to the local above. It writes nothing. Not FUTEX_PRIVATE_FLAG: ringers may be
        // other processes.
        let status =
            unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, expected, timeout) };
        // Woken, or EAGAIN (the word has changed), EINTR, ETIMEDOUT: the caller looks for itself what is the case.
        debug_assert!(
            status == 0 || is_expected_failure(),
            "futex wait: {}",
            io::Error::last_os_error()
        );
    }

    fn wake_all(&self) {
        let word = self.0.as_ptr();
        // SAFETY: FUTEX_WAKE takes the address as a key and does not access it.
        let n_woken = unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX) };
        debug_assert!(n_woken >= 0, "futex wake: {}", io::Error::last_os_error());
    }

    #[inline]
    fn light_fence() {
        membarrier::light();
    }

    fn heavy_fence() {
        membarrier::heavy();
    }
}

fn is_expected_failure() -> bool {
    matches!(
        io::Error::last_os_error().raw_os_error(),
        Some(libc::EAGAIN | libc::EINTR | libc::ETIMEDOUT)
    )
}
