//! A rank of a job that communicates over MPI: of several hosts, or of one with the direct path
//! off.
//!
//! The state of the network path.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pgas_core::backend::{Atomic, AtomicsBy, Backend, Call, Capabilities, Operand};
use pgas_core::{Config, Result};
use pgas_smp::Member;

use crate::barrier::Barrier;
use crate::collectives::Collectives;
use crate::flushes::Flushes;
use crate::mailbox::{MAX_MEDIUM, MAX_SHORT, Post};
use crate::ops::Ops;
use crate::session::Session;
use crate::settings;
use crate::staging::Staging;
use crate::sys::{self, Inside, Mpi, Window};
use crate::window;
use pgas_network::failure::FirstFailure;
use pgas_network::host::Host;
use pgas_network::neighbours::{Neighbours, Reach};
use pgas_network::note::Note;
use pgas_network::park::Parking;
use pgas_network::questions::Questions;
use pgas_network::receive::Receiving;

/// The longest single transfer, in bytes: MPI counts in `int`.
pub(crate) const MAX_TRANSFER: u64 = 1 << 30;

/// One rank of a job over MPI.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) session: Session,
    /// The ranks of this host, reached by its memory.
    pub(crate) neighbours: Neighbours<Member>,
    pub(crate) capabilities: Capabilities,
    pub(crate) window: Window,
    /// Whether this rank waits outside of MPI: there are more ranks than processors, and this MPI
    /// does not yield while it waits.
    pub(crate) is_oversubscribed: bool,
    /// Whether the library is Open MPI, else MPICH. Their local flushes have different defects.
    pub(crate) is_open_mpi: bool,
    pub(crate) collectives: Collectives,
    /// Operations that a flush has to complete.
    pub(crate) flushes: Inside<Flushes>,
    /// Staged sources of short puts.
    pub(crate) staging: Inside<Staging>,
    /// The id of the [plain](crate::ops::Plain) operations that were last found complete, so that
    /// the next test of one of them takes no lock.
    pub(crate) completed: AtomicU64,
    pub(crate) state: Arc<Mutex<State>>,
    /// Whether messages may be kept to be sent with others, so that a check takes no lock.
    pub(crate) has_kept: AtomicBool,
    pub(crate) receiving: Receiving,
    pub(crate) parking: Parking,
    /// The first failure. The next thread inside of MPI tells the other ranks of it.
    pub(crate) failure: FirstFailure,
}

/// The mutable state of a rank.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) post: Post,
    pub(crate) ops: Ops,
    pub(crate) barrier: Barrier,
    /// The barrier that ends the job.
    pub(crate) shutdown_barrier: Barrier,
    /// Questions to other ranks whether they have left.
    pub(crate) questions: Questions,
    /// Whether this rank has left the job.
    pub(crate) has_left: bool,
    /// Whether all ranks have left, and nothing is in flight.
    pub(crate) is_over: bool,
}

impl State {
    /// Makes its communicators; collective.
    fn new(mpi: &Mpi, session: &Session) -> Result<Self> {
        let comm = sys::comm_dup(mpi, session.comm())?;
        Ok(Self {
            post: Post::new(mpi, comm, session.rank())?,
            ops: Ops::default(),
            barrier: Barrier::new(sys::comm_dup(mpi, session.comm())?),
            shutdown_barrier: Barrier::new(sys::comm_dup(mpi, session.comm())?),
            questions: Questions::default(),
            has_left: false,
            is_over: false,
        })
    }

    /// Asks `rank` whether it has left, and how many barriers it has entered.
    pub(crate) fn ask(&mut self, mpi: &Mpi, rank: u32) -> Result<()> {
        if !self.questions.is_open(rank) {
            self.post.tell(mpi, rank, &Note::Ask)?;
            self.questions.begin(rank);
        }
        Ok(())
    }

    /// Tells every rank that was sent messages their number, and waits for the answers.
    pub(crate) fn say_bye(&mut self, mpi: &Mpi) -> Result<()> {
        for (rank, note) in self.post.peers.goodbyes() {
            self.questions.begin(rank);
            self.post.tell(mpi, rank, &note)?;
        }
        Ok(())
    }
}

impl Network {
    /// Opens the window; collective.
    pub(crate) fn new(
        session: Session,
        member: Member,
        host: Host,
        collectives: Collectives,
        config: &Config,
    ) -> Result<Self> {
        // Without the direct path even a rank's own memory is accessed through MPI.
        let neighbours = Neighbours::new(host, Arc::new(member), config.direct, Reach::Nobody);
        let Neighbours { host, member, .. } = &neighbours;
        let (window, state) = {
            let mpi = sys::enter()?;
            let window = window::open(&mpi, &session, member, host);
            let state = State::new(&mpi, &session)?;
            (window, state)
        };
        let window = session.agree(window)?;
        let (is_open_mpi, needs_target) = {
            let mpi = sys::enter()?;
            let is_open_mpi = sys::library_version(&mpi)?.starts_with("Open MPI");
            (is_open_mpi, window::needs_target(&mpi, is_open_mpi)?)
        };
        let is_oversubscribed =
            !is_open_mpi && (member.is_oversubscribed() || settings::is_mpich_told_to_yield());
        let capabilities = Capabilities {
            atomics: AtomicsBy::Cpu,
            needs_target,
            max_short: MAX_SHORT,
            max_medium: MAX_MEDIUM,
            max_transfer: MAX_TRANSFER,
            starts_one_program: false,
        };
        let failure = FirstFailure::default();
        session.lookout().know_job(member, host, failure.noted());
        Ok(Self {
            session,
            neighbours,
            capabilities,
            window,
            is_oversubscribed,
            is_open_mpi,
            collectives,
            flushes: Inside::new(Flushes::default()),
            staging: Inside::new(Staging::new()),
            completed: AtomicU64::new(0),
            state: Arc::new(Mutex::new(state)),
            has_kept: AtomicBool::new(false),
            receiving: Receiving::default(),
            parking: Parking::default(),
            failure,
        })
    }

    /// This rank as a member of its host.
    #[inline]
    pub(crate) fn member(&self) -> &Member {
        &self.neighbours.member
    }

    /// The operand for [`member`](Self::member), if its rank is accessed directly.
    #[inline]
    pub(crate) fn on_this_host<O: Operand>(&self, operand: O) -> Option<O> {
        self.neighbours.on_this_host(operand)
    }

    /// As [`on_this_host`](Self::on_this_host), but for this rank's own words also without the
    /// direct path.
    pub(crate) fn local_word<C: Call>(&self, word: Atomic<C>) -> Option<Atomic<C>> {
        if word.rank().number() == self.session.rank() {
            return self.neighbours.beside(word);
        }
        self.on_this_host(word)
    }

    /// Whether a rank that waits takes the processor from one that is waited for.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.is_oversubscribed || self.member().is_oversubscribed()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // A panic of the library while it held the lock ends the job.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
