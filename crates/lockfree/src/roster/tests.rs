//! Reported failures are read back, and cut to their room.

use std::cell::Cell;

use super::*;

fn no_pause() {
    panic!("the text is whole");
}

#[test]
fn a_rank_comes_and_goes() {
    let words = [(); 2].map(|()| AtomicU64::new(0));
    let place = Place::attach(&words);
    assert_eq!(place.membership(), Membership::Absent);
    place.join(4711, 3);
    let seen = (place.membership(), place.process());
    assert_eq!(seen, (Membership::Joined, 4711));
    place.leave();
    let seen = (place.membership(), place.process());
    assert_eq!(seen, (Membership::Left, 4711));
}

#[test]
fn the_first_failure_stays_and_its_text_is_cut_to_its_room() {
    let n_words = Failure::bytes(24) / 8;
    let words: Vec<_> = (0..n_words).map(|_| AtomicU64::new(0)).collect();
    let failure = Failure::attach(&words);
    assert!(!failure.is_told() && failure.told(no_pause).is_none());
    failure.tell(0, "twenty letters, less");
    failure.tell(1, "later");
    assert!(failure.is_told());
    assert_eq!(
        failure.told(no_pause).unwrap(),
        (0, "twenty letters, less".to_owned())
    );
    words.iter().for_each(|word| word.store(0, Relaxed));
    failure.tell(2, &"long ".repeat(20));
    let (rank, text) = failure.told(no_pause).unwrap();
    assert_eq!((rank, text.as_str()), (2, "long long long long long"));
}

#[test]
fn a_reporter_that_dies_leaves_what_it_has_written() {
    let words = [(); 4].map(|()| AtomicU64::new(0));
    words[0].store(1 + 3, Relaxed);
    words[2].store(u64::from_ne_bytes(*b"has fail"), Relaxed);
    let failure = Failure::attach(&words);
    assert!(failure.is_told());
    failure.tell(1, "later");
    let n_pauses = Cell::new(0);
    let told = failure.told(|| n_pauses.set(n_pauses.get() + 1));
    assert_eq!(told, Some((3, "has fail".to_owned())));
    assert_eq!(n_pauses.get(), MAX_PAUSES);
    assert_eq!(failure.told(no_pause), told, "once is enough");
    words[2].store(0, Relaxed);
    assert_eq!(failure.told(no_pause), Some((3, "has failed".to_owned())));
}
