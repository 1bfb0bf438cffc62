//! Linux only: whether the other ranks of a job of processes are alive.
//!
//! Every rank holds a lock on one byte of the job's file ([`Hold`]). The kernel releases it when
//! the process ends, however it ends, before its parent can reap it. So a rank that is in the job
//! and whose lock is free has died. This needs no supervisor and works under any launcher.
#![expect(
    unsafe_code,
    reason = "calls fcntl, whose locks on ranges no safe wrapper offers"
)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use pgas_core::{Error, Process, Result};
use pgas_lockfree::roster::Membership;

use crate::control::Control;
use crate::launcher::stat_behind_name;

/// The interval between checks of the locks while a rank waits.
const INTERVAL: Duration = Duration::from_millis(25);
/// Checks of process states per limit, within these bounds. Such a check costs ten times as much as
/// a check of a lock.
const STOP_CHECKS_PER_LIMIT: u32 = 8;
const LONGEST_STOP_INTERVAL: Duration = Duration::from_secs(1);
/// The number of other ranks checked each time. It is limited, so that the cost of a waiting job
/// does not grow with the square of its ranks. Each rank begins with its successor, so together
/// they check all ranks.
const RANKS_PER_CHECK: u32 = 16;

/// A rank's checks whether the other ranks are alive.
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

/// Cycles through the other ranks, some at a time.
#[derive(Debug)]
struct Round {
    interval: Duration,
    last: Instant,
    /// The distance of the next rank from the own one.
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

    /// The ranks to check now, if the last check was a while ago.
    fn due(&mut self, own: u32, n_ranks: u32) -> impl Iterator<Item = u32> + use<> {
        let n_others = n_ranks - 1;
        let is_due = n_others > 0 && self.last.elapsed() >= self.interval;
        let n_looks = if is_due {
            self.last = Instant::now();
            n_others.min(RANKS_PER_CHECK)
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
        let part = stall.unwrap_or(LONGEST_STOP_INTERVAL) / STOP_CHECKS_PER_LIMIT;
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

    /// Checks some of the other ranks, if the last check was a while ago. Records the first one
    /// that is found dead or stopped as the job's failure.
    pub(crate) fn check(&self, own: u32, n_ranks: u32, control: &Control<'_>, hold: &Hold) {
        // Another thread that holds the lock does the work.
        let Ok(mut state) = self.state.try_lock() else {
            return;
        };
        let is_joined = |rank: &u32| control.membership(*rank) == Membership::Joined;
        let joined = state.locks.due(own, n_ranks).filter(is_joined);
        // A rank announces that it leaves before its lock is freed: read its membership again.
        let dead = joined.filter(|rank| !hold.is_held(*rank)).find(is_joined);
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
    /// Begins anew if this rank itself has not checked for a while: it may have been stopped
    /// together with the others, and continue a little earlier.
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

/// Whether the system reports the process as stopped by a signal or a debugger.
fn is_stopped(pid: u32) -> bool {
    stat_behind_name(pid).is_some_and(|stat| stat.starts_with(['T', 't']))
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

/// The lock that shows that this process, as a rank, is alive, until this value is dropped or the
/// process ends.
///
/// The lock belongs to an open file description of its own. It does not belong to the process,
/// whose locks are all released when it closes any descriptor of the job's file. Nor does it belong
/// to the file that the launcher has opened, which all ranks share. Only this descriptor refers to
/// it: a started program does not get it, and a forked child gives it up ([`Forks`]).
#[derive(Debug)]
pub(crate) struct Hold {
    own: File,
}

impl Hold {
    /// Takes the lock of `rank` on the job's file.
    pub(crate) fn take(job: &File, rank: u32) -> Result<Self> {
        let path = format!("/proc/self/fd/{}", job.as_raw_fd());
        let own = File::options().read(true).write(true).open(&path);
        let own = own.map_err(|error| {
            let error = io::Error::new(error.kind(), format!("{path}: {error}"));
            Error::os("open", error)
        })?;
        let lock = lock_of(rank, libc::F_WRLCK);
        // SAFETY: the descriptor is open and `lock` is a valid lock description.
        let result = unsafe { libc::fcntl(own.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
        if result == 0 {
            FORKS.add(&own, job)?;
            return Ok(Self { own });
        }
        let error = io::Error::last_os_error();
        if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) {
            let text = format!("rank {rank} of this job is another live process");
            return Err(Error::backend("fcntl", 0, text));
        }
        Err(Error::os("fcntl", error))
    }

    /// Whether somebody else holds the lock of `rank`; yes when in doubt.
    fn is_held(&self, rank: u32) -> bool {
        let mut lock = lock_of(rank, libc::F_WRLCK);
        let fd = self.own.as_raw_fd();
        // SAFETY: the descriptor is open and `lock` is a valid lock description, which is
        // overwritten.
        let result = unsafe { libc::fcntl(fd, libc::F_OFD_GETLK, &raw mut lock) };
        result != 0 || i32::from(lock.l_type) != libc::F_UNLCK
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        FORKS.remove(&self.own);
    }
}

/// Descriptors that a forked child must close, since it would hold its parent's locks until it
/// ends. Each is paired with a descriptor that takes its number in the child.
struct Forks {
    /// Both numbers in a word, or [`NONE`](Self::NONE).
    descriptors: [AtomicU64; Self::MOST],
}

static FORKS: Forks = Forks {
    descriptors: [const { AtomicU64::new(Forks::NONE) }; Forks::MOST],
};

impl Forks {
    /// A process is a rank of one job, or of some over MPI.
    const MOST: usize = 64;
    const NONE: u64 = u64::MAX;

    /// From here on a child has `other` in the place of `own`.
    fn add(&self, own: &File, other: &File) -> Result<()> {
        static ASKED: OnceLock<i32> = OnceLock::new();
        let asked = *ASKED.get_or_init(|| {
            // SAFETY: the handler may run in a child of a process with threads, as it only makes
            // system calls, and loads and changes words; it lives as long as the program.
            let asked = unsafe { libc::pthread_atfork(None, None, Some(give_up_locks)) };
            if asked == 0 {
                Process::forks_are_counted();
            }
            asked
        });
        if asked != 0 {
            let error = io::Error::from_raw_os_error(asked);
            return Err(Error::os("pthread_atfork", error));
        }
        let pair = [own, other].map(|file| u64::from(file.as_raw_fd().cast_unsigned()));
        let pair = pair[0] << 32 | pair[1];
        let is_added = self.descriptors.iter().any(|place| {
            let added =
                place.compare_exchange(Self::NONE, pair, Ordering::SeqCst, Ordering::SeqCst);
            added.is_ok()
        });
        if is_added {
            return Ok(());
        }
        let text = format!("this process is a rank of {} jobs already", Self::MOST);
        Err(Error::backend("fcntl", 0, text))
    }

    fn remove(&self, own: &File) {
        let number = u64::from(own.as_raw_fd().cast_unsigned());
        for place in &self.descriptors {
            let pair = place.load(Ordering::SeqCst);
            if pair != Self::NONE && pair >> 32 == number {
                place.store(Self::NONE, Ordering::SeqCst);
            }
        }
    }
}

/// Runs in a child that was forked.
extern "C" fn give_up_locks() {
    Process::note_fork();
    for place in &FORKS.descriptors {
        let pair = place.load(Ordering::SeqCst);
        if pair != Forks::NONE {
            let number = |bits: u64| {
                let low = u32::try_from(bits & u64::from(u32::MAX));
                low.unwrap_or(u32::MAX).cast_signed()
            };
            // SAFETY: a system call on numbers, which fails if one is not open. The number stays
            // open, on the job's file still, so that whoever owns it in the child owns such a file.
            let _ = unsafe { libc::dup3(number(pair), number(pair >> 32), libc::O_CLOEXEC) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::segment::Job;

    fn job_file() -> File {
        let fd = rustix::fs::memfd_create("job", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        File::from(fd)
    }

    #[test]
    fn a_rank_is_held_by_one_and_free_when_that_ends() {
        let job = job_file();
        let (first, second) = (Hold::take(&job, 1).unwrap(), Hold::take(&job, 2).unwrap());
        assert_eq!(
            [1, 2, 3].map(|rank| first.is_held(rank)),
            [false, true, false]
        );
        let again = Hold::take(&job, 1).unwrap_err().to_string();
        assert!(
            again.contains("rank 1 of this job is another live process"),
            "{again}"
        );
        // Others open and close the same file.
        drop(job.try_clone().unwrap());
        drop(File::open(format!("/proc/self/fd/{}", job.as_raw_fd())).unwrap());
        assert!(second.is_held(1) && first.is_held(2));
        drop(second);
        assert!(!first.is_held(2));
    }

    #[test]
    fn a_child_that_was_forked_does_not_hold_the_lock_of_its_parent() {
        let job = job_file();
        let (own, other) = (Hold::take(&job, 1).unwrap(), Hold::take(&job, 2).unwrap());
        // SAFETY: the child makes system calls only.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "{}", io::Error::last_os_error());
        if child == 0 {
            // SAFETY: without preconditions.
            while unsafe { libc::pause() } == -1 {}
        }
        // As the kernel does for a rank that dies.
        drop(own);
        let began = Instant::now();
        // The child is here before it has run its handler.
        while other.is_held(1) && began.elapsed() < Duration::from_secs(30) {
            std::thread::yield_now();
        }
        let is_held = other.is_held(1);
        // SAFETY: the child has not been waited for.
        unsafe { libc::kill(child, libc::SIGKILL) };
        // SAFETY: the same; nobody asks for its status.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        assert!(!is_held);
    }

    #[test]
    fn a_process_may_be_a_rank_of_very_many_jobs_one_after_another() {
        for _ in 0..3 * Forks::MOST {
            drop(Hold::take(&job_file(), 1).unwrap());
        }
    }

    /// Makes the next check due.
    fn make_due(liveness: &Liveness) {
        let mut state = liveness.state.lock().unwrap();
        let a_while_ago = Instant::now().checked_sub(Duration::from_millis(500));
        let a_while_ago = a_while_ago.expect("the machine has run for a second");
        state.locks.last = a_while_ago;
        state.stops.last = a_while_ago;
    }

    fn job_of_three() -> Job {
        let job = Job::anonymous(Layout {
            n_ranks: 3,
            segment_bytes: 1 << 20,
        });
        job.unwrap()
    }

    #[test]
    fn who_is_in_the_job_and_has_no_lock_has_died() {
        let (file, job) = (job_file(), job_of_three());
        let control = job.control();
        let (own, other) = (Hold::take(&file, 0).unwrap(), Hold::take(&file, 1).unwrap());
        let liveness = Liveness::new(None);
        let look = || {
            make_due(&liveness);
            liveness.check(0, 3, &control, &own);
            control.failure()
        };
        control.join(0, 1, 0);
        control.join(1, 1, 0);
        assert_eq!(look(), None, "rank 2 has not come yet");
        control.join(2, 1, 0);
        control.leave(2);
        assert_eq!(look(), None, "rank 2 has left in good order");
        drop(other);
        let died = "died without leaving the job".to_owned();
        assert_eq!(look(), Some((1, died)));
    }

    #[test]
    fn who_is_stopped_for_longer_than_the_limit_has_failed_and_nobody_else_has() {
        let (file, job) = (job_file(), job_of_three());
        let control = job.control();
        let own = Hold::take(&file, 0).unwrap();
        let others = [1, 2].map(|rank| Hold::take(&file, rank).unwrap());
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        control.join(0, std::process::id(), 0);
        control.join(1, std::process::id(), 0);
        control.join(2, child.id(), 0);
        let liveness = Liveness::new(Some(Duration::from_millis(1)));
        let look = || {
            make_due(&liveness);
            liveness.check(0, 3, &control, &own);
            control.failure()
        };
        for _ in 0..100 {
            assert_eq!(look(), None, "nobody is stopped");
        }
        let stopped = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(stopped, rustix::process::Signal::STOP).unwrap();
        let began = Instant::now();
        let mut failure = None;
        while failure.is_none() && began.elapsed() < Duration::from_secs(60) {
            failure = look();
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        drop(others);
        let (rank, text) = failure.expect("rank 2 is stopped");
        assert_eq!(rank, 2);
        assert!(text.contains("has been stopped for 1ms"), "{text}");
    }

    #[test]
    fn the_rounds_of_a_rank_look_at_every_other_one_and_never_at_itself() {
        for n_ranks in [1_u32, 2, 16, 17, 18, 64, 100] {
            for own in [0, n_ranks / 2, n_ranks - 1] {
                let mut round = Round::new(Duration::ZERO);
                let n_looks = (n_ranks - 1).div_ceil(RANKS_PER_CHECK);
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
