//! Pseudo-instructions that are more than another name: those that become several instructions, or
//! have their sources swapped.

use super::encode;
use super::expression::{Resolver, evaluate};
use super::source::Statement;
use crate::isa::bits::{with_imm_i, with_imm_u, with_registers};
use crate::isa::names;

const RA: u8 = 1;
const T1: u8 = 6;
const ADDI: u32 = 0x13;
const ADDIW: u32 = 0x1b;
const AUIPC: u32 = 0x17;
const LUI: u32 = 0x37;
const JALR: u32 = 0x67;
const SLLI: u32 = 0x1013;

/// Whether it always becomes two instructions.
pub(super) fn is_pair(name: &str) -> bool {
    matches!(name, "la" | "lla" | "call" | "tail")
}

/// The instructions, if it is one of these.
pub(super) fn expand(
    statement: &Statement,
    here: u64,
    resolve: Resolver<'_>,
) -> Result<Option<Vec<u32>>, String> {
    let operands: Vec<&str> = statement.operands.iter().map(String::as_str).collect();
    let far = |first: u8, base: u32, rd: u8, target: &str| {
        let distance = evaluate(target, resolve)?.wrapping_sub(here.cast_signed());
        let (high, low) =
            encode::high_low(distance).ok_or_else(|| format!("{target} is too far away"))?;
        Ok(Some(vec![
            with_imm_u(with_registers(AUIPC, first, 0, 0), high),
            with_imm_i(with_registers(base, rd, first, 0), low),
        ]))
    };
    match (statement.name.as_str(), operands.as_slice()) {
        ("la" | "lla", [rd, target]) => {
            let rd = x(rd)?;
            far(rd, ADDI, rd, target)
        }
        ("call", [target]) => far(RA, JALR, RA, target),
        ("tail", [target]) => far(T1, JALR, 0, target),
        ("li", [rd, value]) => Ok(Some(load_immediate(x(rd)?, evaluate(value, resolve)?))),
        _ => Ok(None),
    }
}

fn x(name: &str) -> Result<u8, String> {
    names::x_number(name).ok_or_else(|| format!("{name} is no integer register"))
}

/// Instructions that put a number into a register.
pub(super) fn load_immediate(rd: u8, value: i64) -> Vec<u32> {
    let addi = |base: u32, rs1: u8, imm: i32| with_imm_i(with_registers(base, rd, rs1, 0), imm);
    if let Ok(small) = i32::try_from(value) {
        // The low part is signed, so the high part may have to be one more.
        let low = (small << 20) >> 20;
        let high = small.wrapping_sub(low);
        return match (high, low) {
            (0, low) => vec![addi(ADDI, 0, low)],
            (high, 0) => vec![with_imm_u(with_registers(LUI, rd, 0, 0), high)],
            (high, low) => vec![
                with_imm_u(with_registers(LUI, rd, 0, 0), high),
                addi(ADDIW, rd, low),
            ],
        };
    }
    let low = (value << 52) >> 52;
    let rest = value.wrapping_sub(low) >> 12;
    let zeros = rest.trailing_zeros();
    let mut words = load_immediate(rd, rest >> zeros);
    words.push(with_registers(SLLI, rd, rd, 0) | ((12 + zeros) << 20));
    if low != 0 {
        words.push(addi(ADDI, rd, low as i32));
    }
    words
}
