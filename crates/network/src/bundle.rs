//! The bytes of a message of the transport: a header, and one or more messages of the program.
//!
//! ```text
//! | from: u32 | kind: u16 | credits for requests: u16 | for replies: u16 | transport: 2 bytes |
//! | handler: u16 | length: u16 | payload | padding | handler: u16 | length: u16 | payload | ...
//! ```
//!
//! Each payload begins at a multiple of eight, and its handler and length are right before it.

use pgas_core::Rank;
use pgas_core::backend::{HandlerId, Message, MessageClass};

/// Bytes before the first payload.
pub const HEADER_BYTES: usize = 16;
/// Bytes of a handler and a length.
const ENTRY_BYTES: usize = 4;
const ALIGN: usize = 8;

/// The header of a message of the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The sender.
    pub from: u32,
    /// What the message contains: the program's messages of a class, or one of the transport's own.
    pub kind: u16,
    /// Credits of each class that are returned with it.
    pub credits: [u16; 2],
}

impl Header {
    /// The header of the program's messages of a class.
    pub(crate) fn of(from: u32, class: MessageClass, credits: [u16; 2]) -> Self {
        let kind = class as u16;
        Self {
            from,
            kind,
            credits,
        }
    }

    /// Writes the header, and leaves the first handler and length alone.
    ///
    /// # Panics
    ///
    /// If there are fewer than [`HEADER_BYTES`] bytes.
    pub fn encode(&self, bytes: &mut [u8]) {
        bytes[..4].copy_from_slice(&self.from.to_ne_bytes());
        let words = [self.kind, self.credits[0], self.credits[1], 0];
        for (chunk, word) in bytes[4..HEADER_BYTES - ENTRY_BYTES]
            .chunks_exact_mut(2)
            .zip(words)
        {
            chunk.copy_from_slice(&word.to_ne_bytes());
        }
    }

    /// Reads a header, if the message is long enough for one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..HEADER_BYTES)?;
        let from = header[..4].try_into().ok()?;
        Some(Self {
            from: u32::from_ne_bytes(from),
            kind: word(header, 4),
            credits: [word(header, 6), word(header, 8)],
        })
    }
}

/// Two bytes of a message.
fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

/// The offset of the payload that follows a message that ends at `end`.
#[must_use]
pub fn next_payload(end: usize) -> usize {
    (end + ENTRY_BYTES).next_multiple_of(ALIGN)
}

/// Writes a message whose payload is the concatenation of `parts` and begins at `at`. Returns its
/// end.
///
/// # Panics
///
/// If it does not fit, or is longer than 65,535 bytes.
pub fn write(bytes: &mut [u8], at: usize, handler: HandlerId, parts: &[&[u8]]) -> usize {
    let mut end = at;
    for part in parts {
        bytes[end..][..part.len()].copy_from_slice(part);
        end += part.len();
    }
    announce(bytes, at, handler, end - at);
    end
}

/// Writes the handler and the length of a payload that begins at `at`.
///
/// # Panics
///
/// As [`write`](fn@write).
pub fn announce(bytes: &mut [u8], at: usize, handler: HandlerId, len: usize) {
    let len = u16::try_from(len).expect("shorter than the longest message");
    bytes[at - 4..at - 2].copy_from_slice(&handler.0.to_ne_bytes());
    bytes[at - 2..at].copy_from_slice(&len.to_ne_bytes());
}

/// Reads the program's messages one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader {
    /// Where the next payload begins.
    at: usize,
}

impl Default for Reader {
    fn default() -> Self {
        Self { at: HEADER_BYTES }
    }
}

impl Reader {
    /// Whether nothing was read.
    #[must_use]
    pub fn is_at_start(&self) -> bool {
        self.at == HEADER_BYTES
    }

    /// Whether nothing is left of a message of `len` bytes.
    #[must_use]
    pub fn is_at_end(&self, len: usize) -> bool {
        self.at > len
    }

    /// Hands at most `limit` messages of the rank `from`, all of one class, to `sink`, and returns
    /// their number.
    pub fn hand_out(
        &mut self,
        bytes: &[u8],
        (from, class): (u32, MessageClass),
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
    ) -> usize {
        let from = Rank::new(from);
        let mut n = 0;
        while n < limit
            && let Some((handler, payload)) = self.next(bytes)
        {
            sink(Message {
                from,
                class,
                handler,
                payload,
            });
            n += 1;
        }
        n
    }

    /// The next message and its handler. A garbled rest, which no rank sends, counts as nothing.
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Option<(HandlerId, &'a [u8])> {
        if self.is_at_end(bytes.len()) {
            return None;
        }
        let at = self.at;
        let end = at + usize::from(word(bytes, at - 2));
        let Some(payload) = bytes.get(at..end) else {
            self.at = usize::MAX;
            return None;
        };
        self.at = next_payload(end);
        Some((HandlerId(word(bytes, at - 4)), payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of the transport with these messages of the program.
    fn written(messages: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 16];
        let (mut at, mut end) = (HEADER_BYTES, HEADER_BYTES);
        for (i, payload) in (0..).zip(messages) {
            let (first, second) = payload.split_at(payload.len() / 2);
            end = write(&mut bytes, at, HandlerId(i), &[first, second]);
            at = next_payload(end);
        }
        bytes.truncate(end);
        bytes
    }

    #[test]
    fn messages_are_read_as_they_were_written_and_aligned() {
        let messages: Vec<Vec<u8>> = (0..100_usize)
            .map(|i| vec![i.to_ne_bytes()[0]; i * i % 41])
            .collect();
        for n in 1..messages.len() {
            let bytes = written(&messages[..n]);
            let mut reader = Reader::default();
            assert!(reader.is_at_start());
            for (i, payload) in (0..).zip(&messages[..n]) {
                assert!(!reader.is_at_end(bytes.len()));
                assert_eq!(reader.next(&bytes), Some((HandlerId(i), &payload[..])));
            }
            assert!(reader.is_at_end(bytes.len()));
            assert_eq!(reader.next(&bytes), None);
        }
        let mut bytes = written(&messages[3..5]);
        let base = bytes.as_ptr() as usize;
        let second = base + next_payload(HEADER_BYTES + messages[3].len());
        let mut reader = Reader::default();
        assert_eq!(reader.next(&bytes).unwrap().1.as_ptr() as usize, base + 16);
        assert_eq!(reader.next(&bytes).unwrap().1.as_ptr() as usize, second);
        let header = Header {
            from: 77,
            kind: 1,
            credits: [2, 3],
        };
        header.encode(&mut bytes);
        assert_eq!(Header::decode(&bytes), Some(header));
        let first = Reader::default().next(&bytes);
        assert_eq!(first, Some((HandlerId(0), &messages[3][..])));
    }

    #[test]
    fn a_message_that_is_cut_off_is_read_as_far_as_it_is_whole() {
        let bytes = written(&[vec![1; 9], vec![2; 9]]);
        for len in 0..bytes.len() {
            assert_eq!(Header::decode(&bytes[..len]).is_some(), len >= HEADER_BYTES);
            let mut reader = Reader::default();
            let mut n = 0;
            while let Some((_, payload)) = reader.next(&bytes[..len]) {
                assert_eq!(payload.len(), 9);
                n += 1;
            }
            assert_eq!(n, usize::from(len >= HEADER_BYTES + 9), "{len}");
            assert!(reader.is_at_end(len));
        }
    }
}
