//! The invitation that an agent gets by its standard input: the addresses of the launcher, and the
//! tokens by which the two know each other.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, Read as _};
use std::net::SocketAddr;
use std::time::Duration;

use super::wire::Token;

/// The launcher and its hosts must be of one version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// All that a host needs to join the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invitation {
    /// The host's token, and the launcher's.
    pub(crate) tokens: [Token; 2],
    pub(crate) host: u32,
    /// The addresses at which the launcher listens.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The time in which the two must connect.
    pub(crate) patience: Duration,
    /// The time without a sign of life after which the other side counts as lost, if any.
    pub(crate) silence: Option<Duration>,
}

/// Random bytes of the system.
pub(crate) fn new_token() -> io::Result<Token> {
    let mut token = Token::default();
    File::open("/dev/urandom")?.read_exact(&mut token)?;
    Ok(token)
}

/// Whether two tokens are equal, in a time that does not depend on their contents.
pub(crate) fn is_same(one: &[u8], other: &Token) -> bool {
    let difference = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && difference == 0
}

impl Invitation {
    /// A line for each part.
    pub(crate) fn to_text(&self) -> String {
        let token = |token: Token| u128::from_le_bytes(token);
        let [own, launcher] = self.tokens.map(token);
        // What is too long for the reader is as good as the longest.
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let silence = millis(self.silence.unwrap_or_default());
        let mut text = format!(
            "pgas-run {VERSION}\n{own:032x}\n{launcher:032x}\n{}\n{}\n{silence}\n",
            self.host,
            millis(self.patience),
        );
        for address in &self.addresses {
            writeln!(text, "{address}").expect("text grows");
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
        let token = |line: String| u128::from_str_radix(&line, 16).map(u128::to_le_bytes);
        let garbled = || "standard input has no invitation of a launcher".to_owned();
        let tokens = [token(line()?), token(line()?)];
        let [Ok(own), Ok(launcher)] = tokens else {
            return Err(garbled());
        };
        let host = line()?.parse().map_err(|_| garbled())?;
        let patience = line()?.parse().map_err(|_| garbled())?;
        let silence = line()?.parse().map_err(|_| garbled())?;
        let mut addresses = Vec::new();
        loop {
            match line()?.as_str() {
                "." => break,
                address => addresses.push(address.parse().map_err(|_| garbled())?),
            }
        }
        Ok(Self {
            tokens: [own, launcher],
            host,
            addresses,
            patience: Duration::from_millis(patience),
            silence: (silence > 0).then(|| Duration::from_millis(silence)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_is_read_as_it_was_written() {
        let invitation = Invitation {
            tokens: [new_token().unwrap(), new_token().unwrap()],
            host: 3,
            addresses: vec!["192.0.2.1:7".parse().unwrap(), "[::1]:9".parse().unwrap()],
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
        let [own, launcher] = invitation.tokens;
        assert!(is_same(&own, &own) && !is_same(&own, &launcher) && !is_same(&[], &own));
    }
}
