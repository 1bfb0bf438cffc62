//! What one node asks of another: the vocabulary that the instructions, the machine and the timed
//! model share.

#![expect(
    clippy::cast_possible_truncation,
    reason = "the low bytes of a register are what is meant"
)]

use crate::memory::Ram;

/// An atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicOp {
    /// Puts the operand in.
    Swap,
    /// Adds, wrapping around.
    Add,
    /// Exclusive or, bit by bit.
    Xor,
    /// And, bit by bit.
    And,
    /// Or, bit by bit.
    Or,
    /// The smaller, signed.
    Min,
    /// The larger, signed.
    Max,
    /// The smaller, unsigned.
    Minu,
    /// The larger, unsigned.
    Maxu,
}

impl AtomicOp {
    /// What the word becomes.
    #[must_use]
    pub fn apply(self, old: u64, operand: u64) -> u64 {
        let signed = (old.cast_signed(), operand.cast_signed());
        match self {
            Self::Swap => operand,
            Self::Add => old.wrapping_add(operand),
            Self::Xor => old ^ operand,
            Self::And => old & operand,
            Self::Or => old | operand,
            Self::Min => signed.0.min(signed.1).cast_unsigned(),
            Self::Max => signed.0.max(signed.1).cast_unsigned(),
            Self::Minu => old.min(operand),
            Self::Maxu => old.max(operand),
        }
    }
}

/// How many bytes, and how they become a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// One byte, sign-extended.
    I8,
    /// Two bytes, sign-extended.
    I16,
    /// Four bytes, sign-extended.
    I32,
    /// Eight bytes.
    I64,
    /// One byte, zero-extended.
    U8,
    /// Two bytes, zero-extended.
    U16,
    /// Four bytes, zero-extended.
    U32,
    /// Eight bytes.
    U64,
    /// Eight bytes for an extended register.
    Extended,
    /// Eight bytes and eight zero bytes behind them, as they are stored.
    Quad,
}

impl Width {
    /// The number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 => 4,
            Self::I64 | Self::U64 | Self::Extended => 8,
            Self::Quad => 16,
        }
    }

    /// The register that the low bytes of `raw` become.
    #[must_use]
    pub const fn extend(self, raw: u64) -> u64 {
        match self {
            Self::I8 => (raw as i8 as i64).cast_unsigned(),
            Self::I16 => (raw as i16 as i64).cast_unsigned(),
            Self::I32 => (raw as i32 as i64).cast_unsigned(),
            Self::U8 => raw as u8 as u64,
            Self::U16 => raw as u16 as u64,
            Self::U32 => raw as u32 as u64,
            Self::I64 | Self::U64 | Self::Extended | Self::Quad => raw,
        }
    }
}

/// Which way a bulk transfer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the other node.
    Load,
    /// To the other node.
    Store,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Read.
    Load(Width),
    /// Write the low bytes of a value.
    Store(Width, u64),
    /// Combine with an operand and give the old value.
    Atomic(AtomicOp, Width, u64),
    /// If the word equals the first value, replace it by the second; give the old value.
    CompareSwap(Width, u64, u64),
    /// Read and reserve.
    LoadReserved(Width),
    /// Write if the reservation holds; give 0 if it did, 1 if not.
    StoreConditional(Width, u64),
    /// Move elements between this node's memory at `local` and the other's.
    Bulk {
        /// Which way.
        direction: Direction,
        /// Where they lie in the asking node.
        local: u64,
        /// Bytes of an element.
        width: u64,
        /// How many.
        n_elements: u64,
        /// Distance between elements, counted in elements.
        stride: u64,
    },
}

/// Where the answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// There is none.
    None,
    /// An integer register.
    Integer(u8),
    /// An extended register.
    Extended(u8),
}

/// A request of one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RemoteRequest {
    /// The object, from an extended register; 0, the node itself, only with a bulk transfer.
    pub object: u64,
    /// The address in the memory of the node that the object names.
    pub address: u64,
    /// What to do there.
    pub action: Action,
    /// Where the answer goes.
    pub destination: Destination,
}

impl RemoteRequest {
    /// Whether memory is written, so that a fault is a store fault.
    #[must_use]
    pub const fn writes(&self) -> bool {
        !matches!(
            self.action,
            Action::Load(_)
                | Action::LoadReserved(_)
                | Action::Bulk {
                    direction: Direction::Load,
                    ..
                }
        )
    }
}

impl Action {
    /// Does it to one word of the target's memory, all at once, and gives the answer as it goes
    /// into a register. `None` if the word lies outside that memory.
    ///
    /// # Panics
    /// With a bulk transfer, which concerns two memories.
    #[must_use]
    pub fn apply(&self, address: u64, target: &mut Ram) -> Option<u64> {
        let (width, old) = match *self {
            Self::Store(width, value) => {
                return target.write(address, width.bytes(), value).then_some(0);
            }
            Self::Load(width)
            | Self::LoadReserved(width)
            | Self::Atomic(_, width, _)
            | Self::CompareSwap(width, ..)
            | Self::StoreConditional(width, _) => {
                let raw = target.read(address, width.bytes())?;
                (width, width.extend(raw))
            }
            Self::Bulk { .. } => panic!("a bulk transfer is no action on one word"),
        };
        let new = match *self {
            Self::Atomic(op, _, operand) => Some(op.apply(old, operand)),
            Self::CompareSwap(_, expected, new) => (old == expected).then_some(new),
            Self::StoreConditional(_, value) => Some(value),
            _ => None,
        };
        if let Some(new) = new {
            let written = target.write(address, width.bytes(), new);
            debug_assert!(written, "the word was read from there");
        }
        Some(match self {
            Self::StoreConditional(..) => 0,
            _ => old,
        })
    }
}
