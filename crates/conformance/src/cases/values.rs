//! Collectives over values of any `Wire` type, compared with their definitions, on several teams.

use pgas_am::ValueCollectives;
use pgas_core::collective::op::{And, Or};
use pgas_core::{Rank, Result, World};

use super::case;
use super::teams::some_teams;
use crate::Case;
use crate::support::assert_panics;

pub(super) const CASES: &[Case] = &[
    case!(1, values_of_any_length_come_from_every_root_to_all),
    case!(1, values_of_any_length_go_to_every_root_and_to_all),
    case!(1, values_of_any_length_are_transposed),
    case!(1, values_are_combined_in_the_order_of_the_members),
    case!(1, collectives_of_values_may_be_under_way_together),
];

/// Lengths at which algorithms change: nothing, short, one message, and more than one message.
const LENGTHS: [usize; 4] = [0, 3, 600, 20_011];

/// A text of about this length, which names its rank.
fn text(member: u32, len: usize) -> String {
    format!("{member};").repeat(len.div_ceil(2))
}

fn values_of_any_length_come_from_every_root_to_all(world: &World) -> Result<()> {
    for team in some_teams(world)? {
        let (me, n) = (team.rank(), team.n_ranks());
        for root in 0..n {
            for len in LENGTHS {
                let got = team.broadcast_value(root, text(me, len))?;
                assert_eq!(got, text(root, len));
            }
            let parts = (0..n).map(|to| (to, text(to, 700 * to as usize)));
            let parts = if me == root {
                parts.collect()
            } else {
                Vec::new()
            };
            let (to, part) = team.scatter_values(root, parts)?;
            assert_eq!((to, part), (me, text(me, 700 * me as usize)));
        }
        assert_panics("is not one of", || team.broadcast_value(n, 1_u8));
        assert_panics("is not one of", || team.scatter_values(n, vec![1_u8]));
        assert_panics("entries for", || {
            team.scatter_values(me, vec![1_u8; n as usize + 1])
        });
    }
    world.barrier()
}

fn values_of_any_length_go_to_every_root_and_to_all(world: &World) -> Result<()> {
    for team in some_teams(world)? {
        let (me, n) = (team.rank(), team.n_ranks());
        for len in LENGTHS {
            // Each rank contributes a different number of values.
            let given = |member: u32| vec![text(member, len); member as usize % 3];
            let all: Vec<_> = (0..n).map(given).collect();
            for root in 0..n {
                let got = team.gather_values(root, given(me))?;
                assert_eq!(got.as_ref(), (me == root).then_some(&all));
            }
            assert_eq!(team.allgather_values(given(me))?, all);
        }
        assert_eq!(team.allgather_values(())?, vec![(); n as usize]);
    }
    world.barrier()
}

fn values_of_any_length_are_transposed(world: &World) -> Result<()> {
    for team in some_teams(world)? {
        let (me, n) = (team.rank(), team.n_ranks());
        let given = |from: u32, to: u32| Some(text(from, 600 * to as usize)).filter(|_| to != 1);
        let got = team.all_to_all_values((0..n).map(|to| given(me, to)).collect())?;
        assert_eq!(got, (0..n).map(|from| given(from, me)).collect::<Vec<_>>());
        assert_panics("entries for", || {
            team.all_to_all_values(vec![1_u8; n as usize + 1])
        });
    }
    world.barrier()
}

fn values_are_combined_in_the_order_of_the_members(world: &World) -> Result<()> {
    let join = |a: String, b: String| a + &b;
    for team in some_teams(world)? {
        let (me, n) = (team.rank(), team.n_ranks());
        for len in LENGTHS {
            let of = |members: std::ops::Range<u32>| -> String {
                members.map(|m| text(m, len)).collect()
            };
            for root in 0..n {
                let all = team.reduce_values(root, text(me, len), join)?;
                assert_eq!(all, (me == root).then(|| of(0..n)));
            }
            assert_eq!(team.allreduce_values(text(me, len), join)?, of(0..n));
            assert_eq!(team.scan_values(text(me, len), join)?, of(0..me + 1));
            let before = team.scan_exclusive_values(text(me, len), "none".into(), join)?;
            let right = if me == 0 { "none".into() } else { of(0..me) };
            assert_eq!(before, right);
        }
        assert!(team.allreduce_values(me + 1 == n, Or)?, "the last member's");
        assert!(!team.allreduce_values(me + 1 != n, And)?);
        assert_eq!(team.reduce_values(0, true, And)?, (me == 0).then_some(true));
        assert!(!team.allreduce_values(false, |a: bool, b: bool| a || b)?);
    }
    world.barrier()
}

fn collectives_of_values_may_be_under_way_together(world: &World) -> Result<()> {
    let (me, n) = (world.rank(), world.n_ranks());
    let join = |a: String, b: String| a + &b;
    let mine = text(me.number(), 900);
    let last = Rank::new(n - 1);
    let begun: Vec<_> = (0..20)
        .map(|_| {
            (
                world.broadcast_value_nb(last, mine.clone()),
                world.gather_values_nb(Rank::ZERO, mine.clone()),
                world.allreduce_values_nb(mine.clone(), join),
            )
        })
        .collect();
    let all: Vec<_> = (0..n).map(|member| text(member, 900)).collect();
    // The waits are in another order than the calls.
    for (from_last, gathered, joined) in begun.into_iter().rev() {
        assert_eq!(joined.wait()?, all.concat());
        let expected = (me == Rank::ZERO).then(|| all.clone());
        assert_eq!(gathered.wait()?, expected);
        assert_eq!(from_last.wait()?, all[last.index()]);
    }
    let parts = || (0..n).map(|to| text(to, 40)).collect::<Vec<_>>();
    let scattered = world.scatter_values_nb(last, if me == last { parts() } else { Vec::new() });
    let exchanged = world.all_to_all_values_nb(parts());
    let gathered = world.allgather_values_nb(mine.clone());
    let reduced = world.reduce_values_nb(last, mine.clone(), join);
    assert_eq!(reduced.wait()?, (me == last).then(|| all.concat()));
    assert_eq!(gathered.wait()?, all);
    assert_eq!(exchanged.wait()?, vec![text(me.number(), 40); n as usize]);
    assert_eq!(scattered.wait()?, text(me.number(), 40));
    let before = world.scan_exclusive_values_nb(mine.clone(), String::new(), join);
    let before_me = (0..me.number()).map(|i| text(i, 900)).collect::<String>();
    assert_eq!(before.wait()?, before_me);
    // Dropped without a wait.
    drop(world.scan_values_nb(mine, join));
    world.barrier()
}
