//! Errors of containers, and the check that ranks agree on arguments.

use pgas_core::{Error, Mismatch, Rank, Result, Team, World};

/// Finds out whether all members have the same `value` (an allreduce).
#[track_caller]
pub(crate) fn agree(team: &Team, what: &'static str, value: u64) -> Result<()> {
    let [of_all] = extremes(team, [value])?;
    same(what, of_all)
}

/// As [`same`], for the bits of numbers: any order shows whether all are the same.
pub(crate) fn same_number(what: &'static str, of_all: Extremes) -> Result<()> {
    same_as(what, of_all, |bits| format!("{:?}", f64::from_bits(bits)))
}

/// An error if the smallest and the largest value of all ranks differ.
pub(crate) fn same(what: &'static str, of_all: Extremes) -> Result<()> {
    same_as(what, of_all, |value| value.to_string())
}

/// As [`same`], with the `text` of a value.
fn same_as(what: &'static str, of_all: Extremes, text: impl Fn(u64) -> String) -> Result<()> {
    let [(rank_a, value_a), (rank_b, value_b)] = of_all;
    if value_a == value_b {
        return Ok(());
    }
    Err(Error::from(Box::new(Mismatch {
        what: what.to_owned(),
        rank_a,
        value_a: text(value_a),
        line_a: None,
        rank_b,
        value_b: text(value_b),
        line_b: None,
    })))
}

/// The smallest and the largest value of all ranks, each with a rank that has it.
pub(crate) type Extremes = [(Rank, u64); 2];

/// The extremes of each of several values over all ranks (an allreduce).
#[track_caller]
pub(crate) fn extremes<const N: usize>(team: &Team, values: [u64; N]) -> Result<[Extremes; N]> {
    let rank = u64::from(team.world().rank().number());
    let both = |value: u64| [[value, rank], [!value, rank]];
    let mut mine: Vec<[u64; 2]> = values.into_iter().flat_map(both).collect();
    team.allreduce_slice(&mut mine, |a: [u64; 2], b: [u64; 2]| a.min(b))?;
    let rank = |number| Rank::new(u32::try_from(number).expect("a rank's number"));
    Ok(std::array::from_fn(|i| {
        let [smallest, not_largest] = [mine[2 * i], mine[2 * i + 1]];
        let smallest = (rank(smallest[1]), smallest[0]);
        [smallest, (rank(not_largest[1]), !not_largest[0])]
    }))
}

/// Reports an error of an operation that other ranks wait for: a failure of the transport fails the
/// job. An invalid value or a lack of room is an error of the caller alone.
#[cold]
pub(crate) fn give_up(world: &World, what: &'static str, error: Error) -> Error {
    match error {
        Error::Codec(_)
        | Error::Argument(_)
        | Error::NoCapacity
        | Error::Full { .. }
        | Error::QueueFull
        | Error::Storage(_) => error,
        error => world.give_up(what, error),
    }
}

/// The elements that were taken out of a container although some could not be read.
///
/// `?` turns it into the plain [`Error`], and drops what was taken.
///
/// # Examples
///
/// ```
/// use pgas_containers::{CircularQueue, TakeError};
/// use pgas_core::Rank;
///
/// /// All elements that can be read.
/// fn pop_all(queue: &CircularQueue<String>) -> Vec<String> {
///     queue.pop_many(usize::MAX).unwrap_or_else(|TakeError { taken, lost }| {
///         eprintln!("{} elements are lost: {}", lost.n, lost.first);
///         taken
///     })
/// }
///
/// # let world = pgas_core::backend::loopback::world();
/// let queue = CircularQueue::<String>::with_capacity(&world, Rank::ZERO, 4)?;
/// queue.push("one".to_owned())?;
/// assert_eq!(pop_all(&queue), ["one"]);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
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
    /// Their number.
    pub n: usize,
    /// The error of the first of them, or of the call if there are none.
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
    /// An error before anything was taken.
    fn from(error: Error) -> Self {
        Self::new(Vec::new(), 0, error)
    }
}

/// Why a container was not changed into another form, and the container as it was before.
///
/// `?` turns it into the plain [`Error`], and drops the container.
///
/// # Examples
///
/// ```
/// use pgas_containers::array::Distribution;
/// use pgas_containers::{ChangeError, DArray, Error};
///
/// /// Doubles all elements: as a slice, or one by one if there is no memory for that.
/// fn double(array: DArray<u64>) -> Result<DArray<u64>, Error> {
///     match array.into_local() {
///         Ok(mut local) => {
///             local.iter_mut().for_each(|x| *x *= 2);
///             local.into_shared()
///         }
///         Err(ChangeError { container, error: Error::Argument(_) | Error::Elsewhere(_) }) => {
///             container.map_local(|_, x| 2 * x)?;
///             Ok(*container)
///         }
///         Err(failed) => Err(failed.error),
///     }
/// }
///
/// # let world = pgas_core::backend::loopback::world();
/// let array = DArray::from_fn(&world, 100, Distribution::Block, |i| i as u64)?;
/// assert_eq!(double(array)?.get(7)?, 14);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct ChangeError<C> {
    /// The container, as it was.
    pub container: Box<C>,
    /// The reason.
    #[source]
    pub error: Error,
}

impl<C> ChangeError<C> {
    pub(crate) fn new(container: C, error: Error) -> Self {
        let container = Box::new(container);
        Self { container, error }
    }

    /// The same of what `around` makes of the container.
    pub(crate) fn map<D>(self, around: impl FnOnce(C) -> D) -> ChangeError<D> {
        ChangeError::new(around(*self.container), self.error)
    }
}

impl<C> From<ChangeError<C>> for Error {
    fn from(failed: ChangeError<C>) -> Self {
        failed.error
    }
}

/// Why a batch ended early: the elements before index `done` were carried out, in order, and the
/// one with that index was not. Nor were those behind it, unless the memory is behind a network,
/// over which many are under way at once.
///
/// `?` turns it into the plain [`Error`].
#[derive(Debug, thiserror::Error)]
#[error("after {done} elements of a batch: {error}")]
pub struct BatchError {
    /// How many elements were carried out; the index of the one that failed.
    pub done: usize,
    /// The error of the element with that index.
    #[source]
    pub error: Error,
}

impl From<BatchError> for Error {
    fn from(batch: BatchError) -> Self {
        batch.error
    }
}

#[cfg(test)]
mod tests {
    use pgas_core::Error;

    use super::give_up;

    #[test]
    fn only_what_fails_in_the_communication_fails_the_job() {
        let world = pgas_core::backend::loopback::world();
        let of_values = [
            Error::codec::<u64>("reading bytes as a value", "they are too few"),
            Error::Argument("no such host".into()),
            Error::NoCapacity,
            Error::Full { capacity: 1 },
            Error::QueueFull,
        ];
        for error in of_values {
            let text = error.to_string();
            assert_eq!(give_up(&world, "a test", error).to_string(), text);
            world.barrier().unwrap();
        }
        give_up(&world, "a test", Error::backend("send", 5, "no wire"));
        assert!(matches!(world.barrier(), Err(Error::RankFailed(_))));
    }
}
