//! Collectives of a team: barrier, broadcast, reductions, exchanges and scans.
//!
//! The methods are those of [`Team`]; [`World`](crate::World) has them for all ranks. Every member
//! calls the same collectives of a team in the same order, with the same root, length and operator,
//! from one thread at a time; collectives of different teams may interleave. With `PGAS_CHECK=1`
//! all members get [`Error::Mismatch`](crate::Error::Mismatch) if they disagree, instead of a hang.
//! Inside a handler a collective returns [`Error::InHandler`](crate::Error::InHandler), without
//! effect on the other members. Any other error is the job's failure, since the members no longer
//! agree on their progress: by its next wait each rank gets an error that names the rank and the
//! collective that failed. If a step can fail on one member alone, compare the outcomes by
//! [`Team::all_succeeded`], [`Team::all_try`] or [`Team::all_try_reduce`]; then all members can
//! continue.
//!
//! A blocking collective makes progress while it waits. A non-blocking one (`_nb`) owns its
//! buffers, advances whenever its rank makes progress, and completes even if its event is dropped,
//! since other ranks depend on it. Several may be in flight at once, on one team and on teams that
//! overlap.
//!
//! # Cost
//!
//! Costs are given in consecutive rounds of messages, and in the bytes that the busiest member
//! sends, with `n` members and `m` bytes for each; `log` has base 2 and is rounded up.
//!
//! | collective | rounds | bytes | algorithm |
//! |---|---|---|---|
//! | barrier | log n | - | dissemination (1) |
//! | broadcast | log n | m log n | binomial tree; long ones in pieces that are passed on as they come |
//! | reduce | log n, + 1 unless the root is member 0 | m | binomial tree (3) |
//! | allreduce, up to 32 KiB | log n + 2 | m log n | recursive doubling (3) |
//! | allreduce, longer | 2 log n + 2 | 2 m | reduce-scatter and allgather (Rabenseifner) (3) |
//! | gather | log n (long blocks: 1) | n m / 2 (m) | binomial tree (3) (to the root at once) |
//! | allgather | log n | n m | Bruck (2) |
//! | `all_to_all`, up to 256 bytes a member | log n | (n m log n) / 2 | Bruck (2) |
//! | `all_to_all`, longer | n - 1 | n m | pairwise exchange (3) |
//! | scans | log n | m log n | recursive doubling (4) |
//!
//! Operators are applied to values of neighbouring members, in the order of the members. So they
//! must be associative, but need not be commutative. All members get the same bits. The order of
//! application depends only on the number of members and of elements, so sums of floats repeat from
//! run to run.
//!
//! A member may be at most 64 collectives of a team ahead of the slowest one: before every 64th the
//! members meet (a barrier). So the memory for early messages is bounded. A collective keeps no
//! table that grows with the number of ranks, except its result.
//!
//! A transport may have collectives of its own
//! ([`Backend::collectives`](crate::backend::Backend::collectives)), which then replace most of
//! these. The table does not hold for them, and a member may have to wait for all others where the
//! table's algorithm would let it continue. Reductions and scans of floats, and those with the
//! user's operators, are always those of the table. A transport's own do not compare lengths: a
//! member with another one, or with no bytes at all, gets
//! [`Error::Mismatch`](crate::Error::Mismatch) only with `PGAS_CHECK=1`; otherwise members may wait
//! for ever, or get wrong values.
//!
//! 1. Hensgen, Finkel, Manber: Two Algorithms for Barrier Synchronization. IJPP 17(1), 1988.
//! 2. Bruck, Ho, Kipnis, Upfal, Weathersby: Efficient Algorithms for All-to-All Communications in
//!    Multiport Message-Passing Systems. IEEE TPDS 8(11), 1997.
//! 3. Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH.
//!    IJHPCA 19(1), 2005.
//! 4. Hillis, Steele: Data Parallel Algorithms. CACM 29(12), 1986.

mod all_to_all;
mod allreduce;
mod barrier;
mod broadcast;
mod call;
mod check;
mod encoded;
mod gather;
mod lane;
mod meet;
mod native;
pub mod op;
mod outcomes;
mod reduce;
mod scan;
mod scatter;
mod split;
mod ticket;
mod vector;
mod world;
mod world_nb;
mod world_slices;

#[cfg(test)]
mod tests;

use std::fmt;

use zerocopy::IntoBytes;

pub use encoded::Encoding;
pub use op::ReduceOp;

pub use crate::backend::collectives::OpKind;

use crate::backend::IntegerType;
use crate::{Pod, Team};

/// Which collective is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Barrier,
    /// [`World::barrier_nb`](crate::World::barrier_nb): a transport's own barrier does not meet it.
    BarrierNb,
    Broadcast,
    Reduce,
    Allreduce,
    Gather,
    GatherVarying,
    Allgather,
    AllgatherVarying,
    AllToAll,
    AllToAllVarying,
    Scatter,
    ScatterVarying,
    ScanInclusive,
    ScanExclusive,
    Split,
    Agreement,
    BroadcastValue,
    ScatterValues,
    ReduceValues,
    AllreduceValues,
    ScanValues,
    ScanExclusiveValues,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Barrier => "a barrier",
            Self::BarrierNb => "a barrier begun by barrier_nb",
            Self::Broadcast => "a broadcast",
            Self::Reduce => "a reduce",
            Self::Allreduce => "an allreduce",
            Self::Gather => "a gather",
            Self::GatherVarying => "a gather of varying lengths",
            Self::Allgather => "an allgather",
            Self::AllgatherVarying => "an allgather of varying lengths",
            Self::AllToAll => "an all-to-all",
            Self::AllToAllVarying => "an all-to-all of varying lengths",
            Self::ScanInclusive => "an inclusive scan",
            Self::ScanExclusive => "an exclusive scan",
            Self::Split => "a split of the team",
            Self::Agreement => "a comparison of the ranks' arguments",
            Self::BroadcastValue => "a broadcast of an encoded value",
            Self::Scatter => "a scatter",
            Self::ScatterVarying => "a scatter of varying lengths",
            Self::ScatterValues => "a scatter of encoded values",
            Self::ReduceValues => "a reduce of encoded values",
            Self::AllreduceValues => "an allreduce of encoded values",
            Self::ScanValues => "a scan of encoded values",
            Self::ScanExclusiveValues => "an exclusive scan of encoded values",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The arguments of a collective that all members of a team must agree on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signature {
    kind: Kind,
    root: u32,
    element_bytes: usize,
    len: usize,
    /// The bytes of this member's argument, where the members need not agree on its length.
    own_bytes: usize,
    op: Option<OpKind>,
    /// The type of the elements that `op` combines, if it is an integer.
    integer: Option<IntegerType>,
    /// The subject of an agreement, and the value.
    subject: Option<(&'static str, u64)>,
    /// The names of the subject's values, in their order; none if they are numbers.
    choices: &'static [&'static str],
}

impl Signature {
    pub(crate) const fn new(kind: Kind) -> Self {
        Self {
            kind,
            root: 0,
            element_bytes: 0,
            len: 0,
            own_bytes: 0,
            op: None,
            integer: None,
            subject: None,
            choices: &[],
        }
    }

    const fn root(self, root: u32) -> Self {
        Self { root, ..self }
    }

    const fn of<T>(self, len: usize) -> Self {
        Self {
            element_bytes: size_of::<T>(),
            len,
            ..self
        }
    }

    /// Elements of type `T`, of which this member gives `n`, and others may give other numbers.
    const fn varying<T>(self, n: usize) -> Self {
        Self {
            own_bytes: n.saturating_mul(size_of::<T>()),
            ..self.of::<T>(0)
        }
    }

    fn op<T: Pod>(self, op: &impl ReduceOp<T>) -> Self {
        Self {
            op: op.kind(),
            integer: IntegerType::of::<T>(),
            ..self
        }
    }
}

impl Team {
    #[track_caller]
    fn assert_member(&self, root: u32) {
        assert!(
            root < self.n_ranks(),
            "the root {root} is not one of the team's {} members",
            self.n_ranks()
        );
    }
}

/// `start + distance`, counted around `n` members; both are below or at `n`.
const fn wrap(start: u32, distance: u32, n: u32) -> u32 {
    // Ranks are below 2^24, so the sum fits.
    (start + distance) % n
}

/// The distances 1, 2, 4, ... below `n`, with the numbers of their rounds.
fn doublings(n: u32) -> impl DoubleEndedIterator<Item = (u32, u32)> {
    let rounds = n.next_power_of_two().trailing_zeros();
    (0..rounds).map(|round| (round, 1 << round))
}

/// The number of bytes of `count` blocks of `block_bytes`.
const fn blocks(count: u32, block_bytes: usize) -> usize {
    count as usize * block_bytes
}

/// `len` zero elements.
fn zeroed<T: Pod>(len: usize) -> Vec<T> {
    vec![T::new_zeroed(); len]
}

/// The elements that `bytes` hold.
fn elements<T: Pod>(bytes: &[u8]) -> Vec<T> {
    let mut elements = zeroed(bytes.len().checked_div(size_of::<T>()).unwrap_or(0));
    elements.as_mut_bytes().copy_from_slice(bytes);
    elements
}
