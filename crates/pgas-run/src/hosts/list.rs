//! The list of hosts, and the number of ranks of each.

use std::collections::HashMap;
use std::net::Ipv6Addr;

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

/// Hosts of a file: one a line, as in a list or as `name slots=4 max_slots=8`, and comments behind
/// `#`. This is Open MPI's syntax. A host gets at most `max_slots` ranks, even if other lines name
/// it again.
pub(crate) fn from_file(text: &str) -> Result<Vec<Host>, String> {
    let mut hosts = Vec::new();
    let mut limits: HashMap<String, u32> = HashMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        // Open MPI permits blanks around the sign.
        let spaced = line.replace('=', " = ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let Some((name, options)) = words.split_first() else {
            continue;
        };
        let (host, limit) = host_of_line(name, options)
            .map_err(|error| format!("line {number}: {:?}: {error}", line.trim()))?;
        if let Some(limit) = limit {
            let least = limits.entry(host.name.clone()).or_insert(limit);
            *least = limit.min(*least);
        }
        hosts.push(host);
    }
    let mut hosts = merged(hosts)?;
    for host in &mut hosts {
        let limit = limits.get(&host.name).copied().unwrap_or(u32::MAX);
        host.n_ranks = host.n_ranks.min(limit);
    }
    Ok(hosts)
}

/// The host of a line, and the most ranks that it may get, if the line limits them.
fn host_of_line(name: &str, options: &[&str]) -> Result<(Host, Option<u32>), String> {
    let (mut slots, mut limit) = (None, None);
    for option in options.chunks(3) {
        let (place, number) = match *option {
            ["slots", "=", number] => (&mut slots, number),
            ["max_slots" | "max-slots", "=", number] => (&mut limit, number),
            _ => return Err("is not NAME, NAME:RANKS or NAME slots=RANKS max_slots=RANKS".into()),
        };
        if place.replace(number_of_ranks(number)?).is_some() {
            return Err("has a number twice".to_owned());
        }
    }
    let host = match (slots, name_and_number(name)) {
        // Next to `slots=` an address needs no brackets.
        (Some(n_ranks), _) if is_address(name) => Host {
            name: name.to_owned(),
            n_ranks,
        },
        (Some(_), Ok((_, Some(_)))) => return Err("has a number twice".to_owned()),
        (Some(n_ranks), named) => Host {
            n_ranks,
            name: named?.0,
        },
        (None, _) => host(name)?,
    };
    Ok((host, limit))
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
    let (name, n_ranks) = name_and_number(text)?;
    let n_ranks = n_ranks.unwrap_or(1);
    Ok(Host { name, n_ranks })
}

/// The name, and the number of ranks behind it if there is one.
fn name_and_number(text: &str) -> Result<(String, Option<u32>), String> {
    if is_address(text) {
        return Err(format!(
            "{text}: an IPv6 address needs brackets, as in [::1]:4"
        ));
    }
    let (name, number) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, "")) => (name, None),
        Some((name, rest)) => (name, Some(rest.strip_prefix(':').unwrap_or(""))),
        None => text
            .split_once(':')
            .map_or((text, None), |(name, number)| (name, Some(number))),
    };
    let is_odd = |letter: char| {
        letter.is_whitespace() || letter.is_control() || matches!(letter, '[' | ']' | '=')
    };
    // An agent would take a name with a leading hyphen for an option.
    if name.is_empty() || name.starts_with('-') || name.contains(is_odd) {
        return Err(format!("{name:?} is not the name of a host"));
    }
    let number = number.map(|number| number_of_ranks(number).map_err(|e| format!("{name}: {e}")));
    Ok((name.to_owned(), number.transpose()?))
}

fn number_of_ranks(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(n_ranks @ 1..) => Ok(n_ranks),
        _ => Err(format!("{text:?} is not a number of ranks")),
    }
}

/// Whether it is an IPv6 address, perhaps with a zone (`fe80::1%eth0`).
fn is_address(text: &str) -> bool {
    let address = text.split_once('%').map_or(text, |(address, _)| address);
    address.parse::<Ipv6Addr>().is_ok()
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
    fn files_have_the_syntax_of_open_mpi() {
        let file = "# all\n\n  a\t slots=4 max_slots=2\r\nb max-slots = 3 slots =5 # less\n\
                    c:4 max_slots=9\nd max_slots=2\n::1 slots=2\n[fe80::1%eth0]:3\n";
        let hosts = from_file(file).unwrap();
        assert_eq!(text(&hosts), "a=2 b=3 c=4 d=1 ::1=2 fe80::1%eth0=3");
        // Lines of one host add up, to the least of its limits.
        let file = "a slots=2 max_slots=5\nb\na:2\na slots=9 max_slots=7\n[::1]\n::1 slots=1";
        assert_eq!(text(&from_file(file).unwrap()), "a=5 b=1 ::1=2");
        let error = place(from_file("a slots=4 max_slots=2").unwrap(), Some(3)).unwrap_err();
        assert_eq!(error, "3 ranks do not fit: the hosts have 2 places");
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
            "::1",
            "fe80::1%eth0",
        ] {
            assert!(from_list(list).is_err(), "{list:?}");
        }
        for file in [
            "",
            "# none\n",
            "a b c",
            "a slots=",
            "a 4",
            "a=4",
            "a slots=0",
            "a max_slots=0",
            "a max_slots=-1",
            "a slots=1 slots=1",
            "a:2 slots=2",
            "a slots=2 max_slots",
            "a slot=2",
            "= slots=2",
            "::1 max_slots=2",
            "[::1]:2 slots=2",
        ] {
            assert!(from_file(file).is_err(), "{file:?}");
        }
        let error = from_file("a\nb:\n").unwrap_err();
        assert_eq!(error, "line 2: \"b:\": b: \"\" is not a number of ranks");
    }
}
