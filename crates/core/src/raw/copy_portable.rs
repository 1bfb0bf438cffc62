//! Racing copies as loops of relaxed atomics, word by word where the shared side is aligned.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

#[cfg(any(not(target_arch = "x86_64"), miri))]
use pgas_lockfree::word;

/// See [`super::to_shared`].
pub(super) unsafe fn to_shared(dst: *mut u8, src: *const u8, len: usize) {
    let mut i = 0;
    while i < len {
        // SAFETY: `i < len`, and the caller promises `len` bytes at `dst`.
        let to = unsafe { dst.add(i) };
        // SAFETY: and `len` bytes at `src`.
        let from = unsafe { src.add(i) };
        if len - i >= 8 && to.addr().is_multiple_of(8) {
            // SAFETY: eight bytes are left, and `to` is aligned.
            let word = unsafe { AtomicU64::from_ptr(to.cast()) };
            // SAFETY: eight private bytes are left; the read needs no alignment.
            word.store(
                unsafe { from.cast::<u64>().read_unaligned() },
                Ordering::Relaxed,
            );
            i += 8;
        } else {
            // SAFETY: one byte is left.
            let word = unsafe { AtomicU8::from_ptr(to) };
            // SAFETY: one private byte is left.
            word.store(unsafe { from.read() }, Ordering::Relaxed);
            i += 1;
        }
    }
}

/// See [`super::from_shared`].
pub(super) unsafe fn from_shared(dst: *mut u8, src: *const u8, len: usize) {
    let mut i = 0;
    while i < len {
        // SAFETY: `i < len`, and the caller promises `len` bytes at `dst`.
        let to = unsafe { dst.add(i) };
        // SAFETY: and `len` bytes at `src`.
        let from = unsafe { src.add(i) }.cast_mut();
        if len - i >= 8 && from.addr().is_multiple_of(8) {
            // SAFETY: eight bytes are left, and `from` is aligned.
            let word = unsafe { AtomicU64::from_ptr(from.cast()) };
            // SAFETY: eight private bytes are left; the write needs no alignment.
            unsafe {
                to.cast::<u64>()
                    .write_unaligned(word.load(Ordering::Relaxed));
            }
            i += 8;
        } else {
            // SAFETY: one byte is left.
            let word = unsafe { AtomicU8::from_ptr(from) };
            // SAFETY: one private byte is left.
            unsafe { to.write(word.load(Ordering::Relaxed)) };
            i += 1;
        }
    }
}

/// Loads eight bytes, at once if they are aligned.
///
/// # Safety
///
/// They are readable.
pub(super) unsafe fn load_word(src: *const u8) -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: the caller promises as many bytes as the array has.
    unsafe { from_shared(bytes.as_mut_ptr(), src, bytes.len()) };
    u64::from_ne_bytes(bytes)
}

#[cfg(any(not(target_arch = "x86_64"), miri))]
pub(super) type Sixteen = [u64; 2];

/// Loads sixteen bytes, each word of eight at once and in the order of all atomics.
///
/// # Safety
///
/// They are readable and aligned.
#[cfg(any(not(target_arch = "x86_64"), miri))]
pub(super) unsafe fn load_sixteen(src: *const u8) -> Sixteen {
    // SAFETY: the first half of what the caller promises, aligned; it is only accessed atomically.
    let first = unsafe { AtomicU64::from_ptr(src.cast_mut().cast()) };
    // SAFETY: the other half lies within the same sixteen bytes.
    let behind = unsafe { src.add(8) };
    // SAFETY: readable as the first half is, and aligned to eight, since that is aligned to
    // sixteen.
    let second = unsafe { AtomicU64::from_ptr(behind.cast_mut().cast()) };
    [word::load(first), word::load(second)]
}

/// Stores eight bytes, at once if they are aligned.
///
/// # Safety
///
/// They are writable.
pub(super) unsafe fn store_word(dst: *mut u8, word: u64) {
    let bytes = word.to_ne_bytes();
    // SAFETY: the caller promises as many bytes as the array has.
    unsafe { to_shared(dst, bytes.as_ptr(), bytes.len()) }
}
