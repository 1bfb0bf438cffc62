//! What a launcher hands to the ranks of a job: memory, as an open descriptor.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Memory that a launcher can hand to other processes: a job's, [`JobMemory`](crate::JobMemory), or
/// any file, for programs that use the launcher for something else.
pub trait Memory: Descriptor {}

/// How the launcher reaches the descriptor. Nobody else does: who has a descriptor writes the file
/// behind it by safe calls, also where somebody has borrowed its bytes.
#[expect(unnameable_types, reason = "only this crate calls and implements it")]
pub trait Descriptor {
    /// The open file.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// What another process has handed over.
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
