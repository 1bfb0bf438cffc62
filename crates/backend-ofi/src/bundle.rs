//! Notes to the same rank travel in one message: answers to atomics that arrived together, and
//! notes for which there was no room before.
//!
//! No note waits for others. A rank answers all messages of one poll, and then sends, so that an
//! answer waits for a few atomics at most.

use std::collections::{HashSet, VecDeque};

use pgas_core::Result;
use pgas_network::note::{NOTE_BYTES, Note, PLAIN_NOTE_BYTES};

use crate::sys::Begun;

/// The next message of notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bundle {
    pub(crate) to: u32,
    /// The number of notes in it.
    pub(crate) n_notes: u16,
    /// Their bytes.
    pub(crate) len: usize,
    /// Whether it has to be complete when its receiver has it.
    pub(crate) is_sure: bool,
}

/// Sends all notes by `send`, which is given messages and their bytes. The notes to a rank keep
/// their order. Those to a rank for which there was no room stay.
///
/// `send` is called once for such a rank, since room for it may come only when it serves: it may
/// compute, or have failed.
pub(crate) fn send_each(
    unsent: &mut VecDeque<(u32, Note)>,
    mut send: impl FnMut(&Bundle, &[u8]) -> Begun,
) {
    let mut bytes = [0; NOTE_BYTES];
    let mut without_room = HashSet::new();
    let mut at = 0;
    while let Some((to, _)) = unsent.get(at) {
        if without_room.contains(to) {
            at += 1;
            continue;
        }
        let Some(bundle) = pack(unsent, at, &mut bytes) else {
            return;
        };
        match send(&bundle, &bytes[..bundle.len]) {
            Begun::Yes => drop(unsent.drain(at..at + usize::from(bundle.n_notes))),
            Begun::NoRoom => drop(without_room.insert(bundle.to)),
        }
    }
}

/// Writes the note at `at` and those behind it that go to the same rank, as many as fit.
fn pack(unsent: &VecDeque<(u32, Note)>, at: usize, bytes: &mut [u8; NOTE_BYTES]) -> Option<Bundle> {
    let (to, first) = unsent.get(at)?;
    let mut bundle = Bundle {
        to: *to,
        n_notes: 1,
        len: first.encode(bytes),
        is_sure: is_sure(first),
    };
    if !is_plain(first) {
        return Some(bundle);
    }
    for (other, note) in unsent.range(at + 1..) {
        if other != to || !is_plain(note) || bundle.len + PLAIN_NOTE_BYTES > NOTE_BYTES {
            break;
        }
        bundle.len += note.encode(&mut bytes[bundle.len..]);
        bundle.n_notes += 1;
    }
    Some(bundle)
}

/// Reads the notes of a message.
pub(crate) fn unpack(bytes: &[u8], n_notes: u16, notes: &mut Vec<Note>) -> Result<()> {
    if n_notes <= 1 {
        notes.push(Note::decode(bytes)?);
        return Ok(());
    }
    let parts = bytes.chunks(PLAIN_NOTE_BYTES).take(n_notes.into());
    for part in parts {
        notes.push(Note::decode(part)?);
    }
    Ok(())
}

/// Whether its sender may leave only when the receiver has it.
fn is_sure(note: &Note) -> bool {
    matches!(note, Note::Leaving { .. })
}

/// Whether a note has no text, so that it can share a message.
fn is_plain(note: &Note) -> bool {
    !is_sure(note) && !matches!(note, Note::Failed { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(id: u64) -> Note {
        Note::Former { id, bits: !id }
    }

    /// The messages that are sent while there is no room for a rank, if one is given.
    fn send_but_to(
        without_room: Option<u32>,
        unsent: &mut VecDeque<(u32, Note)>,
    ) -> Vec<(u32, Vec<Note>)> {
        let mut messages = Vec::new();
        let mut n_refused = 0;
        send_each(unsent, |bundle, bytes| {
            if without_room == Some(bundle.to) {
                n_refused += 1;
                return Begun::NoRoom;
            }
            let mut read = Vec::new();
            unpack(bytes, bundle.n_notes, &mut read).unwrap();
            assert_eq!(bundle.is_sure, is_sure(&read[0]));
            messages.push((bundle.to, read));
            Begun::Yes
        });
        assert!(n_refused <= 1, "tried once");
        messages
    }

    /// The messages that the notes become.
    fn messages(notes: impl IntoIterator<Item = (u32, Note)>) -> Vec<(u32, Vec<Note>)> {
        let mut unsent = notes.into_iter().collect();
        let messages = send_but_to(None, &mut unsent);
        assert_eq!(unsent, []);
        messages
    }

    #[test]
    fn a_rank_without_room_holds_up_no_notes_to_others() {
        let notes = [2, 1, 2, 2, 1, 3, 2].into_iter().zip(0..);
        let mut unsent = notes.map(|(to, id)| (to, answer(id))).collect();
        let sent = send_but_to(Some(2), &mut unsent);
        let expected = [
            (1, vec![answer(1)]),
            (1, vec![answer(4)]),
            (3, vec![answer(5)]),
        ];
        assert_eq!(sent, expected);
        // In their order, and before later ones.
        assert_eq!(unsent, [0, 2, 3, 6].map(|id| (2, answer(id))));
        unsent.push_back((2, answer(7)));
        let rest = send_but_to(None, &mut unsent);
        assert_eq!(rest, [(2, [0, 2, 3, 6, 7].map(answer).to_vec())]);
    }

    #[test]
    fn answers_to_one_rank_go_in_one_message_in_their_order() {
        let sent = messages([
            (1, answer(5)),
            (1, answer(6)),
            (2, answer(7)),
            (1, answer(8)),
        ]);
        let expected = [
            (1, vec![answer(5), answer(6)]),
            (2, vec![answer(7)]),
            (1, vec![answer(8)]),
        ];
        assert_eq!(sent, expected);
        assert_eq!(messages([]), []);
    }

    #[test]
    fn a_message_has_as_many_as_fit() {
        let most = NOTE_BYTES / PLAIN_NOTE_BYTES;
        let sent = messages((0..25).map(|id| (3, answer(id))));
        let lens: Vec<_> = sent.iter().map(|(_, notes)| notes.len()).collect();
        assert_eq!(lens, [most, most, 25 - 2 * most]);
        let all: Vec<_> = sent.into_iter().flat_map(|(_, notes)| notes).collect();
        assert_eq!(all, (0..25).map(answer).collect::<Vec<_>>());
    }

    #[test]
    fn a_failure_and_the_last_words_go_alone() {
        let failed = Note::Failed {
            rank: 4,
            cause: "x".repeat(96),
        };
        let last = Note::Leaving { round: 2 };
        let notes = [answer(1), failed, answer(2), last, answer(3)];
        let sent = messages(notes.clone().map(|note| (1, note)));
        assert_eq!(sent, notes.map(|note| (1, vec![note])));
    }

    #[test]
    fn a_message_that_is_cut_off_is_refused() {
        let unsent = [(1, answer(1)), (1, answer(2))].into();
        let mut bytes = [0; NOTE_BYTES];
        let bundle = pack(&unsent, 0, &mut bytes).unwrap();
        assert!(unpack(&bytes[..bundle.len - 1], bundle.n_notes, &mut Vec::new()).is_err());
    }
}
