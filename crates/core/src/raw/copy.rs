//! Copies between private memory and memory that other ranks may change meanwhile.
//!
//! Rust has no `memcpy` that may race, and a loop of relaxed atomics does not vectorise. On x86-64
//! the copy is therefore written in assembly: to the compiler an `asm!` block is a black box whose
//! effect on the shared side is that of relaxed byte-sized atomic loads or stores, in some order,
//! which is all that the language asks. Elsewhere it is that loop, by words.
//! `docs/adr/0004-racing-copies.md` has the reasoning and the figures.
#![expect(unsafe_code, reason = "copies raw shared memory")]

// Miri executes no assembly.
#[cfg(any(not(target_arch = "x86_64"), miri))]
#[path = "copy_portable.rs"]
mod imp;
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[path = "copy_x86_64.rs"]
mod imp;
#[cfg(all(test, target_arch = "x86_64", not(miri)))]
#[path = "copy_portable.rs"]
mod portable;

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use pgas_lockfree::memory;

use crate::Pod;

/// Copies `len` bytes from private `src` to shared `dst`.
///
/// # Safety
///
/// `src` is valid for reads and nobody writes it; `dst` is valid for writes; they do not overlap.
#[inline]
pub unsafe fn to_shared(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: `imp::to_shared` asks what this function does, of the same bytes: `len` private ones
    // that can be read and that nobody writes, and as many, elsewhere, that can be written by
    // atomics.
    unsafe { imp::to_shared(dst, src, len) }
}

/// Copies `len` bytes from shared `src` to private `dst`; later accesses of this thread come after.
///
/// # Safety
///
/// `src` is valid for reads; `dst` is valid for writes and nobody else accesses it; they do not
/// overlap.
#[inline]
pub unsafe fn from_shared(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: `imp::from_shared` asks what this function does, of the same bytes: `len` that can be
    // read by atomics, and as many, elsewhere, that are private and can be written.
    memory::acquire_after(|| unsafe { imp::from_shared(dst, src, len) });
}

/// Stores one value into shared memory: a single store where the type's size and alignment allow
/// it.
///
/// # Safety
///
/// `dst` is valid for writes and aligned for `T`.
#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "size and alignment are constants, which leaves one store"
)]
pub unsafe fn store<T: Pod>(dst: *mut u8, value: T) {
    let bytes = value.as_bytes();
    match (size_of::<T>(), align_of::<T>()) {
        (1, _) => {
            // SAFETY: the caller promises a writable byte.
            let word = unsafe { AtomicU8::from_ptr(dst) };
            word.store(bytes[0], Ordering::Relaxed);
        }
        (2, 2) => {
            // SAFETY: the caller promises two writable bytes, aligned as `T` is.
            let word = unsafe { AtomicU16::from_ptr(dst.cast()) };
            word.store(u16::from_ne_bytes(array(bytes)), Ordering::Relaxed);
        }
        (4, 4) => {
            // SAFETY: the caller promises four writable bytes, aligned as `T` is, to four.
            let word = unsafe { AtomicU32::from_ptr(dst.cast()) };
            word.store(u32::from_ne_bytes(array(bytes)), Ordering::Relaxed);
        }
        (8, 8) => {
            // SAFETY: the caller promises eight writable bytes, aligned as `T` is, to eight.
            let word = unsafe { AtomicU64::from_ptr(dst.cast()) };
            word.store(u64::from_ne_bytes(array(bytes)), Ordering::Relaxed);
        }
        // In registers: a copy from memory would wait for the stores that have just built `value`.
        (16 | 24 | 32, _) => {
            for (i, word) in bytes.chunks_exact(8).enumerate() {
                let (dst, word) = (dst.wrapping_add(8 * i), u64::from_ne_bytes(array(word)));
                // SAFETY: the word lies within the value, as many bytes of which are writable at
                // `dst`, so its eight bytes are, which is all that is asked.
                unsafe { imp::store_word(dst, word) };
            }
        }
        (len, _) => {
            // SAFETY: the value's bytes are readable and private; the caller promises `dst`.
            unsafe { imp::to_shared(dst, bytes.as_ptr(), len) }
        }
    }
}

/// Loads one value from shared memory, as [`read`] does; later accesses of this thread come after.
///
/// # Safety
///
/// `src` is valid for reads and aligned for `T`.
#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "size and alignment are constants, which leaves one load"
)]
pub unsafe fn load<T: Pod>(src: *mut u8) -> T {
    // SAFETY: the caller promises a readable `T`, aligned.
    memory::acquire_after(|| unsafe { read(src) })
}

/// Loads one value from shared memory: a single load where the type's size and alignment allow it.
/// Orders nothing.
///
/// # Safety
///
/// `src` is valid for reads and aligned for `T`.
#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "size and alignment are constants, which leaves one load"
)]
pub unsafe fn read<T: Pod>(src: *mut u8) -> T {
    let mut value = T::new_zeroed();
    // `FromBytes` and `IntoBytes` together make any bytes that are written here a value.
    let out = value.as_mut_bytes();
    match (size_of::<T>(), align_of::<T>()) {
        (1, _) => {
            // SAFETY: the caller promises a readable byte.
            let word = unsafe { AtomicU8::from_ptr(src) };
            out.copy_from_slice(&[word.load(Ordering::Relaxed)]);
        }
        (2, 2) => {
            // SAFETY: the caller promises two readable bytes, aligned as `T` is.
            let word = unsafe { AtomicU16::from_ptr(src.cast()) };
            out.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        (4, 4) => {
            // SAFETY: the caller promises four readable bytes, aligned as `T` is, to four; a load
            // writes nothing.
            let word = unsafe { AtomicU32::from_ptr(src.cast()) };
            out.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        (8, 8) => {
            // SAFETY: the caller promises eight readable bytes, aligned as `T` is, to eight; a load
            // writes nothing.
            let word = unsafe { AtomicU64::from_ptr(src.cast()) };
            out.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        (16 | 24 | 32, _) => {
            for (i, out) in out.chunks_exact_mut(8).enumerate() {
                // SAFETY: the word lies within a value at `src`, so its eight bytes are readable,
                // which is all that is asked.
                let word = unsafe { imp::load_word(src.wrapping_add(8 * i)) };
                out.copy_from_slice(&word.to_ne_bytes());
            }
        }
        (len, _) => {
            // SAFETY: `out` is this function's own memory of `len` bytes; the caller promises
            // `src`.
            unsafe { imp::from_shared(out.as_mut_ptr(), src, len) }
        }
    }
    value
}

/// Sixteen bytes that were read from shared memory: a vector register on processors with such.
pub type Sixteen = imp::Sixteen;

/// Loads sixteen bytes. Each aligned word of four or eight bytes in them is loaded at once, and
/// ordered with all [atomics](pgas_lockfree::word).
///
/// # Safety
///
/// `src` is valid for reads and aligned to sixteen bytes.
#[inline(always)]
#[expect(clippy::inline_always, reason = "one load")]
pub unsafe fn load_sixteen(src: *const u8) -> Sixteen {
    // SAFETY: `imp::load_sixteen` asks for sixteen readable bytes that are aligned to sixteen, as
    // the caller promises.
    memory::acquire_after(|| unsafe { imp::load_sixteen(src) })
}

/// Makes a [`Sixteen`] of two words of eight bytes, the first one lower in memory.
#[inline(always)]
#[expect(clippy::inline_always, reason = "two instructions")]
pub(crate) fn sixteen_of(words: [u64; 2]) -> Sixteen {
    imp::sixteen_of(words)
}

/// Compares four words of four bytes, with the bits of `ignored` set, to `wanted`. Returns a bit
/// for each equal word, the lowest bit for the first word in memory.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a few instructions")]
pub(crate) fn matching(words: Sixteen, ignored: u32, wanted: u32) -> u32 {
    imp::matching(words, ignored, wanted)
}

/// The set of words whose highest bit is set.
#[inline(always)]
#[expect(clippy::inline_always, reason = "an instruction")]
pub(crate) fn highest(words: Sixteen) -> u32 {
    imp::highest(words)
}

/// As [`matching`], on any processor.
#[cfg(any(test, not(target_arch = "x86_64"), miri))]
pub(crate) fn matching_one_by_one(words: [u64; 2], ignored: u32, wanted: u32) -> u32 {
    let words = words.map(|pair| {
        let [a, b, c, d, e, f, g, h] = pair.to_ne_bytes();
        [[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes)
    });
    let mut matches = 0;
    for (i, word) in words.into_iter().flatten().enumerate() {
        matches |= u32::from(word | ignored == wanted) << i;
    }
    matches
}

/// As [`highest`], on any processor.
#[cfg(any(test, not(target_arch = "x86_64"), miri))]
pub(crate) fn highest_one_by_one(words: [u64; 2]) -> u32 {
    matching_one_by_one(words, !(1 << 31), u32::MAX)
}

/// Asks the memory system to fetch the cache line at `at`; any address is allowed.
#[inline]
pub fn prefetch(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint: it accesses nothing and cannot fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = at;
}

/// As [`prefetch`], for a line that is about to be written: other processors lose it.
#[inline]
pub fn prefetch_for_write(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // In assembly, since the intrinsic becomes a prefetch for reading where the target's
        // baseline has no other; processors without the instruction take it for none. SAFETY: a
        // prefetch is a hint: it accesses nothing and cannot fault.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
        }
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = at;
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "no code at all")]
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes
        .try_into()
        .expect("the match above compared the length")
}

#[cfg(test)]
mod tests {
    use super::*;

    type Copy = unsafe fn(*mut u8, *const u8, usize);

    fn check(copy: Copy, len: usize, src_at: usize, dst_at: usize) {
        let src: Vec<u8> = (0..len + 64)
            .map(|i| u8::try_from(i % 251).unwrap() + 1)
            .collect();
        let mut dst = vec![0_u8; len + 128];
        // SAFETY: both ranges lie in the vectors, which are distinct.
        unsafe {
            copy(
                dst.as_mut_ptr().wrapping_add(dst_at),
                src.as_ptr().wrapping_add(src_at),
                len,
            );
        }
        assert!(
            dst[..dst_at].iter().all(|&b| b == 0),
            "wrote before the start, len {len}"
        );
        assert_eq!(
            dst[dst_at..dst_at + len],
            src[src_at..src_at + len],
            "len {len}"
        );
        assert!(
            dst[dst_at + len..].iter().all(|&b| b == 0),
            "wrote past the end, len {len}"
        );
    }

    fn check_all(copy: Copy) {
        let long = [511, 512, 1000, 1023, 1024, 2047, 2048, 2049, 4096, 65_537];
        let lengths = (0..=300).chain(long);
        // Miri takes a thousand times as long.
        for len in lengths.filter(|len| !cfg!(miri) || *len < 10 || *len == 33) {
            for (src_at, dst_at) in [(0, 0), (1, 0), (0, 1), (3, 5), (8, 16), (31, 33)] {
                check(copy, len, src_at, dst_at);
            }
        }
    }

    #[test]
    fn copies_of_every_length_and_alignment_move_those_bytes_and_no_others() {
        check_all(to_shared);
        check_all(from_shared);
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[test]
    fn the_portable_copy_moves_those_bytes_and_no_others() {
        check_all(portable::to_shared);
        check_all(portable::from_shared);
        for at in 0..8 {
            let mut place = [0_u8; 24];
            let word = place.as_mut_ptr().wrapping_add(at + 4);
            // SAFETY: eight bytes of the array.
            unsafe { portable::store_word(word, 0x0807_0605_0403_0201) };
            // SAFETY: the same.
            assert_eq!(unsafe { portable::load_word(word) }, 0x0807_0605_0403_0201);
            assert_eq!(place[at + 4..at + 12].iter().sum::<u8>(), 36);
            assert_eq!(place.iter().sum::<u8>(), 36);
        }
    }

    #[test]
    fn values_of_every_size_round_trip() {
        fn round<T: Pod + PartialEq + std::fmt::Debug>(value: T) {
            let mut place = [T::new_zeroed(); 3];
            let at = (&raw mut place[1]).cast::<u8>();
            // SAFETY: `at` is an element of the array.
            unsafe { store(at, value) };
            // SAFETY: the same element.
            assert_eq!(unsafe { load::<T>(at) }, value);
            assert_eq!(place[0].as_bytes(), T::new_zeroed().as_bytes());
            assert_eq!(place[2].as_bytes(), T::new_zeroed().as_bytes());
        }
        round(7_u8);
        round(0x1234_u16);
        round(-5_i32);
        round(1.5_f64);
        round(u128::MAX - 3);
        round([1_u8, 2, 3]);
        round([1_u16; 5]);
        round([1_u64, 2]);
        round([1_u16; 8]);
        round([3_u64, 4, 5]);
        round([6_u32, 7, 8, 9, 10, 11, 12, 13]);
        round([9_u64; 17]);
        round([0_u8; 0]);
        round(());
    }
}
