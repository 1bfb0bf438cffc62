//! What the timing needs to know of each instruction: its kind, and which registers it reads and
//! writes.

use std::sync::LazyLock;

use crate::isa::{Decoded, Extension, Format, Op, Operand, ROWS};

use super::core::Class;

/// The bits of a register mask that a field's register may be: what goes to the place that swallows
/// writes to integer register 0 counts as nothing.
const INTEGER: u64 = 0xffff_fffe;

/// How far the floating-point registers lie from the integer ones.
const FLOAT_SHIFT: u32 = 32;

/// One instruction's row.
#[derive(Clone, Copy, Debug)]
pub(super) struct InsnTiming {
    pub(super) kind: Kind,
    /// The fields `rs1`, `rs2` and `rd` as integer registers that are read.
    read: [u64; 3],
    /// The `rd` field as an integer register that is written.
    written: u64,
    /// The fields `rs1`, `rs2`, `rs3` and `rd` as floating-point registers, or any beyond the four
    /// above.
    wide: Option<[Field; 4]>,
}

/// What an instruction does, as far as time goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It stays inside the core.
    Plain(Class),
    /// It may touch memory, here or elsewhere.
    Memory,
    /// As `Memory`; with the release bit it starts when all remote operations are over, and with the
    /// acquire bit what follows starts when it is over.
    Atomic,
    /// It starts when all remote operations are over.
    Fence,
    /// It may read a counter.
    Csr,
}

/// Whether an atomic has the acquire bit.
pub(super) const fn acquires(insn: &Decoded) -> bool {
    insn.imm & 1 << 6 != 0
}

/// Whether an atomic has the release bit.
pub(super) const fn releases(insn: &Decoded) -> bool {
    insn.imm & 1 << 5 != 0
}

/// What a field names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Unused,
    Integer,
    Float,
}

impl Field {
    const fn mask(self, register: u8) -> u64 {
        match self {
            Self::Unused => 0,
            Self::Integer => bit(register) & INTEGER,
            Self::Float => 1 << (register & 31) << FLOAT_SHIFT,
        }
    }
}

#[inline(always)]
const fn bit(register: u8) -> u64 {
    1_u64.wrapping_shl(register as u32)
}

impl InsnTiming {
    /// The registers that the instruction writes.
    #[inline(always)]
    pub(super) fn writes(&self, insn: &Decoded) -> u64 {
        match self.wide {
            Some([.., destination]) if destination == Field::Float => destination.mask(insn.rd),
            _ => bit(insn.rd) & self.written,
        }
    }

    /// The registers that the instruction reads or writes.
    #[inline(always)]
    pub(super) fn uses(&self, insn: &Decoded) -> u64 {
        let [first, second, third] = self.read;
        let integer =
            bit(insn.rs1) & first | bit(insn.rs2) & second | bit(insn.rd) & (third | self.written);
        match self.wide {
            None => integer,
            Some(wide) => integer | Self::uses_wide(wide, insn),
        }
    }

    #[inline(never)]
    fn uses_wide([first, second, third, destination]: [Field; 4], insn: &Decoded) -> u64 {
        first.mask(insn.rs1)
            | second.mask(insn.rs2)
            | third.mask(insn.rs3)
            | destination.mask(insn.rd)
    }

    fn of(op: Op, extension: Extension, format: Format) -> Self {
        let mut read = [Field::Unused; 4];
        let mut written = Field::Unused;
        for operand in format.operands() {
            match operand {
                Operand::Rd if format == Format::Bulk => read[3] = Field::Integer,
                Operand::Rd => written = Field::Integer,
                Operand::Fd => written = Field::Float,
                Operand::Rs1 | Operand::AddressI | Operand::AddressS | Operand::Address => {
                    read[0] = Field::Integer;
                }
                Operand::Rs2 => read[1] = Field::Integer,
                Operand::Rs3 => read[2] = Field::Integer,
                Operand::Fs1 => read[0] = Field::Float,
                Operand::Fs2 => read[1] = Field::Float,
                Operand::Fs3 => read[2] = Field::Float,
                _ => {}
            }
        }
        let integer = |field| if field == Field::Integer { INTEGER } else { 0 };
        let destination = if written == Field::Unused {
            read[3]
        } else {
            written
        };
        let wide = [read[0], read[1], read[2], destination];
        let is_wide = wide.contains(&Field::Float) || read[2] != Field::Unused;
        Self {
            kind: kind(op, extension, format),
            read: [integer(read[0]), integer(read[1]), integer(read[3])],
            written: integer(written),
            wide: is_wide.then_some(wide),
        }
    }
}

fn kind(op: Op, extension: Extension, format: Format) -> Kind {
    match format {
        Format::Load
        | Format::Store
        | Format::FLoad
        | Format::FStore
        | Format::ExtLoad
        | Format::ExtStore
        | Format::ErLoad
        | Format::ErLoadExt
        | Format::ErStore
        | Format::ErStoreExt
        | Format::Bulk => Kind::Memory,
        Format::Lr | Format::Amo => Kind::Atomic,
        Format::R if extension == Extension::Rae => Kind::Memory,
        Format::Csr | Format::CsrImm => Kind::Csr,
        // Whoever answers a call, or a debugger, reads registers and writes them.
        _ if matches!(op, Op::Fence | Op::FenceI | Op::Ecall | Op::Ebreak) => Kind::Fence,
        _ => Kind::Plain(class(op, extension)),
    }
}

fn class(op: Op, extension: Extension) -> Class {
    match op {
        Op::Mul | Op::Mulh | Op::Mulhsu | Op::Mulhu | Op::Mulw => Class::Multiply,
        Op::FdivS | Op::FdivD | Op::FsqrtS | Op::FsqrtD => Class::FloatDivide,
        _ => match extension {
            Extension::M => Class::Divide,
            Extension::F | Extension::D => Class::Float,
            _ => Class::Integer,
        },
    }
}

static TABLE: LazyLock<Vec<InsnTiming>> = LazyLock::new(|| {
    let last = ROWS.iter().map(|row| row.op as usize).max().unwrap_or(0);
    let unknown = InsnTiming {
        kind: Kind::Plain(Class::Integer),
        read: [0; 3],
        written: 0,
        wide: None,
    };
    let mut table = vec![unknown; last + 1];
    for row in ROWS {
        table[row.op as usize] = InsnTiming::of(row.op, row.extension, row.format);
    }
    table
});

/// All rows, by the number of their [`Op`].
pub(super) fn table() -> &'static [InsnTiming] {
    &TABLE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{Profile, decode};

    fn masks(word: u32) -> (u64, u64) {
        let insn = decode(word, Profile::Rae2020);
        let timing = &table()[insn.op as usize];
        (timing.writes(&insn), timing.uses(&insn))
    }

    #[test]
    fn masks_name_the_registers_of_both_halves() {
        // add x5, x6, x7
        assert_eq!(masks(0x0073_02b3), (1 << 5, 1 << 5 | 1 << 6 | 1 << 7));
        // add x0, x6, x7: what goes to register 0 goes nowhere.
        assert_eq!(masks(0x0073_0033), (0, 1 << 6 | 1 << 7));
        // fadd.d f0, f1, f2
        assert_eq!(masks(0x0220_f053), (1 << 32, 1 << 32 | 1 << 33 | 1 << 34));
        // fsd f3, 0(x8) and sd x3, 0(x8)
        assert_eq!(masks(0x0034_3027), (0, 1 << 8 | 1 << 35));
        assert_eq!(masks(0x0034_3023), (0, 1 << 8 | 1 << 3));
        // fcvt.l.d x9, f4
        assert_eq!(masks(0xc222_04d3 | 0x7000), (1 << 9, 1 << 9 | 1 << 36));
        // eamoadd.d x15, x14, x15
        assert_eq!(masks(0x0ef7_77eb), (1 << 15, 1 << 14 | 1 << 15));
    }

    #[test]
    fn every_instruction_has_its_kind() {
        let kind = |word| table()[decode(word, Profile::Rae2020).op as usize].kind;
        assert_eq!(kind(0x0273_02b3), Kind::Plain(Class::Multiply));
        assert_eq!(kind(0x0273_42b3), Kind::Plain(Class::Divide));
        assert_eq!(kind(0x0220_f053), Kind::Plain(Class::Float));
        assert_eq!(kind(0x1a20_f053), Kind::Plain(Class::FloatDivide));
        assert_eq!(kind(0x0073_02b3), Kind::Plain(Class::Integer));
        assert_eq!(kind(0x0ef7_77eb), Kind::Memory);
        assert_eq!(kind(0x0034_3023), Kind::Memory);
        assert_eq!(kind(0x0ff0_000f), Kind::Fence);
        assert_eq!(kind(0x0000_0073), Kind::Fence);
        assert_eq!(kind(0x0010_0073), Kind::Fence);
        assert_eq!(kind(0xc000_2573), Kind::Csr);
    }
}
