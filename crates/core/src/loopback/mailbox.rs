//! Received messages of a rank in short queues, and the bell that wakes it.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError, TryLockError};
use std::time::Duration;

use crate::Rank;
use crate::backend::{HandlerId, Message, MessageClass};
use crate::locks::lock;

/// Messages of one class that wait for a rank; short, so that back-pressure is met often.
const CAPACITY: usize = 16;

/// The two queues of a rank.
#[derive(Default)]
pub(super) struct Mailbox {
    requests: Mutex<Queue>,
    replies: Mutex<Queue>,
    /// Held by the one thread that receives.
    receiving: Mutex<()>,
}

#[derive(Default)]
struct Queue {
    letters: VecDeque<Letter>,
    taken: usize,
    offered: u64,
}

struct Letter {
    number: u64,
    from: Rank,
    handler: HandlerId,
    payload: Vec<u8>,
}

impl Queue {
    /// The next message; every third one is overtaken by its successor, since nothing promises
    /// order.
    fn take(&mut self) -> Option<Letter> {
        self.taken += 1;
        if self.taken.is_multiple_of(3) && self.letters.len() > 1 {
            return self.letters.remove(1);
        }
        self.letters.pop_front()
    }
}

impl Mailbox {
    fn queue(&self, class: MessageClass) -> &Mutex<Queue> {
        match class {
            MessageClass::Request => &self.requests,
            MessageClass::Reply => &self.replies,
        }
    }

    /// Messages that there is room for.
    pub(super) fn n_free(&self, class: MessageClass) -> u64 {
        CAPACITY.saturating_sub(lock(self.queue(class)).letters.len()) as u64
    }

    /// Leaves a message, if there is room, and gives its number.
    pub(super) fn offer(
        &self,
        class: MessageClass,
        from: Rank,
        handler: HandlerId,
        payload: Vec<u8>,
    ) -> Option<u64> {
        let mut queue = lock(self.queue(class));
        if queue.letters.len() >= CAPACITY {
            return None;
        }
        queue.offered += 1;
        let number = queue.offered;
        queue.letters.push_back(Letter {
            number,
            from,
            handler,
            payload,
        });
        Some(number)
    }

    /// Takes a message back, unless its receiver has taken it before.
    #[cold]
    pub(super) fn withdraw(&self, class: MessageClass, number: u64) -> bool {
        let mut queue = lock(self.queue(class));
        let n_before = queue.letters.len();
        queue.letters.retain(|letter| letter.number != number);
        queue.letters.len() < n_before
    }

    /// Passes up to `limit` messages to `sink`. Returns their number, and whether a full queue has
    /// room now.
    pub(super) fn receive(
        &self,
        class: MessageClass,
        limit: usize,
        sink: &mut dyn FnMut(Message<'_>),
    ) -> (usize, bool) {
        let _receiving = match self.receiving.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return (0, false),
        };
        let (mut received, mut freed) = (0, false);
        while received < limit {
            let letter = {
                let mut queue = lock(self.queue(class));
                freed |= queue.letters.len() == CAPACITY;
                queue.take()
            };
            let Some(letter) = letter else { break };
            received += 1;
            sink(Message {
                from: letter.from,
                class,
                handler: letter.handler,
                payload: &letter.payload,
            });
        }
        (received, freed)
    }

    /// Whether nothing waits here, and nothing is being handed out.
    pub(super) fn is_drained(&self) -> bool {
        let _receiving = match self.receiving.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        [&self.requests, &self.replies]
            .into_iter()
            .all(|queue| lock(queue).letters.is_empty())
    }
}

/// The bell that a rank sleeps on.
#[derive(Default)]
pub(super) struct Bell {
    pub(super) rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    /// Wakes a sleeping thread, or keeps the next one from falling asleep.
    pub(super) fn ring(&self) {
        *lock(&self.rung) = true;
        self.changed.notify_all();
    }

    /// Sleeps until the bell rings, at most `limit`.
    pub(super) fn wait(&self, limit: Duration) {
        let rung = lock(&self.rung);
        let (mut rung, _) = self
            .changed
            .wait_timeout_while(rung, limit, |rung| !*rung)
            .unwrap_or_else(PoisonError::into_inner);
        *rung = false;
    }
}
