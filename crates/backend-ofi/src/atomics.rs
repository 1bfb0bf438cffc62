//! Atomics: all of a job have one executor ([`executor`](crate::executor)).
//!
//! If that is the rank that holds the word, an atomic on a word of another host is a note with the
//! operation, which the target executes with a CPU atomic when it makes progress, and a note with
//! the former bits. A rank executes atomics on its own words, and on those of ranks that it shares
//! memory with, itself. If it is the provider, all of these go through it.
//!
//! Several may be in flight; a flush waits for the answers.
#![expect(unsafe_code, reason = "promises when former bits are written")]

use pgas_core::Result;
use pgas_core::backend::{Atomic, Backend as _, Call, Former, OpId};
use pgas_network::atomics::{Orders, Remote};
use pgas_network::limits::Awaited;
use pgas_network::note::Note;
use pgas_smp::Member;

use crate::network::Network;
use crate::ops::Flight;

// SAFETY: an answer, or the provider's completion, frees its place in the table of operations, and
// `abandon` sees to it that a later one is not written.
unsafe impl Orders for Network {
    type Member = Member;

    fn member(&self) -> &Member {
        self.member()
    }

    fn nearby<C: Call>(&self, word: Atomic<C>) -> Option<Atomic<C>> {
        if self.has_provided_atomics() {
            return None;
        }
        self.on_this_host(word)
    }

    /// Sends the atomic to the target. Waits for earlier operations if too many are in flight.
    fn send(&self, order: Remote, mut former: Option<Former>) -> Result<OpId> {
        if self.has_provided_atomics() {
            return self.provide(order, former);
        }
        let target = order.target();
        let from = target.rank.number();
        let mut op = OpId::DONE;
        let missing = || self.state().ops.in_flight();
        let awaited = Awaited {
            what: "room for an atomic",
            missing: &missing,
        };
        self.wait(awaited, |state| {
            let Some(index) = state.ops.reserve() else {
                return Ok(false);
            };
            let note = Note::Execute {
                id: state.ops.id(index).0,
                offset: target.offset,
                order: order.told(),
            };
            self.tell(state, from, note);
            let result = former.take();
            op = state.ops.begin(index, Flight::Answer { from, result });
            Ok(true)
        })?;
        Ok(op)
    }

    fn await_answer(&self, op: OpId, awaited: Awaited<'_>) -> Result<()> {
        let answered = self.wait(awaited, |state| Ok(state.ops.is_over(op)));
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
