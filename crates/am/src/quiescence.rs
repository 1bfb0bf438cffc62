//! Whether all asynchronous work is done, everywhere.
//!
//! Every rank counts the messages that it has sent and those that it has served. [`Rounds`] has what follows from the sums over all
//! ranks. An answered call counts as served when its answer is
//! back, so that no answer is under way either.

use pgas_core::World;
use pgas_core::collective::op::Sum;
use pgas_lockfree::tally::Rounds;

use crate::Result;
use crate::layer::am;

/// Waits until all messages that any rank has sent were served, those that handlers and remote functions have sent
/// meanwhile included, and all answers are back.
///
/// Progress: user level.
///
/// # Cost
///
/// Two or more reductions of three words. Collective over the world.
///
/// # Errors
///
/// What went wrong with a message, on all ranks; the failure of the job while waiting; inside a handler [`pgas_core::Error::InHandler`].
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
    if pgas_core::in_handler() {
        return Err(pgas_core::Error::InHandler { what }.into());
    }
    let am = am(world)?;
    let _waits = pgas_core::part_of(what);
    let mut rounds = Rounds::default();
    loop {
        let served = all_progress(world);
        let (n_sent, n_served) = am.tally.sums();
        let n_failed = u64::from(served.is_err());
        let mut sums = [n_sent + am.tasks.n_running(), n_served, n_failed];
        let summed = world.allreduce_slice(&mut sums, Sum);
        let [n_sent, n_served, n_failed] = sums;
        if n_failed > 0 && summed.is_ok() {
            // One that failed alone would leave the others behind.
            return Ok(world.team().all_succeeded(what, served)?);
        }
        served.and(summed)?;
        if rounds.are_over([n_sent, n_served]) {
            return Ok(());
        }
    }
}

/// Makes progress until there is none.
fn all_progress(world: &World) -> pgas_core::Result<()> {
    while world.progress()? {}
    Ok(())
}
