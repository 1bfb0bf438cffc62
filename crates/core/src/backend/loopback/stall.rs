//! Noticing that nothing can happen any more: somebody has left, and all others sleep.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Rank;
use crate::world::lock;

/// How long all must have slept. A rank that computes sleeps in between, or not at all.
const LIMIT: Duration = Duration::from_secs(2);
/// A rank that waits looks around at least this often.
const FRESH: Duration = Duration::from_millis(200);

/// What happens in a job, as far as it can end somebody's wait, and which ranks wait.
pub(super) struct Watch {
    events: AtomicU64,
    first_left: Mutex<Option<Rank>>,
    naps: Box<[Mutex<Option<Nap>>]>,
}

/// When a rank was last seen to wait, and since when nothing has happened meanwhile.
struct Nap {
    events: u64,
    since: Instant,
    seen: Instant,
    left: bool,
}

impl Watch {
    pub(super) fn new(n_ranks: u32) -> Self {
        Self {
            events: AtomicU64::new(0),
            first_left: Mutex::default(),
            naps: (0..n_ranks).map(|_| Mutex::default()).collect(),
        }
    }

    /// A message moved, or memory changed.
    pub(super) fn note(&self) {
        // Only compared with itself.
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    /// `rank` has left the job in good order.
    pub(super) fn leave(&self, rank: Rank) {
        let now = Instant::now();
        *lock(&self.naps[rank.index()]) = Some(Nap {
            events: 0,
            since: now,
            seen: now,
            left: true,
        });
        lock(&self.first_left).get_or_insert(rank);
        self.note();
    }

    /// `rank` wakes from its sleep; gives the rank that left first, if nobody can be woken any more.
    pub(super) fn wake(&self, rank: Rank) -> Option<Rank> {
        let events = self.events.load(Ordering::Relaxed);
        let now = Instant::now();
        self.nap(rank, events, now);
        let culprit = (*lock(&self.first_left))?;
        let mut naps = self.naps.iter();
        naps.all(|nap| {
            lock(nap)
                .as_ref()
                .is_some_and(|nap| nap.is_stuck(events, now))
        })
        .then_some(culprit)
    }

    fn nap(&self, rank: Rank, events: u64, now: Instant) {
        let mut nap = lock(&self.naps[rank.index()]);
        let since = match &*nap {
            Some(nap) if nap.events == events => nap.since,
            _ => now,
        };
        *nap = Some(Nap {
            events,
            since,
            seen: now,
            left: false,
        });
    }
}

impl Nap {
    fn is_stuck(&self, events: u64, now: Instant) -> bool {
        let still = self.events == events && now.duration_since(self.since) > LIMIT;
        self.left || still && now.duration_since(self.seen) < FRESH
    }
}
