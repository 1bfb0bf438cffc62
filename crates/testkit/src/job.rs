//! Jobs of processes: starting them with a time limit, and finding what they leave behind.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::soon::{Moment, Patience};

/// Whether ranks can be processes here: on Linux only, and not in a build with the portable files
/// of `pgas-smp`.
pub const ARE_POSSIBLE: bool = cfg!(all(target_os = "linux", not(pgas_portable)));

/// The time limit of a job; far more than any needs.
pub const JOB_LIMIT: Duration = Duration::from_secs(60);

/// The time limit for the end of a job after a rank has failed.
pub const END_OF_JOB: Duration = Duration::from_secs(2);

/// The argument by which a test program runs as a rank; the name of its part follows.
pub const PART: &str = "--part";

/// A part that a rank plays, with what it is told.
pub type Part = fn(&str);

/// If this process was started as a rank, plays its part, which is one of `parts`. Says whether it
/// was.
///
/// # Panics
///
/// If there is no such part.
pub fn has_played(parts: &[(&str, Part)]) -> bool {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [flag, name, rest @ ..] = &args[..] else {
        return false;
    };
    if flag != PART {
        return false;
    }
    let (_, part) = parts
        .iter()
        .find(|(other, _)| other == name)
        .expect("a part");
    part(rest.first().map_or("", String::as_str));
    true
}

/// A running job.
#[derive(Debug)]
pub struct Job {
    /// The process that was started.
    pub child: Child,
    stdout: Option<BufReader<ChildStdout>>,
    stderr: JoinHandle<String>,
    watchdog: Watchdog,
    started: Moment,
    mark: String,
}

/// A job that has ended.
#[derive(Debug)]
pub struct Ended {
    /// How the started process ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Its duration, not counting times in which a process waited for a processor.
    pub took: Duration,
    /// The time of its end.
    pub at: Moment,
    /// The processes of the job that still exist.
    pub left: Vec<u32>,
}

impl Ended {
    /// The exit code as a shell shows it.
    ///
    /// # Panics
    ///
    /// Never: a process exits, or a signal ends it.
    #[must_use]
    pub fn code(&self) -> i32 {
        let by_signal = self.status.signal().map(|signal| 128 + signal);
        let code = self.status.code().or(by_signal);
        code.expect("a process exits, or a signal ends it")
    }
}

/// Starts a job, with an environment variable by which its processes can be found. It is killed
/// after [`JOB_LIMIT`].
///
/// # Panics
///
/// If the system refuses.
pub fn start(command: Command) -> Job {
    start_within(JOB_LIMIT, command)
}

/// As [`start`], with another time limit.
///
/// # Panics
///
/// If the system refuses.
pub fn start_within(limit: Duration, mut command: Command) -> Job {
    let mark = marked_anew(&mut command);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = Moment::now();
    let mut child = command.spawn().expect("the job's first process starts");
    let stdout = child.stdout.take().map(BufReader::new);
    let mut stderr = child.stderr.take().expect("it is piped");
    let stderr = thread::spawn(move || {
        let mut text = Vec::new();
        stderr.read_to_end(&mut text).expect("a pipe can be read");
        String::from_utf8_lossy(&text).into_owned()
    });
    let watchdog = Watchdog::start(limit, mark.clone());
    Job {
        child,
        stdout,
        stderr,
        watchdog,
        started,
        mark,
    }
}

impl Job {
    /// Waits for `n_lines` lines on standard output.
    ///
    /// # Panics
    ///
    /// If the job ends before.
    pub fn lines(&mut self, n_lines: usize) -> Vec<String> {
        let stdout = self.stdout.as_mut().expect("it is still read");
        let lines = stdout.lines().take(n_lines);
        let lines = lines
            .collect::<Result<Vec<_>, _>>()
            .expect("lines of text in a pipe");
        assert_eq!(lines.len(), n_lines, "the job ended after {lines:?}");
        lines
    }

    /// Closes the reading end of the job's standard output.
    pub fn stop_reading(&mut self) {
        self.stdout = None;
    }

    /// Sends a signal to the process that was started, alone.
    ///
    /// # Panics
    ///
    /// If the system refuses.
    pub fn signal(&self, signal: Signal) {
        let sent = rustix::process::kill_process(Pid::from_child(&self.child), signal);
        sent.expect("the process has not been waited for");
    }

    /// The processes of the job, including the started one.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        marked(&self.mark)
    }

    /// Waits for the end of the job: of the started process, and of all processes that write to its
    /// output.
    ///
    /// # Panics
    ///
    /// If it does not end within its limit.
    #[must_use]
    pub fn end(mut self) -> Ended {
        let mut stdout = Vec::new();
        if let Some(rest) = &mut self.stdout {
            rest.read_to_end(&mut stdout).expect("a pipe can be read");
        }
        let status = self.child.wait().expect("a child can be waited for");
        let at = Moment::now();
        let stderr = self.stderr.join().expect("its reader does not fail");
        self.watchdog.stop();
        let left = marked(&self.mark);
        let stdout = String::from_utf8_lossy(&stdout).into_owned();
        Ended {
            status,
            stdout,
            stderr,
            took: at.since(self.started),
            at,
            left,
        }
    }
}

/// Kills a job that exceeds the time limit or outlives its test, so that the test fails instead of
/// hanging.
#[derive(Debug)]
struct Watchdog {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watchdog {
    fn start(limit: Duration, mark: String) -> Self {
        let (stop, stopped) = mpsc::channel();
        let patience = Patience::new(limit);
        let thread = thread::spawn(move || {
            if patience.receive(&stopped).is_err() {
                let told = kill_marked(&mark);
                panic!("the job did not end within {limit:?}; what was left of it:\n{told}");
            }
        });
        Self { stop, thread }
    }

    fn stop(self) {
        // There is no receiver after the time limit, which the thread's panic reports.
        self.stop.send(()).ok();
        self.thread.join().expect("a job ends within the limit");
    }
}

/// Gives a command a variable of its own, by which its processes can be found.
pub(crate) fn marked_anew(command: &mut Command) -> String {
    static N_STARTED: AtomicU32 = AtomicU32::new(0);
    let n_started = N_STARTED.fetch_add(1, Ordering::Relaxed);
    let mark = format!("PGAS_TEST_JOB={}.{n_started}", std::process::id());
    let (key, value) = mark.split_once('=').expect("written so above");
    command.env(key, value);
    mark
}

/// Kills the processes that were started with this variable, and says what they did.
pub(crate) fn kill_marked(mark: &str) -> String {
    let left = marked(mark);
    let told = left.iter().map(|pid| place_of(*pid)).collect();
    for pid in left {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        // Fails only for a process that has just ended.
        pid.map(|pid| rustix::process::kill_process(pid, Signal::KILL));
    }
    told
}

/// The living processes that were started with this variable. Zombies have none.
fn marked(mark: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("the system shows its processes");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = variables.split(|&byte| byte == 0);
        variables.any(|variable| variable == mark.as_bytes())
    })
    .collect()
}

/// A line for each thread of a process, with its state and its current system call.
fn place_of(pid: u32) -> String {
    let read = |path: String| fs::read_to_string(path).unwrap_or_default();
    let command = read(format!("/proc/{pid}/cmdline")).replace('\0', " ");
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().filter_map(Result::ok);
    let lines = threads.map(|thread| {
        let thread = thread.path();
        let thread = thread.display();
        let stat = read(format!("{thread}/stat"));
        let state = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.chars().next());
        let call = read(format!("{thread}/syscall"));
        let wait = read(format!("{thread}/wchan"));
        format!("  {thread}: {state:?} in {wait} call {}\n", call.trim_end())
    });
    format!("{pid} {command}\n{}", lines.collect::<String>())
}

/// The state letter of a process, as in `ps`.
#[must_use]
pub fn state_of(pid: u32) -> Option<char> {
    // The name in parentheses may be cut off within a letter.
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Waits until `condition` holds.
///
/// # Panics
///
/// If it does not within [`JOB_LIMIT`].
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let patience = Patience::new(JOB_LIMIT);
    while !condition() {
        assert!(!patience.is_over(), "not within {JOB_LIMIT:?}: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Prints a line at once, without the buffer of a test harness.
///
/// # Panics
///
/// If standard output is closed.
pub fn say(line: &str) {
    std::io::stdout()
        .write_all(format!("{line}\n").as_bytes())
        .expect("somebody reads standard output");
}

/// Ends this process with an exit code, without the test harness and without leaving any job.
pub fn exit(code: u8) -> ! {
    #[expect(
        clippy::disallowed_methods,
        reason = "for the parts that tests play in jobs of processes"
    )]
    std::process::exit(code.into())
}
