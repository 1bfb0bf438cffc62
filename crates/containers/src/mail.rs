//! Elements that travel to other ranks by messages, and arrive in the order of each sender.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pgas_am::codec::{AsBytes, Wire};
use pgas_am::{DistObject, RemoteCalls as _, WeakObject};
use pgas_core::{Pod, Rank};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::Result;

/// The received elements of a rank.
pub(crate) struct Inbox<S>(Mutex<Arrived<S>>);

struct Arrived<S> {
    slots: Vec<S>,
    /// The sum of the numbers that senders have told.
    told: u64,
    senders: HashMap<u64, Sender<S>>,
}

/// The messages of one sender.
struct Sender<S> {
    /// The number of the next message.
    next: u64,
    /// How often it has told a number.
    n_told: u64,
    /// The number of its messages, once it has dropped its end.
    n_in_all: Option<u64>,
    /// Messages that have overtaken it.
    early: BTreeMap<u64, Vec<S>>,
}

/// The header of a message of elements.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Head {
    from: u64,
    /// The number of the message among those from its sender to its receiver.
    number: u64,
    told: u64,
}

impl Wire for Head {
    type By = AsBytes;
}

/// Room in a message for all that is not elements: the headers, with a margin.
pub(crate) const BESIDE: usize = 128;

/// The number of values that fit in `bytes`, at least one.
pub(crate) const fn fit<T>(bytes: usize) -> usize {
    match bytes.checked_div(size_of::<T>()) {
        None => bytes,
        Some(0) => 1,
        Some(n) => n,
    }
}

/// The function that a target runs.
fn deliver<S: Pod>((inbox, head): (DistObject<Inbox<S>>, Head), slots: &[S]) {
    inbox.lock().take(&head, slots);
}

/// The function that a target runs when the rank `from`, which has sent it `n_in_all` messages, has
/// dropped its end. The target may have dropped its own.
fn end<S: Pod>((inbox, from, n_in_all): (WeakObject<Inbox<S>>, u64, u64)) {
    if let Some(inbox) = inbox.upgrade() {
        inbox.lock().end(from, n_in_all);
    }
}

impl<S: Pod> Inbox<S> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Arrived {
            slots: Vec::new(),
            told: 0,
            senders: HashMap::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Arrived<S>> {
        // No code panics while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of elements in one message, at least one.
    pub(crate) fn most(max_medium: usize) -> usize {
        fit::<S>(max_medium.saturating_sub(BESIDE))
    }

    /// Appends the received elements to `slots`, and returns their number.
    pub(crate) fn take_to(&self, slots: &mut Vec<S>) -> u64 {
        let mut arrived = self.lock();
        let n = arrived.slots.len() as u64;
        if slots.is_empty() {
            mem::swap(slots, &mut arrived.slots);
        } else {
            slots.append(&mut arrived.slots);
        }
        n
    }

    /// The sum of the numbers told.
    pub(crate) fn told(&self) -> u64 {
        self.lock().told
    }

    /// How often `from` has told a number.
    pub(crate) fn n_told_by(&self, from: Rank) -> u64 {
        let arrived = self.lock();
        let sender = arrived.senders.get(&from.number().into());
        sender.map_or(0, |sender| sender.n_told)
    }

    /// Whether `from` has dropped its end, and all that it has sent before has come.
    pub(crate) fn is_dropped_by(&self, from: Rank) -> bool {
        let arrived = self.lock();
        let sender = arrived.senders.get(&from.number().into());
        sender.is_some_and(|sender| sender.n_in_all == Some(sender.next))
    }
}

impl<S> Sender<S> {
    const NEW: Self = Self {
        next: 0,
        n_told: 0,
        n_in_all: None,
        early: BTreeMap::new(),
    };
}

impl<S: Pod> Arrived<S> {
    fn end(&mut self, from: u64, n_in_all: u64) {
        let sender = self.senders.entry(from).or_insert(Sender::NEW);
        sender.n_in_all = Some(n_in_all);
    }

    fn take(&mut self, head: &Head, slots: &[S]) {
        self.told = self.told.wrapping_add(head.told);
        let sender = self.senders.entry(head.from).or_insert(Sender::NEW);
        sender.n_told += u64::from(head.told > 0);
        if head.number != sender.next {
            sender.early.insert(head.number, slots.to_vec());
            return;
        }
        sender.next += 1;
        self.slots.extend_from_slice(slots);
        while let Some(early) = sender.early.remove(&sender.next) {
            sender.next += 1;
            self.slots.extend_from_slice(&early);
        }
    }
}

/// Sends message `number` of this rank to `to`. Waits for room, and serves others meanwhile.
pub(crate) fn send<S: Pod>(
    inbox: &DistObject<Inbox<S>>,
    to: Rank,
    (number, told): (u64, u64),
    slots: &[S],
) -> Result<()> {
    let world = inbox.team().world();
    let head = Head {
        from: world.rank().number().into(),
        number,
        told,
    };
    world.rpc_ff_view(to, deliver::<S>, (inbox.clone(), head), slots)
}

/// Tells `to` that this rank has dropped its end, and has sent it `n_in_all` messages. Waits as
/// [`send`].
pub(crate) fn tell_drop<S: Pod>(
    inbox: &DistObject<Inbox<S>>,
    to: Rank,
    n_in_all: u64,
) -> Result<()> {
    let world = inbox.team().world();
    let from = world.rank().number().into();
    world.rpc_ff(to, end::<S>, (inbox.downgrade(), from, n_in_all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_overtake_others_wait_for_them() {
        let inbox = Inbox::new();
        let take = |from, number, slots: &[u32]| {
            let told = 1;
            inbox.lock().take(&Head { from, number, told }, slots);
        };
        let mut slots = Vec::new();
        take(1, 2, &[5, 6]);
        take(1, 1, &[]);
        take(2, 0, &[7]);
        assert_eq!((inbox.take_to(&mut slots), &slots[..]), (1, &[7][..]));
        take(1, 0, &[3, 4]);
        take(2, 1, &[8]);
        assert_eq!(inbox.take_to(&mut slots), 5);
        assert_eq!((slots, inbox.told()), (vec![7, 3, 4, 5, 6, 8], 5));
    }

    #[test]
    fn a_sender_has_ended_when_all_its_messages_have_come() {
        let (inbox, rank) = (Inbox::<u32>::new(), Rank::new(1));
        let take = |number, told| {
            let from = 1;
            inbox.lock().take(&Head { from, number, told }, &[]);
        };
        take(0, 1);
        assert!(!inbox.is_dropped_by(rank));
        inbox.lock().end(1, 2);
        assert!(!inbox.is_dropped_by(rank));
        take(1, 1);
        assert!(inbox.is_dropped_by(rank));
        assert!(!inbox.is_dropped_by(Rank::new(2)));
        inbox.lock().end(2, 0);
        assert!(inbox.is_dropped_by(Rank::new(2)));
        assert_eq!((inbox.told(), inbox.n_told_by(rank)), (2, 2));
    }
}
