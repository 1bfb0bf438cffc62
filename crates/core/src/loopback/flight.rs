//! Operations in flight: begun, performed a few calls of progress later, and out of order.
#![expect(
    unsafe_code,
    reason = "keeps raw pointers to the buffers of operations"
)]

use std::collections::HashSet;

use super::segment::Segment;
use crate::Rank;
use crate::backend::{AtomicCall, AtomicOp, OpId, RemoteAddr, SignalUpdate, Stage, SwapCall};

/// Calls of progress until an operation's source is read, and until it is performed, in turn: not the
/// same for neighbours, so that later operations overtake earlier ones.
const DELAYS: [(u32, u32); 3] = [(2, 3), (1, 3), (1, 2)];

/// What is to be done at the target.
pub(super) enum Operation {
    /// Writes blocks of bytes.
    Write(Vec<(RemoteAddr, Vec<u8>)>),
    /// Writes bytes that are still in the caller's buffer.
    WriteLater(Later<*const u8>),
    /// Reads bytes into the caller's buffer.
    ReadLater(Later<*mut u8>),
    /// Writes bytes, then updates a word.
    WriteSignal {
        dst: RemoteAddr,
        bytes: Vec<u8>,
        signal: RemoteAddr,
        update: SignalUpdate,
    },
    /// Performs an atomic and forgets the former value.
    Update {
        target: RemoteAddr,
        call: AtomicCall,
    },
    /// Performs an atomic and stores the former value in the caller's buffer.
    FetchLater(Later<*mut u64>, AtomicCall),
    /// Performs a compare-and-swap and stores the former value in the caller's buffer.
    SwapLater(Later<*mut u64>, SwapCall),
}

/// A transfer between a place in a segment and the caller's buffer, later.
pub(super) struct Later<P> {
    at: RemoteAddr,
    buffer: P,
    len: usize,
}

// SAFETY: who begins an operation leaves its buffer to it until the operation is over, whichever
// thread performs it.
unsafe impl<P> Send for Later<P> {}

impl Operation {
    /// A put whose source is read later.
    ///
    /// # Safety
    ///
    /// `src` is readable for `len` bytes and stays as it is until [`Flight::test`] reports
    /// [`Stage::Source`].
    pub(super) unsafe fn write_later(at: RemoteAddr, src: *const u8, len: usize) -> Self {
        let buffer = src;
        Self::WriteLater(Later { at, buffer, len })
    }

    /// A get whose destination is written later.
    ///
    /// # Safety
    ///
    /// `dst` is writable for `len` bytes and is left alone until [`Flight::test`] reports
    /// [`Stage::Operation`].
    pub(super) unsafe fn read_later(at: RemoteAddr, dst: *mut u8, len: usize) -> Self {
        let buffer = dst;
        Self::ReadLater(Later { at, buffer, len })
    }

    /// An atomic whose result is written later.
    ///
    /// # Safety
    ///
    /// `result` is writable and is left alone until [`Flight::test`] reports [`Stage::Operation`].
    pub(super) unsafe fn fetch_later(at: RemoteAddr, call: AtomicCall, result: *mut u64) -> Self {
        let (buffer, len) = (result, call.ty.bytes());
        Self::FetchLater(Later { at, buffer, len }, call)
    }

    /// A compare-and-swap whose result is written later.
    ///
    /// # Safety
    ///
    /// As [`fetch_later`](Self::fetch_later).
    pub(super) unsafe fn swap_later(at: RemoteAddr, call: SwapCall, result: *mut u64) -> Self {
        let (buffer, len) = (result, call.ty.bytes());
        Self::SwapLater(Later { at, buffer, len }, call)
    }

    /// Reads the source now, if it has not been read yet.
    fn take_source(&mut self) {
        if let Self::WriteLater(later) = self {
            // SAFETY: `write_later`'s caller promised that the source is readable until it is
            // reported as free, which comes after this.
            let bytes = unsafe { copied(later.buffer, later.len) };
            *self = Self::Write(vec![(later.at, bytes)]);
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
            Self::WriteLater(later) => Some(later.at.rank),
            Self::ReadLater(later) => Some(later.at.rank),
            Self::WriteSignal { dst, .. } => Some(dst.rank),
            Self::Update { target, .. } => Some(target.rank),
            Self::FetchLater(later, _) | Self::SwapLater(later, _) => Some(later.at.rank),
        }
    }

    /// Does it, on the segments that `segment` gives; `wake` tells a rank of a signal.
    pub(super) fn perform<'a>(
        &self,
        segment: impl Fn(Rank) -> &'a Segment,
        wake: impl FnOnce(Rank),
    ) {
        match self {
            Self::Write(blocks) => {
                for (at, bytes) in blocks {
                    segment(at.rank).write(at.offset, bytes);
                }
            }
            Self::WriteLater(_) => unreachable!("the source is taken before"),
            Self::ReadLater(later) => {
                let source = segment(later.at.rank);
                // SAFETY: `read_later`'s caller promised that the buffer is writable until the
                // operation is reported, which comes after this.
                unsafe { source.read_to(later.at.offset, later.buffer, later.len) };
            }
            Self::WriteSignal {
                dst,
                bytes,
                signal,
                update,
            } => {
                let target = segment(dst.rank);
                target.write(dst.offset, bytes);
                match *update {
                    SignalUpdate::Set(value) => target.signal(signal.offset, AtomicOp::Swap, value),
                    SignalUpdate::Add(value) => target.signal(signal.offset, AtomicOp::Add, value),
                }
                wake(dst.rank);
            }
            Self::Update { target, call } => {
                segment(target.rank).fetch(target.offset, *call);
            }
            Self::FetchLater(later, call) => {
                let former = segment(later.at.rank).fetch(later.at.offset, *call);
                // SAFETY: `fetch_later`'s caller promised that the result is writable until the
                // operation is reported, which comes after this.
                unsafe { later.buffer.write(former) };
            }
            Self::SwapLater(later, call) => {
                let former = segment(later.at.rank).compare_swap(later.at.offset, *call);
                // SAFETY: `swap_later`'s caller promised that the result is writable until the
                // operation is reported, which comes after this.
                unsafe { later.buffer.write(former) };
            }
        }
    }
}

/// The `len` bytes at `src`.
///
/// # Safety
///
/// They are readable, and nobody writes them meanwhile.
pub(super) unsafe fn copied(src: *const u8, len: usize) -> Vec<u8> {
    // SAFETY: the caller promises `len` readable bytes that nobody writes while this call, which is
    // longer than the slice, runs. They are initialized, and the pointer is not null, since core
    // gives those of slices of `Pod`.
    unsafe { std::slice::from_raw_parts(src, len) }.to_vec()
}

/// The operations that one rank has in flight.
#[derive(Default)]
pub(super) struct Flight {
    begun: u64,
    flying: Vec<Flying>,
    /// Performed, and not yet reported to who began them.
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

    /// One call of progress; says whether it did anything.
    pub(super) fn advance(&mut self, mut perform: impl FnMut(&Operation)) -> bool {
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
    pub(super) fn flush(&mut self, rank: Option<Rank>, mut perform: impl FnMut(&Operation)) {
        let meant = |flying: &mut Flying| rank.is_none() || flying.operation.target() == rank;
        let landed: Vec<_> = self.flying.extract_if(.., meant).collect();
        self.land(landed, &mut perform);
    }

    fn land(&mut self, landed: Vec<Flying>, perform: &mut impl FnMut(&Operation)) {
        for mut flying in landed.into_iter().rev() {
            flying.operation.take_source();
            perform(&flying.operation);
            self.done.extend(flying.id);
        }
    }
}
