//! Lost calls: one-way calls that could not be sent or run, whose callers do not wait for them.
//!
//! The next [`quiet`](crate::quiet) reports them on all ranks. The rest is written to standard
//! error when the rank leaves the job.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pgas_core::{Rank, World, notice};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::Result;
use crate::error::shortened;
use pgas_core::Undelivered;

/// A reason is shortened to this.
pub(crate) const MAX_TEXT: usize = 240;

/// Lost calls of a rank that were not reported yet.
#[derive(Default)]
pub(crate) struct Lost {
    n: AtomicU64,
    /// The reason of the first loss.
    reason: Mutex<String>,
    /// The number of running `quiet` calls. While there are any, they report errors of messages,
    /// instead of the call that receives the messages.
    n_tellers: AtomicU64,
}

/// A guard: while it lives, errors of received messages are recorded as losses.
#[derive(Debug)]
pub(crate) struct TellsErrors<'a>(&'a Lost);

impl Drop for TellsErrors<'_> {
    fn drop(&mut self) {
        self.0.n_tellers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lost({})", self.n())
    }
}

/// A text of bounded length, as it travels.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Text {
    len: u64,
    bytes: [u8; MAX_TEXT],
}

impl Lost {
    /// Records `n` lost calls.
    #[cold]
    pub(crate) fn add(&self, n: u64, reason: &dyn fmt::Display) {
        let mut first = self.reason();
        if first.is_empty() {
            *first = shortened(&reason.to_string(), MAX_TEXT);
        }
        // Release: a thread that sees the number sees the reason.
        self.n.fetch_add(n, Ordering::Release);
    }

    /// Reports errors on all ranks that would otherwise surface between the steps of a collective,
    /// on one rank alone.
    pub(crate) fn tells_errors(&self) -> TellsErrors<'_> {
        self.n_tellers.fetch_add(1, Ordering::Relaxed);
        TellsErrors(self)
    }

    /// Whether a `quiet` reports errors.
    pub(crate) fn has_teller(&self) -> bool {
        self.n_tellers.load(Ordering::Relaxed) > 0
    }

    fn reason(&self) -> MutexGuard<'_, String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of losses that were not reported.
    pub(crate) fn n(&self) -> u64 {
        // Acquire: pairs with the release in `add`.
        self.n.load(Ordering::Acquire)
    }

    /// Takes `n` losses of this rank, which are reported now, and returns the reason.
    fn take(&self, n: u64) -> String {
        let mut reason = self.reason();
        if self.n.fetch_sub(n, Ordering::AcqRel) == n {
            return std::mem::take(&mut reason);
        }
        // More losses came meanwhile. The first reason is reported again with them.
        reason.clone()
    }

    /// Reports `n_all` lost calls to all ranks, `n_here` of them this rank's. Collective.
    #[cold]
    #[track_caller]
    pub(crate) fn tell(&self, world: &World, n_here: u64, n_all: u64) -> Result<Undelivered> {
        let reason = if n_here > 0 {
            self.take(n_here)
        } else {
            String::new()
        };
        let mut text = Text {
            len: reason.len() as u64,
            bytes: [0; MAX_TEXT],
        };
        text.bytes[..reason.len()].copy_from_slice(reason.as_bytes());
        let own = if n_here > 0 {
            u64::from(world.rank().number())
        } else {
            u64::MAX
        };
        let first = world.allreduce(own, pgas_core::collective::op::Min)?;
        let rank = Rank::new(u32::try_from(first).unwrap_or(0));
        let text = world.broadcast(rank, text)?;
        let len = usize::try_from(text.len).map_or(MAX_TEXT, |len| len.min(MAX_TEXT));
        let reason = String::from_utf8_lossy(&text.bytes[..len]).into_owned();
        Ok(Undelivered {
            n: n_all,
            rank,
            reason,
        })
    }

    /// Reports losses that no `quiet` has reported, when the rank leaves.
    pub(crate) fn tell_at_the_end(&self, rank: Rank) {
        let n = self.n();
        if n == 0 {
            return;
        }
        let reason = self.take(n);
        let calls = if n == 1 { "message" } else { "messages" };
        // Nobody is left who could be returned an error.
        notice::tell(&format_args!(
            "rank {rank} has left the job with {n} one-way {calls} lost: {reason}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_is_told_until_all_that_was_lost_is() {
        let lost = Lost::default();
        lost.add(2, &"first");
        lost.add(1, &"second");
        assert_eq!(lost.n(), 3);
        assert_eq!((lost.take(2), lost.n()), ("first".to_owned(), 1));
        assert_eq!((lost.take(1), lost.n()), ("first".to_owned(), 0));
        lost.add(1, &"third");
        assert_eq!((lost.take(1), lost.n()), ("third".to_owned(), 0));
    }

    #[test]
    fn a_reason_that_has_no_room_keeps_its_end() {
        let lost = Lost::default();
        lost.add(1, &format!("x{}!", "y".repeat(MAX_TEXT)));
        let told = lost.take(1);
        assert!(told.starts_with('x') && told.ends_with('!'), "{told}");
        assert!(told.len() <= MAX_TEXT);
    }
}
