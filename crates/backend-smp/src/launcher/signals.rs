//! The signals that reach the supervisor of a job, read as records instead of caught by handlers.
//!
//! The ranks stay in the supervisor's process group, so that a terminal's signals (Ctrl-C, Ctrl-Z)
//! reach them directly, and a shell's `fg` and `bg` too. Only what somebody sent to the supervisor
//! alone has to be passed on; the kernel's records tell it from what the terminal sent. A rank that
//! makes a group of its own gets the terminal's signals from the supervisor, too.
//!
//! The records do not tell whom else a process has sent its signal to. One that is sent to the whole
//! group, as `timeout(1)` does, or to each process of a service reaches a rank twice: directly, and
//! from the supervisor. It is passed on all the same: ranks that get it twice can end, and ranks that
//! do not get it cannot.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Command;

use super::descriptors::DescriptorLimit;
use super::sys::{self, Inheritance, SignalSet};

/// The signals that are passed on to the ranks.
const FORWARDED: [i32; 8] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
    libc::SIGCONT,
];

/// The code of a signal that the kernel itself sent, in practice the terminal's driver.
const FROM_KERNEL: i32 = 0x80;

/// The size of one record of a signal descriptor.
const RECORD_BYTES: usize = size_of::<libc::signalfd_siginfo>();

/// Receives the calling thread's signals from its creation to its drop.
#[derive(Debug)]
pub struct SignalWatch {
    descriptor: File,
    previous_mask: SignalSet,
}

/// One signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its number.
    pub signal: i32,
    /// Whether the terminal sent it, and so to all processes of this one's group as well.
    pub from_terminal: bool,
}

impl SignalWatch {
    /// Blocks the signals that are to be received. A signal that this process ignores stays
    /// ignored, except SIGCHLD: ended children must stay until they are waited for.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub fn start() -> io::Result<Self> {
        sys::keep_ended_children()?;
        let mut watched = vec![libc::SIGCHLD];
        for signal in FORWARDED {
            if !sys::is_ignored(signal)? {
                watched.push(signal);
            }
        }
        let set = SignalSet::of(&watched)?;
        let previous_mask = set.block()?;
        match set.descriptor() {
            Ok(descriptor) => Ok(Self {
                descriptor,
                previous_mask,
            }),
            Err(error) => {
                previous_mask.make_mask()?;
                Err(error)
            }
        }
    }

    /// The mask that was in force before, which is what the ranks shall run with.
    pub(super) fn previous_mask(&self) -> SignalSet {
        self.previous_mask
    }

    /// Arranges that the process started by `command` has signals and a limit of descriptors as
    /// this one did before, and that it dies with this thread.
    pub fn tie(&self, command: &mut Command, descriptors: DescriptorLimit) {
        let inheritance = Inheritance {
            mask: self.previous_mask,
            descriptors: descriptors.0,
        };
        sys::tie_child(command, None, inheritance);
    }

    /// The next signal that has arrived, if any.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub fn next(&self) -> io::Result<Option<Received>> {
        let mut record = [0; RECORD_BYTES];
        match (&self.descriptor).read(&mut record) {
            Ok(_) => {
                let [a, b, c, d, _, _, _, _, e, f, g, h, ..] = record;
                let code = i32::from_ne_bytes([e, f, g, h]);
                let signal = i32::from_ne_bytes([a, b, c, d]);
                Ok(Some(Received {
                    signal,
                    from_terminal: code == FROM_KERNEL,
                }))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for SignalWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for SignalWatch {
    fn drop(&mut self) {
        // Fails for a bad argument only, and the mask came from the kernel.
        self.previous_mask.make_mask().ok();
    }
}

/// Stops this process as the terminal's stop signal would, until it is continued.
///
/// Unlike SIGSTOP, the kernel ignores it where no shell could ever continue the process.
///
/// # Errors
///
/// Errors of the system.
pub fn stop_self() -> io::Result<()> {
    let stop = SignalSet::of(&[libc::SIGTSTP])?;
    stop.unblock()?;
    let raised = sys::raise(libc::SIGTSTP);
    stop.block()?;
    raised
}

/// Whether `signal` asks a program to end.
#[must_use]
pub fn asks_to_end(signal: i32) -> bool {
    matches!(
        signal,
        libc::SIGINT | libc::SIGTERM | libc::SIGHUP | libc::SIGQUIT
    )
}

/// The name of a signal, as `kill -l` shows it with its prefix.
pub(super) fn name(signal: i32) -> &'static str {
    match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGSTKFLT => "SIGSTKFLT",
        libc::SIGVTALRM => "SIGVTALRM",
        libc::SIGPROF => "SIGPROF",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGPOLL => "SIGPOLL",
        libc::SIGPWR => "SIGPWR",
        libc::SIGSYS => "SIGSYS",
        _ => "a real-time signal",
    }
}

#[cfg(test)]
mod tests {
    use super::{Received, SignalWatch, name};
    use crate::launcher::sys;

    #[test]
    fn a_watched_signal_is_read_and_not_acted_upon() {
        let watch = SignalWatch::start().unwrap();
        assert_eq!(watch.next().unwrap(), None);
        sys::raise(libc::SIGUSR1).unwrap();
        let expected = Received {
            signal: libc::SIGUSR1,
            from_terminal: false,
        };
        assert_eq!(watch.next().unwrap(), Some(expected));
    }

    #[test]
    fn every_standard_signal_that_can_end_a_process_has_a_name() {
        let stops_or_ignored = [libc::SIGCHLD, libc::SIGCONT, libc::SIGSTOP, libc::SIGTSTP];
        let others = [libc::SIGTTIN, libc::SIGTTOU, libc::SIGURG, libc::SIGWINCH];
        for signal in (1..=31).filter(|s| !stops_or_ignored.contains(s) && !others.contains(s)) {
            assert!(name(signal).starts_with("SIG"), "signal {signal}");
        }
    }
}
