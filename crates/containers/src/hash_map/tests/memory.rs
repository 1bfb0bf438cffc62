//! The memory of long values, however often they are overwritten.

use pgas_am::Wire;
use pgas_am::codec::{Codec, Decoder, Each, Encoder};
use pgas_testkit::setting;

use super::concurrent::Random;
use super::*;
use crate::Error;
use crate::object::Encoded;
use crate::testing::take_symmetric_memory;

const N_KEYS: u64 = 32;

/// Values of the sizes that make blocks of these powers of two.
const BLOCKS: [u64; 4] = [128, 256, 512, 1024];

/// The maximum memory of a rank's values: in every size a block for each key, and for each rank one
/// in flight.
const MOST: u64 = (N_KEYS + 2) * (BLOCKS[0] + BLOCKS[1] + BLOCKS[2] + BLOCKS[3]);

#[test]
fn a_map_without_memory_for_the_reuse_of_slots_is_as_it_was() {
    everywhere(2, |world| {
        let map = map::<u64, u64>(&world, 64);
        map.insert(&u64::from(world.rank().number()), 7).unwrap();
        let taken = take_symmetric_memory(&world);
        let refused = map.reuse_slots().map(drop).unwrap_err();
        assert!(matches!(refused.error, Error::Exhausted(_)), "{refused}");
        let map = refused.container;
        drop(taken);
        assert_eq!((map.len().unwrap(), map.find(&1).unwrap()), (2, Some(7)));
        let map = map.reuse_slots().unwrap();
        assert_eq!(map.find(&0).unwrap(), Some(7));
        world.barrier().unwrap();
    });
}

fn overwrite(world: &World, n: u64) {
    let used = || world.local_heap_use().used;
    let before = used();
    let map = map::<u64, String>(world, 64);
    let mut random = Random(u64::from(world.rank().number()) << 32);
    for i in 0..n {
        let key = random.below(N_KEYS);
        let value = "x".repeat(usize::try_from(64 + random.below(700)).unwrap());
        match random.below(16) {
            0 => drop(map.remove(&key).unwrap()),
            1 => drop(map.upsert(&key, value.clone(), |_| value.clone()).unwrap()),
            2 => drop(map.update(&key, |_| value.clone()).unwrap()),
            3 => drop(map.find(&key).unwrap()),
            _ => drop(map.insert(&key, value).unwrap()),
        }
        let now = used() - before;
        assert!(now <= MOST, "{now} of {MOST} bytes after {i} of {n}");
    }
    world.barrier().unwrap();
    drop(map);
    world.barrier().unwrap();
    world.reclaim().unwrap();
    assert_eq!(used(), before);
}

/// With 10000000 in `PGAS_TEST_OVERWRITES` in a minute.
#[test]
fn memory_stays_flat_while_all_ranks_overwrite_and_remove_long_values() {
    let n = setting("PGAS_TEST_OVERWRITES", 10_000);
    let mut config = Config::default();
    config.segment_bytes = Some(16 << 20);
    let body = |world: World| overwrite(&world, n / 2);
    pgas_smp::threads_with(2, &config, body).unwrap();
}

/// What a container keeps for its later values is there for others where memory is short.
#[test]
fn a_map_that_was_emptied_leaves_its_memory_to_others() {
    let mut config = Config::default();
    config.segment_bytes = Some(4 << 20);
    let body = |world: World| {
        let [full, other] = [(), ()].map(|()| map::<u64, Vec<u8>>(&world, 1 << 12));
        let value = || vec![1; 3000];
        let keys = || (0..).map(|n| (n << 8) + u64::from(world.rank().number()));
        let n = keys().take_while(|key| full.insert(key, value()).is_ok());
        let n = n.count();
        assert!(n > 200, "{n}");
        world.barrier().unwrap();
        // The other rank's values: it gets them back by its list.
        let others = keys().take(n).map(|key| key ^ 1);
        others.for_each(|key| assert!(full.remove(&key).unwrap()));
        world.barrier().unwrap();
        for key in keys().take(n) {
            other.insert(&key, value()).unwrap();
        }
        world.barrier().unwrap();
        keys()
            .take(n)
            .for_each(|key| drop(other.take(&key).unwrap()));
        assert!(world.alloc::<u8>(1 << 20).is_ok());
    };
    pgas_smp::threads_with(2, &config, body).unwrap();
}

/// A batch prepares the entries behind a refused one, too.
#[test]
fn a_batch_that_is_refused_leaves_nothing_of_the_entries_behind() {
    everywhere(1, |world| {
        let used = || world.local_heap_use().used;
        let map = map::<String, Text>(&world, 8);
        let n = usize::try_from(map.capacity()).unwrap();
        let key = |i: usize| format!("{i:.<200}");
        let entry = |i: usize| (key(i), Text("x".repeat(300)));
        let all: Vec<_> = (0..n + 60).map(entry).collect();
        for (key, value) in &all[..n] {
            map.insert(key, value.clone()).unwrap();
        }
        assert_eq!(map.insert_many(&all).unwrap_err().done, n);
        let before = used();
        for _ in 0..20 {
            let full = map.insert_many(&all).unwrap_err();
            assert!(matches!(full.error, Error::Full { .. }) && full.done == n);
            let mut refused: Vec<_> = (0..n).map(entry).collect();
            refused[3].1.0.clear();
            let error = map.insert_many(&refused).unwrap_err();
            assert!(matches!(error.error, Error::Codec(_)) && error.done == 3);
        }
        // In each of both sizes a block of an entry in flight.
        assert!(used() <= before + 2 * 64 * 512, "{} and {before}", used());
        let after_some = used();
        for _ in 0..20 {
            map.insert_many(&all).unwrap_err();
        }
        assert_eq!(used(), after_some);
        assert_eq!(map.len().unwrap(), n as u64);
    });
}

/// A text that is written if it is not empty.
#[derive(Clone)]
struct Text(String);

enum NotEmpty {}

impl Codec<Text> for NotEmpty {
    type Array<const N: usize> = Each<Self>;

    fn encode(value: &Text, out: &mut Encoder) -> crate::Result<()> {
        assert!(!value.0.is_empty(), "nothing to write");
        out.put(&value.0)
    }

    fn decode(input: &mut Decoder<'_>) -> crate::Result<Text> {
        input.get().map(Text)
    }
}

impl Wire for Text {
    type By = NotEmpty;
}

impl Object for Text {
    type Repr = Encoded<28>;
}

/// Values that are there once, and one more of them.
#[test]
fn a_batch_needs_no_more_memory_than_its_entries_one_by_one() {
    let mut config = Config::default();
    config.segment_bytes = Some(2 << 20);
    loopback::run_with(1, &config, |world| {
        let map = map::<u64, Vec<u8>>(&world, 100);
        let n = (0..).take_while(|key| map.insert(key, vec![1; 30_000]).is_ok());
        let n = n.count() as u64;
        assert!((10..60).contains(&n), "{n}");
        map.remove(&0).unwrap();
        let entries: Vec<_> = (1..n).map(|key| (key, vec![2; 30_000])).collect();
        for (key, value) in &entries {
            map.insert(key, value.clone()).unwrap();
        }
        assert_eq!(map.insert_many(&entries).unwrap(), 0);
        assert!(
            matches!(map.insert_many(&[(0, vec![3; 30_000]), (n, vec![3; 30_000])]),
            Err(error) if error.done == 1)
        );
    });
}
