//! Starting the ranks of a job and staying with them until the last has ended.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pgas_core::config::launch;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal};

use super::Memory;
use super::forward::{Forwarder, Stream};
use super::orphans::Orphans;
use super::outcome::{Failure, Outcome};
use super::signals::SignalWatch;
use super::sys::{self, Inheritance};
use super::watch::Watch;

/// What a job is made of.
#[derive(Clone, Debug)]
pub struct SuperviseOptions {
    /// The program that every rank runs; without a slash it is looked up in `PATH`.
    pub program: OsString,
    /// What the program sees as its own name, if not `program`.
    pub arg0: Option<OsString>,
    /// The program's arguments.
    pub args: Vec<OsString>,
    /// Variables that the ranks see in addition to this process's.
    pub env: Vec<(OsString, OsString)>,
    /// The number of ranks, at least 1.
    pub n_ranks: u32,
    /// What becomes of the ranks' output.
    pub output: Output,
    /// The job's name, for messages.
    pub job_id: String,
    /// After how long the job is ended, if it has not ended by then.
    pub timeout: Option<Duration>,
    /// How long the other ranks have to end by themselves when one has failed.
    pub grace: Duration,
    /// How long they have after SIGTERM, before SIGKILL.
    pub kill_after: Duration,
}

impl SuperviseOptions {
    /// A job of `n_ranks` times `program`, without arguments, with everything else as usual: output
    /// is inherited, there is no time limit, and when a rank has failed the others have 300 ms to
    /// end by themselves and 500 ms more after SIGTERM.
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

/// What becomes of the ranks' standard output and standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The ranks have this process's own; a terminal stays a terminal.
    Inherit,
    /// This process reads it from pipes and passes it on line by line.
    Forward {
        /// Whether each line begins with its rank, as in `[3] `.
        prefix: bool,
    },
}

/// What the supervisor of a job asks and tells its owner, who knows what is in the job's memory.
pub trait JobHooks {
    /// Whether `rank`, which exited with code 0, was no longer a member of the job.
    ///
    /// A rank that was is blamed if another one fails for it, or if others go on for more than two seconds: a
    /// program may end by `exit` on all ranks.
    fn left_properly(&mut self, rank: u32) -> bool {
        let _ = rank;
        true
    }

    /// Whether `rank`, which exited with a code other than 0, had left the job in good order before.
    ///
    /// Such a rank has said itself what was wrong, so if that holds for all that fail, nothing more is
    /// told.
    fn left_before(&mut self, rank: u32) -> bool {
        let _ = rank;
        false
    }

    /// The rank, if any, that the job's memory names as the first to fail, and what the ranks say of it,
    /// to be read after "rank 3".
    ///
    /// Ranks that end because another has failed may be seen to end before that one, which may not end at
    /// all (it is stopped), or well (it left although others still needed it).
    fn culprit(&mut self) -> Option<(u32, String)> {
        None
    }

    /// How many bytes of memory the ranks may fill together, as far as is known.
    fn asked_for(&mut self) -> Option<u64> {
        None
    }

    /// The job is about to be ended, by a failure or, if `None`, from outside: the place to tell
    /// waiting ranks. Called at most once.
    fn on_end(&mut self, failure: Option<&Failure>) {
        let _ = failure;
    }
}

/// Hooks for a job of programs that know nothing of each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl JobHooks for NoHooks {}

/// Why a job could not be started or watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuperviseError {
    /// The program could not be started.
    #[error("cannot start {program:?}: {source}")]
    Start {
        /// The program's name.
        program: Box<str>,
        /// The system's reason.
        source: io::Error,
    },
    /// What the ranks printed could not be written.
    #[error("cannot write the output of the ranks: {0}")]
    Output(#[source] io::Error),
    /// A system call of the supervisor itself failed.
    #[error("cannot supervise the job: {0}")]
    System(#[from] io::Error),
}

/// Starts the ranks of a job and stays until all of them have ended.
///
/// Rank 0 has this process's standard input, the others have none. Each rank finds its number, the
/// number of ranks and the descriptor of `memory` in its environment. Signals to this process are
/// passed on to the ranks; a second request to end within one job kills it.
///
/// When a rank fails, or exits with code 0 although `hooks` still counts it as a member, one line on
/// standard error names it; the others are given time to end by themselves, then SIGTERM, then
/// SIGKILL. Processes that the ranks left behind are killed at the end in any case.
///
/// To do so this process becomes the reaper of its descendants' orphans. It should do nothing else:
/// children that it starts elsewhere in the meantime count as the job's.
///
/// # Errors
///
/// [`SuperviseError::Start`] if the program cannot be run: no rank is left running then. The other
/// variants tell of failures of this process's own system calls, after which no rank is left either.
///
/// # Panics
///
/// If `options.n_ranks` is 0.
#[track_caller]
pub fn supervise(
    options: &SuperviseOptions,
    memory: &impl Memory,
    hooks: &mut dyn JobHooks,
) -> Result<Outcome, SuperviseError> {
    assert!(options.n_ranks > 0, "a job has at least one rank");
    let started = Instant::now();
    let signals = SignalWatch::start()?;
    let orphans = Orphans::adopt()?;
    let descriptors = allow_descriptors(options)?;
    let inheritance = Inheritance {
        mask: signals.previous_mask(),
        descriptors,
    };
    let mut ranks = Ranks::start(options, memory.descriptor(), inheritance)?;
    let forwarders = ranks.forward(options.output)?;
    let mut watch = Watch::new(options, started, &signals, &orphans, hooks);
    watch.until_all_have_ended(&mut ranks)?;
    orphans.kill();
    watch.until_all_is_written(forwarders)
}

/// Starts this very program `n_ranks` times, with the same arguments, as the ranks of a job.
///
/// For a program that was started without any launcher; it ends with the outcome's exit code.
///
/// # Errors
///
/// As for [`supervise`].
///
/// # Panics
///
/// If `n_ranks` is 0.
#[track_caller]
pub fn self_launch(
    n_ranks: u32,
    memory: &impl Memory,
    hooks: &mut dyn JobHooks,
) -> Result<Outcome, SuperviseError> {
    let mut options = SuperviseOptions::new("/proc/self/exe", n_ranks);
    let mut args = env::args_os();
    options.arg0 = args.next();
    options.args = args.collect();
    // As under `pgas-run`: lines of several ranks do not mix.
    options.output = Output::Forward { prefix: false };
    supervise(&options, memory, hooks)
}

/// The ranks that have not ended; dropping them kills them.
pub(super) struct Ranks {
    running: Vec<RankProcess>,
}

/// One process of the job.
pub(super) struct RankProcess {
    pub(super) rank: u32,
    pub(super) child: Child,
    /// Readable when the process has ended.
    pub(super) ended: OwnedFd,
}

impl RankProcess {
    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Ranks {
    fn start(
        options: &SuperviseOptions,
        memory: BorrowedFd<'_>,
        inheritance: Inheritance,
    ) -> Result<Self, SuperviseError> {
        let mut ranks = Self {
            running: Vec::new(),
        };
        for rank in 0..options.n_ranks {
            let mut command = command(options, rank, memory);
            sys::tie_child(&mut command, memory, inheritance);
            let child = command.spawn().map_err(|source| {
                let program = options.program.to_string_lossy().into();
                SuperviseError::Start { program, source }
            })?;
            let ended = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
            match ended {
                Ok(ended) => ranks.running.push(RankProcess { rank, child, ended }),
                Err(error) => {
                    end(child);
                    return Err(SuperviseError::System(error.into()));
                }
            }
        }
        Ok(ranks)
    }

    /// Starts to pass on the ranks' output, if their output comes here.
    fn forward(&mut self, output: Output) -> io::Result<Vec<Forwarder>> {
        let Output::Forward { prefix } = output else {
            return Ok(Vec::new());
        };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        for process in &mut self.running {
            out.extend(process.child.stdout.take().map(OwnedFd::from));
            err.extend(process.child.stderr.take().map(OwnedFd::from));
        }
        Ok(vec![
            Forwarder::start(Stream::Output, out, prefix)?,
            Forwarder::start(Stream::Error, err, prefix)?,
        ])
    }

    pub(super) fn running(&self) -> &[RankProcess] {
        &self.running
    }

    pub(super) fn running_mut(&mut self) -> &mut Vec<RankProcess> {
        &mut self.running
    }

    /// Sends `signal` to every rank that has not ended.
    pub(super) fn signal_all(&self, signal: Signal) {
        for process in &self.running {
            // Not yet waited for, so the process is there, though it may have just ended; refused
            // only for a program that runs as another user.
            rustix::process::kill_process(process.pid(), signal).ok();
        }
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        self.signal_all(Signal::KILL);
        self.running
            .drain(..)
            .for_each(|process| end(process.child));
    }
}

/// Raises this process's limit of open descriptors to what a large job takes, as far as that is
/// allowed, and gives the limit that the ranks shall keep.
fn allow_descriptors(options: &SuperviseOptions) -> io::Result<Rlimit> {
    /// What this process needs beside three a rank: its end, its output and its errors.
    const SPARE: u64 = 64;
    let before = rustix::process::getrlimit(Resource::Nofile);
    let needed = u64::from(options.n_ranks) * 3 + SPARE;
    if before.current.is_some_and(|current| current < needed) {
        let current = before.maximum.map_or(needed, |maximum| maximum.min(needed));
        rustix::process::setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(current),
                ..before
            },
        )?;
    }
    Ok(before)
}

fn end(mut child: Child) {
    // Both fail only if the process has already ended and been waited for.
    child.kill().ok();
    child.wait().ok();
}

fn command(options: &SuperviseOptions, rank: u32, memory: BorrowedFd<'_>) -> Command {
    let mut command = Command::new(&options.program);
    if let Some(arg0) = &options.arg0 {
        command.arg0(arg0);
    }
    command
        .args(&options.args)
        .env(launch::RANK_VARIABLE, rank.to_string())
        .env(launch::RANKS_VARIABLE, options.n_ranks.to_string())
        .env(launch::JOB_FD_VARIABLE, memory.as_raw_fd().to_string())
        .env(launch::JOB_ID_VARIABLE, &options.job_id)
        .envs(options.env.iter().map(|(key, value)| (key, value)))
        .stdin(if rank == 0 {
            Stdio::inherit()
        } else {
            Stdio::null()
        });
    if let Output::Forward { .. } = options.output {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    command
}
