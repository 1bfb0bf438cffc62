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
const N_WORDS: usize = N_BUCKETS / WORD_BITS;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    time: Time,
    order: u64,
    event: E,
    /// The next entry of the same bucket, or the next unused one.
    next: u32,
}

impl<E> Entry<E> {
    const fn key(&self) -> (Time, u64) {
        (self.time, self.order)
    }
}

/// An entry beyond the wheel.
type Distant = Reverse<(Time, u64, u32)>;

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
    entries: Vec<Entry<E>>,
    unused: u32,
    /// The first entry of each bucket.
    buckets: Box<[u32; N_BUCKETS]>,
    /// One bit a bucket: does it hold anything?
    occupied: [u64; N_WORDS],
    /// One bit a word of `occupied`.
    words: u64,
    /// The number of the first bucket of the wheel, counted from time zero.
    start: u64,
    beyond: BinaryHeap<Distant>,
    /// The earliest entry's time and order.
    next: (Time, u64),
    len: usize,
}

/// The key of no entry.
const NOTHING: (Time, u64) = (Time::NEVER, u64::MAX);

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
            entries: Vec::new(),
            unused: NONE,
            buckets: Box::new([NONE; N_BUCKETS]),
            occupied: [0; N_WORDS],
            words: 0,
            start: 0,
            beyond: BinaryHeap::new(),
            next: NOTHING,
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
    pub const fn next_time(&self) -> Time {
        self.next.0
    }

    /// Adds an event. Of several at one time, that with the smallest `order` comes first; no two may have both in common.
    ///
    /// # Panics
    /// If `time` is before an event that has been taken out already.
    #[inline]
    pub fn push(&mut self, time: Time, order: u64, event: E) {
        let number = time.ps() >> BUCKET_SHIFT;
        assert!(number >= self.start, "an event in the past");
        self.len += 1;
        let entry = Entry {
            time,
            order,
            event,
            next: NONE,
        };
        let at = if self.unused == NONE {
            self.entries.push(entry);
            u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 events")
        } else {
            let at = self.unused;
            self.unused = self.entries[at as usize].next;
            self.entries[at as usize] = entry;
            at
        };
        if number - self.start < N_BUCKETS as u64 {
            self.link(number, at);
        } else {
            self.beyond.push(Reverse((time, order, at)));
        }
        self.next = self.next.min((time, order));
    }

    /// Takes out the earliest event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, E)> {
        if self.len == 0 {
            return None;
        }
        let number = self.next.0.ps() >> BUCKET_SHIFT;
        self.start = number;
        if !self.beyond.is_empty() {
            self.bring_in();
        }
        let at = self.unlink(wrap(number));
        let entry = self.entries[at as usize];
        self.entries[at as usize].next = self.unused;
        self.unused = at;
        self.len -= 1;
        self.next = self.earliest();
        Some((entry.time, entry.event))
    }

    fn link(&mut self, number: u64, at: u32) {
        let bucket = wrap(number);
        self.entries[at as usize].next = self.buckets[bucket];
        self.buckets[bucket] = at;
        self.occupied[bucket / WORD_BITS] |= 1 << (bucket % WORD_BITS);
        self.words |= 1 << (bucket / WORD_BITS);
    }

    /// Takes the earliest entry out of a bucket that holds one.
    fn unlink(&mut self, bucket: usize) -> u32 {
        let first = self.buckets[bucket];
        let mut before = NONE;
        let mut found = first;
        let mut last = first;
        loop {
            let at = self.entries[last as usize].next;
            if at == NONE {
                break;
            }
            if self.entries[at as usize].key() < self.entries[found as usize].key() {
                found = at;
                before = last;
            }
            last = at;
        }
        let next = self.entries[found as usize].next;
        if before != NONE {
            self.entries[before as usize].next = next;
            return found;
        }
        self.buckets[bucket] = next;
        if next == NONE {
            let word = bucket / WORD_BITS;
            self.occupied[word] &= !(1 << (bucket % WORD_BITS));
            if self.occupied[word] == 0 {
                self.words &= !(1 << word);
            }
        }
        found
    }

    /// Moves into the wheel what has come within its reach.
    #[cold]
    fn bring_in(&mut self) {
        let end = self.start + N_BUCKETS as u64;
        while let Some(&Reverse((time, _, at))) = self.beyond.peek() {
            let number = time.ps() >> BUCKET_SHIFT;
            if number >= end {
                return;
            }
            self.beyond.pop();
            self.link(number, at);
        }
    }

    /// The key of the earliest entry.
    fn earliest(&self) -> (Time, u64) {
        if self.words == 0 {
            let first = self.beyond.peek();
            return first.map_or(NOTHING, |&Reverse((time, order, _))| (time, order));
        }
        let mut at = self.buckets[self.first_occupied()];
        let mut earliest = NOTHING;
        while at != NONE {
            let entry = &self.entries[at as usize];
            earliest = earliest.min(entry.key());
            at = entry.next;
        }
        earliest
    }

    /// The first bucket from the start of the wheel on that holds anything; one does.
    fn first_occupied(&self) -> usize {
        let start = wrap(self.start);
        let (word, bit) = (start / WORD_BITS, start % WORD_BITS);
        let upper = self.occupied[word] & (u64::MAX << bit);
        if upper != 0 {
            return word * WORD_BITS + upper.trailing_zeros() as usize;
        }
        // Once around: the words behind, then those before, and the low bits of the first word last.
        let behind = self.words & (u64::MAX << word << 1);
        let words = if behind == 0 { self.words } else { behind };
        let word = words.trailing_zeros() as usize;
        word * WORD_BITS + self.occupied[word].trailing_zeros() as usize
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
