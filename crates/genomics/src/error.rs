//! Errors of the input, each as one line with the file, the line and the cause.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use pgas_core::notice::printable;
use thiserror::Error;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why sequences or k-mers are not available. Its `Display` is one line.
#[non_exhaustive]
#[derive(Debug, Error)]
pub enum Error {
    /// No file was named.
    #[error("no input files were given")]
    NoInput,

    /// The system refused to open or read the file.
    #[error("{}: {source}", printable(file.display()))]
    Io {
        /// The file.
        file: Box<Path>,
        /// The system's error.
        source: io::Error,
    },

    /// A directory, a pipe or a device: it has no size to divide among ranks.
    #[error("{}: not a regular file, so ranks cannot share it by bytes", printable(file.display()))]
    NotAFile {
        /// The file.
        file: Box<Path>,
    },

    /// A file that is to be written is also read, or written as another one.
    #[error("{}: the output is the same file as {}", printable(names[0].display()), printable(names[1].display()))]
    SameFile {
        /// The name of the output, and that of the input or the other output.
        names: Box<[PathBuf; 2]>,
    },

    /// The file is empty, or has only blank lines.
    #[error("{}: the file is empty", printable(file.display()))]
    Empty {
        /// The file.
        file: Box<Path>,
    },

    /// The first character is neither `>` nor `@`.
    #[error("{}: neither FASTA nor FASTQ: it begins with {}, not with '>' or '@'", printable(file.display()), Byte(*first))]
    UnknownFormat {
        /// The file.
        file: Box<Path>,
        /// Its first byte that is not a line end, after decompression.
        first: u8,
    },

    /// The gzip stream is truncated.
    #[error("{}: the gzip data is cut short", printable(file.display()))]
    GzipCutShort {
        /// The file.
        file: Box<Path>,
    },

    /// The gzip stream is inconsistent, or does not match its checksum.
    #[error("{}: the gzip data is damaged: {source}", printable(file.display()))]
    GzipDamaged {
        /// The file.
        file: Box<Path>,
        /// The decompressor's error.
        source: io::Error,
    },

    /// A line that its format does not allow.
    #[error(transparent)]
    Malformed(Box<Malformed>),

    /// The file has changed since it was opened.
    #[error("{}: the file changed while it was read", printable(file.display()))]
    Changed {
        /// The file.
        file: Box<Path>,
    },

    /// A k-mer length out of range.
    #[error("k must be 1 to 32, not {k}")]
    KmerLength {
        /// The length asked for.
        k: u64,
    },

    /// A text that is no k-mer of the given length.
    #[error("'{}' is not a {k}-mer of the letters A, C, G and T", text.escape_default())]
    KmerText {
        /// The text.
        text: Box<str>,
        /// The expected length.
        k: u32,
    },

    /// A simulation with parameters that its genome does not allow.
    #[error("cannot simulate reads: {what}")]
    Simulation {
        /// The parameter that does not fit.
        what: Box<str>,
    },
}

const _: () = assert!(size_of::<Error>() <= 32);

/// An error and its place.
#[derive(Debug, Error)]
#[error("{}, line {line}: {fault}", printable(file.display()))]
#[non_exhaustive]
pub struct Malformed {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1, after decompression.
    pub line: u64,
    /// The error in the line.
    pub fault: Fault,
}

/// The error in a line.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// A FASTQ record does not begin with `@`; `None` for a blank line.
    NoRecordStart {
        /// The line's first byte.
        found: Option<u8>,
    },
    /// The third line of a FASTQ record does not begin with `+`; `None` for a blank line.
    NoSeparator {
        /// The record's name.
        record: String,
        /// The line's first byte.
        found: Option<u8>,
    },
    /// Sequence and quality of a FASTQ record differ in length.
    UnequalLengths {
        /// The record's name.
        record: String,
        /// The length of its sequence.
        n_bases: u64,
        /// The length of its quality.
        n_qualities: u64,
    },
    /// The file ends in the middle of a FASTQ record.
    CutShort {
        /// The record's name.
        record: String,
    },
    /// A FASTQ record is longer than the maximum.
    TooLong {
        /// The record's name.
        record: String,
        /// The maximum number of bytes.
        limit: u64,
    },
    /// A sequence holds a byte that is no printable character.
    BadByte {
        /// The byte.
        byte: u8,
    },
    /// A line of a FASTA sequence begins like a line of FASTQ or a comment.
    NoSequence {
        /// The line's first byte.
        found: u8,
    },
    /// The line with the name of a sequence holds a carriage return that no newline follows.
    ReturnInName,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRecordStart { found } => {
                write!(
                    f,
                    "expected '@' at the start of a FASTQ record, found {}",
                    LineStart(*found)
                )
            }
            Self::NoSeparator { record, found } => {
                write!(
                    f,
                    "expected '+' after one line of sequence, found {} (record '{record}')",
                    LineStart(*found)
                )
            }
            Self::UnequalLengths {
                record,
                n_bases,
                n_qualities,
            } => {
                write!(
                    f,
                    "{n_qualities} quality values for {n_bases} bases (record '{record}')"
                )
            }
            Self::CutShort { record } => {
                write!(f, "the file ends in the middle of record '{record}'")
            }
            Self::TooLong { record, limit } => {
                write!(
                    f,
                    "record '{record}' has more than {limit} bytes, which is the limit"
                )
            }
            Self::BadByte { byte } => write!(f, "{} in a sequence", Byte(*byte)),
            Self::NoSequence { found } => {
                write!(f, "a line of a FASTA sequence begins with {}", Byte(*found))
            }
            Self::ReturnInName => write!(
                f,
                "{} in the name of a sequence (lines end with \\n or \\r\\n)",
                Byte(b'\r')
            ),
        }
    }
}

/// A byte as it is shown in messages.
struct Byte(u8);

impl fmt::Display for Byte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_ascii_graphic() {
            write!(f, "'{}'", char::from(self.0))
        } else {
            write!(f, "byte 0x{:02x}", self.0)
        }
    }
}

/// The first byte of a line, or a text that there is none.
struct LineStart(Option<u8>);

impl fmt::Display for LineStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(byte) => Byte(byte).fmt(f),
            None => f.write_str("a blank line"),
        }
    }
}
