//! Containers under MPI: with the direct path and without, beside the shared-memory backend. Both
//! ranks work at once, as in the figures that BCL publishes.

use std::time::Instant;

use pgas_containers::{CircularQueue, HashMap};
use pgas_core::{Rank, World};

use crate::shared::{Job, tell, world};
use crate::{is_smoke_test, report};

/// Runs jobs over shared memory, over MPI with the direct path and over MPI without it in turn, and
/// prints what an operation costs in the last two beside the first.
pub(crate) fn compare_with_smp() {
    println!(
        "\nContainers: the shared-memory backend beside MPI's, with the direct path and without"
    );
    let n_jobs = if is_smoke_test() { 1 } else { 5 };
    for (way, direct) in [("direct path", "1"), ("PGAS_DIRECT=0", "0")] {
        let pairs = Job::Containers.in_turn(n_jobs, direct);
        for (name, pairs) in pairs {
            report(&format!("{name}, {way}"), 1, &pairs);
        }
    }
}

/// A rank of such a job: prints the seconds of one operation.
pub(crate) fn measure() {
    let world = world();
    let n = match (is_smoke_test(), world.is_direct(Rank::new(1))) {
        (true, _) => 8,
        (false, true) => 1 << 16,
        (false, false) => 1 << 10,
    };
    maps(&world, n);
    queues(&world, n);
}

/// The time of `n` operations of each rank, by rank 0's clock.
fn time(world: &World, name: &str, n: u64, mut operation: impl FnMut(u64)) {
    world.barrier().expect("both ranks are here");
    let start = Instant::now();
    // The ranks' numbers differ.
    (0..n).for_each(|i| operation(i * 2 + u64::from(world.rank().number())));
    world.barrier().expect("both ranks are here");
    if world.rank() == Rank::ZERO {
        #[expect(clippy::cast_precision_loss, reason = "a count of operations")]
        let n = n as f64;
        tell(name, start.elapsed().as_secs_f64() / n);
    }
}

fn maps(world: &World, n: u64) {
    let n_slots = usize::try_from(8 * n).expect("a small number");
    let map = HashMap::<u64, u64>::with_capacity(world, n_slots).expect("room");
    time(world, "HashMap insert", n, |key| {
        map.insert(&key, key).expect("room");
    });
    time(world, "HashMap find", n, |key| {
        assert_eq!(map.find(&key).expect("no error"), Some(key));
    });
    time(world, "HashMap fetch_add", n, |key| {
        map.fetch_add(&key, 1).expect("room");
    });
    let map = map.into_find_phase().expect("both ranks are here");
    time(world, "HashMap find, nobody inserts", n, |key| {
        assert_eq!(map.find(&key).expect("no error"), Some(key + 1));
    });
}

/// Each rank pushes to the other one's queue, and then pops from it.
fn queues(world: &World, n: u64) {
    let capacity = usize::try_from(n).expect("a small number");
    let queues = [0, 1].map(|host| {
        CircularQueue::<u64>::with_capacity(world, Rank::new(host), capacity).expect("room")
    });
    let queue = &queues[1 - world.rank().index()];
    time(world, "CircularQueue push", n, |value| {
        queue.push(value).expect("room");
    });
    time(world, "CircularQueue pop", n, |value| {
        assert_eq!(queue.pop().expect("no error"), Some(value));
    });
}
