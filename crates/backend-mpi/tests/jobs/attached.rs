//! Worlds of communicators of a program that has started MPI itself.
#![expect(unsafe_code, reason = "promises to keep out of MPI")]

use std::thread;
use std::time::{Duration, Instant};

use mpi::Threading;
use mpi::traits::{Communicator, CommunicatorCollectives};
use pgas_core::backend::AtomicsBy;
use pgas_core::collective::op::Sum;
use pgas_core::config::Progress;
use pgas_core::{Config, Error, Rank, World};

use crate::words::hammer_in;
use crate::{assert_well, ranks, run, world};

pub(crate) fn attached(direct: &str) {
    let mut command = ranks(4, "attach", "", direct);
    // As `init` would have told Open MPI.
    command.env("OMPI_MCA_osc", "sm,pt2pt");
    assert_well(&run(command));
}

/// Worlds of a part of the processes, in another order, side by side and one after another.
pub(crate) fn attach(_: &str) {
    let (universe, _) = mpi::initialize_with_threading(Threading::Funneled).expect("MPI");
    let all = universe.world();
    let config = Config::from_env().expect("settings that mean something");
    let (rank, n_ranks) = (all.rank(), all.size());
    for round in 0..3 {
        let color = mpi::topology::Color::with_value((rank + round) % 2);
        let half = all
            .split_by_color_with_key(color, n_ranks - rank)
            .expect("a part");
        let world = pgas_mpi::init_on(&half, &config).expect("a world of a half");
        let whole = pgas_mpi::init_on(&all, &config).expect("a world of all");
        assert_eq!(world.rank().number().cast_signed(), half.rank());
        assert_eq!(world.n_ranks() * 2, whole.n_ranks());
        let sum: u64 = whole.allreduce(1, |a, b| a + b).expect("a sum");
        assert_eq!(sum, u64::from(whole.n_ranks()));
        let cell = world.alloc_symmetric::<u64>(1).expect("a word");
        cell.on(Rank::ZERO).fetch_add(&world, 1).expect("an atomic");
        world.barrier().expect("all are here");
        let n = cell.on(Rank::ZERO).get(&world).expect("a get");
        assert_eq!(n, u64::from(world.n_ranks()));
    }
    all.barrier();
}

/// A process joins once: the next call returns the same world. Further worlds may be made of
/// communicators beside it.
pub(crate) fn joined_twice(direct: &str) {
    assert_well(&run(ranks(3, "twice", "", direct)));
}

pub(crate) fn twice(_: &str) {
    let first = world();
    let second = world();
    assert_eq!(first.rank(), second.rank());
    let cells: Vec<_> = (0..8)
        .map(|i| [&first, &second][i % 2].alloc::<u64>(2).expect("words"))
        .collect();
    for (i, cell) in cells.iter().enumerate() {
        cell.put_slice(&first, &[i as u64; 2]).expect("a put");
    }
    for (i, cell) in cells.iter().enumerate() {
        assert_eq!(cell.get_vec(&second, 2).expect("a get"), [i as u64; 2]);
    }
    drop(first);
    second.barrier().expect("one handle is enough");
    let config = Config::from_env().expect("settings that mean something");
    let beside = pgas_mpi::init_on(&mpi::topology::SimpleCommunicator::world(), &config);
    let beside = beside.expect("another world, of all");
    let sum: u32 = beside.allreduce(1, |a, b| a + b).expect("a sum");
    assert_eq!(sum, world().n_ranks());
    // Worlds are left by all ranks in the same order.
    drop(beside);
    drop(second);
    let left = pgas_mpi::init(&config).map(drop);
    assert!(matches!(left, Err(Error::CannotRejoin { .. })), "{left:?}");
}

pub(crate) fn attached_by_one(direct: &str) {
    let mut command = ranks(2, "one_thread", "", direct);
    command.env("OMPI_MCA_osc", "sm,pt2pt");
    assert_well(&run(command));
}

/// With `MPI_THREAD_FUNNELED` other threads get an error, and there is no progress thread.
pub(crate) fn one_thread(_: &str) {
    let (universe, level) = mpi::initialize_with_threading(Threading::Funneled).expect("MPI");
    assert_eq!(level, Threading::Funneled);
    let mut config = Config::from_env().expect("settings that mean something");
    config.progress = Progress::Thread;
    let error = pgas_mpi::init_on(&universe.world(), &config).expect_err("no thread for it");
    assert!(matches!(error, Error::Setting(_)), "{error}");
    config.progress = Progress::Poll;
    let world = pgas_mpi::init_on(&universe.world(), &config).expect("a world");
    world.barrier().expect("all are here");
    let elsewhere = thread::spawn(pgas_mpi::library).join();
    let elsewhere = elsewhere.expect("an error, not a panic");
    assert!(elsewhere.is_err(), "another thread");
    world.barrier().expect("all are here");
    other_threads_complete_nothing(&world);
    assert_eq!(
        mpi::environment::threading_support(),
        Threading::Funneled,
        "as the program has asked for it"
    );
}

/// An operation that another thread asks for, or waits for, goes on: its buffers stay until it is
/// over.
fn other_threads_complete_nothing(world: &World) {
    const N: usize = 1 << 10;
    let here = world.alloc_symmetric::<u64>(N).expect("room");
    let number = u64::from(world.rank().number());
    here.here().put_slice(world, &[number; N]).expect("put");
    world.barrier().expect("all are here");
    let other = 1 - world.rank().number();
    let there = here.on(Rank::new(other));
    if world.is_direct(there.rank()) {
        // Nothing is in flight.
        return;
    }
    for n in [1, N] {
        let [get, waited] = [(); 2].map(|()| there.get_vec_nb(world, n).expect("begun"));
        let put = there
            .put_vec_nb(world, vec![u64::from(other); n])
            .expect("begun");
        let (mut get, mut put) = thread::spawn(move || {
            let (mut get, mut put) = (get, put);
            assert!(!get.is_complete().expect("no answer is none"));
            assert!(!put.is_complete().expect("no answer is none"));
            let error = waited.wait().expect_err("no progress here");
            assert!(error.to_string().contains("thread"), "{error}");
            (get, put)
        })
        .join()
        .expect("no panic");
        while !(get.test().expect("get") && put.test().expect("put")) {}
        assert_eq!(get.wait().expect("got"), vec![u64::from(other); n]);
        drop(put.wait().expect("put"));
    }
    let mut sum = world.allreduce_nb(number, Sum);
    sum = thread::spawn(move || {
        drop(sum.is_complete());
        sum
    })
    .join()
    .expect("no panic");
    assert_eq!(sum.wait().expect("the sum"), 1);
    world.barrier().expect("all are here");
}

pub(crate) fn attached_by_one_at_a_time(direct: &str) {
    let mut command = ranks(2, "serialized", "", direct);
    command.env("OMPI_MCA_osc", "sm,pt2pt");
    assert_well(&run(command));
}

/// With `MPI_THREAD_SERIALIZED` the program has to promise that it keeps out of MPI meanwhile.
pub(crate) fn serialized(_: &str) {
    let (universe, level) = mpi::initialize_with_threading(Threading::Serialized).expect("MPI");
    assert_eq!(level, Threading::Serialized);
    let (all, config) = (universe.world(), Config::from_env());
    let config = config.expect("settings that mean something");
    for refused in [pgas_mpi::init_on(&all, &config), pgas_mpi::init(&config)] {
        let error = refused.expect_err("nobody has promised anything");
        let told = error.to_string();
        assert!(told.contains("MPI_THREAD_SERIALIZED"), "{told}");
        assert!(told.contains("init_on_serialized"), "{told}");
    }
    // SAFETY: the world's threads have ended where this calls MPI itself, below, and there is no
    // progress thread.
    let world = unsafe { pgas_mpi::init_on_serialized(&all, &config) }.expect("a world");
    let cell = world.alloc_symmetric::<u64>(1).expect("a word");
    let cell = cell.on(Rank::ZERO);
    thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                for _ in 0..100 {
                    cell.fetch_add(&world, 1).expect("an atomic");
                }
            });
        }
    });
    // Before MPI's, in which a rank serves nobody.
    world.barrier().expect("all are here");
    all.barrier();
    let sum = cell.atomic_load(&world).expect("a load");
    assert_eq!(sum, 300 * u64::from(world.n_ranks()));
}

/// With `MPI_THREAD_MULTIPLE` and the settings of Debian's Open MPI a window is one of its
/// component `rdma`.
pub(crate) fn attached_by_many(direct: &str) {
    let mut command = ranks(3, "many_threads", "", direct);
    command.env_remove("OMPI_MCA_osc");
    assert_well(&run(command));
}

pub(crate) fn many_threads(_: &str) {
    let (universe, level) = mpi::initialize_with_threading(Threading::Multiple).expect("MPI");
    assert_eq!(level, Threading::Multiple);
    let config = Config::from_env().expect("settings that mean something");
    let world = pgas_mpi::init_on(&universe.world(), &config).expect("a world");
    assert_eq!(mpi::environment::threading_support(), level, "as before");
    assert_eq!(world.capabilities().atomics, AtomicsBy::Cpu);
    hammer_in(&world, 200);
    let cell = world.alloc_symmetric::<u64>(1).expect("a word");
    let cell = cell.on(Rank::ZERO);
    thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                for _ in 0..100 {
                    cell.fetch_add(&world, 1).expect("an atomic");
                }
            });
        }
    });
    world.barrier().expect("all are here");
    let sum = cell.atomic_load(&world).expect("a load");
    assert_eq!(sum, 300 * u64::from(world.n_ranks()));
    needs_what_it_says(&world);
}

/// An operation waits for the target if the backend's capabilities say so, and else it does not.
pub(crate) fn target_needed(direct: &str) {
    assert_well(&run(ranks(2, "need", "", direct)));
}

pub(crate) fn need(_: &str) {
    needs_what_it_says(&world());
}

/// The time for which the target computes.
const ABSENCE: Duration = Duration::from_millis(400);

fn needs_what_it_says(world: &World) {
    let cell = world.alloc_symmetric::<u64>(1).expect("a word");
    let cell = cell.on(Rank::new(1));
    let needs = world.capabilities().needs_target;
    let put = || cell.put(world, 1).and_then(|()| world.flush(cell.rank()));
    let get = || cell.get(world).map(drop);
    let atomic = || cell.fetch_add(world, 1).map(drop);
    type Operation<'a> = &'a dyn Fn() -> pgas_core::Result<()>;
    let operations: [(&str, bool, Operation<'_>); 3] = [
        ("a put", needs.put, &put),
        ("a get", needs.get, &get),
        ("an atomic", needs.atomics, &atomic),
    ];
    for (what, needs, operation) in operations {
        // One success of several tries is enough. On a busy machine a rank may wait though it need
        // not, or the target may sleep too late.
        let is_as_said = (0..TRIES).any(|_| {
            let has_waited = waits_for_the_target(world, operation);
            let of_rank_0 = world.broadcast(Rank::ZERO, u32::from(has_waited));
            (of_rank_0.expect("all are here") != 0) == needs
        });
        assert!(is_as_said, "{what} needs the target: {needs}");
    }
    world.barrier().expect("all are here");
}

/// The maximum number of tries of an operation.
const TRIES: usize = 20;

/// Whether rank 0 waited in `operation` until rank 1 came back, which did nothing for others
/// before.
fn waits_for_the_target(world: &World, operation: &dyn Fn() -> pgas_core::Result<()>) -> bool {
    world.barrier().expect("all are here");
    let began = Instant::now();
    match world.rank().number() {
        0 => {
            // While the target is still in the barrier, it serves others.
            thread::sleep(ABSENCE / 8);
            operation().expect("an operation that works");
        }
        1 => thread::sleep(ABSENCE),
        _ => {}
    }
    began.elapsed() > ABSENCE / 2
}
