//! What can go wrong in a container: its room is used up, or the communication below it fails.

use pgas_core::{Rank, World};

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
    ///
    /// A key that was removed keeps its slot until the next change of phase or capacity, so that a
    /// map with few keys may be full, too. Where ever new keys are inserted and old ones removed
    /// with no such change, make the map with [`reuse_slots`](crate::HashMap::reuse_slots).
    #[error(
        "the hash map is full: its {capacity} slots are taken by other keys, also by those that were \
         removed, unless the map is made with `reuse_slots`; make it so, or with a larger capacity \
         (probing stays short up to about three quarters of it)"
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
    /// A queue has no room for a value, and whoever pushed it did not want it back.
    #[error("the queue is full")]
    QueueFull,
    /// A value could not be turned into bytes, or bytes into a value; names the type and says why.
    #[error("cannot be encoded: {0}")]
    Codec(Box<str>),
    /// An argument that no container can be made with; names it and its value.
    #[error("{0}")]
    Argument(Box<str>),
    /// The ranks asked for one container with different arguments.
    #[error(transparent)]
    Disagreement(#[from] Box<Disagreement>),
    /// A container could not be saved or loaded; names the file and says why.
    #[error("{0}")]
    Storage(Box<str>),
    /// The communication below the container failed, or a collective call did on another rank:
    /// [`Elsewhere`](pgas_core::Error::Elsewhere).
    #[error(transparent)]
    Core(#[from] pgas_core::Error),
}

const _: () = assert!(
    size_of::<Error>() <= 32,
    "errors travel by value on hot paths"
);

impl From<pgas_am::Error> for Error {
    fn from(error: pgas_am::Error) -> Self {
        Self::Core(error.into())
    }
}

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

/// Two ranks that gave a collective of a container different values.
#[derive(Debug, thiserror::Error)]
#[error(
    "ranks disagree on {what}: rank {rank_a} has {value_a}, rank {rank_b} has {value_b}; every rank must \
     give the same"
)]
pub struct Disagreement {
    /// The container and its argument.
    pub what: &'static str,
    /// A rank with the smallest value.
    pub rank_a: Rank,
    /// Its value.
    pub value_a: u64,
    /// A rank with the largest value.
    pub rank_b: Rank,
    /// Its value.
    pub value_b: u64,
}

/// Finds out whether all ranks have the same `value` (an allreduce).
pub(crate) fn agree(world: &World, what: &'static str, value: u64) -> Result<()> {
    let [of_all] = extremes(world, [value])?;
    same(what, of_all)
}

/// An error if the smallest and the largest value of all ranks differ.
pub(crate) fn same(what: &'static str, of_all: Extremes) -> Result<()> {
    let [(rank_a, value_a), (rank_b, value_b)] = of_all;
    if value_a == value_b {
        return Ok(());
    }
    Err(Error::from(Box::new(Disagreement {
        what,
        rank_a,
        value_a,
        rank_b,
        value_b,
    })))
}

/// Finds out whether all ranks ask for the same capacity (an allreduce).
pub(crate) fn agree_on_capacity(world: &World, capacity: u64) -> Result<()> {
    let [of_all] = extremes(world, [capacity])?;
    let [(rank_a, capacity_a), (rank_b, capacity_b)] = of_all;
    if capacity_a == capacity_b {
        return Ok(());
    }
    Err(Error::from(Box::new(CapacitiesDiffer {
        rank_a,
        capacity_a,
        rank_b,
        capacity_b,
    })))
}

/// The smallest and the largest value of all ranks, each with a rank that has it.
pub(crate) type Extremes = [(Rank, u64); 2];

/// Those of each of several values (an allreduce).
pub(crate) fn extremes<const N: usize>(world: &World, values: [u64; N]) -> Result<[Extremes; N]> {
    let rank = u64::from(world.rank().number());
    let both = |value: u64| [[value, rank], [!value, rank]];
    let mut mine: Vec<[u64; 2]> = values.into_iter().flat_map(both).collect();
    world
        .team()
        .allreduce_slice(&mut mine, |a: [u64; 2], b: [u64; 2]| a.min(b))?;
    let rank = |number| Rank::new(u32::try_from(number).expect("a rank's number"));
    Ok(std::array::from_fn(|i| {
        let [smallest, not_largest] = [mine[2 * i], mine[2 * i + 1]];
        let smallest = (rank(smallest[1]), smallest[0]);
        [smallest, (rank(not_largest[1]), !not_largest[0])]
    }))
}

/// What was taken out of a container, where some of it could not be read.
///
/// `?` turns it into the plain [`Error`], and drops what was taken.
#[derive(Debug, thiserror::Error)]
#[error("{} elements were taken; {lost}", taken.len())]
pub struct TakeError<T> {
    /// The elements that could be read, in their order.
    pub taken: Vec<T>,
    /// Those that could not.
    #[source]
    pub lost: Box<Lost>,
}

/// Elements that could not be read when they were taken out of a container, and are gone.
#[derive(Debug, thiserror::Error)]
#[error("{n} more could not be read and are gone: {first}")]
pub struct Lost {
    /// How many they are.
    pub n: usize,
    /// What happened to the first of them, or to the call if there are none.
    #[source]
    pub first: Error,
}

impl<T> TakeError<T> {
    pub(crate) fn new(taken: Vec<T>, n: usize, first: Error) -> Self {
        let lost = Box::new(Lost { n, first });
        Self { taken, lost }
    }
}

impl<T> From<TakeError<T>> for Error {
    fn from(failed: TakeError<T>) -> Self {
        failed.lost.first
    }
}

impl<T> From<Error> for TakeError<T> {
    /// Nothing was taken.
    fn from(error: Error) -> Self {
        Self::new(Vec::new(), 0, error)
    }
}

/// Why a batch ended early: the elements before number `done` were carried out, in order, and the one
/// with that number was not. Nor were those behind it, unless elements travel to several ranks at once.
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
