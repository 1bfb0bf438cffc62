//! The errors of codecs.

use pgas_core::Error;

use super::format::Refused;

/// The error for bytes that are not the encoding of a `T`.
#[cold]
pub(crate) fn unreadable<T>(reason: impl Into<String>) -> Error {
    Error::codec::<T>("reading bytes as a value", reason)
}

/// The error for a `T` that cannot be encoded.
#[cold]
#[expect(clippy::needless_pass_by_value, reason = "maps errors")]
pub(super) fn unwritable<T>(reason: Refused) -> Error {
    Error::codec::<T>("writing a value", reason.to_string())
}
