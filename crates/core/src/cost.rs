//! Counting what operations cost, in the units of the BCL paper.

use std::fmt;
use std::ops::Sub;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Rank;

/// A kind of counted operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CostKind {
    /// R: a remote read.
    Read,
    /// W: a remote write.
    Write,
    /// A: a remote atomic.
    Atomic,
    /// B: a barrier.
    Barrier,
    /// ℓ: an operation on local memory only.
    Local,
    /// A message.
    Message,
}

/// How many operations were done, in the BCL paper's units (section 3): R, W, A, B, ℓ.
///
/// Operations on a rank's own memory count like others: the price of a program must not depend on
/// where its data happens to lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// R: remote reads (gets).
    pub reads: u64,
    /// W: remote writes (puts).
    pub writes: u64,
    /// A: remote atomics.
    pub atomics: u64,
    /// B: barriers.
    pub barriers: u64,
    /// ℓ: operations that are local by contract.
    pub local: u64,
    /// M: messages sent.
    pub messages: u64,
    /// Bytes read, written and sent; an atomic counts its operand.
    pub bytes: u64,
}

impl Sub for Costs {
    type Output = Self;

    /// The difference to `earlier`.
    fn sub(self, earlier: Self) -> Self {
        Self {
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            atomics: self.atomics - earlier.atomics,
            barriers: self.barriers - earlier.barriers,
            local: self.local - earlier.local,
            messages: self.messages - earlier.messages,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} R, {} W, {} A, {} B, {} ℓ, {} messages, {} bytes",
            self.reads,
            self.writes,
            self.atomics,
            self.barriers,
            self.local,
            self.messages,
            self.bytes
        )
    }
}

/// The counters behind [`Costs`].
#[derive(Debug, Default)]
struct Counters {
    reads: AtomicU64,
    writes: AtomicU64,
    atomics: AtomicU64,
    barriers: AtomicU64,
    local: AtomicU64,
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl Counters {
    fn add(&self, kind: CostKind, n: u64, bytes: u64) {
        let counter = match kind {
            CostKind::Read => &self.reads,
            CostKind::Write => &self.writes,
            CostKind::Atomic => &self.atomics,
            CostKind::Barrier => &self.barriers,
            CostKind::Local => &self.local,
            CostKind::Message => &self.messages,
        };
        // Counters order nothing.
        counter.fetch_add(n, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn read(&self) -> Costs {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Costs {
            reads: of(&self.reads),
            writes: of(&self.writes),
            atomics: of(&self.atomics),
            barriers: of(&self.barriers),
            local: of(&self.local),
            messages: of(&self.messages),
            bytes: of(&self.bytes),
        }
    }
}

/// The counters that a world keeps; `PGAS_STATS`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Statistics {
    /// Nothing: an operation pays one predictable branch.
    #[default]
    Off,
    /// Totals of this rank.
    Total,
    /// Totals, and one set of counters for each peer (memory grows with the number of ranks).
    PerPeer,
}

/// The counting of one world.
#[derive(Debug)]
pub(crate) struct Counting {
    total: Counters,
    peers: Box<[Counters]>,
}

impl Counting {
    pub(crate) fn new(statistics: Statistics, n_ranks: u32) -> Option<Arc<Self>> {
        let n_peers = match statistics {
            Statistics::Off => return None,
            Statistics::Total => 0,
            Statistics::PerPeer => n_ranks,
        };
        let peers = (0..n_peers).map(|_| Counters::default()).collect();
        Some(Arc::new(Self {
            total: Counters::default(),
            peers,
        }))
    }

    #[cold]
    pub(crate) fn add(&self, kind: CostKind, peer: Option<Rank>, n: u64, bytes: u64) {
        self.total.add(kind, n, bytes);
        if let Some(counters) = peer.and_then(|rank| self.peers.get(rank.index())) {
            counters.add(kind, n, bytes);
        }
    }

    pub(crate) fn total(&self) -> Costs {
        self.total.read()
    }

    pub(crate) fn peer(&self, rank: Rank) -> Option<Costs> {
        self.peers.get(rank.index()).map(Counters::read)
    }
}
