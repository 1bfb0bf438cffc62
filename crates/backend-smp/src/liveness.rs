//! Linux only: whether the other ranks of a job of processes live.
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

/// How often the locks are looked at while a rank waits.
const INTERVAL: Duration = Duration::from_millis(25);
/// How often the states of processes are looked at: a part of the limit, within these bounds. A look
/// costs ten times what one at a lock does.
const STOP_LOOKS_PER_LIMIT: u32 = 8;
const LONGEST_STOP_INTERVAL: Duration = Duration::from_secs(1);
/// How many others are looked at each time, so that the cost of a waiting job does not grow with the square of
/// its ranks. Each rank begins with its successor, so that together they look at all of them.
const RANKS_PER_LOOK: u32 = 16;

/// What one rank knows of the others' lives.
#[derive(Debug)]
pub(crate) struct Liveness {
    stall: Option<Duration>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    locks: Round,
    stops: Round,
    /// Since when each stopped rank has been seen stopped.
    stopped: Vec<(u32, Instant)>,
}

/// Looks at some of the others after another, round and round.
#[derive(Debug)]
struct Round {
    interval: Duration,
    last: Instant,
    /// How far behind its own rank this one is.
    distance: u32,
}

impl Round {
    fn new(interval: Duration) -> Self {
        Self {
            interval,
            last: Instant::now(),
            distance: 0,
        }
    }

    /// The ranks to look at now, if the last look was a while ago.
    fn due(&mut self, own: u32, n_ranks: u32) -> impl Iterator<Item = u32> + use<> {
        let n_others = n_ranks - 1;
        let is_due = n_others > 0 && self.last.elapsed() >= self.interval;
        let n_looks = if is_due {
            self.last = Instant::now();
            n_others.min(RANKS_PER_LOOK)
        } else {
            0
        };
        let first = self.distance;
        self.distance = (first + n_looks) % n_others.max(1);
        (first..first + n_looks).map(move |distance| (own + 1 + distance % n_others) % n_ranks)
    }
}

impl Liveness {
    pub(crate) fn new(stall: Option<Duration>) -> Self {
        let part = stall.unwrap_or(LONGEST_STOP_INTERVAL) / STOP_LOOKS_PER_LIMIT;
        let state = State {
            locks: Round::new(INTERVAL),
            stops: Round::new(part.clamp(INTERVAL, LONGEST_STOP_INTERVAL)),
            stopped: Vec::new(),
        };
        Self {
            stall,
            state: Mutex::new(state),
        }
    }

    /// Looks at some of the other ranks, if the last look was a while ago, and records the first one that
    /// is found dead or stopped as the job's failure.
    pub(crate) fn check(&self, own: u32, n_ranks: u32, control: &Control<'_>, file: &File) {
        // Another thread that holds the lock does the work.
        let Ok(mut state) = self.state.try_lock() else {
            return;
        };
        let is_joined = |rank: &u32| control.membership(*rank) == Membership::Joined;
        let joined = state.locks.due(own, n_ranks).filter(is_joined);
        // A rank that leaves does so before its lock is freed: look again.
        let dead = joined
            .filter(|rank| !is_locked(file, *rank))
            .find(is_joined);
        if let Some(rank) = dead {
            control.fail(rank, "died without leaving the job");
            return;
        }
        if let Some(stall) = self.stall {
            state.forget_if_absent();
            for rank in state.stops.due(own, n_ranks) {
                let is_stopped = is_joined(&rank) && is_stopped(control.pid(rank));
                if state.stopped_for(rank, is_stopped) > stall {
                    let text = format!("has been stopped for {stall:?} (PGAS_STALL)");
                    control.fail(rank, &text);
                    return;
                }
            }
        }
    }
}

impl State {
    /// Begins anew if this rank itself has not looked for a while: it may have been stopped together with
    /// the others, and go on a little earlier than they.
    fn forget_if_absent(&mut self) {
        if self.stops.last.elapsed() > LONGEST_STOP_INTERVAL.max(self.stops.interval * 2) {
            self.stopped.clear();
        }
    }

    /// For how long `rank` has been seen stopped.
    fn stopped_for(&mut self, rank: u32, is_stopped: bool) -> Duration {
        let known = self.stopped.iter().position(|(r, _)| *r == rank);
        match (known, is_stopped) {
            (None, false) => Duration::ZERO,
            (None, true) => {
                self.stopped.push((rank, Instant::now()));
                Duration::ZERO
            }
            (Some(index), true) => self.stopped[index].1.elapsed(),
            (Some(index), false) => {
                self.stopped.swap_remove(index);
                Duration::ZERO
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rounds_of_a_rank_look_at_every_other_one_and_never_at_itself() {
        for n_ranks in [1_u32, 2, 16, 17, 18, 64, 100] {
            for own in [0, n_ranks / 2, n_ranks - 1] {
                let mut round = Round::new(Duration::ZERO);
                let n_looks = (n_ranks - 1).div_ceil(RANKS_PER_LOOK);
                let mut seen: Vec<_> = (0..n_looks)
                    .flat_map(|_| round.due(own, n_ranks).collect::<Vec<_>>())
                    .collect();
                seen.sort_unstable();
                seen.dedup();
                let others: Vec<_> = (0..n_ranks).filter(|rank| *rank != own).collect();
                assert_eq!(seen, others, "rank {own} of {n_ranks}");
            }
        }
    }

    #[test]
    fn a_look_is_due_after_its_interval_only() {
        let mut round = Round::new(Duration::from_secs(3600));
        assert_eq!(round.due(0, 4).count(), 0);
    }

    #[test]
    fn what_was_seen_stopped_is_forgotten_when_this_rank_did_not_look_for_long() {
        let liveness = Liveness::new(Some(Duration::from_secs(1)));
        let mut state = liveness.state.lock().unwrap();
        assert_eq!(state.stopped_for(3, true), Duration::ZERO);
        state.forget_if_absent();
        assert_eq!(state.stopped.len(), 1);
        let long_ago = Instant::now().checked_sub(Duration::from_secs(3));
        state.stops.last = long_ago.expect("the machine has run for seconds");
        state.forget_if_absent();
        assert_eq!(state.stopped.len(), 0);
        state.stopped_for(3, true);
        assert_eq!(state.stopped_for(3, false), Duration::ZERO);
        assert_eq!(state.stopped.len(), 0);
    }
}
