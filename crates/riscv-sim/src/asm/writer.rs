//! Guests as ELF files, with their symbols.

use crate::elf::{Image, Segment};

const PAGE_BYTES: u64 = 4096;
const HEADER_BYTES: u64 = 64;
const PROGRAM_HEADER_BYTES: u64 = 56;
const SECTION_HEADER_BYTES: u64 = 64;
const SYMBOL_BYTES: u64 = 24;
const RISCV: u16 = 243;
const EXECUTABLE: u16 = 2;
/// The kind of a section whose bytes are in the file, and of one that is zero.
const BYTES: u32 = 1;
const ZEROS: u32 = 8;
/// The names of the sections, each ended by a zero.
const SECTION_NAMES: &[u8] = b"\0.symtab\0.strtab\0.shstrtab\0.text\0";
const NAME_SYMTAB: u32 = 1;
const NAME_STRTAB: u32 = 9;
const NAME_SHSTRTAB: u32 = 17;
const NAME_TEXT: u32 = 27;

/// The guest as an ELF executable: all segments in one piece, on whole pages, as operating systems
/// want it. Zeros at its end take no room in the file.
#[must_use]
pub fn to_elf(image: &Image) -> Vec<u8> {
    let base = image.segments.iter().map(|segment| segment.address).min();
    let base = base.unwrap_or(0) & !(PAGE_BYTES - 1);
    let place = |address: u64| PAGE_BYTES + (address - base);
    let mut body = vec![0; (PAGE_BYTES - HEADER_BYTES - PROGRAM_HEADER_BYTES) as usize];
    let data = HEADER_BYTES + PROGRAM_HEADER_BYTES;
    for segment in image.segments.iter().filter(|it| !it.bytes.is_empty()) {
        let start = (place(segment.address) - data) as usize;
        let end = start + segment.bytes.len();
        body.resize(body.len().max(end), 0);
        body[start..end].copy_from_slice(&segment.bytes);
    }
    let stored = data + body.len() as u64 - PAGE_BYTES;
    let ends = image.segments.iter().map(|it| it.address + it.n_bytes);
    let loaded = ends.max().unwrap_or(base) - base;
    let mut headers = vec![Header::default()];
    for segment in &image.segments {
        headers.extend(loaded_sections(
            segment,
            place(segment.address),
            base + stored,
        ));
    }
    let (symbols, names) = symbol_table(image);
    let mut tables = Vec::new();
    for table in [&symbols, &names, &SECTION_NAMES.to_vec()] {
        body.resize(body.len().next_multiple_of(8), 0);
        tables.push((data + body.len() as u64, table.len() as u64));
        body.extend(table);
    }
    body.resize(body.len().next_multiple_of(8), 0);
    headers.extend(table_sections(&tables, headers.len() as u32 + 1));
    let n_sections = headers.len() as u16;
    let mut out = Writer(Vec::new());
    out.0.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    out.half(EXECUTABLE).half(RISCV).word(1);
    out.long(image.entry).long(HEADER_BYTES);
    out.long(data + body.len() as u64);
    // Flags: double-precision floats in registers, compressed instructions may occur.
    out.word(5).half(HEADER_BYTES as u16);
    out.half(PROGRAM_HEADER_BYTES as u16).half(1);
    out.half(SECTION_HEADER_BYTES as u16);
    out.half(n_sections).half(n_sections - 1);
    // Loaded; readable, writable, executable.
    out.word(1).word(7).long(PAGE_BYTES).long(base).long(base);
    out.long(stored).long(loaded).long(PAGE_BYTES);
    out.0.extend(body);
    headers.iter().for_each(|header| out.section(header));
    out.0
}

/// The section of a segment's bytes in the file, which end at `stored`, and that of zeros behind
/// them.
fn loaded_sections(segment: &Segment, place: u64, stored: u64) -> Vec<Header> {
    let in_file = stored.saturating_sub(segment.address).min(segment.n_bytes);
    let section = |kind, offset, n_bytes| Header {
        name: NAME_TEXT,
        kind,
        flags: 7,
        address: segment.address + offset,
        place: (place + offset, n_bytes),
        ..Header::default()
    };
    let rest = segment.n_bytes - in_file;
    let both = [(BYTES, 0, in_file), (ZEROS, in_file, rest)];
    let used = both.into_iter().filter(|(.., n_bytes)| *n_bytes > 0);
    used.map(|(kind, offset, n_bytes)| section(kind, offset, n_bytes))
        .collect()
}

/// The sections of the symbols, their names, which are section `names`, and the sections' names.
fn table_sections(tables: &[(u64, u64)], names: u32) -> Vec<Header> {
    let kinds = [(NAME_SYMTAB, 2), (NAME_STRTAB, 3), (NAME_SHSTRTAB, 3)];
    let sections = kinds.into_iter().zip(tables);
    let section = |((name, kind), place): ((u32, u32), &(u64, u64))| {
        let is_symbols = kind == 2;
        Header {
            name,
            kind,
            place: *place,
            link: if is_symbols { names } else { 0 },
            info: u32::from(is_symbols),
            entry: if is_symbols { SYMBOL_BYTES } else { 0 },
            ..Header::default()
        }
    };
    sections.map(section).collect()
}

fn symbol_table(image: &Image) -> (Vec<u8>, Vec<u8>) {
    let mut table = Writer(vec![0; SYMBOL_BYTES as usize]);
    let mut names = vec![0];
    for symbol in &image.symbols {
        // Global, with a value that belongs to no section.
        table.word(names.len() as u32);
        table.0.extend([0x10, 0]);
        table.half(0xfff1).long(symbol.address).long(0);
        names.extend(symbol.name.as_bytes());
        names.push(0);
    }
    (table.0, names)
}

/// The header of a section.
#[derive(Default)]
struct Header {
    name: u32,
    kind: u32,
    flags: u64,
    address: u64,
    place: (u64, u64),
    link: u32,
    info: u32,
    entry: u64,
}

struct Writer(Vec<u8>);

impl Writer {
    fn half(&mut self, value: u16) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn word(&mut self, value: u32) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn long(&mut self, value: u64) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn section(&mut self, header: &Header) {
        self.word(header.name).word(header.kind).long(header.flags);
        self.long(header.address)
            .long(header.place.0)
            .long(header.place.1);
        self.word(header.link)
            .word(header.info)
            .long(1)
            .long(header.entry);
    }
}
