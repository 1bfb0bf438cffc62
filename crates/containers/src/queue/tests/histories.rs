//! Recorded histories of concurrent operations, checked for linearizability.

use std::collections::VecDeque;

use pgas_testkit::linearizability::{self, Call, Clock, Model};

use super::*;
use crate::testing::{gather, over_histories_of_processes};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Op {
    Push(Vec<u64>),
    Pop(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
            // It pops all published elements. These may be fewer than are in the queue, but never
            // none.
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

/// A call, its answer, and the times of the call and of the return.
type Record = (Op, Answer, u128, u128);

/// Calls of one rank in one round.
const N_CALLS: u64 = 8;

fn record(queue: &CircularQueue<u64>, random: &mut Random) -> Vec<Record> {
    let call = |_| {
        let op = match random.below(6) {
            0 | 1 => Op::Push(vec![random.next()]),
            2 => Op::Push((0..1 + random.below(3)).map(|_| random.next()).collect()),
            3 | 4 => Op::Pop(1),
            _ => Op::Pop(3),
        };
        let call = Clock.call(op, |op| match op {
            Op::Push(values) if values.len() == 1 => Answer::Pushed(queue.push(values[0]).is_ok()),
            Op::Push(values) => Answer::Pushed(queue.push_slice(values).is_ok()),
            Op::Pop(1) => Answer::Popped(queue.pop().unwrap().into_iter().collect()),
            Op::Pop(most) => Answer::Popped(queue.pop_many(*most).unwrap()),
        });
        (call.op, call.answer, call.made, call.returned)
    };
    (0..N_CALLS).map(call).collect()
}

/// Rounds of calls by all ranks to queues of many capacities and first tickets, each checked by
/// rank 0.
fn check(world: &World, rounds: u64, seed: u64) {
    let n_ranks = world.n_ranks();
    let mut random = Random(seed + (u64::from(world.rank().number()) << 32));
    for round in 0..rounds {
        let capacity = usize::try_from(1 + round % 6).unwrap();
        let first = FIRST_TICKETS[usize::try_from(round % 4).unwrap()];
        let host = Rank::new(u32::try_from(round).unwrap() % n_ranks);
        let queue = CircularQueue::starting_at(world, host, capacity, first).unwrap();
        let calls = record(&queue, &mut random);
        if let Some(calls) = gather(world, &calls) {
            let call = |(op, answer, made, returned)| Call {
                op,
                answer,
                made,
                returned,
            };
            let history: Vec<_> = calls.into_iter().map(call).collect();
            linearizability::check(&Limited { capacity }, &history)
                .unwrap_or_else(|error| panic!("{error}"));
        }
        world.barrier().unwrap();
    }
}

#[test]
fn histories_of_two_ranks_are_linearizable() {
    everywhere(2, |world| check(&world, 120, 1));
}

#[test]
fn histories_of_four_ranks_are_linearizable() {
    everywhere(4, |world| check(&world, 60, 2));
}

#[test]
fn histories_of_processes_are_linearizable() {
    let name = "queue::tests::histories::histories_of_processes_are_linearizable";
    over_histories_of_processes(name, |world, n_operations, seed| {
        let n_ranks = u64::from(world.n_ranks());
        check(world, n_operations.div_ceil(N_CALLS * n_ranks), seed + 3);
    });
}
