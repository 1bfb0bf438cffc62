//! Atomics: all are executed by a CPU that has the word in its memory.
//!
//! An atomic on a word of another host is a note with the operation, which the target executes with
//! a CPU atomic when it makes progress, and a note with the former bits. Several may be in flight;
//! a flush waits for the answers. A rank executes atomics on its own words, and on those of ranks
//! that it shares memory with, itself.
//!
//! `fi_atomic` is not used. All atomics on a word must have one implementation, or updates are
//! lost, and no tested provider has all of them. `tcp;ofi_rxm` and `shm` offer each, but their
//! minima and maxima of floats keep NaN (`sys/endpoint/atomics.rs` tries it), `net` offers some
//! that it does not have, and `tcp` has none. Providers execute them in the target's progress, too,
//! so nothing would be saved.
#![expect(unsafe_code, reason = "promises when former bits are written")]

use pgas_core::Result;
use pgas_core::backend::{Atomic, Backend as _, Call, Former, OpId};
use pgas_network::atomics::{Orders, Remote};
use pgas_network::limits::Awaited;
use pgas_network::note::Note;
use pgas_smp::Member;

use crate::network::Network;
use crate::ops::Flight;

// SAFETY: an answer frees its place in the table of operations, and `abandon` sees to it that a
// later one is not written.
unsafe impl Orders for Network {
    type Member = Member;

    fn member(&self) -> &Member {
        self.member()
    }

    fn nearby<C: Call>(&self, word: Atomic<C>) -> Option<Atomic<C>> {
        self.on_this_host(word)
    }

    /// Sends the atomic to the target. Waits for earlier operations if too many are in flight.
    fn send(&self, order: Remote, mut former: Option<Former>) -> Result<OpId> {
        let target = order.target();
        let from = target.rank.number();
        let mut op = OpId::DONE;
        let missing = || self.state().ops.awaited();
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
