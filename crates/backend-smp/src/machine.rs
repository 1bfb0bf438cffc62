//! What the mailboxes use of the processor, and messages where they lie, as bytes.
#![expect(
    unsafe_code,
    reason = "words of shared memory to which nobody writes meanwhile"
)]

use std::slice;
use std::sync::atomic::AtomicU64;

use pgas_core::raw::copy;
use pgas_lockfree::machine::Machine;
use pgas_lockfree::payload::Arrived;

/// This machine, and this crate's mailboxes.
pub(crate) struct Native;

impl Machine for Native {
    #[inline]
    fn prefetch(word: &AtomicU64) {
        copy::prefetch(word.as_ptr().cast());
    }

    #[inline]
    fn prefetch_for_write(word: &AtomicU64) {
        copy::prefetch_for_write(word.as_ptr().cast());
    }

    #[inline]
    fn read<R>(arrived: &Arrived<'_>, read: impl FnOnce(&[u8]) -> R) -> R {
        let (words, len) = arrived.words();
        // SAFETY: so many bytes of words lie there, which are initialized. While `arrived` lives nobody writes to them: it was made of a record
        // that this crate's `Member` has sent, alone, of a buffer that it has taken, and the sender has given the buffer up with that.
        read(unsafe { slice::from_raw_parts(words.as_ptr().cast(), len) })
    }
}
