//! Notes to the same rank travel in one message: answers to atomics that arrived together, and
//! notes for which there was no room before.
//!
//! No note waits for others. A rank answers all messages of one poll, and then sends, so that an
//! answer waits for a few atomics at most.

use std::collections::VecDeque;

use pgas_core::Result;
use pgas_network::note::{NOTE_BYTES, Note, PLAIN_NOTE_BYTES};

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

/// Writes the first note and those behind it that go to the same rank, as many as fit.
pub(crate) fn pack(unsent: &VecDeque<(u32, Note)>, bytes: &mut [u8; NOTE_BYTES]) -> Option<Bundle> {
    let (to, first) = unsent.front()?;
    let mut bundle = Bundle {
        to: *to,
        n_notes: 1,
        len: first.encode(bytes),
        is_sure: is_sure(first),
    };
    if !is_plain(first) {
        return Some(bundle);
    }
    for (other, note) in unsent.iter().skip(1) {
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
    matches!(note, Note::Bye { .. } | Note::Leaving { .. })
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

    /// The messages that the notes become.
    fn messages(notes: impl IntoIterator<Item = (u32, Note)>) -> Vec<(u32, Vec<Note>)> {
        let mut unsent: VecDeque<_> = notes.into_iter().collect();
        let mut messages = Vec::new();
        let mut bytes = [0; NOTE_BYTES];
        while let Some(bundle) = pack(&unsent, &mut bytes) {
            let mut read = Vec::new();
            unpack(&bytes[..bundle.len], bundle.n_notes, &mut read).unwrap();
            let sent: Vec<_> = unsent.drain(..usize::from(bundle.n_notes)).collect();
            assert!(sent.iter().all(|(to, _)| *to == bundle.to));
            assert_eq!(bundle.is_sure, is_sure(&sent[0].1));
            messages.push((bundle.to, read));
        }
        messages
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
    fn a_failure_and_a_good_bye_go_alone() {
        let failed = Note::Failed {
            rank: 4,
            cause: "x".repeat(96),
        };
        let bye = Note::Bye { sent: [1, 2] };
        let notes = [answer(1), failed, answer(2), bye, answer(3)];
        let sent = messages(notes.clone().map(|note| (1, note)));
        assert_eq!(sent, notes.map(|note| (1, vec![note])));
    }

    #[test]
    fn a_message_that_is_cut_off_is_refused() {
        let unsent = [(1, answer(1)), (1, answer(2))].into();
        let mut bytes = [0; NOTE_BYTES];
        let bundle = pack(&unsent, &mut bytes).unwrap();
        assert!(unpack(&bytes[..bundle.len - 1], bundle.n_notes, &mut Vec::new()).is_err());
    }
}
