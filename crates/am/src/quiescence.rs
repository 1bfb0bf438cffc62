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
/// Two or more reductions of two words. Collective over the world.
///
/// # Errors
///
/// The failure of the job while waiting; inside a handler [`pgas_core::Error::InHandler`].
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
        while world.progress()? {}
        let (n_sent, n_served) = am.tally.sums();
        let mut sums = [n_sent + am.tasks.n_running(), n_served];
        world.allreduce_slice(&mut sums, Sum)?;
        if rounds.are_over(sums) {
            return Ok(());
        }
    }
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
