//! The hosts of a job, as the launcher knows them: for each an agent and a connection.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pgas_smp::launcher::{Forwarder, SignalWatch, Stream, allow_descriptors};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, getpid, set_child_subreaper};

use super::invitation::Invitation;
use super::list::Host;
use super::wire::{Frame, Inbox};
use crate::watch::View;

/// The time that killed processes of an agent get to end before the launcher does.
const PATIENCE: Duration = Duration::from_millis(500);

/// A host of the job.
pub(super) struct Member {
    pub(super) host: Host,
    pub(super) first_rank: u32,
    /// Its agent, and how it has ended.
    pub(super) child: Child,
    pub(super) ended: OwnedFd,
    pub(super) status: Option<ExitStatus>,
    pub(super) link: Option<(TcpStream, Inbox)>,
    /// When it was last heard.
    pub(super) heard: Instant,
    /// Whether it has ever connected.
    pub(super) has_come: bool,
    /// Its ranks that wait for the others at the start, in the order of their coming.
    pub(super) came: Vec<u32>,
    /// The pairs that its ranks have put, while they wait for those of other hosts.
    pub(super) said: Option<Vec<Vec<u8>>>,
    /// The exit code of its ranks, when they have ended.
    pub(super) code: Option<i32>,
    /// When its agent had ended before the host had said that its ranks have.
    pub(super) left: Option<Instant>,
}

/// How long the messages of a host are waited for when its agent has ended: the network may have
/// lost one, and send it again.
const LAST_WORDS: Duration = Duration::from_secs(5);

impl Member {
    fn new(host: Host, first_rank: u32, mut child: Child) -> io::Result<Self> {
        let ended = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        let ended = ended.inspect_err(|_| {
            child.kill().ok();
        })?;
        Ok(Self {
            host,
            first_rank,
            child,
            ended,
            status: None,
            link: None,
            heard: Instant::now(),
            has_come: false,
            came: Vec::new(),
            said: None,
            code: None,
            left: None,
        })
    }

    /// Kills the agent and what it has started here.
    pub(super) fn kill(&self) {
        if self.status.is_none() {
            // Not waited for, so it is there, though it may have just ended.
            rustix::process::kill_process_group(Pid::from_child(&self.child), Signal::KILL).ok();
        }
    }

    /// Whether its agent is still there, or a message of the host may be on its way.
    pub(super) fn is_awaited(&self) -> bool {
        self.status.is_none() || self.may_speak()
    }

    /// A host that has said that its ranks have ended has no more to say.
    fn may_speak(&self) -> bool {
        self.link.is_some() && self.code.is_none()
    }

    /// The time until which it must be heard again.
    pub(super) fn silent_at(&self, silence: Option<Duration>) -> Option<Instant> {
        let due = silence.and_then(|silence| self.heard.checked_add(silence));
        due.filter(|_| self.may_speak())
    }

    /// The time until which its messages are waited for, if its agent has ended.
    pub(super) fn mute_at(&self) -> Option<Instant> {
        let left = self.left.filter(|_| self.may_speak())?;
        Some(left + LAST_WORDS)
    }

    /// Sends to the host, if it is connected.
    pub(super) fn send(&self, frame: &Frame) -> io::Result<()> {
        let link = self.link.as_ref();
        link.map_or(Ok(()), |(link, _)| frame.send(link))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
        self.child.wait().ok();
        end_group(Pid::from_child(&self.child));
    }
}

/// Ends what an agent has left behind in its process group, the orphans of which are this process's
/// children.
fn end_group(agent: Pid) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match rustix::process::waitpgid(agent, WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            // One is alive, so the group has not been given to others.
            Ok(None) if Instant::now() < deadline => {
                rustix::process::kill_process_group(agent, Signal::KILL).ok();
                thread::sleep(Duration::from_millis(1));
            }
            Ok(None) | Err(_) => return,
        }
    }
}

/// Starts an agent for each host, and sends it the invitation. This process becomes the parent of
/// the processes that the agents leave behind.
pub(super) fn start(
    hosts: &[Host],
    invitations: &[Invitation],
    agent: &[OsString],
    signals: &SignalWatch,
) -> Result<Vec<Member>, Box<dyn Error>> {
    let program = own_path()?;
    set_child_subreaper(Some(getpid()))?;
    let (agent, options) = agent.split_first().ok_or("--agent: no command")?;
    // For each host: three pipes, a descriptor that shows the end of the agent, and the connection.
    let descriptors = allow_descriptors(5 * hosts.len() as u64)?;
    let mut members = Vec::new();
    let mut first_rank = 0;
    for (host, invitation) in hosts.iter().zip(invitations) {
        let mut command = Command::new(agent);
        command
            .args(options)
            .arg(&host.name)
            .arg(&program)
            .arg("--serve-host")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // The terminal's signals are for the launcher alone.
            .process_group(0);
        signals.tie(&mut command, descriptors);
        let child = command.spawn().map_err(|error| {
            format!(
                "cannot start the agent {}: {error}",
                agent.to_string_lossy()
            )
        })?;
        let mut member = Member::new(host.clone(), first_rank, child)?;
        if let Some(input) = &mut member.child.stdin {
            // Fails if the agent has ended already, which is noticed by itself.
            input.write_all(invitation.to_text().as_bytes()).ok();
        }
        first_rank += host.n_ranks;
        members.push(member);
    }
    Ok(members)
}

/// The path of this program, which hosts have at the same path.
fn own_path() -> Result<PathBuf, String> {
    let path = env::current_exe().map_err(|error| format!("cannot tell where I am: {error}"))?;
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+:@%".contains(letter);
    match path.to_str() {
        Some(text) if text.chars().all(is_plain) => Ok(path),
        _ => Err(format!(
            "a shell on a host would not take {} for one word: put pgas-run elsewhere",
            path.display()
        )),
    }
}

/// Passes on the output of the agents, which is that of their ranks, above the view if there is
/// one.
pub(super) fn forward(members: &mut [Member], view: &View) -> io::Result<Vec<Forwarder>> {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    for member in members {
        out.extend(member.child.stdout.take().map(OwnedFd::from));
        err.extend(member.child.stderr.take().map(OwnedFd::from));
    }
    let start = |stream, pipes| match view.sink(stream) {
        Some(sink) => Forwarder::start_to(stream, sink, pipes, None),
        None => Forwarder::start(stream, pipes, None),
    };
    Ok(vec![
        start(Stream::Output, out)?,
        start(Stream::Error, err)?,
    ])
}
