//! Single words of shared memory: CPU atomics behind the calls of the [`backend`](crate::backend).
#![expect(unsafe_code, reason = "atomics on raw shared memory")]

use std::sync::atomic::{AtomicU32, AtomicU64};

use pgas_lockfree::word;

use crate::backend::{AtomicCall, AtomicOp, AtomicType, SwapCall};

/// Performs `call` at `at` with a CPU atomic and returns the former bits.
///
/// It is [sequentially consistent](pgas_lockfree::word), so that also who sees an atomic's result sees what its author had
/// flushed before.
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
        (AtomicOp::Min, AtomicType::F64) => {
            word::update(word, |x| f64::from_bits(x).min(f64::from_bits(v)).to_bits())
        }
        (AtomicOp::Max, AtomicType::F64) => {
            word::update(word, |x| f64::from_bits(x).max(f64::from_bits(v)).to_bits())
        }
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
        (AtomicOp::Min, AtomicType::F32) => {
            word::update(word, |x| f32::from_bits(x).min(f32::from_bits(v)).to_bits())
        }
        (AtomicOp::Max, AtomicType::F32) => {
            word::update(word, |x| f32::from_bits(x).max(f32::from_bits(v)).to_bits())
        }
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

/// What [`fetch`] does, on a word that nobody shares: the new bits for `old`.
///
/// A backend without CPU atomics at hand (a reference implementation, a simulator) computes with it.
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
