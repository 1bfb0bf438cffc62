//! Running programs on hosts: their output, and a time limit.

use std::io::Read;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::Hosts;

/// The interval between checks.
const TICK: Duration = Duration::from_millis(5);

/// A running program.
#[derive(Debug)]
pub struct Running<'hosts> {
    hosts: &'hosts Hosts,
    child: Child,
    /// Open for as long as the program runs.
    _stdin: Option<ChildStdin>,
    stdout: Listener,
    stderr: Listener,
    started: Instant,
}

/// A program that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit status.
    pub status: ExitStatus,
    /// The standard output.
    pub stdout: String,
    /// The standard error.
    pub stderr: String,
    /// The duration.
    pub took: Duration,
    /// Whether it ended by itself. Otherwise everything on the hosts was killed.
    pub in_time: bool,
}

/// Collects the data from a pipe.
#[derive(Debug)]
struct Listener {
    text: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl Hosts {
    /// Starts a command on these hosts. Its input has nothing, and ends when it does: MPICH's
    /// launcher passes the end of its own input on, and dies of that (SIGPIPE) if a short program
    /// has ended before.
    ///
    /// # Panics
    ///
    /// If the system refuses.
    #[must_use]
    pub fn start(&self, mut command: Command) -> Running<'_> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let started = Instant::now();
        let mut child = command
            .spawn()
            .expect("nsenter is there, it made the hosts");
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        Running {
            hosts: self,
            _stdin: child.stdin.take(),
            child,
            stdout: Listener::new(stdout.expect("it is piped")),
            stderr: Listener::new(stderr.expect("it is piped")),
            started,
        }
    }

    /// Runs a command on these hosts to its end. After `limit` everything on the hosts is killed.
    ///
    /// # Panics
    ///
    /// If the system refuses.
    #[must_use]
    pub fn run(&self, command: Command, limit: Duration) -> Ended {
        self.start(command).end(limit)
    }

    /// Waits until nothing runs on the hosts any more, and returns the processes that still run
    /// after `limit`.
    #[must_use]
    pub fn left_after(&self, limit: Duration) -> Vec<String> {
        let began = Instant::now();
        loop {
            let left: Vec<u32> = (0..self.n_hosts())
                .flat_map(|host| self.processes(host))
                .collect();
            if left.is_empty() || began.elapsed() > limit {
                return left.into_iter().map(command_line).collect();
            }
            thread::sleep(TICK);
        }
    }

    /// Kills all processes on the hosts, except those that make up the hosts.
    pub fn kill_all(&self) {
        for host in 0..self.n_hosts() {
            self.kill_all_on(host);
        }
    }

    /// Kills all processes on one host, except those that make up the host.
    ///
    /// # Panics
    ///
    /// If there is no such host.
    pub fn kill_all_on(&self, host: u32) {
        for pid in self.processes(host) {
            kill(pid);
        }
    }
}

/// Kills a process by its number outside of the hosts.
fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // Fails only for a process that has just ended.
    pid.map(|pid| kill_process(pid, Signal::KILL).ok());
}

impl Running<'_> {
    /// Waits until `text` has been printed to standard output. Returns false if the program has
    /// ended before, or after `limit`.
    ///
    /// # Panics
    ///
    /// If the system refuses to tell whether the program has ended.
    pub fn has_printed(&mut self, text: &str, limit: Duration) -> bool {
        let began = Instant::now();
        loop {
            let ended = self
                .child
                .try_wait()
                .expect("a child can be waited for")
                .is_some();
            if self.stdout.so_far().contains(text) {
                return true;
            }
            if ended || began.elapsed() > limit {
                return false;
            }
            thread::sleep(TICK);
        }
    }

    /// The standard error so far.
    #[must_use]
    pub fn complaints(&self) -> String {
        self.stderr.so_far()
    }

    /// Waits for the end of the program, and of all processes that write to its output. After
    /// `limit` everything on the hosts is killed.
    ///
    /// # Panics
    ///
    /// If the system refuses to tell whether the program has ended.
    #[must_use]
    pub fn end(mut self, limit: Duration) -> Ended {
        let began = Instant::now();
        let mut in_time = true;
        let status = loop {
            let status = self.child.try_wait().expect("a child can be waited for");
            if began.elapsed() > limit {
                in_time = false;
                self.hosts.kill_all();
            }
            let all_is_read = self.stdout.thread.is_finished() && self.stderr.thread.is_finished();
            match status {
                Some(status) if all_is_read => break status,
                _ => thread::sleep(TICK),
            }
        };
        Ended {
            status,
            stdout: self.stdout.so_far(),
            stderr: self.stderr.so_far(),
            took: self.started.elapsed(),
            in_time,
        }
    }
}

impl Listener {
    fn new(mut pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&text);
        let thread = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(len @ 1..) = pipe.read(&mut buffer) {
                let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                heard.extend_from_slice(&buffer[..len]);
            }
        });
        Self { text, thread }
    }

    fn so_far(&self) -> String {
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// A process as `ps` shows it.
fn command_line(pid: u32) -> String {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    format!(
        "{pid} {}",
        String::from_utf8_lossy(&words)
            .replace('\0', " ")
            .trim_end()
    )
}
