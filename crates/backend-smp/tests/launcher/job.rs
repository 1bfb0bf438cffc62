//! Running `pgas-run` with a deadline, and finding what it leaves behind.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What a job may take at most before a test fails; far more than any needs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// What the end of a job may take when a rank has failed.
pub(crate) const END_OF_JOB: Duration = Duration::from_secs(2);

/// A job that runs.
pub(crate) struct Job {
    pub(crate) child: Child,
    stdout: Option<BufReader<ChildStdout>>,
    stderr: JoinHandle<String>,
    watchdog: Watchdog,
    started: Instant,
    mark: String,
}

/// A job that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
    /// The processes of the job that are still there.
    pub(crate) left: Vec<u32>,
}

impl Ended {
    /// The exit code as a shell shows it.
    pub(crate) fn code(&self) -> i32 {
        self.status
            .code()
            .or(self.status.signal().map(|signal| 128 + signal))
            .unwrap()
    }
}

/// Runs a shell script as every rank, to its end.
pub(crate) fn run(n_ranks: u32, options: &[&str], script: &str) -> Ended {
    start(pgas_run(n_ranks, options, script)).end()
}

/// `pgas-run` with a shell script as the program.
pub(crate) fn pgas_run(n_ranks: u32, options: &[&str], script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgas-run"));
    command
        .args(["-n", &n_ranks.to_string()])
        .args(options)
        .args(["--", "sh", "-c", script]);
    command
}

/// Starts a job whose every process can be found again.
pub(crate) fn start(mut command: Command) -> Job {
    static N_STARTED: AtomicU32 = AtomicU32::new(0);
    let n_started = N_STARTED.fetch_add(1, Ordering::Relaxed);
    let mark = format!("LAUNCHER_TEST={}.{n_started}", std::process::id());
    let (key, value) = mark.split_once('=').unwrap();
    command
        .env(key, value)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let started = Instant::now();
    let mut child = command.spawn().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let mut stderr = child.stderr.take().unwrap();
    let stderr = thread::spawn(move || {
        let mut text = Vec::new();
        stderr.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    });
    let watchdog = Watchdog::start(mark.clone());
    Job {
        child,
        stdout: Some(stdout),
        stderr,
        watchdog,
        started,
        mark,
    }
}

impl Job {
    /// Waits for `n_lines` lines on standard output.
    pub(crate) fn lines(&mut self, n_lines: usize) -> Vec<String> {
        let lines = self
            .stdout
            .as_mut()
            .unwrap()
            .lines()
            .take(n_lines)
            .collect::<Result<Vec<_>, _>>()
            .unwrap();
        assert_eq!(lines.len(), n_lines, "the job ended after {lines:?}");
        lines
    }

    /// Closes the reading end of the job's standard output.
    pub(crate) fn stop_reading(&mut self) {
        self.stdout = None;
    }

    /// Sends a signal to the launcher alone.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// The processes of the job, the launcher among them.
    pub(crate) fn processes(&self) -> Vec<u32> {
        marked(&self.mark)
    }

    /// Waits for the end of the job, whose launcher somebody else's signal may have ended.
    pub(crate) fn end(mut self) -> Ended {
        let mut stdout = Vec::new();
        if let Some(rest) = &mut self.stdout {
            rest.read_to_end(&mut stdout).unwrap();
        }
        let status = self.child.wait().unwrap();
        let took = self.started.elapsed();
        let stderr = self.stderr.join().unwrap();
        self.watchdog.stop();
        let left = marked(&self.mark);
        let stdout = String::from_utf8_lossy(&stdout).into_owned();
        Ended {
            status,
            stdout,
            stderr,
            took,
            left,
        }
    }
}

/// Kills a job that outlives the deadline or its test, so that the test fails instead of waiting.
struct Watchdog {
    stop: std::sync::mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Watchdog {
    fn start(mark: String) -> Self {
        let (stop, stopped) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            if stopped.recv_timeout(DEADLINE).is_err() {
                for pid in marked(&mark) {
                    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
                    rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
                }
                panic!("the job did not end within {DEADLINE:?}");
            }
        });
        Self { stop, thread }
    }

    fn stop(self) {
        self.stop.send(()).ok();
        self.thread.join().expect("a job ends within the deadline");
    }
}

/// The living processes that were started with this variable; only zombies have none.
fn marked(mark: &str) -> Vec<u32> {
    let pids = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        variables
            .split(|&byte| byte == 0)
            .any(|variable| variable == mark.as_bytes())
    })
    .collect()
}

/// The state letter of a process, as in `ps`.
pub(crate) fn state_of(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Waits until `condition` holds, with a deadline.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}
