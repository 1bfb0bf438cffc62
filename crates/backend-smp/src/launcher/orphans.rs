//! Orphans: processes that the ranks started and left behind.
//!
//! A rank may start processes of its own, which a signal to the rank does not reach. The supervisor
//! declares itself their reaper: when a rank ends, the kernel makes its children the supervisor's,
//! also those in another session, so that at the end of the job none of them can hide.

use std::cell::Cell;
use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions};

use super::leftovers;
use super::stat::stat_behind_name;

/// The time that killed orphans get to end before the job is over without them.
const PATIENCE: Duration = Duration::from_millis(500);

/// The children that reach this process by adoption, for as long as the job runs. Dropping this
/// value kills them; no rank may be left then.
pub(super) struct Orphans {
    /// The children that this process had before; they are none of the job's.
    unrelated: Vec<Pid>,
    /// Whether they have been killed.
    are_gone: Cell<bool>,
}

impl Orphans {
    /// Makes this process the parent of orphans among its descendants.
    pub(super) fn adopt() -> io::Result<Self> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        Ok(Self {
            unrelated: children(),
            are_gone: Cell::new(false),
        })
    }

    /// Reaps the orphans that have ended. `ranks` are children that other code waits for.
    pub(super) fn reap(&self, ranks: &[Pid]) {
        for pid in children() {
            if !ranks.contains(&pid) && !self.unrelated.contains(&pid) {
                reap_one(pid);
            }
        }
    }

    /// Kills all orphans, when no rank is left.
    pub(super) fn kill(&self) {
        self.are_gone.set(true);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut left = children();
            left.retain(|pid| !self.unrelated.contains(pid) && !reap_one(*pid));
            if left.is_empty() || Instant::now() >= deadline {
                return;
            }
            for pid in left {
                // Fails only for a process that has just ended, or runs as another user.
                rustix::process::kill_process(pid, Signal::KILL).ok();
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Orphans {
    /// Kills those of a job that could not be watched to its end.
    fn drop(&mut self) {
        if !self.are_gone.get() {
            self.kill();
        }
    }
}

/// Whether `pid` had ended, in which case nothing is left of it.
fn reap_one(pid: Pid) -> bool {
    // A rank may be the child of a script that has ended before.
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    if let Ok(Some(_)) = rustix::process::waitid(WaitId::Pid(pid), ended) {
        leftovers::remove(pid.as_raw_nonzero().get().unsigned_abs());
    }
    matches!(
        rustix::process::waitpid(Some(pid), WaitOptions::NOHANG),
        Ok(Some(_))
    )
}

/// The children of this process, as far as `/proc` shows them.
fn children() -> Vec<Pid> {
    let parent = rustix::process::getpid();
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(Pid::from_raw)
        .filter(|pid| parent_of(*pid) == Some(parent))
        .collect()
}

/// The parent of a process: the second field behind its name.
fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = stat_behind_name(pid.as_raw_nonzero())?;
    Pid::from_raw(stat.split_ascii_whitespace().nth(1)?.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::{children, parent_of, reap_one};
    use std::fs;
    use std::process::{Command, Stdio};
    use std::thread;

    #[test]
    fn the_named_memory_of_an_orphan_is_removed() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        let file = format!("/dev/shm/{}:0:0", child.id());
        fs::write(&file, "").unwrap();
        let is_reaped_alive = reap_one(pid);
        let was_kept = fs::exists(&file).unwrap();
        drop(child.stdin.take());
        while !reap_one(pid) {
            thread::yield_now();
        }
        let is_there = fs::exists(&file).unwrap();
        fs::remove_file(&file).ok();
        assert!(!is_reaped_alive && was_kept && !is_there);
        // It has no number any more.
        child.wait().unwrap_err();
    }

    #[test]
    fn a_child_is_found_under_its_parent() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        assert_eq!(parent_of(pid), Some(rustix::process::getpid()));
        assert!(children().contains(&pid));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!children().contains(&pid));
    }
}
