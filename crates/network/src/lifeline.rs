//! Connections between hosts by which each notices that another is gone. They carry nothing while
//! all is well.
//!
//! The first ranks of up to 32 hosts are all connected with each other. More hosts form groups of
//! 32 in which all are connected, and the first hosts of the groups form a tree. The kernels
//! monitor the connections (`TCP_KEEPALIVE`, `TCP_USER_TIMEOUT`), so these show whether a host and
//! the network to it are alive, whatever its ranks do. A host that finds a neighbour silent tells
//! the others. A host that is cut off from the others finds its own neighbours silent.
//!
//! ```text
//! | secret: 16 bytes |                             once, in each direction
//! | kind: u8 | rank: u32 | length: u16 | text |    any number of times
//! ```
//!
//! The side that has connected speaks first, so a stranger that connects gets no secret. It sends the
//! secret of the host that it wants, which answers with another one. So a stranger that answers in
//! place of that host cannot pass for it, and the secret that it gets is of no use with other hosts.
//! To an address that this host has itself, it sends none. The secrets are sent in clear: the network
//! between the hosts is trusted.

use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use pgas_core::{Config, notice};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use crate::addresses::check_target;
use crate::introduction::{Elder, Listener, Secret, Secrets, new_secret};

/// The number of consecutive hosts that are all connected with each other.
const GROUP: usize = 32;
/// The children of a group in the tree of groups.
const FAN: usize = 16;
/// The most seconds between two keep-alive probes that Linux allows (`MAX_TCP_KEEPIDLE`).
const LONGEST_PART: u64 = 32_767;
/// The time limits of one attempt to connect, and of all attempts of a host.
const ATTEMPT: Duration = Duration::from_secs(1);
const ATTEMPTS: Duration = Duration::from_secs(5);
/// The time that the other side may take to introduce itself.
const INTRODUCTION: Duration = Duration::from_secs(10);
/// The time that a process may be gone before it counts as failed. Usually its launcher ends the
/// job earlier, with a better report.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most connections at a time that have not introduced themselves; further ones wait.
const MAX_STRANGERS: usize = 64;
/// The longest text.
const MAX_TEXT: usize = 500;
/// Bytes before a text.
const HEAD: usize = 7;

/// The failed rank and the cause.
pub type Failure = (u32, String);

/// The hosts that `host` connects to, all of them before it: those of its group, and for the first
/// one of a group that of the parent.
pub fn elders_of(host: usize) -> impl Iterator<Item = usize> {
    let group = host / GROUP;
    let first = group * GROUP;
    let above = group.checked_sub(1).filter(|_| host == first);
    let parent = above.map(|above| above / FAN * GROUP);
    parent.into_iter().chain(first..host)
}

/// One host's connections.
#[derive(Debug)]
pub struct Lifeline {
    listener: Listener,
    /// The introduction of this host: its first rank, and the host with its ranks.
    own: (u32, String),
    silence: Duration,
    neighbours: Vec<Neighbour>,
    /// The job has ended for this rank, so the other side's processes may end, too.
    is_over: bool,
    /// The failure of which the neighbours have been told.
    told: Option<Failure>,
}

#[derive(Debug)]
struct Neighbour {
    stream: TcpStream,
    received: Vec<u8>,
    since: Instant,
    /// The first rank of the other host, if this side has made the connection.
    elder: Option<u32>,
    /// What this side sends first, and what it expects.
    own_secret: Secret,
    other_secret: Secret,
    /// Its introduction, if it knows the secret.
    whom: Option<(u32, String)>,
    has_secret: bool,
    /// Whether this side has introduced itself.
    is_greeted: bool,
    /// It has announced its end in good order.
    has_taken_leave: bool,
    /// When its process was found gone.
    gone: Option<Instant>,
}

/// Makes the kernel check whether the other side of `stream` is alive, and fail its calls after
/// `silence`, at least [`Config::SHORTEST_SILENCE`] and at most 24 days.
///
/// # Errors
///
/// Errors of the system.
pub fn set_limits(stream: &TcpStream, silence: Duration) -> io::Result<()> {
    let silence = silence.max(Config::SHORTEST_SILENCE);
    let part = Duration::from_secs((silence / 4).as_secs().clamp(1, LONGEST_PART));
    // The kernel refuses values that are negative as an `int`.
    let limit = i32::try_from(silence.as_millis()).unwrap_or(i32::MAX);
    let limit = limit.cast_unsigned();
    sockopt::set_tcp_keepidle(stream, part)?;
    sockopt::set_tcp_keepintvl(stream, part)?;
    sockopt::set_tcp_keepcnt(stream, 4)?;
    sockopt::set_tcp_user_timeout(stream, limit)?;
    sockopt::set_socket_keepalive(stream, true)?;
    Ok(())
}

/// A message of a neighbour.
#[derive(Debug, PartialEq, Eq)]
enum Word {
    /// An introduction: the first rank of the host that the text names.
    Hello(u32, String),
    /// A rank has failed.
    Failed(u32, String),
    /// The neighbour's process may end from now on.
    Bye,
}

impl Word {
    fn encode(&self) -> Vec<u8> {
        let (kind, rank, text) = match self {
            Self::Hello(rank, text) => (0, *rank, text.as_str()),
            Self::Failed(rank, text) => (1, *rank, text.as_str()),
            Self::Bye => (2, 0, ""),
        };
        let mut end = text.len().min(MAX_TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut bytes = vec![kind];
        bytes.extend(rank.to_le_bytes());
        let len = u16::try_from(end).expect("a short text");
        bytes.extend(len.to_le_bytes());
        bytes.extend(&text.as_bytes()[..end]);
        bytes
    }

    /// Takes the first message out of `bytes`, if it is complete. The inner `None` is an invalid
    /// message.
    fn take(bytes: &mut Vec<u8>) -> Option<Option<Self>> {
        let (kind, rest) = bytes.split_first()?;
        let (rank, rest) = rest.split_first_chunk()?;
        let (len, rest) = rest.split_first_chunk()?;
        let (kind, rank, len) = (
            *kind,
            u32::from_le_bytes(*rank),
            usize::from(u16::from_le_bytes(*len)),
        );
        if len > MAX_TEXT {
            return Some(None);
        }
        let text = String::from_utf8_lossy(rest.get(..len)?).into_owned();
        bytes.drain(..HEAD + len);
        Some(match kind {
            0 => Some(Self::Hello(rank, text)),
            1 => Some(Self::Failed(rank, text)),
            2 => Some(Self::Bye),
            _ => None,
        })
    }
}

/// Listens for connections of both versions of IP, whatever the system's setting for that is.
fn listen_everywhere() -> io::Result<TcpListener> {
    let (six, stream) = (AddressFamily::INET6, SocketType::STREAM);
    let socket = net::socket_with(six, stream, SocketFlags::CLOEXEC, None)?;
    sockopt::set_ipv6_v6only(&socket, false)?;
    net::bind(&socket, &SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)))?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// The connections that may wait to be accepted, unless the system allows fewer.
const BACKLOG: i32 = 4096;

/// The result of a check of a neighbour.
enum Found {
    Nothing,
    /// It is not, or no longer, a neighbour.
    Stranger,
    Failure(Failure),
}

impl Lifeline {
    /// Listens for connections of later hosts, which are told the port.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub fn listen() -> io::Result<Listener> {
        let socket = listen_everywhere().or_else(|_| TcpListener::bind("0.0.0.0:0"))?;
        socket.set_nonblocking(true)?;
        let secrets = Secrets {
            call: new_secret()?,
            answer: new_secret()?,
        };
        Ok(Listener { socket, secrets })
    }

    /// The connections of a host that listens already. `own` is the first rank of this host, and a
    /// description of the host.
    #[must_use]
    pub fn new(listener: Listener, own: (u32, String), silence: Duration) -> Self {
        Self {
            listener,
            own,
            silence: silence.max(Config::SHORTEST_SILENCE),
            neighbours: Vec::new(),
            is_over: false,
            told: None,
        }
    }

    /// Connects to hosts that listen already. Warns once if it cannot reach some of them.
    pub fn connect(&mut self, elders: impl Iterator<Item = Elder>) {
        let began = Instant::now();
        let failed: Vec<io::Error> = elders
            .filter_map(|elder| self.connect_to(&elder, began).err())
            .collect();
        if let Some(error) = failed.first() {
            self.warn(error);
        }
    }

    fn connect_to(&mut self, elder: &Elder, began: Instant) -> io::Result<()> {
        let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
        for address in &elder.addresses {
            if began.elapsed() > ATTEMPTS {
                break;
            }
            let place = SocketAddr::new(*address, elder.port);
            let connected = TcpStream::connect_timeout(&place, ATTEMPT);
            let checked = connected.and_then(|stream| {
                check_target(&stream, elder.network)?;
                Ok(stream)
            });
            match checked.and_then(|stream| self.join(stream, Some(elder))) {
                Ok(()) => return Ok(()),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn warn(&self, error: &io::Error) {
        notice::tell(&format_args!(
            "warning: rank {} has no connection to another host by TCP ({error}): a host that is lost is not noticed \
             (PGAS_SILENCE)",
            self.own.0
        ));
    }

    /// Takes a new connection in. This host introduces itself if it has connected to an `elder`,
    /// and waits for the other one's secret if not.
    fn join(&mut self, stream: TcpStream, elder: Option<&Elder>) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        set_limits(&stream, self.silence)?;
        let Secrets { call, answer } = elder.map_or(self.listener.secrets, |elder| elder.secrets);
        let (own_secret, other_secret) = match elder {
            Some(_) => (call, answer),
            None => (answer, call),
        };
        let mut neighbour = Neighbour {
            stream,
            received: Vec::new(),
            since: Instant::now(),
            elder: elder.map(|elder| elder.rank),
            own_secret,
            other_secret,
            whom: None,
            has_secret: false,
            is_greeted: false,
            has_taken_leave: false,
            gone: None,
        };
        if elder.is_some() {
            self.greet(&mut neighbour)?;
        }
        self.neighbours.push(neighbour);
        Ok(())
    }

    /// Introduces this host, and tells what the other neighbours have been told.
    fn greet(&self, neighbour: &mut Neighbour) -> io::Result<()> {
        let (rank, host) = self.own.clone();
        let mut bytes = neighbour.own_secret.to_vec();
        bytes.extend(Word::Hello(rank, host).encode());
        if let Some((rank, cause)) = self.told.clone() {
            bytes.extend(Word::Failed(rank, cause).encode());
        }
        neighbour.is_greeted = true;
        (&neighbour.stream).write_all(&bytes)
    }

    /// Whether a neighbour has yet to introduce itself, which takes it milliseconds.
    #[must_use]
    pub fn awaits_words(&self) -> bool {
        let strangers = self.neighbours.iter().filter(|other| other.whom.is_none());
        strangers
            .into_iter()
            .any(|other| other.since.elapsed() < INTRODUCTION)
    }

    /// Checks all connections, tells the neighbours of `known` once, and returns a failure that was
    /// found or reported.
    pub fn look(&mut self, known: Option<&Failure>) -> Option<Failure> {
        self.accept();
        let mut failure = None;
        let mut neighbours = mem::take(&mut self.neighbours);
        neighbours.retain_mut(|neighbour| match self.look_at(neighbour) {
            Found::Nothing => true,
            Found::Stranger => false,
            Found::Failure(found) => {
                failure.get_or_insert(found);
                false
            }
        });
        self.neighbours = neighbours;
        if let Some(known) = known.or(failure.as_ref()) {
            self.tell(known);
        }
        failure
    }

    fn accept(&mut self) {
        let n_strangers = |all: &[Neighbour]| all.iter().filter(|one| one.whom.is_none()).count();
        while n_strangers(&self.neighbours) < MAX_STRANGERS
            && let Ok((stream, _)) = self.listener.socket.accept()
        {
            // A failed introduction makes no neighbour.
            drop(self.join(stream, None));
        }
    }

    fn look_at(&self, neighbour: &mut Neighbour) -> Found {
        let outcome = neighbour.read();
        let mut failure = None;
        match neighbour.take_words() {
            Ok(words) => {
                for word in words {
                    match word {
                        Word::Hello(rank, text) => neighbour.whom = Some((rank, text)),
                        Word::Failed(rank, cause) => failure = Some((rank, cause)),
                        Word::Bye => neighbour.has_taken_leave = true,
                    }
                }
            }
            Err(error) => return self.give_up(neighbour, &error),
        }
        if neighbour.whom.is_some() && !neighbour.is_greeted {
            // If the other side is gone, the next look shows how.
            drop(self.greet(neighbour));
        }
        if let Some(failure) = failure {
            return Found::Failure(failure);
        }
        let Some((rank, host)) = neighbour.whom.clone() else {
            let is_late = neighbour.since.elapsed() > INTRODUCTION;
            return match (outcome, neighbour.elder) {
                (Ok(()), _) if !is_late => Found::Nothing,
                (Ok(()), _) => self.give_up(neighbour, &ErrorKind::TimedOut.into()),
                // The host was alive when this side connected.
                (Err(error), Some(rank)) if !is_end_of_process(&error) => {
                    self.lost(rank, "a host", &error)
                }
                (Err(error), _) => self.give_up(neighbour, &error),
            };
        };
        let Err(error) = outcome else {
            return Found::Nothing;
        };
        if !is_end_of_process(&error) {
            return self.lost(rank, &host, &error);
        }
        if neighbour.has_taken_leave || self.is_over {
            return Found::Stranger;
        }
        if neighbour.gone.get_or_insert_with(Instant::now).elapsed() < PATIENCE {
            return Found::Nothing;
        }
        Found::Failure((rank, "has ended without leaving the job".to_owned()))
    }

    fn lost(&self, rank: u32, host: &str, error: &io::Error) -> Found {
        let silence = self.silence;
        let cause = format!(
            "is on {host}, of which there was no sign of life for {silence:?} (PGAS_SILENCE): {error}"
        );
        Found::Failure((rank, cause))
    }

    /// It has not introduced itself.
    fn give_up(&self, neighbour: &Neighbour, error: &io::Error) -> Found {
        if neighbour.elder.is_some() && !self.is_over {
            self.warn(error);
        }
        Found::Stranger
    }

    fn tell(&mut self, failure: &Failure) {
        if self.told.is_some() {
            return;
        }
        self.told = Some(failure.clone());
        self.say(&Word::Failed(failure.0, failure.1.clone()));
    }

    /// Announces the end of this process. From now on the other sides' processes may end, too.
    pub fn take_leave(&mut self) {
        // Data that is unread when this process ends would be answered by a reset, which overtakes
        // this side's messages.
        drop(self.look(None));
        self.is_over = true;
        self.say(&Word::Bye);
    }

    fn say(&self, word: &Word) {
        let bytes = word.encode();
        for neighbour in self.neighbours.iter().filter(|other| other.is_greeted) {
            // A few bytes find room, unless the other side is gone.
            drop((&neighbour.stream).write_all(&bytes));
        }
    }
}

/// Whether the other side's kernel has said that its process is gone.
fn is_end_of_process(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
    )
}

impl Neighbour {
    /// Reads the bytes that have arrived. An error means that no more will arrive.
    fn read(&mut self) -> io::Result<()> {
        /// More than the whole of a neighbour's messages.
        const MAX_UNREAD: usize = 4096;
        let mut bytes = [0; 512];
        while self.received.len() < MAX_UNREAD {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.received.extend(&bytes[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The complete words that have arrived. An error if the other side does not know the secret,
    /// or sends an invalid word.
    fn take_words(&mut self) -> io::Result<Vec<Word>> {
        if !self.has_secret {
            let Some(told) = self.received.first_chunk::<{ size_of::<Secret>() }>() else {
                return Ok(Vec::new());
            };
            if *told != self.other_secret {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    "what answers belongs to another job",
                ));
            }
            self.received.drain(..self.other_secret.len());
            self.has_secret = true;
        }
        let mut words = Vec::new();
        while let Some(word) = Word::take(&mut self.received) {
            let word = word.ok_or_else(|| io::Error::from(ErrorKind::InvalidData))?;
            words.push(word);
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::thread;

    use super::*;
    use crate::addresses::Network;

    const LIMIT: Duration = Duration::from_secs(20);

    fn lifeline(rank: u32) -> Lifeline {
        let listener = Lifeline::listen().expect("a socket");
        let own = (rank, format!("host node{rank} (rank {rank})"));
        Lifeline::new(listener, own, Duration::from_secs(60))
    }

    fn connect(child: &mut Lifeline, parent: &Lifeline) {
        child.connect([introduction(parent)].into_iter());
    }

    fn introduction(parent: &Lifeline) -> Elder {
        Elder {
            addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            ..Elder::new(parent.own.0, Some(&parent.listener))
        }
    }

    /// Checks both until `is_done`.
    fn until(
        sides: &mut [&mut Lifeline],
        mut is_done: impl FnMut(usize, &Lifeline, Option<Failure>) -> bool,
    ) {
        let began = Instant::now();
        loop {
            for (i, side) in sides.iter_mut().enumerate() {
                let found = side.look(None);
                if is_done(i, side, found) {
                    return;
                }
            }
            assert!(began.elapsed() < LIMIT, "{sides:?}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn are_known(side: &Lifeline) -> bool {
        !side.neighbours.is_empty() && side.neighbours.iter().all(|other| other.whom.is_some())
    }

    fn pair() -> (Lifeline, Lifeline) {
        let (mut parent, mut child) = (lifeline(0), lifeline(1));
        connect(&mut child, &parent);
        let mut known = [false; 2];
        until(&mut [&mut parent, &mut child], |i, side, found| {
            assert_eq!(found, None);
            known[i] = are_known(side);
            known == [true; 2]
        });
        (parent, child)
    }

    #[test]
    fn a_failure_that_one_host_knows_is_heard_by_the_next() {
        let (mut parent, mut child) = pair();
        let failure = (5, "was killed".to_owned());
        assert_eq!(parent.look(Some(&failure)), None);
        until(&mut [&mut child], |_, _, found| {
            found.is_some_and(|found| {
                assert_eq!(found, failure);
                true
            })
        });
    }

    #[test]
    fn who_ends_without_leave_has_failed_and_who_takes_it_has_not() {
        let (mut parent, child) = pair();
        drop(child);
        until(&mut [&mut parent], |_, _, found| {
            found.is_some_and(|(rank, cause)| {
                assert_eq!(
                    (rank, cause.as_str()),
                    (1, "has ended without leaving the job")
                );
                true
            })
        });
        let (mut parent, mut child) = pair();
        child.take_leave();
        drop(child);
        until(&mut [&mut parent], |_, side, found| {
            assert_eq!(found, None);
            side.neighbours.is_empty()
        });
    }

    #[test]
    fn who_does_not_know_the_secret_is_no_neighbour() {
        let (mut parent, mut stranger) = (lifeline(0), lifeline(1));
        let mut elder = introduction(&parent);
        elder.secrets.call[0] ^= 1;
        stranger.connect([elder].into_iter());
        assert_eq!(stranger.neighbours.len(), 1);
        let mut are_rid = [false; 2];
        until(&mut [&mut parent, &mut stranger], |i, side, found| {
            assert_eq!(found, None);
            are_rid[i] |= i == 1 && side.neighbours.is_empty();
            are_rid[i] |= i == 0 && are_rid[1] && side.neighbours.is_empty();
            are_rid == [true; 2]
        });
    }

    #[test]
    fn who_connects_gets_no_secret_before_it_has_shown_it() {
        let mut parent = lifeline(0);
        let port = parent
            .listener
            .socket
            .local_addr()
            .expect("it listens")
            .port();
        let stranger = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
        stranger.set_nonblocking(true).expect("a socket");
        let mut told = Vec::new();
        until(&mut [&mut parent], |_, side, _| !side.neighbours.is_empty());
        (&stranger).write_all(&[8; 7]).expect("it is open");
        parent.look(Some(&(0, "was killed".to_owned())));
        parent.take_leave();
        let read = (&stranger)
            .read_to_end(&mut told)
            .map_err(|error| error.kind());
        assert_eq!((read, told), (Err(ErrorKind::WouldBlock), Vec::new()));
    }

    #[test]
    fn who_answers_with_the_secret_that_it_was_sent_is_no_neighbour() {
        let (parent, mut child) = (lifeline(0), lifeline(1));
        let stranger = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let mut elder = introduction(&parent);
        elder.port = stranger.local_addr().expect("it listens").port();
        child.connect([elder].into_iter());
        let (mut stream, _) = stranger.accept().expect("a connection");
        let mut secret = Secret::default();
        stream.read_exact(&mut secret).expect("a secret");
        assert_eq!(secret, parent.listener.secrets.call);
        let lie = Word::Failed(0, "was killed".to_owned()).encode();
        stream
            .write_all(&[&secret[..], &lie].concat())
            .expect("it is open");
        until(&mut [&mut child], |_, side, found| {
            assert_eq!(found, None);
            side.neighbours.is_empty()
        });
        let mut other = lifeline(2);
        let address = SocketAddr::from((
            Ipv4Addr::LOCALHOST,
            other
                .listener
                .socket
                .local_addr()
                .expect("it listens")
                .port(),
        ));
        let mut stream = TcpStream::connect(address).expect("it listens");
        until(&mut [&mut other], |_, side, _| !side.neighbours.is_empty());
        stream
            .write_all(&[&secret[..], &lie].concat())
            .expect("it is open");
        until(&mut [&mut other], |_, side, found| {
            assert_eq!(found, None);
            side.neighbours.is_empty()
        });
    }

    #[test]
    fn a_host_sends_no_secret_to_itself_in_place_of_one_in_another_network() {
        let (parent, mut child) = (lifeline(0), lifeline(1));
        for network in [Network::default(), [1; 3]] {
            let elder = Elder {
                network,
                ..introduction(&parent)
            };
            let error = child.connect_to(&elder, Instant::now()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AddrInUse);
            assert!(child.neighbours.is_empty());
            let (mut stream, _) = parent.listener.socket.accept().expect("a connection");
            let mut told = Vec::new();
            stream.read_to_end(&mut told).expect("an end");
            assert_eq!(told, Vec::new());
        }
    }

    #[test]
    fn who_introduces_itself_after_a_failure_is_told_of_it() {
        let (mut parent, mut child) = (lifeline(0), lifeline(1));
        let failure = (5, "was killed".to_owned());
        parent.look(Some(&failure));
        connect(&mut child, &parent);
        until(&mut [&mut parent, &mut child], |i, _, found| {
            i == 1 && found.as_ref() == Some(&failure)
        });
    }

    #[test]
    fn words_come_as_they_were_said_in_whichever_pieces() {
        let words = [
            Word::Hello(3, "host a (rank 3)".to_owned()),
            Word::Failed(u32::MAX, "ä".repeat(100)),
            Word::Bye,
        ];
        let bytes: Vec<u8> = words.iter().flat_map(Word::encode).collect();
        let (mut received, mut heard) = (Vec::new(), Vec::new());
        for byte in bytes {
            received.push(byte);
            while let Some(word) = Word::take(&mut received) {
                heard.push(word.expect("a word"));
            }
        }
        assert_eq!(heard, words);
        let long = Word::Failed(0, "ä".repeat(1000)).encode();
        assert_eq!(long.len(), HEAD + MAX_TEXT);
        for harmful in [[9, 0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 255, 255]] {
            assert_eq!(Word::take(&mut harmful.to_vec()), Some(None));
        }
    }

    #[test]
    fn few_hosts_are_all_connected_and_many_by_way_of_others() {
        for n_hosts in [1, 2, 3, 32, 33, 300, 5000] {
            let mut n_neighbours = vec![0; n_hosts];
            for host in 0..n_hosts {
                let elders: Vec<usize> = elders_of(host).collect();
                assert!(elders.iter().all(|elder| *elder < host), "{elders:?}");
                assert_eq!(elders.is_empty(), host == 0);
                if n_hosts <= GROUP {
                    assert_eq!(elders.len(), host);
                }
                n_neighbours[host] += elders.len();
                elders.iter().for_each(|elder| n_neighbours[*elder] += 1);
            }
            assert!(n_neighbours.iter().all(|n| *n <= GROUP + FAN));
        }
    }

    #[test]
    fn an_introduction_is_read_as_it_was_written() {
        let listener = Lifeline::listen().expect("a socket");
        for elder in [Elder::new(7, Some(&listener)), Elder::new(u32::MAX, None)] {
            let mut words = elder.to_words();
            assert!(words.len() <= Elder::N_WORDS);
            assert_eq!(Elder::of_words(&words).as_ref(), Some(&elder));
            words.resize(Elder::N_WORDS, 0);
            assert_eq!(Elder::of_words(&words).as_ref(), Some(&elder));
        }
        assert_eq!(Elder::of_words(&[0; 8]), None);
    }
}
