//! The ranks of a host, as its supervisor and the thread that answers them know them.

use std::io;
use std::net::TcpStream;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use pgas_smp::Observer;
use pgas_smp::launcher::{self, Failure, JobHooks, Outcome};
use rustix::event::{PollFd, PollFlags};

use super::exchange::Exchange;
use super::figures;
use super::look::Regular;
use super::pmi::{Space, Stage};
use super::wire::{Frame, Inbox, Kind, WRITING};
use crate::watch::find::job_of;

/// The state that both threads of this process share.
pub(super) struct Shared {
    pub(super) link: TcpStream,
    writing: Mutex<()>,
    space: Mutex<Space>,
    /// The memory that the ranks share, once they have made it: it has the first failure.
    memory: Mutex<Option<Observer>>,
}

impl Shared {
    pub(super) fn new(link: TcpStream, space: Space) -> Arc<Self> {
        Arc::new(Self {
            link,
            writing: Mutex::new(()),
            space: Mutex::new(space),
            memory: Mutex::new(None),
        })
    }

    fn memory(&self) -> MutexGuard<'_, Option<Observer>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for the memory that the ranks share, `n_here` of them.
    pub(super) fn look_for_memory(&self, n_here: usize) {
        let mut memory = self.memory();
        if memory.is_none() {
            // The ranks are children of this process.
            let found = job_of(std::process::id()).ok().flatten();
            // In tests several hosts may be one.
            *memory = found.filter(|observer| observer.n_ranks() as usize == n_here);
        }
    }

    /// Sends what the ranks have counted, as far as their memory is known.
    pub(super) fn send_figures(&self) {
        let boards = self.memory().as_ref().map(Observer::boards);
        let boards = boards.and_then(Result::ok).unwrap_or_default();
        for frame in boards.iter().filter_map(figures::to_frame) {
            // A launcher that is gone is noticed by the thread that listens to it.
            self.send(&frame).ok();
        }
    }

    pub(super) fn send(&self, frame: &Frame) -> io::Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        frame.send(&self.link)
    }

    /// Whether the launcher reads what this host sends.
    pub(super) fn has_room(&self) -> bool {
        let mut fds = [PollFd::new(&self.link, PollFlags::OUT)];
        launcher::poll(&mut fds, Some(Duration::ZERO)).is_ok()
            && fds[0].revents().contains(PollFlags::OUT)
    }

    pub(super) fn space(&self) -> MutexGuard<'_, Space> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The hooks of the supervisor.
pub(super) struct Local {
    pub(super) shared: Arc<Shared>,
    pub(super) ranks: Range<u32>,
    /// The bytes that have arrived from the launcher, for the thread that listens to it.
    pub(super) inbox: Option<Inbox>,
    /// The interval at which the launcher wants the state of the ranks.
    pub(super) watch: Option<Duration>,
    /// The longest time without a sign of life.
    pub(super) silence: Option<Duration>,
    pub(super) regular: Vec<Regular>,
}

impl Local {
    /// The first failure that the ranks' memory names, to be read after "rank 3". Ranks of other
    /// hosts have numbers beyond those of this host.
    fn first_failure(&self) -> Option<(u32, String)> {
        self.shared.memory().as_ref()?.failure().ok()?
    }

    fn n_here(&self) -> u32 {
        self.ranks.end - self.ranks.start
    }

    /// The first failure as a sentence, if it is not that of the rank at `index`.
    pub(super) fn first_failure_beside(&self, index: u32) -> Option<String> {
        let (number, cause) = self.first_failure()?;
        let rank = match number.checked_sub(self.n_here()) {
            Some(rank) => rank,
            None => self.ranks.start + number,
        };
        (number != index).then(|| format!("rank {rank} {cause}"))
    }

    /// The outcome with the rank's number in the job.
    pub(super) fn in_the_job(&self, failure: Failure) -> Outcome {
        let rank = self.ranks.start + failure.rank;
        Outcome::Failed(Failure { rank, ..failure })
    }
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

    fn culprit(&mut self) -> Option<(u32, String)> {
        let first = self.first_failure();
        first.filter(|(number, _)| *number < self.n_here())
    }

    fn on_end(&mut self, failure: Option<&Failure>) {
        let Some(failure) = failure else {
            return;
        };
        let first = self.first_failure_beside(failure.rank);
        let outcome = self.in_the_job(failure.clone());
        let code = i32::from(outcome.code());
        // A rank that had left in good order has reported its error itself.
        let has_left = self.left_before(failure.rank);
        let text = if has_left {
            String::new()
        } else {
            outcome.to_string()
        };
        let told = Frame::of_failure(Kind::Failed, code, &text, first.as_deref());
        // A launcher that is gone is noticed by the thread that listens to it.
        self.shared.send(&told).ok();
    }
}
