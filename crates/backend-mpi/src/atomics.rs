//! Atomics: all are executed by a CPU that has the word in its memory.
//!
//! An atomic on a word of another host is a note with the operation, which the target executes with
//! a CPU atomic when it makes progress, and a note with the former bits. Several may be in flight;
//! a flush waits for the answers. A rank executes atomics on its own words, and on those of ranks
//! that it shares memory with, itself.
//!
//! MPI's own atomics are not used, since CPU atomics on the same word would lose updates. They
//! would not be faster: the libraries execute them in the progress of the target, too, or under a
//! lock of it, and several of them would not share a message.
#![expect(unsafe_code, reason = "promises when former bits are written")]

use pgas_core::backend::{Atomic, Backend as _, Call, Former, OpId};
use pgas_core::{Rank, Result};

use crate::network::{Network, State};
use crate::ops::Flight;
use crate::sys::Mpi;
use pgas_network::atomics::{Orders, Remote};
use pgas_network::limits::Awaited;
use pgas_network::note::Note;
use pgas_smp::Member;

// SAFETY: an answer frees its place in the table of operations, and `abandon` sees to it that a
// later one is not written.
unsafe impl Orders for Network {
    type Member = Member;

    fn member(&self) -> &Member {
        self.member()
    }

    fn nearby<C: Call>(&self, word: Atomic<C>) -> Option<Atomic<C>> {
        self.local_word(word)
    }

    /// Sends the atomic to the target. Waits for answers to earlier atomics if too many are in
    /// flight.
    fn send(&self, order: Remote, mut former: Option<Former>) -> Result<OpId> {
        let from = order.target().rank.number();
        let mut op = OpId::DONE;
        let missing = || self.state().ops.awaited();
        let awaited = Awaited {
            what: "answers to earlier atomics",
            missing: &missing,
        };
        self.wait(awaited, |state, mpi| {
            let Some(index) = state.ops.reserve() else {
                return Ok(false);
            };
            let note = Note::Execute {
                id: state.ops.id(index).0,
                offset: order.target().offset,
                order: order.told(),
            };
            if let Err(error) = state.post.tell(mpi, from, &note) {
                state.ops.release(index);
                return Err(error);
            }
            let result = former.take();
            op = state.ops.begin(index, Flight::Answer { from, result });
            Ok(true)
        })?;
        Ok(op)
    }

    fn await_answer(&self, op: OpId, awaited: Awaited<'_>) -> Result<()> {
        let answered = self.wait(awaited, |state, _| Ok(!state.ops.awaits_answer(op)));
        if answered.is_err() {
            self.state().ops.abandon(op);
        }
        answered
    }

    fn fail(&self, cause: &str) {
        // The error is the one of the wait.
        drop(self.blame(self.rank(), cause));
    }
}

impl Network {
    /// Waits until `rank` has answered all atomics.
    pub(crate) fn await_answers(&self, rank: Option<u32>) -> Result<()> {
        let is_open = |state: &State| match rank {
            Some(rank) => state.ops.awaits(rank),
            None => state.ops.has_any(),
        };
        if !is_open(&self.state()) {
            return Ok(());
        }
        let missing = || match rank {
            Some(rank) => vec![Rank::new(rank)],
            None => self.state().ops.awaited(),
        };
        let awaited = Awaited {
            what: "answers to atomics",
            missing: &missing,
        };
        self.wait(awaited, |state, _: &Mpi| Ok(!is_open(state)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{LIMIT, Ops};

    #[test]
    fn slots_of_answers_are_used_again_under_other_ids() {
        let mut ops = Ops::default();
        let mut former = 0;
        let mut ids = Vec::new();
        for bits in 1..10 {
            let index = ops.reserve().unwrap();
            // SAFETY: `former` lives as long as the table.
            let place = unsafe { Former::new(&raw mut former) };
            let op = ops.begin(
                index,
                Flight::Answer {
                    from: 3,
                    result: Some(place),
                },
            );
            assert!(ops.awaits(3) && !ops.awaits(2));
            ops.answered(3, op, bits);
            assert!(!ops.awaits(3));
            assert_eq!(former, bits);
            assert_eq!(index, 0, "the only slot");
            assert!(ops.index_of(op).is_none());
            ids.push(op);
        }
        ids.dedup();
        assert_eq!(ids.len(), 9);
    }

    #[test]
    fn an_atomic_that_was_answered_frees_its_slot_before_anybody_asks_for_its_result() {
        let mut ops = Ops::default();
        let mut formers = vec![0_u64; 3 * LIMIT];
        let mut begun = Vec::new();
        for former in &mut formers {
            let index = ops.reserve().expect("all before were answered");
            // SAFETY: the vector lives as long as the table, and nobody else touches it meanwhile.
            let place = unsafe { Former::new(former) };
            let result = Some(place);
            let op = ops.begin(index, Flight::Answer { from: 1, result });
            ops.answered(1, op, op.0);
            begun.push(op);
        }
        assert!(!ops.has_any());
        assert!(begun.iter().all(|op| ops.index_of(*op).is_none()));
        let bits: Vec<u64> = begun.iter().map(|op| op.0).collect();
        assert_eq!(formers, bits);
    }
}
