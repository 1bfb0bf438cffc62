//! The event queue: what happens next, in exact order of simulated time.
//!
//! A wheel of buckets, each [`BUCKET_PS`] wide, holds the near future (about half a microsecond: everything but a badly
//! congested memory falls into it); what lies beyond waits in a heap and moves into the wheel as that turns. Ties in time
//! are broken by an order number that the caller gives, so that the result does not depend on which of two independent
//! parts was simulated first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::time::Time;

const BUCKET_SHIFT: u32 = 9;

/// The width of a bucket in picoseconds: about one cycle of a 2 GHz clock, so that a bucket holds few events.
pub const BUCKET_PS: u64 = 1 << BUCKET_SHIFT;

const N_BUCKETS: usize = 1024;
const WORD_BITS: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    time: Time,
    order: u64,
    event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (Time, u64) {
        (self.time, self.order)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// The earliest entry.
#[derive(Clone, Copy, Debug)]
struct Next {
    time: Time,
    order: u64,
    place: Place,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Wheel { bucket: usize, index: usize },
    Beyond,
}

/// A queue of events ordered by time, then by the order number given with them.
///
/// # Examples
/// ```
/// use pgas_riscv_sim::timed::queue::EventQueue;
/// use pgas_riscv_sim::timed::time::Time;
///
/// let mut queue = EventQueue::new();
/// queue.push(Time::from_ns(2), 0, "later");
/// queue.push(Time::from_ns(1), 1, "second");
/// queue.push(Time::from_ns(1), 0, "first");
/// assert_eq!(queue.pop(), Some((Time::from_ns(1), "first")));
/// assert_eq!(queue.next_time(), Time::from_ns(1));
/// ```
#[derive(Debug)]
pub struct EventQueue<E> {
    buckets: Vec<Vec<Entry<E>>>,
    /// One bit a bucket: does it hold anything?
    occupied: [u64; N_BUCKETS / WORD_BITS],
    /// The number of the first bucket of the wheel, counted from time zero.
    start: u64,
    beyond: BinaryHeap<Reverse<Entry<E>>>,
    next: Option<Next>,
    len: usize,
}

impl<E: Copy> Default for EventQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Copy> EventQueue<E> {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self {
            buckets: (0..N_BUCKETS).map(|_| Vec::new()).collect(),
            occupied: [0; N_BUCKETS / WORD_BITS],
            start: 0,
            beyond: BinaryHeap::new(),
            next: None,
            len: 0,
        }
    }

    /// How many events wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// When the earliest event happens; [`Time::NEVER`] if there is none.
    #[must_use]
    pub fn next_time(&self) -> Time {
        self.next.map_or(Time::NEVER, |next| next.time)
    }

    /// Adds an event. Of several at one time, that with the smallest `order` comes first; no two may have both in common.
    ///
    /// # Panics
    /// If `time` is before an event that has been taken out already.
    pub fn push(&mut self, time: Time, order: u64, event: E) {
        let number = time.ps() >> BUCKET_SHIFT;
        assert!(number >= self.start, "an event in the past");
        self.len += 1;
        let entry = Entry { time, order, event };
        let place = if number - self.start < N_BUCKETS as u64 {
            self.insert(number, entry)
        } else {
            self.beyond.push(Reverse(entry));
            Place::Beyond
        };
        let earlier = self
            .next
            .is_none_or(|next| (time, order) < (next.time, next.order));
        if earlier {
            self.next = Some(Next { time, order, place });
        }
    }

    /// Takes out the earliest event.
    pub fn pop(&mut self) -> Option<(Time, E)> {
        let next = self.next?;
        let entry = match next.place {
            Place::Wheel { bucket, index } => self.remove(bucket, index),
            Place::Beyond => self.beyond.pop()?.0,
        };
        self.len -= 1;
        self.start = next.time.ps() >> BUCKET_SHIFT;
        self.bring_in();
        self.next = self.earliest();
        Some((entry.time, entry.event))
    }

    fn remove(&mut self, bucket: usize, index: usize) -> Entry<E> {
        let entries = &mut self.buckets[bucket];
        let entry = entries.swap_remove(index);
        if entries.is_empty() {
            self.occupied[bucket / WORD_BITS] &= !(1 << (bucket % WORD_BITS));
        }
        entry
    }

    fn insert(&mut self, number: u64, entry: Entry<E>) -> Place {
        let bucket = wrap(number);
        let index = self.buckets[bucket].len();
        self.buckets[bucket].push(entry);
        self.occupied[bucket / WORD_BITS] |= 1 << (bucket % WORD_BITS);
        Place::Wheel { bucket, index }
    }

    /// Moves into the wheel what has come within its reach.
    fn bring_in(&mut self) {
        let end = self.start + N_BUCKETS as u64;
        while let Some(Reverse(first)) = self.beyond.peek() {
            let number = first.time.ps() >> BUCKET_SHIFT;
            if number >= end {
                return;
            }
            let entry = *first;
            self.beyond.pop();
            self.insert(number, entry);
        }
    }

    fn earliest(&self) -> Option<Next> {
        if let Some(bucket) = self.first_occupied() {
            return Some(self.earliest_of(bucket));
        }
        self.beyond.peek().map(|Reverse(first)| Next {
            time: first.time,
            order: first.order,
            place: Place::Beyond,
        })
    }

    fn first_occupied(&self) -> Option<usize> {
        let start = wrap(self.start);
        let (word, bit) = (start / WORD_BITS, start % WORD_BITS);
        let upper = self.occupied[word] & (u64::MAX << bit);
        if upper != 0 {
            return Some(word * WORD_BITS + upper.trailing_zeros() as usize);
        }
        // Once around, and the bits of the first word below the start last.
        (1..=self.occupied.len()).find_map(|step| {
            let word = (word + step) % self.occupied.len();
            let bits = self.occupied[word];
            (bits != 0).then(|| word * WORD_BITS + bits.trailing_zeros() as usize)
        })
    }

    fn earliest_of(&self, bucket: usize) -> Next {
        let entries = &self.buckets[bucket];
        let mut index = 0;
        for candidate in 1..entries.len() {
            if entries[candidate].key() < entries[index].key() {
                index = candidate;
            }
        }
        let (time, order) = entries[index].key();
        Next {
            time,
            order,
            place: Place::Wheel { bucket, index },
        }
    }
}

fn wrap(number: u64) -> usize {
    super::index(number % N_BUCKETS as u64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_empty_queue_has_no_next_time() {
        let mut queue = EventQueue::<u8>::new();
        assert_eq!(queue.next_time(), Time::NEVER);
        assert_eq!(queue.pop(), None);
    }

    #[test]
    fn a_lone_event_far_ahead_is_found() {
        let mut queue = EventQueue::new();
        queue.push(Time::from_ns(1_000_000), 0, 'a');
        assert_eq!(queue.next_time(), Time::from_ns(1_000_000));
        queue.push(Time::from_ns(1_000_001), 0, 'b');
        assert_eq!(queue.pop(), Some((Time::from_ns(1_000_000), 'a')));
        assert_eq!(queue.pop(), Some((Time::from_ns(1_000_001), 'b')));
    }

    #[test]
    #[should_panic(expected = "an event in the past")]
    fn an_event_before_one_that_was_taken_out_is_refused() {
        let mut queue = EventQueue::new();
        queue.push(Time::from_ns(10), 0, ());
        queue.pop();
        queue.push(Time::from_ns(1), 0, ());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push { after: u64 },
        Pop,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0_u64..4).prop_map(|after| Step::Push { after: after * 500 }),
            2 => (0_u64..200_000).prop_map(|after| Step::Push { after }),
            1 => (0_u64..50_000_000).prop_map(|after| Step::Push { after }),
            6 => Just(Step::Pop),
        ]
    }

    proptest! {
        #[test]
        fn events_come_out_as_from_a_sorted_map(steps in proptest::collection::vec(step(), 1..400)) {
            let mut queue = EventQueue::new();
            let mut model = BTreeMap::new();
            let mut now = 0;
            for (order, step) in steps.into_iter().enumerate() {
                // Descending order numbers, so that the order of insertion would be the wrong answer.
                let order = u64::MAX - order as u64;
                if let Step::Push { after } = step {
                    queue.push(Time::from_ps(now + after), order, order);
                    model.insert((Time::from_ps(now + after), order), order);
                } else {
                    let expected = model.pop_first().map(|((time, _), event)| (time, event));
                    prop_assert_eq!(queue.pop(), expected);
                    now = expected.map_or(now, |(time, _)| time.ps());
                }
                prop_assert_eq!(queue.len(), model.len());
                let next = model.keys().next().map_or(Time::NEVER, |&(time, _)| time);
                prop_assert_eq!(queue.next_time(), next);
            }
        }
    }
}
