//! Large values on a stack of the usual size, also in a build without optimization, which gives
//! each copy a place of its own.

use pgas_containers::array::Distribution;
use pgas_containers::hash_map::Inserted;
use pgas_containers::{
    Array, CircularQueue, DArray, Distributor, HashMap, HashMapBuffer, HashSet, MultiMap,
};
use pgas_core::{Config, Rank, World};

const BYTES: usize = 1 << 16;

/// The size of the main thread's stack under Linux.
const STACK: usize = 8 << 20;

fn on_a_usual_stack(body: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        thread.spawn_scoped(scope, body).unwrap().join().unwrap();
    });
}

type Value = [u8; BYTES];

fn value(byte: u8) -> Value {
    [byte; BYTES]
}

fn next(former: Value) -> Value {
    value(former[0] + 1)
}

/// Each step has its own values on its own part of the stack. Each rank has a number.
fn steps<C: Sync>(container: C, number: usize, steps: &[fn(&C, usize)]) -> C {
    for step in steps {
        on_a_usual_stack(|| step(&container, number));
    }
    container
}

/// Runs `body` as two ranks, with the direct path and without, on threads with a large stack.
fn everywhere(body: fn(&World, usize)) {
    let mut config = Config::default();
    config.segment_bytes = Some(64 << 20);
    for direct in [true, false] {
        config.direct = direct;
        let ended = pgas_smp::threads_with(2, &config, |world| {
            on_a_usual_stack(|| body(&world, world.rank().index()));
        });
        assert_eq!(ended.unwrap().len(), 2);
    }
}

#[test]
fn maps() {
    everywhere(|world, me| {
        let map = HashMap::<usize, Value>::with_capacity(world, 16).unwrap();
        let map = steps(
            map,
            me,
            &[
                |map, key| assert_eq!(map.insert(&key, value(1)).unwrap(), Inserted::New),
                |map, key| assert_eq!(map.insert(&key, value(2)).unwrap(), Inserted::Replaced),
                |map, key| assert!(map.find(&key).unwrap() == Some(value(2))),
                |map, key| assert!(map.update(&key, next).unwrap() == Some(value(2))),
                |map, key| assert!(map.upsert(&key, value(0), next).unwrap() == Some(value(3))),
                |map, key| assert!(map.remove(&key).unwrap()),
                |map, key| assert!(map.get_or_insert(&key, value(7)).unwrap() == value(7)),
                |map, key| assert_eq!(map.insert_many(&[(key, value(8))]).unwrap(), 0),
                |map, key| assert!(map.find_many(&[key, 99]).unwrap() == [Some(value(8)), None]),
            ],
        );
        world.barrier().unwrap();
        let mut buffer = HashMapBuffer::new(map, 4, |_, last| last).unwrap();
        on_a_usual_stack(|| buffer.insert(me, value(9)).unwrap());
        let mut map = buffer.into_map().unwrap().into_local_phase().unwrap();
        assert!(map.local_iter().all(|entry| entry.unwrap().1 == value(9)));
        on_a_usual_stack(|| map.resize(40).unwrap());
        assert_eq!(map.len().unwrap(), 2);
    });
}

#[test]
fn sets_and_multimaps() {
    everywhere(|world, me| {
        let set = HashSet::<Value>::with_capacity(world, 16).unwrap();
        let of = |me: usize| value(u8::try_from(me).unwrap());
        on_a_usual_stack(|| assert!(set.insert(&of(me)).unwrap()));
        on_a_usual_stack(|| assert!(set.contains(&of(me)).unwrap()));
        on_a_usual_stack(|| assert_eq!(set.insert_many(&[of(me)]).unwrap(), 0));
        on_a_usual_stack(|| assert!(set.remove(&of(me)).unwrap()));
        let multi = MultiMap::<usize, Value>::with_capacity(world, 16).unwrap();
        steps(
            multi,
            me,
            &[
                |multi, key| assert_eq!(multi.insert(&key, value(1)).unwrap(), 0),
                |multi, key| assert!(multi.find(&key).unwrap() == [value(1)]),
                |multi, key| assert!(multi.remove(&key).unwrap() == [value(1)]),
            ],
        );
    });
}

#[test]
fn queues_and_distributors() {
    everywhere(|world, _| {
        let queue = CircularQueue::<Value>::with_capacity(world, Rank::ZERO, 8).unwrap();
        on_a_usual_stack(|| queue.push(value(1)).unwrap());
        on_a_usual_stack(|| queue.push_slice(&[value(1)]).unwrap());
        on_a_usual_stack(|| assert!(queue.pop().unwrap() == Some(value(1))));
        on_a_usual_stack(|| assert!(queue.pop_many(1).unwrap() == [value(1)]));
        let mut distributor = Distributor::<Value>::with_capacity(world, 4).unwrap();
        for to in world.ranks() {
            on_a_usual_stack(|| distributor.send(to, value(3)).unwrap());
        }
        on_a_usual_stack(|| assert!(distributor.finish().unwrap() == [value(3); 2]));
    });
}

#[test]
fn arrays() {
    everywhere(|world, me| {
        let hosted = Array::<Value>::new(world, Rank::ZERO, 2, &value(1)).unwrap();
        let spread = DArray::<Value>::new(world, 2, Distribution::Block, &value(1)).unwrap();
        on_a_usual_stack(|| hosted.put(me, &value(2)).unwrap());
        on_a_usual_stack(|| spread.put(1 - me, &value(2)).unwrap());
        world.barrier().unwrap();
        on_a_usual_stack(|| assert!(hosted.get(1 - me).unwrap() == value(2)));
        on_a_usual_stack(|| assert!(spread.get(me).unwrap() == value(2)));
        on_a_usual_stack(|| assert!(spread.get_range(0..2).unwrap() == [value(2); 2]));
    });
}
