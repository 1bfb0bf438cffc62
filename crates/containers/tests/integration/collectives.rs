//! The barriers and further collectives that collective calls of containers cost, counted, as their
//! documentation says.

use pgas_containers::array::{Distribution, Halo};
use pgas_containers::hash_map::SeededHasher;
use pgas_containers::{
    Array, BloomFilter, CircularQueue, DArray, DMatrix, Distributor, HashMap, HashMapBuffer,
    HashSet, MultiMap,
};
use pgas_core::backend::loopback;
use pgas_core::collective::op::Min;
use pgas_core::{Config, Rank, Result, Statistics, World};
use std::path::Path;

/// Barriers, and other collectives: allreduces, or broadcasts by the first rank.
type Price = (u64, u64);

/// The cost of `f` on the first of two ranks.
fn price<T>(world: &World, f: impl FnOnce() -> Result<T>) -> Price {
    let before = world.costs();
    let made = f().unwrap();
    let costs = world.costs() - before;
    drop(made);
    // In a barrier or an allreduce each of the two ranks sends one message to the other one.
    (costs.barriers, costs.messages - costs.barriers)
}

/// A call, its documented price, and the price that it has on a rank of a new job.
type Row = (&'static str, Price, fn(&World) -> Price);

fn map(world: &World) -> HashMap<u64, u64> {
    HashMap::with_capacity(world, 100).unwrap()
}

fn set(world: &World) -> HashSet<u64> {
    HashSet::with_capacity(world, 100).unwrap()
}

fn multi_map(world: &World) -> MultiMap<u64, u64> {
    MultiMap::with_capacity(world, 100).unwrap()
}

fn array(world: &World) -> DArray<u64> {
    DArray::new(world, 100, Distribution::Block, &1).unwrap()
}

fn matrix(world: &World) -> DMatrix<u64> {
    DMatrix::new(world, [8, 8], [4, 4], 1).unwrap()
}

fn queue(world: &World) -> CircularQueue<u64> {
    CircularQueue::with_capacity(world, Rank::ZERO, 9).unwrap()
}

/// The cost of `f`, which saves to a directory, and that of `load`, which loads from it.
fn prices_of_a_checkpoint<T>(
    world: &World,
    save: impl FnOnce(&Path) -> Result<()>,
    load: impl FnOnce(&Path) -> Result<T>,
) -> [Price; 2] {
    let mut dir = std::env::temp_dir().into_os_string().into_encoded_bytes();
    if world.rank() == Rank::ZERO {
        let own = tempfile::tempdir().unwrap().keep();
        dir = own.into_os_string().into_encoded_bytes();
    }
    let dirs = world.team().allgather_varying(&dir).unwrap();
    let dir = Path::new(std::str::from_utf8(&dirs[0]).unwrap());
    let saved = price(world, || save(dir));
    let loaded = price(world, || load(dir));
    world.barrier().unwrap();
    if world.rank() == Rank::ZERO {
        std::fs::remove_dir_all(dir).unwrap();
    }
    [saved, loaded]
}

fn of_map(world: &World) -> [Price; 2] {
    let map = map(world);
    let load = |dir: &Path| HashMap::<u64, u64>::load(world, dir);
    prices_of_a_checkpoint(world, |dir| map.save(dir), load)
}

fn of_multi_map(world: &World) -> [Price; 2] {
    let map = multi_map(world);
    let load = |dir: &Path| MultiMap::<u64, u64>::load(world, dir);
    prices_of_a_checkpoint(world, |dir| map.save(dir), load)
}

fn of_array(world: &World) -> [Price; 2] {
    let array = array(world);
    let load = |dir: &Path| DArray::<u64>::load(world, dir, Distribution::Cyclic, &0);
    prices_of_a_checkpoint(world, |dir| array.save(dir), load)
}

fn of_set(world: &World) -> [Price; 2] {
    let set = set(world);
    let load = |dir: &Path| HashSet::<u64>::load(world, dir);
    prices_of_a_checkpoint(world, |dir| set.save(dir), load)
}

fn of_map_by_another_hasher(world: &World) -> [Price; 2] {
    let map = map(world);
    let load =
        |dir: &Path| HashMap::<u64, u64, _, _>::load_with_hasher(world, dir, SeededHasher::new(3));
    prices_of_a_checkpoint(world, |dir| map.save(dir), load)
}

fn of_hosted(world: &World) -> [Price; 2] {
    let array = Array::<u64>::new(world, Rank::ZERO, 10, &1).unwrap();
    let load = |dir: &Path| Array::<u64>::load(world, dir, Rank::ZERO, &0);
    prices_of_a_checkpoint(world, |dir| array.save(dir), load)
}

fn of_matrix(world: &World) -> [Price; 2] {
    let matrix = matrix(world);
    let load = |dir: &Path| DMatrix::<u64>::load(world, dir, [3, 3]);
    prices_of_a_checkpoint(world, |dir| matrix.save(dir), load)
}

fn of_queue(world: &World) -> [Price; 2] {
    let mut queue = queue(world);
    let load = |dir: &Path| CircularQueue::<u64>::load(world, Rank::ZERO, dir);
    prices_of_a_checkpoint(world, |dir| queue.save(dir), load)
}

fn of_filter(world: &World) -> [Price; 2] {
    let filter = BloomFilter::<u64>::with_rate(world, 100, 0.01).unwrap();
    let load = |dir: &Path| BloomFilter::<u64>::load(world, dir);
    prices_of_a_checkpoint(world, |dir| filter.save(dir), load)
}

const ROWS: &[Row] = &[
    // Of a load: the price of the constructor, and B + 4 collectives; for a multimap another one,
    // for a queue no barrier.
    ("HashMap::save", (1, 5), |world| of_map(world)[0]),
    ("HashMap::load", (2, 7), |world| of_map(world)[1]),
    ("HashMap::load_with_hasher", (2, 7), |world| {
        of_map_by_another_hasher(world)[1]
    }),
    ("HashSet::save", (1, 5), |world| of_set(world)[0]),
    ("HashSet::load", (2, 7), |world| of_set(world)[1]),
    ("Array::save", (1, 5), |world| of_hosted(world)[0]),
    ("Array::load", (3, 9), |world| of_hosted(world)[1]),
    ("MultiMap::save", (1, 5), |world| of_multi_map(world)[0]),
    ("MultiMap::load", (3, 11), |world| of_multi_map(world)[1]),
    ("DArray::save", (1, 5), |world| of_array(world)[0]),
    ("DArray::load", (3, 8), |world| of_array(world)[1]),
    ("DMatrix::save", (1, 5), |world| of_matrix(world)[0]),
    ("DMatrix::load", (3, 10), |world| of_matrix(world)[1]),
    ("CircularQueue::save", (2, 6), |world| of_queue(world)[0]),
    ("CircularQueue::load", (2, 9), |world| of_queue(world)[1]),
    ("BloomFilter::save", (1, 5), |world| of_filter(world)[0]),
    ("BloomFilter::load", (2, 5), |world| of_filter(world)[1]),
    ("an allreduce", (0, 1), |world| {
        price(world, || world.allreduce(1_u64, Min))
    }),
    ("a barrier", (1, 0), |world| {
        price(world, || world.barrier())
    }),
    ("HashMap::with_capacity", (1, 3), |world| {
        price(world, || HashMap::<u64, u64>::with_capacity(world, 100))
    }),
    ("HashMap::with_capacity, of texts", (2, 4), |world| {
        price(world, || HashMap::<String, u64>::with_capacity(world, 100))
    }),
    ("HashMap::into_find_phase", (2, 1), |world| {
        let map = map(world);
        price(world, || map.into_find_phase())
    }),
    ("HashMap::into_insert_phase", (2, 1), |world| {
        let map = map(world);
        price(world, || map.into_insert_phase())
    }),
    ("HashMap::into_local_phase", (2, 1), |world| {
        let map = map(world);
        price(world, || map.into_local_phase())
    }),
    ("HashMap::into_atomic_phase", (2, 1), |world| {
        let map = map(world).into_find_phase().unwrap();
        price(world, || map.into_atomic_phase())
    }),
    ("HashMap::len", (0, 1), |world| {
        let map = map(world);
        price(world, || map.len())
    }),
    ("HashMap::is_empty", (0, 1), |world| {
        let map = map(world);
        price(world, || map.is_empty())
    }),
    ("HashMap::with_hasher", (1, 3), |world| {
        let hasher = SeededHasher::new(3);
        price(world, || {
            HashMap::<u64, u64, _, _>::with_hasher(world, 100, hasher)
        })
    }),
    ("HashMap::clear", (2, 1), |world| {
        let mut map = map(world);
        price(world, || map.clear())
    }),
    ("HashMap::resize", (2, 4), |world| {
        let mut map = map(world);
        price(world, || map.resize(200))
    }),
    ("HashMap::reuse_slots", (1, 2), |world| {
        let map = map(world);
        price(world, || Ok(map.reuse_slots()?))
    }),
    ("HashSet::with_capacity", (1, 3), |world| {
        price(world, || HashSet::<u64>::with_capacity(world, 100))
    }),
    ("HashSet::with_hasher", (1, 3), |world| {
        let hasher = SeededHasher::new(3);
        price(world, || {
            HashSet::<u64, _, _>::with_hasher(world, 100, hasher)
        })
    }),
    ("HashSet::into_insert_phase", (2, 1), |world| {
        let set = set(world);
        price(world, || set.into_insert_phase())
    }),
    ("HashSet::into_find_phase", (2, 1), |world| {
        let set = set(world);
        price(world, || set.into_find_phase())
    }),
    ("HashSet::into_local_phase", (2, 1), |world| {
        let set = set(world);
        price(world, || set.into_local_phase())
    }),
    ("HashSet::into_atomic_phase", (2, 1), |world| {
        let set = set(world).into_find_phase().unwrap();
        price(world, || set.into_atomic_phase())
    }),
    ("HashSet::len", (0, 1), |world| {
        let set = set(world);
        price(world, || set.len())
    }),
    ("HashSet::is_empty", (0, 1), |world| {
        let set = set(world);
        price(world, || set.is_empty())
    }),
    ("HashSet::clear", (2, 1), |world| {
        let mut set = set(world);
        price(world, || set.clear())
    }),
    ("HashSet::resize", (2, 4), |world| {
        let mut set = set(world);
        price(world, || set.resize(200))
    }),
    ("HashSet::reuse_slots", (1, 2), |world| {
        let set = set(world);
        price(world, || Ok(set.reuse_slots()?))
    }),
    ("HashMapBuffer::new", (4, 5), |world| {
        let map = map(world);
        let make = || Ok(HashMapBuffer::new(map, 16, |a: u64, b| a + b)?);
        price(world, make)
    }),
    ("HashMapBuffer::flush", (0, 1), |world| {
        let map = map(world);
        let mut buffer = HashMapBuffer::new(map, 16, |a: u64, b| a + b).unwrap();
        price(world, || buffer.flush())
    }),
    ("HashMapBuffer::into_map", (2, 2), |world| {
        let map = map(world);
        let buffer = HashMapBuffer::new(map, 16, |a: u64, b| a + b).unwrap();
        price(world, || Ok(buffer.into_map()?))
    }),
    ("MultiMap::with_capacity", (2, 6), |world| {
        price(world, || MultiMap::<u64, u64>::with_capacity(world, 100))
    }),
    ("MultiMap::with_hasher", (2, 6), |world| {
        let hasher = SeededHasher::new(3);
        price(world, || {
            MultiMap::<u64, u64, _, _>::with_hasher(world, 100, hasher)
        })
    }),
    ("MultiMap::resize", (4, 8), |world| {
        let mut map = multi_map(world);
        price(world, || map.resize(200))
    }),
    ("MultiMap::clear", (4, 2), |world| {
        let mut map = multi_map(world);
        price(world, || map.clear())
    }),
    ("MultiMap::into_local_phase", (4, 2), |world| {
        let map = multi_map(world);
        price(world, || map.into_local_phase())
    }),
    ("HashSet::is_subset", (1, 1), |world| {
        let sets = [set(world), set(world)];
        price(world, || sets[0].is_subset(&sets[1]))
    }),
    ("MultiMap::n_keys", (0, 1), |world| {
        let map = multi_map(world);
        price(world, || map.n_keys())
    }),
    ("MultiMap::len", (0, 1), |world| {
        let map = multi_map(world);
        price(world, || map.len())
    }),
    ("MultiMap::is_empty", (0, 1), |world| {
        let map = multi_map(world);
        price(world, || map.is_empty())
    }),
    ("MultiMap::reuse_slots", (1, 2), |world| {
        let map = multi_map(world);
        price(world, || Ok(map.reuse_slots()?))
    }),
    ("MultiMap::into_atomic_phase", (4, 2), |world| {
        let map = multi_map(world);
        let map = map.into_find_phase().unwrap();
        price(world, || map.into_atomic_phase())
    }),
    ("MultiMap::into_find_phase", (4, 2), |world| {
        let map = multi_map(world);
        price(world, || map.into_find_phase())
    }),
    ("DArray::new", (2, 4), |world| {
        price(world, || {
            DArray::new(world, 100, Distribution::Block, &1_u64)
        })
    }),
    ("DArray::fill", (2, 1), |world| {
        let array = array(world);
        price(world, || array.fill(7))
    }),
    ("DArray::sum", (1, 1), |world| {
        let array = array(world);
        price(world, || array.sum())
    }),
    ("DArray::min", (1, 1), |world| {
        let array = array(world);
        price(world, || array.min())
    }),
    ("DArray::max", (1, 1), |world| {
        let array = array(world);
        price(world, || array.max())
    }),
    ("DArray::reduce", (1, 1), |world| {
        let array = array(world);
        price(world, || array.reduce(Min))
    }),
    ("DArray::map_local", (0, 0), |world| {
        let array = array(world);
        price(world, || array.map_local(|_, x| x + 1))
    }),
    ("DArray::fold_local", (0, 0), |world| {
        let array = array(world);
        price(world, || array.fold_local(0, |sum, _, x| sum + x))
    }),
    ("DArray::dot", (1, 1), |world| {
        let array = array(world);
        price(world, || array.dot(&array))
    }),
    ("DArray::into_local", (1, 1), |world| {
        let array = array(world);
        price(world, || Ok(array.into_local()?))
    }),
    ("LocalArray::into_shared", (1, 1), |world| {
        let local = array(world).into_local().unwrap();
        price(world, || local.into_shared())
    }),
    ("DArray::from_fn", (3, 5), |world| {
        price(world, || {
            DArray::from_fn(world, 100, Distribution::Block, |i| i as u64)
        })
    }),
    ("DArray::from_iter", (3, 7), |world| {
        price(world, || {
            DArray::from_iter(world, Distribution::Block, [1_u64, 2])
        })
    }),
    ("DArray::extend", (4, 7), |world| {
        let mut array = array(world);
        price(world, || array.extend([2]))
    }),
    ("Array::new", (2, 5), |world| {
        price(world, || Array::new(world, Rank::ZERO, 10, &1_u64))
    }),
    ("DMatrix::new", (2, 6), |world| {
        price(world, || DMatrix::new(world, [8, 8], [4, 4], 1_u64))
    }),
    ("Array::fill", (2, 1), |world| {
        let array = Array::new(world, Rank::ZERO, 10, &1_u64).unwrap();
        price(world, || array.fill(7))
    }),
    ("DMatrix::from_fn", (3, 7), |world| {
        price(world, || {
            DMatrix::from_fn(world, [8, 8], [4, 4], |i, j| i * j)
        })
    }),
    ("DMatrix::fill", (2, 1), |world| {
        let matrix = matrix(world);
        price(world, || matrix.fill(7))
    }),
    ("DMatrix::reduce", (1, 1), |world| {
        let matrix = matrix(world);
        price(world, || matrix.reduce(Min))
    }),
    ("DMatrix::sum", (1, 1), |world| {
        let matrix = matrix(world);
        price(world, || matrix.sum())
    }),
    ("DMatrix::min", (1, 1), |world| {
        let matrix = matrix(world);
        price(world, || matrix.min())
    }),
    ("DMatrix::max", (1, 1), |world| {
        let matrix = matrix(world);
        price(world, || matrix.max())
    }),
    ("DMatrix::dot", (1, 1), |world| {
        let matrix = matrix(world);
        price(world, || matrix.dot(&matrix))
    }),
    ("DMatrix::map_local", (0, 0), |world| {
        let matrix = matrix(world);
        price(world, || matrix.map_local(|_, _, x| x + 1))
    }),
    ("DMatrix::fold_local", (0, 0), |world| {
        let matrix = matrix(world);
        price(world, || matrix.fold_local(0, |sum, _, _, x| sum + x))
    }),
    ("DMatrix::into_local", (1, 1), |world| {
        let matrix = matrix(world);
        price(world, || Ok(matrix.into_local()?))
    }),
    ("LocalMatrix::into_shared", (1, 1), |world| {
        let local = matrix(world).into_local().unwrap();
        price(world, || local.into_shared())
    }),
    ("Halo::new", (0, 2), |world| {
        let matrix = matrix(world);
        price(world, || Halo::new(&matrix, 1, 0))
    }),
    ("Halo::periodic", (0, 2), |world| {
        let matrix = matrix(world);
        price(world, || Halo::periodic(&matrix, 1))
    }),
    ("Halo::exchange", (1, 1), |world| {
        let matrix = matrix(world);
        let mut halo = Halo::new(&matrix, 1, 0).unwrap();
        price(world, || halo.exchange())
    }),
    ("Halo::exchange_nb, and the wait", (1, 1), |world| {
        let matrix = matrix(world);
        pgas_am::attach(world).unwrap();
        let mut halo = Halo::new(&matrix, 1, 0).unwrap();
        price(world, || halo.exchange_nb()?.wait())
    }),
    ("Halo::update", (0, 0), |world| {
        let matrix = matrix(world);
        let mut halo = Halo::new(&matrix, 1, 0).unwrap();
        halo.exchange().unwrap();
        price(world, || {
            halo.update(|old, new| new.row_mut(new.rows().start)[0] = old.row(0)[0])
        })
    }),
    ("CircularQueue::with_capacity", (2, 5), |world| {
        price(world, || {
            CircularQueue::<u64>::with_capacity(world, Rank::ZERO, 9)
        })
    }),
    ("CircularQueue::into_pop_phase", (2, 1), |world| {
        let queue = queue(world);
        price(world, || queue.into_pop_phase())
    }),
    ("CircularQueue::into_push_phase", (2, 1), |world| {
        let queue = queue(world);
        price(world, || queue.into_push_phase())
    }),
    ("CircularQueue::into_local_phase", (2, 1), |world| {
        let queue = queue(world);
        price(world, || queue.into_local_phase())
    }),
    ("CircularQueue::into_push_pop_phase", (2, 1), |world| {
        let queue = queue(world).into_pop_phase().unwrap();
        price(world, || queue.into_push_pop_phase())
    }),
    ("CircularQueue::resize", (3, 5), |world| {
        let mut queue = queue(world);
        price(world, || queue.resize(20))
    }),
    ("CircularQueue::migrate", (3, 4), |world| {
        let mut queue = queue(world);
        price(world, || queue.migrate(Rank::new(1)))
    }),
    ("BloomFilter::with_rate", (1, 2), |world| {
        price(world, || BloomFilter::<u64>::with_rate(world, 100, 0.01))
    }),
    ("BloomFilter::clear", (2, 1), |world| {
        let filter = BloomFilter::<u64>::with_rate(world, 100, 0.01).unwrap();
        price(world, || filter.clear())
    }),
    ("Distributor::with_capacity", (2, 3), |world| {
        price(world, || Distributor::<u64>::with_capacity(world, 16))
    }),
];

#[test]
fn collective_calls_cost_what_their_documentation_says() {
    let mut config = Config::default();
    config.statistics = Statistics::Total;
    let mut wrong = Vec::new();
    for (call, documented, run) in ROWS {
        let counted = loopback::run_with(2, &config, |world| run(&world))[0];
        if counted != *documented {
            wrong.push(format!("{call}: {counted:?}, and not {documented:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
