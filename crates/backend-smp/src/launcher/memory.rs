//! The memory that a launcher passes to the ranks of a job, as an open descriptor.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Memory that a launcher can hand to other processes: a job's, [`JobMemory`](crate::JobMemory), or
/// any file, for programs that use the launcher for something else.
pub trait Memory: Descriptor {}

/// Access of the launcher to the descriptor. No other code has it: whoever has a descriptor writes
/// the file behind it by safe calls, even where its bytes are borrowed.
#[expect(unnameable_types, reason = "only this crate calls and implements it")]
pub trait Descriptor {
    /// The open file.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// The memory behind a descriptor that another process has passed on.
    fn received(descriptor: OwnedFd) -> Self
    where
        Self: Sized;
}

impl Memory for File {}

impl Descriptor for File {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn received(descriptor: OwnedFd) -> Self {
        Self::from(descriptor)
    }
}
