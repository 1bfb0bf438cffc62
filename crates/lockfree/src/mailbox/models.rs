//! Every interleaving of small runs, by loom.

use loom::{sync::Arc, thread};

use super::*;

fn words(n_slots: usize) -> Arc<Vec<AtomicU64>> {
    Arc::new(
        (0..Mailbox::bytes(n_slots) / WORD_BYTES)
            .map(|_| AtomicU64::new(0))
            .collect(),
    )
}

fn receive(mailbox: &Mailbox<'_>) -> Option<(Envelope, Vec<u8>)> {
    let mut buf = vec![];
    let envelope = mailbox.try_receive(&mut buf).unwrap()?;
    Some((envelope, buf))
}

/// Waits for the next message; loom reports a run in which it never comes.
fn receive_next(mailbox: &Mailbox<'_>) -> (Envelope, Vec<u8>) {
    loop {
        if let Some(message) = receive(mailbox) {
            return message;
        }
        thread::yield_now();
    }
}

fn payload(src: u32, n: u16) -> [u8; 8] {
    (u64::from(src) << 32 | u64::from(n) | 1 << 63).to_le_bytes()
}

#[test]
fn loom_two_senders_and_a_receiver_keep_each_message_whole_and_in_order() {
    loom::model(|| {
        let words = words(8);
        let senders: Vec<_> = [(0_u32, 2_u16), (1, 1)]
            .into_iter()
            .map(|(src, n_messages)| {
                let words = Arc::clone(&words);
                thread::spawn(move || {
                    for n in 0..n_messages {
                        Mailbox::attach(&words, 8)
                            .try_send(src, n, &[&payload(src, n)])
                            .unwrap();
                    }
                })
            })
            .collect();
        let mailbox = Mailbox::attach(&words, 8);
        let mut next = [0; 2];
        for _ in 0..3 {
            let (envelope, bytes) = receive_next(&mailbox);
            let n = &mut next[envelope.src as usize];
            assert_eq!(envelope.handler, *n);
            assert_eq!(bytes, payload(envelope.src, *n));
            *n += 1;
        }
        assert_eq!(next, [2, 1]);
        for sender in senders {
            sender.join().unwrap();
        }
        assert!(receive(&mailbox).is_none());
    });
}

#[test]
fn loom_slots_are_reused_only_after_they_were_read() {
    loom::model(|| {
        let words = words(8);
        let mailbox = Mailbox::attach(&words, 8);
        for n in 0..8 {
            mailbox.try_send(9, n, &[&payload(9, n)]).unwrap();
        }
        let senders: Vec<_> = (0..2)
            .map(|src| {
                let words = Arc::clone(&words);
                thread::spawn(move || {
                    Mailbox::attach(&words, 8)
                        .try_send(src, 0, &[&payload(src, 0)])
                        .is_ok()
                })
            })
            .collect();
        for n in 0..2 {
            let (envelope, bytes) = receive(&mailbox).unwrap();
            assert_eq!((envelope.src, envelope.handler), (9, n));
            assert_eq!(bytes, payload(9, n));
        }
        let n_sent = senders
            .into_iter()
            .map(|sender| usize::from(sender.join().unwrap()))
            .sum::<usize>();
        for n in 2..8 {
            assert_eq!(receive(&mailbox).unwrap().1, payload(9, n));
        }
        for _ in 0..n_sent {
            let (envelope, bytes) = receive(&mailbox).unwrap();
            assert_eq!(bytes, payload(envelope.src, 0));
        }
        assert!(receive(&mailbox).is_none());
    });
}

#[test]
fn loom_an_old_interior_word_never_looks_published() {
    loom::model(|| {
        let n_slots = 16;
        let words = words(n_slots);
        let mailbox = Mailbox::attach(&words, n_slots);
        // A message of two slots at ticket 0; the first word of its second slot is what that slot's
        // next message would publish.
        let mut long = [0_u64; 7];
        long[6] = published(1 + n_slots as u64);
        let long: Vec<u8> = long.iter().flat_map(|word| word.to_le_bytes()).collect();
        mailbox.try_send(0, 1, &[&long]).unwrap();
        for _ in 2..n_slots {
            mailbox.try_send(0, 2, &[]).unwrap();
        }
        // Two messages of one slot take the places of the long one, the second perhaps on the word
        // of the first that there is room.
        let senders: Vec<_> = (1..3)
            .map(|src| {
                let words = Arc::clone(&words);
                thread::spawn(move || {
                    let mailbox = Mailbox::attach(&words, n_slots);
                    mailbox.try_send(src, 3, &[&payload(src, 3)]).is_ok()
                })
            })
            .collect();
        assert_eq!(receive(&mailbox).unwrap().1, long);
        let n_sent = senders
            .into_iter()
            .map(|sender| usize::from(sender.join().unwrap()))
            .sum::<usize>();
        for _ in 2..n_slots {
            assert_eq!(receive(&mailbox).unwrap().0.handler, 2);
        }
        for _ in 0..n_sent {
            let (envelope, bytes) = receive(&mailbox).unwrap();
            assert_eq!(bytes, payload(envelope.src, 3));
        }
        assert!(receive(&mailbox).is_none());
    });
}

/// So a rank that finds both knows that every message sent to it has been served.
#[test]
fn loom_who_finds_nothing_queued_and_nobody_receiving_sees_what_the_sink_did() {
    loom::model(|| {
        let shared = Arc::new((words(8), AtomicU64::new(0)));
        Mailbox::attach(&shared.0, 8).try_send(0, 0, &[]).unwrap();
        let receiver = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let mailbox = Mailbox::attach(&shared.0, 8);
                let received = mailbox.receive(1, |_, _| shared.1.store(1, Relaxed));
                assert_eq!(received, Ok(1));
            })
        };
        let asker = thread::spawn(move || {
            let mailbox = Mailbox::attach(&shared.0, 8);
            let n_queued_bytes = mailbox.n_queued_bytes();
            assert!(n_queued_bytes <= 64, "{n_queued_bytes} bytes");
            if n_queued_bytes == 0 && !mailbox.is_receiving() {
                assert_eq!(shared.1.load(Relaxed), 1);
            }
        });
        receiver.join().unwrap();
        asker.join().unwrap();
    });
}

#[test]
fn loom_two_threads_of_the_owner_receive_each_message_once() {
    loom::model(|| {
        let words = words(8);
        Mailbox::attach(&words, 8)
            .try_send(0, 0, &[&payload(0, 0)])
            .unwrap();
        let sender = {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                Mailbox::attach(&words, 8)
                    .try_send(0, 1, &[&payload(0, 1)])
                    .unwrap();
            })
        };
        let other = {
            let words = Arc::clone(&words);
            thread::spawn(move || receive(&Mailbox::attach(&words, 8)))
        };
        let mailbox = Mailbox::attach(&words, 8);
        let mut received: Vec<_> = receive(&mailbox).into_iter().collect();
        sender.join().unwrap();
        received.extend(other.join().unwrap());
        while let Some(message) = receive(&mailbox) {
            received.push(message);
        }
        let mut handlers: Vec<_> = received
            .iter()
            .map(|(envelope, _)| envelope.handler)
            .collect();
        handlers.sort_unstable();
        assert_eq!(handlers, [0, 1]);
        for (envelope, bytes) in received {
            assert_eq!(bytes, payload(0, envelope.handler));
        }
    });
}
