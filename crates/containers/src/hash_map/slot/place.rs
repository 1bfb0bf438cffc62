//! The place of a slot on any rank, and operations on its words.

use pgas_core::backend::AtomicOp;
use pgas_core::{GlobalPtr, World};

/// The block that holds a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) world: &'a World,
    pub(super) at: GlobalPtr<u8>,
    /// Its bytes.
    pub(super) len: usize,
}

impl Place<'_> {
    /// The part of the block at this offset.
    pub(super) fn part<T>(&self, offset: usize) -> GlobalPtr<T> {
        self.at.byte_add(offset as u64).cast()
    }
}

/// An atomic operation on a word (A). Its result is the former word.
#[derive(Clone, Copy, Debug)]
pub(super) enum WordOp<W> {
    /// The operation with this operand.
    Fetch(AtomicOp, W),
    /// Replaces the first word by the second one.
    CompareExchange(W, W),
}
