//! The addresses by which other hosts may reach this one.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt as _;

/// The most addresses that a host tells others. A host of containers has one for each bridge.
pub const MOST: usize = 16;

/// Addresses for documentation, which no network has: what is sent there goes by the default route.
const ELSEWHERE: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];

/// This host's addresses, at most [`MOST`]: first those from which it sends by the default route,
/// the others in no order of preference. The loopback address is among them only if there is no
/// other one.
#[must_use]
pub fn own() -> Vec<IpAddr> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let four = of_version_4(&read("/proc/net/fib_trie"));
    let six = of_version_6(&read("/proc/net/if_inet6"));
    let mut all: Vec<IpAddr> = four.into_iter().map(IpAddr::V4).collect();
    all.extend(six.into_iter().map(IpAddr::V6));
    if all.is_empty() {
        all.push(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    kept(all, &ELSEWHERE.map(sends_from))
}

/// The first [`MOST`] addresses, with those that are `preferred` in front.
fn kept(mut all: Vec<IpAddr>, preferred: &[Option<IpAddr>]) -> Vec<IpAddr> {
    all.sort_by_key(|address| !preferred.contains(&Some(*address)));
    all.truncate(MOST);
    all
}

/// The one of this host's `own` addresses from which it reaches most of the addresses of `others`,
/// with a list for each rank: by it they reach this host. `from` is the address from which the
/// system sends to another one ([`sends_from`]). Addresses that several hosts have, or this one,
/// too, lead nowhere: those of bridges to containers and virtual machines are the same everywhere.
/// Where all lists are known to all hosts, all choose addresses of one version of IP, if every host
/// has some: version 4, unless a host's list begins with an address of version 6, as where it has
/// no default route but by that.
#[must_use]
pub fn towards(
    own: &[IpAddr],
    others: &[Vec<IpAddr>],
    from: impl Fn(IpAddr) -> Option<IpAddr>,
) -> Option<IpAddr> {
    let own_list = own.to_vec();
    let mut hosts: Vec<_> = others.iter().chain([&own_list]).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let mut n_hosts = HashMap::<IpAddr, u32>::new();
    for address in hosts.iter().copied().flatten() {
        *n_hosts.entry(*address).or_default() += 1;
    }
    let is_of_one = |address: &&IpAddr| n_hosts.get(*address) == Some(&1);
    let have_all = |is_of_it: fn(&IpAddr) -> bool| {
        let has = |list: &&Vec<IpAddr>| list.iter().filter(is_of_one).any(is_of_it);
        hosts.iter().all(has)
    };
    let mut versions: [fn(&IpAddr) -> bool; 2] = [IpAddr::is_ipv4, IpAddr::is_ipv6];
    if hosts
        .iter()
        .any(|list| list.first().is_some_and(IpAddr::is_ipv6))
    {
        versions.reverse();
    }
    let is_spoken = versions.into_iter().find(|version| have_all(*version));
    let is_spoken = is_spoken.unwrap_or(|_| true);
    let other_hosts = hosts.iter().filter(|list| ***list != own);
    let few = other_hosts.take(MOST_ASKED).copied().flatten();
    let few = few.filter(is_of_one).filter(|address| is_spoken(address));
    let used: Vec<_> = few.copied().filter_map(from).collect();
    let n_times = |address: &&IpAddr| used.iter().filter(|other| other == address).count();
    // The first of several, as `max_by_key` gives the last.
    let own = own.iter().filter(|address| is_spoken(address));
    own.rev().max_by_key(n_times).copied()
}

/// The hosts that are asked for, of many.
const MOST_ASKED: usize = 64;

/// The address from which the system sends to `address`, if it would. Sends nothing.
#[must_use]
pub fn sends_from(address: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((address, DISCARD)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// A network namespace: the boot of its system, in two words, and its number there. Zeros stand for
/// an unknown one.
pub type Network = [u64; 3];

/// The network namespace of this process.
#[must_use]
pub fn network() -> Network {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let boot = u128::from_str_radix(&boot.trim().replace('-', ""), 16);
    let space = fs::metadata("/proc/self/ns/net").map(|space| space.ino());
    let (Ok(boot), Ok(space)) = (boot, space) else {
        return Network::default();
    };
    let [high, low] = to_words(IpAddr::V6(Ipv6Addr::from_bits(boot)));
    [high, low, space]
}

/// Checks that `link`, which was to lead to a process in the network namespace `wanted`, has not
/// come back to this one. Other hosts have some of this host's addresses, for example those of
/// bridges to containers, and any user of this host may listen there.
///
/// # Errors
///
/// It has come back, or is no longer connected.
pub fn check_target(link: &TcpStream, wanted: Network) -> io::Result<()> {
    let (own, other) = (link.local_addr()?.ip(), link.peer_addr()?.ip());
    let is_wanted_here = wanted == network() && wanted != Network::default();
    if is_wanted_here || (own != other && !other.to_canonical().is_loopback()) {
        return Ok(());
    }
    let text = format!("{other} is an address of this host, too");
    Err(io::Error::new(io::ErrorKind::AddrInUse, text))
}

/// The port of the service that discards what it gets.
const DISCARD: u16 = 9;

/// The local addresses in the kernel's table of routes, `/proc/net/fib_trie`: each is a line with
/// the address, and behind it one that calls it local.
fn of_version_4(table: &str) -> Vec<Ipv4Addr> {
    let mut last = None;
    let mut found = Vec::new();
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse::<Ipv4Addr>().ok();
        } else if line.ends_with("host LOCAL")
            && let Some(address) = last.filter(|address| !address.is_loopback())
        {
            found.push(address);
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The addresses of global scope in `/proc/net/if_inet6`. A line has the address, the number of the
/// interface, the length of the prefix, the scope, flags, and the name of the interface.
fn of_version_6(table: &str) -> Vec<Ipv6Addr> {
    let global = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_global = words.get(3) == Some(&"00");
        u128::from_str_radix(words.first()?, 16)
            .ok()
            .filter(|_| is_global)
    });
    global.map(Ipv6Addr::from_bits).collect()
}

/// An address in two words.
#[must_use]
pub fn to_words(address: IpAddr) -> [u64; 2] {
    let bits = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    };
    let half = |shift: u32| u64::try_from(bits >> shift & u128::from(u64::MAX)).unwrap_or(0);
    [half(64), half(0)]
}

/// The address that [`to_words`] encoded; `None` for zeros.
#[must_use]
pub fn of_words([high, low]: [u64; 2]) -> Option<IpAddr> {
    let bits = u128::from(high) << 64 | u128::from(low);
    (bits != 0).then(|| IpAddr::V6(Ipv6Addr::from_bits(bits)).to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_the_default_route_is_kept_among_many() {
        let bridges = (0..20).map(|i| IpAddr::V4(Ipv4Addr::new(10, i, 0, 1)));
        let outward = IpAddr::V4(Ipv4Addr::new(192, 168, 1, 7));
        let all: Vec<_> = bridges.chain([outward]).collect();
        assert!(!kept(all.clone(), &[None]).contains(&outward));
        let kept = kept(all.clone(), &[Some(outward), None]);
        assert_eq!((kept.len(), kept[0]), (MOST, outward));
        assert_eq!(kept[1..], all[..MOST - 1]);
    }

    #[test]
    fn own_addresses_are_found_in_the_kernels_tables() {
        let table = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     \
                     |-- 127.0.0.1\n        /32 host LOCAL\n        |-- 192.0.2.7\n           /32 host LOCAL\n        \
                     |-- 192.0.2.255\n           /32 link BROADCAST\nLocal:\n     |-- 192.0.2.7\n        /32 host LOCAL\n";
        assert_eq!(of_version_4(table), [Ipv4Addr::new(192, 0, 2, 7)]);
        let table = "00000000000000000000000000000001 01 80 10 80       lo\n\
                     fe80000000000000004280fffe000001 02 40 20 80     eth0\n\
                     20010db8000000000000000000000007 02 40 00 80     eth0\n";
        let expected: Ipv6Addr = "2001:db8::7".parse().expect("an address");
        assert_eq!(of_version_6(table), [expected]);
        assert!(!own().is_empty());
    }

    fn list(texts: &[&str]) -> Vec<IpAddr> {
        let addresses = texts.iter().map(|text| text.parse().expect("an address"));
        addresses.collect()
    }

    /// As on hosts with Docker and libvirt, whose bridges have the same addresses everywhere.
    #[test]
    fn the_address_that_others_reach_is_not_one_of_a_bridge() {
        let own = list(&["172.17.0.1", "192.168.122.1", "192.168.200.4"]);
        let same = own.clone();
        let other = list(&["172.17.0.1", "172.18.0.1", "192.168.200.5"]);
        let third = list(&["10.0.0.7", "192.168.122.1", "192.168.200.6"]);
        // What is not in a network of this host goes to the gateway.
        let from = |to: IpAddr| {
            let is_near = to.to_string().starts_with("172.17.");
            Some(own[if is_near { 0 } else { 2 }])
        };
        let lists = [same.clone(), same, other.clone(), other, third];
        assert_eq!(towards(&own, &lists, from), Some(own[2]));
        // Nobody else, or nothing that is reached: the first.
        assert_eq!(towards(&own, &lists[..2], from), Some(own[0]));
        assert_eq!(towards(&own, &lists, |_| None), Some(own[0]));
        assert_eq!(towards(&[], &lists, from), None);
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(sends_from(loopback), Some(loopback));
    }

    #[test]
    fn all_hosts_choose_one_version_however_many_addresses_of_it_they_have() {
        let first = list(&["10.0.0.1", "2001:db8::1", "2001:db8::a:1"]);
        let second = list(&["10.0.0.2", "2001:db8::2"]);
        let third = list(&["2001:db8::3"]);
        let chosen = |hosts: &[&Vec<IpAddr>]| {
            let lists: Vec<_> = hosts.iter().copied().cloned().collect();
            let of_host = |own: &&Vec<IpAddr>| {
                let from = |to: IpAddr| {
                    let mut own = own.iter().copied();
                    own.find(|address| address.is_ipv4() == to.is_ipv4())
                };
                towards(own, &lists, from).expect("an address")
            };
            hosts.iter().map(of_host).collect::<Vec<_>>()
        };
        assert_eq!(chosen(&[&first, &second]), list(&["10.0.0.1", "10.0.0.2"]));
        let six = list(&["2001:db8::1", "2001:db8::2", "2001:db8::3"]);
        assert_eq!(chosen(&[&first, &second, &third]), six);
        // What several hosts have is no address of theirs.
        let bridge = list(&["172.17.0.1", "2001:db8::4"]);
        let other = list(&["172.17.0.1", "2001:db8::5"]);
        let six = list(&["2001:db8::4", "2001:db8::5"]);
        assert_eq!(chosen(&[&bridge, &other]), six);
        // Addresses of bridges that lead nowhere, on hosts whose route is by version 6.
        let docker = list(&["2001:db8::6", "172.17.0.1"]);
        let libvirt = list(&["2001:db8::7", "192.168.122.1"]);
        let six = list(&["2001:db8::6", "2001:db8::7"]);
        assert_eq!(chosen(&[&docker, &libvirt]), six);
        // Nothing in common: as well as it goes.
        let four = list(&["10.0.0.4"]);
        assert_eq!(chosen(&[&four, &third]), list(&["10.0.0.4", "2001:db8::3"]));
    }

    #[test]
    fn an_address_survives_its_words() {
        for text in ["192.0.2.1", "2001:db8::1"] {
            let address: IpAddr = text.parse().expect("an address");
            assert_eq!(of_words(to_words(address)), Some(address));
        }
        assert_eq!(of_words([0, 0]), None);
    }
}
