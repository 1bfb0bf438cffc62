//! A program's code that panics within an operation: its element is refused, and all others are
//! there, and counted.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pgas_am::codec::{Codec, Decoder, Each, Encoder, Wire};
use pgas_core::collective::op::Sum;
use pgas_core::{Rank, as_handler};
use pgas_lockfree::slots::SlotMemory as _;
use pgas_lockfree::slots::state::StateWord;

use super::*;
use crate::hash_map::Combine;
use crate::hash_map::reuse::REMOVALS_PER_RECLAIM;
use crate::object::{Encoded, KeyHasher};
use crate::testing::{Unlucky, assert_names_panic, panic_in_round, told_of_a_panic};
use crate::{HashMapBuffer, MultiMap};

/// Checks that the number of keys is that of the entries, and that the map can get another
/// capacity.
fn assert_counted<K: Object, V: Object>(mut map: HashMap<K, V>) {
    let entries = map.local_iter().count() as u64;
    let n = map.team().allreduce(entries, Sum).unwrap();
    assert_eq!(map.len().unwrap(), n);
    map.resize(usize::try_from(2 * n).unwrap() + 10).unwrap();
    assert_eq!(map.len().unwrap(), n);
}

#[test]
fn a_value_whose_codec_panics_costs_no_other_one() {
    everywhere(1, |world| {
        let map = map::<u32, Unlucky>(&world, 100);
        let entries: Vec<_> = (0..20).map(|i| (i, Unlucky(i))).collect();
        let refused = map.insert_many(&entries).unwrap_err();
        assert_names_panic(&refused.error, "unlucky to write");
        let mut before = entries.iter().take(refused.done);
        assert!(before.all(|(key, _)| map.contains(key).unwrap()));
        assert_names_panic(
            &map.insert(&13, Unlucky(13)).unwrap_err(),
            "unlucky to write",
        );
        map.insert_many(&entries[14..]).unwrap();
        assert_names_panic(&map.find(&14).unwrap_err(), "unlucky to read");
        assert_eq!(map.find(&15).unwrap(), Some(Unlucky(15)));
        assert_names_panic(&map.take(&14).unwrap_err(), "unlucky to read");
        assert!(map.remove(&14).unwrap());
        assert_eq!(map.find(&14).unwrap(), None);
        assert_counted(map);
    });
}

#[test]
fn a_value_of_several_whose_codec_panics_costs_no_other_one() {
    everywhere(1, |world| {
        let map = MultiMap::<u32, Unlucky>::with_capacity(&world, 100).unwrap();
        for i in 0..20 {
            if let Err(error) = map.insert(&1, Unlucky(i)) {
                assert_eq!(i, 13);
                assert_names_panic(&error, "unlucky to write");
            }
        }
        assert_eq!((map.count(&1).unwrap(), map.len().unwrap()), (19, 19));
        let removed = map.remove(&1).unwrap_err();
        assert_names_panic(&removed.lost.first, "unlucky to read");
        assert_eq!((removed.taken.len(), removed.lost.n), (18, 1));
        assert_eq!((map.count(&1).unwrap(), map.len().unwrap()), (0, 0));
        drop(map);
        world.reclaim().unwrap();
        assert_eq!(world.local_heap_use().used, 0);
    });
}

/// Panics if the new value is 7.
enum Bomb {}

impl<const N: usize> Combine<[u64; N]> for Bomb {
    fn combine(there: [u64; N], given: &[u64; N]) -> [u64; N] {
        assert!(given[0] != 7, "a bomb");
        std::array::from_fn(|i| there[i] + given[i])
    }
}

fn batches_count_what_they_have_done<const N: usize>(world: &World) {
    let map = map::<u64, [u64; N]>(world, 2000);
    let me = 2000 * u64::from(world.rank().number());
    for at in [0, 1, 63, 64, 300] {
        let key = me + 900 + at;
        map.insert(&key, [1; N]).unwrap();
        let mut batch: Vec<_> = (0..at).map(|i| (me + i, [i; N])).collect();
        batch.retain(|(_, value)| value[0] != 7);
        batch.push((key, [7; N]));
        batch.extend((0..100).map(|i| (me + 400 + i, [1; N])));
        let upsert = || map.upsert_many::<Bomb>(&batch);
        catch_unwind(AssertUnwindSafe(upsert)).unwrap_err();
        assert_eq!(map.find(&key).unwrap(), Some([1; N]));
        world.barrier().unwrap();
    }
    assert_counted(map);
}

#[test]
fn a_batch_that_ends_by_a_panic_counts_what_it_has_done() {
    everywhere(1, |world| {
        batches_count_what_they_have_done::<1>(&world);
        batches_count_what_they_have_done::<3>(&world);
    });
    everywhere_counted(2, |world| batches_count_what_they_have_done::<3>(&world));
}

/// Whether the panic of an action has come in the wait of a batch.
fn panics_in_a_batch(n_rounds: u32) -> bool {
    let mut config = Config::default();
    config.timeout = Some(Duration::from_secs(5));
    let (has_ended, has_panicked) = (AtomicBool::new(false), AtomicBool::new(false));
    let told = loopback::run_with(2, &config, |world| {
        pgas_am::attach(&world).unwrap();
        let map = map::<u64, u64>(&world, 1000);
        world.barrier().unwrap();
        if world.rank() == Rank::ZERO {
            panic_in_round(&world, n_rounds);
            let entries: Vec<_> = (0..64).map(|key| (key, key)).collect();
            let insert = || map.insert_many(&entries);
            let is_panic = catch_unwind(AssertUnwindSafe(insert)).is_err();
            has_panicked.store(is_panic, Ordering::Relaxed);
            if !is_panic {
                let later = || world.wait_for("the action", || Ok(false));
                catch_unwind(AssertUnwindSafe(later)).unwrap_err();
            }
            has_ended.store(true, Ordering::Release);
        } else {
            while !has_ended.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        }
        let found = (0..64).try_for_each(|key| map.find(&key).map(drop));
        let ended = found.and_then(|()| world.barrier());
        ended.map_err(|error| error.to_string())
    });
    let has_panicked = has_panicked.into_inner();
    let text = "rank 0 panicked in a batch on a hash map";
    for told in told {
        match told {
            Ok(()) => assert!(!has_panicked, "slots may be reserved"),
            Err(error) => assert!(has_panicked && error.contains(text), "{error}"),
        }
    }
    has_panicked
}

/// The other rank would wait for the slots that the batch has reserved.
#[test]
#[cfg_attr(
    miri,
    ignore = "the limit holds for the other waits, too, which take Miri longer"
)]
fn a_panic_of_an_action_in_the_wait_of_a_batch_fails_the_job() {
    let n_panics = (1..12).filter(|n| panics_in_a_batch(*n)).count();
    assert!(n_panics > 1, "{n_panics} of 11 came within the batch");
}

/// In a collective call, in which the other rank waits for this one.
#[test]
fn a_panic_in_the_wait_for_operations_in_flight_fails_the_job() {
    let over = loopback::Options::default();
    told_of_a_panic(
        "operations in flight of a hash map",
        (&over, false),
        |world, alone| {
            let map = map::<u64, u64>(world, 60);
            let found = (world.rank() == Rank::ZERO).then(|| {
                let view = map.table.view_remote();
                let hash = view.hash(&7);
                let reserved = StateWord::reserved(hash.fingerprint());
                assert!(view.home(hash).slot.reserve(reserved).unwrap().is_ok());
                map.find_nb(&7).unwrap()
            });
            alone(Box::new(|| drop(map.into_find_phase())));
            drop(found);
        },
    );
}

#[test]
fn a_handler_that_may_not_wait_for_operations_in_flight_fails_no_job() {
    loopback::run(1, |world| {
        pgas_am::attach(&world).unwrap();
        let mut map = map::<u64, u64>(&world, 60);
        map.insert(&1, 1).unwrap();
        let view = map.table.view_remote();
        let hash = view.hash(&7);
        let reserved = StateWord::reserved(hash.fingerprint());
        assert!(view.home(hash).slot.reserve(reserved).unwrap().is_ok());
        let found = map.find_nb(&7).unwrap();
        let refused = as_handler(|| map.clear());
        assert!(matches!(refused, Err(crate::Error::InHandler { .. })));
        world.barrier().unwrap();
        let slot = map.table.view_remote().home(hash).slot;
        slot.swap_state(reserved, StateWord::FREE).unwrap().unwrap();
        assert_eq!(
            (found.wait().unwrap(), map.find(&1).unwrap()),
            (None, Some(1))
        );
    });
}

#[test]
fn a_buffer_counts_what_it_has_inserted_beside_values_that_panic() {
    everywhere(2, |world| {
        let map = map::<u32, Unlucky>(&world, 10);
        let mut buffer = HashMapBuffer::new(map, 10, |_, new| new).unwrap();
        let first = 100 * world.rank().number();
        let mut n = 0;
        for i in first..first + 20 {
            n += u64::from(buffer.insert(i, Unlucky(i)).is_ok());
        }
        let n = world.allreduce(n, Sum).unwrap();
        let told = buffer.flush().is_err();
        let map = buffer.into_map().unwrap();
        // Where it is combined or not, a value is read before it is inserted or when it is found.
        let lost = u64::from(world.allreduce(u64::from(told), u64::max).unwrap() > 0);
        assert_eq!(map.len().unwrap(), n - lost);
        if world.rank() == Rank::ZERO {
            assert_eq!(map.find(&12).unwrap(), Some(Unlucky(12)));
        }
        world.barrier().unwrap();
    });
}

/// Panics at one key, while it is not to be trusted.
struct Moody(Arc<AtomicBool>);

impl KeyHasher for Moody {
    fn hash(&self, bytes: &[u8]) -> u64 {
        let is_bad = bytes == 300_u32.to_ne_bytes() && self.0.load(Ordering::Relaxed);
        assert!(!is_bad, "in a mood");
        RapidHasher.hash(bytes)
    }
}

/// In each way in which a buffer takes entries to their slots.
#[test]
fn a_hasher_that_panics_in_a_flush_costs_no_other_entry() {
    everywhere(2, |world| {
        for panics_here in [true, world.rank() == Rank::ZERO] {
            let is_moody = Arc::new(AtomicBool::new(false));
            let hasher = Moody(Arc::clone(&is_moody));
            let map = HashMap::<u32, u32, _, _>::with_hasher(&world, 1000, hasher).unwrap();
            let mut buffer = HashMapBuffer::new(map, 1000, |there, more| there + more).unwrap();
            for key in 0..400 {
                buffer.insert(key, 1).unwrap();
            }
            world.barrier().unwrap();
            is_moody.store(panics_here, Ordering::Relaxed);
            let flushed = catch_unwind(AssertUnwindSafe(|| buffer.flush()));
            is_moody.store(false, Ordering::Relaxed);
            let n_panics = u64::from(flushed.is_err());
            let n_panics = world.allreduce(n_panics, Sum).unwrap();
            // Where entries are sent, the home rank of the key hashes it in the flush.
            assert!(n_panics > 0 || !panics_here || world.rank() == Rank::ZERO);
            let is_told = !matches!(flushed, Ok(Ok(())));
            assert_eq!(is_told, n_panics > 0);
            let map = buffer.into_map().unwrap();
            for key in (0..400).filter(|key| *key != 300) {
                assert_eq!(map.find(&key).unwrap(), Some(2));
            }
            let there = map.find(&300).unwrap();
            assert_eq!(there.unwrap_or(0) < 2, n_panics > 0, "{there:?}");
            assert_eq!(map.len().unwrap(), 399 + u64::from(there.is_some()));
            world.barrier().unwrap();
        }
    });
}

/// Before they compare what their hashers say.
#[test]
fn a_hasher_that_panics_when_a_map_is_made_fails_the_job() {
    struct Reluctant(bool);

    impl KeyHasher for Reluctant {
        fn hash(&self, bytes: &[u8]) -> u64 {
            assert!(!self.0, "no hash");
            RapidHasher.hash(bytes)
        }
    }

    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    config.timeout = Some(Duration::from_secs(60));
    let told = pgas_smp::threads_with(2, &config, |world| {
        let hasher = Reluctant(world.rank() == Rank::ZERO);
        let make = || HashMap::<u32, u32, _, _>::with_hasher(&world, 100, hasher).map(drop);
        let made = catch_unwind(AssertUnwindSafe(make));
        assert_eq!(made.is_err(), world.rank() == Rank::ZERO);
        let made = made.unwrap_or(Ok(()));
        made.and_then(|()| world.barrier()).unwrap_err().to_string()
    });
    for text in told.unwrap() {
        let of_hasher = "rank 0 panicked in the hasher of a hash map";
        assert!(text.contains(of_hasher), "{text}");
    }
}

thread_local! {
    /// Whether drops of [`Falling`] panic on this thread.
    static DO_FALL: Cell<bool> = const { Cell::new(false) };
}

/// A number whose drop may panic.
struct Falling(u32);

impl Drop for Falling {
    fn drop(&mut self) {
        assert!(!DO_FALL.get(), "falls");
    }
}

enum ByFall {}

impl Wire for Falling {
    type By = ByFall;
}

impl Object for Falling {
    type Repr = Encoded<8>;
}

impl Codec<Falling> for ByFall {
    type Array<const N: usize> = Each<Self>;

    fn encode(value: &Falling, out: &mut Encoder) -> pgas_core::Result<()> {
        out.put(&value.0)
    }

    fn decode(input: &mut Decoder<'_>) -> pgas_core::Result<Falling> {
        input.get().map(Falling)
    }
}

/// Inserts a value whose drop panics, in the ways that do not wait.
fn insert_falling(map: &HashMap<u32, Falling>, first: u32) {
    DO_FALL.set(true);
    let insert = || map.insert_nb(&first, Falling(1))?.wait().map(drop);
    let ended = catch_unwind(AssertUnwindSafe(insert));
    let has_ended = matches!(ended, Ok(Ok(())));
    let insert = || map.insert_if_absent_nb(&(first + 1), Falling(2))?.wait();
    let ended = catch_unwind(AssertUnwindSafe(insert));
    let have_ended = [has_ended, matches!(ended, Ok(Ok(None)))];
    DO_FALL.set(false);
    assert_eq!(have_ended, [false; 2], "nobody was told of the panic");
}

#[test]
fn a_key_whose_value_panics_when_it_is_dropped_is_counted() {
    let body = |world: World| {
        let map = map::<u32, Falling>(&world, 100);
        let reusing = self::map::<u32, Falling>(&world, 100)
            .reuse_slots()
            .unwrap();
        for map in [map, reusing] {
            for rank in world.ranks() {
                if rank == world.rank() {
                    insert_falling(&map, 10 * rank.number());
                }
                world.barrier().unwrap();
            }
            assert_eq!(map.len().unwrap(), 2 * u64::from(world.n_ranks()));
            assert_counted(map);
        }
    };
    everywhere(2, body);
    everywhere_counted(2, body);
}

/// In each way in which a map reaches its slots.
#[test]
fn a_hasher_that_panics_leaves_no_long_value_behind() {
    everywhere(1, |world| {
        for is_reused in [false, true] {
            let hasher = Moody(Arc::new(true.into()));
            let map = HashMap::<u32, String, _, _>::with_hasher(&world, 100, hasher).unwrap();
            let map = if is_reused {
                map.reuse_slots().unwrap()
            } else {
                map
            };
            let used = world.local_heap_use().used;
            let insert = || map.insert(&300, "long ".repeat(100));
            let panicked = catch_unwind(AssertUnwindSafe(insert));
            assert!(panicked.is_err());
            assert_eq!(world.local_heap_use().used, used);
            map.table.shape.hasher.0.store(false, Ordering::Relaxed);
            insert().unwrap();
        }
    });
}

/// The one that hashes another key, after the key of the call is gone.
#[test]
fn a_hasher_that_panics_while_slots_are_reclaimed_costs_no_value() {
    everywhere(1, |world| {
        let hasher = Moody(Arc::new(false.into()));
        let map = HashMap::<u32, String, _, _>::with_hasher(&world, 200, hasher).unwrap();
        let map = map.reuse_slots().unwrap();
        map.insert(&300, "three".to_owned()).unwrap();
        let n = u32::try_from(REMOVALS_PER_RECLAIM).unwrap();
        for key in 0..n {
            map.insert(&key, key.to_string()).unwrap();
        }
        map.table.shape.hasher.0.store(true, Ordering::Relaxed);
        for key in 0..n {
            assert_eq!(map.take(&key).unwrap(), Some(key.to_string()));
        }
        map.table.shape.hasher.0.store(false, Ordering::Relaxed);
        assert_eq!(map.find(&300).unwrap().as_deref(), Some("three"));
        assert_eq!(map.len().unwrap(), 1);
    });
}
