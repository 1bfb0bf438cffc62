//! The atomics that the provider has, and what a rank needs for them.

use pgas_core::Result;
use pgas_core::backend::{AtomicCall, AtomicOp, AtomicType};

use crate::sys::{Endpoint, Words};

/// The most atomics in flight. `shm` of libfabric 1.17 does not check whether it has room for more
/// than its queues take, which have some hundred places.
const LIMIT: usize = 256;

/// What a rank needs for atomics of the provider.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) native: Native,
    /// Whether the provider executes the job's atomics. If not, this is here because of a trial that
    /// has not ended.
    pub(crate) is_executor: bool,
    /// Whether a rank's atomics wait until the target calls libfabric.
    pub(crate) needs_target: bool,
    pub(crate) words: Words,
    /// Slots of atomics whose next step has found no room.
    pub(crate) waiting: Vec<usize>,
}

impl Provider {
    /// The memory for atomics, before it is known which the provider has.
    pub(crate) fn new(endpoint: &mut Endpoint) -> Result<Self> {
        Ok(Self {
            native: Native::default(),
            is_executor: false,
            needs_target: true,
            words: Words::new(endpoint, LIMIT)?,
            waiting: Vec::new(),
        })
    }
}

/// The types of words that a provider is asked about. Those of fewer bytes are parts of a word, and
/// floats are words of bits.
pub(crate) const TYPES: [AtomicType; 4] = [
    AtomicType::U32,
    AtomicType::I32,
    AtomicType::U64,
    AtomicType::I64,
];
/// The operations that it is asked about.
pub(crate) const OPS: [AtomicOp; 8] = [
    AtomicOp::Load,
    AtomicOp::Swap,
    AtomicOp::Add,
    AtomicOp::And,
    AtomicOp::Or,
    AtomicOp::Xor,
    AtomicOp::Min,
    AtomicOp::Max,
];

/// The fetching atomics that the provider has for these types, a bit each. It has compare-and-swap,
/// too, from which all others are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Native(u32);

impl Native {
    pub(crate) fn add(&mut self, call: AtomicCall) {
        self.0 |= bit(call);
    }

    /// The provider's atomic that does what `call` does, if it has one. Minima, maxima and sums of
    /// floats are never a provider's: most keep NaN, which the contract excludes.
    pub(crate) fn equal(self, call: AtomicCall) -> Option<AtomicCall> {
        let is_copied = matches!(call.op, AtomicOp::Load | AtomicOp::Swap);
        let ty = match call.ty {
            AtomicType::F32 if is_copied => AtomicType::U32,
            AtomicType::F64 if is_copied => AtomicType::U64,
            other => other,
        };
        let call = AtomicCall { ty, ..call };
        (self.0 & bit(call) != 0).then_some(call)
    }
}

/// The bit of an atomic; none for a type that providers are not asked about.
fn bit(call: AtomicCall) -> u32 {
    let ty = match call.ty {
        AtomicType::U32 => 0,
        AtomicType::I32 => 1,
        AtomicType::U64 => 2,
        AtomicType::I64 => 3,
        AtomicType::U8
        | AtomicType::I8
        | AtomicType::U16
        | AtomicType::I16
        | AtomicType::F32
        | AtomicType::F64 => return 0,
    };
    let op = match call.op {
        AtomicOp::Load => 0,
        AtomicOp::Swap => 1,
        AtomicOp::Add => 2,
        AtomicOp::And => 3,
        AtomicOp::Or => 4,
        AtomicOp::Xor => 5,
        AtomicOp::Min => 6,
        AtomicOp::Max => 7,
    };
    1 << (8 * ty + op)
}
