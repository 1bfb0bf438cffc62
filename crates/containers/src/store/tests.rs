//! Containers saved by some ranks are loaded by others.

use std::fs;
use std::io::Read as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pgas_core::backend::loopback;
use pgas_core::collective::op::Sum;
use pgas_core::{Config, Rank, World};
use tempfile::tempdir;

use super::{manifest, parts};

use crate::array::Distribution;
use crate::hash_map::{Atomic, RapidHasher};
use crate::object::KeyHasher;
use crate::{
    Array, BloomFilter, CircularQueue, DArray, DMatrix, Error, FastQueue, HashMap, HashSet,
    MultiMap, WideBloomFilter,
};

fn threads(n_ranks: u32, body: impl Fn(World) + Sync) {
    let mut config = Config::default();
    config.segment_bytes = Some(16 << 20);
    pgas_smp::threads_with(n_ranks, &config, &body).unwrap();
}

/// Saves by `n` ranks and loads by `m`, for several of both.
fn by_other_numbers(save: impl Fn(&World, &Path) + Sync, load: impl Fn(&World, &Path) + Sync) {
    for (n, m) in [(1, 3), (3, 1), (2, 2), (4, 3)] {
        let dir = tempdir().unwrap();
        threads(n, |world| save(&world, dir.path()));
        threads(m, |world| load(&world, dir.path()));
    }
}

fn text(i: u64) -> String {
    "text ".repeat(usize::try_from(i % 40).unwrap())
}

#[test]
fn maps_and_sets_are_loaded_by_any_number_of_ranks() {
    by_other_numbers(
        |world, dir| {
            let map = HashMap::<String, u64>::with_capacity(world, 200).unwrap();
            let set = HashSet::<u64>::with_capacity(world, 100).unwrap();
            let multi = MultiMap::<u64, String>::with_capacity(world, 100).unwrap();
            if world.rank() == Rank::ZERO {
                for i in 0..50 {
                    map.insert(&format!("{i} {}", text(i)), i).unwrap();
                    set.insert(&i).unwrap();
                    multi.insert(&(i % 5), text(i)).unwrap();
                }
            }
            map.save(dir.join("map")).unwrap();
            set.save(dir.join("set")).unwrap();
            multi.save(dir.join("multi")).unwrap();
        },
        |world, dir| {
            let map = HashMap::<String, u64>::load(world, dir.join("map")).unwrap();
            let set = HashSet::<u64>::load(world, dir.join("set")).unwrap();
            let multi = MultiMap::<u64, String>::load(world, dir.join("multi")).unwrap();
            for i in 0..50 {
                let key = format!("{i} {}", text(i));
                assert_eq!(map.find(&key).unwrap(), Some(i));
                assert!(set.contains(&i).unwrap());
            }
            let found = multi.find(&3).unwrap();
            let expected: Vec<String> = (0..10).map(|i| text(5 * i + 3)).collect();
            assert_eq!(found, expected);
            assert!(map.capacity() >= 200);
            let sizes = (map.len().unwrap(), set.len().unwrap(), multi.len().unwrap());
            assert_eq!(sizes, (50, 50, 50));
        },
    );
}

#[test]
fn queues_keep_their_order_and_their_elements() {
    by_other_numbers(
        |world, dir| {
            let host = Rank::new(world.n_ranks() - 1);
            let mut queue = CircularQueue::<String>::with_capacity(world, host, 30).unwrap();
            let mut fast = FastQueue::<u64>::with_capacity(world, host, 30).unwrap();
            if world.rank() == Rank::ZERO {
                for i in 0..25 {
                    queue.push(text(i)).unwrap();
                    fast.push(i).unwrap();
                }
                assert_eq!(queue.pop().unwrap(), Some(text(0)));
            }
            queue.save(dir.join("queue")).unwrap();
            fast.save(dir.join("fast")).unwrap();
            assert_eq!(queue.len().unwrap(), 24);
            world.barrier().unwrap();
        },
        |world, dir| {
            let queue = CircularQueue::<String>::load(world, Rank::ZERO, dir.join("queue"));
            let queue = queue.unwrap();
            let fast = FastQueue::<u64>::load(world, Rank::ZERO, dir.join("fast")).unwrap();
            let fast = fast.into_pop_phase().unwrap();
            if world.rank() == Rank::ZERO {
                let texts = queue.pop_many(100).unwrap();
                assert_eq!(texts, (1..25).map(text).collect::<Vec<_>>());
                assert_eq!(fast.pop_many(100).unwrap(), (0..25).collect::<Vec<u64>>());
                assert_eq!(queue.capacity(), 30);
            }
            world.barrier().unwrap();
        },
    );
}

#[test]
fn arrays_and_matrices_are_dealt_out_anew() {
    by_other_numbers(
        |world, dir| {
            let deal = Distribution::BlockCyclic(3);
            let array = DArray::<String>::new(world, 31, deal, &String::new()).unwrap();
            let hosted = Array::<u32>::new(world, Rank::ZERO, 7, &9).unwrap();
            let matrix = DMatrix::<f64>::new(world, [5, 7], [2, 3], 0.5).unwrap();
            if world.rank() == Rank::ZERO {
                for i in 0..30 {
                    array.put(i, &text(i as u64)).unwrap();
                }
                hosted.put(3, &1).unwrap();
                matrix.put(4, 6, 2.0).unwrap();
            }
            array.save(dir.join("array")).unwrap();
            hosted.save(dir.join("hosted")).unwrap();
            matrix.save(dir.join("matrix")).unwrap();
        },
        |world, dir| {
            let deal = Distribution::Block;
            let array = DArray::load(world, dir.join("array"), deal, &String::new()).unwrap();
            for i in 0..30 {
                assert_eq!(array.get(i).unwrap(), text(i as u64));
            }
            assert_eq!((array.len(), array.get(30).unwrap()), (31, String::new()));
            // A hosted array is loaded as a distributed one, and the other way round.
            let dealt = DArray::<u32>::load(world, dir.join("hosted"), deal, &0).unwrap();
            assert_eq!(dealt.get_range(0..7).unwrap(), [9, 9, 9, 1, 9, 9, 9]);
            let hosted = Array::<u32>::load(world, dir.join("hosted"), Rank::ZERO, &0).unwrap();
            assert_eq!(hosted.get_range(0..7).unwrap(), [9, 9, 9, 1, 9, 9, 9]);
            let matrix = DMatrix::<f64>::load(world, dir.join("matrix"), [4, 4]).unwrap();
            assert_eq!(matrix.shape(), [5, 7]);
            assert_eq!(matrix.get_block(4..5, 5..7).unwrap(), [0.5, 2.0]);
            world.barrier().unwrap();
        },
    );
}

/// The files are as they should be, and no error names one of them.
#[test]
fn an_argument_with_which_nothing_can_be_loaded_is_an_error_of_its_own() {
    fn refuse<T>(loaded: crate::Result<T>) {
        let error = loaded.err().unwrap();
        assert!(matches!(error, Error::Argument(_)), "{error}");
    }
    by_other_numbers(
        |world, dir| {
            let array = Array::<u32>::new(world, Rank::ZERO, 7, &9).unwrap();
            array.save(dir.join("array")).unwrap();
            let matrix = DMatrix::<f64>::new(world, [5, 7], [2, 3], 0.5).unwrap();
            matrix.save(dir.join("matrix")).unwrap();
            let mut queue = CircularQueue::<u32>::with_capacity(world, Rank::ZERO, 7).unwrap();
            queue.save(dir.join("queue")).unwrap();
        },
        |world, dir| {
            let (array, nobody) = (dir.join("array"), Rank::new(world.n_ranks()));
            let deal = Distribution::BlockCyclic(0);
            refuse(DArray::<u32>::load(world, &array, deal, &0));
            refuse(Array::<u32>::load(world, &array, nobody, &0));
            refuse(DMatrix::<f64>::load(world, dir.join("matrix"), [0, 4]));
            refuse(CircularQueue::<u32>::load(world, nobody, dir.join("queue")));
            world.barrier().unwrap();
        },
    );
}

/// Whoever looks for the values of a key looks under each of its numbers.
#[test]
fn a_multimap_is_loaded_without_gaps_beyond_its_values() {
    const N: u64 = 1 << 14;
    by_other_numbers(
        |world, dir| {
            let map = MultiMap::<u64, u64>::with_capacity(world, 100).unwrap();
            if world.rank() == Rank::ZERO {
                for value in 0..4 {
                    map.insert(&1, value).unwrap();
                    map.insert(&2, 10 + value).unwrap();
                    map.insert(&3, 20 + value).unwrap();
                    map.leave_gaps(&1, N);
                    map.leave_gaps(&2, N >> value);
                }
                map.remove(&3).unwrap();
                map.insert(&3, 30).unwrap();
            }
            world.barrier().unwrap();
            map.save(dir.join("map")).unwrap();
        },
        |world, dir| {
            let map = MultiMap::<u64, u64>::load(world, dir.join("map")).unwrap();
            assert!(map.n_numbers(&1) <= 9 && map.n_numbers(&2) <= 9);
            assert_eq!(map.n_numbers(&3), 1);
            let found = map.find_many(&[1, 2, 3]).unwrap();
            assert_eq!(found, [vec![0, 1, 2, 3], vec![10, 11, 12, 13], vec![30]]);
            assert_eq!((map.count(&1).unwrap(), map.len().unwrap()), (4, 9));
            world.barrier().unwrap();
            let me = u64::from(world.rank().number());
            map.insert(&1, 100 + me).unwrap();
            world.barrier().unwrap();
            let found = map.find(&1).unwrap();
            assert_eq!(found[..4], [0, 1, 2, 3]);
            assert_eq!(found.len(), 4 + world.n_ranks() as usize);
            world.barrier().unwrap();
        },
    );
}

#[test]
fn filters_find_what_was_inserted_before_they_were_saved() {
    by_other_numbers(
        |world, dir| {
            let words = BloomFilter::<String>::with_rate(world, 300, 0.01).unwrap();
            let lines = WideBloomFilter::<String>::with_rate(world, 300, 0.01).unwrap();
            for i in 0..30 {
                words.insert(&format!("{i}")).unwrap();
                lines.insert(&format!("{i}")).unwrap();
            }
            words.save(dir.join("words")).unwrap();
            lines.save(dir.join("lines")).unwrap();
        },
        |world, dir| {
            let words = BloomFilter::<String>::load(world, dir.join("words")).unwrap();
            let lines = WideBloomFilter::<String>::load(world, dir.join("lines")).unwrap();
            let there = |i: u32| {
                let item = format!("{i}");
                words.contains(&item).unwrap() && lines.contains(&item).unwrap()
            };
            assert!((0..30).all(there));
            assert!((1000..2000).filter(|&i| there(i)).count() < 10);
            world.barrier().unwrap();
        },
    );
}

#[test]
fn what_is_not_what_was_saved_is_an_error_on_every_rank() {
    let dir = tempdir().unwrap();
    let at = dir.path();
    threads(2, |world| {
        let map = HashMap::<u64, u64>::with_capacity(&world, 50).unwrap();
        map.insert(&u64::from(world.rank().number()), 1).unwrap();
        map.save(at).unwrap();
        let text = |error: Error| error.to_string();
        let set = text(HashSet::<u64>::load(&world, at).unwrap_err());
        assert!(set.contains("element") && set.contains("manifest"), "{set}");
        let queue = CircularQueue::<u64>::load(&world, Rank::ZERO, at).unwrap_err();
        assert!(text(queue).contains("kind"));
        let nothing = HashMap::<u64, u64>::load(&world, at.join("nowhere")).unwrap_err();
        assert!(text(nothing).contains("nowhere"));
        let parts = [0, 1].map(|i| at.join(format!("part-1-0-0000{i}")));
        if world.rank() == Rank::ZERO {
            // The longer one loses its end.
            let part = parts
                .iter()
                .max_by_key(|part| fs::metadata(part).unwrap().len());
            let bytes = fs::read(part.unwrap()).unwrap();
            fs::write(part.unwrap(), &bytes[..bytes.len() - 1]).unwrap();
        }
        world.barrier().unwrap();
        let cut = text(HashMap::<u64, u64>::load(&world, at).unwrap_err());
        assert!(
            cut.contains("bytes") && cut.contains("part-1-0-0000"),
            "{cut}"
        );
        world.barrier().unwrap();
        let file = text(map.save(parts[0].join("below")).unwrap_err());
        assert!(file.contains("part-1-0-00000"), "{file}");
    });
}

/// A map of one rank with `n` keys, saved in `dir`.
pub(super) fn save_some(world: &World, dir: &Path, n: u64) -> crate::Result<()> {
    let map = HashMap::<u64, String>::with_capacity(world, 50)?;
    (0..n).try_for_each(|i| map.insert(&i, text(i)).map(drop))?;
    map.save(dir)
}

pub(super) fn n_loaded(world: &World, dir: &Path) -> u64 {
    let map = HashMap::<u64, String>::load(world, dir).unwrap();
    map.len().unwrap()
}

#[test]
fn every_rank_tells_that_nothing_was_saved_from_what_is_damaged() {
    let dir = tempdir().unwrap();
    threads(3, |world| {
        let load = |at: &Path| match HashMap::<u64, u64>::load(&world, at).unwrap_err() {
            Error::Storage(error) => error,
            other => panic!("{other}"),
        };
        let at = dir.path().join("not_yet");
        let absent = load(&at);
        assert!(absent.is_absent(), "{absent}");
        assert!(absent.path.starts_with(&at), "{absent}");
        world.barrier().unwrap();
        for damaged in ["", "no manifest"] {
            if world.rank() == Rank::ZERO {
                fs::write(dir.path().join(manifest::NAME), damaged).unwrap();
            }
            world.barrier().unwrap();
            let damaged = load(dir.path());
            assert!(!damaged.is_absent(), "{damaged}");
            world.barrier().unwrap();
        }
    });
}

#[test]
fn a_byte_that_is_not_what_was_written_is_seen() {
    let (dir, world) = (tempdir().unwrap(), loopback::world());
    save_some(&world, dir.path(), 20).unwrap();
    let part = dir.path().join("part-1-0-00000");
    let bytes = fs::read(&part).unwrap();
    for at in [0, bytes.len() / 2, bytes.len() - 1] {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        fs::write(&part, changed).unwrap();
        let error = HashMap::<u64, String>::load(&world, dir.path()).unwrap_err();
        let expected = "contents are not what was written";
        assert!(error.to_string().contains(expected), "{at}: {error}");
    }
    fs::write(&part, bytes).unwrap();
    assert_eq!(n_loaded(&world, dir.path()), 20);
}

#[test]
fn the_hash_of_a_part_tells_of_each_block_and_of_their_order() {
    let hash = |blocks: [&[u8]; 3]| {
        let mut info = parts::Info::default();
        blocks.iter().for_each(|block| info.add(block));
        info.hash
    };
    let written = hash([b"a", b"b", b"c"]);
    for other in [
        [b"x", b"b", b"c"],
        [b"a", b"x", b"c"],
        [b"a", b"b", b"x"],
        [b"b", b"a", b"c"],
    ] {
        assert_ne!(hash(other.map(|block| block.as_slice())), written);
    }
}

#[test]
fn elements_beyond_those_that_the_manifest_counts_are_an_error() {
    let (dir, world) = (tempdir().unwrap(), loopback::world());
    save_some(&world, dir.path(), 20).unwrap();
    let path = dir.path().join(manifest::NAME);
    let written = fs::read_to_string(&path).unwrap();
    let (lines, _) = written.rsplit_once("hash ").unwrap();
    for (n, expected) in [
        (19_u64, "are left over"),
        (21, "part-1-0-00000"),
        (1 << 60, "1152921504606846976 elements were to take"),
    ] {
        let lines = lines.replace("\n20 ", &format!("\n{n} "));
        let hash = parts::hash_of(lines.as_bytes());
        fs::write(&path, format!("{lines}hash {hash:016x}\n")).unwrap();
        let error = HashMap::<u64, String>::load(&world, dir.path()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    fs::write(&path, lines).unwrap();
    let error = HashMap::<u64, String>::load(&world, dir.path()).unwrap_err();
    assert!(error.to_string().contains("its hash differs"), "{error}");
}

#[test]
fn without_memory_for_long_elements_every_rank_gets_an_error_and_goes_on() {
    let dir = tempdir().unwrap();
    let (dir, long) = (dir.path(), "long ".repeat(8_000));
    threads(3, |world| {
        let mut queue = CircularQueue::with_capacity(&world, Rank::ZERO, 60).unwrap();
        let map = HashMap::<u32, String>::with_capacity(&world, 100).unwrap();
        let multi = MultiMap::<u32, String>::with_capacity(&world, 100).unwrap();
        let array = DArray::new(&world, 60, Distribution::Block, &String::new()).unwrap();
        let me = world.rank().number();
        for i in 0..20 {
            let i = 20 * me + i;
            queue.push(long.clone()).unwrap();
            map.insert(&i, long.clone()).unwrap();
            multi.insert(&(i % 2), long.clone()).unwrap();
            array.put(i as usize, &long).unwrap();
        }
        queue.save(dir.join("queue")).unwrap();
        map.save(dir.join("map")).unwrap();
        multi.save(dir.join("multi")).unwrap();
        array.save(dir.join("array")).unwrap();
    });
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    let load = |world: World| {
        let queue = CircularQueue::<String>::load(&world, Rank::ZERO, dir.join("queue"));
        let map = HashMap::<u32, String>::load(&world, dir.join("map"));
        let multi = MultiMap::<u32, String>::load(&world, dir.join("multi"));
        let (deal, none) = (Distribution::Block, String::new());
        let array = DArray::load(&world, dir.join("array"), deal, &none);
        let errors = [queue.err(), map.err(), multi.err(), array.err()];
        for error in errors {
            assert!(matches!(error, Some(Error::Storage(_))), "{error:?}");
        }
        // All ranks have made the same collectives.
        assert_eq!(world.allreduce(1, Sum).unwrap(), world.n_ranks());
    };
    pgas_smp::threads_with(3, &config, load).unwrap();
}

#[test]
fn a_save_that_fails_leaves_the_former_checkpoint_and_nothing_else() {
    let (dir, world) = (tempdir().unwrap(), loopback::world());
    save_some(&world, dir.path(), 20).unwrap();
    // The file in the way of the next manifest's draft cannot be removed.
    let in_the_way = dir.path().join("manifest.new").join("a file");
    fs::create_dir_all(&in_the_way).unwrap();
    let error = save_some(&world, dir.path(), 10).unwrap_err();
    assert!(error.to_string().contains("manifest"), "{error}");
    assert_eq!(n_loaded(&world, dir.path()), 20);
    fs::remove_dir_all(in_the_way.parent().unwrap()).unwrap();
    assert_eq!(super::names(dir.path()).unwrap().len(), 2);
    save_some(&world, dir.path(), 5).unwrap();
    assert_eq!(n_loaded(&world, dir.path()), 5);
    assert_eq!(super::names(dir.path()).unwrap().len(), 2);
}

/// They may take so much of the disk that there is no room for another checkpoint.
#[test]
fn remains_of_killed_saves_are_gone_before_the_next_one_is_written() {
    let (dir, world) = (tempdir().unwrap(), loopback::world());
    save_some(&world, dir.path(), 20).unwrap();
    let remains = [2, 9].map(|number| dir.path().join(parts::name(number, 0, 0)));
    let leave = || {
        for path in &remains {
            fs::write(path, "half").unwrap();
        }
    };
    let n_left = || remains.iter().filter(|path| path.exists()).count();
    leave();
    let (claim, number) = super::begin(dir.path()).unwrap();
    assert_eq!((n_left(), number), (0, 2));
    assert_eq!(n_loaded(&world, dir.path()), 20);
    drop(claim);
    // A damaged manifest does not tell which parts belong to it.
    leave();
    let manifest = dir.path().join(manifest::NAME);
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("checkpoint 1", "checkpoint 2")).unwrap();
    let (_claim, number) = super::begin(dir.path()).unwrap();
    assert_eq!((n_left(), number), (2, 10));
    fs::write(&manifest, text).unwrap();
    assert_eq!(n_loaded(&world, dir.path()), 20);
}

#[test]
fn an_error_about_the_empty_path_says_that_it_is_empty() {
    let world = loopback::world();
    let error = save_some(&world, Path::new(""), 1).unwrap_err().to_string();
    assert!(error.contains("the empty path: "), "{error}");
}

#[test]
fn of_two_that_save_into_a_directory_at_once_one_is_refused_and_there_is_always_a_checkpoint() {
    const N_ROUNDS: u64 = 30;
    let dir = tempdir().unwrap();
    let path = dir.path().join("both");
    threads(2, |world| {
        let mine = world.team().split(Some(world.rank().number()), 0);
        let mine = mine.unwrap().unwrap();
        let whole = HashMap::<u64, String>::with_capacity(&world, 50).unwrap();
        whole.save(&path).unwrap();
        for round in 1..=N_ROUNDS {
            let map = HashMap::<u64, String>::with_capacity(&mine, 50).unwrap();
            world.barrier().unwrap();
            let saved = map.save(&path);
            if let Err(error) = &saved {
                let error = error.to_string();
                assert!(
                    error.contains("another container is being saved"),
                    "{error}"
                );
            }
            let n_saved = world.allreduce(u64::from(saved.is_ok()), Sum).unwrap();
            assert!(n_saved > 0, "round {round}: nobody has saved");
            let loaded = HashMap::<u64, String>::load(&world, &path).unwrap();
            assert_eq!(loaded.len().unwrap(), 0);
        }
    });
    assert_eq!(super::names(&path).unwrap().len(), 2);
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for() {
    let (dir, world) = (tempdir().unwrap(), loopback::world());
    save_some(&world, dir.path(), 20).unwrap();
    for name in super::names(dir.path()).unwrap() {
        let path = dir.path().join(name);
        let former = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        assert!(HashMap::<u64, String>::load(&world, dir.path()).is_err());
        fs::remove_file(&path).unwrap();
        fs::write(&path, former).unwrap();
    }
    assert_eq!(n_loaded(&world, dir.path()), 20);
}

#[test]
fn who_has_opened_a_manifest_reads_all_of_it_whatever_is_saved_meanwhile() {
    let (dir, world) = (tempdir().unwrap(), loopback::world());
    save_some(&world, dir.path(), 20).unwrap();
    let path = dir.path().join(manifest::NAME);
    let written = fs::read_to_string(&path).unwrap();
    let mut opened = fs::File::open(&path).unwrap();
    save_some(&world, dir.path(), 5).unwrap();
    let mut read = String::new();
    opened.read_to_string(&mut read).unwrap();
    assert_eq!(read, written);
    assert_ne!(fs::read_to_string(&path).unwrap(), written);
}

/// A checkpoint is no way to write to a file elsewhere.
#[test]
fn links_that_stand_where_files_are_written_are_not_followed() {
    let (dir, elsewhere) = (tempdir().unwrap(), tempdir().unwrap());
    let (world, victim) = (loopback::world(), elsewhere.path().join("victim"));
    fs::write(&victim, "untouched").unwrap();
    std::os::unix::fs::symlink(&victim, dir.path().join("manifest.new")).unwrap();
    save_some(&world, dir.path(), 20).unwrap();
    assert_eq!(n_loaded(&world, dir.path()), 20);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
}

/// A program that begins anew where there is no checkpoint would remove the other parts.
#[test]
fn a_checkpoint_without_one_of_its_parts_is_damaged_and_not_absent() {
    let dir = tempdir().unwrap();
    threads(3, |world| {
        let array = DArray::from_fn(&world, 30, Distribution::Block, |i| i as u64).unwrap();
        array.save(dir.path()).unwrap();
    });
    fs::remove_file(dir.path().join(parts::name(1, 0, 1))).unwrap();
    for n_ranks in [1, 2, 3] {
        threads(n_ranks, |world| {
            let loaded = DArray::<u64>::load(&world, dir.path(), Distribution::Block, &0);
            let Err(Error::Storage(error)) = loaded.map(drop) else {
                panic!("a part is not there");
            };
            assert!(!error.is_absent(), "{error}");
            assert!(
                error.to_string().contains("though the manifest names it"),
                "{error}"
            );
        });
    }
}

#[test]
fn a_checkpoint_that_others_replace_meanwhile_is_loaded_whole() {
    let dir = tempdir().unwrap();
    let save = |world: &World, value: u64| {
        let map = HashMap::<u64, u64>::with_capacity(world, 200).unwrap();
        for key in 0..50 {
            map.insert(&key, value).unwrap();
        }
        world.barrier().unwrap();
        map.save(dir.path()).unwrap();
    };
    threads(2, |world| save(&world, 0));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            threads(1, |world| {
                for value in 1.. {
                    save(&world, value);
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        });
        threads(2, |world| {
            for _ in 0..20 {
                let map = HashMap::<u64, u64>::load(&world, dir.path()).unwrap();
                let first = map.find(&0).unwrap().unwrap();
                assert!((0..50).all(|key| map.find(&key).unwrap() == Some(first)));
                world.barrier().unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        // Also if the other test has failed.
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Takes a while for each key.
struct Slow;

impl KeyHasher for Slow {
    fn hash(&self, bytes: &[u8]) -> u64 {
        thread::sleep(Duration::from_millis(2));
        RapidHasher.hash(bytes)
    }
}

/// The program's hook for long work panics when it is told of the end.
#[test]
fn a_panic_at_the_end_of_long_work_is_told_to_the_others() {
    type Slowly = HashMap<u64, u64, Atomic, Slow>;
    let dir = tempdir().unwrap();
    let mut config = Config::default();
    config.timeout = Some(Duration::from_secs(60));
    for is_loaded in [false, true] {
        let has_ended = OnceLock::new();
        pgas_smp::threads_with(2, &config, |world| {
            let mut map = Slowly::with_hasher(&world, 200, Slow).unwrap();
            for key in (0..150).filter(|_| world.rank() == Rank::ZERO) {
                map.insert(&key, key).unwrap();
            }
            world.barrier().unwrap();
            map.save(dir.path()).unwrap();
            let is_last = world.rank() == Rank::new(1);
            if is_last {
                world.on_work(|work| assert!(!work.is_over, "on purpose"));
            }
            let call = || match is_loaded {
                false => map.resize(300),
                true => Slowly::load_with_hasher(&world, dir.path(), Slow).map(drop),
            };
            let ended = catch_unwind(AssertUnwindSafe(call));
            if is_last {
                ended.unwrap_err();
                has_ended.wait();
                return;
            }
            has_ended.set(()).unwrap();
            let told = ended.unwrap().unwrap_err().to_string();
            assert!(told.contains("rank 1 panicked in"), "{told}");
        })
        .unwrap();
    }
}

#[test]
fn a_matrix_of_rows_without_elements_is_saved_however_many_they_are() {
    let (dir, world) = (tempdir().unwrap(), loopback::world());
    let matrix = DMatrix::new(&world, [usize::MAX, 0], [1, 1], 0_u8).unwrap();
    matrix.save(dir.path()).unwrap();
    let again = DMatrix::<u8>::load(&world, dir.path(), [1, 1]).unwrap();
    assert_eq!(again.shape(), [usize::MAX, 0]);
}
