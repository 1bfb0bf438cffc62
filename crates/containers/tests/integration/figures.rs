//! The statistics of containers' operations.

use std::sync::atomic::{AtomicU32, Ordering};

use pgas_containers::{Array, BloomFilter, CircularQueue, HashMap};
use pgas_core::backend::loopback;
use pgas_core::{Config, Rank, Statistics, World};

/// The number in a line of the statistics.
fn number(line: &str, field: &str) -> u64 {
    let (_, rest) = line.split_once(&format!("\"{field}\":")).unwrap();
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap();
    rest[..end].parse().unwrap()
}

/// Operations of both ranks.
fn work(world: &World) {
    let queue = CircularQueue::<u64>::with_capacity(world, Rank::ZERO, 8).unwrap();
    let map = HashMap::<u64, u64>::with_capacity(world, 1 << 12).unwrap();
    let filter = BloomFilter::<u64>::with_rate(world, 100, 0.01).unwrap();
    let array = Array::<u64>::new(world, Rank::ZERO, 10, &0).unwrap();
    if world.rank() == Rank::new(1) {
        let n_pushed = (0..12).filter(|i| queue.push(*i).is_ok()).count();
        assert_eq!(n_pushed, 8);
        let entries: Vec<(u64, u64)> = (0..50).map(|i| (i, i)).collect();
        map.insert_many(&entries).unwrap();
        assert_eq!(map.find(&1000).unwrap(), None);
        for item in 0..100 {
            filter.insert(&item).unwrap();
        }
        array.get(3).unwrap();
        // Operations of threads whose price is not known are counted, too.
        std::thread::scope(|scope| scope.spawn(|| map.find(&7).unwrap()).join().unwrap());
    }
    let queue = queue.into_pop_phase().unwrap();
    let mut queue = queue.into_local_phase().unwrap();
    if world.rank() == Rank::ZERO {
        while queue.local_pop().unwrap().is_some() {}
        let n_pushed = (0..10).filter(|i| queue.local_push(*i).is_ok()).count();
        assert_eq!(n_pushed, 8);
    }
}

/// The statistics of a job over the reference transport.
fn statistics(n_ranks: u32, work: impl Fn(&World) + Sync) -> String {
    static N: AtomicU32 = AtomicU32::new(0);
    let n = N.fetch_add(1, Ordering::Relaxed);
    let name = format!("pgas-prices-{}-{n}.json", std::process::id());
    let file = std::env::temp_dir().join(name);
    let mut config = Config::default();
    config.statistics = Statistics::Total;
    config.statistics_file = Some(file.display().to_string());
    loopback::run_with(n_ranks, &config, |world| work(&world));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    text
}

/// The part of the statistics from the row of this operation on.
fn row<'a>(text: &'a str, name: &str) -> &'a str {
    let at = text.find(&format!("{{\"name\":\"{name}\""));
    &text[at.unwrap_or_else(|| panic!("{name}: {text}"))..]
}

#[test]
fn operations_in_flight_pay_for_themselves_and_not_for_those_that_wait_meanwhile() {
    let text = statistics(1, |world| {
        pgas_am::attach(world).unwrap();
        let queue = CircularQueue::<u64>::with_capacity(world, Rank::ZERO, 8).unwrap();
        let map = HashMap::<u64, u64>::with_capacity(world, 1 << 12).unwrap();
        let inserted = (0..9).map(|key| map.insert_nb(&key, key).unwrap());
        let inserted: Vec<_> = inserted.collect();
        queue.push(7).unwrap();
        for inserted in inserted {
            inserted.wait().unwrap();
        }
        let found: Vec<_> = (0..10).map(|key| map.find_nb(&key).unwrap()).collect();
        let updated = map.update_nb(&3, |n| n + 1).unwrap();
        queue.push(8).unwrap();
        for found in found {
            found.wait().unwrap();
        }
        assert_eq!(updated.wait().unwrap(), Some(3));
    });
    let figures = |name: &str| {
        let fields = ["calls", "missed", "priced", "atomics", "gets", "puts"];
        fields.map(|field| number(row(&text, name), field))
    };
    assert_eq!(figures("Queue::push (push and pop)"), [2, 0, 2, 4, 0, 2]);
    assert_eq!(figures("HashMap::insert"), [9, 9, 9, 18, 0, 9]);
    assert_eq!(figures("HashMap::find"), [10, 1, 10, 19, 9, 0]);
    assert_eq!(number(row(&text, "HashMap::update"), "calls"), 1);
}

#[test]
fn the_statistics_tell_what_operations_paid_how_many_failed_and_how_full_containers_were() {
    let text = statistics(2, work);
    let line = |name: &str| row(&text, name).lines().next().unwrap();
    let figures = |name: &str| {
        let fields = ["elements", "missed", "priced", "atomics", "gets", "puts"];
        fields.map(|field| number(line(name), field))
    };
    // Eight pay 2A + W, four 2A.
    let push = line("Queue::push (push and pop)");
    assert_eq!(figures("Queue::push (push and pop)"), [12, 4, 12, 24, 0, 8]);
    assert!(
        push.contains("\"missed_as\":\"met a full queue\""),
        "{push}"
    );
    assert!(
        push.contains("\"documented\":\"2A + W, 2A full; or M\""),
        "{push}"
    );
    assert_eq!(number(push, "most_permille"), 1000, "{push}");
    let [n, n_new, priced, atomics, _, puts] = figures("HashMap::insert_many");
    assert_eq!((n, n_new, priced, puts), (50, 50, 50, 50));
    assert!((100..110).contains(&atomics), "2A for each: {atomics}");
    assert_eq!(number(line("HashMap::insert_many"), "calls"), 1);
    assert_eq!(figures("HashMap::find"), [2, 1, 1, 1, 0, 0]);
    assert_eq!(figures("Array::get"), [1, 0, 1, 0, 1, 0]);
    assert_eq!(figures("Queue::local_pop"), [9, 1, 9, 0, 0, 0]);
    assert_eq!(figures("Queue::local_push"), [10, 2, 10, 0, 0, 0]);
    let [n, _, _, atomics, ..] = figures("BloomFilter::insert");
    assert_eq!((n, atomics), (100, 100));
    let mean = number(line("BloomFilter::insert"), "mean_permille");
    // It is half full in the end, and was empty at first.
    assert!((150..400).contains(&mean), "{mean}");
}
