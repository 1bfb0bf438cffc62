//! Phases of a queue, as types: what all ranks promise to do with it.

/// A phase of a queue; the types of this module are all there are.
pub trait Phase: Sealed {
    /// For `Debug`.
    const NAME: &'static str;
}

mod sealed {
    /// Keeps the set of phases closed, and numbers it.
    #[expect(unnameable_types, reason = "sealed")]
    pub trait Sealed {
        /// The index in [`NAMES`](super::NAMES).
        const NUMBER: usize;
        /// Whether ranks push and pop at the same time.
        const BOTH: bool;
    }
}

pub(super) use sealed::Sealed;

macro_rules! phases {
    ($($(#[$doc:meta])* $phase:ident = $number:literal: $name:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub enum $phase {}

            impl sealed::Sealed for $phase {
                const NUMBER: usize = $number;
                const BOTH: bool = $number == 0;
            }

            impl Phase for $phase {
                const NAME: &'static str = $name;
            }
        )*

        /// The phases, for the message when ranks disagree.
        pub(super) const NAMES: &[&str] = &[$($name),*];
    };
}

phases! {
    /// Any rank pushes and pops at any time.
    PushPop = 0: "push and pop";
    /// Any rank pushes, nobody pops.
    Push = 1: "push";
    /// Any rank pops, nobody pushes.
    Pop = 2: "pop";
    /// Only the rank that hosts the queue uses it, without atomics.
    Local = 3: "local";
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
