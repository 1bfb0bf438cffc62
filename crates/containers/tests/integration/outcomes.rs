//! Any step of a collective call may fail on one rank. Then the call fails on all ranks, and all
//! can go on, or they have been told that the job has failed.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pgas_am::RemoteCalls as _;
use pgas_containers::array::Distribution;
use pgas_containers::hash_map::{Atomic, RapidHasher};
use pgas_containers::object::KeyHasher;
use pgas_containers::{
    Array, BloomFilter, CircularQueue, DArray, DMatrix, Distributor, FastQueue, HashMap,
    HashMapBuffer, HashSet, MultiMap, Result, WideBloomFilter,
};
use pgas_core::backend::loopback;
use pgas_core::collective::op::Sum;
use pgas_core::{Config, Rank, World};
use pgas_testkit::faulty::{After, Steps, every_shortage_fails, every_step_fails};

const N_RANKS: u32 = 3;

/// A collective call. Other tests check its results.
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
    ("HashMap::clear", |world| {
        let mut map = HashMap::<u64, String>::with_capacity(world, 9)?;
        map.clear()
    }),
    ("changes of the phase of a HashMap", |world| {
        let map = HashMap::<u64, u64>::with_capacity(world, 9)?;
        let map = map.into_insert_phase()?.into_local_phase()?;
        map.into_find_phase()?.into_atomic_phase().map(drop)
    }),
    ("MultiMap::resize", |world| {
        let mut map = MultiMap::<u64, u64>::with_capacity(world, 9)?;
        map.resize(30)
    }),
    ("MultiMap::clear", |world| {
        let mut map = MultiMap::<u64, String>::with_capacity(world, 9)?;
        map.clear()
    }),
    ("HashSet::is_subset", |world| {
        let set = HashSet::<u64>::with_capacity(world, 9)?;
        set.is_subset(&set).map(drop)
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
    ("DArray::fill", |world| {
        let array = DArray::new(world, 100, Distribution::Cyclic, &7_u64)?;
        array.fill(8)
    }),
    ("the local phase of a DArray", |world| {
        let array = DArray::new(world, 100, Distribution::Block, &7_u64)?;
        array.into_local()?.into_shared().map(drop)
    }),
    ("DMatrix", |world| {
        DMatrix::new(world, [5, 5], [2, 2], 0.5).map(drop)
    }),
    ("DMatrix::from_fn", |world| {
        DMatrix::from_fn(world, [5, 5], [2, 2], |i, j| i * j).map(drop)
    }),
    ("DMatrix::fill", |world| {
        let matrix = DMatrix::new(world, [5, 5], [2, 2], 0.5)?;
        matrix.fill(0.7)
    }),
    ("Array::fill", |world| {
        let array = Array::new(world, HOST, 100, &7_u32)?;
        array.fill(8)
    }),
    ("the local phase of a DMatrix", |world| {
        let matrix = DMatrix::new(world, [5, 5], [2, 2], 0.5)?;
        matrix.into_local()?.into_shared().map(drop)
    }),
    ("Distributor", |world| {
        Distributor::<String>::with_capacity(world, 9).map(drop)
    }),
    ("HashMapBuffer", |world| {
        let map = HashMap::<u64, u64>::with_capacity(world, 9)?;
        Ok(HashMapBuffer::new(map, 4, u64::wrapping_add).map(drop)?)
    }),
];

/// Calls that keep entries whose insert has failed, and try again.
const COPING: &[(&str, Call)] = &[
    ("HashMapBuffer::flush and into_map", |world| {
        let map = HashMap::<u64, u64>::with_capacity(world, 4)?;
        // Room for all that is sent, since no rank receives while it waits for the others'
        // outcomes.
        let mut buffer = HashMapBuffer::new(map, 64, u64::wrapping_add)?;
        // More than there are slots.
        let inserted = (0..9).try_for_each(|key| buffer.insert(key, 1));
        all_have("inserts", world, inserted)?;
        buffer.flush()?;
        let map = buffer.into_map()?;
        let found = map.find(&8);
        let is_there = |found| assert_eq!(found, Some(N_RANKS.into()), "nothing is lost");
        all_have("a find", world, found.map(is_there))
    }),
    ("HashMapBuffer::insert", |world| {
        let map = HashMap::<u64, u64>::with_capacity(world, 9)?;
        let mut buffer = HashMapBuffer::new(map, 4, u64::wrapping_add)?;
        let is_accepted = |i: &u64| buffer.insert(i % 2, 1).is_ok();
        let n_accepted = (0..12).filter(is_accepted).count() as u64;
        buffer.flush().or_else(|_| buffer.flush())?;
        let map = buffer.into_map()?;
        let n_accepted = world.allreduce(n_accepted, Sum)?;
        let found = map.find_many(&[0, 1]);
        let are_there = |found: Vec<Option<u64>>| {
            let n_found: u64 = found.into_iter().flatten().sum();
            assert_eq!(
                n_found, n_accepted,
                "an error refuses the entry of its call"
            );
        };
        all_have("a find", world, found.map(are_there))
    }),
];

/// Calls that write and read files.
const SAVES: &[(&str, Call)] = &[
    ("HashMap::save and load", |world| {
        let dir = saved("map");
        let map = HashMap::<u64, String>::with_capacity(world, 9)?;
        map.save(&dir)?;
        HashMap::<u64, String>::load(world, &dir).map(drop)
    }),
    ("CircularQueue::save and load", |world| {
        let dir = saved("queue");
        let mut queue = CircularQueue::<u64>::with_capacity(world, HOST, 9)?;
        queue.save(&dir)?;
        CircularQueue::<u64>::load(world, Rank::ZERO, &dir).map(drop)
    }),
];

/// Operations of all ranks at the same time, in which ranks may wait for each other. The ranks
/// agree on an error behind them, unless the error is the job's.
const TOGETHER: &[(&str, Call)] = &[
    ("pushes and pops", |world| {
        let queue = CircularQueue::<u64>::with_capacity(world, HOST, 4)?;
        let exchanged = (0..4).try_for_each(|i| {
            while let Err(why) = queue.push(i) {
                why.full()?;
                queue.pop()?;
            }
            queue.pop().map(drop)
        });
        all_have("pushes and pops", world, exchanged)
    }),
    ("pushes in a phase of their own", |world| {
        let queue = FastQueue::<u64>::with_capacity(world, HOST, 40)?;
        let pushed = (0..4).try_for_each(|i| queue.push(i).or_else(|why| why.full().map(drop)));
        all_have("pushes", world, pushed)?;
        queue.into_pop_phase().map(drop)
    }),
    ("inserts, updates and removals of words", |world| {
        let map = HashMap::<u64, u64>::with_capacity(world, 8)?;
        let changed = (0..6).try_for_each(|i| {
            map.fetch_add(&(i % 2), 1)?;
            map.insert(&(i % 3), i)?;
            map.remove(&(i % 2)).map(drop)
        });
        all_have("changes", world, changed)
    }),
    ("inserts, updates and removals of texts", |world| {
        let map = HashMap::<u64, String>::with_capacity(world, 8)?;
        let changed = (0..4).try_for_each(|i| {
            map.insert(&(i % 2), "text".repeat(30))?;
            map.update(&(i % 2), |text| text + "!")?;
            map.remove(&(i % 2)).map(drop)
        });
        all_have("changes", world, changed)
    }),
    (
        "a loop over the entries of another rank, which goes on behind an error",
        |world| {
            // Two chunks of slots on each rank.
            let map = HashMap::<u64, u64>::with_capacity(world, 3 * 400)?;
            let next = Rank::new((world.rank().number() + 1) % N_RANKS);
            let mut outcome = Ok(());
            for entry in map.entries_on(next) {
                outcome = outcome.and(entry.map(drop));
            }
            all_have("a loop", world, outcome)
        },
    ),
    ("puts and gets of texts", |world| {
        let array = Array::new(world, HOST, 2, &String::new())?;
        let changed = (0..4).try_for_each(|i| {
            array.put(i % 2, &"text".repeat(i))?;
            array.get(i % 2).map(drop)
        });
        all_have("changes", world, changed)
    }),
    ("what is received by a Distributor", |world| {
        let mut distributor = Distributor::<u64>::with_capacity(world, 4)?;
        // Less than a batch, so that all is sent at the end, when the inbox has no room for it
        // before its rank receives.
        let sent = (0..3).try_for_each(|i| distributor.send(HOST, i));
        all_have("sends", world, sent)?;
        let received = distributor
            .finish()
            .map(drop)
            .map_err(|taken| taken.lost.first);
        all_have("a distributor", world, received)
    }),
    ("what is sent by a Distributor", |world| {
        // Room for all that is sent, since no rank receives while it waits for the others'
        // outcomes.
        let mut distributor = Distributor::<u64>::with_capacity(world, 64)?;
        let sent = (0..9).try_for_each(|i| distributor.send(Rank::new(i % N_RANKS), i.into()));
        all_have("sends", world, sent)?;
        let received = distributor
            .finish()
            .map(drop)
            .map_err(|taken| taken.lost.first);
        all_have("a distributor", world, received)
    }),
];

/// Collective calls that run the program's own code, which panics on one rank.
const OWN_CODE: &[(&str, Call)] = &[
    ("DArray::from_iter", |world| {
        DArray::from_iter(world, Distribution::Block, numbers(world)).map(drop)
    }),
    ("DArray::extend", |world| {
        let mut array = DArray::<u64>::new(world, 9, Distribution::Cyclic, &0)?;
        array.extend(numbers(world))
    }),
    ("DArray::from_fn", |world| {
        let number = |_| numbers(world).sum::<u64>();
        DArray::from_fn(world, 9, Distribution::Block, number).map(drop)
    }),
    ("DMatrix::from_fn", |world| {
        let number = |_, _| numbers(world).sum::<u64>();
        DMatrix::from_fn(world, [9, 9], [3, 3], number).map(drop)
    }),
    ("DArray::reduce", |world| {
        let array = DArray::<u64>::new(world, 90, Distribution::Block, &1)?;
        let add = |a: u64, b: u64| a + b + numbers(world).sum::<u64>();
        array.reduce(add).map(drop)
    }),
    ("HashMap::resize", |world| {
        let mut map = HashMap::<u64, u64, Atomic, _>::with_hasher(world, 90, Touchy)?;
        (0..30_u64).try_for_each(|key| map.insert(&key, key).map(drop))?;
        IS_TOUCHED.set(world.rank() == HOST);
        map.resize(200)
    }),
];

/// Some numbers of each rank. The iterator panics on one.
fn numbers(world: &World) -> impl Iterator<Item = u64> {
    let panics = world.rank() == HOST;
    (0..9).inspect(move |i| assert!(!panics || *i < 5, "on purpose"))
}

thread_local! {
    /// Whether hashers panic on this rank.
    static IS_TOUCHED: Cell<bool> = const { Cell::new(false) };
}

struct Touchy;

impl KeyHasher for Touchy {
    fn hash(&self, bytes: &[u8]) -> u64 {
        assert!(!IS_TOUCHED.get(), "on purpose");
        RapidHasher.hash(bytes)
    }
}

/// Ranks agree on an outcome. An error while others may already wait is the job's, and each rank is
/// told.
fn all_have(what: &'static str, world: &World, outcome: Result<()>) -> Result<()> {
    world.team().all_succeeded(what, outcome)
}

/// The folder in which a container is saved again and again.
fn saved(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("outcomes")
        .join(name)
}

#[test]
fn a_transfer_that_fails_fails_the_call_on_all_ranks() {
    for (name, call) in CALLS {
        every_step_fails(name, N_RANKS, Steps::OneSided, After::MayHaveFailed, call);
    }
}

#[test]
fn a_transfer_that_fails_while_others_wait_for_it_fails_all_ranks() {
    for (name, call) in TOGETHER {
        every_step_fails(name, N_RANKS, Steps::OneSided, After::MayHaveFailed, call);
    }
}

#[test]
fn a_transfer_or_message_that_fails_while_a_container_is_saved_or_loaded_fails_that_on_all_ranks() {
    for (name, call) in SAVES {
        for steps in [Steps::OneSided, Steps::Messages] {
            every_step_fails(name, N_RANKS, steps, After::MayHaveFailed, call);
        }
    }
}

#[test]
fn a_buffer_of_which_a_transfer_fails_has_all_entries_or_fails_on_all_ranks() {
    for (name, call) in COPING {
        every_step_fails(name, N_RANKS, Steps::OneSided, After::MayHaveCoped, call);
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

/// Calls in which a rank runs handlers while others wait for it.
const SERVING: &[(&str, Call)] = &[
    ("barrier", World::barrier),
    ("allreduce", |world| world.allreduce(1_u64, Sum).map(drop)),
    ("allgather", |world| world.allgather(&[1_u64]).map(drop)),
    ("broadcast", |world| {
        world.broadcast(HOST, 1_u64).map(drop)?;
        world.broadcast(Rank::ZERO, 1_u64).map(drop)
    }),
    ("agreement", |world| all_have("nothing", world, Ok(()))),
    ("split", |world| world.team().split(Some(0), 0).map(drop)),
    ("quiet", pgas_am::quiet),
    ("DArray", |world| {
        DArray::new(world, 9, Distribution::Block, &0_u64).map(drop)
    }),
    ("HashMap", |world| {
        let map = HashMap::<u64, String>::with_capacity(world, 9)?;
        map.into_insert_phase()?.into_find_phase().map(drop)
    }),
    ("Distributor", |world| {
        let mut distributor = Distributor::<u64>::with_capacity(world, 4)?;
        let to_all = (0..N_RANKS).map(Rank::new);
        to_all
            .cycle()
            .take(30)
            .try_for_each(|rank| distributor.send(rank, 7))?;
        let finished = distributor.finish().map(drop);
        finished.map_err(|taken| taken.lost.first)
    }),
];

/// More barriers than a message takes to arrive.
const MANY: u32 = 10_000;

#[test]
fn a_panic_of_a_handler_in_a_collective_call_fails_the_job() {
    let mut config = Config::default();
    // Those that are not told would wait for ever.
    config.timeout = Some(Duration::from_secs(20));
    for (name, call) in SERVING {
        for way in [Served::OneWay, Served::Chained] {
            let results = loopback::run_with(N_RANKS, &config, |world| {
                pgas_am::attach(&world).unwrap();
                way.prepare(&world);
                // In the call, or in a barrier behind it.
                let all =
                    || call(&world).and_then(|()| (0..MANY).try_for_each(|_| world.barrier()));
                let called = catch_unwind(AssertUnwindSafe(all));
                let has_panicked = called.is_err();
                let next = called.unwrap_or(Ok(())).and_then(|()| world.barrier());
                (has_panicked, next)
            });
            for (rank, (has_panicked, result)) in results.into_iter().enumerate() {
                assert_eq!(
                    has_panicked,
                    rank == HOST.index(),
                    "{name}, {way:?}, rank {rank}"
                );
                let error = result.expect_err("the job has failed").to_string();
                assert!(
                    error.contains("rank 1 panicked in"),
                    "{name}, {way:?}: {error}"
                );
            }
        }
    }
}

/// What panics on the host.
#[derive(Clone, Copy, Debug)]
enum Served {
    /// A call without an answer.
    OneWay,
    /// An action that is chained to a call's answer.
    Chained,
}

impl Served {
    fn prepare(self, world: &World) {
        let is_host = world.rank() == HOST;
        match self {
            Self::OneWay if world.rank() == Rank::ZERO => {
                let panics = |(): ()| panic!("on purpose");
                world.rpc_ff(HOST, panics, ()).expect("room");
            }
            Self::Chained if is_host => {
                let answer = world.rpc(Rank::ZERO, |(): ()| (), ());
                let answer = answer.expect("room");
                drop(answer.then(|()| panic!("on purpose")));
            }
            Self::OneWay | Self::Chained => {}
        }
    }
}

#[test]
fn a_panic_of_the_programs_own_code_in_a_collective_call_fails_the_job() {
    for (name, call) in OWN_CODE {
        let results = loopback::run(N_RANKS, |world| {
            // The rank that panics gets the job's failure from its next wait.
            let called = catch_unwind(AssertUnwindSafe(|| call(&world)));
            assert_eq!(called.is_err(), world.rank() == HOST, "{name}");
            called.unwrap_or(Ok(())).and_then(|()| world.barrier())
        });
        for result in results {
            let error = result.expect_err("the job has failed").to_string();
            assert!(error.contains("rank 1 panicked in"), "{name}: {error}");
        }
    }
}
