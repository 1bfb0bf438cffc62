//! The compressed instructions: what an instruction of 16 bits means is the instruction of 32 bits
//! that it stands for.

use super::bits::{
    field, sign_extend, with_imm_b, with_imm_i, with_imm_j, with_imm_s, with_imm_u, with_registers,
};

/// One compressed instruction.
#[derive(Clone, Copy, Debug)]
pub struct Compressed {
    /// Its name in the specification.
    pub name: &'static str,
    /// The bits that are the same in every such halfword.
    pub mask: u16,
    /// What those bits are.
    pub value: u16,
    /// The full instruction; `None` if these operands are reserved.
    pub expand: fn(u32) -> Option<u32>,
}

const RA: u8 = 1;
const SP: u8 = 2;

/// The full word of a compressed instruction, or `None` if there is none.
#[must_use]
pub fn expand(halfword: u16) -> Option<u32> {
    ROWS.iter()
        .find(|row| halfword & row.mask == row.value)
        .and_then(|row| (row.expand)(halfword.into()))
}

const fn row(
    name: &'static str,
    mask: u16,
    value: u16,
    expand: fn(u32) -> Option<u32>,
) -> Compressed {
    Compressed {
        name,
        mask,
        value,
        expand,
    }
}

/// The table of compressed instructions. Where one matches within another's pattern, it stands
/// first.
pub const ROWS: &[Compressed] = &[
    row("c.addi4spn", 0xe003, 0x0000, |w| {
        nonzero(imm_addi4spn(w)).map(|imm| addi(low(w, 2), SP, imm))
    }),
    row("c.fld", 0xe003, 0x2000, |w| {
        Some(load(0x3007, low(w, 2), low(w, 7), imm_d(w)))
    }),
    row("c.lw", 0xe003, 0x4000, |w| {
        Some(load(0x2003, low(w, 2), low(w, 7), imm_w(w)))
    }),
    row("c.ld", 0xe003, 0x6000, |w| {
        Some(load(0x3003, low(w, 2), low(w, 7), imm_d(w)))
    }),
    row("c.fsd", 0xe003, 0xa000, |w| {
        Some(store(0x3027, low(w, 2), low(w, 7), imm_d(w)))
    }),
    row("c.sw", 0xe003, 0xc000, |w| {
        Some(store(0x2023, low(w, 2), low(w, 7), imm_w(w)))
    }),
    row("c.sd", 0xe003, 0xe000, |w| {
        Some(store(0x3023, low(w, 2), low(w, 7), imm_d(w)))
    }),
    row("c.addi", 0xe003, 0x0001, |w| {
        Some(addi(full(w, 7), full(w, 7), imm6(w)))
    }),
    row("c.addiw", 0xe003, 0x2001, |w| {
        let rd = full(w, 7);
        (rd != 0).then(|| with_imm_i(with_registers(0x1b, rd, rd, 0), imm6(w)))
    }),
    row("c.li", 0xe003, 0x4001, |w| {
        Some(addi(full(w, 7), 0, imm6(w)))
    }),
    row("c.addi16sp", 0xef83, 0x6101, |w| {
        nonzero(imm_addi16sp(w)).map(|imm| addi(SP, SP, imm))
    }),
    row("c.lui", 0xe003, 0x6001, |w| {
        nonzero(imm6(w)).map(|imm| with_imm_u(with_registers(0x37, full(w, 7), 0, 0), imm << 12))
    }),
    row("c.srli", 0xec03, 0x8001, |w| {
        Some(shift(0x5013, low(w, 7), w))
    }),
    row("c.srai", 0xec03, 0x8401, |w| {
        Some(shift(0x4000_5013, low(w, 7), w))
    }),
    row("c.andi", 0xec03, 0x8801, |w| {
        Some(with_imm_i(
            with_registers(0x7013, low(w, 7), low(w, 7), 0),
            imm6(w),
        ))
    }),
    row("c.sub", 0xfc63, 0x8c01, |w| Some(two(0x4000_0033, w))),
    row("c.xor", 0xfc63, 0x8c21, |w| Some(two(0x4033, w))),
    row("c.or", 0xfc63, 0x8c41, |w| Some(two(0x6033, w))),
    row("c.and", 0xfc63, 0x8c61, |w| Some(two(0x7033, w))),
    row("c.subw", 0xfc63, 0x9c01, |w| Some(two(0x4000_003b, w))),
    row("c.addw", 0xfc63, 0x9c21, |w| Some(two(0x003b, w))),
    row("c.j", 0xe003, 0xa001, |w| Some(with_imm_j(0x6f, imm_j(w)))),
    row("c.beqz", 0xe003, 0xc001, |w| Some(branch(0x0063, w))),
    row("c.bnez", 0xe003, 0xe001, |w| Some(branch(0x1063, w))),
    row("c.slli", 0xe003, 0x0002, |w| {
        Some(shift(0x1013, full(w, 7), w))
    }),
    row("c.fldsp", 0xe003, 0x2002, |w| {
        Some(load(0x3007, full(w, 7), SP, imm_dsp(w)))
    }),
    row("c.lwsp", 0xe003, 0x4002, |w| {
        let rd = full(w, 7);
        (rd != 0).then(|| load(0x2003, rd, SP, imm_wsp(w)))
    }),
    row("c.ldsp", 0xe003, 0x6002, |w| {
        let rd = full(w, 7);
        (rd != 0).then(|| load(0x3003, rd, SP, imm_dsp(w)))
    }),
    row("c.ebreak", 0xffff, 0x9002, |_| Some(0x0010_0073)),
    row("c.jr", 0xf07f, 0x8002, |w| {
        let rs1 = full(w, 7);
        (rs1 != 0).then(|| with_registers(0x67, 0, rs1, 0))
    }),
    row("c.mv", 0xf003, 0x8002, |w| {
        Some(addi(full(w, 7), full(w, 2), 0))
    }),
    row("c.jalr", 0xf07f, 0x9002, |w| {
        Some(with_registers(0x67, RA, full(w, 7), 0))
    }),
    row("c.add", 0xf003, 0x9002, |w| {
        Some(with_registers(0x33, full(w, 7), full(w, 7), full(w, 2)))
    }),
    row("c.fsdsp", 0xe003, 0xa002, |w| {
        Some(store(0x3027, full(w, 2), SP, imm_sdsp(w)))
    }),
    row("c.swsp", 0xe003, 0xc002, |w| {
        Some(store(0x2023, full(w, 2), SP, imm_swsp(w)))
    }),
    row("c.sdsp", 0xe003, 0xe002, |w| {
        Some(store(0x3023, full(w, 2), SP, imm_sdsp(w)))
    }),
];

fn nonzero(imm: i32) -> Option<i32> {
    (imm != 0).then_some(imm)
}

/// A register from five bits.
const fn full(w: u32, at: u32) -> u8 {
    field(w, at, 5) as u8
}

/// One of the registers 8 to 15, from three bits.
const fn low(w: u32, at: u32) -> u8 {
    field(w, at, 3) as u8 + 8
}

const fn addi(rd: u8, rs1: u8, imm: i32) -> u32 {
    with_imm_i(with_registers(0x13, rd, rs1, 0), imm)
}

const fn load(base: u32, rd: u8, rs1: u8, imm: i32) -> u32 {
    with_imm_i(with_registers(base, rd, rs1, 0), imm)
}

const fn store(base: u32, rs2: u8, rs1: u8, imm: i32) -> u32 {
    with_imm_s(with_registers(base, 0, rs1, rs2), imm)
}

const fn two(base: u32, w: u32) -> u32 {
    with_registers(base, low(w, 7), low(w, 7), low(w, 2))
}

const fn shift(base: u32, register: u8, w: u32) -> u32 {
    with_registers(base, register, register, 0) | ((imm6(w) & 63).cast_unsigned() << 20)
}

const fn branch(base: u32, w: u32) -> u32 {
    with_imm_b(with_registers(base, 0, low(w, 7), 0), imm_b(w))
}

const fn imm6(w: u32) -> i32 {
    sign_extend(field(w, 2, 5) | (field(w, 12, 1) << 5), 6)
}

const fn imm_addi4spn(w: u32) -> i32 {
    ((field(w, 6, 1) << 2) | (field(w, 5, 1) << 3) | (field(w, 11, 2) << 4) | (field(w, 7, 4) << 6))
        .cast_signed()
}

const fn imm_addi16sp(w: u32) -> i32 {
    let imm = (field(w, 6, 1) << 4)
        | (field(w, 2, 1) << 5)
        | (field(w, 5, 1) << 6)
        | (field(w, 3, 2) << 7)
        | (field(w, 12, 1) << 9);
    sign_extend(imm, 10)
}

const fn imm_w(w: u32) -> i32 {
    ((field(w, 6, 1) << 2) | (field(w, 10, 3) << 3) | (field(w, 5, 1) << 6)).cast_signed()
}

const fn imm_d(w: u32) -> i32 {
    ((field(w, 10, 3) << 3) | (field(w, 5, 2) << 6)).cast_signed()
}

const fn imm_wsp(w: u32) -> i32 {
    ((field(w, 4, 3) << 2) | (field(w, 12, 1) << 5) | (field(w, 2, 2) << 6)).cast_signed()
}

const fn imm_dsp(w: u32) -> i32 {
    ((field(w, 5, 2) << 3) | (field(w, 12, 1) << 5) | (field(w, 2, 3) << 6)).cast_signed()
}

const fn imm_swsp(w: u32) -> i32 {
    ((field(w, 9, 4) << 2) | (field(w, 7, 2) << 6)).cast_signed()
}

const fn imm_sdsp(w: u32) -> i32 {
    ((field(w, 10, 3) << 3) | (field(w, 7, 3) << 6)).cast_signed()
}

const fn imm_j(w: u32) -> i32 {
    let imm = (field(w, 3, 3) << 1)
        | (field(w, 11, 1) << 4)
        | (field(w, 2, 1) << 5)
        | (field(w, 7, 1) << 6)
        | (field(w, 6, 1) << 7)
        | (field(w, 9, 2) << 8)
        | (field(w, 8, 1) << 10)
        | (field(w, 12, 1) << 11);
    sign_extend(imm, 12)
}

const fn imm_b(w: u32) -> i32 {
    let imm = (field(w, 3, 2) << 1)
        | (field(w, 10, 2) << 3)
        | (field(w, 2, 1) << 5)
        | (field(w, 5, 2) << 6)
        | (field(w, 12, 1) << 8);
    sign_extend(imm, 9)
}
