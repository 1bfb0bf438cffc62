//! Ranks: the numbers of the members of the job.

use std::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// One member of the job: a number from 0 to [`World::n_ranks`](crate::World::n_ranks) - 1.
///
/// A rank of a [`Team`](crate::Team) is a plain `u32` index and is translated by
/// [`Team::world_rank`](crate::Team::world_rank); a `Rank` always counts over the whole job.
///
/// # Examples
///
/// ```
/// use pgas_core::Rank;
/// assert_eq!(Rank::new(3).to_string(), "3");
/// assert_eq!(Rank::ZERO.index(), 0);
/// ```
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(transparent)]
pub struct Rank(u32);

impl Rank {
    /// The first rank.
    pub const ZERO: Self = Self(0);

    /// The number of ranks that a [`GlobalPtr`](crate::GlobalPtr) can tell apart (2^24).
    pub const LIMIT: u32 = 1 << 24;

    /// The rank with this number. There is no `From<u32>`, since not every `u32` is a rank.
    ///
    /// # Panics
    ///
    /// If `number` is [`Rank::LIMIT`] or more.
    #[must_use]
    #[inline]
    #[track_caller]
    pub const fn new(number: u32) -> Self {
        assert!(number < Self::LIMIT, "a rank's number is below 2^24");
        Self(number)
    }

    /// The rank with this index, the inverse of [`index`](Self::index): for an index into a vector
    /// with one entry for each rank, or a remainder of a division.
    ///
    /// # Panics
    ///
    /// If `index` is [`Rank::LIMIT`] or more.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::Rank;
    ///
    /// # let world = pgas_core::backend::loopback::world();
    /// let vertex = 17;
    /// let owner = Rank::from_index(vertex % world.ranks().len());
    /// assert_eq!(owner.index(), vertex % world.ranks().len());
    /// ```
    #[must_use]
    #[inline]
    #[track_caller]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the index is below the limit, which is a `u32`"
    )]
    pub const fn from_index(index: usize) -> Self {
        assert!(
            index < Self::LIMIT as usize,
            "a rank's number is below 2^24"
        );
        Self(index as u32)
    }

    /// The number as `u32`.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::Rank;
    ///
    /// assert_eq!(Rank::new(7).number(), 7);
    /// ```
    #[must_use]
    #[inline]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The number as an index.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rank({})", self.0)
    }
}
