//! How a rank parks if no other rank can wake it: it polls, and naps when it has polled in vain for
//! long.
//!
//! Puts, gets and messages of other ranks are served only while this rank calls its library, so it
//! must not sleep for long. A nap is a small share of the time that the rank has polled in vain. It
//! ends at once when data arrives by a socket; if the network is TCP, all data does. While a socket
//! has data that is being read, as one of a long transfer, the rank does not nap.
#![expect(
    unsafe_code,
    reason = "looks at sockets that the library of the network has opened"
)]

use std::fs;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pgas_core::Result;
use rustix::event::{self, PollFd, PollFlags};
use rustix::net::{self, AddressFamily};
use rustix::time::Timespec;

/// Polls of a parked rank: some microseconds.
const TURNS: u32 = 4;
/// The number of parks between two yields. A yield takes as long as the answer to an operation of
/// another rank, which waits meanwhile. Other threads and programs can wait for a tenth of a
/// millisecond.
const PARKS_A_YIELD: u32 = 32;
/// The share of the time of vain polling that a rank may sleep. Data that arrives by other ways
/// than a socket is delayed by this share, at most.
const SHARE: u32 = 32;
/// A shorter sleep is not worth the calls of the system that it takes.
const SHORTEST_NAP: Duration = Duration::from_micros(50);
/// The longest nap, and the nap of a rank that takes the processor from others.
const LONGEST_NAP: Duration = Duration::from_micros(100);
const LONGEST_NAP_IN_A_CROWD: Duration = Duration::from_millis(1);
/// The time for which a list of sockets is valid.
const LISTED_FOR: Duration = Duration::from_millis(100);
/// With more sockets, a poll of all of them takes longer than it saves.
const MAX_SOCKETS: usize = 256;
/// The number of times that a socket has data, and never less than before, until it is taken for
/// one that the polling code does not read. One of a long transfer has less now and then.
const SIGHTS: u32 = 8;

/// The parking state of a rank's threads.
#[derive(Debug, Default)]
pub struct Parking {
    n_parks: AtomicU32,
    /// The state of the thread that naps; the others poll.
    parked: Mutex<Parked>,
    sockets: Mutex<Sockets>,
}

/// The time that a wait was in vain, since it began or something arrived.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vain {
    since: Option<Instant>,
    /// Whether the last nap has come to its end.
    pub naps: bool,
}

#[derive(Debug, Default)]
struct Parked {
    vain: Vain,
    /// The limit of its last park, which grows while a wait is young.
    at_most: Duration,
}

impl Parking {
    /// Polls several times (once if there are fewer processors than ranks), until `poll` reports
    /// that something has arrived, or fails. If polling was in vain for long, naps first. The time
    /// counts over parks with up to the same `at_most`: a wait that has just begun parks for less.
    ///
    /// `poll` is told how often to poll the network: `n_polls` times, but once after a nap that
    /// nothing has ended.
    pub fn park(
        &self,
        at_most: Duration,
        is_crowded: bool,
        n_polls: u32,
        mut poll: impl FnMut(u32) -> Result<bool>,
    ) {
        let (mut has_napped, mut is_short) = (false, false);
        if let Ok(mut parked) = self.parked.try_lock() {
            if parked.at_most != at_most {
                *parked = Parked {
                    at_most,
                    ..Parked::default()
                };
            }
            has_napped = self.nap(&mut parked.vain, at_most, is_crowded);
            is_short = parked.vain.naps;
        }
        let n_turns = if has_napped || is_crowded { 1 } else { TURNS };
        let n_polls = if is_short { 1 } else { n_polls };
        if (0..n_turns).any(|_| !matches!(poll(n_polls), Ok(false))) {
            if let Ok(mut parked) = self.parked.try_lock() {
                parked.vain = Vain::default();
            }
            return;
        }
        // Relaxed: a count that nothing else depends on.
        let n_parks = self.n_parks.fetch_add(1, Ordering::Relaxed);
        if !has_napped && (is_crowded || n_parks.is_multiple_of(PARKS_A_YIELD)) {
            thread::yield_now();
        }
    }

    /// Naps if it is time to, for `at_most` so long. Returns whether it was.
    pub fn nap(&self, vain: &mut Vain, at_most: Duration, is_crowded: bool) -> bool {
        let now = Instant::now();
        let since = *vain.since.get_or_insert(now);
        let longest = if is_crowded {
            LONGEST_NAP_IN_A_CROWD
        } else {
            LONGEST_NAP
        };
        let nap = ((now - since) / SHARE).min(longest).min(at_most);
        if nap < SHORTEST_NAP {
            return false;
        }
        // One thread is enough to wait on the sockets; another one continues to poll.
        let Ok(mut sockets) = self.sockets.try_lock() else {
            return false;
        };
        *vain = if sockets.await_one(now, nap) {
            Vain::default()
        } else {
            Vain {
                naps: true,
                ..*vain
            }
        };
        true
    }
}

/// The sockets of this process by which other hosts reach it.
#[derive(Debug, Default)]
struct Sockets {
    sockets: Vec<Socket>,
    listed: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Socket {
    number: RawFd,
    /// Bytes that it had when it was last seen, and how many sights in a row had not less.
    n_bytes: u64,
    n_sights: u32,
}

impl Socket {
    fn new(number: RawFd) -> Self {
        Self {
            number,
            n_bytes: 0,
            n_sights: 0,
        }
    }

    /// Takes note whether it has data. Returns whether it has some that may be read.
    fn has_news(&mut self, is_readable: bool) -> bool {
        let n_bytes = if is_readable { n_bytes(self.number) } else { 0 };
        let is_read = !is_readable || n_bytes < self.n_bytes;
        self.n_sights = if is_read {
            0
        } else {
            self.n_sights.saturating_add(1)
        };
        self.n_bytes = n_bytes;
        is_readable && self.n_sights < SIGHTS
    }
}

impl Sockets {
    /// Sleeps until a socket is readable, or the nap is over. Returns whether one is readable. If
    /// one is at once, there is no nap: a long transfer may be on its way. Sockets that the polling
    /// code does not read are left out.
    fn await_one(&mut self, now: Instant, nap: Duration) -> bool {
        if self.listed.is_none_or(|listed| now - listed > LISTED_FOR) {
            let known = |number| self.sockets.iter().find(|known| known.number == number);
            let listed = list().into_iter();
            let listed = listed.map(|number| known(number).copied().unwrap_or(Socket::new(number)));
            self.sockets = listed.collect();
            self.listed = Some(now);
        }
        let numbers: Vec<RawFd> = self.sockets.iter().map(|socket| socket.number).collect();
        let (mut idle, mut has_news) = (Vec::new(), false);
        let readable = ready(&numbers, Duration::ZERO);
        for (socket, is_readable) in self.sockets.iter_mut().zip(readable) {
            has_news |= socket.has_news(is_readable);
            if !is_readable {
                idle.push(socket.number);
            }
        }
        has_news || ready(&idle, nap).contains(&true)
    }
}

/// The number of bytes that can be read from a socket; none if it is closed.
fn n_bytes(number: RawFd) -> u64 {
    // SAFETY: as in `ready`: the call only asks.
    rustix::io::ioctl_fionread(unsafe { BorrowedFd::borrow_raw(number) }).unwrap_or(0)
}

/// Waits until a descriptor is readable, has failed or is closed, for `at_most` this time. Returns
/// for each whether it is.
fn ready(numbers: &[RawFd], at_most: Duration) -> Vec<bool> {
    let poll_fd = |number: &RawFd| {
        // SAFETY: nothing is read, written or closed by it, here or by `poll`, which only looks:
        // the worst that it says of a number that was closed meanwhile, or is another file's, is
        // that there is something to be read.
        PollFd::from_borrowed_fd(unsafe { BorrowedFd::borrow_raw(*number) }, PollFlags::IN)
    };
    let mut polled: Vec<PollFd<'_>> = numbers.iter().map(poll_fd).collect();
    let at_most = Timespec::try_from(at_most).unwrap_or_default();
    // Interrupted by a signal, it has found nothing.
    if event::poll(&mut polled, Some(&at_most)).is_err() {
        return vec![false; numbers.len()];
    }
    polled.iter().map(|of| !of.revents().is_empty()).collect()
}

/// The open sockets over IPv4 and IPv6. None if there are too many, or if they cannot be listed.
fn list() -> Vec<RawFd> {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let of_a_network = |number: &RawFd| {
        // SAFETY: as in `ready`: the call only asks, and fails for what is no socket.
        let domain = net::sockopt::socket_domain(unsafe { BorrowedFd::borrow_raw(*number) });
        matches!(domain, Ok(AddressFamily::INET | AddressFamily::INET6))
    };
    let found: Vec<RawFd> = numbers.filter(of_a_network).take(MAX_SOCKETS + 1).collect();
    if found.len() > MAX_SOCKETS {
        Vec::new()
    } else {
        found
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd as _;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(1);

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (here, listener.accept().unwrap().0)
    }

    #[test]
    fn who_naps_is_woken_by_what_comes() {
        let (here, mut there) = pair();
        let mut sockets = Sockets {
            sockets: vec![Socket::new(here.as_raw_fd())],
            listed: Some(Instant::now()),
        };
        let now = Instant::now();
        assert!(!sockets.await_one(now, SHORT));
        let sender = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            there.write_all(&[1]).unwrap();
            there
        });
        assert!(sockets.await_one(now, LONG));
        assert!(now.elapsed() < LONG);
        let there = sender.join().unwrap();
        // No code reads it: soon it does not disturb naps any more, nor does the end of the other
        // side.
        for _ in 1..SIGHTS {
            assert!(sockets.await_one(now, LONG));
        }
        assert!(!sockets.await_one(now, SHORT));
        drop(there);
        assert!(!sockets.await_one(now, SHORT));
        assert!(now.elapsed() < LONG);
    }

    #[test]
    fn nobody_naps_while_a_long_transfer_is_read() {
        let (mut here, mut there) = pair();
        let mut sockets = Sockets {
            sockets: vec![Socket::new(here.as_raw_fd())],
            listed: Some(Instant::now()),
        };
        let now = Instant::now();
        let number = here.as_raw_fd();
        let arrive = || {
            while n_bytes(number) < 1000 {
                assert!(now.elapsed() < LONG);
                thread::yield_now();
            }
        };
        there.write_all(&[1; 1000]).unwrap();
        for _ in 0..10 * SIGHTS {
            arrive();
            assert!(sockets.await_one(now, LONG));
            here.read_exact(&mut [0; 500]).unwrap();
            assert!(sockets.await_one(now, LONG));
            there.write_all(&[1; 500]).unwrap();
        }
        arrive();
        here.read_exact(&mut [0; 1000]).unwrap();
        assert!(!sockets.await_one(now, SHORT));
        assert!(now.elapsed() < LONG);
    }

    #[test]
    fn sockets_of_networks_are_listed_and_nothing_else() {
        let (here, there) = pair();
        let (local, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let listed = list();
        assert!(listed.contains(&here.as_raw_fd()));
        assert!(listed.contains(&there.as_raw_fd()));
        assert!(!listed.contains(&local.as_raw_fd()));
    }

    #[test]
    fn a_young_wait_looks_and_an_old_one_naps_until_something_has_come() {
        let parking = Parking::default();
        let long_ago = Instant::now() - Duration::from_secs(1);
        let looks_of_a_park = |at_most, has_come| {
            let mut n_looks = 0;
            parking.park(at_most, false, 8, |_| {
                n_looks += 1;
                Ok(has_come)
            });
            n_looks
        };
        let old = Duration::from_millis(2);
        assert_eq!(looks_of_a_park(old, false), TURNS);
        parking.parked.lock().unwrap().vain.since = Some(long_ago);
        assert_eq!(looks_of_a_park(old, false), 1, "it has napped");
        // Another wait.
        assert_eq!(looks_of_a_park(old / 2, false), TURNS);
        parking.parked.lock().unwrap().vain.since = Some(long_ago);
        assert_eq!(looks_of_a_park(old / 2, true), 1);
        assert_eq!(looks_of_a_park(old / 2, false), TURNS, "something had come");
    }
}
