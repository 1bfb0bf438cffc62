//! Atomics: an instruction each; those of floats by compare-and-swap.
#![expect(unsafe_code, reason = "changes words of segments")]

use pgas_core::backend::{AtomicCall, AtomicOp, AtomicType, SwapCall};
use pgas_core::raw::word;

use crate::sys::{self, Remote};

/// Performs an atomic and gives the former bits.
///
/// # Safety
/// The word lies in the rank's segment, aligned to its width.
pub(crate) unsafe fn fetch(at: Remote, call: AtomicCall) -> u64 {
    let AtomicCall { op, ty, operand } = call;
    let is_signed = matches!(ty, AtomicType::I32 | AtomicType::I64);
    if matches!(ty, AtomicType::F32 | AtomicType::F64)
        && matches!(op, AtomicOp::Add | AtomicOp::Min | AtomicOp::Max)
    {
        // SAFETY: the caller's promise.
        return unsafe { fetch_float(at, call) };
    }
    if ty.bytes() < 4 {
        // SAFETY: the caller's promise.
        return unsafe { fetch_short(at, call) };
    }
    type Instruction = unsafe fn(Remote, u64) -> u64;
    let (word, double): (Instruction, Instruction) = match op {
        // A load would not do for a word of four bytes beside a store of eight; nothing changes by
        // an or of nothing. A word of eight bytes is loaded at once, and stays in others' caches.
        AtomicOp::Load => (sys::or_w, |at, _| {
            // SAFETY: the caller's promise.
            unsafe { sys::load_u64(at) }
        }),
        AtomicOp::Or => (sys::or_w, sys::or_d),
        AtomicOp::Swap => (sys::swap_w, sys::swap_d),
        AtomicOp::Add => (sys::add_w, sys::add_d),
        AtomicOp::And => (sys::and_w, sys::and_d),
        AtomicOp::Xor => (sys::xor_w, sys::xor_d),
        AtomicOp::Min if is_signed => (sys::min_w, sys::min_d),
        AtomicOp::Min => (sys::minu_w, sys::minu_d),
        AtomicOp::Max if is_signed => (sys::max_w, sys::max_d),
        AtomicOp::Max => (sys::maxu_w, sys::maxu_d),
    };
    let operand = if op == AtomicOp::Load { 0 } else { operand };
    match ty.bytes() {
        // SAFETY: the caller's promise.
        4 => unsafe { word(at, operand) & LOW },
        // SAFETY: the caller's promise.
        _ => unsafe { double(at, operand) },
    }
}

const LOW: u64 = 0xffff_ffff;

/// Changes one or two bytes by compare-and-swap of the word of four that they lie in, and gives
/// their former bits.
///
/// # Safety
/// As [`fetch`].
unsafe fn fetch_short(at: Remote, call: AtomicCall) -> u64 {
    // SAFETY: the caller's promise; the word lies in the segment, which begins and ends at words.
    unsafe { change_short(at, call.ty, |old| Some(word::apply(old, call))) }
}

/// Replaces the bits of a short type by those that `change` makes of them, if it does; gives the
/// former.
///
/// # Safety
/// As [`fetch`].
unsafe fn change_short(at: Remote, ty: AtomicType, change: impl Fn(u64) -> Option<u64>) -> u64 {
    let (word, place) = at.word_around();
    let (shift, mask) = (8 * place, (1_u64 << (8 * ty.bytes())) - 1);
    // SAFETY: the caller's promise.
    let mut whole = unsafe { sys::or_w(word, 0) & LOW };
    loop {
        let old = whole >> shift & mask;
        let Some(new) = change(old) else { return old };
        let desired = whole & !(mask << shift) | (new & mask) << shift;
        let swap = SwapCall {
            ty: AtomicType::U32,
            expected: whole,
            desired,
        };
        // SAFETY: the caller's promise.
        let found = unsafe { compare_swap(word, swap) };
        if found == whole {
            return old;
        }
        whole = found;
    }
}

/// Replaces the word if its bits are the expected ones; gives the former.
///
/// # Safety
/// The word lies in the rank's segment, aligned to its width.
pub(crate) unsafe fn compare_swap(at: Remote, call: SwapCall) -> u64 {
    let SwapCall {
        ty,
        expected,
        desired,
    } = call;
    match ty.bytes() {
        1 | 2 => {
            let change = |old| (old == expected).then_some(desired);
            // SAFETY: the caller's promise.
            unsafe { change_short(at, ty, change) }
        }
        4 => {
            let expected = i64::from((expected as u32).cast_signed()).cast_unsigned();
            // SAFETY: the caller's promise.
            unsafe { sys::compare_swap_w(at, expected, desired) & LOW }
        }
        // SAFETY: the caller's promise.
        _ => unsafe { sys::compare_swap_d(at, expected, desired) },
    }
}

/// # Safety
/// As [`fetch`].
unsafe fn fetch_float(at: Remote, call: AtomicCall) -> u64 {
    let load = AtomicCall {
        op: AtomicOp::Load,
        ..call
    };
    // SAFETY: the caller's promise.
    let mut expected = unsafe { fetch(at, load) };
    loop {
        let swap = SwapCall {
            ty: call.ty,
            expected,
            desired: changed(expected, call),
        };
        // SAFETY: the caller's promise.
        let found = unsafe { compare_swap(at, swap) };
        if found == expected {
            return found;
        }
        expected = found;
    }
}

fn changed(old: u64, call: AtomicCall) -> u64 {
    if call.ty == AtomicType::F32 {
        let [old, operand] = [old, call.operand].map(|bits| f32::from_bits(bits as u32));
        let new = match call.op {
            AtomicOp::Min => old.min(operand),
            AtomicOp::Max => old.max(operand),
            _ => old + operand,
        };
        return new.to_bits().into();
    }
    let [old, operand] = [old, call.operand].map(f64::from_bits);
    let new = match call.op {
        AtomicOp::Min => old.min(operand),
        AtomicOp::Max => old.max(operand),
        _ => old + operand,
    };
    new.to_bits()
}
