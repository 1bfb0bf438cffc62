//! Tests that show why minima and maxima of floats are never the provider's own.

use pgas_core::backend::{AtomicCall, AtomicOp, AtomicType};
use pgas_network::note::Order;

use super::tests::{complete, pair};
use super::{Begun, Info};
use crate::sys::words::Words;

/// The value of a word of the second endpoint after an atomic of the first one.
#[expect(unsafe_code, reason = "lends libfabric the words of an atomic")]
fn after(provider: &str, node: Option<&str>, before: u64, call: AtomicCall) -> u64 {
    let asking = |info: Info| info.with_atomics();
    let (mut one, mut other, mut memory, region, target) = pair(provider, node, asking);
    memory.bytes_mut()[..8].copy_from_slice(&before.to_ne_bytes());
    let mut words = Words::new(&mut one, 1).unwrap();
    let cell = words.take().unwrap();
    let context = crate::sys::Context::new(7);
    let step = Order::Fetch(call);
    assert!(one.has_atomic(step), "{provider} says so");
    // SAFETY: the word lies in what is registered, and all memory stays until the completion.
    while unsafe { one.begin_atomic((&words, &cell), step, target, &context) }.unwrap()
        == Begun::NoRoom
    {
        one.poll(&mut Vec::new()).unwrap();
        other.poll(&mut Vec::new()).unwrap();
    }
    assert_eq!(complete(&mut one, &mut other).error, None);
    // SAFETY: it is complete.
    let former = unsafe { words.result(&cell, 8) };
    assert_eq!(former, before, "the former value");
    let word = u64::from_ne_bytes(memory.bytes()[..8].try_into().unwrap());
    drop((words, region, memory));
    word
}

/// The contract: a number is smaller than NaN, and larger, too. What providers have keeps NaN.
fn keeps_nan(provider: &str, node: Option<&str>) {
    let sum = AtomicCall {
        op: AtomicOp::Add,
        ty: AtomicType::U64,
        operand: 2,
    };
    assert_eq!(after(provider, node, 40, sum), 42, "integers are right");
    for op in [AtomicOp::Min, AtomicOp::Max] {
        let call = AtomicCall {
            op,
            ty: AtomicType::F64,
            operand: 1.0_f64.to_bits(),
        };
        let word = after(provider, node, f64::NAN.to_bits(), call);
        assert!(
            f64::from_bits(word).is_nan(),
            "{provider} has learnt it: {word:#x}"
        );
    }
}

#[test]
fn atomics_of_floats_over_tcp_are_not_those_of_the_contract() {
    keeps_nan("tcp;ofi_rxm", Some("127.0.0.1"));
}

#[test]
fn atomics_of_floats_over_shm_are_not_those_of_the_contract() {
    keeps_nan("shm", None);
}
