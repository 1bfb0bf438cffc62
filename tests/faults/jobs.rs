//! Starts this program as the ranks of a job, in every way to start a job.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use pgas_testkit::fault::{Fault, STALL};
use pgas_testkit::job::{self, Ended, Job};

use crate::parts::{LAUNCH, LAUNCH_FOREIGN, RANK};

/// How a job starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By a launcher of this library.
    Launched,
    /// By its first process.
    SelfLaunched,
    /// By a launcher that only starts processes.
    Foreign,
}

/// The ways with a supervisor of the ranks.
pub(crate) const WATCHED: [Way; 2] = [Way::Launched, Way::SelfLaunched];

/// A job that must leave nothing behind.
pub(crate) struct CleanJob {
    pub(crate) job: Job,
    directory: PathBuf,
    shared_before: Vec<String>,
}

/// Starts `n_ranks` ranks that play the part `words`, with additional settings.
pub(crate) fn start(way: Way, n_ranks: u32, words: &[&str], settings: &[(&str, &str)]) -> CleanJob {
    start_within(&[], way, n_ranks, words, settings)
}

/// Like [`start`]; the launching process first plays the role `first`.
pub(crate) fn start_within(
    first: &[String],
    way: Way,
    n_ranks: u32,
    words: &[&str],
    settings: &[(&str, &str)],
) -> CleanJob {
    static N_JOBS: AtomicU32 = AtomicU32::new(0);
    let n_jobs = N_JOBS.fetch_add(1, Ordering::Relaxed);
    let name = format!("faults-{}-{n_jobs}", std::process::id());
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&directory).unwrap();
    let n_ranks = n_ranks.to_string();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(first);
    match way {
        Way::Launched => command.args([LAUNCH, &n_ranks]),
        Way::SelfLaunched => command.env("PGAS_RANKS", &n_ranks),
        Way::Foreign => command.args([LAUNCH_FOREIGN, &n_ranks]),
    };
    command
        .arg(RANK)
        .args(words)
        .env("PGAS_SEGMENT", "4M")
        // Figures and reports are those of release builds: of barriers that compare no calls.
        .env("PGAS_CHECK", "0")
        .env("TMPDIR", &directory)
        .envs(settings.iter().copied());
    if words.contains(&Fault::Stop.name()) {
        // Other jobs may be slow, and must not report that.
        command.env(STALL.0, STALL.1);
    }
    let shared_before = shared_files();
    CleanJob {
        job: job::start(command),
        directory,
        shared_before,
    }
}

impl CleanJob {
    /// Waits for the end of the job, and asserts that none of its files is left.
    pub(crate) fn end(self) -> Ended {
        let ended = self.job.end();
        let files: Vec<_> = fs::read_dir(&self.directory).unwrap().collect();
        assert!(files.is_empty(), "{files:?} is left of {ended:?}");
        fs::remove_dir(&self.directory).unwrap();
        let mut shared = shared_files();
        shared.retain(|name| !self.shared_before.contains(name));
        assert!(shared.is_empty(), "{shared:?} is left of {ended:?}");
        ended
    }
}

/// The names of shared memory that could belong to this library.
fn shared_files() -> Vec<String> {
    let entries = fs::read_dir("/dev/shm").into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("pgas")).collect()
}

/// Asserts that a job succeeded without an error message.
#[track_caller]
pub(crate) fn assert_well(ended: &Ended) {
    assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""), "{ended:?}");
    assert!(ended.left.is_empty(), "{ended:?}");
}
