//! Every interleaving of small runs, by loom.

use loom::sync::Arc;
use loom::thread;

use super::Credits;
use crate::machine::Portable;
use crate::mailbox::Mailbox;
use crate::sync::AtomicU64;

/// The number of slots. One sender may take half of them.
const N_SLOTS: usize = 16;

fn receive(mailbox: &Mailbox<'_>) -> Option<u32> {
    let envelope = mailbox.try_receive(&mut Vec::new()).unwrap()?;
    Some(envelope.src)
}

#[test]
fn loom_a_sender_that_has_taken_its_part_of_the_room_leaves_the_others_theirs() {
    loom::model(|| {
        let n_words = Mailbox::bytes(N_SLOTS) / 8;
        let words: Arc<Vec<AtomicU64>> =
            Arc::new((0..n_words).map(|_| AtomicU64::new(0)).collect());
        let mailbox = Mailbox::attach(&words, N_SLOTS);
        let greedy = Credits::new(N_SLOTS);
        while mailbox
            .try_send_within::<Portable>(Some(&greedy), 1, 0, &[])
            .is_ok()
        {}
        assert_eq!(mailbox.n_free_slots(), 8, "it has taken half");
        assert_eq!(greedy.n_left(mailbox.head()), 0);
        let other = {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                let mailbox = Mailbox::attach(&words, N_SLOTS);
                let credits = Credits::new(N_SLOTS);
                for _ in 0..2 {
                    let sent = mailbox.try_send_within::<Portable>(Some(&credits), 2, 0, &[]);
                    assert!(sent.is_ok(), "whoever has credits finds room");
                }
            })
        };
        let again = {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                let mailbox = Mailbox::attach(&words, N_SLOTS);
                let sent =
                    (0..2).map(|_| mailbox.try_send_within::<Portable>(Some(&greedy), 1, 0, &[]));
                sent.filter(Result::is_ok).count()
            })
        };
        assert_eq!(receive(&mailbox), Some(1));
        other.join().unwrap();
        let n_again = again.join().unwrap();
        assert!(n_again <= 1, "no more than was given back");
        let mut n = [0; 3];
        while let Some(src) = receive(&mailbox) {
            n[src as usize] += 1;
        }
        assert_eq!(n, [0, 7 + n_again, 2]);
    });
}
