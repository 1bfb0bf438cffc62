//! The microbenchmarks of BCL (Brock, Buluç, Yelick, "BCL: A Cross-Platform Distributed Data
//! Structures Library", 2019, figures 9 to 11): inserts, buffered inserts and finds of a hash map,
//! and pushes and pops of queues with every promise. They run with 1, 2 and 4 ranks as processes.
//! Rates are operations a second of one rank, each compared with a [bare loop](bare) over the same
//! memory.
//!
//! ```text
//! cargo bench --bench microbenchmarks                       # 1, 2 and 4 ranks
//! cargo bench --bench microbenchmarks -- --ranks 2 --operations 100000
//! ```
//!
//! All ranks do the same number of operations, which rank 0 determines, in rounds that they begin
//! together. The time of a round is the mean over the ranks of their processor time. So the result
//! does not depend on other ranks that share the processor.

#[path = "support/bare.rs"]
mod bare;
mod support;

use std::hint::black_box;
use std::process::Command;

use pgas::collective::op::Sum;
use pgas::config::launch::Launcher;
use pgas::hash_map::{Atomic, InsertOnly};
use pgas::queue::PushPop;
use pgas::{CircularQueue, Config, FastQueue, HashMap, HashMapBuffer, Rank, World};

use bare::{Rings, Table, neighbour};

/// Without a number of ranks, a job runs for each of these.
const N_RANKS: [u32; 3] = [1, 2, 4];

fn main() {
    let mut config = Config::from_env().expect("usable settings");
    if matches!(config.launcher, Launcher::Single) {
        let Some(n_ranks) = argument("--ranks") else {
            return N_RANKS.into_iter().for_each(start);
        };
        let n_ranks = u32::try_from(n_ranks).expect("a number of ranks");
        config.launcher = Launcher::SelfLaunch { n_ranks };
    }
    let world = pgas::init_with(&config).expect("a job");
    let bench = Bench::new(&world);
    maps(&bench);
    one_queue(&bench);
    queue_a_rank(&bench);
    fast_queue_a_rank(&bench);
    world.barrier().expect("all ranks end");
}

/// Runs a job of this program with this number of ranks.
fn start(n_ranks: u32) {
    let program = std::env::current_exe().expect("the system knows what it runs");
    let mut job = Command::new(program);
    job.args(std::env::args_os().skip(1));
    job.args(["--ranks", &n_ranks.to_string()]);
    let ended = job.status().expect("it has been started before");
    assert!(ended.success(), "the job of {n_ranks} ranks: {ended}");
}

/// The number after `name` in the program's arguments.
fn argument(name: &str) -> Option<u64> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    let number = arguments.nth(1)?;
    Some(number.parse().expect("a number"))
}

/// The state of a rank.
struct Bench<'a> {
    world: &'a World,
    /// Operations of this rank in a round, a power of two.
    n: usize,
    n_rounds: usize,
}

/// Mean times of the rounds over all ranks, in nanoseconds an operation.
type Times = Vec<f64>;

impl<'a> Bench<'a> {
    /// Collective. Rank 0 determines the amount of work.
    fn new(world: &'a World) -> Self {
        let (n, n_rounds) = if support::is_smoke_test() {
            (1 << 8, 1)
        } else {
            (1 << 20, 7)
        };
        let n = argument("--operations").unwrap_or(n);
        let plan = world.broadcast(Rank::ZERO, [n, n_rounds]);
        let [n, n_rounds] = plan.expect("all ranks are there");
        let count = |n: u64| usize::try_from(n).expect("a count");
        Self {
            world,
            n: count(n).next_power_of_two(),
            n_rounds: count(n_rounds),
        }
    }

    fn n_ranks(&self) -> usize {
        self.world.ranks().len()
    }

    /// One round of `run`, which does `n` operations.
    fn time(&self, run: impl FnOnce()) -> f64 {
        self.world.barrier().expect("the other ranks come");
        let start = support::time_on_processor();
        run();
        let seconds = support::time_on_processor() - start;
        let all = self.world.allreduce(seconds, Sum).expect("they are there");
        #[expect(clippy::cast_precision_loss, reason = "a count of operations")]
        let n = (self.n * self.n_ranks()) as f64;
        all * 1e9 / n
    }

    /// Prints medians over the rounds: millions of operations a second of one rank, and the ratio
    /// to the bare loop of the same round.
    #[expect(clippy::print_stdout, reason = "a bench reports")]
    fn report(&self, name: &str, floor: &Times, ours: &Times) {
        if self.world.rank() != Rank::ZERO {
            return;
        }
        let ratios: Times = floor.iter().zip(ours).map(|(f, o)| f / o).collect();
        let n_ranks = self.n_ranks();
        let (bare, ours) = (1e3 / median(floor), 1e3 / median(ours));
        let ratio = median(&ratios);
        println!(
            "{n_ranks} ranks, {name}: {ours:.2} M/s a rank, bare loop {bare:.2} M/s, ratio {ratio:.2}"
        );
    }
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A number that differs for every `i`, and is not zero (splitmix64).
fn scrambled(i: u64) -> u64 {
    let mut z = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Every rank inserts its own keys, and finds the keys of its neighbour. At the end half of the
/// slots are in use.
fn maps(bench: &Bench<'_>) {
    let keys_of = |rank: Rank| -> Vec<u64> {
        let first = rank.index() * bench.n;
        (first..first + bench.n)
            .map(|i| scrambled(i as u64))
            .collect()
    };
    let mine = keys_of(bench.world.rank());
    let mut theirs = keys_of(neighbour(bench.world));
    theirs.sort_unstable();
    inserts(bench, &mine);
    finds(bench, &mine, &theirs);
}

fn map(bench: &Bench<'_>) -> HashMap<u64, u64> {
    let capacity = 2 * bench.n * bench.n_ranks();
    HashMap::with_capacity(bench.world, capacity).expect("memory")
}

fn inserts(bench: &Bench<'_>, keys: &[u64]) {
    let [mut floor, mut atomic, mut phased, mut buffered] = [const { Times::new() }; 4];
    // One extra round: the first one touches new pages of memory, and does not count.
    for _ in 0..=bench.n_rounds {
        let table = Table::new(bench.world, 2 * bench.n);
        floor.push(bench.time(|| keys.iter().for_each(|&key| table.insert(key, key))));
        drop(table);
        let ours = map(bench);
        atomic.push(bench.time(|| insert_all(&ours, keys)));
        drop(ours);
        let ours: HashMap<_, _, InsertOnly> = map(bench).into_insert_phase().expect("a phase");
        phased.push(bench.time(|| {
            for key in keys {
                ours.insert(key, *key).expect("half the slots stay free");
            }
        }));
        drop(ours);
        let mut buffer = HashMapBuffer::new(map(bench), 1 << 16, |_, new| new).expect("memory");
        buffered.push(bench.time(|| {
            for key in keys {
                buffer.insert(*key, *key).expect("half the slots stay free");
            }
            buffer.flush().expect("all ranks flush");
        }));
    }
    for times in [&mut floor, &mut atomic, &mut phased, &mut buffered] {
        times.remove(0);
    }
    bench.report("hash map, insert", &floor, &atomic);
    bench.report("hash map, insert, insert phase", &floor, &phased);
    bench.report("hash map, insert_buffer", &floor, &buffered);
}

fn insert_all(map: &HashMap<u64, u64, Atomic>, keys: &[u64]) {
    for key in keys {
        map.insert(key, *key).expect("half the slots stay free");
    }
}

fn finds(bench: &Bench<'_>, mine: &[u64], theirs: &[u64]) {
    let table = Table::new(bench.world, 2 * bench.n);
    mine.iter().for_each(|&key| table.insert(key, key));
    let ours = map(bench);
    insert_all(&ours, mine);
    let [mut floor, mut atomic, mut many] = [const { Times::new() }; 3];
    let mut values = vec![None; theirs.len()];
    let bare = || {
        let found = theirs.iter().filter_map(|&key| table.find(key));
        black_box(found.fold(0, u64::wrapping_add));
    };
    for _ in 0..bench.n_rounds {
        floor.push(bench.time(bare));
        atomic.push(bench.time(|| {
            let found = theirs
                .iter()
                .filter_map(|key| ours.find(key).expect("direct"));
            black_box(found.fold(0, u64::wrapping_add));
        }));
        many.push(bench.time(|| ours.find_many_into(theirs, &mut values).expect("direct")));
    }
    bench.report("hash map, find_atomic", &floor, &atomic);
    bench.report("hash map, find_many, atomic", &floor, &many);
    let ours = ours.into_find_phase().expect("a phase");
    let [mut floor, mut phased, mut many] = [const { Times::new() }; 3];
    for _ in 0..bench.n_rounds {
        floor.push(bench.time(bare));
        phased.push(bench.time(|| {
            let found = theirs
                .iter()
                .filter_map(|key| ours.find(key).expect("direct"));
            black_box(found.fold(0, u64::wrapping_add));
        }));
        many.push(bench.time(|| ours.find_many_into(theirs, &mut values).expect("direct")));
    }
    assert!(values.iter().all(Option::is_some), "all were inserted");
    bench.report("hash map, find, find phase", &floor, &phased);
    bench.report("hash map, find_many, find phase", &floor, &many);
}

/// Times of pushes and of pops.
#[derive(Default)]
struct Both {
    push: Times,
    pop: Times,
}

impl Both {
    fn report(&self, bench: &Bench<'_>, floor: &Self, queue: &str, promise: &str) {
        let name = |what| format!("{queue}, {what}, {promise}");
        bench.report(&name("push"), &floor.push, &self.push);
        bench.report(&name("pop"), &floor.pop, &self.pop);
    }
}

/// The bare loop over the rings on `rank`. If it is `local`, the ends need no atomics.
fn bare_queue(bench: &Bench<'_>, rings: &Rings, rank: Rank, local: bool, times: &mut Both) {
    let rank = rank.index();
    let elements = 0..bench.n as u64;
    if local {
        let push = |i| rings.local_push(rank, i);
        times
            .push
            .push(bench.time(|| elements.clone().for_each(push)));
        let pop = |_| {
            black_box(rings.local_pop(rank));
        };
        times
            .pop
            .push(bench.time(|| elements.clone().for_each(pop)));
    } else {
        let push = |i| rings.push(rank, i);
        times
            .push
            .push(bench.time(|| elements.clone().for_each(push)));
        let pop = |_| {
            black_box(rings.pop(rank));
        };
        times
            .pop
            .push(bench.time(|| elements.clone().for_each(pop)));
    }
}

/// All ranks push to the queue on rank 0, and then pop from it.
fn one_queue(bench: &Bench<'_>) {
    let capacity = bench.n * bench.n_ranks();
    let rings = Rings::new(bench.world, capacity.next_power_of_two());
    let queue = CircularQueue::with_capacity(bench.world, Rank::ZERO, capacity);
    let queue = queue.expect("memory");
    drop(circular(
        bench,
        &rings,
        vec![queue],
        Rank::ZERO,
        "one queue",
    ));
}

/// Each rank pushes to the queue on its neighbour, and then pops from it.
fn queue_a_rank(bench: &Bench<'_>) {
    let rings = Rings::new(bench.world, bench.n);
    let hosted = |host| CircularQueue::with_capacity(bench.world, host, bench.n).expect("memory");
    let queues = bench.world.ranks().map(hosted).collect();
    let host = neighbour(bench.world);
    let queues = circular(bench, &rings, queues, host, "a queue a rank");
    local(bench, &rings, queues, "a queue a rank");
}

/// The promises for one-sided operations, on the queue on `host`.
fn circular(
    bench: &Bench<'_>,
    rings: &Rings,
    mut queues: Vec<CircularQueue<u64, PushPop>>,
    host: Rank,
    name: &str,
) -> Vec<CircularQueue<u64, PushPop>> {
    let used = if queues.len() == 1 { 0 } else { host.index() };
    let [mut floor, mut atomic, mut phased] = [const {
        Both {
            push: vec![],
            pop: vec![],
        }
    }; 3];
    let elements = 0..bench.n as u64;
    for _ in 0..bench.n_rounds {
        bare_queue(bench, rings, host, false, &mut floor);
        let queue = &queues[used];
        let push = |i| queue.push(i).expect("room");
        atomic
            .push
            .push(bench.time(|| elements.clone().for_each(push)));
        let pop = |_| while black_box(queue.pop().expect("direct")).is_none() {};
        atomic
            .pop
            .push(bench.time(|| elements.clone().for_each(pop)));
        let pushed = each(queues, |queue| queue.into_push_phase().expect("a phase"));
        let push = |i| pushed[used].push(i).expect("room");
        phased
            .push
            .push(bench.time(|| elements.clone().for_each(push)));
        let popped = each(pushed, |queue| queue.into_pop_phase().expect("a phase"));
        let pop = |_| {
            black_box(popped[used].pop().expect("direct"));
        };
        phased
            .pop
            .push(bench.time(|| elements.clone().for_each(pop)));
        queues = each(popped, |queue| {
            queue.into_push_pop_phase().expect("a phase")
        });
    }
    atomic.report(bench, &floor, name, "push | pop");
    phased.report(bench, &floor, name, "push, then pop");
    queues
}

/// Every rank uses its own queue.
fn local(bench: &Bench<'_>, rings: &Rings, queues: Vec<CircularQueue<u64, PushPop>>, name: &str) {
    let here = bench.world.rank();
    let mut queues = each(queues, |queue| queue.into_local_phase().expect("a phase"));
    let queue = &mut queues[here.index()];
    let [mut floor, mut ours] = [const {
        Both {
            push: vec![],
            pop: vec![],
        }
    }; 2];
    let elements = 0..bench.n as u64;
    for _ in 0..bench.n_rounds {
        bare_queue(bench, rings, here, true, &mut floor);
        ours.push.push(bench.time(|| {
            for i in elements.clone() {
                queue.local_push(i).expect("room");
            }
        }));
        ours.pop.push(bench.time(|| {
            for _ in elements.clone() {
                black_box(queue.local_pop().expect("direct"));
            }
        }));
    }
    ours.report(bench, &floor, name, "local");
}

fn each<A, B>(queues: Vec<A>, into: impl FnMut(A) -> B) -> Vec<B> {
    queues.into_iter().map(into).collect()
}

/// Each rank pushes to the fast queue on its neighbour. Then each pops from its neighbour's queue,
/// or from its own.
fn fast_queue_a_rank(bench: &Bench<'_>) {
    let rings = Rings::new(bench.world, bench.n);
    let hosted = |host| FastQueue::<u64>::with_capacity(bench.world, host, bench.n);
    let mut queues: Vec<_> = bench
        .world
        .ranks()
        .map(|host| hosted(host).expect("memory"))
        .collect();
    let (here, host) = (bench.world.rank(), neighbour(bench.world));
    let [mut floor, mut bare_local, mut phased, mut local] = [const {
        Both {
            push: vec![],
            pop: vec![],
        }
    }; 4];
    let elements = 0..bench.n as u64;
    for _ in 0..bench.n_rounds {
        bare_queue(bench, &rings, host, false, &mut floor);
        bare_queue(bench, &rings, here, true, &mut bare_local);
        let push = |i| queues[host.index()].push(i).expect("room");
        phased
            .push
            .push(bench.time(|| elements.clone().for_each(push)));
        let popped = each(queues, |queue| queue.into_pop_phase().expect("a phase"));
        let pop = |_| {
            black_box(popped[host.index()].pop().expect("direct"));
        };
        phased
            .pop
            .push(bench.time(|| elements.clone().for_each(pop)));
        let mut locals = each(popped, |queue| queue.into_local_phase().expect("a phase"));
        let own = &mut locals[here.index()];
        local.push.push(bench.time(|| {
            for i in elements.clone() {
                own.local_push(i).expect("room");
            }
        }));
        local.pop.push(bench.time(|| {
            for _ in elements.clone() {
                black_box(own.local_pop().expect("direct"));
            }
        }));
        queues = each(locals, |queue| queue.into_push_phase().expect("a phase"));
    }
    phased.report(bench, &floor, "a fast queue a rank", "push, then pop");
    local.report(bench, &bare_local, "a fast queue a rank", "local");
}
