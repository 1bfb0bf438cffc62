//! Phases of a queue, as types: what all ranks promise to do with it.

use crate::phases::phases;

phases! {
    /// A phase of a queue; the types of this module are all there are.
    trait Phase;

    /// Whether ranks push and pop at the same time.
    const BOTH: bool;

    /// Any rank pushes and pops at any time.
    PushPop = 0: "push and pop", true;
    /// Any rank pushes, nobody pops.
    Push = 1: "push", false;
    /// Any rank pops, nobody pushes.
    Pop = 2: "pop", false;
    /// Only the rank that hosts the queue uses it, without atomics.
    Local = 3: "local", false;
}

/// A phase in which any rank pushes: [`PushPop`] or [`Push`].
#[diagnostic::on_unimplemented(
    message = "no rank pushes to a queue whose phase is `{Self}`",
    label = "this queue's phase is `{Self}`",
    note = "`into_push_phase` begins a phase in which any rank pushes",
    note = "in the phase `Local` the host alone pushes, by `local_push`"
)]
pub trait Pushes: Phase {}

impl Pushes for PushPop {}
impl Pushes for Push {}

/// A phase in which any rank pops: [`PushPop`] or [`Pop`].
#[diagnostic::on_unimplemented(
    message = "no rank pops from a queue whose phase is `{Self}`",
    label = "this queue's phase is `{Self}`",
    note = "`into_pop_phase` begins a phase in which any rank pops",
    note = "in the phase `Local` the host alone pops, by `local_pop`"
)]
pub trait Pops: Phase {}

impl Pops for PushPop {}
impl Pops for Pop {}
