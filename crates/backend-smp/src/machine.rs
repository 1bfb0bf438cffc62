//! The machine operations of mailboxes: prefetches, and messages in place as bytes.
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
        // SAFETY: `words` gives no more bytes than its words have, in shared memory that is mapped
        // while they are borrowed, and that is initialized, since fresh pages are zero.
        //
        // Nobody writes them while the reference lives, which ends before `arrived` does:
        // - A buffer is written by whoever has taken it, by a compare-and-swap from free to taken.
        //   Its word says taken until `arrived`, when it is dropped, stores free.
        // - The rank that had taken this one has given it up: `Member::try_commit` alone sends
        //   records that name buffers, it asks for one that the caller owns, and consumes it. A
        //   record is published once and seen once (`lockfree/src/mailbox`), so that no other
        //   `Arrived` names the buffer.
        // - Other ranks run this same protocol: they write the job's control part by `lockfree` and
        //   `Member` alone, puts and atomics end within segments, and no safe call reaches the file
        //   behind them (`JobMemory`).
        //
        // What the sender wrote before it published the record comes before this read: it was
        // published with release and seen with acquire.
        read(unsafe { slice::from_raw_parts(words.as_ptr().cast(), len) })
    }
}
