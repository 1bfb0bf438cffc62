//! The identities of teams, and of the splits that make them.

use std::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::rank::Rank;

/// The identity of a team: the same on all of its members, and unique in the job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TeamId(u64);

impl TeamId {
    /// The team of all ranks.
    pub(crate) const WORLD: Self = Self(0);
    /// The counter has the lower 40 bits, the rank that counts the bits above.
    const COUNTER_BITS: u32 = 40;

    /// The `counter`th team (from 1) whose first member is `first`.
    pub(crate) fn new(first: Rank, counter: u64) -> Self {
        assert!(
            counter < 1 << Self::COUNTER_BITS,
            "a rank makes fewer than 2^40 teams"
        );
        Self(u64::from(first.number()) << Self::COUNTER_BITS | counter)
    }

    /// The identity with these bits, as [`bits`](Self::bits) returns them. Any number is allowed,
    /// also one that no team has.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The identity as a number, for a message or a table.
    ///
    /// # Examples
    ///
    /// ```
    /// # let world = pgas_core::backend::loopback::world();
    /// let all = world.team().id();
    /// assert_eq!((all.bits(), all.to_string()), (0, "0.0".to_owned()));
    /// assert_eq!(pgas_core::TeamId::from_bits(all.bits()), all);
    /// ```
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }
}

impl fmt::Display for TeamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counter = self.0 & ((1 << Self::COUNTER_BITS) - 1);
        write!(f, "{}.{counter}", self.0 >> Self::COUNTER_BITS)
    }
}

impl fmt::Debug for TeamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TeamId({self})")
    }
}

/// A split, by the same name on all ranks: the team that is split, and the number of the call among
/// the collectives of that team.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Split {
    of: u64,
    call: u64,
}

impl Split {
    /// No split makes the team of all ranks.
    pub(crate) const NONE: Self = Self {
        of: u64::MAX,
        call: u64::MAX,
    };

    pub(crate) fn new(of: TeamId, call: u64) -> Self {
        Self {
            of: of.bits(),
            call,
        }
    }
}
