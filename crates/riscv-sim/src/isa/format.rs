//! How the operands of an instruction are written and where its word holds them.

use super::bits;

/// The operands of one kind of instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// No operands.
    None,
    /// `rd, rs1, rs2`
    R,
    /// `rd, rs1, imm`
    I,
    /// `rd, rs1, shamt` with 6 bits.
    Shift6,
    /// `rd, rs1, shamt` with 5 bits.
    Shift5,
    /// `rd, imm(rs1)`
    Load,
    /// `rs2, imm(rs1)`
    Store,
    /// `rs1, rs2, target`
    B,
    /// `rd, imm20`
    U,
    /// `rd, target`
    J,
    /// `rd, imm(rs1)`; written `rd, rs1, imm` as well.
    Jalr,
    /// `pred, succ`
    Fence,
    /// `rs1, rs2`
    SfenceVma,
    /// `rd, csr, rs1`
    Csr,
    /// `rd, csr, uimm5`
    CsrImm,
    /// `rd, (rs1)`, with acquire and release bits.
    Lr,
    /// `rd, rs2, (rs1)`, with acquire and release bits.
    Amo,
    /// `fd, imm(rs1)`
    FLoad,
    /// `fs2, imm(rs1)`
    FStore,
    /// `fd, fs1, fs2`
    FR,
    /// `fd, fs1, fs2, rm`
    FRm,
    /// `fd, fs1, fs2, fs3, rm`
    F4,
    /// `fd, fs1, rm`
    FUnaryRm,
    /// `fd, fs1`: exact, so that the rounding mode is written only if it is not 0.
    FUnaryExact,
    /// `rd, fs1, fs2`
    FCmp,
    /// `rd, fs1`
    FToX,
    /// `rd, fs1, rm`
    FToXRm,
    /// `fd, rs1`
    XToF,
    /// `fd, rs1, rm`
    XToFRm,
    /// `fd, rs1`: exact, so that the rounding mode is written only if it is not 0.
    XToFExact,
    /// `ed, imm(rs1)`
    ExtLoad,
    /// `es2, imm(rs1)`
    ExtStore,
    /// `rd, es1, imm`
    EAddi,
    /// `ed, rs1, imm`
    EAddie,
    /// `ed, es1, imm`
    EAddix,
    /// `rd, rs1, es2`
    ErLoad,
    /// `ed, rs1, es2`
    ErLoadExt,
    /// `rs1, rs2, es3`, the third in the place of `rd`.
    ErStore,
    /// `es1, rs2, es3`, the third in the place of `rd`.
    ErStoreExt,
    /// `rd, rs1, rs2, rs3`
    Bulk,
}

/// One operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// The integer register in the `rd` field.
    Rd,
    /// The integer register in the `rs1` field.
    Rs1,
    /// The integer register in the `rs2` field.
    Rs2,
    /// The integer register in the `rs3` field.
    Rs3,
    /// The floating-point register in the `rd` field.
    Fd,
    /// The floating-point register in the `rs1` field.
    Fs1,
    /// The floating-point register in the `rs2` field.
    Fs2,
    /// The floating-point register in the `rs3` field.
    Fs3,
    /// The extended register in the `rd` field.
    Ed,
    /// The extended register in the `rs1` field.
    Es1,
    /// The extended register in the `rs2` field.
    Es2,
    /// A signed 12-bit number.
    ImmI,
    /// `imm(rs1)`, the number I-type.
    AddressI,
    /// `imm(rs1)`, the number S-type.
    AddressS,
    /// `(rs1)`
    Address,
    /// A shift distance up to 63.
    Shamt6,
    /// A shift distance up to 31.
    Shamt5,
    /// The upper 20 bits of a number.
    ImmU,
    /// The target of a branch.
    TargetB,
    /// The target of a jump.
    TargetJ,
    /// A control and status register.
    Csr,
    /// An unsigned number in the `rs1` field.
    Uimm5,
    /// The operations before a fence.
    Pred,
    /// The operations after a fence.
    Succ,
    /// A rounding mode; left out if it is `dyn`.
    Rm,
    /// A rounding mode; left out if it is `rne`.
    ExactRm,
}

impl Format {
    /// The operands, in the order in which they are written.
    #[must_use]
    pub const fn operands(self) -> &'static [Operand] {
        use Operand as O;
        match self {
            Self::None => &[],
            Self::R => &[O::Rd, O::Rs1, O::Rs2],
            Self::I => &[O::Rd, O::Rs1, O::ImmI],
            Self::Shift6 => &[O::Rd, O::Rs1, O::Shamt6],
            Self::Shift5 => &[O::Rd, O::Rs1, O::Shamt5],
            Self::Load | Self::Jalr => &[O::Rd, O::AddressI],
            Self::Store => &[O::Rs2, O::AddressS],
            Self::B => &[O::Rs1, O::Rs2, O::TargetB],
            Self::U => &[O::Rd, O::ImmU],
            Self::J => &[O::Rd, O::TargetJ],
            Self::Fence => &[O::Pred, O::Succ],
            Self::SfenceVma => &[O::Rs1, O::Rs2],
            Self::Csr => &[O::Rd, O::Csr, O::Rs1],
            Self::CsrImm => &[O::Rd, O::Csr, O::Uimm5],
            Self::Lr => &[O::Rd, O::Address],
            Self::Amo => &[O::Rd, O::Rs2, O::Address],
            Self::FLoad => &[O::Fd, O::AddressI],
            Self::FStore => &[O::Fs2, O::AddressS],
            Self::FR => &[O::Fd, O::Fs1, O::Fs2],
            Self::FRm => &[O::Fd, O::Fs1, O::Fs2, O::Rm],
            Self::F4 => &[O::Fd, O::Fs1, O::Fs2, O::Fs3, O::Rm],
            Self::FUnaryRm => &[O::Fd, O::Fs1, O::Rm],
            Self::FUnaryExact => &[O::Fd, O::Fs1, O::ExactRm],
            Self::FCmp => &[O::Rd, O::Fs1, O::Fs2],
            Self::FToX => &[O::Rd, O::Fs1],
            Self::FToXRm => &[O::Rd, O::Fs1, O::Rm],
            Self::XToF => &[O::Fd, O::Rs1],
            Self::XToFRm => &[O::Fd, O::Rs1, O::Rm],
            Self::XToFExact => &[O::Fd, O::Rs1, O::ExactRm],
            Self::ExtLoad => &[O::Ed, O::AddressI],
            Self::ExtStore => &[O::Es2, O::AddressS],
            Self::EAddi => &[O::Rd, O::Es1, O::ImmI],
            Self::EAddie => &[O::Ed, O::Rs1, O::ImmI],
            Self::EAddix => &[O::Ed, O::Es1, O::ImmI],
            Self::ErLoad => &[O::Rd, O::Rs1, O::Es2],
            Self::ErLoadExt => &[O::Ed, O::Rs1, O::Es2],
            Self::ErStore => &[O::Rs1, O::Rs2, O::Ed],
            Self::ErStoreExt => &[O::Es1, O::Rs2, O::Ed],
            Self::Bulk => &[O::Rd, O::Rs1, O::Rs2, O::Rs3],
        }
    }

    /// Whether the `rd` field names an integer register that is written.
    #[must_use]
    pub const fn writes_x(self) -> bool {
        matches!(
            self,
            Self::R
                | Self::I
                | Self::Shift6
                | Self::Shift5
                | Self::Load
                | Self::U
                | Self::J
                | Self::Jalr
                | Self::Csr
                | Self::CsrImm
                | Self::Lr
                | Self::Amo
                | Self::FCmp
                | Self::FToX
                | Self::FToXRm
                | Self::EAddi
                | Self::ErLoad
        )
    }

    /// The number in `word`.
    #[must_use]
    pub const fn immediate(self, word: u32) -> i32 {
        match self {
            Self::Store | Self::FStore | Self::ExtStore => bits::imm_s(word),
            Self::B => bits::imm_b(word),
            Self::U => bits::imm_u(word),
            Self::J => bits::imm_j(word),
            Self::Shift6 => bits::field(word, 20, 6).cast_signed(),
            Self::Shift5 => bits::field(word, 20, 5).cast_signed(),
            Self::Csr | Self::CsrImm => bits::field(word, 20, 12).cast_signed(),
            _ => bits::imm_i(word),
        }
    }
}
