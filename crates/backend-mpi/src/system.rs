//! System calls without a safe form in other crates, and the launcher's descriptor, which arrives
//! as a number.
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
    // no room for it, nothing is lost but its effect.
    let _ = unsafe { libc::atexit(hook) };
}

/// Ends this process at once. No code of it, or of other threads, runs any more.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: it takes a number, and ends the process without running anything of it.
    unsafe { libc::_exit(code) }
}

/// The scheduling attributes of this thread, if the system reports them.
pub(crate) fn scheduling() -> Option<libc::sched_attr> {
    const SIZE: usize = size_of::<libc::sched_attr>();
    // SAFETY: numbers, of which each may be zero.
    let mut attributes: libc::sched_attr = unsafe { zeroed() };
    // SAFETY: the structure has `SIZE` bytes, and all of them may be written.
    let code = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SIZE, 0) };
    (code == 0).then_some(attributes)
}

/// Sets the scheduling attributes of this thread, if the system supports that.
pub(crate) fn set_scheduling(attributes: &libc::sched_attr) {
    // SAFETY: the system only reads the structure, which has its own size in it. Scheduling does
    // not change the meaning of a program.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *attributes, 0) };
}
