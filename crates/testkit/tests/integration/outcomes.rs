//! Collective calls end alike on all ranks. Whichever step fails on whichever rank, all ranks get
//! an error that names it and can go on, or the job has failed and no rank waits.

use pgas_am::{RemoteCalls, quiet};
use pgas_core::backend::AtomicOp;
use pgas_core::backend::loopback::Options;
use pgas_core::collective::op::{Min, Sum};
use pgas_core::{Event, GlobalPtr, Lock, Rank, Result, World};
use pgas_testkit::faulty::{
    After, Steps, every_shortage_fails, every_step_fails, every_step_fails_over,
};

const N_RANKS: u32 = 3;

/// A collective call with results that are checked by other tests.
type Call = fn(&World) -> Result<()>;

/// The collectives of core, and calls built from them.
const CALLS: &[(&str, Call)] = &[
    ("barrier", World::barrier),
    ("team barrier", |world| odd_and_even(world)?.barrier()),
    ("barrier_nb", |world| world.team().barrier_nb().wait()),
    ("broadcast", |world| {
        world.broadcast(Rank::new(1), 7).map(drop)
    }),
    ("broadcast_slice", |world| {
        world.broadcast_slice(Rank::new(2), &mut vec![1_u64; 20_000])
    }),
    ("broadcast_nb", |world| {
        world.team().broadcast_nb(0, 7).wait().map(drop)
    }),
    ("broadcast_slice_nb", |world| {
        world
            .team()
            .broadcast_slice_nb(0, vec![7; 9])
            .wait()
            .map(drop)
    }),
    ("reduce", |world| {
        world.reduce(Rank::new(1), 7, Sum).map(drop)
    }),
    ("reduce_slice", |world| {
        world.team().reduce_slice(2, &[1, 2], Min).map(drop)
    }),
    ("reduce_nb", |world| {
        world.team().reduce_nb(0, 7, Sum).wait().map(drop)
    }),
    ("reduce_slice_nb", |world| {
        world
            .team()
            .reduce_slice_nb(1, vec![7, 8], Sum)
            .wait()
            .map(drop)
    }),
    ("allreduce", |world| world.allreduce(7, Sum).map(drop)),
    ("long allreduce_slice", |world| {
        world.allreduce_slice(&mut vec![1_u64; 6000], Sum)
    }),
    ("allreduce_nb", |world| {
        world.team().allreduce_nb(7, Sum).wait().map(drop)
    }),
    ("allreduce_slice_nb", |world| {
        world
            .team()
            .allreduce_slice_nb(vec![7], Sum)
            .wait()
            .map(drop)
    }),
    ("gather", |world| {
        world.gather(Rank::new(1), &[7, 8]).map(drop)
    }),
    ("long gather", |world| {
        world.gather(Rank::new(1), &[7; 500]).map(drop)
    }),
    ("gather_nb", |world| {
        world.team().gather_nb(0, vec![7]).wait().map(drop)
    }),
    ("allgather", |world| world.allgather(&[7]).map(drop)),
    ("allgather_nb", |world| {
        world.team().allgather_nb(vec![7]).wait().map(drop)
    }),
    ("all_to_all", |world| world.all_to_all(&[7; 3]).map(drop)),
    ("long all_to_all", |world| {
        world.all_to_all(&[7; 900]).map(drop)
    }),
    ("all_to_all_nb", |world| {
        world.team().all_to_all_nb(vec![7; 3]).wait().map(drop)
    }),
    ("scan_inclusive", |world| {
        world.scan_inclusive(7, Sum).map(drop)
    }),
    ("scan_exclusive", |world| {
        world.scan_exclusive(7, 0, Sum).map(drop)
    }),
    ("scan_inclusive_slice", |world| {
        world.team().scan_inclusive_slice(&mut [1, 2], Sum)
    }),
    ("scan_exclusive_slice", |world| {
        world.team().scan_exclusive_slice(&mut [1, 2], 0, Sum)
    }),
    ("scan_inclusive_nb", |world| {
        world.team().scan_inclusive_nb(7, Sum).wait().map(drop)
    }),
    ("scan_exclusive_nb", |world| {
        world.team().scan_exclusive_nb(7, 0, Sum).wait().map(drop)
    }),
    ("scan_inclusive_slice_nb", |world| {
        let scan = world.scan_inclusive_slice_nb(vec![1, 2], Sum);
        scan.wait().map(drop)
    }),
    ("scan_exclusive_slice_nb", |world| {
        let scan = world.scan_exclusive_slice_nb(vec![1, 2], 0, Sum);
        scan.wait().map(drop)
    }),
    ("scatter", |world| {
        world.scatter(Rank::ZERO, &[7, 8, 9]).map(drop)
    }),
    ("scatter_nb", |world| {
        world.scatter_nb(Rank::ZERO, vec![7, 8, 9]).wait().map(drop)
    }),
    ("scatter_varying", |world| {
        let parts = [vec![7], vec![], vec![8]];
        world.scatter_varying(Rank::ZERO, &parts).map(drop)
    }),
    ("gather_varying", |world| {
        world.team().gather_varying(0, &[7]).map(drop)
    }),
    ("gather_varying_nb", |world| {
        world.team().gather_varying_nb(0, vec![7]).wait().map(drop)
    }),
    ("allgather_varying", |world| {
        world.team().allgather_varying(&[7]).map(drop)
    }),
    ("allgather_varying_nb", |world| {
        world.team().allgather_varying_nb(vec![7]).wait().map(drop)
    }),
    ("all_to_all_varying", |world| {
        world
            .team()
            .all_to_all_varying(&[vec![7], vec![], vec![8]])
            .map(drop)
    }),
    ("all_to_all_varying_nb", |world| {
        world
            .team()
            .all_to_all_varying_nb(vec![vec![7]; 3])
            .wait()
            .map(drop)
    }),
    ("split", |world| odd_and_even(world).map(drop)),
    ("split_host", |world| world.team().split_host().map(drop)),
    ("agree", |world| world.team().agree("a number", 7)),
    ("all_succeeded", |world| {
        world
            .team()
            .all_succeeded("nothing", Ok::<_, pgas_core::Error>(()))
    }),
    ("all_try_reduce", |world| {
        let one = || Ok::<_, pgas_core::Error>(1_u64);
        let n = world.team().all_try_reduce("nothing", one, Sum)?;
        assert_eq!(n, u64::from(world.n_ranks()));
        Ok(())
    }),
    ("reclaim", World::reclaim),
    ("alloc_symmetric", |world| {
        world.alloc_symmetric::<u64>(9).map(drop)
    }),
    ("alloc_symmetric of used memory", |world| {
        drop(world.alloc_symmetric::<u64>(2000)?);
        world.alloc_symmetric::<u64>(2000).map(drop)
    }),
    ("alloc_symmetric of a team", |world| {
        let team = world
            .team()
            .reorder(world.n_ranks() - world.rank().number())?;
        drop(team.alloc_symmetric::<u64>(2000)?);
        team.alloc_symmetric::<u64>(2000).map(drop)
    }),
    ("a lock", |world| Lock::new(world, Rank::ZERO).map(drop)),
    ("attach", |world| pgas_am::attach(world)),
    ("quiet", |world| quiet(world)),
    ("quiet with calls", |world| {
        let next = Rank::new((world.rank().number() + 1) % world.n_ranks());
        let sent = world.rpc_ff(next, |n: u64| assert_eq!(n, 7), 7);
        world.team().all_succeeded("a call", sent)?;
        quiet(world)
    }),
];

/// Collectives that the transport may have itself, one for each way to begin them and to wait.
const NATIVE: &[&str] = &[
    "team barrier",
    "barrier_nb",
    "broadcast",
    "broadcast_slice_nb",
    "reduce",
    "allreduce",
    "allreduce_nb",
    "gather",
    "allgather",
    "all_to_all",
    "split",
];

fn odd_and_even(world: &World) -> Result<pgas_core::Team> {
    let team = world.team().split(Some(world.rank().number() % 2), 0)?;
    Ok(team.expect("a rank with a colour is in a team"))
}

fn every_call_fails(steps: Steps, after: After) {
    for (name, call) in CALLS {
        every_step_fails(name, N_RANKS, steps, after, call);
    }
}

#[test]
fn a_collective_of_the_transports_own_that_cannot_begin_fails_it_on_all_ranks() {
    every_native_call_fails(Steps::Messages);
}

#[test]
fn a_collective_of_the_transports_own_that_fails_under_way_fails_it_on_all_ranks() {
    every_native_call_fails(Steps::Looking);
}

fn every_native_call_fails(steps: Steps) {
    let native = Options::default().with_collectives();
    for (name, call) in CALLS.iter().filter(|(name, _)| NATIVE.contains(name)) {
        every_step_fails_over(&native, name, N_RANKS, steps, After::MayHaveFailed, call);
    }
}

/// Earlier puts may be lost then, and nobody could tell which, so the job may fail.
#[test]
fn a_transfer_or_flush_that_fails_in_a_collective_fails_it_on_all_ranks() {
    every_call_fails(Steps::OneSided, After::MayHaveFailed);
}

#[test]
fn a_message_that_cannot_be_sent_in_a_collective_fails_it_on_all_ranks() {
    every_call_fails(Steps::Messages, After::MayHaveFailed);
}

#[test]
fn a_transport_that_fails_while_a_collective_waits_fails_it_on_all_ranks() {
    every_call_fails(Steps::Looking, After::MayHaveFailed);
}

#[test]
fn an_allocation_that_fails_on_one_rank_and_is_agreed_on_fails_on_all_and_they_go_on() {
    let was_short = every_shortage_fails("an allocation", N_RANKS, |world| {
        let cells = world.alloc::<u64>(100);
        let cells = world.team().all_succeeded("an allocation", cells)?;
        world.free(cells);
        world.barrier()
    });
    assert!(was_short);
}

#[test]
fn a_transfer_that_fails_on_one_rank_and_is_agreed_on_fails_on_all_and_they_go_on() {
    every_step_fails("a put", N_RANKS, Steps::OneSided, After::GoesOn, |world| {
        let put = world.alloc::<u64>(4).and_then(|cells| {
            let put = cells.put_slice(world, &[1, 2, 3, 4]);
            world.free(cells);
            put.and_then(|()| world.flush(world.rank()))
        });
        world.team().all_succeeded("a put", put)
    });
}

/// Waits for `event`, also if it has told an error before.
fn end<T: Send>(mut event: Event<T>) -> Result<()> {
    while let Ok(false) = event.test() {}
    event.wait().map(drop)
}

/// A fault of progress, and not of an operation, is over at the next look.
#[test]
fn an_event_that_has_told_an_error_ends_every_later_wait() {
    type Begin = fn(&World, GlobalPtr<u64>) -> Result<()>;
    let operations: [Begin; 5] = [
        |world, cells| end(cells.put_nb(world, 7)?),
        |world, cells| end(cells.get_nb(world)?),
        |world, cells| end(cells.put_vec_nb(world, vec![7; 4])?),
        |world, cells| end(cells.fetch_op_nb(world, AtomicOp::Add, 7)?),
        |world, cells| end(cells.atomic_op_nb(world, AtomicOp::Add, 7)?),
    ];
    for begin in operations {
        let after = After::MayHaveCoped;
        every_step_fails("an event", N_RANKS, Steps::Looking, after, |world| {
            let cells = world.alloc_symmetric::<u64>(4)?;
            let ended = begin(world, cells.on(world.rank_after(world.rank())));
            world.team().all_succeeded("an operation", ended)
        });
    }
}
