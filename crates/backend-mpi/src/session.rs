//! This process's part in a job over MPI, from start to end: its rank, the agreement of all ranks,
//! and its end.

use std::ffi::c_int;
use std::io::Write;
use std::sync::Arc;

use pgas_core::notice::printable;
use pgas_core::{Error, Rank, Result};

use crate::lookout::Lookout;
use crate::sys::{self, Comm, Extreme};

/// A communicator of our own, and whether MPI ends with it.
#[derive(Debug)]
pub(crate) struct Session {
    /// `None` once closed.
    comm: Option<Comm>,
    rank: u32,
    n_ranks: u32,
    owns_mpi: bool,
    /// The descriptor of a launcher that speaks PMI-1.
    pmi_fd: Option<i32>,
    lookout: Arc<Lookout>,
}

impl Session {
    /// A session on `comm`. `owns_mpi`: whether MPI was started for this session, and ends with it.
    pub(crate) fn new(
        comm: Comm,
        owns_mpi: bool,
        pmi_fd: Option<i32>,
        lookout: Arc<Lookout>,
    ) -> Result<Self> {
        let mpi = sys::enter()?;
        let rank = number(sys::comm_rank(&mpi, &comm)?);
        let n_ranks = number(sys::comm_size(&mpi, &comm)?);
        lookout.know_rank(rank);
        Ok(Self {
            comm: Some(comm),
            rank,
            n_ranks,
            owns_mpi,
            pmi_fd,
            lookout,
        })
    }

    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    pub(crate) fn n_ranks(&self) -> u32 {
        self.n_ranks
    }

    pub(crate) fn lookout(&self) -> &Lookout {
        &self.lookout
    }

    pub(crate) fn comm(&self) -> &Comm {
        self.comm.as_ref().expect("a session is closed at its end")
    }

    /// Returns the value of `result` if it is `Ok` on every rank. Otherwise ranks with an error get
    /// it, and the others get the first error.
    pub(crate) fn agree<T>(&self, result: Result<T>) -> Result<T> {
        let mpi = sys::enter()?;
        let comm = self.comm();
        let own = if result.is_ok() {
            u64::from(u32::MAX) + 1
        } else {
            u64::from(self.rank)
        };
        let first = sys::allreduce(&mpi, comm, own, Extreme::Min)?;
        let Ok(first) = u32::try_from(first) else {
            return result;
        };
        let mut text = [0; 400];
        if let Err(error) = &result
            && first == self.rank
        {
            let told = error.to_string();
            let len = told.len().min(text.len());
            text[..len].copy_from_slice(&told.as_bytes()[..len]);
        }
        sys::bcast(&mpi, comm, c_rank(first), &mut text)?;
        let text = String::from_utf8_lossy(&text);
        let cause = format!("could not join the job: {}", text.trim_end_matches('\0'));
        result.and(Err(Error::rank_failed(Rank::new(first), cause)))
    }

    /// The smallest and the largest of all ranks' numbers.
    pub(crate) fn extremes(&self, value: u64) -> Result<(u64, u64)> {
        let mpi = sys::enter()?;
        let min = sys::allreduce(&mpi, self.comm(), value, Extreme::Min)?;
        let max = sys::allreduce(&mpi, self.comm(), value, Extreme::Max)?;
        Ok((min, max))
    }

    /// Every rank's number.
    pub(crate) fn gather(&self, value: u64) -> Result<Vec<u64>> {
        sys::allgather(&sys::enter()?, self.comm(), self.n_ranks as usize, &[value])
    }

    /// Makes sure that the job ends if this process exits before the session is closed, with a line
    /// that says so.
    pub(crate) fn watch_exit(&self) {
        self.end_job_at_exit(Some(self.rank));
    }

    /// `rank` is the one whose exit has to be told.
    fn end_job_at_exit(&self, rank: Option<u32>) {
        if self.owns_mpi {
            sys::watch_exit(self.pmi_fd, rank);
        }
    }

    /// Frees the communicator, and ends MPI if that was started for this session; collective.
    /// `is_networked` says whether MPI may have connected ranks over a network.
    pub(crate) fn close(&mut self, is_networked: bool) -> Result<()> {
        let Some(mut comm) = self.comm.take() else {
            return Ok(());
        };
        let mpi = sys::enter()?;
        sys::comm_free(&mpi, &mut comm)?;
        if !self.owns_mpi {
            return Ok(());
        }
        sys::unwatch_exit();
        match self.pmi_fd {
            Some(pmi_fd) if is_networked && sys::finalize_may_hang(&mpi)? => {
                sys::leave_launcher(&mpi, pmi_fd)
            }
            _ => sys::finalize(&mpi),
        }
    }

    /// Reports why the job ends, when this rank leaves it after a failure: its exit may make the
    /// launcher end the others before they have reported anything.
    pub(crate) fn tell_of(&self, failure: &Error) {
        match failure {
            Error::RankFailed(own) if own.rank.number() == self.rank => self.say(&own.cause),
            _ => self.say(&format!("leaves a job that has failed: {failure}")),
        }
        self.end_job_at_exit(None);
    }

    fn say(&self, message: &str) {
        let line = format!("pgas: rank {} {}\n", self.rank, printable(message));
        // A single write, so that lines of several ranks do not mix.
        drop(std::io::stderr().write_all(line.as_bytes()));
    }

    /// Prints `message`, then ends the whole job.
    pub(crate) fn abort(&self, code: i32, message: &str) -> ! {
        self.say(message);
        drop(std::io::stdout().flush());
        crate::output::await_readers();
        sys::unwatch_exit();
        sys::abort(code)
    }
}

/// A number of MPI's that is never negative.
pub(crate) fn number(n: c_int) -> u32 {
    u32::try_from(n).expect("MPI counts from zero")
}

/// A rank as MPI's type.
pub(crate) fn c_rank(rank: u32) -> c_int {
    c_int::try_from(rank).expect("it came from MPI as such a number")
}
