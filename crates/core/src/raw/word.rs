//! Single words of shared memory: CPU atomics behind the calls of the [`backend`](crate::backend).
#![expect(unsafe_code, reason = "atomics on raw shared memory")]

use std::sync::atomic::{AtomicU32, AtomicU64};

use pgas_lockfree::word;

use crate::backend::{AtomicCall, AtomicOp, AtomicType, SwapCall};

/// Performs `call` at `at` with a CPU atomic and returns the former bits.
///
/// It is [sequentially consistent](pgas_lockfree::word), so that also who sees an atomic's result
/// sees what its author had flushed before.
///
/// # Safety
///
/// `at` is valid for reads and writes, aligned for the call's type, and accessed by others only
/// atomically while this runs.
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
        _ => {
            // SAFETY: a type that has not four bytes has eight, and the caller promises the same of
            // these.
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
    // SAFETY: a type that has not four bytes has eight, and the caller promises the same of these.
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

/// The lesser of two, and a number before NaN. On some processors the standard library's `min`
/// gives NaN if one of them is a signaling NaN.
#[inline]
fn lesser<F: PartialOrd>(x: F, v: F) -> F {
    if v < x || is_nan(&x) { v } else { x }
}

/// The greater of two, likewise.
#[inline]
fn greater<F: PartialOrd>(x: F, v: F) -> F {
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

/// Applies the operation of [`fetch`] to a private word: returns the new bits for `old`.
///
/// A backend without CPU atomics at hand (a reference implementation, a simulator) computes with
/// it.
#[must_use]
pub fn apply(old: u64, call: AtomicCall) -> u64 {
    if call.op == AtomicOp::Load {
        return old;
    }
    if call.ty.bytes() == 4 {
        let word = AtomicU32::new(low(old));
        fetch_u32(&word, call);
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
    reason = "four-byte types use the low half"
)]
fn low(bits: u64) -> u32 {
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
