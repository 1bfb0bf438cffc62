//! Joins a job of several hosts: the ranks of each host, its memory, and connections that show
//! which hosts are alive.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use pgas_core::{Config, Error, Rank, Result};
use pgas_network::addresses;
use pgas_network::host::Host;
use pgas_network::introduction::Elder;
use pgas_network::lifeline::{Lifeline, elders_of};
use pgas_smp::launcher::{self, MeetError};
use pgas_smp::{JobMemory, Member, create_job};

use crate::bootstrap::{Way, agree, gather};
use crate::connect::{compare, open};
use crate::network::Network;

/// Joins as `rank`, and returns the settings that all ranks have agreed on, too. Collective.
pub(crate) fn join(way: &mut dyn Way, rank: u32, config: &Config) -> Result<(Network, Config)> {
    launcher::die_with_parent().map_err(|error| Error::os("prctl", error))?;
    let config = agreed_settings(way, config)?;
    let host = meet_the_host(way, rank)?;
    let member = join_memory(way, &host, &config)?;
    let node = own_node(way)?;
    let (mut state, segments) = open(way, (&member, rank), &node, &config)?;
    state.lifeline = connect_hosts(way, &host, rank, &config)?;
    let network = Network::new(state, segments, member, (host, rank), &config);
    Ok((network, config))
}

/// The address of this host by which the others reach it.
fn own_node(way: &mut dyn Way) -> Result<String> {
    let own = addresses::own();
    let all = gather(way, Ok(in_bytes(&own)))?;
    let others: Vec<_> = all.iter().map(|said| of_bytes(said)).collect();
    let node = addresses::towards(&own, &others, addresses::sends_from);
    Ok(node.map_or_else(|| "127.0.0.1".to_owned(), |node| node.to_string()))
}

fn in_bytes(addresses: &[IpAddr]) -> Vec<u8> {
    let words = addresses.iter().copied().flat_map(addresses::to_words);
    words.flat_map(u64::to_ne_bytes).collect()
}

fn of_bytes(said: &[u8]) -> Vec<IpAddr> {
    let pairs = said.chunks_exact(16).filter_map(|pair| {
        let (high, low) = (pair.first_chunk()?, pair.last_chunk()?);
        addresses::of_words([u64::from_ne_bytes(*high), u64::from_ne_bytes(*low)])
    });
    pairs.collect()
}

/// The settings with the segment's size filled in; fails where the ranks' differ.
fn agreed_settings(way: &mut dyn Way, config: &Config) -> Result<Config> {
    compare(way, "PGAS_DIRECT", if config.direct { "1" } else { "0" })?;
    let check = config.check.unwrap_or(false);
    compare(way, "PGAS_CHECK", if check { "1" } else { "0" })?;
    let wanted = config.segment_bytes;
    let text = wanted.map_or_else(|| "not set".to_owned(), |bytes| bytes.to_string());
    compare(way, "PGAS_SEGMENT", &text)?;
    let mut config = config.clone();
    if wanted.is_none() {
        let own = pgas_smp::segment_bytes(way.n_ranks(), &config);
        let all = gather(way, own.map(|bytes| bytes.to_ne_bytes().to_vec()))?;
        let all = all
            .iter()
            .filter_map(|bytes| bytes.as_slice().try_into().ok());
        // The segment size that the smallest host offers.
        config.segment_bytes = all.map(u64::from_ne_bytes).min();
    }
    Ok(config)
}

/// A random number, drawn by rank 0 for all. It becomes part of the name of a socket, which all
/// users of the host can read.
fn agreed_name(way: &mut dyn Way) -> Result<u64> {
    // The standard library's hashers begin with random numbers of the system.
    let own = RandomState::new().hash_one(0);
    let all = gather(way, Ok(own.to_ne_bytes().to_vec()))?;
    let first = all
        .first()
        .and_then(|first| first.as_slice().try_into().ok());
    let first = first.map(u64::from_ne_bytes);
    first.ok_or_else(|| Error::backend("start-up", 0, "rank 0 has told no name"))
}

/// The ranks that share this host.
fn meet_the_host(way: &mut dyn Way, rank: u32) -> Result<Host> {
    let own = identity();
    let all = gather(way, Ok(own.clone().into_bytes()))?;
    let here = all.iter().enumerate();
    let here = here.filter(|(_, other)| **other == own.as_bytes());
    let ranks: Vec<u32> = here
        .filter_map(|(rank, _)| u32::try_from(rank).ok())
        .collect();
    let index = ranks.binary_search(&rank);
    let index = u32::try_from(index.expect("a rank shares its own host"));
    Ok(Host::new(ranks.into(), index.expect("not more than ranks")))
}

/// The identity of processes that can share memory and see each other: the same start of the same
/// system, and the name spaces of networks and processes.
fn identity() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = |name: &str| {
        let space = fs::read_link(format!("/proc/self/ns/{name}"));
        space.map_or_else(|_| String::new(), |path| path.display().to_string())
    };
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!(
        "{} {} {} {}",
        host.trim(),
        boot.trim(),
        space("net"),
        space("pid")
    )
}

/// The memory of this host's ranks, which their first one makes; collective.
fn join_memory(way: &mut dyn Way, host: &Host, config: &Config) -> Result<Member> {
    let name = agreed_name(way)?;
    let n_local = host.n_ranks();
    let memory = (host.index() == 0).then(|| create_job(n_local, config));
    let memory = agree(way, memory.transpose())?;
    let key = format!("ofi {name:016x} {}", host.rank_of(0));
    let memory = agree(way, share(host, key, memory))?;
    agree(way, Member::join(memory, host.index(), config))
}

/// Passes the first rank's memory to all ranks of the host.
fn share(host: &Host, key: String, memory: Option<JobMemory>) -> Result<JobMemory> {
    let no_memory = || MeetError::System {
        doing: "no memory to share",
        source: std::io::ErrorKind::NotFound.into(),
    };
    launcher::share(host.index(), host.n_ranks(), key, |_| {
        memory.ok_or_else(no_memory)
    })
    .map_err(|error: MeetError| Error::backend("start-up", 0, error.to_string()))
}

/// Connects the first ranks of hosts, to notice when hosts are gone. Collective.
fn connect_hosts(
    way: &mut dyn Way,
    host: &Host,
    rank: u32,
    config: &Config,
) -> Result<Option<Lifeline>> {
    let is_first = host.index() == 0;
    // Without a socket the others get no port, and warn.
    let listener = config
        .silence
        .filter(|_| is_first)
        .and_then(|_| Lifeline::listen().ok());
    let own = is_first.then(|| Elder::new(rank, listener.as_ref()).to_words());
    let own = own.into_iter().flatten().flat_map(u64::to_ne_bytes);
    let all = gather(way, Ok(own.collect()))?;
    let firsts: Vec<Elder> = all.iter().filter_map(|said| elder(said)).collect();
    let mut lifeline = listener
        .zip(config.silence)
        .map(|(listener, silence)| Lifeline::new(listener, (rank, host.describe()), silence));
    if let Some(lifeline) = &mut lifeline {
        let here = firsts
            .iter()
            .position(|first| first.rank == rank)
            .unwrap_or(0);
        lifeline.connect(elders_of(here).map(|elder| firsts[elder].clone()));
    }
    // Twice, so that connected hosts are answered before anything else happens, and have received
    // the answer.
    for _ in 0..2 {
        let found = lifeline.as_mut().and_then(|lifeline| lifeline.look(None));
        let failure = found.map(|(rank, cause)| Error::rank_failed(Rank::new(rank), cause));
        agree(way, failure.map_or(Ok(()), Err))?;
    }
    Ok(lifeline)
}

/// The introduction of a host by its first rank; the others say nothing.
fn elder(said: &[u8]) -> Option<Elder> {
    let words = said.chunks_exact(8).filter_map(|word| word.try_into().ok());
    let words: Vec<u64> = words.map(u64::from_ne_bytes).collect();
    Elder::of_words(&words)
}
