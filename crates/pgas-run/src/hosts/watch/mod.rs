//! The launcher's loop: messages of hosts, ends of agents, and actions that are due.

mod ending;

use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pgas_core::stats::Board;
use pgas_network::lifeline::set_limits;
use pgas_smp::launcher::{self, Forwarder, SignalWatch};
use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;

use self::ending::Phase;
use super::door::{Door, Guest, cannot_accept};
use super::figures;
use super::job::Job;
use super::meeting::Meeting;
use super::members::Member;
use super::shown::Shown;
use super::wanted::Wanted;
use super::wire::{Found, Frame, Inbox, Kind, WRITING};
use crate::watch::View;

/// A wait that ends so much later than it should: this process was stopped.
const LATE: Duration = Duration::from_secs(1);

/// A job on its way to its end.
pub(super) struct Watch<'a> {
    wanted: &'a Wanted,
    /// The working directory of the ranks.
    folder: PathBuf,
    signals: &'a SignalWatch,
    door: Door,
    members: Vec<Member>,
    /// They pass on the output of all agents.
    pub(super) forwarders: Vec<Forwarder>,
    meeting: Meeting,
    started: Instant,
    /// When the last host said that its ranks have ended, or this process went on after a stop.
    settled: Instant,
    /// The job's exit code, once something has ended it.
    verdict: Option<u8>,
    /// Before there is a verdict: that of a host whose ranks have failed because of another one.
    suspected: Option<(u8, String)>,
    phase: Phase,
    /// The first signal that asked the job to end, and when.
    asked_to_end: Option<(i32, Instant)>,
    view: View,
    /// The interval at which the job is shown, and its pictures, if it is watched.
    every: Option<Duration>,
    shown: Option<Shown>,
    /// What ranks have counted.
    figures: Vec<Board>,
    /// The sentence of the verdict.
    outcome: String,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        (wanted, folder): (&'a Wanted, PathBuf),
        signals: &'a SignalWatch,
        door: Door,
        (members, forwarders): (Vec<Member>, Vec<Forwarder>),
        view: View,
    ) -> Self {
        let every = wanted
            .watch
            .map(|every| every.unwrap_or(view.usual_pause()));
        Self {
            shown: every.map(|every| Shown::new(&wanted.hosts, every)),
            every,
            view,
            wanted,
            folder,
            signals,
            door,
            members,
            forwarders,
            meeting: Meeting::new(),
            started: Instant::now(),
            settled: Instant::now(),
            verdict: None,
            suspected: None,
            phase: Phase::Running,
            asked_to_end: None,
            figures: Vec::new(),
            outcome: String::new(),
        }
    }

    /// Stays until all hosts have ended, and returns the job's exit code.
    pub(super) fn until_all_have_ended(&mut self) -> io::Result<u8> {
        while self.members.iter().any(Member::is_awaited) {
            if matches!(self.phase, Phase::Over) {
                break;
            }
            // Before the wait, so that what has come while this process was stopped is heard first.
            let before = Instant::now();
            let ready = self.wait()?;
            let mut ready = ready.into_iter();
            let mut next = || ready.next() == Some(true);
            let signalled = next();
            let callers: Vec<bool> = self.door.listeners.iter().map(|_| next()).collect();
            let ended: Vec<bool> = self.members.iter().map(|_| next()).collect();
            let heard: Vec<bool> = self
                .members
                .iter()
                .map(|m| m.link.is_some() && next())
                .collect();
            let strangers: Vec<bool> = self.door.strangers.iter().map(|_| next()).collect();
            if signalled {
                self.receive_signals()?;
            }
            // Those that were polled; accepting adds to them.
            for guest in self.door.meet(&strangers) {
                self.welcome(guest);
            }
            self.accept(&callers);
            // Messages first: one of a host explains the end of its agent.
            for index in 0..self.members.len() {
                if heard[index] {
                    self.hear(index);
                }
                if ended[index] && self.members[index].status.is_none() {
                    self.take_leave(index)?;
                }
            }
            self.lose_the_silent(before);
            self.advance();
        }
        self.tell_suspected();
        Ok(self.verdict.unwrap_or(0))
    }

    fn n_ranks(&self) -> u32 {
        let last = self.members.last();
        last.map_or(0, |last| last.first_rank + last.host.n_ranks)
    }

    /// Reports the figures of a job that has failed.
    pub(super) fn report(&self) {
        if self.verdict.is_some() {
            let print = &mut |text: &str| launcher::print(text, self.signals, true);
            figures::report(&self.figures, self.n_ranks(), &self.outcome, print);
        }
    }

    /// Waits for an event. Returns for each descriptor whether it is ready, in the order in which
    /// the loop above reads them.
    fn wait(&mut self) -> io::Result<Vec<bool>> {
        let mut fds = vec![PollFd::new(self.signals, PollFlags::IN)];
        let watch = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        fds.extend(
            self.door
                .listeners
                .iter()
                .map(|listener| watch(listener.as_fd())),
        );
        // One that was waited for stays ready: its place is that of a listener, and not looked at.
        let idle = self.signals.as_fd();
        fds.extend(self.members.iter().map(|member| match member.status {
            None => watch(member.ended.as_fd()),
            Some(_) => PollFd::from_borrowed_fd(idle, PollFlags::empty()),
        }));
        let links = self
            .members
            .iter()
            .filter_map(|member| member.link.as_ref());
        fds.extend(links.map(|(link, _)| watch(link.as_fd())));
        fds.extend(
            self.door
                .strangers
                .iter()
                .map(|other| watch(other.stream.as_fd())),
        );
        let (time_left, began) = (self.time_left(), Instant::now());
        launcher::poll(&mut fds, time_left)?;
        let ready = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let (waited, latest) = (
            began.elapsed(),
            time_left.map(|left| left.saturating_add(LATE)),
        );
        if latest.is_some_and(|latest| waited > latest) {
            self.was_stopped_for(waited);
        }
        Ok(ready)
    }

    /// Lengthens the time in which hosts must give a sign of life, or their last one, by that in
    /// which this process was stopped, or may have been: they may have been stopped with it.
    fn was_stopped_for(&mut self, stopped: Duration) {
        let now = Instant::now();
        self.settled = now;
        for member in &mut self.members {
            member.heard = now.min(member.heard + stopped);
            member.left = member.left.map(|left| now.min(left + stopped));
        }
    }

    fn receive_signals(&mut self) -> io::Result<()> {
        while let Some(received) = self.signals.next()? {
            let signal = received.signal;
            if signal == Signal::CHILD.as_raw() {
                continue;
            }
            if launcher::asks_to_end(signal) {
                self.end_requested(signal);
            } else if Signal::from_named_raw(signal) == Some(Signal::TSTP) {
                self.view.hide(true);
                let began = Instant::now();
                let stopped = launcher::stop_self();
                self.view.hide(false);
                stopped?;
                self.was_stopped_for(began.elapsed());
            } else {
                self.broadcast(&Frame::of_code(Kind::Signal, signal, ""));
            }
        }
        Ok(())
    }

    fn broadcast(&mut self, frame: &Frame) {
        for index in 0..self.members.len() {
            if self.members[index].code.is_some() {
                continue;
            }
            match self.members[index].send(frame) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let text = format!("it has read nothing for {} s", WRITING.as_secs());
                    self.lose(index, &io::Error::other(text));
                }
                // The kernel has given it up. What receives would see no more than an end.
                Err(error) if error.kind() == io::ErrorKind::TimedOut => self.lose(index, &error),
                // What receives notices any other end of a connection, behind the host's last
                // words.
                Ok(()) | Err(_) => {}
            }
        }
    }

    /// Accepts connections at the listeners that are `ready`. If there is no descriptor for one,
    /// the job fails, unless all hosts have come.
    fn accept(&mut self, ready: &[bool]) {
        let ready = ready.iter().enumerate().filter(|(_, calls)| **calls);
        for (index, _) in ready {
            if let Err(shortage) = self.door.accept(index) {
                // Its listeners would be ready again and again.
                self.door.close();
                if self.members.iter().any(|member| !member.has_come) {
                    self.fail(1, &cannot_accept(&shortage));
                }
                return;
            }
        }
    }

    /// Accepts a host the first time that it connects.
    fn welcome(&mut self, guest: Guest) {
        let member = &self.members[guest.host];
        if member.has_come {
            guest.turn_away();
            let (host, from) = (&member.host.name, guest.from);
            let line = format!("host {host}: refused a second agent, at {from}");
            self.view.tell(&line);
            return;
        }
        let host = guest.host;
        if let Err(error) = self.take_in(guest) {
            self.fail_of(host, 1, &format!("cannot be told its part: {error}"));
        }
    }

    fn take_in(&mut self, guest: Guest) -> io::Result<()> {
        guest.stream.set_write_timeout(Some(WRITING))?;
        guest.stream.set_nodelay(true)?;
        if let Some(silence) = self.wanted.silence {
            set_limits(&guest.stream, silence)?;
        }
        let n_ranks = self.n_ranks();
        let member = &mut self.members[guest.host];
        let stream = guest.welcome()?;
        let job = Job {
            name: format!("pgas-{}", std::process::id()),
            first_rank: member.first_rank,
            n_here: member.host.n_ranks,
            n_ranks,
            prefix: self.wanted.prefix,
            watch: self.every,
            folder: self.folder.clone(),
            command: self.wanted.command.clone(),
            env: self.wanted.env.clone(),
        };
        member.has_come = true;
        self.meeting.host_came();
        job.to_frame().send(&stream)?;
        member.link = Some((stream, Inbox::default()));
        member.heard = Instant::now();
        Ok(())
    }

    /// Reads messages of a host.
    fn hear(&mut self, index: usize) {
        let Some((link, inbox)) = &mut self.members[index].link else {
            return;
        };
        let found = inbox.fill(link);
        self.members[index].heard = Instant::now();
        loop {
            let frame = self.members[index]
                .link
                .as_mut()
                .map(|(_, inbox)| inbox.next());
            match frame {
                Some(Ok(Some(frame))) => self.heed(index, frame),
                Some(Err(error)) => {
                    self.lose(index, &error);
                    return;
                }
                Some(Ok(None)) | None => break,
            }
        }
        match found {
            Ok(Found::Open) => {}
            Ok(Found::Over) => self.lose(index, &io::ErrorKind::UnexpectedEof.into()),
            Err(error) => self.lose(index, &error),
        }
    }

    /// Gives up hosts of which nothing had been heard for too long at `now`. The system notices a
    /// host that is gone; a process that is stopped keeps its connection. So does a host that goes
    /// on without its agent.
    fn lose_the_silent(&mut self, now: Instant) {
        for index in 0..self.members.len() {
            let member = &self.members[index];
            let is_past = |due: Option<Instant>| due.is_some_and(|due| now >= due);
            if is_past(member.mute_at()) {
                self.lose(index, &io::ErrorKind::WouldBlock.into());
            } else if is_past(member.silent_at(self.wanted.silence)) {
                self.lose(index, &io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// Handles the end of a connection: in good order, if the host's ranks have ended before.
    fn lose(&mut self, index: usize, error: &io::Error) {
        self.members[index].link = None;
        if self.members[index].code.is_some() {
            return;
        }
        let cause = match (error.kind(), self.wanted.silence) {
            (io::ErrorKind::TimedOut | io::ErrorKind::HostUnreachable, Some(silence)) => {
                let seconds = silence.as_secs_f64();
                format!("nothing was heard of it for {seconds} s (PGAS_SILENCE)")
            }
            // Its agent has ended, and no message of it has arrived in time.
            (
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::WouldBlock,
                _,
            ) => "its agent has ended early".to_owned(),
            _ => format!("the connection to it is lost: {error}"),
        };
        self.fail_of(index, 1, &cause);
        // The agent here may wait for a host that is gone.
        self.members[index].kill();
    }

    fn heed(&mut self, index: usize, frame: Frame) {
        match frame.kind {
            Kind::Came => {
                let rank = frame.fields.first();
                let rank = rank.and_then(|rank| str::from_utf8(rank).ok()?.parse().ok());
                self.members[index].came.extend::<Option<u32>>(rank);
                self.meeting.rank_came();
            }
            Kind::Fence => {
                self.meeting.rank_came();
                self.members[index].said = Some(frame.fields);
                self.close_fence();
            }
            Kind::Failed => self.heed_failure(index, &frame),
            Kind::Ended => {
                let (code, _) = frame.code();
                self.members[index].code = Some(code);
                self.settled = Instant::now();
                if let Some(shown) = &mut self.shown {
                    shown.end(index, code == 0);
                }
                match code {
                    0 => self.close_fence(),
                    _ => self.heed_failure(index, &frame),
                }
                self.part_with(index);
            }
            Kind::Look => {
                if let Some(shown) = &mut self.shown {
                    shown.take(index, &frame.fields);
                }
            }
            Kind::Figures => self.figures.extend(figures::of_frame(&frame)),
            Kind::Job | Kind::Signal | Kind::Alive => {}
        }
    }

    /// Sends all ranks' pairs to all hosts, if all ranks are in the barrier. Ends the job if ranks
    /// wait there for some that have ended.
    fn close_fence(&mut self) {
        if self.members.iter().all(|member| member.said.is_some()) {
            let said = self
                .members
                .iter_mut()
                .filter_map(|member| member.said.take());
            let all: Vec<Vec<u8>> = said.flatten().collect();
            self.meeting.end();
            self.broadcast(&Frame::new(Kind::Fence, all));
            return;
        }
        let waiting = self.members.iter().find(|member| member.said.is_some());
        let ended = self
            .members
            .iter()
            .position(|m| m.code.is_some() && m.said.is_none());
        if let (Some(waiting), Some(ended)) = (waiting, ended) {
            let waiting = &waiting.host.name;
            let cause = format!("its ranks have ended without those of host {waiting}, which wait");
            self.fail_of(ended, 1, &cause);
        }
    }

    /// Handles the end of an agent. Messages that explain it may come later.
    fn take_leave(&mut self, index: usize) -> io::Result<()> {
        let member = &mut self.members[index];
        member.status = Some(member.child.wait()?);
        member.left = Some(Instant::now());
        self.part_with(index);
        Ok(())
    }

    /// Judges the end of a host of which no more will come, if it has ended.
    fn part_with(&mut self, index: usize) {
        let member = &mut self.members[index];
        let Some(status) = member.status.filter(|_| !member.is_awaited()) else {
            return;
        };
        let when = match (member.code, member.has_come) {
            (None, true) => Some("early"),
            (None, false) => Some("before it had connected"),
            // Its exit code is that of the ranks, unless it was lost with a part of their output.
            (Some(0), _) if !status.success() => Some("without all of its ranks' output"),
            (Some(_), _) => None,
        };
        if let Some(when) = when {
            let agent: Vec<_> = self
                .wanted
                .agent
                .iter()
                .map(|word| word.to_string_lossy())
                .collect();
            let agent = agent.join(" ");
            let cause = format!("its agent ({agent}) has ended {when}: {status}");
            self.fail_of(index, 1, &cause);
        }
        self.members[index].link = None;
    }
}
