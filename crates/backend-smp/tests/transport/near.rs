//! Blocks that are looked up once, over shared memory.

use std::thread;
use std::time::Duration;

use pgas_core::backend::AtomicOp;
use pgas_core::rma::{Block, Counted, Near};
use pgas_core::stats::{Operation, Price};
use pgas_core::{Config, GlobalPtr, Pod, Rank, Statistics, World};

/// A word, and sixteen bytes.
struct Entry;

impl Block for Entry {
    const BYTES: usize = 24;
    const ALIGN: usize = 8;
}

fn near(world: &World, ptr: GlobalPtr<u64>) -> Option<Near<'_, Entry>> {
    ptr.cast().near::<Entry>(world)
}

#[test]
fn a_near_block_is_the_memory_that_global_pointers_reach() {
    pgas_smp::threads(2, |world| {
        let array = world.alloc_symmetric::<u64>(30).unwrap();
        let other = array.on(Rank::new(1 - world.rank().number())).add(3);
        let entry = near(&world, other).expect("ranks of one host are direct");
        entry.prefetch(0);
        entry.store(8, [7_u64, 8]);
        assert_eq!(other.get_vec(&world, 3).unwrap(), [0, 7, 8]);
        other.put(&world, 5).unwrap();
        assert_eq!(entry.load::<u64>(0), 5);
        assert_eq!(entry.load::<[u32; 4]>(8), [7, 0, 8, 0]);
        assert_eq!(entry.fetch_op(0, AtomicOp::Add, 2_u64), 5);
        assert_eq!(entry.compare_exchange(0, 6_u64, 1), Err(7));
        assert_eq!(entry.compare_exchange(0, 7_u64, 1), Ok(7));
        assert_eq!(entry.fetch_op(12, AtomicOp::Swap, 9_u32), 0);
        assert_eq!(other.get_vec(&world, 3).unwrap(), [1, 7 | 9 << 32, 8]);
        world.barrier().unwrap();
    })
    .unwrap();
}

#[test]
fn an_array_of_near_blocks_reaches_every_rank() {
    pgas_smp::threads(3, |world| {
        let array = world.alloc_symmetric::<u64>(30).unwrap();
        let near = world
            .near_array::<Entry>(array.here().offset_bytes(), 10)
            .expect("ranks of one host are direct");
        if world.rank() == Rank::ZERO {
            for rank in 0..3_u32 {
                for i in 0..10 {
                    let block = near.block(rank as usize, i);
                    block.store(0, [rank.into(), i as u64, 0]);
                    assert!(block == near.block(rank as usize, i));
                    assert!(block != near.block(rank as usize, (i + 1) % 10));
                }
            }
        }
        world.barrier().unwrap();
        let here = array.here().get_vec(&world, 30).unwrap();
        for (i, entry) in here.chunks(3).enumerate() {
            assert_eq!(entry, [world.rank().number().into(), i as u64, 0]);
        }
        let offset = array.here().offset_bytes();
        assert!(world.near_array::<Entry>(offset + 4, 1).is_none());
        assert!(
            world
                .near_array::<Entry>(world.segment_bytes() - 24, 2)
                .is_none()
        );
        assert!(world.near_array::<Entry>(offset, usize::MAX).is_none());
    })
    .unwrap();
}

#[test]
#[should_panic(expected = "no such block")]
fn a_block_behind_the_array_is_refused() {
    pgas_smp::threads(1, |world| {
        let array = world.alloc::<u64>(6).unwrap();
        let near = world.near_array::<Entry>(array.offset_bytes(), 1).unwrap();
        near.block(0, 1).load::<u64>(0)
    })
    .unwrap();
}

#[test]
fn what_is_no_block_is_not_near() {
    pgas_smp::threads(1, |world| {
        let array = world.alloc::<u64>(3).unwrap();
        let (here, end) = (world.rank(), world.segment_bytes());
        assert!(near(&world, array).is_some());
        assert!(near(&world, GlobalPtr::new(here, end - 24)).is_some());
        assert!(near(&world, GlobalPtr::new(here, end - 16)).is_none());
        assert!(near(&world, GlobalPtr::new(Rank::new(1), 4096)).is_none());
        assert!(near(&world, GlobalPtr::NULL).is_none());
        assert!(near(&world, array.byte_add(4)).is_none());
    })
    .unwrap();
}

#[test]
fn only_counted_blocks_are_near_where_operations_are_counted() {
    for statistics in [Statistics::Off, Statistics::Total, Statistics::PerPeer] {
        let mut config = Config::default();
        config.statistics = statistics;
        pgas_smp::threads_with(1, &config, |world| {
            let array = world.alloc::<u64>(3).unwrap();
            let is_total = statistics == Statistics::Total;
            let counted = array.cast().near::<Counted<Entry>>(&world);
            assert_eq!(counted.is_some(), is_total);
            let offset = array.offset_bytes();
            let counted = world.near_array::<Counted<Entry>>(offset, 1);
            assert_eq!(counted.is_some(), is_total);
            let is_plain = statistics == Statistics::Off;
            assert_eq!(near(&world, array).is_some(), is_plain);
            let before = world.costs();
            if let Some(counted) = counted {
                let block = counted.block(0, 0);
                world.count_steps(|| {
                    block.note_write(8);
                    block.store(0, 7_u64);
                });
            }
            let n = u64::from(is_total);
            let costs = world.costs() - before;
            assert_eq!((costs.writes, costs.bytes, costs.reads), (n, 8 * n, 0));
        })
        .unwrap();
    }
}

/// Each rank has counters of one thread, and a thread remembers whose it has used last.
#[test]
fn threads_that_work_for_two_ranks_by_turns_count_for_each() {
    let mut config = Config::default();
    config.statistics = Statistics::Total;
    let work = |worlds: &[&World]| {
        let words = worlds.iter().map(|world| world.alloc::<u64>(1).unwrap());
        let words: Vec<_> = words.collect();
        for i in 0..100 {
            for (world, word) in worlds.iter().zip(&words) {
                word.put(world, i).unwrap();
                word.get(world).unwrap();
                word.fetch_add(world, 1).unwrap();
            }
        }
    };
    let (config, work) = (&config, &work);
    pgas_smp::threads_with(1, config, |outer| {
        work(&[&outer]);
        pgas_smp::threads_with(1, config, |inner| {
            work(&[&outer, &inner]);
            thread::scope(|threads| {
                for _ in 0..2 {
                    threads.spawn(|| work(&[&inner, &outer]));
                }
            });
            for (world, n) in [(&outer, 400), (&inner, 300)] {
                let costs = world.costs();
                assert_eq!((costs.reads, costs.writes, costs.atomics), (n, n, n));
                assert_eq!(costs.bytes, 3 * 8 * n);
            }
        })
        .unwrap();
        work(&[&outer]);
        assert_eq!(outer.costs().bytes, 500 * 3 * 8);
    })
    .unwrap();
}

/// An iterator over near blocks gathers steps while the program performs other operations.
#[test]
fn gathered_steps_are_counted_together_and_for_no_other_operation() {
    static PUSH: Operation = Operation::new("Test::push", &[Price::new("", [0, 1, 0])], "");
    let mut config = Config::default();
    config.statistics = Statistics::Total;
    pgas_smp::threads_with(1, &config, |world| {
        let array = world.alloc::<u64>(3).unwrap();
        let block = array.cast().near::<Counted<Entry>>(&world).unwrap();
        let before = world.costs();
        let costs = || world.costs() - before;
        let mut steps = world.gather_steps();
        for i in 1..=10 {
            steps.of(|| block.note_atomic(8));
            let performing = world.performs(&PUSH, 1);
            world.count_steps(|| block.note_read(8));
            drop(performing);
            assert_eq!((costs().reads, costs().atomics), (i, 0));
        }
        drop(steps);
        assert_eq!(
            (costs().reads, costs().atomics, costs().bytes),
            (10, 10, 160)
        );
        // A step that was noted before an operation stays noted, and is counted once.
        world.count_steps(|| {
            block.note_write(8);
            drop(world.performs(&PUSH, 1));
        });
        assert_eq!(costs().writes, 1);
    })
    .unwrap();
}

#[test]
fn nothing_is_near_where_operations_are_counted_or_the_direct_path_is_off() {
    let mut counted = Config::default();
    counted.statistics = Statistics::Total;
    let mut indirect = Config::default();
    indirect.direct = false;
    for config in [counted, indirect] {
        pgas_smp::threads_with(1, &config, |world| {
            let array = world.alloc::<u64>(3).unwrap();
            assert!(near(&world, array).is_none());
            let offset = array.offset_bytes();
            assert!(world.near_array::<Entry>(offset, 1).is_none());
        })
        .unwrap();
    }
}

/// Accesses to single values of some sizes have counters of their own. Other accesses, and those of
/// other threads or under a name, have none.
#[test]
fn near_operations_of_every_size_are_counted_once_with_their_bytes() {
    fn use_one<T: Pod>(world: &World) -> u64 {
        let one: GlobalPtr<T> = world.alloc(1).unwrap();
        for _ in 0..3 {
            one.put(world, T::new_zeroed()).unwrap();
        }
        one.get(world).unwrap();
        size_of::<T>() as u64
    }
    let all = |world: &World| {
        [
            use_one::<u8>(world),
            use_one::<u16>(world),
            use_one::<u64>(world),
            use_one::<[u64; 2]>(world),
            use_one::<[u8; 24]>(world),
            use_one::<[u64; 16]>(world),
            use_one::<[u64; 32]>(world),
        ]
    };
    for kind in [Statistics::Total, Statistics::PerPeer] {
        let mut config = Config::default();
        config.statistics = kind;
        pgas_smp::threads_with(1, &config, |world| {
            let elsewhere = |world: &World| thread::scope(|s| s.spawn(|| all(world)).join());
            let named = world.named("cells");
            let n_bytes: u64 = all(&world).iter().sum();
            all(&named);
            elsewhere(&world).unwrap();
            let word = world.alloc::<u64>(1).unwrap();
            let narrow = world.alloc::<u32>(1).unwrap();
            for world in [&world, &named] {
                for _ in 0..5 {
                    word.fetch_add(world, 1).unwrap();
                    word.compare_exchange(world, 0, 1).unwrap().unwrap_err();
                    narrow.fetch_add(world, 1).unwrap();
                }
            }
            let costs = world.costs();
            assert_eq!(costs.atomics, 2 * 15, "{costs}");
            assert_eq!((costs.writes, costs.reads), (3 * 3 * 7, 3 * 7), "{costs}");
            let of_atomics = 2 * 5 * (8 + 8 + 4);
            assert_eq!(costs.bytes, 3 * 4 * n_bytes + of_atomics, "{costs}");
            let with_itself = world.costs_with(world.rank());
            assert_eq!(
                with_itself.map(|costs| costs.writes),
                match kind {
                    Statistics::PerPeer => Some(costs.writes),
                    _ => None,
                }
            );
        })
        .unwrap();
    }
}

#[test]
#[should_panic(expected = "outside of its block")]
fn a_part_behind_the_block_is_refused() {
    pgas_smp::threads(1, |world| {
        let array = world.alloc::<u64>(4).unwrap();
        near(&world, array).unwrap().load::<u64>(24)
    })
    .unwrap();
}

#[test]
#[should_panic(expected = "misaligned part")]
fn a_part_that_needs_more_alignment_than_the_block_has_is_refused() {
    pgas_smp::threads(1, |world| {
        let array = world.alloc::<u64>(4).unwrap();
        near(&world, array).unwrap().store(0, 1_u128);
    })
    .unwrap();
}

/// Where one counter counts all operations, without ranks.
#[test]
fn a_wait_for_a_near_signal_costs_one_look_however_long_it_takes() {
    let mut config = Config::default();
    config.statistics = Statistics::Total;
    let counts = pgas_smp::threads_with(2, &config, |world| {
        let words = world.alloc_symmetric::<u64>(2).unwrap();
        world.barrier().unwrap();
        if world.rank() == Rank::ZERO {
            for i in 0..2 {
                thread::sleep(Duration::from_millis(10));
                let word = words.on(Rank::new(1)).add(i);
                word.atomic_store(&world, 7).unwrap();
            }
            return [1, 1];
        }
        [0, 1].map(|i| {
            let (word, before) = (words.here().add(i), world.costs());
            if i == 0 {
                word.wait_until(&world, |n| n == 7).unwrap();
            } else {
                word.wait_until_nb(&world, |n| n == 7).wait().unwrap();
            }
            (world.costs() - before).atomics
        })
    });
    assert_eq!(counts.unwrap(), [[1; 2]; 2]);
}
