//! What the mailbox asks of a machine and safe code cannot say.

use crate::payload::Arrived;
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// Hints to the memory system, and bytes where they lie. What is not said costs speed alone.
pub trait Machine {
    /// Begins to fetch the cache line of `word`.
    #[inline]
    fn prefetch(word: &AtomicU64) {
        let _ = word;
    }

    /// The same of a line that is going to be written.
    #[inline]
    fn prefetch_for_write(word: &AtomicU64) {
        let _ = word;
    }

    /// Hands the bytes of a message that lies in its sender's buffer to `read`.
    #[inline]
    fn read<R>(arrived: &Arrived<'_>, read: impl FnOnce(&[u8]) -> R) -> R {
        let (words, len) = arrived.words();
        let words: Vec<u64> = words.iter().map(|word| word.load(Relaxed)).collect();
        read(&zerocopy::IntoBytes::as_bytes(&*words)[..len])
    }
}

/// The machine that has nothing of the kind: no line is fetched ahead, and payloads are copied.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

impl Machine for Portable {}
