//! Leaves the job in good order: no message is in flight to a rank that has left, and ranks know
//! which ranks have left.

use std::sync::PoisonError;
use std::time::Instant;

use pgas_core::backend::{Backend, Message, MessageClass};
use pgas_core::{Rank, Result};
use pgas_network::limits::Awaited;
use pgas_network::note::Note;

use crate::network::{Network, State};

/// The step that a leaving rank has reached.
#[derive(Clone, Copy, Debug)]
enum Step {
    Finish,
    Bye,
    Barrier(u32),
    Drain,
}

impl Network {
    /// Whether `rank` has left, and all its messages to this one were handed out. If this is not
    /// known, asks it, for the next call.
    pub(crate) fn is_gone(&self, rank: Rank) -> bool {
        if let Some(rank) = self.neighbours.reached(rank) {
            return self.member().has_left(rank);
        }
        let mut state = self.state();
        if state.post.peers.is_gone(rank.number()) {
            return true;
        }
        if state.questions.is_due(rank.number(), Instant::now()) {
            state.questions.begin(rank.number());
            // Calls that can return an error report it.
            self.tell(&mut state, rank.number(), Note::Ask);
        }
        false
    }

    /// Stays until all ranks have left, and serves them meanwhile.
    ///
    /// 1. The rank completes its operations.
    /// 2. It tells each rank to which it has sent messages their number, by a note that is answered
    ///    (the good-bye): a note that has reached the other rank was perhaps not read there. Later
    ///    notes are only answers, and their receiver waits for them before it leaves itself.
    /// 3. After a dissemination barrier, every rank has read every good-bye, and knows the
    ///    number of messages that are still in flight to it. In each round a rank sends a note to
    ///    another one, twice as far away as in the round before.
    /// 4. It takes these messages from the network.
    pub(crate) fn shut_down(&self, late: &mut dyn FnMut(Message<'_>)) -> Result<()> {
        self.flush_ranks()?;
        self.state().has_left = true;
        self.neighbours.leave(late);
        let mut step = Step::Finish;
        let awaited = Awaited {
            what: "the others to leave",
            missing: &Vec::new,
        };
        self.wait(awaited, |state| {
            self.take_late(state, late)?;
            while let Some(next) = self.step_after(state, step)? {
                if matches!(step, Step::Drain) {
                    return Ok(true);
                }
                step = next;
            }
            Ok(false)
        })?;
        // Release the last answers' buffers too.
        self.wait(awaited, |state| Ok(state.post.has_sent_all()))?;
        if let Some(lifeline) = &mut self.state().lifeline {
            lifeline.take_leave();
        }
        let launcher = self.launcher.as_ref();
        launcher.map_or(Ok(()), |launcher| {
            let mut launcher = launcher.lock().unwrap_or_else(PoisonError::into_inner);
            launcher.finish()
        })
    }

    /// Passes messages that came too late to `late`.
    fn take_late(&self, state: &mut State, late: &mut dyn FnMut(Message<'_>)) -> Result<()> {
        let State { post, endpoint, .. } = state;
        for class in [MessageClass::Request, MessageClass::Reply] {
            while let Some(mut letter) = post.take(class) {
                letter.hand_out(class, usize::MAX, late);
                post.finish(endpoint, &self.segments, class, letter, false);
            }
        }
        Ok(())
    }

    /// Begins the step after `step` if that is done, and returns it.
    fn step_after(&self, state: &mut State, step: Step) -> Result<Option<Step>> {
        let n_rounds = self.segments.n_ranks().next_power_of_two().ilog2();
        let is_done = match step {
            // After a loss of messages the job fails in a moment. Until then this rank stays: the
            // receiver, which waits for them, is told by a rank that is still there.
            Step::Finish => {
                state.questions.are_answered()
                    && !state.ops.has_any()
                    && state.post.has_sent_all()
                    && self.broken.get().is_none()
            }
            Step::Bye => state.questions.are_answered(),
            Step::Barrier(round) => round == n_rounds || state.rounds.contains(&round),
            Step::Drain => state.post.peers.is_drained(),
        };
        if !is_done {
            return Ok(None);
        }
        Ok(Some(match step {
            Step::Finish => {
                for (rank, bye) in state.post.peers.goodbyes() {
                    state.questions.begin(rank);
                    self.tell(state, rank, bye);
                }
                Step::Bye
            }
            Step::Bye => self.begin_round(state, 0, n_rounds)?,
            Step::Barrier(round) if round < n_rounds => {
                self.begin_round(state, round + 1, n_rounds)?
            }
            Step::Barrier(_) | Step::Drain => Step::Drain,
        }))
    }

    fn begin_round(&self, state: &mut State, round: u32, n_rounds: u32) -> Result<Step> {
        if round < n_rounds {
            let n_ranks = u64::from(self.segments.n_ranks());
            let other = (u64::from(self.rank) + (1 << round)) % n_ranks;
            let other = u32::try_from(other).expect("below the number of ranks");
            self.tell(state, other, Note::Leaving { round });
        }
        Ok(Step::Barrier(round))
    }
}
