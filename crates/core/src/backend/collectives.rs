//! The contract of a transport's own collectives, for transports that have them.
//!
//! Core has algorithms for every collective, made of messages. If a transport has better ones
//! (MPI's, a fabric's, a machine's), [`Backend::collectives`](super::Backend::collectives) returns
//! the [`Group`] of all ranks, and core passes it every collective that the group
//! [offers](Group::offers). The others stay core's, on the same team and between those of the
//! transport.
//!
//! Core keeps these tasks: comparing the members' arguments (`PGAS_CHECK=1`), limiting how far a
//! member may run ahead, progress while waiting, and ownership of buffers. Core also ensures that a
//! group's operations begin in the same order on every member. Floats and the user's operators are
//! never offered: core promises that all members get the same bits, that sums repeat from run to
//! run, and that operators are applied in the order of the members.

#![expect(unsafe_code, reason = "the contract of collectives is on raw bytes")]

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

use zerocopy::IntoBytes;

use super::operation::OpId;
use crate::error::Result;
use crate::pod::Pod;
use crate::rank::Rank;

/// The built-in operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum OpKind {
    /// [`Sum`](crate::collective::op::Sum).
    Sum,
    /// [`Product`](crate::collective::op::Product).
    Product,
    /// [`Min`](crate::collective::op::Min).
    Min,
    /// [`Max`](crate::collective::op::Max).
    Max,
    /// [`BitAnd`](crate::collective::op::BitAnd).
    BitAnd,
    /// [`BitOr`](crate::collective::op::BitOr).
    BitOr,
    /// [`BitXor`](crate::collective::op::BitXor).
    BitXor,
    /// [`And`](crate::collective::op::And).
    And,
    /// [`Or`](crate::collective::op::Or).
    Or,
}

/// A collective, as every member of a group calls it: they agree on each of these values.
///
/// Lengths are those of one member's contribution. None is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// A meeting.
    Barrier,
    /// The root's bytes for all, in place.
    Broadcast {
        /// The member that has them.
        root: u32,
        /// The number of bytes.
        bytes: usize,
    },
    /// Combines all members' elements for the root, in place there. Those of the others may be
    /// overwritten.
    Reduce {
        /// The member that gets them.
        root: u32,
        /// The elements and the operator.
        elements: Elements,
    },
    /// All members' elements combined for all, in place.
    Allreduce(Elements),
    /// All members' blocks side by side for the root.
    Gather {
        /// The member that gets them.
        root: u32,
        /// The bytes of one block.
        bytes: usize,
    },
    /// All members' blocks side by side for all.
    Allgather {
        /// The bytes of one block.
        bytes: usize,
    },
    /// A block from every member for every member.
    AllToAll {
        /// The bytes of one block.
        bytes: usize,
    },
    /// The elements of the members up to and with each one combined, in place.
    ScanInclusive(Elements),
    /// The elements of the members before each one combined, in place; those of the first member
    /// are undefined afterwards.
    ScanExclusive(Elements),
}

impl Collective {
    /// The bytes that `member` of `n_members` lends for it: its own block or blocks, and the
    /// result.
    fn lent(&self, (member, n_members): (u32, u32)) -> [usize; 2] {
        let all = |bytes: usize| bytes * n_members as usize;
        match *self {
            Self::Barrier => [0, 0],
            Self::Broadcast { bytes, .. } => [0, bytes],
            Self::Reduce { elements, .. }
            | Self::Allreduce(elements)
            | Self::ScanInclusive(elements)
            | Self::ScanExclusive(elements) => [0, elements.bytes()],
            Self::Gather { root, bytes } if root != member => [bytes, 0],
            Self::Gather { bytes, .. } | Self::Allgather { bytes } => [bytes, all(bytes)],
            Self::AllToAll { bytes } => [all(bytes), all(bytes)],
        }
    }
}

/// Integers that are combined element by element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements {
    /// The type of each.
    pub ty: IntegerType,
    /// The number of elements.
    pub len: usize,
    /// The operator; sums and products wrap around.
    pub op: OpKind,
}

impl Elements {
    /// The bytes of all elements.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.ty.bytes() * self.len
    }
}

/// An integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum IntegerType {
    /// `u8`.
    U8,
    /// `u16`.
    U16,
    /// `u32`.
    U32,
    /// `u64`.
    U64,
    /// `i8`.
    I8,
    /// `i16`.
    I16,
    /// `i32`.
    I32,
    /// `i64`.
    I64,
}

impl IntegerType {
    /// The size of one element in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 => 4,
            Self::U64 | Self::I64 => 8,
        }
    }

    /// `T`, if it is one of these.
    pub(crate) fn of<T: 'static>() -> Option<Self> {
        let is = |other: TypeId| TypeId::of::<T>() == other;
        let pointer_sized = |narrow, wide| match size_of::<T>() {
            4 => Some(narrow),
            8 => Some(wide),
            _ => None,
        };
        match () {
            () if is(TypeId::of::<u8>()) => Some(Self::U8),
            () if is(TypeId::of::<u16>()) => Some(Self::U16),
            () if is(TypeId::of::<u32>()) => Some(Self::U32),
            () if is(TypeId::of::<u64>()) => Some(Self::U64),
            () if is(TypeId::of::<usize>()) => pointer_sized(Self::U32, Self::U64),
            () if is(TypeId::of::<i8>()) => Some(Self::I8),
            () if is(TypeId::of::<i16>()) => Some(Self::I16),
            () if is(TypeId::of::<i32>()) => Some(Self::I32),
            () if is(TypeId::of::<i64>()) => Some(Self::I64),
            () if is(TypeId::of::<isize>()) => pointer_sized(Self::I32, Self::I64),
            () => None,
        }
    }
}

/// The collectives of a transport over one ordered set of ranks, as one member sees them.
///
/// Members are numbered in the order of the set. Core drops a group with the last handle on its
/// team, on each member at a time of its own, and that of all ranks after
/// [`leave`](super::Backend::leave). Several threads may call a group at once.
///
/// # Safety
///
/// 1. An operation reads and writes the buffers that it was begun with, in the lengths that its
///    [`Collective`] gives, and nothing else; and no buffer after [`test`](Self::test) has reported
///    it as complete.
/// 2. An operation is complete on a member with the result that the collective's definition gives,
///    the same bits on all members that get it.
pub unsafe trait Group: fmt::Debug + Send + Sync {
    /// Whether the transport performs this collective. The answer depends on the group and on
    /// `call` alone, so that it is the same on all members.
    fn offers(&self, call: &Collective) -> bool;

    /// Begins an offered collective, without waiting. Members begin the operations of a group in
    /// the same order.
    ///
    /// `send` is this member's block for a gather or an allgather, or its blocks for an all-to-all,
    /// in the order of the members; other collectives have none. `values` gets the result; for
    /// collectives in place it has this member's contribution before. A barrier has none, and in a
    /// gather only the root has it.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then nothing was begun.
    ///
    /// # Safety
    ///
    /// `send` is readable and `values` writable, as far as the collective has them, for as many
    /// bytes as it gives, and both are left alone until [`test`](Self::test) reports that the
    /// operation is complete.
    unsafe fn begin(&self, call: &Collective, send: *const u8, values: *mut u8) -> Result<OpId>;

    /// Makes the transport's progress, and says whether the operation is complete on this member.
    /// The id is valid until then; [`OpId::DONE`] is complete.
    ///
    /// # Errors
    ///
    /// Errors of the transport; then its id is no longer valid, and its buffers are the transport's
    /// for ever.
    fn test(&self, op: OpId) -> Result<bool>;

    /// Whether `rank`, a member that has left the job, had begun this operation before. If not, the
    /// operation never completes. `None` while that is not known; a rank that waits then asks
    /// again.
    fn has_begun(&self, op: OpId, rank: Rank) -> Option<bool>;

    /// Makes a group of the members that give the same colour, ordered by their keys. A member that
    /// gives `None` joins none, and gets `None`. All members of a colour get `None` if the
    /// transport offers no group for them: core then uses its own collectives.
    ///
    /// Colours and keys are below the number of members. All members call it right after they have
    /// met, so it may wait for the other members.
    ///
    /// # Errors
    ///
    /// Errors of the transport.
    fn split(&self, colour: Option<u32>, key: u32) -> Result<Option<Arc<dyn Group>>>;
}

/// An operation of a group, with the buffers that it works on.
#[derive(Debug)]
pub(crate) struct Flying<T> {
    op: OpId,
    send: Vec<T>,
    values: Vec<T>,
    is_over: bool,
}

impl<T: Pod> Flying<T> {
    /// Begins it for a member of a group: its number, and the number of members.
    ///
    /// # Panics
    ///
    /// If the buffers are shorter than the collective needs.
    pub(crate) fn begin(
        group: &dyn Group,
        call: &Collective,
        member: (u32, u32),
        send: Vec<T>,
        mut values: Vec<T>,
    ) -> Result<Self> {
        let here = [size_of_val(&*send), size_of_val(&*values)];
        let lent = call.lent(member);
        assert!(
            here[0] >= lent[0] && here[1] >= lent[1],
            "{call:?} of {member:?} has {lent:?} bytes, not {here:?}"
        );
        let (source, target) = (send.as_bytes().as_ptr(), values.as_mut_bytes().as_mut_ptr());
        // SAFETY: both buffers are as long as the collective has them, as was asserted. They are
        // kept, and left alone, until the operation is complete, or for ever, and the vectors'
        // memory stays where it is while they move.
        let op = unsafe { group.begin(call, source, target) }?;
        Ok(Self {
            op,
            send,
            values,
            is_over: op == OpId::DONE,
        })
    }

    pub(crate) fn op(&self) -> OpId {
        self.op
    }

    /// Whether it is complete. After an error the transport may still use the buffers.
    pub(crate) fn test(&mut self, group: &dyn Group) -> Result<bool> {
        if self.is_over {
            return Ok(true);
        }
        let tested = group.test(self.op);
        self.is_over = matches!(tested, Ok(true));
        tested
    }

    /// The result of one that is over.
    pub(crate) fn into_values(mut self) -> Vec<T> {
        assert!(self.is_over, "a result is there at the end");
        std::mem::take(&mut self.values)
    }
}

impl<T> Drop for Flying<T> {
    /// The buffers of an operation that is abandoned, since the job has failed or a wait took too
    /// long, stay allocated for ever: the transport may still use them.
    fn drop(&mut self) {
        if !self.is_over {
            std::mem::take(&mut self.send).leak();
            std::mem::take(&mut self.values).leak();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_lent_whole_or_the_call_is_refused() {
        let bytes = 12;
        let sum = Elements {
            ty: IntegerType::U32,
            len: 3,
            op: OpKind::Sum,
        };
        for (call, member, lent) in [
            (Collective::Barrier, 0, [0, 0]),
            (Collective::Broadcast { root: 1, bytes }, 0, [0, 12]),
            (
                Collective::Reduce {
                    root: 1,
                    elements: sum,
                },
                0,
                [0, 12],
            ),
            (Collective::Allreduce(sum), 0, [0, 12]),
            (Collective::ScanInclusive(sum), 0, [0, 12]),
            (Collective::ScanExclusive(sum), 0, [0, 12]),
            (Collective::Gather { root: 1, bytes }, 0, [12, 0]),
            (Collective::Gather { root: 1, bytes }, 1, [12, 48]),
            (Collective::Allgather { bytes }, 0, [12, 48]),
            (Collective::AllToAll { bytes }, 0, [48, 48]),
        ] {
            assert_eq!(call.lent((member, 4)), lent, "{call:?}");
        }
    }

    #[test]
    fn the_primitive_integers_up_to_eight_bytes_are_known() {
        assert_eq!(IntegerType::of::<u8>(), Some(IntegerType::U8));
        assert_eq!(IntegerType::of::<i16>(), Some(IntegerType::I16));
        assert_eq!(IntegerType::of::<u32>(), Some(IntegerType::U32));
        assert_eq!(IntegerType::of::<i64>(), Some(IntegerType::I64));
        let pointer_sized = [IntegerType::of::<usize>(), IntegerType::of::<isize>()];
        for ty in pointer_sized {
            assert_eq!(ty.map(IntegerType::bytes), Some(size_of::<usize>()));
        }
        assert_eq!(IntegerType::of::<u128>(), None);
        assert_eq!(IntegerType::of::<f64>(), None);
        assert_eq!(IntegerType::of::<[u8; 4]>(), None);
    }
}
