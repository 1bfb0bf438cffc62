//! What the timing needs to know of each instruction: its kind, and which registers it reads and writes.

use std::sync::LazyLock;

use crate::isa::{Decoded, Extension, Format, Op, Operand, ROWS};

use super::core::Class;

/// How a register field becomes bits of a register mask: the field's bit, if it counts, moved to its half.
#[derive(Clone, Copy, Debug)]
struct Field {
    counts: u64,
    shift: u8,
}

/// A field that names no register of the mask.
const UNUSED: Field = Field {
    counts: 0,
    shift: 0,
};
/// An integer register; what goes to the place that swallows writes to register 0 counts as nothing.
const INTEGER: Field = Field {
    counts: 0xffff_fffe,
    shift: 0,
};
/// A floating-point register.
const FLOAT: Field = Field {
    counts: 0xffff_ffff,
    shift: 32,
};

impl Field {
    #[inline(always)]
    const fn mask(self, register: u8) -> u64 {
        (1_u64.wrapping_shl(register as u32) & self.counts) << self.shift
    }
}

/// One instruction's row.
#[derive(Clone, Copy, Debug)]
pub(super) struct InsnTiming {
    pub(super) class: Class,
    /// It starts when all remote operations are over.
    pub(super) is_fence: bool,
    /// It reads a counter.
    pub(super) is_csr: bool,
    /// The `rd` field as a destination.
    written: Field,
    /// The fields `rs1`, `rs2`, `rs3` and `rd` as sources.
    read: [Field; 4],
}

impl InsnTiming {
    /// The registers that the instruction writes.
    #[inline(always)]
    pub(super) fn writes(&self, insn: &Decoded) -> u64 {
        self.written.mask(insn.rd)
    }

    /// The registers that the instruction reads or writes.
    #[inline(always)]
    pub(super) fn uses(&self, insn: &Decoded) -> u64 {
        let [first, second, third, fourth] = self.read;
        first.mask(insn.rs1)
            | second.mask(insn.rs2)
            | third.mask(insn.rs3)
            | fourth.mask(insn.rd)
            | self.writes(insn)
    }

    const fn integer() -> Self {
        Self {
            class: Class::Integer,
            is_fence: false,
            is_csr: false,
            written: UNUSED,
            read: [UNUSED; 4],
        }
    }

    fn of(op: Op, extension: Extension, format: Format) -> Self {
        let mut timing = Self {
            class: class(op, extension),
            is_fence: matches!(op, Op::Fence | Op::FenceI),
            is_csr: matches!(format, Format::Csr | Format::CsrImm),
            ..Self::integer()
        };
        for operand in format.operands() {
            match operand {
                Operand::Rd if format == Format::Bulk => timing.read[3] = INTEGER,
                Operand::Rd => timing.written = INTEGER,
                Operand::Fd => timing.written = FLOAT,
                Operand::Rs1 | Operand::AddressI | Operand::AddressS | Operand::Address => {
                    timing.read[0] = INTEGER;
                }
                Operand::Rs2 => timing.read[1] = INTEGER,
                Operand::Rs3 => timing.read[2] = INTEGER,
                Operand::Fs1 => timing.read[0] = FLOAT,
                Operand::Fs2 => timing.read[1] = FLOAT,
                Operand::Fs3 => timing.read[2] = FLOAT,
                _ => {}
            }
            if *operand == Operand::AddressS {
                timing.read[1] = match format {
                    Format::FStore => FLOAT,
                    Format::Store => INTEGER,
                    _ => UNUSED,
                };
            }
        }
        timing
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
    let mut table = vec![InsnTiming::integer(); last + 1];
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
    fn divisions_multiplications_and_the_rest_have_their_classes() {
        let class = |word| table()[decode(word, Profile::Rae2020).op as usize].class;
        assert_eq!(class(0x0273_02b3), Class::Multiply);
        assert_eq!(class(0x0273_42b3), Class::Divide);
        assert_eq!(class(0x0220_f053), Class::Float);
        assert_eq!(class(0x1a20_f053), Class::FloatDivide);
        assert_eq!(class(0x0073_02b3), Class::Integer);
    }
}
