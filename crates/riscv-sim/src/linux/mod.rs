//! Static programs of Linux as guests: on each node one process with one thread, whose system calls the simulator answers.
//!
//! | file | subject |
//! |---|---|
//! | `load` | arguments, environment and auxiliary vector on the stack |
//! | `calls` | which call is which, and those that need few words |
//! | `file_calls`, `files`, `folders`, `stat` | files: what a call asks, what is open, what may be opened, what is told of it |
//! | `memory_calls`, `space` | memory that a process asks for |
//! | `waits` | clocks, sleep, futex, poll |
//! | `names`, `errno`, `guest` | the names of calls, the numbers of failures, what arguments point at |
//!
//! A run is repeated exactly: time is the simulated machine's, random bytes come from a seed and the node's number, and what
//! differs between hosts is not told. What a process cannot have here it is told as Linux would (threads: "try again"), or, where
//! no program expects that, the run ends with the call's name. Memory is not protected from the process itself, and signals
//! are not delivered: a fault ends the run with its place.

#![expect(
    clippy::cast_possible_truncation,
    reason = "registers hold arguments of fewer bits"
)]

mod calls;
mod errno;
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

pub(crate) use calls::{Answer, Host};
pub use files::Stream;
pub use folders::Folder;
pub(crate) use process::Process;

/// Where the memory of a process starts: below, nothing may lie in Linux either.
pub const PROCESS_BASE: u64 = 0x1_0000;

/// What a process is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinuxConfig {
    /// Its arguments, the program's name first.
    pub arguments: Vec<Vec<u8>>,
    /// Its environment, each as `NAME=VALUE`.
    pub environment: Vec<Vec<u8>>,
    /// The folders of the host whose files it may open.
    pub folders: Vec<Folder>,
    /// What random bytes come from, with the node's number.
    pub seed: u64,
}
