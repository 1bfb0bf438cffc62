//! Serves other ranks, and waits: receives messages, answers requests, spreads failures.

use std::sync::{MutexGuard, TryLockError};

use pgas_core::backend::{Backend, Message, MessageClass, OpId};
use pgas_core::{Rank, Result};

use crate::mailbox::Arrived;
use crate::network::{Network, State};
use crate::sys::{self, Mpi};
use pgas_network::atomics::Orders as _;
use pgas_network::limits::Awaited;
use pgas_network::note::Note;
use pgas_network::receive::{Arrivals, Letter};
use pgas_network::wait::Waiting;

/// The most notes that one call serves. Others may send them for ever, as ranks do that look at a
/// word of this one until it changes, and the caller may wait for something else.
const MOST_NOTES: usize = 64;

impl Network {
    /// Serves arrived notes up to the first message, and returns whether there was anything. A
    /// message is left to the caller, which should not wait for another poll of MPI.
    ///
    /// MPI tells of an error once, perhaps to a caller that cannot return it, and the rank may have
    /// lost a message or a receive by it. So the job fails.
    pub(crate) fn pump(&self, state: &mut State, mpi: &Mpi) -> Result<bool> {
        let worked = self.serve_arrived(state, mpi);
        let error = worked.as_ref().err().map(ToString::to_string);
        if let Some(error) = error.as_deref().or(sys::first_error_of_messages()) {
            let cause = format!("cannot exchange messages any more: {error}");
            self.note_failure(self.rank(), &cause);
        }
        worked
    }

    fn serve_arrived(&self, state: &mut State, mpi: &Mpi) -> Result<bool> {
        state.post.send_open(mpi)?;
        let mut worked = false;
        for _ in 0..MOST_NOTES {
            // Together with the open barrier, since each test of MPI polls the network.
            let Some(arrived) = state.post.next(mpi, state.barrier.request())? else {
                break;
            };
            worked = true;
            match arrived {
                Arrived::Message => break,
                Arrived::Note(from, note) => self.heed(state, mpi, from, note)?,
                Arrived::Other => state.barrier.complete(),
            }
        }
        self.receiving.note(|class| state.post.n_arrived(class));
        self.watch_barrier(state, mpi)?;
        self.tell_failure(state, mpi);
        Ok(worked)
    }

    fn heed(&self, state: &mut State, mpi: &Mpi, from: u32, note: Note) -> Result<()> {
        match note {
            // The post has read the first one. Over MPI no rank sends the other: MPI has a barrier.
            Note::Credits(_) | Note::Leaving { .. } => {}
            Note::Ask | Note::Bye { .. } => {
                let barriers = state.barrier.n_entered();
                let answer = if state.has_left {
                    let sent = state.post.peers.sent_to(from);
                    Note::Left { sent, barriers }
                } else {
                    Note::Here { barriers }
                };
                state.post.tell(mpi, from, &answer)?;
            }
            Note::Here { barriers } => {
                state.questions.answered(from);
                state.barrier.answered(from, barriers);
            }
            Note::Left { barriers, .. } => {
                state.questions.answered(from);
                state.barrier.answered(from, barriers);
                if state.barrier.is_missing(barriers) {
                    let cause = "has left the job while others wait for it in a barrier";
                    self.fail(state, mpi, Rank::new(from), cause);
                }
            }
            Note::Failed { rank, cause } => {
                self.failure.hear(Rank::new(rank), &cause, &self.neighbours);
            }
            Note::Execute { id, offset, order } => {
                let bits = match self.execute(offset, order) {
                    Ok(bits) => bits,
                    Err(error) => {
                        self.fail(state, mpi, Rank::new(from), &error.to_string());
                        return Ok(());
                    }
                };
                state.post.tell(mpi, from, &Note::Former { id, bits })?;
            }
            Note::Former { id, bits } => state.ops.answered(from, OpId(id), bits),
        }
        Ok(())
    }

    /// Records a failure and tells all ranks, if it is the first one that this rank knows of.
    pub(crate) fn fail(&self, state: &mut State, mpi: &Mpi, rank: Rank, cause: &str) {
        self.note_failure(rank, cause);
        self.tell_failure(state, mpi);
    }

    /// Records a failure, if it is the first one that this rank knows of, and tells the ranks of
    /// this host. The next thread inside of MPI [tells](Self::tell_failure) the others.
    fn note_failure(&self, rank: Rank, cause: &str) {
        self.failure.note(rank, cause, &self.neighbours);
    }

    /// As [`fail`](Self::fail), without waiting for a thread that is inside of MPI, which may stay
    /// there: the process's lookout calls this, too. Such a thread tells the others when it is
    /// back, and until then the connections between hosts do.
    pub(crate) fn fail_without_waiting(&self, rank: Rank, cause: &str) {
        self.note_failure(rank, cause);
        self.try_to_tell_failure();
    }

    /// Tells the other ranks of a recorded failure, unless another thread is inside of MPI.
    pub(crate) fn try_to_tell_failure(&self) {
        if !self.failure.is_untold() {
            return;
        }
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if let Some(mpi) = sys::try_enter().filter(|_| !state.is_over) {
            self.tell_failure(&mut state, &mpi);
        }
    }

    /// Tells all other ranks of a recorded failure, once. A rank that cannot be told, perhaps since
    /// it is the one that has failed, is told by the launcher.
    fn tell_failure(&self, state: &mut State, mpi: &Mpi) {
        let Some((rank, cause)) = self.failure.take_untold() else {
            return;
        };
        let note = Note::Failed {
            rank: rank.number(),
            cause: cause.to_owned(),
        };
        let others = (0..self.session.n_ranks()).filter(|other| *other != self.session.rank());
        for other in others {
            drop(state.post.tell(mpi, other, &note));
        }
    }

    /// Serves arrivals until `ready`, for a call of the contract that waits for the network.
    pub(crate) fn wait(
        &self,
        awaited: Awaited<'_>,
        mut ready: impl FnMut(&mut State, &Mpi) -> Result<bool>,
    ) -> Result<()> {
        let limits = self.session.lookout().limits();
        let mut waiting = Waiting::new(limits, self.rank(), awaited);
        loop {
            {
                let mut state = self.state();
                let mpi = sys::enter()?;
                if ready(&mut state, &mpi)? {
                    return Ok(());
                }
                if self.pump(&mut state, &mpi)? {
                    waiting.has_worked();
                }
                if ready(&mut state, &mpi)? {
                    return Ok(());
                }
            }
            let processors = (&self.parking, self.is_crowded());
            waiting.turn(self, processors, || self.health())?;
        }
    }

    #[inline]
    pub(crate) fn receive(
        &self,
        class: MessageClass,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
    ) -> Result<usize> {
        let neighbours = &self.neighbours;
        self.receiving.hand_out(
            class,
            limit,
            sink,
            |limit, sink| neighbours.poll(class, limit, sink),
            || {
                let state = self.state();
                let mpi = sys::enter()?;
                Ok(Locked { mpi, state })
            },
        )
    }
}

/// The messages of this rank, by a thread that is inside of MPI.
struct Locked<'a> {
    mpi: Mpi,
    state: MutexGuard<'a, State>,
}

impl Arrivals for Locked<'_> {
    type Buffer = Vec<u8>;

    fn n_arrived(&self, class: MessageClass) -> usize {
        self.state.post.n_arrived(class)
    }

    fn take(&mut self, class: MessageClass) -> Option<Letter<Vec<u8>>> {
        self.state.post.take(class)
    }

    fn put_back(&mut self, class: MessageClass, letter: Letter<Vec<u8>>) {
        self.state.post.put_back(class, letter);
    }

    fn finish(&mut self, class: MessageClass, letter: Letter<Vec<u8>>) -> Result<()> {
        self.state.post.finish(&self.mpi, class, letter, true)
    }

    fn send_open(&mut self) -> Result<()> {
        self.state.post.send_open(&self.mpi)
    }
}
