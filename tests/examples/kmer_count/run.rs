//! Running `kmer_count` with a deadline.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::program::program;

/// The time limit of one run; far more than any needs.
const DEADLINE: Duration = Duration::from_secs(300);

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The exit code, `None` after a signal.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A run that has not ended yet.
pub(crate) struct Running {
    child: Child,
    started: Instant,
    output: TempDir,
}

/// `kmer_count` with these arguments.
pub(crate) fn kmer_count<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(program("kmer_count"));
    command.args(args).stdin(Stdio::null());
    for name in ["PGAS_RANKS", "PGAS_SEGMENT", "PGAS_DIRECT"] {
        command.env_remove(name);
    }
    command
}

pub(crate) fn start(mut command: Command) -> Running {
    let output = tempfile::tempdir().unwrap();
    let file = |name| File::create(output.path().join(name)).unwrap();
    command.stdout(file("stdout")).stderr(file("stderr"));
    Running {
        child: command.spawn().unwrap(),
        started: Instant::now(),
        output,
    }
}

pub(crate) fn end(command: Command) -> Ended {
    start(command).end()
}

/// The standard output of a run that must succeed without an error message.
#[track_caller]
pub(crate) fn stdout(command: Command) -> String {
    let ended = end(command);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    ended.stdout
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn end(mut self) -> Ended {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if self.started.elapsed() > DEADLINE {
                self.child.kill().unwrap();
                panic!("kmer_count hangs: {}", self.read("stderr"));
            }
            thread::sleep(Duration::from_millis(2));
        };
        Ended {
            code: status.code(),
            stdout: self.read("stdout"),
            stderr: self.read("stderr"),
        }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.output.path().join(name)).unwrap()
    }
}

/// The names of the files in a directory, sorted.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
