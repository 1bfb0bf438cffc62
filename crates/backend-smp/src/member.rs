//! One rank's membership of a job: messages, barriers, sleep, and reports of failures.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use pgas_core::backend::{
    AtomicsBy, BarrierTicket, Capabilities, HandlerId, Message, MessageClass, NeedsTarget, Offer,
    Place, Sent,
};
use pgas_core::notice::{self, printable};
use pgas_core::{Error, Rank, Result};
use pgas_lockfree::barrier::Ticket;
use pgas_lockfree::credits::Credits;
use pgas_lockfree::machine::Machine as _;
use pgas_lockfree::mailbox::{Corrupt, Envelope};
use pgas_lockfree::roster::Membership;

use crate::cores::Cores;
use crate::layout::{MAILBOX_SLOTS, MAX_MEDIUM, MAX_SHORT};
use crate::liveness::{Hold, Liveness};
use crate::machine::Native;
use crate::segment::Job;

/// One rank of a job over shared memory: the [`Backend`](pgas_core::backend::Backend) of this
/// crate.
///
/// A backend for several hosts has one for the ranks of its own host. All methods then number these
/// ranks from 0, as in the memory that the member has joined.
#[derive(Debug)]
pub struct Member {
    job: Arc<Job>,
    rank: u32,
    /// The barrier that this rank has entered, or the last one that it left.
    epoch: AtomicU64,
    cores: Cores,
    /// The number of health checks. One in
    /// [`HEALTH_CHECKS_PER_LIVENESS_CHECK`] also checks the other ranks.
    n_checks: AtomicU32,
    liveness: Option<Liveness>,
    /// The lock that proves to other ranks that this process lives.
    pub(crate) hold: Option<Hold>,
    /// The credits that this rank has used of each rank's room for requests. Replies need none,
    /// since there are no more of them than of served requests.
    credits: Box<[Credits]>,
    /// The index where the search for a free buffer begins.
    next_buffer: AtomicUsize,
}

/// A rank that waits without sleeping checks whether the other ranks are alive once in this many
/// checks of the failure word.
const HEALTH_CHECKS_PER_LIVENESS_CHECK: u32 = 256;

impl Member {
    pub(crate) const CAPABILITIES: &Capabilities = &Capabilities {
        atomics: AtomicsBy::Cpu,
        needs_target: NeedsTarget::NOTHING,
        max_short: MAX_SHORT,
        max_medium: MAX_MEDIUM,
        max_transfer: u64::MAX,
        starts_one_program: false,
    };

    /// Joins the job as `rank`, a thread of this process.
    pub(crate) fn thread(job: Arc<Job>, rank: u32) -> Self {
        let member = Self::new(job, rank, None);
        member.job.control().join(rank, 0, 0);
        member
    }

    pub(crate) fn new(job: Arc<Job>, rank: u32, liveness: Option<Liveness>) -> Self {
        let n_ranks = job.layout().n_ranks;
        Self {
            job,
            rank,
            epoch: AtomicU64::new(0),
            cores: Cores::default(),
            n_checks: AtomicU32::new(0),
            liveness,
            hold: None,
            credits: (0..n_ranks).map(|_| Credits::new(MAILBOX_SLOTS)).collect(),
            next_buffer: AtomicUsize::new(0),
        }
    }

    #[inline]
    pub(crate) fn job(&self) -> &Arc<Job> {
        &self.job
    }

    pub(crate) fn number(&self) -> u32 {
        self.rank
    }

    #[inline]
    pub(crate) fn ranks_per_core(&self) -> u32 {
        self.cores
            .ranks_per_core(self.job.layout().n_ranks, |rank| self.process_of(rank))
    }

    /// The process that `rank` is, once it has joined.
    fn process_of(&self, rank: u32) -> Option<u32> {
        let control = self.job.control();
        (control.membership(rank) != Membership::Absent).then(|| control.pid(rank))
    }

    /// Enters a barrier. An error if the last one is not complete: then the job has failed.
    pub(crate) fn arrive(&self) -> Result<BarrierTicket> {
        let control = self.job.control();
        if control.has_failed() {
            self.check_health()?;
        }
        // Relaxed, as below.
        let last = Ticket::of_epoch(self.epoch.load(Ordering::Relaxed));
        if !control.barrier().is_complete(last) {
            let cause = "entered a barrier before its last one was over";
            return Err(self.record_failure(Rank::new(self.rank), cause));
        }
        let ticket = control.barrier().arrive(self.rank);
        // Relaxed: read only by this rank's own threads, to know the barrier that it sleeps for.
        self.epoch.store(ticket.epoch(), Ordering::Relaxed);
        if ticket.is_last() {
            for rank in (0..self.job.layout().n_ranks).filter(|rank| *rank != self.rank) {
                control.bell(rank).ring();
            }
        }
        Ok(BarrierTicket(ticket.epoch()))
    }

    pub(crate) fn is_complete(&self, ticket: BarrierTicket) -> bool {
        self.job
            .control()
            .barrier()
            .is_complete(Ticket::of_epoch(ticket.0))
    }

    pub(crate) fn missing(&self, ticket: BarrierTicket) -> Vec<Rank> {
        let missing = self
            .job
            .control()
            .barrier()
            .missing(Ticket::of_epoch(ticket.0));
        missing.map(Rank::new).collect()
    }

    #[inline]
    pub(crate) fn send(
        &self,
        to: u32,
        class: MessageClass,
        handler: HandlerId,
        parts: &[&[u8]],
    ) -> Result<Sent> {
        let bytes = parts
            .iter()
            .fold(0_usize, |sum, part| sum.saturating_add(part.len()));
        check_length(Rank::new(to), bytes)?;
        let control = self.job.control();
        let mailbox = control.mailbox(to, class as usize);
        let credits = self.credits(to, class);
        let sent = mailbox.try_send_within::<Native>(credits, self.rank, handler.0, parts);
        let Ok(posted) = sent else {
            return self.is_full(to, handler);
        };
        if mailbox.ring(control.bell(to), posted, handler.is_heard_of()) {
            return Err(self.has_departed(to));
        }
        Ok(Sent::Accepted)
    }

    /// What the sender is told of a mailbox without room. Nobody makes room in that of a rank that
    /// has left: what is kept for it would be kept for ever.
    #[cold]
    fn is_full(&self, to: u32, handler: HandlerId) -> Result<Sent> {
        if self.job.control().bell(to).has_left() && handler.is_heard_of() {
            return Err(self.has_departed(to));
        }
        Ok(Sent::BackPressure)
    }

    /// The credits that limit messages of this class; none for replies.
    #[inline]
    fn credits(&self, to: u32, class: MessageClass) -> Option<&Credits> {
        // Index for replies, too, to check the rank: behind the mailboxes of the last rank lie
        // buffers that another rank may be reading.
        let credits = &self.credits[to as usize];
        match class {
            MessageClass::Request => Some(credits),
            MessageClass::Reply => None,
        }
    }

    /// A buffer for `len` bytes that this rank may fill, if one is free.
    #[inline]
    pub(crate) fn offer(&self, to: Rank, len: usize) -> Result<Offer<Place>> {
        check_length(to, len)?;
        let buffers = self.job.control().buffers();
        // Relaxed: a hint; a buffer is taken by its own word.
        let hint = self.next_buffer.load(Ordering::Relaxed);
        let Some(index) = buffers.take(self.rank, hint, len, Native::prefetch_for_write) else {
            return Ok(Offer::BackPressure);
        };
        // The next buffer has been in use the longest.
        self.next_buffer.store(index + 1, Ordering::Relaxed);
        let payload = buffers.payload(self.rank, index).as_ptr();
        Ok(Offer::InPlace(Place {
            start: NonNull::new(payload.cast_mut().cast())
                .expect("a mapping is never at address zero"),
            len,
            id: u32::try_from(index).expect("buffers are few"),
        }))
    }

    /// Sends a message with the payload in `place` and an opening in front of it. Returns `None`,
    /// and does nothing, if the opening does not fit, or if the message is short enough for a slot.
    /// After an error the place was taken back, unless the target may be reading it.
    #[inline]
    pub(crate) fn send_from(
        &self,
        place: Place,
        to: u32,
        (class, handler): (MessageClass, HandlerId),
        opening: &[u8],
    ) -> Result<Option<Sent>> {
        let bytes = opening.len().saturating_add(place.len);
        if bytes <= MAX_SHORT || bytes > MAX_MEDIUM {
            return Ok(None);
        }
        let control = self.job.control();
        if control.bell(to).has_left() && handler.is_heard_of() {
            self.take_back(place.id);
            return Err(self.has_departed(to));
        }
        self.send_opened(place, to, (class, handler), opening)
    }

    /// As [`send_from`](Self::send_from), to a rank that has not left, or has just done so.
    #[inline]
    fn send_opened(
        &self,
        place: Place,
        to: u32,
        (class, handler): (MessageClass, HandlerId),
        opening: &[u8],
    ) -> Result<Option<Sent>> {
        let control = self.job.control();
        let buffers = control.buffers();
        let Some(at) = buffers.open(self.rank, place.id as usize, opening, place.len) else {
            return Ok(None);
        };
        let mailbox = control.mailbox(to, class as usize);
        let credits = self.credits(to, class);
        let sent = mailbox.try_send_location::<Native>(credits, self.rank, handler.0, at);
        let Ok(posted) = sent else {
            let full = self.is_full(to, handler);
            return full.map(Some).inspect_err(|_| self.take_back(place.id));
        };
        if mailbox.ring(control.bell(to), posted, handler.is_heard_of()) {
            // The target, which leaves at this moment, does not read it.
            self.take_back(place.id);
            return Err(self.has_departed(to));
        }
        Ok(Some(Sent::Accepted))
    }

    /// Takes back an offered buffer.
    #[inline]
    pub(crate) fn take_back(&self, index: u32) {
        let buffers = self.job.control().buffers();
        buffers.give_back(self.rank, index as usize);
    }

    /// The number of short messages that `to` takes from this rank now.
    pub(crate) fn n_credits(&self, to: u32, class: MessageClass) -> u64 {
        let mailbox = self.job.control().mailbox(to, class as usize);
        let n_free = mailbox.n_free_slots();
        match class {
            MessageClass::Request => n_free.min(self.credits[to as usize].n_left(mailbox.head())),
            MessageClass::Reply => n_free,
        }
    }

    #[inline]
    pub(crate) fn receive(
        &self,
        class: MessageClass,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
    ) -> Result<usize> {
        let mailbox = self.job.control().mailbox(self.rank, class as usize);
        if mailbox.is_empty() {
            mailbox.give_back_the_rest();
            return Ok(0);
        }
        let buffers = || Some(self.job.control().buffers());
        let received = mailbox.receive_from::<Native>(buffers, limit, |envelope, payload| {
            sink(message(class, envelope, payload));
        });
        received.map_err(|corrupt| self.corrupt_mailbox(corrupt))
    }

    #[cold]
    fn corrupt_mailbox(&self, corrupt: Corrupt) -> Error {
        let text = format!("rank {}'s mailbox: {corrupt}", self.rank);
        Error::backend("receive", 0, text)
    }

    /// Sleeps until a message, the end of a barrier, a ring or a failure, and checks the other
    /// ranks meanwhile.
    pub(crate) fn sleep(&self, at_most: Duration) {
        let control = self.job.control();
        let epoch = Ticket::of_epoch(self.epoch.load(Ordering::Relaxed));
        let was_open = !control.barrier().is_complete(epoch);
        let mailboxes = [control.mailbox(self.rank, 0), control.mailbox(self.rank, 1)];
        let mut first = true;
        let ready = || {
            // A ring that announces something else, such as a signal, ends the sleep too.
            let rung = !std::mem::take(&mut first);
            rung || control.has_failed()
                || mailboxes.iter().any(|mailbox| !mailbox.is_empty())
                || (was_open && control.barrier().is_complete(epoch))
        };
        let _ = control.bell(self.rank).sleep_until(ready, at_most);
        self.check_other_ranks();
    }

    /// Checks whether the other ranks are alive, if the last check was a while ago. A wait that
    /// does not use this member's `park` calls it now and then, by the clock: on a busy machine a
    /// wait has few rounds.
    ///
    /// # Cost
    ///
    /// ℓ: a read of the clock, and a system call now and then.
    pub fn check_other_ranks(&self) {
        if let (Some(liveness), Some(hold)) = (&self.liveness, &self.hold) {
            let n_ranks = self.job.layout().n_ranks;
            liveness.check(self.rank, n_ranks, &self.job.control(), hold);
        }
    }

    /// Whether `rank` has left in good order and nothing that it sent to this one is on its way.
    pub(crate) fn is_gone(&self, rank: u32) -> bool {
        let control = self.job.control();
        // In this order: messages of a rank are in the mailbox by the time at which it has left. A
        // message that is no longer in the mailbox was taken out by a thread that is receiving
        // until its sink has returned.
        control.membership(rank) == Membership::Left
            && (0..2).all(|class| control.mailbox(self.rank, class).n_queued_bytes() == 0)
            && (0..2).all(|class| !control.mailbox(self.rank, class).is_receiving())
    }

    /// An error if a rank has failed, or has left while this one waits for it in a barrier.
    pub(crate) fn check_health(&self) -> Result<()> {
        let control = self.job.control();
        if control.has_failed()
            && let Some((rank, text)) = control.failure()
        {
            return Err(Error::rank_failed(Rank::new(rank), text));
        }
        // Relaxed, and not exact: it only spreads the checks.
        let n_checks = self.n_checks.load(Ordering::Relaxed).wrapping_add(1);
        self.n_checks.store(n_checks, Ordering::Relaxed);
        if n_checks.is_multiple_of(HEALTH_CHECKS_PER_LIVENESS_CHECK) {
            self.check_other_ranks();
        }
        let epoch = Ticket::of_epoch(self.epoch.load(Ordering::Relaxed));
        if control.barrier().is_complete(epoch) {
            return Ok(());
        }
        let mut missing = control.barrier().missing(epoch);
        match missing.find(|rank| control.membership(*rank) == Membership::Left) {
            // The rank may have arrived just before it left, so check the barrier again.
            Some(_) if control.barrier().is_complete(epoch) => Ok(()),
            Some(rank) => {
                let cause = "has left the job while others wait for it in a barrier";
                Err(self.record_failure(Rank::new(rank), cause))
            }
            None => Ok(()),
        }
    }

    /// Records a failure, if it is the first one, and returns the first one.
    pub(crate) fn record_failure(&self, rank: Rank, cause: &str) -> Error {
        let control = self.job.control();
        control.fail(rank.number(), cause);
        match control.failure() {
            Some((first, text)) => Error::rank_failed(Rank::new(first), text),
            // Another rank is about to write its own failure.
            None => Error::rank_failed(rank, cause),
        }
    }

    /// The error of a message to a rank that has left: why the job failed, if it has left for that.
    #[cold]
    fn has_departed(&self, to: u32) -> Error {
        let (rank, cause) = match self.job.control().failure() {
            Some(failure) => failure,
            None => (to, "has left the job".to_owned()),
        };
        Error::rank_failed(Rank::new(rank), cause)
    }

    /// Whether every rank has [left](pgas_core::backend::Backend::leave).
    #[must_use]
    pub fn have_all_left(&self) -> bool {
        let control = self.job.control();
        let mut ranks = 0..self.job.layout().n_ranks;
        ranks.all(|rank| control.membership(rank) == Membership::Left)
    }

    /// As [`abort`](pgas_core::backend::Backend::abort), of a rank that has the number `rank` in
    /// the job. A member knows its number among the ranks of its host.
    ///
    /// # Cost
    ///
    /// That of ending a job.
    ///
    /// # Panics
    ///
    /// If ranks are threads.
    pub fn end_job(&self, rank: Rank, code: i32, message: &str) -> ! {
        self.job
            .control()
            .fail(self.rank, &format!("ended the job: {message}"));
        if self.liveness.is_none() {
            let message = printable(message);
            panic!("rank {rank} ended the job (code {code}): {message}");
        }
        notice::tell(&format_args!("rank {rank} ended the job: {message}"));
        // This also flushes the output, unless another thread holds its lock, which may take long.
        #[expect(clippy::disallowed_methods, reason = "this is what World::abort does")]
        std::process::exit(code)
    }

    /// Leaves in good order, and passes messages that came too late to `late`.
    pub(crate) fn mark_left(&self, late: &mut dyn FnMut(Message<'_>)) {
        let control = self.job.control();
        let classes = [MessageClass::Request, MessageClass::Reply];
        let mailboxes = classes.map(|class| control.mailbox(self.rank, class as usize));
        // Other threads of this rank may receive, now and later. Senders are told that it has left
        // only when what they send cannot be served and taken back both.
        let are_closed = mailboxes
            .iter()
            .all(|mailbox| self.try_while_healthy(|| mailbox.close()));
        control.leave(self.rank);
        if are_closed {
            // From here on senders are told that this rank has left.
            control.bell(self.rank).leave();
            for (class, mailbox) in classes.into_iter().zip(mailboxes) {
                let end = mailbox.tail();
                let buffers = || Some(control.buffers());
                // A damaged mailbox has nothing more to hand out. Behind a message that is on its
                // way into its slots may be others that were accepted.
                let _is_all = self.try_while_healthy(|| {
                    let received =
                        mailbox.receive_late::<Native>(end, buffers, |envelope, payload| {
                            late(message(class, envelope, payload));
                        });
                    received != Ok(false)
                });
            }
        }
        for rank in 0..self.job.layout().n_ranks {
            control.bell(rank).ring();
        }
    }

    /// Calls `attempt` until it succeeds, or the job has failed. Returns whether it has succeeded.
    fn try_while_healthy(&self, mut attempt: impl FnMut() -> bool) -> bool {
        while !attempt() {
            if self.job.control().has_failed() {
                return false;
            }
            self.check_other_ranks();
            std::thread::yield_now();
        }
        true
    }
}

/// A received message.
#[inline]
fn message(class: MessageClass, envelope: Envelope, payload: &[u8]) -> Message<'_> {
    Message {
        from: Rank::new(envelope.src),
        class,
        handler: HandlerId(envelope.handler),
        payload,
    }
}

/// An error for a message that is too long.
#[inline]
fn check_length(to: Rank, bytes: usize) -> Result<()> {
    if bytes <= MAX_MEDIUM {
        return Ok(());
    }
    Err(Error::too_long(to, bytes, MAX_MEDIUM))
}

impl Drop for Member {
    /// Reports a panic of the rank before its lock on the job's file is released, which only shows
    /// that it is gone. (The code that runs threads reports a thread's panic, with its message.)
    fn drop(&mut self) {
        if std::thread::panicking() && self.liveness.is_some() {
            self.job.control().fail(self.rank, "panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicBool;

    use pgas_core::backend::Backend as _;

    use super::*;
    use crate::layout::{Layout, N_BUFFERS};

    #[test]
    fn a_message_to_a_rank_that_there_is_not_touches_no_memory_behind_the_mailboxes() {
        let job = Job::anonymous(Layout {
            n_ranks: 1,
            segment_bytes: 1 << 20,
        });
        let member = Member::thread(Arc::new(job.unwrap()), 0);
        let payload = |index| member.job().control().buffers().payload(0, index);
        let mut n_sent = 0;
        for to in 1..4 {
            for class in [MessageClass::Request, MessageClass::Reply] {
                let send = || member.try_send(Rank::new(to), class, HandlerId(20), &[&[7; 600]]);
                n_sent += u32::from(catch_unwind(AssertUnwindSafe(send)).is_ok());
            }
        }
        assert_eq!(n_sent, 0);
        for word in (0..16).flat_map(payload) {
            assert_eq!(word.load(Ordering::Relaxed), 0);
        }
    }

    fn two_members() -> [Member; 2] {
        let job = Job::anonymous(Layout {
            n_ranks: 2,
            segment_bytes: 1 << 20,
        });
        let job = Arc::new(job.unwrap());
        [0, 1].map(|rank| Member::thread(Arc::clone(&job), rank))
    }

    #[test]
    fn who_enters_a_barrier_before_the_last_one_is_over_has_failed() {
        let [first, second] = two_members();
        let ticket = first.arrive().unwrap();
        assert_eq!(first.missing(ticket), [Rank::new(1)]);
        for member in [&first, &second] {
            let error = member.arrive().unwrap_err().to_string();
            let expected = "rank 0 entered a barrier before its last one was over";
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_rank_is_gone_when_it_has_left_and_all_that_it_has_sent_is_handled() {
        let [sender, target] = two_members();
        assert!(!target.is_gone(0));
        let of = (MessageClass::Request, HandlerId(HandlerId::N_RESERVED));
        let sent = sender.send(1, of.0, of.1, &[&[1; 8]]).unwrap();
        assert_eq!(sent, Sent::Accepted);
        sender.mark_left(&mut |_| ());
        assert!(!target.is_gone(0), "its message is in the mailbox");
        let mut n_served = 0;
        let mut serve = |_: Message<'_>| {
            assert!(!target.is_gone(0), "its message is being handled");
            n_served += 1;
        };
        target.receive(of.0, 9, &mut serve).unwrap();
        assert_eq!(n_served, 1);
        assert!(target.is_gone(0));
    }

    /// Sends until it is told that the target has left, or has sent `n` messages of `bytes`.
    fn send_until_told(sender: &Member, n: u64, bytes: &[u8]) -> (u64, u64) {
        let (mut n_accepted, mut n_told) = (0, 0);
        while n_told == 0 && n_accepted < n {
            let handler = HandlerId(HandlerId::N_RESERVED);
            match sender.send(1, MessageClass::Request, handler, &[bytes]) {
                Ok(Sent::Accepted) => n_accepted += 1,
                Ok(Sent::BackPressure) => std::thread::yield_now(),
                Err(_) => n_told += 1,
            }
        }
        (n_accepted, n_told)
    }

    #[test]
    fn each_message_to_a_rank_that_leaves_is_served_or_told_of_once() {
        for n_before in 0..if cfg!(miri) { 3 } else { 300 } {
            let [sender, target] = two_members();
            std::thread::scope(|scope| {
                let sent = scope.spawn(|| send_until_told(&sender, 1000, &[1; 8]));
                let (mut n_served, mut n_late) = (0, 0);
                while n_served < n_before {
                    let count = &mut |_: Message<'_>| n_served += 1;
                    target.receive(MessageClass::Request, 9, count).unwrap();
                }
                target.mark_left(&mut |_| n_late += 1);
                let (n_accepted, n_told) = sent.join().unwrap();
                assert_eq!(n_accepted, n_served + n_late, "and {n_told} told");
            });
        }
    }

    /// Receives until it `is_over`, and returns the number of messages.
    fn receive_until(target: &Member, is_over: &AtomicBool) -> u64 {
        let mut n_served = 0;
        while !is_over.load(Ordering::Acquire) {
            let count = &mut |_: Message<'_>| n_served += 1;
            target.receive(MessageClass::Request, 9, count).unwrap();
        }
        n_served
    }

    #[test]
    fn so_is_each_message_to_a_rank_that_leaves_while_another_thread_of_it_receives() {
        for round in 0..if cfg!(miri) { 3 } else { 300 } {
            let [sender, target] = two_members();
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let sent = scope.spawn(|| send_until_told(&sender, 5000, &[1; 16_000]));
                let served = scope.spawn(|| receive_until(&target, &is_over));
                for _ in 0..(round % 40) * 50 {
                    std::hint::spin_loop();
                }
                let mut n_late = 0;
                target.mark_left(&mut |_| n_late += 1);
                let (n_accepted, n_told) = sent.join().unwrap();
                is_over.store(true, Ordering::Release);
                let n_served = served.join().unwrap();
                assert_eq!(n_accepted, n_served + n_late, "and {n_told} told");
            });
        }
    }

    /// A sender that is told may write the message's buffer again.
    #[test]
    fn a_rank_that_leaves_a_failed_job_from_a_handler_tells_no_sender() {
        let [sender, target] = two_members();
        let of = (MessageClass::Request, HandlerId(HandlerId::N_RESERVED));
        let sent = sender.send(1, of.0, of.1, &[&[1; 8]]).unwrap();
        assert_eq!(sent, Sent::Accepted);
        target.record_failure(Rank::new(0), "was killed");
        let leave = &mut |_: Message<'_>| target.mark_left(&mut |_| ());
        target.receive(of.0, 9, leave).unwrap();
        assert!(!sender.job().control().bell(1).has_left());
        assert_eq!(sender.job().control().membership(1), Membership::Left);
    }

    #[test]
    fn a_rank_with_a_damaged_mailbox_leaves_all_the_same() {
        let [sender, target] = two_members();
        let of = (MessageClass::Request, HandlerId(HandlerId::N_RESERVED));
        let sent = sender.send(1, of.0, of.1, &[&[1; 8]]).unwrap();
        assert_eq!(sent, Sent::Accepted);
        target.job().control().damage_mailbox(1, of.0 as usize);
        assert!(target.receive(of.0, 9, &mut |_| ()).is_err());
        target.mark_left(&mut |_| panic!("nothing can be read"));
        assert!(sender.job().control().bell(1).has_left());
    }

    #[test]
    fn a_buffer_for_a_rank_that_has_left_is_free_again() {
        let [sender, target] = two_members();
        target.mark_left(&mut |_| ());
        for _ in 0..3 * N_BUFFERS {
            let Offer::InPlace(place) = sender.offer(Rank::new(1), 1000).unwrap() else {
                panic!("a buffer is free");
            };
            let of = (MessageClass::Request, HandlerId(HandlerId::N_RESERVED));
            let error = sender.send_from(place, 1, of, &[1; 8]).unwrap_err();
            assert!(error.to_string().contains("rank 1 has left"), "{error}");
        }
    }

    #[test]
    fn who_sends_to_a_rank_that_left_a_failed_job_is_told_why_that_failed() {
        let [sender, target] = two_members();
        let failed = target.record_failure(Rank::new(1), "was killed");
        target.mark_left(&mut |_| ());
        let of = (MessageClass::Request, HandlerId(HandlerId::N_RESERVED));
        let short = sender.send(1, of.0, of.1, &[&[1; 8]]).unwrap_err();
        assert_eq!(short.to_string(), failed.to_string());
        let Offer::InPlace(place) = sender.offer(Rank::new(1), 1000).unwrap() else {
            panic!("a buffer is free");
        };
        let in_place = sender.send_from(place, 1, of, &[1; 8]).unwrap_err();
        assert_eq!(in_place.to_string(), failed.to_string());
    }

    #[test]
    fn who_sends_in_place_to_a_rank_that_leaves_at_this_moment_is_told() {
        let [sender, target] = two_members();
        let send = |handler| match sender.offer(Rank::new(1), 1000).unwrap() {
            Offer::InPlace(place) => {
                let of = (MessageClass::Request, HandlerId(handler));
                sender.send_opened(place, 1, of, &[1; 8])
            }
            _ => panic!("a buffer is free"),
        };
        assert_eq!(send(HandlerId::N_RESERVED).unwrap(), Some(Sent::Accepted));
        let mut n_late = 0;
        target.mark_left(&mut |_| n_late += 1);
        assert_eq!(n_late, 1);
        for id in [HandlerId::N_RESERVED, HandlerId::LAYER.start] {
            let error = send(id).unwrap_err().to_string();
            assert!(error.contains("rank 1 has left"), "{error}");
        }
        let offers = || sender.offer(Rank::new(1), 1000).unwrap();
        let n_free = std::iter::repeat_with(offers)
            .take_while(|offer| matches!(offer, Offer::InPlace(_)))
            .count();
        assert_eq!(n_free, N_BUFFERS);
    }
}
