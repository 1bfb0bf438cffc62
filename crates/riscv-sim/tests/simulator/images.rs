//! Files that are no guests, or bad ones, are refused with a reason, whatever their bytes are; and
//! the assembler says what is wrong.

use pgas_riscv_sim::isa::Profile;
use pgas_riscv_sim::{Error, Image, Machine, MachineConfig, Outcome, asm};
use proptest::prelude::*;

fn good() -> Vec<u8> {
    let source = "_start: la a0, message\n li a7, 93\n ecall\n .data\n message: .asciz \"hi\"\n .balign 8\n end: .dword 1, -2\n";
    asm::to_elf(&asm::assemble(source, Profile::Rae2020).unwrap())
}

#[test]
fn what_the_assembler_writes_is_read_back() {
    let source = "_start: nop\n here: j here\n .data\n there: .dword 7\n";
    let image = asm::assemble(source, Profile::Rae2020).unwrap();
    let read = Image::from_elf(&asm::to_elf(&image)).unwrap();
    assert_eq!((read.entry, &read.symbols), (image.entry, &image.symbols));
    let bytes = &read.segments[0].bytes;
    for segment in &image.segments {
        let at = usize::try_from(segment.address - read.segments[0].address).unwrap();
        assert_eq!(bytes[at..at + segment.bytes.len()], segment.bytes);
    }
    assert_eq!(read.symbol_at(image.entry + 6), Some(("here", 2)));
    assert_eq!(read.symbol_at(0), None);
}

#[test]
fn zeros_at_the_end_of_a_guest_take_no_room_in_it() {
    let source = "_start: nop\n .data\n .word 7\n .zero 5\n .bss\n .zero 4000000000\n .align 4\n last: .zero 8\n";
    let image = asm::assemble(source, Profile::Rae2020).unwrap();
    let file = asm::to_elf(&image);
    assert!(file.len() < 10_000, "{} bytes", file.len());
    let read = Image::from_elf(&file).unwrap();
    let [segment] = &read.segments[..] else {
        panic!("{:?}", read.segments);
    };
    let end = image.address_of("last").unwrap() + 8;
    assert_eq!(segment.address + segment.n_bytes, end);
    assert_eq!(segment.bytes[64..], [7, 0, 0, 0]);
}

#[test]
fn a_guest_that_would_take_all_memory_is_refused_before_it_does() {
    for (source, why) in [
        (
            ".space 4000000000, 1",
            "line 1: what is not zero lies in the first 2^28 bytes",
        ),
        (
            ".bss\n .zero 4000000000\n .data\n .word 1",
            "line 4: what is not zero",
        ),
        (
            ".zero 4294967296\n .zero 1",
            "line 2: a guest has at most 2^32 bytes",
        ),
    ] {
        let error = asm::assemble(source, Profile::Rae2020).unwrap_err();
        assert!(error.to_string().contains(why), "{source}: {error}");
    }
    let error = asm::assemble(&"x".repeat(1_000_000), Profile::Rae2020).unwrap_err();
    assert!(error.to_string().len() < 300, "{error}");
}

/// A file with so many segments, all of the same bytes, and so many symbols, all of one name.
fn repeating(n_headers: u16, n_symbols: u32) -> Vec<u8> {
    const LONG: usize = 1 << 16;
    let mut file = good();
    let put = |file: &mut Vec<u8>, at: usize, bytes: &[u8]| {
        file[at..at + bytes.len()].copy_from_slice(bytes);
    };
    let mut header = file[64..120].to_vec();
    put(
        &mut header,
        32,
        &[4096_u64; 2].map(u64::to_le_bytes).concat(),
    );
    file.resize(file.len() + 4096, 0);
    let sections = u64::from_le_bytes(file[40..48].try_into().unwrap());
    let tables = usize::try_from(sections).unwrap() + 64 * 3;
    if n_headers > 0 {
        let place = file.len() as u64;
        put(&mut file, 32, &place.to_le_bytes());
        put(&mut file, 56, &n_headers.to_le_bytes());
        for _ in 0..n_headers {
            file.extend(&header);
        }
    }
    if n_symbols > 0 {
        let [symbols, names] = [24, LONG].map(|_| file.len() as u64);
        file.extend([0; 24]);
        for _ in 0..n_symbols {
            file.extend([1, 0, 0, 0, 0x10, 0, 0xf1, 0xff]);
            file.extend([0; 16]);
        }
        let n_bytes = file.len() as u64 - symbols;
        put(
            &mut file,
            tables + 24,
            &[symbols, n_bytes].map(u64::to_le_bytes).concat(),
        );
        let names = names + n_bytes;
        file.push(0);
        file.extend([b'x'; LONG]);
        file.push(0);
        let n_bytes = file.len() as u64 - names;
        put(
            &mut file,
            tables + 64 + 24,
            &[names, n_bytes].map(u64::to_le_bytes).concat(),
        );
    }
    file
}

#[test]
fn a_forged_file_takes_no_more_memory_than_a_few_times_its_own() {
    assert!(Image::from_elf(&repeating(2, 0)).is_ok());
    assert!(Image::from_elf(&repeating(0, 2)).is_ok());
    refused(&repeating(60_000, 0), "again and again");
    refused(&repeating(0, 1000), "longer than the file");
}

fn refused(file: &[u8], why: &str) {
    match Image::from_elf(file) {
        Err(Error::Elf(what)) => assert!(what.contains(why), "{what}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_that_is_no_guest_is_refused_with_the_reason() {
    refused(b"", "is empty");
    refused(b"#!/bin/sh", "no ELF file");
    refused(b"\x7fEL", "no ELF file");
    for n_bytes in [6, 20, 63] {
        refused(&good()[..n_bytes], "ends within its ELF header");
    }
    for n_bytes in [64, 100, 300] {
        refused(&good()[..n_bytes], "damaged or cut short");
    }
    let with = |at: usize, byte: u8| {
        let mut file = good();
        file[at] = byte;
        file
    };
    // For x86-64; a shared object; one whose only segment is a note.
    refused(&with(18, 62), "not for 64-bit RISC-V");
    refused(&with(4, 1), "32-bit");
    refused(&with(5, 2), "big-endian");
    refused(&with(16, 1), "has not been linked");
    refused(&with(16, 3), "a library");
    refused(&with(16, 4), "no program");
    refused(&with(64, 4), "nothing to load");
    // A segment of 2^56 bytes.
    refused(&with(64 + 39, 1), "beyond the end of the file");
    // Memory smaller than what is in the file.
    refused(&with(64 + 40, 1), "more bytes in the file");
}

proptest! {
    #[test]
    fn no_bytes_make_the_loader_panic(changes in prop::collection::vec((0_usize..600, any::<u8>()), 1..12), cut in 0_usize..700) {
        let mut file = good();
        for (at, byte) in changes {
            // Headers and tables are where harm can be done.
            let at = if at < 150 { at } else { file.len() - at };
            file[at] = byte;
        }
        file.truncate(file.len() - cut);
        if let Ok(image) = Image::from_elf(&file) {
            let config = MachineConfig { n_nodes: 1, ram_bytes: 1 << 16, ..MachineConfig::default() };
            if let Ok(mut machine) = Machine::new(&config, &image) {
                let _ = machine.run(1000).is_ok();
            }
        }
    }

    /// Any bytes as a program: whatever happens, it is said and not a panic.
    #[test]
    fn no_program_makes_the_simulator_panic(words in prop::collection::vec(any::<u32>(), 1..64)) {
        let text: String = words.iter().map(|word| format!(".word {word:#x}\n")).collect();
        let image = asm::assemble(&text, Profile::Xbgas2).unwrap();
        let config = MachineConfig { n_nodes: 2, ram_bytes: 1 << 16, profile: Profile::Xbgas2, ..MachineConfig::default() };
        let mut machine = Machine::new(&config, &image).unwrap();
        match machine.run(2000) {
            Err(Error::Fault(fault)) => prop_assert!(!fault.to_string().is_empty()),
            Ok(_) | Err(Error::NoEnd(_) | Error::AllWait | Error::Config(_)) => {}
            Err(why) => prop_assert!(false, "{}", why),
        }
    }

    #[test]
    fn no_text_makes_the_assembler_panic(text in "[ -~\n]{0,80}|(addi|lw|li|la|beq|\\.word|\\.align|\\.asciz|fadd\\.s|csrrw) [ -~]{0,30}") {
        let _ = asm::assemble(&text, Profile::Rae2020).is_ok();
    }
}

#[test]
fn the_assembler_names_the_line_and_what_is_wrong() {
    let cases = [
        ("nop\nfrob a0", "line 2: there is no instruction frob"),
        (
            "addi a0, a1, 2048",
            "line 1: 2048 is 2048, which is not between -2048 and 2047",
        ),
        ("addi a0, a1", "another number of operands"),
        ("lw a0, 4(q7)", "q7 is no integer register"),
        (
            "j nowhere",
            "`nowhere` is neither a number nor a name known here",
        ),
        ("a: nop\na: nop", "`a` is defined already"),
        (".frob 1", "there is no directive .frob"),
        ("beq a0, a1, 3", "which a jump cannot reach"),
        ("li a0, later\n.equ later, 5", "neither a number nor a name"),
        (".asciz hi", "no text in quotes"),
        (".byte 1 / 0", "a division has no result"),
        (".byte 255, -128, 256", "256 does not fit into 8 bits"),
        (".half 65535, -32769", "-32769 does not fit into 16 bits"),
        (".word 1 << 32", "4294967296 does not fit into 32 bits"),
        ("ese e1, 0(a0)\n.word 1 +", "a number is missing"),
        ("fadd.d fa0, fa1, fa2, up", "no rounding mode"),
        (".align 40", "an alignment is a power of two"),
        (".word 1, 2,, 3", "line 1: operand 3 of .word is missing"),
        (".word 1,", "operand 2 of .word is missing"),
        ("add a0,, a1, a2", "operand 2 of add is missing"),
        ("nop ,", "operand 1 of nop is missing"),
        (".space 4, 1, 5", ".space takes at most 2 operands"),
        (".equ k, 1, 2", ".equ takes at most 2 operands"),
        (
            "eamoswap.d a0, a1, (a2)",
            "there is no instruction eamoswap.d",
        ),
    ];
    for (source, why) in cases {
        let error = asm::assemble(source, Profile::Rae2020)
            .unwrap_err()
            .to_string();
        assert!(error.contains(why), "{source}: {error}");
    }
}

#[test]
fn expressions_and_directives_have_the_values_of_c() {
    let source = ".equ k, 3\n .byte 1 + 2 * k, (1 + 2) * k, -1, ~0 & 0x7f, 1 << 4 | 2, 'A', 7 / 2 % 2\n .half 0x1234\n .ascii \"a\\n\"\n .balign 4\n .word end - start\n start: .space 3, 0xee\n end: 1: .dword 1b\n";
    let image = asm::assemble(source, Profile::Rae2020).unwrap();
    let bytes = &image.segments[0].bytes;
    assert_eq!(bytes[..7], [7, 9, 255, 127, 18, 65, 1]);
    assert_eq!(bytes[7..11], [0x34, 0x12, b'a', b'\n']);
    assert_eq!(bytes[12..19], [3, 0, 0, 0, 0xee, 0xee, 0xee]);
    assert_eq!(bytes[19..], (0x8000_0000_u64 + 19).to_le_bytes());
}

#[test]
fn no_operand_is_lost_beside_commas_and_quotes() {
    let source = r##"
        .ascii "a", "b, c" # more
        .asciz "\\", "#" // and "
        .byte ',', '#', ';', '"' ; .byte '(', 7 # '
        .p2align 2,,3
    "##;
    let image = asm::assemble(source, Profile::Rae2020).unwrap();
    let expected = b"ab, c\\\0#\0,#;\"(\x07";
    assert_eq!(image.segments[0].bytes[..expected.len()], *expected);
    assert_eq!(
        image.segments[0].bytes.len(),
        expected.len().next_multiple_of(4)
    );
}

#[test]
fn the_lower_part_of_a_distance_belongs_to_its_auipc() {
    let source = "_start: li t2, 7
  first: auipc t0, %pcrel_hi(far)
         nop
         ld    a0, %pcrel_lo(first)(t0)
         addi  a1, t0, %pcrel_lo(first)
     1:  auipc t0, %pcrel_hi(far + 8)
         sd    t2, %pcrel_lo(1b)(t0)
         bne   t2, t2, first
         ld    a1, 8(a1)
         sub   a0, a0, a1
         addi  a0, a0, -5
         li    a7, 93
         ecall
         .data
         .zero 4000
    far: .dword 12, 0";
    let image = asm::assemble(source, Profile::Rae2020).unwrap();
    let config = MachineConfig {
        n_nodes: 1,
        ram_bytes: 1 << 20,
        ..MachineConfig::default()
    };
    let mut machine = Machine::new(&config, &image).unwrap();
    assert_eq!(machine.run(1000).unwrap(), Outcome::Success);
    let lonely = "here: addi a0, a0, %pcrel_lo(here)";
    let error = asm::assemble(lonely, Profile::Rae2020).unwrap_err();
    assert!(error.to_string().contains("no auipc"), "{error}");
}
