//! How a host introduces itself to those that will connect to it: where it listens, and the secrets
//! by which the two know each other.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::{IpAddr, TcpListener};

use crate::addresses::{self, Network};

/// Random bytes that only processes of one job know.
pub type Secret = [u8; 16];

/// A new secret.
///
/// # Errors
///
/// Errors of the system.
pub fn new_secret() -> io::Result<Secret> {
    let mut secret = Secret::default();
    File::open("/dev/urandom")?.read_exact(&mut secret)?;
    Ok(secret)
}

/// The socket to which later hosts connect.
#[derive(Debug)]
pub struct Listener {
    pub(crate) socket: TcpListener,
    pub(crate) secrets: Secrets,
}

/// What a host that connects to another one sends, and what it gets as the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Secrets {
    pub(crate) call: Secret,
    pub(crate) answer: Secret,
}

/// The introduction of a host to the hosts that connect to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elder {
    /// Its first rank.
    pub rank: u32,
    /// The port where it listens; 0 if it does not.
    pub(crate) port: u16,
    pub(crate) network: Network,
    pub(crate) secrets: Secrets,
    pub(crate) addresses: Vec<IpAddr>,
}

impl Elder {
    /// The most words of an introduction.
    pub const N_WORDS: usize = Self::N_FIXED + 2 * addresses::MOST;
    /// The rank, the port, the network, and two secrets.
    const N_FIXED: usize = 9;

    /// The introduction of this host, by the first of its ranks. Without a socket others cannot
    /// connect to it, and warn.
    #[must_use]
    pub fn new(rank: u32, listener: Option<&Listener>) -> Self {
        let address = listener.and_then(|listener| listener.socket.local_addr().ok());
        Self {
            rank,
            port: address.map_or(0, |address| address.port()),
            network: addresses::network(),
            secrets: listener.map_or_else(Secrets::default, |listener| listener.secrets),
            addresses: addresses::own(),
        }
    }

    /// The introduction as numbers, at most [`N_WORDS`](Self::N_WORDS). Zeros may follow.
    #[must_use]
    pub fn to_words(&self) -> Vec<u64> {
        let mut words = vec![u64::from(self.rank), u64::from(self.port)];
        words.extend(self.network);
        for secret in [self.secrets.call, self.secrets.answer] {
            words.extend(secret.as_chunks().0.iter().copied().map(u64::from_ne_bytes));
        }
        let addresses = self.addresses.iter().copied();
        words.extend(addresses.flat_map(addresses::to_words));
        words
    }

    /// Reads what [`to_words`](Self::to_words) made.
    #[must_use]
    pub fn of_words(words: &[u64]) -> Option<Self> {
        let (fixed, found) = words.split_first_chunk::<{ Self::N_FIXED }>()?;
        let [rank, port, boot, boot_too, space, secrets @ ..] = *fixed;
        let secret = |words: [u64; 2]| {
            let mut secret = Secret::default();
            let halves = words.map(u64::to_ne_bytes);
            secret.copy_from_slice(halves.as_flattened());
            secret
        };
        let [a, b, c, d] = secrets;
        let found = found.chunks_exact(2);
        let found = found.filter_map(|words| addresses::of_words([words[0], words[1]]));
        Some(Self {
            rank: u32::try_from(rank).ok()?,
            port: u16::try_from(port).ok()?,
            network: [boot, boot_too, space],
            secrets: Secrets {
                call: secret([a, b]),
                answer: secret([c, d]),
            },
            addresses: found.collect(),
        })
    }
}
