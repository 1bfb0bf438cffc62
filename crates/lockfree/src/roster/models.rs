//! Every interleaving of ranks that come, leave and fail, and of one that looks.

use std::cell::Cell;

use loom::{sync::Arc, thread};

use super::*;

/// A rank that is seen joined has its process set; one that is seen gone has done all its work.
#[test]
fn loom_who_sees_a_rank_sees_what_it_has_told() {
    loom::model(|| {
        let words: Arc<[AtomicU64; 3]> = Arc::new([(); 3].map(|()| AtomicU64::new(0)));
        let rank = {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                let [state, process, work] = &*words;
                let place = Place { state, process };
                place.join(42, 7);
                work.store(7, Relaxed);
                place.leave();
            })
        };
        let [state, process, work] = &*words;
        let place = Place { state, process };
        match place.membership() {
            Membership::Absent => {}
            Membership::Joined => assert_eq!(place.process(), 42),
            Membership::Left => assert_eq!((place.process(), work.load(Relaxed)), (42, 7)),
        }
        rank.join().unwrap();
        assert_eq!(place.membership(), Membership::Left);
    });
}

/// Of two failures one is recorded and stays. Its text is whole in the end, and for who waits for
/// as long as it takes; for others it is the beginning.
#[test]
fn loom_one_of_two_failures_is_told() {
    loom::model(|| {
        let words: Arc<Vec<AtomicU64>> = Arc::new((0..4).map(|_| AtomicU64::new(0)).collect());
        let text = |rank: u32| rank.to_string().repeat(16);
        let ranks = [1, 2].map(|rank| {
            let words = Arc::clone(&words);
            thread::spawn(move || Failure::attach(&words).tell(rank, &text(rank)))
        });
        let failure = Failure::attach(&words);
        let n_pauses = Cell::new(0);
        let seen = failure.told(|| {
            n_pauses.set(n_pauses.get() + 1);
            thread::yield_now();
        });
        if let Some((rank, told)) = &seen {
            assert!(text(*rank).starts_with(told) || told == "has failed");
            assert!(n_pauses.get() == MAX_PAUSES || *told == text(*rank));
        }
        for rank in ranks {
            rank.join().unwrap();
        }
        let (rank, told) = failure.told(|| panic!("it is whole")).unwrap();
        assert_eq!(told, text(rank));
        assert!(seen.is_none_or(|(first, _)| first == rank));
    });
}
