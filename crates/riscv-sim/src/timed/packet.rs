//! Remote operations and the packets that carry them.

use serde::Serialize;

/// What a remote request does to the word at its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Reads.
    Load,
    /// Writes.
    Store,
    /// Fetches and xors.
    Xor,
    /// Fetches and ands.
    And,
    /// Fetches and ors.
    Or,
    /// Fetches and leaves the smaller of two signed numbers.
    Min,
    /// Fetches and leaves the larger of two signed numbers.
    Max,
    /// Fetches, and writes the request's second operand if the first was found.
    CompareSwap,
    /// Fetches and adds.
    Add,
    /// Fetches and writes.
    Swap,
    /// Fetches and leaves the smaller of two unsigned numbers.
    MinUnsigned,
    /// Fetches and leaves the larger of two unsigned numbers.
    MaxUnsigned,
    /// Reads and remembers who did.
    LoadReserved,
    /// Writes if nobody else has since the load; says whether it did.
    StoreConditional,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Self; 14] = [
        Self::Load,
        Self::Store,
        Self::Xor,
        Self::And,
        Self::Or,
        Self::Min,
        Self::Max,
        Self::CompareSwap,
        Self::Add,
        Self::Swap,
        Self::MinUnsigned,
        Self::MaxUnsigned,
        Self::LoadReserved,
        Self::StoreConditional,
    ];

    /// Whether it may change the word, so that other copies of its line have to go (the W bit of an
    /// MSHR entry).
    #[must_use]
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Load | Self::LoadReserved)
    }

    /// How many operands a request carries.
    #[must_use]
    pub const fn n_operands(self) -> u32 {
        match self {
            Self::Load | Self::LoadReserved => 0,
            Self::CompareSwap => 2,
            _ => 1,
        }
    }

    /// Whether the reply carries data, and is not just an acknowledgement.
    #[must_use]
    pub const fn returns(self) -> bool {
        !matches!(self, Self::Store)
    }
}

/// A remote operation as a core issues it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Request {
    /// The node whose memory is meant; may be the issuer.
    pub target: u16,
    /// What to do.
    pub operation: Operation,
    /// The bytes of the word: 1, 2, 4 or 8. It lies within one line.
    pub bytes: u8,
    /// The address in the target's memory.
    pub address: u64,
    /// The first operand: what to store, to combine with, or to compare with.
    pub operand: u64,
    /// The second operand: what to write if the comparison succeeds.
    pub replacement: u64,
    /// The register that takes the result, as a bit of a register mask; nothing if none does.
    pub register: Option<u8>,
    /// The result goes into the issuer's memory, where others may see it.
    pub into_memory: bool,
    /// Whatever the issuer wants back with the result.
    pub tag: u32,
}

const HEAD_BITS: u32 = 32;
const ADDRESS_BITS: u32 = 64;

impl Request {
    /// Flits of the request: a head, the address and the operands.
    #[must_use]
    pub fn n_request_flits(&self, flit_bits: u32) -> u32 {
        let operands = self.operation.n_operands() * self.word_flits(flit_bits);
        HEAD_BITS.div_ceil(flit_bits) + ADDRESS_BITS.div_ceil(flit_bits) + operands
    }

    /// Flits of the reply: a head, and the data if there is any.
    #[must_use]
    pub fn n_reply_flits(&self, flit_bits: u32) -> u32 {
        let data = if self.operation.returns() {
            self.word_flits(flit_bits)
        } else {
            0
        };
        HEAD_BITS.div_ceil(flit_bits) + data
    }

    fn word_flits(&self, flit_bits: u32) -> u32 {
        (u32::from(self.bytes) * 8).div_ceil(flit_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(operation: Operation, bytes: u8) -> Request {
        Request {
            target: 0,
            operation,
            bytes,
            address: 0,
            operand: 0,
            replacement: 0,
            register: None,
            into_memory: false,
            tag: 0,
        }
    }

    #[test]
    fn packets_have_a_head_two_flits_of_address_and_their_data() {
        for (operation, bytes, asks, answers) in [
            (Operation::Add, 8, 5, 3),
            (Operation::Add, 4, 4, 2),
            (Operation::CompareSwap, 8, 7, 3),
            (Operation::Load, 1, 3, 2),
            (Operation::Load, 8, 3, 3),
            (Operation::Store, 8, 5, 1),
        ] {
            let request = request(operation, bytes);
            assert_eq!(request.n_request_flits(32), asks, "{operation:?} {bytes}");
            assert_eq!(request.n_reply_flits(32), answers, "{operation:?} {bytes}");
        }
        assert_eq!(request(Operation::Add, 8).n_request_flits(256), 3);
    }
}
