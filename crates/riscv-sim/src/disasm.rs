//! The disassembler. For standard instructions it writes what binutils' `objdump` writes.

#![expect(
    clippy::cast_possible_truncation,
    reason = "a compressed instruction is the low half of the word"
)]

use crate::isa::alias::ALIASES;
use crate::isa::{Extension, Operand, Profile, bits, names, row_of, rv_c};

/// One instruction in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its length in bytes.
    pub len: u64,
    /// Name and operands, with a tab between them.
    pub text: String,
    /// Where it jumps to.
    pub target: Option<u64>,
}

/// The name of an integer register.
#[must_use]
pub const fn x_name(number: u8) -> &'static str {
    names::X[(number & 31) as usize]
}

/// The name of an extended register.
#[must_use]
pub const fn e_name(number: u8) -> &'static str {
    names::E[(number & 31) as usize]
}

/// The name of a floating-point register.
#[must_use]
pub const fn f_name(number: u8) -> &'static str {
    names::F[(number & 31) as usize]
}

/// Writes the instruction whose first bytes are the low bytes of `word` and whose address is `pc`.
/// What is no instruction is written as a number.
#[must_use]
pub fn disassemble(word: u32, pc: u64, profile: Profile) -> Line {
    let (len, full) = if word & 3 == 3 {
        (4, Some(word))
    } else {
        (2, rv_c::expand(word as u16))
    };
    let row = full.and_then(|full| Some((full, row_of(full, profile)?)));
    let Some((full, row)) = row else {
        let text = match len {
            2 if word & 0xffff == 0 => "unimp".to_owned(),
            2 => format!(".2byte\t{:#x}", word & 0xffff),
            _ => format!(".4byte\t{word:#x}"),
        };
        return Line {
            len,
            text,
            target: None,
        };
    };
    let alias = ALIASES
        .iter()
        .find(|alias| alias.matches(full))
        .map(|alias| (alias.name, alias.operands));
    let (name, operands) = alias.unwrap_or((row.name, row.format.operands()));
    let mut text = name.to_owned();
    if matches!(row.extension, Extension::A | Extension::Xamo) {
        text += ["", ".rl", ".aq", ".aqrl"][bits::field(full, 25, 2) as usize];
    }
    let mut target = None;
    let mut separator = '\t';
    for operand in operands {
        let written = write(*operand, full, pc, &mut target);
        if !written.is_empty() {
            text.push(separator);
            text += &written;
            separator = ',';
        }
    }
    Line { len, text, target }
}

fn write(operand: Operand, word: u32, pc: u64, target: &mut Option<u64>) -> String {
    let (rd, rs1, rs2) = (bits::rd(word), bits::rs1(word), bits::rs2(word));
    let mut jump = |distance: i32| {
        let to = pc.wrapping_add(i64::from(distance).cast_unsigned());
        *target = Some(to);
        format!("{to:x}")
    };
    match operand {
        Operand::Rd => x_name(rd).to_owned(),
        Operand::Rs1 => x_name(rs1).to_owned(),
        Operand::Rs2 => x_name(rs2).to_owned(),
        Operand::Rs3 => x_name(bits::rs3(word)).to_owned(),
        Operand::Fd => f_name(rd).to_owned(),
        Operand::Fs1 => f_name(rs1).to_owned(),
        Operand::Fs2 => f_name(rs2).to_owned(),
        Operand::Fs3 => f_name(bits::rs3(word)).to_owned(),
        Operand::Ed => e_name(rd).to_owned(),
        Operand::Es1 => e_name(rs1).to_owned(),
        Operand::Es2 => e_name(rs2).to_owned(),
        Operand::ImmI => bits::imm_i(word).to_string(),
        Operand::AddressI => format!("{}({})", bits::imm_i(word), x_name(rs1)),
        Operand::AddressS => format!("{}({})", bits::imm_s(word), x_name(rs1)),
        Operand::Address => format!("({})", x_name(rs1)),
        Operand::Shamt6 => format!("{:#x}", bits::field(word, 20, 6)),
        Operand::Shamt5 => format!("{:#x}", bits::field(word, 20, 5)),
        Operand::ImmU => format!("{:#x}", word >> 12),
        Operand::TargetB => jump(bits::imm_b(word)),
        Operand::TargetJ => jump(bits::imm_j(word)),
        Operand::Csr => {
            let address = bits::field(word, 20, 12) as u16;
            names::csr_name(address)
                .map_or_else(|| format!("{address:#x}"), |name| name.into_owned())
        }
        Operand::Uimm5 => rs1.to_string(),
        Operand::Pred => fence_set(bits::field(word, 24, 4)),
        Operand::Succ => fence_set(bits::field(word, 20, 4)),
        Operand::Rm if bits::rm(word) == 7 => String::new(),
        Operand::ExactRm if bits::rm(word) == 0 => String::new(),
        Operand::Rm | Operand::ExactRm => rounding(bits::rm(word)).to_owned(),
    }
}

fn fence_set(set: u32) -> String {
    if set == 0 {
        return "unknown".to_owned();
    }
    [(8, 'i'), (4, 'o'), (2, 'r'), (1, 'w')]
        .iter()
        .filter(|(bit, _)| set & bit != 0)
        .map(|(_, letter)| letter)
        .collect()
}

/// The rounding mode's name.
const fn rounding(rm: u8) -> &'static str {
    match rm {
        0 => "rne",
        1 => "rtz",
        2 => "rdn",
        3 => "rup",
        4 => "rmm",
        7 => "dyn",
        _ => "unknown",
    }
}
