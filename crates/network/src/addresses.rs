//! The addresses by which other hosts may reach this one.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The most addresses that a host tells others.
pub const MOST: usize = 8;

/// This host's addresses, at most [`MOST`], in no order of preference. The loopback address is
/// among them only if there is no other one.
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
    all.truncate(MOST);
    all
}

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

    #[test]
    fn an_address_survives_its_words() {
        for text in ["192.0.2.1", "2001:db8::1"] {
            let address: IpAddr = text.parse().expect("an address");
            assert_eq!(of_words(to_words(address)), Some(address));
        }
        assert_eq!(of_words([0, 0]), None);
    }
}
