//! Static programs of Linux as guests: on each node one process with one thread, whose system calls
//! the simulator answers.
//!
//! | file | subject |
//! |---|---|
//! | `load` | arguments, environment and auxiliary vector on the stack |
//! | `calls` | which call is which, and those that need few words |
//! | `facts` | what a process is told of itself and its node |
//! | `file_calls`, `change_calls` | what a call about files asks |
//! | `files`, `folders`, `stat` | files: what is open, what may be opened, what is told of it |
//! | `memory_calls`, `space` | memory that a process asks for |
//! | `waits` | clocks, sleep, futex, poll |
//! | `names`, `errno`, `guest` | the names of calls, the numbers of failures, what arguments point at |
//!
//! A run is repeated exactly: time is the simulated machine's, random bytes come from a seed and
//! the node's number, and what differs between hosts is not told. What a process cannot have here
//! it is told as Linux would (threads: "try again"), or, where no program expects that, the run
//! ends with the call's name. Memory is not protected from the process itself, and signals are not
//! delivered: a fault ends the run with its place.

#![expect(
    clippy::cast_possible_truncation,
    reason = "registers hold arguments of fewer bits"
)]

mod calls;
mod change_calls;
mod errno;
mod facts;
mod file_calls;
mod files;
mod folders;
mod guest;
mod load;
mod memory_calls;
mod names;
mod process;
mod space;
mod stat;
mod waits;

pub(crate) use calls::{Answer, Event, Host, Wake};
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};

pub use files::Stream;
pub use folders::Folder;
pub(crate) use process::Process;

/// Where the memory of a process starts: below, nothing may lie in Linux either.
pub const PROCESS_BASE: u64 = 0x1_0000;

/// The number of the one system call that Linux does not have. Its arguments are a count and a
/// number of ns. It gives how often something has been written to this node's memory through the
/// network since the start, as soon as that is not the count, or so many ns have passed: a process
/// that waits for others sleeps in it and misses nothing, and costs the host nothing meanwhile.
pub const AWAIT_WRITES: u64 = 4096;

/// What a process is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinuxConfig {
    /// Its arguments, the program's name first.
    pub arguments: Vec<Vec<u8>>,
    /// Its environment, each as `NAME=VALUE`.
    pub environment: Vec<Vec<u8>>,
    /// The program's file, which it may read as `/proc/self/exe`: backtraces are made of it.
    pub program: Arc<[u8]>,
    /// The folders of the host whose files it may open.
    pub folders: Vec<Folder>,
    /// What random bytes come from, with the node's number.
    pub seed: u64,
    /// Bytes of memory that the process gets for nothing else than what other nodes reach: zero at
    /// first, and at the same address on every node. At the start extended register e12 holds how
    /// many there are, and e13 where they lie. With 0 other nodes reach all of its memory, and both
    /// registers hold 0.
    pub segment_bytes: u64,
}

/// The stack's bytes, if there is memory enough.
const STACK_BYTES: u64 = 8 << 20;

impl LinuxConfig {
    /// Where the stack lies in memory, if there is a page for it.
    pub(crate) fn stack(&self, ram: &Range<u64>) -> Range<u64> {
        let bytes = STACK_BYTES.min((ram.end - ram.start) / 4);
        let start = (ram.end - bytes).next_multiple_of(space::PAGE);
        start.min(ram.end)..ram.end
    }

    /// Whether there is memory for the segment below the stack.
    pub(crate) fn check_segment(&self, ram: &Range<u64>) -> Result<()> {
        let stack = self.stack(ram);
        let room = stack.start - ram.start;
        if self.segment_bytes <= room {
            return Ok(());
        }
        let of_stack = stack.end - stack.start;
        Err(Error::Config(format!(
            "a segment of {} bytes does not fit into {} bytes of memory, of which the stack takes {of_stack}",
            self.segment_bytes,
            ram.end - ram.start
        )))
    }

    /// Where the segment lies: below the stack.
    pub(crate) fn segment(&self, ram: &Range<u64>) -> Option<Range<u64>> {
        let end = self.stack(ram).start;
        let bytes = self.segment_bytes.checked_next_multiple_of(space::PAGE)?;
        (bytes > 0).then(|| end.saturating_sub(bytes)..end)
    }
}
