//! The invitation that an agent gets by its standard input: the addresses of the launcher, and for
//! each the tokens by which the two know each other.

use std::fmt::Write as _;
use std::io::{self, BufRead, Read as _};
use std::net::SocketAddr;
use std::time::Duration;

use pgas_network::addresses::Network;
use pgas_network::introduction::new_secret;

use super::wire::Token;

/// The launcher and its hosts must be of one version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// All that a host needs to join the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invitation {
    pub(crate) host: u32,
    /// The launcher's network namespace.
    pub(crate) network: Network,
    /// The addresses at which the launcher listens, each with the tokens that are valid there for
    /// this host.
    pub(crate) places: Vec<(SocketAddr, Tokens)>,
    /// The time in which the two must connect.
    pub(crate) patience: Duration,
    /// The time without a sign of life after which the other side counts as lost, if any.
    pub(crate) silence: Option<Duration>,
}

/// The token that a host presents at one address, and the launcher's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub(crate) host: Token,
    pub(crate) launcher: Token,
}

impl Tokens {
    /// Random bytes of the system.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            host: new_secret()?,
            launcher: new_secret()?,
        })
    }
}

/// Whether two tokens are equal, in a time that does not depend on their contents.
pub(crate) fn is_same(one: &[u8], other: &Token) -> bool {
    let difference = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && difference == 0
}

impl Invitation {
    /// A line for each part.
    pub(crate) fn to_text(&self) -> String {
        // What is too long for the reader is as good as the longest.
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let silence = millis(self.silence.unwrap_or_default());
        let [high, low, space] = self.network;
        let mut text = format!(
            "pgas-run {VERSION}\n{}\n{}\n{silence}\n{high:x} {low:x} {space:x}\n",
            self.host,
            millis(self.patience),
        );
        for (address, tokens) in &self.places {
            let [host, launcher] = [tokens.host, tokens.launcher].map(u128::from_le_bytes);
            writeln!(text, "{address} {host:032x} {launcher:032x}").expect("text grows");
        }
        text.push_str(".\n");
        text
    }

    /// Reads what [`to_text`](Self::to_text) wrote.
    pub(crate) fn read(from: &mut impl BufRead) -> Result<Self, String> {
        let mut lines = from.take(1 << 16).lines();
        let mut line = || match lines.next() {
            Some(Ok(line)) => Ok(line),
            _ => Err("standard input ended before the launcher's invitation".to_owned()),
        };
        let version = line()?;
        if version != format!("pgas-run {VERSION}") {
            return Err(format!(
                "the launcher says {version:?}, and this is {VERSION}"
            ));
        }
        let garbled = || "standard input has no invitation of a launcher".to_owned();
        let host = line()?.parse().map_err(|_| garbled())?;
        let patience = line()?.parse().map_err(|_| garbled())?;
        let silence = line()?.parse().map_err(|_| garbled())?;
        let network = network_of(&line()?).ok_or_else(garbled)?;
        let mut places = Vec::new();
        loop {
            match line()?.as_str() {
                "." => break,
                place => places.push(place_of(place).ok_or_else(garbled)?),
            }
        }
        Ok(Self {
            host,
            network,
            places,
            patience: Duration::from_millis(patience),
            silence: (silence > 0).then(|| Duration::from_millis(silence)),
        })
    }
}

fn network_of(line: &str) -> Option<Network> {
    let words = line.split(' ').map(|word| u64::from_str_radix(word, 16));
    words.collect::<Result<Vec<_>, _>>().ok()?.try_into().ok()
}

fn place_of(line: &str) -> Option<(SocketAddr, Tokens)> {
    let token = |word| u128::from_str_radix(word, 16).map(u128::to_le_bytes).ok();
    let words: Vec<&str> = line.split(' ').collect();
    let [address, host, launcher] = words[..] else {
        return None;
    };
    let (host, launcher) = (token(host)?, token(launcher)?);
    Some((address.parse().ok()?, Tokens { host, launcher }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_is_read_as_it_was_written() {
        let invitation = Invitation {
            host: 3,
            network: [u64::MAX, 0, 7],
            places: vec![
                ("192.0.2.1:7".parse().unwrap(), Tokens::new().unwrap()),
                ("[::1]:9".parse().unwrap(), Tokens::new().unwrap()),
            ],
            patience: Duration::from_secs(30),
            silence: None,
        };
        let longest = Invitation {
            patience: Duration::MAX,
            silence: Some(Duration::MAX),
            ..invitation.clone()
        };
        let read = Invitation::read(&mut longest.to_text().as_bytes()).unwrap();
        assert!(Some(read.patience) == read.silence && read.patience > invitation.patience);
        let text = invitation.to_text();
        assert_eq!(
            Invitation::read(&mut text.as_bytes()),
            Ok(invitation.clone())
        );
        for end in 0..text.len() - 1 {
            assert!(Invitation::read(&mut &text.as_bytes()[..end]).is_err());
        }
        let other = text.replace(VERSION, "0.0.0");
        let error = Invitation::read(&mut other.as_bytes()).unwrap_err();
        assert!(
            error.contains("0.0.0") && error.contains(VERSION),
            "{error}"
        );
        let Tokens { host, launcher } = invitation.places[0].1;
        assert!(is_same(&host, &host) && !is_same(&host, &launcher) && !is_same(&[], &host));
    }
}
