//! FASTA by bytes: a share may begin and end anywhere, within a header, a line or a line end.
//!
//! A record parser does not work here: it does not tell the byte position of a base, and keeps a
//! whole chromosome in memory.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::atomic::Ordering;

use memchr::{memchr, memchr2};

use super::source::{BLOCK, SourceFile, read_block};
use super::{Progress, Segment, Share, Summary, find_bad_byte};
use crate::error::{Fault, Result};
use crate::{Error, KmerLength};

/// The letters in one chunk of a sequence. It is the same on all ranks, which count the chunks to
/// share a gzip file.
const PIECE: usize = 64 << 10;

/// Reads the bytes of a plain file in `range`, and then the letters that complete the k-mers begun
/// in it.
pub(super) fn read_range<E: From<Error>>(
    file: &SourceFile,
    range: Range<u64>,
    k: KmerLength,
    on_segment: impl FnMut(Segment<'_>) -> Result<(), E>,
    progress: &mut Progress<'_>,
) -> Result<Summary, E> {
    if range.is_empty() {
        return Ok(Summary::default());
    }
    let lines = Lines::at(file, range.start)?;
    let mut scanner = Scanner::new(file, lines, Share::whole(), k, on_segment);
    let mut bytes = file.bytes_from(range.start)?;
    let mut block = vec![0; BLOCK];
    let mut offset = range.start;
    while offset < range.end {
        let limit = (range.end - offset).min(BLOCK as u64);
        let n_read = read_block(&mut bytes.by_ref().take(limit), &mut block)
            .map_err(|error| file.read_error(error))?;
        if n_read == 0 {
            return Err(file.changed().into());
        }
        scanner.scan(&block[..n_read], offset)?;
        offset += n_read as u64;
        progress.at(offset - range.start);
    }
    scanner.complete(bytes, offset)?;
    scanner.finish(range.end - range.start)
}

/// Decompresses the whole file, and passes on this share's chunks.
pub(super) fn read_all<E: From<Error>>(
    file: &SourceFile,
    share: Share,
    k: KmerLength,
    on_segment: impl FnMut(Segment<'_>) -> Result<(), E>,
    progress: &mut Progress<'_>,
) -> Result<Summary, E> {
    let mut scanner = Scanner::new(file, Lines::default(), share, k, on_segment);
    let mut text = file.text()?;
    let compressed = text.compressed_counter();
    let mut block = vec![0; BLOCK];
    let mut offset = 0;
    loop {
        let n_read = read_block(&mut text, &mut block).map_err(|error| file.read_error(error))?;
        if n_read == 0 {
            return scanner.finish(file.len());
        }
        scanner.scan(&block[..n_read], offset)?;
        offset += n_read as u64;
        // Relaxed: only this thread writes it.
        progress.at(compressed.load(Ordering::Relaxed));
    }
}

/// A whole record.
#[derive(Default)]
pub(crate) struct Record {
    /// The line that follows the `>`.
    pub(crate) name: Vec<u8>,
    pub(crate) letters: Vec<u8>,
}

/// All records of a file.
pub(super) fn records(file: &SourceFile) -> Result<Vec<Record>> {
    let mut records: Vec<Record> = Vec::new();
    let mut lines = Lines::default();
    let mut text = file.text()?;
    let mut block = vec![0; BLOCK];
    let mut offset = 0;
    loop {
        let n_read = read_block(&mut text, &mut block).map_err(|error| file.read_error(error))?;
        if n_read == 0 {
            return Ok(records);
        }
        let mut rest = &block[..n_read];
        while !rest.is_empty() {
            let position = offset + (n_read - rest.len()) as u64;
            match (lines.next(file, &mut rest, position)?, records.last_mut()) {
                (Token::Record, _) => records.push(Record::default()),
                (Token::Name(part), Some(record)) => record.name.extend_from_slice(part),
                (Token::Letters(part), Some(record)) => record.letters.extend_from_slice(part),
                // Blank lines before the first record.
                (_, None) => {}
            }
        }
        offset += n_read as u64;
    }
}

/// Collects sequence lines into chunks, and passes on the share's chunks.
struct Scanner<'a, F> {
    file: &'a SourceFile,
    lines: Lines,
    share: Share,
    /// The overlap of a chunk with the next one: `k - 1`.
    overlap: usize,
    on_segment: F,
    piece: Vec<u8>,
    /// Whether the record has letters before the chunk.
    continues: bool,
    /// Letters of `piece` that no earlier chunk had.
    n_fresh: usize,
    /// The number of those that belong to this share instead of the next one.
    n_owned: u64,
    n_pieces: u64,
    n_records: u64,
    summary: Summary,
}

impl<'a, E: From<Error>, F: FnMut(Segment<'_>) -> Result<(), E>> Scanner<'a, F> {
    fn new(file: &'a SourceFile, lines: Lines, share: Share, k: KmerLength, on_segment: F) -> Self {
        Self {
            file,
            continues: lines.have_letters_before,
            lines,
            share,
            overlap: k.get() - 1,
            on_segment,
            piece: Vec::with_capacity(PIECE + k.get()),
            n_fresh: 0,
            n_owned: 0,
            n_pieces: 0,
            n_records: 0,
            summary: Summary::default(),
        }
    }

    /// Processes the next block, which begins at `offset` of the file's text.
    fn scan(&mut self, block: &[u8], offset: u64) -> Result<(), E> {
        let mut rest = block;
        while !rest.is_empty() {
            let position = offset + (block.len() - rest.len()) as u64;
            match self.lines.next(self.file, &mut rest, position)? {
                Token::Name(_) => {}
                Token::Record => self.start_record()?,
                Token::Letters(letters) => self.append(letters)?,
            }
        }
        Ok(())
    }

    fn start_record(&mut self) -> Result<(), E> {
        self.end_record()?;
        self.continues = false;
        self.summary.reads += u64::from(self.share.owns(self.n_records));
        self.n_records += 1;
        Ok(())
    }

    fn append(&mut self, mut letters: &[u8]) -> Result<(), E> {
        while !letters.is_empty() {
            let room = PIECE + self.overlap - self.piece.len();
            let (now, later) = letters.split_at(room.min(letters.len()));
            self.piece.extend_from_slice(now);
            self.n_fresh += now.len();
            self.n_owned += now.len() as u64;
            letters = later;
            if self.piece.len() == PIECE + self.overlap {
                self.hand_on()?;
                self.continues = true;
                self.piece.copy_within(PIECE.., 0);
                self.piece.truncate(self.overlap);
            }
        }
        Ok(())
    }

    /// After the share's last byte: reads on until the k-mers that begin in the share are complete.
    fn complete(&mut self, mut bytes: impl Read, mut offset: u64) -> Result<(), E> {
        let mut missing = if self.piece.is_empty() {
            0
        } else {
            self.overlap
        };
        let mut block = [0; 4096];
        while missing > 0 || self.lines.after_return {
            let n_read =
                read_block(&mut bytes, &mut block).map_err(|error| self.file.read_error(error))?;
            if n_read == 0 {
                return Ok(());
            }
            let mut rest = &block[..n_read];
            while !rest.is_empty() && (missing > 0 || self.lines.after_return) {
                let position = offset + (n_read - rest.len()) as u64;
                match self.lines.next(self.file, &mut rest, position)? {
                    Token::Name(_) => {}
                    Token::Record => return Ok(()),
                    Token::Letters(letters) => {
                        let needed = &letters[..missing.min(letters.len())];
                        self.piece.extend_from_slice(needed);
                        self.n_fresh += needed.len();
                        missing -= needed.len();
                    }
                }
            }
            offset += n_read as u64;
        }
        Ok(())
    }

    fn end_record(&mut self) -> Result<(), E> {
        if self.n_fresh > 0 {
            self.hand_on()?;
        }
        self.piece.clear();
        Ok(())
    }

    fn hand_on(&mut self) -> Result<(), E> {
        let mine = self.share.owns(self.n_pieces);
        self.n_pieces += 1;
        self.n_fresh = 0;
        let n_owned = std::mem::take(&mut self.n_owned);
        if mine {
            self.summary.bases += n_owned;
            (self.on_segment)(Segment {
                letters: &self.piece,
                continues: self.continues,
            })?;
        }
        Ok(())
    }

    fn finish(mut self, bytes: u64) -> Result<Summary, E> {
        self.end_record()?;
        self.summary.bytes = bytes;
        Ok(self.summary)
    }
}

/// The position of the next byte.
#[derive(Clone, Copy, Default)]
enum Place {
    #[default]
    LineStart,
    Header,
    Sequence,
}

/// Splits blocks into record starts and parts of sequence lines. Blocks may be cut anywhere.
#[derive(Default)]
struct Lines {
    place: Place,
    /// The previous block ended with a carriage return, which is a line end if a newline follows.
    after_return: bool,
    /// Whether the record in which they begin has letters before that.
    have_letters_before: bool,
}

enum Token<'a> {
    Record,
    /// A part of the line that follows a `>`.
    Name(&'a [u8]),
    Letters(&'a [u8]),
}

impl Lines {
    /// The state at `offset` of a plain file.
    fn at(file: &SourceFile, offset: u64) -> Result<Self> {
        let line_start = after_last(file, offset, |byte| byte == b'\n')?;
        let place = match first_of_line(file, line_start)? {
            _ if line_start == offset => Place::LineStart,
            Some(b'>') => Place::Header,
            _ => Place::Sequence,
        };
        // Behind the last byte that ends no line.
        let end = after_last(file, offset, |byte| !matches!(byte, b'\n' | b'\r'))?;
        let have_letters_before = end > 0 && {
            let line_start = after_last(file, end, |byte| byte == b'\n')?;
            first_of_line(file, line_start)? != Some(b'>')
        };
        Ok(Self {
            place,
            after_return: false,
            have_letters_before,
        })
    }

    /// Takes the next token off the front of `rest`, which is not empty and begins at byte
    /// `position` of the file's text.
    fn next<'a>(
        &mut self,
        file: &SourceFile,
        rest: &mut &'a [u8],
        position: u64,
    ) -> Result<Token<'a>> {
        let malformed = |fault| Err(file.malformed_at(position, fault));
        let is_first = matches!(self.place, Place::LineStart);
        match rest[0] {
            b'>' if is_first => {
                self.place = Place::Header;
                *rest = &rest[1..];
                return Ok(Token::Record);
            }
            found @ (b'@' | b'+' | b';') if is_first => {
                return malformed(Fault::NoSequence { found });
            }
            b'\n' => self.after_return = false,
            _ => {}
        }
        let is_header = matches!(self.place, Place::Header);
        if self.after_return {
            return malformed(match is_header {
                true => Fault::ReturnInName,
                false => Fault::BadByte { byte: b'\r' },
            });
        }
        if is_header {
            return Ok(Token::Name(self.header(rest)));
        }
        let letters = self.letters(rest);
        match find_bad_byte(letters) {
            Some(i) => malformed(Fault::BadByte { byte: letters[i] }),
            None => Ok(Token::Letters(letters)),
        }
    }

    /// Takes the rest of a header off the front of `rest`, up to a carriage return. If that ended
    /// lines alone, the sequences would be taken for a part of the header.
    fn header<'a>(&mut self, rest: &mut &'a [u8]) -> &'a [u8] {
        let end = memchr2(b'\n', b'\r', rest);
        match end.map(|end| rest[end]) {
            Some(b'\r') => self.after_return = true,
            Some(_) => self.place = Place::LineStart,
            None => {}
        }
        let (name, later) = rest.split_at(end.unwrap_or(rest.len()));
        *rest = later.get(1..).unwrap_or_default();
        name
    }

    /// Takes the rest of a line of sequence off the front of `rest`, without its end.
    fn letters<'a>(&mut self, rest: &mut &'a [u8]) -> &'a [u8] {
        self.place = Place::Sequence;
        let line = self.end_of_line(rest);
        let Some((b'\r', letters)) = line.split_last() else {
            return line;
        };
        self.after_return = matches!(self.place, Place::Sequence);
        letters
    }

    /// Takes the rest of the line off the front of `rest`, and returns it without its newline.
    fn end_of_line<'a>(&mut self, rest: &mut &'a [u8]) -> &'a [u8] {
        if let Some(newline) = memchr(b'\n', rest) {
            let line = &rest[..newline];
            *rest = &rest[newline + 1..];
            self.place = Place::LineStart;
            line
        } else {
            std::mem::take(rest)
        }
    }
}

/// The position behind the last byte before `offset` that is `wanted`; 0 if there is none.
fn after_last(file: &SourceFile, offset: u64, wanted: impl Fn(u8) -> bool) -> Result<u64> {
    let mut bytes = file.bytes_from(0)?;
    let mut block = vec![0; BLOCK.min(64 << 10)];
    let mut end = offset;
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        let limit = end - start;
        bytes
            .seek(SeekFrom::Start(start))
            .map_err(|error| file.read_error(error))?;
        let n_read = read_block(&mut bytes.by_ref().take(limit), &mut block)
            .map_err(|error| file.read_error(error))?;
        if (n_read as u64) < limit {
            return Err(file.changed());
        }
        if let Some(last) = block[..n_read].iter().rposition(|byte| wanted(*byte)) {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// The first byte of a line; `None` at the end of the file.
fn first_of_line(file: &SourceFile, line_start: u64) -> Result<Option<u8>> {
    let mut first = [0];
    let n_read = read_block(&mut file.bytes_from(line_start)?, &mut first);
    let n_read = n_read.map_err(|error| file.read_error(error))?;
    Ok((n_read == 1).then_some(first[0]))
}
