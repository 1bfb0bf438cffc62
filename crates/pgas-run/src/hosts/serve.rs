//! A host's side of a job: `pgas-run --serve-host`, which an agent starts.

use std::env;
use std::error::Error;
use std::io::{self, BufRead as _, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pgas_network::lifeline::set_limits;
use pgas_smp::launcher::{self, Failure, JobHooks, Outcome, Output, Part, SuperviseOptions};
use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;

use super::invitation::{Invitation, is_same};
use super::job::Job;
use super::look::Regular;
use super::pmi::{ALL_HERE, Answer, Space, Stage};
use super::wire::{
    Found, Frame, HOST_TAKEN, Inbox, Kind, MAGIC, VERDICT_BYTES, WELCOME, WRITING, WRONG_TOKEN,
};
use crate::code::code_of;

/// The time limit of one attempt to connect to an address of the launcher.
const ATTEMPT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);
/// The time that ranks have to end after SIGTERM when the launcher is gone, and then this process.
const LAST_WORDS: Duration = Duration::from_millis(500);
const LAST_CHANCE: Duration = Duration::from_secs(5);
/// The longest line of a rank.
const MAX_LINE: usize = 64 << 10;

/// Joins the job of the launcher that standard input names, and stays until its ranks have ended.
pub(crate) fn serve() -> Result<ExitCode, Box<dyn Error>> {
    let invitation = Invitation::read(&mut io::stdin().lock())?;
    let link = connect(&invitation)?;
    let (job, inbox) = receive_job(&link, invitation.patience)?;
    // If the launcher is gone, that has been reported already.
    let tell = |kind, code: u8, text: &str| {
        drop(Frame::of_code(kind, i32::from(code), text).send(&link));
    };
    match run(job, invitation.silence, &link, inbox) {
        Ok(outcome) => {
            tell(Kind::Ended, outcome.code(), &outcome.to_string());
            Ok(outcome.exit_code())
        }
        Err(error) => {
            let code = code_of(&*error);
            tell(Kind::Failed, code, &error.to_string());
            tell(Kind::Ended, code, "");
            Ok(ExitCode::from(code))
        }
    }
}

/// Connects to the launcher at one of its addresses.
fn connect(invitation: &Invitation) -> Result<TcpStream, Box<dyn Error>> {
    let deadline = Instant::now() + invitation.patience;
    let mut last = None;
    loop {
        for address in &invitation.addresses {
            match introduce(invitation, *address) {
                Ok(link) => return Ok(link),
                Err(Refusal::Final(text)) => return Err(text.into()),
                Err(Refusal::Elsewhere(error)) => last = Some((address, error)),
            }
        }
        if Instant::now() >= deadline {
            break;
        }
        thread::sleep(PAUSE);
    }
    let seconds = invitation.patience.as_secs_f64();
    Err(match last {
        Some((address, error)) => {
            format!("cannot reach the launcher within {seconds} s, last at {address}: {error}")
        }
        None => "the launcher has told no address".to_owned(),
    }
    .into())
}

/// The reason why a connection is not one to the launcher.
enum Refusal {
    Final(String),
    /// Another address, or a later attempt, may succeed.
    Elsewhere(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Elsewhere(error)
    }
}

fn introduce(invitation: &Invitation, address: SocketAddr) -> Result<TcpStream, Refusal> {
    let mut link = TcpStream::connect_timeout(&address, ATTEMPT)?;
    link.set_read_timeout(Some(WRITING))?;
    link.set_write_timeout(Some(WRITING))?;
    link.set_nodelay(true)?;
    if let Some(silence) = invitation.silence {
        set_limits(&link, silence)?;
    }
    let [own, launcher] = &invitation.tokens;
    let mut hello = MAGIC.to_vec();
    hello.extend(own);
    hello.extend(invitation.host.to_le_bytes());
    link.write_all(&hello)?;
    let mut verdict = [0; VERDICT_BYTES];
    link.read_exact(&mut verdict)?;
    match verdict {
        [WELCOME, token @ ..] if is_same(&token, launcher) => Ok(link),
        [WRONG_TOKEN, ..] => Err(Refusal::Final(
            "the launcher refuses this host: its token is that of another job".to_owned(),
        )),
        [HOST_TAKEN, ..] => Err(Refusal::Final(format!(
            "the launcher refuses this host: another agent has come as host {} before",
            invitation.host
        ))),
        _ => Err(Refusal::Elsewhere(io::Error::other(
            "it is not the launcher",
        ))),
    }
}

/// Receives the job, the launcher's first message, and the bytes that have arrived behind it.
fn receive_job(link: &TcpStream, patience: Duration) -> Result<(Job, Inbox), Box<dyn Error>> {
    link.set_read_timeout(Some(patience.max(ATTEMPT)))?;
    let mut inbox = Inbox::default();
    let frame = loop {
        if let Some(frame) = inbox.next()? {
            break frame;
        }
        if inbox.fill(link)? == Found::Over {
            return Err("the launcher has ended the connection".into());
        }
    };
    link.set_read_timeout(None)?;
    let job = Job::of_frame(frame).filter(|job| job.n_here > 0);
    Ok((job.ok_or("the launcher has told no job")?, inbox))
}

/// Starts the ranks, and stays with them.
fn run(
    job: Job,
    silence: Option<Duration>,
    link: &TcpStream,
    inbox: Inbox,
) -> Result<Outcome, Box<dyn Error>> {
    env::set_current_dir(&job.folder)
        .map_err(|error| format!("cannot enter {}: {error}", job.folder.display()))?;
    let mut words = job.command.into_iter();
    let mut options = SuperviseOptions::new(words.next().unwrap_or_default(), job.n_here);
    options.args = words.collect();
    options.env = job.env;
    options.output = Output::Forward { prefix: job.prefix };
    let space = Space::new(job.name, job.n_ranks, job.n_here as usize);
    let shared = Arc::new(Shared {
        link: link.try_clone()?,
        writing: Mutex::new(()),
        space: Mutex::new(space),
    });
    let ranks = job.first_rank..job.first_rank.saturating_add(job.n_here);
    let mut hooks = Local {
        shared,
        ranks,
        inbox: Some(inbox),
        silence,
        watch: job.watch,
        regular: Vec::new(),
    };
    let part = Part {
        first_rank: job.first_rank,
        n_ranks: job.n_ranks,
    };
    Ok(launcher::supervise_part(&options, part, &mut hooks)?)
}

/// The state that both threads of this process share.
pub(super) struct Shared {
    link: TcpStream,
    writing: Mutex<()>,
    space: Mutex<Space>,
}

impl Shared {
    pub(super) fn send(&self, frame: &Frame) -> io::Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        frame.send(&self.link)
    }

    fn space(&self) -> MutexGuard<'_, Space> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The hooks of the supervisor.
struct Local {
    shared: Arc<Shared>,
    ranks: Range<u32>,
    /// The bytes that have arrived from the launcher, for the thread that listens to it.
    inbox: Option<Inbox>,
    /// The interval at which the launcher wants the state of the ranks.
    watch: Option<Duration>,
    /// The longest time without a sign of life.
    silence: Option<Duration>,
    regular: Vec<Regular>,
}

impl JobHooks for Local {
    fn started(&mut self, ranks: Vec<UnixStream>) -> io::Result<()> {
        for rank in &ranks {
            rank.set_write_timeout(Some(WRITING))?;
        }
        let inbox = self.inbox.take().unwrap_or_default();
        let ranks = ranks.into_iter().map(|rank| Some((rank, Vec::new())));
        let mut exchange = Exchange {
            shared: Arc::clone(&self.shared),
            inbox,
            first_rank: self.ranks.start,
            ranks: ranks.collect(),
        };
        let thread = thread::Builder::new().name("exchange".to_owned());
        thread.spawn(move || exchange.run())?;
        if let Some(silence) = self.silence {
            let lives = Regular::live(Arc::clone(&self.shared), silence)?;
            self.regular.push(lives);
        }
        if let Some(every) = self.watch {
            let shared = Arc::clone(&self.shared);
            let looks = Regular::look(shared, self.ranks.clone(), every)?;
            self.regular.push(looks);
        }
        Ok(())
    }

    fn left_properly(&mut self, rank: u32) -> bool {
        let space = self.shared.space();
        match space.stage(rank as usize) {
            Stage::Left => true,
            Stage::Joined => false,
            Stage::Silent => !space.is_in_use(),
        }
    }

    fn left_before(&mut self, rank: u32) -> bool {
        self.shared.space().stage(rank as usize) == Stage::Left
    }

    fn on_end(&mut self, failure: Option<&Failure>) {
        let Some(failure) = failure else {
            return;
        };
        let rank = self.ranks.start + failure.rank;
        let outcome = Outcome::Failed(Failure {
            rank,
            ..failure.clone()
        });
        let code = i32::from(outcome.code());
        // A rank that had left in good order has reported its error itself.
        let has_left = self.left_before(failure.rank);
        let text = if has_left {
            String::new()
        } else {
            outcome.to_string()
        };
        let told = Frame::of_code(Kind::Failed, code, &text);
        // A launcher that is gone is noticed by the thread that listens to it.
        self.shared.send(&told).ok();
    }
}

/// The thread that answers the ranks and listens to the launcher.
struct Exchange {
    shared: Arc<Shared>,
    inbox: Inbox,
    first_rank: u32,
    /// Each rank's socket and the beginning of an incomplete line; `None` once it is closed.
    ranks: Vec<Option<(UnixStream, Vec<u8>)>>,
}

impl Exchange {
    fn run(&mut self) {
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
                    for index in 0..self.ranks.len() {
                        self.tell(index, ALL_HERE);
                    }
                }
                Kind::Signal => {
                    if let Some(signal) = Signal::from_named_raw(frame.code().0) {
                        end_self(signal);
                    }
                }
                Kind::Job | Kind::Came | Kind::Failed | Kind::Ended | Kind::Look | Kind::Alive => {}
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
                return Ok(());
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
        Ok(())
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
