//! Joins the job of the launcher that started the process.

use std::sync::{Arc, Mutex};

use pgas_core::backend::Backend;
use pgas_core::config::launch::{Launcher, Place};
use pgas_core::{Config, Error, Result, World, process};
use pgas_network::host::Host;

use crate::bootstrap::{OneHost, Pmi, Pmix};
use crate::connect::open;
use crate::hosts;
use crate::network::Network;

/// Joins the job that `config.launcher` describes. In a process that has joined already it returns
/// another handle on that world ([`process::join_once`]).
///
/// A job on several hosts needs a launcher that speaks PMI-1 (`pgas-run --hosts`, MPICH's, `srun
/// --mpi=pmi2`) or PMIx (Open MPI's `mpirun`, PRRTE's `prun`, `srun --mpi=pmix`); for PMIx its
/// client library is loaded. A job on one host is started as with the shared-memory backend. With
/// the direct path ([`Config::direct`]) it uses shared memory alone. Without it, all but a rank's
/// own memory is reached over libfabric.
///
/// # Errors
///
/// As the shared-memory backend's `init`; if libfabric or PMIx is not installed; if libfabric has
/// no provider of the kind that is needed; if memory cannot be registered; if ranks have different
/// settings; errors of the launcher.
pub fn init(config: &Config) -> Result<World> {
    process::join_once(|| match &config.launcher {
        Launcher::Pmi { place, pmi_fd } if place.n_local_ranks != Some(place.n_ranks) => {
            by_pmi(*place, *pmi_fd, config)
        }
        Launcher::OpenMpi { place, .. } | Launcher::Slurm { place, .. } if place.spans_hosts() => {
            by_pmix(Some(*place), config)
        }
        Launcher::Pmix => by_pmix(None, config),
        _ => on_one_host(config),
    })
}

fn by_pmi(place: Place, pmi_fd: i32, config: &Config) -> Result<World> {
    let mut pmi = Pmi::connect(pmi_fd, place, config)?;
    let (mut network, config) = hosts::join(&mut pmi, place.rank, config)?;
    network.launcher = Some(Mutex::new(pmi));
    World::new(Arc::new(network), config)
}

fn by_pmix(place: Option<Place>, config: &Config) -> Result<World> {
    let connected = Pmix::connect(place, config);
    let mut pmix = connected.map_err(|error| no_way(&config.launcher, &error))?;
    let rank = pmix.rank();
    let (network, config) = hosts::join(&mut pmix, rank, config)?;
    pmix.finish()?;
    World::new(Arc::new(network), config)
}

/// The error of ranks that cannot meet through their launcher's PMIx.
#[cold]
fn no_way(launcher: &Launcher, error: &Error) -> Error {
    let hint = match launcher {
        Launcher::Slurm { .. } => "`srun --mpi=pmi2`, `mpiexec.hydra`",
        _ => "`mpiexec.hydra`",
    };
    let text = format!(
        "ranks of several hosts meet by PMIx or by PMI-1: {error}; the latter is spoken by {hint} \
         and `pgas-run --hosts`"
    );
    Error::backend("start-up", 0, text)
}

fn on_one_host(config: &Config) -> Result<World> {
    let member = pgas_smp::member(config)?;
    if config.direct {
        return World::new(Arc::new(member), config.clone());
    }
    let rank = member.rank().number();
    let opened = open(
        &mut OneHost::new(&member, config),
        (&member, rank),
        "127.0.0.1",
        config,
    );
    let (state, segments) = opened?;
    let host = Host::new((0..member.n_ranks()).collect(), rank);
    let network = Network::new(state, segments, member, (host, rank), config);
    World::new(Arc::new(network), config.clone())
}
