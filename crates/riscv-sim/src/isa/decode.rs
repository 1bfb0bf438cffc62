//! From bits to what the interpreter runs.

use std::sync::LazyLock;

use super::{Insn, Op, Profile, ROWS, bits, rv_c};

/// The integer register that swallows what is written to register 0.
pub(crate) const SINK: u8 = 32;

/// An instruction as the interpreter runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// What to do.
    pub op: Op,
    /// The destination; 32 stands for a write to integer register 0.
    pub rd: u8,
    /// The first source.
    pub rs1: u8,
    /// The second source.
    pub rs2: u8,
    /// The third source.
    pub rs3: u8,
    /// The rounding mode of an instruction that has one.
    pub rm: u8,
    pub(crate) n_bytes: u8,
    /// Whether a branch is expected to be taken, so that its target follows it in its block.
    pub expected: bool,
    /// Instructions before it in its block.
    pub index: u8,
    /// The number in the instruction.
    pub imm: i32,
    /// Half of its address, which is even: there is no code beyond 8 GiB.
    pub place: u32,
}

const _: () = assert!(size_of::<Decoded>() <= 20, "code is read as often as data");

impl Decoded {
    /// The number in the instruction, sign-extended.
    #[inline(always)]
    #[must_use]
    pub fn imm(&self) -> u64 {
        i64::from(self.imm).cast_unsigned()
    }

    /// Length in bytes: 2 or 4.
    #[inline(always)]
    #[must_use]
    pub const fn n_bytes(&self) -> u8 {
        self.n_bytes
    }

    /// Its address.
    #[inline(always)]
    #[must_use]
    pub fn pc(&self) -> u64 {
        u64::from(self.place) << 1
    }
}

/// The rows by the five bits that every one of them fixes.
static BY_OPCODE: LazyLock<[Vec<&'static Insn>; 32]> = LazyLock::new(|| {
    let mut table = [const { Vec::new() }; 32];
    for row in ROWS {
        table[opcode(row.value)].push(row);
    }
    table
});

const fn opcode(word: u32) -> usize {
    bits::field(word, 2, 5) as usize
}

/// The row of a 32-bit word.
#[must_use]
pub fn row_of(word: u32, profile: Profile) -> Option<&'static Insn> {
    if word & 3 != 3 {
        return None;
    }
    BY_OPCODE[opcode(word)]
        .iter()
        .find(|row| row.matches(word) && row.extension.decodes_in(profile))
        .copied()
}

/// Decodes the instruction whose first bytes are the low bytes of `word`. What is no instruction
/// decodes as [`Op::Illegal`].
#[must_use]
pub fn decode(word: u32, profile: Profile) -> Decoded {
    let (n_bytes, full) = if word & 3 == 3 {
        (4, Some(word))
    } else {
        (2, rv_c::expand(word as u16))
    };
    let row = full.and_then(|full| row_of(full, profile));
    let (Some(full), Some(row)) = (full, row) else {
        return Decoded {
            op: Op::Illegal,
            rd: 0,
            rs1: 0,
            rs2: 0,
            rs3: 0,
            rm: 0,
            n_bytes,
            expected: false,
            index: 0,
            imm: 0,
            place: 0,
        };
    };
    let rd = bits::rd(full);
    Decoded {
        op: row.op,
        rd: if rd == 0 && row.format.writes_x() {
            SINK
        } else {
            rd
        },
        rs1: bits::rs1(full),
        rs2: bits::rs2(full),
        rs3: bits::rs3(full),
        rm: bits::rm(full),
        n_bytes,
        expected: false,
        index: 0,
        imm: row.format.immediate(full),
        place: 0,
    }
}
