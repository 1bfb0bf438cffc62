//! The list of hosts, and the number of ranks of each.

/// A host that the user has named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) name: String,
    /// The number of ranks on it.
    pub(crate) n_ranks: u32,
}

/// Hosts of a list such as `a,b:4,[::1]:2`.
pub(crate) fn from_list(text: &str) -> Result<Vec<Host>, String> {
    let hosts = text.split(',').map(|item| host(item.trim()));
    merged(hosts.collect::<Result<_, _>>()?)
}

/// Hosts of a file: one a line, as in a list or as `name slots=4`, and comments behind `#`.
pub(crate) fn from_file(text: &str) -> Result<Vec<Host>, String> {
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        let found = match words[..] {
            [] => continue,
            [name] => host(name),
            [name, slots] if slots.starts_with("slots=") => {
                host(name).and_then(|named| sized(named.name, &slots["slots=".len()..]))
            }
            _ => Err(format!(
                "{:?} is not NAME, NAME:RANKS or NAME slots=RANKS",
                line.trim()
            )),
        };
        hosts.push(found.map_err(|error| format!("line {number}: {error}"))?);
    }
    merged(hosts)
}

/// Places `n_ranks` on the hosts, the first hosts first. Hosts without ranks are left out. Without
/// a number all places are taken.
pub(crate) fn place(mut hosts: Vec<Host>, n_ranks: Option<u32>) -> Result<Vec<Host>, String> {
    let n_places: u64 = hosts.iter().map(|host| u64::from(host.n_ranks)).sum();
    if n_places > u64::from(pgas_core::config::launch::MAX_RANKS) {
        return Err(format!(
            "the hosts have {n_places} places, which is too many"
        ));
    }
    let Some(mut left) = n_ranks else {
        return Ok(hosts);
    };
    if u64::from(left) > n_places {
        return Err(format!(
            "{left} ranks do not fit: the hosts have {n_places} places"
        ));
    }
    for host in &mut hosts {
        host.n_ranks = host.n_ranks.min(left);
        left -= host.n_ranks;
    }
    hosts.retain(|host| host.n_ranks > 0);
    Ok(hosts)
}

/// A host of `name`, `name:4`, `[address]` or `[address]:4`.
fn host(text: &str) -> Result<Host, String> {
    let (name, n_ranks) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, "")) => (name, "1"),
        Some((name, rest)) => (name, rest.strip_prefix(':').unwrap_or("")),
        None => text.split_once(':').unwrap_or((text, "1")),
    };
    sized(name.to_owned(), n_ranks)
}

fn sized(name: String, n_ranks: &str) -> Result<Host, String> {
    let is_odd =
        |letter: char| letter.is_whitespace() || letter.is_control() || matches!(letter, '[' | ']');
    // An agent would take a name with a leading hyphen for an option.
    if name.is_empty() || name.starts_with('-') || name.contains(is_odd) {
        return Err(format!("{name:?} is not the name of a host"));
    }
    match n_ranks.parse() {
        Ok(n_ranks @ 1..) => Ok(Host { name, n_ranks }),
        _ => Err(format!(
            "{name}:{n_ranks} is not a host and a number of ranks"
        )),
    }
}

/// Merges hosts of the same name, and adds their places.
fn merged(hosts: Vec<Host>) -> Result<Vec<Host>, String> {
    let mut all: Vec<Host> = Vec::new();
    for host in hosts {
        match all.iter_mut().find(|other| other.name == host.name) {
            Some(other) => other.n_ranks = other.n_ranks.saturating_add(host.n_ranks),
            None => all.push(host),
        }
    }
    if all.is_empty() {
        return Err("no host is named".to_owned());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(hosts: &[Host]) -> String {
        let hosts = hosts
            .iter()
            .map(|host| format!("{}={}", host.name, host.n_ranks));
        hosts.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn hosts_are_named_with_their_places() {
        let hosts = from_list("a,b:4,[fe80::1]:2, c,a:2").unwrap();
        assert_eq!(text(&hosts), "a=3 b=4 fe80::1=2 c=1");
        let hosts = from_file("# all\na\nb:2 # two\n\nc slots=3\n").unwrap();
        assert_eq!(text(&hosts), "a=1 b=2 c=3");
        assert_eq!(text(&place(hosts.clone(), Some(2)).unwrap()), "a=1 b=1");
        assert_eq!(text(&place(hosts.clone(), None).unwrap()), "a=1 b=2 c=3");
        let error = place(hosts, Some(7)).unwrap_err();
        assert_eq!(error, "7 ranks do not fit: the hosts have 6 places");
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for list in [
            "",
            ",",
            "a,,b",
            "a:0",
            "a:x",
            "-oProxyCommand=x",
            ":2",
            "[::1]2",
            "[::1",
            "[",
            "a]",
            "a b",
        ] {
            assert!(from_list(list).is_err(), "{list:?}");
        }
        for file in ["", "# none\n", "a b c", "a slots=", "a 4"] {
            assert!(from_file(file).is_err(), "{file:?}");
        }
        assert!(from_file("a\nb:\n").unwrap_err().starts_with("line 2: "));
    }
}
