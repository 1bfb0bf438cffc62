//! Puts that tell the target: data, then a signal word, and waiting for such a word.
#![expect(unsafe_code, reason = "calls the backend on checked addresses")]

use std::sync::atomic::{Ordering, fence};

use zerocopy::IntoBytes;

use super::{cut, put_by_backend};
use crate::backend::{AtomicCall, AtomicOp, AtomicType, RemoteAddr, SignalUpdate};
use crate::cost::CostKind;
use crate::raw::{copy, word};
use crate::waits::Awaited;
use crate::{GlobalPtr, Pod, Result, World};

impl<T: Pod> GlobalPtr<T> {
    /// Writes the elements of `values`, then updates the word `signal` on the same rank: who sees the
    /// update also sees the values (OpenSHMEM's `put_signal`).
    ///
    /// # Cost
    ///
    /// W + A, sent together where the transport can. One-sided. Complete locally on return, at the
    /// target after [`flush`](World::flush).
    ///
    /// # Errors
    ///
    /// What the transport reports; then the signal was not updated.
    ///
    /// # Panics
    ///
    /// If the signal is on another rank than the data, or one of them is null, misaligned or outside
    /// of a segment.
    #[track_caller]
    pub fn put_signal(
        self,
        world: &World,
        values: &[T],
        signal: GlobalPtr<u64>,
        update: SignalUpdate,
    ) -> Result<()> {
        let at = world.checked(self, values.len());
        let flag = world.checked(signal, 1);
        assert_eq!(
            at.rank, flag.rank,
            "a signal is on the rank of the data that it announces"
        );
        let src = values.as_bytes();
        world.count(CostKind::Write, Some(at.rank), 1, src.len());
        world.count(CostKind::Atomic, Some(at.rank), 1, 8);
        let (Some(dst), Some(place)) = (world.memory().place(at), world.words().place(flag)) else {
            return put_signal_by_backend(world, at, src, flag, update);
        };
        // SAFETY: `checked` found the elements inside the segment, which is mapped; `src` is
        // private memory, no part of a segment.
        unsafe { copy::to_shared(dst.as_ptr(), src.as_ptr(), src.len()) };
        // The release of the update below covers the copy, whatever instructions that used.
        fence(Ordering::Release);
        let (op, operand) = match update {
            SignalUpdate::Set(value) => (AtomicOp::Swap, value),
            SignalUpdate::Add(value) => (AtomicOp::Add, value),
        };
        // SAFETY: `checked` found the word aligned and inside the segment, which is mapped;
        // segments are only accessed atomically.
        unsafe {
            word::fetch(
                place.as_ptr(),
                AtomicCall {
                    op,
                    ty: AtomicType::U64,
                    operand,
                },
            )
        };
        world.backend().notify(flag.rank);
        Ok(())
    }
}

/// A put with a signal through the backend. What it does not take at once goes ahead, and is there
/// before the rest is sent. Both ranges have been checked.
fn put_signal_by_backend(
    world: &World,
    at: RemoteAddr,
    bytes: &[u8],
    flag: RemoteAddr,
    update: SignalUpdate,
) -> Result<()> {
    let longest = cut::longest(world);
    let ahead = bytes.len().saturating_sub(1) / longest * longest;
    let (first, last) = bytes.split_at(ahead);
    if !first.is_empty() {
        put_by_backend(world, at, first)?;
        world.flush(at.rank)?;
    }
    let dst = RemoteAddr {
        offset: at.offset + ahead as u64,
        ..at
    };
    let backend = world.backend();
    // SAFETY: the caller has checked both ranges, of the first of which this is a part.
    unsafe { backend.put_signal(dst, last.as_ptr(), last.len(), flag, update) }
}

impl GlobalPtr<u64> {
    /// Waits until the word, which lies in this rank's own segment, fulfils `condition`, and returns
    /// what it then held.
    ///
    /// A [`put_signal`](GlobalPtr::put_signal) wakes the waiter; after a plain atomic it may sleep up
    /// to 2 ms longer.
    ///
    /// # Cost
    ///
    /// Polling of a local word.
    ///
    /// # Errors
    ///
    /// The failure of the job while waiting.
    ///
    /// # Panics
    ///
    /// If the word is on another rank, null or misaligned.
    #[track_caller]
    pub fn wait_until(self, world: &World, condition: impl Fn(u64) -> bool) -> Result<u64> {
        world.checked(self, 1);
        assert_eq!(
            self.rank(),
            world.rank(),
            "a rank waits for words of its own segment"
        );
        let mut seen = 0;
        world.wait_until(&Awaited::new("a signal"), || {
            seen = self.atomic_load(world)?;
            Ok(condition(seen))
        })?;
        Ok(seen)
    }
}
