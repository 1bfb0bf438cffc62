//! Bytes to and from segments: words in bulk where both places are aligned, single words where the
//! segment's place is, else byte by byte.
#![expect(unsafe_code, reason = "moves the bytes")]

use crate::sys::{Remote, load_u8, load_u64, load_words, store_u8, store_u64, store_words};

/// Fewer words than these are moved one by one: a bulk transfer waits until all are there.
const BULK: usize = 4;

/// The number of words to move in bulk.
fn in_bulk(here: *const u8, there: Remote, len: usize) -> usize {
    let n_words = len / 8;
    let is_bulk = n_words >= BULK && here.addr().is_multiple_of(8) && there.is_aligned(8);
    if is_bulk { n_words } else { 0 }
}

/// Copies bytes to a segment.
///
/// # Safety
/// They are readable, and so many bytes from `to` on lie in the segment.
pub(crate) unsafe fn put(to: Remote, from: *const u8, len: usize) {
    let n_words = in_bulk(from, to, len);
    if n_words > 0 {
        // SAFETY: the caller promises that these bytes are readable and that they lie in the
        // segment; both places are aligned.
        unsafe { store_words(to, from, n_words as u64) };
    }
    let mut done = n_words * 8;
    if to.is_aligned(8) {
        while done + 8 <= len {
            // SAFETY: the caller promises that these bytes are readable.
            let word = unsafe { from.wrapping_add(done).cast::<u64>().read_unaligned() };
            // SAFETY: the caller promises that they lie in the segment; the place is aligned, as
            // all are that lie words further.
            unsafe { store_u64(to.at(done as u64), word) };
            done += 8;
        }
    }
    while done < len {
        // SAFETY: as above.
        let byte = unsafe { from.wrapping_add(done).read() };
        // SAFETY: as above.
        unsafe { store_u8(to.at(done as u64), byte.into()) };
        done += 1;
    }
}

/// Copies bytes from a segment.
///
/// # Safety
/// They are writable, and so many bytes from `from` on lie in the segment.
pub(crate) unsafe fn get(from: Remote, to: *mut u8, len: usize) {
    let n_words = in_bulk(to, from, len);
    if n_words > 0 {
        // SAFETY: the caller promises that these bytes are writable and that they lie in the
        // segment; both places are aligned.
        unsafe { load_words(from, to, n_words as u64) };
    }
    let mut done = n_words * 8;
    if from.is_aligned(8) {
        while done + 8 <= len {
            // SAFETY: the caller promises that these bytes lie in the segment.
            let word = unsafe { load_u64(from.at(done as u64)) };
            // SAFETY: the caller promises that they are writable.
            unsafe { to.wrapping_add(done).cast::<u64>().write_unaligned(word) };
            done += 8;
        }
    }
    while done < len {
        // SAFETY: as above.
        let byte = unsafe { load_u8(from.at(done as u64)) };
        // SAFETY: as above.
        unsafe { to.wrapping_add(done).write(byte as u8) };
        done += 1;
    }
}
