//! Tasks of tokio's, which a driver serves.

use pgas_am::{Driver, RemoteCalls, attach};
use pgas_core::backend::SignalUpdate;
use pgas_core::collective::op::Sum;
use pgas_core::{Rank, Result, World};

use super::case;
use crate::Case;
use crate::support::neighbour;

pub(super) const CASES: &[Case] = &[case!(1, tasks_await_what_drivers_serve)];

fn tasks_await_what_drivers_serve(world: &World) -> Result<()> {
    attach(world)?;
    let n = u64::from(world.n_ranks());
    let cells = world.alloc_symmetric::<u64>(2)?;
    let (total, next) = (cells.on(Rank::ZERO), neighbour(world, 1));
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime of one thread needs nothing");
    // The second round is with a driver of its own.
    for round in 1..=2 {
        runtime.block_on(async {
            let driver = Driver::start(world)?;
            let calls = (0..20).map(|x| world.rpc(next, |x: u64| x + 1, x));
            let calls = calls.collect::<Result<Vec<_>>>()?;
            // Before the calls are over.
            total.atomic_add_nb(world, 1)?.await?;
            for (x, call) in (0..20).zip(calls) {
                assert_eq!(call.await?, x + 1);
            }
            assert_eq!(world.allreduce_nb(round, Sum).await?, n * round);
            assert_eq!(total.get_nb(world)?.await?, n * round);
            // A signal of the rank before, which comes while the driver sleeps, or before.
            let word = cells.on(next).add(1);
            let nothing: [u64; 0] = [];
            let signal = cells
                .here()
                .add(1)
                .wait_until_nb(world, move |n| n == round);
            word.put_signal(world, &nothing, word, SignalUpdate::Add(1))?;
            world.flush(next)?;
            assert_eq!(signal.await?, round);
            // Nobody adds for the next round before all have read.
            world.barrier_nb().await?;
            driver.stop().await
        })?;
    }
    world.barrier()
}
