//! Every interleaving of a small job that ends, by loom: the counts, and the conclusion drawn from
//! them.

use loom::sync::Arc;
use loom::thread;

use super::{Counts, Rounds, increase, increase_shared, sum_up};
use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// Two ranks: the counts of each, and whether a message is on its way to it.
struct Job {
    counts: [Counts; 2],
    mail: [AtomicBool; 2],
    /// The way in which a message is counted.
    increase: fn(&AtomicU64, u64),
}

impl Job {
    fn that_counts_by(increase: fn(&AtomicU64, u64)) -> Arc<Self> {
        Arc::new(Self {
            counts: Default::default(),
            mail: Default::default(),
            increase,
        })
    }

    /// Sends a message, which is counted before it leaves, as requests are.
    fn send(&self, from: usize, to: usize) {
        (self.increase)(&self.counts[from].n_sent, 1);
        self.mail[to].store(true, Ordering::Release);
    }

    /// Serves the message for `rank`, if it has come, by `handler`.
    fn serve(&self, rank: usize, handler: impl FnOnce()) -> bool {
        let has_come = self.mail[rank].load(Ordering::Acquire);
        if has_come {
            self.mail[rank].store(false, Ordering::Relaxed);
            handler();
            (self.increase)(&self.counts[rank].n_served, 1);
        }
        has_come
    }
}

#[test]
fn loom_the_end_is_not_found_while_a_handlers_message_is_on_its_way() {
    find_the_end(increase);
}

#[test]
fn loom_nor_where_it_is_sent_by_a_thread_that_ends() {
    find_the_end(increase_shared);
}

fn find_the_end(increase: fn(&AtomicU64, u64)) {
    loom::model(move || {
        let job = Job::that_counts_by(increase);
        job.send(0, 1);
        let other = {
            let job = Arc::clone(&job);
            thread::spawn(move || {
                while !job.serve(1, || job.send(1, 0)) {
                    thread::yield_now();
                }
            })
        };
        let (mut rounds, mut is_served) = (Rounds::default(), false);
        let mut is_over = false;
        while !is_over {
            is_served |= job.serve(0, || ());
            // Two rounds, since a thread that yields comes back only when the others have moved.
            for _ in 0..2 {
                // Each rank tells its counts at a different time.
                let [here, there] = job.counts.each_ref().map(|counts| sum_up(&[counts]));
                is_over |= rounds.are_over([here.0 + there.0, here.1 + there.1]);
            }
            thread::yield_now();
        }
        assert!(is_served, "the message that the handler has sent");
        other.join().unwrap();
    });
}
