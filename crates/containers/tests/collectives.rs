//! The barriers and further collectives that collective calls of containers cost, counted, as their
//! documentation says.

#![expect(clippy::unwrap_used, reason = "a failed operation fails the test")]

use pgas_containers::array::{Distribution, Halo};
use pgas_containers::{
    Array, BloomFilter, CircularQueue, DArray, DMatrix, Distributor, HashMap, HashMapBuffer,
    HashSet, MultiMap,
};
use pgas_core::backend::loopback;
use pgas_core::collective::op::Min;
use pgas_core::{Config, Rank, Result, Statistics, World};

/// Barriers, and other collectives: allreduces, or broadcasts by the first rank.
type Price = (u64, u64);

/// What `f` costs the first of two ranks.
fn price<T>(world: &World, f: impl FnOnce() -> Result<T>) -> Price {
    let before = world.costs();
    let made = f().unwrap();
    let costs = world.costs() - before;
    drop(made);
    // Of two ranks each sends the other one a message for a barrier or an allreduce.
    (costs.barriers, costs.messages - costs.barriers)
}

/// A call, its documented price, and the price that it has on a rank of a new job.
type Row = (&'static str, Price, fn(&World) -> Price);

fn map(world: &World) -> HashMap<u64, u64> {
    HashMap::with_capacity(world, 100).unwrap()
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

const ROWS: &[Row] = &[
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
        price(world, || map.reuse_slots())
    }),
    ("HashSet::with_capacity", (1, 3), |world| {
        price(world, || HashSet::<u64>::with_capacity(world, 100))
    }),
    ("HashMapBuffer::new", (4, 5), |world| {
        let map = map(world);
        price(world, || HashMapBuffer::new(map, 16, |a: u64, b| a + b))
    }),
    ("HashMapBuffer::flush", (0, 1), |world| {
        let map = map(world);
        let mut buffer = HashMapBuffer::new(map, 16, |a: u64, b| a + b).unwrap();
        price(world, || buffer.flush())
    }),
    ("HashMapBuffer::into_map", (2, 2), |world| {
        let map = map(world);
        let buffer = HashMapBuffer::new(map, 16, |a: u64, b| a + b).unwrap();
        price(world, || buffer.into_map())
    }),
    ("MultiMap::with_capacity", (2, 6), |world| {
        price(world, || MultiMap::<u64, u64>::with_capacity(world, 100))
    }),
    ("MultiMap::n_keys", (0, 1), |world| {
        let map = MultiMap::<u64, u64>::with_capacity(world, 100).unwrap();
        price(world, || map.n_keys())
    }),
    ("MultiMap::into_find_phase", (4, 2), |world| {
        let map = MultiMap::<u64, u64>::with_capacity(world, 100).unwrap();
        price(world, || map.into_find_phase())
    }),
    ("DArray::new", (2, 4), |world| {
        price(world, || {
            DArray::new(world, 100, Distribution::Block, &1_u64)
        })
    }),
    ("DArray::fill", (2, 0), |world| {
        let array = array(world);
        price(world, || array.fill(7))
    }),
    ("DArray::sum", (1, 1), |world| {
        let array = array(world);
        price(world, || array.sum())
    }),
    ("DArray::dot", (1, 1), |world| {
        let array = array(world);
        price(world, || array.dot(&array))
    }),
    ("DArray::into_local", (1, 1), |world| {
        let array = array(world);
        price(world, || array.into_local())
    }),
    ("LocalArray::into_shared", (1, 0), |world| {
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
    ("DMatrix::into_local", (1, 1), |world| {
        let matrix = matrix(world);
        price(world, || matrix.into_local())
    }),
    ("LocalMatrix::into_shared", (1, 0), |world| {
        let local = matrix(world).into_local().unwrap();
        price(world, || local.into_shared())
    }),
    ("Halo::new", (0, 2), |world| {
        let matrix = matrix(world);
        price(world, || Halo::new(&matrix, 1, 0))
    }),
    ("Halo::exchange", (1, 1), |world| {
        let matrix = matrix(world);
        let mut halo = Halo::new(&matrix, 1, 0).unwrap();
        price(world, || halo.exchange())
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
    ("BloomFilter::with_rate", (1, 3), |world| {
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
