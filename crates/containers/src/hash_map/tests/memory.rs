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
