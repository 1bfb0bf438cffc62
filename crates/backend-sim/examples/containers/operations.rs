//! The operations, what has to be there before, and what must be there behind them.

use pgas_containers::{BloomFilter, CircularQueue, Distributor, HashMap, Result};
use pgas_core::backend::AtomicOp;
use pgas_core::collective::op::Sum;
use pgas_core::{Rank, World};

/// How much a node does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Elements that a node has room for, and has before where an operation needs some.
    pub(crate) size: usize,
    /// Operations of a node.
    pub(crate) n: usize,
    /// Whether the result is looked at.
    pub(crate) is_checked: bool,
}

pub(crate) fn run(world: &World, operation: &str, load: &Load) -> Result<()> {
    assert!(load.n <= load.size, "{} of {} elements", load.n, load.size);
    match operation {
        "insert" => insert(world, load),
        "find" => find(world, load),
        "fetch_add" => fetch_add(world, load),
        "push" => push(world, load),
        "pop" => pop(world, load),
        "bloom" => bloom(world, load),
        "histogram" => histogram(world, load),
        "sort" => sort(world, load),
        other => panic!("no operation is called {other:?}"),
    }
}

/// Does it between two barriers, in the region of interest.
fn measured<T>(world: &World, what: impl FnOnce() -> Result<T>) -> Result<T> {
    world.barrier()?;
    pgas_sim::mark_region(true);
    let result = what()?;
    world.barrier()?;
    pgas_sim::mark_region(false);
    Ok(result)
}

/// The keys of a rank, none of which another one has.
fn keys(rank: Rank, n: usize) -> impl Iterator<Item = u64> {
    (0..n as u64).map(move |k| (u64::from(rank.number()) << 32) | k)
}

/// Keys of any ranks, as a rank draws them.
fn drawn(world: &World, load: &Load) -> Vec<u64> {
    let mut random = random(world);
    let key = |_| {
        let rank = random.u64(..u64::from(world.n_ranks()));
        (rank << 32) | random.u64(..load.size as u64)
    };
    (0..load.n).map(key).collect()
}

fn random(world: &World) -> fastrand::Rng {
    fastrand::Rng::with_seed(u64::from(world.rank().number()) + 1)
}

/// The sum over all ranks.
fn total(world: &World, own: u64) -> Result<u64> {
    world.allreduce(own, Sum)
}

/// Half as full as it gets, with nothing in it.
fn empty_map(world: &World, load: &Load) -> Result<HashMap<u64, u64>> {
    HashMap::with_capacity(world, 2 * load.size * world.n_ranks() as usize)
}

/// With the keys of all ranks, each of which has its own number of a rank as its value.
fn full_map(world: &World, load: &Load) -> Result<HashMap<u64, u64>> {
    let map = empty_map(world, load)?;
    for key in keys(world.rank(), load.size) {
        map.insert(&key, key >> 32)?;
    }
    world.barrier()?;
    Ok(map)
}

fn insert(world: &World, load: &Load) -> Result<()> {
    let map = empty_map(world, load)?;
    measured(world, || {
        for key in keys(world.rank(), load.n) {
            map.insert(&key, key)?;
        }
        Ok(())
    })?;
    if load.is_checked {
        for key in keys(world.rank_after(world.rank()), load.n) {
            assert_eq!(map.find(&key)?, Some(key));
        }
    }
    world.barrier()
}

fn find(world: &World, load: &Load) -> Result<()> {
    let map = full_map(world, load)?;
    let wanted = drawn(world, load);
    measured(world, || {
        for key in &wanted {
            assert_eq!(map.find(key)?, Some(key >> 32));
        }
        Ok(())
    })
}

fn fetch_add(world: &World, load: &Load) -> Result<()> {
    let map = full_map(world, load)?;
    let wanted = drawn(world, load);
    measured(world, || {
        for key in &wanted {
            map.fetch_add(key, 1)?;
        }
        Ok(())
    })?;
    if load.is_checked {
        let mut added = 0;
        for key in keys(world.rank(), load.size) {
            added += map.find(&key)?.expect("it was there before") - (key >> 32);
        }
        let all = u64::from(world.n_ranks()) * load.n as u64;
        assert_eq!(total(world, added)?, all);
    }
    world.barrier()
}

/// A queue of the first rank, to which all others go.
fn queue(world: &World, load: &Load) -> Result<CircularQueue<u64>> {
    CircularQueue::with_capacity(world, Rank::ZERO, load.size * world.n_ranks() as usize)
}

fn push(world: &World, load: &Load) -> Result<()> {
    let queue = queue(world, load)?;
    measured(world, || {
        for key in keys(world.rank(), load.n) {
            queue.push(key)?;
        }
        Ok(())
    })?;
    if load.is_checked {
        assert_eq!(queue.len()?, load.n * world.n_ranks() as usize);
    }
    world.barrier()
}

fn pop(world: &World, load: &Load) -> Result<()> {
    let queue = queue(world, load)?;
    for key in keys(world.rank(), load.size) {
        queue.push(key)?;
    }
    let popped = measured(world, || {
        let mut popped = 0_u64;
        for _ in 0..load.n {
            popped = popped.wrapping_add(queue.pop()?.expect("there are as many"));
        }
        Ok(popped)
    })?;
    if load.is_checked && load.n == load.size {
        let pushed = keys(world.rank(), load.size).fold(0, u64::wrapping_add);
        assert_eq!(total(world, popped)?, total(world, pushed)?);
    }
    world.barrier()
}

fn bloom(world: &World, load: &Load) -> Result<()> {
    let n_items = load.size * world.n_ranks() as usize;
    let filter = BloomFilter::<u64>::with_rate(world, n_items, 0.01)?;
    measured(world, || {
        for key in keys(world.rank(), load.n) {
            filter.insert(&key)?;
        }
        Ok(())
    })?;
    if load.is_checked {
        for key in keys(world.rank_after(world.rank()), load.n) {
            assert!(filter.contains(&key)?);
        }
    }
    world.barrier()
}

/// The kernel of bale: atomic additions to random words of a table over all ranks.
fn histogram(world: &World, load: &Load) -> Result<()> {
    let table = world.alloc_symmetric::<u64>(load.size)?;
    let places = drawn(world, load);
    measured(world, || {
        for place in &places {
            let rank = Rank::new(u32::try_from(place >> 32).expect("a rank's number"));
            let index = usize::try_from(place & 0xffff_ffff).expect("a word's number");
            let word = table.on(rank).add(index);
            word.atomic_op(world, AtomicOp::Add, 1)?;
        }
        Ok(())
    })?;
    if load.is_checked {
        let words = table.here().get_vec(world, load.size)?;
        let all = u64::from(world.n_ranks()) * load.n as u64;
        assert_eq!(total(world, words.iter().sum())?, all);
    }
    world.barrier()
}

/// Keys go to the rank whose range they lie in, which sorts them.
fn sort(world: &World, load: &Load) -> Result<()> {
    let mut random = random(world);
    let made: Vec<u32> = (0..load.n).map(|_| random.u32(..)).collect();
    let rank_of = |key: u32| (u64::from(key) * u64::from(world.n_ranks())) >> 32;
    let rank_of = |key| Rank::new(u32::try_from(rank_of(key)).expect("below the number of ranks"));
    let sorted = measured(world, || {
        let mut distributor = Distributor::with_capacity(world, 2 * load.size)?;
        for key in &made {
            distributor.send(rank_of(*key), *key)?;
        }
        let mut received = distributor.finish()?;
        received.sort_unstable();
        Ok(received)
    })?;
    if load.is_checked {
        let is_own = |key: &u32| rank_of(*key) == world.rank();
        assert!(sorted.is_sorted() && sorted.iter().all(is_own));
        let sum = |keys: &[u32]| keys.iter().map(|key| u64::from(*key)).sum::<u64>();
        assert_eq!(total(world, sum(&sorted))?, total(world, sum(&made))?);
    }
    world.barrier()
}
