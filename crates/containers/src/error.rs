//! What can go wrong in a container: its room is used up, or the communication below it fails.

use pgas_core::Rank;

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation on a container was not carried out.
///
/// It is small, since it travels by value on hot paths.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// All slots are taken, and none of them by the key of the operation. Nothing was changed, and what
    /// was inserted before is still there.
    #[error(
        "the hash map is full: its {capacity} slots are taken by other keys; make it with a larger \
         capacity (probing stays short up to about three quarters of it)"
    )]
    Full {
        /// The number of slots over all ranks.
        capacity: u64,
    },
    /// A container without slots was asked for.
    #[error("a hash map has at least one slot; it was to be made with a capacity of 0")]
    NoCapacity,
    /// The ranks asked for one container with different capacities.
    #[error(transparent)]
    CapacitiesDiffer(#[from] Box<CapacitiesDiffer>),
    /// The communication below the container failed.
    #[error(transparent)]
    Core(#[from] pgas_core::Error),
}

const _: () = assert!(
    size_of::<Error>() <= 32,
    "errors travel by value on hot paths"
);

/// Two ranks that asked for one container with different capacities.
#[derive(Debug, thiserror::Error)]
#[error(
    "ranks disagree on the capacity of a hash map: rank {rank_a} has {capacity_a}, rank {rank_b} has \
     {capacity_b}; every rank must ask for the same"
)]
pub struct CapacitiesDiffer {
    /// A rank with the smallest capacity.
    pub rank_a: Rank,
    /// What it asked for.
    pub capacity_a: u64,
    /// A rank with the largest capacity.
    pub rank_b: Rank,
    /// What it asked for.
    pub capacity_b: u64,
}

/// Why a batch ended early: the elements before number `done` were carried out, in order, those from
/// it on were not.
///
/// `?` turns it into the plain [`Error`].
#[derive(Debug, thiserror::Error)]
#[error("after {done} elements of a batch: {error}")]
pub struct BatchError {
    /// How many elements were carried out; the index of the one that failed.
    pub done: usize,
    /// What happened to the element with that index.
    #[source]
    pub error: Error,
}

impl From<BatchError> for Error {
    fn from(batch: BatchError) -> Self {
        batch.error
    }
}
