//! The network between hosts: the kernel's bridge, or a switch of our own that delays and loses
//! frames.
//!
//! The kernel's `netem` could delay and lose frames, too, if it is built in. Our own switch works
//! with every kernel, loses the same share everywhere, and counts its frames, so that a test can
//! check that the bad link was bad.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, PipeReader, PipeWriter, pipe};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::tap::Tap;

/// The network between hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Link {
    /// Pairs of virtual Ethernet interfaces and a bridge of the kernel, without delay or loss.
    #[default]
    Clean,
    /// A switch that delays and drops frames.
    Bad(Conditions),
}

/// The properties of a [`Link::Bad`], in each direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// The latency of a frame.
    pub delay: Duration,
    /// The maximum deviation of the latency, by which frames can overtake each other.
    pub jitter: Duration,
    /// The share of lost frames, in per cent.
    pub loss_percent: f64,
    /// The seed of the random numbers.
    pub seed: u64,
}

/// The counters of a bad link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Forwarded frames.
    pub delivered: u64,
    /// Dropped frames.
    pub lost: u64,
}

/// The MAC address of a host's interface on a [`Link::Bad`]. The switch knows all addresses.
pub(crate) fn mac(host: u32) -> [u8; 6] {
    let [a, b, c, d] = (host + 1).to_be_bytes();
    [0x02, 0, a, b, c, d]
}

#[derive(Debug, Default)]
struct Counters {
    delivered: AtomicU64,
    lost: AtomicU64,
}

/// A thread that forwards frames between hosts until it is dropped.
#[derive(Debug)]
pub(crate) struct Switch {
    counters: Arc<Counters>,
    /// Closing it ends the thread.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Switch {
    /// Creates an interface in each of the hosts, given by their first processes, and joins them.
    pub(crate) fn start(inits: &[u32], conditions: Conditions) -> io::Result<Self> {
        let counters = Arc::new(Counters::default());
        let (stopped, stop) = pipe()?;
        let (made, answer) = mpsc::channel();
        let inits = inits.to_vec();
        let for_thread = Arc::clone(&counters);
        // The thread changes its network namespace, so it does nothing else.
        let thread = thread::Builder::new()
            .name("switch".into())
            .spawn(move || {
                let taps: io::Result<Vec<_>> =
                    inits.iter().map(|pid| Tap::in_network_of(*pid)).collect();
                match taps {
                    Ok(taps) => {
                        made.send(Ok(())).ok();
                        Forwarding::new(taps, conditions, for_thread).run(&stopped);
                    }
                    Err(error) => {
                        made.send(Err(error)).ok();
                    }
                }
            })?;
        let switch = Self {
            counters,
            stop: Some(stop),
            thread: Some(thread),
        };
        answer
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("the switch's thread ended")))?;
        Ok(switch)
    }

    pub(crate) fn traffic(&self) -> Traffic {
        Traffic {
            delivered: self.counters.delivered.load(Ordering::Relaxed),
            lost: self.counters.lost.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed.
            thread.join().ok();
        }
    }
}

/// A frame in flight. Frames are ordered by their time of arrival.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    due: Instant,
    number: u64,
    port: usize,
    frame: Vec<u8>,
}

struct Forwarding {
    taps: Vec<Tap>,
    conditions: Conditions,
    counters: Arc<Counters>,
    random: fastrand::Rng,
    flights: BinaryHeap<Reverse<Flight>>,
    n_sent: u64,
}

impl Forwarding {
    fn new(taps: Vec<Tap>, conditions: Conditions, counters: Arc<Counters>) -> Self {
        Self {
            taps,
            conditions,
            counters,
            random: fastrand::Rng::with_seed(conditions.seed),
            flights: BinaryHeap::new(),
            n_sent: 0,
        }
    }

    fn run(&mut self, stopped: &PipeReader) {
        let mut buffer = vec![0; 1 << 16];
        loop {
            if self.wait(stopped) {
                return;
            }
            for port in 0..self.taps.len() {
                // An interface fails if its host is gone.
                while let Ok(Some(len)) = self.taps[port].receive(&mut buffer) {
                    self.accept(port, &buffer[..len]);
                }
            }
            self.deliver();
        }
    }

    /// Waits for a frame, or until the next frame in flight is due. Returns whether it is time to
    /// stop.
    fn wait(&self, stopped: &PipeReader) -> bool {
        let until_due = self.flights.peek().map(|Reverse(flight)| {
            let left = flight.due.saturating_duration_since(Instant::now());
            Timespec::try_from(left).expect("a delay is short")
        });
        let mut fds: Vec<_> = self
            .taps
            .iter()
            .map(|tap| PollFd::from_borrowed_fd(tap.as_fd(), PollFlags::IN))
            .collect();
        fds.push(PollFd::new(stopped, PollFlags::IN));
        match poll(&mut fds, until_due.as_ref()) {
            Ok(_) => fds.last().is_some_and(|fd| !fd.revents().is_empty()),
            Err(error) => error != rustix::io::Errno::INTR,
        }
    }

    /// Takes a frame from a host, for its destination or for all others.
    fn accept(&mut self, from: usize, frame: &[u8]) {
        let port_of = |port: usize| u32::try_from(port).map(mac);
        let known = (0..self.taps.len())
            .find(|port| port_of(*port).is_ok_and(|mac| frame.starts_with(&mac)));
        let all = 0..self.taps.len();
        for port in all.filter(|port| *port != from && known.is_none_or(|known| known == *port)) {
            if self.random.f64() * 100.0 < self.conditions.loss_percent {
                self.counters.lost.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let Conditions { delay, jitter, .. } = self.conditions;
            let late = jitter.mul_f64(2.0 * self.random.f64());
            let under_way = (delay + late).saturating_sub(jitter);
            self.flights.push(Reverse(Flight {
                due: Instant::now() + under_way,
                number: self.n_sent,
                port,
                frame: frame.to_vec(),
            }));
            self.n_sent += 1;
        }
    }

    fn deliver(&mut self) {
        let now = Instant::now();
        while let Some(Reverse(flight)) = self.flights.pop() {
            if flight.due > now {
                self.flights.push(Reverse(flight));
                return;
            }
            self.taps[flight.port].send(&flight.frame);
            self.counters.delivered.fetch_add(1, Ordering::Relaxed);
        }
    }
}
