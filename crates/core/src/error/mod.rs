//! The error type of the whole library: failures of the environment.
//!
//! An error of the caller that a local check finds is a panic instead, and an expected case is an
//! `Option` or a type of its own; see "Bad input" in `docs/ARCHITECTURE.md`. The errors of messages
//! and containers are variants here, too, so that a program can match all causes in one place, and
//! no error hides in another one.

mod causes;

use std::fmt;

use crate::Rank;
use crate::launch::LaunchError;
use crate::notice::printable;
use crate::team_id::{Split, TeamId};

pub use causes::{
    BackendError, CodecError, Elsewhere, Exhausted, Mismatch, MixedBinaries, RankFailure,
    RemoteError, RemotePanic, SettingError, StorageError, Timeout, Undelivered, Unknown,
};

/// The library's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of all operations: a failure of the environment, such as the death of a rank, or a
/// lack of room in a container or a message.
///
/// It is small, since it travels by value on hot paths; the details are boxed.
/// [`Debug`](fmt::Debug) prints the same sentence as `Display`, so `fn main() -> pgas::Result<()>`
/// ends with a readable message.
#[derive(Clone, thiserror::Error)]
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
    /// The launcher's variables do not tell the rank of this process.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The ranks called a collective with different arguments. With `PGAS_CHECK=1` also: the ranks
    /// called different collectives. Without it some differences may be a hang, above all where the
    /// [transport has collectives of its own](crate::collective#cost).
    #[error(transparent)]
    Mismatch(#[from] Box<Mismatch>),
    /// A step of a collective call failed on another rank, so the call failed on all ranks.
    #[error(transparent)]
    Elsewhere(#[from] Box<Elsewhere>),
    /// A call that waits was made inside a handler. Handlers may not wait: the wait might need the
    /// very thread that runs the handler.
    #[error("{what} was waited for inside a handler, where nothing may wait")]
    InHandler {
        /// The call that waits.
        what: &'static str,
    },
    /// This rank has left the job, so nothing completes any more.
    #[error("this rank has left the job")]
    HasLeft,
    /// A process that has left its job tried to join one again. With the last handle on its world a
    /// process, or a thread that is a rank, leaves for good.
    #[error(
        "this {who} has left its job, since the last handle on the world was dropped, and cannot join \
         again; keep a clone of the `World` for as long as one is needed"
    )]
    CannotRejoin {
        /// `"process"` or `"thread"`.
        who: &'static str,
    },

    /// A message is longer than the limit.
    #[error("a message to rank {to} has {bytes} bytes; at most {limit} fit")]
    MessageTooLong {
        /// The target of the message.
        to: Rank,
        /// Its length in bytes.
        bytes: u64,
        /// The maximum length in bytes:
        /// [`Capabilities::max_medium`](crate::backend::Capabilities::max_medium) for a message, 64
        /// MiB for a remote call.
        limit: u32,
    },
    /// There is no room for a message now, and a handler may not wait for it.
    #[error("there is no room for a message to rank {to}, and a handler may not wait for it")]
    BackPressure {
        /// The target of the message.
        to: Rank,
    },
    /// A call that was handed to another thread of this rank was not run, because that thread has
    /// ended.
    #[error("thread {name:?} has ended, and runs no calls of other threads any more")]
    ThreadEnded {
        /// The name of the thread.
        name: Box<str>,
    },
    /// Another thread of this rank has no room for a call now, and a handler may not wait for it.
    #[error("thread {name:?} has {n_calls} calls to run, and a handler may not wait for room")]
    ThreadFull {
        /// The name of the thread.
        name: Box<str>,
        /// The number of calls that wait for it.
        n_calls: u32,
    },
    /// The world was made without active messages.
    #[error("active messages were not set up on this world: call pgas_am::attach on every rank")]
    NotAttached,
    /// This processor has no compare-and-swap of 16 bytes
    /// ([`has_wide_atomics`](crate::atomics::has_wide_atomics)).
    #[error("this processor has no compare-and-swap of 16 bytes")]
    NoWideAtomics,
    /// The ranks run different programs.
    #[error(transparent)]
    MixedBinaries(#[from] Box<MixedBinaries>),
    /// A remote function has panicked. The rank that ran it goes on.
    #[error(transparent)]
    RemotePanic(#[from] Box<RemotePanic>),
    /// A remote function has returned an error, could not be run, or its result could not be sent.
    #[error(transparent)]
    Remote(#[from] Box<RemoteError>),
    /// A message names something that this rank does not have.
    #[error(transparent)]
    Unknown(#[from] Box<Unknown>),
    /// The function is not in the program's executable but in a loaded library, whose address
    /// differs from rank to rank.
    #[error("the function lies outside the program's own code, where other ranks cannot find it")]
    ForeignFunction,
    /// A call names a distributed object (by number and team) that this rank has not built yet. The
    /// call waits until it is built.
    #[error("distributed object {0} of team {1:#x} is not built yet")]
    NotBuilt(u64, u64),
    /// A call names a team that this rank has not yet, since the split that makes it has not ended
    /// here. The call waits until it has.
    #[doc(hidden)]
    #[error("the split that makes team {} has not ended yet", .0.0)]
    NotSplit(Box<(TeamId, Split)>),
    /// One-way calls were lost. No caller waits for a one-way call, so the next `quiet` returns
    /// this error on all ranks.
    #[error(transparent)]
    Undelivered(#[from] Box<Undelivered>),
    /// A promise was dropped before it was fulfilled. So is that of a value that a function of the
    /// program was to give, such as the one of a `then`, if the function panics: the panic is that
    /// of the thread which ran it, and others that wait for the value get this error.
    #[error(
        "a promise was dropped before it was fulfilled, or the function that was to give the value has panicked"
    )]
    BrokenPromise,

    /// A value cannot be encoded as bytes, or bytes cannot be decoded.
    #[error(transparent)]
    Codec(#[from] Box<CodecError>),
    /// All slots of a map are taken, and none of them has the key of the operation. The map is
    /// unchanged.
    ///
    /// A removed key keeps its slot until the next change of phase or capacity, so a map with few
    /// keys may be full, too. If a program keeps inserting new keys and removing old ones without
    /// such a change, make the map with `reuse_slots`.
    #[error(
        "the hash map is full: its {capacity} slots are taken. Make it with a larger capacity \
         (searches stay short up to about three quarters of it), or `resize` it. Removed keys keep \
         their slots, unless the map is made with `reuse_slots`, all ranks reach its memory directly \
         and uncounted (no PGAS_DIRECT=0, no PGAS_STATS), and the call is not within a function that \
         an operation on the map runs"
    )]
    Full {
        /// The number of slots over all ranks.
        capacity: u64,
    },
    /// A map with a capacity of 0 was asked for.
    #[error("a hash map has at least one slot; it was to be made with a capacity of 0")]
    NoCapacity,
    /// A queue has no room for a value. (Methods that give the value back return a `PushError`
    /// instead.)
    #[error("the queue is full")]
    QueueFull,
    /// A container cannot be made with this argument. The text has its name and its value.
    #[error("{}", printable(.0))]
    Argument(Box<str>),
    /// A container could not be saved or loaded.
    #[error(transparent)]
    Storage(#[from] Box<StorageError>),
}

const _: () = assert!(
    size_of::<Error>() <= 24,
    "errors travel by value on hot paths"
);

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Whether the cause is the job, the transport, a setting or a collective, and not a single
    /// message, a value or a container.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::{Error, Rank};
    ///
    /// let of_transports = [
    ///     Error::rank_failed(Rank::new(3), "was killed"),
    ///     Error::backend("fi_send", -22, "Invalid argument"),
    ///     Error::os("mmap", std::io::Error::from_raw_os_error(12)),
    ///     Error::setting("PGAS_RANKS", "many", "is not a number"),
    /// ];
    /// assert!(of_transports.iter().all(Error::is_of_communication));
    /// assert!(of_transports[0].to_string().contains("rank 3 was killed"));
    ///
    /// let long = Error::too_long(Rank::ZERO, 5000, 4096);
    /// let garbled = Error::codec::<u64>("read", "2 bytes are left");
    /// assert!(!long.is_of_communication() && !garbled.is_of_communication());
    /// ```
    #[must_use]
    pub fn is_of_communication(&self) -> bool {
        matches!(
            self,
            Self::Exhausted(_)
                | Self::Backend(_)
                | Self::RankFailed(_)
                | Self::Timeout(_)
                | Self::Setting(_)
                | Self::Launch(_)
                | Self::Mismatch(_)
                | Self::Elsewhere(_)
                | Self::InHandler { .. }
                | Self::CannotRejoin { .. }
        )
    }

    /// A failed call `op` of the transport or the system, with its code, or 0 if it has none.
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

    /// The error of a message of `n_bytes` to `to`, where at most `limit` are allowed.
    #[cold]
    #[must_use]
    pub fn too_long(to: Rank, n_bytes: usize, limit: usize) -> Self {
        Self::MessageTooLong {
            to,
            bytes: n_bytes as u64,
            limit: u32::try_from(limit).unwrap_or(u32::MAX),
        }
    }

    /// The error of a value of type `T` that could not be encoded or decoded. `what` names the
    /// operation.
    #[cold]
    #[must_use]
    pub fn codec<T: ?Sized>(what: &'static str, reason: impl Into<String>) -> Self {
        Box::new(CodecError {
            what,
            type_name: std::any::type_name::<T>(),
            reason: reason.into(),
        })
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::Error;
    use crate::Rank;

    /// `main` prints the `Debug` of its error.
    #[test]
    fn a_program_that_returns_an_error_ends_with_its_sentence() {
        let failed = Error::rank_failed(Rank::new(3), "was killed by signal 9");
        assert_eq!(format!("{failed:?}"), "rank 3 was killed by signal 9");
        assert_eq!(format!("{failed:?}"), failed.to_string());
        let full = Error::Full { capacity: 64 };
        assert!(format!("{full:?}").starts_with("the hash map is full: its 64 slots"));
    }

    #[test]
    fn who_waits_for_a_value_that_nobody_gives_is_told_both_causes() {
        let told = Error::BrokenPromise.to_string();
        assert!(
            told.contains("dropped") && told.contains("panicked"),
            "{told}"
        );
    }

    #[test]
    fn a_failed_call_is_named_with_its_code_if_there_is_one() {
        let told = |code| Error::backend("dlopen", code, "no library").to_string();
        assert_eq!(told(0), "dlopen failed: no library");
        assert_eq!(told(-12), "dlopen failed with code -12: no library");
    }

    #[test]
    fn what_is_wrong_with_a_value_is_not_the_communications() {
        let codec = Error::codec::<String>("reading bytes as a value", "they are no text");
        let text = "reading bytes as a value of type alloc::string::String: they are no text";
        assert_eq!(codec.to_string(), text);
        assert!(!codec.is_of_communication());
        assert!(!Error::too_long(Rank::ZERO, usize::MAX, 64).is_of_communication());
        assert!(Error::backend("mmap", 12, "no memory").is_of_communication());
    }
}
