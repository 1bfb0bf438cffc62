//! Pseudo-instructions: other names for some words of an instruction. The assembler knows them and
//! the disassembler writes them, as binutils does.

use super::Operand::{self, AddressI, Csr, Fd, Fs1, ImmI, Rd, Rs1, Rs2, TargetB, TargetJ, Uimm5};

/// Another name for the words that match.
#[derive(Clone, Copy, Debug)]
pub struct Alias {
    /// The name.
    pub name: &'static str,
    /// What is left to be written.
    pub operands: &'static [Operand],
    /// The bits that are the same in all of these words.
    pub mask: u32,
    /// What those bits are.
    pub value: u32,
    /// Whether both sources are the same register, written once.
    pub same_sources: bool,
}

impl Alias {
    /// Whether `word` may be written so.
    #[must_use]
    pub const fn matches(&self, word: u32) -> bool {
        let same = super::bits::rs1(word) == super::bits::rs2(word);
        word & self.mask == self.value && (same || !self.same_sources)
    }
}

const fn alias(name: &'static str, operands: &'static [Operand], mask: u32, value: u32) -> Alias {
    Alias {
        name,
        operands,
        mask,
        value,
        same_sources: false,
    }
}

const fn twice(name: &'static str, value: u32) -> Alias {
    Alias {
        name,
        operands: &[Fd, Fs1],
        mask: 0xfe00_707f,
        value,
        same_sources: true,
    }
}

/// The table. Where several match, the first is written.
pub const ALIASES: &[Alias] = &[
    alias("unimp", &[], 0xffff_ffff, 0xc000_1073),
    alias("nop", &[], 0xffff_ffff, 0x0000_0013),
    alias("li", &[Rd, ImmI], 0x000f_f07f, 0x0000_0013),
    alias("mv", &[Rd, Rs1], 0xfff0_707f, 0x0000_0013),
    alias("not", &[Rd, Rs1], 0xfff0_707f, 0xfff0_4013),
    alias("zext.b", &[Rd, Rs1], 0xfff0_707f, 0x0ff0_7013),
    alias("seqz", &[Rd, Rs1], 0xfff0_707f, 0x0010_3013),
    alias("sext.w", &[Rd, Rs1], 0xfff0_707f, 0x0000_001b),
    alias("neg", &[Rd, Rs2], 0xfe0f_f07f, 0x4000_0033),
    alias("negw", &[Rd, Rs2], 0xfe0f_f07f, 0x4000_003b),
    alias("snez", &[Rd, Rs2], 0xfe0f_f07f, 0x0000_3033),
    alias("sltz", &[Rd, Rs1], 0xfff0_707f, 0x0000_2033),
    alias("sgtz", &[Rd, Rs2], 0xfe0f_f07f, 0x0000_2033),
    alias("ret", &[], 0xffff_ffff, 0x0000_8067),
    alias("jr", &[Rs1], 0xfff0_7fff, 0x0000_0067),
    alias("jr", &[AddressI], 0x0000_7fff, 0x0000_0067),
    alias("jalr", &[Rs1], 0xfff0_7fff, 0x0000_00e7),
    alias("jalr", &[AddressI], 0x0000_7fff, 0x0000_00e7),
    alias("jalr", &[Rd, Rs1], 0xfff0_707f, 0x0000_0067),
    alias("j", &[TargetJ], 0x0000_0fff, 0x0000_006f),
    alias("jal", &[TargetJ], 0x0000_0fff, 0x0000_00ef),
    alias("beqz", &[Rs1, TargetB], 0x01f0_707f, 0x0000_0063),
    alias("bnez", &[Rs1, TargetB], 0x01f0_707f, 0x0000_1063),
    alias("bltz", &[Rs1, TargetB], 0x01f0_707f, 0x0000_4063),
    alias("blez", &[Rs2, TargetB], 0x000f_f07f, 0x0000_5063),
    alias("bgez", &[Rs1, TargetB], 0x01f0_707f, 0x0000_5063),
    alias("bgtz", &[Rs2, TargetB], 0x000f_f07f, 0x0000_4063),
    alias("pause", &[], 0xffff_ffff, 0x0100_000f),
    alias("fence.tso", &[], 0xfff0_707f, 0x8330_000f),
    alias("fence", &[], 0xffff_ffff, 0x0ff0_000f),
    alias("rdcycle", &[Rd], 0xffff_f07f, 0xc000_2073),
    alias("rdtime", &[Rd], 0xffff_f07f, 0xc010_2073),
    alias("rdinstret", &[Rd], 0xffff_f07f, 0xc020_2073),
    alias("frflags", &[Rd], 0xffff_f07f, 0x0010_2073),
    alias("fsflags", &[Rs1], 0xfff0_7fff, 0x0010_1073),
    alias("fsflags", &[Rd, Rs1], 0xfff0_707f, 0x0010_1073),
    alias("fsflagsi", &[Uimm5], 0xfff0_7fff, 0x0010_5073),
    alias("fsflagsi", &[Rd, Uimm5], 0xfff0_707f, 0x0010_5073),
    alias("frrm", &[Rd], 0xffff_f07f, 0x0020_2073),
    alias("fsrm", &[Rs1], 0xfff0_7fff, 0x0020_1073),
    alias("fsrm", &[Rd, Rs1], 0xfff0_707f, 0x0020_1073),
    alias("fsrmi", &[Uimm5], 0xfff0_7fff, 0x0020_5073),
    alias("fsrmi", &[Rd, Uimm5], 0xfff0_707f, 0x0020_5073),
    alias("frcsr", &[Rd], 0xffff_f07f, 0x0030_2073),
    alias("fscsr", &[Rs1], 0xfff0_7fff, 0x0030_1073),
    alias("fscsr", &[Rd, Rs1], 0xfff0_707f, 0x0030_1073),
    alias("csrwi", &[Csr, Uimm5], 0x0000_7fff, 0x0000_5073),
    alias("csrsi", &[Csr, Uimm5], 0x0000_7fff, 0x0000_6073),
    alias("csrci", &[Csr, Uimm5], 0x0000_7fff, 0x0000_7073),
    alias("csrw", &[Csr, Rs1], 0x0000_7fff, 0x0000_1073),
    alias("csrr", &[Rd, Csr], 0x000f_f07f, 0x0000_2073),
    alias("csrs", &[Csr, Rs1], 0x0000_7fff, 0x0000_2073),
    alias("csrc", &[Csr, Rs1], 0x0000_7fff, 0x0000_3073),
    alias("sfence.vma", &[], 0xffff_ffff, 0x1200_0073),
    alias("sfence.vma", &[Rs1], 0xfff0_7fff, 0x1200_0073),
    twice("fmv.s", 0x2000_0053),
    twice("fneg.s", 0x2000_1053),
    twice("fabs.s", 0x2000_2053),
    twice("fmv.d", 0x2200_0053),
    twice("fneg.d", 0x2200_1053),
    twice("fabs.d", 0x2200_2053),
];
