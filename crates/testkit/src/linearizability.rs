//! Records the history of concurrent threads, and checks that a sequential order explains it.
//!
//! A history is linearizable if its calls can be put into one order with two properties: each call
//! returns what a sequential object would have returned, and no call comes before another one that
//! had returned before it was made (Herlihy and Wing, 1990). The search is that of Wing and Gong,
//! with Lowe's cache of visited configurations.

use std::collections::HashSet;
use std::fmt::{self, Debug};
use std::hash::Hash;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A sequential object.
pub trait Model {
    /// Its state.
    type State: Clone + Eq + Hash;
    /// Its operations.
    type Op: Debug;
    /// Its answers.
    type Answer: Debug;

    /// The object before the first call.
    fn initial(&self) -> Self::State;

    /// The state after `op`, if the object in `state` answers `op` with `answer`.
    fn step(
        &self,
        state: &Self::State,
        op: &Self::Op,
        answer: &Self::Answer,
    ) -> Option<Self::State>;
}

/// A call, its answer, and when it was made and returned.
#[derive(Clone, Debug)]
pub struct Call<O, A> {
    /// The operation.
    pub op: O,
    /// The answer.
    pub answer: A,
    /// When the call was made, in nanoseconds of the history's [`Clock`].
    pub made: u128,
    /// When it returned.
    pub returned: u128,
}

/// The common time of the threads and processes of a history.
///
/// It reads the host's monotonic clock, which does not order memory accesses, so it does not hide
/// missing fences.
#[derive(Clone, Copy, Debug)]
pub struct Clock;

impl Clock {
    /// Makes a call and records it.
    pub fn call<O, A>(self, op: O, f: impl FnOnce(&O) -> A) -> Call<O, A> {
        let made = now();
        let answer = f(&op);
        let returned = now();
        Call {
            op,
            answer,
            made,
            returned,
        }
    }
}

/// Nanoseconds since the host started.
fn now() -> u128 {
    let now = clock_gettime(ClockId::Monotonic);
    let now = Duration::try_from(now).expect("the clock runs forwards from zero");
    now.as_nanos()
}

/// A history that no order explains.
#[derive(Debug)]
pub struct NotLinearizable {
    /// A longest sequence of calls that could be put in order.
    pub explained: usize,
    /// The calls, in the order in which they were made.
    pub history: Vec<String>,
}

impl fmt::Display for NotLinearizable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (explained, n) = (self.explained, self.history.len());
        writeln!(f, "no order explains more than {explained} of {n} calls:")?;
        for call in &self.history {
            writeln!(f, "  {call}")?;
        }
        Ok(())
    }
}

impl std::error::Error for NotLinearizable {}

/// Checks that some order of the calls explains their answers.
///
/// # Errors
///
/// The history, in readable form, if none does.
pub fn check<M: Model>(
    model: &M,
    history: &[Call<M::Op, M::Answer>],
) -> Result<(), NotLinearizable> {
    let mut events = Events::of(history);
    let mut taken = vec![0_u64; history.len().div_ceil(64)];
    let mut tried = HashSet::new();
    let mut chosen = Vec::new();
    let mut state = model.initial();
    let mut explained = 0;
    let mut at = events.first();
    while let Some(event) = at {
        let Event::Made(call) = event else {
            // A call that has returned here must have been chosen before: the last choice was
            // wrong.
            let Some((call, before)) = chosen.pop() else {
                return Err(failure(history, explained));
            };
            state = before;
            taken[call / 64] &= !bit(call);
            events.put_back(call);
            at = events.after(Event::Made(call));
            continue;
        };
        let Call { op, answer, .. } = &history[call];
        let next = model.step(&state, op, answer).filter(|next| {
            let mut with = taken.clone();
            with[call / 64] |= bit(call);
            tried.insert((with, next.clone()))
        });
        let Some(next) = next else {
            at = events.after(event);
            continue;
        };
        chosen.push((call, std::mem::replace(&mut state, next)));
        taken[call / 64] |= bit(call);
        explained = explained.max(chosen.len());
        events.remove(call);
        at = events.first();
    }
    Ok(())
}

/// The call's position in its word of the set of calls.
fn bit(call: usize) -> u64 {
    1 << (call % 64)
}

fn failure<O: Debug, A: Debug>(history: &[Call<O, A>], explained: usize) -> NotLinearizable {
    let mut calls: Vec<_> = history.iter().collect();
    calls.sort_by_key(|call| call.made);
    let text = |call: &&Call<O, A>| {
        let Call {
            op,
            answer,
            made,
            returned,
        } = call;
        format!("{made:>12} to {returned:>12}: {op:?} -> {answer:?}")
    };
    NotLinearizable {
        explained,
        history: calls.iter().map(text).collect(),
    }
}

/// The start or the return of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Made(usize),
    Returned(usize),
}

/// The events of the calls that are not in the order yet, by time. It is a doubly linked list, so
/// that calls can be put back into their places.
struct Events {
    /// Node 0 is both ends. Node 2i + 1 is the start of call i, and node 2i + 2 its return.
    next: Vec<usize>,
    previous: Vec<usize>,
}

impl Events {
    fn of<O, A>(history: &[Call<O, A>]) -> Self {
        let mut nodes: Vec<(u128, bool, usize)> = Vec::with_capacity(2 * history.len());
        for (i, call) in history.iter().enumerate() {
            // At the same time a start comes before a return: then the two calls overlap.
            nodes.push((call.made, false, 2 * i + 1));
            nodes.push((call.returned, true, 2 * i + 2));
        }
        nodes.sort_unstable();
        let mut next = vec![0; nodes.len() + 1];
        let mut previous = vec![0; nodes.len() + 1];
        let mut last = 0;
        for (_, _, node) in nodes {
            next[last] = node;
            previous[node] = last;
            last = node;
        }
        previous[0] = last;
        Self { next, previous }
    }

    fn first(&self) -> Option<Event> {
        event(self.next[0])
    }

    fn after(&self, event_before: Event) -> Option<Event> {
        event(self.next[node(event_before)])
    }

    fn remove(&mut self, call: usize) {
        for node in [node(Event::Made(call)), node(Event::Returned(call))] {
            let (before, behind) = (self.previous[node], self.next[node]);
            self.next[before] = behind;
            self.previous[behind] = before;
        }
    }

    /// Undoes the latest removal that has not been undone.
    fn put_back(&mut self, call: usize) {
        for node in [node(Event::Returned(call)), node(Event::Made(call))] {
            let (before, behind) = (self.previous[node], self.next[node]);
            self.next[before] = node;
            self.previous[behind] = node;
        }
    }
}

fn node(event: Event) -> usize {
    match event {
        Event::Made(call) => 2 * call + 1,
        Event::Returned(call) => 2 * call + 2,
    }
}

fn event(node: usize) -> Option<Event> {
    match (node.checked_sub(1)?, node % 2) {
        (made, 1) => Some(Event::Made(made / 2)),
        (returned, _) => Some(Event::Returned(returned / 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that is written and read.
    struct Register;

    #[derive(Clone, Copy, Debug)]
    enum Op {
        Write(u32),
        Read,
    }

    impl Model for Register {
        type State = u32;
        type Op = Op;
        type Answer = u32;

        fn initial(&self) -> u32 {
            0
        }

        fn step(&self, state: &u32, op: &Op, answer: &u32) -> Option<u32> {
            match op {
                Op::Write(value) => Some(*value),
                Op::Read => (answer == state).then_some(*state),
            }
        }
    }

    fn call(op: Op, answer: u32, made: u128, returned: u128) -> Call<Op, u32> {
        Call {
            op,
            answer,
            made,
            returned,
        }
    }

    #[test]
    fn calls_that_overlap_may_take_effect_in_either_order() {
        for seen in [0, 1] {
            let history = [call(Op::Write(1), 0, 0, 10), call(Op::Read, seen, 5, 15)];
            check(&Register, &history).unwrap();
        }
    }

    #[test]
    fn a_stale_read_after_the_write_returned_is_found() {
        let history = [call(Op::Write(1), 0, 0, 10), call(Op::Read, 0, 11, 12)];
        let failure = check(&Register, &history).unwrap_err();
        assert_eq!(failure.explained, 1);
        assert!(failure.to_string().contains("Read -> 0"), "{failure}");
    }

    #[test]
    fn time_that_runs_backwards_between_two_readers_is_found() {
        let history = [
            call(Op::Write(1), 0, 0, 100),
            call(Op::Read, 1, 10, 20),
            call(Op::Read, 0, 30, 40),
        ];
        assert!(check(&Register, &history).is_err());
    }

    #[test]
    fn a_wrong_first_choice_is_taken_back() {
        // Only the order 2, 1 explains the reads, though the write of 1 started first.
        let history = [
            call(Op::Write(1), 0, 0, 50),
            call(Op::Write(2), 0, 1, 50),
            call(Op::Read, 2, 10, 20),
            call(Op::Read, 1, 60, 70),
        ];
        check(&Register, &history).unwrap();
    }

    #[test]
    fn nothing_is_explained_by_nothing() {
        check(&Register, &[]).unwrap();
    }

    #[test]
    fn a_recorded_call_has_its_answer_and_its_times() {
        let clock = Clock;
        let first = clock.call(Op::Read, |_| 7);
        let second = clock.call(Op::Read, |_| 8);
        assert_eq!((first.answer, second.answer), (7, 8));
        assert!(first.made <= first.returned && first.returned <= second.made);
    }
}
