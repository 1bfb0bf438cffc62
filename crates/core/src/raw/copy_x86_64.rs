//! Racing copies on x86-64: overlapping moves for short lengths, SSE for middle ones, `rep movsb`
//! for long ones.

use std::arch::asm;
use std::arch::x86_64::{
    __m128i, _mm_castsi128_ps, _mm_cmpeq_epi32, _mm_movemask_ps, _mm_or_si128, _mm_set_epi64x,
    _mm_set1_epi32,
};

pub(super) type Sixteen = __m128i;

/// From here on `rep movsb` is faster than the SSE loop on processors with fast string operations.
const LONG: usize = 2048;

/// See [`super::to_shared`].
#[inline]
pub(super) unsafe fn to_shared(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller promises `len` bytes that can be read at `src`, and as many, elsewhere,
    // that can be written at `dst`.
    unsafe { copy(dst, src, len) }
}

/// See [`super::from_shared`].
#[inline]
pub(super) unsafe fn from_shared(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: as in `to_shared`: it is the other side that is shared, and `copy` takes either side
    // to be.
    unsafe { copy(dst, src, len) }
}

/// Loads eight bytes at once, aligned or not.
///
/// # Safety
///
/// They are readable.
#[inline(always)]
#[expect(clippy::inline_always, reason = "one load")]
pub(super) unsafe fn load_word(src: *const u8) -> u64 {
    let word;
    // SAFETY: the caller promises eight readable bytes; the load needs no alignment.
    unsafe {
        asm!("mov {w}, qword ptr [{s}]", w = out(reg) word, s = in(reg) src,
            options(nostack, preserves_flags, readonly));
    }
    word
}

/// See [`super::sixteen_of`].
#[inline(always)]
pub(super) fn sixteen_of(words: [u64; 2]) -> Sixteen {
    #[target_feature(enable = "sse2")]
    #[inline]
    fn in_register([low, high]: [u64; 2]) -> Sixteen {
        _mm_set_epi64x(high.cast_signed(), low.cast_signed())
    }
    // SAFETY: SSE2 is a part of x86-64.
    unsafe { in_register(words) }
}

/// See [`super::matching`].
#[inline(always)]
pub(super) fn matching(words: Sixteen, ignored: u32, wanted: u32) -> u32 {
    #[target_feature(enable = "sse2")]
    #[inline]
    fn in_register(words: Sixteen, ignored: u32, wanted: u32) -> u32 {
        let words = _mm_or_si128(words, _mm_set1_epi32(ignored.cast_signed()));
        let equal = _mm_cmpeq_epi32(words, _mm_set1_epi32(wanted.cast_signed()));
        _mm_movemask_ps(_mm_castsi128_ps(equal)).cast_unsigned()
    }
    // SAFETY: SSE2 is a part of x86-64.
    unsafe { in_register(words, ignored, wanted) }
}

/// See [`super::highest`].
#[inline(always)]
pub(super) fn highest(words: Sixteen) -> u32 {
    // SAFETY: SSE2 is a part of x86-64.
    let words = unsafe { _mm_castsi128_ps(words) };
    // SAFETY: As above.
    unsafe { _mm_movemask_ps(words) }.cast_unsigned()
}

/// Loads sixteen bytes, each aligned word of eight or fewer at once.
///
/// # Safety
///
/// They are readable and aligned.
#[inline(always)]
#[expect(clippy::inline_always, reason = "one load")]
pub(super) unsafe fn load_sixteen(src: *const u8) -> Sixteen {
    let bytes;
    // SAFETY: the caller promises sixteen readable bytes, aligned.
    unsafe {
        asm!("movdqa {b}, xmmword ptr [{s}]", b = out(xmm_reg) bytes, s = in(reg) src,
            options(nostack, preserves_flags, readonly));
    }
    bytes
}

/// Stores eight bytes at once, aligned or not.
///
/// # Safety
///
/// They are writable.
#[inline(always)]
#[expect(clippy::inline_always, reason = "one store")]
pub(super) unsafe fn store_word(dst: *mut u8, word: u64) {
    // SAFETY: the caller promises eight writable bytes; the store needs no alignment.
    unsafe {
        asm!("mov qword ptr [{d}], {w}", d = in(reg) dst, w = in(reg) word,
            options(nostack, preserves_flags));
    }
}

/// # Safety
///
/// `len` bytes can be read at `src`, and as many, elsewhere, can be written at `dst`. Others may
/// access either side at the same time by atomic accesses.
#[inline]
unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
    match len {
        // SAFETY: `short` asks what `copy` does, for fewer than 16 bytes.
        0..=15 => unsafe { short(dst, src, len) },
        16..=32 => {
            // SAFETY: the two (overlapping) halves at the start and the end lie within `len` bytes.
            unsafe {
                asm!("movups {t}, xmmword ptr [{s}]", "movups {u}, xmmword ptr [{s} + {n} - 16]",
                    "movups xmmword ptr [{d}], {t}", "movups xmmword ptr [{d} + {n} - 16], {u}",
                    t = out(xmm_reg) _, u = out(xmm_reg) _,
                    s = in(reg) src, d = in(reg) dst, n = in(reg) len,
                    options(nostack, preserves_flags));
            }
        }
        33..=64 => {
            // SAFETY: the two (overlapping) pairs of 16 bytes at the start and the end lie within
            // `len` bytes.
            unsafe {
                asm!("movups {t}, xmmword ptr [{s}]", "movups {u}, xmmword ptr [{s} + 16]",
                    "movups {v}, xmmword ptr [{s} + {n} - 32]", "movups {w}, xmmword ptr [{s} + {n} - 16]",
                    "movups xmmword ptr [{d}], {t}", "movups xmmword ptr [{d} + 16], {u}",
                    "movups xmmword ptr [{d} + {n} - 32], {v}", "movups xmmword ptr [{d} + {n} - 16], {w}",
                    t = out(xmm_reg) _, u = out(xmm_reg) _, v = out(xmm_reg) _, w = out(xmm_reg) _,
                    s = in(reg) src, d = in(reg) dst, n = in(reg) len,
                    options(nostack, preserves_flags));
            }
        }
        // SAFETY: `middle` asks what `copy` does, for at least 64 bytes.
        65..LONG => unsafe { middle(dst, src, len) },
        _ => {
            // SAFETY: `rep movsb` reads and writes exactly `len` bytes, upwards, since the
            // direction flag is clear at every call by the platform's convention.
            unsafe {
                asm!("rep movsb", inout("rdi") dst => _, inout("rsi") src => _, inout("rcx") len => _,
                    options(nostack, preserves_flags));
            }
        }
    }
}

/// Up to 15 bytes: two moves that may overlap.
///
/// # Safety
///
/// As [`copy`], for fewer than 16 bytes.
#[inline]
unsafe fn short(dst: *mut u8, src: *const u8, len: usize) {
    match len {
        0 => {}
        1 => {
            // SAFETY: one byte is readable at `src` and writable at `dst`.
            unsafe {
                asm!("mov {t}, byte ptr [{s}]", "mov byte ptr [{d}], {t}",
                    t = out(reg_byte) _, s = in(reg) src, d = in(reg) dst,
                    options(nostack, preserves_flags));
            }
        }
        2..=3 => {
            // SAFETY: the two (overlapping) pairs at the start and the end lie within `len` bytes.
            unsafe {
                asm!("movzx {t:e}, word ptr [{s}]", "movzx {u:e}, word ptr [{s} + {n} - 2]",
                    "mov word ptr [{d}], {t:x}", "mov word ptr [{d} + {n} - 2], {u:x}",
                    t = out(reg) _, u = out(reg) _, s = in(reg) src, d = in(reg) dst, n = in(reg) len,
                    options(nostack, preserves_flags));
            }
        }
        4..=7 => {
            // SAFETY: the two (overlapping) words at the start and the end lie within `len` bytes.
            unsafe {
                asm!("mov {t:e}, dword ptr [{s}]", "mov {u:e}, dword ptr [{s} + {n} - 4]",
                    "mov dword ptr [{d}], {t:e}", "mov dword ptr [{d} + {n} - 4], {u:e}",
                    t = out(reg) _, u = out(reg) _, s = in(reg) src, d = in(reg) dst, n = in(reg) len,
                    options(nostack, preserves_flags));
            }
        }
        _ => {
            // SAFETY: 8 to 15 bytes: the two (overlapping) words of eight at the start and the end
            // lie within `len` bytes.
            unsafe {
                asm!("mov {t}, qword ptr [{s}]", "mov {u}, qword ptr [{s} + {n} - 8]",
                    "mov qword ptr [{d}], {t}", "mov qword ptr [{d} + {n} - 8], {u}",
                    t = out(reg) _, u = out(reg) _, s = in(reg) src, d = in(reg) dst, n = in(reg) len,
                    options(nostack, preserves_flags));
            }
        }
    }
}

/// Blocks of 64 and of 16 bytes, then the last 16 bytes, which may overlap the block before; for at
/// least 64 bytes.
///
/// # Safety
///
/// As [`copy`], for at least 64 bytes.
#[inline]
unsafe fn middle(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller promises at least 64 bytes on both sides. The first loop runs while 64
    // bytes are left, the second while 16 are, and the last move covers [len - 16, len).
    unsafe {
        asm!(
            "lea {last}, [{n} - 16]",
            "xor {i:e}, {i:e}",
            "sub {n}, 64",
            "jb 3f",
            "2:",
            "movups {a}, xmmword ptr [{s} + {i}]",
            "movups {b}, xmmword ptr [{s} + {i} + 16]",
            "movups {c}, xmmword ptr [{s} + {i} + 32]",
            "movups {e}, xmmword ptr [{s} + {i} + 48]",
            "movups xmmword ptr [{d} + {i}], {a}",
            "movups xmmword ptr [{d} + {i} + 16], {b}",
            "movups xmmword ptr [{d} + {i} + 32], {c}",
            "movups xmmword ptr [{d} + {i} + 48], {e}",
            "add {i}, 64",
            "cmp {i}, {n}",
            "jbe 2b",
            "3:",
            "cmp {i}, {last}",
            "jae 4f",
            "movups {a}, xmmword ptr [{s} + {i}]",
            "movups xmmword ptr [{d} + {i}], {a}",
            "add {i}, 16",
            "jmp 3b",
            "4:",
            "movups {a}, xmmword ptr [{s} + {last}]",
            "movups xmmword ptr [{d} + {last}], {a}",
            s = in(reg) src, d = in(reg) dst, n = inout(reg) len => _,
            i = out(reg) _, last = out(reg) _,
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, e = out(xmm_reg) _,
            options(nostack));
    }
}
