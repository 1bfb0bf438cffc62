//! The disassembler writes what binutils' objdump writes: every compressed instruction, and many
//! words of every standard row.

use std::process::Command;

use pgas_riscv_sim::disasm::disassemble;
use pgas_riscv_sim::isa::{Extension, Op, Profile, ROWS};

/// What objdump makes of raw code: the text of each instruction, in order.
fn objdump(code: &[u8]) -> Vec<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), code).unwrap();
    let output = Command::new("riscv64-unknown-elf-objdump")
        .args(["-D", "-z", "-b", "binary", "-m", "riscv:rv64"])
        .arg(file.path())
        .output()
        .expect("objdump is there: `cargo xtask setup` installs binutils-riscv64-unknown-elf");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .filter_map(|line| {
            let (_, rest) = line.split_once(":\t")?;
            let (_, text) = rest.split_once('\t')?;
            // What follows is a name or a remark for the reader.
            let text = text.split(['#', '<']).next().unwrap_or(text);
            Some(text.trim().to_owned())
        })
        .collect()
}

fn ours(word: u32, pc: u64) -> String {
    let line = disassemble(word, pc, Profile::Rae2020);
    match line.target {
        // objdump writes where a jump goes with 0x in a file without symbols.
        Some(target) => line
            .text
            .replace(&format!("{target:x}"), &format!("{target:#x}")),
        None => line.text,
    }
}

/// Compressed instructions without effect, which objdump writes in a form of their own, and the one
/// reserved halfword that it knows.
fn is_hint(theirs: &str, word: u32) -> bool {
    theirs.starts_with("c.") || word == 0x6101 || word & 0xf07f == 1
}

/// Release 2.40 writes immediate forms by the name of the register form (`add sp,sp,-16`), which
/// earlier and later ones do not. The rest of the line must be ours.
fn as_later_releases(theirs: &str, ours: &str) -> String {
    let (Some((their_name, rest)), Some((our_name, _))) =
        (theirs.split_once('\t'), ours.split_once('\t'))
    else {
        return theirs.to_owned();
    };
    let immediate = match their_name.strip_suffix('w') {
        Some(stem) if !their_name.starts_with("csr") => format!("{stem}iw"),
        _ => format!("{their_name}i"),
    };
    if immediate == our_name {
        format!("{our_name}\t{rest}")
    } else {
        theirs.to_owned()
    }
}

fn compare(words: &[u32], n_bytes: usize) {
    let code: Vec<u8> = words
        .iter()
        .flat_map(|word| word.to_le_bytes().into_iter().take(n_bytes))
        .collect();
    let theirs = objdump(&code);
    assert_eq!(theirs.len(), words.len());
    let mut different = Vec::new();
    let mut n_hints = 0;
    for ((word, theirs), k) in words.iter().zip(&theirs).zip(0..) {
        let ours = ours(*word, k * n_bytes as u64);
        if n_bytes == 2 && is_hint(theirs, *word) {
            n_hints += 1;
        } else if ours != *theirs && ours != as_later_releases(theirs, &ours) {
            different.push(format!("{word:08x}: {ours:?}, objdump {theirs:?}"));
        }
    }
    let n = different.len();
    assert!(n_hints < 450, "{n_hints} are taken for hints");
    different.truncate(60);
    assert!(
        n == 0,
        "{n} of {} differ:\n{}",
        words.len(),
        different.join("\n")
    );
}

#[test]
fn every_compressed_instruction_is_written_as_objdump_does() {
    let words: Vec<u32> = (0..=0xffff).filter(|word| word & 3 != 3).collect();
    compare(&words, 2);
}

#[test]
fn the_words_of_every_standard_row_are_written_as_objdump_does() {
    let mut random = fastrand::Rng::with_seed(6);
    let mut words = Vec::new();
    for row in ROWS {
        if matches!(
            row.extension,
            Extension::Xbgas
                | Extension::Xbgas0
                | Extension::Xbgas2
                | Extension::Rae
                | Extension::Xamo
        ) {
            continue;
        }
        for k in 0..300 {
            let free = match k {
                0 => 0,
                1 => u32::MAX,
                // Few registers, so that pseudo-instructions come up.
                2..150 => random.u32(..) & 0xfff0_8080,
                _ => random.u32(..),
            };
            let word = row.value | (free & !row.mask);
            if !has_ignored_bits(row.op, word) {
                words.push(word);
            }
        }
    }
    compare(&words, 4);
}

/// Bits that the hardware ignores, and that objdump takes for another instruction.
fn has_ignored_bits(op: Op, word: u32) -> bool {
    match op {
        Op::Fence => word & !0x0ff0_707f != 0,
        Op::FenceI => word & !0x0000_707f != 0,
        Op::FcvtDS | Op::FcvtDW | Op::FcvtDWu => word & 0x7000 != 0,
        _ => false,
    }
}
