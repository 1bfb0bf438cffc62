//! Puts that tell the target: data, then a signal word, and waiting for such a word.

use std::sync::atomic::{Ordering, fence};

use crate::backend::SignalUpdate;
use crate::cost::CostKind;
use crate::waits::Awaited;
use crate::{GlobalPtr, Pod, Result, World};

impl<T: Pod> GlobalPtr<T> {
    /// Writes the elements of `values`, then updates the word `signal` on the same rank: a rank
    /// that sees the update also sees the values (OpenSHMEM's `put_signal`).
    ///
    /// # Cost
    ///
    /// W + A, sent together where the transport can. One-sided. Complete locally on return, at the
    /// target after [`flush`](World::flush).
    ///
    /// # Errors
    ///
    /// Errors of the transport; then the signal was not updated.
    ///
    /// # Panics
    ///
    /// If the signal is on another rank than the data, or one of them is null, misaligned or
    /// outside of a segment.
    #[track_caller]
    pub fn put_signal(
        self,
        world: &World,
        values: &[T],
        signal: GlobalPtr<u64>,
        update: SignalUpdate,
    ) -> Result<()> {
        let to = world.checked(self, values.len());
        let flag = world.checked(signal, 1);
        assert_eq!(
            to.rank(),
            flag.rank(),
            "a signal is on the rank of the data that it announces"
        );
        world.count(CostKind::Write, Some(to.rank()), 1, size_of_val(values));
        world.count(CostKind::Atomic, Some(to.rank()), 1, 8);
        let (Some(dst), Some(word)) = (to.mapped(world), flag.words(world)) else {
            return to.put_signal(world, values, flag.atomic(update.into()));
        };
        dst.copy_from(values);
        // The release of the update below covers the copy, whatever instructions that used.
        fence(Ordering::Release);
        word.fetch(update.into());
        world.backend().notify(flag.rank());
        Ok(())
    }
}

impl GlobalPtr<u64> {
    /// Waits until the word, which lies in this rank's own segment, fulfils `condition`, and
    /// returns its value then.
    ///
    /// A [`put_signal`](GlobalPtr::put_signal) wakes the waiter; after a plain atomic it may sleep
    /// up to 2 ms longer.
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
