//! The sockets at which hosts connect. A connection with the job's token is accepted as a host's.

use std::io::{self, ErrorKind, Write as _};
use std::mem;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use pgas_network::addresses;
use rustix::io::Errno;

use super::invitation::is_same;
use super::wire::{Found, HELLO_BYTES, HOST_TAKEN, Inbox, MAGIC, Token, WRONG_TOKEN};
use crate::watch::View;

/// The time that a new connection has to introduce itself, and the most of them at a time.
const INTRODUCTION: Duration = Duration::from_secs(10);
const MAX_STRANGERS: usize = 64;

/// The launcher's sockets, and the connections that have not introduced themselves.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) listeners: Vec<TcpListener>,
    pub(super) strangers: Vec<Stranger>,
    /// The token that a host has to send.
    token: Token,
    has_told: bool,
    /// The view above which lines are printed.
    view: View,
}

/// A connection that has not introduced itself.
#[derive(Debug)]
pub(super) struct Stranger {
    pub(super) stream: TcpStream,
    from: SocketAddr,
    inbox: Inbox,
    since: Instant,
}

/// A host that has connected.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) host: usize,
    pub(super) stream: TcpStream,
    pub(super) from: SocketAddr,
}

impl Door {
    /// Sockets at the addresses where hosts may reach this one, on ports that the system chooses.
    pub(super) fn open(told: &[IpAddr], token: Token, view: View) -> Result<Self, String> {
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
        Ok(Self {
            listeners,
            strangers: Vec::new(),
            token,
            has_told: false,
            view,
        })
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
    pub(super) fn meet(&mut self, ready: &[bool], n_hosts: usize) -> Vec<Guest> {
        let mut guests = Vec::new();
        for (index, mut stranger) in mem::take(&mut self.strangers).into_iter().enumerate() {
            if ready.get(index) == Some(&true)
                && !matches!(stranger.inbox.fill(&stranger.stream), Ok(Found::Open))
            {
                continue;
            }
            match stranger.inbox.take(HELLO_BYTES) {
                Some(hello) => guests.extend(self.judge(stranger, &hello, n_hosts)),
                None if stranger.since.elapsed() < INTRODUCTION => self.strangers.push(stranger),
                None => {}
            }
        }
        guests
    }

    /// Accepts the connection as that of a host, or refuses it.
    fn judge(&mut self, stranger: Stranger, hello: &[u8], n_hosts: usize) -> Option<Guest> {
        let Stranger { stream, from, .. } = stranger;
        let (magic, rest) = hello.split_at(MAGIC.len());
        let (token, number) = rest.split_at(size_of::<Token>());
        let number = number.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        let host = number.and_then(|number| usize::try_from(number).ok());
        let host = host.filter(|host| *host < n_hosts);
        let host = host.filter(|_| magic == MAGIC && is_same(token, &self.token));
        if let Some(host) = host {
            // It has come again if the launcher was stopped when it first did.
            return is_open(&stream).then_some(Guest { host, stream, from });
        }
        refuse(&stream, WRONG_TOKEN);
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
        refuse(&self.stream, HOST_TAKEN);
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

fn refuse(mut stream: &TcpStream, verdict: u8) {
    // The other side may be gone.
    stream
        .write_all(&[&[verdict][..], &Token::default()].concat())
        .ok();
}
