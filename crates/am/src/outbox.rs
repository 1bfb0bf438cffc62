//! The outbox: messages that met back-pressure in handlers and actions, which must not wait.
//!
//! Replies are always kept. Their number is bounded: a rank serves no requests while it keeps
//! replies, so it owes replies to at most one batch of requests. They are sent in the end, because
//! every rank receives replies whatever it waits for. Requests are kept up to [`ROOM`] bytes.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pgas_core::backend::{HandlerId, MessageClass, Sent};
use pgas_core::{Rank, Result, World};

use crate::error::says_left;
use crate::function::LAYER_KEY;
use crate::ids::{PIECE, is_one_way};
use crate::pieces::Pieces;

/// The bytes of requests that are kept before further ones are refused; the last one may have any
/// length. Unit tests use a low limit.
pub(crate) const ROOM: usize = if cfg!(test) { 1 << 16 } else { 1 << 28 };

#[derive(Debug)]
struct Letter {
    id: HandlerId,
    payload: Vec<u8>,
}

impl Letter {
    /// The memory that the message takes.
    fn n_bytes(&self) -> usize {
        // The overhead of an allocation.
        const ALLOCATION: usize = 16;
        size_of::<Self>() + ALLOCATION + self.payload.capacity()
    }

    /// Whether a call that nobody waits for is lost with it: it is the whole of one, or its last
    /// piece.
    fn ends_one_way(&self) -> bool {
        let handler = match self.id {
            PIECE => Pieces::last_of(&self.payload),
            id => Some(id),
        };
        handler.is_some_and(is_one_way)
    }
}

/// Messages of one class, by their targets.
#[derive(Debug, Default)]
struct Letters {
    of: BTreeMap<Rank, VecDeque<Letter>>,
    n: usize,
    n_bytes: usize,
}

#[derive(Debug, Default)]
struct Kept {
    letters: Mutex<Letters>,
    /// A hint that saves the lock where there is nothing.
    n: AtomicUsize,
}

/// The messages that a rank keeps.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    replies: Kept,
    requests: Kept,
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, Letters> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn has_some(&self) -> bool {
        self.n.load(Ordering::Relaxed) > 0
    }

    fn keep(&self, letters: &mut Letters, to: Rank, letter: Letter) {
        letters.n += 1;
        letters.n_bytes += letter.n_bytes();
        letters.of.entry(to).or_default().push_back(letter);
        self.n.store(letters.n, Ordering::Relaxed);
    }

    /// Sends kept messages as far as there is room. Returns whether any was sent, and adds one-way
    /// messages to ranks that have left to `undelivered`.
    fn flush(
        &self,
        world: &World,
        class: MessageClass,
        undelivered: &mut Undelivered,
    ) -> Result<bool> {
        let mut letters = self.lock();
        let before = letters.n;
        let Letters { of, n, n_bytes } = &mut *letters;
        let mut flushed = Ok(());
        of.retain(|to, queue| {
            // Stop at the first refusal of a target: it would refuse the next one, too.
            while let Some(letter) = queue.front() {
                let parts = [letter.payload.as_slice()];
                match world.try_send_to_layer(LAYER_KEY, *to, class, letter.id, &parts) {
                    Ok(Sent::Accepted) => {}
                    Ok(Sent::BackPressure) => return true,
                    // The target has left without waiting for the message.
                    Err(error) if says_left(&error, *to) => {
                        undelivered.n += u64::from(letter.ends_one_way());
                        undelivered.rank = Some(*to);
                    }
                    Err(error) => {
                        flushed = Err(error);
                        return true;
                    }
                }
                *n -= 1;
                *n_bytes -= letter.n_bytes();
                queue.pop_front();
            }
            false
        });
        self.n.store(*n, Ordering::Relaxed);
        flushed.map(|()| *n < before)
    }
}

/// One-way messages that no rank receives any more.
#[derive(Debug, Default)]
pub(crate) struct Undelivered {
    pub(crate) n: u64,
    pub(crate) rank: Option<Rank>,
}

impl Outbox {
    /// Whether replies are kept.
    #[inline]
    pub(crate) fn has_replies(&self) -> bool {
        self.replies.has_some()
    }

    /// Whether anything is kept.
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.replies.has_some() || self.requests.has_some()
    }

    #[cold]
    pub(crate) fn keep_reply(&self, to: Rank, id: HandlerId, payload: Vec<u8>) {
        let kept = &self.replies;
        kept.keep(&mut kept.lock(), to, Letter { id, payload });
    }

    /// Whether requests are still kept.
    pub(crate) fn has_room(&self) -> bool {
        self.requests.lock().n_bytes < ROOM
    }

    /// Whether requests to `to` are kept.
    pub(crate) fn has_requests_to(&self, to: Rank) -> bool {
        self.requests.has_some() && self.requests.lock().of.contains_key(&to)
    }

    /// Keeps a request, unless too much is kept already.
    #[cold]
    pub(crate) fn keep_request(&self, to: Rank, id: HandlerId, parts: &[&[u8]]) -> bool {
        let payload = parts.concat();
        let mut letters = self.requests.lock();
        if letters.n_bytes >= ROOM {
            return false;
        }
        self.requests.keep(&mut letters, to, Letter { id, payload });
        true
    }

    /// As [`keep_request`](Self::keep_request), for the rest of a call of which some was sent.
    pub(crate) fn keep_piece(&self, to: Rank, id: HandlerId, payload: Vec<u8>) {
        let kept = &self.requests;
        kept.keep(&mut kept.lock(), to, Letter { id, payload });
    }

    /// Sends kept messages as far as there is room, and says whether any was sent. `lost` gets the
    /// one-way requests to ranks that have left; who waits for an answer is told by another way.
    #[inline]
    pub(crate) fn flush(&self, world: &World, lost: impl FnOnce(Undelivered)) -> Result<bool> {
        if !self.has_some() {
            return Ok(false);
        }
        self.flush_all(world, lost)
    }

    #[cold]
    fn flush_all(&self, world: &World, lost: impl FnOnce(Undelivered)) -> Result<bool> {
        // Replies to a rank that has left need no report: no rank waits for them. Its callers are
        // told by another way.
        let mut worked =
            self.replies
                .flush(world, MessageClass::Reply, &mut Undelivered::default())?;
        let mut undelivered = Undelivered::default();
        let flushed = self
            .requests
            .flush(world, MessageClass::Request, &mut undelivered);
        if undelivered.n > 0 {
            lost(mem::take(&mut undelivered));
        }
        worked |= flushed?;
        Ok(worked)
    }

    /// The number of one-way messages that are kept.
    pub(crate) fn n_one_way(&self) -> u64 {
        let letters = self.requests.lock();
        let all = letters.of.values().flatten();
        all.map(|letter| u64::from(letter.ends_one_way())).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64};
    use std::thread;

    use pgas_core::backend::loopback;

    use crate::state::am;
    use crate::{Error, RemoteCalls, quiet};

    use super::*;

    #[test]
    fn what_handlers_send_is_kept_up_to_a_limit_and_all_of_it_arrives() {
        static N_RUN: AtomicU64 = AtomicU64::new(0);
        let world = loopback::world();
        crate::attach(&world).unwrap();
        let outbox = &am(&world).unwrap().outbox;
        let short = || {
            let run = |()| _ = N_RUN.fetch_add(1, Ordering::Relaxed);
            world.rpc_ff(Rank::ZERO, run, ())
        };
        // A call in pieces.
        let long = || world.rpc_ff(Rank::ZERO, drop::<Vec<u8>>, vec![7; 100_000]);
        let mut n_all = 0;
        for _ in 0..3 {
            let n_sent = pgas_core::as_handler(|| {
                let n_sent = (0..5000).take_while(|_| short().is_ok()).count();
                assert!((100..5000).contains(&n_sent), "{n_sent}");
                for refused in [short(), long()] {
                    assert!(matches!(refused, Err(Error::BackPressure { .. })));
                }
                n_sent as u64
            });
            assert!(outbox.has_some() && !outbox.has_room());
            quiet(&world).unwrap();
            n_all += n_sent;
            assert_eq!(N_RUN.load(Ordering::Relaxed), n_all);
            assert!(!outbox.has_some() && outbox.has_room());
            assert_eq!(outbox.n_one_way(), 0);
        }
        pgas_core::as_handler(long).unwrap();
        quiet(&world).unwrap();
        assert!(!outbox.has_some());
    }

    #[test]
    fn each_one_way_call_that_was_kept_for_a_rank_that_has_left_is_lost() {
        const ONE: Rank = Rank::new(1);
        let is_kept = AtomicBool::new(false);
        loopback::run(2, |world| {
            crate::attach(&world).unwrap();
            if world.rank() == ONE {
                while !is_kept.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                return;
            }
            let am = am(&world).unwrap();
            let call = pgas_core::as_handler(|| {
                while am.outbox.n_one_way() < 3 {
                    world.rpc_ff(ONE, drop::<u64>, 1).unwrap();
                }
                // In several pieces.
                world.rpc_ff(ONE, drop::<Vec<u8>>, vec![7; 50_000]).unwrap();
                world.rpc(ONE, |x: u64| x, 1).unwrap()
            });
            assert_eq!(am.outbox.n_one_way(), 4);
            is_kept.store(true, Ordering::Release);
            while !world.has_left(ONE) {
                thread::yield_now();
            }
            world.progress().unwrap();
            assert!(!am.outbox.has_some());
            assert_eq!(am.lost.n(), 4);
            assert!(call.wait().is_err());
        });
    }
}
