//! A job that runs commands of its test.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::job::{kill_marked, marked_anew};

/// The reply of a rank when all ranks have performed the command.
const DONE: &str = "@done ";

/// Looks whether a job has ended, and the time between two of them.
const N_LOOKS: u32 = 5000;
const LOOK: Duration = Duration::from_millis(2);

/// A job that runs commands of its test one after another, so that the ranks start once for many
/// cases.
#[derive(Debug)]
pub struct Job {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    output: Vec<String>,
    stderr: Option<JoinHandle<String>>,
    /// The variable by which its processes can be found.
    mark: String,
}

impl Job {
    /// Starts the ranks, which [`serve`].
    ///
    /// # Panics
    ///
    /// If the program cannot be started.
    #[must_use]
    pub fn start(mut command: Command) -> Self {
        let mark = marked_anew(&mut command);
        let mut child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the launcher is installed");
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut stderr = child.stderr.take().expect("it is piped");
        let (line, lines) = mpsc::channel();
        thread::spawn(move || {
            for text in stdout.lines().map_while(Result::ok) {
                if line.send(text).is_err() {
                    return;
                }
            }
        });
        let stderr = thread::spawn(move || {
            let mut text = String::new();
            // Unreadable output is not reported.
            drop(stderr.read_to_string(&mut text));
            text
        });
        Self {
            stdin: child.stdin.take(),
            child,
            lines,
            output: Vec::new(),
            stderr: Some(stderr),
            mark,
        }
    }

    /// Has all ranks perform `what`, and waits for them. After an error the job is over.
    ///
    /// # Errors
    ///
    /// The output of the job, and how it ended.
    ///
    /// # Panics
    ///
    /// If it is called again after an error.
    pub fn ask(&mut self, what: &str, limit: Duration) -> Result<(), String> {
        self.output.clear();
        let line = format!("{what}\n");
        let stdin = self.stdin.as_mut().expect("the job is not over");
        if stdin.write_all(line.as_bytes()).is_err() {
            return Err(self.end("the job has ended before"));
        }
        loop {
            match self.lines.recv_timeout(limit) {
                Ok(line) if line.strip_prefix(DONE) == Some(what) => return Ok(()),
                Ok(line) => self.output.push(line),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(self.end(&format!("{what} hangs: no sign of life for {limit:?}")));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.end("the job has ended")),
            }
        }
    }

    /// Lets the job end by itself, within a time limit.
    ///
    /// # Errors
    ///
    /// The output since the last command, and how the job ended, if not with success.
    ///
    /// # Panics
    ///
    /// If the system does not tell how it ended.
    pub fn leave(mut self) -> Result<(), String> {
        self.await_end();
        match self.child.try_wait().expect("a child") {
            Some(status) if status.success() => Ok(()),
            Some(_) => Err(self.end("the job has failed at its end")),
            None => Err(self.end("the job does not end")),
        }
    }

    /// Lets the job end by itself, within a time limit.
    fn await_end(&mut self) {
        drop(self.stdin.take());
        for _ in 0..N_LOOKS {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(LOOK);
        }
    }

    /// Kills the job, and returns its output.
    fn end(&mut self, why: &str) -> String {
        self.stdin = None;
        let left = self.kill();
        let status = self.child.wait().expect("a child");
        let stderr = self.stderr.take().map(JoinHandle::join);
        let stderr = stderr.and_then(Result::ok).unwrap_or_default();
        let output = self.output.join("\n");
        format!("{why} ({status})\n{output}\n{stderr}\nwhat was left of it:\n{left}")
    }

    /// Kills the launcher and the ranks, and says what they did: a rank that outlives its launcher
    /// would keep the output open.
    fn kill(&self) -> String {
        kill_marked(&self.mark)
    }
}

impl Drop for Job {
    /// Lets the job end by itself, within a time limit.
    fn drop(&mut self) {
        self.await_end();
        self.kill();
        drop(self.child.wait());
    }
}

/// A rank's side: performs the commands that rank 0 reads from standard input, line by line.
/// `agree` distributes rank 0's line to all ranks, and an empty one at the end.
///
/// # Panics
///
/// If standard output is closed.
pub fn serve(is_first: bool, agree: impl Fn(String) -> String, mut act: impl FnMut(&str)) {
    let mut input = std::io::stdin().lines();
    loop {
        let own = if is_first {
            input.next().and_then(Result::ok).unwrap_or_default()
        } else {
            String::new()
        };
        let what = agree(own);
        if what.is_empty() {
            return;
        }
        act(&what);
        if is_first {
            let line = format!("{DONE}{what}\n");
            let told = std::io::stdout().write_all(line.as_bytes());
            told.expect("the test reads what is printed");
        }
    }
}
