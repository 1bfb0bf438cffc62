//! One input file: its kind, and readers of its bytes or its decompressed text.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use memchr::memchr_iter;

use crate::error::{Error, Fault, Malformed, Result};

/// Bytes of one read from the system.
pub(super) const BLOCK: usize = 256 << 10;

/// The format of a file's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `>name`, then any number of sequence lines.
    Fasta,
    /// `@name`, one line of sequence, `+`, one line of quality.
    Fastq,
}

#[derive(Clone, Debug)]
pub(super) struct SourceFile {
    path: Box<Path>,
    len: u64,
    gzip: bool,
    format: Format,
}

impl SourceFile {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let path: Box<Path> = path.into();
        let io_error = |source| Error::Io {
            file: path.clone(),
            source,
        };
        let metadata = std::fs::metadata(&path).map_err(io_error)?;
        if !metadata.is_file() {
            return Err(Error::NotAFile { file: path });
        }
        let mut magic = Vec::new();
        File::open(&path)
            .and_then(|file| file.take(2).read_to_end(&mut magic))
            .map_err(io_error)?;
        let gzip = magic == [0x1f, 0x8b];
        let mut source = Self {
            path,
            len: metadata.len(),
            gzip,
            format: Format::Fasta,
        };
        source.format = source.detect_format()?;
        Ok(source)
    }

    fn detect_format(&self) -> Result<Format> {
        let text = BufReader::new(self.text()?);
        for byte in text.bytes() {
            match byte.map_err(|error| self.read_error(error))? {
                b'\n' | b'\r' => {}
                b'>' => return Ok(Format::Fasta),
                b'@' => return Ok(Format::Fastq),
                first => {
                    return Err(Error::UnknownFormat {
                        file: self.path.clone(),
                        first,
                    });
                }
            }
        }
        Err(Error::Empty {
            file: self.path.clone(),
        })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn is_gzip(&self) -> bool {
        self.gzip
    }

    pub(super) fn format(&self) -> Format {
        self.format
    }

    /// A plain file's bytes from `offset` on.
    pub(super) fn bytes_from(&self, offset: u64) -> Result<File> {
        let open = || {
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(offset))?;
            Ok(file)
        };
        open().map_err(|error| self.read_error(error))
    }

    /// The file's text from the start, decompressed if necessary.
    pub(super) fn text(&self) -> Result<Text> {
        let file = self.bytes_from(0)?;
        if !self.gzip {
            return Ok(Text::Plain(file));
        }
        let n_read = Arc::default();
        let counted = Counted {
            file,
            n_read: Arc::clone(&n_read),
        };
        let decoder = MultiGzDecoder::new(BufReader::with_capacity(BLOCK, counted));
        Ok(Text::Gzip {
            decoder: Box::new(decoder),
            n_read,
        })
    }

    /// The error of a failed read: of the system, or of the file's content.
    pub(super) fn read_error(&self, source: io::Error) -> Error {
        let file = self.path.clone();
        match source.kind() {
            io::ErrorKind::UnexpectedEof if self.gzip => Error::GzipCutShort { file },
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData if self.gzip => {
                Error::GzipDamaged { file, source }
            }
            _ => Error::Io { file, source },
        }
    }

    /// The file's length or content has changed.
    pub(super) fn changed(&self) -> Error {
        Error::Changed {
            file: self.path.clone(),
        }
    }

    /// An error in the `line`-th line, from 1.
    pub(super) fn malformed(&self, line: u64, fault: Fault) -> Error {
        Error::Malformed(Box::new(Malformed {
            file: self.path.to_path_buf(),
            line,
            fault,
        }))
    }

    /// An error at a byte of the text. Reads all text before it to determine the line.
    pub(super) fn malformed_at(&self, offset: u64, fault: Fault) -> Error {
        match self.text_and_line_at(offset) {
            Ok((_, line)) => self.malformed(line, fault),
            Err(error) => error,
        }
    }

    /// The text from `offset` on, and the line number at its start.
    pub(super) fn text_and_line_at(&self, offset: u64) -> Result<(Text, u64)> {
        let mut text = self.text()?;
        let mut before = text.by_ref().take(offset);
        let mut block = vec![0; BLOCK];
        let mut line = 1;
        loop {
            let n_read =
                read_block(&mut before, &mut block).map_err(|error| self.read_error(error))?;
            if n_read == 0 {
                return Ok((text, line));
            }
            line += memchr_iter(b'\n', &block[..n_read]).count() as u64;
        }
    }
}

/// The text of a file, decompressed as it is read.
pub(super) enum Text {
    Plain(File),
    Gzip {
        decoder: Box<MultiGzDecoder<BufReader<Counted>>>,
        n_read: Arc<AtomicU64>,
    },
}

impl Text {
    /// The number of compressed bytes read from a gzip file so far, which stays available while a
    /// parser owns the text.
    pub(super) fn compressed_counter(&self) -> Arc<AtomicU64> {
        match self {
            Self::Plain(_) => Arc::default(),
            Self::Gzip { n_read, .. } => Arc::clone(n_read),
        }
    }
}

impl Read for Text {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read(buf),
            Self::Gzip { decoder, .. } => decoder.read(buf),
        }
    }
}

/// A file that counts what is read from it.
pub(super) struct Counted {
    file: File,
    n_read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(buf)?;
        // Relaxed: a figure for the progress display, read by the same thread.
        self.n_read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// Fills `block` from its beginning, except at the end of the input.
pub(super) fn read_block(reader: &mut impl Read, block: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < block.len() {
        match reader.read(&mut block[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
