//! Bytes to and from segments: by words where both places allow it, else byte by byte.
#![expect(unsafe_code, reason = "moves the bytes")]

use crate::sys::{Remote, load_u8, load_u64, store_u8, store_u64};

/// Copies bytes to a segment.
///
/// # Safety
/// They are readable, and so many bytes from `to` on lie in the segment.
pub(crate) unsafe fn put(to: Remote, from: *const u8, len: usize) {
    let mut done = 0;
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
    let mut done = 0;
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
