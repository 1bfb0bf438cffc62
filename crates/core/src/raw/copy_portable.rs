//! Racing copies as loops of relaxed atomics, word by word where the shared side is aligned.

use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

#[cfg(any(not(target_arch = "x86_64"), miri))]
use pgas_lockfree::word;

/// A part of shared memory that is accessed at once.
enum Part<'a> {
    Word(&'a AtomicU64),
    Byte(&'a AtomicU8),
}

/// The `len` shared bytes at `at` in parts, each with its distance from the first.
///
/// # Safety
///
/// They are readable as long as the parts are used, and writable if the caller stores to them.
unsafe fn parts<'a>(at: *mut u8, len: usize) -> impl Iterator<Item = (usize, Part<'a>)> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let (start, place) = (next, at.wrapping_add(next));
        if start == len {
            return None;
        }
        if len - start >= 8 && place.addr().is_multiple_of(8) {
            next += 8;
            // SAFETY: `start` is below `len`, and eight of the bytes that the caller promises are
            // left; the place is aligned. Others access them only by atomics and such copies.
            return Some((
                start,
                Part::Word(unsafe { AtomicU64::from_ptr(place.cast()) }),
            ));
        }
        next += 1;
        // SAFETY: the same of one byte.
        Some((start, Part::Byte(unsafe { AtomicU8::from_ptr(place) })))
    })
}

/// See [`super::to_shared`].
pub(super) unsafe fn to_shared(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller promises so many private bytes that nobody writes.
    let src = unsafe { slice::from_raw_parts(src, len) };
    // SAFETY: the caller promises as many shared ones that can be written.
    for (start, part) in unsafe { parts(dst, len) } {
        match part {
            Part::Word(word) => {
                let bytes = src[start..].first_chunk().expect("a word has eight bytes");
                word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
            }
            Part::Byte(byte) => byte.store(src[start], Ordering::Relaxed),
        }
    }
}

/// See [`super::from_shared`].
pub(super) unsafe fn from_shared(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller promises so many private bytes that nobody else accesses, and that are
    // initialized: core has them of values of `Pod`.
    let dst = unsafe { slice::from_raw_parts_mut(dst, len) };
    // SAFETY: the caller promises as many shared ones that can be read.
    for (start, part) in unsafe { parts(src.cast_mut(), len) } {
        match part {
            Part::Word(word) => {
                let bytes = word.load(Ordering::Relaxed).to_ne_bytes();
                dst[start..start + 8].copy_from_slice(&bytes);
            }
            Part::Byte(byte) => dst[start] = byte.load(Ordering::Relaxed),
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

/// See [`super::sixteen_of`].
#[cfg(any(not(target_arch = "x86_64"), miri))]
pub(super) fn sixteen_of(words: [u64; 2]) -> Sixteen {
    words
}

/// See [`super::matching`].
#[cfg(any(not(target_arch = "x86_64"), miri))]
pub(super) use super::matching_one_by_one as matching;

/// See [`super::highest`].
#[cfg(any(not(target_arch = "x86_64"), miri))]
pub(super) use super::highest_one_by_one as highest;

/// Loads sixteen bytes, each word of eight at once and in the order of all atomics.
///
/// # Safety
///
/// They are readable and aligned.
#[cfg(any(not(target_arch = "x86_64"), miri))]
pub(super) unsafe fn load_sixteen(src: *const u8) -> Sixteen {
    // SAFETY: the first half of what the caller promises, aligned; it is only accessed atomically.
    let first = unsafe { AtomicU64::from_ptr(src.cast_mut().cast()) };
    let behind = src.wrapping_add(8);
    // SAFETY: the other half lies within the same sixteen bytes: readable as the first one is, and
    // aligned to eight, since that is aligned to sixteen.
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
