//! Buffers and the records that name them, on one thread.
#![expect(clippy::cast_possible_truncation, reason = "small constants")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::machine::{Machine as _, Portable};
use crate::mailbox::{Corrupt, Mailbox};

const N_SLOTS: usize = 64;
const N_BUFFERS: usize = 3;
const CAPACITY: usize = 100;
const N_RANKS: usize = 2;

struct Shared {
    ring: Vec<AtomicU64>,
    buffers: Vec<AtomicU64>,
}

impl Shared {
    fn new() -> Self {
        let zeros = |bytes: usize| (0..bytes / 8).map(|_| AtomicU64::new(0)).collect();
        Self {
            ring: zeros(Mailbox::bytes(N_SLOTS)),
            buffers: zeros(N_RANKS * Buffers::bytes_of_rank(N_BUFFERS, CAPACITY)),
        }
    }

    fn mailbox(&self) -> Mailbox<'_> {
        Mailbox::attach(&self.ring, N_SLOTS)
    }

    fn buffers(&self) -> Buffers<'_> {
        Buffers::attach(&self.buffers, N_BUFFERS, CAPACITY)
    }

    fn send(&self, rank: u32, index: usize, opening: &[u8], text: &[u8]) {
        let words = self.buffers().buffer(rank, index).payload();
        for (word, bytes) in words.iter().zip(text.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(whole), Relaxed);
        }
        let at = self.buffers().open(rank, index, opening, text.len());
        let sent = self
            .mailbox()
            .try_send_location::<Portable>(None, rank, 9, at.unwrap());
        sent.unwrap();
    }

    fn receive(&self) -> Result<Vec<Vec<u8>>, Corrupt> {
        let mut received = vec![];
        self.mailbox().receive_from::<Portable>(
            || Some(self.buffers()),
            10,
            |envelope, payload| {
                assert_eq!(envelope.len as usize, payload.len());
                assert!(payload.as_ptr().addr().is_multiple_of(8));
                received.push(payload.to_vec());
            },
        )?;
        Ok(received)
    }
}

#[test]
fn messages_of_buffers_and_of_the_ring_arrive_whole_and_in_their_order() {
    let shared = Shared::new();
    let opening = [7; OPENING_WORDS * 8];
    for rank in [0, 1] {
        let index = shared
            .buffers()
            .take(rank, 0, 8, Portable::prefetch_for_write)
            .unwrap();
        shared.send(rank, index, &opening, b"filled in place");
        shared.mailbox().try_send(rank, 9, &[b"copied"]).unwrap();
        let index = shared
            .buffers()
            .take(rank, 0, 8, Portable::prefetch_for_write)
            .unwrap();
        shared.send(rank, index, &[], &[1; CAPACITY]);
    }
    let in_place = [&opening[..], b"filled in place"].concat();
    let of_each = [in_place, b"copied".to_vec(), vec![1; CAPACITY]];
    assert_eq!(
        shared.receive().unwrap(),
        [of_each.clone(), of_each].concat()
    );
}

#[test]
fn each_rank_has_its_own_buffers_and_each_is_taken_once_until_it_was_read() {
    let shared = Shared::new();
    let buffers = shared.buffers();
    let take_all = |rank| {
        (0..5)
            .map_while(|_| buffers.take(rank, 1, 8, Portable::prefetch_for_write))
            .collect::<Vec<_>>()
    };
    assert_eq!(take_all(0), [1, 2, 0]);
    assert_eq!(take_all(1), [1, 2, 0]);
    shared.send(0, 2, &[], b"x");
    assert_eq!(buffers.take(0, 0, 8, Portable::prefetch_for_write), None);
    shared.receive().unwrap();
    assert_eq!(take_all(0), [2]);
    buffers.give_back(1, 0);
    assert_eq!((take_all(0), take_all(1)), (vec![], vec![0]));
}

#[test]
fn a_buffer_is_free_again_when_its_handler_panics() {
    let shared = Shared::new();
    let index = shared
        .buffers()
        .take(0, 0, 8, Portable::prefetch_for_write)
        .unwrap();
    shared.send(0, index, &[], b"x");
    let receive = || {
        let sink = |_, _: &[u8]| panic!("a handler");
        shared
            .mailbox()
            .receive_from::<Portable>(|| Some(shared.buffers()), 1, sink)
    };
    assert!(catch_unwind(AssertUnwindSafe(receive)).is_err());
    assert_eq!(
        shared
            .buffers()
            .take(0, index, 8, Portable::prefetch_for_write),
        Some(index)
    );
}

#[test]
fn an_opening_that_does_not_fit_is_refused() {
    let shared = Shared::new();
    let open = |n| shared.buffers().open(0, 0, &[0; 200][..n], 8);
    assert!(open(OPENING_WORDS * 8).is_some());
    for n in [OPENING_WORDS * 8 + 8, 7, 9] {
        assert_eq!(open(n), None);
    }
}

#[test]
fn a_record_that_names_no_buffer_is_corrupt() {
    let good = Location {
        index: 2,
        n_opening_words: OPENING_WORDS as u32,
        len: 104,
    };
    assert_eq!(Location::from_word(good.to_word()), good);
    let bad = [
        (0, Location { index: 3, ..good }),
        (
            0,
            Location {
                n_opening_words: FRONT_WORDS as u32,
                ..good
            },
        ),
        (
            0,
            Location {
                n_opening_words: FRONT_WORDS as u32 + 1,
                ..good
            },
        ),
        (0, Location { len: 1000, ..good }),
        (2, good),
    ];
    for (rank, at) in bad {
        let shared = Shared::new();
        let sent = shared
            .mailbox()
            .try_send_location::<Portable>(None, rank, 9, at);
        sent.unwrap();
        assert!(shared.receive().is_err(), "{rank}: {at:?}");
    }
    let shared = Shared::new();
    let sent = shared
        .mailbox()
        .try_send_location::<Portable>(None, 1, 9, good);
    sent.unwrap();
    assert!(
        shared.mailbox().receive(1, |_, _| {}).is_err(),
        "no buffers"
    );
    assert_eq!(shared.receive().unwrap()[0].len(), OPENING_WORDS * 8 + 104);
}
