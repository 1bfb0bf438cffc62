//! Serves other ranks, and waits: receives messages, answers requests, spreads failures.

use std::fmt::Display;
use std::mem;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use pgas_core::backend::{Backend, Message, MessageClass, OpId};
use pgas_core::{Rank, Result};
use pgas_network::atomics::Orders as _;
use pgas_network::limits::Awaited;
use pgas_network::note::Note;
use pgas_network::receive::{Arrivals, Letter};
use pgas_network::wait::Waiting;

use crate::inbox::Bytes;
use crate::network::{KINDS, Network, OPERATION, RECEIVE, SEND, State};
use crate::segment::Segments;
use crate::sys::Completion;

/// The time between the failure of an operation and that of the job. If the cause is a lost rank or
/// host, the checks of these report it better meanwhile.
const GRACE: Duration = Duration::from_secs(1);

/// The interval at which the first rank of a host checks the others.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

impl Network {
    /// Serves arrived messages, and returns whether there were any.
    pub(crate) fn pump(&self, state: &mut State) -> Result<bool> {
        let mut completions = mem::take(&mut state.completions);
        let polled = state.endpoint.poll(&mut completions);
        let worked = !completions.is_empty();
        let mut outcome = polled;
        for completion in completions.drain(..) {
            let served = self.complete(state, &completion);
            outcome = outcome.and(served);
        }
        state.completions = completions;
        // Before an error is returned: what else has come is no less there.
        if worked {
            self.receiving.note(|class| state.post.n_arrived(class));
        }
        if outcome.is_err() {
            // It comes again in each call, which would otherwise not get so far.
            self.look_at_hosts(state);
            return outcome.map(|()| worked);
        }
        self.go_on(state);
        let State { post, endpoint, .. } = state;
        post.send_notes(endpoint, &self.segments);
        post.send_open((endpoint, &self.segments));
        // The receiver waits for it, also when this rank is leaving. Who can leave does so before
        // the job fails.
        let lost = [post.take_unreachable(), post.peers.take_unreachable()];
        for (rank, error) in lost.into_iter().flatten() {
            self.has_lost(rank, &error);
        }
        // After the answers, for which other ranks wait.
        post.post_receives(endpoint)?;
        self.look_at_hosts(state);
        self.tell_failure(state);
        Ok(worked)
    }

    /// Checks now and then whether the other hosts are alive.
    #[inline]
    fn look_at_hosts(&self, state: &mut State) {
        if state.looked.elapsed() < CHECK_INTERVAL {
            return;
        }
        self.look_at_hosts_now(state);
    }

    /// Tells the other hosts of a failure, if one is known, and checks whether they are alive.
    pub(crate) fn look_at_hosts_now(&self, state: &mut State) {
        let Some(lifeline) = &mut state.lifeline else {
            return;
        };
        state.looked = Instant::now();
        let known = self.failure.get();
        let known = known.map(|(rank, cause)| (rank.number(), cause.to_owned()));
        if let Some((rank, cause)) = lifeline.look(known.as_ref()) {
            self.note_failure(Rank::new(rank), &cause);
        }
    }

    fn complete(&self, state: &mut State, completion: &Completion) -> Result<()> {
        let Ok(index) = usize::try_from(completion.number >> 2) else {
            return Ok(());
        };
        if completion.is_of_trial() {
            return Ok(());
        }
        let kind = completion.number & KINDS;
        if let Some(text) = &completion.error {
            let rank = match kind {
                OPERATION => state.ops.rank_of(index),
                SEND => state.post.receiver_of(index),
                _ => None,
            };
            match rank {
                Some(rank) => self.has_lost(rank, text),
                None if kind == RECEIVE => self.has_broken(
                    self.rank,
                    format!("cannot receive messages any more ({text})"),
                ),
                // Such a completion does not say to whom.
                None => self.has_broken(self.rank, format!("could not send a message ({text})")),
            }
            // An operation never completes, and makes the job fail. A buffer stays libfabric's: the
            // error may be reported once more, when the buffer would be in use again.
            return Ok(());
        }
        match kind {
            OPERATION => {
                self.has_completed(state, index);
            }
            RECEIVE => {
                let mut notes = mem::take(&mut state.notes);
                let read = state.post.has_received(index, completion, &mut notes);
                if let Ok(from) = read {
                    notes.drain(..).for_each(|it| self.heed(state, from, it));
                }
                notes.clear();
                state.notes = notes;
                read?;
            }
            SEND => state.post.has_sent(index),
            _ => {}
        }
        Ok(())
    }

    /// Records that nothing goes to `rank` any more.
    #[cold]
    pub(crate) fn has_lost(&self, rank: u32, why: &dyn Display) {
        self.has_broken(rank, format!("cannot be reached any more ({why})"));
    }

    /// Records what has happened to `rank`. The job fails a little later, if nothing explains it
    /// better.
    #[cold]
    fn has_broken(&self, rank: u32, cause: String) {
        let broken = || (Rank::new(rank), cause, Instant::now());
        self.broken.get_or_init(broken);
    }

    fn heed(&self, state: &mut State, from: u32, note: Note) {
        match note {
            // The post has read it.
            Note::Credits(_) => {}
            Note::Ask | Note::Bye { .. } => {
                let barriers = 0;
                let answer = if state.has_left {
                    let sent = state.post.peers.sent_to(from);
                    Note::Left { sent, barriers }
                } else {
                    Note::Here { barriers }
                };
                state.post.tell_later(from, answer);
            }
            Note::Here { .. } | Note::Left { .. } => {
                state.questions.answered(from);
            }
            Note::Leaving { round } => {
                state.rounds.insert(round);
            }
            Note::Failed { rank, cause } => {
                self.failure.hear(Rank::new(rank), &cause, &self.neighbours);
            }
            Note::Execute { id, offset, order } => match self.execute(offset, order) {
                // The answer may share a message with those to other atomics of this poll.
                Ok(bits) => state.post.tell_later(from, Note::Former { id, bits }),
                Err(error) => self.note_failure(Rank::new(from), &error.to_string()),
            },
            Note::Former { id, bits } => state.ops.answered(from, OpId(id), bits),
        }
    }

    pub(crate) fn tell(&self, state: &mut State, to: u32, note: Note) {
        let State { post, endpoint, .. } = state;
        post.tell(endpoint, &self.segments, to, note);
    }

    /// Records a failure, if it is the first one that this rank knows of, and tells the ranks of
    /// this host. The next holder of the lock [tells](Self::tell_failure) the others.
    fn note_failure(&self, rank: Rank, cause: &str) {
        self.failure.note(rank, cause, &self.neighbours);
    }

    /// As [`note_failure`](Self::note_failure), and tells all ranks, unless another thread is
    /// inside of libfabric.
    pub(crate) fn fail(&self, rank: Rank, cause: &str) {
        self.note_failure(rank, cause);
        if let Some(mut state) = self.try_state() {
            // A rank that cannot be told finds out by itself.
            self.tell_failure(&mut state);
        }
    }

    /// Tells all other ranks of a recorded failure, once.
    #[inline]
    pub(crate) fn tell_failure(&self, state: &mut State) {
        if self.failure.is_untold() {
            self.tell_all(state);
        }
    }

    #[cold]
    fn tell_all(&self, state: &mut State) {
        let Some((rank, cause)) = self.failure.take_untold() else {
            return;
        };
        for other in (0..self.segments.n_ranks()).filter(|other| *other != self.rank) {
            let note = Note::Failed {
                rank: rank.number(),
                cause: cause.to_owned(),
            };
            self.tell(state, other, note);
        }
    }

    /// Serves arrivals until `ready`, for a call of the contract that waits for the network.
    pub(crate) fn wait(
        &self,
        awaited: Awaited<'_>,
        mut ready: impl FnMut(&mut State) -> Result<bool>,
    ) -> Result<()> {
        let mut waiting = Waiting::new(self.limits, self.rank(), awaited);
        loop {
            {
                let mut state = self.state();
                if ready(&mut state)? {
                    return Ok(());
                }
                if self.pump(&mut state)? {
                    waiting.has_worked();
                }
                if ready(&mut state)? {
                    return Ok(());
                }
            }
            let processors = (&self.parking, self.is_crowded());
            waiting.turn(self, processors, || {
                self.member().check_other_ranks();
                self.health()
            })?;
        }
    }

    #[inline]
    pub(crate) fn receive(
        &self,
        class: MessageClass,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
    ) -> Result<usize> {
        // A rank's messages to itself come here even without the direct path.
        let neighbours = &self.neighbours;
        self.receiving.hand_out(
            class,
            limit,
            sink,
            |limit, sink| neighbours.poll(class, limit, sink),
            || {
                Ok(Locked {
                    state: self.state(),
                    segments: &self.segments,
                })
            },
        )
    }

    /// An error if the job has failed.
    pub(crate) fn check_health(&self) -> Result<()> {
        self.failure
            .check(&self.neighbours, |rank, cause| self.blame(rank, cause))?;
        match self.broken.get() {
            Some((rank, cause, at)) if at.elapsed() >= GRACE => Err(self.blame(*rank, cause)),
            _ => Ok(()),
        }
    }
}

/// The messages of this rank, which is locked.
struct Locked<'a> {
    state: MutexGuard<'a, State>,
    segments: &'a Segments,
}

impl Arrivals for Locked<'_> {
    type Buffer = Bytes;

    fn n_arrived(&self, class: MessageClass) -> usize {
        self.state.post.n_arrived(class)
    }

    fn take(&mut self, class: MessageClass) -> Option<Letter<Bytes>> {
        self.state.post.take(class)
    }

    fn put_back(&mut self, class: MessageClass, letter: Letter<Bytes>) {
        self.state.post.put_back(class, letter);
    }

    fn finish(&mut self, class: MessageClass, letter: Letter<Bytes>) -> Result<()> {
        let State { post, endpoint, .. } = &mut *self.state;
        post.finish(endpoint, self.segments, class, letter, true);
        Ok(())
    }

    fn send_open(&mut self) -> Result<()> {
        let State { post, endpoint, .. } = &mut *self.state;
        post.send_open((endpoint, self.segments));
        Ok(())
    }
}
