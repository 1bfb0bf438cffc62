//! The barrier of the job.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use pgas_core::Result;
use pgas_core::backend::BarrierTicket;

use crate::sys::{self, Comm, Mpi, Request};

/// The time that a barrier may last before ranks are asked whether they have left, and the time
/// between two rounds of questions.
const PATIENCE: Duration = Duration::from_millis(20);
/// Checks of an open barrier between two reads of the clock.
const POLLS_PER_CLOCK: u32 = 64;
/// Barriers over a communicator of their own.
#[derive(Debug)]
pub(crate) struct Barrier {
    comm: Comm,
    request: Request,
    n_entered: u64,
    is_open: bool,
    /// The time at which ranks were last asked, or the barrier was entered.
    asked: Instant,
    /// The rank that is asked next.
    pub(crate) next: u32,
    n_polls: u32,
    /// The numbers of barriers that other ranks had entered by their last answers, while answers
    /// are needed.
    pub(crate) entered: Option<HashMap<u32, u64>>,
}

impl Barrier {
    pub(crate) fn new(comm: Comm) -> Self {
        Self {
            comm,
            request: Request::null(),
            n_entered: 0,
            is_open: false,
            asked: Instant::now(),
            next: 0,
            n_polls: 0,
            entered: None,
        }
    }

    pub(crate) fn n_entered(&self) -> u64 {
        self.n_entered
    }

    pub(crate) fn enter(&mut self, mpi: &Mpi) -> Result<BarrierTicket> {
        self.request = sys::ibarrier(mpi, &self.comm)?;
        self.n_entered += 1;
        self.is_open = true;
        self.n_polls = 0;
        Ok(BarrierTicket(self.n_entered))
    }

    pub(crate) fn test(&mut self, mpi: &Mpi, ticket: BarrierTicket) -> Result<bool> {
        if self.is_open && ticket.0 == self.n_entered {
            self.glance(mpi)?;
        }
        Ok(ticket.0 < self.n_entered || !self.is_open)
    }

    /// Whether this rank waits in a barrier.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether all ranks have now entered the open barrier. Makes MPI's progress, by its shortest
    /// call for that.
    pub(crate) fn glance(&mut self, mpi: &Mpi) -> Result<bool> {
        self.is_open = !sys::test(mpi, &mut self.request)?;
        Ok(!self.is_open)
    }

    /// The request of the open barrier, or null. A caller that finds it complete calls
    /// [`complete`](Self::complete).
    #[inline]
    pub(crate) fn request(&mut self) -> &mut Request {
        &mut self.request
    }

    /// Records that all ranks have entered the open barrier.
    pub(crate) fn complete(&mut self) {
        self.is_open = false;
    }

    /// Whether a rank that has entered `barriers` barriers has not entered the open one.
    pub(crate) fn is_missing(&self, barriers: u64) -> bool {
        self.is_open && barriers < self.n_entered
    }

    pub(crate) fn answered(&mut self, from: u32, barriers: u64) {
        if let Some(entered) = &mut self.entered {
            entered.insert(from, barriers);
        }
    }

    /// Whether it is time to ask some ranks whether they have left.
    pub(crate) fn is_due(&mut self) -> bool {
        if !self.is_open {
            return false;
        }
        self.n_polls = self.n_polls.wrapping_add(1);
        if self.n_polls == 1 {
            self.asked = Instant::now();
        }
        if !self.n_polls.is_multiple_of(POLLS_PER_CLOCK) || self.asked.elapsed() < PATIENCE {
            return false;
        }
        self.asked = Instant::now();
        true
    }

    /// Frees the communicator; collective.
    pub(crate) fn close(&mut self, mpi: &Mpi) -> Result<()> {
        sys::comm_free(mpi, &mut self.comm)
    }
}
