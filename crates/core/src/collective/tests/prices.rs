//! The messages that collectives cost, counted: as many as their documented rounds, or fewer.

use crate::backend::loopback;
use crate::collective::op;
use crate::handler::as_handler;
use crate::{Config, Rank, Result, Statistics, Team, World};

const N_RANKS: u32 = 13;
/// Rounded up.
const LOG: u64 = 4;
const N: usize = N_RANKS as usize;

/// A collective, and the most messages that a member sends for it. In a tree to the root that is
/// one, in however many rounds; of a reduction member 0 sends the result on, if another is the
/// root.
type Row = (&'static str, u64, fn(&Team) -> Result<()>);

/// A root that is not member 0.
const ROOT: u32 = 5;
/// The same of the world.
const RANK: Rank = Rank::new(ROOT);

const ROWS: &[Row] = &[
    ("barrier", LOG, |team| team.barrier()),
    ("barrier_nb", LOG, |team| team.barrier_nb().wait()),
    ("broadcast", LOG, |team| team.broadcast(ROOT, 0).map(drop)),
    ("broadcast_nb", LOG, |team| {
        team.broadcast_nb(ROOT, 0).wait().map(drop)
    }),
    ("broadcast_slice", LOG, |team| {
        team.broadcast_slice(ROOT, &mut [0; 9])
    }),
    ("broadcast_slice_nb", LOG, |team| {
        team.broadcast_slice_nb(ROOT, vec![0; 9]).wait().map(drop)
    }),
    ("reduce", 1, |team| team.reduce(0, 0, op::Sum).map(drop)),
    ("reduce to another member", 1, |team| {
        team.reduce(ROOT, 0, op::Sum).map(drop)
    }),
    ("reduce_nb", 1, |team| {
        team.reduce_nb(0, 0, op::Sum).wait().map(drop)
    }),
    ("reduce_slice", 1, |team| {
        team.reduce_slice(0, &[0; 9], op::Sum).map(drop)
    }),
    ("reduce_slice_nb", 1, |team| {
        team.reduce_slice_nb(0, vec![0; 9], op::Sum)
            .wait()
            .map(drop)
    }),
    // Three among the eight of a power of two, and one with the result for a member beyond it.
    ("allreduce", LOG, |team| {
        team.allreduce(0, op::Sum).map(drop)
    }),
    ("allreduce_nb", LOG, |team| {
        team.allreduce_nb(0, op::Sum).wait().map(drop)
    }),
    ("allreduce_slice", LOG, |team| {
        team.allreduce_slice(&mut [0; 9], op::Sum)
    }),
    ("allreduce_slice_nb", LOG, |team| {
        team.allreduce_slice_nb(vec![0; 9], op::Sum)
            .wait()
            .map(drop)
    }),
    ("gather", 1, |team| team.gather(ROOT, &[0]).map(drop)),
    ("gather_nb", 1, |team| {
        team.gather_nb(ROOT, vec![0]).wait().map(drop)
    }),
    ("allgather", LOG, |team| team.allgather(&[0]).map(drop)),
    ("allgather_nb", LOG, |team| {
        team.allgather_nb(vec![0]).wait().map(drop)
    }),
    ("all_to_all", LOG, |team| team.all_to_all(&[0; N]).map(drop)),
    ("all_to_all_nb", LOG, |team| {
        team.all_to_all_nb(vec![0; N]).wait().map(drop)
    }),
    ("all_to_all of long blocks", 12, |team| {
        team.all_to_all(&[0_u64; N * 40]).map(drop)
    }),
    ("scan_inclusive", LOG, |team| {
        team.scan_inclusive(0, op::Sum).map(drop)
    }),
    ("scan_inclusive_nb", LOG, |team| {
        team.scan_inclusive_nb(0, op::Sum).wait().map(drop)
    }),
    ("scan_inclusive_slice", LOG, |team| {
        team.scan_inclusive_slice(&mut [0; 9], op::Sum)
    }),
    ("scan_exclusive", LOG, |team| {
        team.scan_exclusive(0, 0, op::Sum).map(drop)
    }),
    ("scan_exclusive_nb", LOG, |team| {
        team.scan_exclusive_nb(0, 0, op::Sum).wait().map(drop)
    }),
    ("scan_exclusive_slice", LOG, |team| {
        team.scan_exclusive_slice(&mut [0; 9], 0, op::Sum)
    }),
    ("scan_inclusive_slice_nb", LOG, |team| {
        let scan = team.scan_inclusive_slice_nb(vec![0; 9], op::Sum);
        scan.wait().map(drop)
    }),
    ("scan_exclusive_slice_nb", LOG, |team| {
        let scan = team.scan_exclusive_slice_nb(vec![0; 9], 0, op::Sum);
        scan.wait().map(drop)
    }),
    ("scatter", 12, |team| team.scatter(ROOT, &[0; N]).map(drop)),
    ("scatter_nb", 12, |team| {
        team.scatter_nb(ROOT, vec![0; N]).wait().map(drop)
    }),
    ("scatter_varying", 12, |team| {
        team.scatter_varying(ROOT, &vec![some(team); N]).map(drop)
    }),
    ("scatter_varying_nb", 12, |team| {
        let scattered = team.scatter_varying_nb(ROOT, vec![some(team); N]);
        scattered.wait().map(drop)
    }),
    ("gather_varying", 2, |team| {
        team.gather_varying(ROOT, &some(team)).map(drop)
    }),
    ("gather_varying_nb", 2, |team| {
        team.gather_varying_nb(ROOT, some(team)).wait().map(drop)
    }),
    ("allgather_varying", 2 * LOG, |team| {
        team.allgather_varying(&some(team)).map(drop)
    }),
    ("allgather_varying_nb", 2 * LOG, |team| {
        team.allgather_varying_nb(some(team)).wait().map(drop)
    }),
    ("all_to_all_varying", 12, |team| {
        team.all_to_all_varying(&vec![some(team); N]).map(drop)
    }),
    ("all_to_all_varying_nb", 12, |team| {
        team.all_to_all_varying_nb(vec![some(team); N])
            .wait()
            .map(drop)
    }),
    ("all_succeeded", LOG, |team| {
        team.all_succeeded("a step", Ok(()))
    }),
    ("all_try", LOG, |team| team.all_try("a step", || Ok(()))),
    ("all_try_reduce", LOG, |team| {
        team.all_try_reduce("a step", || Ok(1), op::Sum).map(drop)
    }),
    ("agree, without comparison", 0, |team| {
        team.agree("a number", 1)
    }),
    ("agree_on, without comparison", 0, |team| {
        team.agree_on("a choice", &["a"], 0)
    }),
    ("agree_nb, without comparison", 0, |team| {
        team.agree_nb("a number", 1).wait()
    }),
    ("split", LOG, |team| team.split(Some(0), 0).map(drop)),
    ("reorder", LOG, |team| team.reorder(0).map(drop)),
    ("split_host", LOG, |team| team.split_host().map(drop)),
    ("reclaim", LOG, |team| team.reclaim()),
    ("World::reduce", 1, |team| {
        team.world().reduce(RANK, 0, op::Sum).map(drop)
    }),
    ("World::gather", 1, |team| {
        team.world().gather(RANK, &[0]).map(drop)
    }),
    ("World::reclaim", LOG, |team| team.world().reclaim()),
];

/// As many values as the member's number says.
fn some(team: &Team) -> Vec<u64> {
    vec![7; team.rank() as usize]
}

#[test]
fn barriers_that_are_refused_are_not_counted() {
    let config = Config {
        statistics: Statistics::Total,
        ..Config::default()
    };
    loopback::run_with(2, &config, |world: World| {
        let alone = world.team().split(Some(world.rank().number()), 0);
        let alone = alone.unwrap().unwrap();
        let refused = as_handler(|| [alone.barrier_within(), alone.barrier_nb().wait()]);
        assert!(refused.iter().all(Result::is_err), "{refused:?}");
        assert_eq!(world.costs().barriers, 0);
        alone.barrier_within().unwrap();
        assert_eq!(world.costs().barriers, 1);
    });
}

#[test]
fn collectives_cost_as_many_messages_as_their_documentation_says() {
    let config = Config {
        statistics: Statistics::Total,
        ..Config::default()
    };
    let mut wrong = Vec::new();
    for (call, most, run) in ROWS {
        let sent = loopback::run_with(N_RANKS, &config, |world: World| {
            let before = world.costs().messages;
            run(&world.team()).unwrap();
            world.costs().messages - before
        });
        let sent = sent.into_iter().max().unwrap();
        if sent != *most {
            wrong.push(format!("{call}: {sent}, and not {most}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
