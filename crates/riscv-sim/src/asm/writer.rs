//! Guests as ELF files, with their symbols.

use crate::elf::Image;

const PAGE_BYTES: u64 = 4096;
const HEADER_BYTES: u64 = 64;
const PROGRAM_HEADER_BYTES: u64 = 56;
const SECTION_HEADER_BYTES: u64 = 64;
const SYMBOL_BYTES: u64 = 24;
const RISCV: u16 = 243;
const EXECUTABLE: u16 = 2;
/// The names of the sections, each ended by a zero.
const SECTION_NAMES: &[u8] = b"\0.symtab\0.strtab\0.shstrtab\0.text\0";
const NAME_SYMTAB: u32 = 1;
const NAME_STRTAB: u32 = 9;
const NAME_SHSTRTAB: u32 = 17;
const NAME_TEXT: u32 = 27;

/// The guest as an ELF executable: all segments in one piece, on whole pages, as operating systems
/// want it.
#[must_use]
pub fn to_elf(image: &Image) -> Vec<u8> {
    let n_segments = image.segments.len() as u64;
    // Null, one a segment, symbols, their names, the sections' names.
    let n_sections = n_segments + 4;
    let base = image.segments.iter().map(|segment| segment.address).min();
    let base = base.unwrap_or(0) & !(PAGE_BYTES - 1);
    let place = |address: u64| PAGE_BYTES + (address - base);
    let mut body = vec![0; (PAGE_BYTES - HEADER_BYTES - PROGRAM_HEADER_BYTES) as usize];
    let data = HEADER_BYTES + PROGRAM_HEADER_BYTES;
    for segment in &image.segments {
        let start = (place(segment.address) - data) as usize;
        let end = start + segment.n_bytes as usize;
        body.resize(body.len().max(end), 0);
        body[start..start + segment.bytes.len()].copy_from_slice(&segment.bytes);
    }
    let loaded = data + body.len() as u64 - PAGE_BYTES;
    let (symbols, names) = symbol_table(image);
    let mut tables = Vec::new();
    for table in [&symbols, &names, &SECTION_NAMES.to_vec()] {
        body.resize(body.len().next_multiple_of(8), 0);
        tables.push((data + body.len() as u64, table.len() as u64));
        body.extend(table);
    }
    body.resize(body.len().next_multiple_of(8), 0);
    let mut out = Writer(Vec::new());
    out.0.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    out.half(EXECUTABLE).half(RISCV).word(1);
    out.long(image.entry).long(HEADER_BYTES);
    out.long(data + body.len() as u64);
    // Flags: double-precision floats in registers, compressed instructions may occur.
    out.word(5).half(HEADER_BYTES as u16);
    out.half(PROGRAM_HEADER_BYTES as u16).half(1);
    out.half(SECTION_HEADER_BYTES as u16);
    out.half(n_sections as u16).half(n_sections as u16 - 1);
    // Loaded; readable, writable, executable.
    out.word(1).word(7).long(PAGE_BYTES).long(base).long(base);
    out.long(loaded).long(loaded).long(PAGE_BYTES);
    out.0.extend(body);
    out.section(&Header::default());
    for segment in &image.segments {
        out.section(&Header {
            name: NAME_TEXT,
            kind: 1,
            flags: 7,
            address: segment.address,
            place: (place(segment.address), segment.n_bytes),
            ..Header::default()
        });
    }
    let link = n_segments as u32 + 2;
    let kinds = [(NAME_SYMTAB, 2), (NAME_STRTAB, 3), (NAME_SHSTRTAB, 3)];
    for ((name, kind), place) in kinds.into_iter().zip(tables) {
        let is_symbols = kind == 2;
        out.section(&Header {
            name,
            kind,
            place,
            link: if is_symbols { link } else { 0 },
            info: u32::from(is_symbols),
            entry: if is_symbols { SYMBOL_BYTES } else { 0 },
            ..Header::default()
        });
    }
    out.0
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
