//! The processes that are the ranks of a job, as children of the supervisor.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use pgas_core::config::launch;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::forward::{Forwarder, Stream};
use super::job::{JobHooks, Output, Part, SuperviseError, SuperviseOptions};
use super::sys::{self, Inheritance};

/// The connection that makes started ranks a job.
pub(super) enum Bond<'a> {
    /// The job's memory.
    Memory(BorrowedFd<'a>),
    /// One connection for each rank to the launcher that connects it with ranks of other hosts.
    Part {
        part: Part,
        sockets: Vec<UnixStream>,
    },
}

impl Bond<'_> {
    /// The descriptor that this host's rank number `index` inherits.
    fn descriptor(&self, index: u32) -> BorrowedFd<'_> {
        match self {
            Self::Memory(memory) => *memory,
            Self::Part { sockets, .. } => sockets[index as usize].as_fd(),
        }
    }
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

    fn signal(&self, signal: Signal) {
        // Not yet waited for, so the process is there, though it may have just ended; refused only
        // for a program that runs as another user.
        rustix::process::kill_process(self.pid(), signal).ok();
    }
}

impl Ranks {
    /// Starts the ranks of a job.
    pub(super) fn start(
        options: &SuperviseOptions,
        bond: &Bond<'_>,
        inheritance: Inheritance,
    ) -> Result<Self, SuperviseError> {
        let mut ranks = Self {
            running: Vec::new(),
        };
        for rank in 0..options.n_ranks {
            let mut command = command(options, rank, bond);
            sys::tie_child(&mut command, Some(bond.descriptor(rank)), inheritance);
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
    pub(super) fn forward(
        &mut self,
        output: Output,
        bond: &Bond<'_>,
        hooks: &mut dyn JobHooks,
    ) -> io::Result<Vec<Forwarder>> {
        let Output::Forward { prefix } = output else {
            return Ok(Vec::new());
        };
        let first = match bond {
            Bond::Memory(_) => 0,
            Bond::Part { part, .. } => part.first_rank,
        };
        let prefix = prefix.then_some(first);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        for process in &mut self.running {
            out.extend(process.child.stdout.take().map(OwnedFd::from));
            err.extend(process.child.stderr.take().map(OwnedFd::from));
        }
        let mut start = |stream, pipes| match hooks.sink(stream) {
            Some(sink) => Forwarder::start_to(stream, sink, pipes, prefix),
            None => Forwarder::start(stream, pipes, prefix),
        };
        Ok(vec![
            start(Stream::Output, out)?,
            start(Stream::Error, err)?,
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
        self.running
            .iter()
            .for_each(|process| process.signal(signal));
    }

    /// Sends `signal`, which this process's group has got, to every rank that has left the group,
    /// as `timeout(1)` and `setsid(1)` do.
    pub(super) fn signal_other_groups(&self, signal: Signal) {
        let group = rustix::process::getpgrp();
        let is_elsewhere = |pid| rustix::process::getpgid(Some(pid)).is_ok_and(|its| its != group);
        let running = self.running.iter();
        running
            .filter(|process| is_elsewhere(process.pid()))
            .for_each(|process| process.signal(signal));
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

fn end(mut child: Child) {
    // Both fail only if the process has already ended and been waited for.
    child.kill().ok();
    child.wait().ok();
}

fn command(options: &SuperviseOptions, rank: u32, bond: &Bond<'_>) -> Command {
    let mut command = Command::new(&options.program);
    if let Some(arg0) = &options.arg0 {
        command.arg0(arg0);
    }
    command
        .args(&options.args)
        .envs(options.env.iter().map(|(key, value)| (key, value)));
    match bond {
        Bond::Memory(memory) => command
            .env(launch::RANK_VARIABLE, rank.to_string())
            .env(launch::RANKS_VARIABLE, options.n_ranks.to_string())
            .env(launch::JOB_FD_VARIABLE, memory.as_raw_fd().to_string())
            .env(launch::JOB_ID_VARIABLE, &options.job_id),
        Bond::Part { part, .. } => command
            .env_remove(launch::RANK_VARIABLE)
            .env_remove(launch::RANKS_VARIABLE)
            .env("PMI_FD", bond.descriptor(rank).as_raw_fd().to_string())
            .env("PMI_RANK", (part.first_rank + rank).to_string())
            .env("PMI_SIZE", part.n_ranks.to_string())
            .env("MPI_LOCALRANKID", rank.to_string())
            .env("MPI_LOCALNRANKS", options.n_ranks.to_string()),
    };
    let has_input = rank == 0 && matches!(bond, Bond::Memory(_));
    command.stdin(if has_input {
        Stdio::inherit()
    } else {
        Stdio::null()
    });
    if let Output::Forward { .. } = options.output {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    command
}
