//! The prices of the containers' methods in every phase, counted, in one table:
//! `cargo test -p pgas-containers --test integration prices -- --nocapture` prints it. The third
//! column is the cost in BCL (Brock, Buluç, Yelick, "BCL: A Cross-Platform Distributed Data
//! Structures Library", 2019, tables 2 to 4).

use std::cell::RefCell;

use pgas_containers::array::Distribution;
use pgas_containers::hash_map::{Combine, FindOnly};
use pgas_containers::{
    Array, BloomFilter, CircularQueue, DArray, DMatrix, FastQueue, HashMap, HashSet, MultiMap,
    prices,
};
use pgas_core::backend::loopback;
use pgas_core::stats::{Operation, Price};
use pgas_core::{Config, Rank, Statistics, World};

/// Atomics, reads and writes.
type Counts = [u64; 3];

const fn text(price: Counts) -> Price {
    Price::new("", price)
}

struct Table<'a> {
    world: &'a World,
    /// The operations and cases that were counted.
    done: RefCell<Vec<(&'static str, &'static str)>>,
}

impl Table<'_> {
    /// A row of the table: `run` performs `operation` on one element, and its cost must be that of
    /// the table of prices for the case `when`.
    #[track_caller]
    fn row<T>(&self, operation: &'static Operation, when: &'static str, run: impl FnOnce() -> T) {
        self.compared(operation, when, None, run);
    }

    /// As [`row`](Self::row), with BCL's cost.
    #[expect(clippy::print_stdout, reason = "the table is there to be read")]
    #[track_caller]
    fn compared<T>(
        &self,
        operation: &'static Operation,
        when: &'static str,
        bcl: impl Into<Option<Counts>>,
        run: impl FnOnce() -> T,
    ) {
        let (before, bcl) = (self.world.costs(), bcl.into());
        run();
        let costs = self.world.costs() - before;
        let name = format!("{} {when}", operation.name());
        assert_eq!(
            (costs.barriers, costs.messages),
            (0, 0),
            "{name} is one-sided"
        );
        let counted = [costs.atomics, costs.reads, costs.writes];
        let theirs = bcl.map_or(String::new(), |bcl| text(bcl).letters());
        println!("{name:<44} {:<12} {theirs}", text(counted).letters());
        let mut prices = operation.prices().iter();
        let documented = prices.find(|price| price.when == when).unwrap();
        let documented = [documented.atomics, documented.reads, documented.writes];
        assert_eq!(documented, counted, "{name}");
        let is_cheaper = |bcl: Counts| counted.iter().sum::<u64>() <= bcl.iter().sum();
        assert!(bcl.is_none_or(is_cheaper), "{name} is dearer than BCL's");
        self.done.borrow_mut().push((operation.name(), when));
    }

    /// A row for an operation of the table on this rank's own memory alone.
    #[track_caller]
    fn own<T>(&self, operation: &'static Operation, run: impl FnOnce() -> T) {
        assert_eq!(operation.price(), "ℓ");
        self.local(operation.name(), run);
        self.done.borrow_mut().push((operation.name(), ""));
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
    let (insert, find) = ([2, 0, 1], [2, 1, 0]);
    let map = HashMap::<u64, u64>::with_capacity(table.world, 1 << 12).unwrap();
    table.compared(&prices::HASH_MAP_INSERT, "new", insert, || {
        map.insert(&1, 10).unwrap();
    });
    table.compared(&prices::HASH_MAP_INSERT, "over a word", insert, || {
        map.insert(&1, 11).unwrap();
    });
    table.compared(&prices::HASH_MAP_FIND, "present", find, || {
        map.find(&1).unwrap();
    });
    table.compared(&prices::HASH_MAP_FIND, "absent", find, || {
        map.find(&2).unwrap();
    });
    table.compared(&prices::HASH_MAP_CONTAINS, "present", find, || {
        map.contains(&1).unwrap();
    });
    table.compared(&prices::HASH_MAP_CONTAINS, "absent", find, || {
        map.contains(&2).unwrap();
    });
    table.row(&prices::HASH_MAP_FETCH_ADD, "new", || {
        map.fetch_add(&3, 1).unwrap();
    });
    table.row(&prices::HASH_MAP_FETCH_ADD, "present", || {
        map.fetch_add(&3, 1).unwrap();
    });
    table.row(&prices::HASH_MAP_UPDATE, "a word", || {
        map.update(&3, |n| n + 1).unwrap();
    });
    table.row(&prices::HASH_MAP_UPDATE, "absent", || {
        map.update(&4, |n| n + 1).unwrap();
    });
    table.row(&prices::HASH_MAP_GET_OR_INSERT, "present", || {
        map.get_or_insert(&3, 1).unwrap();
    });
    table.row(&prices::HASH_MAP_GET_OR_INSERT, "new", || {
        map.get_or_insert(&5, 1).unwrap();
    });
    table.row(&prices::HASH_MAP_REMOVE, "present", || {
        map.remove(&3).unwrap();
    });
    table.row(&prices::HASH_MAP_REMOVE, "absent", || {
        map.remove(&7).unwrap();
    });
    map
}

fn wide_values(table: &Table<'_>) {
    let map = HashMap::<u64, [u8; 40]>::with_capacity(table.world, 1 << 12).unwrap();
    map.insert(&1, [1; 40]).unwrap();
    let (insert, update) = (&prices::HASH_MAP_INSERT, &prices::HASH_MAP_UPDATE);
    table.row(insert, "over another value", || {
        map.insert(&1, [2; 40]).unwrap()
    });
    table.row(update, "another value", || {
        map.update(&1, |value| value).unwrap();
    });
    table.row(&prices::HASH_MAP_INSERT_MANY, "over another value", || {
        map.insert_many(&[(1, [3; 40])]).unwrap()
    });
    table.row(&prices::HASH_MAP_UPSERT_MANY, "another value", || {
        map.upsert_many::<Second>(&[(1, [3; 40])]).unwrap()
    });
    table.row(&prices::HASH_MAP_TAKE, "present", || map.take(&1).unwrap());
    table.row(&prices::HASH_MAP_TAKE, "absent", || map.take(&2).unwrap());
}

/// The given value.
enum Second {}

impl<V: Copy> Combine<V> for Second {
    fn combine(_: V, given: &V) -> V {
        *given
    }
}

fn batches(table: &Table<'_>) {
    let map = HashMap::<u64, u64>::with_capacity(table.world, 1 << 12).unwrap();
    let (insert, add) = (&prices::HASH_MAP_INSERT_MANY, &prices::HASH_MAP_ADD_MANY);
    let (find, remove) = (&prices::HASH_MAP_FIND_MANY, &prices::HASH_MAP_REMOVE_MANY);
    let upsert = &prices::HASH_MAP_UPSERT_MANY;
    table.row(insert, "new", || map.insert_many(&[(1, 1)]).unwrap());
    table.row(insert, "over a word", || {
        map.insert_many(&[(1, 2)]).unwrap();
    });
    table.row(find, "present", || map.find_many(&[1]).unwrap());
    table.row(find, "absent", || map.find_many(&[2]).unwrap());
    table.row(add, "new", || map.add_many(&[2], 1).unwrap());
    table.row(add, "present", || map.add_many(&[2], 1).unwrap());
    table.row(upsert, "new", || {
        map.upsert_many::<Second>(&[(3, 1)]).unwrap();
    });
    table.row(upsert, "a word", || {
        map.upsert_many::<Second>(&[(3, 2)]).unwrap();
    });
    table.row(remove, "present", || map.remove_many(&[1]).unwrap());
    table.row(remove, "absent", || map.remove_many(&[4]).unwrap());
}

fn other_phases_of_maps(table: &Table<'_>, map: HashMap<u64, u64>) {
    let map = map.into_insert_phase().unwrap();
    table.compared(&prices::HASH_MAP_INSERT, "new", [2, 0, 1], || {
        map.insert(&4, 10).unwrap();
    });
    let map = map.into_find_phase().unwrap();
    find_phase(table, &map);
    let mut map = map.into_local_phase().unwrap();
    table.local("HashMap, local phase: local_insert", || {
        map.local_insert(&6, &1).unwrap();
    });
    table.local("HashMap, local phase: local_find", || {
        map.local_find(&6).unwrap();
    });
}

fn find_phase(table: &Table<'_>, map: &HashMap<u64, u64, FindOnly>) {
    let find = &prices::HASH_MAP_FIND_ONLY;
    table.compared(find, "", [0, 1, 0], || map.find(&4).unwrap());
    table.compared(find, "", [0, 1, 0], || map.find(&9).unwrap());
    table.row(&prices::HASH_MAP_FIND_ONLY_MANY, "", || {
        map.find_many(&[4]).unwrap();
    });
    table.row(&prices::HASH_MAP_CONTAINS_ONLY, "", || {
        map.contains(&4).unwrap();
    });
}

fn sets(table: &Table<'_>) {
    let set = HashSet::<u64>::with_capacity(table.world, 1 << 12).unwrap();
    table.row(&prices::HASH_MAP_INSERT, "new", || set.insert(&1).unwrap());
    table.row(&prices::HASH_MAP_INSERT, "in a set", || {
        set.insert(&1).unwrap();
    });
    table.row(&prices::HASH_MAP_INSERT_MANY, "in a set", || {
        set.insert_many(&[1]).unwrap();
    });
    table.row(&prices::HASH_MAP_CONTAINS, "present", || {
        set.contains(&1).unwrap();
    });
    let map = HashMap::<u64, ()>::with_capacity(table.world, 1 << 12).unwrap();
    map.insert(&1, ()).unwrap();
    table.row(&prices::HASH_MAP_FIND, "in a set", || map.find(&1).unwrap());
    table.row(&prices::HASH_MAP_FIND_MANY, "in a set", || {
        map.find_many(&[1]).unwrap();
    });
    table.row(&prices::HASH_MAP_GET_OR_INSERT, "in a set", || {
        map.get_or_insert(&1, ()).unwrap();
    });
    table.row(&prices::HASH_MAP_TAKE, "in a set", || map.take(&1).unwrap());
}

fn multi_maps(table: &Table<'_>) {
    let map = MultiMap::<u64, u64>::with_capacity(table.world, 1 << 12).unwrap();
    let extend = &prices::MULTI_MAP_EXTEND;
    table.row(extend, "first", || map.extend([(1, 10)]).unwrap());
    table.row(extend, "further", || map.extend([(1, 11)]).unwrap());
}

fn queues(table: &Table<'_>) {
    let queue = CircularQueue::<u64>::with_capacity(table.world, Rank::ZERO, 32).unwrap();
    queue.push(0).unwrap();
    queue.push(0).unwrap();
    queue.pop().unwrap();
    let (push, pop) = (&prices::QUEUE_PUSH, &prices::QUEUE_POP);
    table.compared(push, "", [2, 0, 1], || queue.push(1).unwrap());
    table.row(&prices::QUEUE_PUSH_SLICE, "", || {
        queue.push_slice(&[2; 9]).unwrap();
    });
    table.compared(pop, "", [2, 1, 0], || queue.pop().unwrap());
    let pop_many = &prices::QUEUE_POP_MANY;
    table.row(pop_many, "after pushes", || queue.pop_many(2).unwrap());
    table.row(pop_many, "", || queue.pop_many(2).unwrap());
    while queue.push(3).is_ok() {}
    table.row(push, "full", || queue.push(4).unwrap_err());
    table.row(&prices::QUEUE_PUSH_SLICE, "full", || {
        queue.push_slice(&[4; 9]).unwrap_err()
    });
    while queue.pop().unwrap().is_some() {}
    table.row(pop, "empty", || queue.pop().unwrap());
    table.row(&prices::QUEUE_POP_MANY, "empty", || {
        queue.pop_many(9).unwrap();
    });
    let queue = queue.into_push_phase().unwrap();
    let (push, pop) = (&prices::QUEUE_PUSH_ONLY, &prices::QUEUE_POP_ONLY);
    table.compared(push, "", [1, 0, 1], || queue.push(1).unwrap());
    let slice = &prices::QUEUE_PUSH_SLICE_ONLY;
    table.row(slice, "", || queue.push_slice(&[1; 9]).unwrap());
    while queue.push(3).is_ok() {}
    table.row(push, "full", || queue.push(4).unwrap_err());
    table.row(slice, "full", || queue.push_slice(&[4; 9]).unwrap_err());
    let queue = queue.into_pop_phase().unwrap();
    table.compared(pop, "", [1, 1, 0], || queue.pop().unwrap());
    table.row(&prices::QUEUE_POP_MANY_ONLY, "", || {
        queue.pop_many(9).unwrap();
    });
    while queue.pop().unwrap().is_some() {}
    table.row(pop, "empty", || queue.pop().unwrap());
    table.row(&prices::QUEUE_POP_MANY_ONLY, "empty", || {
        queue.pop_many(9).unwrap();
    });
    let mut queue = queue.into_local_phase().unwrap();
    table.own(&prices::QUEUE_LOCAL_PUSH, || {
        queue.local_push(1).unwrap();
    });
    table.own(&prices::QUEUE_LOCAL_POP, || queue.local_pop().unwrap());
}

fn fast_queues(table: &Table<'_>) {
    let queue = FastQueue::<u64>::with_capacity(table.world, Rank::ZERO, 1 << 10).unwrap();
    table.compared(&prices::QUEUE_PUSH_ONLY, "", [1, 0, 1], || {
        queue.push(1).unwrap();
    });
    let queue = queue.into_pop_phase().unwrap();
    table.compared(&prices::QUEUE_POP_ONLY, "", [1, 1, 0], || {
        queue.pop().unwrap();
    });
}

fn filters(table: &Table<'_>) {
    let filter = BloomFilter::<u64>::with_rate(table.world, 1000, 0.01).unwrap();
    let (insert, contains) = (&prices::BLOOM_FILTER_INSERT, &prices::BLOOM_FILTER_CONTAINS);
    table.compared(insert, "", [1, 0, 0], || filter.insert(&1).unwrap());
    table.compared(contains, "", [0, 1, 0], || filter.contains(&1).unwrap());
    table.row(&prices::BLOOM_FILTER_INSERT_MANY, "", || {
        filter.insert_many(&[2]).unwrap();
    });
    table.row(&prices::BLOOM_FILTER_CONTAINS_MANY, "", || {
        filter.contains_many(&[2]).unwrap();
    });
}

fn arrays(table: &Table<'_>) {
    let array = DArray::<u64>::new(table.world, 100, Distribution::Cyclic, &0).unwrap();
    table.compared(&prices::DARRAY_PUT, "plain", [0, 0, 1], || {
        array.put(7, &1).unwrap();
    });
    table.compared(&prices::DARRAY_GET, "plain", [0, 1, 0], || {
        array.get(7).unwrap();
    });
    table.row(&prices::DARRAY_GET_MANY, "", || {
        array.get_many(&[7]).unwrap();
    });
    table.row(&prices::DARRAY_PUT_MANY, "", || {
        array.put_many(&[(7, 2)]).unwrap();
    });
    table.row(&prices::DARRAY_ADD_MANY, "", || {
        array.add_many(&[7], 2).unwrap();
    });
    table.row(&prices::DARRAY_GET_RANGE, "", || {
        array.get_range(3..40).unwrap();
    });
    table.row(&prices::DARRAY_PUT_SLICE, "", || {
        array.put_slice(3, &[1; 40]).unwrap();
    });
    let texts = DArray::new(table.world, 10, Distribution::Cyclic, &"a".to_owned()).unwrap();
    texts.put(1, &"b".to_owned()).unwrap();
    table.row(&prices::DARRAY_PUT, "others", || {
        texts.put(1, &"c".to_owned()).unwrap();
    });
    table.row(&prices::DARRAY_GET, "others", || texts.get(1).unwrap());
    let array = Array::<u64>::new(table.world, Rank::ZERO, 100, &0).unwrap();
    table.row(&prices::ARRAY_PUT, "plain", || array.put(7, &1).unwrap());
    table.row(&prices::ARRAY_GET, "plain", || array.get(7).unwrap());
    table.row(&prices::ARRAY_GET_MANY, "", || {
        array.get_many(&[7]).unwrap();
    });
    table.row(&prices::ARRAY_PUT_MANY, "", || {
        array.put_many(&[(7, 2)]).unwrap();
    });
    table.row(&prices::ARRAY_ADD_MANY, "", || {
        array.add_many(&[7], 2).unwrap();
    });
    table.row(&prices::ARRAY_GET_RANGE, "", || {
        array.get_range(3..40).unwrap();
    });
    table.row(&prices::ARRAY_PUT_SLICE, "", || {
        array.put_slice(3, &[1; 40]).unwrap();
    });
    let texts = Array::new(table.world, Rank::ZERO, 10, &"a".to_owned()).unwrap();
    texts.put(1, &"b".to_owned()).unwrap();
    table.row(&prices::ARRAY_PUT, "others", || {
        texts.put(1, &"c".to_owned()).unwrap();
    });
    table.row(&prices::ARRAY_GET, "others", || texts.get(1).unwrap());
    let matrix = DMatrix::new(table.world, [4, 4], [2, 2], 0_u64).unwrap();
    table.row(&prices::DMATRIX_PUT, "", || matrix.put(1, 2, 3).unwrap());
    table.row(&prices::DMATRIX_GET, "", || matrix.get(1, 2).unwrap());
}

#[test]
fn every_method_costs_what_its_documentation_says_and_no_more_than_bcl_s() {
    let mut config = Config::default();
    config.statistics = Statistics::Total;
    loopback::run_with(1, &config, |world| {
        let table = Table {
            world: &world,
            done: RefCell::default(),
        };
        let map = maps(&table);
        wide_values(&table);
        batches(&table);
        other_phases_of_maps(&table, map);
        sets(&table);
        multi_maps(&table);
        queues(&table);
        fast_queues(&table);
        filters(&table);
        arrays(&table);
        let done = table.done.borrow();
        for operation in prices::ALL {
            for price in operation.prices() {
                let case = (operation.name(), price.when);
                assert!(done.contains(&case), "{case:?} was not tried");
            }
        }
    });
}
