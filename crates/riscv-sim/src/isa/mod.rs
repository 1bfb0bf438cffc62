//! The instruction set: one row an instruction, which holds its name, its encoding, how it is
//! written, and what it does.
//!
//! The rows stand in one file an extension. From them come the decoder ([`decode`]), the
//! interpreter (`hart`), the assembler and the disassembler. A row without a meaning does not
//! compile; tests show that no two rows overlap.

#![expect(
    clippy::cast_possible_truncation,
    reason = "fields are cut out of words"
)]

#[macro_use]
mod rv_i;
#[macro_use]
mod rv_m;
#[macro_use]
mod rv_a;
#[macro_use]
mod rv_f;
#[macro_use]
mod rv_d;
#[macro_use]
mod rv_zicsr;
#[macro_use]
mod xbgas;
#[macro_use]
mod rae;
pub mod alias;
pub mod bits;
mod decode;
mod format;
pub mod names;
pub mod rv_c;
#[cfg(test)]
mod tests;

pub use decode::{Decoded, decode, row_of};
pub use format::{Format, Operand};

/// Which encodings of xBGAS count. The standard instructions, and the remote atomics of both
/// generations, decode in either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Specification 0.7 and the 14 atomics of the RAE paper's toolchain.
    #[default]
    Rae2020,
    /// Specification 2.0.0 and the atomics of the later toolchain, which are laid out as those of
    /// the A extension.
    Xbgas2,
}

/// Where a row comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extension {
    /// RV64I, with the instructions of the privileged specification that bare-metal guests need.
    I,
    /// Multiplication and division.
    M,
    /// Atomics.
    A,
    /// Single precision.
    F,
    /// Double precision.
    D,
    /// Control and status registers.
    Zicsr,
    /// Instruction fetch fence.
    Zifencei,
    /// xBGAS, as in both specifications.
    Xbgas,
    /// xBGAS, as only specification 0.7 has it.
    Xbgas0,
    /// xBGAS, as only specification 2.0.0 and its toolchain have it.
    Xbgas2,
    /// The remote atomics of the RAE paper.
    Rae,
    /// The remote atomics of the later toolchain.
    Xamo,
}

impl Extension {
    /// Whether rows of this extension decode under `profile`.
    #[must_use]
    pub const fn decodes_in(self, profile: Profile) -> bool {
        match self {
            Self::Xbgas0 => matches!(profile, Profile::Rae2020),
            Self::Xbgas2 => matches!(profile, Profile::Xbgas2),
            _ => true,
        }
    }

    /// Whether the assembler knows the names of this extension under `profile`: where both
    /// generations of atomics use a name, it means the profile's own.
    #[must_use]
    pub const fn assembles_in(self, profile: Profile) -> bool {
        match self {
            Self::Xbgas0 | Self::Rae => matches!(profile, Profile::Rae2020),
            Self::Xbgas2 | Self::Xamo => matches!(profile, Profile::Xbgas2),
            _ => true,
        }
    }
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    /// What the interpreter dispatches on.
    pub op: Op,
    /// Its name in assembly.
    pub name: &'static str,
    /// The extension that it belongs to.
    pub extension: Extension,
    /// Its operands: where they lie and how they are written.
    pub format: Format,
    /// The bits that are the same in every word of this instruction.
    pub mask: u32,
    /// What those bits are.
    pub value: u32,
}

impl Insn {
    /// Whether `word` is this instruction.
    #[must_use]
    pub const fn matches(&self, word: u32) -> bool {
        word & self.mask == self.value
    }
}

/// Hands the rows of all files to one macro: `isa_rows!(callback)`.
macro_rules! isa_rows {
    ($callback:ident) => {
        rv_i_rows! { [rv_m_rows rv_a_rows rv_f_rows rv_d_rows rv_zicsr_rows xbgas_rows rae_rows] $callback {} }
    };
}

/// Calls the next file's macro with the rows so far, or the callback with all.
macro_rules! next_rows {
    ([] $callback:ident { $($rows:tt)* }) => { $callback! { $($rows)* } };
    ([$file:ident $($rest:ident)*] $callback:ident { $($rows:tt)* }) => {
        $file! { [$($rest)*] $callback { $($rows)* } }
    };
}

pub(crate) use next_rows;

macro_rules! table {
    ($($(#[$doc:meta])* $op:ident $name:literal $extension:ident $format:ident $mask:literal $value:literal
        $kind:ident |$hart:ident, $insn:ident| $meaning:block)*) => {
        /// Every instruction.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Op {
            /// Bits that are no instruction.
            Illegal,
            $(#[doc = concat!("`", $name, "`")] $op,)*
        }

        /// The table of instructions.
        pub const ROWS: &[Insn] = &[$(Insn {
            op: Op::$op,
            name: $name,
            extension: Extension::$extension,
            format: Format::$format,
            mask: $mask,
            value: $value,
        },)*];
    };
}

isa_rows!(table);
