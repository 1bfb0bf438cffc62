//! Every interleaving of small runs, by loom. There is one buffer, of one word.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::machine::{Machine as _, Portable};
use crate::mailbox::Mailbox;

const N_SLOTS: usize = 8;
const CAPACITY: usize = 8;

struct Shared {
    ring: Vec<AtomicU64>,
    buffers: Vec<AtomicU64>,
}

impl Shared {
    fn new() -> Arc<Self> {
        let zeros = |bytes: usize| (0..bytes / 8).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self {
            ring: zeros(Mailbox::bytes(N_SLOTS)),
            buffers: zeros(Buffers::bytes_of_rank(1, CAPACITY)),
        })
    }

    fn mailbox(&self) -> Mailbox<'_> {
        Mailbox::attach(&self.ring, N_SLOTS)
    }

    fn buffers(&self) -> Buffers<'_> {
        Buffers::attach(&self.buffers, 1, CAPACITY)
    }

    /// Takes the buffer, if it is free, and fills it.
    fn prepare(&self, value: u64) -> bool {
        let is_taken = self
            .buffers()
            .take(0, 0, 8, Portable::prefetch_for_write)
            .is_some();
        if is_taken {
            self.buffers().buffer(0, 0).payload()[0].store(value, Relaxed);
        }
        is_taken
    }

    fn commit(&self) {
        let at = self.buffers().open(0, 0, &[], 8).unwrap();
        self.mailbox()
            .try_send_location::<Portable>(None, 0, 7, at)
            .unwrap();
    }

    fn receive(&self) -> Option<u64> {
        let mut received = None;
        self.mailbox()
            .receive_from::<Portable>(
                || Some(self.buffers()),
                1,
                |envelope, payload| {
                    assert_eq!((envelope.handler, envelope.len), (7, 8));
                    received = payload.first_chunk().copied().map(u64::from_ne_bytes);
                },
            )
            .unwrap();
        received
    }
}

#[test]
fn loom_a_payload_is_read_whole_before_the_next_one_is_written() {
    loom::model(|| {
        let shared = Shared::new();
        let sender = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let send = |value: &u64| {
                    let is_prepared = shared.prepare(*value);
                    if is_prepared {
                        shared.commit();
                    }
                    is_prepared
                };
                [11, 12].into_iter().filter(send).collect::<Vec<_>>()
            })
        };
        let mut received: Vec<_> = (0..2).filter_map(|_| shared.receive()).collect();
        let sent = sender.join().unwrap();
        while let Some(value) = shared.receive() {
            received.push(value);
        }
        assert_eq!(received, sent);
        assert!(shared.prepare(13), "it is free again");
    });
}

#[test]
fn loom_a_buffer_has_one_owner_and_what_is_given_back_is_never_seen() {
    loom::model(|| {
        let shared = Shared::new();
        let dropping = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                if shared.prepare(1) {
                    shared.buffers().give_back(0, 0);
                }
            })
        };
        let sending = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let is_prepared = shared.prepare(2);
                if is_prepared {
                    shared.commit();
                }
                is_prepared
            })
        };
        let early = shared.receive();
        dropping.join().unwrap();
        let is_sent = sending.join().unwrap();
        let received = early.or_else(|| shared.receive());
        assert_eq!(received, is_sent.then_some(2));
        assert!(shared.prepare(3), "it is free again");
    });
}

#[test]
fn loom_a_buffer_that_is_held_delays_no_message() {
    loom::model(|| {
        let shared = Shared::new();
        assert!(shared.prepare(5));
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared
                    .mailbox()
                    .try_send(1, 7, &[&6_u64.to_ne_bytes()])
                    .unwrap()
            })
        };
        let early = shared.receive();
        other.join().unwrap();
        assert_eq!(early.or_else(|| shared.receive()), Some(6));
        shared.commit();
        assert_eq!(shared.receive(), Some(5));
    });
}
