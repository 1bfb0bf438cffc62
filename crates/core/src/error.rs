//! What the environment can do to a program: the crate's error type.
//!
//! What a caller got wrong and a local check sees panics instead, and what a normal caller expects
//! is an `Option` or a type of its own; see "Bad input" in `docs/ARCHITECTURE.md`.

use std::sync::Arc;
use std::time::Duration;

use crate::Rank;
use crate::launch::LaunchError;
use crate::notice::printable;

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the environment did: a full segment, a refused transport, a dead rank.
///
/// It travels by value on hot paths, so it is small; the details are boxed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A heap of this rank's segment has no room.
    #[error(transparent)]
    Exhausted(#[from] Box<Exhausted>),
    /// A call of the transport or the operating system failed.
    #[error(transparent)]
    Backend(#[from] Box<BackendError>),
    /// A rank of the job died, left while others needed it, or stopped answering.
    #[error(transparent)]
    RankFailed(#[from] Box<RankFailure>),
    /// A wait took longer than the configured limit.
    #[error(transparent)]
    Timeout(#[from] Box<Timeout>),
    /// A setting cannot be used.
    #[error(transparent)]
    Setting(#[from] Box<SettingError>),
    /// The environment does not say who this process is.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The ranks called different collectives, or one with different arguments (`PGAS_CHECK=1`).
    #[error(transparent)]
    Mismatch(#[from] Box<Mismatch>),
    /// A step of a collective call failed on another rank, and so the call on all of them.
    #[error(transparent)]
    Elsewhere(#[from] Box<Elsewhere>),
    /// Something that waits was called inside the handler of a message, which may not wait: what it
    /// waits for may be the very thread that runs it.
    #[error("{what} was waited for inside a handler, where nothing may wait")]
    InHandler {
        /// What was to be waited for.
        what: &'static str,
    },
    /// A job was to be joined by who has left one: with the last handle on its world a process, or a
    /// thread that is a rank, leaves for good.
    #[error(
        "this {who} has left its job, since the last handle on the world was dropped, and cannot join \
         again; keep a clone of the `World` for as long as one is needed"
    )]
    HasLeft {
        /// `"process"` or `"thread"`.
        who: &'static str,
    },
    /// What the [`Layer`](crate::Layer) above core reports.
    #[error(transparent)]
    Layer(Arc<dyn std::error::Error + Send + Sync>),
    /// A message is longer than the transport carries.
    #[error(
        "a message of {bytes} bytes is longer than the {limit} bytes that this backend carries"
    )]
    MessageTooLong {
        /// What was to be sent.
        bytes: u32,
        /// [`Capabilities::max_medium`](crate::backend::Capabilities::max_medium).
        limit: u32,
    },
}

const _: () = assert!(
    size_of::<Error>() <= 32,
    "errors travel by value on hot paths"
);

/// A request that a heap of the segment cannot serve.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "rank {rank}: the {heap} heap cannot serve {requested} bytes (aligned to {align}): {free} of \
     {capacity} bytes are free, the largest piece has {largest}; raise {setting}"
)]
pub struct Exhausted {
    /// Whose segment.
    pub rank: Rank,
    /// `"symmetric"` or `"local"`.
    pub heap: &'static str,
    /// What was asked for, in bytes.
    pub requested: u64,
    /// The alignment that was asked for, in bytes.
    pub align: u64,
    /// Free bytes of the heap.
    pub free: u64,
    /// The largest request that would succeed now, in bytes.
    pub largest: u64,
    /// The heap's size in bytes.
    pub capacity: u64,
    /// The setting that makes the heap larger.
    pub setting: &'static str,
}

/// A failed call of the transport, with the transport's own name for it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{op} failed with code {code}: {}", printable(.message))]
pub struct BackendError {
    /// The transport's or system's call, as in its manual.
    pub op: &'static str,
    /// The code it returned (`errno` for system calls).
    pub code: i64,
    /// The transport's text for the code, and what was attempted.
    pub message: String,
}

/// The end of a rank that others still needed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("rank {rank} {}", printable(.cause))]
pub struct RankFailure {
    /// Who failed.
    pub rank: Rank,
    /// What happened, to be read after "rank 3": "was killed by signal 9".
    pub cause: String,
}

/// A wait that exceeded `PGAS_TIMEOUT`.
#[derive(Debug, Clone, thiserror::Error)]
#[error("rank {rank} waited {waited:?} for {what}{}", missing_ranks(.missing))]
pub struct Timeout {
    /// Who waited.
    pub rank: Rank,
    /// For how long.
    pub waited: Duration,
    /// For what.
    pub what: &'static str,
    /// The ranks that did not come, as far as the backend can tell.
    pub missing: Vec<Rank>,
}

fn missing_ranks(missing: &[Rank]) -> String {
    if missing.is_empty() {
        return String::new();
    }
    let names: Vec<String> = missing.iter().take(16).map(ToString::to_string).collect();
    let more = if missing.len() > 16 { ", ..." } else { "" };
    format!("; missing: rank {}{more}", names.join(", "))
}

/// A setting that cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{name}={}: {}", printable(.value), printable(.reason))]
pub struct SettingError {
    /// The environment variable, or the field of [`Config`](crate::Config).
    pub name: &'static str,
    /// What it was set to.
    pub value: String,
    /// What is wrong with it and what would be right.
    pub reason: String,
}

/// Ranks that disagree in a collective.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "ranks disagree in {what}: rank {rank_a} has {value_a}, rank {rank_b} has {value_b}; a \
     collective must be called by every rank of its team, in the same order, with equal arguments"
)]
pub struct Mismatch {
    /// The collective, and the argument that differs.
    pub what: String,
    /// One rank.
    pub rank_a: Rank,
    /// Its value.
    pub value_a: String,
    /// Another rank.
    pub rank_b: Rank,
    /// Its value.
    pub value_b: String,
}

/// A step of a collective call that failed on another rank. All ranks can go on.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{what} failed on rank {rank}: {}", printable(.cause))]
pub struct Elsewhere {
    /// Where it failed, first of all by the number of the rank.
    pub rank: Rank,
    /// The step.
    pub what: &'static str,
    /// That rank's own error, as it is told.
    pub cause: String,
}

impl Error {
    /// A failed call `op` of the transport or the system.
    #[must_use]
    pub fn backend(op: &'static str, code: i64, message: impl Into<String>) -> Self {
        Box::new(BackendError {
            op,
            code,
            message: message.into(),
        })
        .into()
    }

    /// A failed system call `op`, with the code of `error`.
    #[must_use]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "used as .map_err(|e| Error::os(.., e))"
    )]
    pub fn os(op: &'static str, error: std::io::Error) -> Self {
        Self::backend(
            op,
            i64::from(error.raw_os_error().unwrap_or(0)),
            error.to_string(),
        )
    }

    /// The failure of `rank`; `cause` is read after "rank 3".
    #[must_use]
    pub fn rank_failed(rank: Rank, cause: impl Into<String>) -> Self {
        Box::new(RankFailure {
            rank,
            cause: cause.into(),
        })
        .into()
    }

    /// An unusable setting.
    #[must_use]
    pub fn setting(
        name: &'static str,
        value: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Box::new(SettingError {
            name,
            value: value.into(),
            reason: reason.into(),
        })
        .into()
    }
}
