//! The barrier, one arrival at a time, and with several threads.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::*;

fn words(n_ranks: u32) -> Vec<AtomicU64> {
    (0..Barrier::bytes(n_ranks) / 8)
        .map(|_| AtomicU64::new(0))
        .collect()
}

#[test]
fn a_barrier_is_complete_when_the_last_rank_arrives() {
    let words = words(3);
    let barrier = Barrier::attach(&words, 3);
    for (epoch, order) in (1..).zip([[0, 1, 2], [2, 0, 1], [1, 2, 0], [2, 1, 0]]) {
        let first = barrier.arrive(order[0]);
        assert_eq!(
            (first.epoch(), first.is_last(), barrier.is_complete(first)),
            (epoch, false, false)
        );
        let second = barrier.arrive(order[1]);
        assert!(!second.is_last() && !barrier.is_complete(second));
        let third = barrier.arrive(order[2]);
        assert!(third.is_last());
        for ticket in [first, second, third] {
            assert!(barrier.is_complete(ticket));
        }
    }
}

#[test]
fn those_that_have_not_arrived_are_named() {
    let words = words(4);
    let barrier = Barrier::attach(&words, 4);
    for rank in 0..4 {
        let _ = barrier.arrive(rank);
    }
    let ticket = barrier.arrive(1);
    assert_eq!(barrier.missing(ticket).collect::<Vec<_>>(), [0, 2, 3]);
    let _ = barrier.arrive(3);
    assert_eq!(barrier.missing(ticket).collect::<Vec<_>>(), [0, 2]);
    let _ = barrier.arrive(0);
    let _ = barrier.arrive(2);
    assert_eq!(barrier.missing(ticket).next(), None);
    assert!(barrier.is_complete(ticket));
}

#[test]
fn a_rank_alone_never_waits() {
    let words = words(1);
    let barrier = Barrier::attach(&words, 1);
    for _ in 0..3 {
        let ticket = barrier.arrive(0);
        assert!(ticket.is_last() && barrier.is_complete(ticket));
    }
}

#[test]
#[should_panic(expected = "rank 1 arrives at a barrier before barrier 1 is complete")]
fn arriving_twice_is_the_callers_mistake() {
    let words = words(2);
    let barrier = Barrier::attach(&words, 2);
    let _ = barrier.arrive(1);
    let _ = barrier.arrive(1);
}

#[test]
#[should_panic(expected = "rank 2 at a barrier of 2 ranks")]
fn a_rank_of_another_team_is_refused() {
    let words = words(2);
    let _ = Barrier::attach(&words, 2).arrive(2);
}

#[test]
fn what_was_written_before_a_barrier_is_seen_after_it_in_every_epoch() {
    const N_RANKS: u32 = 4;
    const N_EPOCHS: u64 = 2_000;
    let words = words(N_RANKS);
    let barrier = Barrier::attach(&words, N_RANKS);
    let cells: Vec<_> = (0..N_RANKS).map(|_| AtomicU64::new(0)).collect();
    let deadline = Instant::now() + Duration::from_secs(60);
    let meet = |rank| {
        let ticket = barrier.arrive(rank);
        while !barrier.is_complete(ticket) {
            thread::yield_now();
            assert!(
                Instant::now() < deadline,
                "still missing: {:?}",
                barrier.missing(ticket).collect::<Vec<_>>()
            );
        }
        ticket
    };
    let n_last = AtomicU64::new(0);
    thread::scope(|scope| {
        for rank in 0..N_RANKS {
            let (cells, meet, n_last) = (&cells, &meet, &n_last);
            scope.spawn(move || {
                for epoch in 1..=N_EPOCHS {
                    cells[rank as usize].store(epoch, Relaxed);
                    n_last.fetch_add(meet(rank).is_last().into(), Relaxed);
                    for cell in cells {
                        assert_eq!(cell.load(Relaxed), epoch);
                    }
                    let _ = meet(rank);
                }
            });
        }
    });
    assert_eq!(n_last.into_inner(), N_EPOCHS);
}
