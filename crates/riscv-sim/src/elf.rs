//! Guests as ELF files: what to put where, where to start, and what the addresses are called.

#![expect(
    clippy::cast_possible_truncation,
    reason = "addresses are 64 bits wide, as those of the host are"
)]

use std::ops::Range;

use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Architecture, LittleEndian, Object as _, ObjectSymbol as _, SymbolKind, elf};

use crate::error::{Error, Result};
use crate::linux::PROCESS_BASE;
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
    /// Reads an ELF file: 64 bits, little-endian, RISC-V. A guest of the bare machine is linked to
    /// fixed addresses from [`RAM_BASE`] on, and a static program of Linux to lower ones. A static
    /// program that relocates itself (`-static-pie`) is one of Linux, and lies from
    /// [`PROCESS_BASE`] on, as far above as its alignment demands.
    ///
    /// # Errors
    /// [`Error::Elf`] says what is wrong with the file.
    pub fn from_elf(file: &[u8]) -> Result<Self> {
        let bad =
            |what: object::Error| Error::Elf(format!("the file is damaged or cut short: {what}"));
        check_header(file)?;
        let parsed = ElfFile64::<LittleEndian>::parse(file).map_err(bad)?;
        let endian = parsed.endian();
        let bias = bias(&parsed)?;
        let beyond = || Error::Elf("the file has an address beyond all memory".to_owned());
        let entry = parsed.entry().checked_add(bias).ok_or_else(beyond)?;
        let is_bare = entry >= RAM_BASE;
        let mut mappings = Vec::new();
        let mut segments = Vec::new();
        let mut left = copied_at_most(file);
        for header in parsed.elf_program_headers() {
            if header.p_type(endian) != elf::PT_LOAD || header.p_memsz(endian) == 0 {
                continue;
            }
            let cut = || Error::Elf("a segment lies beyond the end of the file".to_owned());
            let bytes = header.data(endian, file).map_err(|()| cut())?;
            left = left.checked_sub(bytes.len()).ok_or_else(|| {
                Error::Elf("segments have the same bytes of the file again and again".to_owned())
            })?;
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
            let address = address.checked_add(bias).ok_or_else(beyond)?;
            mappings.push(Mapping {
                addresses: address..address.saturating_add(bytes.len() as u64),
                offset: header.p_offset(endian),
                is_code: header.p_flags(endian).contains(elf::PF_X),
            });
            // A linker may put the file's own headers before the first section, below the memory.
            // No guest wants them.
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
            symbols: symbols(&parsed, bias, copied_at_most(file))?,
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

/// Refuses what is no ELF file of 64 bits in the order of bytes that RISC-V has.
fn check_header(file: &[u8]) -> Result<()> {
    const HEADER_BYTES: usize = 64;
    let what = match file {
        [0x7f, b'E', b'L', b'F', 1, ..] => "the file is for 32-bit processors",
        [0x7f, b'E', b'L', b'F', 2, 2, ..] => "the file is for big-endian processors",
        [0x7f, b'E', b'L', b'F', 2, 1, ..] if file.len() >= HEADER_BYTES => return Ok(()),
        [0x7f, b'E', b'L', b'F', 2, 1, ..] => "the file ends within its ELF header",
        [] => "the file is empty",
        _ => "the file is no ELF file",
    };
    Err(Error::Elf(what.to_owned()))
}

/// What is added to all addresses of a program, which is refused if it cannot be loaded: 0 if it is
/// linked to fixed ones.
fn bias(file: &ElfFile64<'_, LittleEndian>) -> Result<u64> {
    if file.architecture() != Architecture::Riscv64 {
        return Err(Error::Elf("the file is not for 64-bit RISC-V".to_owned()));
    }
    let mut headers = file.elf_program_headers().iter();
    if headers.any(|it| it.p_type(file.endian()) == elf::PT_INTERP) {
        let what = "the file needs a dynamic linker (link it with -static, in Rust with -C target-feature=+crt-static)";
        return Err(Error::Elf(what.to_owned()));
    }
    match file.elf_header().e_type(file.endian()) {
        elf::ET_EXEC => Ok(0),
        elf::ET_DYN if is_program(file) => aligned_base(file),
        elf::ET_DYN => Err(Error::Elf(
            "the file is a library, not a program".to_owned(),
        )),
        elf::ET_REL => Err(Error::Elf(
            "the file is an object that has not been linked".to_owned(),
        )),
        _ => Err(Error::Elf("the file is no program".to_owned())),
    }
}

/// The lowest address from [`PROCESS_BASE`] on at which all segments are aligned as they want to be.
fn aligned_base(file: &ElfFile64<'_, LittleEndian>) -> Result<u64> {
    const MOST: u64 = RAM_BASE / 2;
    let headers = file.elf_program_headers().iter();
    let loaded = headers.filter(|it| it.p_type(file.endian()) == elf::PT_LOAD);
    let most = loaded.map(|it| it.p_align(file.endian())).max();
    match most.unwrap_or(0).max(1) {
        bytes if bytes <= MOST => Ok(PROCESS_BASE.next_multiple_of(bytes)),
        bytes => Err(Error::Elf(format!(
            "a segment is aligned to {bytes} bytes, and at most {MOST} can be had"
        ))),
    }
}

/// Whether a file without fixed addresses is a program: its linker has said so.
fn is_program(file: &ElfFile64<'_, LittleEndian>) -> bool {
    let endian = file.endian();
    let mut headers = file.elf_program_headers().iter();
    let entries = headers.find_map(|header| header.dynamic(endian, file.data()).ok()?);
    let mut entries = entries.unwrap_or_default().iter();
    entries.any(|entry| {
        entry.d_tag.get(endian) == elf::DT_FLAGS_1 && entry.d_val.get(endian) & elf::DF_1_PIE.0 != 0
    })
}

/// Where the program headers lie, and how many there are, if a part of the file that is loaded has
/// them.
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

/// The bytes of a file that are copied out of it at most. Neighbours share a few of them, but a
/// forged file may name the same ones any number of times.
fn copied_at_most(file: &[u8]) -> usize {
    file.len().saturating_mul(4)
}

/// The names of addresses, which have `left` bytes at most.
fn symbols(file: &ElfFile64<'_, LittleEndian>, bias: u64, mut left: usize) -> Result<Vec<Symbol>> {
    let mut symbols = Vec::new();
    let addresses = file.symbols().filter(|symbol| {
        // Those of a thread's variables are places within a block of each thread.
        let is_address = !matches!(
            symbol.kind(),
            SymbolKind::File | SymbolKind::Section | SymbolKind::Tls
        );
        !symbol.is_undefined() && is_address
    });
    for symbol in addresses {
        let Ok(name) = symbol.name() else {
            continue;
        };
        // Mapping symbols say where code and data start, and are nobody's names.
        if name.is_empty() || name.starts_with('$') {
            continue;
        }
        left = left.checked_sub(name.len()).ok_or_else(|| {
            Error::Elf("the names of symbols are longer than the file".to_owned())
        })?;
        symbols.push(Symbol {
            address: symbol.address().wrapping_add(bias),
            name: name.to_owned(),
        });
    }
    symbols.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
    Ok(symbols)
}
