//! Opens the network: the choice of a provider, the exchange of addresses, and the settings on
//! which all ranks must agree.

use pgas_core::{Config, Error, Result};
use pgas_smp::Member;

use crate::bootstrap::{Way, agree, gather};
use crate::executor;
use crate::network::{N_COMPLETIONS, State};
use crate::outbox::SLOT_BYTES;
use crate::provider;
use crate::segment::Segments;
use crate::sys::Endpoint;

/// Opens the network, at this host's address `node`; collective.
pub(crate) fn open(
    way: &mut dyn Way,
    (member, rank): (&Member, u32),
    node: &str,
    config: &Config,
) -> Result<(State, Segments)> {
    let asked = config.ofi_provider.as_deref();
    compare(way, "PGAS_OFI_PROVIDER", asked.unwrap_or("not set"))?;
    let candidates = provider::candidates(asked, node);
    let names = candidates.as_ref().map(|found| provider::names(found));
    let told = gather(way, names.map_err(Clone::clone))?;
    let chosen = provider::choose(candidates?, &told);
    let n_ranks = way.n_ranks();
    let asked = config.ofi_atomics;
    let prepared = |info| executor::prepared(info, asked);
    let open = |info| Endpoint::open(prepared(info), n_ranks, N_COMPLETIONS, SLOT_BYTES);
    let endpoint = chosen.and_then(open);
    let mut endpoint = agree(way, endpoint)?;
    let (segments, exposed) = Segments::open(&mut endpoint, member, way)?;
    // No rank begins before all have posted receives.
    let state = State::new(endpoint, exposed, (rank, n_ranks));
    let state = executor::decide(way, state, (&segments, rank), asked)?;
    Ok((state, segments))
}

/// Fails where the ranks' settings differ; collective.
pub(crate) fn compare(way: &mut dyn Way, name: &'static str, own: &str) -> Result<()> {
    let all = gather(way, Ok(own.as_bytes().to_vec()))?;
    let Some(other) = all.iter().position(|other| *other != all[0]) else {
        return Ok(());
    };
    let text = |rank: usize| String::from_utf8_lossy(&all[rank]).into_owned();
    let (first, second) = (text(0), text(other));
    let reason = format!(
        "all ranks must have the same, but rank 0 has {first} and rank {other} has {second}"
    );
    Err(Error::setting(name, own, reason))
}
