//! Helpers of the tests of all containers.

use std::fmt::Debug;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::OnceLock;
use std::task::Poll;
use std::time::Duration;

use pgas_am::RemoteCalls as _;
use pgas_am::codec::{Codec, Decoder, Each, Encoder, Wire};
use pgas_core::backend::loopback;
use pgas_core::config::Routing;
use pgas_core::{Config, Rank, Statistics, Symmetric, World, as_handler};
use pgas_testkit::{job, setting, weak};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::object::{Encoded, Object};
use crate::{Error, Result};

/// Orders in which a weak network delivers, that each test is run with; `PGAS_TEST_ORDERS` says
/// another number.
const N_ORDERS: u64 = 2;

/// Runs `body` as ranks over the reference transport, where everything takes the path through the
/// backend, operations overtake each other and puts are late; over a weak network, where they are
/// also torn and in random orders; over both with ranks that serve each other's requests; over
/// shared memory; and over shared memory with the direct path turned off.
pub(crate) fn everywhere(n_ranks: u32, body: impl Fn(World) + Sync) {
    everywhere_with(n_ranks, Config::default(), &[true, false], &body);
}

/// As [`everywhere`], where elements that travel together take such a route.
pub(crate) fn everywhere_by(routing: Routing, n_ranks: u32, body: impl Fn(World) + Sync) {
    let mut config = Config::default();
    config.routing = Some(routing);
    everywhere_with(n_ranks, config, &[true, false], &body);
}

/// As [`everywhere`], with counted operations, which take a slower way through core, and without
/// ranks that serve each other.
pub(crate) fn everywhere_counted(n_ranks: u32, body: impl Fn(World) + Sync) {
    one_sided_counted(n_ranks, &body);
    near_counted(n_ranks, body);
}

/// As [`everywhere_counted`], without near memory: every step is an operation on a global pointer.
pub(crate) fn one_sided_counted(n_ranks: u32, body: impl Fn(World) + Sync) {
    let mut config = Config::default();
    config.statistics = Statistics::Total;
    everywhere_with(n_ranks, config, &[false], &body);
}

/// Runs `body` as ranks over shared memory with counted operations.
pub(crate) fn near_counted(n_ranks: u32, body: impl Fn(World) + Sync) {
    let mut config = Config::default();
    config.statistics = Statistics::Total;
    config.segment_bytes = Some(if cfg!(miri) { 1 << 18 } else { 16 << 20 });
    pgas_smp::threads_with(n_ranks, &config, body).unwrap();
}

/// One function for all bodies: code that starts ranks takes long to compile.
fn everywhere_with(
    n_ranks: u32,
    mut config: Config,
    direct: &[bool],
    body: &(dyn Fn(World) + Sync),
) {
    config.segment_bytes = Some(if cfg!(miri) { 1 << 18 } else { 16 << 20 });
    loopback::run_with(n_ranks, &config, body);
    let is_served = config.statistics == Statistics::Off;
    let served = loopback::Options::default().with_served_atomics();
    let attached = |world: World| {
        pgas_am::attach(&world).unwrap();
        body(world);
    };
    if is_served {
        loopback::run_over(&served, n_ranks, &config, attached);
    }
    // Miri takes a thousand times as long: it checks accesses, not orders.
    let n_orders = if cfg!(miri) { 0 } else { N_ORDERS };
    for seed in 0..setting("PGAS_TEST_ORDERS", n_orders) {
        weak::run(n_ranks, &config, seed, body);
        if is_served {
            weak::run_over(&served, n_ranks, &config, seed, attached);
        }
    }
    for direct in direct {
        config.direct = *direct;
        pgas_smp::threads_with(n_ranks, &config, body).unwrap();
    }
}

/// Runs `body` over a weak network in a thousand random orders, or as many as `PGAS_TEST_SEEDS`
/// says, with the number of each.
pub(crate) fn in_many_orders(n_ranks: u32, body: impl Fn(World, u64) + Sync) {
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    for seed in 0..setting("PGAS_TEST_SEEDS", 1000) {
        weak::run(n_ranks, &config, seed, |world| body(world, seed));
    }
}

/// Which job of its test a process belongs to.
const JOB: &str = "PGAS_TEST_CONTAINERS_JOB";

/// Runs `body` as the ranks of `n_jobs` jobs of processes over shared memory, of two and four ranks
/// in turn, with the number of the job: they run this test, which is called `name`, again.
pub(crate) fn over_processes(name: &str, n_jobs: u64, body: impl FnOnce(&World, u64)) {
    if !job::ARE_POSSIBLE {
        return;
    }
    const NONE: u64 = u64::MAX;
    let job = setting(JOB, NONE);
    if job != NONE {
        let world = pgas_smp::init(&Config::from_env().unwrap()).unwrap();
        return body(&world, job);
    }
    for job in 0..n_jobs {
        let n_ranks = if job.is_multiple_of(2) { 2 } else { 4 };
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", name, "--nocapture"])
            .env("PGAS_RANKS", n_ranks.to_string())
            .env(JOB, job.to_string());
        let ended = job::start(command).end();
        assert_eq!(ended.code(), 0, "{ended:?}");
        let n_passed = ended.stdout.matches("1 passed").count();
        assert_eq!(n_passed, n_ranks, "{name} in {ended:?}");
    }
}

/// Operations of one job of processes whose history is checked.
const OPERATIONS_OF_JOB: u64 = 20_000;

/// Runs `body` over processes with a number of operations and a seed, until it has done as many as
/// `PGAS_TEST_OPERATIONS` says: some hundreds, or with 1000000 as many as that, in minutes.
pub(crate) fn over_histories_of_processes(name: &str, body: impl FnOnce(&World, u64, u64)) {
    let n_operations = setting("PGAS_TEST_OPERATIONS", 600);
    let of_job = n_operations.div_ceil(2).clamp(1, OPERATIONS_OF_JOB);
    over_processes(name, n_operations.div_ceil(of_job), |world, job| {
        body(world, of_job, job);
    });
}

/// Gathers the values of all ranks on rank 0. Collective.
pub(crate) fn gather<T: Serialize + DeserializeOwned>(world: &World, mine: &[T]) -> Option<Vec<T>> {
    let codec = bincode::config::standard();
    let bytes = bincode::serde::encode_to_vec(mine, codec).unwrap();
    let all = world.team().gather_varying(0, &bytes).unwrap()?;
    let decode = |bytes: Vec<u8>| -> Vec<T> {
        let (theirs, _) = bincode::serde::decode_from_slice(&bytes, codec).unwrap();
        theirs
    };
    Some(all.into_iter().flat_map(decode).collect())
}

/// The costs of `f` in R, W and A.
pub(crate) fn price<T>(world: &World, f: impl FnOnce() -> T) -> (u64, u64, u64) {
    let before = world.costs();
    f();
    let costs = world.costs() - before;
    assert_eq!((costs.barriers, costs.messages), (0, 0), "one-sided");
    (costs.reads, costs.writes, costs.atomics)
}

/// The costs of `f` in messages sent, and nothing else, on the rank that asks.
pub(crate) fn asked<T>(world: &World, f: impl FnOnce() -> T) -> u64 {
    let before = world.costs();
    f();
    let costs = world.costs() - before;
    assert_eq!((costs.reads, costs.writes, costs.atomics), (0, 0, 0));
    costs.messages
}

/// Runs `body` as two ranks that serve each other's requests, with counted operations.
pub(crate) fn served_counted(body: impl Fn(World) + Sync) {
    served_counted_by(None, 2, body);
}

/// The same with `n_ranks` ranks and a given route of elements.
pub(crate) fn served_counted_by(
    routing: Option<Routing>,
    n_ranks: u32,
    body: impl Fn(World) + Sync,
) {
    let mut config = Config::default();
    config.statistics = Statistics::Total;
    config.routing = routing;
    let served = loopback::Options::default().with_served_atomics();
    loopback::run_over(&served, n_ranks, &config, |world| {
        pgas_am::attach(&world).unwrap();
        body(world);
    });
}

/// Runs `body` as two ranks that compare their calls: both get an error that says that `what`
/// differs.
pub(crate) fn told_apart(what: &str, body: impl Fn(World) -> Result<()> + Sync) {
    let mut config = Config::default();
    config.check = Some(true);
    loopback::run_with(2, &config, |world| {
        let error = body(world).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    });
}

/// Chains an action to the `n`-th round of progress. It panics.
pub(crate) fn panic_in_round(world: &World, n: u32) {
    let mut n_left = n;
    let rounds = poll_fn(move |_| {
        n_left -= 1;
        if n_left == 0 {
            Poll::Ready(Ok(()))
        } else {
            Poll::Pending
        }
    });
    drop(world.spawn(rounds).then(|()| panic!("on purpose")));
}

/// Tells the other rank that this one has ended, also if it panics.
struct TellsEnd<'a>(&'a OnceLock<()>);

impl Drop for TellsEnd<'_> {
    fn drop(&mut self) {
        self.0.get_or_init(|| ());
    }
}

/// What rank 0 does while rank 1 waits, and makes no progress.
pub(crate) type Alone<'a> = &'a dyn Fn(Box<dyn FnOnce() + '_>);

/// Runs `body` as two ranks, which compare their calls or do not. What it does alone waits, and
/// ends by the panic of an action, which the program catches: then both are told that rank 0
/// panicked in `what`.
pub(crate) fn told_of_a_panic(
    what: &str,
    (over, compares): (&loopback::Options, bool),
    body: impl Fn(&World, Alone<'_>) + Sync,
) {
    let mut config = Config::default();
    config.segment_bytes = Some(1 << 20);
    config.timeout = Some(Duration::from_secs(60));
    config.check = Some(compares);
    let [is_idle, has_ended] = [(); 2].map(|()| OnceLock::new());
    loopback::run_over(over, 2, &config, |world| {
        pgas_am::attach(&world).unwrap();
        let ends = (world.rank() == Rank::ZERO).then(|| TellsEnd(&has_ended));
        body(&world, &|call| {
            if ends.is_some() {
                let idle = || Ok(is_idle.get().is_some());
                world.wait_for("the other rank", idle).unwrap();
                panic_in_round(&world, 3);
                let ended = catch_unwind(AssertUnwindSafe(call));
                has_ended.get_or_init(|| ());
                assert!(ended.is_err(), "the call ended without a panic");
            } else {
                is_idle.get_or_init(|| ());
                has_ended.wait();
            }
        });
        let told = world.barrier().unwrap_err().to_string();
        assert!(
            told.contains(&format!("rank 0 panicked in {what}")),
            "{told}"
        );
    });
}

#[test]
fn what_ends_without_a_panic_fails_its_test() {
    let over = loopback::Options::default();
    for is_begun in [true, false] {
        let test = || {
            told_of_a_panic("nothing", (&over, false), |world, alone| {
                assert!(is_begun || world.rank() != Rank::ZERO, "before the call");
                alone(Box::new(|| {}));
            });
        };
        catch_unwind(AssertUnwindSafe(test)).unwrap_err();
    }
}

/// Takes the symmetric memory of all ranks, but for blocks of less than 1 KiB. Collective.
pub(crate) fn take_symmetric_memory(world: &World) -> Vec<Symmetric<u8>> {
    let mut taken = Vec::new();
    let mut n = 1 << 20;
    while n >= 1 << 10 {
        match world.alloc_symmetric(n) {
            Ok(some) => taken.push(some),
            Err(_) => n /= 2,
        }
    }
    taken
}

/// Random numbers that are the same in every run (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn index(&mut self, n: usize) -> usize {
        usize::try_from(self.below(n as u64)).unwrap()
    }
}

/// A number that cannot be encoded if it is 13, nor decoded if it is 14.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unlucky(pub(crate) u32);

pub(crate) enum ByPanic {}

impl Wire for Unlucky {
    type By = ByPanic;
}

impl Object for Unlucky {
    type Repr = Encoded<8>;
}

impl Codec<Unlucky> for ByPanic {
    type Array<const N: usize> = Each<Self>;

    fn encode(value: &Unlucky, out: &mut Encoder) -> Result<()> {
        assert!(value.0 != 13, "unlucky to write");
        // Longer than a slot.
        out.put(&[value.0; 9])
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Unlucky> {
        let [number, ..] = input.get::<[u32; 9]>()?;
        assert!(number != 14, "unlucky to read");
        Ok(Unlucky(number))
    }
}

/// Checks that `error` tells the `text` of a codec's panic.
pub(crate) fn assert_names_panic(error: &Error, text: &str) {
    let told = error.to_string();
    assert!(
        told.contains(&format!("its codec panicked: {text}")),
        "{told}"
    );
}

/// The number of calls of each kind. The first ones may take memory that the next ones use again.
const N_CALLS: usize = 8;

fn assert_refused<T: Debug>(outcome: &Result<T>) {
    assert!(
        matches!(outcome, Err(Error::InHandler { .. })),
        "{outcome:?}"
    );
}

/// Calls `call` as a handler, in which it is refused, and checks that it takes no memory for good.
pub(crate) fn refused_without_a_loss<T: Debug>(world: &World, call: impl Fn() -> Result<T>) {
    as_handler(|| {
        assert_refused(&call());
        let used = world.local_heap_use().used;
        for _ in 0..N_CALLS {
            assert_refused(&call());
        }
        assert_eq!(world.local_heap_use().used, used);
    });
}
