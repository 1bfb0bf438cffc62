//! Ranks of several hosts meet through a launcher that speaks PMIx: Open MPI's `mpirun`, PRRTE's
//! `prun`, Slurm's with `--mpi=pmix`.
//!
//! Each rank puts its bytes under a key of its own. All ranks meet in a fence that distributes the
//! bytes, and each rank gets those of the others. The ranks need their launcher for that alone, and
//! say good-bye to it as soon as they have a network. The launcher still ends the job if one of
//! them ends with an error.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use pgas_core::config::launch::Place;
use pgas_core::{Config, Error, Rank, Result};
use pgas_network::limits::{Awaited, Limits, LongWait, Over};

use super::Way;
use crate::sys::pmix::Client;

/// The interval at which a wait for the other ranks checks its limits.
const LOOK: Duration = Duration::from_millis(200);

/// A rank's connection to its launcher.
pub(crate) struct Pmix {
    client: Client,
    rank: u32,
    n_ranks: u32,
    limits: Limits,
    /// The number of completed exchanges.
    round: u32,
}

impl Pmix {
    /// Introduces this process to its launcher. `place` is that by the launcher's variables, if
    /// they have one.
    pub(crate) fn connect(place: Option<Place>, config: &Config) -> Result<Self> {
        let client = Client::start()?;
        let (rank, n_ranks) = (client.rank(), client.n_ranks()?);
        let this = Self {
            client,
            rank,
            n_ranks,
            limits: Limits::new(config),
            round: 0,
        };
        // A client without a launcher is a job of its own.
        match place {
            Some(place) if (place.rank, place.n_ranks) != (rank, n_ranks) => {
                let text = format!(
                    "PMIx takes rank {} of {} for rank {rank} of {n_ranks}",
                    place.rank, place.n_ranks
                );
                this.finish()?;
                Err(Error::backend("PMIx_Init", 0, text))
            }
            _ => Ok(this),
        }
    }

    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    /// Says good-bye to the launcher: there will be no further exchange.
    pub(crate) fn finish(self) -> Result<()> {
        self.client.finish()
    }

    /// Waits until all ranks are here.
    fn meet(&self) -> Result<()> {
        let awaited = Awaited {
            what: "the launcher and the other ranks to meet",
            missing: &Vec::new,
        };
        let mut long = LongWait::new(self.limits, Rank::new(self.rank), awaited);
        let fence = self.client.begin_fence()?;
        loop {
            match fence.0.recv_timeout(LOOK) {
                Ok(status) => return self.client.check_fence(status),
                Err(RecvTimeoutError::Timeout) => long.check().map_err(|over| match over {
                    Over::Timeout(error) => error,
                    Over::Stall(cause) => Error::rank_failed(Rank::new(self.rank), cause),
                })?,
                Err(RecvTimeoutError::Disconnected) => {
                    let text = "the launcher has forgotten the ranks' meeting";
                    return Err(Error::backend("PMIx_Fence_nb", 0, text));
                }
            }
        }
    }
}

impl Way for Pmix {
    fn n_ranks(&self) -> u32 {
        self.n_ranks
    }

    fn exchange(&mut self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        let key = format!("pgas-{}", self.round);
        self.client.put(&key, own)?;
        self.meet()?;
        self.round += 1;
        let all = (0..self.n_ranks).map(|rank| {
            if rank == self.rank {
                return Ok(own.to_vec());
            }
            self.client.get(rank, &key)
        });
        all.collect()
    }
}
