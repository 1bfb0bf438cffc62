//! The sockets at which hosts connect. A connection with a host's token for this socket is accepted
//! as that of the host.

use std::io::{self, ErrorKind, Write as _};
use std::mem;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use pgas_network::addresses;
use rustix::io::Errno;

use super::invitation::{Tokens, is_same};
use super::wire::{Found, HELLO_BYTES, HOST_TAKEN, Inbox, MAGIC, Token, WELCOME, WRONG_TOKEN};
use crate::watch::View;

/// The time that a new connection has to introduce itself, and the most of them at a time.
const INTRODUCTION: Duration = Duration::from_secs(10);
const MAX_STRANGERS: usize = 64;

/// The launcher's sockets, and the connections that have not introduced themselves.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) listeners: Vec<TcpListener>,
    pub(super) strangers: Vec<Stranger>,
    /// For each host, the tokens that are valid at each listener. A process at an address that
    /// leads hosts elsewhere gets tokens that are worth nothing at the other ones.
    tokens: Vec<Vec<Tokens>>,
    has_told: bool,
    /// The view above which lines are printed.
    view: View,
}

/// A connection that has not introduced itself.
#[derive(Debug)]
pub(super) struct Stranger {
    pub(super) stream: TcpStream,
    from: SocketAddr,
    /// The number of the listener that has accepted it.
    listener: usize,
    inbox: Inbox,
    since: Instant,
}

/// A host that has connected.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) host: usize,
    pub(super) stream: TcpStream,
    pub(super) from: SocketAddr,
    /// The token that it expects.
    answer: Token,
}

impl Door {
    /// Sockets at the addresses where hosts may reach this one, on ports that the system chooses.
    pub(super) fn open(told: &[IpAddr], n_hosts: usize, view: View) -> Result<Self, String> {
        let found = addresses::own();
        let (mut listeners, mut last) = (Vec::new(), None);
        for address in if told.is_empty() { &found } else { told } {
            // Non-blocking: a connection may be gone before it is accepted.
            let opened = TcpListener::bind((*address, 0));
            let opened = opened.and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok(listener)
            });
            match opened {
                Ok(listener) => listeners.push(listener),
                Err(error) if !told.is_empty() => {
                    return Err(format!("--bind {address}: {error}"));
                }
                Err(error) => last = Some(format!("cannot listen at {address}: {error}")),
            }
        }
        if listeners.is_empty() {
            return Err(last.unwrap_or_else(|| "this host has no address".to_owned()));
        }
        let of_host = |_| listeners.iter().map(|_| Tokens::new()).collect();
        let tokens: io::Result<_> = (0..n_hosts).map(of_host).collect();
        Ok(Self {
            tokens: tokens.map_err(|error| format!("cannot draw tokens: {error}"))?,
            listeners,
            strangers: Vec::new(),
            has_told: false,
            view,
        })
    }

    /// For each host, the addresses, and the tokens that are valid there.
    pub(super) fn places(&self) -> io::Result<Vec<Vec<(SocketAddr, Tokens)>>> {
        let addresses = self.listeners.iter().map(TcpListener::local_addr);
        let addresses: Vec<SocketAddr> = addresses.collect::<io::Result<_>>()?;
        let of_host = |tokens: &Vec<Tokens>| {
            let places = addresses.iter().copied().zip(tokens.iter().copied());
            places.collect()
        };
        Ok(self.tokens.iter().map(of_host).collect())
    }

    /// Accepts a connection.
    ///
    /// # Errors
    ///
    /// That of the system if it has nothing left for connections. The connection then waits, and
    /// the listener stays ready.
    pub(super) fn accept(&mut self, listener: usize) -> io::Result<()> {
        let (stream, from) = match self.listeners[listener].accept() {
            Ok(accepted) => accepted,
            Err(error) if is_shortage(&error) => return Err(error),
            // The connection is gone again.
            Err(_) => return Ok(()),
        };
        if self.strangers.len() < MAX_STRANGERS {
            self.strangers.push(Stranger {
                stream,
                from,
                listener,
                inbox: Inbox::default(),
                since: Instant::now(),
            });
        }
        Ok(())
    }

    /// Accepts no connections any more.
    pub(super) fn close(&mut self) {
        self.listeners.clear();
    }

    /// Reads from the connections that are `ready`, and returns the hosts among them.
    pub(super) fn meet(&mut self, ready: &[bool]) -> Vec<Guest> {
        let mut guests = Vec::new();
        for (index, mut stranger) in mem::take(&mut self.strangers).into_iter().enumerate() {
            if ready.get(index) == Some(&true)
                && !matches!(stranger.inbox.fill(&stranger.stream), Ok(Found::Open))
            {
                continue;
            }
            match stranger.inbox.take(HELLO_BYTES) {
                Some(hello) => guests.extend(self.judge(stranger, &hello)),
                None if stranger.since.elapsed() < INTRODUCTION => self.strangers.push(stranger),
                None => {}
            }
        }
        guests
    }

    /// Accepts the connection as that of a host, or refuses it.
    fn judge(&mut self, stranger: Stranger, hello: &[u8]) -> Option<Guest> {
        let Stranger { stream, from, .. } = stranger;
        let (magic, rest) = hello.split_at(MAGIC.len());
        let (token, number) = rest.split_at(size_of::<Token>());
        let number = number.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        let host = number.and_then(|number| usize::try_from(number).ok());
        let host = host.filter(|_| magic == MAGIC).and_then(|host| {
            let valid = self.tokens.get(host)?.get(stranger.listener)?;
            is_same(token, &valid.host).then_some((host, valid.launcher))
        });
        if let Some((host, answer)) = host {
            // It has come again if the launcher was stopped when it first did.
            return is_open(&stream).then_some(Guest {
                host,
                stream,
                from,
                answer,
            });
        }
        say(&stream, WRONG_TOKEN, &Token::default()).ok();
        if !mem::replace(&mut self.has_told, true) {
            self.view
                .tell(&format!("refused {from}, which has not this job's token"));
        }
        None
    }
}

impl Guest {
    /// Refuses a second connection of the same host.
    pub(super) fn turn_away(&self) {
        // The other side may be gone.
        say(&self.stream, HOST_TAKEN, &self.answer).ok();
    }

    /// Accepts the host's connection.
    pub(super) fn welcome(self) -> io::Result<TcpStream> {
        say(&self.stream, WELCOME, &self.answer)?;
        Ok(self.stream)
    }
}

/// Whether the other side has not closed the connection, on which it says nothing more so far.
fn is_open(stream: &TcpStream) -> bool {
    let looked = stream
        .set_nonblocking(true)
        .and_then(|()| stream.peek(&mut [0]));
    let is_open = looked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    is_open && stream.set_nonblocking(false).is_ok()
}

/// Whether it is an error of the system, and not one of the connection.
fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| shortages.contains(&errno))
}

/// The cause of the job's failure if hosts have not connected, and there is this shortage.
pub(super) fn cannot_accept(shortage: &io::Error) -> String {
    let behind = match Errno::from_io_error(shortage) {
        Some(Errno::MFILE) => {
            ": each host takes some, and no more are allowed; raise `ulimit -Hn`, or name fewer \
             hosts"
        }
        _ => "",
    };
    format!("cannot accept the connections of hosts: {shortage}{behind}")
}

fn say(mut stream: &TcpStream, verdict: u8, token: &Token) -> io::Result<()> {
    stream.write_all(&[&[verdict][..], token].concat())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::Ipv4Addr;

    use super::*;
    use crate::hosts::wire::VERDICT_BYTES;

    const PLACES: [IpAddr; 2] = [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)),
    ];

    /// Presents `token` at a listener as a host does, and returns the guest and the connection.
    fn present(
        door: &mut Door,
        listener: usize,
        host: u32,
        token: Token,
    ) -> (Option<Guest>, TcpStream) {
        let address = door.listeners[listener].local_addr().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let hello = [&MAGIC[..], &token, &host.to_le_bytes()].concat();
        stream.write_all(&hello).unwrap();
        while door.strangers.is_empty() {
            door.accept(listener).unwrap();
        }
        let guest = door.meet(&[true]).pop();
        assert!(door.strangers.is_empty());
        (guest, stream)
    }

    fn verdict(mut stream: TcpStream) -> (u8, Token) {
        let mut bytes = [0; VERDICT_BYTES];
        stream.read_exact(&mut bytes).unwrap();
        (bytes[0], *bytes.last_chunk().unwrap())
    }

    #[test]
    fn a_token_is_valid_for_one_host_at_one_address() {
        let mut door = Door::open(&PLACES, 2, View::none()).unwrap();
        let places = door.places().unwrap();
        for (host, listener) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            for (whose, place) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let tokens = places[whose][place].1;
                let claimed = u32::try_from(host).unwrap();
                let (guest, stream) = present(&mut door, listener, claimed, tokens.host);
                if (whose, place) == (host, listener) {
                    let guest = guest.unwrap();
                    assert_eq!(guest.host, host);
                    guest.turn_away();
                    assert_eq!(verdict(stream), (HOST_TAKEN, tokens.launcher));
                } else {
                    assert!(guest.is_none());
                    assert_eq!(verdict(stream), (WRONG_TOKEN, Token::default()));
                }
            }
        }
        let (guest, _) = present(&mut door, 0, 2, places[0][0].1.host);
        assert!(guest.is_none(), "there is no such host");
    }
}
