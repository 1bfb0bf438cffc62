//! From what started the process to a world: which network, whose addresses, and what all ranks must agree on.

use std::sync::Arc;

use pgas_core::backend::Backend;
use pgas_core::{Config, Error, Result, World, process};
use pgas_smp::Member;

use crate::bootstrap::Meeting;
use crate::network::{N_COMPLETIONS, Network, State};
use crate::provider;
use crate::segment::Segments;
use crate::sys::Endpoint;

/// Joins the job that `config.launcher` describes, all of whose ranks are on this host; in a process that has joined
/// already it gives another handle on that world ([`process::join_once`]).
///
/// With the direct path ([`Config::direct`]) such a job is in shared memory alone. Without it, all but a rank's own
/// memory is reached over libfabric.
///
/// # Errors
///
/// As the shared-memory backend's `init`; a libfabric that is not there, or has no provider of the kind that is needed;
/// memory that cannot be registered; ranks with different settings.
pub fn init(config: &Config) -> Result<World> {
    process::join_once(|| {
        let member = pgas_smp::member(config)?;
        if config.direct {
            return World::new(Arc::new(member), config.clone());
        }
        World::new(Arc::new(connect(member, config)?), config.clone())
    })
}

/// Opens the network; collective.
fn connect(member: Member, config: &Config) -> Result<Network> {
    let meeting = Meeting::of_one_host(&member, config);
    agree(&meeting, config)?;
    let candidates = provider::candidates(config.ofi_provider.as_deref(), meeting.node());
    let names = candidates.as_ref().map(|found| provider::names(found));
    let told = meeting.gather(names.map_err(Clone::clone))?;
    let chosen = provider::choose(candidates?, &told);
    let n_ranks = member.n_ranks();
    let endpoint = chosen.and_then(|info| Endpoint::open(info, n_ranks, N_COMPLETIONS));
    meeting.gather(endpoint.as_ref().map(|_| Vec::new()).map_err(Clone::clone))?;
    let mut endpoint = endpoint?;
    let (segments, exposed) = Segments::open(&mut endpoint, &member, &meeting)?;
    let rank = member.rank().number();
    let state = State::new(endpoint, exposed, (rank, n_ranks))?;
    // Receives are posted now, everywhere.
    meeting.gather(Ok(Vec::new()))?;
    let host = meeting.host();
    Ok(Network::new(state, segments, member, (host, rank), config))
}

/// Fails where the ranks' settings differ.
fn agree(meeting: &Meeting<'_>, config: &Config) -> Result<()> {
    let provider = config.ofi_provider.as_deref().unwrap_or("not set");
    let all = meeting.gather(Ok(provider.as_bytes().to_vec()))?;
    let other = all.iter().position(|other| *other != all[0]);
    let Some(other) = other else {
        return Ok(());
    };
    let text = |rank: usize| String::from_utf8_lossy(&all[rank]).into_owned();
    let (first, second) = (text(0), text(other));
    let reason = format!(
        "all ranks must have the same, but rank 0 has {first} and rank {other} has {second}"
    );
    Err(Error::setting("PGAS_OFI_PROVIDER", provider, reason))
}
