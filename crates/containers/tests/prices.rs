//! The prices of the containers' methods in every phase, counted, in one table:
//! `cargo test -p pgas-containers --test prices -- --nocapture` prints it. The third column is what
//! BCL asks for the same (Brock, Buluç, Yelick, "BCL: A Cross-Platform Distributed Data Structures
//! Library", 2019, tables 2 to 4).

#![expect(clippy::unwrap_used, reason = "a failed operation fails the test")]

use pgas_containers::array::Distribution;
use pgas_containers::{BloomFilter, CircularQueue, DArray, FastQueue, HashMap, HashSet};
use pgas_core::backend::loopback;
use pgas_core::{Config, Rank, Statistics, World};

/// Reads, writes and atomics.
type Price = [u64; 3];

const R: Price = [1, 0, 0];
const W: Price = [0, 1, 0];

const fn price(reads: u64, writes: u64, atomics: u64) -> Price {
    [reads, writes, atomics]
}

fn text([reads, writes, atomics]: Price) -> String {
    let part = |n: u64, letter| match n {
        0 => None,
        1 => Some(format!("{letter}")),
        n => Some(format!("{n}{letter}")),
    };
    let parts = [part(atomics, 'A'), part(reads, 'R'), part(writes, 'W')];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        "ℓ".to_owned()
    } else {
        parts.join(" + ")
    }
}

struct Table<'a> {
    world: &'a World,
}

impl Table<'_> {
    /// A row of the table: what `operation` costs, which is `expected`, and what BCL asks for it.
    #[expect(clippy::print_stdout, reason = "the table is there to be read")]
    #[track_caller]
    fn row<T>(
        &self,
        name: &str,
        bcl: Option<Price>,
        expected: Price,
        operation: impl FnOnce() -> T,
    ) {
        let before = self.world.costs();
        operation();
        let costs = self.world.costs() - before;
        assert_eq!(
            (costs.barriers, costs.messages),
            (0, 0),
            "{name} is one-sided"
        );
        let counted = [costs.reads, costs.writes, costs.atomics];
        let theirs = bcl.map_or(String::new(), text);
        println!("{name:<44} {:<12} {theirs}", text(counted));
        assert_eq!(counted, expected, "{name}");
        let is_cheaper = |bcl: Price| counted.iter().sum::<u64>() <= bcl.iter().sum();
        assert!(bcl.is_none_or(is_cheaper), "{name} is dearer than BCL's");
    }

    /// A row for an operation on this rank's own memory alone, without atomics.
    #[expect(clippy::print_stdout, reason = "the table is there to be read")]
    #[track_caller]
    fn local<T>(&self, name: &str, operation: impl FnOnce() -> T) {
        let before = self.world.costs();
        operation();
        let costs = self.world.costs() - before;
        let others = (costs.atomics, costs.barriers, costs.messages);
        assert_eq!(others, (0, 0, 0), "{name} is local");
        println!("{name:<44} {:<12} ℓ", "ℓ");
    }
}

fn maps(table: &Table<'_>) -> HashMap<u64, u64> {
    let insert = Some(price(0, 1, 2));
    let find = Some(price(1, 0, 2));
    let map = HashMap::<u64, u64>::with_capacity(table.world, 1 << 12).unwrap();
    table.row(
        "HashMap, atomic: insert, new",
        insert,
        price(0, 1, 2),
        || map.insert(&1, 10).unwrap(),
    );
    table.row(
        "HashMap, atomic: insert, over",
        insert,
        price(1, 0, 2),
        || map.insert(&1, 11).unwrap(),
    );
    table.row("HashMap, atomic: find", find, price(1, 0, 2), || {
        map.find(&1).unwrap()
    });
    table.row(
        "HashMap, atomic: find, absent",
        find,
        price(0, 0, 1),
        || map.find(&2).unwrap(),
    );
    table.row("HashMap, atomic: contains", find, price(1, 0, 1), || {
        map.contains(&1).unwrap()
    });
    table.row(
        "HashMap, atomic: fetch_add, new",
        None,
        price(0, 1, 2),
        || map.fetch_add(&3, 1).unwrap(),
    );
    table.row("HashMap, atomic: fetch_add", None, price(1, 0, 2), || {
        map.fetch_add(&3, 1).unwrap()
    });
    table.row("HashMap, atomic: update", None, price(1, 0, 3), || {
        map.update(&3, |n| n + 1).unwrap()
    });
    table.row(
        "HashMap, atomic: get_or_insert",
        None,
        price(1, 0, 2),
        || map.get_or_insert(&3, 1).unwrap(),
    );
    table.row("HashMap, atomic: remove", None, price(1, 0, 2), || {
        map.remove(&3).unwrap()
    });
    map
}

fn other_phases_of_maps(table: &Table<'_>, map: HashMap<u64, u64>) {
    let insert = Some(price(0, 1, 2));
    let map = map.into_insert_phase().unwrap();
    table.row(
        "HashMap, insert phase: insert, new",
        insert,
        price(0, 1, 2),
        || map.insert(&4, 10).unwrap(),
    );
    let map = map.into_find_phase().unwrap();
    table.row("HashMap, find phase: find", Some(R), R, || {
        map.find(&4).unwrap()
    });
    table.row("HashMap, find phase: find, absent", Some(R), R, || {
        map.find(&5).unwrap()
    });
    let mut map = map.into_local_phase().unwrap();
    table.local("HashMap, local phase: local_insert", || {
        map.local_insert(&6, &1).unwrap()
    });
    table.local("HashMap, local phase: local_find", || {
        map.local_find(&6).unwrap()
    });
}

fn sets(table: &Table<'_>) {
    let set = HashSet::<u64>::with_capacity(table.world, 1 << 12).unwrap();
    table.row("HashSet, atomic: insert, new", None, price(0, 1, 2), || {
        set.insert(&1).unwrap()
    });
    table.row("HashSet, atomic: contains", None, price(1, 0, 1), || {
        set.contains(&1).unwrap()
    });
}

fn queues(table: &Table<'_>) {
    let queue = CircularQueue::<u64>::with_capacity(table.world, Rank::ZERO, 1 << 10).unwrap();
    queue.push(0).unwrap();
    queue.push(0).unwrap();
    queue.pop().unwrap();
    table.row(
        "CircularQueue, push | pop: push",
        Some(price(0, 1, 2)),
        price(0, 1, 2),
        || queue.push(1).unwrap(),
    );
    table.row(
        "CircularQueue, push | pop: pop",
        Some(price(1, 0, 2)),
        price(1, 0, 2),
        || queue.pop().unwrap(),
    );
    let queue = queue.into_push_phase().unwrap();
    table.row(
        "CircularQueue, push phase: push",
        Some(price(0, 1, 1)),
        price(0, 1, 1),
        || queue.push(1).unwrap(),
    );
    table.row(
        "CircularQueue, push phase: push_slice",
        None,
        price(0, 1, 1),
        || queue.push_slice(&[1; 9]).unwrap(),
    );
    let queue = queue.into_pop_phase().unwrap();
    table.row(
        "CircularQueue, pop phase: pop",
        Some(price(1, 0, 1)),
        price(1, 0, 1),
        || queue.pop().unwrap(),
    );
    table.row(
        "CircularQueue, pop phase: pop_many",
        None,
        price(1, 0, 1),
        || queue.pop_many(9).unwrap(),
    );
    let mut queue = queue.into_local_phase().unwrap();
    table.local("CircularQueue, local phase: local_push", || {
        queue.local_push(1).unwrap();
    });
    table.local("CircularQueue, local phase: local_pop", || {
        queue.local_pop().unwrap()
    });
}

fn fast_queues(table: &Table<'_>) {
    let queue = FastQueue::<u64>::with_capacity(table.world, Rank::ZERO, 1 << 10).unwrap();
    table.row(
        "FastQueue, push phase: push",
        Some(price(0, 1, 1)),
        price(0, 1, 1),
        || queue.push(1).unwrap(),
    );
    let queue = queue.into_pop_phase().unwrap();
    table.row(
        "FastQueue, pop phase: pop",
        Some(price(1, 0, 1)),
        price(1, 0, 1),
        || queue.pop().unwrap(),
    );
}

fn others(table: &Table<'_>) {
    let filter = BloomFilter::<u64>::with_rate(table.world, 1000, 0.01).unwrap();
    table.row(
        "BloomFilter: insert",
        Some(price(0, 0, 1)),
        price(0, 0, 1),
        || filter.insert(&1).unwrap(),
    );
    table.row("BloomFilter: contains", Some(R), R, || {
        filter.contains(&1).unwrap()
    });
    let array = DArray::<u64>::new(table.world, 100, Distribution::Cyclic, &0).unwrap();
    table.row("DArray: put", Some(W), W, || array.put(7, &1).unwrap());
    table.row("DArray: get", Some(R), R, || array.get(7).unwrap());
}

#[test]
fn every_method_costs_what_its_documentation_says_and_no_more_than_bcl_s() {
    let mut config = Config::default();
    config.statistics = Statistics::Total;
    loopback::run_with(1, &config, |world| {
        let table = Table { world: &world };
        let map = maps(&table);
        other_phases_of_maps(&table, map);
        sets(&table);
        queues(&table);
        fast_queues(&table);
        others(&table);
    });
}
