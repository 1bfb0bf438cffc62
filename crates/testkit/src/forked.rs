//! Linux only: forked children of a rank.
#![expect(
    unsafe_code,
    reason = "forks, and ends the child without its parent's exit"
)]

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

/// A forked child drops its copy of `held`, and ends. Returns `held` when the child has ended.
///
/// # Panics
///
/// If the drop panics in the child, or takes more than a minute.
#[must_use]
pub fn drop_in_child<T>(held: T) -> T {
    // SAFETY: the child has the memory of this process and one thread. It drops `held`, which no
    // other thread uses, and ends here. The C library lets it allocate.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", io::Error::last_os_error());
    if child == 0 {
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(held)));
        // SAFETY: without preconditions.
        unsafe { libc::_exit(i32::from(dropped.is_err())) };
    }
    let (began, mut status) = (Instant::now(), 0);
    // SAFETY: the child has not been waited for, and `status` is written before that returns.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
        thread::sleep(Duration::from_millis(1));
        if began.elapsed() > Duration::from_secs(60) {
            // SAFETY: the child has not been waited for.
            unsafe { libc::kill(child, libc::SIGKILL) };
            panic!("the child does not end");
        }
    }
    assert_eq!(status, 0, "the drop in the child");
    held
}
