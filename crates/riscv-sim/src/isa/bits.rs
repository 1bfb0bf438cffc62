//! Where the fields of an instruction word lie, both ways: out of a word for the decoder, into a
//! word for the assembler.

/// Bits `low..low + count` of `word`.
#[must_use]
pub const fn field(word: u32, low: u32, count: u32) -> u32 {
    (word >> low) & ((1 << count) - 1)
}

/// The low `count` bits of `value`, as a two's complement number.
#[must_use]
pub const fn sign_extend(value: u32, count: u32) -> i32 {
    ((value << (32 - count)).cast_signed()) >> (32 - count)
}

/// The register number in the `rd` field.
#[must_use]
pub const fn rd(word: u32) -> u8 {
    field(word, 7, 5) as u8
}

/// The register number in the `rs1` field.
#[must_use]
pub const fn rs1(word: u32) -> u8 {
    field(word, 15, 5) as u8
}

/// The register number in the `rs2` field.
#[must_use]
pub const fn rs2(word: u32) -> u8 {
    field(word, 20, 5) as u8
}

/// The register number in the `rs3` field.
#[must_use]
pub const fn rs3(word: u32) -> u8 {
    field(word, 27, 5) as u8
}

/// The rounding mode, which is also the `funct3` field.
#[must_use]
pub const fn rm(word: u32) -> u8 {
    field(word, 12, 3) as u8
}

/// The immediate of an I-type word.
#[must_use]
pub const fn imm_i(word: u32) -> i32 {
    word.cast_signed() >> 20
}

/// The immediate of an S-type word.
#[must_use]
pub const fn imm_s(word: u32) -> i32 {
    ((word.cast_signed() >> 25) << 5) | field(word, 7, 5).cast_signed()
}

/// The immediate of a B-type word: a distance in bytes.
#[must_use]
pub const fn imm_b(word: u32) -> i32 {
    let low = (field(word, 8, 4) << 1) | (field(word, 25, 6) << 5) | (field(word, 7, 1) << 11);
    sign_extend(low | (field(word, 31, 1) << 12), 13)
}

/// The immediate of a U-type word, its low 12 bits zero.
#[must_use]
pub const fn imm_u(word: u32) -> i32 {
    (word & 0xffff_f000).cast_signed()
}

/// The immediate of a J-type word: a distance in bytes.
#[must_use]
pub const fn imm_j(word: u32) -> i32 {
    let low = (field(word, 21, 10) << 1) | (field(word, 20, 1) << 11) | (field(word, 12, 8) << 12);
    sign_extend(low | (field(word, 31, 1) << 20), 21)
}

/// The word with an I-type immediate put in.
#[must_use]
pub const fn with_imm_i(word: u32, imm: i32) -> u32 {
    word | (imm.cast_unsigned() << 20)
}

/// The word with an S-type immediate put in.
#[must_use]
pub const fn with_imm_s(word: u32, imm: i32) -> u32 {
    let imm = imm.cast_unsigned();
    word | (field(imm, 5, 7) << 25) | (field(imm, 0, 5) << 7)
}

/// The word with a B-type immediate put in.
#[must_use]
pub const fn with_imm_b(word: u32, imm: i32) -> u32 {
    let imm = imm.cast_unsigned();
    word | (field(imm, 1, 4) << 8)
        | (field(imm, 5, 6) << 25)
        | (field(imm, 11, 1) << 7)
        | (field(imm, 12, 1) << 31)
}

/// The word with a U-type immediate put in.
#[must_use]
pub const fn with_imm_u(word: u32, imm: i32) -> u32 {
    word | (imm.cast_unsigned() & 0xffff_f000)
}

/// The word with a J-type immediate put in.
#[must_use]
pub const fn with_imm_j(word: u32, imm: i32) -> u32 {
    let imm = imm.cast_unsigned();
    word | (field(imm, 1, 10) << 21)
        | (field(imm, 11, 1) << 20)
        | (field(imm, 12, 8) << 12)
        | (field(imm, 20, 1) << 31)
}

/// The word with register numbers put in.
#[must_use]
pub const fn with_registers(word: u32, rd: u8, rs1: u8, rs2: u8) -> u32 {
    word | ((rd as u32) << 7) | ((rs1 as u32) << 15) | ((rs2 as u32) << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_immediate_that_was_put_in_comes_out(word in any::<u32>()) {
            prop_assert_eq!(imm_i(with_imm_i(0, imm_i(word))), imm_i(word));
            prop_assert_eq!(imm_s(with_imm_s(0, imm_s(word))), imm_s(word));
            prop_assert_eq!(imm_b(with_imm_b(0, imm_b(word))), imm_b(word));
            prop_assert_eq!(imm_u(with_imm_u(0, imm_u(word))), imm_u(word));
            prop_assert_eq!(imm_j(with_imm_j(0, imm_j(word))), imm_j(word));
        }
    }
}
