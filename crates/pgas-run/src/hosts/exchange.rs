//! The thread of a host that answers its ranks and listens to the launcher.

use std::io::{self, BufRead as _, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use pgas_smp::launcher;
use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;

use super::pmi::{ALL_HERE, Answer};
use super::ranks::Shared;
use super::wire::{Found, Frame, Inbox, Kind};

/// The time that ranks have to end after SIGTERM when the launcher is gone, and then this process.
const LAST_WORDS: Duration = Duration::from_millis(500);
const LAST_CHANCE: Duration = Duration::from_secs(5);
/// The longest line of a rank.
const MAX_LINE: usize = 64 << 10;

/// The thread that answers the ranks and listens to the launcher.
pub(super) struct Exchange {
    pub(super) shared: Arc<Shared>,
    pub(super) inbox: Inbox,
    pub(super) first_rank: u32,
    /// Each rank's socket and the beginning of an incomplete line; `None` once it is closed.
    pub(super) ranks: Vec<Option<(UnixStream, Vec<u8>)>>,
}

impl Exchange {
    pub(super) fn run(&mut self) {
        let Err(error) = self.serve();
        // Nobody may be left to read this.
        launcher::tell(&format!(
            "the launcher is gone ({error}); ending its ranks here"
        ));
        end_self(Signal::TERM);
        thread::sleep(LAST_WORDS);
        end_self(Signal::TERM);
        thread::sleep(LAST_CHANCE);
        // The kernel ends the ranks with their parent.
        end_self(Signal::KILL);
    }

    fn serve(&mut self) -> io::Result<std::convert::Infallible> {
        // Some messages may have arrived with the job.
        self.obey()?;
        loop {
            let link = &self.shared.link;
            let mut fds = vec![PollFd::new(link, PollFlags::IN)];
            let open = self.ranks.iter().flatten();
            fds.extend(open.map(|(socket, _)| PollFd::new(socket, PollFlags::IN)));
            launcher::poll(&mut fds, None)?;
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            if ready[0] {
                if self.inbox.fill(&self.shared.link)? == Found::Over {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                self.obey()?;
            }
            let open = (0..self.ranks.len()).filter(|index| self.ranks[*index].is_some());
            let open: Vec<usize> = open.collect();
            for (index, is_ready) in open.into_iter().zip(&ready[1..]) {
                if *is_ready {
                    self.hear(index)?;
                }
            }
        }
    }

    /// Carries out the launcher's messages.
    fn obey(&mut self) -> io::Result<()> {
        while let Some(frame) = self.inbox.next()? {
            match frame.kind {
                Kind::Fence => {
                    self.shared.space().learn(&frame.fields);
                    // Ranks make their memory between two barriers.
                    self.shared.look_for_memory(self.ranks.len());
                    for index in 0..self.ranks.len() {
                        self.tell(index, ALL_HERE);
                    }
                }
                Kind::Signal => {
                    if let Some(signal) = Signal::from_named_raw(frame.code().0) {
                        end_self(signal);
                    }
                }
                Kind::Job
                | Kind::Came
                | Kind::Failed
                | Kind::Ended
                | Kind::Look
                | Kind::Alive
                | Kind::Figures => {}
            }
        }
        Ok(())
    }

    /// Reads from a rank, and answers it.
    fn hear(&mut self, index: usize) -> io::Result<()> {
        let Some((socket, received)) = &mut self.ranks[index] else {
            return Ok(());
        };
        let mut chunk = [0; 4096];
        match socket.read(&mut chunk) {
            Ok(n @ 1..) if received.len() + n <= MAX_LINE => {
                received.extend_from_slice(&chunk[..n]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Its process has ended, or does not speak PMI.
            Ok(_) | Err(_) => {
                self.ranks[index] = None;
                return self.tell_of_missed();
            }
        }
        let end = received.iter().rposition(|byte| *byte == b'\n');
        let lines: Vec<u8> = received.drain(..end.map_or(0, |end| end + 1)).collect();
        for line in lines.lines() {
            let line = line.unwrap_or_default();
            let (answer, has_met) = {
                let mut space = self.shared.space();
                (space.answer(index, &line), space.has_met())
            };
            match answer {
                Answer::Line(answer) => self.tell(index, &answer),
                Answer::Later if has_met => {}
                Answer::Later => {
                    let rank = self.first_rank as usize + index;
                    let came = Frame::new(Kind::Came, [rank.to_string()]);
                    self.shared.send(&came)?;
                }
                Answer::AllHere => {
                    let fresh = self.shared.space().take_fresh();
                    self.shared.send(&Frame::new(Kind::Fence, fresh))?;
                }
                Answer::Abort(code) => {
                    let text = format!("a rank has ended the job with code {code}");
                    self.shared
                        .send(&Frame::of_code(Kind::Failed, code, &text))?;
                }
            }
        }
        self.tell_of_missed()
    }

    /// Fails the job if ranks of this host wait for one in a barrier that is gone.
    fn tell_of_missed(&self) -> io::Result<()> {
        let is_gone = |index: usize| self.ranks[index].is_none();
        let missed = self.shared.space().take_missed(is_gone);
        missed.map_or(Ok(()), |missed| {
            let rank = self.first_rank as usize + missed;
            let text = format!("rank {rank} has finalized while others wait for it in a barrier");
            self.shared.send(&Frame::of_code(Kind::Failed, 1, &text))
        })
    }

    fn tell(&mut self, index: usize, line: &str) {
        let rank = self.ranks[index].as_mut();
        let told = rank.map(|(socket, _)| socket.write_all(format!("{line}\n").as_bytes()));
        if matches!(told, Some(Err(_))) {
            self.ranks[index] = None;
        }
    }
}

/// Sends a signal to this process, whose supervisor passes it on to the ranks.
fn end_self(signal: Signal) {
    // This does not fail: the process is this one.
    rustix::process::kill_process(rustix::process::getpid(), signal).ok();
}
