//! The protocol of the tickets under loom, which tries every interleaving and every value that a
//! weak load may return. The words are accessed as those of a queue in memory of a process are.

#![expect(clippy::unwrap_used, reason = "nothing of a model fails")]

use std::convert::Infallible;

use loom::sync::Arc;
use loom::thread;

use super::{Seen, Side, Size, Tickets, Word, Words};
use crate::sync::model::each;
use crate::sync::{AtomicU64, Ordering};
use crate::{tickets as ticket, word};

/// A queue whose elements are words.
struct Queue {
    size: Size,
    words: [AtomicU64; 4],
    slots: Vec<AtomicU64>,
    marks: Vec<AtomicU64>,
    /// Where tickets begin.
    first: u64,
}

impl Words for Queue {
    type Error = Infallible;

    fn size(&self) -> Size {
        self.size
    }

    fn load(&self, word: Word) -> Result<u64, Infallible> {
        Ok(word::load(&self.words[word as usize]))
    }

    fn swap(&self, word: Word, current: u64, new: u64) -> Result<Result<(), u64>, Infallible> {
        let swapped = word::compare_exchange(&self.words[word as usize], current, new);
        Ok(swapped.map(|_| ()))
    }

    fn advance(&self, word: Word, from: u64, to: u64) -> Result<bool, Infallible> {
        Ok(ticket::advance(&self.words[word as usize], from, to))
    }

    fn mark(&self, slot: u64) -> Result<u64, Infallible> {
        Ok(word::load(&self.marks[index(slot)]))
    }

    fn set_mark(&self, slot: u64, mark: u64) -> Result<(), Infallible> {
        word::swap(&self.marks[index(slot)], mark);
        Ok(())
    }

    fn clear_mark(&self, slot: u64, mark: u64) -> Result<(), Infallible> {
        let cleared = word::compare_exchange(&self.marks[index(slot)], mark, 0);
        // Who finds another mark there leaves it alone.
        let _: Result<u64, u64> = cleared;
        Ok(())
    }

    fn give_way(&self, _: u32) {
        thread::yield_now();
    }

    fn wait_until(
        &self,
        ready: &mut dyn FnMut() -> Result<bool, Infallible>,
    ) -> Result<(), Infallible> {
        while !ready()? {
            thread::yield_now();
        }
        Ok(())
    }
}

fn index(slot: u64) -> usize {
    usize::try_from(slot).unwrap()
}

impl Queue {
    fn new(capacity: u64, first: u64) -> Arc<Self> {
        Arc::new(Self::of(capacity, first))
    }

    fn of(capacity: u64, first: u64) -> Self {
        let size = Size::of(capacity);
        let zeros = || (0..size.n_slots()).map(|_| AtomicU64::new(0)).collect();
        Self {
            size,
            words: [(); 4].map(|()| AtomicU64::new(first)),
            slots: zeros(),
            marks: zeros(),
            first,
        }
    }

    fn seen(&self) -> Seen {
        Seen {
            taken: self.first,
            limit: self.first,
        }
    }

    fn slot(&self, tickets: Tickets, i: u64) -> &AtomicU64 {
        let slot = self.size.slot(tickets.first.wrapping_add(i));
        &self.slots[index(slot)]
    }

    /// Takes tickets as a queue does: the next one if no other thread is faster, else those that
    /// are free.
    fn take(&self, side: Side, seen: &mut Seen, n: (u64, u64)) -> Option<Tickets> {
        if n.1 == 1 {
            match ticket::take_next(self, side, *seen).unwrap() {
                Ok(first) => {
                    seen.taken = first.wrapping_add(1);
                    return Some(Tickets { first, n: 1 });
                }
                Err(now) => seen.taken = now,
            }
        }
        ticket::take(self, side, seen, n, true, |_| Ok(())).unwrap()
    }

    /// Pushes `n` values from `value` on. Returns whether there was room.
    fn push(&self, seen: &mut Seen, value: u64, n: u64) -> bool {
        let Some(tickets) = self.take(Side::Push, seen, (n, n)) else {
            return false;
        };
        for i in 0..n {
            self.slot(tickets, i).store(value + i, Ordering::Relaxed);
        }
        ticket::finish(self, Side::Push, tickets).unwrap();
        true
    }

    fn pop(&self, seen: &mut Seen, most: u64) -> Vec<u64> {
        let Some(tickets) = self.take(Side::Pop, seen, (1, most)) else {
            return Vec::new();
        };
        let load = |i| self.slot(tickets, i).load(Ordering::Relaxed);
        let values = (0..tickets.n).map(load).collect();
        ticket::finish(self, Side::Pop, tickets).unwrap();
        values
    }

    /// All that is left, when nobody else works.
    fn drain(&self) -> Vec<u64> {
        let mut seen = self.seen();
        let mut left = Vec::new();
        loop {
            let values = self.pop(&mut seen, 8);
            if values.is_empty() {
                return left;
            }
            left.extend(values);
        }
    }
}

/// Runs `a` and `b` as threads, and `end` on what they leave.
fn race<A: Send + 'static, B: 'static>(
    (capacity, first): (u64, u64),
    before: fn(&Queue),
    a: fn(&Queue) -> A,
    b: fn(&Queue) -> B,
    end: fn(&Queue, A, B),
) {
    loom::model(move || {
        let queue = Queue::new(capacity, first);
        before(&queue);
        let first = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || a(&queue))
        };
        let second = b(&queue);
        let first = first.join().unwrap();
        end(&queue, first, second);
    });
}

fn sorted(mut values: Vec<u64>) -> Vec<u64> {
    values.sort_unstable();
    values
}

#[test]
fn loom_two_pushes_both_arrive() {
    race(
        (4, u64::MAX),
        |_| (),
        |queue| assert!(queue.push(&mut queue.seen(), 1, 1)),
        |queue| assert!(queue.push(&mut queue.seen(), 2, 2)),
        |queue, (), ()| {
            let left = queue.drain();
            assert!(left == [1, 2, 3] || left == [2, 3, 1], "{left:?}");
        },
    );
}

#[test]
fn loom_the_last_place_goes_to_one_push() {
    race(
        (1, 0),
        |_| (),
        |queue| queue.push(&mut queue.seen(), 1, 1),
        |queue| queue.push(&mut queue.seen(), 2, 1),
        |queue, a, b| {
            assert_ne!(a, b, "one place");
            assert_eq!(queue.drain(), [if a { 1 } else { 2 }]);
        },
    );
}

#[test]
fn loom_a_pop_takes_a_whole_element_or_none() {
    race(
        (2, 7),
        |_| (),
        |queue| assert!(queue.push(&mut queue.seen(), 1, 2)),
        |queue| queue.pop(&mut queue.seen(), 2),
        |queue, (), popped| {
            assert!(popped.is_empty() || popped == [1, 2], "{popped:?}");
            assert_eq!([popped, queue.drain()].concat(), [1, 2]);
        },
    );
}

#[test]
fn loom_a_push_that_has_returned_is_seen_by_a_pop_that_comes_later() {
    race(
        (4, 0),
        |_| (),
        |queue| assert!(queue.push(&mut queue.seen(), 1, 1)),
        |queue| {
            let mut seen = queue.seen();
            assert!(queue.push(&mut seen, 2, 1));
            queue.pop(&mut queue.seen(), 1)
        },
        |queue, (), popped| {
            assert_eq!(popped.len(), 1, "there is an element");
            assert_eq!(sorted([popped, queue.drain()].concat()), [1, 2]);
        },
    );
}

#[test]
fn loom_two_pops_share_what_is_there() {
    race(
        (2, u64::MAX),
        |queue| assert!(queue.push(&mut queue.seen(), 1, 2)),
        |queue| queue.pop(&mut queue.seen(), 1),
        |queue| queue.pop(&mut queue.seen(), 2),
        |queue, a, b| {
            assert!(!a.is_empty() || b.len() == 2);
            assert_eq!(sorted([a, b, queue.drain()].concat()), [1, 2]);
        },
    );
}

#[test]
fn loom_a_slot_is_written_again_only_after_it_was_read() {
    race(
        (1, 0),
        |queue| assert!(queue.push(&mut queue.seen(), 1, 1)),
        |queue| queue.pop(&mut queue.seen(), 1),
        |queue| queue.push(&mut queue.seen(), 2, 1),
        |queue, popped, pushed| {
            assert_eq!(popped, [1]);
            assert_eq!(queue.drain(), if pushed { vec![2] } else { vec![] });
        },
    );
}

#[test]
fn loom_pushes_and_pops_go_round_a_ring_of_one_and_of_two() {
    for capacity in [1, 2] {
        race(
            (capacity, u64::MAX),
            |queue| assert!(queue.push(&mut queue.seen(), 1, 1)),
            |queue| {
                let mut seen = queue.seen();
                [queue.pop(&mut seen, 1), queue.pop(&mut seen, 1)].concat()
            },
            |queue| {
                let mut seen = queue.seen();
                [queue.push(&mut seen, 2, 1), queue.push(&mut seen, 3, 1)]
            },
            |queue, popped, pushed| {
                let mut there = vec![1];
                there.extend(pushed[0].then_some(2));
                there.extend(pushed[1].then_some(3));
                assert_eq!([popped, queue.drain()].concat(), there, "in this order");
            },
        );
    }
}

/// Two ranks each push to a queue and then pop from the other one's. At least one of them finds an
/// element.
#[test]
fn loom_of_two_pushes_to_two_queues_one_is_seen_by_who_made_the_other() {
    each(|| {
        loom::model(|| {
            let queues = Arc::new([Queue::of(2, 0), Queue::of(2, 0)]);
            let push_and_pop = |[one, other]: [&Queue; 2]| {
                assert!(one.push(&mut one.seen(), 1, 1));
                other.pop(&mut other.seen(), 1)
            };
            let first = {
                let queues = Arc::clone(&queues);
                thread::spawn(move || push_and_pop([&queues[0], &queues[1]]))
            };
            let second = push_and_pop([&queues[1], &queues[0]]);
            let first = first.join().unwrap();
            assert!(first == [1] || second == [1], "both miss each other");
        });
    });
}
