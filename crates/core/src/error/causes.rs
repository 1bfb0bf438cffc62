//! The details of errors.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::Rank;
use crate::notice::printable;

/// A request that a heap of the segment cannot serve.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "rank {rank}: the {heap} heap cannot serve {} (aligned to {align}): {free} of \
     {capacity} bytes are free, the largest piece has {largest}; raise {setting}",
    many_bytes(*.requested)
)]
pub struct Exhausted {
    /// The rank with the segment.
    pub rank: Rank,
    /// `"symmetric"` or `"local"`.
    pub heap: &'static str,
    /// The request, in bytes; `u64::MAX` if it has 2^64 or more.
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
#[error("{op} failed{}: {}", with_code(*.code), printable(.message))]
pub struct BackendError {
    /// The transport's or system's call, as in its manual.
    pub op: &'static str,
    /// The code it returned (`errno` for system calls), or 0 if it has none.
    pub code: i64,
    /// The transport's text for the code, and what was attempted.
    pub message: String,
}

/// The end of a rank that others still needed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("rank {rank} {}", printable(.cause))]
pub struct RankFailure {
    /// The rank that failed.
    pub rank: Rank,
    /// The cause, to be read after "rank 3": "was killed by signal 9".
    pub cause: String,
}

/// A wait that exceeded `PGAS_TIMEOUT`.
#[derive(Debug, Clone, thiserror::Error)]
#[error("rank {rank} waited {waited:?} for {what}{}", missing_ranks(.missing))]
pub struct Timeout {
    /// The rank that waited.
    pub rank: Rank,
    /// The time that it waited.
    pub waited: Duration,
    /// The name of the wait.
    pub what: &'static str,
    /// The ranks that it waited for, as far as the backend can tell.
    pub missing: Vec<Rank>,
}

/// A number of bytes; `u64::MAX` stands for all that is beyond.
fn many_bytes(n: u64) -> String {
    if n == u64::MAX {
        return "2^64 bytes or more".to_owned();
    }
    format!("{n} bytes")
}

fn with_code(code: i64) -> String {
    if code == 0 {
        return String::new();
    }
    format!(" with code {code}")
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
    /// The value of the variable.
    pub value: String,
    /// The mistake, and a description of valid values.
    pub reason: String,
}

/// Ranks that disagree in a collective.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "ranks disagree on {}: rank {rank_a} has {}{}, rank {rank_b} has {}{}; a \
     collective must be called by every rank of its team, in the same order, with equal arguments",
    printable(.what), printable(.value_a), line(.line_a), printable(.value_b), line(.line_b)
)]
pub struct Mismatch {
    /// The collective, and the argument that differs.
    pub what: String,
    /// One rank.
    pub rank_a: Rank,
    /// Its value.
    pub value_a: String,
    /// The line of the program with its call, as in `src/main.rs:7`; known with `PGAS_CHECK=1`.
    pub line_a: Option<String>,
    /// Another rank.
    pub rank_b: Rank,
    /// Its value.
    pub value_b: String,
    /// The line of its call.
    pub line_b: Option<String>,
}

fn line(line: &Option<String>) -> String {
    let line = line.as_ref();
    line.map_or_else(String::new, |line| format!(" at {}", printable(line)))
}

/// A step of a collective call that failed on another rank. All ranks can go on.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{what} failed on rank {rank}: {}", printable(.cause))]
pub struct Elsewhere {
    /// The rank on which it failed; of several the one with the lowest number.
    pub rank: Rank,
    /// The step.
    pub what: &'static str,
    /// The text of that rank's error.
    pub cause: String,
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

/// A panic in a function that another rank ran, or in a task.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "a remote call or a task panicked on rank {rank} at {}: {}",
    printable(.location), printable(.message)
)]
pub struct RemotePanic {
    /// The rank that ran it.
    pub rank: Rank,
    /// The text of the panic.
    pub message: String,
    /// File, line and column.
    pub location: String,
}

/// A remote function that has returned an error, that could not be run, or whose result could not
/// be sent.
#[derive(Debug, Clone, thiserror::Error)]
#[error("a remote call failed on rank {rank}: {}", printable(.message))]
pub struct RemoteError {
    /// The rank that has run it, or should have.
    pub rank: Rank,
    /// The text of the error.
    pub message: String,
}

/// A value that could not be encoded, or bytes that could not be decoded.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{what} of type {type_name}: {}", printable(.reason))]
pub struct CodecError {
    /// The operation.
    pub what: &'static str,
    /// The type of the value.
    pub type_name: &'static str,
    /// The reason.
    pub reason: String,
}

/// One-way calls and messages that were not run: their object was dropped, their arguments could
/// not be read, or their target had left.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{n} one-way calls were lost, at first on rank {rank}: {}", printable(.reason))]
pub struct Undelivered {
    /// Their number, on all ranks, since the last such error.
    pub n: u64,
    /// The first rank that has lost calls.
    pub rank: Rank,
    /// The reason for the first loss on that rank.
    pub reason: String,
}

/// A message that names something that this rank does not have.
#[derive(Debug, Clone, thiserror::Error)]
#[error("rank {rank} got a message from rank {from} for {}, {reason}", printable(.what))]
pub struct Unknown {
    /// The receiver.
    pub rank: Rank,
    /// The sender.
    pub from: Rank,
    /// The thing that it names.
    pub what: String,
    /// Why this rank does not have it.
    pub reason: &'static str,
}

/// A container that could not be saved or loaded.
#[derive(Debug, Clone)]
pub struct StorageError {
    /// The file, or the directory of the checkpoint.
    pub path: PathBuf,
    /// The reason.
    pub reason: String,
    /// The system's error, if it is one: the source of this one.
    pub system: Option<Arc<std::io::Error>>,
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = shown(&self.path);
        write!(f, "{}: {}", printable(path), printable(&self.reason))
    }
}

/// Not derived: the source would be the `Arc`, which a program does not look for.
impl std::error::Error for StorageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let system = self.system.as_deref();
        system.map(|error| error as &(dyn std::error::Error + 'static))
    }
}

/// A path of no letters is seen, too.
fn shown(path: &Path) -> Cow<'_, str> {
    if path.as_os_str().is_empty() {
        return Cow::Borrowed("the empty path");
    }
    path.to_string_lossy()
}

impl StorageError {
    /// Whether the file or directory does not exist, as before the first checkpoint. `false` for
    /// all other causes, such as a damaged file.
    ///
    /// # Examples
    ///
    /// ```
    /// use pgas_core::Error;
    ///
    /// /// Whether a program that could not load its checkpoint begins anew.
    /// fn begins_anew(error: &Error) -> bool {
    ///     matches!(error, Error::Storage(storage) if storage.is_absent())
    /// }
    /// # assert!(!begins_anew(&Error::setting("PGAS_RANKS", "", "is empty")));
    /// ```
    #[must_use]
    pub fn is_absent(&self) -> bool {
        let system = self.system.as_ref();
        system.is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::io;

    use super::*;
    use crate::Error;

    /// A panic's text has several lines, and a file's name may steer the terminal.
    #[test]
    fn each_is_one_sentence_whatever_its_texts_are() {
        let (rank, from) = (Rank::new(1), Rank::ZERO);
        let raw = || "left\n\u{1b}[2Jright".to_owned();
        let mismatch = Mismatch {
            what: raw(),
            rank_a: from,
            value_a: raw(),
            line_a: Some(raw()),
            rank_b: rank,
            value_b: raw(),
            line_b: Some(raw()),
        };
        let panic = RemotePanic {
            rank,
            message: raw(),
            location: raw(),
        };
        let remote = RemoteError {
            rank,
            message: raw(),
        };
        let undelivered = Undelivered {
            n: 1,
            rank,
            reason: raw(),
        };
        let unknown = Unknown {
            rank,
            from,
            what: raw(),
            reason: "which it lacks",
        };
        let storage = StorageError {
            path: raw().into(),
            reason: raw(),
            system: None,
        };
        let all: [(usize, Error); 11] = [
            (1, Error::backend("open", 2, raw())),
            (1, Error::rank_failed(rank, raw())),
            (2, Error::setting("PGAS_RANKS", raw(), raw())),
            (1, Error::codec::<u8>("reading", raw())),
            (1, Error::Argument(raw().into())),
            (5, Box::new(mismatch).into()),
            (2, Box::new(panic).into()),
            (1, Box::new(remote).into()),
            (1, Box::new(undelivered).into()),
            (1, Box::new(unknown).into()),
            (2, Box::new(storage).into()),
        ];
        for (n, error) in all {
            let text = error.to_string();
            let n_shown = text.matches("left\\n\\u{1b}[2Jright").count();
            assert_eq!(n_shown, n, "{text}");
            assert!(!text.contains(char::is_control), "{text}");
        }
    }

    #[test]
    fn the_systems_error_is_the_source_of_one_of_storage() {
        let system = Arc::new(io::Error::from(io::ErrorKind::PermissionDenied));
        let error = |system| {
            Error::from(Box::new(StorageError {
                path: PathBuf::from("saved"),
                reason: "a reason".to_owned(),
                system,
            }))
        };
        let refused = error(Some(system));
        let source = refused
            .source()
            .and_then(|source| source.downcast_ref::<io::Error>());
        let kind = source.map(io::Error::kind);
        assert_eq!(kind, Some(io::ErrorKind::PermissionDenied));
        assert!(error(None).source().is_none());
    }
}
