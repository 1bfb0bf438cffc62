//! The numbers of tickets, and their protocol by one thread, across the end of the numbers.

use std::cell::RefCell;
use std::convert::Infallible;

use super::*;

/// Tickets that soon wrap around, as their sign, their laps and they themselves do.
const FIRST_TICKETS: [u64; 4] = [0, u64::MAX - 5, (1 << 63) - 3, (1 << 33) - 2];

/// The words of a queue, and their marks, of one thread.
struct Local {
    size: Size,
    words: RefCell<[u64; 4]>,
    marks: RefCell<Vec<u64>>,
}

impl Local {
    fn new(capacity: u64, first: u64) -> Self {
        let size = Size::of(capacity);
        Self {
            size,
            words: RefCell::new([first; 4]),
            marks: RefCell::new(vec![0; usize::try_from(size.n_slots()).unwrap()]),
        }
    }

    fn take(&self, side: Side, seen: &mut Seen, n: (u64, u64)) -> Option<Tickets> {
        take(self, side, seen, n, true, |_| Ok(())).unwrap()
    }

    fn place(slot: u64) -> usize {
        usize::try_from(slot).unwrap()
    }
}

impl Words for Local {
    type Error = Infallible;

    fn size(&self) -> Size {
        self.size
    }

    fn load(&self, word: Word) -> Result<u64, Infallible> {
        Ok(self.words.borrow()[word as usize])
    }

    fn swap(&self, word: Word, current: u64, new: u64) -> Result<Result<(), u64>, Infallible> {
        let word = &mut self.words.borrow_mut()[word as usize];
        if *word != current {
            return Ok(Err(*word));
        }
        *word = new;
        Ok(Ok(()))
    }

    fn advance(&self, word: Word, from: u64, to: u64) -> Result<bool, Infallible> {
        Ok(self.swap(word, from, to)?.is_ok())
    }

    fn mark(&self, slot: u64) -> Result<u64, Infallible> {
        Ok(self.marks.borrow()[Self::place(slot)])
    }

    fn set_mark(&self, slot: u64, mark: u64) -> Result<(), Infallible> {
        self.marks.borrow_mut()[Self::place(slot)] = mark;
        Ok(())
    }

    fn clear_mark(&self, slot: u64, mark: u64) -> Result<(), Infallible> {
        let there = &mut self.marks.borrow_mut()[Self::place(slot)];
        if *there == mark {
            *there = 0;
        }
        Ok(())
    }

    fn give_way(&self, _: u32) {}

    fn wait_until(
        &self,
        _: &mut dyn FnMut() -> Result<bool, Infallible>,
    ) -> Result<(), Infallible> {
        panic!("nobody else is at work")
    }
}

#[test]
fn tickets_are_given_out_in_order_across_the_end_of_the_numbers() {
    for first in FIRST_TICKETS {
        let words = Local::new(3, first);
        let seen = || Seen {
            taken: first,
            limit: first,
        };
        let (mut push, mut pop) = (seen(), seen());
        let mut next = first;
        for n in [1, 3, 2, 3, 3, 1, 2, 3] {
            let tickets = Tickets { first: next, n };
            assert_eq!(words.take(Side::Pop, &mut pop, (1, 3)), None, "empty");
            assert_eq!(words.take(Side::Push, &mut push, (n, n)), Some(tickets));
            finish(&words, Side::Push, tickets).unwrap();
            let too_many = (4 - n, 4 - n);
            assert_eq!(words.take(Side::Push, &mut push, too_many), None, "full");
            // As many as there are, up to the wanted number.
            assert_eq!(words.take(Side::Pop, &mut pop, (1, 3)), Some(tickets));
            finish(&words, Side::Pop, tickets).unwrap();
            next = next.wrapping_add(n);
            assert_eq!(*words.words.borrow(), [next; 4]);
        }
        for _ in 0..9 {
            assert_eq!(take_next(&words, Side::Pop, pop), Ok(Err(next)), "empty");
            push.limit = next;
            assert_eq!(take_next(&words, Side::Push, push), Ok(Ok(next)));
            let tickets = Tickets { first: next, n: 1 };
            finish(&words, Side::Push, tickets).unwrap();
            next = next.wrapping_add(1);
            push.taken = next;
            assert_eq!(words.take(Side::Pop, &mut pop, (1, 1)), Some(tickets));
            finish(&words, Side::Pop, tickets).unwrap();
        }
    }
}

#[test]
fn work_that_is_done_in_any_order_counts_when_all_before_it_is() {
    for first in FIRST_TICKETS {
        for order in [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ] {
            // Two laps, so that the second one finds the places of the marks used.
            let words = Local::new(7, first);
            let mut seen = Seen {
                taken: first,
                limit: first,
            };
            let mut begin = first;
            for _ in 0..4 {
                let taken = [1, 2, 1].map(|n| words.take(Side::Push, &mut seen, (n, n)).unwrap());
                let mut is_done = [false; 3];
                for i in order {
                    finish(&words, Side::Push, taken[i]).unwrap();
                    is_done[i] = true;
                    let n_done = is_done.iter().take_while(|is_done| **is_done).count();
                    let end = taken[..n_done].last().map_or(begin, |last| last.end());
                    let there = move_over_marks(&words, Side::Push);
                    assert_eq!(there, Ok(end), "{order:?}");
                }
                begin = begin.wrapping_add(4);
                // All that is there is popped at once.
                words.words.borrow_mut()[Word::Head as usize] = begin;
                words.words.borrow_mut()[Word::Consumed as usize] = begin;
            }
            assert!(words.marks.borrow().iter().all(|mark| *mark == 0));
        }
    }
}

#[test]
fn a_mark_is_read_as_what_it_was_and_by_nobody_else() {
    let size = Size::of(1000);
    assert_eq!(size.n_slots(), 1024);
    for first in [0, 1, 1023, 1024, u64::MAX - 5, 1 << 63] {
        let tickets = Tickets { first, n: 7 };
        for side in [Side::Push, Side::Pop] {
            let mark = mark(size, side, tickets);
            assert_eq!(marked(size, side, first, mark), Some(7));
            assert_eq!(marked(size, side.other(), first, mark), None);
            let later = first.wrapping_add(size.n_slots());
            assert_eq!(marked(size, side, later, mark), None);
        }
    }
    assert_eq!(marked(size, Side::Push, 0, 0), None);
}

#[test]
fn room_is_counted_across_the_end_of_the_numbers() {
    let size = Size::of(10);
    assert_eq!(room(size, Side::Push, 2, u64::MAX - 3), 4);
    assert_eq!(room(size, Side::Pop, u64::MAX - 3, 2), 6);
    assert_eq!(room(size, Side::Pop, 2, u64::MAX - 3), 0);
    assert_eq!(room(size, Side::Push, 100, 50), 0);
}

#[test]
fn the_next_ticket_is_taken_across_the_end_of_the_numbers() {
    for first in FIRST_TICKETS {
        let words = Local::new(3, first);
        let mut next = first;
        for _ in 0..9 {
            let seen = Seen {
                taken: next,
                limit: next,
            };
            assert_eq!(take_next(&words, Side::Push, seen), Ok(Ok(next)));
            next = next.wrapping_add(1);
            assert_eq!(words.words.borrow()[Word::Tail as usize], next);
        }
    }
}
