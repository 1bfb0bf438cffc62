//! Leaves the job in good order: no message is in flight to a rank that has left, and ranks know
//! which ranks have left.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use pgas_core::backend::{Backend, Message, MessageClass};
use pgas_core::{Rank, Result};

use crate::network::{Network, State};
use crate::sys;
use pgas_network::limits::Awaited;

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
        if rank != self.rank() && state.questions.is_due(rank.number(), Instant::now()) {
            let told = sys::enter().and_then(|mpi| state.ask(&mpi, rank.number()));
            // Calls that can return an error report it.
            drop(told);
        }
        false
    }

    /// Stays until all ranks have left, and serves them meanwhile.
    ///
    /// 1. The rank completes its operations.
    /// 2. It tells each rank to which it has sent messages their number, by a note that is answered
    ///    (the good-bye): a note that has reached the other rank was perhaps not read there. Later
    ///    notes are only answers, and their receiver waits for them before it leaves itself.
    /// 3. After a barrier, every rank has read every good-bye, and knows the number of messages
    ///    that are still in flight to it.
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
        self.wait(awaited, |state, mpi| {
            self.collectives.serve(mpi)?;
            for class in [MessageClass::Request, MessageClass::Reply] {
                while let Some(mut letter) = state.post.take(class) {
                    letter.hand_out(class, usize::MAX, late);
                    state.post.finish(mpi, class, letter, false)?;
                }
            }
            loop {
                let is_done = match step {
                    Step::Finish => {
                        state.questions.are_answered()
                            && self.collectives.are_answered()
                            && !state.ops.has_any()
                            && state.post.has_sent_all(mpi)?
                    }
                    Step::Bye => state.questions.are_answered(),
                    Step::Barrier(ticket) => state.shutdown_barrier.test(mpi, ticket)?,
                    Step::Drain => state.post.peers.is_drained(),
                };
                if !is_done {
                    return Ok(false);
                }
                step = match step {
                    Step::Finish => {
                        state.say_bye(mpi)?;
                        Step::Bye
                    }
                    Step::Bye => Step::Barrier(state.shutdown_barrier.enter(mpi)?),
                    Step::Barrier(_) => Step::Drain,
                    Step::Drain => return Ok(true),
                };
            }
        })?;
        // Release the last answers' buffers too.
        self.wait(awaited, |state, mpi| state.post.has_sent_all(mpi))?;
        self.state().is_over = true;
        self.session.lookout().take_leave();
        Ok(())
    }

    /// Frees this world's objects of MPI; collective.
    fn close(&mut self) -> Result<()> {
        self.collectives.close()?;
        {
            let mut state = self
                .state
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            let mpi = sys::enter()?;
            sys::win_free(&mpi, &mut self.window)?;
            let State {
                post,
                barrier,
                shutdown_barrier,
                ..
            } = &mut *state;
            post.close(&mpi)?;
            barrier.close(&mpi)?;
            shutdown_barrier.close(&mpi)?;
        }
        self.session.close(true)
    }
}

/// The step that a leaving rank has reached.
#[derive(Clone, Copy, Debug)]
enum Step {
    Finish,
    Bye,
    Barrier(pgas_core::backend::BarrierTicket),
    Drain,
}

impl Drop for Network {
    fn drop(&mut self) {
        if thread::panicking() {
            self.session.abort(101, "panicked, which ends the job");
        }
        let is_over = self.state().is_over;
        if is_over && self.close().is_ok() {
            return;
        }
        if let Err(failure) = self.health() {
            self.session.tell_of(&failure);
        }
        // The launcher ends the job. Until then MPI may still read and write lent buffers.
        self.staging.get_mut().leave();
        let _ = Arc::into_raw(Arc::clone(&self.neighbours.member));
        let _ = Arc::into_raw(Arc::clone(&self.state));
    }
}
