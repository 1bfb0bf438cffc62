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

/// In the place of a position: the rest of the whole does not come. Behind the header are the bytes
/// that were sent of it, as a number.
const GIVEN_UP: u64 = u64::MAX;

/// The piece by which a sender gives up a whole of `len` bytes, of which it has sent `n_sent`.
pub(crate) fn given_up(whole: u64, len: usize, n_sent: usize) -> Vec<u8> {
    let header = Piece {
        whole,
        len: len as u64,
        at: GIVEN_UP,
        handler: 0,
    };
    [header.as_bytes(), (n_sent as u64).as_bytes()].concat()
}

/// A message that is still incomplete. Its bytes begin at a multiple of eight, as those of messages
/// do.
pub(crate) struct Whole {
    /// Empty if it was given up.
    words: Vec<u64>,
    len: usize,
    /// The bytes that are still to come.
    n_missing: usize,
    is_given_up: bool,
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

    /// The handler of the whole message, if this is its last piece. A sender that has been refused
    /// a piece sends no later ones, so that a whole is lost with this one.
    pub(crate) fn last_of(payload: &[u8]) -> Option<HandlerId> {
        let (piece, bytes) = Piece::read_from_prefix(payload).ok()?;
        let handler = u16::try_from(piece.handler).ok()?;
        let end = piece.at.checked_add(bytes.len() as u64)?;
        (end == piece.len).then_some(HandlerId(handler))
    }

    /// The handler of the whole message that a piece belongs to, if it has one.
    pub(crate) fn handler_of(payload: &[u8]) -> Option<HandlerId> {
        let (piece, _) = Piece::read_from_prefix(payload).ok()?;
        u16::try_from(piece.handler).ok().map(HandlerId)
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
        let entry = wholes.entry((message.from, piece.whole));
        if piece.at == GIVEN_UP {
            return give_up(entry, len, bytes).map(|()| None);
        }
        let mut entry = match entry {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => entry.insert_entry(Whole {
                words: vec![0; len.div_ceil(size_of::<u64>())],
                len,
                n_missing: len,
                is_given_up: false,
            }),
        };
        let whole = entry.get_mut();
        let end = at.checked_add(bytes.len())?;
        if whole.len != len || end > len || bytes.len() > whole.n_missing {
            return None;
        }
        if !whole.is_given_up {
            whole.words.as_mut_bytes()[at..end].copy_from_slice(bytes);
        }
        whole.n_missing -= bytes.len();
        if whole.n_missing > 0 {
            return Some(None);
        }
        let whole = entry.remove();
        Some((!whole.is_given_up).then_some((whole, handler)))
    }
}

/// Frees the memory of a whole whose rest does not come. What was sent may come after this. `None`
/// if the piece is malformed.
fn give_up(entry: Entry<'_, (Rank, u64), Whole>, len: usize, bytes: &[u8]) -> Option<()> {
    let n_sent = u64::read_from_bytes(bytes).ok()?;
    let n_sent = usize::try_from(n_sent).ok().filter(|sent| *sent < len)?;
    let n_come = match &entry {
        Entry::Occupied(entry) => entry.get().len - entry.get().n_missing,
        Entry::Vacant(_) => 0,
    };
    let given_up = Whole {
        words: Vec::new(),
        len,
        n_missing: n_sent.checked_sub(n_come)?,
        is_given_up: true,
    };
    match entry {
        Entry::Occupied(entry) if given_up.n_missing == 0 => drop(entry.remove()),
        entry if given_up.n_missing > 0 => drop(entry.insert_entry(given_up)),
        Entry::Occupied(_) | Entry::Vacant(_) => {}
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::Duration;

    use pgas_core::backend::{MessageClass, loopback};
    use pgas_core::{Config, Error};

    use super::*;
    use crate::ids::PIECE;
    use crate::state::am;
    use crate::{RemoteCalls as _, quiet};

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
    fn what_was_given_up_takes_no_memory_in_whatever_order_it_comes() {
        let four = payload(9, 0, b"abcd");
        let two = payload(9, 4, b"ef");
        let end = given_up(3, 9, 6);
        for order in [
            [&four, &two, &end],
            [&two, &end, &four],
            [&end, &four, &two],
        ] {
            let pieces = Pieces::default();
            for piece in order {
                assert!(matches!(add(&pieces, piece), Some(None)));
            }
            assert!(pieces.wholes.lock().unwrap().is_empty());
        }
        let pieces = Pieces::default();
        assert!(matches!(add(&pieces, &given_up(3, 9, 0)), Some(None)));
        assert!(pieces.wholes.lock().unwrap().is_empty());
        assert!(
            add(&pieces, &given_up(3, 9, 9)).is_none(),
            "nothing is left of it"
        );
        assert!(matches!(add(&pieces, &four), Some(None)));
        assert!(add(&pieces, &given_up(3, 9, 3)).is_none(), "more has come");
    }

    /// The target serves nobody until a time limit has ended the call.
    #[test]
    #[cfg_attr(
        miri,
        ignore = "the limit holds for the other waits, too, which take Miri longer"
    )]
    fn a_call_that_a_time_limit_ends_in_the_middle_leaves_nothing_at_its_target() {
        static HAS_ENDED: AtomicBool = AtomicBool::new(false);
        let mut config = Config::default();
        config.timeout = Some(Duration::from_secs(3));
        loopback::run_with(2, &config, |world| {
            crate::attach(&world).unwrap();
            let to = Rank::new(1);
            if world.rank() == to {
                while !HAS_ENDED.load(Ordering::Acquire) {
                    thread::yield_now();
                }
            } else {
                let error = world.rpc_ff(to, drop::<Vec<u8>>, vec![7; 10 << 20]);
                assert!(matches!(error, Err(Error::Timeout(_))), "{error:?}");
                HAS_ENDED.store(true, Ordering::Release);
            }
            quiet(&world).unwrap();
            let wholes = &am(&world).unwrap().pieces.wholes;
            assert!(wholes.lock().unwrap().is_empty());
        });
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
