//! The table of instructions: no two rows overlap, every value lies in its mask, and every row can
//! be written and read back.

use proptest::prelude::*;

use super::{Extension, Profile, ROWS, bits, decode, row_of, rv_c};
use crate::disasm::disassemble;
use crate::{asm, isa::Op};

const PROFILES: [Profile; 2] = [Profile::Rae2020, Profile::Xbgas2];

#[test]
fn every_value_lies_in_its_mask() {
    for row in ROWS {
        assert_eq!(row.value & !row.mask, 0, "{}", row.name);
        assert_eq!(row.mask & 0x7f, 0x7f, "{}", row.name);
    }
}

/// `fence` leaves fields open that the alias table names; no two rows share a word.
#[test]
fn no_two_rows_overlap() {
    for profile in PROFILES {
        let rows: Vec<_> = ROWS
            .iter()
            .filter(|row| row.extension.decodes_in(profile))
            .collect();
        for (k, a) in rows.iter().enumerate() {
            for b in &rows[k + 1..] {
                let both = a.mask & b.mask;
                assert_ne!(a.value & both, b.value & both, "{} and {}", a.name, b.name);
            }
        }
    }
}

#[test]
fn a_name_means_one_row_in_a_profile() {
    for profile in PROFILES {
        let mut names: Vec<_> = ROWS
            .iter()
            .filter(|row| row.extension.assembles_in(profile))
            .map(|row| row.name)
            .collect();
        names.sort_unstable();
        let n_names = names.len();
        names.dedup();
        assert_eq!(names.len(), n_names, "{profile:?}");
    }
}

#[test]
fn the_paper_has_fourteen_atomics_and_both_generations_decode_in_either_profile() {
    let paper = ROWS.iter().filter(|row| row.extension == Extension::Rae);
    assert_eq!(paper.count(), 14);
    for row in ROWS
        .iter()
        .filter(|row| matches!(row.extension, Extension::Rae | Extension::Xamo))
    {
        for profile in PROFILES {
            assert_eq!(row_of(row.value, profile).map(|row| row.op), Some(row.op));
        }
    }
}

/// A word of each row with other bits than the fixed ones set as `seed` says.
fn word_of(row: &super::Insn, seed: u32) -> u32 {
    row.value | (seed & !row.mask)
}

proptest! {
    #[test]
    fn every_row_is_decoded_as_itself_written_and_assembled_back(seed in any::<u32>()) {
        for profile in PROFILES {
            for row in ROWS.iter().filter(|row| row.extension.assembles_in(profile)) {
                let word = word_of(row, seed);
                prop_assert_eq!(decode(word, profile).op, row.op);
                let text = disassemble(word, 0x8000_0000, profile).text;
                // Rounding modes and fences without a name, and immediates that are not written,
                // cannot come back.
                if text.contains("unknown") || row.op == Op::Fence || row.op == Op::FenceI {
                    continue;
                }
                // What the disassembler writes as a place is a number to the assembler.
                let text = match disassemble(word, 0x8000_0000, profile).target {
                    Some(target) => text.replace(&format!("{target:x}"), &format!("{target:#x}")),
                    None => text,
                };
                let image = asm::assemble(&text, profile);
                let image = image.map_err(|why| TestCaseError::fail(format!("{text}: {why}")))?;
                let bytes = <[u8; 4]>::try_from(image.segments[0].bytes.as_slice());
                prop_assert!(bytes.is_ok(), "{} is {:?}", text, image.segments[0].bytes);
                prop_assert_eq!(u32::from_le_bytes(bytes.unwrap()), word, "{}", text);
            }
        }
    }

    #[test]
    fn every_word_decodes_to_something(word in any::<u32>()) {
        for profile in PROFILES {
            let decoded = decode(word, profile);
            prop_assert_eq!(decoded.n_bytes, if word & 3 == 3 { 4 } else { 2 });
            let line = disassemble(word, u64::MAX, profile);
            prop_assert!(!line.text.is_empty());
        }
    }
}

#[test]
fn a_compressed_instruction_stands_for_a_full_one() {
    let mut n_legal = 0;
    for halfword in (0..=u16::MAX).filter(|halfword| halfword & 3 != 3) {
        if let Some(full) = rv_c::expand(halfword) {
            assert!(row_of(full, Profile::Rae2020).is_some(), "{halfword:04x}");
            n_legal += 1;
        }
    }
    assert!(n_legal > 40_000, "{n_legal}");
}

#[test]
fn every_compressed_row_is_reached() {
    for row in rv_c::ROWS {
        let reached = (0..=u16::MAX).any(|halfword| {
            rv_c::ROWS
                .iter()
                .find(|other| halfword & other.mask == other.value)
                .is_some_and(|other| other.name == row.name)
        });
        assert!(reached, "{}", row.name);
    }
}

/// From the disassembly that the authors' assembler tests expect: rd, rs1 (the address), rs2.
#[test]
fn the_golden_encodings_of_the_authors_read_and_assemble() {
    let golden = [
        (0x0ef7_67eb, "eamoadd.w a5,a4,a5"),
        (0x0ef7_77eb, "eamoadd.d a5,a4,a5"),
        (0x0ce7_f7eb, "eamocas.d a5,a5,a4"),
        (0x0ae7_e7eb, "eamomax.w a5,a5,a4"),
        (0x08e7_f7eb, "eamomin.d a5,a5,a4"),
        (0x04e7_f7eb, "eamoand.d a5,a5,a4"),
        (0x02e7_f7eb, "eamoxor.d a5,a5,a4"),
        (0x06e7_f7eb, "eamoor.d a5,a5,a4"),
        (0x0015_f57b, "eaddie e10,a1,1"),
        (0x0ec5_76eb, "eamoadd.d a3,a0,a2"),
    ];
    for (word, text) in golden {
        let line = disassemble(word, 0, Profile::Rae2020);
        assert_eq!(line.text.replace('\t', " "), text);
        let image = asm::assemble(text, Profile::Rae2020).unwrap();
        assert_eq!(image.segments[0].bytes, u32::to_le_bytes(word), "{text}");
    }
}

/// The codes that the authors' simulator and binutils agree on.
#[test]
fn the_encodings_of_specification_0_7_are_those_of_the_authors_toolchain() {
    let table = [
        ("elb", 0x77),
        ("elh", 0x1077),
        ("elw", 0x2077),
        ("eld", 0x3077),
        ("elbu", 0x4077),
        ("elhu", 0x5077),
        ("elq", 0x6077),
        ("ele", 0x7077),
        ("esb", 0x7b),
        ("esh", 0x107b),
        ("esw", 0x207b),
        ("esd", 0x307b),
        ("esq", 0x407b),
        ("ese", 0x507b),
        ("eaddi", 0x607b),
        ("eaddie", 0x707b),
        ("eaddix", 0x7003),
        ("erlb", 0xaa00_0033),
        ("erlh", 0xaa00_1033),
        ("erlw", 0xaa00_2033),
        ("erld", 0xaa00_3033),
        ("erlbu", 0xaa00_4033),
        ("erlhu", 0xaa00_5033),
        ("erle", 0x4200_4033),
        ("ersb", 0x4400_0033),
        ("ersh", 0x4400_1033),
        ("ersw", 0x4400_2033),
        ("ersd", 0x4400_3033),
        ("erse", 0x4600_3033),
        ("eag", 0x1000_106b),
    ];
    for (name, value) in table {
        let row = row_of(value, Profile::Rae2020).unwrap();
        assert_eq!((row.name, row.value), (name, value));
    }
}

#[test]
fn specification_2_moves_three_encodings_and_drops_one() {
    let name = |word| row_of(word, Profile::Xbgas2).map(|row| row.name);
    assert_eq!(name(0x507b), Some("eaddie"));
    assert_eq!(name(0x707b), Some("ese"));
    assert_eq!(name(0x6077), Some("elwu"));
    assert_eq!(name(0xaa00_7033), Some("erle"));
    assert_eq!(name(0x4200_4033), None);
}

#[test]
fn immediates_have_their_signs() {
    assert_eq!(bits::imm_i(0xfff0_0013), -1);
    assert_eq!(bits::imm_b(0xfe00_0ee3), -4);
    assert_eq!(bits::imm_j(0xffdf_f06f), -4);
}
