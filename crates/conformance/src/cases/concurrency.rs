//! Collectives in flight together, ahead of each other, dropped, and checked (`PGAS_CHECK=1`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use pgas_core::backend::{HandlerId, MessageClass, Sent};
use pgas_core::collective::op;
use pgas_core::{Error, Event, Rank, Result, World};

use super::teams::some_teams;
use super::{case, checked_case};
use crate::Case;
use crate::support::neighbour;
use pgas_testkit::{rng, rng_of};

pub(super) const CASES: &[Case] = &[
    case!(1, many_collectives_in_flight_may_be_waited_for_in_any_order),
    case!(1, collectives_can_be_awaited_together),
    case!(1, dropped_collectives_complete_for_the_others),
    case!(1, a_rank_may_run_ahead_of_the_others),
    case!(1, long_collectives_in_flight_together),
    case!(1, collectives_between_transfers_and_messages),
    case!(1, a_rank_may_leave_when_its_last_collective_returns),
    checked_case!(1, collectives_that_agree_pass_the_comparison),
    checked_case!(2, members_that_call_different_collectives_are_told),
    checked_case!(2, members_that_disagree_on_an_argument_are_told),
    checked_case!(2, members_that_disagree_on_a_value_are_told),
];

fn many_collectives_in_flight_may_be_waited_for_in_any_order(world: &World) -> Result<()> {
    const N: u32 = 40;
    let mut own = rng_of(world, 110);
    for team in some_teams(world)? {
        let me = team.rank();
        let mut sums: Vec<(u32, Event<u32>)> = (0..N)
            .map(|i| (i, team.allreduce_nb(me + i, op::Sum)))
            .collect();
        let mut lists: Vec<(u32, Event<Vec<u32>>)> = (0..N)
            .map(|i| (i, team.allgather_nb(vec![me, i])))
            .collect();
        let met = team.barrier_nb();
        own.shuffle(&mut sums);
        own.shuffle(&mut lists);
        let n = team.n_ranks();
        for ((i, sum), (j, list)) in sums.into_iter().zip(lists) {
            assert_eq!(sum.wait()?, n * (n - 1) / 2 + n * i);
            let expected: Vec<u32> = (0..n).flat_map(|member| [member, j]).collect();
            assert_eq!(list.wait()?, expected);
        }
        met.wait()?;
    }
    world.barrier()
}

fn collectives_can_be_awaited_together(world: &World) -> Result<()> {
    let team = world.team();
    let n = world.n_ranks();
    let (sum, root, all) = world.block_on(async {
        let sum = team.allreduce_nb(1, op::Sum);
        let root = team.broadcast_nb(n - 1, team.rank());
        let all = team.all_to_all_nb(vec![team.rank(); n as usize]);
        Ok::<_, Error>((sum.await?, root.await?, all.await?))
    })??;
    assert_eq!((sum, root), (n, n - 1));
    assert_eq!(all, (0..n).collect::<Vec<_>>());
    let mut event = team.allreduce_nb(2, op::Sum);
    while !event.test()? {
        thread::yield_now();
    }
    assert!(event.test()?);
    assert_eq!(event.wait()?, 2 * n);
    world.barrier()
}

fn dropped_collectives_complete_for_the_others(world: &World) -> Result<()> {
    for team in some_teams(world)? {
        let n = team.n_ranks();
        for round in 0..2 * n {
            let sum = team.allreduce_nb(round, op::Sum);
            // A different member drops its event each time.
            if team.rank() == round % n {
                drop(sum);
            } else {
                assert_eq!(sum.wait()?, n * round);
            }
            drop(team.broadcast_slice_nb(round % n, vec![1_u8; 10_000]));
        }
        assert_eq!(team.allreduce(1, op::Sum)?, n);
    }
    world.barrier()
}

/// A root does not wait for its receivers. Messages that arrive early must be kept.
fn a_rank_may_run_ahead_of_the_others(world: &World) -> Result<()> {
    const ROUNDS: u64 = 300;
    let team = world.team();
    let last = world.n_ranks() - 1;
    for round in 0..ROUNDS {
        let root = if round % 100 < 50 { 0 } else { last };
        if world.rank().number() != root && round % 16 == 0 {
            for _ in 0..10 {
                thread::yield_now();
            }
        }
        let value = team.broadcast(root, [round, u64::from(world.rank().number())])?;
        assert_eq!(value, [round, u64::from(root)]);
        let before = team.scan_exclusive(1_u32, 0, op::Sum)?;
        assert_eq!(before, world.rank().number());
    }
    world.barrier()
}

fn long_collectives_in_flight_together(world: &World) -> Result<()> {
    const LEN: usize = 30_000;
    let team = world.team();
    let n = u64::from(world.n_ranks());
    let me = u64::from(world.rank().number());
    let sum = team.allreduce_slice_nb(vec![me; LEN], op::Sum);
    let from_last = team.broadcast_slice_nb(world.n_ranks() - 1, vec![me; LEN]);
    let all = team.allgather_nb(vec![me; LEN]);
    let exchanged = team.all_to_all_nb(vec![me; 3000 * world.n_ranks() as usize]);
    let exchanged = exchanged.wait()?;
    assert!(exchanged.iter().zip(0..).all(|(seen, i)| *seen == i / 3000));
    assert!(
        all.wait()?
            .iter()
            .zip(0..)
            .all(|(seen, i)| *seen == i / LEN as u64)
    );
    assert!(from_last.wait()? == vec![n - 1; LEN]);
    assert!(sum.wait()? == vec![n * (n - 1) / 2; LEN]);
    world.barrier()
}

fn collectives_between_transfers_and_messages(world: &World) -> Result<()> {
    const HANDLER: HandlerId = HandlerId(HandlerId::N_RESERVED + 3);
    const ROUNDS: u64 = 60;
    let received = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&received);
    world.set_handler(HANDLER, move |_, message| {
        count.fetch_add(message.payload.len() as u64, Ordering::Relaxed);
    });
    let cells = world.alloc_symmetric::<u64>(1)?;
    let next = neighbour(world, 1);
    let n = u64::from(world.n_ranks());
    let mut sent = 0;
    for round in 0..ROUNDS {
        let sum = world.allreduce_nb(round, op::Sum);
        cells.on(next).put(world, round)?;
        let payload = vec![0; usize::try_from(round).expect("small")];
        if world.try_send(next, MessageClass::Request, HANDLER, &[&payload])? == Sent::Accepted {
            sent += round;
        }
        world.flush(next)?;
        assert_eq!(sum.wait()?, n * round);
        world.barrier()?;
        assert_eq!(cells.here().get(world)?, round);
        world.barrier()?;
    }
    let expected = world.allgather(&[sent])?;
    let previous = neighbour(world, world.n_ranks() - 1);
    let all = expected[previous.index()];
    world.wait_for("the messages", || {
        Ok(received.load(Ordering::Relaxed) == all)
    })?;
    world.barrier()
}

/// There is no barrier at the end: messages that others need from a rank must have been sent when
/// it leaves.
fn a_rank_may_leave_when_its_last_collective_returns(world: &World) -> Result<()> {
    let n = world.n_ranks();
    let mut values = vec![1_u32; 10_000];
    world.allreduce_slice(&mut values, op::Sum)?;
    assert!(values == vec![n; 10_000]);
    let seen = world.team().gather(n - 1, &values)?;
    assert_eq!(seen.is_some(), world.rank().number() == n - 1);
    let last = world.broadcast(Rank::ZERO, 77)?;
    assert_eq!(last, 77);
    Ok(())
}

fn collectives_that_agree_pass_the_comparison(world: &World) -> Result<()> {
    let mut shared = rng(111);
    for team in some_teams(world)? {
        let n = team.n_ranks();
        for _ in 0..25 {
            // All ranks draw the same numbers, so that the members of all teams agree.
            let (kind, root, len) = (shared.u8(..7), shared.u32(..1000) % n, shared.usize(..50));
            match kind {
                0 => team.barrier()?,
                1 => assert_eq!(team.broadcast(root, team.rank())?, root),
                2 => assert_eq!(team.allreduce(1, op::Sum)?, n),
                3 => assert_eq!(team.allgather(&vec![0_u8; len])?.len(), len * n as usize),
                4 => team.agree("a length", len as u64)?,
                5 => drop(team.reduce_slice(root, &vec![1_u16; len], op::BitOr)?),
                _ => {
                    let mine = vec![9_u64; team.rank() as usize];
                    assert_eq!(team.allgather_varying(&mine)?.len(), n as usize);
                }
            }
        }
    }
    world.barrier()
}

/// Asserts that every rank gets the same error, and that the team still works.
fn assert_told<T>(world: &World, outcome: Result<T>, parts: &[&str]) -> Result<()> {
    let Err(error) = outcome else {
        panic!("rank {} was not told of {parts:?}", world.rank());
    };
    let Error::Mismatch(_) = &error else {
        return Err(error);
    };
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in {text:?}");
    }
    assert_eq!(world.allreduce(1_u32, op::Sum)?, world.n_ranks());
    let texts = world.allgather_varying(text.as_bytes())?;
    assert!(texts.iter().all(|other| *other == texts[0]));
    Ok(())
}

fn members_that_call_different_collectives_are_told(world: &World) -> Result<()> {
    let odd = world.rank().number() + 1 == world.n_ranks();
    let outcome = if odd {
        world.scan_inclusive(1_u32, op::Sum)
    } else {
        world.allreduce(1_u32, op::Sum)
    };
    assert_told(world, outcome, &["an allreduce", "an inclusive scan"])?;
    let outcome = if odd {
        world.team().split(Some(0), 0).map(drop)
    } else {
        world.broadcast(Rank::ZERO, 1).map(drop)
    };
    assert_told(world, outcome, &["a broadcast", "a split of the team"])?;
    world.barrier()
}

fn members_that_disagree_on_an_argument_are_told(world: &World) -> Result<()> {
    let odd = world.rank().number() + 1 == world.n_ranks();
    let last = world.n_ranks() - 1;
    let pick = |a: usize, b: usize| if odd { a } else { b };

    let root = if odd { last } else { 0 };
    let outcome = world.team().broadcast(root, 1);
    let value = format!("rank {last} has {last}");
    assert_told(
        world,
        outcome,
        &["the root of a broadcast", "rank 0 has 0", &value],
    )?;

    let outcome = world.allgather(&vec![1_u8; pick(3, 2)]);
    assert_told(
        world,
        outcome,
        &["the length of an allgather", "has 2", "has 3"],
    )?;

    let outcome = if odd {
        world.allreduce(1_u32, op::Max)
    } else {
        world.allreduce(1_u32, op::Sum)
    };
    assert_told(
        world,
        outcome,
        &["the operator of an allreduce", "Sum", "Max"],
    )?;

    let outcome = if odd {
        world.allreduce(1_u64, op::Sum).map(drop)
    } else {
        world.allreduce(1_u32, op::Sum).map(drop)
    };
    assert_told(
        world,
        outcome,
        &["the element size of an allreduce", "4", "8"],
    )?;

    world.barrier()
}

fn members_that_disagree_on_a_value_are_told(world: &World) -> Result<()> {
    let me = u64::from(world.rank().number());
    world.team().agree("the capacity", 64)?;
    let outcome = world.team().agree("the capacity", 64 + me);
    let most = format!("has {}", 63 + world.n_ranks());
    assert_told(world, outcome, &["the capacity", "rank 0 has 64", &most])?;
    world.barrier()
}
