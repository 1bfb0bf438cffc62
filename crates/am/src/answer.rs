//! The answer of a call: the function's result, or an error.

use pgas_core::Rank;
use pgas_lockfree::pending::Outcome;

use crate::codec::{Decoder, Encoder, Wire};
use crate::error::shortened;
use pgas_core::{Error, RemoteError, RemotePanic, Result};

/// A failure's texts are shortened to this, so that they fit a message of every transport.
const MAX_TEXT: usize = 200;

/// The answer to call `cookie` with the error's text, and with the location of a panic.
#[cold]
pub(crate) fn failure(cookie: u64, text: &str, panicked_at: Option<&str>) -> Result<Encoder> {
    let mut out = Encoder::new();
    out.write(&cookie.to_ne_bytes());
    let cut = |text| shortened(text, MAX_TEXT);
    out.put(&(cut(text), panicked_at.map(cut)))?;
    Ok(out)
}

/// Decodes the answer of `rank`.
#[inline]
pub(crate) fn read_answer<T: Wire>(rank: Rank, outcome: Outcome, bytes: &[u8]) -> Result<T> {
    let mut input = Decoder::new(bytes);
    match outcome {
        Outcome::Returned => input.get_last(),
        Outcome::Failed => Err(read_failure(rank, &mut input)),
        Outcome::Left => Err(unanswered(rank)),
        Outcome::Ended => Err(Error::HasLeft),
    }
}

/// The error of a call whose rank has left.
#[cold]
pub(crate) fn unanswered(rank: Rank) -> Error {
    Error::rank_failed(rank, "has left the job with a remote call unanswered")
}

#[cold]
fn read_failure(rank: Rank, input: &mut Decoder<'_>) -> Error {
    match input.get::<(String, Option<String>)>() {
        Ok((message, Some(location))) => Error::from(Box::new(RemotePanic {
            rank,
            message,
            location,
        })),
        Ok((message, None)) => Error::from(Box::new(RemoteError { rank, message })),
        Err(error) => error,
    }
}
