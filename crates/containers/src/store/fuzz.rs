//! Files that somebody has changed, with and without making their hashes right again: each gives a
//! container or [`Error::Storage`], and nothing else. `PGAS_TEST_MUTATIONS` says how many of each
//! container.

#![expect(clippy::unwrap_used, reason = "a failed operation fails the test")]

use std::fs;
use std::path::Path;

use pgas_am::codec::{AsSerde, Wire};
use pgas_core::backend::loopback;
use pgas_core::{Config, Rank, World};
use pgas_testkit::setting;
use serde::{Deserialize, Serialize};
use tempfile::{TempDir, tempdir, tempdir_in};

use super::manifest::NAME;
use super::parts::{Info, hash_of};
use crate::array::Distribution;
use crate::object::{Encoded, Object};
use crate::testing::Random;
use crate::{
    Array, BloomFilter, CircularQueue, DArray, DMatrix, Error, FastQueue, HashMap, HashSet,
    MultiMap, Result, WideBloomFilter,
};

/// The number of changed checkpoints of each container that are loaded, unless it is set.
const N: u64 = 400;

/// A value that may lie within itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Tree {
    Leaf(String),
    Node(Box<Self>, Vec<Self>),
    Empty(Vec<()>),
}

impl Wire for Tree {
    type By = AsSerde;
}

impl Object for Tree {
    type Repr = Encoded<60>;
}

fn tree(depth: u64) -> Tree {
    match depth {
        0 => Tree::Empty(vec![(); 9]),
        1 => Tree::Leaf("leaf".repeat(9)),
        _ => Tree::Node(Box::new(tree(depth - 1)), vec![tree(depth - 2)]),
    }
}

/// Numbers at which something may go wrong.
const INTERESTING: [u64; 15] = [
    0,
    1,
    2,
    7,
    63,
    65,
    255,
    1 << 16,
    1 << 24,
    1 << 31,
    1 << 32,
    1 << 60,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// A checkpoint whose files are changed.
struct Files {
    dir: TempDir,
    manifest: String,
    parts: Vec<(String, Vec<u8>)>,
}

impl Files {
    fn of(save: impl FnOnce(&Path)) -> Self {
        // In memory, if there is such a directory.
        let dir = tempdir_in("/dev/shm").or_else(|_| tempdir()).unwrap();
        save(dir.path());
        let mut names = super::names(dir.path()).unwrap();
        names.retain(|name| name != NAME);
        names.sort_unstable();
        let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
        Self {
            manifest: String::from_utf8(read(NAME)).unwrap(),
            parts: names
                .iter()
                .map(|name| (name.clone(), read(name)))
                .collect(),
            dir,
        }
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.dir.path().join(name), bytes).unwrap();
    }

    /// Changes a file in the directory, and undoes the previous change.
    fn change(&self, random: &mut Random) {
        let mut lines: Vec<String> = self.manifest.lines().map(str::to_owned).collect();
        lines.pop();
        for (i, (name, bytes)) in self.parts.iter().enumerate() {
            let mut changed = bytes.clone();
            if random.below(3) > 0 {
                damage(&mut changed, random);
            }
            self.write(name, &changed);
            if random.below(10) > 0 {
                let mut info = Info::default();
                info.add(&changed);
                let line = lines
                    .iter_mut()
                    .filter(|line| is_info(line))
                    .nth(i)
                    .unwrap();
                let (elements, _) = line.split_once(' ').unwrap();
                *line = format!("{elements} {} {}", info.bytes, info.hash);
            }
        }
        while random.below(2) == 0 {
            let line = random.index(lines.len());
            replace_number(&mut lines[line], random);
        }
        let mut text = lines.join("\n") + "\n";
        if random.below(20) == 0 {
            let mut bytes = text.into_bytes();
            damage(&mut bytes, random);
            text = String::from_utf8_lossy(&bytes).into_owned();
        }
        if random.below(20) > 0 {
            text += &format!("hash {:016x}\n", hash_of(text.as_bytes()));
        }
        self.write(NAME, text.as_bytes());
    }
}

/// Whether a line has the numbers of elements and bytes of a part.
fn is_info(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_digit())
}

fn interesting(random: &mut Random) -> u64 {
    let n = INTERESTING[random.index(INTERESTING.len())];
    n.wrapping_add(random.below(2) * random.below(64))
}

fn replace_number(line: &mut String, random: &mut Random) {
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let i = random.index(words.len());
    if words[i].parse::<u64>().is_ok() {
        words[i] = interesting(random).to_string();
        *line = words.join(" ");
    }
}

fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(3) {
        let at = random.index(bytes.len() + 1);
        let end = (at + random.index(40)).min(bytes.len());
        match random.below(8) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let twice = bytes[at..end].to_vec();
                bytes.splice(at..at, twice);
            }
            3 => {
                let n = interesting(random).to_le_bytes();
                bytes.splice(at..end.min(at + 8), n);
            }
            4 => {
                // A length of a text, or of a list.
                let mut n = vec![253];
                n.extend(interesting(random).to_le_bytes());
                bytes.splice(at..end.min(at + 1), n);
            }
            5 if random.below(100) == 0 => {
                // Deeply nested values.
                let (deep, byte) = (100_000 + random.index(9), random.below(3));
                bytes.splice(at..end, vec![u8::try_from(byte).unwrap(); deep]);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random.next().to_le_bytes()[0];
                }
            }
        }
    }
}

/// Loads changed checkpoints of what `save` writes.
fn survives(save: impl FnOnce(&World, &Path), load: impl Fn(&World, &Path) -> Result<()>) {
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    let world = loopback::worlds(1, &config).unwrap().remove(0);
    let files = Files::of(|dir| save(&world, dir));
    load(&world, files.dir.path()).unwrap();
    let mut random = Random(7);
    let (n, mut n_loaded) = (setting("PGAS_TEST_MUTATIONS", N), 0);
    for i in 0..n {
        files.change(&mut random);
        match load(&world, files.dir.path()) {
            Ok(()) => n_loaded += 1,
            Err(Error::Storage(_)) => {}
            Err(other) => panic!("change {i}: {other:?}"),
        }
    }
    assert!(
        n_loaded > 0 && n_loaded < n,
        "{n_loaded} of {n} were loaded"
    );
    world.reclaim().unwrap();
    assert_eq!(world.local_heap_use().used, 0);
}

fn text(i: u64) -> String {
    "text ".repeat(usize::try_from(i).unwrap())
}

#[test]
fn maps() {
    survives(
        |world, dir| {
            let map = HashMap::<String, Tree>::with_capacity(world, 20).unwrap();
            for i in 0..9 {
                map.insert(&text(i * 3), tree(i % 4)).unwrap();
            }
            map.save(dir).unwrap();
        },
        |world, dir| {
            let map = HashMap::<String, Tree>::load(world, dir)?;
            let n = map.local_iter().map(Result::unwrap).count() as u64;
            assert_eq!(n, map.len()?);
            Ok(())
        },
    );
}

#[test]
fn sets() {
    survives(
        |world, dir| {
            let set = HashSet::<(u64, u8)>::with_capacity(world, 20).unwrap();
            for i in 0..9 {
                set.insert(&(i, 1)).unwrap();
            }
            set.save(dir).unwrap();
        },
        |world, dir| HashSet::<(u64, u8)>::load(world, dir)?.len().map(drop),
    );
}

#[test]
fn multimaps() {
    survives(
        |world, dir| {
            let multi = MultiMap::<u64, String>::with_capacity(world, 20).unwrap();
            for i in 0..12 {
                multi.insert(&(i % 3), text(i)).unwrap();
            }
            multi.save(dir).unwrap();
        },
        |world, dir| {
            let multi = MultiMap::<u64, String>::load(world, dir)?;
            for key in 0..3 {
                let found = multi.find(&key)?.len() as u64;
                assert!(found <= multi.count(&key)?);
            }
            assert!(multi.n_keys()? <= multi.maps().0.capacity());
            Ok(())
        },
    );
}

#[test]
fn queues() {
    survives(
        |world, dir| {
            let mut queue = CircularQueue::with_capacity(world, Rank::ZERO, 20).unwrap();
            for i in 0..9 {
                queue.push(tree(i % 5)).unwrap();
            }
            queue.save(dir).unwrap();
        },
        |world, dir| {
            let queue = CircularQueue::<Tree>::load(world, Rank::ZERO, dir)?;
            assert_eq!(queue.len()?, queue.pop_many(1000).unwrap().len());
            Ok(())
        },
    );
    survives(
        |world, dir| {
            let mut queue = FastQueue::<[u64; 3]>::with_capacity(world, Rank::ZERO, 20).unwrap();
            for i in 0..9 {
                queue.push([i; 3]).unwrap();
            }
            queue.save(dir).unwrap();
        },
        |world, dir| {
            let queue = FastQueue::<[u64; 3]>::load(world, Rank::ZERO, dir)?;
            queue.len().map(drop)
        },
    );
}

#[test]
fn arrays() {
    survives(
        |world, dir| {
            let array = Array::new(world, Rank::ZERO, 9, &"text".to_owned()).unwrap();
            array.put(3, &text(30)).unwrap();
            array.save(dir).unwrap();
        },
        |world, dir| {
            let array = Array::<String>::load(world, dir, Rank::ZERO, &String::new())?;
            (0..array.len()).try_for_each(|i| array.get(i).map(drop))
        },
    );
    survives(
        |world, dir| {
            let array = DArray::new(world, 9, Distribution::Block, &7_u32).unwrap();
            array.save(dir).unwrap();
        },
        |world, dir| {
            let array = DArray::<u32>::load(world, dir, Distribution::BlockCyclic(2), &0)?;
            (0..array.len()).try_for_each(|i| array.get(i).map(drop))
        },
    );
}

#[test]
fn matrices() {
    survives(
        |world, dir| {
            let matrix = DMatrix::<f64>::new(world, [4, 6], [2, 3], 0.5).unwrap();
            matrix.save(dir).unwrap();
        },
        |world, dir| {
            let matrix = DMatrix::<f64>::load(world, dir, [3, 2])?;
            let [rows, columns] = matrix.shape();
            matrix.get_block(0..rows, 0..columns).map(drop)
        },
    );
}

#[test]
fn filters() {
    survives(
        |world, dir| {
            let words = BloomFilter::<u64>::with_rate(world, 50, 0.01).unwrap();
            for i in 0..50 {
                words.insert(&i).unwrap();
            }
            words.save(dir).unwrap();
        },
        |world, dir| {
            let words = BloomFilter::<u64>::load(world, dir)?;
            (0..50).try_for_each(|i| words.contains(&i).map(drop))
        },
    );
    survives(
        |world, dir| {
            let lines = WideBloomFilter::<String>::with_rate(world, 50, 0.01).unwrap();
            for i in 0..50 {
                lines.insert(&text(i)).unwrap();
            }
            lines.save(dir).unwrap();
        },
        |world, dir| {
            let lines = WideBloomFilter::<String>::load(world, dir)?;
            (0..50).try_for_each(|i| lines.contains(&text(i)).map(drop))
        },
    );
}
