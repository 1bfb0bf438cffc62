//! What can go wrong on the host's side. A trap is not among it: that is the guest's, until nobody
//! handles it.

use std::ops::Range;

use crate::machine::Fault;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The guest's file is no ELF file, or not one for this machine.
    #[error("not a guest: {0}")]
    Elf(String),
    /// The guest does not fit into the memory.
    #[error("the guest has bytes at {address:#x}..{end:#x}, but memory is {ram:#x?}")]
    OutsideMemory {
        /// Where the guest's bytes start.
        address: u64,
        /// Where they end.
        end: u64,
        /// Where memory is.
        ram: Box<Range<u64>>,
    },
    /// The machine cannot be built as asked.
    #[error("{0}")]
    Config(String),
    /// An instruction of the guest could not be carried out, and the guest has no trap handler.
    #[error("{0}")]
    Fault(Box<Fault>),
    /// The source is not assembly that the assembler knows.
    #[error("line {line}: {message}")]
    Assembly {
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// A program of Linux asked the kernel for something that there is not here.
    #[error(
        "node {node} made the system call {number} ({name}), which the simulator does not have"
    )]
    SystemCall {
        /// The node.
        node: u32,
        /// The call's number.
        number: u32,
        /// Its name.
        name: &'static str,
    },
    /// A program of Linux cannot go on.
    #[error("{0}")]
    Process(String),
    /// The instructions that a run may take are used up.
    #[error("no end after {0} instructions")]
    NoEnd(u64),
    /// Every node waits for an interrupt, and none will come, for another node, or for the lock of a
    /// file that another node has.
    #[error(
        "every node that has not ended only waits, for an interrupt, for another node or for the lock of a file"
    )]
    AllWait,
}

/// The result of what can go wrong.
pub type Result<T, E = Error> = std::result::Result<T, E>;

const _: () = assert!(size_of::<Error>() <= 32, "an error travels by value");
