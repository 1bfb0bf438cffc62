//! Messages of collectives that have arrived before they were asked for.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Mutex;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::error::{Error, Result};
use crate::locks::lock;
use crate::rank::Rank;

/// The header of every message of a collective. It has 40 bytes, so that with one word it fills a
/// slot of 48 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct Header {
    pub(crate) team: u64,
    /// Which collective of the team.
    pub(crate) number: u64,
    /// Bytes of the payload in all its pieces.
    pub(crate) total: u64,
    /// The offset of this piece in the payload.
    pub(crate) offset: u64,
    /// The part of the collective.
    pub(crate) phase: u16,
    /// Which of its algorithms has sent it. It is no part of the key, so that a member with another
    /// one finds the message instead of waiting.
    pub(crate) algorithm: u16,
    /// The number of the message between two members in this part.
    pub(crate) round: u32,
}

/// The key of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) team: u64,
    pub(crate) number: u64,
    pub(crate) phase: u16,
    pub(crate) round: u32,
    pub(crate) from: Rank,
}

/// A payload, and the algorithm that has sent it.
#[derive(Debug)]
pub(crate) struct Payload {
    content: Content,
    pub(crate) algorithm: u16,
}

/// The bytes of a payload; few need no allocation.
#[derive(Debug)]
enum Content {
    /// Up to 16 bytes.
    Short([u8; 16], u8),
    /// Any number of bytes.
    Long(Vec<u8>),
}

impl Payload {
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::Short(bytes, len) => &bytes[..usize::from(*len)],
            Content::Long(bytes) => bytes,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.content {
            Content::Short(bytes, len) => &mut bytes[..usize::from(*len)],
            Content::Long(bytes) => bytes,
        }
    }
}

impl Content {
    /// `total` zero bytes.
    fn zeroed(total: u64, from: Rank) -> Result<Self> {
        if let Ok(len) = u8::try_from(total)
            && len <= 16
        {
            return Ok(Self::Short([0; 16], len));
        }
        let mut bytes = Vec::new();
        let len = usize::try_from(total).unwrap_or(usize::MAX);
        if bytes.try_reserve_exact(len).is_err() {
            let text = format!("no memory for {total} bytes from rank {from}");
            return Err(Error::backend("collective", 0, text));
        }
        bytes.resize(len, 0);
        Ok(Self::Long(bytes))
    }
}

/// A payload, some of whose pieces may be under way.
#[derive(Debug)]
struct Arriving {
    payload: Payload,
    missing: usize,
}

/// The payloads that have arrived, whole or in part.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    arriving: Mutex<HashMap<Key, Arriving, BuildHasherDefault<Mix>>>,
}

impl Inbox {
    /// Stores a message of `from`, or reports that it is not one of ours.
    pub(crate) fn deliver(&self, from: Rank, message: &[u8]) -> Result<()> {
        let malformed = |what: &str| {
            let text = format!("a message of rank {from} {what}");
            Err(Error::backend("collective", 0, text))
        };
        let Ok((header, piece)) = Header::read_from_prefix(message) else {
            return malformed("is too short for its header");
        };
        let end = header.offset.checked_add(piece.len() as u64);
        if end.is_none_or(|end| end > header.total) {
            return malformed("goes past the payload that it is a part of");
        }
        if piece.is_empty() && header.total != 0 {
            return malformed("has no bytes of its payload");
        }
        let key = Key {
            team: header.team,
            number: header.number,
            phase: header.phase,
            round: header.round,
            from,
        };
        let mut arriving = lock(&self.arriving);
        let slot = match arriving.entry(key) {
            Entry::Occupied(slot) => slot.into_mut(),
            Entry::Vacant(slot) => {
                let payload = Payload {
                    content: Content::zeroed(header.total, from)?,
                    algorithm: header.algorithm,
                };
                let missing = payload.bytes().len();
                slot.insert(Arriving { payload, missing })
            }
        };
        if slot.payload.bytes().len() as u64 != header.total {
            return malformed("disagrees with an earlier one about their payload's length");
        }
        let Some(missing) = slot.missing.checked_sub(piece.len()) else {
            return malformed("came twice");
        };
        slot.missing = missing;
        let offset = usize::try_from(header.offset).expect("offset <= total, which is in memory");
        slot.payload.bytes_mut()[offset..offset + piece.len()].copy_from_slice(piece);
        Ok(())
    }

    /// Takes the payload, if all of it is here.
    pub(crate) fn take(&self, key: &Key) -> Option<Payload> {
        let mut arriving = lock(&self.arriving);
        if arriving.get(key)?.missing > 0 {
            return None;
        }
        arriving.remove(key).map(|arrived| arrived.payload)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        lock(&self.arriving).len()
    }
}

/// A hash of a few words. Keys come from the ranks of one job, so nobody aims at collisions.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        // The multiplier of Fibonacci hashing: 2^64 over the golden ratio.
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header {
        team: 1,
        number: 2,
        total: 20,
        offset: 0,
        phase: 3,
        algorithm: 0,
        round: 4,
    };
    const FROM: Rank = Rank::new(5);
    const KEY: Key = Key {
        team: 1,
        number: 2,
        phase: 3,
        round: 4,
        from: FROM,
    };

    fn deliver(inbox: &Inbox, header: Header, piece: &[u8]) -> Result<()> {
        inbox.deliver(FROM, &[header.as_bytes(), piece].concat())
    }

    #[test]
    fn a_payload_is_whole_when_its_pieces_have_come_in_any_order() {
        let inbox = Inbox::default();
        let last = Header {
            offset: 12,
            ..HEADER
        };
        deliver(&inbox, last, &[2; 8]).unwrap();
        assert!(inbox.take(&KEY).is_none());
        deliver(&inbox, HEADER, &[1; 12]).unwrap();
        let payload = inbox.take(&KEY).unwrap();
        assert_eq!(payload.bytes(), [[1; 12].as_slice(), &[2; 8]].concat());
        assert_eq!(inbox.len(), 0);
    }

    #[test]
    fn payloads_without_bytes_and_with_few_arrive_too() {
        let inbox = Inbox::default();
        for len in [0, 1, 15, 16, 17] {
            let total = len as u64;
            deliver(&inbox, Header { total, ..HEADER }, &vec![7; len]).unwrap();
            assert_eq!(inbox.take(&KEY).unwrap().bytes(), vec![7; len]);
        }
    }

    #[test]
    fn a_message_that_is_not_ours_is_an_error() {
        let inbox = Inbox::default();
        assert!(inbox.deliver(FROM, &[0; 39]).is_err());
        let past = Header {
            offset: 15,
            ..HEADER
        };
        assert!(deliver(&inbox, past, &[0; 6]).is_err());
        let overflowing = Header {
            offset: u64::MAX,
            ..HEADER
        };
        assert!(deliver(&inbox, overflowing, &[0; 6]).is_err());
        assert!(deliver(&inbox, HEADER, &[]).is_err());
        let huge = Header {
            total: u64::MAX,
            ..HEADER
        };
        assert!(deliver(&inbox, huge, &[0; 6]).is_err());
        assert_eq!(inbox.len(), 0);
    }

    #[test]
    fn pieces_that_disagree_or_repeat_are_errors() {
        let inbox = Inbox::default();
        deliver(&inbox, HEADER, &[0; 12]).unwrap();
        let longer = Header {
            total: 21,
            ..HEADER
        };
        assert!(deliver(&inbox, longer, &[0; 6]).is_err());
        let error = deliver(&inbox, HEADER, &[0; 12]).unwrap_err();
        assert!(error.to_string().contains("came twice"), "{error}");
    }
}
