//! Operations in flight: begun, performed a few calls of progress later, and out of order.

use std::collections::HashSet;

use super::segment::Segment;
use crate::Rank;
use crate::backend::{Atomic, Former, Get, OpId, Operand, Put, RemoteAddr, Stage, SwapCall};

/// Calls of progress until an operation's source is read, and until it is performed, in turn: not
/// the same for neighbours, so that later operations overtake earlier ones.
const DELAYS: [(u32, u32); 3] = [(2, 3), (1, 3), (1, 2)];

/// An operation to perform at the target.
pub(super) enum Operation {
    /// Writes blocks of bytes.
    Write(Vec<(RemoteAddr, Vec<u8>)>),
    /// Writes bytes that are still in the caller's buffer.
    WriteLater(Put),
    /// Reads bytes into the caller's buffer.
    ReadLater(Get),
    /// Writes bytes, then updates a word.
    WriteSignal {
        dst: RemoteAddr,
        bytes: Vec<u8>,
        signal: Atomic,
    },
    /// Performs an atomic and forgets the former value.
    Update(Atomic),
    /// Performs an atomic and stores the former value in the caller's buffer.
    FetchLater(Atomic, Former),
    /// Performs a compare-and-swap and stores the former value in the caller's buffer.
    SwapLater(Atomic<SwapCall>, Former),
}

impl Operation {
    /// Reads the source now, if it has not been read yet.
    fn take_source(&mut self) {
        if let Self::WriteLater(put) = self {
            *self = Self::Write(vec![(put.dst(), put.to_vec())]);
        }
    }

    /// Whether the caller's source buffer is free.
    fn has_source(&self) -> bool {
        !matches!(
            self,
            Self::WriteLater(_) | Self::ReadLater(_) | Self::FetchLater(..) | Self::SwapLater(..)
        )
    }

    fn target(&self) -> Option<Rank> {
        match self {
            Self::Write(blocks) => blocks.first().map(|(at, _)| at.rank),
            Self::WriteLater(put) => Some(put.rank()),
            Self::ReadLater(get) => Some(get.rank()),
            Self::WriteSignal { dst, .. } => Some(dst.rank),
            Self::Update(atomic) | Self::FetchLater(atomic, _) => Some(atomic.rank()),
            Self::SwapLater(swap, _) => Some(swap.rank()),
        }
    }

    /// Performs it on the segments that `segment` returns; `wake` tells a rank of a signal.
    pub(super) fn perform<'a>(
        self,
        segment: impl Fn(Rank) -> &'a Segment,
        wake: impl FnOnce(Rank),
    ) {
        match self {
            Self::Write(blocks) => {
                for (at, bytes) in blocks {
                    segment(at.rank).write(at.offset, &bytes);
                }
            }
            Self::WriteLater(_) => unreachable!("the source is taken before"),
            Self::ReadLater(get) => segment(get.rank()).read_to(&get),
            Self::WriteSignal { dst, bytes, signal } => {
                let target = segment(dst.rank);
                target.write(dst.offset, &bytes);
                target.fetch(&signal);
                wake(dst.rank);
            }
            Self::Update(atomic) => {
                segment(atomic.rank()).fetch(&atomic);
            }
            Self::FetchLater(atomic, former) => {
                former.set(segment(atomic.rank()).fetch(&atomic));
            }
            Self::SwapLater(swap, former) => {
                former.set(segment(swap.rank()).compare_swap(&swap));
            }
        }
    }
}

/// The operations that one rank has in flight.
#[derive(Default)]
pub(super) struct Flight {
    begun: u64,
    flying: Vec<Flying>,
    /// Performed operations that were not reported yet.
    done: HashSet<OpId>,
}

struct Flying {
    /// `None` for operations that nobody asks about.
    id: Option<OpId>,
    operation: Operation,
    /// Calls of progress until the source is read, and until all is done.
    source_in: u32,
    done_in: u32,
}

impl std::fmt::Debug for Flight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Flight({} operations)", self.flying.len())
    }
}

impl Flight {
    /// Begins an operation that [`test`](Self::test) can be asked about.
    pub(super) fn begin(&mut self, operation: Operation) -> OpId {
        let id = OpId(self.begun + 1);
        self.push(Some(id), operation);
        id
    }

    /// Begins an operation that nobody asks about.
    pub(super) fn begin_unobserved(&mut self, operation: Operation) {
        self.push(None, operation);
    }

    fn push(&mut self, id: Option<OpId>, operation: Operation) {
        self.begun += 1;
        let turn = usize::try_from(self.begun % 3).expect("below 3");
        let (source_in, done_in) = DELAYS[turn];
        self.flying.push(Flying {
            id,
            operation,
            source_in,
            done_in,
        });
    }

    /// Whether `op` has reached `stage`; an operation is reported as complete once.
    pub(super) fn test(&mut self, op: OpId, stage: Stage) -> bool {
        let done = match stage {
            Stage::Source => self.done.contains(&op),
            Stage::Operation => self.done.remove(&op),
        };
        if done {
            return true;
        }
        let flying = self.flying.iter().find(|flying| flying.id == Some(op));
        let flying = flying.expect("an operation is not asked about after it was complete");
        stage == Stage::Source && flying.operation.has_source()
    }

    /// One call of progress. Returns whether it did anything.
    pub(super) fn advance(&mut self, mut perform: impl FnMut(Operation)) -> bool {
        let before = self.flying.len();
        for flying in &mut self.flying {
            flying.source_in = flying.source_in.saturating_sub(1);
            flying.done_in -= 1;
            if flying.source_in == 0 {
                flying.operation.take_source();
            }
        }
        let landed: Vec<_> = self.flying.extract_if(.., |f| f.done_in == 0).collect();
        self.land(landed, &mut perform);
        self.flying.len() < before
    }

    /// Performs everything on `rank`, or on every rank, the latest first.
    pub(super) fn flush(&mut self, rank: Option<Rank>, mut perform: impl FnMut(Operation)) {
        let meant = |flying: &mut Flying| rank.is_none() || flying.operation.target() == rank;
        let landed: Vec<_> = self.flying.extract_if(.., meant).collect();
        self.land(landed, &mut perform);
    }

    fn land(&mut self, landed: Vec<Flying>, perform: &mut impl FnMut(Operation)) {
        for mut flying in landed.into_iter().rev() {
            flying.operation.take_source();
            perform(flying.operation);
            self.done.extend(flying.id);
        }
    }
}
