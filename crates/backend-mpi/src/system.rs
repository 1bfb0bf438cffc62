//! System calls without a safe form in other crates, and the launcher's descriptor, which arrives
//! as a number.
#![expect(
    unsafe_code,
    reason = "calls of the system, and a descriptor that is a number"
)]

use std::ffi::{c_int, c_void};
use std::mem::{size_of, zeroed};
use std::os::fd::{BorrowedFd, RawFd};

/// The descriptor that a launcher of MPICH's kind has given to MPI, `pmi_fd` by its number.
pub(crate) fn launcher(pmi_fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: the process was started with this descriptor, which its launcher has named in the
    // environment and MPI keeps open for as long as the process runs. Nothing here closes it.
    unsafe { BorrowedFd::borrow_raw(pmi_fd) }
}

unsafe extern "C" {
    /// Of the GNU library, which the crate `libc` does not declare.
    #[cfg(target_env = "gnu")]
    fn on_exit(hook: WithCode, unused: *mut c_void) -> c_int;
}

/// A function that gets the exit code of the process, and a pointer that it does not use.
type WithCode = extern "C" fn(c_int, *mut c_void);

/// Registers a hook to run at the exit of the process, if the system has room for one more: the
/// first one, or the second one if the system does not tell the exit code.
pub(crate) fn at_exit(with_code: WithCode, without: extern "C" fn()) {
    #[cfg(target_env = "gnu")]
    // SAFETY: the declaration is that of the GNU library. The function may be called at any time,
    // by any thread, with any pointer, as its type says. If there is no room for it, nothing is
    // lost but its effect.
    let _ = unsafe { on_exit(with_code, std::ptr::null_mut()) };
    #[cfg(not(target_env = "gnu"))]
    // SAFETY: as above.
    let _ = unsafe { libc::atexit(without) };
    let _: (WithCode, extern "C" fn()) = (with_code, without);
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
