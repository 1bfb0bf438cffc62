//! Guests as ELF files: what to put where, where to start, and what the addresses are called.

#![expect(
    clippy::cast_possible_truncation,
    reason = "addresses are 64 bits wide, as those of the host are"
)]

use std::ops::Range;

use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Architecture, LittleEndian, Object as _, ObjectSymbol as _, SymbolKind, elf};

use crate::error::{Error, Result};
use crate::memory::RAM_BASE;

/// A guest: bytes and their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The address of the first instruction.
    pub entry: u64,
    /// What lies where at the start. What lies nowhere is zero.
    pub segments: Vec<Segment>,
    /// Names of addresses, sorted by address.
    pub symbols: Vec<Symbol>,
    /// Where the file's program headers lie, if they are loaded, and how many there are.
    pub program_headers: Option<(u64, u64)>,
    /// Which parts of the file lie where.
    pub mappings: Vec<Mapping>,
}

/// A part of a program's file, in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Where it lies.
    pub addresses: Range<u64>,
    /// Where in the file it begins.
    pub offset: u64,
    /// Whether it has instructions.
    pub is_code: bool,
}

/// Bytes that lie one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where they lie.
    pub address: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// How many bytes it has in memory; those beyond `bytes` are zero.
    pub n_bytes: u64,
}

/// The name of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The address.
    pub address: u64,
    /// The name.
    pub name: String,
}

impl Image {
    /// Reads an ELF file: 64 bits, little-endian, RISC-V, linked to fixed addresses: from [`RAM_BASE`] on for a guest of the
    /// bare machine, and lower for a static program of Linux.
    ///
    /// # Errors
    /// [`Error::Elf`] says what is wrong with the file.
    pub fn from_elf(file: &[u8]) -> Result<Self> {
        let bad = |what: object::Error| Error::Elf(what.to_string());
        let parsed = ElfFile64::<LittleEndian>::parse(file).map_err(bad)?;
        let endian = parsed.endian();
        check_kind(&parsed)?;
        let entry = parsed.entry();
        let is_bare = entry >= RAM_BASE;
        let mut mappings = Vec::new();
        let mut segments = Vec::new();
        for header in parsed.elf_program_headers() {
            if header.p_type(endian) != elf::PT_LOAD || header.p_memsz(endian) == 0 {
                continue;
            }
            let cut = || Error::Elf("a segment lies beyond the end of the file".to_owned());
            let bytes = header.data(endian, file).map_err(|()| cut())?;
            let n_bytes = header.p_memsz(endian);
            if bytes.len() as u64 > n_bytes {
                return Err(Error::Elf(
                    "a segment has more bytes in the file than in memory".to_owned(),
                ));
            }
            let address = match is_bare {
                true => header.p_paddr(endian),
                false => header.p_vaddr(endian),
            };
            mappings.push(Mapping {
                addresses: address..address.saturating_add(bytes.len() as u64),
                offset: header.p_offset(endian),
                is_code: header.p_flags(endian).contains(elf::PF_X),
            });
            // A linker may put the file's own headers before the first section, below the memory. No guest wants them.
            let end = address.saturating_add(n_bytes);
            let before =
                is_bare && header.p_offset(endian) == 0 && address < RAM_BASE && end > RAM_BASE;
            let skip = if before { RAM_BASE - address } else { 0 };
            segments.push(Segment {
                address: address + skip,
                bytes: bytes.get(skip as usize..).unwrap_or(&[]).to_vec(),
                n_bytes: n_bytes - skip,
            });
        }
        if segments.is_empty() {
            return Err(Error::Elf("the file has nothing to load".to_owned()));
        }
        Ok(Self {
            entry,
            segments,
            symbols: symbols(&parsed),
            program_headers: program_headers(&parsed, &mappings),
            mappings,
        })
    }

    /// Whether it is a program of Linux: it starts where the bare machine has no memory.
    #[must_use]
    pub const fn is_linux(&self) -> bool {
        self.entry < RAM_BASE
    }

    /// The address of a name.
    #[must_use]
    pub fn address_of(&self, name: &str) -> Option<u64> {
        let named = |symbol: &&Symbol| symbol.name == name;
        self.symbols.iter().find(named).map(|symbol| symbol.address)
    }

    /// The name at or before an address, and the distance from it.
    #[must_use]
    pub fn symbol_at(&self, address: u64) -> Option<(&str, u64)> {
        let after = self
            .symbols
            .partition_point(|symbol| symbol.address <= address);
        let symbol = self.symbols.get(after.checked_sub(1)?)?;
        Some((&symbol.name, address - symbol.address))
    }
}

/// Refuses what is no program that can be loaded as it is.
fn check_kind(file: &ElfFile64<'_, LittleEndian>) -> Result<()> {
    if file.architecture() != Architecture::Riscv64 {
        return Err(Error::Elf("the file is not for 64-bit RISC-V".to_owned()));
    }
    let mut headers = file.elf_program_headers().iter();
    if headers.any(|it| it.p_type(file.endian()) == elf::PT_INTERP) {
        let what = "the file needs a dynamic linker (link it with -static, in Rust with -C target-feature=+crt-static)";
        return Err(Error::Elf(what.to_owned()));
    }
    if file.elf_header().e_type(file.endian()) != elf::ET_EXEC {
        let what = "the file is not linked to fixed addresses (link it with -static -no-pie)";
        return Err(Error::Elf(what.to_owned()));
    }
    Ok(())
}

/// Where the program headers lie, and how many there are, if a part of the file that is loaded has them.
fn program_headers(file: &ElfFile64<'_, LittleEndian>, mappings: &[Mapping]) -> Option<(u64, u64)> {
    let offset = file.elf_header().e_phoff(file.endian());
    let n_headers = file.elf_program_headers().len() as u64;
    mappings.iter().find_map(|mapping| {
        let place = offset.checked_sub(mapping.offset)?;
        let address = mapping.addresses.start.checked_add(place)?;
        mapping
            .addresses
            .contains(&address)
            .then_some((address, n_headers))
    })
}

fn symbols(file: &ElfFile64<'_, LittleEndian>) -> Vec<Symbol> {
    let mut symbols: Vec<Symbol> = file
        .symbols()
        .filter(|symbol| {
            !symbol.is_undefined()
                && !matches!(symbol.kind(), SymbolKind::File | SymbolKind::Section)
        })
        .filter_map(|symbol| {
            let name = symbol.name().ok()?;
            // Mapping symbols say where code and data start, and are nobody's names.
            (!name.is_empty() && !name.starts_with('$')).then(|| Symbol {
                address: symbol.address(),
                name: name.to_owned(),
            })
        })
        .collect();
    symbols.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
    symbols
}
