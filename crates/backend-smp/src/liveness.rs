//! Whether the other ranks of a job of processes live.
//!
//! Every rank holds a lock on one byte of the job's file. The kernel releases it when the process
//! ends, however it ends, before anybody could reap it; so a rank that is in the job and whose lock is
//! free has died. This needs no supervisor and works under any launcher.
#![expect(
    unsafe_code,
    reason = "calls fcntl, whose locks on ranges no safe wrapper offers"
)]

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use pgas_core::{Error, Result};

use crate::control::{Control, Membership};

/// How often the locks are looked at while a rank sleeps.
const INTERVAL: Duration = Duration::from_millis(25);

/// What one rank knows of the others' lives.
#[derive(Debug)]
pub(crate) struct Liveness {
    stall: Option<Duration>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    checked: Instant,
    /// Since when each stopped rank has been seen stopped.
    stopped: Vec<(u32, Instant)>,
}

impl Liveness {
    pub(crate) fn new(stall: Option<Duration>) -> Self {
        let state = State {
            checked: Instant::now(),
            stopped: Vec::new(),
        };
        Self {
            stall,
            state: Mutex::new(state),
        }
    }

    /// Looks at every other rank, if the last look was a while ago, and records the first one that is
    /// found dead as the job's failure.
    pub(crate) fn check(&self, own: u32, n_ranks: u32, control: &Control<'_>, file: &File) {
        // Another thread that holds the lock does the work.
        let Ok(mut state) = self.state.try_lock() else {
            return;
        };
        if state.checked.elapsed() < INTERVAL {
            return;
        }
        for rank in (0..n_ranks).filter(|rank| *rank != own) {
            if control.membership(rank) != Membership::Joined {
                continue;
            }
            // A rank that leaves does so before its lock is freed: look again.
            if !is_locked(file, rank) && control.membership(rank) == Membership::Joined {
                control.fail(rank, "died without leaving the job");
                return;
            }
            if let Some(stall) = self.stall {
                state.note(rank, is_stopped(control.pid(rank)));
                if state
                    .stopped
                    .iter()
                    .any(|(r, since)| *r == rank && since.elapsed() > stall)
                {
                    let text = format!("has been stopped for {stall:?} (PGAS_STALL)");
                    control.fail(rank, &text);
                    return;
                }
            }
        }
        state.checked = Instant::now();
    }
}

impl State {
    fn note(&mut self, rank: u32, is_stopped: bool) {
        let known = self.stopped.iter().position(|(r, _)| *r == rank);
        match (known, is_stopped) {
            (None, true) => self.stopped.push((rank, Instant::now())),
            (Some(index), false) => drop(self.stopped.swap_remove(index)),
            _ => {}
        }
    }
}

/// Whether the process is stopped by a signal or a debugger, as the system tells it.
fn is_stopped(pid: u32) -> bool {
    // The state follows the name in parentheses, which may hold anything.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        stat.rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with(['T', 't']))
    })
}

fn lock_of(rank: u32, kind: i32) -> libc::flock {
    libc::flock {
        l_type: i16::try_from(kind).expect("lock kinds are small"),
        l_whence: i16::try_from(libc::SEEK_SET).expect("it is zero"),
        l_start: i64::from(rank),
        l_len: 1,
        l_pid: 0,
    }
}

/// Takes the lock that shows that this process, as `rank`, lives.
pub(crate) fn hold(file: &File, rank: u32) -> Result<()> {
    let lock = lock_of(rank, libc::F_WRLCK);
    // SAFETY: the descriptor is open and `lock` is a valid lock description.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EAGAIN) || error.raw_os_error() == Some(libc::EACCES) {
        let text = format!("rank {rank} of this job is another live process");
        return Err(Error::backend("fcntl", 0, text));
    }
    Err(Error::os("fcntl", error))
}

/// Whether some other process holds the lock of `rank`; yes when in doubt.
fn is_locked(file: &File, rank: u32) -> bool {
    let mut lock = lock_of(rank, libc::F_WRLCK);
    // SAFETY: the descriptor is open and `lock` is a valid lock description, which is overwritten.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) };
    result != 0 || i32::from(lock.l_type) != libc::F_UNLCK
}
