//! Whether all asynchronous work is done, everywhere.
//!
//! Every rank counts the messages that it has sent and those that it has served. All work is done when the sums over all
//! ranks are equal, and were the same in the round before: the four-counter method of Mattern, "Algorithms for
//! distributed termination detection" (1987). An answered call counts as served when its answer is
//! back, so that no answer is under way either.

use pgas_core::World;
use pgas_core::collective::op::Sum;

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

/// The sums of what was sent and what was served, of one round after the other.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    before: Option<[u64; 2]>,
}

impl Rounds {
    /// Whether all work is done, with the `sums` of another round.
    pub(crate) fn are_over(&mut self, sums: [u64; 2]) -> bool {
        let is_as_before = self.before.replace(sums) == Some(sums);
        is_as_before && sums[0] == sums[1]
    }
}
