//! Collective calls of containers end alike on all ranks, whatever step of one fails on one of them, and all can go on or have
//! been told that the job has failed.

use pgas_containers::array::Distribution;
use pgas_containers::{
    Array, BloomFilter, CircularQueue, DArray, DMatrix, Distributor, FastQueue, HashMap, HashSet,
    MultiMap, Result, WideBloomFilter,
};
use pgas_core::{Rank, World};
use pgas_testkit::faulty::{After, Steps, every_shortage_fails, every_step_fails};

const N_RANKS: u32 = 3;

/// A collective call with results that are checked by other tests.
type Call = fn(&World) -> Result<()>;

const HOST: Rank = Rank::new(1);

const CALLS: &[(&str, Call)] = &[
    ("HashMap", |world| {
        HashMap::<u64, u64>::with_capacity(world, 100).map(drop)
    }),
    ("HashSet of texts", |world| {
        HashSet::<String>::with_capacity(world, 100).map(drop)
    }),
    ("MultiMap", |world| {
        MultiMap::<u64, String>::with_capacity(world, 100).map(drop)
    }),
    ("HashMap::resize", |world| {
        let mut map = HashMap::<u64, u64>::with_capacity(world, 9)?;
        map.resize(30)
    }),
    ("changes of the phase of a HashMap", |world| {
        let map = HashMap::<u64, u64>::with_capacity(world, 9)?;
        let map = map.into_insert_phase()?.into_local_phase()?;
        map.into_find_phase()?.into_atomic_phase().map(drop)
    }),
    ("BloomFilter", |world| {
        let filter = BloomFilter::<u64>::with_rate(world, 100, 0.1)?;
        filter.clear()
    }),
    ("WideBloomFilter", |world| {
        WideBloomFilter::<String>::with_rate(world, 100, 0.1).map(drop)
    }),
    ("CircularQueue", |world| {
        CircularQueue::<String>::with_capacity(world, HOST, 9).map(drop)
    }),
    ("CircularQueue::resize", |world| {
        let mut queue = CircularQueue::<u64>::with_capacity(world, HOST, 9)?;
        queue.resize(20)
    }),
    ("FastQueue::migrate", |world| {
        let mut queue = FastQueue::<u64>::with_capacity(world, HOST, 9)?;
        queue.migrate(Rank::ZERO)
    }),
    ("changes of the phase of a queue", |world| {
        let queue = CircularQueue::<u64>::with_capacity(world, HOST, 9)?;
        let queue = queue.into_local_phase()?.into_pop_phase()?;
        queue.into_push_pop_phase().map(drop)
    }),
    ("Array", |world| {
        Array::new(world, HOST, 100, &7_u32).map(drop)
    }),
    ("Array of texts", |world| {
        Array::new(world, HOST, 100, &"text".repeat(30)).map(drop)
    }),
    ("DArray", |world| {
        DArray::new(world, 100, Distribution::Cyclic, &7_u64).map(drop)
    }),
    ("DArray of texts", |world| {
        DArray::new(world, 9, Distribution::Block, &"text".repeat(30)).map(drop)
    }),
    ("DMatrix", |world| {
        DMatrix::new(world, [5, 5], [2, 2], 0.5).map(drop)
    }),
    ("Distributor", |world| {
        Distributor::<String>::with_capacity(world, 9).map(drop)
    }),
];

#[test]
fn a_transfer_that_fails_fails_the_call_on_all_ranks() {
    for (name, call) in CALLS {
        every_step_fails(name, N_RANKS, Steps::OneSided, After::MayHaveFailed, call);
    }
}

#[test]
fn memory_that_is_missing_on_one_rank_fails_the_call_on_all_and_they_go_on() {
    let mut n_short = 0;
    for (name, call) in CALLS {
        n_short += u32::from(every_shortage_fails(name, N_RANKS, call));
    }
    // Those with memory of a host, and those with long values of each rank.
    assert!(n_short >= 6, "{n_short} calls take memory of one rank");
}
