//! Detects that all asynchronous work of all ranks is done.
//!
//! Every rank counts the messages that it has sent and those that it has served. [`Rounds`] draws
//! the conclusion from the sums over all ranks. An answered call counts as served when its answer
//! has arrived, so no answer is in flight either.

use pgas_core::collective::op::Sum;
use pgas_core::{Rank, World};
use pgas_lockfree::message_counts::Rounds;

use crate::state::am;
use pgas_core::{Error, Result};

/// Waits until all messages of all ranks have been served, including those that handlers and remote
/// functions send meanwhile, until all answers are back, and until the actions chained to them have
/// run. It does not wait for promises and collectives, which only the program can complete, nor for
/// actions chained to these alone. But it waits for [`when_any`](crate::when_any) of promises, since
/// the answer of a call may fulfil one.
///
/// Progress: user level.
///
/// # Cost
///
/// Two or more allreduces of four words. Collective over the world.
///
/// # Errors
///
/// [`Error::Undelivered`] on all ranks, if any rank has lost one-way calls since the last `quiet`,
/// or received malformed messages; all other work is done then. The failure of the job while
/// waiting; [`Error::Timeout`], which fails the job, since the others do not know of it; inside a
/// handler [`Error::InHandler`]. Once all is done, an error of a handler of this rank that no call
/// has [returned](World::check_handlers).
///
/// # Examples
///
/// ```
/// use pgas_am::{RemoteCalls, quiet};
///
/// # let world = pgas_core::backend::loopback::world();
/// # pgas_am::attach(&world)?;
/// let word = world.alloc::<u64>(1)?;
/// # let here = pgas_am::Here::new(&world);
/// world.rpc_ff(world.rank(), |(here, word): (pgas_am::Here, pgas_core::GlobalPtr<u64>)| {
///     word.put(here.world(), 7).expect("this rank's own word");
/// }, (here, word))?;
/// quiet(&world)?;
/// assert_eq!(word.get(&world)?, 7);
/// # Ok::<(), pgas_am::Error>(())
/// ```
#[track_caller]
pub fn quiet(world: &World) -> Result<()> {
    let what = "the end of all asynchronous work";
    pgas_core::refuse_in_handler(what)?;
    let am = am(world)?;
    let waits = pgas_core::part_of(what);
    let _step = world.in_step(what);
    let _tells = am.lost.tells_errors();
    let mut waiting = world.own_wait(what).with_short_rounds();
    let missing = || am.pending.awaited().into_iter().map(Rank::new).collect();
    let mut rounds = Rounds::default();
    let mut before = None;
    loop {
        let served = all_progress(world);
        // Read before the messages: a transfer may send some before it is over.
        let n_transfers = am.transfers.n_running();
        let (n_sent, n_served) = am.message_counts.sums();
        let n_lost = am.lost.n();
        let n_failed = u64::from(served.is_err());
        let mut sums = [n_sent + n_transfers, n_served, n_lost, n_failed];
        let summed = world.allreduce_slice(&mut sums, Sum);
        let [sums @ .., n_all_lost, n_failed] = sums;
        if n_failed > 0 && summed.is_ok() {
            // All ranks fail together: one that failed alone would leave the others waiting.
            return world.team().all_succeeded(what, served);
        }
        served.and(summed)?;
        let was_idle = before.replace(sums) == Some(sums);
        if rounds.are_over(sums) {
            if n_all_lost == 0 {
                break;
            }
            let lost = am.lost.tell(world, n_lost, n_all_lost)?;
            return Err(Error::from(Box::new(lost)));
        }
        if was_idle {
            // Nothing has changed since the last round: this is a long wait, although each of its
            // rounds is short.
            let paused = waiting.pause(&missing);
            // The others are in the next round.
            paused.map_err(|error| world.give_up(what, error))?;
        } else {
            waiting.begin_anew();
        }
    }
    drop(waits);
    world.check_handlers()
}

/// Makes progress until there is none.
fn all_progress(world: &World) -> Result<()> {
    while world.serve()? {}
    Ok(())
}
