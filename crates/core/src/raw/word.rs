//! Single words of shared memory: CPU atomics behind the calls of the [`backend`](crate::backend).
#![expect(unsafe_code, reason = "atomics on raw shared memory")]

use std::sync::atomic::{AtomicU32, AtomicU64};

use pgas_lockfree::word;

use crate::backend::{AtomicCall, AtomicOp, AtomicType, SwapCall};

/// Performs `call` at `at` with a CPU atomic and returns the former bits.
///
/// It is [sequentially consistent](pgas_lockfree::word). So a rank that sees its effect also sees
/// what the rank that performed it had flushed before.
///
/// # Safety
///
/// `at` is valid for reads and writes, aligned for the call's type, and accessed by others only
/// atomically while this runs. For a type of fewer than four bytes all this also holds for the
/// aligned four bytes around it.
#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "op and type are constants at the call, which removes the matches"
)]
pub unsafe fn fetch(at: *mut u8, call: AtomicCall) -> u64 {
    match call.ty.bytes() {
        4 => {
            // SAFETY: the caller promises validity, alignment and atomic access only.
            let word = unsafe { AtomicU32::from_ptr(at.cast()) };
            u64::from(fetch_u32(word, call))
        }
        bytes @ (1 | 2) => {
            // SAFETY: the caller promises as much of the four bytes around.
            let (word, part) = unsafe { Part::around(at, bytes) };
            u64::from(part.fetch(word, call))
        }
        _ => {
            // SAFETY: all other types have eight bytes, and the caller promises the same of these.
            let word = unsafe { AtomicU64::from_ptr(at.cast()) };
            fetch_u64(word, call)
        }
    }
}

/// Performs the compare-and-swap `call` at `at` and returns the former bits, as `Ok` if they were
/// replaced.
///
/// # Errors
///
/// The bits that stand there, if they are not the expected ones.
///
/// # Safety
///
/// As [`fetch`].
#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "the type is a constant at the call, which removes the match"
)]
pub unsafe fn compare_swap(at: *mut u8, call: SwapCall) -> Result<u64, u64> {
    if call.ty.bytes() == 4 {
        // SAFETY: the caller promises validity, alignment and atomic access only.
        let word = unsafe { AtomicU32::from_ptr(at.cast()) };
        let (old, new) = (low(call.expected), low(call.desired));
        let result = word::compare_exchange(word, old, new);
        return result.map(u64::from).map_err(u64::from);
    }
    if let bytes @ (1 | 2) = call.ty.bytes() {
        // SAFETY: the caller promises as much of the four bytes around.
        let (word, part) = unsafe { Part::around(at, bytes) };
        let result = part.compare_swap(word, low(call.expected), low(call.desired));
        return result.map(u64::from).map_err(u64::from);
    }
    // SAFETY: all other types have eight bytes, and the caller promises the same of these.
    let word = unsafe { AtomicU64::from_ptr(at.cast()) };
    word::compare_exchange(word, call.expected, call.desired)
}

#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "op and type are constants at the call"
)]
fn fetch_u64(word: &AtomicU64, call: AtomicCall) -> u64 {
    let v = call.operand;
    match (call.op, call.ty) {
        (AtomicOp::Load, _) => word::load(word),
        (AtomicOp::Swap, _) => word::swap(word, v),
        (AtomicOp::Add, AtomicType::F64) => {
            word::update(word, |x| (f64::from_bits(x) + f64::from_bits(v)).to_bits())
        }
        (AtomicOp::Add, _) => word::add(word, v),
        (AtomicOp::And, _) => word::and(word, v),
        (AtomicOp::Or, _) => word::or(word, v),
        (AtomicOp::Xor, _) => word::xor(word, v),
        (AtomicOp::Min, AtomicType::F64) => word::update(word, |x| {
            lesser(f64::from_bits(x), f64::from_bits(v)).to_bits()
        }),
        (AtomicOp::Max, AtomicType::F64) => word::update(word, |x| {
            greater(f64::from_bits(x), f64::from_bits(v)).to_bits()
        }),
        (AtomicOp::Min, AtomicType::I64) => word::update(word, |x| {
            x.cast_signed().min(v.cast_signed()).cast_unsigned()
        }),
        (AtomicOp::Max, AtomicType::I64) => word::update(word, |x| {
            x.cast_signed().max(v.cast_signed()).cast_unsigned()
        }),
        (AtomicOp::Min, _) => word::min(word, v),
        (AtomicOp::Max, _) => word::max(word, v),
    }
}

/// The smaller of two floats; a number is smaller than NaN. On some processors the standard
/// library's `min` returns NaN if one of them is a signaling NaN.
#[inline]
pub(crate) fn lesser<F: PartialOrd>(x: F, v: F) -> F {
    if v < x || is_nan(&x) { v } else { x }
}

/// The larger of two floats; a number is larger than NaN.
#[inline]
pub(crate) fn greater<F: PartialOrd>(x: F, v: F) -> F {
    if v > x || is_nan(&x) { v } else { x }
}

#[inline]
fn is_nan<F: PartialOrd>(x: &F) -> bool {
    x.partial_cmp(x).is_none()
}

#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "op and type are constants at the call"
)]
fn fetch_u32(word: &AtomicU32, call: AtomicCall) -> u32 {
    let v = low(call.operand);
    match (call.op, call.ty) {
        (AtomicOp::Load, _) => word::load(word),
        (AtomicOp::Swap, _) => word::swap(word, v),
        (AtomicOp::Add, AtomicType::F32) => {
            word::update(word, |x| (f32::from_bits(x) + f32::from_bits(v)).to_bits())
        }
        (AtomicOp::Add, _) => word::add(word, v),
        (AtomicOp::And, _) => word::and(word, v),
        (AtomicOp::Or, _) => word::or(word, v),
        (AtomicOp::Xor, _) => word::xor(word, v),
        (AtomicOp::Min, AtomicType::F32) => word::update(word, |x| {
            lesser(f32::from_bits(x), f32::from_bits(v)).to_bits()
        }),
        (AtomicOp::Max, AtomicType::F32) => word::update(word, |x| {
            greater(f32::from_bits(x), f32::from_bits(v)).to_bits()
        }),
        (AtomicOp::Min, AtomicType::I32) => word::update(word, |x| {
            x.cast_signed().min(v.cast_signed()).cast_unsigned()
        }),
        (AtomicOp::Max, AtomicType::I32) => word::update(word, |x| {
            x.cast_signed().max(v.cast_signed()).cast_unsigned()
        }),
        (AtomicOp::Min, _) => word::min(word, v),
        (AtomicOp::Max, _) => word::max(word, v),
    }
}

/// One or two bytes of a word of four. They change by compare-and-swap of the whole word, so that
/// all atomics on any bytes of it exclude each other.
#[derive(Clone, Copy)]
struct Part {
    /// The place of its lowest bit.
    shift: u32,
    /// Its bits, at the bottom.
    mask: u32,
}

impl Part {
    /// The `bytes` bytes at `place` in a word, counted in memory.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "constants at the call")]
    const fn at(place: usize, bytes: usize) -> Self {
        let place = if cfg!(target_endian = "big") {
            4 - bytes - place
        } else {
            place
        };
        Self {
            shift: 8 * low(place as u64),
            mask: if bytes == 1 { 0xff } else { 0xffff },
        }
    }

    /// The word around `at`.
    ///
    /// # Safety
    ///
    /// As [`fetch`], for a type of `bytes` bytes.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the size is a constant at the call")]
    unsafe fn around<'a>(at: *mut u8, bytes: usize) -> (&'a AtomicU32, Self) {
        let place = at.addr() % 4;
        let start = at.wrapping_sub(place).cast();
        // SAFETY: the caller promises validity and atomic access only, of the four bytes around
        // `at`, which begin here and are aligned.
        (
            unsafe { AtomicU32::from_ptr(start) },
            Self::at(place, bytes),
        )
    }

    /// Its bits in those of the word.
    fn of(self, word: u32) -> u32 {
        word >> self.shift & self.mask
    }

    fn fetch(self, word: &AtomicU32, call: AtomicCall) -> u32 {
        let v = low(call.operand) & self.mask;
        let there = v << self.shift;
        let around = !(self.mask << self.shift);
        self.of(match call.op {
            AtomicOp::Load => word::load(word),
            AtomicOp::And => word::and(word, there | around),
            AtomicOp::Or => word::or(word, there),
            AtomicOp::Xor => word::xor(word, there),
            AtomicOp::Swap | AtomicOp::Add | AtomicOp::Min | AtomicOp::Max => {
                word::update(word, |whole| {
                    let new = combined(self.of(whole), v, call) & self.mask;
                    whole & around | new << self.shift
                })
            }
        })
    }

    fn compare_swap(self, word: &AtomicU32, expected: u32, desired: u32) -> Result<u32, u32> {
        let (expected, desired) = (expected & self.mask, desired & self.mask);
        let around = !(self.mask << self.shift);
        let mut whole = word::load(word);
        while self.of(whole) == expected {
            let new = whole & around | desired << self.shift;
            match word::compare_exchange(word, whole, new) {
                Ok(_) => return Ok(expected),
                // Perhaps the bytes beside it have changed.
                Err(seen) => whole = seen,
            }
        }
        Err(self.of(whole))
    }
}

/// The result of `call`, which is not bitwise, on the bits `old` and `v` of a short type. The
/// caller cuts off the bits above.
#[expect(clippy::cast_possible_truncation, reason = "takes the low bytes")]
fn combined(old: u32, v: u32, call: AtomicCall) -> u32 {
    let extended = |bits: u32| match call.ty {
        AtomicType::I8 => i32::from((bits as u8).cast_signed()),
        AtomicType::I16 => i32::from((bits as u16).cast_signed()),
        _ => bits.cast_signed(),
    };
    match call.op {
        AtomicOp::Add => old.wrapping_add(v),
        AtomicOp::Min if extended(old) < extended(v) => old,
        AtomicOp::Max if extended(old) > extended(v) => old,
        _ => v,
    }
}

/// Applies the operation of [`fetch`] to a private word: returns the new bits for `old`.
///
/// For a backend without CPU atomics, such as a reference implementation or a simulator.
#[must_use]
pub fn apply(old: u64, call: AtomicCall) -> u64 {
    if call.op == AtomicOp::Load {
        return old;
    }
    let bytes = call.ty.bytes();
    if bytes <= 4 {
        let word = AtomicU32::new(low(old));
        if bytes == 4 {
            fetch_u32(&word, call);
        } else {
            let (shift, mask) = (0, Part::at(0, bytes).mask);
            Part { shift, mask }.fetch(&word, call);
        }
        return u64::from(word.into_inner());
    }
    let word = AtomicU64::new(old);
    fetch_u64(&word, call);
    word.into_inner()
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "no code at all")]
#[expect(
    clippy::cast_possible_truncation,
    reason = "shorter types use the low half"
)]
const fn low(bits: u64) -> u32 {
    bits as u32
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn a_number_comes_before_nan_of_any_kind() {
        // Quiet ones and signaling ones.
        for nan in [0x7ff8_0000_0000_0000, 0x7ff0_0000_0000_0001, u64::MAX] {
            let nan = f64::from_bits(nan);
            for number in [-2.25, 0.0, f64::INFINITY, f64::NEG_INFINITY] {
                for choose in [lesser, greater] {
                    assert_eq!(choose(nan, number), number);
                    assert_eq!(choose(number, nan), number);
                }
            }
            assert!(lesser(nan, nan).is_nan());
        }
        assert_eq!((lesser(1.0, 2.0), lesser(2.0, 1.0)), (1.0, 1.0));
        assert_eq!((greater(1.0, 2.0), greater(2.0, 1.0)), (2.0, 2.0));
    }

    #[test]
    fn short_types_change_their_bytes_of_a_word_and_no_others() {
        let mut memory = [0x8899_aabb_u32; 2];
        let base = memory.as_mut_ptr().cast::<u8>();
        let changed = |ty: AtomicType, op, at: usize, operand| {
            let mut bytes = [0x8899_aabb_u32, 0x8899_aabb];
            let base = bytes.as_mut_ptr().cast::<u8>();
            // SAFETY: the bytes lie in the array, aligned, and nobody else accesses it.
            let former = unsafe { fetch(base.wrapping_add(at), AtomicCall { op, ty, operand }) };
            let bytes = bytes.map(u32::to_ne_bytes).concat();
            (former, bytes)
        };
        let original = [0x8899_aabb_u32; 2].map(u32::to_ne_bytes).concat();
        for at in 0..8 {
            let (former, bytes) = changed(AtomicType::U8, AtomicOp::Add, at, 0xff);
            assert_eq!(former, u64::from(original[at]));
            assert_eq!(bytes[at], original[at].wrapping_sub(1));
            assert!((0..8).all(|i| i == at || bytes[i] == original[i]), "{at}");
            if at % 2 == 0 {
                let (former, bytes) = changed(AtomicType::I16, AtomicOp::Max, at, 5);
                assert_eq!(former.to_ne_bytes()[..2], original[at..at + 2]);
                assert_eq!(bytes[at..at + 2], 5_u16.to_ne_bytes());
                assert!(
                    (0..8).all(|i| i & !1 == at || bytes[i] == original[i]),
                    "{at}"
                );
            }
        }
        let call = |expected, desired| SwapCall {
            ty: AtomicType::U8,
            expected,
            desired,
        };
        // SAFETY: as above.
        let swap = |at, call| unsafe { compare_swap(base.wrapping_add(at), call) };
        let there = u64::from(original[5]);
        assert_eq!(swap(5, call(there + 1, 1)), Err(there));
        assert_eq!(swap(5, call(there, 1)), Ok(there));
        let mut expected = original;
        expected[5] = 1;
        assert_eq!(memory.map(u32::to_ne_bytes).concat(), expected);
    }

    #[test]
    fn words_of_floats_keep_a_number_before_nan() {
        let signaling = 0x7ff0_0000_0000_0001;
        for op in [AtomicOp::Min, AtomicOp::Max] {
            let word = AtomicU64::new(5.0_f64.to_bits());
            let ty = AtomicType::F64;
            fetch_u64(
                &word,
                AtomicCall {
                    op,
                    ty,
                    operand: signaling,
                },
            );
            assert_eq!(word.load(Ordering::Relaxed), 5.0_f64.to_bits());
            let word = AtomicU32::new(0x7f80_0001);
            let (ty, operand) = (AtomicType::F32, u64::from(5.0_f32.to_bits()));
            fetch_u32(&word, AtomicCall { op, ty, operand });
            assert_eq!(word.load(Ordering::Relaxed), 5.0_f32.to_bits());
        }
    }
}
