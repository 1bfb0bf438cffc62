//! FASTQ by bytes: finds the first record after a given byte, and describes errors in records.
//!
//! needletail's parser reads the records. This module adds the start and end of a share, and
//! messages with the line and the error, even if the reading began in the middle of the file.

use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memchr::memchr;
use needletail::errors::ParseErrorKind;
use needletail::parser::{FastqReader, FastxReader, SequenceRecord};

use super::source::{BLOCK, SourceFile};
use super::{Progress, Segment, Share, Summary, find_bad_byte};
use crate::Error;
use crate::error::{Fault, Result};

/// The maximum length of a record in bytes, over all its lines: twice that of the longest read of
/// any machine. Anything longer is not a record, and would be held in memory as a whole.
const MOST_BYTES: u64 = 16 << 20;

/// The letter of quality 0.
const FIRST_QUALITY: u8 = b'!';

/// Reads the records of a plain file that begin in `range`.
///
/// The records from the first one that [`record_start`] finds in the range to the first one that it
/// finds after the range, where the next share begins. A malformed record between the two is an
/// error. Records that `record_start` does not recognize belong to some share all the same.
pub(super) fn read_range<E: From<Error>>(
    file: &SourceFile,
    range: Range<u64>,
    min_quality: u8,
    on_segment: impl FnMut(Segment<'_>) -> Result<(), E>,
    progress: &mut Progress<'_>,
) -> Result<Summary, E> {
    let bytes = range.end - range.start;
    let (start, end) = if range.is_empty() {
        (0, 0)
    } else {
        (
            record_start(file, range.start)?,
            record_start(file, range.end)?,
        )
    };
    if start == end {
        return Ok(Summary {
            bytes,
            ..Summary::default()
        });
    }
    let walk = Walk {
        file,
        start,
        end,
        share: Share::whole(),
        min_quality,
    };
    let summary = walk.run(file.bytes_from(start)?, on_segment, |position| {
        progress.at(position);
    })?;
    Ok(Summary { bytes, ..summary })
}

/// Decompresses the whole file, and passes on every `n`-th record.
pub(super) fn read_all<E: From<Error>>(
    file: &SourceFile,
    share: Share,
    min_quality: u8,
    on_segment: impl FnMut(Segment<'_>) -> Result<(), E>,
    progress: &mut Progress<'_>,
) -> Result<Summary, E> {
    let text = file.text()?;
    let compressed = text.compressed_counter();
    let walk = Walk {
        file,
        start: 0,
        end: u64::MAX,
        share,
        min_quality,
    };
    // Relaxed: only this thread writes it.
    let summary = walk.run(text, on_segment, |_| {
        progress.at(compressed.load(Ordering::Relaxed));
    })?;
    Ok(Summary {
        bytes: file.len(),
        ..summary
    })
}

/// Consecutive records, from byte `start` to byte `end` of the text, or to its end.
struct Walk<'a> {
    file: &'a SourceFile,
    start: u64,
    end: u64,
    share: Share,
    /// Bases of lower quality are passed on as `N`.
    min_quality: u8,
}

impl Walk<'_> {
    fn run<E: From<Error>>(
        &self,
        text: impl Read + Send,
        mut on_segment: impl FnMut(Segment<'_>) -> Result<(), E>,
        mut on_position: impl FnMut(u64),
    ) -> Result<Summary, E> {
        let mut summary = Summary::default();
        let mut n_records = 0;
        let mut masked = Vec::new();
        let end_of_last = Arc::new(AtomicU64::new(0));
        let mut text = Tapped {
            text,
            n_read: 0,
            end_of_last: Arc::clone(&end_of_last),
            is_too_long: false,
            error: None,
        };
        let mut parser = FastqReader::with_capacity(&mut text, BLOCK);
        let fault = loop {
            match parser.next() {
                None => break None,
                Some(Err(error)) => {
                    break Some((error.kind, self.start + parser.position().byte()));
                }
                Some(Ok(record)) => {
                    let position = record.position().byte();
                    if self.start + position == self.end {
                        return Ok(summary);
                    }
                    on_position(position);
                    let lines = [
                        record.id(),
                        record.raw_seq(),
                        record.qual().unwrap_or_default(),
                    ];
                    let n_bytes: u64 = lines.iter().map(|line| line.len() as u64).sum();
                    // Relaxed: only this thread reads it.
                    end_of_last.store(position + n_bytes, Ordering::Relaxed);
                    if n_bytes > MOST_BYTES {
                        return Err(self.too_long(self.start + position).into());
                    }
                    if self.share.owns(n_records) {
                        self.hand_on(&record, &mut masked, &mut summary, &mut on_segment)?;
                    }
                    n_records += 1;
                }
            }
        };
        drop(parser);
        match fault {
            Some((_, position)) if text.is_too_long => {
                return Err(self.too_long(position).into());
            }
            Some((ParseErrorKind::Io, _)) => {
                let error = text.error.unwrap_or_else(|| io::ErrorKind::Other.into());
                return Err(self.file.read_error(error).into());
            }
            Some((_, position)) if position == self.end => {}
            Some((_, position)) => self.judge(position)?,
            None if self.end == u64::MAX || self.end == self.start + text.n_read => {}
            None => return Err(self.file.changed().into()),
        }
        Ok(summary)
    }

    /// Passes on the bases of a record.
    fn hand_on<E: From<Error>>(
        &self,
        record: &SequenceRecord<'_>,
        masked: &mut Vec<u8>,
        summary: &mut Summary,
        on_segment: &mut impl FnMut(Segment<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let letters = record.raw_seq();
        if let Some(i) = find_bad_byte(letters) {
            let position = record.position().byte();
            return Err(self.bad_byte(self.start + position, letters[i]).into());
        }
        summary.reads += 1;
        summary.bases += letters.len() as u64;
        if self.min_quality == 0 {
            return on_segment(Segment::whole(letters));
        }
        masked.clear();
        let qualities = record.qual().unwrap_or_default();
        let is_low = |q: u8| q.saturating_sub(FIRST_QUALITY) < self.min_quality;
        let bases = letters.iter().zip(qualities);
        masked.extend(bases.map(|(&base, &q)| if is_low(q) { b'N' } else { base }));
        on_segment(Segment::whole(masked))
    }

    fn bad_byte(&self, record: u64, byte: u8) -> Error {
        match self.file.text_and_line_at(record) {
            Ok((_, line)) => self.file.malformed(line + 1, Fault::BadByte { byte }),
            Err(error) => error,
        }
    }

    fn too_long(&self, record: u64) -> Error {
        let name = self.file.text_and_line_at(record).and_then(|(text, line)| {
            let mut start = BufReader::new(text.take(NAME_BYTES));
            let name = Line::read(&mut start).map_err(|error| self.file.read_error(error))?;
            Ok((
                line,
                name.map_or_else(String::new, |name| name.record_name()),
            ))
        });
        match name {
            Ok((line, record)) => {
                let limit = MOST_BYTES;
                self.file.malformed(line, Fault::TooLong { record, limit })
            }
            Err(error) => error,
        }
    }

    /// Reads the record at byte `position` again, which the parser refused, and describes its
    /// error.
    fn judge(&self, position: u64) -> Result<()> {
        let (text, line) = self.file.text_and_line_at(position)?;
        let mut text = BufReader::new(text).take(MOST_BYTES + 1);
        let mut read = || Line::read(&mut text).map_err(|error| self.file.read_error(error));
        let mut lines: [Option<Line>; 4] = [read()?, None, None, None];
        if matches!(&lines[0], Some(first) if first.letters.is_empty()) {
            return self.only_blank_lines(read, line);
        }
        for later in &mut lines[1..] {
            *later = read()?;
        }
        let n_bytes = lines.iter().flatten().map(|line| line.letters.len() as u64);
        if n_bytes.sum::<u64>() > MOST_BYTES - 8 {
            return Err(self.too_long(position));
        }
        match Verdict::on(&lines) {
            Some(verdict) => Err(self.file.malformed(line + verdict.line, verdict.fault)),
            None => Err(self.file.changed()),
        }
    }

    /// Blank lines are allowed at the end of the file and nowhere else.
    fn only_blank_lines(
        &self,
        mut read: impl FnMut() -> Result<Option<Line>>,
        line: u64,
    ) -> Result<()> {
        while let Some(next) = read()? {
            if !next.letters.is_empty() {
                return Err(self
                    .file
                    .malformed(line, Fault::NoRecordStart { found: None }));
            }
        }
        Ok(())
    }
}

/// The error of a record, and its line within the record, from 0.
struct Verdict {
    line: u64,
    fault: Fault,
}

impl Verdict {
    fn on(lines: &[Option<Line>; 4]) -> Option<Self> {
        let fault_on = |line, fault| Some(Self { line, fault });
        let [Some(name), sequence, separator, quality] = lines else {
            return None;
        };
        if name.first() != Some(b'@') {
            return fault_on(
                0,
                Fault::NoRecordStart {
                    found: name.first(),
                },
            );
        }
        let record = name.record_name();
        if let Some(separator) = separator.as_ref().filter(|line| line.first() != Some(b'+')) {
            let found = separator.first();
            if found.is_some() || quality.is_some() {
                return fault_on(2, Fault::NoSeparator { record, found });
            }
        }
        let (Some(sequence), Some(_), Some(quality)) = (sequence, separator, quality) else {
            let last = lines.iter().flatten().count() as u64 - 1;
            return fault_on(last, Fault::CutShort { record });
        };
        let (n_bases, n_qualities) = (sequence.letters.len() as u64, quality.letters.len() as u64);
        if n_qualities < n_bases && !quality.terminated {
            return fault_on(3, Fault::CutShort { record });
        }
        (n_bases != n_qualities).then_some(Self {
            line: 3,
            fault: Fault::UnequalLengths {
                record,
                n_bases,
                n_qualities,
            },
        })
    }
}

/// A line that is read again to describe its error.
struct Line {
    letters: Vec<u8>,
    terminated: bool,
}

impl Line {
    fn read(text: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut letters = Vec::new();
        if text.read_until(b'\n', &mut letters)? == 0 {
            return Ok(None);
        }
        let terminated = letters.pop_if(|last| *last == b'\n').is_some();
        letters.pop_if(|last| *last == b'\r');
        Ok(Some(Self {
            letters,
            terminated,
        }))
    }

    fn first(&self) -> Option<u8> {
        self.letters.first().copied()
    }

    /// The name up to the first blank, shortened and escaped for a message.
    fn record_name(&self) -> String {
        let name = self.letters.get(1..).unwrap_or_default();
        let name = name
            .split(u8::is_ascii_whitespace)
            .next()
            .unwrap_or_default();
        name[..name.len().min(60)].escape_ascii().to_string()
    }
}

/// The first record that certainly begins at byte `offset` or later in a plain file; the file's
/// length if there is none.
///
/// A record is four lines: the first begins with `@`, the second with neither `@` nor `+`, the
/// third with `+`, and the second and fourth have the same length. No other line of a well-formed
/// file looks like the first line of a record, whatever the quality lines contain. After a sequence
/// line, the next line begins with `+`. A separator does not begin with `@`. After a quality line,
/// the next line is a name, and begins with `@`.
fn record_start(file: &SourceFile, offset: u64) -> Result<u64> {
    if offset == 0 || offset >= file.len() {
        return Ok(offset.min(file.len()));
    }
    // Start one byte earlier: `offset` begins a line exactly if that byte ends one.
    let mut text = BufReader::with_capacity(16 << 10, file.bytes_from(offset - 1)?);
    let mut read = || LineShape::read(&mut text).map_err(|error| file.read_error(error));
    let mut start = match read()? {
        Some(partial) => offset - 1 + partial.n_bytes,
        None => return Ok(file.len()),
    };
    let mut window = Vec::with_capacity(4);
    while let Some(line) = read()? {
        window.push(line);
        if let [name, sequence, separator, quality] = &window[..] {
            if name.first == Some(b'@')
                && !matches!(sequence.first, Some(b'@' | b'+'))
                && separator.first == Some(b'+')
                && sequence.n_letters == quality.n_letters
            {
                return Ok(start);
            }
            start += name.n_bytes;
            window.remove(0);
        }
    }
    Ok(file.len())
}

/// The properties by which the lines of a record are recognized.
struct LineShape {
    first: Option<u8>,
    /// Without the line end.
    n_letters: u64,
    /// With the line end.
    n_bytes: u64,
}

impl LineShape {
    fn read(text: &mut impl BufRead) -> io::Result<Option<Self>> {
        let (mut first, mut last, mut n_bytes) = (None, None, 0);
        loop {
            let block = text.fill_buf()?;
            let newline = memchr(b'\n', block);
            let line = &block[..newline.unwrap_or(block.len())];
            first = first.or(line.first().copied());
            last = line.last().copied().or(last);
            n_bytes += line.len() as u64;
            let n_taken = line.len() + usize::from(newline.is_some());
            let ended = newline.is_some() || block.is_empty();
            text.consume(n_taken);
            if ended {
                let n_letters = n_bytes - u64::from(last == Some(b'\r'));
                let n_bytes = n_bytes + u64::from(newline.is_some());
                let first = first.filter(|_| n_letters > 0);
                return Ok((n_bytes > 0).then_some(Self {
                    first,
                    n_letters,
                    n_bytes,
                }));
            }
        }
    }
}

/// The maximum length of a name that is read.
const NAME_BYTES: u64 = 1 << 10;

/// Counts the read bytes, and keeps the error, of which the parser passes on only the text.
struct Tapped<R> {
    text: R,
    n_read: u64,
    /// The end of the last record, or a position shortly before.
    end_of_last: Arc<AtomicU64>,
    /// Whether the parser asked for more than the longest record and its read-ahead.
    is_too_long: bool,
    error: Option<io::Error>,
}

impl<R: Read> Read for Tapped<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // Relaxed, as where it is written.
        let n_wanted = self.n_read - self.end_of_last.load(Ordering::Relaxed).min(self.n_read);
        if n_wanted > 2 * MOST_BYTES {
            self.is_too_long = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        match self.text.read(buf) {
            Ok(n) => {
                self.n_read += n as u64;
                Ok(n)
            }
            Err(error) => {
                let kind = error.kind();
                self.error = Some(error);
                Err(kind.into())
            }
        }
    }
}
