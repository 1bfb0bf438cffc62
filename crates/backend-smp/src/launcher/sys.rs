//! System calls without a safe form in other crates: signal masks, the time between fork and exec,
//! descriptors that arrive as numbers, and the credentials of a socket's peer.

#![expect(unsafe_code, reason = "calls of libc and of Command::pre_exec")]

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, Signal};

/// A set of signals, and also the signal mask of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct SignalSet(libc::sigset_t);

impl SignalSet {
    pub(super) fn of(signals: &[i32]) -> io::Result<Self> {
        let mut set = MaybeUninit::uninit();
        // SAFETY: `set` is writable for one sigset_t, which the call initialises.
        check(unsafe { libc::sigemptyset(set.as_mut_ptr()) })?;
        for &signal in signals {
            // SAFETY: `set` was initialised by sigemptyset; a bad number is an error, not
            // undefined.
            check(unsafe { libc::sigaddset(set.as_mut_ptr(), signal) })?;
        }
        // SAFETY: sigemptyset succeeded, so all of `set` is initialised.
        Ok(Self(unsafe { set.assume_init() }))
    }

    /// Blocks these signals in the calling thread and returns the former mask.
    pub(super) fn block(&self) -> io::Result<Self> {
        self.change_mask(libc::SIG_BLOCK)
    }

    /// Unblocks these signals in the calling thread.
    pub(super) fn unblock(&self) -> io::Result<()> {
        self.change_mask(libc::SIG_UNBLOCK).map(drop)
    }

    /// Makes this the mask of the calling thread.
    pub(super) fn make_mask(&self) -> io::Result<()> {
        self.change_mask(libc::SIG_SETMASK).map(drop)
    }

    fn change_mask(&self, how: i32) -> io::Result<Self> {
        let mut old = MaybeUninit::uninit();
        // SAFETY: `self.0` is an initialised set and `old` is writable for one; the call is
        // async-signal-safe, so it may also run between fork and exec.
        let code = unsafe { libc::pthread_sigmask(how, &raw const self.0, old.as_mut_ptr()) };
        if code != 0 {
            return Err(io::Error::from_raw_os_error(code));
        }
        // SAFETY: the call succeeded and so wrote the previous mask.
        Ok(Self(unsafe { old.assume_init() }))
    }

    /// A descriptor that reads as one record for each of these signals while they are blocked.
    pub(super) fn descriptor(&self) -> io::Result<File> {
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: -1 asks for a new descriptor, and `self.0` is an initialised set.
        let fd = check(unsafe { libc::signalfd(-1, &raw const self.0, flags) })?;
        // SAFETY: the call succeeded, so `fd` is open, and nothing else owns it.
        Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
}

/// Whether this process ignores `signal`, as under `nohup`.
pub(super) fn is_ignored(signal: i32) -> io::Result<bool> {
    Ok(action(signal)?.sa_sigaction == libc::SIG_IGN)
}

/// The action in force at `signal`.
fn action(signal: i32) -> io::Result<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: a null new action only asks; `action` is writable for one sigaction.
    check(unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) })?;
    // SAFETY: the call succeeded and so wrote the action in force.
    Ok(unsafe { action.assume_init() })
}

/// Makes ended children of this process stay until they are waited for. The kernel would reap them
/// by itself where SIGCHLD is ignored, which a process may have inherited. Then this sets the
/// signal's default action, which later children inherit.
pub(super) fn keep_ended_children() -> io::Result<()> {
    let mut action = action(libc::SIGCHLD)?;
    let are_kept = action.sa_flags & libc::SA_NOCLDWAIT == 0;
    if are_kept && action.sa_sigaction != libc::SIG_IGN {
        return Ok(());
    }
    action.sa_flags &= !libc::SA_NOCLDWAIT;
    if action.sa_sigaction == libc::SIG_IGN {
        action.sa_sigaction = libc::SIG_DFL;
    }
    let former = std::ptr::null_mut();
    // SAFETY: `action` is initialised. Its function is the default one, or was in force already.
    check(unsafe { libc::sigaction(libc::SIGCHLD, &raw const action, former) }).map(drop)
}

/// Sends `signal` to the calling thread.
pub(super) fn raise(signal: i32) -> io::Result<()> {
    // SAFETY: no precondition; a bad number is an error.
    check(unsafe { libc::raise(signal) }).map(drop)
}

/// Properties of this process, from before it became a supervisor, that a rank gets.
#[derive(Clone, Copy)]
pub(super) struct Inheritance {
    pub(super) mask: SignalSet,
    /// The limit of open descriptors.
    pub(super) descriptors: Rlimit,
}

/// Arranges that the process started by `command` dies with this thread and inherits a descriptor,
/// if there is one for it, under the same number.
pub(super) fn tie_child(
    command: &mut Command,
    descriptor: Option<BorrowedFd<'_>>,
    inheritance: Inheritance,
) {
    let supervisor = rustix::process::getpid();
    let descriptor = descriptor.as_ref().map(AsRawFd::as_raw_fd);
    let between_fork_and_exec = move || {
        die_with_parent(supervisor)?;
        descriptor.map_or(Ok(()), inherit)?;
        rustix::process::setrlimit(Resource::Nofile, inheritance.descriptors)?;
        inheritance.mask.make_mask()
    };
    // SAFETY: the closure makes system calls only (prctl, getppid, fcntl, prlimit,
    // rt_sigprocmask), does not
    // allocate and takes no lock, so it may run in the child of a threaded process.
    unsafe { command.pre_exec(between_fork_and_exec) };
}

/// Asks the kernel to kill this process when the thread that started it ends.
///
/// Fails if `parent` has ended before the request was in force.
pub(super) fn die_with_parent(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if rustix::process::getppid() == Some(parent) {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::ESRCH))
    }
}

fn inherit(fd: RawFd) -> io::Result<()> {
    // SAFETY: the descriptor is open in the parent, which keeps it open until the child has run.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    Ok(rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?)
}

/// A duplicate of the descriptor that a launcher left open under the number `fd`, and named in the
/// environment variable `variable`; neither survives the next exec.
///
/// Fails for any other number: what this process has opened itself belongs to somebody here, and is
/// not for whoever knows its number.
pub(super) fn adopt(variable: &str, fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 || !was_started_with(variable, fd)? {
        let text = format!("this process was not started with {variable}={fd}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    // SAFETY: the number is not -1. What started this process left the descriptor open for it, so
    // that nobody in it owns and may close it. Were it not open, the two calls that use it would
    // report EBADF.
    let original = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::io::fcntl_setfd(original, rustix::io::FdFlags::CLOEXEC)?;
    original.try_clone_to_owned()
}

/// Whether the environment that this process was started with has `variable` as `fd`. No call
/// changes that one later, as `set_var` does the present one.
fn was_started_with(variable: &str, fd: RawFd) -> io::Result<bool> {
    let environment = std::fs::read("/proc/self/environ").map_err(|error| {
        let text = format!("cannot read /proc/self/environ: {error}");
        io::Error::new(error.kind(), text)
    })?;
    let entry = format!("{variable}={fd}");
    let mut entries = environment.split(|&byte| byte == 0);
    Ok(entries.any(|found| found == entry.as_bytes()))
}

/// The process at the other end of a local socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    /// Its process id; 0 if it is in a process namespace that this one cannot see.
    pub(super) pid: i32,
    /// Its user id.
    pub(super) uid: u32,
}

/// The credentials that the peer of a local socket had when it connected.
pub(super) fn peer(socket: impl AsFd) -> io::Result<Peer> {
    let mut credentials = MaybeUninit::<libc::ucred>::zeroed();
    let mut len = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or(0);
    // SAFETY: the descriptor is open for the call; `credentials` is writable for `len` bytes.
    check(unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            credentials.as_mut_ptr().cast(),
            &raw mut len,
        )
    })?;
    // SAFETY: a ucred is three integers, of which every bit pattern is valid, zeroed above.
    let libc::ucred { pid, uid, .. } = unsafe { credentials.assume_init() };
    Ok(Peer { pid, uid })
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
