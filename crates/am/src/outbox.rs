//! Messages that met back-pressure where nothing may wait, in handlers.
//!
//! Replies are always kept. That is bounded: a rank serves no requests while it keeps replies, so that it never has more
//! of them than one batch of requests gives; and replies leave, because every rank serves those that it gets
//! whatever else it waits for. Requests are kept up to a limit.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pgas_core::backend::{HandlerId, MessageClass, Sent};
use pgas_core::{Rank, Result, World};

/// How many requests of handlers are kept at most, and how many bytes they have.
const MAX_REQUESTS: usize = 1024;
const MAX_REQUEST_BYTES: usize = 1 << 20;

#[derive(Debug)]
struct Letter {
    to: Rank,
    id: HandlerId,
    payload: Vec<u8>,
}

/// The two lists of a rank.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    replies: Mutex<VecDeque<Letter>>,
    requests: Mutex<VecDeque<Letter>>,
    // Hints that save the locks where there is nothing.
    n_replies: AtomicUsize,
    n_requests: AtomicUsize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outbox {
    /// Whether replies are kept.
    #[inline]
    pub(crate) fn has_replies(&self) -> bool {
        self.n_replies.load(Ordering::Relaxed) > 0
    }

    /// Whether requests are kept.
    #[inline]
    pub(crate) fn has_requests(&self) -> bool {
        self.n_requests.load(Ordering::Relaxed) > 0
    }

    #[cold]
    pub(crate) fn keep_reply(&self, to: Rank, id: HandlerId, payload: Vec<u8>) {
        let mut replies = lock(&self.replies);
        replies.push_back(Letter { to, id, payload });
        self.n_replies.store(replies.len(), Ordering::Relaxed);
    }

    /// Keeps a request, unless too much is kept already.
    #[cold]
    pub(crate) fn keep_request(&self, to: Rank, id: HandlerId, parts: &[&[u8]]) -> bool {
        let payload = parts.concat();
        let mut requests = lock(&self.requests);
        let n_bytes: usize = requests.iter().map(|letter| letter.payload.len()).sum();
        if requests.len() >= MAX_REQUESTS || n_bytes + payload.len() > MAX_REQUEST_BYTES {
            return false;
        }
        requests.push_back(Letter { to, id, payload });
        self.n_requests.store(requests.len(), Ordering::Relaxed);
        true
    }

    /// Sends what there is room for, and says whether anything was sent.
    #[inline]
    pub(crate) fn flush(&self, world: &World) -> Result<bool> {
        if !self.has_replies() && !self.has_requests() {
            return Ok(false);
        }
        self.flush_all(world)
    }

    #[cold]
    fn flush_all(&self, world: &World) -> Result<bool> {
        let mut worked = false;
        for (class, list, n) in [
            (MessageClass::Reply, &self.replies, &self.n_replies),
            (MessageClass::Request, &self.requests, &self.n_requests),
        ] {
            let mut letters = lock(list);
            let before = letters.len();
            // Each is offered once: nothing is promised about their order.
            for _ in 0..before {
                let Some(letter) = letters.pop_front() else {
                    break;
                };
                let parts = [letter.payload.as_slice()];
                match world.try_send(letter.to, class, letter.id, &parts) {
                    Ok(Sent::Accepted) => {}
                    Ok(Sent::BackPressure) => letters.push_back(letter),
                    // It has left without waiting for the message.
                    Err(pgas_core::Error::RankFailed(_)) if world.has_left(letter.to) => {}
                    Err(error) => return Err(error),
                }
            }
            worked |= letters.len() < before;
            n.store(letters.len(), Ordering::Relaxed);
        }
        Ok(worked)
    }
}
