//! The word that a [`Doorbell`](super::Doorbell) sleeps on: Linux's futex. `futex_model.rs` stands in for it under loom.
#![expect(unsafe_code, reason = "the futex system call takes addresses")]

use std::{io, ptr, time::Duration};

use crate::sync::{
    AtomicU32,
    Ordering::{Acquire, Release},
};

/// A 32-bit word in memory that several processes map.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(super) struct Futex(AtomicU32);

impl Futex {
    pub(super) fn load(&self) -> u32 {
        // Acquire: pairs with the release in `increment`; who sees the ring sees what it announces.
        self.0.load(Acquire)
    }

    pub(super) fn increment(&self) {
        self.0.fetch_add(1, Release);
    }

    /// Sleeps while the word is `expected`, until woken or `timeout` is over. May return early.
    pub(super) fn wait(&self, expected: u32, timeout: Option<Duration>) {
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

    pub(super) fn wake_all(&self) {
        let word = self.0.as_ptr();
        // SAFETY: FUTEX_WAKE takes the address as a key and does not access it.
        let n_woken = unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX) };
        debug_assert!(n_woken >= 0, "futex wake: {}", io::Error::last_os_error());
    }
}

fn is_expected_failure() -> bool {
    matches!(
        io::Error::last_os_error().raw_os_error(),
        Some(libc::EAGAIN | libc::EINTR | libc::ETIMEDOUT)
    )
}
