//! The loop of a wait for the network: the actions that are due between two polls in vain.

use std::thread;
use std::time::Duration;

use pgas_core::backend::Backend;
use pgas_core::{Error, Rank, Result};

use crate::limits::{Awaited, Limits, LongWait, Over, Rounds};
use crate::park::{Parking, Vain};

/// A wait that polls the network by itself.
#[derive(Debug)]
pub struct Waiting<'a> {
    rounds: Rounds,
    long: LongWait<'a>,
    vain: Vain,
    failure: Option<Error>,
}

impl<'a> Waiting<'a> {
    /// A wait of `rank`.
    #[must_use]
    pub fn new(limits: Limits, rank: Rank, awaited: Awaited<'a>) -> Self {
        Self {
            rounds: Rounds::default(),
            long: LongWait::new(limits, rank, awaited),
            vain: Vain::default(),
            failure: None,
        }
    }

    /// Records that something has arrived.
    #[inline]
    pub fn has_worked(&mut self) {
        self.vain = Vain::default();
    }

    /// The end of a round in which the awaited event did not come: looks at the job now and then,
    /// yields, and naps.
    ///
    /// # Errors
    ///
    /// That of `look`, and the end of the wait's limit; one round after it was found, since the
    /// awaited event may have come before.
    #[inline]
    pub fn turn(
        &mut self,
        network: &impl Backend,
        (parking, is_crowded): (&Parking, bool),
        look: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let round = self.rounds.turn(network.is_oversubscribed());
        if round.looks {
            self.failure = look().and_then(|()| self.check_limits(network)).err();
        }
        if round.yields {
            let may_nap = round.looks || self.vain.naps;
            if !(may_nap && parking.nap(&mut self.vain, Duration::MAX, is_crowded)) {
                thread::yield_now();
            }
        }
        Ok(())
    }

    fn check_limits(&mut self, network: &impl Backend) -> Result<()> {
        self.long.check().map_err(|over| match over {
            Over::Timeout(error) => error,
            Over::Stall(cause) => network.blame(network.rank(), &cause),
        })
    }
}
