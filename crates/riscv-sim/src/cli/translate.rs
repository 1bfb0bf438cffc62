//! `rae disasm` and `rae asm`.

#![expect(clippy::cast_possible_truncation, reason = "a file fits into memory")]

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use pgas_riscv_sim::disasm::disassemble as one;
use pgas_riscv_sim::isa::Profile;
use pgas_riscv_sim::{Image, asm};

use super::{Asm, Disasm, Trouble, check_names, guest, printed, read_text};

pub(super) fn assemble(arguments: &Asm) -> Result<ExitCode, Trouble> {
    check_names(&[&arguments.output], &[&arguments.source])?;
    let name = arguments.source.display();
    let text = read_text(&arguments.source).map_err(|why| format!("{name}: {why}"))?;
    let image = asm::assemble(&text, arguments.encodings.profile())
        .map_err(|why| format!("{name}: {why}"))?;
    std::fs::write(&arguments.output, asm::to_elf(&image))
        .map_err(|why| format!("{}: {why}", arguments.output.display()))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn disassemble(arguments: &Disasm) -> Result<ExitCode, Trouble> {
    let profile = arguments.encodings.profile();
    let mut out = BufWriter::new(io::stdout().lock());
    match arguments.what.as_slice() {
        [file] if Path::new(file).exists() => {
            printed(listing(
                &mut out,
                &guest(Path::new(file), profile)?,
                profile,
            ))?;
        }
        words => {
            for word in words {
                let word = word.to_string_lossy();
                let digits = word.strip_prefix("0x").unwrap_or(&word);
                let bits = u32::from_str_radix(digits, 16).map_err(|_| {
                    format!("{word}: neither a file nor up to 8 hexadecimal digits")
                })?;
                let line = one(bits, 0, profile).text;
                printed(writeln!(out, "{digits:>8}\t{line}"))?;
            }
        }
    }
    printed(out.flush())?;
    Ok(ExitCode::SUCCESS)
}

/// Everything in the guest's segments, instruction by instruction; data are written as what they
/// would be.
fn listing(out: &mut impl Write, image: &Image, profile: Profile) -> io::Result<()> {
    for segment in &image.segments {
        let mut offset = 0;
        while let Some(rest) = segment.bytes.get(offset..)
            && rest.len() >= 2
        {
            let mut bytes = [0; 4];
            let n_bytes = rest.len().min(4);
            bytes[..n_bytes].copy_from_slice(&rest[..n_bytes]);
            let word = u32::from_le_bytes(bytes);
            let pc = segment.address + offset as u64;
            if let Some((name, 0)) = image.symbol_at(pc) {
                writeln!(out, "\n{pc:016x} <{name}>:")?;
            }
            let line = one(word, pc, profile);
            let hex = if line.len == 2 {
                format!("{:04x}", word & 0xffff)
            } else {
                format!("{word:08x}")
            };
            writeln!(
                out,
                "{pc:8x}:\t{hex:8}\t{}{}",
                line.text,
                target(image, line.target)
            )?;
            offset += line.len as usize;
        }
    }
    Ok(())
}

fn target(image: &Image, target: Option<u64>) -> String {
    match target.and_then(|target| image.symbol_at(target)) {
        Some((name, 0)) => format!(" <{name}>"),
        Some((name, distance)) => format!(" <{name}+{distance:#x}>"),
        None => String::new(),
    }
}
