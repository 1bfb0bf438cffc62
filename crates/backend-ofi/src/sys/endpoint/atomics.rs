//! Tests that show why atomics are executed by a CPU, and not by `fi_atomic`.
//!
//! All atomics of the contract must have one implementation, or updates are lost. So a provider
//! would have to have them all, as the contract defines them, for each type.
#![expect(unsafe_code, reason = "calls what only this trial calls")]

use pgas_core::backend::{AtomicOp, AtomicType};
use pgas_libfabric_sys::bindings::{
    FI_ATOMIC_READ, FI_ATOMIC_WRITE, FI_BAND, FI_BOR, FI_BXOR, FI_DOUBLE, FI_FLOAT, FI_INT32,
    FI_INT64, FI_MAX, FI_MIN, FI_SUM, FI_UINT32, FI_UINT64,
};
use pgas_libfabric_sys::calls::{Kind, fi_fetch_atomic, fi_fetch_atomicvalid};

use super::tests::{complete, pair};
use super::{Begun, Endpoint, Target, begun, local};

const OPS: [(AtomicOp, u32); 8] = [
    (AtomicOp::Load, FI_ATOMIC_READ),
    (AtomicOp::Swap, FI_ATOMIC_WRITE),
    (AtomicOp::Add, FI_SUM),
    (AtomicOp::And, FI_BAND),
    (AtomicOp::Or, FI_BOR),
    (AtomicOp::Xor, FI_BXOR),
    (AtomicOp::Min, FI_MIN),
    (AtomicOp::Max, FI_MAX),
];
const TYPES: [(AtomicType, u32); 6] = [
    (AtomicType::U32, FI_UINT32),
    (AtomicType::I32, FI_INT32),
    (AtomicType::U64, FI_UINT64),
    (AtomicType::I64, FI_INT64),
    (AtomicType::F32, FI_FLOAT),
    (AtomicType::F64, FI_DOUBLE),
];

/// The operations that the provider reports as missing.
fn missing(one: &mut Endpoint) -> Vec<(AtomicType, AtomicOp)> {
    let mut missing = Vec::new();
    for (ty, datatype) in TYPES {
        let is_float = matches!(ty, AtomicType::F32 | AtomicType::F64);
        for (op, number) in OPS {
            let is_bitwise = matches!(op, AtomicOp::And | AtomicOp::Or | AtomicOp::Xor);
            if is_float && is_bitwise {
                // Never asked for.
                continue;
            }
            let (kind, mut count) = (
                Kind {
                    datatype,
                    op: number,
                },
                0,
            );
            // SAFETY: the endpoint is open, and the place for the count is there.
            let code = unsafe { fi_fetch_atomicvalid(one.endpoint, kind, &raw mut count) };
            if code < 0 || count == 0 {
                missing.push((ty, op));
            }
        }
    }
    missing
}

/// The value of a word of the second endpoint after an atomic of the first one.
fn after(provider: &str, node: Option<&str>, before: u64, kind: Kind, operand: u64) -> u64 {
    let (mut one, mut other, mut memory, region, target) = pair(provider, node, |info| {
        info.want_atomics();
    });
    memory.bytes_mut()[..8].copy_from_slice(&before.to_ne_bytes());
    let mut source = one.buffer(8, 7).unwrap();
    source.bytes_mut().copy_from_slice(&operand.to_ne_bytes());
    let result = one.buffer(8, 8).unwrap();
    let (from, to) = (source.local(8), local(result.range().0, 8, None));
    let context = source.context.as_ptr();
    loop {
        // SAFETY: the word lies in what is registered, and all memory stays until the completion.
        let taken = begun("fi_fetch_atomic", unsafe {
            fi_fetch_atomic(one.endpoint, from, to, target.into(), kind, context)
        });
        if taken.unwrap() == Begun::Yes {
            break;
        }
        one.poll(&mut Vec::new()).unwrap();
        other.poll(&mut Vec::new()).unwrap();
    }
    assert_eq!(complete(&mut one, &mut other).error, None);
    assert_eq!(result.bytes(), before.to_ne_bytes(), "the former value");
    let word = u64::from_ne_bytes(memory.bytes()[..8].try_into().unwrap());
    drop((source, result, region, memory));
    word
}

/// The contract: a number is smaller than NaN, and larger, too. What providers have keeps NaN.
fn keeps_nan(provider: &str, node: Option<&str>) {
    let (mut one, _other, memory, region, _): (_, _, _, _, Target) =
        pair(provider, node, |info| info.want_atomics());
    assert_eq!(missing(&mut one), [], "what {provider} says");
    drop((region, memory));
    let sum = Kind {
        datatype: FI_UINT64,
        op: FI_SUM,
    };
    assert_eq!(after(provider, node, 40, sum, 2), 42, "integers are right");
    for op in [FI_MIN, FI_MAX] {
        let kind = Kind {
            datatype: FI_DOUBLE,
            op,
        };
        let word = after(provider, node, f64::NAN.to_bits(), kind, 1.0_f64.to_bits());
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
