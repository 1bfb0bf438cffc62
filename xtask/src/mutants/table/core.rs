//! Mutants of the completion of collectives and of signals.

use super::super::By::{NoTest, Nobody, Tests};
use super::super::Mutant;
use super::row;

#[rustfmt::skip]
pub(super) const MUTANTS: &[Mutant] = &[
    row("collective/call.rs", "for_task.is_done.store(true, Ordering::Release);", 0, "for_task.is_done.store(true, Ordering::Relaxed);", Nobody("the result is taken under its lock, after which nobody leaves it")),
    row("collective/call.rs", "self.outcome.is_done.load(Ordering::Acquire)", 0, "self.outcome.is_done.load(Ordering::Relaxed)", Nobody("the result is taken under its lock, after which nobody leaves it")),
    row("collective/ticket.rs", "self.native().turn.store(GIVEN_UP, Ordering::Release);", 0, "", Tests("a_call_that_is_given_up_before")),
    row("collective/ticket.rs", "turn if turn == self.number => Poll::Ready(Ok(())),", 0, "turn if turn != GIVEN_UP => Poll::Ready(Ok(())),", Tests("collectives_of_both_kinds")),
    row("rma/signal.rs", "fence(Ordering::Release);", 0, "", NoTest("x86 keeps the order of stores, and loom does not see the copy before it")),
];
