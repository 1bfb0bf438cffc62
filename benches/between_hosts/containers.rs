//! Operations of maps and arrays: one at a time, in batches and through buffers. Entries have 16
//! bytes, and half of them belong to the other rank. Pushes and pops all go to the other rank.

use std::hint::black_box;

use pgas_containers::array::Distribution;
use pgas_containers::hash_map::Combine;
use pgas_containers::{CircularQueue, DArray, Distributor, HashMap, HashMapBuffer};
use pgas_core::Rank;

use crate::measure::{Ranks, other};
use crate::parcels::Parcels;

type Map = HashMap<u64, u64>;

pub(crate) fn measure(ranks: &Ranks) {
    single(ranks);
    batches(ranks);
    texts(ranks);
    buffered(ranks);
    distributed(ranks);
    sorted(ranks);
    queues(ranks);
    scattered(ranks);
}

/// A key that no other rank has. Keys of earlier rounds come before those of later ones.
fn key(ranks: &Ranks, round: usize, n: usize, i: usize) -> u64 {
    let number = (round * n + i) as u64 * 2 + u64::from(ranks.world.rank().number());
    // The multiplier is odd, so keys stay distinct.
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// One of the two ranks, each equally often.
fn home(key: u64) -> usize {
    (key >> 40) as usize % 2
}

fn keys(ranks: &Ranks, round: usize, n: usize) -> Vec<u64> {
    (0..n).map(|i| key(ranks, round, n, i)).collect()
}

fn entries(ranks: &Ranks, round: usize, n: usize) -> Vec<(u64, u64)> {
    let keys = keys(ranks, round, n);
    keys.into_iter().map(|key| (key, !key)).collect()
}

/// A map with room for `n` new entries of each rank in each round, and as much free space.
fn map(ranks: &Ranks, n: usize) -> Map {
    let n_entries = 2 * n * ranks.n_rounds();
    Map::with_capacity(&ranks.world, 2 * n_entries).expect("room")
}

/// The floor is a request to the other rank and its answer, with the sizes of key and value, for
/// half of the operations.
fn single(ranks: &Ranks) {
    let n = ranks.times(1000);
    let ask = |_| ranks.comm.requests::<3, 2>(n / 2);
    let rows = ["insert", "find", "fetch_add", "find in the find phase"];
    if !rows.iter().any(|name| ranks.are_asked_for(name)) {
        return;
    }
    // Also has room for the keys that are found, so that it is half full at the end.
    let map = map(ranks, 2 * n);
    for round in 0..ranks.n_rounds() {
        // Keys for finds are inserted even if inserts are not measured.
        map.insert_many(&entries(ranks, round, n)).expect("room");
    }
    let n_old = ranks.n_rounds();
    let new = |round| keys(ranks, n_old + round, n).into_iter();
    let old = |round| keys(ranks, round, n).into_iter();
    ranks.compare("insert", n, ask, |round| {
        for key in new(round) {
            map.insert(&key, !key).expect("room");
        }
    });
    ranks.compare("find", n, ask, |round| {
        old(round).for_each(|key| assert_eq!(map.find(&key).expect("no error"), Some(!key)));
    });
    ranks.compare("fetch_add", n, ask, |round| {
        for key in old(round) {
            black_box(map.fetch_add(&key, 0).expect("no error"));
        }
    });
    let map = map.into_find_phase().expect("the other rank lives");
    ranks.compare("find in the find phase", n, ask, |round| {
        old(round).for_each(|key| assert_eq!(map.find(&key).expect("no error"), Some(!key)));
    });
    map.into_atomic_phase().expect("the other rank lives");
}

/// The floor packs the data by rank, and moves it and the answers by all-to-all exchanges: one word
/// for each inserted entry, and the value of each key.
fn batches(ranks: &Ranks) {
    let rows = [
        "insert_many",
        "find_many",
        "add_many",
        "upsert_many",
        "remove_many",
        "find_many in the find phase",
    ];
    if !rows.iter().any(|name| ranks.are_asked_for(name)) {
        return;
    }
    for n in [1 << 10, 1 << 13] {
        let n = ranks.times(n);
        let map = map(ranks, n);
        let changed = |round| ask_with_entries(ranks, round, n);
        ranks.compare("insert_many", n, changed, |round| {
            let entries = entries(ranks, round, n);
            assert_eq!(map.insert_many(&entries).expect("room"), n);
        });
        for round in 0..ranks.n_rounds() {
            map.insert_many(&entries(ranks, round, n)).expect("room");
        }
        let floor = |round| {
            let keys = keys(ranks, round, n).into_iter();
            let keys: Vec<_> = keys.map(|key| [key]).collect();
            ask(ranks, &keys, |n_words| n_words);
        };
        let check = |values: Vec<Option<u64>>, round| {
            let mut both = values.into_iter().zip(keys(ranks, round, n));
            assert!(both.all(|(value, key)| value == Some(!key)));
        };
        ranks.compare("find_many", n, floor, |round| {
            check(map.find_many(&keys(ranks, round, n)).expect("all"), round);
        });
        ranks.compare("add_many", n, floor, |round| {
            map.add_many(&keys(ranks, round, n), 0).expect("room");
        });
        ranks.compare("upsert_many", n, changed, |round| {
            let entries = entries(ranks, round, n);
            assert_eq!(map.upsert_many::<Larger>(&entries).expect("room"), 0);
        });
        let map = map.into_find_phase().expect("the other rank lives");
        ranks.compare("find_many in the find phase", n, floor, |round| {
            check(map.find_many(&keys(ranks, round, n)).expect("all"), round);
        });
        let map = map.into_atomic_phase().expect("the other rank lives");
        ranks.compare("remove_many", n, floor, |round| {
            let keys = keys(ranks, round, n);
            assert_eq!(map.remove_many(&keys).expect("no error"), n);
        });
    }
}

/// Counts of texts, whose slots may point to longer ones. The floor is that of words, with four for
/// the text.
fn texts(ranks: &Ranks) {
    let rows = [
        "fetch_add of a text",
        "find of a text",
        "add_many of texts",
        "find_many of texts",
    ];
    if !rows.iter().any(|name| ranks.are_asked_for(name)) {
        return;
    }
    let (n, n_rounds) = (ranks.times(1000), ranks.n_rounds());
    let map = HashMap::<String, u64>::with_capacity(&ranks.world, 4 * n * n_rounds).expect("room");
    let text = |key: &u64| format!("the number {key:020}");
    let texts = |round| -> Vec<String> { keys(ranks, round, n).iter().map(text).collect() };
    let texts: Vec<Vec<String>> = (0..n_rounds).map(texts).collect();
    for of_round in &texts {
        map.add_many(of_round, 1).expect("room");
    }
    let ask_one = |_| ranks.comm.requests::<5, 2>(n / 2);
    ranks.compare(rows[0], n, ask_one, |round| {
        for text in &texts[round] {
            black_box(map.fetch_add(text, 0).expect("no error"));
        }
    });
    ranks.compare(rows[1], n, ask_one, |round| {
        for text in &texts[round] {
            assert_eq!(map.find(text).expect("no error"), Some(1));
        }
    });
    let ask_all = |round| {
        let keys = keys(ranks, round, n).into_iter();
        let keys: Vec<_> = keys.map(|key| [key; 4]).collect();
        ask(ranks, &keys, |n_words| n_words / 4);
    };
    ranks.compare(rows[2], n, ask_all, |round| {
        map.add_many(&texts[round], 0).expect("room");
    });
    ranks.compare(rows[3], n, ask_all, |round| {
        let found = map.find_many(&texts[round]).expect("no error");
        assert!(found.iter().all(|count| *count == Some(1)));
    });
}

/// As for operations that change entries: entries are sent, and a word returns for each.
fn ask_with_entries(ranks: &Ranks, round: usize, n: usize) {
    let entries = entries(ranks, round, n).into_iter();
    let pairs: Vec<_> = entries.map(|(key, value)| [key, value]).collect();
    ask(ranks, &pairs, |n_words| n_words / 2);
}

enum Larger {}

impl Combine<u64> for Larger {
    fn combine(there: u64, given: &u64) -> u64 {
        there.max(*given)
    }
}

fn ask<const N: usize>(ranks: &Ranks, items: &[[u64; N]], words_back: fn(usize) -> usize) {
    let parcels = Parcels::pack(2, items, |words| home(words[0]));
    let answers = parcels.exchange(&ranks.comm).answers(words_back);
    black_box(answers.exchange(&ranks.comm));
}

/// The floor packs the entries by rank, and moves them by an all-to-all exchange.
fn one_way(ranks: &Ranks, round: usize, n: usize) {
    let keys = keys(ranks, round, n).into_iter();
    let items: Vec<_> = keys.map(|key| [key, 1]).collect();
    let parcels = Parcels::pack(2, &items, |[key, _]| home(*key));
    black_box(parcels.exchange(&ranks.comm));
}

fn buffered(ranks: &Ranks) {
    const NAME: &str = "HashMapBuffer, insert and flush";
    if !ranks.are_asked_for(NAME) {
        return;
    }
    for n in [1 << 13, 1 << 16] {
        let n = ranks.times(n);
        let mut buffer = HashMapBuffer::new(map(ranks, n), n, |old, new| old + new).expect("room");
        ranks.compare(
            NAME,
            n,
            |round| one_way(ranks, round, n),
            |round| {
                for key in keys(ranks, round, n) {
                    buffer.insert(key, 1).expect("room");
                }
                buffer.flush().expect("room");
            },
        );
        buffer.into_map().expect("room");
    }
}

fn distributed(ranks: &Ranks) {
    const NAME: &str = "Distributor, send and finish";
    if !ranks.are_asked_for(NAME) {
        return;
    }
    for n in [1 << 13, 1 << 17] {
        let n = ranks.times(n);
        ranks.compare(
            NAME,
            n,
            |round| one_way(ranks, round, n),
            |round| {
                let mut distributor =
                    Distributor::with_capacity(&ranks.world, 1 << 15).expect("room");
                for key in keys(ranks, round, n) {
                    let to = Rank::new(u32::try_from(home(key)).expect("0 or 1"));
                    distributor.send(to, [key, 1]).expect("room");
                }
                black_box(distributor.finish().expect("the other rank lives"));
            },
        );
    }
}

/// Keys alone, as many as a sort moves at once.
fn sorted(ranks: &Ranks) {
    const NAME: &str = "Distributor, the exchange of isx";
    if !ranks.are_asked_for(NAME) {
        return;
    }
    let n = ranks.times(1 << 21);
    let keys: Vec<_> = keys(ranks, 0, n).into_iter().map(|key| [key]).collect();
    ranks.compare(
        NAME,
        n,
        |_| {
            let parcels = Parcels::pack(2, &keys, |[key]| home(*key));
            black_box(parcels.exchange(&ranks.comm));
        },
        |_| {
            let mut distributor = Distributor::with_capacity(&ranks.world, 1 << 20).expect("room");
            for [key] in &keys {
                let to = Rank::new(u32::try_from(home(*key)).expect("0 or 1"));
                distributor.send(to, *key).expect("room");
            }
            black_box(distributor.finish().expect("the other rank lives"));
        },
    );
}

/// Each rank pushes to the other rank's queue, and pops from it. The floor is a request to the
/// other rank and its answer; the elements are in the request for pushes, and in the answer for
/// pops.
fn queues(ranks: &Ranks) {
    let rows = ["push", "pop", "push_slice of 64", "pop_many of 64"];
    if !rows.iter().any(|name| ranks.are_asked_for(name)) {
        return;
    }
    const MANY: usize = 64;
    let n = ranks.times(1000);
    let hosts = [0, 1].map(Rank::new);
    let room = 2 * ranks.n_rounds() * n * MANY;
    let queue = |host| CircularQueue::<u64>::with_capacity(&ranks.world, host, room).expect("room");
    let queues = hosts.map(queue);
    let queue = &queues[other(&ranks.world).index()];
    let each = |_| ranks.comm.requests::<3, 2>(n);
    ranks.compare("push", n, each, |_| {
        (0..n as u64).for_each(|i| queue.push(i).expect("room"));
    });
    // Elements for pops are pushed even if pushes are not measured.
    let there = queue.len().expect("the other rank lives");
    for _ in there..n * ranks.n_rounds() {
        queue.push(1).expect("room");
    }
    ranks.compare("pop", n, each, |_| {
        for _ in 0..n {
            assert!(queue.pop().expect("no error").is_some());
        }
    });
    let to = |_| ranks.comm.requests::<{ MANY + 3 }, 2>(n);
    ranks.compare("push_slice of 64", n, to, |_| {
        (0..n).for_each(|_| queue.push_slice(&[1; MANY]).expect("room"));
    });
    while queue.len().expect("the other rank lives") < n * ranks.n_rounds() * MANY {
        queue.push_slice(&[1; MANY]).expect("room");
    }
    let from = |_| ranks.comm.requests::<3, { MANY + 2 }>(n);
    ranks.compare("pop_many of 64", n, from, |_| {
        for _ in 0..n {
            assert_eq!(queue.pop_many(MANY).expect("no error").len(), MANY);
        }
    });
}

/// The floor packs indices by rank, and moves them and the answers by all-to-all exchanges.
fn scattered(ranks: &Ranks) {
    let rows = ["DArray, get_many", "DArray, put_many", "DArray, add_many"];
    if !rows.iter().any(|name| ranks.are_asked_for(name)) {
        return;
    }
    const LEN: u64 = 1 << 16;
    let (world, len) = (&ranks.world, usize::try_from(LEN).expect("2^16"));
    let array = DArray::new(world, len, Distribution::Block, &0_u64).expect("room");
    for n in [1 << 10, 1 << 13] {
        let n = ranks.times(n);
        let indices = |round| -> Vec<usize> {
            let keys = keys(ranks, round, n).into_iter();
            // In the half of the key's home rank.
            keys.map(|key| usize::try_from(key >> 40 & 1).expect("a bit") * (len / 2) + place(key))
                .collect()
        };
        let floor = |round| {
            let keys = keys(ranks, round, n).into_iter();
            let keys: Vec<_> = keys.map(|key| [key]).collect();
            ask(ranks, &keys, |n_words| n_words);
        };
        ranks.compare("DArray, get_many", n, floor, |round| {
            black_box(array.get_many(&indices(round)).expect("no error"));
        });
        ranks.compare("DArray, add_many", n, floor, |round| {
            array.add_many(&indices(round), 1).expect("no error");
        });
        let pairs = |round| {
            let keys = keys(ranks, round, n).into_iter();
            let pairs: Vec<_> = keys.map(|key| [key, 1]).collect();
            ask(ranks, &pairs, |n_words| n_words / 2);
        };
        ranks.compare("DArray, put_many", n, pairs, |round| {
            let elements: Vec<_> = indices(round).into_iter().map(|i| (i, 1)).collect();
            array.put_many(&elements).expect("no error");
        });
    }
}

/// An index in one rank's half of an array of 2^16.
fn place(key: u64) -> usize {
    usize::try_from(key & 0x7fff).expect("15 bits")
}
