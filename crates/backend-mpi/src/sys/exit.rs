//! Telling MPICH's launcher of a process that exits in the middle of a job.
//!
//! Between hosts the launcher takes such an exit for one in good order, and waits for the other
//! ranks, which wait for this one. Open MPI's launcher ends the job by itself.

use std::os::fd::RawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use crate::system;

/// The launcher's descriptor while this process has a part in a job, else [`NONE`].
static LAUNCHER: AtomicI32 = AtomicI32::new(NONE);
const NONE: RawFd = -1;
/// The process with that part. A forked child of it has none, but runs the same code at its exit.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Makes an exit of this process end the job that the launcher behind `pmi_fd` has started.
pub(crate) fn watch(pmi_fd: RawFd) {
    static ONCE: Once = Once::new();
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    LAUNCHER.store(pmi_fd, Ordering::Relaxed);
    ONCE.call_once(|| system::at_exit(tell));
}

/// Ends the effect of [`watch`]: this process may exit.
pub(crate) fn unwatch() {
    LAUNCHER.store(NONE, Ordering::Relaxed);
}

/// Runs when the process exits, but not when a signal ends it.
extern "C" fn tell() {
    let pmi_fd = LAUNCHER.swap(NONE, Ordering::Relaxed);
    if pmi_fd == NONE || PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    // Rust has flushed its buffers by now.
    crate::output::await_readers();
    end_job(pmi_fd);
}

/// Ends this process at once, and with it the job, without running code of other threads. `pmi_fd`
/// is the descriptor of a launcher that has to be told.
pub(crate) fn now(pmi_fd: Option<RawFd>) -> ! {
    crate::output::await_readers();
    if let Some(pmi_fd) = pmi_fd {
        end_job(pmi_fd);
    }
    system::exit(1)
}

/// Tells the launcher that the job is to end.
fn end_job(pmi_fd: RawFd) {
    // A failure cannot be reported to anyone. The line and its answer are those of PMI-1. A few
    // bytes are written whole.
    let _ = rustix::io::write(system::launcher(pmi_fd), b"cmd=abort exitcode=1\n");
}
