//! The protocol of the tickets under loom, which tries every interleaving and every value that a relaxed
//! load may return: `RUSTFLAGS='--cfg loom' LOOM_MAX_PREEMPTIONS=2 CARGO_TARGET_DIR=target/loom cargo test
//! --release -p pgas-containers --lib loom`.

#![expect(clippy::unwrap_used, reason = "a failed operation fails the model")]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;
use pgas_core::Result;

use super::ticket::{self, Seen, Side, Size, Tickets, Word, Words};

/// A queue with the same orderings as one in directly addressable memory.
struct Queue {
    size: Size,
    words: [AtomicU64; 4],
    slots: Vec<AtomicU64>,
    marks: Vec<AtomicU64>,
    /// Where tickets begin.
    first: u64,
}

impl Words for Queue {
    fn size(&self) -> Size {
        self.size
    }

    fn load(&self, word: Word) -> Result<u64> {
        Ok(self.words[word as usize].load(Ordering::Acquire))
    }

    fn swap(&self, word: Word, current: u64, new: u64) -> Result<Result<(), u64>> {
        let word = &self.words[word as usize];
        let swapped = word.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire);
        Ok(swapped.map(|_| ()))
    }

    fn advance(&self, word: Word, from: u64, to: u64) -> Result<bool> {
        if self.load(word)? != from {
            return Ok(false);
        }
        fence(Ordering::Release);
        self.words[word as usize].store(to, Ordering::Relaxed);
        Ok(true)
    }

    fn mark(&self, slot: u64) -> Result<u64> {
        Ok(self.marks[index(slot)].load(Ordering::Acquire))
    }

    fn set_mark(&self, slot: u64, mark: u64) -> Result<()> {
        self.marks[index(slot)].swap(mark, Ordering::AcqRel);
        Ok(())
    }

    fn clear_mark(&self, slot: u64, mark: u64) -> Result<()> {
        let slot = &self.marks[index(slot)];
        let cleared = slot.compare_exchange(mark, 0, Ordering::AcqRel, Ordering::Acquire);
        // Who finds another mark there leaves it alone.
        let _: std::result::Result<u64, u64> = cleared;
        Ok(())
    }

    fn give_way(&self, _: u32) {
        thread::yield_now();
    }

    fn wait_until(&self, ready: &mut dyn FnMut() -> Result<bool>) -> Result<()> {
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
        let size = Size::of(capacity);
        let zeros = || (0..size.n_slots()).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self {
            size,
            words: [(); 4].map(|()| AtomicU64::new(first)),
            slots: zeros(),
            marks: zeros(),
            first,
        })
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

    /// As a queue does: the next ticket if nobody is faster, else what can be had.
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
        ticket::take(self, side, seen, n, true).unwrap()
    }

    /// Pushes `n` values from `value` on; whether there was room.
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
