//! What a process does that exits in the middle of a job: it says so, and tells MPICH's launcher.
//!
//! That launcher ends the other ranks at once, before they can say what has happened, and often
//! returns 0 if the process exits with 0. Between hosts it takes such an exit for one in good
//! order, and waits for the other ranks, which wait for this one. Open MPI's launcher ends the job
//! by itself, with the code of the process.

use std::ffi::{c_int, c_void};
use std::io::Write as _;
use std::os::fd::RawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use crate::system;

/// Whether an exit of this process has to be noticed.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);
/// The descriptor of a launcher that has to be told, or [`NONE`].
static LAUNCHER: AtomicI32 = AtomicI32::new(NONE);
const NONE: RawFd = -1;
/// The rank whose exit has to be told, or [`TOLD`].
static RANK: AtomicU32 = AtomicU32::new(TOLD);
const TOLD: u32 = u32::MAX;
/// The process with that part. A forked child of it has none, but runs the same code at its exit.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Makes an exit of this process end the job, if the launcher behind `pmi_fd` has started that, and
/// tells it as that of `rank`, if one is given.
pub(crate) fn watch(pmi_fd: Option<RawFd>, rank: Option<u32>) {
    static ONCE: Once = Once::new();
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    LAUNCHER.store(pmi_fd.unwrap_or(NONE), Ordering::Relaxed);
    RANK.store(rank.unwrap_or(TOLD), Ordering::Relaxed);
    IS_WATCHED.store(true, Ordering::Relaxed);
    ONCE.call_once(|| system::at_exit(tell_code, tell_end));
}

/// Ends the effect of [`watch`]: this process may exit.
pub(crate) fn unwatch() {
    IS_WATCHED.store(false, Ordering::Relaxed);
}

extern "C" fn tell_code(code: c_int, _: *mut c_void) {
    tell(Some(code));
}

extern "C" fn tell_end() {
    tell(None);
}

/// Runs when the process exits, but not when a signal ends it.
fn tell(code: Option<c_int>) {
    let is_watched = IS_WATCHED.swap(false, Ordering::Relaxed);
    if !is_watched || PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    let rank = RANK.load(Ordering::Relaxed);
    if rank != TOLD {
        let how = code.map_or_else(String::new, |code| format!(" with code {code}"));
        let line = format!("pgas: rank {rank} exited{how} without leaving the job\n");
        drop(std::io::stderr().write_all(line.as_bytes()));
    }
    let pmi_fd = LAUNCHER.load(Ordering::Relaxed);
    if pmi_fd != NONE {
        // Rust has flushed its buffers by now.
        crate::output::await_readers();
        // Of a code the system keeps the lowest eight bits.
        let code = code.map_or(0, |code| code & 0xff);
        end_job(pmi_fd, code.max(1));
    }
}

/// Ends this process at once, and with it the job, without running code of other threads. `pmi_fd`
/// is the descriptor of a launcher that has to be told.
pub(crate) fn now(pmi_fd: Option<RawFd>) -> ! {
    crate::output::await_readers();
    if let Some(pmi_fd) = pmi_fd {
        end_job(pmi_fd, 1);
    }
    system::exit(1)
}

/// Tells the launcher that the job is to end with `code`.
fn end_job(pmi_fd: RawFd, code: c_int) {
    // A failure cannot be reported to anyone. The line and its answer are those of PMI-1. A few
    // bytes are written whole.
    let line = format!("cmd=abort exitcode={code}\n");
    let _ = rustix::io::write(system::launcher(pmi_fd), line.as_bytes());
}
