//! Reported failures are read back, and cut to their room.

use super::*;

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
    assert!(!failure.is_told() && failure.told().is_none());
    failure.tell(0, "twenty letters, less");
    failure.tell(1, "later");
    assert!(failure.is_told());
    assert_eq!(
        failure.told().unwrap(),
        (0, "twenty letters, less".to_owned())
    );
    words.iter().for_each(|word| word.store(0, Relaxed));
    failure.tell(2, &"long ".repeat(20));
    let (rank, text) = failure.told().unwrap();
    assert_eq!((rank, text.as_str()), (2, "long long long long long"));
}
