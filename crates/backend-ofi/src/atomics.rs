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
#![expect(unsafe_code, reason = "names words that other ranks order atomics on")]

use pgas_core::backend::{Backend, Former, OpId, RemoteAddr};
use pgas_core::{Rank, Result};
use pgas_network::atomics::{Remote, execute};
use pgas_network::limits::Awaited;
use pgas_network::note::{Note, Order};

use crate::network::Network;
use crate::ops::Flight;

impl Network {
    /// An atomic with its result.
    pub(crate) fn order(&self, order: Remote) -> Result<u64> {
        let mut former = 0;
        // SAFETY: `former` is written by this operation alone until this returns, which is after
        // the answer, or after `abandon`, which sees to it that the answer is not written.
        let place = unsafe { Former::new(&raw mut former) };
        let op = self.begin_order(order, place)?;
        if op != OpId::DONE {
            let missing = || vec![order.target().rank];
            let awaited = Awaited {
                what: "the answer to an atomic",
                missing: &missing,
            };
            let answered = self.wait(awaited, |state| Ok(state.ops.is_over(op)));
            if answered.is_err() {
                self.state().ops.abandon(op);
            }
            answered?;
        }
        Ok(former)
    }

    /// An atomic without a result: the next flush waits for it.
    pub(crate) fn send_order(&self, order: Remote) -> Result<()> {
        if self.execute_nearby(order).is_some() {
            return Ok(());
        }
        self.begin_note(order, None).map(drop)
    }

    /// Begins an atomic with its result.
    pub(crate) fn begin_order(&self, order: Remote, former: Former) -> Result<OpId> {
        if let Some(bits) = self.execute_nearby(order) {
            former.set(bits);
            return Ok(OpId::DONE);
        }
        self.begin_note(order, Some(former))
    }

    /// Sends the atomic to the target. Waits for earlier operations if too many are in flight.
    fn begin_note(&self, order: Remote, mut former: Option<Former>) -> Result<OpId> {
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
            if let Err(error) = self.tell(state, from, note) {
                state.ops.release(index);
                return Err(error);
            }
            let result = former.take();
            op = state.ops.begin(index, Flight::Answer { from, result });
            Ok(true)
        })?;
        Ok(op)
    }

    /// Executes an atomic that another rank has ordered, on the word at `offset` of this rank's own
    /// segment.
    pub(crate) fn execute(&self, offset: u64, order: Order) -> Result<u64> {
        let rank = Rank::new(self.neighbours.host.index());
        execute(self.member(), RemoteAddr { rank, offset }, order)
    }

    /// Executes an atomic whose word this rank reaches, and returns the former bits.
    fn execute_nearby(&self, order: Remote) -> Option<u64> {
        let done = match order {
            Remote::Fetch(atomic) => self.member().fetch_atomic(self.on_this_host(atomic)?),
            Remote::Swap(swap) => self.member().compare_swap(self.on_this_host(swap)?),
        };
        Some(done.expect("a CPU atomic on mapped memory cannot fail"))
    }
}
