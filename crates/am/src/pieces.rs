//! Calls and results that are longer than a message: in pieces, put together where they arrive.
//!
//! The order of messages is not fixed, so each piece carries its position. A sender sends the
//! pieces of one call after another, and waits for room as for any request. So a rank assembles at
//! most one call for each thread of the other ranks at a time, and none is longer than [`LONGEST`].

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use pgas_core::Rank;
use pgas_core::backend::{HandlerId, Message};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::codec::LONGEST;

/// The header of a piece.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct Piece {
    /// The number of the whole message, counted by its sender.
    pub(crate) whole: u64,
    /// The length of the whole message, and the position of this piece in it.
    pub(crate) len: u64,
    pub(crate) at: u64,
    /// The handler of the whole message.
    pub(crate) handler: u64,
}

/// A message that is still incomplete. Its bytes begin at a multiple of eight, as those of messages
/// do.
pub(crate) struct Whole {
    words: Vec<u64>,
    len: usize,
    n_missing: usize,
}

impl Whole {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.words.as_bytes()[..self.len]
    }
}

/// The messages that a rank assembles, and the number that it has sent in pieces.
#[derive(Default)]
pub(crate) struct Pieces {
    n_sent: AtomicU64,
    wholes: Mutex<HashMap<(Rank, u64), Whole>>,
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pieces").finish_non_exhaustive()
    }
}

impl Pieces {
    /// The number of the next whole that this rank sends.
    pub(crate) fn next(&self) -> u64 {
        self.n_sent.fetch_add(1, Ordering::Relaxed)
    }

    /// The handler of the whole message, if this is its first piece.
    pub(crate) fn first_of(message: &Message<'_>) -> Option<HandlerId> {
        let (piece, _) = Piece::read_from_prefix(message.payload).ok()?;
        let handler = u16::try_from(piece.handler).ok()?;
        (piece.at == 0).then_some(HandlerId(handler))
    }

    /// Adds a piece to its whole message, and returns that if it is complete; `None` if the piece
    /// is malformed.
    #[expect(
        clippy::option_option,
        reason = "nonsense is told apart from a whole that is not complete"
    )]
    #[cold]
    pub(crate) fn add(&self, message: &Message<'_>) -> Option<Option<(Whole, HandlerId)>> {
        let (piece, bytes) = Piece::read_from_prefix(message.payload).ok()?;
        let (len, at) = (
            usize::try_from(piece.len).ok()?,
            usize::try_from(piece.at).ok()?,
        );
        let handler = HandlerId(u16::try_from(piece.handler).ok()?);
        if len > LONGEST || bytes.is_empty() {
            return None;
        }
        let mut wholes = self.wholes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entry = match wholes.entry((message.from, piece.whole)) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => entry.insert_entry(Whole {
                words: vec![0; len.div_ceil(size_of::<u64>())],
                len,
                n_missing: len,
            }),
        };
        let whole = entry.get_mut();
        let end = at.checked_add(bytes.len())?;
        if whole.len != len || end > len || bytes.len() > whole.n_missing {
            return None;
        }
        whole.words.as_mut_bytes()[at..end].copy_from_slice(bytes);
        whole.n_missing -= bytes.len();
        let is_complete = whole.n_missing == 0;
        Some(is_complete.then(|| (entry.remove(), handler)))
    }
}

#[cfg(test)]
mod tests {
    use pgas_core::backend::MessageClass;

    use super::*;
    use crate::ids::PIECE;

    fn payload(len: u64, at: u64, bytes: &[u8]) -> Vec<u8> {
        let header = Piece {
            whole: 3,
            len,
            at,
            handler: 7,
        };
        [header.as_bytes(), bytes].concat()
    }

    fn add(pieces: &Pieces, payload: &[u8]) -> Option<Option<(Whole, HandlerId)>> {
        pieces.add(&Message {
            from: Rank::ZERO,
            class: MessageClass::Request,
            handler: PIECE,
            payload,
        })
    }

    #[test]
    fn pieces_make_a_whole_in_any_order() {
        let pieces = Pieces::default();
        assert!(matches!(add(&pieces, &payload(9, 4, b"efghi")), Some(None)));
        let (whole, id) = add(&pieces, &payload(9, 0, b"abcd")).flatten().unwrap();
        assert_eq!(whole.bytes(), b"abcdefghi");
        assert_eq!(id, HandlerId(7));
        assert!(pieces.wholes.lock().unwrap().is_empty());
    }

    #[test]
    fn what_fits_no_whole_is_refused() {
        let pieces = Pieces::default();
        assert!(matches!(add(&pieces, &payload(9, 0, b"abcd")), Some(None)));
        for nonsense in [
            payload(9, 8, b"ab"),
            payload(8, 4, b"abcd"),
            payload(9, u64::MAX, b"a"),
            payload(u64::MAX, 0, b"a"),
            payload(9, 4, b""),
            payload(9, 0, b"abcdef"),
            vec![0; 5],
        ] {
            assert!(add(&pieces, &nonsense).is_none(), "{nonsense:?}");
        }
        assert!(matches!(
            add(&pieces, &payload(9, 4, b"efghi")),
            Some(Some(_))
        ));
    }
}
