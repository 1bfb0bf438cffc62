//! From what started the process to a world.

use std::sync::Arc;

use pgas_core::backend::Backend;
use pgas_core::config::launch::Launcher;
use pgas_core::{Config, Error, Result, World, process};
use pgas_network::host::Host;

use crate::bootstrap::OneHost;
use crate::connect::open;
use crate::hosts;
use crate::network::Network;

/// Joins the job that `config.launcher` describes; in a process that has joined already it gives
/// another handle on that world ([`process::join_once`]).
///
/// The ranks of a job on several hosts are those of a launcher that speaks PMI-1, as
/// `pgas-run --hosts`, MPICH's and Slurm's (`srun --mpi=pmi2`) do. One on a single host is started
/// as for the shared-memory backend, and with the direct path ([`Config::direct`]) it is in shared
/// memory alone. Without it, all but a rank's own memory is reached over libfabric.
///
/// # Errors
///
/// As the shared-memory backend's `init`; a libfabric that is not there, or has no provider of the
/// kind that is needed; memory that cannot be registered; ranks with different settings; what the
/// launcher reports.
pub fn init(config: &Config) -> Result<World> {
    process::join_once(|| match &config.launcher {
        Launcher::Pmi { place, pmi_fd } if place.n_local_ranks != Some(place.n_ranks) => {
            let (network, config) = hosts::join(*place, *pmi_fd, config)?;
            World::new(Arc::new(network), config)
        }
        Launcher::OpenMpi { place, .. } | Launcher::Slurm { place, .. } if place.spans_hosts() => {
            Err(no_pmi(&config.launcher))
        }
        _ => on_one_host(config),
    })
}

/// Ranks of several hosts whose launcher gives them no way to meet.
#[cold]
fn no_pmi(launcher: &Launcher) -> Error {
    let (who, how) = match launcher {
        Launcher::Slurm { .. } => ("srun", "`srun --mpi=pmi2`, "),
        _ => ("mpirun", ""),
    };
    let text = format!(
        "ranks of several hosts meet by PMI-1, which this {who} does not speak: start them by \
         {how}`mpiexec.hydra` or `pgas-run --hosts`"
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
