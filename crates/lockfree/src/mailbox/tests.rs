//! The mailbox, alone against a queue, and under several threads.

use std::{collections::VecDeque, thread, time::Instant};

use proptest::prelude::*;

use super::receive::{GIVE_BACKS_PER_RING, Lock};
use super::*;
use crate::machine::Portable;
use crate::sync::Ordering::Release;

fn words(n_slots: usize) -> Vec<AtomicU64> {
    (0..Mailbox::bytes(n_slots) / WORD_BYTES)
        .map(|_| AtomicU64::new(0))
        .collect()
}

/// Turns the empty mailbox in `words` into one that has already moved `ticket` slots.
fn start_at(words: &[AtomicU64], ticket: u64) {
    for word in [TAIL, HEAD_HINT, HEAD, RECEIVED] {
        words[word].store(ticket, Relaxed);
    }
}

fn receive(mailbox: &Mailbox<'_>) -> Option<(Envelope, Vec<u8>)> {
    let mut buf = vec![];
    let envelope = mailbox.try_receive(&mut buf).unwrap()?;
    assert_eq!(envelope.len as usize, buf.len());
    Some((envelope, buf))
}

fn bytes(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64)
        .map(|i| (seed.wrapping_mul(31).wrapping_add(i * 7) >> 1) as u8)
        .collect()
}

/// Lengths around the limits of words, of one slot, of two, and of the longest message.
fn lengths(mailbox: &Mailbox<'_>) -> Vec<usize> {
    let max = mailbox.max_message();
    let mut lengths: Vec<_> = (0..=17)
        .chain([47, 48, 49, 55, 56, 57, 63, 64, 65, 111, 112, 113, 119, 120])
        .collect();
    lengths.extend([max.saturating_sub(8), max.saturating_sub(1), max]);
    lengths.retain(|len| *len <= max);
    lengths
}

#[test]
fn a_message_of_every_length_arrives_as_it_was_sent() {
    let words = words(64);
    let mailbox = Mailbox::attach(&words, 64);
    for (n, len) in lengths(&mailbox).into_iter().enumerate() {
        let payload = bytes(len, n as u64);
        mailbox
            .try_send(n as u32, 500 + n as u16, &[&payload])
            .unwrap();
        let envelope = Envelope {
            src: n as u32,
            handler: 500 + n as u16,
            len: len as u32,
        };
        assert_eq!(receive(&mailbox), Some((envelope, payload)));
        assert!(mailbox.is_empty());
    }
}

#[test]
fn parts_are_joined_wherever_they_are_cut() {
    let words = words(64);
    let mailbox = Mailbox::attach(&words, 64);
    let payload = bytes(61, 3);
    for first in 0..=payload.len() {
        for second in first..=payload.len() {
            let parts = [
                &payload[..first],
                &payload[first..second],
                &[],
                &payload[second..],
            ];
            mailbox.try_send(1, 2, &parts).unwrap();
            assert_eq!(
                receive(&mailbox).unwrap().1,
                payload,
                "cut at {first} and {second}"
            );
        }
    }
}

#[test]
fn the_header_keeps_its_extremes() {
    for envelope in [
        Envelope {
            src: (1 << SRC_BITS) - 1,
            handler: u16::MAX,
            len: (1 << LEN_BITS) - 1,
        },
        Envelope {
            src: 0,
            handler: 0,
            len: 0,
        },
        Envelope {
            src: 1,
            handler: 0,
            len: 1 << 23,
        },
    ] {
        assert_eq!(Envelope::from_word(envelope.to_word()), envelope);
    }
}

#[test]
fn the_longest_message_of_the_largest_ring_fits_the_header() {
    let max = MAX_SLOTS / MESSAGES_PER_RING * SLOT_BYTES - PREFIX_WORDS * WORD_BYTES;
    assert!(
        max < 1 << LEN_BITS && max + SLOT_BYTES >= 1 << LEN_BITS,
        "{max}"
    );
}

#[test]
fn a_full_ring_refuses_and_loses_nothing() {
    let words = words(8);
    let mailbox = Mailbox::attach(&words, 8);
    let mut n_sent = 0_u16;
    while mailbox
        .try_send(0, n_sent, &[&bytes(48, n_sent.into())])
        .is_ok()
    {
        n_sent += 1;
    }
    assert_eq!((n_sent, mailbox.n_free_slots()), (8, 0));
    assert_eq!(mailbox.n_queued_bytes(), 8 * 64);
    assert_eq!(mailbox.try_send(0, 99, &[]), Err(Full));
    for n in 0..n_sent {
        let (envelope, payload) = receive(&mailbox).unwrap();
        assert_eq!((envelope.handler, payload), (n, bytes(48, n.into())));
        mailbox.try_send(0, 100 + n, &[]).unwrap();
        assert_eq!(mailbox.try_send(0, 99, &[]), Err(Full));
    }
    for n in 0..n_sent {
        assert_eq!(receive(&mailbox).unwrap().0.handler, 100 + n);
    }
    assert_eq!(receive(&mailbox), None);
    assert_eq!(mailbox.n_queued_bytes(), 0);
}

#[test]
fn room_is_given_back_in_steps_and_all_of_it_once_the_mailbox_is_found_empty() {
    let words = words(64);
    let mailbox = Mailbox::attach(&words, 64);
    let fill = || {
        let mut n_sent = 0;
        while mailbox.try_send(0, 0, &[]).is_ok() {
            n_sent += 1;
        }
        n_sent
    };
    assert_eq!(fill(), 64);
    for n_sent in [0, 0, 0, 4, 0] {
        assert!(receive(&mailbox).is_some());
        assert_eq!(fill(), n_sent);
    }
    while receive(&mailbox).is_some() {}
    assert_eq!(fill(), 64);
}

#[test]
fn a_short_message_fits_where_a_long_one_does_not() {
    let words = words(16);
    let mailbox = Mailbox::attach(&words, 16);
    for _ in 0..15 {
        mailbox.try_send(0, 0, &[]).unwrap();
    }
    assert_eq!(mailbox.try_send(0, 0, &[&[7; 49]]), Err(Full));
    mailbox.try_send(0, 0, &[&[7; 48]]).unwrap();
}

#[test]
#[should_panic(expected = "message of 49 bytes, at most 48 fit")]
fn a_message_that_can_never_fit_is_the_callers_mistake() {
    let words = words(8);
    let _ = Mailbox::attach(&words, 8).try_send(0, 0, &[&[0; 40], &[0; 9]]);
}

#[test]
#[should_panic(expected = "rank 16777216 does not fit")]
fn a_rank_too_large_for_the_header_is_refused() {
    let words = words(8);
    let _ = Mailbox::attach(&words, 8).try_send(1 << 24, 0, &[]);
}

#[test]
#[should_panic(expected = "a mailbox of 16 slots has 160 words, not 96")]
fn memory_of_another_size_is_refused() {
    let words = words(8);
    let _ = Mailbox::attach(&words, 16);
}

#[test]
fn an_overwritten_length_is_an_error_that_stays() {
    let words = words(16);
    let mailbox = Mailbox::attach(&words, 16);
    mailbox.try_send(3, 4, &[b"hello"]).unwrap();
    words[CONTROL_WORDS + 1].store(u64::MAX, Relaxed);
    let corrupt = Corrupt {
        ticket: 0,
        len: (1 << LEN_BITS) - 1,
        max: 112,
    };
    let mut buf = b"kept".to_vec();
    for _ in 0..2 {
        assert_eq!(mailbox.try_receive(&mut buf), Err(corrupt));
    }
    assert_eq!(buf, b"kept");
    assert_eq!(
        corrupt.to_string(),
        "corrupt mailbox: message at slot ticket 0 claims 16777215 bytes, more than the longest possible of 112"
    );
}

#[test]
fn scribbled_counters_are_no_room_and_no_message() {
    let words = words(8);
    let mailbox = Mailbox::attach(&words, 8);
    words[HEAD].store(1 << 40, Relaxed);
    words[HEAD_HINT].store(1 << 40, Relaxed);
    assert_eq!(mailbox.try_send(0, 0, &[]), Err(Full));
    assert_eq!(receive(&mailbox), None);
}

#[test]
fn payload_that_looks_like_a_publication_word_is_never_taken_for_one() {
    let n_slots = 16;
    let words = words(n_slots);
    let mailbox = Mailbox::attach(&words, n_slots);
    for round in 0..64_u64 {
        // Two slots: the second begins with payload word 6. Make it the word that its slot expects
        // when the ring comes around.
        let tail = words[TAIL].load(Relaxed);
        let mut payload = [0_u64; 14];
        payload[6] = published(tail + 1 + n_slots as u64);
        let payload: Vec<u8> = payload.iter().flat_map(|word| word.to_le_bytes()).collect();
        mailbox.try_send(0, 1, &[&payload]).unwrap();
        assert_eq!(receive(&mailbox).unwrap().1, payload);
        // Shift by one slot every round, so that second slots become first ones.
        mailbox.try_send(0, 2, &[&round.to_le_bytes()]).unwrap();
        assert_eq!(receive(&mailbox).unwrap().1, round.to_le_bytes());
        assert!(mailbox.is_empty());
        assert_eq!(receive(&mailbox), None);
    }
}

#[test]
fn while_one_thread_receives_another_finds_nothing() {
    let words = words(8);
    let mailbox = Mailbox::attach(&words, 8);
    mailbox.try_send(0, 7, &[]).unwrap();
    let Ok(lock) = Lock::try_take(&words[LOCK], OPEN) else {
        panic!("nobody receives");
    };
    assert_eq!(receive(&mailbox), None);
    drop(lock);
    assert_eq!(receive(&mailbox).unwrap().0.handler, 7);
}

#[test]
fn a_reserved_message_blocks_those_behind_it_until_it_is_published() {
    let words = words(8);
    let mailbox = Mailbox::attach(&words, 8);
    let ticket = send::reserve(&mailbox, 1).unwrap();
    mailbox.try_send(1, 2, &[]).unwrap();
    assert!(mailbox.is_empty());
    assert_eq!(receive(&mailbox), None);
    let first = mailbox.first_word(ticket);
    mailbox.slots[first + 1].store(
        Envelope {
            src: 1,
            handler: 1,
            len: 0,
        }
        .to_word(),
        Relaxed,
    );
    mailbox.slots[first].store(published(ticket), Release);
    assert_eq!(receive(&mailbox).unwrap().0.handler, 1);
    assert_eq!(receive(&mailbox).unwrap().0.handler, 2);
}

#[test]
fn what_is_taken_out_of_a_closed_mailbox_is_not_taken_back_nor_the_other_way_round() {
    let words = words(64);
    let mailbox = Mailbox::attach(&words, 64);
    let send = |n| {
        let sent = mailbox.try_send_within::<Portable>(None, 0, n, &[&bytes(100, 1)]);
        sent.unwrap()
    };
    let [first, second, third] = [0, 1, 2].map(send);
    let during = mailbox.receive(1, |envelope, _| {
        assert_eq!(envelope.handler, 0);
        assert!(!mailbox.close(), "a sink is running");
        assert!(!withdraw(&mailbox, first));
    });
    assert_eq!(during, Ok(1));
    assert!(mailbox.close() && mailbox.close());
    assert_eq!(receive(&mailbox).unwrap().0.handler, 1);
    assert!(!withdraw(&mailbox, second));
    // Each took two slots. A sender may have looked what was received before.
    let word = &words[CONTROL_WORDS + 2 * SLOT_WORDS];
    assert_eq!(word.load(Relaxed), settled(2));
    assert!(withdraw(&mailbox, third));
    assert!(receive(&mailbox).is_none());
    assert!(!mailbox.is_receiving());
    let late = |_: Envelope, _: &[u8]| panic!("all have been taken");
    assert_eq!(
        mailbox.receive_late::<Portable>(mailbox.tail(), || None, late),
        Ok(true)
    );
    assert_eq!(mailbox.n_queued_bytes(), 0);
}

#[test]
fn a_mailbox_whose_sink_runs_is_closed_when_another_one_has_closed_it() {
    let words = words(64);
    let mailbox = Mailbox::attach(&words, 64);
    mailbox.try_send(0, 0, &[]).unwrap();
    assert!(mailbox.close());
    let received = mailbox.receive(1, |_, _| assert!(mailbox.is_receiving() && mailbox.close()));
    assert_eq!(received, Ok(1));
}

/// Else a message that is taken back might be a later one in the same place.
#[test]
fn a_closed_mailbox_gives_no_slot_back() {
    let words = words(8);
    let mailbox = Mailbox::attach(&words, 8);
    mailbox.try_send(0, 0, &[]).unwrap();
    receive(&mailbox).unwrap();
    assert!(receive(&mailbox).is_none());
    assert_eq!(mailbox.n_free_slots(), 8);
    assert!(mailbox.close());
    for n in (0..8).rev() {
        mailbox.try_send(0, 1, &[]).unwrap();
        receive(&mailbox).unwrap();
        assert!(receive(&mailbox).is_none());
        assert_eq!(mailbox.n_free_slots(), n);
    }
    assert_eq!(mailbox.try_send(0, 1, &[]), Err(Full));
}

fn n_slots_of(messages: &VecDeque<(Envelope, Vec<u8>)>) -> usize {
    messages
        .iter()
        .map(|(envelope, _)| envelope.n_slots())
        .sum()
}

/// A step of a test.
#[derive(Clone, Debug)]
enum Action {
    Send {
        src: u32,
        handler: u16,
        len: usize,
        cut: usize,
    },
    Receive,
}

fn action(max: usize) -> impl Strategy<Value = Action> {
    let len = prop_oneof![
        0..=max,
        prop::sample::select(vec![0, 1, 47, 48, 49, 55, 56, 57, 111, 112, max])
    ];
    prop_oneof![
        3 => (0..1_u32 << 24, any::<u16>(), len, any::<prop::sample::Index>()).prop_map(|(src, handler, len, cut)| {
            Action::Send { src, handler, len, cut: cut.index(len + 1) }
        }),
        2 => Just(Action::Receive),
    ]
}

/// Tickets from which the counters, or the publication words, wrap around soon.
fn start_ticket() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        u64::MAX - 70..=u64::MAX,
        (1_u64 << 63) - 70..1 << 63,
        any::<u64>()
    ]
}

proptest! {
    #[test]
    fn a_mailbox_is_a_bounded_queue(start in start_ticket(), actions in prop::collection::vec(action(240), 0..200)) {
        let n_slots = 32;
        let words = words(n_slots);
        start_at(&words, start);
        let mailbox = Mailbox::attach(&words, n_slots);
        prop_assert_eq!(mailbox.max_message(), 240);
        let mut model: VecDeque<(Envelope, Vec<u8>)> = VecDeque::new();
        // Slots received that senders do not know of yet.
        let mut n_kept = 0;
        for (n, action) in actions.into_iter().enumerate() {
            match action {
                Action::Send { src, handler, len, cut } => {
                    let payload = bytes(len, n as u64);
                    let envelope = Envelope { src, handler, len: len as u32 };
                    let fits = n_slots_of(&model) + n_kept + (16 + len).div_ceil(64) <= n_slots;
                    let sent = mailbox.try_send(src, handler, &[&payload[..cut], &payload[cut..]]);
                    prop_assert_eq!(sent, if fits { Ok(()) } else { Err(Full) });
                    if fits {
                        model.push_back((envelope, payload));
                    }
                }
                Action::Receive => {
                    let expected = model.pop_front();
                    n_kept += expected.as_ref().map_or(n_slots, |(envelope, _)| envelope.n_slots());
                    if n_kept >= n_slots / GIVE_BACKS_PER_RING {
                        n_kept = 0;
                    }
                    prop_assert_eq!(receive(&mailbox), expected);
                }
            }
            prop_assert_eq!(mailbox.is_empty(), model.is_empty());
            prop_assert_eq!(mailbox.n_queued_bytes(), n_slots_of(&model) as u64 * 64);
        }
    }

    #[test]
    fn arbitrary_memory_is_survived(contents in prop::collection::vec(any::<u64>(), Mailbox::bytes(8) / 8), head in 0_u64..9) {
        let words: Vec<_> = contents.into_iter().map(AtomicU64::new).collect();
        start_at(&words, head);
        words[LOCK].store(0, Relaxed);
        let mailbox = Mailbox::attach(&words, 8);
        words[CONTROL_WORDS + mailbox.first_word(head)].store(published(head), Relaxed);
        let mut buf = vec![];
        if let Ok(Some(envelope)) = mailbox.try_receive(&mut buf) {
            prop_assert_eq!(envelope.len as usize, buf.len());
            prop_assert!(buf.len() <= mailbox.max_message());
        }
        let _ = mailbox.try_send(0, 0, &[&buf]);
    }
}

/// A message of a stress run: sequence number, then bytes that depend on it and on the sender.
fn stress_payload(src: u32, n: u64, max: usize) -> Vec<u8> {
    let len = 8 + (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % (max - 7);
    let mut payload = n.to_le_bytes().to_vec();
    payload.extend(bytes(len - 8, n ^ u64::from(src) << 32));
    payload
}

fn stress(n_slots: usize, n_senders: u32, n_messages: u64, start: u64) {
    let words = words(n_slots);
    start_at(&words, start);
    let mailbox = Mailbox::attach(&words, n_slots);
    let max = mailbox.max_message();
    let deadline = Instant::now() + std::time::Duration::from_secs(60);
    let wait = || {
        thread::yield_now();
        assert!(Instant::now() < deadline, "{mailbox:?} stopped moving");
    };
    thread::scope(|scope| {
        for src in 0..n_senders {
            scope.spawn(move || {
                for n in 0..n_messages {
                    let payload = stress_payload(src, n, max);
                    let (head, body) = payload.split_at(payload.len().min(8 + n as usize % 9));
                    while mailbox.try_send(src, n as u16, &[head, body]) == Err(Full) {
                        wait();
                    }
                }
            });
        }
        let mut next = vec![0_u64; n_senders as usize];
        let mut buf = vec![];
        while next.iter().any(|n| *n < n_messages) {
            let Some(envelope) = mailbox.try_receive(&mut buf).unwrap() else {
                wait();
                continue;
            };
            let n = &mut next[envelope.src as usize];
            assert_eq!(envelope.handler, *n as u16);
            assert_eq!(
                buf,
                stress_payload(envelope.src, *n, max),
                "message {n} of sender {}",
                envelope.src
            );
            *n += 1;
        }
    });
    assert!(mailbox.is_empty());
    assert_eq!(mailbox.n_queued_bytes(), 0);
}

#[test]
fn several_senders_lose_duplicate_reorder_and_tear_nothing() {
    stress(64, 3, 5_000, u64::MAX - 10_000);
}

#[test]
fn a_ring_of_the_smallest_size_serves_several_senders() {
    stress(8, 4, 3_000, (1 << 63) - 5_000);
}
