//! Errors that several files construct or examine.

use pgas_core::{Error, Rank, Unknown, World};

/// For a message that names what this rank does not have.
#[cold]
pub(crate) fn unknown(world: &World, from: Rank, what: String, reason: &'static str) -> Error {
    Error::from(Box::new(Unknown {
        rank: world.rank(),
        from,
        what,
        reason,
    }))
}

/// Whether `error` says that `to` has left the job, and receives nothing any more.
pub(crate) fn says_left(error: &Error, to: Rank) -> bool {
    matches!(error, Error::RankFailed(failure)
        if failure.rank == to && failure.cause.starts_with("has left the job"))
}
