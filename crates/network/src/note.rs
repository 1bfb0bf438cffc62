//! Notes: messages between the libraries of two ranks, besides the program's messages. They carry
//! credits, atomics to execute, departures and failures.

use pgas_core::backend::{AtomicCall, AtomicOp, AtomicType, SwapCall};
use pgas_core::{Error, Result};

/// Words before the text.
const N_WORDS: usize = 6;
const TEXT_BYTES: usize = 512;
/// A note without text, in bytes.
pub const PLAIN_NOTE_BYTES: usize = N_WORDS * 8;
/// The longest note, in bytes.
pub const NOTE_BYTES: usize = N_WORDS * 8 + TEXT_BYTES;

/// The operations, in the order of their numbers in notes.
const OPS: [AtomicOp; 8] = [
    AtomicOp::Load,
    AtomicOp::Swap,
    AtomicOp::Add,
    AtomicOp::And,
    AtomicOp::Or,
    AtomicOp::Xor,
    AtomicOp::Min,
    AtomicOp::Max,
];
const TYPES: [AtomicType; 10] = [
    AtomicType::U8,
    AtomicType::I8,
    AtomicType::U16,
    AtomicType::I16,
    AtomicType::U32,
    AtomicType::I32,
    AtomicType::U64,
    AtomicType::I64,
    AtomicType::F32,
    AtomicType::F64,
];

/// An atomic that its target executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// An atomic whose former bits come back.
    Fetch(AtomicCall),
    /// A compare-and-swap.
    Swap(SwapCall),
}

impl Order {
    /// The type of the word that it is on.
    #[must_use]
    pub fn ty(&self) -> AtomicType {
        match self {
            Self::Fetch(call) => call.ty,
            Self::Swap(call) => call.ty,
        }
    }
}

/// One message between the libraries of two ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The number of messages of each class that were handed out.
    Credits([u16; 2]),
    /// Have you left?
    Ask,
    /// The sender has not left, and has entered this number of barriers.
    Here {
        /// Entered barriers.
        barriers: u64,
    },
    /// The sender has left, after this number of barriers and of messages of each class to the
    /// asker.
    Left {
        /// Messages of each class to the asker.
        sent: [u64; 2],
        /// Entered barriers.
        barriers: u64,
    },
    /// The sender's last unsolicited note, with the number of messages of each class. It is
    /// answered as the question is, so that its sender knows that it was read.
    Bye {
        /// Messages of each class to the receiver.
        sent: [u64; 2],
    },
    /// The sender has reached this round of the barrier that ends the job.
    Leaving {
        /// From 0.
        round: u32,
    },
    /// A rank has failed.
    Failed {
        /// The failed rank.
        rank: u32,
        /// The cause, to be read after "rank 3".
        cause: String,
    },
    /// Execute this on the word at `offset`; `id` comes back.
    Execute {
        /// The number of the operation at the sender.
        id: u64,
        /// Bytes from the start of the receiver's segment.
        offset: u64,
        /// The operation.
        order: Order,
    },
    /// The former bits of the word.
    Former {
        /// The number of the operation at the receiver of this note.
        id: u64,
        /// The bits.
        bits: u64,
    },
}

impl Note {
    /// Writes the note, and returns its length.
    ///
    /// # Panics
    ///
    /// If there are fewer than [`NOTE_BYTES`] bytes and it does not fit.
    pub fn encode(&self, bytes: &mut [u8]) -> usize {
        let mut text = "";
        let words = match self {
            Self::Credits([requests, replies]) => {
                [0, u64::from(*requests), u64::from(*replies), 0, 0, 0]
            }
            Self::Ask => [1, 0, 0, 0, 0, 0],
            Self::Here { barriers } => [2, *barriers, 0, 0, 0, 0],
            Self::Left { sent, barriers } => [3, sent[0], sent[1], *barriers, 0, 0],
            Self::Bye { sent } => [4, sent[0], sent[1], 0, 0, 0],
            Self::Failed { rank, cause } => {
                text = cause;
                [5, u64::from(*rank), 0, 0, 0, 0]
            }
            Self::Execute { id, offset, order } => {
                let (ty, op, first, second) = match order {
                    Order::Fetch(call) => (call.ty, place(&OPS, call.op), call.operand, 0),
                    Order::Swap(call) => (call.ty, SWAP, call.expected, call.desired),
                };
                [6, *id, *offset, op << 8 | place(&TYPES, ty), first, second]
            }
            Self::Former { id, bits } => [7, *id, *bits, 0, 0, 0],
            Self::Leaving { round } => [8, u64::from(*round), 0, 0, 0, 0],
        };
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_ne_bytes());
        }
        let mut end = text.len().min(TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = &text.as_bytes()[..end];
        bytes[N_WORDS * 8..][..text.len()].copy_from_slice(text);
        N_WORDS * 8 + text.len()
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let garbled = || Error::backend("receive", 0, "a garbled note of another rank");
        let (head, text) = bytes.split_at_checked(N_WORDS * 8).ok_or_else(garbled)?;
        let mut words = [0; N_WORDS];
        for (word, chunk) in words.iter_mut().zip(head.chunks_exact(8)) {
            *word = u64::from_ne_bytes(chunk.try_into().map_err(|_| garbled())?);
        }
        let [kind, a, b, c, d, e] = words;
        let small = |word: u64| u16::try_from(word).map_err(|_| garbled());
        Ok(match kind {
            0 => Self::Credits([small(a)?, small(b)?]),
            1 => Self::Ask,
            2 => Self::Here { barriers: a },
            3 => Self::Left {
                sent: [a, b],
                barriers: c,
            },
            4 => Self::Bye { sent: [a, b] },
            5 => Self::Failed {
                rank: u32::try_from(a).map_err(|_| garbled())?,
                cause: String::from_utf8_lossy(text).into_owned(),
            },
            6 => Self::Execute {
                id: a,
                offset: b,
                order: order(c, d, e).ok_or_else(garbled)?,
            },
            7 => Self::Former { id: a, bits: b },
            8 => Self::Leaving {
                round: u32::try_from(a).map_err(|_| garbled())?,
            },
            _ => return Err(garbled()),
        })
    }
}

/// The number of a compare-and-swap among the operations.
const SWAP: u64 = OPS.len() as u64;

fn place<T: Copy + PartialEq>(list: &[T], item: T) -> u64 {
    let at = list.iter().position(|other| *other == item);
    at.expect("the lists are complete") as u64
}

fn order(kind: u64, first: u64, second: u64) -> Option<Order> {
    let ty = *TYPES.get(usize::try_from(kind & 0xff).ok()?)?;
    let op = kind >> 8;
    if op == SWAP {
        return Some(Order::Swap(SwapCall {
            ty,
            expected: first,
            desired: second,
        }));
    }
    let op = *OPS.get(usize::try_from(op).ok()?)?;
    Some(Order::Fetch(AtomicCall {
        op,
        ty,
        operand: first,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_arrive_as_they_were_written() {
        let mut notes = vec![
            Note::Credits([3, 65_535]),
            Note::Ask,
            Note::Here { barriers: 7 },
            Note::Left {
                sent: [1, u64::MAX],
                barriers: 9,
            },
            Note::Bye { sent: [0, 5] },
            Note::Failed {
                rank: 12,
                cause: "has left".to_owned(),
            },
            Note::Former {
                id: u64::MAX,
                bits: 1,
            },
            Note::Leaving { round: 3 },
        ];
        for ty in TYPES {
            let offset = 1 << 39;
            notes.extend(OPS.map(|op| {
                let order = Order::Fetch(AtomicCall {
                    op,
                    ty,
                    operand: 77,
                });
                Note::Execute {
                    id: 1,
                    offset,
                    order,
                }
            }));
            let order = Order::Swap(SwapCall {
                ty,
                expected: 5,
                desired: u64::MAX,
            });
            notes.push(Note::Execute {
                id: 2,
                offset,
                order,
            });
        }
        let mut bytes = [0; NOTE_BYTES];
        for note in notes {
            let len = note.encode(&mut bytes);
            assert_eq!(Note::decode(&bytes[..len]).unwrap(), note);
        }
    }

    #[test]
    fn what_is_not_a_note_is_refused() {
        for bytes in [&[][..], &[0; 47], &[9; 48], &[6, 0, 0, 0, 0, 0, 0, 0]] {
            assert!(Note::decode(bytes).is_err(), "{bytes:?}");
        }
        let mut bytes = [0; NOTE_BYTES];
        let order = Order::Swap(SwapCall {
            ty: AtomicType::U64,
            expected: 0,
            desired: 0,
        });
        let note = Note::Execute {
            id: 0,
            offset: 0,
            order,
        };
        let len = note.encode(&mut bytes);
        bytes[25] = 9;
        assert!(Note::decode(&bytes[..len]).is_err());
    }

    #[test]
    fn a_long_cause_is_cut() {
        let mut bytes = [0; NOTE_BYTES];
        let note = Note::Failed {
            rank: 0,
            cause: "x".repeat(1000),
        };
        assert_eq!(note.encode(&mut bytes), NOTE_BYTES);
        let cause = "x".to_owned() + &"\u{2192}".repeat(1000);
        let note = Note::Failed { rank: 0, cause };
        let len = note.encode(&mut bytes);
        let Ok(Note::Failed { cause: read, .. }) = Note::decode(&bytes[..len]) else {
            panic!("another note");
        };
        assert!(read.ends_with('\u{2192}'), "not within a character: {read}");
    }
}
