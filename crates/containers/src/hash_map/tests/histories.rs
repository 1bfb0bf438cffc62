//! Recorded histories of concurrent operations, checked for linearizability key by key.
//!
//! The map is linearizable if each key is, since linearizability is a local property and no
//! operation touches two keys.

use pgas_am::PgasFuture;
use pgas_testkit::linearizability::{self, Call, Clock, Model};

use super::concurrent::Random;
use super::*;
use crate::hash_map::Inserted;
use crate::testing::{gather, over_histories_of_processes};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Op {
    Insert(u64),
    Find,
    Contains,
    Add(u64),
    Double,
    GetOrInsert(u64),
    Upsert(u64),
    Remove,
    Take,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Answer {
    Value(Option<u64>),
    There(bool),
}

/// The model of one entry.
struct Entry;

impl Model for Entry {
    type State = Option<u64>;
    type Op = Op;
    type Answer = Answer;

    fn initial(&self) -> Option<u64> {
        None
    }

    fn step(&self, state: &Option<u64>, op: &Op, answer: &Answer) -> Option<Option<u64>> {
        let state = *state;
        let (expected, next) = match *op {
            Op::Insert(value) => (Answer::There(state.is_some()), Some(value)),
            Op::Find => (Answer::Value(state), state),
            Op::Contains => (Answer::There(state.is_some()), state),
            Op::Add(n) => {
                let former = state.unwrap_or(0);
                (Answer::Value(Some(former)), Some(former.wrapping_add(n)))
            }
            Op::Double => (Answer::Value(state), state.map(double)),
            Op::GetOrInsert(value) => {
                let there = state.unwrap_or(value);
                (Answer::Value(Some(there)), Some(there))
            }
            Op::Upsert(value) => {
                let next = state.map_or(value, double);
                (Answer::Value(state), Some(next))
            }
            Op::Remove => (Answer::There(state.is_some()), None),
            Op::Take => (Answer::Value(state), None),
        };
        (expected == *answer).then_some(next)
    }
}

fn double(value: u64) -> u64 {
    value.wrapping_mul(2).wrapping_add(1)
}

/// A map of values of some type, seen as numbers.
trait Numbers: Sync {
    fn perform(&self, key: u64, op: Op) -> Answer;
}

impl<K: Object + From<u64>> Numbers for HashMap<K, u64> {
    fn perform(&self, key: u64, op: Op) -> Answer {
        let key = K::from(key);
        match op {
            Op::Insert(value) => was_there(self.insert(&key, value).unwrap()),
            Op::Find => Answer::Value(self.find(&key).unwrap()),
            Op::Contains => Answer::There(self.contains(&key).unwrap()),
            Op::Add(n) => Answer::Value(Some(self.fetch_add(&key, n).unwrap())),
            Op::Double => Answer::Value(self.update(&key, double).unwrap()),
            Op::GetOrInsert(value) => Answer::Value(Some(self.get_or_insert(&key, value).unwrap())),
            Op::Upsert(value) => Answer::Value(self.upsert(&key, value, double).unwrap()),
            Op::Remove => Answer::There(removed(self, &key)),
            Op::Take => unreachable!("a word is not taken"),
        }
    }
}

/// A map whose operations are performed in flight.
struct InFlight<'a, V: Object>(&'a HashMap<u64, V>);

impl Numbers for InFlight<'_, u64> {
    fn perform(&self, key: u64, op: Op) -> Answer {
        let key = &key;
        match op {
            Op::Insert(value) => was_there(ended(self.0.insert_nb(key, value))),
            Op::Find => Answer::Value(ended(self.0.find_nb(key))),
            Op::Contains => Answer::There(ended(self.0.contains_nb(key))),
            Op::Add(n) => Answer::Value(Some(ended(self.0.fetch_add_nb(key, n)))),
            Op::Double => Answer::Value(ended(self.0.update_nb(key, double))),
            Op::GetOrInsert(value) => {
                let there = ended(self.0.insert_if_absent_nb(key, value));
                Answer::Value(Some(there.unwrap_or(value)))
            }
            Op::Remove => Answer::There(ended(self.0.remove_nb(key))),
            Op::Upsert(_) | Op::Take => self.0.perform(*key, op),
        }
    }
}

impl Numbers for InFlight<'_, Wide> {
    fn perform(&self, key: u64, op: Op) -> Answer {
        let key = &key;
        match op {
            Op::Insert(value) => was_there(ended(self.0.insert_nb(key, [value; 5]))),
            Op::Find => Answer::Value(ended(self.0.find_nb(key)).map(number)),
            Op::Contains => Answer::There(ended(self.0.contains_nb(key))),
            Op::Double | Op::Add(_) => {
                let former = self.0.update_nb(key, |value| [double(number(value)); 5]);
                Answer::Value(ended(former).map(number))
            }
            Op::GetOrInsert(value) => {
                let there = ended(self.0.insert_if_absent_nb(key, [value; 5]));
                Answer::Value(Some(there.map_or(value, number)))
            }
            Op::Remove => Answer::There(ended(self.0.remove_nb(key))),
            Op::Upsert(_) | Op::Take => self.0.perform(*key, op),
        }
    }
}

fn ended<T: Send>(begun: crate::Result<PgasFuture<T>>) -> T {
    begun.unwrap().wait().unwrap()
}

type Wide = [u64; 5];

fn number(value: Wide) -> u64 {
    assert_eq!(value, [value[0]; 5], "torn");
    value[0]
}

impl Numbers for HashMap<u64, Wide> {
    fn perform(&self, key: u64, op: Op) -> Answer {
        match op {
            Op::Insert(value) => was_there(self.insert(&key, [value; 5]).unwrap()),
            Op::Find => Answer::Value(self.find(&key).unwrap().map(number)),
            Op::Contains => Answer::There(self.contains(&key).unwrap()),
            Op::Double | Op::Add(_) => {
                let former = self.update(&key, |value| [double(number(value)); 5]);
                Answer::Value(former.unwrap().map(number))
            }
            Op::GetOrInsert(value) => {
                Answer::Value(Some(number(self.get_or_insert(&key, [value; 5]).unwrap())))
            }
            Op::Upsert(value) => {
                let former = self.upsert(&key, [value; 5], |value| [double(number(value)); 5]);
                Answer::Value(former.unwrap().map(number))
            }
            Op::Remove => Answer::There(removed(self, &key)),
            Op::Take => Answer::Value(taken(self, &key).map(number)),
        }
    }
}

/// Removes a key, and empties slots if they are used again.
fn removed<K: Object, V: Object>(map: &HashMap<K, V>, key: &K) -> bool {
    let was_there = map.remove(key).unwrap();
    reclaim_some(map);
    was_there
}

/// As [`removed`], with the value.
fn taken<K: Object, V: Object>(map: &HashMap<K, V>, key: &K) -> Option<V> {
    let value = map.take(key).unwrap();
    reclaim_some(map);
    value
}

fn was_there(inserted: Inserted) -> Answer {
    Answer::There(inserted == Inserted::Replaced)
}

/// Numbers as texts, some of which are longer than a slot.
impl Numbers for HashMap<String, String> {
    fn perform(&self, key: u64, op: Op) -> Answer {
        let text = |value: u64| {
            let times = usize::try_from(value % 5).unwrap();
            format!("{value:020} ").repeat(1 + times)
        };
        let number = |text: String| {
            let numbers: Vec<u64> = text.split(' ').filter_map(|n| n.parse().ok()).collect();
            assert!(numbers.iter().all(|&n| n == numbers[0]), "torn: {text}");
            assert_eq!(numbers.len() as u64, 1 + numbers[0] % 5, "torn: {text}");
            numbers[0]
        };
        let key = &text(key);
        match op {
            Op::Insert(value) => was_there(self.insert(key, text(value)).unwrap()),
            Op::Find => Answer::Value(self.find(key).unwrap().map(number)),
            Op::Contains => Answer::There(self.contains(key).unwrap()),
            Op::Double | Op::Add(_) => {
                let former = self.update(key, |value| text(double(number(value))));
                Answer::Value(former.unwrap().map(number))
            }
            Op::GetOrInsert(value) => {
                let there = self.get_or_insert(key, text(value)).unwrap();
                Answer::Value(Some(number(there)))
            }
            Op::Upsert(value) => {
                let combine = |value| text(double(number(value)));
                let former = self.upsert(key, text(value), combine).unwrap();
                Answer::Value(former.map(number))
            }
            Op::Remove => Answer::There(removed(self, key)),
            Op::Take => Answer::Value(taken(self, key).map(number)),
        }
    }
}

/// A key, a call for it, its answer, and the times of the call and of the return.
type Record = (u64, Op, Answer, u128, u128);

/// Calls of one rank in one round.
const N_CALLS: u64 = 12;

/// Performs and records one round of a rank, on unused keys.
fn record(map: &dyn Numbers, keys: &[u64], random: &mut Random, is_word: bool) -> Vec<Record> {
    let mut calls = Vec::new();
    for _ in 0..N_CALLS {
        let key = keys[usize::try_from(random.below(keys.len() as u64)).unwrap()];
        let op = match random.below(10) {
            0 | 1 => Op::Find,
            6 => Op::Upsert(random.next()),
            7 | 8 => Op::Remove,
            2 => Op::Insert(random.next()),
            3 => Op::Contains,
            4 => Op::Double,
            5 => Op::GetOrInsert(random.next()),
            _ if is_word => Op::Add(random.below(100)),
            _ => Op::Take,
        };
        let call = Clock.call(op, |op| map.perform(key, *op));
        calls.push((key, call.op, call.answer, call.made, call.returned));
    }
    calls
}

/// The number of maps.
const N_MAPS: u64 = 4;

/// Rounds of calls by all ranks to the maps, each checked by rank 0.
fn check(world: &World, rounds: u64, seed: u64) {
    // Three slots share a cache line, and three of four are taken in the end.
    let words = map::<u64, u64>(world, usize::try_from(4 * rounds).unwrap());
    // Slots that stand alone.
    let alone = map::<u128, u64>(world, 4096);
    let wide = map::<u64, Wide>(world, 4096);
    let text = map::<String, String>(world, 4096);
    let mut random = Random((u64::from(world.rank().number()) << 32) + seed);
    for round in 0..rounds {
        let keys = [3 * round, 3 * round + 1, 3 * round + 2];
        for (map, is_word) in [
            (&words as &dyn Numbers, true),
            (&alone, true),
            (&wide, false),
            (&text, false),
        ] {
            world.barrier().unwrap();
            let calls = record(map, &keys, &mut random, is_word);
            if let Some(calls) = gather(world, &calls) {
                explain(&calls, &keys);
            }
        }
    }
    world.barrier().unwrap();
}

/// As [`check`], where some calls do not wait.
fn check_in_flight(world: &World, rounds: u64, seed: u64) {
    pgas_am::attach(world).unwrap();
    let words = map::<u64, u64>(world, usize::try_from(4 * rounds).unwrap());
    let wide = map::<u64, Wide>(world, 4096);
    let mut random = Random((u64::from(world.rank().number()) << 32) + seed);
    for round in 0..rounds {
        let keys = [3 * round, 3 * round + 1, 3 * round + 2];
        let (few, many): ([&dyn Numbers; 2], [&dyn Numbers; 2]) =
            ([&words, &wide], [&InFlight(&words), &InFlight(&wide)]);
        for (i, is_word) in [(0, true), (1, false)] {
            world.barrier().unwrap();
            let map = if random.below(3) == 0 {
                few[i]
            } else {
                many[i]
            };
            let calls = record(map, &keys, &mut random, is_word);
            if let Some(calls) = gather(world, &calls) {
                explain(&calls, &keys);
            }
        }
    }
    world.barrier().unwrap();
}

/// As [`check`], on small maps where slots are used again. All keys have one home slot, so they
/// come to slots that others had. Each removal looks for slots to empty.
fn check_reuse(world: &World, rounds: u64, seed: u64) {
    let words = map::<u64, u64>(world, 8).reuse_slots().unwrap();
    let alone = map::<u128, u64>(world, 8).reuse_slots().unwrap();
    let wide = map::<u64, Wide>(world, 8).reuse_slots().unwrap();
    let text = map::<String, String>(world, 8).reuse_slots().unwrap();
    let mut random = Random((u64::from(world.rank().number()) << 32) + seed);
    for round in 0..rounds {
        let first = usize::try_from(round % 2).unwrap();
        let keys = &colliding_keys()[3 * first..][..3];
        for (map, is_word) in [
            (&words as &dyn Numbers, true),
            (&alone, true),
            (&wide, false),
            (&text, false),
        ] {
            world.barrier().unwrap();
            let calls = record(map, keys, &mut random, is_word);
            if let Some(calls) = gather(world, &calls) {
                explain(&calls, keys);
                for &key in keys {
                    map.perform(key, Op::Remove);
                }
            }
        }
    }
    world.barrier().unwrap();
}

/// Checks the calls on each key.
fn explain(calls: &[Record], keys: &[u64]) {
    for key in keys {
        let of_key = calls.iter().filter(|record| record.0 == *key);
        let call = |&(_, op, answer, made, returned): &Record| Call {
            op,
            answer,
            made,
            returned,
        };
        let history: Vec<_> = of_key.map(call).collect();
        linearizability::check(&Entry, &history).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn histories_of_two_ranks_are_linearizable() {
    everywhere(2, |world| check(&world, 115, 0));
}

#[test]
fn histories_of_four_ranks_are_linearizable() {
    everywhere(4, |world| check(&world, 45, 0));
}

#[test]
fn histories_of_operations_in_flight_and_of_others_are_linearizable() {
    everywhere(3, |world| check_in_flight(&world, 60, 0));
}

#[test]
fn histories_of_ranks_that_use_slots_again_are_linearizable() {
    for (n_ranks, n_rounds) in [(2, 115), (4, 45)] {
        let body = |world: World| check_reuse(&world, n_rounds, 0);
        pgas_smp::threads_with(n_ranks, &Config::default(), body).unwrap();
    }
}

#[test]
fn histories_of_processes_that_use_slots_again_are_linearizable() {
    let name =
        "hash_map::tests::histories::histories_of_processes_that_use_slots_again_are_linearizable";
    over_histories_of_processes(name, |world, n_operations, seed| {
        let n_ranks = u64::from(world.n_ranks());
        let n_rounds = n_operations.div_ceil(N_MAPS * N_CALLS * n_ranks);
        check_reuse(world, n_rounds, seed);
    });
}

#[test]
fn histories_of_processes_are_linearizable() {
    let name = "hash_map::tests::histories::histories_of_processes_are_linearizable";
    over_histories_of_processes(name, |world, n_operations, seed| {
        let n_ranks = u64::from(world.n_ranks());
        check(
            world,
            n_operations.div_ceil(N_MAPS * N_CALLS * n_ranks),
            seed,
        );
    });
}
