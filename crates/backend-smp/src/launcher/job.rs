//! The description of a job, the hooks of its owner, and the errors of its start.

use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::descriptors::limit_behind;
use super::forward::{self, Sink, Stream};
use super::outcome::{Failure, Outcome};

/// The description of a job.
#[derive(Clone, Debug)]
pub struct SuperviseOptions {
    /// The program that every rank runs; without a slash it is looked up in `PATH`.
    pub program: OsString,
    /// The name by which the program is called (`argv[0]`), if not `program`.
    pub arg0: Option<OsString>,
    /// The program's arguments.
    pub args: Vec<OsString>,
    /// Variables that the ranks see in addition to this process's.
    pub env: Vec<(OsString, OsString)>,
    /// The number of ranks, at least 1.
    pub n_ranks: u32,
    /// The destination of the ranks' output.
    pub output: Output,
    /// The job's name, for messages.
    pub job_id: String,
    /// The time limit of the job, after which it is ended.
    pub timeout: Option<Duration>,
    /// The time that the other ranks have to end by themselves when one has failed. Time in which
    /// one of them waits for a processor does not count, up to ten times as long.
    pub grace: Duration,
    /// The time that they have between SIGTERM and SIGKILL.
    pub kill_after: Duration,
}

impl SuperviseOptions {
    /// A job of `n_ranks` times `program`, without arguments and with the defaults: output is
    /// inherited, there is no time limit, and when a rank has failed the others have 300 ms to end
    /// by themselves and 500 ms more after SIGTERM.
    #[must_use]
    pub fn new(program: impl Into<OsString>, n_ranks: u32) -> Self {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            program: program.into(),
            arg0: None,
            args: Vec::new(),
            env: Vec::new(),
            n_ranks,
            output: Output::Inherit,
            job_id: format!("{}-{:x}", std::process::id(), now.as_nanos()),
            timeout: None,
            grace: Duration::from_millis(300),
            kill_after: Duration::from_millis(500),
        }
    }
}

/// The part of a job that is on this host, under a launcher that reaches several.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The job's number of the first rank here; the others follow it.
    pub first_rank: u32,
    /// The number of ranks in the whole job.
    pub n_ranks: u32,
}

/// The destination of the ranks' standard output and standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The ranks inherit this process's own; a terminal stays a terminal.
    Inherit,
    /// This process reads it from pipes and passes it on line by line.
    Forward {
        /// Whether each line begins with its rank, as in `[3] `.
        prefix: bool,
    },
}

/// The hooks by which the supervisor of a job asks and informs its owner, who knows the layout of
/// the job's memory.
pub trait JobHooks {
    /// All ranks were started. Threads that are started here leave the signals to the supervisor.
    /// Ranks of a [`Part`] ask by PMI-1, each on a socket of which this is the other end, in their
    /// order.
    ///
    /// # Errors
    ///
    /// A reason why the job cannot go on; then the ranks are ended.
    fn started(&mut self, ranks: Vec<UnixStream>) -> io::Result<()> {
        drop(ranks);
        Ok(())
    }

    /// The destination of the ranks' lines, if not this process's own stream. Asked before there
    /// are any.
    fn sink(&mut self, stream: Stream) -> Option<Sink> {
        let _ = stream;
        None
    }

    /// Tells the user a line of the launcher's own.
    fn tell(&mut self, line: &str) {
        forward::tell(line);
    }

    /// This process is about to be stopped from the terminal, or goes on after that.
    fn suspended(&mut self, is_suspended: bool) {
        let _ = is_suspended;
    }

    /// Whether `rank`, which exited with code 0, is missed by nobody: it was no longer a member of
    /// the job, or no rank has joined it so far. It is asked again while others go on.
    ///
    /// A rank that is missed is blamed if another one fails for it, or if others go on for more
    /// than two seconds: a program may end by `exit` on all ranks.
    fn left_properly(&mut self, rank: u32) -> bool {
        let _ = rank;
        true
    }

    /// Whether `rank`, which exited with a code other than 0, had left the job in good order
    /// before.
    ///
    /// Such a rank has reported its error itself. If that holds for all ranks that fail, nothing
    /// more is printed.
    fn left_before(&mut self, rank: u32) -> bool {
        let _ = rank;
        false
    }

    /// The rank, if any, that the job's memory names as the first to fail, and the cause, to be
    /// read after "rank 3".
    ///
    /// Ranks that end because another has failed may be seen to end before that one. It may not end
    /// at all (if it is stopped), or with code 0 (if it left although others still needed it).
    fn culprit(&mut self) -> Option<(u32, String)> {
        None
    }

    /// The bytes of memory that the ranks may fill together, if known.
    fn asked_for(&mut self) -> Option<u64> {
        None
    }

    /// The job is about to be ended, by a failure or, if `None`, from outside: the place to tell
    /// waiting ranks. Called at most once.
    fn on_end(&mut self, failure: Option<&Failure>) {
        let _ = failure;
    }

    /// All ranks have ended, and their output is written. `print` writes whole lines to standard
    /// error, unless its reader makes no room for them.
    fn ended(&mut self, outcome: &Outcome, print: &mut dyn FnMut(&str)) {
        let _ = (outcome, print);
    }
}

/// Hooks for a job of programs that know nothing of each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl JobHooks for NoHooks {}

/// The reason why a job could not be started or watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuperviseError {
    /// The program could not be started.
    #[error("cannot start {program:?}: {source}{}", limit_behind(source))]
    Start {
        /// The program's name.
        program: Box<str>,
        /// The system's reason.
        source: io::Error,
    },
    /// The output of the ranks could not be written.
    #[error("cannot write the output of the ranks: {0}")]
    Output(#[source] io::Error),
    /// A system call of the supervisor itself failed.
    #[error("cannot supervise the job: {}{}", .0, limit_behind(.0))]
    System(#[from] io::Error),
}
