//! Finds the ranks that are missing in a long barrier.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use pgas_core::backend::BarrierTicket;
use pgas_core::{Rank, Result};

use crate::network::{Network, State};
use crate::sys::Mpi;
use pgas_network::limits::Awaited;

/// The number of ranks asked in a round.
const RANKS_A_ROUND: u32 = 8;
/// The time for the answers of ranks that may be missing.
const ANSWER_TIME: Duration = Duration::from_millis(100);

impl Network {
    /// Asks some of the others whether they have left, now and then while a barrier lasts.
    pub(crate) fn watch_barrier(&self, state: &mut State, mpi: &Mpi) -> Result<()> {
        if !state.barrier.is_due() {
            return Ok(());
        }
        // By the clock: answers to these questions keep the wait from checking the job's health,
        // and on a busy machine it has few rounds.
        self.member().check_other_ranks();
        let n_ranks = self.session.n_ranks();
        for _ in 0..RANKS_A_ROUND.min(n_ranks) {
            let rank = state.barrier.next % n_ranks;
            state.barrier.next = rank + 1;
            if rank != self.session.rank() {
                state.ask(mpi, rank)?;
            }
        }
        Ok(())
    }

    /// Asks every rank how many barriers it has entered. A rank that does not answer in time that
    /// it has entered this one is missing.
    pub(crate) fn find_missing(&self, ticket: BarrierTicket) -> Vec<Rank> {
        let others = || (0..self.session.n_ranks()).filter(|rank| *rank != self.session.rank());
        self.state().barrier.entered = Some(HashMap::new());
        let mut is_asked = false;
        let began = Instant::now();
        let awaited = Awaited {
            what: "word of who has entered a barrier",
            missing: &Vec::new,
        };
        let asking = self.wait(awaited, |state, mpi| {
            if !is_asked {
                is_asked = true;
                for rank in others() {
                    state.ask(mpi, rank)?;
                }
            }
            let n_answers = state.barrier.entered.as_ref().map_or(0, HashMap::len);
            Ok(n_answers == others().count() || began.elapsed() > ANSWER_TIME)
        });
        let entered = self.state().barrier.entered.take().unwrap_or_default();
        if asking.is_err() {
            return Vec::new();
        }
        others()
            .filter(|rank| entered.get(rank).is_none_or(|n| *n < ticket.0))
            .map(Rank::new)
            .collect()
    }
}
