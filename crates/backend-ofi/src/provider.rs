//! The choice of a job's libfabric provider.

use pgas_core::{Error, Result};

use crate::sys::{self, Info};

/// The default providers, best first.
const ORDER: &[&str] = &["cxi", "efa", "psm3", "opx", "psm2", "verbs;ofi_rxm", TCP];

/// The provider over TCP, which every host has.
const TCP: &str = "tcp;ofi_rxm";

/// Providers that leave atomics to the card, although they report manual progress: by it
/// `cxi` means the completions of its own operations.
const IN_CARDS: &[&str] = &["cxi"];

/// The separator of names in a message.
const BETWEEN: char = '\n';

/// The providers that this rank can use, best first: those of `asked`, or the default ones. An
/// error if there is none.
pub(crate) fn candidates(asked: Option<&str>, node: &str) -> Result<Vec<Info>> {
    let Some(asked) = asked else {
        let mut found = sys::find(None, None)?;
        found.retain(|info| place_of(&info.provider()).is_some());
        found.sort_by_key(|info| place_of(&info.provider()));
        // Over TCP, libfabric is told which of the host's addresses to use.
        found.retain(|info| !is_over_tcp(&info.provider()));
        found.extend(sys::find(Some(TCP), Some(node))?);
        if found.is_empty() {
            let order = ORDER.join(", ");
            let mut text = format!("none of {order} is here; PGAS_OFI_PROVIDER names another one");
            for (name, lacked) in sys::unsuitable()? {
                text.push_str(&format!("; {name} lacks {}", lacked.join(", ")));
            }
            return Err(Error::backend("fi_getinfo", 0, text));
        }
        return Ok(found);
    };
    // To other providers the node means something else: `shm` takes it as a name of its own.
    let node = is_over_tcp(asked).then_some(node);
    let found = sys::find(Some(asked), node)?;
    if found.is_empty() {
        let mut known: Vec<String> = sys::find(None, None)?.iter().map(Info::provider).collect();
        known.sort();
        known.dedup();
        let known = known.join(", ");
        let reason = match sys::unsuitable()?.get(asked) {
            Some(lacked) => format!("it lacks {}; suitable are {known}", lacked.join(", ")),
            None => format!("there is no such provider here; suitable are {known}"),
        };
        return Err(Error::setting("PGAS_OFI_PROVIDER", asked, reason));
    }
    Ok(found)
}

/// The candidates' names, as a message.
pub(crate) fn names(candidates: &[Info]) -> Vec<u8> {
    let names: Vec<String> = candidates.iter().map(Info::provider).collect();
    names.join(&BETWEEN.to_string()).into_bytes()
}

/// The first of this rank's candidates that all ranks have, by the exchanged names.
pub(crate) fn choose(candidates: Vec<Info>, told: &[Vec<u8>]) -> Result<Info> {
    let told: Vec<String> = told
        .iter()
        .map(|names| String::from_utf8_lossy(names).into_owned())
        .collect();
    let all_have = |name: &str| {
        let mut lists = told.iter();
        lists.all(|names| names.split(BETWEEN).any(|other| other == name))
    };
    // In the order of the first rank's names, so that all choose the same.
    let first = told.first().map_or("", String::as_str);
    let chosen = first.split(BETWEEN).find(|name| all_have(name));
    let chosen =
        chosen.and_then(|name| candidates.into_iter().find(|info| info.provider() == name));
    chosen.ok_or_else(|| {
        let lists: Vec<String> = told
            .iter()
            .enumerate()
            .map(|(rank, names)| format!("rank {rank} has {}", names.replace(BETWEEN, ", ")))
            .collect();
        let text = format!("the ranks have no provider in common: {}", lists.join("; "));
        Error::backend("fi_getinfo", 0, text)
    })
}

/// Whether the provider executes atomics without the target's processor, as far as is known before
/// it is tried.
pub(crate) fn needs_no_target(info: &Info) -> bool {
    info.progresses_alone() || IN_CARDS.contains(&info.provider().as_str())
}

fn place_of(provider: &str) -> Option<usize> {
    ORDER.iter().position(|name| *name == provider)
}

fn is_over_tcp(provider: &str) -> bool {
    ["tcp", "net", "sockets", "udp"]
        .iter()
        .any(|name| provider == *name || provider.starts_with(&format!("{name};")))
}
