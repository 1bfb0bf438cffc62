//! Puts that update a signal word when their data has arrived.

use pgas_am::{Completes, RemoteCalls, attach, when_all};
use pgas_core::atomics::{Atomic, Flag};
use pgas_core::backend::SignalUpdate;
use pgas_core::{Rank, Result, World};

use super::case;
use crate::Case;
use crate::support::{assert_panics, neighbour, random_values};
use pgas_testkit::{rng, rng_of};

pub(super) const CASES: &[Case] = &[
    case!(1, who_sees_the_signal_sees_the_data),
    case!(1, signals_of_all_ranks_add_up_and_all_data_is_there),
    case!(1, a_signal_without_data),
    case!(1, one_of_several_signals_ends_a_wait),
    case!(1, signals_are_events_that_are_chained_and_joined),
    case!(1, long_data_arrives_before_its_signal),
    case!(2, a_waiting_rank_is_woken_by_a_plain_atomic_too),
    case!(1, words_of_any_type_with_atomics_are_waited_for),
];

fn who_sees_the_signal_sees_the_data(world: &World) -> Result<()> {
    const ROUNDS: u64 = 300;
    const WORDS: usize = 40;
    let data = world.alloc_symmetric::<u64>(WORDS)?;
    let words = world.alloc_symmetric::<u64>(16)?;
    let (arrived, consumed) = (0, 8);
    let (next, previous) = (neighbour(world, 1), neighbour(world, world.n_ranks() - 1));
    for round in 1..=ROUNDS {
        let n = 1 + usize::try_from(round).expect("small") * 7 % WORDS;
        let signal = words.on(next).add(arrived);
        let update = if round % 2 == 0 {
            SignalUpdate::Set(round)
        } else {
            SignalUpdate::Add(1)
        };
        let (to, values) = (data.on(next), vec![round; n]);
        match round % 4 {
            0 | 1 => to.put_signal(world, &values, signal, update)?,
            // The signal comes also if nobody waits for the event.
            2 => drop(to.put_signal_nb(world, values, signal, update)?),
            _ => {
                let put = to.put_signal_nb(world, values, signal, update)?;
                let (mut values, whole) = put.at_source().wait()?;
                values.fill(0);
                whole.wait()?;
            }
        }
        if round % 5 == 0 {
            world.flush(next)?;
        } else {
            world.flush_all()?;
        }
        let mine = words.here().add(arrived);
        assert_eq!(mine.wait_until(world, |seen| seen == round)?, round);
        assert_eq!(data.here().get_vec(world, n)?, vec![round; n]);
        let empty: [u64; 0] = [];
        let taken = words.on(previous).add(consumed);
        taken.put_signal(world, &empty, taken, SignalUpdate::Add(1))?;
        world.flush(previous)?;
        words
            .here()
            .add(consumed)
            .wait_until(world, |seen| seen == round)?;
    }
    world.barrier()
}

fn signals_of_all_ranks_add_up_and_all_data_is_there(world: &World) -> Result<()> {
    const ROUNDS: u64 = 20;
    let n = world.n_ranks() as usize;
    let lanes = world.alloc_symmetric::<[u64; 5]>(n)?;
    let signal = world.alloc_symmetric::<u64>(1)?;
    let me = world.rank().index();
    for round in 1..=ROUNDS {
        let (values, update) = ([[round; 5]], SignalUpdate::Add(1));
        let mut places = world
            .ranks()
            .map(|rank| (lanes.on(rank).add(me), signal.on(rank)));
        if round % 2 == 0 {
            places.try_for_each(|(lane, flag)| lane.put_signal(world, &values, flag, update))?;
        } else {
            world.scope(|scope| {
                places.try_for_each(|(lane, flag)| scope.put_signal(lane, &values, flag, update))
            })??;
        }
        world.flush_all()?;
        let all = round * n as u64;
        signal.here().wait_until(world, |seen| seen >= all)?;
        assert_eq!(lanes.here().get_vec(world, n)?, vec![[round; 5]; n]);
        world.barrier()?;
    }
    Ok(())
}

/// Also parts of 64-bit words, beside which others change.
fn words_of_any_type_with_atomics_are_waited_for(world: &World) -> Result<()> {
    are_waited_for(world, [1_u8, 255])?;
    are_waited_for(world, [-1_i16, i16::MIN])?;
    are_waited_for(world, [7_u32, 8])?;
    are_waited_for(world, [i64::MIN, -2])?;
    are_waited_for(world, [0.5_f32, -1.5])?;
    are_waited_for(world, [f64::INFINITY, 1e-300])?;
    are_waited_for(world, [Flag::TRUE, Flag::TRUE])
}

/// The rank before this one stores both values, and this one waits for them in three ways.
fn are_waited_for<T: Atomic>(world: &World, [first, second]: [T; 2]) -> Result<()> {
    let words = world.alloc_symmetric::<T>(2)?;
    words.here().put_slice(world, &[T::new_zeroed(); 2])?;
    world.barrier()?;
    let (mine, other) = (words.here(), words.here().add(1));
    let both = world.wait_until_any_nb(vec![mine, other], move |i, seen| i == 1 && seen == second);
    let chained = mine.wait_until_nb(world, move |seen| seen == first);
    let next = words.on(neighbour(world, 1));
    next.atomic_store(world, first)?;
    next.add(1).atomic_store(world, second)?;
    world.flush_all()?;
    assert_eq!(mine.wait_until(world, |seen| seen == first)?, first);
    let (i, seen) = world.wait_until_any(&[mine, other], |i, seen| i == 1 && seen == second)?;
    assert_eq!((i, seen), (1, second));
    assert_eq!((both.wait()?, chained.wait()?), ((1, second), first));
    world.barrier()
}

/// Everybody signals a word of its own at each rank; each is taken once, in whatever order.
fn one_of_several_signals_ends_a_wait(world: &World) -> Result<()> {
    let n = world.ranks().len();
    let words = world.alloc_symmetric::<u64>(n)?;
    let nothing: [u64; 0] = [];
    let mine: Vec<_> = (0..n).map(|i| words.here().add(i)).collect();
    assert_panics("no signals", || {
        world.wait_until_any::<u64>(&[], |_, _| true)
    });
    for round in 1..=5 {
        for rank in world.ranks() {
            let word = words.on(rank).add(world.rank().index());
            word.put_signal(world, &nothing, word, SignalUpdate::Set(round))?;
        }
        world.flush_all()?;
        let mut is_taken = vec![false; n];
        for _ in 0..n {
            let is_new = |i: usize, seen| seen == round && !is_taken[i];
            let (i, seen) = world.wait_until_any(&mine, is_new)?;
            assert_eq!(seen, round);
            is_taken[i] = true;
        }
        world.barrier()?;
    }
    Ok(())
}

/// Each rank sends rows to the next one, which awaits them in any order.
fn signals_are_events_that_are_chained_and_joined(world: &World) -> Result<()> {
    const ROWS: usize = 3;
    attach(world)?;
    let rows = world.alloc_symmetric::<u64>(2 * ROWS)?;
    let words = world.alloc_symmetric::<u64>(ROWS)?;
    let (next, word) = (neighbour(world, 1), |i| words.here().add(i));
    for round in 1..=20_u64 {
        // One that is chained, one that a task awaits, and one of several.
        let (same, row) = (world.clone(), rows.here());
        let first = word(0)
            .wait_until_nb(world, move |n| n == round)
            .and_then(move |_| row.get_vec_nb(&same, 2));
        let (same, row, second) = (world.clone(), rows.here().add(2), word(1));
        let second = world.spawn(async move {
            second.wait_until_nb(&same, move |n| n == round).await?;
            row.get_vec_nb(&same, 2)?.await
        });
        let either = vec![word(2), word(1)];
        let mut either = world.wait_until_any_nb(either, move |i, n| i == 0 && n == round);
        assert!(!either.test()?, "nobody has sent the rows of this round");
        world.barrier()?;
        for i in 0..ROWS {
            let (to, signal) = (rows.on(next).add(2 * i), words.on(next).add(i));
            let values = vec![round, i as u64];
            drop(to.put_signal_nb(world, values, signal, SignalUpdate::Set(round))?);
        }
        let (first, second, either) = when_all((first, second, either)).wait()?;
        assert_eq!((first, second), (vec![round, 0], vec![round, 1]));
        assert_eq!(either, (0, round));
        assert_eq!(rows.here().add(4).get_vec(world, 2)?, [round, 2]);
        let mut seen = word(0).wait_until_nb(world, move |n| n == round);
        assert!(seen.is_complete()? && seen.waits_for_ranks());
        word(0).put(world, 0)?;
        assert_eq!(seen.wait()?, round, "what was seen stays");
        // Dropped without a wait.
        drop(word(0).wait_until_nb(world, |_| false));
        world.barrier()?;
    }
    assert_panics("no signals", || {
        world.wait_until_any_nb::<u64>(Vec::new(), |_, _| true)
    });
    if world.n_ranks() > 1 {
        let there = words.on(next);
        assert_panics("its own segment", || there.wait_until_nb(world, |_| true));
    }
    world.barrier()
}

fn a_signal_without_data(world: &World) -> Result<()> {
    let words = world.alloc_symmetric::<u64>(2)?;
    let there = words.on(neighbour(world, 1));
    let nothing: [u8; 0] = [];
    let update = SignalUpdate::Add(u64::MAX);
    there
        .cast::<u8>()
        .put_signal(world, &nothing, there.add(1), update)?;
    world.flush_all()?;
    words
        .here()
        .add(1)
        .wait_until(world, |seen| seen == u64::MAX)?;
    world.barrier()?;
    let update = SignalUpdate::Add(3);
    there
        .cast::<u8>()
        .put_signal(world, &nothing, there.add(1), update)?;
    world.barrier()?;
    assert_eq!(
        words.here().get_vec(world, 2)?,
        [0, 2],
        "signals wrap around"
    );
    world.barrier()
}

fn long_data_arrives_before_its_signal(world: &World) -> Result<()> {
    const N: usize = 300_000;
    let data = world.alloc_symmetric::<u64>(N)?;
    let signal = world.alloc_symmetric::<u64>(1)?;
    let next = neighbour(world, 1);
    let (to, flag) = (data.on(next), signal.on(next));
    let mut values: Vec<u64> = random_values(&mut rng_of(world, 40), N);
    let author = neighbour(world, world.n_ranks() - 1);
    let mut rng = rng((40 << 32) + u64::from(author.number()) + 1);
    let mut expected: Vec<u64> = random_values(&mut rng, N);
    for round in 1..=2 {
        let update = SignalUpdate::Set(u64::MAX - round);
        if round == 1 {
            to.put_signal(world, &values, flag, update)?;
            world.flush(next)?;
        } else {
            values.reverse();
            expected.reverse();
            values = to.put_signal_nb(world, values, flag, update)?.wait()?;
        }
        let seen = |seen| seen == u64::MAX - round;
        signal.here().wait_until(world, seen)?;
        assert!(data.here().get_vec(world, N)? == expected);
        world.barrier()?;
    }
    Ok(())
}

fn a_waiting_rank_is_woken_by_a_plain_atomic_too(world: &World) -> Result<()> {
    let words = world.alloc_symmetric::<u64>(1)?;
    let turn =
        |round: u64| Rank::new(u32::try_from(round % u64::from(world.n_ranks())).expect("a rank"));
    // The baton goes around the ring, and all other ranks wait.
    for round in 0..40 {
        if turn(round) == world.rank() {
            if round > 0 {
                words.here().wait_until(world, |seen| seen == round)?;
            }
            words.on(turn(round + 1)).atomic_store(world, round + 1)?;
            world.flush_all()?;
        }
    }
    world.barrier()
}
