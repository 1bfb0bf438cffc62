//! Recorded histories of concurrent operations, checked for linearizability.

use std::collections::VecDeque;
use std::sync::Mutex;

use pgas_testkit::linearizability::{self, Call, Clock, Model};

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Push(Vec<u64>),
    Pop(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Pushed(bool),
    Popped(Vec<u64>),
}

/// A queue with a limit.
struct Limited {
    capacity: usize,
}

impl Model for Limited {
    type State = VecDeque<u64>;
    type Op = Op;
    type Answer = Answer;

    fn initial(&self) -> VecDeque<u64> {
        VecDeque::new()
    }

    fn step(&self, state: &VecDeque<u64>, op: &Op, answer: &Answer) -> Option<VecDeque<u64>> {
        let mut next = state.clone();
        match (op, answer) {
            (Op::Push(values), Answer::Pushed(pushed)) => {
                if *pushed != (state.len() + values.len() <= self.capacity) {
                    return None;
                }
                if *pushed {
                    next.extend(values);
                }
            }
            // As many as are published, which may be fewer than are there, but never none.
            (Op::Pop(most), Answer::Popped(values)) => {
                let fits = values.len() <= *most && values.is_empty() == state.is_empty();
                let taken: Vec<u64> = next.drain(..values.len().min(state.len())).collect();
                if !fits || taken != *values {
                    return None;
                }
            }
            _ => return None,
        }
        Some(next)
    }
}

fn record(
    queue: &CircularQueue<u64>,
    clock: Clock,
    random: &mut Random,
    n: usize,
) -> Vec<Call<Op, Answer>> {
    let call = |_| {
        let op = match random.below(6) {
            0 | 1 => Op::Push(vec![random.next()]),
            2 => Op::Push((0..1 + random.below(3)).map(|_| random.next()).collect()),
            3 | 4 => Op::Pop(1),
            _ => Op::Pop(3),
        };
        clock.call(op, |op| match op {
            Op::Push(values) if values.len() == 1 => Answer::Pushed(queue.push(values[0]).is_ok()),
            Op::Push(values) => Answer::Pushed(queue.push_slice(values).is_ok()),
            Op::Pop(1) => Answer::Popped(queue.pop().unwrap().into_iter().collect()),
            Op::Pop(most) => Answer::Popped(queue.pop_many(*most).unwrap()),
        })
    };
    (0..n).map(call).collect()
}

fn check(n_ranks: u32, rounds: u64, seed: u64) {
    let clock = Clock::default();
    let history = Mutex::new(Vec::new());
    everywhere(n_ranks, |world| {
        let mut random = Random(seed + (u64::from(world.rank().number()) << 32));
        for round in 0..rounds {
            let capacity = usize::try_from(1 + round % 6).unwrap();
            let first = FIRST_TICKETS[usize::try_from(round % 4).unwrap()];
            let host = Rank::new(u32::try_from(round).unwrap() % n_ranks);
            let queue = CircularQueue::starting_at(&world, host, capacity, first).unwrap();
            let calls = record(&queue, clock, &mut random, 8);
            history.lock().unwrap().extend(calls);
            world.barrier().unwrap();
            if world.rank() == Rank::ZERO {
                let history = std::mem::take(&mut *history.lock().unwrap());
                linearizability::check(&Limited { capacity }, &history)
                    .unwrap_or_else(|error| panic!("{error}"));
            }
            world.barrier().unwrap();
        }
    });
}

#[test]
fn histories_of_two_ranks_are_linearizable() {
    check(2, 120, 1);
}

#[test]
fn histories_of_four_ranks_are_linearizable() {
    check(4, 60, 2);
}
