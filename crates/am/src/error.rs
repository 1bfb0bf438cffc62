//! What can go wrong with a message to another rank, or with the code that it runs there.

use std::sync::Arc;

use pgas_core::{Rank, World};

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a message was not sent, or what it asked for was not done.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The communication below failed.
    #[error(transparent)]
    Core(#[from] pgas_core::Error),
    /// The world was made without active messages.
    #[error("active messages were not set up on this world: call pgas_am::attach on every rank")]
    NotAttached,
    /// The ranks run different programs.
    #[error(transparent)]
    MixedBinaries(#[from] Box<MixedBinaries>),
    /// Arguments and payload are longer than one message may be.
    #[error(
        "a message to rank {to} has {bytes} bytes of arguments and payload; at most {limit} fit"
    )]
    TooLong {
        /// Whom the message was for.
        to: Rank,
        /// How long it was.
        bytes: u32,
        /// How long it may be: what [`max_medium`](crate::ActiveMessages::max_medium) says; 64 MiB for a remote call.
        limit: u32,
    },
    /// There is no room for the message now, and a handler may not wait for it.
    #[error("there is no room for a message to rank {to}, and a handler may not wait for it")]
    BackPressure {
        /// Whom the message was for.
        to: Rank,
    },
    /// The remote function panicked; the rank that ran it lives on.
    #[error(transparent)]
    RemotePanic(#[from] Box<RemotePanic>),
    /// The remote function could not be run, or its result not be sent.
    #[error(transparent)]
    Remote(#[from] Box<RemoteError>),
    /// Bytes and type do not fit together.
    #[error(transparent)]
    Codec(#[from] Box<CodecError>),
    /// A message names something that this rank does not have.
    #[error(transparent)]
    Unknown(#[from] Box<Unknown>),
    /// The function is not part of the program itself, but of a library that was loaded, whose place the
    /// other ranks do not know.
    #[error("the function lies outside the program's own code, where other ranks cannot find it")]
    ForeignFunction,
    /// A rank outside of the team was called.
    #[error("team {team} has members 0 to {last}, and {member} was called")]
    NotAMember {
        /// The team's name.
        team: u64,
        /// Its last member.
        last: u32,
        /// Who was called.
        member: u32,
    },
    /// A call names a distributed object (by number and team) that is not built here yet; it is set aside
    /// until it is.
    #[error("distributed object {0} of team {1:#x} is not built yet")]
    NotBuilt(u64, u64),
    /// One-way calls were lost, which nobody waits for who could be told; all ranks are, by the next [`quiet`](crate::quiet).
    #[error(transparent)]
    Undelivered(#[from] Box<Undelivered>),
    /// A promise was dropped before it was fulfilled.
    #[error("a promise was dropped before it was fulfilled")]
    BrokenPromise,
    /// The rank has left the job, so that nothing completes any more.
    #[error("this rank has left the job")]
    HasLeft,
}

const _: () = assert!(
    size_of::<Error>() <= 32,
    "errors travel by value on hot paths"
);

impl Error {
    /// For a message of `n_bytes` to `to`, which may have `limit`.
    #[cold]
    pub(crate) fn too_long(to: Rank, n_bytes: usize, limit: usize) -> Self {
        let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self::TooLong {
            to,
            bytes: clamp(n_bytes),
            limit: clamp(limit),
        }
    }

    /// For a message that names what this rank does not have.
    #[cold]
    pub(crate) fn unknown(world: &World, from: Rank, what: String, reason: &'static str) -> Self {
        Self::from(Box::new(Unknown {
            rank: world.rank(),
            from,
            what,
            reason,
        }))
    }
}

/// Whether `error` says that `to` has left the job, and receives nothing any more.
pub(crate) fn says_left(error: &pgas_core::Error, to: Rank) -> bool {
    matches!(error, pgas_core::Error::RankFailed(failure)
        if failure.rank == to && failure.cause.starts_with("has left the job"))
}

impl From<Error> for pgas_core::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Core(error) => error,
            other => Self::Layer(Arc::new(other)),
        }
    }
}

/// Two ranks that run different programs.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "the ranks run different programs: rank {rank_a} runs build {build_a:016x}, rank {rank_b} runs build \
     {build_b:016x}; start the same file everywhere"
)]
pub struct MixedBinaries {
    /// This rank.
    pub rank_a: Rank,
    /// A hash of its code.
    pub build_a: u64,
    /// The first rank with another program.
    pub rank_b: Rank,
    /// A hash of that one's code.
    pub build_b: u64,
}

/// A panic in a function that another rank ran.
#[derive(Debug, Clone, thiserror::Error)]
#[error("a remote function panicked on rank {rank} at {location}: {message}")]
pub struct RemotePanic {
    /// Who ran it.
    pub rank: Rank,
    /// What the panic said.
    pub message: String,
    /// File, line and column.
    pub location: String,
}

/// A remote function that could not be run, or whose result could not be sent.
#[derive(Debug, Clone, thiserror::Error)]
#[error("rank {rank} could not serve a remote call: {message}")]
pub struct RemoteError {
    /// Who should have run it.
    pub rank: Rank,
    /// What was the matter.
    pub message: String,
}

/// Bytes and type do not fit together.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{what} of type {type_name}: {reason}")]
pub struct CodecError {
    /// What was attempted.
    pub what: &'static str,
    /// With a value of which type.
    pub type_name: &'static str,
    /// What is wrong.
    pub reason: String,
}

/// One-way calls and messages that were not run: their object was dropped, their arguments could not be read, or their target had left.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{n} one-way calls were lost, at first on rank {rank}: {reason}")]
pub struct Undelivered {
    /// How many, on all ranks, since they were last told.
    pub n: u64,
    /// The first rank that has lost some.
    pub rank: Rank,
    /// What became of the first of that rank's.
    pub reason: String,
}

/// A message that names something that this rank does not have.
#[derive(Debug, Clone, thiserror::Error)]
#[error("rank {rank} got a message from rank {from} for {what}, {reason}")]
pub struct Unknown {
    /// Who got it.
    pub rank: Rank,
    /// Who sent it.
    pub from: Rank,
    /// What it names.
    pub what: String,
    /// Why this rank does not have it.
    pub reason: &'static str,
}
