//! Calls of the system that nothing wraps, and the launcher's descriptor, which arrives as a
//! number.
#![expect(
    unsafe_code,
    reason = "calls of the system, and a descriptor that is a number"
)]

use std::mem::{size_of, zeroed};
use std::os::fd::{BorrowedFd, RawFd};

/// The descriptor that a launcher of MPICH's kind has given to MPI, `pmi_fd` by its number.
pub(crate) fn launcher(pmi_fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: the process was started with this descriptor, which its launcher has named in the
    // environment and MPI keeps open for as long as the process runs. Nothing here closes it.
    unsafe { BorrowedFd::borrow_raw(pmi_fd) }
}

/// Registers `hook` to run at the exit of the process, if the system has room for one more.
pub(crate) fn at_exit(hook: extern "C" fn()) {
    // SAFETY: the function may be called at any time, by any thread, as its type says. If there is
    // no room for it, an exit is noticed no worse than without.
    let _ = unsafe { libc::atexit(hook) };
}

/// Ends this process at once, whatever other threads are about: nothing of theirs is run.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: it takes a number, and ends the process without running anything of it.
    unsafe { libc::_exit(code) }
}

/// When the system lets this thread run, if it says so.
pub(crate) fn scheduling() -> Option<libc::sched_attr> {
    const SIZE: usize = size_of::<libc::sched_attr>();
    // SAFETY: numbers, of which each may be zero.
    let mut attributes: libc::sched_attr = unsafe { zeroed() };
    // SAFETY: the structure has so many bytes, and all of them may be written.
    let code = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SIZE, 0) };
    (code == 0).then_some(attributes)
}

/// Asks the system to let this thread run so, if it does that.
pub(crate) fn set_scheduling(attributes: &libc::sched_attr) {
    // SAFETY: the system only reads the structure, which says its own size. When a thread runs
    // changes no meaning of the program's.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *attributes, 0) };
}
