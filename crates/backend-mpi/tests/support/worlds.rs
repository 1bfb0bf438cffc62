//! The worlds that cases of the suite run in, beside the one that starts MPI.

use mpi::topology::SimpleCommunicator;
use pgas_conformance::Case;
use pgas_core::{Config, Result, World};

/// With two ranks each case has a world of its own. With more, cases share a world if they can:
/// where ranks share processors, making a window takes longer than most cases.
pub(crate) struct Worlds {
    settings: Config,
    comm: SimpleCommunicator,
    may_share: bool,
    shared: Vec<World>,
}

impl Worlds {
    /// Worlds beside `first`. They have `settings` unless a case asks for others.
    pub(crate) fn new(first: &World, settings: Config) -> Self {
        Self {
            settings,
            comm: SimpleCommunicator::world(),
            may_share: first.n_ranks() > 2,
            shared: Vec::new(),
        }
    }

    /// Runs the case. Collective.
    ///
    /// # Errors
    ///
    /// Those of `init_on`. An error that the case does not expect aborts the job.
    pub(crate) fn run(&mut self, case: &Case) -> Result<()> {
        let config = case.config(self.settings.clone());
        let fits = |world: &&World| world.config().check == config.check;
        let may_share = self.may_share && !case.alone;
        let shared = self.shared.iter().find(fits).filter(|_| may_share);
        let is_shared = shared.is_some();
        let world = match shared {
            Some(world) => world.clone(),
            None => pgas_mpi::init_on(&self.comm, &config)?,
        };
        assert_eq!(world.config().timeout, config.timeout, "its own settings");
        if let Err(error) = (case.run)(&world) {
            world.abort(1, &format!("fails in {}: {error}", case.name));
        }
        if may_share && !is_shared {
            self.shared.push(world);
        }
        Ok(())
    }
}
