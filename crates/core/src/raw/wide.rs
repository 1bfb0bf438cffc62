//! Sixteen bytes of shared memory: the processor's widest compare-and-swap.
#![expect(unsafe_code, reason = "atomics on raw shared memory")]

use std::sync::atomic::Ordering;

use portable_atomic::AtomicU128;

/// Whether this processor has a compare-and-swap of 16 bytes.
///
/// Without one `portable-atomic` takes a lock, which lies in this process alone.
#[inline]
pub(crate) fn is_supported() -> bool {
    AtomicU128::is_lock_free()
}

/// Replaces the 16 bytes at `at` by `new` if they equal `current`. Returns the former ones.
///
/// It is sequentially consistent, as are the atomics of [`word`](super::word).
///
/// # Panics
///
/// If the processor has no such instruction.
///
/// # Safety
///
/// `at` is valid for reads and writes of 16 bytes, aligned to as many, and accessed by others only
/// atomically while this runs.
pub(crate) unsafe fn compare_swap(at: *mut u8, current: u128, new: u128) -> u128 {
    assert!(is_supported(), "an instruction that other processes heed");
    // SAFETY: the caller promises validity, alignment and atomic access only.
    let word = unsafe { AtomicU128::from_ptr(at.cast()) };
    let swapped = word.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst);
    swapped.unwrap_or_else(|former| former)
}
