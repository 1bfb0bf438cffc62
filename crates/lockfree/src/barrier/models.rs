//! Every interleaving of two barriers in a row, by loom. Ranks sleep on their doorbells until the
//! barrier is complete, so a release that gets lost is a deadlock, which loom reports.

use std::time::Duration;

use loom::{sync::Arc, thread};

use super::*;
use crate::doorbell::futex_model::Doorbell;

/// Longer than any run: under loom a sleep ends only by a wake-up.
const LONG: Duration = Duration::from_secs(3600);

struct Job {
    n_ranks: u32,
    barrier: Vec<AtomicU64>,
    bells: Vec<Doorbell>,
    cells: Vec<AtomicU64>,
}

impl Job {
    fn new(n_ranks: u32) -> Self {
        Self {
            n_ranks,
            barrier: (0..Barrier::bytes(n_ranks) / 8)
                .map(|_| AtomicU64::new(0))
                .collect(),
            bells: (0..n_ranks).map(|_| Doorbell::default()).collect(),
            cells: (0..n_ranks).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn meet_twice(&self, rank: u32) {
        let barrier = Barrier::attach(&self.barrier, self.n_ranks);
        for epoch in 1..=2 {
            self.cells[rank as usize].store(epoch, Relaxed);
            let ticket = barrier.arrive(rank);
            assert_eq!(ticket.epoch(), epoch);
            if ticket.is_last() {
                for bell in &self.bells {
                    bell.ring();
                }
            }
            let bell = &self.bells[rank as usize];
            assert!(bell.sleep_until(|| barrier.is_complete(ticket), LONG));
            assert_eq!(barrier.missing(ticket).next(), None);
            for cell in &self.cells {
                // A rank that is ahead may have written the next value already.
                assert!(cell.load(Relaxed) >= epoch);
            }
        }
    }
}

fn ranks_meet_twice(n_ranks: u32) {
    loom::model(move || {
        let job = Arc::new(Job::new(n_ranks));
        let others: Vec<_> = (1..n_ranks)
            .map(|rank| {
                let job = Arc::clone(&job);
                thread::spawn(move || job.meet_twice(rank))
            })
            .collect();
        job.meet_twice(0);
        for other in others {
            other.join().unwrap();
        }
    });
}

#[test]
fn loom_two_ranks_meet_twice() {
    ranks_meet_twice(2);
}

#[test]
fn loom_three_ranks_meet_twice() {
    ranks_meet_twice(3);
}
