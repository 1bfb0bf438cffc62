//! The event queue: what happens next, in exact order of simulated time.
//!
//! A short sorted list holds what comes next. A wheel of buckets, each [`BUCKET_PS`] wide, holds
//! the near future behind it (about half a microsecond: everything but a badly congested memory
//! falls into it) in no order; a bucket is sorted when it is its turn. What lies beyond waits in a
//! heap and moves into the wheel as that turns. While few events wait all of them stand in the
//! list, which is cheaper than the wheel then. Ties in time are broken by an order number that the
//! caller gives, so that the result does not depend on which of two independent parts was simulated
//! first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::time::Time;

const BUCKET_SHIFT: u32 = 9;

/// The width of a bucket in picoseconds: about one cycle of a 2 GHz clock.
pub const BUCKET_PS: u64 = 1 << BUCKET_SHIFT;

const N_BUCKETS: usize = 1024;
const WORD_BITS: usize = 64;
const N_WORDS: usize = N_BUCKETS / WORD_BITS;
const NONE: u32 = u32::MAX;

/// How long the sorted list gets before its later half goes back into the wheel.
const SORTED_MOST: usize = 48;

/// How many events stand in the sorted list alone, however far away they are.
const FEW: usize = 24;

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    time: Time,
    order: u64,
    event: E,
}

impl<E> Entry<E> {
    /// Time and order in one number, whose comparison needs no branch.
    const fn key(&self) -> u128 {
        (self.time.ps() as u128) << 64 | self.order as u128
    }

    const fn number(&self) -> u64 {
        self.time.ps() >> BUCKET_SHIFT
    }
}

/// An entry of the wheel, or beyond it.
#[derive(Clone, Copy, Debug)]
struct Stored<E> {
    entry: Entry<E>,
    /// The next one of the same bucket, or the next unused one.
    next: u32,
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
    /// What comes first, the latest in front: everything up to bucket number `sorted_to`. Empty
    /// only if all is.
    sorted: Vec<Entry<E>>,
    sorted_to: u64,
    stored: Vec<Stored<E>>,
    unused: u32,
    /// The first entry of each bucket.
    buckets: Box<[u32; N_BUCKETS]>,
    /// One bit a bucket: does it hold anything?
    occupied: [u64; N_WORDS],
    /// One bit a word of `occupied`.
    words: u64,
    /// The number of the first bucket of the wheel, counted from time zero: nothing earlier can
    /// come.
    start: u64,
    beyond: BinaryHeap<Reverse<(Time, u64, u32)>>,
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
            sorted: Vec::new(),
            sorted_to: 0,
            stored: Vec::new(),
            unused: NONE,
            buckets: Box::new([NONE; N_BUCKETS]),
            occupied: [0; N_WORDS],
            words: 0,
            start: 0,
            beyond: BinaryHeap::new(),
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
        self.sorted.last().map_or(Time::NEVER, |entry| entry.time)
    }

    /// Adds an event. Of several at one time, that with the smallest `order` comes first; no two
    /// may have both in common.
    ///
    /// # Panics
    /// If `time` is before an event that has been taken out already, by a bucket or more.
    #[inline]
    pub fn push(&mut self, time: Time, order: u64, event: E) {
        let entry = Entry { time, order, event };
        let number = entry.number();
        assert!(number >= self.start, "an event in the past");
        self.len += 1;
        if self.sorted.is_empty() {
            self.sorted.push(entry);
            self.sorted_to = number;
        } else if number <= self.sorted_to {
            self.insert(entry);
        } else if self.sorted.len() < FEW && self.len == self.sorted.len() + 1 {
            self.sorted_to = number;
            self.insert(entry);
        } else {
            self.store(number, entry);
        }
    }

    /// Takes out the earliest event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, E)> {
        let entry = self.sorted.pop()?;
        self.len -= 1;
        self.start = entry.number();
        if self.sorted.is_empty() && self.len > 0 {
            self.refill();
        }
        Some((entry.time, entry.event))
    }

    /// Puts an entry into its place in the sorted list.
    fn insert(&mut self, entry: Entry<E>) {
        let key = entry.key();
        let n_later = self.sorted.iter().map(|it| usize::from(it.key() > key));
        self.sorted.insert(n_later.sum(), entry);
        if self.sorted.len() > SORTED_MOST {
            self.shorten();
        }
    }

    /// Moves the later half of the sorted list, at a border between buckets, back into the wheel.
    #[cold]
    fn shorten(&mut self) {
        let kept_to = self.sorted[self.sorted.len() / 2].number();
        let n_later = self.sorted.partition_point(|it| it.number() > kept_to);
        for at in 0..n_later {
            let entry = self.sorted[at];
            self.store(entry.number(), entry);
        }
        self.sorted.drain(..n_later);
        self.sorted_to = kept_to;
    }

    /// Keeps an entry whose bucket is not sorted yet.
    fn store(&mut self, number: u64, entry: Entry<E>) {
        let stored = Stored { entry, next: NONE };
        let at = if self.unused == NONE {
            self.stored.push(stored);
            u32::try_from(self.stored.len() - 1).expect("fewer than 2^32 events")
        } else {
            let at = self.unused;
            self.unused = self.stored[at as usize].next;
            self.stored[at as usize] = stored;
            at
        };
        if number - self.start < N_BUCKETS as u64 {
            self.link(number, at);
        } else {
            self.beyond.push(Reverse((entry.time, entry.order, at)));
        }
    }

    fn link(&mut self, number: u64, at: u32) {
        let bucket = wrap(number);
        self.stored[at as usize].next = self.buckets[bucket];
        self.buckets[bucket] = at;
        self.occupied[bucket / WORD_BITS] |= 1 << (bucket % WORD_BITS);
        self.words |= 1 << (bucket / WORD_BITS);
    }

    /// Sorts the next bucket that holds anything; one does, or something is beyond.
    fn refill(&mut self) {
        if !self.beyond.is_empty() {
            self.bring_in();
        }
        if self.words == 0 {
            self.take_from_beyond();
        } else {
            let bucket = self.first_occupied();
            let mut at = self.buckets[bucket];
            while at != NONE {
                at = self.take(at);
            }
            self.buckets[bucket] = NONE;
            let word = bucket / WORD_BITS;
            self.occupied[word] &= !(1 << (bucket % WORD_BITS));
            if self.occupied[word] == 0 {
                self.words &= !(1 << word);
            }
        }
        self.sorted_to = self.sorted[0].number();
        if self.sorted.len() > 1 {
            self.sorted.sort_unstable_by_key(|it| Reverse(it.key()));
        }
    }

    /// Moves a stored entry to the sorted list; gives the one behind it.
    fn take(&mut self, at: u32) -> u32 {
        let Stored { entry, next } = self.stored[at as usize];
        self.sorted.push(entry);
        self.stored[at as usize].next = self.unused;
        self.unused = at;
        next
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

    /// The wheel is empty: what comes next is the first bucket's worth of what lies beyond.
    #[cold]
    fn take_from_beyond(&mut self) {
        let mut first = None;
        while let Some(&Reverse((time, _, at))) = self.beyond.peek() {
            let number = time.ps() >> BUCKET_SHIFT;
            if *first.get_or_insert(number) != number {
                return;
            }
            self.beyond.pop();
            self.take(at);
        }
    }

    /// The first bucket from the start of the wheel on that holds anything; one does.
    fn first_occupied(&self) -> usize {
        let start = wrap(self.start);
        let (word, bit) = (start / WORD_BITS, start % WORD_BITS);
        let upper = self.occupied[word] & (u64::MAX << bit);
        if upper != 0 {
            return word * WORD_BITS + upper.trailing_zeros() as usize;
        }
        // Once around: the words behind, then those before, and the low bits of the first word
        // last.
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

    #[test]
    fn many_events_before_the_first_one_come_out_in_order() {
        let mut queue = EventQueue::new();
        let mut random = fastrand::Rng::with_seed(3);
        for round in 0..20 {
            let base = round * 1_000_000;
            let mut expected = Vec::new();
            // From late to early, so that each is inserted before all that are there, some at equal
            // times.
            for order in (0..500_u64).rev() {
                let time = Time::from_ps(base + order * 300 + random.u64(0..4000));
                queue.push(time, order, order);
                expected.push((time, order));
            }
            expected.sort_unstable();
            for (time, order) in expected {
                assert_eq!(queue.pop(), Some((time, order)));
            }
        }
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
                // Descending order numbers, so that the order of insertion would be the wrong
                // answer.
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
