//! A job whose ranks are all on one host: MPI starts and ends it, and the ranks communicate over
//! shared memory.
#![expect(unsafe_code, reason = "passes the contract's calls on")]

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use pgas_core::Result;
use pgas_core::backend::{Backend, Group, Message};
use pgas_smp::Member;

use crate::collectives::Collectives;
use crate::session::Session;
use crate::sys;
use pgas_network::limits::{Awaited, LongWait, Over};

/// The longest sleep before the next check whether the other ranks have left.
const LEAVING_NAP: Duration = Duration::from_millis(2);

/// A rank of a job on one host.
#[derive(Debug)]
pub(crate) struct OneHost {
    member: Arc<Member>,
    collectives: Collectives,
    session: Session,
}

impl OneHost {
    pub(crate) fn new(member: Arc<Member>, collectives: Collectives, session: Session) -> Self {
        Self {
            member,
            collectives,
            session,
        }
    }

    fn long_wait(&self, what: &'static str) -> LongWait<'static> {
        let awaited = Awaited {
            what,
            missing: &Vec::new,
        };
        LongWait::new(self.session.lookout().limits(), self.rank(), awaited)
    }

    /// Performs the action that is due for a wait. Its end fails the job: this rank is about to
    /// leave, and an error would be lost.
    fn check(&self, long: &mut LongWait<'_>) -> Result<()> {
        long.check().map_err(|over| match over {
            Over::Timeout(error) => {
                let cause = format!("could not leave: {error}");
                self.member.blame(self.rank(), &cause)
            }
            Over::Stall(cause) => self.member.blame(self.rank(), &cause),
        })
    }

    /// Waits until this rank's questions are answered, by ranks that have left and wait for it in
    /// turn.
    fn wait_for_answers(&self) -> Result<()> {
        let mut long = self.long_wait("answers of ranks that have left");
        while !self.collectives.are_answered() {
            self.member.health()?;
            self.check(&mut long)?;
            self.collectives.serve(&sys::enter()?)?;
            thread::yield_now();
        }
        Ok(())
    }

    /// Waits until all have left: a rank that waits inside of MPI cannot find out why another one
    /// is late.
    fn wait_for_the_others(&self) -> Result<()> {
        let mut long = self.long_wait("the others to leave");
        while !self.member.have_all_left() {
            self.member.health()?;
            self.check(&mut long)?;
            // If a thread other than MPI's leaves, ranks that wait in MPI's collectives are not
            // told.
            if let Ok(mpi) = sys::enter() {
                self.collectives.serve(&mpi)?;
            }
            self.member.park(LEAVING_NAP);
        }
        Ok(())
    }
}

impl Drop for OneHost {
    fn drop(&mut self) {
        if thread::panicking() {
            self.session.abort(101, "panicked, which ends the job");
        }
        // With a failure the launcher ends the job; without one all have left by now.
        let health = self.member.health();
        if health.is_ok() && self.member.have_all_left() {
            // No rank is left to be told.
            drop(self.collectives.close());
            drop(self.session.close(false));
            return;
        }
        if let Err(failure) = health {
            self.session.tell_of(&failure);
        }
    }
}

// SAFETY: each promise is the member's, whose ranks are those of the job.
unsafe impl Backend for OneHost {
    fn name(&self) -> &'static str {
        "mpi"
    }

    pgas_core::pass_on! {
        member:
        rank, n_ranks, capabilities, segment_bytes, mapped_ranks, mapped, board, mapped_stride,
        test, flush, flush_all, barrier_begin, barrier_test, barrier_missing, try_send, prepare,
        try_commit, give_back, n_credits, poll, poll_all, progress, notify, ranks_per_processor, health, has_left, blame,
        discard
    }

    pgas_core::pass_on_one_sided!(member);

    fn collectives(&self) -> Option<Arc<dyn Group>> {
        self.collectives.world()
    }

    fn park(&self, at_most: Duration) {
        // No rank wakes another one for MPI, which makes progress only while it is called.
        self.member.park(self.collectives.nap(at_most));
    }

    fn abort(&self, code: i32, message: &str) -> ! {
        // The other ranks are not told: one that fails because of this one might end first, with an
        // exit code of its own.
        self.session
            .abort(code, &format!("ended the job: {message}"))
    }

    fn leave(&self, late: &mut dyn FnMut(Message<'_>)) {
        // The failed rank reports a failure, which ends the wait.
        drop(self.wait_for_answers());
        self.member.leave(late);
        drop(self.wait_for_the_others());
    }
}
