//! Kills a rank of a whole job at a random moment, repeatedly. Each job must end at once, with a
//! failure, and leave nothing behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::job::{self, Job, state_of};
use crate::soon::{Moment, Patience, assert_soon};

/// The time limit for the end of a job after a rank was killed.
const END: Duration = Duration::from_secs(3);

/// Variables by which launchers tell a process its rank.
const RANKS: [&str; 3] = ["PGAS_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK"];

/// Whole jobs of one program.
#[derive(Debug)]
pub struct Kills<'a> {
    /// The program of the ranks.
    pub program: &'a Path,
    /// The exit code of a job in which a rank was killed; `None` for any code but 0.
    pub code: Option<i32>,
    /// An empty directory for temporary files, which the caller provides.
    pub directory: &'a Path,
    /// Whether the launcher is known to hang sometimes after all ranks have ended. Then it is
    /// killed, and only the ranks have to end in time.
    pub launcher_may_hang: bool,
}

impl Kills<'_> {
    /// Runs jobs until a rank was killed in `n_kills` of them, at random moments from start to end.
    ///
    /// # Panics
    ///
    /// If a job does not end within three seconds after a kill, has a wrong exit code, or leaves
    /// processes, shared memory or temporary files; or if a job without a kill fails.
    pub fn run(&self, n_kills: u64, command: impl Fn() -> Command) {
        let mut rng = crate::rng(9);
        let began = Instant::now();
        let whole = self.start(command()).end();
        assert_eq!(whole.code(), 0, "{whole:?}");
        let duration = began.elapsed();
        let (mut n_killed, mut n_jobs) = (0, 0);
        while n_killed < n_kills {
            assert!(
                n_jobs < 20 * (n_kills + 1),
                "jobs end before a rank is killed"
            );
            n_jobs += 1;
            let shared_before = shared_files();
            let job = self.start(command());
            thread::sleep(duration.mul_f64(rng.f64()));
            let killed = self.kill_one(&job, &mut rng);
            let without_launcher = killed.and_then(|_| self.end_a_launcher_that_hangs(&job));
            let ended = job.end();
            let Some(at) = killed else {
                assert_eq!(ended.code(), 0, "nobody was killed: {ended:?}");
                continue;
            };
            n_killed += 1;
            let end = without_launcher.unwrap_or(ended.at);
            assert_soon(end.since(at), END, &ended);
            let code = ended.code();
            assert!(code != 0, "kill {n_killed}: {ended:?}");
            assert!(
                self.code.is_none_or(|expected| expected == code),
                "{ended:?}"
            );
            // A launcher may end a moment before the processes that it started.
            let patience = Patience::new(END);
            while ended.left.iter().any(|pid| is_alive(*pid)) {
                assert!(
                    !patience.is_over(),
                    "kill {n_killed}: processes are left: {ended:?}"
                );
                thread::sleep(Duration::from_millis(2));
            }
            let mut files = shared_files();
            files.retain(|name| !shared_before.contains(name));
            files.extend(files_in(self.directory));
            assert!(
                files.is_empty(),
                "kill {n_killed}: {files:?} are left: {ended:?}"
            );
        }
    }

    fn start(&self, mut command: Command) -> Job {
        command.env("TMPDIR", self.directory);
        job::start(command)
    }

    /// Kills one of the ranks, and returns the time; `None` if the job ends before.
    fn kill_one(&self, job: &Job, rng: &mut fastrand::Rng) -> Option<Moment> {
        loop {
            let processes = job.processes();
            let mut ranks = processes.clone();
            ranks.retain(|pid| self.is_rank(*pid));
            if !ranks.is_empty() {
                return kill(ranks[rng.usize(..ranks.len())]);
            }
            if processes.is_empty() {
                return None;
            }
            // The ranks have not started yet, or have ended.
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Kills a launcher that goes on without ranks, and returns the time since when; `None` if it
    /// ends by itself.
    ///
    /// Waits while a rank lives, at most until the job exceeds its own time limit.
    fn end_a_launcher_that_hangs(&self, job: &Job) -> Option<Moment> {
        if !self.launcher_may_hang {
            return None;
        }
        let mut without_ranks: Option<(Moment, Patience)> = None;
        while is_alive(job.child.id()) {
            if job.processes().iter().any(|pid| self.is_rank(*pid)) {
                without_ranks = None;
            } else {
                let start = || (Moment::now(), Patience::new(END));
                let (since, patience) = without_ranks.get_or_insert_with(start);
                if patience.is_over() {
                    job.signal(Signal::KILL);
                    return Some(*since);
                }
            }
            thread::sleep(Duration::from_millis(2));
        }
        None
    }

    fn is_rank(&self, pid: u32) -> bool {
        let exe = fs::read_link(format!("/proc/{pid}/exe"));
        let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut names = variables.split(|byte| *byte == 0).map(|variable| {
            let name = variable.split(|byte| *byte == b'=').next();
            name.unwrap_or_default()
        });
        exe.is_ok_and(|exe| exe == self.program)
            && names.any(|name| RANKS.iter().any(|known| known.as_bytes() == name))
    }
}

/// Kills a running process, and returns the time. The process is stopped first, which tells it from
/// one that has ended and was not waited for.
fn kill(pid: u32) -> Option<Moment> {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    kill_process(process, Signal::STOP).ok()?;
    loop {
        match state_of(pid) {
            None | Some('Z' | 'X') => return None,
            Some('T') => break,
            Some(_) => thread::yield_now(),
        }
    }
    let at = Moment::now();
    kill_process(process, Signal::KILL).ok()?;
    Some(at)
}

fn is_alive(pid: u32) -> bool {
    state_of(pid).is_some_and(|state| state != 'Z')
}

/// The names of shared memory that could belong to this library.
fn shared_files() -> Vec<PathBuf> {
    let mut files = files_in(Path::new("/dev/shm"));
    files.retain(|path| path.to_string_lossy().contains("pgas"));
    files
}

/// The files in a directory, without those of MPI libraries.
fn files_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !name.starts_with("ompi.")
    };
    paths.filter(is_ours).collect()
}
