//! Machine operations that the mailbox needs and that safe code cannot express.

use crate::payload::Arrived;
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// Prefetch hints, and access to bytes in place. An implementation that omits a hint costs speed
/// alone.
pub trait Machine {
    /// Prefetches the cache line of `word`.
    #[inline]
    fn prefetch(word: &AtomicU64) {
        let _ = word;
    }

    /// Prefetches the cache line of `word` for a write.
    #[inline]
    fn prefetch_for_write(word: &AtomicU64) {
        let _ = word;
    }

    /// Calls `read` with the bytes of a message in its sender's buffer.
    #[inline]
    fn read<R>(arrived: &Arrived<'_>, read: impl FnOnce(&[u8]) -> R) -> R {
        let (words, len) = arrived.words();
        let words: Vec<u64> = words.iter().map(|word| word.load(Relaxed)).collect();
        read(&zerocopy::IntoBytes::as_bytes(&*words)[..len])
    }
}

/// The portable machine: it prefetches nothing, and copies payloads.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

impl Machine for Portable {}
