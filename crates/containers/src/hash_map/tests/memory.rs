//! The memory of long values, however often they are overwritten.

use pgas_testkit::setting;

use super::concurrent::Random;
use super::*;

const N_KEYS: u64 = 32;

/// Values of the sizes that make blocks of these powers of two.
const BLOCKS: [u64; 4] = [128, 256, 512, 1024];

/// The maximum memory of a rank's values: in every size a block for each key, and for each rank one
/// in flight.
const MOST: u64 = (N_KEYS + 2) * (BLOCKS[0] + BLOCKS[1] + BLOCKS[2] + BLOCKS[3]);

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
