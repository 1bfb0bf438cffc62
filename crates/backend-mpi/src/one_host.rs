//! A job whose ranks are all on one host: they meet and end by MPI, and communicate over shared
//! memory.
#![expect(unsafe_code, reason = "passes the contract's calls on")]

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use pgas_core::backend::{
    Backend, BarrierTicket, Capabilities, Group, HandlerId, Message, MessageClass, Offer, OpId,
    Place, Sent, Stage,
};
use pgas_core::stats::Board;
use pgas_core::{Error, Rank, Result};
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
    member: Member,
    collectives: Collectives,
    session: Session,
}

impl OneHost {
    pub(crate) fn new(member: Member, collectives: Collectives, session: Session) -> Self {
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

    /// Waits until all have left: a rank that waits inside of MPI cannot tell why another one does
    /// not come.
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
        // A rank that left in good order may exit with 0, which is not how the job ends.
        self.session.watch_exit();
    }
}

// SAFETY: each promise is the member's, whose ranks are those of the job.
unsafe impl Backend for OneHost {
    fn name(&self) -> &'static str {
        "mpi"
    }

    fn rank(&self) -> Rank {
        self.member.rank()
    }

    fn n_ranks(&self) -> u32 {
        self.member.n_ranks()
    }

    fn capabilities(&self) -> &Capabilities {
        self.member.capabilities()
    }

    fn segment_bytes(&self) -> u64 {
        self.member.segment_bytes()
    }

    fn mapped_ranks(&self) -> Range<u32> {
        self.member.mapped_ranks()
    }

    fn mapped(&self, rank: Rank) -> Option<NonNull<u8>> {
        self.member.mapped(rank)
    }

    fn board(&self, rank: Rank) -> Option<Board> {
        self.member.board(rank)
    }

    fn mapped_stride(&self) -> Option<usize> {
        self.member.mapped_stride()
    }

    pgas_core::pass_on_one_sided!(member);

    fn test(&self, op: OpId, stage: Stage) -> Result<bool> {
        self.member.test(op, stage)
    }

    #[inline]
    fn flush(&self, rank: Rank) -> Result<()> {
        self.member.flush(rank)
    }

    #[inline]
    fn flush_all(&self) -> Result<()> {
        self.member.flush_all()
    }

    fn barrier_begin(&self) -> Result<Option<BarrierTicket>> {
        self.member.barrier_begin()
    }

    fn barrier_test(&self, ticket: BarrierTicket) -> Result<bool> {
        self.member.barrier_test(ticket)
    }

    fn barrier_missing(&self, ticket: BarrierTicket) -> Vec<Rank> {
        self.member.barrier_missing(ticket)
    }

    fn collectives(&self) -> Option<Arc<dyn Group>> {
        self.collectives.world()
    }

    fn try_send(
        &self,
        to: Rank,
        class: MessageClass,
        handler: HandlerId,
        parts: &[&[u8]],
    ) -> Result<Sent> {
        self.member.try_send(to, class, handler, parts)
    }

    fn prepare(&self, to: Rank, len: usize) -> Result<Offer<Place>> {
        self.member.prepare(to, len)
    }

    unsafe fn try_commit(
        &self,
        to: Rank,
        class: MessageClass,
        handler: HandlerId,
        place: Place,
        opening: &[u8],
    ) -> Result<Sent> {
        // SAFETY: the caller promises that the place came from `prepare` for this rank and is his,
        // and `prepare` above is the member's: so it is his there, for the rank of the same number.
        unsafe { self.member.try_commit(to, class, handler, place, opening) }
    }

    unsafe fn give_back(&self, to: Rank, place: Place) {
        // SAFETY: as for `try_commit`.
        unsafe { self.member.give_back(to, place) }
    }

    fn n_credits(&self, to: Rank, class: MessageClass) -> u64 {
        self.member.n_credits(to, class)
    }

    fn poll(
        &self,
        class: MessageClass,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
    ) -> Result<usize> {
        self.member.poll(class, limit, sink)
    }

    #[inline]
    fn poll_all(
        &self,
        with_requests: bool,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
    ) -> Result<usize> {
        self.member.poll_all(with_requests, limit, sink)
    }

    fn progress(&self) -> Result<bool> {
        self.member.progress()
    }

    fn park(&self, at_most: Duration) {
        // No rank wakes another one for MPI, which makes progress only while it is called.
        self.member.park(self.collectives.nap(at_most));
    }

    fn notify(&self, rank: Rank) {
        self.member.notify(rank);
    }

    fn is_oversubscribed(&self) -> bool {
        self.member.is_oversubscribed()
    }

    fn health(&self) -> Result<()> {
        self.member.health()
    }

    fn has_left(&self, rank: Rank) -> bool {
        self.member.has_left(rank)
    }

    fn blame(&self, rank: Rank, cause: &str) -> Error {
        self.member.blame(rank, cause)
    }

    fn discard(&self, offset: u64, bytes: u64) -> bool {
        self.member.discard(offset, bytes)
    }

    fn abort(&self, code: i32, message: &str) -> ! {
        // Other ranks do not learn of it otherwise: one that fails because of it might end first,
        // with an exit code of its own.
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
