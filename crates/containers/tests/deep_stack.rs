//! Large values in a stack of the usual size, also in a build without optimization, which gives each copy a place of its own.

#![expect(clippy::unwrap_used, reason = "a failed operation fails the test")]

use pgas_containers::HashMap;
use pgas_containers::hash_map::Inserted;
use pgas_core::Config;

const BYTES: usize = 1 << 16;

/// That of the main thread of a program under Linux.
const STACK: usize = 8 << 20;

fn on_a_usual_stack(body: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        thread.spawn_scoped(scope, body).unwrap().join().unwrap();
    });
}

fn value(byte: u8) -> [u8; BYTES] {
    [byte; BYTES]
}

/// Each of these has its own values on its own part of the stack.
type Step = fn(&Map, &u64);
type Map = HashMap<u64, [u8; BYTES]>;

const STEPS: [Step; 7] = [
    |map, key| assert_eq!(map.insert(key, value(1)).unwrap(), Inserted::New),
    |map, key| assert_eq!(map.insert(key, value(2)).unwrap(), Inserted::Replaced),
    |map, key| assert!(map.find(key).unwrap() == Some(value(2))),
    |map, key| assert!(map.update(key, next).unwrap() == Some(value(2))),
    |map, key| assert!(map.upsert(key, value(0), next).unwrap() == Some(value(3))),
    |map, key| assert!(map.remove(key).unwrap()),
    |map, key| assert!(map.get_or_insert(key, value(7)).unwrap() == value(7)),
];

fn next(former: [u8; BYTES]) -> [u8; BYTES] {
    value(former[0] + 1)
}

#[test]
fn values_of_64_kib_fit_the_stack_of_a_main_thread_many_times_over() {
    let mut config = Config::default();
    config.segment_bytes = Some(16 << 20);
    for direct in [true, false] {
        config.direct = direct;
        let ended = pgas_smp::threads_with(2, &config, |world| {
            let map = Map::with_capacity(&world, 16).unwrap();
            let me = u64::from(world.rank().number());
            for step in STEPS {
                on_a_usual_stack(|| step(&map, &me));
            }
            world.barrier().unwrap();
        });
        assert_eq!(ended.unwrap().len(), 2);
    }
}
